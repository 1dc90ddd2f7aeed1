/*
 * cuda_aligned.cu
 *	  Radix partitioning of rows with 4-byte keys that writes only whole sectors.
 *
 * Sectors, not bytes, limit a scatter: a run that starts or ends inside a 32-byte sector writes that
 * sector in two parts, and the L2 cache takes a part four times slower than a whole sector (measured on an
 * H100: 4096 runs of 3 rows a tile, 2.2 ms for 128M rows unaligned, 1.2 ms aligned even with half as many
 * bytes again).  So rows that do not fill a sector wait in registers for the next tile, and one pass makes
 * up to 2^12 partitions.  Counting and placing are in cuda_partition.cu.
 *
 * Bytes a row: 8 read (4 without a column of row numbers), 8 written.  On an H100 that copies 3.0 TB/s,
 * 128M rows: 1.3 ms with 2^12 partitions, 1.0 with 2^11 (floor 0.72).  Prefetching the next tile's row
 * numbers into the L2 cache is 5 % slower.
 */
#include "hjg_cuda_kernel.h"


/*
 * Pack a run of a tile into a word: its first whole sector, the number of whole sectors, and the number of
 * rows left over.
 */
HJG_FN hjg_u32 run_word(hjg_u32 sector, hjg_u32 nrows)
{
	return sector | nrows / HJG_K_SECTOR_ROWS << 13 | nrows % HJG_K_SECTOR_ROWS << 26;
}
HJG_FN hjg_u32 run_first(hjg_u32 word) { return (word & 0x1FFF) * HJG_K_SECTOR_ROWS; }
HJG_FN hjg_u32 run_whole(hjg_u32 word) { return (word >> 13 & 0x1FFF) * HJG_K_SECTOR_ROWS; }
HJG_FN hjg_u32 run_left(hjg_u32 word) { return word >> 26; }

/*
 * Scatter rows.  One block of 1024 threads a multiprocessor; each takes every gridDim.x-th tile of
 * tile_rows rows, at most ROOM, of which a thread has ITEMS.  A thread owns PARTS partitions and keeps up
 * to three rows of each in registers from tile to tile, so that a block writes all but its last rows in
 * whole sectors.  Those last rows fill the partitions downwards from their ends (down), which keeps the
 * cursors of other blocks aligned.
 *
 * A tile has four phases, each followed by a barrier.  Slow operations are issued a phase or two before
 * their results are used, and global and shared memory work at the same time:
 *
 *		sum		compute the place of each run in the tile; reserve its room by atomics in global memory
 *		order	move rows to their places in the tile; read the keys of the next tile
 *		settle	move left-over rows back into registers; the room is known
 *		write	write the tile to memory, then rank the next tile's rows in their runs
 *
 * Runs in a tile have the order of threads, not of partitions, so that adjacent threads access adjacent
 * partitions.  Exceeding the 64 registers of a thread is costly: rows leave the L1 cache only 29 KB, and
 * 80 spilled bytes a thread went to the L2 cache.
 *
 * Dynamic shared memory: 8 * (ROOM + 3 * nparts) bytes of rows, 10 bytes a partition: at most 226 KB in
 * each of the three shapes.  Registers: 64; at most 32 bytes a thread are spilled, with 2^12 partitions.
 * The host checks: first[] aligned to HJG_K_SECTOR_ROWS, last[] exact, bits as in the kernel's name,
 * tile_rows.
 */
template <int ITEMS, int PARTS, int ROOM> HJG_FN void
scatter_aligned(const HjgKScatter &a)
{
	extern __shared__ __align__(16) hjg_u32 shared[];
	__shared__ hjg_u32 sums[33];
	const hjg_u32 NPARTS = HJG_K_ALIGNED_THREADS * PARTS;
	const int	REST = HJG_K_SECTOR_ROWS - 1;
	const hjg_u32 tid = threadIdx.x;
	uint2	   *tile = (uint2 *) shared;	/* whole sectors, run by run, then left-over rows */
	hjg_u32    *run = shared + 2 * (ROOM + REST * NPARTS);	/* counts of rows, then words of runs */
	hjg_u32    *base = run + NPARTS;	/* the run's target minus its place in the tile */
	hjg_u16    *left = (hjg_u16 *) (base + NPARTS);	/* place of its left-over rows */
	uint2	   *out = (uint2 *) a.out.keys;
	hjg_u32    *up = (hjg_u32 *) a.up;
	hjg_u32    *down = (hjg_u32 *) a.down;
	const hjg_u32 *keys = (const hjg_u32 *) a.side.keys;
	const hjg_u32 *rows = (const hjg_u32 *) a.side.rows;
	const hjg_u32 ntiles = (a.side.nrows + a.tile_rows - 1) / a.tile_rows;
	hjg_u32		key[ITEMS];
	hjg_u32		rank[ITEMS / 2];
	uint2		rest[PARTS][REST];
	hjg_u32		nrest = 0;		/* of each partition, in two bits */

	auto waits = [&](int p) { return nrest >> 2 * p & 3; };

	static_assert(ROOM + REST * NPARTS <= HJG_K_SECTOR_ROWS << 13 && ROOM <= HJG_K_ALIGNED_THREADS * ITEMS, "a run fits its word");
	auto part = [&](int p) { return p * HJG_K_ALIGNED_THREADS + tid; };
	/* items 4q .. 4q+3 of a thread are adjacent rows */
	auto item = [&](hjg_u32 t, int q) { return t * a.tile_rows + (q * HJG_K_ALIGNED_THREADS + tid) * 4; };
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

	/* mix keys, and count the rows of runs, which begin with the waiting rows */
	auto rank_items = [&](hjg_u32 t)
	{
		const hjg_u32 end = end_of(t);

#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			hjg_u32		r = 0;

			key[j] = hjg_mix32(hjg_hash_seed, key[j]);
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

		/* sum: whole sectors in the upper half, left-over rows in the lower */
#pragma unroll
		for (int p = 0; p < PARTS; p++)
		{
			const hjg_u32 n = run[part(p)];

			room[p] = 0;
			if (n >= HJG_K_SECTOR_ROWS)
				room[p] = atomicAdd(&up[part(p)], n / HJG_K_SECTOR_ROWS * HJG_K_SECTOR_ROWS);
			sum += (n / HJG_K_SECTOR_ROWS) << 16 | n % HJG_K_SECTOR_ROWS;
		}
		sum = hjg_block_sum_before<HJG_K_ALIGNED_THREADS>(sum, sums);
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

		/* order: first the waiting rows, then the new ones */
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
		for (hjg_u32 i = tid; i < whole_end; i += HJG_K_ALIGNED_THREADS)
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

extern "C" __global__ __launch_bounds__(HJG_K_ALIGNED_THREADS, 1) void
hjg_k_scatter_aligned_10(HjgKScatter a)
{
	scatter_aligned<24, 1, HJG_K_ALIGNED_ROOM_10>(a);
}

extern "C" __global__ __launch_bounds__(HJG_K_ALIGNED_THREADS, 1) void
hjg_k_scatter_aligned_11(HjgKScatter a)
{
	scatter_aligned<20, 2, HJG_K_ALIGNED_ROOM_11>(a);
}

extern "C" __global__ __launch_bounds__(HJG_K_ALIGNED_THREADS, 1) void
hjg_k_scatter_aligned_12(HjgKScatter a)
{
	scatter_aligned<12, 4, HJG_K_ALIGNED_ROOM_12>(a);
}
