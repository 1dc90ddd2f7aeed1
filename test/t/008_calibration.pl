# Unit costs are measured, shown and kept over restarts on the same machine; a bad file is harmless.
use strict;
use warnings;

use File::Path 'make_path';
use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

# costs of the machine; those of a device are shown only while it exists
my $costs = q{SELECT string_agg(name || '=' || value, ' ' ORDER BY name) FROM hjoin_gpu_costs WHERE device IS NULL};
my $defaults = q{SELECT string_agg(name || '=' || default_value, ' ' ORDER BY name) FROM hjoin_gpu_costs WHERE device IS NULL};

my $source = q{SELECT string_agg(DISTINCT source, ' ') FROM hjoin_gpu_costs WHERE device IS NULL};

# a hot standby, which is calibrated like any other server
my $origin = start_node('origin', streaming => 1);
# with a schema whose owner wants a superuser to run its operators
$origin->safe_psql('postgres', 'CREATE SCHEMA evil');
for my $type (qw(int4 int8 int2 oid))
{
	for my $operator ($type eq 'oid' ? qw(= >=) : qw(= >= * + %))
	{
		my $result = $operator =~ /=/ ? 'bool' : $type;
		$origin->safe_psql('postgres', qq{
			CREATE OR REPLACE FUNCTION evil.catch_$result($type, $type) RETURNS $result LANGUAGE plpgsql AS
			\$\$ BEGIN RAISE EXCEPTION 'caught'; END \$\$;
			CREATE OPERATOR evil.$operator (LEFTARG = $type, RIGHTARG = $type, FUNCTION = evil.catch_$result)});
	}
}
$origin->backup('copy');
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init_from_backup($origin, 'copy', has_streaming => 1);
$node->start;
my $file = $node->data_dir . '/hjoin_gpu.calibration';
wait_ready($node);

is($node->safe_psql('postgres', $costs), $node->safe_psql('postgres', $defaults),
	'a new cluster has the default costs');
is($node->safe_psql('postgres', $source), 'default', 'which the view tells');
ok(!-e $file, 'and no calibration file');

my $settings = q{SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings};
my (undef, $shown, $errors) = $node->psql('postgres', qq{SET search_path = evil, pg_catalog, public; $settings;
	SELECT string_agg(name || '=' || value, ' ' ORDER BY name) FROM hjoin_gpu_calibrate() WHERE device IS NULL; $settings});
my ($before, $measured, $after) = split /\n/, $shown;
unlike($errors, qr/caught/, 'calibration runs no operator of a schema that is before pg_catalog in search_path');
isnt($measured, $node->safe_psql('postgres', $defaults), 'calibration measures');
is($after, $before, 'and leaves the settings of its session alone');
is($node->safe_psql('postgres', q{SELECT count(*) FROM hjoin_gpu_costs WHERE value < 0 OR value = 'NaN'}),
	0, 'no cost is negative or not a number');
is($node->safe_psql('postgres', q{SELECT count(*) FROM hjoin_gpu_costs WHERE name LIKE 'crowding%' AND value BETWEEN 0 AND 1}),
	4, 'processes slow one another down at most as if they took turns');
is($node->safe_psql('postgres', q{SELECT value > 0 AND value <> default_value FROM hjoin_gpu_costs WHERE name = 'program_row'}),
	't', 'a program is measured by the device process');
is($node->safe_psql('postgres', $costs), $measured, 'other sessions see the measured costs');
is($node->safe_psql('postgres', $source), 'calibrated', 'which the view tells');
ok(-s $file, 'they are kept in a file');

ok(!-e $origin->data_dir . '/hjoin_gpu.calibration', 'but not with the primary');

$node->promote;
$origin->stop('immediate');
is($node->safe_psql('postgres', $costs), $measured, 'the costs outlive a promotion');
$node->restart;
wait_ready($node);
is($node->safe_psql('postgres', $costs), $measured, 'and a restart');

is($node->safe_psql('postgres', q{SET hjoin_gpu.emit_tuple_cost = 2;
	SELECT round((e.value / u.value)::numeric, 6)::float8, e.source FROM hjoin_gpu_costs e, hjoin_gpu_costs u
	WHERE e.name = 'emit_tuple' AND u.name = 'small_unit'}),
	'2|setting', 'a cost knob overrides the measured cost');

