# The server, the supervisor or the device process ends during joins: nothing is left behind, nothing waits forever.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $ours = 'SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0; SET max_parallel_workers_per_gather = 0;';
my $parallel = 'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;';
my $query = 'SELECT count(*), sum(build.id::bigint * probe.id) FROM build JOIN probe USING (k)';
# runs until it is terminated: 4 * 10^9 pairs, all returned
my $endless = 'SELECT max(b.id + p.id) FROM build b JOIN probe p ON b.k % 10 = p.k % 10';

my $node = start_node('main', conf => "restart_after_crash = on\n");
make_tables($node);
wait_ready($node);
my $answer = $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $query");

sub postmaster { return (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0] }
# The process that serves now, or the next one, which may not have started.
sub serving_pid { my $pid; wait_until(sub { defined($pid = device_pid($node)) }, 15); return $pid }
sub parent_of { my ($pid) = @_; return slurp_file("/proc/$pid/status") =~ /^PPid:\s+(\d+)/m ? $1 : undef }
# Has the process ended?  A zombie has.
sub is_gone { my ($pid) = @_; return !-e "/proc/$pid/status" || slurp_file("/proc/$pid/status") =~ /^State:\s+Z/m }
sub is_right { return $node->safe_psql('postgres', "$ours $query") eq $answer }

# Start joins: one that ends and two endless ones, the second shared by leader and workers.
sub start_joins
{
	my @queries = map { start_query($node, "$ours $_") } $query, $endless, "$parallel $endless";
	wait_until(sub { $node->safe_psql('postgres', 'SELECT count(*) FROM hjoin_gpu_jobs') >= 2 }, 10);
	return @queries;
}

# --- the postmaster is killed, with a device process that joins or is stopped
for my $stopped (0, 1)
{
	my $how = $stopped ? 'with the device process stopped' : 'with joins at work';
	my @queries = start_joins();
	my $device = serving_pid();
	my $supervisor = parent_of($device);
	my $postmaster = postmaster();

	kill 'STOP', $device if $stopped;
	$node->kill9;
	my $took = wait_until(sub { is_gone($device) && is_gone($supervisor) }, 10);
	ok(defined $took, "postmaster killed $how: device process and supervisor end");
	took_less($took // 99, 5, 'within seconds');
	my (undef, $err) = finish_query($queries[1]);
	like($err, qr/server closed the connection|terminating connection/, 'a session that joins ends as core\'s would');
	finish_query($_) for @queries[ 0, 2 ];
	wait_until(sub { !kill 0, $postmaster }, 20);
	# a process that joins by itself, as the device process was busy for too long, looks at nothing before its next wait, as core's would
	ok(defined wait_until(sub { $node->start(fail_ok => 1) }, 60) && defined wait_ready($node), 'the server starts on its data directory');
	ok(is_right(), 'and joins');
}

# --- the supervisor is stopped during joins
{
	my $supervisor = parent_of(serving_pid());
	my @queries = start_joins();
	kill 'STOP', $supervisor;
	my $start = time;
	my ($out, $err) = ($node->psql('postgres', "SET statement_timeout = '1500ms'; $ours $endless"))[1, 2];
	like($err, qr/canceling statement due to statement timeout/, 'supervisor stopped: a join is cancelled');
	took_less(time - $start, 4, 'in time');
	$start = time;
	is($node->safe_psql('postgres', "SET statement_timeout = '60s'; $ours $query"), $answer, 'a join that begins meanwhile ends with core\'s rows');
	is((finish_query($queries[0]))[0], $answer, 'so does one that ran already');
	$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'background'});
	like((finish_query($_))[1], qr/canceling statement/, 'others are cancelled') for @queries[ 1, 2 ];
	kill 'CONT', $supervisor;
	ok(defined wait_until(sub { is_idle($node) }, 10), 'when it goes on nothing stays leased');
	ok(defined wait_ready($node), 'the service is there');
	ok(is_right(), 'and joins');
}

