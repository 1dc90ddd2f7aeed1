#!/bin/bash
# check_install.sh [CASE...]: "make check-install".  Proves "make", "make demo" and
# "make check" in fresh roots of Debian releases; last line 'N passed, N failed'.
#
# Needs root, git, debootstrap and a Debian mirror.  Every root has make and a C compiler, and beside
# these what its CASE says:
#   nothing   no package of PostgreSQL
#   client    postgresql-client, libpq-dev: pg_config and pgxs.mk, but neither server nor headers
#   server    postgresql, libpq-dev: no headers
#   headers   server and headers
#   user      the same, and sudo, by which an ordinary user runs the commands
#
#   HJG_RELEASES="bookworm trixie testing"   releases
#   HJG_PARTS="rules pgtap"                  parts of "make check" beside the build
#   HJG_ROWS=400000                          rows of the demo
#   HJG_ROOTS=/var/tmp/hjg_roots             keeps a tar of each release, packages and logs for the next
#                                            run, and holds the roots while they are in use (3 GB each)
#   HJG_MIRROR=URL                           mirror; default: the first one of this machine's apt
#
# A root's mounts live in a mount namespace, its processes in a PID namespace: both end with the command
# that made them, however it ends.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

CASES=${*:-nothing client server headers user}
RELEASES=${HJG_RELEASES:-bookworm trixie testing}
PARTS=${HJG_PARTS:-rules pgtap}
ROWS=${HJG_ROWS:-400000}
ROOTS=${HJG_ROOTS:-/var/tmp/hjg_roots}
MIRROR=${HJG_MIRROR:-$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
	sed -nE '/^#/d; s,.*(https?://[^ ]+/debian)/?( .*)?$,\1,p' | head -1)}
TREE=/usr/src/hjoin_gpu		# in a root
RUN=$ROOTS/run.$$
PASSED=0 FAILED=0 CHILD=

