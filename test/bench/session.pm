# session.pm: a persistent psql session, co-processes and medians for the benchmarks of joins.
package session;
use strict;
use warnings;
use Exporter 'import';
use IPC::Open2;
use Time::HiRes 'time';

our @EXPORT = qw(ask exchange median timed_ms);

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
