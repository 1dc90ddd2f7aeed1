/*
 * hjg_select.cl
 *	  The selection of hjg_select.h as an OpenCL C kernel, behind the text of hjg_steps.cl.
 *
 * Contract.  A launch covers blocks [begin, end) of a column; the first args.unpack_workers groups unpack other
 * blocks meanwhile, each of the others takes every so-manieth block.  Items of a group read neighbouring rows, and
 * those with a row to select take its place by a local atomic, so a block's row numbers have no order.  A row is
 * read once, 4 or 8 bytes a column or those of its packed values, and 4 bytes are written if it is selected.  A packed
 * block that fails its check selects nothing and raises HJG_STEP_DAMAGED.  The host checks that all arrays have the
 * columns' rows, and that packed columns are under NS alone.
 */
static void
hjg_run_select(__global uchar *table, __global uchar *work, __global const uchar *user, __global const uchar *packed,
			   const HjgStepArgs *args, uint ix, __local HjgShared *shared)
{
	__global const HjgSelect *select = (__global const HjgSelect *) (table + args->headers_off[0]);
	__global const HjgPackHeader *header = (__global const HjgPackHeader *) packed;
	__global const HjgPackBlock *blocks[HJG_SELECT_COLUMNS] = {0};
	const uint	ncolumns = select->ncolumns;
	__global const uchar *keys = user + args->keys_off + (ulong) (ix - args->first_index) * ncolumns * HJG_PACK_BLOCK_ROWS * HJG_KEY_WIDTH;
	__global uint *selected = hjg_step_words(work, args->rows_off) + ix * HJG_PACK_BLOCK_ROWS;
	const uint	nrows = hjg_select_block_rows(select, ix);
	const uint	npacked = args->mode == HJG_SELECT_PACKED ? ncolumns : 0;
	ulong		sum = 0;

	if (get_local_id(0) == 0)
	{
		shared->wanted = 0;
		shared->good = 1;
	}
	barrier(CLK_LOCAL_MEM_FENCE);
	for (uint c = 0; c < npacked && shared->good; c++)
	{
		blocks[c] = hjg_unpack_find(header, 0, ix * ncolumns + c);
		hjg_group_check(table, args, header, 0, ix * ncolumns + c, blocks[c], shared);
	}
	for (uint i = get_local_id(0); i < nrows && shared->good; i += HJG_GROUP)
		if (ncolumns == 1 ? hjg_select_takes(HJG_KEY_WIDTH, 1, select, keys, blocks, i, &sum) :
			hjg_select_takes(HJG_KEY_WIDTH, ncolumns, select, keys, blocks, i, &sum))
			selected[atomic_inc(&shared->wanted)] = ix * HJG_PACK_BLOCK_ROWS + i;
	shared->sums[get_local_id(0)] = sum;
	barrier(CLK_LOCAL_MEM_FENCE);
	if (get_local_id(0) == 0)
	{
		hjg_step_words(work, args->counts_off)[ix] = shared->wanted;
		for (uint i = 1; i < HJG_GROUP && ncolumns > 1; i++)
			sum += shared->sums[i];
		if (ncolumns > 1)
			((__global ulong *) (work + args->buckets_off))[ix] = sum;
	}
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
