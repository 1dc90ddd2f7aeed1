-- CASE, COALESCE, FILTER and fields of dates in arguments and keys, computed many rows at a time: core's answers.
set hjoin_gpu.aggregate = on;

-- For each list of results over one source: those that differ from core's, those that the node leaves to core, though it should not, or
-- computes, though it should not; and whether the node groups at all.
create function cas_same(source text, lists text[], by_core bool, out lists bigint, out differing text[], out unexpected text[], out in_node bool) language sql
set hjoin_gpu.force = on as $$
	select count(*), array_agg(list) filter (where not (hjg_same_groups(query)).equal),
		array_agg(list) filter (where by_core <> (hjg_figure(query, 'Expressions by Core') > 0)), bool_and(hjg_lines(query, '(GpuAggregate)') > 0)
	from unnest(lists) list, format(source, list) query $$;

create domain cas_money as numeric(12, 3);
create table cas (id int, k int, b bool, i2 int2, i4 int4, i8 int8, n numeric(15, 2), d numeric(9, 4), m cas_money, any_scale numeric, t text, v varchar(25), c char(15), loose text collate hjg_loose,
	da date, db date, ts timestamp, f8 float8);
insert into cas
	select g, case when g % 11 > 0 then g % 7 end, case when g % 5 > 0 then g % 2 = 0 end, g % 300 - 150, case when g % 13 > 0 then g * 1009 % 100000 - 50000 end, g::int8 << 30,
		case when g % 7 > 0 then (g % 9000) / 100.0 - 20 end, (g % 20) / 1000.0, case when g % 3 > 0 then g / 8.0 end, round(g / 7.0, g % 5), case when g % 9 > 0 then 'text ' || g % 50 end,
		(array['PROMO BRUSHED', 'PROMO', 'STANDARD', 'ECONOMY promo', 'LARGE'])[1 + g % 5], (array['1-URGENT', '2-HIGH', '3-MEDIUM', '5-LOW'])[1 + g % 4], case when g % 4 > 0 then chr(65 + g % 3 + 32 * (g % 2)) end,
		case when g % 17 > 0 then date '1991-12-30' + g * 37 % 3000 end, date '1993-01-01' + g * 31 % 2000, timestamp '1995-01-01' + g * interval '7 hours', g / 4.0
	from generate_series(1, 6000) g;
vacuum analyze cas;
set hjoin_gpu.force = on;
explain (costs off, verbose) select sum(case when v like 'PROMO%' then n * (1 - d) else 0 end), count(*) filter (where da > db), extract(year from da) from cas group by extract(year from da);
explain (costs off, verbose) select sum(case when f8 > 5 and t ~ '1' then i4 end), extract(decade from da) from cas group by extract(decade from da);
reset hjoin_gpu.force;

-- Conditions.
create view cas_conditions as select array['c = ''1-URGENT'' or c = ''2-HIGH''', 'c in (''1-URGENT'', ''5-LOW'')', 'c not in (''1-URGENT'', null)', 'v like ''PROMO%''', 'v not like ''%promo''', 't = ''text 7''', 't <> ''text 7''', 't is null', 't is not null',
	'b', 'not b', 'i4 > 0', 'i4 between -1000 and 1000', 'i2 < i4', 'i4 <> i8', 'n < 10', 'n = 3.50', 'n > d', 'm in (1, 2.5, 4.000)', 'any_scale >= 100.5', 'da > date ''1995-03-15''', 'da < db', 'da >= timestamp ''1996-01-01 12:00''', 'f8 > 100.5',
	'b or (i4 > 0 and n is null)', 'i4 = any (''{17, 2018}'')', 'i4 is distinct from null and b'] as conditions;
