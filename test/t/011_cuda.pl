# Joins on a GPU that is emulated on the host (test/device/stub_libcuda.c): core's rows, also when any call of the
# driver fails or does not return.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use HjgTest;
use PostgreSQL::Test::Utils;
use Test::More;

use_emulated_cuda();

my $settings = q{SET hjoin_gpu.force = on; SET hjoin_gpu.programs = off; SET hjoin_gpu.in_backend_rows = 0; SET max_parallel_workers_per_gather = 0;
	SET hjoin_gpu.device = 'cuda:0';};
my @joins = (
	'SELECT count(*), sum(build.id), sum(probe.id) FROM build JOIN probe USING (k)',
	'SELECT count(*), sum(build.id), sum(probe.id) FROM probe LEFT JOIN build ON build.k = probe.k * 2',
	'SELECT count(*), sum(build.id), sum(probe.id) FROM probe FULL JOIN build ON build.k = probe.k * 3',
	'SELECT count(*), sum(id) FROM probe WHERE EXISTS (SELECT 1 FROM build WHERE build.k = probe.k)',
	'SELECT count(*), sum(id) FROM probe WHERE NOT EXISTS (SELECT 1 FROM build WHERE build.k = probe.k)',
	'SELECT count(*) FROM build b1 JOIN build b2 ON b1.k / 500 = b2.k / 500');

sub start_with
{
	my ($name, $conf, %env) = @_;
	local @ENV{ keys %env } = values %env;
	my $node = start_node($name, conf => $conf);
	make_tables($node);
	return $node;
}

sub device_row
{
	my ($node) = @_;
	return $node->safe_psql('postgres', q{SELECT name, state, reason FROM hjoin_gpu_devices WHERE kind = 'cuda'});
}

sub wait_device
{
	my ($node) = @_;
	return wait_until(sub { device_row($node) =~ /^cuda:0\|ready/ }, 10);
}

