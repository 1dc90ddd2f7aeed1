# HjgSchema.pm: random tables for hjg_fuzz.pl.
#
# A schema has a few key families.  Every table has one column for each family, of a random type of the family, so that
# any two tables can be joined on any family, across types.  The server computes values from a number i (which repeats,
# for matches, duplicates and skew) and the row number g (which selects the spelling of equal values: 1.0 and 1.00, '1
# day' and '24 hours', -0.0 and 0.0).
package HjgSchema;
use strict;
use warnings;

# family => { types => { sql type => expression over I and G }, exact => equal values look equal }
my $int_special = "when 0 then %s when 1 then %s when 2 then 0 when 3 then -1";
our %family = (
	int => {
		exact => 1,
		types => {
			int2 => "(case I " . sprintf($int_special, "-32768", "32767") . " else I % 32000 end)::int2",
			int4 => "(case I " . sprintf($int_special, "-2147483648", "2147483647") . " else I end)::int4",
			int8 => "(case I "
			  . sprintf($int_special, "-9223372036854775808", "9223372036854775807")
			  . " when 4 then 4294967296 + 5 when 5 then -4294967291 else I end)::int8",
			'fz.dint' => "(I)::int4::fz.dint",
		}
	},
	float => {
		types => {
			float4 => "(case I % 11 when 0 then 'NaN' when 1 then 'Infinity' when 2 then case when G % 2 = 0 then '-0' else '0' end when 3 then '-Infinity' else (I / 4.0)::text end)::float4",
			float8 => "(case I % 11 when 0 then 'NaN' when 1 then 'Infinity' when 2 then case when G % 2 = 0 then '-0' else '0' end when 3 then '-Infinity' else (I / 4.0)::text end)::float8",
		}
	},
	numeric => {
		types => {
			numeric => "(case I when 0 then 'NaN' when 1 then 'Infinity' else I::text || (array['', '.0', '.000', '.00000000000000000000'])[1 + G % 4] end)::numeric",
			'numeric(12,3)' => "(I::text || '.0')::numeric(12,3)",
			# up to 1,000 digits, of equal values some with more zeros
			'numeric(1000,60)' => "(case when I % 3 = 0 then repeat('9876543210', 1 + (I % 90)::int)::numeric / 10 ^ (I % 60)::numeric else I end)::numeric(1000,60)",
		}
	},
	text => {
		exact => 1,
		types => {
			text => "case I when 0 then '' else 'k' || I end",
			'varchar(40)' => "('k' || I)::varchar(40)",
			name => "('k' || I)::name",
			'fz.dtext' => "('k' || I)::fz.dtext",
		}
	},
	longtext => {
		exact => 1,
		types => { text => "repeat(md5(I::text), 1 + I % 90)", 'varchar' => "repeat(md5(I::text), 1 + I % 90)" }
	},
	bpchar => { types => { 'char(12)' => "('k' || I || case when G % 2 = 0 then '  ' else '' end)::char(12)", 'char(9)' => "('k' || I)::char(9)" } },
	char => { exact => 1, types => { '"char"' => "chr(33 + (I % 90)::int)::\"char\"" } },
	bool => { exact => 1, types => { bool => "(I % 2 = 0)" } },
	oid => { exact => 1, types => { oid => "(case I when 0 then 4294967295 else I end)::oid" } },
	date => { exact => 1, types => { date => "case I when 0 then 'infinity'::date when 1 then '-infinity'::date else '2000-01-01'::date + (I % 100000)::int end" } },
	time => { exact => 1, types => { time => "'00:00'::time + (I % 86400) * interval '1 second'" } },
	timetz => { types => { timetz => "('00:00:00'::time + (I % 40000) * interval '1 second')::text::timetz" } },
	ts => { exact => 1, types => { timestamp => "case I when 0 then 'infinity'::timestamp else '2000-01-01'::timestamp + I * interval '1 hour' end", 'timestamp(0)' => "'2000-01-01'::timestamp + I * interval '1 hour'" } },
	tstz => { exact => 1, types => { timestamptz => "case I when 0 then '-infinity'::timestamptz else '2000-01-01 00:00+00'::timestamptz + I * interval '1 hour' end" } },
	interval => { types => { interval => "(case G % 3 when 0 then (I * 30)::text || ' days' when 1 then (I * 720)::text || ' hours' else I::text || ' mons' end)::interval" } },
	uuid => { exact => 1, types => { uuid => "md5(I::text)::uuid" } },
	enum => { exact => 1, types => { 'fz.mood' => "(array['sad', 'ok', 'glad', 'wild', 'calm', 'm5', 'm6', 'm7'])[1 + (I % 8)]::fz.mood" } },
	bytea => { exact => 1, types => { bytea => "case I when 0 then ''::bytea else decode(md5(I::text), 'hex') end" } },
	inet => { exact => 1, types => { inet => "'10.0.0.0'::inet + I", cidr => "('10.' || (I / 256) % 256 || '.' || I % 256 || '.0/24')::cidr" } },
	macaddr => { exact => 1, types => { macaddr => "('08002b' || lpad(to_hex(I), 6, '0'))::macaddr" } },
	jsonb => { types => { jsonb => "(case when G % 2 = 0 then '{\"a\": ' || I || ', \"b\": [1.0, null]}' else '{\"b\":[1,null],\"a\":' || I || '.0}' end)::jsonb" } },
	iarray => { exact => 1, types => { 'int4[]' => "array[I::int4, null, 3]" } },
	narray => { types => { 'numeric[]' => "array[I::numeric, case when G % 2 = 0 then 1.0 else 1.00 end]" } },
	tarray => { exact => 1, types => { 'text[]' => "array['k' || I, null]" } },
	comp => { exact => 1, types => { 'fz.comp' => "row(I::int4, 'k' || I)::fz.comp" } },
	range => { exact => 1, types => { int4range => "int4range(I::int4, (I + 3)::int4)" } },
	money => { exact => 1, types => { money => "I::int4::money" } },
	lsn => { exact => 1, types => { pg_lsn => "('0/' || to_hex(I))::pg_lsn" } },
	xid8 => { exact => 1, types => { xid8 => "(I::text)::xid8" } },
	xid => { exact => 1, types => { xid => "(I::text)::xid" } },
	citext => { types => { citext => "case when G % 2 = 0 then 'Key' || I else 'kEY' || I end::citext" }, needs => 'citext' },
	nondet => { types => { 'text collate fz.nd' => "case when G % 2 = 0 then 'Key' || I else 'kEY' || I end" }, needs => 'icu' },);

