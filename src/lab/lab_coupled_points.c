/*
 * lab_coupled_points.c
 *	  The points of a figure: each is the median of some runs.
 *
 * In each turn they run in another random order, so that other load on the machine, and what one leaves
 * behind for the next, affects all of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "model/hjg_measured.h"

HjgBenchPoint hjg_bench_points[HJG_BENCH_MAX_POINTS];

/* The spread of the turns of each point of a figure: the most less the least, over the median. */
#define MAX_SPREADS 512

static double spreads[MAX_SPREADS];
static int	nspreads;

static int
compare_points(const void *a, const void *b)
{
	const double x = ((const HjgBenchTimes *) a)->total_ns;
	const double y = ((const HjgBenchTimes *) b)->total_ns;

	return (x > y) - (x < y);
}

bool
hjg_bench_run_points(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgBenchInput *in,
					 int npoints)
{
	int			order[HJG_BENCH_MAX_POINTS];

	/* the first turn warms up memory */
	for (int turn = -1; turn < options->nreps; turn++)
	{
		hjg_lab_order(order, npoints);
		for (int k = 0; k < npoints; k++)
		{
			HjgBenchPoint *point = &hjg_bench_points[order[k]];
			HjgBenchTimes *times = &point->turns[turn < 0 ? 0 : turn];

			memset(times, 0, sizeof(*times));
			if (!(in->select.predicate.nrows > 0 ? hjg_select_run(env, &point->config, runner, in, times) :
				  hjg_bench_run(env, &point->config, runner, in, times)))
				return false;
		}
	}
	for (int i = 0; i < npoints; i++)
	{
		HjgBenchTimes *turns = hjg_bench_points[i].turns;

		qsort(turns, (size_t) options->nreps, sizeof(HjgBenchTimes), compare_points);
		if (nspreads < MAX_SPREADS)
			spreads[nspreads++] = (turns[options->nreps - 1].total_ns - turns[0].total_ns) / turns[options->nreps / 2].total_ns;
	}
	return true;
}

void
hjg_bench_print_spread(const HjgBenchOptions *options)
{
	if (nspreads > 0)
		printf("  spread of %d turns, least to most: %.0f %% of the median in the middle, %.0f %% at most\n", options->nreps,
			   hjg_percentile(spreads, nspreads, 0.5) * 100, hjg_percentile(spreads, nspreads, 1) * 100);
	nspreads = 0;
}

const HjgBenchTimes *
hjg_bench_median(const HjgBenchOptions *options, int point)
{
	return &hjg_bench_points[point].turns[options->nreps / 2];
}

HjgCoupledConfig
hjg_bench_config(const HjgBenchOptions *options, HjgCoupledStrategy strategy)
{
	HjgCoupledConfig config = options->config;

	config.strategy = strategy;
	config.pipeline = HJG_PIPELINE_E;
	return config;
}

HjgCoupledConfig
hjg_bench_config_alone(const HjgBenchOptions *options, HjgCoupledStrategy strategy, int processor)
{
	HjgCoupledConfig config = hjg_bench_config(options, strategy);

	config.keep_ratios = true;
	for (int i = 0; i < HJG_STEP_COUNT; i++)
		config.fixed_ratios[i] = processor == HJG_ON_CPU;
	return config;
}
