/*
 * cuda_nop.cu
 *	  Non-partitioned hash joins with a table in global memory, with any number of duplicates.
 *
 * Paul et al., "Revisiting Hash Join on Graphics Processors" (2020), IV.A.1 (NOP), and the bucket lists of
 * Sioulas et al., "Hardware-conscious Hash-Joins on GPUs" (ICDE 2019), listing 2, kept in global memory:
 *
 *		chains	heads[] and one link a build row; an atomic exchange puts a row in front of its list
 *		slots	open addressing with linear probing; a slot contains the row's position and a tag, which is the mixed
 *				key itself for keys of 4 bytes.  Each row of a key takes a slot.
 *
 * A lane takes a probe row, follows its list or slots, and puts matches into its warp's buffer.  Every
 * access to the table moves a 32-byte sector to use 4 or 8 bytes of it, which partitioning avoids.  If
 * duplicates would make a walk too long, the build reports it (*crowded) and another strategy joins, since
 * a kernel cannot be cancelled.
 *
 * Blocks of 256 threads, as many as fit.  On an H200, build and probe of 128M rows each, keys of 4 bytes,
 * pairs written: chains 28.6 ms, slots 24.4; 2M x 64M rows, a table that stays in the L2 cache: 3.8 and
 * 3.5.
 */
#include "hjg_cuda_sink.h"

#define NOP_THREADS 256
#define SAMPLE 64				/* one row in SAMPLE, unpredictable for users, measures its list */

template <int W> struct Nop
{
	typedef HjgKey<W> Key;
	typedef typename Key::Raw Raw;
	typedef typename Key::Mixed Mixed;

	HJG_FN hjg_u32 tag(hjg_u32 m) { return m; }
	HJG_FN hjg_u32 tag(hjg_u64 m) { return (hjg_u32) m; }
	HJG_FN hjg_u32 tag(ulonglong2 m) { return (hjg_u32) m.x; }
	HJG_FN hjg_u32 home(Mixed m, hjg_u32 nslots) { return __umulhi(Key::top(m), nslots); }
};

HJG_FN bool
wants_found(hjg_u32 mode)
{
	return mode != HJG_MATCH_ANTI;
}

HJG_FN bool
wants_lonely(hjg_u32 mode)
{
	return mode == HJG_MATCH_LEFT || mode == HJG_MATCH_ANTI;
}

HJG_FN bool
wants_several(hjg_u32 mode)
{
	return mode == HJG_MATCH_ALL || mode == HJG_MATCH_LEFT;
}

/* ---- chains ---- */

template <int W> HJG_FN void
insert_chains(const HjgKNop &a)
{
	const typename HjgKey<W>::Raw *keys = (const typename HjgKey<W>::Raw *) a.build.keys;

	for (hjg_u32 i = blockIdx.x * NOP_THREADS + threadIdx.x; i < a.build.nrows; i += gridDim.x * NOP_THREADS)
	{
		hjg_u32		slot = Nop<W>::home(HjgKey<W>::mix(__ldcs(&keys[i])), a.nslots);

		((hjg_u32 *) a.next)[i] = atomicExch((hjg_u32 *) a.heads + slot, i);
	}
}

/* Does any list have more than HJG_K_NOP_MOST_LINKS rows?  The sample certainly finds a much longer list. */
extern "C" __global__ __launch_bounds__(NOP_THREADS) void
hjg_k_measure_chains(HjgKNop a)
{
	const hjg_u32 *next = (const hjg_u32 *) a.next;

	for (hjg_u32 i = blockIdx.x * NOP_THREADS + threadIdx.x; i < a.build.nrows; i += gridDim.x * NOP_THREADS)
	{
		hjg_u32		steps = 0;

		if (hjg_mix32(hjg_hash_seed, i) % SAMPLE != 0)
			continue;
		for (hjg_u32 at = i; at != HJG_NO_ROW && steps <= HJG_K_NOP_MOST_LINKS; at = next[at])
			if ((++steps & 1023) == 0 && *(volatile hjg_u32 *) a.crowded)
				break;
		if (steps > HJG_K_NOP_MOST_LINKS)
			*(volatile hjg_u32 *) a.crowded = 1;
	}
}

