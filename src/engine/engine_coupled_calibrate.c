/*
 * engine_coupled_calibrate.c
 *	  Unit costs of the steps, by joins of made-up rows.
 *
 * Each step runs on one processor alone, and on both at once, over tables of several sizes; its
 * cost is the median time a row of some runs.  So computation and
 * memory stalls are measured together (section 4.2 of the paper profiles
 * instructions and calibrates stalls apart, and adds them up).
 *
 * What a piece of the device's costs beside its rows is taken from the same joins: a driver whose threads have just run takes
 * launches several times faster than one whose threads have gone to sleep meanwhile, as they do between the pieces of joins.
 *
 * Joins of all sizes and ways take turns, so that what else the machine does meets all of them alike.
 */
#include <math.h>
#include <stdlib.h>

#include "engine/hjg_coupled_internal.h"
#include "model/hjg_measured.h"

#define NLAUNCHES 32
#define PIECE_ROWS 1024

/* Runs for each size: the smaller, the more they are disturbed. */
#define MOST_RUNS 13
static const int nruns_of[HJG_STEP_SIZES] = {MOST_RUNS, MOST_RUNS, 9, 5, 3, 1};
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

/* What one join says of the steps that it is asked about; infinite: nothing. */
typedef struct Sample
{
	double		ns[HJG_PROCESSORS][HJG_STEP_COUNT]; /* a row */
	double		busy_ns[HJG_PROCESSORS];	/* all steps */
	double		build_rest_ns;
	double		probe_rest_ns;
	/* a piece of the device's */
	double		gap_ns;
	double		begin_ns;
	double		call_ns;
	double		wake_ns;
} Sample;

/* A piece, of n that took so long together. */
static double
each_ns(hjg_u64 ns, hjg_u64 n)
{
	return n > 0 ? (double) ns / (double) n : HUGE_VAL;
}

/* What pieces of the device's took beside their rows, by the runner's times before and after the join. */
static void
sample_pieces(const HjgRunnerTimes *before, const HjgRunnerTimes *after, const HjgCoupledStats *stats, Sample *sample)
{
	sample->gap_ns = each_ns(after->gap_ns - before->gap_ns, after->nfollowed - before->nfollowed);
	sample->begin_ns = each_ns(after->begin_ns - before->begin_ns, after->nbegun - before->nbegun);
	sample->wake_ns = each_ns(stats->queue_ns[0], stats->nqueued[0]);
	sample->call_ns = each_ns(stats->queue_ns[1], stats->nqueued[1]);
}

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
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		sample->busy_ns[p] = 0;
		for (int i = 0; i < HJG_STEP_COUNT; i++)
		{
			sample->busy_ns[p] += (double) stats.step_ns[p][i];
			sample->ns[p][i] = stats.step_rows[p][i] == 0 ? HUGE_VAL :
				fmax(((double) stats.step_ns[p][i] - (double) stats.step_pieces[p][i] * own_ns[p]) /
					 (double) stats.step_rows[p][i], LEAST_NS);
		}
	}
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

/* One launch of no rows to speak of: how long the device is at work on it, and how long it takes to see that it is done. */
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
 * What a piece costs beside its rows whatever the size of the join.  On the device: one of a few rows for each of its groups; on the
 * CPU a unit of nothing for each thread.
 */
static HjgStatus
measure_pieces(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, int width,
			   const HjgCalibration *scratch, HjgStepCosts *costs, double *seen_ns)
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
			status = hjg_coupled_on_cpu(join, 0, (hjg_u32) join->cpu_threads, 1, nothing, NULL);
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
#define NWAYS (2 * HJG_PROCESSORS + 2)

/* Less of an overlap says nothing of what it costs. */
#define LEAST_OVERLAP 0.25

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

		config->fixed_ratios[i] = way / 2 == HJG_PROCESSORS ? 0.1 + 0.8 * (double) drawn / (1 << 24) : way / 2 == HJG_ON_CPU;
	}
}

static double
zero_if_none(double ns)
{
	return isinf(ns) ? 0 : ns;
}

/* Samples of all ways and runs of a size. */
typedef Sample Samples[NWAYS][MOST_RUNS];

/* The median of a member of nruns samples, of which the first one's is at first. */
static double
median_of(const double *first, int nruns)
{
	double		values[MOST_RUNS];

	for (int run = 0; run < nruns; run++)
		values[run] = *(const double *) ((const char *) first + (size_t) run * sizeof(Sample));
	return hjg_median(values, nruns);
}

/* For how much of a processor's time the other one was at work as well. */
static double
overlap_of(const Sample *samples, int nruns, int p)
{
	double		values[MOST_RUNS];

	for (int run = 0; run < nruns; run++)
		values[run] = fmin(samples[run].busy_ns[1 - p] / fmax(samples[run].busy_ns[p], 1), 1);
	return fmax(hjg_median(values, nruns), LEAST_OVERLAP);
}

/*
 * A join is disturbed more often than one of its steps, so the median of their sums is more than the sum of their medians, which knows no
 * disturbance at all: by so much, for a row of each step.
 */
