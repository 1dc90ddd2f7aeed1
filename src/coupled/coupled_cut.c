/*
 * coupled_cut.c
 *	  Pairs of a probe row that the end of a result cuts, in ascending order of build row as HjgCursor
 *	  demands.
 *
 * They are written here, not by p4, whose output has no order: from the list of the row's key node, which
 * is sorted once and kept for the following rounds.
 */
#include "coupled/hjg_coupled_internal.h"

/* Sort ascending, 11 bits a pass; n more words behind rids are scratch. */
static HjgStatus
sort_rids(HjgCoupled *join, hjg_u32 *rids, hjg_u32 n)
{
	HjgTask		task = {.env = &join->base.env};
	hjg_u32    *from = rids;
	hjg_u32    *to = rids + n;

	for (int shift = 0; shift < 33; shift += 11)
	{
		hjg_u32		start[2049] = {0};
		hjg_u32    *was = from;

		for (hjg_u32 i = 0; i < n; i++)
		{
			if (i % HJG_POLL_ROWS == 0 && hjg_task_poll(&task))
				return HJG_ERR_CANCELLED;
			start[(from[i] >> shift & 2047) + 1]++;
		}
		for (int b = 0; b < 2048; b++)
			start[b + 1] += start[b];
		for (hjg_u32 i = 0; i < n; i++)
		{
			if (i % HJG_POLL_ROWS == 0 && hjg_task_poll(&task))
				return HJG_ERR_CANCELLED;
			to[start[from[i] >> shift & 2047]++] = from[i];
		}
		from = to;
		to = was;
	}
	/* three passes end in the scratch half */
	memcpy(rids, from, sizeof(hjg_u32) * n);
	return HJG_OK;
}

/* Find the build rows of a key node, ascending; kept for the next round. */
static HjgStatus
sorted_rids(HjgCoupled *join, hjg_u32 ref, const hjg_u32 **rids)
{
	const HjgCoupledPart *part = join->part;
	const HjgStepKeyNode *node = hjg_step_key_node(join->base.spec.key_width, part->table.base, &part->args, ref);
	const HjgStepRidNode *list = (const HjgStepRidNode *) (part->table.base + part->args.rid_nodes_off);
	HjgTask		task = {.env = &join->base.env};
	HjgStatus	status;
	hjg_u32		n = 0;
	hjg_u32    *into;

	if (join->sorted.node != ref || join->sorted.part != part)
	{
		join->sorted.node = 0;
		if (!hjg_block_reserve(&join->base, &join->sorted.block, 2 * sizeof(hjg_u32) * (size_t) node->nrids))
			return HJG_ERR_MEMORY;
		into = join->sorted.block.ptr;
		for (hjg_u32 rid = node->rids; rid != 0 && n < node->nrids; rid = list[rid - 1].next)
		{
			if (n % HJG_POLL_ROWS == 0 && hjg_task_poll(&task))
				return HJG_ERR_CANCELLED;
			into[n++] = list[rid - 1].row;
		}
		status = sort_rids(join, into, n);
		if (status != HJG_OK)
			return status;
		join->sorted.node = ref;
		join->sorted.part = part;
	}
	*rids = join->sorted.block.ptr;
	return HJG_OK;
}

typedef struct CutRow
{
	HjgResult  *result;
	const hjg_u32 *rids;		/* NULL: a single pair without a build row */
	hjg_u32		probe_row;
	hjg_u64		at;				/* position of the first pair in the round */
} CutRow;

static void
write_cut(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	const CutRow *cut = arg;

	(void) slot;
	for (hjg_u32 i = begin; i < end; i++)
	{
		const hjg_u64 at = cut->at + i;

		cut->result->pages[at / cut->result->page_pairs][at % cut->result->page_pairs] =
			(HjgPair) {cut->probe_row, cut->rids != NULL ? cut->rids[i] : HJG_NO_ROW};
	}
}

HjgStatus
hjg_coupled_emit_cut(HjgCoupled *join, const HjgStepArgs *args, hjg_u32 i, hjg_u64 skip, hjg_u32 n, HjgResult *result, hjg_u64 at)
{
	CutRow		cut = {.result = result, .at = at};
	HjgStatus	status = hjg_copies_host(join, args->rows_off + (hjg_u64) i * 4, 4, true, false, HJG_STEP_P4);
	hjg_u32		ref;

	if (status == HJG_OK)
		status = hjg_copies_host(join, args->nodes_off + (hjg_u64) i * 4, 4, true, false, HJG_STEP_P4);
	if (status == HJG_OK)
		status = hjg_copies_table(join, HJG_ON_CPU, false);
	if (status != HJG_OK)
		return status;
	cut.probe_row = ((const hjg_u32 *) (join->work.base + args->rows_off))[i];
	ref = ((const hjg_u32 *) (join->work.base + args->nodes_off))[i];
	if (ref != 0 && args->mode != HJG_MATCH_ANTI)
	{
		status = sorted_rids(join, ref, &cut.rids);
		if (status != HJG_OK)
			return status;
		cut.rids += skip;
	}
	return hjg_coupled_on_cpu(join, 0, n, HJG_COUPLED_UNIT_ROWS * 4, write_cut, &cut);
}
