# HjgProgram.pm: random tables and groupings for hjg_fuzz.pl --programs.
#
# Most of the tables have what programs of the device process read: keys that are unique, columns that refer to them, numbers, dates and
# strings with few and with many different values.  Most of the queries group and join these as programs can, with a small share of all
# other expressions, conditions and joins, so that a program has such a thing beside it, or has to be declined.
package HjgProgram;
use strict;
use warnings;
use HjgSchema;
use HjgQuery;

sub pick { return $_[ int(rand(@_)) ]; }
sub chance { return rand() < $_[0]; }

# --- tables ------------------------------------------------------------------------

# A number that repeats, from the row's number g and a salt.
sub noise
{
	my ($salt, $card) = @_;
	return "((hashint4((g + $salt)::int) & 2147483647) % $card)";
}

# A column, with an expression for its values; families and the rest are those of HjgSchema.pm.  Of integers, least and rows tell their range.
sub column
{
	my ($fam, $type, $values, %more) = @_;
	return { fam => $fam, type => $type, values => "($values)::$type", exact => 1, %more };
}

sub integers
{
	my ($type, $values, $least, $rows, %more) = @_;
	return column('int', $type, $values, int => 1, least => $least, rows => $rows, %more);
}

# Choose an integer type that has numbers from $first to $last.
sub integer_type
{
	my ($first, $last) = @_;
	return 'int8' if $last > 2147483647;
	return pick('int', 'int', 'int8', 'int8', 'fz.dint', $first < -32768 || $last > 32767 ? 'int' : 'int2');
}

# A column that refers to keys of the tables before, of this one, or to some that no row has.
sub reference
{
	my ($s, $rows, $salt) = @_;
	my $of = pick(@{ $s->{tables} }, { rows => $rows });
	my $range = pick($of->{rows}, $of->{rows}, int($of->{rows} / 3), 2 * $of->{rows}) + 1;
	my $noise = noise($salt, $range);
	my $values = "$s->{first}\::int8 + " . pick($noise, $noise, "(g * 3::int8) % $range", "g / 5 % $range", "case when g % 5 = 0 then 6 else $noise end");
	$values = 'case when g % ' . pick(7, 50, 2) . " <> 0 then $values end" if chance(0.5);
	return integers(integer_type($s->{first}, $s->{first} + $range + 6), $values, $s->{first}, $range, ref => 1);
}

