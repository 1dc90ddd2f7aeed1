-- A join's Bloom filter is tested by the scan that the keys come from: which scan that is, that rows are dropped there, and that
-- none is missed.
set client_min_messages = warning;
set hjoin_gpu.force = on;
set hjoin_gpu.bloom_filter = on;
set max_parallel_workers_per_gather = 0;
set join_collapse_limit = 1;
set from_collapse_limit = 1;

-- for each join that has a filter, from the top: the scan, and whether it dropped rows; 'none': the join tests rows itself
create function hjg_scans(query text) returns text language sql as $$
	select string_agg((x->>'Bloom Filter Scan') || case when (x->>'Rows Removed by Bloom Filter')::float8 > 0 then ' drops' else '' end || case when (x->>'Bloom Filter Given Up')::bool then ' given up' else '' end, ', ')
	from jsonb_path_query(hjg_explained('analyze, costs off, timing off', query), 'strict $.** ? (@."Bloom Filter" == true)') x $$;
-- rows that the scan of a table returned, of all loops
create function hjg_scanned(query text, alias text) returns bigint language sql as $$
	select sum((x->>'Actual Rows')::float8 * (x->>'Actual Loops')::int)::bigint
	from jsonb_path_query(hjg_explained('analyze, costs off, timing off', query), 'strict $.** ? (exists (@."Relation Name"))') x where x->>'Alias' = alias $$;
-- rows that its conditions removed
create function hjg_removed(query text, alias text) returns bigint language sql as $$
	select (x->>'Rows Removed by Filter')::float8::bigint
	from jsonb_path_query(hjg_explained('analyze, costs off, timing off', query), 'strict $.** ? (exists (@."Relation Name"))') x where x->>'Alias' = alias $$;

create table tf_fact (id int, a int, b int8, o int, t text, v int, late int);
insert into tf_fact select g, case when g % 23 > 0 then g * 7919::int8 % 10007 % 1000 end, g * 104729::int8 % 10009 % 500, case when g % 29 > 0 then g * 13 % 2000 end, repeat('t', g % 9), g % 100, g % 10
	from generate_series(1, 20000) g;
-- a tenth of the keys each
create table tf_a (k int, n text);
insert into tf_a select case when g % 17 > 0 then g * 10 end, 'a' || g from generate_series(0, 99) g;
create table tf_b (k int, n text);
insert into tf_b select g * 10, 'b' || g from generate_series(0, 49) g;
create table tf_order (id int8, c int, d int);
insert into tf_order select g, case when g % 7 > 0 then g * 3 % 400 end, g % 50 from generate_series(1, 2500) g;
create table tf_client (k int8, n text);
insert into tf_client select case when g % 11 > 0 then g * 8 end, 'c' || g from generate_series(0, 60) g;
create table tf_none (k int, n text);
create table tf_few (lo int);
insert into tf_few values (3), (5);
vacuum analyze tf_fact;
vacuum analyze tf_a;
vacuum analyze tf_b;
vacuum analyze tf_order;
vacuum analyze tf_client;
vacuum analyze tf_none;
vacuum analyze tf_few;

