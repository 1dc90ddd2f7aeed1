/*
 * test_filter.c
 *	  Comparisons with constants (vector_filter.c, vector_numeric_filter.c) on random values, against those of the values themselves.
 *
 *	  test_filter [SEED [ROUNDS]]
 */
#include "hjg_test_vector.h"

#define MOST_ROWS 70
#define COMPARISONS 6

static bool
holds(HjgComparison comparison, __int128 left, __int128 right)
{
	const bool	results[COMPARISONS] = {
		[HJG_COMPARE_EQ] = left == right, [HJG_COMPARE_NE] = left != right, [HJG_COMPARE_LT] = left < right,
		[HJG_COMPARE_LE] = left <= right, [HJG_COMPARE_GT] = left > right, [HJG_COMPARE_GE] = left >= right
	};

	return results[comparison];
}

/* Draw rows that are asked for, and NULLs; few or many. */
static void
draw_flags(bool *flags, int n)
{
	const int	one_of = 1 + below(8);

	for (int i = 0; i < n; i++)
		flags[i] = below(one_of) == 0;
}

/* Does a leaf pass the rows that are asked for, are not NULL, and for which the comparison holds, or does not? */
static bool
passes(HjgFilter *leaf, bool opposite, const HjgVector *vector, const __int128 *values, int nrows, HjgComparison comparison, __int128 constant)
{
	bool		asked[MOST_ROWS] = {0};
	bool		pass[MOST_ROWS];

	draw_flags(asked, nrows);
	memcpy(pass, asked, sizeof(pass));
	hjg_vector_filter_eval(leaf, vector, nrows, pass);
	for (int i = 0; i < nrows; i++)
		if (pass[i] != (asked[i] && !hjg_vector_isnull(vector, i) && holds(comparison, values[i], constant) != opposite))
			return false;
	return true;
}

/* Draw a number near zero, or near an end of the integers of some width. */
static int64_t
near_an_end(void)
{
	static const int64_t ends[] = {0, INT8_MIN, INT8_MAX, INT16_MIN, INT16_MAX, INT32_MIN, INT32_MAX, UINT32_MAX, INT64_MIN, INT64_MAX};

	return (int64_t) ((uint64_t) ends[below(sizeof(ends) / sizeof(ends[0]))] + (uint64_t) (below(7) - 3));
}

static bool
check_integers(void)
{
	static const int widths[] = {1, 2, 4, 4, 4, 8};
	const int	width = widths[below(6)];
	const bool	is_unsigned = width == 4 && below(3) == 0;
	const int	nrows = below(MOST_ROWS + 1);
	const HjgComparison comparison = (HjgComparison) below(COMPARISONS);
	const int64_t constant = near_an_end();
	const bool	opposite = below(2) == 0;
	HjgFilter	leaf = {.ordinal = is_unsigned ? HJG_ORDINAL_UINT : HJG_ORDINAL_INT};
	char		bytes[MOST_ROWS * sizeof(int64_t)];
	bool		isnull[MOST_ROWS];
	__int128	values[MOST_ROWS];
	HjgVector	vector = {.column = {(int16_t) width, true, 0}, .values = bytes, .isnull = isnull, .has_nulls = below(2) == 0};

	draw_flags(isnull, nrows);
	for (int i = 0; i < nrows; i++)
	{
		const int64_t value = near_an_end();

		memcpy(bytes + i * width, &value, (size_t) width);	/* the lower bytes */
		values[i] = width == 1 ? (int8_t) value : width == 2 ? (int16_t) value : width == 8 ? value : is_unsigned ? (int64_t) (uint32_t) value : (int32_t) value;
	}
	hjg_vector_filter_set_ordinal(&leaf, comparison, constant);
	leaf.negated = leaf.negated != opposite;
	return passes(&leaf, opposite, &vector, values, nrows, comparison, constant);
}

/* Numerics of several scales, by a leaf and its opposite, which share the constants. */
static bool
check_numerics(void)
{
	const int	scale = below(5);
	const int	nrows = below(MOST_ROWS + 1);
	const HjgComparison comparison = (HjgComparison) below(COMPARISONS);
	const __int128 constant = below(2001) - 1000;
	HjgNumericSpace constant_space;
	HjgNumericSpace space[MOST_ROWS];
	const void *constants[] = {&constant_space};
	const void *numerics[MOST_ROWS];
	bool		isnull[MOST_ROWS];
	__int128	values[MOST_ROWS];
	int64_t		set;
	HjgFilter	ordinals = {0};
	HjgNumericConstants numeric = {.comparison = comparison, .nvalues = 1, .values = constants, .set = &set, .scale = -1, .leaf = &ordinals};
	HjgFilter	leaf = {.kind = HJG_FILTER_NUMERIC, .numeric = &numeric};
	HjgVector	vector = {.column = {-1, false, 0}, .values = numerics, .isnull = isnull, .has_nulls = below(2) == 0};

	/* all are integers at scale 4 */
	hjg_vector_numeric_encode(constant, scale, &constant_space);
	for (int turn = 0; turn < 4; turn++)
	{
		const int	own_scale = below(5);

		draw_flags(isnull, nrows);
		for (int i = 0; i < nrows; i++)
		{
			const int64_t value = below(3) == 0 ? (int64_t) constant : below(2001) - 1000;

			hjg_vector_numeric_encode(value, own_scale, &space[i]);
			numerics[i] = &space[i];
			values[i] = value * power(4 - own_scale);
		}
		leaf.negated = below(2) == 0;
		if (!passes(&leaf, leaf.negated, &vector, values, nrows, comparison, constant * power(4 - scale)))
			return false;
	}
	return true;
}

int
main(int argc, char **argv)
{
	start_tests(argc, argv, 200000);
	repeat(check_integers, "a comparison passes the integers for which it holds");
	repeat(check_numerics, "and numerics, also its opposite");
	return end_tests();
}
