-- Nothing that the extension makes looks for a name in the caller's search_path.
BEGIN;
SELECT plan(4);
CREATE TEMP VIEW members AS
	SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'hjoin_gpu';
SELECT cmp_ok((SELECT count(*)::int FROM members WHERE classid = 'pg_proc'::regclass), '>=', 8, 'the extension has functions');
SELECT is_empty($$ SELECT p.oid::regprocedure FROM pg_proc p JOIN members m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
	WHERE NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false) $$, 'each of them sets search_path');
SELECT is_empty($$ SELECT p.oid::regprocedure FROM pg_proc p JOIN members m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
	WHERE p.prosecdef $$, 'none has the rights of who made it');
-- what is built in has no entry: an operator or function that has one, and is none of ours, was found by its name
SELECT is_empty($$ SELECT pg_describe_object(d.refclassid, d.refobjid, 0)
	FROM members m JOIN pg_rewrite r ON m.classid = 'pg_class'::regclass AND r.ev_class = m.objid
	JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
	WHERE d.refclassid IN ('pg_operator'::regclass, 'pg_proc'::regclass)
	AND NOT EXISTS (SELECT 1 FROM members o WHERE o.classid = d.refclassid AND o.objid = d.refobjid) $$,
	'views use operators and functions of the system and of the extension');
SELECT * FROM finish();
ROLLBACK;