-- a star: all filters at the fact table, before its other columns are read
explain (verbose, costs off) select f.id, x.n, y.n from (tf_fact f join tf_a x on f.a = x.k) join tf_b y on f.b = y.k;
select hjg_scans('select f.id, f.t, x.n, y.n from (tf_fact f join tf_a x on f.a = x.k) join tf_b y on f.b = y.k');
select hjg_scanned('select f.id, f.t, x.n, y.n from (tf_fact f join tf_a x on f.a = x.k) join tf_b y on f.b = y.k', 'f') < 400 as few;
-- a snowflake: into the build side of the join below, and through that one's filter
select hjg_scans('select f.id, o.d, c.n from (tf_fact f join tf_order o on f.o = o.id) join tf_client c on o.c = c.k');
select hjg_scanned('select f.id, o.d, c.n from (tf_fact f join tf_order o on f.o = o.id) join tf_client c on o.c = c.k', 'o') < 400 as few;
-- below a nested loop of core's, to a scan of core's, with a condition and without one
select hjg_scans('select f.id, w.lo, x.n from (tf_fact f join tf_few w on f.v + f.late < w.lo) join tf_a x on f.a = x.k where f.id % 3 = 1');
select hjg_scanned('select f.id, w.lo, x.n from (tf_fact f join tf_few w on f.v + f.late < w.lo) join tf_a x on f.a = x.k where f.id % 3 = 1', 'f') < 900 as few;
select hjg_scans('select f.id, w.lo, x.n, y.n from ((tf_fact f join tf_b y on f.b = y.k) join tf_few w on f.v + y.k < w.lo) join tf_a x on f.a = x.k');
-- below a hash join of core's
explain (costs off) select f.id, x.n, y.n from (tf_fact f join (select k, n, row (k, n) as r from tf_b offset 0) y on f.b = y.k and y.r <> row (f.id, f.t)) join tf_a x on f.a = x.k where f.id > 0;
select hjg_scans('select f.id, x.n, y.n from (tf_fact f join (select k, n, row (k, n) as r from tf_b offset 0) y on f.b = y.k and y.r <> row (f.id, f.t)) join tf_a x on f.a = x.k where f.id > 0');
select * from hjg_same('select f.id, x.n, y.n as yn from (tf_fact f left join (select k, n, row (k, n) as r from tf_b offset 0) y on f.b = y.k and y.r <> row (f.id, f.t)) join tf_a x on f.a = x.k where f.id > 0');
-- to the rows of groups
set hjoin_gpu.aggregate = on;
set hjoin_gpu.programs = off;
select hjg_scans('select g.a, g.n, x.n from (select a, count(*) as n, sum(v) as s from tf_fact group by a) g join tf_a x on g.a = x.k');
select hjg_scanned('select g.a, g.n, x.n from (select a, count(*) as n, sum(v) as s from tf_fact group by a) g join tf_a x on g.a = x.k', 'tf_fact') < 2500 as few;
select hjg_scans('select g.a, g.n, x.n from (select a, count(*) as n, sum(v)::int as s from tf_fact group by a) g join tf_a x on g.s = x.k');
-- and to core's
select hjg_scans('select g.a, g.n, x.n from (select a, bit_or(v) as n, count(*) as s from tf_fact where id > 0 group by a) g join tf_a x on g.a = x.k');
select hjg_scanned('select g.a, g.n, x.n from (select a, bit_or(v) as n, count(*) as s from tf_fact where id > 0 group by a) g join tf_a x on g.a = x.k', 'tf_fact') < 2500 as few;
select hjg_scans('select g.v, x.n from (select a, b, min(v) as v from tf_fact group by grouping sets (a, b)) g join tf_a x on g.a = x.k');
select hjg_scans('select g.v, x.n from (select id % 200 as m, max(a) as a, bit_or(v) as v from tf_fact group by 1) g join tf_a x on g.a = x.k');
-- which the price says
set hjoin_gpu.force = off;
select hjg_price('select g.a, g.n, x.n from (select a, count(*) as n, sum(v) as s from tf_fact group by a) g join tf_a x on g.a = x.k') as with_filter \gset
set hjoin_gpu.bloom_filter = off;
select hjg_price('select g.a, g.n, x.n from (select a, count(*) as n, sum(v) as s from tf_fact group by a) g join tf_a x on g.a = x.k') as without \gset
select :with_filter < :without as less;
set hjoin_gpu.bloom_filter = on;
set hjoin_gpu.force = on;
-- nothing is read below before the filter is there, although a first row would be cheaper than the build rows
select hjg_scanned('select f.id, o.d, c.id as cid from (tf_fact f join tf_order o on f.o = o.id) join (select id, a from tf_fact where v = 7) c on o.c = c.a', 'o') < 1000 as few;
-- two keys of one scan; of two
create table tf_ab as select x.k as a, y.k as b from tf_a x, tf_b y where x.k > y.k;
analyze tf_ab;
select hjg_scans('select f.id, x.n from (tf_fact f join tf_b x on f.b = x.k) join tf_ab y on f.a = y.a and f.b = y.b');
select hjg_scans('select f.id, o.d from (tf_fact f join tf_order o on f.o = o.id) join tf_ab y on f.a = y.a and o.c = y.b');
-- what ends the way: rows that stand for others, and columns that are computed
select what, hjg_scans(format('select q.*, x.n from (%s) q join tf_a x on q.a = x.k', what)) from unnest(array[
	'select * from tf_fact offset 0', 'select * from tf_fact order by id limit 500', 'select distinct on (v) * from tf_fact order by v, id', 'select *, row_number() over (order by id) from tf_fact',
	'select id, a + 0 as a from tf_fact', 'select id, unnest(array[a, a + 1]) as a from tf_fact', 'select * from tf_fact union all select * from tf_fact',
	'select f.id, f.a from tf_fact f left join tf_b y on f.b = y.k offset 0']) what;
