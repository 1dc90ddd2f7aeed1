/*
 * rows_store_gather.c
 *	  Gathers rows of a row store by number: as datums, as vectors, or one column of them.
 */
#include "postgres.h"

#include "rows/hjg_rows_store.h"

/* Rows whose places are found, and prefetched, at a time. */
#define GATHER_ROWS 256

/* Make a datum as core does: sign-extended, as by Int16GetDatum() and the like. */
static pg_attribute_always_inline Datum
fetch_value(const HjgStore *store, HjgColumnForm form, const char *place)
{
	uint64		kept;

	if (form == HJG_FORM_SHORT)
	{
		if (likely(!hjg_rows_store_is_apart(place)))
			return PointerGetDatum(place);
		form = store->shared.sharing != NULL ? HJG_FORM_PLACE : HJG_FORM_POINTER;
		place += HJG_APART_OFF;
	}
	switch (form)
	{
		case HJG_FORM_BYTE:
			return CharGetDatum(*(const char *) place);
		case HJG_FORM_INT16:
			return Int16GetDatum(*(const int16 *) place);
		case HJG_FORM_INT32:
			return Int32GetDatum(*(const int32 *) place);
		case HJG_FORM_INT64:
			return (Datum) *(const uint64 *) place;
		case HJG_FORM_INLINE:
			return PointerGetDatum(place);
		case HJG_FORM_PLACE:
			kept = *(const uint64 *) place;
			return PointerGetDatum(store->shared.blocks[kept >> 32] + (uint32) kept);
		default:
			return PointerGetDatum(*(char *const *) place);
	}
}

/* Gather one column of rows without NULLs; form is a constant in each call. */
static pg_attribute_always_inline void
gather_column(const HjgStore *store, HjgColumnForm form, int row_off, char *const *places, int nrows, int stride,
			  Datum *values, bool *isnull)
{
	for (int i = 0; i < nrows; i++)
	{
		values[(size_t) i * stride] = fetch_value(store, form, places[i] + row_off);
		isnull[(size_t) i * stride] = false;
	}
}

/* Gather one column of rows that may be missing or have NULLs: nulls[i] are the row's bits, or NULL. */
static pg_attribute_always_inline void
gather_nullable(const HjgStore *store, HjgColumnForm form, int column_ix, int row_off, char *const *places,
				const uint8 *const *nulls, int nrows, int stride, Datum *values, bool *isnull)
{
	for (int i = 0; i < nrows; i++)
	{
		bool		null = places[i] == NULL ||
			(nulls[i] != NULL && (nulls[i][column_ix / 8] >> (column_ix % 8) & 1));

		values[(size_t) i * stride] = null ? 0 : fetch_value(store, form, places[i] + row_off);
		isnull[(size_t) i * stride] = null;
	}
}

/*
 * Find the places of rows, NULL for a missing row, and their NULL bits if their chunk has any, and prefetch both. Returns
 * whether there can be a NULL.
 */
static bool
find_places(const HjgStore *store, const uint32 *rows, int nrows, char **places, const uint8 **nulls)
{
	bool		nullable = false;

	for (int i = 0; i < nrows; i++)
	{
		uint32		row = rows[i];
		char	   *chunk;

		places[i] = NULL;
		nulls[i] = NULL;
		if (row == HJG_NO_ROW)
		{
			nullable = true;
			continue;
		}
		chunk = hjg_rows_store_chunk(store, row);
		places[i] = hjg_rows_store_place(store, chunk, hjg_rows_store_position(store, row));
		__builtin_prefetch(places[i]);
		if (((HjgChunkHeader *) chunk)->has_nulls)
		{
			nulls[i] = hjg_rows_store_null_bits(store, chunk, hjg_rows_store_position(store, row));
			__builtin_prefetch(nulls[i]);
			nullable = true;
		}
	}
	return nullable;
}

/* Expand DO(form), which ends in "break", with the form of a column as a constant. */
#define SWITCH_FORM(form, DO) \
	switch (form) \
	{ \
		case HJG_FORM_BYTE: \
			DO(HJG_FORM_BYTE); \
		case HJG_FORM_INT16: \
			DO(HJG_FORM_INT16); \
		case HJG_FORM_INT32: \
			DO(HJG_FORM_INT32); \
		case HJG_FORM_INT64: \
			DO(HJG_FORM_INT64); \
		case HJG_FORM_INLINE: \
			DO(HJG_FORM_INLINE); \
		case HJG_FORM_POINTER: \
			DO(HJG_FORM_POINTER); \
		case HJG_FORM_PLACE: \
			DO(HJG_FORM_PLACE); \
		case HJG_FORM_SHORT: \
			DO(HJG_FORM_SHORT); \
	}

static void
gather_places(const HjgStore *store, char *const *places, const uint8 *const *nulls, bool nullable, int nrows,
			  const int *target, int stride, Datum *values, bool *isnull)
{
#define GATHER(form) \
	if (nullable) \
		gather_nullable(store, form, c, off, places, nulls, nrows, stride, values + target[c], isnull + target[c]); \
	else \
		gather_column(store, form, off, places, nrows, stride, values + target[c], isnull + target[c]); \
	break

	for (int c = 0; c < store->ncolumns; c++)
	{
		int			off = store->columns[c].row_off;

		if (target[c] < 0)
			continue;
		SWITCH_FORM(store->columns[c].form, GATHER);
	}
#undef GATHER
}

