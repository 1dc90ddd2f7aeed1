-- Tables of planning.pl: chains by b = a of the next one, indexed (i) or not (n), small (s) and larger (l); the same
-- partitioned by a, with a primary key (q) or without (p); and what measures planning.
begin;
do $$
declare
	kind record;
	nrows int;
begin
	for kind in select * from (values ('s', 1000, 0), ('l', 200000, 1)) v(size, nrows, shrinks) loop
		for i in 1..6 loop
			nrows := kind.nrows / (case when kind.shrinks = 1 then i else 1 end);
			execute format('create table n%s%s as select g as a, (g * 7919::bigint %% %s)::int + 1 as b, g %% 100 as v from generate_series(1, %s) g',
				kind.size, i, nrows / (case when kind.shrinks = 1 then 2 else 1 end), nrows);
			execute format('create table i%s%s as table n%1$s%2$s', kind.size, i);
			execute format('alter table i%s%s add primary key (a)', kind.size, i);
			execute format('create index on i%s%s (b)', kind.size, i);
		end loop;
		for i in 1..2 loop
			execute format('create table p%s%s (a int, b int, v int) partition by hash (a)', kind.size, i);
			execute format('create table q%s%s (a int primary key, b int, v int) partition by hash (a)', kind.size, i);
			for k in 0..7 loop
				execute format('create table p%s%s_%s partition of p%1$s%2$s for values with (modulus 8, remainder %3$s)', kind.size, i, k);
				execute format('create table q%s%s_%s partition of q%1$s%2$s for values with (modulus 8, remainder %3$s)', kind.size, i, k);
			end loop;
			execute format('insert into p%s%s table n%1$s%2$s', kind.size, i);
			execute format('insert into q%s%s table n%1$s%2$s', kind.size, i);
		end loop;
	end loop;
end $$;

-- Microseconds that planning takes, and with executes the execution as well: mean of the fastest quarter of n times.
create function bench_us(query text, n int, executes bool) returns float8 language plpgsql as $$
declare
	line text;
	us float8;
	times float8[] := '{}';
begin
	for i in 1 .. n loop
		us := 0;
		for line in execute format('explain (summary, timing off, analyze %s) %s', executes::text, query) loop
			if line ~ '^(Planning|Execution) Time: ' then
				us := us + substring(line from '[0-9.]+')::float8 * 1000;
			end if;
		end loop;
		times := times || us;
	end loop;
	return (select avg(t) from (select t from unnest(times) t order by t limit (n + 3) / 4) q);
end $$;
commit;
vacuum (freeze, analyze);
