-- SEMI joins (EXISTS, IN) and ANTI joins (NOT EXISTS).
set hjoin_gpu.force = on;
explain (costs off) select * from probe p where exists (select 1 from build b where b.k = p.k);
explain (costs off) select * from probe p where not exists (select 1 from build b where b.k = p.k and b.v > p.v);
explain (costs off) select * from probe p where p.t in (select t from build);
select * from hjg_same('select * from probe p where exists (select 1 from build b where b.k = p.k)');
select * from hjg_same('select * from probe p where not exists (select 1 from build b where b.k = p.k)');
select * from hjg_same('select * from probe p where p.k in (select k from build where v > 3)');
select * from hjg_same('select * from probe p where (p.k, p.k2) in (select k, k2 from build)');
select * from hjg_same('select * from probe p where p.t in (select t from build)');
-- more candidates than matches: the residual qual decides
select * from hjg_same('select * from probe p where exists (select 1 from build b where b.k2 = p.k2 and b.v = p.v + 5)');
select * from hjg_same('select * from probe p where exists (select 1 from build b where b.k2 = p.k2 and b.id > p.id and b.v <> p.v)');
select * from hjg_same('select * from probe p where not exists (select 1 from build b where b.k2 = p.k2 and b.id > p.id)');
select * from hjg_same('select * from probe p where not exists (select 1 from build b where b.k = p.k and b.v > 1000)');
-- quals of one side only
select * from hjg_same('select * from probe p where exists (select 1 from build b where b.k = p.k and p.v > 10)');
select * from hjg_same('select * from probe p where not exists (select 1 from build b where b.k = p.k and p.v > 10)');
-- NOT IN is not an anti join
select * from hjg_same('select * from probe p where p.k not in (select k from build where k is not null)');
select * from hjg_same('select * from probe p where p.k not in (select k from build)');
-- unique build side
select * from hjg_same('select p.id from probe p join build b on p.k = b.id');
select * from hjg_same('select p.id, d.k from probe p join (select distinct k from build) d on d.k = p.k');
-- several of them
select * from hjg_same('select p.id from probe p where exists (select 1 from build b where b.k = p.k) and not exists (select 1 from build b where b.t = p.t)');
select * from hjg_same('select p.id, b.id as bid from probe p left join build b on p.k = b.k where exists (select 1 from build c where c.id = b.id and c.v < 9)');
select * from hjg_same('select p.id from probe p where exists (select 1 from build b join build c on b.k = c.v where b.v = p.v)');
select * from hjg_same('select p.id from probe p where exists (select 1 from nothing n where n.k = p.k)');
select * from hjg_same('select p.id from probe p where not exists (select 1 from nothing n where n.k = p.k)');
select * from hjg_same('select n.id from nothing n where not exists (select 1 from probe p where n.k = p.k)');
-- a left side of few rows is the build side, whose rows come out once, on all versions of the server
create table few as select g as id, case when g % 8 <> 0 then g % 30 end as k, (g % 30)::bigint as k8, 'key ' || g % 30 as t, g as v from generate_series(1, 40) g;
create table many as select g as id, case when g % 9 <> 0 then g % 5000 end as k, g % 5000 as k4, 'key ' || g % 5000 as t, g % 7 as v from generate_series(1, 60000) g;
-- nearly all rows of either have one key
create table few_skewed as select g as id, case when g < 20 then g else 5 end as k, g as v from generate_series(1, 30) g;
create table many_skewed as select g as id, case when g % 50 = 0 then g % 11 else 5 end as k, g % 7 as v from generate_series(1, 20000) g;
create table few_none (like few);
create table many_none (like many);
create table medium as select g as id, g % 9000 as k, g % 7 as v, repeat('x', 20) || g as t from generate_series(1, 12000) g;
insert into medium select g, null, g, null from generate_series(1, 50) g;
vacuum analyze few, many, few_skewed, many_skewed, few_none, many_none, medium;
set hjoin_gpu.build_tuple_cost = 0.1;
-- Shows what becomes of this query, both with exists and with not exists in place of the %s: the types, the rows, and whether they are core's.
create function semi_anti(query text, out types text, out rows bigint[], out equal bool) language plpgsql as $$
declare
	kind text;
	line text;
	res record;
begin
	equal := true;
	types := '';
	foreach kind in array array['exists', 'not exists'] loop
		for line in execute 'explain (costs off) ' || format(query, kind) loop
			types := types || coalesce(substring(line from 'Join Type: (.*)') || ' ', '');
		end loop;
		select * into res from hjg_same(format(query, kind));
		rows := rows || res.rows;
		equal := equal and res.equal and res.node;
	end loop;