# Columns of all kinds, of so many different values.
sub value_columns
{
	my ($card) = @_;
	my $i = noise(int(rand(1000)), $card);
	my $scale = pick(0, 1, 2, 2, 4, 6);
	my $day = "date '1999-12-20' + ($i * " . pick(1, 1, 7) . ')::int';
	my $word = pick("'k' || $i", "case when $i % 7 = 0 then '' else 'k' || $i % 30 end", "repeat('k', ($i % 40)::int)", "md5(($i)::text)", "'k\xc3\xa9' || $i % 50 || 'k'");
	my ($any) = pick(grep { $_ ne 'int' && !$HjgSchema::family{$_}{needs} } sort keys %HjgSchema::family);
	my $family = $HjgSchema::family{$any};
	my $type = pick(sort keys %{ $family->{types} });
	my @columns = (
		column('numeric', "numeric(12,$scale)", "($i - " . pick(0, 3, 400) . ") / 10.0 ^ $scale"),
		column('numeric', pick('numeric(5,2)', 'numeric(18,9)', 'numeric(30,10)', 'numeric(18,0)'), "$i % 900 / " . pick(1, 4, 64) . '.0'),
		# numerics of one scale, with a zero of another one, of several scales in parts of the table, beyond 64 bits
		column('numeric', 'numeric', pick("round($i / 100.0, 2)", "case when $i % 5 = 0 then 0 else round($i / 100.0, 2) end")),
		column('numeric', 'numeric', pick("case when g % 3000 < 1500 then round($i / 8.0, 1) else round($i / 8.0, 3) end", "case when $i % 50 = 0 then 'NaN' else round($i / 8.0, (g % 3)::int) end"), exact => 0),
		column('numeric', pick('numeric', 'numeric(30,2)', 'numeric(38,0)'), "($i - 5) * 1" . pick('000000000000000', '000000000000000000000') . pick('', '.25'), exact => 0),
		column('date', 'date', chance(0.2) ? "case when $i = 0 then date '" . pick(qw(infinity -infinity)) . "' else $day end" : $day),
		column('ts', 'timestamp', "timestamp '2000-01-01' + $i * interval '" . pick('1 hour', '1 second', '5 days') . "'"),
		column('tstz', 'timestamptz', pick("case when $i = 0 then timestamptz 'infinity' else timestamptz '2000-01-01 00:00+00' + $i * interval '7 hours' end", "timestamptz '2000-01-01 00:00+00' + g * interval '" . pick('1 minute', '11 seconds') . "'")),
		column('bool', 'bool', "$i % 3 = 0"),
		column('text', pick('text', 'varchar(40)'), $word),
		column('bpchar', pick('char(12)', 'char(40)'), "$word || " . pick("''", "repeat(' ', g % 3)")),
		column('text', 'text', 'md5(g::text)' . pick('', '', " || repeat('k', (g % 300)::int)", " || case when g % 97 = 0 then repeat(md5(g::text), 400) else '' end")),
		# the last of these products is as large as the type allows
		column('big', 'int8', "(($i % 7) - 3)::int8 * 3074457345618256602 - $i"),
		column($any, $type, $family->{types}{$type} =~ s/\bI\b/$i/gr =~ s/\bG\b/g/gr, exact => $family->{exact}));
	@columns = grep { chance($_->{fam} eq 'numeric' ? 0.4 : 0.75) } @columns;
	foreach my $c (@columns)
	{
		$c->{values} = 'case when ' . noise(int(rand(1000)), 1000) . ' >= ' . pick(50, 50, 300, 300, 990) . " then $c->{values} end" if chance(0.5);
	}
	return @columns;
}

