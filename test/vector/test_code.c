/*
 * test_code.c
 *	  Integers as codes (vector_code.c), conditions on them, and vectors of numerics that are integers of a scale, against
 *	  plain loops and against vectors of core's values.
 *
 *	  test_code [SEED [ROUNDS]]
 *
 * Codes have a memory block of exactly their size, so that the address sanitizer notices reads beside it.
 */
#include "hjg_test_vector.h"

#define ROWS 300

/* Make an integer of any size, often near an end of 8, 16, 32 or 64 bits. */
static int64_t
any_integer(void)
{
	const uint64_t bits = next_random() >> below(64);

	switch (below(4))
	{
		case 0:
			return (int64_t) (~bits);
		case 1:
			return (int64_t) ((UINT64_C(1) << below(64)) + (uint64_t) below(3) - 1);
		case 2:
			return below(2) == 0 ? INT64_MIN + below(3) : INT64_MAX - below(3);
		default:
			return (int64_t) bits;
	}
}

/* Integers, and their codes. */
typedef struct Coded
{
	int			nrows;
	int64_t		values[ROWS];
	int64_t		least;
	int64_t		greatest;
	HjgCodes	codes;
	void	   *memory;
} Coded;

static void
make_codes(Coded *coded)
{
	const int64_t base = any_integer();
	const uint64_t span = next_random() >> below(64);

	coded->nrows = 1 + below(ROWS);
	for (int i = 0; i < coded->nrows; i++)
	{
		const uint64_t distance = below(4) == 0 ? below(2) * span : span == UINT64_MAX ? next_random() : next_random() % (span + 1);

		/* up to the end of 64 bits */
		coded->values[i] = distance > (uint64_t) INT64_MAX - (uint64_t) base ? base : (int64_t) ((uint64_t) base + distance);
		coded->least = i == 0 || coded->values[i] < coded->least ? coded->values[i] : coded->least;
		coded->greatest = i == 0 || coded->values[i] > coded->greatest ? coded->values[i] : coded->greatest;
	}
	coded->codes.least = coded->least;
	coded->codes.width = hjg_vector_code_width(coded->least, coded->greatest);
	coded->codes.codes = coded->memory = malloc((size_t) coded->nrows * coded->codes.width + 1);
	if (coded->codes.width > 0)
		coded->codes.codes = coded->memory = realloc(coded->memory, (size_t) coded->nrows * coded->codes.width);
	hjg_vector_encode(coded->values, coded->nrows, coded->least, coded->codes.width, coded->memory);
}

static bool
check_widths(void)
{
	const int64_t least = any_integer();
	const int64_t other = any_integer();
	const int64_t low = least < other ? least : other;
	const int64_t high = least < other ? other : least;
	const int	width = hjg_vector_code_width(low, high);
	const __int128 distance = (__int128) high - low;

	return (width == 0 || width == 1 || width == 2 || width == 4 || width == 8) &&
		(width == 8 || distance < (__int128) 1 << 8 * width) && (width == 0) == (distance == 0) &&
		(width <= 1 || distance >= (__int128) 1 << 4 * width);
}

static bool
check_decode(void)
{
	const int	value_width = 1 << below(4);
	Coded		coded;
	uint16_t	rows[ROWS];
	uint8_t		values[ROWS * sizeof(int64_t)];
	bool		good = true;
	int			first;
	int			nrows;
	const bool	chosen = below(2) == 0;

	make_codes(&coded);
	first = below(coded.nrows);
	nrows = below(coded.nrows - first + 1);
	for (int i = 0; i < nrows; i++)
		rows[i] = (uint16_t) below(coded.nrows - first);
	hjg_vector_decode(&coded.codes, first, chosen ? rows : NULL, nrows, value_width, values);
	for (int i = 0; i < nrows; i++)
		good &= memcmp(values + i * value_width, &coded.values[first + (chosen ? rows[i] : i)], value_width) == 0;
	free(coded.memory);
	return good;
}

