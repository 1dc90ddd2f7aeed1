/*
 * cuda_bench.cu
 *	  Inputs of the benchmark of the resident joins, and the check of their results.
 *
 * These kernels share no code with the joins: they compute keys from ids by their own mixes and the
 * expected checksum from the ids, and check each pair against both columns of keys.
 */
#include "hjg_cuda_kernel.h"
#include "lab/hjg_cuda_paper_args.h"

#define BENCH_THREADS 256

/* Permutations of 32 and 64 bits other than those of hjg_hash.h. */
HJG_FN hjg_u32
scatter_bits(hjg_u32 x)
{
	x *= 0x9E3779B1u;
	x ^= x >> 15;
	x *= 0x85EBCA77u;
	x ^= x >> 13;
	return x * 0xC2B2AE3Du;
}

HJG_FN hjg_u64
scatter_bits(hjg_u64 x)
{
	x ^= x >> 33;
	x *= 0xFF51AFD7ED558CCDull;
	x ^= x >> 33;
	x *= 0xC4CEB9FE1A85EC53ull;
	return x ^ x >> 33;
}

HJG_FN void make_key(hjg_u32 *key, hjg_u32 id, bool dense) { *key = dense ? id : scatter_bits(id); }
HJG_FN void make_key(hjg_u64 *key, hjg_u32 id, bool dense) { *key = dense ? id : scatter_bits((hjg_u64) id + 1); }
HJG_FN void make_key(ulonglong2 *key, hjg_u32 id, bool dense)
{
	*key = make_ulonglong2(id & 7, dense ? id : scatter_bits((hjg_u64) id + 1));
}

HJG_FN bool same_key(hjg_u32 a, hjg_u32 b) { return a == b; }
HJG_FN bool same_key(hjg_u64 a, hjg_u64 b) { return a == b; }
HJG_FN bool same_key(ulonglong2 a, ulonglong2 b) { return a.x == b.x && a.y == b.y; }

/* Draw a rank of a zipf distribution over [0, n), by the inverse of its continuous form. */
HJG_FN hjg_u32
zipf_rank(double u, double n, double theta)
{
	double		x = theta == 1.0 ? exp(u * log(n)) : pow(u * (pow(n, 1.0 - theta) - 1.0) + 1.0, 1.0 / (1.0 - theta));

	return x <= 1.0 ? 0 : x >= n ? (hjg_u32) n - 1 : (hjg_u32) x - 1;
}

template <class Raw> HJG_FN void
fill_side(const HjgKFillSide &a)
{
	Raw		   *keys = (Raw *) a.side.keys;
	unsigned long long npairs = 0;
	unsigned long long checksum = 0;

	for (hjg_u32 i = blockIdx.x * BENCH_THREADS + threadIdx.x; i < a.side.nrows; i += gridDim.x * BENCH_THREADS)
	{
		hjg_u64		random = scatter_bits(a.seed + i);
		hjg_u32		id = i % a.distinct;

		if (a.draw == HJG_K_UNIFORM)
			id = (hjg_u32) __umul64hi(random, a.distinct);
		else if (a.draw == HJG_K_ZIPF)
		{
			/* spread popular ids over the range */
			id = zipf_rank((double) (random >> 11) / 9007199254740992.0, a.distinct, a.theta);
			id = (hjg_u32) (((hjg_u64) id * 2654435761u + 12345) % a.distinct);
		}
		else if (a.draw == HJG_K_ONE_KEY)
			id = 0;
		if (a.match_permille < 1000 && scatter_bits(random) % 1000 >= a.match_permille)
			id += a.distinct;
		make_key(&keys[i], id, a.dense);
		if (a.wide_rows)
			((hjg_u64 *) a.side.rows)[i] = i;
		else
			((hjg_u32 *) a.side.rows)[i] = i;
		if (a.heads != 0 && a.expected == 0)
			((hjg_u32 *) a.next)[i] = atomicExch((hjg_u32 *) a.heads + id, i);
		else if (a.heads != 0 && id < a.distinct)
			for (hjg_u32 b = ((const hjg_u32 *) a.heads)[id]; b != HJG_NO_ROW; b = ((const hjg_u32 *) a.next)[b])
			{
				npairs++;
				checksum += hjg_checksum_pair(i, b);
			}
		else if (a.expected != 0 && id < a.distinct)
			for (hjg_u32 b = id; b < a.build_rows; b += a.distinct)
			{
				npairs++;
				checksum += hjg_checksum_pair(i, b);
			}
	}
	if (a.expected != 0)
		hjg_warp_add((hjg_u64 *) a.expected, npairs, checksum);
}

