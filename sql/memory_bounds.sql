-- The memory that a join keeps depends on hash_mem, not on how wide its rows are or how many have gone by.
set client_min_messages = warning;
set hjoin_gpu.force = on;
set max_parallel_workers_per_gather = 0;
set hjoin_gpu.in_backend_rows = 1000000;
set work_mem = '1MB';
set hash_mem_multiplier = 2;
create function m_kept() returns text language sql as
	$$ select case when sum(total_bytes) < 24 * 1024 * 1024 then 'bounded' else pg_size_pretty(sum(total_bytes)) end from pg_backend_memory_contexts where name like 'GpuHashJoin%' $$;
-- of all loads of an execution
create function m_peak(query text) returns text language sql as $$
	select case when peak < 40 * 1024 then 'bounded' else peak || 'kB' end
	from (select jsonb_path_query_first(hjg_explained('analyze, costs off, timing off', query), 'strict $.**."Peak Memory Usage"')::bigint as peak) q $$;
create table m_few as select g as id from generate_series(0, 19) g;
analyze m_few;
create view m_growing as select g as id, repeat('x', 9000 + g * 8) as t from generate_series(1, 4000) g offset 0;
create view m_wide as select g as id, repeat('x', 200000) as t from generate_series(1, 600) g offset 0;
create view m_huge as select g as id, repeat('x', 1000000) as t from generate_series(1, 150) g offset 0;
explain (costs off) select p.id, p.t from m_huge p join m_few f on p.id % 20 = f.id;
-- probe rows whose values grow from batch to batch, are larger than most, or are huge
begin;
declare growing cursor for select p.id, p.t from m_growing p join m_few f on p.id % 20 = f.id;
move 3500 in growing;
select m_kept();
close growing;
declare wide cursor for select p.id, p.t from m_wide p join m_few f on p.id % 20 = f.id;
move 500 in wide;
select m_kept();
close wide;
declare huge cursor for select p.id, p.t from m_huge p join m_few f on p.id % 20 = f.id;
move 140 in huge;
select m_kept();
rollback;
-- a wide value of a small table in many rows that go to a join above
create view m_docs as select g as id, repeat('x', 200000) as t from generate_series(0, 9) g offset 0;
create table m_facts as select g as id, g % 10 as doc from generate_series(0, 9999) g;
analyze m_facts;
set join_collapse_limit = 1;
explain (costs off) select d.t, b.v from m_facts f join m_docs d on f.doc = d.id join build b on f.id % 900 = b.id;
explain (costs off) select d.t, b.id from m_facts b left join (m_facts f join m_docs d on f.doc = d.id and f.id < 300) on f.id = b.id;
begin;
set local hjoin_gpu.in_backend_rows = 0;
declare above cursor for select d.t, b.v from m_facts f join m_docs d on f.doc = d.id join build b on f.id % 900 = b.id;
move 5000 in above;
select m_kept();
rollback;
select m_peak('select d.t, b.id from m_facts b left join (m_facts f join m_docs d on f.doc = d.id and f.id < 300) on f.id = b.id');
select * from hjg_same('select b.id, f.id as fid, length(d.t) as n from m_facts b left join (m_facts f join m_docs d on f.doc = d.id and f.id < 300) on f.id = b.id');
-- wide values behind many narrow ones, in the sides of a join above
create view m_late as select g as id, repeat('x', case when g < 5 then 1 else 200000 end) as t from generate_series(0, 9) g offset 0;
explain (costs off) select d.t, b.id from m_facts b left join (m_facts f join m_late d on f.id / 1000 = d.id and f.id < 5300) on f.id = b.id;
select m_peak('select d.t, b.id from m_facts b left join (m_facts f join m_late d on f.id / 1000 = d.id and f.id < 5300) on f.id = b.id');
begin;
set local hjoin_gpu.in_backend_rows = 0;
declare above cursor for select d.t, b.v from m_facts f join m_late d on f.id / 1000 = d.id join build b on f.id % 900 = b.id;
move 5300 in above;
select m_kept();
rollback;
select * from hjg_same('select b.id, f.id as fid, length(d.t) as n from m_facts b left join (m_facts f join m_late d on f.id / 1000 = d.id and f.id < 5030) on f.id = b.id');
-- build rows
explain (costs off) select b.id, p.t from build b left join m_huge p on p.id = b.id;
select m_peak('select b.id, p.t from build b left join m_huge p on p.id = b.id');
select * from hjg_same('select b.id, md5(p.t) as m from build b full join m_huge p on p.id + 850 = b.id');
select * from hjg_same('select f.id as fid, p.id, length(p.t) as n from m_wide p left join m_few f on p.id = f.id');
-- 16 million pairs of one key come in rounds, from the device process and in this one (test/bench/one_key.sql has 2^31 of them)
create table m_key as select g as id, 1 as k from generate_series(1, 4000) g;
analyze m_key;
create function m_arena(query text) returns text language sql as
	$$ select case when arena < 64 * 1024 then 'bounded' else arena || 'kB' end from hjg_figure(query, 'Arena Usage') arena $$;
set hjoin_gpu.in_backend_rows = 0;
select count(*), sum(a.id), sum(b.id) from m_key a join m_key b using (k);
select m_peak('select count(*) from m_key a join m_key b using (k)'), m_arena('select count(*) from m_key a join m_key b using (k)');
set hjoin_gpu.in_backend_rows = 1000000;
select count(*), sum(a.id), sum(b.id) from m_key a join m_key b using (k);
select m_peak('select count(*) from m_key a join m_key b using (k)'), m_arena('select count(*) from m_key a join m_key b using (k)');
-- the arena: two batches of a job are under way, keys and pairs of each in slabs of 2 MB; of many pairs two slabs
create table m_keys as select g as k, g % 50000 as m from generate_series(1, 200000) g;
analyze m_keys;
begin;
set local hjoin_gpu.device = 'cpu';
set local hjoin_gpu.in_backend_rows = 0;
select hjg_figure('select count(*) from m_keys a join m_keys b on a.k = b.k', 'Arena Usage') between 2048 and 5 * 2048 as bounded;
select hjg_figure('select count(*) from m_keys a join m_keys b on a.m = b.m', 'Arena Usage') between 2048 and 7 * 2048 as bounded;
select * from hjg_same('select a.k, b.k as bk from m_keys a join m_keys b on a.m = b.m where a.k <= 60000 and b.k <= 60000');
rollback;
drop view m_growing, m_wide, m_huge, m_docs, m_late;
drop table m_few, m_facts, m_key, m_keys;
drop function m_kept, m_peak, m_arena;
