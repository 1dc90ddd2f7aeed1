/*
 * cuda_csr.cu
 *	  Kernels of the strategy csr: the build side to CSR by a stable radix sort, probing in canonical
 *	  order with any number of matches, and in one pass if each row has at most one.
 *
 * The host guarantees: arrays have the sizes that the arguments state, n fits in 32 bits, bucket_bits is
 * at least 1 and at most the bits of the key's high word and 31, and other sizes are those of hjg_csr.h.
 * No kernel relies on blocks running at the same time.
 *
 * hjg_csr_steps.h contains the work of a thread for one row.
 */
#include "hjg_csr_steps.h"

#define BLOCK 256
#define WARP 32
#define WARPS (BLOCK / WARP)
#define FULL 0xFFFFFFFFu

#define GRID_INDEX ((hjg_u64) blockIdx.x * blockDim.x + threadIdx.x)
#define GRID_SIZE ((hjg_u64) gridDim.x * blockDim.x)

/* A kernel for each key width. */
#define FOR_WIDTHS(DEFINE) DEFINE(4) DEFINE(8) DEFINE(16)

/* ---- input of keys ---- */

/* Mix keys in place.  Reads and writes the key; any grid. */
#define MIX(W) \
extern "C" __global__ void __launch_bounds__(BLOCK) \
hjg_k_mix_keys_##W(void *keys, hjg_u64 n) \
{ \
	for (hjg_u64 i = GRID_INDEX; i < n; i += GRID_SIZE) \
		hjg_step_store(W, keys, i, hjg_step_mix(W, hjg_step_load(W, keys, i))); \
}
FOR_WIDTHS(MIX)

/* Number rows from first_row.  Writes 4 bytes a row; any grid. */
extern "C" __global__ void __launch_bounds__(BLOCK)
hjg_k_number_rows(hjg_u32 *rows, hjg_u64 n, hjg_u32 first_row)
{
	for (hjg_u64 i = GRID_INDEX; i < n; i += GRID_SIZE)
		rows[i] = first_row + (hjg_u32) i;
}

/* ---- sorting ---- */

/* Count the digits of each tile: counts[digit * ntiles + tile].  Reads the keys once; one block a tile. */
#define SORT_COUNT(W) \
extern "C" __global__ void __launch_bounds__(BLOCK) \
hjg_k_sort_count_##W(const void *keys, hjg_u64 n, HjgCsrDigit digit, hjg_u64 *counts) \
{ \
	__shared__ hjg_u32 histogram[HJG_CSR_DIGITS]; \
	const hjg_u64 begin = (hjg_u64) blockIdx.x * HJG_CSR_TILE; \
	const hjg_u64 end = begin + HJG_CSR_TILE < n ? begin + HJG_CSR_TILE : n; \
	histogram[threadIdx.x] = 0; \
	__syncthreads(); \
	for (hjg_u64 i = begin + threadIdx.x; i < end; i += BLOCK) \
		atomicAdd(&histogram[hjg_step_digit(hjg_step_load(W, keys, i), digit)], 1u); \
	__syncthreads(); \
	counts[(hjg_u64) threadIdx.x * gridDim.x + blockIdx.x] = histogram[threadIdx.x]; \
}
FOR_WIDTHS(SORT_COUNT)

/*
 * Move each tuple of a tile to its place, stably.  offsets are the prefix sums of the counts.  Reads and
 * writes key and row once; one block a tile.  A warp takes consecutive tuples and ranks 32 of them at a
 * time by matching digits, so ranks follow the order of the tuples.
 */
