/*
 * coupled_units.c
 *	  The tasks of units: prefetching, decompression, execution.
 *
 * Units are the CPU's threads and the device's work groups.  The CPU is divided into sets of threads.  A
 * driver may be unable to divide the device, so the first work groups of each launch decompress
 * (hjg_k_merged).  The pipeline determines the side of the boundary between D and E, and the assignment
 * its place.
 */
#include <math.h>

#include "coupled/hjg_coupled_internal.h"

/*
 * Rows whose keys the feed unpacks at a time: several whole blocks, so that all units that unpack have
 * some.
 */
#define MIN_FEED_ROWS (4 * HJG_PACK_BLOCK_ROWS)
#define MAX_FEED_ROWS (1u << 24)

static int
clamp_int(int value, int least, int most)
{
	return value > most ? most : value < least ? least : value;
}

HjgUnits
hjg_units_of(HjgPipeline pipeline, int ncpu, int ngroups, int boundary)
{
	HjgUnits	units = {.cpu_e = ncpu, .device_e = ngroups};
	const int	fetchers = ncpu > 1 ? 1 : 0;

	switch (pipeline)
	{
		case HJG_PIPELINE_PE:
			return (HjgUnits) {.cpu_p = 1, .cpu_e = ncpu - 1, .device_e = ngroups};
		case HJG_PIPELINE_CPDE_C:
			units.cpu_p = ncpu > 2 ? 1 : 0;
			units.cpu_d = clamp_int(boundary > 0 ? boundary : (ncpu - units.cpu_p) / 2, 1, ncpu > 1 ? ncpu - units.cpu_p - 1 : 1);
			units.cpu_e = ncpu - units.cpu_p - units.cpu_d;
			return units;
		case HJG_PIPELINE_CPDE_B:
			return (HjgUnits) {.cpu_p = fetchers, .cpu_d = ncpu - fetchers, .device_e = ngroups};
		case HJG_PIPELINE_CPDE_G:
			units = (HjgUnits) {.cpu_p = fetchers, .cpu_d = ncpu - fetchers};
			if (ngroups > 1)
				units.device_d = clamp_int(boundary > 0 ? boundary - units.cpu_d : ngroups / 4, 1, ngroups - 1);
			units.device_e = ngroups - units.device_d;
			return units;
		default:
			return units;
	}
}

/* ---- the choice by the model ---- */

/* Count the rows of a window of D, and of a series whose memory is fetched ahead. */
static hjg_u32
choose_window_rows(const HjgCoupled *join)
{
	const size_t rows = join->config.was_bytes / (size_t) join->base.spec.key_width;

	return rows < MIN_FEED_ROWS ? MIN_FEED_ROWS : rows > MAX_FEED_ROWS ? MAX_FEED_ROWS : (hjg_u32) rows;
}

/*
 * Restrict the shape to one side: if the device works on copies, a table is built on one side, and keys
 * and the table's headers are copied to the device first.
 */
static void
stay_on_one_side(const HjgCoupled *join, double nrows, HjgInCacheShape *shape)
{
	const HjgStepCosts *costs = join->config.costs;
	const HjgCopyCost cost = hjg_copy_cost(costs, costs->copy[HJG_ON_DEVICE], nrows);
	const HjgCopies keys = {.n = fmax(ceil(nrows / shape->window_rows), 1), .bytes = nrows * join->base.spec.key_width};

	shape->one_side = true;
	shape->cross_ns = hjg_copies_ns(&cost, &keys) +
		hjg_copies_table_ns(join, HJG_ON_DEVICE, nrows, (double) hjg_coupled_header_bytes(join, (hjg_u64) nrows));
}

/* Describe the build side for the model: times of all units, in cache and out of it. */
static HjgInCacheShape
shape_of_runs(const HjgCoupled *join, const HjgRuns *runs, hjg_u64 packed_bytes)
{
	static const HjgStep shj[] = {HJG_STEP_HASH, HJG_STEP_B2, HJG_STEP_B3, HJG_STEP_B4};
	static const HjgStep phj[] = {HJG_STEP_HASH, HJG_STEP_N2, HJG_STEP_N3, HJG_STEP_NUMBER, HJG_STEP_B2, HJG_STEP_B3, HJG_STEP_B4};
	const HjgStepCosts *costs = join->config.costs;
	const bool	partitioned = hjg_coupled_is_partitioned(join);
	const HjgStep *steps = partitioned ? phj : shj;
	const double nrows = (double) runs->nrows;
	HjgInCacheShape shape = {
		.nrows = nrows, .packed_bytes = (double) packed_bytes, .fetch_bytes_per_ns = costs->fetch_bytes_per_ns,
		.fetch_work_ns = costs->fetch_work_ns, .fetch_gain = costs->fetch_gain,
		.all = {.cpu_e = join->cpu_threads, .device_e = join->runner->nworkers}, .device_cores = join->runner->ncores,
		.window_rows = (double) choose_window_rows(join),
		.start_ns = costs->start_ns, .thread_ns = costs->thread_ns,
		.rest_ns = nrows * hjg_size_cost_ns(costs, costs->build_rest_ns[partitioned], nrows),
		/* one piece for each step, and one start of the device */
		.window_ns = hjg_size_cost_ns(costs, costs->wait_ns[partitioned], nrows) +
			(partitioned ? 7 : 4) * hjg_size_cost_ns(costs, costs->launch_ns[partitioned], nrows)
	};

	/* partitions fit a cache: only n3 has random access to memory */
	shape.touched_bytes = nrows * HJG_COUPLED_LINE_BYTES * (partitioned ? 1 : 3);
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		shape.unpack_ns[p] = costs->unpack_ns[p] * nrows;
		for (int i = 0; i < (partitioned ? 7 : 4); i++)
		{
			const HjgStepNs *const ns[2] = {&costs->alone_ns[partitioned], &costs->together_ns[partitioned]};

			for (int together = 0; together < 2; together++)
			{
				const double cached_ns = (*ns[together])[0][p][steps[i]];
				const double missing_ns = hjg_step_cost_ns(costs, *ns[together], (HjgProcessor) p, steps[i], nrows);

				shape.execute_ns[together][p] += nrows * cached_ns;
				if (!partitioned || steps[i] == HJG_STEP_N3)
					shape.miss_ns[together][p] += nrows * fmax(missing_ns - cached_ns, 0) / shape.touched_bytes;
			}
		}
	}
	if (hjg_series_copies(join))
		stay_on_one_side(join, nrows, &shape);
	return shape;
}

