# Programs that several GPUs divide, which are emulated on the host (test/device/stub_libcuda.c): core's rows, one job on each device at the same
# time, and none left when one of them fails; what one of them gives up runs on threads.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use_emulated_cuda();

my $conf = "autovacuum = off\nwal_level = replica\nhjoin_gpu.cache_size = '128MB'\nshared_buffers = '64MB'\n";
my $core = 'SET hjoin_gpu.enabled = off; ';
my $program = 'SET hjoin_gpu.force = on; SET max_parallel_workers_per_gather = 0; ';
my $keep = q{SELECT hjoin_gpu_keep('facts', '{id,k,d,v,n,s}'), hjoin_gpu_keep('dims', '{id,name}'), hjoin_gpu_keep('few'), hjoin_gpu_keep('nothing')};

# A segment has 256 blocks: facts has 12, of few rows each, and few has one.
sub fill_tables
{
	my ($node) = @_;
	$node->safe_psql('postgres', q{
		CREATE TABLE facts (id int, k int, d int, v int, n numeric(10,2), s text, pad text);
		INSERT INTO facts SELECT g, CASE WHEN g % 7 <> 0 THEN g % 5 END, g % 600, CASE WHEN g % 11 <> 0 THEN g * 37 % 1000 END, g % 9000 / 100.0,
			CASE WHEN g % 13 <> 0 THEN 'word ' || g / 500 END, repeat('x', 900) FROM generate_series(1, 24000) g;
		CREATE TABLE dims (id int PRIMARY KEY, name text, pad text);
		INSERT INTO dims SELECT g, 'name ' || g % 9, repeat('x', 900) FROM generate_series(1, 500) g;
		CREATE TABLE few (a int, b int);
		INSERT INTO few SELECT g % 3, g FROM generate_series(1, 100) g;
		CREATE TABLE nothing (a int, b int);
		VACUUM ANALYZE facts, dims, few, nothing});
	return;
}

sub wait_devices
{
	my ($node, $n) = @_;
	return wait_until(sub { $node->safe_psql('postgres', q{SELECT count(*) FROM hjoin_gpu_devices WHERE kind = 'cuda' AND state = 'ready'}) == $n }, 20);
}

