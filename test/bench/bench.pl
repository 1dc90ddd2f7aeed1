#!/usr/bin/perl
# bench.pl: the table of cases.  Each case runs with core's serial plan, core's
# parallel plan, and ours (forced), serial and parallel, in turn; medians, ratios, and
# whether the planner would have chosen our node by itself.  Counts and
# checksums are compared before anything is timed.
use strict;
use warnings;
use Getopt::Long;
use IPC::Open2;
use Time::HiRes 'time';

my ($runs, $wanted) = (5, '.');
GetOptions('runs=i' => \$runs, 'cases=s' => \$wanted) or die;
$| = 1;

my $pairs = 'count(*), sum((coalesce(a.id, 0)::bigint * 31 + coalesce(b.id, 0)) % 1000003)';
# name, query, query for count and checksum
my @big = (
	[ 'count(*)', 'select count(*) from s a join r b on a.k = b.k', "select $pairs from s a join r b on a.k = b.k" ],
	[ 'sum of both sides', 'select sum(a.v + b.v) from s a join r b on a.k = b.k' ],
	[ 'rows (OFFSET 0)', 'select count(*) from (select a.id, a.v, b.v as bv from s a join r b on a.k = b.k offset 0) q' ],
	[ 'LEFT', 'select count(*), count(b.id) from s a left join r b on a.m = b.k', "select $pairs from s a left join r b on a.m = b.k" ],
	[ 'RIGHT, half the build side', 'select count(*), count(a.id) from s a right join r_half b on a.m = b.k', "select $pairs from s a right join r_half b on a.m = b.k" ],
	[ 'FULL', 'select count(*), count(a.id), count(b.id) from s a full join r_half b on a.m = b.k', "select $pairs from s a full join r_half b on a.m = b.k" ],
	[ 'SEMI', 'select count(*) from s a where exists (select 1 from r b where b.k = a.m)', 'select count(*), sum(a.id::bigint) from s a where exists (select 1 from r b where b.k = a.m)' ],
	[ 'ANTI', 'select count(*) from s a where not exists (select 1 from r_half b where b.k = a.k)', 'select count(*), sum(a.id::bigint) from s a where not exists (select 1 from r_half b where b.k = a.k)' ],
	[ 'duplicates 1:4', 'select count(*) from s a join d b on a.k = b.k', "select $pairs from s a join d b on a.k = b.k" ],
	[ 'residual qual', 'select count(*) from s a join r b on a.k = b.k and a.v > b.v', "select $pairs from s a join r b on a.k = b.k and a.v > b.v" ],
	[ 'selective build side', 'select count(*) from s a join r b on a.k = b.k where b.v < 10', "select $pairs from s a join r b on a.k = b.k where b.v < 10" ],
	[ 'bigint key, quarter', 'select count(*), sum(b.v) from s_other a join r_other b on a.kb = b.kb', "select $pairs from s_other a join r_other b on a.kb = b.kb" ],
	[ 'text key, quarter', 'select count(*), sum(b.v) from s_other a join r_other b on a.kt = b.kt', "select $pairs from s_other a join r_other b on a.kt = b.kt" ],
	[ 'two int keys, quarter', 'select count(*), sum(b.v) from s_other a join r_other b on a.k1 = b.k1 and a.k2 = b.k2', "select $pairs from s_other a join r_other b on a.k1 = b.k1 and a.k2 = b.k2" ],
	[ 'two joins', 'select count(*), sum(b.v + c.v) from s a join r b on a.k = b.k join r_half c on a.m = c.k', 'select count(*), sum((a.id::bigint * 31 + b.id + c.id) % 1000003) from s a join r b on a.k = b.k join r_half c on a.m = c.k' ],
	[ 'group by above', 'select b.v, count(*) from s a join r b on a.k = b.k group by b.v order by b.v' ],);
# name, query, loops
my @small = (
	[ '10 x 10 rows', 'select count(*) from t10 a join t10 b on a.k = b.k', 300 ],
	[ '1000 x 10 rows', 'select count(*) from t1000 a join t10 b on a.k = b.k', 200 ],
	[ '1000 x 1000 rows', 'select count(*) from t1000 a join t1000 b on a.k = b.k', 100 ],
	[ '100000 x 1000 rows', 'select count(*) from t100000 a join t1000 b on a.k = b.k', 10 ],
	[ '100000 x 100000 rows', 'select count(*) from t100000 a join t100000 b on a.k = b.k', 5 ],);
