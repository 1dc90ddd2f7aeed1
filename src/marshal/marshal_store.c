/*
 * marshal_store.c
 *	  The row store: carried columns of rows, column by column, in chunks.
 *
 * A chunk holds the same power-of-two number of rows in every column, so that a
 * row number splits into chunk and position by a shift.  By-value columns are
 * kept at their own width; fixed-width by-reference ones in place; everything
 * else as a pointer into the store's data context.  A chunk starts with a flag for
 * each column that has NULLs in it; only then its NULL bytes mean anything.
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"

#include "marshal/hjg_marshal.h"

#define MIN_CHUNK_SHIFT 8
#define MAX_CHUNK_SHIFT 16

/* Rows that gathering looks ahead, to have their values in cache. */
#define PREFETCH_ROWS 12

/* How a column's values lie in a chunk. */
typedef enum ColumnForm
{
	FORM_BYTE,
	FORM_INT16,
	FORM_INT32,
	FORM_INT64,
	FORM_INLINE,				/* attlen bytes, by reference */
	FORM_POINTER				/* variable length, in the data context */
} ColumnForm;

typedef struct StoreColumn
{
	HjgColumn	column;
	ColumnForm	form;
	int			stride;			/* bytes of a value in a chunk */
	size_t		values_off;		/* of the column in a chunk */
	size_t		nulls_off;		/* one byte a row, when the chunk's flag says so */
} StoreColumn;

struct HjgStore
{
	MemoryContext context;		/* this struct and the chunks */
	MemoryContext data;			/* variable-length values */
	int			ncolumns;
	int			chunk_shift;
	uint32		nrows;
	int			nchunks;		/* allocated */
	int			max_chunks;		/* length of chunks[] */
	size_t		chunk_bytes;
	size_t		data_bytes;		/* in the data context, by our own count */
	char	  **chunks;
	StoreColumn columns[FLEXIBLE_ARRAY_MEMBER];
};

static ColumnForm
column_form(const HjgColumn *column)
{
	if (!column->attbyval)
		return column->attlen > 0 ? FORM_INLINE : FORM_POINTER;
	switch (column->attlen)
	{
		case 1:
			return FORM_BYTE;
		case 2:
			return FORM_INT16;
		case 4:
			return FORM_INT32;
		default:
			return FORM_INT64;
	}
}

HjgStore *
hjg_store_create(MemoryContext context, int ncolumns, const HjgColumn *columns, double expected_rows)
{
	HjgStore   *store;
	size_t		chunk_rows;
	size_t		off = MAXALIGN(ncolumns * sizeof(bool));

	store = MemoryContextAllocZero(context, offsetof(HjgStore, columns) + ncolumns * sizeof(StoreColumn));
	store->context = context;
	store->data = AllocSetContextCreate(context, "GpuHashJoin row store", ALLOCSET_DEFAULT_SIZES);
	store->ncolumns = ncolumns;
	if (expected_rows < 1)
		expected_rows = 1;
	expected_rows = Min(expected_rows, 1 << MAX_CHUNK_SHIFT);
	store->chunk_shift = Max(pg_ceil_log2_32((uint32) expected_rows), MIN_CHUNK_SHIFT);
	chunk_rows = (size_t) 1 << store->chunk_shift;

	for (int i = 0; i < ncolumns; i++)
	{
		StoreColumn *column = &store->columns[i];

		column->column = columns[i];
		column->form = column_form(&columns[i]);
		column->stride = column->form == FORM_POINTER ? (int) sizeof(char *) :
			column->form == FORM_INLINE ? (int) MAXALIGN(columns[i].attlen) : columns[i].attlen;
		column->values_off = off;
		off += MAXALIGN(chunk_rows * column->stride);
		column->nulls_off = off;
		off += MAXALIGN(chunk_rows);
	}
	store->chunk_bytes = off;
	return store;
}

void
hjg_store_reset(HjgStore *store)
{
	for (uint32 i = 0; i << store->chunk_shift < store->nrows && store->ncolumns > 0; i++)
		memset(store->chunks[i], 0, store->ncolumns * sizeof(bool));
	store->nrows = 0;
	if (store->data_bytes > 0)
		MemoryContextReset(store->data);
	store->data_bytes = 0;
}

void
hjg_store_free(HjgStore *store)
{
	if (store == NULL)
		return;
	for (int i = 0; i < store->nchunks; i++)
		pfree(store->chunks[i]);
	if (store->chunks != NULL)
		pfree(store->chunks);
	MemoryContextDelete(store->data);
	pfree(store);
}

uint32
hjg_store_nrows(const HjgStore *store)
{
	return store->nrows;
}

size_t
hjg_store_bytes(const HjgStore *store)
{
	return store->nchunks * store->chunk_bytes + store->data_bytes;
}

static void
add_chunk(HjgStore *store)
{
	if (store->nchunks == store->max_chunks)
	{
		int			max = Max(16, store->max_chunks * 2);

		if (store->chunks == NULL)
			store->chunks = MemoryContextAlloc(store->context, max * sizeof(char *));
		else
			store->chunks = repalloc_huge(store->chunks, max * sizeof(char *));
		store->max_chunks = max;
	}
	store->chunks[store->nchunks] = MemoryContextAllocHuge(store->context, store->chunk_bytes);
	memset(store->chunks[store->nchunks], 0, store->ncolumns * sizeof(bool));
	store->nchunks++;
}

