/*
 * cuda_match.cu
 *	  Joins of co-partitions with two methods of matching and any method of output.
 *
 *		nested	nested loops: a warp compares 32 probe rows with 32 build rows at a time by ballots on the key bits
 *				that the partition does not determine (Sioulas et al., ICDE 2019, III.B, listing 1)
 *		hashed	a table with lists in shared memory, links of 16 bits, rows linked in front by atomic exchange
 *				(ibid., III.C, listing 2); hashed_vt4 reads four probe rows of a thread before the first is used
 *		device	the same table in device memory, for comparison
 *
 * A unit is a piece of at most build_limit build rows of a partition, which the block keeps in shared
 * memory, and a piece of its probe rows, which the block reads into registers.  Blocks take units by
 * ticket; the list of units, computed from the partitions' sizes, is the mapping of blocks to partitions
 * of Paul et al. (2020, IV.B.1), and cuts long chains (Sioulas et al., III.A).  With a queue there is one
 * unit for each partition instead: a block that finds a large one puts pieces of it into the queue, and
 * the blocks of a second launch process the queue.  That replaces the child kernel of Rui and Tu (SSDBM
 * 2017, 3.2.3), since dynamic parallelism needs a device run-time library linked into the image.
 *
 * Positions of rows are in the order of partitions; for chains a page table maps them to buckets.  Blocks
 * of 512 threads, two a multiprocessor.  Each row is read once, a build row again for every further piece
 * of its partition's probe rows.  On an H200, 32M rows each in buckets of 1024: 13.0 ms nested, 1.5
 * hashed, partitioning included.
 */
#include "hjg_cuda_sink.h"

#define MATCH_THREADS 512
#define NO_LINK 0xFFFFu

/* Rows addressed by position. */
template <int W> struct Paged
{
	typedef typename HjgKey<W>::Mixed Mixed;
	HjgRows<W, hjg_u32> rows;
	const hjg_u32 *pages;
	hjg_u32		bits;

	__device__ Paged(const HjgKRows &r, hjg_u64 p, hjg_u32 b) : rows(r.keys, r.rows), pages((const hjg_u32 *) p), bits(b) {}
	__device__ __forceinline__ void
	get(hjg_u32 i, Mixed *key, hjg_u32 *row) const
	{
		rows.get(pages == nullptr ? i : pages[i >> bits] << bits | (i & ((1u << bits) - 1)), key, row);
	}
};

/*
 * Return the bits that ballots compare: for 4-byte keys all bits that the partition does not determine,
 * otherwise the bits below those of the partition.
 */
HJG_FN hjg_u32 word_of(hjg_u32 m) { return m; }
HJG_FN hjg_u32 word_of(hjg_u64 m) { return (hjg_u32) m; }
HJG_FN hjg_u32 word_of(ulonglong2 m) { return (hjg_u32) m.x; }

/* Does the mode need further build rows after a match? */
HJG_FN bool
goes_on(hjg_u32 mode)
{
	return mode == HJG_MATCH_ALL || mode == HJG_MATCH_LEFT;
}

/* Nested loops.  Dynamic shared memory: mixed key and row number of build_limit rows. */
template <int W> struct Nested
{
	typedef HjgKey<W> Key;
	typedef typename Key::Mixed Mixed;
	Mixed	   *key;
	hjg_u32    *row;
	hjg_u32		nrows;
	hjg_u32		nbits;

	__device__ Nested(const HjgKMatch &a, void *shared)
		: key((Mixed *) shared), row((hjg_u32 *) (key + a.units.build_limit)), nrows(0),
		  nbits(W == 4 ? 32 - a.units.bits : 32) {}

	__device__ __forceinline__ void
	load(const Paged<W> &from, hjg_u32 first, hjg_u32 last)
	{
		nrows = last - first;
		for (hjg_u32 i = threadIdx.x; i < nrows; i += MATCH_THREADS)
			from.get(first + i, &key[i], &row[i]);
		__syncthreads();
	}

	template <class Sink> __device__ __forceinline__ bool
	probe(bool here, Mixed k, hjg_u32 probe_row, hjg_u32 mode, Sink *sink) const
	{
		const hjg_u32 mine = word_of(k);
		bool		found = false;

		for (hjg_u32 first = 0; first < nrows && !sink->full(); first += 32)
		{
			const hjg_u32 i = first + hjg_lane();
			const hjg_u32 its = i < nrows ? word_of(key[i]) : 0;
			hjg_u32		mask = __ballot_sync(HJG_ALL_LANES, i < nrows);

			if (!here || (found && !goes_on(mode)))
				mask = 0;
			for (hjg_u32 bit = 0; bit < nbits; bit += 8)
			{
				if (!__any_sync(HJG_ALL_LANES, mask != 0))
					break;
#pragma unroll
				for (hjg_u32 b = 0; b < 8; b++)
				{
					/* bits above nbits are equal in all rows of a partition */
					const hjg_u32 vote = __ballot_sync(HJG_ALL_LANES, its >> (bit + b) & 1);

					mask &= mine >> (bit + b) & 1 ? vote : ~vote;
				}
			}
			while (__any_sync(HJG_ALL_LANES, mask != 0))
			{
				const hjg_u32 at = first + __ffs(mask) - 1;
				const bool	hit = mask != 0 && (W == 4 || Key::same(key[at], k));

				mask &= mask - 1;
				found |= hit;
				if (hit && !goes_on(mode))
					mask = 0;
				sink->put(hit && mode != HJG_MATCH_ANTI, hit ? row[at] : 0, probe_row);
			}
		}
		return found;
	}
};

