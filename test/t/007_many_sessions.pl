# Many concurrent sessions that want more resources than there are.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use Test::More;

my $sessions = 50;
my $query = q{SELECT sum(hjoin_gpu_self_test((ARRAY[1000, 2000, 4000, 5000, 10000])[1 + g % 5], 20000))
	FROM generate_series(1, 20) g};
my $answer = 20 * 20000;
my $large = 'SELECT hjoin_gpu_self_test(1000000, 1000000)';
my $large_answer = 1000000;
my $join = q{SET hjoin_gpu.force = on; SET hjoin_gpu.in_backend_rows = 0;
	SELECT count(*) FROM build JOIN probe USING (k)};
my $join_answer = 400000;

my $node = start_node('main', conf => "max_connections = 80\nhjoin_gpu.arena_size = '2GB'\n");
make_tables($node);
wait_ready($node, 10);

sub all_at_once
{
	my ($sql) = @_;
	my @running = map { start_query($node, $sql) } 1 .. $sessions;
	return map { [ finish_query($_) ] } @running;
}

my @results = all_at_once($query);
is(scalar(grep { $_->[0] eq $answer } @results), $sessions, "$sessions sessions get right answers")
  or diag(join "\n", map { $_->[1] } grep { $_->[0] ne $answer } @results);
ok(is_idle($node), 'the arena is idle afterwards');

@results = all_at_once($join);
is(scalar(grep { $_->[0] eq $join_answer } @results), $sessions, "$sessions sessions join tables")
  or diag(join "\n", map { $_->[1] } grep { $_->[0] ne $join_answer } @results);
ok(is_idle($node), 'the arena is idle afterwards');
is(stat_value($node, 'device_deaths'), 0, 'the device process lives');

# less memory than any two sessions want: the answer is right, or the refusal is clean
$node->append_conf('postgresql.conf', "hjoin_gpu.arena_size = '24MB'\n");
$node->restart;
wait_ready($node, 10);
is($node->safe_psql('postgres', $large), $large_answer, 'with little memory a session alone succeeds');
@results = all_at_once($large);
my $right = grep { $_->[0] eq $large_answer } @results;
my $full = grep { $_->[1] =~ /shared memory full|share of the role used up/ } @results;
is($right + $full, $sessions, "$sessions at a time succeed ($right) or are refused ($full)")
  or diag(join "\n", map { $_->[1] } @results);
# core reports an error to the client before it aborts the transaction
ok(defined wait_until(sub { is_idle($node) }, 5), 'the arena is idle afterwards');
@results = all_at_once($join);
is(scalar(grep { $_->[0] eq $join_answer } @results), $sessions, 'joins of tables are right with little memory')
  or diag(join "\n", map { "$_->[0] $_->[1]" } grep { $_->[0] ne $join_answer } @results);
ok(is_idle($node), 'the arena is idle afterwards');
is($node->safe_psql('postgres', 'SELECT hjoin_gpu_self_test(1000, 1000)'), 1000, 'the service still works');

$node->stop;
done_testing();