void
hjg_rows_store_gather(const HjgStore *store, const uint32 *rows, int nrows, const int *target, int stride,
					  Datum *values, bool *isnull)
{
	char	   *places[GATHER_ROWS];
	const uint8 *nulls[GATHER_ROWS];

	if (store->ncolumns == 0)
		return;
	for (int first = 0; first < nrows; first += GATHER_ROWS)
	{
		int			n = Min(nrows - first, GATHER_ROWS);
		bool		nullable = find_places(store, rows + first, n, places, nulls);

		gather_places(store, places, nulls, nullable, n, target, stride, values + (size_t) first * stride,
					  isnull + (size_t) first * stride);
	}
}

/* Find the NULLs of column column_ix; any row may be missing or have a NULL there. */
static void
gather_nulls(int column_ix, char *const *places, const uint8 *const *nulls, int nrows, bool *isnull)
{
	for (int i = 0; i < nrows; i++)
		isnull[i] = places[i] == NULL ||
			(nulls[i] != NULL && (nulls[i][column_ix / 8] >> (column_ix % 8) & 1));
}

/* Copy values of a type; those of NULLs are undefined. */
#define GATHER(type, fetched) \
	for (int i = 0; i < nrows; i++) \
	{ \
		const char *place = places[i] + off; \
		((type *) to->values)[first + i] = nullable && places[i] == NULL ? 0 : (type) (fetched); \
	} \
	break

/* Look values up that may be elsewhere; not for NULLs, whose bytes are undefined. */
#define LOOK_UP(form) \
	for (int i = 0; i < nrows; i++) \
		if (!nullable || !to->isnull[first + i]) \
			((Datum *) to->values)[first + i] = fetch_value(store, form, places[i] + off); \
	break

/* Gather rows to positions from `first` on of the vectors. */
static void
gather_vectors(const HjgStore *store, char *const *places, const uint8 *const *nulls, bool nullable, int first,
			   int nrows, const int *target, HjgVector *vectors)
{
	for (int c = 0; c < store->ncolumns; c++)
	{
		HjgVector  *to = &vectors[target[c]];
		int			off = store->columns[c].row_off;

		if (target[c] < 0)
			continue;
		if (nullable)
		{
			if (!to->has_nulls)
				memset(to->isnull, false, first * sizeof(bool));
			to->has_nulls = true;
			gather_nulls(c, places, nulls, nrows, to->isnull + first);
		}
		else if (to->has_nulls)
			memset(to->isnull + first, false, nrows * sizeof(bool));
		switch (store->columns[c].form)
		{
			case HJG_FORM_BYTE:
				GATHER(uint8, *(const uint8 *) place);
			case HJG_FORM_INT16:
				GATHER(uint16, *(const uint16 *) place);
			case HJG_FORM_INT32:
				GATHER(uint32, *(const uint32 *) place);
			case HJG_FORM_INT64:
				GATHER(uint64, *(const uint64 *) place);
			case HJG_FORM_INLINE:
				GATHER(uint64, PointerGetDatum(place));
			case HJG_FORM_POINTER:
				GATHER(uint64, fetch_value(store, HJG_FORM_POINTER, place));
			case HJG_FORM_PLACE:
				LOOK_UP(HJG_FORM_PLACE);
			case HJG_FORM_SHORT:
				LOOK_UP(HJG_FORM_SHORT);
		}
	}
}
#undef LOOK_UP
#undef GATHER

static void
forget_nulls(const HjgStore *store, const int *target, HjgVector *vectors)
{
	for (int c = 0; c < store->ncolumns; c++)
		if (target[c] >= 0)
			vectors[target[c]].has_nulls = false;
}

void
hjg_rows_store_gather_vectors(const HjgStore *store, const uint32 *rows, int total, const int *target,
							  HjgVector *vectors)
{
	char	   *places[GATHER_ROWS];
	const uint8 *nulls[GATHER_ROWS];

	forget_nulls(store, target, vectors);
	for (int first = 0; first < total && store->ncolumns > 0; first += GATHER_ROWS)
	{
		int			n = Min(total - first, GATHER_ROWS);
		bool		nullable = find_places(store, rows + first, n, places, nulls);

		gather_vectors(store, places, nulls, nullable, first, n, target, vectors);
	}
}

#define GATHER(form) \
	for (int i = 0; i < n; i++) \
		values[i] = fetch_value(store, form, places[i] + off); \
	break

void
hjg_rows_store_gather_column(const HjgStore *store, int column, const uint32 *rows, int nrows, Datum *values)
{
	const HjgStoreColumn *wanted = &store->columns[column];
	int			off = wanted->row_off;
	char	   *places[GATHER_ROWS];
	const uint8 *nulls[GATHER_ROWS];

	for (; nrows > 0; rows += GATHER_ROWS, values += GATHER_ROWS, nrows -= GATHER_ROWS)
	{
		int			n = Min(nrows, GATHER_ROWS);

		(void) find_places(store, rows, n, places, nulls);
		SWITCH_FORM(wanted->form, GATHER);
	}
}
#undef GATHER

/* ---------- copies of rows ---------- */

/* Copies have no NULL bits. */
static const uint8 *const no_nulls[HJG_MAX_VECTOR_ROWS] = {NULL};

static bool
any_missing(const char *const *places, int nrows)
{
	bool		missing = false;

	for (int i = 0; i < nrows; i++)
		missing |= places[i] == NULL;
	return missing;
}

void
hjg_rows_store_gather_copies(const HjgStore *store, const char *const *places, int nrows, const int *target, int stride,
							 Datum *values, bool *isnull)
{
	gather_places(store, (char *const *) places, no_nulls, any_missing(places, nrows), nrows, target, stride, values,
				  isnull);
}

void
hjg_rows_store_gather_copied_vectors(const HjgStore *store, const char *const *places, int nrows, const int *target,
									 HjgVector *vectors)
{
	forget_nulls(store, target, vectors);
	gather_vectors(store, (char *const *) places, no_nulls, any_missing(places, nrows), 0, nrows, target, vectors);
}
