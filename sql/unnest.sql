-- Subqueries that aggregate the rows of a key, for each row anew, as joins: core's rows.
set client_min_messages = warning;
set hjoin_gpu.programs = off;

create function un_plan(query text, out subplans bool, out joined bool) language sql set hjoin_gpu.force = on as $$ select hjg_lines(query, 'SubPlan') > 0, hjg_lines(query, 'unnested') > 0 $$;
-- Rows around, some without a group, with NULL keys and doubles; rows of groups, of which those of 7 make what is computed fail.
create table un_o (id int, k int, b bigint, x numeric(10,2), t varchar(20), c char(6), d date, loose text collate hjg_loose);
create table un_i (k int, s smallint, y numeric(10,2), any_y numeric, z int, t text, c char(8), d date, ts timestamp, f float8, by bytea, loose text collate hjg_loose, n int);
insert into un_o select g, case when g % 10 > 0 then g % 120 end, g % 90, g % 700 / 7.0, 'k' || g % 60, 'c' || g % 60, date '2020-01-01' + g % 80, case when g % 2 = 0 then 'A' else 'a' end || g % 50 from generate_series(1, 600) g;
insert into un_i select case when g % 11 > 0 then g % 100 end, g % 100, g % 997 / 13.0, g % 997 / 13.0, case when g % 100 <> 7 then g else 0 end, case when g % 13 > 0 then 'k' || g % 50 end, 'c' || g % 50, date '2020-01-01' + g % 70, timestamp '2020-01-01' + (g % 70) * interval '1 day' + (g % 2) * interval '1 hour',
	g, 'x', 'a' || g % 40, nullif(g % 5, 0) from generate_series(1, 1500) g;
create index on un_i (k);
create view un_view as select k, y, z from un_i where s <> 3;
vacuum analyze un_o, un_i;

-- In conditions: with one and with more keys, of different types; with a join and with conditions below; nested; OR, CASE, NOT.
create view un_queries as select array['select * from un_o o where x < (select avg(y) from un_i i where i.k = o.k)', 'select * from un_o o where x < (select 0.5 * avg(y) from un_i i where o.k = i.k and i.s = o.b and i.d < date ''2020-02-01'' + 20)',
	'select * from un_o o where x > (select coalesce(sum(y), 3) from un_i i where i.k = o.k)', 'select * from un_o o where (select count(*) from un_i i where i.k = o.k) = 0', 'select * from un_o o where x < (select count(n) + min(y) from un_i i where i.k = o.b)',
	'select * from un_o o where x < (select max(y) from un_i i where i.t = o.t and i.t <> ''k3'' and t like ''k%'')', 'select * from un_o o where d = (select max(ts) from un_i i where i.ts = o.d)', 'select * from un_o o where id < (select sum(z) from un_i i where i.c = o.c and s in (1, 4, 7, 40) and n is not null)',
	'select * from un_o o where x > (select min(y) from un_i i, un_o p where i.k = o.k and p.id = i.s and p.t < ''k3'')', 'select * from un_o o where x < (select avg(y) from un_view i where i.k = o.k) or id < 3', 'select * from un_o o where case when id % 3 = 0 then x < (select avg(y) from un_i i where i.k = o.k) else id % 3 = 1 end',
	'select * from un_o o where not x < (select avg(y) filter (where n > 2) from un_i i where i.k = o.k)', 'select * from un_o o where id in (select id from un_o p where p.x > (select max(y) - 70 from un_i i where i.k = p.k))', 'select * from un_o o where exists (select from un_o p where p.k = o.k and p.x > (select max(y) - 70 from un_i i where i.k = p.k))',
	'select * from un_o o where x < (select avg(y) from un_i i where i.k = o.k and exists (select from un_o q where q.id = i.s)) and b > (select count(*) from un_i i where i.s = o.b and i.n = 3)', 'select * from un_o o where x < (select sum(y * 0.1 + 1) from un_i i where i.k = o.k and i.d > now()::date - 100000)',
	'select * from un_o o where b % 9 < (select count(distinct t) from un_i i where i.k = o.k)', 'select * from un_o o where x is distinct from (select min(y) from un_i i where i.k = o.id % 50)', 'select * from un_o o where b < (select count(*) from un_i i left join un_o p on p.id = i.s and p.k = 3 where i.k = o.k)',
	'select * from un_o o, un_i j where o.id = j.s and j.y < (select avg(y) from un_i i where i.k = o.k) and o.x > (select min(y) from un_i i where i.k = j.k)', 'select * from un_o o left join un_i j on o.id = j.z where coalesce(o.x, 0) < (select avg(y) from un_i i where i.k = j.s)'] as queries;