# Start a server with so many devices; env is for its device process.
sub start_with
{
	my ($name, $n, %opt) = @_;
	local @ENV{ 'HJG_STUB_DEVICES', keys %{ $opt{env} } } = ($n, values %{ $opt{env} });
	my $node = start_node($name, conf => $conf . ($opt{conf} // ''), fault => $opt{fault});
	fill_tables($node);
	$node->safe_psql('postgres', $keep);
	ok(defined wait_devices($node, $n), "$name: the devices are ready");
	return $node;
}

# Run a query; returns its rows, and how many programs and devices it had.
sub run_query
{
	my ($node, $query, $settings) = @_;
	my $before = stat_value($node, 'programs');
	my $rows = $node->safe_psql('postgres', $program . $settings . $query);
	my $programs = stat_value($node, 'programs') - $before;
	my $text = $node->safe_psql('postgres', "$program $settings EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $query");
	return ($rows, $programs, $text =~ /Program Devices: (\d+)/ ? $1 : 0, $text);
}

sub is_cores
{
	my ($node, $query, $ndevices, $name, $settings) = @_;
	my ($rows, $programs, $devices) = run_query($node, $query, $settings // '');
	is($rows, $node->safe_psql('postgres', $core . ($settings // '') . $query), "$name: core's rows");
	is("$programs $devices", ($ndevices > 0 ? 1 : 0) . " $ndevices", "$name: " . ($ndevices > 0 ? "on so many devices as it should" : 'without a program'));
	return;
}

my $groups = 'SELECT k, count(*), count(v), sum(v), min(v), max(v), avg(v), sum(n), min(n), max(n), avg(n) FROM facts GROUP BY k ORDER BY k';
my @queries = (
	$groups,
	'SELECT count(*), count(v), sum(v), min(v), max(v), avg(n), min(n) FROM facts',
	# a string that has other codes in each segment
	'SELECT s, count(*), sum(n) FROM facts GROUP BY s ORDER BY s',
	'SELECT s, k, max(id) FROM facts WHERE s LIKE \'%3\' OR v IS NULL GROUP BY s, k ORDER BY s, k',
	'SELECT d, sum(v * 2 - id), sum(n * n) FROM facts GROUP BY d ORDER BY d',
	'SELECT k + d, count(*), sum(CASE WHEN v > 500 THEN n ELSE 0 END) FROM facts GROUP BY 1 ORDER BY 1',
	'SELECT dims.name, count(*), sum(v), min(n) FROM facts JOIN dims ON dims.id = facts.d GROUP BY 1 ORDER BY 1',
	'SELECT dims.name, count(*), sum(v) FROM facts LEFT JOIN dims ON dims.id = facts.d AND dims.name LIKE \'%e 5\' GROUP BY 1 ORDER BY 1',
	'SELECT k, count(*) FROM facts WHERE NOT EXISTS (SELECT FROM dims WHERE dims.id = facts.d) GROUP BY k ORDER BY k',
	'SELECT count(*), sum(v), min(n) FROM facts WHERE v < 2 AND v > 5');

sub compare_all
{
	my ($node, $n, $what) = @_;
	is_cores($node, $queries[$_], $n, "$n devices, $what, query $_") for 0 .. $#queries;
	return;
}

# Orders come in the order of their keys, lines do not, and some have none; sales do. Customers are few.
sub fill_keyed
{
	my ($node) = @_;
	$node->safe_psql('postgres', q{
		CREATE TABLE customers (id int PRIMARY KEY, region int, pad text);
		INSERT INTO customers SELECT g, g % 5, repeat('x', 900) FROM generate_series(1, 300) g;
		CREATE TABLE orders (id int PRIMARY KEY, customer int, status text, v int, at timestamp, pad text);
		INSERT INTO orders SELECT g, CASE WHEN g % 17 <> 0 THEN g * 7 % 400 END, 'status ' || abs(g) % 3, abs(g) * 31 % 1000, '2024-01-01'::timestamp + g * interval '1 hour', repeat('x', 900)
			FROM generate_series(-3000, 6000) g;
		CREATE TABLE lines (order_id bigint, line int, k int, price numeric(10,2), pad text);
		INSERT INTO lines SELECT CASE WHEN g % 19 <> 0 THEN g * 7919::bigint % 10000 - 3500 END, g % 4, g % 6, g % 5000 / 100.0, repeat('x', 900) FROM generate_series(1, 15000) g;
		CREATE TABLE sales (order_id int, line int, price int, pad text, PRIMARY KEY (order_id, line));
		INSERT INTO sales SELECT g / 2 - 3000, g % 2, CASE WHEN g % 23 <> 0 THEN g % 700 END, repeat('x', 900) FROM generate_series(1, 14000) g;
		CREATE TABLE ends (k bigint PRIMARY KEY, w int);
		INSERT INTO ends SELECT g * 922337203685477::bigint, g % 7 FROM generate_series(-9999, 9999, 3) g;
		INSERT INTO ends VALUES (-9223372036854775808, 1), (9223372036854775807, 2);
		CREATE TABLE far (k bigint, v int, pad text);
		INSERT INTO far SELECT CASE g % 5 WHEN 0 THEN -9223372036854775808 WHEN 1 THEN 9223372036854775807 WHEN 2 THEN (g - 2500) * 922337203685477::bigint WHEN 3 THEN g END, g % 100, repeat('x', 900)
			FROM generate_series(1, 5000) g;
		VACUUM ANALYZE customers, orders, lines, sales, ends, far;
		SELECT hjoin_gpu_keep('customers', '{id,region}'), hjoin_gpu_keep('orders', '{id,customer,status,v,at}'),
			hjoin_gpu_keep('lines', '{order_id,line,k,price}'), hjoin_gpu_keep('sales', '{order_id,line,price}'), hjoin_gpu_keep('ends'), hjoin_gpu_keep('far', '{k,v}')});
	return;
}

# Queries, and how they should be divided: by columns, or by segments.
my @divided = (
	['SELECT o.id, sum(l.price) FROM orders o JOIN lines l ON l.order_id = o.id WHERE o.v < 500 GROUP BY o.id HAVING sum(l.price) > 40 ORDER BY 2 DESC, 1 LIMIT 7', 'l.order_id o.id'],
	['SELECT o.status, count(*), sum(l.price) FROM orders o JOIN lines l ON l.order_id = o.id GROUP BY 1 ORDER BY 1', 'l.order_id o.id'],
	['SELECT o.status, count(*), sum(s.price), max(s.price) FROM orders o JOIN sales s ON s.order_id = o.id GROUP BY 1 ORDER BY 1', 'o.id s.order_id'],
	['SELECT l.k, count(*), count(o.v), sum(o.v) FROM lines l LEFT JOIN orders o ON l.order_id = o.id AND o.v < 800 GROUP BY 1 ORDER BY 1', 'l.order_id o.id'],
	['SELECT l.k, count(*), sum(l.price) FROM lines l WHERE NOT EXISTS (SELECT FROM orders o WHERE o.id = l.order_id) GROUP BY 1 ORDER BY 1', 'l.order_id o.id'],
	['SELECT o.status, count(*) FROM orders o WHERE EXISTS (SELECT FROM lines l WHERE l.order_id = o.id AND l.price > 20) GROUP BY 1 ORDER BY 1', 'l.order_id o.id'],
	# a comparison beside the key: the device has extremes of each key's rows
	['SELECT l.k, count(*) FROM lines l WHERE EXISTS (SELECT FROM lines m WHERE m.order_id = l.order_id AND m.line <> l.line) GROUP BY 1 ORDER BY 1', 'l.order_id m.order_id'],
	['SELECT l.k, count(*) FROM lines l WHERE NOT EXISTS (SELECT FROM sales s WHERE s.order_id = l.order_id AND s.line > l.line) GROUP BY 1 ORDER BY 1', 'l.order_id s.order_id'],
	# groups that are read: their keys
	['SELECT c, count(*) FROM (SELECT order_id, count(*) AS c FROM lines GROUP BY order_id) x GROUP BY c ORDER BY c', 'lines.order_id'],
	['SELECT o.status, count(*), sum(o.v) FROM orders o WHERE o.id IN (SELECT order_id FROM lines GROUP BY order_id HAVING sum(price) > 60) GROUP BY 1 ORDER BY 1', 'lines.order_id o.id'],
	['SELECT k, count(DISTINCT order_id) FROM lines GROUP BY k ORDER BY k', 'lines.k|lines.order_id'],
	# an outer join whose preserved rows have several partners, or none: they come from a pipeline of their own
	['SELECT c.id, count(o.id), sum(o.v) FROM customers c LEFT JOIN orders o ON o.customer = c.id AND o.v < 900 GROUP BY c.id ORDER BY c.id', 'c.id o.customer'],
	['SELECT n, count(*) FROM (SELECT c.id, count(o.id) AS n FROM customers c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.id) x GROUP BY n ORDER BY n', 'c.id o.customer'],
	# customers are on each device
	['SELECT c.region, count(*), sum(l.price) FROM lines l JOIN orders o ON o.id = l.order_id JOIN customers c ON c.id = o.customer GROUP BY 1 ORDER BY 1', 'l.order_id o.id'],
	['SELECT l.order_id, l.line, count(*), sum(s.price) FROM lines l JOIN sales s ON s.order_id = l.order_id AND s.line = l.line GROUP BY 1, 2 ORDER BY 4 DESC NULLS LAST, 1, 2 LIMIT 9', 'l.order_id s.order_id|l.line s.line'],
	# groups by days are not those of the column; a key in whose order many rows do not come divides less than segments do
	['SELECT date_trunc(\'day\', at), count(*), sum(v) FROM orders GROUP BY 1 ORDER BY 1', 'segments of orders'],
	['SELECT order_id, count(*) FROM lines GROUP BY order_id HAVING count(*) > 2 ORDER BY 1', 'lines.order_id'],
	['SELECT min(c.region), count(*) FROM lines l JOIN customers c ON c.id = l.k', 'segments of l'],
	# the least and the greatest keys that there are
	['SELECT k, count(*), sum(v) FROM far GROUP BY k HAVING sum(v) > 60 ORDER BY 2 DESC, 1 LIMIT 20', 'far.k'],
	['SELECT e.w, count(*), sum(f.v) FROM far f LEFT JOIN ends e ON e.k = f.k GROUP BY 1 ORDER BY 1', 'e.k f.k|segments of f'],
	['SELECT e.w, count(*), sum(e.w) FROM ends e WHERE NOT EXISTS (SELECT FROM far f WHERE f.k = e.k) GROUP BY 1 ORDER BY 1', 'e.k f.k'],
	['SELECT count(*), sum(o.v) FROM orders o WHERE o.id BETWEEN 100 AND 200', 'segments of o|']);

sub compare_divided
{
	my ($node, $n, $what) = @_;
	foreach my $case (@divided)
	{
		my ($query, $division) = @$case;
		my ($rows, $programs, $devices, $text) = run_query($node, $query, '');
		my $found = $text =~ /Program Division: (.*)/ ? $1 : '';
		is($rows, $node->safe_psql('postgres', $core . $query), "$n devices, $what, $query: core's rows");
		my $names = join ' ', sort { ($a =~ /segments/) cmp ($b =~ /segments/) || $a cmp $b } split /, /, $found;
		like($programs . $names, qr/^1(?:$division)$/, 'divided as it should');
	}
	return;
}

foreach my $n (2, 4)
{
	my $node = start_with("devices_$n", $n);
	fill_keyed($node);
	compare_divided($node, $n, 'kept');
	$node->safe_psql('postgres', q{BEGIN; UPDATE lines SET price = price + 1, order_id = order_id + 1 WHERE order_id % 50 = 3; DELETE FROM orders WHERE id = 77; COMMIT});
	compare_divided($node, $n, 'changed');
	compare_all($node, $n, 'kept');
	like($node->safe_psql('postgres', "$program EXPLAIN (VERBOSE, COSTS OFF) $groups"), qr/Program Device: cuda\n/, "$n devices: EXPLAIN names no single one");
	is_cores($node, $groups, 1, "$n devices, the last one is named", "SET hjoin_gpu.device = 'cuda:" . ($n - 1) . '\'; ');
	is_cores($node, $groups, 1, "$n devices, threads are named", 'SET hjoin_gpu.device = cpu; ');
	# segments without a row that passes are left out, and devices that have no other ones
	is_cores($node, 'SELECT k, sum(v) FROM facts WHERE id BETWEEN 2500 AND 2600 GROUP BY k ORDER BY k', 1, "$n devices, rows of one segment");
	is_cores($node, 'SELECT a, sum(b), min(b) FROM few GROUP BY a ORDER BY a', 1, "$n devices, a table of one segment");
	is_cores($node, 'SELECT a, sum(b) FROM nothing GROUP BY a', 0, "$n devices, an empty table");
	is_cores($node, 'SELECT count(*), max(v) FROM facts WHERE id < 0', 1, "$n devices, no segment");
	# the next groups, or a choice of the first ones, need whole groups: devices have ranges of the keys
	is_cores($node, 'SELECT c, count(*) FROM (SELECT d, count(v) AS c FROM facts GROUP BY d) x GROUP BY c ORDER BY c', $n, "$n devices, groups of groups");
	is_cores($node, 'SELECT id, sum(v) FROM facts GROUP BY id ORDER BY 2 DESC NULLS LAST, 1 LIMIT 5', $n, "$n devices, the first groups");
	is_cores($node, 'SELECT d, count(*) FROM facts GROUP BY d HAVING sum(v) > 100 ORDER BY d', $n, "$n devices, HAVING");
	my $many = 'SELECT count(*), sum(c) FROM (SELECT id, count(*) AS c FROM facts GROUP BY id OFFSET 0) x';
	is_cores($node, $many, $n, "$n devices, many groups");
	my $little = "SET work_mem = '1MB'; SET hash_mem_multiplier = 1; ";
	is_cores($node, $many, 0, "$n devices, groups that are expected not to fit", $little);
	my $twice = "SET plan_cache_mode = force_generic_plan; PREPARE q AS $many; EXECUTE q; $little";
	my ($both, $programs) = run_query($node, 'EXECUTE q', $twice);
	my $once = $node->safe_psql('postgres', "$core $many");
	is("$both; $programs", "$once\n$once; 1", "$n devices, groups that fit the memory on each of them, but not together");
	like((run_query($node, 'EXECUTE q', $twice))[3], qr/Programs: 0\s+Fallback: program could not be run/, 'and EXPLAIN says so');
	my @running = map { start_query($node, "$program $queries[$_ % 3]", "many$_") } 0 .. 5;
	my @answers = map { $node->safe_psql('postgres', "$core $queries[$_]") } 0 .. 2;
	is((finish_query($running[$_]))[0], $answers[ $_ % 3 ], "$n devices, session $_ of six at a time: core's rows") for 0 .. 5;
	my $holder = $node->background_psql('postgres');
	$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	my $writer = $node->background_psql('postgres');
	$writer->query_safe('BEGIN; UPDATE facts SET v = v + 1, s = \'changed\' WHERE id % 97 = 0 AND id < 5000; DELETE FROM dims WHERE id = 77');
	compare_all($node, $n, 'a change that is not committed');
	$writer->query_safe('COMMIT');
	compare_all($node, $n, 'changed blocks');
	like((run_query($node, $groups, ''))[3], qr/Program Devices: $n\n.*Blocks Read: [1-9]/s, "$n devices: changed blocks are read and sent along");
	$_->quit foreach $writer, $holder;
	ok(defined wait_until(sub { is_idle($node) }, 10), "$n devices: nothing is left leased");
	$node->stop;
}

# --- at the same time, and cancelled
my $slow = start_with('slow', 2, fault => 'slow:build:1500ms');
my $start = time;
my $query = start_query($slow, "$program $groups");
ok(defined wait_until(sub { $slow->safe_psql('postgres', 'SELECT count(*) FROM hjoin_gpu_jobs') == 2 }, 5), 'a query has two jobs at a time');
is((finish_query($query))[0], $slow->safe_psql('postgres', "$core $groups"), 'and core\'s rows');
took_less(time - $start, 2.7, 'in the time of one');
$start = time;
like(($slow->psql('postgres', "SET statement_timeout = '400ms'; $program $groups"))[2], qr/canceling statement due to statement timeout/, 'it can be cancelled');
took_less(time - $start, 1.2, 'at once');
ok(defined wait_until(sub { is_idle($slow) }, 10), 'and leaves nothing leased');
$query = start_query($slow, "$program $groups", 'ended');
wait_until(sub { $slow->safe_psql('postgres', 'SELECT count(*) FROM hjoin_gpu_jobs') == 2 }, 5);
$slow->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ended'});
like((finish_query($query))[1], qr/terminating connection/, 'its session can be ended');
ok(defined wait_until(sub { is_idle($slow) }, 10), 'and leaves nothing leased, either');
$slow->stop;

# --- the device process fails while it runs one or both
foreach my $fault ('die:build:2', 'exit:build:1', 'die:probe:2', 'corrupt:result:2', 'truncate:result:1', 'lose:result:2')
{
	my $failing = start_with("fault_$fault" =~ tr/:/_/r, 2, fault => $fault);
	is($failing->safe_psql('postgres', $program . $groups), $failing->safe_psql('postgres', $core . $groups), "$fault: core's rows");
	is(stat_value($failing, 'programs'), 0, "$fault: no program has answered");
	cmp_ok($failing->safe_psql('postgres', q{SELECT sum(value) FROM hjoin_gpu_stat WHERE name LIKE 'fallback%'}), '>', 0, "$fault: the fallback is counted");
	ok(defined wait_until(sub { is_idle($failing) }, 10), "$fault: nothing is left leased");
	$failing->stop;
}

# --- a call of the driver fails, on one device or the other
my $broken = start_with('broken', 2);
my $right = $broken->safe_psql('postgres', "$core $groups");
my $nrefused = 0;
foreach my $call (map { 25 * $_ } 1 .. 8)
{
	{
		local @ENV{qw(HJG_STUB_DEVICES HJG_STUB_FAIL)} = (2, "$call:1");
		$broken->restart;
	}
	$broken->safe_psql('postgres', $keep);
	wait_devices($broken, 2);
	is($broken->safe_psql('postgres', $program . $groups), $right, "call $call fails: core's rows");
	$nrefused += stat_value($broken, 'fallback_device_error') > 0;
	ok(defined wait_until(sub { is_idle($broken) }, 10), "call $call fails: nothing is left leased");
}
cmp_ok($nrefused, '>', 1, 'that was a fallback');
$broken->stop;

# --- memory of each device: 8 MB; 70 rows a block make 1.4 MB of ten columns of a segment
my $full = start_with('full', 2, conf => "hjoin_gpu.device_memory = '8MB'\n");
my @wide = map { "c$_" } 0 .. 9;
sub fill_wide
{
	my ($table, $value) = @_;
	$full->safe_psql('postgres', "CREATE TABLE $table (" . join(', ', 'block int', map { "$_ int8" } @wide) . "); INSERT INTO $table SELECT b, "
		  . join(', ', map { $value } @wide) . ' FROM (SELECT g / 70 AS b FROM generate_series(0, 70 * 256 * 14) g) x; '
		  . "VACUUM ANALYZE $table; SELECT hjoin_gpu_keep('$table', '{" . join(',', @wide) . '}\')');
	return;
}
fill_wide('odd', 'CASE WHEN b / 256 % 2 = 1 THEN (random() * 1e18)::int8 ELSE 0 END');
my $maxima = 'SELECT ' . join(', ', 'count(*)', map { "max($_)" } @wide) . ' FROM odd';
# where a GPU's program does not fit, threads run it
is_cores($full, $maxima, 2, 'the columns of one device do not fit');
cmp_ok(stat_value($full, 'fallback_device_memory'), '>', 0, 'and a counter says so');
is_cores($full, "$maxima WHERE c0 = 0", 1, 'those of the other one do');
fill_wide('even', '(random() * 1e18)::int8');
my $five = 'SELECT count(*), max(c0), max(c1), max(c2), max(c3), max(c4) FROM even';
is_cores($full, $five, 1, 'columns that do not fit one device', q{SET hjoin_gpu.device = 'cuda:1'; });
is_cores($full, $five, 2, 'columns that fit two');
is_cores($full, $groups, 2, 'a table that fits');
$full->stop;

done_testing();
