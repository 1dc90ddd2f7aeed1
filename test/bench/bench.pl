#!/usr/bin/perl
# bench.pl: runs the cases of cases.pm with core's serial plan, core's parallel plan, ours (forced) serial and parallel,
# and the planner's own choice, interleaved; prints medians and ratios.  DuckDB runs the same queries on its own copies
# of the tables if python3 can import its module.  Counts and checksums are compared before anything is timed.
#
#   --runs N          runs of each plan
#   --cases REGEX     names of cases
#   --tables T,...    tables that are copied to DuckDB
#   --threads N       threads of DuckDB
#   --ways REGEX      serial, parallel
#   --dir DIR         directory for the tables on their way to DuckDB; the server must be able to write to it
use strict;
use warnings;
use File::Basename;
use Getopt::Long;
use lib dirname(__FILE__);
use cases;
use session;

my ($runs, $wanted, $tables, $threads, $dir, $wanted_ways) = (5, '.', '', 4, '/tmp', '.');
GetOptions('runs=i' => \$runs, 'cases=s' => \$wanted, 'tables=s' => \$tables, 'threads=i' => \$threads, 'dir=s' => \$dir, 'ways=s' => \$wanted_ways) or die;
$| = 1;

my $core = 'set hjoin_gpu.enabled = off;';
my $ours = 'set hjoin_gpu.enabled = on; set hjoin_gpu.force = on;';
my $free = 'set hjoin_gpu.enabled = on; set hjoin_gpu.force = off;';
my $serial = 'set max_parallel_workers_per_gather = 0;';
my $parallel = 'reset max_parallel_workers_per_gather;';
my @ways = ('serial' =~ /$wanted_ways/ ? ([ 'core', "$core $serial" ], [ 'ours', "$ours $serial" ]) : (),
	'parallel' =~ /$wanted_ways/ ? ([ 'core par', "$core $parallel" ], [ 'ours par', "$ours $parallel" ]) : ());
my $by_choice = [ 'choice', "$free $parallel" ];

my $duck_version;

# --- the table ---
my ($wrong, $slower) = (0, 0);
sub row { printf "%-28s %9s %9s %9s %9s %9s %9s %8s %8s %9s  %s\n", @_; }
sub ms { return defined $_[0] ? sprintf('%.0f', $_[0]) : '-'; }
sub ratio { return defined $_[0] && defined $_[1] ? sprintf('%.2fx', $_[0] / $_[1]) : '-'; }
sub least { my @known = grep { defined } @_; return @known ? (sort { $a <=> $b } @known)[0] : undef; }
sub chosen { return $_[1] !~ /^copy/ && ask("$free $_[0] explain $_[1];") =~ /GpuHashJoin/; }

sub big_case
{
	my ($name, $query, $check, $flags) = @{ $_[0] };
	$check //= $query;
	$flags //= '';
	my @mine = (@ways, chosen($parallel, $query) ? ($by_choice) : ());
	my %results = map { $_ => 1 } map { ask("$_->[1] $check;") } @mine;
	my $equal = keys %results == 1 && (keys %results)[0] ne '' ? 'equal' : 'DIFFERENT';
	my $with_duck = defined $duck_version;
	if ($with_duck)
	{
		my $got = duck("ask $check");
		$with_duck = $got !~ /^ERROR/;
		$equal = 'DIFFERENT' if $with_duck && !$results{$got};
		print "  DuckDB: $got" if !$with_duck;
	}
	$wrong++ if $equal ne 'equal';
	my %t;
	foreach my $run (1 .. $runs)
	{
		foreach my $way (@mine)
		{
			ask($way->[1]);
			push @{ $t{ $way->[0] } }, timed_ms($query);
		}
		push @{ $t{duck} }, 0 + duck("time $query") if $with_duck;
	}
	my %m = map { $_ => median(@{ $t{$_} }) } keys %t;
	my ($best, $best_core) = map { least($m{$_}, $m{"$_ par"}) } qw(ours core);
	$slower++ if defined $m{choice} && $m{choice} > $best_core * 1.03;
	row($name, ms($m{core}), ms($m{'core par'}), ms($m{ours}), ms($m{'ours par'}), ms($m{choice}), ms($m{duck}),
		ratio($m{core}, $m{ours}), ratio($best_core, $best), ratio($best_core, $m{choice}), $equal);
}

sub small_case
{
	my ($planning, $name, $query, $loops) = @_;
	my %results = map { $_ => 1 } map { ask("$_ $serial $query;") } ($core, $ours);
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
	printf "%-28s %9.4f %9.4f %+9.4f %8.2fx %8s  %s\n", $name, $c, $o, $o - $c, $c / $o,
	  $planning ? '' : chosen($serial, $query) ? 'yes' : 'no', $equal;
}

sub among { return grep { $_->[0] =~ /$wanted/i } @_; }

$duck_version = start_duck($threads, $dir, split /,/, $tables) if among(@cases::pair, @cases::tpch);
print "DuckDB $duck_version, $threads threads, its own tables in memory\n" if defined $duck_version;
print "choice: what the planner takes with parallel plans allowed, where that has our node; a ratio is core's time by ours\n\n";
row('ms', 'core', 'core par.', 'ours', 'ours par.', 'choice', 'DuckDB', 'serial', 'best', 'choice', 'results');
big_case($_) foreach among(@cases::pair, @cases::tpch);
print "\n";
printf "%-28s %9s %9s %9s %9s %8s  %s\n", 'ms each', 'core', 'ours', 'more', 'ratio', 'chosen', 'results';
small_case(0, @$_) foreach among(@cases::small);
small_case(1, @$_) foreach among(@cases::planning);
session::close_all();
print "\n$slower cases chosen by cost are more than 3 % slower than core's best\n";
print "$wrong results differ\n" if $wrong;
exit($wrong ? 1 : 0);