select s.* from cas_conditions, cas_same('select %s from cas', array(select format('sum(case when %1$s then i4 else 1 end), sum(case when %1$s then n * (1 - d) else 0 end), count(*) filter (where %1$s), avg(n) filter (where %1$s)', x) from unnest(conditions) x), false) s;
select s.* from cas_conditions, cas_same('select k, %s from cas group by k', array(select format('sum(case when %1$s then i4 end), min(case when %1$s then n * (1 - d) else 0 end), max(da) filter (where %1$s), count(t) filter (where %1$s), count(n) filter (where %1$s)', x) from unnest(conditions) x), false) s;
-- Left to core: other conditions, and equality of strings that may have other bytes.
select * from cas_same('select %s from cas', array['sum(case when loose = ''a'' then 1 else 0 end)', 'count(*) filter (where loose in (''a'', ''B''))', 'sum(case when t like ''text _'' then 1 end)', 'sum(case when i4 % 2 = 0 then 1 end)', 'sum(case when t > ''text 3'' then i8 end)', 'sum(case when n > 5 then n / 2 end)',
	'sum(case when b then f8::int end)', 'sum(case i4 + 1 when 5 then 1 end)', 'sum(case when (i4 > 0) = b then 1 end)', 'sum(nullif(i4, 0))', 'sum(extract(decade from da))', 'sum(extract(hour from ts))', 'sum(greatest(i4, i2))', 'count(*) filter (where f8 < i4 and b)', 'count(*) filter (where null)', 'count(*) filter (where true), sum(case when b then null::int end)'], true);

-- Branches: several, nested, simple, COALESCE; types; scales that differ between branches.
create view cas_lists as select array['sum(case when i4 > 100 then 1 when i4 > 0 then 2 when b then 3 else 4 end)', 'sum(case when i4 > 100 then i2 when b then null else i4 end)', 'sum(case i2 when 1 then i4 when -1 then 7 when null then 8 end)', 'sum(case c when ''1-URGENT'' then n when ''2-HIGH'' then 2 else 1.5 end)',
	'sum(case when b then case when i4 > 0 then n else d end else case when i2 > 0 then m end end)', 'sum(coalesce(i4, i2, 5))', 'sum(coalesce(n, d))', 'sum(coalesce(n, 0)), min(coalesce(n, 0)), max(coalesce(n, 0))', 'avg(coalesce(n, m, d, 1.00000))', 'sum(1 + case when b then i4 else i2 end)', 'sum(-case when b then n else d end)', 'sum(n * coalesce(d, 1))',
	'sum(case when b then n * d else n end), min(case when b then n * d else n end), max(case when b then n * d else 3 end)', 'avg(case when b then any_scale else 0 end), min(case when b then any_scale else 0.00 end)', 'sum(case when b then m end), max(case when not b then m else -1 end)',
	'min(case when b then da else db end), max(coalesce(da, db))', 'bool_and(case when i4 > 0 then b end), bool_or(coalesce(b, false))', 'count(case when b then t end), count(coalesce(t, loose)), count(case when b then n end), count(case when i4 > 0 then ''x'' end)', 'sum(case when i4 > 0 then i8 else i4 end), avg(case when b then i8 end)', 'max(case when b then ts end)',
	'sum(case when b then 1 else 0 end)::numeric / count(*)', '100.00 * sum(case when v like ''PROMO%'' then n * (1 - d) else 0 end) / nullif(sum(n * (1 - d)), 0)', 'sum(extract(year from da)), avg(extract(month from da)), max(extract(day from da)), min(extract(quarter from da))', 'sum(extract(year from da)::int), sum(extract(day from db)::int8 * 2)', 'sum(extract(month from case when b then da else db end))',
	'sum(case when extract(year from da) is null then 1 end)', 'sum(case when da < date ''1995-01-01'' then extract(year from da) else 0.5 end)'] as lists;
