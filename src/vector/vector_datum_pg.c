/*
 * vector_datum_pg.c
 *	  Conversion of vectors to datums, and of datums to vectors.
 */
#include "postgres.h"

#include "access/htup_details.h"

#include "vector/hjg_vector_pg.h"

int64
hjg_vector_datum_ordinal(HjgOrdinal ordinal, int width, Datum value)
{
	switch (ordinal)
	{
		case HJG_ORDINAL_UINT:
			return width == 1 ? DatumGetUInt8(value) : width == 4 ? (int64) DatumGetUInt32(value) : hjg_vector_ordinal_of_uint(DatumGetUInt64(value));
		case HJG_ORDINAL_FLOAT:
			return hjg_vector_ordinal_of_float(width == 4 ? DatumGetFloat4(value) : DatumGetFloat8(value));
		default:
			return hjg_vector_datum_to_int(value, width);
	}
}

#define LOAD(EXPR) \
	for (int i = 0; i < nrows; i++) \
	{ \
		const Datum value = values[(Size) i * stride]; \
		ordinals[i] = (EXPR); \
	} \
	break

void
hjg_vector_datum_ordinals(HjgOrdinal ordinal, int width, const Datum *values, int stride, int nrows, int64 *ordinals)
{
	switch (ordinal == HJG_ORDINAL_INT ? width : 0)
	{
		case 2:
			LOAD(DatumGetInt16(value));
		case 4:
			LOAD(DatumGetInt32(value));
		case 8:
			LOAD(DatumGetInt64(value));
		default:
			LOAD(hjg_vector_datum_ordinal(ordinal, width, value));
	}
}
#undef LOAD

#define GATHER(type, make_datum) \
	for (int i = 0; i < nrows; i++) \
		values[(size_t) i * stride] = make_datum(((const type *) vector->values)[rows[i]]); \
	break

void
hjg_vector_gather(const HjgVector *vector, const uint32 *rows, int nrows, int stride, Datum *values, bool *isnull)
{
	for (int i = 0; i < nrows; i++)
		isnull[(size_t) i * stride] = hjg_vector_isnull(vector, rows[i]);
	switch (vector->column.attbyval ? vector->column.attlen : (int) sizeof(Datum))
	{
		case 1:
			GATHER(char, CharGetDatum);
		case 2:
			GATHER(int16, Int16GetDatum);
		case 4:
			GATHER(int32, Int32GetDatum);
		default:
			GATHER(Datum, (Datum));
	}
}
#undef GATHER

void
hjg_vector_put(HjgVector *vector, int row, Datum value, bool isnull)
{
	int			attlen = vector->column.attlen;

	vector->has_nulls = isnull || (row > 0 && vector->has_nulls);
	vector->isnull[row] = isnull;
	if (isnull)
		return;
	if (vector->column.attbyval)
		store_att_byval((char *) vector->values + (Size) row * attlen, value, attlen);
	else
		((char **) vector->values)[row] = DatumGetPointer(value);
}

int
hjg_vector_rows_within(const HjgVector *vectors, int ncolumns, const int *columns, int first, int nrows, size_t max_bytes)
{
	size_t		fixed_bytes = 0;
	bool		all_fixed = true;
	size_t		bytes = 0;
	int			n = 0;

	for (int c = 0; c < ncolumns; c++)
	{
		fixed_bytes += Max(vectors[columns[c]].column.attlen, 0);
		all_fixed &= vectors[columns[c]].column.attlen > 0;
	}
	if (all_fixed)
		return (int) Min((size_t) nrows, Max(max_bytes / Max(fixed_bytes, 1), 1));

	for (; n < nrows && (n == 0 || bytes <= max_bytes); n++)
	{
		bytes += fixed_bytes;
		for (int c = 0; c < ncolumns; c++)
		{
			const HjgVector *vector = &vectors[columns[c]];

			if (vector->numbers != NULL)
				bytes += HJG_NUMERIC_MAX_BYTES;
			else if (vector->column.attlen < 0 && !hjg_vector_isnull(vector, first + n))
				bytes = att_addlength_pointer(bytes, vector->column.attlen, ((char **) vector->values)[first + n]);
		}
	}
	return n;
}
