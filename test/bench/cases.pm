# cases.pm: the cases of "make bench" and "make bench-gpu".
#
# A case is [ name, query, check, flags ].  check is a query whose result must be the same for every plan (by default
# the query itself).  flags: "pg" leaves DuckDB out, which cannot run the query; "copy" compares only the check.
package cases;
use strict;
use warnings;

my $pairs = 'count(*), sum((coalesce(a.id, 0)::bigint * 31 + coalesce(b.id, 0)) % 1000003)';

sub checked
{
	my ($name, $what, $from, $flags) = @_;
	return [ $name, "select $what $from", "select $pairs $from", $flags ];
}

# Joins of two or three large tables: test/demo/pair.sql and tables.sql.
our @pair = (
	checked('count(*)', 'count(*)', 'from s a join r b on a.k = b.k'),
	[ 'sum of both sides', 'select sum(a.v + b.v) from s a join r b on a.k = b.k' ],
	[ 'rows (OFFSET 0)', 'select count(*) from (select a.id, a.v, b.v as bv from s a join r b on a.k = b.k offset 0) q' ],
	[ 'rows (COPY)', "copy (select a.id, a.v, b.v as bv from s a join r b on a.k = b.k) to '/dev/null'", "select $pairs from s a join r b on a.k = b.k", 'copy' ],
	checked('LEFT', 'count(*), count(b.id)', 'from s a left join r b on a.m = b.k'),
	checked('RIGHT, half the build side', 'count(*), count(a.id)', 'from s a right join r_half b on a.m = b.k'),
	checked('FULL', 'count(*), count(a.id), count(b.id)', 'from s a full join r_half b on a.m = b.k'),
	[ 'SEMI', 'select count(*) from s a where exists (select 1 from r b where b.k = a.m)', 'select count(*), sum(a.id::bigint) from s a where exists (select 1 from r b where b.k = a.m)' ],
	[ 'ANTI', 'select count(*) from s a where not exists (select 1 from r_half b where b.k = a.k)', 'select count(*), sum(a.id::bigint) from s a where not exists (select 1 from r_half b where b.k = a.k)' ],
	[ 'SEMI, residual, duplicates', 'select count(*) from r a where exists (select 1 from d b where b.k = a.k and b.v <> a.v)', 'select count(*), sum(a.id::bigint) from r a where exists (select 1 from d b where b.k = a.k and b.v <> a.v)' ],
	checked('duplicates 1:4', 'count(*)', 'from r a join d b on a.k = b.k'),
	checked('duplicates 4:4', 'count(*)', 'from d a join d b on a.k = b.k'),
	checked('residual qual', 'count(*)', 'from s a join r b on a.k = b.k and a.v > b.v'),
	checked('build side 10 %', 'count(*)', 'from s a join r b on a.k = b.k where b.v < 100'),
	checked('build side 1 %', 'count(*)', 'from s a join r b on a.k = b.k where b.v < 10'),
	checked('probe side 10 %', 'count(*)', 'from s a join r b on a.k = b.k where a.v < 100'),
	checked('probe side 1 %', 'count(*)', 'from s a join r b on a.k = b.k where a.v < 10'),
	checked('bigint key, quarter', 'count(*), sum(b.v)', 'from s_other a join r_other b on a.kb = b.kb'),
	checked('text key, quarter', 'count(*), sum(b.v)', 'from s_other a join r_other b on a.kt = b.kt'),
	checked('two int keys, quarter', 'count(*), sum(b.v)', 'from s_other a join r_other b on a.k1 = b.k1 and a.k2 = b.k2'),
	[ 'group by above', 'select b.v, count(*) from s a join r b on a.k = b.k group by b.v order by b.v' ],
	[ 'star, 3 tables', 'select y.a, count(*), sum(f.v) from fact f join dim1 x on f.d1 = x.k join dim2 y on f.d2 = y.k where x.a < 500 group by y.a order by y.a' ],
	[ 'star, 5 tables', 'select w.a, count(*), sum(f.v + x.a + y.a + z.a) from fact f join dim1 x on f.d1 = x.k join dim2 y on f.d2 = y.k join dim3 z on f.d3 = z.k join dim4 w on f.d4 = w.k group by w.a order by w.a' ],
	[ 'chain of two', 'select count(*), sum(b.v + c.v) from s a join r b on a.k = b.k join r_half c on a.m = c.k' ],
	[ 'index answers it', 'select count(*), sum(f.v) from dim1 x join fact f on f.d1 = x.k where x.k between 10 and 20' ],);

