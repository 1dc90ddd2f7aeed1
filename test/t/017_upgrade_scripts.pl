# The extension of any version, updated, is the one that is created anew: definitions, views, privileges, comments and
# members are the same.  A chain of made-up versions shows that a script that forgets something is told apart.
use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# A copy of the installed server, which finds its directories from where its program lies, with the tree's extension.
my $root = PostgreSQL::Test::Utils::tempdir();
my %installed = map { $_ => qx(pg_config --$_) =~ s/\n//r } qw(bindir pkglibdir sharedir);
my ($prefix) = join("\n", @installed{qw(bindir pkglibdir sharedir)}) =~ m{^(.*/).*\n\1.*\n\1};
my %copied = map { $_ => "$root/" . substr($installed{$_}, length $prefix) } keys %installed;
for my $dir (keys %installed)
{
	# the program is not to be a link, whose target is where it would look
	my $how = $dir eq 'bindir' ? '-rL' : '-rs';
	system("mkdir -p '$copied{$dir}' && cp $how '$installed{$dir}'/. '$copied{$dir}' && rm -f '$copied{$dir}'/hjoin_gpu* '$copied{$dir}'/extension/hjoin_gpu*") == 0 or die "cannot copy $installed{$dir}";
}
system("cp '$ENV{TESTDIR}/hjoin_gpu.so' '$copied{pkglibdir}' && cp '$ENV{TESTDIR}/hjoin_gpu_device' '$copied{bindir}'") == 0 or die 'the tree is not built';
my $scripts = "$copied{sharedir}/extension";
my $control = slurp_file("$ENV{TESTDIR}/hjoin_gpu.control");
my ($newest) = $control =~ /^default_version = '(.*)'/m;
my %script = map { m{(hjoin_gpu--[^/]*)\.sql$} => slurp_file($_) } glob("$ENV{TESTDIR}/sql/hjoin_gpu--*.sql");

my $node = PostgreSQL::Test::Cluster->new('main', install_path => $copied{bindir} =~ s{/bin$}{}r);
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'hjoin_gpu'\n");

# Give the server these scripts, and no others, with this version as the default one.
sub provide
{
	my ($version, %given) = @_;
	unlink glob("$scripts/hjoin_gpu*");
	append_to_file("$scripts/hjoin_gpu.control", $control =~ s/^default_version = '\K[^']*/$version/mr);
	append_to_file("$scripts/$_.sql", $given{$_}) for keys %given;
	return;
}

# Run SQL in a new database; returns its errors, and what pg_dump writes of the extension's members for pg_upgrade.
sub after
{
	my ($sql) = @_;
	$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS tried');
	$node->safe_psql('postgres', 'CREATE DATABASE tried');
	my (undef, undef, $errors) = $node->psql('tried', $sql);
	my ($dump, $err) = run_command([ 'pg_dump', '--binary-upgrade', '--schema-only', '-d', $node->connstr('tried') ]);
	is($err, '', 'pg_dump says nothing') if $err ne '';
	# comments, keys of psql, and numbers of objects, are others each time
	$dump = join "\n", grep { !/^(?:--|\\|$)|binary_upgrade_set_next/ } split /\n/, $dump;
	return (join("\n", grep { /ERROR/ } split /\n/, $errors), $dump);
}

# --- the versions that there are
provide($newest, %script);
$node->start;
my ($errors, $created) = after('CREATE EXTENSION hjoin_gpu');
is($errors, '', 'the newest version is created');
my $statements = () = $script{"hjoin_gpu--$newest"} =~ /^(?:CREATE|COMMENT ON|GRANT|REVOKE) /mg;
my $dumped = () = $created =~ /^(?:CREATE (?!SCHEMA|EXTENSION)|COMMENT ON (?!EXTENSION|SCHEMA))/mg;
my $expected = () = $script{"hjoin_gpu--$newest"} =~ /^(?:CREATE|COMMENT ON) /mg;
cmp_ok($expected, '>', 10, 'its script makes objects');
is($dumped, $expected, 'all of which are compared');
for my $version (sort map { /^hjoin_gpu--((?:(?!--).)+)$/ } keys %script)
{
	my ($failed, $updated) = after("CREATE EXTENSION hjoin_gpu VERSION '$version'; ALTER EXTENSION hjoin_gpu UPDATE");
	is($failed, '', "version $version is updated");
	is($updated, $created, 'and is the same as one created anew');
}

# --- made-up versions, in two steps
my @changes = (
	'ALTER FUNCTION hjoin_gpu_arena() STABLE',
	'CREATE OR REPLACE VIEW hjoin_gpu_stat AS SELECT * FROM hjoin_gpu_stat() WHERE value > 0',
	'CREATE VIEW hjoin_gpu_more AS SELECT 1 AS more',
	'CREATE FUNCTION hjoin_gpu_less(INOUT less integer DEFAULT 1) LANGUAGE sql AS $$ SELECT $1 - 1 $$',
	'DROP VIEW hjoin_gpu_costs',
	'GRANT EXECUTE ON FUNCTION hjoin_gpu_stat_reset() TO PUBLIC',
	'REVOKE SELECT ON hjoin_gpu_jobs FROM PUBLIC',
	q{COMMENT ON VIEW hjoin_gpu_jobs IS 'joins'},
	'ALTER EXTENSION hjoin_gpu DROP FUNCTION hjoin_gpu_self_test(bigint, bigint)',
	'ALTER VIEW hjoin_gpu_devices SET (security_barrier)',);

# The scripts of the versions 99.0, half of the changes, and 99.1, the other half; one of them is left out on the way.
sub chain
{
	my ($forgotten) = @_;
	my @steps = ('', '');
	$steps[ $_ * 2 / @changes ] .= "$changes[$_];\n" for grep { $_ != $forgotten } 0 .. $#changes;
	return ("hjoin_gpu--$newest" => $script{"hjoin_gpu--$newest"}, "hjoin_gpu--$newest--99.0" => $steps[0], 'hjoin_gpu--99.0--99.1' => $steps[1],
		'hjoin_gpu--99.1' => $script{"hjoin_gpu--$newest"} . join('', map { "$_;\n" } @changes));
}

my $update = "CREATE EXTENSION hjoin_gpu VERSION '$newest'; ALTER EXTENSION hjoin_gpu UPDATE";
provide('99.1', chain(-1));
($errors, $created) = after('CREATE EXTENSION hjoin_gpu');
is($errors, '', 'a made-up version is created');
my ($failed, $updated) = after($update);
is($failed, '', 'the newest version is updated to it in two steps');
is($updated, $created, 'and is the same');
for my $i (0 .. $#changes)
{
	provide('99.1', chain($i));
	($failed, $updated) = after($update);
	is($failed, '', "an update without '$changes[$i]' runs");
	isnt($updated, $created, 'but is told apart');
}
my %broken = chain(-1);
delete $broken{'hjoin_gpu--99.0--99.1'};
provide('99.1', %broken);
like((after($update))[0], qr/no update path from version "\Q$newest\E" to version "99\.1"/, 'a chain that lacks a script is no chain');

$node->stop;
done_testing();
