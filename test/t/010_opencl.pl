# Joins on OpenCL devices return core's rows; a missing or broken driver is just a line in the view.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $settings = q{SET hjoin_gpu.force = on; SET hjoin_gpu.programs = off; SET hjoin_gpu.in_backend_rows = 0;
	SET max_parallel_workers_per_gather = 0; SET hjoin_gpu.device = 'opencl:0';};
my @joins = (
	'SELECT count(*), sum(build.id), sum(probe.id) FROM build JOIN probe USING (k)',
	'SELECT count(*), sum(build.id), sum(probe.id) FROM probe LEFT JOIN build USING (k)',
	'SELECT count(*), sum(build.id), sum(probe.id) FROM build RIGHT JOIN probe USING (k)',
	'SELECT count(*), sum(build.id), sum(probe.id) FROM build FULL JOIN probe USING (k)',
	'SELECT count(*), sum(id) FROM probe WHERE EXISTS (SELECT FROM build WHERE build.k = probe.k)',
	'SELECT count(*), sum(id) FROM probe WHERE NOT EXISTS (SELECT FROM build WHERE build.k = probe.k)',
	'SELECT count(*), sum(build.id), sum(probe.id) FROM build JOIN probe ON build.k = probe.k AND build.id > probe.id',
	'SELECT count(*), sum(b.id), sum(p.id) FROM build b JOIN probe p ON b.k::text = p.k::text',
	'SELECT count(*), sum(b.id), sum(p.id) FROM build b JOIN probe p ON b.k % 3 = p.k % 7000');

# Wait until the search for OpenCL devices has ended; returns its line in the view.
sub opencl_line
{
	my ($node) = @_;
	my $line = '';
	wait_until(
		sub {
			$line = $node->safe_psql('postgres',
				"SELECT state, reason FROM hjoin_gpu_devices WHERE name = 'opencl:0'");
			return $line ne '';
		},
		60);
	return $line;
}

# Wait until the device process of a restarted node serves and the device exists.
sub make_ready
{
	my ($node) = @_;
	wait_ready($node);
	opencl_line($node);
	return;
}

sub core_answer
{
	my ($node, $join) = @_;
	return $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $join");
}

my $node = start_node('main');
make_tables($node);
my $line = opencl_line($node);
isnt($line, '', 'OpenCL has a line in the view, whatever is installed');

