-- EXPLAIN says the same in its four formats, and numbers are numbers.
BEGIN;
SELECT plan(30);
SET LOCAL hjoin_gpu.force = on;
SET LOCAL max_parallel_workers_per_gather = 0;
SET LOCAL hjoin_gpu.startup_cost = 0;
SET LOCAL hjoin_gpu.marshal_tuple_cost = 0.0001;
SET LOCAL hjoin_gpu.build_tuple_cost = 0.0008;
SET LOCAL hjoin_gpu.probe_tuple_cost = 0.0001;
SET LOCAL hjoin_gpu.emit_tuple_cost = 0.0001;
CREATE TEMP TABLE l AS SELECT g AS id, g % 100 AS k, g % 7 AS v FROM generate_series(1, 2000) g;
CREATE TEMP TABLE r AS SELECT g AS id, g % 150 AS k, g % 7 AS v FROM generate_series(1, 600) g;
ANALYZE l;
ANALYZE r;
CREATE FUNCTION pg_temp.explained(options text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	res text := '';
BEGIN
	FOR line IN EXECUTE format('EXPLAIN (%s) %s', options, query) LOOP
		res := res || line || E'\n';
	END LOOP;
	RETURN res;
END $$;
CREATE TEMP TABLE e AS SELECT
	pg_temp.explained('costs off', 'SELECT l.id, r.id FROM l LEFT JOIN r ON l.k = r.k AND l.v < r.v') AS t,
	pg_temp.explained('format json', 'SELECT l.id, r.id FROM l LEFT JOIN r ON l.k = r.k AND l.v < r.v')::json->0->'Plan' AS j,
	pg_temp.explained('format yaml', 'SELECT l.id, r.id FROM l LEFT JOIN r ON l.k = r.k AND l.v < r.v') AS y,
	pg_temp.explained('format xml', 'SELECT l.id, r.id FROM l LEFT JOIN r ON l.k = r.k AND l.v < r.v')::xml AS x;
SELECT alike((SELECT t FROM e), '%Custom Scan (GpuHashJoin)%', 'text names the node');
SELECT is((SELECT j->>'Custom Plan Provider' FROM e), 'GpuHashJoin', 'JSON names the node');
SELECT alike((SELECT y FROM e), '%Custom Plan Provider: "GpuHashJoin"%', 'YAML names the node');
SELECT is((SELECT (xpath('//*[local-name()="Custom-Plan-Provider"]/text()', x))[1]::text FROM e), 'GpuHashJoin', 'XML names the node');
SELECT alike((SELECT t FROM e), '%Hash Cond: (l.k = r.k)%', 'text has the hash condition under core''s name');
SELECT is((SELECT j->>'Hash Cond' FROM e), '(l.k = r.k)', 'JSON has the hash condition');
SELECT alike((SELECT y FROM e), '%Hash Cond: "(l.k = r.k)"%', 'YAML has the hash condition');
SELECT is((SELECT (xpath('//*[local-name()="Hash-Cond"]/text()', x))[1]::text FROM e), '(l.k = r.k)', 'XML has the hash condition');
SELECT alike((SELECT t FROM e), '%Join Filter: (l.v < r.v)%', 'text has the join filter under core''s name');
SELECT is((SELECT j->>'Join Filter' FROM e), '(l.v < r.v)', 'JSON has the join filter');
SELECT is((SELECT j->>'Join Type' FROM e), 'Left', 'JSON has the join type');
SELECT is((SELECT json_array_length(j->'Plans') FROM e), 2, 'the node has two children');
SELECT unalike((SELECT t || y FROM e), '%Peak Memory%', 'a plain EXPLAIN tells nothing that depends on the machine');

SET LOCAL hjoin_gpu.in_backend_rows = 0;
CREATE TEMP TABLE a AS SELECT
	pg_temp.explained('analyze, timing off, format json', 'SELECT l.id, r.id FROM l LEFT JOIN r ON l.k = r.k AND l.v < r.v')::json->0->'Plan' AS j,
	pg_temp.explained('analyze, timing on, format json', 'SELECT l.id, r.id FROM l LEFT JOIN r ON l.k = r.k AND l.v < r.v')::json->0->'Plan' AS timed,
	pg_temp.explained('analyze, timing off, summary off, costs off', 'SELECT l.id, r.id FROM l LEFT JOIN r ON l.k = r.k AND l.v < r.v') AS t,
	pg_temp.explained('analyze, format xml', 'SELECT l.id, r.id FROM l LEFT JOIN r ON l.k = r.k AND l.v < r.v')::xml IS NOT NULL AS x;
SELECT is((SELECT (j->>'Actual Rows')::numeric FROM a), (SELECT count(*)::numeric FROM l LEFT JOIN r ON l.k = r.k AND l.v < r.v), 'ANALYZE counts the rows that came out');
SELECT is((SELECT (j->>'Build Rows')::numeric FROM a), 600::numeric, 'ANALYZE counts the build rows');
SELECT is((SELECT (j->>'Probe Rows')::numeric FROM a), 2000::numeric, 'ANALYZE counts the probe rows');
SELECT is((SELECT (j->>'Candidate Pairs')::numeric FROM a), (SELECT count(*)::numeric FROM l JOIN r ON l.k = r.k), 'ANALYZE counts the candidates of the hash condition');
SELECT is((SELECT (j->>'Rows Removed by Join Filter')::numeric FROM a), (SELECT count(*)::numeric FROM l JOIN r ON l.k = r.k AND NOT l.v < r.v), 'ANALYZE counts what the join filter removed');
SELECT is((SELECT j->>'Engine' FROM a), 'cpu', 'ANALYZE names the engine');
SELECT is((SELECT j->>'Joined In' FROM a), 'device process', 'ANALYZE says where the join ran');
SELECT is((SELECT j->>'Fallback' FROM a), 'none', 'ANALYZE says that there was no fallback');
SELECT is((SELECT json_typeof(j->'Peak Memory Usage') FROM a), 'number', 'memory is a number');
SELECT is((SELECT count(*) FROM a, json_each(timed->'Phases') p WHERE json_typeof(p.value) <> 'number'), 0::bigint, 'phase times are numbers');
SELECT cmp_ok((SELECT count(*) FROM a, json_each(timed->'Phases') p), '>=', 4::bigint, 'phase times are there when timing is on');
SELECT ok((SELECT j->'Phases' IS NULL FROM a), 'phase times are not there when timing is off');
SELECT unalike((SELECT t FROM a), '%Redone Batches%', 'text leaves out what is zero');
SELECT ok((SELECT j->'Redone Batches' IS NOT NULL FROM a), 'JSON has it');
SELECT ok((SELECT x FROM a), 'ANALYZE in XML is well-formed');
SELECT is((SELECT (j->'Plans'->0->>'Actual Rows')::numeric + (j->'Plans'->1->>'Actual Rows')::numeric FROM a), 2600::numeric, 'the children count their rows');
SET LOCAL hjoin_gpu.device = 'cuda:9';
SET LOCAL hjoin_gpu.on_fallback = silent;
SELECT isnt(pg_temp.explained('analyze, timing off, format json', 'SELECT l.id, r.id FROM l JOIN r ON l.k = r.k')::json->0->'Plan'->>'Fallback', 'none', 'a fallback is told with its reason');
SELECT * FROM finish();
ROLLBACK;
