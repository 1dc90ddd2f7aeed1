# Two hundred sessions of several roles share little memory: joins of mixed sizes, whole or by cursors; sessions and
# their parallel workers are cancelled and terminated at random.  Rows are core's, only cancelled queries fail, waits
# are bounded, no role starves, and everything is idle in the end.
#
#	HJG_SESSIONS_SECONDS=N	duration (12)		HJG_SESSIONS_SEED=N		seed of the random choices
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{HJG_SESSIONS_SECONDS} // 12;
my $seed = $ENV{HJG_SESSIONS_SEED} // 20240501;
# sessions of each role; one role has most of them
my %sessions_of = (crowd => 110, team => 50, pair => 30, few => 10);
my @sizes = (1000, 5000, 20000, 50000, 100000);

note("seed $seed, $seconds seconds");
srand($seed);

my $node = start_node('main', conf => q{
	hjoin_gpu.arena_size = '256MB'
	hjoin_gpu.device_timeout = '60s'
	hjoin_gpu.force = on
	hjoin_gpu.in_backend_rows = 0
	max_connections = 230
	shared_buffers = 64MB
	log_min_messages = fatal
});
make_tables($node);
$node->safe_psql('postgres', q{
	CREATE TABLE wanted (kind int, size int, answer text, PRIMARY KEY (kind, size));
	-- one join of so many build rows: all rows at once, or by a cursor, with a pause between two fetches
	CREATE FUNCTION answer(kind int, size int) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		c refcursor;
		query text := format(CASE kind % 5
			WHEN 0 THEN 'SELECT p.id AS pid, b.id AS bid FROM probe p JOIN build b USING (k) WHERE b.id <= %s AND p.id <= %s'
			WHEN 1 THEN 'SELECT p.id AS pid, b.id AS bid FROM probe p LEFT JOIN build b ON p.k = b.k AND b.id <= %s WHERE p.id <= %s'
			WHEN 2 THEN 'SELECT p.id AS pid, b.id AS bid FROM probe p RIGHT JOIN build b ON p.k = b.k AND p.id <= %2$s WHERE b.id <= %1$s'
			WHEN 3 THEN 'SELECT p.id AS pid, 0 AS bid FROM probe p WHERE p.id <= %2$s AND EXISTS (SELECT FROM build b WHERE b.k = p.k AND b.id <= %1$s)'
			ELSE 'SELECT p.id AS pid, 0 AS bid FROM probe p WHERE p.id <= %2$s AND NOT EXISTS (SELECT FROM build b WHERE b.k = p.k AND b.id <= %1$s)'
			END, size, size * 2);
		n bigint := 0;
		digest bigint := 0;
		r record;
	BEGIN
		IF kind < 5 THEN
			EXECUTE format('SELECT count(*), sum(coalesce(pid, 0) # coalesce(bid, 0) * 17::bigint) FROM (%s) q', query) INTO n, digest;
		ELSE
			OPEN c NO SCROLL FOR EXECUTE query;
			LOOP
				FETCH c INTO r;
				EXIT WHEN NOT FOUND;
				n := n + 1;
				digest := digest + (coalesce(r.pid, 0) # coalesce(r.bid, 0) * 17::bigint);
				IF n % 3000 = 1 THEN
					PERFORM pg_sleep(0.05);
				END IF;
			END LOOP;
		END IF;
		RETURN n || ' ' || coalesce(digest, 0);
	END $$;
	CREATE FUNCTION is_right(kind int, size int) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		started timestamptz := clock_timestamp();
		got text := answer(kind, size);
	BEGIN
		RETURN format('%s %s %s %s', CASE WHEN got = (SELECT w.answer FROM wanted w WHERE (w.kind, w.size) = (is_right.kind, is_right.size))
			THEN 'right' ELSE 'WRONG' END, kind, size, extract(epoch FROM clock_timestamp() - started));
	END $$;
	-- cancels and terminates sessions for so long; returns how many, and how many there were at most
	CREATE FUNCTION disturb(seconds int) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		until timestamptz := clock_timestamp() + make_interval(secs => seconds);
		cancelled int := 0;
		terminated int := 0;
		most int := 0;
		pids int[];
		workers int[];
		victim int;
	BEGIN
		WHILE clock_timestamp() < until LOOP
			PERFORM pg_stat_clear_snapshot();
			SELECT array_agg(pid ORDER BY pid) FILTER (WHERE leader_pid IS NULL), array_agg(pid ORDER BY pid) FILTER (WHERE leader_pid IS NOT NULL)
				INTO pids, workers FROM pg_stat_activity WHERE application_name = 'many';
			most := greatest(most, cardinality(pids));
			-- parallel workers live for a short time only
			IF random() < 0.3 AND workers IS NOT NULL THEN
				pids := workers;
			END IF;
			victim := pids[1 + floor(random() * cardinality(pids))::int];
			IF random() < 0.8 THEN
				cancelled := cancelled + pg_cancel_backend(victim)::int;
			ELSE
				terminated := terminated + pg_terminate_backend(victim)::int;
			END IF;
			PERFORM pg_sleep(0.1);
		END LOOP;
		RETURN cancelled || ' ' || terminated || ' ' || most;
	END $$;
});
$node->safe_psql('postgres', "CREATE ROLE $_ LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO $_") for keys %sessions_of;
$node->safe_psql('postgres', 'SET hjoin_gpu.enabled = off; INSERT INTO wanted SELECT kind, size, answer(kind, size)
	FROM unnest(ARRAY[' . join(',', @sizes) . ']) size, generate_series(0, 4) kind;
	INSERT INTO wanted SELECT kind + 5, size, answer FROM wanted');
wait_ready($node, 10);

sub descriptors
{
	my @open = glob '/proc/' . device_pid($node) . '/fd/*';
	return scalar @open;
}

# --- the sessions: psql processes that read queries from a file and write to another file
my $dir = $node->basedir;
my $serial = 0;
my %running;

sub start_session
{
	my ($role) = @_;
	my $name = sprintf '%s_%d', $role, $serial++;

	open my $script, '>', "$dir/$name.sql" or die "$dir/$name.sql: $!";
	# all begin when the last one is connected
	print $script "SELECT FROM (SELECT pg_advisory_lock_shared(1) OFFSET 0) q;\nSELECT FROM (SELECT pg_advisory_unlock_shared(1) OFFSET 0) q;\n",
	  "SET client_min_messages = debug1;\n";
	# most joins are small; cursors over many rows would spend the whole test in their pauses
	for (1 .. 20 + 4 * $seconds)
	{
		my $kind = int rand 10;
		my $size = $sizes[ int((rand) ** 2 * ($kind < 5 ? @sizes : 3)) ];
		printf $script "SELECT is_right(%d, %d);\nDO 'BEGIN PERFORM pg_sleep(%.2f); END';\n", $kind, $size, rand;
	}
	close $script;
	my $connection = $node->connstr('postgres') . " user=$role application_name=many";
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open STDIN, '<', "$dir/$name.sql";
		open STDOUT, '>', "$dir/$name.out";
		open STDERR, '>&', \*STDOUT;
		exec 'psql', '-XAtq', '-d', $connection or POSIX::_exit(127);
	}
	$running{$pid} = [ $role, $name ];
	return;
}

sub reap
{
	foreach my $pid (keys %running)
	{
		delete $running{$pid} if waitpid($pid, POSIX::WNOHANG()) > 0;
	}
	return;
}

my $control = $node->background_psql('postgres');
$control->query_safe('SET client_min_messages = error; SELECT pg_advisory_lock(1)');
start_session($_) for map { ($_) x $sessions_of{$_} } sort keys %sessions_of;
my $all = keys %running;
my $descriptors = descriptors();

ok(defined wait_until(sub { $control->query_safe("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'many'") == $all }, 120),
	"$all sessions are there");
$control->query_safe('SELECT pg_advisory_unlock(1)');

# --- some sessions are cancelled or terminated, and others replace them
my $disturber = start_query($node, sprintf 'SET jit = off; SELECT FROM setseed(%.6f); SELECT disturb(%d)', $seed % 1000003 / 1000003, $seconds);
my @slowdowns;
while ($disturber->{handle}->pumpable)
{
	sleep 0.2;
	push @slowdowns, slowdown();
	$disturber->{handle}->pump_nb;
	reap();
	foreach my $role (sort keys %sessions_of)
	{
		start_session($role) for 1 + grep({ $_->[0] eq $role } values %running) .. $sessions_of{$role};
	}
}
my ($ncancelled, $nterminated, $most) = split / /, (finish_query($disturber))[0];

# --- the end: each session finishes its current query
my $ending = time;
kill 'STOP', $_ for keys %running;
$control->query_safe("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = 'many'");
kill 'KILL', $_ for keys %running;
ok(defined wait_until(sub { reap(); !%running && $control->query_safe("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'many'") == 0 }, 60),
	sprintf 'all sessions end (after %.1f s)', time - $ending);
cmp_ok($most, '>=', $all - 10, "$most sessions at a time");

# --- their results
my (%right, %device, @wrong, @errors, @waits, @times);
foreach my $file (glob "$dir/*.out")
{
	my ($role) = $file =~ m{/([a-z]+)_\d+\.out$};
	my $fallback = 0;

	foreach my $line (split /\n/, slurp_file($file))
	{
		if ($line =~ /^DEBUG:  hjoin_gpu: waited ([\d.]+) ms/) { push @waits, $1; }
		elsif ($line =~ /LOG:  hash join could not run in the device process: (.*)/) { $fallback = 1; }
		elsif ($line =~ /^right (\d+) (\d+) ([\d.]+)$/)
		{
			$right{$role}++;
			$device{$role} += !$fallback;
			push @times, $3 * 1000 if $1 < 5;
			$fallback = 0;
		}
		elsif ($line =~ /^WRONG/) { push @wrong, "$file: $line"; }
		elsif ($line =~ /(?:ERROR|FATAL|PANIC|error):/)
		{
			push @errors, "$file: $line"
			  if $line !~ /canceling statement due to user request|terminating (?:connection|background worker "parallel worker") due to administrator command|server closed the connection|connection to server was lost/;
			$fallback = 0;
		}
	}
}

sub percentile
{
	my ($share, @values) = @_;
	@values = sort { $a <=> $b } @values;
	return @values ? $values[ $share * $#values ] : 0;
}

my ($nright, $ndevice) = (0, 0);
$nright += $_ for values %right;
$ndevice += $_ for values %device;
note(sprintf '%d joins, %d in the device process; %d cancelled, %d sessions terminated', $nright, $ndevice, $ncancelled, $nterminated);
note(sprintf '%s: %d sessions, %d joins, %d in the device process', $_, $sessions_of{$_}, $right{$_} // 0, $device{$_} // 0) for sort keys %sessions_of;
note(sprintf 'waits for a slot or a slab: %d, median %.1f ms, 99th percentile %.1f ms, longest %.1f ms',
	scalar @waits, percentile(0.5, @waits), percentile(0.99, @waits), percentile(1, @waits));
note(sprintf 'joins of all rows at once: median %.0f ms, 99th percentile %.0f ms', percentile(0.5, @times), percentile(0.99, @times));
is(join("\n", @wrong), '', "the rows of all $nright joins are core's");
is(join("\n", @errors), '', 'no error but those of cancels and terminations');
cmp_ok($ncancelled + $nterminated, '>', 0, 'some were cancelled or terminated');
took_less(percentile(0.99, @waits) / 1000, 0.2, 'waiting for a slot or a slab is bounded', percentile(0.9, @slowdowns));
foreach my $role (sort keys %sessions_of)
{
	my $joins = $right{$role} // 0;
	my $share = $joins ? ($device{$role} // 0) / $joins : 0;
	# The role with the least leased memory comes first. The role with most of the sessions gets the rest, but it gets some;
	# on a machine that is too busy to run many joins there is little to get.
	my $least = $ndevice / ($nright || 1) / ($role eq 'crowd' ? 4 : 2);
	$least = 0.05 if $role eq 'crowd' && $least > 0.05;
	cmp_ok($share, '>=', $least, sprintf '%s: %.0f %% of the joins run in the device process', $role, 100 * $share);
}

# --- nothing is left
ok(defined wait_until(sub { is_idle($node) }, 20), 'no job slot and no slab is left leased')
  or diag($node->safe_psql('postgres', 'SELECT * FROM hjoin_gpu_arena(); SELECT * FROM hjoin_gpu_jobs'));
is(stat_value($node, 'device_deaths'), 0, 'the device process lives');
cmp_ok(descriptors(), '<=', $descriptors, 'and has no more descriptors open than before');
$control->quit;
$node->stop;
done_testing();
