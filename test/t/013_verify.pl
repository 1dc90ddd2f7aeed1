# A device process returns wrong results with a valid checksum: a join that is compared with core's switches joins off
# for everybody, until the statistics are reset.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use Test::More;

my $on_device = 'SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0;';
my $serial = "$on_device SET max_parallel_workers_per_gather = 0;";
my $parallel = "$on_device SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;";
my %joins = (
	counted => 'SELECT count(*) FROM build JOIN probe USING (k)',
	'with columns' => 'SELECT count(*), sum(hashtext(build.id || $$ $$ || probe.id)::bigint) FROM build JOIN probe USING (k)');
my $node = start_node('main', fault => 'lose:result:2');
my %answers;

make_tables($node);
$answers{$_} = $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $joins{$_}") for keys %joins;

sub restart_with
{
	local $ENV{HJG_FAULT} = $_[0];
	$node->restart;
	wait_ready($node, 10);
	return;
}

restart_with('lose:result:2');
isnt($node->safe_psql('postgres', "$serial $joins{counted}"), $answers{counted}, 'the loss of a pair passes the check of the result');
is(stat_value($node, 'results_rejected'), 0, 'and nobody notices');

for my $kind (sort keys %joins)
{
	for my $how ($serial, $parallel)
	{
		my $what = "$kind, " . ($how eq $serial ? 'serial' : 'shared');
		restart_with('lose:result:2');
		my $log = log_count($node, 'differs from core');
		my ($rc, $out, $err) = $node->psql('postgres', "$how SET hjoin_gpu.verify = 1; $joins{$kind}");
		isnt($out, $answers{$kind}, "$what: a row is missing");
		like($err, qr/WARNING:.*a join by GpuHashJoin differs from core's: it is switched off for all sessions.*HINT:  Do not use the result/s,
			"$what: who asked is warned");
		cmp_ok(log_count($node, 'differs from core'), '>', $log, "$what: and the log says so");
		is(stat_value($node, 'verified_mismatches'), 1, "$what: it is counted");
		is($node->safe_psql('postgres', "$how $joins{$kind}"), $answers{$kind}, "$what: the next query is core's");
		unlike($node->safe_psql('postgres', "$how EXPLAIN $joins{$kind}"), qr/GpuHashJoin/, "$what: whatever the settings");
	}
}

like($node->safe_psql('postgres', q{SELECT value, detail FROM hjoin_gpu_stat WHERE name = 'available'}), qr/^0\|a join differed from core's$/,
	'the view says why');
my ($rc, $out, $err) = $node->psql('postgres', "$serial SET hjoin_gpu.explain_declined = on; EXPLAIN $joins{counted}");
like($err, qr/Reason: a verified join differed from core's/, 'and so does the planner');
$node->safe_psql('postgres', 'CREATE ROLE nobody LOGIN');
($rc, $out, $err) = $node->psql('postgres', 'SET ROLE nobody; SELECT hjoin_gpu_stat_reset()');
like($err, qr/permission denied/, 'not everybody can switch joins on again');
($rc, $out, $err) = $node->psql('postgres', 'SET ROLE nobody; SET hjoin_gpu.verify = 0.5');
like($err, qr/permission denied/, 'nor say what is verified');

$node->safe_psql('postgres', 'SELECT hjoin_gpu_stat_reset()');
like($node->safe_psql('postgres', "$serial EXPLAIN $joins{counted}"), qr/GpuHashJoin/, 'after a reset the node is chosen');
is($node->safe_psql('postgres', "$serial SET hjoin_gpu.verify = 1; $joins{counted}"), $answers{counted}, 'and is right');
is(stat_value($node, 'verified_joins') . ' ' . stat_value($node, 'verified_mismatches'), '1 0', 'as the comparison shows');

# a plan made before
restart_with('lose:result:7');
$out = $node->safe_psql('postgres', "$serial SET plan_cache_mode = force_generic_plan; PREPARE q AS $joins{counted}; EXECUTE q; SET hjoin_gpu.verify = 1; EXECUTE q; EXECUTE q;
	EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE q");
like($out, qr/^$answers{counted}\n(?!$answers{counted})\d+\n$answers{counted}\n.*Fallback: a join differed from core's/s, 'a plan that was made before goes on without the device process');

$node->stop;
done_testing();