select s.* from cas_lists, cas_same('select %s from cas', array(select x from unnest(lists) x where x !~ 'is null'), false) s;
select s.* from cas_lists, cas_same('select k, %s from cas group by k', array(select x from unnest(lists) x where x !~ 'is null'), false) s;
select s.* from cas_lists, cas_same('select i4, %s from cas group by i4', array(select x from unnest(lists) x where x !~ 'is null'), false) s;
select s.* from cas_lists, cas_same('select %s from cas', array(select x from unnest(lists) x where x ~ 'is null'), true) s;
-- Groups in files, and rows of joins and of slots.
set work_mem = '64kB';
select s.* from cas_lists, cas_same('select id %% 3000, %s from cas group by id %% 3000', array(select x from unnest(lists) x where x !~ 'is null'), true) s;
select s.* from cas_lists, cas_same('select -id, %s from cas group by -id', array(select x from unnest(lists) x where x !~ 'is null'), false) s;
reset work_mem;
select s.* from cas_lists, cas_same('select %s from cas join (select k, count(*) as n2 from cas group by k) g using (k)', array(select x from unnest(lists) x where x !~ 'is null'), false) s;
select s.* from cas_lists, cas_same('select k, %s from (select * from cas order by id offset 10) s group by k', array(select x from unnest(lists) x where x !~ 'is null'), false) s;
-- A column whose every group has only the branch of the smaller scale shows that scale.
select k, sum(case when i4 > 90000 then n * d else 0 end) as none, sum(case when id < 20 then n * d else 0 end) as some, min(case when id < 20 then n * d else -1 end) as least from cas where k is not null group by k order by k;

-- Keys.
create view cas_keys as select array['extract(year from da)', 'extract(month from da)', 'extract(quarter from db)', 'extract(day from da)', 'date_part(''year'', da)', 'date_part(''day'', db)', 'extract(year from da)::int', 'extract(year from coalesce(da, db))', 'extract(year from da), extract(month from da), k',
	'case when i4 > 0 then 1 when b then 2 end', 'coalesce(k, -1)', 'coalesce(b, false), extract(year from db)', '-i4', 'i8 + 1', 'case when b then da else db end', 'case when b then ts end', 'case when b then f8 end', 'date_trunc(''month'', ts)', 'date_trunc(''week'', da::timestamp)', 'date_trunc(''quarter'', case when b then ts end), extract(dow from ts)', 'extract(year from ts)::int', 'date_part(''week'', ts)'] as keys;
