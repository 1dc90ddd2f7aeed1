-- Sequential scans below the node: pages are read in place, and rows, counts and books
-- are those of core's scan.
set client_min_messages = warning;
-- Subqueries are run for each row.
set hjoin_gpu.unnest_subqueries = off;
set hjoin_gpu.force = on;
set max_parallel_workers_per_gather = 0;
-- which sides are read directly
create function hjg_direct(query text) returns text language sql as
	$$ select jsonb_path_query_first(hjg_explained('verbose, costs off', query), 'strict $.**."Direct Scan"')#>>'{}' $$;

-- every width, alignment and way of passing, NULLs in all places
create table d_types (id int, b bool, c "char", i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, dt date, ts timestamp, tz timestamptz,
	tm time, o oid, u uuid, n name, t text, m numeric, bp char(7), ttz timetz, iv interval, p point, vb varbit, ip inet, js json);
insert into d_types
	select g, g % 2 = 0, chr(65 + g % 26)::"char", g % 100, g * 3, g::int8 << 33, g / 3.0, g / 7.0, date '2000-01-01' + g, timestamp '2000-01-01' + g * interval '1 hour',
		timestamptz '2000-01-01 00:00:00+00' + g * interval '1 minute', time '00:00' + g * interval '1 second', g, md5(g::text)::uuid, 'name' || g, repeat('t' || g, g % 40), g / 9.0,
		'bp' || g % 1000, '00:00:00+01'::timetz + g * interval '1 second', g * interval '1 day', point(g, -g), (g % 1000)::bit(10)::varbit, '10.0.0.0'::inet + g, to_json(g)
	from generate_series(1, 700) g;
create table d_nulls (like d_types);
insert into d_nulls
	select id, case when g % 3 > 0 then b end, case when g % 4 > 0 then c end, case when g % 5 > 0 then i2 end, case when g % 6 > 0 then i4 end, case when g % 7 > 0 then i8 end,
		case when g % 3 > 1 then f4 end, case when g % 4 > 1 then f8 end, case when g % 5 > 1 then dt end, case when g % 6 > 1 then ts end, case when g % 7 > 1 then tz end,
		case when g % 3 < 1 then tm end, case when g % 4 < 1 then o end, case when g % 5 < 2 then u end, case when g % 6 < 2 then n end, case when g % 7 < 2 then t end,
		case when g % 3 < 2 then m end, case when g % 4 < 2 then bp end, case when g % 5 < 3 then ttz end, case when g % 6 < 3 then iv end, case when g % 7 < 3 then p end,
		case when g % 3 > 0 then vb end, case when g % 4 > 0 then ip end, case when g % 5 > 0 then js end
	from d_types, lateral (select id as g) x;
analyze d_types, d_nulls;
select hjg_direct('select * from d_types a join d_nulls b on a.id = b.id');
select * from hjg_same('select * from d_types a join d_nulls b on a.id = b.id');
select * from hjg_same('select * from d_nulls a full join d_nulls b on a.id = b.id + 5');
-- each as a key, alone and with another
select col, hjg_direct(format('select a.id, b.id from d_types a join d_nulls b on a.%I = b.%I', col, col)) as direct, s.*
	from unnest(array['b', 'c', 'i2', 'i4', 'i8', 'f4', 'f8', 'dt', 'ts', 'tz', 'tm', 'o', 'u', 'n', 't', 'm', 'bp', 'ttz', 'iv', 'ip']) col,
	lateral hjg_same(format('select a.id as aid, b.id as bid from d_types a left join d_nulls b on a.%I = b.%I and a.i4 = b.i4', col, col)) s;
