# results.pm: the tables of RESULTS.md that "make bench-report" draws.  Above each stands a comment that names it and says what was
# measured: <!-- report: NAME; CAPTION -->.  Knows what they must have, and reads them; test/check_rules.pl asks it, too.
package results;
use strict;
use warnings;
use Digest::SHA 'sha256_hex';
use Exporter 'import';

our @EXPORT = qw(read_results digest_of number quantiles range);

# columns that a table must have; of a table in two halves side by side those of one half
our %COLUMNS = (
	tpch => [ '', 'core', 'cpu', 'by choice', 'DuckDB' ],
	workers => [ 'query', 'workers', 'core', 'cpu', 'cuda:0', 'of it transfers and kernels' ],
	shards => [ 'shards', 'core', 'ours' ],
	# random settings of 000's figure 9: milliseconds that 0, 10, 50, 90 and 100 % of them, or 0, 10, ... 100 %, take at most
	monte_carlo => [ 'phase', 'rows', 'of random settings', 'the choice' ],
	# figures of papers, one row a case; the cells that describe a figure stand in its first row
	map { ("paper_$_" => [ 'figure', 'compared', 'case', 'theirs', 'ours', 'spread', 'definition', 'hardware' ]) } qw(000 001 002 003 004));

# Split a line of a table into cells, without marks of bold type and code.
sub cells
{
	my ($line) = @_;
	$line =~ s/^\|\s*|\s*\|\s*$//g;
	$line =~ s/\*\*|`//g;
	# a limit of -1 keeps empty cells at the end
	return map { s/^\s+|\s+$//gr } split /\|/, " $line ", -1;
}

# Read the tables from a file: a hash by name of { caption, columns, rows }, where each row is a hash by column.  A table in two halves
# becomes one.  Dies with all that is missing, or cannot be read.
sub read_results
{
	my ($path) = @_;
	my (%tables, @bad);
	open my $file, '<', $path or die "$path: $!\n";
	chomp(my @lines = <$file>);
	close $file;
	foreach my $at (0 .. $#lines)
	{
		next unless $lines[$at] =~ /^<!-- report: (\w+); (.*) -->$/;
		my ($name, $caption) = ($1, $2);
		my $where = "$path:" . ($at + 1) . ": table '$name'";
		push @bad, "$where is not known" unless $COLUMNS{$name};
		push @bad, "$where stands there twice" if $tables{$name};
		my $next = $at + 1;
		my @table;
		push @table, [ cells($lines[ $next++ ]) ] while $next < @lines && $lines[$next] =~ /^\|/;
		my ($columns, $rule, @rows) = @table;
		if (!@rows) { push @bad, "$where has no rows"; $tables{$name} = {}; next; }
		push @bad, map { "$where: a row of " . @$_ . " cells below " . @$columns . " columns: @$_" } grep { @$_ != @$columns } @rows;
		# H, an empty column, H again
		my $half = (@$columns - 1) / 2;
		if ($half >= 2 && $half == int $half && join('|', @$columns[ 0 .. $half - 1 ]) eq join('|', @$columns[ $half + 1 .. $#$columns ]))
		{
			@rows = ((map { [ @$_[ 0 .. $half - 1 ] ] } @rows), (map { [ @$_[ $half + 1 .. $#$columns ] ] } @rows));
			$columns = [ @$columns[ 0 .. $half - 1 ] ];
		}
		my @by_name;
		foreach my $row (grep { grep { defined && length } @$_ } @rows)
		{
			my %cells;
			# of columns that have no name the first counts
			foreach my $i (0 .. $#$columns) { $cells{ $columns->[$i] } //= $row->[$i] // ''; }
			push @by_name, \%cells;
		}
		my %have = map { $_ => 1 } @$columns;
		push @bad, map { "$where has no column '$_'" } grep { !$have{$_} } @{ $COLUMNS{$name} // [] };
		$tables{$name} = { caption => $caption, columns => $columns, rows => \@by_name };
	}
	push @bad, map { "$path has no table '$_': a comment <!-- report: $_; WHAT IT IS --> above it names it" } grep { !$tables{$_} } sort keys %COLUMNS;
	die join('', map { "$_\n" } @bad) if @bad;
	return \%tables;
}

# The sum by which a picture is known to be of a table as it is now: of the caption and the cells that are drawn.
sub digest_of
{
	my ($name, $table) = @_;
	return sha256_hex(join "\n", $table->{caption}, map { my $row = $_; join '|', map { $row->{$_} } @{ $COLUMNS{$name} } } @{ $table->{rows} });
}

# The number with which a cell begins, undef for an empty cell.
sub number
{
	my ($cell, $what) = @_;
	return undef if $cell eq '';
	$cell =~ /^(\d+(?:\.\d+)?)(?![\d.])/ or die "$what: '$cell' does not begin with a number\n";
	return $1 + 0;
}

# Quantiles of a cell, least first: of 0, 10, ... 100 %, or of 0, 10, 50, 90 and 100 %.
sub quantiles
{
	my ($cell, $what) = @_;
	my @numbers = map { number($_, $what) } split /, */, $cell;
	die "$what: '$cell' has no 5 or 11 numbers, least first\n" if (@numbers != 5 && @numbers != 11) || grep { $numbers[$_] < $numbers[ $_ - 1 ] } 1 .. $#numbers;
	return @numbers;
}

# The numbers that a cell begins with, as a hash of least and most: 'A', 'about A', 'A to B', 'up to A' and 'over A', of which the last two
# have one of them.  Undef for a cell that does not begin so.
sub range
{
	my ($cell) = @_;
	my $n = qr/(\d+(?:\.\d+)?)(?![\d.])/;
	return { least => $1 + 0, most => $2 + 0 } if $cell =~ /^$n to $n/;
	return { least => $1 + 0, most => $1 + 0 } if $cell =~ /^(?:about )?$n/;
	return { most => $1 + 0 } if $cell =~ /^up to $n/;
	return { least => $1 + 0 } if $cell =~ /^over $n/;
	return undef;
}

1;
