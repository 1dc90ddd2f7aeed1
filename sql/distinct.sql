-- Aggregates of DISTINCT values: groups of rows that were made distinct; core's answers.
set hjoin_gpu.aggregate = on;
set hjoin_gpu.programs = off;

-- As hjg_same_groups, and: are rows made distinct by the node?
create function dis_same(query text, out rows bigint, out equal bool, out in_node bool, out shared bool) language sql as
	$$ select s.rows, s.equal, hjg_lines(query, '(GpuAggregate)') > 1, s.shared from hjg_same_groups(query) s $$;

create type dis_mood as enum ('sad', 'ok', 'happy');
create type dis_pair as (a int, b text);
create table dis (id int primary key, k int, c1 char(1), bo bool, ch "char", i2 int2, i4 int4, i8 int8, oi oid, da date, ti time, ts timestamp, tz timestamptz, mo money, f4 float4, f8 float8,
	nu numeric, ns numeric(12, 2), te text, vc varchar(20), c9 char(9), na name, by bytea, uu uuid, iv interval, en dis_mood, js jsonb, ar int[], ip inet, bi bit(5), pa dis_pair);
insert into dis
	select g, case when g % 11 > 0 then g % 40 end, chr(65 + g % 4), case when g % 7 > 0 then g % 2 = 0 end, case when g % 5 > 0 then chr(64 + g % 20)::"char" end, case when g % 11 > 0 then g % 90 - 40 end,
		case when g % 13 > 0 then (g % 400) * 1000003 - 200000000 end, case when g % 17 > 0 then (g % 500)::int8 << 50 end, case when g % 3 > 0 then g % 30 end,
		date '2020-01-01' + g % 70, time '00:00' + g % 60 * interval '1 minute', case when g % 19 > 0 then timestamp '2020-01-01' + g % 80 * interval '1 hour' end,
		timestamptz '2020-01-01 00:00+00' + g % 33 * interval '1 day', (g % 25)::text::money, (array['0', '-0', 'NaN', '1.5', 'inf'])[g % 5 + 1]::float4,
		(case when g % 4 = 0 then '-0' when g % 4 = 1 then '0' when g % 4 = 2 then 'NaN' else (g % 9)::text end)::float8,
		(case g % 6 when 0 then '1' when 1 then '1.0' when 2 then '1.00' when 3 then 'NaN' when 4 then null else (g % 40)::text end)::numeric, case when g % 5 > 0 then (g % 300) / 100.0 end,
		case when g % 9 > 0 then 'text ' || g % 123 end, case when g % 8 > 0 then repeat('v', g % 20) end, 'pad' || g % 50 || repeat(' ', g % 3),
		'name' || g % 44, decode(lpad(to_hex(g % 77), 4, '0'), 'hex'), md5((g % 66)::text)::uuid, g % 24 * interval '1 hour', (array['sad', 'ok', 'happy', null])[g % 4 + 1]::dis_mood,
		case when g % 3 > 0 then jsonb_build_object('a', g % 10) end, case when g % 10 > 0 then array[g % 5, g % 3] end, ('10.0.0.' || g % 99)::inet, (g % 32)::bit(5),
		case when g % 4 > 0 then row(g % 5, 'x')::dis_pair end
	from generate_series(1, 5000) g;
vacuum analyze dis;

-- Shape.
set hjoin_gpu.force = on;
explain (verbose, costs off) select k, count(distinct i4) from dis group by k;
explain (verbose, costs off) select k % 5, count(distinct i2 + 1) filter (where bo), count(*), sum(i8), min(ns), count(distinct i2 + 1) filter (where bo) * 2 from dis group by k % 5 having count(distinct i2 + 1) filter (where bo) > 3 order by 2;
explain (verbose, costs off) select count(distinct l.i4), sum(r.i2) from dis l join dis r on l.id = r.oi;
reset hjoin_gpu.force;

-- Values of each type.
select x, s.* from unnest(array['bo', 'ch', 'i2', 'i4', 'i8', 'oi', 'da', 'ti', 'ts', 'tz', 'f4', 'f8', 'nu', 'ns', 'te', 'vc', 'c1', 'c9', 'na', 'by', 'uu', 'iv', 'en', 'js', 'ar', 'ip', 'pa', 'k']) x,
	dis_same(format('select k, count(distinct %I), count(*), count(%1$I) from dis group by k', x)) s;
