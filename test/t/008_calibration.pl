# Unit costs: measured, shown, kept over restarts, and a bad file is no harm.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

# of the machine: those of devices are shown while a device is there
my $costs = q{SELECT string_agg(name || '=' || value, ' ' ORDER BY name) FROM hjoin_gpu_costs WHERE device IS NULL};
my $defaults = q{SELECT string_agg(name || '=' || default_value, ' ' ORDER BY name) FROM hjoin_gpu_costs WHERE device IS NULL};

my $node = start_node('main');
my $file = $node->data_dir . '/hjoin_gpu.calibration';
wait_ready($node);

is($node->safe_psql('postgres', $costs), $node->safe_psql('postgres', $defaults),
	'a new cluster has the default costs');
ok(!-e $file, 'and no calibration file');

my $measured = $node->safe_psql('postgres',
	q{SELECT string_agg(name || '=' || value, ' ' ORDER BY name) FROM hjoin_gpu_calibrate() WHERE device IS NULL});
isnt($measured, $node->safe_psql('postgres', $defaults), 'calibration measures');
is($node->safe_psql('postgres', q{SELECT count(*) FROM hjoin_gpu_costs WHERE value < 0 OR value = 'NaN'}),
	0, 'no cost is negative or not a number');
is($node->safe_psql('postgres', $costs), $measured, 'other sessions see the measured costs');
ok(-s $file, 'they are kept in a file');
my $settings = q{SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings};
my ($before, undef, $after) = split /\n/,
  $node->safe_psql('postgres', "$settings; SELECT count(*) FROM hjoin_gpu_calibrate(); $settings");
is($after, $before, 'calibration leaves the settings of its session alone');
$measured = $node->safe_psql('postgres', $costs);

$node->restart;
wait_ready($node);
is($node->safe_psql('postgres', $costs), $measured, 'the costs outlive a restart');

is($node->safe_psql('postgres', q{SET hjoin_gpu.emit_tuple_cost = 2;
	SELECT round((e.value / u.value)::numeric, 6)::float8 FROM hjoin_gpu_costs e, hjoin_gpu_costs u
	WHERE e.name = 'emit_tuple' AND u.name = 'small_unit'}),
	2, 'a cost knob overrides the measured cost');

$node->stop;
append_to_file($file, "rubbish\n");
truncate($file, 20);
append_to_file("$file.tmp.999999999", 'half');
$node->start;
wait_ready($node);
is($node->safe_psql('postgres', $costs), $node->safe_psql('postgres', $defaults),
	'a damaged file means the default costs');
ok(log_count($node, qr/hjoin_gpu\.calibration/) > 0, 'and a line in the log');

ok(!-e "$file.tmp.999999999", 'what a crash left of a file is removed');

# the supervisor starts anew while the server runs, perhaps with a session that writes the file
my $session = start_query($node, 'SELECT pg_sleep(60)', 'writer');
my $writer;
wait_until(sub {
	($writer = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name = 'writer'})) ne ''
});
my $device = device_pid($node);
my ($supervisor) = slurp_file("/proc/$device/status") =~ /^PPid:\s+(\d+)/m;
append_to_file("$file.tmp.$writer", 'half');
append_to_file("$file.tmp.999999999", 'half');
kill 'TERM', $supervisor;
ok(defined wait_until(sub { !-e "$file.tmp.999999999" }), 'a supervisor that starts anew removes such files too');
ok(-e "$file.tmp.$writer", 'but not that of a session');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($writer)");
finish_query($session);

my ($rc, $out, $err) = $node->psql('postgres',
	'CREATE ROLE nobody_special; SET ROLE nobody_special; SELECT * FROM hjoin_gpu_calibrate()');
like($err, qr/permission denied for function hjoin_gpu_calibrate/, 'calibration is for superusers');

$node->stop;
done_testing();