select * from hjg_same('select a.id as aid, b.id as bid from d_types a join d_nulls b on a.i4 = b.i4 and a.i2 = b.i2 and a.f4 = b.f4');
select * from hjg_same('select a.id as aid, b.id as bid, a.t, b.js::text from d_types a join d_nulls b on a.i4 = b.i8 / (2::int8 ^ 33)::int8 * 3');
select * from hjg_same('select a.id as aid, b.id as bid from d_types a full join d_nulls b on a.i2 = b.i4 and a.t = b.t');
select * from hjg_kinds('d_types l', 'd_nulls r', 'l.i2 = r.i8 >> 33');
select * from hjg_kinds('d_nulls l', 'd_types r', 'l.i4 = r.i8');
-- values at the ends of their ranges, equal zeros and NaNs
create table d_edge (id int, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, dt date, ts timestamp);
insert into d_edge values (1, -32768, -2147483648, -9223372036854775808, '-0', '-0', '-infinity', '-infinity'), (2, 32767, 2147483647, 9223372036854775807, 'nan', 'nan', 'infinity', 'infinity'),
	(3, -1, -1, -1, 'infinity', 'infinity', '4713-01-01 BC', '4713-01-01 BC'), (4, 0, 0, 0, 0, 0, '2000-01-01', '2000-01-01'), (5, 1, 1, 1, '-infinity', '-infinity', '1999-12-31', '1999-12-31');
insert into d_edge values (6);
select col, s.rows, s.equal from unnest(array['i2', 'i4', 'i8', 'f4', 'f8', 'dt', 'ts']) col, lateral hjg_same(format('select * from d_edge a join d_edge b on a.%I = b.%I', col, col)) s;
select s.rows, s.equal from hjg_same('select * from d_edge a full join d_edge b on a.i2 = b.i8 and a.f4 = b.f8') s;

-- columns that were dropped and added, rows from before
create table d_alter (gone1 int, id int, gone2 text, k int, v text);
insert into d_alter select g, g, repeat('x', g % 9), g % 40, 'v' || g from generate_series(1, 300) g;
alter table d_alter drop gone1, drop gone2, add new_i int default 7, add new_n int, add new_t text default 'a default', add new_b bool default true, add new_f float8 default 2.5, add new_u uuid default '5f6e0e9e-7b7a-4d46-a51e-0a9c3b4d1c11', add new_s int2 default -3, add new_8 int8 default -5000000000;
insert into d_alter select 1000 + g, g % 40, 'w' || g, g, g, 'n' || g, false, g, null, g, g from generate_series(1, 300) g;
analyze d_alter;
select hjg_direct('select * from d_alter a join d_alter b on a.k = b.new_i');
select * from hjg_same('select * from d_alter a join d_alter b on a.k = b.new_i where a.id % 7 = 0 and b.id % 5 = 0');
select * from hjg_same('select a.id as aid, b.id as bid, b.new_t from d_alter a left join d_alter b on a.k = b.new_n and a.new_s <> b.new_s');
select * from hjg_same('select a.id as aid, b.id as bid from d_alter a join d_alter b on a.new_t = b.new_t and a.new_u = b.new_u and a.k = b.k');
select * from hjg_same('select a.id as aid, b.id as bid from d_alter a full join d_alter b on a.new_8 = b.new_8 and a.new_f = b.new_f and a.id = b.id');
select * from hjg_same('select a.new_s, b.new_8 from d_alter a join d_alter b on a.new_s = b.k where b.id < 100');

-- many columns: NULLs before, among and behind those that are wanted
do $$
begin
	execute (select 'create table d_wide (' || string_agg(format('c%s int', i), ', ') || ')' from generate_series(1, 90) i);
	for g in 1..400 loop
		execute (select 'insert into d_wide values (' || string_agg(case when i = g % 97 or (g % 5 = 0 and i > 60) then 'null' else ((i + g) % 50)::text end, ', ') || ')' from generate_series(1, 90) i);
	end loop;
end $$;
analyze d_wide;
select col, s.* from unnest(array[1, 7, 8, 9, 16, 17, 60, 61, 89]) col,
	lateral hjg_same(format('select a.c%s as x, b.c%s as y, b.c90 from d_wide a left join d_wide b on a.c%s = b.c%s where b.c3 < 9', col, col + 1, col, col + 1)) s;

-- toasted values as keys and as payload, columns behind values of variable width
create table d_toast (t text, id int, k text, x text, y int);
alter table d_toast alter x set storage external;
insert into d_toast select repeat('pad', g % 90), g, case when g % 8 > 0 then repeat('key ' || g % 20, 1 + g % 2 * 700) end, repeat(md5(g::text), 100 + g), g % 33 from generate_series(1, 200) g;
analyze d_toast;
select hjg_direct('select * from d_toast a join d_toast b on a.k = b.k');
select * from hjg_same('select a.id as aid, b.id as bid, md5(a.x) as ax, md5(b.t) as bt from d_toast a join d_toast b on a.k = b.k');
select * from hjg_same('select a.id as aid, b.id as bid, md5(a.x) as ax, md5(b.x) as bx from d_toast a full join d_toast b on a.x = b.x and a.y = b.y');
select * from hjg_same('select a.id as aid, b.id as bid from d_toast a left join d_toast b on a.y = b.id');

