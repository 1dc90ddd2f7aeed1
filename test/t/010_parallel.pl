# Joins shared by leader and workers: the device process dies, hangs or returns wrong results, the query is cancelled, a
# worker or the leader is terminated, in each phase; rows stay right and nothing is left behind.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use JSON::PP;
use List::Util 'sum0';
use Test::More;
use Time::HiRes qw(sleep time);

# seconds; the goal is 0.1
my $limit = 1.5;

my $settings = q{SET hjoin_gpu.force = on; SET hjoin_gpu.programs = off; SET hjoin_gpu.in_backend_rows = 0; SET max_parallel_workers_per_gather = 3;
	SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;};
my %joins = (
	inner => 'SELECT count(*), sum(build.id::bigint * probe.id), sum(length(build.t)) FROM build JOIN probe USING (k)',
	full => 'SELECT count(*), sum(coalesce(build.id, 7)::bigint * coalesce(probe.id, 3)), sum(length(build.t)) FROM build FULL JOIN probe USING (k)',
	anti => 'SELECT count(*), sum(id) FROM probe WHERE NOT EXISTS (SELECT 1 FROM build WHERE build.k = probe.k AND build.id > probe.id)');
my %answers;

# segments of dynamic shared memory are files, which can be counted
my $node = start_node('main', conf => "max_worker_processes = 20\nmax_parallel_workers = 12\ndynamic_shared_memory_type = mmap\n");
$node->safe_psql('postgres', q{
	CREATE TABLE build AS SELECT g AS id, g % 50000 AS k, 'row ' || g AS t FROM generate_series(1, 100000) g;
	CREATE TABLE probe AS SELECT g AS id, g % 100000 AS k FROM generate_series(1, 300000) g;
	ALTER TABLE build SET (parallel_workers = 3);
	ALTER TABLE probe SET (parallel_workers = 3);
	ANALYZE build, probe});

sub segments
{
	my @files = glob($node->data_dir . '/pg_dynshmem/mmap.*');
	return scalar @files;
}

sub temp_files
{
	my @files = glob($node->data_dir . '/base/pgsql_tmp/*');
	return scalar @files;
}

my $segments;

