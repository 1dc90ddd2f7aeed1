# The device program is missing or is not a program: the server works without it.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $query = 'SELECT hjoin_gpu_self_test(1000, 1000)';
my $join = q{SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0;
	SELECT count(*) FROM build JOIN probe USING (k)};
my $join_answer = 400000;

my $program = PostgreSQL::Test::Utils::tempdir() . '/program';
my $node = start_node('main', conf => "hjoin_gpu.device_program = '$program'\n");
make_tables($node);
sleep 2;
is(log_count($node, qr/could not start the hjoin_gpu device process/), 1, 'a missing program is logged once');
is(log_count($node, qr/HINT:  Install the program/), 1, 'with a hint');
is(stat_value($node, 'available'), 0, 'the service is not available');
is($node->safe_psql('postgres', 'SELECT state, reason FROM hjoin_gpu_devices'),
	'down|device process could not be started: No such file or directory', 'the view says why');
my ($rc, $out, $err) = $node->psql('postgres', $query);
like($err, qr/device process not running/, 'the self-test says so');
is($node->safe_psql('postgres', $join), $join_answer, 'joins work');

# the program appears later
my $real = `pg_config --bindir`;
chomp $real;
symlink "$real/hjoin_gpu_device", $program or die $!;
ok(defined wait_ready($node, 35), 'the program is started when it appears');
is($node->safe_psql('postgres', $query), 1000, 'and joins');

# a file that is not a program
$node->stop;
unlink $program;
append_to_file($program, "this is no program\n");
$node->start;
sleep 1;
is($node->safe_psql('postgres', 'SELECT count(*) FROM hjoin_gpu_devices WHERE state = \'down\''), 1, 'a file without execute permission is no device');
chmod 0755, $program;
ok(defined wait_until(sub { log_count($node, qr/HINT:  Check that ".*" is a program/) > 0 }, 10),
	'a file that cannot be executed is logged with a hint');
is($node->safe_psql('postgres', $join), $join_answer, 'joins work');

# another program
$node->stop;
unlink $program;
symlink '/bin/true', $program;
$node->start;
ok(defined wait_until(sub { stat_value($node, 'device_deaths') >= 2 }, 10), 'a program that ends at once is tried again');
is($node->safe_psql('postgres', $join), $join_answer, 'joins work');
is(stat_value($node, 'available'), 0, 'the service is not available');

$node->stop;
done_testing();
