# A query ends in the middle of each phase: at once, and nothing is left behind.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $query = 'SELECT hjoin_gpu_self_test(100000, 2000000)';
my $quick = 'SELECT hjoin_gpu_self_test(1000, 1000)';

# seconds; the goal is 0.1
my $limit = 1.0;

my $node = start_node('main');
make_tables($node);
wait_ready($node, 10);

for my $phase (qw(build probe result))
{
	{
		local $ENV{HJG_FAULT} = "slow:$phase:4000ms";
		$node->restart;
	}
	wait_ready($node, 10);
	my $device = device_pid($node);
	my $state = $phase eq 'build' ? 'building' : 'probing';

	for my $how (qw(cancel terminate))
	{
		my $running = start_query($node, $query);
		my $pid = backend_of($node, $state);
		ok($pid, "$phase: a join is in this phase");
		sleep 0.1;
		my $start = time;
		$node->safe_psql('postgres', "SELECT pg_${how}_backend($pid)");
		my (undef, $err) = finish_query($running);
		took_less(time - $start, $limit, "$phase: $how ends the query at once");
		like($err, $how eq 'cancel' ? qr/canceling statement due to user request/ : qr/terminating connection/,
			"$phase: and says so");
		my $took = wait_until(sub { is_idle($node) }, 10);
		took_less($took // 9**9**9, $limit, "$phase: $how leaves no job and no memory behind")
		  or diag($node->safe_psql('postgres', 'SELECT * FROM hjoin_gpu_jobs'));
	}

	my $start = time;
	my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '300ms'; $query");
	like($err, qr/statement timeout/, "$phase: statement_timeout works");
	took_less(time - $start - 0.3, $limit, "$phase: in time");
	ok(defined wait_until(sub { is_idle($node) }, $limit), "$phase: and leaves nothing behind");

	# a subtransaction that fails at the first row releases its resources before the transaction ends
	($rc, $out, $err) = $node->psql('postgres', qq{
		SET hjoin_gpu.force = on;
		SET hjoin_gpu.in_backend_rows = 0;
		SET max_parallel_workers_per_gather = 0;
		DO \$\$
		DECLARE
			njobs bigint;
		BEGIN
			BEGIN
				PERFORM 1 / (probe.id - probe.id) FROM build JOIN probe USING (k);
				RAISE 'the join did not fail';
			EXCEPTION WHEN division_by_zero THEN
				NULL;
			END;
			FOR i IN 1..50 LOOP
				SELECT count(*) INTO njobs FROM hjoin_gpu_jobs;
				EXIT WHEN njobs = 0;
				PERFORM pg_sleep(0.02);
			END LOOP;
			RAISE NOTICE '% jobs are left', njobs;
		END \$\$});
	like($err, qr/NOTICE:  0 jobs are left/, "$phase: a failed subtransaction leaves nothing behind");
	is(device_pid($node), $device, "$phase: the device process was not harmed");
	cmp_ok(stat_value($node, 'jobs_cancelled'), '>=', 3, "$phase: abandoned jobs are counted");
}

# errors between lease and release, repeatedly
$node->restart;
wait_ready($node, 10);
$node->psql('postgres', "SET statement_timeout = '" . (1 + $_ % 40) . "ms'; $query") for 1 .. 80;
ok(defined wait_until(sub { is_idle($node) }, 5), 'many timeouts at any moment leave nothing behind');
is($node->safe_psql('postgres', $quick), 1000, 'the service still works');
is(stat_value($node, 'device_deaths'), 0, 'and its process lives');

# the node counts or adds up pairs, in the backend or in workers beside the device process: 10^10 pairs take half a
# second
$node->safe_psql('postgres', 'CREATE TABLE one_key AS SELECT 7 AS k, g AS v FROM generate_series(1, 500000) g; ANALYZE one_key');
foreach my $what ('count(*)', 'sum(a.v + b.v)')
{
	foreach my $how ('in_backend_rows = -1', 'in_backend_rows = 0')
	{
		my $settings = "SET hjoin_gpu.force = on; SET hjoin_gpu.$how; SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0;";
		my $sums = "SELECT $what FROM one_key a JOIN one_key b USING (k)";
		like($node->safe_psql('postgres', "$settings EXPLAIN $sums"), qr/Aggregates: /, "$what, $how: the node aggregates");
		my $running = start_query($node, "$settings $sums");
		my $found = wait_until(sub { $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%$sums%' AND pid <> pg_backend_pid()") > 0 }, 5);
		ok(defined $found, "$what, $how: it runs");
		sleep 0.7;
		my $start = time;
		$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%one_key b%' AND backend_type = 'client backend' AND pid <> pg_backend_pid()");
		my (undef, $err) = finish_query($running);
		took_less(time - $start, $limit, "$what, $how: cancel ends it at once");
		like($err, qr/canceling statement due to user request/, "$what, $how: and says so");
		ok(defined wait_until(sub { is_idle($node) }, 5), "$what, $how: nothing is left behind");
	}
}

# a cancel while keys are copied to the arena comes before the last of them
$node->safe_psql('postgres', q{CREATE UNLOGGED TABLE wide AS SELECT g::int8 AS a, -g::int8 AS b FROM generate_series(1, 4000000) g;
	VACUUM ANALYZE wide});
my $keys_mb = 4000000 * 16 / 1048576;
my ($moved_mb, $ended_after);
for my $try (1 .. 5)
{
	$node->restart;
	wait_ready($node, 10);
	my $moving = start_query($node, q{SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0; SET max_parallel_workers_per_gather = 0; SET work_mem = '1GB';
		SELECT count(*) FROM wide p JOIN wide b ON p.a = b.a AND p.b = b.b}, 'moving');
	$node->safe_psql('postgres', q{SET statement_timeout = '30s'; DO $$ BEGIN
		LOOP EXIT WHEN (SELECT leased_bytes FROM hjoin_gpu_arena()) > 4000000; END LOOP;
		PERFORM pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'moving';
		END $$});
	my $start = time;
	my (undef, $err) = finish_query($moving);
	$ended_after = time - $start;
	like($err, qr/canceling statement due to user request/, "keys that move, $try: the query is cancelled");
	# all memory that was leased since the start is now leased or warm
	$moved_mb = $node->safe_psql('postgres', 'SELECT (leased_bytes + warm_bytes) / 1048576 FROM hjoin_gpu_arena()');
	last if $moved_mb < $keys_mb && $ended_after < 0.2;
}
cmp_ok($moved_mb, '<', $keys_mb, 'a cancel does not wait until all keys are in the arena');
took_less($ended_after, 0.2, 'and takes effect at once');

# groups: while the table grows, is written to files, and is read back
my $grouping = q{SET hjoin_gpu.force = on; SET max_parallel_workers_per_gather = 0; SET work_mem = '1MB';
	SELECT a, sum(b), count(*), avg(b::numeric) FROM wide GROUP BY a HAVING count(*) > 1};
like($node->safe_psql('postgres', $grouping =~ s/SELECT a/EXPLAIN SELECT a/r), qr/GpuAggregate/, 'groups: the node groups');
for my $after (0.05, 0.4, 0.9)
{
	my $running = start_query($node, $grouping, 'groups');
	ok(defined wait_until(sub { $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'groups' AND query LIKE '%wide%'") > 0 }, 5), "groups, $after: it runs");
	sleep $after;
	my $start = time;
	$node->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'groups'");
	my (undef, $err) = finish_query($running);
	took_less(time - $start, $limit, "groups, $after: cancel ends it at once");
	like($err, qr/canceling statement due to user request/, "groups, $after: and says so");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ls_tmpdir()'), 0, "groups, $after: no file is left");
}
like(($node->psql('postgres', "SET temp_file_limit = '1MB'; $grouping"))[2], qr/temporary file size exceeds/, 'groups: temp_file_limit holds');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ls_tmpdir()'), 0, 'groups: and no file is left');

# a client disappears
my $running = start_query($node, 'SELECT hjoin_gpu_self_test(1000000, 300000000)');
my $pid = backend_of($node, '.');
$running->{handle}->kill_kill;
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
ok(defined wait_until(sub { is_idle($node) }, 5), 'nothing is left of a client that went away');

$node->stop;
done_testing();
