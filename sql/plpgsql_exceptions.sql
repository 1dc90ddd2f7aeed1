-- Errors and subtransactions while the node runs.
set hjoin_gpu.force = on;
set hjoin_gpu.in_backend_rows = 0;
-- the error comes out of the join's own rows, and is caught
do $$
declare
	caught int := 0;
	n bigint;
begin
	for i in 1..30 loop
		begin
			perform 1 / (p.id - p.id) from probe p join build b on p.k = b.k where b.v = i % 29;
		exception when division_by_zero then
			caught := caught + 1;
		end;
	end loop;
	select count(*) into n from probe p join build b on p.k = b.k;
	raise notice 'caught %, rows %', caught, n;
end $$;
-- a loop over the join, with a subtransaction for each row, some aborted
do $$
declare
	r record;
	good int := 0;
	bad int := 0;
begin
	for r in select p.id as pid, b.id as bid from probe p join build b on p.k = b.k and p.v = b.v loop
		begin
			if (r.pid + r.bid) % 3 = 0 then
				raise exception 'no';
			end if;
			perform count(*) from one_row o join build b on o.k = b.k;
			good := good + 1;
		exception when raise_exception then
			bad := bad + 1;
		end;
	end loop;
	raise notice 'good %, bad %', good, bad;
end $$;
select count(*) filter (where (p.id + b.id) % 3 <> 0) as good, count(*) filter (where (p.id + b.id) % 3 = 0) as bad from probe p join build b on p.k = b.k and p.v = b.v;
-- the loop is inside the subtransaction that is aborted
do $$
declare
	r record;
	n int := 0;
begin
	for i in 1..20 loop
		begin
			for r in select * from probe p left join build b on p.k = b.k loop
				n := n + 1;
				if n % 100 = i then
					raise exception 'enough';
				end if;
			end loop;
		exception when raise_exception then
			null;
		end;
	end loop;
	raise notice 'done';
end $$;
-- commits inside a loop over the join
create procedure commits() language plpgsql as $$
declare
	r record;
	n int := 0;
begin
	for r in select p.id as pid, b.id as bid from probe p join build b on p.k = b.k and p.v = b.v loop
		n := n + 1;
		if n % 50 = 0 then
			commit;
		end if;
	end loop;
	raise notice 'rows %', n;
end $$;
call commits();
select count(*) from probe p join build b on p.k = b.k and p.v = b.v;
-- savepoints
begin;
savepoint a;
select count(*) from probe p join build b on p.k = b.k;
select sum(1 / (b.v - 5)) from probe p join build b on p.k = b.k;
rollback to a;
select count(*) from probe p join build b on p.k = b.k;
commit;
-- recursion: a function that joins, called for rows of a join
create function inner_count(x int) returns bigint language plpgsql as $$ begin return (select count(*) from probe p join build b on p.k = b.k where b.v = x); end $$;
select * from hjg_same('select o.id, inner_count(b.v) from one_row o join build b on o.k = b.k');
-- a cancelled statement leaves nothing behind
set statement_timeout = '30ms';
select count(*) from (select 1 as k from probe offset 0) a join (select 1 as k from probe offset 0) b on a.k = b.k join (select 1 as k from build offset 0) c on a.k = c.k;
reset statement_timeout;
select hjg_jobs_left();
reset hjoin_gpu.in_backend_rows;