select x, s.* from unnest(array['bo', 'i8', 'f8', 'nu', 'te', 'c9']) x, dis_same(format('select count(distinct %I), sum(i4), max(id) from dis', x)) s;
-- every aggregate of them
select * from dis_same('select k, count(distinct i2), sum(distinct i2), avg(distinct i2), min(distinct i2), max(distinct i2) from dis group by k');
select * from dis_same('select k, c1, sum(distinct i4), avg(distinct i4), max(distinct i4), count(*) from dis group by k, c1');
select * from dis_same('select k, sum(distinct i8), avg(distinct i8), min(distinct i8), sum(i8), sum(i2) from dis group by k');
select * from dis_same('select sum(distinct i8), avg(distinct i8), count(distinct i8), sum(i8), sum(i2), count(*) from dis');
select x, s.* from unnest(array['da', 'ti', 'ts', 'tz']) x, dis_same(format('select c1, min(distinct %I), max(distinct %1$I), count(distinct %1$I) from dis group by c1', x)) s;
select * from dis_same('select k, bool_and(distinct bo), every(distinct bo), bool_or(distinct bo) from dis group by k');
-- plain ones beside them, of all kinds
select * from dis_same('select k, count(distinct i4), count(*), count(te), sum(i2), sum(i4), sum(i8), sum(ns), sum(nu), min(i8), max(ns), bool_and(bo), bool_or(bo), min(da), max(tz), sum(i2 * i4::int8) from dis group by k');
select * from dis_same('select count(distinct i4), count(*), count(te), sum(i2), sum(i4), sum(i8), sum(ns), sum(nu), min(i8), max(ns), bool_and(bo), bool_or(bo), min(da), max(tz) from dis');
select * from dis_same('select k, count(distinct i4) filter (where bo), count(*) filter (where i2 > 0), sum(ns) filter (where te like ''%1%''), max(da) filter (where null) from dis group by k');
select * from dis_same('select count(distinct te) filter (where i2 > 1000), count(distinct te) filter (where i2 > 1000) + 1, sum(i2) filter (where id < 0), count(*) filter (where bo) from dis');
-- expressions, keys that determine other columns, values that are keys, constants and parameters
select * from dis_same('select extract(year from da), upper(te), count(distinct length(te) + i2), count(distinct length(te) + i2) + max(id) from dis group by 1, 2');
select * from dis_same('select id, te, i4 + 1, count(distinct c9), sum(i2) from dis group by id');
select * from dis_same('select k, count(distinct k), sum(distinct k) from dis group by k');
select * from dis_same('select k + 1, count(distinct k + 1), sum(distinct k + 1) from dis group by k + 1');
select * from dis_same('select count(distinct i2) from dis group by k, c1, k % 3');
select * from dis_same('select k, count(distinct 5), sum(distinct 5), count(*) from dis group by k');
select * from dis_same('select count(distinct null::int), count(*) from dis');
select * from dis_same('select 5 as five, count(distinct i2) from dis group by 5 + 0 * length(te), 1');
select * from dis_same('select k, count(distinct i4) from dis where k = 3 group by k');
-- no rows, and no groups
select * from dis_same('select count(distinct i4), sum(distinct i4), count(*), sum(i2), min(i8), count(te) from dis where id < 0');
select * from dis_same('select k, count(distinct i4), count(*) from dis where id < 0 group by k');
select * from dis_same('select count(distinct i4), count(*) from dis where id < 0 having count(*) > 0');
select * from dis_same('select k, count(distinct i4) from dis group by k having count(distinct i4) > 30 and sum(i2) is not null order by 2 desc, 1 limit 5');
select * from dis_same('select k from dis group by k having count(distinct i4) > 30');
select * from dis_same('select k, count(distinct i4), rank() over (order by count(distinct i4), k) from dis group by k');
select * from dis_same('select distinct count(distinct i2) from dis group by k');
-- joins below
select kind, s.* from unnest(array['join', 'left join', 'full join']) kind,
	dis_same(format('select l.c1, r.k, count(distinct l.i4), sum(r.i2), count(*) from dis l %s (select * from dis where id %% 3 = 0) r on l.i4 = r.i4 and l.i2 = r.i2 group by l.c1, r.k', kind)) s;
