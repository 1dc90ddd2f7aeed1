-- Aggregates of all rows of a join that the node computes itself: core's answers, whatever way the rows come.
set hjoin_gpu.aggregate = on;

-- As hjg_same, and: were the aggregates computed in the node, and in one that several processes share?
create function agg_same(query text, out equal bool, out in_node bool, out shared bool) language sql as
	$$ select s.equal, hjg_lines(query, 'Aggregates: ') > 0, hjg_lines(query, 'Parallel Custom Scan (GpuHashJoin)') > 0 from hjg_same(query) s $$;
-- The six kinds of join under one condition.
create function agg_kinds(list text, l text, r text, cond text, out equal bool, out in_node bool, out shared bool)
language plpgsql as $$
declare
	kind text;
	res record;
begin
	equal := true;
	in_node := true;
	shared := true;
	foreach kind in array array['inner', 'left', 'right', 'full'] loop
		select * into res from agg_same(format('select %s from %s %s join %s on %s', list, l, kind, r, cond));
		equal := equal and res.equal;
		in_node := in_node and res.in_node;
		shared := shared and res.shared;
	end loop;
	foreach kind in array array['', 'not '] loop
		select * into res from agg_same(format('select %s from %s where %sexists (select 1 from %s where %s)', replace(list, 'r.', 'l.'), l, kind, r, cond));
		equal := equal and res.equal;
		in_node := in_node and res.in_node;
		shared := shared and res.shared;
	end loop;
end $$;

-- Shape.
set hjoin_gpu.force = on;
explain (costs off) select count(*) from probe p join build b on p.k = b.k;
explain (verbose, costs off) select sum(p.v + b.v) as s, avg(p.v), count(*) + 1 from probe p left join build b on p.k = b.k having max(b.v) > 3;
set hjoin_gpu.kept_columns = off;
select hjg_analyze('select count(b.t), count(*), min(p.k8) from probe p join build b on p.k = b.k');
reset hjoin_gpu.kept_columns;
set hjoin_gpu.aggregate = off;
explain (costs off) select count(*) from probe p join build b on p.k = b.k;
set hjoin_gpu.aggregate = on;
reset hjoin_gpu.force;
-- Where handing out rows is what makes the join dearer than core's, its aggregates are not; but they are where GEQO makes the join.
set hjoin_gpu.startup_cost = 0;
set hjoin_gpu.marshal_tuple_cost = 0;
set hjoin_gpu.build_tuple_cost = 0;
set hjoin_gpu.probe_tuple_cost = 0;
set hjoin_gpu.emit_tuple_cost = 1;
explain (costs off) select p.v, b.v from probe p join build b on p.k = b.k;
explain (costs off) select count(*), sum(p.v), max(b.v) from probe p join build b on p.k = b.k having count(*) > 0;
set geqo_threshold = 2;
explain (costs off) select count(*), sum(p.v), max(b.v) from probe p join build b on p.k = b.k having count(*) > 0;
reset geqo_threshold;
-- A condition of each pair has rows handed out one by one, and so do aggregates that the node does not know.
explain (costs off) select count(*) from probe p join build b on p.k = b.k and p.v < b.v;
explain (costs off) select count(*), bit_or(p.v) from probe p join build b on p.k = b.k;
reset hjoin_gpu.startup_cost;
reset hjoin_gpu.marshal_tuple_cost;
reset hjoin_gpu.build_tuple_cost;
reset hjoin_gpu.probe_tuple_cost;
reset hjoin_gpu.emit_tuple_cost;

-- All aggregates and kinds of join, keys and values with NULLs.
create table agg_l (id int, k int, b bool, i2 int2, i4 int4, i8 int8, d date, ti time, ts timestamp, tz timestamptz, m money, t text, f float8, n numeric);
insert into agg_l
	select g, case when g % 11 > 0 then g % 300 end, case when g % 5 > 0 then g % 3 = 0 end, case when g % 7 > 0 then g % 100 - 50 end,
		case when g % 13 > 0 then g * 1001 - 900000 end, case when g % 17 > 0 then (g - 1000)::int8 << 44 end, date '2020-01-01' + g % 900,
		time '00:00' + g * interval '1 second', case when g % 19 > 0 then timestamp '2020-01-01' + g * interval '1 minute' end,
		timestamptz '2020-01-01 00:00+00' + g * interval '1 hour', g::text::money, case when g % 3 > 0 then 't' || g end, g * 0.5, g
	from generate_series(1, 2000) g;
