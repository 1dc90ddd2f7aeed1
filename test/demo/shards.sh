# shards.sh: the part of "make demo-shards" after the build.  Sourced by demo.sh.
#
# Four clusters of this machine hold tables that are partitioned by hash: over one, two and four of them by postgres_fdw; and, where CITUS
# is given, once more by Citus.  The first cluster is the front, too.  Each has a fourth of the machine: its cores, if there are enough,
# and its memory.  With fewer cores than shards some share a core, and growth is told for as many shards as there are cores.
#
#   SHARD_ROWS=2000000   rows of the larger table, in all; the smaller has a quarter
#   CITUS=DIR            a source tree of Citus, which is built and installed; or CITUS=installed

ROWS=${SHARD_ROWS:-2000000}
NSHARDS=4
RUNS=5
SHARDS=$(seq $NSHARDS)
# cores that this process may use: not always those from 0 on
mapfile -t CORES < <(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr , '\n' | awk -F- '{ for (c = $1; c <= $NF; c++) print c }')
NCORES=${#CORES[@]}
per_shard=$((NCORES >= NSHARDS ? NCORES / NSHARDS : 1))
NOT_PINNED=
FAILED=0

# SQL SHARD DATABASE [ARG...]
SQL() {
	local shard=$1 database=$2
	shift 2
	as_user psql -XqAt -v ON_ERROR_STOP=1 -h "$DIR/s_shard$shard" -d "$database" "$@"
}

# all processes of a shard on its own cores; with fewer cores than shards, shards share them
pin_shards() {
	local i first cores postmaster child pid
	command -v taskset >/dev/null || { NOT_PINNED="there is no taskset"; return 0; }
	for i in $SHARDS; do
		first=$(((i - 1) * per_shard % NCORES))
		cores=$(IFS=,; echo "${CORES[*]:first:per_shard}")
		postmaster=$(head -1 "$DIR/shard$i/postmaster.pid")
		taskset -acp "$cores" "$postmaster" >/dev/null || { NOT_PINNED="taskset cannot pin cluster $i to $cores"; return 0; }
		for child in $(cat "/proc/$postmaster/task/$postmaster/children"); do
			# the supervisor's child is the device process
			for pid in "$child" $(cat "/proc/$child/task/$child/children" 2>/dev/null); do
				taskset -acp "$cores" "$pid" >/dev/null 2>&1
			done
		done
	done
}

# counted N WHAT: '1 core', '2 cores'
counted() { echo "$1 $2$([ "$1" = 1 ] || echo s)"; }

# growth NSHARDS CORE_ONE CORE OURS_ONE OURS: prints a line of a table, how many times as fast so many shards are as one; or why that tells nothing
growth() {
	local title="$1 shards, $(counted $per_shard core) each"
	if [ -n "$NOT_PINNED" ]; then say "  $1 shards: not told, as they are not pinned to cores: $NOT_PINNED"
	elif [ $(($1 * per_shard)) -gt "$NCORES" ]; then say "  $1 shards: not told, as shards share what there is: $(counted "$NCORES" core)"
	else printf '  %-52s %7.2fx %7.2fx\n' "$title" "$(awk "BEGIN { print $2 / ($3 ? $3 : 1) }")" "$(awk "BEGIN { print $4 / ($5 ? $5 : 1) }")"
	fi
}

# joins of the node that each cluster has run so far
joins_of() {
	local i
	for i in $SHARDS; do SQL "$i" shards -c "select value from hjoin_gpu_stat where name = 'joins'"; done
}

# least TIMES OUTPUT DATABASE ARG...: run on the front; prints the least of the milliseconds, and leaves the rows of the last run in OUTPUT
least() {
	local n=$1 output=$2 database=$3 best= t
	shift 3
	while [ $((n--)) -gt 0 ]; do
		SQL 1 "$database" -c '\timing on' "$@" >"$output" || return 1
		t=$(sed -n 's/^Time: \([0-9]*\)[.].*/\1/p' "$output" | tail -1)
		best=$(at_most "${best:-$t}" "$t")
		sed -i '/^Time: /d' "$output"
	done
	echo "$best"
}

# compare DATABASE TITLE QUERY SET...: run by core and by the node, everywhere; "SET" statements for the front.  Prints a line of a table,
# and leaves the milliseconds in core and ours.
compare() {
	local database=$1 title=$2 query=$3 before after verdict=equal
	local front=()
	shift 3
	for set in "$@"; do front+=(-c "$set"); done
	use off
	core=$(least $RUNS "$DIR/tmp/core.rows" "$database" -c "set hjoin_gpu.enabled = off" "${front[@]}" -c "$query") || die "core's plan failed: $query"
	use on
	before=$(joins_of)
	ours=$(least $RUNS "$DIR/tmp/ours.rows" "$database" "${front[@]}" -c "$query") || die "our plan failed: $query"
	after=$(joins_of)
	cmp -s "$DIR/tmp/core.rows" "$DIR/tmp/ours.rows" || { verdict=DIFFERENT; FAILED=$((FAILED + 1)); }
	printf '  %-52s %8s %8s   %-9s  %s\n' "$title" "$core" "$ours" "$verdict" "$(paste -d' ' <(echo "$before") <(echo "$after") | awk -v n=$RUNS '{ printf "%d ", ($2 - $1) / n }')"
}
head_line() { printf '\n  %-52s %8s %8s   %-9s  %s\n' "$1" "core, ms" "ours, ms" "results" "joins of the node on each shard"; }

# --- clusters ---------------------------------------------------------------------
start_shards() {
	local i
	for i in $SHARDS; do
		cluster_start "shard$i" \
			"shared_buffers = '$(at_most $((ram_mb / 16)) 2048)MB'" "work_mem = '$(at_most $((ram_mb / 64)) 512)MB'" \
			"hjoin_gpu.arena_size = '$(at_most $((ram_mb / 16)) 1024)MB'" "hjoin_gpu.cpu_threads = $per_shard" \
			"max_parallel_workers_per_gather = $(at_most $((per_shard - 1)) 4)" "max_prepared_transactions = 50" "max_wal_size = '4GB'" \
			"autovacuum = off" "jit = off" || die "cluster $i did not start"
	done
	pin_shards
}
say "== four clusters in $DIR, each on $per_shard of $(counted "$NCORES" core)"
start_shards
[ -z "$NOT_PINNED" ] || say "clusters are not pinned to cores: $NOT_PINNED"
[ "$NCORES" -ge $NSHARDS ] || say "$(counted "$NCORES" core) for four clusters: some share a core"
say "calibrating one after the other, some 15 seconds each ..."
for i in $SHARDS; do
	as_user createdb -h "$DIR/s_shard$i" shards && SQL "$i" shards -c "create extension hjoin_gpu" || die "could not create the extension"
	SQL "$i" shards -c "select count(*) from hjoin_gpu_calibrate()" >/dev/null || say "(not calibrated)"
done

# --- postgres_fdw -------------------------------------------------------------------
say "== postgres_fdw: $ROWS and $((ROWS / 4)) rows over one, two and four shards"
for of in 1 2 4; do
	for i in $(seq "$of"); do
		SQL "$i" shards -v of="$of" -v nr=$((i - 1)) -v n_probe="$ROWS" -v n_build=$((ROWS / 4)) -f test/demo/shards.sql || die "could not load shard $i"
	done
done
as_user createdb -h "$DIR/s_shard1" front && SQL 1 front -c "create extension hjoin_gpu" -c "create extension postgres_fdw" || die "could not make the front"
for i in $SHARDS; do
	SQL 1 front -c "create server shard$i foreign data wrapper postgres_fdw options (host '$DIR/s_shard$i', dbname 'shards', use_remote_estimate 'true',
			async_capable 'true', fetch_size '50000', options '')" -c "create user mapping for public server shard$i options (user 'postgres')"
