-- Counts the rows that each kind of join has, by arithmetic.
BEGIN;
SELECT plan(21);
SET LOCAL hjoin_gpu.force = on;
SET LOCAL max_parallel_workers_per_gather = 0;
-- keys 0..99 five times in l, keys 50..149 three times in r
CREATE TEMP TABLE l AS SELECT g AS id, g % 100 AS k, g AS v FROM generate_series(0, 499) g;
CREATE TEMP TABLE r AS SELECT g AS id, 50 + g % 100 AS k, g AS v FROM generate_series(0, 299) g;
ANALYZE l;
ANALYZE r;
CREATE FUNCTION pg_temp.kind_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	node json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	node := plan->0->'Plan';
	WHILE node IS NOT NULL AND node->>'Custom Plan Provider' IS DISTINCT FROM 'GpuHashJoin' LOOP
		node := node->'Plans'->0;
	END LOOP;
	RETURN node->>'Join Type';
END $$;
SELECT is(pg_temp.kind_of('SELECT * FROM l JOIN r USING (k)'), 'Inner', 'JOIN runs as an inner join of ours');
SELECT is(pg_temp.kind_of('SELECT * FROM l FULL JOIN r USING (k)'), 'Full', 'FULL JOIN runs as a full join of ours');
SELECT ok(pg_temp.kind_of('SELECT * FROM l LEFT JOIN r USING (k)') IN ('Left', 'Right'), 'LEFT JOIN runs as an outer join of ours');
SELECT ok(pg_temp.kind_of('SELECT * FROM l RIGHT JOIN r USING (k)') IN ('Left', 'Right'), 'RIGHT JOIN runs as an outer join of ours');
SELECT ok(pg_temp.kind_of('SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)') IN ('Anti', 'Right Anti'), 'NOT EXISTS runs as an anti join of ours');
SELECT ok(pg_temp.kind_of('SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k)') IS NOT NULL, 'EXISTS runs in our node');

CREATE FUNCTION pg_temp.counts() RETURNS SETOF bigint LANGUAGE sql AS $$
	SELECT count(*) FROM l JOIN r USING (k) UNION ALL
	SELECT count(*) FROM l LEFT JOIN r USING (k) UNION ALL
	SELECT count(*) FROM l RIGHT JOIN r USING (k) UNION ALL
	SELECT count(*) FROM l FULL JOIN r USING (k) UNION ALL
	SELECT count(*) FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k) UNION ALL
	SELECT count(*) FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)
$$;
SELECT results_eq('SELECT * FROM pg_temp.counts()', 'VALUES (750::bigint), (1000), (900), (1150), (250), (250)', 'joined in the backend, each kind has the rows it should have');
SET LOCAL hjoin_gpu.in_backend_rows = 0;
SELECT results_eq('SELECT * FROM pg_temp.counts()', 'VALUES (750::bigint), (1000), (900), (1150), (250), (250)', 'joined in the device process, each kind has the rows it should have');
SET LOCAL hjoin_gpu.strategy = nop;
SELECT results_eq('SELECT * FROM pg_temp.counts()', 'VALUES (750::bigint), (1000), (900), (1150), (250), (250)', 'joined by a table of buckets, each kind has the rows it should have');
SET LOCAL work_mem = '64kB';
SET LOCAL hash_mem_multiplier = 1;
SELECT results_eq('SELECT * FROM pg_temp.counts()', 'VALUES (750::bigint), (1000), (900), (1150), (250), (250)', 'joined with little memory, each kind has the rows it should have');
SET LOCAL hjoin_gpu.enabled = off;
SELECT results_eq('SELECT * FROM pg_temp.counts()', 'VALUES (750::bigint), (1000), (900), (1150), (250), (250)', 'core has the same');
SET LOCAL hjoin_gpu.enabled = on;

-- with a residual qual: of the 15 pairs of a key, those with r.v < 100 are 5
SELECT is((SELECT count(*) FROM l JOIN r ON l.k = r.k AND r.v < 100), 250::bigint, 'a residual qual removes pairs of an inner join');
SELECT is((SELECT count(*) FROM l LEFT JOIN r ON l.k = r.k AND l.v >= 400), 600::bigint, 'a residual qual over the preserved side extends its rows');
SELECT is((SELECT count(*) FROM l FULL JOIN r ON l.k = r.k AND l.v >= 400 AND r.v < 100), 750::bigint, 'a full join with a residual qual has every row of both sides');
SELECT is((SELECT count(*) FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.v > l.v)) + (SELECT count(*) FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.v > l.v)), 500::bigint,
	'semi and anti joins with a residual qual divide the rows');
-- every row has one key
SELECT is((SELECT count(*) FROM (SELECT 1 AS k FROM l OFFSET 0) a JOIN (SELECT 1 AS k FROM r OFFSET 0) b ON a.k = b.k), 150000::bigint, 'one key on both sides: the product');
SELECT is((SELECT count(*) FROM (SELECT 1 AS k FROM l OFFSET 0) a FULL JOIN (SELECT 2 AS k FROM r OFFSET 0) b ON a.k = b.k), 800::bigint, 'two keys that never meet: the sum');
SELECT is((SELECT count(*) FROM (SELECT 1 AS k FROM l OFFSET 0) a WHERE EXISTS (SELECT 1 FROM (SELECT 1 AS k FROM r OFFSET 0) b WHERE a.k = b.k)), 500::bigint, 'a semi join has each row once, however many match');
-- empty sides
SELECT is((SELECT count(*) FROM l LEFT JOIN (SELECT * FROM r WHERE id < 0 OFFSET 0) e ON l.k = e.k), 500::bigint, 'a left join with nothing keeps every row');
SELECT is((SELECT count(*) FROM (SELECT * FROM l WHERE id < 0 OFFSET 0) e FULL JOIN r ON r.k = e.k), 300::bigint, 'a full join with nothing keeps every row');
SELECT is((SELECT count(*) FROM (SELECT * FROM l WHERE id < 0 OFFSET 0) e JOIN r ON r.k = e.k), 0::bigint, 'an inner join with nothing has no row');
SELECT * FROM finish();
ROLLBACK;
