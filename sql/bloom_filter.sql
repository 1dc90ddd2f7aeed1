-- The Bloom filter of the build keys: which joins have it, what it drops, when it is given up.
set client_min_messages = warning;
set hjoin_gpu.force = on;
set max_parallel_workers_per_gather = 0;
-- as with build sides that are not small
set hjoin_gpu.in_backend_rows = 0;
create table bloom_l (id int, k int, k8 bigint, k16 bigint, t text);
create table bloom_r (id int, k int, k8 bigint, k16 bigint, t text);
insert into bloom_l select g, case when g % 50 <> 0 then (g * 7919::bigint) % 40000 end, (g * 7919::bigint) % 40000 << 30, g % 3, 'key ' || (g * 7919::bigint) % 40000 from generate_series(1, 40000) g;
insert into bloom_r select g, case when g % 30 <> 0 then g end, g::bigint << 30, g % 3, 'key ' || g from generate_series(1, 2000) g;
vacuum analyze bloom_l;
vacuum analyze bloom_r;

-- what EXPLAIN ANALYZE says of the filter, and whether it dropped about so many rows
create function hjg_filter(query text, dropped int) returns table (used bool, as_many bool, given_up bool) language sql as $$
	select (node->>'Bloom Filter')::bool, (node->>'Rows Removed by Bloom Filter')::bigint * coalesce((node->>'Actual Loops')::int, 1) between dropped * 0.95 and dropped, (node->>'Bloom Filter Given Up')::bool
	from jsonb_path_query_first(hjg_explained('analyze, costs off, timing off', query), '$.** ? (exists (@."Custom Plan Provider"))') node $$;

-- only where a probe row without a partner is nothing to the join
set hjoin_gpu.bloom_filter = on;
explain (costs off) select count(*) from bloom_l l join bloom_r r on l.k = r.k;
explain (costs off) select count(*) from bloom_l l where exists (select 1 from bloom_r r where l.k = r.k);
explain (costs off) select l.id, r.id from bloom_l l right join bloom_r r on l.k = r.k;
explain (costs off) select l.id, r.id from bloom_l l left join bloom_r r on l.k = r.k;
explain (costs off) select l.id, r.id from bloom_l l full join bloom_r r on l.k = r.k;
explain (costs off) select count(*) from bloom_l l where not exists (select 1 from bloom_r r where l.k = r.k);
set hjoin_gpu.bloom_filter = off;
explain (costs off) select count(*) from bloom_l l join bloom_r r on l.k = r.k;
select * from hjg_filter('select count(*) from bloom_l l join bloom_r r on l.k = r.k', 0);
-- auto: by what is expected to pay, and not when most rows have a partner
set hjoin_gpu.bloom_filter = auto;
explain (costs off) select l.id, l.t, r.id from bloom_l l join bloom_r r on l.k = r.k;
explain (costs off) select l.id, l.t, r.id from bloom_l l join bloom_l r on l.id = r.id;
-- nor of a foreign key's rows, which all have one; but where few of the keys are left
create table bloom_key (id int primary key, v int);
insert into bloom_key select g, g % 100 from generate_series(0, 39999) g;
vacuum analyze bloom_key;
explain (costs off) select l.t, r.v from bloom_l l join bloom_key r on l.k = r.id;
explain (costs off) select l.t, r.v from bloom_l l join bloom_key r on l.k = r.id where r.v = 1;

