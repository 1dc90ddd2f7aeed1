-- NULL keys: they match nothing, and preserved rows keep them.
set hjoin_gpu.force = on;
create table nulls_l (id int, a int, b text);
create table nulls_r (id int, a int, b text);
insert into nulls_l values (1, 1, 'x'), (2, null, 'x'), (3, 3, null), (4, null, null), (5, 5, 'y');
insert into nulls_r values (1, 1, 'x'), (2, null, 'x'), (3, 3, null), (4, null, null), (6, 6, 'y');
analyze nulls_l;
analyze nulls_r;
explain (costs off) select * from nulls_l l full join nulls_r r on l.a = r.a;
select l.id as l, r.id as r from nulls_l l join nulls_r r on l.a = r.a order by 1, 2;
select l.id as l, r.id as r from nulls_l l full join nulls_r r on l.a = r.a order by 1, 2;
select l.id as l, r.id as r from nulls_l l full join nulls_r r on l.a = r.a and l.b = r.b order by 1, 2;
select l.id as l from nulls_l l where not exists (select 1 from nulls_r r where l.a = r.a) order by 1;
select l.id as l from nulls_l l where l.a not in (select a from nulls_r) order by 1;
select * from hjg_kinds('nulls_l l', 'nulls_r r', 'l.a = r.a');
select * from hjg_kinds('nulls_l l', 'nulls_r r', 'l.b = r.b');
select * from hjg_kinds('nulls_l l', 'nulls_r r', 'l.a = r.a and l.b = r.b');
-- every key NULL
select * from hjg_kinds('(select id, null::int as a from probe offset 0) l', 'nulls_r r', 'l.a = r.a');
select * from hjg_kinds('nulls_l l', '(select id, null::int as a from build offset 0) r', 'l.a = r.a');
select * from hjg_kinds('(select id, null::text as a from build offset 0) l', '(select id, null::text as a from build offset 0) r', 'l.a = r.a');
-- NULL made by an expression, and by an outer join below
select * from hjg_kinds('probe l', 'build r', 'nullif(l.k, 5) = nullif(r.k, 7)');
select * from hjg_same('select p.id as pid, c.id as cid from probe p left join build b on p.k = b.id left join build c on c.k = b.k');
select * from hjg_same('select p.id as pid, c.id as cid from probe p left join build b on p.k = b.id full join build c on c.k = b.k');
-- is not distinct from is not a hash clause
select * from hjg_same('select l.id as lid, r.id as rid from nulls_l l join nulls_r r on l.a is not distinct from r.a and l.b = r.b');
