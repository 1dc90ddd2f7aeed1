#!/usr/bin/perl
# tpch22.pl: the 22 queries of TPC-H on tpch_tables.sql with core's plan, the chosen plan from pages and from kept columns, each device by
# name from pages, and DuckDB, interleaved; prints medians in milliseconds, and core's time over each.  Results are compared with core's.
# Then lists predicted and actual rows and times of our nodes in the chosen plans, from pages and from kept columns.
#
#   --runs N          runs of each, after one that is not counted
#   --cases REGEX     numbers of queries: '^(3|5)$'
#   --ways REGEX      ways: '^(choice|kept)$'; results are compared with those of the first one
#   --plans FILE      where to write the plans that are listed, as JSON
#   --threads N       threads of DuckDB, which runs if python3 can import its module
#   --dir DIR         directory of the tables' csv files
#   --queries FILE    other queries beside this file, one behind each "-- N", over
#   --tables LIST     these tables: --queries events_queries.sql --tables users,products,events
use strict;
use warnings;
use File::Basename;
use Getopt::Long;
use IPC::Open2;
use JSON::PP;
use lib dirname(__FILE__);
use session;

my ($runs, $wanted, $wanted_ways, $plans_file, $threads, $dir) = (3, '.', '.', '', 2, '');
my ($queries_file, $tables) = ('tpch_queries.sql', 'region,nation,supplier,part,partsupp,customer,orders,lineitem');
GetOptions('runs=i' => \$runs, 'cases=s' => \$wanted, 'ways=s' => \$wanted_ways, 'plans=s' => \$plans_file, 'threads=i' => \$threads, 'dir=s' => \$dir,
	'queries=s' => \$queries_file, 'tables=s' => \$tables) or die;
$| = 1;

my @tables = split /,/, $tables;
my @ways = ([ core => 'set hjoin_gpu.enabled = off;' ], [ choice => 'set hjoin_gpu.enabled = on; reset hjoin_gpu.device; set hjoin_gpu.kept_columns = off;' ],
	[ kept => 'set hjoin_gpu.enabled = on; reset hjoin_gpu.device; set hjoin_gpu.kept_columns = on;' ],
	[ cpu => 'set hjoin_gpu.enabled = on; set hjoin_gpu.device = cpu; set hjoin_gpu.kept_columns = off;' ]);
push @ways, [ cuda => "set hjoin_gpu.enabled = on; set hjoin_gpu.device = 'cuda:0'; set hjoin_gpu.kept_columns = off;" ]
	if ask("select count(*) from hjoin_gpu_devices where name like 'cuda:%';") =~ /^[1-9]/;
my @explained = grep { $_->[0] =~ /$wanted_ways/ } @ways[ 1, 2 ];
@ways = grep { $_->[0] =~ /$wanted_ways/ } @ways;
ask("select hjoin_gpu_keep('$_');") foreach @tables;

# DuckDB with its own copies of the tables, if it is installed
my ($duck_out, $duck_in);
if ('DuckDB' =~ /$wanted_ways/ && system("python3 -c 'import duckdb' 2>/dev/null") == 0)
{
	open2($duck_out, $duck_in, 'python3', dirname(__FILE__) . '/duck.py', $threads);
	my $version = <$duck_out>;
	foreach my $table (@tables)
	{
		my $columns = ask("select string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' order by attnum)"
			  . " from pg_attribute where attrelid = '$table'::regclass and attnum > 0;");
		# DuckDB compares strings with the blanks at their ends, which are no part of a value of char(n)
		my $values = ask("select string_agg(attname || case atttypid when 'bpchar'::regtype then '::text' else '' end, ', ' order by attnum)"
			  . " from pg_attribute where attrelid = '$table'::regclass and attnum > 0;");
		chomp($columns, $values);
		ask("\\copy (select $values from $table) to '$dir/duck.csv' (format csv)");
		my $answer = exchange($duck_in, $duck_out, "load $table $dir/duck.csv $columns");
		die $answer if $answer =~ /^ERROR/;
	}
	unlink "$dir/duck.csv";
}

sub queries
{
	local $/;
	open my $file, '<', dirname(__FILE__) . "/$queries_file" or die "$queries_file: $!\n";
	my @parts = split /^-- (\d+)\n/m, <$file>;
	shift @parts;
	return @parts;
}