create table agg_r as select id, case when id % 9 > 0 then id % 400 end as k, not b as b, i2, i4, i8, d, ti, ts, tz, m, t, f, n from agg_l where id <= 700;
insert into agg_l (id, k, d, ts, tz, i8, i4) values (3001, 5, 'infinity', '-infinity', 'infinity', -9223372036854775808, -2147483648), (3002, 6, '-infinity', 'infinity', '-infinity', 9223372036854775807, 2147483647);
vacuum analyze agg_l;
vacuum analyze agg_r;
select * from agg_kinds('count(*)', 'agg_l l', 'agg_r r', 'l.k = r.k');
select * from agg_kinds('count(l.t), count(r.t), count(l.b), count(1), count(r.n), count(''x'')', 'agg_l l', 'agg_r r', 'l.k = r.k');
select * from agg_kinds('sum(l.i2), sum(r.i4), sum(l.i8), sum(r.i8), avg(r.i2), avg(l.i4), avg(l.i8), avg(r.i8)', 'agg_l l', 'agg_r r', 'l.k = r.k');
select * from agg_kinds('min(l.i2), max(r.i2), min(l.i4), max(l.i4), min(l.i8), max(r.i8), min(l.d), max(l.d), min(r.d), max(r.ti), min(l.ti), min(l.ts), max(l.ts), max(r.ts), min(l.tz), max(l.tz), min(r.m), max(l.m)', 'agg_l l', 'agg_r r', 'l.k = r.k');
select * from agg_kinds('bool_and(l.b), bool_or(l.b), every(r.b), bool_or(r.b)', 'agg_l l', 'agg_r r', 'l.k = r.k');
select * from agg_kinds('sum(l.i2 + r.i4), sum(l.i2 * r.i2), sum(-l.i2), sum(l.i2::int4 * 3 - r.i4), sum(l.i4::int8 * r.i2), avg(l.i2 - r.i2 + 1), min(-r.i2), max(l.i2::int8 + r.i4), count(l.i2 + r.i2), sum(l.i4)', 'agg_l l', 'agg_r r', 'l.k = r.k');
-- of constants alone no column is read, and rows come by the thousand
select * from agg_kinds('sum(2), avg(3::int8), min(-5), max(7::int8), count(1)', 'agg_l l', 'agg_r r', 'l.k = r.k');
-- rows looked at one by one: conditions of the join, keys that travel as hashes, filters after null extension
select * from agg_kinds('count(*), sum(l.i2 + r.i2), count(r.t)', 'agg_l l', 'agg_r r', 'l.k = r.k and l.i2 < r.i2');
select * from agg_kinds('count(*), sum(l.i2 + r.i2), count(r.t)', 'agg_l l', 'agg_r r', 'l.t = r.t');
select * from agg_kinds('count(*), sum(l.i2 + r.i2), count(r.t)', 'agg_l l', 'agg_r r', 'l.k = r.k and length(l.t) >= length(r.t)');
select * from agg_same('select count(*), sum(l.i4::int8), count(r.id) from agg_l l left join agg_r r on l.k = r.k where r.id is null or l.id % 2 = 0');
-- nothing comes, on either side or both, or nothing matches
select * from agg_kinds('count(*), count(l.v), sum(r.v), avg(r.v), min(l.v), avg(l.v::int8)', 'probe l', 'nothing r', 'l.k = r.k');
select * from agg_kinds('count(*), count(l.v), sum(r.v), avg(r.v), min(l.v), avg(l.v::int8)', 'nothing l', 'probe r', 'l.k = r.k');
select * from agg_kinds('count(*), count(l.v), sum(r.v), avg(r.v), min(l.v), avg(l.v::int8)', 'probe l', 'build r', 'l.k = r.k + 100000');
select * from agg_kinds('count(*), count(l.v), sum(r.v), avg(r.v), min(l.v), avg(l.v::int8)', 'one_row l', 'one_row r', 'l.k = r.k');
-- HAVING, with and without aggregates in the list; the same aggregate several times; other expressions over them
select * from agg_same('select count(*) from probe p join build b on p.k = b.k having sum(p.v) > 10 and max(b.v) < 5');
select * from agg_same('select 1 from probe p join build b on p.k = b.k having count(*) > 10');
select * from agg_same('select sum(p.v), sum(p.v) + count(p.v) * 2, avg(p.v)::text, (select count(*) from build) - sum(p.v) from probe p join build b on p.k = b.k');
select * from agg_same('select count(*) as c from probe p join build b on p.k = b.k order by c limit 1');
select * from agg_same('select count(*) from probe p join build b on p.k = b.k limit 0');
-- a join of joins, subqueries, both sides of a union, the aggregates joined in turn
select * from agg_same('select count(*), sum(p.v + c.v), min(b.id) from probe p join build b on p.k = b.k join build c on p.v = c.id');
select * from agg_same('select * from (select sum(p.v) as s from probe p join build b on p.k = b.k) x join (select max(p.v) as m from probe p join build b on p.v = b.v) y on x.s > y.m');
select * from agg_same('select sum(p.v) from probe p join build b on p.k = b.k union all select count(*) from probe p join build b on p.v = b.id');
select * from agg_same('select sum(x.w) from (select p.v + 1 as w, p.k from probe p offset 0) x join build b on x.k = b.k');
-- once more for each row of another table, with and without a parameter in an argument
select * from agg_same('select o.id, (select sum(p.v + o.id) from probe p join build b on p.k = b.k where p.v = o.v) from build o where o.id < 60');
select * from agg_same('select o.id, x.* from build o, lateral (select count(*) as c, max(p.v - o.v) as m, avg(b.id) as a from probe p join build b on p.k = b.k and b.v = o.v) x where o.id < 60');

