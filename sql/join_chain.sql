-- A join whose rows go to another join hands them over as vectors; rows, counts and
-- order of evaluation are those of rows that come one by one.
set client_min_messages = warning;
set hjoin_gpu.force = on;
set max_parallel_workers_per_gather = 0;
-- keep the order of joins as written
set join_collapse_limit = 1;
-- which sides are joins that hand over vectors, from the top
create function hjg_chain(query text) returns text language sql as
	$$ select string_agg(x#>>'{}', ', ') from jsonb_path_query(hjg_explained('verbose, costs off', query), 'strict $.**."Direct Join"') x $$;

create table c_fact (id int, d1 int, d2 int, d3 text, v int2, t text, u uuid);
insert into c_fact select g, case when g % 11 > 0 then g % 300 end, case when g % 13 > 0 then g % 40 end, case when g % 7 > 0 then 'd' || g % 60 end, g % 100, repeat('t' || g, g % 30), md5(g::text)::uuid
	from generate_series(1, 5000) g;
create table c_dim1 (k int, n text, a int);
insert into c_dim1 select case when g % 17 > 0 then g end, 'one ' || g, case when g % 5 > 0 then g % 20 end from generate_series(0, 260) g;
create table c_dim2 (k int8, n name, b bool);
insert into c_dim2 select g % 30, 'two ' || g, g % 3 = 0 from generate_series(0, 44) g;
create table c_dim3 (k text, f float8, n numeric);
insert into c_dim3 select 'd' || g, g / 3.0, case when g % 4 > 0 then g / 7.0 end from generate_series(10, 80) g;
analyze c_fact, c_dim1, c_dim2, c_dim3;

-- star: every join reads the one below it as vectors, the fact table is read once
select hjg_chain('select f.id, x.n, y.n, z.n from c_fact f join c_dim1 x on f.d1 = x.k join c_dim2 y on f.d2 = y.k join c_dim3 z on f.d3 = z.k') ~ '^(outer|inner), (outer|inner), none$' as chained;
select * from hjg_same('select f.*, x.n as xn, y.n as yn, y.b, z.* from c_fact f join c_dim1 x on f.d1 = x.k join c_dim2 y on f.d2 = y.k join c_dim3 z on f.d3 = z.k');
select * from hjg_same('select x.a, y.b, count(*), sum(f.v), sum(z.f)::int, min(f.t), max(f.u::text) from c_fact f join c_dim1 x on f.d1 = x.k join c_dim2 y on f.d2 = y.k join c_dim3 z on f.d3 = z.k group by 1, 2');
set hjoin_gpu.direct_scan = off;
select hjg_chain('select f.id, x.n, y.n from c_fact f join c_dim1 x on f.d1 = x.k join c_dim2 y on f.d2 = y.k') as slots;
reset hjoin_gpu.direct_scan;

-- every kind of join above and below, the chain on the left and on the right
select lower, upper, s.* from unnest(array['join', 'left join', 'right join', 'full join']) lower, unnest(array['join', 'left join', 'right join', 'full join']) upper,
	lateral hjg_same(format('select f.id, f.t, x.k, x.n as xn, y.k as yk, y.n as yn from (c_fact f %s c_dim1 x on f.d1 = x.k) %s c_dim2 y on f.d2 = y.k', lower, upper)) s;
select lower, upper, s.* from unnest(array['join', 'left join', 'right join', 'full join']) lower, unnest(array['join', 'left join', 'right join', 'full join']) upper,
	lateral hjg_same(format('select f.id, x.n as xn, x.a, y.n as yn from c_dim2 y %s (c_fact f %s c_dim1 x on f.d1 = x.k) on y.k = x.a', upper, lower)) s;
select lower, upper, s.* from unnest(array['exists', 'not exists']) lower, unnest(array['exists', 'not exists']) upper,
	lateral hjg_same(format('select f.id, f.t from c_fact f where %s (select from c_dim1 x where x.k = f.d1) and %s (select from c_dim2 y where y.k = f.d2)', lower, upper)) s;
select upper, s.* from unnest(array['join', 'left join', 'right join', 'full join']) upper,
	lateral hjg_same(format('select f.id, f.t, y.k as yk, y.n as yn from (select * from c_fact f where exists (select from c_dim1 x where x.k = f.d1)) f %s c_dim2 y on f.d2 = y.k', upper)) s;

-- hashed keys, residual quals and filters above the join: rows are tested before they go on
select hjg_chain('select f.id, y.n from c_fact f join c_dim3 z on f.d3 = z.k join c_dim2 y on f.d2 = y.k') ~ 'outer|inner' as chained;
select lower, upper, s.* from unnest(array['join', 'left join', 'right join', 'full join']) lower, unnest(array['join', 'left join']) upper,
	lateral hjg_same(format('select f.id, z.n, y.n as yn from (c_fact f %s c_dim3 z on f.d3 = z.k) %s c_dim2 y on f.d2 = y.k and f.v < y.k', lower, upper)) s;
select * from hjg_same('select f.id, x.n, y.n as yn from (c_fact f left join c_dim1 x on f.d1 = x.k and f.v > x.a) left join c_dim2 y on f.d2 = y.k and coalesce(x.a, 0) <> y.k');
select * from hjg_same('select f.id, x.n, y.n as yn from (c_fact f left join c_dim1 x on f.d1 = x.k) join c_dim2 y on f.d2 = y.k where coalesce(x.a, 3) > 2');
select * from hjg_same('select f.id, q.n from c_fact f join (select x.n, x.k, y.k as yk from c_dim1 x left join c_dim2 y on x.a = y.k where coalesce(y.b, true)) q on f.d1 = q.k where not exists (select from c_dim3 z where z.k = f.d3 and z.f > f.v)');
-- a column twice, an expression of both sides as key
select * from hjg_same('select f.id, f.i2, y.n from (select f.id, f.id as i2, f.d2, x.a from c_fact f join c_dim1 x on f.d1 = x.k offset 0) f join c_dim2 y on f.d2 = y.k');
select * from hjg_same('select f.id, y.n from (c_fact f join c_dim1 x on f.d1 = x.k) join c_dim2 y on f.d2 + x.a = y.k');
select * from hjg_same('select f.id, y.n, f.s from (select f.id, f.d2 + x.a as s from c_fact f join c_dim1 x on f.d1 = x.k) f join c_dim2 y on f.s = y.k');

-- empty sides
select kind, s.* from unnest(array['join', 'left join', 'full join']) kind,
	lateral hjg_same(format('select f.id, n.v as nv, y.n as yn from (c_fact f %s nothing n on f.d1 = n.k) %s c_dim2 y on f.d2 = y.k', kind, kind)) s;

-- partitions below and above
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select lower, upper, s.* from unnest(array['join', 'left join', 'full join']) lower, unnest(array['join', 'right join', 'full join']) upper,
	lateral hjg_same(format('select f.id, g.id as gid, f.t, g.t as gt, x.n from (c_fact f %s c_fact g on f.id = g.id + 100) %s c_dim1 x on g.d1 = x.k', lower, upper)) s;
reset work_mem;
reset hash_mem_multiplier;

-- LIMIT, cursors, rescans with and without changed parameters
select count(*) from (select f.id from c_fact f join c_dim1 x on f.d1 = x.k join c_dim2 y on f.d2 = y.k limit 7) q;
begin;
declare c cursor for select f.id, x.n from c_fact f join c_dim1 x on f.d1 = x.k join c_dim2 y on f.d2 = y.k order by f.id;
fetch 2 from c;
close c;
commit;
select * from hjg_same('select g, q.* from generate_series(1, 20) g, lateral (select count(*), sum(f.v), min(x.n) from (c_fact f join c_dim1 x on f.d1 = x.k) join c_dim2 y on f.d2 = y.k where f.v > g * 4) q');
select * from hjg_same('select g, q.* from generate_series(1, 20) g, lateral (select count(*), sum(f.v), max(y.n) from (c_fact f left join c_dim1 x on f.d1 = x.k and x.a > g) join c_dim2 y on f.d2 = y.k where y.k <> g) q');
select * from hjg_same('select d.id, q.* from one_row d, generate_series(1, 5) g, lateral (select f.id as fid, f.t, y.n from (c_fact f join c_dim1 x on f.d1 = x.k) join c_dim2 y on f.d2 = y.k where f.v = d.v order by f.id, y.n limit 3) q');

-- what EXPLAIN ANALYZE counts is what passed from node to node
create function hjg_counts(query text) returns table (node text, rows int, loops int) language sql as $$
	select n->>'Node Type', (n->>'Actual Rows')::float8::int, (n->>'Actual Loops')::int
	from jsonb_path_query(hjg_explained('analyze, costs off, timing off, summary off', query), 'strict $.**') n where n ? 'Custom Plan Provider' $$;
select * from hjg_counts('select f.id, y.n from (c_fact f join c_dim1 x on f.d1 = x.k) join c_dim2 y on f.d2 = y.k');
select * from hjg_counts('select f.id, y.n from (c_fact f left join c_dim3 z on f.d3 = z.k) join c_dim2 y on f.d2 = y.k and z.f > y.k');
select count(*) from c_fact f join c_dim1 x on f.d1 = x.k;
select count(*) from c_fact f left join c_dim3 z on f.d3 = z.k;

-- the device process does not take part, or no more
set hjoin_gpu.in_backend_rows = 0;
set hjoin_gpu.on_fallback = silent;
set hjoin_gpu.device = 'cuda:77';
select count(*), sum(f.v), min(x.n), max(y.n) from (c_fact f join c_dim1 x on f.d1 = x.k) left join c_dim2 y on f.d2 = y.k;
reset hjoin_gpu.device;
select count(*), sum(f.v), min(x.n), max(y.n) from (c_fact f join c_dim1 x on f.d1 = x.k) left join c_dim2 y on f.d2 = y.k;
set hjoin_gpu.in_backend_rows = -1;
select count(*), sum(f.v), min(x.n), max(y.n) from (c_fact f join c_dim1 x on f.d1 = x.k) left join c_dim2 y on f.d2 = y.k;
