-- Joins in which one match decides a row of the probe side, with residual quals and duplicates:
-- a row that is decided must not be looked at again.
set hjoin_gpu.force = on;
set max_parallel_workers_per_gather = 0;
-- 4 keys with 300 rows each on the build side, and keys with one row each
create table many (id int, k int, v int, t text);
insert into many
	select g, g % 4, g / 4, 'key ' || g % 4 from generate_series(0, 1199) g union all
	select 10000 + g, 100 + g, g, 'key ' || 100 + g from generate_series(0, 599) g;
create table few (id int, k int, v int, t text);
insert into few
	select g, case when g % 50 = 0 then null when g % 3 = 0 then 100 + g % 700 else g % 5 end, g % 310, 'key ' || g % 5
	from generate_series(0, 899) g;
create table uniq (id int primary key, k int, v int, unique (k, v));
insert into uniq select g, g / 2, g % 2 from generate_series(0, 999) g;
analyze many;
analyze few;
analyze uniq;
select c as condition, s.* from unnest(array[
	'l.k = r.k and r.v + l.v >= 0',	-- the first candidate matches
	'l.k = r.k and l.v > r.v',			-- one of the first, or the last ones
	'l.k = r.k and r.v between l.v and l.v',	-- one of 300
	'l.k = r.k and r.v + l.v < 0',		-- none
	'l.k = r.k and (r.v + l.v) % 7 = 3 and r.id > 900 + l.v',
	'l.t = r.t and r.v > l.v',			-- hashed keys
	'l.t = r.t and l.k = r.k and r.v between l.v and l.v + 1']) c,
	hjg_kinds('few l', 'many r', c) s;
-- a unique build side that the planner knows of
select c as condition, s.* from unnest(array[
	'l.k = r.id and l.v < r.v + 200',
	'l.k = r.k and r.v = l.v % 2 and l.id + r.id < 1000']) c,
	hjg_kinds('few l', 'uniq r', c) s;
-- in chunks of a partition: one key with more rows than memory
set work_mem = '64kB';
set hash_mem_multiplier = 1;
create table chunks (id int, k int, v int);
insert into chunks select g, 1, g from generate_series(1, 20000) g;
analyze chunks;
select * from hjg_same('select l.id from few l where exists (select from chunks r where l.k = r.k and r.v between l.v * 60 and l.v * 60)');
select * from hjg_same('select l.id from few l where not exists (select from chunks r where l.k = r.k and r.v between l.v * 90 and l.v * 90)');
select * from hjg_same('select l.id from few l where exists (select from chunks r where l.k = r.k)');
select * from hjg_same('select l.id from few l where not exists (select from chunks r where l.k = r.k)');
reset work_mem;
reset hash_mem_multiplier;

-- how many candidates an engine returned, and how many of them the join filter removed
create function looked_at(query text, out candidates bigint, out removed bigint) language sql as $$
	select jsonb_path_query_first(plan, '$.**."Candidate Pairs"')::bigint, jsonb_path_query_first(plan, '$.**."Rows Removed by Join Filter"')::bigint
	from hjg_explained('analyze, costs off, timing off, summary off', query) plan $$;
set hjoin_gpu.in_backend_rows = 0;
select count(*) as pairs, count(distinct l.id) as with_candidates, count(distinct l.id) filter (where r.k < 4) as with_300
	from few l join many r on l.k = r.k;
-- the first decides: one a row
select * from looked_at('select id from few l where exists (select from many r where r.k = l.k and r.v + l.v >= 0)');
select * from looked_at('select id from few l where not exists (select from many r where r.k = l.k and r.v + l.v >= 0)');
-- one of the first nine decides
select candidates <= 729 + 468 * 9 as two_slices
	from looked_at('select id from few l where exists (select from many r where r.k = l.k and ((r.v + l.id) % 4 <> l.id % 4 or r.k >= 100))');
-- no match: all of them, the first twice; the join filter counts each once
select candidates - removed as twice, removed
	from looked_at('select id from few l where not exists (select from many r where r.k = l.k and r.v + l.v < 0)');

-- many probe rows: with one candidate a row, later batches are joined as a whole; then come rows with many
create table stream (id int, k int, v int);
insert into stream select g, 100 + g % 600, g from generate_series(0, 149999) g;
analyze stream;
select candidates < 200000 as once, removed
	from looked_at('select id from stream l where not exists (select from many r where r.k = l.k and r.v + l.v < 0)');
select * from hjg_same('select id from stream l where not exists (select from many r where r.k = l.k and r.v + l.v < 300)');
insert into stream select 150000 + g, g % 4, g from generate_series(0, 9999) g;
select candidates < 150000 + 10000 * 20 as bounded
	from looked_at('select id from stream l where not exists (select from many r where r.k = l.k and r.v + l.v >= 0)');
select * from hjg_same('select id from stream l where not exists (select from many r where r.k = l.k and r.v + l.v > 700 and r.k < l.k + 1)');
-- nor in another pass over the build rows of one key
create table stream_1 as select g as id, 1 + (g % 100 = 0)::int as k, g % 100 as v from generate_series(1, 10000) g;
analyze stream_1;
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select kind, condition, passes > 5 as passes, candidates <= 10000 as once, s.rows, s.equal from unnest(array['exists', 'not exists']) kind, unnest(array['true', 'r.v + l.v >= 0']) condition,
	format('select l.id from stream_1 l where %s (select from chunks r where l.k = r.k and %s)', kind, condition) query, hjg_figure(query, 'Hash Batches') passes, looked_at(query), hjg_same(query) s;
reset work_mem;
reset hash_mem_multiplier;
drop table many, few, uniq, chunks, stream, stream_1;
drop function looked_at;
reset hjoin_gpu.in_backend_rows;