/* Choose a constant, often one of the values or beside it. */
static int64_t
any_constant(const Coded *coded)
{
	const int64_t value = coded->values[below(coded->nrows)];

	switch (below(4))
	{
		case 0:
			return any_integer();
		case 1:
			return value == INT64_MAX ? value : value + 1;
		case 2:
			return value == INT64_MIN ? value : value - 1;
		default:
			return value;
	}
}

static bool
check_between(void)
{
	const bool	negated = below(2) == 0;
	Coded		coded;
	bool		pass[ROWS];
	bool		before[ROWS];
	bool		good = true;
	int64_t		low;
	int64_t		high;
	int			first;
	int			nrows;

	make_codes(&coded);
	low = any_constant(&coded);
	high = any_constant(&coded);
	if (low > high)
	{
		const int64_t greater = low;

		low = high;
		high = greater;
	}
	first = below(coded.nrows);
	nrows = below(coded.nrows - first + 1);
	for (int i = 0; i < nrows; i++)
		pass[i] = before[i] = below(4) > 0;
	hjg_vector_codes_between(&coded.codes, first, nrows, low, high, negated, pass);
	for (int i = 0; i < nrows; i++)
		good &= pass[i] == (before[i] && (low <= coded.values[first + i] && coded.values[first + i] <= high) != negated);
	free(coded.memory);
	return good;
}

/* A leaf on integers of one width: evaluated on codes, on the vector, and by the ends of the values. */
static bool
check_leaf(void)
{
	static const HjgComparison comparisons[] = {HJG_COMPARE_EQ, HJG_COMPARE_NE, HJG_COMPARE_LT, HJG_COMPARE_LE, HJG_COMPARE_GT, HJG_COMPARE_GE};
	HjgFilter	leaf = {.ordinal = HJG_ORDINAL_INT, .column = 0};
	Coded		coded;
	bool		by_codes[ROWS];
	bool		by_vector[ROWS];
	bool		isnull[ROWS];
	bool		any = false;
	bool		good = true;
	HjgVector	vector;

	make_codes(&coded);
	vector = (HjgVector) {.column = {sizeof(int64_t), true, 0}, .values = coded.values, .isnull = isnull};
	hjg_vector_filter_set_ordinal(&leaf, comparisons[below(6)], any_constant(&coded));
	for (int i = 0; i < coded.nrows; i++)
		by_codes[i] = by_vector[i] = below(4) > 0;
	hjg_vector_filter_eval(&leaf, &vector, coded.nrows, by_vector);
	if (hjg_vector_filter_eval_codes(&leaf, &coded.codes, -1, 0, coded.nrows, by_codes))
		good = memcmp(by_codes, by_vector, coded.nrows) == 0;
	else
		good = leaf.kind != HJG_FILTER_RANGE;
	memset(by_vector, true, coded.nrows);
	hjg_vector_filter_eval(&leaf, &vector, coded.nrows, by_vector);
	for (int i = 0; i < coded.nrows; i++)
		any |= by_vector[i];
	good &= !(any && hjg_vector_filter_excludes(&leaf, -1, coded.least, coded.greatest));
	/* values that the ends alone exclude are known */
	if (leaf.kind == HJG_FILTER_RANGE && !leaf.negated && (leaf.high < coded.least || leaf.low > coded.greatest))
		good &= hjg_vector_filter_excludes(&leaf, -1, coded.least, coded.greatest);
	free(coded.memory);
	return good;
}

/* ---------- numerics ---------- */

/* Compare values in core's form, which have small scales. */
static int
compare_numerics(const void *left, const void *right)
{
	int64_t		values[2];
	int			scales[2];
	__int128	wide[2];

	if (!hjg_vector_numeric_decode(left, &values[0], &scales[0]) || !hjg_vector_numeric_decode(right, &values[1], &scales[1]))
		abort();
	for (int i = 0; i < 2; i++)
		wide[i] = values[i] * power(18 - scales[i]);
	return (wide[0] > wide[1]) - (wide[0] < wide[1]);
}

