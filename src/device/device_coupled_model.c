/*
 * device_coupled_model.c
 *	  hjoin_gpu_device --bench --device=NAME --model[=RUNS]: how well the cost model predicts, and
 *	  how good its choice of ratios is.
 *
 * The Monte Carlo test of He, Lu and He, section 5.3: joins with random ratios for
 * each step, of every size, without and with partitioning, each predicted before it runs;
 * and the model's own choice among them.  Reported are the median and the 95th percentile
 * of the prediction's error, the place of the choice among the random runs, and which
 * steps were predicted wrongly.
 *
 * Noise.  All settings run in turn, again and again.  The median of a setting's even turns over that of its odd ones is
 * what the same configuration differs by on this machine at this time; no prediction can err by less, so it stands beside
 * the error.
 */
#define _GNU_SOURCE

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/hjg_coupled_bench.h"
#include "model/hjg_measured.h"

#define MAX_RUNS 1000
#define MAX_SIZES 16

/* Every setting, the choice included, runs so often, in turn with all others; its time is the median. */
#define TURNS 6

/* Errors of predictions: of whole joins, and with their signs of the phases. */
typedef struct Errors
{
	double		all[MAX_RUNS * MAX_SIZES * 2];
	double		noise[MAX_RUNS * MAX_SIZES * 2];
	int			n;
	double		signed_sum;
	double		build_sum;
	double		probe_sum;
} Errors;

/* A setting's median run. */
typedef struct Setting
{
	HjgCoupledConfig config;
	HjgBenchTimes turns[TURNS];
	const HjgBenchTimes *median;
	double		noise;			/* one half of the turns over the other, less 1 */
} Setting;

static int
compare_turns(const void *a, const void *b)
{
	const double x = ((const HjgBenchTimes *) a)->total_ns;
	const double y = ((const HjgBenchTimes *) b)->total_ns;

	return (x > y) - (x < y);
}

/* Order the turns of a setting, and see how much its two halves differ. */
static void
settle(Setting *setting)
{
	double		halves[2][TURNS / 2];

	for (int turn = 0; turn < TURNS; turn++)
		halves[turn % 2][turn / 2] = setting->turns[turn].total_ns;
	setting->noise = fabs(hjg_percentile(halves[0], TURNS / 2, 0.5) / hjg_percentile(halves[1], TURNS / 2, 0.5) - 1);
	qsort(setting->turns, TURNS, sizeof(HjgBenchTimes), compare_turns);
	setting->median = &setting->turns[TURNS / 2];
}

static double
predicted_ns(const HjgCoupledStats *stats)
{
	return stats->predicted_build_ns + stats->predicted_probe_ns;
}

static void
add_error(Errors *errors, const Setting *setting)
{
	const HjgBenchTimes *times = setting->median;
	const double build_ns = times->build_ns;
	const double error = predicted_ns(&times->stats) / times->total_ns - 1;

	errors->noise[errors->n] = setting->noise;
	errors->all[errors->n++] = fabs(error);
	errors->signed_sum += error;
	errors->build_sum += times->stats.predicted_build_ns / build_ns - 1;
	errors->probe_sum += times->stats.predicted_probe_ns / (times->total_ns - build_ns) - 1;
}

static void
print_errors(const char *name, Errors *errors)
{
	if (errors->n > 0)
		printf("%-10s %5d runs: error median %5.1f %%, 95th percentile %5.1f %%; noise %5.1f %%, %5.1f %%; error with its sign, mean %+5.1f %%, build %+5.1f %%, probe %+5.1f %%\n",
			   name, errors->n, hjg_percentile(errors->all, errors->n, 0.5) * 100, hjg_percentile(errors->all, errors->n, 0.95) * 100,
			   hjg_percentile(errors->noise, errors->n, 0.5) * 100, hjg_percentile(errors->noise, errors->n, 0.95) * 100,
			   errors->signed_sum / errors->n * 100, errors->build_sum / errors->n * 100, errors->probe_sum / errors->n * 100);
}

/* Steps of all runs of a size: time that was measured over time that unit costs say, on each side while both worked. */
typedef struct StepTimes
{
	double		measured_ns[HJG_PROCESSORS][HJG_STEP_COUNT];
	double		rows[HJG_PROCESSORS][HJG_STEP_COUNT];
} StepTimes;

static void
add_steps(StepTimes *steps, const HjgCoupledStats *stats)
{
	for (int p = 0; p < HJG_PROCESSORS; p++)
		for (int i = 0; i < HJG_STEP_COUNT; i++)
		{
			steps->measured_ns[p][i] += (double) stats->step_ns[p][i];
			steps->rows[p][i] += (double) stats->step_rows[p][i];
		}
}

static void
print_steps(const StepTimes *steps, const HjgStepCosts *costs, bool partitioned, double build_rows)
{
	printf("    measured / unit cost together:");
	for (int i = 0; i < HJG_STEP_COUNT; i++)
	{
		if (steps->rows[HJG_ON_CPU][i] + steps->rows[HJG_ON_DEVICE][i] == 0)
			continue;
		printf("  %.6s", hjg_bench_step_names[i]);
		for (int p = 0; p < HJG_PROCESSORS; p++)
			printf("%s%.2f", p ? "|" : " ", steps->rows[p][i] > 0 ? steps->measured_ns[p][i] / steps->rows[p][i] /
				   hjg_step_cost_ns(costs, partitioned, true, (HjgProcessor) p, (HjgStep) i, build_rows) : 0.0);
	}
	printf("\n");
}

