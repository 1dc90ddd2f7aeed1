# HjgStress.pm: tables, joins of every kind with core's answers, sessions and process inspection for the tests of wild
# drivers and of faults.
package HjgStress;

use strict;
use warnings;

use Exporter 'import';
use HjgTest;
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(stress_node stress_program set_program stress_queries core_answers any_settings start_session finish_session
  keep_session try_query end_session supervisor_of device_of crash_lines process_use);

# A query that runs longer hangs.
use constant NET_SECONDS => 60;

# --- the node ---

# Create a program for hjoin_gpu.device_program, which runs the installed one with the variables of set_program() and
# the emulated libcuda.
sub stress_program
{
	my $dir = PostgreSQL::Test::Utils::tempdir();

	system("make -s -C '$ENV{TESTDIR}' PG_CONFIG='$ENV{PG_CONFIG}' build/stub/libcuda.so.1 build/wild.so build/shim.so >&2") == 0
	  or die 'cannot build what the tests preload';
	chomp(my $bindir = `$ENV{PG_CONFIG} --bindir`);
	append_to_file("$dir/program", join "\n", '#!/bin/sh', ". '$dir/variables'",
		qq{LD_LIBRARY_PATH="$ENV{TESTDIR}/build/stub:\$LD_LIBRARY_PATH" exec '$bindir/hjoin_gpu_device' "\$@"}, '');
	chmod 0755, "$dir/program";
	set_program("$dir/program");
	return "$dir/program";
}

# Set the environment of the next device process.
sub set_program
{
	my ($program, %variables) = @_;
	my $file = $program =~ s{program$}{variables}r;

	append_to_file("$file.new", join '', map { "export $_='$variables{$_}'\n" } sort keys %variables);
	append_to_file("$file.new", ":\n");
	rename "$file.new", $file or die;
	return;
}

