/*
 * cuda_gather.cu
 *	  Gathering of payload columns by the row numbers of pairs.
 *
 *		hjg_k_gather_rows_N		N: bytes of an access, 4, 8 or 16
 *
 * A row's columns of a side lie side by side in nwords words, a multiple of N bytes.  A thread copies N
 * bytes of a row and adjacent threads copy adjacent bytes, so that reading a row takes one or two 32-byte
 * sectors and rows are written in full lines.  A thread has UNROLL copies in flight to hide the latency of
 * random reads.
 *
 * Read: 8 bytes of the pair for each thread of the row (once from memory), and the row of the side;
 * written: the row.  Launch: blocks of 256 threads, as many as fit the device at once, for any number of
 * pairs.  The host checks: addresses are multiples of N; npairs * nwords fits 64 bits.  Pairs may contain
 * anything: a row number beyond nrows, such as HJG_NO_ROW, yields zeros.
 */
#include "hjg_cuda_kernel.h"

#define UNROLL 4

template <class V> HJG_FN void
gather(const HjgKGather &a)
{
	const hjg_u32 per_row = a.nwords * 4 / (hjg_u32) sizeof(V);
	const hjg_u64 n = a.npairs * per_row;
	const hjg_u64 stride = (hjg_u64) gridDim.x * HJG_K_GATHER_THREADS;
	const HjgPair *pairs = (const HjgPair *) a.pairs;

	for (hjg_u64 at = (hjg_u64) blockIdx.x * HJG_K_GATHER_THREADS + threadIdx.x; at < n; at += UNROLL * stride)
	{
		hjg_u64		from[UNROLL];
		V			values[UNROLL];

#pragma unroll
		for (int u = 0; u < UNROLL; u++)
		{
			const hjg_u64 e = at + u * stride;
			const hjg_u64 i = per_row == 1 ? e : e >> 32 ? e / per_row : (hjg_u32) e / per_row;
			hjg_u32		row = HJG_NO_ROW;

			if (e < n)
				row = (a.build ? pairs[i].build_row : pairs[i].probe_row) - a.first_row;
			from[u] = row < a.nrows ? (hjg_u64) row * per_row + (e - i * per_row) : ~0ull;
		}
#pragma unroll
		for (int u = 0; u < UNROLL; u++)
			values[u] = from[u] != ~0ull ? __ldg((const V *) a.from + from[u]) : V{};
#pragma unroll
		for (int u = 0; u < UNROLL; u++)
			if (at + u * stride < n)
				__stcs((V *) a.to + at + u * stride, values[u]);
	}
}

#define GATHER(bytes, V) \
	extern "C" __global__ __launch_bounds__(HJG_K_GATHER_THREADS) void \
	hjg_k_gather_rows_##bytes(HjgKGather a) \
	{ \
		gather<V>(a); \
	}

GATHER(4, hjg_u32)
GATHER(8, uint2)
GATHER(16, uint4)
