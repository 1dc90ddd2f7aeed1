/*
 * hjg_unpack.h
 *	  Unpacking of packed blocks (hjg_packed.h), a lane or a row at a time: the common subset of C99 and
 *	  OpenCL C.
 *
 * A worker unpacks lane after lane of a block.  A block with RLE takes two phases, separated by a barrier
 * of all workers: first the lanes of its runs, values and ends, into scratch memory (partial
 * decompression, sufficient for a reader of runs), then the rows from those.
 *
 * Callers check the batch's head (hjg_packed_open()) and the block (hjg_unpack_block_is_sound() and its
 * checksum) first, so that all offsets lie in the block; these functions keep offsets that depend on
 * packed values within bounds.
 */
#ifndef HJG_UNPACK_H
#define HJG_UNPACK_H

#include "kernels/hjg_dialect.h"
#include "layout/hjg_checksum.h"
#include "layout/hjg_packed.h"

/* Scale needs doubles, which not every device has. */
#if !defined(__OPENCL_VERSION__) || defined(cl_khr_fp64) || defined(__opencl_c_fp64)
#define HJG_UNPACK_SCALE 1
#endif

/* Values and ends of the runs of a block. */
#define HJG_UNPACK_SCRATCH_BYTES (HJG_PACK_BLOCK_ROWS * 12u)

/* ---- checks ---- */

/* Does an array lie in the block, aligned? */
HJG_STEP_FN int
hjg_unpack_array_fits(HJG_GLOBAL const HjgPackBlock *block, hjg_u32 off, hjg_u64 bytes)
{
	return off % 8 == 0 && off >= sizeof(HjgPackBlock) && off <= block->bytes && block->bytes - off >= bytes;
}

HJG_STEP_FN int
hjg_unpack_stream_fits(HJG_GLOBAL const HjgPackBlock *block, HJG_GLOBAL const HjgPackStream *stream, int width, int leaf,
					   int delta)
{
	const hjg_u64 nlanes = (stream->nvalues + HJG_PACK_LANE_ROWS - 1) / HJG_PACK_LANE_ROWS;

	if (delta && !hjg_unpack_array_fits(block, stream->marks_off, nlanes * (hjg_u64) width))
		return 0;
	if (leaf != HJG_PACK_NSV)
		return stream->bits <= 64 &&
			hjg_unpack_array_fits(block, stream->data_off, ((hjg_u64) stream->nvalues * stream->bits + 63) / 64 * 8 + 8);
	return stream->bits <= HJG_PACK_BLOCK_ROWS * 8 &&
		hjg_unpack_array_fits(block, stream->sizes_off, ((hjg_u64) stream->nvalues + 1) / 2) &&
		hjg_unpack_array_fits(block, stream->starts_off, nlanes * 4) &&
		hjg_unpack_array_fits(block, stream->data_off, (hjg_u64) stream->bits + 16);
}

HJG_STEP_FN HJG_GLOBAL const HjgPackBlock *
hjg_unpack_find(HJG_GLOBAL const HjgPackHeader *header, int column, hjg_u32 ix)
{
	HJG_GLOBAL const hjg_u8 *bytes = (HJG_GLOBAL const hjg_u8 *) header;

	return (HJG_GLOBAL const HjgPackBlock *)
		(bytes + ((HJG_GLOBAL const hjg_u64 *) (bytes + header->directory_off))[ix * header->ncolumns + (hjg_u32) column]);
}

/* Does the block's claimed length lie within the batch, so that its checksum can be computed? */
HJG_STEP_FN int
hjg_unpack_block_ends(HJG_GLOBAL const HjgPackHeader *header, HJG_GLOBAL const HjgPackBlock *block)
{
	const hjg_u64 off = (hjg_u64) ((HJG_GLOBAL const hjg_u8 *) block - (HJG_GLOBAL const hjg_u8 *) header);

	return block->bytes <= header->bytes - off && block->bytes >= sizeof(HjgPackBlock) && block->bytes % 8 == 0;
}

