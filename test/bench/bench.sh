#!/bin/bash
# bench.sh: "make bench" and, with an argument, "make bench-cache", "make bench-choice", "make bench-events", "make bench-gpu", "make bench-planning" and "make bench-tpch".  Builds,
# installs, and measures joins with core's plans and ours in one run, interleaved, in a cluster of its own;
# then the engine alone.  By choice: core's plan against the one that is chosen (choice.pl).  For the
# GPU: three queries, with workers up to 15 (bench_gpu.pl).  Planning: beside a cluster without the
# library, of tables of its own (planning.pl).
# Cache: kept columns against pages, with changes and in little memory (cache.pl).
# TPC-H: its 22 queries, with data by tpchgen-cli, which pip installs; events: queries of a shop (tpch22.pl).
#
#   BENCH_ROWS=20000000   rows of the larger tables; the smaller ones have a quarter
#   BENCH_RUNS=5          runs of each; the median is shown
#   BENCH_CASES=REGEX     only these cases; of "make bench-gpu" "one key" is one, 2.2 billion matches (one_key.sql)
#   BENCH_SCALE=0.5       of TPC-H: 6,000,000 rows of lineitem for each 1
#   BENCH_MISSED=1        of choices also those of core's plans where ours would be faster
# DuckDB runs the same queries in turn, if python3 can import duckdb (pip install duckdb).
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. test/lib.sh

ROWS=${BENCH_ROWS:-20000000}
KIND=${1:-cpu}
say "== packages"
install_packages
make_work bench
trap 'for d in "$WORK"/*/postmaster.pid; do [ -e "$d" ] && as_user pg_ctl -D "$(dirname "$d")" -m immediate stop >/dev/null 2>&1; done; rm -rf "$WORK"' EXIT
trap 'exit 130' INT TERM
say "== build"
{ build_tree && install_tree; } || die "the build failed"
ram_mb=$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
if [ "$KIND" = planning ]; then
	cluster_start plain "shared_preload_libraries = ''" "shared_buffers = '256MB'" "autovacuum = off" "jit = off" || die "the cluster did not start"
	as_user psql -Xq -v ON_ERROR_STOP=1 -f test/bench/planning.sql || die "could not make the tables"
	plain="host=$PGHOST user=$PGUSER dbname=$PGDATABASE"
	cluster_start bench "shared_buffers = '256MB'" "autovacuum = off" "jit = off" || die "the cluster did not start"
	as_user psql -Xq -v ON_ERROR_STOP=1 -c "create extension hjoin_gpu" -f test/bench/planning.sql || die "could not make the tables"
	as_user psql -Xq -c "select count(*) from hjoin_gpu_calibrate()" >/dev/null
	say "== planning ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $JOBS cores; medians of ${BENCH_RUNS:-9} rounds)"
	as_user perl test/bench/planning.pl --plain "$plain" --rounds "${BENCH_RUNS:-9}" --cases "${BENCH_CASES:-.}"
	exit
fi
# pages of tables that are filled unlogged have no LSN, and are not kept
KEPT=
[[ $KIND == cache || $KIND == tpch || $KIND == events ]] && KEPT=1
if [ "$KEPT" ]; then WAL_LEVEL=replica; else WAL_LEVEL=minimal; fi
at_most() { if [ "$1" -lt "$2" ]; then echo "$1"; else echo "$2"; fi; }
cluster_start bench \
	"shared_buffers = '$(at_most $((ram_mb / 3)) 16384)MB'" \
	"work_mem = '$(at_most $((ram_mb / 16)) 2048)MB'" \
	"maintenance_work_mem = '512MB'" \
	"hjoin_gpu.arena_size = '$(at_most $((ram_mb / 4)) 16384)MB'" \
	"max_parallel_workers_per_gather = $(at_most $((JOBS - 1)) 8)" \
	"max_worker_processes = $((JOBS + 8))" "max_parallel_workers = $JOBS" \
	"wal_level = $WAL_LEVEL" "max_wal_senders = 0" "max_wal_size = '16GB'" "synchronous_commit = off" "full_page_writes = off" \
	"hjoin_gpu.cache_size = '$([ "$KEPT" ] && at_most $((ram_mb / 4)) 16384 || echo 0)MB'" \
	"autovacuum = off" || die "the cluster did not start"
