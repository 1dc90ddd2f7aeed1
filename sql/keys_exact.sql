-- Types whose keys travel as their own bytes, alone and several together.
set client_min_messages = warning;
create type mood as enum ('sad', 'ok', 'glad', 'wild', 'calm');
create function hjg_i(g int, m int) returns int immutable language sql as $$ select case when g % 29 = 0 then null else (g * 7919) % m end $$;
create table exact_l (id int, bo bool, ch "char", i2 int2, i4 int4, i8 int8, oi oid, da date, ti time, ts timestamp, tz timestamptz, f4 float4, f8 float8, uu uuid, en mood);
create table exact_r (like exact_l);
create function hjg_fill(tab regclass, n int, m int) returns void language plpgsql as $$
begin
	execute format($q$insert into %s
		select g, i %% 2 = 0, chr(40 + i %% 80)::"char",
			case i when 0 then -32768 when 1 then 32767 else i end,
			case i when 0 then -2147483648 when 1 then 2147483647 when 2 then -1 when 3 then 0 else i end,
			case i when 0 then -9223372036854775808 when 1 then 9223372036854775807 when 2 then -1 when 3 then 4294967295 when 4 then 4294967296 else i::int8 << 20 end,
			case i when 0 then 4294967295 else i end::oid,
			case i when 0 then '-infinity' when 1 then 'infinity' else date '2000-01-01' + i - 50 end,
			time '00:00' + i * interval '7 minutes',
			case i when 0 then '-infinity' when 1 then 'infinity' else timestamp '2000-01-01' + (i - 50) * interval '1 hour' end,
			case i when 0 then '-infinity' when 1 then 'infinity' else timestamptz '2000-01-01 00:00+00' + (i - 50) * interval '1 hour' end,
			(case i when 0 then 'NaN' when 1 then '-Infinity' when 2 then '-0' when 3 then '0' when 4 then 'Infinity' else (i / 8.0)::text end)::float4,
			(case i when 0 then 'NaN' when 1 then '-Infinity' when 2 then '-0' when 3 then '0' when 4 then 'Infinity' else (i / 8.0)::text end)::float8,
			md5(i::text)::uuid, (array['sad', 'ok', 'glad', 'wild', 'calm'])[1 + i %% 5]::mood
		from generate_series(1, %s) g, hjg_i(g, %s) i$q$, tab, n, m);
	execute format('analyze %s', tab);
end $$;
select hjg_fill('exact_l', 400, 131), hjg_fill('exact_r', 150, 61);
set hjoin_gpu.force = on;
explain (costs off) select * from exact_l l join exact_r r on l.uu = r.uu;
select c as key, s.* from unnest(array['bo', 'ch', 'i2', 'i4', 'i8', 'oi', 'da', 'ti', 'ts', 'tz', 'f4', 'f8', 'uu', 'en']) c,
	hjg_kinds('exact_l l', 'exact_r r', format('l.%I = r.%I', c, c)) s;
-- several short keys, up to 16 bytes and beyond
select c as keys, s.* from unnest(array['bo ch', 'i2 ch bo', 'i4 i2', 'i4 oi', 'i4 i4 i2 i2', 'da i4 f4', 'i8 i8', 'i8 ts', 'uu bo', 'ts tz i8', 'f8 f4', 'f8 en da', 'i8 i4 i2 ch bo']) c,
	hjg_kinds('exact_l l', 'exact_r r', (select string_agg(format('l.%I = r.%I', x, x), ' and ') from unnest(string_to_array(c, ' ')) x)) s;
-- minus zero, NaN
select l.f8::text as l, r.f8::text as r, count(*) from exact_l l join exact_r r on l.f8 = r.f8 where l.f8 in (0, 'NaN') group by 1, 2 order by 1, 2;
select l.f4::text as l, r.f4::text as r, count(*) from exact_l l join exact_r r on l.f4 = r.f4 where l.f4 in (0, 'NaN') group by 1, 2 order by 1, 2;
-- a key of all ones, and one of all zeros, are keys like others
select * from hjg_same('select l.id as lid, r.id as rid from (values (1, -1), (2, 0), (3, null)) l (id, k) left join (values (1, -1), (2, -1), (3, 0), (4, null)) r (id, k) on l.k = r.k');
