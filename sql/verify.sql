-- Joins that core's hash join joins as well: all of them are the same.
set client_min_messages = warning;
-- Subqueries are run for each row.
set hjoin_gpu.unnest_subqueries = off;
set hjoin_gpu.force = on;
set hjoin_gpu.aggregate = on;
call hjg_parallel();
create table ver_l (id int, k int, v int, t text, n numeric, p point, c char(9)) with (parallel_workers = 3);
create table ver_r (id int, k int, v int, t text, n numeric, p point, c char(9)) with (parallel_workers = 3);
insert into ver_l select g, case when g % 31 <> 0 then g % 700 end, g % 37, case when g % 29 <> 0 then 'key ' || g % 401 end,
	case when g % 23 <> 0 then g % 301 end, point(g, -g), g % 99 from generate_series(1, 6000) g;
insert into ver_r select g, case when g % 41 <> 0 then g % 900 end, g % 41, case when g % 13 <> 0 then 'key ' || g % 503 || repeat('x', g % 97 / 96 * 3000) end,
	case when g % 19 <> 0 then g % 401 end, point(-g, g), g % 77 from generate_series(1, 2500) g;
analyze ver_l, ver_r;

-- Runs a query under some settings: how many executions of the node there were, how many of them were
-- compared, how many differed, and whether participants shared one.
create function hjg_verified(query text, settings text[], out joins bigint, out compared bigint, out different bigint, out shared bool)
language plpgsql as $$
declare
	setting text;
begin
	foreach setting in array settings loop
		perform set_config(split_part(setting, '=', 1), split_part(setting, '=', 2), true);
	end loop;
	shared := hjg_lines(query, 'Parallel Custom Scan (GpuHashJoin)') > 0;
	perform hjoin_gpu_stat_reset();
	execute query;
	select sum(value) filter (where name = 'joins'), sum(value) filter (where name = 'verified_joins'),
		sum(value) filter (where name = 'verified_mismatches') into joins, compared, different from hjoin_gpu_stat;
end $$;

set hjoin_gpu.verify = 1;
set max_parallel_workers_per_gather = 0;
set hjoin_gpu.in_backend_rows = 1000000;
select hjg_analyze('select count(*) from ver_l l join ver_r r using (k) where l.v < 3');
reset max_parallel_workers_per_gather;
reset hjoin_gpu.in_backend_rows;
create temp table results as with kinds(kind, query) as (values
	('inner', 'select * from ver_l l join ver_r r on l.k = r.k'),
	('left', 'select * from ver_l l left join ver_r r on l.k = r.k'),
	('right', 'select * from ver_l l right join ver_r r on l.k = r.k and l.v <> r.v'),
	('full', 'select * from ver_l l full join ver_r r on l.k = r.k'),
	('full, residual', 'select * from ver_l l full join ver_r r on l.k = r.k and l.v + r.v < 50'),
	('full, filter', 'select * from ver_l l full join ver_r r on l.k = r.k where coalesce(l.v, 3) + coalesce(r.v, 5) > 7'),
	('semi', 'select * from ver_l l where exists (select 1 from ver_r r where r.k = l.k)'),
	('semi, residual', 'select * from ver_l l where exists (select 1 from ver_r r where r.k = l.k and r.v > l.v)'),
	('anti', 'select * from ver_l l where not exists (select 1 from ver_r r where r.k = l.k)'),
	('anti, residual', 'select * from ver_l l where not exists (select 1 from ver_r r where r.k = l.k and r.v > l.v)'),
	('unique', 'select * from ver_l l join (select distinct k, n from ver_r) r on l.k = r.k and l.n = r.n'),
	('text', 'select l.id, r.t from ver_l l join ver_r r on l.t = r.t'),
	('numeric, whole row', 'select l, r.id from ver_l l left join ver_r r on l.n = r.n'),
	('expression', 'select l.id, r.id from ver_l l join ver_r r on l.k + 1 = r.k - 1 and l.c = r.c'),
	('count', 'select count(*) from ver_l l join ver_r r on l.k = r.k'),
	('sum', 'select sum(l.v + r.v), min(l.id) from ver_l l left join ver_r r on l.k = r.k'),
	('volatile', 'select random(), l.id from ver_l l join ver_r r on l.k = r.k'),
	('chain', 'select * from ver_l l join ver_r r on l.k = r.k join ver_l m on m.id = r.id left join ver_r s on s.id = m.v'),
	('none', 'select * from ver_l l join ver_r r on l.k = r.k and r.v < 0')),
ways(way, settings) as (values
	('backend', '{max_parallel_workers_per_gather=0, hjoin_gpu.in_backend_rows=1000000}'::text[]),
	('device process', '{max_parallel_workers_per_gather=0, hjoin_gpu.in_backend_rows=0}'),
	('files', '{max_parallel_workers_per_gather=0, hjoin_gpu.in_backend_rows=0, work_mem=64kB}'),
	('shared, backends', '{max_parallel_workers_per_gather=3, hjoin_gpu.in_backend_rows=-1}'),
	('shared, device process', '{max_parallel_workers_per_gather=3, hjoin_gpu.in_backend_rows=0, hjoin_gpu.bloom_filter=on}'),
	('shared files', '{max_parallel_workers_per_gather=3, hjoin_gpu.in_backend_rows=0, work_mem=64kB}'))
select kind, way, joins, compared, different, shared from kinds, ways, hjg_verified(query, settings);
select kind, bool_and(joins > 0) as joined, bool_and(compared >= joins) as all_compared, sum(different) as different from results group by kind order by kind collate "C";
select way, count(*), count(*) filter (where shared) >= 18 as shared from results group by way order by way collate "C";

-- executions again, with the build side and without it
select joins, compared, different from hjg_verified('select (select count(*) from ver_l l join ver_r r using (k) where l.v = x) from generate_series(1, 5) x',
	'{max_parallel_workers_per_gather=0}');
select joins, compared, different from hjg_verified('select (select sum(l.id) from ver_l l left join ver_r r on l.k = r.k and r.v = x) from generate_series(1, 5) x',
	'{max_parallel_workers_per_gather=0}');
-- neither what has a subquery in the join's condition nor what is not read to its end is compared
select joins, compared, different from hjg_verified('select * from ver_l l join ver_r r on l.k = r.k and r.v <> (select max(v) from ver_r where id = l.v)', '{max_parallel_workers_per_gather=0}');
select joins, compared, different from hjg_verified('select * from ver_l l join ver_r r using (k) limit 3', '{max_parallel_workers_per_gather=0}');
select joins, compared, different from hjg_verified('select * from ver_l l join ver_r r using (k)', '{hjoin_gpu.verify=0}');
create role hjg_verifier;
set role hjg_verifier;
set hjoin_gpu.verify = 0;
reset role;
drop role hjg_verifier;
drop function hjg_verified;
drop table ver_l, ver_r;
