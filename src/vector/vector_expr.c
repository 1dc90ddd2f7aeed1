/*
 * vector_expr.c
 *	  Arithmetic of integers and numerics on columns, for a vector of rows at a time.
 *
 * Each value is computed as a 64-bit integer, whatever its type, so widening does nothing. After each operation it is
 * compared with the bounds of its type, as in core. The loop has no branch for that; the result is tested once after it. If
 * several operations fail, the reported one need not be the first that core would meet. All functions are strict; the value
 * of a NULL is 0.
 *
 * Numerics are integers with one scale a vector (vector_numeric.c); results have the scales that core gives them. If one does
 * not fit, core must evaluate the vector's rows, and may or may not raise an error.
 *
 * An expression is a list of terms, in which arguments come before the terms that use them.
 */
#include "vector/hjg_vector.h"

/* ---------- leaves ---------- */

static void
set_nulls(HjgVectorTerm *term, bool has_nulls)
{
	term->numbers.values = term->space;
	term->numbers.isnull = has_nulls ? term->null_space : NULL;
}

/* Set the values of NULLs to 0; they are undefined or were computed from zeros. */
static void
clear_nulls(HjgVectorTerm *term, int nrows)
{
	int64_t	   *const space = term->space;
	const bool *const isnull = term->null_space;

	for (int i = 0; i < nrows; i++)
		space[i] &= (int64_t) isnull[i] - 1;
}

static void
load_nulls(HjgVectorTerm *term, const HjgVector *vector, int nrows)
{
	set_nulls(term, vector->has_nulls);
	if (vector->has_nulls)
		memcpy(term->null_space, vector->isnull, nrows * sizeof(bool));
}

#define LOAD(type) \
	for (int i = 0; i < nrows; i++) \
		space[i] = ((const type *) values)[i]; \
	break

static void
load_column(HjgVectorTerm *term, const HjgVector *vector, int nrows)
{
	const void *const values = vector->values;
	int64_t	   *const space = term->space;

	load_nulls(term, vector, nrows);
	switch (vector->column.attbyval ? vector->column.attlen : 0)
	{
		case 1:
			LOAD(int8_t);
		case 2:
			LOAD(int16_t);
		case 4:
			LOAD(int32_t);
		case 8:
			if (!vector->has_nulls)
			{
				term->numbers.values = vector->values;
				break;
			}
			LOAD(int64_t);
		default:
			return;				/* values of other columns are only tested for NULL */
	}
	if (vector->has_nulls)
		clear_nulls(term, nrows);
}
#undef LOAD

/* Read a column of numerics; returns 0, or HJG_NUMERIC_WIDTH if a value does not fit. */
static int
load_numerics(HjgVectorTerm *term, const HjgVector *vector, int nrows)
{
	load_nulls(term, vector, nrows);
	if (vector->numbers != NULL && !vector->has_nulls)
	{
		term->numbers.values = vector->numbers;
		term->numbers.scale = vector->scale;
		return 0;
	}
	return hjg_vector_numeric_load(vector, nrows, term->space, &term->numbers.scale) ? 0 : HJG_NUMERIC_WIDTH;
}

void
hjg_vector_term_set_constant(HjgVectorTerm *term, int64_t value, int scale, bool isnull)
{
	for (int i = 0; i < HJG_VECTOR_ROWS; i++)
		term->space[i] = isnull ? 0 : value;
	memset(term->null_space, isnull, HJG_VECTOR_ROWS * sizeof(bool));
	set_nulls(term, isnull);
	term->numbers.scale = scale;
}

/* ---------- arithmetic ---------- */

/* Does a result of a narrow operation, which is exact in 64 bits, exceed its width? bound is 2^(bits - 1). */
static bool
any_beyond(const int64_t *values, int nrows, int64_t bound)
{
	uint64_t		beyond = 0;

	for (int i = 0; i < nrows; i++)
		beyond |= (uint64_t) (values[i] + bound) & ~(2 * (uint64_t) bound - 1);
	return beyond != 0;
}

/* Compute results that wrap around. */
static void
compute_integers(HjgArithmeticKind kind, const int64_t *left, const int64_t *right, int nrows, int64_t *result)
{
	switch (kind)
	{
		case HJG_ARITHMETIC_PLUS:
			for (int i = 0; i < nrows; i++)
				result[i] = (int64_t) ((uint64_t) left[i] + (uint64_t) right[i]);
			break;
		case HJG_ARITHMETIC_MINUS:
			for (int i = 0; i < nrows; i++)
				result[i] = (int64_t) ((uint64_t) left[i] - (uint64_t) right[i]);
			break;
		case HJG_ARITHMETIC_TIMES:
			for (int i = 0; i < nrows; i++)
				result[i] = (int64_t) ((uint64_t) left[i] * (uint64_t) right[i]);
			break;
		case HJG_ARITHMETIC_NEGATE:
			for (int i = 0; i < nrows; i++)
				result[i] = (int64_t) (0 - (uint64_t) left[i]);
			break;
		case HJG_ARITHMETIC_WIDEN:
			break;
	}
}

