# HjgTest.pm: nodes with the extension, access to its views, and background queries for the TAP tests.
package HjgTest;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(CLOCK_PROCESS_CPUTIME_ID clock_gettime sleep time);

our @EXPORT = qw(start_node make_tables device_pid stat_value wait_until took_less wait_ready is_idle
  start_query finish_query open_session ask backend_of log_count use_emulated_cuda built_with_cuda slowdown);

# The server passes its device process only the environment that drivers need (service_spawn.c), and the installed
# program ignores faults.  So if the test has set HJG_ variables when it starts a server, hjoin_gpu.device_program is a
# script that sets them and runs the program built for tests.
{
	package HjgTest::Node;
	our @ISA = ('PostgreSQL::Test::Cluster');

	sub choose_program
	{
		my ($self) = @_;
		my $script = $self->basedir . '/device_program';
		my %set = map { $_ => $ENV{$_} } grep { /^HJG_(FAULT|OPENCL_|STUB_)/ && $ENV{$_} ne '' } keys %ENV;

		unlink $self->data_dir . '/device_program.conf';
		return if !%set;
		my $faults = HjgTest::build('build/hjoin_gpu_device_faults');
		# the system may be starting the script of a server that is about to end: it is not written to
		unlink $script;
		open my $file, '>', $script or die "$script: $!";
		print $file "#!/bin/sh\n", map({ "$_='$set{$_}' " } sort keys %set), "exec '$faults' \"\$@\"\n";
		close $file;
		chmod 0755, $script;
		$self->append_conf('device_program.conf', "hjoin_gpu.device_program = '$script'\n");
		return;
	}

	sub start
	{
		my ($self, @options) = @_;
		$self->choose_program;
		return $self->SUPER::start(@options);
	}

	sub restart
	{
		my ($self, @options) = @_;
		$self->choose_program;
		return $self->SUPER::restart(@options);
	}
}

# Build a target of the Makefile; returns its path.
my %is_built;

sub build
{
	my ($target) = @_;
	$is_built{$target} //= system("make -s -C '$ENV{TESTDIR}' PG_CONFIG='$ENV{PG_CONFIG}' '$target'") == 0
	  or die "cannot build $target";
	return "$ENV{TESTDIR}/$target";
}

# Start a node; conf is appended to its configuration, fault is for its device process.  The device timeout is long, so
# that a process that merely waits for the CPU does not count as hung.
sub start_node
{
	my ($name, %opt) = @_;
	my $node = bless PostgreSQL::Test::Cluster->new($name), 'HjgTest::Node';

	$node->init(allows_streaming => $opt{streaming} ? 1 : 0);
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'hjoin_gpu'\n")
	  unless $opt{not_preloaded};
	$node->append_conf('postgresql.conf',
		"hjoin_gpu.arena_size = '512MB'\nhjoin_gpu.device_timeout = '10s'\nhjoin_gpu.auto_calibrate = off\n")
	  unless $opt{not_preloaded};
	$node->append_conf('postgresql.conf', $opt{conf}) if $opt{conf};
	$node->append_conf('postgresql.conf', "include_if_exists = 'device_program.conf'\n");
	local $ENV{HJG_FAULT} = $opt{fault} // '';
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION hjoin_gpu') unless $opt{no_extension};
	return $node;
}

# Make servers that start from now on find the emulated libcuda (test/device/stub_libcuda.c).  Skips the test where the
# program was built without CUDA, since it looks for no driver then.
sub use_emulated_cuda
{
	my $stub = "$ENV{TESTDIR}/build/stub";

	build('build/stub/libcuda.so.1');
	$ENV{LD_LIBRARY_PATH} = join ':', $stub, grep { defined && $_ ne '' } $ENV{LD_LIBRARY_PATH};
	plan skip_all => 'the device program was built without CUDA' if !built_with_cuda();
	return;
}

sub built_with_cuda
{
	return `hjoin_gpu_device --list` !~ /^cuda\b.*built without CUDA/m;
}

# Create tables for joins of the executor, large enough for several batches.
sub make_tables
{
	my ($node) = @_;
	$node->safe_psql('postgres', q{
		CREATE TABLE build AS SELECT g AS id, g % 50000 AS k FROM generate_series(1, 100000) g;
		CREATE TABLE probe AS SELECT g AS id, g % 100000 AS k FROM generate_series(1, 400000) g;
		ANALYZE build, probe;
	});
	return;
}

