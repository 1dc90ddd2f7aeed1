/*
 * hjg_vector.h
 *	  Rows column by column: the type of a column, a vector of its values, comparisons of values, conditions on vectors.
 *
 * Room "vector".  What reads rows (room "scan"), what keeps them (room "rows") and the operators of the node speak of
 * rows in these terms.  Nothing here knows of plans, pages or files.
 */
#ifndef HJG_VECTOR_H
#define HJG_VECTOR_H

#include "postgres.h"

/* The type of a column that is carried or read. */
typedef struct HjgColumn
{
	int16		attlen;
	bool		attbyval;
	int16		inline_bytes;	/* in a store, values of variable length up to this size lie in the row; 0: none does */
} HjgColumn;

/* ---------- vectors ---------- */

/*
 * Rows of a vector: what a page can hold, and where nothing points into pages, of several: what
 * is done once a vector, and the cache misses at its start that nothing hides, are then few.
 * 20M rows probe a table of 5M, one thread: 11 ns a row in batches of 1,024 rows, 18 in those of 128.
 */
#define HJG_MAX_VECTOR_ROWS 1024

/* Rows of a vector that a join hands out, which are gathered from its row stores at a time. */
#define HJG_VECTOR_ROWS 256

/*
 * One column of up to HJG_MAX_VECTOR_ROWS rows.  By-value columns lie side by side
 * at their own width; of others there are pointers, which go no further than the
 * page that they point into.  The value of a NULL is undefined.
 */
typedef struct HjgVector
{
	HjgColumn	column;
	void	   *values;			/* NULL: the column was not asked for */
	bool	   *isnull;			/* says nothing unless has_nulls */
	bool		has_nulls;
} HjgVector;

/* The integer in a by-value datum of so many bytes. */
static inline int64
hjg_datum_to_int(Datum value, int width)
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

/* A value as core makes its datums: sign-extended, as Int16GetDatum() and the like do. */
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

static inline bool
hjg_vector_isnull(const HjgVector *vector, int row)
{
	return vector->has_nulls && vector->isnull[row];
}

/*
 * vector_rows.c.  Gather nrows rows of a vector as datums: row rows[i] goes to
 * values[i * stride] and isnull[i * stride].
 */
extern void hjg_vector_gather(const HjgVector *vector, const uint32 *rows, int nrows, int stride, Datum *values,
							  bool *isnull);
/* Copy them to the first rows of another vector of the same type. */
extern void hjg_vector_select(const HjgVector *vector, const uint32 *rows, int nrows, HjgVector *to);

/*
 * How many of nrows rows from first on to copy before a look at the memory that the copies take: those
 * whose values in the columns take max_bytes, the one included that goes beyond.
 */
extern int	hjg_vector_rows_within(const HjgVector *vectors, int ncolumns, const int *columns, int first, int nrows,
								   size_t max_bytes);
/* Set a row, and forget about NULLs in rows before the first. */
extern void hjg_vector_put(HjgVector *vector, int row, Datum value, bool isnull);
/* Make all rows NULL. */
extern void hjg_vector_put_nulls(HjgVector *vector, int nrows);

/* ---------- operators (vector_operator.c) ---------- */

/* How a column's values become ordinals, 64-bit integers in the order of its type. */
typedef enum HjgOrdinal
{
	HJG_ORDINAL_INT,			/* signed integers of 1, 2, 4 or 8 bytes, and what is stored as such */
	HJG_ORDINAL_UINT,			/* unsigned ones of 1, 4 or 8 bytes; ordinals of one width are comparable */
	HJG_ORDINAL_FLOAT,
	HJG_ORDINAL_NONE			/* values by reference, which are equal when their bytes are */
} HjgOrdinal;

typedef enum HjgComparison
{
	HJG_COMPARE_EQ,
	HJG_COMPARE_NE,
	HJG_COMPARE_LT,
	HJG_COMPARE_LE,
	HJG_COMPARE_GT,
	HJG_COMPARE_GE
} HjgComparison;

