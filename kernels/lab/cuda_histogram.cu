/*
 * cuda_histogram.cu
 *	  Radix partitioning with a histogram for each thread, warp or block.
 *
 *		pth		per thread: no atomics, much shared memory (He et al., SIGMOD 2008)
 *		wsh		per warp: lanes exchange their digits by shuffles, and each lane counts its own digits (Paul et
 *				al., 2020, IV.A.2)
 *		bsh		per block, by atomics in shared memory, with several rows a thread in registers (Rui and Tu, SSDBM
 *				2017, algorithms 1 and 2)
 *
 * A pass divides the rows of each partition of the previous pass into stretches, one a block:
 *
 *		hjg_k_list_stretches		one block
 *		hjg_k_count_digits			histograms to global memory
 *		(sums of the counters)		the place of each worker's first row of each digit
 *		hjg_k_scatter_digits		rows to their places, counted in shared memory as in algorithm 2
 *		hjg_k_find_starts			the starts of the new partitions
 *
 * Rows are written one by one, as in the papers: a worker's run is short, so sectors are written in parts,
 * which dominates the costs; cuda_partition.cu avoids it.  With a counter for each worker and digit,
 * shared memory limits the digits of a pass: 2^6 with pth, 2^9 with the others.
 *
 * Bytes a row, 4-byte keys, each pass: 4 (8 after the first) to count, 8 to scatter, 8 written; 56 a
 * counter.  On an H200 a join of 128M rows each takes 23.5 ms with two passes of bsh, 15 % of the speed of
 * a copy of as many bytes.
 */
#include "hjg_cuda_kernel.h"
#include "lab/hjg_cuda_paper_args.h"

#define LIST_THREADS 1024
#define START_THREADS 256

/* ---- histograms ---- */

/* A thread's histogram.  All threads of the block call each function; here: the thread has a row. */
struct OfThread
{
	static const hjg_u32 THREADS = 128;
	static const hjg_u32 WORKERS = THREADS;
	hjg_u32    *mine;

	__device__ OfThread(hjg_u32 *shared, hjg_u32) : mine(shared + threadIdx.x) {}
	/* address of its counter of a digit: the words of a warp's threads are adjacent */
	__device__ __forceinline__ hjg_u32 *at(hjg_u32 digit, hjg_u32) const { return mine + digit * THREADS; }
	__device__ __forceinline__ hjg_u32
	next(bool here, hjg_u32 digit) const
	{
		return here ? (*at(digit, 0))++ : 0;
	}
};

struct OfWarp
{
	static const hjg_u32 THREADS = 256;
	static const hjg_u32 WORKERS = THREADS / 32;
	hjg_u32    *shared;
	hjg_u32    *mine;
	hjg_u32		bits;

	__device__ OfWarp(hjg_u32 *s, hjg_u32 b) : shared(s), mine(s + ((threadIdx.x >> 5) << b)), bits(b) {}
	__device__ __forceinline__ hjg_u32 *at(hjg_u32 digit, hjg_u32 worker) const { return shared + (worker << bits) + digit; }

	/* lane d mod 32 alone counts digit d */
	__device__ __forceinline__ hjg_u32
	next(bool here, hjg_u32 digit) const
	{
		hjg_u32		place = 0;

#pragma unroll
		for (hjg_u32 i = 0; i < 32; i++)
		{
			const hjg_u32 d = __shfl_sync(HJG_ALL_LANES, here ? digit : HJG_NO_ROW, i);
			hjg_u32		counted = 0;

			if (d != HJG_NO_ROW && (d & 31) == hjg_lane())
				counted = mine[d]++;
			counted = __shfl_sync(HJG_ALL_LANES, counted, d & 31);
			if (i == hjg_lane())
				place = counted;
		}
		return place;
	}
};

struct OfBlock
{
	static const hjg_u32 THREADS = 256;
	static const hjg_u32 WORKERS = 1;
	hjg_u32    *shared;

	__device__ OfBlock(hjg_u32 *s, hjg_u32) : shared(s) {}
	__device__ __forceinline__ hjg_u32 *at(hjg_u32 digit, hjg_u32) const { return shared + digit; }
	__device__ __forceinline__ hjg_u32
	next(bool here, hjg_u32 digit) const
	{
		return here ? atomicAdd(shared + digit, 1u) : 0;
	}
};

/* ---- a pass ---- */

/* Compute the index of the counter of a digit and a worker in stretch t. */
HJG_FN hjg_u64
counter_of(const HjgKPass &a, const HjgKStretch &s, hjg_u32 t, hjg_u32 digit, hjg_u32 worker)
{
	return (((hjg_u64) s.before << a.bits) + (hjg_u64) digit * s.nstretches + (t - s.before)) * a.workers + worker;
}

