-- Quals of the join beside its keys, for every kind of join.
set hjoin_gpu.force = on;
explain (costs off) select * from probe p left join build b on p.k = b.k and p.v < b.v;
-- (a condition that is never true leaves nothing to join)
select c as condition, s.* from unnest(array[
	'l.k = r.k and l.v < r.v',
	'l.k = r.k and l.v <> r.v and l.id > r.id',
	'l.k2 = r.k2 and l.id between r.id - 3 and r.id + 3',
	'l.k = r.k and (l.v = 3 or r.v = 4)',
	'l.k = r.k and l.v > 11',
	'l.k = r.k and r.v > 11',
	'l.k = r.k and l.t is distinct from r.t',
	'l.k = r.k and l.v + r.v = 20',
	'l.k = r.k and l.t like r.t || ''%''',
	'l.t = r.t and length(l.t) < 7 and l.v * r.v > 50',
	'l.k = r.k and coalesce(l.k8 < r.k8, l.v < r.v)',
	'l.k = r.k and false',
	'l.k = r.k and null::bool',
	'l.k = r.k and case when l.v > 10 then r.v > 10 else r.v is not null end']) c,
	hjg_kinds('probe l', 'build r', c) s;
-- pseudoconstant quals
prepare gate(bool) as select count(*), count(b.id) from probe p left join build b on p.k = b.k and $1;
prepare gate_where(bool) as select count(*) from probe p join build b on p.k = b.k where $1;
set plan_cache_mode = force_generic_plan;
execute gate(true);
execute gate(false);
execute gate(null);
execute gate_where(true);
execute gate_where(false);
reset plan_cache_mode;
deallocate all;
-- functions that raise errors stay where they are: rows that do not match are not checked
select count(*) from probe p join build b on p.k = b.k and 100 / (b.k - p.k + 1) = 100;
-- rows removed by the join filter are counted
select x from hjg_plan('select * from probe p join build b on p.k = b.k and p.v < b.v') x where x like '%Join Filter%';

-- comparisons of columns, of all types that are evaluated for many pairs at a time, with NULLs and NaNs
create table rq_l (id int, k int, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, d date, ts timestamp, tz timestamptz, o oid, t text);
create table rq_r (like rq_l);
insert into rq_l select g, g % 40, nullif(g % 5, 0) > 2, nullif(g % 7, 0) - 3, nullif(g % 11, 0) - 5, nullif(g % 13, 0) - 6,
	case g % 17 when 0 then null when 1 then 'nan'::float4 when 2 then '-0'::float4 when 3 then '-infinity'::float4 else g % 17 - 8 end,
	case g % 19 when 0 then null when 1 then 'nan'::float8 when 2 then '0'::float8 when 3 then 'infinity'::float8 else (g % 19 - 9) / 4.0 end,
	date '2000-01-01' + nullif(g % 23, 0) - 11, timestamp '2000-01-01' + nullif(g % 29, 0) * interval '7 hours', timestamptz '2000-01-01 00:00+00' + nullif(g % 31, 0) * interval '1 day',
	(4294967290 + nullif(g % 5, 0))::bigint::oid, 'x' || g % 3 from generate_series(1, 400) g;
insert into rq_r select g + 1000, k, not b, i4 - i2, i2, i4, f8, f4, d + 1, ts - interval '14 hours', tz - interval '1 day', (g % 2 * 4294967294)::oid, t from rq_l, lateral (select id as g) x where id % 3 <> 0;
vacuum analyze rq_l, rq_r;
select c as condition, s.* from unnest(array[
	'l.b = r.b', 'l.b <> r.b', 'l.i2 < r.i2', 'l.i2 <= r.i4', 'l.i2 > r.i8', 'l.i4 >= r.i4', 'l.i4 = r.i2', 'l.i4 <> r.i8', 'l.i8 < r.i8', 'l.i8 <= r.i2', 'l.i8 > r.i4',
	'l.f4 < r.f4', 'l.f4 = r.f8', 'l.f8 >= r.f4', 'l.f8 <> r.f8', 'l.d < r.d', 'l.ts >= r.ts', 'l.tz <= r.tz', 'l.o < r.o', 'r.o >= l.o',
	'l.i4 < r.i4 and l.f8 > r.f8 and l.b', 'l.i4 < l.i8 and r.f4 <= r.f8', 'l.i4 < r.i4 and l.t < r.t', 'l.t < r.t and l.i4 < r.i4']) c,
	hjg_kinds('rq_l l', 'rq_r r', 'l.k = r.k and ' || c) s;
-- a hashed key is rechecked first
select * from hjg_kinds('rq_l l', 'rq_r r', 'l.t = r.t and l.i4 < r.i4 and l.k < 5');
-- what a comparison drops, the condition behind it does not see; what comes before a comparison sees all
create function rq_fail(int) returns bool cost 1 immutable language plpgsql as $$ begin if $1 > 0 then raise 'seen'; end if; return true; end $$;
select count(*) from rq_l l join rq_r r on l.k = r.k and l.i4 < r.i4 and rq_fail((l.i4 >= r.i4)::int);
create function rq_cheap(int4, int4) returns bool cost 0.0001 immutable language plpgsql as $$ begin if $1 >= $2 then raise 'seen'; end if; return true; end $$;
select count(*) from rq_l l join rq_r r on l.k = r.k and rq_cheap(l.i4, r.i4) and l.i4 < r.i4;
-- both kinds are counted
create function rq_removed(query text) returns text language sql as
	$$ select hjg_explained('analyze, costs off, timing off, summary off', query)#>>'{0,Plan,Plans,0,Rows Removed by Join Filter}' $$;
set enable_nestloop = off;
set enable_mergejoin = off;
select rq_removed('select count(*) from rq_l l join rq_r r on l.k = r.k and l.i4 < r.i4 and l.t < r.t');
set hjoin_gpu.enabled = off;
select rq_removed('select count(*) from rq_l l join rq_r r on l.k = r.k and l.i4 < r.i4 and l.t < r.t');
reset hjoin_gpu.enabled;
reset enable_nestloop;
reset enable_mergejoin;
-- above another join, whose rows come as vectors
select * from hjg_same('select l.id, r.id as rid, m.id as mid from rq_l l join rq_r r on l.k = r.k and l.i4 < r.i4 join rq_l m on m.id = l.id and m.f8 >= r.f8');
drop function rq_fail, rq_cheap, rq_removed;
drop table rq_l, rq_r;
