# Readers compare kept columns, pages and core's answers under one snapshot, while others write, vacuum, keep, evict and change tables.
#
#   HJG_KEPT_SECONDS=3600    how long (default 20)
#   HJG_KEPT_SEED=N          seed
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{HJG_KEPT_SECONDS} // 20;
my $seed = $ENV{HJG_KEPT_SEED} // time ^ $$ << 8;
diag("HJG_KEPT_SEED=$seed");

my $node = start_node('main', conf => "autovacuum = off\nwal_level = replica\nmax_connections = 40\nmax_prepared_transactions = 10\nmax_worker_processes = 16\n"
	  . "max_parallel_workers = 8\ndeadlock_timeout = '100ms'\nhjoin_gpu.cache_size = '4MB'\n");
my $ntables = 4;

sub one_of { return $_[ rand @_ ] }
sub any_table { return 't' . int rand $ntables }
sub between { my ($least, $most) = @_; return $least + int rand($most - $least + 1) }

# Rows from some number on.
sub rows_of
{
	my ($first, $n) = @_;
	return "SELECT g, g % 17, g % " . between(1, 1000) . ", (g % 5000) / 100.0, CASE WHEN g % 13 <> 0 THEN 'word ' || g % " . one_of(3, 200, 100000)
	  . " END, 'z' || g FROM generate_series($first, " . ($first + $n - 1) . ') g';
}

sub create_table
{
	my ($table) = @_;
	return "CREATE TABLE $table (id int, k int, v int, n numeric(10,2), t text, z text) WITH (fillfactor = " . one_of(50, 90, 100) . ", parallel_workers = 2); "
	  . "INSERT INTO $table " . rows_of(1, between(1, 30000));
}

sub insert_rows { my ($table) = @_; return "INSERT INTO $table (id, k, v, n, t, z) " . rows_of(between(1, 1000000), between(1, 500)) }

sub any_write
{
	my $table = any_table();
	my $first = between(0, 30000);
	my $range = "id BETWEEN $first AND " . ($first + between(0, one_of(1, 100, 5000)));

	return one_of(
		insert_rows($table), insert_rows($table),
		"UPDATE $table SET v = v + 1 WHERE $range",
		"UPDATE $table SET t = t || 'x', n = n + " . one_of('1', '0.01', q{'NaN'}) . " WHERE $range AND length(t) < 50",
		"UPDATE $table SET t = NULL, z = repeat(z, 20) WHERE $range AND length(z) < 100",
		"DELETE FROM $table WHERE $range",
		"DELETE FROM $table WHERE ctid >= '(" . between(50, 400) . ",1)'",
		"SELECT count(*) FROM (SELECT FROM $table WHERE $range FOR UPDATE) x");
}

