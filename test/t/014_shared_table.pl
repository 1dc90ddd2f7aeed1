# The device process is lost during a join shared by leader and workers: they build one table, not one each.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use Test::More;

# at least 24 bytes a row
my $build_rows = 1000000;
my $table_kb = $build_rows * 24 / 1024;
my $settings = q{SET hjoin_gpu.force = on; SET hjoin_gpu.programs = off; SET hjoin_gpu.in_backend_rows = 0; SET max_parallel_workers_per_gather = 3; SET work_mem = '256MB';
	SET hjoin_gpu.strategy = nop; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;};
my $node = start_node('main', conf => "max_worker_processes = 20\n");
$node->safe_psql('postgres', qq{
	CREATE TABLE build AS SELECT g::int8 * 1000003 AS k FROM generate_series(1, $build_rows) g;
	CREATE TABLE probe AS SELECT (g % $build_rows)::int8 * 1000003 AS k, g AS id FROM generate_series(1, 2000000) g;
	ALTER TABLE build SET (parallel_workers = 3);
	ALTER TABLE probe SET (parallel_workers = 3);
	ANALYZE build, probe});
# each participant joins enough rows that last a while
my $query = 'SELECT count(*), count(CASE WHEN probe.id % 5000 = 0 THEN pg_sleep(0.02) END) FROM build JOIN probe USING (k)';
my $answer = "1999998|398";

# Watch the participants; returns their largest total private memory (kB) and their number.
sub watch
{
	my ($running) = @_;
	my ($most, $npids) = (0, 0);
	while ($running->{handle}->pumpable)
	{
		my @pids = split /\n/, $node->safe_psql('postgres',
			q{SELECT pid FROM pg_stat_activity WHERE query LIKE '%build JOIN probe%' AND pid <> pg_backend_pid()});
		my $kb = 0;
		for my $pid (@pids)
		{
			open my $status, '<', "/proc/$pid/status" or next;
			$kb += $_ for map { /^RssAnon:\s+(\d+)/ ? $1 : 0 } <$status>;
		}
		($most, $npids) = ($kb, scalar @pids) if $kb > $most;
		$running->{handle}->pump_nb;
	}
	return ($most, $npids);
}

my %most;
for my $fault ('', 'die:probe:9')
{
	local $ENV{HJG_FAULT} = $fault;
	$node->restart;
	wait_ready($node, 10);
	my $running = start_query($node, "$settings $query");
	my $npids;
	($most{$fault}, $npids) = watch($running);
	my ($out, $err) = finish_query($running);
	is($out, $answer, "'$fault': the answer is right");
	cmp_ok($npids, '>', 2, "'$fault': several processes joined");
	is(stat_value($node, 'fallback_device_lost') > 0, $fault ne '', "'$fault': the device process was lost or not");
	note("$most{$fault} kB in $npids processes");
}
cmp_ok($most{'die:probe:9'} - $most{''}, '<', $table_kb, 'nobody has a table for itself');

$node->stop;
done_testing();
