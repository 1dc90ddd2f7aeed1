-- Joins that are left to core, with the reason.
set hjoin_gpu.force = on;
set hjoin_gpu.explain_declined = on;
create function hjg_used(query text) returns bool language sql as $$ select coalesce(bool_or(x like '%GpuHashJoin%'), false) from hjg_plan(query) x $$;
-- no hashable equality
explain (costs off) select * from probe p join build b on p.k < b.k;
explain (costs off) select * from probe p cross join one_row b;
-- rows are locked
explain (costs off) select * from probe p join build b on p.k = b.k for update of p;
-- volatile condition
explain (costs off) select * from probe p join build b on p.k = b.k and p.v + b.v > random();
-- sub-select in the condition, which may return something else for each pair, or is all that there is
explain (costs off) select * from probe p left join build b on p.k = b.k and b.v > (select max(o.v * random()) from one_row o where o.id = p.id);
explain (costs off) select * from probe p left join build b on (select max(o.v) from one_row o where o.id = p.id) = b.k;
-- collation that is not deterministic
explain (costs off) select * from (select t collate hjg_loose as t from probe) p join (select t collate hjg_loose as t from build) b on p.t = b.t;
-- columns of type record, whose fields have names in the plan
explain (verbose, costs off) with c as materialized (select r from (values (1, 2), (3, 4)) r)
	select (c.r).column2 as c2, (s.r).column1 as s1 from c join (select r from (values (1, 7), (3, 8), (5, 9)) r limit 3) s on (c.r).column1 = (s.r).column1;
-- switched off
set hjoin_gpu.enabled = off;
explain (costs off) select * from probe p join build b on p.k = b.k;
set hjoin_gpu.enabled = on;
-- rows as a whole are no such columns
select hjg_used('select p, s from probe p join (select k, v from build limit 9) s on p.k = s.k') as whole_row;
-- whatever is declined, the answer is core's
select count(*) from probe p join build b on p.k = b.k and p.v + b.v > random() - 1;
select count(*) from probe p join build b on p.k < b.k;
select count(*) from (select t collate hjg_loose as t from probe) p join (select t collate hjg_loose as t from build) b on p.t = b.t;
begin;
select count(*) from (select p.id from probe p join build b on p.k = b.k where b.v = 3 for update of p) q;
rollback;
-- without force, a join that core does better stays with core
reset hjoin_gpu.force;
select hjg_used('select * from one_row o join nothing n on o.k = n.k') as tiny_join,
	hjg_used('select * from probe p join build b on p.id = b.id where b.id = 7') as index_lookup;
-- a pair that is taken in one order of its sides is not declined; a plan is the same whether it is watched or not
create function hjg_watched(query text) returns text language plpgsql as $$
declare
	plans text[];
	line text;
begin
	foreach line in array array['off', 'on'] loop
		perform set_config('hjoin_gpu.explain_declined', line, true);
		execute format('select string_agg(x, E''\n'') from (select hjg_costs(%L) as x) q', query) into line;
		plans := plans || line;
	end loop;
	return case when plans[1] = plans[2] then 'the same' else 'another' end;
end $$;
create function hjg_costs(query text) returns setof text language plpgsql as $$
begin
	return query execute 'explain ' || query;
end $$;
set client_min_messages = warning;
select hjg_watched('select count(*) from probe p join build b on p.k = b.k') as large,
	hjg_watched('select * from one_row o join nothing n on o.k = n.k') as small,
	hjg_watched('select * from probe p join build b on p.id = b.id where b.id < 9') as by_index,
	hjg_watched('select count(*) from probe p left join build b on p.k = b.k join one_row o on o.k = p.k where p.v in (select v from build where id < 5)') as chain;
-- GEQO forgets the joins that it tries
set geqo_threshold = 2;
select hjg_watched('select count(*) from probe p join build b on p.k = b.k join one_row o on o.k = p.k join nothing n on n.k = b.k') as by_geqo;
reset geqo_threshold;
reset client_min_messages;
set enable_hashjoin = off;
select hjg_used('select * from probe p join build b on p.k = b.k') as hash_joins_are_off;
reset enable_hashjoin;
reset hjoin_gpu.explain_declined;
