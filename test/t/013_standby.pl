# A hot standby joins like the primary and is promoted during joins; joins write no WAL.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $ours = 'SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0; SET max_parallel_workers_per_gather = 0;';
my $cores = 'SET hjoin_gpu.enabled = off; SET max_parallel_workers_per_gather = 0;';
my $query = 'SELECT count(*), sum(build.id::bigint * probe.id) FROM build JOIN probe USING (k)';

my $primary = start_node('primary', streaming => 1);
make_tables($primary);
wait_ready($primary);
$primary->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'copy', has_streaming => 1);
$standby->start;
ok(defined wait_ready($standby), 'the device process runs on a standby');
$primary->wait_for_catchup($standby);

my $answer = $primary->safe_psql('postgres', "$cores $query");
like($standby->safe_psql('postgres', "$ours EXPLAIN $query"), qr/GpuHashJoin/, 'a standby plans the node');
is($standby->safe_psql('postgres', "$ours $query"), $answer, 'and its rows are core\'s');
cmp_ok(stat_value($standby, 'joins_device'), '>', 0, 'by its device process');

# joins write no WAL; the server has no other work but checkpoints and snapshots of running transactions, and reading
# the catalogs prunes pages and sets hint bits, as in core
$primary->append_conf('postgresql.conf', "autovacuum = off\nwal_log_hints = off\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n");
$primary->restart;
wait_ready($primary);
$primary->safe_psql('postgres', "SELECT count(*) FROM build; SELECT count(*) FROM probe; $ours $query; CHECKPOINT");
my $inserted = 'SELECT pg_current_wal_insert_lsn()';
my $lsn = $primary->safe_psql('postgres', $inserted);
my $catalog = q{SELECT string_agg(oid || ' ' || relname || ' ' || relfilenode, ' ' ORDER BY oid) FROM pg_class};
my $before = $primary->safe_psql('postgres', $catalog);
$primary->safe_psql('postgres', "$ours SET work_mem = '64kB'; $query; $query; SELECT hjoin_gpu_self_test(1000, 1000)");
my ($records) = run_command([ 'pg_waldump', '-p', $primary->data_dir . '/pg_wal', '-s', $lsn, '-e', $primary->safe_psql('postgres', $inserted) ]);
is(join("\n", grep { /^rmgr/ && !/^rmgr: Standby|CHECKPOINT|FPI_FOR_HINT|PRUNE_ON_ACCESS/ } split /\n/, $records), '', 'joins write nothing to the write-ahead log');
is($primary->safe_psql('postgres', $catalog), $before, 'and leave no relation behind');

# an open cursor and running joins continue over the promotion
my $cursor = start_query($standby, qq{$ours BEGIN; DECLARE c CURSOR FOR SELECT build.id, probe.id FROM build JOIN probe USING (k);
	FETCH 1000 FROM c;
	DO 'BEGIN WHILE pg_is_in_recovery() LOOP PERFORM pg_sleep(0.02); END LOOP; END';
	FETCH ALL FROM c}, 'cursor');
my @running = map { start_query($standby, "$ours $query", "join$_") } 1 .. 3;
wait_until(sub { $standby->safe_psql('postgres', 'SELECT count(*) FROM hjoin_gpu_jobs') > 1 }, 5);
my $pid = device_pid($standby);
$standby->promote;
is((finish_query($_))[0], $answer, 'a join that runs while the standby is promoted gives core\'s rows') for @running;
my ($count, $sum) = (0, 0);
for ((finish_query($cursor))[0] =~ /^\d+\|\d+$/mg)
{
	my ($build, $probe) = split /\|/;
	$count++;
	$sum += $build * $probe;
}
is("$count|$sum", $answer, 'so does a cursor that was open');

is(device_pid($standby), $pid, 'the device process lives on');
$standby->safe_psql('postgres', 'INSERT INTO build SELECT g, g FROM generate_series(1, 1000) g');
is($standby->safe_psql('postgres', "$ours $query"), $standby->safe_psql('postgres', "$cores $query"), 'the promoted server joins what it writes');
ok(defined wait_until(sub { is_idle($standby) }, 5), 'nothing stays leased');
is(log_count($_, qr/was terminated by signal|PANIC|TRAP/), 0, 'no server process died') for $primary, $standby;

$standby->stop;
$primary->stop;
done_testing();
