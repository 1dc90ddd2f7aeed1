-- Tests what a scan is expected to take: by where in the row its columns lie, and by its conditions; and what core's aggregates of numerics do.
set client_min_messages = warning;
set max_parallel_workers_per_gather = 0;
set enable_mergejoin = off;
set enable_nestloop = off;
set hjoin_gpu.force = on;
set hjoin_gpu.kept_columns = off;
-- the model's own costs, not those of the other files
set hjoin_gpu.startup_cost = -1;
set hjoin_gpu.marshal_tuple_cost = -1;
set hjoin_gpu.build_tuple_cost = -1;
set hjoin_gpu.probe_tuple_cost = -1;
set hjoin_gpu.emit_tuple_cost = -1;
create table sp_narrow (k int, v int);
create table sp_wide (k int, v int, n numeric, t1 text, t2 text, t3 text, c char(10), far int);
create table sp_dim (k int);
insert into sp_narrow select g % 1000, g from generate_series(1, 50000) g;
insert into sp_wide select g % 1000, g, g, repeat('a', g % 50), repeat('b', g % 70), 'text', 'MAIL', g % 1000 from generate_series(1, 50000) g;
insert into sp_dim select generate_series(0, 999);
vacuum analyze sp_narrow, sp_wide, sp_dim;

-- microseconds that the model expects for the scan of a table, in its join with sp_dim
create function sp_us(tab text, key text, condition text default 'true') returns numeric language plpgsql as $$
declare
	plan json;
