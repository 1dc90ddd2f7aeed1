/*
 * cuda_merge_join.cu
 *	  Merge join of two sorted sides.
 *
 * Rui and Tu, "Fast Equi-Join Algorithms on GPUs" (SSDBM 2017), 3.3.2: both sides are walked as in a
 * merge, cut by merge paths.  The first walk counts for each probe row the build rows below it, the second
 * the build rows below or equal to it; the difference is its number of matches, and the sums of the
 * differences are places in the output.  Writing needs no search.
 *
 *		hjg_k_find_meetings_W	the starts of the tiles of a walk: one thread a tile
 *		hjg_k_count_below_W		first walk, equal build rows after the probe row
 *		hjg_k_count_matches_W	second walk, equal build rows before it
 *		hjg_k_write_matches_W_OUTPUT	after the sums: 32 probe rows a warp, lanes assigned to pairs, so that
 *								a row with many matches takes no longer than many rows with one
 *
 * Bytes a probe row, 4-byte keys, one match each: the walks read both sides' rows (16 each walk) and write
 * 4 and 8; the sums read and write 8; writing reads 28 and writes 8.
 */
#include "hjg_cuda_emit.h"
#include "hjg_cuda_merge.h"
#include "lab/hjg_cuda_paper_args.h"

#define THREADS HJG_MERGE_THREADS

/* Find the meeting of diagonal d.  FIRST: equal build rows come before the probe row. */
template <int W, bool FIRST> HJG_FN hjg_u32
meeting(const HjgKMergeJoin &a, hjg_u32 d)
{
	HjgRows<W, hjg_u32> build(a.build.keys, a.build.rows);
	HjgRows<W, hjg_u32> probe(a.probe.keys, a.probe.rows);

	return hjg_merge_path<FIRST>([&](hjg_u32 i) { return build.key(i); }, a.build_rows,
								 [&](hjg_u32 i) { return probe.key(i); }, a.probe_rows, d);
}

/* Count the build rows before each tile, and after the last; the grid covers them. */
template <int W> HJG_FN void
find_meetings(const HjgKMergeJoin &a)
{
	const hjg_u32 ROWS = hjg_merge_tile<W>();
	const hjg_u32 t = blockIdx.x * THREADS + threadIdx.x;
	const hjg_u32 all = a.build_rows + a.probe_rows;
	const hjg_u32 ntiles = (all + ROWS - 1) / ROWS;

	if (t > ntiles)
		return;
	const hjg_u32 d = t == ntiles ? all : t * ROWS;

	((hjg_u32 *) a.paths)[t] = a.behind ? meeting<W, true>(a, d) : meeting<W, false>(a, d);
}

/*
 * Walk a tile of both sides together in each block, and call found(row, n): n build rows come before that
 * probe row.
 */
template <int W, bool FIRST, class Found> HJG_FN void
walk(const HjgKMergeJoin &a, Found found)
{
	typedef typename HjgKey<W>::Mixed Mixed;
	const hjg_u32 ITEMS = hjg_merge_items<W>();
	const hjg_u32 ROWS = hjg_merge_tile<W>();
	__shared__ Mixed key[hjg_padded(ROWS)];
	const hjg_u32 all = a.build_rows + a.probe_rows;
	const hjg_u32 first = blockIdx.x * ROWS;
	const hjg_u32 n = min(ROWS, all - first);
	const hjg_u32 build_from = ((const hjg_u32 *) a.paths)[blockIdx.x];
	const hjg_u32 probe_from = first - build_from;
	const hjg_u32 nbuild = ((const hjg_u32 *) a.paths)[blockIdx.x + 1] - build_from;
	const hjg_u32 nprobe = n - nbuild;
	HjgRows<W, hjg_u32> build(a.build.keys, a.build.rows);
	HjgRows<W, hjg_u32> probe(a.probe.keys, a.probe.rows);

	for (hjg_u32 i = threadIdx.x; i < n; i += THREADS)
		key[hjg_padded(i)] = i < nbuild ? build.key(build_from + i) : probe.key(probe_from + i - nbuild);
	__syncthreads();

	hjg_u32		d = min(threadIdx.x * ITEMS, n);
	hjg_u32		i = hjg_merge_path<FIRST>([&](hjg_u32 x) { return key[hjg_padded(x)]; }, nbuild,
										  [&](hjg_u32 x) { return key[hjg_padded(nbuild + x)]; }, nprobe, d);
	hjg_u32		j = d - i;

	for (hjg_u32 q = 0; q < ITEMS && i + j < n; q++)
		if (j == nprobe || (i < nbuild && hjg_takes_a<FIRST>(key[hjg_padded(i)], key[hjg_padded(nbuild + j)])))
			i++;
		else
			found(probe_from + j++, build_from + i);
}

template <int W> HJG_FN void
count_below(const HjgKMergeJoin &a)
{
	hjg_u32    *below = (hjg_u32 *) a.below;

	walk<W, false>(a, [&](hjg_u32 row, hjg_u32 n) { below[row] = n; });
}

