/*
 * lab_coupled_further.c
 *	  hjoin_gpu_lab NAME --figures: the appendix of He, Lu and He (VLDB 2013), "000": BasicUnit, and what
 *	  its latch costs.
 */
#include <stdio.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "model/hjg_measured.h"

/* ---- figure 16: BasicUnit against PL ---- */

static bool
figure_16(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	static const HjgCoupledStrategy strategies[] = {
		HJG_COUPLED_SHJ_PL, HJG_COUPLED_SHJ_BASIC_UNIT, HJG_COUPLED_PHJ_PL, HJG_COUPLED_PHJ_BASIC_UNIT
	};
	HjgBenchInput in;
	bool		good = hjg_bench_input_create(&in, options, log);

	for (int i = 0; i < 4; i++)
		hjg_bench_points[i].config = hjg_bench_config(options, strategies[i]);
	good = good && hjg_bench_run_points(options, env, runner, &in, 4);
	for (int i = 0; i < 4 && good; i++)
	{
		const HjgBenchTimes *turns = hjg_bench_points[i].turns;

		printf("  %-16s %9u %9.2f ms (%.2f to %.2f)", hjg_strategy_name((int) strategies[i]), in.nrows,
			   hjg_bench_median(options, i)->total_ns / 1e6, turns[0].total_ns / 1e6, turns[options->nreps - 1].total_ns / 1e6);
		if (i % 2 == 1)
			printf(", PL takes %+.0f %%", (hjg_bench_median(options, i - 1)->total_ns / hjg_bench_median(options, i)->total_ns - 1) * 100);
		printf("\n");
	}
	hjg_bench_input_destroy(&in);
	return good;
}

/* ---- figure 20: increments under the latch ---- */

/* The latch is step b2: an atomic addition to a bucket's header. */
#define KINDS 3
#define LATCHES (HJG_PROCESSORS * KINDS)
#define MAX_TURNS 15

static const double hot_parts[KINDS] = {0, 0.1, 0.25};	/* of the increments, those of one element */

/* The elements, and for each distribution the element of each increment. */
typedef struct Latches
{
	hjg_u8	   *table;
	size_t		table_bytes;
	hjg_u8	   *work;
	size_t		work_bytes;
	hjg_u32		nelements;
	hjg_u32		nincrements;
	double		ns[LATCHES][MAX_TURNS];
} Latches;

static void
draw_elements(Latches *latches)
{
	hjg_u64		random = 20;

	memset(latches->table, 0, latches->table_bytes);
	for (int kind = 0; kind < KINDS; kind++)
		for (hjg_u32 i = 0; i < latches->nincrements; i++)
		{
			const bool	hot = (double) (hjg_bench_random(&random) >> 11) / 9007199254740992.0 < hot_parts[kind];

			((hjg_u32 *) latches->work)[(size_t) kind * latches->nincrements + i] =
				hot ? latches->nelements / 2 : (hjg_u32) ((hjg_bench_random(&random) >> 32) * latches->nelements >> 32);
		}
}

/* Do all increments of a distribution on one processor. */
static bool
run_increments(const HjgRunner *runner, const Latches *latches, int kind, double *ns)
{
	const HjgStepLaunch launch = {
		.step = HJG_STEP_B2, .width = HJG_BENCH_KEY_WIDTH, .end = latches->nincrements,
		.args = {.buckets_off = (hjg_u64) kind * latches->nincrements * sizeof(hjg_u32), .split_row = 0xFFFFFFFFu},
		.table = latches->table, .table_bytes = latches->table_bytes, .work = latches->work, .work_bytes = latches->work_bytes
	};
	const hjg_u64 started = hjg_now_ns();
	hjg_u64		ticket;
	const bool	good = runner->launch(runner->arg, &launch, &ticket) == HJG_OK && runner->wait(runner->arg, ticket) == HJG_OK;

	*ns = (double) (hjg_now_ns() - started) / latches->nincrements;
	return good;
}

/* Let both processors take turns on arrays of n elements; false if an increment is lost. */
static bool
run_latches(const HjgBenchOptions *options, const HjgRunner *const runners[HJG_PROCESSORS], Latches *latches)
{
	int			order[LATCHES];
	hjg_u64		sum = 0;
	bool		good = true;

	draw_elements(latches);
	/* the first turn warms up memory */
	for (int turn = -1; turn < options->nreps && good; turn++)
	{
		hjg_lab_order(order, LATCHES);
		for (int k = 0; k < LATCHES && good; k++)
			good = run_increments(runners[order[k] / KINDS], latches, order[k] % KINDS, &latches->ns[order[k]][turn < 0 ? 0 : turn]);
	}
	for (hjg_u32 i = 0; i < latches->nelements; i++)
		sum += ((const HjgStepHeader *) latches->table)[i].ntuples;
	if (sum != (hjg_u64) latches->nincrements * LATCHES * (hjg_u64) (options->nreps + 1))
		good = false;
	printf("  %9u elements", latches->nelements);
	for (int i = 0; i < LATCHES && good; i++)
	{
		hjg_sort_measured(latches->ns[i], options->nreps);
		printf("  %8.2f (%.2f to %.2f)", latches->ns[i][options->nreps / 2], latches->ns[i][0], latches->ns[i][options->nreps - 1]);
	}
	printf("%s\n", good ? "" : "  WRONG");
	return good;
}

static bool
figure_20(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	HjgRunner  *cpu = hjg_threads_runner_create(options->config.cpu_threads > 0 ? options->config.cpu_threads : hjg_pool_nthreads(env->pool));
	const HjgRunner *const runners[HJG_PROCESSORS] = {cpu, runner};
	Latches		latches = {.nincrements = 1u << log};
	bool		good;

	if (runner->move != NULL)
	{
		printf("  not on a device that works on copies: the increments of a processor would be in its own\n");
		hjg_threads_runner_destroy(cpu);
		return true;
	}
	latches.table_bytes = sizeof(HjgStepHeader) << log;
	latches.work_bytes = (sizeof(hjg_u32) * KINDS) << log;
	latches.table = hjg_bench_alloc(NULL, latches.table_bytes);
	latches.work = hjg_bench_alloc(NULL, latches.work_bytes);
	good = cpu != NULL && latches.table != NULL && latches.work != NULL;
	printf("  ns for each of %u increments: CPU uniform, 10 %%, 25 %% on one element; device the same\n", latches.nincrements);
	for (int n = 0; n <= log && good; n += 4)
	{
		latches.nelements = 1u << n;
		good = run_latches(options, runners, &latches);
	}
	runner->forget(runner->arg, latches.table);
	runner->forget(runner->arg, latches.work);
	hjg_bench_free(NULL, latches.table, latches.table_bytes);
	hjg_bench_free(NULL, latches.work, latches.work_bytes);
	hjg_threads_runner_destroy(cpu);
	return good;
}

/* ---- all of them ---- */

const HjgBenchFigure hjg_bench_further_figures[] = {
	{"000, figure 16: BasicUnit and PL", "16M rows: SHJ-PL takes 31 %, PHJ-PL 25 % less time",
		"where both parts are cores of one CPU chunks of all steps suit both alike", figure_16, false},
	{"000, figure 20: increments of an array's elements under the latch, by both processors",
		"less time for larger arrays, until they do not fit the cache (4 MB); then skewed ones take a little less than uniform ones", NULL, figure_20, false},
	{.name = NULL}
};