select q, s.rows > 0 as some, s.equal, p.* from un_queries, unnest(queries) q, hjg_same_groups(q) s, un_plan(q) p;
-- In results, and in FROM, WITH, set operations; groups above, windows, limits.
create view un_results as select array['select id, (select count(*) from un_i i where i.k = o.k) as n, (select max(y) from un_i i where i.k = o.k and s > 50) from un_o o', 'select id, coalesce((select sum(y) from un_i i where i.k = o.k), -1) + (select o.x + count(i.n) from un_i i where i.k = o.k) from un_o o',
	'select id, exists (select from un_i i where i.k = o.k and i.y > (select avg(y) from un_i j where j.s = i.s)) from un_o o', 'select k, sum(v) from (select k, (select count(*) from un_i i where i.k = o.k) as v from un_o o) s group by k', 'select k, (select count(*) from un_i i where i.k = o.k), count(*) from un_o o group by k',
	'select sum((select count(*) from un_i i where i.k = o.k)) from un_o o', 'with w as materialized (select k, y from un_i where n > 1) select id, (select max(y) from w where w.k = o.k) from un_o o', 'select id, (select max(y) from un_i i where i.k = o.k) from un_o o where id < 100 union select id, (select min(y) from un_i i where i.k = o.k) from un_o o where id > 50',
	'select id, sum((select count(*) from un_i i where i.k = o.k)) over (order by id) from un_o o', 'select distinct (select max(y) from un_i i where i.k = o.k) from un_o o', 'select id, (select max(y) from un_i i where i.k = o.k) as m from un_o o order by m nulls last, id limit 7',
	'select * from un_o o join lateral (select (select max(y) from un_i i where i.k = o.k) as m, (select count(*) from un_i i where i.s = o.b) as n) l on true', 'select * from (values (1, 2), (3, 4), (null, 5)) v (a, b) where b < (select count(*) from un_i i where i.k = v.a)'] as queries;
select q, s.rows > 0 as some, s.equal, p.* from un_results, unnest(queries) q, hjg_same_groups(q) s, un_plan(q) p;
-- Left as they are: what may fail or has an effect, depends on the order of rows, is no equality, groups otherwise, or is locked.
create sequence un_sequence;
create function un_any(int) returns int language plpgsql as $$ begin return $1; end $$;
create view un_left as select array['select * from un_o o where k <> 7 and x < (select sum(10 / z) from un_i i where i.k = o.k)', 'select * from un_o o where k <> 7 and x < (select count(*) from un_i i where i.k = o.k and 10 / z >= 0)', 'select * from un_o o where x < (select avg(f) from un_i i where i.k = o.k)', 'select * from un_o o where x < (select sum(any_y * any_y) from un_i i where i.k = o.k)',
	'select * from un_o o where x < (select max(case when false then 1 / 0 else y end) from un_i i where i.k = o.k)', 'select * from un_o o where x < (select avg(y) from un_i i where i.k < o.b and i.s = 7)', 'select * from un_o o where x < (select avg(y) from un_i i where i.k = o.k and i.n + o.id > 0)', 'select * from un_o o where x < (select avg(y + o.x) from un_i i where i.k = o.k)', 'select * from un_o o where x < (select avg(y) from un_i i where i.k = o.k group by n limit 1)',
	'select * from un_o o where x < (select avg(y) from un_i i where i.k = o.k having count(*) > 3)', 'select * from un_o o where x > (select y from un_i i where i.k = o.k order by y, z limit 1)', 'select * from un_o o where x < (select avg(y) from un_i i where i.k = 3)', 'select * from un_o o where x < (select avg(y) from un_i i where i.k + 1 = o.k)', 'select * from un_o o where t > (select string_agg(t, '','' order by z) from un_i i where i.k = o.k)',
	'select * from un_o o where x < (select avg(y) from un_i i where i.k = o.k and random() >= 0)', 'select * from un_o o where x < (select avg(un_any(n)) from un_i i where i.k = o.k)', 'select * from un_o o where t > (select min(loose) from un_i i where i.k = o.k)', 'select id from un_o o where x < (select avg(y) from un_i i where i.loose = o.loose)', 'select * from un_o o where x < (select avg(y) from un_i i where i.k = o.k) for update',
	'select * from un_o o where x < (select avg(y) from un_i tablesample bernoulli (100) repeatable (1) where un_i.k = o.k)', 'select * from un_o o where x < (select avg(y) from un_i i where i.k = o.k or o.k is null)', 'select * from un_o o where x < (select case when count(*) > 3 then (select max(n) from un_i j) end from un_i i where i.k = o.k)', 'select * from un_o o where x < (select avg(y) from un_i i where i.k = o.k and i.t ~ ''3'')'] as queries;
