# Rows of kept columns as programs get them: all rows that the snapshot sees, as runs of kept segments and copies of other blocks; and
# what that rests on: looks at the visibility map, pins, and numbers of columns that are never used again.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

# a file of huge pages cannot be written to as this test does
my $node = start_node('main', conf => "hjoin_gpu.cache_size = '64MB'\nautovacuum = off\nwal_level = replica\nrestart_after_crash = on\nhuge_pages = off\n");
my $module = PostgreSQL::Test::Utils::tempdir() . '/kept_collected.so';
my ($includes) = run_command([ $ENV{PG_CONFIG}, '--includedir-server' ]);
system('cc', '-shared', '-fPIC', '-std=gnu11', '-Wall', '-Werror', "-I$FindBin::RealBin/../../src", "-I$includes", '-o', $module, "$FindBin::RealBin/kept_collected.c") == 0
  or die 'kept_collected.c does not build';
chmod 0755, $module;

sub sql { return $node->safe_psql('postgres', join '; ', @_) }

# Run statements; returns their output and their notices.
sub told
{
	my ($rc, $out, $err) = $node->psql('postgres', join('; ', @_));
	return ($out, join ', ', $err =~ /(?:NOTICE|ERROR):\s+(.*)/g);
}

sql("CREATE FUNCTION collected_rows(text, float8) RETURNS SETOF record LANGUAGE c STRICT AS '$module'",
	map { "CREATE FUNCTION $_ LANGUAGE c STRICT AS '$module'" } 'collect_and_fail(text) RETURNS void', 'pages_asked(text, text) RETURNS bigint', 'kept_ids(text) RETURNS bigint[]',
	'kept_pins(regclass) RETURNS bigint', 'wrong_looks(regclass) RETURNS bigint', 'late_look(regclass, text) RETURNS int');

# --- 12 segments of 256 blocks, the last one cut
sql('CREATE TABLE t (id int, k int, v numeric(10,2), w text) WITH (fillfactor = 10)',
	q{INSERT INTO t SELECT g, nullif(g / 1000, 7), g / 100.0, CASE WHEN g % 11 > 0 THEN 'word ' || g % 50 END FROM generate_series(1, 40000) g}, 'VACUUM ANALYZE t');
my $npages = sql(q{SELECT pg_relation_size('t') / 8192});
cmp_ok($npages, '>', 1100, 'the table has more segments than a scan pins as a rule');
my $columns = 'id int, k int, v numeric, w text';
my $hash = 'count(*), sum(hashtextextended(x::text, 0))';

# Check that the rows which pass the conditions are core's; returns the notices.
sub is_collected
{
	my ($where, $name, $most_live, @before) = @_;
	my ($rows, $notices) = told(@before, "SELECT $hash FROM (SELECT * FROM collected_rows(\$q\$SELECT * FROM t $where\$q\$, $most_live) AS t($columns) $where) x",
		"SELECT $hash FROM (SELECT * FROM t $where) x");
	my ($collected, $core) = (split /\n/, $rows)[-2, -1];

	is($collected, $core, "$name: rows are core's");
	return $notices;
}

is((told(q{SELECT kept_ids('SELECT * FROM t')}))[1], 'columns are not kept', 'nothing is kept before somebody else has read the columns');
is(sql(q{SELECT hjoin_gpu_keep('t')}), $npages, 'all is kept');
is(is_collected('', 'all kept', 0), "$npages served, 0 skipped, 0 live", 'all blocks are served');
my ($served, $skipped) = is_collected('WHERE k = 30', 'a range', 0) =~ /^(\d+) served, (\d+) skipped, 0 live$/;
is($served + $skipped, $npages, 'segments without a row that passes are skipped');
cmp_ok($served, '<=', 512, 'and those are most');
like(is_collected(q{WHERE w = 'no such word' AND v > 0}, 'words', 0), qr/^0 served/, 'segments without the word are skipped, too');
like(is_collected('WHERE k = (SELECT 30)', 'a subquery', 0), qr/^no bound conditions/, 'an operand that may fail is not evaluated');
like(is_collected('WHERE k % 2 = 0', 'another condition', 0), qr/^$npages served/, 'conditions of core skip nothing');

