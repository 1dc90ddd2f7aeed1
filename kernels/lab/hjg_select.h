/*
 * hjg_select.h
 *	  A selection of rows by a range of values, a block of HJG_PACK_BLOCK_ROWS rows at a time: the common subset
 *	  of C99 and OpenCL C.
 *
 * It is a step of its own (HjgOwnStep) whose units are blocks.  A block's row numbers go to the block's place in
 * the array of selected rows, and their number to its place in the array of counts, so blocks have nothing in
 * common.  Values come from an array of keys, or are read in place from a packed column under NS.
 *
 * The launch's arguments, as far as the step uses them:
 *		headers_off[0]	in table: HjgSelect
 *		counts_off		in work: the number of rows that each block has selected
 *		rows_off		in work: their numbers, those of a block from its first row's place on
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

/* The predicate, from <= value < from + span, and the rows of the column. */
typedef struct HjgSelect
{
	hjg_u64		from;
	hjg_u64		span;
	hjg_u32		nrows;
	hjg_u32		pad;
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

#endif							/* HJG_SELECT_H */
