#!/bin/bash
# demo.sh start|shards|stop: "make demo", "make demo-shards" (see shards.sh) and "make demo-stop".
#
# Builds and installs, starts a cluster of its own, loads the machine's Debian package
# index and a generated pair of tables, and shows core's plan and ours side by side.
#
#   DEMO_ROWS=10000000   rows of the larger generated table; the smaller has a quarter
#   DEMO_DIR=DIR         where the cluster lives (default /tmp/hjoin_gpu_demo)
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
. test/lib.sh

DIR=${DEMO_DIR:-/tmp/hjoin_gpu_demo}
ROWS=${DEMO_ROWS:-10000000}
[ "$(id -u)" = 0 ] || [ -n "${DEMO_DIR:-}" ] || DIR=/tmp/hjoin_gpu_demo_$(id -un)

stop_demo() {
	local data
	[ -d "$DIR" ] || return 0
	[ -e "$DIR/hjoin_gpu_demo" ] || die "$DIR is not a directory of this demo"
	pg_paths
	for data in "$DIR"/*/postmaster.pid; do
		[ -e "$data" ] || continue
		data=${data%/postmaster.pid}
		WORK=$DIR
		RUN_USER=$(stat -c %U "$data")
		# a killed server has left its file
		! as_user pg_ctl -D "$data" status >/dev/null || as_user pg_ctl -D "$data" -w -m immediate stop >/dev/null || die "could not stop the demo's server"
	done
	rm -rf "$DIR"
}

# build, with kernels for the GPUs of this machine alone (without one for any), and every 10 seconds say how far it is
build_and_tell() {
	local outputs kernels targets ticker rc
	targets=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | awk '$1 >= 75' | sort -nu | xargs)
	mapfile -t outputs < <(as_user make -s PG_CONFIG="$PG_CONFIG" print-OBJS print-device_objs print-cuda_images | xargs -n 1 | sort -u)
	kernels=$(printf '%s\n' "${outputs[@]}" | grep -c 'fatbin$')
	say "compiling ${#outputs[@]} files$([ "$kernels" = 0 ] || echo ", $kernels of them CUDA kernels") ..."
	while sleep 10 >/dev/null 2>&1 && kill -0 $$; do
		say "  $(cd "$WORK/tree" && ls -d "${outputs[@]}" 2>/dev/null | wc -l) of ${#outputs[@]}"
	done &
	ticker=$!
	build_tree "CUDA_TARGETS=${targets:-75}"
	rc=$?
	kill $ticker
	wait $ticker 2>/dev/null
	return $rc
}

if [ "${1:-start}" = stop ]; then
	stop_demo
	say "the demo is stopped and $DIR removed"
	exit
fi

say "== packages"
install_packages
stop_demo
mkdir -p "$DIR" && touch "$DIR/hjoin_gpu_demo" || die "cannot write to $DIR"
HJG_WORK=$DIR make_work demo
say "== build and install (PostgreSQL $("$PG_CONFIG" --version | cut -d' ' -f2-))"
build_and_tell && install_tree || die "the build failed"

# --- settings by the size of the machine --------------------------------------
ram_mb=$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null)
case $limit in ''|max) ;; *) [ $((limit / 1048576)) -lt "$ram_mb" ] && ram_mb=$((limit / 1048576)) ;; esac
at_most() { if [ "$1" -lt "$2" ]; then echo "$1"; else echo "$2"; fi; }
[ "${1:-start}" != shards ] || { . test/demo/shards.sh; exit; }
say "== cluster in $DIR ($ram_mb MB of memory, $JOBS cores)"
cluster_start data \
	"shared_buffers = '$(at_most $((ram_mb / 4)) 8192)MB'" \
	"effective_cache_size = '$((ram_mb / 2))MB'" \
	"work_mem = '$(at_most $((ram_mb / 16)) 2048)MB'" \
	"maintenance_work_mem = '$(at_most $((ram_mb / 16)) 1024)MB'" \
	"hjoin_gpu.arena_size = '$(at_most $((ram_mb / 4)) 8192)MB'" \
	"max_parallel_workers_per_gather = $(at_most $((JOBS - 1)) 4)" \
	"wal_level = minimal" "max_wal_senders = 0" "max_wal_size = '8GB'" "synchronous_commit = off" "full_page_writes = off" \
	"autovacuum = off" "jit = off" || die "the cluster did not start"
SQL() { as_user psql -XqAt -v ON_ERROR_STOP=1 -d demo "$@"; }
as_user createdb demo && SQL -c "create extension hjoin_gpu" || die "could not create the extension"

# --- data -----------------------------------------------------------------------
say "== data"
say "loading the package index ..."
mkdir -p "$DIR/load" && { [ "$(id -u)" != 0 ] || chown "$RUN_USER" "$DIR/load"; }
{
	source_of="apt's package lists"
	if [ "$(apt-cache dumpavail 2>/dev/null | grep -c '^Package:')" -gt 5000 ]; then apt-cache dumpavail
	else
		source_of="the packages that are installed"
		cat /var/lib/dpkg/status
	fi | (cd "$DIR/load" && as_user bash -c "cd '$DIR/load' && perl '$DIR/tree/test/demo/packages.pl'") | sed "s/\$/, from $source_of/"
}
as_user bash -c "cd '$DIR/load' && psql -XqAt -v ON_ERROR_STOP=1 -d demo -f '$DIR/tree/test/demo/packages.sql'" || die "could not load the packages"
rm -rf "$DIR/load"
say "generating $ROWS and $((ROWS / 4)) rows ..."
(set -o pipefail; SQL -v n_probe="$ROWS" -v n_build="$((ROWS / 4))" -f test/demo/pair.sql | sed -u 's/^/  /') || die "could not make the tables"
say "calibrating costs to this machine, some 15 seconds ..."
SQL -c "select count(*) from hjoin_gpu_calibrate()" >/dev/null || say "(not calibrated)"

# --- queries ----------------------------------------------------------------------
core="set hjoin_gpu.enabled = off;"
ours="set hjoin_gpu.enabled = on;"
serial="set max_parallel_workers_per_gather = 0;"
DIFFERENT=0 SLOWER=0

# timed PLANS SETTINGS QUERY: one run; prints its milliseconds, and leaves its rows in PLANS.rows
timed() {
	SQL -c "$2" -c '\timing on' -c "$3" >"$DIR/tmp/$1.out" || return 1
	grep -v '^Time: ' "$DIR/tmp/$1.out" >"$DIR/tmp/$1.rows"
	sed -n 's/^Time: \([0-9]*\)[.].*/\1/p' "$DIR/tmp/$1.out" | sed 's/^0$/1/'
}