select q, p.* from un_left, unnest(queries) q, un_plan(q) p;
select q, s.rows > 0 as some, s.equal from un_left, unnest(queries) q, hjg_same_groups(q) s where q !~ 'for update|avg\(f\)';
-- Errors are core's: of the result, and of several processes.
select o.* from unnest(array['select count(*) from un_o o where x < (select 1 / (count(*) - 50) from un_i i where i.k = o.k)', 'select count(*) from un_o o where x < (select 1 / (count(*) - 45) from un_i i where i.k = o.k)']) q, hjg_outcome(q) o;
-- Rows that are looked up by all columns of a unique index.
create table un_u (id int primary key, a int, b int, name varchar(20) unique, v numeric(10,2), part int unique, late int unique deferrable, unique (a, b));
insert into un_u select g, g % 10, g / 10, 'k' || g, g / 7.0, case when g % 2 = 0 then g end, g from generate_series(1, 80) g;
create unique index un_positive on un_u (v) where v > 0;
create table un_parent (id int primary key, name text);
create table un_child () inherits (un_parent);
insert into un_parent values (1, 'parent');
insert into un_child values (2, 'child'), (3, 'child');
create table un_parts (id int primary key, name text) partition by range (id);
create table un_parts1 partition of un_parts for values from (0) to (50);
create table un_parts2 partition of un_parts for values from (50) to (1000);
insert into un_parts select g, 'n' || g from generate_series(1, 90) g;
analyze un_u, un_parent, un_child, un_parts;
create view un_lookups as select array['select id, (select name from un_u u where u.id = o.k) from un_o o', 'select id, (select upper(name) || v from un_u u where u.id = o.b) from un_o o', 'select id, (select coalesce(part, 3) from un_u u where u.id = o.k) from un_o o', 'select id, (select ''there'' from un_u u where u.name = o.t) from un_o o', 'select * from un_o o where x > (select v * 3 - o.x from un_u u where u.id = o.k)',
	'select id, (select v from un_u u where u.a = o.k and u.b = o.b % 9 and u.part is not null) from un_o o', 'select id, (select v from un_u u where u.a = o.k and u.b = o.b) from un_o o', 'select id, (select name from un_u u where u.part = o.k) is null from un_o o', 'select id, (select name from un_parts u where u.id = o.k) from un_o o', 'select id, (select p.name from un_u p where p.id = (select part from un_u u where u.id = o.k)) from un_o o',
	'select id, (select u from un_u u where u.id = o.k) from un_o o', 'select id from un_o o where (select v from un_u u where u.id = o.k) is null or (select part > 8 from un_u u where u.id = o.k)', 'select id, (select distinct v from un_u u where u.id = o.k) from un_o o', 'select id, (select v from un_u u where u.late = o.k) from un_o o', 'select id, (select id from un_u u where u.v = o.x) from un_o o', 'select id, (select v from un_u u where u.a = o.k and u.b < 1) from un_o o',
	'select id, (select name from un_parent u where u.id = o.k) from un_o o', 'select id, (select 1 / (v - 7) from un_u u where u.id = o.k) from un_o o where k <> 49', 'select id, (select u.name from un_u u, un_parts p where u.id = o.k and p.id = u.id) from un_o o', 'select id, (select coalesce(1 / (part - 8), 0) from un_u u where u.id = o.k) from un_o o where k <> 8', 'select id, (select v from un_u u where u.id = o.k limit 1) from un_o o'] as queries;
