/*
 * rows_store_append.c
 *	  Appends rows to a row store, one by one or as vectors.
 */
#include "postgres.h"

#include "rows/hjg_rows_store.h"

/* Store a value of variable length in a row, if it fits; else apart. */
static inline void
put_short(HjgStore *store, const HjgStoreColumn *column, char *to, Datum value)
{
	const char *bytes = DatumGetPointer(value);

	if (!VARATT_IS_EXTERNAL_EXPANDED(bytes) && VARSIZE_ANY(bytes) <= (Size) column->width)
	{
		memcpy(to, bytes, VARSIZE_ANY(bytes));
		return;
	}
	SET_VARTAG_EXTERNAL(to, HJG_APART_TAG);
	*(uint64 *) (to + HJG_APART_OFF) = hjg_rows_store_copy_value(store, value, column->column.attlen);
}

uint32
hjg_rows_store_append(HjgStore *store, const int *source, const Datum *values, const bool *isnull)
{
	uint32		row = store->nrows;
	uint32		position = hjg_rows_store_position(store, row);
	HjgChunkHeader *header;
	char	   *chunk;
	char	   *place;

	if (row >= HJG_STORE_MAX_ROWS)
		elog(ERROR, "too many rows in a row store");
	store->nrows = row + 1;
	if (store->ncolumns == 0)
		return row;
	if (position == 0)
		hjg_rows_store_begin_chunk(store, row);
	chunk = hjg_rows_store_chunk(store, row);
	header = (HjgChunkHeader *) chunk;
	place = hjg_rows_store_place(store, chunk, position);
	if (unlikely(header->has_nulls))
		memset(hjg_rows_store_null_bits(store, chunk, position), 0, store->null_bytes);

	for (int i = 0; i < store->ncolumns; i++)
	{
		const HjgStoreColumn *column = &store->columns[i];
		char	   *to = place + column->row_off;
		Datum		value = values[source[i]];

		if (unlikely(isnull[source[i]]))
		{
			if (!header->has_nulls)
			{
				/* clear the bits of the rows before this one, and of this one */
				memset(hjg_rows_store_null_bits(store, chunk, 0), 0, (size_t) (position + 1) * store->null_bytes);
				header->has_nulls = true;
			}
			hjg_rows_store_null_bits(store, chunk, position)[i / 8] |= 1 << (i % 8);
			continue;
		}
		switch (column->form)
		{
			case HJG_FORM_BYTE:
				*(uint8 *) to = (uint8) value;
				break;
			case HJG_FORM_INT16:
				*(uint16 *) to = (uint16) value;
				break;
			case HJG_FORM_INT32:
				*(uint32 *) to = (uint32) value;
				break;
			case HJG_FORM_INT64:
				*(uint64 *) to = (uint64) value;
				break;
			case HJG_FORM_INLINE:
				memcpy(to, DatumGetPointer(value), column->column.attlen);
				break;
			case HJG_FORM_POINTER:
			case HJG_FORM_PLACE:
				*(uint64 *) to = hjg_rows_store_copy_value(store, value, column->column.attlen);
				break;
			case HJG_FORM_SHORT:
				put_short(store, column, to, value);
				break;
		}
	}
	return row;
}

/* ---------- many rows at a time ---------- */

/* Row i of the vectors to append: rows[i], or first + i if rows is NULL. */
#define ROW(i) (rows != NULL ? rows[i] : first + (i))

/* Append a by-value column: value i goes to out + i * stride; values of NULLs are copied, too. */
#define APPEND(type) \
	for (int i = 0; i < nrows; i++) \
		*(type *) (out + (size_t) i * stride) = ((const type *) vector->values)[ROW(i)]; \
	break

