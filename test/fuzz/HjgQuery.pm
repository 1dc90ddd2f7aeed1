# HjgQuery.pm: random queries over a schema of HjgSchema.pm.
#
# A query is a tree of hashes, which render() turns into SQL, so that a failing query can be made smaller by removing
# parts.  Its result must not depend on the plan: no LIMIT without a total order, no choice among equal values that look
# different, no float sums, no quals that raise errors.
package HjgQuery;
use strict;
use warnings;

# share of queries with aggregates of all rows, and with groups, over a join or a table
our $aggregates = 0.08;
our $groups = 0.15;
# share of those that have aggregates of DISTINCT values as well
our $distinct = 0.25;
# part of a table's rows, beside each other, that most changes are of; 0: rows anywhere
our $changed_part = 0;
# immutable functions of the server's catalog: [name, cast of its result to a type whose equal values look the same, types of its arguments...]
our @functions;

sub pick { return $_[ int(rand(@_)) ]; }
sub chance { return rand() < $_[0]; }

my $alias_no = 0;
sub reset_aliases { $alias_no = 0; }
sub new_alias { return 'a' . ++$alias_no; }

# --- leaves --------------------------------------------------------------------
# A relation in FROM: { sql, alias, cols => [{ name, fam, type, exact, int }], rows, base }
sub leaf
{
	my ($s, $depth) = @_;
	my $t = pick(@{ $s->{tables} });
	my $a = new_alias();
	my %leaf = (kind => 'leaf', alias => $a, cols => $t->{cols}, rows => $t->{rows}, base => $t->{base}, unique => $t->{unique}, sql => "$t->{name} $a");
	my $r = rand();
	if ($r < 0.06)
	{
		$leaf{sql} = "(select * from $t->{name} where v > 2 offset 0) $a";
		$leaf{base} = 0;
	}
	elsif ($r < 0.12)
	{
		# pulled up below an outer join, the expressions become placeholders
		$leaf{sql} = "(select *, coalesce(v, -1) as cv, 'one'::text as one, v is null as vn from $t->{name}) $a";
		$leaf{cols} = [ @{ $t->{cols} }, { name => 'cv', fam => 'int', type => 'int4', exact => 1, int => 1 }, { name => 'one', fam => 'text', type => 'text', exact => 1 } ];
		$leaf{base} = 0;
	}
	elsif ($r < 0.15)
	{
		$leaf{sql} = "(select * from $t->{name} order by id, v limit 50 offset 1) $a";
		$leaf{base} = 0;
		$leaf{unstable} = 1 unless $t->{base};
		$leaf{rows} = 50;
	}
	elsif ($r < 0.18)
	{
		$leaf{sql} = "(select id, v, id as k0 from $t->{name} union " . pick('', 'all ') . "select v, id, 5 from $t->{name} where id < 60) $a";
		$leaf{cols} = [ map { { name => $_, fam => 'int', type => 'int4', exact => 1, int => 1 } } qw(id v k0) ];
		$leaf{base} = 0;
	}
	elsif ($r < 0.21)
	{
		$leaf{sql} = "(values (1, 2, 6), (3, null, 7), (null, 9, 6), (-1, 0, 2147483647)) $a (id, v, k0)";
		$leaf{cols} = [ map { { name => $_, fam => 'int', type => 'int4', exact => 1, int => 1 } } qw(id v k0) ];
		$leaf{rows} = 4;
		$leaf{base} = 0;
	}
	elsif ($r < 0.24)
	{
		$leaf{sql} = "(select v as k0, count(*)::int as v, min(id) as id from $t->{name} group by v) $a";
		$leaf{cols} = [ map { { name => $_, fam => 'int', type => 'int4', exact => 1, int => 1 } } qw(id v k0) ];
		$leaf{rows} = 37;
		$leaf{base} = 0;
	}
	elsif ($r < 0.30 && $depth > 0)
	{
		my ($sql) = sub_join($s, $depth - 1);
		$leaf{sql} = "($sql" . pick('', ' offset 0') . ") $a";
		$leaf{cols} = [ map { { name => $_, fam => 'int', type => 'int4', exact => 1, int => 1 } } qw(id v k0) ];
		$leaf{base} = 0;
		$leaf{rows} = 1000;
	}
	elsif ($r < 0.32 && $t->{base})
	{
		$leaf{sql} = "$t->{name} $a tablesample " . pick('bernoulli', 'system') . " (40) repeatable (7)";
	}
	elsif ($r < 0.33 && $t->{children})
	{
		$leaf{sql} = "only $t->{name} $a";
	}
	elsif ($r < 0.34)
	{
		$leaf{sql} = "(select oid as o, relname, relnatts as id, relnatts as v, relnatts::int4 as k0 from pg_class where oid < 16384) $a";
		$leaf{cols} = [ { name => 'o', fam => 'oid', type => 'oid', exact => 1 }, { name => 'relname', fam => 'text', type => 'name', exact => 1 },
			map { { name => $_, fam => 'int', type => $_ eq 'k0' ? 'int4' : 'int2', exact => 1, int => 1 } } qw(id v k0) ];
		$leaf{base} = 0;
		$leaf{rows} = 400;
	}
	elsif ($r < 0.38)
	{
		# groups, or distinct rows, to be joined by their key
		my $key = pick(grep { $_->{exact} && $_->{name} !~ /^(id|v)$/ } @{ $t->{cols} });
		my $sql = pick("count(*)::int as v, min(id) as id from $t->{name} group by 1", "max(v) as v, count(distinct id)::int as id from $t->{name} where v > 0 group by 1",
			"stddev(v)::int as v, max(id) as id from $t->{name} group by 1");
		$sql .= ' having ' . pick('count(*) > 1', 'min(v) > 3', 'sum(id) > 40 and max(v) is not null') if chance(0.6);
		$leaf{sql} = chance(0.2) ? "(select distinct $key->{name}, v, id % 20 as id from $t->{name}) $a" : "(select $key->{name}, $sql) $a";
		$leaf{cols} = [ $key, map { { name => $_, fam => 'int', type => 'int4', exact => 1, int => 1 } } qw(id v) ];
		$leaf{base} = 0;
	}
	elsif ($r < 0.40)
	{
		# joined by core alone: the node does not take records
		$leaf{sql} = "(select *, row(id, v) as rec from $t->{name} offset 0) $a";
		$leaf{record} = "$a.rec";
		$leaf{base} = 0;
	}
	return \%leaf;
}

