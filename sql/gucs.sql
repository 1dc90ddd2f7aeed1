-- Settings: defaults, bad values, permissions.
select name, unit, context, vartype, min_val, max_val, enumvals, boot_val from pg_settings
	where name like 'hjoin_gpu.%' and name not in ('hjoin_gpu.device_program', 'hjoin_gpu.force') order by name collate "C";
set hjoin_gpu.strategy = 'bogus';
set hjoin_gpu.on_fallback = 'panic';
set hjoin_gpu.materialization = 'soon';
set hjoin_gpu.enabled = 'perhaps';
set hjoin_gpu.in_backend_rows = -5;
set hjoin_gpu.cpu_threads = 100000000;
set hjoin_gpu.device = 'abacus';
set hjoin_gpu.device = 'cuda:x';
set hjoin_gpu.device = 'opencl:-1';
set hjoin_gpu.arena_size = '1GB';
set hjoin_gpu.no_such_setting = 1;
set hjoin_gpu.device = 'cpu';
set hjoin_gpu.device = 'cuda:0';
show hjoin_gpu.device;
-- a device that is not there is a fallback, not an error
set hjoin_gpu.device = 'cuda:7';
set hjoin_gpu.force = on;
set hjoin_gpu.in_backend_rows = 0;
set hjoin_gpu.on_fallback = 'silent';
select count(*) from probe p join build b on p.k = b.k;
set hjoin_gpu.on_fallback = 'error';
select count(*) from probe p join build b on p.k = b.k;
reset hjoin_gpu.on_fallback;
reset hjoin_gpu.device;
reset hjoin_gpu.in_backend_rows;
-- off means off, on means where it pays, force means wherever it can
set hjoin_gpu.force = on;
set hjoin_gpu.enabled = off;
explain (costs off) select * from probe p join build b on p.k = b.k;
reset hjoin_gpu.enabled;
explain (costs off) select * from probe p join build b on p.k = b.k;
-- algorithms for comparison are for who is allowed to choose them
create role hjg_tuner;
set role hjg_tuner;
set hjoin_gpu.strategy = 'nop';
set hjoin_gpu.pipeline = 'pe';
set hjoin_gpu.device = 'cpu';
reset hjoin_gpu.device;
reset role;
grant set on parameter hjoin_gpu.strategy to hjg_tuner;
set role hjg_tuner;
set hjoin_gpu.strategy = 'nop';
reset hjoin_gpu.strategy;
reset role;
revoke set on parameter hjoin_gpu.strategy from hjg_tuner;
drop role hjg_tuner;
-- nobody takes a larger part of what all sessions share
create role hjg_greedy;
set role hjg_greedy;
set hjoin_gpu.backend_share = 100;
set hjoin_gpu.role_share = 100;
set hjoin_gpu.idle_share = 100;
reset role;
drop role hjg_greedy;
