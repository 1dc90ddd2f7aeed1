/*
 * engine_coupled_calibrate.c
 *	  Unit costs of the steps, by joins of made-up rows.
 *
 * Each step runs on one processor alone, over a table that fits a cache and over one
 * that does not; its cost is the least time a row of some runs.  So computation and
 * memory stalls are measured together (section 4.2 of the paper profiles
 * instructions and calibrates stalls apart, and adds them up).
 */
#include <math.h>

#include "engine/hjg_coupled_internal.h"

#define NRUNS 3
#define NLAUNCHES 32
#define NEVER_NS 1e6			/* a row */
#define BUILD_ORDER 2654435761u
#define PROBE_ORDER 2246822507u

/* Keys of [0, nrows), each once, in an order that depends on the (odd) multiplier. */
static void
fill_keys(int width, hjg_u8 *keys, hjg_u32 nrows, hjg_u32 multiplier)
{
	for (hjg_u32 i = 0; i < nrows; i++)
	{
		/* a bijection, since nrows is a power of two */
		const hjg_u64 words[2] = {(i * multiplier) & (nrows - 1), 0};

		memcpy(keys + (size_t) i * (size_t) width, words, (size_t) width);
	}
}

typedef struct Scratch
{
	HjgBlock	block;
	hjg_u8	   *keys;
	hjg_u8	   *probe_keys;		/* in another order: a probe must not follow the build */
	HjgPair    *pairs;
} Scratch;

/* One join of nrows with nrows; least times a row so far, less the launch, into ns. */
static HjgStatus
measure(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, int width,
		const Scratch *scratch, hjg_u32 nrows, double launch_ns, double ns[HJG_PROCESSORS][HJG_STEP_COUNT])
{
	const HjgSegment segment = {.keys = scratch->keys, .nrows = nrows};
	const HjgSegment probe = {.keys = scratch->probe_keys, .nrows = nrows};
	HjgPair    *page = scratch->pairs;
	HjgResult	result = {.pages = &page, .npages = 1, .page_pairs = nrows};
	HjgCursor	cursor = {0, 0, 0};
	HjgCoupledStats stats;
	HjgCoupled *join;
	HjgStatus	status = hjg_coupled_build(env, config, runner, width, HJG_MATCH_ALL, &segment, 1, &join);

	while (status == HJG_OK && cursor.row < nrows)
		status = hjg_coupled_probe(join, &probe, 1, &cursor, &result);
	if (status == HJG_OK)
	{
		hjg_coupled_stats(join, &stats);
		for (int p = 0; p < HJG_PROCESSORS; p++)
			for (int i = 0; i < HJG_STEP_COUNT; i++)
				if (stats.step_rows[p][i] > 0)
				{
					const double nlaunches = (double) stats.step_rows[p][i] / nrows;
					const double step_ns = (double) stats.step_ns[p][i] - (p == HJG_ON_DEVICE ? nlaunches * launch_ns : 0);

					ns[p][i] = fmin(ns[p][i], fmax(step_ns / (double) stats.step_rows[p][i], 0.05));
				}
	}
	hjg_coupled_free(join);
	return status;
}

/* What a launch costs beside its rows: one of 64 rows, from the call to the end. */
static HjgStatus
measure_launch(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, int width,
			   const Scratch *scratch, double *launch_ns)
{
	const HjgSegment segment = {.keys = scratch->keys, .nrows = 64};
	HjgCoupled *join;
	HjgStatus	status = hjg_coupled_build(env, config, runner, width, HJG_MATCH_ALL, &segment, 1, &join);
	HjgStepLaunch launch;

	if (status != HJG_OK)
		return status;
	launch = (HjgStepLaunch) {.step = HJG_STEP_NUMBER, .width = width, .end = 64, .args = join->args,
		.table = join->table.base, .table_bytes = join->table.bytes,
		.work = join->work.base, .work_bytes = join->work.bytes};
	hjg_coupled_lay_work(join, 64, false, &launch.args);
	launch.args.bits = 4;
	launch.args.first_worker = HJG_COUPLED_CPU_WORKERS;
	for (int i = 0; status == HJG_OK && i < NLAUNCHES; i++)
	{
		hjg_u64		started = hjg_now_ns();
		hjg_u64		ticket;

		status = runner->launch(runner->arg, &launch, &ticket);
		if (status == HJG_OK)
			status = runner->wait(runner->arg, ticket);
		*launch_ns = fmin(*launch_ns, (double) (hjg_now_ns() - started));
	}
	hjg_coupled_free(join);
	return status;
}

