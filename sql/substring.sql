-- Parts of strings in conditions, keys and arguments, computed many rows at a time: core's answers.
set hjoin_gpu.aggregate = on;
set client_min_messages = warning;

-- For each list of results over one source: those that differ from core's, those that the node leaves to core, though it should not, or
-- computes, though it should not; and whether the node groups at all.
create function sub_same(source text, lists text[], by_core bool, out lists bigint, out differing text[], out unexpected text[], out in_node bool) language sql
set hjoin_gpu.force = on as $$
	select count(*), array_agg(list) filter (where not (hjg_same_groups(query)).equal),
		array_agg(list) filter (where by_core <> (hjg_figure(query, 'Expressions by Core') > 0)), bool_and(hjg_lines(query, '(GpuAggregate)') > 0)
	from unnest(lists) list, format(source, list) query $$;

create domain sub_name as varchar(40);
-- Characters of one to four bytes, spaces at the ends, strings of no and of one character; compressed ones, ones out of line, and these
-- compressed; of few different values, and of many.
create table sub (id int, k int, t text, v varchar(60), c char(12), dom sub_name, loose text collate hjg_loose, long text, out_of_line text, few text, by bytea);
alter table sub alter out_of_line set storage external;
insert into sub
	select g, g % 3, case when g % 11 > 0 then s || case when g % 3 > 0 then g % 40 || '' else s end end, case when g % 13 > 0 then g % 25 + 10 || '-' || s || g end,
		case when g % 7 > 0 then s || repeat(' ', g % 4) || case when g % 5 = 0 then 'x' else '' end end, s || g % 9, case when g % 2 = 0 then upper(s) else s end,
		case g % 50 when 0 then repeat(s, 1500) when 1 then s || repeat('é€', 2000) when 2 then repeat(' ', 3000) when 3 then null else s end,
		case g % 100 when 0 then repeat(s || 'x', 2000) when 1 then 'ö' || repeat('a', 3000) else s end, case when g % 17 > 0 then s || g % 4 end, convert_to(s, 'UTF8')
	from generate_series(1, 6000) g, unnest(array[(array['', 'a', 'é', '€', '😀', ' ', 'ab', 'éa', 'a€', '😀é', ' é ', 'abc', '€€€', 'aé€😀', '13', '31-7', 'naïve ', '東京都', E'e\u0301'])[1 + g % 19]]) s;
create table sub_one as select 1 as k;
vacuum analyze sub, sub_one;
set hjoin_gpu.force = on;
explain (costs off, verbose) select substring(c from 1 for 2), count(*), count(substr(t, 3)), sum(case when left(t, 1) in ('a', 'é') then id end) from sub where substring(v from 1 for 2) in ('13', '31', '23') group by substring(c from 1 for 2);
explain (costs off, verbose) select substring(c from k for 2), sum(case when right(t, 1) = 'a' then id end) from sub group by substring(c from k for 2);
reset hjoin_gpu.force;

create view sub_parts as select array['substring(%1$s from 1 for 2)', 'substr(%1$s, 2, 1)', 'substring(%1$s from 3)', 'substring(%1$s for 3)', 'left(%1$s, 2)', 'left(%1$s, 0)', 'left(%1$s, 2147483647)', 'substr(%1$s, 0, 3)', 'substr(%1$s, 0, 1)', 'substr(%1$s, 0)', 'substr(%1$s, -2, 5)',
	'substr(%1$s, -2, 3)', 'substr(%1$s, -2, 2)', 'substr(%1$s, -7)', 'substr(%1$s, 1, 0)', 'substr(%1$s, 3, 100)', 'substr(%1$s, 1000, 2)', 'substr(%1$s, 2, 2147483647)', 'substr(%1$s, 2147483647, 2147483647)', 'substr(%1$s, -2147483648, 2147483647)', 'substr(%1$s, -2147483648)', 'substr(%1$s, 2147483647)',
	'substr(%1$s, -2147483646, 2147483647)', 'substr(%1$s, 536870911, 3)', 'substr(%1$s, 1, 536870911)'] as parts;