my @planning = (
	[ 'planning 2 relations', 'explain select count(*) from t1000 a join t1000 b on a.k = b.k', 1000 ],
	[ 'planning 4 relations', 'explain select count(*) from t1000 a join t1000 b on a.k = b.k join t1000 c on c.k = b.v join t1000 d on d.k = c.v', 200 ],
	[ 'planning 6 relations', 'explain select count(*) from t1000 a join t1000 b on a.k = b.k join t1000 c on c.k = b.v join t1000 d on d.k = c.v join t1000 e on e.v = d.k join t1000 f on f.v = e.k', 30 ],);

my $core = 'set hjoin_gpu.enabled = off;';
my $ours = 'set hjoin_gpu.enabled = on; set hjoin_gpu.force = on;';
my $free = 'set hjoin_gpu.enabled = on; set hjoin_gpu.force = off;';
my $serial = 'set max_parallel_workers_per_gather = 0;';
my $parallel = 'reset max_parallel_workers_per_gather;';
my @ways = ([ 'core', "$core $serial" ], [ 'core par', "$core $parallel" ], [ 'ours', "$ours $serial" ], [ 'ours par', "$ours $parallel" ]);

my $pid = open2(my $from, my $to, 'psql', '-XqAt', '-f', '-');

sub ask
{
	my ($sql) = @_;
	print $to "$sql\n\\echo \@\@\@\n";
	$to->flush;
	my $out = '';
	while (my $line = <$from>)
	{
		return $out if $line eq "\@\@\@\n";
		$out .= $line;
	}
	die "the server is gone\n";
}

sub median
{
	my @v = sort { $a <=> $b } @_;
	return $v[ @v / 2 ];
}

my ($wrong, $slower) = (0, 0);
sub row { printf "%-28s %10s %10s %10s %10s %9s %9s %7s  %s\n", @_; }
sub chosen { return ask("$free $_[0] explain $_[1];") =~ /GpuHashJoin/ ? 'yes' : 'no'; }

row('ms', 'core', 'core par.', 'ours', 'ours par.', 'to core', 'to par.', 'chosen', 'results');
foreach my $case (@big)
{
	my ($name, $query, $check) = @$case;
	next unless $name =~ /$wanted/i;
	$check //= $query;
	my %results = map { $_ => 1 } map { ask("$_->[1] $check;") } @ways;
	my $equal = keys %results == 1 && (values %results) ? 'equal' : 'DIFFERENT';
	$wrong++ if $equal ne 'equal';
	my %t;
	foreach my $run (1 .. $runs)
	{
		foreach my $way (@ways)
		{
			ask($way->[1]);
			my $start = time();
			ask("$query;");
			push @{ $t{ $way->[0] } }, (time() - $start) * 1000;
		}
	}
	my %m = map { $_ => median(@{ $t{$_} }) } keys %t;
	my $best = $m{'ours par'} < $m{ours} ? $m{'ours par'} : $m{ours};
	row($name, (map { sprintf '%.0f', $m{ $_->[0] } } @ways), sprintf('%.2fx', $m{core} / $m{ours}), sprintf('%.2fx', $m{'core par'} / $best), chosen($parallel, $query), $equal);
}
print "\n";
row('ms each', 'core', '', 'ours', 'difference', 'to core', '', 'chosen', 'results');
foreach my $case (@small, @planning)
{
	my ($name, $query, $loops) = @$case;
	next unless $name =~ /$wanted/i;
	my $planning = $name =~ /^planning/;
	my %results = map { $_ => 1 } map { ask("$_->[1] $query;") } ($ways[0], $ways[2]);
	my $equal = $planning ? '' : keys %results == 1 ? 'equal' : 'DIFFERENT';
	$wrong++ if $equal eq 'DIFFERENT';
	my (@c, @o);
	foreach my $run (1 .. $runs)
	{
		ask("$core $serial");
		push @c, ask("select bench_loop('$query', $loops);");
		ask(($planning ? $free : $ours) . " $serial");
		push @o, ask("select bench_loop('$query', $loops);");
	}
	my ($c, $o) = (median(@c), median(@o));
	row($name, sprintf('%.4f', $c), '', sprintf('%.4f', $o), sprintf('%+.4f', $o - $c), sprintf('%.2fx', $c / $o), '', $planning ? '' : chosen($serial, $query), $equal);
}
close $to;
waitpid $pid, 0;
print "\n$wrong results differ\n" if $wrong;
exit($wrong ? 1 : 0);
