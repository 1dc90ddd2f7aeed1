# Columns gathered by a GPU (early materialization), emulated as in 011_cuda.pl: core's rows with
# hjoin_gpu.materialization = early, for all columns, kinds of join and faults.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

use_emulated_cuda();

my $settings = q{SET hjoin_gpu.force = on; SET hjoin_gpu.programs = off; SET hjoin_gpu.in_backend_rows = 0; SET max_parallel_workers_per_gather = 0;
	SET hjoin_gpu.device = 'cuda:0'; SET hjoin_gpu.materialization = early;};
my $parallel = q{SET max_parallel_workers_per_gather = 3; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
	SET min_parallel_table_scan_size = 0;};

sub hash_of
{
	my ($columns, $from) = @_;
	return "SELECT count(*), sum(hashtextextended(x::text, 0)::numeric) FROM (SELECT $columns FROM $from) x";
}

# a: i4, i8, bool, int2 side by side; b: likewise; each key k occurs twice in b, three times in a
my %joins = (
	inner => hash_of('a.id, a.v, a.w, a.f, b.id AS bid, b.v AS bv, b.s', 'a JOIN b USING (k)'),
	left => hash_of('a.id, a.v, b.id AS bid, b.v AS bv', 'a LEFT JOIN b ON b.k = a.k * 2'),
	right => hash_of('a.id, a.w, b.id AS bid, b.s', 'a RIGHT JOIN b ON b.k = a.k * 2'),
	full => hash_of('a.id, a.v, b.id AS bid, b.v AS bv', 'a FULL JOIN b ON b.k = a.k * 3'),
	semi => hash_of('a.id, a.v, a.f', 'a WHERE EXISTS (SELECT FROM b WHERE b.k = a.k)'),
	anti => hash_of('a.id, a.v, a.f', 'a WHERE NOT EXISTS (SELECT FROM b WHERE b.k = a.k)'),
	unique => hash_of('a.id, a.v, u.v AS uv, u.w', 'a JOIN u ON u.id = a.k'),
	residual => hash_of('a.id, b.id AS bid', 'a JOIN b ON a.k = b.k AND a.v < b.v'),
	residual_semi => hash_of('a.id, a.v', 'a WHERE EXISTS (SELECT FROM b WHERE b.k = a.k AND b.v > a.v)'),
	residual_left => hash_of('a.id, b.id AS bid, b.v AS bv', 'a LEFT JOIN b ON a.k = b.k AND a.w + b.v > 300000'),
	chain => hash_of('a.id, a.v, b.v AS bv, u.w', 'a JOIN b USING (k) JOIN u ON u.id = b.id'),
	hashed => hash_of('a.id, b.id AS bid, b.v AS bv', 'a JOIN b ON a.k::numeric = b.k::numeric'));

