-- What the extension shows of itself.
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
-- everybody may look, not everybody may reset
create role hjg_watcher;
set role hjg_watcher;
select count(*) > 0 from hjoin_gpu_devices;
select count(*) from hjoin_gpu_stat;
select hjoin_gpu_stat_reset();
reset role;
drop role hjg_watcher;