# A join of two tables with columns id, v, k0; correlated with $outer if given.
sub sub_join
{
	my ($s, $depth, $outer) = @_;
	my @t = (pick(@{ $s->{tables} }), pick(@{ $s->{tables} }));
	my ($x, $y) = (new_alias(), new_alias());
	my $f = int(rand(@{ $s->{fams} }));
	my $type = pick('join', 'join', 'left join', 'right join', 'full join');
	my $sql = "select $x.id as id, $y.v as v, coalesce($x.v, $y.id) as k0 from $t[0]{name} $x $type $t[1]{name} $y on $x.k$f = $y.k$f";
	$sql .= " and $x.v " . pick('<', '>=', '<>') . " $y.v" if chance(0.3);
	if ($outer)
	{
		my $c = pick(grep { $_->{int} } @{ $outer->{cols} });
		$sql .= " where " . pick("$x.id", "$x.v", "$y.v") . ' ' . pick('=', '=', '=', '<') . " $outer->{alias}.$c->{name}";
	}
	return $sql;
}

# --- conditions ------------------------------------------------------------------
sub leaves
{
	my ($n) = @_;
	return ($n) if $n->{kind} eq 'leaf';
	return (leaves($n->{l}), leaves($n->{r}));
}

sub key_pair
{
	my ($l, $r) = @_;
	foreach (1 .. 20)
	{
		my $a = pick(leaves($l));
		my $b = pick(leaves($r));
		my $ca = pick(@{ $a->{cols} });
		my @cb = grep { $_->{fam} eq $ca->{fam} } @{ $b->{cols} };
		next unless @cb;
		my $cb = pick(@cb);
		next if $ca->{name} =~ /^(v|late)$/ && $cb->{name} =~ /^(v|late)$/ && chance(0.8);
		next if $ca->{name} eq 'pay' && chance(0.8);
		my ($ea, $eb) = ("$a->{alias}.$ca->{name}", "$b->{alias}.$cb->{name}");
		my $x = rand();
		if ($x < 0.04 && $ca->{int}) { $ea = "$ea\::int8 + 1"; $eb = "$eb\::int8 + 1"; }
		elsif ($x < 0.07 && $ca->{int}) { $ea = "coalesce($ea, 6)"; }
		elsif ($x < 0.10 && $ca->{int}) { $ea = "$ea\::numeric"; $eb = "$eb\::numeric"; }
		elsif ($x < 0.12 && $ca->{int}) { $ea = "case when $a->{alias}.v > 5 then $ea end"; }
		elsif ($x < 0.06 && $ca->{fam} eq 'text') { $ea = "upper($ea\::text)"; $eb = "upper($eb\::text)"; }
		elsif ($x < 0.09 && $ca->{fam} eq 'text') { $ea = "$ea\::text || 'x'"; $eb = "$eb\::text || 'x'"; }
		elsif ($x < 0.02 && $a->{base}) { $ea = "$ea"; $eb = "nullif($eb, null)"; }
		return ($ea, $eb);
	}
	return ((leaves($l))[0]{alias} . '.id', (leaves($r))[0]{alias} . '.id');
}

sub int_col
{
	my (@leaves) = @_;
	my $a = pick(@leaves);
	my $c = pick(grep { $_->{int} } @{ $a->{cols} });
	return "$a->{alias}.$c->{name}";
}

# A qual over both sides that is not an equality of one with the other.
sub residual
{
	my ($l, $r) = @_;
	my @l = leaves($l);
	my @r = leaves($r);
	my ($x, $y) = (int_col(@l), int_col(@r));
	return pick(
		"$x < $y", "$x <> $y", "$x >= $y", "coalesce($x, 0) % 3 <> coalesce($y, 1) % 2", "$x is distinct from $y",
		"($x = $y or $x > 10)", "($x > 3 or $y is null)", "$x\::int8 + $y > 20", "$x between $y and 1000",
		"$x\::text like '%1%' || left($y\::text, 0)", "(case when $x > $y then null else true end)", "$x > 4", "$y > 4", "$y is not null", pick('true', 'false', 'null::bool'));
}

# A number that a subquery aggregates from the rows of a table that have the keys of this leaf's row, or finds in the row of an id.
sub grouped_number
{
	my ($s, $leaf) = @_;
	my $t = pick(@{ $s->{tables} });
	my $inner = { kind => 'leaf', alias => new_alias(), cols => $t->{cols}, base => 0 };
	my $x = $inner->{alias};
	my @where = map { join ' = ', key_pair($leaf, $inner) } 1 .. pick(1, 1, 1, 2);

	push @where, pick("$x.id % 3 <> 1", "$x.v > 4", "$x.id in (1, 2, 3, 50, 60)", "$x.v is not null", typed_qual($inner), residual($leaf, $inner)) if chance(0.4);
	my $c = pick(@{ $inner->{cols} });
	my $n = int_col($inner);
	return "(select " . pick($n, "coalesce($n, 3)", "$n + 0.5", "length($x.$c->{name}::text)") . " from $t->{name} $x where $x.id = " . int_col($leaf) . pick('', " and $x.v > 4") . ')' if chance(0.25);
	my $value = pick('count(*)', "count($x.$c->{name})", "sum($n)", "avg($n)", "max($n) - 3", "coalesce(min($n), 5)", "count(distinct $n)", "0.5 * sum($n) filter (where $x.v > 2)",
		$c->{fam} eq 'numeric' ? "sum($x.$c->{name})" : "length(max($x.$c->{name}::text))", "coalesce(sum($n), 0) + count(*) + coalesce(" . int_col($leaf) . ', 1)');
	return "(select $value from $t->{name} $x where " . join(' and ', @where) . ')';
}

