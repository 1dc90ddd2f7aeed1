-- Parallel plans whose participants share one build side.
set client_min_messages = warning;
call hjg_parallel(3);
set hjoin_gpu.force = on;
create table par_l (id int, k int, k8 bigint, v int, t text, n numeric) with (parallel_workers = 4);
create table par_r (id int, k int, k8 bigint, v int, t text, n numeric) with (parallel_workers = 4);
insert into par_l select g, case when g % 31 <> 0 then g % 7000 end, (g % 5003)::bigint << 20, g % 37,
	case when g % 29 <> 0 then 'key ' || g % 4001 end, case when g % 23 <> 0 then g % 3001 end
	from generate_series(1, 30000) g;
insert into par_r select g, case when g % 41 <> 0 then g % 9000 end, (g % 6007)::bigint << 20, g % 41,
	case when g % 13 <> 0 then 'key ' || g % 5003 || repeat('x', g % 97 / 96 * 3000) end, case when g % 19 <> 0 then g % 4001 end
	from generate_series(1, 12000) g;
create table par_none (like par_l);
vacuum analyze par_l, par_r, par_none;

-- Compares ours, with so many workers and under some settings, with core's serial plan by
-- count and checksum.  "shared" says that ours had a parallel-aware node.
create function hjg_par(query text, workers int, settings text[], out rows bigint, out equal bool, out shared bool)
language plpgsql as $$
declare
	core numeric;
	ours numeric;
	ours_rows bigint;
	setting text;
	sums text := format('select count(*), sum(hashtextextended(q::text, 0)::numeric) from (%s) q', query);
begin
	perform set_config('hjoin_gpu.enabled', 'off', true), set_config('max_parallel_workers_per_gather', '0', true);
	execute sums into rows, core;
	perform set_config('hjoin_gpu.enabled', 'on', true), set_config('max_parallel_workers_per_gather', workers::text, true);
	foreach setting in array settings loop
		perform set_config(split_part(setting, '=', 1), split_part(setting, '=', 2), true);
	end loop;
	shared := hjg_lines(sums, 'Parallel Custom Scan (GpuHashJoin)') > 0;
	execute sums into ours_rows, ours;
	equal := ours_rows = rows and ours is not distinct from core;
	if not equal then
		raise warning '% workers, %: rows % and sum % of core, % and % of ours', workers, settings, rows, core, ours_rows, ours;
	end if;
end $$;
-- all kinds of join, with several numbers of workers and in all the ways that ours can run it
create function hjg_par_kinds(l text, r text, cond text, out inner_rows bigint, out left_rows bigint, out right_rows bigint,
	out full_rows bigint, out semi_rows bigint, out anti_rows bigint, out equal bool, out shared bool)
language plpgsql as $$
declare
	kinds text[] := array['select l.*, r.id as rid, r.t as rt from L join R on C', 'select l.id, l.t, r.* from L left join R on C',
		'select l.id as lid, l.t as lt, r.* from L right join R on C', 'select l.id as lid, l.n as ln, r.* from L full join R on C',
		'select l.* from L where exists (select 1 from R where C)', 'select l.* from L where not exists (select 1 from R where C)'];
	settings text[] := array['hjoin_gpu.in_backend_rows=0', 'hjoin_gpu.in_backend_rows=-1', 'work_mem=128kB', 'parallel_leader_participation=off', 'max_parallel_workers=0'];
	found bigint[];
	res record;
begin
	equal := true;
	shared := true;
	for kind in 1..6 loop
		for i in 1..5 loop
			select * into res from hjg_par(replace(replace(replace(kinds[kind], 'L', l), 'R', r), 'C', cond), 2 + (i + kind) % 3, settings[i:i]);
			equal := equal and res.equal;
			shared := shared and res.shared;
			perform set_config(name, reset_val, true) from pg_settings where name = split_part(settings[i], '=', 1);
		end loop;
		found[kind] := res.rows;
	end loop;
	inner_rows := found[1];
	left_rows := found[2];
	right_rows := found[3];
	full_rows := found[4];
	semi_rows := found[5];
	anti_rows := found[6];
end $$;

