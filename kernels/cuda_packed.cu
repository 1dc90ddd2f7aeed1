/*
 * cuda_packed.cu
 *	  A table for 4-byte keys with 36 bits a slot: seven slots in a 32-byte sector.
 *
 * If the table stays in the L2 cache, the speed of a join without partitions is bounded by the sectors
 * that the cache serves, random or in order (some 150 a nanosecond on an H100).  About a third of the
 * cache stays: 64M rows that read one sector each and are written as columns take 0.755 ms with 14 MB of
 * sectors, 0.82 with 20, 0.95 with 27 (66 % of all reads hit).  So the table must be small.
 *
 * Quotients.  The mixed key m is a permutation of the key.  Its home is the high word of m * nsectors.
 * Multiplying the low word by `reach` = ceil(2^32 / nsectors) yields a number below reach that differs for
 * all m of one home (adjacent low words of a home are nsectors apart, and nsectors * reach >= 2^32).  Home
 * and number determine the key, so no key is stored or compared.  A slot contains the number (the tag)
 * above row_bits bits of row number.  A larger table has more bits of row number and as many fewer of tag,
 * so 36 bits are enough for any number of rows, provided that every row number is below 2^row_bits, which
 * is about twice the number of rows or more.
 *
 * A sector is 8 words: the lower 32 bits of slots 0 to 6, then a word with their upper four bits each.
 * The highest four bits of that word are flags, all ones except SPILLED: 0 if a key has found this sector
 * full.  An empty slot is all ones, which is not a tag.
 *
 * Regions.  There are nregions regions of region_sectors sectors.  The spare_sectors after each region
 * have four whole entries each, key and row, for keys whose home is full (2.5 % of the keys at a load of
 * 60 %).  A region is filled in shared memory:
 *
 *		spread	orders the build rows by region, a tile at a time; each run reserves room with one atomic
 *		fill	one block a region: reserves slots with atomics in shared memory, and writes whole sectors
 *
 * Both report unsuitable keys in flags (HJG_K_REPEATED, HJG_K_NO_ROOM).  The probe reads the flags itself,
 * so that it can be launched without waiting: with any flag of `unsuited` it counts ~0 pairs.
 *
 * H100, 2M build rows (17 MB of table): spread and fill 0.02 ms each; 64M rows probed and written as
 * columns 0.77 ms (115M sectors), as pairs 0.68, with a checksum 0.59 (90M).  Slots of 48 bits, five a
 * sector at a load of 50 % (27 MB), took 0.96 for columns, and 0.10 to fill with compare-and-swaps in the
 * L2 cache.  Cache policies that keep the table and evict streamed data first gained nothing, nor did
 * denser tables (70 %, 15 MB: 0.80).
 *
 * Bytes a row: spread reads 8 and writes 8, fill reads 8 and writes 8 (the table).  A probe reads key and
 * row number (4 + 4 bytes) and 1.03 sectors; a pair is written with 8 bytes, or with 12 in columns.
 */
#include "hjg_cuda_packed.h"

/* multiprocessors of other targets have fewer than 2048 threads */
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ >= 900)
#define BUILD_BLOCKS 2
#else
#define BUILD_BLOCKS 1
#endif

/*
 * Order build rows by region.  One block of 1024 threads for each tile of 4096 rows; dynamic shared
 * memory: 8 bytes a row of the tile.  The host checks: at most HJG_K_PACKED_REGIONS regions.  Rows beyond
 * region_rows of a region are not written, which flags report.
 */
