/*
 * lab_coupled_model.c
 *	  hjoin_gpu_lab NAME --model[=RUNS]: the quality of the cost model's predictions and of its choice
 *	  of ratios.
 *
 * The Monte Carlo test of He, Lu and He, section 5.3: joins with random ratios for each step, of every
 * size, without and with partitioning, each predicted before it runs; and the model's own choice among
 * them.  It reports the median and the 95th percentile of the prediction's error, the rank of the choice
 * among the random runs, and the steps that were predicted wrongly.
 *
 * Noise.  All settings run repeatedly, in random order in each turn.  The median of a setting's even turns
 * relative to that of its odd turns is the variation of one configuration on this machine at this time; no
 * prediction can err by less, so it is printed beside the error.
 *
 * Drift.  At the end everything is calibrated again.  The difference of the costs, and the errors by the
 * second calibration and by the mean of both predictions, distinguish a changing machine from a wrong
 * model.
 */
#define _GNU_SOURCE

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "model/hjg_measured.h"

#define MAX_RUNS 1000
#define MAX_SIZES 16

/* Runs of every setting, including the choice, once in each turn; its time is the median. */
#define TURNS 7

/* Errors of predictions: of whole joins, and with their signs of the phases. */
typedef struct Errors
{
	double		signed_all[MAX_RUNS * MAX_SIZES * 2];
	double		again[MAX_RUNS * MAX_SIZES * 2];	/* by the second calibration, with their signs */
	double		noise[MAX_RUNS * MAX_SIZES * 2];
	int			n;
	int			nagain;
	double		build_sum;
	double		probe_sum;
} Errors;

/* A setting's median run. */
typedef struct Setting
{
	HjgCoupledConfig config;
	HjgBenchTimes turns[TURNS];
	const HjgBenchTimes *median;
	double		noise;			/* relative difference of the halves of the turns */
} Setting;

static Setting settings[MAX_RUNS + 1];

/* Times of all medians, in the order of the runs, for the second calibration. */
static double times_ns[MAX_RUNS * MAX_SIZES * 2];
static int	ntimes;

static int
compare_turns(const void *a, const void *b)
{
	const double x = ((const HjgBenchTimes *) a)->total_ns;
	const double y = ((const HjgBenchTimes *) b)->total_ns;

	return (x > y) - (x < y);
}

/* Order the turns of a setting, and compute the difference of its halves. */
static void
order_turns(Setting *setting)
{
	double		halves[2][(TURNS + 1) / 2];

	for (int turn = 0; turn < TURNS; turn++)
		halves[turn % 2][turn / 2] = setting->turns[turn].total_ns;
	setting->noise = fabs(hjg_median(halves[0], (TURNS + 1) / 2) / hjg_median(halves[1], TURNS / 2) - 1);
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

	errors->noise[errors->n] = setting->noise;
	errors->signed_all[errors->n++] = predicted_ns(&times->stats) / times->total_ns - 1;
	errors->build_sum += times->stats.predicted_build_ns / build_ns - 1;
	errors->probe_sum += times->stats.predicted_probe_ns / (times->total_ns - build_ns) - 1;
}

/* Find the given percentile of the absolute errors. */
static double
error_at(const double *signed_errors, int n, double part)
{
	static double all[MAX_RUNS * MAX_SIZES * 2];

	for (int i = 0; i < n; i++)
		all[i] = fabs(signed_errors[i]);
	return hjg_percentile(all, n, part);
}

static double
mean_of_values(const double *values, int n)
{
	double		sum = 0;

	for (int i = 0; i < n; i++)
		sum += values[i];
	return sum / n;
}

static void
print_errors(const char *name, const char *by, const Errors *errors, const double *signed_errors)
{
	printf("%-10s %-20s %5d runs: error median %5.1f %%, 95th percentile %5.1f %%, mean with its sign %+5.1f %%\n", name, by, errors->n,
		   error_at(signed_errors, errors->n, 0.5) * 100, error_at(signed_errors, errors->n, 0.95) * 100,
		   mean_of_values(signed_errors, errors->n) * 100);
}

static void
print_all_errors(const char *name, const Errors *errors)
{
	static double means[MAX_RUNS * MAX_SIZES * 2];

	if (errors->n == 0)
		return;
	printf("%-10s noise median %5.1f %%, 95th percentile %5.1f %%; error with its sign, mean of build %+5.1f %%, probe %+5.1f %%\n", name,
		   error_at(errors->noise, errors->n, 0.5) * 100, error_at(errors->noise, errors->n, 0.95) * 100,
		   errors->build_sum / errors->n * 100, errors->probe_sum / errors->n * 100);
	print_errors(name, "calibrated before", errors, errors->signed_all);
	if (errors->nagain != errors->n)
		return;
	print_errors(name, "calibrated behind", errors, errors->again);
	for (int i = 0; i < errors->n; i++)
		means[i] = (errors->signed_all[i] + errors->again[i]) / 2;
	print_errors(name, "mean of both", errors, means);
}