template <int W, int SINK> HJG_FN void
probe_chains(const HjgKNop &a)
{
	typedef HjgKey<W> Key;
	typedef typename Key::Raw Raw;
	typedef HjgSink<SINK, NOP_THREADS> Sink;
	__shared__ typename Sink::Shared shared;
	const Raw  *keys = (const Raw *) a.build.keys;
	const Raw  *probe_keys = (const Raw *) a.probe.keys;
	const hjg_u32 *rows = (const hjg_u32 *) a.build.rows;
	const hjg_u32 *probe_rows = (const hjg_u32 *) a.probe.rows;
	const hjg_u32 *heads = (const hjg_u32 *) a.heads;
	const hjg_u32 *next = (const hjg_u32 *) a.next;
	Sink		sink(a.sink, &shared);

	for (hjg_u32 tile = blockIdx.x * NOP_THREADS; tile < a.probe.nrows && !sink.full(); tile += gridDim.x * NOP_THREADS)
	{
		const hjg_u32 i = tile + threadIdx.x;
		const bool	here = i < a.probe.nrows;
		Raw			key = Raw();
		hjg_u32		row = i;
		hjg_u32		at = HJG_NO_ROW;
		bool		found = false;

		if (here)
		{
			key = __ldcs(&probe_keys[i]);
			if (probe_rows != nullptr)
				row = __ldcs(&probe_rows[i]);
			at = heads[Nop<W>::home(Key::mix(key), a.nslots)];
		}
		while (__any_sync(HJG_ALL_LANES, at != HJG_NO_ROW) && !sink.full())
		{
			bool		hit = at != HJG_NO_ROW && Key::same(Key::mix(keys[at]), Key::mix(key));
			hjg_u32		follow = HJG_NO_ROW;

			if (at != HJG_NO_ROW && !(hit && !wants_several(a.mode)))
				follow = next[at];
			found |= hit;
			hit &= wants_found(a.mode);
			sink.put(hit, hit && rows != nullptr ? rows[at] : at, row);
			at = follow;
		}
		if (wants_lonely(a.mode))
			sink.put(here && !found, HJG_NO_ROW, row);
	}
	sink.end();
}

/* ---- slots ---- */

template <int W> HJG_FN void
insert_slots(const HjgKNop &a)
{
	const typename HjgKey<W>::Raw *keys = (const typename HjgKey<W>::Raw *) a.build.keys;
	unsigned long long *slots = (unsigned long long *) a.slots;

	for (hjg_u32 i = blockIdx.x * NOP_THREADS + threadIdx.x; i < a.build.nrows; i += gridDim.x * NOP_THREADS)
	{
		typename HjgKey<W>::Mixed m = HjgKey<W>::mix(__ldcs(&keys[i]));
		unsigned long long entry = (unsigned long long) Nop<W>::tag(m) << 32 | i;
		hjg_u32		slot = Nop<W>::home(m, a.nslots);
		hjg_u32		steps = 0;

		/*
		 * read each slot after the first before swapping: many rows on the same walk would queue for their
		 * swaps
		 */
		while ((steps > 0 && __ldcg(&slots[slot]) != ~0ull) || atomicCAS(&slots[slot], ~0ull, entry) != ~0ull)
		{
			slot = slot + 1 == a.nslots ? 0 : slot + 1;
			steps++;
			if (steps > HJG_K_NOP_MOST_STEPS)
				*(volatile hjg_u32 *) a.crowded = 1;
			if (steps > HJG_K_NOP_MOST_STEPS || (steps % 64 == 0 && *(volatile hjg_u32 *) a.crowded))
				return;
		}
	}
}

