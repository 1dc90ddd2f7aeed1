/*
 * cuda_sort.cu
 *	  Merge sort of one side by its mixed keys.
 *
 * Rui and Tu, "Fast Equi-Join Algorithms on GPUs" (SSDBM 2017), 3.3.1, algorithms 4 and 5: each thread
 * sorts a few rows in registers by odd-even transposition, the threads of a block merge theirs in shared
 * memory, and blocks merge sorted runs in global memory, all cut by merge paths.  The sort is stable.
 *
 *		hjg_k_sort_tiles_W	a side in, sorted runs of one tile out
 *		hjg_k_find_paths_W	the starts of the tiles of the next merge: one thread a tile
 *		hjg_k_merge_runs_W	one block a tile of the merged run
 *
 * Bytes a row, 4-byte keys: sorting tiles reads 4 to 8 and writes 8, each merge reads and writes 8; runs
 * double, starting with 2048 rows (1024 with keys of 16 bytes).  On an H200 both sorts, the walks and the
 * pairs of a join of 128M rows each, keys of 4 bytes, take 30.8 ms: 70 % of the speed of a copy of as many
 * bytes.
 */
#include "hjg_cuda_merge.h"
#include "lab/hjg_cuda_paper_args.h"

#define THREADS HJG_MERGE_THREADS

/* A tile in shared memory. */
template <int W> struct Tile
{
	typedef typename HjgKey<W>::Mixed Mixed;
	static const hjg_u32 ROWS = hjg_merge_tile<W>();

	Mixed		key[hjg_padded(ROWS)];
	hjg_u32		row[hjg_padded(ROWS)];
};

/* Merge [a, a + na) and [b, b + nb) in shared memory, from output d, into the thread's registers. */
template <int W> HJG_FN void
merge_part(const Tile<W> &tile, hjg_u32 a, hjg_u32 na, hjg_u32 b, hjg_u32 nb, hjg_u32 d, typename HjgKey<W>::Mixed *key,
		   hjg_u32 *row)
{
	const hjg_u32 ITEMS = hjg_merge_items<W>();
	hjg_u32		i = hjg_merge_path<true>([&](hjg_u32 x) { return tile.key[hjg_padded(a + x)]; }, na,
										 [&](hjg_u32 x) { return tile.key[hjg_padded(b + x)]; }, nb, d);
	hjg_u32		j = d - i;

#pragma unroll
	for (hjg_u32 q = 0; q < ITEMS; q++)
	{
		if (i == na && j == nb)
			break;
		bool		from_a = j == nb || (i < na && hjg_takes_a<true>(tile.key[hjg_padded(a + i)], tile.key[hjg_padded(b + j)]));
		hjg_u32		at = hjg_padded(from_a ? a + i++ : b + j++);

		key[q] = tile.key[at];
		row[q] = tile.row[at];
	}
}

template <int W> HJG_FN void
keep_part(Tile<W> *tile, const typename HjgKey<W>::Mixed *key, const hjg_u32 *row)
{
	const hjg_u32 ITEMS = hjg_merge_items<W>();

	__syncthreads();
#pragma unroll
	for (hjg_u32 q = 0; q < ITEMS; q++)
	{
		tile->key[hjg_padded(threadIdx.x * ITEMS + q)] = key[q];
		tile->row[hjg_padded(threadIdx.x * ITEMS + q)] = row[q];
	}
	__syncthreads();
}

template <int W> HJG_FN void
write_tile(const Tile<W> &tile, HjgRows<W, hjg_u32> out, hjg_u32 first, hjg_u32 n)
{
	for (hjg_u32 i = threadIdx.x; i < n; i += THREADS)
		out.put(first + i, tile.key[hjg_padded(i)], tile.row[hjg_padded(i)]);
}

HJG_FN hjg_u32 greatest(hjg_u32) { return ~0u; }
HJG_FN hjg_u64 greatest(hjg_u64) { return ~0ull; }
HJG_FN ulonglong2 greatest(ulonglong2) { return make_ulonglong2(~0ull, ~0ull); }