-- rows that are not there: deleted, updated in place and elsewhere, rolled back, of this transaction
create table d_dead (id int, k int, v text);
insert into d_dead select g, g % 50, 'v' || g from generate_series(1, 1000) g;
delete from d_dead where id % 7 = 0;
update d_dead set v = v || '!' where id % 5 = 0;
begin;
insert into d_dead select g, g % 50, 'rolled back' from generate_series(2000, 2100) g;
delete from d_dead where id % 3 = 0;
rollback;
begin;
insert into d_dead select g, g % 50, 'mine' from generate_series(3000, 3050) g;
update d_dead set k = k + 1 where id % 11 = 0;
declare before cursor for select count(*), sum(a.id) from d_dead a join d_dead b on a.k = b.k and a.id = b.id;
delete from d_dead where id % 2 = 0;
select * from hjg_same('select a.id as aid, b.id as bid, a.v from d_dead a join d_dead b on a.k = b.k and a.id < b.id');
fetch before;
rollback;
select * from hjg_same('select a.id as aid, b.id as bid, a.v from d_dead a full join d_dead b on a.k = b.k and a.id = b.id');

-- what is not read directly
create view d_view as select id, k, v from probe;
create materialized view d_matview as select id, k, v from probe;
create temp table d_temp as select id, k, v from probe;
create unlogged table d_unlogged as select id, k, v from probe;
analyze d_temp, d_unlogged, d_matview;
select what, hjg_direct(format('select a.id, b.id from %s join build b on a.k = b.k', what)) as direct, s.rows, s.equal
	from unnest(array['d_view a', 'd_matview a', 'd_temp a', 'd_unlogged a', '(select * from probe offset 0) a', '(select id, k + 1 as k from probe) a', '(select ctid as id, k from probe) a',
		'(select tableoid as id, k from probe) a', '(select p as id, k from probe p) a', '(select * from probe tablesample system (100)) a', '(select * from probe where id < 10 union all select * from probe) a',
		'(select g as id, g as k from generate_series(1, 20) g) a']) what,
	lateral hjg_same(format('select count(*) from %s join build b on a.k = b.k', what)) s;
set hjoin_gpu.direct_scan = off;
select hjg_direct('select p.id, b.id from probe p join build b on p.k = b.k');
select * from hjg_same('select a.id as aid, b.id as bid from d_nulls a full join d_types b on a.i2 = b.i4 and a.t = b.t');
reset hjoin_gpu.direct_scan;

-- quals of each kind, in their order
select q, s.rows, s.equal, hjg_direct(format('select p.id, b.id from probe p join build b on p.k = b.k where %s', q)) as direct
	from unnest(array['p.v < 5', 'p.v = 5 and b.v > 3', 'p.t like ''key 1%''', 'p.k is null or b.t is not null', 'p.t is null', 'p.v in (1, 2, 3, null)', 'p.v not in (1, 2)', 'p.v = any (array(select v from one_row))',
		'p.v between 3 and 9 and p.t < b.t', 'exists (select 1 from one_row o where o.v = p.v)', 'p.v = (select max(v) from one_row)', 'p.v > (select count(*) from one_row o where o.v = p.v)', 'random() >= 0 and p.v < 3', 'p.v < 0', 'true']) q,
	lateral hjg_same(format('select p.id as pid, b.id as bid from probe p join build b on p.k = b.k where %s', q)) s;
create function d_tells(text, int) returns bool language plpgsql cost 0.0000001 as $$ begin raise info '% %', $1, $2; return true; end $$;
create view d_barrier with (security_barrier) as select * from probe where v = 7 and id < 200;
select count(*) from d_barrier p join build b on p.id = b.id where d_tells('barrier lets pass', p.id);
-- an error of a qual is core's
select count(*) from probe p join build b on p.k = b.k where 100 / (p.v - 3) > 0;

