# A query that the device process cannot join returns the same rows by default, or an error with its own code on
# request, and leaves a trace.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

# in a parallel plan EXPLAIN shows only the leader's share
my $settings = 'SET hjoin_gpu.force = on; SET hjoin_gpu.programs = off; SET hjoin_gpu.in_backend_rows = 0; SET max_parallel_workers_per_gather = 0;';
my $join = 'SELECT count(*), sum(build.id), sum(probe.id) FROM build JOIN probe USING (k)';
my $chain = 'SELECT count(*), sum(a.id::bigint * p.id + b.k) FROM probe p JOIN build a ON a.k = p.k JOIN build b ON b.id = p.id';
my $answer;

# Return the SQLSTATE of a query under on_fallback = error, '00000' if it succeeds.
sub sqlstate
{
	my ($node, $more, $query) = @_;
	my ($rc, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY sqlstate\n$settings SET hjoin_gpu.on_fallback = error; $more; $query");
	return $err =~ /ERROR:\s+(\w{5})/ ? $1 : '00000';
}

# Restart the node; its new device process has the fault.
sub restart_with
{
	my ($node, $fault) = @_;
	local $ENV{HJG_FAULT} = $fault;
	$node->restart;
	wait_ready($node);
	return;
}

sub core_answer
{
	my ($node, $query) = @_;
	$query //= $join;
	return $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $query");
}

# corrupt and truncated results
for my $fault (qw(corrupt truncate))
{
	my $node = start_node($fault, fault => "$fault:result:2");
	make_tables($node);
	wait_ready($node);
	$answer = core_answer($node);
	is($node->safe_psql('postgres', "$settings $join"), $answer, "$fault result: the rows are core's");
	is(stat_value($node, 'results_rejected'), 1, "$fault result: counted");
	cmp_ok(stat_value($node, 'fallback_bad_result'), '>=', 1, "$fault result: counted as a fallback");
	cmp_ok(stat_value($node, 'batches_redone'), '>=', 1, "$fault result: its batch was redone");
	ok(log_count($node, qr/failed its check/) >= 1, "$fault result: a line in the log");
	ok(log_count($node, qr/hash join could not run in the device process: result failed its check/) >= 1,
		"$fault result: the fallback is logged");

	restart_with($node, "$fault:result:2");
	like($node->safe_psql('postgres', "$settings EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $join"),
		qr/Fallback: result failed its check/, "$fault result: EXPLAIN ANALYZE says so");
	restart_with($node, "$fault:result:2");
	is(sqlstate($node, 'SELECT 1', $join), 'XX001', "$fault result: XX001 under on_fallback = error");
	ok(defined wait_until(sub { is_idle($node) }, 10), "$fault result: nothing is left behind");
	$node->stop;
}

# the device process dies during a join
{
	my $node = start_node('dies', fault => 'die:probe:2');
	make_tables($node);
	wait_ready($node);
	$answer = core_answer($node);
	is(sqlstate($node, 'SELECT 1', $join), '55000', 'a lost device process: 55000 under on_fallback = error');
	wait_ready($node);
	like($node->safe_psql('postgres', "$settings EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $join"),
		qr/Fallback: device process lost/, 'EXPLAIN ANALYZE says so');
	wait_ready($node);
	is($node->safe_psql('postgres', "$settings SET hjoin_gpu.on_fallback = silent; $join"), $answer,
		"the rows are core's");
	wait_ready($node);
	is($node->safe_psql('postgres', "$settings SET hjoin_gpu.on_fallback = silent; $chain"), core_answer($node, $chain),
		"join above join: the rows are core's");
	wait_ready($node);
	is(sqlstate($node, q{SET hjoin_gpu.device = 'cuda:99'}, $join), '55000',
		'a device that is not there: 55000 under on_fallback = error');
	is($node->safe_psql('postgres', "$settings SET hjoin_gpu.device = 'cuda:99'; $join"), $answer,
		"a device that is not there: the rows are core's by default");
	cmp_ok(stat_value($node, 'fallback_no_device'), '>=', 2, 'and counted');
	$node->stop;
}

# an arena that is too small, without limits on a session's share
{
	my $node = start_node('small', conf => "hjoin_gpu.arena_size = '16MB'\nwork_mem = '256MB'\n" .
		join '', map { "hjoin_gpu.${_}_share = 100\n" } qw(backend idle role));
	$node->safe_psql('postgres', q{
		CREATE TABLE build AS SELECT g AS id, g::bigint AS k FROM generate_series(1, 2500000) g;
		CREATE TABLE probe AS SELECT g AS id, g::bigint * 3 AS k FROM generate_series(1, 1500000) g;
		ANALYZE build, probe;
	});
	wait_ready($node);
	$answer = core_answer($node);
	is($node->safe_psql('postgres', "$settings SET enable_mergejoin = off; $join"), $answer,
		"a full arena: the rows are core's");
	cmp_ok(stat_value($node, 'fallback_arena_full'), '>=', 1, 'a full arena: counted');
	is(sqlstate($node, 'SELECT 1', $join), '53400', 'a full arena: 53400 under on_fallback = error');
	ok(defined wait_until(sub { is_idle($node) }, 10), 'a full arena: nothing is left behind');

	# an idle session holds all of it
	my $cursor = start_query($node, "$settings SET enable_mergejoin = off; BEGIN;
		DECLARE c CURSOR FOR SELECT build.id, probe.id FROM build JOIN probe USING (k); FETCH 1 FROM c; SELECT pg_sleep(600)", 'holder');
	ok(defined wait_until(sub {
		$node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holder' AND wait_event = 'PgSleep'") }, 60),
		'a held arena: the cursor is open');
	my $said = log_count($node, qr/could not run in the device process/);
	my $plan = $node->safe_psql('postgres', "$settings SET work_mem = '128kB'; SET hash_mem_multiplier = 1;
		EXPLAIN (ANALYZE, FORMAT JSON) SELECT count(*) FROM build JOIN probe USING (k) WHERE build.id <= 400000");
	my ($loads) = $plan =~ /"Hash Batches": (\d+)/;
	my ($ms) = $plan =~ /"Execution Time": ([\d.]+)/;
	like($plan, qr/"Fallback": "shared memory full"/, 'a held arena: joins do without it');
	cmp_ok($loads, '>', 100, "a held arena: a join has $loads loads");
	is(log_count($node, qr/could not run in the device process/) - $said, 1, 'a held arena: the log has one line of it');
	took_less($ms / 1000, $loads * 0.02, 'a held arena: not each of them waits for it');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holder'");
	finish_query($cursor);
	ok(defined wait_until(sub { is_idle($node) }, 10), 'a held arena: nothing is left behind');
	$node->stop;
}

done_testing();