end $$;
explain (costs off) select id from few f where exists (select from many m where m.k = f.k and m.v > f.v);
explain (costs off) select id from few f where not exists (select from many m where m.k = f.k and m.v > f.v);
select s.* from unnest(array['select * from few f where %s (select 1 from many m where m.k = f.k)',
	'select * from few f where %s (select 1 from many m where m.k = f.k and m.v > f.v)',
	'select * from few f where %s (select 1 from many m where m.k = f.k and m.id %% 100 > f.v and m.v::text < f.v::text)',
	'select * from few f where %s (select 1 from many m where m.k4 = f.k8)',
	'select * from few f where %s (select 1 from many m where m.k4 = f.k8 and m.v <> f.v)',
	'select * from few f where %s (select 1 from many m where m.t = f.t)',
	'select * from few f where %s (select 1 from many m where m.t = f.t and m.v + 100 < f.v + m.id)',
	'select * from few f where %s (select 1 from many m where m.k = f.k and m.t = f.t)',
	'select * from few f where %s (select 1 from many m where m.k = f.id)',
	'select f.v from few f where %s (select 1 from many m where m.k = f.k + 1 and f.v > 10)',
	'select * from few_skewed f where %s (select 1 from many_skewed m where m.k = f.k)',
	'select * from few_skewed f where %s (select 1 from many_skewed m where m.k = f.k and m.v > f.v)',
	'select * from few_skewed f where %s (select 1 from many_skewed m where m.k = f.k and m.id > f.v + 19700)',
	'select * from few_none f where %s (select 1 from many m where m.k = f.k)',
	'select * from few f where %s (select 1 from many_none m where m.k = f.k)',
	'select * from few f where %s (select 1 from many m where m.k = f.k and m.v < 0)',
	'select count(*), sum(v), min(t) from few f where %s (select 1 from many m where m.k = f.k and m.v > f.v)']) query, semi_anti(query) s;
-- no key of the build side occurs twice
create unique index on few (id);
select * from semi_anti('select * from few f where %s (select 1 from many m where m.k = f.id and m.v + 3 < f.v)');
-- NOT IN has rules of its own for NULL
select count(*) from few f where f.k not in (select m.k from many m);
select * from hjg_same('select f.id from few f where f.k not in (select m.k from many m)');
-- an outer join that keeps what has no partner is one, and shows columns of the other side
select * from hjg_same('select f.id, m.id as mid, m.t from few f left join many m on m.k = f.k and m.v > f.v where m.k is null');
explain (costs off) select f.id, m.id as mid from few f left join many m on m.k = f.k where m.k is null and coalesce(m.v, f.v) > 10;
select * from hjg_same('select f.id, m.id as mid from few f left join many m on m.k = f.k where m.k is null and coalesce(m.v, f.v) > 10');
-- below and above other joins
select * from semi_anti('select f.id, b.id as bid from few f join build b on f.v = b.v where %s (select 1 from many m where m.k = f.k and m.v > f.v)');
select * from semi_anti('select m.id from many m join few f on m.id = f.v where %s (select 1 from medium s where s.k = m.id)');
select * from semi_anti('select f.id from few f where %1$s (select 1 from many m where m.k = f.k and m.v > f.v) and %1$s (select 1 from medium s where s.k = f.v)');
select * from semi_anti('select f.id from few f where %s (select 1 from many m join medium s on s.k = m.id where m.k = f.k and s.v > f.v)');
-- when all build rows have found a match nothing more is read
create function read_all(query text) returns bool language sql as
	$$ select substring(line from 'rows=(\d+)')::int = 60000 from hjg_analyze(query) line where line ~ 'on many ' $$;
set hjoin_gpu.in_backend_rows = 1000000;
select read_all('select * from few f where exists (select 1 from many m where m.k = f.k)') as semi,
	read_all('select * from few f where k > 3 and not exists (select 1 from many m where m.t = f.t)') as anti,
	read_all('select * from few f where exists (select 1 from many m where m.k = f.k and m.v > f.v)') as to_the_end;
