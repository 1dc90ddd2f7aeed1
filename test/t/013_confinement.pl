# The device process can access what drivers need, and nothing of the server's: a test driver reports which accesses
# succeed.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'built without OpenCL' if `hjoin_gpu_device --list` =~ /built without the OpenCL headers/;

my $stub = PostgreSQL::Test::Utils::tempdir();
system('cc', '-shared', '-fPIC', '-o', "$stub/libOpenCL.so.1", "$FindBin::RealBin/stub_nosy.c") == 0 or die 'cannot build the driver';

# Return the driver's report, "yes" or "no" by claim.
sub report
{
	my ($node) = @_;
	my $file = $node->data_dir . '/pgsql_tmp_hjoin_gpu/report';
	wait_until(sub { -e $file }, 60) // return {};
	my %report = map { /^(.*) (\S+)$/ ? ($1 => $2) : () } split /\n/, slurp_file($file);
	unlink $file;
	return \%report;
}

local %ENV = (%ENV, LD_LIBRARY_PATH => join(':', $stub, grep { defined && $_ ne '' } $ENV{LD_LIBRARY_PATH}),
	PGPASSWORD => 'secret', CUDA_TEST => 1);
my @needed = ('reads /proc/cpuinfo', 'names its threads', 'opens /dev/null', 'runs a program', 'writes in the cache', 'renames in the cache', 'knows CUDA_TEST',
	'works in the root directory', 'has its home in the cache', 'has temporary files in the cache');
my @never = ('knows PGPASSWORD', 'knows PGDATA', 'makes files for others', 'leaves core dumps');
my @files = ('reads the data directory', 'lists the data directory', 'writes in the data directory', 'writes in /tmp', 'lists /dev/shm');
my @signals = ('signals the supervisor');
my @calls = ('changes modes', 'signals all', "asks for others' memory", 'has System V shared memory', 'has internet sockets',
	'connects to local sockets', 'may gain privileges');

# --- not confined: the driver may do anything, but inherits nothing more ---
my $node = start_node('free', conf => "hjoin_gpu.confine_device = off\n");
wait_ready($node);
my $report = report($node);
is($report->{$_}, 'yes', "not confined: it $_") for @needed, @files, @calls, @signals;
is($report->{$_}, 'no', "not confined: not so that it $_") for @never;
is($node->safe_psql('postgres', q{SELECT confinement FROM hjoin_gpu_devices WHERE name = 'cpu'}), 'none', 'which the view says');
$node->stop;

# --- confined ---
my $landlock = $report->{landlock} // 0;
$landlock = 0 if $landlock < 2;
$node = start_node('confined');
wait_ready($node);
$report = report($node);
is($report->{$_}, 'yes', "it $_") for @needed;
is($report->{$_}, 'no', "not so that it $_") for @never, @calls;
is($report->{$_}, $landlock ? 'no' : 'yes', ($landlock ? 'not so that' : 'without Landlock') . " it $_") for @files;
is($report->{$_}, $landlock >= 6 ? 'no' : 'yes', ($landlock >= 6 ? 'not so that' : 'without scopes of Landlock') . " it $_") for @signals;
ok(!-e $node->data_dir . '/nosy', 'nothing is written in the data directory') if $landlock;
is($node->safe_psql('postgres', q{SELECT confinement FROM hjoin_gpu_devices WHERE name = 'cpu'}),
	'no new privileges, seccomp, ' . ($landlock ? "landlock $landlock" : 'no landlock'), 'the view says how it is confined');
my $pid = device_pid($node);
like(slurp_file("/proc/$pid/limits"), qr/^Max core file size +[01] +[01] /m, 'the device process leaves no core dump');
like(slurp_file("/proc/$pid/status"), qr/^NoNewPrivs:\s+1\nSeccomp:\s+2$/m, 'and is confined as its child is');
is($node->safe_psql('postgres', 'SELECT hjoin_gpu_self_test(100000, 300000)'), 300000, 'it joins');

# --- core dumps do not contain the shared memory of joins ---
my $session = start_query($node, 'SELECT hjoin_gpu_self_test(1000, 1000) FROM pg_sleep(5)', 'sleeper');
my $backend;
wait_until(sub { $backend = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name = 'sleeper'}) });
for my $process ([ 'a backend' => $backend ], [ 'the device process' => device_pid($node) ])
{
	my ($name, $pid) = @$process;
	my @arenas = grep { /memfd:hjoin_gpu/ } split /^(?=[0-9a-f]+-[0-9a-f]+ )/m, slurp_file("/proc/$pid/smaps");
	is(scalar(grep { !/^VmFlags:.* dd\b/m } @arenas), 0, "$name: the arena is in no core dump") if @arenas;
	ok(@arenas > 0, "$name: there is an arena");
}
finish_query($session);
$node->stop;

# --- a drivers' directory that contains the data directory ---
{
	local $ENV{OPENCL_LAYERS} = $node->basedir;
	my $left = $node->data_dir . '/pgsql_tmp_hjoin_gpu/tempfile_KILLED';
	append_to_file($left, '');
	$node->start;
	wait_ready($node);
	is(report($node)->{'reads the data directory'}, $landlock ? 'no' : 'yes', 'nor below a directory that a variable names');
	ok(!-e $left, 'what a compiler left of a process that was killed is removed');
	$node->stop;
}

# --- the installed program ignores faults ---
{
	local $ENV{HJG_FAULT} = 'nonsense';
	command_ok([ 'hjoin_gpu_device', '--version' ], 'the program that is installed looks at no faults');
	unlike(`hjoin_gpu_device --help`, qr/HJG_/, 'nor knows of any');
}

done_testing();