explain (costs off) select count(*) from par_l l join par_r r on l.k = r.k;
explain (costs off) select count(*) from par_l l full join par_r r on l.k = r.k and l.v < r.v;
select * from hjg_par_kinds('par_l l', 'par_r r', 'l.k = r.k');
select * from hjg_par_kinds('par_r l', 'par_l r', 'l.k = r.k and l.v > r.v');
-- memory for the build side's rows that the leader has ready before they come: enough, too little, and of a wrong estimate
create table par_wide with (parallel_workers = 4) as
	select g as id, g::int8 as c1, g::int8 as c2, g::int8 as c3, g::int8 as c4, g::int8 as c5, g::int8 as c6, g::int8 as c7, g::int8 as c8 from generate_series(1, 40000) g;
analyze par_wide;
select * from hjg_par('select l.id as lid, r.* from par_l l join par_wide r on l.id = r.id', 4, array[]::text[]);
select * from hjg_par('select l.id as lid, r.* from par_l l join par_wide r on l.id = r.id', 4, '{hjoin_gpu.in_backend_rows=-1}');
select * from hjg_par('select l.id as lid, r.* from par_l l join par_wide r on l.id = r.id and r.c1 = r.c2 and r.c3 % 100 < 90', 4, array[]::text[]);
select * from hjg_par('select l.id as lid, r.* from par_l l join par_wide r on l.id = r.id where r.c1 < 100 or r.c2 + r.c3 > 0', 3, array[]::text[]);
drop table par_wide;
select * from hjg_par_kinds('par_l l', 'par_r r', 'l.k8 = r.k8');
select * from hjg_par_kinds('par_l l', 'par_r r', 'l.k8 = r.k8 and l.k = r.k');
select * from hjg_par_kinds('par_l l', 'par_r r', 'l.t = r.t');
select * from hjg_par_kinds('par_l l', 'par_r r', 'l.n = r.n and l.v <> r.v');
select * from hjg_par_kinds('par_l l', 'par_none r', 'l.k = r.k');
select * from hjg_par_kinds('par_none l', 'par_r r', 'l.k = r.k');

-- one join feeds another on either side
select * from hjg_par('select l.id, r.id as rid, q.id as qid from par_l l join par_r r on l.k = r.k join par_r q on r.id = q.id', 3, '{}');
select * from hjg_par('select l.id, r.id as rid, q.id as qid from par_l l full join (par_r r right join par_r q on r.id = q.k) on l.id = q.id', 3, '{}');
select * from hjg_par('select l.id, r.id as rid, q.id as qid from par_l l full join (par_r r right join par_r q on r.id = q.k) on l.id = q.id', 2, '{work_mem=128kB}');
-- one worker
select * from hjg_par('select l.id, r.* from par_l l full join par_r r on l.k = r.k', 1, '{}');
-- Gather Merge above
select * from hjg_par('select l.id, r.id as rid from par_l l left join par_r r on l.k = r.k order by l.id, r.id', 2, '{}');
-- partitions and appended children below
create table par_parts (id int, k int, v int) partition by hash (k);
create table par_parts_0 partition of par_parts for values with (modulus 3, remainder 0);
create table par_parts_1 partition of par_parts for values with (modulus 3, remainder 1);
create table par_parts_2 partition of par_parts for values with (modulus 3, remainder 2);
create table par_parts2 (id int, k int, v int) partition by hash (k);
create table par_parts2_0 partition of par_parts2 for values with (modulus 3, remainder 0);
create table par_parts2_1 partition of par_parts2 for values with (modulus 3, remainder 1);
create table par_parts2_2 partition of par_parts2 for values with (modulus 3, remainder 2);
insert into par_parts select g, g % 6007, g % 7 from generate_series(1, 36000) g;
insert into par_parts2 select g, g % 4507, g % 5 from generate_series(1, 16000) g;
vacuum analyze par_parts, par_parts2;
select * from hjg_par('select l.id, r.id as rid from par_parts l join par_parts2 r on l.k = r.k', 3, '{}');
select * from hjg_par('select l.id, r.id as rid from par_parts l full join par_parts2 r on l.k = r.k', 3, '{enable_partitionwise_join=on}');
select * from hjg_par('select l.id, r.id as rid from par_parts l left join par_parts2 r on l.k = r.k and l.v > r.v', 3, '{enable_partitionwise_join=on}');
select * from hjg_par('select r.id from (select k from par_parts union all select k from par_parts2) l join par_r r on l.k = r.k', 3, '{}');

