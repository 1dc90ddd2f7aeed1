/*
 * lab_coupled_column.c
 *	  The input of a selection (lab_coupled_selection.c): columns, their packed form, and the ranges of values that are selected.
 *
 * The rows that are expected are counted, and their products summed up, by a plain loop over the values.
 */
#define _GNU_SOURCE

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "model/hjg_measured.h"

#define SELECTED_PART 0.01		/* of the rows */
#define NRATIOS 9
#define MEASURED_RUNS 5

/* Make the values of a column. */
static void
draw_values(hjg_u32 *values, hjg_u32 nrows, HjgSelectColumn column)
{
	const int	bits = hjg_bench_key_width * 2;
	hjg_u64		state = 17;
	hjg_u32		gap = 255;

	while ((hjg_u64) gap * nrows > 0xFFFFFFFFu)
		gap /= 2;
	for (hjg_u32 i = 0; i < nrows; i++)
	{
		const hjg_u32 drawn = (hjg_u32) (hjg_bench_random(&state) >> 32);

		values[i] = column == HJG_SELECT_RANDOM ? drawn >> (32 - bits) : (i > 0 ? values[i - 1] : 0) + drawn % (gap + 1);
	}
}

static int
compare_drawn(const void *a, const void *b)
{
	const hjg_u32 x = *(const hjg_u32 *) a;
	const hjg_u32 y = *(const hjg_u32 *) b;

	return (x > y) - (x < y);
}

/* Find the rows that a predicate selects, by a plain loop. */
static HjgBenchSelect
expect_rows(const HjgSelect *predicate, const hjg_u32 *values)
{
	const hjg_u32 n = predicate->ncolumns;
	HjgBenchSelect select = {.predicate = *predicate};

	for (hjg_u32 i = 0; i < predicate->nrows; i++)
	{
		const hjg_u32 *row = values + (size_t) i / HJG_PACK_BLOCK_ROWS * HJG_PACK_BLOCK_ROWS * n + i % HJG_PACK_BLOCK_ROWS;
		bool		taken = true;

		for (hjg_u32 c = 0; c < n; c++)
			taken = taken && row[c * HJG_PACK_BLOCK_ROWS] >= predicate->from[c] && row[c * HJG_PACK_BLOCK_ROWS] - predicate->from[c] < predicate->span[c];
		if (!taken)
			continue;
		select.nselected++;
		select.rows_sum += hjg_mix64(HJG_HASH_NO_SEED, i);
		if (n > 1)
			select.products_sum += (hjg_u64) row[(n - 2) * HJG_PACK_BLOCK_ROWS] * row[(n - 1) * HJG_PACK_BLOCK_ROWS];
	}
	return select;
}

/* Choose the range that has about a part of the values, from the middle one on. */
static bool
choose_range(HjgSelect *predicate, const hjg_u32 *values, hjg_u32 nrows, double part)
{
	const hjg_u32 first = (hjg_u32) (nrows * (1 - part) / 2);
	const hjg_u32 last = first + (hjg_u32) (nrows * part);
	hjg_u32    *sorted = malloc(nrows * sizeof(hjg_u32));

	if (sorted == NULL)
		return false;
	memcpy(sorted, values, nrows * sizeof(hjg_u32));
	qsort(sorted, nrows, sizeof(hjg_u32), compare_drawn);
	/* a value that many rows share is taken as a whole */
	*predicate = (HjgSelect) {.from = {sorted[first]}, .span = {sorted[last] > sorted[first] ? sorted[last] - sorted[first] : 1}, .nrows = nrows,
		.ncolumns = 1};
	free(sorted);
	return true;
}

/* Find the CPU's share with which E is the fastest, on the keys, or on packed ones that are read in place. */
static bool
search_ratio(HjgBenchInput *in, const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner)
{
	HjgCoupledConfig config = options->config;
	HjgBenchInput of = *in;
	double		ns[NRATIOS][MEASURED_RUNS];
	double		least_ns = HUGE_VAL;
	int			order[NRATIOS];

	if (in->packed_room > 0 && !hjg_select_reads_in_place(in->packed_build.keys))
		of.packed_room = 0;
	config.pipeline = HJG_PIPELINE_E;
	config.keep_ratios = true;
	for (int run = -1; run < MEASURED_RUNS; run++)
	{
		hjg_lab_order(order, NRATIOS);
		for (int k = 0; k < NRATIOS; k++)
		{
			HjgBenchTimes times = {.total_ns = 0};

			config.fixed_ratios[HJG_STEP_HASH] = order[k] / (double) (NRATIOS - 1);
			if (!hjg_select_run(env, &config, runner, &of, &times))
				return false;
			ns[order[k]][run < 0 ? 0 : run] = times.total_ns;
		}
	}
	for (int i = 0; i < NRATIOS; i++)
	{
		const double median = hjg_median(ns[i], MEASURED_RUNS);

		if (median < least_ns)
			in->select.ratio = i / (double) (NRATIOS - 1);
		least_ns = median < least_ns ? median : least_ns;
	}
	in->select.has_ratio = true;
	return true;
}

size_t
hjg_select_values_of(hjg_u32 nrows, hjg_u32 ncolumns)
{
	return ((size_t) nrows + HJG_PACK_BLOCK_ROWS - 1) / HJG_PACK_BLOCK_ROWS * HJG_PACK_BLOCK_ROWS * ncolumns;
}

bool
hjg_select_rows(HjgBenchInput *in, const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgSelect *predicate,
				const hjg_u32 *values)
{
	const hjg_u32 nvalues = predicate->ncolumns > 1 ? (hjg_u32) hjg_select_values_of(predicate->nrows, predicate->ncolumns) : predicate->nrows;

	if (!hjg_bench_input_column(in, options, values, nvalues))
		return false;
	in->select = expect_rows(predicate, values);
	return options->config.costs == NULL || search_ratio(in, options, env, runner);
}

bool
hjg_select_create(HjgBenchInput *in, const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log,
				  HjgSelectColumn column)
{
	const hjg_u32 nrows = 1u << log;
	HjgSelect	predicate;
	hjg_u32    *values = malloc(nrows * sizeof(hjg_u32));
	bool		good = values != NULL;

	*in = (HjgBenchInput) {.nrows = 0};
	if (good)
	{
		draw_values(values, nrows, column);
		good = choose_range(&predicate, values, nrows, options->selectivity < 1 ? options->selectivity : SELECTED_PART) &&
			hjg_select_rows(in, options, env, runner, &predicate, values);
	}
	free(values);
	return good;
}

void
hjg_select_explain(const HjgBenchInput *in, const HjgBenchOptions *options)
{
	const HjgCoupledConfig *config = &options->config;
	const struct
	{
		const char *name;
		bool		is_set;
	}			ignored[] = {
		{"--skew", options->skew > 0}, {"--grouping", config->grouping}, {"--separate", config->separate_tables},
		{"--buffer", config->buffer_bytes > 0}, {"--bus-gbs", config->bus_bytes_per_ns > 0}
	};

	printf("  selection: %u of %u rows, %.1f %%", in->select.nselected, in->select.predicate.nrows,
		   100.0 * in->select.nselected / in->select.predicate.nrows);
	if (in->select.has_ratio)
		printf("; the CPU's share in E is %.3f", in->select.ratio);
	printf("\n");
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		if (ignored[i].is_set)
			printf("  %s is ignored: a selection has nothing of the kind\n", ignored[i].name);
}