select s.* from cas_keys, cas_same('select %1$s, count(*), sum(i4), sum(case when b then n else 0 end) from cas group by %1$s', keys, false) s;
select s.* from cas_keys, cas_same('select distinct %s from cas', keys, false) s;
select s.* from cas_keys, cas_same('select count(distinct (%s)), sum(i4) from cas', array(select x from unnest(keys) x where x !~ ', '), false) s;
set work_mem = '64kB';
select s.* from cas_same('select %1$s, -id, count(*) from cas group by %1$s, -id', array['extract(day from da)', 'case when b then db end'], false) s;
reset work_mem;
select * from cas_same('select %1$s, count(*) from cas group by %1$s', array['extract(decade from da)', 'case when b then t end', 'coalesce(n, 0)', 'n * 2', 'extract(year from da) + 1', 'date_part(''hour'', ts)', 'date_trunc(''hour'', ts)', 'date_trunc(''month'', da)', 'date_trunc(''MONTH'', ts)', 'extract(year from ts::timestamptz)'], true);
-- Every day of the years around the ends of centuries and of eras; days that have no timestamp, and the infinite ones.
create table cas_days (k int, d date);
insert into cas_days select 1, d::date from generate_series('1895-12-28'::timestamp, '1904-03-02', '1 day') d;
insert into cas_days select 2, d::date from generate_series('1999-12-28'::timestamp, '2004-03-02', '1 day') d;
insert into cas_days select 3, d::date from generate_series('0005-01-03 BC'::timestamp, '0005-01-03', '1 day') d;
insert into cas_days select 4, date '4714-11-24 BC' + i from generate_series(0, 1500) i;
insert into cas_days select 5, date '294276-12-31' - i from generate_series(0, 1500) i;
insert into cas_days select 6, date '294277-01-01' + i * 1003 from generate_series(0, 1500) i;
insert into cas_days select 7, (array['-infinity', 'infinity', '2020-02-29', null])[1 + i % 4]::date from generate_series(0, 3000) i;
analyze cas_days;
select * from cas_same('select k, %s, count(*) from cas_days group by 1, 2', array['extract(year from d)', 'extract(month from d)', 'extract(day from d)', 'extract(quarter from d)', 'extract(doy from d)', 'extract(dow from d)', 'extract(isodow from d)', 'extract(week from d)', 'extract(isoyear from d)', 'extract(year from case when d = ''infinity'' then date ''2020-01-01'' else d end)'], false);
-- Timestamps on these days.
create table cas_times as select k, case when d in ('infinity', '-infinity') then d::text else (d + (array[interval '0', '1 microsecond', '12 hours', '23:59:59.999999'])[1 + (d - date '2000-01-01') % 4 + case when d < '2000-01-01' then 3 else 0 end])::text end::timestamp as ts from cas_days where k <> 6;
analyze cas_times;
select * from cas_same('select k, %s, count(*) from cas_times group by 1, 2', array['extract(year from ts)', 'date_part(''month'', ts)', 'extract(doy from ts)', 'extract(dow from ts)', 'date_part(''isodow'', ts)', 'extract(week from ts)', 'extract(isoyear from ts)', 'date_trunc(''day'', ts)', 'date_trunc(''week'', ts)'], false);
select * from cas_same('select k, %s, count(*) from cas_times where ts >= ''4713-01-01 BC'' or ts = ''-infinity'' group by 1, 2', array['date_trunc(''month'', ts)', 'date_trunc(''quarter'', ts)', 'date_trunc(''year'', ts)'], false);
select * from cas_same('select k, %s from cas_times where ts >= ''4713-01-01 BC'' group by 1', array['min(date_trunc(''month'', ts)), max(date_trunc(''quarter'', ts)), count(date_trunc(''week'', ts))'], false);
select * from cas_same('select k, %s, count(*) from cas_days where k <> 6 group by 1, 2', array['date_trunc(''day'', d::timestamp)', 'date_trunc(''week'', d::timestamp)', 'extract(week from d::timestamp)'], false);
select unit, o.of_core = o.of_ours as equal, o.of_ours from unnest(array['year', 'quarter', 'month', 'week', 'day']) unit, hjg_outcome(format('select count(*)::text || min(u) from (select date_trunc(%L, ts) as u from cas_times group by 1) s', unit)) o;
select k, o.of_core = o.of_ours as equal, o.of_ours from unnest(array[5, 6]) k, hjg_outcome(format('select count(*)::text from (select date_trunc(''month'', d::timestamp) as u from cas_days where k = %s group by 1) s', k)) o;
select * from cas_same('select k, %s, count(*) from cas_days where k <> 6 group by 1, 2', array['date_part(''year'', d)', 'date_part(''month'', d)', 'date_part(''doy'', d)', 'date_part(''dow'', d)', 'date_part(''week'', d)', 'date_part(''isoyear'', d)'], false);
select * from cas_same('select k, %s from cas_days where k <> 7 group by k', array['sum(extract(year from d)), min(extract(month from d)), max(extract(day from d))', 'sum(extract(year from d)::int)', 'sum(extract(dow from d)), max(extract(isoyear from d)), sum(extract(week from d)::int), min(extract(doy from d))'], false);
select * from cas_same('select k, %s from cas_days group by k', array['sum(extract(year from d)), min(extract(year from d)), max(extract(day from d))'], false);
select o.* from hjg_outcome('select string_agg(y::text, '','') from (select date_part(''year'', d) as y from cas_days where k > 5 group by 1) s') o;
select o.* from hjg_outcome('select string_agg(y::text, '','' order by y) from (select extract(year from d)::int as y from cas_days where k = 7 group by 1) s') o;

