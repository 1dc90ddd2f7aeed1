/*
 * coupled_feed_calibrate.c
 *	  Unit costs of in-cache co-processing: unpacking, and fetching ahead.
 */
#include <math.h>

#include "coupled/hjg_coupled_internal.h"
#include "model/hjg_measured.h"

#define NRUNS 3
#define NSTARTS 15

/* Rows that are unpacked to measure their time. */
#define UNPACK_ROWS (16 * HJG_PACK_BLOCK_ROWS)

/*
 * Measure unpacking: on the device, a batch under NS by all work groups; on the CPU's threads, as if they
 * did not disturb each other.
 */
static HjgStatus
measure_unpack(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, int width,
			   const HjgStepCalibration *scratch, bool on_device, HjgStepCosts *costs)
{
	const HjgSegment segment = {.keys = scratch->keys, .nrows = 64};
	const HjgPackPlan plans[2] = {{.leaf = HJG_PACK_NS}, {.leaf = HJG_PACK_NS}};
	hjg_u8	   *packed = (hjg_u8 *) scratch->pairs;
	HjgPackCosts unit = {.check_ns = 0};
	size_t		bytes = 0;
	HjgCoupled *join;
	HjgStepLaunch launch;
	HjgStatus	status = hjg_coupled_build(env, config, runner, width, HJG_MATCH_ALL, &segment, 1, &join);
	hjg_u64		ticket;

	if (status != HJG_OK)
		return status;
	join->pipe.was_rows = UNPACK_ROWS;
	join->units.device_d = runner->nworkers;
	status = hjg_pack(env, width, plans, scratch->keys, UNPACK_ROWS, packed, &bytes);
	if (status == HJG_OK)
		status = hjg_pack_calibrate(env, &unit);
	if (status == HJG_OK)
	{
		HjgStepArgs args = join->part->args;

		status = hjg_region_reserve(join, &join->work, hjg_coupled_lay_work(join, 64, 0, &args));
		launch = hjg_series_launch(join, &args, HJG_STEP_UNPACK);
	}
	for (int i = 0; status == HJG_OK && on_device && i < NRUNS; i++)
	{
		const hjg_u64 started = hjg_now_ns();

		launch.packed = packed;
		launch.packed_bytes = bytes;
		launch.args.unpack_off = join->pipe.place.keys_off[0];
		launch.args.unpack_scratch_off = join->pipe.place.device_scratch_off;
		launch.args.unpack_end = UNPACK_ROWS / HJG_PACK_BLOCK_ROWS;
		launch.args.unpack_workers = (hjg_u32) runner->nworkers;
		status = runner->launch(runner->arg, &launch, &ticket);
		if (status == HJG_OK)
			status = hjg_series_await(env, runner, ticket);
		costs->unpack_ns[HJG_ON_DEVICE] = fmin(costs->unpack_ns[HJG_ON_DEVICE],
											   fmax((double) (hjg_now_ns() - started) - costs->launch_ns[0][0], 1) / UNPACK_ROWS);
	}
	costs->unpack_ns[HJG_ON_CPU] = hjg_pack_ncolumns(width) *
		(unit.leaf_ns[HJG_PACK_NS] + unit.check_ns * (double) bytes / UNPACK_ROWS) / join->cpu_threads;
	if (!on_device)
		costs->unpack_ns[HJG_ON_DEVICE] = costs->unpack_ns[HJG_ON_CPU];
	hjg_coupled_free(join);
	return status;
}

/*
 * Measure the device's time a row for the steps with random access, with or without a fetcher; and the
 * fetcher's rate.
 */
static HjgStatus
measure_misses(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, int width,
			   const HjgStepCalibration *scratch, hjg_u32 nrows, double *ns, double *fetch_rate)
{
	static const HjgStep steps[] = {HJG_STEP_B2, HJG_STEP_B3, HJG_STEP_B4};
	const HjgSegment segment = {.keys = scratch->keys, .nrows = nrows};
	HjgCoupledStats stats;
	HjgCoupled *join;
	HjgStatus	status = hjg_coupled_build(env, config, runner, width, HJG_MATCH_ALL, &segment, 1, &join);
	double		sum = 0;

	if (status != HJG_OK)
		return status;
	hjg_coupled_stats(join, &stats);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		sum += stats.step_rows[HJG_ON_DEVICE][steps[i]] > 0 ?
			(double) stats.step_ns[HJG_ON_DEVICE][steps[i]] / (double) stats.step_rows[HJG_ON_DEVICE][steps[i]] : 0;
	*ns = fmin(*ns, sum);
	if (join->pipe.fetcher != NULL && stats.fetched_rows > 0)
		*fetch_rate = fmax(*fetch_rate, (double) stats.fetched_rows * HJG_COUPLED_LINE_BYTES /
						   (double) hjg_threads_runner_busy_ns(join->pipe.fetcher));
	hjg_coupled_free(join);
	return status;
}

