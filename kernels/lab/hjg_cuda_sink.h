/*
 * hjg_cuda_sink.h
 *	  Methods of output of the joins of the literature; each is a class with the same functions.
 *
 *		begin(unit)						begin a unit of work; all threads of the block, then a barrier
 *		put(have, build_row, probe_row)	put at most one pair of each lane; all lanes of a warp call it
 *		full()							do the pairs exceed the capacity, so that the search can end?
 *		end_unit(unit)					end a unit; all threads of the block, then a barrier
 *		end()							the last call, after a barrier
 *		is_over(args)					one thread asks before a unit: is full() true?
 *		is_done(args, unit)				likewise: has an earlier launch joined the unit?
 *
 * HJG_SINK_SUM		counts pairs and computes a checksum
 * HJG_SINK_WARP	a buffer of each warp in shared memory, written as a whole when it is full, with one
 *					atomic on the output's counter (Sioulas et al., ICDE 2019, III.C)
 * HJG_SINK_BLOCK	chunks of the output for each block, places taken from a cursor in shared memory
 *					(Rui and Tu, SSDBM 2017, 3.2.2)
 * HJG_SINK_PAGE	the direct output buffer ibid.: each thread fills its own pages
 * HJG_SINK_COUNT	the first of two probes: counts the pairs of each unit (He et al., SIGMOD 2008)
 * HJG_SINK_PLACE	the second: writes each unit's pairs after those of earlier units
 * HJG_SINK_GROUP	a buffer of estimated size for a group of partitions: a block that finds it full gives
 *					up its unit, which is joined again later (Paul et al., 2020, IV.B.2)
 * HJG_SINK_SLOT	a slot of a buffer for each block, with room for the most pairs of a unit; copied to
 *					the output after each unit (ibid., for comparison)
 *
 * Half-empty pages and chunks leave holes; cuda_holes.cu moves the last pairs into them.  Pages beyond the
 * capacity lie in the spill.  Shared is a block's data in shared memory.
 */
#ifndef HJG_CUDA_SINK_H
#define HJG_CUDA_SINK_H

#include "hjg_cuda_chunk.h"
#include "hjg_cuda_emit.h"
#include "lab/hjg_cuda_paper_args.h"

enum HjgSinkKind
{
	HJG_SINK_SUM,
	HJG_SINK_WARP,
	HJG_SINK_BLOCK,
	HJG_SINK_PAGE,
	HJG_SINK_COUNT,
	HJG_SINK_PLACE,
	HJG_SINK_GROUP,
	HJG_SINK_SLOT
};

#define HJG_SINK_PAIRS 64		/* pairs of a warp's buffer: 512 bytes, a multiple of a line */

/* Arrange a pair as HjgPair in memory. */
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

	__device__ HjgSink(const HjgKSink &a, Shared *) : counters((hjg_u64 *) a.output.counters), tally({0, 0}) {}
	HJG_FN bool is_over(const HjgKSink &) { return false; }
	HJG_FN bool is_done(const HjgKSink &, hjg_u32) { return false; }
	__device__ __forceinline__ void begin(hjg_u32) {}
	__device__ __forceinline__ void end_unit(hjg_u32) {}
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

	__device__ HjgSink(const HjgKSink &a, Shared *shared)
		: counters((hjg_u64 *) a.output.counters), out((uint2 *) a.output.pairs), capacity(a.output.capacity),
		  buffer(shared->pairs[threadIdx.x >> 5]), n(0), over(false) {}
	HJG_FN bool is_over(const HjgKSink &a) { return *(volatile hjg_u64 *) a.output.counters > a.output.capacity; }
	HJG_FN bool is_done(const HjgKSink &, hjg_u32) { return false; }
	__device__ __forceinline__ void begin(hjg_u32) {}
	__device__ __forceinline__ void end_unit(hjg_u32) {}

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

/* Addresses of the pairs of pages. */
struct HjgPaged
{
	uint2	   *out;
	uint2	   *spill;
	hjg_u64		capacity;
	hjg_u64		room;			/* capacity and spill */

	__device__ HjgPaged(const HjgKSink &a)
		: out((uint2 *) a.output.pairs), spill((uint2 *) a.spill), capacity(a.output.capacity),
		  room(a.output.capacity + a.spill_pairs) {}
	__device__ __forceinline__ uint2 *
	at(hjg_u64 place) const
	{
		return place < capacity ? out + place : spill + (place - capacity);
	}
	__device__ __forceinline__ void
	write(hjg_u64 place, uint2 pair) const
	{
		if (place < room)
			*at(place) = pair;
	}
};

