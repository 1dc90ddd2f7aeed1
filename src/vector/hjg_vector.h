/*
 * hjg_vector.h
 *	  Rows column by column: types of columns, vectors of values, and comparisons, conditions and arithmetic on vectors.
 *
 * Room "vector".  The rooms "scan" and "rows" and the operators of the node exchange rows in these terms. Nothing here depends
 * on plans, pages, files or PostgreSQL: a value of fixed width is its bytes, any other one is a pointer that the owner of the
 * vector can follow. No function allocates or throws, except those that a caller passes in.
 *
 * Two parts need PostgreSQL's types and have files and a header of their own (hjg_vector_pg.h): datums, and the table that maps
 * operators, by the OIDs of their functions, to these comparisons.
 */
#ifndef HJG_VECTOR_H
#define HJG_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The type of a column. */
typedef struct HjgColumn
{
	int16_t		attlen;
	bool		attbyval;
	int16_t		inline_bytes;	/* in a store, values of variable length up to this size are in the row; 0: none are */
} HjgColumn;

/* ---------- vectors (vector_rows.c) ---------- */

/*
 * Rows of a vector: those of a page, or, if no value points into pages, of several pages, so that work done once a vector,
 * and the cache misses at its start, are rare. 20M rows that probe a table of 5M in one thread take 11 ns a row in batches of
 * 1,024 rows, and 18 in batches of 128.
 */
#define HJG_MAX_VECTOR_ROWS 1024

/* Rows of a vector that a join returns; they are gathered from its row stores together. */
#define HJG_VECTOR_ROWS 256

/*
 * One column of up to HJG_MAX_VECTOR_ROWS rows. Values of by-value columns are contiguous, at their own width; other columns
 * are pointers, which are valid as long as the page that they point into. The value of a NULL is undefined.
 */
typedef struct HjgVector
{
	HjgColumn	column;
	void	   *values;			/* NULL: the column is not wanted */
	bool	   *isnull;			/* undefined unless has_nulls */
	bool		has_nulls;

	/*
	 * NULL, or the numerics of the column as integers of a scale; then the pointers in values are undefined. Only readers of
	 * numerics (vector_numeric.c) get such vectors, and only where they ask for them.
	 */
	int64_t    *numbers;
	int			scale;

	/*
	 * 0, or the number of a set of words, strings of different bytes, at which the values point: equal pointers at words of one set
	 * are equal values.
	 */
	uint64_t	words;
} HjgVector;

static inline bool
hjg_vector_isnull(const HjgVector *vector, int row)
{
	return vector->has_nulls && vector->isnull[row];
}

/* Get a vector's rows from `first` on. */
static inline HjgVector
hjg_vector_from(const HjgVector *vector, int first)
{
	HjgVector	from = *vector;

	if (vector->values != NULL)
	{
		from.values = (char *) vector->values + (size_t) first * (vector->column.attbyval ? (size_t) vector->column.attlen : sizeof(char *));
		from.isnull = vector->isnull + first;
		from.numbers = vector->numbers == NULL ? NULL : vector->numbers + first;
	}
	return from;
}

/*
 * Copy rows[0 .. nrows - 1] of a vector to the first rows of another vector of the same type. Of numerics as integers, these are copied if
 * that has space for them, and else nothing but NULLs.
 */
extern void hjg_vector_select(const HjgVector *vector, const uint32_t *rows, int nrows, HjgVector *to);
/* Make all rows NULL. */
extern void hjg_vector_put_nulls(HjgVector *vector, int nrows);

/* ---------- comparisons (vector_compare.c) ---------- */

/*
 * The conversion of a column's values to ordinals, 64-bit integers in the order of the type. Integers, dates and times are
 * their own ordinals; of floats, -0 equals 0, and NaN equals itself and is the greatest.
 */