/*
 * A table with lists.  Dynamic shared memory: mixed key and row number of build_limit rows, 2^HJG_K_HEAD_BITS
 * heads of 4 bytes, and a link of each row.
 */
template <int W> struct Hashed
{
	typedef HjgKey<W> Key;
	typedef typename Key::Mixed Mixed;
	Mixed	   *key;
	hjg_u32    *row;
	hjg_u32    *head;			/* 32 bits, since there is no exchange of 16 bits */
	hjg_u16    *link;
	hjg_u32		part_bits;

	__device__ Hashed(const HjgKMatch &a, void *shared)
		: key((Mixed *) shared), row((hjg_u32 *) (key + a.units.build_limit)), head(row + a.units.build_limit),
		  link((hjg_u16 *) (head + (1 << HJG_K_HEAD_BITS))), part_bits(a.units.bits) {}

	__device__ __forceinline__ hjg_u32 slot(Mixed k) const { return (Key::top(k) << part_bits) >> (32 - HJG_K_HEAD_BITS); }

	__device__ __forceinline__ void
	load(const Paged<W> &from, hjg_u32 first, hjg_u32 last)
	{
		for (hjg_u32 i = threadIdx.x; i < 1u << HJG_K_HEAD_BITS; i += MATCH_THREADS)
			head[i] = NO_LINK;
		__syncthreads();
		for (hjg_u32 i = threadIdx.x; i < last - first; i += MATCH_THREADS)
		{
			Mixed		k;

			from.get(first + i, &k, &row[i]);
			key[i] = k;
			link[i] = (hjg_u16) atomicExch(&head[slot(k)], i);
		}
		__syncthreads();
	}

	template <class Sink> __device__ __forceinline__ bool
	probe(bool here, Mixed k, hjg_u32 probe_row, hjg_u32 mode, Sink *sink) const
	{
		hjg_u32		at = here ? head[slot(k)] : NO_LINK;
		bool		found = false;

		while (__any_sync(HJG_ALL_LANES, at != NO_LINK) && !sink->full())
		{
			const bool	hit = at != NO_LINK && Key::same(key[at], k);
			const hjg_u32 next = at == NO_LINK || (hit && !goes_on(mode)) ? NO_LINK : link[at];

			found |= hit;
			sink->put(hit && mode != HJG_MATCH_ANTI, hit ? row[at] : 0, probe_row);
			at = next;
		}
		return found;
	}
};

/*
 * A table with lists in device memory: heads and links, a table of each block; the rows stay where they are
 * (Sioulas et al., V.B, figure 6).  Atomics change the L2 cache, so heads and links are read from there.
 */
