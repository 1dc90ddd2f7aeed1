# Without shared_preload_libraries every function can be called and tells why it is empty.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use Test::More;

my $query = 'SELECT hjoin_gpu_self_test(1000, 1000)';

my $node = start_node('main', not_preloaded => 1);
make_tables($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM hjoin_gpu_devices'), 0, 'no devices');
is($node->safe_psql('postgres', 'SELECT count(*) FROM hjoin_gpu_jobs'), 0, 'no jobs');
is($node->safe_psql('postgres', 'SELECT total_bytes, leased_bytes FROM hjoin_gpu_arena()'), '0|0', 'no arena');
is($node->safe_psql('postgres', q{SELECT value, detail FROM hjoin_gpu_stat WHERE name = 'available'}),
	'0|no shared memory', 'the service is not available');
is($node->safe_psql('postgres', 'SELECT count(*) FROM hjoin_gpu_stat WHERE value <> 0'), 0, 'all counters are zero');
is($node->safe_psql('postgres', 'SELECT count(*) FROM hjoin_gpu_costs'), 0, 'no costs are in force');
is($node->safe_psql('postgres', 'SELECT * FROM hjoin_gpu_cache_memory()'), '0|0|f', 'no memory for kept columns');
is($node->safe_psql('postgres', q{SELECT ok, finding, advice ~ 'shared_preload_libraries' FROM hjoin_gpu_doctor() WHERE topic = 'preload'}),
	'f|no shared memory|t', 'which the doctor tells');
is($node->safe_psql('postgres', 'SELECT hjoin_gpu_stat_reset() IS NOT NULL'), 't', 'they can be reset');
my ($rc, $out, $err) = $node->psql('postgres', '\set VERBOSITY verbose' . "\n" . $query);
like($err, qr/55000.*no shared memory/s, 'the self-test fails with a code and a reason');
($rc, $out, $err) = $node->psql('postgres', "LOAD 'hjoin_gpu'");
like($err, qr/shared_preload_libraries/, 'loading says what is missing');
is($node->safe_psql('postgres', 'SELECT count(*) FROM build JOIN probe USING (k)'), 400000, 'joins work');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'hjoin_gpu'}), 0,
	'no supervisor runs');

$node->stop;
done_testing();