done
for of in 1 2 4; do
	SQL 1 front -c "create schema on$of" -c "create table on$of.r (id int, k int, v int) partition by hash (k)" \
		-c "create table on$of.s (id int, k int, m int, v int, pad text) partition by hash (k)"
	for i in $(seq "$of"); do
		for t in r s; do
			SQL 1 front -c "create foreign table on$of.$t$i partition of on$of.$t for values with (modulus $of, remainder $((i - 1)))
				server shard$i options (schema_name 'on$of', table_name '${t}_here')" -c "analyze on$of.$t$i"
		done
	done
	SQL 1 front -c "analyze on$of.r" -c "analyze on$of.s"
done

# use on|off: SET does not reach shards; the servers' options do
use() {
	local i
	for i in $SHARDS; do
		SQL 1 front -c "alter server shard$i options (set options '-c cursor_tuple_fraction=1 -c hjoin_gpu.enabled=$1')"
	done
}
partwise=("set enable_partitionwise_join = on" "set enable_partitionwise_aggregate = on")
groups="select s.k, count(*), sum(s.v + r.v) from s join r on s.k = r.k group by s.k having count(*) > 14 order by 1"
head_line "four shards"
compare front "join and GROUP BY of the partition key, pushed down" "$groups" "${partwise[@]}" "set search_path = on4"
compare front "join pushed down, few rows come back" "select s.id, r.id from s join r on s.k = r.k where s.v + r.v = 77 order by 1, 2" "${partwise[@]}" "set search_path = on4"
compare front "join pushed down, all rows come back" "select count(*), sum(s.v + r.v) from s join r on s.k = r.k" "${partwise[@]}" "set search_path = on4"
compare front "join by another column, on the front" "select count(*), sum(s.v + r.v) from s join r on s.m = r.k" "${partwise[@]}" "set search_path = on4"
head_line "all rows on fewer shards: join and GROUP BY"
core_of=() ours_of=()
for of in 1 2 4; do
	compare front "$(counted $of shard)" "$groups" "${partwise[@]}" "set search_path = on$of"
	core_of[of]=$core ours_of[of]=$ours
done
printf '\n  %-52s %8s %8s\n' "growth: time on one shard over that on more" "core" "ours"
for of in 2 4; do growth $of "${core_of[1]}" "${core_of[of]}" "${ours_of[1]}" "${ours_of[of]}"; done
say
say "  the front's plan of the first query:"
SQL 1 front -c "set enable_partitionwise_join = on" -c "set enable_partitionwise_aggregate = on" -c "set search_path = on4" -c "explain (costs off) $groups" | sed 's/^/    /'

