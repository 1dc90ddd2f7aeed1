#!/usr/bin/perl
# choice.pl: the planner's own choice against core.  Each case runs with core's plan and with the plan chosen when our
# node is allowed (never forced), serially and in parallel, interleaved; prints medians, and core's time over the
# choice's.  A case with the same plan twice is not timed.  Plans are compared first, and results if plans differ.
#
#   --runs N          runs of each plan; three times as many if the choice seems slower
#   --cases REGEX     names of cases
#   --edges           only the cases of edges.sql
#   --ways REGEX      serial, parallel
#   --set SQL         settings of both plans
#   --missed          also list cases with core's plan chosen whose forced plan is 10 % faster
#   --verbose         show the plans of cases that are more than 3 % slower
use strict;
use warnings;
use File::Basename;
use Getopt::Long;
use lib dirname(__FILE__);
use cases;
use session;

my ($runs, $wanted, $ways, $set, $missed, $verbose) = (5, '.', '.', '', 0, 0);
GetOptions('runs=i' => \$runs, 'cases=s' => \$wanted, 'ways=s' => \$ways, 'set=s' => \$set, 'missed' => \$missed, 'verbose' => \$verbose,
	'edges' => sub { $wanted = join '|', map { '^' . quotemeta($_->[0]) . '$' } @cases::edges }) or die;
$| = 1;

# a shorter query is repeated until a measurement takes about this long
my $least_ms = 60;

my $core = 'set hjoin_gpu.enabled = off;';
my $free = 'set hjoin_gpu.enabled = on; set hjoin_gpu.force = off;';
my $forced = 'set hjoin_gpu.enabled = on; set hjoin_gpu.force = on;';
my %sessions = (serial => 'set max_parallel_workers_per_gather = 0;', parallel => 'reset max_parallel_workers_per_gather;');
my ($compared, $same, $slower, $faster, $wrong) = (0, 0, 0, 0, 0);

sub plan_of { return ask("$_[0] explain (costs off) $_[1];"); }

# Do core's plan and the plan of these settings return the same rows?
sub same_results
{
	my ($all, $side, $check) = @_;
	my %results = map { $_ => 1 } map { ask("$all $_ $check;") } ($core, $side);

	return 1 if keys %results == 1;
	$wrong++;
	return 0;
}

# Run core's plan and the plan of these settings alternately; returns their medians (ms).
sub measure
{
	my ($all, $side, $query, $n) = @_;
	my $first = timed_ms($query);
	my $loops = $first * 2 > $least_ms ? 1 : int($least_ms / ($first + 0.01)) + 1;
	my %t;

	(my $quoted = $query) =~ s/'/''/g;
	foreach my $run (1 .. $n)
	{
		foreach my $settings ($core, $side)
		{
			ask("$all $settings");
			push @{ $t{$settings} }, $loops == 1 ? timed_ms($query) : $query =~ /^execute/ ? timed_ms("$query;" x $loops) / $loops :
			  ask("select bench_loop('$quoted', $loops);");
		}
	}
	return (median(@{ $t{$core} }), median(@{ $t{$side} }));
}

sub show
{
	my ($name, $way, $c, $f, @more) = @_;
	printf "%-42s %-8s %10.3f %10.3f %7.2fx  %s\n", $name, $way, $c, $f, $c / $f, join('  ', grep { $_ ne '' } @more);
}

# Check whether our plan would have been faster where core's was chosen.
sub look_for_missed
{
	my ($way, $name, $query, $check, $all, $plan) = @_;
	return if !$missed || plan_of("$all $forced", $query) eq $plan;
	# a LIMIT of an unordered result may return other rows
	my $equal = ($query =~ /limit/ && $query !~ /order by/) || same_results($all, $forced, $check) ? '' : 'RESULTS DIFFER';
	my ($c, $f) = measure($all, $forced, $query, $runs);
	return if $f * 1.1 > $c && !$equal;
	$faster++;
	show($name, $way, $c, $f, 'not chosen', $equal);
}

sub one_way
{
	my ($way, $name, $query, $check, $settings) = @_;
	my $all = "reset all; $set $sessions{$way} $settings";
	my %plans = map { $_ => plan_of("$all $_", $query) } ($core, $free);
	if ($plans{$core} eq $plans{$free})
	{
		$same++;
		look_for_missed($way, $name, $query, $check, $all, $plans{$core});
		return;
	}
	my $equal = same_results($all, $free, $check) ? '' : 'RESULTS DIFFER';
	my ($c, $f) = measure($all, $free, $query, $runs);
	# a case counts as slower only after three times as many runs
	my $again = '';
	if ($f > $c * 1.03)
	{
		$again = sprintf 'first %.2fx', $c / $f;
		($c, $f) = measure($all, $free, $query, 3 * $runs);
	}
	my $is_slower = $f > $c * 1.03;
	$compared++;
	$slower++ if $is_slower;
	show($name, $way, $c, $f, ($plans{$free} =~ /GpuHashJoin/ ? 'ours' : 'other plan of core'), $is_slower ? 'SLOWER' : '', $again, $equal);
	print "core: $plans{$core}\nchosen: $plans{$free}\n" if $verbose && $is_slower;
}

my @cases = map { [ $_->[0], $_->[1], $_->[2] // $_->[1], '' ] } (@cases::pair, @cases::tpch, map { [ $_->[0], $_->[1] ] } @cases::small);
push @cases, map { [ $_->[0], $_->[1], $_->[1], $_->[2] // '' ] } @cases::edges;
printf "%-42s %-8s %10s %10s %8s\n", 'ms', '', 'core', 'choice', 'ratio';
foreach my $case (grep { $_->[0] =~ /$wanted/i && $_->[1] !~ /^copy/ } @cases)
{
	one_way($_, @$case) foreach grep { /$ways/ } qw(serial parallel);
}
session::close_all();
print "\n$compared choices differ from core's plan, of these $slower are more than 3 % slower; $same are the same plan\n";
print "in $faster of those the node would have been more than 10 % faster\n" if $missed;
print "$wrong results differ\n" if $wrong;
exit($wrong ? 1 : 0);
