/*
 * hjg_vector_pg.h
 *	  The part of the room "vector" that needs PostgreSQL: datums, and the operators that are evaluated on vectors.
 */
#ifndef HJG_VECTOR_PG_H
#define HJG_VECTOR_PG_H

#include "postgres.h"

#include "access/htup_details.h"	/* sizes of values, from 16 on */

#include "vector/hjg_vector.h"

/* ---------- datums (vector_datum_pg.c) ---------- */

/* Get the integer in a by-value datum of this width. */
static inline int64
hjg_vector_datum_to_int(Datum value, int width)
{
	switch (width)
	{
		case 1:
			return (int8) DatumGetChar(value);
		case 2:
			return DatumGetInt16(value);
		case 4:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

/* Make a datum as core does: sign-extended, as by Int16GetDatum() and the like. */
static inline Datum
hjg_vector_datum(const HjgVector *vector, int row)
{
	if (!vector->column.attbyval)
		return PointerGetDatum(((char **) vector->values)[row]);
	switch (vector->column.attlen)
	{
		case 1:
			return CharGetDatum(((char *) vector->values)[row]);
		case 2:
			return Int16GetDatum(((int16 *) vector->values)[row]);
		case 4:
			return Int32GetDatum(((int32 *) vector->values)[row]);
		default:
			return ((Datum *) vector->values)[row];
	}
}

/* Make a datum, which may be in *space, also of a vector that has integers for its numerics. */
static inline Datum
hjg_vector_datum_in(const HjgVector *vector, int row, HjgNumericSpace *space)
{
	return vector->numbers != NULL ? PointerGetDatum(hjg_vector_numeric_at(vector, row, space)) : hjg_vector_datum(vector, row);
}

/* Count the bytes of a value by reference, of a type of this attlen. */
static inline Size
hjg_vector_referred_bytes(int attlen, const char *value)
{
	return attlen > 0 ? attlen : attlen == -1 ? VARSIZE_ANY(value) : strlen(value) + 1;
}

/* Get the ordinal of a by-value datum. */
extern int64 hjg_vector_datum_ordinal(HjgOrdinal ordinal, int width, Datum value);
/* Get the ordinals of a column of nrows rows, whose datums are stride apart. */
extern void hjg_vector_datum_ordinals(HjgOrdinal ordinal, int width, const Datum *values, int stride, int nrows, int64 *ordinals);

/*
 * Gather nrows rows of a vector that has values as datums: row rows[i] goes to
 * values[i * stride] and isnull[i * stride].
 */
extern void hjg_vector_gather(const HjgVector *vector, const uint32 *rows, int nrows, int stride, Datum *values,
							  bool *isnull);
/* Set a row; row 0 clears has_nulls of former rows. */
extern void hjg_vector_put(HjgVector *vector, int row, Datum value, bool isnull);

/*
 * Count the rows, of nrows from `first` on, whose values in the columns together take max_bytes, with the row that exceeds
 * it: a caller that copies rows checks its memory after so many.
 */
extern int	hjg_vector_rows_within(const HjgVector *vectors, int ncolumns, const int *columns, int first, int nrows,
								   size_t max_bytes);

/* ---------- operators (vector_operator_pg.c) ---------- */

typedef struct HjgSimpleOperator
{
	Oid			function;
	HjgComparison comparison;
	HjgOrdinal	ordinal;
	int16		left_width;		/* bytes of the operands */
	int16		right_width;
} HjgSimpleOperator;

/* Find the simple operator that a function implements; NULL if there is none. */
extern const HjgSimpleOperator *hjg_vector_simple_operator(Oid function);

/* An operator whose operands, of variable width, are equal if their bytes are. */
typedef struct HjgBytesOperator
{
	Oid			function;
	HjgComparison comparison;	/* EQ or NE */
	bool		collated;		/* under a deterministic collation */
	bool		padded;			/* spaces at the end are ignored */
} HjgBytesOperator;

/* Find the operator on bytes that a function implements; NULL if there is none. */
extern const HjgBytesOperator *hjg_vector_bytes_operator(Oid function);
/* Is the function a comparison of numerics? Sets the comparison. */
extern bool hjg_vector_numeric_operator(Oid function, HjgComparison *comparison);
/* The conversion of an operand that is compared with a column of another type of dates or times. */
typedef enum HjgTimeOperand
{
	HJG_TIME_SAME,				/* it is of the column's type */
	HJG_TIME_DAY,				/* a timestamp, for a column of dates: its day */
	HJG_TIME_MIDNIGHT,			/* a date, for a column of timestamps: its midnight */
	HJG_TIME_LOCAL_MIDNIGHT,	/* likewise of timestamps with time zone: its midnight in the session's zone */
	HJG_TIME_LOCAL				/* a timestamp, for such a column: its instant in the session's zone */
} HjgTimeOperand;

/*
 * Does the function compare a column, on the left or else on the right, with an operand of another type of dates or times? Sets the
 * comparison with the column on the left, and what becomes of the operand. A date plus an interval is a timestamp, and current_date
 * is a date, so such conditions are common. Columns are never converted: which timestamp a local time is, is not monotonic.
 */
extern bool hjg_vector_time_operator(Oid function, bool column_is_left, HjgComparison *comparison, HjgTimeOperand *operand);
/* Is the function LIKE or NOT LIKE, of text or char(n)? */
extern bool hjg_vector_like_operator(Oid function, bool *negated);

/* Means "compared as bytes" in place of an operand's width. */
#define HJG_VARIABLE_WIDTH (-1)

#endif							/* HJG_VECTOR_PG_H */