# --- looks
sql('CREATE EXTENSION pg_visibility', 'CREATE TABLE wide (id int, v text) WITH (fillfactor = 10)', 'ALTER TABLE wide ALTER v SET STORAGE PLAIN',
	q{INSERT INTO wide SELECT g, repeat('x', 4100) FROM generate_series(1, 33500) g}, 'VACUUM wide');
is(sql(q{SELECT wrong_looks('wide')}), 0, 'looks at two pages of the map are right');
sql('UPDATE wide SET id = 0 WHERE id % 5 = 0 OR id BETWEEN 32500 AND 32800');
is(sql(q{SELECT wrong_looks('wide') || ' ' || all_visible FROM pg_visibility_map_summary('wide')}), '0 ' . sql(q{SELECT all_visible FROM pg_visibility_map_summary('wide')}),
	'and with holes');
sql('DROP TABLE wide');
is(sql(q{SELECT wrong_looks('t')}), 0, 'looks at a segment that is cut are right');

# --- two looks, of which the older one comes to the segment later: it shows a block whose bit was set again before and cleared between them; both have one
# LSN, unless the server is one that stamps the map when it clears a bit (kept_valid.c)
sql('CREATE TABLE late (id int, v int) WITH (fillfactor = 50)', 'INSERT INTO late SELECT g, g FROM generate_series(1, 20000) g', 'VACUUM late', q{SELECT hjoin_gpu_keep('late')},
	'UPDATE late SET v = 0 WHERE id = 5', 'VACUUM late');
is(sql(q{SELECT late_look('late', 'UPDATE late SET v = 1 WHERE id = 5')}), 0, 'a block that was not asked for when the segment took over an LSN is not served');
sql('DROP TABLE late');

