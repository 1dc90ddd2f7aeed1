# A wild driver in the device process (test/wild/wild.c) overwrites all of the arena that it can write: every query
# returns core's rows, no server process dies, sessions continue, and once it stops the device process joins again.
#
#   HJG_WILD_SECONDS=3600    duration (default: 45)
#   HJG_WILD_SEED=N          first seed
#   HJG_WILD_MODES="a b"     only these modes of wild.c
#   HJG_WILD_DEVICES="cpu"   only these devices
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgStress;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{HJG_WILD_SECONDS} // 45;
my $seed = $ENV{HJG_WILD_SEED} // time ^ $$ << 8;
my @modes = split ' ', $ENV{HJG_WILD_MODES} // 'any constant results keys refusal any trim reading jobs results any table slabs control socket';
my $sessions = 3;

srand $seed;
diag("HJG_WILD_SEED=$seed");

my $program = stress_program();
my $node = stress_node('wild', conf => "hjoin_gpu.device_program = '$program'\nhjoin_gpu.device_timeout = '1s'\n");
my %answers = core_answers($node);
my @queries = stress_queries();
my $supervisor = supervisor_of($node);
my @named = split ' ', $ENV{HJG_WILD_DEVICES} // (built_with_cuda() ? 'cpu cuda:0 opencl:0' : 'cpu opencl:0');

# the operator's views must not fail, whatever they show
my @looks = map { [ 'views', "SELECT count(*) >= 0, max(length(x::text)) > 0 FROM $_ x" ] }
  qw(hjoin_gpu_devices hjoin_gpu_stat hjoin_gpu_arena() hjoin_gpu_costs);

# Start a device process whose driver goes wild in a mode.
sub go_wild
{
	my ($mode, $until) = @_;
	my $lull_ms = rand() < 0.2 ? 0 : 1200;    # a life this long resets the pauses between two starts
	set_program($program, LD_PRELOAD => "$ENV{TESTDIR}/build/wild.so", HJG_WILD => join ' ', int(rand 1 << 30), $mode, $lull_ms, int $until);
	end_device();
	return;
}

sub end_device
{
	my $pid = device_of($supervisor);
	kill 'KILL', $pid if defined $pid;
	return;
}

# Does the device process join, without an error?
sub joins_again
{
	my ($device) = @_;
	my ($rc, $plan) = $node->psql('postgres', qq{SET statement_timeout = '20s'; SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0;
		SET hjoin_gpu.device = '$device'; SET max_parallel_workers_per_gather = 0; EXPLAIN (ANALYZE, COSTS OFF) $queries[0][1]});
	return $rc == 0 && $plan =~ /Device: $device/ && $plan !~ /Fallback/;
}

# Open several joins at a time, then wait until their memory is released, which begins after five seconds.
sub leave_idle_memory
{
	my ($device) = @_;
	$node->psql('postgres', join ';', "SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0; SET hjoin_gpu.device = '$device'; BEGIN",
		(map { "DECLARE c$_ CURSOR FOR SELECT a.id, b.t FROM a JOIN b USING (s); FETCH 1 FROM c$_" } 1 .. 16), 'COMMIT');
	sleep 6;
	return;
}

