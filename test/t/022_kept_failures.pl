# Kept columns in a small store, after errors and crashes, on standbys, and where changes are not logged.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $ours = 'SET hjoin_gpu.force = on; SET max_parallel_workers_per_gather = 0; ';
# a file of huge pages cannot be written to as this test does
my $conf = "autovacuum = off\nwal_level = replica\nmax_connections = 30\nrestart_after_crash = on\nhuge_pages = off\n";
my $node = start_node('main', streaming => 1, conf => "${conf}hjoin_gpu.cache_size = '2MB'\n");

sub sql { return $node->safe_psql('postgres', join '; ', @_) }

sub kept_blocks
{
	my ($query) = @_;
	my $kept = 0;

	$kept += $_ for sql($ours . "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $query") =~ /Kept Blocks: (\d+)/g;
	return $kept;
}

sub is_core
{
	my ($query, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return is(sql($ours . $query), sql("SET hjoin_gpu.enabled = off; $query"), $name);
}

sub make_table
{
	my ($name, $rows) = @_;
	sql("CREATE TABLE $name AS SELECT g AS id, g % 7 AS k, md5(g::text) AS v FROM generate_series(1, $rows) g", "VACUUM $name");
	return;
}

sub pages_of { return sql("SELECT pg_relation_size('$_[0]') / 8192") }
sub sum_of { return "SELECT count(*), sum(id), sum(hashtextextended(v, 0)) FROM (SELECT $_[0].* FROM $_[0] JOIN r USING (k) OFFSET 0) x" }
my $used = 'SELECT coalesce(sum(bytes), 0) FROM hjoin_gpu_cache()';

# --- more than fits
sql('CREATE TABLE r AS SELECT g AS k FROM generate_series(0, 6) g', 'VACUUM r');
make_table("t$_", 12000) for 1 .. 6;
my $pages = pages_of('t1');
is(sql(q{SELECT hjoin_gpu_keep('t1')}), $pages, 'a table fits in 2 MB');
for my $round (1 .. 3)
{
	is_core(sum_of("t$_"), "table $_ of more than fit, round $round") for 1 .. 6;
}
is(sql(map { "SELECT hjoin_gpu_keep('t$_')" } 1 .. 6) =~ s/\n.*//sr, $pages, 'keeping one after the other');
cmp_ok(sql($used), '<=', 2 * 1024 * 1024, 'takes no more than there is');
cmp_ok(sql($used), '>', 256 * 1024, 'and uses it');
make_table('large', 100000);
cmp_ok(sql(q{SELECT hjoin_gpu_keep('large')}), '<', pages_of('large'), 'a table larger than the store is kept in part');
is_core(sum_of('large'), 'and read right') for 1 .. 3;

# --- dropped tables make room
for (1 .. 30)
{
	make_table('gone', 12000);
	sql(q{SELECT hjoin_gpu_keep('gone')}, 'DROP TABLE gone');
}
make_table('gone', 12000);
is_core(sum_of('gone'), 'a table after many that were dropped') for 1 .. 2;
is(sql(q{SELECT hjoin_gpu_keep('gone')}), $pages, 'finds room');
cmp_ok(kept_blocks(sum_of('gone')), '>=', $pages, 'and is served');

# --- memory that somebody has written to
sql(q{CREATE TABLE scribbled AS SELECT g AS id, g % 7 AS k, CASE WHEN g % 2 = 0 THEN 'scribble me' ELSE 'leave me' END AS v FROM generate_series(1, 5000) g},
	'VACUUM scribbled', q{SELECT hjoin_gpu_keep('scribbled')});
my $scribbled = q{SELECT v, count(*) FROM scribbled JOIN r USING (k) GROUP BY v ORDER BY v};
is(kept_blocks($scribbled), pages_of('scribbled') + pages_of('r'), 'a table is kept');
my ($postmaster) = PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
my ($file) = grep { (readlink($_) // '') =~ /kept columns/ } glob "/proc/$postmaster/fd/*";
open my $memory, '+<', $file or die "$file: $!";
binmode $memory;
my $bytes = do { local $/; <$memory> };
cmp_ok(my $place = index($bytes, 'scribble me'), '>=', 0, 'its words are in the memory of kept columns');
seek $memory, $place, 0;
print $memory 'scribbled !';
close $memory or die "close: $!";
my ($rows, $said);
$node->psql('postgres', "$ours $scribbled", stdout => \$rows, stderr => \$said);
is($rows, "leave me|2500\nscribble me|2500", 'changed words are not served');
like($said, qr/WARNING:  kept columns of table "scribbled" have changed in memory/, 'and it is said');
is_core($scribbled, 'the next query has its rows');
sql(q{SELECT hjoin_gpu_keep('scribbled')});
is(kept_blocks($scribbled), pages_of('scribbled') + pages_of('r'), 'and they are kept anew');

# --- scans that end early pin nothing
my $session = open_session($node);
my $pinned = "$ours SELECT t2.id, t2.v FROM t2 JOIN r USING (k)";
ask($session, $ours);
my @early = (
	[ 'an error', 'SELECT sum(1 / (t2.id - 6000)) FROM t2 JOIN r USING (k)', qr/division by zero/ ],
	[ 'a limit', 'SELECT t2.v FROM t2 JOIN r USING (k) LIMIT 3', undef ],
	[ 'a cursor that was closed', 'BEGIN; DECLARE c CURSOR FOR SELECT t2.v FROM t2 JOIN r USING (k); FETCH 3 FROM c; CLOSE c; COMMIT', undef ],
	[ 'a cursor that was rolled back', 'BEGIN; SAVEPOINT s; DECLARE c CURSOR FOR SELECT t2.v FROM t2 JOIN r USING (k); FETCH 3 FROM c; ROLLBACK TO s; COMMIT', undef ],
	[ 'a timeout', q{BEGIN; SET LOCAL statement_timeout = '30ms'; SELECT count(*) FROM (SELECT t2.id FROM t2 JOIN r USING (k) OFFSET 0) x, generate_series(1, 100000); ROLLBACK}, qr/statement timeout/ ],
	[ 'an error in a block of PL/pgSQL', q{DO $$ DECLARE n int; BEGIN PERFORM sum(1 / (t2.id - 6000)) FROM t2 JOIN r USING (k); EXCEPTION WHEN division_by_zero THEN NULL; END $$}, undef ]);
for (@early)
{
	my ($name, $query, $error) = @$_;

	sql(q{SELECT hjoin_gpu_keep('t2')});
	my ($rows, $messages) = ask($session, $query);
	$error ? like($messages, $error, "$name, as expected") : is($messages, '', "$name: no error");
	is(sql(map({ "SELECT hjoin_gpu_keep('t$_')" } 3 .. 6), q{SELECT hjoin_gpu_keep('t1')}) =~ s/.*\n//sr, $pages, "$name: what was pinned can be evicted");
}

# --- an open cursor keeps what it reads, also while others want the memory
sql(q{SELECT hjoin_gpu_keep('t2')});
ask($session, 'BEGIN; DECLARE c CURSOR FOR SELECT t2.id, t2.v FROM t2 JOIN r USING (k)');
my @fetched = split /\n/, ask($session, 'FETCH 5 FROM c');
sql(map { "SELECT hjoin_gpu_keep('$_')" } qw(t1 t3 t4 t5 t6 large));
sql('UPDATE t2 SET v = id', 'VACUUM t2', q{SELECT hjoin_gpu_keep('t2')});
push @fetched, split /\n/, ask($session, 'FETCH ALL FROM c');
ask($session, 'COMMIT');
sql('CREATE TABLE fetched (id int, v text)', 'INSERT INTO fetched VALUES ' . join(', ', map { s/^(\d+)\|(.*)/($1, '$2')/r } @fetched));
is(sql('SELECT count(*), count(DISTINCT id), bool_and(v = md5(id::text)) FROM fetched'), '12000|12000|t', 'a cursor over kept columns that others replace has its rows');
$session->{handle}->finish;

# --- filling that is cancelled
make_table('slow', 200000);
for my $round (1 .. 5)
{
	my $query = start_query($node, 'SELECT hjoin_gpu_keep(\'slow\'), hjoin_gpu_keep(\'large\') FROM generate_series(1, 100000)', 'keeper');
	wait_until(sub { sql(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'keeper' AND state = 'active'}) > 0 }, 10);
	sleep 0.05 * $round;
	sql(q{SELECT } . ($round % 2 ? 'pg_cancel_backend' : 'pg_terminate_backend') . q{(pid) FROM pg_stat_activity WHERE application_name = 'keeper'});
	like((finish_query($query))[1], qr/canceling statement|terminating connection/, "filling is cancelled, round $round");
}
is_core(sum_of('slow'), 'and leaves nothing wrong');
is(sql(q{SELECT hjoin_gpu_keep('t1')}), $pages, 'nor does it hold memory');

# --- thousands of tables
sql(q{DO $$ BEGIN FOR i IN 1 .. 1200 LOOP EXECUTE format('CREATE TABLE many%s AS SELECT %s AS id, g AS k FROM generate_series(0, 6) g', i, i); END LOOP; END $$});
sql('VACUUM');
sql(q{DO $$ DECLARE n bigint; BEGIN FOR i IN 1 .. 1200 LOOP n := hjoin_gpu_keep(format('many%s', i)::regclass); END LOOP; END $$});
is_core('SELECT ' . join(' + ', map { "(SELECT sum(many$_.id) FROM many$_ JOIN r USING (k))" } map { $_ * 13 } 1 .. 90), 'tables of more than the store has places for');
is_core(sum_of('t1'), 'and one from before');
cmp_ok(sql('SELECT count(DISTINCT file) FROM hjoin_gpu_cache()'), '<=', 1024, 'the list of tables has its bound');

# --- crash and restart
sql('UPDATE t3 SET v = id', q{SELECT hjoin_gpu_keep('t3')});
$node->stop('immediate');
$node->start;
is(sql($used), 0, 'a crash empties the store');
is_core(sum_of('t3'), 'rows after a crash') for 1 .. 3;
my $keeper = start_query($node, 'SELECT hjoin_gpu_keep(\'slow\'), hjoin_gpu_keep(\'large\') FROM generate_series(1, 100000)', 'keeper');
wait_until(sub { sql($used) > 0 }, 10);
my $pid = sql(q{SELECT pid FROM pg_stat_activity WHERE application_name = 'keeper'});
kill 'KILL', $pid;
finish_query($keeper);
wait_until(sub { ($node->psql('postgres', $used))[1] eq '0' }, 30);
is(sql($used), 0, 'so does a crash of a backend that fills it');
is_core(sum_of('slow'), 'rows after it') for 1 .. 3;

# --- other sizes, from restart to restart
for (0, '1MB', '64MB')
{
	$node->append_conf('postgresql.conf', "hjoin_gpu.cache_size = '$_'\n");
	$node->restart;
	my $kept = sql(q{SELECT hjoin_gpu_keep('large')});
	$_ eq '64MB' ? is($kept, pages_of('large'), 'all is kept in 64 MB') : $_ eq '0' ? is($kept, 0, 'nothing is kept in no memory') : cmp_ok(sql($used), '<=', 1024 * 1024, 'no more than 1 MB is used');
	is_core(sum_of('large'), "rows with a store of $_") for 1 .. 3;
	next if $_ ne '1MB';
	my $by_segments = () = sql(map { $ours . 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) ' . sum_of('large') } 1 .. 20) =~ /Blocks Read: \d{3}/g;
	cmp_ok($by_segments, '<=', 3, 'a table that finds no memory is tried now and then only');
}
like(($node->psql('postgres', q{SET hjoin_gpu.cache_size = '1MB'}))[2], qr/cannot be changed without restarting/, 'the size is the postmaster\'s');

# --- a standby serves nothing, and keeps and serves when it is promoted
wait_ready($node);
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
sql('UPDATE t4 SET v = id WHERE id < 1000', 'VACUUM t4');
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', q{SELECT hjoin_gpu_keep('t4')}), 0, 'a standby keeps nothing');
is($standby->safe_psql('postgres', $ours . sum_of('t4')), sql("SET hjoin_gpu.enabled = off; " . sum_of('t4')), 'and reads pages') for 1 .. 3;
is($standby->safe_psql('postgres', $used), 0, 'all the time');
my $old = open_session($standby);
my $before = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $ours" . sum_of('t4'));
$standby->promote;
cmp_ok($standby->safe_psql('postgres', q{SELECT hjoin_gpu_keep('t4')}), '>', 0, 'it keeps when it was promoted');
$standby->safe_psql('postgres', q{UPDATE t4 SET v = 'x' WHERE id < 2000; DELETE FROM t4 WHERE id > 11000});
$standby->safe_psql('postgres', "$_ t4") for 'VACUUM', 'VACUUM';
$standby->safe_psql('postgres', q{SELECT hjoin_gpu_keep('t4')});
is(ask($old, sum_of('t4')), $before, 'a snapshot of before sees its rows');
is($standby->safe_psql('postgres', $ours . sum_of('t4')), $standby->safe_psql('postgres', 'SET hjoin_gpu.enabled = off; ' . sum_of('t4')), 'a new one those of today');
$old->{handle}->finish;
$standby->stop;

# --- snapshots that age, until 16
if ($node->safe_psql('postgres', 'SHOW server_version_num') < 170000)
{
	$node->append_conf('postgresql.conf', "old_snapshot_threshold = '1h'\n");
	$node->restart;
	is(sql(q{SELECT hjoin_gpu_keep('large')}), 0, 'nothing is kept where snapshots age');
	is_core(sum_of('large'), 'and rows are right') for 1 .. 2;
}
is(log_count($node, qr/PANIC|TRAP/), 0, 'no assertion failed');
$node->stop;

# --- changes that are not logged
my $minimal = start_node('minimal', conf => "autovacuum = off\nwal_level = minimal\nmax_wal_senders = 0\nhjoin_gpu.cache_size = '16MB'\nwal_skip_threshold = 0\n");
$node = $minimal;
sql('CREATE EXTENSION pageinspect', 'CREATE TABLE r AS SELECT g AS k FROM generate_series(0, 6) g', 'VACUUM r');
sql('BEGIN', 'CREATE TABLE t (id int, k int, v text)', q{COPY t (id) FROM PROGRAM 'seq 1 30000'}, 'UPDATE t SET k = id % 7', q{SELECT hjoin_gpu_keep('t')}, 'COMMIT');
sql('VACUUM t');
my $logged = q{SELECT count(*) FROM generate_series(0, pg_relation_size('t') / 8192 - 1) b, page_header(get_raw_page('t', b::int)) h WHERE h.lsn <> '0/0' OR h.lower <= 24};
is(sql(q{SELECT hjoin_gpu_keep('t')}), sql($logged), 'pages with rows that were never logged are not kept');
is_core(sum_of('t'), 'a table that was filled without logging') for 1 .. 2;
sql(q{UPDATE t SET v = 'logged' WHERE id % 3 = 0}, 'VACUUM t', 'VACUUM t');
is(sql(q{SELECT hjoin_gpu_keep('t')}), sql($logged), 'until they are');
is_core(sum_of('t'), 'its rows after an update') for 1 .. 2;
sql(q{UPDATE t SET v = 'again' WHERE id % 5 = 0});
is_core(sum_of('t'), 'and after another one');
sql('BEGIN', 'TRUNCATE t', q{COPY t (id) FROM PROGRAM 'seq 1 9000' (FREEZE)}, q{SELECT hjoin_gpu_keep('t')}, 'UPDATE t SET k = 1 WHERE id < 10', 'COMMIT');
sql(q{SELECT hjoin_gpu_keep('t')});
is_core(sum_of('t'), 'rows that were frozen without logging');
sql(q{UPDATE t SET k = 2 WHERE id % 100 = 0});
is_core(sum_of('t'), 'and then updated');
is(log_count($node, qr/server process .* was terminated|PANIC|TRAP/), 0, 'no server process died');
$node->stop;

# --- comparing with pages
$node = start_node('verify', conf => "huge_pages = off\nautovacuum = off\nwal_level = replica\nshared_buffers = '1MB'\nmax_connections = 20\nhjoin_gpu.cache_size = '16MB'\n");
if (sql('SHOW data_checksums') eq 'on')
{
	$node->stop;
	PostgreSQL::Test::Utils::system_or_bail('pg_checksums', '--disable', '-D', $node->data_dir);
	$node->start;
}
sql('CREATE TABLE r AS SELECT g AS k FROM generate_series(0, 6) g', 'VACUUM r');
sql(q{CREATE TABLE t AS SELECT g AS id, g % 7 AS k, CASE WHEN g % 11 <> 0 THEN g / 8.0 END AS n, CASE WHEN g % 5 <> 0 THEN 'verify me' END AS w, md5(g::text) AS v FROM generate_series(1, 20000) g},
	'VACUUM t', 'CHECKPOINT');
$pages = pages_of('t');
is(sql(q{SELECT hjoin_gpu_keep('t')}), $pages, 'a table is kept');
my $all = 'SELECT count(*), sum(id), sum(n), count(w), sum(hashtextextended(v, 0)) FROM (SELECT t.* FROM t JOIN r USING (k) OFFSET 0) x';
my $words = 'SELECT w, count(*) FROM t JOIN r USING (k) GROUP BY w ORDER BY w';

# Run a query while a share of the blocks is compared; returns its rows, the messages, and the number of blocks that were compared.
sub verify
{
	my ($query, $share, $how) = @_;
	my $count = q{SELECT coalesce(max(blocks_verified), 0) FROM hjoin_gpu_cache WHERE relation = 't'::regclass};
	my ($rows, $messages);
	my $before = sql($count);

	$node->psql('postgres', ($how // $ours) . " SET hjoin_gpu.verify = $share; $query", stdout => \$rows, stderr => \$messages);
	return ($rows, $messages, sql($count) - $before);
}

my $processes = 'SET hjoin_gpu.force = on; SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; ';
for ([ $all, 1, $pages, $pages, 'all blocks' ], [ $all, 0.5, 1, $pages - 1, 'some blocks' ], [ $all, 0, 0, 0, 'no block' ],
	[ 'SELECT count(*) FROM t JOIN r USING (k) WHERE t.id < 0', 1, $pages, $pages, 'blocks that are excluded' ], [ $all, 1, $pages, $pages, 'blocks by several processes', $processes ])
{
	my ($query, $share, $least, $most, $what, $how) = @$_;
	my ($rows, $messages, $verified) = verify($query, $share, $how);

	is($rows, sql("SET hjoin_gpu.enabled = off; $query"), "$what are compared: the rows are right");
	is($messages, '', 'no difference');
	ok($least <= $verified && $verified <= $most, "$verified of $pages blocks were compared");
}

# a page that changes on disk, while the server has it not in memory
sql('DO $$ BEGIN FOR i IN 1 .. 60 LOOP EXECUTE format(\'CREATE TABLE other%s AS SELECT repeat(md5(g::text), 8) AS v FROM generate_series(1, 500) g\', i); END LOOP; END $$', 'CHECKPOINT');
sql(map { "SELECT count(v) FROM other$_" } 1 .. 60);
my $path = $node->data_dir . '/' . sql(q{SELECT pg_relation_filepath('t')});
open my $heap, '+<', $path or die "$path: $!";
binmode $heap;
seek $heap, 5 * 8192, 0;
read $heap, my $block, 8192;
cmp_ok(my $at = index($block, 'verify me'), '>', 0, 'a page has words');
seek $heap, 5 * 8192 + $at, 0;
print $heap 'verify us';
close $heap or die "close: $!";
my ($one, $other) = ('verify me|16000' . "\n|4000", "verify me|15999\nverify us|1\n|4000");
is(sql($ours . 'SET hjoin_gpu.kept_columns = off', $words), $other, 'the page is read again');
is(sql($ours . $words), $one, 'kept columns are as before');
my ($rows_then, $messages, $verified) = verify($words, 1, $processes);
is($rows_then, $other, 'a comparison with pages finds the difference');
like($messages, qr/WARNING:  kept columns of table "t" differ from block 5: kept columns are switched off for all sessions/, 'and says so');
is(sql($ours . $words), $other, 'other sessions have the rows of the pages');
is(kept_blocks($words), 0, 'as they use no kept columns');
is(sql(q{SELECT hjoin_gpu_keep('t')}), 0, 'nor keep any');
$node->restart;
sql(q{SELECT hjoin_gpu_keep('t')});
is_core($words, 'after a restart rows are right');
cmp_ok(kept_blocks($words), '>=', $pages, 'and kept columns are used again');
$node->stop;
done_testing();