/* Measured and predicted times of all runs of a size. */
typedef struct StepTimes
{
	double		measured_ns[HJG_PROCESSORS][HJG_STEP_COUNT];
	double		predicted_ns[HJG_PROCESSORS][HJG_STEP_COUNT];
	double		delay_ns[HJG_PROCESSORS];
	double		queue_ns;
	double		idle_ns;
	double		pieces[HJG_PROCESSORS];
	double		total_ns;
	double		predicted_total_ns;
} StepTimes;

static void
add_step_times(StepTimes *steps, const HjgBenchTimes *times)
{
	const HjgCoupledStats *stats = &times->stats;

	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		steps->delay_ns[p] += stats->predicted_delay_ns[p];
		for (int i = 0; i < HJG_STEP_COUNT; i++)
		{
			steps->measured_ns[p][i] += (double) stats->step_ns[p][i];
			steps->predicted_ns[p][i] += stats->predicted_step_ns[p][i];
			steps->pieces[p] += (double) stats->step_pieces[p][i];
		}
	}
	steps->queue_ns += (double) (stats->queue_ns[0] + stats->queue_ns[1]);
	steps->idle_ns += (double) stats->idle_ns;
	steps->total_ns += times->total_ns;
	steps->predicted_total_ns += predicted_ns(stats);
}

/*
 * Print measured and predicted step times.  The device's predictions include the gaps before its steps,
 * which are not measured as part of them.
 */
static void
print_step_times(const StepTimes *steps)
{
	double		measured_ns[HJG_PROCESSORS] = {0, 0};
	double		predicted[HJG_PROCESSORS] = {0, 0};

	printf("    predicted over measured, CPU|device:");
	for (int i = 0; i < HJG_STEP_COUNT; i++)
	{
		if (steps->measured_ns[HJG_ON_CPU][i] + steps->measured_ns[HJG_ON_DEVICE][i] == 0)
			continue;
		printf("  %.6s", hjg_bench_step_names[i]);
		for (int p = 0; p < HJG_PROCESSORS; p++)
		{
			printf("%s%.2f", p ? "|" : " ", steps->measured_ns[p][i] > 0 ? steps->predicted_ns[p][i] / steps->measured_ns[p][i] : 0.0);
			measured_ns[p] += steps->measured_ns[p][i];
			predicted[p] += steps->predicted_ns[p][i];
		}
	}
	printf("\n    all runs, ms (predicted): %.1f (%.1f); CPU %.1f (%.1f, delays %.1f) in %.0f pieces, queued for the device %.1f, waited for it %.1f; device %.1f (%.1f, delays %.1f) in %.0f pieces\n",
		   steps->total_ns / 1e6, steps->predicted_total_ns / 1e6, measured_ns[HJG_ON_CPU] / 1e6, predicted[HJG_ON_CPU] / 1e6,
		   steps->delay_ns[HJG_ON_CPU] / 1e6, steps->pieces[HJG_ON_CPU], steps->queue_ns / 1e6, steps->idle_ns / 1e6,
		   measured_ns[HJG_ON_DEVICE] / 1e6, predicted[HJG_ON_DEVICE] / 1e6, steps->delay_ns[HJG_ON_DEVICE] / 1e6,
		   steps->pieces[HJG_ON_DEVICE]);
}

/* Print the ratios that the model chose, and the times a row. */
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

/* Print one setting by its median run, to explain prediction errors. */
static void
print_setting(const Setting *setting)
{
	const HjgBenchTimes *times = setting->median;
	const HjgCoupledStats *stats = &times->stats;

	printf("  each: us (predicted) build %.0f (%.0f) probe %.0f (%.0f) noise %.0f %%; between steps %.0f; delays (%.0f|%.0f) "
		   "queued %.0f waited %.0f tables %.0f|%.0f;",
		   times->build_ns / 1e3, stats->predicted_build_ns / 1e3, (times->total_ns - times->build_ns) / 1e3,
		   stats->predicted_probe_ns / 1e3, setting->noise * 100, times->total_ns / 1e3 - (double) stats->series_ns / 1e3,
		   stats->predicted_delay_ns[HJG_ON_CPU] / 1e3, stats->predicted_delay_ns[HJG_ON_DEVICE] / 1e3,
		   (double) (stats->queue_ns[0] + stats->queue_ns[1]) / 1e3, (double) stats->idle_ns / 1e3,
		   (double) stats->moved[HJG_ON_CPU].ns / 1e3, (double) stats->moved[HJG_ON_DEVICE].ns / 1e3);
	for (int i = 0; i < HJG_STEP_COUNT; i++)
		if (stats->step_rows[HJG_ON_CPU][i] + stats->step_rows[HJG_ON_DEVICE][i] > 0)
			printf("  %s %.2f %.0f (%.0f)|%.0f (%.0f)", hjg_bench_step_names[i], stats->ratios[i],
				   (double) stats->step_ns[HJG_ON_CPU][i] / 1e3, stats->predicted_step_ns[HJG_ON_CPU][i] / 1e3,
				   (double) stats->step_ns[HJG_ON_DEVICE][i] / 1e3, stats->predicted_step_ns[HJG_ON_DEVICE][i] / 1e3);
	printf("\n");
}

