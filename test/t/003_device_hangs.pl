# The device process stops making progress: it is ended and started again.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $query = 'SELECT hjoin_gpu_self_test(100000, 3000000)';
my $answer = 3000000;
my $join = q{SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0;
	SELECT count(*) FROM build JOIN probe USING (k)};
my $join_answer = 400000;

# a stop longer than this limit is a hang, a stop of a fraction of it is not
my $node = start_node('main', conf => "hjoin_gpu.device_timeout = '1s'\n");
make_tables($node);
wait_ready($node, 10);

# stopped while idle, then asked
my $pid = device_pid($node);
kill 'STOP', $pid;
sleep 2.5;
is(device_pid($node), $pid, 'a stopped process is left alone while there is nothing to do');
my $start = time;
my ($rc, $out, $err) = $node->psql('postgres', $query);
like($err, qr/device process (lost|does not answer)/, 'a join notices');
took_less(time - $start, 5, 'soon');
ok(defined wait_until(sub { !kill(0, $pid) }, 5), 'the stopped process is ended');
ok(defined wait_ready($node, 10), 'and another one started');
is(stat_value($node, 'device_kills'), 1, 'which is counted');
is($node->safe_psql('postgres', $query), $answer, 'it joins');

# stopped during a join
my $running = start_query($node, 'SELECT hjoin_gpu_self_test(1000000, 300000000)');
backend_of($node, 'probing|building');
$pid = device_pid($node);
kill 'STOP', $pid;
(undef, $err) = finish_query($running);
like($err, qr/device process (lost|does not answer)/, 'a join that runs notices');
ok(defined wait_until(sub { is_idle($node) }, 5), 'and leaves nothing behind');
ok(defined wait_ready($node, 10), 'the service is back');

# stopped for a short time
$pid = device_pid($node);
kill 'STOP', $pid;
$running = start_query($node, $query);
sleep 0.2;
kill 'CONT', $pid;
($out) = finish_query($running);
is($out, $answer, 'a short stop does no harm');
is(device_pid($node), $pid, 'and the process stays');

# an engine hangs while another job runs
for my $fault ('hang:build:1', 'hang:probe:2', 'hang:result:1')
{
	{
		local $ENV{HJG_FAULT} = $fault;
		$node->restart;
	}
	wait_ready($node, 10);
	is($node->safe_psql('postgres', $join), $join_answer, "$fault: the join gives the right answer");
	($rc, $out, $err) = $node->psql('postgres', $query);
	ok($out eq $answer || $err =~ /device process (lost|does not answer|not running)/, "$fault: the self-test notices");
	cmp_ok(stat_value($node, 'device_kills'), '>=', 1, "$fault: the process is ended");
	ok(defined wait_until(sub { is_idle($node) }, 5), "$fault: nothing stays leased");
}

# slow is not hung
{
	local $ENV{HJG_FAULT} = 'slow:probe:2500ms';
	$node->restart;
}
wait_ready($node, 10);
is($node->safe_psql('postgres', 'SELECT hjoin_gpu_self_test(1000, 1000)'), 1000,
	'an operation that takes longer than the timeout but makes progress is waited for');
is(stat_value($node, 'device_kills'), 0, 'its process is not ended');

$node->stop;
done_testing();