# A qual with a subquery of one value.
sub scalar_qual
{
	my ($s, $leaf) = @_;
	my $t = pick(@{ $s->{tables} });
	my $x = new_alias();
	my $c = int_col($leaf);
	return pick("$c " . pick('=', '<', '>=', '<>', 'is distinct from') . ' ', '3 < ') . grouped_number($s, $leaf) . pick('', '', " or $c = 5") if chance(0.5);
	my $value = pick("max($x.v)", "min($x.id)", "avg($x.v)", "count(distinct $x.v)", "sum($x.v) / 50");
	my $where = $t->{rows} <= 150 && chance(0.4) ? "$x.v = " . int_col($leaf) : pick('true', "$x.id % 3 = 1", "$x.id < 0");
	return "$c " . pick('=', '<', '<=', '>', '<>') . " (select $value from $t->{name} $x where $where)";
}

sub join_cond
{
	my ($s, $l, $r) = @_;
	my @c;
	my $n = pick(1, 1, 1, 1, 2, 2, 3);
	foreach (1 .. $n)
	{
		my ($a, $b) = key_pair($l, $r);
		push @c, chance(0.5) ? "$a = $b" : "$b = $a";
	}
	push @c, residual($l, $r) if chance(0.3);
	push @c, residual($l, $r) if chance(0.08);
	push @c, scalar_qual($s, pick(leaves(chance(0.5) ? $l : $r))) if chance(0.04);
	# all columns of a unique index
	my ($unique) = grep { $_->{unique} } leaves($r);
	my $other = pick(leaves($l));
	@c = map { "$other->{alias}.$_ = $unique->{alias}.$_" } qw(id v) if $unique && chance(0.3);
	foreach (grep { $_->{record} } leaves($l), leaves($r)) { push @c, "$_->{record} <> row((" . int_col(leaves($l)) . ' % 1000)::int4, (' . int_col(leaves($r)) . ' % 1000)::int4)'; }
	return \@c;
}

sub join_tree
{
	my ($s, $n, $depth) = @_;
	return leaf($s, $depth) if $n <= 1;
	my $nl = 1 + int(rand($n - 1));
	my $l = join_tree($s, $nl, $depth);
	my $r = join_tree($s, $n - $nl, $depth);
	my $type = pick('join', 'join', 'join', 'left join', 'left join', 'right join', 'full join');
	if (chance(0.04) && $r->{kind} eq 'leaf')
	{
		my $outer = pick(leaves($l));
		my $a = new_alias();
		my $sql = sub_join($s, 0, $outer);
		my %lat = (kind => 'leaf', alias => $a, sql => "lateral ($sql) $a", rows => 100, base => 0,
			cols => [ map { { name => $_, fam => 'int', type => 'int4', exact => 1, int => 1 } } qw(id v k0) ]);
		return { kind => 'join', type => pick('join', 'left join'), l => $l, r => \%lat, cond => ['true'], lateral => 1 };
	}
	# a nested loop of core's over few rows
	if (chance(0.06) && $r->{kind} eq 'leaf' && $r->{base})
	{
		return { kind => 'join', type => pick('join', 'left join'), l => $l, r => $r, cond => [ int_col(leaves($l)) . pick(' < ', ' <> ', ' >= ') . int_col($r), "$r->{alias}.id <= 3" ] };
	}
	return { kind => 'join', type => $type, l => $l, r => $r, cond => join_cond($s, $l, $r) };
}

sub subquery_qual
{
	my ($s, @outer) = @_;
	my $t = pick(@{ $s->{tables} });
	my $x = new_alias();
	my $o = { kind => 'leaf', %{ pick(@outer) } };
	my $i = { kind => 'leaf', alias => $x, cols => $t->{cols}, base => 0 };
	my ($a, $b) = key_pair($o, $i);
	my $extra = '';
	$extra .= ' and ' . residual($o, $i) if chance(0.35);
	if (chance(0.2)) { my ($c, $d) = key_pair($o, $i); $extra .= " and $c = $d"; }
	my $r = rand();
	return "exists (select 1 from $t->{name} $x where $a = $b$extra)" if $r < 0.3;
	return "not exists (select 1 from $t->{name} $x where $a = $b$extra)" if $r < 0.6;
	return "$a in (select $b from $t->{name} $x" . (chance(0.3) ? " where $x.v > 3" : '') . ')' if $r < 0.8;
	return "$a not in (select $b from $t->{name} $x" . pick("", " where $b is not null") . ")" if $r < 0.85;

	# an inner join in the sub-select
	my $t2 = pick(@{ $s->{tables} });
	my $y = new_alias();
	my $f = int(rand(@{ $s->{fams} }));
	return pick('', 'not ') . "exists (select 1 from $t->{name} $x join $t2->{name} $y on $x.k$f = $y.k$f where $a = $b$extra)" if $r < 0.95;
	return "(select count(*) from $t->{name} $x join $t2->{name} $y on $x.k$f = $y.k$f where $x.v = $o->{alias}.v) > 1";
}

