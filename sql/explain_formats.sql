-- EXPLAIN in its four formats.
set hjoin_gpu.force = on;
set max_parallel_workers_per_gather = 0;
-- the words of the cpu engine, also where there is a GPU
set hjoin_gpu.device = 'cpu';
set hjoin_gpu.kept_columns = off;
-- numbers depend on the machine: only the shape is compared
create function hjg_explain(options text, query text) returns setof text language plpgsql as $$
declare
	line text;
begin
	for line in execute format('explain (%s) %s', options, query) loop
		line := regexp_replace(line, E',?\n *["<]?Disabled[^\n,]*', '', 'g');
		foreach line in array string_to_array(line, E'\n') loop
			continue when line ~* 'planning|execution.time|buffers|serialization|memory:';
			line := regexp_replace(line, '\m\d+(\.\d+)?\M', 'N', 'g');
			return next line;
		end loop;
	end loop;
end $$;
explain (costs off) select * from probe p left join build b on p.k = b.k and p.v < b.v;
select * from hjg_explain('costs off, verbose', 'select p.id, b.t from probe p left join build b on p.k = b.k and p.v < b.v');
select * from hjg_explain('costs off, format json', 'select p.id, b.t from probe p left join build b on p.k = b.k and p.v < b.v');
select * from hjg_explain('costs off, format yaml', 'select p.id, b.t from probe p left join build b on p.k = b.k and p.v < b.v');
select * from hjg_explain('costs off, format xml', 'select p.id, b.t from probe p left join build b on p.k = b.k and p.v < b.v');
-- ANALYZE
set hjoin_gpu.in_backend_rows = 0;
select * from hjg_explain('analyze, buffers off, costs off, timing off, summary off', 'select p.id, b.t from probe p left join build b on p.k = b.k and p.v < b.v');
select * from hjg_explain('analyze, buffers off, costs off, timing on, summary off, format json', 'select p.id, b.t from probe p left join build b on p.k = b.k and p.v < b.v');
reset hjoin_gpu.in_backend_rows;
select * from hjg_explain('analyze, buffers off, costs off, timing off, summary off', 'select p.id, b.t from one_row p join build b on p.k = b.k');
-- formats other than text have the same keys wherever the join ran, and when there was none
create function hjg_keys(query text) returns table (engine text, joined_in text, device text, keys text[]) language plpgsql as $$
declare
	plan jsonb;
begin
	execute 'explain (analyze, costs off, format json) ' || query into plan;
	plan := plan->0->'Plan';
	return query select plan->>'Engine', plan->>'Joined In', plan->>'Device', array(select jsonb_object_keys(plan) order by 1);
end $$;
select condition, engine, joined_in, device, keys = first_value(keys) over (order by n) as same_keys
	from (values (1, 'p.id + 0 > 0', '0'), (2, 'p.id + 0 > 0', '1000000'), (3, 'p.id + 0 < 0', '1000000')) variant (n, condition, in_backend_rows),
	set_config('hjoin_gpu.in_backend_rows', in_backend_rows, false),
	hjg_keys('select p.id from probe p left join one_row b on p.k = b.k where ' || condition) order by n;
reset hjoin_gpu.in_backend_rows;
-- every kind of join says what it is
select jt, x from unnest(array['inner', 'left', 'right', 'full']) jt, lateral hjg_plan(format('select * from probe p %s join build b on p.k = b.k', jt)) x where x like '%GpuHashJoin%' or x like '%Join Type%';
