/*
 * coupled_pack.c
 *	  Packing a batch: header, dictionaries, and block by block.
 */
#include <string.h>

#include "coupled/hjg_pack_internal.h"
#include "layout/hjg_checksum.h"

/* Padding behind the data of a stream, because unpacking reads the word behind a value. */
#define DATA_PAD 16

static size_t
align_8(size_t bytes)
{
	return (bytes + 7) & ~(size_t) 7;
}

hjg_u64
hjg_pack_checksum(const hjg_u64 *words, size_t nwords)
{
	hjg_u64		sum = 0;

	for (size_t i = 0; i < nwords; i++)
		sum += hjg_checksum_word(words[i] + (i << 48));
	return sum;
}

size_t
hjg_pack_bound(int key_width, hjg_u32 nrows)
{
	const size_t width = (size_t) hjg_pack_column_width(key_width);
	const size_t ncolumns = (size_t) hjg_pack_ncolumns(key_width);
	const size_t nblocks = ((size_t) nrows + HJG_PACK_BLOCK_ROWS - 1) / HJG_PACK_BLOCK_ROWS;
	/* for each stream: data, sizes, starts and marks, all under NSV and Delta */
	const size_t stream_rows = HJG_PACK_BLOCK_ROWS / 2 + HJG_PACK_LANES * 12 + DATA_PAD + 32;
	const size_t block = sizeof(HjgPackBlock) + HJG_PACK_BLOCK_ROWS * (width + 4) + 2 * stream_rows;

	return sizeof(HjgPackHeader) + ncolumns * (HJG_PACK_MAX_DICT * width + 8 + nblocks * (block + sizeof(hjg_u64)));
}

/* ---- streams ---- */

typedef struct PackWriter
{
	hjg_u8	   *block;
	hjg_u32		bytes;			/* written so far */
} PackWriter;

/* Reserve bytes more, zeroed; returns their offset. */
static hjg_u32
take_bytes(PackWriter *writer, size_t bytes)
{
	const hjg_u32 off = writer->bytes;

	bytes = align_8(bytes);
	memset(writer->block + off, 0, bytes);
	writer->bytes += (hjg_u32) bytes;
	return off;
}

static void
put_bits(hjg_u64 *words, hjg_u32 at, hjg_u32 bits, hjg_u64 value)
{
	const hjg_u32 shift = at & 63;

	words[at >> 6] |= value << shift;
	if (shift + bits > 64)
		words[(at >> 6) + 1] |= value >> (64 - shift);
}

static void
write_bits(PackWriter *writer, HjgPackStream *stream, const hjg_u64 *values, hjg_u32 bits)
{
	hjg_u64    *words;

	stream->bits = bits;
	stream->data_off = take_bytes(writer, ((size_t) stream->nvalues * bits + 7) / 8 + DATA_PAD);
	words = (hjg_u64 *) (writer->block + stream->data_off);
	for (hjg_u32 i = 0; i < stream->nvalues; i++)
		put_bits(words, i * bits, bits, values[i]);
}

static void
write_bytes(PackWriter *writer, HjgPackStream *stream, const hjg_u64 *values)
{
	const hjg_u32 n = stream->nvalues;
	hjg_u32    *starts;
	hjg_u64    *words;
	hjg_u8	   *sizes;
	hjg_u32		at = 0;

	stream->sizes_off = take_bytes(writer, n / 2 + 1);
	stream->starts_off = take_bytes(writer, (n / HJG_PACK_LANE_ROWS + 1) * sizeof(hjg_u32));
	sizes = writer->block + stream->sizes_off;
	starts = (hjg_u32 *) (writer->block + stream->starts_off);
	for (hjg_u32 i = 0; i < n; i++)
		at += (hjg_pack_bits_of(values[i]) + 7) / 8;
	stream->bits = at;
	stream->data_off = take_bytes(writer, at + DATA_PAD);
	words = (hjg_u64 *) (writer->block + stream->data_off);
	at = 0;
	for (hjg_u32 i = 0; i < n; i++)
	{
		const hjg_u32 size = (hjg_pack_bits_of(values[i]) + 7) / 8;

		if (i % HJG_PACK_LANE_ROWS == 0)
			starts[i / HJG_PACK_LANE_ROWS] = at;
		sizes[i / 2] |= (hjg_u8) (size << i % 2 * 4);
		put_bits(words, at * 8, size * 8, values[i]);
		at += size;
	}
}

