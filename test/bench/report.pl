#!/usr/bin/perl
# report.pl: "make bench-report".  Makes of the tables of RESULTS.md (results.pm) the pages build/bench-report.html and
# build/bench-papers.html (figures of the papers, ours over theirs), and the picture that README shows, test/bench/tpch.svg.  plot.py draws; all words and figures come from here.  Run from the top of the tree.
#
#   PYTHON=python3    a Python that has matplotlib
use strict;
use warnings;
use File::Basename;
use IPC::Open2;
use JSON::PP;
use List::Util qw(max min sum);
use lib dirname(__FILE__);
use results;

my $source = 'test/bench/RESULTS.md';
my ($page_path, $papers_path, $picture_path) = ('build/bench-report.html', 'build/bench-papers.html', 'test/bench/tpch.svg');
my $python = $ENV{PYTHON} || 'python3';

# Say a ratio with two digits, a large one as a whole number.
sub digits { my ($ratio) = @_; return sprintf($ratio >= 9.95 ? '%.0f' : $ratio >= 0.995 ? '%.1f' : '%.2f', $ratio); }

# The geometric mean of how many times as long the first column takes as the second.
sub mean_ratio
{
	my ($first, $second, @rows) = @_;
	return exp(sum(map { log($_->{$first} / $_->{$second}) } @rows) / @rows);
}

# Take numbers from columns of a table's rows; a cell without one leaves undef if $may_be_empty.
sub numbers
{
	my ($name, $table, $may_be_empty, @columns) = @_;
	my @rows;
	foreach my $row (@{ $table->{rows} })
	{
		my %numbers = %$row;
		foreach (@columns)
		{
			$numbers{$_} = number($row->{$_}, "$source: table '$name', column '$_'");
			die "$source: table '$name': no '$_' in the row of '" . $row->{ $table->{columns}[0] } . "'\n" if !$may_be_empty && !defined $numbers{$_};
		}
		push @rows, \%numbers;
	}
	return @rows;
}

# TPC-H: bars by query, by what is gained, least first.
sub figure_tpch
{
	my ($table) = @_;
	my @rows = numbers('tpch', $table, 0, 'core', 'cpu', 'by choice', 'DuckDB');
	my %gain = map { $_ => digits(mean_ratio('core', $_, @rows)) } 'cpu', 'by choice', 'DuckDB';
	my $ahead = grep { $_->{'by choice'} < $_->{DuckDB} } @rows;

	@rows = sort { $a->{core} / $a->{'by choice'} <=> $b->{core} / $b->{'by choice'} } @rows;
	return {
		kind => 'bars',
		title => "TPC-H with a GPU: $gain{'by choice'} times as fast as PostgreSQL alone, in " . digits(mean_ratio('by choice', 'DuckDB', @rows)) . " of DuckDB's time",
		caption => $table->{caption},
		note => 'Logarithmic scale, less is better. Above each query: PostgreSQL\'s time over that with the GPU. It is ahead of DuckDB in '
		  . "$ahead of " . @rows . ' queries',
		means => '(geometric means)',
		groups => [ map { $_->{''} } @rows ],
		labels => [ map { digits($_->{core} / $_->{'by choice'}) . 'x' } @rows ],
		series => [
			{ name => 'PostgreSQL alone', color => 'core', values => [ map { $_->{core} } @rows ] },
			{ name => "hjoin_gpu, CPU only: $gain{cpu}x", color => 'cpu', values => [ map { $_->{cpu} } @rows ] },
			{ name => "hjoin_gpu with a GPU: $gain{'by choice'}x", color => 'gpu', values => [ map { $_->{'by choice'} } @rows ] },
			{ name => "DuckDB: $gain{DuckDB}x", color => 'duckdb', values => [ map { $_->{DuckDB} } @rows ] } ] };
}

# The rows of the table of workers, by query: a cell that is empty stands for the one above it.
sub by_query
{
	my ($table) = @_;
	my ($query, @names, %rows);
	foreach my $row (numbers('workers', $table, 1, 'workers', 'core', 'cpu', 'cuda:0'))
	{
		$query = $row->{query} if $row->{query} ne '';
		push @names, $query unless $rows{$query};
		push @{ $rows{$query} }, $row;
	}
	return map { [ $_, @{ $rows{$_} } ] } @names;
}

