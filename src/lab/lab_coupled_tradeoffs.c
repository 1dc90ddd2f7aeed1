/*
 * lab_coupled_tradeoffs.c
 *	  hjoin_gpu_lab NAME --figures: figures 9 to 15 of He, Lu and He (VLDB 2013), "000": random ratios
 *	  against the chosen ones, the trade-offs of section 5.4, and whole joins, section 5.5.
 *
 * --model and --pairs measure some of the same with more care (medians of each setting, ratios of
 * neighbours in time).  Here each has the form of the paper's figure, beside the paper's claim.
 */
#define _GNU_SOURCE

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "model/hjg_measured.h"

/* ---- figure 9 ---- */

/* Most random runs: as many as in the paper. */
#define MAX_DRAWS 1000

/* Runs of the choice, spread evenly among the random ones. */
#define CHOICES 20

/* One phase: each random run's time, and its prediction error. */
typedef struct Draws
{
	double		ns[MAX_DRAWS];
	double		error[MAX_DRAWS];
	double		choice_ns[CHOICES];
	int			n;
	int			nchoices;
} Draws;

/* Run one join with random ratios, or with those that the model chooses. */
static bool
draw_ratios(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgBenchInput *in,
			HjgCoupledStrategy strategy, bool choice, hjg_u64 *random, HjgBenchTimes *times)
{
	HjgCoupledConfig config = hjg_bench_config(options, strategy);

	config.keep_ratios = !choice;
	for (int i = 0; i < HJG_STEP_COUNT && !choice; i++)
		config.fixed_ratios[i] = (double) (hjg_bench_random(random) % 51) * HJG_RATIO_STEP;
	memset(times, 0, sizeof(*times));
	return hjg_bench_run(env, &config, runner, in, times);
}

/* Run the build phase of SHJ-PL or the probe phase of PHJ-PL, as in the paper. */
static bool
draw_all(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgBenchInput *in,
		 HjgCoupledStrategy strategy, bool build, Draws *draws)
{
	const int	ndraws = options->draws < CHOICES ? CHOICES : options->draws > MAX_DRAWS ? MAX_DRAWS : options->draws;
	const int	every = ndraws / CHOICES;
	static HjgBenchTimes times;
	hjg_u64		random = hjg_lab_draw();

	draws->n = draws->nchoices = 0;
	/* the first run warms up memory, and searches the ratios */
	if (!draw_ratios(options, env, runner, in, strategy, true, &random, &times))
		return false;
	for (int i = 0; i < ndraws; i++)
	{
		double		phase_ns;

		if (i % every == 0 && draws->nchoices < CHOICES)
		{
			if (!draw_ratios(options, env, runner, in, strategy, true, &random, &times))
				return false;
			draws->choice_ns[draws->nchoices++] = build ? times.build_ns : times.total_ns - times.build_ns;
		}
		if (!draw_ratios(options, env, runner, in, strategy, false, &random, &times))
			return false;
		phase_ns = build ? times.build_ns : times.total_ns - times.build_ns;
		draws->ns[draws->n] = phase_ns;
		draws->error[draws->n++] = fabs((build ? times.stats.predicted_build_ns : times.stats.predicted_probe_ns) / phase_ns - 1);
	}
	return true;
}

/* Print the distribution of the errors of single runs, the paper's measure. */
static void
print_draw_errors(Draws *draws)
{
	static const double limits[] = {0.05, 0.1, 0.15, 0.25, 0.5};

	printf("\n    predicted within");
	for (size_t k = 0; k < sizeof(limits) / sizeof(limits[0]); k++)
	{
		int			n = 0;

		for (int i = 0; i < draws->n; i++)
			n += draws->error[i] <= limits[k];
		printf("%s %.0f %%: %.0f %%", k > 0 ? "," : "", limits[k] * 100, 100.0 * n / draws->n);
	}
	printf(" of them; error in the median %.1f %%, 95th percentile %.1f %%", hjg_percentile(draws->error, draws->n, 0.5) * 100,
		   hjg_percentile(draws->error, draws->n, 0.95) * 100);
}

