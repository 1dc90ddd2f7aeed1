# The device process cannot write to the half of the shared memory that the server relies on, and whatever it writes to
# the other half harms no query and no server process.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Fcntl qw(O_ACCMODE O_RDONLY O_RDWR SEEK_SET);
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $head_bytes = 2 * 1024 * 1024;	# before the slabs

my $node = start_node('main', conf => "hjoin_gpu.device_timeout = '1s'\nlog_min_messages = log\n");
make_tables($node);
wait_ready($node, 10);
my $pid = device_pid($node);
my ($supervisor) = slurp_file("/proc/$pid/status") =~ /^PPid:\s+(\d+)/m;
my $join = q{SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0;
	SELECT count(*), sum(b.id::bigint * p.id) FROM build b JOIN probe p USING (k)};
my $answer = $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $join");

# Pid of the device process, independent of the views.
sub process
{
	my ($child) = split ' ', slurp_file("/proc/$supervisor/task/$supervisor/children");
	return $child;
}

# Paths of a process's descriptors that are open on a half.
sub descriptors
{
	my ($of, $half) = @_;
	return grep { (readlink($_) // '') =~ /hjoin_gpu $half half/ } glob "/proc/$of/fd/*";
}

# Tell how a process has mapped a half.
sub mappings
{
	my ($of, $half) = @_;
	return join ' ', sort map { /^\S+ (\S+) .*hjoin_gpu $half half/ ? $1 : () } split /\n/, slurp_file("/proc/$of/maps");
}

sub flags_of
{
	my ($path) = @_;
	(my $info = $path) =~ s{/fd/}{/fdinfo/};
	return slurp_file($info) =~ /^flags:\s+(\d+)/m ? oct($1) & O_ACCMODE : -1;
}

# --- its access ------------------------------------------------------------------------------------
my ($server_half, @more) = descriptors($pid, 'server');
is(scalar(@more), 0, 'the device process has one descriptor of the server half');
is(flags_of($server_half), O_RDONLY, 'which is open for reading only');
ok(!sysopen(my $again, $server_half, O_RDWR) && $!{EACCES}, 'and cannot be opened again for writing');
like(mappings($pid, 'server'), qr/^r--s( r--s)*$/, 'it has mapped that half for reading only');
like(mappings($supervisor, 'server'), qr/rw-s/, 'the supervisor has it for writing');
my ($device_half) = descriptors($pid, 'device');
is(flags_of($device_half), O_RDWR, 'the other half is there to be written');

# --- writes ------------------------------------------------------------------------------
# The process reports itself ready once, in the first word of a cache line: overwriting no word of its half makes it
# unavailable for good.
sysopen(my $words, $device_half, O_RDWR) or die "$device_half: $!";
my $head = '';
sysread $words, $head, $head_bytes;
my @lines = grep { unpack("x[@{[64 * $_]}]L", $head) == 1 } 0 .. length($head) / 64 - 1;
my $lost = 0;
for my $line (@lines)
{
	sysseek $words, 64 * $line, SEEK_SET;
	syswrite $words, pack('L', 0);
	$lost++ if !stat_value($node, 'available');
	sysseek $words, 64 * $line, SEEK_SET;
	syswrite $words, pack('L', 1);
}
cmp_ok(scalar(@lines), '>', 0, 'there are words that may be the one');
is($lost, 0, 'the device process counts as ready whatever becomes of them (' . @lines . ')');

# A write to a device's entry does not make the device unavailable: the entry begins 40 bytes before its description.
my $cpu = $node->safe_psql('postgres', "SELECT description FROM hjoin_gpu_devices WHERE name = 'cpu'");
my $entry = index($head, $cpu) - 40;
cmp_ok($entry, '>', 0, 'the device is there');
sysseek $words, $entry, SEEK_SET;
syswrite $words, "\0" x 168;
my $ready = "SELECT description FROM hjoin_gpu_devices WHERE name = 'cpu' AND state = 'ready'";
ok(defined wait_until(sub { $node->safe_psql('postgres', $ready) eq $cpu }, 10), 'it is there again');

# Overwrite words of the device half, some all the time or all at once, like a driver that has gone wild.
srand(16);
my $scribbled;
sub scribble
{
	my ($nwords) = @_;
	my ($path) = descriptors(process() // return, 'device');
	return if !defined $path || !sysopen(my $memory, $path, O_RDWR);
	for (1 .. $nwords)
	{
		sysseek $memory, 8 * int(rand($head_bytes / 8)), SEEK_SET;
		syswrite $memory, pack('Q', (0, 1, 2, 3, ~0, int(rand(2**32)))[ int rand 6 ]);
		$scribbled++;
	}
	return;
}

my $until = time + 12;
my ($nqueries, $nright) = (0, 0);
while (time < $until)
{
	# otherwise all joins run in the backends
	wait_ready($node, 3);
	my @running = map { start_query($node, $join) } 1 .. 2;
	for (1 .. 5)
	{
		scribble(400);
		sleep 0.02;
	}
	for my $query (@running)
	{
		my ($out) = finish_query($query);
		$nqueries++;
		$nright += $out eq $answer;
	}
}
cmp_ok($scribbled, '>', 10000, "words are overwritten ($scribbled)");
is($nright, $nqueries, "all queries have core's answer ($nqueries)");
cmp_ok(stat_value($node, 'joins_device'), '>', 5, 'some were joined by the device process');
cmp_ok(stat_value($node, 'device_kills'), '>', 0, 'which was caught at what it did');
is($node->safe_psql('postgres', 'SELECT count(*) >= 0 FROM hjoin_gpu_devices, hjoin_gpu_jobs, hjoin_gpu_stat, hjoin_gpu_arena()'),
	't', 'the views can be read');
is(log_count($node, 'terminating any other active server processes'), 0, 'no server process has crashed');
ok(kill(0, $supervisor), 'and the supervisor is the same');

# --- afterwards -------------------------------------------------------------------------------------
# the next device process restores the overwritten words
kill 'KILL', grep { defined } process();
ok(defined wait_ready($node, 60), 'another device process comes');
ok(defined wait_until(sub { is_idle($node) }, 10), 'nothing is left leased');
is($node->safe_psql('postgres', 'SELECT hjoin_gpu_self_test(100000, 3000000)'), 3000000, 'and joins');

# --- a process that returns wrong results is terminated ------------------------------------------------------
$node->stop;
{
	local $ENV{HJG_FAULT} = 'corrupt:result:2';
	$node->start;
}
wait_ready($node, 30);
$pid = device_pid($node);
is($node->safe_psql('postgres', $join), $answer, "a result that fails its check: core's answer");
ok(defined wait_until(sub { !kill(0, $pid) }, 5), 'the process that wrote it is ended');
like(slurp_file($node->logfile), qr/was killed because a result of it failed its check/, 'and the log says why');
is(stat_value($node, 'device_kills'), 1, 'which is counted');
$node->stop;

done_testing();