typedef enum HjgOrdinal
{
	HJG_ORDINAL_INT,			/* signed integers of 1, 2, 4 or 8 bytes, and types that are stored as such */
	HJG_ORDINAL_UINT,			/* unsigned integers of 1, 4 or 8 bytes; ordinals of one width are comparable */
	HJG_ORDINAL_FLOAT,			/* of 4 or 8 bytes */
	HJG_ORDINAL_NONE			/* values by reference, which are equal if their bytes are */
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

/* Get the comparison for exchanged sides. */
static inline HjgComparison
hjg_vector_commuted(HjgComparison comparison)
{
	switch (comparison)
	{
		case HJG_COMPARE_LT:
			return HJG_COMPARE_GT;
		case HJG_COMPARE_LE:
			return HJG_COMPARE_GE;
		case HJG_COMPARE_GT:
			return HJG_COMPARE_LT;
		case HJG_COMPARE_GE:
			return HJG_COMPARE_LE;
		default:
			return comparison;
	}
}

/* Convert an unsigned integer to an ordinal; monotone. */
static inline int64_t
hjg_vector_ordinal_of_uint(uint64_t value)
{
	return (int64_t) (value ^ ((uint64_t) 1 << 63));
}

/* Convert a float to an ordinal; monotone: the bits of a float without its sign are in the order of its magnitude. */
static inline int64_t
hjg_vector_ordinal_of_float(double value)
{
	int64_t		bits;

	if (__builtin_expect(__builtin_isnan(value), 0))
		return INT64_MAX;
	if (value == 0)
		return 0;
	memcpy(&bits, &value, sizeof(bits));
	return bits >= 0 ? bits : INT64_MIN - bits;
}

/* Get the ordinals of a by-value column, which must have one of the widths of its kind. */
extern void hjg_vector_ordinals(HjgOrdinal ordinal, const HjgVector *vector, int nrows, int64_t *ordinals);
/* Clear pass[i] for the rows in which "left op right" is false. */
extern void hjg_vector_compare_ordinals(HjgComparison comparison, const int64_t *left, const int64_t *right, int nrows, bool *pass);

/* A string of bytes. */
typedef struct HjgBytes
{
	const char *data;
	int32_t		nbytes;
} HjgBytes;

/* Get the string, without spaces at its end if padded. */
static inline HjgBytes
hjg_vector_bytes_trim(HjgBytes bytes, bool padded)
{
	while (padded && bytes.nbytes > 0 && bytes.data[bytes.nbytes - 1] == ' ')
		bytes.nbytes--;
	return bytes;
}

/* ---------- parts of strings (vector_slice.c) ---------- */

/* A part of a string, in characters. */
typedef struct HjgSlice
{
	int32_t		first;			/* characters before it */
	int32_t		nchars;			/* at most; INT32_MAX: to the end of the string */
	bool		utf8;			/* else a character is a byte */
	bool		padded;			/* of the string without spaces at its end */
} HjgSlice;

/* Cut the part out of a string. */
extern HjgBytes hjg_vector_slice(HjgBytes bytes, const HjgSlice *slice);
/* Get the bytes at the begin of any string that are enough to cut the part out; -1: it takes all. */
extern int32_t hjg_vector_slice_reach(const HjgSlice *slice);

/* ---------- numeric (vector_numeric.c) ---------- */

/*
 * A numeric is an integer and a scale, the number of its decimal digits after the point. NaN, the infinities, values that are
 * compressed or stored out of line, and numbers of a greater scale or of more than 64 bits do not fit and are left to core.
 */
#define HJG_NUMERIC_MAX_SCALE 36

/* Means "numeric" in place of a type's width. */
#define HJG_NUMERIC_WIDTH (-3)

/* Means "float8" in place of a type's width, where 8 means an integer. */
#define HJG_FLOAT_WIDTH (-4)

/* A number in core's form: digits of base 10000, the first to be multiplied by 10000^weight, without zeros at either end. */
typedef struct HjgDigits
{
	bool		negative;
	int			weight;			/* 0 for the number 0 */
	int			ndigits;
	uint16_t	digits[12];		/* enough for any 128-bit number of any scale */
} HjgDigits;

/* Most bytes of a value that hjg_vector_numeric_encode() makes. */
#define HJG_NUMERIC_MAX_BYTES 32

/* Multiply by 10^places, places >= 0. Returns false, with undefined results, if that does not fit. */
extern bool hjg_vector_numeric_widen(const int64_t *values, int nrows, int places, int64_t *results);
extern bool hjg_vector_numeric_widen_sum(__int128 value, int places, __int128 *result);

/* Read a value and its display scale. Returns false if it does not fit. */
extern bool hjg_vector_numeric_decode(const void *numeric, int64_t *value, int *scale);
/*
 * Read a column of numerics. All values but NULLs must have one display scale, which becomes the vector's; NULLs become 0.
 * Returns false if scales differ or a value does not fit.
 */
extern bool hjg_vector_numeric_load(const HjgVector *vector, int nrows, int64_t *values, int *scale);
/*
 * A column's numbers at a scale as ordinals, in core's order, with -Infinity, Infinity and NaN. Odd rows have no ordinal,
 * because the value does not fit or is stored out of line.
 */
typedef struct HjgNumericOrdinals
{
	int64_t		values[HJG_MAX_VECTOR_ROWS];
	bool		odd[HJG_MAX_VECTOR_ROWS];
	bool		any_odd;
} HjgNumericOrdinals;

/*
 * Read the asked rows at this scale, or at a greater one if not all are integers at it; -1: at the scale of the first.
 * Returns the scale.
 */
extern int	hjg_vector_numeric_ordinals(const HjgVector *vector, const bool *asked, int nrows, int scale, HjgNumericOrdinals *to);
/*
 * Find the ordinal of a constant, which is not stored out of line, at a scale. Returns false if it has none: then *ordinal is
 * the greatest below it.
 */
extern bool hjg_vector_numeric_bound(const void *numeric, int scale, int64_t *ordinal);
extern HjgDigits hjg_vector_numeric_digits(__int128 value, int scale);
/* Write the numeric as core would, at scale <= HJG_NUMERIC_MAX_SCALE. Returns its size, at most HJG_NUMERIC_MAX_BYTES. */
extern int	hjg_vector_numeric_encode(__int128 value, int scale, void *numeric);

/* Space for one value. */
typedef struct HjgNumericSpace
{
	int64_t		words[HJG_NUMERIC_MAX_BYTES / sizeof(int64_t)];
} HjgNumericSpace;

/*
 * Write rows[0 .. nrows - 1] of a vector that has integers, or with rows NULL its first rows, in core's form to space[nrows]; row i's
 * place, unless it is NULL, goes to values[i * stride].
 */
extern void hjg_vector_numeric_write(const HjgVector *vector, const uint32_t *rows, int nrows, HjgNumericSpace *space, const void **values,
									 int stride);
/* Get a row's value, which is not NULL, in core's form; *space serves if the vector has integers. */
extern const void *hjg_vector_numeric_at(const HjgVector *vector, int row, HjgNumericSpace *space);

/* ---------- codes (vector_code.c) ---------- */

/* Integers as their distances from the least one, each in the bytes that the greatest distance takes. */
typedef struct HjgCodes
{
	int64_t		least;
	int			width;			/* 0: all are equal; 1, 2, 4 or 8 */
	const void *codes;
} HjgCodes;

/* Choose the width of the codes of integers between these. */
extern int	hjg_vector_code_width(int64_t least, int64_t greatest);
extern void hjg_vector_encode(const int64_t *values, int nrows, int64_t least, int width, void *codes);
/*
 * Decode rows[0 .. nrows - 1], each counted from `first`, into integers of value_width bytes: 1, 2, 4 or 8. rows NULL: the nrows
 * rows from `first` on.
 */
extern void hjg_vector_decode(const HjgCodes *codes, size_t first, const uint16_t *rows, int nrows, int value_width, void *values);

/* Clear pass[i] unless low <= row first + i <= high, or (negated) if so. */
extern void hjg_vector_codes_between(const HjgCodes *codes, size_t first, int nrows, int64_t low, int64_t high, bool negated, bool *pass);

/* ---------- conditions (vector_filter.c, vector_leaf.c) ---------- */

typedef enum HjgFilterKind
{
	HJG_FILTER_CONSTANT,		/* passes all, or none if negated */
	HJG_FILTER_RANGE,			/* low <= value <= high */
	HJG_FILTER_SET,				/* value is in a list */
	HJG_FILTER_BYTES,			/* string is in a list */
	HJG_FILTER_LIKE,			/* string begins with the first of bytes, ends with the last, and has the others between, in this order */
	HJG_FILTER_COLUMNS,			/* value compared with another column's */
	HJG_FILTER_NUMERIC,			/* numeric compared with constants */
	HJG_FILTER_NUMERIC_COLUMNS, /* numeric compared with another column's */
	HJG_FILTER_IS_NULL,
	HJG_FILTER_ALL,				/* evaluates its arguments in order; a row that does not pass one is not tested further */
	HJG_FILTER_AND,				/* a row for which an argument is NULL may still need the next ones */
	HJG_FILTER_OR
} HjgFilterKind;

/* Nested levels of AND and OR. Each level takes less than 4 kB of stack, so makers of filters must keep within this bound. */
#define HJG_FILTER_MAX_LEVELS 32

/* Constants that a numeric column is compared with. */
typedef struct HjgNumericConstants
{
	HjgComparison comparison;
	bool		list;			/* EQ: value is in the list; NE: value is not in it; else there is one constant */
	bool		has_null;		/* the list has a NULL */
	int			nvalues;
	const void **values;		/* sorted */
	int64_t    *set;			/* [nvalues], if it is a list */
	int			scale;			/* of the last vector, or -1; */
	bool		negated;		/* is the leaf of that vector negated? */
	struct HjgFilter *leaf;		/* the condition on ordinals of this scale */
} HjgNumericConstants;

/* Strings of a list that each value is compared with, rather than searched for among them: at most so many, of at most 8 bytes. */
#define HJG_SHORT_LIST 16
#define HJG_SHORT_BYTES 8

/*
 * A condition; its maker owns it. negated inverts a leaf, except that NULLs never pass a comparison. A leaf whose operand is
 * not known yet has bind, which is called when the first row reaches the leaf; it sets the leaf's kind for good and clears
 * bind. bind may throw.
 */
typedef struct HjgFilter
{
	HjgFilterKind kind;
	void		(*bind) (struct HjgFilter *leaf);

	/*
	 * BYTES and LIKE: apply hjg_vector_filter_test_bytes() to the rows with pass[i], which are not NULL. The owner of the
	 * leaf supplies this function, because only the owner can read the values that pointers refer to. May throw.
	 */
	void		(*test_bytes) (const struct HjgFilter *leaf, const HjgVector *vector, int nrows, bool *pass);
	/*
	 * NUMERIC and NUMERIC_COLUMNS: return less than, equal to or greater than 0, as core compares two values; called for rows
	 * without an ordinal. May throw.
	 */
	int			(*compare) (const void *left, const void *right);
	HjgNumericConstants *numeric;	/* NUMERIC */
	bool		negated;
	bool		null;			/* CONSTANT: it is NULL, and passes no row; SET: the list has a NULL */
	HjgOrdinal	ordinal;
	int			column;			/* leaves: index of the vector */
	int			other;			/* ..COLUMNS: index of the other vector, */
	HjgComparison comparison;	/* and the comparison with it */
	int64_t		low;
	int64_t		high;			/* not below low */
	int			nset;
	int64_t    *set;			/* sorted */
	HjgBytes   *bytes;			/* BYTES: nset strings, sorted; LIKE: nset strings, at least two */
	uint64_t	firsts[4];		/* BYTES: the first bytes of these strings, as a bitmap */
	bool		short_list;		/* BYTES: there are few of them, all short, and these are their bytes as numbers, and their lengths */
	uint64_t	short_keys[HJG_SHORT_LIST];
	uint8_t		short_lengths[HJG_SHORT_LIST];
	bool		padded;			/* spaces at the end of values are ignored; strings of the list have none */
	HjgSlice   *slice;			/* BYTES and LIKE: the part of the value that is tested; NULL: all of it */
	int			nargs;
	struct HjgFilter **args;
} HjgFilter;

/* Make a leaf of "column op NULL"; of "column op ordinal"; of the list in leaf->set or leaf->bytes, which it sorts. */
extern void hjg_vector_filter_set_null(HjgFilter *leaf);
extern void hjg_vector_filter_set_ordinal(HjgFilter *leaf, HjgComparison comparison, int64_t ordinal);
extern void hjg_vector_filter_set_list(HjgFilter *leaf, HjgFilterKind kind, bool negated, int nset, bool has_null);

/* Evaluate a leaf, as hjg_vector_filter_eval() does. */
typedef void (*HjgLeafEval) (const HjgFilter *leaf, const HjgVector *vectors, int nrows, bool *pass);
/* Evaluate a leaf NUMERIC or NUMERIC_COLUMNS (vector_numeric_filter.c); ask evaluates leaves on integers. */
extern void hjg_vector_numeric_filter_eval(const HjgFilter *leaf, const HjgVector *vectors, int nrows, bool *pass,
										   HjgLeafEval ask);

/*
 * Get the leaf on integers of this scale that a leaf NUMERIC is; on numbers that are all integers at this scale. Valid until the next call for
 * the same constants.
 */
extern const HjgFilter *hjg_vector_numeric_filter_at(const HjgFilter *leaf, int scale);

/* Clear pass[i] for the rows whose value, which is not NULL, does not pass a leaf BYTES or LIKE. */
extern void hjg_vector_filter_test_bytes(const HjgFilter *leaf, const HjgBytes *values, int nrows, bool *pass);

/*
 * Evaluate a condition for the rows with pass[i], and clear pass[i] where it is not true. If that makes a difference, an
 * argument is evaluated only for the rows for which core's expression code would evaluate it.
 */
extern void hjg_vector_filter_eval(HjgFilter *filter, const HjgVector *vectors, int nrows, bool *pass);

/* Has the condition, or a leaf below it, an operand that is not known yet? */
extern bool hjg_vector_filter_is_open(const HjgFilter *filter);

/*
 * Evaluate a bound leaf on the rows from `first` on, none of which is NULL, without decoding them. scale: of numerics; -1: the codes
 * are of signed integers. Returns false, without an effect, if the leaf cannot be evaluated so.
 */
extern bool hjg_vector_filter_eval_codes(const HjgFilter *leaf, const HjgCodes *codes, int scale, size_t first, int nrows, bool *pass);

/* Is a bound leaf false for all values from least to greatest? scale: as above. False where that is not known. */
extern bool hjg_vector_filter_excludes(const HjgFilter *leaf, int scale, int64_t least, int64_t greatest);

/* ---------- arithmetic (vector_expr.c) ---------- */

/* Get a float of 4 or 8 bytes by its bits. */
static inline double
hjg_vector_float_of_bits(int64_t bits, int width)
{
	const int32_t low = (int32_t) bits;
	float		narrow;
	double		wide;

	memcpy(&narrow, &low, sizeof(narrow));
	memcpy(&wide, &bits, sizeof(wide));
	return width == 4 ? narrow : wide;
}

typedef enum HjgArithmeticKind
{
	HJG_ARITHMETIC_PLUS,
	HJG_ARITHMETIC_MINUS,
	HJG_ARITHMETIC_TIMES,
	HJG_ARITHMETIC_NEGATE,
	HJG_ARITHMETIC_WIDEN,		/* to a wider integer type, or numeric */
	HJG_ARITHMETIC_DIVIDE,		/* of floats alone */
	HJG_ARITHMETIC_OF_INTEGER,	/* a float */
	HJG_ARITHMETIC_OF_FLOAT4
} HjgArithmeticKind;

/* Integers, numerics, or the bits of floats as signed integers of their width, of a vector of rows. */
typedef struct HjgNumbers
{
	const int64_t *values;		/* 0 for a NULL */
	const bool *isnull;			/* NULL: no row is NULL */
	int			scale;			/* display scale: decimal digits after the point, of all values; unless */
	const uint8_t *scales;		/* is not NULL: each value has its own, which is at most HJG_NUMERIC_MAX_SCALE */
} HjgNumbers;

/* A field of a date. */
typedef enum HjgDateField
{
	HJG_DATE_YEAR,
	HJG_DATE_QUARTER,
	HJG_DATE_MONTH,
	HJG_DATE_DAY,
	HJG_DATE_DOY,				/* day of the year, from 1 */
	HJG_DATE_DOW,				/* day of the week, from 0 on Sunday, */
	HJG_DATE_ISODOW,			/* or from 1 on Monday */
	HJG_DATE_WEEK,				/* of ISO 8601, */
	HJG_DATE_ISOYEAR,			/* and the year of that */
	HJG_DATE_DAY_OF_QUARTER,	/* from 1 */
	HJG_DATE_DAY_OF_DAY			/* 1 */
} HjgDateField;

/* Microseconds of a day; the first timestamp. Timestamps are microseconds since 2000-01-01. */
#define HJG_DAY_USECS INT64_C(86400000000)
#define HJG_TIMESTAMP_FIRST (-INT64_C(211813488000000000))

/* Dates, in days since 2000-01-01, from this one on have no timestamp. */
#define HJG_DATE_END 106751983

typedef enum HjgVectorTermKind
{
	HJG_TERM_COLUMN,
	HJG_TERM_NUMERIC_COLUMN,
	HJG_TERM_CONSTANT,
	HJG_TERM_ARITHMETIC,
	HJG_TERM_DATE_OF,			/* of a timestamp */
	HJG_TERM_DATE_FIELD,		/* a numeric of scale 0 */
	HJG_TERM_DATE_TRUNC,		/* the timestamp of the first day of a date's unit, in which the date has the field as its number */
	HJG_TERM_CASE,
	HJG_TERM_COALESCE
} HjgVectorTermKind;

/* A branch of CASE or COALESCE. It takes rows that no branch before it takes; rows that none takes are NULL. */
typedef struct HjgBranch
{
	HjgFilter  *condition;		/* takes the rows for which this is true; NULL: COALESCE: those whose result is not NULL; CASE: all */
	int			result;			/* term; -1: NULL */
} HjgBranch;

/*
 * A term of an expression. Its maker sets the first block and provides the memory for the values. A CONSTANT that is not known
 * yet has bind, which is called when the first row needs it; it sets the constant and clears bind. bind may throw.
 */
typedef struct HjgVectorTerm
{
	HjgVectorTermKind kind;
	int			column;			/* COLUMN, NUMERIC_COLUMN: index of the vector */
	HjgArithmeticKind function; /* ARITHMETIC; WIDEN does nothing; */
	int			width;			/* bytes of the result: 2, 4 or 8, or HJG_NUMERIC_WIDTH or HJG_FLOAT_WIDTH; */
	int			left;			/* its arguments are terms before it; */
	int			right;			/* equal to left for functions of one argument */
	HjgDateField field;			/* DATE_FIELD, DATE_TRUNC: of the date in left */
	int			nbranches;		/* CASE, COALESCE; width as above */
	HjgBranch  *branches;
	void		(*bind) (struct HjgVectorTerm *term);
	void	   *owner;			/* for bind */
	int64_t    *space;			/* [HJG_VECTOR_ROWS] */
	bool	   *null_space;		/* [HJG_VECTOR_ROWS] */
	uint8_t    *scale_space;	/* [HJG_VECTOR_ROWS], of CASE and COALESCE */

	bool		unfit;			/* CONSTANT: a numeric that does not fit */
	HjgNumbers	numbers;		/* result */
} HjgVectorTerm;

/* Set a CONSTANT for all future rows. */
extern void hjg_vector_term_set_constant(HjgVectorTerm *term, int64_t value, int scale, bool isnull);

/* Means "core must compute the rows" in place of the width of a result. */
#define HJG_LEFT_TO_CORE HJG_NUMERIC_WIDTH

/*
 * Compute the last term, and those that it needs, for nrows rows, 0 < nrows <= HJG_VECTOR_ROWS. Its numbers are the result,
 * valid until the next call. Returns 0, or the width of a result that is out of range; HJG_LEFT_TO_CORE: a numeric does not
 * fit, a float may have, a date has no finite field, or a branch, which some rows need not take, has failed.
 */
extern int	hjg_vector_terms_eval(HjgVectorTerm *terms, int nterms, const HjgVector *vectors, int nrows);

#endif							/* HJG_VECTOR_H */
