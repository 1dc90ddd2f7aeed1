/*
 * test_numeric.c
 *	  Numerics as scaled integers (vector_numeric.c), against an independent encoder and 128-bit
 *	  arithmetic.
 *
 *	  test_numeric [SEED [ROUNDS]]
 *
 * Each value has a memory block of exactly its size, so that the address sanitizer notices reads beside
 * it.
 */
#include "hjg_test_vector.h"

/* ---------- numerics ---------- */

typedef enum Storage
{
	SHORT_HEADER,				/* of one byte */
	LONG_HEADER,				/* of four */
	LONG_FORM = 2				/* flag: two words before the digits */
} Storage;

static unsigned char *
put_header(int nbytes, Storage storage, unsigned char **at)
{
	const bool	is_short = (storage & LONG_HEADER) == 0;
	const int	total = nbytes + (is_short ? 1 : 4);
	unsigned char *block = malloc(total);
	uint32_t	header = (uint32_t) total << 2;

	if (is_short)
		block[0] = (unsigned char) (total << 1 | 1);
	else
		memcpy(block, &header, sizeof(header));
	*at = block + (is_short ? 1 : 4);
	return block;
}

/* Make the numeric with these words. */
static unsigned char *
make_words(const uint16_t *words, int nwords, Storage storage)
{
	unsigned char *at;
	unsigned char *block = put_header(2 * nwords, storage, &at);

	memcpy(at, words, 2 * nwords);
	return block;
}

/* Make value / 10^scale, times 10000^shift, digit by digit. */
static unsigned char *
make_numeric(__int128 value, int scale, int shift, Storage storage)
{
	uint16_t	words[48];
	int			digits[64] = {0};	/* decimal digits, beginning with the last place of a digit of base
									 * 10000 behind the point */
	const int	behind = (scale + 3) / 4;	/* digits of base 10000 behind the point */
	unsigned __int128 left = value < 0 ? -(unsigned __int128) value : (unsigned __int128) value;
	int			nwords = 0;
	int			first = 15;
	int			last = 0;
	int			weight;

	for (int i = 4 * behind - scale; left > 0; i++, left /= 10)
		digits[i] = (int) (left % 10);
#define DIGIT(d) (digits[4 * (d)] + 10 * digits[4 * (d) + 1] + 100 * digits[4 * (d) + 2] + 1000 * digits[4 * (d) + 3])
	while (first >= 0 && DIGIT(first) == 0)
		first--;
	while (last <= first && DIGIT(last) == 0)
		last++;
	weight = first < 0 ? 0 : first - behind + shift;
	if ((storage & LONG_FORM) != 0 || scale > 63 || weight < -64 || weight > 63)
	{
		words[nwords++] = (value < 0 ? 0x4000 : 0) | scale;
		words[nwords++] = (uint16_t) weight;
	}
	else
		words[nwords++] = 0x8000 | (value < 0 ? 0x2000 : 0) | scale << 7 | (weight & 0x7F);
	for (int d = first; d >= last; d--)
		words[nwords++] = DIGIT(d);
	return make_words(words, nwords, storage);
}

static unsigned char *
make_special(unsigned word)
{
	uint16_t	words[2] = {word, 0};

	/* NaNs of old servers have two words */
	return make_words(words, word == 0xC000 && below(2) == 0 ? 2 : 1, below(2));
}

/* Make the header of a value that is stored out of line, or compressed. */
static unsigned char *
make_apart(void)
{
	unsigned char *block = malloc(18);

	/* these words would be those of NaNs, or of numbers */
	memset(block, below(2) == 0 ? 0xC0 : 0x80, 18);
	block[0] = 1;
	if (below(2) == 0)
	{
		block[0] = 18 << 2 | 2;
		block[1] = block[2] = block[3] = 0;
	}
	return block;
}

/* Draw a value with any number of digits, often around powers of ten and of two. */
static __int128
random_value(int max_digits)
{
	const __int128 bound = power(1 + below(max_digits));
	__int128	value = ((__int128) next_random() << 62 ^ next_random()) % bound;

	switch (below(8))
	{
		case 0:
			value = bound - 1;
			break;
		case 1:
			value = bound / 10;
			break;
		case 2:
			value = power(below(max_digits)) * below(10);
			break;
		case 3:
			value = ((__int128) 1 << 63) + 3 - below(7);
			break;
		case 5:
			value = value % 10000 * power(4 * below(max_digits / 4)) + below(3);
			break;
		case 4:
			value -= value % power(4 * below(4));
			break;
		default:
			break;
	}
	return below(2) == 0 ? value : -value;
}