create view sub_columns as select * from unnest(array['t', 'v', 'c', 'dom', 'long', 'out_of_line', 'few']) col;
set hjoin_gpu.kept_columns = off;
-- Keys, arguments, and conditions in arguments.
select col, s.* from sub_parts, sub_columns, sub_same('select %1$s, count(*), sum(id) from sub group by %1$s', array(select format(x, col) from unnest(parts) x), false) s;
select col, s.* from sub_parts, sub_columns, sub_same('select k, %s from sub group by k', array(select format('count(%1$s), sum(case when %1$s = ''é'' then 1 when %1$s in ('''', ''1'') then id end), count(*) filter (where %1$s <> ''a'' and %1$s not like ''%%%%€'')', format(x, col)) from unnest(parts) x), false) s;
select col, s.* from sub_parts, sub_columns, sub_same('select distinct %1$s from sub where id > 5', array(select format(x, col) from unnest(parts) x), false) s;
select s.* from sub_parts, sub_same('select k, count(distinct %1$s), sum(id) from sub group by k', array(select format(x, 't') from unnest(parts) x), false) s;
-- Conditions of a scan.
create view sub_conditions as select array['%s = ''é''', '''a'' = %s', '%s <> ''''', '%s in (''13'', ''31'', ''é'', ''東'', '''')', '%s not in (''1'', ''a€'')', '%s not in (''1'', null)', '%s is distinct from ''a''', '%s in (''1'', null)', '%s is null', '%s is not null', '%s like ''%€''', '%s not like ''a%''', '%s = ''é'' or %s = ''1''', '%s = null', '%s::varchar = ''ab'' and id > 7',
	'%s::bpchar = ''a''', '%s = repeat(''é€'', 3)', '%s = any (array[''a'', ''1'', (select ''é'')])', '%s = (select max(''31''::text))'] as conditions;
select col, d.* from sub_conditions, sub_parts, sub_columns, lateral (select array_agg(replace(x, '%s', format(y, col))) as list from unnest(conditions) with ordinality c (x, n), unnest(parts) with ordinality p (y, m) where (n + m) % 4 = 0) l, hjg_differ('sub join sub_one using (k)', list) d;
-- From kept columns, as words and as strings.
set hjoin_gpu.kept_columns = on;
select hjoin_gpu_keep('sub') >= 0 as kept;
select col, s.* from sub_parts, sub_columns, sub_same('select %1$s, count(*), sum(id) from sub group by %1$s', array(select format(x, col) from unnest(parts) x), false) s;
select col, d.* from sub_conditions, sub_parts, sub_columns, lateral (select array_agg(replace(x, '%s', format(y, col))) as list from unnest(conditions) with ordinality c (x, n), unnest(parts) with ordinality p (y, m) where (n + m) % 4 = 1) l, hjg_differ('sub join sub_one using (k)', list) d;
-- Several keys, groups in files, rows of joins, of slots and of several processes.
create view sub_queries as select array['select left(c, 1), substr(few, 2, 1), left(few, 1), k, count(*) from sub group by 1, 2, 3, 4', 'select left(long, 2), -id, count(*) from sub group by 1, 2', 'select left(t, 3), left(t, 3) || v, count(distinct left(t, 3)) from sub group by 1, 2',
	'select left(a.t, 2), count(*), sum(b.id) from sub a join sub b on a.id = b.id where left(a.t, 1) <> left(''éa'', 1) group by 1', 'select left(t, 2), count(*) from (select * from sub order by id offset 10) s group by 1', 'select substr(t, 2), count(*) from (select left(c, 3) as t from sub offset 0) s group by 1',
	'select left(c, 2), count(distinct substr(t, 2)) from sub group by 1', 'select left(c, 2) from sub union select substr(t, 2) from sub', 'select t from sub where left(t, 1) in (select left(c, 1) from sub where k = 1)', 'select left(t, 2), min(id) from sub group by 1 having left(t, 2) > ''a'' order by 1'] as queries;
select q, s.rows > 0 as some, s.equal from sub_queries, unnest(queries) q, hjg_same_groups(q) s;
set work_mem = '64kB';
select q, s.rows > 0 as some, s.equal from sub_queries, unnest(queries) q, hjg_same_groups(q) s;
reset work_mem;
call hjg_parallel();
select q, s.rows > 0 as some, s.equal from sub_queries, unnest(queries) q, hjg_same_groups(q) s;
select s.* from sub_parts, sub_same('select %1$s, count(*), sum(id) from sub group by %1$s', array(select format(x, 'c') from unnest(parts) x), false) s;
set max_parallel_workers_per_gather = 0;

-- Left to core: bounds that are no constants, other functions, other strings; collations under which other bytes are equal.
select * from sub_same('select %1$s, count(*) from sub group by %1$s', array['substr(t, k)', 'substr(t, 1, k)', 'left(t, -1)', 'right(t, 2)', 'substr(by, 1, 2)', 'substring(t from ''.é'')', 'substr(t || v, 1, 2)', 'upper(left(t, 1))', 'left(t, 1)::varchar(1)', 'substr(id::text, 1, 1)'], true);
select * from sub_same('select %s from sub', array['sum(case when left(t, -1) = ''a'' then 1 end)', 'sum(case when left(loose, 1) = ''a'' then 1 end)', 'sum(case when left(t, 1) > ''a'' then 1 end)', 'sum(case when left(t, 1) = left(v, 1) then 1 end)'], true);
select s.equal from hjg_same_groups('select left(loose, 1) is null, upper(left(loose, 1)), count(left(loose, 2)) from sub group by 1, 2') s;
select s.rows, s.equal from hjg_same_groups('select count(*) from (select left(loose, 1) from sub group by 1) s') s;
select d.* from hjg_differ('sub join sub_one using (k)', array['left(loose, 1) = ''a''', 'left(loose, 1) in (''A'', ''É'')', 'left(loose, 1) is null', 'left(t, 1) < ''b''']) d;
-- A negative length fails, for the rows that core evaluates it for.
select q, o.of_core = o.of_ours as equal, o.of_ours from unnest(array['select count(*)::text from sub where substr(t, 1, -1) = ''a''', 'select count(*)::text from (select substr(t, 3, -2) from sub group by 1) s', 'select count(*)::text from sub where k = 5 and substr(t, 1, -1) = ''a''', 'select count(*)::text from sub where t is null and substr(t, 1, -1) is null',
	'select sum(case when k < 5 then 1 when substr(t, 1, -1) = ''a'' then 2 end)::text from sub', 'select count(*)::text from sub where left(t, 1) = ''a'' and 1 / (k - k) > 0', 'select count(*)::text from sub where left(t, 1) = ''no'' and 1 / (k - k) > 0']) q, hjg_outcome(q) o;

-- Constants of prepared statements, and values that a subquery brings.
prepare sub_prepared(int, text) as select count(*), count(substr(t, $1, 1)) from sub where substr(t, $1, 1) = $2;
set hjoin_gpu.force = on;
set plan_cache_mode = force_generic_plan;
execute sub_prepared(1, 'é');
execute sub_prepared(2, '');
set plan_cache_mode = force_custom_plan;
execute sub_prepared(1, 'é');
execute sub_prepared(2, '');
set hjoin_gpu.enabled = off;
execute sub_prepared(1, 'é');
execute sub_prepared(2, '');
reset hjoin_gpu.enabled;
reset plan_cache_mode;
reset hjoin_gpu.force;
deallocate sub_prepared;

drop view sub_parts, sub_columns, sub_conditions, sub_queries;
drop table sub, sub_one;
drop domain sub_name;
drop function sub_same;
