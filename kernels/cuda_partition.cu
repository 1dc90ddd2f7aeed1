/*
 * cuda_partition.cu
 *	  Radix partitioning of rows by the leading bits of their mixed keys: counting, placing, plain
 *	  scatter.
 *
 * count_keys, place_parts, then scatter: every partition has exactly the room it needs, so skew costs
 * nothing extra.  A tile of rows is ordered by partition in shared memory, each run reserves room at the
 * partition's cursor with one atomic, and the tile is written run by run.  The order of rows within a
 * partition is undefined, so neither look-back nor stable ranks are needed.
 *
 *		scatter_rows, scatter_again		runs of some hundred bytes, up to 2^8 partitions a pass
 *		scatter_aligned					in cuda_aligned.cu: 4-byte keys, up to 2^12 partitions in one pass
 *
 * Bytes a row, 4-byte keys: count_keys reads 4; scatter_rows reads 8 (4 without a column of row numbers),
 * scatter_again 8; both write 8.  On an H100 that copies 3.0 TB/s, 128M rows: count_keys 0.19 ms (floor
 * 0.18); scatter_rows 1.1 ms with 2^8 partitions (floor 0.72).  Placing partitions in the last counting
 * block is no faster.
 */
#include "hjg_cuda_scatter.h"

/* multiprocessors of other targets have fewer than 2048 threads */
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ >= 900)
#define COUNT_BLOCKS 2
#else
#define COUNT_BLOCKS 1
#endif

/* ---- counting ---- */

/*
 * Count the keys of each partition.  Blocks of 1024 threads, as many as fit; 4 << bits bytes of dynamic
 * shared memory: two blocks a multiprocessor up to 12 bits, one up to 15.
 */
template <int W> HJG_FN void
count_keys(const HjgKCount &a)
{
	extern __shared__ __align__(16) hjg_u32 shared[];
	typedef HjgKey<W> Key;
	typedef typename Key::Raw Raw;
	const int	LOADS = 4;		/* of 16 bytes each, in flight */
	const hjg_u32 KEYS = 16 / W;	/* of one load */
	union Load
	{
		uint4		wide;
		Raw			key[KEYS];
		__device__ Load() {}
	};
	const Raw  *keys = (const Raw *) a.side.keys;
	const uint4 *loads = (const uint4 *) a.side.keys;
	hjg_u32    *counts = (hjg_u32 *) a.counts;
	const hjg_u32 nparts = 1u << a.bits;
	const hjg_u32 shift = 32 - a.bits;
	const hjg_u32 stride = gridDim.x * HJG_K_COUNT_THREADS;
	const hjg_u32 nloads = a.side.nrows / KEYS;
	hjg_u32		i = blockIdx.x * HJG_K_COUNT_THREADS + threadIdx.x;

	auto count = [&](Raw key) { atomicAdd(&shared[Key::top(Key::mix(key)) >> shift], 1u); };

	for (hjg_u32 p = threadIdx.x; p < nparts; p += HJG_K_COUNT_THREADS)
		shared[p] = 0;
	__syncthreads();
	for (; i + (LOADS - 1) * stride < nloads; i += LOADS * stride)
	{
		Load		q[LOADS];

#pragma unroll
		for (int u = 0; u < LOADS; u++)
			q[u].wide = __ldcs(loads + i + u * stride);
#pragma unroll
		for (int u = 0; u < LOADS; u++)
#pragma unroll
			for (int k = 0; k < KEYS; k++)
				count(q[u].key[k]);
	}
	for (; i < nloads; i += stride)
	{
		Load		q;

		q.wide = __ldcs(loads + i);
#pragma unroll
		for (int k = 0; k < KEYS; k++)
			count(q.key[k]);
	}
	if (blockIdx.x == 0 && threadIdx.x < a.side.nrows % KEYS)
		count(keys[nloads * KEYS + threadIdx.x]);
	__syncthreads();
	for (hjg_u32 p = threadIdx.x; p < nparts; p += HJG_K_COUNT_THREADS)
		if (shared[p] > 0)
			atomicAdd(&counts[p], shared[p]);
}

extern "C" __global__ __launch_bounds__(HJG_K_COUNT_THREADS, COUNT_BLOCKS) void hjg_k_count_keys_4(HjgKCount a) { count_keys<4>(a); }
extern "C" __global__ __launch_bounds__(HJG_K_COUNT_THREADS, COUNT_BLOCKS) void hjg_k_count_keys_8(HjgKCount a) { count_keys<8>(a); }
extern "C" __global__ __launch_bounds__(HJG_K_COUNT_THREADS, COUNT_BLOCKS) void hjg_k_count_keys_16(HjgKCount a) { count_keys<16>(a); }

/*
 * Sum of(k) over all k below i, this thread's number in the grid.  Each block sums all numbers before it,
 * at most 2^15, so that no block waits for another.  *last: the sum including this block's numbers.  All
 * threads of the block call it; sums as for hjg_block_sum_before().
 */
template <class Of> HJG_FN hjg_u32
sum_below(hjg_u32 i, hjg_u32 n, hjg_u32 *sums, hjg_u32 *last, Of of)
{
	const hjg_u32 from = blockIdx.x * HJG_K_LIST_THREADS;
	hjg_u32		before = 0;

#pragma unroll 8
	for (hjg_u32 k = threadIdx.x; k < from; k += HJG_K_LIST_THREADS)
		before += of(k);
	hjg_block_sum_before<HJG_K_LIST_THREADS>(before, sums);
	before = sums[32];
	__syncthreads();

	const hjg_u32 sum = before + hjg_block_sum_before<HJG_K_LIST_THREADS>(i < n ? of(i) : 0, sums);

	*last = before + sums[32];
	return sum;
}

