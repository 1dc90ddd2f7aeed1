/*
 * engine_table_parts.c
 *	  The two blocks of a finished table, wherever they lie, and its number of buckets.
 *
 * One block holds the lines, the other a head, which describes the table, and the tuples of crowded
 * buckets.  An array by key lies in place of the lines, and the other block is only the head.
 */
#include "engine/hjg_engine_internal.h"

/* The head, in the line before the tuples. */
typedef struct TableHead
{
	hjg_u64		nplaces;		/* of an array by key; 0: a table of lines */
	hjg_u64		first_key;
	hjg_u64		repeated;		/* not 0: starts of each key's rows lie before the rows */
	hjg_u64		ncrowded;		/* of a table of lines */
} TableHead;

/*
 * Choose the number of buckets for 4, 2.5 or 1.6 tuples each.  Random keys then crowd one bucket in 20 to
 * 25; 16-byte keys one in 13, where 1.25 tuples a bucket would take a quarter more memory without being
 * faster.  Measured with 4 threads, 5M x 20M rows, million rows a second: with 4-byte keys 345 at 2.4
 * tuples, 373 at 3.5, 348 at 4, and half of that at 4.8; with 8-byte keys 255 at 2, 225 at 2.5, 216 at 3.
 * (Streaming stores of the lines changed nothing.)  Tables that fit in a corner of the second-level cache
 * get twice the lines: an eighth faster, for 1K to 50K rows.
 */
static hjg_u32
wanted_buckets(int width, hjg_u64 nrows)
{
	const hjg_u64 eighths = width == 4 ? 32 : width == 8 ? 20 : 13;
	hjg_u64		n = (8 * nrows + eighths - 1) / eighths;

	if (2 * n * HJG_LINE_BYTES <= hjg_l2_bytes() / 4)
		n *= 2;
	return n < 1 ? 1 : n < 1u << 31 ? (hjg_u32) n : 1u << 31;
}

int
hjg_table_radix_bits(int width, hjg_u64 nrows)
{
	int			bits = hjg_radix_bits(nrows, 2 * (size_t) hjg_tuple_bytes(width) + 2, hjg_l2_bytes() / 8);

	while (wanted_buckets(width, nrows) >> bits == 0)
		bits--;
	return bits;
}

/* Choose the number of buckets, the same for each partition. */
hjg_u32
hjg_table_nbuckets(int width, hjg_u64 nrows)
{
	const hjg_u32 below = (1u << hjg_table_radix_bits(width, nrows)) - 1;

	return (wanted_buckets(width, nrows) + below) & ~below;
}

HjgTable
hjg_table_at(int width, hjg_u64 nrows, const void *tuples, const void *lines)
{
	const TableHead *head = tuples;
	HjgTable	table = {.nrows = nrows};

	if (head->nplaces > 0)
	{
		table.rows = (hjg_u32 *) lines;
		table.nplaces = head->nplaces;
		table.first_key = head->first_key;
		if (head->repeated)
			hjg_direct_place_rows(&table);
		return table;
	}
	table.lines = (hjg_u8 *) lines;
	table.tuples = (hjg_u8 *) tuples + HJG_LINE_BYTES;
	table.nbuckets = hjg_table_nbuckets(width, nrows);
	table.ncrowded = head->ncrowded;
	return table;
}

bool
hjg_table_reserve(HjgJoin *join, HjgTablePart part, size_t bytes)
{
	HjgBlock   *block = part == HJG_TABLE_LINES ? &join->lines_block : &join->tuples_block;

	if (join->env.alloc_table == NULL)
		return hjg_block_reserve(join, block, bytes);
	block->ptr = join->env.alloc_table(join->env.arg, part, bytes);
	return block->ptr != NULL;
}

HjgStatus
hjg_table_publish_lines(HjgJoin *join, size_t bytes)
{
	HjgBlock	own = join->lines_block;

	if (join->env.alloc_table == NULL)
		return HJG_OK;
	join->lines_block = (HjgBlock) {NULL, 0};
	if (hjg_table_reserve(join, HJG_TABLE_LINES, bytes))
		memcpy(join->lines_block.ptr, own.ptr, bytes);
	hjg_block_free(join, &own);
	return join->lines_block.ptr != NULL ? HJG_OK : HJG_ERR_MEMORY;
}

void
hjg_table_write_head(HjgJoin *join)
{
	const HjgTable *table = &join->table;

	*(TableHead *) join->tuples_block.ptr =
		(TableHead) {table->nplaces, table->first_key, table->starts != NULL, table->ncrowded};
}

HjgStatus
hjg_table_keep_direct(HjgJoin *join)
{
	if (!hjg_table_reserve(join, HJG_TABLE_TUPLES, HJG_LINE_BYTES))
		return HJG_ERR_MEMORY;
	hjg_table_write_head(join);
	return HJG_OK;
}
