# roots.sh: fresh roots of Debian releases for the tests of this directory.  Sourced by bash, after ROOT_HAS is set.
#
# Needs root, git, debootstrap and a Debian mirror.
#
#   HJG_RELEASES="bookworm trixie testing"   releases
#   HJG_ROOTS=/var/tmp/hjg_roots             keeps a tar of each release, packages and logs for the next
#                                            run, and holds the roots while they are in use (3 GB each)
#   HJG_MIRROR=URL                           mirror; default: the first one of this machine's apt
#
# A root's mounts live in a mount namespace, its processes in a PID namespace: both end with the command
# that made them, however it ends.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

RELEASES=${HJG_RELEASES:-bookworm trixie testing}
ROOTS=${HJG_ROOTS:-/var/tmp/hjg_roots}
MIRROR=${HJG_MIRROR:-$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
	sed -nE '/^#/d; s,.*(https?://[^ ]+/debian)/?( .*)?$,\1,p' | head -1)}
TREE=/usr/src/hjoin_gpu		# in a root
RUN=$ROOTS/run.$$
PASSED=0 FAILED=0 CHILD=
START=$SECONDS

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

# base_root: the release with the packages of ROOT_HAS, as a tar
base_root() {
	local tar=$ROOTS/$release${ROOT_HAS:+.$ROOT_HAS}.tar root=$RUN/base
	mkdir -p "$RUN" "$ROOTS/$release.archives"
	BASE=$tar
	[ ! -f "$tar" ] || return 0
	say "# debootstrap $release from $MIRROR"
	apart debootstrap --variant=minbase ${ROOT_HAS:+--include="$ROOT_HAS"} "$release" "$root" "$MIRROR" >"$ROOTS/log/$release.debootstrap" 2>&1 || {
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

# case_root [PACKAGE...]: $RUN/case, a root with these packages, and the sources, as they are in this tree
case_root() {
	local root=$RUN/case
	rm -rf "$root"
	mkdir -p "$root" && tar -C "$root" -xf "$BASE" || return 1
	cp -L /etc/resolv.conf "$root/etc/resolv.conf"
	mkdir -p "$root$TREE"
	git -c safe.directory='*' ls-files -z --cached --others --exclude-standard | tar --null -T - -cf - | tar -C "$root$TREE" -xf - || return 1
	[ $# = 0 ] ||
		inside "$root" root "apt-get update -q && apt-get install -y -q --no-install-recommends $*" >"$LOG.packages" 2>&1 ||
		{ tail -5 "$LOG.packages"; return 1; }
}

# claim TEXT RC: count; the log of what failed is shown
claim() {
	if [ "$2" = 0 ]; then
		PASSED=$((PASSED + 1))
		say "ok - $release, $case: $1"
	else
		FAILED=$((FAILED + 1))
		say "not ok - $release, $case: $1"
		tail -25 "$LOG.log" | cut -c1-160 | sed 's/^/#   /'
		return 1
	fi
}

# verdict: the last line, and what the test exits with
verdict() {
	say "$PASSED passed, $FAILED failed"
	[ "$FAILED" = 0 ] && [ "$PASSED" != 0 ]
}