# a base backup contains the calibration file, but not the drivers' cache, whose paths may be too long for it
my $kept = $node->data_dir . '/pgsql_tmp_hjoin_gpu/' . join '/', ('x' x 60) x 3;
make_path($kept);
append_to_file("$kept/kernel", 'kept');
$node->backup('copy');
ok(!-e $node->backup_dir . '/copy/pgsql_tmp_hjoin_gpu', 'a base backup leaves out what drivers keep');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'copy');
$copy->start;
wait_ready($copy);
is($copy->safe_psql('postgres', $costs), $measured, 'a backup that is restored on the same machine has its costs');

my $copy_file = $copy->data_dir . '/hjoin_gpu.calibration';
my $good = slurp_file($copy_file);
my ($cpus, $memory, $model) = $good =~ /^machine (\d+) (\d+) (.*)$/m;

# Return the file's text with a matching checksum.
sub signed
{
	my ($text) = @_;
	my $crc = 0xFFFFFFFF;

	$text =~ s/^crc .*\n\z//m;
	for my $byte (unpack 'C*', $text)
	{
		$crc ^= $byte;
		$crc = $crc & 1 ? $crc >> 1 ^ 0x82F63B78 : $crc >> 1 for 1 .. 8;
	}
	return $text . sprintf "crc %08x\n", $crc ^ 0xFFFFFFFF;
}

sub of_machine
{
	my (@machine) = @_;
	return signed($good =~ s/^machine .*$/machine @machine/mr);
}

# Return the server's log message about a file that this function installs; the server must start in any case.
sub word_on
{
	my ($put) = @_;
	my $offset = -s $copy->logfile;

	$copy->stop('immediate');
	chmod 0600, $copy_file;
	unlink $copy_file;
	ref $put ? $put->() : append_to_file($copy_file, $put);
	$copy->start;
	wait_ready($copy);
	my $costs_now = $copy->safe_psql('postgres', $costs) eq $measured ? 'measured' : 'default';
	my ($line) = slurp_file($copy->logfile, $offset) =~ /LOG:  .*file "hjoin_gpu\.calibration" ?(.*)/;
	my $word = join ', ', $costs_now, $copy->safe_psql('postgres', $source), $line // '';
	rmdir $copy_file;
	return $word;
}

my $fits = 'measured, calibrated, ';
my $foreign = 'default, default: the calibration is of another machine, is of another machine and is ignored';
my $damaged = 'default, default: the calibration is damaged, is not a valid calibration and is ignored';
my $unreadable = 'default, default: the calibration cannot be read, : Permission denied';
my @files = (
	[ $fits, 'the same', $good ],
	[ $fits, 'of a kernel that keeps some more memory', of_machine($cpus, int($memory * 0.9), $model) ],
	[ $foreign, 'of more CPUs', of_machine($cpus + 1, $memory, $model) ],
	[ $foreign, 'of twice the memory', of_machine($cpus, $memory * 2, $model) ],
	[ $foreign, 'of other CPUs', of_machine($cpus, $memory, "$model (other)") ],
	[ $damaged, 'of a machine with too long a name', of_machine($cpus, $memory, 'x' x 2000) ],
	[ $damaged, 'of no machine', signed($good =~ s/^machine .*\n//mr) ],
	[ $damaged, 'empty', '' ],
	[ $damaged, 'cut in half', substr $good, 0, length($good) / 2 ],
	[ $damaged, 'cut by a byte', substr $good, 0, -1 ],
	[ $damaged, 'with something behind it', "$good\n" ],
	[ $damaged, 'with a bit of the machine changed', $good =~ s/^machine \K(.)/$1 ^ "\1"/emr ],
	[ $damaged, 'with a bit of a value changed', substr($good, 0, 200) . (substr($good, 200, 1) ^ "\1") . substr($good, 201) ],
	[ $damaged, 'with a value that is no number', signed($good =~ s/^machine .*\n\K.*$/nan/mr) ],
	[ $damaged, 'of random bytes', join '', map { chr int rand 256 } 1 .. 5000 ],
	[ $damaged, 'of zeros, of 10 GB', sub { append_to_file($copy_file, ''); truncate $copy_file, 10 * 2**30 or die $! } ],
	[ $damaged, 'that is a directory', sub { mkdir $copy_file or die $! } ],
	[ $damaged, 'that is a pipe', sub { system('mkfifo', $copy_file) == 0 or die $! } ],
	[ $unreadable, 'that may not be read', sub { append_to_file($copy_file, $good); chmod 0, $copy_file } ]);
is(word_on($_->[2]), $_->[0], "a file $_->[1]") for @files;
$copy->stop;

# a crash leaves a half-written file, which the next start removes; a supervisor that starts anew does so too, but
# spares the file of a running session
$node->stop('immediate');
append_to_file("$file.tmp.999999999", 'half');
$node->start;
wait_ready($node);
ok(!-e "$file.tmp.999999999", 'what a crash left of a file is removed');
is($node->safe_psql('postgres', $costs), $measured, 'the file itself outlives a crash');
my $session = start_query($node, 'SELECT pg_sleep(60)', 'writer');
my $writer;
wait_until(sub {
	($writer = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name = 'writer'})) ne ''
});
my $device = device_pid($node);
my ($supervisor) = slurp_file("/proc/$device/status") =~ /^PPid:\s+(\d+)/m;
append_to_file("$file.tmp.$writer", 'half');
append_to_file("$file.tmp.999999999", 'half');
kill 'TERM', $supervisor;
ok(defined wait_until(sub { !-e "$file.tmp.999999999" }), 'a supervisor that starts anew removes such files too');
ok(-e "$file.tmp.$writer", 'but not that of a session');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($writer)");
finish_query($session);

