# count.awk: "PASSED FAILED SKIPPED" of the output of one test program; what is skipped counts as passed, too.
# Knows the plain closing line, TAP, and pg_regress before it spoke TAP.
/^([a-z_-]+: )?[0-9]+ passed, [0-9]+ failed/ {
	line = $0
	sub(/^[a-z_-]+: /, "", line)
	split(line, w, /[ ,]+/)
	plain_p += w[1]; plain_f += w[3]; plain++
	next
}
/^self-test: [0-9]+ joins, [0-9]+ failed/ { p += $2 - $4; f += $4; next }
/^not ok [0-9]+/ { if ($0 !~ /# (TODO|SKIP)/) f++; next }
/^ok [0-9]+.*# (SKIP|skip)/ { s++ }
/^1\.\.0 # (SKIP|skip)/ { s++ }
/^ok [0-9]+/ { p++; next }
/^(test| {5,}) *[A-Za-z0-9_]+ +\.\.\. +ok/ { p++; next }
/^(test| {5,}) *[A-Za-z0-9_]+ +\.\.\. +(FAILED|failed)/ { f++; next }
END {
	if (plain) { p = plain_p; f = plain_f }
	print p + 0, f + 0, s + 0
}
