/*
 * cuda_packed.cu
 *	  A table for 4-byte keys that takes 6 bytes a slot: five slots in a 32-byte sector.
 *
 * What bounds a join without partitions is the sectors that the L2 cache serves, random or in order (some 155 a
 * nanosecond on an H200), as long as the table stays in it.  So the table is made small, and 98 of 100 keys are in
 * their first sector.
 *
 * Quotients.  The mixed key m is a permutation of the key.  Its home is the high word of m * nsectors; of the low
 * word a multiplication by `reach` = ceil(2^32 / nsectors) makes a number below reach that differs between all m of
 * one home (two neighbours' low words are nsectors apart, and nsectors * reach >= 2^32).  A key that finds its
 * sector full goes on by a step that this number gives, d steps at most as far as 16 bits hold
 *
 *		tag = number + d * reach,		0xFFFF: empty
 *
 * Sector and tag together give number, step, home and thereby the key: no key is stored, none is compared.
 *
 * A sector is 8 words: rows 0 to 4; tags 0 and 1, 2 and 3, 4 and 16 bits that stay empty.  Slots fill in their
 * order, each by a compare-and-swap of its tag's word, so whoever comes later sees all tags before its own, and an
 * empty last slot ends a search.  Rows are written by whoever has won the slot; nobody reads them before the next kernel.
 *
 * A probe reads key and row number (4 + 4 bytes) and 1.02 sectors; a pair is written with 8 bytes, with 12 in columns.
 * H200, 2M build rows (27 MB of table): filling 0.11 ms (25 compare-and-swaps a nanosecond), 64M rows probed and written as
 * columns 0.77 ms (109M sectors, floor 0.70), summed up 0.53 ms (84M, 0.54): 77 and 107 Gtuples/s with the filling; H100: 64 and 89.
 */
#include "hjg_cuda_probe.h"

#define EMPTY 0xFFFFu
#define SECTOR_WORDS 8
#define TAG_WORD 5				/* first of the words of tags */
#define SLOTS 5

/* How the search for a key goes from sector to sector. */
struct Way
{
	hjg_u32		nsectors;
	hjg_u32		reach;

	__device__ __forceinline__ explicit Way(hjg_u32 n) : nsectors(n), reach(0xFFFFFFFFu / n + 1) {}
	__device__ __forceinline__ hjg_u32 home(hjg_u32 m) const { return __umulhi(m, nsectors); }
	__device__ __forceinline__ hjg_u32 number(hjg_u32 m) const { return __umulhi(m * nsectors, reach); }
	__device__ __forceinline__ hjg_u32
	next(hjg_u32 sector, hjg_u32 number) const
	{
		const hjg_u32 to = sector + 1 + __umulhi(number * 0x9E3779B1u, nsectors - 1);

		return to >= nsectors ? to - nsectors : to;
	}
	/* may the tag be followed by another? */
	__device__ __forceinline__ bool goes_on(hjg_u32 tag) const { return tag + reach < EMPTY; }
};

/* *repeated: bit 0, two rows have one key; bit 1, a key did not find room. */
extern "C" __global__ __launch_bounds__(HJG_PROBE_THREADS) void
hjg_k_fill_packed_4(HjgKTable a)
{
	const Way	way(a.nsectors);
	const hjg_u32 *keys = (const hjg_u32 *) a.build.keys;
	const hjg_u32 *rows = (const hjg_u32 *) a.build.rows;

	for (hjg_u32 i = blockIdx.x * HJG_PROBE_THREADS + threadIdx.x; i < a.build.nrows; i += gridDim.x * HJG_PROBE_THREADS)
	{
		const hjg_u32 m = hjg_mix32(__ldcs(&keys[i]));
		const hjg_u32 number = way.number(m);
		const hjg_u32 row = rows != nullptr ? __ldcs(&rows[i]) : i;
		hjg_u32		sector = way.home(m);
		hjg_u32		tag = number;
		uint4		high = __ldcg((const uint4 *) a.slots + 2ull * sector + 1);

		for (;;)
		{
			hjg_u32    *slot = (hjg_u32 *) a.slots + (hjg_u64) SECTOR_WORDS * sector;
			/* the first word of tags with an empty one, and the slot of that */
			const hjg_u32 w = high.y >> 16 == EMPTY ? 0 : high.z >> 16 == EMPTY ? 1 : 2;
			const hjg_u32 word = w == 0 ? high.y : w == 1 ? high.z : high.w;
			const hjg_u32 s = 2 * w + ((word & 0xFFFF) != EMPTY);

			if ((high.y & 0xFFFF) == tag || high.y >> 16 == tag || (high.z & 0xFFFF) == tag || high.z >> 16 == tag ||
				(high.w & 0xFFFF) == tag)
			{
				atomicOr((hjg_u32 *) a.repeated, 1u);
				break;
			}
			if (s < SLOTS)
			{
				const hjg_u32 old = atomicCAS(slot + TAG_WORD + w, word, word ^ (EMPTY ^ tag) << 16 * (s & 1));

				if (old == word)
				{
					slot[s] = row;
					break;
				}
				high.y = w == 0 ? old : high.y;
				high.z = w == 1 ? old : high.z;
				high.w = w == 2 ? old : high.w;
				continue;
			}
			if (!way.goes_on(tag))
			{
				atomicOr((hjg_u32 *) a.repeated, 2u);
				break;
			}
			tag += way.reach;
			sector = way.next(sector, number);
			high = __ldcg((const uint4 *) a.slots + 2ull * sector + 1);
		}
	}
}

