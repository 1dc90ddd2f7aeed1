-- GROUP BY and aggregates of tables and of joins in a node of their own: core's answers.
set hjoin_gpu.aggregate = on;

-- As hjg_same, and: are rows grouped in the node?
create function grp_same(query text, out rows bigint, out equal bool, out in_node bool) language sql as
	$$ select s.rows, s.equal, hjg_lines(query, '(GpuAggregate)') > 0 from hjg_same(query) s $$;

create type grp_mood as enum ('sad', 'ok', 'happy');
create type grp_pair as (a int, b text);
create table grp (id int, bo bool, ch "char", i2 int2, i4 int4, i8 int8, oi oid, da date, ti time, ts timestamp, tz timestamptz, mo money, f4 float4, f8 float8,
	nu numeric, ns numeric(12, 2), te text, vc varchar(20), c1 char(1), c9 char(9), na name, by bytea, uu uuid, iv interval, en grp_mood, js jsonb, ar int[], ip inet, bi bit(5),
	pa grp_pair, dropped int);
insert into grp
	select g, case when g % 7 > 0 then g % 2 = 0 end, case when g % 5 > 0 then chr(64 + g % 20)::"char" end, case when g % 11 > 0 then g % 90 - 40 end,
		case when g % 13 > 0 then (g % 400) * 1000003 - 200000000 end, case when g % 17 > 0 then (g % 500)::int8 << 50 end, case when g % 3 > 0 then g % 30 end,
		date '2020-01-01' + g % 70, time '00:00' + g % 60 * interval '1 minute', case when g % 19 > 0 then timestamp '2020-01-01' + g % 80 * interval '1 hour' end,
		timestamptz '2020-01-01 00:00+00' + g % 33 * interval '1 day', (g % 25)::text::money, (array['0', '-0', 'NaN', '1.5', 'inf'])[g % 5 + 1]::float4,
		(case when g % 4 = 0 then '-0' when g % 4 = 1 then '0' when g % 4 = 2 then 'NaN' else (g % 9)::text end)::float8,
		(case g % 6 when 0 then '1' when 1 then '1.0' when 2 then '1.00' when 3 then 'NaN' when 4 then null else (g % 40)::text end)::numeric, case when g % 5 > 0 then (g % 300) / 100.0 end,
		case when g % 9 > 0 then 'text ' || g % 123 end, case when g % 8 > 0 then repeat('v', g % 20) end, chr(65 + g % 4), 'pad' || g % 50 || repeat(' ', g % 3),
		'name' || g % 44, decode(lpad(to_hex(g % 77), 4, '0'), 'hex'), md5((g % 66)::text)::uuid, g % 24 * interval '1 hour', (array['sad', 'ok', 'happy', null])[g % 4 + 1]::grp_mood,
		case when g % 3 > 0 then jsonb_build_object('a', g % 10) end, case when g % 10 > 0 then array[g % 5, g % 3] end, ('10.0.0.' || g % 99)::inet, (g % 32)::bit(5),
		case when g % 4 > 0 then row(g % 5, 'x')::grp_pair end, g
	from generate_series(1, 6000) g;
alter table grp drop column dropped;
alter table grp add column later int default 5;
insert into grp (id, later) values (6001, 6), (6002, null);
vacuum analyze grp;

-- Shape.
set hjoin_gpu.force = on;
explain (costs off) select c1, count(*) from grp group by c1;
explain (verbose, costs off) select c1, i2 + 1, sum(i4 * 2), avg(length(te)) from grp where id < 100 group by c1, i2 + 1 having count(*) > 2 order by c1;
select hjg_analyze('select count(*), sum(i4) from grp');
reset hjoin_gpu.force;

-- Each type as a key, its NULLs a group.  Of values that are equal and look different one is as good as another.
select k, s.* from unnest(array['bo', 'ch', 'i2', 'i4', 'i8', 'oi', 'da', 'ti', 'ts', 'tz', 'mo', 'f4', 'f8', 'nu', 'ns', 'te', 'vc', 'c1', 'c9', 'na', 'by', 'uu', 'iv', 'en', 'js', 'ar', 'ip', 'bi', 'pa', 'later']) k,
	grp_same(format('select %s, count(*), sum(id), count(te), min(i4), max(i8), avg(i2) from grp group by %I',
		case when k in ('f4', 'f8', 'nu') then k || ' + 0 is null' else k end, k)) s;
