#!/bin/sh
# check_lab.sh: joins of the literature and of the product by their kernels, all strategies by name.  On the host, which the
# kernels are compiled for (emulated_threads.c), every strategy with every shape of keys: duplicates, skew, one key, none with a
# partner, keys of all bits; and the comparisons of the papers and joins of sides in host memory with few rows, each result
# checked by number and checksum of its pairs.  On a GPU, where there is one, the same with more rows.
rc=0
run()
{
	"$@" > build/check_lab.out 2>&1 && ! grep -E '^not ok|WRONG' build/check_lab.out > /dev/null && return
	echo "not ok - $*"
	grep -v '^ok' build/check_lab.out | tail -20
	rc=1
}
if [ -e build/emulated/libcuda.so.1 ]
then
	host="env LD_LIBRARY_PATH=build/emulated HJG_STUB_MEMORY=4096"
	run $host build/test_resident --shapes ${HJG_TEST_SEED:+"$HJG_TEST_SEED"}
	grep -E '^# seed| joined ' build/check_lab.out
	for paper in 002 003 004; do run $host build/hjoin_gpu_lab cuda:0 --paper $paper --rows 0.00002 --reps 1; done
	run $host build/hjoin_gpu_lab cuda:0 --host --rows 0.00001 --chunk 1024 --reps 1
	echo '# not shown on the host: races between two barriers, blocks that run at the same time, the order of streams'
else
	echo '# skipped: kernels on the host, as there is no C++ compiler'
fi
if ./hjoin_gpu_device --list | grep -v 'not usable' | grep -q '^cuda:0'
then
	run build/test_resident ${HJG_TEST_SEED:+"$HJG_TEST_SEED"}
	for paper in 002 003 004; do run build/hjoin_gpu_lab cuda:0 --paper $paper --rows 0.01 --reps 1; done
	run build/hjoin_gpu_lab cuda:0 --host --rows 0.01 --reps 1
else
	echo '# skipped: the same on a GPU, as there is none; there also under compute-sanitizer: build/test_resident --brief'
fi
rm -f build/check_lab.out
exit $rc