begin
	execute format('explain (analyze, format json) select f.k from %I f join sp_dim d on f.%I = d.k where %s', tab, key, condition) into plan;
	plan := plan -> 0 -> 'Plan';
	return (plan -> 'Predicted Phases' ->> case when plan #>> '{Plans,0,Relation Name}' = tab then 'Scan Probe Time' else 'Scan Build Time' end)::numeric * 1000;
end $$;
select sp_us('sp_wide', 'k') > sp_us('sp_narrow', 'k') as long_rows_cost,
	sp_us('sp_wide', 'far') > sp_us('sp_wide', 'k') as a_walk_costs,
	sp_us('sp_wide', 'k', 'v > 0') > sp_us('sp_wide', 'k') as a_condition_costs,
	sp_us('sp_wide', 'k', 'far >= 0') > sp_us('sp_wide', 'k', 'v >= 0') as one_behind_others_costs_more,
	sp_us('sp_wide', 'k', $$t3 = 'text'$$) > sp_us('sp_wide', 'k', 'v > 0') as strings_cost_more,
	sp_us('sp_wide', 'k', $$t3 like '%ex%'$$) > sp_us('sp_wide', 'k', $$t3 = 'text'$$) as searching_them_still_more,
	sp_us('sp_wide', 'k', 'n > 0') > sp_us('sp_wide', 'k', 'v > 0') as numerics_cost_more,
	sp_us('sp_wide', 'k', 'v + 0 > 0') > 2 * sp_us('sp_wide', 'k', 'v > 0') as core_code_costs_most;
select sp_us('sp_wide', 'k', 'v not in (select k from sp_dim where k < 5)') < 2 * sp_us('sp_wide', 'k', 'v > 0') as lists_of_subqueries_are_lists;
-- rows that one condition drops are not asked the next one
select sp_us('sp_wide', 'k', 'v < 500 and v + 0 > 0') < sp_us('sp_wide', 'k', 'v + 0 > 0') / 2 as dropped_rows_cost_less;
-- core's code is what the scan leaves to it, whatever the order in the query
select sp_us('sp_wide', 'k', 'v + v > 0 and v < 500') = sp_us('sp_wide', 'k', 'v < 500 and v + v > 0') as in_the_order_of_the_scan;
-- kept columns, where the server has memory for them, are read in less time than pages
select sp_us('sp_wide', 'far', 'v < 500') as pages_us, hjoin_gpu_keep('sp_wide') = 0 as nothing_kept \gset
set hjoin_gpu.kept_columns = on;
select :'nothing_kept' or sp_us('sp_wide', 'far', 'v < 500') < 0.5 * :pages_us as kept_columns_save,
	sp_us('sp_wide', 'far', 'v + 0 < 500') > 0.5 * :pages_us as core_code_reads_pages;
set hjoin_gpu.kept_columns = off;
drop function sp_us(text, text, text);
-- workers are new processes, which map the pages that they read, unless these are huge
create function sp_shared_us(workers int) returns numeric language plpgsql as $$
declare
	plan json;
begin
	perform set_config('max_parallel_workers_per_gather', workers::text, true);
	execute 'explain (analyze, format json) select f.k from sp_wide f join sp_dim d on f.k = d.k' into plan;
	plan := plan -> 0 -> 'Plan';
	if plan ->> 'Node Type' = 'Gather' then
		plan := plan #> '{Plans,0}';
	end if;
	return (plan -> 'Predicted Phases' ->> 'Scan Probe Time')::numeric * 1000;
end $$;
begin;
set local min_parallel_table_scan_size = 0;
set local parallel_setup_cost = 0;
set local parallel_tuple_cost = 0;
alter table sp_wide set (parallel_workers = 2);
select sp_shared_us(2) * 2.4 > 1.2 * sp_shared_us(0) or
	(select state = 'reserved' or huge_bytes > 0 from hjoin_gpu_huge_pages() where memory = 'shared buffers') as workers_map_what_they_read;
rollback;
drop function sp_shared_us(int);
-- what the join's filter drops is not read further: a key in front is worth more than one behind strings
create function sp_probe_us(key text) returns numeric language plpgsql as $$
declare
	plan json;
begin
	execute format('explain (analyze, format json) select f.k, f.far from sp_wide f where exists (select from sp_dim d where f.%I = d.k and d.k < 10) and f.far >= 0', key) into plan;
	return (plan -> 0 -> 'Plan' -> 'Predicted Phases' ->> 'Marshal Probe Time')::numeric * 1000;
end $$;
set hjoin_gpu.bloom_filter = on;
select sp_probe_us('k') < 0.7 * sp_probe_us('far') as a_filter_saves;
reset hjoin_gpu.bloom_filter;
drop function sp_probe_us(text);
-- microseconds that the model expects for grouping
create function sp_group_us(value text) returns numeric language plpgsql as $$
declare
	plan json;
begin
	execute format('explain (analyze, format json) select k, sum(%s) from sp_wide group by k', value) into plan;
	return (plan -> 0 -> 'Plan' ->> 'Predicted Time')::numeric * 1000;
end $$;
set hjoin_gpu.aggregate = on;
select sp_group_us('n') > sp_group_us('v') as numerics_are_read, sp_group_us('abs(v)') > 2 * sp_group_us('v') as core_code_is_slower;
reset hjoin_gpu.aggregate;
drop function sp_group_us(text);
-- rows that the filter of a join above drops are not grouped
create function sp_grouping_us(filter text) returns numeric language plpgsql as $$
declare
	plan json;
begin
	perform set_config('hjoin_gpu.bloom_filter', filter, true);
	execute 'explain (analyze, format json) select c from (select k, v, count(*) c from sp_narrow group by k, v) g join sp_dim d on g.k = d.k where d.k < 10' into plan;
	return (select (x ->> 'Predicted Time')::numeric * 1000 from jsonb_path_query(plan::jsonb, 'strict $.** ? (@."Custom Plan Provider" == "GpuAggregate")') x);
end $$;
begin;
set local hjoin_gpu.aggregate = on;
select sp_grouping_us('auto') < 0.5 * sp_grouping_us('off') as dropped_rows_are_not_grouped;
rollback;
drop function sp_grouping_us(text);
drop table sp_narrow, sp_wide, sp_dim;
-- an index whose rows lie scattered is left alone where the columns are kept, but not for a few rows, and not by core's plans
create table sp_range as select (g * 7919::bigint % 200000)::int as d, g as v, repeat('a', 60) as pad from generate_series(1, 200000) g;
create index on sp_range (d);
vacuum analyze sp_range;
create function sp_scan(query text) returns text language plpgsql as $$
declare
	plan json;
begin
	execute 'explain (format json) ' || query into plan;
	return (regexp_match(plan::text, '"Node Type": "((Seq|Index|Bitmap Heap) Scan)"'))[1];
end $$;
reset hjoin_gpu.force;
set hjoin_gpu.aggregate = on;
select hjoin_gpu_keep('sp_range') = 0 as nothing_kept \gset
select sp_scan('select sum(v) from sp_range where d < 20000') <> 'Seq Scan' as pages_cost_more;
set hjoin_gpu.kept_columns = on;
select :'nothing_kept' or sp_scan('select sum(v) from sp_range where d < 20000') = 'Seq Scan' as kept_columns_cost_less,
	:'nothing_kept' or sp_scan('select f.v from sp_range f join generate_series(1, 5000) x on f.v = x where f.d < 20000') = 'Seq Scan' as in_a_join_too,
	sp_scan('select sum(v) from sp_range where d < 20') <> 'Seq Scan' as few_rows_cost_less;
set hjoin_gpu.enabled = off;
select sp_scan('select sum(v) from sp_range where d < 20000') <> 'Seq Scan' as core_reads_the_index;
set hjoin_gpu.enabled = on;
set hjoin_gpu.kept_columns = off;
set hjoin_gpu.force = on;
reset hjoin_gpu.aggregate;
drop function sp_scan(text);
drop table sp_range;
-- Joins of ours are compared in one currency: a table that a small one leaves few rows of is joined with that first.
create table orders_of as select g as id, g % 20000 as k, g % 1000 as v from generate_series(1, 300000) g;
create table makers as select g as k, g % 25 as n, g % 77 as a from generate_series(0, 19999) g;
create unique index on makers (k);
create table nations as select g as n, 'nation ' || g as t from generate_series(0, 24) g;
vacuum analyze orders_of, makers, nations;
reset hjoin_gpu.force;
set hjoin_gpu.transfer_cost = -1;
explain (costs off) select o.id, m.a from orders_of o join makers m on o.k = m.k join nations n on m.n = n.n where n.t = 'nation 7';
drop table orders_of, makers, nations;

-- Core charges for an operator on numerics as for one on integers; where that is little, aggregates of integers stay core's, and those of numerics do not.
create table amounts as select g % 5 as k, (g % 1000)::numeric(12, 2) as a, (g % 77)::numeric(12, 2) as b from generate_series(1, 100000) g;
vacuum analyze amounts;
set hjoin_gpu.aggregate = on;
set cpu_operator_cost = 0.0002;
set cpu_tuple_cost = 0.0005;
explain (costs off) select k, sum(k), count(*), min(k), max(k) from amounts group by k;
explain (costs off) select k, sum(a), sum(a * b), avg(a * (1 - b)), max(b) from amounts group by k;
drop table amounts;
