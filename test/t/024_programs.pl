# Groupings that the device process makes by programs, on a GPU that is emulated on the host (test/device/stub_libcuda.c), or on threads
# (024_programs_cpu.pl): core's rows in every state of the tables and the device process, and a reason where there is no program.
#
#   HJG_PROGRAM_SEED=N    seed of the random queries (default: the time)
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $device = $ENV{HJG_PROGRAM_DEVICE} // 'cuda:0';
use_emulated_cuda() if $device ne 'cpu';
my $seed = $ENV{HJG_PROGRAM_SEED} // time;
diag("HJG_PROGRAM_SEED=$seed");
srand($seed);

# threads have the memory of as many processes, of which there may be few
my $conf = "autovacuum = off\nwal_level = replica\nhjoin_gpu.cache_size = '64MB'\nshared_buffers = '64MB'\nwork_mem = '32MB'\n";
my $core = 'SET hjoin_gpu.enabled = off; ';
my $program = "SET hjoin_gpu.device = '$device'; SET hjoin_gpu.force = on; SET max_parallel_workers_per_gather = 0; ";

sub fill_tables
{
	my ($node) = @_;
	$node->safe_psql('postgres', q{
		CREATE TABLE orders (id int PRIMARY KEY, customer int, day date, priority char(8), total numeric(12,2), note text, word text, code char(12));
		INSERT INTO orders SELECT g, CASE WHEN g % 50 <> 0 THEN g % 700 END, date '1995-01-01' + g % 900, 'P' || g % 5, g % 10000 / 100.0,
			CASE WHEN g % 9 <> 0 THEN 'note ' || g % 20 END,
			CASE WHEN g % 11 <> 0 THEN md5(g::text) END, CASE WHEN g % 17 <> 0 THEN 'o' || g END FROM generate_series(1, 40000) g;
		CREATE TABLE lines (order_id int, line int2, part int8, price numeric(10,2), discount numeric(4,2), quantity int, mode text, sent date,
			happened timestamp, yes bool);
		INSERT INTO lines SELECT g / 3, g % 3, g * 7 % 5000, g % 90000 / 100.0, g % 11 / 100.0, CASE WHEN g % 13 <> 0 THEN g % 50 END,
			CASE g % 7 WHEN 0 THEN 'AIR' WHEN 1 THEN 'SHIP' WHEN 2 THEN NULL ELSE 'mode ' || g % 7 END, date '1995-01-05' + g % 1000,
			timestamp '2000-01-01' + g % 5000 * interval '1 hour', g % 3 = 0 FROM generate_series(1, 120000) g;
		CREATE TABLE customers (id int, region int8, name varchar(20));
		INSERT INTO customers SELECT g, g % 6, 'name ' || g % 40 FROM generate_series(1, 600) g;
		ALTER TABLE customers ADD PRIMARY KEY (id);
		CREATE TABLE nothing (a int, b int);
		CREATE TABLE long_texts (id int PRIMARY KEY, text text);
		INSERT INTO long_texts SELECT g, CASE WHEN g % 5 <> 0 THEN repeat(md5(g::text), CASE WHEN g % 7 = 0 THEN 2000 ELSE 4 END) END FROM generate_series(1, 700) g;
		VACUUM ANALYZE orders, lines, customers, nothing, long_texts;
		SELECT hjoin_gpu_keep('orders'), hjoin_gpu_keep('lines'), hjoin_gpu_keep('customers'), hjoin_gpu_keep('nothing'), hjoin_gpu_keep('long_texts')});
	ok(defined wait_until(sub { $node->safe_psql('postgres', "SELECT state FROM hjoin_gpu_devices WHERE name = '$device'") eq 'ready' }, 20), 'the device is ready');
	return;
}

sub start_with
{
	my ($name, $fault) = @_;
	my $node = start_node($name, conf => $conf, fault => $fault);
	fill_tables($node);
	return $node;
}

# Count the programs that statements run.
sub programs_of
{
	my ($node, $statements) = @_;
	my $before = stat_value($node, 'programs');
	my $rows = $node->safe_psql('postgres', $statements);
	return ($rows, stat_value($node, 'programs') - $before);
}