-- several
select * from grp_same('select i2, c1, te, count(*), sum(i8) from grp group by i2, c1, te');
select * from grp_same('select bo, c9, uu, en, count(*) from grp group by 1, 2, 3, 4');
select * from grp_same('select c9, vc, min(id), max(id) from grp group by c9, vc');
select * from grp_same('select id, i4, count(*), sum(i4) from grp group by id, i4');
-- constant ones, which core takes out of GROUP BY
select * from grp_same('select i2, count(*), sum(i4) from grp where i2 = 3 group by i2');
select * from grp_same('select i2, count(*) from grp where i2 = 1000 group by i2');
select * from grp_same('select i2, te, c1, count(*) from grp where i2 = 3 and te = ''text 43'' group by i2, c1, te');
select * from grp_same('select a.c1, a.i2 + 1, count(*), sum(b.i4) from grp a join grp b using (id) where a.c1 = ''D'' and a.i2 = 3 group by a.c1, a.i2 + 1');
-- none at all, but for the rows
select * from grp_same('select i2, c1 from grp group by i2, c1');
select * from grp_same('select count(*), count(i2), sum(i2), avg(i8), min(tz), max(mo), bool_and(bo), bool_or(bo) from grp');
select * from grp_same('select count(*), count(i2), sum(i2), avg(i8), min(tz) from grp where id < 0');
select * from grp_same('select c1, count(*), sum(i2) from grp where id < 0 group by c1');
-- expressions, as keys and as arguments, and what keys determine
select * from grp_same('select extract(year from da), date_trunc(''month'', ts), count(*), sum(case when i2 > 3 then 1 else 0 end) from grp group by 1, 2');
select * from grp_same('select substring(te from 1 for 6), count(*), sum(length(vc)), count(nullif(i2, 3)), max(i4 / 7) from grp group by 1');
select * from grp_same('select i2 % 5 + 1, coalesce(te, vc, ''-''), count(*) from grp group by i2 % 5, coalesce(te, vc, ''-'')');
select * from grp_same('select 5 as five, count(*) from grp group by 5 + 0 * length(te), 1');
create table grp_key as select * from grp where id <= 6000;
alter table grp_key add primary key (id);
vacuum analyze grp_key;
select * from grp_same('select id, te, i4 + 1, count(*), sum(i2) from grp_key group by id');
-- numerics: of one scale, of several, NaN and infinities, computed by core
select * from grp_same('select c1, sum(ns), avg(ns), sum(ns * 2), avg(-ns + i2), count(ns) from grp group by c1');
select * from grp_same('select te, sum(nu), avg(nu), sum(nu * ns) from grp group by te');
select * from grp_same('select i2, sum(case when bo then ns else 0 end), avg(abs(nu)), sum(ns / 3), sum(nu) filter (where nu < 30) from grp group by i2');
select * from grp_same('select sum(ns), avg(nu), sum(case when bo then ns end), sum(ns) filter (where i2 > 3) from grp');
select * from grp_same('select c1, sum(1.5), avg(i2::numeric), sum(10 ^ (id % 40)::numeric), sum(case id % 500 when 0 then ''Infinity'' when 1 then ''-Infinity'' else ns end) from grp group by c1, te');
select * from grp_same('select c1, (select max(k.id) from grp_key k where k.c1 = grp.c1), count(*), (select 7) + max(i4) from grp group by c1 having count(*) > (select min(id) from grp_key)');
-- sums that 128 bits hold at the scale of the first values only
create table grp_beyond as select g % 5 as k, case when g > 2000 then 0.000000000000000001 * g else 9e18 - g end as n from generate_series(1, 3000) g;
vacuum analyze grp_beyond;
select * from grp_same('select k, sum(n), avg(n), sum(n) filter (where n < 1), sum(-n) from grp_beyond group by k');
select * from grp_same('select sum(n), avg(n), sum(n) filter (where n > 1) from grp_beyond');
-- conditions, HAVING and FILTER
select * from grp_same('select c1, count(*) filter (where i2 > 0), count(i4) filter (where bo), sum(i8) filter (where te like ''%1%''), max(da) filter (where null), count(*) from grp group by c1');
select * from grp_same('select count(*) filter (where i2 > 0), avg(i4) filter (where id % 3 = 0), bool_or(bo) filter (where bo is not null) from grp');
select * from grp_same('select c1, count(*) from grp where i4 > 0 and te like ''%1%'' group by c1');
select * from grp_same('select c1, te, count(*) from grp where length(te) > 6 group by c1, te having count(*) > 3 and sum(i2) is not null');
select * from grp_same('select te from grp group by te having avg(i8) > 0 order by te limit 7');
-- joins below, of all kinds
select kind, s.* from unnest(array['join', 'left join', 'right join', 'full join']) kind,
	grp_same(format('select l.c1, r.te, count(*), sum(l.i2 + r.i4), count(r.id), min(r.da) from grp l %s grp_key r on l.i4 = r.i4 and l.i2 = r.i2 group by l.c1, r.te', kind)) s;