-- parameters, generic plans, rescans
set plan_cache_mode = force_generic_plan;
prepare d_generic(int, text) as select count(*), sum(p.id) from probe p join build b on p.k = b.k where p.v < $1 and b.t > $2;
execute d_generic(5, 'key 2');
execute d_generic(20, 'key 1');
execute d_generic(null, 'key 1');
set hjoin_gpu.enabled = off;
deallocate d_generic;
prepare d_generic(int, text) as select count(*), sum(p.id) from probe p join build b on p.k = b.k where p.v < $1 and b.t > $2;
execute d_generic(5, 'key 2');
execute d_generic(20, 'key 1');
execute d_generic(null, 'key 1');
deallocate d_generic;
reset hjoin_gpu.enabled;
reset plan_cache_mode;
select * from hjg_same('select x, n from generate_series(0, 12) x, lateral (select count(*) as n from probe p where p.v = x and not exists (select from build b where p.k = b.k)) y');
select * from hjg_same('select x, n from generate_series(0, 12) x, lateral (select count(*) as n from probe p join build b on p.k = b.k where b.v = x) y');
select * from hjg_same('select x, n from generate_series(0, 12) x, lateral (select count(*) as n from probe p join build b on p.k + x = b.k where b.v = x and p.v > x) y');
select * from hjg_same('select o.id, (select count(*) from probe p left join build b on p.k = b.k where p.v < o.v) as n from build o where o.id < 9');
-- a scan that is abandoned in the middle of a page, and started over
select * from hjg_same('select x, y.pid is not null as some from generate_series(1, 40) x left join lateral (select p.id as pid from probe p join build b on p.k = b.k where p.v > x % 25 limit 1) y on true');
begin;
declare c scroll cursor for select p.id from probe p join build b on p.k = b.k and p.v = b.v order by 1, b.id;
fetch 2 from c;
fetch backward 1 from c;
move forward 1000000 in c;
fetch backward 1 from c;
rollback;
begin;
declare c cursor for select p.id > 0 as some from probe p join build b on p.k = b.k;
fetch 1 from c;
fetch 1 from c;
close c;
commit;

-- what follows is counted on pages
set hjoin_gpu.kept_columns = off;
-- EXPLAIN ANALYZE: the scans' rows, loops, removed rows and buffers are core's
create function d_scans(query text) returns table (scan text, loops int, scanned int, removed int, buffers int) language sql as $$
	select x->>'Alias', (x->>'Actual Loops')::int, (x->>'Actual Rows')::numeric::int, coalesce(x->>'Rows Removed by Filter', '0')::int,
		(x->>'Shared Hit Blocks')::int + (x->>'Shared Read Blocks')::int
	from jsonb_path_query(hjg_explained('analyze, buffers, costs off, timing off, summary off', query), 'strict $.** ? (@."Node Type" == "Seq Scan")') x order by 1 $$;
create function d_same_scans(query text) returns table (scan text, loops int, scanned int, removed int, same_buffers bool, core bool) language plpgsql as $$
declare
	r record;
	c record;
begin
	for r in select * from d_scans(query) loop
		set local hjoin_gpu.direct_scan = off;
		select * into c from d_scans(query) x where x.scan = r.scan;
		set local hjoin_gpu.direct_scan = on;
		return query select r.scan, r.loops, r.scanned, r.removed, r.buffers = c.buffers, (r.loops, r.scanned, r.removed) = (c.loops, c.scanned, c.removed);
	end loop;
end $$;
select * from d_same_scans('select p.id, b.id from probe p join build b on p.k = b.k');
select * from d_same_scans('select p.id, b.id from probe p join build b on p.k = b.k where p.v < 5 and b.t is not null');
select * from d_same_scans('select p.id, b.id from probe p join nothing b on p.k = b.k');
select * from d_same_scans('select x, n from generate_series(0, 4) x, lateral (select count(*) as n from probe p where p.v >= x and not exists (select from build b where p.k = b.k)) y');
select * from d_same_scans('select p.id, b.id from d_dead p full join d_dead b on p.k = b.k and p.id = b.id');
-- without build rows, no row of the probe side is read
select scan, scanned from d_scans('select p.id, b.id from probe p join build b on p.k = b.k where b.v < 0');

-- statistics: scans and rows read, as core counts them
create function d_stats(query text) returns table (rel name, scans bigint, read bigint) language plpgsql as $$
declare
	n bigint;