/*
 * Call each(i, key, row, here) in all threads for every row of the stretch.  One block a stretch; dynamic
 * shared memory: 4 << bits bytes a worker.  VT rows of a thread are read before the first one is used.
 */
template <int W, class Histogram, int VT, class Each> HJG_FN void
each_row(const HjgKPass &a, const HjgKStretch &s, bool with_rows, Each each)
{
	typedef HjgKey<W> Key;
	typedef typename Key::Mixed Mixed;
	const typename Key::Raw *keys = (const typename Key::Raw *) a.side.keys;
	const hjg_u32 *rows = (const hjg_u32 *) a.side.rows;
	HjgRows<W, hjg_u32> in(a.in.keys, a.in.rows);

	for (hjg_u32 base = 0; base < s.nrows; base += Histogram::THREADS * VT)
	{
		Mixed		key[VT];
		hjg_u32		row[VT];

#pragma unroll
		for (int v = 0; v < VT; v++)
		{
			const hjg_u32 i = base + v * Histogram::THREADS + threadIdx.x;

			key[v] = Mixed();
			row[v] = 0;
			if (i >= s.nrows)
				continue;
			if (keys != nullptr)
			{
				key[v] = Key::mix(keys[s.first + i]);
				if (with_rows)
					row[v] = rows != nullptr ? rows[s.first + i] : s.first + i;
			}
			else if (with_rows)
				in.get(s.first + i, &key[v], &row[v]);
			else
				key[v] = in.key(s.first + i);
		}
#pragma unroll
		for (int v = 0; v < VT; v++)
			each(key[v], row[v], base + v * Histogram::THREADS + threadIdx.x < s.nrows);
	}
}

template <int W, class Histogram, int VT> HJG_FN void
count_digits(const HjgKPass &a)
{
	extern __shared__ hjg_u32 shared[];
	const hjg_u32 ncounters = Histogram::WORKERS << a.bits;
	const hjg_u32 mask = (1u << a.bits) - 1;
	const HjgKStretch *stretches = (const HjgKStretch *) a.stretches;
	Histogram	histogram(shared, a.bits);

	if (blockIdx.x >= *(const hjg_u32 *) a.nstretches)
		return;
	const HjgKStretch s = stretches[blockIdx.x];

	for (hjg_u32 i = threadIdx.x; i < ncounters; i += Histogram::THREADS)
		shared[i] = 0;
	__syncthreads();
	each_row<W, Histogram, VT>(a, s, false, [&](typename HjgKey<W>::Mixed key, hjg_u32, bool here)
	{
		histogram.next(here, HjgKey<W>::top(key) >> a.shift & mask);
	});
	__syncthreads();
	for (hjg_u32 i = threadIdx.x; i < ncounters; i += Histogram::THREADS)
	{
		const hjg_u32 digit = i / Histogram::WORKERS;
		const hjg_u32 worker = i % Histogram::WORKERS;
		const hjg_u32 n = Histogram::WORKERS == Histogram::THREADS ? shared[i] : *histogram.at(digit, worker);

		((hjg_u64 *) a.counts)[counter_of(a, s, blockIdx.x, digit, worker)] = n;
	}
}

template <int W, class Histogram, int VT> HJG_FN void
scatter_digits(const HjgKPass &a)
{
	extern __shared__ hjg_u32 shared[];
	const hjg_u32 ncounters = Histogram::WORKERS << a.bits;
	const hjg_u32 mask = (1u << a.bits) - 1;
	const HjgKStretch *stretches = (const HjgKStretch *) a.stretches;
	HjgRows<W, hjg_u32> out(a.out.keys, a.out.rows);
	Histogram	histogram(shared, a.bits);

	if (blockIdx.x >= *(const hjg_u32 *) a.nstretches)
		return;
	const HjgKStretch s = stretches[blockIdx.x];

	for (hjg_u32 i = threadIdx.x; i < ncounters; i += Histogram::THREADS)
	{
		const hjg_u32 digit = i / Histogram::WORKERS;
		const hjg_u32 worker = i % Histogram::WORKERS;
		const hjg_u32 place = (hjg_u32) ((const hjg_u64 *) a.counts)[counter_of(a, s, blockIdx.x, digit, worker)];

		if (Histogram::WORKERS == Histogram::THREADS)
			shared[i] = place;
		else
			*histogram.at(digit, worker) = place;
	}
	__syncthreads();
	each_row<W, Histogram, VT>(a, s, true, [&](typename HjgKey<W>::Mixed key, hjg_u32 row, bool here)
	{
		const hjg_u32 place = histogram.next(here, HjgKey<W>::top(key) >> a.shift & mask);

		if (here)
			out.put(place, key, row);
	});
}

