-- Tests what core is told to expect: rows of joins on the columns of a key, workers of a parallel hash join.
set client_min_messages = warning;
set max_parallel_workers_per_gather = 0;
-- the rows that are expected of a query, to two digits, and those that come
create function es_rows(query text, out expected numeric, out actual bigint) language plpgsql as $$
begin
	expected := hjg_explained('costs', query)#>>'{0,Plan,Plan Rows}';
	expected := round(expected, 1 - floor(log(expected))::int);
	execute format('select count(*) from (%s) q', query) into actual;
end $$;
create table es_parts (p int, s int, cost int, constraint es_parts_key unique (p, s));
insert into es_parts select g / 4, (g / 4 + g % 4 * 251) % 1000, g from generate_series(0, 39999) g;
create table es_lines as select p, s, cost as n from es_parts, generate_series(1, 2);
create table es_suppliers as select g as s, g % 25 as n from generate_series(0, 999) g;
-- all rows are sampled, so that the estimates are the same at each run
set default_statistics_target = 300;
vacuum analyze es_parts, es_lines, es_suppliers;

-- rows without a partner that is not equal: core expects that nearly each has one
create table es_keys as select hashint4(g) & 1023 as k, g as v from generate_series(1, 40000) g;
analyze es_keys;
set hjoin_gpu.enabled = off;
select expected < actual / 20 as core_expects_few from es_rows('select from es_keys a where not exists (select from es_keys b where a.k = b.k and a.v <> b.v and b.v < 1500)');
set hjoin_gpu.enabled = on;
select expected between actual * 0.7 and actual * 1.4 as as_many_as_come from es_rows('select from es_keys a where not exists (select from es_keys b where a.k = b.k and a.v <> b.v and b.v < 1500)');
select expected < actual * 20 as never_none from es_rows('select from es_keys a where not exists (select from es_keys b where a.k = b.k and a.v <> b.v and b.v < 8000)');
drop table es_keys;
-- all columns of a unique index: most rows have a partner
set hjoin_gpu.enabled = off;
select * from es_rows('select from es_lines l join es_parts p on l.p = p.p and l.s = p.s');
set hjoin_gpu.enabled = on;
select * from es_rows('select from es_lines l join es_parts p on l.p = p.p and l.s = p.s');
-- whichever columns a query compares, and whatever it drops
select * from es_rows('select from es_lines l join es_suppliers x on l.s = x.s join es_parts p on x.s = p.s and l.p = p.p where x.n = 7 and p.p < 5000');
select * from es_rows('select from es_lines l, es_parts p where l.p = p.p and l.s = p.s and p.cost < 10000');
-- of which one is a constant
select * from es_rows('select from es_lines l, es_parts p where l.p = p.p and l.s = p.s and p.s = 17');
-- a table with itself
select * from es_rows('select from es_parts a join es_parts b on a.p = b.p and a.s = b.s');
-- no more than core expects: of a column alone, and of an index that is not unique at all times, for all rows or at all
set hjoin_gpu.enabled = off;
create table es_core as select q, (es_rows(q)).expected from unnest(array['select from es_lines l join es_parts p on l.p = p.p',
	'select from es_lines l join es_parts p on l.p = p.p and l.s = p.s', 'select from es_lines l left join es_parts p on l.p = p.p and l.s = p.s']) q;
set hjoin_gpu.enabled = on;
select q from es_core where expected <> (es_rows(q)).expected order by q;
alter table es_parts drop constraint es_parts_key;
create unique index es_part on es_parts (p, s) where cost >= 0;
select q from es_core where expected <> (es_rows(q)).expected order by q;
drop index es_part;
create index es_any on es_parts (p, s);
select q from es_core where expected <> (es_rows(q)).expected order by q;
drop index es_any;
alter table es_parts add constraint es_later unique (p, s) deferrable;
select q from es_core where expected <> (es_rows(q)).expected order by q;
alter table es_parts drop constraint es_later;
-- a key that is declared says as much
alter table es_parts add primary key (p, s);
alter table es_lines add foreign key (p, s) references es_parts;
select * from es_rows('select from es_lines l join es_parts p on l.p = p.p and l.s = p.s');
-- groups: of expressions with few values, whatever columns they are computed from
create table es_events as select date '2021-01-01' + g % 730 as d, timestamp '2021-01-01' + g % 1000 * interval '17 hours' as at, g as n, g % 100 as k
	from generate_series(0, 39999) g;
analyze es_events;
set hjoin_gpu.aggregate = on;
set hjoin_gpu.force = on;
create table es_groups as select q, (es_rows(q)).* from unnest(array['select n % 7 from es_events group by 1', 'select mod(n, 7) * 2 + 1 from es_events group by 1',
	'select case when n < 10 then ''few'' when n < 1000 then ''some'' end from es_events group by 1',
	'select coalesce(case n % 2 when 0 then 1 end, 2), d > ''2022-01-01'' from es_events group by 1, 2', 'select n % 5, n / 5 % 7 from es_events group by 1, 2',
	'select extract(year from d), extract(month from d) from es_events group by 1, 2', 'select date_trunc(''month'', d) from es_events group by 1',
	'select extract(year from d) * 100 + extract(month from d) from es_events group by 1', 'select date_part(''quarter'', d) from es_events group by 1', 'select date_trunc(''week'', at) from es_events group by 1']) q;
select q, expected, actual from es_groups where expected > actual * 1.5 or expected < actual / 1.5;
-- core expects many more
set hjoin_gpu.enabled = off;
select count(*) from es_groups where (es_rows(q)).expected > actual * 10;
set hjoin_gpu.enabled = on;
-- not of functions whose values are not known
select expected > 1000 as many from unnest(array['select n % k from es_events where k > 0 group by 1', 'select n % 7 + (random() * 1e6)::int from es_events group by 1',
	'select case when k > 5 then n else 0 end from es_events group by 1', 'select mod(1000000, n + 1) from es_events group by 1', 'select power(2, n::float8 / 1e5) from es_events group by 1']) q, es_rows(q);
-- nor of times without end
update es_events set d = 'infinity', at = '-infinity' where n < 100;
analyze es_events;
select expected <= 1000 as few from unnest(array['select extract(year from d) from es_events group by 1', 'select date_trunc(''month'', d) from es_events group by 1',
	'select date_trunc(''year'', at) from es_events group by 1']) q, es_rows(q);
reset hjoin_gpu.force;
reset hjoin_gpu.aggregate;
drop table es_events, es_groups;
drop function es_rows(text);
drop table es_core, es_lines, es_parts, es_suppliers;

-- An outer side of few workers does not hold back an inner side of many.
create table es_few as select g as k from generate_series(1, 20000) g;
create table es_many as select g as k, g % 10 as v from generate_series(1, 20000) g;
vacuum analyze es_few, es_many;
alter table es_few set (parallel_workers = 1);
alter table es_many set (parallel_workers = 3);
call hjg_parallel(4);
set enable_mergejoin = off;
set enable_nestloop = off;
set hjoin_gpu.startup_cost = 1000000;
explain (costs off) select count(*) from es_few f join es_many m on f.k = m.k where m.v = 3;
select count(*) from es_few f join es_many m on f.k = m.k where m.v = 3;
set hjoin_gpu.enabled = off;
explain (costs off) select count(*) from es_few f join es_many m on f.k = m.k where m.v = 3;
drop table es_few, es_many;
