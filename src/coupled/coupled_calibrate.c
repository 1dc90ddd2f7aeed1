/*
 * coupled_calibrate.c
 *	  Unit costs of the steps, measured in joins of generated rows.
 *
 * Each step runs on one processor alone and on both at once, over tables of several sizes; its cost is the
 * mean time a row over several runs.  So computation and memory stalls are measured together (the paper,
 * section 4.2, profiles instructions, calibrates stalls separately, and adds them up).
 *
 * The fixed cost of a piece of the device is taken from the same joins, not from consecutive launches: a
 * driver whose threads have just run accepts a launch several times faster than one whose threads sleep,
 * as they do between the pieces of joins.
 *
 * Joins of all sizes and methods alternate, so that other load on the machine affects all of them alike.
 */
#include <math.h>
#include <stdlib.h>

#include "coupled/hjg_coupled_costs.h"
#include "coupled/hjg_coupled_internal.h"
#include "model/hjg_measured.h"

#define NLAUNCHES 32
#define PIECE_ROWS 1024
#define BUILD_ORDER 2654435761u
#define PROBE_ORDER 2246822507u

/* Runs of each size; small sizes have more, because other load disturbs them more. */
static const int nruns_of[HJG_STEP_SIZES] = {HJG_CALIBRATION_RUNS, 21, 13, 8, 3, 1};

/* Least number of rounds; in each round every size has its share of the runs. */
#define LEAST_ROUNDS 9

/* Fill in the keys [0, nrows), each once, in an order that depends on the (odd) multiplier. */
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

/* Compute the time of one of n pieces; infinite without pieces. */
static double
each_ns(hjg_u64 ns, hjg_u64 n)
{
	return n > 0 ? (double) ns / (double) n : HUGE_VAL;
}

/* Sample the fixed time of pieces of the device, from the runner's times before and after a join. */
static void
sample_pieces(const HjgRunnerTimes *before, const HjgRunnerTimes *after, const HjgCoupledStats *stats, HjgCoupledSample *sample)
{
	sample->gap_ns = each_ns(after->gap_ns - before->gap_ns, after->nfollowed - before->nfollowed);
	sample->begin_ns = each_ns(after->begin_ns - before->begin_ns, after->nbegun - before->nbegun);
	sample->wake_ns = each_ns(stats->queue_ns[0], stats->nqueued[0]);
	sample->call_ns = each_ns(stats->queue_ns[1], stats->nqueued[1]);
}

static HjgCopySample
copy_sample(const HjgCopyTimes *times)
{
	return (HjgCopySample) {.copies = {.n = (double) times->n, .bytes = (double) times->bytes}, .ns = (double) times->ns};
}