# Growth by workers and by shards: lines, of queries that were run with several numbers of them.
sub figure_growth
{
	my ($workers, $shards) = @_;
	my (@panels, @gains);
	foreach (by_query($workers))
	{
		my ($query, @rows) = @$_;
		next if @rows < 2;
		push @panels, { title => $query, axis => 'workers', lines => [ map { line('workers', @$_, @rows) } [ 'core', 'core' ], [ 'cpu', 'cpu' ], [ 'cuda:0', 'gpu' ] ] };
		push @gains, gain('cuda:0', @rows);
	}
	die "$source: table 'workers' has no query with several numbers of workers\n" unless @panels;
	my @rows = numbers('shards', $shards, 0, 'shards', 'core', 'ours');
	push @panels, { title => 'join and GROUP BY, postgres_fdw', axis => 'shards', lines => [ map { line('shards', @$_, @rows) } [ 'core', 'core' ], [ 'ours', 'cpu' ] ] };
	return {
		kind => 'lines',
		title => 'Growth: workers make joins on a GPU ' . join(' and ', @gains) . ' times as fast, shards ' . gain('ours', @rows) . ' times',
		caption => join(', ', map { $_->{title} } grep { $_->{axis} eq 'workers' } @panels) . ": $workers->{caption}\n"
		  . "Shards: $shards->{caption}\n(" . join('; ', map { $_->{shards} } @{ $shards->{rows} }) . ')',
		note => 'Milliseconds, logarithmic scale, less is better',
		names => [ 'PostgreSQL alone', 'hjoin_gpu, CPU', 'hjoin_gpu, GPU' ],
		colors => [ 'core', 'cpu', 'gpu' ],
		panels => \@panels };
}

# The line of a column over another one, without the rows in which it is empty.
sub line
{
	my ($over, $column, $color, @rows) = @_;
	@rows = grep { defined $_->{$column} } @rows;
	return { color => $color, x => [ map { $_->{$over} } @rows ], y => [ map { $_->{$column} } @rows ] };
}

# Divide the time of the first row by that of the least one.
sub gain
{
	my ($column, @rows) = @_;
	return digits($rows[0]{$column} / min(map { $_->{$column} } @rows));
}

