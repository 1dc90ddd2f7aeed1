#!/usr/bin/perl
# bench_gpu.pl: "make bench-gpu".  Runs three joins of cases.pm with core's plans and with ours on the cpu engine and on
# cuda:0, with 0, 8 and 15 workers (if there are as many cores), interleaved; prints medians.  The device's share is the
# time of transfers and kernels in EXPLAIN ANALYZE.  Counts and checksums are compared before anything is timed.
# Without a GPU its columns are left out, and the last lines tell what is missing.
#
#   --runs N          runs of each configuration
#   --cores N         cores of this machine
#   --cases REGEX     names of cases
use strict;
use warnings;
use File::Basename;
use Getopt::Long;
use JSON::PP;
use lib dirname(__FILE__);
use cases;
use session;

my $DEVICE = 'cuda:0';
my ($runs, $cores, $chosen) = (5, 4, '.');
GetOptions('runs=i' => \$runs, 'cores=i' => \$cores, 'cases=s' => \$chosen) or die;
$| = 1;

my %seen;
my @workers = grep { !$seen{$_}++ } map { $_ < $cores ? $_ : $cores - 1 } (0, 8, 15);
my @cases = grep { defined $cases::gpu_targets{ $_->[0] } } @cases::pair;
die "cases.pm has not all cases of the GPU\n" if @cases != keys %cases::gpu_targets;
@cases = grep { $_->[0] =~ /$chosen/ } @cases;

# Return "ready", or why the device cannot be used.
sub device_state
{
	chomp(my $state = ask("select case when state = 'ready' then state else coalesce(reason, state) end from hjoin_gpu_devices where name = '$DEVICE';"));
	return $state if $state ne '';
	chomp(my $reason = ask("select name || ': ' || coalesce(reason, state) from hjoin_gpu_devices where kind = 'cuda' limit 1;"));
	return $reason ne '' ? $reason : "there is no device $DEVICE";
}

# Settings that run a query with "core", "cpu" or the device and so many workers.
sub settings
{
	my ($who, $nworkers) = @_;
	return ($who eq 'core' ? 'set hjoin_gpu.enabled = off;' : "set hjoin_gpu.enabled = on; set hjoin_gpu.force = on; set hjoin_gpu.device = '$who';") .
	  " set max_parallel_workers_per_gather = $nworkers;";
}

# Time of transfers and kernels of one execution, the time when any of them ran, and the engine that joined.
sub device_share
{
	my ($settings, $query) = @_;
	my $text = ask("$settings explain (analyze, format json) $query;");
	my @nodes = (decode_json($text)->[0]{Plan});
	while (my $node = shift @nodes)
	{
		push @nodes, @{ $node->{Plans} // [] };
		next if ($node->{'Custom Plan Provider'} // '') ne 'GpuHashJoin';
		my $phases = $node->{'Device Phases'};
		my $ms = 0;
		$ms += $phases->{"$_ Time"} foreach qw(Transfer Partition Build Probe Gather);
		return ($ms, $phases->{'Busy Time'}, $node->{Engine});
	}
	die "no node of ours in the plan of: $query\n";
}

my @failed;
sub row { printf "%-20s %8s %9s %9s %9s %9s %9s %8s %8s  %s\n", @_; }
sub ms { return defined $_[0] ? sprintf('%.0f', $_[0]) : '-'; }

sub run_case
{
	my ($case, @who) = @_;
	my ($name, $query, $check) = @$case;
	my $target = $cases::gpu_targets{$name};
	my @ways = map { my $n = $_; map { [ $_, $n ] } grep { $_ ne 'core' || $n > 0 } @who } @workers;
	my %results = map { $_ => 1 } map { ask(settings(@$_) . ' ' . ($check // $query) . ';') } @ways;
	my $equal = keys %results == 1 && (keys %results)[0] ne '' ? 'equal' : 'DIFFERENT';
	push @failed, "$name: results differ" if $equal ne 'equal';
	my (%t, $best);
	foreach my $run (1 .. $runs)
	{
		foreach my $way (@ways)
		{
			ask(settings(@$way));
			push @{ $t{"@$way"} }, timed_ms($query);
		}
	}
	my %m = map { $_ => median(@{ $t{$_} }) } keys %t;
	foreach my $n (@workers)
	{
		my ($core, $cpu, $gpu, $share, $busy, $engine) = map { $m{"$_ $n"} } ('core', 'cpu', $DEVICE);
		if (defined $gpu)
		{
			($share, $busy, $engine) = device_share(settings($DEVICE, $n), $query);
			push @failed, "$name, $n workers: joined by the engine $engine" if $engine ne 'cuda';
			$best = $gpu if !defined $best || $gpu < $best;
		}
		row($name, $n, ms($core), ms($cpu), ms($gpu), map({ defined $_ ? sprintf('%.1f', $_) : '-' } $share, $busy),
			$n == $workers[-1] ? $target : '', defined $core ? sprintf('%.1fx', $core / ($gpu // $cpu)) : '-', $equal);
	}
	push @failed, sprintf('%s: %.0f ms, target %d', $name, $best, $target) if defined $best && $best > $target;
}

ask("alter table s set (parallel_workers = $workers[-1]); alter table r set (parallel_workers = $workers[-1]); set jit = off;");
my $state = device_state();
my @who = ('core', 'cpu', $state eq 'ready' ? ($DEVICE) : ());
print "device: transfers and kernels of $DEVICE, those of batches side by side added up; busy: the time in which there were any; target: of $DEVICE, with up to 15 workers; ratio: core's time by ours\n\n";
row('ms', 'workers', 'core', 'cpu', $DEVICE, 'device', 'busy', 'target', 'ratio', 'results');
run_case($_, @who) foreach @cases;
session::close_all();
print "\n";
print "$cores cores: $workers[-1] workers at most, the targets are for 15\n" if $workers[-1] < 15;
print "missing: $DEVICE ($state); nothing was measured on a GPU, and no target was looked at\n" if $state ne 'ready';
print "missed: $_\n" foreach @failed;
exit(@failed ? 1 : 0);
