-- Different keys with the same hash: a type of a user's with a poor hash function.
set hjoin_gpu.force = on;
create type poor as (a int);
create function poor_eq(poor, poor) returns bool language plpgsql immutable strict as 'begin return ($1).a = ($2).a; end';
create function poor_hash(poor) returns int language plpgsql immutable strict as 'begin return ($1).a % 5; end';
create operator === (leftarg = poor, rightarg = poor, function = poor_eq, commutator = ===, hashes,
	restrict = eqsel, join = eqjoinsel);
create operator class poor_ops for type poor using hash as operator 1 ===, function 1 poor_hash(poor);
create table poor_l as select g as id, g % 4 as v, row(g % 40)::poor as k from generate_series(1, 300) g;
create table poor_r as select g as id, g % 4 as v, row(g % 60 + 20)::poor as k from generate_series(1, 200) g;
insert into poor_l select 1000 + g, 0, null from generate_series(1, 3) g;
analyze poor_l, poor_r;
explain (costs off) select * from poor_l l where exists (select 1 from poor_r r where l.k === r.k);
explain (costs off) select * from poor_l l where not exists (select 1 from poor_r r where l.k === r.k);
select * from hjg_kinds('poor_l l', 'poor_r r', 'l.k === r.k');
select * from hjg_kinds('poor_r l', 'poor_l r', 'l.k === r.k');
-- with a residual condition
select * from hjg_kinds('poor_l l', 'poor_r r', 'l.k === r.k and l.id % 50 > r.id % 40');
-- in the device process, and with little memory
set hjoin_gpu.in_backend_rows = 0;
select * from hjg_kinds('poor_l l', 'poor_r r', 'l.k === r.k');
insert into poor_l select g, g % 4, row(g % 400)::poor from generate_series(1, 5000) g;
insert into poor_r select g, g % 4, row(g % 600)::poor from generate_series(1, 500) g;
analyze poor_l, poor_r;
set work_mem = '64kB';
select * from hjg_kinds('poor_r l', 'poor_l r', 'l.k === r.k');
reset all;
drop table poor_l, poor_r;
drop operator class poor_ops using hash;
drop operator family poor_ops using hash;
drop operator === (poor, poor);
drop function poor_eq(poor, poor), poor_hash(poor);
drop type poor;
