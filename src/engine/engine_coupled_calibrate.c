/*
 * engine_coupled_calibrate.c
 *	  Unit costs of the steps, by joins of made-up rows.
 *
 * Each step runs on one processor alone, and on both at once, over tables of several sizes; its
 * cost is the median time a row of some runs.  So computation and
 * memory stalls are measured together (section 4.2 of the paper profiles
 * instructions and calibrates stalls apart, and adds them up).
 */
#include <math.h>
#include <stdlib.h>

#include "engine/hjg_coupled_internal.h"
#include "model/hjg_measured.h"

#define NLAUNCHES 32
#define NQUEUED 8
#define PIECE_ROWS 1024

/* Runs for each size: the smaller, the more they are disturbed. */
static const int nruns_of[HJG_STEP_SIZES] = {9, 9, 7, 3, 3, 1};
#define MOST_RUNS 9
#define NEVER_NS 1e6			/* a row */
#define LEAST_NS 0.01
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

/* What one join says of the steps that it is asked about. */
typedef struct Sample
{
	double		ns[HJG_PROCESSORS][HJG_STEP_COUNT]; /* a row; infinite where the processor had none */
	double		build_rest_ns;
	double		probe_rest_ns;
} Sample;

/* One join of nrows with nrows. */
static HjgStatus
measure(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, int width,
		const HjgCalibration *scratch, hjg_u32 nrows,
		const double own_ns[HJG_PROCESSORS], Sample *sample)
{
	const HjgSegment segment = {.keys = scratch->keys, .nrows = nrows};
	HjgPair    *page = scratch->pairs;
	HjgResult	result = {.pages = &page, .npages = 1, .page_pairs = nrows};
	HjgCoupledStats built;
	HjgCoupledStats stats;
	HjgCoupled *join;
	HjgStatus	status = hjg_coupled_build(env, config, runner, width, HJG_MATCH_ALL, &segment, 1, &join);

	for (int p = 0; p < HJG_PROCESSORS; p++)
		for (int i = 0; i < HJG_STEP_COUNT; i++)
			sample->ns[p][i] = HUGE_VAL;
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
	for (int p = 0; p < HJG_PROCESSORS; p++)
		for (int i = 0; i < HJG_STEP_COUNT; i++)
			if (stats.step_rows[p][i] > 0)
				sample->ns[p][i] = fmax(((double) stats.step_ns[p][i] - (double) stats.step_pieces[p][i] * own_ns[p]) /
										(double) stats.step_rows[p][i], LEAST_NS);
	sample->build_rest_ns = fmax((double) (built.join.partition_ns + built.join.build_ns) - (double) built.series_ns, 0) / nrows;
	sample->probe_rest_ns = fmax((double) (stats.join.partition_ns + stats.join.probe_ns) - (double) built.join.partition_ns -
								 (double) (stats.series_ns - built.series_ns), 0) / nrows;
	hjg_coupled_free(join);
	return status;
}

static void
nothing(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	(void) arg;
	(void) begin;
	(void) end;
	(void) slot;
}

/* So many launches in a row; *call_ns: of the first call, *total_ns: until all have ended, *busy_ns: a launch. */
static HjgStatus
time_launches(const HjgEnv *env, const HjgRunner *runner, const HjgStepLaunch *launch, int n, double *call_ns, double *total_ns,
			  double *busy_ns)
{
	const hjg_u64 started = hjg_now_ns();
	const hjg_u64 was_busy_ns = runner->busy_ns(runner->arg);
	hjg_u64		ticket = 0;
	HjgStatus	status = HJG_OK;

	for (int i = 0; i < n && status == HJG_OK; i++)
	{
		status = runner->launch(runner->arg, launch, &ticket);
		if (i == 0)
			*call_ns = (double) (hjg_now_ns() - started);
	}
	if (status == HJG_OK)
		status = hjg_series_await(env, runner, ticket);
	*total_ns = (double) (hjg_now_ns() - started);
	*busy_ns = (double) (runner->busy_ns(runner->arg) - was_busy_ns) / n;
	return status;
}

