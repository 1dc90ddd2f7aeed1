-- Keys of variable width whose bytes are hashed and compared here: texts and bytea.
set client_min_messages = warning;
set hjoin_gpu.force = on;

-- candidates and rows of the join in a query that has one
create function hjg_candidates(query text, out pairs bigint, out rows bigint) language sql as $$
	select max(substring(line from 'Candidate Pairs: (\d+)')::bigint), max(substring(line from 'GpuHashJoin\) \(actual rows=(\d+)')::bigint) from hjg_analyze(query) line $$;

-- values of all lengths, and numbers with leading zeros, meet none but their equals
create table varlena_l as select g as id, left('abcdefghijklmnopqrstuvwxyz', g % 27) || g / 27 as mixed, lpad(g::text, 20, '0') as padded, decode(lpad(to_hex(g), 32, '0'), 'hex') as bytes,
	repeat('x', g % 40) as run from generate_series(0, 19999) g;
create table varlena_r as select id, mixed::varchar as mixed, padded, bytes, run from varlena_l where id % 3 = 0;
vacuum analyze varlena_l, varlena_r;
set hjoin_gpu.aggregate = on;
select c as key, s.* from unnest(array['mixed', 'padded', 'bytes']) c, hjg_candidates(format('select count(*) from varlena_l l join varlena_r r on l.%I = r.%I', c, c)) s;
set hjoin_gpu.aggregate = off;
select * from hjg_kinds('(select * from varlena_l where id < 2000) l', '(select * from varlena_r where id < 500) r', 'l.run = r.run');

-- Different keys that would have one hash if it had no seed: nobody can choose such keys.  Of each pair the first
-- halves are chosen, and the second half of one; the other's is what makes up for the difference.
create table same_hash (n int, a bytea, b bytea);
insert into same_hash values
	(0, '\x00100000000000004242424242424242', '\x00009000000000006a296ccf27b07752'),
	(1, '\x01100000000000004242424242424242', '\x01009000000000006a296cf1a4bd7652'),
	(2, '\x02100000000000004242424242424242', '\x02009000000000006a294ef639b05552'),
	(3, '\x03100000000000004242424242424242', '\x03009000000000006a296af6ac945672'),
	(4, '\x04100000000000004242424242424242', '\x04009000000000006b096cf51f90b7b2'),
	(5, '\x05100000000000004242424242424242', '\x05009000000000006a098cf668703172');
create table collide_l as select id, n, case id % 5 when 0 then null when 1 then a when 2 then b else a || '\x00' end as k, id % 7 as v
	from same_hash, generate_series(1, 400) id where id % 6 = n;
create table collide_r as select id, n, case id % 3 when 0 then a when 1 then b end as k, id % 5 as v
	from same_hash, generate_series(1, 90) id where id % 6 = n;
create table collide_u as select n, k from same_hash, unnest(array[a, b]) k;
create unique index on collide_u (k);
vacuum analyze collide_l, collide_r, collide_u;
set hjoin_gpu.aggregate = on;
set hjoin_gpu.bloom_filter = off;
select pairs = rows as no_others_among_candidates, rows from hjg_candidates('select count(*) from collide_l l join collide_r r on l.k = r.k');
select count(*), sum(l.v + r.v), min(r.id), max(l.id) from collide_l l join collide_r r on l.k = r.k;
set hjoin_gpu.aggregate = off;
select * from hjg_kinds('collide_l l', 'collide_r r', 'l.k = r.k');
select * from hjg_kinds('collide_l l', 'collide_r r', 'l.k = r.k and l.v > r.v');
select * from hjg_kinds('collide_l l', 'collide_r r', 'l.k = r.k and l.v + r.v > 5');
select * from hjg_kinds('collide_l l', 'collide_r r', 'l.k = r.k and l.n = r.n');
select * from hjg_same('select l.id, u.n from collide_l l join collide_u u on l.k = u.k');
select * from hjg_same('select l.id, u.n from collide_l l left join collide_u u on l.k = u.k');
-- rows for a join above, and columns that nobody wants
select * from hjg_same('select l.id, r.id as rid, u.n from collide_l l join collide_r r on l.k = r.k join collide_u u on r.k = u.k');
select * from hjg_same('select r.v from collide_l l join collide_r r on l.k = r.k');
-- an expression for a key is left to core's comparison
select * from hjg_kinds('collide_l l', 'collide_r r', 'l.k || ''\x01'' = r.k || ''\x01''');
-- in partitions
set work_mem = '64kB';
insert into collide_r select 100 + g, g, decode(lpad(to_hex(g), 32, '0'), 'hex'), g % 5 from generate_series(1, 8000) g;
insert into collide_l select 1000 + g, g, decode(lpad(to_hex(g), 32, '0'), 'hex'), g % 7 from generate_series(4000, 9000) g;
analyze collide_l, collide_r;
select * from hjg_kinds('collide_l l', 'collide_r r', 'l.k = r.k');
reset work_mem;