select * from dis_same('select l.k, count(distinct coalesce(r.te, l.te)) from dis l left join (select * from dis where id % 3 = 0) r on l.id = r.id group by l.k');
select * from dis_same('select count(distinct l.te) from dis l where not exists (select 1 from dis r where l.i8 = r.i8 and r.id < 400)');
-- in subqueries, and of them
select * from dis_same('select n, count(*) from (select k, count(distinct i4) as n from dis group by k) q group by n');
select * from dis_same('select q.n, count(distinct q.s) from (select k, count(*) as n, sum(i2) as s from dis group by k) q group by q.n');
select * from dis_same('select id, (select count(distinct i2 + o.k) from dis d where d.k = o.k and d.i4 > o.i4) from dis o where id <= 30');
select * from dis_same('select id, n from dis o, lateral (select c1, count(distinct i4) as n, sum(i2 + o.k) from dis d where d.k = o.k group by c1) q where id <= 30');
select * from dis_same('with q as materialized (select k, count(distinct i4) as n from dis group by k) select * from q a join q b using (n)');
select * from dis_same('select k, count(distinct i4) from dis group by k union all select i2, count(distinct te) from dis group by i2');
-- what it leaves to core
select a, s.in_node, s.equal from unnest(array['count(distinct i4), count(distinct i2)', 'count(distinct i4), count(distinct i4) filter (where bo)', 'count(distinct i4), avg(i2)', 'sum(distinct ns)', 'max(distinct nu)',
	'string_agg(distinct te, '','')', 'count(distinct i4), sum(i8 order by i8)', 'count(distinct i4), bit_or(i2)', 'count(distinct (i4, i2))', 'count(distinct i4 + (random() * 0)::int)', 'count(distinct dis)', 'count(distinct mo)', 'count(distinct bi)']) a,
	dis_same(format('select k, %s from dis group by k', a)) s;
select * from dis_same('select k, count(distinct te collate hjg_loose) from dis group by k');
select * from dis_same('select count(*), sum(id), count(distinct i4) from (select id, i4, case when id % 2 = 0 then upper(te) else te end collate hjg_loose as te from dis) q group by te');
select * from dis_same('select count(*) from (select distinct case when id % 2 = 0 then upper(te) else te end collate hjg_loose from dis) q');
select * from dis_same('select l.id, r.id as rid from dis l join dis r on l.te collate hjg_loose = upper(r.te) where l.id < 50');
select * from dis_same('select k, c1, count(distinct i4) from dis group by rollup (k, c1)');
set enable_hashagg = off;
select * from dis_same('select k, count(distinct i4) from dis group by k');
select * from dis_same('select count(distinct i4) from dis');
reset enable_hashagg;
-- and why
create function dis_declined(query text) returns void language plpgsql as 'begin execute ''explain '' || query; end';
set client_min_messages = notice;
set hjoin_gpu.explain_declined = on;
select dis_declined('select count(distinct i4), count(distinct i2) from dis');
select dis_declined('select count(distinct i4), avg(i2) from dis');
select dis_declined('select sum(distinct ns) from dis');
select dis_declined('select count(distinct (i4, i2)) from dis');
set enable_hashagg = off;
select dis_declined('select count(distinct i4) from dis');
reset enable_hashagg;
reset hjoin_gpu.explain_declined;
set client_min_messages = warning;

-- Values that do not lie in the row.
create table dis_long (id int, long text, packed text);
alter table dis_long alter column long set storage external;
insert into dis_long select g, (select string_agg(md5((g % 50 + i)::text), '') from generate_series(1, 100) i), repeat('abc' || g % 60, 3000) from generate_series(1, 400) g;
vacuum analyze dis_long;
select * from dis_same('select id % 7, count(distinct long), count(packed) from dis_long group by 1');
select * from dis_same('select packed, count(distinct long) from dis_long group by packed');
select * from dis_same('select count(distinct packed) from dis_long');