# --- select lists --------------------------------------------------------------------
sub select_item
{
	my ($s, @l) = @_;
	my $a = pick(@l);
	my $c = pick(@{ $a->{cols} });
	my $r = rand();
	return "$a->{alias}.$c->{name}" if $r < 0.5;
	return "$a->{alias}::text" if $r < 0.56;
	return "$a->{alias}.ctid" if $r < 0.60 && $a->{base};
	return "$a->{alias}.tableoid::regclass" if $r < 0.63 && $a->{base};
	return "$a->{alias}" if $r < 0.66;
	return "coalesce(" . int_col(@l) . "::int8, " . int_col(@l) . ")" if $r < 0.74;
	return "case when " . int_col(@l) . " > 5 then " . int_col(@l) . "::int8 else -1 end" if $r < 0.80;
	return "$a->{alias}.$c->{name}::text || '|'" if $r < 0.86;
	return "$a->{alias} is null" if $r < 0.90;
	return "length($a->{alias}.$c->{name}::text)" if $r < 0.95;

	return grouped_number($s, pick(@l)) if chance(0.5);
	if ($r < 0.98)
	{
		my $t = pick(@{ $s->{tables} });
		my $x = new_alias();
		return "(select count(*) from $t->{name} $x where $x.v = " . int_col(@l) . ")";
	}
	return "(select count(*) from (" . sub_join($s, 0, pick(@l)) . ") q)";
}

# Integer arithmetic of at most $depth levels.
sub arithmetic
{
	my ($depth, @l) = @_;
	my $r = rand();
	return $r < 0.7 ? int_col(@l) : pick(1, 3, '2::int2', '5::int8', '-1', '$1') if $depth == 0 || $r < 0.15;
	return '(- ' . arithmetic($depth - 1, @l) . ')' if $r < 0.25;
	return arithmetic($depth - 1, @l) . '::int8' if $r < 0.35;
	return '(' . arithmetic($depth - 1, @l) . pick(' + ', ' + ', ' - ', ' - ', ' * ') . arithmetic($depth - 1, @l) . ')';
}

# constants of all families but the integers; each type of the family accepts them
my %constants = (
	bool => [qw(true false)],
	date => [ map { "date '$_'" } qw(2000-01-05 2000-03-01 infinity -infinity 2100-01-01) ],
	float => [qw(0.5 0 '-0' 'NaN'::float8 'infinity'::float8 '-infinity'::float4 12.25::float4 3)],
	numeric => [qw(6 6.0 0.5 7.000000000000000000000000001 1e30 -1e-30 'NaN'::numeric 'infinity'::numeric '-infinity'::numeric 12.000)],
	oid => [qw(6::oid 4294967295::oid 0::oid 20::oid)],
	time => [ map { "time '$_'" } qw(00:00:06 00:01:00 23:59:59) ],
	ts => [ map { "timestamp '$_'" } qw(2000-01-01T06:00 2000-02-01 infinity -infinity) ],
	tstz => [ map { "timestamptz '$_'" } qw(2000-01-01T06:00Z 2000-02-01Z infinity -infinity) ]);

# A comparison of a column with constants of its family if there are any, or of a row's system columns.
sub typed_qual
{
	my ($leaf) = @_;
	my @c = grep { $constants{ $_->{fam} } } @{ $leaf->{cols} };
	return pick("$leaf->{alias}.ctid > '(1,3)'", "$leaf->{alias}.tableoid is not null", "$leaf->{alias}.ctid = any (array['(0,1)', '(0,2)', '(1,1)']::tid[])") if $leaf->{base} && (!@c || chance(0.1));
	return 'true' if !@c;
	my $c = pick(@c);
	my $x = "$leaf->{alias}.$c->{name}";
	my @k = map { pick(@{ $constants{ $c->{fam} } }) } 1 .. 3;
	return pick($x, "not $x", "$x = true", "$x is not true", "$x is unknown") if $c->{fam} eq 'bool' && chance(0.6);
	return "$x in ($k[0], $k[1], $k[2])" if chance(0.2);
	return "$x not in ($k[0], $k[1]" . pick('', ', null') . ')' if chance(0.2);
	return "$x between $k[0] and $k[1]" if chance(0.1);
	return "$k[0] " . pick('<', '>=', '=') . " $x" if chance(0.2);
	return "$x " . pick('<', '<=', '=', '<>', '>=', '>') . " $k[0]";
}

# arguments of functions by type, beside columns
my %arguments = (
	int2 => [qw(1::int2 (-32768)::int2 null::int2)], int4 => [qw(0 1 7 -1 100 2147483647 -2147483648 null::int4)], int8 => [qw(0::int8 3::int8 (-9223372036854775808)::int8 null::int8)],
	numeric => [qw(0.0 1.5 -7.00 1e20 'NaN'::numeric 'infinity'::numeric null::numeric)], bool => [qw(true false null::bool)],
	text => [ map { "$_\::text" } qw('' 'k1' 'k%' '%1_' 'month' 'year' 'epoch' 'a\\b' 'UTC' null) ],
	date => [ map { "$_\::date" } qw('2000-01-05' 'infinity' '-infinity' null) ], timestamp => [ map { "$_\::timestamp" } qw('2000-01-31T06:00' 'infinity' null) ],
	interval => [ map { "interval '$_'" } '1 month', '1 day -2 hours', '0', '1000 years' ], time => [ map { "time '$_'" } qw(00:00 23:59:59) ]);
# families whose values are given as such a type
my %families = (numeric => 'numeric', bool => 'bool', text => 'text|longtext|char|enum', date => 'date', timestamp => 'date|ts', time => 'time');

# A call of a function of the catalog, mostly with a column in it; it may raise an error for some of the rows.
sub catalog_call
{
	my (@l) = @_;
	my ($name, $cast, @types) = @{ pick(@functions) };
	my $column = int(rand(@types));
	my @values = map {
		my ($type, $family) = ($types[$_], $families{ $types[$_] });
		my @c = map { my $a = $_->{alias}; map { "$a.$_->{name}" } grep { $family && $_->{fam} =~ /^($family)$/ } @{ $_->{cols} } } @l;
		my $x = int_col(@l);
		$_ != $column && chance(0.7) ? pick(@{ $arguments{$type} }) : @c && chance(0.8) ? pick(@c) . "::$type"
		  : $type eq 'int2' ? "($x % 1000)::int2" : $type eq 'bool' ? "$x > 5" : $type =~ /^(int4|int8|numeric|text)$/ ? "$x\::$type" : pick(@{ $arguments{$type} });
	} 0 .. $#types;
	return "pg_catalog.$name(" . join(', ', @values) . ")$cast";
}

