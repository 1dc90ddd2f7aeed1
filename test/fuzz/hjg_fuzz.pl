#!/usr/bin/perl
# hjg_fuzz.pl: differential fuzzer.
#
# Creates random tables and random queries over them, runs each query with core's plans and with ours forced in the same
# snapshot, and compares the results as sorted multisets, errors by SQLSTATE.  Needs perl, psql and a server named by
# the environment (PGHOST, PGUSER, ...) where the extension exists; it works in schema "fz" of that database, which it
# drops.
#
#   --seed N         first round's seed (default: the time); round r uses N + r
#   --queries N      stop after N queries (default 500, without end with --seconds)
#   --seconds S      stop after S seconds
#   --per-schema N   queries for each set of tables (default 40)
#   --repro-dir DIR  directory for scripts of failing queries (default .)
#   --max-failures N stop after N failures (default 10)
#   --aggregates F   share of queries with aggregates of all rows (default 0.08)
#   --groups F       share of queries with GROUP BY (default 0.15)
#   --distinct F     share of these two kinds with aggregates of DISTINCT values (default 0.25)
#   --writers N      number of sessions that change the tables meanwhile (default 0)
#   --kept           keep the tables' columns, with changes and vacuum between queries; hjoin_gpu.cache_size must be set
#   --programs       with --kept: larger tables, and groupings that the device process can run as programs
#   --min-programs F least share of queries whose plan has a program, with --programs (default 0.3)
#   --parallel F     share of queries that may have parallel plans (default: 0.15, and 0.75 in every third schema)
#   --min-share F    least share of queries whose plan has our node (default 0.5)
#   --baseline       core against core: tests the fuzzer, not the extension
#   --no-reduce      do not reduce failing queries
#   --verbose        print every query
#
# Ends with 'N passed, N failed'.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Getopt::Long;
use IPC::Open3;
use IO::Handle;
use IO::Select;
use Symbol 'gensym';
use Time::HiRes 'time';
use HjgSchema;
use HjgQuery;
use HjgProgram;

$SIG{PIPE} = 'IGNORE';
$| = 1;

my %opt = ('per-schema' => 40, 'repro-dir' => '.', 'max-failures' => 10, 'min-share' => 0.5, 'min-programs' => 0.3, writers => 0);
GetOptions(\%opt, 'seed=i', 'queries=i', 'seconds=i', 'per-schema=i', 'repro-dir=s', 'max-failures=i', 'min-share=f', 'aggregates=f', 'groups=f', 'distinct=f', 'parallel=f', 'writers=i', 'kept', 'programs', 'min-programs=f', 'baseline', 'no-reduce', 'verbose')
  or die "see the head of $0 for usage\n";
if ($opt{programs})
{
	$opt{kept} = 1;
	# more than a quarter of its blocks changed, and there is no program
	$HjgQuery::changed_part = 0.04;
}
$opt{queries} //= defined $opt{seconds} ? 1e9 : 500;
$HjgQuery::aggregates = $opt{aggregates} if defined $opt{aggregates};
$HjgQuery::groups = $opt{groups} if defined $opt{groups};
$HjgQuery::distinct = $opt{distinct} if defined $opt{distinct};
$opt{seed} //= time() % 1000000;
my $deadline = defined $opt{seconds} ? time() + $opt{seconds} : undef;
# the setting's name before PostgreSQL 16, and since then
my $parallel_always = `psql -XqAt -c 'show server_version_num'` < 160000 ? 'force_parallel_mode' : 'debug_parallel_query';

# --- psql at the other end of two pipes ------------------------------------------
my ($to, $from, $pid, $buf);
my $errors = "$opt{'repro-dir'}/fuzz_stderr.log";

sub connect_psql
{
	for my $try (1 .. 60)
	{
		$buf = '';
		open(my $err, '>>', $errors) or die "$errors: $!";
		$pid = open3($to, $from, '>&' . fileno($err), 'psql', '-XqAt', '-P', 'null=~', '-v', 'VERBOSITY=sqlstate', '-f', '-');
		close $err;
		my $out = talk("select 'up';\n", 20);
		return if defined $out && $out =~ /^up$/m;
		disconnect();
		sleep 1;
	}
	print "not ok - cannot connect\n0 passed, 1 failed\n";
	exit 1;
}

sub disconnect
{
	close $to if $to;
	close $from if $from;
	if ($pid) { kill 'KILL', $pid; waitpid($pid, 0); }
	$pid = undef;
}

# Send a script; returns its output, or undef when the connection is lost or silent for $patience seconds.
our $why_lost = '';
my $too_long = 100_000_000;

