# Parallel scans in the order of buffers: chosen where a table lies in the pool in another order than that of its blocks; every
# row once, whatever happens to the pool meanwhile.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use Test::More;

# 6144 buffers; the table has 4500 pages of four rows, the other one does not fit beside it
my $npages = 4500;
my $node = start_node('main', conf => "shared_buffers = '48MB'\nautovacuum = off\nmax_worker_processes = 20\nmax_parallel_workers = 12\n");
$node->safe_psql('postgres', qq{
	CREATE TABLE big (id int, block int, k int, pad text);
	ALTER TABLE big ALTER pad SET STORAGE PLAIN, SET (parallel_workers = 2);
	INSERT INTO big SELECT g, g / 4, g % 1000, repeat('x', 1900) FROM generate_series(0, $npages * 4 - 1) g;
	CREATE TABLE other AS SELECT * FROM big;
	CREATE TABLE few AS SELECT g AS k FROM generate_series(0, 999) g;
	VACUUM (FREEZE, ANALYZE) big; VACUUM (FREEZE, ANALYZE) other; VACUUM (FREEZE, ANALYZE) few;
	CREATE PROCEDURE read_into_pool(name text, step bigint, first int, last int) LANGUAGE plpgsql AS \$\$
	BEGIN
		FOR i IN first..last - 1 LOOP
			EXECUTE format('SELECT FROM %I WHERE ctid = %L', name, format('(%s,1)', i * step % $npages));
		END LOOP;
	END \$\$});
is($node->safe_psql('postgres', "SELECT count(DISTINCT (ctid::text::point)[0]), bool_and(block = (ctid::text::point)[0]) FROM big"), "$npages|t", 'four rows a page');

my $settings = q{SET hjoin_gpu.force = on; SET hjoin_gpu.programs = off; SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
	SET min_parallel_table_scan_size = 0; SET enable_material = off;};
my $from = 'FROM big JOIN few ON big.k = few.k';
my $sums = "SELECT count(*), sum(id), count(DISTINCT id) FROM (SELECT id $from OFFSET 0) q";
my $answer = sprintf('%d|%d|%d', $npages * 4, $npages * 4 * ($npages * 4 - 1) / 2, $npages * 4);

# Fill the pool of a new server with these pages of the table, by a step of 1 in their order.
sub fill_pool
{
	my ($step, $first, $last) = @_;
	$node->restart;
	wait_ready($node, 10);
	$node->safe_psql('postgres', "CALL read_into_pool('big', $step, $first, $last)");
}

# Count how often one worker, without the leader, goes back to an earlier page.
sub steps_back
{
	return $node->safe_psql('postgres', qq{$settings SET max_parallel_workers = 1; SET parallel_leader_participation = off;
		SELECT coalesce(sum((block < before)::int), 0) FROM (SELECT block, lag(block) OVER () AS before FROM (SELECT block $from OFFSET 0) q) q});
}

fill_pool(1, 0, $npages);
is(steps_back(), 0, 'in the pool in order: by blocks');
fill_pool(2741, 0, $npages / 2);
is(steps_back(), 0, 'half of it is there: by blocks');
fill_pool(2741, 0, $npages);
cmp_ok(steps_back(), '>', $npages / 3, 'there in another order: by buffers');
is($node->safe_psql('postgres', "$settings $sums"), $answer, 'every row once');
fill_pool(2741, 0, $npages * 0.85);
cmp_ok(steps_back(), '>', $npages / 4, 'most of it is there: by buffers');
is($node->safe_psql('postgres', "$settings $sums"), $answer, 'every row once, read from the file or not');

# executions of one Gather
my $again = "SELECT count(*), min(n), max(n), min(s), max(s) FROM generate_series(1, 5) g LEFT JOIN (SELECT count(*) AS n, sum(id) AS s $from) q ON true";
like($node->safe_psql('postgres', "$settings EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $again"), qr/Gather \(actual rows=3(\.00)? loops=5\)/,
	'five executions');
is($node->safe_psql('postgres', "$settings $again"), join('|', 5, ((split /\|/, $answer)[0]) x 2, ((split /\|/, $answer)[1]) x 2),
	'five executions: every row once');
is($node->safe_psql('postgres', "$settings SELECT count(*) FROM generate_series(1, 5) g LEFT JOIN (SELECT id $from LIMIT 30) q ON true"), 150,
	'five executions that end early');

# pages come and go, rows too
my $reader = start_query($node, 'DO $$ BEGIN FOR i IN 1..100000 LOOP CALL read_into_pool(\'other\', 1 + i % 7, 0, 4500); CALL read_into_pool(\'big\', 2741, 0, 4500); END LOOP; END $$');
my $writer = start_query($node, 'DO $$ BEGIN FOR i IN 1..100000 LOOP UPDATE big SET pad = pad WHERE ctid = (format(\'(%s,1)\', i * 37 % 4500))::tid; COMMIT; END LOOP; END $$');
my %wrong;
for (1 .. 40)
{
	my $got = $node->safe_psql('postgres', "$settings $sums");
	$wrong{$got}++ if $got ne $answer;
}
is_deeply(\%wrong, {}, 'every row once while pages come and go');
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'background'");
finish_query($_) for $reader, $writer;

$node->stop;
done_testing();