/* Append one column of rows that are contiguous in a chunk. */
static pg_attribute_always_inline void
append_column(HjgStore *store, const HjgStoreColumn *column, char *out, const HjgVector *vector, const uint16 *rows,
			  int first, int nrows)
{
	int			stride = store->row_bytes;
	char	  **pointers = vector->values;
	HjgNumericSpace numeric;

	switch (column->form)
	{
		case HJG_FORM_BYTE:
			APPEND(uint8);
		case HJG_FORM_INT16:
			APPEND(uint16);
		case HJG_FORM_INT32:
			APPEND(uint32);
		case HJG_FORM_INT64:
			APPEND(uint64);
		case HJG_FORM_INLINE:
			for (int i = 0; i < nrows; i++)
				if (!hjg_vector_isnull(vector, ROW(i)))
					memcpy(out + (size_t) i * stride, pointers[ROW(i)], column->column.attlen);
			break;
		case HJG_FORM_POINTER:
		case HJG_FORM_PLACE:
			for (int i = 0; i < nrows; i++)
				if (!hjg_vector_isnull(vector, ROW(i)))
					*(uint64 *) (out + (size_t) i * stride) =
						hjg_rows_store_copy_value(store, PointerGetDatum(hjg_vector_numeric_at(vector, ROW(i), &numeric)), column->column.attlen);
			break;
		case HJG_FORM_SHORT:
			for (int i = 0; i < nrows; i++)
				if (!hjg_vector_isnull(vector, ROW(i)))
					put_short(store, column, out + (size_t) i * stride, PointerGetDatum(hjg_vector_numeric_at(vector, ROW(i), &numeric)));
			break;
	}
}
#undef APPEND

static pg_attribute_always_inline void
append_to_chunk(HjgStore *store, char *chunk, uint32 position, const int *source, const HjgVector *vectors,
				const uint16 *rows, int first, int nrows)
{
	HjgChunkHeader *header = (HjgChunkHeader *) chunk;
	char	   *place = hjg_rows_store_place(store, chunk, position);
	bool		have_nulls = false;

	for (int c = 0; c < store->ncolumns; c++)
	{
		append_column(store, &store->columns[c], place + store->columns[c].row_off, &vectors[source[c]], rows,
					  first, nrows);
		have_nulls |= vectors[source[c]].has_nulls;
	}
	if (have_nulls && !header->has_nulls)
	{
		memset(hjg_rows_store_null_bits(store, chunk, 0), 0, (size_t) position * store->null_bytes);
		header->has_nulls = true;
	}
	if (!header->has_nulls)
		return;
	memset(hjg_rows_store_null_bits(store, chunk, position), 0, (size_t) nrows * store->null_bytes);
	for (int c = 0; c < store->ncolumns; c++)
	{
		const HjgVector *vector = &vectors[source[c]];

		if (!vector->has_nulls)
			continue;
		for (int i = 0; i < nrows; i++)
			if (vector->isnull[ROW(i)])
				hjg_rows_store_null_bits(store, chunk, position + i)[c / 8] |= 1 << (c % 8);
	}
}
#undef ROW

/* Append rows; inlined, with rows NULL or not NULL in each call. */
static pg_attribute_always_inline void
append_rows(HjgStore *store, const int *source, const HjgVector *vectors, const uint16 *rows, int first, int nrows)
{
	uint32		chunk_rows = 1u << store->chunk_shift;

	if (nrows > HJG_STORE_MAX_ROWS - store->nrows)
		elog(ERROR, "too many rows in a row store");
	if (store->ncolumns == 0)
	{
		store->nrows += nrows;
		return;
	}
	while (nrows > 0)
	{
		uint32		position = store->nrows & (chunk_rows - 1);
		int			n = Min(nrows, chunk_rows - position);

		if (position == 0)
			hjg_rows_store_begin_chunk(store, store->nrows);
		append_to_chunk(store, hjg_rows_store_chunk(store, store->nrows), position, source, vectors, rows,
						first, n);
		store->nrows += n;
		if (rows != NULL)
			rows += n;
		first += n;
		nrows -= n;
	}
}

void
hjg_rows_store_append_vectors(HjgStore *store, const int *source, const HjgVector *vectors, int first, int nrows)
{
	append_rows(store, source, vectors, NULL, first, nrows);
}

void
hjg_rows_store_append_selected(HjgStore *store, const int *source, const HjgVector *vectors, const uint16 *rows,
							   int nrows)
{
	append_rows(store, source, vectors, rows, 0, nrows);
}