# A part of a value as text.
sub part
{
	my ($x) = @_;
	my ($start, $length) = (pick(1, 1, 2, 3, 0, -1, 2147483647, -2147483648), pick(0, 1, 2, 2, 3, 2147483647));
	return pick("substring($x\::text from $start for $length)", "substr($x\::text, $start, $length)", "substr($x\::text, $start)", "left($x\::text, $length)");
}

# patterns of LIKE, one with an escape at its end
my @patterns = ('k1%', '%1', '%k%', 'k_', 'k%1%', '%1%2%', '', '%', 'K%', '%ab%', '_1%', 'k\\1%', '%k6', 'k6');

# Conditions by family on an expression of the column $x; none raises an error for any value.
my %by_family = (
	text => sub {
		my ($x) = @_;
		return "$x " . pick('like', 'like', 'not like', 'ilike') . " '" . (chance(0.01) ? 'k%\\' : pick(@patterns)) . "'" if chance(0.5);
		return pick("$x = 'k6'", "$x <> 'k6'", "$x in ('k1', 'k6', '')", "$x not in ('k1', 'k6')", "substring($x\::text from 1 for 2) = 'k1'", part($x) . " in ('k1', 'k', '1', '')", part($x) . pick(" <> 'k6'", " not in ('1', 'k')", " like 'k%'", " is null", " = 'k' or $x is null"), "length($x\::text) > 2", "upper($x\::text) = 'K6'", "$x < 'k3'",
			"$x\::text || 'x' = 'k6x'", "$x is distinct from 'k6'", "coalesce($x\::text, 'k6') = 'k6'", "case $x when 'k1' then true when 'k2' then null else $x > 'k5' end", "position('1' in $x\::text) = 2", "$x\::text collate \"C\" >= 'k5'");
	},
	numeric => sub {
		my ($x) = @_;
		return pick("$x * 2 + 1 > 13", "$x / 7 < 1.5", "$x % 3 = 0", "round($x, 1) = 6", "abs($x) >= 6.00", "-$x < -5.5", "$x + $x = 12", "$x between 1.5 and 60", "trunc($x / 10) = 0", "$x\::text like '6%'", "case when $x > 5 then $x - 1 else 2 * $x end >= 5");
	},
	date => sub {
		my ($x) = @_;
		return pick("extract(year from $x) = 2000", "extract(dow from $x) in (1, 3)", "date_trunc('month', $x\::timestamp) = timestamp '2000-01-01'", "$x + interval '1 month' > timestamp '2000-03-01'", "date_part('doy', $x) < 40", "$x - interval '2 days' < date '2000-02-01'");
	},
	int => sub {
		my ($x, $y) = @_;
		return pick("$x < $y", "$x = $y", "$x <> $y", "$x <= $y", "$x / 2 > 3", "$x % 5 < 2", "$x\::numeric + $y > 20", "$x\::numeric * $y <= 100", "coalesce($x, $y, 3) > 4", "nullif($x, 6) is null", "greatest($x, $y) > 5",
			"case when $x > 5 then $y else $x end > 3", "case $x % 4 when 1 then $y > 3 when 2 then null else false end", "$x is distinct from $y", "$x\::float8 / 3 < 5", "$x in (" . join(', ', map { $_ * 3 } 0 .. pick(5, 40, 1500)) . ')', "$x = any (array(select generate_series(0, 90, 4)))");
	});
$by_family{$_} = $by_family{text} foreach qw(longtext bpchar);
$by_family{$_} = $by_family{date} foreach qw(ts tstz);

# A condition that a vector evaluates, or that core evaluates on what vectors leave.
sub expression_qual
{
	my ($leaf) = @_;
	return catalog_call($leaf) . pick(' is null', ' is not null', ' = ' . catalog_call($leaf)) if @functions && chance(0.05);
	my $c = pick(grep { $by_family{ $_->{fam} } } @{ $leaf->{cols} });
	return $by_family{ $c->{fam} }->("$leaf->{alias}.$c->{name}", int_col($leaf));
}

# AND and OR of conditions on columns of one relation, mostly ones that are evaluated while a table is read.
sub nested_qual
{
	my ($depth, $leaf) = @_;
	if ($depth == 0 || chance(0.2))
	{
		return typed_qual($leaf) if chance(0.3);
		return expression_qual($leaf) if chance(0.4);
		my $x = int_col($leaf);
		my $col = "$leaf->{alias}." . pick(@{ $leaf->{cols} })->{name};
		return pick("$x > 3", "$x <= 30", "$x = 6", "$x <> 6", "$x is null", "$x is not null", "$col is null", "$col is not null", "$x in (1, 5, 6, 7, 30)", "$x not in (1, 6)",
			"$x in (2, null)", "$x between 4 and 60", 'null::bool', "$x < null", "$x % 2 = 0", "$x > \$1", "$x = any (array[6, \$1])", "not $x > 20",
			"$x > (select count(*) from (values (1), (null)) z)");
	}
	return ($depth % 2 ? pick('', 'not ') : '') . '(' . join(pick(' and ', ' or '), map { nested_qual($depth - 1, $leaf) } 1 .. pick(2, 2, 3)) . ')';
}

