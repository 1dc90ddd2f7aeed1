-- Whole rows and system columns above the join.
set hjoin_gpu.force = on;
explain (verbose, costs off) select p, b.ctid, b.tableoid::regclass from probe p join build b on p.k = b.k;
select * from hjg_same('select p, b from probe p join build b on p.k = b.k');
select * from hjg_same('select p, b from probe p left join build b on p.k = b.k and b.v > 5');
select * from hjg_same('select p.ctid, b.ctid as bctid, p.tableoid::regclass, b.tableoid::regclass as btab from probe p full join build b on p.k = b.k');
select * from hjg_same('select b is null as no_b, p is null as no_p, count(*) from probe p full join build b on p.k = b.k group by 1, 2');
select * from hjg_same('select row_to_json(p), to_jsonb(b) from probe p left join build b on p.k = b.k');
select * from hjg_same('select (p).v, (b).t from probe p join build b on p.k = b.k where (p).v = (b).v');
select * from hjg_same('select p.xmin = b.xmin as x, p.cmin is null as c from probe p left join build b on p.k = b.k');
-- whole rows of a join, of a sub-select, of a function
select * from hjg_same('select j from (select p.id as pid, b.* from probe p left join build b on p.k = b.k) j');
select * from hjg_same('select p.id as pid, f from probe p join generate_series(1, 100) f on f = p.k');
select * from hjg_same('select s, b.id as bid from (select k, count(*) as n from probe group by k) s join build b on s.k = b.k');
-- a qual over a whole row
select * from hjg_same('select p.id as pid, b.id as bid from probe p left join build b on p.k = b.k and p::text > b::text');
