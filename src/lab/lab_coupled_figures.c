/*
 * lab_coupled_figures.c
 *	  hjoin_gpu_lab NAME --figures[=NAME]: figures and tables of the papers, as tables.
 *
 * After He, Lu and He (VLDB 2013), "000", and He, Zhang and He (VLDB 2015), "001".  This file has those of
 * steps, ratios and buffers of "000"; lab_coupled_coarse.c, lab_coupled_tradeoffs.c, lab_coupled_further.c and
 * lab_coupled_incache.c have the others.
 */
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"

/* ---- 000, figure 3 ---- */

/* The emulated bus of this figure. */
#define BUS_LATENCY_NS 15000
#define BUS_BYTES_PER_NS 3

/*
 * Run on one chip with one table; and over a bus, where DD has a table for each processor, which are
 * merged.
 */
static bool
figure_3(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	static const HjgCoupledStrategy strategies[] = {HJG_COUPLED_SHJ_DD, HJG_COUPLED_SHJ_OL, HJG_COUPLED_PHJ_DD, HJG_COUPLED_PHJ_OL};
	const int	n = (int) (sizeof(strategies) / sizeof(strategies[0]));
	HjgBenchInput in;
	bool		good = hjg_bench_input_create(&in, options, log);

	for (int i = 0; i < 2 * n; i++)
	{
		HjgCoupledConfig *config = &hjg_bench_points[i].config;

		*config = hjg_bench_config(options, strategies[i / 2]);
		if (i % 2 == 0)
			continue;
		config->bus_latency_ns = BUS_LATENCY_NS;
		config->bus_bytes_per_ns = BUS_BYTES_PER_NS;
		/* DD is the first of each pair */
		config->separate_tables = i / 2 % 2 == 0;
	}
	good = good && hjg_bench_run_points(options, env, runner, &in, 2 * n);
	for (int i = 0; i < 2 * n && good; i++)
	{
		const HjgBenchTimes *times = hjg_bench_median(options, i);

		printf("  %-8s %-8s %9u %9.2f ms: part %8.2f, build %8.2f, probe %8.2f; bus %7.2f ms, %4.1f %%\n",
			   hjg_strategy_name((int) strategies[i / 2]), i % 2 ? "bus" : "one chip", in.nrows, times->total_ns / 1e6,
			   (double) times->stats.join.partition_ns / 1e6, (double) times->stats.join.build_ns / 1e6,
			   (double) times->stats.join.probe_ns / 1e6, (double) times->stats.transfer_ns / 1e6,
			   100 * (double) times->stats.transfer_ns / times->total_ns);
	}
	hjg_bench_input_destroy(&in);
	return good;
}

/* ---- 000, figures 4, 5, 6, 17 and 18 ---- */

static bool
figure_4(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	static const HjgStep steps[] = {HJG_STEP_HASH, HJG_STEP_N2, HJG_STEP_N3, HJG_STEP_NUMBER, HJG_STEP_B2, HJG_STEP_B3, HJG_STEP_B4,
	HJG_STEP_P2, HJG_STEP_P3, HJG_STEP_P4};
	const double nrows = (double) (1u << log);

	if (options->config.costs == NULL)
	{
		printf("  nothing is known without unit costs\n");
		return true;
	}
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
	{
		const double cpu_ns = hjg_step_cost_ns(options->config.costs, options->config.costs->alone_ns[1], HJG_ON_CPU, steps[i], nrows);
		const double device_ns = hjg_step_cost_ns(options->config.costs, options->config.costs->alone_ns[1], HJG_ON_DEVICE, steps[i], nrows);

		printf("  %-8s %9.0f  CPU %7.2f ns a row, device %7.2f: the device is %5.2f times as fast\n", hjg_bench_step_names[steps[i]],
			   nrows, cpu_ns, device_ns, cpu_ns / device_ns);
	}
	return true;
}

/* Print the CPU's share of each step. */
static bool
ratios_chosen(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log, HjgCoupledStrategy strategy)
{
	HjgBenchInput in;
	bool		good = hjg_bench_input_create(&in, options, log);

	hjg_bench_points[0].config = hjg_bench_config(options, strategy);
	good = good && hjg_bench_run_points(options, env, runner, &in, 1);
	printf("  %9u", in.nrows);
	for (int i = 0; i < HJG_STEP_COUNT && good; i++)
	{
		const HjgCoupledStats *stats = &hjg_bench_median(options, 0)->stats;
		const double cpu = (double) stats->step_rows[HJG_ON_CPU][i];
		const double all = cpu + (double) stats->step_rows[HJG_ON_DEVICE][i];

		if (all > 0)
			printf("  %s %.2f", hjg_bench_step_names[i], cpu / all);
	}
	printf("\n");
	hjg_bench_input_destroy(&in);
	return good;
}

static bool
figure_5(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return ratios_chosen(options, env, runner, log, HJG_COUPLED_SHJ_PL);
}

