/*
 * hjg_cuda_packed.h
 *	  The table of cuda_packed.cu: the places of a key, and the probe.
 */
#ifndef HJG_CUDA_PACKED_H
#define HJG_CUDA_PACKED_H

#include "hjg_cuda_probe.h"

#define SECTOR_WORDS (HJG_K_SECTOR_BYTES / 4)
#define SPILLED (1u << 28)
#define SPARE_SLOTS 4
#define NO_ENTRY (~0ull)

/* The places of mixed keys. */
struct Places
{
	hjg_u32		nregions;
	hjg_u32		nsectors;		/* homes of all regions */
	hjg_u32		region_sectors;
	hjg_u32		spare_sectors;
	hjg_u32		reach;
	hjg_u32		row_bits;

	__device__ __forceinline__ explicit Places(const HjgKPacked &a)
		: nregions(a.nregions), nsectors(a.nregions * a.region_sectors), region_sectors(a.region_sectors),
		  spare_sectors(a.spare_sectors), reach(a.reach), row_bits(a.row_bits) {}
	__device__ __forceinline__ hjg_u32 region(hjg_u32 m) const { return __umulhi(m, nregions); }
	/* among all homes; the homes of a region are adjacent, since nsectors is a multiple of nregions */
	__device__ __forceinline__ hjg_u32 home(hjg_u32 m) const { return __umulhi(m, nsectors); }
	__device__ __forceinline__ hjg_u32 tag(hjg_u32 m) const { return __umulhi(m * nsectors, reach); }
	/* first spare sector of the key's region to search */
	__device__ __forceinline__ hjg_u32 spare(hjg_u32 m) const { return __umulhi(m * 0x9E3779B1u, spare_sectors); }
	__device__ __forceinline__ hjg_u32 after(hjg_u32 s) const { return s + 1 == spare_sectors ? 0 : s + 1; }

	/* Return the row with the tag, or HJG_NO_ROW. */
	__device__ __forceinline__ hjg_u32
	look(const uint4 &low, const uint4 &high, hjg_u32 tag) const
	{
		const hjg_u32 slot[HJG_K_PACKED_SLOTS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z};
		const hjg_u32 lower = tag << row_bits;
		const hjg_u32 upper = high.w ^ (tag >> (32 - row_bits)) * 0x1111111u;
		hjg_u32		found = HJG_NO_ROW;

#pragma unroll
		for (int s = 0; s < HJG_K_PACKED_SLOTS; s++)
			if ((slot[s] ^ lower) >> row_bits == 0 && (upper & 0xFu << 4 * s) == 0)
				found = slot[s] ^ lower;
		return found;
	}
};

/* ---- probing ---- */

struct PackedFinder
{
	typedef hjg_u32 Raw;
	static const int AT_ONCE = 2;	/* sectors that a lane reads at a time; with more, lower occupancy
									 * costs more than lower latency gains */
	const uint4 *halves;		/* of sectors */
	Places		places;

	/* Find a key whose home is full and does not contain it. */
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

			/* the row of an empty entry is HJG_NO_ROW */
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
		/* few keys are left: each lane searches one of its keys at a time */
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
	/* a checksum needs the registers for reading ahead */
	hjg_probe_rows<OUT, 8, OUT != HJG_CHECKSUM>(a.probe, a.output, a.mode, finder);
}

#define PACKED_PROBE_4(KIND, OUT) \
	extern "C" __global__ __launch_bounds__(HJG_PROBE_THREADS, 4) void \
	hjg_k_probe_packed_4_##KIND(HjgKPacked a) { probe_packed<OUT>(a); }

#endif							/* HJG_CUDA_PACKED_H */