/* One column in both forms. */
typedef struct Numerics
{
	int			nrows;
	HjgNumericSpace spaces[ROWS];
	const void *pointers[ROWS];
	int64_t		numbers[ROWS];
	bool		isnull[ROWS];
	HjgVector	values;
	HjgVector	integers;
} Numerics;

static void
make_numerics(Numerics *numerics)
{
	const int	scale = below(10);
	const int	shift = 20 + below(44);
	const bool	has_nulls = below(3) == 0;

	numerics->nrows = 1 + below(ROWS);
	for (int i = 0; i < numerics->nrows; i++)
	{
		numerics->isnull[i] = has_nulls && below(4) == 0;
		numerics->numbers[i] = below(5) == 0 ? below(7) - 3 : (int64_t) (next_random() >> shift) - (int64_t) (next_random() >> shift);
		(void) hjg_vector_numeric_encode(numerics->numbers[i], scale, &numerics->spaces[i]);
		numerics->pointers[i] = has_nulls && numerics->isnull[i] ? NULL : &numerics->spaces[i];
	}
	numerics->values = (HjgVector) {.column = {-1, false, 0}, .values = numerics->pointers, .isnull = numerics->isnull, .has_nulls = has_nulls};
	numerics->integers = (HjgVector) {.column = {-1, false, 0}, .isnull = numerics->isnull, .has_nulls = has_nulls, .numbers = numerics->numbers, .scale = scale};
}

static bool
check_numbers(void)
{
	static Numerics numerics;
	static HjgNumericOrdinals expected_ordinals;
	static HjgNumericOrdinals ordinals;
	int64_t		expected[ROWS];
	int64_t		values[ROWS];
	bool		asked[ROWS];
	int			expected_scale;
	int			scale;
	int			start;
	bool		good = true;

	make_numerics(&numerics);
	if (hjg_vector_numeric_load(&numerics.values, numerics.nrows, expected, &expected_scale))
	{
		bool		any = false;

		good &= hjg_vector_numeric_load(&numerics.integers, numerics.nrows, values, &scale);
		for (int i = 0; i < numerics.nrows; i++)
		{
			any |= !hjg_vector_isnull(&numerics.values, i);
			good &= values[i] == expected[i];
		}
		good &= !any || scale == expected_scale;
	}
	for (int i = 0; i < numerics.nrows; i++)
	{
		HjgNumericSpace space;
		const unsigned char *numeric;

		asked[i] = below(4) > 0;
		if (hjg_vector_isnull(&numerics.values, i))
			continue;
		numeric = hjg_vector_numeric_at(&numerics.integers, i, &space);
		good &= hjg_vector_numeric_at(&numerics.values, i, &space) == &numerics.spaces[i];
		(void) hjg_vector_numeric_encode(numerics.numbers[i], numerics.integers.scale, &space);
		/* the header says how many bytes there are */
		good &= memcmp(numeric, &numerics.spaces[i], numeric[0] & 1 ? numeric[0] >> 1 : *(const uint32_t *) numeric >> 2) == 0;
	}
	start = below(3) == 0 ? -1 : below(19);
	expected_scale = hjg_vector_numeric_ordinals(&numerics.values, asked, numerics.nrows, start, &expected_ordinals);
	scale = hjg_vector_numeric_ordinals(&numerics.integers, asked, numerics.nrows, start, &ordinals);
	good &= scale >= start;
	for (int i = 0; i < numerics.nrows; i++)
		if (asked[i] && !hjg_vector_isnull(&numerics.values, i) && scale == expected_scale)
			good &= ordinals.odd[i] == expected_ordinals.odd[i] && (ordinals.odd[i] || ordinals.values[i] == expected_ordinals.values[i]);
	return good;
}

