#!/bin/bash
# check_deb.sh: "make check-deb".  In fresh roots of Debian releases, "make deb" builds packages in which lintian finds
# nothing, and PGXN's client installs the archive of "make dist"; roots without compiler and headers install, upgrade and
# remove the packages (deb_in_root.sh).  Last line 'N passed, N failed'; settings: roots.sh, and
#
#   HJG_DEBS=DIR    packages of two revisions, to be tested in the place of those that roots build
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
ROOT_HAS=
. test/install/roots.sh

# build COMMAND: in the case's root; its output is the log
build() { inside "$RUN/case" root "$1" >"$LOG.log" 2>&1; }

# build_case: leaves packages of two revisions in $RUN/debs
build_case() {
	case_root make gcc libc6-dev lintian pgxnclient >"$LOG.log" 2>&1 || { claim "a root with its packages" 1; return; }
	build "make deb && make deb REVISION=2 && ls build/deb/*.deb | grep -c 'hjoin-gpu_.*-[12]_' | grep -x 2"
	claim "make deb installs what it needs and builds, of two revisions" $? || return
	cp "$RUN/case$TREE"/build/deb/*.deb "$RUN/debs"
	build "lintian --allow-root build/deb/*.deb >/tmp/lintian; cat /tmp/lintian && ! grep '^[EW]:' /tmp/lintian"
	claim "lintian finds nothing in the packages" $?
	build "for deb in build/deb/*.deb; do dpkg-deb -x \$deb /tmp/files; done; [ -f /tmp/files/usr/lib/postgresql/*/lib/hjoin_gpu.so ] && ! grep -rF $TREE /tmp/files"
	claim "no file names the place where it was built" $?
	cp build/dist/hjoin_gpu-*.zip "$RUN/case/tmp"
	# shellcheck disable=SC2016
	build 'set -e; export MAKEFLAGS=-j$(nproc); zip=$(echo /tmp/hjoin_gpu-*.zip) major=$(pg_config --version | sed "s/^PostgreSQL \([0-9]*\).*/\1/"); cd /tmp
		[ ! -e "$(pg_config --pkglibdir)/hjoin_gpu.so" ]
		pgxn install --nosudo --yes "$zip"
		pg_conftool "$major" main set shared_preload_libraries hjoin_gpu
		pg_conftool "$major" main set listen_addresses ""
		pg_ctlcluster "$major" main start
		su postgres -c "pgxn load --yes -d postgres $zip"
		su postgres -c "psql -XAtc '\''select count(*) > 0 from hjoin_gpu_stat'\'' postgres" | grep -x t'
	claim "PGXN's client installs the archive and loads the extension" $?
}

# server_case OLD NEW
server_case() {
	local line ended=1
	case_root >"$LOG.log" 2>&1 || { claim "a root of it" 1; return; }
	mkdir -p "$RUN/case$TREE/build" && cp "$1" "$2" "$RUN/case$TREE/build"
	inside "$RUN/case" root "test/install/deb_in_root.sh $TREE/build/${1##*/} $TREE/build/${2##*/}" >"$LOG.log" 2>&1
	while read -r line; do
		case $line in
			"ok - "*) claim "${line#*- }" 0 ;;
			"not ok - "*) claim "${line#*- }" 1 ;;
			end) ended=0 ;;
		esac
	done <"$LOG.log"
	claim "the test came to its end" $ended
}

case=dist release=archive LOG=$ROOTS/log/dist
rm -f build/dist/*.zip
src/package/make_dist.sh >"$LOG.log" 2>&1 && ls build/dist/hjoin_gpu-*.zip
claim "make dist makes an archive" $?
for release in $RELEASES; do
	case=build LOG=$ROOTS/log/$release.build
	base_root >"$LOG.log" 2>&1 || { claim "a root of it" 1; continue; }
	rm -rf "$RUN/debs"
	mkdir -p "$RUN/debs"
	if [ -n "${HJG_DEBS:-}" ]; then cp "$HJG_DEBS"/*.deb "$RUN/debs"
	else say "# [$((SECONDS - START))s] $release, build"; build_case
	fi
	for old in "$RUN"/debs/*-1_*.deb; do
		[ -e "$old" ] || continue
		new=$(echo "${old%-1_*}"-2_*.deb)
		case=$(dpkg-deb -f "$old" Package)
		LOG=$ROOTS/log/$release.$case
		say "# [$((SECONDS - START))s] $release, $case"
		server_case "$old" "$new"
	done
done
verdict