sub talk
{
	my ($script, $patience) = @_;
	$script .= "\\echo @@@\n";
	my $off = 0;
	my $sel_r = IO::Select->new($from);
	$to->blocking(0);
	my $end = time() + $patience;
	while (1)
	{
		if ($off < length $script)
		{
			my $n = syswrite($to, $script, length($script) - $off, $off);
			$off += $n if defined $n;
			if (!defined $n && !$!{EAGAIN}) { $why_lost = 'connection lost'; return undef; }
		}
		if (substr($buf, -4) eq "\@\@\@\n" && $off == length $script)
		{
			my $out = substr($buf, 0, length($buf) - 4);
			$buf = '';
			return $out;
		}
		if (length $buf > $too_long) { $why_lost = 'too much output'; return undef; }
		my @ready = $sel_r->can_read($off < length $script ? 0.01 : 1);
		if (@ready)
		{
			my $n = sysread($from, $buf, 1 << 20, length $buf);
			if (!$n) { $why_lost = 'connection lost'; return undef; }
			$end = time() + $patience if $n;
		}
		if (time() > $end) { $why_lost = "no answer in $patience s"; return undef; }
	}
}

# --- one case ------------------------------------------------------------------------
# Fields: { q => query tree, wrap => name, n => number, settings => { }, ours => { }, role => bool, isolation => level,
#   pair => [two tables], before => [statements of the same transaction], between, later => [statements while a cursor is open], more => rows fetched between them }
sub statements
{
	my ($case) = @_;
	my $sql = HjgQuery::render($case->{q}, $case->{sum});
	my $w = $case->{wrap};
	my $n = $case->{n};
	if ($w eq 'prepare' && !$case->{q}{dml})
	{
		return ('set local plan_cache_mode = force_generic_plan', "prepare p(int) as $sql", "execute p($n)", @{ $case->{between} }, "execute p(null)", "execute p($n + 2)", 'deallocate p');
	}
	$sql =~ s/\$1/$n/g;
	return ($sql) if $w eq 'plain' || $w eq 'prepare';
	return ("declare c $case->{scroll} cursor for $sql", "fetch $n from c", 'savepoint in_cursor', "select count(*) from $case->{pair}[0] a join $case->{pair}[1] b on a.id = b.id", 'release in_cursor', @{ $case->{between} }, "fetch $case->{more} from c", @{ $case->{later} }, 'fetch all from c', 'close c')
	  if $w eq 'cursor';
	return ("declare c scroll cursor for $sql", "move $n from c", 'savepoint in_cursor', @{ $case->{between} }, 'move backward all from c', 'fetch all from c', 'move 2 from c', 'fetch backward all from c', 'close c')
	  if $w eq 'backward';
	return ("create table fz.made as select q::text as q from ($sql) q", 'select * from fz.made') if $w eq 'ctas';
	# psql does not report an error that occurs while rows are copied
	return ("copy ($sql) to stdout (null '~')", 'select 1') if $w eq 'copy';
	return ("select fz.rows_explained(\$qq\$$sql\$qq\$, '$case->{options}')") if $w eq 'analyze';
	return ("select * from fz.rows_of(\$qq\$$sql\$qq\$)") if $w eq 'exceptions';
	return ("select * from fz.rows_after_abort(\$qq\$$sql\$qq\$, $n)") if $w eq 'abort';
	return ("select * from fz.rows_of_cursor(\$qq\$$sql\$qq\$, $n)") if $w eq 'plcursor';
	die $w;
}

sub set_list
{
	my (%s) = @_;
	return join('', map { "set local $_ = '$s{$_}';\n" } sort keys %s);
}