as_user psql -Xq -c "create extension hjoin_gpu"
if [ "$KIND" = tpch ]; then
	say "== data: TPC-H, scale ${BENCH_SCALE:-0.5}"
	as_user python3 -m venv "$WORK/tmp/venv" && as_user "$WORK/tmp/venv/bin/pip" install -q tpchgen-cli || die "could not install tpchgen-cli"
	as_user "$WORK/tmp/venv/bin/tpchgen-cli" csv -s "${BENCH_SCALE:-0.5}" --output-dir "$WORK/tmp/tpch" >/dev/null 2>&1 || die "could not make the data"
	as_user psql -Xq -v dir="$WORK/tmp/tpch" -f test/bench/tpch_tables.sql >/dev/null || die "could not make the tables"
	as_user psql -Xq -c "select count(*) from hjoin_gpu_calibrate()" >/dev/null
	say "== queries ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $JOBS cores; median of ${BENCH_RUNS:-3} runs, ms)"
	as_user perl test/bench/tpch22.pl --runs "${BENCH_RUNS:-3}" --cases "${BENCH_CASES:-.}" --threads "$JOBS" --dir "$WORK/tmp/tpch"
	exit
fi
if [ "$KIND" = events ]; then
	say "== data: ${BENCH_ROWS:-3000000} events"
	as_user psql -Xq -v rows="${BENCH_ROWS:-3000000}" -f test/bench/events_tables.sql >/dev/null || die "could not make the tables"
	as_user psql -Xq -c "select count(*) from hjoin_gpu_calibrate()" >/dev/null
	say "== queries ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $JOBS cores; median of ${BENCH_RUNS:-3} runs, ms)"
	as_user perl test/bench/tpch22.pl --queries events_queries.sql --tables users,products,events --ways '^(core|choice|kept)$' --runs "${BENCH_RUNS:-3}" --cases "${BENCH_CASES:-.}"
	exit
fi
say "== data: $ROWS and $((ROWS / 4)) rows"
as_user psql -Xq -v n_probe="$ROWS" -v n_build="$((ROWS / 4))" -f test/demo/pair.sql >/dev/null || die "could not make the tables"
if [ "$KIND" = gpu ]; then
	say "== joins ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $JOBS cores; median of ${BENCH_RUNS:-5} runs)"
	as_user perl test/bench/bench_gpu.pl --runs "${BENCH_RUNS:-5}" --cores "$JOBS" --cases "${BENCH_CASES:-.}"
	rc=$?
	if [[ "one key" =~ ${BENCH_CASES:-.} ]]; then
		for device in cpu cuda:0; do
			say "== one key, $device"
			as_user psql -Xq -v device="$device" -f test/bench/one_key.sql || rc=1
		done
	fi
	exit $rc
fi
if [ "$KIND" = cache ]; then
	say "== kept columns ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $JOBS cores; median of ${BENCH_RUNS:-5} runs, ms)"
	as_user perl test/bench/cache.pl --runs "${BENCH_RUNS:-5}" --pgdata "$WORK/bench" --threads "$JOBS" --dir "$WORK/tmp"
	exit
fi
as_user psql -Xq -v n_probe="$ROWS" -v n_build="$((ROWS / 4))" -f test/bench/tables.sql >/dev/null || die "could not make the tables"
as_user psql -Xq -v lines="$((ROWS * 3 / 10))" -f test/bench/tpch.sql >/dev/null || die "could not make the tables"
as_user psql -Xq -c "select count(*) from hjoin_gpu_calibrate()" >/dev/null
if [ "$KIND" = choice ]; then
	as_user psql -Xq -v n_probe="$ROWS" -f test/bench/edges.sql >/dev/null || die "could not make the tables"
	say "== plans by choice ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $JOBS cores; median of ${BENCH_RUNS:-5} runs)"
	as_user perl test/bench/choice.pl --runs "${BENCH_RUNS:-5}" --cases "${BENCH_CASES:-.}" ${BENCH_MISSED:+--missed}
	exit
fi
say "== joins ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $JOBS cores; median of ${BENCH_RUNS:-5} runs)"
as_user perl test/bench/bench.pl --runs "${BENCH_RUNS:-5}" --cases "${BENCH_CASES:-.}" --threads "$JOBS" --dir "$WORK/tmp" \
	--tables s,r,r_half,d,s_other,r_other,fact,dim1,dim2,dim3,dim4,region,nation,supplier,customer,part,partsupp,orders,lineitem
rc=$?
say
say "== memory"
as_user perl test/bench/memory.pl --pgdata "$WORK/bench" ${BENCH_CASES:+--cases "$BENCH_CASES"} || rc=1
say
say "== the engine alone"
as_user make -s PG_CONFIG="$PG_CONFIG" lab && as_user build/hjoin_gpu_lab cpu || rc=1
exit $rc
