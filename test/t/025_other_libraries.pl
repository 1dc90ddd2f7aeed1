# Beside other libraries: one that replaces the hook for joins without calling the one before (taken_hook.c), preloaded before or after
# hjoin_gpu, changes nothing; if it is loaded later, the node says that it is not offered.  And whoever reads plans, as Citus does, finds
# a node at the begin of each custom_private.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = PostgreSQL::Test::Utils::tempdir() . '/taken_hook.so';
chomp(my $includes = `$ENV{PG_CONFIG} --includedir-server`);
system('cc', '-shared', '-fPIC', '-Wall', '-Werror', "-I$includes", '-o', $library, "$FindBin::RealBin/taken_hook.c") == 0 or die 'taken_hook.c does not build';

my $force = 'SET hjoin_gpu.force = on; SET max_parallel_workers_per_gather = 0;';
my $query = 'SELECT count(*) FROM build JOIN probe USING (k)';
my $node = start_node('libraries');
make_tables($node);
chmod 0755, PostgreSQL::Test::Utils::tempdir();

sub plan_and_warnings
{
	my ($rc, $out, $err) = $node->psql('postgres', "$force $_[0]");
	is($rc, 0, 'planned') or diag($err);
	return ($out, $err);
}

sub taken { return stat_value($node, 'hook_taken') }

foreach my $libraries ("hjoin_gpu,$library", "$library,hjoin_gpu")
{
	my ($name) = $libraries =~ /^hjoin_gpu/ ? 'loaded after hjoin_gpu' : 'loaded before hjoin_gpu';

	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$libraries'");
	$node->restart;
	my ($out, $err) = plan_and_warnings("EXPLAIN (COSTS OFF) $query");
	like($out, qr/GpuHashJoin/, "a library that takes the hook, $name: joins are the node's");
	is($err, '', 'nobody is warned');
	is(taken(), 0, 'nothing is counted');
	# the postmaster makes its shared memory again
	$node->safe_psql('postgres', 'ALTER SYSTEM SET restart_after_crash = on; SELECT pg_reload_conf()');
	my $crash = 'all server processes terminated; reinitializing';
	my $ncrashes = log_count($node, $crash);
	my $session = open_session($node);
	kill 'KILL', (ask($session, 'SELECT pg_backend_pid()'))[0];
	ok(wait_until(sub { log_count($node, $crash) > $ncrashes && ($node->psql('postgres', 'SELECT 1'))[0] == 0 }), 'a backend crashes');
	($out, $err) = plan_and_warnings("EXPLAIN (COSTS OFF) $query");
	like($out, qr/GpuHashJoin/, 'after a crash, too');
	is($err, '', 'and nobody is warned');
}

$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'hjoin_gpu'");
$node->restart;
my ($out, $err) = plan_and_warnings("LOAD '$library'; EXPLAIN (COSTS OFF) $query; $query; SELECT * FROM build, probe WHERE false; SELECT 1");
unlike($out, qr/GpuHashJoin/, 'the library is loaded in a session: joins are left to core');
is(() = $err =~ /WARNING:  GpuHashJoin is not offered in this session/g, 1, 'the session is warned once');
like($err, qr/DETAIL:.*set_join_pathlist_hook.*HINT:.*shared_preload_libraries/s, 'and told what happened and what to do');
is(taken(), 2, 'each query with joins is counted');
($out, $err) = plan_and_warnings("SET hjoin_gpu.enabled = off; LOAD '$library'; EXPLAIN (COSTS OFF) $query");
is($err, '', 'nobody is warned where the node is switched off');
($out, $err) = plan_and_warnings("EXPLAIN (COSTS OFF) $query");
like($out, qr/GpuHashJoin/, 'other sessions join as before');

# Citus reads the tag of the first element of each custom_private; debug_print_plan shows it
my $where = -s $node->logfile;
plan_and_warnings("SET debug_print_plan = on; $query; SELECT k, sum(id) FROM build GROUP BY k LIMIT 1");
my @private = slurp_file($node->logfile, $where) =~ /:custom_private (\S+ ?\S+)/g;
cmp_ok(scalar @private, '>=', 2, 'plans of both nodes are printed');
is(scalar(grep { !/^\(\(i/ } @private), 0, 'custom_private begins with a list of integers') or diag(@private);

$node->stop;
done_testing();