# first numbers of the int family other than 0: dense keys at the limits of ranges and across them
my @edges = ('-2147483648', '2147443648', '-20', '-32768', '4294966796', '2147483600', '-9223372036854775808', '9223372036854735808', '-4294967296');

# A type's values if they begin at an edge; values out of the type's range wrap around.
sub edge_expression
{
	my ($type, $edge) = @_;
	my $x = "($edge\::numeric + I)";
	my %least = (int2 => '-32768', int4 => '-2147483648', int8 => '-9223372036854775808', 'fz.dint' => '-2147483648');
	my %span = (int2 => '65536', int4 => '4294967296', int8 => '18446744073709551616', 'fz.dint' => '4294967296');
	return "(((($x - $least{$type}) % $span{$type}) + $span{$type}) % $span{$type} + $least{$type})::$type";
}

sub pick { return $_[ int(rand(@_)) ]; }
sub chance { return rand() < $_[0]; }

# SQL that creates the types; run once for each schema.
sub preamble
{
	my ($has) = @_;
	my $sql = <<'SQL';
drop schema if exists fz cascade;
discard temp;
create schema fz;
grant all on schema fz to public;
create type fz.mood as enum ('sad', 'ok', 'glad', 'wild', 'calm', 'm5', 'm6', 'm7');
create type fz.comp as (a int, b text);
create domain fz.dint as int4;
create domain fz.dtext as text check (length(value) < 1000);
create function fz.rows_of(q text) returns setof text language plpgsql as $f$
declare r record;
begin
	for r in execute q loop
		begin
			return next r::text;
		exception when others then
			return next sqlstate;
		end;
	end loop;
end $f$;
create function fz.rows_explained(q text, options text) returns text language plpgsql as $f$
declare j json;
begin
	execute 'explain (' || options || ') ' || q into j;
	return j->0->'Plan'->>'Actual Rows';
end $f$;
create function fz.rows_after_abort(q text, n int) returns setof text language plpgsql as $f$
declare r record; seen int := 0;
begin
	begin
		for r in execute q loop
			seen := seen + 1;
			if seen >= n then raise exception 'stop here'; end if;
		end loop;
	exception when raise_exception then
		return next 'stopped';
	end;
	for r in execute q loop
		return next r::text;
	end loop;
end $f$;
create function fz.rows_of_cursor(q text, n int) returns setof text language plpgsql as $f$
declare c refcursor; r record; i int := 0;
begin
	open c for execute q;
	loop
		fetch c into r;
		exit when not found;
		i := i + 1;
		if i % n = 0 then
			begin
				perform 1 / (i - i);
			exception when division_by_zero then
				null;
			end;
		end if;
		return next r::text;
	end loop;
	close c;
end $f$;
SQL
	$sql .= "create collation fz.nd (provider = icu, deterministic = false, locale = 'und-u-ks-level2');\n" if $has->{icu};
	return $sql;
}