say() { printf '%s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || die "roots are made as root"
[ -n "$MIRROR" ] || die "apt's sources name no mirror of Debian: set HJG_MIRROR"
for tool in debootstrap git unshare; do
	command -v $tool >/dev/null || die "$tool is not here: apt-get install debootstrap git util-linux"
done

mkdir -p "$ROOTS/log"
exec 9>"$ROOTS/lock"
flock -n 9 || die "another run uses $ROOTS"

finish() {
	[ -z "$CHILD" ] || kill -KILL "$CHILD" 2>/dev/null
	wait
	rm -rf "$RUN"
}
trap finish EXIT
trap 'exit 130' INT TERM

# apart COMMAND...: with mounts and processes that end with it; bash handles signals while it waits
apart() {
	local rc
	unshare --mount --pid --fork --kill-child "$@" </dev/null &
	CHILD=$!
	wait "$CHILD"
	rc=$?
	CHILD=
	return $rc
}

# inside ROOT USER COMMAND: the shell's command as a user in a root, for at most two hours; process 1 is
# the shell, as timeout of coreutils 9.10 refuses to be it
inside() {
	# shellcheck disable=SC2016
	apart sh -c 'root=$1 archives=$2 && shift 2 && mount -t proc proc "$root/proc" && mount -t sysfs -o ro sysfs "$root/sys" &&
		mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" && mount -t tmpfs tmpfs "$root/dev/shm" &&
		mount --bind "$archives" "$root/var/cache/apt/archives" && cd / && chroot "$root" timeout -k 10 7200 "$@"' \
		inside "$1" "$ROOTS/$release.archives" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		${http_proxy:+http_proxy="$http_proxy"} DEBIAN_FRONTEND=noninteractive su "$2" -s /bin/bash -c "cd $TREE && $3"
}

# base_root: the release with make and a C compiler, as a tar
base_root() {
	local tar=$ROOTS/$release.tar root=$RUN/base
	mkdir -p "$ROOTS/$release.archives"
	[ ! -f "$tar" ] || return 0
	say "# debootstrap $release from $MIRROR"
	apart debootstrap --variant=minbase --include=make,gcc,libc6-dev "$release" "$root" "$MIRROR" >"$ROOTS/log/$release.debootstrap" 2>&1 || {
		tail -5 "$ROOTS/log/$release.debootstrap"
		return 1
	}
	# no server is started in a root, package lists are as old as they get (there are none), and a mirror may be behind
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
	chmod 755 "$root/usr/sbin/policy-rc.d"
	echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/99mirror"
	rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/archives/*.deb
	tar -C "$root" -cf "$tar.new" . && mv "$tar.new" "$tar"
	rm -rf "$root"
}

# case_root: a root with the packages of a case, and the sources, as they are in this tree
case_root() {
	local root=$RUN/case packages=
	case $case in
		nothing) ;;
		client) packages="postgresql-client libpq-dev" ;;
		server) packages="postgresql libpq-dev" ;;
		headers) packages="postgresql postgresql-server-dev-all" ;;
		user) packages="postgresql postgresql-server-dev-all sudo" ;;
		*) die "no case '$case'" ;;
	esac
	rm -rf "$root"
	mkdir -p "$root" && tar -C "$root" -xf "$ROOTS/$release.tar" || return 1
	cp -L /etc/resolv.conf "$root/etc/resolv.conf"
	mkdir -p "$root$TREE"
	git -c safe.directory='*' ls-files -z --cached --others --exclude-standard | tar --null -T - -cf - | tar -C "$root$TREE" -xf - || return 1
	[ -z "$packages" ] ||
		inside "$root" root "apt-get update -q && apt-get install -y -q --no-install-recommends $packages" >"$LOG.packages" 2>&1 ||
		{ tail -5 "$LOG.packages"; return 1; }
	[ "$case" != user ] ||
		inside "$root" root "useradd -m dev && chown -R dev . && echo 'dev ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/dev" || return 1
}

# fresh: a copy of the case's root for a command that installs something
fresh() { rm -rf "$RUN/root" && cp -a --reflink=auto "$RUN/case" "$RUN/root"; }

# claim TEXT RC: count; the log of what failed is shown
claim() {
	if [ "$2" = 0 ]; then
		PASSED=$((PASSED + 1))
		say "ok - $release, $case: $1"
	else
		FAILED=$((FAILED + 1))
		say "not ok - $release, $case: $1"
		tail -25 "$LOG.log" | cut -c1-160 | sed 's/^/#   /'
	fi
}

# run COMMAND: in the fresh root as the case's user; its output is the log
run() {
	local user=root
	[ "$case" != user ] || user=dev
	inside "$RUN/root" "$user" "$1" >"$LOG.log" 2>&1
}

check_make() {
	LOG=$ROOTS/log/$release.$case.make
	run "make -j$(nproc)"
	local rc=$?
	case $case in
		headers | user)
			[ $rc = 0 ] && [ -x "$RUN/root$TREE/hjoin_gpu_device" ] && [ -f "$RUN/root$TREE/hjoin_gpu.so" ]
			claim "plain make builds" $?
			run "! make src/hjoin_gpu.o | grep -q hjoin_gpu.c && make MAJORVERSION=99 src/hjoin_gpu.o | grep -q hjoin_gpu.c"
			claim "it compiles again for another server, and not for the same" $?
			;;
		*)
			[ $rc = 2 ] && [ "$(wc -l <"$LOG.log")" = 1 ] && grep -q 'apt-get install .*postgresql-server-dev' "$LOG.log"
			claim "plain make says what to install, and no more" $?
			;;
	esac
}

# where the user is an ordinary one the demo's server ends with the command's processes, as by a reboot
check_demo() {
	local stop="&& make demo-stop"
	[ "$case" != user ] || stop=
	LOG=$ROOTS/log/$release.$case.demo
	run "DEMO_ROWS=$ROWS make demo $stop" && [ "$(grep -c 'results: equal' "$LOG.log")" = 5 ]
	claim "make demo shows five equal results" $?
	LOG=$ROOTS/log/$release.$case.demo-stop
	run "make demo-stop && ! ls -d /tmp/hj*"
	claim "make demo-stop leaves nothing" $?
}

check_check() {
	LOG=$ROOTS/log/$release.$case.check
	run "make check PARTS='$PARTS'" && tail -1 "$LOG.log" | grep -qE '^[1-9][0-9]* passed, 0 failed$'
	claim "make check PARTS='$PARTS' passes" $?
}

START=$SECONDS
for release in $RELEASES; do
	mkdir -p "$RUN"
	case=base
	LOG=$ROOTS/log/$release.base
	base_root >"$LOG.log" 2>&1 || { claim "a root of it" 1; continue; }
	for case in $CASES; do
		say "# [$((SECONDS - START))s] $release, $case"
		LOG=$ROOTS/log/$release.$case
		case_root >"$LOG.log" 2>&1 || { claim "a root with its packages" 1; continue; }
		fresh
		check_make
		check_demo
		fresh
		check_check
	done
done
say "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ] && [ "$PASSED" != 0 ]