select q, s.rows > 0 as some, s.equal, p.subplans from un_lookups, unnest(queries) q, hjg_same_groups(q) s, un_plan(q) p;
-- A value of a query further out is no column of the table.
select o.* from hjg_outcome('select count(*) from un_o g where g.id < 20 and exists (select from un_o p where p.id < 9 and (select name from un_u u where g.id = p.k) = ''k3'')') o;
-- Without its index a lookup may find two rows; a plan that is kept knows.
set hjoin_gpu.force = on;
set plan_cache_mode = force_generic_plan;
prepare un_names as select count(n) from (select (select v from un_u u where u.a = o.k and u.b = o.b) as n from un_o o) s;
execute un_names;
alter table un_u drop constraint un_u_a_b_key;
insert into un_u select 100 + id, a, b from un_u;
execute un_names;
reset plan_cache_mode;
reset hjoin_gpu.force;
-- The planner's choice, and its reasons.
set hjoin_gpu.explain_declined = on;
set hjoin_gpu.aggregate = on;
set client_min_messages = notice;
set hjoin_gpu.force = on;
explain (costs off) select x from un_o o where x < (select avg(y) from un_i i where i.k = o.k);
select x from un_o o where x < (select avg(f) from un_i i where i.k = o.k) and x < (select avg(y) from un_i i where i.k < o.k) and x > (select min(y) from un_i) and x > (select y from un_i i where i.k = o.k limit 1) limit 0;
reset hjoin_gpu.force;
-- An index finds the rows of one; without an index, for many, it is a join.
explain (costs off) select x from un_o o where id = 7 and x < (select avg(y) from un_i i where i.k = o.k);
reset hjoin_gpu.explain_declined;
set client_min_messages = warning;
explain (costs off) select x from un_o o where id < 600 and x < (select avg(y) from un_i i where i.s = o.b);
-- A join evaluates it for each pair of rows, of which there are four for each row of its smaller side.
create table un_part (id int primary key, kind int);
create table un_offer (part int, seller int, cost numeric, note text, primary key (part, seller));
insert into un_part select g, g from generate_series(1, 20000) g;
insert into un_offer select p, s, (p * 7 + s * 13) % 1000, repeat('n', 20) from generate_series(1, 20000) p, generate_series(1, 4) s;
vacuum analyze un_part, un_offer;
set max_parallel_workers_per_gather = 0;
select hjg_lines('select p.id, seller from un_part p join un_offer o on o.part = p.id where kind <= 400 and cost = (select min(cost) from un_offer i where i.part = p.id)', 'SubPlan') as subplans;
select * from hjg_same('select p.id, seller from un_part p join un_offer o on o.part = p.id where kind <= 400 and cost = (select min(cost) from un_offer i where i.part = p.id)');
reset max_parallel_workers_per_gather;
drop table un_part, un_offer;
-- One in another one.
explain (costs off) select id, (select max(y) from un_i i where i.s = o.b and i.y < (select max(x) from un_o p where p.b = i.s)) from un_o o;
explain (costs off) select id, (select max(y) from un_i i where i.k = o.k and i.y < (select max(v) from un_u u where u.id = i.z)) from un_o o where id = 7;
set hjoin_gpu.unnest_subqueries = off;
explain (costs off) select x from un_o o where x < (select avg(y) from un_i i where i.s = o.b);
reset hjoin_gpu.unnest_subqueries;

