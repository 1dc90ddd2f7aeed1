-- Rows carry columns that are wide, compressed, external, missing or dropped.
set client_min_messages = warning;
set hjoin_gpu.force = on;
create table wide_l (id int, gone int, k int, small text, big text, ext text, arr int[], n numeric);
alter table wide_l alter ext set storage external;
insert into wide_l select g, g, g % 50, 's' || g, repeat('compress me ' || g, 800), (select string_agg(md5((g * 100 + x)::text), '') from generate_series(1, 120) x),
	array_fill(g, array[g % 40 + 1]), g / 7.0 from generate_series(1, 200) g;
alter table wide_l drop column gone;
alter table wide_l add column late text default 'late';
alter table wide_l add column later int;
update wide_l set big = null where id % 5 = 0;
update wide_l set ext = '' where id % 7 = 0;
create table wide_r as select id, k, big, ext from wide_l where id % 3 <> 0;
alter table wide_r add column more numeric default 3.14;
insert into wide_r select * from wide_r where id < 20;
analyze wide_l;
analyze wide_r;
explain (costs off) select l.*, r.* from wide_l l join wide_r r on l.k = r.k;
select * from hjg_same('select l.*, r.* from wide_l l join wide_r r on l.k = r.k');
select * from hjg_same('select l.*, r.* from wide_l l left join wide_r r on l.id = r.id');
select * from hjg_same('select l.*, r.* from wide_l l full join wide_r r on l.id = r.id + 90');
select * from hjg_same('select r.big, l.late, l.later, r.more from wide_l l right join wide_r r on l.id = r.id');
-- toasted columns in the key, in a residual qual, and above
select * from hjg_same('select l.id as lid, r.id as rid from wide_l l join wide_r r on l.ext = r.ext');
select * from hjg_same('select l.id as lid, r.id as rid from wide_l l left join wide_r r on l.k = r.k and length(l.ext) > length(r.big)');
select * from hjg_same('select sum(length(l.big)), sum(length(r.ext)), count(l.later) from wide_l l join wide_r r on l.k = r.k');
-- rows that outlive their table: values are kept, not pointers
begin;
declare c cursor for select l.id, length(l.ext) + length(r.ext) as n from wide_l l join wide_r r on l.id = r.id order by l.id;
fetch 2 from c;
update wide_r set ext = 'changed', big = 'changed';
delete from wide_l where id > 10;
fetch 3 from c;
rollback;
-- hundreds of columns
do $$
begin
	execute (select 'create table many_l (id int, ' || string_agg(format('c%s %s', g, (array['int', 'text', 'bool', 'float8', 'smallint'])[1 + g % 5]), ', ') || ')' from generate_series(1, 400) g);
	execute (select 'insert into many_l select i, ' || string_agg(case when g % 11 = 0 then 'null' else (array['i', '''t'' || i', 'i % 2 = 0', 'i / 4.0', 'i % 100'])[1 + g % 5] end, ', ') || ' from generate_series(1, 100) i' from generate_series(1, 400) g);
end $$;
analyze many_l;
select * from hjg_same('select a, b from many_l a join many_l b on a.id = b.id + 1');
select * from hjg_same('select a.c399, b.c400, a.c1 from many_l a left join many_l b on a.id = b.c5 and a.c399 = b.c399');
