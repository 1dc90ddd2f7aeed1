-- GROUP BY of many groups in several processes, which exchange them and each finish some: core's answers.
set hjoin_gpu.aggregate = on;
set hjoin_gpu.programs = off;
-- what processes divide among them is dear, and so is a row that one returns
call hjg_parallel(2, 1);
set cpu_tuple_cost = 5;
-- dear rows are no reason to compile expressions
set jit = off;

create table pgr (id int, k int, k8 bigint, te text, vc varchar(30), nu numeric, ns numeric(12, 2), v int, da date, en bool, skew int);
insert into pgr
	select g, case when g % 50 > 0 then (g * 7919) % 20011 end, (g % 15013)::bigint << 33, case when g % 9 > 0 then 'text ' || g % 17011 end, repeat('v', g % 20) || g % 9001,
		(array['NaN', 'Infinity', '-Infinity', '1e30', '-1e30', '0.00001'])[g % 400 + 1]::numeric, case when g % 5 > 0 then (g % 30000) / 100.0 end,
		case when g % 11 > 0 then g % 900 - 400 end, date '2020-01-01' + g % 16000, g % 3 = 0, case when g % 4 = 0 then g else g % 3 end
	from generate_series(1, 40000) g;
create table pgr_other as select * from pgr where id % 2 = 0;
vacuum analyze pgr;
vacuum analyze pgr_other;

-- Shape; where groups are few core finishes them.
set hjoin_gpu.force = on;
explain (costs off) select k, count(*), sum(ns) from pgr group by k having count(*) > 2;
set cpu_tuple_cost = 0.01;
explain (costs off) select en, count(*) from pgr group by en;
set cpu_tuple_cost = 5;
explain (costs off) select l.id, count(*) from pgr l join pgr_other r using (k) group by l.id;
reset hjoin_gpu.force;

-- Keys of all forms, aggregates of all kinds, NULLs.
select s.* from unnest(array['k', 'k8', 'te', 'vc', 'ns', 'da', 'skew', 'k, en', 'te, v % 7', 'k8, da, en', 'upper(te)', 'k % 9000 + 1, length(vc)', 'nu, id % 9000', 'id - id']) keys,
	hjg_same_groups(format('select %s, count(*), count(ns), sum(v), avg(v), sum(k8), avg(k8), min(v), max(da), bool_or(en) from pgr group by %1$s', keys)) s;
select * from hjg_same_groups('select k, sum(nu), avg(nu), min(nu), max(nu), sum(ns), avg(ns), min(ns), max(ns), count(nu) from pgr group by k');
select * from hjg_same_groups('select k, sum(ns) filter (where en), count(*) filter (where v > 0), avg(nu) filter (where v < 0), sum(length(te)) from pgr group by k having count(*) filter (where en) > 0');
select * from hjg_same_groups('select te from pgr group by te');
select * from hjg_same_groups('select k, count(*) from pgr where v > 0 and te like ''%1%'' group by k');
select rows, equal from hjg_same_groups('select k, count(*) from pgr where id < 0 group by k');
-- what a key determines
create table pgr_key as select id, te, vc, v from pgr;
alter table pgr_key add primary key (id);
vacuum analyze pgr_key;
select * from hjg_same_groups('select id, te, vc || ''!'', count(*), sum(v) from pgr_key group by id');
-- joins below
select kind, s.rows, s.equal from unnest(array['join', 'left join', 'full join']) kind,
	hjg_same_groups(format('select l.id, r.te, count(*), sum(r.ns), max(l.v) from pgr l %s pgr_other r on l.k = r.k and l.te = r.te group by l.id, r.te', kind)) s;

-- Values that do not lie in the row, and records that no block holds.
create table pgr_long (id int, long text, packed text);
alter table pgr_long alter column long set storage external;
alter table pgr_long set (parallel_workers = 2);
insert into pgr_long select g, (select string_agg(md5((g % 2900 + i)::text), '') from generate_series(1, case when g % 100 = 0 then 700 else 3 end) i), repeat('abc' || g % 2500, g % 400 * 20) from generate_series(1, 6000) g;
vacuum analyze pgr_long;
select * from hjg_same_groups('select long, count(*), sum(id) from pgr_long group by long');
select * from hjg_same_groups('select packed, id % 2, count(*), min(id) from pgr_long group by packed, id % 2');
select * from hjg_same_groups('select id, long, packed, count(*) from pgr_long group by id, long, packed');

-- Sums that no 128 bits hold.
create table pgr_wide (k int, n numeric, i int8);
alter table pgr_wide set (parallel_workers = 2);
insert into pgr_wide select g % 3000, case g % 3 when 0 then 9e17 + g when 1 then -9.1e17 else 123456789.123456789 + g end, 9223372036854775807 - g from generate_series(1, 12000) g;
vacuum analyze pgr_wide;
select * from hjg_same_groups('select k, sum(n), avg(n), sum(n * 1e18), sum(n * n * n), sum(i), avg(i) from pgr_wide group by k');
select * from hjg_same_groups('select k % 2, sum(n * 1e19), sum(i) from pgr_wide group by 1');