# --- neither the supervisor nor the device process responds
$node->append_conf('postgresql.conf', "hjoin_gpu.device_timeout = '1s'\n");
$node->reload;
for my $signal (qw(STOP KILL))
{
	my $device = serving_pid();
	my $supervisor = parent_of($device);
	kill 'STOP', $supervisor;
	kill $signal, $device;
	my $start = time;
	is($node->safe_psql('postgres', "$ours $query"), $answer, "supervisor stopped, device process sent SIG$signal: a join ends with core's rows");
	is($node->safe_psql('postgres', "$ours $parallel $query"), $answer, 'and one of several processes');
	took_less(time - $start, 10, 'not much later than hjoin_gpu.device_timeout');
	kill 'CONT', $supervisor, $device;
	ok(defined wait_until(sub { stat_value($node, 'available') == 1 && is_idle($node) && is_right() }, 15), 'when the supervisor goes on all is as before');
}
$node->append_conf('postgresql.conf', "hjoin_gpu.device_timeout = '10s'\n");
$node->reload;

# --- the supervisor is terminated
{
	my $device = serving_pid();
	my $supervisor = parent_of($device);
	my @queries = start_joins();
	kill 'TERM', $supervisor;
	is((finish_query($queries[0]))[0], $answer, 'supervisor ended: a join ends with core\'s rows');
	ok(defined wait_until(sub { is_gone($device) }, 5), 'its device process ends with it');
	ok(defined wait_until(sub { stat_value($node, 'available') == 1 && device_pid($node) != $device }, 15), 'another one comes');
	$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'background'});
	finish_query($_) for @queries[ 1, 2 ];
	ok(defined wait_until(sub { is_idle($node) }, 10), 'nothing stays leased');
	ok(is_right(), 'and joins run');
}

# --- a backend crashes: everything is created anew, nothing is kept
{
	my $postmaster = postmaster();
	my $count_fds = sub { my @fds = glob "/proc/$postmaster/fd/*"; return scalar @fds };
	my $count_arenas = sub {
		my $fds = grep { (readlink($_) // '') =~ /memfd:hjoin_gpu/ } glob "/proc/$postmaster/fd/*";
		my $maps = () = slurp_file("/proc/$postmaster/maps") =~ /memfd:hjoin_gpu/g;
		return "$fds, $maps";
	};
	my $arenas = $count_arenas->();
	like($arenas, qr/^[1-9]\d*, [1-9]/, 'the postmaster holds the arena and maps it');
	my (@wrong, $fds);
	for my $round (1 .. 20)
	{
		wait_until(sub { ($node->psql('postgres', 'SELECT 1'))[0] == 0 }, 20);
		my $victim = start_query($node, 'SELECT pg_sleep(60)', 'victim');
		my @queries = $round % 5 ? () : do { wait_ready($node); start_joins() };
		my $pid;
		wait_until(sub { ($pid = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name = 'victim'})) ne '' }, 10);
		my $device = serving_pid();
		$pid = parent_of($device) if $round == 10 && defined $device;	# the supervisor, whose death counts as a backend's crash
		kill 'KILL', $pid;
		finish_query($_) for $victim, @queries;
		push @wrong, "round $round: the device process lives on" if defined $device && !defined wait_until(sub { is_gone($device) }, 10);
		wait_until(sub { ($node->psql('postgres', 'SELECT 1'))[0] == 0 }, 20);
		$fds //= do { sleep 0.5; $count_fds->() };
		push @wrong, "round $round: " . $count_fds->() . " descriptors, not $fds" if !defined wait_until(sub { $count_fds->() == $fds }, 2);
	}
	is(join("\n", @wrong), '', 'after each of 20 crashes of a backend the device process is another, and the postmaster has as many descriptors');
	is($count_arenas->(), $arenas, 'and holds and maps as many arenas as at first');
	ok(defined wait_ready($node), 'the service is back');
	ok(is_right(), 'and joins');
}

# --- shutdowns during joins
for my $mode (qw(fast immediate smart))
{
	my @queries = start_joins();
	my $device = serving_pid();
	my $start = time;
	if ($mode eq 'smart')
	{
		# smart shutdown waits for sessions: terminate those whose join does not end
		$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%max%' AND pid <> pg_backend_pid()});
	}
	$node->stop($mode);
	took_less(time - $start, 15, "$mode shutdown in the middle of joins ends in time");
	finish_query($_) for @queries;
	ok(is_gone($device), 'and the device process with it');
	$node->start;
	ok(defined wait_ready($node), 'the server starts again');
	ok(is_right(), 'and joins');
}

is(log_count($node, qr/was terminated by signal (?!9)|PANIC|TRAP/), 0, 'no process died but those that were killed');
$node->stop;
done_testing();
