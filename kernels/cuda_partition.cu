/*
 * cuda_partition.cu
 *	  Radix partitioning of rows by the leading bits of their mixed keys.
 *
 * count_keys, place_parts, then scatter: every partition gets exactly the room it needs, so
 * skew costs nothing but its own rows.  A tile of rows is ordered by partition in shared memory,
 * room for each of its runs is taken from the partition's cursor with one atomic a run, and the tile
 * is written run by run.  The order of rows within a partition is left open: no look-back, no stable ranks.
 *
 * What limits a scatter is not bytes but sectors: a run that starts or ends inside a 32-byte
 * sector writes that sector in two parts, and the L2 cache takes a part four times slower than a whole sector
 * (measured on an H100: 4096 runs of 3 rows a tile, 2.2 ms for 128M rows unaligned, 1.2 ms aligned even
 * with half as many bytes again).  So there are two kinds:
 *
 *		scatter_rows, scatter_again		plain; for runs of some hundred bytes, up to 2^8 partitions
 *		scatter_aligned					what does not fill a sector waits in registers for the next
 *										tile; up to 2^12 partitions in one pass
 *
 * Bytes a row, 4-byte keys: count_keys reads 4; scatter_rows and scatter_aligned read 8 (4 without
 * a column of row numbers), scatter_again 8; all write 8.  On an H100 that copies 3.0 TB/s, 128M rows:
 * count_keys 0.19 ms (floor 0.18); scatter_aligned 1.3 ms with 2^12 partitions, 1.0 with 2^11 (floor
 * 0.72); scatter_rows 1.1 ms with 2^8.  Tried and not kept, since they were slower or no faster: row numbers of the next tile
 * prefetched into the L2 cache (scatter_aligned 5 % slower), partitions placed by the last block that counts.
 */
#include "hjg_cuda_kernel.h"

#define COUNT_THREADS 1024
/* multiprocessors of other targets do not have 2048 threads */
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ >= 900)
#define COUNT_BLOCKS 2
#else
#define COUNT_BLOCKS 1
#endif
#define LIST_THREADS 1024
#define SCATTER_THREADS 512
#define ALIGNED_THREADS 1024

/* ---- counting ---- */

/*
 * Blocks of 1024 threads, as many as fit; 4 << bits bytes of dynamic shared memory: two blocks a
 * multiprocessor up to 12 bits, one up to 15.
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
	const hjg_u32 stride = gridDim.x * COUNT_THREADS;
	const hjg_u32 nloads = a.side.nrows / KEYS;
	hjg_u32		i = blockIdx.x * COUNT_THREADS + threadIdx.x;

	auto count = [&](Raw key) { atomicAdd(&shared[Key::top(Key::mix(key)) >> shift], 1u); };

	for (hjg_u32 p = threadIdx.x; p < nparts; p += COUNT_THREADS)
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
	for (hjg_u32 p = threadIdx.x; p < nparts; p += COUNT_THREADS)
		if (shared[p] > 0)
			atomicAdd(&counts[p], shared[p]);
}

extern "C" __global__ __launch_bounds__(COUNT_THREADS, COUNT_BLOCKS) void hjg_k_count_keys_4(HjgKCount a) { count_keys<4>(a); }
extern "C" __global__ __launch_bounds__(COUNT_THREADS, COUNT_BLOCKS) void hjg_k_count_keys_8(HjgKCount a) { count_keys<8>(a); }
extern "C" __global__ __launch_bounds__(COUNT_THREADS, COUNT_BLOCKS) void hjg_k_count_keys_16(HjgKCount a) { count_keys<16>(a); }

/*
 * Sum of of(k) over all k below number i, which is this thread's among those of all blocks.  Each block sums for itself what
 * lies before it: at most 2^15 numbers, and no block waits for another.  *last: the sum with this block's numbers.
 * All threads of the block call it, sums as for hjg_block_sum_before().
 */