extern "C" __global__ __launch_bounds__(HJG_K_SPREAD_THREADS, BUILD_BLOCKS) void
hjg_k_spread_packed_4(HjgKPacked a)
{
	extern __shared__ __align__(16) hjg_u32 shared[];
	__shared__ hjg_u32 sums[33];
	__shared__ hjg_u32 place[HJG_K_PACKED_REGIONS];	/* counts, then the run's target minus its place */
	__shared__ hjg_u16 run[HJG_K_PACKED_REGIONS];	/* the run's place in the tile */
	const int	ITEMS = HJG_K_PACKED_TILE / HJG_K_SPREAD_THREADS;
	const Places places(a);
	const hjg_u32 tid = threadIdx.x;
	const hjg_u32 first = blockIdx.x * HJG_K_PACKED_TILE;
	const hjg_u32 nrows = min(HJG_K_PACKED_TILE, a.build.nrows - first);
	const hjg_u32 *keys = (const hjg_u32 *) a.build.keys + first;
	const hjg_u32 *rows = a.build.rows != 0 ? (const hjg_u32 *) a.build.rows + first : nullptr;
	uint2	   *tile = (uint2 *) shared;
	uint2	   *out = (uint2 *) a.spread;
	hjg_u32		key[ITEMS];
	hjg_u32		row[ITEMS];
	hjg_u32		rank[ITEMS];
	hjg_u32		all_rows = 0;

	place[tid] = 0;
#pragma unroll
	for (int j = 0; j < ITEMS; j++)
	{
		const hjg_u32 i = j * HJG_K_SPREAD_THREADS + tid;

		if (i >= nrows)
			continue;
		key[j] = __ldcs(keys + i);
		row[j] = rows != nullptr ? __ldcs(rows + i) : first + i;
		all_rows |= row[j];
	}
	__syncthreads();
#pragma unroll
	for (int j = 0; j < ITEMS; j++)
		if (j * HJG_K_SPREAD_THREADS + tid < nrows)
		{
			key[j] = hjg_mix32(hjg_hash_seed, key[j]);
			rank[j] = atomicAdd(&place[places.region(key[j])], 1u);
		}
	__syncthreads();

	const hjg_u32 n = place[tid];
	const hjg_u32 before = hjg_block_sum_before<HJG_K_SPREAD_THREADS>(n, sums);
	bool		fits = all_rows >> a.row_bits == 0;

	run[tid] = (hjg_u16) before;
	if (n > 0)
	{
		const hjg_u32 at = atomicAdd((hjg_u32 *) a.cursors + tid, n);

		fits &= at + n <= a.region_rows;
		place[tid] = tid * a.region_rows + at - before;
	}
	if (!fits)
		atomicOr((hjg_u32 *) a.flags, HJG_K_NO_ROOM);
	__syncthreads();
#pragma unroll
	for (int j = 0; j < ITEMS; j++)
		if (j * HJG_K_SPREAD_THREADS + tid < nrows)
			tile[run[places.region(key[j])] + rank[j]] = make_uint2(key[j], row[j]);
	__syncthreads();
#pragma unroll
	for (int j = 0; j < ITEMS; j++)
	{
		const hjg_u32 i = j * HJG_K_SPREAD_THREADS + tid;

		if (i >= nrows)
			continue;

		const uint2 q = tile[i];
		const hjg_u32 region = places.region(q.x);
		const hjg_u32 at = place[region] + i;

		if (at < (region + 1) * a.region_rows)
			out[at] = q;
	}
}

/* A region in shared memory, and the rows whose homes are full. */
struct Region
{
	hjg_u32    *sectors;
	hjg_u64    *spare;
	uint2	   *waiting;
	hjg_u32    *filled;			/* slots used in each sector, 16 bits each */
	hjg_u32		room;			/* for waiting rows: one slot less than there are, so that every search
								 * ends */

	__device__ __forceinline__ Region(const Places &p, hjg_u32 *shared)
		: sectors(shared), spare((hjg_u64 *) (shared + SECTOR_WORDS * p.region_sectors)),
		  waiting((uint2 *) (spare + SPARE_SLOTS * p.spare_sectors)),
		  filled((hjg_u32 *) (waiting + SPARE_SLOTS * p.spare_sectors)), room(SPARE_SLOTS * p.spare_sectors - 1) {}

	/* Append a row to a sector; false if the sector is full. */
	__device__ __forceinline__ bool
	put(hjg_u32 sector, hjg_u32 tag, hjg_u32 row, hjg_u32 row_bits) const
	{
		const hjg_u32 half = 16 * (sector & 1);
		const hjg_u32 s = atomicAdd(&filled[sector >> 1], 1u << half) >> half & 0xFFFF;

		if (s >= HJG_K_PACKED_SLOTS)
			return false;
		sectors[SECTOR_WORDS * sector + s] = tag << row_bits | row;
		atomicXor(&sectors[SECTOR_WORDS * sector + HJG_K_PACKED_SLOTS], (tag >> (32 - row_bits) ^ 0xF) << 4 * s);
		return true;
	}

	/* Insert a row into the spare sectors; false if they contain its key. */
	__device__ __forceinline__ bool
	put_spare(hjg_u32 sector, hjg_u32 key, hjg_u32 row, const Places &places) const
	{
		for (;; sector = places.after(sector))
			for (int s = 0; s < SPARE_SLOTS; s++)
			{
				const hjg_u64 old = atomicCAS((unsigned long long *) &spare[SPARE_SLOTS * sector + s], NO_ENTRY,
											  (unsigned long long) key << 32 | row);

				if (old == NO_ENTRY || old >> 32 == key)
					return old == NO_ENTRY;
			}
	}