begin
	drop table if exists d_before;
	create temp table d_before on commit drop as select relname, seq_scan, seq_tup_read from pg_stat_xact_user_tables;
	execute format('select count(*) from (%s) q', query) into n;
	return query select s.relname, s.seq_scan - coalesce(b.seq_scan, 0), s.seq_tup_read - coalesce(b.seq_tup_read, 0) from pg_stat_xact_user_tables s left join d_before b using (relname)
		where s.relname in ('probe', 'build', 'd_dead') and s.seq_scan > coalesce(b.seq_scan, 0) order by 1;
end $$;
select * from d_stats('select p.id from probe p join build b on p.k = b.k where p.v < 4');
set hjoin_gpu.direct_scan = off;
select * from d_stats('select p.id from probe p join build b on p.k = b.k where p.v < 4');
reset hjoin_gpu.direct_scan;
select * from d_stats('select p.id from d_dead p join build b on p.k = b.k');

-- blocks as well, and for a table that has been read often
create function d_blocks(query text) returns text language plpgsql as $$
declare
	fetched bigint;
	hit bigint;
	n bigint;
begin
	for i in 1..8 loop
		select sum(pg_stat_get_xact_blocks_fetched(oid)), sum(pg_stat_get_xact_blocks_hit(oid)) into fetched, hit from pg_class where relname in ('probe', 'build');
		execute format('select count(*) from (%s) q', query) into n;
	end loop;
	return (select format('%s %s', sum(pg_stat_get_xact_blocks_fetched(oid)) - fetched, sum(pg_stat_get_xact_blocks_hit(oid)) - hit)
		from pg_class where relname in ('probe', 'build'));
end $$;
create temp table d_counted as select d_blocks('select p.id from probe p join build b on p.k = b.k') as blocks;
set hjoin_gpu.direct_scan = off;
select blocks <> '0 0' as counted, blocks = d_blocks('select p.id from probe p join build b on p.k = b.k') as as_core from d_counted;
reset hjoin_gpu.direct_scan;

reset hjoin_gpu.kept_columns;
-- partitions on disk: rows go one by one, from pages
set work_mem = '64kB';
set hash_mem_multiplier = 1;
create table d_spill as select g as id, case when g % 50 > 0 then g % 4000 end as k, repeat('s', g % 60) as t from generate_series(1, 8000) g;
analyze d_spill;
select hjg_direct('select * from d_spill a full join d_spill b on a.k = b.k');
select * from hjg_same('select a.id as aid, b.id as bid, a.t, b.t as bt from d_spill a full join d_spill b on a.k = b.k and a.id <> b.id');
select * from hjg_same('select a.id as aid, b.id as bid from d_spill a join d_types b on a.t = b.t');
reset work_mem;
reset hash_mem_multiplier;

-- partial scans of parallel workers
call hjg_parallel(3, 0.1);
set hjoin_gpu.marshal_tuple_cost = 0.01;
explain (costs off) select count(*), sum(a.id) from d_spill a join build b on a.k = b.k where a.id > 100;
select count(*), sum(a.id) from d_spill a join build b on a.k = b.k where a.id > 100;
set hjoin_gpu.enabled = off;
select count(*), sum(a.id) from d_spill a join build b on a.k = b.k where a.id > 100;
reset hjoin_gpu.enabled;
reset hjoin_gpu.marshal_tuple_cost;
select * from hjg_same('select a.id as aid, b.id as bid from d_spill a join d_spill b on a.k = b.k where a.id % 3 = 0');
select * from hjg_same('select x, n from generate_series(0, 3) x, lateral (select count(*) as n from d_spill p join build b on p.k = b.k where p.id % 4 = x) y');
select s.* from generate_series(0, 1) x, lateral (select count(*), sum(p.id) from d_spill p join build b on p.k = b.k where p.id > 100 + x) s;
set parallel_leader_participation = off;
select * from hjg_same('select a.id as aid, b.id as bid from d_spill a left join d_spill b on a.k = b.k and b.id < 100');
drop view d_view, d_barrier;
drop materialized view d_matview;
drop table d_types, d_nulls, d_edge, d_alter, d_wide, d_toast, d_dead, d_unlogged, d_spill, d_temp, d_counted;
drop function hjg_direct(text), d_tells(text, int), d_scans(text), d_same_scans(text), d_stats(text), d_blocks(text);
