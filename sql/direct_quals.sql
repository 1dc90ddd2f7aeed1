-- Conditions of scans that are evaluated for many rows at a time: always as core's operators would.
set client_min_messages = warning;
set max_parallel_workers_per_gather = 0;
create type q_enum as enum ('late', 'early', 'never');
create table q_rows (id int, k int, b bool, i2 int2, i4 int4, i8 int8, o oid, f4 float4, f8 float8, dt date, ts timestamp, tz timestamptz, tm time, t text,
	m money, c "char", lsn pg_lsn, x8 xid8, x4 xid, ci cid, e q_enum, u uuid,
	vc varchar(30), ch char(6), by bytea, lt text);
insert into q_rows (id, k, b, i2, i4, i8, o, f4, f8, dt, ts, tz, tm, t) values
	(1, 1, true, -32768, -2147483648, -9223372036854775808, 0, '-infinity', '-infinity', '-infinity', '-infinity', '-infinity', '00:00', ''),
	(2, 1, false, 32767, 2147483647, 9223372036854775807, 4294967295, 'infinity', 'infinity', 'infinity', 'infinity', 'infinity', '24:00', 'z'),
	(3, 1, null, 0, 0, 0, 2147483648, 'nan', 'nan', '2000-01-01', '2000-01-01', '2000-01-01 00:00+00', '12:00', 'a'),
	(4, 1, true, 1, 1, 1, 1, '-0', '-0', '1999-12-31', '1999-12-31', '1999-12-31 00:00+00', '11:59:59.999999', 'b'),
	(5, 1, false, -1, -1, -1, 2147483647, '0', '0', '4713-01-01 BC', '4713-01-01 BC', '4713-02-01 00:00+00 BC', '00:00:00.000001', 'c'),
	(6, 1, true, 2, 70000, 5000000000, 16384, '1.1', '1.1', '5874897-12-31', '294276-12-31', '294276-12-31 00:00+00', '23:59', 'd'),
	(7, 1, false, 3, -70000, -5000000000, 100, '-1e-45', '-5e-324', '2024-02-29', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789+00', '01:02:03', 'e'),
	(9, 1, null, 7, 7, 7, 7, 7, 7, '2001-07-07', '2001-07-07', '2001-07-07 00:00+00', '07:07', null);
insert into q_rows (id, k) values (8, 1);
-- enough of them for pages that have no NULL, some and many
insert into q_rows select g, 1, g % 2 = 0, g % 100, g, g::int8 * 1000000, g, g / 2.0, g / 3.0, date '2000-01-01' + g, timestamp '2000-01-01' + g * interval '1 day',
	timestamptz '2000-01-01 00:00+00' + g * interval '1 hour', time '00:00' + g * interval '1 second', 't' || g from generate_series(10, 600) g;
insert into q_rows select g, 1, case when g % 3 = 0 then true end, case when g % 4 = 0 then g % 100 end, g, case when g % 5 = 0 then g end, g, case when g % 7 = 0 then g end, g,
	case when g % 2 = 0 then date '2000-01-01' + g end from generate_series(601, 900) g;
-- of the other types of fixed width the extremes, one of whose numbers is negative where the type has no sign, and NULLs
update q_rows set m = case id when 1 then '-92233720368547758.08' when 2 then '92233720368547758.07' else (i4 + 0 * nullif(id % 50, 0))::bigint::money end,
	c = (id % 256 - 128 + 0 * nullif(id % 50, 0))::"char",
	lsn = case id when 1 then '0/0' when 2 then 'FFFFFFFF/FFFFFFFF' when 3 then '80000000/0' when 4 then '7FFFFFFF/FFFFFFFF' else '0/0'::pg_lsn + (id + 0 * nullif(id % 50, 0)) end,
	x8 = (case id when 1 then '0' when 2 then '18446744073709551615' when 3 then '9223372036854775808' when 4 then '9223372036854775807' else (id + 0 * nullif(id % 50, 0))::text end)::xid8,
	x4 = (case id when 2 then '4294967295' when 3 then '2147483648' else (id + 0 * nullif(id % 50, 0))::text end)::xid, ci = (case id when 2 then '4294967295' else id::text end)::cid,
	e = (array['late', 'early', 'never'])[id % 3 + 1 + 0 * nullif(id % 50, 0)]::q_enum, u = md5(id::text)::uuid,
	vc = case id when 1 then '' when 2 then ' ' when 3 then 'a ' else 'v' || (id + 0 * nullif(id % 50, 0)) % 40 end, ch = case id when 1 then '' when 2 then 'a' when 3 then ' a' else 'c' || (id + 0 * nullif(id % 50, 0)) % 40 end,
	by = case id when 1 then '' when 2 then '\x00' when 3 then '\x0000' else decode(lpad(to_hex(id + 0 * nullif(id % 50, 0)), 4, '0'), 'hex') end,
	-- as it is, compressed, and elsewhere
	lt = case id % 4 when 0 then 'short' when 1 then repeat('long ' || id % 3, 1000) when 2 then (select string_agg(md5((i + id % 3)::text), '') from generate_series(1, 300) i) end;
insert into q_rows (id, k, t) values (3000, 1, 'caf' || chr(233) || 's');
vacuum full q_rows;
create table q_one as select 1 as k;
analyze q_rows, q_one;

create function q_differ(conditions text[], out checked bigint, out rows numeric, out differ text[]) language sql as
	$$ select * from hjg_differ('q_rows join q_one using (k)', conditions) $$;
create function q_conditions(col text, types text[]) returns text[] language plpgsql as $$
declare
	own text := (select format_type(atttypid, null) from pg_attribute where attrelid = 'q_rows'::regclass and attname = col);
	answer text[];
begin
	execute format($q$select array_agg(format(form, %L, op, v, type))
		from (select distinct %I::text as v from q_rows where id < 14 or id %% 100 = 0 union all select null) v,
		unnest(array['=', '<>', '<', '<=', '>', '>=']) op, unnest(%L::text[]) type, unnest(array['%%1$I %%2$s %%3$L::%%4$s', '%%3$L::%%4$s %%2$s %%1$I']) form
		where pg_input_fits(v, type)$q$, col, col, coalesce(types, array[own])) into answer;
	return answer;
end $$;
create function pg_input_fits(v text, type text) returns bool language plpgsql as $$
begin
	execute format('select %L::%s', v, type);
	return true;
exception when others then
	return false;
end $$;
set hjoin_gpu.force = on;
explain (costs off, verbose) select count(*), sum(q_rows.id) from q_rows join q_one using (k) where i4 < 5 and f8 > 1;
reset hjoin_gpu.force;
set extra_float_digits = 3;
set timezone = 'UTC';
-- each type against constants of its own type, on either side, and of others
select col, d.* from unnest(array['b', 'i2', 'i4', 'i8', 'o', 'f4', 'f8', 'dt', 'ts', 'tz', 'tm']) col, lateral q_differ(q_conditions(col, null)) d;
select col, d.* from unnest(array['i2', 'i4', 'i8']) col, lateral q_differ(q_conditions(col, array['int2', 'int4', 'int8'])) d;
select col, d.* from unnest(array['f4', 'f8']) col, lateral q_differ(q_conditions(col, array['float4', 'float8'])) d;
select col, d.* from unnest(array['dt', 'ts']) col, lateral q_differ(q_conditions(col, array['date', 'timestamp'])) d;
select col, d.* from unnest(array['m', 'lsn', 'x8']) col, lateral q_differ(q_conditions(col, null)) d;
select d.* from q_differ(array(select format(form, op, n) from unnest(array['=', '<>', '<', '<=', '>', '>=']) op, unnest(array[-128, -127, -1, 0, 1, 65, 127]) n, unnest(array['c %s (%s)::"char"', '(%2$s)::"char" %1$s c']) form)) d;
select d.* from q_differ(array['c in (''A'', ''B'', (-3)::"char")', 'c not in (''A'', null)', 'm in (''7'', ''-92233720368547758.08'')', 'lsn in (''0/7'', ''FFFFFFFF/FFFFFFFF'', ''80000000/0'')', 'lsn not in (''0/7'')',
	'x8 in (''7'', ''18446744073709551615'')', 'x8 between ''9223372036854775807'' and ''9223372036854775808''', 'lsn between ''0/5'' and ''80000000/0''', 'x4 = ''7''', 'x4 <> ''7''', 'x4 = ''4294967295''', 'x4 = ''2147483648''', 'x4 in (''7'', ''4294967295'')',
	'x4 = 7', 'ci = ''7''', 'ci = ''4294967295''', 'e = ''early''', 'e <> ''early''', 'e in (''early'', ''never'')', 'e not in (''early'', ''never'')', 'e < ''early''', 'e >= ''early''', 'e > ''late'' and i4 > 5', 'm > ''5'' and e = ''late'' and i2 > 3',
	'u = md5(''7'')::uuid', 'u <> md5(''7'')::uuid', 'u < md5(''7'')::uuid and i4 > 3', 'i4 > 3 and u in (md5(''7'')::uuid, md5(''9'')::uuid)', 'lsn > (''0/0''::pg_lsn + 100) or x8 is null']) d;
-- strings of bytes: equality only, where nothing but bytes counts
select d.* from q_differ(array['t = ''t11''', 't <> ''t11''', '''t11'' = t', '''t11'' <> t', 't = ''''', 't <> ''''', 't in (''a'', ''t11'', ''t12'', ''z'', '''')', 't not in (''a'', ''t11'')', 't in (''a'', null)', 't not in (''a'', null)', 't = null', 't = any (''{}'')', 't <> all (''{}'')',
	't = any (null::text[])', 't < ''t2''', 't > ''t2'' and t <> ''t30''', 't = ''t11'' and i4 = 11', 'i4 > 10 and t = ''t11''', 't = ''t11'' or t = ''t12'' or i2 = 3', 't <> ''a'' and (t = ''t12'' or t is null or i4 = 5)', 'vc = ''''', 'vc = '' ''', 'vc = ''a''', 'vc = ''a ''',
	'vc = ''v7''', 'vc <> ''v7''', 'vc in (''v7'', ''v8'', ''v9'')', 'vc not in (''v7'', ''v8'', ''v9'')', 'vc = ''v7''::char(10)', 'vc = any (array[''v7'', ''v8'']::varchar[])', 'ch = ''''', 'ch = ''a''', 'ch = ''a    ''', 'ch = '' a''', 'ch = ''c7''', 'ch = ''c7''::text', 'ch <> ''c7''', 'ch in (''c7'', ''c8  '', ''a'')',
	'ch not in (''c7'', ''c8  '', ''a'')', 'ch = any (array[''c7'', null]::bpchar[])', 'by = ''''', 'by = ''\x00''', 'by <> ''\x0000''', 'by in (''\x00'', ''\x0011'', '''')', 'by not in (''\x00'', ''\x0011'', '''')', 'by < ''\x0011''', 'lt = ''short''', 'lt = repeat(''long 1'', 1000)', 'lt <> repeat(''long 1'', 1000)',
	'lt in (''short'', repeat(''long 2'', 1000))', 'lt = (select string_agg(md5((i + 1)::text), '''') from generate_series(1, 300) i)', 'lt not in (select string_agg(md5((i + 1)::text), '''') from generate_series(1, 300) i)', 't = ''t11'' collate "C"', 't collate "C" = ''t11''', 't = any (array(select distinct t from q_rows where id < 20))',
	't = (select max(t) from q_rows)', 't || '''' = ''t11'' and i4 > 3', 'upper(t) = ''T11'' and t = ''t11''']) d;
select d.* from q_differ(array(select format('%s %s %L', c, op, p) from unnest(array['like', 'not like']) op, unnest(array['t', 'vc', 'ch', 'lt']) c,
	unnest(array['t1%', '%1', '%1%', 't%1', '%', '%%', 't%', '%t', 'v%7', 'v1%1', '%1%1%', 't1%1%1', 't11', '', 'a%', '% %', 'long%1', '%g 2long%', '%ab%cd%', 'c7%', 'c7   %', '%7 ', 't_1', 't\\1%', '%\\%', 't%1%', 'tt%t', '%%1%%2%%', '%\303\251%', 'z%z', 'zz%']) p)) d;
select d.* from q_differ(array['t like null', 't like ''t1%'' and t not like ''%5'' and i4 > 3', 't like ''t1%'' or vc like ''%9'' or lt like ''%long 2''', 't like ''t'' || ''1%''', 't ilike ''T1%''', 't like upper(''t1%'')', 'lt like ''%'' || md5(''7'') || ''%''', 'by like ''x%''::bytea', 't like ''%'' || chr(233) || ''%''', 't like ''caf'' || chr(233) || ''%''', 't like ''caf_s''', 't not like ''%'' || chr(233)', 't collate "C" like ''%1''']) d;
-- column against column, of one type or two
select d.* from q_differ(array(select format('%s %s %s', l, op, r) from unnest(array['=', '<>', '<', '<=', '>', '>=']) op,
	(values ('i2', 'i4'), ('i4', 'i2'), ('i4', 'i8'), ('i8', 'i2'), ('i4', 'id'), ('f4', 'f8'), ('f8', 'f4'), ('f8', 'f8'), ('dt', 'dt'), ('ts', 'ts'), ('m', 'm'), ('lsn', 'lsn'), ('x8', 'x8'), ('c', 'c'), ('o', 'o'), ('b', 'b'), ('tm', 'tm')) v (l, r))) d;
select d.* from q_differ(array['i4 = i2 or f4 = f8', 'i4 <> i2 and (f4 < f8 or i2 is null)', 'not (i4 < i2)', '(i4 < i2 or i8 > i4) and i4 <> id', 'i2 < i4 and t = ''t11''', 'dt < ts and i4 < id', 'e = e and i4 = id', 'x4 = x4', 'u = u and i4 = id', 't = vc', 'i4 < i4::int8 + 1 and i2 < i4']) d;
-- nothing that differs only in what a collation does not see is taken for equal to it
select d.* from q_differ(array['t collate hjg_loose = ''T11''', 't collate hjg_loose in (''T11'', ''T12'')', 't = ''T11'' collate hjg_loose and i4 > 3']) d;
-- which of them LIKE takes depends on the server's version
select of_core = of_ours as equal from hjg_outcome('select count(*) from q_rows join q_one using (k) where t collate hjg_loose like ''T1%''');
-- lists, ranges, NULL tests, booleans, AND and OR
-- subqueries that core would hash: rows, none, with NULL; of other types; below OR, in CASE, with parameters of the query around them
create table q_lists as select i % 7 as l, i as v, 't' || i as t, i::numeric / 2 as n, date '2000-01-01' + i as d from generate_series(1, 400) i;
insert into q_lists (l) values (0);
analyze q_lists;
select d.* from q_differ(array['i4 not in (select v from q_lists where l = 1)', 'i4 not in (select v from q_lists where l = 0)', 'i4 not in (select v from q_lists where l = 8)', 'i2 not in (select v from q_lists where l = 2)',
	'i8 not in (select v from q_lists where l = 3)', 't not in (select t from q_lists where l = 1)', 't not in (select t from q_lists where l = 0)', 'vc not in (select t from q_lists where l = 4)', 'i4::numeric not in (select n from q_lists where l = 1)',
	'dt not in (select d from q_lists where l = 5)', 'dt not in (select d from q_lists where l = 8)', 'b or i4 in (select v from q_lists where l = 1)', 'i2 = 3 or i4 in (select v from q_lists)', 'i4 in (select v from q_lists where l = 8) or i2 = 4',
	'i4 not in (select v from q_lists where l = 1) and t not in (select t from q_lists where l = 2)', 'case when i4 in (select v from q_lists where l = 1) then i2 = 3 else b end',
	'(i4, i2) not in (select v, l from q_lists where l = 1)', 'i4 <> all (select v from q_lists where l = 1)', 'i4 > all (select v from q_lists where l = 1)', 'i4 not in (select v + 0 * i4 from q_lists where l = 1)',
	'substring(t for 2) not in (select substring(t for 2) from q_lists where l = 1)', 'f8 not in (select n::float8 from q_lists where l = 1)']) d;
select d.* from hjg_differ('(select o.l as id, c.n from (select distinct l from q_lists) o, lateral (select count(*) as n from q_rows join q_one using (k) where i4 not in (select v from q_lists i where i.l = o.l)) c) q', array['n > 0', 'n = 0']) d;
-- the list of an unchanged subquery, NULL and all, is that of the next scan, too
select d.* from hjg_differ('(select o.v as id, (select count(*) from q_rows join q_one using (k) where i4 > o.v and i4 not in (select v from q_lists where l = 0)) as n from (values (1), (2), (3)) o (v)) q', array['n = 0', 'n > 0']) d;
select * from hjg_outcome('select count(*)::text from q_rows join q_one using (k) where i4 not in (select 1 / (l - 1) from q_lists where v < 3)');
select * from hjg_outcome('select count(*)::text from q_rows join q_one using (k) where i4 < -2147483648 and i2 not in (select 1 / (l - 1) from q_lists where v < 3)');
select sum(case when i4 in (select v from q_lists where l = 1) then 1 end), count(*) filter (where t not in (select t from q_lists where l = 2)) from q_rows;
drop table q_lists;
select d.* from q_differ(array['i4 in (1, 2, 70000, -2147483648)', 'i4 not in (1, 2, 70000)', 'i4 in (1, null)', 'i4 not in (1, null)', 'i8 in (7, 7, 7, 5000000000)', 'i2 in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)',
	'i2 not in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)', 'i4 = any (''{}''::int[])', 'i4 <> all (''{}''::int[])', 'i4 = any (null::int[])', 'i4 <> all (null::int[])', 'i4 <> any (''{1, 2}''::int[])', 'i4 = all (''{7}''::int[])',
	'i4 = any (''{{1, 2}, {7, 70000}}''::int[])', 'i4 < any (''{5, 7}''::int[])', 'i2 = any (''{1, 2, 70000}''::int[])', 'i8 = any (''{1, 7}''::int2[])', 'f8 in (''nan'', 0, 7)', 'f4 = any (''{nan, 0, 7}''::float8[])',
	'f4 not in (''nan'', 0)', 'o in (4294967295, 7, 2147483648)', 'dt in (''2000-01-01'', ''infinity'')', 'ts not in (''2000-01-01'', ''infinity'')', 'tz in (''2000-01-01 00:00+00'')', 'b in (true, null)', 'tm in (''24:00'', ''00:00'')',
	'i4 between 5 and 100', 'i4 not between 5 and 100', 'dt between ''2000-02-01'' and ''2000-03-01''', 'ts >= ''2000-02-01'' and ts < ''2000-03-01''', 'i4 > 5 and i4 < 3', 'i4 between symmetric 100 and 5',
	'b', 'not b', 'b is null', 'b is true', 'b is not true', 'b = false', 't is null', 't is not null', 'i4 is null', 'f8 is not null and i2 is null', 'i4 is null or i2 = 7', 'i4 = 7 or i4 = 1 or b or f8 = ''nan''',
	'(i4 > 100 and i4 < 200 or i2 = 3) and (b or not b)', 'not (i4 > 5 or i2 < 3)', 'not (b and i4 > 5)', 'i4 = 7 or t like ''t1%''', 'i4 > 7 and t like ''t1%''', 't like ''t1%'' and i4 > 7', 'i4 = i2', 'i4 / 2 > 3', 'i4 > 7 and i4 / 2 < 49', 'i4 = 7.0', 'i2 > 6.5', 'q_rows is null',
	'(i4, i2) = (7, 7)', 'q_rows.tableoid = ''q_rows''::regclass and i4 > 7', 'q_rows.ctid > ''(0,5)'' and i4 > 7', 'coalesce(i4, 0) = 7', 'i4 > 3 and i4 is distinct from 7']) d;
-- a thousand of AND and OR in one another: the stack is no deeper for it than core's
create function q_nested(levels int) returns text language plpgsql as $$
declare
	condition text := 'i4 > 3';
begin
	for i in 1..levels loop
		condition := format(case when i % 2 = 0 then 'i4 = %s or (%s)' else 'id <> %s and (%s)' end, i, condition);
	end loop;
	return condition;
end $$;
select levels, d.* from unnest(array[30, 100, 1200]) levels, q_differ(array[q_nested(levels)]) d;
drop function q_nested;
-- rows from before a column was added, dropped columns
alter table q_rows drop tm, add late int default 5, add later date;
insert into q_rows (id, k, late, later) values (2000, 1, 7, '2000-01-01'), (2001, 1, null, null);
select d.* from q_differ(array['late = 5', 'late <> 5', 'late is null', 'late in (5, 7)', 'later is null', 'later < ''2020-01-01''', 'late > 4 and later is null', 'i4 > 100 and late < 9']) d;

-- an operator of the same name and types that means something else
create schema q_own;
create function q_own.never(int, int) returns bool immutable strict language sql as 'select $1 is null';
create operator q_own.= (leftarg = int, rightarg = int, procedure = q_own.never);
select d.* from q_differ(array['i4 operator(q_own.=) 7', 'i4 > 3 and i4 operator(q_own.=) 7']) d;
-- domains and types that look like others
create domain q_domain as int check (value > -100);
create table q_domains as select g as id, 1 as k, g::q_domain as d, g::oid::regclass as r, (g % 3)::bit(2)::text::name as n from generate_series(1, 50) g;
analyze q_domains;
set hjoin_gpu.force = on;
select count(*), sum(id) from q_domains join q_one using (k) where d > 10 and r <> 20::oid and n > '00';
set hjoin_gpu.enabled = off;
select count(*), sum(id) from q_domains join q_one using (k) where d > 10 and r <> 20::oid and n > '00';
reset hjoin_gpu.enabled;

-- parameters: of generic plans, of PL/pgSQL, of an outer query, of a subquery
set plan_cache_mode = force_generic_plan;
prepare q_params(int, float8, date, int[]) as select count(*), sum(q_rows.id) from q_rows join q_one using (k) where i4 < $1 and f8 > $2 and (dt is null or dt <> $3) and i2 = any ($4);
execute q_params(500, 3, '2000-02-02', '{1,2,3,99}');
execute q_params(100, -3, 'infinity', '{1,2,3,99,null}');
execute q_params(100, 'nan', 'infinity', '{1,2}');
execute q_params(null, 0, '2000-01-01', '{1,2}');
execute q_params(500, 0, '2000-01-01', null);
set hjoin_gpu.enabled = off;
deallocate q_params;
prepare q_params(int, float8, date, int[]) as select count(*), sum(q_rows.id) from q_rows join q_one using (k) where i4 < $1 and f8 > $2 and (dt is null or dt <> $3) and i2 = any ($4);
execute q_params(500, 3, '2000-02-02', '{1,2,3,99}');
execute q_params(100, -3, 'infinity', '{1,2,3,99,null}');
reset hjoin_gpu.enabled;
reset plan_cache_mode;
do $$
declare
	n bigint;
begin
	for x in 1..7 loop
		select count(*) into n from q_rows join q_one using (k) where i4 <= x and i8 < x * 1000000000::bigint;
		assert n = (select count(*) from q_rows where i4 <= x and i8 < x * 1000000000::bigint);
	end loop;
end $$;
select * from hjg_same('select x, n from generate_series(-2, 9) x, lateral (select count(*) as n from q_rows join q_one using (k) where i4 < x * 50 and i2 <> x) y');
set plan_cache_mode = force_generic_plan;
prepare q_strings(text, text[], char(6)) as select count(*), sum(q_rows.id) from q_rows join q_one using (k) where t <> $1 and (vc = any ($2) or ch = $3);
execute q_strings('t11', '{v3,v4}', 'c7');
execute q_strings('', '{v3,null}', 'c7  ');
execute q_strings(null, '{v3}', 'c7');
execute q_strings('t11', null, 'c7');
set hjoin_gpu.enabled = off;
execute q_strings('t11', '{v3,v4}', 'c7');
execute q_strings('', '{v3,null}', 'c7  ');
reset hjoin_gpu.enabled;
reset plan_cache_mode;
select * from hjg_same('select count(*) from q_rows join q_one using (k) where i4 = (select max(i4) from q_rows where i4 < 100)');
select * from hjg_same('select count(*) from q_rows join q_one using (k) where i4 < 100 and i2 = any (array(select i2 from q_rows where id < 9))');
-- a subquery that no row asks for is not run
select count(*) from q_rows join q_one using (k) where i2 < -32768 and i4 = (select 1 / (k - 1) from q_one);
select count(*) from q_rows join q_one using (k) where i4 = 7 and i4 = (select 1 / (k - 1) from q_one);
-- below an OR, AND asks its next argument after a NULL, and not after false; of two subqueries that fail the same one fails first
select c as condition, o.of_core as outcome, nullif(o.of_ours, o.of_core) as differs from unnest(array['i4 = 7 and (b and i4 = (select 1 / (k - 1) from q_one) or i2 = 7)', 'i4 = -1 and (b and i4 = (select 1 / (k - 1) from q_one) or i2 = -1)',
	'i4 = 7 and (i4 in (1, null) and i2 = (select 1 / (k - 1) from q_one) or i2 = 7)', 'i4 = 7 and (i4 not in (1, null) and i2 = (select 1 / (k - 1) from q_one) or i2 = 7)',
	'i4 = 7 and (i4 not in (7, null) and i2 = (select 1 / (k - 1) from q_one) or i2 = 7)', 'i4 = 7 and (i4 in (7, null) and i2 = (select 1 / (k - 1) from q_one) or i2 = 7)',
	'i4 = 7 and ((b or i4 = 8) and i4 = (select 1 / (k - 1) from q_one) or i2 = 7)', 'i4 = -1 and ((b or i4 = 8) and i4 = (select 1 / (k - 1) from q_one) or i2 = -1)',
	'i4 = 7 and ((b or i4 is null and b) and i4 = (select 1 / (k - 1) from q_one) or i2 = 7)', 'i4 = 7 and (i4 < (select min(i4) from q_rows) and b and i8 = (select 1 / (k - 1) from q_one) or i2 = 7)',
	'i4 = 7 and (b and i4 < (select min(i4) from q_rows) and i8 = (select 1 / (k - 1) from q_one) or i2 = 7)', 'i4 = 7 and (i4 > (select k from q_one where k > 1) and i8 = (select 1 / (k - 1) from q_one) or i2 = 7)',
	'i2 = 7 and i4 = (select 1 / (k - 1) from q_one) or f8 = (select sqrt(k - 5) from q_one)', '(i2 <> 7 or i4 = (select 1 / (k - 1) from q_one)) and f8 = (select sqrt(k - 5) from q_one)',
	'i2 = 7 and (i4 = (select 1 / (k - 1) from q_one) or b) and f8 = (select sqrt(k - 5) from q_one)', 'i4 = 7 and b and i8 = (select 1 / (k - 1) from q_one)']) c,
	hjg_outcome('select count(*) from q_rows join q_one using (k) where ' || c) o;
-- what fails for some rows fails as core's does, or not at all where other conditions drop them: division by zero, dates out of range, a pattern that ends with its escape
select c as condition, left(o.of_core, 5) as outcome, nullif(o.of_ours, o.of_core) as differs from unnest(array['1 / (id - 7) >= 0', 'id <> 7 and 1 / (id - 7) >= 0', '1 / (id - 7) >= 0 and id <> 7', 'i4 <> 7 and 1 / (id - 7) >= 0',
	'case when id <> 7 then 1 / (id - 7) >= 0 end', 't like ''t2%'' and 1 / (id - 7) >= 0', 'b and id % (i2 - 7) = 1', 'i2 > 7 and id % (i2 - 7) = 1', '(id = 7 or 1 / (id - 7) >= 0) and i4 < 100', 'f8 / (id - 7) > 3', '2.5 / (i4 - 7) > 0.1', '2.5 / (i4 - 7) > 0.1 and i4 > 7',
	'dt + 1 > date ''2000-01-01''', 'i4 < 1000 and dt + 1 > date ''2000-01-01''', 'dt - dt = 0', 'isfinite(dt) and dt - dt = 0', 'dt::timestamp < timestamp ''2000-01-05''', 'id <> 6 and dt::timestamp < timestamp ''2000-01-05''', 'dt < timestamp ''2000-01-05''', 'dt > ts', 'ts - interval ''1 year'' < ts',
	'id > 9 and ts - interval ''1 year'' < ts', 'tz + interval ''1 day'' > tz', 'make_date(i4, 1, 1) > dt', 'i4 between 1 and 900 and make_date(i4, 1, 1) < dt', 'date_trunc(''nonsense'', ts) > ts', 'extract(''nonsense'' from dt) = 5', 'extract(year from dt) = 2001',
	't like ''t1\''', 't like ''%\''', 't not like ''t1%\''', 't like ''q\''', 't like ''t1%'' and t like ''%5\''', 'i4 = 12 and t like ''t12\''', 'i4 = 12 and t like ''t\''', 'lt like ''long%\''', 'ch like ''c7\''']) c,
	hjg_outcome('select count(*) from q_rows join q_one using (k) where ' || c) o;
-- a variable that no row asks for need not have a value
create function q_record(filled bool, condition int) returns bigint language plpgsql as $$
declare
	r record;
	n bigint;
begin
	if filled then
		select 7 as x into r;
	end if;
	select count(*) into n from q_rows join q_one using (k) where i2 < condition and (i4 < 0 or i8 > 0 and i4 = r.x);
	return n;
end $$;
set plan_cache_mode = force_generic_plan;
set hjoin_gpu.force = on;
select q_record(true, 32767);
select q_record(false, -32768);
select q_record(false, 0);
select q_record(false, 32767);
set hjoin_gpu.enabled = off;
discard plans;
select q_record(true, 32767);
select q_record(false, -32768);
select q_record(false, 0);
select q_record(false, 32767);
reset hjoin_gpu.enabled;
reset hjoin_gpu.force;
reset plan_cache_mode;

-- dates against timestamps: midnight and not, beyond the calendar's days, infinity
select * from q_differ((select array_agg(c) from (select format(f, op, t) as c from unnest(array['<', '<=', '=', '<>', '>=', '>']) op,
	unnest(array['-infinity', 'infinity', '2000-01-01', '1999-12-31 23:59:59.999999', '2000-01-01 00:00:00.000001', '1999-12-31', '2001-07-07', '4713-01-01 BC', '4713-01-01 00:00:01 BC', '294276-12-31',
		'294276-12-31 23:59:59.999999', '1980-05-05 12:00']) t,
	unnest(array['dt %1$s timestamp %2$L', 'timestamp %2$L %1$s dt', 'not (dt %1$s timestamp %2$L)', 'dt %1$s timestamp %2$L or i4 = 3', 'dt %1$s (select timestamp %2$L)']) f) q));
select * from q_differ(array['dt < date ''2001-01-01'' + interval ''1 month''', 'dt >= date ''2000-06-01'' - interval ''1 day'' and dt < date ''2000-06-01'' + interval ''1 year''', 'dt < null::timestamp', 'dt = ts', 'ts > dt', 'dt <= ts::date',
	'dt in (timestamp ''2000-01-11'', timestamp ''2000-01-12 12:00'')', 'dt = any (array[timestamp ''2000-01-11''])', 'dt < timestamptz ''2000-05-05 00:00+00''', 'ts < date ''2000-05-05''']);
-- timestamps against dates, and those with time zone against both, in zones with and without summer time: on either side, beyond all timestamps, infinity
create function q_times(zone text) returns table (differ text[], checked bigint) language plpgsql as $$
begin
	perform set_config('timezone', zone, true);
	return query select d.differ, d.checked from q_differ((select array_agg(format(f, op, col, type, t)) from unnest(array['<', '<=', '=', '<>', '>=', '>']) op,
		unnest(array['ts', 'tz']) col, unnest(array['date', 'timestamp', 'timestamptz']) type,
		unnest(array['-infinity', 'infinity', '2000-01-01', '2000-01-18', '1999-12-31', '2001-07-07', '4713-01-01 BC', '294276-12-31', '2000-03-26', '2000-01-11 05:00']) t,
		unnest(array['%2$s %1$s %3$s %4$L', '%3$s %4$L %1$s %2$s', '(i4 = 3 or %2$s %1$s %3$s %4$L)', '%2$s %1$s (select %3$s %4$L)']) f)) d;
end $$;
select zone, t.* from unnest(array['UTC', 'Europe/Berlin', 'America/St_Johns', 'Pacific/Apia', 'Asia/Kolkata']) zone, lateral q_times(zone) t;
select * from q_differ(array['ts < date ''5874897-12-31''', 'ts > date ''5874897-12-31''', 'tz = date ''5874897-12-31''', 'tz <> date ''5874897-12-31''', 'date ''5874897-12-31'' <= tz', 'date ''5874897-12-31'' > ts', 'tz >= date ''294277-01-01''', 'tz < null::date']);
-- operands that stay the same during a query
select * from q_differ(array['tz < now()', 'tz > now() - interval ''1 day''', 'tz >= current_date', 'ts < current_date - 30', 'dt < current_date', 'dt = (current_date - 3) - (current_date - date ''2000-02-02'')', 'i4 < length(current_user) * 10', 'i4 in (length(current_database()), 17, 5 + length(current_user) * 0)',
	't = concat(''t'', length(current_user) * 0 + 77)', 'f8 < extract(epoch from now())', 'i4 = any (string_to_array(current_setting(''extra_float_digits'') || '',77'', '','')::int[])', 'tz between now() - interval ''40 years'' and now()', 'ts > now()', 'ts <= localtimestamp', 'i8 < random() * 0', 'not (tz > now())']);
create function q_asked(int) returns int language plpgsql stable cost 0.0000001 as $$ begin raise info 'asked for %', $1; return $1; end $$;
set hjoin_gpu.force = on;
select count(*) from q_rows join q_one using (k) where i4 < q_asked(5);
select count(*) from q_rows join q_one using (k) where i4 < 5 and i4 > 5 and i8 < q_asked(6);
-- the same error, when the first row needs the operand; and none if no row does
prepare q_divided(int) as select count(*) from q_rows join q_one using (k) where i4 < 100 and i8 < 1000 / $1;
set plan_cache_mode = force_generic_plan;
execute q_divided(0);
execute q_divided(1);
deallocate q_divided;
prepare q_divided(int) as select count(*) from q_rows join q_one using (k) where i4 < 100 and i4 > 100 and i8 < 1000 / $1;
execute q_divided(0);
deallocate q_divided;
reset plan_cache_mode;
reset hjoin_gpu.force;
-- of a scan that has nothing else left to core
set hjoin_gpu.force = on;
prepare q_dates(timestamp) as select count(*), sum(q_rows.id) from q_rows join q_one using (k) where dt < $1 and dt >= timestamp '2000-03-01';
execute q_dates('2000-04-01');
execute q_dates('2000-04-01 00:00:01');
execute q_dates(null);
deallocate q_dates;
reset hjoin_gpu.force;

-- conditions that tell see what is left of the ones before them, and the books count the rest
create function q_tells(int) returns bool language plpgsql cost 0.0000001 as $$ begin raise info 'sees %', $1; return $1 <> 12; end $$;
create view q_barrier with (security_barrier) as select * from q_rows where i4 between 10 and 14 and b;
select count(*) from q_barrier join q_one using (k) where q_tells(i4) and i2 > 11;
create function q_explain(query text) returns setof jsonb language sql as
	$$ select jsonb_path_query(hjg_explained('analyze, costs off, timing off, summary off', query), 'strict $.** ? (@."Relation Name" == "q_rows")') $$;
set client_min_messages = error;
select (x->>'Actual Rows')::numeric::int as rows, x->>'Rows Removed by Filter' as removed from q_explain('select count(*) from q_rows join q_one using (k) where i4 < 100') x;
select (x->>'Actual Rows')::numeric::int as rows, x->>'Rows Removed by Filter' as removed from q_explain('select count(*) from q_rows join q_one using (k) where i4 < 100 and t like ''t1%''') x;
set hjoin_gpu.direct_scan = off;
select (x->>'Actual Rows')::numeric::int as rows, x->>'Rows Removed by Filter' as removed from q_explain('select count(*) from q_rows join q_one using (k) where i4 < 100 and t like ''t1%''') x;
drop table q_rows, q_one, q_domains cascade;
drop domain q_domain;
drop schema q_own cascade;
drop function q_differ(text[]), q_conditions(text, text[]), pg_input_fits(text, text), q_tells(int), q_explain(text), q_record(bool, int);