-- Larger than memory: rows that are distinct, groups of them, or both.
create table dis_many as select g as id, g % 3 as few, g % 20011 as many, (g * 7919) % 30011 as x, 'text ' || (g * 31) % 25013 as te, case when g % 10 > 0 then 7 else g end as skew from generate_series(1, 60000) g;
vacuum analyze dis_many;
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select k, s.*, hjg_figure(format('select %s, count(distinct x) from dis_many group by 1', k), 'Full Tables') > 0 as full_tables from unnest(array['few', 'many', 'skew', 'te']) k,
	dis_same(format('select %s, count(distinct x), count(*), sum(id) from dis_many group by 1', k)) s;
select * from dis_same('select count(distinct x), sum(distinct x), avg(distinct x), count(*) from dis_many');
select * from dis_same('select count(distinct te), max(id) from dis_many');
select * from dis_same('select id - id, count(distinct x), count(*) from dis_many group by 1');
select * from dis_same('select id, count(distinct te) from dis_many group by id having count(distinct te) = 1');
reset work_mem;
reset hash_mem_multiplier;

-- Errors are core's.
select * from hjg_outcome('select count(distinct 1 / (id - 7)) from dis');
-- early minors of 16 sort by the argument before they filter
select of_ours from hjg_outcome('select count(distinct 1 / (id - 7)) filter (where id <> 7) from dis');
select * from hjg_outcome('select count(distinct i4), sum(i4 * 1000) from dis group by k');
select * from hjg_outcome('select 1 / (count(distinct i2) - count(distinct i2)) from dis');

-- Again and again: parameters, cursors.
set hjoin_gpu.force = on;
prepare dis_plan(int, int) as select c1, count(distinct i2 + $1), sum(distinct i2 + $1), sum(i4) from dis where i2 < $2 group by c1 order by c1;
set plan_cache_mode = force_generic_plan;
explain (costs off) execute dis_plan(1, 5);
execute dis_plan(1, 5);
execute dis_plan(-3, -20);
execute dis_plan(null, -20);
reset plan_cache_mode;
begin;
declare dis_cursor scroll cursor for select k, count(distinct i4) from dis group by k order by k;
fetch 2 from dis_cursor;
fetch backward 1 from dis_cursor;
fetch absolute 20 from dis_cursor;
rollback;
reset hjoin_gpu.force;

-- Several processes: each counts what it has made distinct, or they exchange the groups where what they divide among them is dear.
call hjg_parallel();
set hjoin_gpu.force = on;
explain (verbose, costs off) select few, count(distinct x), count(*) from dis_many group by few;
set parallel_tuple_cost = 1;
set cpu_tuple_cost = 5;
explain (verbose, costs off) select many, count(distinct x), count(*) from dis_many group by many having count(distinct x) > 2;
reset hjoin_gpu.force;
select k, s.* from unnest(array['few', 'many', 'skew', 'te', 'id']) k,
	dis_same(format('select %s, count(distinct x), sum(distinct x), count(*), count(te) as texts, sum(id) from dis_many group by 1', k)) s;
select * from dis_same('select count(distinct x), sum(distinct x), count(*), sum(id), min(id) from dis_many');
set hjoin_gpu.kept_columns = off;
select * from dis_same('select count(distinct te), count(*) from dis_many where id < 0');
reset hjoin_gpu.kept_columns;
select * from dis_same('select few, count(distinct x), sum(distinct x), avg(distinct x) from dis_many group by few having count(distinct x) > 5');
select * from dis_same('select many % 2, count(distinct x) filter (where id % 5 < 3), max(id) from dis_many group by 1');
select * from dis_same('select few, count(distinct m.te), sum(ns), min(ns), max(ns), bool_or(bo), max(da), sum(i8) from dis_many m join dis d on m.many = d.id group by few');
select * from dis_same('select n, count(*) from (select many, count(distinct x) as n from dis_many group by many) q group by n');
select * from dis_same('select id, (select count(distinct x) from dis_many m where m.few = d.id % 3 and m.x > d.i2) from dis d where id <= 5');
set work_mem = '64kB';
select k, s.* from unnest(array['few', 'many', 'skew', 'te']) k, dis_same(format('select %s, count(distinct x), count(*) from dis_many group by 1', k)) s;
select * from dis_same('select count(distinct x), sum(id) from dis_many');
reset work_mem;
set parallel_leader_participation = off;
select * from dis_same('select few, count(distinct x), count(*) from dis_many group by few');
set max_parallel_workers = 0;
select * from dis_same('select few, count(distinct x), count(*) from dis_many group by few');
