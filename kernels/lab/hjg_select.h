/*
 * hjg_select.h
 *	  A selection of rows by ranges of values, a block of HJG_PACK_BLOCK_ROWS rows at a time: the common subset
 *	  of C99 and OpenCL C.
 *
 * It is a step of its own (HjgOwnStep) whose units are blocks.  A block's row numbers go to the block's place in
 * the array of selected rows, and their number to its place in the array of counts, so blocks have nothing in
 * common.  Values come from an array of keys, or are read in place from a packed column under NS.  Where rows have
 * several columns, a block of rows is a block of each of them, one behind the other, and what is selected is also
 * summed up: the products of the last two columns.
 *
 * The launch's arguments, as far as the step uses them:
 *		headers_off[0]	in table: HjgSelect
 *		counts_off		in work: the number of rows that each block has selected
 *		rows_off		in work: their numbers, those of a block from its first row's place on
 *		buckets_off		in work: the sum of each block, where there are several columns
 *		mode			HjgSelectInput
 *		keys_off		in the caller's memory: the keys of block first_index and of those behind it
 */
#ifndef HJG_SELECT_H
#define HJG_SELECT_H

#include "kernels/hjg_steps.h"
#include "kernels/hjg_unpack.h"

typedef enum HjgSelectInput
{
	HJG_SELECT_KEYS = 0,		/* an array of keys */
	HJG_SELECT_PACKED,			/* a packed column under NS, of which values are read in place */
	HJG_SELECT_CASCADE			/* any packed column, of which a CPU thread unpacks block after block itself */
} HjgSelectInput;

/* Most columns of a row. */
#define HJG_SELECT_COLUMNS 4

/* The predicate, from <= value < from + span of each column, and the rows. */
typedef struct HjgSelect
{
	hjg_u64		from[HJG_SELECT_COLUMNS];
	hjg_u64		span[HJG_SELECT_COLUMNS];
	hjg_u32		nrows;
	hjg_u32		ncolumns;
} HjgSelect;

HJG_STEP_FN hjg_u32
hjg_select_block_rows(HJG_GLOBAL const HjgSelect *select, hjg_u32 ix)
{
	const hjg_u32 left = select->nrows - ix * HJG_PACK_BLOCK_ROWS;

	return left < HJG_PACK_BLOCK_ROWS ? left : HJG_PACK_BLOCK_ROWS;
}

/* Read the value of a row of a block under NS, with or without FOR. */
HJG_STEP_FN hjg_u64
hjg_select_packed_value(int width, HJG_GLOBAL const HjgPackBlock *block, hjg_u32 i)
{
	HJG_GLOBAL const HjgPackStream *stream = &block->values;
	const hjg_u64 value = hjg_unpack_bits((HJG_GLOBAL const hjg_u8 *) block + stream->data_off, i * stream->bits, stream->bits) + stream->base;

	return width == 4 ? (hjg_u32) value : value;
}

/*
 * Write the numbers of the rows whose values are in [from, from + span) to selected, which has room for nrows;
 * the first value's row is first.  Returns their number.  width is a constant.
 */
HJG_STEP_FN hjg_u32
hjg_select_values(int width, HJG_GLOBAL const hjg_u8 *values, hjg_u32 nrows, hjg_u32 first, hjg_u64 from, hjg_u64 span,
				  HJG_GLOBAL hjg_u32 *selected)
{
	hjg_u32		n = 0;

	for (hjg_u32 i = 0; i < nrows; i++)
	{
		selected[n] = first + i;
		n += hjg_unpack_word(width, values, i) - from < span;
	}
	return n;
}

/* Read a value of a row of a block: blocks are its packed columns, or NULL where keys are. */
HJG_STEP_FN hjg_u64
hjg_select_value(int width, HJG_GLOBAL const hjg_u8 *keys, HJG_GLOBAL const HjgPackBlock *const *blocks, hjg_u32 column, hjg_u32 i)
{
	return blocks[column] != 0 ? hjg_select_packed_value(width, blocks[column], i) :
		hjg_unpack_word(width, keys, column * HJG_PACK_BLOCK_ROWS + i);
}

/* Is a row selected?  If so, and if it has several columns, add its product to *sum. */
HJG_STEP_FN int
hjg_select_takes(int width, hjg_u32 ncolumns, HJG_GLOBAL const HjgSelect *select, HJG_GLOBAL const hjg_u8 *keys,
				 HJG_GLOBAL const HjgPackBlock *const *blocks, hjg_u32 i, hjg_u64 *sum)
{
	const hjg_u32 last = ncolumns - 1;

	for (hjg_u32 column = 0; column <= last; column++)
		if (hjg_select_value(width, keys, blocks, column, i) - select->from[column] >= select->span[column])
			return 0;
	if (last > 0)
		*sum += hjg_select_value(width, keys, blocks, last - 1, i) * hjg_select_value(width, keys, blocks, last, i);
	return 1;
}

#endif							/* HJG_SELECT_H */