-- the join is run again, from the start, for each row above; and with other parameters
set enable_material = off;
select * from hjg_par('select o.x, j.c from (values (1), (2), (3)) o (x), lateral (select count(*) as c, sum(l.id + r.id) from par_l l join par_r r on l.k = r.k where l.v > o.x offset 0) j', 3, '{}');
select * from hjg_par('select o.x, j.c from (values (1), (2), (3)) o (x), lateral (select count(*) as c, sum(l.id + r.id) from par_l l full join par_r r on l.k = r.k and l.v = r.v where coalesce(r.v, 5) > o.x offset 0) j', 3, '{work_mem=128kB}');
select * from hjg_par('select o.id, j.c from (select id from one_row union all select 2) o left join (select count(*) as c from par_l l join par_r r on l.k = r.k) j on o.id < j.c', 3, '{}');
reset enable_material;

-- not drained
select count(*) from (select l.id from par_l l join par_r r on l.k = r.k limit 10) q;
select count(*) from (select l.id from par_l l full join par_r r on l.k = r.k limit 40000) q;
select o.x, (select count(*) from (select l.id from par_l l join par_r r on l.k = r.k where l.v > o.x limit 5) q) from (values (1), (2)) o (x);

-- the side that is worth more workers has them, whichever it is
alter table par_r set (parallel_workers = 1);
alter table par_l set (parallel_workers = 3);
explain (costs off) select count(*) from par_l l left join par_r r on l.k = r.k;
explain (costs off) select count(*) from par_l l where not exists (select 1 from par_r r where l.k = r.k);
select * from hjg_par('select l.id, r.id as rid from par_r r left join par_l l on l.k = r.k', 3, array['hjoin_gpu.in_backend_rows=0']);
alter table par_r reset (parallel_workers);
alter table par_l reset (parallel_workers);

-- an error ends the statement and leaves nothing, be it a worker that meets it first or the leader
\set SHOW_CONTEXT never
select sum(1 / (l.v - r.v)) from par_l l join par_r r on l.k = r.k;
\set SHOW_CONTEXT errors
select hjg_jobs_left();

-- enable_parallel_hash holds for ours, too; a build side that has no partial path is each worker's own
set enable_parallel_hash = off;
explain (costs off) select count(*) from par_l l join par_r r on l.k = r.k;
explain (costs off) select count(*) from par_l l right join par_r r on l.k = r.k;
reset enable_parallel_hash;
explain (costs off) select count(*) from par_l l join (values (1), (2), (3)) r (k) on l.k = r.k;
-- Unmatched build rows come out in several participants, and each in one.  Who would have to wait too long for another one does
-- without, so a busy machine may keep them apart some times.  The planner takes the build side for the smaller one.
create table par_even with (parallel_workers = 3) as select g * 2 as k from generate_series(1, 200000) g;
create table par_odd with (parallel_workers = 3) as select g * 2 + 1 as k from generate_series(1, 200000) g;
analyze par_even, par_odd;
create function hjg_me() returns int language plpgsql parallel safe as 'begin return pg_backend_pid(); end';
create view par_unmatched as select a.k as a, b.k as b, hjg_me() as pid
	from (select * from par_even where k % 100 < 2) a full join (select * from par_odd where k % 2 < 2 and k % 3 < 3) b on a.k = b.k;
create function hjg_par_sharers(out rows bigint, out keys bigint, out shared bool) language plpgsql as $$
begin
	for i in 1..50 loop
		execute 'select sum(n), sum(keys), count(*) filter (where unmatched > 0) > 1 from
			(select count(*) as n, sum(coalesce(a, b)) as keys, count(*) filter (where a is null) as unmatched from par_unmatched group by pid) q'
			into rows, keys, shared;
		exit when shared;
	end loop;
end $$;
-- which side is built on is the engine's affair
create function hjg_par_head(query text) returns setof text language plpgsql as $$
declare
	line text;
begin
	for line in select * from hjg_plan(query) loop
		return next line;
		exit when line like '%Join Type%';
	end loop;
end $$;
select hjg_par_head('select * from par_unmatched');
select * from hjg_par_sharers();
drop view par_unmatched;
drop table par_even, par_odd;

-- figures are of all participants together
create function hjg_par_figures(query text) returns setof text language sql as $$
	select key || ': ' || (jsonb_path_query_first(plan, '$.**?(@."Custom Plan Provider" == "GpuHashJoin")') ->> key)
	from hjg_explained('analyze, costs off, timing off, summary off', query) plan, unnest(array['Parallel Aware', 'Build Rows', 'Probe Rows', 'Candidate Pairs', 'Fallback', 'Hash Batches']) key $$;
select * from hjg_par_figures('select count(*) from par_l l join par_r r on l.k = r.k');
drop table par_l, par_r, par_none, par_parts, par_parts2;
