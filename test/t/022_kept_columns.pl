# Kept columns of every type and every kind of table: rows are core's, and come from kept columns where they can.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_node('main', conf => "hjoin_gpu.cache_size = '64MB'\nautovacuum = off\nwal_level = replica\nmax_worker_processes = 16\nmax_parallel_workers = 8\n");
my $serial = 'SET hjoin_gpu.force = on; SET max_parallel_workers_per_gather = 0; ';
my $parallel = 'SET hjoin_gpu.force = on; SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; '
  . 'SET min_parallel_table_scan_size = 0; ';

sub sql { return $node->safe_psql('postgres', join '; ', @_) }

# Count the blocks that plans take from kept columns, or need not look at because of these, and those that scans by segments read.
sub count_blocks
{
	my ($plans) = @_;
	my ($kept, $read) = (0, 0);

	$kept += $_ for $plans =~ /(?:Kept Blocks|Blocks Skipped): (\d+)/g;
	$read += $_ for $plans =~ /Blocks Read: (\d+)/g;
	return ($kept, $read);
}

my $explain = 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)';

sub blocks_of { return count_blocks(sql($serial . "$explain $_[0]")) }

# Check that kept columns and pages give core's rows; returns how many blocks were kept, and read.
sub is_core
{
	my ($query, $name, $settings) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($core, $pages, $kept, $plan) = split /^next\n/m, sql(($settings // $serial) . 'SET hjoin_gpu.enabled = off', $query,
		q{SELECT 'next'; SET hjoin_gpu.enabled = on; SET hjoin_gpu.kept_columns = off}, $query, q{SELECT 'next'; SET hjoin_gpu.kept_columns = on; SET hjoin_gpu.verify = 1}, $query,
		q{SELECT 'next'; SET hjoin_gpu.verify = 0}, "$explain $query");

	is($pages, $core, "$name: pages give core's rows");
	is($kept, $core, "$name: kept columns give core's rows");
	return count_blocks($plan);
}

# The same, and that all of the table's blocks came from kept columns.
sub is_kept
{
	my ($query, $name, $settings) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($kept, $read) = is_core($query, $name, $settings);

	return ok($kept > 0 && $read == 0, "$name: all of it was kept") || diag("$kept blocks kept, $read read");
}

# Take a snapshot that keeps changes after it from being kept.
sub old_snapshot
{
	my $session = open_session($node);
	ask($session, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM r');
	return $session;
}

sql('CREATE TABLE r AS SELECT g AS k FROM generate_series(0, 6) g', 'VACUUM r');

# --- types: every 11th value is NULL
sql(q{CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')}, 'CREATE TYPE pair AS (a int, b text)', 'CREATE DOMAIN amount AS numeric(12,3)',
	'CREATE DOMAIN word AS varchar(20)');
my @types = (
	[ bool => 'g % 3 = 0' ],
	[ '"char"' => q{chr(65 + g % 26)::"char"} ],
	[ int2 => '(g % 65536 - 32768)::int2' ],
	[ int4 => 'CASE g % 3 WHEN 0 THEN 2147483647 WHEN 1 THEN -2147483648 ELSE g END' ],
	[ int8 => 'CASE g % 3 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -9223372036854775808 ELSE g END' ],
	[ float4 => q{(CASE g % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN 'Infinity' ELSE g::text END)::float4} ],
	[ float8 => q{(CASE g % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '-Infinity' WHEN 3 THEN '0' ELSE g::text END)::float8} ],
	[ 'numeric(12,2)' => 'g / 100.0 - 10' ],
	[ 'numeric, one scale at the limits' => 'CASE g % 3 WHEN 0 THEN 4611686018427387904 WHEN 1 THEN -4611686018427387904 ELSE g END::numeric', 'numeric' ],
	[ 'numeric, beyond the limits' => 'CASE g % 3 WHEN 0 THEN 4611686018427387905 WHEN 1 THEN -9223372036854775808 ELSE g END::numeric', 'numeric' ],
	[ 'numeric, special values in late blocks' => q{CASE WHEN g < 2000 THEN (g % 9) || '.50' WHEN g % 3 = 0 THEN 'NaN' WHEN g % 3 = 1 THEN 'Infinity' ELSE '-Infinity' END::numeric}, 'numeric' ],
	[ 'numeric, mixed scales' => q{(g || '.' || repeat('0', g % 9))::numeric}, 'numeric' ],
	[ 'numeric, scale 36' => '(g * 1e-36)::numeric(40,36)', 'numeric' ],
	[ 'numeric, scale 1000' => '(g * 1e-3)::numeric(1000,990)', 'numeric' ],
	[ 'numeric, zeros of many scales' => q{('0.' || repeat('0', g % 60))::numeric}, 'numeric' ],
	[ 'domain over numeric' => 'g / 8.0', 'amount' ],
	[ 'domain over varchar' => q{'word ' || g % 5}, 'word' ],
	[ 'text, few words' => q{'word ' || g % 5}, 'text' ],
	[ 'text, many words' => q{'word ' || g}, 'text' ],
	[ 'text, empty and long' => q{repeat('x', g % 200)}, 'text' ],
	[ 'text, compressed' => q{repeat('compressed ' || g % 4, 800)}, 'text' ],
	[ 'char(9)' => q{'c' || g % 400} ],
	[ name => q{('name ' || g % 700)::name} ],
	[ bytea => q{sha256(int4send(g % 300))} ],
	[ uuid => 'md5(g::text)::uuid' ],
	[ mood => q{(ARRAY['sad', 'ok', 'happy'])[1 + g % 3]::mood} ],
	[ 'int[]' => 'ARRAY[g, NULL, g % 3]' ],
	[ 'text[]' => q{ARRAY['a' || g % 6, NULL]} ],
	[ date => q{date '2000-01-01' + g} ],
	[ timestamptz => q{timestamptz '2000-01-01 UTC' + g * interval '1 minute'} ],
	[ timetz => q{timetz '12:00:00+01' + g * interval '1 second'} ],
	[ interval => q{g * interval '1 day 1 second'} ],
	[ inet => q{inet '10.0.0.0' + g} ],
	[ macaddr => q{('08:00:2b:01:02:' || lpad(to_hex(g % 256), 2, '0'))::macaddr} ],
	[ 'bit varying(40)' => '(g % 50)::bit(20)' ],
	[ money => 'g::money' ],
	[ oid => 'g::oid' ],
	[ int4range => 'int4range(g, g + 5)' ],
	[ jsonb => q{jsonb_build_object('k', g % 40)} ],
	[ pair => q{ROW(g, 'b' || g % 3)::pair} ]);

for my $entry (@types)
{
	my ($name, $expr, $type) = @$entry;

	$type //= $name;
	sql('DROP TABLE IF EXISTS t', "CREATE TABLE t (id int, k int, v $type)",
		"INSERT INTO t SELECT g, g % 7, CASE WHEN g % 11 <> 5 THEN ($expr) END FROM generate_series(1, 4000) g", 'VACUUM ANALYZE t');
	my ($kept, $pages) = split /\|/, sql(q{SELECT hjoin_gpu_keep('t'), pg_relation_size('t') / 8192});
	is($kept, $pages, "$name: can be kept");
	is_kept('SELECT count(*), count(x.v), sum(hashtextextended(x::text, 0)) FROM (SELECT t.id, t.v FROM t JOIN r USING (k) WHERE t.id <> 77) x', $name);
	is_kept('SELECT count(*), sum(hashtextextended(x::text, 0)) FROM (SELECT v, count(*), sum(id), count(v) FROM t GROUP BY v) x', "$name, grouped")
	  if $type !~ /jsonb|pair|money|bit/;
	is_kept('SELECT count(*), sum(t.id) FROM t JOIN r USING (k) WHERE t.v IS NULL', "$name, the NULLs");
	is_kept("SELECT sum(t.v), avg(t.v), min(t.v), max(t.v), sum(t.v::$_ * 2 + 1) FROM t", "$name, sums")
	  for $type =~ /numeric|amount|int8/ ? 'numeric' : $type =~ /^int[24]$/ ? 'int8' : ();
	is_kept("SELECT count(*), sum(id) FROM t WHERE v $_", "$name, $_")
	  for $type =~ /numeric|amount/ ? ('> 3.5', 'BETWEEN 2 AND 1000', q{= 'NaN'}, '< 0.001', 'IN (1, 2, 7.5, 100)') :
	  $type =~ /text|word/ && $type !~ /\[/ ? (q{= 'word 3'}, q{<> ''}, $name =~ /word/ ? q{LIKE 'word%'} : ()) : ();
	is_core(q{SELECT count(*), sum(id) FROM t WHERE v > 'word 2'}, "$name, a condition of core's") if $type eq 'text';
}

# --- numbers of 1000 digits, of which there are many
sql('DROP TABLE t', 'CREATE TABLE t (id int, k int, v numeric)', q{INSERT INTO t SELECT g, g % 7, repeat('7', 900 + g % 100)::numeric FROM generate_series(1, 4000) g},
	'VACUUM t', q{SELECT hjoin_gpu_keep('t')});
is_core('SELECT count(*), sum(t.v), min(t.v), max(t.v) FROM t JOIN r USING (k) WHERE t.v > 3', 'numbers of 1000 digits') for 1 .. 2;
is_core('SELECT v, count(*) FROM t GROUP BY v ORDER BY v', 'numbers of 1000 digits, grouped');

# --- values out of line are not kept, where a segment has any; NULLs only; no rows
sql('DROP TABLE t', 'CREATE TABLE t (id int, k int, v text)', 'ALTER TABLE t ALTER v SET STORAGE EXTERNAL',
	q{INSERT INTO t SELECT g, g % 7, repeat('e' || g, CASE WHEN g <= 100 THEN 3000 ELSE 3 END) FROM generate_series(1, 60000) g}, 'VACUUM ANALYZE t');
my ($kept, $pages) = split /\|/, sql(q{SELECT hjoin_gpu_keep('t'), pg_relation_size('t') / 8192});
ok($kept > 0 && $kept < $pages, 'a segment with values out of line is not kept, others are');
my $values = 'SELECT count(*), sum(length(x.v)), sum(hashtextextended(x::text, 0)) FROM (SELECT t.id, t.v FROM t JOIN r USING (k)) x';
is_core($values, 'values out of line');
is_kept('SELECT sum(t.id) FROM t JOIN r USING (k)', 'the columns beside them');
sql('UPDATE t SET v = NULL', 'VACUUM t', q{SELECT hjoin_gpu_keep('t')});
is_kept($values, 'NULLs only');
sql('TRUNCATE t', 'VACUUM t');
is(sql(q{SELECT hjoin_gpu_keep('t')}), 0, 'a table of no rows has nothing to keep');
is_core($values, 'no rows');

# --- a column of 1 MB values, and a large default
sql('DROP TABLE t', 'CREATE TABLE t (id int, k int, v text)',
	q{INSERT INTO t SELECT g, g % 7, repeat(md5(g::text), 32768) FROM generate_series(1, 40) g}, 'VACUUM t', q{SELECT hjoin_gpu_keep('t')});
is_core($values, '1 MB values');
sql('DROP TABLE t', 'CREATE TABLE t AS SELECT g AS id, g % 7 AS k FROM generate_series(1, 20000) g',
	q{ALTER TABLE t ADD v text DEFAULT repeat('d', 500000)}, 'VACUUM t');
my $peak = 'SELECT (regexp_match(pg_read_file(\'/proc/self/status\'), \'VmHWM:\s+(\d+)\'))[1]::int / 1024';
my @peaks = split /\n/, sql($peak, q{SELECT hjoin_gpu_keep('t', '{v}') >= 0}, $peak);
cmp_ok($peaks[2] - $peaks[0], '<', 200, 'a default of 500 kB is not copied for each row');
is_core('SELECT count(*), sum(length(t.v)) FROM t JOIN r USING (k) WHERE t.id < 300', 'a default of 500 kB');

# --- dropped columns, many columns
sql('DROP TABLE t', 'CREATE TABLE t AS SELECT g AS id, g % 7 AS k, g * 2 AS d, g * 3 AS v FROM generate_series(1, 5000) g', 'ALTER TABLE t DROP d',
	'ALTER TABLE t ADD e int DEFAULT 9', 'VACUUM t', q{SELECT hjoin_gpu_keep('t')});
is_kept('SELECT count(*), sum(t.id), sum(t.v), sum(t.e) FROM t JOIN r USING (k)', 'dropped and added columns');
sql('DROP TABLE t', 'CREATE TABLE t (k int, ' . join(', ', map { "c$_ int" } 1 .. 199) . ')',
	'INSERT INTO t SELECT g % 7, ' . join(', ', map { "g * $_" } 1 .. 199) . ' FROM generate_series(1, 3000) g', 'VACUUM ANALYZE t', q{SELECT hjoin_gpu_keep('t')});
is_kept('SELECT sum(t.c5) FROM t JOIN r USING (k)', 'a table of 200 columns');
my $behind = 'SELECT sum(t.c5), sum(t.c150) FROM t JOIN r USING (k)';
is_core($behind, 'a column behind the 128th');
cmp_ok((blocks_of($behind))[0], '<=', 1, 'which is not kept');
my $full = 'SELECT sum(t.c100), sum(t.c90) FROM t JOIN r USING (k)';
is_core($full, 'columns for which there is no space'), is((blocks_of($full))[0], 1, 'do not drive out the others') for 1 .. 3;
sql(q{SELECT hjoin_gpu_keep('t', '{k,c100,c90}')});
is_kept($full, 'but they do when that is asked for');
is_core('SELECT ' . join(', ', map { "sum(t.c$_)" } 1 .. 100) . ' FROM t', 'a query of 100 columns');
my $first = 'SELECT ' . join(', ', map { "sum(t.c$_)" } 1 .. 40) . ' FROM t';
my $second = 'SELECT ' . join(', ', map { "sum(t.c$_)" } 41 .. 80) . ' FROM t';
is_core($first, 'one query of 40 columns'), is_core($second, 'and one of other 40') for 1 .. 2;

# --- kinds of tables
sql('CREATE UNLOGGED TABLE u AS SELECT g AS id, g % 7 AS k FROM generate_series(1, 3000) g', 'VACUUM u');
is(sql(qq{SELECT hjoin_gpu_keep('$_')}), 0, "$_ is never kept") for qw(u pg_class pg_attribute);
is_core('SELECT sum(u.id) FROM u JOIN r USING (k)', 'an unlogged table') for 1 .. 3;
is((blocks_of('SELECT sum(u.id) FROM u JOIN r USING (k)'))[0] <= 1, 1, 'is read live');
is(sql('CREATE TEMP TABLE tt AS SELECT g AS id, g % 7 AS k FROM generate_series(1, 3000) g', 'VACUUM tt', q{SELECT hjoin_gpu_keep('tt')}), 0, 'a temporary table is never kept');
is(sql('CREATE VIEW w AS SELECT 1 AS a', q{SELECT hjoin_gpu_keep('w')}), 0, 'nor is a view');
is(sql('CREATE SEQUENCE s', q{SELECT hjoin_gpu_keep('s')}), 0, 'nor is a sequence');
like(($node->psql('postgres', q{CREATE INDEX i ON r (k); SELECT hjoin_gpu_keep('i')}))[2], qr/"i" is an index|not supported for indexes/, 'an index is refused');
like(($node->psql('postgres', q{SELECT hjoin_gpu_keep('r', '{nothing}')}))[2], qr/column "nothing" of relation "r" does not exist/, 'so is an unknown column');
like(($node->psql('postgres', q{SELECT hjoin_gpu_keep('r', '{ctid}')}))[2], qr/column "ctid" of relation "r" does not exist/, 'and a system column');
sql('SELECT hjoin_gpu_keep(NULL)', q{SELECT hjoin_gpu_keep('r', '{}')}, q{SELECT hjoin_gpu_keep('r', '{k,k}')});
sql('CREATE MATERIALIZED VIEW m AS SELECT g AS id, g % 7 AS k FROM generate_series(1, 3000) g', 'VACUUM m', q{SELECT hjoin_gpu_keep('m')});
is_kept('SELECT sum(m.id) FROM m JOIN r USING (k)', 'a materialized view');
sql('REFRESH MATERIALIZED VIEW m');
is_core('SELECT sum(m.id) FROM m JOIN r USING (k)', 'which is refreshed');
sql('CREATE TABLE p (id int, k int, v text) PARTITION BY RANGE (id)', (map { "CREATE TABLE p$_ PARTITION OF p FOR VALUES FROM (${_}000) TO (${_}999)" } 0 .. 3),
	q{INSERT INTO p SELECT g, g % 7, 'v' || g % 50 FROM generate_series(1, 3990) g WHERE g % 1000 <> 999}, 'VACUUM ANALYZE p');
is(sql(q{SELECT hjoin_gpu_keep('p') = sum(pg_relation_size(relid) / 8192) FROM pg_partition_tree('p')}), 't', 'the partitions of a table are kept with it');
is_kept('SELECT v, count(*), sum(p.id) FROM p JOIN r USING (k) GROUP BY v ORDER BY v', 'partitions');
sql('ALTER TABLE p DETACH PARTITION p1', 'UPDATE p1 SET v = NULL', 'ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (1000) TO (1999)');
is_core('SELECT v, count(*), sum(p.id) FROM p JOIN r USING (k) GROUP BY v ORDER BY v', 'a partition that was changed');
sql('CREATE TABLE h (id int, k int)', 'CREATE TABLE h1 (x text) INHERITS (h)', 'INSERT INTO h SELECT g, g % 7 FROM generate_series(1, 3000) g',
	q{INSERT INTO h1 SELECT g, g % 7, 'x' FROM generate_series(1, 3000) g}, 'VACUUM h', 'VACUUM h1', q{SELECT hjoin_gpu_keep('h')}, q{SELECT hjoin_gpu_keep('h1')});
is_kept('SELECT count(*), sum(h.id) FROM h JOIN r USING (k)', 'inheritance');

# --- privileges
sql('CREATE ROLE nobody LOGIN');
like(($node->psql('postgres', q{SET ROLE nobody; SELECT hjoin_gpu_keep('h')}))[2], qr/permission denied for table h/, 'to keep a table takes the right to read it');
sql('GRANT SELECT ON h TO nobody');
cmp_ok(sql('SET ROLE nobody', q{SELECT hjoin_gpu_keep('h')}), '>', 0, 'and no more');
sql('CREATE TABLE secret AS SELECT g AS id, g % 7 AS k FROM generate_series(1, 3000) g', 'VACUUM secret', q{SELECT hjoin_gpu_keep('secret')},
	'ALTER TABLE secret ENABLE ROW LEVEL SECURITY', 'GRANT SELECT ON secret, r TO nobody', 'CREATE POLICY p ON secret USING (id < 100)');
is(sql("$serial SET ROLE nobody", 'SELECT count(*), sum(secret.id) FROM secret JOIN r USING (k)'), '99|4950', 'row security holds for kept rows');

# --- kept by use: the second statement keeps, the third is served
sql('CREATE TABLE f AS SELECT g AS id, g % 7 AS k FROM generate_series(1, 30000) g', 'VACUUM f');
my $use = 'SELECT sum(f.id) FROM f JOIN r USING (k)';
is((blocks_of($use))[0], 1, 'the first statement that reads a column keeps nothing');
my @shares = map { (blocks_of($use))[0] } 1 .. 20;
cmp_ok($shares[0], '>', 1, 'the second one keeps a part');
is($shares[-1], 1 + sql(q{SELECT pg_relation_size('f') / 8192}), 'and soon all is kept');

# --- conditions that core evaluates, on rows of kept columns
sql(q{CREATE FUNCTION is_odd(n int) RETURNS bool LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN RETURN n % 2 = 1; END $$},
	q{CREATE TABLE q AS SELECT g AS id, g % 7 AS k, CASE WHEN g % 11 <> 5 THEN g / 100.0 END AS n, 'word ' || g % 40 AS w, CASE WHEN g % 13 <> 5 THEN 'name ' || g END AS v,
		date '2000-01-01' + g % 3000 AS d, CASE WHEN g % 3 = 0 THEN g END AS c FROM generate_series(1, 20000) g}, 'VACUUM ANALYZE q', q{SELECT hjoin_gpu_keep('q')});
for my $condition ('id % 7 = 3', 'is_odd(id)', q{v ~ '9$' OR w ~ '^word 1'}, q{substring(w FROM 6 FOR 1) IN ('1', '2') AND id > 500}, q{extract(year FROM d) = 2003 AND n > 20},
	q{n * 2 > id % 90 AND n <> 7}, q{k NOT IN (SELECT k FROM r WHERE k % 2 = 0)}, q{n > (SELECT avg(n) FROM q) AND id % 2 = 0}, 'id = ANY (ARRAY[k, id]) AND c IS NOT NULL',
	q{EXISTS (SELECT FROM r WHERE r.k = q.id % 50) OR id < 20}, q{coalesce(v, w) < 'name 3'}, q{CASE WHEN k > 3 THEN 100 / (k - 3) ELSE 0 END > 30},
	q{(w = 'word 3' AND id < 9000) OR (w LIKE 'word 1%' AND n > 50) OR k = 6}, q{(v IS NULL AND k = 1) OR w IN ('word 5', 'word 6')}, q{NOT (w = 'word 3' OR n < 100)},
	q{(c > 500 AND w <> 'word 7') OR (c IS NOT NULL AND n NOT IN (5, 7.5))}, q{(k = 2 OR (n > 20 AND (c < 700 OR w NOT LIKE '%1'))) AND (id IN (3, 900, 12000) OR d > '2001-01-01')},
	q{(c < 50 AND k = 3) OR v LIKE 'name 77%' OR (id > 19990 AND w = ANY (ARRAY['word 2', NULL]))})
{
	for (['a join', 'SELECT count(*), sum(hashtextextended(x::text, 0)) FROM (SELECT q.* FROM q JOIN r USING (k) WHERE %s) x'],
		['grouped', 'SELECT k, count(*), sum(id), sum(n) FROM q WHERE %s GROUP BY k ORDER BY k'])
	{
		my ($name, $query) = @$_;

		is_kept(sprintf($query, $condition), "$condition, $name");
		is_core(sprintf($query, $condition), "$condition, $name, parallel", $parallel);
	}
}
is_core("SELECT count(*), sum(q.id) FROM q JOIN r USING (k) WHERE $_", "$_ takes the row itself") for 'q IS NOT NULL', q{q.ctid > '(3,0)'}, 'q.tableoid <> 0 AND q.id % 2 = 0', 'length(q::text) % 2 = 0';
like(($node->psql('postgres', "$serial SELECT sum(id) FROM q WHERE 100 / (id - 77) > 0"))[2], qr/ERROR:  division by zero/, 'an error of core');
is_kept('SELECT sum(id) FROM q WHERE id <> 77 AND 100 / (id - 77) >= 0', 'a row that a condition drops before raises none');
is_core('SELECT g, s.n FROM generate_series(1, 4) g, LATERAL (SELECT count(*) + sum(q.id) AS n FROM q JOIN r USING (k) WHERE q.id % 5 = g OFFSET 0) s ORDER BY g', "rescans, $_->[0]", $_->[1])
  for [ serial => $serial ], [ parallel => $parallel ];
is(sql('PREPARE p (int) AS SELECT count(*) FROM q JOIN r USING (k) WHERE id % $1 = 0', "$serial SET plan_cache_mode = force_generic_plan", 'EXECUTE p (3)', 'EXECUTE p (7)'), "6666\n2857",
	'parameters of such conditions');
my $in_or = "$serial SET plan_cache_mode = force_generic_plan; PREPARE p (int) AS SELECT count(*), sum(id) FROM q WHERE (k %s AND id >= 10 / \$1) OR w = 'word 2'; EXECUTE p (0)";
is(sql(sprintf $in_or, '> 100'), sql(q{SELECT count(*), sum(id) FROM q WHERE w = 'word 2'}), 'a parameter in OR that no row needs');
like(($node->psql('postgres', sprintf $in_or, '= 3'))[2], qr/ERROR:  division by zero/, 'and one that some rows need');
is(sql(($in_or =~ s/\(0\)$/(1)/r) =~ s/%s/= 3/r), sql(q{SELECT count(*), sum(id) FROM q WHERE (k = 3 AND id >= 10) OR w = 'word 2'}), 'a parameter in OR');
my $excluded = q{SELECT count(*) FROM q WHERE id > 30000 OR (c > 30000 AND k = 1) OR d > '2050-01-01'};
is_core($excluded, 'OR that no row passes');
like(sql("$serial $explain $excluded"), qr/Blocks Skipped: [1-9]\d/, 'segments that no part of OR can pass are skipped');
sql('UPDATE q SET n = 1 WHERE id % 4000 = 0');
is_core('SELECT count(*), sum(q.n) FROM q JOIN r USING (k) WHERE is_odd(q.id + 1)', 'blocks that changed, and kept ones');

# a NULL has the code of the least value, which passes these conditions; behind a block that is read live, rows begin at any bit of the NULLs
sql(q{CREATE TABLE holes AS SELECT g AS id, g % 7 AS k, CASE WHEN g * 31 % 13 > 2 THEN g % 100 END AS v, CASE WHEN g * 17 % 11 > 1 THEN g % 50 / 10.0 END AS n, CASE WHEN g * 7 % 9 > 0 THEN 'word ' || g % 5 END AS w, repeat('x', g % 23) AS pad
	FROM generate_series(1, 20000) g}, 'VACUUM ANALYZE holes', q{SELECT hjoin_gpu_keep('holes')});
my $before = old_snapshot();
for my $live (0, 1)
{
	for my $condition ('v < 60', 'n < 3.3', q{w <> 'word 3'}, q{w IN ('word 0', 'word 2', 'word 4')}, q{v < 60 AND w = 'word 0'}, 'NOT (v > 60) AND n <= 2')
	{
		my $query = "SELECT count(*), sum(holes.id) FROM holes JOIN r USING (k) WHERE $condition";

		for ([ 'programs', $serial ], [ 'scans', "$serial SET hjoin_gpu.programs = off; " ])
		{
			my (undef, $read) = is_core($query, "NULLs, $condition, $_->[0]", $_->[1]);
			is($read > 0, $live > 0, "NULLs, $condition, $_->[0]: blocks that are read live");
		}
	}
	sql('UPDATE holes SET pad = pad WHERE id % 6000 = 500');
}
ask($before, 'COMMIT');

# --- numerics that go through joins as integers: rows, chains, groups, keys of a join above, batches, files
sql(q{CREATE TABLE nums AS SELECT g AS id, g % 7 AS k, CASE WHEN g % 11 <> 5 THEN g / 100.0 END AS n, (g % 90)::numeric(8,1) AS p, CASE WHEN g < 9000 THEN (g % 9)::numeric ELSE 'NaN' END AS s
	FROM generate_series(1, 20000) g}, 'CREATE TABLE dims AS SELECT g AS id, (g % 30)::numeric AS p FROM generate_series(0, 99) g', 'VACUUM ANALYZE nums, dims', q{SELECT hjoin_gpu_keep('nums')});
for my $way ([ '', '' ], [ ', batches', 'SET hjoin_gpu.in_backend_rows = 0; ' ], [ ', files', q{SET work_mem = '64kB'; SET hash_mem_multiplier = 1; SET hjoin_gpu.in_backend_rows = 0; } ])
{
	for ('SELECT nums.* FROM nums JOIN r USING (k) WHERE nums.id % 97 = 0 ORDER BY nums.id', 'SELECT nums.n, nums.s, nums.p, r.k FROM nums LEFT JOIN r ON nums.k = r.k + 2 WHERE nums.id % 89 < 2 ORDER BY nums.id',
		'SELECT nums.n, r.k FROM nums JOIN r ON nums.k = r.k AND nums.n > r.k * 33.3 WHERE nums.id % 97 = 0 ORDER BY nums.id', 'SELECT nums.id, nums.n, a.k FROM r a LEFT JOIN nums ON nums.k = a.k AND nums.id < 100 ORDER BY nums.id, a.k',
		'SELECT count(*), sum(nums.n), min(nums.n), max(nums.s), avg(nums.p), sum(nums.n * (1 - nums.p)) FROM nums JOIN r USING (k)', 'SELECT nums.p, count(*), sum(nums.n), count(nums.s) FROM nums JOIN r USING (k) GROUP BY nums.p ORDER BY nums.p',
		'SELECT nums.k, sum(nums.n), count(DISTINCT nums.p), max(nums.s) FROM nums JOIN r USING (k) JOIN r r2 ON nums.id % 5 = r2.k GROUP BY nums.k ORDER BY nums.k',
		'SELECT count(*), sum(nums.n), sum(o.id) FROM nums JOIN r USING (k) JOIN dims o ON o.p = nums.p', 'SELECT count(*), sum(a.n), sum(b.n) FROM nums a JOIN r USING (k) JOIN (nums b JOIN r r2 ON b.k = r2.k) ON a.id = b.id + 1',
		'SELECT sum(n) FROM nums WHERE NOT EXISTS (SELECT FROM r WHERE r.k = nums.k - 1)', 'SELECT nums.k, sum(sqrt(nums.p) + nums.n) FROM nums JOIN r USING (k) GROUP BY nums.k ORDER BY nums.k')
	{
		is_core($_, "$_$way->[0]", "$serial$way->[1]");
		is_core($_, "$_$way->[0], parallel", "$parallel$way->[1]");
	}
}

# --- rescans and parallel processes
# written again: from PostgreSQL 16 on the first writing leaves blocks at the table's end that it has not used
sql('CREATE TABLE big AS SELECT g AS id, g % 7 AS k, g % 1000 AS v FROM generate_series(1, 300000) g', 'VACUUM FULL big', 'VACUUM ANALYZE big');
is_core('SELECT count(*), sum(big.id), sum(v) FROM big JOIN r USING (k)', 'parallel scans that fill', $parallel) for 1 .. 6;
is_kept('SELECT count(*), sum(big.id), sum(v) FROM big JOIN r USING (k)', 'parallel scans that are served', $parallel);
is_kept('SELECT v, count(*), sum(id) FROM big GROUP BY v ORDER BY v', 'parallel grouping', $parallel);
is_core('SELECT g, s.n FROM generate_series(1, 5) g, LATERAL (SELECT count(*) + sum(big.id) AS n FROM big JOIN r USING (k) WHERE big.v % 5 <> g % 5 OFFSET 0) s ORDER BY g', "lateral rescans, $_->[0]", $_->[1])
  for [ serial => $serial ], [ parallel => $parallel ];
is_core('SELECT count(*), sum(x.id) FROM r LEFT JOIN (SELECT f.id, f.k FROM f JOIN r r2 ON f.k = r2.k OFFSET 0) x ON x.k > r.k AND x.id < 50', 'a nested loop over a join');

# workers do not know that the transaction made the table, and come before the leader
sql(q{CREATE FUNCTION leader_waits(int) RETURNS bool LANGUAGE plpgsql PARALLEL SAFE COST 1 AS $$ BEGIN
	IF pg_backend_pid() = current_setting('test.leader')::int THEN PERFORM pg_sleep(0.2); END IF; RETURN true; END $$});
my $made = 'SELECT sum(made.id), count(*) FROM made JOIN r USING (k) WHERE leader_waits(r.k)';
my @answers = split /\n/, sql($parallel . q{SELECT set_config('test.leader', pg_backend_pid()::text, false) IS NULL}, 'BEGIN',
	q{CREATE TABLE made AS SELECT g AS id, g % 7 AS k, repeat('x', 200) AS pad FROM generate_series(1, 60000) g}, 'ANALYZE made', ($made) x 4, 'COMMIT');
is(join(' ', @answers[ 1 .. 4 ]), join(' ', ('1800030000|60000') x 4), 'a table that the transaction made is read by all processes alike');

# --- a table that changes all the time is not made anew for ever
sql('CREATE TABLE c AS SELECT g AS id, g % 7 AS k FROM generate_series(1, 5000) g', 'VACUUM c', q{SELECT hjoin_gpu_keep('c')});
my $renewed = 0;
for (1 .. 40)
{
	sql('UPDATE c SET id = id + 1', 'VACUUM c');
	sql($serial . 'SELECT sum(c.id) FROM c JOIN r USING (k)');
	$renewed += sql(q{SELECT coalesce(max(blocks), 0) > 0 FROM hjoin_gpu_cache WHERE relation = 'c'::regclass}) eq 't';
}
cmp_ok($renewed, '<', 10, 'a table that changes between all queries is seldom made anew');
cmp_ok($renewed, '>', 0, 'but sometimes');
is_core('SELECT sum(c.id) FROM c JOIN r USING (k)', 'its rows are right');

# --- nor are its pages asked again and again whether they can be kept, while a snapshot sees them otherwise
sql('CREATE TABLE held AS SELECT g AS id, g % 7 AS k FROM generate_series(1, 600000) g', 'VACUUM held', q{SELECT hjoin_gpu_keep('held')});
my $holder = old_snapshot();
sql('UPDATE held SET id = id + 1');
sub pages_hit
{
	my ($settings) = @_;
	my $plan = sql("$serial SET hjoin_gpu.force = on; $settings EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) SELECT sum(id), count(k) FROM held");
	return $plan =~ /shared hit=(\d+)/ ? $1 : die $plan;
}
my $hit = pages_hit('SET hjoin_gpu.kept_columns = off;');
pages_hit('') for 1 .. 3;
cmp_ok(pages_hit(''), '<', 1.02 * $hit, 'few pages are asked in vain');
ask($holder, 'COMMIT');

# --- a table that nothing has vacuumed: rows that were added, changed or deleted are kept once all snapshots see them alike
my $grown_rows = q{SELECT 1, count(*), sum(grown.id), sum(v), min(grown.w), count(grown.w) FROM grown JOIN r USING (k)};
my $grown_groups = q{SELECT grown.w, count(*), sum(v) FROM grown WHERE v > 10 AND w <> 'word 3' GROUP BY w ORDER BY w};
sub is_grown_kept
{
	my ($name) = @_;
	is((is_core($_, "$name, $_"))[1], 0, "$name: all of it was kept") for $grown_rows, $grown_groups;
	return;
}

sql(q{CREATE TABLE grown (id, k, v, w) AS SELECT g, g % 7, CASE WHEN g % 5 > 0 THEN g % 100 END, CASE WHEN g % 9 > 0 THEN 'word ' || g % 11 END FROM generate_series(1, 60000) g},
	q{SELECT hjoin_gpu_keep('grown')});
is_grown_kept('never vacuumed');
my $old = old_snapshot();
sql(q{INSERT INTO grown SELECT g, g % 7, g % 100, 'added' FROM generate_series(60001, 72000) g}, q{SELECT hjoin_gpu_keep('grown')});
my (undef, $live) = is_core($grown_rows, 'added, while a snapshot is older');
cmp_ok($live, '>', 30, 'blocks that an older snapshot sees otherwise are not kept');
ask($old, 'COMMIT');
is_core($grown_rows, 'scans that come by') for 1 .. 40;
is_grown_kept('added, and kept by scans');

# what changes in few blocks is put up with until it has cost as much as making the segment
sql(q{UPDATE grown SET v = 7 WHERE id = 100}, q{DELETE FROM grown WHERE id % 30000 = 200});
(undef, $live) = is_core($grown_rows, 'few changes');
cmp_ok($live, '>', 0, 'are read live');
cmp_ok($live, '<=', 5, 'and nothing else is');
is_core($grown_rows, 'few changes');
is((is_core($grown_rows, 'few changes'))[1], $live, 'for a while');
my $nuses = 0;
$nuses++ while $nuses < 1000 && (blocks_of($grown_rows))[1] > 0;
cmp_ok($nuses, '<', 1000, "and are kept in the end ($nuses)");
is_grown_kept('few changes, kept');

# --- the device process has nothing to lose
my $bytes = sql('SELECT sum(bytes) FROM hjoin_gpu_cache');
my $pid = device_pid($node);
kill 'KILL', $pid;
wait_until(sub { (device_pid($node) // $pid) != $pid }, 20);
is(sql('SELECT sum(bytes) FROM hjoin_gpu_cache'), $bytes, 'kept columns outlive the device process');
is_kept($use, 'and are served');
cmp_ok($bytes, '<=', 64 * 1024 * 1024, 'all of it is within the cache size');

is(log_count($node, qr/differ from|have changed in memory/), 0, 'all that was compared with pages and with core is equal');
is(log_count($node, qr/server process .* was terminated|PANIC|TRAP/), 0, 'no server process died');
$node->stop;
done_testing();
