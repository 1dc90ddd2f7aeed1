/*
 * device_coupled_figures.c
 *	  hjoin_gpu_device --bench --device=NAME --figures[=NAME]: figures and tables of the papers
 *	  that the other tables of the benchmark do not have, as tables.
 *
 * After He, Lu and He (VLDB 2013), "000", and He, Zhang and He (VLDB 2015), "001".  Each point is the median of
 * some runs; the points of a figure run in turn, again and again, so that what else the machine does
 * meets all of them.
 */
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/hjg_coupled_bench.h"

HjgBenchPoint hjg_bench_points[HJG_BENCH_MAX_POINTS];

static int
compare_times(const void *a, const void *b)
{
	const double x = ((const HjgBenchTimes *) a)->total_ns;
	const double y = ((const HjgBenchTimes *) b)->total_ns;

	return (x > y) - (x < y);
}

bool
hjg_bench_run_points(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgBenchInput *in,
					 int npoints)
{
	/* the first turn warms memory up */
	for (int turn = -1; turn < options->nreps; turn++)
		for (int i = 0; i < npoints; i++)
		{
			HjgBenchTimes *times = &hjg_bench_points[i].turns[turn < 0 ? 0 : turn];

			memset(times, 0, sizeof(*times));
			if (!hjg_bench_run(env, &hjg_bench_points[i].config, runner, in, times))
				return false;
		}
	for (int i = 0; i < npoints; i++)
		qsort(hjg_bench_points[i].turns, (size_t) options->nreps, sizeof(HjgBenchTimes), compare_times);
	return true;
}

const HjgBenchTimes *
hjg_bench_median(const HjgBenchOptions *options, int point)
{
	return &hjg_bench_points[point].turns[options->nreps / 2];
}

/* ---- 000, figures 7 and 8 ---- */

#define NRATIOS 11

/* Predicted beside measured time of the phases of SHJ, over the CPU's share of all steps, or of all but the first. */
static bool
ratios_varied(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log, bool offload_hash)
{
	int			best = 0;
	int			best_predicted = 0;
	double		ns[2] = {0, 0};
	HjgBenchInput in;
	bool		good = hjg_bench_input_create(&in, options, log);

	for (int i = 0; i < NRATIOS; i++)
	{
		HjgCoupledConfig *config = &hjg_bench_points[i].config;

		*config = options->config;
		config->strategy = HJG_COUPLED_SHJ_PL;
		config->pipeline = HJG_PIPELINE_E;
		config->keep_ratios = true;
		for (int s = 0; s < HJG_STEP_COUNT; s++)
			config->fixed_ratios[s] = offload_hash && s == HJG_STEP_HASH ? 0 : i * 0.1;
	}
	good = good && hjg_bench_run_points(options, env, runner, &in, NRATIOS);
	printf("%9s %6s %10s %10s %7s %10s %10s %7s %7s\n", "rows", "ratio", "build ms", "predicted", "error", "probe ms", "predicted",
		   "error", "all");
	for (int i = 0; i < NRATIOS && good; i++)
	{
		const HjgBenchTimes *times = hjg_bench_median(options, i);
		const double build = times->build_ns;
		const double probe = times->total_ns - build;
		const double predicted = times->stats.predicted_build_ns + times->stats.predicted_probe_ns;

		printf("%9u %6.1f %10.2f %10.2f %+6.0f%% %10.2f %10.2f %+6.0f%% %+6.0f%%\n", in.nrows, i * 0.1, build / 1e6,
			   times->stats.predicted_build_ns / 1e6, (times->stats.predicted_build_ns / build - 1) * 100, probe / 1e6,
			   times->stats.predicted_probe_ns / 1e6, (times->stats.predicted_probe_ns / probe - 1) * 100,
			   (predicted / times->total_ns - 1) * 100);
		if (i == 0 || times->total_ns < ns[0])
			ns[0] = times->total_ns, best = i;
		if (i == 0 || predicted < ns[1])
			ns[1] = predicted, best_predicted = i;
	}
	if (good)
		printf("          least time at %.1f, predicted at %.1f, which took %+.0f %%\n", best * 0.1, best_predicted * 0.1,
			   (hjg_bench_median(options, best_predicted)->total_ns / ns[0] - 1) * 100);
	hjg_bench_input_destroy(&in);
	return good;
}

static bool
figure_7(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return ratios_varied(options, env, runner, log, false);
}

static bool
figure_8(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return ratios_varied(options, env, runner, log, true);
}

/* ---- 000, table 3 ---- */