/* Do all arrays of a block lie within it? */
HJG_STEP_FN int
hjg_unpack_block_is_sound(HJG_GLOBAL const HjgPackHeader *header, int column, hjg_u32 ix,
						  HJG_GLOBAL const HjgPackBlock *block)
{
	HJG_GLOBAL const HjgPackPlan *plan = &header->columns[column].plan;
	const hjg_u32 left = header->nrows - ix * HJG_PACK_BLOCK_ROWS;
	const hjg_u32 nrows = left < HJG_PACK_BLOCK_ROWS ? left : HJG_PACK_BLOCK_ROWS;

	return block->nrows == nrows && block->nruns <= nrows && block->values.nvalues == (plan->runs ? block->nruns : nrows) &&
		hjg_unpack_stream_fits(block, &block->values, header->key_width == 4 ? 4 : 8, plan->leaf, plan->delta) &&
		(!plan->runs || (block->nruns > 0 && block->lengths.nvalues == block->nruns &&
						 hjg_unpack_stream_fits(block, &block->lengths, 4, plan->lengths_leaf, 1)));
}

/*
 * Sum the words first, first + step, ... of a block, without its checksum; the sums of all workers add up
 * to the checksum.
 */
HJG_STEP_FN hjg_u64
hjg_unpack_checksum(HJG_GLOBAL const HjgPackBlock *block, hjg_u32 first, hjg_u32 step)
{
	HJG_GLOBAL const hjg_u64 *words = (HJG_GLOBAL const hjg_u64 *) block + 1;
	const hjg_u32 nwords = block->bytes / 8 - 1;
	hjg_u64		sum = 0;

	for (hjg_u32 i = first; i < nwords; i += step)
		sum += hjg_checksum_word(words[i] + ((hjg_u64) i << 48));
	return sum;
}

/* ---- values ---- */

/* Read bits (at most 64) of data from bit number at; the next word is read as well. */
HJG_STEP_FN hjg_u64
hjg_unpack_bits(HJG_GLOBAL const hjg_u8 *data, hjg_u32 at, hjg_u32 bits)
{
	HJG_GLOBAL const hjg_u64 *words = (HJG_GLOBAL const hjg_u64 *) data + (at >> 6);
	const hjg_u32 shift = at & 63u;
	const hjg_u64 mask = bits == 0 ? 0 : ~(hjg_u64) 0 >> (64u - bits);

	return (words[0] >> shift | words[1] << 1 << (63u - shift)) & mask;
}

HJG_STEP_FN hjg_u64
hjg_unpack_word(int width, HJG_GLOBAL const hjg_u8 *words, hjg_u32 i)
{
	return width == 4 ? ((HJG_GLOBAL const hjg_u32 *) words)[i] : ((HJG_GLOBAL const hjg_u64 *) words)[i];
}

HJG_STEP_FN void
hjg_unpack_store(int width, HJG_GLOBAL hjg_u8 *out, hjg_u32 i, hjg_u64 value)
{
	if (width == 4)
		((HJG_GLOBAL hjg_u32 *) out)[i] = (hjg_u32) value;
	else
		((HJG_GLOBAL hjg_u64 *) out)[i] = value;
}

/*
 * Return the bits of the float that is the integer divided by 10^digits.  One division in double
 * precision, which rounds equally everywhere; packing has verified that it restores the value.
 */
HJG_STEP_FN hjg_u64
hjg_unpack_scaled(int width, hjg_u64 value, int digits)
{
#ifdef HJG_UNPACK_SCALE
	union
	{
		double		d;
		hjg_u64		u;
	}			wide;
	union
	{
		float		f;
		hjg_u32		u;
	}			narrow;
	double		power = 1;

	for (int i = 0; i < digits; i++)
		power *= 10;
	wide.d = (width == 4 ? (double) (int) (hjg_u32) value : (double) (long) value) / power;
	if (width == 8)
		return wide.u;
	narrow.f = (float) wide.d;
	return narrow.u;
#else
	return value;
#endif
}

