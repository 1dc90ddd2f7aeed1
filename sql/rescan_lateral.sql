-- The node started again: correlated sub-selects, LATERAL, nested loops above it.
set hjoin_gpu.force = on;
-- a parameter above the join only
select * from hjg_same('select o.k, (select count(*) from probe p join build b on p.k = b.k where p.v = o.k % 23) from (select k from build where id < 40) o');
-- a parameter in the probe side, in the build side, in both
select * from hjg_same('select o.id as oid, s.n from (select * from build where id < 60) o, lateral (select count(*) as n from (select * from probe where v = o.v offset 0) p join (select * from build offset 0) b on p.k = b.k) s');
select * from hjg_same('select o.id as oid, s.n from (select * from build where id < 60) o, lateral (select count(*) as n from (select * from probe offset 0) p join (select * from build where v = o.v offset 0) b on p.k = b.k) s');
select * from hjg_same('select o.id as oid, s.n from (select * from build where id < 60) o, lateral (select count(*) as n from (select * from probe where v = o.v offset 0) p full join (select * from build where v = o.v offset 0) b on p.k = b.k) s');
-- a parameter in the key, and in the residual qual
select * from hjg_same('select o.id as oid, s.n from (select * from build where id < 60) o, lateral (select count(*) as n from probe p join (select * from build offset 0) b on p.k + o.v = b.k) s');
select * from hjg_same('select o.id as oid, s.n from (select * from build where id < 60) o, lateral (select count(b.id) as n from probe p left join (select * from build offset 0) b on p.k = b.k and b.v > o.v) s');
-- left alone in the middle, and started again
select * from hjg_same('select o.id as oid, (select p.id from probe p join build b on p.k = b.k where b.v > o.v order by p.id, b.id limit 1) as f from build o');
select * from hjg_same('select o.id as oid, exists (select 1 from (select * from probe offset 0) p join (select * from build offset 0) b on p.k = b.k where p.v > o.v) as e from build o where id < 30');
-- left among rows without a match, or without a key, and started again with another build side
select * from hjg_same('select o.id as oid, s.n from (select * from build where id < 60) o, lateral (select count(*) as n from (select 1 from (select * from probe where id <= 300) p left join (select * from build where v = o.v offset 0) b on p.k = b.k and b.v < p.id limit 280) l) s');
select * from hjg_same('select o.id as oid, s.n from (select * from build where id < 60) o, lateral (select count(*) as n from (select 1 from (select * from probe where id <= 300) p left join (select * from build where v = o.v offset 0) b on nullif(p.k, p.k) = b.k limit 280) l) s');
-- the build side does not change: semi and anti joins again and again
select * from hjg_same('select o.id as oid, (select count(*) from probe p where p.v = o.v and exists (select 1 from build b where b.k = p.k)) from build o where id < 40');
select * from hjg_same('select o.id as oid, (select count(*) from probe p where p.v < o.v and not exists (select 1 from build b where b.k = p.k)) from build o where id < 40');
select * from hjg_same('select o.id as oid, (select count(*) from build b full join (select * from probe where v = o.v) p on b.k = p.k) from one_row o');
-- below a nested loop without parameters
set enable_material = off;
set enable_mergejoin = off;
select * from hjg_same('select o.id as oid, s.pid from one_row o left join (select p.id as pid, b.v from probe p join build b on p.k = b.k and p.v = b.v) s on s.v < o.v');
select * from hjg_same('select o.id as oid, count(*) from (select * from build where id < 10) o join (select p.id as pid, b.v from probe p right join build b on p.k = b.k offset 0) s on s.v < o.v group by o.id');
reset enable_material;
reset enable_mergejoin;
