#!/usr/bin/perl
# memory.pl: peak memory of the server during joins of cases.pm, with core's plans and with ours (forced).  Counts all
# processes below the postmaster, the device process included: private memory (RssAnon), dynamic shared memory (core's
# Parallel Hash and our shared build sides), and memory that joins lease in the arena, but not shared buffers.  Idle
# memory of backends is subtracted; the device process counts as a whole, once it has freed what it keeps for some
# seconds for the next join.  hash_mem limits both.
#
#   --cases REGEX     names of cases
#   --pgdata DIR      data directory of the server that PGHOST names, on this machine
#   --parts           also list the parts of our peaks
use strict;
use warnings;
use File::Basename;
use Getopt::Long;
use IPC::Open2;
use List::Util 'sum';
use POSIX ':sys_wait_h';
use Time::HiRes 'usleep';
use lib dirname(__FILE__);
use cases;

my ($wanted, $pgdata, $parts) = ('^(count|sum|rows .OFFSET|RIGHT|FULL|SEMI$|dup|build side 10|text|two int|star, 5|Q9)', $ENV{PGDATA} // '', 0);
GetOptions('cases=s' => \$wanted, 'pgdata=s' => \$pgdata, 'parts' => \$parts) or die;
$| = 1;

open(my $pid_file, '<', "$pgdata/postmaster.pid") or die "no server in '$pgdata'\n";
chomp(my $postmaster = <$pid_file>);
close $pid_file;

sub slurp
{
	open(my $fh, '<', $_[0]) or return '';
	local $/;
	return <$fh> // '';
}

sub tree
{
	my ($pid) = @_;
	return ($pid, map { tree($_) } split ' ', slurp("/proc/$pid/task/$pid/children"));
}

# Private memory of the device process, or of all other processes.
sub private_kb
{
	my ($device) = @_;
	my $sum = 0;
	foreach my $pid (tree($postmaster))
	{
		my $status = slurp("/proc/$pid/status");
		next if $device != ($status =~ /^Name:\s+hjoin_gpu_dev/m ? 1 : 0);
		$sum += $1 if $status =~ /^RssAnon:\s+(\d+)/m;
	}
	return $sum;
}

# Dynamic shared memory of this server only.
sub shared_kb
{
	my %files = map { $_ => 1 } map { slurp("/proc/$_/maps") =~ m{(/dev/shm/PostgreSQL\.\d+)$}mg } tree($postmaster);
	my $sum = 0;
	foreach my $file (keys %files)
	{
		my @stat = stat($file);
		$sum += $stat[12] / 2 if @stat;
	}
	return $sum;
}

# Ask a psql session, which ends its answers with a line @@@.
sub ask
{
	my ($session, $question) = @_;
	my ($from, $to) = @$session;
	print $to "$question\n\\echo \@\@\@\n";
	$to->flush;
	my $answer = '';
	while (my $line = <$from>)
	{
		return $answer if $line eq "\@\@\@\n";
		$answer .= $line;
	}
	die "no answer to: $question\n";
}

sub open_session
{
	open2(my $from, my $to, 'psql', '-XqAt', '-f', '-');
	return [ $from, $to ];
}

# Wait until the device process has freed its idle memory.
sub settle
{
	my ($last, $same) = (0, 0);
	foreach (1 .. 100)
	{
		my $now = private_kb(1);
		$same = $now == $last ? $same + 1 : 0;
		return if $same == 55;
		$last = $now;
		usleep(100000);
	}
}

# Return the peak of one query in MB, and its parts: backends, dynamic shared memory, and with our plan the device
# process and the arena.  The query runs in a new session, since a backend keeps freed memory; a child process takes
# samples.
sub peak_mb
{
	my ($settings, $query, $is_ours) = @_;
	settle() if $is_ours;
	my $session = open_session();
	ask($session, "$settings explain $query;");
	my $arena = open_session();
	my $leased_kb = sub { ask($arena, 'select leased_bytes / 1024 from hjoin_gpu_arena();') };
	$leased_kb->();
	my $others = sub { (private_kb(0), shared_kb()) };
	my @idle = $others->();
	my @peak = (0);
	pipe(my $out, my $in) or die;
	my $sampler = fork() // die;
	if ($sampler == 0)
	{
		my $stop = 0;
		$SIG{TERM} = sub { $stop = 1 };
		while (!$stop)
		{
			my ($private, $shared) = $others->();
			my @now = ($private - $idle[0], $shared - $idle[1], $is_ours ? (private_kb(1), $leased_kb->()) : ());
			unshift @now, sum(@now);
			@peak = @now if $now[0] > $peak[0];
			usleep(1000);
		}
		syswrite($in, "@peak\n");
		POSIX::_exit(0);
	}
	close $in;
	ask($session, "$query;");
	kill 'TERM', $sampler;
	@peak = map { $_ / 1024 } split ' ', <$out>;
	waitpid($sampler, 0);
	close $_->[1] foreach $session, $arena;
	wait foreach 1, 2;
	return @peak;
}

my ($serial, $parallel) = ('set max_parallel_workers_per_gather = 0;', 'reset max_parallel_workers_per_gather;');
my ($core, $ours) = ('set hjoin_gpu.enabled = off;', 'set hjoin_gpu.enabled = on; set hjoin_gpu.force = on;');
my $over = 0;
printf "%-28s %9s %9s %7s %9s %9s %7s\n", 'peak memory, MB', 'core', 'ours', 'ratio', 'core par.', 'ours par.', 'ratio';
foreach my $case (grep { $_->[0] =~ /$wanted/ } @cases::pair, @cases::tpch)
{
	my ($name, $query) = @$case;
	my (@mb, @parts);
	foreach my $workers ($serial, $parallel)
	{
		foreach my $way ($core, $ours)
		{
			my ($peak, @of) = peak_mb("$way $workers", $query, $way eq $ours);
			push @mb, $peak;
			push @parts, sprintf('%.1f backends, %.1f shared, %.1f device process, %.1f arena', @of) if $way eq $ours;
		}
	}
	$over += grep { $_->[1] > 1.5 * $_->[0] } [ @mb[0, 1] ], [ @mb[2, 3] ];
	printf "%-28s %9.1f %9.1f %6.2fx %9.1f %9.1f %6.2fx\n", $name, @mb[0, 1], $mb[1] / ($mb[0] || 1), @mb[2, 3], $mb[3] / ($mb[2] || 1);
	print "    ours: $parts[0]\n    parallel: $parts[1]\n" if $parts;
}
print "\n$over of these are above 1.5 times core's\n";
