# The device process dies in every phase: answers stay right, nothing else crashes, and it comes back.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

# a self-test that reports the failure, and a join that must hide it
my $query = 'SELECT hjoin_gpu_self_test(100000, 3000000)';
my $answer = 3000000;
my $join = q{SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0; SET max_parallel_workers_per_gather = 0;
	SELECT count(*), sum(build.id::bigint * probe.id) FROM build JOIN probe USING (k)};
my $join_answer;
# joins below groups and DISTINCT, in files, and with filters that travel
my $settings = 'SET hjoin_gpu.force = on; SET hjoin_gpu.programs = off; SET hjoin_gpu.in_backend_rows = 0; SET max_parallel_workers_per_gather = 0; SET hjoin_gpu.bloom_filter = on; SET join_collapse_limit = 1;';
my @others = map { "SELECT count(*), sum(hashtextextended(q::text, 0)) FROM ($_) q" } (
	'SELECT probe.k % 1000, count(*), sum(build.id::numeric) FROM build JOIN probe USING (k) GROUP BY 1 HAVING count(*) > 3 OFFSET 0',
	'SELECT DISTINCT build.id % 5000, probe.k FROM build JOIN probe USING (k) OFFSET 0',
	'SELECT build.id % 7, count(DISTINCT probe.id) FROM build JOIN probe USING (k) GROUP BY 1 OFFSET 0',
	'SELECT a.id, b.id, c.id FROM (probe a JOIN build b USING (k)) JOIN (SELECT * FROM build WHERE id % 50 = 7) c ON b.id = c.id OFFSET 0');
my @other_answers;

my $node = start_node('main');
make_tables($node);
$join_answer = $node->safe_psql('postgres',
	'SET hjoin_gpu.enabled = off; SELECT count(*), sum(build.id::bigint * probe.id) FROM build JOIN probe USING (k)');
@other_answers = map { $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $_") } @others;
wait_ready($node, 10);
is($node->safe_psql('postgres', $join), $join_answer, 'the join is right in the device process');

my @faults = (
	[ 'die:build:1', 'device process lost' ],
	[ 'exit:build:1', 'device process lost' ],
	[ 'die:probe:1', 'device process lost' ],
	[ 'die:probe:3', 'device process lost' ],
	[ 'die:result:1', 'device process lost' ],
	[ 'corrupt:result:1', 'result failed its check' ],
	[ 'truncate:result:2', 'result failed its check' ]);

for my $case (@faults)
{
	my ($fault, $error) = @$case;
	{
		local $ENV{HJG_FAULT} = $fault;
		$node->restart;
	}
	wait_ready($node, 10);
	my $before = log_count($node, qr/server process .* was terminated/);
	my ($rc, $out, $err) = $node->psql('postgres', $query);
	like($err, qr/$error/, "$fault: the self-test says \"$error\"");
	{
		# a fresh process, whose fault hits the join too
		local $ENV{HJG_FAULT} = $fault;
		$node->restart;
	}
	wait_ready($node, 10);
	is($node->safe_psql('postgres', $join), $join_answer, "$fault: the join gives the right answer");
	my @also = $fault =~ /^die:(build:1|probe:3)|corrupt/ ? 0 .. $#others : ();
	for my $i (@also)
	{
		wait_ready($node, 35);
		is($node->safe_psql('postgres', "$settings SET work_mem = '" . ($i % 2 ? '64kB' : '64MB') . "'; $others[$i]"), $other_answers[$i], "$fault: and what is above joins, $i");
	}
	ok(defined wait_until(sub { is_idle($node) }, 5), "$fault: nothing stays leased");
	is(log_count($node, qr/server process .* was terminated/), $before, "$fault: no server process died");
	cmp_ok(stat_value($node, 'device_deaths') + stat_value($node, 'results_rejected'), '>', @also,
		"$fault: the faults are counted");
	ok(defined wait_ready($node, 10), "$fault: the service is back");
}

# a process that does not start: the pauses between starts grow
{
	my $offset = -s $node->logfile;
	local $ENV{HJG_FAULT} = 'exit:start';
	$node->restart;
	sleep 3;
	my $starts = stat_value($node, 'device_starts');
	cmp_ok($starts, '>=', 3, 'a process that ends at once is started again');
	cmp_ok($starts, '<=', 7, 'with pauses');
	is($node->safe_psql('postgres', $join), $join_answer, 'the join is right meanwhile');
	# except while it is starting
	my $says = '';
	wait_until(
		sub {
			$says = $node->safe_psql('postgres', q{SELECT state, reason FROM hjoin_gpu_devices});
			return $says ne 'down|device process starting';
		},
		10);
	is($says, 'down|device process exited with exit code 1', 'the view says why there is no device');
	my $log = slurp_file($node->logfile, $offset);
	my $lines = () = $log =~ /LOG:.*device process \(PID \d+\) exited with exit code 1/g;
	cmp_ok($lines, '>=', $starts - 1, 'a line in the log for each death');
	cmp_ok($lines, '<=', stat_value($node, 'device_deaths') + 1, 'and no more than one');
}

# kills at any moment of a process with many jobs
$node->restart;
wait_ready($node, 10);
my ($right, $lost, $wrong, $killed) = (0, 0, 0, 0);
for my $round (1 .. 12)
{
	wait_ready($node, 35);
	sleep 1.1;    # a life this long resets the pauses
	my $pid = device_pid($node);
	my @running = map { start_query($node, $_ % 2 ? $query : $_ == 2 ? $join : "$settings $others[$round % 4]") } 1 .. 4;
	sleep rand 0.25;
	kill 'KILL', $killed = $pid if $pid;
	for my $i (1 .. 4)
	{
		my ($out, $err) = finish_query($running[ $i - 1 ]);
		my $wanted = $i % 2 ? $answer : $i == 2 ? $join_answer : $other_answers[ $round % 4 ];
		if    ($out eq $wanted)                                                       { $right++ }
		elsif ($i % 2 && $err =~ /device process (lost|not running)/ && $out eq '') { $lost++ }
		else                                                                          { $wrong++; diag("$out $err") }
	}
}
is($wrong, 0, "kills at any moment give no wrong answer ($right right, $lost reported as lost)");
cmp_ok($right, '>=', 24, 'all joins of the executor were right');
# the supervisor may not have noticed the last death yet
ok(defined wait_until(sub { my $pid = device_pid($node); $pid && $pid != $killed }, 35) && defined wait_ready($node, 35), 'the service is back after all that');
ok(defined wait_until(sub { is_idle($node) }, 5), 'and idle');
is($node->safe_psql('postgres', $query), $answer, 'and joins');
is(log_count($node, qr/server process .* was terminated/), 0, 'no server process died');

$node->stop;
done_testing();