template <int W> static __device__ __forceinline__ void
sort_scatter(const void *keys, const hjg_u32 *rows, void *keys_out, hjg_u32 *rows_out, hjg_u64 n,
			 HjgCsrDigit digit, const hjg_u64 *offsets)
{
	const int	rounds = HJG_CSR_TILE / BLOCK;
	__shared__ hjg_u32 counts[WARPS][HJG_CSR_DIGITS];
	__shared__ hjg_u64 bases[HJG_CSR_DIGITS];
	const int	warp = threadIdx.x / WARP;
	const int	lane = threadIdx.x % WARP;
	const hjg_u64 begin = (hjg_u64) blockIdx.x * HJG_CSR_TILE + warp * (HJG_CSR_TILE / WARPS);
	HjgCsrKey	key[rounds];
	hjg_u32		rank[rounds];

	for (int w = 0; w < WARPS; w++)
		counts[w][threadIdx.x] = 0;
	bases[threadIdx.x] = offsets[(hjg_u64) threadIdx.x * gridDim.x + blockIdx.x];
	__syncthreads();
#pragma unroll
	for (int r = 0; r < rounds; r++)
	{
		const hjg_u64 i = begin + r * WARP + lane;
		const unsigned active = __ballot_sync(FULL, i < n);

		if (i < n)
		{
			key[r] = hjg_step_load(W, keys, i);
			const hjg_u32 d = hjg_step_digit(key[r], digit);
			const unsigned peers = __match_any_sync(active, d);
			const hjg_u32 before = counts[warp][d];

			__syncwarp(active);
			rank[r] = before + __popc(peers & ((1u << lane) - 1));
			if (lane == __ffs(peers) - 1)
				counts[warp][d] = before + __popc(peers);
			__syncwarp(active);
		}
	}
	__syncthreads();
	{
		hjg_u32		sum = 0;

		for (int w = 0; w < WARPS; w++)
		{
			const hjg_u32 c = counts[w][threadIdx.x];

			counts[w][threadIdx.x] = sum;
			sum += c;
		}
	}
	__syncthreads();
#pragma unroll
	for (int r = 0; r < rounds; r++)
	{
		const hjg_u64 i = begin + r * WARP + lane;

		if (i < n)
		{
			const hjg_u32 d = hjg_step_digit(key[r], digit);
			const hjg_u64 to = bases[d] + counts[warp][d] + rank[r];

			hjg_step_store(W, keys_out, to, key[r]);
			rows_out[to] = rows[i];
		}
	}
}

#define SORT_SCATTER(W) \
extern "C" __global__ void __launch_bounds__(BLOCK) \
hjg_k_sort_scatter_##W(const void *keys, const hjg_u32 *rows, void *keys_out, hjg_u32 *rows_out, hjg_u64 n, \
					   HjgCsrDigit digit, const hjg_u64 *offsets) \
{ \
	sort_scatter<W>(keys, rows, keys_out, rows_out, n, digit, offsets); \
}
FOR_WIDTHS(SORT_SCATTER)

/* ---- prefix sums ---- */

/*
 * Compute exclusive sums in blocks of HJG_CSR_SCAN entries, in place; sums[block] is the block's total.
 * Reads and writes 8 bytes an entry; a thread block for each.
 */
extern "C" __global__ void __launch_bounds__(BLOCK)
hjg_k_scan_blocks(hjg_u64 *data, hjg_u64 n, hjg_u64 *sums)
{
	const int	items = HJG_CSR_SCAN / BLOCK;
	__shared__ hjg_u64 warp_sums[WARPS];
	__shared__ hjg_u64 staged[HJG_CSR_SCAN + HJG_CSR_SCAN / WARP];
	const hjg_u64 begin = (hjg_u64) blockIdx.x * HJG_CSR_SCAN;
	const int	lane = threadIdx.x % WARP;
	const int	warp = threadIdx.x / WARP;
	hjg_u64		sum = 0;
	hjg_u64		before;

	/* a thread sums consecutive entries; the padding avoids bank conflicts */
	for (int i = threadIdx.x; i < HJG_CSR_SCAN; i += BLOCK)
		staged[i + i / WARP] = begin + i < n ? data[begin + i] : 0;
	__syncthreads();
	for (int i = 0; i < items; i++)
	{
		const int	at = threadIdx.x * items + i;
		const hjg_u64 value = staged[at + at / WARP];

		staged[at + at / WARP] = sum;
		sum += value;
	}
	before = sum;
	for (int step = 1; step < WARP; step *= 2)
	{
		const hjg_u64 left = __shfl_up_sync(FULL, before, step);

		if (lane >= step)
			before += left;
	}
	if (lane == WARP - 1)
		warp_sums[warp] = before;
	before -= sum;
	__syncthreads();
	for (int w = 0; w < warp; w++)
		before += warp_sums[w];
	if (threadIdx.x == BLOCK - 1)
		sums[blockIdx.x] = before + sum;
	for (int i = 0; i < items; i++)
	{
		const int	at = threadIdx.x * items + i;

		staged[at + at / WARP] += before;
	}
	__syncthreads();
	for (int i = threadIdx.x; i < HJG_CSR_SCAN && begin + i < n; i += BLOCK)
		data[begin + i] = staged[i + i / WARP];
}

