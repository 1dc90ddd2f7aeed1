-- Keys of two types that one operator family compares.
set hjoin_gpu.force = on;
set client_min_messages = warning;
create table cross_l as select id, i2, i4, i8, f4, f8, oi, te, vc, na, bp, dt from exact_l join hashed_l using (id);
create table cross_r as select id, i2, i4, i8 >> 20 as i8, i8 as big, f4, f8, oi, te, vc, na, bp, dt from exact_r join hashed_r using (id);
insert into cross_r (id, i8, f8) values (1000, 4294967296 + 7, 0.1), (1001, -4294967296 + 7, 0.1::float4), (1002, 65536 + 7, null), (1003, 7, 3);
insert into cross_l (id, i2, i4, f4) values (1000, 7, 7, 0.1), (1001, -7, -7, null);
analyze cross_l;
analyze cross_r;
explain (costs off) select * from cross_l l join cross_r r on l.i2 = r.i8;
explain (costs off) select * from cross_l l join cross_r r on l.te = r.na;
select x[1] as l, x[2] as r, s.* from unnest(array['i2 i4', 'i2 i8', 'i4 i2', 'i4 i8', 'i8 i2', 'i8 i4', 'i4 big', 'f4 f8', 'f8 f4', 'te vc', 'vc te', 'te na', 'na vc', 'na te', 'vc dt', 'bp te']) p,
	string_to_array(p, ' ') x, hjg_kinds('cross_l l', 'cross_r r', format('l.%I = r.%I', x[1], x[2])) s;
-- several, each its own pair of types
select * from hjg_kinds('cross_l l', 'cross_r r', 'l.i2 = r.i8 and l.i4 = r.i2');
select * from hjg_kinds('cross_l l', 'cross_r r', 'l.f4 = r.f8 and l.i8 = r.i4');
select * from hjg_kinds('cross_l l', 'cross_r r', 'l.i2 = r.i4 and l.te = r.na');
-- a narrow key must not meet a wide one by truncation
select l.id as lid, r.id as rid, l.i4, r.i8 from cross_l l join cross_r r on l.i4 = r.i8 where l.id = 1000 order by 1, 2;
-- types that core compares only after a cast
select * from hjg_same('select l.id as lid, r.id as rid from cross_l l join cross_r r on l.i4::numeric = r.i8::numeric');
select * from hjg_same('select l.id as lid, r.id as rid from cross_l l join cross_r r on l.i4 = r.f8');
select * from hjg_same('select l.id as lid, r.id as rid from cross_l l join cross_r r on l.i4::oid = r.oi');
-- an operator without a commutator: no side can change places
create operator === (leftarg = int4, rightarg = int8, procedure = int48eq, hashes);
create operator family no_commutator using hash;
alter operator family no_commutator using hash add operator 1 === (int4, int8), function 1 (int4, int4) hashint4(int4), function 1 (int8, int8) hashint8(int8);
set enable_hashjoin = off;
select count(*), count(l.id) from cross_r r left join (select * from cross_l where id % 100 = 7) l on l.i4 === r.i8;
select count(*), count(l.id) from cross_r r left join (select * from cross_l where id % 100 = 7) l on l.i4 = r.i8;
reset enable_hashjoin;
drop operator family no_commutator using hash;
drop operator === (int4, int8);