template <int W> HJG_FN void
count_matches(const HjgKMergeJoin &a)
{
	const hjg_u32 *below = (const hjg_u32 *) a.below;
	hjg_u64    *offsets = (hjg_u64 *) a.offsets;
	const hjg_u32 mode = a.mode;

	walk<W, true>(a, [&](hjg_u32 row, hjg_u32 n)
	{
		hjg_u32		matches = n - below[row];

		offsets[row] = mode == HJG_MATCH_ALL ? matches : mode == HJG_MATCH_LEFT ? max(matches, 1u) :
			mode == HJG_MATCH_SEMI ? min(matches, 1u) : matches == 0;
	});
}

/* Write the pairs.  Blocks of 256 threads, as many as fit. */
template <int W, int OUT> HJG_FN void
write_matches(const HjgKMergeJoin &a)
{
	typedef typename HjgKey<W>::Mixed Mixed;
	const hjg_u32 *below = (const hjg_u32 *) a.below;
	const hjg_u64 *offsets = (const hjg_u64 *) a.offsets;
	const hjg_u64 npairs = offsets[a.probe_rows];
	const hjg_u32 lane = hjg_lane();
	HjgRows<W, hjg_u32> build(a.build.keys, a.build.rows);
	HjgRows<W, hjg_u32> probe(a.probe.keys, a.probe.rows);
	HjgTally	tally = {0, 0};

	if (OUT != HJG_CHECKSUM && blockIdx.x == 0 && threadIdx.x == 0)
		*(hjg_u64 *) a.output.counters = npairs;
	if (OUT != HJG_CHECKSUM && npairs > a.output.capacity)
		return;
	for (hjg_u32 base = (blockIdx.x * THREADS + threadIdx.x) & ~31u; base < a.probe_rows; base += gridDim.x * THREADS)
	{
		const hjg_u32 row = base + lane;
		const hjg_u64 place = offsets[min(base, a.probe_rows)];
		const hjg_u64 total = offsets[min(base + 32, a.probe_rows)] - place;
		hjg_u64		before = ~0ull;	/* pairs of the lanes below */
		hjg_u32		first = 0;
		hjg_u32		probe_row = 0;
		bool		lonely = false;
		Mixed		key;

		if (row < a.probe_rows)
		{
			before = offsets[row] - place;
			first = below[row];
			probe.get(row, &key, &probe_row);
			lonely = a.mode == HJG_MATCH_ANTI ||
				(a.mode == HJG_MATCH_LEFT &&
				 (first == a.build_rows || !HjgKey<W>::same(build.key(first), key)));
		}
		for (hjg_u64 window = 0; window < total; window += 32)
		{
			const hjg_u64 pair = window + lane;
			hjg_u32		source = 0;

			/* the last lane with at most that many pairs before it, which skips rows without pairs */
#pragma unroll
			for (hjg_u32 step = 16; step > 0; step /= 2)
				if (__shfl_sync(HJG_ALL_LANES, before, source + step) <= pair)
					source += step;

			hjg_u32		build_row = HJG_NO_ROW;
			const bool	alone = __shfl_sync(HJG_ALL_LANES, lonely, source);
			const hjg_u64 at = __shfl_sync(HJG_ALL_LANES, first, source) + pair - __shfl_sync(HJG_ALL_LANES, before, source);
			const hjg_u32 its_row = __shfl_sync(HJG_ALL_LANES, probe_row, source);

			if (pair >= total)
				continue;
			if (!alone)
				build.get((hjg_u32) at, &key, &build_row);
			if (OUT == HJG_CHECKSUM)
				tally.add(its_row, build_row);
			else
				__stcs((uint2 *) a.output.pairs + place + pair, make_uint2(its_row, build_row));
		}
	}
	if (OUT == HJG_CHECKSUM)
		hjg_warp_add((hjg_u64 *) a.output.counters, tally.npairs, tally.checksum);
}

#define MERGE_JOIN_KERNELS(W) \
	extern "C" __global__ __launch_bounds__(THREADS) void hjg_k_find_meetings_##W(HjgKMergeJoin a) { find_meetings<W>(a); } \
	extern "C" __global__ __launch_bounds__(THREADS) void hjg_k_count_below_##W(HjgKMergeJoin a) { count_below<W>(a); } \
	extern "C" __global__ __launch_bounds__(THREADS) void hjg_k_count_matches_##W(HjgKMergeJoin a) { count_matches<W>(a); } \
	extern "C" __global__ __launch_bounds__(THREADS) void \
	hjg_k_write_matches_##W##_checksum(HjgKMergeJoin a) { write_matches<W, HJG_CHECKSUM>(a); } \
	extern "C" __global__ __launch_bounds__(THREADS) void \
	hjg_k_write_matches_##W##_pairs(HjgKMergeJoin a) { write_matches<W, HJG_PAIRS>(a); }

MERGE_JOIN_KERNELS(4)
MERGE_JOIN_KERNELS(8)
MERGE_JOIN_KERNELS(16)
