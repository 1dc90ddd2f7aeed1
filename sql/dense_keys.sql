-- Unique keys that are dense make the engine's table an array, and the model knows what that is worth.
set client_min_messages = warning;
set max_parallel_workers_per_gather = 0;
set hjoin_gpu.force = on;
-- the model's own costs, not those of the other files
set hjoin_gpu.startup_cost = -1;
set hjoin_gpu.marshal_tuple_cost = -1;
set hjoin_gpu.build_tuple_cost = -1;
set hjoin_gpu.probe_tuple_cost = -1;
set hjoin_gpu.emit_tuple_cost = -1;
create table dk_probe (k int, v int);
insert into dk_probe select g % 20000, g from generate_series(0, 99999) g;
create table dk_build (dense int, sparse int, twice int, loose int, big bigint, t text);
insert into dk_build select g, g * 9, g / 2, g, g, g::text from generate_series(0, 19999) g;
create unique index on dk_build (dense);
create unique index on dk_build (sparse);
create unique index on dk_build (big);
create unique index on dk_build (t);
create table dk_child (like dk_build including indexes);
analyze dk_probe;
analyze dk_build;
-- which keys are cheaper than sparse ones: dense, occurring twice, unique for all that is known, of 8 bytes, with half of the rows, with a tenth
select hjg_price('select p.v from dk_probe p join dk_build b on p.k = b.dense') < sparse as dense,
	hjg_price('select p.v from dk_probe p join dk_build b on p.k = b.twice') < sparse as occurs_twice,
	hjg_price('select p.v from dk_probe p join dk_build b on p.k = b.loose') < sparse as not_unique,
	hjg_price('select p.v from dk_probe p join dk_build b on p.k = b.big') < sparse as of_8_bytes
	from hjg_price('select p.v from dk_probe p join dk_build b on p.k = b.sparse') sparse;
select hjg_price('select p.v from dk_probe p join dk_build b on p.k = b.dense where b.twice < 5000') < hjg_price('select p.v from dk_probe p join dk_build b on p.k = b.sparse where b.twice < 5000') as half_of_them,
	hjg_price('select p.v from dk_probe p join dk_build b on p.k = b.dense where b.twice < 1000') < hjg_price('select p.v from dk_probe p join dk_build b on p.k = b.sparse where b.twice < 1000') as a_tenth;
-- an index does not keep the rows of other tables apart
alter table dk_child inherit dk_build;
select hjg_price('select p.v from dk_probe p join dk_build b on p.k = b.dense') < hjg_price('select p.v from dk_probe p join dk_build b on p.k = b.sparse') as inherited;
drop table dk_probe, dk_build cascade;
