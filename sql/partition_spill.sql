-- Build sides larger than the memory that a join may use.
set client_min_messages = warning;
set hjoin_gpu.force = on;
set max_parallel_workers_per_gather = 0;
create unlogged table spill_l (id int, k int, v int, t text);
create unlogged table spill_r (id int, k int, v int, t text);
insert into spill_l select g, case when g % 101 <> 0 or g > 8000 then (g * 7919::bigint) % 100000 end, g % 1000, 'left ' || g from generate_series(1, 140000) g;
insert into spill_r select g, case when g % 97 <> 0 or g > 8000 then (g * 104729::bigint) % 120000 end, g % 1000, 'right ' || g from generate_series(1, 70000) g;
vacuum analyze spill_l;
vacuum analyze spill_r;
-- like hjg_same, but by count and checksum
create function hjg_same_sum(query text, out rows bigint, out equal bool) language plpgsql as $$
declare
	core numeric;
	ours numeric;
	ours_rows bigint;
	variant text;
	sums text := format('select count(*), sum(hashtextextended(q::text, 0)::numeric) from (%s) q', query);
begin
	perform set_config('hjoin_gpu.enabled', 'off', true);
	execute sums into rows, core;
	perform set_config('hjoin_gpu.enabled', 'on', true), set_config('hjoin_gpu.force', 'on', true);
	equal := true;
	foreach variant in array array['100000000,auto,on', '0,nop,off', '0,auto,on'] loop
		perform set_config('hjoin_gpu.in_backend_rows', split_part(variant, ',', 1), true), set_config('hjoin_gpu.strategy', split_part(variant, ',', 2), true), set_config('hjoin_gpu.bloom_filter', split_part(variant, ',', 3), true);
		execute sums into ours_rows, ours;
		if ours_rows <> rows or ours is distinct from core then
			equal := false;
			raise warning '%: rows % and sum % of core, % and % of ours', variant, rows, core, ours_rows, ours;
		end if;
	end loop;
end $$;
set work_mem = '64kB';
set hash_mem_multiplier = 1;
explain (costs off) select count(*) from spill_l l join spill_r r on l.k = r.k;
select * from hjg_same_sum('select l.id as lid, r.id as rid, l.t, r.t as rt from spill_l l join spill_r r on l.k = r.k');
select * from hjg_same_sum('select l.id as lid, r.id as rid, r.t from spill_l l left join spill_r r on l.k = r.k and l.v > r.v');
select * from hjg_same_sum('select l.id as lid, r.id as rid, l.t from spill_l l right join spill_r r on l.k = r.k');
select * from hjg_same_sum('select l.id as lid, r.id as rid, l.t, r.t as rt from spill_l l full join spill_r r on l.k = r.k and l.v <> r.v');
select * from hjg_same_sum('select l.* from spill_l l where exists (select 1 from spill_r r where l.k = r.k and l.v > r.v)');
select * from hjg_same_sum('select l.* from spill_l l where not exists (select 1 from spill_r r where l.k = r.k)');
select * from hjg_same_sum('select l.id as lid, r.id as rid from spill_l l join spill_r r on l.t = replace(r.t, ''right'', ''left'')');
-- one key owns every row: no partitioning helps
select * from hjg_same_sum('select count(*), sum(l.id::bigint * r.id) from (select id, 1 as k from spill_l where id < 3000 offset 0) l join (select id, 1 as k from spill_r where id < 3000 offset 0) r on l.k = r.k');
select * from hjg_same_sum('select l.id as lid, r.id as rid from spill_l l left join (select id, 5 as k from spill_r) r on l.k = r.k and r.id < 20');
-- two of them at once, and again
select * from hjg_same_sum('select l.id as lid, r.id as rid, q.id as qid from spill_l l join spill_r r on l.k = r.k join spill_l q on q.id = r.id');
select * from hjg_same_sum('select o.v, (select count(*) from spill_r r join (select * from spill_l where v < o.v) l on l.k = r.k) from (values (3), (5)) o (v)');
-- participants that share partitions make enough of them at once: no row is written twice
set work_mem = '512kB';
set max_parallel_workers_per_gather = 3;
set min_parallel_table_scan_size = 0;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
select hjg_figure('select count(l.t), count(r.t) from spill_l l join spill_r r on l.k = r.k', 'Temporary File Size') * 1024 between 210000 and 210000 * 45 * 1.2 as written_once;
select * from hjg_same_sum('select l.id as lid, r.id as rid, l.t, r.t as rt from spill_l l full join spill_r r on l.k = r.k and l.v <> r.v');
reset min_parallel_table_scan_size;
reset parallel_setup_cost;
reset parallel_tuple_cost;
set max_parallel_workers_per_gather = 0;
set work_mem = '64kB';
-- in the middle of it
begin;
declare c cursor for select l.id, r.id from spill_l l join spill_r r on l.k = r.k;
move 1000 in c;
savepoint s;
rollback to s;
move 1000 in c;
close c;
rollback;
select hjg_jobs_left();
reset work_mem;
reset hash_mem_multiplier;
drop table spill_l, spill_r;
