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