# Are DuckDB's rows those of the first way, in any order and but for the digits of numbers?
sub same_rows
{
	my ($mine, $theirs) = map { [ sort map { join '|', map { /^-?[\d.]+(e[-+]?\d+)?$/ ? sprintf('%.6g', $_) : s/ +$//r } split /\|/, $_, -1 } split /\n/, $_ ] } @_;

	return 0 if @$mine != @$theirs;
	foreach my $row (0 .. $#$mine)
	{
		my @left = split /\|/, $mine->[$row], -1;
		my @right = split /\|/, $theirs->[$row], -1;
		return 0 if @left != @right;
		foreach my $i (0 .. $#left)
		{
			next if $left[$i] eq $right[$i];
			return 0 if "$left[$i] $right[$i]" !~ /^-?[\d.]+(e[-+]?\d+)? -?[\d.]+(e[-+]?\d+)?$/ || abs($left[$i] - $right[$i]) > 1e-5 * abs $left[$i];
		}
	}
	return 1;
}

# Find our nodes in a plan.
sub nodes
{
	my ($plan) = @_;
	my @found = map { nodes($_) } @{ $plan->{Plans} // [] };

	unshift @found, $plan if ($plan->{'Custom Plan Provider'} // '') =~ /^Gpu(HashJoin|Aggregate)$/;
	return @found;
}

# Execute a query by a new process, which maps the memory that it reads, as is predicted; returns its plan with times.
sub explain
{
	my ($settings, $query) = @_;
	session::close_all();
	ask($settings);
	return decode_json(ask("explain (analyze, verbose, format json) $query;"));
}

# The predicted time of a process, without children, but with the tables that the node reads itself.
sub predicted_ms
{
	my ($node) = @_;
	my $phases = $node->{'Predicted Phases'} // {};
	my $sum = $node->{'Predicted Time'} // 0;

	$sum += $phases->{$_} foreach grep { !/^Scan/ } keys %$phases;
	return $sum;
}

# The measured one. A child that fewer processes execute counts by its share. Subqueries in the conditions of a table that the node reads are core's.
sub measured_ms
{
	my ($node) = @_;
	my $ms = $node->{'Actual Total Time'};

	$ms -= $_->{'Actual Total Time'} * $_->{'Actual Loops'} / $node->{'Actual Loops'}
	  foreach map { $_->{'Node Type'} eq 'Seq Scan' ? @{ $_->{Plans} // [] } : $_ } @{ $node->{Plans} };
	return $ms;
}

sub ratio { my ($predicted, $measured) = @_; return $measured > 0 ? sprintf('%.2f', $predicted / $measured) : '-'; }

my @names = map { $_->[0] } @ways;
push @names, 'DuckDB' if $duck_in;
printf "%-5s" . ' %9s' x @names . "   %s\n", 'query', @names, "$names[0] over each; results";
my (%logs, @plans, %written, $failed);
my @queries = queries();
while (my ($number, $query) = splice @queries, 0, 2)
{
	next unless $number =~ /$wanted/;
	my (%t, $reference);
	my $verdict = 'equal';
	$query =~ s/;\s*$//;
	foreach my $run (0 .. $runs)
	{
		foreach my $way (@ways)
		{
			my ($name, $settings) = @$way;
			ask($settings);
			if ($run == 0)
			{
				my $rows = ask("$query;");
				$reference //= $rows;
				$verdict = "DIFFERENT ($name)", $failed = 1 if $rows ne $reference;
			}
			else { push @{ $t{$name} }, timed_ms($query); }
		}
		if ($duck_in)
		{
			(my $line = $query) =~ s/\s+/ /g;
			if ($run == 0)
			{
				my $rows = exchange($duck_in, $duck_out, "ask $line");
				$verdict = 'DIFFERENT (DuckDB)', $failed = 1 if !same_rows($reference // $rows, $rows);
				next;
			}
			my $ms = exchange($duck_in, $duck_out, "time $line");
			push @{ $t{DuckDB} }, $ms if $ms =~ /^[\d.]+$/;
		}
	}
	my %median = map { $_ => $t{$_} ? median(@{ $t{$_} }) : 0 } @names;
	my @ratios = map { $median{$_} > 0 ? $median{ $names[0] } / $median{$_} : 0 } @names;
	push @{ $logs{ $names[$_] } }, log $ratios[$_] foreach grep { $ratios[$_] > 0 } 0 .. $#names;
	printf "%-5s" . ' %9.1f' x @names . "   %s; %s\n", $number, @median{@names}, join(' ', map { sprintf '%.2f', $_ } @ratios[ 1 .. $#ratios ]), $verdict;
	foreach my $way (@explained)
	{
		my @plans_by_time = sort { $a->[0]{'Execution Time'} <=> $b->[0]{'Execution Time'} } map { explain($way->[1], $query) } 1 .. $runs;
		my $plan = $plans_by_time[ @plans_by_time / 2 ];
		$written{"Q$number, $way->[0]"} = $plan;
		push @plans, [ $number, $way->[0], grep { $_->{'Actual Loops'} > 0 } nodes($plan->[0]{Plan}) ];
	}
}
foreach my $name (@names[ 1 .. $#names ])
{
	my @l = @{ $logs{$name} // [] };
	my $sum = 0;
	$sum += $_ foreach @l;
	printf "%-8s geometric mean over $names[0] %.2f\n", $name, exp($sum / @l) if @l;
}

printf "\n%-5s %-7s %-14s %-40s %12s %12s %6s   %10s %10s %6s\n", 'query', 'way', 'node', '', 'rows wanted', 'rows came', 'ratio', 'wanted, ms', 'took, ms', 'ratio';
my %close;
foreach my $entry (@plans)
{
	my ($number, $way, @nodes) = @$entry;
	foreach my $node (@nodes)
	{
		my ($predicted, $measured) = (predicted_ms($node), measured_ms($node));
		printf "%-5s %-7s %-14s %-40.40s %12.0f %12.0f %6s   %10.2f %10.2f %6s\n", $number, $way, $node->{'Custom Plan Provider'},
		  $node->{'Hash Cond'} // join(', ', @{ $node->{'Group Key'} // [] }), $node->{'Plan Rows'}, $node->{'Actual Rows'},
		  ratio($node->{'Plan Rows'}, $node->{'Actual Rows'}), $predicted, $measured, ratio($predicted, $measured);
		foreach my $least (grep { $measured >= $_ } 5, 20, 50)
		{
			$close{$way}{$least}[0]++;
			$close{$way}{$least}[1]++ if abs($predicted / $measured - 1) <= 0.3;
		}
	}
}
foreach my $way (sort keys %close)
{
	printf "%-8s nodes of %d ms or more whose time is predicted within 30 %%: %d of %d\n", $way, $_, $close{$way}{$_}[1] // 0, $close{$way}{$_}[0]
	  foreach sort { $a <=> $b } keys %{ $close{$way} };
}
if ($plans_file)
{
	open my $out, '>', $plans_file or die "$plans_file: $!\n";
	print $out JSON::PP->new->canonical->pretty->encode(\%written);
}
exit($failed ? 1 : 0);
