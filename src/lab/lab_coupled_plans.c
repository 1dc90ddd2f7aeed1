/*
 * lab_coupled_plans.c
 *	  hjoin_gpu_lab NAME --plans: compression plans of He, Zhang and He, table 3, on one thread: bytes saved, and times of unpacking and
 *	  of a selection.
 *
 * The column is sorted and has runs, of the mean length by which RLE packs keys of 8 bytes as well as there.  The selection writes the
 * numbers of the rows in a range of values, one in a hundred; where a plan has runs it compares these, otherwise the values of a block
 * that it has unpacked.  Below are the planner's choices for the column, for the fewest bytes and for the least time at the speed of
 * memory.
 */
#define _GNU_SOURCE

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "lab/hjg_lab_plan.h"
#include "model/hjg_measured.h"

#define KEY_BYTES 8
#define NROWS (16u << 20)
#define RUN_ROWS 45
#define MOST_GAP 50000			/* between the values of neighbouring runs */
#define FIRST_VALUE 0x4000000000000000u

/* Approximate bytes a nanosecond that one thread reads from memory. */
#define MEMORY_RATE 8.0

typedef struct Column
{
	hjg_u64    *keys;
	hjg_u64    *unpacked;
	hjg_u8	   *packed;
	void	   *scratch;
	hjg_u32    *ends;			/* of a block's runs */
	hjg_u32    *selected;		/* row numbers */
	hjg_u64		from;			/* the selection's range of values */
	hjg_u64		to;
} Column;

/* A plan, and what it was measured to take. */
#define MAX_PLANS 8
#define MAX_TURNS 15

typedef struct PlanTimes
{
	const char *label;
	HjgPackPlan plan;
	bool		plain;			/* not packed */
	size_t		bytes;
	double		ns[MAX_TURNS];	/* a row, of whole blocks */
	double		select_ns[MAX_TURNS];
} PlanTimes;

/* Unpack all blocks once; the time a row, HUGE_VAL if one is damaged. */
static double
unpack_ns(const Column *column, const HjgPackHeader *header)
{
	const hjg_u64 started = hjg_now_ns();

	for (hjg_u32 ix = 0; ix < hjg_packed_nblocks(header); ix++)
		if (hjg_unpack_block(header, ix, column->unpacked + (size_t) ix * HJG_PACK_BLOCK_ROWS, column->scratch) != HJG_OK)
			return HUGE_VAL;
	return (double) (hjg_now_ns() - started) / NROWS;
}

/* Select from values, from row first on, behind the rows selected; returns the number of all. */
static hjg_u32
select_values(const Column *column, const hjg_u64 *values, hjg_u32 first, hjg_u32 nrows, hjg_u32 nselected)
{
	return nselected + hjg_select_values(KEY_BYTES, (const hjg_u8 *) values, nrows, first, column->from, column->to - column->from,
										 column->selected + nselected);
}

static hjg_u32
select_runs(const Column *column, const hjg_u64 *values, hjg_u32 first, hjg_u32 nruns, hjg_u32 nselected)
{
	hjg_u32		row = 0;

	for (hjg_u32 i = 0; i < nruns; row = column->ends[i++])
		if (values[i] - column->from < column->to - column->from)
			while (row < column->ends[i])
				column->selected[nselected++] = first + row++;
	return nselected;
}

/* Select from a packed column, or from the keys where header is NULL; the time a row, HUGE_VAL if a result is wrong. */
static double
select_ns(const Column *column, const HjgPackHeader *header, bool runs, hjg_u32 expected)
{
	const hjg_u64 started = hjg_now_ns();
	hjg_u32		nselected = 0;
	hjg_u64		taken;

	if (header == NULL)
		nselected = select_values(column, column->keys, 0, NROWS, 0);
	for (hjg_u32 ix = 0; header != NULL && ix < hjg_packed_nblocks(header); ix++)
	{
		const hjg_u32 first = ix * HJG_PACK_BLOCK_ROWS;
		const hjg_u32 nrows = NROWS - first < HJG_PACK_BLOCK_ROWS ? NROWS - first : HJG_PACK_BLOCK_ROWS;
		hjg_u32		nruns;

		/* one block's memory, which stays in the cache */
		if ((runs ? hjg_unpack_runs(header, 0, ix, column->unpacked, column->ends, &nruns) :
			 hjg_unpack_block(header, ix, column->unpacked, column->scratch)) != HJG_OK)
			return HUGE_VAL;
		nselected = runs ? select_runs(column, column->unpacked, first, nruns, nselected) :
			select_values(column, column->unpacked, first, nrows, nselected);
	}
	taken = hjg_now_ns() - started;
	/* the column is sorted, so the rows of a range are neighbours */
	if (nselected != expected || column->selected[nselected - 1] - column->selected[0] != nselected - 1 ||
		column->keys[column->selected[0]] != column->from)
		return HUGE_VAL;
	return (double) taken / NROWS;
}