-- Tests what stands above: sorts, limits, other groupings, subqueries that are partial paths of their query.
select * from hjg_same_groups('select k, count(*) from pgr group by k order by count(*) desc, k limit 20');
select * from hjg_same_groups('select distinct n from (select k, count(*) as n from pgr group by k) q');
select * from hjg_same_groups('select k, count(*), rank() over (order by count(*), k) from pgr group by k');
select * from hjg_same_groups('select n, count(*) from (select k, count(*) as n, sum(v) as s from pgr group by k) q where s > 0 group by n');
select * from hjg_same_groups('select id from pgr_other where k in (select k from pgr group by k having sum(v) > 300)');
select * from hjg_same_groups('select q.n, count(*), sum(o.v) from pgr_other o join (select k, count(*) as n from pgr group by k) q using (k) group by q.n');
select * from hjg_same_groups('select k, count(*) from pgr group by k union all select v, count(*) from pgr_other group by v union all select id, 1 from pgr_other group by id');
select * from hjg_same_groups('with q as materialized (select k, count(*) as n from pgr group by k) select count(*), sum(a.n * b.n) from q a join q b using (k)');
select * from hjg_same_groups('select generate_series(1, 2), k, count(*) from pgr group by k');
set hjoin_gpu.force = on;
explain (costs off) select count(*), sum(n) from (select k, count(*) as n from pgr group by k) q;
-- server versions differ in whether a Gather Merge counts the leader's rows: where rows are dear, that decides
set parallel_tuple_cost = 0.1;
explain (costs off) select k, count(*) from pgr group by k order by k;
set parallel_tuple_cost = 1;
reset hjoin_gpu.force;

-- Memory: no table of all groups, and partitions that are divided further.
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select * from hjg_same_groups('select id, te, count(*), sum(nu), min(ns) from pgr group by id, te');
select * from hjg_same_groups('select id - id, count(*), sum(ns), sum(nu), max(da) from pgr group by 1');
select * from hjg_same_groups('select long, count(*), sum(id) from pgr_long group by long');
create table pgr_many as select g % 30000 as k, g % 7 as v, repeat('k', 40) || g % 30000 as te from generate_series(1, 90000) g;
vacuum analyze pgr_many;
select * from hjg_same_groups('select te, k, count(*), sum(v) from pgr_many group by te, k');
select hjg_figure('select te, k, count(*), sum(v) from pgr_many group by te, k', 'Full Tables') > 0 as full_tables,
	hjg_figure('select te, k, count(*), sum(v) from pgr_many group by te, k', 'Temporary File Size') > 0 as files,
	hjg_figure('select te, k, count(*), sum(v) from pgr_many group by te, k', 'Peak Memory Usage') between 100 and 3 * 500 as memory;
-- an estimate far too low: partitions do not fit, and are divided
create table pgr_surprise (k int, v int);
alter table pgr_surprise set (parallel_workers = 2, autovacuum_enabled = off);
insert into pgr_surprise select g % 5000, g from generate_series(1, 20000) g;
analyze pgr_surprise;
insert into pgr_surprise select g, g from generate_series(1, 150000) g;
select * from hjg_same_groups('select k, count(*), sum(v) from pgr_surprise group by k');
reset work_mem;
reset hash_mem_multiplier;
-- one process alone, with memory enough, writes no files
set max_parallel_workers = 0;
select hjg_figure('select k, count(*) from pgr group by k', 'Group Partitions') > 0 as exchanged;
select * from hjg_same_groups('select k, count(*), sum(ns) from pgr group by k');
set work_mem = '64kB';
select * from hjg_same_groups('select id, te, count(*), sum(nu) from pgr group by id, te');
reset work_mem;
set max_parallel_workers = 1;
select * from hjg_same_groups('select k, count(*), sum(ns) from pgr group by k');
set parallel_leader_participation = off;
select * from hjg_same_groups('select k, count(*), sum(ns) from pgr group by k');
reset max_parallel_workers;
select * from hjg_same_groups('select k, count(*), sum(ns) from pgr group by k');
reset parallel_leader_participation;

-- Again and again: rescans, parameters, cursors, ends before the end.
set enable_material = off;
set hjoin_gpu.force = on;
explain (costs off) select s, q.k from generate_series(1, 3) s left join (select k, count(*) as n from pgr group by k having count(*) > 2 offset 0) q on q.n > s;
reset hjoin_gpu.force;
select * from hjg_same_groups('select s, q.k, q.n from generate_series(1, 3) s left join (select k, count(*) as n from pgr group by k having count(*) > 2 offset 0) q on q.n > s');
set work_mem = '64kB';
select * from hjg_same_groups('select s, q.k, q.n from generate_series(1, 3) s left join (select k, count(*) as n from pgr group by k having count(*) > 2 offset 0) q on q.n > s');
reset work_mem;
reset enable_material;
set hjoin_gpu.force = on;
prepare pgr_query(int, int) as select count(*), sum(s), sum(c) from (select k, sum(v + $1) as s, count(*) as c from pgr where v < $2 group by k) q;
set plan_cache_mode = force_generic_plan;
select hjg_lines('execute pgr_query(1, 2)', 'Parallel Custom Scan (GpuAggregate)') > 0 as shared;
execute pgr_query(1, 2);
execute pgr_query(0, 300);
execute pgr_query(null, 300);
reset plan_cache_mode;
select count(*) from (select k, count(*) from pgr group by k limit 5) q;
begin;
declare pgr_cursor cursor for select k, count(*) from pgr where k < 5 group by k order by k;
fetch 2 from pgr_cursor;
close pgr_cursor;
commit;
reset hjoin_gpu.force;

-- Errors are core's, wherever they happen: reading, finishing, handing out.
select * from hjg_outcome('select max(k / (id - 31111)) from pgr group by k');
select * from hjg_outcome('select k, 1 / (count(*) - 2) from pgr group by k');
select * from hjg_outcome('select k, 1 from pgr group by k having 1 / (sum(v) - 7) > 3');
select * from hjg_outcome('select k8, sum(v * 10000000) from pgr group by k8');
