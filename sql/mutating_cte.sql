-- Statements that change what they join.
set hjoin_gpu.force = on;
create table target (id int, k int, v int);
insert into target select g, g % 50, 0 from generate_series(1, 500) g;
analyze target;
-- all parts of a statement see the same rows
begin;
with gone as (delete from target where id % 2 = 0 returning *) select count(*), count(g.id) from target t left join gone g on t.id = g.id;
select count(*) from target;
rollback;
begin;
with changed as (update target set v = 1 where k < 10 returning id, k, v) select count(*), sum(c.v), sum(t.v) from changed c join target t on t.id = c.id;
rollback;
begin;
with added as (insert into target select id, k, 7 from build where id < 40 returning *) select count(*) from added a join target t on t.id = a.id where t.v = 7;
rollback;
begin;
with gone as (delete from target where v = 0 returning *) select count(*) from build b where not exists (select 1 from gone g where g.k = b.k);
rollback;
-- a join is the source of INSERT, UPDATE, DELETE and MERGE
begin;
insert into target select p.id, b.id, 9 from probe p join build b on p.k = b.k and p.v = b.v;
select count(*), sum(k) from target where v = 9;
update target t set v = -1 from probe p join build b on p.k = b.k where t.id = p.id and b.v = 3;
select count(*) from target where v = -1;
delete from target t using build b where t.k = b.k and b.v > 20;
select count(*) from target;
rollback;
begin;
merge into target t using (select p.id, max(b.v) as v from probe p join build b on p.k = b.k group by p.id) s on t.id = s.id
	when matched and s.v > 20 then delete
	when matched then update set v = s.v
	when not matched then insert values (s.id, -5, s.v);
select count(*), sum(v), count(*) filter (where k = -5) from target;
rollback;
-- the same with core's plans
set hjoin_gpu.enabled = off;
begin;
with gone as (delete from target where v = 0 returning *) select count(*) from build b where not exists (select 1 from gone g where g.k = b.k);
rollback;
begin;
insert into target select p.id, b.id, 9 from probe p join build b on p.k = b.k and p.v = b.v;
select count(*), sum(k) from target where v = 9;
update target t set v = -1 from probe p join build b on p.k = b.k where t.id = p.id and b.v = 3;
select count(*) from target where v = -1;
delete from target t using build b where t.k = b.k and b.v > 20;
select count(*) from target;
rollback;
begin;
merge into target t using (select p.id, max(b.v) as v from probe p join build b on p.k = b.k group by p.id) s on t.id = s.id
	when matched and s.v > 20 then delete
	when matched then update set v = s.v
	when not matched then insert values (s.id, -5, s.v);
select count(*), sum(v), count(*) filter (where k = -5) from target;
rollback;
reset hjoin_gpu.enabled;
-- INSERT into the table that is read; CREATE TABLE AS; materialized views
begin;
insert into target select t.id + 1000, b.k, 3 from target t join build b on t.k = b.k;
select count(*) from target where v = 3;
create table copied as select p.id as pid, b.id as bid from probe p join build b on p.k = b.k;
create materialized view kept as select p.id as pid, b.id as bid from probe p left join build b on p.k = b.k;
select (select count(*) from copied), (select count(*) from kept);
insert into build values (100001, 7, 7, 7, 7, '7');
refresh materialized view kept;
select count(*) from kept;
rollback;
drop table target;
