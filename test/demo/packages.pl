#!/usr/bin/perl
# packages.pl: converts a Debian package index on standard input (output of "apt-cache dumpavail", or
# /var/lib/dpkg/status) to package.tsv and dependency.tsv in the current directory.
use strict;
use warnings;

open my $packages, '>', 'package.tsv' or die "package.tsv: $!\n";
open my $dependencies, '>', 'dependency.tsv' or die "dependency.tsv: $!\n";
my $id = 0;
my $edges = 0;

sub field
{
	my ($text) = @_;
	return '\N' unless defined $text && length $text;
	$text =~ s/([\\\t\n])/$1 eq "\\" ? "\\\\" : ' '/ge;
	return $text;
}

$/ = '';
while (my $stanza = <STDIN>)
{
	$stanza =~ s/\n[ \t]+/ /g;
	my %f = $stanza =~ /^([A-Za-z-]+):[ \t]*(.*)$/mg;
	next unless defined $f{Package};
	$id++;
	print $packages join("\t", $id, map { field($_) } @f{ 'Package', 'Version', 'Section', 'Architecture', 'Size', 'Installed-Size', 'Maintainer' }), "\n";
	foreach my $kind ('Pre-Depends', 'Depends', 'Recommends', 'Suggests', 'Enhances', 'Breaks', 'Conflicts', 'Replaces')
	{
		next unless defined $f{$kind};
		foreach my $clause (split /\s*,\s*/, $f{$kind})
		{
			my $alternative = 0;
			foreach my $one (split /\s*\|\s*/, $clause)
			{
				next unless $one =~ /^\s*([a-z0-9][a-z0-9+.-]*)(?::[a-z0-9]+)?\s*(?:\(([^)]*)\))?/i;
				print $dependencies join("\t", $id, $kind, $alternative++, $1, field($2)), "\n";
				$edges++;
			}
		}
	}
}
print "$id packages, $edges dependencies\n";
