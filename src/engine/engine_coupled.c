/*
 * engine_coupled.c
 *	  The coupled engine's face, its memory, partitioning and building.
 *
 * SHJ builds the table from the caller's rows, window by window.  PHJ first
 * partitions all rows by the first bits of their mixed keys, in one or two
 * passes, and builds from them in that order.  Buckets are longer prefixes of the
 * same bits, so a partition's buckets lie together: the one table is a table a
 * partition pair, and both algorithms share everything else.
 *
 * The join gives up, and the cpu engine does it all, when a key list becomes so long
 * that the keys must have been chosen to collide, or when a region would outgrow the
 * device's limit.
 */
#include "engine/hjg_coupled_internal.h"

/* Build rows of a window of SHJ. */
#define BUILD_WINDOW 4194304

/* Bytes of table that a partition should have at most, and rows that are worth a pass. */
#define PARTITION_BYTES (1024 * 1024)
#define MAX_PASS_BITS 8
#define MAX_RADIX_BITS 14

void
hjg_coupled_defaults(HjgCoupledConfig *config)
{
	*config = (HjgCoupledConfig) {
		.strategy = HJG_COUPLED_PHJ_PL,
		.block_bytes = 2048,
		.chunk_rows = 65536,
		.queue_depth = 2,
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

static size_t
buffer_limit(const HjgCoupled *join)
{
	size_t		limit = join->runner != NULL ? join->runner->max_bytes : (size_t) 1 << 40;

	return join->config.buffer_bytes > 0 && join->config.buffer_bytes < limit ? join->config.buffer_bytes : limit;
}

/* The next array of a region: n items of item_bytes each. */
static hjg_u64
lay(size_t *bytes, hjg_u64 n, size_t item_bytes)
{
	hjg_u64		off = *bytes;

	*bytes += hjg_align64(n * item_bytes);
	return off;
}

int
hjg_coupled_radix_bits(const HjgCoupled *join)
{
	const hjg_u64 table_bytes = join->build_rows * (hjg_step_key_node_bytes(join->base.spec.key_width) + 16);
	int			bits = 0;

	while (bits < MAX_RADIX_BITS && bits + 1 < (int) join->bucket_bits && table_bytes >> bits > PARTITION_BYTES)
		bits++;
	/* PHJ partitions whatever the size */
	return bits > 0 ? bits : join->bucket_bits > 3 ? 2 : 1;
}

/* The offset 0 is taken by nothing, since it stands for "no array" in places. */
size_t
hjg_coupled_lay_work(HjgCoupled *join, hjg_u32 nrows, bool partitioned, HjgStepArgs *args)
{
	const size_t width = (size_t) join->base.spec.key_width;
	size_t		bytes = 64;

	args->mixed_off = lay(&bytes, nrows, width);
	args->rows_off = lay(&bytes, nrows, 4);
	args->buckets_off = lay(&bytes, nrows, 4);
	args->nodes_off = lay(&bytes, nrows, 4);
	args->counts_off = lay(&bytes, nrows, 4);
	args->offsets_off = lay(&bytes, nrows, 4);
	args->order_off = join->config.grouping ? lay(&bytes, nrows, 4) : 0;
	if (partitioned)
	{
		args->dst_mixed_off = lay(&bytes, nrows, width);
		args->dst_rows_off = lay(&bytes, nrows, 4);
		args->parts_off = lay(&bytes, ((size_t) 1 << hjg_coupled_radix_bits(join)) * HJG_STEP_STRIPES, 4);
	}
	return hjg_feed_lay(join, bytes);
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

typedef struct Zero
{
	hjg_u8	   *base;
	size_t		bytes;
} Zero;

#define ZERO_UNIT 262144

static void
zero_units(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	const Zero *zero = arg;
	size_t		from = (size_t) begin * ZERO_UNIT;
	size_t		to = (size_t) end * ZERO_UNIT;

	(void) slot;
	memset(zero->base + from, 0, (to < zero->bytes ? to : zero->bytes) - from);
}

static HjgStatus
zero_bytes(HjgCoupled *join, hjg_u8 *base, size_t bytes)
{
	Zero		zero = {base, bytes};

	return hjg_coupled_on_cpu(join, 0, (hjg_u32) ((bytes + ZERO_UNIT - 1) / ZERO_UNIT), 1, zero_units, &zero);
}

/* ---- partitioning ---- */

/* Counts to starts: the headers' exclusive prefix sum, in order of partition and then of stripe. */
static void
sum_headers(HjgCoupled *join, const HjgStepArgs *args)
{
	hjg_u32    *headers = (hjg_u32 *) (join->work.base + args->parts_off);
	hjg_u32		sum = 0;

	for (hjg_u32 partition = 0; partition < 1u << args->bits; partition++)
		for (hjg_u32 stripe = 0; stripe < HJG_STEP_STRIPES; stripe++)
		{
			hjg_u32    *header = headers + ((size_t) stripe << args->bits) + partition;
			hjg_u32		count = *header;

			*header = sum;
			sum += count;
		}
}

HjgStatus
hjg_coupled_partition(HjgCoupled *join, const HjgRuns *runs, hjg_u64 first_run_row, hjg_u32 nrows,
					  HjgStepArgs *args, double *predicted_ns)
{
	const int	bits = hjg_coupled_radix_bits(join);
	int			done_bits = 0;
	hjg_u64		started = hjg_now_ns();
	HjgStatus	status = HJG_OK;

	while (status == HJG_OK && done_bits < bits)
	{
		HjgSeries	series = {
			.nsteps = 2, .steps = {done_bits == 0 ? HJG_STEP_HASH : HJG_STEP_NUMBER, HJG_STEP_N2},
			.nrows = nrows, .runs = runs, .first_run_row = first_run_row
		};
		hjg_u32		nheaders;

		/* two passes share the bits */
		done_bits = done_bits == 0 && bits > MAX_PASS_BITS ? (bits + 1) / 2 : bits;
		args->bits = (hjg_u32) done_bits;
		nheaders = (1u << done_bits) * HJG_STEP_STRIPES;
		series.args = *args;
		status = zero_bytes(join, join->work.base + args->parts_off, nheaders * sizeof(hjg_u32));
		if (status != HJG_OK)
			break;
		if (series.steps[0] == HJG_STEP_HASH)
			status = hjg_feed_run(join, &series, predicted_ns);
		else
		{
			*predicted_ns += hjg_series_plan(join, &series);
			status = hjg_series_run(join, &series);
		}
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
	join->base.stats.npartitions = 1 << bits;
	return status;
}

/* ---- the table ---- */

static hjg_u32
block_nodes_of(const HjgCoupled *join, size_t node_bytes)
{
	const hjg_u32 nodes = join->config.block_bytes / (hjg_u32) node_bytes;

	/* a work group takes up to 64 nodes at once */
	return join->config.block_bytes == 0 ? 1 : nodes < 64 ? 64 : nodes;
}

/* Lay out and empty a table for so many rows. */
static HjgStatus
make_table(HjgCoupled *join)
{
	HjgStepArgs *args = &join->args;
	const size_t key_bytes = hjg_step_key_node_bytes(join->base.spec.key_width);
	const hjg_u64 nworkers = (hjg_u64) join->cpu_threads + (join->runner != NULL ? (hjg_u64) join->runner->nworkers : 0);
	const hjg_u64 nnodes = join->build_rows;
	hjg_u64		nslots;
	size_t		header_bytes;
	size_t		bytes = 64;
	HjgStatus	status;

	/* one block size in nodes serves both arrays, as one in bytes of key nodes */
	args->block_nodes = block_nodes_of(join, key_bytes);
	nslots = nnodes + nworkers * args->block_nodes;
	if (nslots > 0xFFFFFFFEu)
		return HJG_ERR_INPUT;
	args->max_keys = args->max_rids = (hjg_u32) nslots;

	args->allocator_off = lay(&bytes, 1, sizeof(HjgStepAllocator));
	args->blocks_off = lay(&bytes, HJG_COUPLED_WORKERS, sizeof(HjgStepBlocks));
	args->headers_off[0] = lay(&bytes, (hjg_u64) 1 << join->bucket_bits, sizeof(HjgStepHeader));
	args->headers_off[1] = args->headers_off[0];
	if (join->config.separate_tables && join->runner != NULL && !hjg_coupled_is_basic_unit(join))
		args->headers_off[1] = lay(&bytes, (hjg_u64) 1 << join->bucket_bits, sizeof(HjgStepHeader));
	header_bytes = bytes;
	args->key_nodes_off = lay(&bytes, nslots, key_bytes);
	args->rid_nodes_off = lay(&bytes, nslots, sizeof(HjgStepRidNode));
	if (bytes > buffer_limit(join))
		return HJG_ERR_INPUT;
	status = hjg_region_reserve(join, &join->table, bytes);
	if (status != HJG_OK)
		return status;
	return zero_bytes(join, join->table.base, header_bytes);
}

/* Buckets [begin, end) of the device's table into the CPU's: nobody else is at work on them. */
static void
merge_buckets(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	HjgCoupled *join = arg;
	const HjgStepArgs *args = &join->args;
	const int	width = join->base.spec.key_width;
	hjg_u8	   *table = join->table.base;
	HjgStepHeader *into = (HjgStepHeader *) (table + args->headers_off[0]);
	const HjgStepHeader *from = (const HjgStepHeader *) (table + args->headers_off[1]);
	HjgStepRidNode *rids = (HjgStepRidNode *) (table + args->rid_nodes_off);

	(void) slot;
	for (hjg_u32 bucket = begin; bucket < end; bucket++)
	{
		hjg_u32		ref = from[bucket].keys;

		into[bucket].ntuples += from[bucket].ntuples;
		while (ref != 0)
		{
			HjgStepKeyNode *node = hjg_step_key_node(width, table, args, ref);
			const hjg_u32 next = node->next;
			hjg_u32		other = into[bucket].keys;
			HjgStepKeyNode *twin = NULL;

			for (; other != 0; other = twin->next, twin = NULL)
			{
				twin = hjg_step_key_node(width, table, args, other);
				if (width == 4 ? twin->key4 == node->key4 : memcmp(twin + 1, node + 1, (size_t) width) == 0)
					break;
			}
			if (other == 0)
			{
				node->next = into[bucket].keys;
				into[bucket].keys = ref;
			}
			else if (node->rids != 0)
			{
				hjg_u32		last = node->rids;

				/* the device's list goes in front of the CPU's */
				while (rids[last - 1].next != 0)
					last = rids[last - 1].next;
				rids[last - 1].next = twin->rids;
				twin->rids = node->rids;
				twin->nrids += node->nrids;
			}
			ref = next;
		}
	}
}

/* b1 to b4 of rows that lie in work already mixed, or in runs. */
static HjgStatus
build_rows(HjgCoupled *join, const HjgStepArgs *work_args, const HjgRuns *runs, hjg_u64 first_run_row, hjg_u32 nrows)
{
	HjgSeries	series = {
		.nsteps = 4,
		.steps = {runs != NULL ? HJG_STEP_HASH : HJG_STEP_NUMBER, HJG_STEP_B2, HJG_STEP_B3, HJG_STEP_B4},
		.args = *work_args, .nrows = nrows, .runs = runs, .first_run_row = first_run_row
	};

	series.args.bits = join->bucket_bits;
	series.args.split_row = 0xFFFFFFFFu;
	series.splits = join->args.headers_off[1] != join->args.headers_off[0];
	if (runs != NULL)
		return hjg_feed_run(join, &series, &join->stats.predicted_build_ns);
	join->stats.predicted_build_ns += hjg_series_plan(join, &series);
	return hjg_series_run(join, &series);
}

static const HjgStepAllocator *
allocator_of(const HjgCoupled *join)
{
	return (const HjgStepAllocator *) (join->table.base + join->args.allocator_off);
}

/* Offsets of the table, to be kept while those of work are laid out anew. */
static HjgStatus
build_table(HjgCoupled *join, const HjgRuns *runs)
{
	const bool	partitioned = hjg_coupled_is_partitioned(join);
	const hjg_u64 window = partitioned ? join->build_rows : BUILD_WINDOW;
	HjgStepArgs args;
	HjgStatus	status = make_table(join);
	hjg_u64		started;
	size_t		bytes;

	if (status != HJG_OK)
		return status;
	args = join->args;
	bytes = hjg_coupled_lay_work(join, (hjg_u32) (window < join->build_rows ? window : join->build_rows), partitioned, &args);
	if (bytes > buffer_limit(join))
		return HJG_ERR_INPUT;
	status = hjg_region_reserve(join, &join->work, bytes);
	if (status == HJG_OK && partitioned)
		status = hjg_coupled_partition(join, runs, 0, (hjg_u32) join->build_rows, &args, &join->stats.predicted_build_ns);
	started = hjg_now_ns();
	for (hjg_u64 row = 0; status == HJG_OK && row < join->build_rows; row += window)
	{
		const hjg_u64 left = join->build_rows - row;

		status = build_rows(join, &args, partitioned ? NULL : runs, row, (hjg_u32) (left < window ? left : window));
		if (status == HJG_OK && allocator_of(join)->flags != 0)
			status = HJG_ERR_INPUT;
	}
	if (status == HJG_OK && join->args.headers_off[1] != join->args.headers_off[0])
		status = hjg_coupled_on_cpu(join, 0, 1u << join->bucket_bits, HJG_COUPLED_UNIT_ROWS, merge_buckets, join);
	join->base.stats.build_ns += hjg_now_ns() - started;
	return status;
}

/* ---- the interface ---- */

static void
free_region(HjgCoupled *join, HjgRegion *region)
{
	if (region->block.ptr != NULL && join->runner != NULL)
		join->runner->forget(join->runner->arg, region->base);
	hjg_block_free(&join->base, &region->block);
	*region = (HjgRegion) {.bytes = 0};
}

/* The cpu engine takes the join over. */
static HjgStatus
give_up(HjgCoupled *join, const HjgSegment *segments, int nsegments)
{
	HjgJoinSpec spec = {.key_width = join->base.spec.key_width, .mode = join->base.spec.mode};

	const HjgSegment *plain;
	HjgStatus	status;

	free_region(join, &join->table);
	free_region(join, &join->work);
	status = hjg_feed_plain(join, segments, nsegments, &plain);
	if (status == HJG_OK)
		status = hjg_join_build(&join->base.env, &spec, plain, nsegments, &join->cpu_join);
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
		nsegments < 0 || (unsigned) mode > HJG_MATCH_ANTI || hjg_coupled_strategy_name(config->strategy) == NULL)
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
		join->build_rows = runs.nrows;
		join->bucket_bits = 4;
		while (join->bucket_bits < 31 && (hjg_u64) 1 << join->bucket_bits < runs.nrows)
			join->bucket_bits++;
		status = build_table(join, &runs);
		if (status == HJG_ERR_INPUT)
			status = give_up(join, segments, nsegments);
	}
	if (status != HJG_OK)
	{
		hjg_coupled_free(join);
		return status;
	}
	if (config->costs != NULL && join->runner != NULL)
		join->stats.predicted_build_ns += config->costs->build_rest_ns[hjg_coupled_is_partitioned(join)] * (double) runs.nrows;
	join->base.stats.build_rows = runs.nrows;
	join->base.stats.strategy = hjg_coupled_is_partitioned(join) ? HJG_CPU_RADIX : HJG_CPU_NOP;
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
		hjg_u64		own_bytes = join->base.stats.workspace_bytes;

		hjg_join_stats(join->cpu_join, &stats->join);
		if (stats->join.workspace_bytes + join->base.live_bytes > own_bytes)
			own_bytes = stats->join.workspace_bytes + join->base.live_bytes;
		stats->join.workspace_bytes = own_bytes;
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
	free_region(join, &join->table);
	free_region(join, &join->work);
	for (int i = 0; i < 2; i++)
		free_region(join, &join->packed[i]);
	hjg_block_free(&join->base, &join->base.runs_block);
	hjg_block_free(&join->base, &join->sorted_block);
	hjg_block_free(&join->base, &join->plain_block);
	env.free(env.arg, join, sizeof(HjgCoupled));
}
