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
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "lab/hjg_lab_plan.h"
#include "model/hjg_measured.h"

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

/* A plan, and what it was measured to take. */
#define MAX_PLANS 8
#define MAX_TURNS 15

typedef struct PlanTimes
{
	const char *label;
	HjgPackPlan plan;
	size_t		bytes;
	double		ns[MAX_TURNS];	/* a row, of whole blocks */
	double		runs_ns[MAX_TURNS]; /* of their runs alone */
} PlanTimes;

/* Unpack all blocks once, or their runs alone; the time a row, HUGE_VAL if one is wrong. */
static double
unpack_ns(const Column *column, const HjgPackHeader *header, bool runs_alone)
{
	const hjg_u64 started = hjg_now_ns();

	for (hjg_u32 ix = 0; ix < hjg_packed_nblocks(header); ix++)
	{
		hjg_u32		nruns;

		if ((runs_alone ? hjg_unpack_runs(header, 0, ix, column->unpacked, column->ends, &nruns) :
			 hjg_unpack_block(header, ix, column->unpacked + (size_t) ix * HJG_PACK_BLOCK_ROWS, column->scratch)) != HJG_OK)
			return HUGE_VAL;
	}
	return (double) (hjg_now_ns() - started) / NROWS;
}

/* Pack by the plan, and unpack once. */
static bool
run_plan(const HjgEnv *env, const Column *column, PlanTimes *plan, int turn)
{
	const HjgPackHeader *header;

	if (hjg_pack(env, 4, &plan->plan, column->keys, NROWS, column->packed, &plan->bytes) != HJG_OK ||
		hjg_packed_open(column->packed, plan->bytes, &header) != HJG_OK)
		return false;
	plan->ns[turn] = unpack_ns(column, header, false);
	if (memcmp(column->unpacked, column->keys, NROWS * sizeof(hjg_u32)) != 0)
		return false;
	plan->runs_ns[turn] = plan->plan.runs ? unpack_ns(column, header, true) : 0;
	return true;
}

static void
print_plan(PlanTimes *plan, int nturns)
{
	char		text[64];

	printf("%-16s %-24s %8.2f %% %12.2f", plan->label, hjg_lab_plan_text(&plan->plan, text, sizeof(text)),
		   25.0 * (double) plan->bytes / NROWS, hjg_median(plan->ns, nturns));
	if (plan->plan.runs)
		printf(" %12.3f", hjg_median(plan->runs_ns, nturns));
	printf("\n");
}

bool
hjg_bench_plans(const HjgBenchOptions *options)
{
	static PlanTimes plans[MAX_PLANS] = {
		{.label = "A", .plan = {.runs = 1}}, {.label = "B", .plan = {.leaf = HJG_PACK_NS}},
		{.label = "C", .plan = {.runs = 1, .lengths_leaf = HJG_PACK_NS}},
		{.label = "D", .plan = {.runs = 1, .delta = 1, .leaf = HJG_PACK_NS, .lengths_leaf = HJG_PACK_NS}},
		{.label = "E", .plan = {.delta = 1, .leaf = HJG_PACK_NS}},
		{.label = "fewest bytes"}, {.label = "least time"}
	};
	const int	nplans = 7;
	int			order[MAX_PLANS];
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
	good = good && hjg_pack_collect(&env, 4, column.keys, NROWS, 0, &stats) == HJG_OK && hjg_pack_calibrate(&env, &costs) == HJG_OK;
	if (good)
	{
		plans[nplans - 2].plan = hjg_pack_choose(&stats, NULL, 1, 1);
		plans[nplans - 1].plan = hjg_pack_choose(&stats, &costs, MEMORY_RATE, 1);
	}
	/* the first turn warms up memory */
	for (int turn = -1; turn < options->nreps && good; turn++)
	{
		hjg_lab_order(order, nplans);
		for (int i = 0; i < nplans && good; i++)
			good = run_plan(&env, &column, &plans[order[i]], turn < 0 ? 0 : turn);
	}
	for (int i = 0; i < nplans && good; i++)
		print_plan(&plans[i], options->nreps);
	hjg_bench_free(NULL, column.keys, key_bytes);
	hjg_bench_free(NULL, column.unpacked, key_bytes);
	hjg_bench_free(NULL, column.packed, packed_bytes);
	free(column.scratch);
	free(column.ends);
	return good;
}