	/* Do two slots of the sector have the same tag? */
	__device__ __forceinline__ bool
	repeats(hjg_u32 sector, hjg_u32 row_bits) const
	{
		const hjg_u32 n = filled[sector >> 1] >> 16 * (sector & 1) & 0xFFFF;
		const uint4 low = ((const uint4 *) sectors)[2 * sector];
		const uint4 high = ((const uint4 *) sectors)[2 * sector + 1];
		const hjg_u32 slot[HJG_K_PACKED_SLOTS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z};
		bool		same = false;

#pragma unroll
		for (int s = 1; s < HJG_K_PACKED_SLOTS; s++)
#pragma unroll
			for (int r = 0; r < s; r++)
				same |= s < n && (slot[s] ^ slot[r]) >> row_bits == 0 && ((high.w >> 4 * s ^ high.w >> 4 * r) & 0xF) == 0;
		return same;
	}
};

/*
 * Fill the table.  One block of 1024 threads a region; dynamic shared memory: 32 bytes a sector, 64 a
 * spare one, and 2 a sector, rounded up to 4.  Two blocks a multiprocessor if that is at most half of its
 * shared memory.
 */
extern "C" __global__ __launch_bounds__(HJG_K_FILL_THREADS, BUILD_BLOCKS) void
hjg_k_fill_packed_4(HjgKPacked a)
{
	extern __shared__ __align__(16) hjg_u32 shared[];
	__shared__ hjg_u32 nwaiting;
	const int	BATCH = 4;
	const Places places(a);
	const Region region(places, shared);
	const hjg_u32 tid = threadIdx.x;
	const hjg_u32 first_home = blockIdx.x * a.region_sectors;
	const hjg_u32 nuint4 = 2 * (a.region_sectors + a.spare_sectors);
	const hjg_u32 nrows = min(((const hjg_u32 *) a.cursors)[blockIdx.x], a.region_rows);
	const uint2 *rows = (const uint2 *) a.spread + (hjg_u64) blockIdx.x * a.region_rows;
	uint4	   *out = (uint4 *) a.sectors + (hjg_u64) blockIdx.x * nuint4;
	hjg_u32		flags = 0;

	for (hjg_u32 i = tid; i < nuint4; i += HJG_K_FILL_THREADS)
		((uint4 *) shared)[i] = make_uint4(~0u, ~0u, ~0u, ~0u);
	for (hjg_u32 i = tid; i < (a.region_sectors + 1) / 2; i += HJG_K_FILL_THREADS)
		region.filled[i] = 0;
	if (tid == 0)
		nwaiting = 0;
	__syncthreads();
	for (hjg_u32 i = tid; i < nrows; i += BATCH * HJG_K_FILL_THREADS)
	{
		uint2		q[BATCH];

#pragma unroll
		for (int j = 0; j < BATCH; j++)
			if (i + j * HJG_K_FILL_THREADS < nrows)
				q[j] = __ldcs(rows + i + j * HJG_K_FILL_THREADS);
#pragma unroll
		for (int j = 0; j < BATCH; j++)
		{
			if (i + j * HJG_K_FILL_THREADS >= nrows ||
				region.put(places.home(q[j].x) - first_home, places.tag(q[j].x), q[j].y, a.row_bits))
				continue;

			const hjg_u32 at = atomicAdd(&nwaiting, 1u);

			if (at < region.room)
				region.waiting[at] = q[j];
			else
				flags |= HJG_K_NO_ROOM;
		}
	}
	__syncthreads();
	for (hjg_u32 s = tid; s < a.region_sectors; s += HJG_K_FILL_THREADS)
		if (region.repeats(s, a.row_bits))
			flags |= HJG_K_REPEATED;
	for (hjg_u32 i = tid; i < min(nwaiting, region.room); i += HJG_K_FILL_THREADS)
	{
		const uint2 q = region.waiting[i];
		const uint4 *home = (const uint4 *) shared + 2 * (places.home(q.x) - first_home);

		if (places.look(home[0], home[1], places.tag(q.x)) != HJG_NO_ROW ||
			!region.put_spare(places.spare(q.x), q.x, q.y, places))
			flags |= HJG_K_REPEATED;
	}
	__syncthreads();
	for (hjg_u32 i = tid; i < min(nwaiting, region.room); i += HJG_K_FILL_THREADS)
		atomicAnd(&region.sectors[SECTOR_WORDS * (places.home(region.waiting[i].x) - first_home) + HJG_K_PACKED_SLOTS], ~SPILLED);
	if (flags != 0)
		atomicOr((hjg_u32 *) a.flags, flags);
	__syncthreads();
	for (hjg_u32 i = tid; i < nuint4; i += HJG_K_FILL_THREADS)
		out[i] = ((const uint4 *) shared)[i];
}

PACKED_PROBE_4(pairs, HJG_PAIRS)
