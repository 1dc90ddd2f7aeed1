# The disk or a query's share of it is full: for temporary files, the calibration and the drivers' cache.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

# a server whose writes to files of some names fail, as the switch file says (full_disk.c)
my $dir = PostgreSQL::Test::Utils::tempdir();
my $switch = "$dir/switch";
system('cc', '-shared', '-fPIC', '-Wall', '-Werror', '-o', "$dir/full_disk.so", "$FindBin::RealBin/full_disk.c", '-ldl') == 0 or die 'full_disk.c does not build';
$ENV{HJG_FULL_DISK} = $switch;
# a driver is slow where the machine is busy, and no disk is the cause of that
$ENV{HJG_OPENCL_LIMIT_MS} = 300000;
my $node;
{
	local $ENV{LD_PRELOAD} = "$dir/full_disk.so";
	$node = start_node('main');
}

# Make writes to files whose path contains the pattern fail.
sub fill_disk
{
	my ($pattern) = @_;
	unlink $switch;
	append_to_file($switch, $pattern) if defined $pattern;
	return;
}

make_tables($node);
wait_ready($node);

my $ours = q{SET hjoin_gpu.enabled = on; SET hjoin_gpu.force = on; SET max_parallel_workers_per_gather = 0};
my $cores = q{SET hjoin_gpu.enabled = off; SET enable_mergejoin = off; SET enable_nestloop = off; SET max_parallel_workers_per_gather = 0};
my $parallel = q{SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0};
my $sums = 'SELECT count(*), sum(b.id), sum(p.id) FROM';
my @joins = (
	"$sums build b JOIN probe p USING (k)",
	"$sums probe p LEFT JOIN build b USING (k)",
	"$sums build b FULL JOIN probe p USING (k)",
	'SELECT count(*), sum(id) FROM probe p WHERE NOT EXISTS (SELECT FROM build b WHERE b.k = p.k)',
	"$parallel; $sums build b JOIN probe p USING (k)");

my $session = open_session($node);
ask($session, "\\set VERBOSITY sqlstate\nSET work_mem = '64kB'");
my %answers = map { $_ => scalar ask($session, "$cores; $_") } @joins;
my $backend = ask($session, 'SELECT pg_backend_pid()');

# List what the backend has open, without the files of tables and catalogs: the server keeps these, and opens more when autovacuum has been there.
sub descriptors
{
	return join ' ', sort grep { !m{/(base/\d+|global|pg_wal)/\w+$} } map { readlink // '' } glob "/proc/$backend/fd/*";
}

# Check that every join fails with this code, like core's, that nothing is left of it, and that it then returns its
# rows.
sub fails_cleanly
{
	my ($code, $break, $mend, $what) = @_;
	my @wrong;

	ask($session, "$ours; $_") for @joins[ 0, 4 ];
	my $fds = descriptors();
	for my $join (@joins)
	{
		for my $where (0, 1000000)
		{
			$break->();
			for my $how ($cores, "$ours; SET hjoin_gpu.in_backend_rows = $where")
			{
				my ($out, $err) = ask($session, "$how; $join");
				push @wrong, "$how: $join: $out $err" if $out ne '' || $err !~ /ERROR:  $code$/ || $err =~ /ERROR.*ERROR/s;
			}
			$mend->();
			my ($out, $err) = ask($session, $join);
			push @wrong, "then $join: $out $err" if $out ne $answers{$join};
		}
	}
	is(join("\n", @wrong), '', "$what: joins fail as core's do, with $code, and give their rows after that");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ls_tmpdir()'), 0, 'no temporary file stays');
	is(descriptors(), $fds, 'no descriptor stays open');
	return;
}

# a device is asked for while the disk has room: its driver may need some to compile
my $state_of = q{SELECT state FROM hjoin_gpu_devices WHERE name = 'opencl:0'};
sub opencl_state
{
	my $state = '';
	wait_until(sub { ($state = $node->safe_psql('postgres', $state_of)) ne '' }, 60);
	return $state;
}
is(opencl_state(), 'ready', 'an OpenCL device is there');

like(ask($session, "$ours; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $joins[0]"), qr/GpuHashJoin.*Hash Batches: [2-9]/s, 'a join goes to temporary files');

# a calibration runs meanwhile and cannot save its results
fill_disk('hjoin_gpu.calibration');
my $calibration = start_query($node, 'SELECT count(*) FROM hjoin_gpu_calibrate()');
fails_cleanly('53400', sub { ask($session, q{SET temp_file_limit = '1MB'}) }, sub { ask($session, 'RESET temp_file_limit') },
	'temp_file_limit is reached');
like((finish_query($calibration))[1], qr/ERROR:  could not write file "hjoin_gpu.calibration.tmp.\d+": No space left on device/,
	'no room for the calibration: it fails');
ok(defined wait_until(sub { is_idle($node) }, 5), 'nothing stays leased by it or by the joins beside it');
is(join(' ', glob $node->data_dir . '/hjoin_gpu.calibration*'), '', 'and leaves no file');
is($node->safe_psql('postgres', 'SELECT DISTINCT source FROM hjoin_gpu_costs'), 'default', 'the costs are as before');

fails_cleanly('53100', sub { fill_disk('pgsql_tmp') }, sub { fill_disk(undef) }, 'the disk is full');

fill_disk('pgsql_tmp');
like(($node->psql('postgres', 'SELECT count(*) FROM hjoin_gpu_calibrate()'))[2], qr/ERROR:  could not write to file ".*pgsql_tmp.*": No space left on device/,
	'no room for the files by which calibration measures: it fails');
fill_disk(undef);
ok(defined wait_until(sub { is_idle($node) }, 5), 'nothing stays leased');

# the drivers' cache is damaged or cannot be created: the cpu engine serves; the device is still listed, as 'failed' if
# its driver needs the cache
my $cache = $node->data_dir . '/pgsql_tmp_hjoin_gpu';
for (
	[ 'is damaged', sub { -f && do { chmod 0600, $_; truncate $_, 100; append_to_file($_, 'damage' x 1000) } for split /\n/, `find $cache` } ],
	[ 'is a file', sub { append_to_file($cache, 'no directory') } ],
	[ 'may not be written', sub { mkdir $cache or die $!; chmod 0500, $cache } ],
	[ 'leads nowhere', sub { symlink '/none/such', $cache or die $! } ])
{
	my ($what, $make) = @$_;
	$node->stop;
	system('rm', '-rf', $cache) if $what ne 'is damaged';
	$make->();
	$node->start;
	ok(defined wait_ready($node), "the drivers' cache $what: the device process serves");
	like(opencl_state(), qr/^(failed|ready)$/, 'and finds the OpenCL device, usable or not');
	is($node->safe_psql('postgres', "SET hjoin_gpu.device = 'opencl:0'; $ours; SET hjoin_gpu.in_backend_rows = 0; $joins[0]"), $answers{ $joins[0] }, 'joins are right');
	is(stat_value($node, 'device_deaths'), 0, 'and it lives on');
}

is(log_count($node, qr/was terminated by signal|PANIC|TRAP/), 0, 'no server process died');
$node->stop;
done_testing();
