# lib.sh: what the commands of this directory share.  Sourced by bash.
#
# Two users.  Whoever calls the command installs packages and the extension
# (as root, or with sudo where that is needed and there); everything else runs
# as an unprivileged user, because PostgreSQL refuses to run as root.  Those parts
# run in a copy of the source tree that this user may write.
#
# Every cluster is our own: socket only, below the work directory.  No existing
# server is started, stopped or connected to.

set -u
export LC_ALL=C.UTF-8
unset PGHOST PGPORT PGDATABASE PGUSER PGPASSWORD PGSERVICE PGOPTIONS PGDATA MAKEFLAGS MAKELEVEL MFLAGS
SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PG_CONFIG=${PG_CONFIG:-pg_config}
JOBS=$(nproc 2>/dev/null || echo 2)

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# --- who runs what ---------------------------------------------------------
if [ "$(id -u)" = 0 ]; then
	if id postgres >/dev/null 2>&1; then RUN_USER=postgres; else RUN_USER=nobody; fi
else
	RUN_USER=$(id -un)
fi

# run a command with the rights to install
as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"
	elif command -v sudo >/dev/null; then sudo "$@"
	else die "'$*' needs root: run this as root or install sudo"
	fi
}

# run a command as the unprivileged user, in the work tree
as_user() {
	local path="${PG_BINDIR:-}:$PATH"
	if [ "$(id -u)" = 0 ]; then
		(cd "$WORK/tree" && runuser -u "$RUN_USER" -- env HOME="$WORK" PATH="$path" TMPDIR="$WORK/tmp" "$@")
	else
		(cd "$WORK/tree" && env PATH="$path" TMPDIR="$WORK/tmp" "$@")
	fi
}