/* Mark the operations on 64-bit values that wrapped around: wrapped[i] is negative. */
static void
mark_wrapped(HjgArithmeticKind kind, const int64_t *left, const int64_t *right, int nrows, const int64_t *result,
			 int64_t *wrapped)
{
	int64_t		product;

	switch (kind)
	{
		case HJG_ARITHMETIC_PLUS:
			for (int i = 0; i < nrows; i++)
				wrapped[i] = (left[i] ^ result[i]) & (right[i] ^ result[i]);
			break;
		case HJG_ARITHMETIC_MINUS:
			for (int i = 0; i < nrows; i++)
				wrapped[i] = (left[i] ^ right[i]) & (left[i] ^ result[i]);
			break;
		case HJG_ARITHMETIC_TIMES:
			for (int i = 0; i < nrows; i++)
				wrapped[i] = -(int64_t) __builtin_mul_overflow(left[i], right[i], &product);
			break;
		case HJG_ARITHMETIC_NEGATE:
			for (int i = 0; i < nrows; i++)
				wrapped[i] = left[i] & result[i];
			break;
		case HJG_ARITHMETIC_WIDEN:
			break;
	}
}

/* Did an operation wrap around? NULLs do not count: their zeros wrap around, too, when the least number is subtracted. */
static bool
any_wrapped(const int64_t *wrapped, const bool *isnull, int nrows)
{
	int64_t		any = 0;

	if (isnull == NULL)
		for (int i = 0; i < nrows; i++)
			any |= wrapped[i];
	else
		for (int i = 0; i < nrows; i++)
			any |= wrapped[i] & ((int64_t) isnull[i] - 1);
	return any < 0;
}

/* Compute a term; returns 0, or the width of a result that does not fit. */
static int
apply_term(HjgVectorTerm *term, const HjgNumbers *left, const HjgNumbers *right, int nrows)
{
	const int	width = term->width;
	int64_t		wrapped[HJG_VECTOR_ROWS];

	set_nulls(term, left->isnull != NULL || right->isnull != NULL);
	compute_integers(term->function, left->values, right->values, nrows, term->space);
	if (term->numbers.isnull != NULL)
		for (int i = 0; i < nrows; i++)
			term->null_space[i] = (left->isnull != NULL && left->isnull[i]) || (right->isnull != NULL && right->isnull[i]);
	if (width == 8 || width == HJG_NUMERIC_WIDTH)
	{
		mark_wrapped(term->function, left->values, right->values, nrows, term->space, wrapped);
		if (any_wrapped(wrapped, term->numbers.isnull, nrows))
			return width;
	}
	if (term->numbers.isnull != NULL)
		clear_nulls(term, nrows);
	return (width == 2 || width == 4) && any_beyond(term->space, nrows, (int64_t) 1 << (8 * width - 1)) ? width : 0;
}

/* Convert numbers to a scale that is not below theirs, in space[nrows]. Returns false if one does not fit. */
static bool
widen_numbers(HjgNumbers *numbers, int scale, int nrows, int64_t *space)
{
	const bool	fits = hjg_vector_numeric_widen(numbers->values, nrows, scale - numbers->scale, space);

	numbers->values = space;
	return fits;
}

/*
 * Compute a term of numerics: products at the sum of the scales, others at the greater scale. Returns the same as
 * apply_term().
 */
static int
apply_numeric(HjgVectorTerm *term, HjgNumbers left, HjgNumbers right, int nrows)
{
	const bool	product = term->function == HJG_ARITHMETIC_TIMES;
	const int	scale = product ? left.scale + right.scale : left.scale > right.scale ? left.scale : right.scale;
	int64_t		space[HJG_VECTOR_ROWS];

	if (scale > HJG_NUMERIC_MAX_SCALE ||
		(!product && left.scale < scale && !widen_numbers(&left, scale, nrows, space)) ||
		(!product && right.scale < scale && !widen_numbers(&right, scale, nrows, space)))
		return HJG_NUMERIC_WIDTH;
	term->numbers.scale = scale;
	return apply_term(term, &left, &right, nrows);
}

int
hjg_vector_terms_eval(HjgVectorTerm *terms, int nterms, const HjgVector *vectors, int nrows)
{
	for (int t = 0; t < nterms; t++)
	{
		HjgVectorTerm *term = &terms[t];
		int			failed = 0;

		switch (term->kind)
		{
			case HJG_TERM_COLUMN:
				load_column(term, &vectors[term->column], nrows);
				break;
			case HJG_TERM_NUMERIC_COLUMN:
				failed = load_numerics(term, &vectors[term->column], nrows);
				break;
			case HJG_TERM_CONSTANT:
				break;
			case HJG_TERM_ARITHMETIC:
				failed = term->width == HJG_NUMERIC_WIDTH ?
					apply_numeric(term, terms[term->left].numbers, terms[term->right].numbers, nrows) :
					apply_term(term, &terms[term->left].numbers, &terms[term->right].numbers, nrows);
				break;
		}
		if (failed != 0)
			return failed;
	}
	return 0;
}
