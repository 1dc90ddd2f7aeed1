/*
 * hjg_cuda_kernel.h
 *	  Keys, rows, prefix sums and reservation of output for all CUDA kernels.
 *
 * Room "kernels": CUDA C++ for nvcc, device code only, without external symbols.  Kernels are called
 * hjg_k_<verb>_<object>[_<key width>]; layout/hjg_cuda_args.h defines their arguments.  No key value is
 * reserved.  HJG_NO_ROW is not a row number.
 */
#ifndef HJG_CUDA_KERNEL_H
#define HJG_CUDA_KERNEL_H

#include "layout/hjg_checksum.h"
#include "layout/hjg_hash.h"
#include "layout/hjg_cuda_args.h"

#define HJG_FN static __device__ __forceinline__
#define HJG_ALL_LANES 0xFFFFFFFFu

/* Raw and mixed keys by width.  top() is the word whose leading bits number partitions and buckets. */
template <int W> struct HjgKey;

template <> struct HjgKey<4>
{
	typedef hjg_u32 Raw;
	typedef hjg_u32 Mixed;
	HJG_FN Mixed mix(Raw k) { return hjg_mix32(hjg_hash_seed, k); }
	HJG_FN hjg_u32 top(Mixed m) { return m; }
	HJG_FN bool same(Mixed a, Mixed b) { return a == b; }
};

template <> struct HjgKey<8>
{
	typedef hjg_u64 Raw;
	typedef hjg_u64 Mixed;
	HJG_FN Mixed mix(Raw k) { return hjg_mix64(hjg_hash_seed, k); }
	HJG_FN hjg_u32 top(Mixed m) { return (hjg_u32) (m >> 32); }
	HJG_FN bool same(Mixed a, Mixed b) { return a == b; }
};

template <> struct HjgKey<16>
{
	typedef ulonglong2 Raw;
	typedef ulonglong2 Mixed;
	HJG_FN Mixed mix(Raw k) { return make_ulonglong2(hjg_mix128(hjg_hash_seed, k.x, k.y), k.y); }
	HJG_FN hjg_u32 top(Mixed m) { return (hjg_u32) (m.x >> 32); }
	HJG_FN bool same(Mixed a, Mixed b) { return a.x == b.x && a.y == b.y; }
};

/*
 * Rows of a mixed key and a row number (V: hjg_u32; hjg_u64 for wide values in benchmarks), in global or
 * shared memory.  If both have the same size they lie side by side, so that a row is one access; otherwise
 * they are two columns.
 */
template <int W, class V> struct HjgRows
{
	typedef typename HjgKey<W>::Mixed Mixed;
	Mixed	   *k;
	V		   *v;

	static const int bytes = W + (int) sizeof(V);
	__device__ HjgRows(hjg_u64 keys, hjg_u64 rows) : k((Mixed *) keys), v((V *) rows) {}
	/* in shared memory, for nrows rows (a multiple of 4) */
	__device__ HjgRows(void *base, hjg_u32 nrows) : k((Mixed *) base), v((V *) ((Mixed *) base + nrows)) {}
	__device__ __forceinline__ void put(hjg_u32 i, Mixed key, V row) const { k[i] = key; v[i] = row; }
	__device__ __forceinline__ void
	get(hjg_u32 i, Mixed *key, V *row) const
	{
		*key = k[i];
		*row = v[i];
	}
	/* for the last reader: the row does not stay in the cache */
	__device__ __forceinline__ void
	get_last(hjg_u32 i, Mixed *key, V *row) const
	{
		*key = __ldcs(k + i);
		*row = __ldcs(v + i);
	}
	__device__ __forceinline__ Mixed key(hjg_u32 i) const { return k[i]; }
};

/* A key and a row number of type T each, the two halves of a Row. */
template <class T, class Row> struct HjgSideBySide
{
	Row		   *r;

	static const int bytes = (int) sizeof(Row);
	__device__ HjgSideBySide(hjg_u64 keys, hjg_u64) : r((Row *) keys) {}
	__device__ HjgSideBySide(void *base, hjg_u32) : r((Row *) base) {}
	__device__ __forceinline__ void put(hjg_u32 i, T key, T row) const { r[i] = Row{key, row}; }
	__device__ __forceinline__ void
	get(hjg_u32 i, T *key, T *row) const
	{
		Row			q = r[i];
		*key = q.x;
		*row = q.y;
	}
	__device__ __forceinline__ void
	get_last(hjg_u32 i, T *key, T *row) const
	{
		Row			q = __ldcs(r + i);
		*key = q.x;
		*row = q.y;
	}
	__device__ __forceinline__ T key(hjg_u32 i) const { return r[i].x; }
};

template <> struct HjgRows<4, hjg_u32> : HjgSideBySide<hjg_u32, uint2>
{
	using HjgSideBySide::HjgSideBySide;
};

template <> struct HjgRows<8, hjg_u64> : HjgSideBySide<hjg_u64, ulonglong2>
{
	using HjgSideBySide::HjgSideBySide;
};

HJG_FN hjg_u32
hjg_lane(void)
{
	return threadIdx.x & 31;
}

/* Sum x over the lanes from 0 to this one. */
HJG_FN hjg_u32
hjg_warp_sum_to(hjg_u32 x)
{
#pragma unroll
	for (int d = 1; d < 32; d <<= 1)
	{
		hjg_u32		y = __shfl_up_sync(HJG_ALL_LANES, x, d);

		if (hjg_lane() >= d)
			x += y;
	}
	return x;
}