static bool
fits(__int128 value)
{
	return value >= INT64_MIN && value <= INT64_MAX;
}

/* ---------- claims ---------- */

#define ROWS 20

typedef struct Column
{
	HjgVector	vector;
	unsigned char *values[ROWS];
	bool		isnull[ROWS];
	int			nrows;
} Column;

static void
begin_column(Column *column)
{
	column->nrows = 1 + below(ROWS);
	column->vector = (HjgVector) {.column = {-1, false, 0}, .values = column->values, .isnull = column->isnull, .has_nulls = below(3) == 0};
	for (int i = 0; i < column->nrows; i++)
	{
		column->values[i] = NULL;
		column->isnull[i] = !column->vector.has_nulls || below(3) == 0;	/* ignored in a vector without
																		 * NULLs */
	}
}

static void
end_column(Column *column)
{
	for (int i = 0; i < column->nrows; i++)
		free(column->values[i]);
}

/* Test columns of one scale, sometimes with a value that does not fit. */
static bool
check_load(void)
{
	const int	scale = below(2) == 0 ? below(8) : below(HJG_NUMERIC_MAX_SCALE + 4);
	const int	odd = below(4) == 0 ? below(ROWS) : ROWS;
	const bool	small = below(2) == 0;
	__int128	expected[ROWS];
	int64_t		values[ROWS];
	bool		all_fit = true;
	bool		any = false;
	bool		good = true;
	int			found;
	bool		loaded;
	Column		column;

	begin_column(&column);
	for (int i = 0; i < column.nrows; i++)
	{
		expected[i] = 0;
		if (hjg_vector_isnull(&column.vector, i))
			continue;
		any = true;
		if (i == odd && below(3) == 0)
		{
			column.values[i] = below(2) == 0 ? make_special(0xC000 | below(4) << 12) : make_apart();
			all_fit = false;
		}
		else
		{
			int			own = i == odd ? below(40) : scale;

			expected[i] = random_value(small ? 16 : 20);
			if (!small && below(20) == 0)
				expected[i] = random_value(37);
			column.values[i] = make_numeric(expected[i], own, 0, below(4));
			all_fit &= own == scale && own <= HJG_NUMERIC_MAX_SCALE && fits(expected[i]);
		}
	}
	/* the scale is that of the first value; if that is the odd one, all others are odd */
	loaded = hjg_vector_numeric_load(&column.vector, column.nrows, values, &found);
	if (odd >= column.nrows || !any || all_fit)
	{
		good = loaded == all_fit && (!loaded || found == (any ? scale : 0));
		for (int i = 0; loaded && i < column.nrows; i++)
			good &= values[i] == expected[i];
	}
	else if (loaded)
	{
		/* the odd value is alone */
		for (int i = 0; i < column.nrows; i++)
			good &= values[i] == expected[i] && (i == odd || hjg_vector_isnull(&column.vector, i));
	}
	end_column(&column);
	return good;
}

/* A value in the order of numerics: a class, and for numbers value / 10^scale. */
typedef struct Known
{
	int			class;			/* -1: -Infinity; 0: a number; 1: Infinity; 2: NaN; 3: out of line */
	__int128	value;
	int			scale;
} Known;

/* Compare numbers of up to 19 digits and scales of up to 18. */
static int
compare_known(const Known *a, const Known *b)
{
	__int128	x = a->value * power(18 - a->scale);
	__int128	y = b->value * power(18 - b->scale);

	if (a->class != b->class || a->class != 0)
		return (a->class > b->class) - (a->class < b->class);
	return (x > y) - (x < y);
}

static unsigned char *
make_known(Known *known, int max_scale)
{
	*known = (Known) {.scale = below(max_scale + 1), .value = random_value(19)};
	switch (below(24))
	{
		case 0:
			known->class = -1;
			return make_special(0xF000);
		case 1:
			known->class = 1;
			return make_special(0xD000);
		case 2:
			known->class = 2;
			return make_special(0xC000);
		case 3:
			known->class = 3;
			return make_apart();
		default:
			return make_numeric(known->value, known->scale, 0, below(4));
	}
}

