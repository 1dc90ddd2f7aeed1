/*
 * coupled_prefetch.c
 *	  Prefetching (P): one CPU thread fetches the memory that the next piece of a step will touch.
 *
 * The work-ahead set of Zhou et al.  as used by He, Zhang and He (section 3.2.1): while CPU threads or the
 * device execute a piece of rows, the fetcher reads the memory that the rows of the next piece will need,
 * so that it takes the misses.  The set is a piece: it has so few rows that the lines they touch are at
 * most config.was_bytes, and the fetcher is never more than one piece ahead.  A fetcher that falls behind
 * skips pieces.
 *
 * It reads only memory that no other thread writes by plain stores at that time: bucket numbers, nodes and
 * headers of steps that have ended, and lists by atomic loads.
 */
#include "coupled/hjg_coupled_internal.h"

#define LINE 64

bool
hjg_prefetch_is_on(const HjgCoupled *join)
{
	return join->pipe.fetcher != NULL && !hjg_series_copies(join);
}

bool
hjg_prefetch_pays(HjgStep step)
{
	switch (step)
	{
		case HJG_STEP_N3:
		case HJG_STEP_B2:
		case HJG_STEP_B3:
		case HJG_STEP_B4:
		case HJG_STEP_P2:
		case HJG_STEP_P3:
		case HJG_STEP_P4:
			return true;
		default:
			return false;
	}
}

static inline void
fetch_line(const void *memory)
{
	__builtin_prefetch(memory, 0, 2);
}

/* Fetch the first node of each row's list, through the bucket's header, which is thereby read. */
static void
fetch_lists(const HjgStepLaunch *launch, const hjg_u32 *buckets, const hjg_u32 *order)
{
	const HjgStepArgs *args = &launch->args;

	for (hjg_u32 i = launch->begin; i < launch->end; i++)
	{
		const hjg_u32 at = order != NULL ? order[i] : i;
		HjgStepHeader *header = hjg_step_header(launch->table, args, buckets[at], at);
		const hjg_u32 ref = hjg_step_load(&header->keys);

		if (ref != 0)
			fetch_line(hjg_step_key_node(launch->width, launch->table, args, ref));
	}
}

/* Fetch the first entry of the rid list of each row's node, which is thereby read. */
static void
fetch_rids(const HjgStepLaunch *launch, const hjg_u32 *nodes)
{
	const HjgStepArgs *args = &launch->args;
	const HjgStepRidNode *rids = (const HjgStepRidNode *) (launch->table + args->rid_nodes_off);

	for (hjg_u32 i = launch->begin; i < launch->end; i++)
		if (nodes[i] != 0)
		{
			const hjg_u32 rid = hjg_step_key_node(launch->width, launch->table, args, nodes[i])->rids;

			if (rid != 0)
				fetch_line(&rids[rid - 1]);
		}
}

/* Fetch the destination of each row of n3. */
static void
fetch_targets(const HjgStepLaunch *launch, const hjg_u32 *buckets, const hjg_u32 *nodes)
{
	const HjgStepArgs *args = &launch->args;
	const hjg_u32 *parts = (const hjg_u32 *) (launch->work + args->parts_off);

	for (hjg_u32 i = launch->begin; i < launch->end; i++)
	{
		const size_t to = parts[hjg_step_part_index(args->bits, buckets[i], args->stripe_row + i)] + nodes[i];

		fetch_line(launch->work + args->dst_mixed_off + to * (size_t) launch->width);
		fetch_line(launch->work + args->dst_rows_off + to * sizeof(hjg_u32));
	}
}

void
hjg_steps_prefetch(const HjgStepLaunch *launch)
{
	const HjgStepArgs *args = &launch->args;
	const hjg_u32 *buckets = (const hjg_u32 *) (launch->work + args->buckets_off);
	const hjg_u32 *nodes = (const hjg_u32 *) (launch->work + args->nodes_off);
	const hjg_u32 *order = args->order_off != 0 ? (const hjg_u32 *) (launch->work + args->order_off) : NULL;

	switch (launch->ahead_of)
	{
		case HJG_STEP_N3:
			fetch_targets(launch, buckets, nodes);
			break;
		case HJG_STEP_B2:
		case HJG_STEP_P2:
			for (hjg_u32 i = launch->begin; i < launch->end; i++)
				fetch_line(hjg_step_header(launch->table, args, buckets[i], i));
			break;
		case HJG_STEP_B3:
			fetch_lists(launch, buckets, NULL);
			break;
		case HJG_STEP_P3:
			fetch_lists(launch, buckets, order);
			break;
		case HJG_STEP_B4:
			for (hjg_u32 i = launch->begin; i < launch->end; i++)
				if (nodes[i] != 0)
					fetch_line(hjg_step_key_node(launch->width, launch->table, args, nodes[i]));
			break;
		case HJG_STEP_P4:
			fetch_rids(launch, nodes);
			break;
		default:
			/* the packed input of D */
			for (size_t at = 0; at < launch->packed_bytes; at += LINE)
				fetch_line((const hjg_u8 *) launch->packed + at);
	}
}

void
hjg_prefetch_start(HjgCoupled *join, HjgStepLaunch *launch)
{
	HjgRunner  *fetcher = join->pipe.fetcher;

	if (fetcher == NULL || !fetcher->done(fetcher->arg, join->pipe.fetch_ticket))
		return;
	launch->ahead_of = launch->step;
	launch->step = HJG_STEP_PREFETCH;
	join->stats.fetched_rows += launch->end - launch->begin;
	fetcher->launch(fetcher->arg, launch, &join->pipe.fetch_ticket);
}

void
hjg_prefetch_stop(HjgCoupled *join)
{
	if (join->pipe.fetcher != NULL)
		join->pipe.fetcher->wait(join->pipe.fetcher->arg, join->pipe.fetch_ticket);
}
