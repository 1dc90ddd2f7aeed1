-- The Debian package index of this machine.
create table package (id int, name text, version text, section text, architecture text, size bigint, installed_kb bigint, maintainer text);
create table dependency (package_id int, kind text, alternative int, depends_name text, version_condition text);
\copy package from 'package.tsv'
\copy dependency from 'dependency.tsv'
vacuum (freeze, analyze) package;
vacuum (freeze, analyze) dependency;
