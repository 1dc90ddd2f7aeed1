-- SEMI joins (EXISTS, IN) and ANTI joins (NOT EXISTS).
set hjoin_gpu.force = on;
explain (costs off) select * from probe p where exists (select 1 from build b where b.k = p.k);
explain (costs off) select * from probe p where not exists (select 1 from build b where b.k = p.k and b.v > p.v);
explain (costs off) select * from probe p where p.t in (select t from build);
select * from hjg_same('select * from probe p where exists (select 1 from build b where b.k = p.k)');
select * from hjg_same('select * from probe p where not exists (select 1 from build b where b.k = p.k)');
select * from hjg_same('select * from probe p where p.k in (select k from build where v > 3)');
select * from hjg_same('select * from probe p where (p.k, p.k2) in (select k, k2 from build)');
select * from hjg_same('select * from probe p where p.t in (select t from build)');
-- more candidates than matches: the residual qual decides
select * from hjg_same('select * from probe p where exists (select 1 from build b where b.k2 = p.k2 and b.v = p.v + 5)');
select * from hjg_same('select * from probe p where exists (select 1 from build b where b.k2 = p.k2 and b.id > p.id and b.v <> p.v)');
select * from hjg_same('select * from probe p where not exists (select 1 from build b where b.k2 = p.k2 and b.id > p.id)');
select * from hjg_same('select * from probe p where not exists (select 1 from build b where b.k = p.k and b.v > 1000)');
-- quals of one side only
select * from hjg_same('select * from probe p where exists (select 1 from build b where b.k = p.k and p.v > 10)');
select * from hjg_same('select * from probe p where not exists (select 1 from build b where b.k = p.k and p.v > 10)');
-- NOT IN is not an anti join
select * from hjg_same('select * from probe p where p.k not in (select k from build where k is not null)');
select * from hjg_same('select * from probe p where p.k not in (select k from build)');
-- unique build side
select * from hjg_same('select p.id from probe p join build b on p.k = b.id');
select * from hjg_same('select p.id, d.k from probe p join (select distinct k from build) d on d.k = p.k');
-- several of them
select * from hjg_same('select p.id from probe p where exists (select 1 from build b where b.k = p.k) and not exists (select 1 from build b where b.t = p.t)');
select * from hjg_same('select p.id, b.id as bid from probe p left join build b on p.k = b.k where exists (select 1 from build c where c.id = b.id and c.v < 9)');
select * from hjg_same('select p.id from probe p where exists (select 1 from build b join build c on b.k = c.v where b.v = p.v)');
select * from hjg_same('select p.id from probe p where exists (select 1 from nothing n where n.k = p.k)');
select * from hjg_same('select p.id from probe p where not exists (select 1 from nothing n where n.k = p.k)');
select * from hjg_same('select n.id from nothing n where not exists (select 1 from probe p where n.k = p.k)');
-- a left side of few rows is the build side where the server has such joins
create table few as select g as id, g % 30 as k, g as v from generate_series(1, 40) g;
create table many as select g as id, g % 5000 as k, g % 7 as v from generate_series(1, 60000) g;
analyze few, many;
create function join_type(query text) returns text language plpgsql as $$
declare
	line text;
begin
	for line in execute 'explain (costs off) ' || query loop
		if line ~ 'Join Type' then
			return regexp_replace(line, '.*: ', '');
		end if;
	end loop;
	return null;
end $$;
select join_type('select * from few f where not exists (select 1 from many m where m.k = f.k and m.v > f.v)') =
	case when current_setting('server_version_num')::int >= 160000 then 'Right Anti' else 'Anti' end as right_anti_from_16,
	join_type('select * from few f where exists (select 1 from many m where m.k = f.k and m.v > f.v)') =
	case when current_setting('server_version_num')::int >= 180000 then 'Right Semi' else 'Semi' end as right_semi_from_18;
select * from hjg_same('select * from few f where not exists (select 1 from many m where m.k = f.k and m.v > f.v)');
select * from hjg_same('select * from few f where exists (select 1 from many m where m.k = f.k and m.v > f.v)');
select * from hjg_same('select * from few f where exists (select 1 from many m where m.k = f.k)');
drop table few, many;
drop function join_type;
