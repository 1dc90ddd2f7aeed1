/*
 * rows_store.c
 *	  The row store: payload columns of one side, in chunks.
 *
 * A chunk is a header, a power of two of rows, and the rows' NULL bits. All columns of a row are contiguous, because rows are
 * fetched in any order, and a row should cost one cache miss, whatever its number of columns. By-value columns are stored at
 * their own width, fixed-width by-reference ones in the row, and so are values of variable length if most are short; all
 * others are pointers to copies in the store's data blocks. NULL bits are valid only if the chunk's header says that the
 * chunk has NULLs.
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "rows/hjg_rows_store.h"

#define MIN_CHUNK_SHIFT 8
#define MAX_CHUNK_SHIFT 16

StaticAssertDecl(HJG_STORE_MAX_CHUNK_ROWS == 1 << MAX_CHUNK_SHIFT, "largest chunk of a row store");

static HjgColumnForm
column_form(const HjgColumn *column, bool shared)
{
	if (column->inline_bytes > 0)
		return HJG_FORM_SHORT;
	if (!column->attbyval)
		return column->attlen > 0 ? HJG_FORM_INLINE : shared ? HJG_FORM_PLACE : HJG_FORM_POINTER;
	switch (column->attlen)
	{
		case 1:
			return HJG_FORM_BYTE;
		case 2:
			return HJG_FORM_INT16;
		case 4:
			return HJG_FORM_INT32;
		default:
			return HJG_FORM_INT64;
	}
}

static int
column_width(const HjgColumn *column)
{
	switch (column_form(column, false))
	{
		case HJG_FORM_INLINE:
			return (int) MAXALIGN(column->attlen);
		case HJG_FORM_POINTER:
			return (int) sizeof(char *);
		case HJG_FORM_SHORT:
			return (int) MAXALIGN(column->inline_bytes);
		default:
			return column->attlen;
	}
}

int
hjg_rows_store_plain_bytes(int ncolumns, const HjgColumn *columns)
{
	int			widest = 1;
	int			bytes = 0;

	for (int i = 0; i < ncolumns; i++)
	{
		if (!columns[i].attbyval)
			return 0;
		bytes += columns[i].attlen;
		widest = Max(widest, columns[i].attlen);
	}
	return (int) TYPEALIGN(widest, bytes);
}

/* Compute the columns' offsets in a row, wide columns first, so that all are aligned without gaps. */
static void
lay_out_row(HjgStore *store)
{
	int			widest = 1;
	int			off = 0;

	for (int alignment = MAXIMUM_ALIGNOF; alignment > 0; alignment /= 2)
	{
		for (int i = 0; i < store->ncolumns; i++)
		{
			HjgStoreColumn *column = &store->columns[i];

			if (Min(column->width, MAXIMUM_ALIGNOF) != alignment)
				continue;
			column->row_off = off;
			off += column->width;
			widest = Max(widest, alignment);
		}
	}
	store->row_bytes = (int) TYPEALIGN(widest, off);
}

HjgStore *
hjg_rows_store_create(MemoryContext context, int ncolumns, const HjgColumn *columns, double expected_rows)
{
	return hjg_rows_store_create_shared(context, ncolumns, columns, expected_rows, NULL);
}

HjgStore *
hjg_rows_store_create_shared(MemoryContext context, int ncolumns, const HjgColumn *columns, double expected_rows,
							 const HjgSharing *sharing)
{
	HjgStore   *store;
	size_t		chunk_rows;

	store = MemoryContextAllocZero(context, offsetof(HjgStore, columns) + ncolumns * sizeof(HjgStoreColumn));
	store->context = context;
	store->ncolumns = ncolumns;
	store->shared.sharing = sharing;
	if (expected_rows < 1)
		expected_rows = 1;
	expected_rows = Min(expected_rows, 1 << MAX_CHUNK_SHIFT);
	store->chunk_shift = Max(pg_ceil_log2_32((uint32) expected_rows), MIN_CHUNK_SHIFT);
	chunk_rows = (size_t) 1 << store->chunk_shift;

	for (int i = 0; i < ncolumns; i++)
	{
		store->columns[i].column = columns[i];
		store->columns[i].form = column_form(&columns[i], sharing != NULL);
		store->columns[i].width = column_width(&columns[i]);
	}
	lay_out_row(store);
	store->null_bytes = (ncolumns + 7) / 8;
	store->nulls_off = HJG_CHUNK_HEADER_BYTES + MAXALIGN(chunk_rows * store->row_bytes);
	store->chunk_bytes = store->nulls_off + chunk_rows * store->null_bytes;
	return store;
}

/* Count the chunks of the rows so far. */
static inline uint32
chunks_in_use(const HjgStore *store)
{
	return store->ncolumns == 0 ? 0 : (uint32) (((uint64) store->nrows + (1u << store->chunk_shift) - 1) >> store->chunk_shift);
}

void
hjg_rows_store_reset(HjgStore *store)
{
	for (uint32 i = 0; i < chunks_in_use(store); i++)
		((HjgChunkHeader *) store->chunks[i])->has_nulls = false;
	store->nrows = 0;
	hjg_rows_store_reset_data(store);
}

void
hjg_rows_store_free(HjgStore *store)
{
	if (store == NULL)
		return;
	for (int i = 0; i < store->nchunks && store->shared.sharing == NULL; i++)
		pfree(store->chunks[i]);
	if (store->chunks != NULL)
		pfree(store->chunks);
	hjg_rows_store_free_data(store);
	pfree(store);
}

uint32
hjg_rows_store_nrows(const HjgStore *store)
{
	return store->nrows;
}

size_t
hjg_rows_store_bytes(const HjgStore *store)
{
	if (store->shared.sharing != NULL)
		return store->shared.piece_bytes;
	return chunks_in_use(store) * store->chunk_bytes + store->data_bytes;
}

bool
hjg_rows_store_copy_rows(const HjgStore *store, uint32 first, uint32 nrows, void *to)
{
	uint32		chunk_rows = 1u << store->chunk_shift;

	while (nrows > 0)
	{
		char	   *chunk = hjg_rows_store_chunk(store, first);
		uint32		position = hjg_rows_store_position(store, first);
		uint32		n = Min(nrows, chunk_rows - position);

		if (((HjgChunkHeader *) chunk)->has_nulls)
			return false;
		memcpy(to, hjg_rows_store_place(store, chunk, position), (size_t) n * store->row_bytes);
		to = (char *) to + (size_t) n * store->row_bytes;
		first += n;
		nrows -= n;
	}
	return true;
}

void
hjg_rows_store_seek(HjgStore *store, uint32 row)
{
	Assert((row & ((1u << store->chunk_shift) - 1)) == 0);
	store->nrows = row;
}