/* A condition on numerics gives the same rows in both forms, and on codes. */
static bool
check_numeric_leaf(void)
{
	static const HjgComparison comparisons[] = {HJG_COMPARE_EQ, HJG_COMPARE_NE, HJG_COMPARE_LT, HJG_COMPARE_LE, HJG_COMPARE_GT, HJG_COMPARE_GE};
	static Numerics numerics;
	HjgNumericSpace space;
	const void *constants[1] = {&space};
	int64_t		set[1];
	HjgFilter	inner = {.ordinal = HJG_ORDINAL_INT};
	HjgNumericConstants numeric = {.comparison = comparisons[below(6)], .nvalues = 1, .values = constants, .set = set, .scale = -1, .leaf = &inner};
	HjgFilter	leaf = {.kind = HJG_FILTER_NUMERIC, .compare = compare_numerics, .numeric = &numeric};
	bool		expected[ROWS];
	bool		by_value[ROWS];
	bool		by_integer[ROWS];
	bool		by_code[ROWS];
	bool		any = false;
	int64_t		least = INT64_MAX;
	int64_t		greatest = INT64_MIN;
	HjgCodes	codes;
	char		memory[ROWS * sizeof(int64_t)];
	bool		good;

	make_numerics(&numerics);
	(void) hjg_vector_numeric_encode(below(2) == 0 ? numerics.numbers[below(numerics.nrows)] : below(2000) - 1000,
									 below(2) == 0 ? numerics.integers.scale : below(12), &space);
	for (int i = 0; i < numerics.nrows; i++)
	{
		int			order;

		expected[i] = false;
		by_value[i] = by_integer[i] = by_code[i] = true;
		least = numerics.numbers[i] < least ? numerics.numbers[i] : least;
		greatest = numerics.numbers[i] > greatest ? numerics.numbers[i] : greatest;
		if (hjg_vector_isnull(&numerics.values, i))
			continue;
		order = compare_numerics(&numerics.spaces[i], &space);
		expected[i] = numeric.comparison == HJG_COMPARE_EQ ? order == 0 : numeric.comparison == HJG_COMPARE_NE ? order != 0 :
			numeric.comparison == HJG_COMPARE_LT ? order < 0 : numeric.comparison == HJG_COMPARE_LE ? order <= 0 :
			numeric.comparison == HJG_COMPARE_GT ? order > 0 : order >= 0;
		any |= expected[i];
	}
	hjg_vector_filter_eval(&leaf, &numerics.values, numerics.nrows, by_value);
	numeric.scale = below(2) == 0 ? -1 : numeric.scale;
	hjg_vector_filter_eval(&leaf, &numerics.integers, numerics.nrows, by_integer);
	good = memcmp(by_value, expected, numerics.nrows) == 0 && memcmp(by_integer, expected, numerics.nrows) == 0;
	good &= !(any && hjg_vector_filter_excludes(&leaf, numerics.integers.scale, least, greatest));
	codes = (HjgCodes) {.least = least, .width = hjg_vector_code_width(least, greatest), .codes = memory};
	hjg_vector_encode(numerics.numbers, numerics.nrows, least, codes.width, memory);
	if (!numerics.values.has_nulls && hjg_vector_filter_eval_codes(&leaf, &codes, numerics.integers.scale, 0, numerics.nrows, by_code))
		good &= memcmp(by_code, expected, numerics.nrows) == 0;
	return good;
}

int
main(int argc, char **argv)
{
	start_tests(argc, argv, 30000);
	repeat(check_widths, "a code has the bytes that the greatest distance takes, and no more");
	repeat(check_decode, "codes are decoded to the integers that they were made of");
	repeat(check_between, "a range of codes is that of the integers");
	repeat(check_leaf, "a condition on codes passes the rows that it passes on integers");
	repeat(check_numbers, "a column of integers of a scale is read as the numerics are");
	repeat(check_numeric_leaf, "a condition passes the same rows in each form of a numeric column");
	return end_tests();
}