sub nothing_left
{
	my ($what) = @_;
	my $took = wait_until(sub { is_idle($node) && segments() == $segments && temp_files() == 0 }, 5);
	took_less($took // 9**9**9, $limit, "$what: no job, no slab, no segment and no file is left")
	  or diag($node->safe_psql('postgres', 'SELECT * FROM hjoin_gpu_jobs'), ' ', segments(), " instead of $segments segments, ", temp_files(), ' files');
	return;
}

# Restart with a fault; with $soon a hanging device process is terminated soon.
sub restart_with
{
	my ($fault, $soon) = @_;
	local $ENV{HJG_FAULT} = $fault;
	$node->append_conf('postgresql.conf', "hjoin_gpu.device_timeout = '" . ($soon ? '500ms' : '10s') . "'");
	$node->restart;
	wait_ready($node, 10);
	$segments = segments();
	return;
}

restart_with('');
for my $kind (sort keys %joins)
{
	$answers{$kind} = $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; SET max_parallel_workers_per_gather = 0; $joins{$kind}");
	like($node->safe_psql('postgres', "$settings EXPLAIN $joins{$kind}"), qr/Parallel Custom Scan \(GpuHashJoin\)/, "$kind: the join is shared");
	is($node->safe_psql('postgres', "$settings $joins{$kind}"), $answers{$kind}, "$kind: the answer is right");
	is($node->safe_psql('postgres', "$settings SET work_mem = '64kB'; $joins{$kind}"), $answers{$kind}, "$kind: the same by shared files");
}

# build rows without a match, which are known at the end: several processes return them, unless the others have left before
$node->safe_psql('postgres', 'CREATE TABLE alone AS SELECT -g AS k FROM generate_series(1, 24000) g; ALTER TABLE alone SET (parallel_workers = 3); ANALYZE alone');

sub join_of
{
	my ($plan) = @_;
	return $plan if ($plan->{'Custom Plan Provider'} // '') eq 'GpuHashJoin';
	return map { join_of($_) } @{ $plan->{Plans} // [] };
}

my $most_processes = 0;
for my $try (1 .. 20)
{
	my $json = $node->safe_psql('postgres', "$settings EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON)
		SELECT count(repeat(k::text, 2000)) FROM alone WHERE NOT EXISTS (SELECT FROM probe WHERE probe.k = alone.k)");
	my ($join) = join_of(decode_json($json)->[0]{Plan});
	my @rows = map { $_->{'Actual Rows'} } @{ $join->{Workers} };
	is($join->{'Join Type'}, 'Right Anti', 'rows without a match are build rows') if $try == 1;
	my $processes = grep { $_ > 0 } @rows, 24000 - sum0(@rows);
	$most_processes = $processes if $processes > $most_processes;
	last if $processes > 1;
}
cmp_ok($most_processes, '>', 1, 'build rows without a match are returned by several processes');
nothing_left('ordinary ends');

# faults of the device process
for my $fault (qw(die:build:1 die:probe:1 die:probe:4 die:result:3 corrupt:result:2 truncate:result:1 hang:build:1 hang:probe:2))
{
	for my $kind (qw(inner full))
	{
		restart_with($fault, 1);
		is($node->safe_psql('postgres', "$settings $joins{$kind}"), $answers{$kind}, "$fault: $kind join");
		nothing_left("$fault, $kind");
		cmp_ok(stat_value($node, 'device_deaths') + stat_value($node, 'results_rejected'), '>', 0, "$fault, $kind: the fault is counted");
	}
}

# killed and stopped at any moment
restart_with('', 1);
my ($right, $wrong) = (0, 0);
for my $round (1 .. 10)
{
	wait_ready($node, 35);
	sleep 1.1;    # a life this long resets the pauses
	my $pid = device_pid($node);
	my @running = map { [ $_, start_query($node, "$settings $joins{$_}") ] } sort keys %joins;
	sleep rand 0.3;
	kill $round % 2 ? 'KILL' : 'STOP', $pid if $pid;
	for my $one (@running)
	{
		my ($out, $err) = finish_query($one->[1]);
		if ($out eq $answers{ $one->[0] }) { $right++ }
		else                               { $wrong++; diag("$one->[0]: $out $err") }
	}
}
is($wrong, 0, "a device process that is killed or stopped at any moment changes no answer ($right right)");
ok(defined wait_ready($node, 35), 'and comes back');
nothing_left('kills and stops');

# Find the leader that reads its build side slowly; it may have no job yet.
sub reader
{
	my $pid;
	wait_until(sub { $pid = $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state = 'active' AND query LIKE '%pg_sleep%' LIMIT 1"); $pid ne '' }, 10);
	return $pid;
}

# the query ends in each phase
my $slow_rows = '(SELECT * FROM build WHERE id < 4000 AND pg_sleep(0.002) IS NOT NULL) b';
my @phases = (
	[ 'reading', '', "SELECT count(*) FROM probe JOIN $slow_rows USING (k)", '' ],
	[ 'reading into files', '', "SET work_mem = '64kB'; SELECT count(*) FROM $slow_rows FULL JOIN probe USING (k)", '' ],
	[ 'building', 'slow:build:4000ms', $joins{full}, 'building' ],
	[ 'probing', 'slow:probe:4000ms', $joins{inner}, 'probing' ],
	[ 'results', 'slow:result:4000ms', $joins{full}, 'probing' ]);
for my $phase (@phases)
{
	my ($name, $fault, $sql, $state) = @$phase;
	restart_with($fault);
	my $device = device_pid($node);
	for my $how ('cancel', 'terminate', 'terminate a worker')
	{
		my $running = start_query($node, "$settings $sql");
		my $leader = $state eq '' ? reader() : backend_of($node, $state);
		my $pid = $leader;
		if ($how eq 'terminate a worker')
		{
			wait_until(sub { $pid = $node->safe_psql('postgres',
				"SELECT pid FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND leader_pid = $leader LIMIT 1"); $pid ne '' }, 5);
		}
		sleep 0.15;
		my $start = time;
		my $function = $how eq 'cancel' ? 'pg_cancel_backend' : 'pg_terminate_backend';
		$node->safe_psql('postgres', "SELECT $function($pid)");
		my ($out, $err) = finish_query($running);
		took_less(time - $start, $limit, "$name: $how ends the query at once");
		like($err, $how eq 'cancel' ? qr/canceling statement due to user request/ : qr/terminating (connection|background worker)/, "$name: and it says so");
		nothing_left("$name, $how");
	}
	is(device_pid($node), $device, "$name: the device process was not harmed");
}

# timeouts at random moments
restart_with('');
for my $round (1 .. 60)
{
	my $kind = (sort keys %joins)[ $round % 3 ];
	my $work_mem = $round % 2 ? '64kB' : '64MB';
	$node->psql('postgres', "$settings SET work_mem = '$work_mem'; SET statement_timeout = '" . (1 + $round * 4) . "ms'; $joins{$kind}");
}
nothing_left('timeouts at any moment');

# fewer workers than planned, and no leader
$node->append_conf('postgresql.conf', 'max_parallel_workers = 4');
restart_with('');
my @many = map { [ $_, start_query($node, "$settings SET parallel_leader_participation = off; $joins{$_}") ] } (sort keys %joins) x 2;
$wrong = grep { (finish_query($_->[1]))[0] ne $answers{ $_->[0] } } @many;
is($wrong, 0, 'too few workers for all queries: the answers are right');
nothing_left('too few workers');
is(log_count($node, qr/server process .* was terminated/), 0, 'no server process died');

$node->stop;
done_testing();