/* Write values to a stream of the block; Delta and FOR change them in place. */
static void
write_stream(PackWriter *writer, HjgPackStream *stream, int width, int leaf, bool delta, bool frame, hjg_u64 *values,
			 hjg_u32 n, HjgPackWork *work)
{
	hjg_u64		all = 0;

	*stream = (HjgPackStream) {.nvalues = n};
	if (delta)
	{
		hjg_pack_delta(width, values, n, work->marks);
		stream->marks_off = take_bytes(writer, (n / HJG_PACK_LANE_ROWS + 1) * (size_t) width);
		for (hjg_u32 lane = 0; lane * HJG_PACK_LANE_ROWS < n; lane++)
			hjg_unpack_store(width, writer->block + stream->marks_off, lane, work->marks[lane]);
	}
	if (frame)
		stream->base = hjg_pack_frame(width, values, n, delta);
	if (leaf == HJG_PACK_NSV)
	{
		write_bytes(writer, stream, values);
		return;
	}
	for (hjg_u32 i = 0; i < n; i++)
		all |= values[i];
	write_bits(writer, stream, values, leaf == HJG_PACK_NS ? hjg_pack_bits_of(all) : (hjg_u32) width * 8);
}

/* ---- blocks ---- */

/* Write rows [begin, begin + n) of a column; *bytes becomes the size of the block. */
static HjgStatus
write_packed_block(int key_width, const HjgPackPlan *plan, const HjgPackDict *dict, const void *keys, int column, hjg_u32 begin,
				   hjg_u32 n, HjgPackWork *work, hjg_u8 *to, hjg_u32 *bytes)
{
	const int	width = hjg_pack_column_width(key_width);
	HjgPackBlock *block = (HjgPackBlock *) to;
	PackWriter		writer = {.block = to};
	hjg_u32		nvalues = n;

	take_bytes(&writer, sizeof(HjgPackBlock));
	hjg_pack_gather(key_width, keys, column, begin, n, work->values);
	if (plan->scale)
		for (hjg_u32 i = 0; i < n; i++)
			if (!hjg_pack_scale(width, work->values[i], plan->scale - 1, &work->values[i]))
				return HJG_ERR_INPUT;
	if (plan->dict)
		for (hjg_u32 i = 0; i < n; i++)
			work->values[i] = hjg_pack_dict_place(dict, work->values[i]);
	block->nrows = n;
	if (plan->runs)
		block->nruns = nvalues = hjg_pack_runs(work->values, n, work->ends);
	write_stream(&writer, &block->values, width, plan->leaf, plan->delta, plan->frame, work->values, nvalues, work);
	if (plan->runs)
		write_stream(&writer, &block->lengths, 4, plan->lengths_leaf, true, false, work->ends, nvalues, work);
	*bytes = block->bytes = writer.bytes;
	block->checksum = hjg_pack_checksum((const hjg_u64 *) to + 1, writer.bytes / 8 - 1);
	return HJG_OK;
}

/* Add all values of a column, scaled by the plan, to its dictionary. */
static HjgStatus
fill_dict(const HjgEnv *env, int key_width, const HjgPackPlan *plan, const void *keys, hjg_u32 nrows, int column,
		  HjgPackWork *work, HjgPackDict *dict)
{
	const int	width = hjg_pack_column_width(key_width);

	for (hjg_u32 begin = 0; begin < nrows; begin += HJG_PACK_BLOCK_ROWS)
	{
		const hjg_u32 n = nrows - begin < HJG_PACK_BLOCK_ROWS ? nrows - begin : HJG_PACK_BLOCK_ROWS;

		if (env->poll && env->poll(env->arg))
			return HJG_ERR_CANCELLED;
		hjg_pack_gather(key_width, keys, column, begin, n, work->values);
		for (hjg_u32 i = 0; i < n; i++)
			if ((plan->scale && !hjg_pack_scale(width, work->values[i], plan->scale - 1, &work->values[i])) ||
				!hjg_pack_dict_add(dict, work->values[i]))
				return HJG_ERR_INPUT;
	}
	hjg_pack_dict_sort(dict);
	return HJG_OK;
}