template <int W> struct Device
{
	typedef HjgKey<W> Key;
	typedef typename Key::Mixed Mixed;
	Paged<W>	rows;
	hjg_u32		first;
	hjg_u32    *head;
	hjg_u16    *link;
	hjg_u32		part_bits;

	__device__ Device(const HjgKMatch &a, void *)
		: rows(a.build, a.build_pages, a.bucket_bits), first(0),
		  head((hjg_u32 *) (a.tables + (hjg_u64) blockIdx.x * HJG_K_TABLE_BYTES(a.units.build_limit))),
		  link((hjg_u16 *) (head + (1 << HJG_K_HEAD_BITS))), part_bits(a.units.bits) {}

	__device__ __forceinline__ hjg_u32 slot(Mixed k) const { return (Key::top(k) << part_bits) >> (32 - HJG_K_HEAD_BITS); }

	__device__ __forceinline__ void
	load(const Paged<W> &from, hjg_u32 from_row, hjg_u32 to_row)
	{
		first = from_row;
		for (hjg_u32 i = threadIdx.x; i < 1u << HJG_K_HEAD_BITS; i += MATCH_THREADS)
			__stcg(&head[i], NO_LINK);
		__syncthreads();
		for (hjg_u32 i = threadIdx.x; i < to_row - from_row; i += MATCH_THREADS)
		{
			Mixed		k;
			hjg_u32		row;

			from.get(from_row + i, &k, &row);
			__stcg(&link[i], (hjg_u16) atomicExch(&head[slot(k)], i));
		}
		__syncthreads();
	}

	template <class Sink> __device__ __forceinline__ bool
	probe(bool here, Mixed k, hjg_u32 probe_row, hjg_u32 mode, Sink *sink) const
	{
		hjg_u32		at = here ? __ldcg(&head[slot(k)]) : NO_LINK;
		bool		found = false;

		while (__any_sync(HJG_ALL_LANES, at != NO_LINK) && !sink->full())
		{
			Mixed		key = Mixed();
			hjg_u32		row = 0;

			if (at != NO_LINK)
				rows.get(first + at, &key, &row);

			const bool	hit = at != NO_LINK && Key::same(key, k);
			const hjg_u32 next = at == NO_LINK || (hit && !goes_on(mode)) ? NO_LINK : __ldcg(&link[at]);

			found |= hit;
			sink->put(hit && mode != HJG_MATCH_ANTI, hit ? row : 0, probe_row);
			at = next;
		}
		return found;
	}
};

/* Compute the task of a unit; one warp calls it, and all lanes receive the task. */
HJG_FN HjgKTask
task_of(const HjgKUnits &u, hjg_u32 unit)
{
	const hjg_u32 *unit_first = (const hjg_u32 *) u.unit_first;
	const hjg_u32 p = hjg_warp_find(unit_first, 1u << u.bits, unit);
	const hjg_u32 k = unit - unit_first[p];
	const hjg_u32 build_last = ((const hjg_u32 *) u.build.last)[p];
	const hjg_u32 probe_first = ((const hjg_u32 *) u.probe.first)[p];
	const hjg_u32 probe_last = ((const hjg_u32 *) u.probe.last)[p];
	const hjg_u32 pieces = (probe_last - probe_first + u.probe_limit - 1) / u.probe_limit;
	HjgKTask	t;

	t.build_from = ((const hjg_u32 *) u.build.first)[p] + k / pieces * u.build_limit;
	t.build_to = min(build_last, t.build_from + u.build_limit);
	t.probe_from = probe_first + k % pieces * u.probe_limit;
	t.probe_to = min(probe_last, t.probe_from + u.probe_limit);
	return t;
}

/* Cut a large task and put the pieces into the queue of the second launch. */
HJG_FN void
enqueue(const HjgKMatch &a, const HjgKTask &task, hjg_u32 *place)
{
	const hjg_u32 npieces = (task.probe_to - task.probe_from + a.piece_rows - 1) / a.piece_rows;

	if (threadIdx.x == 0)
		*place = atomicAdd((hjg_u32 *) a.nqueued, npieces);
	__syncthreads();
	for (hjg_u32 i = threadIdx.x; i < npieces; i += MATCH_THREADS)
	{
		HjgKTask	piece = task;

		piece.probe_from = task.probe_from + i * a.piece_rows;
		piece.probe_to = min(task.probe_to, piece.probe_from + a.piece_rows);
		((HjgKTask *) a.queue)[*place + i] = piece;
	}
	__syncthreads();
}