/* Compute the bounds of each partition. */
HJG_FN void
scan_counts(const HjgKPlace &a, hjg_u32 *sums)
{
	const hjg_u32 *counts = (const hjg_u32 *) a.counts;
	const hjg_u32 nparts = 1u << a.bits;
	const hjg_u32 pad = (1u << a.align_bits) - 1;
	const hjg_u32 i = blockIdx.x * HJG_K_LIST_THREADS + threadIdx.x;
	const hjg_u32 n = i < nparts ? counts[i] : 0;
	hjg_u32		most = n;
	hjg_u32		last;
	const hjg_u32 first = sum_below(i, nparts, sums, &last, [&](hjg_u32 k) { return (counts[k] + pad) & ~pad; });

#pragma unroll
	for (int d = 16; d > 0; d >>= 1)
		most = max(most, __shfl_xor_sync(HJG_ALL_LANES, most, d));
	if (hjg_lane() == 0)
		atomicMax((hjg_u32 *) a.largest, most);
	if (i >= nparts)
		return;
	((hjg_u32 *) a.parts.first)[i] = first;
	((hjg_u32 *) a.parts.last)[i] = first + n;
	((hjg_u32 *) a.up)[i] = first;
	((hjg_u32 *) a.down)[i] = first + n;
	if (a.coarse != 0 && (i & ((1u << a.fine_bits) - 1)) == 0)
		((hjg_u32 *) a.coarse)[i >> a.fine_bits] = first;
}

/*
 * List the units of the following join.  counts are those of the probe side, since other blocks have not
 * written its bounds yet.
 */
HJG_FN void
list_units(const HjgKUnits &a, const hjg_u32 *counts, hjg_u32 *sums)
{
	const hjg_u32 *build_first = (const hjg_u32 *) a.build.first;
	const hjg_u32 *build_last = (const hjg_u32 *) a.build.last;
	hjg_u32    *unit_first = (hjg_u32 *) a.unit_first;
	const hjg_u32 nparts = 1u << a.bits;
	const hjg_u32 i = blockIdx.x * HJG_K_LIST_THREADS + threadIdx.x;
	hjg_u32		last;

	auto units = [&](hjg_u32 p)
	{
		hjg_u32		build = (build_last[p] - build_first[p] + a.build_limit - 1) / a.build_limit;
		hjg_u32		probe = (counts[p] + a.probe_limit - 1) / a.probe_limit;

		return (a.lonely ? max(build, 1u) : build) * probe;
	};
	const hjg_u32 first = sum_below(i, nparts, sums, &last, units);

	if (i < nparts)
		unit_first[i] = first;
	if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0)
		unit_first[nparts] = last;
}

/*
 * Place the partitions.  Blocks of 1024 threads, a partition for each thread: on an H100 a single block
 * took 0.16 ms for 2^15 partitions and 0.34 with units, these take 0.006 and 0.02.
 */
extern "C" __global__ __launch_bounds__(HJG_K_LIST_THREADS) void
hjg_k_place_parts(HjgKPlace a)
{
	__shared__ hjg_u32 sums[33];

	scan_counts(a, sums);
	__syncthreads();
	if (a.units.unit_first != 0)
		list_units(a.units, (const hjg_u32 *) a.counts, sums);
}

/*
 * List tiles.  Blocks of 1024 threads, a warp for a partition; at most 1024 coarse partitions, whose tiles
 * each block counts itself.
 */
extern "C" __global__ __launch_bounds__(HJG_K_LIST_THREADS) void
hjg_k_list_tiles(HjgKTiles a)
{
	__shared__ hjg_u32 sums[33];
	__shared__ hjg_u32 tile_first[HJG_K_LIST_THREADS + 1];
	const hjg_u32 *first = (const hjg_u32 *) a.parts.first;
	const hjg_u32 *ends = (const hjg_u32 *) a.ends;
	HjgKTile   *tiles = (HjgKTile *) a.tiles;
	hjg_u32		nparts = 1u << a.coarse_bits;
	hjg_u32		mine = 0;

	if (threadIdx.x < nparts)
		mine = (ends[threadIdx.x] - first[threadIdx.x << a.fine_bits] + a.tile_rows - 1) / a.tile_rows;
	tile_first[threadIdx.x] = hjg_block_sum_before<HJG_K_LIST_THREADS>(mine, sums);
	if (threadIdx.x == 0)
	{
		tile_first[nparts] = sums[32];
		if (blockIdx.x == 0)
			*(hjg_u32 *) a.ntiles = sums[32];
	}
	__syncthreads();
	for (hjg_u32 p = (blockIdx.x * HJG_K_LIST_THREADS + threadIdx.x) >> 5; p < nparts; p += gridDim.x * HJG_K_LIST_THREADS / 32)
		for (hjg_u32 t = tile_first[p] + hjg_lane(); t < tile_first[p + 1]; t += 32)
		{
			HjgKTile	tile;

			tile.first = first[p << a.fine_bits] + (t - tile_first[p]) * a.tile_rows;
			tile.nrows = min(a.tile_rows, ends[p] - tile.first);
			tile.part = p;
			tile.pad = 0;
			tiles[t] = tile;
		}
}

SCATTER_KERNELS(4, 4, hjg_u32, 12)
SCATTER_KERNELS(8, 8, hjg_u32, 12)
SCATTER_KERNELS(16, 16, hjg_u32, 6)
