-- A node that is not read to its end, or is left for a while.
set hjoin_gpu.force = on;
select count(*) from (select * from probe p join build b on p.k = b.k limit 7) q;
select count(*) from (select * from probe p left join build b on p.k = b.k limit 0) q;
select * from hjg_same('select p.id as pid, b.id as bid from probe p join build b on p.k = b.k order by 1, 2 limit 10 offset 5');
select exists (select 1 from probe p join build b on p.k = b.k);
create function hjg_cursor(query text, steps int[]) returns table (step int, rows bigint) language plpgsql as $$
declare
	c refcursor;
	n int;
	i int := 0;
	r record;
begin
	open c no scroll for execute query;
	foreach n in array steps loop
		i := i + 1;
		rows := 0;
		while rows < n loop
			fetch c into r;
			exit when not found;
			rows := rows + 1;
		end loop;
		step := i;
		return next;
	end loop;
	close c;
end $$;
select count(*) from probe p join build b on p.k = b.k;
select * from hjg_cursor('select * from probe p join build b on p.k = b.k', '{0, 1, 10, 1000, 1000000, 5}');
select * from hjg_cursor('select * from probe p full join build b on p.k = b.k', '{3, 1000000}');
-- two at once, and other joins between
begin;
declare a cursor for select p.id, b.id as bid from probe p join build b on p.k = b.k and p.v = b.v order by 1, 2;
declare b scroll cursor for select p.id, b.id as bid from probe p left join build b on p.id = b.k where p.id < 10 order by 1, 2;
fetch 3 from a;
fetch 3 from b;
select count(*) from probe p join build b on p.t = b.t;
fetch backward 2 from b;
fetch 2 from a;
savepoint s;
fetch 1 from a;
rollback to s;
fetch 1 from a;
close a;
fetch all from b;
move absolute 2 in b;
fetch next from b;
commit;
-- held beyond the end of its transaction
begin;
declare h cursor with hold for select p.id, b.id as bid from probe p join build b on p.k = b.k and p.v = b.v order by 1, 2;
fetch 2 from h;
commit;
delete from one_row where false;
fetch 2 from h;
close h;
-- where rows are joined changes while the cursor stands within rows that are probed in place
begin;
create temp table many as select g as id, g % 5000 as k from generate_series(1, 30000) g;
create temp table few as select g as id, g as k from generate_series(0, 4999) g;
create temp table fetched (many_id int, few_id int);
analyze many, few;
declare w no scroll cursor for select m.id as many_id, f.id as few_id from many m join few f on m.k = f.k;
do $$
declare
	c constant refcursor := 'w';
	r record;
begin
	perform set_config('hjoin_gpu.in_backend_rows', '0', true);
	for i in 1 .. 30001 loop
		fetch c into r;
		exit when not found;
		insert into fetched values (r.many_id, r.few_id);
		if i in (100, 10500) then
			perform set_config('hjoin_gpu.in_backend_rows', case i when 100 then '1000000' else '0' end, true);
		end if;
	end loop;
end $$;
select count(*), count(distinct many_id), count(*) filter (where many_id % 5000 = few_id) as joined from fetched;
rollback;
-- abandoned in an aborted transaction
begin;
declare x cursor for select * from probe p join build b on p.k = b.k;
move 5 in x;
select 1 / 0;
rollback;
-- nothing is left
select hjg_jobs_left();
