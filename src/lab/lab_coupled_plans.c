/*
 * lab_coupled_plans.c
 *	  hjoin_gpu_lab NAME --plans: compression plans of He, Zhang and He, table 3, on one thread: bytes
 *	  saved, and times of whole and partial decompression.
 *
 * The column is sorted and has runs, as in the paper.  Below are the planner's choices for it, for the
 * fewest bytes and for the least time at the speed of memory.
 */
#define _GNU_SOURCE

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/hjg_coupled_bench.h"
#include "lab/hjg_lab_plan.h"

#define NROWS (4u << 20)
#define RUN_ROWS 40

/* Approximate bytes a nanosecond that one thread reads from memory. */
#define MEMORY_RATE 8.0

typedef struct Column
{
	hjg_u32    *keys;
	hjg_u32    *unpacked;
	hjg_u8	   *packed;
	void	   *scratch;
	hjg_u32    *ends;
} Column;

/* Find the least time a row in nreps runs, for whole blocks or for their runs alone. */
static double
unpack_ns(const Column *column, const HjgPackHeader *header, bool runs_alone, int nreps)
{
	double		ns = HUGE_VAL;

	for (int rep = 0; rep < nreps; rep++)
	{
		const hjg_u64 started = hjg_now_ns();

		for (hjg_u32 ix = 0; ix < hjg_packed_nblocks(header); ix++)
		{
			hjg_u32		nruns;

			if ((runs_alone ? hjg_unpack_runs(header, 0, ix, column->unpacked, column->ends, &nruns) :
				 hjg_unpack_block(header, ix, column->unpacked + (size_t) ix * HJG_PACK_BLOCK_ROWS, column->scratch)) != HJG_OK)
				return HUGE_VAL;
		}
		ns = fmin(ns, (double) (hjg_now_ns() - started) / NROWS);
	}
	return ns;
}

static bool
run_plan(const HjgEnv *env, const Column *column, const char *label, const HjgPackPlan *plan, int nreps)
{
	const HjgPackHeader *header;
	size_t		bytes = 0;
	char		text[64];

	if (hjg_pack(env, 4, plan, column->keys, NROWS, column->packed, &bytes) != HJG_OK ||
		hjg_packed_open(column->packed, bytes, &header) != HJG_OK)
		return false;
	printf("%-16s %-24s %8.2f %% %12.2f", label, hjg_lab_plan_text(plan, text, sizeof(text)), 25.0 * (double) bytes / NROWS,
		   unpack_ns(column, header, false, nreps));
	if (plan->runs)
		printf(" %12.3f", unpack_ns(column, header, true, nreps));
	printf("\n");
	return true;
}

bool
hjg_bench_plans(const HjgBenchOptions *options)
{
	static const HjgPackPlan plans[] = {
		{.runs = 1}, {.leaf = HJG_PACK_NS}, {.runs = 1, .lengths_leaf = HJG_PACK_NS},
		{.runs = 1, .delta = 1, .leaf = HJG_PACK_NS, .lengths_leaf = HJG_PACK_NS}, {.delta = 1, .leaf = HJG_PACK_NS}
	};
	static const char *const labels[] = {"A", "B", "C", "D", "E"};
	const HjgEnv env = {.alloc = hjg_bench_alloc, .free = hjg_bench_free};
	const size_t key_bytes = NROWS * sizeof(hjg_u32);
	const size_t packed_bytes = hjg_pack_bound(4, NROWS);
	Column		column = {.keys = hjg_bench_alloc(NULL, key_bytes), .unpacked = hjg_bench_alloc(NULL, key_bytes),
		.packed = hjg_bench_alloc(NULL, packed_bytes), .scratch = malloc(HJG_UNPACK_SCRATCH_BYTES),
		.ends = malloc(HJG_PACK_BLOCK_ROWS * sizeof(hjg_u32))};
	bool		good = column.keys != NULL && column.unpacked != NULL && column.packed != NULL && column.scratch != NULL &&
		column.ends != NULL;
	hjg_u64		random = 11;
	HjgPackStats stats;
	HjgPackCosts costs;

	for (hjg_u32 i = 0; good && i < NROWS; i++)
		column.keys[i] = i == 0 ? 0x40000000u :
			column.keys[i - 1] + (hjg_bench_random(&random) % RUN_ROWS == 0 ? 1 + (hjg_u32) (hjg_bench_random(&random) % 50) : 0);
	printf("%-16s %-24s %10s %12s %12s\n", "", "plan", "size", "ns a row", "runs alone");
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]) && good; i++)
		good = run_plan(&env, &column, labels[i], &plans[i], options->nreps);
	good = good && hjg_pack_collect(&env, 4, column.keys, NROWS, 0, &stats) == HJG_OK && hjg_pack_calibrate(&env, &costs) == HJG_OK;
	if (good)
	{
		const HjgPackPlan least = hjg_pack_choose(&stats, NULL, 1, 1);
		const HjgPackPlan fastest = hjg_pack_choose(&stats, &costs, MEMORY_RATE, 1);

		good = run_plan(&env, &column, "fewest bytes", &least, options->nreps) &&
			run_plan(&env, &column, "least time", &fastest, options->nreps);
	}
	hjg_bench_free(NULL, column.keys, key_bytes);
	hjg_bench_free(NULL, column.unpacked, key_bytes);
	hjg_bench_free(NULL, column.packed, packed_bytes);
	free(column.scratch);
	free(column.ends);
	return good;
}