/* The ratios that the model chose, and what a row took. */
static void
print_choice(const HjgBenchTimes *times)
{
	const HjgCoupledStats *stats = &times->stats;

	printf("    the choice: build %.2f ms (predicted %.2f), probe %.2f (%.2f), looked for in %.2f ms;", times->build_ns / 1e6,
		   stats->predicted_build_ns / 1e6, (times->total_ns - times->build_ns) / 1e6, stats->predicted_probe_ns / 1e6,
		   (double) stats->plan_ns / 1e6);
	for (int i = 0; i < HJG_STEP_COUNT; i++)
		if (stats->step_rows[HJG_ON_CPU][i] + stats->step_rows[HJG_ON_DEVICE][i] > 0)
			printf("  %.6s %.2f", hjg_bench_step_names[i], stats->ratios[i]);
	printf("\n");
}

/* One size and strategy: random ratios and the model's choice among them. */
static bool
run_setting(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgBenchInput *in,
			HjgCoupledStrategy strategy, hjg_u64 *random, Errors *here, Errors *errors)
{
	const int	nruns = options->model_runs < MAX_RUNS ? options->model_runs : MAX_RUNS;
	static Setting settings[MAX_RUNS + 1];
	static double random_ns[MAX_RUNS];
	const Setting *choice = &settings[nruns];
	StepTimes	steps = {0};
	int			nbetter = 0;

	for (int run = 0; run <= nruns; run++)
	{
		HjgCoupledConfig *config = &settings[run].config;

		*config = options->config;
		config->strategy = strategy;
		config->pipeline = HJG_PIPELINE_E;
		config->keep_ratios = run < nruns;
		for (int i = 0; i < HJG_STEP_COUNT; i++)
			config->fixed_ratios[i] = (double) (hjg_bench_random(random) % 51) * HJG_RATIO_STEP;
	}
	/* the first turn warms memory up */
	for (int turn = -1; turn < TURNS; turn++)
		for (int run = turn < 0 ? nruns : 0; run <= nruns; run++)
		{
			HjgBenchTimes *times = &settings[run].turns[turn < 0 ? 0 : turn];

			memset(times, 0, sizeof(*times));
			if (!hjg_bench_run(env, &settings[run].config, runner, in, times))
				return false;
		}
	here->n = 0;
	here->signed_sum = here->build_sum = here->probe_sum = 0;
	for (int run = 0; run <= nruns; run++)
	{
		settle(&settings[run]);
		if (run == nruns)
			break;
		random_ns[run] = settings[run].median->total_ns;
		add_error(here, &settings[run]);
		add_error(errors, &settings[run]);
		add_steps(&steps, &settings[run].median->stats);
	}
	hjg_sort_measured(random_ns, nruns);
	while (nbetter < nruns && random_ns[nbetter] < choice->median->total_ns)
		nbetter++;
	printf("%-8s %9u %8.2f %8.2f %8.2f %7.1f%% %7.1f%% %7.1f%% %7.1f%% %+6.0f%% %+6.0f%% %9.2f %+6.0f%% %7.2fx %4d\n", hjg_coupled_strategy_name((int) strategy),
		   in->nrows, random_ns[0] / 1e6, random_ns[nruns / 2] / 1e6, random_ns[nruns - 1] / 1e6,
		   hjg_percentile(here->all, nruns, 0.5) * 100, hjg_percentile(here->all, nruns, 0.95) * 100,
		   hjg_percentile(here->noise, nruns, 0.5) * 100, hjg_percentile(here->noise, nruns, 0.95) * 100, here->build_sum / nruns * 100,
		   here->probe_sum / nruns * 100, choice->median->total_ns / 1e6,
		   (predicted_ns(&choice->median->stats) / choice->median->total_ns - 1) * 100, choice->median->total_ns / random_ns[0], nbetter);
	if (options->steps)
	{
		print_steps(&steps, options->config.costs, strategy >= HJG_COUPLED_PHJ_OL, in->nrows);
		print_choice(choice->median);
	}
	fflush(stdout);
	return true;
}

bool
hjg_bench_model(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner)
{
	static Errors here;
	static Errors shj;
	static Errors phj;
	hjg_u64		random = 7;
	bool		good = true;

	printf("%-8s %9s %8s %8s %8s %8s %8s %8s %8s %7s %7s %9s %7s %8s %s\n", "random", "rows", "best ms", "median", "worst", "error", "95th",
		   "noise", "95th", "build", "probe", "choice ms", "error", "to best", "random runs that beat it");
	for (int log = options->min_log; log <= options->max_log && good; log += 2)
	{
		HjgBenchInput in;

		good = hjg_bench_input_create(&in, options, log) &&
			run_setting(options, env, runner, &in, HJG_COUPLED_SHJ_PL, &random, &here, &shj) &&
			run_setting(options, env, runner, &in, HJG_COUPLED_PHJ_PL, &random, &here, &phj);
		hjg_bench_input_destroy(&in);
	}
	print_errors("SHJ", &shj);
	print_errors("PHJ", &phj);
	for (int i = 0; i < phj.n; i++)
	{
		shj.noise[shj.n] = phj.noise[i];
		shj.all[shj.n++] = phj.all[i];
	}
	shj.signed_sum += phj.signed_sum;
	shj.build_sum += phj.build_sum;
	shj.probe_sum += phj.probe_sum;
	print_errors("all", &shj);
	return good;
}
