#!/usr/bin/perl
# check_rules.pl: checks the project's rules that a program can check; prints TAP.  Run from the top of the tree.
use strict;
use warnings;
use Cwd;
use lib 'test/bench';
use results;

my ($n, $failed) = (0, 0);

sub ok
{
	my ($good, $claim, @why) = @_;
	$n++;
	$failed++ unless $good;
	print(($good ? "ok" : "not ok"), " $n - $claim\n");
	print map { "#   $_\n" } @why unless $good;
	return $good;
}

sub slurp
{
	my ($path) = @_;
	open my $fh, '<', $path or return '';
	local $/;
	my $text = <$fh>;
	close $fh;
	return $text;
}

# room => rooms whose headers it may include (its own always)
my %may = (
	layout => [],
	base => ['layout'],
	model => ['layout'],
	arena => ['layout'],
	engine => [ 'layout', 'arena', 'model' ],
	coupled => [ 'engine', 'model', 'layout', 'kernels' ],
	kernels => ['layout'],
	'kernels/lab' => [ 'kernels', 'layout', 'lab' ],
	device => [ 'coupled', 'engine', 'arena', 'model', 'vector', 'layout', 'kernels' ],
	lab => [ 'device', 'coupled', 'engine', 'arena', 'model', 'layout', 'kernels' ],
	service => [ 'arena', 'base', 'layout', 'engine' ],
	vector => [],
	kept => [ 'vector', 'arena', 'huge', 'base', 'layout' ],
	huge => [ 'base', 'layout' ],
	scan => [ 'kept', 'huge', 'vector', 'base', 'layout' ],
	rows => [ 'vector', 'layout' ],
	planner => [ 'scan', 'huge', 'rows', 'vector', 'model', 'base', 'layout' ],
	node => [ 'planner', 'scan', 'kept', 'rows', 'service', 'engine', 'base' ],
	# measures functions of these rooms, which a query's noise would hide (hjg_calibrate.h)
	calibrate => [ 'planner', 'scan', 'kept', 'rows', 'service', 'engine', 'model', 'base' ],);
my @pure = qw(layout model arena vector engine coupled device lab);

my @sources = sort(glob('src/*.c src/*/*.c src/*.h src/*/*.h'));
my @kernels = sort(glob('kernels/*.cu kernels/*.cl kernels/*.h kernels/lab/*.cu kernels/lab/*.h'));
my @tests_c = sort(glob('test/*/*.c test/*/*.h'));
my %includes;
foreach my $file (@sources, @kernels)
{
	my $text = slurp($file);
	my @inc;
	my $line = 0;
	foreach (split /\n/, $text)
	{
		$line++;
		push @inc, [ $line, $1, $2 ] if /^\s*#\s*include\s+([<"])([^>"]+)[>"]/;
	}
	$includes{$file} = \@inc;
}

# --- names, dependencies of rooms ---------------------------------------------
my @bad = grep { !m{/hjg_[a-z0-9_]+\.h$} } grep { /\.h$/ } @sources;
ok(!@bad, 'every header is called hjg_*.h', @bad);

@bad = grep { $_ ne 'src/base/hjg_compat.h' && slurp($_) =~ /PG_VERSION_NUM|PG_MAJORVERSION/ } @sources;
ok(!@bad, "src/base/hjg_compat.h alone asks for the server's version", @bad);

@bad = ();
foreach my $file (@sources, @kernels)
{
	next unless $file =~ m{^(?:src/)?([a-z/]+)/\w+\.} and $file !~ m{^src/\w+\.};
	my $room = $1;
	if (!exists $may{$room}) { push @bad, "$file: room $room is not known"; next; }
	foreach my $inc (@{ $includes{$file} })
	{
		next unless $inc->[2] =~ m{^([a-z]+)/hjg_\w+\.h$};
		my $other = $1;
		next if $other eq $room or grep { $_ eq $other } @{ $may{$room} };
		push @bad, "$file:$inc->[0]: $room may not include $other";
	}
}
ok(!@bad, 'rooms include only the rooms that they may', @bad);

