/*
 * coupled_feed_hash.c
 *	  b1, p1 and n1 on packed keys, in pipelines without D.
 *
 * The threads of E read packed blocks themselves, and no array of keys is written.  Plain values and those
 * of NS are read one by one at computed places.  A block under RLE is unpacked to its runs (partial
 * decompression), and a run's value is hashed once for all of its rows.  Blocks that can only be unpacked
 * in order (Delta, NSV) go through the thread's scratch memory one at a time.  He, Zhang and He, section
 * 3.2.2.
 */
#include "coupled/hjg_coupled_internal.h"

/* The place of the results for the rows of a block. */
typedef struct Target
{
	hjg_u8	   *work;
	const HjgStepArgs *args;
	hjg_u32		begin;			/* rows of the block */
	hjg_u32		end;
	hjg_u32		first_index;	/* index of row begin in the arrays */
} Target;

HJG_ALWAYS_INLINE void
put_row(int width, const Target *target, hjg_u32 row, hjg_u64 mixed)
{
	const hjg_u32 at = target->first_index + (row - target->begin);

	hjg_step_put(width, target->work, target->args, at, target->args->first_row + at, mixed, 0);
}

HJG_ALWAYS_INLINE hjg_u64
mix_value(int width, const Target *target, hjg_u64 value)
{
	return width == 4 ? hjg_mix32(target->args->seed, (hjg_u32) value) : hjg_mix64(target->args->seed, value);
}

HJG_ALWAYS_INLINE void
hash_runs(int width, const Target *target, const hjg_u8 *values, const hjg_u32 *ends, hjg_u32 nruns)
{
	hjg_u32		row = target->begin;

	for (hjg_u32 run = hjg_unpack_find_run(ends, nruns, row); run < nruns && row < target->end; run++)
	{
		const hjg_u64 mixed = mix_value(width, target, hjg_unpack_word(width, values, run));
		const hjg_u32 stop = ends[run] < target->end ? ends[run] : target->end;

		for (; row < stop; row++)
			put_row(width, target, row, mixed);
	}
}

HJG_ALWAYS_INLINE void
hash_bits(int width, const Target *target, const HjgPackHeader *header, const HjgPackBlock *block, bool mapped)
{
	const HjgPackStream *stream = &block->values;
	const hjg_u8 *data = (const hjg_u8 *) block + stream->data_off;

	for (hjg_u32 row = target->begin; row < target->end; row++)
	{
		hjg_u64		value = hjg_unpack_bits(data, row * stream->bits, stream->bits) + stream->base;

		if (mapped)
			value = hjg_unpack_mapped(width, header, 0, width == 4 ? (hjg_u32) value : value);
		put_row(width, target, row, mix_value(width, target, value));
	}
}

HJG_ALWAYS_INLINE void
hash_values(int width, const Target *target, const hjg_u8 *values)
{
	for (hjg_u32 row = target->begin; row < target->end; row++)
		put_row(width, target, row, mix_value(width, target, hjg_unpack_word(width, values, row)));
}

HJG_ALWAYS_INLINE HjgStatus
hash_block(int width, const Target *target, const HjgPackHeader *header, hjg_u32 ix, hjg_u8 *scratch)
{
	const HjgPackPlan *plan = &header->columns[0].plan;
	hjg_u32    *ends = (hjg_u32 *) (scratch + HJG_PACK_BLOCK_ROWS * 8);
	const HjgPackBlock *block;
	HjgStatus	status;
	hjg_u32		nruns;

	if (plan->runs)
	{
		status = hjg_unpack_runs(header, 0, ix, scratch, ends, &nruns);
		if (status == HJG_OK)
			hash_runs(width, target, scratch, ends, nruns);
	}
	else if (plan->delta || plan->leaf == HJG_PACK_NSV)
	{
		status = hjg_unpack_block(header, ix, scratch, NULL);
		if (status == HJG_OK)
			hash_values(width, target, scratch);
	}
	else
	{
		status = hjg_packed_block(header, 0, ix, &block);
		if (status == HJG_OK && (plan->dict || plan->scale))
			hash_bits(width, target, header, block, true);
		else if (status == HJG_OK)
			hash_bits(width, target, header, block, false);
	}
	return status;
}

bool
hjg_steps_hashes_packed(int width)
{
	return width != HJG_KEY_WIDTH_16;
}

HjgStatus
hjg_steps_hash_packed(const HjgStepLaunch *launch, hjg_u32 ix, hjg_u8 *scratch)
{
	const hjg_u32 first = ix * HJG_PACK_BLOCK_ROWS;
	const hjg_u32 begin = launch->begin > first ? launch->begin : first;
	const Target target = {
		.work = launch->work, .args = &launch->args, .begin = begin - first,
		.end = launch->end - first < HJG_PACK_BLOCK_ROWS ? launch->end - first : HJG_PACK_BLOCK_ROWS,
		.first_index = begin - launch->begin
	};

	return launch->width == 4 ? hash_block(4, &target, launch->packed, ix, scratch) :
		hash_block(8, &target, launch->packed, ix, scratch);
}
