/*
 * cuda_chains.cu
 *	  Radix partitioning into chains of buckets.
 *
 * Sioulas et al., "Hardware-conscious Hash-Joins on GPUs" (ICDE 2019), III.A; PRBC in Paul et al. (2020).
 * There are no histograms: each partition starts with two buckets and receives another from a pool whenever
 * one is full, so a pass reads its rows once.  A tile of rows is first ordered by partition in shared
 * memory, and each run reserves room with one atomic.  The second pass takes one bucket at a time, of any
 * partition, which balances blocks when skew makes some chains long.
 *
 * Two buckets of a partition are known before they are needed: the open one and the next, both in the word
 * that counts the places taken.  So one atomic addition tells a block where its run goes, also where it
 * crosses from one bucket into the next; whoever takes a bucket's last place adds another to the chain.  A
 * block waits only where two buckets were filled meanwhile.  With one, blocks waited for each other at each
 * new bucket: a join of 32M x 32M rows took 2.5 ms, with two 1.6 (H200; reading ahead, below, makes it 1.5).
 *
 * A chain is stored as its buckets' owner and their ordinals, which they get when they are full; links are
 * followed by blocks that wait only.  So list_pages can lay out chains: a page table maps positions in the
 * order of partitions to buckets, and the join can cut long chains anywhere (its units).
 *
 *		hjg_k_begin_chains		two buckets a partition; the grid covers the buckets
 *		hjg_k_scatter_chains_W	a pass, by blocks of 512 threads; hjg_k_scatter_chains_full_W by blocks of 1024
 *								that leave no registers unused, as in the paper
 *		hjg_k_measure_parts		rows of each partition
 *		hjg_k_list_pages		after place_parts: the page table; the grid covers the buckets
 *
 * Bytes a row, 4-byte keys: first pass 8 (4 without row numbers) read, second 8; 8 written by each.  A tile
 * costs a fixed time besides its rows: it reads its bucket, counts, reserves room and writes, each behind
 * the other.  So the buckets between the passes are as large as a tile (in_bucket_bits), and a block reads
 * the next tile's rows while it writes this one's.  The first pass over 32M rows takes 0.22 ms, the second
 * 0.18; a copy of the same bytes takes 0.10 and 0.13.  Three or four blocks on a multiprocessor, whose
 * threads then have too few registers, take 10 to 20 % longer, cursors in cache lines of their own 3 %.
 */
#include "hjg_cuda_kernel.h"
#include "lab/hjg_cuda_paper_args.h"

#define LIST_THREADS 256
#define NO_BUCKET 0xFFFFFFFFu

extern "C" __global__ __launch_bounds__(LIST_THREADS) void
hjg_k_begin_chains(HjgKChains a)
{
	const hjg_u32 b = blockIdx.x * LIST_THREADS + threadIdx.x;
	const hjg_u32 nparts = 1u << a.all_bits;

	if (b >= a.nbuckets)
		return;
	((hjg_u32 *) a.next)[b] = NO_BUCKET;
	if (b < 2 * nparts)
		((hjg_u32 *) a.owner)[b] = b & (nparts - 1);
	if (b < nparts)
	{
		((hjg_u64 *) a.cursors)[b] = HJG_K_CURSOR(b, nparts + b, 0);
		((hjg_u32 *) a.nfull)[b] = 0;
	}
	if (b == 0)
		*(hjg_u32 *) a.used = 2 * nparts;
}

/*
 * Targets of a run, whose rows a block has ordered at places of a tile: each place plus a number.  Rows that fill whole buckets come
 * first, then those for the rest of the open bucket, then those for the next.
 */
struct HjgRunPlaces
{
	hjg_u32		whole_end;
	hjg_u32		open_end;
	hjg_u32		open;
	hjg_u32		next;

	__device__ __forceinline__ hjg_u32
	place(hjg_u32 i, hjg_u32 whole) const
	{
		return i + (i < whole_end ? whole : i < open_end ? open : next);
	}
};

/* Wait for the bucket that follows a bucket which is not open yet. */
HJG_FN hjg_u32
wait_next(const HjgKChains &a, hjg_u32 bucket)
{
	hjg_u32		next;

	while ((next = atomicOr((hjg_u32 *) a.next + bucket, 0u)) == NO_BUCKET)
		__nanosleep(100);
	return next;
}

