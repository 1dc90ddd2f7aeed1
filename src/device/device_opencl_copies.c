/*
 * device_opencl_copies.c
 *	  What a launch takes to a device with memory of its own, and what it brings back.
 *
 * The host's copy of the arrays of work is the good one between launches: those rows of them
 * that a step reads go to the device before it, those that it writes come back behind it, in the order of the one queue.
 * What a step scatters (the table of b2 to b4, the destinations of n3) stays on the device until
 * the engine asks for it; of the two processors one alone does such steps of a series (hjg_coupled.h).
 */
#include "device/hjg_opencl.h"

#ifdef HJG_HAVE_OPENCL

/* Rows [begin, end) of the array at off, width bytes a row; an array that is not there has no bytes. */
static void
add_rows(HjgClCopies *copies, hjg_u64 off, size_t width, hjg_u32 begin, hjg_u32 end, bool reads, bool writes)
{
	if (off == 0 || begin >= end)
		return;
	copies->ranges[copies->nranges++] = (HjgClRange) {
		.off = off + (hjg_u64) begin * width, .bytes = (size_t) (end - begin) * width, .reads = reads, .writes = writes
	};
}

/* The pairs of the rows that lie on the launch's page. */
static void
add_pairs(HjgClCopies *copies, const HjgStepLaunch *launch)
{
	const HjgStepArgs *args = &launch->args;
	const hjg_u32 *offsets = (const hjg_u32 *) (launch->work + args->offsets_off);
	const hjg_u32 *counts = (const hjg_u32 *) (launch->work + args->counts_off);
	const hjg_u64 page_end = (hjg_u64) args->page_first + args->page_pairs;
	hjg_u64		from = offsets[launch->begin];
	hjg_u64		to = (hjg_u64) offsets[launch->end - 1] + counts[launch->end - 1];

	if (from < args->page_first)
		from = args->page_first;
	if (to > page_end)
		to = page_end;
	if (from >= to)
		return;
	copies->user_off = (size_t) (from - args->page_first) * sizeof(HjgPair);
	copies->user_bytes = (size_t) (to - from) * sizeof(HjgPair);
}

bool
hjg_cl_uses_table(const HjgStepLaunch *launch)
{
	switch (launch->step)
	{
		case HJG_STEP_HASH:
		case HJG_STEP_NUMBER:
		case HJG_STEP_N2:
		case HJG_STEP_N3:
			/* who unpacks beside it says in the table's allocator what is damaged */
			return launch->args.unpack_workers > 0;
		default:
			return true;
	}
}

void
hjg_cl_copies_of(const HjgStepLaunch *launch, HjgClCopies *copies)
{
	const HjgStepArgs *args = &launch->args;
	const size_t width = (size_t) launch->width;
	const hjg_u32 begin = launch->begin;
	const hjg_u32 end = launch->end;
	const hjg_u32 nheaders = hjg_step_part_counters(args->bits);

	*copies = (HjgClCopies) {.nranges = 0};
	switch (launch->step)
	{
		case HJG_STEP_HASH:
			if (launch->user == launch->work)
				add_rows(copies, args->keys_off, width, begin, end, true, false);
			else
				copies->user_bytes = launch->user_bytes;
			add_rows(copies, args->mixed_off, width, args->first_index + begin, args->first_index + end, false, true);
			add_rows(copies, args->rows_off, 4, args->first_index + begin, args->first_index + end, false, true);
			add_rows(copies, args->buckets_off, 4, args->first_index + begin, args->first_index + end, false, true);
			break;
		case HJG_STEP_NUMBER:
			add_rows(copies, args->mixed_off, width, begin, end, true, false);
			add_rows(copies, args->buckets_off, 4, begin, end, false, true);
			break;
		case HJG_STEP_N2:
			add_rows(copies, args->buckets_off, 4, begin, end, true, false);
			add_rows(copies, args->nodes_off, 4, begin, end, false, true);
			add_rows(copies, args->parts_off, 4, 0, nheaders, true, true);
			break;
		case HJG_STEP_N3:
			add_rows(copies, args->mixed_off, width, begin, end, true, false);
			add_rows(copies, args->rows_off, 4, begin, end, true, false);
			add_rows(copies, args->buckets_off, 4, begin, end, true, false);
			add_rows(copies, args->nodes_off, 4, begin, end, true, false);
			add_rows(copies, args->parts_off, 4, 0, nheaders, true, false);
			break;
		case HJG_STEP_B2:
			add_rows(copies, args->buckets_off, 4, begin, end, true, false);
			break;
		case HJG_STEP_B3:
			add_rows(copies, args->buckets_off, 4, begin, end, true, false);
			add_rows(copies, args->mixed_off, width, begin, end, true, false);
			add_rows(copies, args->nodes_off, 4, begin, end, false, true);
			break;
		case HJG_STEP_B4:
			add_rows(copies, args->rows_off, 4, begin, end, true, false);
			add_rows(copies, args->nodes_off, 4, begin, end, true, false);
			break;
		case HJG_STEP_P2:
			add_rows(copies, args->buckets_off, 4, begin, end, true, false);
			add_rows(copies, args->nodes_off, 4, begin, end, false, true);
			add_rows(copies, args->counts_off, 4, begin, end, false, true);
			break;
		case HJG_STEP_P3:
			add_rows(copies, args->mixed_off, width, begin, end, true, false);
			add_rows(copies, args->nodes_off, 4, begin, end, true, true);
			add_rows(copies, args->counts_off, 4, begin, end, false, true);
			break;
		case HJG_STEP_P4:
			add_rows(copies, args->rows_off, 4, begin, end, true, false);
			add_rows(copies, args->nodes_off, 4, begin, end, true, false);
			add_rows(copies, args->counts_off, 4, begin, end, true, false);
			add_rows(copies, args->offsets_off, 4, begin, end, true, false);
			add_pairs(copies, launch);
			break;
		default:
			break;
	}
}

#endif							/* HJG_HAVE_OPENCL */