-- Left to core's Agg.
select list, (agg_same(format('select %s from agg_l l join agg_r r on l.k = r.k', list))).*
from unnest(array['sum(l.f)', 'sum(l.n / 7)', 'min(l.t)', 'count(distinct l.i4)', 'count(*) filter (where l.b)', 'sum(l.i4 / 7)', 'count(*), string_agg(l.t, '','' order by l.id)',
	'sum(abs(l.i2))', 'count(l)', 'sum(length(r.t))', 'min(l.f)', 'sum(coalesce(l.i4, 0))']) as list;
select * from agg_same('select l.k, count(*) from agg_l l join agg_r r on l.k = r.k group by l.k');
select * from agg_same('select count(*) from agg_l l join agg_r r on l.k = r.k group by ()');

-- Errors: text and code of core, where any row is beyond a type, and none of what is NULL.
create table agg_edge (k int, a2 int2, b2 int2, a4 int4, b4 int4, a8 int8, b8 int8);
insert into agg_edge select 1, 1, 1, 1, 1, 1, 1 from generate_series(1, 700);
insert into agg_edge values (1, 32767, 1, 2147483647, 1, 9223372036854775807, 1), (2, -32768, 1, -2147483648, 1, -9223372036854775808, 1),
	(3, -32768, null, -2147483648, null, -9223372036854775808, null), (4, null, -32768, null, -2147483648, null, -9223372036854775808),
	(5, 200, 200, 70000, 70000, 5000000000, 5000000000), (6, -32767, -1, -2147483647, -1, -9223372036854775807, -1);
create table agg_keys as select k from generate_series(1, 6) k;
analyze agg_edge;
analyze agg_keys;
create view agg_outcomes as
	select list, key, o.*, hjg_lines(query, 'Aggregates: ') > 0 as in_node from unnest(array['a2 + b2', 'a2 - b2', 'b2 - a2', 'a2 * b2', '-a2', '-b2', 'a4 + b4', 'a4 - b4', 'b4 - a4', 'a4 * b4', '-a4', '-b4', 'a2 * a4', 'a8 + b8', 'a8 - b8', 'b8 - a8', 'a8 * b8', '-a8',
		'a8 + b4', 'b2 - a8', 'a4 * a8', 'a4::int8 + b4', 'a2::int4 - b2', 'b8 + a8 - 1', 'a4 + b4 - a4']) list, generate_series(1, 6) key,
	format('select concat_ws('' '', sum(%1$s), avg(%1$s), min(%1$s), max(%1$s), count(*)) from agg_edge e join agg_keys r using (k) where r.k + 0 = %2$s', list, key) query, hjg_outcome(query) o;
create table agg_found as select * from agg_outcomes;
select count(*) as outcomes, count(*) filter (where of_core ~ '^22003') as failures, count(*) filter (where of_core is distinct from of_ours) as differing, bool_and(in_node) as in_node from agg_found;
select of_ours, count(*), string_agg(list || ' of ' || key, ', ' order by list collate "C", key) from agg_found where of_ours ~ '^[0-9]{5}:' group by 1 order by 1;
select * from agg_found where of_core is distinct from of_ours;

-- Thousands of operations in one another: the stack is no deeper for it than core's.
create function agg_nested(n int) returns text language plpgsql as $$
declare
	sum text;
begin
	execute format('select sum(p.v%s) from probe p join build b on p.k = b.k', repeat(' + b.v', n)) into sum;
	return sum;
end $$;
set hjoin_gpu.enabled = off;
select agg_nested(30), agg_nested(300), agg_nested(3500);
reset hjoin_gpu.enabled;
set hjoin_gpu.force = on;
select agg_nested(30), agg_nested(300), agg_nested(3500);
reset hjoin_gpu.force;