-- rescans, with the table kept or not; the bits of the last run are gone
select * from semi_anti('select o.id, j.* from one_row o, lateral (select f.id as fid, f.v from few f where %s (select 1 from many m where m.k = f.k and m.v > o.v - 3 and m.v > f.v)) j');
set hjoin_gpu.kept_columns = off;
select * from semi_anti('select o.id, (select count(*) from few f where %s (select from many m where m.k = f.k and m.v = o.id %% 9)) from few o where id < 6');
select * from semi_anti('select o.id, (select sum(f.v) from few f where f.v > o.v and %s (select from many m where m.k = f.k and m.v = o.id %% 9)) from few o where id < 6');
reset hjoin_gpu.kept_columns;
select * from semi_anti('select o.id, (select count(*) from (select * from medium where id between 101 and 292) s where %s (select from many m where m.id = s.id and m.v + 100 > o.v)) from few o where id < 4');
-- the table of the other side is built once
select * from semi_anti('select o.id, (select sum(f.v) from few f where f.v > o.v and %s (select from many m where m.k = f.k and m.v > f.v)) from few o where id < 6');
reset hjoin_gpu.in_backend_rows;
-- larger than memory; and one key that no partitioning divides
set work_mem = '64kB';
select hjg_figure('select * from medium s where exists (select 1 from many m where m.id = s.k)', 'Hash Batches') > 1 as several_batches;
select * from semi_anti('select * from medium s where %s (select 1 from many m where m.id = s.k)');
select * from semi_anti('select * from medium s where %s (select 1 from many m where m.k = s.k and m.v < s.v)');
update medium set k = 4999 where id % 3 = 0;
analyze medium;
select * from semi_anti('select * from medium s where %s (select 1 from many m where m.k = s.k and m.v < s.v)');
-- shared by workers, in memory and not
create function shared_types(query text) returns text language sql as
	$$ select case when hjg_lines(query, 'Parallel Custom Scan (GpuHashJoin)') > 0 then 'shared ' else '' end || substring(line from 'Join Type: (.*)') from hjg_plan(query) line where line ~ 'Join Type' $$;
set hjoin_gpu.build_tuple_cost = 0.05;
call hjg_parallel();
alter table medium set (parallel_workers = 2);
alter table many set (parallel_workers = 2);
alter table few set (parallel_workers = 2);
alter table many_skewed set (parallel_workers = 2);
alter table few_skewed set (parallel_workers = 2);
select memory, shared_types('select * from medium s where exists (select 1 from many m where m.k = s.k and m.v < s.v)') as semi,
	shared_types('select * from medium s where not exists (select 1 from many m where m.k = s.k and m.v < s.v)') as anti, s.*
	from unnest(array['64kB', '4MB']) memory, set_config('work_mem', memory, false),
	semi_anti('select * from medium s where %s (select 1 from many m where m.k = s.k and m.v < s.v)') s;
select s.* from unnest(array['select * from few f where %s (select 1 from many m where m.k = f.k)', 'select * from few f where %s (select 1 from many m where m.t = f.t and m.v > f.v)',
	'select * from few_skewed f where %s (select 1 from many_skewed m where m.k = f.k)', 'select * from few_skewed f where %s (select 1 from many_skewed m where m.k = f.k and m.id > f.v + 19700)']) query, semi_anti(query) s;
set max_parallel_workers_per_gather = 0;
-- a cursor stops in the middle, and goes back
begin;
declare c scroll cursor for select f.id from few f where exists (select 1 from many m where m.k = f.k and m.v + 10 > f.v) order by f.id offset 1;
fetch 2 from c;
fetch backward 1 from c;
move 100 in c;
close c;
declare c cursor for select f.v > 0 as v from few f where not exists (select 1 from many m where m.k = f.k and m.v > f.v);
fetch 2 from c;
rollback;
-- verified by core's rules, as core has them
select hjoin_gpu_stat_reset();
set hjoin_gpu.verify = 1;
set hjoin_gpu.in_backend_rows = 0;
select count(*), sum(v) from few f where exists (select 1 from many m where m.k4 = f.k8 and m.v < f.v);
select count(*), sum(v) from few f where not exists (select 1 from many m where m.k4 = f.k8 and m.v < f.v);
select count(*), sum(v) from few f where not exists (select 1 from many m where m.t = f.t);
select name, value from hjoin_gpu_stat where name in ('verified_joins', 'verified_mismatches') order by name;
reset hjoin_gpu.verify;
reset hjoin_gpu.in_backend_rows;
-- offered once: what core adds in its own name where it knows such joins is gone under force, and loses by price
reset work_mem;
reset hjoin_gpu.force;
reset hjoin_gpu.build_tuple_cost;
set hjoin_gpu.explain_declined = on;
explain (costs off) select count(*) from few f where exists (select 1 from many m where m.k = f.k and m.v > f.v);
reset hjoin_gpu.explain_declined;
drop table few, many, few_skewed, many_skewed, few_none, many_none, medium;
drop function semi_anti, read_all, shared_types;