-- which joins send a filter
select upper, hjg_scans(format('select f.id, x.n from (tf_fact f join tf_b y on f.b = y.k) %s tf_a x on f.a = x.k', upper)) from unnest(array['join', 'left join', 'full join']) upper;
select hjg_scans('select f.id from (tf_fact f join tf_b y on f.b = y.k) where exists (select from tf_a x where f.a = x.k)');
select hjg_scans('select f.id from (tf_fact f join tf_b y on f.b = y.k) where not exists (select from tf_a x where f.a = x.k)');

-- the answers are core's: every kind of join above every kind, of either side's columns
create function hjg_travels(source text) returns table (lower text, upper text, rows bigint, equal bool, node bool) language sql as $$
	select l, u, s.* from unnest(array['join', 'left join', 'right join', 'full join', 'exists', 'not exists']) l, unnest(array['join', 'left join', 'right join', 'full join', 'exists', 'not exists']) u,
		lateral hjg_same(case when u ~ 'exists' then format('select q.id from (%s) q where %s (select from tf_client z where q.k = z.k)', replace(source, '%', case when l ~ 'exists' then 'where ' || l else l end), u)
			else format('select q.id, z.n from (%s) q %s tf_client z on q.k = z.k', replace(source, '%', case when l ~ 'exists' then 'where ' || l else l end), u) end) s
	where case when l ~ 'exists' then source ~ '\(select' else source !~ '\(select' end $$;
select * from hjg_travels('select f.id, f.a as k from tf_fact f % tf_order o on f.o = o.id and f.v <> o.d');
select * from hjg_travels('select f.id, o.c as k from tf_fact f % tf_order o on f.o = o.id');
select * from hjg_travels('select f.id, f.a as k from tf_fact f % (select from tf_order o where f.o = o.id and f.v <> o.d)');
select * from hjg_travels('select o.id, o.c as k from tf_order o % (select from tf_fact f where f.o = o.id and f.v <> o.d)');
select * from hjg_same('select g.a, g.n, g.s, x.n as xn from (select a, count(*) as n, sum(v) as s from tf_fact group by a having count(*) > 19) g join tf_a x on g.a = x.k');
select * from hjg_same('select f.id, w.lo, x.n, y.n as yn from ((tf_fact f left join tf_b y on f.b = y.k) join tf_few w on f.v + coalesce(y.k, 0) < w.lo) join tf_a x on f.a = x.k');
select * from hjg_same('select f.id, x.n, y.n as yn from (tf_fact f join tf_a x on f.a = x.k) join tf_b y on f.b = y.k where f.late < 5 and f.t <> ''tt''');
-- no build rows; all in files, of both joins
select * from hjg_same('select f.id, x.n, y.n as yn from (tf_fact f join tf_a x on f.a = x.k) join tf_none y on f.b = y.k');
select * from hjg_same('select f.id, x.n, y.n as yn from (tf_fact f left join tf_none x on f.a = x.k) join tf_b y on f.b = y.k');
set work_mem = '64kB';
set hash_mem_multiplier = 1;
-- many keys have no partner: one of them may pass any filter by chance
select hjg_scans('select f.id, o.d, p.d from (tf_fact f join (select * from tf_order where id > 100) o on f.o = o.id) join (select * from tf_order where id between 50 and 1500) p on f.v = p.id');
select * from hjg_same('select f.id, f.t, o.d, p.d as pd from (tf_fact f join tf_order o on f.o = o.id) join (select * from tf_order where id < 1500) p on f.v = p.id');
select * from hjg_same('select f.id, f.t, o.d, p.d as pd from (tf_fact f join tf_order o on f.o = o.id) join (select * from tf_order where id < 1500) p on o.c = p.id');
reset work_mem;
reset hash_mem_multiplier;

