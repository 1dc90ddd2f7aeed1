-- Numerics in vectors: core's answers to the last digit and display scale, whatever digits and scales there are.
set hjoin_gpu.aggregate = on;

-- As hjg_same, for several lists of aggregates over one join: those that differ, and whether the node computed them all.
create function num_same(source text, lists text[], out differing text[], out in_node bool) language plpgsql as $$
declare
	list text;
	line text;
	found bool;
begin
	in_node := true;
	perform set_config('hjoin_gpu.force', 'on', false);
	foreach list in array lists loop
		found := false;
		for line in execute format('explain (costs off) select %s from %s', list, source) loop
			found := found or line like '%Aggregates: %';
		end loop;
		in_node := in_node and found;
		if not (hjg_same(format('select %s from %s', list, source))).equal then
			differing := differing || list;
		end if;
	end loop;
	perform set_config('hjoin_gpu.force', 'off', false);
end $$;

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
	'sum(a * c * d * e * f)', 'sum(f * f * f * f), sum(f * f * f * f * f)', 'sum(i8 * f * f * f)', 'sum(i8::numeric * i8), sum(i8 * 1.000000001)', 'sum(5), sum(5.50), avg(0.000), sum(1e30)', 'sum(b + 1e25), sum(a * ''NaN'')', 'count(a + b), count(*)'] as lists;
select * from num_same('num_rows join num_keys using (k)', (select lists from num_lists));
select kind, s.* from generate_series(0, 9) kind, num_same(format('num_rows join num_keys using (k) where kind = %s', kind), (select lists from num_lists)) s;
-- NULLs of an outer join, and no row
select * from num_same('num_keys left join num_rows on num_rows.k = num_keys.k + 20', (select lists from num_lists));
select * from num_same('num_rows join num_keys on num_rows.k = num_keys.k + 1000', (select lists from num_lists));

drop view num_lists;
drop table num_rows, num_keys;
drop domain num_domain;
drop function num_same;
