/*
 * coupled_join.c
 *	  The interface of the coupled engine: building, statistics, closing.
 *
 * SHJ builds the table from the caller's rows, window by window.  PHJ first partitions all rows by the
 * first bits of their mixed keys, in one or two passes, and builds from them in that order.  Buckets are
 * longer prefixes of the same bits, so the buckets of a partition are contiguous in the single table, and
 * both algorithms share everything else.
 *
 * The join gives up and leaves all work to the cpu engine when a key list becomes so long that the keys
 * must have been chosen to collide.
 */
#include "coupled/hjg_coupled_internal.h"

/* Build rows of a window of SHJ. */
#define BUILD_WINDOW 4194304

/* Rows of a launch; copies of fewer rows take longer to begin than to run. */
#define CHUNK_ROWS 65536
#define COPIED_CHUNK_ROWS 262144

void
hjg_coupled_defaults(HjgCoupledConfig *config)
{
	*config = (HjgCoupledConfig) {
		.strategy = HJG_COUPLED_PHJ_PL,
		.block_bytes = 2048,
		.queue_depth = 4,
		.window_rows = 1048576,
		.was_bytes = 1048576,
	};
	for (int i = 0; i < HJG_STEP_COUNT; i++)
		config->fixed_ratios[i] = 0.5;
}

/* ---- building ---- */

/*
 * Build one table for all rows if it fits together with the memory to build it; otherwise a table for each
 * partition.
 */
static HjgStatus
build_table(HjgCoupled *join, const HjgRuns *runs)
{
	const bool	partitioned = hjg_coupled_is_partitioned(join);
	const int	bits = partitioned ? join->radix_bits : 0;
	const hjg_u32 window = hjg_coupled_work_rows(join, bits, partitioned ? join->build_rows : BUILD_WINDOW);
	HjgStepArgs args;
	HjgStatus	status;

	if (hjg_coupled_table_bytes(join, join->build_rows, 0) > hjg_coupled_buffer_limit(join) ||
		(window == 0 && join->build_rows > 0) ||
		(partitioned && window < join->build_rows))
		return hjg_coupled_build_parts(join, runs);
	join->whole.nrows = join->build_rows;
	status = hjg_coupled_make_table(join, &join->whole);
	if (status != HJG_OK)
		return status;
	args = join->whole.args;
	status = hjg_region_reserve(join, &join->work, hjg_coupled_lay_work(join, (hjg_u32) (window < join->build_rows ? window :
																					   join->build_rows), bits, &args));
	if (status == HJG_OK && partitioned)
		status = hjg_coupled_partition(join, runs, 0, (hjg_u32) join->build_rows, bits, &args, true);
	for (hjg_u64 row = 0; status == HJG_OK && row < join->build_rows; row += window)
	{
		const hjg_u64 left = join->build_rows - row;

		status = hjg_coupled_build_rows(join, &args, partitioned ? NULL : runs, row, (hjg_u32) (left < window ? left : window));
	}
	return status == HJG_OK ? hjg_coupled_merge_tables(join) : status;
}

/* ---- the interface ---- */

static void
free_tables(HjgCoupled *join)
{
	hjg_coupled_free_region(join, &join->whole.table);
	for (int p = 0; join->parts_block.ptr != NULL && p < 1 << join->part_bits; p++)
		hjg_coupled_free_region(join, &join->parts[p].table);
	hjg_block_free(&join->base, &join->parts_block);
	join->parts = join->part = &join->whole;
	join->part_bits = 0;
}

/* Leave the join to the cpu engine. */
static HjgStatus
give_up(HjgCoupled *join, const HjgSegment *segments, int nsegments)
{
	const HjgJoinSpec spec = {.key_width = join->base.spec.key_width, .mode = join->base.spec.mode};
	HjgEnv		env = hjg_coupled_env(join);
	const HjgSegment *plain;
	HjgStatus	status;

	env.pool = join->base.env.pool;
	free_tables(join);
	hjg_coupled_free_region(join, &join->work);
	status = hjg_feed_plain(join, segments, nsegments, &plain);
	if (status == HJG_OK)
		status = hjg_join_build(&env, &spec, plain, nsegments, &join->cpu_join);
	join->stats.gave_up = status == HJG_OK;
	hjg_block_free(&join->base, &join->plain_block);
	return status;
}