# Shares of a join's time on a GPU: in which it had transfers or kernels to do, which brackets hold, and the rest.
sub figure_shares
{
	my ($table) = @_;
	my $column = 'of it transfers and kernels';
	my @bars;
	foreach (by_query($table))
	{
		my ($query, @rows) = @$_;
		foreach my $row (grep { $_->{$column} =~ /\(/ } @rows)
		{
			$row->{$column} =~ /\((\d+(?:\.\d+)?)\)$/ or die "$source: table 'workers': '$row->{$column}' ends in no number in brackets\n";
			push @bars, { query => $query, workers => $row->{workers}, busy => $1 + 0, all => $row->{'cuda:0'} };
		}
	}
	die "$source: table 'workers': no row has a number in brackets\n" unless @bars;
	my @percent = map { 100 * $_->{busy} / $_->{all} } @bars;
	return {
		kind => 'shares',
		title => sprintf('Phases: a GPU has work for %.0f to %.0f %% of the time of a join from pages', min(@percent), max(@percent)),
		caption => $table->{caption},
		note => 'Shares of the time; transfers and kernels of several batches run side by side',
		names => [ 'transfers or kernels', 'the rest: PostgreSQL reads pages, packs keys and adds joined rows up' ],
		colors => [ 'gpu', 'core' ],
		groups => [ map { "$_->{query}, " . ($_->{workers} || 'no') . ' workers' } @bars ],
		values => [ map { [ $_->{busy}, $_->{all} - $_->{busy} ] } @bars ] };
}

# A paper's figures: for each case what the paper says and what was measured here, on one axis a figure.
sub figure_paper
{
	my ($name, $table) = @_;
	my @panels;
	foreach my $row (@{ $table->{rows} })
	{
		if ($row->{figure} ne '')
		{
			die "$source: table '$name': '$row->{figure}' does not tell what is compared, its definition and the hardware\n" if grep { $row->{$_} eq '' } qw(compared definition hardware);
			push @panels, { title => "$row->{figure}: $row->{compared}", caption => "Definition: $row->{definition}. Here: $row->{hardware}", rows => [] };
		}
		die "$source: table '$name' begins without a figure\n" unless @panels;
		push @{ $panels[-1]{rows} }, { label => $row->{case}, theirs => side($row->{theirs}, 'not told'), ours => side($row->{ours}, 'not measured'), spread => range($row->{spread}) };
	}
	my ($title) = $table->{caption} =~ /^([^;]*)/;
	return {
		kind => 'claims',
		name => $name,
		title => $title,
		caption => $table->{caption} =~ s/^[^;]*; *//r,
		note => 'Thick: from the least to the most that is told; an open end: "up to", "over". Thin: spread of single runs',
		names => [ 'the paper', 'here' ],
		colors => [ 'core', 'gpu' ],
		panels => \@panels };
}

# Distributions of the times of random settings, a panel a phase, side by side, as multiples of the choice's time.
sub figure_monte_carlo
{
	my ($table) = @_;
	my (@panels, @sizes);
	foreach my $row (@{ $table->{rows} })
	{
		my $where = "$source: table 'monte_carlo', '$row->{phase}', $row->{rows} rows";
		my $choice = number($row->{'the choice'}, $where);
		push @panels, { title => $row->{phase}, lines => [] } if $row->{phase} ne '';
		push @sizes, $row->{rows} unless grep { $_ eq $row->{rows} } @sizes;
		my ($place) = grep { $sizes[$_] eq $row->{rows} } 0 .. $#sizes;
		my @ms = quantiles($row->{'of random settings'}, $where);
		push @{ $panels[-1]{lines} }, { place => $place, x => [ map { $_ / $choice } @ms ], y => [ @ms == 11 ? map { 10 * $_ } 0 .. 10 : (0, 10, 50, 90, 100) ] };
	}
	return {
		kind => 'distributions',
		title => '000, figure 9: random settings of the ratios, and the choice of the model',
		caption => $table->{caption},
		note => 'Time over that of the choice (1, the line), logarithmic; up: % of the random settings that take at most as long',
		names => [ map { "$_ rows" } @sizes ],
		colors => [ ('core', 'cpu', 'gpu', 'duckdb', 'fifth')[ 0 .. $#sizes ] ],
		panels => \@panels };
}

# Describe one side of a case, in words and as a range of numbers, where it has one.
sub side
{
	my ($cell, $without) = @_;
	return { text => $cell eq '' ? $without : $cell, range => range($cell) };
}

sub escape { return $_[0] =~ s/&/&amp;/gr =~ s/</&lt;/gr =~ s/>/&gt;/gr; }

# The table that a figure shows, in HTML.
sub table_html
{
	my ($table) = @_;
	my @columns = grep { my $c = $_; $c ne '' || $c eq $table->{columns}[0] } @{ $table->{columns} };
	my $html = "<details><summary>The figures</summary><table>\n<tr>" . join('', map { '<th>' . escape($_) . '</th>' } @columns) . "</tr>\n";
	$html .= '<tr>' . join('', map { '<td>' . escape($_) . '</td>' } @$_{@columns}) . "</tr>\n" foreach @{ $table->{rows} };
	return "$html</table></details>\n";
}

# Draw figures: plot.py takes them as JSON and gives a list of SVG texts.
sub draw
{
	my (@figures) = @_;
	my $pid = open2(my $from, my $to, $python, dirname(__FILE__) . '/plot.py');
	local $SIG{PIPE} = 'IGNORE';
	print $to JSON::PP->new->canonical->encode(\@figures);
	close $to;
	local $/;
	my $answer = <$from>;
	waitpid $pid, 0;
	exit 1 if $?;
	return @{ decode_json($answer) };
}

sub write_file
{
	my ($path, $text) = @_;
	open my $file, '>:encoding(UTF-8)', $path or die "$path: $!\n";
	print $file $text;
	close $file or die "$path: $!\n";
	print "$path\n";
}

# Write a page of figures, each with the tables that it shows.
sub write_page
{
	my ($path, $title, $tables, @parts) = @_;
	my @svgs = draw(map { $_->[0] } @parts);
	my $page = <<"END";
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>$title</title>
<style>
:root { color-scheme: light dark; }
body { font-family: sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; }
table { border-collapse: collapse; font-size: 0.85rem; }
td, th { padding: 0.1rem 0.8rem 0.1rem 0; text-align: left; }
</style></head><body>
<h1>$title</h1>
<p>Drawn of test/bench/RESULTS.md, which tells command, machine and method of each table.</p>
END
	foreach my $i (0 .. $#parts)
	{
		my ($figure, @names) = @{ $parts[$i] };
		$page .= "<section>\n$svgs[$i]";
		$page .= '<p>' . escape($tables->{$_}{caption}) . "</p>\n" . table_html($tables->{$_}) foreach @names;
		$page .= "</section>\n";
	}
	write_file($path, "$page</body></html>\n");
	return @svgs;
}

my $tables = read_results($source);
mkdir 'build';
my ($tpch_svg) = write_page(
	$page_path, 'hjoin_gpu: what was measured', $tables,
	[ figure_tpch($tables->{tpch}), 'tpch' ],
	[ figure_growth($tables->{workers}, $tables->{shards}), 'workers', 'shards' ],
	[ figure_shares($tables->{workers}), 'workers' ]);
# the sum tells test/check_rules.pl that the picture is of these figures
my $digest = digest_of('tpch', $tables->{tpch});
write_file($picture_path, $tpch_svg =~ s/(<svg[^>]*>\n)/$1<!-- made by "make bench-report" of table tpch of $source: $digest -->\n/r);
write_page(
	$papers_path, 'hjoin_gpu: the papers, ours over theirs', $tables,
	(map { [ figure_paper($_, $tables->{$_}), $_ ] } grep { /^paper_/ } sort keys %$tables),
	[ figure_monte_carlo($tables->{monte_carlo}), 'monte_carlo' ]);
