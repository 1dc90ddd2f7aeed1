/*
 * hjg_cuda_probe.h
 *	  The probe loop of joins without partitions; a finder looks up rows.
 *
 * A finder is a small struct, passed by value, with the type Raw of raw keys and
 *
 *		template <int ITEMS> void find(const Raw *key, hjg_u32 here, hjg_u32 *found) const
 *
 * which all lanes of a warp call together.  Bit j of here: the lane has an item j.  found[j] becomes a
 * build row with that key, or HJG_NO_ROW.  All items take each step of their searches together, so each
 * step, not each row, waits for memory once.
 */
#ifndef HJG_CUDA_PROBE_H
#define HJG_CUDA_PROBE_H

#include "hjg_cuda_emit.h"

#define HJG_PROBE_THREADS HJG_GROUP_THREADS

/*
 * Probe all rows with one grid of blocks of HJG_PROBE_THREADS; each row has at most one pair.  With AHEAD
 * the keys of the next tile are read while those of this tile are looked up, which needs registers.
 */
template <int OUT, int ITEMS, bool AHEAD, class Finder> HJG_FN void
hjg_probe_rows(const HjgKSide &probe, const HjgKOutput &output, hjg_u32 mode, const Finder finder)
{
	typedef typename Finder::Raw Raw;
	const Raw  *keys = (const Raw *) probe.keys;
	const hjg_u32 *rows = (const hjg_u32 *) probe.rows;
	const bool	want_found = mode != HJG_MATCH_ANTI;
	const bool	want_lonely = mode == HJG_MATCH_LEFT || mode == HJG_MATCH_ANTI;
	const hjg_u32 lane = hjg_lane();
	const hjg_u32 stride = gridDim.x * HJG_PROBE_THREADS * ITEMS;
	__shared__ HjgGroup groups[1];
	HjgTally	tally = {0, 0};

	Raw			key[ITEMS];
	Raw			next_key[AHEAD ? ITEMS : 1];

	auto load = [&](hjg_u32 tile, Raw *to)
	{
		const hjg_u32 base = tile + (threadIdx.x & ~31u) * ITEMS;

#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			const hjg_u32 i = base + j * 32 + lane;

			to[j] = i < probe.nrows ? __ldcs(&keys[i]) : Raw();
		}
	};

	if constexpr (AHEAD)
		load(blockIdx.x * HJG_PROBE_THREADS * ITEMS, next_key);
	for (hjg_u32 tile = blockIdx.x * HJG_PROBE_THREADS * ITEMS; tile < probe.nrows; tile += stride)
	{
		const hjg_u32 base = tile + (threadIdx.x & ~31u) * ITEMS;
		hjg_u32		row[ITEMS];
		hjg_u32		found[ITEMS];
		hjg_u32		here = 0;
		hjg_u32		wanted = 0;

		if constexpr (AHEAD)
		{
#pragma unroll
			for (int j = 0; j < ITEMS; j++)
				key[j] = next_key[j];
		}
		else
			load(tile, key);
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			const hjg_u32 i = base + j * 32 + lane;

			row[j] = i;
			if (i >= probe.nrows)
				continue;
			here |= 1u << j;
			if (rows != nullptr)
				row[j] = __ldcs(&rows[i]);
		}
		if constexpr (AHEAD)
			load(tile + stride, next_key);
		finder.template find<ITEMS>(key, here, found);
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			wanted |= (hjg_u32) ((here >> j & 1) && (found[j] != HJG_NO_ROW ? want_found : want_lonely)) << j;
			if (!want_found)
				found[j] = HJG_NO_ROW;
		}
		hjg_emit<OUT, ITEMS>(output, groups, &tally, wanted, key, found, row);
	}
	if (OUT == HJG_CHECKSUM)
		hjg_warp_add((hjg_u64 *) output.counters, tally.npairs, tally.checksum);
}

#endif							/* HJG_CUDA_PROBE_H */