/*
 * Measure P: how fast one thread fetches the memory that building a large table touches, and how much of
 * the device's misses that saves.  The smallest size gives the time of the same pieces in cache.
 */
static HjgStatus
measure_fetch(const HjgEnv *env, const HjgCoupledConfig *with, const HjgRunner *runner, int width,
			  const HjgStepCalibration *scratch, hjg_u32 nrows, HjgStepCosts *costs)
{
	const double cached_ns = costs->alone_ns[0][0][HJG_ON_DEVICE][HJG_STEP_B2] +
		costs->alone_ns[0][0][HJG_ON_DEVICE][HJG_STEP_B3] + costs->alone_ns[0][0][HJG_ON_DEVICE][HJG_STEP_B4];
	HjgCoupledConfig config = *with;
	HjgStatus	status = HJG_OK;
	double		ns[2] = {HUGE_VAL, HUGE_VAL};

	config.strategy = HJG_COUPLED_SHJ_PL;
	for (int i = 0; i < HJG_STEP_COUNT; i++)
		config.fixed_ratios[i] = 0;
	for (int run = 0; status == HJG_OK && run < 2 * NRUNS; run++)
	{
		config.pipeline = run % 2 ? HJG_PIPELINE_PE : HJG_PIPELINE_E;
		/* pieces of the same size as with a fetcher */
		config.chunk_rows = (hjg_u32) (config.was_bytes / HJG_COUPLED_LINE_BYTES);
		status = measure_misses(env, &config, runner, width, scratch, nrows, &ns[run % 2], &costs->fetch_bytes_per_ns);
	}
	if (status == HJG_OK && ns[0] > cached_ns)
		costs->fetch_gain = fmin(fmax((ns[0] - ns[1]) / (ns[0] - cached_ns), 0), 1);
	return status;
}

/* Measure the start of a join's set of threads; it is complete when the threads can be ended. */
static HjgStatus
time_start(int nthreads, double *median_ns)
{
	double		ns[NSTARTS];

	for (int i = 0; i < NSTARTS; i++)
	{
		const hjg_u64 started = hjg_now_ns();
		HjgRunner  *threads = hjg_threads_runner_create(nthreads);

		if (threads == NULL)
			return HJG_ERR_MEMORY;
		hjg_threads_runner_destroy(threads);
		ns[i] = (double) (hjg_now_ns() - started);
	}
	*median_ns = hjg_median(ns, NSTARTS);
	return HJG_OK;
}

/*
 * Measure a set of one thread, and a set of the most threads that may be wanted, which gives the time of
 * each further thread.
 */
static HjgStatus
measure_start(int cpu_threads, HjgStepCosts *costs)
{
	const int	most = cpu_threads > 2 ? cpu_threads - 1 : 2;
	double		most_ns;
	HjgStatus	status = time_start(1, &costs->start_ns);

	if (status == HJG_OK)
		status = time_start(most, &most_ns);
	if (status == HJG_OK)
		costs->thread_ns = fmax(most_ns - costs->start_ns, 0) / (most - 1);
	return status;
}

HjgStatus
hjg_coupled_calibrate_feed(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, int key_width,
						   const HjgStepCalibration *scratch, int log, bool unpacks, HjgStepCosts *costs)
{
	HjgStatus	status = measure_start(config->cpu_threads > 0 ? config->cpu_threads : hjg_pool_nthreads(env->pool), costs);

	if (status == HJG_OK)
		status = measure_fetch(env, config, runner, key_width, scratch, 1u << (log < 22 ? log : 22), costs);
	return status == HJG_OK ? measure_unpack(env, config, runner, key_width, scratch, unpacks, costs) : status;
}