/* Add sums[block] to the entries of each block of HJG_CSR_SCAN; a thread block for each. */
extern "C" __global__ void __launch_bounds__(BLOCK)
hjg_k_scan_add(hjg_u64 *data, hjg_u64 n, const hjg_u64 *sums)
{
	const hjg_u64 begin = (hjg_u64) blockIdx.x * HJG_CSR_SCAN;
	const hjg_u64 sum = sums[blockIdx.x];

	for (int i = threadIdx.x; i < HJG_CSR_SCAN && begin + i < n; i += BLOCK)
		data[begin + i] += sum;
}

/* ---- directory ---- */

/*
 * Fill start[] from keys ordered by bucket.  Thread i of n + 1 writes the starts of the buckets after the
 * bucket of tuple i - 1, up to the bucket of tuple i; a warp shares the long gaps.  Reads the keys once,
 * writes 4 bytes a bucket.  The grid covers n + 1.
 */
#define FILL_STARTS(W) \
extern "C" __global__ void __launch_bounds__(BLOCK) \
hjg_k_fill_starts_##W(const void *keys, hjg_u64 n, hjg_u32 bucket_bits, hjg_u32 *start) \
{ \
	const hjg_u64 i = GRID_INDEX; \
	const int	lane = threadIdx.x % WARP; \
	hjg_u32		from = 0; \
	hjg_u32		to = 0; \
	if (i <= n) \
	{ \
		from = i == 0 ? 0 : hjg_step_bucket(W, hjg_step_load(W, keys, i - 1), bucket_bits) + 1; \
		to = i == n ? (1u << bucket_bits) + 1 : hjg_step_bucket(W, hjg_step_load(W, keys, i), bucket_bits) + 1; \
	} \
	unsigned	longs = __ballot_sync(FULL, to - from > WARP); \
	if (to - from <= WARP) \
		for (hjg_u32 b = from; b < to; b++) \
			start[b] = (hjg_u32) i; \
	while (longs != 0) \
	{ \
		const int	leader = __ffs(longs) - 1; \
		const hjg_u32 last = __shfl_sync(FULL, to, leader); \
		const hjg_u32 value = (hjg_u32) (i - lane + leader); \
		for (hjg_u32 b = __shfl_sync(FULL, from, leader) + lane; b < last; b += WARP) \
			start[b] = value; \
		longs &= longs - 1; \
	} \
}
FOR_WIDTHS(FILL_STARTS)

/* Return the warp's largest value in all threads. */
static __device__ __forceinline__ hjg_u32
warp_max(hjg_u32 value)
{
	for (int step = WARP / 2; step > 0; step /= 2)
	{
		const hjg_u32 other = __shfl_xor_sync(FULL, value, step);

		value = other > value ? other : value;
	}
	return value;
}

/*
 * Find the size of the largest bucket, and whether a key occurs twice in a bucket that is not heavy.  One
 * thread a bucket; reads the directory and the keys.
 */
