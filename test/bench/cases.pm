# cases.pm: what "make bench" and "make bench-gpu" run.
#
# A case is [ name, query, check, flags ]: check is a query whose result must be the
# same for every plan (by default the query itself); flags: "pg" leaves DuckDB out (the
# query means nothing to it), "copy" compares nothing but the check.
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

# Those of @pair that "make bench-gpu" runs, with the milliseconds that the leader and up to 15 workers
# may take with a GPU.
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
	[ 'planning 2 relations', 'explain select count(*) from t1000 a join t1000 b on a.k = b.k', 1000 ],
	[ 'planning 4 relations', 'explain select count(*) from t1000 a join t1000 b on a.k = b.k join t1000 c on c.k = b.v join t1000 d on d.k = c.v', 200 ],
	[ 'planning 6 relations', 'explain select count(*) from t1000 a join t1000 b on a.k = b.k join t1000 c on c.k = b.v join t1000 d on d.k = c.v join t1000 e on e.v = d.k join t1000 f on f.v = e.k', 30 ],);

1;
