-- NULL keys, as SQL has them.
BEGIN;
SELECT plan(24);
SET LOCAL hjoin_gpu.force = on;
SET LOCAL hjoin_gpu.in_backend_rows = 0;
SET LOCAL enable_mergejoin = off;
CREATE TEMP TABLE l (id int, a int, b text);
CREATE TEMP TABLE r (id int, a int, b text);
INSERT INTO l VALUES (1, 1, 'x'), (2, NULL, 'x'), (3, 3, NULL), (4, NULL, NULL), (5, 5, 'y');
INSERT INTO r VALUES (1, 1, 'x'), (2, NULL, 'x'), (3, 3, NULL), (4, NULL, NULL), (6, 6, 'y');
ANALYZE l;
ANALYZE r;
CREATE FUNCTION pg_temp.uses_node(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE line text; BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line LIKE '%GpuHashJoin%' THEN RETURN true; END IF;
	END LOOP;
	RETURN false;
END $$;
SELECT ok(pg_temp.uses_node('SELECT * FROM l JOIN r ON l.a = r.a'), 'an inner join of small tables runs in our node when forced');
SELECT set_eq('SELECT l.id, r.id AS rid FROM l JOIN r ON l.a = r.a', 'VALUES (1, 1), (3, 3)', 'NULL never matches NULL in an inner join');
SELECT set_eq('SELECT l.id, r.id AS rid FROM l JOIN r ON l.b = r.b', 'VALUES (1, 1), (1, 2), (2, 1), (2, 2), (5, 6)', 'NULL never matches NULL in an inner join on text');
SELECT set_eq('SELECT l.id, r.id AS rid FROM l JOIN r ON l.a = r.a AND l.b = r.b', 'VALUES (1, 1)', 'one NULL among several keys is enough not to match');
SELECT set_eq('SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON l.a = r.a', 'VALUES (1, 1), (2, NULL), (3, 3), (4, NULL), (5, NULL)', 'a left join keeps left rows whose key is NULL');
SELECT set_eq('SELECT l.id, r.id AS rid FROM l RIGHT JOIN r ON l.a = r.a', 'VALUES (1, 1), (NULL, 2), (3, 3), (NULL, 4), (NULL, 6)', 'a right join keeps right rows whose key is NULL');
SELECT bag_eq('SELECT l.id, r.id AS rid FROM l FULL JOIN r ON l.a = r.a',
	'VALUES (1, 1), (2, NULL), (3, 3), (4, NULL), (5, NULL), (NULL, 2), (NULL, 4), (NULL, 6)', 'a full join keeps rows of both sides whose key is NULL, each once');
SELECT set_eq('SELECT id FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.a = l.a)', 'VALUES (1), (3)', 'a semi join drops rows whose key is NULL');
SELECT set_eq('SELECT id FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.a = l.a)', 'VALUES (2), (4), (5)', 'an anti join keeps rows whose key is NULL');
SELECT set_eq('SELECT id FROM l WHERE a IN (SELECT a FROM r)', 'VALUES (1), (3)', 'IN does not find NULL');
SELECT is_empty('SELECT id FROM l WHERE a NOT IN (SELECT a FROM r)', 'NOT IN over a list with NULL finds nothing');
SELECT set_eq('SELECT id FROM l WHERE a NOT IN (SELECT a FROM r WHERE a IS NOT NULL)', 'VALUES (5)', 'NOT IN over a list without NULL drops NULL');
SELECT set_eq('SELECT l.id, r.id AS rid FROM l JOIN r ON l.a IS NOT DISTINCT FROM r.a AND l.b = r.b', 'VALUES (1, 1), (2, 2)', 'IS NOT DISTINCT FROM beside an equality matches NULL with NULL');
SELECT set_eq('SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON l.a = r.a WHERE r.id IS NULL', 'VALUES (2, NULL::int), (4, NULL), (5, NULL)', 'IS NULL above a left join sees extended rows');
SELECT set_eq('SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON l.a = r.a AND r.b IS NULL', 'VALUES (1, NULL), (2, NULL), (3, 3), (4, NULL), (5, NULL)', 'IS NULL in ON tests the row and not its extension');
SELECT set_eq('SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON l.a = r.a AND NULL::bool', 'SELECT id, NULL::int AS rid FROM l', 'a condition that is NULL matches nothing');
SELECT set_eq('SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON l.a = r.a AND l.b = ''y''', 'SELECT id, NULL::int AS rid FROM l', 'a qual over the preserved side in ON does not remove rows');
SELECT results_eq('SELECT count(*), count(l.id), count(r.id) FROM l FULL JOIN (SELECT id, NULL::int AS a FROM r OFFSET 0) r ON l.a = r.a', 'VALUES (10::bigint, 5::bigint, 5::bigint)',
	'a full join with nothing but NULL keys on one side keeps every row of both');
SELECT results_eq('SELECT count(*) FROM (SELECT id, NULL::int AS a FROM l OFFSET 0) l JOIN (SELECT id, NULL::int AS a FROM r OFFSET 0) r ON l.a = r.a', 'VALUES (0::bigint)', 'nothing but NULL keys joins to nothing');
SELECT results_eq('SELECT count(*) FROM (SELECT id, NULL::int AS a FROM l OFFSET 0) l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.a = l.a)', 'VALUES (5::bigint)', 'an anti join keeps every row when every key is NULL');
SELECT set_eq('SELECT l.id, r.id AS rid FROM l JOIN r ON coalesce(l.a, -1) = coalesce(r.a, -1)', 'VALUES (1, 1), (2, 2), (2, 4), (3, 3), (4, 2), (4, 4)', 'an expression that removes NULL makes a key like others');
SELECT set_eq('SELECT l.id, r.id AS rid FROM l JOIN r ON nullif(l.a, 1) = nullif(r.a, 1)', 'VALUES (3, 3)', 'an expression that makes NULL makes no match');
SELECT set_eq('SELECT l.id, q.id AS qid FROM l LEFT JOIN r ON l.a = r.a LEFT JOIN r q ON q.a = r.a', 'VALUES (1, 1), (2, NULL), (3, 3), (4, NULL), (5, NULL)', 'a NULL that an outer join made matches nothing in the next join');
SELECT is((SELECT count(*) FROM hjoin_gpu_jobs WHERE pid = pg_backend_pid()), 0::bigint, 'no job of this session is left');
SELECT * FROM finish();
ROLLBACK;
