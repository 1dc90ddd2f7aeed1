#!/usr/bin/perl
# compare.pl CORE_DIR OURS_DIR FILE...: compares two runs of regression files.
#
# Plans are ignored wherever they appear: under "QUERY PLAN", in the results of functions called explain_*, in messages,
# and in the output of join_hash.  Rows are compared as multisets; results that differ only in order are listed
# separately and do not count.  Notices before a result are compared as a set: a plan calls a stable function as often, and
# in such an order, as it pleases.
use strict;
use warnings;

my ($core_dir, $ours_dir, @files) = @ARGV;
my $plan_header = qr/^\s*(QUERY PLAN|explain_\w+)\s*$/;
my $plan_reader = qr/\bhash_join_batches\b/;
my $plan_message = qr/^(INFO|NOTICE):  .*(\bJoin\b|\bScan\b|\bNested Loop\b|GpuHashJoin)/;

# Return normalized lines, and for each table [header, has order by, statement, rows...].
sub normalise
{
	my ($path) = @_;
	open my $fh, '<', $path or return;
	my @in = <$fh>;
	close $fh;
	chomp @in;
	my (@out, @tables);
	my $stmt = '';
	my $i = 0;
	while ($i <= $#in)
	{
		# a table: header, separator, rows, "(N rows)"; a comment below an error's position is no separator
		if ($i < $#in && $in[ $i + 1 ] =~ /^-[-+]*$/ && $in[$i] =~ /^ / && $in[$i] !~ /^ *\^$/)
		{
			my $j = $i + 2;
			$j++ while $j <= $#in && $in[$j] !~ /^\(\d+ rows?\)$/;
			if ($j <= $#in)
			{
				if ($in[$i] =~ $plan_header || $stmt =~ $plan_reader) { push @out, '<plan>'; }
				else
				{
					my $first = @out;
					$first-- while $first > 0 && $out[ $first - 1 ] =~ /^NOTICE:/;
					my %notices = map { $_ => 1 } splice @out, $first;
					push @out, sort keys %notices;
					my @rows = @in[ $i + 2 .. $j - 1 ];
					push @tables, [ $in[$i], $stmt =~ /order\s+by/i ? 1 : 0, $stmt, @rows ];
					push @out, $in[$i], (sort @rows), $in[$j];
				}
				$i = $j + 1;
				$stmt = '';
				next;
			}
		}
		if ($in[$i] =~ $plan_message)
		{
			push @out, '<plan in a message>';
			$i++ while $i <= $#in && $in[$i] !~ /^\s*$/;
			next;
		}
		$stmt = '' if $in[$i] =~ /^\s*$/ || $in[$i] =~ /^--/;
		$stmt .= "$in[$i]\n";
		push @out, $in[$i];
		$i++;
	}
	return (\@out, \@tables);
}

my ($passed, $failed, @order, @ties) = (0, 0);
my $tmp = "/tmp/hjg_compare.$$";
foreach my $file (@files)
{
	my ($c, $ct) = normalise("$core_dir/$file.out");
	my ($o, $ot) = normalise("$ours_dir/$file.out");
	next unless $c;
	if (!$o) { $failed++; print "not ok - $file: no output\n"; next; }
	if (join("\n", @$c) ne join("\n", @$o))
	{
		foreach ([ 'core', $c ], [ 'ours', $o ])
		{
			open my $fh, '>', "$tmp.$_->[0]" or die $!;
			print $fh map { "$_\n" } @{ $_->[1] };
			close $fh;
		}
		my @diff = `diff -U6 $tmp.core $tmp.ours`;
		unlink "$tmp.core", "$tmp.ours";
		splice(@diff, 0, 2);
		splice(@diff, 150, @diff - 150, "...\n") if @diff > 150;
		$failed++;
		print "not ok - $file\n", map { "    $_" } @diff;
		next;
	}
	$passed++;
	foreach my $i (0 .. $#$ct)
	{
		my @x = @{ $ct->[$i] };
		my @y = @{ $ot->[$i] };
		next if join("\n", @x[ 3 .. $#x ]) eq join("\n", @y[ 3 .. $#y ]);
		my $stmt = $x[2] =~ s/\s+/ /gr;
		push @{ $x[1] ? \@ties : \@order }, "$file: " . substr($stmt, -150);
	}
}
print "other order of rows without ORDER BY: ", scalar(@order), "\n", map { "    $_\n" } @order if @order;
print "other order of rows in a statement with ORDER BY (of a part, or with ties): ", scalar(@ties), "\n", map { "    $_\n" } @ties if @ties;
print "$passed passed, $failed failed\n";
exit($failed ? 1 : 0);
