/*
 * hjg_cuda_scatter.h
 *	  The plain scatter of radix partitioning (cuda_partition.cu).
 */
#ifndef HJG_CUDA_SCATTER_H
#define HJG_CUDA_SCATTER_H

#include "hjg_cuda_kernel.h"

/*
 * Scatter rows.  Blocks of 512 threads, two a multiprocessor; each takes every gridDim.x-th tile of 512 *
 * ITEMS rows.  Dynamic shared memory: the tile's rows and 6 << bits bytes.  The next tile's rows are read
 * while this tile is written.
 */
template <int W, class V, int ITEMS, bool AGAIN> HJG_FN void
scatter(const HjgKScatter &a)
{
	extern __shared__ __align__(16) hjg_u32 shared[];
	__shared__ hjg_u32 sums[33];
	typedef HjgKey<W> Key;
	typedef typename Key::Mixed Mixed;
	const hjg_u32 TILE = HJG_K_SCATTER_THREADS * ITEMS;
	const hjg_u32 nparts = 1u << a.bits;
	const hjg_u32 mask = nparts - 1;
	const hjg_u32 tid = threadIdx.x;
	HjgRows<W, V> in(a.in.keys, a.in.rows);
	HjgRows<W, V> out(a.out.keys, a.out.rows);
	HjgRows<W, V> tile((void *) shared, TILE);
	/* counts, then the run's target minus its place in the tile */
	hjg_u32    *place = shared + (hjg_u32) HjgRows<W, V>::bytes / 4 * TILE;
	hjg_u16    *run = (hjg_u16 *) (place + nparts);	/* the run's place in the tile */
	const typename Key::Raw *keys = (const typename Key::Raw *) a.side.keys;
	const V    *rows = (const V *) a.side.rows;
	const hjg_u32 ntiles = AGAIN ? *(const hjg_u32 *) a.ntiles : (a.side.nrows + TILE - 1) / TILE;
	Mixed		key[ITEMS];
	V			row[ITEMS];
	hjg_u32		rank[ITEMS / 2];
	hjg_u32		n = 0;
	hjg_u32    *cursor = (hjg_u32 *) a.up;

	auto load = [&](hjg_u32 t)
	{
		hjg_u32		first = t * TILE;

		n = 0;
		if (t >= ntiles)
			return;
		if (AGAIN)
		{
			uint4		q = __ldg((const uint4 *) a.tiles + t);

			first = q.x;
			n = q.y;
			cursor = (hjg_u32 *) a.up + (q.z << a.bits);
		}
		else
			n = min(TILE, a.side.nrows - first);
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			hjg_u32		i = j * HJG_K_SCATTER_THREADS + tid;

			if (i >= n)
				continue;
			if (AGAIN)
				in.get(first + i, &key[j], &row[j]);
			else
			{
				key[j] = __ldcs(&keys[first + i]);
				row[j] = rows != nullptr ? __ldcs(&rows[first + i]) : (V) (first + i);
			}
		}
	};

	load(blockIdx.x);
	for (hjg_u32 t = blockIdx.x; t < ntiles; t += gridDim.x)
	{
		hjg_u32    *target = cursor;
		hjg_u32		tile_rows = n;
		hjg_u32		each = max(1u, nparts / HJG_K_SCATTER_THREADS);
		hjg_u32		from = tid * each;
		hjg_u32		to = from < nparts ? from + each : from;
		hjg_u32		sum = 0;

		for (hjg_u32 i = tid; i < nparts; i += HJG_K_SCATTER_THREADS)
			place[i] = 0;
		__syncthreads();
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
		{
			hjg_u32		r = 0;

			if (j * HJG_K_SCATTER_THREADS + tid < n)
			{
				if (!AGAIN)
					key[j] = Key::mix(key[j]);
				r = atomicAdd(&place[Key::top(key[j]) >> a.shift & mask], 1u);
			}
			rank[j / 2] = j % 2 ? rank[j / 2] | r << 16 : r;
		}
		__syncthreads();
		for (hjg_u32 i = from; i < to; i++)
			sum += place[i];
		sum = hjg_block_sum_before<HJG_K_SCATTER_THREADS>(sum, sums);
		for (hjg_u32 i = from; i < to; i++)
		{
			run[i] = (hjg_u16) sum;
			sum += place[i];
		}
		__syncthreads();
#pragma unroll 2
		for (hjg_u32 i = tid; i < nparts; i += HJG_K_SCATTER_THREADS)
			place[i] = atomicAdd(&target[i], place[i]) - run[i];
#pragma unroll
		for (int j = 0; j < ITEMS; j++)
			if (j * HJG_K_SCATTER_THREADS + tid < n)
				tile.put(run[Key::top(key[j]) >> a.shift & mask] + (rank[j / 2] >> j % 2 * 16 & 0xFFFF), key[j], row[j]);
		load(t + gridDim.x);
		__syncthreads();
#pragma unroll 4
		for (hjg_u32 i = tid; i < tile_rows; i += HJG_K_SCATTER_THREADS)
		{
			Mixed		k;
			V			v;

			tile.get(i, &k, &v);
			out.put(place[Key::top(k) >> a.shift & mask] + i, k, v);
		}
		__syncthreads();
	}
}

#define SCATTER_KERNELS(NAME, W, V, ITEMS) \
	extern "C" __global__ __launch_bounds__(HJG_K_SCATTER_THREADS, 2) void \
	hjg_k_scatter_rows_##NAME(HjgKScatter a) { scatter<W, V, ITEMS, false>(a); } \
	extern "C" __global__ __launch_bounds__(HJG_K_SCATTER_THREADS, 2) void \
	hjg_k_scatter_again_##NAME(HjgKScatter a) { scatter<W, V, ITEMS, true>(a); }

#endif							/* HJG_CUDA_SCATTER_H */