static bool
figure_9(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	static Draws draws;
	HjgBenchInput in;
	bool		good = hjg_bench_input_create(&in, options, log);

	for (int build = 1; build >= 0 && good; build--)
	{
		int			nfaster = 0;
		double		choice_ns;

		good = draw_all(options, env, runner, &in, build ? HJG_COUPLED_SHJ_PL : HJG_COUPLED_PHJ_PL, build, &draws);
		if (!good)
			break;
		choice_ns = hjg_median(draws.choice_ns, draws.nchoices);
		for (int i = 0; i < draws.n; i++)
		{
			nfaster += draws.ns[i] < choice_ns;
		}
		printf("  %-15s %9u rows, ms of 0, 10, ... 100 %% of %d random runs:", build ? "build of SHJ-PL" : "probe of PHJ-PL", in.nrows, draws.n);
		for (int decile = 0; decile <= 10; decile++)
			printf(" %.2f", hjg_percentile(draws.ns, draws.n, decile / 10.0) / 1e6);
		printf("; the choice %.2f, %d runs are faster", choice_ns / 1e6, nfaster);
		if (options->config.costs != NULL)
			print_draw_errors(&draws);
		printf("\n");
	}
	hjg_bench_input_destroy(&in);
	return good;
}

/* ---- figures 10, 11 and 12 ---- */

static bool
figure_10(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	HjgBenchInput in;
	bool		good = hjg_bench_input_create(&in, options, log);

	for (int i = 0; i < 4; i++)
	{
		hjg_bench_points[i].config = hjg_bench_config(options, i < 2 ? HJG_COUPLED_SHJ_DD : HJG_COUPLED_PHJ_DD);
		hjg_bench_points[i].config.separate_tables = i % 2 == 0;
	}
	good = good && hjg_bench_run_points(options, env, runner, &in, 4);
	for (int i = 0; i < 4 && good; i += 2)
	{
		const double separate_ns = hjg_bench_median(options, i)->build_ns;
		const double shared_ns = hjg_bench_median(options, i + 1)->build_ns;

		printf("  %-8s %9u rows, build phase: separate %9.2f ms, shared %9.2f, %+.0f %%\n",
			   hjg_strategy_name((int) hjg_bench_points[i].config.strategy), in.nrows, separate_ns / 1e6, shared_ns / 1e6,
			   (shared_ns / separate_ns - 1) * 100);
		for (int k = i; k < i + 2; k++)
		{
			printf("    the join, %s", k == i ? "separate" : "shared");
			hjg_bench_counts_print(&hjg_bench_median(options, k)->counts, in.nrows);
		}
	}
	hjg_bench_counts_explain();
	hjg_bench_input_destroy(&in);
	return good;
}

/* Bytes; 0: one global pointer.  A block of fewer than 64 list nodes would be rounded up. */
static const hjg_u32 block_bytes[] = {0, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15};

#define NBLOCKS ((int) (sizeof(block_bytes) / sizeof(block_bytes[0])))

static bool
figure_11(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	HjgBenchInput in;
	bool		good = hjg_bench_input_create(&in, options, log);

	for (int i = 0; i < NBLOCKS; i++)
	{
		hjg_bench_points[i].config = hjg_bench_config(options, HJG_COUPLED_PHJ_PL);
		hjg_bench_points[i].config.block_bytes = block_bytes[i];
	}
	good = good && hjg_bench_run_points(options, env, runner, &in, NBLOCKS);
	for (int i = 0; i < NBLOCKS && good; i++)
	{
		const HjgBenchTimes *times = hjg_bench_median(options, i);

		if (block_bytes[i] == 0)
			printf("  %9u rows, one global pointer    %9.2f ms", in.nrows, times->total_ns / 1e6);
		else
			printf("  %9u rows, blocks of %5u bytes %9.2f ms", in.nrows, block_bytes[i], times->total_ns / 1e6);
		printf(", the global pointer taken %llu times", (unsigned long long) times->stats.allocations);
		if (options->config.costs != NULL)
			printf(", over the predicted time %+9.2f",
				   (times->total_ns - times->stats.predicted_build_ns - times->stats.predicted_probe_ns) / 1e6);
		printf("\n");
	}
	hjg_bench_input_destroy(&in);
	return good;
}