/* Copy a variable-length datum into the store; toast pointers are kept as they are. */
static char *
copy_value(HjgStore *store, Datum value, int16 attlen)
{
	MemoryContext old = MemoryContextSwitchTo(store->data);
	Size		bytes;
	char	   *copy;

	if (attlen == -1 && VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
	{
		ExpandedObjectHeader *object = DatumGetEOHP(value);

		bytes = EOH_get_flat_size(object);
		copy = palloc(bytes);
		EOH_flatten_into(object, copy, bytes);
	}
	else
	{
		bytes = datumGetSize(value, false, attlen);
		copy = palloc(bytes);
		memcpy(copy, DatumGetPointer(value), bytes);
	}
	store->data_bytes += GetMemoryChunkSpace(copy);
	MemoryContextSwitchTo(old);
	return copy;
}

/* The first NULL of a column in a chunk gives it its NULL bytes. */
static void
append_null(HjgStore *store, const StoreColumn *column, int ix, char *chunk, uint32 position)
{
	bool	   *has_nulls = &((bool *) chunk)[ix];

	if (!*has_nulls)
		memset(chunk + column->nulls_off, false, position);
	*has_nulls = true;
	chunk[column->nulls_off + position] = true;
}

uint32
hjg_store_append(HjgStore *store, const int *source, const Datum *values, const bool *isnull)
{
	uint32		row = store->nrows;
	uint32		position = row & ((1u << store->chunk_shift) - 1);
	char	   *chunk;

	if (row >= HJG_STORE_MAX_ROWS)
		elog(ERROR, "too many rows in a row store");
	store->nrows = row + 1;
	if (store->ncolumns == 0)
		return row;
	if ((row >> store->chunk_shift) == (uint32) store->nchunks)
		add_chunk(store);
	chunk = store->chunks[row >> store->chunk_shift];

	for (int i = 0; i < store->ncolumns; i++)
	{
		StoreColumn *column = &store->columns[i];
		char	   *base = chunk + column->values_off;
		Datum		value = values[source[i]];
		bool		null = isnull[source[i]];

		if (unlikely(null))
		{
			append_null(store, column, i, chunk, position);
			continue;
		}
		if (((bool *) chunk)[i])
			chunk[column->nulls_off + position] = false;
		switch (column->form)
		{
			case FORM_BYTE:
				((uint8 *) base)[position] = (uint8) value;
				break;
			case FORM_INT16:
				((uint16 *) base)[position] = (uint16) value;
				break;
			case FORM_INT32:
				((uint32 *) base)[position] = (uint32) value;
				break;
			case FORM_INT64:
				((uint64 *) base)[position] = (uint64) value;
				break;
			case FORM_INLINE:
				memcpy(base + (size_t) position * column->stride, DatumGetPointer(value),
					   column->column.attlen);
				break;
			case FORM_POINTER:
				((char **) base)[position] = copy_value(store, value, column->column.attlen);
				break;
		}
	}
	return row;
}

/* Datums as core makes them: sign-extended, as Int16GetDatum() and the like do. */
static inline Datum
fetch_value(ColumnForm form, char *base, uint32 position, int stride)
{
	switch (form)
	{
		case FORM_BYTE:
			return CharGetDatum(((char *) base)[position]);
		case FORM_INT16:
			return Int16GetDatum(((int16 *) base)[position]);
		case FORM_INT32:
			return Int32GetDatum(((int32 *) base)[position]);
		case FORM_INT64:
			return (Datum) (((uint64 *) base)[position]);
		case FORM_INLINE:
			return PointerGetDatum(base + (size_t) position * stride);
		default:
			return PointerGetDatum(((char **) base)[position]);
	}
}

/* One column of hjg_store_gather(); form is a constant in every call. */
static pg_attribute_always_inline void
gather_column(const HjgStore *store, const StoreColumn *column, ColumnForm form, const uint32 *rows,
			  int nrows, int stride, Datum *values, bool *isnull)
{
	uint32		mask = (1u << store->chunk_shift) - 1;
	int			ix = column - store->columns;

	for (int i = 0; i < nrows; i++)
	{
		uint32		row = rows[i];

		if (i + PREFETCH_ROWS < nrows && rows[i + PREFETCH_ROWS] != HJG_NO_ROW)
		{
			uint32		ahead = rows[i + PREFETCH_ROWS];

			__builtin_prefetch(store->chunks[ahead >> store->chunk_shift] + column->values_off +
							(size_t) (ahead & mask) * column->stride);
		}

		if (row == HJG_NO_ROW)
		{
			isnull[i * stride] = true;
			values[i * stride] = 0;
		}
		else
		{
			char	   *chunk = store->chunks[row >> store->chunk_shift];
			uint32		position = row & mask;
			bool		null = ((bool *) chunk)[ix] && chunk[column->nulls_off + position];

			isnull[i * stride] = null;
			values[i * stride] = null ? 0 :
				fetch_value(form, chunk + column->values_off, position, column->stride);
		}
	}
}

void
hjg_store_gather(const HjgStore *store, const uint32 *rows, int nrows, int stride,
				 Datum *values, bool *isnull)
{
	for (int c = 0; c < store->ncolumns; c++)
	{
		const StoreColumn *column = &store->columns[c];

		switch (column->form)
		{
			case FORM_BYTE:
				gather_column(store, column, FORM_BYTE, rows, nrows, stride, values + c, isnull + c);
				break;
			case FORM_INT16:
				gather_column(store, column, FORM_INT16, rows, nrows, stride, values + c, isnull + c);
				break;
			case FORM_INT32:
				gather_column(store, column, FORM_INT32, rows, nrows, stride, values + c, isnull + c);
				break;
			case FORM_INT64:
				gather_column(store, column, FORM_INT64, rows, nrows, stride, values + c, isnull + c);
				break;
			case FORM_INLINE:
				gather_column(store, column, FORM_INLINE, rows, nrows, stride, values + c, isnull + c);
				break;
			case FORM_POINTER:
				gather_column(store, column, FORM_POINTER, rows, nrows, stride, values + c, isnull + c);
				break;
		}
	}
}