my %acts = (
	writer => sub {
		my ($ask, $number) = @_;
		my $kind = int rand 8;

		return $ask->(any_write()) if $kind < 4;
		$ask->('BEGIN');
		$ask->(any_write()) for 1 .. between(1, 3);
		$ask->('SAVEPOINT s'), $ask->(any_write()), $ask->(one_of('ROLLBACK TO s', 'RELEASE s')) if $kind == 4;
		sleep rand 0.1;
		if ($kind == 5)
		{
			$ask->("PREPARE TRANSACTION 'w$number'");
			sleep rand 0.2;
			return $ask->(one_of('COMMIT', 'ROLLBACK') . " PREPARED 'w$number'");
		}
		return $ask->(one_of('COMMIT', 'COMMIT', 'ROLLBACK'));
	},
	vacuum => sub {
		my ($ask) = @_;
		my $table = any_table();

		$ask->(one_of("VACUUM $table", "VACUUM $table", "VACUUM $table", "VACUUM (FREEZE) $table", "VACUUM (INDEX_CLEANUP off, TRUNCATE off) $table",
				"VACUUM (DISABLE_PAGE_SKIPPING) $table", "SELECT pg_truncate_visibility_map('$table')"));
		sleep rand 0.05;
	},
	keeper => sub {
		my ($ask) = @_;

		$ask->(one_of("SELECT hjoin_gpu_keep('" . any_table() . "')", "SELECT hjoin_gpu_keep('" . any_table() . "', '{id,t}')", 'SELECT count(*) FROM hjoin_gpu_cache'));
		sleep rand 0.3;
	},
	ddl => sub {
		my ($ask) = @_;
		my $table = any_table();
		my $refill = insert_rows($table);

		my $act = one_of(
			"VACUUM (FULL) $table",
			"BEGIN; TRUNCATE $table; $refill; " . one_of('COMMIT', 'ROLLBACK'),
			"BEGIN; ALTER TABLE $table ADD c int DEFAULT " . between(1, 9) . "; SELECT hjoin_gpu_keep('$table'); SELECT sum(c) FROM $table; " . one_of('COMMIT', 'ROLLBACK'),
			"ALTER TABLE $table ADD c " . one_of('text', 'int') . ' DEFAULT ' . between(1, 9),
			"ALTER TABLE $table DROP c",
			"ALTER TABLE $table ALTER v TYPE " . one_of('bigint', 'int', 'numeric'),
			"ALTER TABLE $table ALTER t TYPE " . one_of('text', 'varchar'),
			"BEGIN; DROP TABLE $table; " . create_table($table) . '; COMMIT',
			"BEGIN; TRUNCATE $table; COPY $table (id) FROM PROGRAM 'seq 1 " . between(1, 9000) . q{' (FREEZE); } . one_of('COMMIT', 'ROLLBACK'));

		$ask->($act);
		$ask->('ROLLBACK');
		sleep rand 1.5;
	},
	reader => sub {
		my ($ask) = @_;
		my $level = one_of('REPEATABLE READ', 'REPEATABLE READ', 'REPEATABLE READ', 'SERIALIZABLE');
		my $workers = one_of(0, 0, 2);
		my %modes = (core => 'SET LOCAL hjoin_gpu.enabled = off', live => 'SET LOCAL hjoin_gpu.enabled = on; SET LOCAL hjoin_gpu.kept_columns = off',
			kept => 'SET LOCAL hjoin_gpu.enabled = on; SET LOCAL hjoin_gpu.kept_columns = on; SET LOCAL hjoin_gpu.verify = 0',
			verified => 'SET LOCAL hjoin_gpu.enabled = on; SET LOCAL hjoin_gpu.kept_columns = on; SET LOCAL hjoin_gpu.verify = 1');

		$ask->("BEGIN ISOLATION LEVEL $level; SELECT 1; SET LOCAL max_parallel_workers_per_gather = $workers; SET LOCAL hjoin_gpu.in_backend_rows = " . one_of(0, 100000));
		for (1 .. between(1, 4))
		{
			my $table = any_table();
			my $limit = between(0, 1000);
			my $query = one_of(
				"SELECT count(*), sum(hashtextextended(ROW(x.*)::text, 0)) FROM $table x JOIN r ON x.k = r.k",
				"SELECT count(*), sum(hashtextextended(ROW(x.*)::text, 0)) FROM $table x JOIN r ON x.k = r.k WHERE x.v > $limit",
				"SELECT count(*), sum(v), sum(n), min(id), max(id), count(t) FROM $table WHERE id > $limit * 10",
				"SELECT count(*), sum(n), avg(n) FROM $table WHERE n < $limit / 10.0",
				"SELECT count(*), sum(hashtextextended(y::text, 0)) FROM (SELECT t, k, count(*), sum(v), max(n) FROM $table GROUP BY t, k) y",
				"SELECT count(*), sum(a.v), sum(length(b.t)) FROM $table a JOIN " . any_table() . " b ON a.id = b.id WHERE a.v < $limit",
				"SELECT count(*), sum(v) FROM $table WHERE t = 'word " . between(0, 9) . "' OR z IS NULL");
			my %answers;

			if (rand() < 0.1)
			{
				$ask->("$modes{kept}; DECLARE c CURSOR FOR SELECT x.id, x.t FROM $table x JOIN r ON x.k = r.k");
				my @rows = split /\n/, $ask->('FETCH ' . between(1, 300) . ' FROM c') // return;
				sleep rand 0.3;
				push @rows, split /\n/, $ask->('FETCH ALL FROM c') // return;
				my $core = $ask->("CLOSE c; $modes{core}; SELECT x.id, x.t FROM $table x JOIN r ON x.k = r.k") // return;
				$answers{cursor} = join "\n", sort @rows;
				$answers{core} = join "\n", sort split /\n/, $core;
				$query = "cursor over $table";
			}
			else
			{
				for my $mode (sort { rand() <=> 0.5 } keys %modes, 'kept')
				{
					my $answer = $ask->("$modes{$mode}; $query") // return;
					return 'WRONG: two answers of one snapshot' if ($answers{$mode} // $answer) ne $answer;
					$answers{$mode} = $answer;
					sleep rand 0.05 if rand() < 0.3;
				}
			}
			return 'WRONG: ' . join "\n", $query, map { "$_: $answers{$_}" } sort keys %answers if grep { $_ ne $answers{core} } values %answers;
		}
		$ask->('COMMIT');
		return 'compared';
	});

# Errors that others may cause; all others are failures.
my $expected = join '|', 'deadlock detected', 'could not serialize', 'lock timeout', 'does not exist', 'already exists', 'concurrently', 'transaction is aborted',
  'no transaction in progress', 'cannot perform COPY FREEZE', 'could not open relation', 'integer out of range', 'cannot convert NaN', 'is not prepared',
  'numeric field overflow', 'can only be used in transaction blocks', 'multiple assignments', 'column "c"';

# Run an actor until the end; its failures, and for readers the number of comparisons, come through a file.
sub run_actor
{
	my ($kind, $number, $until, $file) = @_;
	my $compared = 0;
	my @failures;

	srand $seed + $number;
	my $session = open_session($node);
	my $ask = sub {
		my ($rows, $messages) = ask($session, $_[0]);
		my @errors = grep { /^(psql:.*)?(ERROR|FATAL|PANIC|WARNING|server closed)/ } split /\n/, $messages;

		push @failures, "$kind $number: $_[0]: $_" for grep { $_ !~ /$expected/ } @errors;
		return (grep { !/WARNING/ } @errors) ? undef : $rows;
	};
	eval {
		$ask->("SET hjoin_gpu.force = on; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET lock_timeout = '2s'");
		while (time < $until && @failures < 5)
		{
			my $result = $acts{$kind}->($ask, $number) // '';
			$compared++ if $kind eq 'reader' && $result eq 'compared';
			push @failures, "$kind $number: $result" if $kind eq 'reader' && $result =~ /^WRONG/;
			$ask->('ROLLBACK') if $kind =~ /reader|writer/;
		}
		$ask->("ROLLBACK PREPARED 'w$number'") if $kind eq 'writer';
		1;
	} or push @failures, "$kind $number: $@";
	append_to_file($file, join "\n", $compared, @failures);
	$session->{handle}->kill_kill;
	POSIX::_exit(0);
}

srand $seed;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_visibility; CREATE TABLE r AS SELECT g AS k FROM generate_series(0, 20) g');
$node->safe_psql('postgres', create_table("t$_")) for 0 .. $ntables - 1;
$node->safe_psql('postgres', 'VACUUM');

my $dir = PostgreSQL::Test::Utils::tempdir();
my @actors = (qw(writer) x 3, qw(vacuum keeper ddl), qw(reader) x 4);
my @children;
my $until = time + $seconds;
for my $number (0 .. $#actors)
{
	my $pid = fork // die "fork: $!";
	run_actor($actors[$number], $number, $until, "$dir/$number") if $pid == 0;
	push @children, $pid;
}
waitpid $_, 0 for @children;

my $compared = 0;
for my $number (0 .. $#actors)
{
	my ($n, @failures) = split /\n/, -e "$dir/$number" ? slurp_file("$dir/$number") : "0\nit ended at once";

	$compared += $n;
	is(join("\n", @failures), '', "$actors[$number] $number");
}
diag("$compared transactions compared");
cmp_ok($compared, '>', $seconds, 'readers have compared answers');
cmp_ok($node->safe_psql('postgres', 'SELECT sum(blocks_served) FROM hjoin_gpu_cache()'), '>', 0, 'some of them from kept columns');
cmp_ok(stat_value($node, 'programs'), '>', 0, 'and by programs');
is($node->safe_psql('postgres', 'SELECT sum(blocks_verified) > 0 FROM hjoin_gpu_cache()'), 't', 'blocks were compared with pages');
is(log_count($node, qr/differ from (?:block|core)|have changed in memory/), 0, 'and no difference was found');
is(log_count($node, qr/server process .* was terminated|PANIC|TRAP/), 0, 'no server process died');
$node->stop;
done_testing();
