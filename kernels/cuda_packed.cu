/*
 * cuda_packed.cu
 *	  A table for 4-byte keys that takes 36 bits a slot: seven slots in a 32-byte sector.
 *
 * What bounds a join without partitions is the sectors that the L2 cache serves, random or in order (some 150 a
 * nanosecond on an H100), as long as the table stays in it.  A third of the cache is as much as stays: 64M rows that look at
 * one sector each and are written as columns take 0.755 ms with 14 MB of sectors, 0.82 with 20, 0.95 with 27 (66 % of all reads hit).
 * So the table is made small.
 *
 * Quotients.  The mixed key m is a permutation of the key.  Its home is the high word of m * nsectors; of the low
 * word a multiplication by `reach` = ceil(2^32 / nsectors) makes a number below reach that differs between all m of
 * one home (two neighbours' low words are nsectors apart, and nsectors * reach >= 2^32).  Home and number give the key:
 * no key is stored, none is compared.  A slot holds the number (the tag) in front of row_bits bits of row number.
 * What a larger table adds to the bits of row numbers its tags lose, so 36 bits are enough for any number of rows, if no row
 * number is 2^row_bits or more, which is nearly twice the number of rows or more than that.
 *
 * A sector is 8 words: the lower 32 bits of slots 0 to 6, then one word with their upper four bits; its highest four bits
 * are flags, all ones, but for SPILLED: 0 when a key has found this sector full.  An empty slot is all ones, which no tag is.
 *
 * Regions.  nregions times region_sectors sectors; spare_sectors more behind those of each region have four whole entries each,
 * key and row, for what found its home full (2.5 % of the keys at a load of 60 %).  A region is filled in shared memory:
 *
 *		spread	orders the build rows by region, a tile at a time; room for each run is taken with one atomic
 *		fill	one block a region: slots are taken with atomics in shared memory, and whole sectors are written out
 *
 * Both say what does not suit in flags (HJG_K_REPEATED, HJG_K_NO_ROOM).  The probe reads them itself, so that nobody has to wait for them
 * before it is launched: where they are unsuited it counts ~0 pairs.
 *
 * H100, 2M build rows (17 MB of table): spread and fill 0.02 ms each; 64M rows probed and written as columns 0.77 ms (115M
 * sectors), as pairs 0.68, summed up 0.59 (90M).  Slots of 48 bits, five a sector at a load of 50 % (27 MB), took 0.96 for columns,
 * and 0.10 to fill with compare-and-swaps in the L2 cache.  Policies that keep the table in the cache and let streams go first gained
 * nothing, nor did denser tables (70 %, 15 MB: 0.80).
 *
 * Bytes a row: spread reads 8 and writes 8, fill reads 8 and writes 8 (the table).  A probe reads key and row number (4 + 4 bytes) and
 * 1.03 sectors; a pair is written with 8 bytes, with 12 in columns.
 */
#include "hjg_cuda_probe.h"

#define SLOTS 7
#define SECTOR_WORDS 8
#define SPILLED (1u << 28)
#define SPARE_SLOTS 4
#define NO_ENTRY (~0ull)

/* multiprocessors of other targets do not have 2048 threads */
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ >= 900)
#define BUILD_BLOCKS 2
#else
#define BUILD_BLOCKS 1
#endif

/* Where a mixed key belongs. */
struct Places
{
	hjg_u32		nregions;
	hjg_u32		nsectors;		/* all homes */
	hjg_u32		region_sectors;
	hjg_u32		spare_sectors;
	hjg_u32		reach;
	hjg_u32		row_bits;

	__device__ __forceinline__ explicit Places(const HjgKPacked &a)
		: nregions(a.nregions), nsectors(a.nregions * a.region_sectors), region_sectors(a.region_sectors),
		  spare_sectors(a.spare_sectors), reach(a.reach), row_bits(a.row_bits) {}
	__device__ __forceinline__ hjg_u32 region(hjg_u32 m) const { return __umulhi(m, nregions); }
	/* of all homes; those of a region are adjacent, since nsectors is a multiple of nregions */
	__device__ __forceinline__ hjg_u32 home(hjg_u32 m) const { return __umulhi(m, nsectors); }
	__device__ __forceinline__ hjg_u32 tag(hjg_u32 m) const { return __umulhi(m * nsectors, reach); }
	/* of the spare sectors of its region, the first to look at */
	__device__ __forceinline__ hjg_u32 spare(hjg_u32 m) const { return __umulhi(m * 0x9E3779B1u, spare_sectors); }
	__device__ __forceinline__ hjg_u32 after(hjg_u32 s) const { return s + 1 == spare_sectors ? 0 : s + 1; }