-- rows that it drops, for each width of keys and each way to read a row
set hjoin_gpu.bloom_filter = on;
select * from hjg_filter('select count(*) from bloom_l l join bloom_r r on l.k = r.k', 38067);
select * from hjg_filter('select count(*) from bloom_l l join bloom_r r on l.k8 = r.k8', 38000);
select * from hjg_filter('select count(*) from bloom_l l join bloom_r r on l.k8 = r.k8 and l.k16 = r.k16', 39300);
select * from hjg_filter('select count(*) from bloom_l l join bloom_r r on l.t = r.t', 38000);
select * from hjg_filter('select count(*) from (select * from bloom_l offset 0) l join bloom_r r on l.k = r.k', 38067);
set hjoin_gpu.direct_scan = off;
select * from hjg_filter('select count(*) from bloom_l l join bloom_r r on l.k = r.k', 38067);
reset hjoin_gpu.direct_scan;
-- where they lie, too, in a page or in the vectors of a join below
set hjoin_gpu.in_backend_rows = 1000000;
select * from hjg_filter('select count(*) from bloom_l l join bloom_r r on l.k = r.k', 38067);
select * from hjg_filter('select count(l.t) from bloom_l l join bloom_r r on l.t = r.t', 38000);
select * from hjg_filter('select l.t, r.id from bloom_l l left join bloom_l m on l.id = m.id join bloom_r r on l.k8 = r.k8', 38000);
select * from hjg_filter('select count(*) from bloom_l l join (select * from bloom_r where id < 0) r on l.k = r.k', 0);
set hjoin_gpu.in_backend_rows = 0;
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select * from hjg_filter('select count(l.t) from bloom_l l join bloom_r r on l.k = r.k', 38067);
reset work_mem;
reset hash_mem_multiplier;

-- the answers are core's
select * from hjg_kinds('bloom_l l', 'bloom_r r', 'l.k = r.k');
select * from hjg_kinds('bloom_l l', 'bloom_r r', 'l.k8 = r.k8 and l.k16 = r.k16');
select * from hjg_kinds('bloom_l l', 'bloom_r r', 'l.t = r.t and l.id % 5 <> r.id % 3');
select * from hjg_kinds('bloom_l l', '(select * from bloom_r where k is null) r', 'l.k = r.k');
select * from hjg_kinds('(select * from bloom_l where k is null) l', 'bloom_r r', 'l.k = r.k');
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select * from hjg_kinds('bloom_l l', 'bloom_r r', 'l.k = r.k and l.t < r.t || ''9''');
select * from hjg_kinds('bloom_l l', '(select id, k % 2 as k from bloom_r) r', 'l.k = r.k');
reset work_mem;
reset hash_mem_multiplier;
-- more than once
select * from hjg_same('select o.v, (select count(*) from (select * from bloom_l where id % 7 <> o.v) l join bloom_r r on l.k = r.k) from (values (1), (2), (3)) o (v)');
select * from hjg_same('select o.v, (select count(*) from bloom_l l join (select * from bloom_r where id % 7 <> o.v) r on l.k = r.k) from (values (1), (2), (3)) o (v)');
begin;
declare c scroll cursor for select l.id, r.id from bloom_l l join bloom_r r on l.k = r.k;
move 100 in c;
move backward all in c;
move all in c;
rollback;
-- shared by leader and workers
call hjg_parallel();
select * from hjg_same('select count(*), sum(l.id), sum(r.id) from bloom_l l join bloom_r r on l.k = r.k');
select * from hjg_same('select count(*), sum(l.id), sum(r.id) from bloom_l l right join bloom_r r on l.k8 = r.k8 and l.id > 30000');
select * from hjg_same('select count(*), sum(l.id) from bloom_l l where exists (select 1 from bloom_r r where l.t = r.t)');
select * from hjg_filter('select count(*) from bloom_l l join bloom_r r on l.k = r.k', 38067);
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select * from hjg_filter('select count(l.t), sum(length(r.t)) from bloom_l l join bloom_r r on l.k = r.k', 38067);
select * from hjg_same('select count(*), sum(l.id), sum(length(r.t)) from bloom_l l join bloom_r r on l.k = r.k');
reset work_mem;
reset hash_mem_multiplier;
set max_parallel_workers_per_gather = 0;

-- nobody could know that all rows have a partner: given up on the way
set hjoin_gpu.bloom_filter = auto;
select * from hjg_filter('select l.id, l.t, r.id from bloom_l l join (select * from bloom_l where abs(id) > 0 and abs(k8) >= 0 and length(t) > 0) r on l.id = r.id', 0);
select * from hjg_same('select l.id, l.t, r.id as rid from bloom_l l join (select * from bloom_l where abs(id) > 0 and abs(k8) >= 0 and length(t) > 0) r on l.id = r.id');
drop function hjg_filter;
drop table bloom_l, bloom_r, bloom_key;
