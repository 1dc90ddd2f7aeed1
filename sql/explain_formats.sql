-- EXPLAIN in its four formats.
set hjoin_gpu.force = on;
set max_parallel_workers_per_gather = 0;
-- numbers depend on the machine: only the shape is compared
create function hjg_explain(options text, query text) returns setof text language plpgsql as $$
declare
	line text;
begin
	for line in execute format('explain (%s) %s', options, query) loop
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
set hjoin_gpu.embedded_rows = 0;
select * from hjg_explain('analyze, costs off, timing off, summary off', 'select p.id, b.t from probe p left join build b on p.k = b.k and p.v < b.v');
select * from hjg_explain('analyze, costs off, timing on, summary off, format json', 'select p.id, b.t from probe p left join build b on p.k = b.k and p.v < b.v');
reset hjoin_gpu.embedded_rows;
select * from hjg_explain('analyze, costs off, timing off, summary off', 'select p.id, b.t from one_row p join build b on p.k = b.k');
-- every kind of join says what it is
select jt, x from unnest(array['inner', 'left', 'right', 'full']) jt, lateral hjg_plan(format('select * from probe p %s join build b on p.k = b.k', jt)) x where x like '%GpuHashJoin%' or x like '%Join Type%';