/* Undo DICT and Scale for a value. */
HJG_STEP_FN hjg_u64
hjg_unpack_mapped(int width, HJG_GLOBAL const HjgPackHeader *header, int column, hjg_u64 value)
{
	HJG_GLOBAL const HjgPackColumn *about = &header->columns[column];

	if (about->plan.dict)
		value = value < about->dict_count ?
			hjg_unpack_word(width, (HJG_GLOBAL const hjg_u8 *) header + about->dict_off, (hjg_u32) value) : 0;
	return about->plan.scale ? hjg_unpack_scaled(width, value, about->plan.scale - 1) : value;
}

/*
 * Unpack the values of a lane of a stream, each to out[n * stride].  mapped: undo DICT and Scale as well.
 * width, leaf, delta and mapped are constants in performance-critical loops.
 */
HJG_STEP_FN void
hjg_unpack_lane(int width, int leaf, int delta, int mapped, HJG_GLOBAL const HjgPackHeader *header, int column,
				HJG_GLOBAL const HjgPackBlock *block, HJG_GLOBAL const HjgPackStream *stream, hjg_u32 lane,
				HJG_GLOBAL hjg_u8 *out, hjg_u32 stride)
{
	HJG_GLOBAL const hjg_u8 *data = (HJG_GLOBAL const hjg_u8 *) block + stream->data_off;
	HJG_GLOBAL const hjg_u8 *sizes = (HJG_GLOBAL const hjg_u8 *) block + stream->sizes_off;
	const hjg_u32 bits = stream->bits;
	const hjg_u64 base = stream->base;
	const hjg_u32 begin = lane * HJG_PACK_LANE_ROWS;
	const hjg_u32 end = stream->nvalues - begin < HJG_PACK_LANE_ROWS ? stream->nvalues : begin + HJG_PACK_LANE_ROWS;
	hjg_u32		at = begin * bits;
	hjg_u64		value;
	hjg_u64		last = 0;

	if (leaf == HJG_PACK_NSV)
		at = ((HJG_GLOBAL const hjg_u32 *) ((HJG_GLOBAL const hjg_u8 *) block + stream->starts_off))[lane] * 8u;
	/* the first value of a lane is its mark, and was packed as nothing */
	if (delta)
		last = hjg_unpack_word(width, (HJG_GLOBAL const hjg_u8 *) block + stream->marks_off, lane) - base;
	for (hjg_u32 i = begin; i < end; i++)
	{
		hjg_u32		n = bits;

		if (leaf == HJG_PACK_NSV)
		{
			n = (hjg_u32) (sizes[i >> 1] >> (i & 1u) * 4u & 15u) * 8u;
			n = n > 64u ? 64u : n;
			at = at > bits * 8u ? bits * 8u : at;
		}
		value = hjg_unpack_bits(data, at, n) + base;
		at += n;
		if (delta)
			value = last += value;
		if (mapped)
			value = hjg_unpack_mapped(width, header, column, width == 4 ? (hjg_u32) value : value);
		hjg_unpack_store(width, out, i * stride, value);
	}
}

/* Find the run of a row: the first one that ends after it. */
HJG_STEP_FN hjg_u32
hjg_unpack_find_run(HJG_GLOBAL const hjg_u32 *ends, hjg_u32 nruns, hjg_u32 row)
{
	hjg_u32		low = 0;
	hjg_u32		high = nruns;

	while (low < high)
	{
		const hjg_u32 middle = (low + high) / 2;

		if (ends[middle] <= row)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Expand rows [begin, end) of a block with RLE from the values and ends of its runs. */
HJG_STEP_FN void
hjg_unpack_expand(int width, HJG_GLOBAL const hjg_u8 *values, HJG_GLOBAL const hjg_u32 *ends, hjg_u32 nruns,
				  hjg_u32 begin, hjg_u32 end, HJG_GLOBAL hjg_u8 *out, hjg_u32 stride)
{
	hjg_u32		run = hjg_unpack_find_run(ends, nruns, begin);

	for (hjg_u32 row = begin; row < end && run < nruns; run++)
	{
		const hjg_u64 value = hjg_unpack_word(width, values, run);
		const hjg_u32 stop = ends[run] < end ? ends[run] : end;

		for (; row < stop; row++)
			hjg_unpack_store(width, out, row * stride, value);
	}
}

#endif							/* HJG_UNPACK_H */