template <int W, class Join, int SINK, int VT> HJG_FN void
match(const HjgKMatch &a)
{
	extern __shared__ __align__(16) hjg_u32 shared[];
	typedef HjgSink<SINK, MATCH_THREADS> Sink;
	typedef typename HjgKey<W>::Mixed Mixed;
	__shared__ typename Sink::Shared sink_shared;
	__shared__ HjgKTask task;
	__shared__ hjg_u32 unit;
	__shared__ hjg_u32 queue_place;
	const bool	want_lonely = a.mode == HJG_MATCH_LEFT || a.mode == HJG_MATCH_ANTI;
	const Paged<W> build(a.build, a.build_pages, a.bucket_bits);
	const Paged<W> probe(a.probe, a.probe_pages, a.bucket_bits);
	Join		join(a, shared);
	Sink		sink(a.sink, &sink_shared);

	for (;;)
	{
		if (threadIdx.x < 32)
		{
			hjg_u32		u = 0;

			if (hjg_lane() == 0)
				do
					u = Sink::is_over(a.sink) ? HJG_NO_ROW : atomicAdd((hjg_u32 *) a.ticket, 1u);
				while (u < a.nunits && Sink::is_done(a.sink, a.first_unit + u));
			u = __shfl_sync(HJG_ALL_LANES, u, 0);
			if (u >= (a.from_queue ? *(const hjg_u32 *) a.nqueued : a.nunits))
				u = HJG_NO_ROW;
			if (u != HJG_NO_ROW)
			{
				const HjgKTask t = a.from_queue ? ((const HjgKTask *) a.queue)[u] : task_of(a.units, a.first_unit + u);

				if (hjg_lane() == 0)
					task = t;
			}
			if (hjg_lane() == 0)
				unit = u;
		}
		__syncthreads();
		if (unit == HJG_NO_ROW)
			break;
		if (a.queue != 0 && !a.from_queue && task.probe_to - task.probe_from > a.piece_rows)
		{
			enqueue(a, task, &queue_place);
			continue;
		}
		sink.begin(a.first_unit + unit);
		join.load(build, task.build_from, task.build_to);
		for (hjg_u32 tile = task.probe_from; tile < task.probe_to && !sink.full(); tile += VT * MATCH_THREADS)
		{
			Mixed		key[VT];
			hjg_u32		row[VT];

#pragma unroll
			for (int v = 0; v < VT; v++)
			{
				key[v] = Mixed();
				row[v] = 0;
				if (tile + v * MATCH_THREADS + threadIdx.x < task.probe_to)
					probe.get(tile + v * MATCH_THREADS + threadIdx.x, &key[v], &row[v]);
			}
#pragma unroll
			for (int v = 0; v < VT; v++)
			{
				const bool	here = tile + v * MATCH_THREADS + threadIdx.x < task.probe_to;
				const bool	found = join.probe(here, key[v], row[v], a.mode, &sink);

				if (want_lonely)
					sink.put(here && !found, HJG_NO_ROW, row[v]);
			}
		}
		sink.end_unit(a.first_unit + unit);
		__syncthreads();
	}
	sink.end();
}

#define MATCH_KERNEL(NAME, JOIN, VT, W, SINK_NAME, SINK) \
	extern "C" __global__ __launch_bounds__(MATCH_THREADS, 2) void \
	hjg_k_match_##NAME##_##W##_##SINK_NAME(HjgKMatch a) { match<W, JOIN<W>, SINK, VT>(a); }
/* the outputs of the paper of bucket chains */
#define MATCH_KERNELS_OF_CHAINS(NAME, JOIN, VT, W) \
	MATCH_KERNEL(NAME, JOIN, VT, W, sum, HJG_SINK_SUM) \
	MATCH_KERNEL(NAME, JOIN, VT, W, warp, HJG_SINK_WARP)
#define MATCH_KERNELS(NAME, JOIN, W) \
	MATCH_KERNELS_OF_CHAINS(NAME, JOIN, 1, W) \
	MATCH_KERNEL(NAME, JOIN, 1, W, block, HJG_SINK_BLOCK) \
	MATCH_KERNEL(NAME, JOIN, 1, W, page, HJG_SINK_PAGE) \
	MATCH_KERNEL(NAME, JOIN, 1, W, count, HJG_SINK_COUNT) \
	MATCH_KERNEL(NAME, JOIN, 1, W, place, HJG_SINK_PLACE) \
	MATCH_KERNEL(NAME, JOIN, 1, W, group, HJG_SINK_GROUP) \
	MATCH_KERNEL(NAME, JOIN, 1, W, slot, HJG_SINK_SLOT)

MATCH_KERNELS(nested, Nested, 4)
MATCH_KERNELS(nested, Nested, 8)
MATCH_KERNELS(nested, Nested, 16)
MATCH_KERNELS(hashed, Hashed, 4)
MATCH_KERNELS(hashed, Hashed, 8)
MATCH_KERNELS(hashed, Hashed, 16)
MATCH_KERNELS_OF_CHAINS(hashed_vt4, Hashed, 4, 4)
MATCH_KERNELS_OF_CHAINS(hashed_vt4, Hashed, 4, 8)
MATCH_KERNELS_OF_CHAINS(hashed_vt4, Hashed, 4, 16)
MATCH_KERNELS_OF_CHAINS(device, Device, 1, 4)
MATCH_KERNELS_OF_CHAINS(device, Device, 1, 8)
MATCH_KERNELS_OF_CHAINS(device, Device, 1, 16)
