# session.pm: persistent sessions of psql and DuckDB, co-processes and medians for the benchmarks of joins.
package session;
use strict;
use warnings;
use Exporter 'import';
use File::Basename;
use IPC::Open2;
use Time::HiRes 'time';

our @EXPORT = qw(ask duck exchange median start_duck timed_ms);

my ($pid, $from, $to);

# Ask a co-process, which ends each answer with a line @@@.
sub exchange
{
	my ($in, $out, $question) = @_;
	print $in "$question\n";
	$in->flush;
	my $answer = '';
	while (my $line = <$out>)
	{
		return $answer if $line eq "\@\@\@\n";
		$answer .= $line;
	}
	die "no answer to: $question\n";
}

# Run statements; returns psql's unaligned output.
sub ask
{
	$pid //= open2($from, $to, 'psql', '-XqAt', '-f', '-');
	return exchange($to, $from, "$_[0]\n\\echo \@\@\@");
}

# Start DuckDB with copies of these tables, if python3 has its module; returns its version. dir: for the tables on their way, to which the server can write.
my ($duck_in, $duck_out);

sub start_duck
{
	my ($threads, $dir, @tables) = @_;
	return if !@tables || system("python3 -c 'import duckdb' 2>/dev/null") != 0;
	open2($duck_out, $duck_in, 'python3', dirname(__FILE__) . '/duck.py', $threads);
	chomp(my $version = <$duck_out>);
	foreach my $table (@tables)
	{
		my $columns = ask("select string_agg(attname || ' ' || format_type(atttypid, -1), ', ' order by attnum) from pg_attribute where attrelid = '$table'::regclass and attnum > 0 and not attisdropped;");
		chomp $columns;
		ask("copy $table to '$dir/$table.csv' (format csv);");
		my $said = duck("load $table $dir/$table.csv $columns");
		unlink "$dir/$table.csv";
		die "DuckDB could not load $table: $said" if $said ne '';
	}
	return $version;
}

# Tell DuckDB "ask SQL", which returns rows as psql does, or "time SQL", which returns milliseconds (duck.py).
sub duck { return exchange($duck_in, $duck_out, $_[0]); }

# Time a statement in milliseconds.
sub timed_ms
{
	my $start = time();
	ask("$_[0];");
	return (time() - $start) * 1000;
}

sub median
{
	my @v = sort { $a <=> $b } @_;
	return $v[ @v / 2 ];
}

sub close_all
{
	return unless defined $pid;
	close $to;
	waitpid $pid, 0;
	undef $pid;
}

1;
