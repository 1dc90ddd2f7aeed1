#!/bin/bash
# run_lint.sh: "make lint".  The rules of the house, cppcheck, a build with gcc and
# one with clang without a warning; clang-format is advice and never fails.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. test/lib.sh

say "== packages"
install_packages lint
make_work lint
trap 'rm -rf "$WORK"' EXIT
cd "$WORK/tree" || exit 1
PASSED=0 FAILED=0

# verdict NAME LOG RC
verdict() {
	if [ "$3" = 0 ]; then PASSED=$((PASSED + 1)); say "ok - $1"
	else FAILED=$((FAILED + 1)); say "not ok - $1"; tail -60 "$2"; fi
}

perl test/check_rules.pl >"$WORK/log/rules" 2>&1
verdict "rules of the house" "$WORK/log/rules" $?

server=$("$PG_CONFIG" --includedir-server)
pure=$(find src/layout src/model src/arena src/vector src/engine src/coupled src/device src/lab -name '*.c' ! -name '*_pg.c' 2>/dev/null)
inside=$(find src -name '*.c' | grep -vxF -f <(printf '%s\n' $pure))
# autoVariables and pointerSize are left out: a pool's run lives on the caller's stack while
# it waits, and a pointer is stored before an aligned block, both as intended
cppcheck_run() {
	cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability --inline-suppr --error-exitcode=1 -j"$JOBS" \
		--suppress=missingInclude --suppress=missingIncludeSystem --suppress=unknownMacro --suppress=autoVariables --suppress=pointerSize --suppress=normalCheckLevelMaxBranches \
		-Isrc -I. "$@"
}
# shellcheck disable=SC2086
cppcheck_run $pure >"$WORK/log/cppcheck_pure" 2>&1
verdict "cppcheck, rooms that do not know PostgreSQL" "$WORK/log/cppcheck_pure" $?
# shellcheck disable=SC2086
cppcheck_run '-Dpg_unreachable()=__builtin_unreachable()' '-Dereport(level,...)=hjg_lint_report(level)' '-Delog(level,...)=hjg_lint_report(level)' $inside >"$WORK/log/cppcheck_pg" 2>&1
verdict "cppcheck, rooms inside PostgreSQL" "$WORK/log/cppcheck_pg" $?

for cc in gcc clang; do
	as_user make -s PG_CONFIG="$PG_CONFIG" clean >/dev/null 2>&1
	as_user make -s -j"$JOBS" PG_CONFIG="$PG_CONFIG" CC=$cc COPT="$([ $cc = gcc ] || echo '-Wno-unknown-warning-option -Wno-ignored-optimization-argument -Wno-ignored-attributes')" all lab >"$WORK/log/$cc" 2>&1
	verdict "$cc builds everything under -Wall -Wextra -Werror" "$WORK/log/$cc" $?
done

bad=0
for f in $(find src test -name '*.sh') .ci/run; do bash -n "$f" >>"$WORK/log/shell" 2>&1 || bad=1; done
for f in $(find test -name '*.pl'); do
	case $f in test/t/*) inc="-I $PGXS_TOP/src/test/perl -I test/t" ;; *) inc="-I $(dirname "$f")" ;; esac
	# shellcheck disable=SC2086
	perl -c $inc "$f" >>"$WORK/log/shell" 2>&1 || bad=1
done
verdict "scripts parse" "$WORK/log/shell" $bad

n=$(find src test -name '*.[ch]' -exec clang-format --dry-run {} + 2>&1 | grep -c 'warning:')
say "(clang-format would change $n places; run 'clang-format -i FILE' where it helps)"
say "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