# Partitions of a table, some of which stay empty.
sub partitions
{
	my ($name, $by, $first, $rows) = @_;
	my $n = pick(2, 3, 7);
	return join '', map { "create table ${name}_$_ partition of $name for values with (modulus $n, remainder $_);\n" } 0 .. $n - 1 if $by =~ /hash/;
	return join '', map { "create table ${name}_$_ partition of $name " . ($_ == 0 ? 'default' : 'for values in (' . join(', ', map { 5 + $_ } 10 * $_ .. 10 * $_ + 9) . ')') . ";\n" } 0 .. 3 if $by =~ /list/;
	my @ends = map { $first + int($rows * $_ / $n) } 1 .. $n - 1;
	return join '', map { "create table ${name}_$_ partition of $name for values from (" . ($_ > 0 ? $ends[$_ - 1] : 'minvalue') . ') to (' . ($ends[$_] // 'maxvalue') . ");\n" } 0 .. $n - 1;
}

# A random table of a schema: what HjgSchema.pm keeps of it, and its SQL.
sub make_table
{
	my ($s, $name, $rows) = @_;
	my $first = $s->{first};
	my $key = pick('primary key', 'primary key', 'primary key', 'unique', '');
	# in order, in disorder (7919 is a prime number), or some twice
	my $ids = "$first\::int8 - 1 + " . ($key ? pick('g', 'g', '(g * 7919::int8) % ' . ($rows + 1)) : 'g - g % 11 / 10');
	my $id = integers(integer_type($first, $first + $rows), $ids, $first, $rows, name => 'id', unique => $key ne '');
	my $v = integers('int', pick(noise(0, 37), noise(3, 37) . ' + 5', 'case when g % 13 <> 0 then ' . noise(0, 37) . ' + 5 end', 'case when g % 13 <> 0 then ' . noise(0, 37) . ' end'), 0, 37, name => 'v');
	# two columns that are a key together
	my @pair = chance(0.3) ? (integers('int8', "$first\::int8 + g / 3", $first, int($rows / 3) + 1, ref => 1, pair => 1), integers('int2', 'g % 3', 0, 3, pair => 1)) : ();
	my @more = (map({ reference($s, $rows, $_) } 1 .. pick(1, 2, 2, 3)), @pair, value_columns(pick(2, 20, 400, 5000)));
	$more[$_]{name} = "k$_" foreach 0 .. $#more;
	my @cols = ($id, $v, @more, column('text', 'text', "'p' || g", name => 'pay'));
	my $gone = chance(0.2);
	my $by = chance(0.15) && $rows > 100 ? pick('hash (id)', 'range (id)', 'list (v)') : '';
	($id->{unique}, $key) = (0, '') if $by =~ /list/;

	my $sql = "create table $name (" . ($gone ? 'gone text, ' : '') . join(', ', map { "$_->{name} $_->{type}" . ($_ == $id ? " $key" : '') } @cols) . ')' . ($by ? " partition by $by" : chance(0.2) ? ' with (fillfactor = 40)' : '') . ";\n";
	$sql .= partitions($name, $by, $first, $rows) if $by;
	$sql .= "insert into $name select " . join(', ', $gone ? "'gone'" : (), map { $_->{values} } @cols) . " from generate_series(1, $rows) g" . (chance(0.2) ? ' order by hashint4(g)' : '') . ";\n" if $rows > 0;
	$sql .= "alter table $name drop column gone;\n" if $gone;
	$sql .= "create unique index on $name (" . join(', ', map { $_->{name} } @pair) . ");\n" if @pair && !$by;
	if (chance(0.15))
	{
		$sql .= "alter table $name add column late int default 42;\n";
		$sql .= "update $name set late = v where id % 40 = 1;\n" if chance(0.5);
		push @cols, integers('int', '', 0, 43, name => 'late');
	}
	$sql .= "update $name set v = v + 1 where id % 3 = 0;\n" if chance(0.1);
	$sql .= "delete from $name where id % 10 = 3;\n" if chance(0.2);
	$sql .= "create index on $name (k0);\n" if chance(0.1);
	$sql .= "analyze $name;\n" if chance(0.95);
	return ({ name => $name, cols => \@cols, rows => $rows, base => 1 }, "${sql}grant all on $name to public;\n");
}

# A random schema, as HjgSchema::make() returns it.
sub make_schema
{
	# the first key of all tables
	my %schema = (sql => {}, tables => [], fams => ['int'], first => chance(0.3) ? pick(-20, -32768, 2147400000, -2147483648) : 1);
	my $largest = pick(3000, 20000, 60000);

	foreach my $t (1 .. 3 + int(rand(3)))
	{
		my $rows = chance(0.04) ? pick(0, 1, 7) : $t == 1 ? $largest : pick(1000, 3000, int($largest / 3), $largest);
		my ($table, $sql) = make_table(\%schema, "fz.t$t", $rows);
		push @{ $schema{tables} }, $table;
		$schema{sql}{"fz.t$t"} = $sql;
	}
	return \%schema;
}

# --- expressions and conditions ------------------------------------------------------

sub leaf
{
	my ($t) = @_;
	my $a = HjgQuery::new_alias();
	return { kind => 'leaf', alias => $a, cols => $t->{cols}, rows => $t->{rows}, base => $t->{base}, sql => "$t->{name} $a" };
}

# Columns with a property, as [name in SQL, column].
sub columns
{
	my ($wanted, @l) = @_;
	return map { my $a = $_->{alias}; map { [ "$a.$_->{name}", $_ ] } grep { $wanted->($_) } @{ $_->{cols} } } @l;
}

# A number near those of an integer column.
sub near
{
	my ($c) = @_;
	my $n = ($c->{least} // 0) + int(rand(($c->{rows} // 40) + 2)) - 1;
	return $n > 2147483647 ? $n . '::int8' : $n < 0 ? "($n)" : $n;
}

my @words = ("'k\xc3\xa96k'", "'k6'", "'k1'", "''", "'kkk'", "'k'", "'K6'", "'c4ca4238a0b923820dcc509a6f75849b'", "'k6  '", "'none'");
my @patterns = ("%\xc3\xa9%", "k\xc3\xa91%", 'k1%', '%1', '%k%', '%1%2%', '%', '%ab%', 'c%4%2', '%77%77%', 'ab%', '%f', '%kk%', 'p1%9', 'K%');

# A condition that core's code tests, mostly, from a condition's parts: two columns, an operator and two constants.
sub core_condition
{
	my ($c, $x, $y, $op, $m, $n) = @_;
	return pick("$x\::int8 + $y $op $m", "$x % 5 $op 2", "case when $x > $m then $y else 3 end $op $n", "coalesce($x, $y, 5) $op $m", "$x is distinct from $y") if $c->{fam} eq 'int';
	return pick("$x * (1 - $x) $op $m", "$x + $n $op $m", "coalesce($x, 0) $op $n", "case when $x > $m then $x * 2 else 1.5 end $op $n") if $c->{fam} eq 'numeric';
	return 'extract(' . pick(qw(year month day quarter)) . " from $x) $op " . pick(2, 2000) if $c->{fam} =~ /^(date|ts|tstz)$/;
	return pick("$x is true", "$x is not false") if $c->{fam} eq 'bool';
	return "$x is distinct from $y" if $c->{fam} eq 'big';
	return pick("$x $op $m", "$x like '" . pick('_1%', 'k_', '%kk_k%', '', 'k6', 'k\\1%') . "'", "length($x) $op 3");
}

# A condition on the columns of one relation that a program tests.
sub condition
{
	my ($leaf, $depth) = @_;
	$depth //= pick(0, 0, 0, 0, 0, 1, 2);
	if ($depth > 0)
	{
		return ($depth > 1 ? pick('', '', 'not ') : '') . '(' . join(pick(' and ', ' or ', ' or ', ' or '), map { condition($leaf, $depth - 1) } 1 .. pick(2, 2, 3)) . ')';
	}
	return HjgQuery::expression_qual($leaf) if chance(0.004);
	return HjgQuery::typed_qual($leaf) if chance(0.01);
	my ($x, $c) = @{ pick(columns(sub { $_[0]{fam} =~ /^(int|big|numeric|date|ts|tstz|bool|text|bpchar)$/ && $_[0]{type} !~ /^fz\.dtext|name/ }, $leaf)) };
	my ($y) = @{ pick(columns(sub { $_[0]{fam} eq $c->{fam} && $_[0]{type} !~ /^fz\.dtext|name/ }, $leaf)) };
	# few conditions leave few rows, or a join of them none
	my $op = pick('<', '<=', '<>', '>=', '>', '<', '<=', '<>', '>=', '>', '=');
	my $constant =
	    $c->{fam} eq 'int' ? sub { near($c) }
	  : $c->{fam} eq 'big' ? sub { pick(0, 9223372036854775807, -9223372036854775807, 3074457345618258602, -6148914691236517204) }
	  : $c->{fam} eq 'numeric' ? sub { pick(0, 3, 0.5, '-1.25', 12.125, '7.000000000000000000000000001', 60, 4.4, 1e9) }
	  : $c->{fam} eq 'tstz' ? sub { pick("timestamptz '" . pick(qw(2000-01-01 1999-12-25 2001-06-30 infinity 2000-02-29)) . " 00:00+00'", "date '2000-02-29'", "timestamp '2000-03-03 03:03'", "now() - interval '25 years'", 'current_date - 9000') }
	  : $c->{fam} =~ /^(date|ts)$/ ? sub { ($c->{fam} eq 'ts' ? 'timestamp' : 'date') . " '" . pick(qw(2000-01-01 1999-12-25 2001-06-30 infinity 2000-02-29)) . "'" }
	  : sub { pick(@words) };
	my ($m, $n, $o) = map { $constant->() } 1 .. 3;

	return "$x is " . pick('', 'not ', 'not ', 'not ') . 'null' if chance(0.1);
	return core_condition($c, $x, $y, $op, $m, $n) if chance(0.006);
	return pick($x, "not $x", "$x = false") if $c->{fam} eq 'bool';
	return "$x in ($m, $n, $o)" if chance(0.06);
	return "$x not in ($m, $n" . (chance(0.05) ? ', null' : '') . ')' if chance(0.15);
	if ($c->{fam} =~ /^(text|bpchar)$/)
	{
		return "$x " . pick('like', 'not like') . " '" . pick(@patterns) . "'" if chance(0.5);
		return "substr($x\::text, " . pick(1, 2, 3) . ', ' . pick(1, 2, 4) . ') ' . pick("= 'k1'", "in ('k', '1', 'ab')", "<> 'k6'") if chance(0.2);
		return "$x " . pick('=', '<>', '<>') . " $m";
	}
	return "$x $op \$1" if $c->{fam} eq 'int' && chance(0.05);
	return pick("$x $op $m", "$x $op $m", "$m $op $x", "$x $op $y", chance(0.5) ? "$x between $m and $n" : "not $x between $m and $n");
}

# A number that a program computes.
sub number
{
	my (@l) = @_;
	my @n = columns(sub { $_[0]{fam} =~ /^(int|numeric)$/ && ($_[0]{type} ne 'int8' || ($_[0]{least} // 0) < 1e6) }, @l);
	my ($x, $y, $z) = map { $_->[0] } pick(@n), pick(@n), pick(grep { $_->[1]{int} } @n);
	my $leaf = pick(@l);
	# some rows may raise an error
	return pick("$z * 300000", "$z / $z", "$x / nullif($z, 0)", "$z\::int8 * 4611686018427387", "case when $z <> 0 then 100 / $z end") if chance(0.015);
	return pick($x, $x, $x, "-$x", "$x + $y", "$x - $y", "$x * $y", "$x * (1 - $y)", "$x * (1 - $y) * (1 + $y)", "$x * 2", "$x\::numeric * 1.25", "coalesce($x, $y, 7)", 'case when ' . condition($leaf) . " then $x else " . pick($y, 0, '1.5000', 'null') . ' end',
		'case when ' . condition($leaf) . " then $x when " . condition($leaf) . " then $y end", 'case when ' . condition($leaf) . ' then 1 else 0 end', "$z\::int8 * 3 - $z");
}

sub item
{
	my (@l) = @_;
	my $r = rand();
	my $item;
	return 'count(*)' if $r < 0.2;
	return HjgQuery::group_item(@l) if $r < 0.225;
	if ($r < 0.36) { $item = 'count(' . pick(columns(sub { $_[0]{fam} =~ /^(int|date|ts|bool|numeric)$/ || $_[0]{fam} =~ /text/ && $_[0]{name} ne 'pay' }, @l))->[0] . ')'; }
	elsif ($r < 0.48) { $item = pick('min', 'max') . '(' . pick(columns(sub { $_[0]{fam} =~ /^(int|big|date|time|ts|tstz|money|numeric)$/ && $_[0]{exact} }, @l))->[0] . ')'; }
	elsif ($r < 0.51) { $item = 'trim_scale(' . pick('min', 'max') . '((' . number(@l) . ')::numeric))'; }
	elsif ($r < 0.56) { my ($x) = @{ pick(columns(sub { $_[0]{fam} eq 'big' }, @l), [ number(@l) ]) }; $item = pick('sum', 'avg', 'count') . '(' . pick($x, $x, $x, "-($x)", "($x) + 1", "($x) * 2") . ')'; }
	elsif ($r < 0.61) { $item = pick('variance', 'var_pop', 'stddev', 'stddev_pop') . '(' . pick(columns(sub { $_[0]{fam} =~ /^(int|big|numeric)$/ }, @l))->[0] . ')'; }
	else { $item = pick('sum', 'sum', 'avg', 'count', 'avg') . '(' . number(@l) . ')'; }
	$item .= ' filter (where ' . condition(pick(@l)) . ')' if chance(0.1) && $item !~ /^trim/;
	return $item;
}

sub key
{
	my (@l) = @_;
	return HjgQuery::group_key(@l) if chance(0.03);
	my $kind = pick(qw(int int big numeric date ts tstz bool text text bpchar));
	my @c = columns(sub { $_[0]{exact} && $_[0]{fam} eq $kind }, @l);
	@c = columns(sub { $_[0]{int} }, @l) if !@c;
	@c = columns(sub { $_[0]{exact} }, @l) if chance(0.03);
	my ($x, $c) = @{ pick(@c) };
	return $x if chance(0.7);
	return pick("$x\::int8 + 1", "$x\::int8 * 2 - " . HjgQuery::int_col(@l), "coalesce($x, 3)", "case when $x > " . near($c) . ' then 1 when ' . condition(pick(@l)) . ' then 0 end') if $c->{int};
	return pick("date_trunc('" . pick(qw(hour day week month year)) . "', $x)", "$x\::date", "to_char($x, '" . pick('YYYY-MM', 'HH24:MI', 'DDD SS') . "')", 'extract(' . pick(qw(hour dow epoch)) . " from $x)", "date_trunc('day', $x at time zone '" . pick('Europe/Berlin', 'UTC', 'EST') . "')") if $c->{fam} =~ /^(ts|tstz)$/ && chance(0.7);
	return 'extract(' . pick(qw(year month quarter)) . " from $x)" if $c->{fam} =~ /^(date|ts|tstz)$/;
	return pick("left($x, 2)", "substr($x, 1, 1)", $x) if $c->{fam} eq 'text';
	return $x;
}

# --- joins ------------------------------------------------------------------------------

# An equality of integer columns of two relations, or two of them.
sub join_by
{
	my ($l, $r) = @_;
	my @l = columns(sub { $_[0]{int} && $_[0]{name} ne 'v' }, HjgQuery::leaves($l));
	my @r = columns(sub { $_[0]{int} && $_[0]{name} ne 'v' }, HjgQuery::leaves($r));
	my @pairs;
	my ($of_two) = grep { $_->{kind} eq 'leaf' && grep { $_->{pair} } @{ $_->{cols} } } $r;
	if ($of_two && chance(0.4))
	{
		# both columns of a unique index
		my ($x, $y) = map { $_->[0] } columns(sub { $_[0]{pair} }, $of_two);
		return "$x = " . pick(@l)->[0] . " and $y = " . HjgQuery::int_col(HjgQuery::leaves($l));
	}
	foreach my $x (@l) { foreach my $y (@r) { push @pairs, [ $x->[0], $y->[0] ] if $x->[1]{unique} || $y->[1]{unique}; } }
	return join(' = ', @{ pick(@pairs) }) if @pairs && chance(0.97);
	return join(' = ', pick(@r)->[0], pick(@l)->[0]);
}

# Groups of a table, to be joined by their key.
sub grouped_leaf
{
	my ($s) = @_;
	my $t = pick(@{ $s->{tables} });
	my $inner = leaf($t);
	my $a = HjgQuery::new_alias();
	my $key = pick(grep { $_->{ref} || $_->{name} eq 'id' } @{ $t->{cols} });
	my @where = map { 'where ' . condition($inner) } grep { chance(0.4) } 1;
	my $having = chance(0.4) ? 'having ' . having($inner) : '';
	my ($x) = @{ pick(columns(sub { $_[0]{int} && $_[0]{type} ne 'int8' }, $inner)) };
	return {
		kind => 'leaf', alias => $a, rows => $t->{rows}, base => 0, sql => "(select $inner->{alias}.$key->{name}, count(*) as v, " . pick('min', 'max', 'sum', 'count') . "($x) as n from $inner->{sql} @where group by 1 $having) $a",
		cols => [ { %$key, unique => 1, pair => 0 }, map { { name => $_, fam => 'int', type => 'int4', exact => 1, int => 1, least => 0, rows => 40 } } qw(v n) ]
	};
}

sub join_tree
{
	my ($s, $n) = @_;
	my $tree = chance(0.03) ? grouped_leaf($s) : leaf(pick(@{ $s->{tables} }[ 0, 0, 0 .. $#{ $s->{tables} } ]));
	foreach (2 .. $n)
	{
		my $new = chance(0.1) ? grouped_leaf($s) : leaf(pick(@{ $s->{tables} }));
		my $type = pick('join', 'join', 'join', 'join', 'left join', 'left join', 'right join', chance(0.1) ? 'full join' : 'join');
		my @cond = (join_by($tree, $new));
		if (chance(0.15) && $type eq 'join')
		{
			my ($p, $q) = (pick(HjgQuery::leaves($tree)), $new);
			push @cond, chance(0.05) ? HjgQuery::residual($tree, $new) : pick(HjgQuery::int_col($p) . pick(' < ', ' <> ', ' >= ') . HjgQuery::int_col($q), '(' . condition($p) . ' or ' . condition($q) . ')', condition($q));
		}
		elsif (chance(0.15)) { push @cond, condition($type eq 'left join' ? $new : pick(HjgQuery::leaves($tree))); }
		push @cond, join_by($tree, $new) if chance(0.05);
		$tree = chance(0.3) && $type ne 'left join' ? { kind => 'join', type => $type eq 'right join' ? 'left join' : $type, l => $new, r => $tree, cond => \@cond } : { kind => 'join', type => $type, l => $tree, r => $new, cond => \@cond };
	}
	return $tree;
}

# A semi or an anti join.
sub exists_qual
{
	my ($s, @l) = @_;
	my $outer = pick(@l);
	my $inner = leaf(pick(@{ $s->{tables} }));
	my @o = columns(sub { $_[0]{int} }, $outer);
	my @i = columns(sub { $_[0]{int} }, $inner);
	my @from = grep { $_->[1]{name} ne 'v' } @o;
	my @to = grep { $_->[1]{name} ne 'v' } @i;
	my ($x, $y) = (pick(@from)->[0], pick(@to)->[0]);
	my @where = ("$x = $y");
	push @where, pick(@i)->[0] . pick(' < ', ' <= ', ' > ', ' >= ', ' <> ') . pick(@o)->[0] if chance(0.4);
	push @where, condition($inner) if chance(0.4);
	my $r = rand();
	return "$x in (select $y from $inner->{sql}" . (chance(0.5) ? ' where ' . condition($inner) : '') . ')' if $r < 0.2;
	return "$x in (select $y from $inner->{sql} group by 1 having " . having($inner) . ')' if $r < 0.3;
	# core looks at all rows of the subquery for each row if work_mem is little
	return "$x not in (select $y from $inner->{sql} where $y is not null)" if $r < 0.33 && $inner->{rows} <= 1000 && $outer->{rows} <= 3000;
	return pick('', 'not ') . "exists (select from $inner->{sql} where " . join(' and ', @where) . ')';
}

sub having
{
	my (@l) = @_;
	my $x = HjgQuery::int_col(@l);
	my $first = pick('count(*) > 1', 'count(*) = ' . pick(1, 3, 7), "max($x) is not null", "sum($x) > " . pick(10, 500), "avg($x) > " . pick(10, 17.5), "min($x) < " . pick(3, 30), "sum($x) between 10 and 900", 'sum(' . number(@l) . ') > ' . pick(0, 12.5, 3000));
	return $first if chance(0.75);
	return "$first " . pick('and', 'or') . ' ' . having(@l);
}

# --- queries ------------------------------------------------------------------------------

# Write an order of all of the result's columns, some of them first; equal rows look the same, so the order of the rows is known.
sub total_order
{
	my ($n) = @_;
	my @first = map { 1 + int(rand($n)) } 1 .. pick(0, 1, 1, 2);
	return 'order by ' . join(', ', map { $_ . pick('', '', ' desc', ' nulls first', ' desc nulls last') } @first, 1 .. $n);
}

# An outer join whose preserved side has several partners for a row, or none.
sub outer_tree
{
	my ($s) = @_;
	my ($preserved, $nullable) = map { join_tree($s, pick(1, 1, 1, 2)) } 1 .. 2;
	my @ids = columns(sub { $_[0]{unique} }, HjgQuery::leaves($preserved));
	my @refs = columns(sub { $_[0]{ref} }, HjgQuery::leaves($nullable));
	return undef if !@ids || !@refs;
	my @cond = (pick(@refs)->[0] . ' = ' . pick(@ids)->[0]);
	push @cond, condition(pick(HjgQuery::leaves($nullable))) if chance(0.4);
	return chance(0.3) ? { kind => 'join', type => 'right join', l => $nullable, r => $preserved, cond => \@cond } : { kind => 'join', type => 'left join', l => $preserved, r => $nullable, cond => \@cond };
}

# The leaves of the two sides of an outer join.
sub sides
{
	my ($join) = @_;
	return map { [ HjgQuery::leaves($_) ] } $join->{type} eq 'left join' ? ($join->{l}, $join->{r}) : ($join->{r}, $join->{l});
}

sub make_query
{
	my ($s) = @_;
	return HjgQuery::make_query($s) if chance(0.015);
	my %q = (with => [], where => [], tail => '', settings => {}, select => []);
	my $outer = chance(0.15) ? outer_tree($s) : undef;
	$q{from} = $outer // join_tree($s, pick(1, 1, 1, 2, 2, 2, 3, 4, chance(0.3) ? 6 : 2));
	my @l = HjgQuery::leaves($q{from});
	# keys of the preserved side, and aggregates of the other one
	my ($of_keys, $of_items) = $outer && chance(0.85) ? sides($outer) : (\@l, \@l);
	push @{ $q{where} }, condition(pick(@$of_keys)) foreach 1 .. pick(0, 0, 0, 1, 1, 2);
	push @{ $q{where} }, exists_qual($s, @$of_keys) if chance(0.2);
	push @{ $q{where} }, HjgQuery::scalar_qual($s, pick(@l)) if chance(0.01);
	my @keys = map { key(@$of_keys) } 1 .. pick(0, 0, 1, 1, 1, 2, 2, 3, 4);
	push @keys, key(@$of_keys) if $outer && !@keys;
	my @items = map { item(@$of_items) } 1 .. pick(1, 1, 2, 3, 5);
	@items = map { $_ ne 'count(*)' ? $_ : 'count(' . pick(columns(sub { $_[0]{int} }, @$of_items))->[0] . ')' } @items if $outer && chance(0.9);
	if (chance(0.12))
	{
		# the node makes no average beside DISTINCT values
		@items = grep { !/avg/ } @items if chance(0.9);
		my ($x) = @{ pick(columns(sub { $_[0]{fam} =~ /^(int|date)$/ }, @l), columns(sub { $_[0]{exact} }, @l)) };
		push @items, "count(distinct $x)";
		push @items, "sum(distinct $x)" if chance(0.4) && grep { $_->[0] eq $x } columns(sub { $_[0]{int} }, @l);
	}
	if (@keys && chance(0.1))
	{
		$q{select} = \@keys;
		$keys[0] = "distinct $keys[0]";
	}
	else
	{
		$q{select} = [ @keys, @items ];
		$q{tail} = 'group by ' . join(', ', 1 .. @keys) if @keys;
		$q{tail} = 'group by ' . pick('rollup', 'cube') . ' (' . join(', ', 1 .. @keys) . ')' if @keys && chance(0.02);
		$q{tail} .= ' having ' . having(@l) if chance(@keys ? 0.25 : 0.05);
	}
	if (@keys)
	{
		my $n = @{ $q{select} };
		my $r = rand();
		if ($r < 0.35)
		{
			$q{tail} .= ' ' . total_order($n);
			$q{tail} .= ' limit ' . pick(1, 2, 5, 20, 100, 1000, 5000, chance(0.1) ? pick(0, 'null') : 9) . (chance(0.3) ? ' offset ' . pick(1, 3, 100, 100000) : '') if $r < 0.28;
			$q{ordered} = 1;
		}
		elsif ($r < 0.4) { $q{tail} .= ' order by ' . (1 + int(rand($n))) . pick('', ' desc') . ' fetch first ' . pick(1, 5, 40) . ' rows with ties'; }
	}
	# arguments of aggregates may overflow: independent of the plan, unless core need not make all groups, or those of a subquery
	$q{errors} = 1 if $q{tail} !~ /limit|fetch/ && join(' ', HjgQuery::render_from($q{from}), @{ $q{where} }) !~ /having|pg_catalog\./;
	$q{params} = 1 if HjgQuery::render(\%q) =~ /\$1/;
	return \%q;
}

1;
