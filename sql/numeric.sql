-- Numerics in vectors: core's answers to the last digit and display scale, whatever digits and scales there are.
set hjoin_gpu.aggregate = on;

-- As hjg_same, for several lists of aggregates over one join: those that differ, and whether the node computed them all.
create function num_same(source text, lists text[], out differing text[], out in_node bool) language sql as $$
	select array_agg(list) filter (where not (hjg_same(query)).equal), bool_and(hjg_lines(query, 'Aggregates: ') > 0)
	from unnest(lists) list, format('select %s from %s', list, source) query $$;

-- Rows by kinds: each has values of one scale and size, so that some vectors fit and others do not.
create domain num_domain as numeric(10, 3);
create table num_rows (id int, kind int, k int, a numeric(15, 2), b numeric, c numeric, d num_domain, e numeric(6, -2), f numeric(4, 8), i2 int2, i4 int4, i8 int8);
select setseed(0.25);
insert into num_rows
	select g, kind, g % 40, case when g % 7 > 0 then (random() * 10 ^ (g % 14) - 5 * 10 ^ (g % 13))::numeric(15, 2) end,
		case kind
			when 0 then (g % 1000)::numeric / 1000
			when 1 then round((random() - 0.5)::numeric * 10::numeric ^ (g % 30), g % 20)			-- scales and sizes of all kinds
			when 2 then round((random() * 1e9)::numeric, 9)
			when 3 then (array['NaN', 'Infinity', '-Infinity', '0', '-0.000', '1'])[1 + g % 6]::numeric
			when 4 then repeat('9876543210', 1 + g % 99)::numeric / 10::numeric ^ (g % 500)			-- up to 1,000 digits, compressed or stored apart
			when 5 then 9223372036854775807 - (g % 3)											-- the ends of 64 bits
			when 6 then (-9223372036854775808 + g % 2) / 1000000::numeric(20, 6)
			when 7 then trunc((random() * 10000)::numeric) / 10000 * 10000::numeric ^ (g % 4)		-- digits of base 10000
			when 8 then case when g % 2 = 0 then 10000::numeric ^ (g % 5) * (1 - g % 3) else 0.00 end
			else null
		end,
		round(random()::numeric * 100, case when kind in (1, 7) then g % 5 else 2 end),
		(g % 2001 - 1000)::numeric / 1000, (g % 1000 - 500) * 1000, (g % 19999 - 9999)::numeric / 100000000, g - 5000, g * 40007 - 200000000, (g - 5000)::int8 << 40
	from (select g, (g / 300) % 10 as kind from generate_series(1, 9000) g) g;
create table num_keys as select k from generate_series(0, 39) k;
vacuum analyze num_rows;
vacuum analyze num_keys;
set hjoin_gpu.force = on;
explain (costs off) select sum(a * (1 - c)), avg(b), count(d) from num_rows join num_keys using (k);
reset hjoin_gpu.force;

create view num_lists as select array['sum(a), avg(a)', 'sum(b), avg(b)', 'sum(c)', 'sum(d), avg(d)', 'sum(e), avg(e)', 'sum(f), avg(f)', 'avg(-a), sum(-b), sum(- -c)', 'count(a), count(b)',
	'sum(a + b), sum(a - b), sum(b - a), sum(a * b)', 'sum(a * (1 - c))', 'sum(a * (1 - c) * (1 + d))', 'sum(i2 * a), sum(i4 + c), sum(i8 - f)', 'avg(i2::numeric), avg(i4::numeric), avg(i8::numeric)', 'sum((i4 + i2) * c)',
	'sum(a * c * d * e * f)', 'sum(f * f * f * f), sum(f * f * f * f * f)', 'sum(i8 * f * f * f)', 'sum(i8::numeric * i8), sum(i8 * 1.000000001)', 'sum(5), sum(5.50), avg(0.000), sum(1e30)', 'sum(b + 1e25), sum(a * ''NaN'')', 'count(a + b), count(*)',
	'min(a), max(a)', 'min(d), max(d), sum(d)', 'trim_scale(min(b)), trim_scale(max(b))', 'min(f * e), max(-f)', 'min(i8::numeric * i8), max(i8::numeric * i8)', 'trim_scale(min(b * 2)), trim_scale(max(b - a)), count(b)', 'min(e), max(c), avg(c)', 'max(5.50), min(1e30)'] as lists;
