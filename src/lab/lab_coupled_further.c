/*
 * lab_coupled_further.c
 *	  hjoin_gpu_lab NAME --figures: BasicUnit against PL, and steps that run by themselves.
 *
 * The former and the latches are of the appendix of He, Lu and He (VLDB 2013), "000"; scans and rows that
 * wait for memory are of section 3.1 of He, Zhang and He (VLDB 2015), "001".
 */
#include <stdio.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "model/hjg_measured.h"

/* ---- 000, figure 16: BasicUnit against PL ---- */

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

/* ---- steps by themselves ---- */

#define MAX_TURNS 15
#define MAX_LONE 16
#define QUEUED 4				/* most launches at once */
#define PIECE_ROWS 65536		/* of a launch, as in joins */

/* Both processors, and memory that they share. */
typedef struct LoneMemory
{
	HjgRunner  *cpu;
	const HjgRunner *runners[HJG_PROCESSORS];
	hjg_u8	   *table;
	size_t		table_bytes;
	hjg_u8	   *work;
	size_t		work_bytes;
} LoneMemory;

/* A step that one processor runs over all rows again and again. */
typedef struct LoneStep
{
	HjgProcessor on;
	HjgStep		step;
	hjg_u32		nrows;
	int			repeats;
	HjgStepArgs args;
	double		ns[MAX_TURNS];	/* a row; ordered when all turns are over */
	HjgBenchCounts counts;		/* of all turns */
} LoneStep;

static LoneStep lone_steps[MAX_LONE];

/* Make memory and the CPU's threads; false if there is too little. */
static bool
open_lone(LoneMemory *memory, const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, size_t table_bytes,
		  size_t work_bytes)
{
	*memory = (LoneMemory) {.table_bytes = table_bytes, .work_bytes = work_bytes};
	memory->cpu = hjg_threads_runner_create(options->config.cpu_threads > 0 ? options->config.cpu_threads : hjg_pool_nthreads(env->pool));
	memory->runners[HJG_ON_CPU] = memory->cpu;
	memory->runners[HJG_ON_DEVICE] = runner;
	memory->table = hjg_bench_alloc(NULL, table_bytes);
	memory->work = hjg_bench_alloc(NULL, work_bytes);
	return memory->cpu != NULL && memory->table != NULL && memory->work != NULL;
}

static void
close_lone(LoneMemory *memory)
{
	const HjgRunner *device = memory->runners[HJG_ON_DEVICE];

	device->forget(device->arg, memory->table);
	device->forget(device->arg, memory->work);
	hjg_bench_free(NULL, memory->table, memory->table_bytes);
	hjg_bench_free(NULL, memory->work, memory->work_bytes);
	hjg_threads_runner_destroy(memory->cpu);
}

/* Steps that a device runs on copies of its own show nothing of memory that it shares with the CPU; and arrays here are of words. */
static bool
can_run_lone(const HjgRunner *runner)
{
	if (runner->move != NULL)
		printf("  not on a device that works on copies, in memory of its own\n");
	else if (hjg_bench_key_width != HJG_KEY_WIDTH_4)
		printf("  only with keys of 4 bytes\n");
	return runner->move == NULL && hjg_bench_key_width == HJG_KEY_WIDTH_4;
}

static bool
run_lone(const LoneMemory *memory, LoneStep *lone, int turn)
{
	const HjgRunner *runner = memory->runners[lone->on];
	HjgStepLaunch launch = {
		.step = lone->step, .width = HJG_KEY_WIDTH_4, .args = lone->args,
		.table = memory->table, .table_bytes = memory->table_bytes, .work = memory->work, .work_bytes = memory->work_bytes
	};
	const int	npieces = (int) ((lone->nrows + PIECE_ROWS - 1) / PIECE_ROWS);
	HjgBenchCounts counts = hjg_bench_counts(NULL);
	const hjg_u64 started = hjg_now_ns();
	hjg_u64		tickets[QUEUED] = {0};
	bool		good = true;

	for (int i = 0; i < npieces * lone->repeats + QUEUED && good; i++)
	{
		hjg_u64    *ticket = &tickets[i % QUEUED];

		if (*ticket > 0)
			good = runner->wait(runner->arg, *ticket) == HJG_OK;
		*ticket = 0;
		launch.begin = (hjg_u32) (i % npieces) * PIECE_ROWS;
		launch.end = lone->nrows - launch.begin < PIECE_ROWS ? lone->nrows : launch.begin + PIECE_ROWS;
		if (i < npieces * lone->repeats && good)
			good = runner->launch(runner->arg, &launch, ticket) == HJG_OK;
	}
	/* the first turn warms up memory */
	lone->ns[turn < 0 ? 0 : turn] = (double) (hjg_now_ns() - started) / lone->nrows / lone->repeats;
	counts = hjg_bench_counts(&counts);
	if (turn >= 0)
		hjg_bench_counts_add(&lone->counts, &counts);
	return good;
}