static double
disturbance_of(const Sample *samples, int nruns, int p)
{
	double		sums[MOST_RUNS] = {0};
	double		sum_of_medians = 0;

	for (int i = 0; i < HJG_STEP_COUNT; i++)
	{
		const double median = median_of(&samples[0].ns[p][i], nruns);

		if (isinf(median))
			continue;
		sum_of_medians += median;
		for (int run = 0; run < nruns; run++)
			sums[run] += isinf(samples[run].ns[p][i]) ? median : samples[run].ns[p][i];
	}
	return sum_of_medians > 0 ? fmax(hjg_median(sums, nruns) / sum_of_medians, 1) : 1;
}

/*
 * Costs of one size, without or with partitioning.  A step that runs on both is slowed down as far as they overlap: together_ns is what
 * it would be if they did all the time.
 */
static void
take_medians(const Samples samples, int nruns, int partitioned, int size, double seen_ns, HjgStepCosts *costs)
{
	const Sample *both = samples[2 * HJG_PROCESSORS + partitioned];

	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		const Sample *alone = samples[2 * p + partitioned];
		const double disturbance[2] = {disturbance_of(alone, nruns, p), disturbance_of(both, nruns, p)};

		for (int i = 0; i < HJG_STEP_COUNT; i++)
		{
			const double alone_ns = disturbance[0] * median_of(&alone[0].ns[p][i], nruns);
			const double both_ns = disturbance[1] * median_of(&both[0].ns[p][i], nruns);

			costs->alone_ns[partitioned][size][p][i] = alone_ns;
			costs->together_ns[partitioned][size][p][i] = isinf(alone_ns) || isinf(both_ns) ? both_ns :
				fmax(alone_ns + (both_ns - alone_ns) / overlap_of(both, nruns, p), LEAST_NS);
		}
	}
	costs->build_rest_ns[partitioned][size] = median_of(&both[0].build_rest_ns, nruns);
	costs->probe_rest_ns[partitioned][size] = median_of(&both[0].probe_rest_ns, nruns);
	costs->launch_ns[partitioned][size] = zero_if_none(median_of(&both[0].gap_ns, nruns)) + costs->busy_ns;
	costs->call_ns[partitioned][size] = zero_if_none(median_of(&both[0].call_ns, nruns));
	costs->wake_ns[partitioned][size] = fmax(zero_if_none(median_of(&both[0].wake_ns, nruns)) - costs->call_ns[partitioned][size], 0);
	costs->wait_ns[partitioned][size] = zero_if_none(median_of(&both[0].begin_ns, nruns)) + seen_ns;
}

/* Joins of nrows with nrows, each way once. */
static HjgStatus
measure_ways(const HjgEnv *env, HjgCoupledConfig *config, const HjgRunner *runner, int width,
			 const HjgCalibration *scratch, hjg_u32 nrows, const double own_ns[HJG_PROCESSORS], int run, Samples samples)
{
	HjgStatus	status = HJG_OK;

	fill_keys(width, scratch->keys, nrows, BUILD_ORDER);
	fill_keys(width, scratch->probe_keys, nrows, PROBE_ORDER);
	for (int way = 0; way < NWAYS && status == HJG_OK; way++)
	{
		set_ratios(way, run, config);
		config->strategy = way % 2 ? HJG_COUPLED_PHJ_PL : HJG_COUPLED_SHJ_PL;
		status = measure(env, config, runner, width, scratch, nrows, own_ns, &samples[way][run]);
	}
	return status;
}

/*
 * All steps at all sizes.  The ways take turns: memory is then in the caches of whoever had it last, as in joins of different
 * ratios; and so do the sizes, each as often as it is to.
 */
static HjgStatus
measure_sizes(const HjgEnv *env, HjgCoupledConfig *config, const HjgRunner *runner, int width,
			  const HjgCalibration *scratch, double seen_ns, HjgStepCosts *costs)
{
	static const int logs[HJG_STEP_SIZES] = HJG_STEP_LOGS;
	/* what is part of the steps' times, and of a piece's as well */
	const double own_ns[HJG_PROCESSORS] = {costs->piece_ns, costs->busy_ns};
	const size_t bytes = sizeof(Samples) * (size_t) costs->nsizes;
	Samples    *samples = env->alloc(env->arg, bytes);
	HjgStatus	status = samples == NULL ? HJG_ERR_MEMORY : HJG_OK;
	int			ndone[HJG_STEP_SIZES] = {0};

	for (int turn = 1; turn <= MOST_RUNS && status == HJG_OK; turn++)
		for (int size = 0; size < costs->nsizes && status == HJG_OK; size++)
			if (ndone[size] * MOST_RUNS < turn * nruns_of[size])
				status = measure_ways(env, config, runner, width, scratch, 1u << logs[size], own_ns, ndone[size]++, samples[size]);
	for (int size = 0; size < costs->nsizes && status == HJG_OK; size++)
		for (int partitioned = 0; partitioned < 2; partitioned++)
			take_medians(samples[size], ndone[size], partitioned, size, seen_ns, costs);
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
	HjgCalibration scratch;
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
	fill_gaps(costs);
	fill_keys(key_width, scratch.keys, most, BUILD_ORDER);
	if (status == HJG_OK)
		status = hjg_coupled_calibrate_feed(env, &config, runner, key_width, &scratch, logs[nsizes - 1],
											with->pipeline >= HJG_PIPELINE_CPDE_C && runner->fetch == NULL, costs);
	env->free(env->arg, scratch.block.ptr, scratch.block.bytes);
	return status;
}