/* True if a number has an ordinal at a scale: it is an integer there, and within bounds. */
static bool
has_ordinal(const Known *known, int scale)
{
	__int128	value = known->value;

	if (known->class != 0)
		return known->class != 3;
	if (scale < known->scale)
	{
		if (value % power(known->scale - scale) != 0)
			return false;
		value /= power(known->scale - scale);
	}
	else
		value *= power(scale - known->scale);
	return value > INT64_MIN && value < INT64_MAX - 1;
}

/*
 * Test columns of mixed scales and all kinds of values: their ordinals have their order, and so do
 * constants.
 */
static bool
check_ordinals(void)
{
	const int	max_scale = below(2) == 0 ? 4 : 18;
	const int	start = below(3) == 0 ? -1 : below(max_scale + 1);
	static HjgNumericOrdinals ordinals;
	Known		known[ROWS];
	bool		asked[ROWS];
	bool		good = true;
	bool		any_odd = false;
	int			greatest = 0;
	int			scale;
	Column		column;

	begin_column(&column);
	for (int i = 0; i < column.nrows; i++)
	{
		asked[i] = below(4) > 0;
		if (hjg_vector_isnull(&column.vector, i))
			continue;
		column.values[i] = make_known(&known[i], max_scale);
		if (asked[i] && known[i].class == 0 && known[i].scale > greatest)
			greatest = known[i].scale;
	}
	scale = hjg_vector_numeric_ordinals(&column.vector, asked, column.nrows, start, &ordinals);
	good = scale >= start && scale >= 0 && (scale == start || scale <= greatest);
	for (int i = 0; i < column.nrows; i++)
	{
		const bool	wanted = asked[i] && !hjg_vector_isnull(&column.vector, i);
		Known		constant;
		unsigned char *numeric;
		int64_t		bound;
		bool		exact;
		int			order;

		good &= ordinals.odd[i] == (wanted && !has_ordinal(&known[i], scale));
		any_odd |= ordinals.odd[i];
		if (!wanted || ordinals.odd[i])
			continue;
		for (int j = 0; j < i; j++)
			if (asked[j] && !ordinals.odd[j] && !hjg_vector_isnull(&column.vector, j))
				good &= compare_known(&known[i], &known[j]) ==
					(ordinals.values[i] > ordinals.values[j]) - (ordinals.values[i] < ordinals.values[j]);
		numeric = make_known(&constant, 18);
		if (constant.class != 3)
		{
			exact = hjg_vector_numeric_bound(numeric, scale, &bound);
			order = compare_known(&known[i], &constant);
			good &= exact == has_ordinal(&constant, scale);
			/* an inexact constant lies above its bound, and below the next ordinal */
			good &= exact ? order == (ordinals.values[i] > bound) - (ordinals.values[i] < bound) :
				order == (ordinals.values[i] > bound ? 1 : -1);
		}
		free(numeric);
	}
	good &= ordinals.any_odd == any_odd;
	end_column(&column);
	return good;
}

/* Test values with far too many digits, before or behind the point. */
static bool
check_extremes(void)
{
	const int	shift = (below(2) == 0 ? 1 : -1) * (10 + below(below(2) == 0 ? 50 : 8000));
	const bool	negative = below(2) == 0;
	const __int128 value = (negative ? -1 : 1) * (1 + (__int128) (next_random() % 1000000));
	unsigned char *numeric = make_numeric(value, shift > 0 ? below(5) : 40 + below(60), shift, below(4));
	int64_t		bound;
	int64_t		decoded;
	int			scale;
	bool		good = !hjg_vector_numeric_decode(numeric, &decoded, &scale);

	good &= !hjg_vector_numeric_bound(numeric, below(19), &bound);
	good &= bound == (shift > 0 ? (negative ? INT64_MIN : INT64_MAX - 2) : negative ? -1 : 0);
	free(numeric);
	return good;
}

/*
 * Test values around the least and the greatest integer, with and without digits behind the point, among
 * ordinals of scale 0.
 */