typedef struct Wanted
{
	HjgPipeline pipeline;
	int			boundary;
} Wanted;

static HjgPipeline
pipeline_of(const HjgUnits *units)
{
	if (units->cpu_d + units->device_d == 0)
		return units->cpu_p > 0 ? HJG_PIPELINE_PE : HJG_PIPELINE_E;
	if (units->device_d > 0)
		return HJG_PIPELINE_CPDE_G;
	return units->cpu_e > 0 ? HJG_PIPELINE_CPDE_C : HJG_PIPELINE_CPDE_B;
}

/* True if the pipeline allows the division.  G has no CPU thread for E, and each pipeline has units for E. */
static bool
is_wanted(const HjgUnits *units, const void *arg)
{
	const Wanted *wanted = arg;
	const HjgPipeline pipeline = pipeline_of(units);

	if (pipeline == HJG_PIPELINE_CPDE_G && (units->cpu_e > 0 || units->cpu_d == 0))
		return false;
	if (wanted->boundary > 0 && units->cpu_d + units->device_d != wanted->boundary)
		return false;
	return wanted->pipeline == HJG_PIPELINE_AUTO ? pipeline <= HJG_PIPELINE_PE : pipeline == wanted->pipeline;
}

/*
 * Choose the pipeline and the units, as far as the configuration leaves them open: by the costs if there
 * are any, otherwise by rule.  AUTO executes with or without a fetcher; packed keys are then unpacked by
 * the units that execute.
 */
static void
choose_units(HjgCoupled *join, const HjgRuns *runs, hjg_u64 packed_bytes)
{
	const Wanted wanted = {join->config.pipeline, join->config.boundary};
	HjgPipeline pipeline = join->config.pipeline;
	HjgInCacheShape shape;
	HjgUnits	units;

	/* a single side has nothing to divide */
	if (join->runner == NULL || (pipeline == HJG_PIPELINE_AUTO && join->config.costs == NULL))
		pipeline = HJG_PIPELINE_E;
	join->stats.pipeline = pipeline == HJG_PIPELINE_AUTO ? HJG_PIPELINE_E : pipeline;
	join->units = hjg_units_of(pipeline, join->cpu_threads, join->runner != NULL ? join->runner->nworkers : 0,
							   join->config.boundary);
	if (join->runner == NULL || join->config.costs == NULL)
		return;
	shape = shape_of_runs(join, runs, pipeline >= HJG_PIPELINE_CPDE_C ? packed_bytes : 0);
	units = hjg_incache_choose(&shape, is_wanted, &wanted, &join->stats.predicted);
	/* no division is allowed, such as on a single thread: keep the rule's */
	if (!is_wanted(&units, &wanted))
	{
		hjg_incache_predict(&shape, &join->units, &join->stats.predicted);
		return;
	}
	join->units = units;
	join->stats.pipeline = pipeline_of(&units);
}

HjgStatus
hjg_units_assign(HjgCoupled *join, const HjgRuns *runs, const HjgSegment *segments, int nsegments)
{
	hjg_u64		packed_bytes = 0;

	for (int i = 0; i < nsegments; i++)
		packed_bytes += segments[i].packed_bytes;
	/* unpacked keys will be packed to about a half */
	if (!runs->packed)
		packed_bytes = runs->nrows * (hjg_u64) join->base.spec.key_width / 2;
	choose_units(join, runs, packed_bytes);
	join->stats.units = join->units;
	if (join->units.cpu_p > 0 && (join->pipe.fetcher = hjg_threads_runner_create(join->units.cpu_p)) == NULL)
		return HJG_ERR_MEMORY;
	if (join->units.cpu_d > 0 && (join->pipe.feeder = hjg_threads_runner_create(join->units.cpu_d)) == NULL)
		return HJG_ERR_MEMORY;
	/* the work between the steps needs a thread */
	join->cpu_threads = join->units.cpu_e > 0 ? join->units.cpu_e : 1;
	if (runs->packed || join->stats.pipeline >= HJG_PIPELINE_CPDE_C)
		hjg_units_feed(join);
	return HJG_OK;
}

void
hjg_units_feed(HjgCoupled *join)
{
	join->pipe.was_rows = choose_window_rows(join);
}

void
hjg_units_release(HjgCoupled *join)
{
	hjg_threads_runner_destroy(join->pipe.fetcher);
	hjg_threads_runner_destroy(join->pipe.feeder);
	join->pipe.fetcher = join->pipe.feeder = NULL;
}
