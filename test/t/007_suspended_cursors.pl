# One session has so many idle cursors open that they could hold every job slot and all of the shared memory.  Joins of
# other sessions must still run in the device process, and the cursors' rows be right.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use Test::More;

my $node = start_node('main', conf => q{
	hjoin_gpu.force = on
	hjoin_gpu.in_backend_rows = 0
	max_connections = 20
});
make_tables($node);
$node->safe_psql('postgres', q{
	CREATE FUNCTION rows_left(name refcursor) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		n bigint;
	BEGIN
		MOVE FORWARD ALL IN name;
		GET DIAGNOSTICS n = ROW_COUNT;
		RETURN n;
	END $$
});
wait_ready($node, 10);

my $ncursors = 300;
my $join = 'SELECT p.id, b.id AS build_id FROM build b JOIN probe p USING (k) WHERE b.id <= 20000';
my $joined_rows = 20000 * 4;

# Tell where a join in a new session runs, and why not in the device process.
sub joined_in
{
	my $plan = $node->safe_psql('postgres', "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $join");
	return join ', ', $plan =~ /(?:Joined In|Fallback): (.*)/g;
}

is(joined_in(), 'device process', 'with nobody else, a join runs in the device process');

my $idle = $node->background_psql('postgres');
$idle->query_safe(join ';', 'BEGIN', map { "DECLARE c$_ CURSOR FOR $join; MOVE 1 IN c$_" } 1 .. $ncursors);
is(joined_in(), 'device process', "beside $ncursors cursors of an idle session, it still does");
for my $cursor (1, 100, 257, 300)
{
	# with or without a line feed, by the server's minor version
	chomp(my $rows_left = $idle->query_safe("SELECT rows_left('c$cursor')"));
	is($rows_left, $joined_rows - 1, "cursor $cursor has the rows that are left");
}
$idle->query_safe('COMMIT');
$idle->quit;
ok(is_idle($node), 'the arena is idle afterwards');

# EXPLAIN reports why the rest was joined in the backend; the log does not
my ($explained) = (finish_query(start_query($node, "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on;
	SET client_min_messages = log; SET hjoin_gpu.idle_share = 0; BEGIN; DECLARE c CURSOR FOR $join; MOVE 1 IN c; MOVE 1000 IN c; CLOSE c")))[1];
like($explained, qr/Joined In: device process.*Fallback: query suspended/s, 'EXPLAIN says that a query was suspended');
unlike($explained, qr/could not run in the device process/, 'which is no failure');

$node->stop;
done_testing();
