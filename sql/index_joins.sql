-- Joins that an index answers stay with core, and no others are left to it.
set client_min_messages = warning;
set max_parallel_workers_per_gather = 0;
set enable_mergejoin = off;
-- the model's own costs, not those of the other files
set hjoin_gpu.startup_cost = -1;
set hjoin_gpu.marshal_tuple_cost = -1;
set hjoin_gpu.build_tuple_cost = -1;
set hjoin_gpu.probe_tuple_cost = -1;
set hjoin_gpu.emit_tuple_cost = -1;
create table ix_fact (d int, v int, pad text);
create table ix_dim (k int, a int);
insert into ix_fact select (g * 7919::bigint) % 20000, g, 'some text that makes a page hold fewer rows' from generate_series(1, 200000) g;
insert into ix_dim select g, g % 10 from generate_series(0, 19999) g;
create index on ix_fact (d);
vacuum analyze ix_fact, ix_dim;

-- core's prices of the index loop, its hash join, and ours: which of the first two is the cheaper, and is ours between them?
create function hjg_prices(query text, out index_is_cheaper bool, out ours_is_cheaper_than_hash bool, out chosen text) language plpgsql as $$
declare
	plan json;
	cost numeric[];
	setting text;
begin
	foreach setting in array array['hashjoin', 'nestloop', ''] loop
		perform set_config('hjoin_gpu.enabled', (setting = '')::text, true), set_config('enable_hashjoin', (setting <> 'hashjoin')::text, true),
			set_config('enable_nestloop', (setting <> 'nestloop')::text, true);
		execute 'explain (format json) ' || query into plan;
		cost := cost || (plan -> 0 -> 'Plan' ->> 'Total Cost')::numeric;
	end loop;
	index_is_cheaper := cost[1] < cost[2];
	chosen := coalesce(plan #>> '{0,Plan,Custom Plan Provider}', plan #>> '{0,Plan,Node Type}');
	perform set_config('enable_nestloop', 'off', true);
	execute 'explain (format json) ' || query into plan;
	ours_is_cheaper_than_hash := (plan -> 0 -> 'Plan' ->> 'Total Cost')::numeric < cost[2];
	perform set_config('enable_nestloop', 'on', true);
end $$;
-- few rows: the index is faster
select * from hjg_prices('select f.v, x.a from ix_fact f join ix_dim x on f.d = x.k where x.k < 20');
select * from hjg_prices('select x.k, f.v from ix_dim x left join ix_fact f on f.d = x.k where x.k < 20');
select * from hjg_prices('select f.v, x.a from ix_fact f right join ix_dim x on f.d = x.k where x.k < 20');
-- so many that its price is still below the hash join's, though not below what ours would cost by its time
select * from hjg_prices('select f.v, x.a from ix_fact f join ix_dim x on f.d = x.k where x.k < 100');
-- a loop of a semi or anti join stops at the first match: of this one look-ups that fetch all rows would cost more than a hash join
set random_page_cost = 10;
select kind, s.* from unnest(array['exists', 'not exists']) kind, hjg_prices(format('select x.k from ix_dim x where x.k < 900 and %s (select from ix_fact f where f.d = x.k and f.v <> x.a)', kind)) s;
reset random_page_cost;
-- what is declined for its time says so
set client_min_messages = notice;
set hjoin_gpu.explain_declined = on;
explain select f.v, x.a from ix_fact f join ix_dim x on f.d = x.k where x.k < 100 \g /dev/null
reset hjoin_gpu.explain_declined;
set client_min_messages = warning;
-- so many look-ups that reading the whole table takes less time, though core's price says otherwise; and few
create index ix_fact_v on ix_fact (v);
set random_page_cost = 0.2;
select * from hjg_prices('select f.d, x.a from ix_fact f join ix_dim x on f.v = x.k where x.k < 6000');
-- whichever order of the sides comes first, the smaller one is built
explain (costs off) select f.d, x.a from ix_fact f join ix_dim x on f.v = x.k where x.k < 6000;
explain (costs off) select f.d, x.a from ix_dim x join ix_fact f on f.v = x.k where x.k < 6000;
select * from hjg_prices('select f.d, x.a from ix_fact f join ix_dim x on f.v = x.k where x.k < 200');
reset random_page_cost;
drop index ix_fact_v;
-- core expects 800 rows of a join with both columns of a key, and 200,000 come: they are not looked up one by one
create table ix_pairs (p int, s int, primary key (p, s));
insert into ix_pairs select p, (p * 7 + i * 251) % 1000 from generate_series(1, 5000) p, generate_series(0, 3) i;
create table ix_lines as select p, s, g as n from generate_series(0, 9) g, ix_pairs;
create table ix_names (k int primary key, a int);
insert into ix_names select g, g from generate_series(0, 19999) g;
vacuum analyze ix_pairs, ix_lines, ix_names;
select chosen from hjg_prices('select l.n, m.a from ix_lines l join ix_pairs p on l.p = p.p and l.s = p.s join ix_names m on m.k = l.s');
-- a foreign key that is declared core knows itself
alter table ix_lines add foreign key (p, s) references ix_pairs;
select chosen from hjg_prices('select l.n, m.a from ix_lines l join ix_pairs p on l.p = p.p and l.s = p.s join ix_names m on m.k = l.s');
drop table ix_lines, ix_pairs, ix_names;
-- many: the index is neither cheap nor fast
select * from hjg_prices('select f.v, x.a from ix_fact f join ix_dim x on f.d = x.k');
-- no index on this side
select * from hjg_prices('select f.v, x.a from (select * from ix_fact where v < 20) f left join ix_dim x on f.d = x.k');
-- the first rows: an index finds them; so many that it does not; no index leads from one table to the other
explain (costs off) select f.v, x.a from ix_fact f join ix_dim x on f.d = x.k limit 10;
explain (costs off) select f.v, x.a from ix_fact f join ix_dim x on f.d = x.k limit 150000;
explain (costs off) select f.v, x.a from ix_fact f join ix_dim x on f.v = x.k limit 10;
-- in the order of an index; of none
explain (costs off) select f.v, x.a from ix_fact f join ix_dim x on f.d = x.k order by f.d limit 10;
explain (costs off) select f.v, x.a from ix_fact f join ix_dim x on f.d = x.k order by f.v limit 10;
-- where a scan of an index alone is the cheapest for core, the node reads the table if that takes less time
create table ix_narrow (k int, pad text);
insert into ix_narrow select g / 10, repeat('some text of a row ', 3) from generate_series(1, 50000) g;
create index on ix_narrow (k);
vacuum analyze ix_narrow;
explain (costs off) select count(k) from ix_narrow;
explain (costs off) select count(*) from ix_narrow x join ix_fact f on x.k = f.v;
set hjoin_gpu.direct_scan = off;
explain (costs off) select count(*) from ix_narrow x join ix_fact f on x.k = f.v;
reset hjoin_gpu.direct_scan;
-- The first rows that pass a condition, in the order of an index: its price is above that of reading the whole table, its time below; not so if few rows pass.
-- A condition on the other table leaves as few.
create unique index on ix_dim (k);
create table ix_events as select g as id, (g * 7919::bigint) % 400000 as at, (g * 31) % 20000 as k, g % 100 as v, g % 20000 as rare from generate_series(1, 400000) g;
create index on ix_events (at);
vacuum analyze ix_events, ix_dim;
set random_page_cost = 400;
explain (costs off) select e.id, x.a from ix_events e join ix_dim x using (k) where e.v = 7 order by e.at limit 10;
explain (costs off) select e.id, x.a from ix_events e join ix_dim x using (k) where e.rare = 7 order by e.at limit 10;
explain (costs off) select e.id, x.a from ix_events e join ix_dim x using (k) where e.v = 7 and x.a = 3 order by e.at limit 10;
reset random_page_cost;
drop table ix_events;
drop function hjg_prices;
drop table ix_fact, ix_dim, ix_narrow;

-- Tables whose primary keys have an order that a merge join needs: reading one of them costs more than the part that the merge reads, and takes less time.
create table sorted_a (id int primary key, v int, pad text);
create table sorted_b (id int primary key, w int);
insert into sorted_a select g, g % 100, repeat('some text of a row ', 5) from generate_series(1, 60000) g;
insert into sorted_b select g, g % 10 from generate_series(1, 20000) g;
vacuum analyze sorted_a, sorted_b;
set enable_mergejoin = on;
set hjoin_gpu.enabled = off;
explain (costs off) select a.v, b.w from sorted_a a join sorted_b b using (id);
set hjoin_gpu.enabled = on;
explain (costs off) select a.v, b.w from sorted_a a join sorted_b b using (id);
select * from hjg_same('select a.v, b.w from sorted_a a join sorted_b b using (id)');
-- the first rows, and some by a condition
explain (costs off) select a.v, b.w from sorted_a a join sorted_b b using (id) limit 10;
explain (costs off) select a.v, b.w from sorted_a a join sorted_b b using (id) where a.v < 90 order by id limit 10;
drop table sorted_a, sorted_b;

-- Run for each row of a query around it with a range that is not known yet, of which so many rows are no more than a guess: an index that is
-- not slower by far is left to it.
create table again_a as select g as id, (g * 7919) % 400000 as k, g as v, repeat('x', 60) as pad from generate_series(1, 200000) g;
create table again_b as select g as k from generate_series(1, 80000) g;
create unique index on again_a (id);
create unique index on again_b (k);
vacuum analyze again_a, again_b;
set hjoin_gpu.marshal_tuple_cost = 0.0005;
explain (costs off) select count(*), sum(l.v) from generate_series(1, 20) o, lateral (select a.v from again_a a join again_b b using (k) where a.id between o * 1000 and o * 1000 + 500 offset 0) l;
-- as many rows, which are known
explain (costs off) select count(*), sum(a.v) from again_a a join again_b b using (k) where a.id between 1000 and 2000;
set hjoin_gpu.marshal_tuple_cost = -1;
drop table again_a, again_b;

-- A foreign key's rows with their table's: core charges for a third of such a join, and ours is compared with that.
create table foreign_rows as select g as id, (g * 7919) % 20000 + 1 as k, 'text ' || g as t from generate_series(1, 60000) g;
create table key_rows as select g as id, 'wide ' || g as t from generate_series(1, 20000) g;
create unique index on key_rows (id);
vacuum analyze foreign_rows;
vacuum analyze key_rows;
set max_parallel_workers_per_gather = 0;
explain (costs off) select f.t, r.t from foreign_rows f join key_rows r on f.k = r.id;
explain (costs off) select f.id, r.t from (select * from foreign_rows offset 0) f join key_rows r on f.k = r.id;
select * from hjg_same('select f.t, r.t as rt from foreign_rows f join key_rows r on f.k = r.id');
reset max_parallel_workers_per_gather;
drop table foreign_rows, key_rows;
