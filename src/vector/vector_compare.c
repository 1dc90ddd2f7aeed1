/*
 * vector_compare.c
 *	  Ordinals of values, and comparisons of many at a time.
 */
#include "vector/hjg_vector.h"
#include "vector/hjg_vector_form.h"

#define LOAD(type, ORDINAL, to) \
	for (int i = 0; i < nrows; i++) \
		(to)[i] = ORDINAL(((const type *) vector->values)[i])

void
hjg_vector_ordinals(HjgOrdinal ordinal, const HjgVector *vector, int nrows, int64_t *ordinals)
{
	HJG_BY_FORM(ordinal, vector, LOAD, ordinals);
}
#undef LOAD

#define COMPARE(OP) \
	for (int i = 0; i < nrows; i++) \
		pass[i] &= left[i] OP right[i]; \
	break

void
hjg_vector_compare_ordinals(HjgComparison comparison, const int64_t *left, const int64_t *right, int nrows, bool *pass)
{
	switch (comparison)
	{
		case HJG_COMPARE_EQ:
			COMPARE(==);
		case HJG_COMPARE_NE:
			COMPARE(!=);
		case HJG_COMPARE_LT:
			COMPARE(<);
		case HJG_COMPARE_LE:
			COMPARE(<=);
		case HJG_COMPARE_GT:
			COMPARE(>);
		case HJG_COMPARE_GE:
			COMPARE(>=);
	}
}
#undef COMPARE