/* Measure a join of nrows with nrows. */
static HjgStatus
measure_join(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, int width,
		const HjgStepCalibration *scratch, hjg_u32 nrows,
		const double own_ns[HJG_PROCESSORS], HjgCoupledSample *sample)
{
	const HjgSegment segment = {.keys = scratch->keys, .nrows = nrows};
	HjgPair    *page = scratch->pairs;
	HjgResult	result = {.pages = &page, .npages = 1, .page_pairs = nrows};
	HjgCoupledStats built;
	HjgCoupledStats stats;
	HjgRunnerTimes before;
	HjgRunnerTimes after;
	HjgCoupled *join;
	HjgStatus	status;

	runner->times(runner->arg, &before);
	status = hjg_coupled_build(env, config, runner, width, HJG_MATCH_ALL, &segment, 1, &join);
	if (status != HJG_OK)
		return status;
	hjg_coupled_stats(join, &built);
	for (hjg_u32 row = 0; status == HJG_OK && row < nrows; row += HJG_MAX_PROBE_ROWS)
	{
		const hjg_u32 n = nrows - row < HJG_MAX_PROBE_ROWS ? nrows - row : HJG_MAX_PROBE_ROWS;
		const HjgSegment probe = {.keys = scratch->probe_keys + (size_t) row * (size_t) width, .nrows = n};
		HjgCursor	cursor = {0, 0, 0};

		while (status == HJG_OK && cursor.row < n)
			status = hjg_coupled_probe(join, &probe, 1, &cursor, &result);
	}
	hjg_coupled_stats(join, &stats);
	runner->times(runner->arg, &after);
	sample_pieces(&before, &after, &stats, sample);
	sample->called = (HjgCopySample) {.ns = (double) stats.call_ns};
	for (int i = 0; i < HJG_STEP_COUNT; i++)
	{
		sample->called.copies.n += (double) stats.copied[HJG_ON_DEVICE][i].n;
		sample->called.copies.bytes += (double) stats.copied[HJG_ON_DEVICE][i].bytes;
	}
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		sample->moved[p] = copy_sample(&stats.moved[p]);
		for (int i = 0; i < HJG_STEP_COUNT; i++)
		{
			sample->busy_ns[p][i] = (double) stats.step_ns[p][i];
			sample->rows[p][i] = (double) stats.step_rows[p][i];
			sample->taken[p][i] = (double) stats.step_taken[p][i];
			sample->copied[p][i] = copy_sample(&stats.copied[p][i]);
			sample->ns[p][i] = stats.step_rows[p][i] == 0 ? HUGE_VAL :
				fmax(((double) stats.step_ns[p][i] - (double) stats.copied[p][i].ns - (double) stats.step_pieces[p][i] * own_ns[p]) /
					 (double) stats.step_rows[p][i], HJG_LEAST_STEP_NS);
		}
	}
	sample->build_rest_ns = fmax((double) (built.join.partition_ns + built.join.build_ns) - (double) built.series_ns, 0) / nrows;
	sample->probe_rest_ns = fmax((double) (stats.join.partition_ns + stats.join.probe_ns) - (double) built.join.partition_ns -
								 (double) (stats.series_ns - built.series_ns), 0) / nrows;
	hjg_coupled_free(join);
	return status;
}

static void
run_nothing(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	(void) arg;
	(void) begin;
	(void) end;
	(void) slot;
}

/* Measure a launch of very few rows: the device's time, and the time until its end is noticed. */
static HjgStatus
time_launch(const HjgEnv *env, const HjgRunner *runner, const HjgStepLaunch *launch, double *busy_ns, double *seen_ns)
{
	const hjg_u64 started = hjg_now_ns();
	hjg_u64		ticket = 0;
	HjgRunnerTimes before;
	HjgRunnerTimes after;
	HjgStatus	status;

	runner->times(runner->arg, &before);
	status = runner->launch(runner->arg, launch, &ticket);
	if (status == HJG_OK)
		status = hjg_series_await(env, runner, ticket);
	runner->times(runner->arg, &after);
	*busy_ns = (double) (after.busy_ns - before.busy_ns);
	*seen_ns = fmax((double) (hjg_now_ns() - started) - *busy_ns - (double) (after.begin_ns - before.begin_ns), 0);
	return status;
}

/*
 * Measure the fixed cost of a piece, which does not depend on the size of the join: on the device with a
 * few rows for each work group, on the CPU with an empty unit for each thread.
 */
static HjgStatus
measure_pieces(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, int width,
			   const HjgStepCalibration *scratch, HjgStepCosts *costs, double *seen_ns)
{
	const HjgSegment segment = {.keys = scratch->keys, .nrows = PIECE_ROWS};
	double		busy_ns[NLAUNCHES];
	double		seen[NLAUNCHES];
	double		piece_ns[NLAUNCHES];
	HjgCoupled *join;
	HjgStatus	status = hjg_coupled_build(env, config, runner, width, HJG_MATCH_ALL, &segment, 1, &join);
	HjgStepLaunch launch;

	if (status != HJG_OK)
		return status;
	launch = hjg_series_launch(join, &join->part->args, HJG_STEP_NUMBER);
	hjg_coupled_lay_work(join, PIECE_ROWS, 0, &launch.args);
	launch.end = PIECE_ROWS;
	launch.args.bits = 4;
	launch.args.first_worker = HJG_COUPLED_CPU_WORKERS;
	hjg_pool_hold(env->pool, join->cpu_threads - 1);
	for (int i = 0; status == HJG_OK && i < NLAUNCHES; i++)
	{
		hjg_u64		started;

		status = time_launch(env, runner, &launch, &busy_ns[i], &seen[i]);
		started = hjg_now_ns();
		if (status == HJG_OK)
			status = hjg_coupled_on_cpu(join, 0, (hjg_u32) join->cpu_threads, 1, run_nothing, NULL);
		piece_ns[i] = (double) (hjg_now_ns() - started);
	}
	hjg_pool_hold(env->pool, 1 - join->cpu_threads);
	if (status == HJG_OK)
	{
		costs->busy_ns = hjg_median(busy_ns, NLAUNCHES);
		costs->piece_ns = hjg_median(piece_ns, NLAUNCHES);
		*seen_ns = hjg_median(seen, NLAUNCHES);
	}
	hjg_coupled_free(join);
	return status;
}

