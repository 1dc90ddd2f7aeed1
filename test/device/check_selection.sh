#!/bin/sh
# check_selection.sh: the selection of figures 5, 6, 8 and 9 of "001" and Q6 of figure 7 in the laboratory, with both widths of keys, on plain threads and
# on an OpenCL device, where there is one.  Every run checks its rows by number and checksum (lab_coupled_selection.c); here each design
# must appear with its time, and do what it is named after or say that it does not.
out=build/selection.out
rc=0
claim()
{
	if [ "$1" -eq "$2" ]
	then echo "ok - $3"
	else echo "not ok - $3: $1, not $2"; rc=1
	fi
}
lines() { grep -Ec -e "$1" "$out"; }
# figure, arguments of the laboratory
run()
{
	figure=$1; shift
	build/hjoin_gpu_lab "$@" --figures="001, figure $figure" --halves --min-log=18 --max-log=18 --reps=1 > "$out" 2>&1
	claim $? 0 "$*: figure $figure has the right rows"
}
time='[0-9]+ +[0-9.]+ ms'
for width in 4 8
do
	for figure in 5a 6a 8a
	do
		run $figure --threads=6 threads --units=3 --key-width=$width
		claim "$(lines "^  selection .* $time")" 9 "the CPU alone, a division without P, and 7 work-ahead sets"
		claim "$(lines '^  selection .*set of 16384 KB.*P is ignored: nothing lies ahead')" 1 "a set of all rows leaves nothing to fetch, which is told"
		[ $figure = 6a ] && continue
		claim "$(lines '^  selection .*set of 128 KB[^;]*$')" 1 "P fetches with the least set"
	done
	run 7 --threads=6 threads --units=3 --key-width=$width
	claim "$(lines "^  Q6 .* lines +[0-9.]+ ms")" 3 "Q6 on the CPU alone, by E and by PE"
	run 9a --threads=6 threads --units=3 --key-width=$width --was=131072
	claim "$(lines "^  selection +cpde_[cbg] .* $time")" 5 "a boundary on each place of 3 threads and 3 work groups"
	claim "$(lines '^  selection +cpde_g .*, 0C [0-9]G\), 1P [^;]*$')" 2 "the device unpacks, and P fetches, where the boundary is the device's"
	claim "$(lines '^  selection +cpde_c .*; boundary 2 is ignored')" 1 "a boundary that leaves no thread for E is told to be ignored"
done
run 5a --threads=2 threads --units=1 --skew=0.25 --grouping
claim "$(lines '^  --(skew|grouping) is ignored')" 2 "options that a selection does not have are told to be ignored"
if ./hjoin_gpu_device --list | grep -v 'not usable' | grep -q '^opencl:0'
then
	for figure in 5 6 8 9
	do
		run $figure opencl:0 --selectivity=0.5
		claim "$(lines "^  selection .* ms")" "$(lines "^  join .* ms")" "a selection for each join"
	done
	run 5a opencl:0 --copies
	claim "$(lines '^  selection: not on a device that works on copies')" 1 "a device that works on copies has none, which is told"
else
	echo '# skipped: an OpenCL device, as there is none'
fi
rm -f "$out"
exit $rc