/*
 * A step that a processor could not run, or not on so many rows, has no cost. The model adds costs
 * up and multiplies them by nothing, so a number must stand there: the one for fewer rows, since joins of
 * more will be given up as this one was, or one that no ratio but 1 survives.
 */
static void
fill_gaps(HjgStepCosts *costs)
{
	for (int p = 0; p < HJG_PROCESSORS; p++)
		for (int i = 0; i < HJG_STEP_COUNT; i++)
		{
			if (isinf(costs->small_ns[p][i]))
				costs->small_ns[p][i] = NEVER_NS;
			if (isinf(costs->large_ns[p][i]))
				costs->large_ns[p][i] = costs->small_ns[p][i];
		}
}

HjgStatus
hjg_coupled_calibrate(const HjgEnv *env, const HjgCoupledConfig *with, const HjgRunner *runner, int key_width,
					  HjgStepCosts *costs)
{
	const hjg_u32 large = 1u << HJG_STEP_LARGE_LOG;
	const size_t key_bytes = (size_t) large * (size_t) key_width;
	HjgCoupledConfig config = *with;
	HjgStatus	status = HJG_OK;
	Scratch		scratch;

	config.costs = NULL;
	config.separate_tables = config.grouping = false;
	config.bus_bytes_per_ns = 0;
	/* a step is one launch, and the next one begins when it is over */
	config.queue_depth = 1;
	config.chunk_rows = config.window_rows = large;
	scratch.block.bytes = 2 * key_bytes + (size_t) large * sizeof(HjgPair) + HJG_COUPLED_ALIGN;
	scratch.block.ptr = env->alloc(env->arg, scratch.block.bytes);
	if (scratch.block.ptr == NULL)
		return HJG_ERR_MEMORY;
	scratch.keys = (hjg_u8 *) (((size_t) scratch.block.ptr + HJG_COUPLED_ALIGN - 1) / HJG_COUPLED_ALIGN * HJG_COUPLED_ALIGN);
	scratch.probe_keys = scratch.keys + key_bytes;
	scratch.pairs = (HjgPair *) (scratch.probe_keys + key_bytes);
	costs->launch_ns = HUGE_VAL;
	for (int p = 0; p < HJG_PROCESSORS; p++)
		for (int i = 0; i < HJG_STEP_COUNT; i++)
			costs->small_ns[p][i] = costs->large_ns[p][i] = HUGE_VAL;
	fill_keys(key_width, scratch.keys, 64, BUILD_ORDER);
	status = measure_launch(env, &config, runner, key_width, &scratch, &costs->launch_ns);
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		for (int i = 0; i < HJG_STEP_COUNT; i++)
			config.fixed_ratios[i] = p == HJG_ON_CPU;
		for (int is_large = 0; is_large <= 1; is_large++)
		{
			const hjg_u32 nrows = is_large ? large : 1u << HJG_STEP_SMALL_LOG;

			fill_keys(key_width, scratch.keys, nrows, BUILD_ORDER);
			fill_keys(key_width, scratch.probe_keys, nrows, PROBE_ORDER);
			for (int run = 0; status == HJG_OK && run < 2 * NRUNS; run++)
			{
				config.strategy = run % 2 ? HJG_COUPLED_PHJ_PL : HJG_COUPLED_SHJ_PL;
				status = measure(env, &config, runner, key_width, &scratch, nrows, costs->launch_ns,
								 is_large ? costs->large_ns : costs->small_ns);
			}
		}
	}
	fill_gaps(costs);
	env->free(env->arg, scratch.block.ptr, scratch.block.bytes);
	return status;
}