/* Let the first n of the steps take turns, in random order. */
static bool
run_lone_steps(const HjgBenchOptions *options, const LoneMemory *memory, int n)
{
	int			order[MAX_LONE];
	bool		good = true;

	for (int turn = -1; turn < options->nreps && good; turn++)
	{
		hjg_lab_order(order, n);
		for (int k = 0; k < n && good; k++)
			good = run_lone(memory, &lone_steps[order[k]], turn);
	}
	for (int i = 0; i < n; i++)
		hjg_sort_measured(lone_steps[i].ns, options->nreps);
	return good;
}

static void
print_lone(const HjgBenchOptions *options, const LoneStep *lone)
{
	printf("  %8.2f (%.2f to %.2f)", lone->ns[options->nreps / 2], lone->ns[0], lone->ns[options->nreps - 1]);
}

/* ---- 000, figure 20: increments under the latch ---- */

/* The latch is step b2: an atomic addition to a bucket's header. */
#define KINDS 3
#define LATCHES (HJG_PROCESSORS * KINDS)

static const double hot_parts[KINDS] = {0, 0.1, 0.25};	/* of the increments, those of one element */

/* Draw the element of each increment, for each distribution, and empty the elements. */
static void
draw_elements(const LoneMemory *memory, hjg_u32 nelements, hjg_u32 nincrements)
{
	hjg_u64		random = 20;

	memset(memory->table, 0, memory->table_bytes);
	for (int kind = 0; kind < KINDS; kind++)
		for (hjg_u32 i = 0; i < nincrements; i++)
		{
			const bool	hot = (double) (hjg_bench_random(&random) >> 11) / 9007199254740992.0 < hot_parts[kind];

			((hjg_u32 *) memory->work)[(size_t) kind * nincrements + i] =
				hot ? nelements / 2 : (hjg_u32) ((hjg_bench_random(&random) >> 32) * nelements >> 32);
		}
}

/* Let both processors take turns on arrays of n elements; false if an increment is lost. */
static bool
run_latches(const HjgBenchOptions *options, const LoneMemory *memory, hjg_u32 nelements, hjg_u32 nincrements)
{
	hjg_u64		sum = 0;
	bool		good;

	draw_elements(memory, nelements, nincrements);
	for (int i = 0; i < LATCHES; i++)
		lone_steps[i] = (LoneStep) {
			.on = (HjgProcessor) (i / KINDS), .step = HJG_STEP_B2, .nrows = nincrements, .repeats = 1,
			.args = {.buckets_off = (hjg_u64) (i % KINDS) * nincrements * sizeof(hjg_u32), .split_row = 0xFFFFFFFFu}
		};
	good = run_lone_steps(options, memory, LATCHES);
	for (hjg_u32 i = 0; i < nelements; i++)
		sum += ((const HjgStepHeader *) memory->table)[i].ntuples;
	good = good && sum == (hjg_u64) nincrements * LATCHES * (hjg_u64) (options->nreps + 1);
	printf("  %9u elements", nelements);
	for (int i = 0; i < LATCHES && good; i++)
		print_lone(options, &lone_steps[i]);
	printf("%s\n", good ? "" : "  WRONG");
	return good;
}

static bool
figure_20(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	LoneMemory	memory;
	bool		good;

	if (!can_run_lone(runner))
		return true;
	good = open_lone(&memory, options, env, runner, sizeof(HjgStepHeader) << log, (sizeof(hjg_u32) * KINDS) << log);
	printf("  ns for each of %u increments: CPU uniform, 10 %%, 25 %% on one element; device the same\n", 1u << log);
	for (int n = 0; n <= log && good; n += 4)
		good = run_latches(options, &memory, 1u << n, 1u << log);
	close_lone(&memory);
	return good;
}

/* ---- 001, figure 2: scans in and out of the cache, and rows that wait for memory ---- */

/* A scan is step b1 of rows that are hashed: it reads a word of each row and writes another one, both in order. */
#define SCAN_ROW_BYTES 8
#define SCAN_SIZES 3

static const struct
{
	int			mb;
	int			repeats;
}			scans[SCAN_SIZES] = {{1, 100}, {16, 100}, {256, 10}};