# --- Citus --------------------------------------------------------------------------
citus_demo() {
	local i
	if [ -d "$CITUS" ]; then
		say "== building Citus of $CITUS"
		mkdir "$DIR/tree/build/citus" && tar -C "$CITUS" --exclude=./.git -cf - . | tar -C "$DIR/tree/build/citus" -xf - || die "could not copy $CITUS"
		[ "$(id -u)" != 0 ] || chown -R "$RUN_USER" "$DIR/tree/build/citus"
		as_user bash -c "cd build/citus && ./configure --without-libcurl PG_CONFIG='$PG_CONFIG' && make -j$JOBS" >"$DIR/log/citus" 2>&1 ||
			{ tail -20 "$DIR/log/citus"; die "Citus was not built"; }
		as_root make -s -C "$DIR/tree/build/citus" install >"$DIR/log/citus_install" 2>&1 || { tail -20 "$DIR/log/citus_install"; die "Citus was not installed"; }
	fi
	[ -f "$("$PG_CONFIG" --pkglibdir)/citus.so" ] || die "Citus is not installed"
	say "== Citus: the same rows over four nodes, eight shards"
	for i in $SHARDS; do
		cluster_stop "shard$i"
		echo "shared_preload_libraries = 'citus, hjoin_gpu'" | as_user tee -a "$DIR/shard$i/postgresql.conf" >/dev/null
		as_user pg_ctl -D "$DIR/shard$i" -w -t 60 -l "$DIR/log/shard$i.log" start >/dev/null || die "shard $i did not start with Citus"
		as_user createdb -h "$DIR/s_shard$i" citus && SQL "$i" citus -c "create extension citus" -c "create extension hjoin_gpu" || die "could not create extension citus"
	done
	pin_shards
	SQL 1 citus -c "select citus_set_coordinator_host('$DIR/s_shard1', 5432)" -c "select citus_set_node_property('$DIR/s_shard1', 5432, 'shouldhaveshards', true)" >/dev/null &&
		for i in $(seq 2 $NSHARDS); do SQL 1 citus -c "select citus_add_node('$DIR/s_shard$i', 5432)" >/dev/null || return 1; done || die "the nodes do not know each other"
	SQL 1 citus -c "set citus.shard_count = 8" -c "create table r (id int, k int, v int)" -c "create table s (id int, k int, m int, v int, pad text)" -c "create table d (id int, k int, v int)" \
		-c "select create_distributed_table('r', 'k'), create_distributed_table('s', 'k', colocate_with => 'r'), create_reference_table('d')" \
		-c "insert into r select g, (g * 2654435761) % $((ROWS / 4)), g % 1000 from generate_series(1, $((ROWS / 4))::bigint) g" \
		-c "insert into s select g, (hashint8(g)::bigint & 2147483647) % $((ROWS / 4)), (hashint8(g + 77)::bigint & 2147483647) % $((ROWS / 4 * 5 / 4)), g % 1000, md5(g::text) from generate_series(1, $ROWS::bigint) g" \
		-c "insert into d select * from r where k < $((ROWS / 8))" \
		-c "vacuum (freeze, analyze) s" -c "vacuum (freeze, analyze) r" -c "vacuum (freeze, analyze) d" >/dev/null || die "could not load the tables"
	# what ALTER SYSTEM sets reaches every session
	use() {
		local i
		for i in $SHARDS; do SQL "$i" citus -c "alter system set hjoin_gpu.enabled = $1" -c "select pg_reload_conf()" >/dev/null; done
		sleep 0.2
	}
	head_line "Citus"
	compare citus "colocated join" "select count(*), sum(s.v + r.v) from s join r on s.k = r.k"
	compare citus "colocated LEFT join, condition on both sides" "select count(*), sum(s.v + r.v) from s left join r on s.k = r.k and s.v > r.v"
	compare citus "anti join" "select count(*), sum(s.v) from s where not exists (select from r where r.k = s.k and r.v = s.v)"
	compare citus "join with a reference table" "select count(*), sum(s.v + d.v) from s join d on s.m = d.k"
	compare citus "colocated join, GROUP BY another column" "select s.v, count(*), sum(r.v) from s join r on s.k = r.k group by s.v order by 1"
	compare citus "join by another column (repartitioned)" "select count(*), sum(s.v + r.v) from s join r on s.m = r.k" "set citus.enable_repartition_joins = on"
	compare citus "join with a CTE, whose rows are sent" "with c as materialized (select k, v from r where v < 500) select count(*), sum(s.v + c.v) from s join c on s.m = c.k"
}
[ -z "${CITUS:-}" ] || citus_demo

say
say "== the clusters run on; connect with"
say "     $PG_BINDIR/psql -h $DIR/s_shard1 -U postgres ${CITUS:+citus, or }front"
say "   and stop them with"
say "     make demo-stop"
[ "$FAILED" = 0 ] || die "$FAILED results differ"