# An aggregate of all rows, mostly one that the node computes itself.
sub aggregate_item
{
	my (@l) = @_;
	my ($x, $y) = (int_col(@l), int_col(@l));
	my $a = pick(@l);
	my $c = pick(@{ $a->{cols} });
	my $col = "$a->{alias}.$c->{name}";
	return pick('count(*)', 'count(1)', "count($x)", "count($col)", 'count(' . part($col) . ')') if chance(0.3);
	return pick('bool_and', 'bool_or', 'every') . "($col)" if $c->{fam} eq 'bool';
	if ($c->{fam} eq 'numeric')
	{
		my $number = pick($col, $col, "-$col", "$col * 1.25", "$col + $x", "1 - $col", "$col * $col", "$x * (1.5 - $col)", "case when $x > 5 then $col else 0 end", "case when $col > 5 then $col * $col when $x > $y then -$col end", "coalesce($col, 1.50)");
		return pick("sum($number)", "avg($number)", "trim_scale(min($number))", "trim_scale(max($number))", pick("variance", "stddev_pop", "stddev") . "($col)");
	}
	if ($c->{fam} eq 'float')
	{
		# sums that are exact, so that the order does not matter; of 0 and -0 either may be the extreme
		my $number = pick($col, $col, "-$col", "$col * 2", "$col / 4", "coalesce($col, 1.5)", "case when $x > 5 then $col else 0.25 end", "0.5 - $col");
		return pick("sum($number\::float8)", "avg($number)", "0::float8 + min($number)", "0::float8 + max($number)", "count($number)");
	}
	return pick('sum', 'min', 'max', 'count') . '(extract(' . pick(qw(year quarter month day week)) . " from " . pick($col, "case when $x > 5 then $col end") . '))' if $c->{fam} eq 'date' && chance(0.5);
	return pick('min', 'max') . '(' . pick($col, "coalesce($col, $col)", "case when $x > $y then $col end") . ')' if $c->{fam} =~ /^(date|time|ts|tstz|money)$/;
	return pick("count(distinct $x)", "count(*) filter (where $x > 3)", "sum($x\::numeric)", "max(coalesce($x, 0))", "bool_or($x > 7)") if chance(0.04);
	return pick('sum', 'sum', 'avg', 'min', 'count') . '(' . pick(2, '3::int8', '(-1)::int2', '$1', '$1::int8', '$1 * 2') . ')' if chance(0.06);
	my $arg = chance(0.15) ? arithmetic(4, @l) : pick($x, $x, $x, "-$x", "$x + $y", "$x - $y", "$x * $y", "$x + 1", "$x * 2 - $y", "$x\::int8", "$x\::int8 * $y", "-($x - $y)", "$x + \$1", "case when $x > 5 then $x * 2 else $y end", "case $x when 3 then 1 when 5 then $y end", "coalesce($x, $y, 0)");
	$arg = "$arg / " . int_col(@l) if chance(0.01);
	return pick('sum', 'sum', 'sum', 'avg', 'avg', 'min', 'max', 'count', 'variance', 'var_pop', 'stddev') . "($arg)";
}

# A key of GROUP BY whose equal values look the same.
sub group_key
{
	my (@l) = @_;
	my $x = int_col(@l);
	my $g = pick(map { my $a = $_->{alias}; map { "$a.$_->{name}" } grep { $_->{exact} } @{ $_->{cols} } } @l);
	return catalog_call(@l) if @functions && chance(0.15);
	return $g if chance(0.7);
	my ($day) = map { my $a = $_->{alias}; map { "$a.$_->{name}" } grep { $_->{fam} =~ /^(date|ts|tstz)$/ } @{ $_->{cols} } } @l;
	return pick("extract(year from $day)", "extract(month from $day)", "date_part('year', $day)", "extract(day from $day)", "date_trunc('" . pick(qw(year quarter month week day hour)) . "', $day\::timestamp)", "extract(" . pick(qw(dow doy week isodow isoyear year)) . " from $day" . pick('', '::timestamp') . ")") if $day && chance(0.5);
	return pick("$x % 7", "upper($g\::text)", "substring($g\::text from 2 for 1)", part($g), part($g), "case $x % 3 when 0 then 'none' when 1 then 'one' end", "$x < 10", "coalesce($x, -1)", "$x is null", "case when $x > 9 then $x end", "$x\::int8 * 3", "length($g\::text)", "left($g\::text, 2)", "($x % 100)::numeric(12, 2)");
}

# An aggregate of a group: like one of all rows, but with numerics and FILTER more often.
sub group_item
{
	my (@l) = @_;
	my $x = int_col(@l);
	my $item = aggregate_item(@l);
	$item = pick('sum', 'avg', 'count') . '(' . pick("case when $x % 3 = 1 then $x\::numeric * 1.25 else 0 end", "case when $x > 5 then 1 end", "$x\::numeric / 7", "length($x\::text)", "$x\::numeric", "$x\::numeric(14, 2)", "$x * 1.25", "$x\::numeric * " . int_col(@l), "1.5 - $x\::numeric", "case when $x % 50 = 0 then 'NaN'::numeric else $x end") . ')' if chance(0.3);
	$item .= " filter (where " . pick("$x > 3", "$x is null", "$x % 2 = 0", expression_qual(pick(@l))) . ')' if chance(0.15) && $item !~ /filter/;
	return $item;
}

# aggregates of the DISTINCT values of one expression
sub distinct_items
{
	my (@l) = @_;
	my ($x, $y) = (int_col(@l), int_col(@l));
	my $a = pick(@l);
	my $any = "$a->{alias}." . pick(@{ $a->{cols} })->{name};
	my $arg = pick($x, $x, "$x % 5", "$x\::int8 * 3", "coalesce($x, $y)", $any, $any, "left($any\::text, 2)");
	my $filter = chance(0.2) ? " filter (where $y > 3)" : '';
	return map { "$_(distinct $arg)$filter" } 'count', $arg =~ /^\Q$any\E|left/ ? () : grep { chance(0.3) } qw(sum avg min max);
}