# Start a node with tables a, b, c and d.  The keys a.k and b.k are dense, a.s and b.s are not; a has each key three times,
# b twice, and some rows of a match none of b; d is one block.  The option rows is the number of rows of b.
sub stress_node
{
	my ($name, %opt) = @_;
	my $n = ($opt{rows} // 60000) / 2;
	my $m = $n * 4 / 3;
	my $node = start_node($name, %opt,
		conf => "max_worker_processes = 24\nmax_parallel_workers = 12\nhjoin_gpu.arena_size = '256MB'\nmax_connections = 40\n" . ($opt{conf} // ''));

	my $columns = sub { my ($mod) = @_; return "g AS id, g % $mod AS k, (g % $mod)::bigint * 40503 % 2147483647 AS w, "
		  . "((g % $mod)::bigint * 40503 % 2147483647)::int AS s, 'key ' || g % $mod AS t" };

	$node->safe_psql('postgres', 'CREATE TABLE a AS SELECT ' . $columns->($m) . ", g % 3 = 0 AS f FROM generate_series(1, $m * 3) g;"
		  . 'CREATE TABLE b AS SELECT ' . $columns->($n) . ", (g % 1000)::smallint AS v FROM generate_series(1, $n * 2) g");
	$node->safe_psql('postgres', q{
		CREATE TABLE c AS SELECT g AS id, g * 7 AS k, g * 11 AS v FROM generate_series(1, 4000) g;
		UPDATE c SET k = NULL WHERE id % 100 = 0;
		ALTER TABLE a SET (parallel_workers = 2);
		ALTER TABLE b SET (parallel_workers = 2);
		CREATE TABLE d AS SELECT g AS id, g * 5 AS k FROM generate_series(1, 100) g;
		VACUUM ANALYZE a, b, c, d;
		CREATE FUNCTION fetched(query text, OUT n bigint, OUT hash numeric) LANGUAGE plpgsql AS $$
		DECLARE
			c refcursor;
			r record;
		BEGIN
			n := 0;
			hash := 0;
			OPEN c FOR EXECUTE query;
			LOOP
				FETCH c INTO r;
				EXIT WHEN NOT FOUND;
				n := n + 1;
				hash := hash + hashtextextended(r::text, 0);
				IF n % 700 = 1 THEN
					PERFORM pg_sleep(0.01);
				END IF;
			END LOOP;
			CLOSE c;
		END $$});
	return $node;
}

# --- joins ---

# Return [ name, query ] of every join; a query's answer is one line.
sub stress_queries
{
	my $sums = 'count(*), sum(a.id::bigint * (b.id % 13)), sum(length(b.t))';
	my $outer = 'count(*), sum(coalesce(a.id, 7)::bigint * (coalesce(b.id, 3) % 13)), sum(length(b.t))';
	my @joins = ([ 'inner', "SELECT $sums FROM a JOIN b USING (k)" ]);

	push @joins, [ "inner, $_->[0]", "SELECT $sums FROM a JOIN b USING ($_->[1])" ]
	  for [ 'sparse keys', 's' ], [ '8-byte keys', 'w' ], [ 'text keys', 't' ], [ 'two keys', 'k, s' ], [ 'three keys', 'w, t, k' ];
	for my $key (qw(k s))
	{
		push @joins,
		  [ "left, $key", "SELECT $outer FROM a LEFT JOIN b USING ($key)" ],
		  [ "right, $key", "SELECT $outer FROM b RIGHT JOIN a USING ($key)" ],
		  [ "full, $key", "SELECT $outer FROM a FULL JOIN b ON a.$key = b.$key" ],
		  [ "semi, $key", "SELECT count(*), sum(id::bigint * 3) FROM a WHERE EXISTS (SELECT FROM b WHERE b.$key = a.$key)" ],
		  [ "anti, $key", "SELECT count(*), sum(id::bigint * 3) FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.$key = a.$key)" ],
		  [ "left with a residual qual, $key", "SELECT $outer FROM a LEFT JOIN b ON a.$key = b.$key AND a.id % 7 <> b.id % 5" ],
		  [ "semi with a residual qual, $key", "SELECT count(*), sum(id::bigint * 3) FROM a WHERE EXISTS (SELECT FROM b WHERE b.$key = a.$key AND b.id < a.id - 9000)" ],
		  [ "anti with a residual qual, $key", "SELECT count(*), sum(id::bigint * 3) FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.$key = a.$key AND b.id < a.id - 9000)" ],
		  [ "aggregates, $key", "SELECT count(*), sum(a.id), min(b.v), max(a.w), bool_or(a.f), avg(b.id) FROM a JOIN b USING ($key)" ],
		  [ "columns, $key", "SELECT count(*), sum(hashtextextended(x::text, 0)) FROM (SELECT a.id, a.w, a.f, b.id AS bid, b.v, b.w AS bw FROM a JOIN b USING ($key) WHERE a.id % 4 = 0) x" ];
	}
	push @joins,
	  [ 'full, text keys', "SELECT $outer FROM a FULL JOIN b ON a.t = b.t" ],
	  [ 'inner with a residual qual', "SELECT $sums FROM a JOIN b ON a.s = b.s AND a.id > b.id" ],
	  [ 'chain', 'SELECT count(*), sum(a.id::bigint * c.v), sum(b.id::bigint) FROM a JOIN b USING (k) JOIN c ON c.k = b.k' ],
	  [ 'chain, aggregates', 'SELECT count(*), sum(a.id), sum(b.id) FROM a JOIN b USING (s) JOIN c ON c.k = b.k' ],
	  [ 'hashed keys', 'SELECT count(*), sum(a.id), sum(b.id) FROM a JOIN b ON a.k::numeric = b.k::numeric' ],
	  [ 'NULL keys', 'SELECT count(*), sum(coalesce(c.id, 5)), sum(coalesce(a.id, 5)) FROM c LEFT JOIN a USING (k)' ],
	  [ 'rescans', 'SELECT count(*), sum(s.n) FROM generate_series(1, 3) g, LATERAL (SELECT count(*) + sum(a.id - b.id) AS n FROM a JOIN b USING (s) WHERE a.id % 3 <> g % 3 OFFSET 0) s' ],
	  [ 'few build rows', 'SELECT count(*), sum(a.id::bigint * d.id) FROM a JOIN d USING (k)' ],
	  [ 'limit', 'SELECT count(*) FROM (SELECT a.t, b.t FROM a JOIN b USING (s) LIMIT 70) x' ],
	  [ 'cursor', q{SELECT * FROM fetched('SELECT a.id, b.id, b.t FROM a JOIN b USING (s) WHERE a.id < 6000')} ],
	  [ 'cursor, anti', q{SELECT * FROM fetched('SELECT id, t FROM a WHERE id < 30000 AND NOT EXISTS (SELECT FROM b WHERE b.k = a.k)')} ],
	  [ 'no join', 'SELECT count(*), sum(v) FROM c' ];
	return @joins;
}

# Core's answers by name.
sub core_answers
{
	my ($node) = @_;
	return map { $_->[0] => $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $_->[1]") } stress_queries();
}

my %strategies = (
	cpu => [qw(auto auto nop)],
	'cuda:0' => [qw(auto auto auto direct packed table radix1 radix2 csr)],
	'opencl:0' => [qw(auto shj_pl phj_dd)]);

sub one_of { return $_[ rand @_ ] }

# Return random settings with which a query runs on the device.
sub any_settings
{
	my ($device) = @_;
	my @settings = (
		'hjoin_gpu.force = on', "hjoin_gpu.device = '$device'", 'hjoin_gpu.in_backend_rows = 0',
		"hjoin_gpu.strategy = '" . one_of(@{ $strategies{$device} }) . "'",
		"statement_timeout = '" . NET_SECONDS . "s'",
		"hjoin_gpu.on_fallback = '" . one_of(qw(silent log)) . "'");

	push @settings, "work_mem = '64kB'" if rand() < 0.25;
	push @settings, 'hjoin_gpu.direct_scan = off' if rand() < 0.2;
	push @settings, 'hjoin_gpu.aggregate = off' if rand() < 0.2;
	push @settings, 'hjoin_gpu.bloom_filter = ' . one_of(qw(on off)) if rand() < 0.4;
	push @settings, 'hjoin_gpu.materialization = early' if rand() < 0.5;
	push @settings, rand() < 0.35
	  ? ('max_parallel_workers_per_gather = 2', 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0')
	  : 'max_parallel_workers_per_gather = 0';
	return @settings;
}

# --- sessions ---

# Start a session that runs queries, each [ name, query, settings ].
sub start_session
{
	my ($node, @queries) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . '/queries.sql';
	my %session = (stdin => '', stdout => '', stderr => '', queries => \@queries, start => time);

	for my $i (0 .. $#queries)
	{
		my (undef, $sql, @settings) = @{ $queries[$i] };
		append_to_file($file, join "\n", "\\echo <$i>", 'RESET ALL;', (map { "SET $_;" } @settings), "$sql;", "\\echo </$i :SQLSTATE>", '');
	}
	$session{handle} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') . ' application_name=stress', '-f', $file ],
		'<', \$session{stdin}, '>', \$session{stdout}, '2>', \$session{stderr});
	return \%session;
}

# Wait for the session's end; returns [ name, SQLSTATE, answer, settings ] of each query, with 'lost' as SQLSTATE of a
# query that did not end.
sub finish_session
{
	my ($session) = @_;
	my @ends;

	eval { $session->{handle}->finish };
	for my $i (0 .. $#{ $session->{queries} })
	{
		my ($name, undef, @settings) = @{ $session->{queries}[$i] };
		my ($answer, $state) = $session->{stdout} =~ m{^<$i>\n(.*?)^</$i (\w+)>$}ms;
		chomp($answer //= '');
		push @ends, [ $name, $state // 'lost', $answer, join '; ', @settings ];
	}
	return @ends;
}

# Open a session for try_query().
sub keep_session
{
	my ($node) = @_;
	my %session = (stdin => '', stdout => '', stderr => '', n => 0, timer => IPC::Run::timer(NET_SECONDS + 30));

	$session{handle} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') . ' application_name=asks' ],
		'<', \$session{stdin}, '>', \$session{stdout}, '2>', \$session{stderr}, $session{timer});
	$session{pid} = (try_query(\%session, 'SELECT pg_backend_pid()'))[1];
	return \%session;
}

# Run statements, the last of which is a query; returns its SQLSTATE ('lost' if the session has ended) and its answer.
sub try_query
{
	my ($session, @statements) = @_;
	my $n = ++$session->{n};

	$session->{stdout} = $session->{stderr} = '';
	$session->{timer}->start(NET_SECONDS + 30);
	$session->{stdin} .= join '', (map { "$_;\n" } @statements), "\\echo </$n :SQLSTATE>\n";
	eval { IPC::Run::pump($session->{handle}) while $session->{stdout} !~ m{^</$n \w+>$}m; 1 } or return ('lost', $session->{stderr});
	my ($answer, $state) = $session->{stdout} =~ m{\A(.*?)^</$n (\w+)>$}ms;
	chomp $answer;
	return ($state, $answer);
}

sub end_session
{
	my ($session) = @_;
	$session->{stdin} .= "\\q\n";
	eval { $session->{handle}->finish };
	return;
}

# --- processes ---

# Children of a process whose command line matches.
sub children_of
{
	my ($parent, $pattern) = @_;
	my @pids;
	for my $pid (map { m{(\d+)$} } glob '/proc/[0-9]*')
	{
		my $stat = eval { slurp_file("/proc/$pid/stat") } // next;
		my $command = eval { slurp_file("/proc/$pid/cmdline") } // next;
		push @pids, $pid if $stat =~ /^\d+ \(.*\) [^Z] $parent /s && $command =~ $pattern;
	}
	return @pids;
}

sub supervisor_of
{
	my ($node) = @_;
	my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	return (children_of($postmaster, qr/hjoin_gpu supervisor/))[0];
}

# Find the device process in /proc, since the arena's content may be anything.
sub device_of
{
	my ($supervisor) = @_;
	return defined $supervisor ? (children_of($supervisor, qr/hjoin_gpu_device/))[0] : undef;
}

# Log lines that report the crash of a server process.
sub crash_lines
{
	my ($node) = @_;
	return grep { /was terminated by signal|PANIC:|TRAP:|all server processes terminated|exited with exit code [^01]/ && !/hjoin_gpu device process \(PID/ }
	  split /\n/, slurp_file($node->logfile);
}

# Open descriptors and private memory (kB) of a process.
sub process_use
{
	my ($pid) = @_;
	my @fds = glob "/proc/$pid/fd/*";
	my ($anonymous) = slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+)/m;
	return (scalar @fds, $anonymous);
}

1;