# Cases of @pair that "make bench-gpu" runs, with the limit in milliseconds for the leader and up to 15 workers with a
# GPU.
our %gpu_targets = ('count(*)' => 150, 'sum of both sides' => 150, 'rows (OFFSET 0)' => 900);

# Queries on the tables of tpch.sql.  Derived from the TPC-H benchmark's; results are
# not comparable with published TPC-H results.  Money is in whole cents, discounts are whole percents.
our @tpch = (
	[ 'Q3', q{select l_orderkey, sum(l_extendedprice * (100 - l_discount)) as revenue, o_orderdate, o_shippriority
		from customer join orders on c_custkey = o_custkey join lineitem on l_orderkey = o_orderkey
		where c_mktsegment = 'BUILDING' and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
		group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, l_orderkey limit 10} ],
	[ 'Q5', q{select n_name, sum(l_extendedprice * (100 - l_discount)) as revenue
		from customer join orders on c_custkey = o_custkey join lineitem on l_orderkey = o_orderkey
			join supplier on l_suppkey = s_suppkey and c_nationkey = s_nationkey
			join nation on s_nationkey = n_nationkey join region on n_regionkey = r_regionkey
		where r_name = 'ASIA' and o_orderdate >= date '1994-01-01' and o_orderdate < date '1995-01-01'
		group by n_name order by revenue desc, n_name} ],
	[ 'Q9', q{select n_name, extract(year from o_orderdate) as y, sum(l_extendedprice * (100 - l_discount) - ps_supplycost * l_quantity * 100) as profit
		from part join lineitem on p_partkey = l_partkey join supplier on s_suppkey = l_suppkey
			join partsupp on ps_suppkey = l_suppkey and ps_partkey = l_partkey
			join orders on o_orderkey = l_orderkey join nation on s_nationkey = n_nationkey
		where p_name like '%green%' group by n_name, y order by n_name, y desc} ],
	[ 'Q10', q{select c_custkey, c_name, sum(l_extendedprice * (100 - l_discount)) as revenue, c_acctbal, n_name
		from customer join orders on c_custkey = o_custkey join lineitem on l_orderkey = o_orderkey join nation on c_nationkey = n_nationkey
		where o_orderdate >= date '1993-10-01' and o_orderdate < date '1994-01-01' and l_returnflag = 'R'
		group by c_custkey, c_name, c_acctbal, n_name order by revenue desc, c_custkey limit 20} ],
	[ 'Q12', q{select l_shipmode, sum(case when o_orderpriority in ('1-URGENT', '2-HIGH') then 1 else 0 end) as high, sum(case when o_orderpriority in ('1-URGENT', '2-HIGH') then 0 else 1 end) as low
		from orders join lineitem on o_orderkey = l_orderkey
		where l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate and l_shipdate < l_commitdate
			and l_receiptdate >= date '1994-01-01' and l_receiptdate < date '1995-01-01'
		group by l_shipmode order by l_shipmode} ],
	[ 'Q14', q{select sum(case when p_type like 'PROMO%' then l_extendedprice * (100 - l_discount) else 0 end) as promo, sum(l_extendedprice * (100 - l_discount)) as total
		from lineitem join part on l_partkey = p_partkey
		where l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'} ],
	[ 'Q18', q{select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) as quantity
		from customer join orders on c_custkey = o_custkey join lineitem on o_orderkey = l_orderkey
		where o_orderkey in (select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > 300)
		group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice order by o_totalprice desc, o_orderdate, o_orderkey limit 100} ],
	[ 'Q21', q{select s_name, count(*) as numwait
		from supplier join lineitem l1 on s_suppkey = l1.l_suppkey join orders on o_orderkey = l1.l_orderkey join nation on s_nationkey = n_nationkey
		where o_orderstatus = 'F' and l1.l_receiptdate > l1.l_commitdate and n_name = 'NATION 20'
			and exists (select 1 from lineitem l2 where l2.l_orderkey = l1.l_orderkey and l2.l_suppkey <> l1.l_suppkey)
			and not exists (select 1 from lineitem l3 where l3.l_orderkey = l1.l_orderkey and l3.l_suppkey <> l1.l_suppkey and l3.l_receiptdate > l3.l_commitdate)
		group by s_name order by numwait desc, s_name limit 100} ],);
$_->[1] =~ s/\s+/ /g foreach @tpch;
$_->[0] .= ' (TPC-H-like)' foreach @tpch;

# name, query, loops
our @small = (
	[ '10 x 10 rows', 'select count(*) from t10 a join t10 b on a.k = b.k', 300 ],
	[ '1000 x 10 rows', 'select count(*) from t1000 a join t10 b on a.k = b.k', 200 ],
	[ '1000 x 1000 rows', 'select count(*) from t1000 a join t1000 b on a.k = b.k', 100 ],
	[ '100000 x 1000 rows', 'select count(*) from t100000 a join t1000 b on a.k = b.k', 10 ],
	[ '100000 x 100000 rows', 'select count(*) from t100000 a join t100000 b on a.k = b.k', 5 ],);

our @planning = (
	[ 'planning 2 relations, index', 'explain select count(*) from fact f join fact g on f.d1 = g.d1 where f.d1 = 5', 500 ],
	[ 'planning 3 relations, index', 'explain select count(*) from dim1 x join fact f on f.d1 = x.k join fact g on g.d1 = x.k where x.k < 20', 300 ],
	[ 'planning 2 relations', 'explain select count(*) from t1000 a join t1000 b on a.k = b.k', 1000 ],
	[ 'planning 4 relations', 'explain select count(*) from t1000 a join t1000 b on a.k = b.k join t1000 c on c.k = b.v join t1000 d on d.k = c.v', 200 ],
	[ 'planning 6 relations', 'explain select count(*) from t1000 a join t1000 b on a.k = b.k join t1000 c on c.k = b.v join t1000 d on d.k = c.v join t1000 e on e.v = d.k join t1000 f on f.v = e.k', 30 ],);

# name, query, settings: plans of almost equal cost, and wrong estimates (edges.sql)
my $low = "set work_mem = '1MB';";
my $tiny_parallel = 'set min_parallel_table_scan_size = 0; set parallel_setup_cost = 0; set parallel_tuple_cost = 0;';
my $generic = 'set plan_cache_mode = force_generic_plan; deallocate all; prepare q(int) as select count(*), sum(e.v) from event e join item i on e.k = i.id where i.v';
our @edges = (
	[ 'LIMIT 10', 'select sum(v) from (select e.v from event e join item i on e.k = i.id limit 10) q' ],
	[ 'LIMIT 1000', 'select sum(v) from (select e.v from event e join item i on e.k = i.id limit 1000) q' ],
	[ 'LIMIT 100000', 'select sum(v) from (select e.v from event e join item i on e.k = i.id limit 100000) q' ],
	[ 'LIMIT 10, no index', 'select count(*) from (select a.v from s a join r b on a.k = b.k limit 10) q' ],
	[ 'LIMIT 10000, no index', 'select count(*) from (select a.v from s a join r b on a.k = b.k limit 10000) q' ],
	[ 'ORDER BY id LIMIT 10', 'select sum(v) from (select e.v from event e join item i on e.k = i.id order by e.id limit 10) q' ],
	[ 'ORDER BY id LIMIT 10000', 'select sum(v) from (select e.v from event e join item i on e.k = i.id order by e.id limit 10000) q' ],
	[ 'ORDER BY v LIMIT 10', 'select sum(v) from (select e.v from event e join item i on e.k = i.id order by e.v, e.id limit 10) q' ],
	[ 'ORDER BY id, all', 'select sum(v) from (select e.v from event e join item i on e.k = i.id order by e.id offset 0) q' ],
	map({ ( [ "clustered index, $_ look-ups", "select count(*), sum(e.v) from item i join event e on e.g = i.id where i.id < $_" ],
			[ "scattered index, $_ look-ups", "select count(*), sum(e.v) from item i join event e on e.k = i.id where i.id < $_" ],
			[ "primary key, $_ look-ups", "select count(*), sum(i.p1) from event e join item i on e.k = i.id where e.id < $_" ]) } 10, 100, 1000, 4000, 16000, 64000),
	[ 'look-ups by value, 0.1 %', 'select count(*), sum(e.v) from item i join event e on e.k = i.id where i.v = 5' ],
	[ 'look-ups by value, 1 %', 'select count(*), sum(e.v) from item i join event e on e.k = i.id where i.v < 10' ],
	[ 'LEFT, index', 'select count(*), sum(e.v) from item i left join event e on e.k = i.id where i.v = 5' ],
	[ 'merge of two primary keys', 'select count(*), sum(e.v) from event e join item i on e.id = i.id' ],
	[ 'merge, index-only', 'select count(*) from event e join item i on e.id = i.id' ],
	[ 'merge, g', 'select count(*) from event e join item i on e.g = i.id' ],
	[ 'merge, group by key', 'select count(*), sum(c) from (select i.id, count(*) as c from event e join item i on e.g = i.id group by i.id) q' ],
	[ 'skewed probe side', 'select count(*), sum(i.v) from event e join item i on e.z = i.id' ],
	[ 'skewed build side', 'select count(*), sum(e.v) from item i join event e on e.z = i.id where e.few < 2' ],
	[ 'skew on both sides', 'select count(*) from event e join event f on e.z = f.z where e.v = 5 and f.v = 7' ],
	[ 'few keys', 'select count(*), sum(i.v) from event e join item i on e.few = i.id' ],
	[ 'build side 100x underestimated', 'select count(*), sum(f.v) from event e join event f on e.id = f.id where e.a = 7 and e.b = 7 and e.c = 7' ],
	[ 'probe side 100x underestimated', 'select count(*), sum(i.p1) from event e join item i on e.k = i.id where e.a = 7 and e.b = 7 and e.c = 7' ],
	[ 'both underestimated', 'select count(*), sum(i.p1) from event e join item i on e.k = i.id where e.a = 7 and e.b = 7 and e.c = 7 and i.a = 7 and i.b = 7 and i.c = 7' ],
	[ 'build side overestimated', 'select count(*), sum(e.v) from event e join item i on e.k = i.id where i.a <> i.b' ],
	[ 'probe side overestimated', 'select count(*), sum(i.v) from event e join item i on e.k = i.id where e.a <> e.b' ],
	[ 'stale statistics', 'select count(*), sum(e.v) from event e join grown g on e.k = g.k where g.state = 2' ],
	[ 'spill, count', 'select count(*) from s a join r b on a.k = b.k', $low ],
	[ 'spill, sum', 'select sum(a.v + b.v) from s a join r b on a.k = b.k', $low ],
	[ 'spill, rows', 'select count(*) from (select a.id, a.v, b.v as bv from s a join r b on a.k = b.k offset 0) q', $low ],
	[ 'spill, 10 % of the build side', 'select sum(a.v + b.v) from s a join r b on a.k = b.k where b.v < 100', $low ],
	[ 'spill, text columns', 'select sum(length(a.pad) + length(i.wide)) from s a join item i on a.k = i.id', $low ],
	[ 'spill, text key', 'select count(*), sum(i.v) from event e join item i on e.t = i.t', $low ],
	[ 'spill, LEFT', 'select count(*), count(b.id) from s a left join r b on a.m = b.k', $low ],
	[ 'spill, ANTI', 'select count(*) from s a where not exists (select 1 from r_half b where b.k = a.k)', $low ],
	[ 'spill, 64 kB', 'select sum(a.v + b.v) from s_other a join r_other b on a.kb = b.kb', "set work_mem = '64kB';" ],
	[ 'wide rows', 'select sum(length(i.wide)), sum(e.v) from event e join item i on e.k = i.id' ],
	[ 'wide rows of both sides', 'select sum(length(i.wide)), sum(length(a.pad)) from s a join item i on a.k = i.id' ],
	[ 'many columns', 'select sum(e.p1 + e.p2 + e.p3 + e.p4 + e.p5 + e.p6 + i.p1 + i.p2 + i.p3 + i.p4 + i.p5 + i.p6) from event e join item i on e.k = i.id' ],
	[ 'many columns, rows', 'select count(*) from (select e.*, i.* from event e join item i on e.k = i.id offset 0) q' ],
	[ 'text key', 'select count(*), sum(i.v) from event e join item i on e.t = i.t' ],
	[ 'text key, rows', 'select count(*) from (select e.t, i.v from event e join item i on e.t = i.t offset 0) q' ],
	[ 'numeric key', 'select count(*), sum(i.v) from event e join item i on e.n = i.n' ],
	[ 'uuid key', 'select count(*), sum(i.v) from event e join item i on e.u = i.u' ],
	[ 'timestamp key', 'select count(*), sum(i.v) from event e join item i on e.at = i.at' ],
	[ 'expression as key', 'select count(*), sum(i.v) from event e join item i on e.k + 1 = i.id' ],
	[ 'text function as key', 'select count(*), sum(i.v) from event e join item i on upper(e.t) = upper(i.t)' ],
	[ 'three keys', 'select count(*), sum(i.v) from event e join item i on e.k = i.id and e.v = i.v and e.a = i.a' ],
	[ 'costly condition', q{select count(*) from event e join item i on e.k = i.id and e.t like '%' || i.t || '%'} ],
	[ 'partitions', 'select count(*), sum(i.v) from event_part e join item_part i on e.k = i.id' ],
	[ 'partition-wise', 'select count(*), sum(i.v) from event_part e join item_part i on e.k = i.id', 'set enable_partitionwise_join = on;' ],
	[ 'partition-wise, low memory', 'select count(*), sum(i.v) from event_part e join item_part i on e.k = i.id', "set enable_partitionwise_join = on; set work_mem = '256kB';" ],
	[ 'workers for 1000 rows', 'select count(*), sum(a.v + b.v) from t1000 a join t1000 b on a.k = b.k', $tiny_parallel ],
	[ 'workers for 10 rows', 'select count(*), sum(a.v + b.v) from t1000 a join t10 b on a.k = b.k', $tiny_parallel ],
	[ 'workers for 100000 rows', 'select count(*), sum(a.v + b.v) from t100000 a join t100000 b on a.k = b.k', $tiny_parallel ],
	[ 'workers for rows', 'select count(*) from (select a.v, b.v as bv from t100000 a join t100000 b on a.k = b.k offset 0) q', $tiny_parallel ],
	[ 'EXISTS, index', 'select count(*) from item i where exists (select 1 from event e where e.k = i.id)' ],
	[ 'EXISTS, few', 'select count(*) from item i where v = 5 and exists (select 1 from event e where e.k = i.id)' ],
	[ 'EXISTS, small inner side', 'select count(*) from event e where exists (select 1 from t1000 b where b.k = e.v)' ],
	[ 'NOT EXISTS, index', 'select count(*) from item i where not exists (select 1 from event e where e.k = i.id and e.v < 100)' ],
	[ 'NOT EXISTS, few', 'select count(*) from item i where v = 5 and not exists (select 1 from event e where e.k = i.id)' ],
	[ 'IN, duplicates', 'select count(*), sum(v) from item where id in (select k from event where v < 500)' ],
	[ 'IN, few values', 'select count(*), sum(v) from event where k in (select id from item where v = 5)' ],
	[ 'IN, grouped', 'select count(*), sum(v) from item where id in (select k from event group by k having count(*) > 12)' ],
	[ 'LEFT JOIN IS NULL', 'select count(*) from event e left join item i on e.v = i.id and i.v < 500 where i.id is null' ],
	[ 'generic plan, one value', 'execute q(5)', "$generic = \$1;" ],
	[ 'generic plan, range', 'execute q(900)', "$generic < \$1;" ],
	[ 'generic plan, no row', 'execute q(-1)', "$generic < \$1;" ],
	[ 'rescans, probe side', 'select sum((select count(*) from t1000 x join t1000 y on x.k = y.k where x.v = a.v)) from t1000 a' ],
	[ 'rescans, both sides', 'select sum((select count(*) from t1000 x join t1000 y on x.k = y.k where x.v = a.v and y.v = a.v)) from t1000 a' ],
	[ 'rescans, build side', 'select sum((select count(*) from t1000 x left join t1000 y on x.k = y.k and y.v = a.v)) from t1000 a' ],
	[ 'join below a nested loop', 'select count(*) from t10 a join lateral (select e.v from event e join item i on e.k = i.id where e.id between a.id * 1000 and a.id * 1000 + 500 offset 0) q on true' ],
	[ 'grouped inner side', 'select count(*), sum(q.n) from item i join (select k, count(*) as n from event group by k) q on q.k = i.id' ],
	[ 'VALUES', 'select count(*), sum(e.v) from event e join (values (1), (2), (3), (500)) q(x) on e.v = q.x' ],
	[ 'function scan', 'select count(*), sum(e.v) from event e join generate_series(1, 100) q(x) on e.v = q.x' ],
	[ 'UNION ALL', 'select count(*), sum(i.v) from (select k from event union all select k from event) e join item i on e.k = i.id' ],
	[ 'CTE', 'with q as materialized (select k, v from event where v < 300) select count(*), sum(i.v) from q join item i on q.k = i.id' ],
	[ 'window above', 'select max(x) from (select sum(e.v) over (partition by e.k order by e.id) as x from event e join item i on e.k = i.id) q' ],
	[ 'DISTINCT above', 'select count(*) from (select distinct e.v, i.p6 from event e join item i on e.k = i.id) q' ],
	[ 'self-join on a range', 'select count(*) from event e join event f on e.id = f.id where e.at < timestamp \'2020-01-10\'' ],
	[ 'five small tables', 'select count(*) from t1000 a join t1000 b on a.k = b.k join t1000 c on c.k = b.v join t1000 d on d.k = c.v join t10 e on e.k = d.v' ],
	[ 'three tables, index', 'select count(*), sum(e.v) from item i join event e on e.k = i.id join event f on f.g = i.id where i.id between 500 and 600' ],);

1;