/* Note full buckets, which follow one another in the pool. */
HJG_FN void
note_full(const HjgKChains &a, hjg_u32 part, hjg_u32 first, hjg_u32 n)
{
	const hjg_u32 ordinal = atomicAdd((hjg_u32 *) a.nfull + part, n);

	for (hjg_u32 b = 0; b < n; b++)
	{
		((hjg_u32 *) a.owner)[first + b] = part;
		((hjg_u32 *) a.ordinal)[first + b] = ordinal + b;
	}
}

/*
 * Take n places of a partition, at least one, for a run at place `run` of a tile.  Whole buckets come from the pool.  The others are
 * counted in the partition's cursor, which also has the open bucket and the next one; so nobody waits, unless both are full.  Who takes
 * the last place of a bucket opens the next one, and adds one behind it.
 */
HJG_FN HjgRunPlaces
take_places(const HjgKChains &a, hjg_u32 part, hjg_u32 run, hjg_u32 n, hjg_u32 *whole)
{
	const hjg_u32 bits = a.bucket_bits;
	const hjg_u32 size = 1u << bits;
	HjgRunPlaces places = {run, 0, 0, 0};

	if (n >= size)
	{
		const hjg_u32 k = n >> bits;
		const hjg_u32 first = atomicAdd((hjg_u32 *) a.used, k);

		note_full(a, part, first, k);
		*whole = (first << bits) - run;
		run += k << bits;
		n &= size - 1;
		places.whole_end = run;
		if (n == 0)
			return places;
	}

	unsigned long long *cursor = (unsigned long long *) a.cursors + part;
	const unsigned long long old = atomicAdd(cursor, (unsigned long long) n);
	hjg_u32		bucket = HJG_K_CURSOR_OPEN(old);
	hjg_u32		next = HJG_K_CURSOR_NEXT(old);
	hjg_u32		at = HJG_K_CURSOR_ROWS(old);

	while (at >= size)
	{
		bucket = next;
		at -= size;
		if (at + n >= size)
			next = wait_next(a, bucket);
	}
	places.open = (bucket << bits) + at - run;
	places.open_end = run + size - at;
	places.next = (next << bits) - places.open_end;
	if (at + n >= size)
	{
		const hjg_u32 added = atomicAdd((hjg_u32 *) a.used, 1u);

		((hjg_u32 *) a.owner)[added] = part;
		/* others add to the cursor at the same time */
		atomicAdd(cursor, HJG_K_CURSOR(next, added, 0) - HJG_K_CURSOR(bucket, next, size));
		__threadfence();
		atomicExch((hjg_u32 *) a.next + next, added);
		note_full(a, part, bucket, 1);
	}
	return places;
}

/* Count the rows of a bucket of a complete chain. */
HJG_FN hjg_u32
bucket_rows(hjg_u64 cursor, hjg_u32 bucket, hjg_u32 bits)
{
	return bucket == HJG_K_CURSOR_OPEN(cursor) ? HJG_K_CURSOR_ROWS(cursor) : bucket == HJG_K_CURSOR_NEXT(cursor) ? 0 : 1u << bits;
}

