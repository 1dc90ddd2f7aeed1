#!/usr/bin/perl
# side_by_side.pl LEFT RIGHT: prints two text files side by side, long lines broken.
use strict;
use warnings;

my ($left, $right) = @ARGV;
my $width = 78;

sub lines
{
	my ($path) = @_;
	open my $fh, '<', $path or die "$path: $!\n";
	my @out;
	while (my $line = <$fh>)
	{
		chomp $line;
		my ($indent) = $line =~ /^(\s*)/;
		while (length $line > $width)
		{
			my $at = rindex($line, ' ', $width);
			$at = $width if $at <= length($indent) + 4;
			push @out, substr($line, 0, $at);
			$line = "$indent    " . (substr($line, $at) =~ s/^\s+//r);
		}
		push @out, $line;
	}
	return @out;
}

my @l = lines($left);
my @r = lines($right);
for my $i (0 .. ($#l > $#r ? $#l : $#r))
{
	printf "  %-${width}s | %s\n", $l[$i] // '', $r[$i] // '';
}