static bool
table_3(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	HjgBenchInput in;
	bool		good = hjg_bench_input_create(&in, options, log);

	for (int i = 0; i < 2; i++)
	{
		hjg_bench_points[i].config = options->config;
		hjg_bench_points[i].config.pipeline = HJG_PIPELINE_E;
		hjg_bench_points[i].config.strategy = i ? HJG_COUPLED_PHJ_DD : HJG_COUPLED_PHJ_PL;
		hjg_bench_points[i].config.separate_tables = i > 0;
	}
	good = good && hjg_bench_run_points(options, env, runner, &in, 2);
	for (int i = 0; i < 2 && good; i++)
		printf("%9u %-46s %9.2f ms %6.2fx\n", in.nrows, i ? "one ratio a phase, a table a processor (PHJ-PL')" : "one ratio a step, one table (PHJ-PL)",
			   hjg_bench_median(options, i)->total_ns / 1e6, hjg_bench_median(options, i)->total_ns / hjg_bench_median(options, 0)->total_ns);
	hjg_bench_input_destroy(&in);
	return good;
}

/* ---- 000, figure 19 ---- */

/* Buffer for one time the rows: what the table and the arrays of partitioning take a row, and some for the workers. */
#define BUFFER_ROW_BYTES 48
#define BUFFER_MORE_BYTES (1024 * 1024)
#define NGROWTHS 4

/* Build sides of 1, 2, 4 and 8 times what fits a small buffer. */
static bool
figure_19(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	double		row_ns[2] = {0, 0};
	bool		good = true;

	printf("%-8s %9s %6s %6s %9s %9s %9s %9s %9s %8s %10s\n", "", "rows", "size", "parts", "ms", "copy ms", "part ms", "build ms",
		   "probe ms", "ns a row", "over 1x");
	for (int growth = 0; growth < NGROWTHS && good; growth++)
	{
		HjgBenchInput in;

		good = hjg_bench_input_create(&in, options, log + growth);
		for (int i = 0; i < 2; i++)
		{
			hjg_bench_points[i].config = options->config;
			hjg_bench_points[i].config.pipeline = HJG_PIPELINE_E;
			hjg_bench_points[i].config.strategy = i ? HJG_COUPLED_PHJ_PL : HJG_COUPLED_SHJ_PL;
			hjg_bench_points[i].config.buffer_bytes = ((size_t) BUFFER_ROW_BYTES << log) + BUFFER_MORE_BYTES;
		}
		good = good && hjg_bench_run_points(options, env, runner, &in, 2);
		for (int i = 0; i < 2 && good; i++)
		{
			const HjgBenchTimes *times = hjg_bench_median(options, i);
			const double ns = times->total_ns / in.nrows;

			if (growth == 0)
				row_ns[i] = ns;
			printf("%-8s %9u %5dx %6d %9.2f %9.2f %9.2f %9.2f %9.2f %8.2f %9.2fx%s\n", hjg_coupled_strategy_name((int) hjg_bench_points[i].config.strategy),
				   in.nrows, 1 << growth, times->stats.nparts, times->total_ns / 1e6, (double) times->stats.copy_ns / 1e6,
				   (double) times->stats.join.partition_ns / 1e6, (double) times->stats.join.build_ns / 1e6,
				   (double) times->stats.join.probe_ns / 1e6, ns, ns / row_ns[i], times->stats.gave_up ? "  (by the cpu engine)" : "");
		}
		hjg_bench_input_destroy(&in);
	}
	return good;
}

/* ---- all of them ---- */

static const HjgBenchFigure figures[] = {
	{"000, figure 7: SHJ, one ratio for all steps", "predicted a little below measured; the best ratio found", NULL, figure_7, false},
	{"000, figure 8: SHJ, b1 and p1 on the device, one ratio for the other steps", "the same", NULL, figure_8, false},
	{"000, table 3: fine and coarse steps", "1.6 s and 2.2 s: 1.38x", NULL, table_3, false},
	{"000, figure 19: larger than the buffer", "linear; copies 4 % of the time; PHJ-PL up to 9 % faster", NULL, figure_19, true},
	{NULL}
};

static bool
run_figures(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgBenchFigure *figure)
{
	bool		good = true;

	for (; figure->name != NULL && good; figure++)
	{
		if (strstr(figure->name, options->figures) == NULL)
			continue;
		printf("%s\n  there: %s\n", figure->name, figure->claim);
		for (int log = options->min_log; log <= (figure->one_size ? options->min_log : options->max_log) && good; log += 2)
			good = figure->run(options, env, runner, log);
		if (figure->reason != NULL)
			printf("  why it may differ: %s\n", figure->reason);
		fflush(stdout);
	}
	return good;
}

bool
hjg_bench_figures(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner)
{
	return run_figures(options, env, runner, figures) && run_figures(options, env, runner, hjg_bench_incache_figures);
}
