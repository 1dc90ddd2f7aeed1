/*
 * coupled_pack_stats.c
 *	  Statistics of a column: the bits that its values need under each preparation, tried on a sample of blocks.
 */
#include <string.h>

#include "coupled/hjg_pack_internal.h"

#define SAMPLED_BLOCKS 8

/* The sampled values unchanged and, if Scale is possible, as integers; and room to try preparations. */
typedef struct PackSample
{
	hjg_u64		plain[HJG_PACK_BLOCK_ROWS];
	hjg_u64		scaled[HJG_PACK_BLOCK_ROWS];
	HjgPackWork work;
} PackSample;

/* Add the bits that these values need to a shape, with weight n. */
static void
add_shape(HjgPackShape *shape, const hjg_u64 *values, hjg_u32 n)
{
	hjg_u64		all = 0;
	hjg_u64		bytes = 0;

	for (hjg_u32 i = 0; i < n; i++)
	{
		all |= values[i];
		bytes += (hjg_pack_bits_of(values[i]) + 7) / 8;
	}
	shape->bits += (double) hjg_pack_bits_of(all) * n;
	shape->bytes += (double) bytes;
}

/* Make all preparations of a block's values; returns its number of runs. */
static hjg_u32
try_block(HjgPackStats *stats, PackSample *sample, hjg_u32 n)
{
	HjgPackWork *work = &sample->work;
	hjg_u32		nruns = 0;

	for (int scaled = 0; scaled <= (stats->scale > 0 ? 1 : 0); scaled++)
		for (int shape = 0; shape < 8; shape++)
		{
			const bool	runs = shape & 4;
			const bool	delta = shape & 2;
			const bool	frame = shape & 1;
			hjg_u32		count = n;

			memcpy(work->values, scaled ? sample->scaled : sample->plain, n * sizeof(hjg_u64));
			if (runs)
				nruns = count = hjg_pack_runs(work->values, n, work->ends);
			if (delta)
				hjg_pack_delta(stats->width, work->values, count, work->marks);
			if (frame)
				hjg_pack_frame(stats->width, work->values, count, delta);
			add_shape(&stats->shapes[scaled][runs][delta][frame], work->values, count);
		}
	hjg_pack_delta(4, work->ends, nruns, work->marks);
	add_shape(&stats->lengths, work->ends, nruns);
	return nruns;
}

/* Divide the sums to get averages. */
static void
divide_shape(HjgPackShape *shape, double n)
{
	shape->bits /= n > 0 ? n : 1;
	shape->bytes /= n > 0 ? n : 1;
}

/* Choose the fewest decimal digits by which all values become integers, + 1; 0 if there are none. */
static int
digits_of(int width, const hjg_u64 *values, hjg_u32 n, int scale)
{
	hjg_u64		scaled;

	for (hjg_u32 i = 0; i < n && scale > 0; i++)
		while (scale > 0 && !hjg_pack_scale(width, values[i], scale - 1, &scaled))
			scale = scale > HJG_PACK_MAX_DIGITS ? 0 : scale + 1;
	return scale;
}

/* Check all rows, because Scale and DICT must be possible for every value. */
static HjgStatus
look_at_all(const HjgEnv *env, int key_width, const void *keys, int column, PackSample *sample, HjgPackDict *dict,
			HjgPackStats *stats)
{
	bool		room = true;

	stats->scale = 1;
	for (hjg_u32 begin = 0; begin < stats->nrows && (room || stats->scale > 0); begin += HJG_PACK_BLOCK_ROWS)
	{
		const hjg_u32 n = stats->nrows - begin < HJG_PACK_BLOCK_ROWS ? stats->nrows - begin : HJG_PACK_BLOCK_ROWS;

		if (env->poll && env->poll(env->arg))
			return HJG_ERR_CANCELLED;
		hjg_pack_gather(key_width, keys, column, begin, n, sample->plain);
		stats->scale = digits_of(stats->width, sample->plain, n, stats->scale);
		for (hjg_u32 i = 0; i < n && room; i++)
			room = hjg_pack_dict_add(dict, sample->plain[i]);
	}
	stats->ndistinct = room ? dict->count : HJG_PACK_MAX_DICT + 1;
	return HJG_OK;
}

static void
look_at_sample(int key_width, const void *keys, int column, PackSample *sample, HjgPackStats *stats)
{
	const hjg_u32 nblocks = (hjg_u32) (((hjg_u64) stats->nrows + HJG_PACK_BLOCK_ROWS - 1) / HJG_PACK_BLOCK_ROWS);
	const hjg_u32 nsampled = nblocks < SAMPLED_BLOCKS ? nblocks : SAMPLED_BLOCKS;
	double		nrows = 0;
	double		nruns = 0;

	for (hjg_u32 s = 0; s < nsampled; s++)
	{
		const hjg_u32 begin = (hjg_u32) ((hjg_u64) s * nblocks / nsampled) * HJG_PACK_BLOCK_ROWS;
		const hjg_u32 n = stats->nrows - begin < HJG_PACK_BLOCK_ROWS ? stats->nrows - begin : HJG_PACK_BLOCK_ROWS;

		hjg_pack_gather(key_width, keys, column, begin, n, sample->plain);
		if (stats->scale > 0)
			for (hjg_u32 i = 0; i < n; i++)
				hjg_pack_scale(stats->width, sample->plain[i], stats->scale - 1, &sample->scaled[i]);
		nruns += try_block(stats, sample, n);
		nrows += n;
	}
	stats->run_rows = nruns > 0 ? nrows / nruns : 1;
	for (int shape = 0; shape < 16; shape++)
		divide_shape(&stats->shapes[shape >> 3][shape >> 2 & 1][shape >> 1 & 1][shape & 1], shape & 4 ? nruns : nrows);
	divide_shape(&stats->lengths, nruns);
}

HjgStatus
hjg_pack_collect(const HjgEnv *env, int key_width, const void *keys, hjg_u32 nrows, int column, HjgPackStats *stats)
{
	PackSample	   *sample = env->alloc(env->arg, sizeof(PackSample));
	HjgStatus	status = HJG_ERR_MEMORY;
	HjgPackDict dict = {.count = 0};

	*stats = (HjgPackStats) {.width = hjg_pack_column_width(key_width), .nrows = nrows};
	if (sample != NULL && hjg_pack_dict_create(env, &dict))
		status = look_at_all(env, key_width, keys, column, sample, &dict, stats);
	if (status == HJG_OK)
		look_at_sample(key_width, keys, column, sample, stats);
	hjg_pack_dict_destroy(env, &dict);
	if (sample != NULL)
		env->free(env->arg, sample, sizeof(PackSample));
	return status;
}