/* Do the pages exceed capacity and spill?  Then the pairs exceed the capacity, though each owner has holes. */
HJG_FN bool
hjg_pages_over(const HjgKSink &a)
{
	return *(volatile hjg_u64 *) a.taken * a.page_pairs > a.output.capacity + a.spill_pairs;
}

template <int THREADS> struct HjgSink<HJG_SINK_BLOCK, THREADS>
{
	struct Shared
	{
		unsigned long long cursor;
	};
	HjgPaged	paged;
	unsigned long long *taken;
	unsigned long long *cursor;
	hjg_u64	   *open;
	bool		over;

	__device__ HjgSink(const HjgKSink &a, Shared *shared)
		: paged(a), taken((unsigned long long *) a.taken), cursor(&shared->cursor), open((hjg_u64 *) a.open + blockIdx.x),
		  over(false)
	{
		if (threadIdx.x == 0)
			*cursor = ((*open >> 32) - 1) << 32 | (HJG_K_CHUNK_PAIRS - (hjg_u32) *open);
	}
	HJG_FN bool is_over(const HjgKSink &a) { return hjg_pages_over(a); }
	HJG_FN bool is_done(const HjgKSink &, hjg_u32) { return false; }
	__device__ __forceinline__ void begin(hjg_u32) {}
	__device__ __forceinline__ void end_unit(hjg_u32) {}
	__device__ __forceinline__ void
	put(bool have, hjg_u32 build_row, hjg_u32 probe_row)
	{
		hjg_u32		ballot = __ballot_sync(HJG_ALL_LANES, have);
		HjgTaken	t = {0, 0, 0, 0};

		if (ballot == 0)
			return;
		if (hjg_lane() == 0)
			t = hjg_chunk_take(cursor, __popc(ballot), HJG_K_CHUNK_PAIRS, [&](hjg_u32 k)
			{
				return (hjg_u32) atomicAdd(taken, (unsigned long long) k);
			});
		t.chunk = __shfl_sync(HJG_ALL_LANES, t.chunk, 0);
		t.at = __shfl_sync(HJG_ALL_LANES, t.at, 0);
		t.here = __shfl_sync(HJG_ALL_LANES, t.here, 0);
		t.next = __shfl_sync(HJG_ALL_LANES, t.next, 0);
		if (have)
			paged.write(t.place(__popc(ballot & ((1u << hjg_lane()) - 1)), HJG_K_CHUNK_PAIRS), hjg_pair_of(build_row, probe_row));
		over |= t.place(__popc(ballot) - 1, HJG_K_CHUNK_PAIRS) >= paged.room;
	}
	__device__ __forceinline__ bool full() const { return over; }
	__device__ __forceinline__ void
	end()
	{
		if (threadIdx.x == 0)
			*open = ((*cursor >> 32) + 1) << 32 | (HJG_K_CHUNK_PAIRS - (hjg_u32) *cursor);
	}
};

template <int THREADS> struct HjgSink<HJG_SINK_PAGE, THREADS>
{
	struct Shared {};
	HjgPaged	paged;
	unsigned long long *taken;
	hjg_u64	   *open;
	hjg_u64		page;
	hjg_u32		page_pairs;
	hjg_u32		n;				/* pairs in the page */

	__device__ HjgSink(const HjgKSink &a, Shared *)
		: paged(a), taken((unsigned long long *) a.taken), open((hjg_u64 *) a.open + blockIdx.x * THREADS + threadIdx.x),
		  page(*open == 0 ? 0 : (*open >> 32) - 1), page_pairs(a.page_pairs), n(a.page_pairs - (hjg_u32) *open) {}
	HJG_FN bool is_over(const HjgKSink &a) { return hjg_pages_over(a); }
	HJG_FN bool is_done(const HjgKSink &, hjg_u32) { return false; }
	__device__ __forceinline__ void begin(hjg_u32) {}
	__device__ __forceinline__ void end_unit(hjg_u32) {}
	__device__ __forceinline__ void
	put(bool have, hjg_u32 build_row, hjg_u32 probe_row)
	{
		if (!have)
			return;
		if (n == page_pairs)
		{
			page = atomicAdd(taken, 1ull);
			n = 0;
		}
		paged.write(page * page_pairs + n++, hjg_pair_of(build_row, probe_row));
	}
	__device__ __forceinline__ bool full() const { return __any_sync(HJG_ALL_LANES, page * page_pairs > paged.room); }
	__device__ __forceinline__ void end() { *open = (page + 1) << 32 | (page_pairs - n); }
};