sub script_of
{
	my ($case) = @_;
	my @st = statements($case);
	my $body = join('', map { "$_;\n\\if :ERROR\n\\echo \@\@err :SQLSTATE\n\\set st :st :SQLSTATE\n\\endif\n" } @st);
	my ($explained) = grep { !/^(set|prepare|fetch|close|deallocate|savepoint|release|execute)/ } @st;
	$explained = HjgQuery::render($case->{q}) =~ s/\$1/$case->{n}/gr if !defined $explained || $case->{wrap} eq 'prepare' || $explained =~ /fz\.rows_|^declare|^copy/;
	my $role = $case->{role} ? "set local role fz_user;\n" : '';
	my %ours = $opt{baseline} ? () : ('hjoin_gpu.enabled' => 'on', 'hjoin_gpu.force' => 'on', %{ $case->{ours} });
	my $s = "deallocate all;\nbegin isolation level $case->{isolation};\nselect 1 as snapshot \\gset\n" . set_list(%{ $case->{settings} });
	$s .= join('', map { /^(?:rollback|release)/ ? "$_;\n" : "savepoint w;\n$_;\n\\if :ERROR\nrollback to w;\n\\endif\n" } @{ $case->{before} });
	$s .= "savepoint s;\n" . set_list('hjoin_gpu.enabled' => 'off', 'hjoin_gpu.force' => 'off', statement_timeout => '3s') . $role . "\\set st ''\n";
	# twice: a timeout between two statements makes the next one fail instead
	$s .= "\\echo \@\@core\n$body\\echo \@\@done\nrollback to s;\nrollback to s;\ndeallocate all;\n";
	my $too_slow = $case->{wrap} eq 'copy' ? '57014|^ 25P02' : '57014';
	$s .= "select :'st' ~ '$too_slow' as too_slow \\gset\n\\if :too_slow\nrollback;\n\\else\n";
	$s .= set_list(%ours, statement_timeout => ($case->{patience} // 20) . 's') . $role . "savepoint e;\n";
	$s .= "\\echo \@\@explain\nexplain (verbose, costs off) $explained;\nrollback to e;\n";
	$s .= "set local statement_timeout = '$case->{timeout}ms';\n" if $case->{timeout};
	$s .= "\\echo \@\@ours\n$body\\echo \@\@done\nrollback;\n";
	$s .= "rollback;\n" if $case->{timeout};
	$s .= "\\endif\n";
	return $s;
}

sub part_of
{
	my ($out, $name, $ordered) = @_;
	my ($text) = $out =~ /^\@\@$name\n(.*?)^\@\@(?:done|ours)\n/ms;
	$text //= '';
	my ($err) = $text =~ /^\@\@err (\S+)$/m;
	# an empty row may be the last one
	my @rows = grep { !/^\@\@err/ } split /\n/, $text, -1;
	@rows = sort @rows if !$ordered;
	return ($err // '', \@rows);
}

# Run a case; returns { verdict => same|slow|skip|order|differ|lost, why, node => bool }.
sub run_case
{
	my ($case) = @_;
	my $out = talk(script_of($case), 90 + ($case->{patience} // 0));
	if (!defined $out)
	{
		disconnect();
		my $r = { verdict => $why_lost eq 'too much output' ? 'skip' : 'lost', why => $why_lost };
		connect_psql();
		return $r;
	}
	my ($ce, $c) = part_of($out, 'core', $case->{q}{ordered});
	my ($oe, $o) = part_of($out, 'ours', $case->{q}{ordered});
	my ($explain) = $out =~ /^\@\@explain\n(.*?)^\@\@ours\n/ms;
	my %r = (node => ($explain // '') =~ /Gpu(HashJoin|Aggregate)/ ? 1 : 0, shared => ($explain // '') =~ /Parallel Custom Scan \(GpuHashJoin/ ? 1 : 0, aggregates => ($explain // '') =~ /^ *Aggregates: /m ? 1 : 0,
		build_only => ($explain // '') =~ /^ *Join Type: Right (Semi|Anti)/m ? 1 : 0,
		program => ($explain // '') =~ /^ *Program Device: /m ? 1 : 0,
		unnested => ($explain // "") =~ /\bunnested(_\d+)?\b/ ? 1 : 0,
		distinct => ($explain // '') =~ /^ *Aggregates: .*DISTINCT/m ? 1 : 0,
		shared_groups => ($explain // '') =~ /Parallel Custom Scan \(GpuAggregate/ ? 1 : 0, explain => $explain, rows => scalar @$c);
	return { %r, verdict => 'skip' } if $ce =~ /^(57014|53|54)/ || $case->{wrap} eq 'copy' && $ce eq '25P02' || $opt{writers} && "$ce $oe" =~ /40001|40P01|55P03/;
	# on a busy machine writers bloat tables without limit, and a forced plan has no bound on its costs
	return { %r, verdict => 'skip' } if $opt{writers} && $oe =~ /^ ?57014/;
	return { %r, verdict => 'order' } if $case->{timeout} && !$case->{q}{errors} && $ce ne $oe && "$ce $oe" =~ /^ ?22/;
	return { %r, verdict => $oe eq '57014' || $oe eq $ce || $case->{wrap} eq 'copy' && $oe eq '25P02' ? 'same' : 'differ', why => "core: '$ce', ours: '$oe'" } if $case->{timeout};
	if ($ce ne $oe)
	{
		return { %r, verdict => 'same' } if substr($ce, 0, 2) eq '22' && substr($oe, 0, 2) eq '22';
		# a function of the catalog may raise any of these errors, each for other rows
		my $raised = HjgQuery::render($case->{q}) =~ /pg_catalog\./ ? qr/^(22|0A|42|54|2F)/ : qr/^22/;
		return { %r, verdict => 'order', why => "core: '$ce', ours: '$oe'" } if (!$case->{q}{errors} || $ce ne '' && $oe ne '') && ($ce =~ $raised || $oe =~ $raised);
		if ($oe =~ /^57014/)
		{
			# slow, or does it not end?
			return { %r, verdict => 'differ', why => "ours was stopped after $case->{patience} s, core had ended within 3 s" } if $case->{patience};
			my $again = run_case({ %$case, patience => 200 });
			return { %$again, verdict => $again->{verdict} eq 'same' ? 'slow' : $again->{verdict} };
		}
		return { %r, verdict => 'differ', why => "SQLSTATE of core: '$ce', of ours: '$oe'" };
	}
	return { %r, verdict => 'same', error => $ce } if $ce ne '';
	my ($nc, $no) = (scalar @$c, scalar @$o);
	for my $i (0 .. ($nc > $no ? $nc : $no) - 1)
	{
		my ($x, $y) = ($c->[$i], $o->[$i]);
		next if defined $x && defined $y && $x eq $y;
		$_ = defined $_ ? substr($_, 0, 200) : '(none)' foreach ($x, $y);
		return { %r, verdict => 'differ', why => "rows of core: $nc, of ours: $no; first difference" . ($case->{q}{ordered} ? '' : ' when sorted') . ": core '$x', ours '$y'" };
	}
	return { %r, verdict => 'same' };
}

# --- reduce a failing case --------------------------------------------------------
sub clone
{
	my ($x) = @_;
	return { map { $_ => clone($x->{$_}) } keys %$x } if ref $x eq 'HASH';
	return [ map { clone($_) } @$x ] if ref $x eq 'ARRAY';
	return $x;
}

sub smaller
{
	my ($case) = @_;
	my @out;
	my $try = sub { my $c = clone($case); push @out, $c if $_[0]->($c); };
	foreach my $k (sort keys %{ $case->{settings} }) { $try->(sub { delete $_[0]{settings}{$k}; 1 }); }
	foreach my $k (sort keys %{ $case->{ours} }) { $try->(sub { delete $_[0]{ours}{$k}; 1 }); }
	$try->(sub { $_[0]{wrap} = 'plain'; 1 }) if $case->{wrap} ne 'plain';
	$try->(sub { $_[0]{role} = 0; 1 }) if $case->{role};
	foreach my $k (qw(before between later)) { my $list = $k; foreach my $i (0 .. $#{ $case->{$k} }) { $try->(sub { splice(@{ $_[0]{$list} }, $i, 1); 1 }); } }
	$try->(sub { $_[0]{sum} = 0; 1 }) if $case->{sum};
	return @out if $case->{q}{dml};
	foreach my $i (0 .. $#{ $case->{q}{where} }) { $try->(sub { splice(@{ $_[0]{q}{where} }, $i, 1); 1 }); }
	foreach my $k (qw(tail setop)) { $try->(sub { $_[0]{q}{$k} = ''; 1 }) if $case->{q}{$k}; }
	$try->(sub { $_[0]{q}{with} = []; 1 }) if @{ $case->{q}{with} };
	$try->(sub { $_[0]{q}{select} = ['count(*)']; $_[0]{q}{tail} = ''; $_[0]{q}{setop} = ''; 1 }) if "@{ $case->{q}{select} }" ne 'count(*)';
	if (@{ $case->{q}{select} } > 1)
	{
		foreach my $i (0 .. $#{ $case->{q}{select} }) { $try->(sub { splice(@{ $_[0]{q}{select} }, $i, 1); 1 }); }
	}
	my @paths = ([]);
	while (my $p = shift @paths)
	{
		my $get = sub { my $n = $_[0]{q}{from}; $n = $n->{$_} foreach @$p; return $n; };
		my $node = $get->($case);
		next if $node->{kind} eq 'leaf';
		foreach my $side (qw(l r))
		{
			$try->(sub { my $n = $get->($_[0]); my $child = $n->{$side}; %$n = %$child; 1 });
			push @paths, [ @$p, $side ];
		}
		if (@{ $node->{cond} } > 1)
		{
			foreach my $i (0 .. $#{ $node->{cond} }) { $try->(sub { splice(@{ $get->($_[0])->{cond} }, $i, 1); 1 }); }
		}
		$try->(sub { $get->($_[0])->{type} = 'join'; 1 }) if $node->{type} ne 'join';
	}
	return @out;
}

sub reduce
{
	my ($case, $verdict) = @_;
	my $left = $verdict eq 'lost' ? 25 : 150;
	my $until = time() + 60;
  AGAIN: while ($left > 0 && time() < $until)
	{
		foreach my $c (smaller($case))
		{
			last AGAIN if $left-- <= 0 || time() > $until;
			my $r = run_case($c);
			if ($r->{verdict} eq $verdict) { $case = $c; next AGAIN; }
		}
		last;
	}
	return $case;
}

# Can the result have very many rows?
sub large
{
	my ($from) = @_;
	my $product = 1;
	foreach my $leaf (HjgQuery::leaves($from)) { $product *= $leaf->{rows} < 20 ? 1 : $leaf->{rows} / 20; }
	return $product > 3000;
}

# --- sessions that change the tables ----------------------------------------------------
my @writers;

sub start_writers
{
	my ($schema, $seed) = @_;
	foreach my $w (1 .. $opt{writers})
	{
		my $child = fork() // die "fork: $!";
		if ($child) { push @writers, $child; next; }
		srand($seed * 100 + $w);
		open(STDOUT, '>', '/dev/null');
		open(STDERR, '>', '/dev/null');
		open($to, '|-', 'psql', '-Xqn') or exit 1;
		$to->autoflush(1);
		print $to "set application_name = 'fz_writer';\nset lock_timeout = '200ms';\nset hjoin_gpu.enabled = off;\n";
		# as fast as the server takes them; the pipe buffers some kilobytes
		print $to HjgQuery::make_transaction($schema, $w) while 1;
	}
}

sub stop_writers
{
	return if !@writers;
	kill 'KILL', @writers;
	waitpid($_, 0) foreach splice(@writers);
	talk("select pg_terminate_backend(pid, 5000) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend' and application_name = 'fz_writer';\n"
		  . "select format('rollback prepared %L', gid) from pg_prepared_xacts where gid like 'fz%' \\gexec\n", 60);
}

# --- kept columns -----------------------------------------------------------------------
my $ours_in_fz = "pg_class where relnamespace = 'fz'::regnamespace and relkind in ('r', 'm')";
my $vacuum = "select format('vacuum %s', oid::regclass) from $ours_in_fz \\gexec\n";
my $keep = "select count(hjoin_gpu_keep(oid::regclass)) from $ours_in_fz;\n";

# Make a script that changes what is kept, or makes some of it invalid.
sub change_kept
{
	my ($schema) = @_;
	my $vacuum_some = $vacuum =~ s/ \\gexec/ and random() < 0.5 \\gexec/r =~ s/vacuum %s/HjgSchema::pick('vacuum %s', 'vacuum %s', 'vacuum (freeze) %s', 'vacuum (full) %s')/er;

	# most blocks must be as they were kept
	my $then = $opt{programs} && rand() < 0.6 ? "$vacuum$keep" : join('', rand() < 0.5 ? $vacuum_some : '', rand() < 0.5 ? $keep : '');

	return join('', "set statement_timeout = '20s';\n", map({ HjgQuery::make_change($schema) . ";\n" } 1 .. int rand 3), $then, "reset statement_timeout;\n");
}

# --- programs ---------------------------------------------------------------------------
my @gpus;

# Settings of which most let a query have a program; half of the queries leave the device to the planner.
sub set_for_programs
{
	my ($case) = @_;
	my ($s, $o) = @{$case}{qw(settings ours)};
	$s->{work_mem} = HjgSchema::pick('64kB', '256kB', '4MB', '4MB', '64MB', '512MB');
	$s->{max_parallel_workers_per_gather} = 0 if rand() < 0.7;
	# GEQO finds no program of a join
	delete $s->{geqo_threshold} if rand() < 0.8;
	return if $opt{baseline};
	$o->{'hjoin_gpu.device'} = HjgSchema::pick('cpu', @gpus, @gpus) if rand() < 0.5;
	$o->{'hjoin_gpu.cpu_threads'} = HjgSchema::pick(1, 2, 3, 8) if rand() < 0.5;
	$o->{'hjoin_gpu.in_backend_rows'} = rand() < 0.15 ? -1 : HjgSchema::pick(0, 100) if rand() < 0.15;
	$o->{'hjoin_gpu.aggregate'} = 'off' if rand() < 0.02;
	$o->{'hjoin_gpu.unnest_subqueries'} = 'off' if rand() < 0.05;
	$o->{'hjoin_gpu.float_sums'} = 'on' if rand() < 0.8;
	# the planner's own choice, with an executor of core's that costs much
	if (rand() < 0.12)
	{
		$o->{'hjoin_gpu.force'} = 'off';
		$o->{cpu_operator_cost} = 1;
		$o->{cpu_tuple_cost} = 4;
	}
}

# --- main -------------------------------------------------------------------------------
my ($passed, $failed, $skipped, $with_node, $with_shared, $with_aggregates, $with_distinct, $with_shared_groups, $with_build_only, $with_unnested, $with_program, $planned, $order, $erroneous, @slow) = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);

sub program_figures
{
	return $opt{programs} && !$opt{baseline} ? split(/[|\n]/, talk("select name, value from hjoin_gpu_stat where name ~ 'program';\n", 30) // '') : ();
}

sub failure
{
	my ($what) = @_;
	$failed++;
	print "not ok - $what\n";
}

connect_psql();
my %has;
$has{citext} = (talk("create schema if not exists fz;\ncreate extension if not exists citext schema public;\nselect 'has' from pg_extension where extname = 'citext';\n", 30) // '') =~ /has/;
$has{icu} = (talk("create schema if not exists fz;\ncreate collation if not exists fz.nd (provider = icu, deterministic = false, locale = 'und-u-ks-level2');\nselect 'has' from pg_collation where collname = 'nd';\n", 30) // '') =~ /has/;
talk("select 'create role fz_user' where not exists (select from pg_roles where rolname = 'fz_user') \\gexec\n", 30);
if ($opt{programs})
{
	talk("create extension if not exists hjoin_gpu;\n", 30);
	@gpus = split /\n/, talk("select name from hjoin_gpu_devices where kind = 'cuda' and state = 'ready';\n", 30) // '';
}
# functions of simple types, without those that can take much memory or time
@HjgQuery::functions = map { my ($name, $cast, $types) = split /\|/; [ $name, $cast, split(/ /, $types) ] } split /\n/, talk(<<'SQL', 30) // '';
select proname, case when prorettype = any ('{numeric,float4,float8,interval}'::regtype[]) then '::text' else '' end, string_agg(t.typname, ' ' order by a.n)
from pg_proc p, unnest(proargtypes) with ordinality a(type, n), pg_type t
where t.oid = a.type and provolatile = 'i' and prokind = 'f' and not proretset and pronamespace = 'pg_catalog'::regnamespace
  and prorettype = any ('{bool,int2,int4,int8,text,date,timestamp,time,numeric,float4,float8,interval}'::regtype[])
  and proargtypes::oid[] <@ array(select unnest('{int2,int4,int8,numeric,bool,text,date,timestamp,interval,time}'::regtype[])::oid)
  and proname !~ '^(repeat|lpad|rpad|factorial|numeric_fac|gcd|lcm|pg_|set_|.*pow(er)?|.*exp|.*ln|.*log(10)?)$|^pg_|_support$'
group by p.oid, proname, prorettype order by p.oid;
SQL
die "the catalog has no functions\n" if @HjgQuery::functions < 300;
my %began = program_figures();
print "seed $opt{seed}\n";

my ($round, $count) = (0, 0);
ROUND: while (1)
{
	my $seed = $opt{seed} + $round++;
	srand($seed);
	HjgQuery::reset_aliases();
	my $schema = $opt{programs} ? HjgProgram::make_schema() : HjgSchema::make(\%has);
	my @names = map { $_->{name} } @{ $schema->{tables} };
	my $check = "\\if :ERROR\n\\echo \@\@err :SQLSTATE :LAST_ERROR_MESSAGE\n\\endif\n";
	my $setup = "set client_min_messages = error;\nset timezone = 'UTC';\n" . HjgSchema::preamble(\%has);
	$setup .= join('', map { $schema->{sql}{$_} =~ s/;\n/;\n$check/gr } @names);
	my $out = talk($setup, 120);
	if (!defined $out) { failure("seed $seed: making the tables: $why_lost"); disconnect(); connect_psql(); last if $failed >= $opt{'max-failures'}; next; }
	print "# seed $seed: making the tables raised $1\n" while $out =~ /^\@\@err (.*)/mg;

	talk("$vacuum$keep", 120) if $opt{kept};
	start_writers($schema, $seed);
	foreach my $qno (1 .. $opt{'per-schema'})
	{
		last ROUND if $count >= $opt{queries} || $deadline && time() > $deadline;
		srand($seed * 1000 + $qno);
		HjgQuery::reset_aliases();
		$count++;
		my $q = rand() < ($opt{programs} ? 0.01 : 0.04) ? { dml => HjgQuery::make_dml($schema), settings => {} } : $opt{programs} ? HjgProgram::make_query($schema) : HjgQuery::make_query($schema);
		my %case = (q => $q, wrap => 'plain', n => 1 + int(rand(12)), settings => {}, ours => {}, scroll => HjgSchema::pick('', 'no scroll', 'scroll'), pair => [ @names[ 0, -1 ] ], before => [], between => [], later => [], more => HjgSchema::pick(20, 20, 300, 11000),
			isolation => 'repeatable read');
		# settings changed while a cursor is open
		push @{ $case{ HjgSchema::pick('between', 'between', 'later') } }, 'set local ' . HjgSchema::pick("work_mem = '64kB'", "work_mem = '8MB'", 'hjoin_gpu.in_backend_rows = -1', 'hjoin_gpu.in_backend_rows = 0', 'hjoin_gpu.in_backend_rows = 100000',
			'hjoin_gpu.strategy = nop', 'hjoin_gpu.direct_scan = off', 'hjoin_gpu.bloom_filter = on', 'hjoin_gpu.enabled = off', 'enable_hashjoin = off')
		  while rand() < 0.25;
		while (rand() < 0.15) { push @{ $case{between} }, 'savepoint b', HjgQuery::make_change($schema), HjgSchema::pick('rollback to b', 'release b'); }
		while (rand() < 0.12) { push @{ $case{before} }, HjgQuery::make_change($schema), HjgSchema::pick('rollback to w', 'release w', 'savepoint w2'); }
		$case{isolation} = 'serializable' if rand() < ($opt{programs} ? 0.03 : 0.1);
		$case{options} = 'analyze, format json, summary off' . join('', map { ", $_ " . HjgSchema::pick('on', 'off') } qw(verbose buffers settings wal timing));
		my $r = rand() * ($opt{programs} ? 1.6 : 1);
		if ($q->{dml} || ($q->{tail} // '') =~ /for update/ || @{ $q->{with} // [] } && $q->{with}[-1] =~ /returning/) { $case{wrap} = 'plain'; }
		elsif ($q->{params} || $opt{programs} && rand() < 0.08) { $case{wrap} = rand() < 0.6 ? 'prepare' : 'plain'; }
		elsif ($r < 0.32) { $case{wrap} = 'cursor'; }
		elsif ($r < 0.37) { $case{wrap} = 'exceptions'; }
		elsif ($r < 0.41) { $case{wrap} = 'abort'; }
		elsif ($r < 0.45) { $case{wrap} = 'plcursor'; }
		elsif ($r < 0.48) { $case{wrap} = 'backward'; }
		elsif ($r < 0.51) { $case{wrap} = 'ctas'; }
		elsif ($r < 0.54) { $case{wrap} = 'copy'; }
		elsif ($r < 0.58) { $case{wrap} = 'analyze'; }
		if (!$q->{dml} && !$q->{errors} && !$q->{ordered} && ($q->{tail} // '') !~ /for update/) { $case{sum} = rand() < (large($q->{from}) ? 0.95 : 0.1); }
		$case{role} = 1 if $schema->{rls} && rand() < 0.5;
		my $s = $case{settings};
		$s->{timezone} = HjgSchema::pick('Europe/Berlin', 'America/St_Johns', 'Asia/Kolkata', 'Pacific/Apia') if $opt{programs} && rand() < 0.3;
		$s->{work_mem} = HjgSchema::pick('64kB', '64kB', '256kB', '4MB');
		$s->{hash_mem_multiplier} = 1 if rand() < 0.7;
		# every third schema is mostly joined by parallel plans
		$s->{max_parallel_workers_per_gather} = rand() >= ($opt{parallel} // ($seed % 3 == 0 ? 0.75 : 0.15)) ? 0 : 1 + int(rand(4));
		# starting workers for each row of an outer query takes longer than the query
		$s->{max_parallel_workers_per_gather} = 0 if HjgQuery::render($q) =~ /\(select count\(\*\) from/;
		if ($s->{max_parallel_workers_per_gather})
		{
			$s->{$_} = 0 foreach qw(min_parallel_table_scan_size parallel_setup_cost parallel_tuple_cost);
			# makes a division among processes worthwhile
			$s->{cpu_tuple_cost} = 50 if rand() < 0.4;
			$s->{parallel_leader_participation} = 'off' if rand() < 0.15;
			$s->{enable_parallel_hash} = 'off' if rand() < 0.1;
		}
		$s->{join_collapse_limit} = 1 if rand() < 0.3;
		$s->{from_collapse_limit} = 1 if rand() < 0.1;
		$s->{geqo_threshold} = 2 if rand() < 0.1;
		foreach (qw(enable_mergejoin enable_nestloop enable_hashagg enable_memoize enable_material enable_indexscan enable_bitmapscan enable_seqscan)) { $s->{$_} = 'off' if rand() < 0.06; }
		$s->{enable_partitionwise_join} = 'on' if rand() < 0.3;
		$s->{enable_partitionwise_aggregate} = 'on' if rand() < 0.1;
		$s->{cursor_tuple_fraction} = 1 if rand() < 0.1;
		$s->{jit} = 'off';
		if (rand() < 0.02) { $s->{jit} = 'on'; $s->{jit_above_cost} = 0; }
		$s->{$parallel_always} = HjgSchema::pick('on', 'regress') if rand() < 0.04;
		$case{sum} = 'twice' if $opt{programs} && !$q->{dml} && !$q->{ordered} && rand() < 0.03 && $case{wrap} eq 'plain' && ($q->{tail} // '') !~ /for update/;
		set_for_programs(\%case) if $opt{programs};
		if (!$opt{baseline} && !$opt{programs})
		{
			my $o = $case{ours};
			$o->{'hjoin_gpu.aggregate'} = 'off' if rand() < 0.3;
			$o->{'hjoin_gpu.float_sums'} = 'on' if rand() < 0.7;
			$o->{'hjoin_gpu.in_backend_rows'} = HjgSchema::pick(0, 0, 0, 100, -1) if rand() < 0.6;
			$o->{'hjoin_gpu.strategy'} = HjgSchema::pick('nop', 'auto') if rand() < 0.5;
			$o->{'hjoin_gpu.bloom_filter'} = HjgSchema::pick('on', 'off') if rand() < 0.6;
			$o->{'hjoin_gpu.device'} = HjgSchema::pick('cpu', 'auto') if rand() < 0.3;
			$o->{'hjoin_gpu.cpu_threads'} = HjgSchema::pick(1, 2) if rand() < 0.2;
			# the planner's own choice, with cheap costs of ours
			if (rand() < 0.2)
			{
				$o->{'hjoin_gpu.force'} = 'off';
				$o->{"hjoin_gpu.$_"} = 0 foreach qw(build_tuple_cost emit_tuple_cost marshal_tuple_cost probe_tuple_cost startup_cost transfer_cost);
			}
		}
		$case{timeout} = 1 + int(rand(20)) if rand() < 0.03;
		if ($opt{programs} && rand() < 0.25) { talk("$vacuum$keep", 120); }
		elsif ($opt{kept} && rand() < 0.25) { talk(change_kept($schema), 90); }
		print "-- $seed.$qno $case{wrap}\n", HjgQuery::render($q), ";\n" if $opt{verbose};
		my $t = time();
		my $res = run_case(\%case);
		printf "-- %s, %d rows, %.2f s%s\n", $res->{verdict}, $res->{rows} // 0, time() - $t, $res->{error} ? ", error $res->{error}" : '' if $opt{verbose};
		$planned++ if $res->{explain};
		$with_node += $res->{node} // 0;
		$with_shared += $res->{shared} // 0;
		$with_aggregates += $res->{aggregates} // 0;
		$with_distinct += $res->{distinct} // 0;
		$with_shared_groups += $res->{shared_groups} // 0;
		$with_build_only += $res->{build_only} // 0;
		$with_unnested += $res->{unnested} // 0;
		$with_program += $res->{program} // 0;
		$erroneous++ if $res->{error};
		if ($res->{verdict} eq 'same') { $passed++; next; }
		if ($res->{verdict} eq 'slow') { $passed++; push @slow, "$seed.$qno"; next; }
		if ($res->{verdict} eq 'skip') { $skipped++; next; }
		if ($res->{verdict} eq 'order') { $order++; next; }
		my $file = "$opt{'repro-dir'}/fuzz_${seed}_$qno.sql";
		failure("seed $seed, query $qno: $res->{why}");
		my $small = $opt{'no-reduce'} ? \%case : reduce(\%case, $res->{verdict});
		my $text = script_of($small);
		my %used = map { $_ => 1 } grep { $text =~ /\Q$_\E\b/ } @names;
		foreach my $tab (@{ $schema->{tables} }) { $used{ $tab->{over} } = 1 if $used{ $tab->{name} } && $tab->{over}; }
		if (open my $fh, '>', $file)
		{
			print $fh "-- $res->{why}\n-- run with: psql -XqAt -P null=~ -f FILE\nset timezone = 'UTC';\n", HjgSchema::preamble(\%has),
			  (map { $schema->{sql}{$_} } grep { $used{$_} } @names), $opt{kept} ? "$vacuum$keep" : '', $text;
			close $fh;
		}
		print "#   settings: ", join(', ', map { "$_=$small->{settings}{$_}" } sort keys %{ $small->{settings} }), "\n";
		print "#   ours: ", join(', ', map { "$_=$small->{ours}{$_}" } sort keys %{ $small->{ours} }), "\n";
		print "#   as: $small->{wrap}", ($small->{sum} ? ' sum' : ''), ($small->{timeout} ? ", statement_timeout $small->{timeout} ms" : ''), "\n";
		print map { "#   $_\n" } split /\n/, HjgQuery::render($small->{q});
		print "#   script: $file\n";
		last ROUND if $failed >= $opt{'max-failures'};
	}
	stop_writers();
}
stop_writers();

# the state after all cases
if (!$opt{baseline})
{
	my $left = '';
	for (1 .. 20)
	{
		$left = talk("select count(*) from hjoin_gpu_jobs;\n", 30) // 'lost';
		chomp $left;
		last if $left eq '0';
		select(undef, undef, undef, 0.25);
	}
	if ($left eq '0') { $passed++; }
	else { failure("hjoin_gpu_jobs is empty at the end (it has $left)"); }
	if ($opt{kept})
	{
		my ($served, $read) = split /\|/, talk("select sum(served), sum(read) from (select max(blocks_served) as served, max(blocks_read) as read from hjoin_gpu_cache() group by file) x;\n", 30) // '';
		chomp $read;
		print "# blocks of the last tables from kept columns: $served, read: $read\n";
		if ($served > 0) { $passed++; }
		else { failure('kept columns were served'); }
	}
	my $share = $planned ? $with_node / $planned : 0;
	if ($share >= $opt{'min-share'}) { $passed++; }
	else { failure("at least $opt{'min-share'} of the plans have our node"); }
	if ($opt{programs})
	{
		my %figures = program_figures();
		printf "# plans with a program: %d of %d; %d executions by programs, %d refused\n", $with_program, $planned, map { $figures{$_} - $began{$_} } qw(programs fallback_program_refused);
		if ($with_program >= $opt{'min-programs'} * $planned && $figures{programs} - $began{programs} >= 0.8 * $opt{'min-programs'} * $planned) { $passed++; }
		else { failure("at least $opt{'min-programs'} of the plans have a program, and most of these run one"); }
	}
}
talk("drop schema if exists fz cascade;\n", 60);
print "# $count queries in $round schemas, seeds $opt{seed} to ", $opt{seed} + $round - 1, ": $skipped skipped (too slow with core, or beside writers), $order with an error that depends on the plan, ",
  "$erroneous with the same error\n";
printf "# plans with our node: %d of %d, shared by workers: %d, with aggregates in it: %d, of DISTINCT values: %d, groups shared by workers: %d, right semi or anti joins: %d, subqueries joined: %d\n", $with_node, $planned, $with_shared, $with_aggregates, $with_distinct, $with_shared_groups, $with_build_only, $with_unnested;
print "# took more than 20 s, core less than 3 s, with the same rows: @slow\n" if @slow;
print "$passed passed, $failed failed\n";
exit($failed ? 1 : 0);