typedef struct HjgSimpleOperator
{
	Oid			function;
	HjgComparison comparison;
	HjgOrdinal	ordinal;
	int16		left_width;		/* bytes of the operands */
	int16		right_width;
} HjgSimpleOperator;

/* Find the operator behind a function; NULL when it is not simple. */
extern const HjgSimpleOperator *hjg_simple_operator(Oid function);

/* One whose operands, of variable width, are equal when their bytes are. */
typedef struct HjgBytesOperator
{
	Oid			function;
	HjgComparison comparison;	/* EQ or NE */
	bool		collated;		/* under a deterministic collation */
	bool		padded;			/* but for spaces at the end */
} HjgBytesOperator;

/* Likewise. */
extern const HjgBytesOperator *hjg_bytes_operator(Oid function);
/* Is the function LIKE, or NOT LIKE, of text or char(n)? */
extern bool hjg_like_operator(Oid function, bool *negated);

/* ---------- conditions on vectors (vector_filter.c) ---------- */

typedef enum HjgFilterKind
{
	HJG_FILTER_CONSTANT,		/* passes all, or none if negated */
	HJG_FILTER_RANGE,			/* low <= value <= high */
	HJG_FILTER_SET,				/* value is in a list */
	HJG_FILTER_BYTES,			/* likewise, of variable width; looks at the rows that ask only, as values may have to be fetched */
	HJG_FILTER_LIKE,			/* value begins with the first of bytes, ends with the last, and has the others between, in their order */
	HJG_FILTER_COLUMNS,			/* value against another column's */
	HJG_FILTER_IS_NULL,
	HJG_FILTER_ALL,				/* conditions one after the other; who does not pass one asks no further */
	HJG_FILTER_AND,				/* who does not pass an argument, but for a NULL, asks on */
	HJG_FILTER_OR
} HjgFilterKind;

typedef struct HjgBytes
{
	const char *data;
	int32		nbytes;
} HjgBytes;

/*
 * A condition; whoever makes it owns it.  negated turns a leaf round, except that NULLs never pass a RANGE, SET, BYTES, LIKE or COLUMNS.
 * A leaf whose operand is not known yet has bind, which is called when a row asks the leaf, makes it one of the
 * other kinds for good and clears bind; it may throw.
 */
typedef struct HjgFilter
{
	HjgFilterKind kind;
	void		(*bind) (struct HjgFilter *leaf);
	bool		negated;
	bool		null;			/* CONSTANT: it is NULL, and passes none; SET: a NULL is in it */
	HjgOrdinal	ordinal;
	int			column;			/* leaves: which vector */
	int			other;			/* COLUMNS: and which one it is compared with, */
	HjgComparison comparison;	/* and how */
	int64		low;
	int64		high;			/* not below low */
	int			nset;
	int64	   *set;			/* sorted */
	HjgBytes   *bytes;			/* nset of these: BYTES: sorted by hjg_bytes_compare(); LIKE: two at least */
	bool		padded;			/* values are compared but for spaces at the end, which those of the list do not have */
	int			nargs;
	struct HjgFilter **args;
} HjgFilter;

extern int64 hjg_filter_ordinal(HjgOrdinal ordinal, int width, Datum value);
/* Rows for which "left op right" is false lose their pass. */
extern void hjg_compare_ordinals(HjgComparison comparison, const int64 *left, const int64 *right, int nrows, bool *pass);
/* Width of what is compared as bytes. */
#define HJG_VARIABLE_WIDTH (-1)

/* Of a value that is neither compressed nor elsewhere. */
extern HjgBytes hjg_bytes_of(const struct varlena *value, bool padded);
extern int	hjg_bytes_compare(const void *a, const void *b);

/*
 * Ask the rows with pass[i]: those for which the condition is not true lose it.  An argument is asked by those
 * rows only that would ask it in core's expressions, as long as it makes a difference.
 */
extern void hjg_filter_eval(HjgFilter *filter, const HjgVector *vectors, int nrows, bool *pass);

#endif							/* HJG_VECTOR_H */
