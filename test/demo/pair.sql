-- A pair of tables for one hash join: s (probe side, :n_probe rows) with r (:n_build
-- rows, each key once: 2654435761 is prime).  Every key of s is in r; s.m is in r four times out of five.
set synchronous_commit = off;
begin;
create table r (id int, k int, v int);
insert into r select g, (g * 2654435761) % :n_build, g % 1000 from generate_series(1, :n_build::bigint) g;
select 'r: ' || :n_build || ' rows';
create table s (id int, k int, m int, v int, pad text);
prepare fill_s(bigint, bigint) as insert into s
	select g, (hashint8(g)::bigint & 2147483647) % :n_build, (hashint8(g + 77)::bigint & 2147483647) % (:n_build * 5 / 4), g % 1000, md5(g::text) || 'padding8'
	from generate_series($1, $2) g;
select format('execute fill_s(%s, %s)', :n_probe::bigint * i / 10 + 1, :n_probe::bigint * (i + 1) / 10),
	format('select %L', format('s: %s of %s rows', :n_probe::bigint * (i + 1) / 10, :n_probe))
	from generate_series(0, 9) i
\gexec
commit;
\echo vacuum and analyze
vacuum (freeze, analyze) r;
vacuum (freeze, analyze) s;
