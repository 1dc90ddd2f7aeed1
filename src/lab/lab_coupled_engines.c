/*
 * lab_coupled_engines.c
 *	  hjoin_gpu_lab NAME --engines: losses of the choices of ratios and of the engine against the best
 *	  one, over sizes, skews and selectivities.
 *
 * PL should be at least as fast as DD, OL and either processor alone, since all of them are among its
 * choices.  Its loss against the fastest of them is the error of its choice and the noise between turns of
 * the same join, which is printed beside it; a contestant that divided every step as PL did is named, and
 * counts as any other.  Without calibration SQL takes the cpu engine with all threads; its loss is against
 * the fastest coupled contestant, if any is faster.
 *
 * All contestants run once a turn, in random order; times are medians.
 */
#define _GNU_SOURCE

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "model/hjg_measured.h"

#define MAX_TURNS 15

typedef struct Contestant
{
	const char *name;
	HjgCoupledStrategy strategy;	/* 0: the cpu engine */
	bool		one_side;		/* everything on the processor of this ratio */
	double		ratio;
} Contestant;

/* The first one is PL. */
#define NSCHEMES 5

static const Contestant contestants[] = {
	{.name = "cpu engine"},
	{"PL", HJG_COUPLED_SHJ_PL, false, 0}, {"DD", HJG_COUPLED_SHJ_DD, false, 0}, {"OL", HJG_COUPLED_SHJ_OL, false, 0},
	{"CPU", HJG_COUPLED_SHJ_PL, true, 1}, {"device", HJG_COUPLED_SHJ_PL, true, 0},
	{"PL", HJG_COUPLED_PHJ_PL, false, 0}, {"DD", HJG_COUPLED_PHJ_DD, false, 0}, {"OL", HJG_COUPLED_PHJ_OL, false, 0},
	{"CPU", HJG_COUPLED_PHJ_PL, true, 1}, {"device", HJG_COUPLED_PHJ_PL, true, 0},
};
#define NCONTESTANTS ((int) (sizeof(contestants) / sizeof(contestants[0])))

/* One size and shape: each contestant's turns, and their medians. */
typedef struct EngineTimes
{
	double		ns[sizeof(contestants) / sizeof(contestants[0])][MAX_TURNS];
	double		median_ns[sizeof(contestants) / sizeof(contestants[0])];
	hjg_u64		cpu_rows[sizeof(contestants) / sizeof(contestants[0])][HJG_STEP_COUNT];	/* of the last turn */
} EngineTimes;

/* Losses over all sizes and shapes. */
typedef struct Losses
{
	double		worst;
	double		sum;
	int			n;
	int			nbeyond_noise;
} Losses;

static double
median_of(const double *values, int n)
{
	double		sorted[MAX_TURNS];

	memcpy(sorted, values, sizeof(double) * (size_t) n);
	return hjg_median(sorted, n);
}

static bool
measure_engines(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgBenchInput *in, EngineTimes *times)
{
	static HjgBenchTimes run;
	int			order[sizeof(contestants) / sizeof(contestants[0])];

	/* the first turn warms up memory, and finds the ratios */
	for (int turn = -1; turn < options->nreps; turn++)
	{
		hjg_lab_order(order, NCONTESTANTS);
		for (int k = 0; k < NCONTESTANTS; k++)
		{
			const int	i = order[k];
			const Contestant *contestant = &contestants[i];
			HjgCoupledConfig config = options->config;

			config.strategy = contestant->strategy;
			config.pipeline = HJG_PIPELINE_E;
			config.keep_ratios = contestant->one_side;
			for (int s = 0; contestant->one_side && s < HJG_STEP_COUNT; s++)
				config.fixed_ratios[s] = contestant->ratio;
			memset(&run, 0, sizeof(run));
			if (!hjg_bench_run(env, i == 0 ? NULL : &config, runner, in, &run))
				return false;
			if (turn >= 0)
				times->ns[i][turn] = run.total_ns;
			memcpy(times->cpu_rows[i], run.stats.step_rows[HJG_ON_CPU], sizeof(times->cpu_rows[i]));
		}
	}
	for (int i = 0; i < NCONTESTANTS; i++)
		times->median_ns[i] = median_of(times->ns[i], options->nreps);
	return true;
}