HjgStatus
hjg_coupled_build(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, int key_width,
				  HjgMatchMode mode, const HjgSegment *segments, int nsegments, HjgCoupled **result)
{
	HjgCoupled *join;
	HjgRuns		runs;
	HjgStatus	status;

	*result = NULL;
	if ((key_width != HJG_KEY_WIDTH_4 && key_width != HJG_KEY_WIDTH_8 && key_width != HJG_KEY_WIDTH_16) ||
		nsegments < 0 || (unsigned) mode > HJG_MATCH_ANTI || !hjg_is_coupled_strategy(config->strategy))
		return HJG_ERR_INPUT;
	join = env->alloc(env->arg, sizeof(HjgCoupled));
	if (join == NULL)
		return HJG_ERR_MEMORY;
	memset(join, 0, sizeof(*join));
	join->base.env = *env;
	join->base.spec = (HjgJoinSpec) {.key_width = key_width, .mode = mode};
	join->base.live_bytes = join->base.stats.workspace_bytes = sizeof(HjgCoupled);
	join->config = *config;
	join->runner = runner;
	/* copies need rows in order */
	if (hjg_series_copies(join))
		join->config.grouping = false;
	if (join->config.chunk_rows == 0)
		join->config.chunk_rows = hjg_series_copies(join) ? COPIED_CHUNK_ROWS : CHUNK_ROWS;
	join->parts = join->part = &join->whole;
	join->pairs_per_row = 1;
	join->cpu_threads = hjg_pool_nthreads(env->pool);
	if (config->cpu_threads > 0 && config->cpu_threads < join->cpu_threads)
		join->cpu_threads = config->cpu_threads;
	if (join->cpu_threads > HJG_COUPLED_CPU_WORKERS)
		join->cpu_threads = HJG_COUPLED_CPU_WORKERS;

	status = hjg_feed_open(key_width, segments, nsegments);
	if (status == HJG_OK)
		status = hjg_runs_set(&join->base, &runs, segments, nsegments, false);
	if (status == HJG_OK)
		status = hjg_units_assign(join, &runs, segments, nsegments);
	if (status == HJG_OK)
	{
		const hjg_u64 started = hjg_now_ns();

		join->build_rows = runs.nrows;
		join->radix_bits = hjg_coupled_radix_bits(join, runs.nrows);
		hjg_pool_hold(env->pool, join->cpu_threads - 1);
		status = build_table(join, &runs);
		hjg_pool_hold(env->pool, 1 - join->cpu_threads);
		join->base.stats.build_ns += hjg_now_ns() - started - join->base.stats.partition_ns - join->stats.copy_ns;
		if (status == HJG_ERR_INPUT)
			status = give_up(join, segments, nsegments);
	}
	if (status != HJG_OK)
	{
		hjg_coupled_free(join);
		return status;
	}
	if (config->costs != NULL && join->runner != NULL)
		join->stats.predicted_build_ns += (double) runs.nrows *
			hjg_size_cost_ns(config->costs, config->costs->build_rest_ns[hjg_coupled_is_partitioned(join)], (double) runs.nrows);
	join->base.stats.build_rows = runs.nrows;
	if (hjg_coupled_is_partitioned(join) || join->part_bits > 0)
		join->base.stats.npartitions = 1 << (join->part_bits + (hjg_coupled_is_partitioned(join) ? join->radix_bits : 0));
	join->base.stats.strategy = HJG_CPU_NOP;
	*result = join;
	return HJG_OK;
}

void
hjg_coupled_stats(const HjgCoupled *join, HjgCoupledStats *stats)
{
	*stats = join->stats;
	stats->join = join->base.stats;
	if (join->pipe.feeder != NULL)
		stats->feed_ns += hjg_threads_runner_busy_ns(join->pipe.feeder);
	if (join->cpu_join != NULL)
	{
		hjg_join_stats(join->cpu_join, &stats->join);
		stats->join.workspace_bytes = join->base.stats.workspace_bytes;
	}
}

void
hjg_coupled_free(HjgCoupled *join)
{
	HjgEnv		env;

	if (join == NULL)
		return;
	env = join->base.env;
	hjg_units_release(join);
	hjg_join_free(join->cpu_join);
	free_tables(join);
	hjg_coupled_free_region(join, &join->work);
	for (int i = 0; i < 2; i++)
		hjg_coupled_free_region(join, &join->pipe.packed[i]);
	hjg_block_free(&join->base, &join->base.runs_block);
	hjg_block_free(&join->base, &join->sorted.block);
	hjg_block_free(&join->base, &join->plain_block);
	env.free(env.arg, join, sizeof(HjgCoupled));
}