static int
nruns_of(const HjgBenchOptions *options)
{
	return options->model_runs < MAX_RUNS ? options->model_runs : MAX_RUNS;
}

/* Draw random ratios, and add the model's choice. */
static void
draw_settings(const HjgBenchOptions *options, HjgCoupledStrategy strategy, hjg_u64 *random)
{
	const int	nruns = nruns_of(options);

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
}

/* The factor by which a search may miss the best ratios, and one side alone may be worse (hjg_coupled_model.h). */
#define CHOICE_MARGIN 1.25

/*
 * Check what no noise changes: each random setting has a prediction, and divided its rows as it was told to
 * (but where a device that works on copies has all rows of a step that scatters); and no random setting is
 * predicted to be much better than the choice.
 */
static bool
check_settings(const HjgRunner *runner, int nruns)
{
	const double choice_ns = predicted_ns(&settings[nruns].median->stats);
	double		least_ns = HUGE_VAL;
	bool		good = true;

	for (int run = 0; run < nruns; run++)
	{
		const HjgCoupledStats *stats = &settings[run].median->stats;

		for (int i = HJG_STEP_B2; i < HJG_STEP_P4 && runner->move == NULL; i++)
		{
			const double cpu = (double) stats->step_rows[HJG_ON_CPU][i];

			good = good && fabs(cpu / (cpu + (double) stats->step_rows[HJG_ON_DEVICE][i]) - settings[run].config.fixed_ratios[i]) < 0.01;
		}
		good = good && isfinite(predicted_ns(stats)) && stats->predicted_build_ns > 0 && stats->predicted_probe_ns > 0;
		least_ns = fmin(least_ns, predicted_ns(stats));
	}
	if (!good)
		printf("WRONG: a setting has no prediction, or was not run with its ratios\n");
	if (choice_ns > least_ns * CHOICE_MARGIN)
		printf("WRONG: the choice is predicted to take %.2f times as long as a random setting\n", choice_ns / least_ns);
	return good && choice_ns <= least_ns * CHOICE_MARGIN;
}

/* Run one size and strategy: random ratios and the model's choice among them. */
static bool
run_settings(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgBenchInput *in,
			 HjgCoupledStrategy strategy, hjg_u64 *random, Errors *errors)
{
	const int	nruns = nruns_of(options);
	const int	first = errors->n;
	const double build_sum = errors->build_sum;
	const double probe_sum = errors->probe_sum;
	static double random_ns[MAX_RUNS];
	const Setting *choice = &settings[nruns];
	StepTimes	steps = {0};
	int			nbetter = 0;
	int			order[MAX_RUNS + 1];

	draw_settings(options, strategy, random);
	/* the first turn warms up memory */
	for (int turn = -1; turn < TURNS; turn++)
	{
		hjg_lab_order(order, nruns + 1);
		for (int i = 0; i <= nruns; i++)
		{
			HjgBenchTimes *times = &settings[order[i]].turns[turn < 0 ? 0 : turn];

			memset(times, 0, sizeof(*times));
			if (!hjg_bench_run(env, &settings[order[i]].config, runner, in, times))
				return false;
		}
	}
	for (int run = 0; run <= nruns; run++)
	{
		order_turns(&settings[run]);
		if (options->each)
			print_setting(&settings[run]);
		if (run == nruns)
			break;
		random_ns[run] = times_ns[ntimes++] = settings[run].median->total_ns;
		add_error(errors, &settings[run]);
		add_step_times(&steps, settings[run].median);
	}
	hjg_sort_measured(random_ns, nruns);
	while (nbetter < nruns && random_ns[nbetter] < choice->median->total_ns)
		nbetter++;
	printf("%-8s %9u %8.2f %8.2f %8.2f %7.1f%% %7.1f%% %7.1f%% %7.1f%% %+6.0f%% %+6.0f%% %9.2f %+6.0f%% %7.2fx %4d\n", hjg_strategy_name((int) strategy),
		   in->nrows, random_ns[0] / 1e6, random_ns[nruns / 2] / 1e6, random_ns[nruns - 1] / 1e6,
		   error_at(errors->signed_all + first, nruns, 0.5) * 100, error_at(errors->signed_all + first, nruns, 0.95) * 100,
		   error_at(errors->noise + first, nruns, 0.5) * 100, error_at(errors->noise + first, nruns, 0.95) * 100,
		   (errors->build_sum - build_sum) / nruns * 100, (errors->probe_sum - probe_sum) / nruns * 100,
		   choice->median->total_ns / 1e6, (predicted_ns(&choice->median->stats) / choice->median->total_ns - 1) * 100,
		   choice->median->total_ns / random_ns[0], nbetter);
	if (options->steps)
	{
		print_step_times(&steps);
		print_choice(choice->median);
	}
	fflush(stdout);
	return check_settings(runner, nruns);
}

