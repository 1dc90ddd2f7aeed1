# Every setting at its limits while sessions join: by reload, by restart, by database, role and function.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $query = 'SELECT count(*), sum(build.id::bigint * probe.id) FROM build JOIN probe USING (k)';
my $node = start_node('main');
$node->safe_psql('postgres', q{
	CREATE TABLE build AS SELECT g AS id, g % 5000 AS k FROM generate_series(1, 10000) g;
	CREATE TABLE probe AS SELECT g AS id, g % 10000 AS k FROM generate_series(1, 20000) g;
	ANALYZE build, probe;
});
wait_ready($node);
my $answer = $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $query");
my $session = open_session($node);

# as the planner chooses, and by the node in the device process if the settings allow it
my $joins = "BEGIN; $query; SET LOCAL hjoin_gpu.in_backend_rows = 0; SET LOCAL hjoin_gpu.force = on; $query; ROLLBACK";

my @settings = map { [ split /\|/, $_, -1 ] } split /\n/, $node->safe_psql('postgres', q{
	SELECT name, vartype, context, coalesce(min_val, ''), coalesce(max_val, ''), array_to_string(enumvals, ' ')
	FROM pg_settings WHERE name LIKE 'hjoin\_gpu.%' ORDER BY name});
cmp_ok(scalar @settings, '>', 20, 'there are settings');

my %texts = (
	'hjoin_gpu.device' => [qw(auto cpu CPU cuda:0 cuda:999 opencl:7)],
	'hjoin_gpu.device_program' => [qw(/bin/true / none/such)]);
my %bad = (bool => 'perhaps', integer => '1e30', real => 'much', enum => 'none_such', string => 'none:such');
my @wrong;
my $nvalues = 0;
for (@settings)
{
	my ($name, $type, $context, $min, $max, $enums) = @$_;
	my @values = $type eq 'bool' ? qw(on off) : $type eq 'enum' ? split(/ /, $enums) : $type eq 'string' ? @{ $texts{$name} } : ($min, $max);

	$nvalues += @values;
	wait_ready($node);
	for my $value (@values)
	{
		my $before = ask($session, "SELECT setting FROM pg_settings WHERE name = '$name'");
		ask($session, "ALTER SYSTEM SET $name = '$value'; SELECT pg_reload_conf()");
		my $seen = wait_until(
			sub {
				my ($is, $pending) = split /\|/, ask($session, "SELECT setting, pending_restart FROM pg_settings WHERE name = '$name'");
				return $context eq 'postmaster' ? $is eq $before && ($is eq $value || $pending eq 't') : $is eq $value || $type eq 'real' && $is == $value;
			}, 5);
		push @wrong, "$name = $value is not seen" if !defined $seen;
		my ($rows, $err) = ask($session, $joins);
		push @wrong, "$name = $value: $rows $err" if $rows ne "$answer\n$answer";
	}
	my (undef, $err) = ask($session, "ALTER SYSTEM SET $name = '$bad{$type}'");
	push @wrong, "$name = $bad{$type} is taken" if $err !~ /ERROR:/ && $name ne 'hjoin_gpu.device_program';
	ask($session, "ALTER SYSTEM RESET $name; SELECT pg_reload_conf()");
}
is(join("\n", @wrong), '', "each of $nvalues values is taken by a reload, waits for a restart, or is refused; joins are right");
is(log_count($node, qr/was terminated by signal|PANIC|TRAP/), 0, 'no server process died');

# the supervisor reads the file as well: a new timeout for a process that hangs
$node->append_conf('postgresql.conf', "hjoin_gpu.device_timeout = '1h'\n");
$node->restart;
wait_ready($node);
my $pid = device_pid($node);
kill 'STOP', $pid;
my $running = start_query($node, "SET hjoin_gpu.in_backend_rows = 0; SET hjoin_gpu.force = on; $query");
sleep 2.5;
ok(kill(0, $pid), 'a device process that is stopped is waited for as long as the setting says');
$node->append_conf('postgresql.conf', "hjoin_gpu.device_timeout = '300ms'\n");
$node->reload;
is((finish_query($running))[0], $answer, 'and not longer, once that is shorter: the join ends with core\'s rows');
ok(defined wait_until(sub { !kill 0, $pid }, 5), 'the process is ended');
$node->append_conf('postgresql.conf', "hjoin_gpu.device_timeout = '10s'\n");
$node->reload;

# restart with each of these: a join at once, and one after the device process has had time to start
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/hangs", "#!/bin/sh\nexec sleep 600\n");
append_to_file("$dir/chatters", "#!/bin/sh\nexec yes >&4\n");
chmod 0755, "$dir/hangs", "$dir/chatters";
for (
	[ 'arena_size', '16MB', 1 ],
	[ 'arena_size', '1TB', undef ],
	[ 'arena_size', '1073741823MB', undef ],
	[ 'cpu_threads', '1024', 1 ],
	[ 'device_memory', '1073741823MB', 1 ],
	[ 'device_program', '/bin/true', 0 ],
	[ 'device_program', $dir, 0 ],
	[ 'device_program', "$dir/hangs", 0 ],
	[ 'device_program', "$dir/chatters", 0 ])
{
	my ($name, $value, $available) = @$_;

	$node->append_conf('postgresql.conf', "hjoin_gpu.$name = '$value'\n");
	$node->restart;
	my ($out, $err) = ($node->psql('postgres', $joins))[1, 2];
	is($out, "$answer\n$answer", "$name = $value: joins are right");
	if ($available) { ok(defined wait_ready($node), 'by the device process, too') }
	elsif (defined $available) { sleep 0.5; is(stat_value($node, 'available'), 0, 'without a device process') }
	else
	{
		my $warned = log_count($node, qr/WARNING:  could not make the shared memory of hjoin_gpu/);
		ok(defined wait_until(sub { stat_value($node, 'available') == 1 || $warned }, 20), 'by the device process, or a warning says why not');
	}
	is($node->safe_psql('postgres', $joins), "$answer\n$answer", 'and again');
	my $start = time;
	$node->stop;
	took_less(time - $start, 10, 'the server stops');
	$node->append_conf('postgresql.conf', "hjoin_gpu.$name = " . ($name eq 'arena_size' ? "'512MB'" : $name eq 'device_program' ? "''" : 0) . "\n");
	$node->start;
}
ok(defined wait_ready($node), 'with the old settings all is as before');
is(log_count($node, qr/was terminated by signal|PANIC|TRAP/), 0, 'no server process died');

$node->stop;
done_testing();