-- compressed and external values
create table varlena_long_l as select g as id, repeat('compressed ', 400) || g % 50 as packed, null::text as apart from generate_series(1, 200) g;
alter table varlena_long_l alter apart set storage external;
update varlena_long_l set apart = packed;
create table varlena_long_r as select id + 20 as id, packed, packed as apart from varlena_long_l where id <= 40;
vacuum analyze varlena_long_l, varlena_long_r;
select * from hjg_kinds('varlena_long_l l', 'varlena_long_r r', 'l.packed = r.packed');
select * from hjg_kinds('varlena_long_l l', 'varlena_long_r r', 'l.apart = r.packed and l.id > r.id');

-- most values are short enough to lie in the rows of a store, some are not: longer, compressed, external, of a header of four bytes, NULL
create table varlena_most_l as select g as id, g % 300 as n, case when g % 31 = 0 then null when g % 37 = 0 then repeat('longer than most of them ', 2) || g % 300 when g % 199 = 0 then repeat('compressed ', 300) || g % 300 else 'short ' || g % 300 end as k,
	array[g, g % 7] as a from generate_series(1, 1500) g;
create table varlena_most_r (id int, n int, k text, a int[]);
alter table varlena_most_r alter k set storage external;
insert into varlena_most_r select id, n, k, case when id % 41 = 0 then null when id % 53 = 0 then array_fill(id, array[50]) else a end from varlena_most_l where id <= 700;
vacuum analyze varlena_most_l, varlena_most_r;
select c, avg_width between 1 and 32 as short from unnest(array['k', 'a']) c join pg_stats on tablename = 'varlena_most_r' and attname = c;
select * from hjg_kinds('varlena_most_l l', 'varlena_most_r r', 'l.k = r.k');
select * from hjg_kinds('varlena_most_r l', 'varlena_most_l r', 'l.n = r.n and l.k >= r.k');
select * from hjg_same('select l.id, l.k, r.k as rk, l.a, r.a as ra from varlena_most_l l full join varlena_most_r r on l.n = r.n and l.a < r.a');
select * from hjg_same('select l.id, l.k || r.k as both, r.a from varlena_most_l l left join (select id, k, a, k || ''!'' as kk from varlena_most_r) r on l.k || ''!'' = r.kk');
call hjg_parallel();
select * from hjg_kinds('varlena_most_l l', 'varlena_most_r r', 'l.k = r.k');
select * from hjg_same('select l.id, l.k, r.k as rk, l.a, r.a as ra from varlena_most_l l right join varlena_most_r r on l.n = r.n');
set work_mem = '64kB';
select * from hjg_same('select l.id, l.k, r.k as rk, l.a, r.a as ra from varlena_most_l l right join varlena_most_r r on l.n = r.n');

reset all;
drop function hjg_candidates(text);
drop table varlena_l, varlena_r, same_hash, collide_l, collide_r, collide_u, varlena_long_l, varlena_long_r, varlena_most_l, varlena_most_r;
