-- Tables of the edges in cases.pm, in the proportions of :n_probe: where plans are close to one another, or
-- the planner's estimates are wrong.
set synchronous_commit = off;
begin;
-- rows in order of id; g follows that order, k does not; z is one key nine times out of ten; of a, b, c each
-- follows from the other ones; few has 20 values
create table event as
	select i::int as id, (i / 10)::int as g, ((hashint8(i)::bigint & 2147483647) % (:n_probe / 16))::int as k,
		(case when i % 10 > 0 then 1 else i end)::int as z, (i % 100)::int as a, (i % 100)::int as b, (i % 100)::int as c, (i % 20)::int as few,
		(i % 1000)::int as v, 'key of text ' || (hashint8(i)::bigint & 2147483647) % (:n_probe / 16) as t,
		i::numeric as n, md5(i::text)::uuid as u, timestamp '2020-01-01' + i * interval '1 minute' as at,
		(i % 3)::int as p1, (i % 5)::int as p2, (i % 7)::int as p3, (i % 11)::int as p4, (i % 13)::int as p5, (i % 17)::int as p6
	from generate_series(0, :n_probe::bigint / 4 - 1) i;
create table item as
	select i::int as id, (i % 1000)::int as v, (i % 100)::int as a, (i % 100)::int as b, (i % 100)::int as c, 'key of text ' || i as t,
		(i * 4)::numeric as n, md5((i * 4)::text)::uuid as u, timestamp '2020-01-01' + i * 4 * interval '1 minute' as at, repeat(md5(i::text), 6) as wide,
		(i % 3)::int as p1, (i % 5)::int as p2, (i % 7)::int as p3, (i % 11)::int as p4, (i % 13)::int as p5, (i % 17)::int as p6
	from generate_series(0, :n_probe::bigint / 16 - 1) i;
create table event_part (id int, k int, v int) partition by hash (k);
create table item_part (id int, v int) partition by hash (id);
do $$ begin
	for i in 0..7 loop
		execute format('create table event_part_%s partition of event_part for values with (modulus 8, remainder %s)', i, i);
		execute format('create table item_part_%s partition of item_part for values with (modulus 8, remainder %s)', i, i);
	end loop;
end $$;
insert into event_part select id, k, v from event;
insert into item_part select id, v from item;
-- grows a hundredfold after its statistics are made
create table grown as select g as id, g as k, 1 as state from generate_series(1, 1000) g;
commit;
alter table event add primary key (id);
alter table item add primary key (id);
create index on event (g);
create index on event (k);
create index on event (at);
create index on item (v);
vacuum (freeze, analyze) event, item, event_part, item_part, grown;
insert into grown select g, g, 2 from generate_series(1001, 100000) g;
