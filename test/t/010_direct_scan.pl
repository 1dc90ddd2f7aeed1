# The node reads pages itself: under load, on a standby, when they are damaged, and when the table changes after
# planning.  Rows must be those of core's plan.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{HJG_STRESS_SECONDS} // 3;
my $node = start_node('main', streaming => 1, conf => q{
	autovacuum = off
	shared_buffers = '16MB'
	max_parallel_workers_per_gather = 0
	hot_standby_feedback = off
	max_standby_streaming_delay = -1
	log_error_verbosity = terse
});

# An answer is a count and a digest of rows; a stable function sees the snapshot of the calling query, so two calls see
# the same rows.
$node->safe_psql('postgres', q{
	CREATE TABLE l (id int PRIMARY KEY, k int, v int, t text) WITH (fillfactor = 70);
	CREATE TABLE r (id int PRIMARY KEY, k int, v int);
	INSERT INTO l SELECT g, g % 700, 0, repeat('t', g % 50) FROM generate_series(1, 4000) g;
	INSERT INTO r SELECT g, g % 900, 0 FROM generate_series(1, 2000) g;
	ANALYZE;
	CREATE FUNCTION core() RETURNS text STABLE LANGUAGE plpgsql SET hjoin_gpu.enabled = off AS $$
	BEGIN
		RETURN (SELECT count(*) || ' ' || coalesce(md5(string_agg(q::text, ',' ORDER BY q::text)), '') FROM
			(SELECT l.id, l.v, l.t, r.id AS rid, r.v AS rv FROM l LEFT JOIN r ON l.k = r.k WHERE l.v >= 0) q);
	END $$;
	CREATE FUNCTION ours() RETURNS text STABLE LANGUAGE plpgsql SET hjoin_gpu.force = on AS $$
	BEGIN
		RETURN (SELECT count(*) || ' ' || coalesce(md5(string_agg(q::text, ',' ORDER BY q::text)), '') FROM
			(SELECT l.id, l.v, l.t, r.id AS rid, r.v AS rv FROM l LEFT JOIN r ON l.k = r.k WHERE l.v >= 0) q);
	END $$;
	CREATE PROCEDURE write_for(seconds float8) LANGUAGE plpgsql AS $$
	DECLARE
		until timestamptz := clock_timestamp() + seconds * interval '1 second';
		n int := 0;
	BEGIN
		WHILE clock_timestamp() < until LOOP
			n := n + 1;
			CASE n % 5
				WHEN 0 THEN UPDATE l SET v = v + 1 WHERE id % 37 = (random() * 36)::int;
				WHEN 1 THEN UPDATE r SET k = (random() * 900)::int WHERE id % 41 = (random() * 40)::int;
				WHEN 2 THEN DELETE FROM l WHERE id % 101 = (random() * 100)::int;
				WHEN 3 THEN INSERT INTO l SELECT g, g % 700, n, 'new' FROM generate_series(1, 4000) g WHERE random() < 0.02 ON CONFLICT DO NOTHING;
				ELSE UPDATE l SET t = 'rolled back' WHERE id % 7 = 3;
			END CASE;
			IF n % 5 = 4 THEN
				ROLLBACK;
			ELSE
				COMMIT;
			END IF;
		END LOOP;
	END $$;
	CREATE FUNCTION error_of(query text) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		EXECUTE query;
		RETURN 'no error';
	EXCEPTION WHEN OTHERS THEN
		RETURN SQLSTATE || ' ' || SQLERRM;
	END $$;
});

# Run statements one by one in their own session, since VACUUM cannot run in a transaction.
sub start_script
{
	my (@statements) = @_;
	my %script = (stdin => join('', map { "$_;\n" } @statements), stdout => '', stderr => '');
	$script{handle} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', '-' ],
		'<', \$script{stdin}, '>', \$script{stdout}, '2>', \$script{stderr});
	return \%script;
}

sub plan_is_direct
{
	my ($on) = @_;
	return $on->safe_psql('postgres', q{SET hjoin_gpu.force = on;
		EXPLAIN (VERBOSE, COSTS OFF) SELECT l.id FROM l LEFT JOIN r ON l.k = r.k WHERE l.v >= 0}) =~ /Direct Scan: both/;
}

# Compare answers for some seconds; returns the number of runs and of differences, and the kinds of errors.
sub compare_for
{
	my ($on, $isolation, $duration) = @_;
	my ($runs, $different, %errors, %seen) = (0, 0);
	my $end = time + $duration;

	while (time < $end)
	{
		my ($rc, $out, $err) = $on->psql('postgres',
			"BEGIN ISOLATION LEVEL $isolation; SELECT core(), ours(), ours(), core(); "
			. ($isolation eq 'SERIALIZABLE' ? 'UPDATE r SET v = v + 1 WHERE id = 5; ' : '') . 'COMMIT', timeout => 60);
		if ($rc != 0)
		{
			$errors{ $err =~ /(could not serialize|conflict with recovery)/ ? $1 : $err }++;
			next;
		}
		my @answers = split /\|/, $out;
		$runs++;
		$seen{ $answers[0] } = 1;
		# with a snapshot for each transaction all of its answers are equal, otherwise those of one statement
		$different++ if grep { $_ ne $answers[0] } @answers;
	}
	return ($runs, $different, scalar(keys %seen), join('; ', sort keys %errors));
}