#define CHECK_BUCKETS(W) \
extern "C" __global__ void __launch_bounds__(BLOCK) \
hjg_k_check_buckets_##W(HjgCsrTable table, HjgCsrFacts *facts) \
{ \
	const hjg_u64 nbuckets = 1ull << table.bucket_bits; \
	hjg_u32		largest = 0; \
	bool		duplicates = false; \
	for (hjg_u64 b = GRID_INDEX; b < nbuckets; b += GRID_SIZE) \
	{ \
		const hjg_u32 begin = table.start[b]; \
		const hjg_u32 end = table.start[b + 1]; \
		largest = end - begin > largest ? end - begin : largest; \
		if (end - begin <= HJG_CSR_HEAVY) \
			for (hjg_u32 i = begin; i + 1 < end && !duplicates; i++) \
				for (hjg_u32 j = i + 1; j < end && !duplicates; j++) \
					duplicates = hjg_step_equal(W, hjg_step_load(W, table.keys, i), hjg_step_load(W, table.keys, j)); \
	} \
	largest = warp_max(largest); \
	if (threadIdx.x % WARP == 0 && largest > facts->largest) \
		atomicMax(&facts->largest, largest); \
	if (__any_sync(FULL, duplicates) && threadIdx.x % WARP == 0) \
		facts->duplicates = 1; \
}

FOR_WIDTHS(CHECK_BUCKETS)

/* ---- probing ---- */

/*
 * Count the pairs of each row and find its first match, both within the slice if there is one.  keys are
 * raw.  counts[n] becomes 0 so that a prefix sum of n + 1 entries ends with the total.  Reads the key, a
 * directory entry and a bucket, writes 12 bytes a row; any grid.
 */
#define FIND(W) \
extern "C" __global__ void __launch_bounds__(BLOCK) \
hjg_k_find_##W(const void *keys, hjg_u64 n, HjgCsrTable table, int mode, HjgCsrSlice slice, hjg_u64 *counts, \
			   hjg_u32 *firsts) \
{ \
	const int	any = mode == HJG_MATCH_SEMI || mode == HJG_MATCH_ANTI; \
	for (hjg_u64 i = GRID_INDEX; i <= n; i += GRID_SIZE) \
	{ \
		if (i == n) \
		{ \
			counts[n] = 0; \
			continue; \
		} \
		counts[i] = hjg_step_slice(W, &table, slice, hjg_step_npairs(mode, \
			hjg_step_find(W, &table, hjg_step_mix(W, hjg_step_load(W, keys, i)), any, &firsts[i])), &firsts[i]); \
	} \
}
FOR_WIDTHS(FIND)

/* Compute the cut of the window to the room; one thread. */
extern "C" __global__ void
hjg_k_cut_window(const hjg_u64 *offsets, hjg_u64 nrows, hjg_u64 skip, hjg_u64 room, HjgCsrCut *cut)
{
	*cut = hjg_step_cut(offsets, nrows, skip, room);
}

/*
 * Write pairs [begin, begin + n) of a window.  A thread writes a pair, so many threads write a row with
 * many matches.  Row i of the window is probe row first_row + i.  Any block size; the grid covers n.
 */
#define WRITE(W) \
extern "C" __global__ void __launch_bounds__(BLOCK) \
hjg_k_write_pairs_##W(HjgCsrTable table, const hjg_u64 *offsets, const hjg_u32 *firsts, hjg_u64 nrows, \
					  hjg_u32 first_row, hjg_u64 begin, hjg_u64 n, HjgPair *pairs) \
{ \
	__shared__ hjg_u64 bounds[2]; \
	const hjg_u64 i = GRID_INDEX; \
	const hjg_u64 block = (hjg_u64) blockIdx.x * blockDim.x; \
	if (threadIdx.x < 2) \
	{ \
		const hjg_u64 edge = threadIdx.x == 0 ? block : (block + blockDim.x < n ? block + blockDim.x : n) - 1; \
		bounds[threadIdx.x] = hjg_step_row_of(offsets, 0, nrows - 1, begin + edge); \
	} \
	__syncthreads(); \
	if (i >= n) \
		return; \
	const hjg_u64 row = hjg_step_row_of(offsets, bounds[0], bounds[1], begin + i); \
	HjgPair		pair; \
	pair.probe_row = first_row + (hjg_u32) row; \
	pair.build_row = hjg_step_match(W, &table, firsts[row], (hjg_u32) (begin + i - offsets[row])); \
	pairs[i] = pair; \
}
FOR_WIDTHS(WRITE)