select kind, s.* from unnest(array['', 'not']) kind,
	grp_same(format('select l.c1, l.te, count(*), sum(l.i2) from grp l where %s exists (select 1 from grp_key r where l.i8 = r.i8 and r.id < 400) group by l.c1, l.te', kind)) s;
select * from grp_same('select a.c1, b.en, c.bo, count(*), sum(a.i2 + b.i2 + c.i2) from grp a join grp_key b using (id) join grp_key c using (id) group by 1, 2, 3');
select * from grp_same('select l.te, count(*) from grp l join grp_key r on l.te = r.te and l.id < r.id group by l.te');
-- of subqueries, and in them
select * from grp_same('select n, count(*) from (select i2, count(*) as n from grp group by i2) q group by n');
select * from grp_same('select l.id, q.n, q.s from grp_key l join (select i4, count(*) as n, sum(i2) as s from grp group by i4) q on q.i4 = l.i4 where l.id < 300');
select * from grp_same('select id, (select count(*) from grp g where g.i2 = k.i2 and g.i4 > k.i4) from grp_key k where id <= 30');
select * from grp_same('select id, n from grp_key k, lateral (select c1, count(*) as n, sum(i2 + k.id) from grp g where g.i2 = k.i2 group by c1) q where id <= 30');
select * from grp_same('select id from grp_key where i4 in (select i4 from grp group by i4 having count(*) > 13)');
select * from grp_same('with g as materialized (select te, count(*) as n from grp group by te) select * from g a join g b using (n)');
select * from grp_same('select i2, count(*), rank() over (order by count(*), i2) from grp group by i2');
select * from grp_same('select i2, count(*) from grp group by i2 union all select i4, count(*) from grp group by i4');
-- what it leaves to core
create function grp_volatile(int) returns int language plpgsql volatile as 'begin return $1; end';
select a, s.in_node, s.equal from unnest(array['string_agg(te, '','' order by id)', 'sum(f8)', 'min(te)', 'array_agg(id order by id)', 'bit_or(i4)', 'sum(i4) + (random() * 0)::int', 'sum(i4 + (random() * 0)::int)', 'count((select 1))']) a,
	grp_same(format('select c1, %s from grp group by c1', a)) s;
select q, s.in_node, s.equal from unnest(array['select c1, i2, count(*) from grp group by rollup (c1, i2)', 'select distinct c1 from grp', 'select count(*) from grp group by (random() * 0)::int',
	'select ctid, count(*) from grp group by ctid', 'select tableoid, count(*) from grp group by tableoid', 'select grp, count(*) from grp group by grp', 'select count(grp) from grp',
	'select c1, grouping(c1), count(*) from grp group by c1', 'select (select grouping(c1)), count(distinct i2) from grp group by c1']) q, grp_same(q) s;
