/*
 * coupled_join.c
 *	  The coupled engine's face, its memory and partitioning.
 *
 * SHJ builds the table from the caller's rows, window by window.  PHJ first
 * partitions all rows by the first bits of their mixed keys, in one or two
 * passes, and builds from them in that order.  Buckets are longer prefixes of the
 * same bits, so a partition's buckets lie together: the one table is a table a
 * partition pair, and both algorithms share everything else.
 *
 * The join gives up, and the cpu engine does it all, when a key list becomes so long
 * that the keys must have been chosen to collide.
 */
#include "coupled/hjg_coupled_internal.h"

/* Build rows of a window of SHJ. */
#define BUILD_WINDOW 4194304

/* Rows of a launch; copies of fewer take longer to begin than to run. */
#define CHUNK_ROWS 65536
#define COPIED_CHUNK_ROWS 262144

/* Bits of a partitioning pass. */
#define MAX_PASS_BITS 8

/* Fewer rows of work are not worth a series. */
#define MIN_WORK_ROWS 64

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

bool
hjg_coupled_is_partitioned(const HjgCoupled *join)
{
	return join->config.strategy >= HJG_COUPLED_PHJ_OL;
}

bool
hjg_coupled_is_basic_unit(const HjgCoupled *join)
{
	return join->config.strategy == HJG_COUPLED_SHJ_BASIC_UNIT || join->config.strategy == HJG_COUPLED_PHJ_BASIC_UNIT;
}

HjgScheme
hjg_coupled_scheme(const HjgCoupled *join)
{
	switch (join->config.strategy)
	{
		case HJG_COUPLED_SHJ_OL:
		case HJG_COUPLED_PHJ_OL:
			return HJG_SCHEME_OL;
		case HJG_COUPLED_SHJ_DD:
		case HJG_COUPLED_PHJ_DD:
			return HJG_SCHEME_DD;
		default:
			return HJG_SCHEME_PL;
	}
}

/* ---- memory ---- */

HjgStatus
hjg_region_reserve(HjgCoupled *join, HjgRegion *region, size_t bytes)
{
	if (region->bytes >= bytes)
		return HJG_OK;
	if (region->block.ptr != NULL && join->runner != NULL)
		join->runner->forget(join->runner->arg, region->base);
	region->bytes = 0;
	if (!hjg_block_reserve(&join->base, &region->block, bytes + HJG_COUPLED_ALIGN))
		return HJG_ERR_MEMORY;
	region->base = (hjg_u8 *) (((size_t) region->block.ptr + HJG_COUPLED_ALIGN - 1) /
							   HJG_COUPLED_ALIGN * HJG_COUPLED_ALIGN);
	region->bytes = bytes;
	return HJG_OK;
}

size_t
hjg_coupled_buffer_limit(const HjgCoupled *join)
{
	size_t		limit = join->runner != NULL ? join->runner->max_bytes : (size_t) 1 << 40;

	return join->config.buffer_bytes > 0 && join->config.buffer_bytes < limit ? join->config.buffer_bytes : limit;
}

void
hjg_coupled_free_region(HjgCoupled *join, HjgRegion *region)
{
	if (region->block.ptr != NULL && join->runner != NULL)
		join->runner->forget(join->runner->arg, region->base);
	hjg_block_free(&join->base, &region->block);
	*region = (HjgRegion) {.bytes = 0};
}

static void *
counted_alloc(void *arg, size_t bytes)
{
	HjgCoupled *join = arg;
	void	   *memory = join->base.env.alloc(join->base.env.arg, bytes);

	if (memory != NULL)
		join->base.live_bytes += bytes;
	if (join->base.live_bytes > join->base.stats.workspace_bytes)
		join->base.stats.workspace_bytes = join->base.live_bytes;
	return memory;
}

static void
counted_free(void *arg, void *memory, size_t bytes)
{
	HjgCoupled *join = arg;

	join->base.live_bytes -= bytes;
	join->base.env.free(join->base.env.arg, memory, bytes);
}

static bool
counted_poll(void *arg)
{
	const HjgCoupled *join = arg;

	return join->base.env.poll != NULL && join->base.env.poll(join->base.env.arg);
}