/* The schemes that the paper's last figures compare; its OL is the device alone. */
typedef struct Scheme
{
	const char *name;
	HjgCoupledStrategy strategies[2];	/* without and with partitioning */
	int			alone;			/* HJG_ON_CPU, HJG_ON_DEVICE; -1: both */
} Scheme;

static const Scheme schemes[] = {
	{"CPU-only", {HJG_COUPLED_SHJ_PL, HJG_COUPLED_PHJ_PL}, HJG_ON_CPU},
	{"DD", {HJG_COUPLED_SHJ_DD, HJG_COUPLED_PHJ_DD}, -1},
	{"OL", {HJG_COUPLED_SHJ_OL, HJG_COUPLED_PHJ_OL}, -1},
	{"PL", {HJG_COUPLED_SHJ_PL, HJG_COUPLED_PHJ_PL}, -1},
};

#define NSCHEMES ((int) (sizeof(schemes) / sizeof(schemes[0])))
#define PL (NSCHEMES - 1)

static HjgCoupledConfig
scheme_config(const HjgBenchOptions *options, const Scheme *scheme, bool partitioned)
{
	const HjgCoupledStrategy strategy = scheme->strategies[partitioned];

	return scheme->alone >= 0 ? hjg_bench_config_alone(options, strategy, scheme->alone) : hjg_bench_config(options, strategy);
}

static bool
figure_12(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	HjgBenchInput in;
	bool		good = hjg_bench_input_create(&in, options, log);

	for (int i = 0; i < 4 * NSCHEMES; i++)
	{
		hjg_bench_points[i].config = scheme_config(options, &schemes[i / 2 % NSCHEMES], i / 2 >= NSCHEMES);
		if (i % 2 == 0)
			hjg_bench_points[i].config.block_bytes = 0;
	}
	good = good && hjg_bench_run_points(options, env, runner, &in, 4 * NSCHEMES);
	for (int i = 0; i < 4 * NSCHEMES && good; i += 2)
	{
		const double basic_ns = hjg_bench_median(options, i)->total_ns;
		const double blocks_ns = hjg_bench_median(options, i + 1)->total_ns;

		printf("  %s %-9s %9u rows: basic %9.2f ms, blocks %9.2f, %+.0f %%\n", i / 2 < NSCHEMES ? "SHJ" : "PHJ",
			   schemes[i / 2 % NSCHEMES].name, in.nrows, basic_ns / 1e6, blocks_ns / 1e6, (blocks_ns / basic_ns - 1) * 100);
	}
	hjg_bench_input_destroy(&in);
	return good;
}

/* ---- figures 13 and 14 ---- */

/* Run all schemes over sizes of the build side; the probe side is as large as the largest of them. */
static bool
sizes_varied(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, double skew)
{
	HjgBenchOptions with = *options;
	bool		good = true;

	with.skew = skew;
	printf("  %9s %9s", "build", "probe");
	for (int i = 0; i < 2 * NSCHEMES; i++)
		printf("  %s %-8s", i < NSCHEMES ? "SHJ" : "PHJ", schemes[i % NSCHEMES].name);
	printf("  ms; PL over CPU-only, DD, OL\n");
	for (int log = options->min_log; log <= options->max_log && good; log += 2)
	{
		double		ns[2 * NSCHEMES];
		HjgBenchInput in;

		good = hjg_bench_input_sized(&in, &with, 1u << log, 1u << options->max_log);
		for (int i = 0; i < 2 * NSCHEMES; i++)
			hjg_bench_points[i].config = scheme_config(options, &schemes[i % NSCHEMES], i >= NSCHEMES);
		good = good && hjg_bench_run_points(options, env, runner, &in, 2 * NSCHEMES);
		printf("  %9u %9u", in.nrows, in.nprobe);
		for (int i = 0; i < 2 * NSCHEMES && good; i++)
			printf("  %12.2f", (ns[i] = hjg_bench_median(options, i)->total_ns) / 1e6);
		for (int i = 0; i < 2 * NSCHEMES && good; i++)
			if (i % NSCHEMES != PL)
				printf("%s %.2f", i % NSCHEMES == 0 ? ";" : ",", ns[i] / ns[i - i % NSCHEMES + PL]);
		printf("\n");
		hjg_bench_input_destroy(&in);
	}
	return good;
}

