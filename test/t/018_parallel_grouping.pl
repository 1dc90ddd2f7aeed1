# Groups shared by leader and workers: the query is cancelled, its leader or a worker is terminated, or files outgrow
# temp_file_limit, in each phase; nothing is left behind.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use Test::More;
use Time::HiRes qw(sleep time);

# seconds; the goal is 0.1
my $limit = 1.5;

my $settings = q{SET hjoin_gpu.force = on; SET hjoin_gpu.programs = off; SET max_parallel_workers_per_gather = 3; SET parallel_setup_cost = 0;
	SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET cpu_tuple_cost = 5;};
my $groups = 'SELECT k, id % 2 AS odd, count(*) AS n, sum(id) AS s FROM items GROUP BY k, id % 2';
my $whole = "SELECT count(*), sum(n), sum(s) FROM ($groups OFFSET 0) q";
# two such groupings, one above the other
my $values = 'SELECT count(*), sum(n), sum(s) FROM (SELECT k % 30000, count(DISTINCT id % 70) AS n, sum(id) AS s FROM items GROUP BY 1 OFFSET 0) q';

# segments of dynamic shared memory are files, which can be counted
my $node = start_node('main', conf => "max_worker_processes = 20\nmax_parallel_workers = 12\ndynamic_shared_memory_type = mmap\n");
$node->safe_psql('postgres', q{
	CREATE TABLE items AS SELECT g AS id, (g * 7919::bigint % 150000)::int AS k FROM generate_series(1, 300000) g;
	ALTER TABLE items SET (parallel_workers = 3);
	ALTER TABLE items ALTER k SET STATISTICS 1000, ALTER id SET STATISTICS 1000;
	ANALYZE items});
wait_ready($node, 10);

sub segments
{
	my @files = glob($node->data_dir . '/pg_dynshmem/mmap.*');
	return scalar @files;
}

sub temp_files
{
	my @files = glob($node->data_dir . '/base/pgsql_tmp/*');
	return scalar @files;
}

my $segments = segments();

sub nothing_left
{
	my ($what) = @_;
	my $took = wait_until(sub { segments() == $segments && temp_files() == 0 }, 5);
	return took_less($took // 9**9**9, $limit, "$what: no segment and no file is left");
}

my $answer = $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; SET max_parallel_workers_per_gather = 0; $whole");
like($node->safe_psql('postgres', "$settings EXPLAIN $whole"), qr/Parallel Custom Scan \(GpuAggregate\)/, 'the grouping is shared');
is($node->safe_psql('postgres', "$settings $whole"), $answer, 'the answer is right');
is($node->safe_psql('postgres', "$settings SET work_mem = '64kB'; $whole"), $answer, 'the same with little memory');
is($node->safe_psql('postgres', "$settings SET parallel_leader_participation = off; $whole"), $answer, 'the same without the leader');
is((() = $node->safe_psql('postgres', "$settings EXPLAIN $values") =~ /Parallel Custom Scan \(GpuAggregate\)/g), 2, 'rows that are made distinct are shared, and so are their groups');
is($node->safe_psql('postgres', "$settings $values"), $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $values"), 'the answer is right');
nothing_left('ordinary ends');

# the query ends while rows are read, while a worker waits for others that read, and while groups are returned
my %phases = (
	reading => 'SELECT count(*) FROM (SELECT k, id % 2, count(*) FROM items WHERE id < 4000 AND pg_sleep(0.002) IS NOT NULL GROUP BY k, id % 2 OFFSET 0) q',
	waiting => 'SELECT count(*) FROM (SELECT k, id % 2, count(*) FROM items WHERE id % 100000 > 0 OR pg_sleep(5) IS NOT NULL GROUP BY k, id % 2 OFFSET 0) q',
	'handing out' => 'SELECT count(*) FROM (SELECT k, id % 2, count(*) FROM items GROUP BY k, id % 2 HAVING pg_sleep(0.002) IS NOT NULL OFFSET 0) q');
for my $phase (sort keys %phases)
{
	for my $how ('cancel', 'terminate', 'terminate a worker')
	{
		my $running = start_query($node, "$settings $phases{$phase}");
		my $leader;
		my $pid;
		wait_until(sub { $leader = $node->safe_psql('postgres',
			"SELECT leader_pid FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND leader_pid IS NOT NULL LIMIT 1"); $leader ne '' }, 10);
		sleep($phase eq 'reading' ? 0.2 : 0.8);
		$pid = $how eq 'terminate a worker' ? $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE leader_pid = $leader LIMIT 1") : $leader;
		my $start = time;
		my $function = $how eq 'cancel' ? 'pg_cancel_backend' : 'pg_terminate_backend';
		$node->safe_psql('postgres', "SELECT $function($pid)");
		my ($out, $err) = finish_query($running);
		took_less(time - $start, $limit, "$phase: $how ends the query at once");
		like($err, $how eq 'cancel' ? qr/canceling statement due to user request/ : qr/terminating (connection|background worker)/, "$phase: and it says so");
		nothing_left("$phase, $how");
	}
}

# files: of full tables, of exchanged groups, of a partition that is divided further
for my $case ([ 'full tables', "SET work_mem = '64kB'", '64kB' ], [ 'exchange', "SET work_mem = '64MB'", '64kB' ])
{
	my ($name, $memory, $most) = @$case;
	for my $query ($whole, $values)
	{
		my ($rc, $out, $err) = $node->psql('postgres', "$settings $memory; SET temp_file_limit = '$most'; $query");
		like($err, qr/temporary file size exceeds "?temp_file_limit/, "$name: temp_file_limit holds");
		nothing_left("$name, beyond temp_file_limit");
	}
}

# timeouts at random moments
for my $round (1 .. 40)
{
	my $work_mem = $round % 2 ? '64kB' : '64MB';
	my $query = $round % 4 < 2 ? $whole : $values;
	$node->psql('postgres', "$settings SET work_mem = '$work_mem'; SET statement_timeout = '" . (1 + $round * 6) . "ms'; $query");
}
nothing_left('timeouts at any moment');

# only some groups are read
is($node->safe_psql('postgres', "$settings SELECT count(*) FROM ($groups LIMIT 7) q"), 7, 'an end before the end');
nothing_left('an end before the end');

# fewer workers than planned
$node->append_conf('postgresql.conf', 'max_parallel_workers = 4');
$node->restart;
$segments = segments();
my @many = map { start_query($node, "$settings SET parallel_leader_participation = " . ($_ % 2 ? 'on' : 'off') . "; $whole") } 1 .. 5;
my $wrong = grep { (finish_query($_))[0] ne $answer } @many;
is($wrong, 0, 'too few workers for all queries: the answers are right');
nothing_left('too few workers');
is(log_count($node, qr/server process .* was terminated/), 0, 'no server process died');

$node->stop;
done_testing();