# --- packages ----------------------------------------------------------------
pg_paths() {
	PG_BINDIR=$("$PG_CONFIG" --bindir 2>/dev/null) || PG_BINDIR=
	PG_SHAREDIR=$("$PG_CONFIG" --sharedir 2>/dev/null) || PG_SHAREDIR=
	PGXS=$("$PG_CONFIG" --pgxs 2>/dev/null) || PGXS=
	PGXS_TOP=${PGXS%/src/makefiles/pgxs.mk}
	PG_HEADERS=$("$PG_CONFIG" --includedir-server 2>/dev/null)/postgres.h
	PG_MAJOR=$("$PG_CONFIG" --version 2>/dev/null | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
}

# install_packages WHAT...: build (to build and run), test (to check), deb (to package), lint
install_packages() {
	local missing=() what v
	pg_paths
	v=$PG_MAJOR
	# pgxs.mk comes with the client's packages: it tells nothing of the headers
	if [ -n "$v" ] && [ -x "$PG_BINDIR/initdb" ] && [ ! -f "$PG_HEADERS" ]; then
		missing+=("postgresql-server-dev-$v")
	elif [ -z "$v" ] || [ ! -f "$PGXS" ] || [ ! -x "$PG_BINDIR/initdb" ]; then
		v=$(apt-cache depends postgresql 2>/dev/null | sed -n 's/.*Depends: postgresql-\([0-9][0-9]*\)$/\1/p' | head -1)
		if [ -z "$v" ]; then
			as_root apt-get update -qq
			v=$(apt-cache depends postgresql 2>/dev/null | sed -n 's/.*Depends: postgresql-\([0-9][0-9]*\)$/\1/p' | head -1)
		fi
		[ -n "$v" ] || die "no PostgreSQL found, and no package of it: set PG_CONFIG"
		missing+=("postgresql-$v" "postgresql-server-dev-$v")
	fi
	command -v perl >/dev/null && perl -MJSON::PP -MTest::More -e1 2>/dev/null || missing+=(perl)
	for what in "$@"; do
		case $what in
			test)
				perl -MIPC::Run -e1 2>/dev/null || missing+=(libipc-run-perl)
				command -v pg_prove >/dev/null || missing+=(libtap-parser-sourcehandler-pgtap-perl)
				[ -n "$PG_SHAREDIR" ] && [ -f "$PG_SHAREDIR/extension/pgtap.control" ] ||
					[ -f "/usr/share/postgresql/$v/extension/pgtap.control" ] || missing+=("postgresql-$v-pgtap")
				command -v valgrind >/dev/null || missing+=(valgrind)
				[ -f /usr/include/CL/cl.h ] || missing+=(opencl-headers)
				compgen -G '/etc/OpenCL/vendors/*.icd' >/dev/null || missing+=(pocl-opencl-icd)
				ldconfig -p 2>/dev/null | grep -q libOpenCL.so.1 || missing+=(ocl-icd-libopencl1)
				;;
			deb)
				command -v dh >/dev/null || missing+=(debhelper)
				command -v dpkg-buildpackage >/dev/null || missing+=(dpkg-dev)
				;;
			lint)
				command -v cppcheck >/dev/null || missing+=(cppcheck)
				command -v clang >/dev/null || missing+=(clang)
				command -v clang-format >/dev/null || missing+=(clang-format)
				;;
		esac
	done
	if [ ${#missing[@]} -gt 0 ]; then
		say "installing packages: ${missing[*]}"
		export DEBIAN_FRONTEND=noninteractive
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || {
			as_root apt-get update -qq
			as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
				die "could not install: ${missing[*]}"
		}
		pg_paths
	fi
	[ "$(id -u)" = 0 ] && id postgres >/dev/null 2>&1 && RUN_USER=postgres
	[ -x "$PG_BINDIR/initdb" ] || die "no initdb in '$PG_BINDIR' (PG_CONFIG=$PG_CONFIG)"
	[ -f "$PGXS" ] && [ -f "$PG_HEADERS" ] || die "no server headers for $PG_CONFIG: install the server's development package"
	[ "$PG_MAJOR" -ge 15 ] || die "PostgreSQL 15 or newer is needed, $PG_CONFIG is of $PG_MAJOR"
}

# --- work directory and build --------------------------------------------------
# make_work NAME: a directory that the unprivileged user may write, and in it
# "tree", a copy of the sources (and of what is built there already).
make_work() {
	WORK=${HJG_WORK:-$(mktemp -d "/tmp/hjg_$1.XXXXXX")}
	mkdir -p "$WORK/tree" "$WORK/log" "$WORK/tmp"
	tar -C "$SRC" --exclude=./.git --exclude=./tmp_check --exclude=./results --exclude=./build/run -cf - . | tar -C "$WORK/tree" -xf -
	[ "$(id -u)" != 0 ] || chown -R "$RUN_USER" "$WORK"
	chmod 755 "$WORK"
}

# build_tree [VARIABLE=VALUE...]
build_tree() { as_user make -s -j"$JOBS" PG_CONFIG="$PG_CONFIG" "$@" all; }

install_tree() {
	local dir
	dir=$("$PG_CONFIG" --pkglibdir)
	if [ -w "$dir" ] && [ -w "$PG_BINDIR" ]; then
		(cd "$WORK/tree" && make -s PG_CONFIG="$PG_CONFIG" install)
	else
		(cd "$WORK/tree" && as_root make -s PG_CONFIG="$PG_CONFIG" install)
	fi
}

# --- clusters --------------------------------------------------------------------
# cluster_start NAME [CONF...]: initdb and start; each CONF is a line of
# postgresql.conf.  Data in $WORK/NAME, log in $WORK/log/NAME.log; exports PGHOST.
cluster_start() {
	local name=$1 dir=$WORK/$1
	shift
	# shellcheck disable=SC2086 # several words, or none
	as_user initdb -D "$dir" --no-sync -A trust -U postgres --locale=C --encoding=UTF8 ${INITDB_OPTIONS:-} >"$WORK/log/$name.initdb" 2>&1 ||
		{ cat "$WORK/log/$name.initdb"; return 1; }
	as_user mkdir -p "$WORK/s_$name"
	{
		echo "shared_preload_libraries = 'hjoin_gpu'"
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$WORK/s_$name'"
		echo "fsync = off"
		echo "max_connections = 80"
		echo "log_line_prefix = '%m [%p] %b %q%a '"
		echo "restart_after_crash = on"
		echo "hjoin_gpu.auto_calibrate = off"
		printf '%s\n' "$@"
	} | as_user tee -a "$dir/postgresql.conf" >/dev/null
	if ! as_user pg_ctl -D "$dir" -w -t 60 -l "$WORK/log/$name.log" start >"$WORK/log/$name.start" 2>&1; then
		cat "$WORK/log/$name.start"
		tail -20 "$WORK/log/$name.log"
		return 1
	fi
	export PGHOST="$WORK/s_$name" PGUSER=postgres PGDATABASE=postgres
}

cluster_stop() { as_user pg_ctl -D "$WORK/$1" -w -t 60 -m "${2:-fast}" stop >"$WORK/log/$1.stop" 2>&1; }

# lines of a server log that tell of a crash of a server process
crash_lines() {
	grep -E 'was terminated by signal|PANIC:|TRAP:|server process \(PID [0-9]+\) exited with exit code [^01]|all server processes terminated' "$1"
}
