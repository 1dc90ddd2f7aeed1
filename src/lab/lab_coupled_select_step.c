/*
 * lab_coupled_select_step.c
 *	  The step of a selection (kernels/lab/hjg_select.h) as a loop of one CPU thread, and its kernel's text.
 */
#define _GNU_SOURCE

#include "lab/hjg_coupled_bench.h"

/* The kernel's text, with a zero byte after it. */
__asm__(".section .rodata\nhjg_select_text:\n.incbin \"kernels/lab/hjg_select.h\"\n.incbin \"kernels/lab/hjg_select.cl\"\n.byte 0\n.previous\n");
extern const char hjg_select_text[] __attribute__((visibility("hidden")));

void
hjg_select_open(void)
{
	hjg_cl_set_text(hjg_select_text);
}

HJG_STEP_FN hjg_u32
select_in_place(int width, const HjgSelect *select, const HjgPackBlock *block, hjg_u32 nrows, hjg_u32 first, hjg_u32 *selected)
{
	hjg_u32		n = 0;

	for (hjg_u32 i = 0; i < nrows; i++)
	{
		selected[n] = first + i;
		n += hjg_select_packed_value(width, block, i) - select->from[0] < select->span[0];
	}
	return n;
}

/* Select rows of several columns, and sum up. */
HJG_STEP_FN HjgStatus
select_products(int width, const HjgStepLaunch *launch, const HjgSelect *select, hjg_u32 ix, hjg_u32 *selected, hjg_u32 *count)
{
	const HjgStepArgs *args = &launch->args;
	const hjg_u32 ncolumns = select->ncolumns;
	const size_t block_bytes = (size_t) ncolumns * HJG_PACK_BLOCK_ROWS * (size_t) width;
	const bool	packed = args->mode == HJG_SELECT_PACKED;
	const hjg_u8 *keys = packed ? NULL : (const hjg_u8 *) launch->user + args->keys_off + (ix - args->first_index) * block_bytes;
	const HjgPackBlock *blocks[HJG_SELECT_COLUMNS] = {NULL};
	HjgStatus	status = HJG_OK;
	hjg_u64		sum = 0;
	hjg_u32		n = 0;

	for (hjg_u32 c = 0; c < ncolumns && packed && status == HJG_OK; c++)
		status = hjg_packed_block(launch->packed, 0, ix * ncolumns + c, &blocks[c]);
	for (hjg_u32 i = 0; i < hjg_select_block_rows(select, ix) && status == HJG_OK; i++)
		if (hjg_select_takes(width, ncolumns, select, keys, blocks, i, &sum))
			selected[n++] = ix * HJG_PACK_BLOCK_ROWS + i;
	((hjg_u64 *) (launch->work + args->buckets_off))[ix] = sum;
	*count = n;
	return status;
}

HJG_STEP_FN HjgStatus
select_block(int width, const HjgStepLaunch *launch, hjg_u32 ix, hjg_u8 *scratch, hjg_u32 *count)
{
	const HjgStepArgs *args = &launch->args;
	const HjgSelect *select = (const HjgSelect *) (launch->table + args->headers_off[0]);
	const hjg_u32 nrows = hjg_select_block_rows(select, ix);
	const hjg_u32 first = ix * HJG_PACK_BLOCK_ROWS;
	hjg_u32    *selected = (hjg_u32 *) (launch->work + args->rows_off) + first;
	const hjg_u8 *keys = scratch;
	const HjgPackBlock *block;
	HjgStatus	status = HJG_OK;

	if (select->ncolumns > 1)
		return select_products(width, launch, select, ix, selected, count);
	if (args->mode == HJG_SELECT_PACKED)
	{
		status = hjg_packed_block(launch->packed, 0, ix, &block);
		*count = status == HJG_OK ? select_in_place(width, select, block, nrows, first, selected) : 0;
		return status;
	}
	if (args->mode == HJG_SELECT_CASCADE)
		status = hjg_unpack_block(launch->packed, ix, scratch, scratch + HJG_PACK_BLOCK_ROWS * 8);
	else
		keys = (const hjg_u8 *) launch->user + args->keys_off + (size_t) (ix - args->first_index) * HJG_PACK_BLOCK_ROWS * (size_t) width;
	*count = status == HJG_OK ? hjg_select_values(width, keys, nrows, first, select->from[0], select->span[0], selected) : 0;
	return status;
}

static void
select_blocks(const HjgStepLaunch *launch, hjg_u32 begin, hjg_u32 end, hjg_u32 worker)
{
	hjg_u8	   *scratch = launch->work + launch->args.unpack_scratch_off + (size_t) worker * HJG_SELECT_SCRATCH_BYTES;

	for (hjg_u32 ix = begin; ix < end; ix++)
	{
		hjg_u32    *count = (hjg_u32 *) (launch->work + launch->args.counts_off) + ix;

		if ((launch->width == 4 ? select_block(4, launch, ix, scratch, count) : select_block(8, launch, ix, scratch, count)) != HJG_OK)
			hjg_step_raise(launch->table, &launch->args, HJG_STEP_DAMAGED);
	}
}

const HjgOwnStep hjg_select_step = {.run = select_blocks, .kernel = "hjg_k_select"};