# show TITLE QUERY [SERIAL]: plans, which warms up; then times (the better of two runs) and results of both
show() {
	local title=$1 query=$2 set_core=$core set_ours=$ours t_core t_ours t
	[ -z "${3:-}" ] || { set_core="$core $serial" set_ours="$ours $serial"; }
	say
	say "=== $title"
	say "$query" | sed 's/^/    /'
	SQL -c "$set_core" -c "explain (analyze, costs off) $query" >"$DIR/tmp/core.txt" || die "core's plan failed"
	SQL -c "$set_ours" -c "explain (analyze, costs off) $query" >"$DIR/tmp/ours.txt" || die "our plan failed"
	printf '  %-78s | %s\n' "PostgreSQL" "hjoin_gpu"
	perl test/demo/side_by_side.pl "$DIR/tmp/core.txt" "$DIR/tmp/ours.txt"
	t_core=$(timed core "$set_core" "$query") && t_ours=$(timed ours "$set_ours" "$query") || die "a query failed"
	t=$(timed core "$set_core" "$query") && t_core=$(at_most "$t_core" "$t")
	t=$(timed ours "$set_ours" "$query") && t_ours=$(at_most "$t_ours" "$t")
	say
	printf '  time: PostgreSQL %s ms, hjoin_gpu %s ms: %s times as fast\n' "$t_core" "$t_ours" \
		"$(awk "BEGIN { printf \"%.1f\", $t_core / $t_ours }")"
	[ "$t_ours" -le "$t_core" ] || SLOWER=$((SLOWER + 1))
	if cmp -s "$DIR/tmp/core.rows" "$DIR/tmp/ours.rows"; then say "  results: equal"; else say "  results: DIFFERENT"; DIFFERENT=$((DIFFERENT + 1)); fi
}

sums="count(*), sum(s.v + r.v), sum((s.id::bigint * 31 + r.id) % 1000003) as checksum"
show "Which sections of the archive depend on which?" "select p.section as of, q.section as on_, count(*)
from dependency d join package p on p.id = d.package_id join package q on q.name = d.depends_name
where d.kind in ('Depends', 'Pre-Depends')
group by 1, 2 order by 3 desc, 1, 2 limit 1000"
show "Which packages does nothing depend on, recommend or suggest?" "select section, count(*), max(size) from package p
where not exists (select 1 from dependency d where d.depends_name = p.name and d.kind in ('Depends', 'Pre-Depends', 'Recommends', 'Suggests'))
group by section order by section"
show "Two generated tables, $ROWS and $((ROWS / 4)) rows: aggregated" "select $sums from s join r on s.k = r.k"
show "The same, without parallel workers for PostgreSQL" "select $sums from s join r on s.k = r.k" serial
show "Every joined row handed to the executor" "select count(*), sum((id::bigint * 31 + rid) % 1000003) as checksum
from (select s.id, r.id as rid, s.v, r.v as rv from s left join r on s.m = r.k offset 0) q"

say
say "== the cluster runs on; connect with"
say "     $PG_BINDIR/psql -h $PGHOST -U postgres demo"
say "   compare with"
say "     set hjoin_gpu.enabled = off;"
say "   and stop it with"
say "     make demo-stop"
[ "$SLOWER" = 0 ] || say "note: in $SLOWER of these, PostgreSQL alone was the faster"
[ "$DIFFERENT" = 0 ] || die "$DIFFERENT results differ"
