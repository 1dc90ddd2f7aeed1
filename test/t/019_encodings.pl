# Text in databases of several encodings, of bytes that are no characters among them: core's rows.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use Test::More;

my $node = start_node('main');

# for each encoding bytes of texts; in EUC_JP the second byte of one character and the first of the next make a third one
my %bytes = (
	UTF8 => [qw(c3a9 c3a8 61c3a962 e282ac c3a9c3a9 f09f9880)],
	LATIN1 => [qw(e9 e8 61e962 ff e9e9 c3a9)],
	EUC_JP => [qw(a4a2a4a4 a2a4 61a4a462 a4a2 a4a4a2a4 8eb1)],
	SQL_ASCII => [qw(ff fe80 61c362 c3 e9 80ff)]);

for my $encoding (sort keys %bytes)
{
	my $db = 'db_' . lc $encoding;
	my @texts = map { "convert_from('\\x$_', '$encoding')" } @{ $bytes{$encoding} };
	my $array = 'ARRAY[' . join(', ', @texts) . ']';

	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0 ENCODING '$encoding' LOCALE 'C'");
	$node->safe_psql($db, qq{CREATE EXTENSION hjoin_gpu;
		CREATE TABLE words AS SELECT g AS id, g % 3 AS k, ($array)[1 + g % 6] || CASE WHEN g % 4 > 0 THEN ($array)[1 + g % 5] ELSE '' END AS t,
			rpad(($array)[1 + g % 6], 3)::char(9) AS c FROM generate_series(1, 3000) g;
		CREATE TABLE few AS SELECT g AS k FROM generate_series(0, 1) g;
		ANALYZE words, few});
	# patterns are constants
	my @conditions = split /\n/, $node->safe_psql($db, qq{
		SELECT format(form, t) FROM unnest($array) t, unnest(ARRAY['t LIKE %L', 't LIKE ''%%'' || %L', 't NOT LIKE %L || ''%%''', 't LIKE ''%%'' || %L || ''%%''', 't LIKE ''_'' || %L || ''%%''', 't = %L', 't <> %L AND id > 7',
			't IN (%L, ''a'')', 'c = %L', 'c LIKE %L || ''%%''', 't > %L', 'substring(t FROM 1 FOR 1) = %L', 'substr(c, 2) <> %L', 'left(t, 2) IN (%L, ''a'')', 't LIKE ''%%'' || %1\$L || ''%%'' || %1\$L']) form});
	my @queries = (
		(map { "SELECT count(*), sum(id) FROM words JOIN few USING (k) WHERE $_" } @conditions),
		'SELECT md5(string_agg(q::text, E\'\\n\' ORDER BY t, c)) FROM (SELECT t, c, count(*), sum(id) FROM words GROUP BY t, c) q',
		'SELECT md5(string_agg(q::text, E\'\\n\' ORDER BY a, b)) FROM (SELECT substring(t FROM 2 FOR 1), substr(c, 0, 3), count(*) FROM words GROUP BY 1, 2) q (a, b, n)',
		'SELECT count(*), sum(n) FROM (SELECT left(t, 1), count(DISTINCT t) AS n FROM words GROUP BY 1) q',
		'SELECT count(*), sum(a.id) FROM words a JOIN words b ON a.t = b.t AND a.c = b.c WHERE b.id < 300');
	my ($wrong, $node_used) = ('', 0);
	my $session = open_session($node, $db);
	for my $query (@queries)
	{
		my $core = ask($session, "SET hjoin_gpu.force = off; SET hjoin_gpu.enabled = off; $query");
		my $ours = ask($session, "SET hjoin_gpu.force = on; SET hjoin_gpu.enabled = on; $query");
		$node_used++ if ask($session, "EXPLAIN $query") =~ /Gpu/;
		$wrong .= "$query: $ours, not $core\n" if $ours ne $core || $core eq '';
	}
	is($wrong, '', "$encoding: core's rows");
	is($node_used, scalar @queries, "$encoding: and the node makes them");
}

$node->stop;
done_testing();