sub device_pid
{
	my ($node) = @_;
	my $pid = $node->safe_psql('postgres', 'SELECT pid FROM hjoin_gpu_devices LIMIT 1');
	return $pid eq '' ? undef : $pid;
}

sub stat_value
{
	my ($node, $name) = @_;
	return $node->safe_psql('postgres', "SELECT value FROM hjoin_gpu_stat WHERE name = '$name'");
}

# Measure how many times slower than on an idle machine a process runs now.
sub slowdown
{
	my $work = 0.05;
	my ($start, $cpu) = (time, clock_gettime(CLOCK_PROCESS_CPUTIME_ID));
	1 while clock_gettime(CLOCK_PROCESS_CPUTIME_ID) - $cpu < $work;
	my $factor = (time - $start) / $work;
	return $factor > 1 ? $factor : 1;
}

# Check a duration against the limit of an idle machine (seconds). A test that loaded the machine itself says how slow it
# was meanwhile.
sub took_less
{
	my ($took, $limit, $name, $slowdown) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return cmp_ok($took, '<', $took < $limit ? $limit : $limit * ($slowdown // slowdown()), $name);
}

# Poll a condition; returns the seconds it took, or undef.
sub wait_until
{
	my ($condition, $seconds) = @_;
	my $start = time;
	my $limit = $seconds // 30;
	my $busy;
	while (1)
	{
		return time - $start if $condition->();
		$limit *= $busy = slowdown() if !$busy && time - $start > $limit;
		return undef if time - $start > $limit;
		sleep 0.02;
	}
}

sub wait_ready
{
	my ($node, $seconds) = @_;
	return wait_until(sub { stat_value($node, 'available') == 1 }, $seconds);
}

# Is no job and no memory of the arena in use?
sub is_idle
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		'SELECT (SELECT count(*) FROM hjoin_gpu_jobs), leased_bytes FROM hjoin_gpu_arena()') eq '0|0';
}

# Start a query in its own session without waiting for it.
sub start_query
{
	my ($node, $sql, $application) = @_;
	my %query = (stdin => '', stdout => '', stderr => '');
	my @command = ('psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d',
		$node->connstr('postgres') . " application_name=" . ($application // 'background'), '-c', $sql);

	$query{handle} = IPC::Run::start(\@command, '<', \$query{stdin}, '>', \$query{stdout}, '2>', \$query{stderr});
	return \%query;
}

# Wait for a query's end; returns output and errors.
sub finish_query
{
	my ($query) = @_;
	$query->{handle}->finish;
	chomp($query->{stdout});
	return ($query->{stdout}, $query->{stderr});
}

# Open a session for ask(); each query takes two minutes at most.
sub open_session
{
	my ($node, $database) = @_;
	my %session = (stdin => '', stdout => '', stderr => '', timeout => IPC::Run::timeout(120));

	$session{handle} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr($database // 'postgres') ],
		'<', \$session{stdin}, '>', \$session{stdout}, '2>', \$session{stderr}, $session{timeout});
	return \%session;
}

# Run a query in the session; returns its rows and its messages.
sub ask
{
	my ($session, $sql) = @_;

	$session->{timeout}->start;
	$session->{stdin} .= "$sql;\n\\echo (answered)\n\\warn (answered)\n";
	$session->{handle}->pump until $session->{stdout} =~ /^\(answered\)\n/m && $session->{stderr} =~ /^\(answered\)\n/m;
	my ($out, $err) = map { s/\(answered\)\n//r } @$session{qw(stdout stderr)};
	@$session{qw(stdout stderr)} = ('', '');
	chomp $out;
	return wantarray ? ($out, $err) : $out;
}

# Wait for a job in a state; returns the backend's pid, or undef if none comes.
sub backend_of
{
	my ($node, $state) = @_;
	my $pid;
	wait_until(
		sub {
			$pid = $node->safe_psql('postgres',
				"SELECT pid FROM hjoin_gpu_jobs WHERE pid <> 0 AND state ~ '$state' LIMIT 1");
			return $pid ne '';
		},
		10);
	return $pid;
}

# Count the matches of a pattern in the server's log.
sub log_count
{
	my ($node, $pattern) = @_;
	my $log = slurp_file($node->logfile);
	my $count = () = $log =~ /$pattern/g;
	return $count;
}

1;