# --- blocks that have changed
sql('UPDATE t SET w = NULL WHERE id % 4000 = 1', 'DELETE FROM t WHERE id BETWEEN 20000 AND 20200', q{INSERT INTO t SELECT g, 1, 1, 'new' FROM generate_series(50001, 52800) g});
is((told(q{SELECT kept_ids('SELECT * FROM t')}))[1], 'too many blocks have to be read', 'changed blocks are read, unless they are too many');
my $blocker = open_session($node);
ask($blocker, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
sql('UPDATE t SET v = v + 1 WHERE id % 4000 = 2');
like(is_collected('', "changed blocks, time $_", 0.1), qr/^\d{3,} served, 0 skipped, [1-9]\d* live$/, 'those that not all see alike are read each time') for 1, 2;
ask($blocker, 'COMMIT');
like(is_collected('WHERE k = 30', 'changed blocks and a range', 0.1), qr/served, \d{3,} skipped, [1-9]\d* live$/, 'and those of segments that are skipped');
is_collected('', 'changed blocks, until making the patch anew pays', 0.1) for 1 .. 5;
$npages = sql(q{SELECT pg_relation_size('t') / 8192});
is(is_collected('', 'changed blocks, patched', 0), "$npages served, 0 skipped, 0 live", 'the next scan finds them in patches');
is((told(q{SELECT count(*) FROM collected_rows('SELECT id, v FROM t', 0) AS t(id int, v numeric)}))[1], "$npages served, 0 skipped, 0 live", 'also one of some of the columns');

# --- patches whose blocks change
sql('UPDATE t SET v = v + 1 WHERE id = 4001');
like(is_collected('', 'a block of a patch that changed', 0.1), qr/served, 0 skipped, [12] live$/, 'it is read again');
sql('UPDATE t SET w = w || 0 WHERE id IN (8001, 12001, 16001) OR id % 1000 = 3');
like(is_collected('', 'many that changed', 0.1), qr/served, 0 skipped, \d\d+ live$/, 'they are read');
like(is_collected('', 'a patch that was made anew', 0.1), qr/served, 0 skipped, 0 live$/, 'it has the old blocks, too');

# --- pages are asked again only if something was written to the log; the server's processes write to it by themselves, but seldom
sub asked
{
	my ($table, $statement) = @_;
	return sql("SELECT pages_asked('SELECT id FROM $table', \$\$$statement\$\$)");
}
my $log = q{SELECT pg_logical_emit_message(false, 'test', 'written')};
sql('CREATE TABLE young AS SELECT g AS id FROM generate_series(1, 100000) g');
# pages that were added and not used yet, as PostgreSQL 16 leaves them behind a bulk insert
PostgreSQL::Test::Utils::append_to_file($node->data_dir . '/' . sql(q{SELECT pg_relation_filepath('young')}), "\0" x (20 * 8192));
sql(q{SELECT hjoin_gpu_keep('young')});
my %pages = (t => 30, young => sql(q{SELECT pg_relation_size('young') / 8192}));
foreach my $table ('t', 'young')
{
	ok(scalar(grep { asked($table, 'SELECT 1') < 5 } 1 .. 3), "$table: nothing was written, and no page is asked");
	cmp_ok(asked($table, $log), '>=', $pages{$table}, 'else all are, that the map does not vouch for');
}
sql('UPDATE t SET v = v + 1 WHERE id = 12001', 'UPDATE young SET id = -id WHERE id = 5');
like(is_collected('', 'a page that has changed since it was asked', 0.1), qr/served, 0 skipped, [12] live$/, 'it is read');
is(sql(q{SELECT sum(id) FROM collected_rows('SELECT id FROM young', 1) AS t(id int)}), sql('SELECT sum(id) FROM young'), 'and in a table without a map');
is(sql(q{SELECT (ctid::text::point)[0] > 440 FROM young WHERE id = -5}), 't', 'of which a page that was new has the row');
sql('DROP TABLE young');

sql('DELETE FROM t WHERE id > 50000', 'VACUUM t');
cmp_ok($npages, '>', sql(q{SELECT pg_relation_size('t') / 8192}), 'the end of the table is cut off');
is_collected('', 'blocks of a patch that are cut off', 0.1);
sql(q{INSERT INTO t SELECT g, 2, 3, 'newer' FROM generate_series(50001, 52800) g});
like(is_collected('', 'and are there again', 0.1), qr/served, 0 skipped, [1-9]\d* live$/, 'they are others');
sql(q{SELECT hjoin_gpu_keep('t')});
my $kept_blocks = q{SELECT max(blocks) FROM hjoin_gpu_cache WHERE relation = 't'::regclass};
cmp_ok(sql($kept_blocks), '>', sql(q{SELECT pg_relation_size('t') / 8192}), 'segments made anew have the blocks of patches, too');
like(is_collected('', 'segments made anew', 0), qr/ 0 live$/, 'no block is read');
is(sql($kept_blocks), sql(q{SELECT pg_relation_size('t') / 8192}), 'and patches that are not needed any more are gone');

# --- numerics that are integers in old blocks, and not all in new ones
sql('CREATE TABLE numbers (id int, n numeric) WITH (fillfactor = 50)', 'INSERT INTO numbers SELECT g, g * 0.25 FROM generate_series(1, 40000) g', 'VACUUM numbers', q{SELECT hjoin_gpu_keep('numbers')},
	q{UPDATE numbers SET n = 'NaN' WHERE id = 9000}, q{UPDATE numbers SET n = n * 10 WHERE id IN (15000, 35000)}, q{SELECT hjoin_gpu_keep('numbers')});
is(sql(q{SELECT array_agg(n ORDER BY id) = (SELECT array_agg(n ORDER BY id) FROM numbers) FROM collected_rows('SELECT * FROM numbers', 1) AS t(id int, n numeric)}), 't',
	'blocks that are copied have the values that they had');

# --- segments that are made anew give their memory back
sql('CREATE TABLE renewed (id int, v int) WITH (fillfactor = 40)', 'INSERT INTO renewed SELECT g, g % 5000 FROM generate_series(1, 400000) g', 'VACUUM renewed', q{SELECT hjoin_gpu_keep('renewed')});
my $used = sql('SELECT used_bytes FROM hjoin_gpu_cache_memory()');
sql('UPDATE renewed SET v = v + 1 WHERE id % 100 = 0', q{SELECT hjoin_gpu_keep('renewed')}) for 1 .. 5;
my $more = sql('SELECT used_bytes FROM hjoin_gpu_cache_memory()') - $used;
cmp_ok($more, '<', sql(q{SELECT sum(bytes) FROM hjoin_gpu_cache WHERE relation = 'renewed'::regclass}), 'five times anew take no more memory than once');
sql('DROP TABLE renewed');

# --- patches of other columns
sql('CREATE TABLE narrow AS SELECT g AS id, g % 7 AS a, g % 11 AS b FROM generate_series(1, 100000) g', 'VACUUM narrow', q{SELECT hjoin_gpu_keep('narrow')}, 'UPDATE narrow SET a = a + 1 WHERE id % 900 = 0');
my %one = map { $_ => "SELECT sum($_), count(*) FROM collected_rows('SELECT $_ FROM narrow', 1) AS t($_ int)" } 'a', 'b';
like((told($one{a}))[1], qr/served, 0 skipped, [1-9]\d* live$/, 'the first scan reads them');
like((told($one{b}))[1], qr/served, 0 skipped, [1-9]\d* live$/, 'and one of another column, too');
like((told($one{$_}))[1], qr/served, 0 skipped, 0 live$/, "then both are patched: $_") for 'a', 'b';
is(sql($one{$_}), sql("SELECT sum($_), count(*) FROM narrow"), 'with the right values') for 'a', 'b';

# --- snapshots
sql('UPDATE t SET w = NULL WHERE id % 4000 = 1', 'DELETE FROM t WHERE id BETWEEN 30000 AND 30200');
is(is_collected('', 'own changes', 0.1, 'BEGIN', 'UPDATE t SET v = -v WHERE id = 33') =~ /live/, 1, 'with changes of the transaction itself');
my $writer = open_session($node);
ask($writer, 'BEGIN; UPDATE t SET v = 17 WHERE id = 44; DELETE FROM t WHERE id = 45');
like(is_collected('', 'changes that nobody else sees', 0.1), qr/live$/, 'and those of others');
my $old = open_session($node);
my $old_sum = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT $hash FROM t x");
ask($writer, 'COMMIT; VACUUM t');
sql(q{SELECT hjoin_gpu_keep('t')});
is(scalar ask($old, "SELECT $hash FROM (SELECT * FROM collected_rows('SELECT * FROM t', 1) AS t($columns)) x"), $old_sum, 'an old snapshot sees old rows');
$_->{handle}->finish for $writer, $old;
sql('VACUUM t', q{SELECT hjoin_gpu_keep('t')});
like(is_collected('', 'kept again', 0), qr/ 0 live$/, 'all blocks are kept again');

# --- strings without codes, in a table that is written again: from PostgreSQL 16 on the first writing leaves blocks at its end that it has not used
my $strings = q{FROM (SELECT * FROM collected_rows('SELECT id, w FROM many', 0) AS t(id int, w text)) x};
sql(q{CREATE TABLE many AS SELECT g AS id, CASE WHEN g % 9 > 0 THEN 'one of many ' || g END AS w FROM generate_series(1, 20000) g}, 'VACUUM FULL many', 'VACUUM many', q{SELECT hjoin_gpu_keep('many')});
like((told(q{SELECT kept_ids('SELECT id, w FROM many')}))[1], qr/ 0 live$/, 'strings that are all different are collected');
is(sql("SELECT $hash $strings"), sql("SELECT $hash FROM many x"), 'as they are');

# --- strings that somebody has written to; the rest is compared by whoever reads it
sql(q{CREATE TABLE scribbled AS SELECT g AS id, CASE WHEN g % 2 = 0 THEN 'scribble me' ELSE 'leave me' END AS v FROM generate_series(1, 5000) g}, 'VACUUM scribbled',
	q{SELECT hjoin_gpu_keep('scribbled')});
my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
my ($file) = grep { (readlink($_) // '') =~ /kept columns/ } glob "/proc/$postmaster/fd/*";
open my $memory, '+<', $file or die "$file: $!";
binmode $memory;
my $bytes = do { local $/; <$memory> };
foreach my $string ('scribble me', 'one of many 12345')
{
	seek $memory, index($bytes, $string), 0;
	print $memory $string =~ s/e/E/r;
}
close $memory or die "close: $!";
my ($rows, $said);
$node->psql('postgres', q{SELECT v, count(*) FROM collected_rows('SELECT * FROM scribbled', 1) AS t(id int, v text) GROUP BY v ORDER BY v}, stdout => \$rows, stderr => \$said);
is($rows, "leave me|2500\nscribble me|2500", 'changed words are not served');
like($said, qr/WARNING:  kept columns of table "scribbled" have changed in memory/, 'and it is said');
$node->psql('postgres', "SELECT $hash " . $strings =~ s/, 0\)/, 1)/r, stdout => \$rows, stderr => \$said);
like($said, qr/a segment is damaged/, 'changed strings without codes are the business of who reads them');
my $like = q{SELECT count(*) FROM many WHERE w LIKE 'one of many 1234%'};
$node->psql('postgres', "SET hjoin_gpu.device = 'cpu'; SET hjoin_gpu.force = on; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $like; $like", stdout => \$rows, stderr => \$said);
my $passing = sql("SET hjoin_gpu.enabled = off; $like");
like($rows, qr/Programs: 0\s+Fallback: .*\n$passing\Z/s, 'as of the device process, which leaves them to the backend');
like($said, qr/WARNING:  kept columns of table "many" have changed in memory/, 'and that sees it, too');

# --- numbers of columns
my $ids = q{SELECT unnest(kept_ids('SELECT id, k FROM t'))};
sql("CREATE TABLE ids AS $ids AS id");
is(sql('SELECT count(*) = count(DISTINCT id) AND min(id) > 0 FROM ids'), 't', 'columns have numbers of their own');
sql('UPDATE t SET k = k + 1', 'VACUUM FULL t', 'VACUUM t', q{SELECT hjoin_gpu_keep('t')});
is(sql("SELECT count(*) > 0 AND min(x.id) > (SELECT max(id) FROM ids) FROM ($ids AS id) x"), 't', 'and new ones when they are made anew');
sql("INSERT INTO ids $ids");
my $victim = open_session($node);
kill 'KILL', scalar ask($victim, 'SELECT pg_backend_pid()');
eval { $victim->{handle}->finish };
wait_until(sub { log_count($node, 'all server processes terminated; reinitializing') > 0 }, 60);
$node->poll_query_until('postgres', 'SELECT true') or die 'the server does not come back';
sql(q{SELECT hjoin_gpu_keep('t')});
is(sql("SELECT count(*) > 0 AND min(x.id) > (SELECT max(id) FROM ids) FROM ($ids AS id) x"), 't', 'also after a crash of the server');

# --- pins
is(sql(q{SELECT kept_pins('t')}), 0, 'no pin is left at the end');
is((told(q{SELECT collect_and_fail('SELECT id, k FROM t')}))[1] =~ /failed with ([5-9]|\d\d) segments/, 1, 'an error while segments are pinned');
is(sql(q{SELECT kept_pins('t')}), 0, 'leaves no pin');
is((split /\n/, sql(q{DO $$ BEGIN FOR i IN 1 .. 3 LOOP BEGIN PERFORM collect_and_fail('SELECT id, k FROM t'); EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP;
	IF kept_pins('t') > 0 THEN RAISE 'pins are left'; END IF; END $$}, q{SELECT kept_pins('t')}))[-1], 0, 'nor does one that is caught');

$node->stop;

# --- the number of a dropped file is used again, for a table that is filled without logging: what was kept of new pages is not its own
$node = start_node('minimal', conf => "hjoin_gpu.cache_size = '64MB'\nautovacuum = off\nwal_level = minimal\nmax_wal_senders = 0\nwal_skip_threshold = 0\n");
sql("CREATE FUNCTION collected_rows(text, float8) RETURNS SETOF record LANGUAGE c STRICT AS '$module'", "CREATE FUNCTION use_number(oid) RETURNS void LANGUAGE c STRICT AS '$module'",
	'CREATE TABLE previous (id int)');
my ($previous, $number) = split /\|/, sql(q{SELECT pg_relation_filepath('previous'), pg_relation_filenode('previous')});
PostgreSQL::Test::Utils::append_to_file($node->data_dir . "/$previous", "\0" x (20 * 8192));
is(sql(q{SELECT hjoin_gpu_keep('previous')}), 20, 'new pages are kept, if a table has no others');
sql('DROP TABLE previous', 'VACUUM pg_class', 'CHECKPOINT');
sql("SELECT use_number($number)", 'BEGIN', 'CREATE TABLE following (id int)', 'INSERT INTO following SELECT generate_series(1, 50000)', 'COMMIT');
is(sql(q{SELECT pg_relation_filenode('following')}), $number, 'the number of the file is used again');
is(sql(q{SELECT sum(id) FROM collected_rows('SELECT id FROM following', 1) AS t(id int)}), 1250025000, 'all rows of the new file are read');

done_testing();