/*
 * What a piece costs beside its rows.  On the device: one of a few rows for each of its groups, alone, from the call to the end, and
 * behind others, which hide the calls; on the CPU a unit of nothing for each thread.
 */
static HjgStatus
measure_pieces(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, int width,
			   const HjgCalibration *scratch, HjgStepCosts *costs)
{
	const HjgSegment segment = {.keys = scratch->keys, .nrows = PIECE_ROWS};
	/* a device with memory of its own has one launch at a time */
	const int	nqueued = runner->fetch != NULL ? 1 : NQUEUED;
	double		call_ns[NLAUNCHES];
	double		alone_ns[NLAUNCHES];
	double		queued_ns[NLAUNCHES];
	double		busy_ns[NLAUNCHES];
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
		double		first_ns;
		hjg_u64		ended;

		status = time_launches(env, runner, &launch, nqueued, &first_ns, &queued_ns[i], &busy_ns[i]);
		if (status == HJG_OK)
			status = time_launches(env, runner, &launch, 1, &call_ns[i], &alone_ns[i], &first_ns);
		ended = hjg_now_ns();
		if (status == HJG_OK)
			status = hjg_coupled_on_cpu(join, 0, (hjg_u32) join->cpu_threads, 1, nothing, NULL);
		piece_ns[i] = (double) (hjg_now_ns() - ended);
	}
	hjg_pool_hold(env->pool, 1 - join->cpu_threads);
	if (status == HJG_OK)
	{
		const double one_ns = hjg_median(alone_ns, NLAUNCHES);

		costs->busy_ns = hjg_median(busy_ns, NLAUNCHES);
		costs->launch_ns = costs->busy_ns;
		if (nqueued > 1)
			costs->launch_ns = fmax((hjg_median(queued_ns, NLAUNCHES) - one_ns) / (nqueued - 1), costs->busy_ns);
		costs->piece_ns = hjg_median(piece_ns, NLAUNCHES);
		costs->wake_ns = hjg_median(call_ns, NLAUNCHES);
		costs->wait_ns = fmax(one_ns - costs->launch_ns, 0);
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
	/* joins in parts partition without PHJ, too */
	for (int n = 0; n < costs->nsizes * HJG_PROCESSORS * HJG_STEP_COUNT; n++)
	{
		double	   *alone = &costs->alone_ns[0][0][0][0] + n;
		double	   *together = &(&costs->together_ns[0][0][0][0])[n];

		if (isinf(*alone))
			*alone = *(&costs->alone_ns[1][0][0][0] + n);
		if (isinf(*together))
			*together = *(&costs->together_ns[1][0][0][0] + n);
	}
	for (int n = 0; n < 2 * costs->nsizes; n++)
		for (int p = 0; p < HJG_PROCESSORS; p++)
			for (int i = 0; i < HJG_STEP_COUNT; i++)
			{
				const int	s = n / 2;
				double	   *alone = &costs->alone_ns[n % 2][s][p][i];
				double	   *together = &costs->together_ns[n % 2][s][p][i];

				if (isinf(*alone))
					*alone = s > 0 ? costs->alone_ns[n % 2][s - 1][p][i] : NEVER_NS;
				if (isinf(*together))
					*together = *alone;
			}
	if (isinf(costs->unpack_ns[HJG_ON_DEVICE]))
		costs->unpack_ns[HJG_ON_DEVICE] = NEVER_NS;
}

/* Ways to join: without and with partitioning, on the CPU, on the device, and on both. */
#define NWAYS 6

/*
 * The CPU's shares of the steps in a run of a way.  On both they differ from step to step and from run to run, as those that the
 * model chooses do: many rows come out of the other processor's cache then.
 */
static void
set_ratios(int way, int run, HjgCoupledConfig *config)
{
	for (int i = 0; i < HJG_STEP_COUNT; i++)
	{
		const hjg_u32 drawn = hjg_mix32((hjg_u32) (run * HJG_STEP_COUNT + i + 1)) >> 8;

		config->fixed_ratios[i] = way / 2 == 2 ? 0.1 + 0.8 * (double) drawn / (1 << 24) : way / 2 == 0;
	}
}