static bool
figure_13(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	(void) log;
	return sizes_varied(options, env, runner, 0);
}

static bool
figure_14_low(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	(void) log;
	return sizes_varied(options, env, runner, 0.1);
}

static bool
figure_14(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	(void) log;
	return sizes_varied(options, env, runner, 0.25);
}

/* ---- figure 15 ---- */

static bool
figure_15(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	static const double selectivities[] = {0.125, 0.5, 1};
	HjgBenchOptions with = *options;
	bool		good = true;

	for (int s = 0; s < 3 && good; s++)
	{
		HjgBenchInput in;

		with.selectivity = selectivities[s];
		good = hjg_bench_input_create(&in, &with, log);
		for (int i = 1; i < NSCHEMES; i++)
			hjg_bench_points[i - 1].config = scheme_config(options, &schemes[i], true);
		good = good && hjg_bench_run_points(options, env, runner, &in, NSCHEMES - 1);
		for (int i = 1; i < NSCHEMES && good; i++)
		{
			const HjgBenchTimes *times = hjg_bench_median(options, i - 1);

			printf("  PHJ-%s %9u rows, %5.1f %% match: %9.2f ms: part %8.2f, build %8.2f, probe %8.2f\n", schemes[i].name, in.nrows,
				   with.selectivity * 100, times->total_ns / 1e6, (double) times->stats.join.partition_ns / 1e6,
				   (double) times->stats.join.build_ns / 1e6, (double) times->stats.join.probe_ns / 1e6);
		}
		hjg_bench_input_destroy(&in);
	}
	return good;
}

/* ---- all of them ---- */

#define SAME_KIND "where both parts are cores of one CPU neither is much better at a step, so PL gains little over DD"

const HjgBenchFigure hjg_bench_tradeoff_figures[] = {
	{"000, figure 9: random ratios for each step, each run once, and the chosen ones", "the choice is next to the best run; most predictions are within 15 %",
		NULL, figure_9, false},
	{"000, figure 10: separate and shared hash tables", "shared ones make the build of SHJ-DD 16 % and of PHJ-DD 26 % faster; separate ones miss the cache 2 and 4 % more often", NULL, figure_10, false},
	{"000, figures 11a and 11b: blocks of the allocator, PHJ-PL, and what the time is over the prediction (locks)", "faster up to 2 KB, then stable",
		"costs are calibrated with blocks of 2 KB, so what their locks take is in the prediction; how often the pointer is taken is not", figure_11, false},
	{"000, figure 12: one global pointer (basic) and blocks of 2 KB", "up to 36 % less time for SHJ, 39 % for PHJ", NULL, figure_12, false},
	{"000, figure 13: whole joins, uniform", "PL over CPU-only up to 1.53, over OL 1.35, over DD 1.28; PHJ-PL 2 to 6 % faster than SHJ-PL", SAME_KIND,
		figure_13, true},
	{"000, figure 14: whole joins, high skew (25 %)", "about as long as uniform or less, PL the fastest", SAME_KIND, figure_14, true},
	{"000, figure 14, in its text: low skew (10 %)", "the same", SAME_KIND, figure_14_low, true},
	{"000, figure 15: PHJ over selectivities", "the probe phase grows: DD by a factor of 1.23, OL 1.20 from 12.5 to 100 %; PL hardly", NULL,
		figure_15, false},
	{.name = NULL}
};