static bool
figure_17(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return ratios_chosen(options, env, runner, log, HJG_COUPLED_SHJ_BASIC_UNIT);
}

static bool
figure_18(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return ratios_chosen(options, env, runner, log, HJG_COUPLED_PHJ_BASIC_UNIT);
}

static bool
figure_6(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return ratios_chosen(options, env, runner, log, HJG_COUPLED_PHJ_PL);
}

/* ---- 000, figures 7 and 8 ---- */

#define NRATIOS 11

/*
 * Print predicted and measured times of the phases of SHJ, over the CPU's share of all steps, or of all
 * but the first.
 */
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

		*config = hjg_bench_config(options, HJG_COUPLED_SHJ_PL);
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

/* ---- 000, figure 19 ---- */

/*
 * Bytes of the buffer: a row's share of the table and of the arrays of partitioning, and some for the
 * workers.
 */
#define BUFFER_ROW_BYTES 48
#define BUFFER_MORE_BYTES (1024 * 1024)
#define NGROWTHS 4

/* Run build sides of 1, 2, 4 and 8 times the size that fits a small buffer. */
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
			hjg_bench_points[i].config = hjg_bench_config(options, i ? HJG_COUPLED_PHJ_PL : HJG_COUPLED_SHJ_PL);
			hjg_bench_points[i].config.buffer_bytes = ((size_t) BUFFER_ROW_BYTES << log) + BUFFER_MORE_BYTES;
		}
		good = good && hjg_bench_run_points(options, env, runner, &in, 2);
		for (int i = 0; i < 2 && good; i++)
		{
			const HjgBenchTimes *times = hjg_bench_median(options, i);
			const double ns = times->total_ns / in.nrows;

			if (growth == 0)
				row_ns[i] = ns;
			printf("%-8s %9u %5dx %6d %9.2f %9.2f %9.2f %9.2f %9.2f %8.2f %9.2fx%s\n", hjg_strategy_name((int) hjg_bench_points[i].config.strategy),
				   in.nrows, 1 << growth, times->stats.nparts, times->total_ns / 1e6, (double) times->stats.copy_ns / 1e6,
				   (double) times->stats.join.partition_ns / 1e6, (double) times->stats.join.build_ns / 1e6,
				   (double) times->stats.join.probe_ns / 1e6, ns, ns / row_ns[i], times->stats.gave_up ? "  (by the cpu engine)" : "");
		}
		hjg_bench_input_destroy(&in);
	}
	return good;
}

/* ---- all of them ---- */

#define SAME_CORES "where both parts are cores of one CPU no step is better on one of them; one by copies pays for rows that change sides"

static const HjgBenchFigure figures[] = {
	{"000, figure 3: on one chip, and over an emulated bus of 3 GB/s", "the bus takes 4 to 10 %, merging tables 14 and 18 %",
		NULL, figure_3, false},
	{"000, figure 4: unit costs of the steps of PHJ", "the GPU computes hashes over 15 times as fast, and searches lists as fast as the CPU",
		SAME_CORES, figure_4, false},
	{"000, figure 5: ratios of SHJ-PL", "from 0 (b1, p1) and 4 % (b2) to 60 % (b3) and 99 % (p4) for the CPU", SAME_CORES, figure_5, false},
	{"000, figure 6: ratios of PHJ-PL", "differ from step to step as well", SAME_CORES, figure_6, false},
	{"000, figure 17: ratios of SHJ with BasicUnit", "the same for all steps of a phase, and others than PL's", NULL, figure_17, false},
	{"000, figure 18: ratios of PHJ with BasicUnit", "the same", NULL, figure_18, false},
	{"000, figure 7: SHJ, one ratio for all steps", "predicted a little below measured; the best ratio found", NULL, figure_7, false},
	{"000, figure 8: SHJ, b1 and p1 on the device, one ratio for the other steps", "the same", NULL, figure_8, false},
	{"000, table 3: fine and coarse steps", "1.6 s and 2.2 s: 1.38x; 7 and 15 million cache misses, 10 and 23 %",
		"a core that joins a pair of partitions alone keeps its table in its own cache, needs no barriers between steps, and has all steps alike",
		hjg_bench_table_3, false},
	{"000, figure 19: larger than the buffer", "linear; copies 4 % of the time; PHJ-PL up to 9 % faster",
		"the build side alone is copied out of the buffer and back: windows of probe rows are partitioned in it and meet one table after the other",
		figure_19, true},
	{.name = NULL}
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
		hjg_bench_print_spread(options);
		if (figure->reason != NULL)
			printf("  why it may differ: %s\n", figure->reason);
		fflush(stdout);
	}
	return good;
}

bool
hjg_bench_figures(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner)
{
	return run_figures(options, env, runner, figures) && run_figures(options, env, runner, hjg_bench_tradeoff_figures) &&
		run_figures(options, env, runner, hjg_bench_further_figures) &&
		run_figures(options, env, runner, hjg_bench_incache_figures);
}
