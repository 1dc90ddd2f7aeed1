# Several emulated GPUs: each has its own costs, and joins of several sessions spread over them.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

use_emulated_cuda();
# two devices of a credible speed, of which the second is eight times slower
@ENV{qw(HJG_STUB_DEVICES HJG_STUB_FASTER HJG_STUB_MEMORY)} = (2, 200, 3000);

sub wait_devices
{
	my ($node, $n) = @_;
	return wait_until(sub {
		$node->safe_psql('postgres', q{SELECT count(*) FROM hjoin_gpu_devices WHERE kind = 'cuda' AND state = 'ready'}) == $n
	}, 10);
}

# an emulated kernel may take seconds for the large joins of a calibration
my $node = start_node('two', conf => "hjoin_gpu.device_timeout = '60s'\n");
make_tables($node);
ok(defined wait_devices($node, 2), 'both devices are listed');

# --- costs ---
my $costs = q{SELECT device, string_agg(name || '=' || value, ' ' ORDER BY name) FROM hjoin_gpu_costs
	WHERE device LIKE 'cuda:%' GROUP BY 1 ORDER BY 1};
is($node->safe_psql('postgres', $costs), '', 'costs of no device before calibration');
# other processes on the machine disturb the emulated device's times
my $slower;
for my $try (1 .. 3)
{
	$node->safe_psql('postgres', 'SELECT count(*) FROM hjoin_gpu_calibrate()');
	$slower = $node->safe_psql('postgres', q{SELECT count(*) FROM hjoin_gpu_costs a JOIN hjoin_gpu_costs b USING (name)
		WHERE a.device = 'cuda:0' AND b.device = 'cuda:1' AND name IN ('gpu_in', 'gpu_sort_row') AND b.value > 2 * a.value});
	last if $slower == 2;
}
my $measured = $node->safe_psql('postgres', $costs);
like($measured, qr/^cuda:0\|.*\ncuda:1\|/, 'each device has costs of its own');
is($slower, 2, 'those of a slower device are higher');
is($node->safe_psql('postgres', q{SELECT count(*) FROM hjoin_gpu_costs
	WHERE device IS NULL AND name LIKE 'gpu%' AND value <> default_value}), 0, 'a device that was not measured has the defaults');

sub predicted_transfer
{
	my ($device) = @_;
	my $text = $node->safe_psql('postgres', "SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0; "
		. "SET hjoin_gpu.device = '$device'; SET max_parallel_workers_per_gather = 0; "
		. 'EXPLAIN (ANALYZE, COSTS OFF) SELECT count(*) FROM build JOIN probe ON build.id = probe.k');
	return $text =~ /Device: $device\b.*Predicted Device Phases: Transfer=([0-9.]+)/s ? $1 : 0;
}
my ($fast, $slow) = (predicted_transfer('cuda:0'), predicted_transfer('cuda:1'));
cmp_ok($fast, '>', 0, 'a join on the first device is predicted');
cmp_ok($slow, '>', 2 * $fast, 'with the costs of the device that is asked for');

$node->restart;
wait_devices($node, 2);
is($node->safe_psql('postgres', $costs), $measured, 'the costs outlive a restart');

# --- several concurrent joins; the cpu engine's costs are prohibitive ---
my $auto = q{SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0; SET max_parallel_workers_per_gather = 0;
	SET hjoin_gpu.build_tuple_cost = 100; SET hjoin_gpu.probe_tuple_cost = 100;};
my $query = 'SELECT build.id, probe.id FROM build JOIN probe USING (k)';
sub device_beside
{
	my ($ncursors) = @_;
	my $cursors = join '', map { "DECLARE c$_ CURSOR FOR $query; FETCH 1 FROM c$_; " } 1 .. $ncursors;
	my $text = $node->safe_psql('postgres', "$auto BEGIN; $cursors EXPLAIN (ANALYZE, COSTS OFF) $query; COMMIT");
	return $text =~ /Device: (\S+)/ ? $1 : 'none';
}
is(device_beside(0), 'cuda:0', 'the first of joins at the same time goes to the first device');
is(device_beside(1), 'cuda:1', 'the second one to the other');
is(device_beside(2), 'cuda:0', 'the third one where there are no more than elsewhere');
$node->stop;

# --- another device takes the number of a measured one ---
$ENV{HJG_STUB_CC} = 80;
$node->start;
wait_devices($node, 2);
is($node->safe_psql('postgres', $costs), '', 'another device has not the costs of the one that was there before');
$node->stop;
done_testing();