set enable_hashagg = off;
select * from grp_same('select c1, count(*) from grp group by c1');
reset enable_hashagg;
-- and why
set client_min_messages = notice;
set hjoin_gpu.explain_declined = on;
explain (costs off) select c1, string_agg(te, ',' order by c1) from grp group by c1;
explain (costs off) select c1, bit_or(i4) from grp group by c1;
explain (costs off) select mo, count(*) from grp group by mo;
explain (costs off) select count(*) from grp group by grp_volatile(i2);
explain (costs off) select tableoid, count(*) from grp group by tableoid;
explain (costs off) select c1, grouping(c1) from grp group by c1;
set hjoin_gpu.kept_columns = off;
explain (costs off) select id, count(*) from grp where id < 3 group by id;
reset hjoin_gpu.kept_columns;
set hjoin_gpu.programs = off;
explain (costs off) select x, count(*) from generate_series(1, 10) x group by x;
reset hjoin_gpu.programs;
explain (costs off) select count(*) from generate_series(1, 10) x;
reset hjoin_gpu.explain_declined;
set client_min_messages = warning;
create table grp_parts (k int, v int) partition by list (k);
create table grp_part1 partition of grp_parts for values in (1, 2);
create table grp_part2 partition of grp_parts for values in (3, null);
insert into grp_parts select nullif(g % 4, 0), g from generate_series(1, 1000) g;
analyze grp_parts;
select * from grp_same('select k, count(*), sum(v) from grp_parts group by k');
create view grp_view with (security_barrier) as select * from grp where i2 > 0;
select * from grp_same('select c1, count(*), sum(i4) from grp_view where te like ''%1%'' group by c1');
select * from grp_same('select c1, count(*) from grp tablesample system (50) repeatable (3) group by c1');

-- Values that do not lie in the row: as keys, as arguments, as what keys determine.
create table grp_long (id int primary key, short text, long text, packed text);
alter table grp_long alter column long set storage external;
insert into grp_long select g, 'k' || g % 7, (select string_agg(md5((g % 5 + i)::text), '') from generate_series(1, 200) i), repeat('abc' || g % 6, 3000) from generate_series(1, 400) g;
vacuum analyze grp_long;
select * from grp_same('select long, count(*), sum(id) from grp_long group by long');
select * from grp_same('select packed, short, count(long), min(id) from grp_long group by packed, short');
select * from grp_same('select id, long, packed, count(*) from grp_long group by id');
select * from grp_same('select md5(long), length(packed), count(*), sum(length(long)) from grp_long group by 1, 2');
select * from grp_same('select l.packed, r.short, count(*) from grp_long l join grp_long r on l.long = r.long group by l.packed, r.short');
-- values of a megabyte that core computes of them: not many at a time
create table grp_huge as select g as id, repeat('h' || g % 9, 500000) as t from generate_series(1, 300) g;
vacuum analyze grp_huge;
create function grp_computed(query text) returns text language plpgsql set hjoin_gpu.force = on as $$
declare
	bytes bigint;
begin
	execute query into bytes;
	return case when bytes < 16 * 1048576 then 'bounded' else pg_size_pretty(bytes) end;
end $$;
-- the contexts of the node while it reads, as a key sees them
create function grp_bytes(text) returns bigint language sql immutable as $$ select sum(total_bytes)::bigint from pg_backend_memory_contexts where name like 'GpuAggregate%' or name like 'ExprContext%' $$;
select grp_computed('select max(b) from (select upper(t) as k, max(grp_bytes(t)) as b from grp_huge group by upper(t)) q');
-- more groups than memory: they go to files, or come out in pieces
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select hjg_figure('select id, te, count(*) from grp group by id, te', 'Full Tables') > 0 as full_tables;
select hjg_figure('select g.id * 100 + h.id, count(*) from grp_key g join grp_key h using (i2) where h.id < 200 group by 1', 'Full Tables') > 0 as full_tables;
select * from grp_same('select id, te, count(*), sum(i8), avg(i4) from grp group by id, te');
select * from grp_same('select (g.id * 100 + h.id) % 7000, count(*), sum(h.i8), sum(g.nu), avg(g.ns), max(g.da), avg(h.i4) from grp_key g join grp_key h using (i2) where h.id < 200 group by 1 having count(*) <> 3');
select * from grp_same('select id % 3000, long, count(*) from grp_long group by 1, 2');
select * from grp_same('select id - id, count(*), sum(ns), sum(nu), min(da), count(te) from grp group by 1');
reset work_mem;
reset hash_mem_multiplier;