/*
 * The least share of either processor in joins on both, and the range over which a common ratio varies
 * between runs.
 */
#define LEAST_RATIO 0.1
#define RATIO_SPREAD 0.3

/* Draw a number from 0 to 1; the sequence is the same in each calibration. */
static double
drawn_number(int run, int i)
{
	return (double) (hjg_mix32(HJG_HASH_NO_SEED, (hjg_u32) (run * (HJG_STEP_COUNT + 1) + i + 1)) >> 8) / (1 << 24);
}

/* Compute the ratio at which both processors end at the same time if they do not slow each other down. */
static double
even_ratio(const HjgCoupledSample *cpu, const HjgCoupledSample *device)
{
	double		cpu_ns = 0;
	double		device_ns = 0;

	for (int i = 0; i < HJG_STEP_COUNT; i++)
	{
		cpu_ns += cpu->busy_ns[HJG_ON_CPU][i];
		device_ns += device->busy_ns[HJG_ON_DEVICE][i];
	}
	return cpu_ns + device_ns > 0 ? device_ns / (cpu_ns + device_ns) : 0.5;
}

/*
 * Set the CPU's shares of the steps for a run of a method; cpu and device: the samples of the run on one
 * processor.
 */
static void
set_ratios(HjgCalibrationMethod method, int run, const HjgCoupledSample *cpu, const HjgCoupledSample *device, HjgCoupledConfig *config)
{
	const double one = even_ratio(cpu, device) + RATIO_SPREAD * (drawn_number(run, HJG_STEP_COUNT) - 0.5);

	for (int i = 0; i < HJG_STEP_COUNT; i++)
		config->fixed_ratios[i] = method == HJG_METHOD_CPU ? 1 : method == HJG_METHOD_DEVICE ? 0 :
			method == HJG_METHOD_ONE_RATIO ? fmin(fmax(one, LEAST_RATIO), 1 - LEAST_RATIO) :
			LEAST_RATIO + (1 - 2 * LEAST_RATIO) * drawn_number(run, i);
}

/* Measure joins of nrows with nrows, once by each method. */
static HjgStatus
measure_methods(const HjgEnv *env, HjgCoupledConfig *config, const HjgRunner *runner, int width,
				const HjgStepCalibration *scratch, hjg_u32 nrows, const double own_ns[HJG_PROCESSORS], int run, HjgCoupledSamples samples)
{
	HjgStatus	status = HJG_OK;

	fill_keys(width, scratch->keys, nrows, BUILD_ORDER);
	fill_keys(width, scratch->probe_keys, nrows, PROBE_ORDER);
	for (int i = 0; i < 2 * HJG_CALIBRATION_METHODS && status == HJG_OK; i++)
	{
		HjgCoupledSample (*const methods)[HJG_CALIBRATION_RUNS] = samples[i % 2];
		const HjgCalibrationMethod method = (HjgCalibrationMethod) (i / 2);

		set_ratios(method, run, &methods[HJG_METHOD_CPU][run], &methods[HJG_METHOD_DEVICE][run], config);
		config->strategy = i % 2 ? HJG_COUPLED_PHJ_PL : HJG_COUPLED_SHJ_PL;
		status = measure_join(env, config, runner, width, scratch, nrows, own_ns, &methods[method][run]);
	}
	return status;
}