template <class Of> HJG_FN hjg_u32
sum_below(hjg_u32 i, hjg_u32 n, hjg_u32 *sums, hjg_u32 *last, Of of)
{
	const hjg_u32 from = blockIdx.x * LIST_THREADS;
	hjg_u32		before = 0;

#pragma unroll 8
	for (hjg_u32 k = threadIdx.x; k < from; k += LIST_THREADS)
		before += of(k);
	hjg_block_sum_before<LIST_THREADS>(before, sums);
	before = sums[32];
	__syncthreads();

	const hjg_u32 sum = before + hjg_block_sum_before<LIST_THREADS>(i < n ? of(i) : 0, sums);

	*last = before + sums[32];
	return sum;
}

/* Where each partition lies. */
HJG_FN void
scan_counts(const HjgKPlace &a, hjg_u32 *sums)
{
	const hjg_u32 *counts = (const hjg_u32 *) a.counts;
	const hjg_u32 nparts = 1u << a.bits;
	const hjg_u32 pad = (1u << a.align_bits) - 1;
	const hjg_u32 i = blockIdx.x * LIST_THREADS + threadIdx.x;
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

/* The units of the join that follows; counts are of the probe side, whose places other blocks have yet to write. */
HJG_FN void
list_units(const HjgKUnits &a, const hjg_u32 *counts, hjg_u32 *sums)
{
	const hjg_u32 *build_first = (const hjg_u32 *) a.build.first;
	const hjg_u32 *build_last = (const hjg_u32 *) a.build.last;
	hjg_u32    *unit_first = (hjg_u32 *) a.unit_first;
	const hjg_u32 nparts = 1u << a.bits;
	const hjg_u32 i = blockIdx.x * LIST_THREADS + threadIdx.x;
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
 * Blocks of 1024 threads, a partition for each thread: on an H100 a single block took 0.16 ms for
 * 2^15 partitions and 0.34 with units, these take 0.006 and 0.02.
 */
extern "C" __global__ __launch_bounds__(LIST_THREADS) void
hjg_k_place_parts(HjgKPlace a)
{
	__shared__ hjg_u32 sums[33];

	scan_counts(a, sums);
	__syncthreads();
	if (a.units.unit_first != 0)
		list_units(a.units, (const hjg_u32 *) a.counts, sums);
}

/* Blocks of 1024 threads, a warp for a partition; at most 1024 coarse partitions, whose tiles each block counts for itself. */
extern "C" __global__ __launch_bounds__(LIST_THREADS) void
hjg_k_list_tiles(HjgKTiles a)
{
	__shared__ hjg_u32 sums[33];
	__shared__ hjg_u32 tile_first[LIST_THREADS + 1];
	const hjg_u32 *first = (const hjg_u32 *) a.parts.first;
	const hjg_u32 *ends = (const hjg_u32 *) a.ends;
	HjgKTile   *tiles = (HjgKTile *) a.tiles;
	hjg_u32		nparts = 1u << a.coarse_bits;
	hjg_u32		mine = 0;

	if (threadIdx.x < nparts)
		mine = (ends[threadIdx.x] - first[threadIdx.x << a.fine_bits] + a.tile_rows - 1) / a.tile_rows;
	tile_first[threadIdx.x] = hjg_block_sum_before<LIST_THREADS>(mine, sums);
	if (threadIdx.x == 0)
	{
		tile_first[nparts] = sums[32];
		if (blockIdx.x == 0)
			*(hjg_u32 *) a.ntiles = sums[32];
	}
	__syncthreads();
	for (hjg_u32 p = (blockIdx.x * LIST_THREADS + threadIdx.x) >> 5; p < nparts; p += gridDim.x * LIST_THREADS / 32)
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

/* ---- plain scatter ---- */

/*
 * Blocks of 512 threads, two a multiprocessor, each taking every gridDim.x-th tile of
 * 512 * ITEMS rows; dynamic shared memory: the tile's rows and 6 << bits bytes.  The next
 * tile's rows are loaded while this one is written.
 */
template <int W, class V, int ITEMS, bool AGAIN> HJG_FN void
scatter(const HjgKScatter &a)
{
	extern __shared__ __align__(16) hjg_u32 shared[];
	__shared__ hjg_u32 sums[33];
	typedef HjgKey<W> Key;
	typedef typename Key::Mixed Mixed;
	const hjg_u32 TILE = SCATTER_THREADS * ITEMS;
	const hjg_u32 nparts = 1u << a.bits;
	const hjg_u32 mask = nparts - 1;
	const hjg_u32 tid = threadIdx.x;
	HjgRows<W, V> in(a.in.keys, a.in.rows);
	HjgRows<W, V> out(a.out.keys, a.out.rows);
	HjgRows<W, V> tile((void *) shared, TILE);
	/* counts, then where the run goes less where it lies */
	hjg_u32    *place = shared + (hjg_u32) HjgRows<W, V>::bytes / 4 * TILE;
	hjg_u16    *run = (hjg_u16 *) (place + nparts);	/* where the run lies in the tile */
	const typename Key::Raw *keys = (const typename Key::Raw *) a.side.keys;
	const V    *rows = (const V *) a.side.rows;
	const hjg_u32 ntiles = AGAIN ? *(const hjg_u32 *) a.ntiles : (a.side.nrows + TILE - 1) / TILE;
	Mixed		key[ITEMS];
	V			row[ITEMS];
	hjg_u32		rank[ITEMS / 2];
	hjg_u32		n = 0;
	hjg_u32    *cursor = (hjg_u32 *) a.up;

	auto load = [&](hjg_u32 t)
	{
		hjg_u32		first = t * TILE;

		n = 0;
		if (t >= ntiles)
			return;
		if (AGAIN)
		{
			uint4		q = __ldg((const uint4 *) a.tiles + t);

			first = q.x;
			n = q.y;
			cursor = (hjg_u32 *) a.up + (q.z << a.bits);
		}
		else
			n = min(TILE, a.side.nrows - first);
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			hjg_u32		i = j * SCATTER_THREADS + tid;

			if (i >= n)
				continue;
			if (AGAIN)
				in.get(first + i, &key[j], &row[j]);
			else
			{
				key[j] = __ldcs(&keys[first + i]);
				row[j] = rows != nullptr ? __ldcs(&rows[first + i]) : (V) (first + i);
			}
		}
	};

	load(blockIdx.x);
	for (hjg_u32 t = blockIdx.x; t < ntiles; t += gridDim.x)
	{
		hjg_u32    *target = cursor;
		hjg_u32		tile_rows = n;
		hjg_u32		each = max(1u, nparts / SCATTER_THREADS);
		hjg_u32		from = tid * each;
		hjg_u32		to = from < nparts ? from + each : from;
		hjg_u32		sum = 0;

		for (hjg_u32 i = tid; i < nparts; i += SCATTER_THREADS)
			place[i] = 0;
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			hjg_u32		r = 0;

			if (j * SCATTER_THREADS + tid < n)
			{
				if (!AGAIN)
					key[j] = Key::mix(key[j]);
				r = atomicAdd(&place[Key::top(key[j]) >> a.shift & mask], 1u);
			}
			rank[j / 2] = j % 2 ? rank[j / 2] | r << 16 : r;
		}
		__syncthreads();
		for (hjg_u32 i = from; i < to; i++)
			sum += place[i];
		sum = hjg_block_sum_before<SCATTER_THREADS>(sum, sums);
		for (hjg_u32 i = from; i < to; i++)
		{
			run[i] = (hjg_u16) sum;
			sum += place[i];
		}
		__syncthreads();
#pragma unroll 2
		for (hjg_u32 i = tid; i < nparts; i += SCATTER_THREADS)
			place[i] = atomicAdd(&target[i], place[i]) - run[i];
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
			if (j * SCATTER_THREADS + tid < n)
				tile.put(run[Key::top(key[j]) >> a.shift & mask] + (rank[j / 2] >> j % 2 * 16 & 0xFFFF), key[j], row[j]);
		load(t + gridDim.x);
		__syncthreads();
#pragma unroll 4
		for (hjg_u32 i = tid; i < tile_rows; i += SCATTER_THREADS)
		{
			Mixed		k;
			V			v;

			tile.get(i, &k, &v);
			out.put(place[Key::top(k) >> a.shift & mask] + i, k, v);
		}
		__syncthreads();
	}
}

#define SCATTER_KERNELS(NAME, W, V, ITEMS) \
	extern "C" __global__ __launch_bounds__(SCATTER_THREADS, 2) void \
	hjg_k_scatter_rows_##NAME(HjgKScatter a) { scatter<W, V, ITEMS, false>(a); } \
	extern "C" __global__ __launch_bounds__(SCATTER_THREADS, 2) void \
	hjg_k_scatter_again_##NAME(HjgKScatter a) { scatter<W, V, ITEMS, true>(a); }

SCATTER_KERNELS(4, 4, hjg_u32, 12)
SCATTER_KERNELS(8, 8, hjg_u32, 12)
SCATTER_KERNELS(16, 16, hjg_u32, 6)
SCATTER_KERNELS(8_8, 8, hjg_u64, 8)

/* ---- aligned scatter of 4-byte keys ---- */

/* A run of a tile in one word: its first whole sector, how many there are, and how many rows are left over. */
HJG_FN hjg_u32 run_word(hjg_u32 sector, hjg_u32 nrows)
{
	return sector | nrows / HJG_K_SECTOR_ROWS << 13 | nrows % HJG_K_SECTOR_ROWS << 26;
}
HJG_FN hjg_u32 run_first(hjg_u32 word) { return (word & 0x1FFF) * HJG_K_SECTOR_ROWS; }
HJG_FN hjg_u32 run_whole(hjg_u32 word) { return (word >> 13 & 0x1FFF) * HJG_K_SECTOR_ROWS; }
HJG_FN hjg_u32 run_left(hjg_u32 word) { return word >> 26; }

/*
 * One block of 1024 threads a multiprocessor, each taking every gridDim.x-th tile of tile_rows rows, at most ROOM, of which
 * a thread has ITEMS.  A thread owns PARTS partitions and keeps up to three rows of each in registers from tile to tile, so
 * that all but the last rows of a block are written in whole sectors.  Those last rows fill the partitions from their ends
 * downwards (down), which leaves the cursors of other blocks aligned.
 *
 * A tile has four phases, with a barrier after each.  What takes long is asked for a phase or two before it is
 * used, and shared memory is at work while memory is:
 *
 *		sum		where each run lies in the tile; room for it is taken, by atomics in global memory
 *		order	rows to their places in the tile; the keys of the next tile are asked for
 *		settle	rows left over back into registers; the room has come
 *		write	the tile to memory, then the ranks of the next tile's rows in their runs
 *
 * The order of runs in a tile is that of threads, not of partitions, so that neighbours have neighbouring partitions in
 * every access.  What does not fit the 64 registers of a thread hurts more than it seems to: rows leave the L1 cache
 * 29 KB, and 80 bytes a thread went to the L2 cache.
 *
 * Dynamic shared memory: 8 * (ROOM + 3 * nparts) bytes of rows, 10 bytes a partition: at most 226 KB
 * in each of the three shapes.  Registers: 64; spilled are at most 32 bytes a thread, with 2^12 partitions.
 * The host checks: first[] aligned to HJG_K_SECTOR_ROWS, last[] exact, bits as the kernel's name says, tile_rows.
 */
template <int ITEMS, int PARTS, int ROOM> HJG_FN void
scatter_aligned(const HjgKScatter &a)
{
	extern __shared__ __align__(16) hjg_u32 shared[];
	__shared__ hjg_u32 sums[33];
	const hjg_u32 NPARTS = ALIGNED_THREADS * PARTS;
	const int	REST = HJG_K_SECTOR_ROWS - 1;
	const hjg_u32 tid = threadIdx.x;
	uint2	   *tile = (uint2 *) shared;	/* whole sectors, run by run, then what is left over */
	hjg_u32    *run = shared + 2 * (ROOM + REST * NPARTS);	/* counts of rows, then words of runs */
	hjg_u32    *base = run + NPARTS;	/* where the run goes less where it lies */
	hjg_u16    *left = (hjg_u16 *) (base + NPARTS);	/* where its rows left over lie */
	uint2	   *out = (uint2 *) a.out.keys;
	hjg_u32    *up = (hjg_u32 *) a.up;
	hjg_u32    *down = (hjg_u32 *) a.down;
	const hjg_u32 *keys = (const hjg_u32 *) a.side.keys;
	const hjg_u32 *rows = (const hjg_u32 *) a.side.rows;
	const hjg_u32 ntiles = (a.side.nrows + a.tile_rows - 1) / a.tile_rows;
	hjg_u32		key[ITEMS];
	hjg_u32		rank[ITEMS / 2];
	uint2		rest[PARTS][REST];
	hjg_u32		nrest = 0;		/* of each, in two bits */

	auto waits = [&](int p) { return nrest >> 2 * p & 3; };

	static_assert(ROOM + REST * NPARTS <= HJG_K_SECTOR_ROWS << 13 && ROOM <= ALIGNED_THREADS * ITEMS, "a run fits its word");
	auto part = [&](int p) { return p * ALIGNED_THREADS + tid; };
	/* items 4q .. 4q+3 of a thread are adjacent rows */
	auto item = [&](hjg_u32 t, int q) { return t * a.tile_rows + (q * ALIGNED_THREADS + tid) * 4; };
	auto end_of = [&](hjg_u32 t) { return t < ntiles ? min((t + 1) * a.tile_rows, a.side.nrows) : 0; };

	auto load = [&](hjg_u32 t)
	{
		const hjg_u32 end = end_of(t);

		if (t >= ntiles)
			return;

#pragma unroll
		for (int q = 0; q < ITEMS / 4; q++)
		{
			const hjg_u32 i = item(t, q);
			uint4		v = make_uint4(0, 0, 0, 0);

			if (i + 4 <= end)
				v = __ldcs((const uint4 *) (keys + i));
			else
			{
				v.x = i < end ? keys[i] : 0;
				v.y = i + 1 < end ? keys[i + 1] : 0;
				v.z = i + 2 < end ? keys[i + 2] : 0;
			}
			key[4 * q] = v.x;
			key[4 * q + 1] = v.y;
			key[4 * q + 2] = v.z;
			key[4 * q + 3] = v.w;
		}
	};

	/* mixes keys, and counts the rows of runs, which begin with those that wait */
	auto rank_items = [&](hjg_u32 t)
	{
		const hjg_u32 end = end_of(t);

#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			hjg_u32		r = 0;

			key[j] = hjg_mix32(key[j]);
			if (item(t, j / 4) + j % 4 < end)
				r = atomicAdd(&run[key[j] >> a.shift], 1u);
			rank[j / 2] = j % 2 ? rank[j / 2] | r << 16 : r;
		}
	};

#pragma unroll
	for (int p = 0; p < PARTS; p++)
		run[part(p)] = 0;
	load(blockIdx.x);
	__syncthreads();
	rank_items(blockIdx.x);
	for (hjg_u32 t = blockIdx.x; t < ntiles; t += gridDim.x)
	{
		const hjg_u32 end = end_of(t);
		hjg_u32		sum = 0;
		hjg_u32		whole_end;
		hjg_u32		room[PARTS];

		__syncthreads();

		/* sum: whole sectors in the upper half, rows left over in the lower */
#pragma unroll
		for (int p = 0; p < PARTS; p++)
		{
			const hjg_u32 n = run[part(p)];

			room[p] = 0;
			if (n >= HJG_K_SECTOR_ROWS)
				room[p] = atomicAdd(&up[part(p)], n / HJG_K_SECTOR_ROWS * HJG_K_SECTOR_ROWS);
			sum += (n / HJG_K_SECTOR_ROWS) << 16 | n % HJG_K_SECTOR_ROWS;
		}
		sum = hjg_block_sum_before<ALIGNED_THREADS>(sum, sums);
		whole_end = (sums[32] >> 16) * HJG_K_SECTOR_ROWS;
#pragma unroll
		for (int p = 0; p < PARTS; p++)
		{
			const hjg_u32 n = run[part(p)];

			run[part(p)] = run_word(sum >> 16, n);
			left[part(p)] = (hjg_u16) (whole_end + (sum & 0xFFFF));
			sum += (n / HJG_K_SECTOR_ROWS) << 16 | n % HJG_K_SECTOR_ROWS;
		}
		__syncthreads();

		/* order: first the rows that waited, then the new ones */
		auto put = [&](hjg_u32 p, hjg_u32 r, hjg_u32 k, hjg_u32 v)
		{
			const hjg_u32 word = run[p];

			tile[r < run_whole(word) ? run_first(word) + r : left[p] + r - run_whole(word)] = make_uint2(k, v);
		};
#pragma unroll
		for (int p = 0; p < PARTS; p++)
#pragma unroll
			for (int r = 0; r < REST; r++)
				if (r < waits(p))
					put(part(p), r, rest[p][r].x, rest[p][r].y);
#pragma unroll
		for (int q = 0; q < ITEMS / 4; q++)
		{
			const hjg_u32 i = item(t, q);
			hjg_u32		row[4] = {i, i + 1, i + 2, i + 3};

			if (rows != nullptr && i + 4 <= end)
			{
				uint4		v = __ldcs((const uint4 *) (rows + i));

				row[0] = v.x;
				row[1] = v.y;
				row[2] = v.z;
				row[3] = v.w;
			}
#pragma unroll
			for (int k = 0; k < 4; k++)
			{
				int			j = 4 * q + k;

				if (i + k >= end)
					continue;
				if (rows != nullptr && i + 4 > end)
					row[k] = rows[i + k];
				put(key[j] >> a.shift, rank[j / 2] >> j % 2 * 16 & 0xFFFF, key[j], row[k]);
			}
		}
		load(t + gridDim.x);
		__syncthreads();

		/* settle */
#pragma unroll
		for (int p = 0; p < PARTS; p++)
		{
			const hjg_u32 word = run[part(p)];

			nrest = p == 0 ? run_left(word) : nrest | run_left(word) << 2 * p;
			run[part(p)] = run_left(word);
			base[part(p)] = room[p] - run_first(word);
#pragma unroll
			for (int r = 0; r < REST; r++)
				if (r < run_left(word))
					rest[p][r] = tile[left[part(p)] + r];
		}
		__syncthreads();

		/* write */
#pragma unroll 4
		for (hjg_u32 i = tid; i < whole_end; i += ALIGNED_THREADS)
		{
			uint2		q = tile[i];

			out[base[q.x >> a.shift] + i] = q;
		}
		rank_items(t + gridDim.x);
	}
#pragma unroll
	for (int p = 0; p < PARTS; p++)
	{
		hjg_u32		at = 0;

		if (waits(p) > 0)
			at = atomicSub(&down[part(p)], waits(p)) - waits(p);
#pragma unroll
		for (int r = 0; r < REST; r++)
			if (r < waits(p))
				out[at + r] = rest[p][r];
	}
}

extern "C" __global__ __launch_bounds__(ALIGNED_THREADS, 1) void
hjg_k_scatter_aligned_10(HjgKScatter a)
{
	scatter_aligned<24, 1, HJG_K_ALIGNED_ROOM_10>(a);
}

extern "C" __global__ __launch_bounds__(ALIGNED_THREADS, 1) void
hjg_k_scatter_aligned_11(HjgKScatter a)
{
	scatter_aligned<20, 2, HJG_K_ALIGNED_ROOM_11>(a);
}

extern "C" __global__ __launch_bounds__(ALIGNED_THREADS, 1) void
hjg_k_scatter_aligned_12(HjgKScatter a)
{
	scatter_aligned<12, 4, HJG_K_ALIGNED_ROOM_12>(a);
}
