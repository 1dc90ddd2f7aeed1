-- Cursors whose joins give their job back between two fetches, and go on in the backend: the same rows, for each kind of
-- join, whatever was under way.
set hjoin_gpu.force = on;
set hjoin_gpu.in_backend_rows = 0;
set hjoin_gpu.bloom_filter = off;
-- The rows of a query by a cursor that may keep its jobs for so many fetches of one row.
create function hjg_fetched(query text, kept int) returns setof text language plpgsql as $$
declare
	c refcursor;
	i int := 0;
	r record;
begin
	perform set_config('hjoin_gpu.idle_share', '100', true);
	open c no scroll for execute query;
	loop
		i := i + 1;
		if i = kept then
			perform set_config('hjoin_gpu.idle_share', '0', true);
		end if;
		fetch c into r;
		exit when not found;
		return next r::text;
	end loop;
	close c;
end $$;
-- Compares with core's rows.  Was a job given back each time, and is none left?
create function hjg_same_fetched(query text, kept int[] = '{1, 255, 256, 2500}', out rows bigint, out equal bool, out given_back bool, out none_left bool)
language plpgsql as $$
declare
	exact constant text := 'select count(*) || %L || coalesce(md5(string_agg(t, %L order by t collate "C")), %L) from (%s) q (t)';
	before bigint;
	n int;
	wanted text;
	got text;
begin
	perform set_config('hjoin_gpu.enabled', 'off', true);
	execute format(exact, ' ', E'\n', '', format('select q::text from (%s) q', query)) into wanted;
	perform set_config('hjoin_gpu.enabled', 'on', true);
	rows := split_part(wanted, ' ', 1);
	equal := true;
	given_back := true;
	foreach n in array kept loop
		select value into before from hjoin_gpu_stat where name = 'jobs_given_back';
		execute format(exact, ' ', E'\n', '', format('select * from hjg_fetched(%L, %s)', query, n)) into got;
		equal := equal and got = wanted;
		given_back := given_back and (select value > before from hjoin_gpu_stat where name = 'jobs_given_back');
	end loop;
	none_left := not exists (select from hjoin_gpu_jobs where pid = pg_backend_pid());
end $$;
select * from hjg_same_fetched('select p.id as pid, b.id as bid from probe p join build b on p.k = b.k');
select * from hjg_same_fetched('select p.*, b.* from probe p left join build b on p.k = b.k');
select * from hjg_same_fetched('select p.id as pid, b.* from probe p right join build b on p.k = b.k and p.v < 50');
select * from hjg_same_fetched('select p.id as pid, b.id as bid from probe p full join build b on p.k = b.k and p.v = b.v');
select * from hjg_same_fetched('select * from probe p where exists (select from build b where b.k = p.k)');
select * from hjg_same_fetched('select * from probe p where not exists (select from build b where b.k = p.k)', '{1, 255, 400}');
-- keys that are compared once more; where one match decides a row; conditions of the join
select * from hjg_same_fetched('select p.id as pid, b.id as bid from probe p join build b on p.t = b.t');
select * from hjg_same_fetched('select * from probe p where exists (select from build b where b.t = p.t and b.v > p.v)', '{1, 255, 1000}');
select * from hjg_same_fetched('select * from probe p where not exists (select from build b where b.k = p.k and b.v > p.v)', '{1, 255, 1000}');
select * from hjg_same_fetched('select p.id as pid, b.id as bid from probe p left join build b on p.k = b.k and p.v < b.v');
-- many pairs a row: several rounds of one batch
select * from hjg_same_fetched('select p.id as pid, b.id as bid from probe p join build b on p.k % 10 = b.k % 10 where p.id % 4 = 0', '{1, 20000, 40000}');
-- chains; a join on the inner side of another one; aggregates; a join that is through when its query is left
select * from hjg_same_fetched('select p.id as pid, b.id as bid, c.id as cid from probe p join build b on p.k = b.k join build c on p.id = c.id', '{1, 255, 1000}');
select * from hjg_same_fetched('select p.id as pid, q.id as qid from probe p join (select b.id, b.k from build b join probe c on b.id = c.id) q on p.k = q.k');
select * from hjg_same_fetched('select p.k, count(*), sum(b.v) from probe p join build b on p.k = b.k group by p.k', '{1, 3}');
select * from hjg_same_fetched('select p.id as pid, b.id as bid from probe p join build b on p.k = b.k order by 2, 1');
-- read again and again, with the build side kept or not
select * from hjg_same_fetched('select v.a, q.* from (values (1), (2), (3)) v (a) cross join lateral (select p.id as pid, b.id as bid from probe p join build b on p.k = b.k where p.id % 3 = v.a offset 0) q');
select * from hjg_same_fetched('select v.a, q.* from (values (1), (2), (3)) v (a) cross join lateral (select p.id as pid, b.id as bid from probe p join build b on p.k = b.k where b.id % 3 = v.a offset 0) q');
-- more than memory: each partition may have a job again
set work_mem = '64kB';
set hash_mem_multiplier = 1;
select * from hjg_same_fetched('select p.id as pid, b.* from probe p full join build b on p.k = b.k');
reset work_mem;
reset hash_mem_multiplier;
set hjoin_gpu.idle_share = 0;
-- a loop over a cursor, which is left every 50 rows, with other joins in it
do $$
declare
	r record;
	n bigint := 0;
	others bigint := 0;
begin
	for r in select p.id as pid, b.id as bid from probe p join build b on p.k = b.k loop
		n := n + 1;
		if n % 1000 = 1 then
			others := others + (select count(*) from probe p join build b on p.id = b.id);
		end if;
	end loop;
	if n <> (select count(*) from probe p join build b on p.k = b.k) or others = 0 then
		raise exception 'the loop had % rows', n;
	end if;
end $$;
-- held beyond the end of its transaction; scrolled
begin;
declare h cursor with hold for select p.id, b.id as bid from probe p join build b on p.k = b.k and p.v = b.v order by 1, 2;
declare s scroll cursor for select p.id, b.id as bid from probe p join build b on p.k = b.k order by 1, 2;
fetch 2 from h;
fetch 2 from s;
move 1000 in s;
fetch 1 from s;
move absolute 1 in s;
fetch 2 from s;
close s;
commit;
fetch 2 from h;
close h;
-- what is kept as suspended is shown, and gone when the cursor is closed
set hjoin_gpu.idle_share = 100;
begin;
declare k cursor for select * from probe p join build b on p.k = b.k;
move 1 in k;
select state, arena_bytes > 0 as has_memory from hjoin_gpu_jobs where pid = pg_backend_pid();
-- a query that has returned its last row holds nothing
move all in k;
select count(*) from hjoin_gpu_jobs where pid = pg_backend_pid();
rollback;
select hjg_jobs_left();
