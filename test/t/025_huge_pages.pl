# Shared buffers and kept columns in huge pages (src/huge): the kernel makes them of memory in use, rows stay core's, whatever is written
# meanwhile, and nothing stays of them when the server ends, crashes, is told not to, or the system refuses.
use strict;
use warnings;

use Config;
use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $conf = "shared_buffers = '160MB'\nhjoin_gpu.cache_size = '64MB'\nhjoin_gpu.kept_columns = off\nautovacuum = off\nrestart_after_crash = on\n"
  . "logging_collector = on\nmax_worker_processes = 16\nhuge_pages = try\n";
my $node = start_node('main', conf => $conf);
my @tables = qw(h1 h2 h3);
my $enough_bytes = 60 * 1024 * 1024;	# most of the tables

# each smaller than a quarter of shared_buffers, so that scans leave it there
$node->safe_psql('postgres', "CREATE TABLE $_ AS SELECT g AS id, g % 1000 AS k, repeat('x', 20 + g % 50) AS t, (g % 777)::numeric / 8 AS n FROM generate_series(1, 300000) g; VACUUM ANALYZE $_")
  for @tables;

$node->safe_psql('postgres', 'CREATE TABLE dim AS SELECT k FROM generate_series(0, 899) k; VACUUM ANALYZE dim');

my $direct = 'SET hjoin_gpu.force = on; SET max_parallel_workers_per_gather = 0; ';
my $parallel = 'SET hjoin_gpu.force = on; SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; '
  . 'SET min_parallel_table_scan_size = 0; ';
my $core = 'SET hjoin_gpu.enabled = off; ';
my $of_one = 'SELECT count(*), sum(id), sum(n), min(t), max(t) FROM %s JOIN dim USING (k)';
my $sums = join(' UNION ALL ', map { sprintf $of_one, $_ } @tables) . ' ORDER BY 1, 2, 3';
my $join = 'SELECT count(*), sum(h1.id + h2.id), max(h3.t) FROM h1 JOIN h2 USING (id) JOIN h3 USING (id)';

sub sql { return $node->safe_psql('postgres', join '; ', @_) }
sub postmaster { return (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0] }
sub state_of { my ($memory) = @_; return split /\|/, sql("SELECT state, coalesce(used_bytes, 0), coalesce(huge_bytes, 0) FROM hjoin_gpu_huge_pages() WHERE memory = '$memory'") }
sub huge_bytes { return (state_of($_[0]))[2] }

# Read a file of a process, which may end meanwhile.
sub proc_text
{
	my ($name) = @_;
	open my $file, '<', "/proc/$name" or return '';
	local $/;
	return <$file> // '';
}

# Processes of the server with this title.
sub pids_of
{
	my ($title) = @_;
	my @pids = grep { proc_text("$_/cmdline") =~ /\Q$title/ } split ' ', proc_text(postmaster() . '/task/' . postmaster() . '/children');
	return @pids;
}

# Count the mappings of the server's shared memory in a process, and the KB of them that are mapped by huge pages.
sub mappings
{
	my ($pid) = @_;
	my @of = grep { m{^[0-9a-f]+-[0-9a-f]+ rw-s [^\n]*/dev/zero} } split /^(?=[0-9a-f]+-[0-9a-f]+ )/m, proc_text("$pid/smaps");
	my $huge = 0;

	$huge += $_ for map { /^ShmemPmdMapped:\s+(\d+)/m } @of;
	return (scalar @of, $huge);
}

sub is_core
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my %want = map { $_ => sql($core . $_) } $sums, $join;

	return is_deeply([ map { my $how = $_; map { sql($how . $_) } $sums, $join } $direct, $parallel ], [ ($want{$sums}, $want{$join}) x 2 ], $name);
}

# Get the time, in ms, that the planner predicts for reading the table by new processes.
sub predicted_ms
{
	my $plan = sql($parallel . 'EXPLAIN (ANALYZE, COSTS OFF) SELECT count(*) FROM h1 JOIN dim USING (k)');
	return $plan =~ /Workers Planned: 2.*Predicted Phases: .*Scan Probe=([\d.]+) ms/s ? $1 : -1;
}

