/*
 * coupled_copies.c
 *	  The memory that a step reads and writes, and its copies for a device with its own memory.
 *
 * The runner of such a device knows the valid copy of each byte (HjgRunner).  Code that is about to use
 * memory calls the functions below, which copy the missing parts.  So rows cross the bus only when they
 * change their processor, and of a series that stays on the device the host gets only what it reads: the
 * counts of pairs, the pairs, the headers of partitions.
 *
 * Work is copied by ranges of its arrays, a table as a whole.  The allocator's flags are an exception: CPU
 * threads that unpack raise them on the host while the device builds, so they are merged, not overwritten.
 *
 * If the device works in place, these functions do nothing.
 */
#include "coupled/hjg_coupled_internal.h"

/* Bytes that are moved between two checks for cancellation. */
#define MOVE_BYTES ((size_t) 64 << 20)

/* ---- what steps use ---- */

/* Add rows [begin, end) of the array at off, width bytes a row; a missing array adds nothing. */
static void
add_row_range(HjgStepRanges *of, hjg_u64 off, size_t width, hjg_u32 begin, hjg_u32 end, bool reads, bool writes)
{
	if (off == 0 || begin >= end || (!reads && !writes))
		return;
	of->ranges[of->n++] = (HjgRange) {
		.off = off + (hjg_u64) begin * width, .bytes = (size_t) (end - begin) * width, .reads = reads, .writes = writes
	};
}

bool
hjg_step_uses_table(HjgStep step)
{
	return step != HJG_STEP_HASH && step != HJG_STEP_NUMBER && step != HJG_STEP_N2 && step != HJG_STEP_N3;
}

/* Find the offset of an array of work; 0: the launch has none. */
static hjg_u64
array_off(const HjgStepLaunch *launch, HjgArray array)
{
	const HjgStepArgs *args = &launch->args;
	const hjg_u64 offs[HJG_ARRAYS] = {
		[HJG_ARRAY_KEYS] = launch->user == launch->work ? args->keys_off : 0,
		[HJG_ARRAY_MIXED] = args->mixed_off,
		[HJG_ARRAY_ROWS] = args->rows_off,
		[HJG_ARRAY_BUCKETS] = args->buckets_off,
		[HJG_ARRAY_NODES] = args->nodes_off,
		[HJG_ARRAY_COUNTS] = args->counts_off,
		[HJG_ARRAY_OFFSETS] = args->offsets_off,
		[HJG_ARRAY_HEADERS] = args->parts_off
	};

	return offs[array];
}

static size_t
array_width(const HjgStepLaunch *launch, HjgArray array)
{
	return array == HJG_ARRAY_KEYS || array == HJG_ARRAY_MIXED ? (size_t) launch->width : 4;
}

void
hjg_step_ranges(const HjgStepLaunch *launch, HjgStepRanges *of)
{
	const HjgStepArgs *args = &launch->args;
	const bool	scatters = launch->step == HJG_STEP_N3;

	of->n = 0;
	for (int i = 0; i < HJG_ARRAYS && launch->step < HJG_STEP_COUNT; i++)
	{
		const bool	reads = (hjg_step_use[launch->step].reads & HJG_ARRAY_BIT(i)) != 0;
		const bool	writes = (hjg_step_use[launch->step].writes & HJG_ARRAY_BIT(i)) != 0 && !scatters;
		/* keys are counted from the launch's first key, their mixes and numbers by their places in work */
		const hjg_u32 shift = launch->step == HJG_STEP_HASH && i != HJG_ARRAY_KEYS ? args->first_index : 0;
		const bool	is_whole = i == HJG_ARRAY_HEADERS;

		add_row_range(of, array_off(launch, (HjgArray) i), array_width(launch, (HjgArray) i), is_whole ? 0 : shift + launch->begin,
					  is_whole ? hjg_step_part_counters(args->bits) : shift + launch->end, reads, writes);
	}
	if (scatters)
	{
		/* rows go anywhere among those of the series, all of which belong to one processor */
		add_row_range(of, args->dst_mixed_off, (size_t) launch->width, 0, launch->dst_rows, false, true);
		add_row_range(of, args->dst_rows_off, 4, 0, launch->dst_rows, false, true);
	}
}

/* ---- the valid copies ---- */

bool
hjg_series_copies(const HjgCoupled *join)
{
	return join->runner != NULL && join->runner->move != NULL;
}

static HjgStatus
move_ranges(const HjgCoupled *join, HjgProcessor to, const HjgRegion *region, const HjgRange *ranges, int nranges)
{
	const HjgMemory memory = {region->base, region->bytes};

	return join->runner->move(join->runner->arg, to, &memory, ranges, nranges);
}

/* Copy ranges of work to the CPU and wait; the time counts as the step's. */
static HjgStatus
bring_ranges(HjgCoupled *join, const HjgRange *ranges, int nranges, HjgStep step)
{
	const HjgRunner *runner = join->runner;
	HjgCopyTimes *times = &join->stats.copied[HJG_ON_CPU][step];
	const hjg_u64 started = hjg_now_ns();
	HjgRunnerTimes before;
	HjgRunnerTimes after;
	HjgStatus	status;

	runner->times(runner->arg, &before);
	status = move_ranges(join, HJG_ON_CPU, &join->work, ranges, nranges);
	runner->times(runner->arg, &after);
	if (after.ncopies[HJG_ON_CPU] > before.ncopies[HJG_ON_CPU])
	{
		times->n += after.ncopies[HJG_ON_CPU] - before.ncopies[HJG_ON_CPU];
		times->bytes += after.crossed_bytes[HJG_ON_CPU] - before.crossed_bytes[HJG_ON_CPU];
		times->ns += hjg_now_ns() - started;
	}
	return status;
}

