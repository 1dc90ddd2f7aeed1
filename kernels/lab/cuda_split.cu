/*
 * cuda_split.cu
 *	  Ordering a batch of rows by partition, to keep some partitions on the device and return the others
 *	  to the host (lab_host_spill.c).
 *
 * count_digits, then split_rows.  The last bits of a row's mixed key are its partition (lab/hjg_stage.h),
 * so that joins of the kept rows, which use the leading bits, have even partitions.  Keys are written raw,
 * beside columns of row numbers, since spilled rows return as input.
 *
 * The host sets the start of each partition (base), because it decides which ones stay.  A tile is ordered
 * in shared memory and written run by run, as by scatter_rows (cuda_partition.cu); with up to 2^8
 * partitions runs are long, and torn sectors few.
 *
 * Bytes a row, 4-byte keys: count_digits reads 4; split_rows reads 4 (8 with row numbers) and writes 8.
 * On an H100 8M rows with 64 partitions take 0.017 ms (61 % of the memory's bandwidth) and 0.057 ms (40
 * %); the bus transfers their keys in 0.6 ms.
 */
#include "hjg_cuda_kernel.h"
#include "lab/hjg_cuda_paper_args.h"

#define COUNT_THREADS 512
#define SPLIT_THREADS 512

/* Return the word whose last bits number partitions. */
HJG_FN hjg_u32 last_word(hjg_u32 key) { return hjg_mix32(hjg_hash_seed, key); }
HJG_FN hjg_u32 last_word(hjg_u64 key) { return (hjg_u32) hjg_mix64(hjg_hash_seed, key); }
HJG_FN hjg_u32 last_word(ulonglong2 key) { return (hjg_u32) hjg_mix128(hjg_hash_seed, key.x, key.y); }

/*
 * Count the rows of each partition.  Blocks of 512 threads, as many as fit; each reads every gridDim.x-th
 * 512 rows.
 */
template <int W> HJG_FN void
count_digits(const HjgKSplit &a)
{
	__shared__ hjg_u32 counts[1 << HJG_K_SPLIT_BITS];
	const typename HjgKey<W>::Raw *keys = (const typename HjgKey<W>::Raw *) a.side.keys;
	const hjg_u32 nparts = 1u << a.bits;
	const hjg_u32 stride = gridDim.x * COUNT_THREADS;
	const int	LOADS = 8;
	hjg_u32		i = blockIdx.x * COUNT_THREADS + threadIdx.x;

	if (threadIdx.x < nparts)
		counts[threadIdx.x] = 0;
	__syncthreads();
	for (; i + (LOADS - 1) * stride < a.side.nrows; i += LOADS * stride)
	{
		typename HjgKey<W>::Raw key[LOADS];

#pragma unroll
		for (int u = 0; u < LOADS; u++)
			key[u] = __ldcg(&keys[i + u * stride]);
#pragma unroll
		for (int u = 0; u < LOADS; u++)
			atomicAdd(&counts[last_word(key[u]) & (nparts - 1)], 1u);
	}
	for (; i < a.side.nrows; i += stride)
		atomicAdd(&counts[last_word(keys[i]) & (nparts - 1)], 1u);
	__syncthreads();
	if (threadIdx.x < nparts && counts[threadIdx.x] > 0)
		atomicAdd((hjg_u32 *) a.counts + threadIdx.x, counts[threadIdx.x]);
}

/*
 * Scatter the rows.  Blocks of 512 threads, two a multiprocessor; each takes every gridDim.x-th tile of
 * 512 * ITEMS rows.  Dynamic shared memory: the tile's rows.
 */
template <int W, int ITEMS> HJG_FN void
split_rows(const HjgKSplit &a)
{
	extern __shared__ __align__(16) hjg_u32 shared[];
	__shared__ hjg_u32 sums[33];
	/* counts, then the run's target minus its place */
	__shared__ hjg_u32 place[1 << HJG_K_SPLIT_BITS];
	__shared__ hjg_u32 run[1 << HJG_K_SPLIT_BITS];	/* the run's place in the tile */
	typedef typename HjgKey<W>::Raw Raw;
	const hjg_u32 TILE = SPLIT_THREADS * ITEMS;
	const hjg_u32 nparts = 1u << a.bits;
	const hjg_u32 tid = threadIdx.x;
	const Raw  *keys = (const Raw *) a.side.keys;
	const hjg_u32 *rows = (const hjg_u32 *) a.side.rows;
	Raw		   *tile_keys = (Raw *) shared;
	hjg_u32    *tile_rows = (hjg_u32 *) (tile_keys + TILE);
	const hjg_u32 ntiles = (a.side.nrows + TILE - 1) / TILE;
	Raw			key[ITEMS];
	hjg_u32		row[ITEMS];
	hjg_u32		rank[ITEMS];

	for (hjg_u32 t = blockIdx.x; t < ntiles; t += gridDim.x)
	{
		const hjg_u32 first = t * TILE;
		const hjg_u32 n = min(TILE, a.side.nrows - first);
		hjg_u32		mine;
		hjg_u32		before;

		if (tid < nparts)
			place[tid] = 0;
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			const hjg_u32 i = j * SPLIT_THREADS + tid;

			if (i >= n)
				continue;
			key[j] = __ldcs(&keys[first + i]);
			row[j] = rows != nullptr ? __ldcs(&rows[first + i]) : a.first_row + first + i;
		}
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
			if (j * SPLIT_THREADS + tid < n)
				rank[j] = atomicAdd(&place[last_word(key[j]) & (nparts - 1)], 1u);
		__syncthreads();
		mine = tid < nparts ? place[tid] : 0;
		before = hjg_block_sum_before<SPLIT_THREADS>(mine, sums);
		if (tid < nparts)
		{
			run[tid] = before;
			if (mine > 0)
				place[tid] = a.base[tid] + atomicAdd((hjg_u32 *) a.cursors + tid, mine) - before;
		}
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
			if (j * SPLIT_THREADS + tid < n)
			{
				const hjg_u32 at = run[last_word(key[j]) & (nparts - 1)] + rank[j];

				tile_keys[at] = key[j];
				tile_rows[at] = row[j];
			}
		__syncthreads();
		for (hjg_u32 i = tid; i < n; i += SPLIT_THREADS)
		{
			const Raw	k = tile_keys[i];
			const hjg_u32 to = place[last_word(k) & (nparts - 1)] + i;

			((Raw *) a.out.keys)[to] = k;
			((hjg_u32 *) a.out.rows)[to] = tile_rows[i];
		}
		__syncthreads();
	}
}

#define SPLIT_KERNELS(W, ITEMS) \
	extern "C" __global__ __launch_bounds__(COUNT_THREADS) void \
	hjg_k_count_digits_##W(HjgKSplit a) { count_digits<W>(a); } \
	extern "C" __global__ __launch_bounds__(SPLIT_THREADS, 2) void \
	hjg_k_split_rows_##W(HjgKSplit a) { split_rows<W, ITEMS>(a); }

SPLIT_KERNELS(4, 12)
SPLIT_KERNELS(8, 12)
SPLIT_KERNELS(16, 6)

/* Copy words.  One block; from: device memory, to: pinned host memory (see cuda_flow.cu). */
extern "C" __global__ void
hjg_k_post_counts(const hjg_u32 *from, volatile hjg_u32 *to, hjg_u32 n)
{
	for (hjg_u32 i = threadIdx.x; i < n; i += blockDim.x)
		to[i] = from[i];
	__threadfence_system();
}