/* True if two coupled contestants divided all steps alike. */
static bool
are_alike(const EngineTimes *times, int a, int b)
{
	return contestants[a].strategy != 0 && contestants[b].strategy != 0 && memcmp(times->cpu_rows[a], times->cpu_rows[b], sizeof(times->cpu_rows[a])) == 0;
}

/* Compute contestant i's loss relative to the time of the fastest other contestant of [from, to). */
static double
loss_of(const EngineTimes *times, int i, int from, int to)
{
	double		least_ns = times->median_ns[i];

	for (int k = from; k < to; k++)
		least_ns = fmin(least_ns, times->median_ns[k]);
	return times->median_ns[i] / least_ns - 1;
}

/* Name the contestant that PL equals; "-" for its own ratios. */
static const char *
name_alike(const EngineTimes *times, int pl)
{
	for (int k = pl + NSCHEMES - 1; k > pl; k--)
		if (are_alike(times, pl, k))
			return contestants[k].name;
	return "-";
}

/* Compute the median distance of a contestant's turns from their median. */
static double
noise_of(const HjgBenchOptions *options, const EngineTimes *times, int i)
{
	double		away[MAX_TURNS] = {0};

	for (int turn = 0; turn < options->nreps; turn++)
		away[turn] = fabs(times->ns[i][turn] / times->median_ns[i] - 1);
	return median_of(away, options->nreps);
}

static void
count_loss(Losses *losses, double loss, double noise)
{
	losses->worst = fmax(losses->worst, loss);
	losses->sum += loss;
	losses->n++;
	losses->nbeyond_noise += loss > noise;
}

static void
print_losses(const char *name, const Losses *losses)
{
	printf("%-14s lost %.1f %% in the mean, %.1f %% at most; more than the noise in %d of %d\n", name,
		   losses->n > 0 ? losses->sum / losses->n * 100 : 0, losses->worst * 100, losses->nbeyond_noise, losses->n);
}

static bool
run_shape(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log, const HjgBenchShape *shape,
		  Losses losses[3])
{
	HjgBenchOptions with = *options;
	static EngineTimes times;
	HjgBenchInput in;
	bool		good;

	with.skew = shape->skew;
	with.selectivity = shape->selectivity;
	good = hjg_bench_input_create(&in, &with, log) && measure_engines(options, env, runner, &in, &times);
	hjg_bench_input_destroy(&in);
	if (!good)
		return false;
	printf("%9u %-16s %8.2f", 1u << log, shape->name, times.median_ns[0] / 1e6);
	for (int algorithm = 0; algorithm < 2; algorithm++)
	{
		const int	pl = 1 + algorithm * NSCHEMES;
		const double loss = loss_of(&times, pl, pl, pl + NSCHEMES);
		const double noise = noise_of(options, &times, pl);

		for (int i = pl; i < pl + NSCHEMES; i++)
			printf(" %8.2f", times.median_ns[i] / 1e6);
		printf(" %6s %5.1f%% %5.1f%%", name_alike(&times, pl), loss * 100, noise * 100);
		count_loss(&losses[algorithm], loss, noise);
	}
	count_loss(&losses[2], loss_of(&times, 0, 0, NCONTESTANTS), noise_of(options, &times, 0));
	printf(" %5.1f%%\n", loss_of(&times, 0, 0, NCONTESTANTS) * 100);
	fflush(stdout);
	return true;
}

bool
hjg_bench_engines(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner)
{
	static Losses losses[3];
	bool		good = true;

	printf("%9s %-16s %8s", "rows", "", "cpu ms");
	for (int i = 1; i < NCONTESTANTS; i++)
		printf(" %3s%5s%s", i <= NSCHEMES ? "shj" : "phj", contestants[i].name, i % NSCHEMES == 0 ? "   PL is  lost  noise" : "");
	printf(" auto lost\n");
	for (int log = options->min_log; log <= options->max_log && good; log += 2)
		for (int shape = 0; shape < HJG_BENCH_SHAPES && good; shape++)
			good = run_shape(options, env, runner, log, &hjg_bench_shapes[shape], losses);
	if (!good)
		return false;
	print_losses("SHJ-PL", &losses[0]);
	print_losses("PHJ-PL", &losses[1]);
	print_losses("the cpu engine", &losses[2]);
	return true;
}