/* Medians of the runs of one way. */
static void
take_medians(Sample *samples, int nruns, int way, int size, HjgStepCosts *costs)
{
	const bool	is_both = way / 2 == 2;
	double		(*ns)[HJG_STEP_COUNT] = is_both ? costs->together_ns[way % 2][size] : costs->alone_ns[way % 2][size];
	double		values[MOST_RUNS];

	for (int p = 0; p < HJG_PROCESSORS; p++)
		for (int i = 0; i < HJG_STEP_COUNT; i++)
		{
			for (int run = 0; run < nruns; run++)
				values[run] = samples[run].ns[p][i];
			ns[p][i] = fmin(ns[p][i], hjg_median(values, nruns));
		}
	if (!is_both)
		return;
	for (int run = 0; run < nruns; run++)
		values[run] = samples[run].build_rest_ns;
	costs->build_rest_ns[way % 2][size] = hjg_median(values, nruns);
	for (int run = 0; run < nruns; run++)
		values[run] = samples[run].probe_rest_ns;
	costs->probe_rest_ns[way % 2][size] = hjg_median(values, nruns);
}

/*
 * All steps at one size.  The ways take turns: memory is then in the caches of whoever had it last, as in joins of different
 * ratios, and what else the machine does meets all of them.
 */
static HjgStatus
measure_size(const HjgEnv *env, HjgCoupledConfig *config, const HjgRunner *runner, int width,
			 const HjgCalibration *scratch, int size, HjgStepCosts *costs)
{
	static const int logs[HJG_STEP_SIZES] = HJG_STEP_LOGS;
	/* what is part of the steps' times, and of a piece's as well */
	const double own_ns[HJG_PROCESSORS] = {costs->piece_ns, costs->busy_ns};
	const hjg_u32 nrows = 1u << logs[size];
	const int	nruns = nruns_of[size];
	Sample		samples[NWAYS][MOST_RUNS];
	HjgStatus	status = HJG_OK;

	fill_keys(width, scratch->keys, nrows, BUILD_ORDER);
	fill_keys(width, scratch->probe_keys, nrows, PROBE_ORDER);
	for (int run = 0; run < nruns; run++)
		for (int way = 0; way < NWAYS && status == HJG_OK; way++)
		{
			set_ratios(way, run, config);
			config->strategy = way % 2 ? HJG_COUPLED_PHJ_PL : HJG_COUPLED_SHJ_PL;
			status = measure(env, config, runner, width, scratch, nrows, own_ns, &samples[way][run]);
		}
	for (int way = 0; way < NWAYS && status == HJG_OK; way++)
		take_medians(samples[way], nruns, way, size, costs);
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
	HjgCalibration scratch;

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
	*costs = (HjgStepCosts) {.nsizes = nsizes, .launch_ns = NEVER_NS};
	costs->unpack_ns[HJG_ON_DEVICE] = HUGE_VAL;
	for (int n = 0; n < 2 * HJG_STEP_SIZES; n++)
		for (int p = 0; p < HJG_PROCESSORS; p++)
			for (int i = 0; i < HJG_STEP_COUNT; i++)
				costs->alone_ns[n % 2][n / 2][p][i] = costs->together_ns[n % 2][n / 2][p][i] = HUGE_VAL;
	fill_keys(key_width, scratch.keys, PIECE_ROWS, BUILD_ORDER);
	status = measure_pieces(env, &config, runner, key_width, &scratch, costs);
	for (int size = 0; size < nsizes && status == HJG_OK; size++)
		status = measure_size(env, &config, runner, key_width, &scratch, size, costs);
	fill_gaps(costs);
	/* the last keys are the most */
	if (status == HJG_OK)
		status = hjg_coupled_calibrate_feed(env, &config, runner, key_width, &scratch, logs[nsizes - 1],
											with->pipeline >= HJG_PIPELINE_CPDE_C && runner->fetch == NULL, costs);
	env->free(env->arg, scratch.block.ptr, scratch.block.bytes);
	return status;
}