/* Predict the same settings once more, with other costs. */
static bool
predict_again(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgBenchInput *in,
			  HjgCoupledStrategy strategy, hjg_u64 *random, Errors *errors)
{
	static HjgBenchTimes times;
	bool		good = true;

	draw_settings(options, strategy, random);
	for (int run = 0; run < nruns_of(options) && good; run++)
	{
		memset(&times, 0, sizeof(times));
		good = hjg_bench_run(env, &settings[run].config, runner, in, &times);
		errors->again[errors->nagain++] = predicted_ns(&times.stats) / times_ns[ntimes++] - 1;
	}
	return good;
}

typedef bool (*SettingsFn) (const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgBenchInput *in,
							HjgCoupledStrategy strategy, hjg_u64 *random, Errors *errors);

/* Run all sizes and strategies, with errors[0] for SHJ and errors[1] for PHJ. */
static bool
for_all(SettingsFn fn, const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, hjg_u64 random, Errors errors[2])
{
	bool		good = true;

	ntimes = 0;
	for (int log = options->min_log; log <= options->max_log && good; log += 2)
	{
		HjgBenchInput in;

		good = hjg_bench_input_create(&in, options, log) &&
			fn(options, env, runner, &in, HJG_COUPLED_SHJ_PL, &random, &errors[0]) &&
			fn(options, env, runner, &in, HJG_COUPLED_PHJ_PL, &random, &errors[1]);
		hjg_bench_input_destroy(&in);
	}
	return good;
}

/* Print the mean, over steps and sizes, of the second costs relative to the first. */
static void
print_drift(const HjgStepCosts *before, const HjgStepCosts *after)
{
	printf("the second calibration over the first:");
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		double		sums[2] = {0, 0};
		int			n = 0;

		for (int size = 0; size < before->nsizes; size++)
			for (int i = 0; i < 2 * HJG_STEP_COUNT; i++, n++)
			{
				const int	step = i / 2;

				sums[0] += log(after->alone_ns[i % 2][size][p][step] / before->alone_ns[i % 2][size][p][step]);
				sums[1] += log(after->together_ns[i % 2][size][p][step] / before->together_ns[i % 2][size][p][step]);
			}
		printf(" %s %.2f alone, %.2f together;", p == HJG_ON_CPU ? "CPU" : "device", exp(sums[0] / n), exp(sums[1] / n));
	}
	printf("\n");
}

static void
add_errors(Errors *to, const Errors *from)
{
	memcpy(to->signed_all + to->n, from->signed_all, sizeof(double) * (size_t) from->n);
	memcpy(to->again + to->nagain, from->again, sizeof(double) * (size_t) from->nagain);
	memcpy(to->noise + to->n, from->noise, sizeof(double) * (size_t) from->n);
	to->n += from->n;
	to->nagain += from->nagain;
	to->build_sum += from->build_sum;
	to->probe_sum += from->probe_sum;
}

bool
hjg_bench_model(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner)
{
	static Errors errors[2];
	static Errors all;
	HjgBenchOptions again = *options;
	const hjg_u64 random = hjg_lab_draw();
	HjgStepCosts costs;
	bool		good;

	printf("%-8s %9s %8s %8s %8s %8s %8s %8s %8s %7s %7s %9s %7s %8s %s\n", "random", "rows", "best ms", "median", "worst", "error", "95th",
		   "noise", "95th", "build", "probe", "choice ms", "error", "to best", "random runs that beat it");
	good = for_all(run_settings, options, env, runner, random, errors);
	if (good && hjg_coupled_calibrate(env, &options->config, runner, hjg_bench_key_width, options->config.costs->nsizes, &costs) == HJG_OK)
	{
		again.config.costs = &costs;
		print_drift(options->config.costs, &costs);
		good = for_all(predict_again, &again, env, runner, random, errors);
	}
	for (int i = 0; i < 2; i++)
		add_errors(&all, &errors[i]);
	print_all_errors("SHJ", &errors[0]);
	print_all_errors("PHJ", &errors[1]);
	print_all_errors("all", &all);
	return good;
}
