-- Variances and standard deviations of integers and numerics in the node: core's answers, to the last digit.
set hjoin_gpu.aggregate = on;
set hjoin_gpu.programs = off;
set max_parallel_workers_per_gather = 0;

-- i2, i4, i8: up to the ends of their types; n, wide, fine: numerics with a precision, of which some do not fit in 64 bits, nor their squares
create table vari (id int, k int, many int, i2 int2, i4 int4, i8 int8, small int4, n numeric(10, 2), wide numeric(38, 4), fine numeric(30, 20), plain numeric, one int);
insert into vari select g, g % 7, g * 7919 % 5003, (g * 13 % 65536 - 32768)::int2, (g::int8 * 429497 % 4294967296 - 2147483648)::int4,
	case when g % 3 = 0 then -9223372036854775807 + g else g::int8 * 1234567891011 end, case when g % 4 > 0 then g % 1000 end,
	case g % 9 when 0 then 'NaN' when 1 then null else (g % 2000001 - 1000000) / 100.0 end, case when g % 2 = 0 then g * 1e29 else g / 3.0 end, sqrt(g::numeric), g / 7.0,
	case when g = 5 then 1 end
	from generate_series(1, 20000) g;
insert into vari (id, k, i2, i4, i8) select 20000 + g, 8, -32768, -2147483648, -9223372036854775808 from generate_series(1, 2) g;
create table vari_keys as select k from generate_series(1, 6) k;
vacuum analyze vari;
vacuum analyze vari_keys;

-- Numerics need a precision: the square of another one might not be a numeric, although core returns a variance.
set hjoin_gpu.force = on;
set hjoin_gpu.explain_declined = on;
select count(s) from (select k, stddev(plain) as s from vari group by k) q;
select count(s) from (select k, stddev(n + 1) as s from vari group by k) q;
set hjoin_gpu.explain_declined = off;
explain (verbose, costs off) select k, var_pop(i4), stddev(n), sum(i4) from vari group by k;
reset hjoin_gpu.force;

-- All of them: without groups, of few and of many.
create function vari_list(c text) returns text language sql as $$
	select string_agg(format('%s(%s)', a, c), ', ') from unnest(array['sum', 'count', 'var_pop', 'var_samp', 'variance', 'stddev_pop', 'stddev_samp', 'stddev']) a $$;
select c, s.rows, s.equal, t.rows, t.equal, u.rows, u.equal from unnest(array['i2', 'i4', 'i8', 'small', 'n', 'wide', 'fine', 'one', 'i8 / -3', 'i2 * 3 + small', 'i4::int8 * i2', 'small::int2',
	'case when k > 3 then i4 end', 'coalesce(small, -1)', 'length(many::text)', '(n * 2)::numeric(20, 3)', 'null::int']) c,
	hjg_same_groups(format('select %s from vari', vari_list(c))) s, hjg_same_groups(format('select k, %s from vari group by k', vari_list(c))) t,
	hjg_same_groups(format('select many, %s from vari group by many', vari_list(c))) u;
-- with others of the same argument, filters, HAVING, DISTINCT, nothing at all, one value
select * from hjg_same_groups('select k, variance(i4), avg(i4), min(i4), sum(i4 * i4::int8), stddev(n), avg(n), max(n), stddev(i8), avg(i8), min(i8) from vari group by k');
select * from hjg_same_groups('select k, stddev(i4) filter (where n > 5), var_pop(n) filter (where i2 > 0), count(*) filter (where i8 < 0) from vari group by k having stddev(i2) > 10');
select * from hjg_same_groups('select k, variance(distinct small), count(distinct small), stddev_pop(distinct small) from vari group by k');
select * from hjg_same_groups('select k, stddev(distinct i8) from vari group by k');
select rows, equal from hjg_same_groups('select stddev(i4), variance(n), var_pop(i8), var_samp(i2) from vari where id < 0');
select rows, equal from hjg_same_groups('select k, stddev(i4), variance(n), var_pop(i8), var_samp(i2) from vari where id < 5 group by k');
-- more than the memory for groups holds, and joins
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select * from hjg_same_groups('select id, stddev(i4), variance(n), var_pop(i8), var_samp(wide) from vari group by id');
select * from hjg_same_groups('select many, stddev(i4), variance(n), var_pop(i8), var_samp(wide) from (select * from vari union all select * from vari) q group by many');
reset work_mem;
reset hash_mem_multiplier;
select * from hjg_same_groups('select v.k, stddev(v.i4), variance(v.n), var_pop(v.i8), stddev(v.fine) from vari v left join vari_keys r using (k) group by v.k');
select * from hjg_same_groups('select stddev(v.i4), variance(v.n), var_pop(v.i8), stddev(v.fine) from vari v join vari_keys r using (k)');
-- transition values of several processes
call hjg_parallel(2, 1);
select * from hjg_same_groups('select stddev(i4), variance(n), var_pop(i8), stddev(i2), var_samp(wide), stddev(fine), stddev(one), variance(small) from vari');
select rows, equal from hjg_same_groups('select k, stddev(i4), variance(n), var_pop(i8), stddev(i2), var_samp(wide), stddev(fine), stddev(one), variance(small) from vari group by k');
set cpu_tuple_cost = 5;
select * from hjg_same_groups('select many, stddev(i4), variance(n), var_pop(i8), stddev(i2), var_samp(wide), stddev(fine), stddev(one), variance(small) from vari group by many');
drop function vari_list(text);
drop table vari, vari_keys;