/*
 * Sum x over the threads before this one; all THREADS threads of the block call it.  sums is hjg_u32[33]
 * in shared memory; sums[32] becomes the total, valid until the next call.  It has two barriers: earlier
 * writes to shared memory are visible after it.
 */
template <int THREADS> HJG_FN hjg_u32
hjg_block_sum_before(hjg_u32 x, hjg_u32 *sums)
{
	hjg_u32		warp = threadIdx.x >> 5;
	hjg_u32		to = hjg_warp_sum_to(x);

	if (hjg_lane() == 31)
		sums[warp] = to;
	__syncthreads();
	if (warp == 0)
	{
		hjg_u32		of_warp = hjg_lane() < THREADS / 32 ? sums[hjg_lane()] : 0;
		hjg_u32		all = hjg_warp_sum_to(of_warp);

		if (hjg_lane() < THREADS / 32)
			sums[hjg_lane()] = all - of_warp;
		if (hjg_lane() == 31)
			sums[32] = all;
	}
	__syncthreads();
	return to - x + sums[warp];
}

/*
 * Find the largest i < n with ascending[i] <= x, where ascending[0] <= x.  The whole warp calls it; each
 * step divides the range by 32.
 */
HJG_FN hjg_u32
hjg_warp_find(const hjg_u32 *ascending, hjg_u32 n, hjg_u32 x)
{
	hjg_u32		low = 0;

	while (n > 1)
	{
		hjg_u32		step = (n + 31) / 32;
		hjg_u32		i = hjg_lane() * step;
		bool		le = i < n && ascending[low + i] <= x;
		hjg_u32		k = 31 - __clz(__ballot_sync(HJG_ALL_LANES, le));

		low += k * step;
		n = min(step, n - k * step);
	}
	return low;
}

/* Reserve n places of an output for the warp; all lanes receive the first place. */
HJG_FN hjg_u64
hjg_warp_reserve(hjg_u64 *counter, hjg_u32 n)
{
	unsigned long long first = 0;

	if (hjg_lane() == 0 && n > 0)
		first = atomicAdd((unsigned long long *) counter, (unsigned long long) n);
	return __shfl_sync(HJG_ALL_LANES, first, 0);
}

/*
 * A group of eight warps that reserve output together: the counter is one address, and an H100 does 0.6
 * atomics on one address a nanosecond, too few for one by each warp and tile.
 *
 * Groups of a block meet at named barriers, each group equally often between two barriers of the whole
 * block.  Otherwise compute-sanitizer's racecheck reported races in hjg_block_sum_before() (up to 43,000 a
 * run) between accesses that the machine code separates by a BAR.SYNC 0 of all threads.  The rule costs no
 * time.  Alternatives: barriers of the whole block make a join of 128M x 128M rows 4 to 6 % slower; of
 * barriers in shared memory synccheck can track too few.
 */
#define HJG_GROUP_THREADS 256

struct HjgGroup
{
	hjg_u64		first;
	hjg_u32		count[HJG_GROUP_THREADS / 32];
};

template <int GROUPS> HJG_FN void
hjg_group_barrier(void)
{
	if (GROUPS == 1)
		__syncthreads();
	else
		asm volatile("bar.sync %0, %1;" : : "r"(1 + threadIdx.x / HJG_GROUP_THREADS), "n"(HJG_GROUP_THREADS) : "memory");
}

/*
 * Reserve n places for this warp and return the first; all warps of the group call it together.  groups
 * lies in shared memory, one entry for each group of the block.
 */
template <int GROUPS> HJG_FN hjg_u64
hjg_group_reserve(HjgGroup (&groups)[GROUPS], hjg_u64 *counter, hjg_u32 n)
{
	HjgGroup   *group = groups + threadIdx.x / HJG_GROUP_THREADS;
	const hjg_u32 warp = threadIdx.x % HJG_GROUP_THREADS / 32;
	hjg_u32		before = 0;
	hjg_u32		all = 0;

	if (hjg_lane() == 0)
		group->count[warp] = n;
	hjg_group_barrier<GROUPS>();
#pragma unroll
	for (int w = 0; w < HJG_GROUP_THREADS / 32; w++)
	{
		before += w < warp ? group->count[w] : 0;
		all += group->count[w];
	}
	if (warp == 0 && hjg_lane() == 0 && all > 0)
		group->first = atomicAdd((unsigned long long *) counter, (unsigned long long) all);
	hjg_group_barrier<GROUPS>();
	return group->first + before;
}

/* Meet the barriers of a reservation without reserving, so that this group meets as often as the others. */
template <int GROUPS> HJG_FN void
hjg_group_skip(void)
{
	hjg_group_barrier<GROUPS>();
	hjg_group_barrier<GROUPS>();
}

/* Add the warp's sums of a and b to two counters. */
HJG_FN void
hjg_warp_add(hjg_u64 *counters, hjg_u64 a, hjg_u64 b)
{
	unsigned long long x = a;
	unsigned long long y = b;

#pragma unroll
	for (int d = 16; d > 0; d >>= 1)
	{
		x += __shfl_down_sync(HJG_ALL_LANES, x, d);
		y += __shfl_down_sync(HJG_ALL_LANES, y, d);
	}
	if (hjg_lane() == 0)
	{
		atomicAdd((unsigned long long *) counters, x);
		atomicAdd((unsigned long long *) counters + 1, y);
	}
}

#endif							/* HJG_CUDA_KERNEL_H */
