# The extension is created and dropped while sessions use it, moves by pg_dump and pg_upgrade, and has settings by
# database, role and function.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $query = 'SELECT count(*), sum(build.id::bigint * probe.id) FROM build JOIN probe USING (k)';
my $ours = 'SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0; SET max_parallel_workers_per_gather = 0';

# --- preloaded, but not created
my $node = start_node('main', no_extension => 1);
make_tables($node);
my $answer = $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $query");
like($node->safe_psql('postgres', "$ours; EXPLAIN (ANALYZE, COSTS OFF) $query"), qr/GpuHashJoin.*Joined In: device process/s, 'without the extension joins run in the device process');
is($node->safe_psql('postgres', "$ours; $query"), $answer, 'with core\'s rows');
like(($node->psql('postgres', 'SELECT * FROM hjoin_gpu_costs'))[2], qr/relation "hjoin_gpu_costs" does not exist/, 'the views are not there');

# --- dropped during use
$node->safe_psql('postgres', 'CREATE EXTENSION hjoin_gpu; CREATE VIEW watch AS SELECT * FROM hjoin_gpu_stat');
wait_ready($node);
my $session = open_session($node);
ask($session, "$ours; SET plan_cache_mode = force_generic_plan; PREPARE joined AS $query; PREPARE watched AS SELECT count(*) > 0 FROM watch;
	PREPARE counted AS SELECT count(*) > 0 FROM hjoin_gpu_stat()");
is(ask($session, "EXECUTE $_->[0]"), $_->[1], "$_->[0] runs") for [ joined => $answer ], [ watched => 't' ], [ counted => 't' ];
ask($session, 'BEGIN; DECLARE c CURSOR FOR SELECT build.id FROM build JOIN probe USING (k); FETCH 10 FROM c');
my @running = map { start_query($node, "$ours; SELECT $_ FROM build b JOIN probe p ON b.k % 1000 = p.k % 1000") } ('count(*)') x 2;
wait_until(sub { $node->safe_psql('postgres', 'SELECT count(*) FROM hjoin_gpu_jobs') >= 2 }, 10);
like(($node->psql('postgres', 'DROP EXTENSION hjoin_gpu'))[2], qr/cannot drop extension hjoin_gpu because other objects depend on it/, 'a view that uses the extension keeps it');
$node->safe_psql('postgres', 'DROP EXTENSION hjoin_gpu CASCADE');
is((finish_query($_))[0], 40000000, 'a join that ran while the extension was dropped ends with its rows') for @running;
my @fetched = split /\n/, ask($session, 'FETCH ALL FROM c');
is(@fetched + 10, (split /\|/, $answer)[0], 'so does a cursor');
ask($session, 'COMMIT');
is(ask($session, 'EXECUTE joined'), $answer, 'a prepared join runs without it');
like((ask($session, 'EXECUTE watched'))[1], qr/ERROR:  relation "watch" does not exist/, 'one of a view fails as any view\'s does');
like((ask($session, 'EXECUTE counted'))[1], qr/ERROR:  (function hjoin_gpu_stat\(\) does not exist|cache lookup failed)/, 'and one of a function');
$node->safe_psql('postgres', 'CREATE EXTENSION hjoin_gpu; CREATE VIEW watch AS SELECT * FROM hjoin_gpu_stat');
is(ask($session, "EXECUTE $_->[0]"), $_->[1], "created again: $_->[0] runs") for [ joined => $answer ], [ watched => 't' ], [ counted => 't' ];
is(ask($session, "BEGIN; DROP EXTENSION hjoin_gpu CASCADE; $query; ROLLBACK"), $answer, 'a join in a transaction that drops it');
is(ask($session, 'EXECUTE watched'), 't', 'and takes that back');
like(($node->psql('postgres', 'ALTER EXTENSION hjoin_gpu UPDATE'))[2], qr/version "1.0" of extension "hjoin_gpu" is already installed/, 'there is nothing to update');
$node->safe_psql('postgres', 'CREATE SCHEMA "Odd one"; ALTER EXTENSION hjoin_gpu SET SCHEMA "Odd one"');
is(ask($session, 'EXECUTE watched'), 't', 'it moves to another schema');
is($node->safe_psql('postgres', 'SELECT count(*) > 0 FROM "Odd one".hjoin_gpu_costs'), 't', 'with its views');

# --- settings of a database, a role, a function
$node->safe_psql('postgres', q{
	ALTER DATABASE postgres SET hjoin_gpu.force = on;
	CREATE ROLE reader LOGIN;
	GRANT SELECT ON build, probe TO reader;
	ALTER ROLE reader SET hjoin_gpu.force = off;
	ALTER ROLE reader SET hjoin_gpu.enabled = off;
	CREATE FUNCTION plan_with(OUT line text) RETURNS SETOF text LANGUAGE plpgsql SET hjoin_gpu.force = on SET hjoin_gpu.enabled = on AS
		'BEGIN RETURN QUERY EXECUTE ''EXPLAIN SELECT FROM build JOIN probe USING (k)''; END';
	CREATE FUNCTION plan_without(OUT line text) RETURNS SETOF text LANGUAGE plpgsql SET hjoin_gpu.enabled = off AS
		'BEGIN RETURN QUERY EXECUTE ''EXPLAIN SELECT FROM build JOIN probe USING (k)''; END';
});
my $plan = 'EXPLAIN SELECT FROM build JOIN probe USING (k)';
like($node->safe_psql('postgres', $plan), qr/GpuHashJoin/, 'a database\'s setting holds');
unlike($node->safe_psql('postgres', $plan, extra_params => [ '-U', 'reader' ]), qr/GpuHashJoin/, 'a role\'s holds before it');
like($node->safe_psql('postgres', 'SELECT * FROM plan_with()', extra_params => [ '-U', 'reader' ]), qr/GpuHashJoin/, 'a function\'s before that');
unlike($node->safe_psql('postgres', 'SELECT * FROM plan_without()'), qr/GpuHashJoin/, 'and turns the node off');
is($node->safe_psql('postgres', "SELECT count(*) FROM plan_without(); SHOW hjoin_gpu.enabled") =~ /on$/, 1, 'until it returns');
like(($node->psql('postgres', 'ALTER ROLE reader SET hjoin_gpu.device_program = \'/bin/true\''))[2], qr/cannot be changed without restarting the server/, 'no role names a program');

# --- pg_dump and restore
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
command_ok([ 'pg_dump', '--create', '-d', $node->connstr('postgres'), '-f', $dump ], 'pg_dump of a database with the extension');
unlike(slurp_file($dump), qr/CREATE FUNCTION \S*hjoin_gpu_/, 'holds none of its functions, but the extension');
for my $preloaded (1, 0)
{
	my $other = start_node("restored_$preloaded", no_extension => 1, not_preloaded => !$preloaded);
	my $where = $preloaded ? 'on a server that preloads it' : 'on one that does not';
	$other->safe_psql('postgres', 'CREATE ROLE reader');
	my $sql = slurp_file($dump) =~ s/^CREATE DATABASE postgres.*$//mr;
	my ($rc, undef, $err) = $other->psql('postgres', $sql, on_error_stop => 1);
	is($rc, 0, "it is restored $where") or diag $err;
	is($other->safe_psql('postgres', $query), $answer, 'joins are right');
	is($other->safe_psql('postgres', 'SHOW hjoin_gpu.force'), 'on', 'its settings are there');
	is($other->safe_psql('postgres', 'SELECT count(*) > 0 FROM watch'), 't', 'and the views');
	$other->safe_psql('postgres', q{ALTER DATABASE postgres SET hjoin_gpu.strategy = 'none_such'}) if !$preloaded;
	like(($other->psql('postgres', "$query; SELECT count(*) FROM watch; $query"))[1], qr/^\Q$answer\E\n\d+\n\Q$answer\E$/, 'whatever the settings say, joins are right');
	$other->stop;
}

# --- a single-user server, and pg_upgrade
$session->{handle}->kill_kill;
$node->stop;
my ($out, $err) = run_command([ 'bash', '-c', 'echo "$1" | postgres --single -D "$2" postgres', 'single', "SELECT count(*) FROM build JOIN probe USING (k)", $node->data_dir ]);
like($out, qr/count = "400000"/, 'a server of a single user joins') or diag $err;

my $new = PostgreSQL::Test::Cluster->new('upgraded');
$new->init;
$new->append_conf('postgresql.conf', "shared_preload_libraries = 'hjoin_gpu'\nhjoin_gpu.arena_size = '512MB'\n");
append_to_file($node->data_dir . '/hjoin_gpu.calibration', 'of the old server');
my $bin = `pg_config --bindir`;
chomp $bin;
chdir PostgreSQL::Test::Utils::tempdir();
command_ok([ 'pg_upgrade', '--no-sync', '-d', $node->data_dir, '-D', $new->data_dir, '-b', $bin, '-B', $bin, '-s', $new->host, '-p', $node->port, '-P', $new->port, '--link' ], 'pg_upgrade');
$new->start;
ok(defined wait_ready_in($new), 'the upgraded server has its device process');
is($new->safe_psql('postgres', "$ours; $query"), $answer, 'joins');
ok(!-e $new->data_dir . '/hjoin_gpu.calibration', 'and no calibration of the old one');

sub wait_ready_in
{
	my ($where) = @_;
	return wait_until(sub { $where->safe_psql('postgres', q{SELECT value FROM "Odd one".hjoin_gpu_stat WHERE name = 'available'}) == 1 });
}

is(log_count($_, qr/was terminated by signal|PANIC|TRAP/), 0, 'no server process died') for $node, $new;
$new->stop;
done_testing();