# --- under load ---------------------------------------------------------------------
ok(plan_is_direct($node), 'both sides are read directly');
for my $isolation ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	my @load = (
		(map { start_query($node, "CALL write_for($seconds)") } 1 .. 2),
		start_script(map { ('VACUUM l', 'SELECT pg_sleep(0.02)', 'VACUUM r') } 1 .. $seconds * 25));
	my ($runs, $different, $seen, $errors) = compare_for($node, $isolation, $seconds);
	my @ends = map { (finish_query($_))[1] } @load;

	cmp_ok($runs, '>', 3, "$isolation: answers were compared ($runs times)");
	is($different, 0, "$isolation: they are core's while others write and vacuum");
	cmp_ok($seen, '>', 1, "$isolation: the tables changed meanwhile ($seen answers)");
	like($errors, qr/^(could not serialize)?$/, "$isolation: no errors but serialization failures");
	is(join('', grep { !/could not serialize|deadlock/ } @ends), '', "$isolation: the load ran");
}

# --- on a standby, which must not rely on all-visible pages ---------
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('write'));
ok(plan_is_direct($standby), 'both sides are read directly on a standby');
{
	my @load = (start_query($node, "CALL write_for($seconds)"),
		start_script(map { ('VACUUM l', 'SELECT pg_sleep(0.02)', 'VACUUM r') } 1 .. $seconds * 25));
	my ($runs, $different, $seen, $errors) = compare_for($standby, 'REPEATABLE READ', $seconds);
	finish_query($_) foreach @load;
	cmp_ok($runs, '>', 3, "standby: answers were compared ($runs times)");
	is($different, 0, "standby: they are core's while changes are replayed");
	cmp_ok($seen, '>', 1, "standby: the tables changed meanwhile ($seen answers)");
	like($errors, qr/^(conflict with recovery)?$/, 'standby: no errors but conflicts with recovery');
}
$standby->stop;

# --- synchronized scans of a table that is large beside shared_buffers ------------------------------
my $make_big = q{CREATE TABLE big AS SELECT g AS id, g % 900 AS k, repeat('x', 200) AS pad FROM generate_series(1, 60000) g;
	ANALYZE big};