-- Errors are core's.
select * from hjg_outcome('select sum(i4 * 1000) from grp group by c1');
select * from hjg_outcome('select max(id / (id - 5)) from grp group by c1');
select * from hjg_outcome('select max(id / (id - 5)) from grp where id <> 5');
select * from hjg_outcome('select count(*) from grp group by 1 / (id - 7)');
select * from hjg_outcome('select sum(1 / (id - 7)) filter (where id <> 7) from grp');
select * from hjg_outcome('select count(*) filter (where 1 / (id - 7) > 0) from grp');
select * from hjg_outcome('select sum(case when i2 <> 7 then i4 / (i2 - 7) end) from grp');
select * from hjg_outcome('select sum(1 / (l.id - 7)) from grp l join grp_key r on l.id = r.id + 7');
select * from hjg_outcome('select max(da + id * 357790) from grp');
select * from hjg_outcome('select count(*) from (select da - id * 10000 from grp group by 1) q');
select * from hjg_outcome('select count(*) from (select make_date(i2, 1, 1) from grp where i2 > 0 group by 1) q');
select * from hjg_outcome('select count(*) from (select te like ''text 4\'' from grp group by 1) q');
create role grp_user;
create function grp_secret(int) returns int language plpgsql immutable as 'begin return $1; end';
revoke execute on function grp_secret(int) from public;
grant select on grp to grp_user;
set role grp_user;
select * from hjg_outcome('select count(*) from grp group by grp_secret(i2)');
select * from hjg_outcome('select sum(grp_secret(i2)) from grp');
reset role;
select * from grp_same('select grp_volatile(i2), count(*) from grp group by grp_volatile(i2)');
alter table grp enable row level security;
create policy grp_policy on grp to grp_user using (i2 > 10);
set role grp_user;
select * from hjg_outcome('select count(*) from grp');
select * from hjg_outcome('select array_agg(n order by c1) from (select c1, count(*) as n from grp group by c1) q');
reset role;
alter table grp disable row level security;
drop owned by grp_user;
drop role grp_user;

-- Again and again: parameters, cursors, plans that are kept.
set hjoin_gpu.force = on;
set hjoin_gpu.programs = off;
prepare grp_plan(int, int) as select c1, count(*), sum(i2 + $1) from grp where i2 < $2 group by c1 order by c1;
set plan_cache_mode = force_generic_plan;
explain (costs off) execute grp_plan(1, 5);
execute grp_plan(1, 5);
execute grp_plan(-3, 0);
execute grp_plan(null, 0);
reset hjoin_gpu.programs;
-- rows come through slots: a condition of no row stands above the scan
prepare grp_gated(int) as select c1, te, count(*) as n, sum(i2) as s2, sum(ns) as ss, max(da) as md from grp where $1 > 5 group by c1, te;
explain (costs off) execute grp_gated(6);
create temp table grp_slots as execute grp_gated(6);
select count(*), md5(string_agg(s::text, ',' order by s::text collate "C")) = (select md5(string_agg(q::text, ',' order by q::text collate "C")) from (select c1, te, count(*), sum(i2), sum(ns), max(da) from grp group by c1, te) q) as equal from grp_slots s;
execute grp_gated(5);
set hjoin_gpu.direct_scan = off;
select * from grp_same('select l.c1, l.te, count(*), sum(r.ns), max(r.nu) from grp l join grp_key r using (id) group by l.c1, l.te');
select * from grp_same('select count(*), sum(r.ns) from grp l join grp_key r using (id)');
reset hjoin_gpu.direct_scan;
set hjoin_gpu.force = on;
reset plan_cache_mode;
begin;
declare grp_cursor scroll cursor for select i2, count(*) from grp group by i2 order by i2;
fetch 2 from grp_cursor;
fetch backward 1 from grp_cursor;
fetch absolute 90 from grp_cursor;
rollback;
select s, q.n from generate_series(1, 4) s, lateral (select sum(i2 + s) as n from grp where id <= s * 10 group by bo order by 1 limit 1) q;
reset hjoin_gpu.force;
-- rows of a table that is written to: the transaction's own are seen, its command's are not
begin;
insert into grp (id, c1) select id + 10000, 'Z' from grp where id <= 50;
select * from grp_same('select c1, count(*) from grp group by c1');
update grp set c1 = 'Y' where id % 2 = 0;
delete from grp where id % 3 = 0;
select * from grp_same('select c1, count(*), sum(id) from grp group by c1');
insert into grp_key (id, i4) select -min(id) - 100000, count(*) from grp group by i2;
rollback;

