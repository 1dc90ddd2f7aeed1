-- Sub-selects and CTEs below, above and inside the join.
set hjoin_gpu.force = on;
explain (costs off) with b as materialized (select * from build where v > 3) select count(*) from probe p join b on p.k = b.k;
select * from hjg_same('with b as materialized (select * from build where v > 3) select p.id as pid, b.id as bid from probe p join b on p.k = b.k');
select * from hjg_same('with b as materialized (select * from build) select x.id as xid, y.id as yid from b x join b y on x.k = y.k and x.v < y.v');
select * from hjg_same('with j as materialized (select p.id as pid, b.id as bid from probe p join build b on p.k = b.k) select * from j union all select j.bid, j.pid from j join probe q on j.pid = q.id');
select * from hjg_same('with recursive r as (select id, k, 1 as d from build where id < 20 union all select b.id, b.k, d + 1 from r join build b on b.id = r.k + 100 where d < 4) select * from r');
select * from hjg_same('select p.id as pid, b.n from probe p join (select k, count(*) as n, max(id) as m from build group by k offset 0) b on p.k = b.k');
select * from hjg_same('select p.id as pid, b.id as bid from (select * from probe order by id limit 700) p join (select * from build order by id desc limit 300) b on p.k = b.k');
select * from hjg_same('select p.id as pid, (select count(*) from build b where b.k = p.k) from probe p join one_row o on p.v = o.v');
-- scalar sub-selects in the list, uncorrelated: evaluated once
select * from hjg_same('select p.id as pid, b.id as bid, (select max(v) from build) from probe p join build b on p.k = b.k');
select * from hjg_same('select p.id as pid, b.id as bid from probe p join build b on p.k = b.k and b.v > (select avg(v) from build)');
select * from hjg_same('select p.id as pid, b.id as bid from probe p left join build b on p.k = b.k + (select min(v) from build)');
-- in the join's condition, for each pair; as one of its keys; hashed; EXISTS; below a rescan
create index build_k on build (k);
explain (costs off) select p.id as pid, b.id as bid from probe p join build b on p.k = b.k and b.v = (select max(c.v) from build c where c.k = p.k);
select * from hjg_same('select p.id as pid, b.id as bid from probe p join build b on p.k = b.k and b.v = (select max(c.v) from build c where c.k = p.k)');
select * from hjg_kinds('probe l', 'build r', 'l.k = r.k and r.v >= (select avg(c.v) from build c where c.k = l.k and c.id <> r.id)');
select * from hjg_same('select p.id as pid, b.id as bid from probe p left join build b on p.k = b.k and (b.v, p.v) not in (select v, k2 from probe where v < 3)');
select * from hjg_same('select p.id as pid, b.id as bid from probe p left join build b on p.k = b.k and (exists (select from build c where c.k = p.k and c.v = b.v + 1) or p.v = 0)');
select * from hjg_same('select o.v, x.* from one_row o, lateral (select count(*), sum(b.id) from probe p join build b on p.k = b.k and b.v <= (select max(c.v) from build c where c.k = p.k and c.v <= o.v) offset 0) x');
drop index build_k;
-- a clause that is constant within the sub-select
select * from hjg_same('select o.v, (select count(*) from probe a left join (build b join one_row c on o.v = 6 left join build d on b.k = d.k) on a.k = b.k) from one_row o');
-- VALUES, functions, unnest
select * from hjg_same('select p.id as pid, v.* from probe p join (values (1, ''one''), (2, ''two''), (2, ''zwei''), (null, ''nil'')) v (k, n) on p.k = v.k');
select * from hjg_same('select p.id as pid, g from probe p right join generate_series(0, 400) g on p.k = g');
select * from hjg_same('select p.id as pid, u.* from probe p join unnest(array[1, 2, 3, null], array[''a'', ''b'', ''c'', ''d'']) u (k, n) on p.k = u.k');
-- aggregates with FILTER, DISTINCT and ORDER BY; window functions; DISTINCT; GROUPING SETS
select * from hjg_same('select b.v, count(*) filter (where p.v > 5), count(distinct p.k), string_agg(p.id::text, '','' order by p.id, b.id) from probe p join build b on p.k = b.k group by b.v');
select * from hjg_same('select distinct p.v, b.v as bv from probe p join build b on p.k = b.k');
select * from hjg_same('select p.k2, b.v, count(*) from probe p join build b on p.k = b.k group by grouping sets ((p.k2), (b.v), ())');
