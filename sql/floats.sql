-- Aggregates and arithmetic of floats in the node: core's answers, to the last digit where rows come in core's order.
set hjoin_gpu.aggregate = on;
set hjoin_gpu.programs = off;
set max_parallel_workers_per_gather = 0;
set extra_float_digits = 3;

-- odd: all kinds of numbers; f8, f4: numbers whose sums depend on the order; e8, e4: numbers whose sums do not
create table flo (id int, k int, many int, odd8 float8, odd4 float4, f8 float8, f4 float4, e8 float8, e4 float4, n float8, i2 int2, i4 int4, i8 int8);
insert into flo select g, g % 7, g * 7919 % 5003,
	(array['NaN', 'Infinity', '-Infinity', '-0', '0', '4.9e-324', '-1e-300', '1e140'])[case when g % 5 = 0 then g % 13 else 5 end]::float8,
	(array['NaN', '-Infinity', '-0', '0', '1e-45', '1e18', '3.25'])[case when g % 5 = 0 then g % 11 else 7 end]::float4,
	sqrt(g) * 1000 / (1 + g % 17), cbrt(g) / (1 + g % 13), (g % 1001 - 300) / 8.0, (g % 77 - 30) / 4.0, case when g % 3 > 0 then g / 7.0 end, g % 100, g * 100, g * 5000000000
	from generate_series(1, 20000) g;
create table flo_keys as select k, -0.0::float8 as z from generate_series(1, 6) k;
vacuum analyze flo;
vacuum analyze flo_keys;

-- Sums need the setting, extremes do not.
set hjoin_gpu.force = on;
set hjoin_gpu.explain_declined = on;
explain (costs off) select sum(f8) from flo;
set hjoin_gpu.explain_declined = off;
explain (costs off) select k, min(f8), max(f4) from flo group by k;
set hjoin_gpu.float_sums = on;
explain (verbose, costs off) select k, sum(f8), avg(f4 * 2::float8) from flo group by k;
reset hjoin_gpu.force;

-- All aggregates: without groups, of few and of many.
create function flo_list(c text) returns text language sql as $$
	select string_agg(format('%s(%s)', a, c), ', ') from unnest(array['sum', 'avg', 'min', 'max', 'count', 'var_pop', 'var_samp', 'variance', 'stddev_pop', 'stddev_samp', 'stddev']) a $$;
select c, s.rows, s.equal, t.rows, t.equal, u.rows, u.equal from unnest(array['f8', 'f4', 'e8', 'e4', 'n', 'odd8', 'odd4', '-odd8', 'f8 + n', 'f8 - e8', 'f8 * n', 'f8 / 3', 'n / f8', 'f4 * 1.5', 'f4 * f8', 'f8 - f4', 'n / f4', 'f4 / f8', 'f4::float8 + i2', 'i4 * f8', 'i8 / f8', 'i2::float8',
	'case when k > 3 then f8 else n end', 'coalesce(n, 0)', 'coalesce(n, f8 * 2)', 'sqrt(f8)', 'f8::float4', 'f4 + f4']) c,
	hjg_same_groups(format('select %s from flo', flo_list(c))) s, hjg_same_groups(format('select k, %s from flo group by k', flo_list(c))) t,
	hjg_same_groups(format('select many, %s from flo group by many', flo_list(c))) u;
