-- Set operations, views, security barriers and row security.
set client_min_messages = warning;
set hjoin_gpu.force = on;
select * from hjg_same('select p.id from probe p join build b on p.k = b.k union select id from one_row');
select * from hjg_same('select p.v, b.v as bv from probe p join build b on p.k = b.k union all select b.v, p.v from probe p left join build b on p.t = b.t');
select * from hjg_same('(select p.k from probe p join build b on p.k = b.k except select k from build where v > 20) intersect select k from probe');
select * from hjg_same('select u.k, b.id as bid from (select k from probe union all select k from build) u join build b on u.k = b.k');
create view joined as select p.id as pid, b.id as bid, p.v as pv, b.v as bv from probe p join build b on p.k = b.k;
create view barrier with (security_barrier) as select id, k, v, t from build where v > 5;
create function leaks(int) returns bool language plpgsql cost 0.0000001 as $$ begin if $1 <= 5 then raise warning 'leak of v = %', $1; end if; return true; end $$;
explain (costs off) select * from joined where pv = bv;
select * from hjg_same('select * from joined where pv = bv');
select * from hjg_same('select a.pid, b.bid from joined a join joined b on a.bid = b.pid');
-- a function that tells must not see the rows that the barrier hides
explain (costs off) select p.id, b.id from probe p join barrier b on p.k = b.k where leaks(b.v);
select count(*) from probe p join barrier b on p.k = b.k where leaks(b.v);
select * from hjg_same('select p.id as pid, b.id as bid from probe p left join barrier b on p.k = b.k');
create role hjg_clerk;
create table secret (id int, k int, v int, owner text);
insert into secret select g, g % 50, g % 9, case when g % 3 = 0 then 'hjg_clerk' else 'other' end from generate_series(1, 600) g;
analyze secret;
alter table secret enable row level security;
create policy own on secret using (owner = current_user);
grant select on secret, probe, build, barrier, joined to hjg_clerk;
select * from hjg_same('select p.id as pid, s.id as sid from probe p join secret s on p.k = s.k');
set role hjg_clerk;
explain (costs off) select p.id, s.id from probe p join secret s on p.k = s.k where leaks(s.v);
select count(*), count(distinct s.owner) from probe p join secret s on p.k = s.k;
select * from hjg_same('select p.id as pid, s.id as sid from probe p join secret s on p.k = s.k');
select * from hjg_same('select p.id as pid, s.id as sid from probe p full join secret s on p.k = s.k and s.v < p.v');
select * from hjg_same('select p.id as pid from probe p where not exists (select 1 from secret s where p.k = s.k)');
select count(*) from probe p join secret s on p.k = s.k where leaks(s.v + 6);
-- what may not be read may not be joined
select * from probe p join nothing n on p.k = n.k;
reset role;
-- a plan made for one role is not used for another
prepare shared_plan as select count(*) from probe p join secret s on p.k = s.k;
execute shared_plan;
set role hjg_clerk;
execute shared_plan;
reset role;
execute shared_plan;
deallocate shared_plan;
drop table secret;
revoke all on probe, build, barrier, joined from hjg_clerk;
drop role hjg_clerk;
