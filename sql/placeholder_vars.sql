-- Expressions that are made below an outer join and read above it.
set hjoin_gpu.force = on;
explain (verbose, costs off) select p.id, b.one, b.cv from probe p left join (select id, k, 1 as one, coalesce(v, -1) as cv from build) b on p.k = b.k;
select * from hjg_same('select p.id as pid, b.* from probe p left join (select id, k, 1 as one, coalesce(v, -1) as cv from build) b on p.k = b.k');
select * from hjg_same('select a.*, b.* from (select id, k, ''a''::text as a from probe) a full join (select id, k, ''b''::text as b from build) b on a.k = b.k');
select * from hjg_same('select p.id as pid, b.one from probe p left join (select k, 1 as one from build) b on p.k = b.k where b.one is null');
-- (a condition that is never true leaves nothing to join)
select * from hjg_same('select p.id as pid, b.one from probe p left join (select k, 1 as one from build) b on p.k = b.k and b.one = 2');
-- as keys of the next join
select * from hjg_same('select p.id as pid, q.id as qid from probe p left join (select k, coalesce(v, 0) as cv from build) b on p.k = b.k left join one_row q on q.v = b.cv');
select * from hjg_same('select p.id as pid, b.id as bid from probe p left join (select *, 6 as six from one_row) o on p.k = o.k join build b on b.k = o.six');
-- nested
select * from hjg_same('select x.id, x.c1, x.c2 from (select p.id, b.c1, coalesce(b.c1, p.v) as c2 from probe p left join (select k, v * 2 as c1 from build) b on p.k = b.k) x left join nothing n on n.k = x.c2');
select * from hjg_same('select n.id, x.* from nothing n right join (select p.id as pid, b.c1, b.c1 is null as nul from probe p left join (select k, v || ''!'' as c1 from build) b on p.k = b.k) x on n.k = x.pid');
-- whole rows of nullable sides
select * from hjg_same('select p.id as pid, b from probe p left join (select k, v, ''z'' as z from build) b on p.k = b.k and b.v = 3');
-- lateral references of one side only
select * from hjg_same('select p.id as pid, l.w, b.id as bid from probe p cross join lateral (select p.v + 1 as w) l left join build b on b.k = p.k and b.v = l.w');
