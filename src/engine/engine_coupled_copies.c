/*
 * engine_coupled_copies.c
 *	  Which memory a step reads and writes, and where it is while the device works on copies.
 *
 * Of a device with memory of its own the runner knows whose copy of each byte is the good one (HjgRunner).  Whoever is about to
 * use memory says so, and gets what it reads; so rows cross the bus only where they change their processor, and a series that stays on
 * the device leaves nothing on the host but what that asks for: the counts of pairs, the pairs, the headers of partitions.
 *
 * Work is told by ranges of its arrays, a table as a whole.  The allocator's flags are the exception: those who unpack raise them on the
 * host while the device builds, so its words are merged, not overwritten.
 *
 * Where the device works in place all of this does nothing.
 */
#include "engine/hjg_coupled_internal.h"

/* Moved between two looks at whether the join is cancelled. */
#define MOVE_BYTES ((size_t) 64 << 20)

/* ---- what steps use ---- */

/* Rows [begin, end) of the array at off, width bytes a row; an array that is not there has no bytes. */
static void
add_rows(HjgStepRanges *of, hjg_u64 off, size_t width, hjg_u32 begin, hjg_u32 end, bool reads, bool writes)
{
	if (off == 0 || begin >= end)
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

void
hjg_step_ranges(const HjgStepLaunch *launch, HjgStepRanges *of)
{
	const HjgStepArgs *args = &launch->args;
	const size_t width = (size_t) launch->width;
	const hjg_u32 begin = launch->begin;
	const hjg_u32 end = launch->end;
	const hjg_u32 first = args->first_index;
	const hjg_u32 nheaders = hjg_step_part_counters(args->bits);

	of->n = 0;
	switch (launch->step)
	{
		case HJG_STEP_HASH:
			if (launch->user == launch->work)
				add_rows(of, args->keys_off, width, begin, end, true, false);
			add_rows(of, args->mixed_off, width, first + begin, first + end, false, true);
			add_rows(of, args->rows_off, 4, first + begin, first + end, false, true);
			add_rows(of, args->buckets_off, 4, first + begin, first + end, false, true);
			break;
		case HJG_STEP_NUMBER:
			add_rows(of, args->mixed_off, width, begin, end, true, false);
			add_rows(of, args->buckets_off, 4, begin, end, false, true);
			break;
		case HJG_STEP_N2:
			add_rows(of, args->buckets_off, 4, begin, end, true, false);
			add_rows(of, args->nodes_off, 4, begin, end, false, true);
			add_rows(of, args->parts_off, 4, 0, nheaders, true, true);
			break;
		case HJG_STEP_N3:
			add_rows(of, args->mixed_off, width, begin, end, true, false);
			add_rows(of, args->rows_off, 4, begin, end, true, false);
			add_rows(of, args->buckets_off, 4, begin, end, true, false);
			add_rows(of, args->nodes_off, 4, begin, end, true, false);
			add_rows(of, args->parts_off, 4, 0, nheaders, true, false);
			/* rows go anywhere among those of the series, all of which are one processor's */
			add_rows(of, args->dst_mixed_off, width, 0, launch->dst_rows, false, true);
			add_rows(of, args->dst_rows_off, 4, 0, launch->dst_rows, false, true);
			break;
		case HJG_STEP_B2:
			add_rows(of, args->buckets_off, 4, begin, end, true, false);
			break;
		case HJG_STEP_B3:
			add_rows(of, args->buckets_off, 4, begin, end, true, false);
			add_rows(of, args->mixed_off, width, begin, end, true, false);
			add_rows(of, args->nodes_off, 4, begin, end, false, true);
			/* nodes to be linked later */
			add_rows(of, args->counts_off, 4, begin, end, false, true);
			break;
		case HJG_STEP_B4:
			add_rows(of, args->rows_off, 4, begin, end, true, false);
			add_rows(of, args->nodes_off, 4, begin, end, true, false);
			break;
		case HJG_STEP_P2:
			add_rows(of, args->buckets_off, 4, begin, end, true, false);
			add_rows(of, args->nodes_off, 4, begin, end, false, true);
			add_rows(of, args->counts_off, 4, begin, end, false, true);
			break;
		case HJG_STEP_P3:
			add_rows(of, args->mixed_off, width, begin, end, true, false);
			add_rows(of, args->nodes_off, 4, begin, end, true, true);
			add_rows(of, args->counts_off, 4, begin, end, false, true);
			break;
		case HJG_STEP_P4:
			add_rows(of, args->rows_off, 4, begin, end, true, false);
			add_rows(of, args->nodes_off, 4, begin, end, true, false);
			add_rows(of, args->counts_off, 4, begin, end, true, false);
			add_rows(of, args->offsets_off, 4, begin, end, true, false);
			break;
		default:
			break;
	}
}

/* ---- where it is ---- */

bool
hjg_series_copies(const HjgCoupled *join)
{
	return join->runner != NULL && join->runner->move != NULL;
}

static HjgStatus
move(const HjgCoupled *join, HjgProcessor to, const HjgRegion *region, const HjgRange *ranges, int nranges)
{
	const HjgMemory memory = {region->base, region->bytes};

	return join->runner->move(join->runner->arg, to, &memory, ranges, nranges);
}

HjgStatus
hjg_copies_piece(const HjgCoupled *join, const HjgStepLaunch *launch)
{
	HjgStepRanges of;

	if (!hjg_series_copies(join))
		return HJG_OK;
	hjg_step_ranges(launch, &of);
	return move(join, HJG_ON_CPU, &join->work, of.ranges, of.n);
}

HjgStatus
hjg_copies_host(HjgCoupled *join, hjg_u64 off, size_t bytes, bool reads, bool writes, HjgStep step)
{
	const HjgRange range = {off, bytes, reads, writes};
	const hjg_u64 started = hjg_now_ns();
	HjgStatus	status;

	if (!hjg_series_copies(join) || bytes == 0)
		return HJG_OK;
	status = move(join, HJG_ON_CPU, &join->work, &range, 1);
	join->stats.step_ns[HJG_ON_DEVICE][step] += hjg_now_ns() - started;
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
	/* the rest of it means nothing as yet */
	part->missing_bytes[HJG_ON_DEVICE] = header_bytes;
	return move(join, HJG_ON_CPU, &part->table, &headers, 1);
}

/* The device's allocator into the host's. */
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

/* All of it, in steps; the allocator, which comes first, is not overwritten on the host. */
static HjgStatus
move_table(HjgCoupled *join, const HjgCoupledPart *part, HjgProcessor to, bool writes)
{
	HjgTask		task = {.env = &join->base.env};
	const HjgRange allocator = {.bytes = (size_t) part->args.blocks_off, .reads = to == HJG_ON_DEVICE, .writes = writes};
	HjgStatus	status = move(join, to, &part->table, &allocator, 1);

	for (size_t off = allocator.bytes; off < part->table.bytes && status == HJG_OK; off += MOVE_BYTES)
	{
		const size_t left = part->table.bytes - off;
		const HjgRange range = {.off = off, .bytes = left < MOVE_BYTES ? left : MOVE_BYTES, .reads = true, .writes = writes};

		status = hjg_task_poll(&task) ? HJG_ERR_CANCELLED : move(join, to, &part->table, &range, 1);
	}
	return status;
}

HjgStatus
hjg_copies_table(HjgCoupled *join, HjgProcessor to, bool writes)
{
	HjgCoupledPart *part = join->part;
	const hjg_u64 started = hjg_now_ns();
	const size_t missing = part->missing_bytes[to];
	HjgStatus	status;

	if (!hjg_series_copies(join) || (missing == 0 && !writes))
		return HJG_OK;
	status = move_table(join, part, to, writes);
	if (missing > 0)
	{
		join->stats.move_ns[to] += hjg_now_ns() - started;
		join->stats.move_bytes[to] += missing;
	}
	part->missing_bytes[to] = 0;
	if (writes)
		part->missing_bytes[1 - to] = part->table.bytes;
	return status;
}

HjgStatus
hjg_copies_flags(HjgCoupled *join)
{
	const hjg_u64 started = hjg_now_ns();
	HjgStatus	status;

	/* the CPU built it, or has it back */
	if (!hjg_series_copies(join) || join->part->missing_bytes[HJG_ON_CPU] == 0)
		return HJG_OK;
	status = merge_allocator(join, join->part);
	join->stats.step_ns[HJG_ON_DEVICE][HJG_STEP_B4] += hjg_now_ns() - started;
	join->stats.series_ns += hjg_now_ns() - started;
	return status;
}