static bool
incache_figure_2a(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	LoneMemory	memory;
	bool		good;

	(void) log;
	if (!can_run_lone(runner))
		return true;
	good = open_lone(&memory, options, env, runner, 64, (size_t) scans[SCAN_SIZES - 1].mb << 20);
	for (int i = 0; i < HJG_PROCESSORS * SCAN_SIZES; i++)
	{
		const hjg_u32 nrows = ((hjg_u32) scans[i / HJG_PROCESSORS].mb << 20) / SCAN_ROW_BYTES;

		lone_steps[i] = (LoneStep) {
			.on = (HjgProcessor) (i % HJG_PROCESSORS), .step = HJG_STEP_NUMBER, .nrows = nrows, .repeats = scans[i / HJG_PROCESSORS].repeats,
			.args = {.buckets_off = (hjg_u64) nrows * sizeof(hjg_u32), .bits = 20}
		};
	}
	good = good && run_lone_steps(options, &memory, HJG_PROCESSORS * SCAN_SIZES);
	printf("  ns a row: CPU; device\n");
	for (int i = 0; i < HJG_PROCESSORS * SCAN_SIZES && good; i += HJG_PROCESSORS)
	{
		LoneStep   *lone = &lone_steps[i];

		printf("  %3d MB", scans[i / HJG_PROCESSORS].mb);
		for (int p = 0; p < HJG_PROCESSORS; p++)
			print_lone(options, &lone[p]);
		printf("  %.2f times as fast", lone[HJG_ON_CPU].ns[options->nreps / 2] / lone[HJG_ON_DEVICE].ns[options->nreps / 2]);
		hjg_bench_counts_add(&lone[HJG_ON_CPU].counts, &lone[HJG_ON_DEVICE].counts);
		hjg_bench_counts_print(&lone[HJG_ON_CPU].counts, (double) lone->nrows * lone->repeats * options->nreps);
	}
	hjg_bench_counts_explain();
	close_lone(&memory);
	return good;
}

/* Random accesses are step p2: it reads the header of a row's bucket. */
#define GROUP_ROWS 64			/* rows that a GPU of the paper runs in lockstep */
#define GROUPED_LOG 22
#define NEAR_HEADERS 512		/* fit every cache */
#define FAR_LOG 24				/* headers of 128 MB */

static const hjg_u32 waiting_rows[] = {0, 1, 2, 4, 8, 16, 32, 64};

#define NWAITING ((int) (sizeof(waiting_rows) / sizeof(waiting_rows[0])))

static bool
incache_figure_2c(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	const size_t array_bytes = sizeof(hjg_u32) << GROUPED_LOG;
	hjg_u64		random = 2;
	LoneMemory	memory;
	bool		good;

	(void) log;
	if (!can_run_lone(runner))
		return true;
	good = open_lone(&memory, options, env, runner, sizeof(HjgStepHeader) << FAR_LOG, (NWAITING + 2) * array_bytes);
	if (good)
		memset(memory.table, 0, memory.table_bytes);
	/* the rows' buckets stand behind the two arrays that the step writes */
	for (size_t i = 0; i < (size_t) NWAITING << GROUPED_LOG && good; i++)
	{
		const bool	waits = i % GROUP_ROWS < waiting_rows[i >> GROUPED_LOG];

		((hjg_u32 *) (memory.work + 2 * array_bytes))[i] = (hjg_u32) hjg_bench_random(&random) % (waits ? 1u << FAR_LOG : NEAR_HEADERS);
	}
	for (int i = 0; i < HJG_PROCESSORS * NWAITING; i++)
		lone_steps[i] = (LoneStep) {
			.on = (HjgProcessor) (i % HJG_PROCESSORS), .step = HJG_STEP_P2, .nrows = 1u << GROUPED_LOG, .repeats = 1,
			.args = {.counts_off = array_bytes, .buckets_off = (hjg_u64) (2 + i / HJG_PROCESSORS) * array_bytes}
		};
	good = good && run_lone_steps(options, &memory, HJG_PROCESSORS * NWAITING);
	printf("  rows of %d that wait for memory; ns a row: CPU; device\n", GROUP_ROWS);
	for (int i = 0; i < HJG_PROCESSORS * NWAITING && good; i += HJG_PROCESSORS)
	{
		printf("  %2u", waiting_rows[i / HJG_PROCESSORS]);
		for (int p = 0; p < HJG_PROCESSORS; p++)
			print_lone(options, &lone_steps[i + p]);
		printf("\n");
	}
	close_lone(&memory);
	return good;
}

/* ---- all of them ---- */

const HjgBenchFigure hjg_bench_further_figures[] = {
	{"000, figure 16: BasicUnit and PL", "16M rows: SHJ-PL takes 31 %, PHJ-PL 25 % less time",
		"where both parts are cores of one CPU chunks of all steps suit both alike", figure_16, false},
	{"000, figure 20: increments of an array's elements under the latch, by both processors",
		"less time for larger arrays, until they do not fit the cache (4 MB); then skewed ones take a little less than uniform ones", NULL, figure_20, false},
	{"001, figures 2a and 2b: scans in the cache and out of it, again and again", "in the cache the GPU is about 5 times as fast as the CPU, out of it twice",
		"where both parts are cores of one CPU they gain alike from a cache; a scan here writes as much as it reads", incache_figure_2a, true},
	{"001, figure 2c: rows of a group that wait for memory", "one is enough to slow its whole group down",
		"cores do not run rows in lockstep, so the time grows with each row that waits", incache_figure_2c, true},
	{.name = NULL}
};
