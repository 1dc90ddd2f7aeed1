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

-- Runs a query with core's plans and with ours, each way that ours can run it,
-- and compares the results as multisets.  "node" says that every plan of ours had
-- the node.  Settings are put back.
create function hjg_same(query text, out rows bigint, out equal bool, out node bool)
language plpgsql as $$
declare
	wanted text;
	got text;
	line text;
	found_node bool;
	variant text;
	exact text := format('select count(*) || %L || coalesce(md5(string_agg(q::text, %L order by q::text collate "C")), %L) from (%s) q', ' ', E'\n', '', query);
	saved text := current_setting('hjoin_gpu.enabled') || ',' || current_setting('hjoin_gpu.force') || ',' ||
		current_setting('hjoin_gpu.in_backend_rows') || ',' || current_setting('hjoin_gpu.strategy') || ',' || current_setting('hjoin_gpu.bloom_filter');
begin
	perform set_config('hjoin_gpu.enabled', 'off', false);
	execute exact into wanted;
	rows := split_part(wanted, ' ', 1);
	equal := true;
	node := true;
	perform set_config('hjoin_gpu.enabled', 'on', false), set_config('hjoin_gpu.force', 'on', false);
	foreach variant in array array['1000000,auto,on', '0,auto,off', '0,auto,on', '0,nop,off'] loop
		perform set_config('hjoin_gpu.in_backend_rows', split_part(variant, ',', 1), false),
			set_config('hjoin_gpu.strategy', split_part(variant, ',', 2), false), set_config('hjoin_gpu.bloom_filter', split_part(variant, ',', 3), false);
		execute exact into got;
		if got is distinct from wanted then
			equal := false;
			raise warning 'rows and digest of core: %, of ours (%): %', wanted, variant, got;
		end if;
	end loop;
	found_node := false;
	for line in execute 'explain (costs off) ' || query loop
		if line like '%GpuHashJoin%' then
			found_node := true;
		end if;
	end loop;
	node := found_node;
	perform set_config('hjoin_gpu.enabled', split_part(saved, ',', 1), false), set_config('hjoin_gpu.force', split_part(saved, ',', 2), false),
		set_config('hjoin_gpu.in_backend_rows', split_part(saved, ',', 3), false), set_config('hjoin_gpu.strategy', split_part(saved, ',', 4), false),
		set_config('hjoin_gpu.bloom_filter', split_part(saved, ',', 5), false);
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

-- How many jobs are left once those of ended statements had time to go.
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

create function hjg_plan(query text) returns setof text
language plpgsql as $$
declare
	line text;
begin
	for line in execute 'explain (costs off) ' || query loop
		return next line;
	end loop;
end $$;

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
