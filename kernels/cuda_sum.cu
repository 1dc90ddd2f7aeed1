/*
 * cuda_sum.cu
 *	  Checksums of a round's results, computed before they leave the device's memory.
 *
 *		hjg_k_sum_pairs			sums[0] += checksum of pairs (hjg_checksum.h)
 *		hjg_k_sum_columns		sums[1] += checksum of one side's columns beside pairs (hjg_check_payload())
 *
 * Read: 8 bytes a pair, nwords * 4 bytes a row; both have just been written, so a million pairs are mostly
 * in the L2 cache.  Written: 8 bytes a block.  Launch: blocks of HJG_K_SUM_THREADS, at most as many as fit
 * the device at once.  The host checks: first_page + in_page + npairs fits 32 bits.
 */
#include "hjg_cuda_kernel.h"

/* Add the block's part to a sum; all threads call it. */
HJG_FN void
add_block(hjg_u64 *sum, hjg_u64 part)
{
	__shared__ unsigned long long of_warp[HJG_K_SUM_THREADS / 32];
	unsigned long long x = part;

#pragma unroll
	for (int d = 16; d > 0; d >>= 1)
		x += __shfl_down_sync(HJG_ALL_LANES, x, d);
	if (hjg_lane() == 0)
		of_warp[threadIdx.x / 32] = x;
	__syncthreads();
	if (threadIdx.x > 0)
		return;
#pragma unroll
	for (int w = 1; w < HJG_K_SUM_THREADS / 32; w++)
		x += of_warp[w];
	atomicAdd((unsigned long long *) sum, x);
}

extern "C" __global__ __launch_bounds__(HJG_K_SUM_THREADS) void
hjg_k_sum_pairs(const HjgPair *pairs, hjg_u64 npairs, hjg_u64 *sums)
{
	const hjg_u64 stride = (hjg_u64) gridDim.x * HJG_K_SUM_THREADS;
	hjg_u64		sum = 0;

	for (hjg_u64 i = (hjg_u64) blockIdx.x * HJG_K_SUM_THREADS + threadIdx.x; i < npairs; i += stride)
		sum += hjg_checksum_pair(pairs[i].probe_row, pairs[i].build_row);
	add_block(sums, sum);
}

extern "C" __global__ __launch_bounds__(HJG_K_SUM_THREADS) void
hjg_k_sum_columns(HjgKSumColumns a)
{
	const hjg_u64 n = (hjg_u64) a.npairs * a.nwords;
	const hjg_u64 stride = (hjg_u64) gridDim.x * HJG_K_SUM_THREADS;
	const hjg_u32 *words = (const hjg_u32 *) a.words;
	hjg_u64		sum = 0;

	for (hjg_u64 e = (hjg_u64) blockIdx.x * HJG_K_SUM_THREADS + threadIdx.x; e < n; e += stride)
	{
		const hjg_u32 i = e >> 32 ? (hjg_u32) (e / a.nwords) : (hjg_u32) e / a.nwords;
		const hjg_u32 at = a.in_page + i;
		const hjg_u32 first = hjg_checksum_place(a.first_page + at / a.page_pairs, (HjgSideId) a.side);

		sum += hjg_checksum_at(first + at % a.page_pairs * a.nwords + (hjg_u32) (e - (hjg_u64) i * a.nwords), words[e]);
	}
	add_block((hjg_u64 *) a.sums + 1, sum);
}
