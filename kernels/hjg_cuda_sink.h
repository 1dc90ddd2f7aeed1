/*
 * hjg_cuda_sink.h
 *	  Where the joins of the literature put their pairs; each way is a class with the same functions.
 *
 *		put(have, build_row, probe_row)	at most one pair of each lane; all lanes of a warp call it
 *		full()							more pairs than the capacity: the rest need not be looked for
 *		end()							the last call of each warp
 *
 * HJG_SINK_SUM		counts and adds up a checksum
 * HJG_SINK_WARP	a buffer of each warp in shared memory, written out in whole when it is full, with one
 *					atomic on the output's counter (Sioulas et al., ICDE 2019, III.C)
 *
 * Shared is what a block needs of shared memory for it.
 */
#ifndef HJG_CUDA_SINK_H
#define HJG_CUDA_SINK_H

#include "hjg_cuda_emit.h"
#include "layout/hjg_cuda_paper_args.h"

enum HjgSinkKind
{
	HJG_SINK_SUM,
	HJG_SINK_WARP
};

#define HJG_SINK_PAIRS 64		/* of a warp's buffer: 512 bytes, a multiple of a line */

/* As HjgPair lies in memory. */
HJG_FN uint2
hjg_pair_of(hjg_u32 build_row, hjg_u32 probe_row)
{
	return make_uint2(probe_row, build_row);
}

template <int KIND, int THREADS> struct HjgSink;

template <int THREADS> struct HjgSink<HJG_SINK_SUM, THREADS>
{
	struct Shared {};
	hjg_u64	   *counters;
	HjgTally	tally;

	__device__ HjgSink(const HjgKOutput &o, Shared *) : counters((hjg_u64 *) o.counters), tally({0, 0}) {}
	__device__ __forceinline__ void
	put(bool have, hjg_u32 build_row, hjg_u32 probe_row)
	{
		if (have)
			tally.add(probe_row, build_row);
	}
	__device__ __forceinline__ bool full() const { return false; }
	__device__ __forceinline__ void end() { hjg_warp_add(counters, tally.npairs, tally.checksum); }
};

template <int THREADS> struct HjgSink<HJG_SINK_WARP, THREADS>
{
	struct Shared
	{
		uint2		pairs[THREADS / 32][HJG_SINK_PAIRS];
	};
	hjg_u64	   *counters;
	uint2	   *out;
	hjg_u64		capacity;
	uint2	   *buffer;
	hjg_u32		n;				/* pairs in the buffer */
	bool		over;

	__device__ HjgSink(const HjgKOutput &o, Shared *shared)
		: counters((hjg_u64 *) o.counters), out((uint2 *) o.pairs), capacity(o.capacity),
		  buffer(shared->pairs[threadIdx.x >> 5]), n(0), over(false) {}

	__device__ __forceinline__ void
	flush(hjg_u32 npairs)
	{
		__syncwarp();
		hjg_u64		place = hjg_warp_reserve(counters, npairs);

		over |= place + npairs > capacity;
		for (hjg_u32 i = hjg_lane(); i < npairs; i += 32)
			if (place + i < capacity)
				__stcs(out + place + i, buffer[i]);
		__syncwarp();
	}
	__device__ __forceinline__ void
	put(bool have, hjg_u32 build_row, hjg_u32 probe_row)
	{
		hjg_u32		ballot = __ballot_sync(HJG_ALL_LANES, have);
		hjg_u32		at = n + __popc(ballot & ((1u << hjg_lane()) - 1));

		if (have && at < HJG_SINK_PAIRS)
			buffer[at] = hjg_pair_of(build_row, probe_row);
		n += __popc(ballot);
		if (n < HJG_SINK_PAIRS)
			return;
		flush(HJG_SINK_PAIRS);
		if (have && at >= HJG_SINK_PAIRS)
			buffer[at - HJG_SINK_PAIRS] = hjg_pair_of(build_row, probe_row);
		n -= HJG_SINK_PAIRS;
	}
	__device__ __forceinline__ bool full() const { return over; }
	__device__ __forceinline__ void
	end()
	{
		flush(n);
		n = 0;
	}
};

#endif							/* HJG_CUDA_SINK_H */
