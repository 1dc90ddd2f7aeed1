/*
 * cuda_chains.cu
 *	  Radix partitioning into chains of buckets.
 *
 * Sioulas et al., "Hardware-conscious Hash-Joins on GPUs" (ICDE 2019), III.A; PRBC in Paul et al. (2020).
 * There are no histograms: each partition starts with one bucket and receives another from a pool whenever
 * one is full, so a pass reads its rows once.  A tile of rows is first ordered by partition in shared
 * memory, and each run reserves room with one atomic.  The second pass takes one bucket at a time, of any
 * partition, which balances blocks when skew makes some chains long.
 *
 * A link is stored as a bucket's owner and its ordinal in the chain.  So list_pages can lay out chains
 * without following them: a page table maps positions in the order of partitions to buckets, and the join
 * can cut long chains anywhere (its units).
 *
 *		hjg_k_begin_chains		one bucket a partition; the grid covers the partitions
 *		hjg_k_scatter_chains_W	a pass, by blocks of 512 threads; hjg_k_scatter_chains_full_W by blocks of 1024
 *								that leave no registers unused, as in the paper
 *		hjg_k_measure_parts		rows of each partition, from its open bucket
 *		hjg_k_list_pages		after place_parts: the page table; the grid covers the buckets
 *
 * Bytes a row, 4-byte keys: first pass 8 (4 without row numbers) read, second 8; 8 written by each.  A tile
 * costs a fixed time besides its rows: it reads its bucket, counts, reserves room and writes, each behind
 * the other.  So the second pass takes as long as it has tiles, and the buckets between the passes are as
 * large as a tile (in_bucket_bits).  On an H200 both passes over two sides of 128M rows each take 30.5, 12.9, 8.7
 * and 6.3 ms with buckets of 256, 1024, 2048 and 4096 rows between them (the first three also behind the
 * second pass), where a copy of the same bytes takes 1.8.  More warps do not hide this time: blocks of 1024
 * threads that fill a multiprocessor take 12.7 ms instead of 12.9.
 */
#include "hjg_cuda_chunk.h"
#include "lab/hjg_cuda_paper_args.h"

#define LIST_THREADS 256

extern "C" __global__ __launch_bounds__(LIST_THREADS) void
hjg_k_begin_chains(HjgKChains a)
{
	const hjg_u32 p = blockIdx.x * LIST_THREADS + threadIdx.x;

	if (p >= 1u << a.all_bits)
		return;
	((hjg_u64 *) a.cursors)[p] = (hjg_u64) p << 32;
	((hjg_u32 *) a.owner)[p] = p;
	((hjg_u32 *) a.ordinal)[p] = 0;
	if (p == 0)
		*(hjg_u32 *) a.used = 1u << a.all_bits;
}

/*
 * Execute a pass.  As many blocks as fit.  A tile is THREADS * ITEMS rows of the side, or one bucket of the
 * previous pass (at most as many rows).  Dynamic shared memory: the tile's rows and 20 << bits bytes.
 */