SKIP:
{
	skip "no OpenCL device: $line", 1 unless $line =~ /^ready\|/;
	for my $join (@joins)
	{
		is($node->safe_psql('postgres', "$settings $join"), core_answer($node, $join), "core's rows: $join");
	}
	for my $strategy (qw(shj_ol shj_dd shj_pl shj_basic_unit phj_ol phj_dd phj_pl phj_basic_unit))
	{
		is( $node->safe_psql('postgres', "$settings SET hjoin_gpu.strategy = '$strategy'; $joins[0]"),
			core_answer($node, $joins[0]), "core's rows by $strategy");
		my $plan = $node->safe_psql('postgres',
			"$settings SET hjoin_gpu.strategy = '$strategy'; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $joins[0]");
		like($plan, qr/Engine: coupled/, "$strategy: EXPLAIN names the engine");
		like($plan, qr/Device: opencl:0/, "$strategy: and the device");
		like($plan, qr/Strategy: $strategy/, "$strategy: and the strategy");
		unlike($plan, qr/Fallback/, "$strategy: without a fallback");
		like($plan, qr/Pipeline: p?e$/m, "$strategy: and what its units do");
	}
	for my $strategy (qw(shj_pl phj_dd))
	{
		my $plan = $node->safe_psql('postgres', "$settings SET hjoin_gpu.strategy = '$strategy'; EXPLAIN (ANALYZE, COSTS OFF) $joins[0]");
		like($plan, qr/ Device Phases: .* Build=.* Probe=/, "$strategy: phases are measured");
		my ($build, $probe) = $plan =~ /Predicted Device Phases: Transfer=0\.000 ms Build=([\d.]+) ms Probe=([\d.]+) ms/;
		cmp_ok($build // 0, '>', 0, "$strategy: and the build phase is predicted by its own model");
		cmp_ok($probe // 0, '>', 0, "$strategy: so is the probe phase");
	}
	for my $pipeline (qw(e pe cpde_c cpde_b cpde_g))
	{
		for my $strategy (qw(shj_pl phj_pl))
		{
			my $chosen = "$settings SET hjoin_gpu.strategy = '$strategy'; SET hjoin_gpu.pipeline = '$pipeline';";
			is($node->safe_psql('postgres', "$chosen $joins[0]"),
				core_answer($node, $joins[0]), "core's rows by $strategy in $pipeline");
			my $plan = $node->safe_psql('postgres', "$chosen EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $joins[0]");
			like($plan, qr/Pipeline: $pipeline$/m, "$strategy in $pipeline: EXPLAIN names the pipeline");
			unlike($plan, qr/Fallback/, "$strategy in $pipeline: without a fallback");
		}
	}
	unlike(
		$node->safe_psql('postgres',
			"$settings SET hjoin_gpu.device = 'auto'; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $joins[0]"),
		qr/coupled/, 'auto leaves it to the cpu engine');

	# automatic choice takes the device only if it was measured, the steps of the keys were measured, and it is expected
	# to be the fastest; since half of the cores play the GPU here, the cpu engine must have very high costs
	my $auto = q{SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0; SET max_parallel_workers_per_gather = 0; SET work_mem = '64MB';};
	my $slow = "$auto SET hjoin_gpu.probe_tuple_cost = 100; SET hjoin_gpu.build_tuple_cost = 100;";
	my $wide = 'SELECT count(*), sum(b.id), sum(p.id) FROM build b JOIN probe p ON b.k::bigint = p.k::bigint';
	my $explain = 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF)';
	unlike($node->safe_psql('postgres', "$slow $explain $joins[0]"), qr/coupled/, 'auto: not before it was measured');
	$node->safe_psql('postgres', 'SELECT count(*) FROM hjoin_gpu_calibrate()');
	is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT device, ' ') FROM hjoin_gpu_costs WHERE name LIKE 'engine%' AND value > 0}),
		'cpu opencl:0', 'calibration measures joins with the device, and with the cpu engine likewise');
	unlike($node->safe_psql('postgres', "$auto $explain $joins[0]"), qr/coupled/, 'auto: where the cpu engine is faster that joins');
	like($node->safe_psql('postgres', "$slow $explain $joins[0]"), qr/Engine: coupled.*Device: opencl:0/s, 'auto: where it is not the device does');
	is($node->safe_psql('postgres', "$slow $joins[0]"), core_answer($node, $joins[0]), "with core's rows");
	$node->restart;
	make_ready($node);
	is($node->safe_psql('postgres', q{SELECT count(*) FROM hjoin_gpu_costs WHERE name LIKE 'engine%'}), '10', 'what was measured outlives a restart');
	unlike($node->safe_psql('postgres', "$slow $explain $wide"), qr/coupled/, 'auto: no join waits for steps to be measured');
	$node->safe_psql('postgres', "$auto SET hjoin_gpu.device = 'opencl:0'; $wide");
	ok(defined wait_until(sub { $node->safe_psql('postgres', "$slow $explain $wide") =~ /Engine: coupled/ }),
		'auto: once they are measured it is taken');
	unlike($node->safe_psql('postgres', "$slow $explain $joins[0]"), qr/coupled/, 'auto: but not for keys of another width');

	# a device whose joins start very slowly: calibration reports it and does not use the result
	{
		local $ENV{HJG_FAULT} = 'slow:build:1100ms';
		$node->restart;
	}
	make_ready($node);
	my $refused = qr/WARNING: +calibration of device "opencl:0" gave implausible costs, which are not kept/;
	my $calibration = start_query($node, 'SELECT count(*) FROM hjoin_gpu_calibrate()', 'calibration');
	ok(defined wait_until(sub { log_count($node, $refused) == 1 }, 60), 'calibration warns of implausible costs of a device');
	# the rest of the calibration is irrelevant here
	$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'calibration'});
	my (undef, $warnings) = finish_query($calibration);
	like($warnings, $refused, 'and says so to who asked for it');
	$node->restart;
	make_ready($node);

	# cancelled during a join
	my $query = start_query($node, "$settings SELECT count(*) FROM build b, probe p WHERE b.k % 2 = p.k % 2");
	my $pid = backend_of($node, 'probing');
	my $cancelled = $node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	my ($out, $err) = finish_query($query);
	like($err, qr/canceling statement due to user request/, 'a join can be cancelled');
	ok(defined wait_until(sub { is_idle($node) }, 10), 'and leaves nothing behind');
	ok(-d $node->data_dir . '/pgsql_tmp_hjoin_gpu', 'built programs are kept below the data directory');
}
$node->stop;

my $stubs = PostgreSQL::Test::Utils::tempdir();

# Return the environment in which a server finds a driver with a fault (stub_opencl.c).
sub stub_environment
{
	my ($stub) = @_;
	mkdir "$stubs/$stub";
	system('cc', '-shared', '-fPIC', "-DSTUB=$stub", '-o', "$stubs/$stub/libOpenCL.so.1", "$FindBin::RealBin/stub_opencl.c") == 0
	  or die "cannot build the stub";
	return (LD_LIBRARY_PATH => "$stubs/$stub" . (defined $ENV{LD_LIBRARY_PATH} ? ":$ENV{LD_LIBRARY_PATH}" : ''));
}

