/*
 * hjg_select.cl
 *	  The selection of hjg_select.h as an OpenCL C kernel, behind the text of hjg_steps.cl.
 *
 * Contract.  A launch covers blocks [begin, end) of a column; the first args.unpack_workers groups unpack other
 * blocks meanwhile, each of the others takes every so-manieth block.  Items of a group read neighbouring rows, and
 * those with a row to select take its place by a local atomic, so a block's row numbers have no order.  A row is
 * read once, 4 or 8 bytes or those of its packed value, and 4 bytes are written if it is selected.  A packed block
 * that fails its check selects nothing and raises HJG_STEP_DAMAGED.  The host checks that all arrays have the
 * column's rows, and that a packed column is under NS alone.
 */
static void
hjg_run_select(__global uchar *table, __global uchar *work, __global const uchar *user, __global const uchar *packed,
			   const HjgStepArgs *args, uint ix, __local HjgShared *shared)
{
	__global const HjgSelect *select = (__global const HjgSelect *) (table + args->headers_off[0]);
	__global const HjgPackHeader *header = (__global const HjgPackHeader *) packed;
	__global const HjgPackBlock *block = 0;
	__global const uchar *keys = user + args->keys_off + (ulong) (ix - args->first_index) * HJG_PACK_BLOCK_ROWS * HJG_KEY_WIDTH;
	__global uint *selected = hjg_step_words(work, args->rows_off) + ix * HJG_PACK_BLOCK_ROWS;
	const uint	nrows = hjg_select_block_rows(select, ix);
	const bool	in_place = args->mode == HJG_SELECT_PACKED;

	if (get_local_id(0) == 0)
	{
		shared->wanted = 0;
		shared->good = 1;
	}
	barrier(CLK_LOCAL_MEM_FENCE);
	if (in_place)
	{
		block = hjg_unpack_find(header, 0, ix);
		hjg_group_check(table, args, header, 0, ix, block, shared);
	}
	for (uint i = get_local_id(0); i < nrows && shared->good; i += HJG_GROUP)
	{
		const ulong value = in_place ? hjg_select_packed_value(HJG_KEY_WIDTH, block, i) : hjg_unpack_word(HJG_KEY_WIDTH, keys, i);

		if (value - select->from < select->span)
			selected[atomic_inc(&shared->wanted)] = ix * HJG_PACK_BLOCK_ROWS + i;
	}
	barrier(CLK_LOCAL_MEM_FENCE);
	if (get_local_id(0) == 0)
		hjg_step_words(work, args->counts_off)[ix] = shared->wanted;
	barrier(CLK_LOCAL_MEM_FENCE);
}

HJG_KERNEL void
hjg_k_select(HJG_ARGUMENTS, __global const uchar *packed, uint step)
{
	__local HjgShared shared;
	const uint	group = get_group_id(0) - args.unpack_workers;
	const uint	ngroups = get_num_groups(0) - args.unpack_workers;

	if (get_group_id(0) < args.unpack_workers)
	{
		hjg_run_unpack(table, work, packed, &args, get_group_id(0), args.unpack_workers, &shared);
		return;
	}
	for (uint ix = begin + group; ix < end; ix += ngroups)
		hjg_run_select(table, work, user, packed, &args, ix, &shared);
}