my ($rc, $out, $err) = $node->psql('postgres',
	'CREATE ROLE nobody_special; SET ROLE nobody_special; SELECT * FROM hjoin_gpu_calibrate()');
like($err, qr/permission denied for function hjoin_gpu_calibrate/, 'calibration is for superusers');

$node->stop;

# a server that was never calibrated does it by itself: when it starts, or when the machine is idle, which is said here by a file
my $load = PostgreSQL::Test::Utils::tempdir();
system('cc', '-shared', '-fPIC', '-Wall', '-Werror', '-o', "$load/load.so", "$FindBin::RealBin/load_average.c") == 0 or die 'load_average.c does not build';
append_to_file("$load/average", '99');
my $worker = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'hjoin_gpu calibration'};
my $new;
{
	local $ENV{LD_PRELOAD} = "$load/load.so";
	local $ENV{HJG_LOAD} = "$load/average";
	$new = start_node('new', conf => "hjoin_gpu.auto_calibrate = idle\n");
	wait_ready($new);
	sleep 2;
	unlike(slurp_file($new->logfile), qr/measured? its costs/, 'a busy machine is not calibrated');
	is($new->safe_psql('postgres', $worker), 0, 'no process tries to');
	like($new->safe_psql('postgres', q{SELECT ok, finding, advice FROM hjoin_gpu_doctor() WHERE topic = 'calibration'}),
		qr/^f\|costs are default\|.*until the machine is idle/, 'which the doctor tells');
	unlink "$load/average";
	append_to_file("$load/average", '0.01');
	$new->restart;
	wait_ready($new);
	# this machine may be busy in truth
	ok(defined wait_until(sub { slurp_file($new->logfile) =~ /hjoin_gpu (has measured|could not measure) its costs/ }, 120), 'an idle one is tried');
	$new->append_conf('postgresql.conf', "hjoin_gpu.auto_calibrate = start\n");
	unlink $new->data_dir . '/hjoin_gpu.calibration';
	$new->restart;
	wait_ready($new);
}
ok(defined wait_until(sub { $new->safe_psql('postgres', $source) eq 'calibrated' }, 120), 'a server that is to calibrate at its start does so');
ok(defined wait_until(sub { $new->safe_psql('postgres', $worker) == 0 }, 10), 'and its process ends');
ok(-s $new->data_dir . '/hjoin_gpu.calibration', 'leaving a file');
is($new->safe_psql('postgres', q{SELECT ok, finding, advice FROM hjoin_gpu_doctor() WHERE topic = 'calibration'}), 't|costs are calibrated|', 'which the doctor tells');
$new->restart;
wait_ready($new);
sleep 1;
is($new->safe_psql('postgres', $worker), 0, 'the next start does not repeat that');
is($new->safe_psql('postgres', q{SET max_parallel_workers = 0; SELECT string_agg(value::text, ' ') FROM hjoin_gpu_calibrate() WHERE name LIKE 'crowding%'}),
	'0 0 0 0', 'without parallel workers nothing is known of what processes lose to one another');
# without the database that the process uses, the server goes on
$new->safe_psql('template1', 'ALTER DATABASE postgres RENAME TO other');
unlink $new->data_dir . '/hjoin_gpu.calibration';
$new->restart;
ok(defined wait_until(sub { slurp_file($new->logfile) =~ /database "postgres" does not exist/ }, 30), 'without its database it cannot');
is($new->safe_psql('other', 'SELECT 1'), 1, 'and the server goes on');
$new->stop;

done_testing();
