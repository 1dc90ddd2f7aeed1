-- Queries that several GPUs divide by ranges of a key, one behind each "-- N": tpch22.pl --queries divided_queries.sql --tables lines,heads, over
--   CREATE TABLE lines AS SELECT g / 4::bigint AS k, g % 50 AS q, g % 3 AS f FROM generate_series(1, 60000000) g;
--   CREATE TABLE heads AS SELECT g::bigint AS k, g % 5 AS p FROM generate_series(0, 15000000) g; ALTER TABLE heads ADD PRIMARY KEY (k);
-- 1
select p, count(*), sum(q) from lines l join heads h on l.k = h.k group by 1 order by 1;
-- 2
select k, sum(q) from lines group by 1 having sum(q) > 190 order by 2 desc, 1 limit 100;
-- 3
select p, count(*) from heads h where exists (select from lines l where l.k = h.k and q > 30) group by 1 order by 1;
-- 4
select f, count(distinct k) from lines group by 1 order by 1;
-- 5
select p, count(*), sum(q) from heads h join (select k, sum(q) as q from lines group by k having sum(q) > 50) x on x.k = h.k group by 1 order by 1;