set hjoin_gpu.force = on;
-- Writing: INSERT of joined rows; UPDATE and DELETE as they are; a cursor's row.
create table un_new as select id, (select count(*) from un_i i where i.k = o.k) as n from un_o o;
insert into un_new select id + 10000, (select sum(s) from un_i i where i.k = o.k) from un_o o where x < (select avg(y) from un_i i where i.k = o.k);
update un_new set n = (select count(*) from un_i i where i.s = un_new.n) where n > (select min(z) from un_i i where i.k = un_new.id);
delete from un_new where n < (select count(*) from un_o o where o.id = un_new.id);
select count(*), sum(id), sum(n) from un_new;
begin;
declare un_cursor cursor for select * from un_new where n > (select count(*) from un_i i where i.k = un_new.id);
fetch 1 from un_cursor \gset
update un_new set n = -5 where current of un_cursor;
select count(*) from un_new where n = -5;
rollback;
-- Parameters, and rows that a policy hides.
prepare un_prepared (numeric, int) as select count(*), sum(x) from un_o o where x < $1 * (select avg(y) from un_i i where i.k = o.k and i.s > $2);
set plan_cache_mode = force_generic_plan;
execute un_prepared (0.5, 10);
execute un_prepared (1.5, 40);
execute un_prepared (null, 40);
reset plan_cache_mode;
create role un_reader;
alter table un_i enable row level security;
create policy un_policy on un_i using (n > 2);
grant select on un_o, un_i to un_reader;
set role un_reader;
select s.rows, s.equal, p.* from (values ('select id, (select count(*) from public.un_i i where i.k = o.k) from public.un_o o')) v (q), hjg_same_groups(q) s, un_plan(q) p;
reset role;
alter table un_i disable row level security;
revoke select on un_i from un_reader;
set role un_reader;
select id, (select count(*) from un_i i where i.k = o.k) from un_o o;
reset role;
revoke all on un_o from un_reader;
drop role un_reader;
-- Several processes, partitions, and kept columns.
create table un_p (like un_i) partition by hash (k);
create table un_p0 partition of un_p for values with (modulus 2, remainder 0);
create table un_p1 partition of un_p for values with (modulus 2, remainder 1);
insert into un_p select * from un_i;
analyze un_p;
set min_parallel_table_scan_size = 0;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
select q, s.rows > 0 as some, s.equal, p.joined from unnest(array['select * from un_o o where x < (select avg(y) from un_i i where i.k = o.k)', 'select id, (select count(*) from un_p i where i.k = o.k) from un_o o', 'select * from un_p o where y < (select avg(y) from un_p i where i.k = o.k)']) q, hjg_same_groups(q) s, un_plan(q) p;
-- NOT IN is a join where no value can be NULL: by its declaration, or by a condition; and stays as it is where one might be.
create function un_anti(query text, out subplans bool, out joined bool) language sql set hjoin_gpu.force = on as $$ select hjg_lines(query, 'SubPlan') > 0, hjg_lines(query, 'Anti') > 0 $$;
select q, s.rows > 0 as some, s.equal, p.* from unnest(array['select id from un_u u where id not in (select id from un_parts)', 'select id from un_u where id not in (select k from un_i where k is not null)', 'select * from un_o o where k > 0 and k not in (select id from un_u)', 'select * from un_o o where k is not null and k not in (select i.k from un_i i where i.k < 30)', 'select id from un_u where id not in (select k from un_i where k > 0 group by k having count(*) > 13)', 'select id from un_u where id not in (select count(*) from un_i group by s, k)', 'select id from un_u u where name is not null and id not in (select p.id from un_parts p where p.name = u.name or p.id = u.a)', 'select p.id from un_parts p where name > '''' and (id, name) not in (select id, name from un_u where name <> ''k7'')', 'select id from un_parts where id not in (select u.id from un_u u left join un_i i on i.k = u.id where u.a < 5)', 'select id from un_u where id not in (select s.k from (select id as k, name from un_parts) s where name like ''n1%'')', 'select id from un_u where id not in (select id from un_parts where id not in (select k from un_i where k between 3 and 60))', 'select a, count(*), sum(v) from un_u where id not in (select id from un_parts where name < ''n5'') group by a', 'select id from un_u where not (id in (select id from un_parts where name is null))', 'select distinct o.t from un_o o join un_u u on u.id = o.k where u.id not in (select p.id from un_parts p, un_i i where p.id = i.s and i.t = ''k3'')']) q, hjg_same_groups(q) s, un_anti(q) p;
select q, s.rows > 0 as some, s.equal, p.* from unnest(array['select id from un_o o where k not in (select id from un_u)', 'select id from un_u where id not in (select part from un_u)', 'select id from un_u where id not in (select part from un_u where v > 5 or part > 3)', 'select id from un_u where id not in (select u.id from un_i i left join un_u u on i.k = u.id)', 'select u.id from un_i i full join un_u u on i.k = u.id where u.id not in (select id from un_parts)', 'select id from un_u where id not in (select id from un_parts) or id = 3', 'select id from un_u where id not in (select id from un_parent)', 'select id from un_u where id not in (select max(k) from un_i group by s)', 'select id from un_u where id not in (select id from un_parts order by id limit 3)', 'select id from un_u where id not in (select id from un_parts union select 3)', 'select id from un_u where id not in (select id from un_parts group by rollup (id))', 'select id from un_u where id not in (select 10 / id from un_parts)', 'select id from un_u where id not in (select id from un_parts where random() >= 0)', 'select id from un_u where id + 0 not in (select id from un_parts)', 'select p.id from un_parts p where (id, name) not in (select id, name from un_u where name <> ''k7'')', 'select id from un_u where (id not in (select id from un_parts)) is not false']) q, hjg_same_groups(q) s, un_anti(q) p;
-- A plan goes when the declaration does.
create table un_declared as select 3 as k;
alter table un_declared alter k set not null;
prepare un_declared as select count(*) from un_u where id not in (select k from un_declared);
set plan_cache_mode = force_generic_plan;
set hjoin_gpu.force = on;
select * from un_anti('execute un_declared');
execute un_declared;
alter table un_declared alter k drop not null;
insert into un_declared values (null);
select * from un_anti('execute un_declared');
execute un_declared;
reset hjoin_gpu.force;
reset plan_cache_mode;
