#!/bin/bash
# run_core.sh PGSRC: core's own regression files with our node forced wherever it
# is eligible, against the same files with core's plans on the same server.
#
# Each run has a cluster of its own: "core" without the node, "backend" with joins
# in the backend itself, "device" with every join in the device process, "programs"
# with all tables vacuumed and kept before each file, and groupings by programs of the
# device's threads.  Plans are left out of the comparison, rows are compared as
# multisets (compare.pl).
#
#   HJG_CORE_RUNS="backend device"   which runs to compare with core's
#   HJG_CORE_TESTS="join join_hash"  only these files, and what they need
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. test/lib.sh

PGSRC=${1:-}
[ -f "$PGSRC/src/test/regress/parallel_schedule" ] || die "say make check-core PGSRC=<PostgreSQL source tree>"
PGSRC=$(cd "$PGSRC" && pwd)

# in the order of parallel_schedule; the first ones make what the others read
FILES="test_setup tablespace boolean char name varchar text int2 int4 int8 oid float4 float8 numeric uuid enum money rangetypes
	strings date time timetz timestamp timestamptz interval inet macaddr multirangetypes
	point lseg line box path polygon circle copy copyselect insert insert_conflict
	create_function_c create_misc create_operator create_procedure create_table create_type create_schema
	create_index create_index_spgist create_view index_including create_aggregate create_function_sql create_cast
	constraints triggers select inherit vacuum updatable_views hash_func errors sanity_check
	select_into select_distinct select_distinct_on select_implicit select_having subselect union case join aggregates
	transactions portals arrays btree_index hash_index update delete namespace
	privileges matview rowsecurity tablesample groupingsets generated join_hash
	create_table_like misc merge misc_functions sysviews tsrf tid tidscan tidrangescan incremental_sort rules stats_ext
	select_parallel write_parallel select_views portals_p2 foreign_key cluster dependency guc bitmapops combocid
	window functional_deps indirect_toast equivclass json jsonb
	plancache limit plpgsql copy2 temp domain rangefuncs prepare truncate alter_table polymorphism rowtypes returning with xml
	partition_join partition_prune hash_part indexing partition_aggregate partition_info memoize compression fast_default"

say "== packages"
install_packages
make_work core
trap 'for d in "$WORK"/*/postmaster.pid; do [ -e "$d" ] && as_user pg_ctl -D "$(dirname "$d")" -m immediate stop >/dev/null 2>&1; done' EXIT
trap 'exit 130' INT TERM
say "== build"
{ build_tree && install_tree; } || die "the build failed"

# the source tree's files, and the C functions that they call
REG=$WORK/regress
mkdir -p "$REG" "$REG/lib"
tar -C "$PGSRC/src/test/regress" -cf - sql expected data $( [ -f "$PGSRC/src/test/regress/resultmap" ] && echo resultmap ) $( cd "$PGSRC/src/test/regress" && ls -d input output 2>/dev/null ) | tar -C "$REG" -xf -
lib=$("$PG_CONFIG" --pkglibdir)
if [ -f "$lib/regress.so" ]; then cp "$lib/regress.so" "$REG/lib/"
else
	cc -O2 -fPIC -shared -I"$("$PG_CONFIG" --includedir-server)" -I"$PGSRC/src/test/regress" -o "$REG/lib/regress.so" "$PGSRC/src/test/regress/regress.c" >"$WORK/log/regress_so" 2>&1 ||
		{ cat "$WORK/log/regress_so"; die "could not build regress.so from $PGSRC"; }
fi
for m in refint autoinc; do [ -f "$lib/$m.so" ] && cp "$lib/$m.so" "$REG/lib/"; done
have=
for f in $FILES; do [ -f "$REG/sql/$f.sql" ] && have="$have $f"; done
if [ -n "${HJG_CORE_TESTS:-}" ]; then have="test_setup tablespace boolean int4 int8 float8 copy create_misc create_function_c create_type create_table create_index create_view select inherit $HJG_CORE_TESTS"; fi
cat >"$REG/sql/hjg_keep.sql" <<'SQL'
create extension if not exists hjoin_gpu;
vacuum;
select count(hjoin_gpu_keep(oid::regclass)) from pg_class where relkind in ('r', 'm') and relnamespace = 'public'::regnamespace;
SQL
touch "$REG/expected/hjg_keep.out"
[ "$(id -u)" != 0 ] || chown -R "$RUN_USER" "$REG"

# run NAME CONF...: all files in a cluster of its own
run() {
	local name=$1 files=$have
	shift
	[ "$name" != programs ] || files=$(printf 'hjg_keep %s ' $have)
	say "== run $name ($(echo $have | wc -w) files)"
	cluster_start "$name" "max_prepared_transactions = 0" "autovacuum = off" "jit = off" "wal_level = minimal" "max_wal_senders = 0" "allow_in_place_tablespaces = on" "$@" || return 1
	as_user mkdir -p "$WORK/out_$name"
	as_user timeout -k 10 1800 "$PGXS_TOP/src/test/regress/pg_regress" --bindir="$PG_BINDIR" --host="$PGHOST" --user=postgres --dlpath="$REG/lib" \
		--inputdir="$REG" --outputdir="$WORK/out_$name" --dbname=regression --no-locale $files >"$WORK/log/run_$name" 2>&1
	[ "$name" != programs ] || say "programs: $(as_user psql -XAtd regression -c "select value from hjoin_gpu_stat where name = 'programs'") executions"
	cluster_stop "$name"
	crash_lines "$WORK/log/$name.log" >"$WORK/log/crash_$name"
	return 0
}

passed=0 failed=0
run core "hjoin_gpu.enabled = off" || die "the baseline could not run"
say "against core's expected files: $(grep -cE '^(ok|test .*\.\.\. ok|  .*\.\.\. ok)' "$WORK/log/run_core") same"
for kind in ${HJG_CORE_RUNS:-backend device programs}; do
	case $kind in
		core2) run core2 "hjoin_gpu.enabled = off" ;;
		backend) run backend "hjoin_gpu.force = on" "hjoin_gpu.in_backend_rows = 1000000" ;;
		device) run device "hjoin_gpu.force = on" "hjoin_gpu.in_backend_rows = 0" ;;
		programs) run programs "hjoin_gpu.force = on" "hjoin_gpu.cache_size = '128MB'" "hjoin_gpu.device = cpu" ;;
		*) die "no run '$kind'" ;;
	esac || { failed=$((failed + 1)); continue; }
	if [ -s "$WORK/log/crash_$kind" ]; then
		say "the server crashed:"
		cat "$WORK/log/crash_$kind"
		failed=$((failed + 1))
	fi
	line=$(perl test/core/compare.pl "$WORK/out_core/results" "$WORK/out_$kind/results" $have | tee "$WORK/log/compare_$kind" | tail -1)
	sed '$d' "$WORK/log/compare_$kind"
	say "run $kind: $line"
	passed=$((passed + ${line%% passed*}))
	line=${line#*, }
	failed=$((failed + ${line%% failed*}))
done
if [ "$failed" = 0 ] && [ -z "${HJG_KEEP:-}" ]; then rm -rf "$WORK"; else say "outputs: $WORK"; fi
say "$passed passed, $failed failed"
[ "$failed" = 0 ]
