/*
 * cuda_table.cu
 *	  Joins without partitions, for build sides whose table stays in the L2 cache.
 *
 *		table	open addressing (hjg_table_steps.h).  A slot is 8 bytes: row and mixed key (wider keys: a tag, and the
 *				key is then compared in the build side's column); four slots are a bucket, one 32-byte sector.  An empty
 *				slot has the row HJG_NO_ROW: no key value is reserved.
 *		direct	an array indexed by key, for dense keys of the build side
 *
 * Both need a build side without repeated keys (SEMI and ANTI joins do not); fill reports repeated keys in
 * flags, and keys so clustered that they find no room.  A probe reads its key once (4 bytes) and one
 * sector of the table; a pair is written with 8 bytes.
 *
 * Blocks of 256 threads, as many as fit.  On an H100, 2M build rows of 4-byte keys (27 MB of table):
 * filling 0.107 ms, 64M rows probed with a checksum 0.75 ms (85 G gathers/s), written as pairs 1.0 ms.
 */
#include "hjg_cuda_table.h"

/* ---- table ---- */

template <int W> HJG_FN void
fill_table(const HjgKTable &a)
{
	typedef HjgKey<W> Key;
	const typename Key::Raw *keys = (const typename Key::Raw *) a.build.keys;
	const hjg_u32 *rows = (const hjg_u32 *) a.build.rows;
	hjg_u32    *flags = (hjg_u32 *) a.flags;

	for (hjg_u32 i = blockIdx.x * HJG_PROBE_THREADS + threadIdx.x; i < a.build.nrows; i += gridDim.x * HJG_PROBE_THREADS)
	{
		const hjg_u32 unsuited = hjg_table_insert(W, (hjg_u64 *) a.slots, a.nsectors, keys, widened(Key::mix(__ldcs(&keys[i]))),
												  W == 4 && rows != nullptr ? rows[i] : i, flags);

		if (unsuited != 0 && (*(volatile hjg_u32 *) flags & unsuited) == 0)
			atomicOr(flags, unsuited);
	}
}

#define TABLE_FILL(W) \
	extern "C" __global__ __launch_bounds__(HJG_PROBE_THREADS) void hjg_k_fill_table_##W(HjgKTable a) { fill_table<W>(a); }
TABLE_FILL(4)
TABLE_FILL(8)
TABLE_FILL(16)
TABLE_PROBE_4(pairs, HJG_PAIRS)
TABLE_PROBE_8(pairs, HJG_PAIRS)
TABLE_PROBE_16(pairs, HJG_PAIRS)

/* ---- direct ---- */

/* Find the least and the greatest key of the build side, as unsigned numbers. */
template <class Raw> HJG_FN void
find_range(const HjgKDirect &a)
{
	const Raw  *keys = (const Raw *) a.build.keys;
	unsigned long long least = ~0ull;
	unsigned long long greatest = 0;

	for (hjg_u32 i = blockIdx.x * HJG_PROBE_THREADS + threadIdx.x; i < a.build.nrows; i += gridDim.x * HJG_PROBE_THREADS)
	{
		least = min(least, (unsigned long long) keys[i]);
		greatest = max(greatest, (unsigned long long) keys[i]);
	}
#pragma unroll
	for (int d = 16; d > 0; d >>= 1)
	{
		least = min(least, __shfl_xor_sync(HJG_ALL_LANES, least, d));
		greatest = max(greatest, __shfl_xor_sync(HJG_ALL_LANES, greatest, d));
	}
	if (hjg_lane() == 0)
	{
		atomicMin((unsigned long long *) a.range, least);
		atomicMax((unsigned long long *) a.range + 1, greatest);
	}
}

template <class Raw> HJG_FN void
fill_direct(const HjgKDirect &a)
{
	const Raw  *keys = (const Raw *) a.build.keys;
	const hjg_u32 *rows = (const hjg_u32 *) a.build.rows;

	for (hjg_u32 i = blockIdx.x * HJG_PROBE_THREADS + threadIdx.x; i < a.build.nrows; i += gridDim.x * HJG_PROBE_THREADS)
		if (atomicExch((hjg_u32 *) a.slots + ((hjg_u64) keys[i] - a.least), rows != nullptr ? rows[i] : i) != HJG_NO_ROW)
			*(hjg_u32 *) a.flags = HJG_K_REPEATED;
}

#define DIRECT_KERNELS(W, RAW) \
	extern "C" __global__ __launch_bounds__(HJG_PROBE_THREADS) void hjg_k_find_range_##W(HjgKDirect a) { find_range<RAW>(a); } \
	extern "C" __global__ __launch_bounds__(HJG_PROBE_THREADS) void hjg_k_fill_direct_##W(HjgKDirect a) { fill_direct<RAW>(a); }

DIRECT_KERNELS(4, hjg_u32)
DIRECT_KERNELS(8, hjg_u64)
DIRECT_PROBE_4(pairs, HJG_PAIRS)
DIRECT_PROBE_8(pairs, HJG_PAIRS)