/*
 * Probe and write in one pass, for rows with at most one pair each: the mode is SEMI or ANTI, or the build
 * keys are unique.  Pairs are appended at *npairs in any order, with one atomic for a tile of 4 rows a
 * thread.  Reads the key, a directory entry and a bucket, writes 8 bytes a pair; any grid.
 */
#define ONCE(W) \
extern "C" __global__ void __launch_bounds__(BLOCK) \
hjg_k_probe_once_##W(const void *keys, hjg_u64 n, HjgCsrTable table, int mode, hjg_u32 first_row, HjgPair *pairs, \
					 unsigned long long *npairs) \
{ \
	const int	items = 4; \
	__shared__ hjg_u32 warp_counts[WARPS]; \
	__shared__ hjg_u64 place; \
	const int	lane = threadIdx.x % WARP; \
	const int	warp = threadIdx.x / WARP; \
	for (hjg_u64 tile = (hjg_u64) blockIdx.x * (BLOCK * items); tile < n; tile += (hjg_u64) gridDim.x * (BLOCK * items)) \
	{ \
		hjg_u32		first[items]; \
		unsigned	votes[items]; \
		hjg_u32		mine = 0; \
		_Pragma("unroll") \
		for (int t = 0; t < items; t++) \
		{ \
			const hjg_u64 i = tile + t * BLOCK + threadIdx.x; \
			bool		emits = false; \
			first[t] = HJG_NO_ROW; \
			if (i < n) \
				emits = hjg_step_npairs(mode, hjg_step_find(W, &table, \
					hjg_step_mix(W, hjg_step_load(W, keys, i)), 1, &first[t])) > 0; \
			votes[t] = __ballot_sync(FULL, emits); \
			mine += __popc(votes[t]); \
		} \
		if (lane == 0) \
			warp_counts[warp] = mine; \
		__syncthreads(); \
		if (threadIdx.x == 0) \
		{ \
			hjg_u32		sum = 0; \
			for (int w = 0; w < WARPS; w++) \
			{ \
				const hjg_u32 c = warp_counts[w]; \
				warp_counts[w] = sum; \
				sum += c; \
			} \
			place = sum > 0 ? atomicAdd(npairs, (unsigned long long) sum) : 0; \
		} \
		__syncthreads(); \
		hjg_u64		to = place + warp_counts[warp]; \
		_Pragma("unroll") \
		for (int t = 0; t < items; t++) \
		{ \
			if (votes[t] & (1u << lane)) \
			{ \
				HjgPair		pair; \
				pair.probe_row = first_row + (hjg_u32) (tile + t * BLOCK + threadIdx.x); \
				pair.build_row = first[t] == HJG_NO_ROW ? HJG_NO_ROW : table.rows[first[t]]; \
				pairs[to + __popc(votes[t] & ((1u << lane) - 1))] = pair; \
			} \
			to += __popc(votes[t]); \
		} \
		__syncthreads(); \
	} \
}
FOR_WIDTHS(ONCE)

/*
 * Replace positions by row numbers in the written pairs, unless the pairs did not fit.  Reads and writes 8
 * bytes a pair; any grid.
 */
extern "C" __global__ void __launch_bounds__(BLOCK)
hjg_k_name_rows(HjgPair *pairs, const hjg_u64 *npairs, hjg_u64 capacity, const hjg_u32 *rows)
{
	const hjg_u64 n = *npairs <= capacity ? *npairs : 0;

	for (hjg_u64 i = GRID_INDEX; i < n; i += GRID_SIZE)
		pairs[i].probe_row = rows[pairs[i].probe_row];
}