template <int W> HJG_FN void
sort_tiles(const HjgKSortTiles &a)
{
	typedef HjgKey<W> Key;
	typedef typename Key::Mixed Mixed;
	__shared__ Tile<W> tile;
	const hjg_u32 ITEMS = hjg_merge_items<W>();
	const hjg_u32 ROWS = hjg_merge_tile<W>();
	const typename Key::Raw *keys = (const typename Key::Raw *) a.side.keys;
	const hjg_u32 *rows = (const hjg_u32 *) a.side.rows;
	const hjg_u32 first = blockIdx.x * ROWS;
	const hjg_u32 n = min(ROWS, a.side.nrows - first);
	Mixed		key[ITEMS];
	hjg_u32		row[ITEMS];

	/*
	 * the last tile is padded with the greatest key; rows with that key come before the padding, since the
	 * sort is stable
	 */
	for (hjg_u32 i = threadIdx.x; i < ROWS; i += THREADS)
	{
		tile.key[hjg_padded(i)] = i < n ? Key::mix(__ldcs(&keys[first + i])) : greatest(Mixed());
		tile.row[hjg_padded(i)] = i >= n ? HJG_NO_ROW : rows != nullptr ? __ldcs(&rows[first + i]) : first + i;
	}
	__syncthreads();
#pragma unroll
	for (hjg_u32 q = 0; q < ITEMS; q++)
	{
		key[q] = tile.key[hjg_padded(threadIdx.x * ITEMS + q)];
		row[q] = tile.row[hjg_padded(threadIdx.x * ITEMS + q)];
	}
#pragma unroll
	for (hjg_u32 round = 0; round < ITEMS; round++)
#pragma unroll
		for (hjg_u32 q = round & 1; q + 1 < ITEMS; q += 2)
			if (hjg_less(key[q + 1], key[q]))
			{
				Mixed		k = key[q];
				hjg_u32		r = row[q];

				key[q] = key[q + 1];
				row[q] = row[q + 1];
				key[q + 1] = k;
				row[q + 1] = r;
			}
	for (hjg_u32 width = ITEMS; width < ROWS; width *= 2)
	{
		const hjg_u32 at = threadIdx.x * ITEMS;
		const hjg_u32 run = at & ~(2 * width - 1);

		keep_part<W>(&tile, key, row);
		merge_part<W>(tile, run, width, run + width, width, at - run, key, row);
	}
	keep_part<W>(&tile, key, row);
	write_tile<W>(tile, HjgRows<W, hjg_u32>(a.out.keys, a.out.rows), first, n);
}

/* The two runs that contain a tile's first row: the first one's start, and the numbers of their rows. */
struct Runs
{
	hjg_u32		first;
	hjg_u32		na;
	hjg_u32		nb;

	__device__ Runs(const HjgKMerge &a, hjg_u32 at)
	{
		first = (hjg_u32) (at / (2ull * a.width) * (2ull * a.width));
		na = min(a.width, a.nrows - first);
		nb = min(a.width, a.nrows - first - na);
	}
};

/* Count the rows of the first run that come before each tile; the grid covers the tiles. */
template <int W> HJG_FN void
find_paths(const HjgKMerge &a)
{
	const hjg_u32 ROWS = hjg_merge_tile<W>();
	const hjg_u32 t = blockIdx.x * THREADS + threadIdx.x;
	HjgRows<W, hjg_u32> in(a.in.keys, a.in.rows);

	if (t >= (a.nrows + ROWS - 1) / ROWS)
		return;
	Runs		runs(a, t * ROWS);

	((hjg_u32 *) a.paths)[t] =
		hjg_merge_path<true>([&](hjg_u32 i) { return in.key(runs.first + i); }, runs.na,
							 [&](hjg_u32 i) { return in.key(runs.first + runs.na + i); }, runs.nb, t * ROWS - runs.first);
}

template <int W> HJG_FN void
merge_runs(const HjgKMerge &a)
{
	typedef typename HjgKey<W>::Mixed Mixed;
	__shared__ Tile<W> tile;
	const hjg_u32 ITEMS = hjg_merge_items<W>();
	const hjg_u32 ROWS = hjg_merge_tile<W>();
	const hjg_u32 first = blockIdx.x * ROWS;
	const hjg_u32 n = min(ROWS, a.nrows - first);
	const Runs	runs(a, first);
	const hjg_u32 *paths = (const hjg_u32 *) a.paths;
	const hjg_u32 d = first - runs.first;
	const hjg_u32 a_from = paths[blockIdx.x];
	const hjg_u32 a_to = d + n == runs.na + runs.nb ? runs.na : paths[blockIdx.x + 1];
	const hjg_u32 na = a_to - a_from;
	const hjg_u32 nb = n - na;
	HjgRows<W, hjg_u32> in(a.in.keys, a.in.rows);
	Mixed		key[ITEMS];
	hjg_u32		row[ITEMS];

	for (hjg_u32 i = threadIdx.x; i < n; i += THREADS)
	{
		hjg_u32		from = i < na ? runs.first + a_from + i : runs.first + runs.na + (d - a_from) + i - na;

		in.get(from, &tile.key[hjg_padded(i)], &tile.row[hjg_padded(i)]);
	}
	__syncthreads();
#pragma unroll
	for (hjg_u32 q = 0; q < ITEMS; q++)
	{
		key[q] = Mixed();
		row[q] = HJG_NO_ROW;
	}
	merge_part<W>(tile, 0, na, na, nb, min(threadIdx.x * ITEMS, n), key, row);
	keep_part<W>(&tile, key, row);
	write_tile<W>(tile, HjgRows<W, hjg_u32>(a.out.keys, a.out.rows), first, n);
}

#define SORT_KERNELS(W) \
	extern "C" __global__ __launch_bounds__(THREADS) void hjg_k_sort_tiles_##W(HjgKSortTiles a) { sort_tiles<W>(a); } \
	extern "C" __global__ __launch_bounds__(THREADS) void hjg_k_find_paths_##W(HjgKMerge a) { find_paths<W>(a); } \
	extern "C" __global__ __launch_bounds__(THREADS) void hjg_k_merge_runs_##W(HjgKMerge a) { merge_runs<W>(a); }

SORT_KERNELS(4)
SORT_KERNELS(8)
SORT_KERNELS(16)