# A random schema: { sql => statements of all tables by name, order => [names], tables => [...] }.
sub make
{
	my ($has) = @_;
	my @names = grep { !$family{$_}{needs} || $has->{ $family{$_}{needs} } } sort keys %family;
	# exact short keys first: they have their own code path
	my @fams = ('int', pick('int', 'int', 'text', @names), pick(@names), pick(@names));
	my $ntables = 4 + int(rand(3));
	my %schema = (sql => {}, tables => [], fams => \@fams);
	my $edge = chance(0.25) ? pick(@edges) : undef;

	foreach my $t (1 .. $ntables)
	{
		my $temporary = chance(0.08);
		my $name = $temporary ? "pg_temp.t$t" : "fz.t$t";
		my $rows = chance(0.1) ? pick(0, 1, 7) : pick(40, 40, 150, 150, 400, 400, 1500, 1500, 6000);
		$rows = 30000 if chance(0.05);
		my $card = pick(1, 3, 20, 100, 400, 3000);
		$card = int($rows / 20) + 1 if $rows / $card > 300;
		my $partitioned = !$temporary && chance(0.15) ? pick('hash', 'range', 'list') : '';
		my $children = !$temporary && !$partitioned && chance(0.08);
		my (@defs, @exprs, @cols);
		my $dropped = chance(0.3);
		push @defs, 'gone text' if $dropped;
		push @exprs, "'gone'" if $dropped;
		push @defs, 'id int' . ($partitioned || chance(0.5) ? '' : ' primary key'), 'v int';
		push @exprs, 'g', '(hashint4(g) & 1023) % 37';
		push @cols, { name => 'id', fam => 'int', type => 'int4', exact => 1, int => 1 };
		push @cols, { name => 'v', fam => 'int', type => 'int4', exact => 1, int => 1 };
		my $dist = pick('uniform', 'uniform', 'seq', 'skew');
		my $same_salt = chance(0.6);

		foreach my $f (0 .. $#fams)
		{
			my $fam = $family{ $fams[$f] };
			my $type = pick(sort keys %{ $fam->{types} });
			my $salt = $same_salt ? 0 : int(rand(1000));
			my $h = "(hashint4((g + $salt)::int) & 2147483647)";
			my $i =
			    $dist eq 'seq' ? "((g + $salt) % $card)"
			  : $dist eq 'skew' ? "(case when $h % 10 < 2 then 6 else $h % $card end)"
			  : "($h % $card)";
			my $e = $fams[$f] eq 'int' && defined $edge ? edge_expression($type, $edge) : $fam->{types}{$type};
			$e =~ s/\bI\b/$i/g;
			$e =~ s/\bG\b/g/g;
			my $nulls = pick(0, 0, 0.05, 0.3, 1);
			$nulls = 0 if $nulls == 1 && chance(0.8);
			my $hn = "((hashint4((g * 3 + $salt + $f)::int) & 2147483647) % 1000)";
			$e = "case when $hn >= " . int(1000 * $nulls) . " then $e end" if $nulls > 0;
			push @defs, "k$f $type";
			push @exprs, $e;
			push @cols, { name => "k$f", fam => $fams[$f], type => $type, exact => $fam->{exact}, int => $fams[$f] eq 'int', null => $nulls };
		}
		my $wide = chance(0.25);
		push @defs, 'pay text' . ($wide && chance(0.5) ? " compression pglz" : '');
		push @exprs,
		  $wide
		  ? "case when g % 5 = 0 then (select string_agg(md5((g * 100 + x)::text), '') from generate_series(1, 90) x) when g % 7 = 0 then repeat('x', 9000) else 'p' || g end"
		  : "'p' || g";
		push @cols, { name => 'pay', fam => 'text', type => 'text', exact => 1 };
		my $sql = "create " . (!$temporary && !$partitioned && chance(0.1) ? 'unlogged ' : '') . "table $name (" . join(', ', @defs) . ")"
		  . ($partitioned ? " partition by $partitioned (" . ($partitioned eq 'list' ? '(id % 3)' : 'id') . ')' : '') . ";\n";
		if ($partitioned eq 'hash')
		{
			$sql .= "create table ${name}_p$_ partition of $name for values with (modulus 3, remainder $_);\n" foreach 0 .. 2;
		}
		elsif ($partitioned eq 'range')
		{
			$sql .= "create table ${name}_p0 partition of $name for values from (minvalue) to (20);\n";
			$sql .= "create table ${name}_p1 partition of $name for values from (20) to (200);\n";
			$sql .= "create table ${name}_p2 partition of $name default;\n";
		}
		elsif ($partitioned eq 'list')
		{
			$sql .= "create table ${name}_p$_ partition of $name for values in ($_);\n" foreach 0 .. 2;
		}
		$sql .= "insert into $name select " . join(', ', @exprs) . " from generate_series(1, $rows) g;\n" if $rows > 0;
		$sql .= "alter table $name drop column gone;\n" if $dropped;
		if ($children)
		{
			# some rows are in child tables with other columns
			$sql .= "create table ${name}_c1 (own text, own2 int default 3) inherits ($name);\n";
			$sql .= "with moved as (delete from only $name where id % 4 = 1 returning *) insert into ${name}_c1 select * from moved;\n";
			$sql .= "alter table ${name}_c1 drop column own;\n" if chance(0.5);
			$sql .= "create table ${name}_c2 () inherits ($name);\n";
			$sql .= "with moved as (delete from only $name where id % 4 = 2 returning *) insert into ${name}_c2 select * from moved;\n";
		}
		if (chance(0.1))
		{
			$sql .= "alter table $name add column twice int generated always as (v * 2) stored;\n";
			push @cols, { name => 'twice', fam => 'int', type => 'int4', exact => 1, int => 1 };
		}
		if (chance(0.25))
		{
			$sql .= "alter table $name add column late int default 42;\n";
			push @cols, { name => 'late', fam => 'int', type => 'int4', exact => 1, int => 1 };
			if (chance(0.5))
			{
				$sql .= "update $name set late = v where id % 4 = 1;\n";
			}
		}
		$sql .= "update $name set v = v + 1 where id % 3 = 0;\n" if chance(0.2);
		$sql .= "delete from $name where id % 10 = 3;\n" if chance(0.2);
		my $unique = !$partitioned && !$children && chance(0.3);
		$sql .= "create unique index on $name (" . pick('id, v', 'v, id') . ");\n" if $unique;
		$sql .= "create index on $name (v);\n" if chance(0.15);
		$sql .= "create index on $name (k0);\n" if chance(0.15);
		$sql .= chance(0.5) ? "vacuum analyze $name;\n" : "analyze $name;\n" if chance(0.8);
		$schema{sql}{$name} = $sql;
		my $table = { name => $name, cols => \@cols, rows => $rows, base => 1, wide => $wide, partitioned => $partitioned, children => $children, unique => $unique };
		push @{ $schema{tables} }, $table;

		if (!$temporary && chance(0.2))
		{
			my $view = "fz.w$t";
			my $cond = pick('v > 3', 'id % 2 = 0', 'v is not null and k0 is distinct from null');
			my $barrier = chance(0.6);
			$schema{sql}{$view} = "create view $view " . ($barrier ? 'with (security_barrier) ' : '') . "as select * from $name where $cond;\n";
			push @{ $schema{tables} }, { name => $view, cols => \@cols, rows => $rows, base => 0, over => $name, wide => $wide };
		}
		if (!$temporary && chance(0.1))
		{
			my $view = "fz.m$t";
			$schema{sql}{$view} = "create materialized view $view as select * from $name;\n" . (chance(0.5) ? "analyze $view;\n" : '');
			push @{ $schema{tables} }, { name => $view, cols => \@cols, rows => $rows, base => 0, over => $name, wide => $wide };
		}
		if (chance(0.1) && !$partitioned)
		{
			$schema{sql}{$name} .= "alter table $name enable row level security;\nalter table $name force row level security;\ncreate policy p on $name using (v % 5 <> 2);\n";
			$schema{rls} = 1;
		}
	}
	$schema{sql}{$_} .= "grant all on $_ to public;\n" foreach keys %{ $schema{sql} };
	return \%schema;
}

1;
