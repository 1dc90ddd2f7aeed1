/*
 * vector_numeric_filter.c
 *	  Conditions on numerics (vector_filter.c).
 *
 * The values of a vector are read as ordinals at a common scale, and the constants are converted to ordinals of this scale,
 * so that the condition is one on integers. Values without an ordinal are compared by a function that the maker of the leaf
 * supplies.
 */
#include <stdlib.h>

#include "vector/hjg_vector.h"

static bool
comparison_holds(HjgComparison comparison, int order)
{
	switch (comparison)
	{
		case HJG_COMPARE_EQ:
			return order == 0;
		case HJG_COMPARE_NE:
			return order != 0;
		case HJG_COMPARE_LT:
			return order < 0;
		case HJG_COMPARE_LE:
			return order <= 0;
		case HJG_COMPARE_GT:
			return order > 0;
		default:
			return order >= 0;
	}
}

/* ---------- constants ---------- */

/* Set a comparison with a constant between an ordinal and the next one. */
static void
set_between(HjgFilter *leaf, HjgComparison comparison, int64_t below)
{
	switch (comparison)
	{
		case HJG_COMPARE_EQ:
			hjg_vector_filter_set_ordinal(leaf, HJG_COMPARE_LT, INT64_MIN);	/* none */
			break;
		case HJG_COMPARE_NE:
			hjg_vector_filter_set_ordinal(leaf, HJG_COMPARE_GE, INT64_MIN);	/* all */
			break;
		case HJG_COMPARE_LT:
		case HJG_COMPARE_LE:
			hjg_vector_filter_set_ordinal(leaf, HJG_COMPARE_LE, below);
			break;
		case HJG_COMPARE_GT:
		case HJG_COMPARE_GE:
			hjg_vector_filter_set_ordinal(leaf, HJG_COMPARE_GT, below);
			break;
	}
}

static void
set_leaf(HjgNumericConstants *numeric, int scale, bool negated)
{
	HjgFilter  *leaf = numeric->leaf;
	int64_t		ordinal;
	int			n = 0;

	numeric->scale = scale;
	numeric->negated = negated;
	leaf->ordinal = HJG_ORDINAL_INT;
	if (numeric->list)
	{
		for (int i = 0; i < numeric->nvalues; i++)
			if (hjg_vector_numeric_bound(numeric->values[i], scale, &ordinal))
				numeric->set[n++] = ordinal;
		leaf->set = numeric->set;
		hjg_vector_filter_set_list(leaf, HJG_FILTER_SET, numeric->comparison == HJG_COMPARE_NE, n, numeric->has_null);
	}
	else if (hjg_vector_numeric_bound(numeric->values[0], scale, &ordinal))
		hjg_vector_filter_set_ordinal(leaf, numeric->comparison, ordinal);
	else
		set_between(leaf, numeric->comparison, ordinal);
	leaf->negated = leaf->negated != negated;
}

const HjgFilter *
hjg_vector_numeric_filter_at(const HjgFilter *leaf, int scale)
{
	HjgNumericConstants *numeric = leaf->numeric;

	if (scale != numeric->scale || leaf->negated != numeric->negated)
		set_leaf(numeric, scale, leaf->negated);
	return numeric->leaf;
}

/* ---------- rows ---------- */

/* Does a value without an ordinal pass the leaf? */
static bool
value_passes(const HjgFilter *leaf, const void *value)
{
	const HjgNumericConstants *numeric = leaf->numeric;
	const bool	negated = leaf->negated != (numeric->list && numeric->comparison == HJG_COMPARE_NE);
	int			low = 0;
	int			high = numeric->nvalues;

	if (!numeric->list)
		return comparison_holds(numeric->comparison, leaf->compare(value, numeric->values[0])) != negated;
	if (negated && numeric->has_null)
		return false;
	while (low < high)
	{
		const int	middle = (low + high) / 2;
		const int	order = leaf->compare(value, numeric->values[middle]);

		if (order == 0)
			return !negated;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return negated;
}

static void
eval_constants(const HjgFilter *leaf, const HjgVector *vector, int nrows, bool *pass, HjgLeafEval ask)
{
	HjgNumericConstants *numeric = leaf->numeric;
	HjgNumericOrdinals ordinals;
	bool		asked[HJG_MAX_VECTOR_ROWS];
	const HjgVector integers = {
		.column = {sizeof(int64_t), true, 0}, .values = ordinals.values, .isnull = vector->isnull, .has_nulls = vector->has_nulls
	};
	const int	scale = hjg_vector_numeric_ordinals(vector, pass, nrows, numeric->scale, &ordinals);
	HjgNumericSpace space;

	memcpy(asked, pass, nrows * sizeof(bool));
	ask(hjg_vector_numeric_filter_at(leaf, scale), &integers, nrows, pass);
	if (!ordinals.any_odd)
		return;
	for (int i = 0; i < nrows; i++)
		if (asked[i] && ordinals.odd[i])
			pass[i] = value_passes(leaf, hjg_vector_numeric_at(vector, i, &space));
	/* more of the greater values may fit at a smaller scale */
	numeric->scale = -1;
}

static void
eval_numeric_columns(const HjgFilter *leaf, const HjgVector *left, const HjgVector *right, int nrows, bool *pass)
{
	HjgNumericOrdinals left_ordinals;
	HjgNumericOrdinals right_ordinals;
	HjgNumericSpace left_space;
	HjgNumericSpace right_space;
	const int	left_scale = hjg_vector_numeric_ordinals(left, pass, nrows, -1, &left_ordinals);
	const int	scale = hjg_vector_numeric_ordinals(right, pass, nrows, left_scale, &right_ordinals);
	bool		result[HJG_MAX_VECTOR_ROWS];

	if (scale > left_scale)
		(void) hjg_vector_numeric_ordinals(left, pass, nrows, scale, &left_ordinals);
	memset(result, true, nrows * sizeof(bool));
	hjg_vector_compare_ordinals(leaf->comparison, left_ordinals.values, right_ordinals.values, nrows, result);
	for (int i = 0; i < nrows; i++)
	{
		if (!pass[i])
			continue;
		if (hjg_vector_isnull(left, i) || hjg_vector_isnull(right, i))
			pass[i] = false;
		else if (left_ordinals.odd[i] || right_ordinals.odd[i])
			pass[i] = comparison_holds(leaf->comparison, leaf->compare(hjg_vector_numeric_at(left, i, &left_space),
															hjg_vector_numeric_at(right, i, &right_space))) != leaf->negated;
		else
			pass[i] = result[i] != leaf->negated;
	}
}

void
hjg_vector_numeric_filter_eval(const HjgFilter *leaf, const HjgVector *vectors, int nrows, bool *pass, HjgLeafEval ask)
{
	if (leaf->kind == HJG_FILTER_NUMERIC)
		eval_constants(leaf, &vectors[leaf->column], nrows, pass, ask);
	else
		eval_numeric_columns(leaf, &vectors[leaf->column], &vectors[leaf->other], nrows, pass);
}