# a header that is its room's own says so; the laboratory compares parts of some rooms
my %own;
foreach my $header (map { m{^src/(.*\.h)$} } @sources)
{
	$own{$header} = $1 // '' if slurp("src/$header") =~ /no\s+(?:\*\s+)?other\s+(?:\*\s+)?room\s+(?:\*\s+)?includes(?:\s+(?:\*\s+)?it\s+(?:\*\s+)?but\s+(?:\*\s+)?the\s+(?:\*\s+)?(lab)oratory)?/i;
}
@bad = ();
foreach my $file (@sources)
{
	my ($room) = $file =~ m{^src/(?:([a-z]+)/)?};
	$room //= '';
	push @bad, map { "$file:$_->[0]: $_->[2]" } grep { defined $own{ $_->[2] } and $own{ $_->[2] } ne $room and $_->[2] !~ m{^\Q$room\E/} } @{ $includes{$file} };
}
push @bad, 'no such header found' unless %own;
ok(!@bad, 'no room includes a header that another one keeps to itself', @bad);

# --- names: each means one thing -------------------------------------------------
# types, functions visible to other files, and constants of headers, by the files that define them
my (%types, %functions, %constants, %rooms);
my (@one_word, $nstatics);
foreach my $file (@sources)
{
	my ($room) = $file =~ m{^src/([a-z]+)/};
	$room //= 'top';
	my $text = slurp($file);
	$text =~ s{/\*.*?\*/}{}gs;
	$text =~ s{\\\n}{ }g;
	my %here;
	$here{$1}++ while $text =~ /^\s*(?:typedef\s+)?(?:struct|union|enum)\s+(\w+)\s*\{/mg;
	$here{$1}++ while $text =~ /^\s*typedef\s+(?!(?:struct|union|enum)\b)[^;{}()]*?\b(\w+)(?:\s+__attribute__[^;]*)?;/mg;
	$here{$1}++ while $text =~ /^\s*typedef\s+[^;{}]*?\(\s*\*\s*(\w+)\s*\)/mg;
	push @{ $types{$_} }, $file foreach keys %here;
	%here = ();
	# the type is on its own line
	while ($text =~ /^([A-Za-z][^;{}()#]*)\n(\w+)\([^;{}]*\)\n\{/mg)
	{
		my ($type, $name) = ($1, $2);
		$rooms{$1}{$room} = 1 if ($type !~ /\bstatic\b/ or $file =~ /\.h$/) and $name =~ /^(hjg_[a-z0-9]+)/;
		$here{$name}++ unless $name eq 'main';
		next unless $type =~ /\bstatic\b/;
		$nstatics++;
		push @one_word, "$file: $name" if $name !~ /_/;
	}
	push @{ $functions{$_} }, $file foreach keys %here;
	next unless $file =~ /\.h$/;
	%here = ();
	# a macro that expands a list of rows is defined at each use
	$here{$1}++ while $text =~ /^#\s*define\s+(HJG_\w+)/mg;
	while ($text =~ /\benum(?:\s+\w+)?\s*\{(.*?)\}/sg)
	{
		my $body = $1;
		$here{$1}++ while $body =~ /^\s*(HJG_\w+)\s*(?=[,=\n]|\z)/mg;
	}
	push @{ $constants{$_} }, $file foreach keys %here;
}
foreach my $kind ([ 'type', \%types ], [ 'function', \%functions ], [ 'constant', \%constants ])
{
	my ($what, $names) = @$kind;
	@bad = map { "$_: @{ $names->{$_} }" } grep { @{ $names->{$_} } > 1 } sort keys %$names;
	push @bad, "no $what found" unless %$names;
	ok(!@bad, "no $what is defined in two files", @bad);
}

push @one_word, 'no static function found' unless $nstatics;
ok(!@one_word, 'no static function is called by one word, like a system call', @one_word);

# functions on shared memory structures belong to the structures, in any room
delete $_->{layout} foreach values %rooms;
@bad = map { "$_: " . join(' ', sort keys %{ $rooms{$_} }) } grep { keys %{ $rooms{$_} } > 1 } sort keys %rooms;
ok(!@bad, 'the first word of a function belongs to one room', @bad);

# --- structs ---------------------------------------------------------------------
# the comment above a struct of many fields tells why it is one: 'One struct, because ...'
@bad = ();
my $nstructs = 0;
foreach my $file (@sources, glob('kernels/*.h kernels/lab/*.h'))
{
	my $text = slurp($file);
	while ($text =~ m{((?:/\*(?:(?!\*/).)*\*/\n)?)(?:typedef\s+)?struct\s+(\w+)\s*(\{(?:[^{}]++|(?3))*\})}gs)
	{
		my ($above, $name, $body) = ($1, $2, $3);
		my $nfields = 0;
		$nstructs++;
		$body = substr($body, 1, -1);
		$body =~ s{/\*.*?\*/}{}gs;
		$body =~ s/(\{(?:[^{}]++|(?1))*\})//g;
		$body =~ s/(\((?:[^()]++|(?1))*\))//g;
		$nfields += 1 + tr/,// foreach grep { /\w/ } split /;/, $body;
		push @bad, "$file: $name has $nfields fields" if $nfields > 25 and $above !~ /\bone\s+(?:\*\s+)?struct,\s+(?:\*\s+)?because\b/i;
	}
}
push @bad, 'no struct found' unless $nstructs;
ok(!@bad, 'no struct has more than 25 fields without a reason that it states', @bad);

# --- circles ---------------------------------------------------------------------
# a file depends on another one of its room if it names a function or a variable that the other defines
my %defined;	# name => file
foreach my $file (grep { /\.c$/ } @sources)
{
	my $text = slurp($file);
	$defined{$1} = $file while $text =~ /^(?!static\b|extern\b|typedef\b)[A-Za-z][\w \t*]*?\b(hjg_\w+)(?:\[[^\]]*\])*(?:\s*=|;)/mg;
}
foreach my $name (keys %functions) { $defined{$name} = $_ foreach grep { /\.c$/ } @{ $functions{$name} }; }
my %uses;
foreach my $file (grep { m{^src/[a-z]+/.*\.c$} } @sources)
{
	my ($room) = $file =~ m{^src/([a-z]+)/};
	my $text = slurp($file);
	$text =~ s{/\*.*?\*/|^\s*#\s*include.*?$}{}gms;
	$uses{$file} = {};
	while ($text =~ /\b(hjg_\w+)/g)
	{
		my ($name, $other) = ($1, $defined{$1});
		$uses{$file}{$other} //= $name if defined $other and $other ne $file and $other =~ m{^src/$room/};
	}
}
# drop files that use none of the remaining files, or are used by none: they are in no circle
my $before;
do
{
	$before = keys %uses;
	foreach my $file (keys %uses)
	{
		delete $uses{$file} unless grep { exists $uses{$_} } keys %{ $uses{$file} };
	}
	my %used = map { $_ => 1 } map { keys %$_ } values %uses;
	delete $uses{$_} foreach grep { !$used{$_} } keys %uses;
} while (keys %uses < $before);
@bad = ();
foreach my $file (sort keys %uses)
{
	push @bad, "$file uses $_: $uses{$file}{$_}" foreach grep { exists $uses{$_} } sort keys %{ $uses{$file} };
}
push @bad, 'no function found' unless %defined;
ok(!@bad, 'no files of a room use each other in a circle', @bad);

# --- rooms without postgres.h --------------------------------------------------
my $cc = $ENV{CC} // 'cc';
foreach my $room (@pure)
{
	@bad = ();
	foreach my $file (grep { m{^src/$room/} && !/_pg\.[ch]$/ } @sources)
	{
		my $out = `$cc -std=gnu11 -Isrc -I. -MM -MG -x c '$file' 2>&1`;
		push @bad, "$file: $1" if $out =~ m{((?:\S*/)?(?:postgres|c|fmgr|postgres_ext)\.h)\b};
		push @bad, "$file: $out" if $?;
		# a header without a guard is a template, to be included with macros set
		next unless $file =~ /\.h$/ && slurp($file) =~ /^#ifndef\s+HJG_/m;
		$out = `$cc -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Isrc -I. -fsyntax-only -x c '$file' 2>&1`;
		push @bad, "$file does not compile by itself: $out" if $?;
	}
	ok(!@bad, "room $room does not know postgres.h, and its headers stand alone", @bad);
}

@bad = ();
foreach my $file (@kernels)
{
	my $out = `$cc -std=gnu11 -Isrc -I. -Ikernels -MM -MG -x c '$file' 2>&1`;
	push @bad, "$file: $1" if $out =~ m{((?:\S*/)?(?:postgres|c|fmgr|postgres_ext)\.h)\b};
	push @bad, "$file: $out" if $?;
}
push @bad, 'no kernel found' unless @kernels;
ok(!@bad, 'kernels do not know postgres.h', @bad);

# --- order of includes -----------------------------------------------------------
@bad = ();
foreach my $file (@sources)
{
	# a block is a run of #include lines of one kind without blank lines
	my ($prev_line, $prev_kind, $prev) = (-1, '', '');
	foreach my $inc (@{ $includes{$file} })
	{
		my ($line, $kind, $name) = @$inc;
		if ($line == $prev_line + 1 && $kind eq $prev_kind && $prev ne 'postgres.h' && lc($name) lt lc($prev))
		{
			push @bad, "$file:$line: $name after $prev";
		}
		($prev_line, $prev_kind, $prev) = ($line, $kind, $name);
	}
	my @names = map { $_->[2] } @{ $includes{$file} };
	if (grep { $_ eq 'postgres.h' } @names)
	{
		push @bad, "$file: postgres.h is not the first include" if $names[0] ne 'postgres.h';
	}
}
ok(!@bad, 'includes are sorted, postgres.h first', @bad);

# headers of some server versions bring it along, those of others do not
@bad = ();
foreach my $file (grep { m{^src/.*\.c$} } @sources)
{
	next unless slurp($file) =~ /\b(?:AllocSetContext|GenerationContext|SlabContext)Create\b|\bMemoryContext(?:Delete|Reset|MemAllocated)\w*\s*\(/;
	push @bad, $file unless grep { $_->[2] eq 'utils/memutils.h' } @{ $includes{$file} };
}
ok(!@bad, 'what makes, resets or deletes memory contexts includes utils/memutils.h', @bad);

# core's macro, which 16 has no more; a compiler takes it for a function
@bad = grep { m{^src/.*\.[ch]$} && slurp($_) =~ /\bAbs\s*\(/ } @sources;
ok(!@bad, 'nothing uses Abs()', @bad);

# --- settings ----------------------------------------------------------------------
@bad = ();
my @gucs;
foreach my $file (grep { m{^src/base/.*\.c$} } @sources)
{
	my $text = slurp($file);
	while ($text =~ /DefineCustom\w+Variable\s*\(\s*"hjoin_gpu\.(\w+)"/g) { push @gucs, $1; }
}
push @bad, "$gucs[$_] after $gucs[$_ - 1]" foreach grep { $gucs[$_] lt $gucs[ $_ - 1 ] } 1 .. $#gucs;
push @bad, 'no setting found' unless @gucs;
ok(!@bad, 'settings are defined in alphabetical order', @bad);
my $readme = slurp('README.md');
@bad = grep { $readme !~ /hjoin_gpu\.$_\b/ && $readme !~ /`\.$_`/ } @gucs;
ok(!@bad, 'README names every setting', @bad);

# --- measurements ------------------------------------------------------------------------
# the tables that pictures are drawn from can be read, and README shows a picture of the newest figures
my $tables = eval { read_results('test/bench/RESULTS.md') };
my ($picture) = $readme =~ /^!\[[^\]]+\]\((\S+\.svg)\)/m;
my $svg = slurp($picture // '');
@bad = $tables ? () : split /\n/, $@;
push @bad, 'README shows no picture' unless defined $picture;
push @bad, "$picture is not of table tpch as it is now: make bench-report" if defined $picture && $tables && index($svg, digest_of('tpch', $tables->{tpch})) < 0;
push @bad, "$picture has " . length($svg) . ' bytes, more than 60000' if length $svg > 60000;
ok(!@bad, 'the picture of README is of the figures in RESULTS.md', @bad);

# --- every test runs ------------------------------------------------------------------
my $make = slurp('Makefile');
$make =~ s/\\\n/ /g;
foreach my $kind (
	[ 'REGRESS', 'sql', 'expected', 'sql' ],
	[ 'ISOLATION', 'test/isolation/specs', 'test/isolation/expected', 'spec' ])
{
	my ($var, $dir, $expected, $ext) = @$kind;
	my %listed = $make =~ /^$var[ \t]*=[ \t]*(.*)$/m ? map { $_ => 1 } split(' ', $1) : ();
	@bad = ();
	foreach my $file (sort(glob("$dir/*.$ext")))
	{
		my ($name) = $file =~ m{([^/]+)\.$ext$};
		next if $name =~ /^hjoin_gpu--/;
		push @bad, "$file is not in $var" unless delete $listed{$name};
		push @bad, "$expected/$name.out is missing" unless -e "$expected/$name.out";
	}
	push @bad, map { "$_ is in $var, but $dir/$_.$ext is missing" } sort keys %listed;
	push @bad, map { "$_: one expected file for all versions" } glob("$expected/*_[0-9].out");
	my %have = map { m{([^/]+)\.$ext$} ? ($1 => 1) : () } glob("$dir/*.$ext");
	push @bad, map { "$_ has no test" } grep { m{([^/]+)\.out$} && !$have{$1} } glob("$expected/*.out");
	ok(!@bad, "every file in $dir is run and has one expected file", @bad);
}

@bad = grep { slurp($_) =~ /WARNING:  .*of ours|\| f     \|/ } glob('expected/*.out');
ok(!@bad, 'no expected file records an answer that differs from core\'s', @bad);

# --- versions of the extension ----------------------------------------------------------------
# each version has a script that makes it and, but the first, one that makes it of the version before
@bad = ();
my ($newest) = slurp('hjoin_gpu.control') =~ /^default_version = '(\d+\.\d+)'/m;
my %scripts = map { m{hjoin_gpu--(.*)\.sql$} => 1 } glob('sql/hjoin_gpu--*.sql');
my @versions = map { $_->[0] } sort { $a->[1] <=> $b->[1] or $a->[2] <=> $b->[2] } map { /^(\d+)\.(\d+)$/ ? [ $_, $1, $2 ] : () } keys %scripts;
delete @scripts{@versions};
foreach my $i (1 .. $#versions)
{
	my $step = "$versions[ $i - 1 ]--$versions[$i]";
	push @bad, "sql/hjoin_gpu--$step.sql is missing" unless delete $scripts{$step};
}
push @bad, map { "sql/hjoin_gpu--$_.sql makes no version of the one before" } sort keys %scripts;
push @bad, 'hjoin_gpu.control names another version than the newest script' unless @versions and defined $newest and $newest eq $versions[-1];
push @bad, 'src/device/device_main.c names another version' unless slurp('src/device/device_main.c') =~ /^#define PROGRAM_VERSION "\Q$newest\E"$/m;
ok(!@bad, 'versions of the extension have scripts that make and update them', @bad);

# --- the top level, dead code --------------------------------------------------------------
my %top = map { $_ => 1 } qw(src kernels sql expected test doc Makefile hjoin_gpu.control README.md LICENSE);
opendir my $dh, '.' or die $!;
@bad = sort grep { !/^\./ && !$top{$_} && !/^(build|results|log|tmp_check|tmp_check_iso|output_iso|regression\.\w+|hjoin_gpu_device|hjoin_gpu\.so|libhjoin_gpu\.(a|pc))$/ } readdir $dh;
closedir $dh;
ok(!@bad, 'the top level holds nothing but what belongs there', @bad);

@bad = ();
foreach my $file (@sources, @tests_c, grep { -f } glob('kernels/* kernels/lab/*'))
{
	my $text = slurp($file);
	push @bad, "$file: #if 0" if $text =~ /^\s*#\s*if\s+0\b/m;
	push @bad, "$file: $1" if $text =~ /\b(TODO|FIXME|XXX)\b(?![0-9])/;
	push @bad, "$file: trailing white space" if $text =~ /[ \t]+$/m;
}
ok(!@bad, 'no dead code, no open ends, no trailing white space', @bad);

# comments begin with what a thing is or does
@bad = ();
foreach my $file (@sources, glob('kernels/*.*'))
{
	my $n = 0;
	my $opened = 0;
	foreach (split /\n/, slurp($file))
	{
		$n++;
		push @bad, "$file:$n: $1" if ($opened || !m{^\s*\* \S}) && m{^\s*(?:/\*|\*)\s*((?:What|When|Where|Which|Why|How|Who|Whose|Whoever|They|It|Its|Does that|Is that|Whether|So many|Of those)\s.*)};
		push @bad, "$file:$n: $1" if m{\S.*/\*\s+((?:what|who|whose|whoever|so many|of those)\s.*)}i;
		$opened = m{^\s*/\*$};
	}
}
ok(!@bad, 'no comment begins with a question word', @bad);

@bad = ();
foreach my $file (grep { /\.c$/ } @sources)
{
	my $text = slurp($file);
	push @bad, "$file: $1" while $text =~ /\bM(?:ax|in)\([^;]*?\b((?:measure|time)_\w+|per_row|hjg_now_ns)\(/g;
}
ok(!@bad, 'nothing is measured within Max() or Min(), which may evaluate it twice', @bad);

@bad = grep { slurp($_) !~ m{\A/\*} } @sources;
ok(!@bad, 'every source file begins with a comment that states its purpose', @bad);

print "1..$n\n";
exit($failed ? 1 : 0);
