#!/bin/bash
# run_check.sh: "make check".  Builds, installs and runs every test in throw-away
# clusters; prints what each part gave, and last 'N passed, N failed'.  Two tracks of parts run side by side: what
# computes, and what waits most of the time.
#
#   test/run_check.sh [PART...]     only these parts (and the build)
#   HJG_FUZZ_QUERIES=400 HJG_FUZZ_SEED=N   length and seed of the fuzz run
#   HJG_KEEP=1                      keep the work directory
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. test/lib.sh

ONLY=("$@")
BUILD_FAILED=
START=$SECONDS

wanted() { [ ${#ONLY[@]} = 0 ] || [[ " ${ONLY[*]} " == *" $1 "* ]] || [ "$1" = build ]; }

# part_end NAME RC SECONDS: count the log of a part, note it for the summary, and show it if it failed
part_end() {
	local name=$1 rc=$2 took=$3 log=$WORK/log/part_$1.log p f s
	read -r p f s < <(awk -f test/count.awk "$log")
	p=${p:-0} f=${f:-1}			# without a log nothing is known
	if [ "$rc" != 0 ] && [ "$f" = 0 ]; then f=1; fi
	if [ "$p" = 0 ] && [ "$f" = 0 ]; then f=1; say "part $name ran no test"; fi
	printf '%-12s %5d passed %5d failed %5ds %s\n' "$name" "$p" "$f" "$took" "$([ "${s:-0}" = 0 ] || echo "($s skipped)")" >"$WORK/log/end_$name"
	[ "$f" = 0 ] || printf '%s\n' "--- $name: output (last 150 lines)" "$(tail -150 "$log")" "---"
	say "[$((SECONDS - START))s]   $name: $p passed, $f failed (${took}s)"
}

# part NAME TIMEOUT FUNCTION [ARG...]
part() {
	local name=$1 limit=$2 log=$WORK/log/part_$1.log rc=0 t=$SECONDS
	shift 2
	wanted "$name" || return
	say "[$((SECONDS - START))s] $name"
	LIMIT=$limit
	if [ -n "$BUILD_FAILED" ] && [ "$name" != rules ]; then
		say "not ok 1 - $name was not run, because the build failed" >"$log"
		rc=1
	else
		"$@" >"$log" 2>&1 </dev/null || rc=$?
		[ "$name" != build ] || [ $rc = 0 ] || BUILD_FAILED=1
	fi
	part_end "$name" $rc $((SECONDS - t))
}

# bounded CMD...: as the unprivileged user, ended when the part's time is over
bounded() { as_user timeout -k 10 "$LIMIT" "$@"; }

# no_crash NAME: one TAP line about the server's log
no_crash() {
	local found
	found=$(crash_lines "$WORK/log/$1.log")
	if [ -z "$found" ]; then say "ok 999 - no server process of cluster $1 crashed"
	else
		say "not ok 999 - no server process of cluster $1 crashed"
		say "$found" | sed 's/^/# /'
		return 1
	fi
}

# --- parts ---------------------------------------------------------------------
run_build() {
	build_tree && say "ok 1 - builds without a warning" || { say "not ok 1 - builds without a warning"; return 1; }
	install_tree && say "ok 2 - installs" || { say "not ok 2 - installs"; return 1; }
}
run_rules() { bounded perl test/check_rules.pl; }
run_target() { bounded make -s PG_CONFIG="$PG_CONFIG" "$1"; }
run_arena() {
	local rc=0
	run_target check-arena || rc=1
	cat "$WORK"/tree/build/arena/*/*.out
	return $rc
}
run_device() { bounded "$PG_BINDIR/hjoin_gpu_device" --self-test; }

make_var() { make -s -C "$WORK/tree" PG_CONFIG="$PG_CONFIG" "print-$1"; }

run_regress() {
	local rc=0
	cluster_start regress "autovacuum = off" "hjoin_gpu.cache_size = '64MB'" || return 1
	# shellcheck disable=SC2046
	bounded "$PGXS_TOP/src/test/regress/pg_regress" --bindir="$PG_BINDIR" --host="$PGHOST" --user=postgres \
		--inputdir=. --outputdir="$WORK/tmp" --dbname=contrib_regression --load-extension=hjoin_gpu \
		$(make_var REGRESS) || rc=1
	[ ! -s "$WORK/tmp/regression.diffs" ] || cat "$WORK/tmp/regression.diffs"
	no_crash regress || rc=1
	cluster_stop regress || rc=1
	return $rc
}
run_isolation() {
	local rc=0 INITDB_OPTIONS
	# with checksums, which 18 has by default, a bit that is set in the map stamps the heap's page, too, and other blocks are kept
	INITDB_OPTIONS=$("$PG_BINDIR/initdb" --help | grep -o -- '--no-data-checksums')
	cluster_start isolation "autovacuum = off" "hjoin_gpu.cache_size = '64MB'" "max_prepared_transactions = 5" || return 1
	as_user mkdir -p "$WORK/tmp/iso"
	# shellcheck disable=SC2046
	bounded "$PGXS_TOP/src/test/isolation/pg_isolation_regress" --bindir="$PG_BINDIR" --host="$PGHOST" --user=postgres \
		--inputdir=test/isolation --outputdir="$WORK/tmp/iso" --dbname=isolation_regression --load-extension=hjoin_gpu \
		$(make_var ISOLATION) || rc=1
	[ ! -s "$WORK/tmp/iso/regression.diffs" ] || cat "$WORK/tmp/iso/regression.diffs"
	no_crash isolation || rc=1
	cluster_stop isolation || rc=1
	return $rc
}
run_tap() {
	set -- "$WORK"/tree/test/t/*.pl
	[ -e "$1" ] || { say "no file in test/t"; return 1; }
	bounded env -u PGHOST -u PGUSER -u PGDATABASE PG_CONFIG="$PG_CONFIG" TESTDIR="$WORK/tree" TESTDATADIR="$WORK/tmp/tap" TESTLOGDIR="$WORK/log/tap" \
		PGPORT=65432 PG_REGRESS="$PGXS_TOP/src/test/regress/pg_regress" enable_injection_points=no \
		prove -v --merge --timer -I "$PGXS_TOP/src/test/perl" -I test/t "$@"
}
run_pgtap() {
	local rc=0
	cluster_start pgtap || return 1
	as_user psql -qX -c 'create extension pgtap' -c 'create extension hjoin_gpu' || rc=1
	set -- "$WORK"/tree/test/pgtap/*.sql
	[ -e "$1" ] || { say "no file in test/pgtap"; rc=1; }
	bounded pg_prove -v --merge -d postgres "$@" || rc=1
	no_crash pgtap || rc=1
	cluster_stop pgtap || rc=1
	return $rc
}
# no_difference NAME: the cluster's log tells of no crash, and of nothing that differs from core
no_difference() {
	if grep -E 'kept columns of .* differ|a join by .* differs' "$WORK/log/$1.log"; then return 1; fi
	no_crash "$1"
}
run_fuzz() {
	local rc=0
	local fuzz=(perl test/fuzz/hjg_fuzz.pl --seed "${HJG_FUZZ_SEED:-20240501}" --repro-dir "$WORK/log")
	cluster_start fuzz "hjoin_gpu.arena_size = '256MB'" "hjoin_gpu.cache_size = '16MB'" "hjoin_gpu.verify = 0.1" "max_prepared_transactions = 5" || return 1
	as_user psql -qX -c 'create extension hjoin_gpu' || rc=1
	bounded "${fuzz[@]}" --queries "${HJG_FUZZ_QUERIES:-400}" || rc=1
	bounded "${fuzz[@]}" --queries 100 --writers 2 --kept || rc=1
	no_difference fuzz || rc=1
	cluster_stop fuzz || rc=1
	# where all columns have room
	cluster_start fuzz_programs "hjoin_gpu.cache_size = '64MB'" "hjoin_gpu.verify = 0.1" "max_prepared_transactions = 5" || return 1
	as_user psql -qX -c 'create extension hjoin_gpu' || rc=1
	bounded "${fuzz[@]}" --programs --queries "${HJG_FUZZ_QUERIES:-400}" || rc=1
	bounded "${fuzz[@]}" --programs --queries 60 --writers 2 --min-programs 0 || rc=1
	no_difference fuzz_programs || rc=1
	cluster_stop fuzz_programs || rc=1
	return $rc
}

# --- main ---------------------------------------------------------------------
say "== packages"
install_packages test
make_work check
# kill_tree PID...: these processes and all below them
kill_tree() {
	local pid
	for pid in "$@"; do
		# shellcheck disable=SC2046
		kill_tree $(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
		kill "$pid" 2>/dev/null
	done
}
STOPPED=
finish() {
	local d
	[ -z "$STOPPED" ] || return
	STOPPED=1
	# shellcheck disable=SC2046
	kill_tree $(jobs -p)
	for d in "$WORK"/*/postmaster.pid; do
		[ -e "$d" ] && as_user pg_ctl -D "$(dirname "$d")" -m immediate stop >/dev/null 2>&1
	done
}
trap finish EXIT
trap 'exit 130' INT TERM
say "PostgreSQL $("$PG_CONFIG" --version | cut -d' ' -f2-), tests run as user $RUN_USER in $WORK"

part build 1800 run_build
part rules 120 run_rules
computing() {
	part engine 1800 run_target check-engine
	part valgrind 1800 run_target check-engine-valgrind
	part arena 600 run_arena
	part model 60 run_target check-model
	part vector 120 run_target check-vector
	part device 240 run_device
	part cuda 1200 run_target check-cuda
	part opencl 900 run_target check-opencl
	part lab 1200 run_target check-lab
	part regress 900 run_regress
	part isolation 240 run_isolation
	part pgtap 240 run_pgtap
	part fuzz 900 run_fuzz
}
waiting() { part tap 2700 run_tap; }
PARTS=(build rules engine valgrind arena model vector device cuda opencl lab regress isolation pgtap fuzz tap)
(trap - EXIT; computing) &
(trap - EXIT; waiting) &
wait

finish
say
say "== summary ($((SECONDS - START))s)"
PASSED=0 FAILED=0
for name in "${PARTS[@]}"; do
	wanted "$name" || continue
	[ -s "$WORK/log/end_$name" ] || say "$name 0 passed 1 failed: it did not come to its end" >"$WORK/log/end_$name"
	cat "$WORK/log/end_$name"
	read -r _ p _ f _ <"$WORK/log/end_$name"
	PASSED=$((PASSED + p)) FAILED=$((FAILED + f))
done
grep -hE '# (SKIP|skip) ' "$WORK"/log/part_*.log | sort | uniq -c | sed 's/^/skipped /'
grep -hE -A4 '^ *not ok [0-9]|\.\.\. +FAILED|^not ok .* +[0-9]+ ms' "$WORK"/log/part_*.log | cut -c1-300 | head -40
# what differs in files of pg_regress: without this a failure on another machine cannot be told from its log's end
cat "$WORK"/tmp/regression.diffs "$WORK"/tmp/iso/regression.diffs 2>/dev/null | grep -E '^(diff|[-+@])' | cut -c1-300 | head -60
if [ "$FAILED" = 0 ] && [ -z "${HJG_KEEP:-}" ]; then
	rm -rf "$WORK"
else
	say "logs and outputs: $WORK"
fi
say "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