# --- queries ----------------------------------------------------------------------------
# { with => [text], select => [..], from => tree, where => [..], tail => text, params => bool }
sub make_query
{
	my ($s) = @_;
	my %q = (with => [], select => [], where => [], tail => '', settings => {});
	my $grouped = chance($groups);
	my $n = $grouped ? pick(1, 1, 1, 2, 2, 3) : pick(2, 2, 2, 2, 3, 3, 3, 4, 5);
	$q{from} = join_tree($s, $n, 1);
	my @l = leaves($q{from});
	if (chance(0.08))
	{
		# a CTE joined with the rest
		my $c = 'c1';
		my $sql = sub_join($s, 0);
		push @{ $q{with} }, "$c as " . pick('', 'materialized ', 'not materialized ') . "($sql)";
		my $a = new_alias();
		my $leaf = { kind => 'leaf', alias => $a, sql => "$c $a", rows => 1000, base => 0,
			cols => [ map { { name => $_, fam => 'int', type => 'int4', exact => 1, int => 1 } } qw(id v k0) ] };
		$q{from} = { kind => 'join', type => pick('join', 'left join', 'right join', 'full join'), l => $q{from}, r => $leaf, cond => join_cond($s, $q{from}, $leaf) };
		@l = leaves($q{from});
	}
	elsif (chance(0.04))
	{
		my $t = pick(grep { $_->{base} } @{ $s->{tables} });
		my $do = pick("delete from $t->{name} where v % 3 = 0 returning *", "update $t->{name} set v = v + 1 where id % 2 = 0 returning *");
		push @{ $q{with} }, "c1 as ($do)";
		my $a = new_alias();
		my $leaf = { kind => 'leaf', alias => $a, sql => "c1 $a", rows => $t->{rows}, base => 0, cols => $t->{cols} };
		$q{from} = { kind => 'join', type => pick('join', 'left join', 'full join'), l => $q{from}, r => $leaf, cond => join_cond($s, $q{from}, $leaf) };
		@l = leaves($q{from});
	}
	my $nwhere = pick(0, 0, 1, 1, 2);
	foreach (1 .. $nwhere)
	{
		my $x = int_col(@l);
		push @{ $q{where} },
		  chance(0.45) ? subquery_qual($s, @l)
		  : chance(0.25) ? nested_qual(pick(1, 2, 2, 3), pick(@l))
		  : chance(0.3) ? expression_qual(pick(@l))
		  : chance(0.1) ? scalar_qual($s, pick(@l))
		  : pick("$x > 3", "$x is null", "$x is not null", "$x % 4 <> 1", "($x is null or $x < 20)", "$x between 1 and 300");
	}
	my $r = rand();
	if ($grouped)
	{
		my @g = map { group_key(@l) } 1 .. pick(1, 1, 2, 3);
		$q{select} = [ @g, map { group_item(@l) } 1 .. pick(0, 1, 2, 3, 5) ];
		push @{ $q{select} }, distinct_items(@l) if chance($distinct);
		$q{tail} = 'group by ' . join(', ', 1 .. @g);
		push @{ $q{select} }, "grouping($g[0])" if chance(0.03);
		$q{tail} = 'group by ' . pick('rollup', 'cube') . ' (' . join(', ', 1 .. @g) . ')' if chance(0.03);
		$q{tail} .= ' having ' . pick('count(*) > 1', 'max(' . int_col(@l) . ') is not null', 'sum(' . int_col(@l) . ') > 10', 'count(distinct ' . int_col(@l) . ') > 2', 'avg(' . int_col(@l) . ') <> min(' . int_col(@l) . ') or count(*) = 1',
			'sum(' . int_col(@l) . ') > (select count(*) from ' . pick(@{ $s->{tables} })->{name} . ')') if chance(0.3);
		$q{tail} .= ' order by ' . join(', ', 1 .. @{ $q{select} }) . ' limit 9' if chance(0.06);
		$q{errors} = 1 if join(' ', render_from($q{from}), @{ $q{where} }) !~ /::int8 \+|pg_catalog\./;
	}
	elsif ($r < 0.12)
	{
		my $g = pick(map { my $a = $_->{alias}; map { "$a.$_->{name}" } grep { $_->{exact} } @{ $_->{cols} } } @l);
		$q{select} = [ $g, 'count(*)', 'sum(' . int_col(@l) . ') filter (where ' . int_col(@l) . ' > 5)', 'sum(' . int_col(@l) . '::int8::numeric)', 'min(' . int_col(@l) . ')', 'count(distinct ' . int_col(@l) . ')' ];
		$q{tail} = "group by $g" . (chance(0.2) ? ' having count(*) > 1' : '');
	}
	elsif (chance($aggregates))
	{
		$q{select} = [ map { aggregate_item(@l) } 1 .. pick(1, 1, 2, 3, 5) ];
		push @{ $q{select} }, distinct_items(@l) if chance($distinct);
		$q{tail} = 'having ' . pick('count(*) > 2', 'max(' . int_col(@l) . ') is not null') if chance(0.15);
		# overflow is the only possible error then, and independent of the plan
		$q{errors} = 1 if join(' ', render_from($q{from}), @{ $q{where} }) !~ /::int8 \+|pg_catalog\./;
	}
	elsif ($r < 0.17)
	{
		$q{select} = [ map { group_key(@l) } 1 .. pick(1, 1, 2, 3, 5) ];
		$q{tail} = 'order by ' . join(', ', 1 .. @{ $q{select} }) . pick('', ' limit 7') if chance(0.2);
		$q{select}[0] = "distinct $q{select}[0]";
	}
	elsif ($r < 0.20)
	{
		$q{select} = [ int_col(@l), int_col(@l) ];
		$q{setop} = pick('union', 'union all', 'except', 'intersect', 'except all', 'intersect all') . ' select id, v from ' . pick(@{ $s->{tables} })->{name};
	}
	elsif ($r < 0.23)
	{
		$q{select} = [ map { int_col(@l) } 1 .. 3 ];
		$q{select} = [ join(', ', @{ $q{select} }) ];
		$q{tail} = 'order by ' . join(', ', 1 .. 3) . ' limit ' . pick(1, 5, 40);
		$q{tail} = 'order by 1 fetch first ' . pick(1, 5, 40) . ' rows with ties' if chance(0.2);
	}
	else
	{
		my $m = 1 + int(rand(6));
		$q{select} = [ map { select_item($s, @l) } 1 .. $m ];
		$q{select} = ['*'] if chance(0.06);
		push @{ $q{select} }, 'row_number() over (partition by ' . int_col(@l) . ') > 0' if chance(0.03);
		push @{ $q{select} }, '100 / (coalesce(' . int_col(@l) . ', 1) - 17)' if chance(0.02);
		$q{errors} = 1 if $q{select}[-1] =~ m{^100 / };
		if (chance(0.02) && !@{ $q{with} }) { $q{tail} = 'for update of ' . pick(map { $_->{alias} } @l); }
	}
	if (grep { /\$1/ } @{ $q{select} }, @{ $q{where} })
	{
		$q{params} = 1;
	}
	elsif (chance(0.1) && $q{tail} !~ /limit|for update/)
	{
		push @{ $q{where} }, int_col(@l) . pick(' = ', ' > ', ' <> ') . '$1';
		$q{params} = 1;
	}
	return \%q;
}