template <int THREADS> struct HjgSink<HJG_SINK_COUNT, THREADS>
{
	struct Shared
	{
		unsigned long long npairs;
	};
	hjg_u64	   *counters;
	hjg_u64	   *unit_pairs;
	unsigned long long *npairs;
	hjg_u64		mine;

	__device__ HjgSink(const HjgKSink &a, Shared *shared)
		: counters((hjg_u64 *) a.output.counters), unit_pairs((hjg_u64 *) a.unit_pairs), npairs(&shared->npairs), mine(0) {}
	HJG_FN bool is_over(const HjgKSink &a) { return *(volatile hjg_u64 *) a.output.counters > a.output.capacity; }
	HJG_FN bool is_done(const HjgKSink &, hjg_u32) { return false; }
	__device__ __forceinline__ void
	begin(hjg_u32)
	{
		if (threadIdx.x == 0)
			*npairs = 0;
	}
	__device__ __forceinline__ void put(bool have, hjg_u32, hjg_u32) { mine += have; }
	__device__ __forceinline__ bool full() const { return false; }
	__device__ __forceinline__ void
	end_unit(hjg_u32 unit)
	{
		atomicAdd(npairs, (unsigned long long) mine);
		mine = 0;
		__syncthreads();
		if (threadIdx.x == 0)
		{
			unit_pairs[unit] = *npairs;
			atomicAdd((unsigned long long *) counters, *npairs);
		}
	}
	__device__ __forceinline__ void end() {}
};

template <int THREADS> struct HjgSink<HJG_SINK_PLACE, THREADS>
{
	struct Shared
	{
		unsigned long long place;
	};
	const hjg_u64 *unit_pairs;
	uint2	   *out;
	unsigned long long *place;

	__device__ HjgSink(const HjgKSink &a, Shared *shared)
		: unit_pairs((const hjg_u64 *) a.unit_pairs), out((uint2 *) a.output.pairs), place(&shared->place) {}
	HJG_FN bool is_over(const HjgKSink &a) { return *(volatile hjg_u64 *) a.output.counters > a.output.capacity; }
	HJG_FN bool is_done(const HjgKSink &, hjg_u32) { return false; }
	__device__ __forceinline__ void
	begin(hjg_u32 unit)
	{
		if (threadIdx.x == 0)
			*place = unit_pairs[unit];
	}
	__device__ __forceinline__ void
	put(bool have, hjg_u32 build_row, hjg_u32 probe_row)
	{
		hjg_u32		ballot = __ballot_sync(HJG_ALL_LANES, have);
		hjg_u64		at = 0;

		if (ballot == 0)
			return;
		if (hjg_lane() == 0)
			at = atomicAdd(place, (unsigned long long) __popc(ballot));
		at = __shfl_sync(HJG_ALL_LANES, at, 0) + __popc(ballot & ((1u << hjg_lane()) - 1));
		if (have)
			out[at] = hjg_pair_of(build_row, probe_row);
	}
	__device__ __forceinline__ bool full() const { return false; }
	__device__ __forceinline__ void end_unit(hjg_u32) {}
	__device__ __forceinline__ void end() {}
};