/* Pack by the plan, unpack and select once. */
static bool
run_plan(const HjgEnv *env, const Column *column, PlanTimes *plan, hjg_u32 expected, int turn)
{
	const HjgPackHeader *header;

	if (plan->plain)
	{
		plan->bytes = (size_t) NROWS * KEY_BYTES;
		plan->select_ns[turn] = select_ns(column, NULL, false, expected);
		return plan->select_ns[turn] != HUGE_VAL;
	}
	if (hjg_pack(env, KEY_BYTES, &plan->plan, column->keys, NROWS, column->packed, &plan->bytes) != HJG_OK ||
		hjg_packed_open(column->packed, plan->bytes, &header) != HJG_OK)
		return false;
	plan->ns[turn] = unpack_ns(column, header);
	if (memcmp(column->unpacked, column->keys, (size_t) NROWS * KEY_BYTES) != 0)
		return false;
	plan->select_ns[turn] = select_ns(column, header, plan->plan.runs, expected);
	return plan->select_ns[turn] != HUGE_VAL;
}

static void
print_plan(PlanTimes *plan, int nturns, double plain_ns)
{
	char		text[64];
	const double ns = hjg_median(plan->select_ns, nturns);

	printf("%-16s %-24s %8.2f %% %12.2f %12.2f %8.2f\n", plan->label, plan->plain ? "" : hjg_lab_plan_text(&plan->plan, text, sizeof(text)),
		   100.0 / KEY_BYTES * (double) plan->bytes / NROWS, plan->plain ? 0 : hjg_median(plan->ns, nturns), ns, ns / plain_ns);
}

/* Make the column, and choose the range of the selection: the values of about a hundredth of the rows; returns their number. */
static hjg_u32
make_column(Column *column)
{
	hjg_u64		random = 11;
	hjg_u32		begin = NROWS / 2;
	hjg_u32		end;

	for (hjg_u32 i = 0; i < NROWS; i++)
		column->keys[i] = i == 0 ? FIRST_VALUE :
			column->keys[i - 1] + (hjg_bench_random(&random) % RUN_ROWS == 0 ? 1 + hjg_bench_random(&random) % MOST_GAP : 0);
	while (column->keys[begin] == column->keys[begin - 1])
		begin++;
	end = begin + NROWS / 100;
	while (column->keys[end] == column->keys[end - 1])
		end++;
	column->from = column->keys[begin];
	column->to = column->keys[end];
	return end - begin;
}

bool
hjg_bench_plans(const HjgBenchOptions *options)
{
	static PlanTimes plans[MAX_PLANS] = {
		{.label = "none", .plain = true},
		{.label = "A", .plan = {.runs = 1}}, {.label = "B", .plan = {.leaf = HJG_PACK_NS}},
		{.label = "C", .plan = {.runs = 1, .lengths_leaf = HJG_PACK_NS}},
		{.label = "D", .plan = {.runs = 1, .delta = 1, .leaf = HJG_PACK_NS, .lengths_leaf = HJG_PACK_NS}},
		{.label = "E", .plan = {.delta = 1, .leaf = HJG_PACK_NS}},
		{.label = "fewest bytes"}, {.label = "least time"}
	};
	int			order[MAX_PLANS];
	const HjgEnv env = {.alloc = hjg_bench_alloc, .free = hjg_bench_free};
	const size_t key_bytes = (size_t) NROWS * KEY_BYTES;
	const size_t packed_bytes = hjg_pack_bound(KEY_BYTES, NROWS);
	Column		column = {.keys = hjg_bench_alloc(NULL, key_bytes), .unpacked = hjg_bench_alloc(NULL, key_bytes),
		.packed = hjg_bench_alloc(NULL, packed_bytes), .scratch = malloc(HJG_UNPACK_SCRATCH_BYTES),
		.ends = malloc(HJG_PACK_BLOCK_ROWS * sizeof(hjg_u32)), .selected = malloc(((size_t) NROWS + 1) * sizeof(hjg_u32))};
	bool		good = column.keys != NULL && column.unpacked != NULL && column.packed != NULL && column.scratch != NULL &&
		column.ends != NULL && column.selected != NULL;
	const hjg_u32 expected = good ? make_column(&column) : 0;
	HjgPackStats stats;
	HjgPackCosts costs;

	printf("%-16s %-24s %10s %12s %12s %8s\n", "", "plan", "size", "unpack, ns", "select, ns", "over none");
	good = good && hjg_pack_collect(&env, KEY_BYTES, column.keys, NROWS, 0, &stats) == HJG_OK && hjg_pack_calibrate(&env, &costs) == HJG_OK;
	if (good)
	{
		plans[MAX_PLANS - 2].plan = hjg_pack_choose(&stats, NULL, 1, 1);
		plans[MAX_PLANS - 1].plan = hjg_pack_choose(&stats, &costs, MEMORY_RATE, 1);
	}
	/* the first turn warms up memory */
	for (int turn = -1; turn < options->nreps && good; turn++)
	{
		hjg_lab_order(order, MAX_PLANS);
		for (int i = 0; i < MAX_PLANS && good; i++)
			good = run_plan(&env, &column, &plans[order[i]], expected, turn < 0 ? 0 : turn);
	}
	for (int i = 0; i < MAX_PLANS && good; i++)
		print_plan(&plans[i], options->nreps, hjg_median(plans[0].select_ns, options->nreps));
	if (!good)
		printf("WRONG, or out of memory\n");
	hjg_bench_free(NULL, column.keys, key_bytes);
	hjg_bench_free(NULL, column.unpacked, key_bytes);
	hjg_bench_free(NULL, column.packed, packed_bytes);
	free(column.scratch);
	free(column.ends);
	free(column.selected);
	return good;
}
