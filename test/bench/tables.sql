-- Further tables of "make bench", beside those of test/demo/pair.sql.
set synchronous_commit = off;
begin;
-- half of r
create table r_half as select * from r where id % 2 = 0;
-- every key four times, a quarter of the keys of r
create table d as select g as id, (g % (:n_build / 4)) as k, g % 1000 as v from generate_series(1, :n_build::bigint) g;
-- other keys, a quarter of the rows
create table s_other as select id, (k::bigint << 20) + 1 as kb, 'key ' || lpad(k::text, 16, '0') as kt, k % 5000 as k1, k / 5000 as k2, v from s where id <= :n_probe / 4;
create table r_other as select id, (k::bigint << 20) + 1 as kb, 'key ' || lpad(k::text, 16, '0') as kt, k % 5000 as k1, k / 5000 as k2, v from r where k % 4 = 0;
-- a star: a fact table with four keys, and dimensions that shrink by ten
create table fact as
	select g as id, (hashint8(g + 1)::bigint & 2147483647) % (:n_build / 10 + 1) as d1, (hashint8(g + 2)::bigint & 2147483647) % (:n_build / 100 + 1) as d2,
		(hashint8(g + 3)::bigint & 2147483647) % (:n_build / 1000 + 1) as d3, (hashint8(g + 4)::bigint & 2147483647) % 1000 as d4, g % 1000 as v
	from generate_series(1, :n_probe::bigint / 2) g;
create table dim1 as select g as k, g % 1000 as a from generate_series(0, :n_build::bigint / 10) g;
create table dim2 as select g as k, g % 10 as a from generate_series(0, :n_build::bigint / 100) g;
create table dim3 as select g as k, g % 100 as a from generate_series(0, :n_build::bigint / 1000) g;
create table dim4 as select g as k, g % 25 as a from generate_series(0, 999) g;
create index on fact (d1);
-- small tables
create table t10 as select g as id, g as k, g % 7 as v from generate_series(1, 10) g;
create table t1000 as select g as id, g as k, g % 7 as v from generate_series(1, 1000) g;
create table t100000 as select g as id, (g * 7919) % 100000 as k, g % 7 as v from generate_series(1, 100000) g;
commit;
create function bench_loop(query text, n int) returns float8 language plpgsql as $$
declare
	start timestamptz := clock_timestamp();
	ignored record;
begin
	for i in 1..n loop
		execute query into ignored;
	end loop;
	return extract(epoch from clock_timestamp() - start) * 1000 / n;
end $$;
vacuum (freeze, analyze);