/*
 * Execute a pass.  As many blocks as fit.  A tile is THREADS * ITEMS rows of the side, or one bucket of the previous pass (at most as
 * many rows).  The next tile's rows are read while this one is written.  Dynamic shared memory: the tile's rows and 24 << bits bytes.
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
	const hjg_u32 each = (nparts + CHAIN_THREADS - 1) / CHAIN_THREADS;
	const hjg_u32 from = min(tid * each, nparts);
	const hjg_u32 to = min(from + each, nparts);
	const typename Key::Raw *keys = (const typename Key::Raw *) a.side.keys;
	const hjg_u32 *rows = (const hjg_u32 *) a.side.rows;
	HjgRows<W, hjg_u32> in(a.in.keys, a.in.rows);
	HjgRows<W, hjg_u32> out(a.out.keys, a.out.rows);
	HjgRows<W, hjg_u32> tile((void *) shared, TILE);
	HjgRunPlaces *places = (HjgRunPlaces *) (shared + HjgRows<W, hjg_u32>::bytes / 4 * TILE);
	hjg_u32    *run = (hjg_u32 *) (places + nparts);	/* counts, then places of runs */
	hjg_u32    *whole = run + nparts;
	Mixed		key[ITEMS];
	hjg_u32		row[ITEMS];
	hjg_u32		n = 0;
	hjg_u32		coarse = 0;

	auto load = [&](hjg_u32 t)
	{
		hjg_u32		first = t * TILE;

		n = 0;
		if (t >= ntiles)
			return;
		if (again)
		{
			coarse = ((const hjg_u32 *) a.in_owner)[t];
			first = t << a.in_bucket_bits;
			n = bucket_rows(((const hjg_u64 *) a.in_cursors)[coarse], t, a.in_bucket_bits);
		}
		else
			n = min(TILE, a.side.nrows - first);
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
				key[j] = __ldcs(&keys[first + i]);	/* mixed when it is needed: nothing waits for it here */
				row[j] = rows != nullptr ? __ldcs(&rows[first + i]) : a.first_row + first + i;
			}
		}
	};

	load(blockIdx.x);
	for (hjg_u32 t = blockIdx.x; t < ntiles; t += gridDim.x)
	{
		hjg_u32		rank[(ITEMS + 1) / 2];	/* two of 16 bits in each */
		const hjg_u32 tile_rows = n;
		hjg_u32		sum = 0;

		for (hjg_u32 p = tid; p < nparts; p += CHAIN_THREADS)
			run[p] = 0;
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			hjg_u32		r = 0;

			if (j * CHAIN_THREADS + tid < n)
			{
				if (!again)
					key[j] = Key::mix(key[j]);
				r = atomicAdd(&run[Key::top(key[j]) >> shift & mask], 1u);
			}
			rank[j / 2] = j % 2 ? rank[j / 2] | r << 16 : r;
		}
		__syncthreads();
		for (hjg_u32 p = from; p < to; p++)
			sum += run[p];
		sum = hjg_block_sum_before<CHAIN_THREADS>(sum, sums);
		for (hjg_u32 p = from; p < to; p++)
		{
			const hjg_u32 run_rows = run[p];

			run[p] = sum;
			if (run_rows > 0)
				places[p] = take_places(a, coarse << a.bits | p, sum, run_rows, &whole[p]);
			sum += run_rows;
		}
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
			if (j * CHAIN_THREADS + tid < n)
				tile.put(run[Key::top(key[j]) >> shift & mask] + (rank[j / 2] >> j % 2 * 16 & 0xFFFF), key[j], row[j]);
		load(t + gridDim.x);
		__syncthreads();
#pragma unroll 4
		for (hjg_u32 i = tid; i < tile_rows; i += CHAIN_THREADS)
		{
			Mixed		k;
			hjg_u32		r;

			tile.get(i, &k, &r);

			const hjg_u32 p = Key::top(k) >> shift & mask;

			out.put(places[p].place(i, whole[p]), k, r);
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
	extern "C" __global__ __launch_bounds__(512, 2) void hjg_k_scatter_chains_##W(HjgKChains a) { scatter_chains<W, 512, ITEMS>(a); } \
	extern "C" __global__ __launch_bounds__(1024, FULL_BLOCKS) void \
	hjg_k_scatter_chains_full_##W(HjgKChains a) { scatter_chains<W, 1024, ITEMS / 2>(a); }

CHAIN_KERNELS(4, 8)
CHAIN_KERNELS(8, 8)
CHAIN_KERNELS(16, 4)

extern "C" __global__ __launch_bounds__(LIST_THREADS) void
hjg_k_measure_parts(HjgKChains a)
{
	const hjg_u32 p = blockIdx.x * LIST_THREADS + threadIdx.x;

	if (p < 1u << a.all_bits)
		((hjg_u32 *) a.sizes)[p] = (((const hjg_u32 *) a.nfull)[p] << a.bucket_bits) + HJG_K_CURSOR_ROWS(((const hjg_u64 *) a.cursors)[p]);
}

extern "C" __global__ __launch_bounds__(LIST_THREADS) void
hjg_k_list_pages(HjgKChains a)
{
	const hjg_u32 b = blockIdx.x * LIST_THREADS + threadIdx.x;

	if (b >= *(const hjg_u32 *) a.used)
		return;
	const hjg_u32 p = ((const hjg_u32 *) a.owner)[b];
	const hjg_u64 cursor = ((const hjg_u64 *) a.cursors)[p];
	const hjg_u32 *ordinal = b == HJG_K_CURSOR_OPEN(cursor) ? (const hjg_u32 *) a.nfull + p : (const hjg_u32 *) a.ordinal + b;

	if (bucket_rows(cursor, b, a.bucket_bits) > 0)
		((hjg_u32 *) a.pages)[(((const hjg_u32 *) a.first)[p] >> a.bucket_bits) + *ordinal] = b;
}
