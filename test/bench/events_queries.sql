-- Queries on events_tables.sql as users of a shop's events write them, one behind each "-- N": times cut to days and months, joins with users and products,
-- DISTINCT counts, NOT IN, JSON, windows, sets of groups, first rows.
-- 1
select kind, count(*), sum(amount), avg(amount) from events group by kind order by kind;
-- 2
select date_trunc('month', at) m, count(*), sum(amount) from events group by 1 order by 1;
-- 3
select date_trunc('day', at) d, count(distinct user_id) from events where kind='buy' group by 1 order by 1;
-- 4
select u.country, count(*), sum(e.amount) from events e join users u on u.id=e.user_id where e.kind='buy' group by 1 order by 1;
-- 5
select p.category, sum(e.amount*e.quantity), avg(e.quantity) from events e join products p on p.id=e.product_id where e.at >= '2024-03-01' and e.at < '2024-05-01' group by 1 order by 1;
-- 6
select u.id, u.email, sum(e.amount) s from events e join users u on u.id=e.user_id where e.kind='buy' group by u.id, u.email order by s desc nulls last, 1 limit 20;
-- 7
select user_id, count(*), max(at) from events group by user_id having count(*) > 40 order by 2 desc, 1 limit 50;
-- 8
select extract(hour from at) h, count(*) from events group by 1 order by 1;
-- 9
select kind, round(avg(score)::numeric, 6), round(stddev(score)::numeric, 6), min(score), max(score) from events group by kind order by kind;
-- 10
select count(*) from events e left join products p on p.id=e.product_id where p.id is null;
-- 11
select u.country, u.plan, count(*) filter (where e.kind='buy') buys, count(*) filter (where e.kind='view') views from users u left join events e on e.user_id=u.id group by 1,2 order by 1,2;
-- 12
select count(*) from users u where not exists (select 1 from events e where e.user_id=u.id and e.kind='buy');
-- 13
select count(*) from users where id not in (select user_id from events where kind='refund');
-- 14
select props->>'dev' dev, count(*) from events group by 1 order by 1;
-- 15
select session, count(*) c from events group by session order by c desc, 1 limit 10;
-- 16
select e.id, e.at, u.email, p.name from events e join users u on u.id=e.user_id join products p on p.id=e.product_id where e.kind='buy' and e.amount > 290 order by e.at desc limit 100;
-- 17
with b as (select user_id, sum(amount) s from events where kind='buy' group by user_id) select u.country, avg(b.s), max(b.s) from b join users u on u.id=b.user_id group by 1 order by 1;
-- 18
select country, count(*), sum(s) from (select u.id, u.country, (select sum(amount) from events e where e.user_id=u.id and kind='buy') s from users u) x group by 1 order by 1;
-- 19
select kind, country, m, s, rank() over (partition by kind, m order by s desc) from (select kind, country, date_trunc('month',at) m, sum(amount) s from events e join users u on u.id=e.user_id group by 1,2,3) x order by 1,3,5,2 limit 50;
-- 20
select coalesce(u.plan,'none') plan, count(*), sum(coalesce(e.amount,0)) from events e join users u on u.id=e.user_id group by 1 order by 1;
-- 21
select count(distinct session), count(distinct user_id) from events where at >= '2024-06-01';
-- 22
select case when amount < 10 then 'small' when amount < 100 then 'middle' when amount is null then 'none' else 'large' end size, count(*), sum(amount) from events group by 1 order by 1;
-- 23
select p.name, p.price, count(*) n, sum(e.quantity*p.price) rev from events e join products p on p.id=e.product_id where e.kind='buy' group by p.id order by rev desc limit 10;
-- 24
select u.country, count(*) from users u where exists (select 1 from events e where e.user_id=u.id and e.at > '2024-07-01' and e.amount > 200) group by 1 order by 1;
-- 25
select a.user_id, count(*) from events a join events b on a.user_id=b.user_id and a.kind='cart' and b.kind='buy' and b.at > a.at and b.at < a.at + interval '1 day' group by 1 order by 2 desc,1 limit 10;
-- 26
select date_part('year', age(timestamptz '2024-12-01', u.signed_up)) y, count(*) from users u join events e on e.user_id=u.id group by 1 order by 1;
-- 27
select r.country, count(*) from users u join users r on r.id=u.referrer group by 1 order by 1;
-- 28
select min(note), max(note), count(note) from events where kind='view';
-- 29
select country, string_agg(distinct plan, ',' order by plan) from users u join events e on e.user_id=u.id group by 1 order by 1;
-- 30
select u.email like '%.org' org, count(*), sum(amount) from events e join users u on u.id=e.user_id group by 1 order by 1;
-- 31
select kind, sum(amount)/nullif(count(*),0), round(avg(amount),2) from events where product_id in (select id from products where category='books' and price > 100) group by kind order by kind;
-- 32
select percentile_cont(0.5) within group (order by amount) from events where kind='buy';
-- 33
select u.country, date_trunc('month', e.at)::date m, count(distinct e.user_id) mau, sum(e.amount) from events e join users u on u.id=e.user_id group by 1,2 order by 1,2;
-- 34
select kind, round(sum(score * quantity)::numeric, 3) from events group by kind order by kind;
-- 35
select user_id, sum(amount) from events group by user_id order by 1 offset 100000 limit 5;
-- 36
select ip, count(*) from events group by ip order by 2 desc, 1 limit 10;
-- 37
select u.country, count(*) from events e join users u on u.id = e.user_id where e.note ilike '%abc%' group by 1 order by 1;
-- 38
select u.country, sum(e.amount) from events e join users u on u.id=e.user_id where e.at between u.signed_up and u.signed_up + interval '30 days' group by 1 order by 1;
-- 39
select kind, country, sum(amount) from events e join users u on u.id=e.user_id group by rollup(kind, country) order by 1,2;
-- 40
select category, (select count(*) from events e where e.product_id = any(array_agg(p.id))) from products p where p.price > 490 group by 1 order by 1;
-- 41
select lower(left(u.email,1)) l, count(*) from events e join users u on u.id=e.user_id group by 1 order by 1;
-- 42
select count(*) from (select distinct user_id, product_id from events where kind in ('buy','cart')) x;
-- 43
select u.country, sum(e.amount) from events e, users u where u.id=e.user_id and u.plan='pro' and e.at >= now() - interval '10 years' group by 1 order by 1;
-- 44
select kind, count(*) from events where at::date = date '2024-05-05' group by 1 order by 1;
-- 45
select to_char(at, 'YYYY-MM') m, count(*), sum(amount) from events group by 1 order by 1;