HjgEnv
hjg_coupled_env(HjgCoupled *join)
{
	return (HjgEnv) {.arg = join, .alloc = counted_alloc, .free = counted_free, .poll = counted_poll};
}

hjg_u64
hjg_coupled_lay(size_t *bytes, hjg_u64 n, size_t item_bytes)
{
	hjg_u64		off = *bytes;

	*bytes += hjg_align64(n * item_bytes);
	return off;
}

/* Count the counters of the pass that has the most, where two share the bits. */
static hjg_u32
most_counters(int bits)
{
	const hjg_u32 first = hjg_step_part_counters((hjg_u32) (bits > MAX_PASS_BITS ? (bits + 1) / 2 : bits));
	const hjg_u32 last = hjg_step_part_counters((hjg_u32) bits);

	return first > last ? first : last;
}

/* The offset 0 is taken by nothing, since it stands for "no array" in places. */
size_t
hjg_coupled_lay_work(HjgCoupled *join, hjg_u32 nrows, int bits, HjgStepArgs *args)
{
	const size_t width = (size_t) join->base.spec.key_width;
	size_t		bytes = 64;

	args->seed = hjg_hash_seed;
	args->mixed_off = hjg_coupled_lay(&bytes, nrows, width);
	args->rows_off = hjg_coupled_lay(&bytes, nrows, 4);
	args->buckets_off = hjg_coupled_lay(&bytes, nrows, 4);
	args->nodes_off = hjg_coupled_lay(&bytes, nrows, 4);
	args->counts_off = hjg_coupled_lay(&bytes, nrows, 4);
	args->offsets_off = hjg_coupled_lay(&bytes, nrows, 4);
	args->order_off = join->config.grouping ? hjg_coupled_lay(&bytes, nrows, 4) : 0;
	if (bits > 0)
	{
		args->dst_mixed_off = hjg_coupled_lay(&bytes, nrows, width);
		args->dst_rows_off = hjg_coupled_lay(&bytes, nrows, 4);
		args->parts_off = hjg_coupled_lay(&bytes, most_counters(bits), 4);
	}
	return hjg_feed_lay(join, bytes);
}

hjg_u32
hjg_coupled_work_rows(HjgCoupled *join, int bits, hjg_u64 most)
{
	const size_t limit = hjg_coupled_buffer_limit(join);
	const hjg_u32 sample = 65536;
	HjgStepArgs args = {0};
	const size_t fixed = hjg_coupled_lay_work(join, 0, bits, &args);
	const size_t row_bytes = (hjg_coupled_lay_work(join, sample, bits, &args) - fixed) / sample;
	/* each array ends at a line */
	const size_t slack = fixed + 16 * 64;
	hjg_u64		nrows;

	if (limit < slack + MIN_WORK_ROWS * row_bytes)
		return 0;
	nrows = (limit - slack) / row_bytes;
	return (hjg_u32) (nrows < most ? nrows : most < 0x7FFFFFFFu ? most : 0x7FFFFFFFu);
}

/* ---- work of the CPU's threads ---- */

typedef struct CpuTask
{
	HjgTask		task;
	hjg_u32		begin;
	hjg_u32		end;
	hjg_u32		unit_rows;
	HjgRowsFn	fn;
	void	   *arg;
} CpuTask;

static void
run_unit(HjgTask *task, hjg_u32 unit, int slot)
{
	CpuTask    *cpu = (CpuTask *) task;
	hjg_u32		begin = cpu->begin + unit * cpu->unit_rows;
	hjg_u32		end = cpu->end - begin > cpu->unit_rows ? begin + cpu->unit_rows : cpu->end;

	if (!hjg_task_poll(task))
		cpu->fn(cpu->arg, begin, end, slot);
}

HjgStatus
hjg_coupled_on_cpu(HjgCoupled *join, hjg_u32 begin, hjg_u32 end, hjg_u32 unit_rows, HjgRowsFn fn, void *arg)
{
	CpuTask		cpu = {.task.unit_fn = run_unit, .begin = begin, .end = end, .unit_rows = unit_rows, .fn = fn, .arg = arg};

	if (begin >= end)
		return HJG_OK;
	return hjg_task_run(&cpu.task, &join->base, (end - begin + unit_rows - 1) / unit_rows, join->cpu_threads);
}

/* ---- partitioning ---- */

