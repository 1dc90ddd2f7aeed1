-- Tables and helpers that the other files use.
set client_min_messages = warning;

-- Low costs that do not depend on the machine, so that plans do not either; the
-- Bloom filter, and aggregates in the node, only where a test asks for them: others look at
-- joined rows by aggregates.
do $$
declare
	cost text;
begin
	foreach cost in array array['startup_cost = 0', 'marshal_tuple_cost = 0.0001', 'transfer_cost = 0', 'build_tuple_cost = 0.0008', 'probe_tuple_cost = 0.0001', 'emit_tuple_cost = 0.0001', 'bloom_filter = off', 'aggregate = off'] loop
		execute format('alter database %I set hjoin_gpu.%s', current_database(), cost);
	end loop;
end $$;

-- A collation that takes different strings for equal.
do $$
begin
	create collation hjg_loose (provider = icu, deterministic = false, locale = 'und-u-ks-level2');
exception when others then
	raise warning 'no ICU';
end $$;

-- The rows of a query, as multiset: their number and a digest, under the settings of now and of core in one process.
create function hjg_digest(query text) returns text language plpgsql as $$
declare
	digest text;
begin
	execute format('select count(*) || %L || coalesce(md5(string_agg(q::text, %L order by q::text collate "C")), %L) from (%s) q', ' ', E'\n', '', query) into digest;
	return digest;
end $$;
create function hjg_core_digest(query text) returns text language sql set hjoin_gpu.enabled = off set max_parallel_workers_per_gather = 0 as $$ select hjg_digest(query) $$;

-- Compares the rows of core with ours, each way that ours can run the query.  "node" says that the plan of ours has
-- the node.
create function hjg_same(query text, out rows bigint, out equal bool, out node bool) language plpgsql
set hjoin_gpu.enabled = on set hjoin_gpu.force = on set hjoin_gpu.in_backend_rows = 0 set hjoin_gpu.strategy = auto set hjoin_gpu.bloom_filter = off as $$
declare
	wanted text := hjg_core_digest(query);
	got text;
	variant text;
begin
	rows := split_part(wanted, ' ', 1);
	equal := true;
	foreach variant in array array['1000000,auto,on', '0,auto,off', '0,auto,on', '0,nop,off'] loop
		perform set_config('hjoin_gpu.in_backend_rows', split_part(variant, ',', 1), true),
			set_config('hjoin_gpu.strategy', split_part(variant, ',', 2), true), set_config('hjoin_gpu.bloom_filter', split_part(variant, ',', 3), true);
		got := hjg_digest(query);
		if got is distinct from wanted then
			equal := false;
			raise warning 'rows and digest of core: %, of ours (%): %', wanted, variant, got;
		end if;
	end loop;
	node := hjg_lines(query, 'GpuHashJoin') > 0;
end $$;

-- Compares the rows of core with ours under the settings of now.  "shared" says that several processes group together.
create function hjg_same_groups(query text, out rows bigint, out equal bool, out shared bool) language plpgsql set hjoin_gpu.force = on as $$
declare
	wanted text := hjg_core_digest(query);
	got text := hjg_digest(query);
begin
	rows := split_part(wanted, ' ', 1);
	equal := got = wanted;
	shared := hjg_lines(query, 'Parallel Custom Scan (GpuAggregate)') > 0;
	if not equal then
		raise warning 'rows and digest of core: %, of ours: %', wanted, got;
	end if;
end $$;

-- Compares how many rows of "source", and which ids, pass each condition; returns the conditions that differ.
create function hjg_differ(source text, conditions text[], out checked bigint, out rows numeric, out differ text[]) language plpgsql
set hjoin_gpu.enabled = on set hjoin_gpu.force = on as $$
declare
	condition text;
	query text;
	core text;
	ours text;
begin
	checked := 0;
	rows := 0;
	foreach condition in array conditions loop
		query := format('select count(*) || %L || coalesce(sum(id), 0) from %s where %s', ' ', source, condition);
		perform set_config('hjoin_gpu.enabled', 'off', true);
		execute query into core;
		perform set_config('hjoin_gpu.enabled', 'on', true);
		execute query into ours;
		checked := checked + 1;
		rows := rows + split_part(core, ' ', 1)::bigint;
		if core is distinct from ours then
			differ := differ || format('%s: %s, not %s', condition, ours, core);
		end if;
	end loop;
end $$;

-- Tells what a query of one value returns or fails with, by core and by ours.
create function hjg_outcome(query text, out of_core text, out of_ours text) language plpgsql set hjoin_gpu.enabled = on set hjoin_gpu.force = on as $$
declare
	outcome text;
