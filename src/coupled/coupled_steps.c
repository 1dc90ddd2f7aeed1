/*
 * coupled_steps.c
 *	  The steps of the coupled engine as loops of one CPU thread, for each key width.
 *
 * Nodes come from the worker's blocks: the local pointer of the paper's allocator is a local variable
 * here, which is written back to the table when the rows are done.
 */
#include "coupled/hjg_coupled_internal.h"

/* Take a node from the worker's block, or from a new block that the global pointer gives. */
HJG_ALWAYS_INLINE hjg_u32
take_node(hjg_u32 *global_next, hjg_u32 *next, hjg_u32 *end, hjg_u32 block_nodes)
{
	if (block_nodes <= 1)
		return __atomic_fetch_add(global_next, 1, __ATOMIC_RELAXED);
	if (*next == *end)
	{
		*next = __atomic_fetch_add(global_next, block_nodes, __ATOMIC_RELAXED);
		*end = *next + block_nodes;
	}
	return (*next)++;
}

HJG_ALWAYS_INLINE void
run_b3(int width, const HjgStepLaunch *launch, hjg_u32 begin, hjg_u32 end, HjgStepAllocator *allocator,
	   HjgStepBlocks *blocks)
{
	const HjgStepArgs *args = &launch->args;

	for (hjg_u32 i = begin; i < end; i++)
	{
		hjg_u32    *list_end;
		hjg_u32		ref;

		if (hjg_step_b3_find(width, launch->table, launch->work, args, i, &list_end))
			continue;
		ref = hjg_step_b3_create(width, launch->table, launch->work, args, i,
								 take_node(&allocator->next_key, &blocks->key, &blocks->key_end, args->block_nodes));
		if (ref != 0)
			hjg_step_b3_link(width, launch->table, launch->work, args, i, ref, list_end);
	}
}

HJG_ALWAYS_INLINE void
run_b4(int width, const HjgStepLaunch *launch, hjg_u32 begin, hjg_u32 end, HjgStepAllocator *allocator,
	   HjgStepBlocks *blocks)
{
	const HjgStepArgs *args = &launch->args;

	for (hjg_u32 i = begin; i < end; i++)
		hjg_step_b4(width, launch->table, launch->work, args, i,
					take_node(&allocator->next_rid, &blocks->rid, &blocks->rid_end, args->block_nodes));
}

HJG_ALWAYS_INLINE void
run_width(int width, const HjgStepLaunch *launch, hjg_u32 begin, hjg_u32 end, hjg_u32 worker)
{
	const HjgStepArgs *args = &launch->args;
	hjg_u8	   *table = launch->table;
	hjg_u8	   *work = launch->work;
	HjgStepAllocator *allocator = (HjgStepAllocator *) (table + args->allocator_off);
	HjgStepBlocks *state = (HjgStepBlocks *) (table + args->blocks_off) + worker;
	HjgStepBlocks blocks;

	switch (launch->step)
	{
		case HJG_STEP_HASH:
			for (hjg_u32 i = begin; i < end; i++)
				hjg_step_hash(width, work, args, launch->user, i);
			break;
		case HJG_STEP_NUMBER:
			for (hjg_u32 i = begin; i < end; i++)
				hjg_step_number(width, work, args, i);
			break;
		case HJG_STEP_N2:
			for (hjg_u32 i = begin; i < end; i++)
				hjg_step_n2(work, args, i);
			break;
		case HJG_STEP_N3:
			for (hjg_u32 i = begin; i < end; i++)
				hjg_step_n3(width, work, args, i);
			break;
		case HJG_STEP_B2:
			for (hjg_u32 i = begin; i < end; i++)
				hjg_step_b2(table, work, args, i);
			break;
		case HJG_STEP_B3:
			blocks = *state;
			run_b3(width, launch, begin, end, allocator, &blocks);
			*state = blocks;
			break;
		case HJG_STEP_B4:
			blocks = *state;
			run_b4(width, launch, begin, end, allocator, &blocks);
			*state = blocks;
			break;
		case HJG_STEP_P2:
			for (hjg_u32 i = begin; i < end; i++)
				hjg_step_p2(table, work, args, i);
			break;
		case HJG_STEP_P3:
			for (hjg_u32 i = begin; i < end; i++)
				hjg_step_p3(width, table, work, args, i);
			break;
		case HJG_STEP_P4:
			for (hjg_u32 i = begin; i < end; i++)
				hjg_step_p4(width, table, work, args, launch->user, i);
			break;
		default:
			break;
	}
}

/* Unpack the blocks of worker number worker of args.unpack_workers: every unpack_workers-th one. */
void
hjg_steps_unpack(const HjgStepLaunch *launch, hjg_u32 worker)
{
	const HjgStepArgs *args = &launch->args;
	const size_t block_bytes = (size_t) HJG_PACK_BLOCK_ROWS * (size_t) launch->width;
	hjg_u8	   *scratch = launch->work + args->unpack_scratch_off + (size_t) worker * HJG_UNPACK_SCRATCH_BYTES;

	for (hjg_u32 ix = args->unpack_begin + worker; ix < args->unpack_end; ix += args->unpack_workers)
		if (hjg_unpack_block(launch->packed, ix, launch->work + args->unpack_off + (ix - args->unpack_first) * block_bytes,
							 scratch) != HJG_OK)
			hjg_step_or(&((HjgStepAllocator *) (launch->table + args->allocator_off))->flags, HJG_STEP_DAMAGED);
}

void
hjg_steps_run(const HjgStepLaunch *launch, hjg_u32 begin, hjg_u32 end, hjg_u32 worker)
{
	if (launch->width == 4)
		run_width(4, launch, begin, end, worker);
	else if (launch->width == 8)
		run_width(8, launch, begin, end, worker);
	else
		run_width(16, launch, begin, end, worker);
}
