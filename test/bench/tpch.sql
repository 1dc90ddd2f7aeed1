-- Tables in the manner of TPC-H, of our own making: :lines rows of lineitem or so.
-- Derived from TPC-H's schema and proportions; not its data.
set synchronous_commit = off;
-- a number in [0, n) that depends on g and seed alone
create function rnd(g bigint, seed bigint, n bigint) returns bigint language sql immutable strict
	return (hashint8extended(g, seed) & 9223372036854775807) % n;
begin;
create table region (r_regionkey int, r_name text);
insert into region select g, (array['AFRICA', 'AMERICA', 'ASIA', 'EUROPE', 'MIDDLE EAST'])[g + 1] from generate_series(0, 4) g;
create table nation (n_nationkey int, n_regionkey int, n_name text);
insert into nation select g, g % 5, 'NATION ' || g from generate_series(0, 24) g;
create table supplier (s_suppkey int, s_nationkey int, s_name text, s_acctbal bigint);
insert into supplier select g, rnd(g, 1, 25), 'Supplier#' || lpad(g::text, 9, '0'), rnd(g, 2, 1000000)
	from generate_series(1, greatest(:lines / 600, 10)::bigint) g;
create table customer (c_custkey int, c_nationkey int, c_mktsegment text, c_name text, c_acctbal bigint);
insert into customer select g, rnd(g, 3, 25), (array['AUTOMOBILE', 'BUILDING', 'FURNITURE', 'HOUSEHOLD', 'MACHINERY'])[rnd(g, 4, 5) + 1],
		'Customer#' || lpad(g::text, 9, '0'), rnd(g, 5, 1000000)
	from generate_series(1, greatest(:lines / 40, 30)::bigint) g;
create table part (p_partkey int, p_name text, p_type text, p_size int);
insert into part select g, (array['almond', 'azure', 'beige', 'blue', 'brown', 'coral', 'cream', 'forest', 'green', 'grey', 'indian', 'ivory', 'khaki', 'lace', 'lime', 'linen', 'navy', 'olive'])[rnd(g, 6, 18) + 1] || ' part ' || rnd(g, 7, 1000),
		(array['STANDARD', 'SMALL', 'MEDIUM', 'LARGE', 'ECONOMY', 'PROMO'])[rnd(g, 8, 6) + 1] || ' ' || (array['TIN', 'NICKEL', 'BRASS', 'STEEL', 'COPPER'])[rnd(g, 9, 5) + 1], rnd(g, 10, 50) + 1
	from generate_series(1, greatest(:lines / 30, 20)::bigint) g;
-- four suppliers a part
create table partsupp (ps_partkey int, ps_suppkey int, ps_supplycost bigint, ps_availqty int);
insert into partsupp select p_partkey, (p_partkey + i * (n / 4 + 1)) % n + 1, rnd(p_partkey * 4 + i, 11, 100000), rnd(p_partkey * 4 + i, 12, 10000)
	from part, generate_series(0, 3) i, (select count(*) as n from supplier) q;
-- every third customer has no order
create table orders (o_orderkey int, o_custkey int, o_orderstatus text, o_totalprice bigint, o_orderdate date, o_orderpriority text, o_shippriority int);
insert into orders select g, rnd(g, 13, n / 3) * 3 + 1 + rnd(g, 14, 2), (array['F', 'O', 'P'])[1 + rnd(g, 15, 100) / 49], rnd(g, 16, 50000000), date '1992-01-01' + rnd(g, 17, 2406)::int,
		(array['1-URGENT', '2-HIGH', '3-MEDIUM', '4-NOT SPECIFIED', '5-LOW'])[rnd(g, 18, 5) + 1], 0
	from generate_series(1, (:lines / 4)::bigint) g, (select count(*) as n from customer) q;
-- one to seven lines an order
create table lineitem (l_orderkey int, l_partkey int, l_suppkey int, l_linenumber int, l_quantity int, l_extendedprice bigint, l_discount int,
	l_returnflag text, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipmode text);
insert into lineitem
	select o_orderkey, part, (part + rnd(line, 21, 4) * (nsupp / 4 + 1)) % nsupp + 1, i, rnd(line, 22, 50) + 1, rnd(line, 23, 10000000) + 90000, rnd(line, 24, 11),
		(array['R', 'A', 'N', 'N'])[rnd(line, 25, 4) + 1], o_orderdate + 1 + rnd(line, 26, 121)::int, o_orderdate + 30 + rnd(line, 27, 61)::int,
		o_orderdate + 2 + rnd(line, 26, 121)::int + rnd(line, 28, 30)::int, (array['REG AIR', 'AIR', 'RAIL', 'SHIP', 'TRUCK', 'MAIL', 'FOB'])[rnd(line, 29, 7) + 1]
	from orders, (select count(*) as nsupp from supplier) s, (select count(*) as npart from part) p,
		lateral generate_series(1, (1 + rnd(o_orderkey, 19, 7))::int) i,
		lateral (select o_orderkey::bigint * 8 + i as line, (rnd(o_orderkey::bigint * 8 + i, 20, npart) + 1)::int as part) q;
commit;
alter table supplier add primary key (s_suppkey);
alter table customer add primary key (c_custkey);
alter table part add primary key (p_partkey);
alter table partsupp add primary key (ps_partkey, ps_suppkey);
alter table orders add primary key (o_orderkey);
create index on lineitem (l_orderkey);
vacuum (freeze, analyze) region, nation, supplier, customer, part, partsupp, orders, lineitem;