select * from num_same('num_rows join num_keys using (k)', (select lists from num_lists));
select kind, s.* from generate_series(0, 9) kind, num_same(format('num_rows join num_keys using (k) where kind = %s', kind), (select lists from num_lists)) s;
-- of equal values the last one is the extreme, with its scale; groups
create table num_ties as select i % 2 as k, v::numeric from unnest(array[2.0, 3.0, 3.00, 2.000, 2.5, 3.0000, 2, 'NaN', null, 3, 2.5]::numeric[]) with ordinality u (v, i), generate_series(1, 400) g order by i, g;
analyze num_ties;
select * from num_same('num_ties group by k', array['k, min(v), max(v)', 'k, min(v), max(nullif(v, ''NaN'')), sum(v)']);
select * from num_same('num_ties where v <> ''NaN'' group by v', array['v, min(v), max(v)']);
select * from num_same('num_ties where v = 3', array['min(v), max(v), count(*)']);
select * from num_same('num_ties where v < 3', array['min(v), max(v), avg(v)']);
select * from num_same('num_rows join num_keys using (k) group by kind, k', array['kind, k, min(a), max(d), trim_scale(min(b)), trim_scale(max(b)), sum(b), avg(a), count(b)', 'kind, k, min(c + a), max(e * f)']);
select * from num_same('num_rows group by kind', array['kind, min(-id::numeric), max(id::numeric)']);
set work_mem = '64kB';
select * from num_same('num_rows group by id % 4000', array['id % 4000, min(a), max(d), trim_scale(min(b)), trim_scale(max(b)), sum(b), avg(a), avg(b * c)', 'id % 4000, trim_scale(max(b - a)), count(b)', 'id % 4000, sum(i8), avg(i4), max(i8), avg(i8)']);
reset work_mem;
-- sums of whole numbers that the last value, of 18 digits after the point, makes 2^127 - 1, -2^127 - 1, 2^127, and -2^127 of its units
create table num_ends (k int, n numeric);
insert into num_ends select k, case when g < 18 then 9e18 else 8141183460469231731 end * (1 - k % 2 * 2) from generate_series(0, 3) k, generate_series(0, 18) g;
insert into num_ends select g % 4, null from generate_series(1, 20000) g;
insert into num_ends values (0, 0.687303715884105727), (1, -0.687303715884105729), (2, 0.687303715884105728), (3, -0.687303715884105728);
analyze num_ends;
select * from num_same('num_ends group by k', array['k, sum(n), avg(n), count(n)', 'k, sum(-n), min(n), max(n)']);
select * from num_same('num_ends', array['sum(n), avg(n)']);
select k, s.* from generate_series(0, 3) k, num_same(format('num_ends where k = %s', k), array['sum(n), avg(n)']) s;
-- numbers of up to 1,000 digits, NaN and infinities as keys
select kind, s.* from generate_series(1, 8) kind, num_same(format('num_rows where kind = %s group by b', kind), array['trim_scale(b), count(*), sum(a), sum(b)', 'count(distinct b)']) s;
select * from num_same('num_rows group by b, i2', array['trim_scale(b), i2, count(*)']);
-- NULLs of an outer join, and no row
select * from num_same('num_keys left join num_rows on num_rows.k = num_keys.k + 20', (select lists from num_lists));
select * from num_same('num_rows join num_keys on num_rows.k = num_keys.k + 1000', (select lists from num_lists));

create function num_differ(conditions text[], out checked bigint, out rows numeric, out differ text[]) language sql as
	$$ select * from hjg_differ('num_rows join num_keys using (k)', conditions) $$;