	/* The row of the tag, or HJG_NO_ROW. */
	__device__ __forceinline__ hjg_u32
	look(const uint4 &low, const uint4 &high, hjg_u32 tag) const
	{
		const hjg_u32 slot[SLOTS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z};
		const hjg_u32 lower = tag << row_bits;
		const hjg_u32 upper = high.w ^ (tag >> (32 - row_bits)) * 0x1111111u;
		hjg_u32		found = HJG_NO_ROW;

#pragma unroll
		for (int s = 0; s < SLOTS; s++)
			if ((slot[s] ^ lower) >> row_bits == 0 && (upper & 0xFu << 4 * s) == 0)
				found = slot[s] ^ lower;
		return found;
	}
};

/* ---- building ---- */

/*
 * One block of 1024 threads for each tile of 4096 rows; dynamic shared memory: 8 bytes a row of the tile.  The host checks: at most
 * HJG_K_PACKED_REGIONS regions.  Rows beyond region_rows of a region are not written; flags say so.
 */
extern "C" __global__ __launch_bounds__(HJG_K_SPREAD_THREADS, BUILD_BLOCKS) void
hjg_k_spread_packed_4(HjgKPacked a)
{
	extern __shared__ __align__(16) hjg_u32 shared[];
	__shared__ hjg_u32 sums[33];
	__shared__ hjg_u32 place[HJG_K_PACKED_REGIONS];	/* counts, then where the run goes less where it lies */
	__shared__ hjg_u16 run[HJG_K_PACKED_REGIONS];	/* where it lies in the tile */
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

/* A region in shared memory, and the rows that found their homes full. */
struct Region
{
	hjg_u32    *sectors;
	hjg_u64    *spare;
	uint2	   *waiting;
	hjg_u32    *filled;			/* slots taken of each sector, 16 bits each */
	hjg_u32		room;			/* for waiting rows: one slot less than there are, so that every search ends */

	__device__ __forceinline__ Region(const Places &p, hjg_u32 *shared)
		: sectors(shared), spare((hjg_u64 *) (shared + SECTOR_WORDS * p.region_sectors)),
		  waiting((uint2 *) (spare + SPARE_SLOTS * p.spare_sectors)),
		  filled((hjg_u32 *) (waiting + SPARE_SLOTS * p.spare_sectors)), room(SPARE_SLOTS * p.spare_sectors - 1) {}

	/* False when the sector is full. */
	__device__ __forceinline__ bool
	put(hjg_u32 sector, hjg_u32 tag, hjg_u32 row, hjg_u32 row_bits) const
	{
		const hjg_u32 half = 16 * (sector & 1);
		const hjg_u32 s = atomicAdd(&filled[sector >> 1], 1u << half) >> half & 0xFFFF;

		if (s >= SLOTS)
			return false;
		sectors[SECTOR_WORDS * sector + s] = tag << row_bits | row;
		atomicXor(&sectors[SECTOR_WORDS * sector + SLOTS], (tag >> (32 - row_bits) ^ 0xF) << 4 * s);
		return true;
	}

	/* False when the key is there. */
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

	/* Do two slots of the sector have one tag? */
	__device__ __forceinline__ bool
	repeats(hjg_u32 sector, hjg_u32 row_bits) const
	{
		const hjg_u32 n = filled[sector >> 1] >> 16 * (sector & 1) & 0xFFFF;
		const uint4 low = ((const uint4 *) sectors)[2 * sector];
		const uint4 high = ((const uint4 *) sectors)[2 * sector + 1];
		const hjg_u32 slot[SLOTS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z};
		bool		same = false;

#pragma unroll
		for (int s = 1; s < SLOTS; s++)
#pragma unroll
			for (int r = 0; r < s; r++)
				same |= s < n && (slot[s] ^ slot[r]) >> row_bits == 0 && ((high.w >> 4 * s ^ high.w >> 4 * r) & 0xF) == 0;
		return same;
	}
};

/*
 * One block of 1024 threads a region; dynamic shared memory: 32 bytes a sector, 64 a spare one, and 2 a sector, rounded up to 4.
 * Two blocks a multiprocessor where that is at most half of its shared memory.
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
		atomicAnd(&region.sectors[SECTOR_WORDS * (places.home(region.waiting[i].x) - first_home) + SLOTS], ~SPILLED);
	if (flags != 0)
		atomicOr((hjg_u32 *) a.flags, flags);
	__syncthreads();
	for (hjg_u32 i = tid; i < nuint4; i += HJG_K_FILL_THREADS)
		out[i] = ((const uint4 *) shared)[i];
}

/* ---- probing ---- */

struct PackedFinder
{
	typedef hjg_u32 Raw;
	static const int AT_ONCE = 2;	/* sectors of a lane on the way: what more would gain in latency it loses in occupancy */
	const uint4 *halves;		/* of sectors */
	Places		places;

	/* Find a key that is not in its home, which was full. */
	__device__ __forceinline__ hjg_u32
	find_spare(hjg_u32 m) const
	{
		const uint4 *spare = halves +
			2ull * (places.region(m) * (places.region_sectors + places.spare_sectors) + places.region_sectors);
		hjg_u32		found = HJG_NO_ROW;

		for (hjg_u32 s = places.spare(m);; s = places.after(s))
		{
			const uint4 low = __ldg(&spare[2 * s]);
			const uint4 high = __ldg(&spare[2 * s + 1]);

			/* of an empty entry the row is HJG_NO_ROW */
			found = low.y == m ? low.x : low.w == m ? low.z : high.y == m ? high.x : high.w == m ? high.z : HJG_NO_ROW;
			if (found != HJG_NO_ROW || high.z == HJG_NO_ROW)
				return found;
		}
	}

	template <int ITEMS> __device__ __forceinline__ void
	find(const Raw *key, hjg_u32 here, hjg_u32 *found) const
	{
		hjg_u32		searching = 0;

#pragma unroll
		for (int first = 0; first < ITEMS; first += AT_ONCE)
		{
			uint4		low[AT_ONCE];
			uint4		high[AT_ONCE];

#pragma unroll
			for (int k = 0; k < AT_ONCE; k++)
			{
				const hjg_u32 m = hjg_mix32(hjg_hash_seed, key[first + k]);
				const hjg_u32 sector = places.home(m) + places.region(m) * places.spare_sectors;

				low[k] = __ldg(&halves[2ull * sector]);
				high[k] = __ldg(&halves[2ull * sector + 1]);
			}
#pragma unroll
			for (int k = 0; k < AT_ONCE; k++)
			{
				const int	j = first + k;

				found[j] = places.look(low[k], high[k], places.tag(hjg_mix32(hjg_hash_seed, key[j])));
				if (found[j] == HJG_NO_ROW && (high[k].w & SPILLED) == 0)
					searching |= 1u << j;
			}
		}
		/* few go on: of each lane its own next one at a time */
		for (searching &= here; searching != 0; searching &= searching - 1)
		{
			const int	which = __ffs(searching) - 1;
			hjg_u32		k = key[0];

#pragma unroll
			for (int j = 1; j < ITEMS; j++)
				k = which == j ? key[j] : k;
			k = find_spare(hjg_mix32(hjg_hash_seed, k));
#pragma unroll
			for (int j = 0; j < ITEMS; j++)
				found[j] = which == j ? k : found[j];
		}
	}
};

template <int OUT> HJG_FN void
probe_packed(const HjgKPacked &a)
{
	const PackedFinder finder = {(const uint4 *) a.sectors, Places(a)};

	if ((*(const hjg_u32 *) a.flags & a.unsuited) != 0)
	{
		if (blockIdx.x == 0 && threadIdx.x == 0)
			*(hjg_u64 *) a.output.counters = ~0ull;
		return;
	}
	/* a sum needs the registers that keys read ahead take */
	hjg_probe_rows<OUT, 8, OUT != HJG_CHECKSUM>(a.probe, a.output, a.mode, finder);
}

#define PACKED_PROBE(NAME, OUT) \
	extern "C" __global__ __launch_bounds__(HJG_PROBE_THREADS, 4) void \
	hjg_k_probe_packed_4_##NAME(HjgKPacked a) { probe_packed<OUT>(a); }

PACKED_PROBE(pairs, HJG_PAIRS)
PACKED_PROBE(checksum, HJG_CHECKSUM)
PACKED_PROBE(columns, HJG_COLUMNS)
