/*
 * lab_coupled_points.c
 *	  The points of a figure: each is the median of some runs.
 *
 * In each turn they run in another random order, so that other load on the machine, and what one leaves
 * behind for the next, affects all of them.
 */
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"

HjgBenchPoint hjg_bench_points[HJG_BENCH_MAX_POINTS];

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
			if (!hjg_bench_run(env, &point->config, runner, in, times))
				return false;
		}
	}
	for (int i = 0; i < npoints; i++)
		qsort(hjg_bench_points[i].turns, (size_t) options->nreps, sizeof(HjgBenchTimes), compare_points);
	return true;
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