create table num_constants as
	select distinct on (v) v::text as v from (
		select b from num_rows where id % 101 = 0 or (kind = 5 and id < 2110)
		union all select b + 0.000000000000000000001 from num_rows where id % 211 = 0
		union all select a - 0.001 from num_rows where id % 487 = 0
		union all select unnest(array['NaN', 'Infinity', '-Infinity', '0', '-0.00', '24', '24.00', '24.005', '-24.005', '1e400', '-1e400', '1e-400', '-1e-400', '9223372036854775806', '9223372036854775807', '9223372036854775808', '-9223372036854775807',
			'-9223372036854775808', '-9223372036854775809', '92233720368547758.07', '92233720368547758.06', '10000', '9999.9999', '0.0001', '0.00010', '100000000', '0.5', '-0.5', '12.3456789012345678901234567890', '-12.34567890123456789', '0.9995', '1e18', '1e36', '1e-36', '1e-37']::numeric[])) v (v);
select count(*) > 100 as enough from num_constants;
select d.* from unnest(array['a', 'b', 'd']) col, num_differ(array(select format(form, col, op, v) from (select v, row_number() over (order by v collate "C") as n from num_constants) v, unnest(array['=', '<>', '<', '<=', '>', '>=']) op, unnest(array['%1$s %2$s %3$L::numeric', '%3$L::numeric %2$s %1$s']) with ordinality f (form, i) where (n + i) % 2 = 0 or col = 'b')) d;
select d.* from num_differ(array(select format('%s %s %s', l, op, r) from unnest(array['a', 'b', 'c', 'd', 'e', 'f']) l, unnest(array['a', 'b', 'c', 'd', 'e', 'f']) r, unnest(array['=', '<>', '<', '<=', '>', '>=']) op)) d;
select d.* from num_differ(array['a between 0.5 and 5e7', 'd not between -0.5 and 0.5', 'b in (1, 0.5, ''NaN'', 0.999, 1e400)', 'b not in (1, 0.5, ''Infinity'', 1e-400)', 'b in (0.500, null)', 'b not in (0.500, null)', 'b = any (''{}''::numeric[])', 'b <> all (''{}''::numeric[])', 'b = any (null::numeric[])',
	'b = any (array(select b from num_rows where id % 7 = 0))', 'b <> all (array(select b from num_rows where id % 7 = 0 and b is not null))', 'b < any (''{1, 2}''::numeric[])', 'b in (select b from num_rows where kind = 4)', 'd in (0.5, 0.50, 0.500)', 'd = 0.5::num_domain', 'd = any (''{0.5, 0.25}''::num_domain[])',
	'b = (select max(b) from num_rows where kind = 4)', 'a > (select avg(a) from num_rows)', 'b = null', 'b < c or d > a', 'b < c or (d > a and b > c)', '(b > 1 or a is null) and (c > 5 or b = ''NaN'')', 'not (b < 1 and a > c)', 'not (b = 0.5 or a > 0)', 'b > 5 and e < 0 and f > 0',
	'b is null', 'b is not null and a is null', 'b < 24 and i4 / 2 > 0', 'i4 = 5.5', 'i4::numeric < 24', 'a < 24 and i4 > 0 and c >= 50.00', 'e < -100.5', 'f >= 0.00001234', 'f < 0.000012345', 'b > i4', 'c < 1.5::float8', '(b < (select 5.5) or a > (select 3)) and (b > c or d in (0.5, (select 0.25)))']) d;
-- prepared, with parameters of other scales each time
prepare num_prepared(numeric, numeric[]) as select count(*), sum(num_rows.id) from num_rows join num_keys using (k) where d < $1 and c <> all ($2);
set plan_cache_mode = force_generic_plan;
set hjoin_gpu.force = on;
execute num_prepared(0.5, '{1, 2.50}');
execute num_prepared(-0.12345, '{1.00, NULL}');
execute num_prepared('NaN', '{3.14, 50.00}');
execute num_prepared(null, '{}');
set hjoin_gpu.enabled = off;
execute num_prepared(0.5, '{1, 2.50}');
execute num_prepared(-0.12345, '{1.00, NULL}');
execute num_prepared('NaN', '{3.14, 50.00}');
execute num_prepared(null, '{}');
reset hjoin_gpu.enabled;
reset hjoin_gpu.force;
reset plan_cache_mode;
deallocate num_prepared;

drop view num_lists;
drop table num_rows, num_keys, num_constants, num_ties, num_ends;
drop domain num_domain;
drop function num_same, num_differ;