template <class Raw> HJG_FN void
check_pairs(const HjgKCheckPairs &a)
{
	const Raw  *build_keys = (const Raw *) a.build.keys;
	const Raw  *probe_keys = (const Raw *) a.probe.keys;
	unsigned long long checksum = 0;
	unsigned long long wrong = 0;

	for (hjg_u64 i = blockIdx.x * BENCH_THREADS + threadIdx.x; i < a.npairs; i += gridDim.x * BENCH_THREADS)
	{
		hjg_u64		build;
		hjg_u64		probe;

		if (a.output.pairs != 0)
		{
			HjgPair		pair = ((const HjgPair *) a.output.pairs)[i];

			build = pair.build_row;
			probe = pair.probe_row;
		}
		else if (a.wide_rows)
		{
			build = ((const hjg_u64 *) a.output.build_rows)[i];
			probe = ((const hjg_u64 *) a.output.probe_rows)[i];
		}
		else
		{
			build = ((const hjg_u32 *) a.output.build_rows)[i];
			probe = ((const hjg_u32 *) a.output.probe_rows)[i];
		}
		checksum += hjg_checksum_pair((hjg_u32) probe, (hjg_u32) build);
		if (build >= a.build.nrows || probe >= a.probe.nrows || !same_key(build_keys[build], probe_keys[probe]) ||
			(a.output.keys != 0 && !same_key(((const Raw *) a.output.keys)[i], probe_keys[probe])))
			wrong++;
	}
	hjg_warp_add((hjg_u64 *) a.facts, checksum, wrong);
}

/* Copy words of 16 bytes, from pinned host memory for example; a few blocks keep a bus busy. */
extern "C" __global__ __launch_bounds__(BENCH_THREADS) void
hjg_k_copy_words(ulonglong2 *to, const ulonglong2 *from, hjg_u64 n)
{
	for (hjg_u64 i = blockIdx.x * BENCH_THREADS + threadIdx.x; i < n; i += gridDim.x * BENCH_THREADS)
		to[i] = from[i];
}

#define BENCH_KERNELS(W, RAW) \
	extern "C" __global__ __launch_bounds__(BENCH_THREADS) void hjg_k_fill_side_##W(HjgKFillSide a) { fill_side<RAW>(a); } \
	extern "C" __global__ __launch_bounds__(BENCH_THREADS) void hjg_k_check_pairs_##W(HjgKCheckPairs a) { check_pairs<RAW>(a); }

BENCH_KERNELS(4, hjg_u32)
BENCH_KERNELS(8, hjg_u64)
BENCH_KERNELS(16, ulonglong2)

/* Word w of the columns of a row. */
HJG_FN hjg_u32
column_word(hjg_u32 side, hjg_u32 row, hjg_u32 w)
{
	return scatter_bits(row * 32 + w) ^ side;
}

extern "C" __global__ __launch_bounds__(BENCH_THREADS) void
hjg_k_fill_columns(HjgKColumns a)
{
	for (hjg_u64 row = blockIdx.x * BENCH_THREADS + threadIdx.x; row < a.nrows; row += gridDim.x * BENCH_THREADS)
		for (hjg_u32 w = 0; w < a.nwords; w++)
			((hjg_u32 *) a.columns)[row * a.nwords + w] = column_word(a.side, (hjg_u32) row, w);
}

extern "C" __global__ __launch_bounds__(BENCH_THREADS) void
hjg_k_check_columns(HjgKColumns a)
{
	unsigned long long wrong = 0;

	for (hjg_u64 i = blockIdx.x * BENCH_THREADS + threadIdx.x; i < a.nrows; i += gridDim.x * BENCH_THREADS)
	{
		const HjgPair pair = ((const HjgPair *) a.pairs)[i];
		const hjg_u32 row = a.side == HJG_SIDE_BUILD ? pair.build_row : pair.probe_row;
		bool		good = true;

		for (hjg_u32 w = 0; w < a.nwords; w++)
			good &= ((const hjg_u32 *) a.columns)[i * a.nwords + w] == column_word(a.side, row, w);
		wrong += !good;
	}
	if (wrong > 0)
		atomicAdd((unsigned long long *) a.wrong, wrong);
}