-- again with other build rows: what was read through the old filter is not kept
select * from hjg_same('select e.v, (select count(*) from (tf_fact f join tf_order o on f.o = o.id) join (select * from tf_client where k % 5 = e.v) c on o.c = c.k) from (values (0), (1), (2)) e (v)');
select * from hjg_same('select e.v, (select sum(o.d) from (tf_fact f join (tf_order o join tf_b y on o.d = y.k) on f.o = o.id) join (select * from tf_client where k % 5 = e.v) c on o.c = c.k) from (values (0), (1), (2)) e (v)');
select * from hjg_same('select e.v, (select count(*) from (tf_fact f join tf_a x on f.a = x.k) join (select * from tf_b where k % 7 <> e.v) y on f.b = y.k) from (values (0), (1), (2)) e (v)');
select * from hjg_same('select e.v, (select sum(g.n) from (select a, count(*) as n from tf_fact group by a) g join (select * from tf_a where k % 7 <> e.v) x on g.a = x.k) from (values (0), (1), (2)) e (v)');
select * from hjg_same('select e.v, (select sum(g.n) from (select a, bit_or(v)::int as n from tf_fact group by a) g join (select * from tf_a where k % 7 <> e.v) x on g.a = x.k) from (values (0), (1), (2)) e (v)');
-- with the same ones, and other rows below
select * from hjg_same('select e.v, (select count(*) from ((select * from tf_fact where v % 7 <> e.v) f join tf_order o on f.o = o.id) join tf_client c on o.c = c.k) from (values (0), (1), (2)) e (v)');
select * from hjg_same('select e.v, (select count(*) from (tf_fact f join (select * from tf_order where d % 7 <> e.v) o on f.o = o.id) join tf_client c on o.c = c.k) from (values (0), (1), (2)) e (v)');

-- a condition that may fail comes first: the row that it fails for is one that the filter drops
select f.id from tf_fact f join tf_a x on f.a = x.k where 10 / (f.id - 1) < 5;
select f.id from (tf_fact f join tf_b y on f.b = y.k) join tf_a x on f.a = x.k where f.v = (select 1 / (w.lo - 3) from tf_few w limit 1);
-- one that cannot, behind a text, comes last: it sees few of the rows
select hjg_removed('select f.id, f.t from tf_fact f join tf_a x on f.a = x.k where f.late < 9', 'f') < 2000 as saved;

-- several processes
call hjg_parallel(2, 1);
select hjg_scans('select f.id, f.t, x.n, y.n from (tf_fact f join tf_a x on f.a = x.k) join tf_b y on f.b = y.k');
select hjg_scanned('select f.id, f.t, x.n, y.n from (tf_fact f join tf_a x on f.a = x.k) join tf_b y on f.b = y.k', 'f') < 400 as few;
select hjg_scans('select f.id, o.d, c.n from (tf_fact f join tf_order o on f.o = o.id) join tf_client c on o.c = c.k');
select * from hjg_same('select f.id, f.t, x.n, y.n as yn from (tf_fact f join tf_a x on f.a = x.k) join tf_b y on f.b = y.k');
select * from hjg_same('select f.id, o.d, c.n from (tf_fact f join tf_order o on f.o = o.id) join tf_client c on o.c = c.k');
select * from hjg_same('select f.id, o.d, c.n from (tf_fact f right join tf_order o on f.o = o.id) join tf_client c on o.c = c.k');
select * from hjg_same('select g.a, g.n, g.s, x.n as xn from (select a, count(*) as n, sum(v) as s from tf_fact group by a) g join tf_a x on g.a = x.k');
select * from hjg_same('select e.v, (select count(*) from (tf_fact f join tf_order o on f.o = o.id) join (select * from tf_client where k % 5 = e.v) c on o.c = c.k) from (values (0), (1), (2)) e (v)');
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select * from hjg_same('select f.id, f.t, o.d, p.d as pd from (tf_fact f join tf_order o on f.o = o.id) join (select * from tf_order where id < 1500) p on o.c = p.id');
reset work_mem;
reset hash_mem_multiplier;
set max_parallel_workers_per_gather = 0;

-- given up where most rows pass, and then the join does not test them either
set hjoin_gpu.bloom_filter = auto;
set hjoin_gpu.in_backend_rows = 0;
select hjg_scans('select f.id, f.t, o.d, x.id from (tf_fact f join tf_order o on f.o = o.id) join (select id from tf_fact where abs(id) > 0 and abs(v) >= 0 and length(t) >= 0 and abs(late) >= 0) x on f.id = x.id');
-- but never above groups, which would lose some of their rows: this HAVING divides by zero for four of twelve
create table tf_twelve as select g % 2000 as k, g as v from generate_series(0, 23999) g;
vacuum analyze tf_twelve;
select hjg_scans('select q.k, q.n from (select k, count(*) as n from tf_twelve group by k having 1 / (count(*) - 4) >= 0) q join (select id from tf_order where abs(id) < 1400) x on q.k = x.id');
select count(*) from (select k, count(*) as n from tf_twelve group by k having 1 / (count(*) - 4) >= 0) q join (select id from tf_order where abs(id) < 1400) x on q.k = x.id;
drop table tf_twelve;
drop function hjg_scans, hjg_scanned, hjg_removed, hjg_travels;
drop table tf_fact, tf_a, tf_b, tf_order, tf_client, tf_none, tf_few, tf_ab;