-- A branch fails only for rows that take it, with core's error.
create table cas_edge as select g as id, case when g = 700 then 2147483647 else g end as i4, case when g = 700 then 9223372036854775807 else g end as i8, case when g = 700 then 9e30 else g end as n from generate_series(1, 1000) g;
analyze cas_edge;
select list, o.of_core = o.of_ours as equal, o.of_ours from unnest(array['sum(case when id <> 700 then i4 + 1 else 0 end)', 'sum(case when id = 700 then i4 + 1 else 0 end)', 'sum(case when i4 < 1000000 then i4 * 2 end)', 'sum(i4 + 1) filter (where id <> 700)', 'sum(i4 + 1) filter (where id > 600)',
	'sum(case when id < 700 then i8 * 2 else 5 end)', 'sum(case when id < 701 then i8 * 2 else 5 end)', 'max(case when id <> 700 then i8 + 1 end)', 'min(case when id = 700 then -i8 - 2 end)', 'sum(case when id > 0 then i8 else i8 + 1 end)', 'sum(coalesce(i4, i4 * 2))', 'sum(1 + case when id = 700 then i4 else 0 end)',
	'sum(case when id <> 700 then n else 0 end)', 'sum(case when id = 700 then n else 0.00 end)', 'max(coalesce(n, 1))', 'count(case when id < 700 then i4 * 3 end)', 'count(*) filter (where i4 > 5)', 'sum(case when i4 > 5 then 10 / (i4 - i4) end)', 'bool_and(case when id > 5 then i4 + 1 end > 5)']) list, hjg_outcome('select (' || list || ')::text from cas_edge') o;
select key, o.of_core = o.of_ours as equal, o.of_ours from unnest(array['case when id <> 700 then i4 + 1 end', 'i4 + 1', 'case when id >= 700 then i4 + 1 else 0 end']) key, hjg_outcome('select count(*)::text from (select ' || key || ' from cas_edge group by 1) s') o;

-- Operands are evaluated when a row needs them, and again with other parameters.
create function cas_fails() returns int language plpgsql stable as $$ begin raise exception 'evaluated'; end $$;
select list, o.of_core = o.of_ours as equal, o.of_ours from unnest(array['sum(case when id > 0 then 1 else (select cas_fails()) end)', 'sum(case when id > 0 then 1 when i4 = (select cas_fails()) then 2 end)', 'sum(case when id > 5 then 1 when i4 = (select cas_fails()) then 2 end)', 'sum(case when id > 5 then (select cas_fails()) end)',
	'sum(coalesce(i4, (select cas_fails())))', 'sum(coalesce(nullif(i4, 5), (select cas_fails())))']) list, hjg_outcome('select (' || list || ')::text from cas_edge') o;
prepare cas_prepared(int, text[], numeric, date) as select sum(case when i4 > $1 then $3 when c = any ($2) then n end), count(*) filter (where da > $4), sum(coalesce(n, $3)) from cas;
set plan_cache_mode = force_generic_plan;
set hjoin_gpu.force = on;
execute cas_prepared(0, '{1-URGENT}', 0.5, '1995-01-01');
execute cas_prepared(40000, '{5-LOW, 2-HIGH}', null, 'infinity');
execute cas_prepared(null, null, 1e30, null);
set hjoin_gpu.enabled = off;
execute cas_prepared(0, '{1-URGENT}', 0.5, '1995-01-01');
execute cas_prepared(40000, '{5-LOW, 2-HIGH}', null, 'infinity');
execute cas_prepared(null, null, 1e30, null);
reset hjoin_gpu.enabled;
reset plan_cache_mode;
deallocate cas_prepared;
select o.of_core = o.of_ours as equal from hjg_outcome('select string_agg(s::text, '','' order by x) from generate_series(-3, 3) x, lateral (select sum(case when i2 > x then x else n end) as s from cas where k = x + 2) s') o;
reset hjoin_gpu.force;

-- Several processes.
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
select s.* from cas_lists, cas_same('select %s from cas', array(select x from unnest(lists) x where x !~ 'is null'), false) s;
select s.* from cas_keys, cas_same('select %1$s, count(*), sum(i4), sum(case when b then n else 0 end) from cas group by %1$s', keys, false) s;
reset parallel_setup_cost;
reset parallel_tuple_cost;
reset min_parallel_table_scan_size;

drop view cas_conditions, cas_lists, cas_keys;
drop table cas, cas_days, cas_times, cas_edge;
drop domain cas_money;
drop function cas_same, cas_fails;