-- SELECT DISTINCT: columns, expressions, NULLs, of joins and subqueries, with ORDER BY and LIMIT; not with ON, nor of aggregates or window functions
set hjoin_gpu.force = on;
explain (costs off) select distinct i2, te from grp;
explain (costs off) select distinct i4 + 1 from grp order by 1 limit 3;
explain (costs off) select distinct on (i2) i2, id from grp order by i2, id;
reset hjoin_gpu.force;
select * from grp_same('select distinct sum(i4) over (partition by i2) from grp');
select * from grp_same('select distinct i2 from grp');
select * from grp_same('select distinct bo, ch, i2, i4, i8, oi, da, ti, ts, tz from grp');
select * from grp_same('select distinct te, vc, c1, c9, na, by, uu, en from grp where id % 3 = 0');
select * from grp_same('select distinct i4 + 1 as x, upper(te) as y, 7 as seven from grp');
select * from grp_same('select distinct i2, ch from grp where i2 = 5');
select * from grp_same('select distinct i4 from grp where false');
select * from grp_same('select * from (select distinct i2, da from grp order by da desc nulls last, i2 limit 20) q');
select * from grp_same('select distinct l.c1, r.en from grp l join grp_key r using (id)');
select * from grp_same('select distinct q.n from (select i2, count(*) as n from grp group by i2) q');
select * from grp_same('select id, (select count(*) from (select distinct i2 from grp g where g.i4 > k.i4) q) from grp_key k where id <= 20');
select * from grp_same('select distinct i2, random() < 2 as yes from grp');

-- Several processes.
call hjg_parallel();
set hjoin_gpu.force = on;
-- the table may be kept by now
set hjoin_gpu.programs = off;
explain (costs off) select c1, count(*) from grp group by c1;
explain (costs off) select l.c1, count(*) from grp l join grp_key r using (id) group by l.c1;
reset hjoin_gpu.programs;
reset hjoin_gpu.force;
select * from grp_same('select c1, te, count(*), sum(i2), avg(i8), min(da), max(tz) from grp group by c1, te');
select * from grp_same('select count(*), sum(i2), avg(i8), min(da), max(tz) from grp');
select * from grp_same('select id, count(*) from grp group by id');
select * from grp_same('select l.c1, r.en, count(*), sum(l.i4), avg(r.i8) from grp l join grp_key r using (id) group by l.c1, r.en');
select * from grp_same('select id, (select count(*) from (select i2, count(*) from grp g where g.i4 > k.i4 group by i2) q) from grp_key k where id <= 20');
select * from grp_same('select distinct c1, te from grp');
select * from grp_same('select distinct id, te from grp order by id desc, te limit 30');
set parallel_leader_participation = off;
select * from grp_same('select c1, te, count(*), sum(i2), avg(i8) from grp group by c1, te');
set work_mem = '64kB';
select * from grp_same('select id, te, count(*) from grp group by id, te');
