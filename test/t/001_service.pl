# The service starts with the server, shows itself, joins, and ends with it.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $query = 'SELECT hjoin_gpu_self_test(100000, 300000)';
my $answer = 300000;

my $node = start_node('main', streaming => 1, conf => "restart_after_crash = on\n");
ok(defined wait_ready($node, 10), 'the device process is ready soon after the start');
is($node->safe_psql('postgres', $query), $answer, 'a join in the device process gives the right number of pairs');
is($node->safe_psql('postgres', 'SELECT hjoin_gpu_self_test(0, 1000)'), 0, 'an empty build side joins nothing');
is($node->safe_psql('postgres', 'SELECT hjoin_gpu_self_test(1000, 0)'), 0, 'an empty probe side joins nothing');
is($node->safe_psql('postgres', 'SELECT hjoin_gpu_self_test(1, 1)'), 1, 'one row joins one row');
is($node->safe_psql('postgres', 'SELECT hjoin_gpu_self_test(10, 3000000)'), 3000000, 'several batches are in flight');

is($node->safe_psql('postgres', q{SELECT name, kind, state, reason IS NULL, compute_units > 0, memory_bytes > 0,
	started <= now() FROM hjoin_gpu_devices WHERE name = 'cpu'}), 'cpu|cpu|ready|t|t|t|t', 'the cpu device is shown');
is($node->safe_psql('postgres', 'SELECT total_bytes > 400 * 1024 * 1024 AND warm_bytes > 0 FROM hjoin_gpu_arena()'),
	't', 'the arena is shown');
ok(is_idle($node), 'nothing is leased after the joins');
is(stat_value($node, 'device_starts'), 1, 'one start is counted');
is(stat_value($node, 'device_deaths'), 0, 'no death is counted');