template <int W, int CHAIN_THREADS, int ITEMS> HJG_FN void
scatter_chains(const HjgKChains &a)
{
	extern __shared__ __align__(16) hjg_u32 shared[];
	__shared__ hjg_u32 sums[33];
	typedef HjgKey<W> Key;
	typedef typename Key::Mixed Mixed;
	const hjg_u32 TILE = CHAIN_THREADS * ITEMS;
	const hjg_u32 nparts = 1u << a.bits;
	const hjg_u32 mask = nparts - 1;
	const hjg_u32 shift = 32 - a.all_bits;
	const hjg_u32 tid = threadIdx.x;
	const bool	again = a.side.keys == 0;
	const hjg_u32 ntiles = again ? *(const hjg_u32 *) a.in_used : (a.side.nrows + TILE - 1) / TILE;
	const typename Key::Raw *keys = (const typename Key::Raw *) a.side.keys;
	const hjg_u32 *rows = (const hjg_u32 *) a.side.rows;
	hjg_u32    *owner = (hjg_u32 *) a.owner;
	hjg_u32    *ordinal = (hjg_u32 *) a.ordinal;
	HjgRows<W, hjg_u32> in(a.in.keys, a.in.rows);
	HjgRows<W, hjg_u32> out(a.out.keys, a.out.rows);
	HjgRows<W, hjg_u32> tile((void *) shared, TILE);
	hjg_u32    *run = shared + HjgRows<W, hjg_u32>::bytes / 4 * TILE;	/* counts, then places of runs */
	HjgTaken   *taken = (HjgTaken *) (run + nparts);

	for (hjg_u32 t = blockIdx.x; t < ntiles; t += gridDim.x)
	{
		Mixed		key[ITEMS];
		hjg_u32		row[ITEMS];
		hjg_u32		rank[ITEMS];
		hjg_u32		first = t * TILE;
		hjg_u32		n;
		hjg_u32		coarse = 0;
		hjg_u32		sum = 0;
		const hjg_u32 each = (nparts + CHAIN_THREADS - 1) / CHAIN_THREADS;
		const hjg_u32 from = min(tid * each, nparts);
		const hjg_u32 to = min(from + each, nparts);

		if (again)
		{
			coarse = ((const hjg_u32 *) a.in_owner)[t];
			first = t << a.in_bucket_bits;
			n = min(1u << a.in_bucket_bits,
					((const hjg_u32 *) a.in_sizes)[coarse] - (((const hjg_u32 *) a.in_ordinal)[t] << a.in_bucket_bits));
		}
		else
			n = min(TILE, a.side.nrows - first);
		for (hjg_u32 p = tid; p < nparts; p += CHAIN_THREADS)
			run[p] = 0;
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			const hjg_u32 i = j * CHAIN_THREADS + tid;

			if (i >= n)
				continue;
			if (again)
				in.get(first + i, &key[j], &row[j]);
			else
			{
				key[j] = Key::mix(__ldcs(&keys[first + i]));
				row[j] = rows != nullptr ? __ldcs(&rows[first + i]) : a.first_row + first + i;
			}
			rank[j] = atomicAdd(&run[Key::top(key[j]) >> shift & mask], 1u);
		}
		__syncthreads();
		for (hjg_u32 p = from; p < to; p++)
			sum += run[p];
		sum = hjg_block_sum_before<CHAIN_THREADS>(sum, sums);
		for (hjg_u32 p = from; p < to; p++)
		{
			const hjg_u32 rows_here = run[p];

			run[p] = sum;
			sum += rows_here;
			if (rows_here == 0)
				continue;

			const hjg_u32 part = coarse << a.bits | p;

			taken[p] = hjg_chunk_take((unsigned long long *) a.cursors + part, rows_here, 1u << a.bucket_bits,
									  [&](hjg_u32 k, hjg_u32 bucket)
			{
				const hjg_u32 next = atomicAdd((hjg_u32 *) a.used, k);

				for (hjg_u32 b = 0; b < k; b++)
				{
					owner[next + b] = part;
					__stcg(&ordinal[next + b], __ldcg(&ordinal[bucket]) + 1 + b);
				}
				__threadfence();	/* the next thread that extends the chain reads the ordinal */
				return next;
			});
		}
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
			if (j * CHAIN_THREADS + tid < n)
				tile.put(run[Key::top(key[j]) >> shift & mask] + rank[j], key[j], row[j]);
		__syncthreads();
		for (hjg_u32 i = tid; i < n; i += CHAIN_THREADS)
		{
			Mixed		k;
			hjg_u32		r;

			tile.get(i, &k, &r);

			const hjg_u32 p = Key::top(k) >> shift & mask;

			out.put((hjg_u32) taken[p].place(i - run[p], 1u << a.bucket_bits), k, r);
		}
		__syncthreads();
	}
}

/* Blocks of 1024 threads on a multiprocessor, where it has room for 2048 threads. */
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 750 || __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
#define FULL_BLOCKS 1
#else
#define FULL_BLOCKS 2
#endif

#define CHAIN_KERNELS(W, ITEMS) \
	extern "C" __global__ __launch_bounds__(512) void hjg_k_scatter_chains_##W(HjgKChains a) { scatter_chains<W, 512, ITEMS>(a); } \
	extern "C" __global__ __launch_bounds__(1024, FULL_BLOCKS) void \
	hjg_k_scatter_chains_full_##W(HjgKChains a) { scatter_chains<W, 1024, ITEMS / 2>(a); }

CHAIN_KERNELS(4, 8)
CHAIN_KERNELS(8, 8)
CHAIN_KERNELS(16, 4)

extern "C" __global__ __launch_bounds__(LIST_THREADS) void
hjg_k_measure_parts(HjgKChains a)
{
	const hjg_u32 p = blockIdx.x * LIST_THREADS + threadIdx.x;

	if (p >= 1u << a.all_bits)
		return;
	const hjg_u64 cursor = ((const hjg_u64 *) a.cursors)[p];

	((hjg_u32 *) a.sizes)[p] = (((const hjg_u32 *) a.ordinal)[cursor >> 32] << a.bucket_bits) + (hjg_u32) cursor;
}

extern "C" __global__ __launch_bounds__(LIST_THREADS) void
hjg_k_list_pages(HjgKChains a)
{
	const hjg_u32 b = blockIdx.x * LIST_THREADS + threadIdx.x;

	if (b >= *(const hjg_u32 *) a.used)
		return;
	const hjg_u32 p = ((const hjg_u32 *) a.owner)[b];

	if (((const hjg_u32 *) a.sizes)[p] > 0)
		((hjg_u32 *) a.pages)[(((const hjg_u32 *) a.first)[p] >> a.bucket_bits) + ((const hjg_u32 *) a.ordinal)[b]] = b;
}
