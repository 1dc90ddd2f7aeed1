# Joins shared by leader and workers without a job: they build one table in their own memory and probe it themselves.
# Rows are right for all kinds, in memory and in files; a query that ends early leaves nothing; the device process has
# no part in it.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use Test::More;
use Time::HiRes qw(sleep time);

# seconds; the goal is 0.1
my $limit = 1.5;

my $settings = q{SET hjoin_gpu.force = on; SET hjoin_gpu.programs = off; SET hjoin_gpu.in_backend_rows = 10000000; SET max_parallel_workers_per_gather = 3;
	SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;};
my %joins = (
	inner => 'SELECT count(*), sum(build.id::bigint * probe.id), sum(length(build.t)) FROM build JOIN probe USING (k)',
	left => 'SELECT count(*), sum(coalesce(build.id, 7)::bigint * probe.id), sum(length(build.t)) FROM probe LEFT JOIN build USING (k)',
	full => 'SELECT count(*), sum(coalesce(build.id, 7)::bigint * coalesce(probe.id, 3)), sum(length(build.t)) FROM build FULL JOIN probe USING (k)',
	residual => 'SELECT count(*), sum(probe.id) FROM probe LEFT JOIN build ON build.k = probe.k AND build.id > probe.id',
	semi => 'SELECT count(*), sum(id) FROM probe WHERE EXISTS (SELECT 1 FROM build WHERE build.k = probe.k)',
	anti => 'SELECT count(*), sum(id) FROM probe WHERE NOT EXISTS (SELECT 1 FROM build WHERE build.k = probe.k AND build.id > probe.id)');
my %answers;

# segments of dynamic shared memory are files, which can be counted
my $node = start_node('main', conf => "max_worker_processes = 20\nmax_parallel_workers = 12\ndynamic_shared_memory_type = mmap\n");
$node->safe_psql('postgres', q{
	CREATE TABLE build AS SELECT g AS id, g % 50000 AS k, 'row ' || g AS t FROM generate_series(1, 100000) g;
	CREATE TABLE probe AS SELECT g AS id, g % 100000 AS k FROM generate_series(1, 300000) g;
	ALTER TABLE build SET (parallel_workers = 3);
	ALTER TABLE probe SET (parallel_workers = 3);
	ANALYZE build, probe});

sub segments
{
	my @files = glob($node->data_dir . '/pg_dynshmem/mmap.*');
	return scalar @files;
}

my $segments = segments();

sub nothing_left
{
	my ($what) = @_;
	my $took = wait_until(sub { is_idle($node) && segments() == $segments }, 5);
	took_less($took // 9**9**9, $limit, "$what: no job, no slab and no segment is left");
	return;
}

for my $kind (sort keys %joins)
{
	$answers{$kind} = $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; SET max_parallel_workers_per_gather = 0; $joins{$kind}");
	my $plan = $node->safe_psql('postgres', "$settings EXPLAIN (ANALYZE, TIMING OFF) $joins{$kind}");
	like($plan, qr/Parallel Custom Scan \(GpuHashJoin\)/, "$kind: the join is shared");
	like($plan, qr/Joined In: backend/, "$kind: and has no job");
	is($node->safe_psql('postgres', "$settings $joins{$kind}"), $answers{$kind}, "$kind: the answer is right");
	is($node->safe_psql('postgres', "$settings SET parallel_leader_participation = off; $joins{$kind}"), $answers{$kind}, "$kind: without the leader, too");
	is($node->safe_psql('postgres', "$settings SET max_parallel_workers = 0; $joins{$kind}"), $answers{$kind}, "$kind: and without workers");
	is($node->safe_psql('postgres', "$settings SET work_mem = '64kB'; $joins{$kind}"), $answers{$kind}, "$kind: the same by shared files");
}
nothing_left('ordinary ends');

# the query ends while the build side is read, and while rows are returned
my $slow_rows = '(SELECT * FROM build WHERE id < 4000 AND pg_sleep(0.002) IS NOT NULL) b';
my %phases = (
	reading => "SELECT count(*) FROM probe JOIN $slow_rows USING (k)",
	probing => 'SELECT count(pg_sleep(0.001)) FROM build JOIN probe USING (k)');
my $device = device_pid($node);
for my $phase (sort keys %phases)
{
	for my $how ('cancel', 'terminate', 'terminate a worker')
	{
		my $running = start_query($node, "$settings $phases{$phase}");
		my $pid;
		wait_until(sub { $pid = $node->safe_psql('postgres',
			"SELECT leader_pid FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND query LIKE '%pg_sleep%' LIMIT 1"); $pid ne '' }, 10);
		$pid = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND leader_pid = $pid LIMIT 1")
		  if $how eq 'terminate a worker';
		sleep 0.15;
		my $start = time;
		my $function = $how eq 'cancel' ? 'pg_cancel_backend' : 'pg_terminate_backend';
		$node->safe_psql('postgres', "SELECT $function($pid)");
		my ($out, $err) = finish_query($running);
		took_less(time - $start, $limit, "$phase: $how ends the query at once");
		like($err, $how eq 'cancel' ? qr/canceling statement due to user request/ : qr/terminating (connection|background worker)/, "$phase: and it says so");
		nothing_left("$phase, $how");
	}
}

# timeouts at random moments, the build included
for my $round (1 .. 60)
{
	my $kind = (sort keys %joins)[ $round % 6 ];
	$node->psql('postgres', "$settings SET statement_timeout = '" . (1 + $round * 2) . "ms'; $joins{$kind}");
}
nothing_left('timeouts at any moment');

# without the device process nothing changes
$node->safe_psql('postgres', 'SELECT hjoin_gpu_stat_reset()');
kill 'STOP', $device;
is($node->safe_psql('postgres', "$settings $joins{full}"), $answers{full}, 'nobody waits for a device process that hangs');
kill 'CONT', $device;
is(stat_value($node, 'joins_device'), 0, 'nothing was joined there');

# fewer workers than planned
$node->append_conf('postgresql.conf', 'max_parallel_workers = 4');
$node->restart;
$segments = segments();
my @many = map { [ $_, start_query($node, "$settings SET parallel_leader_participation = off; $joins{$_}") ] } sort keys %joins;
my $wrong = grep { (finish_query($_->[1]))[0] ne $answers{ $_->[0] } } @many;
is($wrong, 0, 'too few workers for all queries: the answers are right');
nothing_left('too few workers');
is(log_count($node, qr/server process .* was terminated/), 0, 'no server process died');

$node->stop;
done_testing();