/* ---- stretches and starts ---- */

/* List the stretches.  One block of 1024 threads. */
extern "C" __global__ __launch_bounds__(LIST_THREADS) void
hjg_k_list_stretches(HjgKPass a)
{
	__shared__ hjg_u32 sums[33];
	const hjg_u32 *starts = (const hjg_u32 *) a.starts;
	hjg_u32    *firsts = (hjg_u32 *) a.firsts;
	const hjg_u32 each = (a.nparts + LIST_THREADS - 1) / LIST_THREADS;
	const hjg_u32 from = min(threadIdx.x * each, a.nparts);
	const hjg_u32 to = min(from + each, a.nparts);
	hjg_u32		sum = 0;

	auto part_start = [&](hjg_u32 p) { return starts == nullptr ? p * a.nrows : starts[p]; };
	auto stretches_of = [&](hjg_u32 p) { return (part_start(p + 1) - part_start(p) + a.stretch_rows - 1) / a.stretch_rows; };

	for (hjg_u32 p = from; p < to; p++)
		sum += stretches_of(p);
	sum = hjg_block_sum_before<LIST_THREADS>(sum, sums);
	for (hjg_u32 p = from; p < to; p++)
	{
		firsts[p] = sum;
		sum += stretches_of(p);
	}
	if (threadIdx.x == 0)
	{
		firsts[a.nparts] = sums[32];
		*(hjg_u32 *) a.nstretches = sums[32];
	}
	__syncthreads();
	for (hjg_u32 p = threadIdx.x >> 5; p < a.nparts; p += LIST_THREADS / 32)
	{
		HjgKStretch s;

		s.before = firsts[p];
		s.nstretches = firsts[p + 1] - s.before;
		for (hjg_u32 k = hjg_lane(); k < s.nstretches; k += 32)
		{
			s.first = part_start(p) + k * a.stretch_rows;
			s.nrows = min(a.stretch_rows, part_start(p + 1) - s.first);
			((HjgKStretch *) a.stretches)[s.before + k] = s;
		}
	}
}

/*
 * Find the starts of the new partitions, after the sums of the counters: the grid covers the partitions
 * and one more.
 */
extern "C" __global__ __launch_bounds__(START_THREADS) void
hjg_k_find_starts(HjgKPass a)
{
	const hjg_u32 *firsts = (const hjg_u32 *) a.firsts;
	const hjg_u64 *sums = (const hjg_u64 *) a.counts;
	const hjg_u32 nparts = a.nparts << a.bits;
	const hjg_u32 i = blockIdx.x * START_THREADS + threadIdx.x;

	auto start = [&](hjg_u32 p)
	{
		hjg_u32		coarse = p >> a.bits;
		hjg_u32		digit = p & ((1u << a.bits) - 1);

		if (p == nparts)
			return a.nrows;
		return (hjg_u32) sums[(((hjg_u64) firsts[coarse] << a.bits) +
							   (hjg_u64) digit * (firsts[coarse + 1] - firsts[coarse])) * a.workers];
	};

	if (i > nparts)
		return;
	((hjg_u32 *) a.new_starts)[i] = start(i);
	if (a.sizes != 0 && i < nparts)
		((hjg_u32 *) a.sizes)[i] = start(i + 1) - start(i);
}

#define PASS_KERNELS(NAME, HISTOGRAM, VT, W) \
	extern "C" __global__ __launch_bounds__(HISTOGRAM::THREADS) void \
	hjg_k_count_digits_##NAME##_##W(HjgKPass a) { count_digits<W, HISTOGRAM, VT>(a); } \
	extern "C" __global__ __launch_bounds__(HISTOGRAM::THREADS) void \
	hjg_k_scatter_digits_##NAME##_##W(HjgKPass a) { scatter_digits<W, HISTOGRAM, VT>(a); }
#define PASS_KERNELS_BY_WIDTH(NAME, HISTOGRAM, VT) \
	PASS_KERNELS(NAME, HISTOGRAM, VT, 4) \
	PASS_KERNELS(NAME, HISTOGRAM, VT, 8) \
	PASS_KERNELS(NAME, HISTOGRAM, VT, 16)

PASS_KERNELS_BY_WIDTH(pth, OfThread, 4)
PASS_KERNELS_BY_WIDTH(wsh, OfWarp, 4)
PASS_KERNELS_BY_WIDTH(bsh, OfBlock, 8)
PASS_KERNELS_BY_WIDTH(bsh_vt1, OfBlock, 1)
