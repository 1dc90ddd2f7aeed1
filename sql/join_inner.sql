-- Inner joins.
set hjoin_gpu.force = on;
explain (costs off) select * from probe p join build b on p.k = b.k;
select * from hjg_same('select p.id as pid, b.id as bid, p.v, b.t from probe p join build b on p.k = b.k');
-- both ways round
select * from hjg_same('select p.id as pid, b.id as bid from build b join probe p on p.k = b.k');
-- no output column at all, aggregates above
explain (costs off) select count(*) from probe p join build b on p.k = b.k;
select count(*) from probe p join build b on p.k = b.k;
select * from hjg_same('select count(*), sum(p.v + b.v), min(p.t), max(b.t) from probe p join build b on p.k = b.k');
-- several keys
explain (costs off) select * from probe p join build b on p.k = b.k and p.k2 = b.k2 and p.t = b.t;
select * from hjg_same('select p.id as pid, b.id as bid from probe p join build b on p.k = b.k and p.k2 = b.k2');
select * from hjg_same('select p.id as pid, b.id as bid from probe p join build b on p.k2 = b.k2 and p.k8 = b.k8 and p.v = b.v');
select * from hjg_same('select p.id as pid, b.id as bid from probe p join build b on p.t = b.t and p.k2 = b.k2');
-- the same column twice
select * from hjg_same('select p.id as pid, b.id as bid from probe p join build b on p.k = b.k and p.k = b.v');
-- empty sides
select * from hjg_same('select p.id as pid, n.id as nid from probe p join nothing n on p.k = n.k');
select * from hjg_same('select p.id as pid, n.id as nid from nothing n join probe p on p.k = n.k');
select * from hjg_same('select p.id as pid, n.id as nid from probe p join (select * from build where id < 0 offset 0) n on p.k = n.k');
select * from hjg_same('select p.id as pid, o.id as oid from probe p join one_row o on p.k = o.k');
-- every row has one key
select * from hjg_same('select count(*), sum(p.id::bigint * b.id) from (select id, 1 as k from probe offset 0) p join (select id, 1 as k from build offset 0) b on p.k = b.k');
select * from hjg_same('select p.id as pid, b.id as bid from (select id, k2 from probe where k2 = 3 offset 0) p join (select id, k2 from build where k2 = 3 offset 0) b on p.k2 = b.k2');
-- three and more relations, the node above itself
explain (costs off) select * from probe p join build b on p.k = b.k join probe q on q.id = b.id;
select * from hjg_same('select p.id as pid, b.id as bid, q.t from probe p join build b on p.k = b.k join probe q on q.id = b.id');
select * from hjg_same('select p.id as pid, b.id as bid, q.t, o.k from probe p join build b on p.k = b.k join probe q on q.id = b.id join one_row o on o.v = q.v');
-- self join, USING and NATURAL
select * from hjg_same('select a.id as aid, b.id as bid from build a join build b using (k)');
select * from hjg_same('select * from build natural join (select id, k, v as w from probe) p');
-- expressions as keys
explain (costs off) select * from probe p join build b on p.k + 1 = b.k * 2;
select * from hjg_same('select p.id as pid, b.id as bid from probe p join build b on p.k + 1 = b.k * 2');
select * from hjg_same('select p.id as pid, b.id as bid from probe p join build b on upper(p.t) = upper(b.t) and coalesce(p.k, -1) = coalesce(b.k, -1)');
-- above and below core's nodes
select * from hjg_same('select k, count(*), sum(bid) from (select p.k, b.id as bid from probe p join build b on p.k = b.k order by p.v, b.v, p.id, b.id) q group by k having count(*) > 20');
select * from hjg_same('select p.k, b.n from probe p join (select k, count(*) as n from build group by k) b on p.k = b.k');
select * from hjg_same('select p.id as pid, b.id as bid, row_number() over (partition by p.k order by p.id, b.id) from probe p join build b on p.k = b.k');
-- constants in the target list: columns of a subquery that nobody reads, and others, also for receivers that keep rows
select hjg_plan('select count(*) from (select p.id, p.t, b.v from probe p join build b on p.k = b.k offset 0) q');
select * from hjg_same('select count(*) from (select p.id, p.t, b.v from probe p join build b on p.k = b.k offset 0) q');
select * from hjg_same('select count(t), sum(v) from (select p.id, p.t, b.v from probe p join build b on p.k = b.k offset 0) q');
select * from hjg_same('select p.id as pid, 7 as n, null::text as nothing, b.id as bid, true as b, -3::int8 as n8 from probe p join build b on p.k = b.k');
select * from hjg_same('select p.id as pid, ''word''::text as w, 1.5::numeric as m, b.t from probe p join build b on p.k = b.k order by p.t, b.t');
select * from hjg_same('select q.*, x.id as xid from (select p.id as pid, 8 as n, p.k2, b.t from probe p left join build b on p.k = b.k order by b.t offset 0) q join one_row x on q.n = x.id + 7 and q.k2 < x.v');
-- a probe side without rows: the build side is not read, if a first row is cheaper than all of it
create function loops_below(query text) returns table (relation text, loops int) language sql as $$
	select r->>'Relation Name', (r->>'Actual Loops')::int
	from jsonb_path_query(hjg_explained('analyze, timing off, summary off', query), 'strict $.**?(@."Node Type" == "Seq Scan")') r order by 1 $$;
select * from loops_below('select * from probe p left join build b on p.k = b.k where p.id < 0');
select * from loops_below('select * from (select * from probe where id < 0 order by v offset 0) p left join build b on p.k = b.k');
select * from loops_below('select * from probe p right join build b on p.k = b.k and p.id < 0');
select * from hjg_same('select * from probe p left join build b on p.k = b.k where p.id < 0');
drop function loops_below;