static bool
check_ends(void)
{
	const __int128 end = below(2) == 0 ? INT64_MIN : INT64_MAX;
	const __int128 value = 10 * (end + 3 - below(7)) + (below(2) == 0 ? below(10) : -below(10));
	const __int128 floor = value / 10 - (value % 10 < 0);
	unsigned char *numeric = make_numeric(value, 1, 0, below(4));
	const int64_t wanted = floor <= INT64_MIN ? INT64_MIN : floor >= INT64_MAX - 1 ? INT64_MAX - 2 : (int64_t) floor;
	int64_t		bound;
	const bool	exact = hjg_vector_numeric_bound(numeric, 0, &bound);
	bool		good = exact == (value % 10 == 0 && floor > INT64_MIN && floor < INT64_MAX - 1);

	good &= bound == wanted;
	free(numeric);
	return good;
}

/* Test numerics whose scale is less than that of their digits, or greater than any that fits. */
static bool
check_scales(void)
{
	const uint16_t hidden[] = {0x8000 | below(4) << 7 | 0x7F, 1 + below(9)};	/* 0.000d */
	const uint16_t padded[] = {64 + below(1000), 0, 1 + below(9999)};	/* dddd.000... */
	const bool	all = true;
	unsigned char *values[] = {make_words(hidden, 2, below(2)), make_words(padded, 3, below(2)), make_numeric(1 + 10 * below(100), 37 + below(3), 0, below(4))};
	static HjgNumericOrdinals ordinals;
	bool		good = true;
	int64_t		value;
	int			scale;

	for (int i = 0; i < 3; i++)
	{
		const HjgVector vector = {.column = {-1, false, 0}, .values = &values[i]};

		good &= !hjg_vector_numeric_decode(values[i], &value, &scale) && !hjg_vector_numeric_load(&vector, 1, &value, &scale);
		scale = hjg_vector_numeric_ordinals(&vector, &all, 1, -1, &ordinals);
		good &= scale <= HJG_NUMERIC_MAX_SCALE && ordinals.odd[0] == (i != 1);
		free(values[i]);
	}
	return good;
}

static bool
check_encode(void)
{
	const int	scale = below(HJG_NUMERIC_MAX_SCALE + 1);
	const __int128 value = random_value(38);
	unsigned char *wanted = make_numeric(value, scale, 0, LONG_HEADER);
	char		made[HJG_NUMERIC_MAX_BYTES];
	const int	nbytes = hjg_vector_numeric_encode(value, scale, made);
	uint32_t	header;
	bool		good;

	memcpy(&header, wanted, sizeof(header));
	good = nbytes == (int) (header >> 2) && memcmp(made, wanted, nbytes) == 0;
	free(wanted);
	return good;
}

static bool
check_widen(void)
{
	const __int128 value = random_value(20);
	const int	places = below(19);
	const __int128 product = value * power(places);
	const int64_t given[3] = {0, (int64_t) value, 0};
	const int64_t few[2] = {0, 1 + below(9)};
	int64_t		narrow[3];
	__int128	wide;
	__int128	back;
	bool		good = true;

	if (fits(value))
		good &= hjg_vector_numeric_widen(given, 3, places, narrow) == fits(product) &&
			(!fits(product) || (narrow[0] == 0 && narrow[1] == product && narrow[2] == 0));
	good &= hjg_vector_numeric_widen_sum(value, places, &wide) && wide == product;
	/* in two steps, with 38 digits at most */
	if (!hjg_vector_numeric_widen_sum(wide, 18, &back))
		good &= product > power(38) / power(18) || product < -(power(38) / power(18));
	else
		good &= back / power(18) == product && back % power(18) == 0;
	good &= hjg_vector_numeric_widen(few, 1, 19 + below(30), narrow) && narrow[0] == 0;
	return good && !hjg_vector_numeric_widen(few, 2, 19 + below(30), narrow);
}

int
main(int argc, char **argv)
{
	start_tests(argc, argv, 100000);
	repeat(check_load, "a column of one scale is read as integers, or not at all");
	repeat(check_ordinals, "ordinals are in the order of the values, and of constants among them");
	repeat(check_extremes, "values of thousands of digits do not fit, and have bounds");
	repeat(check_ends, "values at the ends of 64 bits have bounds, too");
	repeat(check_scales, "scales that hide digits or have none behind them do not fit");
	repeat(check_encode, "a numeric is written as core would");
	repeat(check_widen, "an integer takes a greater scale, or is told not to fit");
	return end_tests();
}