template <int W, int SINK> HJG_FN void
probe_slots(const HjgKNop &a)
{
	typedef HjgKey<W> Key;
	typedef typename Key::Raw Raw;
	typedef HjgSink<SINK, NOP_THREADS> Sink;
	__shared__ typename Sink::Shared shared;
	const Raw  *keys = (const Raw *) a.build.keys;
	const Raw  *probe_keys = (const Raw *) a.probe.keys;
	const hjg_u32 *rows = (const hjg_u32 *) a.build.rows;
	const hjg_u32 *probe_rows = (const hjg_u32 *) a.probe.rows;
	const hjg_u64 *slots = (const hjg_u64 *) a.slots;
	Sink		sink(a.sink, &shared);

	for (hjg_u32 tile = blockIdx.x * NOP_THREADS; tile < a.probe.nrows && !sink.full(); tile += gridDim.x * NOP_THREADS)
	{
		const hjg_u32 i = tile + threadIdx.x;
		const bool	here = i < a.probe.nrows;
		Raw			key = Raw();
		hjg_u32		row = i;
		hjg_u32		slot = 0;
		hjg_u32		tag = 0;
		hjg_u32		steps = 0;
		bool		walking = here;
		bool		found = false;

		if (here)
		{
			key = __ldcs(&probe_keys[i]);
			if (probe_rows != nullptr)
				row = __ldcs(&probe_rows[i]);
			slot = Nop<W>::home(Key::mix(key), a.nslots);
			tag = Nop<W>::tag(Key::mix(key));
		}
		while (__any_sync(HJG_ALL_LANES, walking) && !sink.full())
		{
			hjg_u64		entry = walking ? slots[slot] : ~0ull;
			hjg_u32		at = (hjg_u32) entry;
			bool		hit = at != HJG_NO_ROW && (hjg_u32) (entry >> 32) == tag;

			if (W != 4 && hit)
				hit = Key::same(Key::mix(keys[at]), Key::mix(key));
			walking = at != HJG_NO_ROW && !(hit && !wants_several(a.mode)) && ++steps <= HJG_K_NOP_MOST_STEPS;
			slot = slot + 1 == a.nslots ? 0 : slot + 1;
			found |= hit;
			hit &= wants_found(a.mode);
			sink.put(hit, hit && rows != nullptr ? rows[at] : at, row);
		}
		if (wants_lonely(a.mode))
			sink.put(here && !found, HJG_NO_ROW, row);
	}
	sink.end();
}

#define NOP_KERNELS(W) \
	extern "C" __global__ __launch_bounds__(NOP_THREADS) void hjg_k_insert_chains_##W(HjgKNop a) { insert_chains<W>(a); } \
	extern "C" __global__ __launch_bounds__(NOP_THREADS) void hjg_k_insert_slots_##W(HjgKNop a) { insert_slots<W>(a); } \
	extern "C" __global__ __launch_bounds__(NOP_THREADS) void \
	hjg_k_probe_chains_##W##_checksum(HjgKNop a) { probe_chains<W, HJG_SINK_SUM>(a); } \
	extern "C" __global__ __launch_bounds__(NOP_THREADS) void \
	hjg_k_probe_chains_##W##_pairs(HjgKNop a) { probe_chains<W, HJG_SINK_WARP>(a); } \
	extern "C" __global__ __launch_bounds__(NOP_THREADS) void \
	hjg_k_probe_slots_##W##_checksum(HjgKNop a) { probe_slots<W, HJG_SINK_SUM>(a); } \
	extern "C" __global__ __launch_bounds__(NOP_THREADS) void \
	hjg_k_probe_slots_##W##_pairs(HjgKNop a) { probe_slots<W, HJG_SINK_WARP>(a); }

NOP_KERNELS(4)
NOP_KERNELS(8)
NOP_KERNELS(16)