HjgStatus
hjg_copies_piece(HjgCoupled *join, const HjgStepLaunch *launch)
{
	HjgStepRanges of;

	if (!hjg_series_copies(join))
		return HJG_OK;
	hjg_step_ranges(launch, &of);
	return bring_ranges(join, of.ranges, of.n, launch->step);
}

HjgStatus
hjg_copies_host(HjgCoupled *join, hjg_u64 off, size_t bytes, bool reads, bool writes, HjgStep step)
{
	const HjgRange range = {off, bytes, reads, writes};
	const hjg_u64 started = hjg_now_ns();
	HjgStatus	status;

	if (!hjg_series_copies(join) || bytes == 0)
		return HJG_OK;
	status = bring_ranges(join, &range, 1, step);
	join->stats.step_ns[HJG_ON_CPU][step] += hjg_now_ns() - started;
	join->stats.series_ns += hjg_now_ns() - started;
	return status;
}

/* ---- tables ---- */

HjgStatus
hjg_copies_new_table(const HjgCoupled *join, HjgCoupledPart *part, size_t header_bytes)
{
	const HjgRange headers = {.bytes = header_bytes, .writes = true};

	if (!hjg_series_copies(join))
		return HJG_OK;
	join->runner->forget(join->runner->arg, part->table.base);
	part->missing_bytes[HJG_ON_CPU] = 0;
	/* the rest is not initialised yet */
	part->missing_bytes[HJG_ON_DEVICE] = header_bytes;
	return move_ranges(join, HJG_ON_CPU, &part->table, &headers, 1);
}

/* Merge the device's allocator into the host's. */
static HjgStatus
merge_allocator(const HjgCoupled *join, const HjgCoupledPart *part)
{
	HjgStepAllocator *allocator = (HjgStepAllocator *) (part->table.base + part->args.allocator_off);
	HjgStepAllocator theirs;
	HjgStatus	status = join->runner->fetch(join->runner->arg, part->table.base, part->args.allocator_off, sizeof(theirs), &theirs);

	if (status != HJG_OK)
		return status;
	allocator->next_key = theirs.next_key;
	allocator->next_rid = theirs.next_rid;
	hjg_step_or(&allocator->flags, theirs.flags);
	return HJG_OK;
}

/* Move the whole table in parts; the allocator, which comes first, is not overwritten on the host. */
static HjgStatus
move_table(HjgCoupled *join, const HjgCoupledPart *part, HjgProcessor to, bool writes)
{
	HjgTask		task = {.env = &join->base.env};
	const HjgRange allocator = {.bytes = (size_t) part->args.blocks_off, .reads = to == HJG_ON_DEVICE, .writes = writes};
	HjgStatus	status = move_ranges(join, to, &part->table, &allocator, 1);

	for (size_t off = allocator.bytes; off < part->table.bytes && status == HJG_OK; off += MOVE_BYTES)
	{
		const size_t left = part->table.bytes - off;
		const HjgRange range = {.off = off, .bytes = left < MOVE_BYTES ? left : MOVE_BYTES, .reads = true, .writes = writes};

		status = hjg_task_poll(&task) ? HJG_ERR_CANCELLED : move_ranges(join, to, &part->table, &range, 1);
	}
	return status;
}

HjgStatus
hjg_copies_table(HjgCoupled *join, HjgProcessor to, bool writes)
{
	HjgCoupledPart *part = join->part;
	const hjg_u64 started = hjg_now_ns();
	const size_t missing = part->missing_bytes[to];
	HjgRunnerTimes before;
	HjgRunnerTimes after;
	HjgStatus	status;

	if (!hjg_series_copies(join) || (missing == 0 && !writes))
		return HJG_OK;
	join->runner->times(join->runner->arg, &before);
	status = move_table(join, part, to, writes);
	join->runner->times(join->runner->arg, &after);
	if (missing > 0)
	{
		join->stats.moved[to].n += after.ncopies[to] - before.ncopies[to];
		join->stats.moved[to].bytes += missing;
		join->stats.moved[to].ns += hjg_now_ns() - started;
	}
	part->missing_bytes[to] = 0;
	if (writes)
		part->missing_bytes[1 - to] = part->table.bytes;
	return status;
}

double
hjg_copies_table_ns(const HjgCoupled *join, HjgProcessor to, double nrows, double bytes)
{
	/* one copy of the allocator, one of the rest */
	const HjgCopies copies = {.n = bytes > 0 ? 2 : 0, .bytes = bytes};
	const HjgCopyCost cost = hjg_copy_cost(join->config.costs, join->config.costs->move[to], nrows);

	return hjg_copies_ns(&cost, &copies);
}

HjgStatus
hjg_copies_flags(HjgCoupled *join)
{
	const hjg_u64 started = hjg_now_ns();
	HjgStatus	status;

	/* the CPU built the table, or has it back */
	if (!hjg_series_copies(join) || join->part->missing_bytes[HJG_ON_CPU] == 0)
		return HJG_OK;
	status = merge_allocator(join, join->part);
	join->stats.step_ns[HJG_ON_DEVICE][HJG_STEP_B4] += hjg_now_ns() - started;
	join->stats.series_ns += hjg_now_ns() - started;
	return status;
}