/*
 * Measure all steps at all sizes.  Methods and sizes alternate, so that memory is in the caches of either
 * processor, as in joins of different ratios.  If the rounds take too long, fewer suffice.
 */
static HjgStatus
measure_sizes(const HjgEnv *env, HjgCoupledConfig *config, const HjgRunner *runner, int width,
			  const HjgStepCalibration *scratch, double seen_ns, HjgStepCosts *costs)
{
	static const int logs[HJG_STEP_SIZES] = HJG_STEP_LOGS;
	/* part of the steps' times, and also of a piece's */
	const double own_ns[HJG_PROCESSORS] = {costs->piece_ns, costs->busy_ns};
	const size_t bytes = sizeof(HjgCoupledSamples) * (size_t) costs->nsizes;
	HjgCoupledSamples *samples = env->alloc(env->arg, bytes);
	HjgStatus	status = samples == NULL ? HJG_ERR_MEMORY : HJG_OK;
	const hjg_u64 started = hjg_now_ns();
	int			ndone[HJG_STEP_SIZES] = {0};

	for (int round = 1; round <= HJG_CALIBRATION_RUNS && status == HJG_OK; round++)
	{
		if (round > LEAST_ROUNDS && config->calibration_ns > 0 && hjg_now_ns() - started > config->calibration_ns)
			break;
		for (int size = 0; size < costs->nsizes && status == HJG_OK; size++)
			if (ndone[size] * HJG_CALIBRATION_RUNS < round * nruns_of[size])
				status = measure_methods(env, config, runner, width, scratch, 1u << logs[size], own_ns, ndone[size]++, samples[size]);
	}
	if (status == HJG_OK)
		hjg_coupled_take_costs(samples, ndone, seen_ns, costs);
	if (samples != NULL)
		env->free(env->arg, samples, bytes);
	return status;
}

HjgStatus
hjg_coupled_calibrate(const HjgEnv *env, const HjgCoupledConfig *with, const HjgRunner *runner, int key_width,
					  int nsizes, HjgStepCosts *costs)
{
	static const int logs[HJG_STEP_SIZES] = HJG_STEP_LOGS;
	const hjg_u32 most = 1u << logs[nsizes - 1];
	const size_t key_bytes = (size_t) most * (size_t) key_width;
	HjgCoupledConfig config = *with;
	HjgStatus	status = HJG_OK;
	HjgStepCalibration scratch;
	double		seen_ns = 0;

	config.costs = NULL;
	config.pipeline = HJG_PIPELINE_E;
	config.separate_tables = config.grouping = false;
	config.bus_bytes_per_ns = 0;
	scratch.block.bytes = 2 * key_bytes + (size_t) most * sizeof(HjgPair) + HJG_COUPLED_ALIGN;
	scratch.block.ptr = env->alloc(env->arg, scratch.block.bytes);
	if (scratch.block.ptr == NULL)
		return HJG_ERR_MEMORY;
	scratch.keys = (hjg_u8 *) (((size_t) scratch.block.ptr + HJG_COUPLED_ALIGN - 1) / HJG_COUPLED_ALIGN * HJG_COUPLED_ALIGN);
	scratch.probe_keys = scratch.keys + key_bytes;
	scratch.pairs = (HjgPair *) (scratch.probe_keys + key_bytes);
	*costs = (HjgStepCosts) {.nsizes = nsizes};
	costs->unpack_ns[HJG_ON_DEVICE] = HUGE_VAL;
	fill_keys(key_width, scratch.keys, PIECE_ROWS, BUILD_ORDER);
	status = measure_pieces(env, &config, runner, key_width, &scratch, costs, &seen_ns);
	if (status == HJG_OK)
		status = measure_sizes(env, &config, runner, key_width, &scratch, seen_ns, costs);
	fill_keys(key_width, scratch.keys, most, BUILD_ORDER);
	if (status == HJG_OK)
		status = hjg_coupled_calibrate_feed(env, &config, runner, key_width, &scratch, logs[nsizes - 1],
											with->pipeline >= HJG_PIPELINE_CPDE_C && runner->move == NULL, costs);
	env->free(env->arg, scratch.block.ptr, scratch.block.bytes);
	return status;
}
