-- Expressions are compiled if what core's nodes do in a plan is worth it. The prices of these tables' scans are about 200 and 60.
BEGIN;
SELECT plan(8);
SET LOCAL max_parallel_workers_per_gather = 0;
SET LOCAL jit = on;
SET LOCAL jit_above_cost = 40;
SET LOCAL jit_inline_above_cost = 40;
SET LOCAL jit_optimize_above_cost = 40;
CREATE TEMP TABLE l AS SELECT g AS id, g % 100 AS k, g % 7 AS v FROM generate_series(1, 12000) g;
CREATE TEMP TABLE r AS SELECT g AS id, g % 150 AS k, g % 7 AS v FROM generate_series(1, 4000) g;
ANALYZE l;
ANALYZE r;
CREATE FUNCTION pg_temp.compiled(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	res text := 'nothing';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		IF line ~ 'Options: ' THEN
			res := regexp_replace(line, '.*Options: (.*), Expressions.*', '\1');
		END IF;
	END LOOP;
	RETURN res;
END $$;
-- a server without LLVM compiles nothing
CREATE FUNCTION pg_temp.compiles(query text, expected text, name text) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN pg_jit_available() THEN is(pg_temp.compiled(query), expected, name) ELSE skip(name, 1) END
$$;

SET LOCAL hjoin_gpu.enabled = off;
SELECT pg_temp.compiles('SELECT count(*), sum(l.v + r.v) FROM l JOIN r ON l.k = r.k', 'Inlining true, Optimization true', 'core''s plan');
SET LOCAL hjoin_gpu.enabled = on;
SET LOCAL hjoin_gpu.force = on;
SELECT pg_temp.compiles('SELECT count(*), sum(l.v + r.v) FROM l JOIN r ON l.k = r.k', 'nothing', 'a join and its groups in vectors');
SELECT pg_temp.compiles('SELECT l.v, count(*) FROM l JOIN r ON l.k = r.k GROUP BY l.v ORDER BY 2 LIMIT 3', 'nothing', 'a few groups that are sorted');
SELECT pg_temp.compiles('SELECT count(*) FROM l JOIN r ON l.k = r.k WHERE l.v > (SELECT min(v) FROM r)', 'nothing', 'a subquery of ours');
SELECT pg_temp.compiles('SELECT string_agg(l.v::text, '','') FROM l JOIN r ON l.k = r.k', 'Inlining true, Optimization true', 'an aggregate of core''s over all pairs');
SELECT pg_temp.compiles('SELECT count(*) FROM l JOIN r ON l.k = r.k WHERE l.v > (SELECT length(string_agg(v::text, '','')) FROM r)', 'Inlining true, Optimization true', 'a subquery of core''s');
SET LOCAL jit_inline_above_cost = 1000000;
SELECT pg_temp.compiles('SELECT string_agg(l.v::text, '','') FROM l JOIN r ON l.k = r.k', 'Inlining false, Optimization true', 'not inlined for a price below that of inlining');
SET LOCAL hjoin_gpu.force = off;
SET LOCAL hjoin_gpu.enabled = off;
SET LOCAL jit_above_cost = -1;
SELECT pg_temp.compiles('SELECT count(*), sum(l.v + r.v) FROM l JOIN r ON l.k = r.k', 'nothing', 'nothing where the setting forbids it');
SELECT * FROM finish();
ROLLBACK;
