#!/usr/bin/perl
# cache.pl: kept columns: a join and an aggregate of the tables of pair.sql with core's plan, with ours from pages, and with ours from kept
# columns, interleaved; medians in milliseconds, results compared with core's.  First everything kept; then with more and more of the
# blocks of s changed, before and after a VACUUM; then with a smaller and smaller cache.  DuckDB runs the same queries, if python3 can import
# its module, in turn with the others; its tables stay as they are, as the changes leave all values as they were.
#
#   --runs N          runs of each, after one that is not counted
#   --pgdata DIR      data directory of the server, which is started anew with other sizes
#   --threads N       threads of DuckDB
#   --dir DIR         directory for the tables on their way to DuckDB; the server must be able to write to it
use strict;
use warnings;
use File::Basename;
use Getopt::Long;
use lib dirname(__FILE__);
use session;

my ($runs, $pgdata, $threads, $dir) = (5, '', 4, '/tmp');
GetOptions('runs=i' => \$runs, 'pgdata=s' => \$pgdata, 'threads=i' => \$threads, 'dir=s' => \$dir) or die;
$| = 1;

my @ways = ([ core => 'set hjoin_gpu.enabled = off;' ], [ pages => 'set hjoin_gpu.enabled = on; set hjoin_gpu.kept_columns = off;' ],
	[ kept => 'set hjoin_gpu.enabled = on; set hjoin_gpu.kept_columns = on;' ]);
my %queries = (
	join      => 'select count(*), sum(s.v) from s join r on s.k = r.k',
	filter    => 'select count(*), sum(m) from s where v between 100 and 120',
	aggregate => 'select v, count(*), sum(k) from s group by v');
my $failed = 0;
my $duck_version = start_duck($threads, $dir, 's', 'r');

sub measure
{
	my ($what) = @_;
	foreach my $name (sort keys %queries)
	{
		my (%t, $reference);
		my $verdict = 'equal';
		foreach my $run (0 .. $runs)
		{
			foreach my $way (@ways)
			{
				ask($way->[1]);
				if ($run > 0) { push @{ $t{ $way->[0] } }, timed_ms($queries{$name}); next; }
				my $rows = join "\n", sort split /\n/, ask("$queries{$name};");
				$reference //= $rows;
				$verdict = "DIFFERENT ($way->[0])", $failed = 1 if $rows ne $reference;
			}
			push @{ $t{duck} }, 0 + duck("time $queries{$name}") if defined $duck_version;
		}
		$verdict = 'DIFFERENT (DuckDB)', $failed = 1 if defined $duck_version && join("\n", sort split /\n/, duck("ask $queries{$name}")) ne $reference;
		my %median = map { $_ => median(@{ $t{$_} }) } keys %t;
		printf "%-34s %-10s" . ' %9.1f' x @ways . " %9s   %6.2f %6.2f   %s\n", $what, $name, @median{ map { $_->[0] } @ways },
		  defined $duck_version ? sprintf('%.1f', $median{duck}) : '-', $median{core} / $median{kept}, $median{pages} / $median{kept}, $verdict;
	}
}

# Keep both tables; returns the percentage of their blocks that are kept then.
sub keep
{
	my $percent = ask("select 100 * (hjoin_gpu_keep('s') + hjoin_gpu_keep('r')) * 8192 / (pg_relation_size('s') + pg_relation_size('r'));");
	chomp $percent;
	return $percent;
}
sub kept_mb { my $mb = ask('select coalesce(sum(bytes), 0) / 1024 / 1024 from hjoin_gpu_cache;'); chomp $mb; return $mb; }

sub restart
{
	my ($mb) = @_;
	ask("alter system set hjoin_gpu.cache_size = '${mb}MB';");
	session::close_all();
	system('pg_ctl', '-s', '-w', '-D', $pgdata, '-l', "$pgdata.log", 'restart') == 0 or die "the server did not start\n";
}

print "DuckDB $duck_version, $threads threads, its own tables in memory\n" if defined $duck_version;
printf "%-34s %-10s" . ' %9s' x @ways . " %9s   %6s %6s   %s\n", 'state', 'query', (map { $_->[0] } @ways), 'DuckDB', 'core', 'pages', 'over kept; results';
# a VACUUM right after an asynchronous commit may find rows that are not known to be safe yet, and nothing all-visible
ask('checkpoint; vacuum s; vacuum r;');
my $kept = keep();
my $needed = kept_mb();
measure(sprintf '%.0f %% kept, %.0f MB', $kept, $needed);
foreach my $percent (1, 10, 50, 100)
{
	ask("update s set v = v where (ctid::text::point)[0]::bigint % 100 < $percent;");
	measure("$percent % of the blocks changed");
	ask('vacuum s;');
	measure('... and vacuumed');
	keep();
}
foreach my $part (1, 2, 4, 16)
{
	restart(int(kept_mb() / $part) + 8) if $part == 1;
	restart(int($needed / $part) + 1) if $part > 1;
	$kept = keep();
	$needed = kept_mb() if $part == 1;
	measure(sprintf '%.0f %% kept, cache for %.0f %%', $kept, 100 * kept_mb() / $needed);
}
exit $failed;
