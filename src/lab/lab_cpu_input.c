/*
 * lab_cpu_input.c
 *	  Inputs of the cpu engine's benchmark, and the check of its output.
 *
 * A case draws key numbers ("ids") for both sides and turns them into keys of its width.  The check is
 * independent of the engine: with A and B two mixes of row numbers, the sum over all pairs of A(probe row)
 * * B(build row) is, by distributivity, the sum over the probe rows of A(row) * S(id), where S(id) is the
 * sum of B over the build rows of that id.  S is computed directly from the inputs.
 */
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lab/hjg_engine_bench_input.h"

#define FILL_ROWS 65536

void *
hjg_cpu_bench_map(size_t bytes, bool huge_pages)
{
	void	   *p;

	bytes = (bytes + HJG_SLAB_BYTES - 1) / HJG_SLAB_BYTES * HJG_SLAB_BYTES;
	p = aligned_alloc(HJG_SLAB_BYTES, bytes);
	if (p == NULL)
		return NULL;
#ifdef MADV_HUGEPAGE
	madvise(p, bytes, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
	memset(p, 0, bytes);
	return p;
}

/* --- inputs --- */

static hjg_u64
next_random(hjg_u64 *state)
{
	return hjg_mix64(HJG_HASH_NO_SEED, *state += 0x9e3779b97f4a7c15u);
}

static hjg_u64
mark_probe(hjg_u64 row)
{
	return hjg_mix64(HJG_HASH_NO_SEED, row + 0x1234567);
}

static hjg_u64
mark_build(hjg_u32 row)
{
	return hjg_mix64(HJG_HASH_NO_SEED, (hjg_u64) row << 20 ^ 0xfedcba9876543210u);
}

/* Write a key; multiplication by an odd number spreads keys that are not dense. */
static void
put_case_key(const HjgCpuBenchCase *bc, hjg_u8 *keys, hjg_u64 row, hjg_u32 id)
{
	hjg_u64		words[2] = {bc->dense ? id : id * (hjg_u64) 0x9e3779b97f4a7c15, hjg_mix64(HJG_HASH_NO_SEED, id)};

	memcpy(keys + row * (hjg_u64) bc->width, words, (size_t) bc->width);
}

/* Fill in the probe ids of one piece. */
static void
fill_cpu_probe(void *arg, int piece, int worker)
{
	HjgCpuBenchInput *in = arg;
	const HjgCpuBenchCase *bc = in->bc;
	hjg_u64		begin = (hjg_u64) piece * FILL_ROWS;
	hjg_u64		end = begin + FILL_ROWS < in->nprobe ? begin + FILL_ROWS : in->nprobe;
	hjg_u64		state = in->seed + begin;
	double		n = (double) in->nids;

	(void) worker;
	for (hjg_u64 i = begin; i < end; i++)
	{
		double		u = (double) (next_random(&state) >> 11) / 9007199254740992.0;
		hjg_u64		id;

		if (bc->one_hot)
			id = in->nids / 3;
		else if (bc->theta > 0)
		{
			/* rank by inversion of the continuous distribution, then a random place in the domain */
			double		x = bc->theta == 1.0 ? pow(n + 1, u)
				: pow(u * (pow(n + 1, 1 - bc->theta) - 1) + 1, 1 / (1 - bc->theta));
			hjg_u64		rank = x - 1 < n ? (hjg_u64) (x - 1) : in->nids - 1;

			id = hjg_mix64(HJG_HASH_NO_SEED, rank) % in->nids;
		}
		else
			id = (hjg_u64) (u * n);
		if (bc->selectivity < 1 &&
			(double) (next_random(&state) >> 11) / 9007199254740992.0 >= bc->selectivity)
			id += in->nids;
		in->probe_ids[i] = (hjg_u32) id;
		put_case_key(bc, in->probe_keys, i, (hjg_u32) id);
	}
}

void
hjg_cpu_bench_input_free(HjgCpuBenchInput *in)
{
	free(in->build_ids);
	free(in->probe_ids);
	free(in->build_keys);
	free(in->probe_keys);
	free(in->sums);
}

bool
hjg_cpu_bench_input_make(HjgCpuBenchInput *in, const HjgCpuBenchCase *bc, double factor, HjgPool *pool, bool huge_pages)
{
	hjg_u64		state = 42;
	hjg_u32    *counts;

	*in = (HjgCpuBenchInput) {.bc = bc, .seed = 4711};
	in->nbuild = (hjg_u64) (bc->nbuild * 1e6 * factor) + 1;
	in->nprobe = (hjg_u64) (bc->nprobe * 1e6 * factor) + 1;
	in->nids = (in->nbuild + (hjg_u64) bc->duplicates - 1) / (hjg_u64) bc->duplicates;
	in->build_ids = hjg_cpu_bench_map(in->nbuild * sizeof(hjg_u32), huge_pages);
	in->probe_ids = hjg_cpu_bench_map(in->nprobe * sizeof(hjg_u32), huge_pages);
	in->build_keys = hjg_cpu_bench_map(in->nbuild * (hjg_u64) bc->width, huge_pages);
	in->probe_keys = hjg_cpu_bench_map(in->nprobe * (hjg_u64) bc->width, huge_pages);
	in->sums = hjg_cpu_bench_map(in->nids * sizeof(hjg_u64), huge_pages);
	counts = hjg_cpu_bench_map(in->nids * sizeof(hjg_u32), huge_pages);
	if (!in->build_ids || !in->probe_ids || !in->build_keys || !in->probe_keys || !in->sums || !counts)
	{
		free(counts);
		hjg_cpu_bench_input_free(in);
		return false;
	}
	for (hjg_u64 i = 0; i < in->nbuild; i++)
		in->build_ids[i] = (hjg_u32) (i % in->nids);
	for (hjg_u64 i = in->nbuild - 1; i > 0; i--)
	{
		hjg_u64		j = next_random(&state) % (i + 1);
		hjg_u32		id = in->build_ids[i];

		in->build_ids[i] = in->build_ids[j];
		in->build_ids[j] = id;
	}
	for (hjg_u64 i = 0; i < in->nbuild; i++)
	{
		put_case_key(bc, in->build_keys, i, in->build_ids[i]);
		in->sums[in->build_ids[i]] += mark_build((hjg_u32) i);
		counts[in->build_ids[i]]++;
	}
	hjg_pool_run(pool, (int) ((in->nprobe + FILL_ROWS - 1) / FILL_ROWS), fill_cpu_probe, in);
	for (hjg_u64 i = 0; i < in->nprobe; i++)
	{
		hjg_u32		id = in->probe_ids[i];
		bool		matched = id < in->nids;

		if (matched && bc->mode != HJG_MATCH_ANTI)
		{
			in->npairs += bc->mode == HJG_MATCH_SEMI ? 1 : counts[id];
			in->checksum += mark_probe(i) * in->sums[id];
		}
		else if (!matched && (bc->mode == HJG_MATCH_ANTI || bc->mode == HJG_MATCH_LEFT))
		{
			in->npairs++;
			in->checksum += mark_probe(i) * mark_build(HJG_NO_ROW);
		}
	}
	free(counts);
	return true;
}

/* --- checking a round --- */

typedef struct Check
{
	const HjgResult *result;
	hjg_u64		first_row;
	hjg_u64		sum;			/* atomic */
} Check;

static void
check_page(void *arg, int piece, int worker)
{
	Check	   *check = arg;
	const HjgResult *result = check->result;
	hjg_u64		begin = (hjg_u64) piece * result->page_pairs;
	hjg_u64		n = result->npairs - begin < result->page_pairs ? result->npairs - begin : result->page_pairs;
	const HjgPair *pairs = result->pages[piece];
	hjg_u64		sum = 0;

	(void) worker;
	for (hjg_u64 i = 0; i < n; i++)
		sum += mark_probe(check->first_row + pairs[i].probe_row) * mark_build(pairs[i].build_row);
	__atomic_fetch_add(&check->sum, sum, __ATOMIC_RELAXED);
}

hjg_u64
hjg_cpu_bench_checksum(const HjgResult *result, hjg_u64 first_row, HjgPool *pool)
{
	Check		check = {.result = result, .first_row = first_row};

	hjg_pool_run(pool, (int) ((result->npairs + result->page_pairs - 1) / result->page_pairs), check_page, &check);
	return check.sum;
}