struct PackedFinder
{
	typedef hjg_u32 Raw;
	const uint4 *halves;		/* of sectors */
	Way			way;

	/* True when the search ends here. */
	static __device__ __forceinline__ bool
	look(const uint4 &low, const uint4 &high, hjg_u32 tag, hjg_u32 *found)
	{
		const hjg_u32 both = tag | tag << 16;
		const hjg_u32 d01 = high.y ^ both;
		const hjg_u32 d23 = high.z ^ both;
		const hjg_u32 d4 = high.w ^ both;

		if ((d01 & 0xFFFF) == 0)
			*found = low.x;
		if (d01 >> 16 == 0)
			*found = low.y;
		if ((d23 & 0xFFFF) == 0)
			*found = low.z;
		if (d23 >> 16 == 0)
			*found = low.w;
		if ((d4 & 0xFFFF) == 0)
			*found = high.x;
		return *found != HJG_NO_ROW || (high.w & 0xFFFF) == EMPTY;
	}

	template <int ITEMS> __device__ __forceinline__ void
	find(const Raw *key, hjg_u32 here, hjg_u32 *found) const
	{
		hjg_u32		sector[ITEMS];
		hjg_u32		searching = 0;

		/* two at a time: what more would gain in latency it loses in occupancy */
#pragma unroll
		for (int first = 0; first < ITEMS; first += 2)
		{
			uint4		low[2];
			uint4		high[2];

#pragma unroll
			for (int k = 0; k < 2; k++)
			{
				const int	j = first + k;

				found[j] = HJG_NO_ROW;
				sector[j] = way.home(hjg_mix32(key[j]));
				low[k] = __ldg(&halves[2ull * sector[j]]);
				high[k] = __ldg(&halves[2ull * sector[j] + 1]);
			}
#pragma unroll
			for (int k = 0; k < 2; k++)
			{
				const int	j = first + k;

				if (!look(low[k], high[k], way.number(hjg_mix32(key[j])), &found[j]) && (here >> j & 1))
					searching |= 1u << j;
			}
		}
		/* few go on: one item at a time */
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			const hjg_u32 number = way.number(hjg_mix32(key[j]));
			hjg_u32		tag = number;

			while (searching >> j & 1)
			{
				if (!way.goes_on(tag))
					break;
				tag += way.reach;
				sector[j] = way.next(sector[j], number);
				if (look(__ldg(&halves[2ull * sector[j]]), __ldg(&halves[2ull * sector[j] + 1]), tag, &found[j]))
					break;
			}
		}
	}
};

template <int OUT, int ITEMS> HJG_FN void
probe_packed(const HjgKTable &a)
{
	const PackedFinder finder = {(const uint4 *) a.slots, Way(a.nsectors)};

	hjg_probe_rows<OUT, ITEMS, true>(a.probe, a.output, a.mode, finder);
}

/* Blocks of a multiprocessor; before compute capability 8.0 it has no threads for a fifth. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define MOST_BLOCKS 4
#else
#define MOST_BLOCKS 5
#endif

#define PACKED_PROBE(NAME, OUT, ITEMS, BLOCKS) \
	extern "C" __global__ __launch_bounds__(HJG_PROBE_THREADS, BLOCKS) void \
	hjg_k_probe_packed_4_##NAME(HjgKTable a) { probe_packed<OUT, ITEMS>(a); }

PACKED_PROBE(pairs, HJG_PAIRS, 4, MOST_BLOCKS)
PACKED_PROBE(checksum, HJG_CHECKSUM, 2, 4)
PACKED_PROBE(columns, HJG_COLUMNS, 4, MOST_BLOCKS)
