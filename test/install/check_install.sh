#!/bin/bash
# check_install.sh [CASE...]: "make check-install".  Proves "make", "make demo" and
# "make check" in fresh roots of Debian releases; last line 'N passed, N failed'.
#
# Every root has make and a C compiler, and beside
# these what its CASE says:
#   nothing   no package of PostgreSQL
#   client    postgresql-client, libpq-dev: pg_config and pgxs.mk, but neither server nor headers
#   server    postgresql, libpq-dev: no headers
#   headers   server and headers
#   user      the same, and sudo, by which an ordinary user runs the commands
#
#   HJG_PARTS="rules pgtap"                  parts of "make check" beside the build
#   HJG_ROWS=400000                          rows of the demo
#
# and the settings of roots.sh.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
ROOT_HAS=make,gcc,libc6-dev
. test/install/roots.sh

CASES=${*:-nothing client server headers user}
PARTS=${HJG_PARTS:-rules pgtap}
ROWS=${HJG_ROWS:-400000}

# install_case: a root with the packages of a case
install_case() {
	local packages=
	case $case in
		nothing) ;;
		client) packages="postgresql-client libpq-dev" ;;
		server) packages="postgresql libpq-dev" ;;
		headers) packages="postgresql postgresql-server-dev-all" ;;
		user) packages="postgresql postgresql-server-dev-all sudo" ;;
		*) die "no case '$case'" ;;
	esac
	# shellcheck disable=SC2086
	case_root $packages || return 1
	[ "$case" != user ] ||
		inside "$RUN/case" root "useradd -m dev && chown -R dev . && echo 'dev ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/dev"
}

# fresh: a copy of the case's root for a command that installs something
fresh() { rm -rf "$RUN/root" && cp -a --reflink=auto "$RUN/case" "$RUN/root"; }

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

for release in $RELEASES; do
	case=base
	LOG=$ROOTS/log/$release.base
	base_root >"$LOG.log" 2>&1 || { claim "a root of it" 1; continue; }
	for case in $CASES; do
		say "# [$((SECONDS - START))s] $release, $case"
		LOG=$ROOTS/log/$release.$case
		install_case >"$LOG.log" 2>&1 || { claim "a root with its packages" 1; continue; }
		fresh
		check_make
		check_demo
		fresh
		check_check
	done
done
verdict