/* Turn counts into starts, the headers' exclusive prefix sum, in order of partition and then of stripe. */
static void
sum_headers(HjgCoupled *join, const HjgStepArgs *args)
{
	hjg_u32    *headers = (hjg_u32 *) (join->work.base + args->parts_off);
	hjg_u32		sum = 0;

	for (hjg_u32 partition = 0; partition < 1u << args->bits; partition++)
		for (hjg_u32 stripe = 0; stripe < hjg_step_stripes(args->bits); stripe++)
		{
			hjg_u32    *header = headers + stripe * hjg_step_stripe_counters(args->bits) + partition;
			hjg_u32		count = *header;

			*header = sum;
			sum += count;
		}
}

HjgStatus
hjg_coupled_partition(HjgCoupled *join, const HjgRuns *runs, hjg_u64 first_run_row, hjg_u32 nrows,
					  int bits, HjgStepArgs *args, bool building)
{
	double	   *predicted_ns = building ? &join->stats.predicted_build_ns : &join->stats.predicted_probe_ns;
	int			done_bits = 0;
	hjg_u64		started = hjg_now_ns();
	HjgStatus	status = HJG_OK;

	join->dst_rows = nrows;
	while (status == HJG_OK && done_bits < bits)
	{
		HjgSeries	series = {
			.nsteps = 2, .steps = {runs != NULL && done_bits == 0 ? HJG_STEP_HASH : HJG_STEP_NUMBER, HJG_STEP_N2},
			.nrows = nrows, .runs = runs, .first_run_row = first_run_row, .building = building
		};
		size_t		header_bytes;

		/* two passes share the bits */
		done_bits = done_bits == 0 && bits > MAX_PASS_BITS ? (bits + 1) / 2 : bits;
		args->bits = (hjg_u32) done_bits;
		header_bytes = hjg_step_part_counters(args->bits) * sizeof(hjg_u32);
		series.args = *args;
		status = hjg_copies_host(join, args->parts_off, header_bytes, false, true, HJG_STEP_N2);
		if (status == HJG_OK)
			status = hjg_coupled_zero(join, join->work.base + args->parts_off, header_bytes);
		if (status != HJG_OK)
			break;
		if (series.steps[0] == HJG_STEP_HASH)
			status = hjg_feed_run(join, &series, predicted_ns);
		else
		{
			*predicted_ns += hjg_series_plan(join, &series);
			status = hjg_series_run(join, &series);
		}
		if (status == HJG_OK)
			status = hjg_copies_host(join, args->parts_off, header_bytes, true, true, HJG_STEP_N2);
		if (status != HJG_OK)
			break;
		sum_headers(join, args);
		series.nsteps = 1;
		series.steps[0] = HJG_STEP_N3;
		*predicted_ns += hjg_series_plan(join, &series);
		status = hjg_series_run(join, &series);

		/* what was the destination is the source of what follows */
		{
			const hjg_u64 mixed_off = args->mixed_off;
			const hjg_u64 rows_off = args->rows_off;

			args->mixed_off = args->dst_mixed_off;
			args->rows_off = args->dst_rows_off;
			args->dst_mixed_off = mixed_off;
			args->dst_rows_off = rows_off;
		}
	}
	join->base.stats.partition_ns += hjg_now_ns() - started;
	return status;
}

hjg_u32
hjg_coupled_partition_begin(const HjgCoupled *join, const HjgStepArgs *args, hjg_u32 nrows, hjg_u32 partition)
{
	return partition < 1u << args->bits ? ((const hjg_u32 *) (join->work.base + args->parts_off))[partition] : nrows;
}

/* ---- building ---- */

/* One table for all rows, where that and what it takes to build it fit; otherwise one a partition. */
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

/* The cpu engine takes the join over. */
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
	/* rows in another order do not lie together */
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
	if (join->feeder != NULL)
		stats->feed_ns += hjg_threads_runner_busy_ns(join->feeder);
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
		hjg_coupled_free_region(join, &join->packed[i]);
	hjg_block_free(&join->base, &join->base.runs_block);
	hjg_block_free(&join->base, &join->sorted_block);
	hjg_block_free(&join->base, &join->plain_block);
	env.free(env.arg, join, sizeof(HjgCoupled));
}