$node->safe_psql('postgres', $make_big);
my $sums = 'SELECT count(*), sum(big.id), count(DISTINCT big.id) FROM big JOIN r ON big.k = r.id';
is($node->safe_psql('postgres', "SET hjoin_gpu.force = on; $sums; SELECT id FROM big LIMIT 1 OFFSET 30000; $sums") =~ s/\n\d+\n/\n/r,
	join("\n", ($node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $sums")) x 2), 'a scan that begins in the middle of a table reads all of it once');

# Return the block where the second of two scans begins; scans of a new table begin at its first block.
sub second_begins
{
	my ($first, $second) = @_;
	my %scans = (core => 'SET hjoin_gpu.enabled = off; SELECT id FROM big LIMIT 1',
		ours => 'SET hjoin_gpu.enabled = on; SET hjoin_gpu.force = on; SELECT big.id FROM big LEFT JOIN (VALUES (1), (2)) o(k) ON big.k = o.k LIMIT 1');
	$node->safe_psql('postgres', "DROP TABLE big; $make_big");
	my @ids = split /\n/, $node->safe_psql('postgres', "$scans{$first} OFFSET 30000; $scans{$second}");
	is($ids[0], 30001, "the scan of $first begins with the first row");
	return $ids[1];
}
cmp_ok(second_begins('core', 'ours'), '>', 20000, 'a scan of ours begins where one of core is');
cmp_ok(second_begins('ours', 'core'), '>', 25000, 'and the other way round');

# --- the table changes between planning and execution ------------------------------------------
for my $change (
	'TRUNCATE c', 'VACUUM FULL c', 'ALTER TABLE c ALTER k TYPE bigint', 'ALTER TABLE c DROP w', 'ALTER TABLE c ADD x int DEFAULT 5',
	'CLUSTER c USING c_pkey', 'DROP TABLE c', 'ALTER TABLE c RENAME k TO kk', 'DELETE FROM c WHERE id > 10', 'ALTER TABLE c SET UNLOGGED')
{
	my @got;
	for my $way ('hjoin_gpu.enabled = off', 'hjoin_gpu.force = on')
	{
		$node->safe_psql('postgres', 'DROP TABLE IF EXISTS c; CREATE TABLE c (w int, id int PRIMARY KEY, k int, v int);
			INSERT INTO c SELECT g, g, g % 100, g FROM generate_series(1, 2000) g; ANALYZE c');
		my $session = start_script("SET $way", 'SET plan_cache_mode = force_generic_plan',
			'PREPARE p AS SELECT count(*), sum(c.v), sum(r.id) FROM c JOIN r ON c.k = r.id',
			'EXECUTE p', 'EXECUTE p', $change, 'VACUUM c', 'EXECUTE p');
		push @got, join("\n", finish_query($session));
	}
	like($got[1], qr/^1980\|/, "$change: the cached plan ran before");
	is($got[1], $got[0], "$change: afterwards it gives core's answer or error");
}

# --- damaged pages -------------------------------------------------------------------------------
# without checksums at first, which are the default since PostgreSQL 18
$node->stop;
run_command([ 'pg_checksums', '--disable', '--no-sync', '-D', $node->data_dir ]);
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE damaged AS SELECT g AS id, g % 900 AS k FROM generate_series(1, 20000) g;
	ANALYZE damaged; CHECKPOINT');
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('damaged')");

# Overwrite bytes of a block while the server is down.
sub overwrite
{
	my ($block, $off, $bytes) = @_;
	$node->stop;
	open my $fh, '+<', $file or die "could not open $file: $!";
	binmode $fh;
	seek($fh, $block * 8192 + $off, 0) or die $!;
	print $fh $bytes;
	close $fh or die $!;
	$node->start;
	return;
}

sub damaged_answer
{
	my ($way) = @_;
	my $session = start_script("SET $way", 'SET hjoin_gpu.in_backend_rows = 0',
		'\\set VERBOSITY verbose' . "\nSELECT count(*), sum(d.id) FROM damaged d JOIN r ON d.k = r.k",
		"SELECT error_of('SELECT count(*) FROM r JOIN damaged d ON d.k = r.k')", 'SET zero_damaged_pages = on',
		'SELECT count(*), sum(d.id) FROM damaged d JOIN r ON d.k = r.k');
	my ($out, $err) = finish_query($session);
	$err =~ s/^LOCATION:.*\n//mg;
	return "$out\n$err";
}

my $whole = damaged_answer('hjoin_gpu.force = on');
overwrite(30, 0, "\0" x 8192);
my $zeroed = damaged_answer('hjoin_gpu.force = on');
is($zeroed, damaged_answer('hjoin_gpu.enabled = off'), "a page of zeros: core's answer");
isnt($zeroed, $whole, 'a page of zeros: its rows are gone');
overwrite(40, 0, "\xFF" x 64);
my $corrupt = damaged_answer('hjoin_gpu.force = on');
like($corrupt, qr/XX001.*invalid page in block 40/s, 'a corrupt page: an error');
overwrite(40, 0, "\xFF" x 64);
is($corrupt, damaged_answer('hjoin_gpu.enabled = off'), "a corrupt page: core's text and code");

# a row whose header has fewer or more attributes than the table: t_infomask2 of the first row
sub bytes_of
{
	my ($block, $off, $n) = @_;
	open my $fh, '<', $file or die "could not open $file: $!";
	binmode $fh;
	seek($fh, $block * 8192 + $off, 0) or die $!;
	read($fh, my $bytes, $n) == $n or die "could not read $file";
	return $bytes;
}
$node->safe_psql('postgres', 'CREATE TABLE few AS SELECT g AS id, g % 900 AS k, g AS v FROM generate_series(1, 300) g; ANALYZE few; CHECKPOINT');
$file = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('few')");
my $rows_of_few = 'SELECT count(*), count(f.v), sum(f.v), count(f.k), sum(f.id) FROM few f LEFT JOIN r ON f.k = r.k WHERE f.v > 0 OR f.v IS NULL';
my $tuple = unpack('V', bytes_of(0, 24, 4)) & 0x7FFF;
my %answers;
for my $natts (3, 1, 2, 2047)
{
	overwrite(0, $tuple + 18, pack('v', $natts));
	$answers{$natts} = $node->safe_psql('postgres', "SET hjoin_gpu.force = on; $rows_of_few");
	is($answers{$natts}, $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $rows_of_few"), "a row with $natts attributes: core's answer");
}
isnt($answers{1}, $answers{3}, 'a row with too few attributes: the others are NULL');
is($answers{2047}, $answers{3}, 'a row with too many attributes: those that the table has');

# a well-formed page with other contents than were written
$node->safe_psql('postgres', 'TRUNCATE damaged; INSERT INTO damaged SELECT g, g % 900 FROM generate_series(1, 20000) g; CHECKPOINT');
$node->stop;
system_or_bail('pg_checksums', '--enable', '--no-sync', '-D', $node->data_dir);
$node->start;
$file = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('damaged')");
my $other_byte = chr(255 ^ ord bytes_of(40, 8000, 1));
overwrite(40, 8000, $other_byte);
$corrupt = damaged_answer('hjoin_gpu.force = on');
like($corrupt, qr/XX001.*invalid page in block 40/s, 'a page that fails its checksum: an error');
overwrite(40, 8000, $other_byte);
is($corrupt, damaged_answer('hjoin_gpu.enabled = off'), "a page that fails its checksum: core's text and code");

$node->stop;
done_testing();