sub core_answers
{
	my ($node) = @_;
	return map { $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $_") } @joins;
}

sub explained
{
	my ($node, $join, $more) = @_;
	return $node->safe_psql('postgres', $settings . ($more // '') . "EXPLAIN (ANALYZE, COSTS OFF, TIMING ON) $join");
}

# --- a device that works ---
my $node = start_with('works', '');
ok(defined wait_device($node), 'the device is listed');
my @answers = core_answers($node);
is($node->safe_psql('postgres', "$settings $joins[$_]"), $answers[$_], "join $_: core's rows") for 0 .. $#joins;
my $text = explained($node, $joins[0]);
like($text, qr/Engine: cuda\b/, 'EXPLAIN names the engine');
like($text, qr/Device: cuda:0/, 'EXPLAIN names the device');
like($text, qr/Device Phases: Transfer=(?!0\.000)/, 'EXPLAIN shows the time of transfers');
unlike($text, qr/Fallback/, 'nothing fell back');
# k occurs twice on the build side, id once
my $unique = 'SELECT count(*), sum(build.id), sum(probe.k) FROM build JOIN probe ON build.id = probe.k';
my $unique_answer = $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $unique");
for my $strategy (qw(direct packed table radix1 radix2 csr))
{
	my $more = "SET hjoin_gpu.strategy = '$strategy'; ";
	is($node->safe_psql('postgres', $settings . $more . $unique), $unique_answer, "$strategy: core's rows");
	like(explained($node, $unique, $more), qr/Strategy: $strategy\b/, "$strategy: EXPLAIN names it");
	is($node->safe_psql('postgres', "$settings $more $joins[$_]"), $answers[$_], "$strategy, join $_: core's rows") for 0 .. $#joins;
}
cmp_ok(stat_value($node, 'fallback_strategy'), '>', 0, 'keys that do not suit a strategy are counted');
my $declined = explained($node, $joins[0], 'SET hjoin_gpu.strategy = direct; ');
like($declined, qr/Strategy: (?!direct).*Strategy Declined: true/s, 'a strategy that does not suit leaves the join to another one');
unlike($declined, qr/Fallback/, 'which is no fallback');
like(explained($node, $unique), qr/Strategy: (direct|packed)\b/, 'auto chooses by sizes');
my $auto = $settings . "SET hjoin_gpu.device = auto; ";
like($node->safe_psql('postgres', $auto . 'EXPLAIN (ANALYZE, COSTS OFF) SELECT count(*) FROM (SELECT k FROM build LIMIT 300) b '
		. 'JOIN (SELECT k FROM probe LIMIT 500) p USING (k)'),
	qr/Device: cpu/, 'auto takes the cpu engine for a small join');
like(explained($node, $unique), qr/Predicted Device Phases: Transfer=(?!0\.000)\d/, 'a prediction stands beside the device phases');
# the cpu engine's costs are prohibitive
like($node->safe_psql('postgres', $auto . 'SET hjoin_gpu.build_tuple_cost = 100; SET hjoin_gpu.probe_tuple_cost = 100; '
		. "EXPLAIN (ANALYZE, COSTS OFF) $unique"),
	qr/Engine: cuda.*Device: cuda:0/s, 'auto takes a GPU where it is expected to be faster');
{
	my @queries = map { start_query($node, "$settings $joins[$_ % 2]", "many$_") } 0 .. 7;
	my @rows = map { (finish_query($_))[0] } @queries;
	is(scalar(grep { $rows[$_] ne $answers[ $_ % 2 ] } 0 .. 7), 0, 'eight sessions at a time');
}
ok(defined wait_until(sub { is_idle($node) }, 10), 'no job is left');

# --- integers that share a bucket if only the fixed part of the mix is applied ---
sub unmixed
{
	my ($x) = @_;

	$x ^= $x >> 16;
	$x = $x * 0x43021123 & 0xFFFFFFFF;
	$x ^= $x >> 15 ^ $x >> 30;
	$x = $x * 0x1d69e2a5 & 0xFFFFFFFF;
	return $x ^ $x >> 16;
}
{
	use integer;
	my @keys = map { my $k = unmixed(0xABC00000 + $_); $k < 0x80000000 ? $k : $k - 4_294_967_296 } 0 .. 299_999;
	my $hostile = 'SELECT count(*), sum(a.id), sum(b.id) FROM hostile a JOIN hostile b USING (k)';
	my $answer = '300000|45000150000|45000150000';

	append_to_file($node->basedir . '/hostile', join "\n", @keys);
	$node->safe_psql('postgres', 'CREATE TABLE hostile (k int, id serial); COPY hostile (k) FROM \'' . $node->basedir
		  . '/hostile\'; ANALYZE hostile');
	for my $device (qw(cpu cuda:0))
	{
		for my $strategy ($device eq 'cpu' ? qw(auto nop) : qw(auto packed table radix1 radix2 csr))
		{
			is($node->safe_psql('postgres', "$settings SET statement_timeout = '30s'; SET hjoin_gpu.device = '$device'; "
					. "SET hjoin_gpu.strategy = '$strategy'; $hostile"), $answer, "$device, $strategy: integers of one bucket, core's rows");
		}
	}
	like(explained($node, $hostile, "SET hjoin_gpu.strategy = 'table'; "), qr/Strategy: table\b/,
		'they are as good as others, since nobody knows the seed');
	is(stat_value($node, 'device_deaths'), 0, 'and no device process was lost');
}
$node->stop;

# --- lost in the middle of a row's pairs: the backend must find the rest of them ---
$node = start_node('cut', fault => 'die:probe:2');
$node->safe_psql('postgres', q{
	CREATE TABLE many AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 70000) g;
	CREATE TABLE few AS SELECT g AS id, g % 10 AS k FROM generate_series(1, 300) g;
	ANALYZE many, few;
});
wait_device($node);
{
	my $semijoin = 'SELECT count(*), sum(id) FROM few WHERE EXISTS '
	  . '(SELECT FROM many WHERE many.k = few.k AND many.id < few.id - 250)';
	my $core = $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $semijoin");
	is(($node->psql('postgres', "$settings $semijoin"))[1], $core, 'lost between two rounds of candidates: core\'s rows');
	is(stat_value($node, 'device_deaths'), 1, 'the device process was lost');
}
$node->stop;

# --- memory ---
$node = start_with('budget', "hjoin_gpu.device_memory = '2MB'\n");
wait_device($node);
like(explained($node, $joins[0]), qr/Engine: cpu.*Device: cuda:0.*Fallback: device memory not available/s,
	'a budget that is too small: the cpu engine of the device process joins');
is($node->safe_psql('postgres', "$settings $joins[0]"), $answers[0], "a budget that is too small: core's rows");
cmp_ok(stat_value($node, 'fallback_device_memory'), '>=', 2, 'a budget that is too small: counted');
$node->stop;

# --- build sides beyond the budget, in passes ---
{
	my @large = (
		'SELECT count(*), sum(a.id), sum(b.id) FROM large a JOIN other b USING (k)',
		'SELECT count(*), sum(a.id), sum(b.id) FROM large a LEFT JOIN other b ON b.k = a.k * 2',
		'SELECT count(*), sum(a.id), sum(b.id) FROM large a FULL JOIN other b ON b.k = a.k * 3',
		'SELECT count(*), sum(id) FROM large a WHERE EXISTS (SELECT 1 FROM other b WHERE b.k = a.k AND b.id % 7 > 2)',
		'SELECT count(*), sum(id) FROM large a WHERE NOT EXISTS (SELECT 1 FROM other b WHERE b.k = a.k)');

	# one thread, so that the cpu engine is not expected to be faster
	$node = start_with('passes', "hjoin_gpu.device_memory = '4MB'\nhjoin_gpu.cpu_threads = 1\nwork_mem = '64MB'\n");
	$node->safe_psql('postgres', q{
		CREATE TABLE large AS SELECT g AS id, g % 170000 AS k FROM generate_series(1, 250000) g;
		CREATE TABLE other AS SELECT g AS id, g % 190000 + 50000 AS k FROM generate_series(1, 260000) g;
		ANALYZE large, other;
	});
	wait_device($node);
	for my $i (0 .. $#large)
	{
		my $core = $node->safe_psql('postgres', "SET hjoin_gpu.enabled = off; $large[$i]");
		is($node->safe_psql('postgres', "$settings $large[$i]"), $core, "in passes, join $i: core's rows");
	}
	like(explained($node, $large[0]), qr/Engine: cuda\b.*Build Passes: [2-9]/s, 'EXPLAIN shows the passes');
	is(stat_value($node, 'fallback_device_memory'), 0, 'none of them fell back');
	$node->stop;
}

# --- devices that cannot be used ---
$node = start_with('old', '', HJG_STUB_CC => 61);
ok(defined wait_until(sub { device_row($node) =~ /cuda:0\|failed\|too old/ }, 10), 'an old device: the view says why');
is($node->safe_psql('postgres', "$settings $joins[0]"), $answers[0], "an old device: core's rows");
$node->stop;

my $appears = $node->basedir . '/device_is_there';
$node = start_with('late', '', HJG_STUB_ABSENT => $appears);
ok(defined wait_until(sub { device_row($node) =~ /cuda\|failed\|.*no CUDA-capable device/ }, 10), 'no device yet: the view says why');
append_to_file($appears, '');
ok(defined wait_until(sub { device_row($node) =~ /^cuda:0\|ready/ }, 20), 'a device that appears is taken up without a restart');
like(explained($node, $joins[0]), qr/Engine: cuda/, 'and used');
$node->stop;

# --- faults: at one driver call after another ---
$node = start_node('faults');
my $once = $node->data_dir . '/pgsql_tmp_hjoin_gpu/once';
make_tables($node);
$node->stop;
for my $call (map { int(1.35**$_) + $_ } 0 .. 17)
{
	for my $fault ([ HJG_STUB_FAIL => "$call:700" ], [ HJG_STUB_FAIL => "$call:2" ])
	{
		append_to_file($once, '');
		local $ENV{ $fault->[0] } = $fault->[1];
		local $ENV{HJG_STUB_ONCE} = $once;
		$node->start;
		wait_device($node);
		my ($rc, $out) = $node->psql('postgres', "$settings $joins[0]; $joins[0]");
		is($out, "$answers[0]\n$answers[0]", "$fault->[1]: core's rows");
		$node->stop;
	}
}
is(log_count($node, 'terminating any other active server processes'), 0, 'no fault crashed the server');

# --- driver calls that do not return, kernels that do not end ---
$node->append_conf('postgresql.conf', "hjoin_gpu.device_timeout = '2s'");
for my $fault ([ HJG_STUB_HANG => 40 ], [ HJG_STUB_STALL => 60 ])
{
	append_to_file($once, '');
	local $ENV{ $fault->[0] } = $fault->[1];
	local $ENV{HJG_STUB_ONCE} = $once;
	$node->start;
	wait_device($node);
	like(explained($node, $joins[0]), qr/Fallback: device process (does not answer|lost)/, "$fault->[0]: EXPLAIN says so");
	wait_ready($node);
	wait_device($node);
	like(explained($node, $joins[0]), qr/Engine: cuda/, "$fault->[0]: the device is back");
	$node->stop;
}

# --- a device that fails repeatedly is left alone ---
$node->append_conf('postgresql.conf', "hjoin_gpu.device_timeout = '10s'");
{
	local $ENV{HJG_STUB_FAIL} = '30:700';
	$node->start;
	for (1 .. 3)
	{
		wait_ready($node);
		wait_device($node);
		is($node->safe_psql('postgres', "$settings $joins[0]"), $answers[0], "failure $_: core's rows");
	}
	ok(defined wait_until(sub { device_row($node) =~ /failed\|left alone for \d+ s after 3 failures/ }, 30),
		'after three failures the view says that the device is left alone');
	like(explained($node, $joins[0]), qr/Fallback: device not found/, 'joins do not try it');
	$node->safe_psql('postgres', 'SELECT hjoin_gpu_stat_reset()');
	ok(defined wait_until(sub { device_row($node) =~ /ready/ }, 30), 'resetting the statistics lets it be tried again');
	$node->stop;
}

done_testing();
