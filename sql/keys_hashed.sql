-- Types whose keys travel as a hash, and are checked again.
set client_min_messages = warning;
create type pair_of as (a int, b text);
create domain short_text as text check (length(value) < 100);
create domain small_number as numeric check (value < 100000);
create table hashed_l (id int, te text, vc varchar(30), bp char(10), na name, nu numeric, by bytea, iv interval, ine inet, ci cidr, ma macaddr, jb jsonb,
	ia int[], ta text[], na2 numeric[], co pair_of, dt short_text, dn small_number, ra int4range, ls pg_lsn, x8 xid8, xi xid, tt timetz, td tid);
create table hashed_r (like hashed_l);
create function hjg_fill_hashed(tab regclass, n int, m int, odd int) returns void language plpgsql as $$
begin
	execute format($q$insert into %s
		select g, case when i = 0 then '' else 'text ' || i end, 'v' || i, 'b' || i, ('n' || i)::name,
			(case i when 0 then 'NaN' when 1 then 'Infinity' else i || (array['', '.0', '.0000', '.000000000'])[1 + (g + %s) %% 4] end)::numeric,
			decode(md5(i::text), 'hex'),
			(case (g + %s) %% 3 when 0 then i || ' days' when 1 then i * 24 || ' hours' else (i - i %% 30) / 30 || ' mons ' || i %% 30 || ' days' end)::interval,
			'10.0.0.0'::inet + i, ('10.0.' || i || '.0/24')::cidr, ('08:00:2b:01:02:' || lpad(to_hex(i), 2, '0'))::macaddr,
			(case (g + %s) %% 2 when 0 then '{"a": ' || i || ', "b": [1, null]}' else '{"b": [1.0, null], "a": ' || i || '.0}' end)::jsonb,
			case when i is not null then array[i, null, 3] end, case when i is not null then array['x' || i, null] end, array[i, case when (g + %s) %% 2 = 0 then 1.0 else 1.00 end],
			row(i, 'c' || i)::pair_of, 'dom' || i, (i || '.0')::numeric, int4range(i, i + 5), ('0/' || to_hex(i))::pg_lsn, i::text::xid8, i::text::xid,
			(time '00:00' + i * interval '1 minute')::text::timetz, ('(' || i || ',1)')::tid
		from generate_series(1, %s) g, hjg_i(g, %s) i$q$, tab, odd, odd, odd, odd, n, m);
	execute format('analyze %s', tab);
end $$;
select hjg_fill_hashed('hashed_l', 400, 131, 0), hjg_fill_hashed('hashed_r', 150, 61, 1);
set hjoin_gpu.force = on;
explain (costs off) select * from hashed_l l join hashed_r r on l.nu = r.nu;
select a.attname as key, s.* from pg_attribute a, hjg_kinds('hashed_l l', 'hashed_r r', format('l.%I = r.%I', attname, attname)) s
	where attrelid = 'hashed_l'::regclass and attnum > 1 order by attnum;
-- together with others
select c as keys, s.* from unnest(array['te id', 'nu iv', 'jb co', 'bp te vc', 'id nu te by']) c,
	hjg_kinds('hashed_l l', 'hashed_r r', (select string_agg(format('l.%I = r.%I', x, x), ' and ') from unnest(string_to_array(c, ' ')) x)) s;
-- equal values that look different
select l.nu::text as l, r.nu::text as r, count(*) from hashed_l l join hashed_r r on l.nu = r.nu where l.nu = 5 group by 1, 2 order by 1, 2;
set intervalstyle = postgres;
select l.iv::text as l, r.iv::text as r, count(*) from hashed_l l join hashed_r r on l.iv = r.iv where l.iv = '30 days' group by 1, 2 order by 1, 2;
-- text of any length, stored in any way
create table long_l (id int, t text);
create table long_r (id int, t text);
insert into long_l select g, repeat(md5((g % 20)::text), 1 + (g % 20) * 40) from generate_series(1, 60) g;
insert into long_r select g, repeat(md5((g % 30)::text), 1 + (g % 30) * 40) from generate_series(1, 60) g;
alter table long_r alter t set storage external;
update long_r set t = t || '' where id % 2 = 0;
insert into long_l select 100 + g, (select string_agg(md5((g * 1000 + x)::text), '') from generate_series(1, 300) x) from generate_series(1, 5) g;
insert into long_r select * from long_l where id > 100;
analyze long_l;
analyze long_r;
select * from hjg_kinds('long_l l', 'long_r r', 'l.t = r.t');
-- a whole row as a key
select * from hjg_same('select l.id as lid, r.id as rid from (select id, te, nu from hashed_l) l join (select id, te, nu from hashed_r) r on row(l.te, l.nu) = row(r.te, r.nu)');
select * from hjg_same('select a.id as aid, b.id as bid from one_row a join (select * from one_row offset 0) b on a = b');
-- a type of the user's, with operators of the user's
create type point3 as (x int, y int, z int);
select * from hjg_same('select a.g as ag, b.g as bg from (select g, row(g, g % 3, 1)::point3 as p from generate_series(1, 50) g) a join (select g, row(g, g % 2, 1)::point3 as p from generate_series(1, 50) g) b on a.p = b.p');
