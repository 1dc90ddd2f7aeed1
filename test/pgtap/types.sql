-- Equal values are joined: equality by type.
BEGIN;
SELECT plan(36);
SET LOCAL hjoin_gpu.force = on;
SET LOCAL hjoin_gpu.in_backend_rows = 0;
SET LOCAL enable_mergejoin = off;
SET LOCAL enable_nestloop = off;
-- do the two values join, with our node?
CREATE FUNCTION pg_temp.joins(a text, b text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	q text := format('SELECT * FROM (SELECT %s AS k FROM generate_series(1, 3) OFFSET 0) l JOIN (SELECT %s AS k FROM generate_series(1, 2) OFFSET 0) r ON l.k = r.k', a, b);
	line text;
	used bool := false;
	n bigint;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || q LOOP
		used := used OR line LIKE '%GpuHashJoin%';
	END LOOP;
	IF NOT used THEN RETURN NULL; END IF;
	EXECUTE format('SELECT count(*) FROM (%s) q', q) INTO n;
	IF n NOT IN (0, 6) THEN RAISE EXCEPTION '% rows', n; END IF;
	RETURN n = 6;
END $$;
SELECT ok(pg_temp.joins('''-0''::float8', '''0''::float8'), 'float8: minus zero is zero');
SELECT ok(pg_temp.joins('''-0''::float4', '''0''::float8'), 'float4 and float8: minus zero is zero');
SELECT ok(pg_temp.joins('''NaN''::float8', '''NaN''::float8'), 'float8: NaN is NaN');
SELECT ok(pg_temp.joins('''NaN''::float4', '''NaN''::float8'), 'float4 and float8: NaN is NaN');
SELECT ok(pg_temp.joins('''Infinity''::float8', '''Infinity''::float4'), 'float8 and float4: Infinity is Infinity');
SELECT ok(NOT pg_temp.joins('0.1::float4', '0.1::float8'), 'float4 and float8: 0.1 of one is not 0.1 of the other');
SELECT ok(pg_temp.joins('0.5::float4', '0.5::float8'), 'float4 and float8: 0.5 is 0.5');
SELECT ok(pg_temp.joins('(-1)::int2', '(-1)::int8'), 'int2 and int8: -1 is -1');
SELECT ok(pg_temp.joins('(-1)::int4', '(-1)::int8'), 'int4 and int8: -1 is -1');
SELECT ok(NOT pg_temp.joins('(-1)::int4', '4294967295::int8'), 'int4 and int8: -1 is not 4294967295');
SELECT ok(NOT pg_temp.joins('7::int4', '4294967303::int8'), 'int4 and int8: high bits count');
SELECT ok(NOT pg_temp.joins('7::int2', '65543::int4'), 'int2 and int4: high bits count');
SELECT ok(pg_temp.joins('1.0::numeric', '1.000::numeric'), 'numeric: scale does not count');
SELECT ok(pg_temp.joins('''NaN''::numeric', '''NaN''::numeric'), 'numeric: NaN is NaN');
SELECT ok(pg_temp.joins('''1 day''::interval', '''24 hours''::interval'), 'interval: 1 day is 24 hours');
SELECT ok(pg_temp.joins('''1 mon''::interval', '''30 days''::interval'), 'interval: 1 mon is 30 days');
SELECT ok(NOT pg_temp.joins('''1 mon''::interval', '''31 days''::interval'), 'interval: 1 mon is not 31 days');
SELECT ok(pg_temp.joins('''a''::char(5)', '''a  ''::char(9)'), 'bpchar: trailing blanks do not count');
SELECT ok(NOT pg_temp.joins('''a''::text', '''a ''::text'), 'text: trailing blanks count');
SELECT ok(NOT pg_temp.joins('''a''::text', '''A''::text'), 'text: case counts');
SELECT ok(pg_temp.joins('''a''::text', '''a''::varchar(9)'), 'text and varchar: the same letters are equal');
SELECT ok(pg_temp.joins('''a''::text', '''a''::name'), 'text and name: the same letters are equal');
SELECT ok(pg_temp.joins('''''::text', '''''::text'), 'text: the empty string is a value');
SELECT ok(pg_temp.joins('repeat(''long '', 100000)', 'repeat(''long '', 100000)'), 'text: half a megabyte');
SELECT ok(NOT pg_temp.joins('repeat(''long '', 100000)', 'repeat(''long '', 99999) || ''Long '''), 'text: the end of half a megabyte counts');
SELECT ok(pg_temp.joins('''{"a": 1, "b": [1.0]}''::jsonb', '''{"b": [1], "a": 1.00}''::jsonb'), 'jsonb: neither order of keys nor scale counts');
SELECT ok(pg_temp.joins('ARRAY[1, NULL, 3]', 'ARRAY[1, NULL, 3]'), 'arrays: NULL elements are equal');
SELECT ok(NOT pg_temp.joins('ARRAY[1, 2]', 'ARRAY[[1, 2]]'), 'arrays: dimensions count');
SELECT ok(pg_temp.joins('''10.0.0.1''::inet', '''10.0.0.1/32''::inet'), 'inet: an address is its own network');
SELECT ok(pg_temp.joins('''infinity''::timestamptz', '''infinity''::timestamptz'), 'timestamptz: infinity is infinity');
SELECT ok(pg_temp.joins('''2020-01-01 12:00+00''::timestamptz', '''2020-01-01 14:00+02''::timestamptz'), 'timestamptz: one moment in two zones');
SELECT ok(pg_temp.joins('''00000000-0000-0000-0000-000000000000''::uuid', '''00000000-0000-0000-0000-000000000000''::uuid'), 'uuid: all zeros is a value');
SELECT ok(pg_temp.joins('''ffffffff-ffff-ffff-ffff-ffffffffffff''::uuid', '''ffffffff-ffff-ffff-ffff-ffffffffffff''::uuid'), 'uuid: all ones is a value');
SELECT ok(pg_temp.joins('(-1)::int8', '(-1)::int8'), 'int8: all ones is a value');
SELECT ok(pg_temp.joins('0::oid', '0::oid'), 'oid: zero is a value');
SELECT ok(pg_temp.joins('''\x''::bytea', '''\x''::bytea'), 'bytea: no bytes is a value');
SELECT * FROM finish();
ROLLBACK;
