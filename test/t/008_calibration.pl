# Unit costs: measured, shown, kept over restarts, and a bad file is no harm.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $costs = q{SELECT string_agg(name || '=' || value, ' ' ORDER BY name) FROM hjoin_gpu_costs};
my $defaults = q{SELECT string_agg(name || '=' || default_value, ' ' ORDER BY name) FROM hjoin_gpu_costs};

my $node = start_node('main');
my $file = $node->data_dir . '/hjoin_gpu.calibration';
wait_ready($node);

is($node->safe_psql('postgres', $costs), $node->safe_psql('postgres', $defaults),
	'a new cluster has the default costs');
ok(!-e $file, 'and no calibration file');

my $measured = $node->safe_psql('postgres',
	q{SELECT string_agg(name || '=' || value, ' ' ORDER BY name) FROM hjoin_gpu_calibrate()});
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
$node->start;
wait_ready($node);
is($node->safe_psql('postgres', $costs), $node->safe_psql('postgres', $defaults),
	'a damaged file means the default costs');
ok(log_count($node, qr/hjoin_gpu\.calibration/) > 0, 'and a line in the log');

my ($rc, $out, $err) = $node->psql('postgres',
	'CREATE ROLE nobody_special; SET ROLE nobody_special; SELECT * FROM hjoin_gpu_calibrate()');
like($err, qr/permission denied for function hjoin_gpu_calibrate/, 'calibration is for superusers');

$node->stop;
done_testing();
