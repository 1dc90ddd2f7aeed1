# A query is cancelled at moments all over its execution, so in each of its phases: it ends within 100 ms, and nothing is
# left behind.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use Test::More;
use Time::HiRes qw(sleep time);

# seconds
my $limit = 0.1;
# moments a query
my $moments = 5;

my $node = start_node('main', conf => "shared_buffers = '256MB'\njit = off\n");
$node->safe_psql('postgres', q{
	CREATE UNLOGGED TABLE rows AS SELECT g AS id, (g * 7919::bigint % 400000)::int AS k, g % 7 AS few, g / 3.0 AS n, 'text ' || g % 5000 AS t FROM generate_series(1, 800000) g;
	CREATE UNLOGGED TABLE keys AS SELECT g AS k, g % 1000 AS d, repeat('x', 60) AS t FROM generate_series(0, 399999) g;
	CREATE UNLOGGED TABLE dims AS SELECT g AS d FROM generate_series(0, 999, 40) g;
	ALTER TABLE rows SET (parallel_workers = 2);
	ALTER TABLE keys SET (parallel_workers = 2);
	VACUUM ANALYZE rows, keys, dims});
wait_ready($node, 10);

my $little = q{SET work_mem = '1MB'; SET hash_mem_multiplier = 1};
my $some = q{SET work_mem = '16MB'; SET hash_mem_multiplier = 1};
my $together = 'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0; SET parallel_tuple_cost = 0';
my $device = 'SET hjoin_gpu.in_backend_rows = 0';
my @queries = (
	[ 'a scan and its conditions', '', q{SELECT count(*) FROM rows r JOIN dims x ON r.few = x.d WHERE r.t LIKE '%9%8%' AND r.n * 2 > 7 AND length(r.t) > 3 AND r.n < 200000}, qr/GpuHashJoin/ ],
	[ 'few groups', '', 'SELECT few, t, count(*), sum(n), avg(id) FROM rows GROUP BY few, t', qr/GpuAggregate/ ],
	[ 'groups that go to files', $some, 'SELECT id, count(*), sum(n), avg(n) FROM rows GROUP BY id', qr/GpuAggregate.*Full Tables/s ],
	[ 'groups that processes exchange', "$together; SET parallel_tuple_cost = 1; SET cpu_tuple_cost = 5", 'SELECT count(*), sum(s) FROM (SELECT k, sum(n) AS s FROM rows GROUP BY k OFFSET 0) q', qr/Parallel Custom Scan \(GpuAggregate\)/ ],
	[ 'values made distinct', $some, 'SELECT few, count(DISTINCT k), count(*) FROM rows GROUP BY few', qr/GpuAggregate.*Full Tables/s ],
	[ 'distinct rows', '', 'SELECT DISTINCT k, few, t FROM rows', qr/GpuAggregate/ ],
	[ 'a join in memory', "SET work_mem = '256MB'", 'SELECT count(r.t), count(x.t) FROM rows r JOIN keys x USING (k)', qr/GpuHashJoin/ ],
	[ 'a join in the device process', "$device; SET work_mem = '256MB'", 'SELECT count(r.t), count(x.t) FROM rows r JOIN keys x USING (k)', qr/GpuHashJoin/ ],
	[ 'a join in files', $little, 'SELECT count(r.t), count(x.t) FROM rows r JOIN keys x USING (k)', qr/Hash Batches/ ],
	[ 'a join in files that processes share', "$together; $little; $device", 'SELECT count(r.t), count(x.t) FROM rows r JOIN keys x USING (k)', qr/Parallel Custom Scan \(GpuHashJoin\).*Hash Batches/s ],
	[ 'filters that travel', 'SET hjoin_gpu.bloom_filter = on; SET join_collapse_limit = 1', 'SELECT count(r.t) FROM (rows r JOIN keys x USING (k)) JOIN dims y ON x.d = y.d', qr/Bloom Filter Scan/ ]);

my $session = open_session($node);
for my $case (@queries)
{
	my ($what, $settings, $query, $shape) = @$case;
	my $analyze = "EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF) $query";
	my ($cancelled, $worst) = (0, 0);

	ask($session, "RESET ALL; SET hjoin_gpu.force = on; SET max_parallel_workers_per_gather = 0" . ($settings ? "; $settings" : ''));
	my $start = time;
	like(scalar ask($session, $analyze), $shape, "$what: the plan");
	my $whole = time - $start;
	for my $moment (1 .. $moments)
	{
		my $ms = 1 + int($moment / ($moments + 1) * $whole * 1000);
		my $best = 9**9**9;

		# again where a busy machine may be the cause
		for my $try (1 .. 3)
		{
			$start = time;
			my (undef, $err) = ask($session, "SET statement_timeout = '${ms}ms'; $analyze");
			my $took = $err =~ /canceling statement due to statement timeout/ ? time - $start - $ms / 1000 : 0;
			$cancelled++ if $took > 0;
			$best = $took if $took < $best;
			ask($session, 'RESET statement_timeout');
			last if $best < $limit;
		}
		$worst = $best if $best > $worst;
	}
	cmp_ok($cancelled, '>', 0, "$what: the query is cancelled");
	took_less($worst, $limit, "$what: and ends at once");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ls_tmpdir()'), 0, "$what: no file is left");
	ok(defined wait_until(sub { is_idle($node) }, 5), "$what: no job and no memory is left");
}
is(stat_value($node, 'device_deaths'), 0, 'the device process was not harmed');

$node->stop;
done_testing();