sub explained
{
	my ($node, $join, $more) = @_;
	return $node->safe_psql('postgres', $settings . ($more // '') . "EXPLAIN (ANALYZE, COSTS OFF, TIMING ON) $join");
}

sub start_with
{
	my ($name, %opt) = @_;
	my $node = start_node($name, %opt);
	$node->safe_psql('postgres', q{
		CREATE TABLE a AS SELECT g AS id, g % 30000 AS k, g * 3 AS v, (g::bigint << 33) + g AS w, g % 3 = 0 AS f
			FROM generate_series(1, 90000) g;
		CREATE TABLE b AS SELECT g AS id, g % 20000 AS k, g * 7 AS v, (g % 1000)::smallint AS s FROM generate_series(1, 40000) g;
		CREATE TABLE u AS SELECT g AS id, g * 11 AS v, g::float8 / 7 AS w FROM generate_series(1, 25000) g;
		ALTER TABLE u ADD PRIMARY KEY (id);
		ALTER TABLE a SET (parallel_workers = 3);
		ALTER TABLE b SET (parallel_workers = 3);
		ANALYZE a, b, u});
	wait_until(sub { $node->safe_psql('postgres', q{SELECT state FROM hjoin_gpu_devices WHERE kind = 'cuda'}) eq 'ready' }, 10);
	return $node;
}

my $node = start_with('works', conf => "max_worker_processes = 16\n");
my %answers = map { $_ => $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $joins{$_}") } keys %joins;
for my $name (sort keys %joins)
{
	is($node->safe_psql('postgres', "$settings $joins{$name}"), $answers{$name}, "$name: core's rows");
	is($node->safe_psql('postgres', "$settings $parallel $joins{$name}"), $answers{$name}, "$name, parallel: core's rows");
	is($node->safe_psql('postgres', "$settings SET hjoin_gpu.strategy = csr; $joins{$name}"), $answers{$name}, "$name, csr: core's rows");
}
like(explained($node, $joins{inner}), qr/Early Materialization: both/, 'EXPLAIN ANALYZE names the sides');
like(explained($node, $joins{inner}), qr/Device Phases: .* Gather=(?!0\.000)\d/, 'and shows the time of gathering');
like(explained($node, $joins{inner}, $parallel), qr/Workers Launched: [1-3].*Early Materialization: both/s, 'of a shared build side, too');
like(explained($node, $joins{anti}), qr/Early Materialization: outer/, 'a side without columns sends none');
unlike(explained($node, $joins{inner}, 'SET hjoin_gpu.materialization = late;'), qr/Early Materialization|Gather/, 'late: nothing is gathered');
unlike(explained($node, $joins{inner}, 'SET hjoin_gpu.device = cpu;'), qr/Early Materialization|Gather/, 'the cpu engine gathers nothing');

# --- the choice ---
{
	my $auto = q{SET hjoin_gpu.materialization = auto; SET work_mem = '64MB'; };
	$node->safe_psql('postgres', q{CREATE TABLE large AS SELECT g AS id, g AS k, g::bigint AS v FROM generate_series(1, 600000) g; ANALYZE large});
	my $self = hash_of('large.v, b.v AS bv', 'large JOIN large b USING (k)');
	like(explained($node, $self, $auto), qr/Early Materialization: inner/, 'auto: columns of a large build side');
	unlike(explained($node, $joins{inner}, $auto), qr/Early Materialization/, 'auto: not of a small one');
	unlike(explained($node, $self, $auto . $parallel), qr/Early Materialization/, 'auto: not where many processes join');
	$node->safe_psql('postgres', 'DROP TABLE large');
}

# --- columns that are not sent to the device ---
$node->safe_psql('postgres', q{
	CREATE TABLE c AS SELECT g AS id, g % 20000 AS k, CASE WHEN g <> 39999 THEN g END AS n, 'row ' || g AS t FROM generate_series(1, 40000) g;
	CREATE TABLE d AS SELECT g AS id, g % 20000 AS k, CASE WHEN g <> 70000 THEN g END AS n FROM generate_series(1, 90000) g;
	ANALYZE c, d});
my %late = (
	'a NULL on the build side' => [ hash_of('d.id, c.n', 'd JOIN c USING (k)'), 'outer' ],
	'a column of variable length' => [ hash_of('d.id, c.t', 'd JOIN c USING (k)'), 'outer' ],
	'a NULL on the probe side' => [ hash_of('d.id, d.n, c.id AS cid', 'd LEFT JOIN c USING (k)'), '(both|inner)' ]);
for my $name (sort keys %late)
{
	my ($join, $sides) = @{ $late{$name} };
	my $core = $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $join");
	is($node->safe_psql('postgres', "$settings $join"), $core, "$name: core's rows");
	is($node->safe_psql('postgres', "$settings $parallel $join"), $core, "$name, parallel: core's rows");
	like(explained($node, $join), qr/Early Materialization: $sides/, "$name: the other side is gathered");
}

# --- rescans, LIMIT, cursors: unread results are released ---
my $lateral = 'SELECT count(*), sum(s.x) FROM generate_series(1, 3) g, LATERAL (SELECT sum(a.v + b.v) AS x FROM a JOIN b USING (k) WHERE a.id % 3 <> g % 3 OFFSET 0) s';
is($node->safe_psql('postgres', "$settings $lateral"), $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $lateral"), "rescans: core's rows");
is($node->safe_psql('postgres', "$settings SELECT count(*) FROM (SELECT a.v, b.v FROM a JOIN b USING (k) LIMIT 7) s"), '7', 'a LIMIT ends a join');
ok(defined wait_until(sub { is_idle($node) }, 10), 'no job and no slab is left');
is($node->safe_psql('postgres', q{SELECT sum(value) FROM hjoin_gpu_stat WHERE name ~ '^fallback' OR name = 'results_rejected'}), '0', 'nothing fell back');
$node->stop;

# --- the device process is lost, or returns wrong results ---
for my $fault (qw(die:build:1 die:probe:2 die:result:3 columns:result:2 truncate:result:1))
{
	$node = start_with($fault =~ s/:/_/gr, fault => $fault);
	is(($node->psql('postgres', "$settings $joins{inner}"))[1], $answers{inner}, "$fault: core's rows");
	if ($fault =~ /^columns/)
	{
		is(stat_value($node, 'results_rejected'), 1, "$fault: counted");
		like(slurp_file($node->logfile), qr/failed its check: wrong payload columns/, "$fault: the log says what was wrong");
	}
	ok(defined wait_until(sub { is_idle($node) }, 10), "$fault: no job and no slab is left");
	$node->stop;
}

done_testing();
