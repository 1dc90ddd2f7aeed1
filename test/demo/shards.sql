-- One shard of tables s and r that are partitioned by hash of k over :of shards: remainder :nr, in a schema of its own.  Each shard makes
-- all rows and keeps its own.  Every key of s is in r; s.m is in r four times out of five.
create schema on:of;
set search_path = on:of;
create table r (id int, k int, v int) partition by hash (k);
create table r_here partition of r for values with (modulus :of, remainder :nr);
create table s (id int, k int, m int, v int, pad text) partition by hash (k);
create table s_here partition of s for values with (modulus :of, remainder :nr);
insert into r select * from (select g::int as id, ((g * 2654435761) % :n_build)::int as k, (g % 1000)::int as v from generate_series(1, :n_build::bigint) g) x
	where satisfies_hash_partition('r'::regclass, :of, :nr, k);
insert into s select id, k, m, v, md5(id::text) from (select g::int as id, ((hashint8(g)::bigint & 2147483647) % :n_build)::int as k,
		((hashint8(g + 77)::bigint & 2147483647) % (:n_build * 5 / 4))::int as m, (g % 1000)::int as v from generate_series(1, :n_probe::bigint) g) x
	where satisfies_hash_partition('s'::regclass, :of, :nr, k);
vacuum (freeze, analyze) r_here;
vacuum (freeze, analyze) s_here;
