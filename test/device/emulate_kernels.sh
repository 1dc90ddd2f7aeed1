#!/bin/sh
# emulate_kernels.sh CXX kernels/NAME.cu OUT.cc: makes of a CUDA file one for the host's compiler, which registers its
# kernels by name (hjg_emulated_cuda.h).  Rewritten are the two things that no macro can be: shared memory that the
# launch sizes, and the assembler's named barrier.
set -e
cxx=$1 from=$2 to=$3
rewrite()
{
	sed -e 's/extern __shared__/extern/' \
		-e 's/asm volatile("bar.sync %0, %1;" : : "r"(\(.*\)), "n"(\(.*\)) : "memory")/hjg_emulated_named_barrier(\1, \2)/' "$1"
}
headers=build/emulated/headers
mkdir -p $headers
for header in kernels/*.h kernels/lab/*.h; do
	new=$(mktemp "$headers/new.XXXXXX")
	rewrite "$header" > "$new"
	mv "$new" "$headers/$(basename "$header")"
done
rewrite "$from" > "$to.new"
names=$($cxx -std=c++17 -x c++ -E -P -w -Isrc -I. -I$headers -Itest/device -include test/device/hjg_emulated_cuda.h "$to.new" |
	tr '\n\t' '  ' | grep -o 'void hjg_k_[a-z0-9_]*(' | sed 's/^void //; s/($//' | sort -u)
{
	cat "$to.new"
	echo 'static HjgEmulatedKernel emulated_kernels[] = {'
	for name in $names; do echo "	HJG_EMULATED($name),"; done
	echo '};'
	echo 'HJG_EMULATED_REGISTER(emulated_kernels)'
} > "$to"
rm "$to.new"