-- Prepared, with parameters that are constants once and stay parameters another time.
prepare p_sum(int, int8) as select sum(p.v + $1), sum(p.v * $2), count($1), min(b.v - $1) from probe p join build b on p.k = b.k where b.v > 3;
set hjoin_gpu.enabled = off;
execute p_sum(5, 7);
execute p_sum(null, 7);
reset hjoin_gpu.enabled;
set hjoin_gpu.force = on;
set plan_cache_mode = force_custom_plan;
execute p_sum(5, 7);
set plan_cache_mode = force_generic_plan;
execute p_sum(5, 7);
execute p_sum(null, 7);
execute p_sum(2147483647, 7);
explain (verbose, costs off) execute p_sum(1, 2);
prepare p_constant(int) as select sum($1), count($1), min($1), avg($1), count(*) from probe p join build b on p.k = b.k;
execute p_constant(5);
execute p_constant(null);
deallocate p_constant;
reset plan_cache_mode;
deallocate p_sum;

-- A cursor that goes forward, and one that starts over.
begin;
declare c scroll cursor for select count(*), sum(p.v) from probe p join build b on p.k = b.k;
fetch 2 from c;
fetch backward 1 from c;
fetch forward 1 from c;
commit;
reset hjoin_gpu.force;

-- Several processes: shared build sides and build sides of their own, workers that do not come, RIGHT and FULL.
call hjg_parallel();
set hjoin_gpu.force = on;
create table agg_big as select g as id, case when g % 31 > 0 then g % 9000 end as k, (g % 77)::int2 as v, (g::int8 << 45) as i8, g % 4 = 0 as b, date '2020-01-01' + g % 999 as d,
	case when g % 7 > 0 then repeat('x', 30) end as t from generate_series(1, 30000) g;
create table agg_side as select g as id, case when g % 29 > 0 then g % 11000 end as k, case when g % 3 > 0 then g % 55 end as v, (g::int8 << 46) as i8, g % 5 = 0 as b, date '2021-01-01' - g % 999 as d,
	case when g % 5 > 0 then repeat('y', 30) end as t from generate_series(1, 20000) g;
analyze agg_big;
analyze agg_side;
explain (verbose, costs off) select sum(l.v + r.v), count(*), avg(l.i8) from agg_big l join agg_side r on l.k = r.k;
reset hjoin_gpu.force;
select * from agg_kinds('count(*)', 'agg_big l', 'agg_side r', 'l.k = r.k');
select * from agg_kinds('count(*), sum(l.v + r.v), sum(l.i8), avg(r.i8), avg(r.v), min(l.d), max(r.d), bool_or(l.b), count(r.t)', 'agg_big l', 'agg_side r', 'l.k = r.k');
select * from agg_kinds('count(*), sum(l.v), count(r.t)', 'agg_big l', 'agg_side r', 'l.k = r.k and l.v < r.v');
select * from agg_kinds('count(*), sum(l.v), avg(r.v), sum(r.i8)', 'agg_big l', 'agg_side r', 'l.k = r.k + 100000');
select * from agg_same('select count(*), sum(l.v), avg(r.v), sum(r.i8), min(r.i8) from agg_big l join agg_side r on l.k = r.k where l.v < 0');
set enable_parallel_hash = off;
select * from agg_kinds('count(*), sum(l.v + r.v), sum(l.i8), avg(r.v)', 'agg_big l', 'agg_side r', 'l.k = r.k');
reset enable_parallel_hash;
set parallel_leader_participation = off;
select * from agg_kinds('count(*), sum(l.v + r.v), sum(l.i8), avg(r.v)', 'agg_big l', 'agg_side r', 'l.k = r.k');
reset parallel_leader_participation;
set max_parallel_workers = 0;
select * from agg_kinds('count(*), sum(l.v + r.v), sum(l.i8), avg(r.v)', 'agg_big l', 'agg_side r', 'l.k = r.k');
reset max_parallel_workers;
-- once more for each row of another table
select * from agg_same('select o.k, (select sum(l.v + r.v + o.k) from agg_big l join agg_side r on l.k = r.k where l.v <> o.k) from agg_keys o');
-- through temporary files, together and alone
set work_mem = '64kB';
select * from agg_kinds('count(*), sum(l.v + r.v), count(r.t), max(l.id)', 'agg_big l', 'agg_side r', 'l.k = r.k');
set max_parallel_workers_per_gather = 0;
select * from agg_kinds('count(*), sum(l.v + r.v), count(r.t), max(l.id)', 'agg_big l', 'agg_side r', 'l.k = r.k');
reset work_mem;
-- many rows of one key, in rounds
select * from agg_kinds('count(*), sum(l.v + r.v), min(l.id), max(r.id)', 'agg_big l', 'agg_side r', 'l.v = r.v and l.id < 3000');
reset hjoin_gpu.aggregate;
drop view agg_outcomes;
drop table agg_l, agg_r, agg_edge, agg_keys, agg_found, agg_big, agg_side;
drop function agg_same, agg_kinds, agg_nested;
