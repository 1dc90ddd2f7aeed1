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
 */
#define _GNU_SOURCE

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/hjg_coupled_bench.h"

#define MAX_RUNS 1000
#define MAX_SIZES 16

/* The choice is run so often, to be compared by its median. */
#define CHOICE_RUNS 5

static int
compare_doubles(const void *a, const void *b)
{
	const double x = *(const double *) a;
	const double y = *(const double *) b;

	return (x > y) - (x < y);
}

static double
percentile(double *values, int n, double part)
{
	qsort(values, (size_t) n, sizeof(double), compare_doubles);
	return values[(int) (part * (n - 1) + 0.5)];
}

typedef struct Errors
{
	double		all[MAX_RUNS * MAX_SIZES * 2];
	int			n;
	double		signed_sum;
} Errors;

static double
predicted_ns(const HjgCoupledStats *stats)
{
	return stats->predicted_build_ns + stats->predicted_probe_ns;
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
print_steps(const StepTimes *steps, const HjgStepCosts *costs, double build_rows)
{
	printf("    measured / unit cost together:");
	for (int i = 0; i < HJG_STEP_COUNT; i++)
	{
		if (steps->rows[HJG_ON_CPU][i] + steps->rows[HJG_ON_DEVICE][i] == 0)
			continue;
		printf("  %.6s", hjg_bench_step_names[i]);
		for (int p = 0; p < HJG_PROCESSORS; p++)
			printf("%s%.2f", p ? "|" : " ", steps->rows[p][i] > 0 ? steps->measured_ns[p][i] / steps->rows[p][i] /
				   hjg_step_cost_ns(costs, true, (HjgProcessor) p, (HjgStep) i, build_rows) : 0.0);
	}
	printf("\n");
}

/* The ratios that the model chose, and what a row took. */
static void
print_choice(const HjgCoupledStats *stats)
{
	printf("    the choice: build %.2f ms (predicted %.2f), probe %.2f (%.2f);", (double) (stats->join.build_ns + stats->join.partition_ns) / 1e6,
		   stats->predicted_build_ns / 1e6, (double) stats->join.probe_ns / 1e6, stats->predicted_probe_ns / 1e6);
	for (int i = 0; i < HJG_STEP_COUNT; i++)
		if (stats->step_rows[HJG_ON_CPU][i] + stats->step_rows[HJG_ON_DEVICE][i] > 0)
			printf("  %.6s %.2f", hjg_bench_step_names[i], stats->ratios[i]);
	printf("\n");
}

/* One size and strategy: random ratios, then the choice. */
static bool
run_setting(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgBenchInput *in,
			HjgCoupledStrategy strategy, hjg_u64 *random, Errors *errors)
{
	HjgCoupledConfig config = options->config;
	const int	nruns = options->model_runs < MAX_RUNS ? options->model_runs : MAX_RUNS;
	static HjgBenchTimes times;
	static double random_ns[MAX_RUNS];
	double		here[MAX_RUNS];
	double		choice_ns[CHOICE_RUNS];
	double		choice_predicted = 0;
	StepTimes	steps = {.rows = {{0}}};
	int			nbetter = 0;

	config.strategy = strategy;
	config.pipeline = HJG_PIPELINE_E;
	/* the first run warms memory up */
	for (int run = -1; run < nruns; run++)
	{
		config.keep_ratios = true;
		for (int i = 0; i < HJG_STEP_COUNT; i++)
			config.fixed_ratios[i] = (double) (hjg_bench_random(random) % 51) * HJG_RATIO_STEP;
		if (!hjg_bench_run(env, &config, runner, in, &times))
			return false;
		if (run < 0)
			continue;
		random_ns[run] = times.total_ns;
		here[run] = fabs(predicted_ns(&times.stats) / times.total_ns - 1);
		errors->signed_sum += predicted_ns(&times.stats) / times.total_ns - 1;
		errors->all[errors->n++] = here[run];
		add_steps(&steps, &times.stats);
	}
	config.keep_ratios = false;
	for (int run = 0; run < CHOICE_RUNS; run++)
	{
		if (!hjg_bench_run(env, &config, runner, in, &times))
			return false;
		choice_ns[run] = times.total_ns;
		choice_predicted = predicted_ns(&times.stats);
	}
	qsort(choice_ns, CHOICE_RUNS, sizeof(double), compare_doubles);
	qsort(random_ns, (size_t) nruns, sizeof(double), compare_doubles);
	while (nbetter < nruns && random_ns[nbetter] < choice_ns[CHOICE_RUNS / 2])
		nbetter++;
	printf("%-8s %9u %8.2f %8.2f %8.2f %8.2f %7.0f%% %9.2f %+6.0f%% %6d of %d\n", hjg_coupled_strategy_name((int) strategy),
		   in->nrows, random_ns[0] / 1e6, random_ns[nruns / 2] / 1e6, random_ns[nruns - 1] / 1e6,
		   percentile(here, nruns, 0.5) * 100, percentile(here, nruns, 0.95) * 100, choice_ns[CHOICE_RUNS / 2] / 1e6,
		   (choice_predicted / choice_ns[CHOICE_RUNS / 2] - 1) * 100, nbetter, nruns);
	if (options->steps)
	{
		print_steps(&steps, config.costs, in->nrows);
		print_choice(&times.stats);
	}
	fflush(stdout);
	return true;
}

bool
hjg_bench_model(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner)
{
	static Errors errors;
	hjg_u64		random = 7;
	bool		good = true;

	printf("%-8s %9s %8s %8s %8s %8s %8s %9s %7s %s\n", "random", "rows", "best ms", "median", "worst", "error %", "95th",
		   "choice ms", "error", "random runs that beat it");
	for (int log = options->min_log; log <= options->max_log && good; log += 2)
	{
		HjgBenchInput in;

		good = hjg_bench_input_create(&in, options, log) &&
			run_setting(options, env, runner, &in, HJG_COUPLED_SHJ_PL, &random, &errors) &&
			run_setting(options, env, runner, &in, HJG_COUPLED_PHJ_PL, &random, &errors);
		hjg_bench_input_destroy(&in);
	}
	if (good && errors.n > 0)
		printf("all %d random runs: error median %.1f %%, 95th percentile %.1f %%, mean with its sign %+.1f %%\n", errors.n,
			   percentile(errors.all, errors.n, 0.5) * 100, percentile(errors.all, errors.n, 0.95) * 100,
			   errors.signed_sum / errors.n * 100);
	return good;
}
