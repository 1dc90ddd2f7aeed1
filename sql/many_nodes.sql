-- A plan with many of our nodes: what they take when the executor starts, and when all rows were handed out, beside core's.
set client_min_messages = warning;
set max_parallel_workers_per_gather = 0;
set enable_partitionwise_join = on;
set enable_mergejoin = off;
set enable_nestloop = off;
create table n_left (k int, v int, t text) partition by hash (k);
create table n_right (k int, v int, t text) partition by hash (k);
do $$
begin
	for i in 0 .. 63 loop
		execute format('create table n_left_%s partition of n_left for values with (modulus 64, remainder %s)', i, i);
		execute format('create table n_right_%s partition of n_right for values with (modulus 64, remainder %s)', i, i);
	end loop;
end $$;
insert into n_left select g, g % 100, 'left ' || g from generate_series(1, 32000) g;
insert into n_right select g, g % 100, 'right ' || g from generate_series(1, 16000) g;
analyze n_left, n_right;
create function n_nodes(query text) returns bigint language sql as
	$$ select count(*) from hjg_plan(query) line where line like '%GpuHashJoin%' $$;
-- bytes of executors in this backend
create function n_bytes() returns bigint language sql as
	$$ select sum(total_bytes)::bigint from pg_backend_memory_contexts where name in ('ExecutorState', 'ExprContext', 'HashTableContext', 'HashBatchContext') or name like 'GpuHashJoin%' $$;
-- after so many rows
create function n_taken(query text, nrows int, ours bool) returns bigint language plpgsql as $$
declare
	rows refcursor;
	before bigint := n_bytes();
	taken bigint;
begin
	perform set_config('hjoin_gpu.enabled', ours::text, true);
	open rows no scroll for execute query;
	move forward nrows in rows;
	taken := n_bytes() - before;
	close rows;
	return taken;
end $$;
create function n_at_most(percent int, query text, nrows int) returns text language plpgsql as $$
declare
	core bigint := n_taken(query, nrows, false);
	ours bigint := n_taken(query, nrows, true);
begin
	return case when ours * 100 <= core * percent then 'at most ' || percent || ' %' else format('%s of ours, %s of core''s', ours, core) end;
end $$;
set hjoin_gpu.force = on;
select n_nodes('select l.v, r.t from n_left l join n_right r using (k)');
select n_at_most(140, 'select l.v, r.t from n_left l join n_right r using (k)', 1);
select n_at_most(150, 'select l.v, r.t from n_left l join n_right r using (k)', 20000);
select n_at_most(140, 'select l.v, r.t from n_left l join n_right r using (k) where l.v < 50 and r.v < 90', 1);
select n_at_most(150, 'select l.v, r.t from n_left l join n_right r using (k) where l.v < 50 and r.v < 90', 20000);
-- rows that come, or come again, when that memory was given back
select * from hjg_same('select l.v, r.t from n_left l join n_right r using (k) where l.v < 50 and r.v < 90');
select * from hjg_same('select l.v, l.t, r.t as rt, m.t as mt from n_left l join n_right r using (k) left join n_right m on m.k = l.k and m.v <= r.v');
select * from hjg_same('select o.k, (select sum(l.v + r.v) from n_left l join n_right r using (k) where l.v = o.v and r.v < 70 + o.k) from n_right o where o.k < 6');
select * from hjg_same('select o.k, (select string_agg(r.t, '','' order by r.k) from n_left l join (select * from n_right offset 0) r using (k) where l.v = o.v and l.k < 400) from n_right o where o.k < 6');
-- a table of one page that grows, read again by the same node
set enable_nestloop = on;
create table n_page (k int, v int);
insert into n_page select g, g from generate_series(1, 20) g;
create table n_keys as select g as k from generate_series(1, 4000) g;
analyze n_page, n_keys;
create function n_grow(n int) returns int language plpgsql volatile as $$
begin
	insert into n_page select g, g from generate_series(1, 400) g;
	return n;
end $$;
explain (costs off) select s.n from (select n_grow(g) as n from generate_series(1, 3) g offset 0) s, lateral (select count(*) as c from n_page p join n_keys q on q.k = p.k + 0 * s.n) c;
select s.n, c.c from (select n_grow(g) as n from generate_series(1, 3) g offset 0) s, lateral (select count(*) as c from n_page p join n_keys q on q.k = p.k + 0 * s.n) c;
select count(*) from n_page;
drop table n_left, n_right, n_page, n_keys;
drop function n_nodes, n_bytes, n_taken, n_at_most, n_grow;
