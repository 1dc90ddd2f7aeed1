-- Foreign tables below the join.
set client_min_messages = warning;
set hjoin_gpu.force = on;
create extension file_fdw;
create server files foreign data wrapper file_fdw;
create foreign table numbers (n int) server files options (program 'seq 1 500', format 'csv');
create foreign table nobody (n int, t text) server files options (filename '/dev/null', format 'csv');
explain (costs off) select count(*) from probe p join (select * from numbers offset 0) f on p.k = f.n;
select * from hjg_kinds('probe l', '(select n as id, n from numbers) r', 'l.k = r.n');
select * from hjg_kinds('(select n as id, n from numbers) l', 'build r', 'l.n = r.k and r.v > 3');
select * from hjg_kinds('(select n as id, n from numbers) l', '(select n as id, t from nobody) r', 'l.n = r.id');
-- a foreign table that fails while it is read
create foreign table broken (n int) server files options (program 'seq 1 5; echo x', format 'csv');
select count(*) from probe p join broken f on p.k = f.n;
select count(*) from broken f left join probe p on p.k = f.n;
-- a server that joins and groups itself does so, also under hjoin_gpu.force; the node joins what comes of it
create extension postgres_fdw;
do $$ begin
	execute format('create server far foreign data wrapper postgres_fdw options (host %L, port %L, dbname %L, use_remote_estimate ''true'')',
		split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database());
end $$;
create user mapping for current_user server far;
create foreign table far_probe (id int, k int, v int, t text) server far options (table_name 'probe');
create foreign table far_build (id int, k int, v int, t text) server far options (table_name 'build');
set client_min_messages = notice;
set hjoin_gpu.explain_declined = on;
set hjoin_gpu.aggregate = on;
explain (costs off) select p.id, b.v from far_probe p join far_build b on p.k = b.k;
explain (costs off) select p.k, count(*), sum(b.v) from far_probe p join far_build b on p.k = b.k group by p.k;
explain (costs off) select v, count(*) from far_probe group by v;
reset hjoin_gpu.explain_declined;
reset hjoin_gpu.aggregate;
set client_min_messages = warning;
set join_collapse_limit = 1;
explain (costs off) select p.id, b.v, l.v from far_probe p join far_build b on p.k = b.k join build l on l.k = p.v;
reset join_collapse_limit;
select * from hjg_kinds('(select p.id, p.k, b.v from far_probe p join far_build b on p.k = b.k) l', 'build r', 'l.v = r.k');
-- two servers cannot join with each other
explain (costs off) select p.id, n.n from far_probe p join numbers n on p.k = n.n;
select * from hjg_kinds('(select id, k from far_probe) l', '(select n as id, n from numbers) r', 'l.k = r.n');
select hjg_jobs_left();
drop server far cascade;
drop server files cascade;
drop extension postgres_fdw;
drop extension file_fdw;
