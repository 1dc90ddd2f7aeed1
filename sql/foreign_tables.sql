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
select hjg_jobs_left();
drop server files cascade;
drop extension file_fdw;