# Scan until memory is in huge pages, or will not be; returns the state of buffers.
sub wait_for_huge_pages
{
	wait_until(sub { sql($direct . join '; ', ($sums) x 3); return (state_of('shared buffers'))[0] ne 'collapsed' || huge_bytes('shared buffers') > $enough_bytes }, 90);
	return (state_of('shared buffers'))[0];
}

is(huge_bytes('shared buffers'), 0, 'no huge page after the start');
like(sql($direct . 'EXPLAIN (COSTS OFF) ' . sprintf $of_one, 'h1'), qr/GpuHashJoin/, 'tables are read by the node');
my $small_ms = predicted_ms();
is_core('rows from small pages are core\'s');

my $state = wait_for_huge_pages();
SKIP:
{
	skip "this kernel does not collapse shared memory: $state", 24 if $state ne 'collapsed';

	# --- pages are read in huge pages
	my (undef, $used, $huge) = state_of('shared buffers');
	cmp_ok($huge, '>', $enough_bytes, 'buffers in use are in huge pages') || diag("$huge of $used bytes");
	cmp_ok($huge, '<=', $used, 'and no others');
	my $session = open_session($node);
	my $pid = ask($session, 'SELECT pg_backend_pid()');
	is_deeply([ mappings($pid) ], [ 1, 0 ], 'a process has no mapping of its own before it scans');
	ask($session, "$direct$sums");
	my ($nmapped, $kb) = mappings($pid);
	is($nmapped, 2, 'a process that has scanned has one more mapping');
	cmp_ok($kb, '>', $enough_bytes / 1024 / 2, 'of huge pages');
	is((mappings(postmaster()))[0], 1, 'the postmaster has none');
	is_core('rows from huge pages are core\'s');
	my $huge_ms = predicted_ms();
	ok($huge_ms > 0 && $huge_ms < 0.9 * $small_ms, 'the planner expects to map less') || diag("$huge_ms of $small_ms ms");

	# --- what is written there, and read without hint bits
	sql('INSERT INTO h1 SELECT g, g % 1000, repeat(\'y\', 30), 1 FROM generate_series(300001, 310000) g');
	is_core('rows without hint bits');
	sql('UPDATE h2 SET n = n + 1, t = t || \'z\' WHERE k % 5 = 1', 'DELETE FROM h3 WHERE k % 7 = 2');
	is_core('changed rows');
	sql('BEGIN', 'UPDATE h2 SET n = 0', 'ROLLBACK');
	is_core('rows of a transaction that was rolled back');
	sql('VACUUM h2', 'VACUUM h3');
	is_core('after vacuum');
	ask($session, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
	my $before = ask($session, "$core$sums");
	sql('UPDATE h1 SET n = n + 1', 'DELETE FROM h2 WHERE k = 3');
	is(ask($session, "SET hjoin_gpu.enabled = on; $direct$sums"), $before, 'an old snapshot sees what it saw');
	ask($session, 'COMMIT');

	# --- without room for the mapping
	my $tight = open_session($node);
	my $tight_pid = ask($tight, "$core SELECT pg_backend_pid()");
	ask($tight, $sums);
	my ($size_kb) = proc_text("$tight_pid/status") =~ /^VmSize:\s+(\d+)/m;
	system('prlimit', '--pid', $tight_pid, '--as=' . 1024 * ($size_kb + 60 * 1024)) == 0 or die 'prlimit';
	is(ask($tight, "SET hjoin_gpu.enabled = on; $direct$sums"), sql($core . $sums), 'a process without address space for it reads small pages');
	is((mappings($tight_pid))[0], 1, 'it has no mapping of its own');

	# --- kept columns
	sql('SET hjoin_gpu.kept_columns = on; SELECT ' . join ', ', map { "hjoin_gpu_keep('$_')" } @tables);
	my $kept_scan = "SET hjoin_gpu.kept_columns = on; $direct$sums";
	is(sql($kept_scan), sql($core . $sums), 'rows from kept columns are core\'s');

	# --- the switch
	$node->append_conf('postgresql.conf', "hjoin_gpu.huge_pages = off\n");
	$node->reload;
	wait_until(sub { (state_of('shared buffers'))[0] eq 'off' }, 10);
	my $off = open_session($node);
	my $off_pid = ask($off, 'SELECT pg_backend_pid()');
	is(ask($off, "$direct$sums"), sql($core . $sums), 'rows are core\'s without it');
	is((mappings($off_pid))[0], 1, 'it maps nothing then');
	$node->append_conf('postgresql.conf', "hjoin_gpu.huge_pages = on\n");
	$node->reload;

	# --- writers beside the worker, which is interrupted, too
	$node->restart;
	my $writer = start_query($node, "DO \$\$ BEGIN FOR i IN 1..100000 LOOP UPDATE h2 SET n = n + 1 WHERE id = i; UPDATE h1 SET t = t WHERE id = i; COMMIT; END LOOP; END \$\$", 'writer');
	my ($nsame, $ndifferent, $nended) = (0, 0, 0);
	wait_until(
		sub {
			my ($ours, $core_rows) = split /\nnext\n/, sql('SET hjoin_gpu.force = on', 'SET max_parallel_workers_per_gather = 0', 'BEGIN ISOLATION LEVEL REPEATABLE READ',
				$sums, q{SELECT 'next'}, 'SET LOCAL hjoin_gpu.enabled = off', $sums, 'COMMIT');
			$ours eq $core_rows ? $nsame++ : $ndifferent++;
			$nended += kill 'TERM', pids_of('hjoin_gpu huge pages') if !$nended;
			return $nsame >= 20 && ($nended || huge_bytes('shared buffers') > 0);
		},
		90);
	is($ndifferent, 0, "rows are core's beside writers, $nsame times");
	is($nended > 0 || huge_bytes('shared buffers') > 0, 1, 'while buffers get huge pages');
	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'writer'");
	finish_query($writer);
	is_core('and after them');

	# --- a crash
	my ($dying, $other) = map { open_session($node) } 1, 2;
	my ($dying_pid, $other_pid) = map { scalar ask($_, 'SELECT pg_backend_pid()') } $dying, $other;
	ask($dying, "$direct$sums");
	my ($logger) = pids_of('logger');
	kill 'KILL', $dying_pid;
	# the postmaster ends the other session, too, and then serves nobody until its memory is new
	wait_until(sub { !-e "/proc/$other_pid" }, 60);
	$node->poll_query_until('postgres', 'SELECT 1', '1');
	is((state_of('shared buffers'))[2], 0, 'after a crash memory is new');
	is((mappings($logger))[0], 0, 'a process that outlives the crash keeps nothing of the old memory');
	is_core('rows are core\'s after a crash');
}

# --- where it is not wanted
$node->append_conf('postgresql.conf', "huge_pages = off\n");
$node->restart;
is_deeply([ map { (state_of($_))[0] } 'shared buffers', 'kept columns' ], [ 'off', 'off' ], 'none with huge_pages = off');
is_core('rows are core\'s with huge_pages = off');

# --- where no worker can start: the supervisor takes the only slot
$node->append_conf('postgresql.conf', "huge_pages = try\nmax_worker_processes = 1\n");
$node->restart;
sql($direct . join '; ', ($sums) x 4) for 1 .. 2;
is(huge_bytes('shared buffers'), 0, 'no huge page without a slot for the worker');
is_core('rows are core\'s without one');

# --- where the kernel refuses: transparent huge pages are disabled for the server's processes
SKIP:
{
	my %prctl = (x86_64 => 157, aarch64 => 167);
	my ($number) = map { $Config{archname} =~ /$_/ ? $prctl{$_} : () } keys %prctl;

	skip 'the kernel has no huge pages, or no number of prctl() is known', 2 if $state eq 'none' || !defined $number;
	$node->append_conf('postgresql.conf', "max_worker_processes = 16\n");
	syscall($number, 41, 1, 0, 0, 0) == 0 or die "prctl: $!";
	$node->restart;
	syscall($number, 41, 0, 0, 0, 0);
	is(wait_for_huge_pages(), 'refused', 'the state says that the kernel refuses');
	is_core('rows are core\'s where it does');
}

$node->stop;
done_testing();
