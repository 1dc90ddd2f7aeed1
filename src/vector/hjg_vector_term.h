/*
 * hjg_vector_term.h
 *	  NULLs of the terms of an expression, and terms of floats. Internal to the room "vector".
 */
#ifndef HJG_VECTOR_TERM_H
#define HJG_VECTOR_TERM_H

#include "vector/hjg_vector.h"

/* Have the term's values in its own space, with flags of NULLs or without. */
static inline void
hjg_vector_term_set_nulls(HjgVectorTerm *term, bool has_nulls)
{
	term->numbers.values = term->space;
	term->numbers.isnull = has_nulls ? term->null_space : NULL;
}

/* Set the values of NULLs to 0; they are undefined or were computed from zeros. */
static inline void
hjg_vector_term_clear_nulls(HjgVectorTerm *term, int nrows)
{
	int64_t	   *const space = term->space;
	const bool *const isnull = term->null_space;

	for (int i = 0; i < nrows; i++)
		space[i] &= (int64_t) isnull[i] - 1;
}

/* Set the results to NULL where an argument is. */
static inline void
hjg_vector_term_unite_nulls(HjgVectorTerm *term, const HjgNumbers *left, const HjgNumbers *right, int nrows)
{
	hjg_vector_term_set_nulls(term, left->isnull != NULL || right->isnull != NULL);
	if (term->numbers.isnull != NULL)
		for (int i = 0; i < nrows; i++)
			term->null_space[i] = (left->isnull != NULL && left->isnull[i]) || (right->isnull != NULL && right->isnull[i]);
}

/* Compute a term of floats; returns 0, or HJG_LEFT_TO_CORE if a result may be an error (vector_float.c). */
extern int	hjg_vector_apply_floats(HjgVectorTerm *term, const HjgNumbers *left, const HjgNumbers *right, int nrows);

#endif							/* HJG_VECTOR_TERM_H */