-- zeros of both signs: extremes of equal values, and sums of nothing else
select * from hjg_same_groups('select k, min(z), max(z), sum(z), avg(z), min(z::float4), sum(z::float4) from (select k % 3 as k, case when id % 2 = 0 then odd8 * 0 else -0.0::float8 end as z from flo where k <> 3 and abs(odd8) < 1) q group by k');
select * from hjg_same_groups('select k, sum(z), avg(z), min(z), sum(z::float4) from flo_keys group by k');
-- filters, HAVING, groups by a float, by an expression of one, nothing at all
select * from hjg_same_groups('select k, sum(f8) filter (where n > 5), avg(f4) filter (where odd8 = 0), count(*) filter (where f8 < n) from flo group by k having sum(e8) > 10 or max(f8) > 3');
select * from hjg_same_groups('select e4, count(*), sum(f8), min(n) from flo group by e4');
select * from hjg_same_groups('select e8 * 2 as d, e4 / 3, count(*), sum(f8) from flo group by 1, 2');
select * from hjg_same_groups('select odd8, -odd8, count(*) from flo group by 1, 2');
select rows, equal from hjg_same_groups('select sum(f8), avg(f8), min(f8), stddev(f4) from flo where id < 0');
select rows, equal from hjg_same_groups('select k, stddev(f8), variance(f4) from flo where id < 5 group by k');
-- more than the memory for groups holds, and joins: numbers whose sums do not depend on the order
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select * from hjg_same_groups('select id, sum(f8), avg(f8), min(odd8), max(f4), stddev(e8), sum(i4) from flo group by id');
select * from hjg_same_groups('select many, sum(e8), avg(e8), sum(e4), avg(e4), min(f8), max(f4), round(stddev(e8)::numeric, 6), round(var_pop(e4)::numeric, 6) from (select * from flo union all select * from flo) q group by many');
reset work_mem;
reset hash_mem_multiplier;
select * from hjg_same_groups('select r.k, sum(l.e8), avg(l.e4), min(l.odd8), max(l.f8), sum(l.e8 * l.i2), round(stddev(l.e8)::numeric, 6), sum(z) from flo l left join flo_keys r using (k) group by r.k');
select * from hjg_same_groups('select sum(l.e8), avg(l.e4), min(l.n), max(l.f8), sum(l.e8 * l.i2) from flo l join flo_keys r using (k) where l.n > 100');
-- DISTINCT values are added up in their order by core
set hjoin_gpu.explain_declined = on;
set hjoin_gpu.force = on;
select sum(distinct f8) > 0 as core from flo;
set hjoin_gpu.explain_declined = off;
reset hjoin_gpu.force;
select * from hjg_same_groups('select k, count(distinct e8), count(*), min(f8) from flo group by k');

-- Several processes.
call hjg_parallel(2, 1);
select * from hjg_same_groups('select k, sum(e8), avg(e8), sum(e4), avg(e4), min(odd8), max(f4), round(stddev(e8)::numeric, 6), round(var_pop(e4)::numeric, 6), count(n) from flo group by k');
select * from hjg_same_groups('select sum(e8), avg(e8), sum(e4), avg(e4), min(f8), max(f4), round(stddev(e8)::numeric, 6), avg(case when id < 0 then f8 end) from flo');
set cpu_tuple_cost = 5;
select * from hjg_same_groups('select many, sum(e8), avg(e8), sum(e4), avg(e4), min(f8), max(f4), round(stddev(e8)::numeric, 6), variance(n) filter (where id < 0) from flo group by many');
reset cpu_tuple_cost;
set max_parallel_workers_per_gather = 0;

-- Errors: text and code of core; none of rows that a condition drops, and none of NULLs.
create table flo_edge (k int, a float8, b float8, c float4);
insert into flo_edge select 1, 1, 1, 1 from generate_series(1, 700);
insert into flo_edge values (2, 1e308, 1e308, 3e38), (2, 1e308, 1e308, 3e38), (3, 1e-308, 1e-308, 1e-38), (4, 0, 0, 0), (5, 1, 0, 1), (6, 'inf', '-inf', 'inf'), (7, 'nan', 0, 'nan'), (8, null, 0, null), (9, 1e200, -1e200, 1), (9, -1e200, 1e200, 1),
	(10, 'inf', 0, 2), (11, -1e308, 1e308, -3e38), (11, -1e308, 5, -3e38), (12, 1e308, 1e308, 3e38);
analyze flo_edge;
create view flo_outcomes as
	select list, key, o.*, hjg_lines(query, 'GpuAggregate') > 0 as in_node from unnest(array['a', 'b', 'c', 'a + b', 'a - b', 'a * b', 'a / b', 'b / a', '-a', 'a * 1e-20', 'a * 2', 'c * 2::float8', 'case when b <> 0 then a / b end', 'coalesce(b / a, 0)',
		'c + c', '1 / b']) list, generate_series(1, 12) key, unnest(array['sum(%1$s)', 'avg(%1$s)', 'concat_ws('' '', min(%1$s), max(%1$s), count(*))', 'stddev(%1$s)']) agg,
	format('select ' || agg || '::text from flo_edge where k = %2$s group by k', list, key) query, hjg_outcome(query) o;
create table flo_found as select * from flo_outcomes;
select count(*) as outcomes, count(*) filter (where of_core ~ '^22') as failures, count(*) filter (where of_core is distinct from of_ours) as differing, bool_and(in_node) as in_node from flo_found;
select of_ours, count(*) from flo_found where of_ours ~ '^[0-9]{5}:' group by 1 order by 1;
select * from flo_found where of_core is distinct from of_ours;
drop view flo_outcomes;
drop table flo, flo_keys, flo_edge, flo_found;