begin
	foreach outcome in array array['off', 'on'] loop
		perform set_config('hjoin_gpu.enabled', outcome, true);
		begin
			execute query into outcome;
		exception when others then
			outcome := sqlstate || ': ' || sqlerrm;
		end;
		of_core := of_ours;
		of_ours := outcome;
	end loop;
end $$;

-- The six kinds of join of two relations under one condition: rows of each.
-- l and r are "table alias" with the aliases l and r; both have a column id.
create function hjg_kinds(l text, r text, cond text,
	out inner_rows bigint, out left_rows bigint, out right_rows bigint, out full_rows bigint, out semi_rows bigint, out anti_rows bigint,
	out equal bool, out node bool)
language plpgsql as $$
declare
	kind text;
	res record;
begin
	equal := true;
	node := true;
	foreach kind in array array['inner', 'left', 'right', 'full'] loop
		select * into res from hjg_same(format('select l.id as lid, r.id as rid from %s %s join %s on %s', l, kind, r, cond));
		equal := equal and res.equal;
		node := node and res.node;
		case kind
			when 'inner' then inner_rows := res.rows;
			when 'left' then left_rows := res.rows;
			when 'right' then right_rows := res.rows;
			else full_rows := res.rows;
		end case;
	end loop;
	select * into res from hjg_same(format('select l.id from %s where exists (select 1 from %s where %s)', l, r, cond));
	semi_rows := res.rows;
	equal := equal and res.equal;
	node := node and res.node;
	select * into res from hjg_same(format('select l.id from %s where not exists (select 1 from %s where %s)', l, r, cond));
	anti_rows := res.rows;
	equal := equal and res.equal;
	node := node and res.node;
end $$;

-- Counts the jobs that are left once those of ended statements had time to go.
create function hjg_jobs_left() returns bigint
language plpgsql as $$
declare
	n bigint;
begin
	for i in 1..60 loop
		select count(*) into n from hjoin_gpu_jobs;
		exit when n = 0;
		perform pg_sleep(0.05);
	end loop;
	return n;
end $$;

-- EXPLAIN ANALYZE as all server versions say it.
create function hjg_analyze(query text) returns setof text
language plpgsql as $$
declare
	line text;
begin
	for line in execute 'explain (analyze, buffers off, costs off, timing off, summary off) ' || query loop
		return next regexp_replace(line, '(rows=\d+)\.00', '\1');
	end loop;
end $$;

-- The plan: as text, as JSON, and its cost; how many lines of ours contain a text, and the sum of a figure that lines of ours have.
create function hjg_plan(query text) returns setof text language plpgsql as $$
begin
	return query execute 'explain (costs off) ' || query;
end $$;
create function hjg_explained(options text, query text) returns jsonb language plpgsql as $$
declare
	plan json;
begin
	execute format('explain (%s, format json) %s', options, query) into plan;
	return plan;
end $$;
create function hjg_price(query text) returns numeric language sql as $$ select (hjg_explained('costs', query)#>>'{0,Plan,Total Cost}')::numeric $$;
create function hjg_lines(query text, part text) returns bigint language sql set hjoin_gpu.force = on as
	$$ select count(*) from hjg_plan(query) line where strpos(line, part) > 0 $$;
create function hjg_figure(query text, figure text) returns bigint language sql set hjoin_gpu.force = on as
	$$ select coalesce(sum(substring(line from figure || ': (\d+)')::bigint), 0)::bigint from hjg_analyze(query) line $$;

-- Makes plans of several processes cheap; how dear the rows that they hand on are is what most tests differ in.
create procedure hjg_parallel(workers int default 2, tuple_cost float8 default 0) language sql as $$
	select set_config('max_parallel_workers_per_gather', workers::text, false), set_config('parallel_tuple_cost', tuple_cost::text, false),
		set_config('parallel_setup_cost', '0', false), set_config('min_parallel_table_scan_size', '0', false) $$;

-- probe: 3000 rows, every key about six times, some NULL
create table probe (id int primary key, k int, k2 smallint, k8 bigint, v int, t text);
insert into probe
	select g, case when g % 17 <> 0 then g % 511 end, g % 5, (g % 97)::bigint << 33, g % 23, case when g % 13 <> 0 then 'key ' || g % 211 end
	from generate_series(1, 3000) g;
-- build: 900 rows, keys that probe has and keys that it has not
create table build (id int primary key, k int, k2 smallint, k8 bigint, v int, t text);
insert into build
	select g, case when g % 19 <> 0 then g % 457 end, g % 7, (g % 113)::bigint << 33, g % 29, case when g % 11 <> 0 then 'key ' || g % 307 end
	from generate_series(1, 900) g;
create table nothing (id int, k int, v int, t text);
create table one_row (id int, k int, v int, t text);
insert into one_row values (1, 6, 6, 'key 6');
vacuum analyze probe;
vacuum analyze build;
vacuum analyze nothing;
vacuum analyze one_row;
