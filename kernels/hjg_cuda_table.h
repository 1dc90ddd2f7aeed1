/*
 * hjg_cuda_table.h
 *	  The probes of the tables of cuda_table.cu.
 */
#ifndef HJG_CUDA_TABLE_H
#define HJG_CUDA_TABLE_H

#include "hjg_cuda_probe.h"
#include "hjg_table_steps.h"

/* ---- table ---- */

HJG_FN HjgCsrKey widened(hjg_u32 m) { return {m, 0}; }
HJG_FN HjgCsrKey widened(hjg_u64 m) { return {m, 0}; }
HJG_FN HjgCsrKey widened(ulonglong2 m) { return {m.x, m.y}; }

template <int W> struct TableFinder
{
	typedef HjgKey<W> Key;
	typedef typename Key::Raw Raw;
	const hjg_u64 *slots;
	const Raw  *build_keys;
	const hjg_u32 *build_rows;
	hjg_u32		nsectors;

	template <int ITEMS> __device__ __forceinline__ void
	find(const Raw *key, hjg_u32 here, hjg_u32 *found) const
	{
		HjgCsrKey	mixed[ITEMS];

#pragma unroll
		for (int j = 0; j < ITEMS; j++)
			mixed[j] = widened(Key::mix(key[j]));
		hjg_table_find(W, ITEMS, slots, nsectors, build_keys, mixed, here, found);
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
			if (W != 4 && build_rows != nullptr && found[j] != HJG_NO_ROW)
				found[j] = build_rows[found[j]];
	}
};

template <int W, int OUT, int ITEMS> HJG_FN void
probe_table(const HjgKTable &a)
{
	typedef typename HjgKey<W>::Raw Raw;
	const TableFinder<W> finder = {
		(const hjg_u64 *) a.slots, (const Raw *) a.build.keys, (const hjg_u32 *) a.build.rows, a.nsectors
	};

	hjg_probe_rows<OUT, ITEMS, false>(a.probe, a.output, a.mode, finder);
}

#define TABLE_PROBE(NAME, W, OUT, ITEMS) \
	extern "C" __global__ __launch_bounds__(HJG_PROBE_THREADS, 4) void \
	hjg_k_probe_table_##NAME(HjgKTable a) { probe_table<W, OUT, ITEMS>(a); }

#define TABLE_PROBE_4(KIND, OUT) TABLE_PROBE(4_##KIND, 4, OUT, 4)
#define TABLE_PROBE_8(KIND, OUT) TABLE_PROBE(8_##KIND, 8, OUT, 4)
#define TABLE_PROBE_16(KIND, OUT) TABLE_PROBE(16_##KIND, 16, OUT, 2)

/* ---- direct ---- */

template <class Key> struct DirectFinder
{
	typedef Key Raw;
	const hjg_u32 *slots;
	hjg_u64		least;
	hjg_u64		nslots;

	template <int ITEMS> __device__ __forceinline__ void
	find(const Raw *key, hjg_u32 here, hjg_u32 *found) const
	{
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			hjg_u64		slot = (hjg_u64) key[j] - least;

			found[j] = slot < nslots ? __ldg(&slots[slot]) : HJG_NO_ROW;
		}
	}
};

template <class Raw, int OUT, int ITEMS> HJG_FN void
probe_direct(const HjgKDirect &a)
{
	const DirectFinder<Raw> finder = {(const hjg_u32 *) a.slots, a.least, a.nslots};

	hjg_probe_rows<OUT, ITEMS, false>(a.probe, a.output, a.mode, finder);
}

#define DIRECT_PROBE(NAME, RAW, OUT) \
	extern "C" __global__ __launch_bounds__(HJG_PROBE_THREADS, 4) void \
	hjg_k_probe_direct_##NAME(HjgKDirect a) { probe_direct<RAW, OUT, 8>(a); }

#define DIRECT_PROBE_4(KIND, OUT) DIRECT_PROBE(4_##KIND, hjg_u32, OUT)
#define DIRECT_PROBE_8(KIND, OUT) DIRECT_PROBE(8_##KIND, hjg_u64, OUT)

#endif							/* HJG_CUDA_TABLE_H */