/* Each unit begins a new chunk, so the chunks of a unit that was given up contain only its pairs. */
template <int THREADS> struct HjgSink<HJG_SINK_GROUP, THREADS>
{
	struct Shared
	{
		unsigned long long cursor;
	};
	const HjgKSink &a;
	unsigned long long *cursor;
	hjg_u32		unit;
	bool		over;

	__device__ HjgSink(const HjgKSink &args, Shared *shared) : a(args), cursor(&shared->cursor), unit(0), over(false) {}
	HJG_FN bool is_over(const HjgKSink &a) { return *(volatile hjg_u64 *) a.taken > a.nchunks; }
	HJG_FN bool is_done(const HjgKSink &a, hjg_u32 unit) { return ((const hjg_u8 *) a.unit_done)[unit] != 0; }
	__device__ __forceinline__ void
	begin(hjg_u32 u)
	{
		unit = u;
		if (threadIdx.x == 0)
			*cursor = (unsigned long long) HJG_NO_ROW << 32 | HJG_K_CHUNK_PAIRS;
	}
	__device__ __forceinline__ void
	put(bool have, hjg_u32 build_row, hjg_u32 probe_row)
	{
		const hjg_u32 ballot = __ballot_sync(HJG_ALL_LANES, have);
		HjgTaken	t = {0, 0, 0, 0};

		if (ballot == 0)
			return;
		if (hjg_lane() == 0)
			t = hjg_chunk_take(cursor, __popc(ballot), HJG_K_CHUNK_PAIRS, [&](hjg_u32)
			{
				const hjg_u64 next = atomicAdd((unsigned long long *) a.taken, 1ull);

				if (next < a.nchunks)
				{
					((hjg_u32 *) a.chunk_unit)[next] = unit;
					((hjg_u32 *) a.chunk_pairs)[next] = HJG_K_CHUNK_PAIRS;
				}
				return (hjg_u32) next;
			});
		t.chunk = __shfl_sync(HJG_ALL_LANES, t.chunk, 0);
		t.at = __shfl_sync(HJG_ALL_LANES, t.at, 0);
		t.here = __shfl_sync(HJG_ALL_LANES, t.here, 0);
		t.next = __shfl_sync(HJG_ALL_LANES, t.next, 0);

		const hjg_u64 room = a.nchunks * HJG_K_CHUNK_PAIRS;
		const hjg_u64 place = t.place(__popc(ballot & ((1u << hjg_lane()) - 1)), HJG_K_CHUNK_PAIRS);

		if (have && place < room)
			((uint2 *) a.spill)[place] = hjg_pair_of(build_row, probe_row);
		over |= t.place(__popc(ballot) - 1, HJG_K_CHUNK_PAIRS) >= room;
	}
	__device__ __forceinline__ bool full() const { return over; }
	__device__ __forceinline__ void
	end_unit(hjg_u32)
	{
		if (__syncthreads_or(over) || threadIdx.x != 0)
			return;
		if ((hjg_u32) (*cursor >> 32) != HJG_NO_ROW)
			((hjg_u32 *) a.chunk_pairs)[*cursor >> 32] = (hjg_u32) *cursor;
		((hjg_u8 *) a.unit_done)[unit] = 1;
	}
	__device__ __forceinline__ void end() {}
};

template <int THREADS> struct HjgSink<HJG_SINK_SLOT, THREADS>
{
	struct Shared
	{
		unsigned long long first;	/* place in the output */
		hjg_u32		npairs;			/* in the slot */
	};
	unsigned long long *counter;
	Shared	   *shared;
	uint2	   *slot;
	uint2	   *out;
	hjg_u64		capacity;

	__device__ HjgSink(const HjgKSink &a, Shared *s)
		: counter((unsigned long long *) a.output.counters), shared(s), slot((uint2 *) a.spill + blockIdx.x * a.spill_pairs),
		  out((uint2 *) a.output.pairs), capacity(a.output.capacity) {}
	HJG_FN bool is_over(const HjgKSink &a) { return *(volatile hjg_u64 *) a.output.counters > a.output.capacity; }
	HJG_FN bool is_done(const HjgKSink &, hjg_u32) { return false; }
	__device__ __forceinline__ void
	begin(hjg_u32)
	{
		if (threadIdx.x == 0)
			shared->npairs = 0;
	}
	__device__ __forceinline__ void
	put(bool have, hjg_u32 build_row, hjg_u32 probe_row)
	{
		const hjg_u32 ballot = __ballot_sync(HJG_ALL_LANES, have);
		hjg_u32		at = 0;

		if (ballot == 0)
			return;
		if (hjg_lane() == 0)
			at = atomicAdd(&shared->npairs, __popc(ballot));
		at = __shfl_sync(HJG_ALL_LANES, at, 0) + __popc(ballot & ((1u << hjg_lane()) - 1));
		if (have)
			slot[at] = hjg_pair_of(build_row, probe_row);
	}
	__device__ __forceinline__ bool full() const { return false; }
	__device__ __forceinline__ void
	end_unit(hjg_u32)
	{
		__syncthreads();
		const hjg_u32 npairs = shared->npairs;

		if (threadIdx.x == 0)
			shared->first = atomicAdd(counter, (unsigned long long) npairs);
		__syncthreads();
		for (hjg_u32 i = threadIdx.x; i < npairs && shared->first + i < capacity; i += THREADS)
			__stcs(out + shared->first + i, slot[i]);
	}
	__device__ __forceinline__ void end() {}
};

#endif							/* HJG_CUDA_SINK_H */