# Compare with core; were there so many programs? -1: that does not matter
sub is_cores
{
	my ($node, $query, $wanted, $name, $settings) = @_;
	my ($rows, $n) = programs_of($node, $program . ($settings // '') . $query);
	is($rows, $node->safe_psql('postgres', $core . ($settings // '') . $query), "$name: core's rows");
	is($n, $wanted, "$name: " . ($wanted ? 'by a program' : 'without a program')) if $wanted >= 0;
	return;
}

my $node = start_with('main');

# --- what programs can do
my @queries = (
	'SELECT count(*), sum(quantity), count(quantity), min(quantity), max(quantity), avg(quantity) FROM lines',
	'SELECT sum(price), avg(price), min(price), max(price), count(price) FROM lines WHERE discount BETWEEN 0.02 AND 0.05 AND quantity < 24',
	'SELECT sum(price * (1 - discount)), sum(price * (1 - discount) * (1 + discount)), avg(-price) FROM lines WHERE sent <= date \'1997-01-01\'',
	'SELECT mode, yes, count(*), sum(quantity), sum(price) FROM lines GROUP BY mode, yes ORDER BY 1, 2',
	'SELECT mode, count(*) FROM lines WHERE mode IN (\'AIR\', \'SHIP\', \'none\') OR mode LIKE \'%4\' GROUP BY mode ORDER BY 1',
	'SELECT quantity, max(part), min(line), sum(part) FROM lines WHERE mode IS NULL OR quantity IS NULL GROUP BY quantity ORDER BY 1',
	'SELECT discount, count(*), min(price) FROM lines WHERE quantity NOT IN (1, 2, 3, 3) AND mode NOT IN (\'AIR\') GROUP BY discount ORDER BY 1',
	'SELECT part, sum(quantity + line), sum(part * 2 - quantity) FROM lines GROUP BY part ORDER BY 1',
	'SELECT min(happened), max(happened), min(sent), max(sent), bool_and(yes), bool_or(yes) FROM lines WHERE happened > timestamp \'2000-03-01\'',
	'SELECT count(*) FROM lines WHERE sent > date \'2100-01-01\'',
	'SELECT mode, sum(price) FROM lines WHERE price < 0 GROUP BY mode',
	'SELECT a, sum(b) FROM nothing GROUP BY a',
	'SELECT count(*), sum(quantity) FROM lines l JOIN orders o ON o.id = l.order_id',
	'SELECT o.priority, count(*), sum(l.price * (1 - l.discount)), sum(l.quantity + o.customer) FROM lines l JOIN orders o ON o.id = l.order_id
		WHERE o.day < date \'1996-06-01\' AND l.sent > o.id + date \'1990-01-01\' GROUP BY o.priority ORDER BY 1',
	'SELECT o.priority, l.mode, count(o.note), min(o.total) FROM lines l LEFT JOIN orders o ON o.id = l.order_id AND o.priority = \'P3\' GROUP BY 1, 2 ORDER BY 1, 2',
	'SELECT c.name, c.region, sum(l.price) FROM lines l JOIN orders o ON o.id = l.order_id JOIN customers c ON c.id = o.customer WHERE c.region > 2 GROUP BY 1, 2 ORDER BY 1, 2',
	'SELECT priority, count(*), sum(total) FROM orders o WHERE EXISTS (SELECT FROM lines l WHERE l.order_id = o.id AND l.quantity > 45) GROUP BY 1 ORDER BY 1',
	'SELECT priority, count(*), sum(total) FROM orders o WHERE NOT EXISTS (SELECT FROM lines l WHERE l.order_id = o.id AND l.quantity > 30) GROUP BY 1 ORDER BY 1',
	'SELECT mode, sum(quantity) AS s FROM lines GROUP BY mode HAVING sum(quantity) > 400000 ORDER BY s LIMIT 2',
	'SELECT DISTINCT mode, discount FROM lines ORDER BY 1, 2',
	# strings without codes are tested one by one
	'SELECT priority, count(*) FROM orders WHERE word LIKE \'%a1%\' OR word IN (\'c4ca4238a0b923820dcc509a6f75849b\', \'none\') GROUP BY 1 ORDER BY 1',
	'SELECT count(*), sum(l.quantity) FROM lines l JOIN orders o ON o.id = l.order_id WHERE o.word NOT LIKE \'%b%\'',
	'SELECT priority, count(*) FROM orders WHERE word LIKE \'c%4%2\' OR word LIKE \'%77%77%\' OR word LIKE \'ab%\' GROUP BY 1 ORDER BY 1',
	'SELECT count(*), sum(total) FROM orders WHERE code IN (\'o5\', \'o77  \', \'o39999\', NULL) OR code LIKE \'%123%\' OR word LIKE \'%f\' AND code <> \'o11\'',
	'SELECT priority, count(*) FROM orders WHERE code NOT IN (\'o5\', \'o77\') AND word <> \'x\' AND substr(word, 2, 2) = \'ab\' GROUP BY 1 ORDER BY 1',
	'SELECT count(*), sum(id) FROM long_texts WHERE text LIKE \'%c4ca%\' OR text LIKE \'%8%f\'',
	# keys that are computed, some of columns that differ within a group
	'SELECT extract(year FROM day), count(*), sum(total) FROM orders GROUP BY 1 ORDER BY 1',
	'SELECT customer + id, count(*), min(day) FROM orders WHERE customer < 3 GROUP BY 1 ORDER BY 1',
	'SELECT date_trunc(\'month\', l.happened), l.mode, sum(l.price) FROM lines l JOIN orders o ON o.id = l.order_id WHERE o.customer < 90 GROUP BY 1, 2 ORDER BY 1, 2',
	'SELECT CASE WHEN quantity > 25 THEN 1 WHEN quantity > 10 THEN 0 END, sum(price) FROM lines GROUP BY 1 ORDER BY 1',
	# CASE and COALESCE: conditions on both sides, numerics of several scales, NULLs
	'SELECT sum(CASE WHEN o.priority = \'P1\' OR o.priority = \'P4\' THEN 1 ELSE 0 END), sum(CASE WHEN l.mode LIKE \'m%\' THEN 1 ELSE 0 END) FROM lines l JOIN orders o ON o.id = l.order_id',
	'SELECT mode, sum(CASE WHEN quantity < 0 THEN price * (1 - discount) ELSE 0 END), avg(CASE WHEN mode = \'AIR\' AND quantity > 40 THEN price WHEN quantity IS NULL THEN discount * price END) FROM lines GROUP BY 1 ORDER BY 1',
	'SELECT line, sum(CASE WHEN mode = \'SHIP\' THEN price ELSE 1.5000 END), count(CASE WHEN yes THEN quantity END), sum(COALESCE(quantity, line, 7)), max(CASE WHEN yes THEN part ELSE line END) FROM lines GROUP BY 1 ORDER BY 1',
	'SELECT o.priority, sum(CASE WHEN o.note = \'note 3\' THEN l.price WHEN o.note IS NULL THEN NULL ELSE 0.0 END) FROM lines l JOIN orders o ON o.id = l.order_id GROUP BY 1 ORDER BY 1',
	'SELECT sum(COALESCE(total, 0)), sum(CASE WHEN customer IS NULL THEN 0 END) FROM orders',
	# conditions of a join beside its keys
	'SELECT c.name, count(*) FROM orders o JOIN customers c ON c.id = o.customer AND (c.name = \'name 3\' AND o.priority = \'P3\' OR c.name LIKE \'%7\' AND o.note IS NULL) GROUP BY 1 ORDER BY 1',
	'SELECT count(*), sum(l.price) FROM lines l JOIN orders o ON o.id = l.order_id AND l.price < o.total AND l.sent >= o.day',
	# joins whose table is made of the larger side
	'SELECT l.mode, count(*) FROM orders o JOIN lines l ON l.order_id = o.id WHERE l.part = 77 AND o.total > 20 GROUP BY 1 ORDER BY 1',
	'SELECT sum(o.total) FROM orders o JOIN orders p ON p.customer = o.id WHERE p.total < 3',
	'SELECT c.region, count(*), sum(o.total) FROM customers c JOIN orders o ON o.customer = c.id JOIN lines l ON l.order_id = o.id WHERE l.quantity = 49 GROUP BY 1 ORDER BY 1',
	# HAVING, and the first groups, on the device: ties, NULLs at either end, both directions
	'SELECT order_id, sum(quantity) AS s, count(*) FROM lines GROUP BY 1 ORDER BY s DESC NULLS LAST, 1 LIMIT 10',
	'SELECT order_id, sum(quantity) AS s FROM lines GROUP BY 1 ORDER BY s DESC, 1 LIMIT 40 OFFSET 2900',
	'SELECT part, max(price) AS m FROM lines WHERE quantity > 10 GROUP BY 1 ORDER BY m, 1 LIMIT 5',
	'SELECT order_id, min(discount * price) FROM lines GROUP BY 1 ORDER BY 2 NULLS FIRST, 1 LIMIT 9',
	'SELECT customer, sum(total) FROM orders GROUP BY 1 ORDER BY 1 DESC LIMIT 3',
	'SELECT customer, count(*) FROM orders GROUP BY 1 ORDER BY 1 DESC NULLS LAST LIMIT 3',
	'SELECT order_id, count(*) FROM lines GROUP BY 1 HAVING sum(price) > 2600.5 AND count(*) = 3 ORDER BY 1',
	'SELECT order_id, sum(price) FROM lines GROUP BY 1 HAVING sum(price) BETWEEN 2000 AND 2500 AND max(quantity) < 40 ORDER BY 2 DESC, 1 LIMIT 12',
	'SELECT order_id, sum(price) FROM lines GROUP BY 1 HAVING avg(price) > 800 ORDER BY 2, 1 LIMIT 12',
	'SELECT part, count(*) FROM lines GROUP BY 1 HAVING sum(price) > (SELECT avg(total) * 250 FROM orders) ORDER BY 1',
	'SELECT order_id, count(*) FROM lines GROUP BY 1 HAVING min(sent) = date \'1996-02-03\' OR max(quantity) IS NULL ORDER BY 1',
	'SELECT count(*) FROM (SELECT part, count(*) FROM lines GROUP BY 1 ORDER BY 2 DESC FETCH FIRST 3 ROWS WITH TIES) x',
	'SELECT sum(quantity) FROM lines HAVING count(*) < 5',
	# semi and anti joins with a comparison beside their keys, NULLs on both sides
	(map { my ($not, $op) = @$_; "SELECT priority, count(*), sum(total) FROM orders o WHERE $not EXISTS (SELECT FROM lines l WHERE l.order_id = o.id AND l.quantity $op o.customer) GROUP BY 1 ORDER BY 1" }
		[ '', '<>' ], [ 'NOT', '<>' ], [ '', '<' ], [ 'NOT', '<=' ], [ '', '>=' ], [ 'NOT', '>' ]),
	'SELECT priority, count(*) FROM orders o WHERE NOT EXISTS (SELECT FROM lines l WHERE l.order_id = o.id AND o.customer < l.part AND l.yes) GROUP BY 1 ORDER BY 1',
	'SELECT a.mode, count(*) FROM lines a WHERE EXISTS (SELECT FROM lines b WHERE b.order_id = a.order_id AND b.part <> a.part) '
	  . 'AND NOT EXISTS (SELECT FROM lines c WHERE c.order_id = a.order_id AND c.part > a.part AND c.quantity > 20) GROUP BY 1 ORDER BY 1',
	# distinct values
	'SELECT count(DISTINCT customer) FROM orders',
	'SELECT mode, count(DISTINCT part), sum(DISTINCT part), count(*), max(quantity), sum(line) FROM lines GROUP BY 1 ORDER BY 1',
	'SELECT o.priority, count(DISTINCT l.mode), count(l.quantity), sum(l.part) FROM lines l JOIN orders o ON o.id = l.order_id GROUP BY 1 ORDER BY 2, 1 LIMIT 3',
	'SELECT line, yes, count(DISTINCT order_id) FILTER (WHERE quantity > 20) FROM lines GROUP BY 1, 2 HAVING count(DISTINCT order_id) > 10 ORDER BY 1, 2',
	# groups of subqueries
	'SELECT o.priority, count(*), sum(o.total) FROM orders o WHERE o.id IN (SELECT order_id FROM lines GROUP BY order_id HAVING sum(quantity) > 100) GROUP BY 1 ORDER BY 1',
	'SELECT o.priority, count(*) FROM orders o WHERE NOT EXISTS (SELECT FROM (SELECT order_id, max(price) AS m FROM lines GROUP BY order_id HAVING count(quantity) = 3) x WHERE x.order_id = o.id) GROUP BY 1 ORDER BY 1',
	'SELECT o.customer, sum(x.s), min(x.n), max(x.least) FROM (SELECT order_id, sum(price * discount) AS s, count(*) AS n, min(quantity) AS least FROM lines WHERE yes GROUP BY 1) x JOIN orders o ON o.id = x.order_id GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 11',
	'SELECT x.n, count(*), sum(x.s) FROM (SELECT part, count(*) AS n, sum(quantity) AS s FROM lines GROUP BY 1) x JOIN customers c ON c.id = x.part GROUP BY 1 ORDER BY 1',
	'SELECT o.id, o.word, sum(l.quantity) FROM orders o JOIN lines l ON l.order_id = o.id WHERE o.id IN (SELECT order_id FROM lines GROUP BY 1 HAVING sum(quantity) > 141 AND min(mode) IS NOT NULL) GROUP BY o.id ORDER BY 3 DESC, 1 LIMIT 5',
	'SELECT o.id, o.word, sum(l.quantity) FROM orders o JOIN lines l ON l.order_id = o.id WHERE o.id IN (SELECT order_id FROM lines GROUP BY 1 HAVING sum(quantity) > 141) GROUP BY o.id ORDER BY o.total DESC, 1 LIMIT 5',
	'SELECT x.n, count(*) FROM (SELECT order_id, count(*) AS n FROM lines GROUP BY 1) x GROUP BY 1 ORDER BY 1',
	# strings that are fetched from their rows
	'SELECT o.id, o.word, o.note, sum(l.price) AS s FROM lines l JOIN orders o ON o.id = l.order_id GROUP BY o.id ORDER BY s DESC, 1 LIMIT 20',
	'SELECT o.word, count(*), min(l.quantity) FROM lines l LEFT JOIN orders o ON o.id = l.order_id AND o.total > 99 GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 30',
	'SELECT o.word, p.word, count(*) FROM lines l JOIN orders o ON o.id = l.order_id JOIN orders p ON p.id = o.customer WHERE l.quantity = 3 GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 30',
	'SELECT c.id, c.text, count(*) FROM lines l JOIN orders o ON o.id = l.order_id JOIN long_texts c ON c.id = o.customer GROUP BY c.id ORDER BY 3 DESC, 1 LIMIT 8');
# outer joins whose preserved side has several partners for a row, or none
my $of_customers = 'FROM customers c LEFT JOIN orders o ON o.customer = c.id';
my @outer = (
	"SELECT c.id, count(o.id), sum(o.total), min(o.day), max(o.total), avg(o.total) $of_customers GROUP BY 1 ORDER BY 1",
	"SELECT c.id, count(o.id) $of_customers AND o.word LIKE '%ab%' AND o.total > 30 GROUP BY 1 ORDER BY 2, 1 LIMIT 40",
	"SELECT c.id, c.name, sum(o.total) $of_customers AND o.day > date '1997-05-01' GROUP BY 1 HAVING sum(o.total) > 100 OR count(o.total) = 0 ORDER BY 3 DESC NULLS FIRST, 1",
	"SELECT c.name, count(o.note), sum(o.id * 2 - c.region) $of_customers AND o.total < 7 WHERE c.region IN (1, 2, 5) GROUP BY 1 ORDER BY 1",
	"SELECT c.region, c.name, avg(o.total * (1 - o.total)) $of_customers AND o.priority = 'P9' GROUP BY 1, 2 ORDER BY 1, 2",
	"SELECT c.region, count(o.id) FILTER (WHERE o.total > 50), sum(o.total) FROM orders o RIGHT JOIN customers c ON c.id = o.customer AND o.day < date '1995-03-01' GROUP BY 1 ORDER BY 1",
	"SELECT n, count(*) FROM (SELECT c.id, count(o.id) AS n $of_customers AND o.id % 2 IS NOT NULL AND o.id > 20000 GROUP BY 1) x GROUP BY 1 ORDER BY 1",
	"SELECT n, count(*) FROM (SELECT c.id, count(o.id) AS n $of_customers AND o.id > 20000 GROUP BY 1) x GROUP BY 1 ORDER BY 1",
	"SELECT p.text, c.id, count(o.id) FROM customers c JOIN long_texts p ON p.id = c.id LEFT JOIN orders o ON o.customer = c.id AND o.total > 99 GROUP BY p.id, c.id ORDER BY 3 DESC, 2 LIMIT 9",
	"SELECT c.region, count(l.line), sum(l.price) FROM customers c LEFT JOIN (orders o JOIN lines l ON l.order_id = o.id AND l.quantity = 7) ON o.customer = c.id GROUP BY 1 ORDER BY 1",
	"SELECT o.id, o.word, count(l.line), max(l.sent) FROM orders o LEFT JOIN lines l ON l.order_id = o.id AND l.quantity > 48 WHERE o.total < 2 GROUP BY o.id ORDER BY 3 DESC, 1 LIMIT 30",
	"SELECT o.priority, sum(l.price), count(l.mode) FROM orders o JOIN customers c ON c.id = o.customer LEFT JOIN lines l ON l.order_id = o.id WHERE c.region = 3 GROUP BY 1 ORDER BY 1",
	"SELECT c.id, sum(x.s), count(x.n) FROM customers c LEFT JOIN (SELECT customer, part, sum(price) AS s, count(*) AS n FROM orders JOIN lines ON order_id = id GROUP BY 1, 2) x ON x.customer = c.id GROUP BY 1 ORDER BY 1",
	"SELECT c.region, count(o.id) $of_customers WHERE EXISTS (SELECT FROM long_texts t WHERE t.id = c.id AND t.text IS NULL) GROUP BY 1 ORDER BY 1");
my @outer_programs = (1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1);
# columns of a side that rows have no partner on: core makes an anti join of these
my $no_order = 'lines l LEFT JOIN orders o ON o.id = l.order_id AND o.note IS NOT NULL';
my @lonely = (
	"SELECT l.yes, l.mode, count(*), sum(l.price), count(o.total) FROM $no_order WHERE l.part <> 3 AND l.yes AND o.note IS NULL GROUP BY 1, 2 ORDER BY 1, 2",
	"SELECT l.mode, o.priority, count(*), max(o.total), min(o.day), sum(o.customer + l.part) FROM $no_order WHERE l.quantity IN (3, 4, 5) AND o.note IS NULL GROUP BY 1, 2 ORDER BY 1, 2",
	"SELECT o.word, l.yes, count(o.word), sum(CASE WHEN o.total > 5 THEN 1 WHEN l.yes THEN 2 ELSE 3 END) FROM $no_order WHERE l.price > 20 AND o.note IS NULL GROUP BY 1, 2 ORDER BY 1, 2",
	'SELECT o.priority, count(*), count(l.part), max(l.quantity), min(l.mode) FROM orders o LEFT JOIN lines l ON l.order_id = o.id AND l.part > o.customer WHERE l.order_id IS NULL AND o.total > 3 GROUP BY 1 ORDER BY 1',
	"SELECT x.n, count(*), count(x.t) FROM (SELECT l.part, count(*) AS n, max(o.total) AS t FROM $no_order WHERE l.yes AND o.note IS NULL GROUP BY 1) x GROUP BY 1 ORDER BY 1");
# their rows without partners would have to be told from those with some
my @no_outer = (
	"SELECT c.id, count(*) $of_customers GROUP BY 1 ORDER BY 1",
	"SELECT c.id, count(o.id), sum(c.region) $of_customers GROUP BY 1 ORDER BY 1",
	"SELECT c.id, sum(COALESCE(o.total, 1)) $of_customers GROUP BY 1 ORDER BY 1",
	"SELECT c.id, sum(CASE WHEN o.total IS NULL THEN 1 ELSE 0 END) $of_customers GROUP BY 1 ORDER BY 1",
	"SELECT c.region, o.priority, count(o.id) $of_customers GROUP BY 1, 2 ORDER BY 1, 2",
	"SELECT c.region, count(DISTINCT o.priority) $of_customers GROUP BY 1 ORDER BY 1",
	"SELECT count(o.id), sum(o.total) $of_customers",
	"SELECT c.id, count(o.id), count(p.id) $of_customers LEFT JOIN orders p ON p.customer = c.id AND p.total > 90 GROUP BY 1 ORDER BY 1",
	"SELECT c.region, count(o.id) $of_customers LEFT JOIN long_texts t ON t.id = o.id GROUP BY 1, t.id ORDER BY 1, 2",
	"SELECT c.region, count(o.id) $of_customers AND o.total > c.region * 10 GROUP BY 1 ORDER BY 1",
	"SELECT l.mode, count(*) FROM lines l JOIN (customers c LEFT JOIN orders o ON o.customer = c.id) ON l.order_id = o.id GROUP BY 1 ORDER BY 1");
push @queries, @outer, @no_outer;
my @programs = (1) x @queries;
splice @programs, @queries - @no_outer - @outer, @outer + @no_outer, @outer_programs, (0) x (@no_outer - 1), 1;
my ($first) = grep { $queries[$_] =~ /ORDER BY s DESC NULLS LAST/ } 0 .. $#queries;
my ($matched) = grep { $queries[$_] =~ /o39999/ } 0 .. $#queries;
my ($fetched) = grep { $queries[$_] =~ /o\.note, sum/ } 0 .. $#queries;
$programs[11] = 0;				# no block is kept
$programs[13] = 0;				# a condition of the join
my ($filtered) = grep { $queries[$_] =~ /FILTER/ } 0 .. $#queries;
$programs[$filtered] = 0;		# a distinct value that is computed
my ($of_strings) = grep { $queries[$_] =~ /min\(mode\)/ } 0 .. $#queries;
$programs[$of_strings] = 0;		# the least string
my ($scalar) = grep { $queries[$_] =~ /avg\(total\) \* 250/ } 0 .. $#queries;
$programs[$scalar] = 2;			# and one of the subquery
is_cores($node, $queries[$_], $programs[$_], "query $_") for 0 .. $#queries;
is_cores($node, $_, 1, "variances: $_") for
	'SELECT mode, stddev(quantity), variance(line), var_pop(part), stddev_samp(price), var_samp(discount), count(*) FROM lines GROUP BY mode ORDER BY 1',
	'SELECT o.priority, stddev(l.price), sum(l.price), variance(o.id - l.quantity), var_pop(l.part) FILTER (WHERE l.yes) FROM lines l JOIN orders o ON o.id = l.order_id GROUP BY 1 ORDER BY 1',
	'SELECT part, stddev(price), variance(quantity) FROM lines GROUP BY part HAVING stddev(price) > 250 ORDER BY 3 DESC NULLS LAST, 1 LIMIT 20',
	'SELECT stddev(quantity), variance(price), var_pop(part) FROM lines WHERE quantity = 13 AND line = 7',
	'SELECT x.d, count(*) FROM (SELECT part, stddev(quantity) AS d FROM lines GROUP BY part) x GROUP BY 1 ORDER BY 1';

# --- times that are rounded down, and operands that stay the same
$node->safe_psql('postgres', q{
	CREATE TABLE visits (at timestamptz, local timestamp, kind int, amount numeric(8,2), word text);
	INSERT INTO visits SELECT t, CASE WHEN g % 7 > 0 THEN t AT TIME ZONE 'Europe/Berlin' END, g % 5, g % 1000 / 10.0, 'w' || g % 30
		FROM (SELECT g, timestamptz '2009-01-01 00:00+00' + g * interval '89 minutes 7.25 seconds' AS t FROM generate_series(1, 40000) g) s;
	CREATE TABLE old_visits (at timestamptz, kind int);
	INSERT INTO old_visits SELECT timestamptz '1880-01-01 00:00+00' + g * interval '31 hours 13 minutes 11 seconds', g % 3 FROM generate_series(1, 20000) g;
	CREATE TABLE endless (at timestamptz, kind int);
	INSERT INTO endless SELECT CASE g % 100 WHEN 0 THEN 'infinity' WHEN 1 THEN NULL ELSE timestamptz '2020-01-01 00:00+00' + g * interval '1 hour' END, g % 3 FROM generate_series(1, 9000) g;
	VACUUM ANALYZE visits, old_visits, endless;
	SELECT hjoin_gpu_keep('visits'), hjoin_gpu_keep('old_visits'), hjoin_gpu_keep('endless')});
my @of_time = ('date_trunc(\'month\', at)', 'date_trunc(\'day\', at)', 'date_trunc(\'week\', at)::date', 'at::date', 'extract(year FROM at)', 'date_part(\'isodow\', at), extract(hour FROM at)', 'to_char(at, \'YYYY-MM\')', 'to_char(at, \'IYYY IW\')',
	'date_trunc(\'year\', local)', 'date_trunc(\'day\', local), kind', 'local::date', 'to_char(local, \'MON HH24\')', 'date_trunc(\'quarter\', at AT TIME ZONE \'America/New_York\')', 'date_trunc(\'day\', at, \'Australia/Lord_Howe\')',
	'extract(doy FROM at AT TIME ZONE \'UTC\'), date_trunc(\'month\', at)', 'date_trunc(\'century\', at) - interval \'1 day\'', 'upper(word), date_trunc(\'month\', at)', 'CASE WHEN amount < 10 THEN \'small\' WHEN amount < 50 THEN \'middle\' ELSE \'large\' END');
foreach my $zone ('UTC', 'Europe/Berlin', 'Asia/Kolkata', 'America/St_Johns', 'Pacific/Apia', 'Australia/Lord_Howe', 'America/Sao_Paulo', '<+03:17>-3:17')
{
	foreach my $keys (@of_time)
	{
		my $by = $keys =~ /^(date_part|extract\(doy|date_trunc\('day', local\)|upper)/ ? '1, 2' : '1';
		is_cores($node, "SELECT $keys, count(*), sum(amount), min(at), max(local) FROM visits WHERE kind < 4 GROUP BY $by ORDER BY $by", 1, "$zone: $keys", "SET timezone = '$zone'; ");
	}
	is_cores($node, "SELECT $_, count(*) FROM old_visits GROUP BY 1 ORDER BY 1", -1, "$zone, a century: $_", "SET timezone = '$zone'; ") for @of_time[ 0, 3, 4, 6 ];
}
# distinct values by such keys; keys of one column that are a class together; their order and HAVING; few rows of one day
is_cores($node, $_->[0], $_->[1], "classes: $_->[0]", 'SET timezone = \'UTC\'; ') for
	[ 'SELECT date_trunc(\'month\', at) AS m, count(DISTINCT kind), sum(amount) FROM visits GROUP BY 1 ORDER BY 1', 1 ], [ 'SELECT at::date, word, count(DISTINCT kind) FROM visits GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 30', 1 ],
	[ 'SELECT to_char(at, \'YYYY-MM\'), extract(dow FROM at), count(DISTINCT word), min(at), max(amount) FROM visits GROUP BY 1, 2 ORDER BY 1, 2', 1 ], [ 'SELECT kind, count(DISTINCT at::date) FROM visits GROUP BY 1 ORDER BY 1', -1 ],
	[ 'SELECT extract(year FROM at), count(DISTINCT date_trunc(\'month\', at)) FROM visits GROUP BY 1 ORDER BY 1', -1 ], [ 'SELECT date_trunc(\'month\', local), min(DISTINCT local::date), count(*) FROM visits GROUP BY 1 ORDER BY 1', -1 ],
	[ 'SELECT date_trunc(\'week\', at) AS w, sum(amount) FROM visits GROUP BY 1 HAVING sum(amount) > 5600 ORDER BY 2 DESC, 1 LIMIT 7', 1 ], [ 'SELECT date_trunc(\'month\', at) AS m, count(*) FROM visits WHERE at < \'2009-01-02\' GROUP BY 1 HAVING date_trunc(\'month\', at) < \'2009-02-01\' ORDER BY 1 DESC LIMIT 3', -1 ],
	[ 'SELECT x.m, count(*), sum(x.s) FROM (SELECT date_trunc(\'month\', at) AS m, kind, sum(amount) AS s FROM visits GROUP BY 1, 2) x GROUP BY 1 ORDER BY 1', -1 ], [ 'SELECT date_trunc(\'day\', at), 10 / (extract(hour FROM date_trunc(\'day\', at)) + 1), count(*) FROM visits GROUP BY 1, 2 ORDER BY 1', -1 ],
	[ 'SELECT 10 / (extract(hour FROM at) - 30), count(DISTINCT kind) FROM visits GROUP BY 1 ORDER BY 1', -1 ];
# by days of a left side whose rows have several partners, and come from two pipelines
$node->safe_psql('postgres', q{
	CREATE TABLE shoppers (id int PRIMARY KEY, since timestamptz NOT NULL);
	INSERT INTO shoppers SELECT g, timestamptz '2012-02-01 00:00+00' + g * interval '5 hours 7 minutes' FROM generate_series(1, 6000) g;
	CREATE TABLE baskets (shopper int, price int, filled timestamptz);
	INSERT INTO baskets SELECT 1 + g * 7 % 4001, g % 50, timestamptz '1999-12-31 23:59:58.5+00' + g * interval '1 minute' FROM generate_series(1, 30000) g;
	VACUUM ANALYZE shoppers, baskets;
	SELECT hjoin_gpu_keep('shoppers'), hjoin_gpu_keep('baskets')});
foreach my $zone ('UTC', 'Europe/Berlin')
{
	is_cores($node, "SELECT $_, count(b.price), sum(b.price) FROM shoppers s LEFT JOIN baskets b ON b.shopper = s.id GROUP BY 1 ORDER BY 1", 1, "$zone, a left side: $_", "SET timezone = '$zone'; ") for 'date_trunc(\'month\', since)', 'since::date';
	is_cores($node, "SELECT $_, count(*), sum(price) FROM baskets GROUP BY 1 ORDER BY 1", 1, "$zone, from before 2000: $_", "SET timezone = '$zone'; ") for 'date_trunc(\'minute\', filled)', 'to_char(filled, \'YYYY\')', 'filled::date';
}
# read as they are, too; by seconds; in formats that are not known; infinite ones; of which some change
is_cores($node, $_, -1, "not rounded: $_") for 'SELECT at, date_trunc(\'month\', at), count(*) FROM visits GROUP BY 1, 2 ORDER BY 1, 2', 'SELECT extract(epoch FROM at), count(*) FROM visits GROUP BY 1 ORDER BY 1', 'SELECT to_char(at, \'YYYY SS\'), count(*) FROM visits GROUP BY 1 ORDER BY 1',
	'SELECT to_char(at, \'YYYY "th"\'), count(*) FROM visits GROUP BY 1 ORDER BY 1', 'SELECT date_trunc(\'month\', at), count(*) FROM endless GROUP BY 1 ORDER BY 1', 'SELECT at::date, count(*) FROM endless WHERE at < \'infinity\' GROUP BY 1 ORDER BY 1', 'SELECT date_trunc(\'day\', at AT TIME ZONE \'CET\'), count(*) FROM visits GROUP BY 1 ORDER BY 1',
	'SELECT amount * 1.0, count(*) FROM visits GROUP BY 1 ORDER BY 1', 'SELECT date_trunc(\'month\', at), count(DISTINCT kind), sum(amount) FROM visits GROUP BY 1 ORDER BY 1', 'SELECT date_trunc(\'month\', at) AS m, kind, sum(amount) FROM visits GROUP BY 1, 2 HAVING sum(amount) > 3000 ORDER BY 3 DESC, 1, 2 LIMIT 9';
is_cores($node, $_, 1, $_) for 'SELECT kind, count(*) FROM visits WHERE at < now() - interval \'7 days\' AND at >= current_date - 9000 AND local < localtimestamp GROUP BY 1 ORDER BY 1', 'SELECT count(*) FROM visits WHERE at >= date \'2010-05-05\' AND at < timestamp \'2013-05-05\' AND local > date \'2009-09-09\'',
	'SELECT sum(amount) FILTER (WHERE at > now() - interval \'14 years\') FROM visits';
is_cores($node, 'SELECT count(*) FROM visits WHERE kind NOT IN (SELECT kind FROM endless WHERE kind IS NOT NULL) AND kind IS NOT NULL', 1, 'NOT IN of values that are not NULL');
$node->safe_psql('postgres', q{UPDATE visits SET at = at + interval '3 days', amount = amount + 1 WHERE kind = 2 AND at < '2009-01-20'; DELETE FROM visits WHERE kind = 1 AND at BETWEEN '2012-01-01' AND '2012-01-09'});
is_cores($node, "SELECT $_, count(*), sum(amount) FROM visits GROUP BY 1 ORDER BY 1", 1, "with changes: $_", 'SET timezone = \'Europe/Berlin\'; ') for @of_time[ 0, 1, 6 ];

# --- floats: sums that are the same in any order, and what core alone may add up
$node->safe_psql('postgres', q{
	CREATE TABLE gauges (id int, place int, value float8, narrow float4, odd float8, odd_narrow float4, huge float8, zero float8, skew int);
	INSERT INTO gauges SELECT g, g % 9, CASE WHEN g % 23 > 0 THEN (g % 1009 - 500) / 8.0 END, CASE WHEN g % 19 > 0 THEN (g % 503 - 111) / 4.0 END,
		(ARRAY['NaN', 'Infinity', '-Infinity', '4.9e-324', '-1e-300', '1e100'])[CASE WHEN g % 7 = 0 THEN g % 11 ELSE 4 END]::float8,
		(ARRAY['NaN', '-Infinity', '1e-45', '-3e38', '3.25'])[CASE WHEN g % 7 = 0 THEN g % 8 ELSE 5 END]::float4,
		CASE g % 9 WHEN 1 THEN 1e308 WHEN 2 THEN sign(g % 2 - 0.5) * 1e200 WHEN 3 THEN 1e135 WHEN 4 THEN '-Infinity' WHEN 5 THEN 'NaN' ELSE 2 END, -0.0::float8,
		CASE WHEN g % 3 > 0 THEN 5 WHEN g % 2 > 0 THEN g END
		FROM generate_series(1, 30000) g;
	VACUUM ANALYZE gauges;
	SELECT hjoin_gpu_keep('gauges')});
my $float_list = 'count(*), sum(value), avg(value), min(value), max(value), count(value), avg(narrow), min(narrow), max(narrow)';
my $floats = 'SET hjoin_gpu.float_sums = on; SET extra_float_digits = 3; ';
is_cores($node, $_->[0], $_->[1], "floats: $_->[0]", $floats) for
	[ "SELECT $float_list FROM gauges", 1 ], [ "SELECT place, $float_list FROM gauges GROUP BY 1 ORDER BY 1", 1 ], [ "SELECT id / 3, $float_list FROM gauges GROUP BY 1 ORDER BY 1", -1 ],
	# groups that many rows of all threads have
	[ "SELECT skew, $float_list, min(id), max(place) FROM gauges GROUP BY 1 ORDER BY 1", 1 ], [ "SELECT skew, place, $float_list, min(id) FROM gauges GROUP BY 1, 2 ORDER BY 1, 2", 1 ],
	[ "SELECT id, $float_list FROM gauges WHERE place > 2 GROUP BY 1 ORDER BY 1", 1 ], [ "SELECT $float_list FROM gauges WHERE id < 0", -1 ],
	[ 'SELECT place, sum(value) FILTER (WHERE id % 2 = 0), sum(CASE WHEN id > 777 THEN value ELSE 1.5 END), avg(COALESCE(narrow, 3)) FROM gauges GROUP BY 1 ORDER BY 1', -1 ],
	[ 'SELECT sum(CASE WHEN id > 777 THEN value ELSE 1.5 END), avg(COALESCE(narrow, 3)), max(CASE WHEN place = 4 THEN value END) FROM gauges', 1 ],
	[ 'SELECT min(odd), max(odd), min(odd_narrow), max(odd_narrow), max(huge), min(huge) FROM gauges', 1 ], [ 'SELECT place, min(odd), max(odd), min(odd_narrow), max(odd_narrow), max(huge) FROM gauges GROUP BY 1 ORDER BY 1', 1 ],
	[ 'SELECT sum(zero), min(zero), max(zero), avg(zero) FROM gauges', 1 ], [ 'SELECT place, sum(zero) FROM gauges GROUP BY 1 ORDER BY 1', 1 ],
	[ 'SELECT sum(odd), avg(odd) FROM gauges', 0 ], [ 'SELECT id / 100, sum(odd) FROM gauges WHERE id > 20 GROUP BY 1 ORDER BY 1', 0 ], [ 'SELECT place, avg(huge) FROM gauges WHERE place IN (3, 4, 5, 6) GROUP BY 1 ORDER BY 1', 0 ],
	[ 'SELECT place, sum(value), stddev(narrow), variance(value - 2) FROM gauges WHERE id < 300 GROUP BY 1 ORDER BY 1', 0 ], [ 'SELECT place, sum(narrow) FROM gauges GROUP BY 1 ORDER BY 1', 0 ], [ 'SELECT sum(value * 2) FROM gauges', 0 ],
	[ 'SELECT o.priority, sum(g.value), max(g.narrow) FROM gauges g JOIN orders o ON o.id = g.id WHERE o.customer < 90 GROUP BY 1 ORDER BY 1', 1 ],
	[ 'SELECT c.id, count(g.id), sum(g.value), avg(g.narrow) FROM customers c LEFT JOIN gauges g ON g.place = c.id GROUP BY 1 ORDER BY 1', 1 ],
	[ 'SELECT place, sum(value) AS s FROM gauges GROUP BY 1 HAVING sum(value) > -100 ORDER BY 2 DESC, 1 LIMIT 4', 1 ], [ 'SELECT count(*), sum(value) FROM gauges WHERE value > 3.5 AND odd <= 1', -1 ],
	# the first groups by a sum; 0 and -0 are equal
	(map { [ "SELECT id / 2, sum(value) FROM gauges GROUP BY 1 ORDER BY 2 $_, 1 LIMIT 7 OFFSET 2", 1 ] } 'DESC', 'DESC NULLS LAST', 'NULLS FIRST', ''),
	(map { [ "SELECT id, sum(CASE WHEN place < 5 THEN zero ELSE 0 END) FROM gauges GROUP BY 1 ORDER BY 2 $_, 1 LIMIT 6", 1 ] } 'DESC', ''),
	[ 'SELECT id / 100, sum(odd) FROM gauges WHERE id > 20 GROUP BY 1 ORDER BY 2, 1 LIMIT 3', 0 ],
	[ 'SELECT x.s, count(*) FROM (SELECT id / 5 AS k, sum(value) AS s FROM gauges GROUP BY 1) x GROUP BY 1 ORDER BY 1', -1 ], [ 'SELECT value, count(*), sum(narrow::float8) FROM gauges GROUP BY 1 ORDER BY 1', -1 ],
	[ 'SELECT o.priority, max(x.s) FROM (SELECT place AS k, sum(value) AS s FROM gauges GROUP BY 1) x JOIN orders o ON o.id = x.k GROUP BY 1 ORDER BY 1', -1 ];
is_cores($node, 'SELECT place, min(value), max(narrow) FROM gauges GROUP BY 1 ORDER BY 1', 0, 'an extreme of floats, whose order is core\'s');
foreach my $query ('SELECT sum(huge) FROM gauges WHERE place = 1', 'SELECT avg(huge) FROM gauges WHERE place = 2', 'SELECT place, avg(huge) FROM gauges WHERE place IN (1, 3) GROUP BY 1',
	'SELECT place, sum(huge) FROM gauges WHERE place IN (1, 3) GROUP BY 1 ORDER BY 2 LIMIT 1')
{
	my ($core_result, $core_rows, $core_error) = $node->psql('postgres', $core . $query);
	my ($result, $rows, $error) = $node->psql('postgres', $program . $floats . $query);
	like($core_error, qr/value out of range: overflow/, "core finds an overflow: $query");
	is($error, $core_error, "and so do we: $query");
}
$node->safe_psql('postgres', q{UPDATE gauges SET value = value + 0.25, narrow = NULL WHERE id % 1000 = 7; DELETE FROM gauges WHERE id BETWEEN 5000 AND 5100});
is_cores($node, "SELECT place, $float_list FROM gauges GROUP BY 1 ORDER BY 1", 1, 'floats, with changes', $floats);
$node->safe_psql('postgres', q{DROP TABLE gauges; CREATE TABLE scores AS SELECT g AS id, (g * 77 % 1009 - 500) / 8.0::float8 AS v FROM generate_series(1, 150000) g; VACUUM ANALYZE scores; SELECT hjoin_gpu_keep('scores')});
is_cores($node, "SELECT id, sum(v) FROM scores GROUP BY 1 ORDER BY 2 $_, 1 LIMIT 5", 1, "first groups of more than come back, by a sum of floats $_", $floats) for 'DESC', '';
$node->safe_psql('postgres', 'DROP TABLE scores');

# --- partitions
$node->safe_psql('postgres', q{
	CREATE TABLE parts (order_id int, day date, price numeric(10,2), mode text, quantity int, note text, code char(12)) PARTITION BY RANGE (day);
	CREATE TABLE parts_95 PARTITION OF parts FOR VALUES FROM ('1995-01-01') TO ('1996-01-01');
	CREATE TABLE parts_96 PARTITION OF parts FOR VALUES FROM ('1996-01-01') TO ('1997-01-01') PARTITION BY LIST (mode);
	CREATE TABLE parts_96_air PARTITION OF parts_96 FOR VALUES IN ('AIR', 'SHIP');
	CREATE TABLE parts_96_others PARTITION OF parts_96 DEFAULT;
	CREATE TABLE parts_others PARTITION OF parts DEFAULT;
	INSERT INTO parts SELECT g / 3, date '1995-01-01' + g % 730, g % 90000 / 100.0, CASE g % 7 WHEN 0 THEN 'AIR' WHEN 1 THEN 'SHIP' WHEN 2 THEN NULL ELSE 'mode ' || g % 7 END,
		CASE WHEN g % 13 <> 0 THEN g % 50 END, 'note ' || md5(g::text), 'c' || g % 40000 FROM generate_series(1, 90000) g;
	CREATE TABLE kinds (id int PRIMARY KEY, name text, size int) PARTITION BY RANGE (id);
	CREATE TABLE kinds_1 PARTITION OF kinds FOR VALUES FROM (0) TO (400);
	CREATE TABLE kinds_2 PARTITION OF kinds FOR VALUES FROM (400) TO (1000);
	INSERT INTO kinds SELECT g, 'kind ' || g % 30, g % 5 FROM generate_series(0, 999) g;
	CREATE TABLE parents (a int, b int);
	CREATE TABLE children (c int) INHERITS (parents);
	INSERT INTO parents SELECT g % 10, g FROM generate_series(1, 20000) g;
	INSERT INTO children SELECT g % 12, g, 0 FROM generate_series(1, 20000) g;
	VACUUM ANALYZE parts, kinds, parents, children;
	SELECT hjoin_gpu_keep('parts'), hjoin_gpu_keep('kinds', '{id,name,size}'), hjoin_gpu_keep('parents'), hjoin_gpu_keep('children')});
is($node->safe_psql('postgres', q{SELECT hjoin_gpu_keep('parts') = sum(pg_relation_size(relid) / 8192) FROM pg_partition_tree('parts')}), 't', 'all partitions are kept');
is($node->safe_psql('postgres', q{CREATE ROLE reader; GRANT SELECT ON parts TO reader; SET ROLE reader; SELECT hjoin_gpu_keep('parts') > 0}), 't', 'who may read the table may keep them');
isnt($node->psql('postgres', q{SET ROLE reader; SELECT hjoin_gpu_keep('parts_95')}), 0, 'but none of them alone');
my @of_parts = (
	'SELECT mode, count(*), sum(price), min(quantity), max(day) FROM parts GROUP BY 1 ORDER BY 1',
	'SELECT count(*), sum(quantity) FROM parts WHERE day > date \'1995-11-01\' AND quantity < 30 AND code <> \'c77\'',
	'SELECT extract(month FROM day), count(*), avg(price) FROM parts WHERE note LIKE \'%a1%b%\' GROUP BY 1 ORDER BY 1',
	'SELECT date_trunc(\'quarter\', day), mode, sum(price) FROM parts WHERE day < date \'1996-05-01\' GROUP BY 1, 2 ORDER BY 1, 2',
	'SELECT o.priority, count(*), sum(p.price * (1 + p.quantity)) FROM parts p JOIN orders o ON o.id = p.order_id WHERE o.day > p.day GROUP BY 1 ORDER BY 1',
	'SELECT o.id, p.note, count(*), sum(p.price) FROM parts p JOIN orders o ON o.id = p.order_id WHERE p.quantity = 7 GROUP BY 1, 2 ORDER BY 4 DESC, 1 LIMIT 20',
	'SELECT p.order_id, sum(p.price), count(*) FROM parts p GROUP BY 1 HAVING count(p.quantity) = 2 ORDER BY 2 DESC, 1 LIMIT 9',
	'SELECT o.priority, count(*) FROM orders o WHERE EXISTS (SELECT FROM parts p WHERE p.order_id = o.id AND p.quantity <> o.customer) GROUP BY 1 ORDER BY 1',
	'SELECT o.priority, count(*) FROM orders o WHERE NOT EXISTS (SELECT FROM parts p WHERE p.order_id = o.id AND p.day < o.day AND p.mode = \'AIR\') GROUP BY 1 ORDER BY 1',
	'SELECT o.id, o.word, count(p.price), sum(p.price) FROM orders o LEFT JOIN parts p ON p.order_id = o.id AND p.quantity > 45 GROUP BY o.id ORDER BY 3 DESC, 1 LIMIT 40',
	'SELECT c.region, count(p.mode) FROM customers c LEFT JOIN parts p ON p.order_id = c.id AND p.day > date \'1996-03-03\' GROUP BY 1 ORDER BY 1',
	'SELECT mode, count(DISTINCT order_id) FROM parts GROUP BY 1 ORDER BY 1',
	'SELECT a, count(*), sum(b) FROM parents GROUP BY 1 ORDER BY 1',
	'SELECT x.n, count(*) FROM (SELECT order_id, count(*) AS n FROM parts GROUP BY 1) x GROUP BY 1 ORDER BY 1',
	'PREPARE p(date) AS SELECT mode, count(*), sum(price) FROM parts WHERE day < $1 GROUP BY 1 ORDER BY 1; SET plan_cache_mode = force_generic_plan; EXECUTE p(\'1995-06-01\'); EXECUTE p(\'1999-01-01\')');
is_cores($node, $of_parts[$_], $_ == $#of_parts ? 2 : 1, "partitions, query $_") for 0 .. $#of_parts;
is_cores($node, 'SELECT k.size, count(*), sum(p.price) FROM parts p JOIN kinds k ON k.id = p.order_id GROUP BY 1 ORDER BY 1', -1, 'a table that is made of partitions');
is_cores($node, 'SELECT count(*) FROM parts WHERE day < date \'1994-01-01\'', -1, 'no partition has rows');
is_cores($node, "SELECT count(*) FROM kinds WHERE $_", 0, "no partition is read: $_") for 'id IS NULL', 'id > 5000';
is_cores($node, 'SELECT mode, count(*) FROM parts WHERE day < date \'1995-05-05\' GROUP BY 1 ORDER BY 1', 1, 'one partition');
# rows that are not kept, in a partition that was empty; a partition whose columns are elsewhere; one whose pages are not kept
$node->safe_psql('postgres', 'INSERT INTO parts SELECT g, date \'2000-01-01\', 1.5, \'new\', 3 FROM generate_series(1, 20) g');
is_cores($node, $of_parts[0], 0, 'a partition that is not kept');
$node->safe_psql('postgres', 'VACUUM ANALYZE parts; SELECT hjoin_gpu_keep(\'parts_others\')');
is_cores($node, $of_parts[$_], -1, "a partition of few rows, query $_") for 0, 1, 5;
$node->safe_psql('postgres', 'UPDATE parts SET price = price + 1 WHERE order_id = 77; DELETE FROM parts WHERE order_id = 78');
is_cores($node, $of_parts[$_], -1, "partitions with changes, query $_") for 0 .. $#of_parts;
$node->safe_psql('postgres', q{
	CREATE TABLE parts_97 (gone int, note text, order_id int, day date, price numeric(10,2), mode text, quantity int, code char(12));
	ALTER TABLE parts_97 DROP COLUMN gone;
	INSERT INTO parts_97 SELECT 'n' || g, g, date '1997-01-01' + g % 99, 2.5, 'mode 3', 7, 'c' FROM generate_series(1, 9000) g;
	ALTER TABLE parts ATTACH PARTITION parts_97 FOR VALUES FROM ('1997-01-01') TO ('1998-01-01');
	VACUUM ANALYZE parts; SELECT hjoin_gpu_keep('parts_97')});
is_cores($node, $of_parts[$_], 0, "a partition with columns at other places, query $_") for 0, 4, 5;
$node->safe_psql('postgres', 'DROP TABLE parts, kinds, parents, children');

# --- random ones
sub one_of { return $_[ rand @_ ] }
my %conditions = (
	lines => [ 'l.quantity > 20', 'l.quantity IS NOT NULL', 'l.price < 450.5', 'l.discount IN (0.01, 0.1)', 'l.mode = \'AIR\'', 'l.mode LIKE \'m%5\'', 'l.yes',
		'NOT l.yes', 'l.sent < date \'1996-03-03\'', '(l.line = 1 OR l.part < 999)', 'l.part <> 3', 'l.order_id > 1000' ],
	orders => [ 'o.customer < 333', 'o.day >= date \'1996-01-01\'', 'o.priority IN (\'P1\', \'P4\')', 'o.total > 50', 'o.note IS NULL' ]);
my @keys = ('l.mode', 'l.yes', 'l.quantity', 'l.discount', 'l.line', 'l.sent', 'o.priority', 'o.customer', 'o.note', 'o.total', 'extract(month FROM o.day)', 'l.line + 1',
	'extract(quarter FROM l.sent)');
my @values = ('l.quantity', 'l.price', 'l.price * l.discount', 'l.part - l.line', 'o.total', 'o.customer * 2', 'o.total + l.price', 'CASE WHEN l.yes THEN l.quantity ELSE l.line END',
	'CASE WHEN o.note = \'note 5\' THEN o.customer WHEN l.mode = \'AIR\' THEN l.part END', 'COALESCE(o.customer, l.line)');
my @residuals = ('l.quantity < o.customer', '(o.priority = \'P2\' OR l.mode = \'AIR\')', 'l.price <> o.total', 'o.note IS NOT NULL', '(l.yes OR o.customer > 50 AND o.priority <> \'P1\')');

foreach my $i (1 .. 60)
{
	my $joined = rand() < 0.6;
	my @where = map { one_of(@{ $conditions{lines} }) } 1 .. rand 3;
	push @where, one_of(@{ $conditions{orders} }) if $joined && rand() < 0.7;
	push @where, one_of('', 'NOT ') . 'EXISTS (SELECT FROM lines m WHERE m.order_id = l.order_id AND ' . one_of('m.quantity', 'l.quantity') . one_of(' < ', ' >= ', ' <> ')
	  . 'X AND m.discount <> 0.03)' if rand() < 0.3;
	$where[-1] =~ s/(m|l)\.quantity (\S+) X/"$1.quantity $2 " . ($1 eq 'm' ? 'l' : 'm') . '.' . one_of('quantity', 'line', 'part')/e if @where;
	my @by = grep { $joined || !/\bo\./ } map { one_of(@keys) } 1 .. rand 3;
	my @of = grep { $joined || !/\bo\./ } map { one_of(@values) } 1 .. 2;
	my $query = 'SELECT ' . join(', ', @by, 'count(*)', map { one_of("sum($_)", "avg($_)", "min($_)", "max($_)", "count($_)") } @of)
	  . ' FROM lines l' . ($joined ? ' ' . one_of('JOIN', 'LEFT JOIN') . ' orders o ON o.id = l.order_id' . (rand() < 0.4 ? ' AND ' . one_of(@residuals) : '') : '')
	  . (@where ? ' WHERE ' . join(' AND ', @where) : '');
	if (@by)
	{
		$query .= ' GROUP BY ' . join(', ', @by);
		$query .= ' HAVING ' . one_of('count(*) > 3', 'sum(l.quantity) < 900', 'max(l.price) >= 500.5', 'min(l.sent) < date \'1996-01-01\' AND count(*) < 99', 'avg(l.price) > 440')
		  if rand() < 0.4;
		$query .= ' ORDER BY ' . (rand() < 0.5 ? one_of(map { $_ + @by } 1 .. 1 + @of) . one_of('', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST') . ', ' : '')
		  . join(', ', 1 .. @by + 1) . (rand() < 0.5 ? ' LIMIT ' . one_of(1, 5, 100) . one_of('', ' OFFSET 3') : '');
	}
	is_cores($node, $query, -1, "random query $i ($query)");
}

is_cores($node, $lonely[$_], -1, "no partner, query $_") for 0 .. $#lonely;

# --- snapshots, and blocks that are not kept
sub compare_all
{
	my ($what, $wanted) = @_;
	is_cores($node, $queries[$_], $wanted, "$what, query $_") for 0, 3, 7, 15, $first, $fetched, $matched;
	return;
}
# blocks that changed since it began are not kept, however often they are read
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
my $other = $node->background_psql('postgres');
$other->query_safe('BEGIN; UPDATE lines SET quantity = quantity + 1, mode = \'changed\' WHERE order_id BETWEEN 100 AND 1500');
compare_all('a change that is not committed', 1);
$other->query_safe('COMMIT');
compare_all('a change', 1);
like($node->safe_psql('postgres', "$program EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $queries[3]"), qr/Programs: 1\n.*Blocks Read: [1-9]/s, 'changed blocks are read and sent along');
$holder->quit;
$node->safe_psql('postgres', 'DELETE FROM orders WHERE id % 1000 = 7; INSERT INTO lines SELECT 7, 1, 5, 1.50, 0.05, 3, \'new\', now(), now(), true FROM generate_series(1, 1000)');
compare_all('deleted and new rows', 1);
my $old = $node->background_psql('postgres');
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $seen = $old->query_safe("$core $queries[3]");
$node->safe_psql('postgres', 'UPDATE lines SET quantity = 0 WHERE order_id < 3000');
is($old->query_safe("RESET hjoin_gpu.enabled; $program $queries[3]"), $seen, 'an old snapshot sees its rows');
$old->quit;
$node->safe_psql('postgres', $_) foreach 'CREATE TABLE changing (k int, v int) WITH (fillfactor = 30)', 'INSERT INTO changing SELECT g % 7, g FROM generate_series(1, 20000) g',
  'VACUUM ANALYZE changing', q{SELECT hjoin_gpu_keep('changing')};
my $changing = 'SELECT k, sum(v) FROM changing GROUP BY k ORDER BY k';
my (undef, $shown, $said) = $node->psql('postgres', "$program SET plan_cache_mode = force_generic_plan; PREPARE q AS $changing; EXECUTE q; BEGIN; UPDATE changing SET v = v + 1 WHERE v % 3 = 0;
	EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE q; RESET hjoin_gpu.force; SET hjoin_gpu.explain_declined = on; EXPLAIN $changing; COMMIT");
like($shown, qr/Programs: 0\s+Fallback: too many blocks have to be read/, 'too many changed blocks after planning: EXPLAIN says so');
like($said, qr/Reason: too many blocks of a table have changed/, 'and it is not planned again');
is_cores($node, $changing, -1, 'too many changed blocks') for 1 .. 2;
is_cores($node, $changing, 1, 'until they are kept');
# what takes the place of a program that was planned, and cannot be run, is the best other plan: of several processes, in any order, read twice
my $unlucky = q{SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET plan_cache_mode = force_generic_plan; SET enable_material = off;
	CREATE TABLE unlucky (k int, v int, w numeric(10,2)) WITH (fillfactor = 30); INSERT INTO unlucky SELECT g %% 7, g, g / 4.0 FROM generate_series(1, 20000) g;
	VACUUM ANALYZE unlucky; SELECT hjoin_gpu_keep('unlucky'); SET hjoin_gpu.device = '} . $device . q{'; SET hjoin_gpu.force = on; PREPARE q AS %s;
	EXPLAIN (COSTS OFF) EXECUTE q; BEGIN; UPDATE unlucky SET v = v + 1 WHERE v %% 3 = 0; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE q; SELECT 'rows'; EXECUTE q; COMMIT};
foreach my $query ('SELECT k, sum(v), avg(w), count(*) FROM unlucky GROUP BY k ORDER BY k', 'SELECT sum(v + k), max(w), count(*) FROM unlucky',
	'SELECT sum(v) FROM unlucky HAVING count(*) < 3', 'SELECT k, count(DISTINCT v) FROM unlucky GROUP BY k HAVING sum(v) > 100 ORDER BY 2, 1 LIMIT 3', 'SELECT DISTINCT k FROM unlucky ORDER BY 1',
	'SELECT g, s.* FROM generate_series(1, 3) g LEFT JOIN (SELECT k, min(v), sum(w * k) FROM unlucky GROUP BY k) s ON s.k > g ORDER BY 1, 2',
	# rows that come from other processes as they are
	'SELECT s.v + 1, s.n FROM (SELECT v, count(*) AS n FROM unlucky GROUP BY v OFFSET 0) s ORDER BY 1, 2',
	'SELECT k, (SELECT sum(v) + g FROM unlucky HAVING count(*) > 0) FROM unlucky, generate_series(1, 2) g GROUP BY k, g ORDER BY 1, 2')
{
	foreach my $workers (0, 2)
	{
		my $shown = $node->safe_psql('postgres', "SET max_parallel_workers_per_gather = $workers; " . sprintf($unlucky, $query));
		like($shown, qr/Program Device: $device.*Programs: 0\s+Fallback: too many blocks have to be read/s, "a program that could not be run: $query") if $query !~ /generate_series\(1, 2/;
		like($shown, qr/Fallback: .*Workers Launched: 2/s, 'several processes take its place') if $workers > 0 && $query !~ /DISTINCT k FROM|generate_series\(1, 2/;
		is((split(/^rows\n?/m, $shown))[1] // '', $node->safe_psql('postgres', "$core $query"), "core's rows of another plan, $workers workers");
		$node->safe_psql('postgres', 'DROP TABLE unlucky');
	}
}
cmp_ok(stat_value($node, 'fallback_program_refused'), '>', 0, 'and a counter');
$node->safe_psql('postgres', q{VACUUM lines; VACUUM orders; SELECT hjoin_gpu_keep('lines'), hjoin_gpu_keep('orders')});
compare_all('vacuumed and kept anew', 1);
$node->safe_psql('postgres', 'ALTER TABLE lines ADD COLUMN extra int DEFAULT 5');
is_cores($node, 'SELECT extra, count(*) FROM lines GROUP BY extra', -1, 'an added column');

# --- what programs cannot do has its reason, or is not planned
is_cores($node, 'SELECT day + 1, count(*) FROM orders GROUP BY 1 ORDER BY 1 LIMIT 5', 1, 'a key that core computes of the groups');
is_cores($node, 'SELECT total / 3, count(*) FROM orders GROUP BY 1 ORDER BY 1 LIMIT 5', 0, 'a key whose equal values may differ');
is_cores($node, 'SELECT sum(length(mode)) FROM lines', 0, 'an argument that core computes');
is_cores($node, 'SELECT count(DISTINCT word) FROM orders', 0, 'DISTINCT strings that are many');
is_cores($node, 'SELECT sum(o.total) FROM orders o JOIN orders p ON p.customer = o.customer WHERE o.customer < 5', 0, 'several partners');
like(($node->psql('postgres', "SET hjoin_gpu.explain_declined = on; $program EXPLAIN SELECT sum(o.total) FROM orders o JOIN orders p ON p.customer = o.customer"))[2],
	qr/no program for the rows of \(o, p\)\s*DETAIL:  Reason: a row of a join has several partners on either side/, 'and a NOTICE says so');
# keys that are unique by no index: statistics let one expect it, and the program finds out
$node->safe_psql('postgres', $_) foreach 'CREATE TABLE loose (k int, v int, w int)', 'INSERT INTO loose SELECT CASE WHEN g % 10 <> 0 THEN g * 37 % 40000 END, g % 100, g FROM generate_series(1, 39999) g',
  'VACUUM ANALYZE loose', q{SELECT hjoin_gpu_keep('loose')};
my @loose = ('SELECT l.mode, count(*), sum(f.v + l.quantity) FROM lines l JOIN loose f ON f.k = l.order_id GROUP BY 1 ORDER BY 1',
	'SELECT f.v, count(*), sum(l.price) FROM lines l LEFT JOIN loose f ON f.k = l.order_id AND f.v < 50 GROUP BY 1 ORDER BY 1',
	'SELECT f.v, count(l.yes), sum(l.price) FROM loose f LEFT JOIN lines l ON f.k = l.order_id AND l.yes GROUP BY 1 ORDER BY 1',
	'SELECT o.priority, sum(f.w) FROM (lines l JOIN loose f ON f.k = l.order_id) JOIN orders o ON o.id = f.k GROUP BY 1 ORDER BY 1');
is_cores($node, $loose[$_], 1, "keys that are unique by no index, query $_") for 0 .. $#loose;
my $chosen = $program =~ s/SET hjoin_gpu.force = on; //r . 'SET hjoin_gpu.explain_declined = on; SET plan_cache_mode = force_generic_plan; ';
my $planner = $node->background_psql('postgres');
$planner->query_safe("$chosen SET hjoin_gpu.in_backend_rows = 0; PREPARE q AS $loose[0]");
like($planner->query_safe('EXPLAIN (VERBOSE, COSTS OFF) EXECUTE q'), qr/Program Device: $device/, 'a program is chosen');
$node->safe_psql('postgres', $_) foreach 'INSERT INTO loose SELECT k, v + 1, w FROM loose WHERE k IN (3333, 4444)', q{SELECT hjoin_gpu_keep('loose')};
is_cores($node, $loose[$_], 0, "keys that are not, query $_") for 0 .. $#loose;
is_cores($node, "SELECT o.priority, count(*), sum(f.w) FROM $_ GROUP BY 1 ORDER BY 1", 1, "but where the other side is known to be unique, $_")
  for 'loose f JOIN orders o ON o.id = f.k', 'orders o JOIN loose f ON o.id = f.k';
$planner->query_safe('SET hjoin_gpu.on_fallback = silent');
like($planner->query_safe('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE q'), qr/Programs: 0\s+Fallback: it could not be run within the last ten minutes/, 'a plan of before does not try');
$planner->quit;
like(($node->psql('postgres', "$chosen EXPLAIN $loose[0]"))[2], qr/Reason: it could not be run within the last ten minutes/, 'nor is it planned');
is_cores($node, 'SELECT min(CASE WHEN line = 1 THEN price ELSE 0 END) FROM lines', 0, 'the least of numerics of several scales');
like(($node->psql('postgres', "SET hjoin_gpu.explain_declined = on; SET hjoin_gpu.device = '$device'; EXPLAIN SELECT min(CASE WHEN line = 1 THEN price ELSE 0 END) FROM lines"))[2],
	qr/Reason: it could not be run within the last ten minutes/, 'is not planned again');
unlike(($node->psql('postgres', "SET hjoin_gpu.explain_declined = on; SET hjoin_gpu.device = '$device'; EXPLAIN SELECT min(CASE WHEN line = 2 THEN price ELSE 0 END) FROM lines"))[2],
	qr/could not be run/, 'another one is');
is_cores($node, 'SELECT count(*), sum(part) FROM lines TABLESAMPLE SYSTEM (0)', 0, 'a sample');
is_cores($node, 'SELECT count(*), sum(l.part) FROM lines l TABLESAMPLE BERNOULLI (0) JOIN orders o ON o.id = l.order_id', 0, 'a join of a sample');
is_cores($node, 'SELECT word, count(*) FROM orders GROUP BY 1 ORDER BY 1 LIMIT 3', 0, 'a key of strings without codes');
# strings that are told by their rows: whether one is NULL is known where its row is read
is_cores($node, $_, 0, $_) foreach 'SELECT count(word), count(*) FROM orders', 'SELECT o.customer % 2, sum(CASE WHEN o.word IS NULL THEN 1 ELSE 0 END) FROM orders o GROUP BY 1 ORDER BY 1',
  'SELECT text, count(*), count(text), sum(id) FROM long_texts GROUP BY text ORDER BY 2 DESC, 4';
is_cores($node, 'SELECT sum(l.part) FROM lines l JOIN orders o ON o.id = l.order_id AND (o.word IS NULL OR l.yes)', 0, 'a residual condition on such a string');
is_cores($node, 'SELECT text, count(*), sum(id) FROM long_texts GROUP BY text ORDER BY 2 DESC, 3', 1, 'a key of long texts');
$node->safe_psql('postgres', 'CREATE TABLE zeros (id int, v numeric)');
$node->safe_psql('postgres', $_) foreach q{INSERT INTO zeros SELECT g, CASE WHEN g % 11 <> 5 THEN (g % 2 || '.' || repeat('0', g % 60))::numeric END FROM generate_series(1, 4000) g}, 'VACUUM ANALYZE zeros', q{SELECT hjoin_gpu_keep('zeros')};
is_cores($node, 'SELECT v::text, count(*), sum(id) FROM zeros GROUP BY v ORDER BY v', -1, 'of equal numerics of many scales the first one is shown');
is_cores($node, 'SELECT sum(CASE WHEN customer < (SELECT max(region) FROM customers) THEN 1 ELSE 0 END) FROM orders', -1, 'CASE with a subquery');
is_cores($node, 'SELECT count(*) FROM orders WHERE note ~ \'1$\' AND customer > 3', 0, 'a condition of core\'s');
is_cores($node, 'SELECT sum(quantity) FROM lines WHERE part > 0', 0, 'a serializable transaction', 'SET default_transaction_isolation = serializable; ');
is_cores($node, 'SELECT mode, sum(quantity) FROM lines GROUP BY 1 ORDER BY 1', 0, 'kept columns switched off', 'SET hjoin_gpu.kept_columns = off; ');
is_cores($node, 'SELECT part, order_id, line, count(*) FROM lines GROUP BY 1, 2, 3 ORDER BY 4, 1, 2, 3 LIMIT 10', 0, 'more first groups than memory allows', 'SET work_mem = \'64kB\'; SET hash_mem_multiplier = 1; ');
my $little = "SET work_mem = '64kB'; SET hash_mem_multiplier = 1; SET hjoin_gpu.explain_declined = on; SET hjoin_gpu.device = '$device';";
like(($node->psql('postgres', "$little EXPLAIN SELECT part, count(*) FROM lines GROUP BY part"))[2], qr/Reason: groups need more than work_mem/, 'and is not planned');
# more groups than expected: it is found out once
$node->safe_psql('postgres', $_) foreach 'CREATE TABLE grown (k int, v int); INSERT INTO grown SELECT 1, g FROM generate_series(1, 20000) g; ANALYZE grown; UPDATE grown SET k = v',
  'VACUUM grown', q{SELECT hjoin_gpu_keep('grown')};
my $grown = 'SELECT k, sum(v) AS s FROM grown GROUP BY k';
like($node->safe_psql('postgres', "$program $little EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $grown"), qr/Programs: 0\s+Fallback: (program could not be run on these rows|device memory not available)/, 'more groups than expected: it is tried');
like(($node->psql('postgres', "$little EXPLAIN $grown"))[2], qr/Reason: it could not be run within the last ten minutes/, 'and not again');
is_cores($node, "SELECT count(*), sum(s), sum(k) FROM ($grown OFFSET 0) g", 0, 'more groups than expected', $little);
$node->safe_psql('postgres', 'CREATE TABLE large (k int, v int8); INSERT INTO large SELECT g % 10, 9223372036854775807 - g FROM generate_series(1, 3000) g; VACUUM ANALYZE large; SELECT hjoin_gpu_keep(\'large\')');
is_cores($node, 'SELECT k, sum(v), min(v), max(v) FROM large GROUP BY k ORDER BY k', 1, 'sums beyond 64 bits');
like(($node->psql('postgres', "$program SELECT sum(v + 1 + k * 1000000) FROM large"))[2], qr/bigint out of range/, 'what overflows raises core\'s error');
is_cores($node, 'PREPARE q(int) AS SELECT mode, sum(quantity) FROM lines WHERE part < $1 GROUP BY mode ORDER BY 1; EXECUTE q(100); EXECUTE q(3000)', 2, 'parameters', 'SET plan_cache_mode = force_generic_plan; ');
is_cores($node, 'SELECT c.id, x.s FROM customers c, LATERAL (SELECT sum(total) AS s FROM orders o WHERE o.customer = c.id) x WHERE c.id < 4 ORDER BY 1', -1, 'a subquery for each row');
is_cores($node, 'SELECT sum(total) FROM orders WHERE customer < (SELECT max(id) / 2 FROM customers)', -1, 'a condition with a subquery');

# --- cursors, and errors in the middle
is($node->safe_psql('postgres', "$program BEGIN; DECLARE c CURSOR FOR SELECT mode, sum(quantity) FROM lines GROUP BY mode ORDER BY 1; MOVE 1 IN c; SAVEPOINT s; "
		  . 'FETCH 2 FROM c; ROLLBACK TO s; FETCH ALL FROM c; COMMIT'),
	$node->safe_psql('postgres', "$core BEGIN; DECLARE c CURSOR FOR SELECT mode, sum(quantity) FROM lines GROUP BY mode ORDER BY 1; MOVE 1 IN c; SAVEPOINT s; "
		  . 'FETCH 2 FROM c; ROLLBACK TO s; FETCH ALL FROM c; COMMIT'), 'a cursor goes on after a rollback');
ok(defined wait_until(sub { is_idle($node) }, 10), 'no job slot and no slab is left leased');
$other->quit;

# --- the choice: prices of joins of the node are in another currency, so times decide
if ($device eq 'cpu')
{
	$node->safe_psql('postgres', $_) foreach 'CREATE TABLE days AS SELECT g AS k, g % 2400 AS day, g % 5 AS kind FROM generate_series(1, 150000) g',
	  'CREATE TABLE parcels AS SELECT g / 4 + 1 AS k, g % 30 AS committed, g % 31 AS received FROM generate_series(0, 599999) g',
	  'VACUUM ANALYZE days, parcels', q{SELECT hjoin_gpu_keep('days'), hjoin_gpu_keep('parcels')};
	my $early = 'SELECT kind, count(*) FROM days d WHERE day < 90 AND EXISTS (SELECT FROM parcels p WHERE p.k = d.k AND committed < received) GROUP BY 1 ORDER BY 1';
	my ($chosen_rows, $nprograms) = programs_of($node, $early);
	is($nprograms, 1, 'a program is chosen that takes less time than a cheaper join of the node');
	is($chosen_rows, $node->safe_psql('postgres', "$core $early"), 'with core\'s rows');
}
$node->stop;

# --- the device process fails
foreach my $fault ('die:build:1', 'exit:build:1', 'die:probe:1', 'die:result:1', 'corrupt:result:1', 'truncate:result:1', 'lose:result:1')
{
	my $failing = start_with("fault_$fault" =~ tr/:/_/r, $fault);
	is_cores($failing, $queries[3], 0, $fault);
	cmp_ok($failing->safe_psql('postgres', q{SELECT sum(value) FROM hjoin_gpu_stat WHERE name LIKE 'fallback%'}), '>', 0, "$fault: the fallback is counted");
	$failing->stop;
}
foreach my $fault ('die:build:1', 'corrupt:result:1')
{
	my $failing = start_with("fetched_$fault" =~ tr/:/_/r, $fault);
	is_cores($failing, $queries[$fetched], 0, "$fault, with strings that were to be fetched");
	is_cores($failing, $queries[$fetched], -1, "$fault, once more");
	ok(defined wait_until(sub { is_idle($failing) }, 10), "$fault: nothing is left leased");
	$failing->stop;
}
my $refusing = start_with('refusing', 'die:build:1');
my ($rc, $out, $err) = $refusing->psql('postgres', "SET hjoin_gpu.on_fallback = error; $program $queries[3]");
like($err, qr/ERROR:  grouping could not run in the device process: device process lost/, 'hjoin_gpu.on_fallback = error raises one');
$refusing->stop;

if ($device ne 'cpu')
{
	my $small = start_node('small', conf => "${conf}hjoin_gpu.device_memory = '2MB'\n");
	fill_tables($small);
	is_cores($small, $queries[$_], 1, "a GPU without memory, query $_") for 3, 15, $first, $fetched;
	like($small->safe_psql('postgres', "$program EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $queries[15]"), qr/Programs: 1\n.*Fallback: device memory not available/s,
		'threads run its program, and EXPLAIN says so');
	cmp_ok(stat_value($small, 'fallback_device_memory'), '>', 0, 'and a counter');
	$small->stop;
}

my $slow = start_with('slow', 'slow:build:4000ms');
my $start = time;
($rc, $out, $err) = $slow->psql('postgres', "SET statement_timeout = '300ms'; $program $queries[3]");
like($err, qr/canceling statement due to statement timeout/, 'a program can be cancelled');
took_less(time - $start, 2.5, 'at once');
ok(defined wait_until(sub { is_idle($slow) }, 10), 'and leaves nothing leased');
$slow->stop;

done_testing();
