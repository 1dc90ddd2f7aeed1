/*
 * coupled_unpack.c
 *	  Opening a packed batch, checking its blocks, and unpacking them on a CPU thread.
 *
 * The loops are those of kernels/hjg_unpack.h with each kind of stream as a constant.
 */
#include <string.h>

#include "coupled/hjg_pack_internal.h"

/* ---- checks ---- */

static bool
plan_is_valid(const HjgPackPlan *plan)
{
	return plan->leaf <= HJG_PACK_NSV && plan->lengths_leaf <= HJG_PACK_NSV && plan->scale <= HJG_PACK_MAX_DIGITS + 1;
}

HjgStatus
hjg_packed_open(const void *packed, size_t bytes, const HjgPackHeader **result)
{
	const HjgPackHeader *header = packed;
	const hjg_u64 *directory;
	hjg_u64		nplaces;
	hjg_u64		width;

	if (bytes < sizeof(HjgPackHeader) || header->magic != HJG_PACK_MAGIC || header->bytes > bytes ||
		(header->key_width != HJG_KEY_WIDTH_4 && header->key_width != HJG_KEY_WIDTH_8 &&
		 header->key_width != HJG_KEY_WIDTH_16) ||
		header->ncolumns != (hjg_u32) hjg_pack_ncolumns((int) header->key_width) || header->head_bytes > header->bytes ||
		header->head_bytes < sizeof(HjgPackHeader) || header->head_bytes % 8 != 0 ||
		header->checksum != hjg_pack_checksum((const hjg_u64 *) packed + 1, header->head_bytes / 8 - 1))
		return HJG_ERR_INPUT;
	nplaces = (hjg_u64) hjg_packed_nblocks(header) * header->ncolumns;
	width = (hjg_u64) hjg_pack_column_width((int) header->key_width);
	if (header->directory_off > header->head_bytes || header->directory_off % 8 != 0 ||
		(header->head_bytes - header->directory_off) / sizeof(hjg_u64) < nplaces)
		return HJG_ERR_INPUT;
	for (hjg_u32 c = 0; c < header->ncolumns; c++)
	{
		const HjgPackColumn *column = &header->columns[c];

		if (!plan_is_valid(&column->plan) || column->dict_count > HJG_PACK_MAX_DICT || column->dict_off % 8 != 0 ||
			column->dict_off > header->head_bytes || (header->head_bytes - column->dict_off) / width < column->dict_count)
			return HJG_ERR_INPUT;
	}
	directory = (const hjg_u64 *) ((const hjg_u8 *) packed + header->directory_off);
	for (hjg_u64 i = 0; i < nplaces; i++)
		if (directory[i] % 8 != 0 || directory[i] < header->head_bytes || directory[i] > header->bytes ||
			header->bytes - directory[i] < sizeof(HjgPackBlock))
			return HJG_ERR_INPUT;
	*result = header;
	return HJG_OK;
}

HjgStatus
hjg_packed_block(const HjgPackHeader *header, int column, hjg_u32 ix, const HjgPackBlock **result)
{
	const HjgPackBlock *block = hjg_unpack_find(header, column, ix);

	if (!hjg_unpack_block_ends(header, block) || block->checksum != hjg_unpack_checksum(block, 0, 1) ||
		!hjg_unpack_block_is_sound(header, column, ix, block))
		return HJG_ERR_INPUT;
	*result = block;
	return HJG_OK;
}

/* ---- unpacking ---- */

/* Unpack all lanes of a stream, with its schemes as constants. */
#define EACH_LANE(width, leaf, delta, mapped) \
	for (hjg_u32 lane = 0; lane * HJG_PACK_LANE_ROWS < stream->nvalues; lane++) \
		hjg_unpack_lane(width, leaf, delta, mapped, header, column, block, stream, lane, out, stride)

#define EACH_KIND(width, leaf) \
	do \
	{ \
		if (mapped && delta) \
			EACH_LANE(width, leaf, 1, 1); \
		else if (mapped) \
			EACH_LANE(width, leaf, 0, 1); \
		else if (delta) \
			EACH_LANE(width, leaf, 1, 0); \
		else \
			EACH_LANE(width, leaf, 0, 0); \
	} while (0)

static void
unpack_stream(int width, int leaf, bool delta, bool mapped, const HjgPackHeader *header, int column,
			  const HjgPackBlock *block, const HjgPackStream *stream, hjg_u8 *out, hjg_u32 stride)
{
	if (width == 4 && leaf == HJG_PACK_NSV)
		EACH_KIND(4, HJG_PACK_NSV);
	else if (width == 4)
		EACH_KIND(4, HJG_PACK_NS);
	else if (leaf == HJG_PACK_NSV)
		EACH_KIND(8, HJG_PACK_NSV);
	else
		EACH_KIND(8, HJG_PACK_NS);
}

HjgStatus
hjg_unpack_runs(const HjgPackHeader *header, int column, hjg_u32 ix, void *values, hjg_u32 *ends, hjg_u32 *nruns)
{
	const HjgPackPlan *plan = &header->columns[column].plan;
	const HjgPackBlock *block;
	HjgStatus	status = hjg_packed_block(header, column, ix, &block);

	if (status != HJG_OK || !plan->runs)
		return HJG_ERR_INPUT;
	unpack_stream(hjg_pack_column_width((int) header->key_width), plan->leaf, plan->delta, plan->dict || plan->scale, header,
				  column, block, &block->values, values, 1);
	unpack_stream(4, plan->lengths_leaf, true, false, header, column, block, &block->lengths, (hjg_u8 *) ends, 1);
	*nruns = block->nruns;
	/* a block whose runs do not cover it was not packed by this code */
	return ends[block->nruns - 1] == block->nrows ? HJG_OK : HJG_ERR_INPUT;
}

HjgStatus
hjg_unpack_block(const HjgPackHeader *header, hjg_u32 ix, void *keys, void *scratch)
{
	const int	width = hjg_pack_column_width((int) header->key_width);
	HjgStatus	status = HJG_OK;

	for (int c = 0; c < (int) header->ncolumns && status == HJG_OK; c++)
	{
		const HjgPackPlan *plan = &header->columns[c].plan;
		hjg_u8	   *out = (hjg_u8 *) keys + 8 * c;
		const HjgPackBlock *block;

		if (plan->runs)
		{
			hjg_u32    *ends = (hjg_u32 *) ((hjg_u8 *) scratch + HJG_PACK_BLOCK_ROWS * 8);
			hjg_u32		nruns;

			status = hjg_unpack_runs(header, c, ix, scratch, ends, &nruns);
			if (status != HJG_OK)
				break;
			if (width == 4)
				hjg_unpack_expand(4, scratch, ends, nruns, 0, ends[nruns - 1], out, 1);
			else
				hjg_unpack_expand(8, scratch, ends, nruns, 0, ends[nruns - 1], out, header->ncolumns);
			continue;
		}
		status = hjg_packed_block(header, c, ix, &block);
		if (status == HJG_OK)
			unpack_stream(width, plan->leaf, plan->delta, plan->dict || plan->scale, header, c, block, &block->values, out,
						  header->ncolumns);
	}
	return status;
}
