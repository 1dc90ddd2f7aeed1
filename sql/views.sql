-- Tests what the extension shows of itself.
set hjoin_gpu.force = on;
-- how many rows reach a join is the Bloom filter's doing, which is not made for every device
set hjoin_gpu.device = 'cpu';
\d hjoin_gpu_devices
\d hjoin_gpu_jobs
\d hjoin_gpu_stat
select name, kind, state, memory_bytes > 0 as has_memory, compute_units > 0 as has_units, pid is not null as has_pid from hjoin_gpu_devices where name = 'cpu';
select count(*) from hjoin_gpu_jobs;
select hjoin_gpu_stat_reset();
set hjoin_gpu.in_backend_rows = 0;
select count(*) from probe p join build b on p.k = b.k;
set hjoin_gpu.in_backend_rows = 1000000;
select count(*) from probe p join build b on p.k = b.k;
reset hjoin_gpu.in_backend_rows;
select name, value from hjoin_gpu_stat where name ~ '^(joins|build_rows|probe_rows|pairs)' order by name collate "C";
-- every counter, and every reason of a fallback, has a row of its own
select count(*) = count(distinct (name, detail)) as distinct_rows, count(*) > 15 as many from hjoin_gpu_stat;
-- what a user should change
select topic, ok is not null as has_ok, finding <> '' as has_finding, (advice is null) = ok as has_advice from hjoin_gpu_doctor();
select ok, finding, advice from hjoin_gpu_doctor() where topic in ('preload', 'planner hook');
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select hjoin_gpu_stat_reset();
select count(*) from generate_series(1, 50000) p (k) join (select k, repeat('x', 50) as t from generate_series(1, 20000) k offset 0) b on p.k = b.k and p.k <> length(b.t);
select ok, regexp_replace(finding, '[1-9] MB', 'some MB') as finding, advice from hjoin_gpu_doctor() where topic = 'memory of joins';
reset work_mem;
reset hash_mem_multiplier;
create table larger (a int);
select ok, finding from hjoin_gpu_doctor() where topic = 'table sizes';
update pg_class set relpages = 1000000000 where oid = 'larger'::regclass;
select ok, finding, advice from hjoin_gpu_doctor() where topic = 'table sizes';
drop table larger;
-- everybody may look, not everybody may reset
create role hjg_watcher;
set role hjg_watcher;
select count(*) > 0 from hjoin_gpu_devices;
select count(*) from hjoin_gpu_stat;
select count(*) from hjoin_gpu_doctor();
select hjoin_gpu_stat_reset();
reset role;
drop role hjg_watcher;
