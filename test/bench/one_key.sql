-- one_key.sql: more than 2^31 matches through a node: 47,000 x 47,000 rows of one key, counted above it, by the engine
-- that the variable device names ("cpu" where it names none).
--
--   psql -X -v device=cuda:0 -f test/bench/one_key.sql
--
-- Prints the count, which is checked, its time, and what the node and its job had in memory at most.
\set ON_ERROR_STOP on
\if :{?device} \else \set device cpu \endif
\pset tuples_only on
\pset format unaligned
set client_min_messages = warning;
create unlogged table one_key as select g as id, 1 as k from generate_series(1, 47000) g;
alter table one_key set (parallel_workers = 15);
analyze one_key;
set hjoin_gpu.force = on;
set hjoin_gpu.device = :'device';
set hjoin_gpu.in_backend_rows = 0;
set min_parallel_table_scan_size = 0;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
\timing on
select case when count(*) = 2209000000 and sum(a.id::bigint) = 51912604500000::bigint then 'right' else 'WRONG' end, count(*)
from one_key a join one_key b using (k);
\timing off
create function pg_temp.in_memory(query text) returns text language plpgsql as $$
declare
	plan jsonb;
begin
	execute 'explain (analyze, costs off, timing off, format json) ' || query into plan;
	return format('engine %s, node %s kB, arena %s kB', jsonb_path_query_first(plan, 'strict $.**."Engine"'),
		jsonb_path_query_first(plan, 'strict $.**."Peak Memory Usage"'), jsonb_path_query_first(plan, 'strict $.**."Arena Usage"'));
end $$;
select pg_temp.in_memory('select count(*) from one_key a join one_key b using (k)');
drop table one_key;