/* Write dictionaries and an empty directory behind the header; returns the offset of the blocks. */
static size_t
write_head(HjgPackHeader *header, const HjgPackPlan *plans, const HjgPackDict *dicts, hjg_u32 nblocks)
{
	const int	width = hjg_pack_column_width((int) header->key_width);
	hjg_u8	   *to = (hjg_u8 *) header;
	size_t		at = sizeof(HjgPackHeader);

	for (hjg_u32 c = 0; c < header->ncolumns; c++)
	{
		header->columns[c] = (HjgPackColumn) {.plan = plans[c], .dict_off = at, .dict_count = dicts[c].count};
		for (hjg_u32 i = 0; i < dicts[c].count; i++)
			hjg_unpack_store(width, to + at, i, dicts[c].values[i]);
		if (dicts[c].count % 2)
			hjg_unpack_store(width, to + at, dicts[c].count, 0);
		at = align_8(at + (size_t) dicts[c].count * (size_t) width);
	}
	header->directory_off = at;
	return header->head_bytes = at + (size_t) nblocks * header->ncolumns * sizeof(hjg_u64);
}

HjgStatus
hjg_pack(const HjgEnv *env, int key_width, const HjgPackPlan *plans, const void *keys, hjg_u32 nrows, void *packed,
		 size_t *bytes)
{
	HjgPackHeader *header = packed;
	const hjg_u32 nblocks = (hjg_u32) (((hjg_u64) nrows + HJG_PACK_BLOCK_ROWS - 1) / HJG_PACK_BLOCK_ROWS);
	HjgPackDict dicts[2] = {{.count = 0}, {.count = 0}};
	HjgPackWork *work = env->alloc(env->arg, sizeof(HjgPackWork));
	HjgStatus	status = work == NULL ? HJG_ERR_MEMORY : HJG_OK;
	hjg_u64    *directory;
	size_t		at;

	memset(header, 0, sizeof(HjgPackHeader));
	header->magic = HJG_PACK_MAGIC;
	header->key_width = (hjg_u32) key_width;
	header->nrows = nrows;
	header->ncolumns = (hjg_u32) hjg_pack_ncolumns(key_width);
	for (int c = 0; c < (int) header->ncolumns && status == HJG_OK; c++)
		if (plans[c].dict)
			status = hjg_pack_dict_create(env, &dicts[c]) ?
				fill_dict(env, key_width, &plans[c], keys, nrows, c, work, &dicts[c]) : HJG_ERR_MEMORY;
	if (status == HJG_OK)
	{
		at = write_head(header, plans, dicts, nblocks);
		directory = (hjg_u64 *) ((hjg_u8 *) packed + header->directory_off);
		for (hjg_u32 ix = 0; ix < nblocks && status == HJG_OK; ix++)
		{
			const hjg_u32 begin = ix * HJG_PACK_BLOCK_ROWS;
			const hjg_u32 n = nrows - begin < HJG_PACK_BLOCK_ROWS ? nrows - begin : HJG_PACK_BLOCK_ROWS;

			if (env->poll && env->poll(env->arg))
				status = HJG_ERR_CANCELLED;
			for (int c = 0; c < (int) header->ncolumns && status == HJG_OK; c++)
			{
				hjg_u32		block_bytes = 0;

				directory[ix * header->ncolumns + (hjg_u32) c] = at;
				status = write_packed_block(key_width, &plans[c], &dicts[c], keys, c, begin, n, work, (hjg_u8 *) packed + at,
											&block_bytes);
				at += block_bytes;
			}
		}
		*bytes = header->bytes = at;
		header->checksum = hjg_pack_checksum((const hjg_u64 *) packed + 1, header->head_bytes / 8 - 1);
	}
	for (int c = 0; c < 2; c++)
		hjg_pack_dict_destroy(env, &dicts[c]);
	if (work != NULL)
		env->free(env->arg, work, sizeof(HjgPackWork));
	return status;
}