# faults: name, the view's line once a join was tried, environment of the server
my @faults = (
	[ 'no platform', qr/^failed\|/, OCL_ICD_VENDORS => '/nonexistent', OPENCL_VENDOR_PATH => '/nonexistent' ],
	[ 'a driver that crashes', qr/^failed\|its driver crashed \(signal 6\)/, stub => 1 ],
	[ 'a driver that hangs', qr/^failed\|its driver did not answer within 1500 ms/, stub => 2, HJG_OPENCL_LIMIT_MS => 1500 ],
	[ 'a driver that exits', qr/^failed\|its driver ended the process \(exit code 7\)/, stub => 3 ],
	[ 'a device that reports nonsense', qr/^failed\|reports limits that make no sense|^failed\|OpenCL 1.2 is needed/, stub => 4 ],
	[ 'a build that takes minutes', qr/^failed\|its driver did not answer within 1500 ms/, stub => 5, HJG_OPENCL_LIMIT_MS => 1500 ],
	[ 'a program that does not build', qr/^failed\|program does not build/, stub => 6 ],
	[ 'a build that takes minutes in the serving process', qr/^failed\|left alone.*the driver does not come back/, stub => 7,
	  HJG_OPENCL_LIMIT_MS => 1500 ],
	[ 'a driver that crashes in the serving process', qr/^ready\|/, stub => 8, deaths => 1 ],
	[ 'a device without room for a buffer', qr/^failed\|left alone.*a first join failed/, stub => 9 ],
	[ 'a device whose kernels do nothing', qr/^failed\|left alone.*a first join failed/, stub => 10 ]);
push @faults, [ 'a kernel that does not build', qr/^failed\|program does not build: /, HJG_OPENCL_SPOIL => 1 ]
  if $line =~ /^ready\|/;
for my $fault (@faults)
{
	my ($name, $reason, %env) = @$fault;
	my $deaths = delete $env{deaths} // 0;
	if (my $stub = delete $env{stub})
	{
		%env = (%env, stub_environment($stub));
	}
	local %ENV = (%ENV, %env);
	$node->start;
	ok(defined wait_ready($node, 10), "$name: the service is there");
	opencl_line($node);
	is($node->safe_psql('postgres', "$settings $joins[0]"), core_answer($node, $joins[0]), "$name: the rows are core's");
	# a program built without the headers searches for no driver
	$reason = qr/^failed\|built without the OpenCL headers/ if $line =~ /built without/;
	$deaths = 0 if $line =~ /built without/;
	ok(defined wait_until(sub { defined wait_ready($node, 10) && opencl_line($node) =~ $reason }, 20), "$name: the view says so")
	  or diag(opencl_line($node));
	like($node->safe_psql('postgres', "$settings EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $joins[0]"),
		qr/Fallback: /, "$name: EXPLAIN tells of the fallback");
	cmp_ok(stat_value($node, 'device_deaths'), $deaths ? '>=' : '==', $deaths,
		$deaths ? "$name: the device process dies of it" : "$name: the device process lives");
	is(log_count($node, 'terminating any other active server processes'), 0, "$name: the server never notices");
	$node->stop;
}

# The device process ends while its driver does not return.  A SIGKILL may be the device's failure, other signals are
# not; after three failures the device is left alone.
sub end_in_driver
{
	my ($how) = @_;
	my $pid = device_pid($node);
	my $query = start_query($node, "$settings $joins[0]");
	my $building = backend_of($node, 'building');
	sleep 0.2;
	$how->($pid);
	finish_query($query);
	# a restarted server has ended the query, too
	wait_until(sub { my $new = device_pid($node); defined $new && $new != $pid });
	make_ready($node);
	return defined $building;
}

SKIP:
{
	skip 'built without OpenCL', 1 if $line =~ /built without/;
	my @modes = qw(fast immediate fast);
	local %ENV = (%ENV, stub_environment(7));
	for my $end (
		[ 'a server that is stopped', sub { $node->stop(shift @modes); $node->start } ],
		[ 'a supervisor that is ended', sub { kill 'TERM', slurp_file("/proc/$_[0]/status") =~ /^PPid:\s+(\d+)/m } ],
		[ 'a device process that is told to end', sub { kill 'TERM', $_[0] } ])
	{
		my ($name, $how) = @$end;
		$node->start;
		make_ready($node);
		is(scalar(grep { end_in_driver($how) } 1 .. 3), 3, "$name, in the driver, three times");
		like(opencl_line($node), qr/^ready\|/, "$name: no failure of the device");
		$node->stop;
	}
	$node->start;
	make_ready($node);
	for my $round (1 .. 3)
	{
		end_in_driver(sub { kill 'KILL', $_[0] });
		like(opencl_line($node), $round < 3 ? qr/^ready\|/ : qr/^failed\|left alone .* after 3 failures: the device process ended/,
			"a device process that is killed in the driver, time $round: " . ($round < 3 ? 'the device is still used' : 'the device is left alone'));
	}
	$node->safe_psql('postgres', 'SELECT hjoin_gpu_stat_reset()');
	ok(defined wait_until(sub { opencl_line($node) =~ /^ready\|/ }), 'or until the counters are reset');
	$node->stop;
}

done_testing();
