-- LEFT, RIGHT and FULL joins.
set hjoin_gpu.force = on;
explain (costs off) select * from probe p left join build b on p.k = b.k;
explain (costs off) select * from build b right join probe p on p.k = b.k and p.v = b.v;
explain (costs off) select * from probe p full join build b on p.k = b.k;
select * from hjg_kinds('probe l', 'build r', 'l.k = r.k');
select * from hjg_kinds('build l', 'probe r', 'l.k = r.k');
select * from hjg_kinds('probe l', 'build r', 'l.k = r.k and l.k2 = r.k2');
select * from hjg_kinds('probe l', 'build r', 'l.k8 = r.k8 and l.t = r.t');
select * from hjg_kinds('probe l', 'build r', 'l.t = r.t');
-- empty and tiny sides
select * from hjg_kinds('probe l', 'nothing r', 'l.k = r.k');
select * from hjg_kinds('nothing l', 'build r', 'l.k = r.k');
select * from hjg_kinds('nothing l', 'nothing r', 'l.k = r.k');
select * from hjg_kinds('one_row l', 'build r', 'l.k = r.k');
select * from hjg_kinds('probe l', 'one_row r', 'l.k = r.k');
-- quals in ON and quals in WHERE are not the same
select * from hjg_same('select p.id as pid, b.id as bid from probe p left join build b on p.k = b.k and b.v > 10');
select * from hjg_same('select p.id as pid, b.id as bid from probe p left join build b on p.k = b.k where b.v > 10 or b.v is null');
select * from hjg_same('select p.id as pid, b.id as bid from probe p left join build b on p.k = b.k and p.v > 10');
select * from hjg_same('select p.id as pid, b.id as bid from probe p left join build b on p.k = b.k where b.id is null');
select * from hjg_same('select p.id as pid, b.id as bid from probe p full join build b on p.k = b.k where p.id is null or b.id is null');
select * from hjg_same('select p.id as pid, b.id as bid from probe p full join build b on p.k = b.k where coalesce(p.v, b.v) > 7');
-- chains
select * from hjg_same('select p.id as pid, b.id as bid, q.id as qid from probe p left join build b on p.k = b.k left join probe q on b.id = q.id and q.v = b.v');
select * from hjg_same('select p.id as pid, b.id as bid, q.id as qid from probe p full join build b on p.k = b.k full join one_row q on b.id = q.k');
select * from hjg_same('select p.id as pid, b.id as bid, q.id as qid from probe p left join (build b join one_row q on b.v = q.v) on p.k = b.k');
select * from hjg_same('select p.id as pid, b.id as bid, q.id as qid from probe p right join (build b full join one_row q on b.v = q.v) on p.k = q.k');
-- a full join with every row matched, and with none
select * from hjg_same('select a.id as aid, b.id as bid from build a full join build b on a.id = b.id');
select * from hjg_same('select a.id as aid, b.id as bid from build a full join build b on a.id = b.id + 10000');
select count(*), count(a.id), count(b.id) from build a full join build b on a.id = b.id + 10000;
