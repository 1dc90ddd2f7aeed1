/*
 * hjg_cuda_emit.h
 *	  Output of pairs by warps.
 *
 * A warp has looked up 32 rows an item.  Eight warps reserve room for all their pairs with one atomic;
 * each writes its own.  The L2 cache takes a part of a 32-byte sector several times slower than a whole
 * one.  So if every row has its pair (the common case of a foreign key), shuffles rotate the items until
 * each store except the first and the last covers whole lines.
 *
 * Pairs beyond the capacity are counted, not written.
 */
#ifndef HJG_CUDA_EMIT_H
#define HJG_CUDA_EMIT_H

#include "hjg_cuda_kernel.h"

enum HjgOutputKind
{
	HJG_CHECKSUM,				/* counters only */
	HJG_PAIRS,
	HJG_COLUMNS					/* key, build row, probe row, as in published benchmarks */
};

/* A thread's sums for HJG_CHECKSUM. */
struct HjgTally
{
	hjg_u64		npairs;
	hjg_u64		checksum;

	__device__ __forceinline__ void
	add(hjg_u32 probe_row, hjg_u32 build_row)
	{
		npairs++;
		checksum += hjg_checksum_pair(probe_row, build_row);
	}
};

/* Write pair number at, which is below the capacity; key is raw. */
template <int OUT, class Raw, class V> HJG_FN void
hjg_write_pair(const HjgKOutput &o, hjg_u64 at, Raw key, V build_row, V probe_row)
{
	if constexpr (OUT == HJG_PAIRS)
		__stcs((uint2 *) o.pairs + at, make_uint2((hjg_u32) probe_row, (hjg_u32) build_row));
	else if constexpr (OUT == HJG_COLUMNS)
	{
		__stcs((Raw *) o.keys + at, key);
		__stcs((V *) o.build_rows + at, build_row);
		__stcs((V *) o.probe_rows + at, probe_row);
	}
}

/*
 * Emit at most one pair for each row: item j of this lane has one if bit j of wanted is set.  All warps of
 * a group call it together.
 */
template <int OUT, int ITEMS, int GROUPS, class Raw, class V> HJG_FN void
hjg_emit(const HjgKOutput &o, HjgGroup (&groups)[GROUPS], HjgTally *tally, hjg_u32 wanted, const Raw *key,
		 const V *build_row, const V *probe_row)
{
	if constexpr (OUT == HJG_CHECKSUM)
	{
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
			if (wanted >> j & 1)
				tally->add((hjg_u32) probe_row[j], (hjg_u32) build_row[j]);
	}
	else
	{
		const hjg_u32 lane = hjg_lane();
		hjg_u32		total = 0;
		bool		full = true;

#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			hjg_u32		ballot = __ballot_sync(HJG_ALL_LANES, wanted >> j & 1);

			full &= ballot == HJG_ALL_LANES;
			total += __popc(ballot);
		}
		hjg_u64		at = hjg_group_reserve(groups, (hjg_u64 *) o.counters, total);

		if (full && at + total <= o.capacity)
		{
			/* places c * 32 .. c * 32 + 31: item c - 1 in the lanes below turn, item c in the others */
			const hjg_u32 turn = (hjg_u32) at & 31;
			const hjg_u32 source = (lane - turn) & 31;
			const bool	old = lane < turn;
			Raw			key_before = {};
			V			build_before = 0;
			V			probe_before = 0;

			at = at - turn + lane;
#pragma unroll
			for (int c = 0; c <= ITEMS; c++, at += 32)
			{
				Raw			k = {};
				V			b = 0;
				V			p = 0;

				if (c < ITEMS)
				{
					b = __shfl_sync(HJG_ALL_LANES, build_row[c], source);
					p = __shfl_sync(HJG_ALL_LANES, probe_row[c], source);
					if constexpr (OUT == HJG_COLUMNS)
						k = __shfl_sync(HJG_ALL_LANES, key[c], source);
				}
				if (c == 0 ? !old : c == ITEMS ? old : true)
					hjg_write_pair<OUT>(o, at, old ? key_before : k, old ? build_before : b, old ? probe_before : p);
				key_before = k;
				build_before = b;
				probe_before = p;
			}
			return;
		}
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			hjg_u32		ballot = __ballot_sync(HJG_ALL_LANES, wanted >> j & 1);

			hjg_u64		place = at + __popc(ballot & ((1u << lane) - 1));

			if ((wanted >> j & 1) && place < o.capacity)
				hjg_write_pair<OUT>(o, place, key[j], build_row[j], probe_row[j]);
			at += __popc(ballot);
		}
	}
}

#endif							/* HJG_CUDA_EMIT_H */
