/*
 * vector_float.c
 *	  Arithmetic of floats for a vector of rows at a time, on their bits.
 *
 * Results are core's. Where one is infinite or no number, or is zero and may have been too small, core must evaluate the rows:
 * it knows which of these are errors.
 */
#include "vector/hjg_vector_term.h"

/* Compute results by an expression of a and b, and whether they are odd by one of these and the result c. */
#define COMPUTE_FLOATS(expr, is_odd) \
	for (int i = 0; i < nrows; i++) \
	{ \
		const double a = hjg_vector_float_of_bits(left[i], 8); \
		const double b = hjg_vector_float_of_bits(right[i], 8); \
		const double c = (expr); \
		memcpy(&result[i], &c, sizeof(c)); \
		odd[i] = (is_odd) || c - c != 0; \
	} \
	break

#define CONVERT_FLOATS(expr) \
	for (int i = 0; i < nrows; i++) \
	{ \
		const double c = (expr); \
		memcpy(&result[i], &c, sizeof(c)); \
		odd[i] = false; \
	} \
	break

static void
compute_floats(HjgArithmeticKind kind, const int64_t *left, const int64_t *right, int nrows, int64_t *result, bool *odd)
{
	switch (kind)
	{
		case HJG_ARITHMETIC_PLUS:
			COMPUTE_FLOATS(a + b, false);
		case HJG_ARITHMETIC_MINUS:
			COMPUTE_FLOATS(a - b, false);
		case HJG_ARITHMETIC_TIMES:
			COMPUTE_FLOATS(a * b, c == 0 && a != 0 && b != 0);
		case HJG_ARITHMETIC_DIVIDE:
			COMPUTE_FLOATS(a / b, c == 0 && a != 0);
		case HJG_ARITHMETIC_NEGATE:
			CONVERT_FLOATS(-hjg_vector_float_of_bits(left[i], 8));
		case HJG_ARITHMETIC_OF_INTEGER:
			CONVERT_FLOATS((double) left[i]);
		case HJG_ARITHMETIC_OF_FLOAT4:
			CONVERT_FLOATS(hjg_vector_float_of_bits(left[i], 4));
		case HJG_ARITHMETIC_WIDEN:
			break;
	}
}
#undef COMPUTE_FLOATS
#undef CONVERT_FLOATS

int
hjg_vector_apply_floats(HjgVectorTerm *term, const HjgNumbers *left, const HjgNumbers *right, int nrows)
{
	bool		odd[HJG_VECTOR_ROWS];

	hjg_vector_term_unite_nulls(term, left, right, nrows);
	compute_floats(term->function, left->values, right->values, nrows, term->space, odd);
	if (term->numbers.isnull != NULL)
	{
		hjg_vector_term_clear_nulls(term, nrows);
		for (int i = 0; i < nrows; i++)
			odd[i] &= !term->null_space[i];
	}
	return memchr(odd, 1, nrows) != NULL ? HJG_LEFT_TO_CORE : 0;
}
