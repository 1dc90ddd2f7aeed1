#!/usr/bin/perl
# planning.pl: planning time with and without the library.  Three sessions plan each query many times in turn: one of a
# server without the library, and two of a server that has it, with hjoin_gpu.enabled off and on.  Times are EXPLAIN's.
# If the chosen plan has our node, planning plus execution is measured as well.
#
#   --plain CONNINFO  server without the library; the environment names the other one
#   --rounds N        rounds with new sessions; ratios compare adjacent measurements, and their median is printed
#   --cases REGEX     names of cases
use strict;
use warnings;
use File::Basename;
use Getopt::Long;
use IPC::Open2;
use lib dirname(__FILE__);
use session;

my ($plain, $rounds, $wanted) = ('', 9, '.');
GetOptions('plain=s' => \$plain, 'rounds=i' => \$rounds, 'cases=s' => \$wanted) or die;
$| = 1;

# a measurement takes about $turn_ms and at least $least_times plannings; a round has $turns of them
my ($turn_ms, $least_times, $turns) = (5, 4, 6);

sub open_session
{
	my ($conninfo, $settings) = @_;
	my $pid = open2(my $from, my $to, 'psql', '-XqAt', '-d', $conninfo, '-f', '-');
	my %session = (pid => $pid, from => $from, to => $to);
	ask_of(\%session, "set max_parallel_workers_per_gather = 2; $settings");
	return \%session;
}

sub ask_of { return exchange($_[0]{to}, $_[0]{from}, "$_[1]\n\\echo \@\@\@"); }

sub close_session
{
	my ($session) = @_;
	close $session->{to};
	waitpid $session->{pid}, 0;
}

# A query that joins $n tables in a chain, followed by $rest.
sub chain
{
	my ($result, $tables, $n, $rest) = @_;
	my $query = "select $result from " . join(', ', map { "$tables$_ t$_" } 1 .. $n);
	return $query . ' where ' . join(' and ', (map { "t$_.b = t" . ($_ + 1) . '.a' } 1 .. $n - 1), $rest // ());
}

my %size = (s => '1000 rows', l => 'up to 200000 rows');
my @cases;
foreach my $size (qw(s l))
{
	my %kinds = (i => 'indexes', n => 'no index');
	foreach my $n (2, 3, 4, 6)
	{
		push @cases, [ "$n tables, $kinds{$_}, $size{$size}", chain("sum(t1.v + t$n.v)", "$_$size", $n) ] foreach qw(i n);
		push @cases, [ "$n tables, ten rows by key, $size{$size}", chain("sum(t1.v + t$n.v)", "i$size", $n, 't1.a between 5 and 14') ];
		push @cases, [ "$n tables, LIMIT 10 by key, $size{$size}", chain("t1.v, t$n.v", "i$size", $n) . ' order by t1.a limit 10' ];
	}
	my $pair = 'select sum(x.v + y.v) from %1$s1 x join %1$s2 y';
	push @cases, [ "partition-wise, 8 partitions, $size{$size}", sprintf("$pair on x.a = y.a", "p$size") ],
	  [ "the same with primary keys, $size{$size}", sprintf("$pair on x.a = y.a", "q$size") ],
	  [ "8 with 8 partitions, $size{$size}", sprintf("$pair on x.b = y.a", "p$size") ];
}
@cases = grep { $_->[0] =~ /$wanted/i } @cases;

my (%us, %both_us, %times, %ours);
my @ways = qw(plain off on);
foreach my $round (1 .. $rounds)
{
	my %of = (plain => open_session($plain, 'set enable_partitionwise_join = on;'));
	$of{$_} = open_session('', "set enable_partitionwise_join = on; set hjoin_gpu.enabled = $_;") foreach qw(off on);
	foreach my $case (@cases)
	{
		my ($name, $query) = @$case;
		(my $quoted = $query) =~ s/'/''/g;
		my $measure = sub {
			my ($way, $n, $analyze) = @_;
			return 0 + ask_of($of{$way}, "select bench_us('$quoted', $n, $analyze);");
		};
		$ours{$name} //= ask_of($of{on}, "explain $query;") =~ /GpuHashJoin/;
		# fill the session's catalog caches first
		$measure->($_, 3, 'false') foreach @ways;
		$times{$name} //= int($turn_ms * 1000 / $measure->('plain', 3, 'false')) + $least_times;
		foreach my $turn (1 .. $turns)
		{
			push @{ $us{$name}{$_} }, $measure->($_, $times{$name}, 'false') foreach $turn % 2 ? @ways : reverse @ways;
		}
		next unless $ours{$name};
		push @{ $both_us{$name}{$_} }, $measure->($_, 3, 'true') foreach qw(plain on);
	}
	close_session($_) foreach values %of;
}

# Per cent by which planning takes longer than on the server without the library.
sub more
{
	my ($us, $way) = @_;
	return 100 * (median(map { $us->{$way}[$_] / $us->{plain}[$_] } 0 .. $#{ $us->{$way} }) - 1);
}

my $slower = 0;
printf "%-46s %10s %7s %7s   %s\n", 'planning', 'core, us', 'off', 'on', 'core\'s time over ours, planning and execution';
foreach my $case (@cases)
{
	my $name = $case->[0];
	my $on = more($us{$name}, 'on');
	my $both = $ours{$name} ? sprintf('%.2fx', 100 / (100 + more($both_us{$name}, 'on'))) : '';
	my $is_slower = $ours{$name} ? more($both_us{$name}, 'on') > 3 : $on > 3;
	$slower++ if $is_slower;
	printf "%-46s %10.1f %+6.1f%% %+6.1f%%   %s%s\n", $name, median(@{ $us{$name}{plain} }), more($us{$name}, 'off'), $on,
	  $ours{$name} ? $both : 'core\'s plan', $is_slower ? '  SLOWER' : '';
}
printf "\n%d queries, %d plans of ours; %d are more than 3 %% slower\n", scalar @cases, scalar(grep { $_ } values %ours), $slower;