# Run a few rounds of queries in some sessions; returns the errors.
sub run_scene
{
	my ($device, $mode, $nqueries) = @_;
	my @running = map {
		start_session($node, map {
			my $cancelled = rand() < 0.08;
			[ @{ $queries[ rand @queries ] }, any_settings($device), $cancelled ? "statement_timeout = '" . int(5 + rand 200) . "ms'" : () ],
			  (rand() < 0.2 ? $looks[ rand @looks ] : ())
		} 1 .. $nqueries)
	} 1 .. $sessions;
	my ($wrong, $right) = (0, 0);

	for my $session (@running)
	{
		for my $end (finish_session($session))
		{
			my ($name, $state, $answer, $settings) = @$end;
			my $may_time_out = $settings =~ /timeout = '\d+ms'/;
			my $good = $state eq '00000' ? $answer eq ($answers{$name} // 't|t') : $may_time_out && $state eq '57014';
			$good ? $right++ : $wrong++;
			diag("$device, driver wild by $mode: $name: $state $answer instead of " . ($answers{$name} // 't|t') . " ($settings)") unless $good || $wrong > 3;
		}
		diag($session->{stderr}) if $wrong && $session->{stderr} =~ /server closed|timeout = '60s'/;
	}
	return ($right, $wrong);
}

my @devices = grep {
	my $device = $_;
	defined wait_until(sub { $node->safe_psql('postgres', "SELECT state FROM hjoin_gpu_devices WHERE name = '$device'") eq 'ready' }, $device eq 'cpu' ? 10 : 20)
} @named;
is(join(' ', grep { !/^opencl/ } @devices), join(' ', grep { !/^opencl/ } @named), 'the devices are there');
diag("devices: @devices");

# use of the processes once each device has joined
joins_again($_) for @devices;
my @use = process_use($supervisor);
my $nscenes = 0;

DEVICE: for my $i (0 .. $#devices)
{
	my $device = $devices[$i];
	my $opencl = $device =~ /^opencl/;
	my $until = time + $seconds / @devices;
	my ($right, $wrong) = (0, 0);
	my $first = $nscenes;

	while (time < $until && !crash_lines($node))
	{
		my $mode = $modes[ $nscenes++ % @modes ];
		$node->safe_psql('postgres', 'SELECT hjoin_gpu_stat_reset()');
		go_wild($mode, time + 3600);
		sleep 0.3;
		leave_idle_memory($device) if $mode eq 'trim';
		my ($r, $w) = run_scene($device, $mode, $opencl ? 4 : 10);
		$right += $r;
		$wrong += $w;
	}
	is($wrong, 0, "$device: core's rows in each of $right queries beside a wild driver of " . ($nscenes - $first) . ' kinds');
	is(join("\n", crash_lines($node)), '', "$device: no server process died");
	last DEVICE if crash_lines($node);

	# the driver stops: it is replaced, or its time ends
	if ($i % 2 == 0)
	{
		set_program($program);
		end_device();
	}
	else
	{
		go_wild('any', time + 4);
		run_scene($device, 'any', 2);
		sleep 1;
	}
	$node->safe_psql('postgres', 'SELECT hjoin_gpu_stat_reset()');
	my $took = wait_until(sub { joins_again($device) }, 40);
	took_less($took // 9**9**9, $opencl ? 30 : 15, "$device: it joins again soon");
	ok(defined wait_until(sub { is_idle($node) }, 10), "$device: no job and no memory is left")
	  or diag($node->safe_psql('postgres', 'SELECT * FROM hjoin_gpu_jobs; SELECT * FROM hjoin_gpu_arena()'));
	my ($rc, $pairs, $error) = (0, '', '');
	ok( defined wait_until(
			sub {
				($rc, $pairs, $error) = $node->psql('postgres', 'SELECT hjoin_gpu_self_test(20000, 100000)');
				return $pairs eq '100000';
			},
			10),
		"$device: the self-test is right")
	  or diag("$pairs $error", $node->safe_psql('postgres', 'SELECT * FROM hjoin_gpu_devices; SELECT * FROM hjoin_gpu_stat; SELECT * FROM hjoin_gpu_jobs'));
}

my @now = process_use($supervisor);
is(supervisor_of($node), $supervisor, 'the supervisor is the same process');
cmp_ok($now[0], '<=', $use[0], 'it has as many descriptors as before');
cmp_ok($now[1], '<', $use[1] + 2048, 'and as much memory');
my $log = slurp_file($node->logfile);
like($log, qr/^wild: begins/m, 'the driver did go wild');
unlike($log, qr/^wild: .*(writable|for writing)/m, 'what the device process may only read it cannot make writable');

$node->stop('immediate', fail_ok => 1);
done_testing();