my $pid = device_pid($node);
my $status = slurp_file("/proc/$pid/status");
like($status, qr/^SigBlk:\s+(?!0+$)[0-9a-f]+$/m, 'the device process blocks signals');
my @fds = glob("/proc/$pid/fd/*");
my @foreign = grep { !m{^(/dev(/null)?$|/memfd:hjoin_gpu|socket:|anon_inode:|pipe:|/proc/self|.*\.log)} } map { readlink($_) // '' } @fds;
is("@foreign", '', 'the device process has no descriptor of the server');

# roles
$node->safe_psql('postgres', 'CREATE ROLE nobody LOGIN');
my ($rc, $out, $err) = $node->psql('postgres', 'SET ROLE nobody; SELECT hjoin_gpu_stat_reset()');
like($err, qr/permission denied/, 'an ordinary role cannot reset the counters');
($rc, $out, $err) = $node->psql('postgres', 'SET ROLE nobody; SELECT hjoin_gpu_self_test()');
like($err, qr/permission denied/, 'nor run the self-test');
$node->safe_psql('postgres', 'SELECT hjoin_gpu_stat_reset()');
is(stat_value($node, 'device_starts'), 0, 'the counters are reset');

# jobs are shown; other roles do not see the owner
my $holder = start_query($node, q{BEGIN; SELECT hjoin_gpu_self_test(1000000, 200000000)});
my $backend = backend_of($node, '.');
ok($backend, 'a running join is shown as a job');
is($node->safe_psql('postgres', q{SET ROLE nobody; SELECT count(*), count(slot), num_nonnulls(min(pid), min(usename), min(state), min(build_rows), min(batches_in_flight), min(arena_bytes), min(since))
	FROM hjoin_gpu_jobs}), '1|1|0', 'another role sees that a slot is taken, and nothing of the job');
my $name = $node->safe_psql('postgres', 'SHOW server_version_num') >= 170000 ? 'HjoinGpuResult' : 'Extension';
ok(defined wait_until(sub { $node->safe_psql('postgres', "SELECT wait_event FROM pg_stat_activity WHERE pid = $backend") eq $name }, 20),
	'it waits for the device process under a name of its own, where the server has room for one');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($backend)");
finish_query($holder);
# rows so far, and rows expected
my $joining = start_query($node, q{SET hjoin_gpu.force = on; SET hjoin_gpu.device = cpu; SET max_parallel_workers_per_gather = 0;
	SELECT count(*) FROM generate_series(1, 20000000) p JOIN generate_series(1, 100000) b ON p = b});
my $progress = q{SELECT state, build_rows, build_rows_expected, probe_rows_expected FROM hjoin_gpu_jobs WHERE probe_rows BETWEEN 1 AND 19999999};
my $seen;
wait_until(sub { ($seen = $node->safe_psql('postgres', $progress)) ne '' }, 60);
is($seen, 'probing|100000|100000|20000000', 'a job shows how far it is');
finish_query($joining);
ok(defined wait_until(sub { is_idle($node) }, 5), 'the job is gone after a cancel');

# memory of idle slabs returns to the system
$node->safe_psql('postgres', 'SELECT hjoin_gpu_self_test(30000000, 1000)');
cmp_ok($node->safe_psql('postgres', 'SELECT warm_bytes FROM hjoin_gpu_arena()'), '>', 80 * 1024 * 1024, 'slabs stay warm for a while');
ok(defined wait_until(sub { $node->safe_psql('postgres',
	'SELECT warm_bytes <= 80 * 1024 * 1024 FROM hjoin_gpu_arena()') eq 't' }, 20), 'idle slabs are given back to the system');

# a standby has its own device process
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
ok(defined wait_ready($standby, 10), 'the service runs on a hot standby');
is($standby->safe_psql('postgres', $query), $answer, 'and joins there');
$standby->stop;

for my $mode (qw(smart fast immediate))
{
	$pid = device_pid($node);
	my $start = time;
	$node->stop($mode);
	cmp_ok(time - $start, '<', 10, "$mode shutdown is quick");
	ok(defined wait_until(sub { !-d "/proc/$pid" }, 5), "the device process ends at $mode shutdown");
	$node->start;
	wait_ready($node, 10);
	is($node->safe_psql('postgres', $query), $answer, "joins after $mode shutdown and start");
}

# crash of a backend: a fresh arena, a fresh device process
$pid = device_pid($node);
my $victim = start_query($node, 'SELECT hjoin_gpu_self_test(1000000, 200000000)');
$backend = backend_of($node, '.');
kill 'KILL', $backend;
finish_query($victim);
ok(defined wait_until(sub { !-d "/proc/$pid" }, 10), 'a crash of a backend ends the device process');
ok(defined wait_until(sub { ($node->psql('postgres', 'SELECT 1'))[0] == 0 }, 30), 'the server comes back');
ok(defined wait_ready($node, 10), 'with a new device process');
ok(is_idle($node), 'and an idle arena');
is($node->safe_psql('postgres', $query), $answer, 'and joins');

# the supervisor itself is terminated
$pid = device_pid($node);
my ($supervisor) = slurp_file("/proc/$pid/status") =~ /^PPid:\s+(\d+)/m;
kill 'TERM', $supervisor;
ok(defined wait_until(sub { my $new = device_pid($node); defined $new && $new != $pid }, 15),
	'a supervisor that was ended comes back with a device process');
wait_ready($node, 10);
is($node->safe_psql('postgres', $query), $answer, 'and joins');
$node->stop;

# default arena size: at most a quarter of the machine's shared memory, less in a control group
my ($total) = slurp_file('/proc/meminfo') =~ /^MemTotal:\s+(\d+) kB/m;
my $most = $total / 4096 < 4096 ? int($total / 4096) : 4096;
$node->append_conf('postgresql.conf', "hjoin_gpu.arena_size = -1\n");
$node->start;
my $arena_mb = $node->safe_psql('postgres', q{SELECT setting FROM pg_settings WHERE name = 'hjoin_gpu.arena_size'});
ok($arena_mb >= 16 && $arena_mb <= $most, "arena_size = -1 becomes $arena_mb MB, of at most $most");
is($node->safe_psql('postgres', "SELECT total_bytes BETWEEN $arena_mb * 900000::bigint AND $arena_mb * 1048576::bigint FROM hjoin_gpu_arena()"),
	't', 'which is the size of the arena') if $arena_mb >= 64;
$node->reload;
is(log_count($node, qr/(LOG|WARNING|ERROR):  (?!statement: ).*hjoin_gpu\.arena_size/), 0, 'neither the start nor a reload complains of it');
$node->stop;

# the program as a command-line tool
command_like(['hjoin_gpu_device', '--list'], qr/^cpu /m, 'the program lists devices');
command_like(['hjoin_gpu_device', '--version'], qr/^hjoin_gpu_device /, 'the program has a version');
command_like(['hjoin_gpu_device', '--help'], qr/--self-test/, 'the program has a help');
command_ok(['hjoin_gpu_device', '--self-test'], 'the program tests itself');
command_fails(['hjoin_gpu_device', '--epoch=x'], 'a bad option is refused');

done_testing();