# A statement that changes a table by a join; its result is the changed rows.
sub make_dml
{
	my ($s) = @_;
	my @base = grep { $_->{base} } @{ $s->{tables} };
	my $t = pick(@base);
	my $a = new_alias();
	my $target = { kind => 'leaf', alias => $a, cols => $t->{cols}, base => 1, sql => "$t->{name} $a" };
	my $from = join_tree($s, pick(1, 2), 0);
	my $cond = join(' and ', @{ join_cond($s, $target, $from) });
	my $src = render_from($from);
	return pick(
		"delete from $t->{name} $a using $src where $cond returning $a.id, $a.v, $a.pay",
		"update $t->{name} $a set v = 1000, pay = 'changed' from $src where $cond returning $a.id, $a.v, $a.k0");
}

# A statement that changes or locks rows of a table.
sub make_change
{
	my ($s) = @_;
	my $t = pick(grep { $_->{base} } @{ $s->{tables} });
	my $m = pick(2, 5, 11, 40);
	my $some = "id % $m = " . int(rand($m));
	if ($changed_part > 0 && chance(0.9))
	{
		my $from = ($t->{cols}[0]{least} // 1) + int(rand($t->{rows}));
		$some = "id between $from and $from\::int8 + " . int($changed_part * $t->{rows}) . (chance(0.5) ? " and $some" : '');
	}
	my ($k) = map { $_->{name} } grep { $_->{name} =~ /^k/ && chance(0.5) } @{ $t->{cols} };
	my $names = join(', ', map { $_->{name} } grep { $_->{name} !~ /^(id|twice)$/ } @{ $t->{cols} });
	return pick(
		"update $t->{name} set v = v + 1 where $some", "update $t->{name} set v = v where $some", "update $t->{name} set pay = repeat(pay, 3) where $some and length(pay) < 10000",
		"delete from $t->{name} where $some and v % 3 = 1",
		"insert into $t->{name} (id, $names) select id + " . int(rand(1e8)) . ", $names from $t->{name} where $some on conflict do nothing",
		'update ' . $t->{name} . ' set ' . ($k // 'v') . " = null where $some and v % 4 = 2",
		"select from $t->{name} where $some " . pick('for key share', 'for share', 'for no key update', 'for update'));
}

# A transaction of another session, as a script for psql.
sub make_transaction
{
	my ($s, $writer) = @_;
	my $t = pick(grep { $_->{base} } @{ $s->{tables} });
	my @st;
	return pick('vacuum', 'vacuum (freeze)', 'vacuum (index_cleanup off)', 'analyze') . " $t->{name};\n" if chance(0.1) && $t->{name} !~ /^pg_temp/;
	foreach (1 .. pick(1, 1, 2, 4))
	{
		my $change = make_change($s);
		next if $change =~ /pg_temp/;
		push @st, 'savepoint w' if chance(0.4);
		push @st, $change;
		push @st, pick('rollback to w', 'release w') if $st[-2] && $st[-2] eq 'savepoint w' && chance(0.6);
		push @st, 'select pg_sleep(0.02)' if chance(0.2);
	}
	push @st, chance(0.15) ? ("prepare transaction 'fz$writer'", 'select pg_sleep(0.02)', pick('commit', 'rollback') . " prepared 'fz$writer'") : pick('commit', 'commit', 'rollback');
	return join(";\n", 'begin', @st, 'rollback') . ";\n";
}

sub render_from
{
	my ($n) = @_;
	return $n->{sql} if $n->{kind} eq 'leaf';
	my $l = render_from($n->{l});
	my $r = render_from($n->{r});
	$r = "($r)" if $n->{r}{kind} eq 'join';
	return "$l $n->{type} $r on " . (join(' and ', @{ $n->{cond} }) || 'true');
}

# The query's SQL; with $sum, the count and an order-independent checksum of the rows, or, if it is 'twice', all of them twice.
sub render
{
	my ($q, $sum) = @_;
	return $q->{dml} if $q->{dml};
	my $with = @{ $q->{with} } ? 'with ' . join(', ', @{ $q->{with} }) . "\n" : '';
	my $sql = 'select ' . (join(', ', @{ $q->{select} }) || '1') . "\nfrom " . render_from($q->{from});
	$sql .= "\nwhere " . join("\n  and ", @{ $q->{where} }) if @{ $q->{where} };
	$sql .= "\n$q->{tail}" if $q->{tail};
	$sql .= "\n$q->{setop}" if $q->{setop};
	return $with . "select g, q::text from generate_series(1, 2) g left join ($sql) q on true" if ($sum // '') eq 'twice';
	$sql = "select count(*), sum(hashtextextended(q::text, 0)::numeric) from ($sql) q" if $sum;
	return $with . $sql;
}

1;
