/*
 * cuda_holes.cu
 *	  Closing the holes that pages of threads or chunks of blocks leave in an output; emptying the
 *	  buffer of a group.
 *
 * Pages lie in [0, pages * page_pairs), partly in the spill; their unfilled ends are holes.  With n pairs
 * in total, as many pairs lie at or after place n as there are holes below n: the pairs move into the
 * holes.
 *
 *		hjg_k_count_holes	one thread an owner
 *		hjg_k_list_holes	one thread an owner, once the number of pairs is known
 *		hjg_k_fill_holes	blocks of 256 threads, as many as fit
 *
 * The buffer of a group is instead copied to the output, chunk by chunk, except the chunks of units that
 * were given up:
 *
 *		hjg_k_measure_chunks	pairs of each chunk; the grid covers nchunks + 1
 *		hjg_k_copy_chunks		after their sums; one block a chunk
 *
 * Work and bytes of closing holes are proportional to the number of owners, not of pairs.
 */
#include "hjg_cuda_sink.h"

#define HOLE_THREADS 256

extern "C" __global__ __launch_bounds__(HOLE_THREADS) void
hjg_k_count_holes(HjgKHoles a)
{
	const hjg_u32 i = blockIdx.x * HOLE_THREADS + threadIdx.x;
	hjg_u64		holes = i < a.nowners ? (hjg_u32) ((const hjg_u64 *) a.sink.open)[i] : 0;

#pragma unroll
	for (int d = 16; d > 0; d >>= 1)
		holes += __shfl_down_sync(HJG_ALL_LANES, holes, d);
	if (hjg_lane() == 0 && holes > 0)
		atomicAdd((unsigned long long *) a.nholes, (unsigned long long) holes);
}

/* Compute the number of pairs. */
HJG_FN hjg_u64
pairs_of(const HjgKHoles &a)
{
	return *(const hjg_u64 *) a.sink.taken * a.sink.page_pairs - *(const hjg_u64 *) a.nholes;
}

extern "C" __global__ __launch_bounds__(HOLE_THREADS) void
hjg_k_list_holes(HjgKHoles a)
{
	const hjg_u32 i = blockIdx.x * HOLE_THREADS + threadIdx.x;
	const hjg_u64 npairs = pairs_of(a);
	unsigned long long *listed = (unsigned long long *) a.nholes + 1;

	if (i == 0)
		*(hjg_u64 *) a.sink.output.counters = npairs;
	if (i >= a.nowners || npairs > a.sink.output.capacity)
		return;
	const hjg_u64 open = ((const hjg_u64 *) a.sink.open)[i];
	const hjg_u64 last = (open >> 32) * a.sink.page_pairs;

	for (hjg_u64 place = last - (hjg_u32) open; place < last; place++)
		if (place < npairs)
			((hjg_u64 *) a.holes)[atomicAdd(listed, 1ull)] = place;
		else
			((hjg_u8 *) a.marks)[place - npairs] = 1;
}

extern "C" __global__ __launch_bounds__(HOLE_THREADS) void
hjg_k_fill_holes(HjgKHoles a)
{
	const HjgPaged paged(a.sink);
	const hjg_u64 npairs = pairs_of(a);
	const hjg_u64 beyond = *(const hjg_u64 *) a.nholes;
	unsigned long long *moved = (unsigned long long *) a.nholes + 2;

	if (npairs > a.sink.output.capacity)
		return;
	for (hjg_u64 i = blockIdx.x * HOLE_THREADS + threadIdx.x; i < beyond; i += gridDim.x * HOLE_THREADS)
		if (!((const hjg_u8 *) a.marks)[i])
			*paged.at(((const hjg_u64 *) a.holes)[atomicAdd(moved, 1ull)]) = *paged.at(npairs + i);
}

extern "C" __global__ __launch_bounds__(HOLE_THREADS) void
hjg_k_measure_chunks(HjgKChunks a)
{
	const hjg_u64 i = (hjg_u64) blockIdx.x * HOLE_THREADS + threadIdx.x;
	hjg_u64		npairs = 0;

	if (i > a.sink.nchunks)
		return;
	if (i < min(*(const hjg_u64 *) a.sink.taken, a.sink.nchunks) &&
		((const hjg_u8 *) a.sink.unit_done)[((const hjg_u32 *) a.sink.chunk_unit)[i]])
		npairs = ((const hjg_u32 *) a.sink.chunk_pairs)[i];
	((hjg_u64 *) a.offsets)[i] = npairs;
}

extern "C" __global__ __launch_bounds__(HOLE_THREADS) void
hjg_k_copy_chunks(HjgKChunks a)
{
	const hjg_u64 *offsets = (const hjg_u64 *) a.offsets;
	const hjg_u64 from = a.base + offsets[blockIdx.x];
	const hjg_u64 npairs = offsets[blockIdx.x + 1] - offsets[blockIdx.x];
	const uint2 *chunk = (const uint2 *) a.sink.spill + (hjg_u64) blockIdx.x * HJG_K_CHUNK_PAIRS;

	for (hjg_u64 i = threadIdx.x; i < npairs; i += HOLE_THREADS)
		if (from + i < a.sink.output.capacity)
			__stcs((uint2 *) a.sink.output.pairs + from + i, chunk[i]);
}
