/*
 * vector_numeric.c
 *	  Converts PostgreSQL's numerics to scaled integers, and back.
 *
 * A numeric is stored after the header of any value of variable length: a word of sign, display scale and weight (of the
 * first digit, a power of 10000), or two words if these are large; then digits of base 10000, without zeros at either end.
 * The words need not be aligned. See numeric.c of PostgreSQL.
 *
 * Most values have few digits, and all values of a column the same scale. hjg_vector_numeric_load() has a fast path for
 * these.
 */
#include "vector/hjg_vector.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers of values are read as little-endian machines store them");

/* The first word. */
#define FORM_MASK 0xC000
#define FORM_NEGATIVE 0x4000	/* two words */
#define FORM_SHORT 0x8000		/* one word */
#define FORM_SPECIAL 0xC000
#define SHORT_NEGATIVE 0x2000
#define SHORT_SCALE_SHIFT 7
#define SHORT_SCALE_MASK 0x3F
#define LONG_SCALE_MASK 0x3FFF

#define DIGIT_PLACES 4			/* decimal digits in a digit of base 10000 */
#define INT64_PLACES 18			/* any integer of so many decimal digits fits in 64 bits */

_Static_assert(HJG_NUMERIC_MAX_SCALE <= SHORT_SCALE_MASK && HJG_NUMERIC_MAX_SCALE % DIGIT_PLACES == 0, "one word takes all scales");

static const int64_t powers_of_ten[INT64_PLACES + 1] = {
	1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000, 100000000000, 1000000000000,
	10000000000000, 100000000000000, 1000000000000000, 10000000000000000, 100000000000000000, 1000000000000000000
};

static inline unsigned
load_digits(const unsigned char *at)
{
	uint16_t	word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* ---------- scales ---------- */

bool
hjg_vector_numeric_widen(const int64_t *values, int nrows, int places, int64_t *results)
{
	const int64_t factor = places <= INT64_PLACES ? powers_of_ten[places] : 0;
	bool		fits = true;

	for (int i = 0; i < nrows; i++)
		fits &= (factor != 0 || values[i] == 0) && !__builtin_mul_overflow(values[i], factor, &results[i]);
	return fits;
}

bool
hjg_vector_numeric_widen_sum(__int128 value, int places, __int128 *result)
{
	*result = value;
	for (; places > 0 && *result != 0; places -= INT64_PLACES)
		if (__builtin_mul_overflow(*result, (__int128) powers_of_ten[places < INT64_PLACES ? places : INT64_PLACES], result))
			return false;
	return true;
}

/* ---------- single values ---------- */

/* The parts of a value; its digits are words. */
typedef struct Parts
{
	const unsigned char *digits;
	int			ndigits;
	int			weight;
	int			scale;
	bool		negative;
} Parts;

/* Find the parts of a value; false if it is not a plain finite number. */
static bool
take_apart(const unsigned char *numeric, Parts *parts)
{
	const unsigned char *at;
	uint32_t	header;
	int			nbytes;
	unsigned	word;

	if ((numeric[0] & 1) != 0)
	{
		if (numeric[0] == 1)
			return false;		/* stored out of line */
		at = numeric + 1;
		nbytes = (numeric[0] >> 1) - 1;
	}
	else
	{
		memcpy(&header, numeric, sizeof(header));
		if ((header & 3) != 0)
			return false;		/* compressed */
		at = numeric + sizeof(header);
		nbytes = (int) (header >> 2) - (int) sizeof(header);
	}
	word = load_digits(at);
	switch (word & FORM_MASK)
	{
		case FORM_SPECIAL:
			return false;
		case FORM_SHORT:
			parts->negative = (word & SHORT_NEGATIVE) != 0;
			parts->scale = word >> SHORT_SCALE_SHIFT & SHORT_SCALE_MASK;
			parts->weight = (int8_t) (word << 1) >> 1;
			parts->digits = at + 2;
			parts->ndigits = (nbytes - 2) / 2;
			return true;
		default:
			parts->negative = (word & FORM_NEGATIVE) != 0;
			parts->scale = word & LONG_SCALE_MASK;
			parts->weight = (int16_t) load_digits(at + 2);
			parts->digits = at + 4;
			parts->ndigits = (nbytes - 4) / 2;
			return true;
	}
}

typedef enum Fit
{
	FIT_EXACT,
	FIT_CUT,					/* there are digits after those of the integer */
	FIT_NOT						/* the integer takes more than 64 bits */
} Fit;

/* Compute a number times 10^scale as an integer, rounded towards zero. */
static Fit
scale_parts(const Parts *parts, int scale, int64_t *value)
{
	int64_t		result = 0;		/* the negative result, whose range is larger */
	int64_t		widened;
	Fit			fit = FIT_EXACT;
	int			places = scale + DIGIT_PLACES * (parts->weight + 1);	/* places of the integer that digits must still fill */

	for (int i = 0; i < parts->ndigits; i++)
	{
		const int	digit_places = places >= DIGIT_PLACES ? DIGIT_PLACES : places > 0 ? places : 0;
		const int	cut = (int) powers_of_ten[DIGIT_PLACES - digit_places];
		const int	digit = (int) load_digits(parts->digits + 2 * i);

		if (digit % cut != 0)
			fit = FIT_CUT;
		if (__builtin_mul_overflow(result, powers_of_ten[digit_places], &result) || __builtin_sub_overflow(result, digit / cut, &result))
			return FIT_NOT;
		places -= DIGIT_PLACES;
	}
	if (!hjg_vector_numeric_widen(&result, 1, places > 0 ? places : 0, &widened) || (!parts->negative && widened == INT64_MIN))
		return FIT_NOT;
	*value = parts->negative ? widened : -widened;
	return fit;
}

bool
hjg_vector_numeric_decode(const void *numeric, int64_t *value, int *scale)
{
	Parts		parts;

	if (!take_apart(numeric, &parts) || parts.scale > HJG_NUMERIC_MAX_SCALE)
		return false;
	*scale = parts.scale;
	return scale_parts(&parts, parts.scale, value) == FIT_EXACT;
}

/* ---------- vectors ---------- */

/*
 * Factors for the last digit, and for the integer, by the number of the integer's places after the last digit; negative if
 * the digit has places after those of the integer.
 */
typedef struct Step
{
	int64_t		before;			/* factor of the digits before the last one, */
	uint64_t	part;			/* plus the last digit times this, in units of 2^-40, */
	unsigned	cut;			/* which divides it by this number; */
	int64_t		behind;			/* factor of the sum */
} Step;

#define PART(cut) (((uint64_t) 1 << 40) / (cut) + 1)
#define WHOLE(power) {10000, (uint64_t) 1 << 40, 1, power}
#define MAX_PLACES (INT64_PLACES - DIGIT_PLACES)

static const Step steps[DIGIT_PLACES - 1 + MAX_PLACES + 1] = {
	{10, PART(1000), 1000, 1},
	{100, PART(100), 100, 1},
	{1000, PART(10), 10, 1},
	WHOLE(1), WHOLE(10), WHOLE(100), WHOLE(1000), WHOLE(10000), WHOLE(100000), WHOLE(1000000), WHOLE(10000000), WHOLE(100000000),
	WHOLE(1000000000), WHOLE(10000000000), WHOLE(100000000000), WHOLE(1000000000000), WHOLE(10000000000000), WHOLE(100000000000000)
};

/* Properties of the values of one word that the fast path reads. */
typedef struct Form
{
	unsigned	mask;			/* these bits of the word */
	unsigned	bits;			/* have these values */
	int			scale;			/* the integer is the value times 10^scale */
	int			max_weight;		/* up to this weight the integer has at most INT64_PLACES digits */
} Form;

static Form
make_form(int scale, unsigned mask)
{
	const unsigned bits = FORM_SHORT | scale << SHORT_SCALE_SHIFT;
	/* rounded down, for either sign */
	const int	max_digits = (INT64_PLACES + HJG_NUMERIC_MAX_SCALE - scale) / DIGIT_PLACES - HJG_NUMERIC_MAX_SCALE / DIGIT_PLACES;

	return (Form) {mask, bits & mask, scale, max_digits - 1};
}

/*
 * Read a value of one word and a few digits. Returns false if it has another form, or is not an integer times 10^-scale, or
 * might not fit.
 */
static inline bool
decode_short(const unsigned char *numeric, const Form *form, int64_t *value)
{
	const unsigned word = load_digits(numeric + 1);
	const int	weight = (int8_t) (word << 1) >> 1;
	const int	ndigits = ((int) numeric[0] - 6) >> 2;	/* the header is twice the value's bytes, header included, plus one */
	const int	step = form->scale + DIGIT_PLACES * (weight + 1 - ndigits) + DIGIT_PLACES - 1;
	const unsigned char *at = numeric + 3;
	const int64_t sign = -(int64_t) ((word & SHORT_NEGATIVE) != 0);
	int64_t		before = 0;
	uint64_t	last;
	uint64_t	part;

	/* with a longer header the word is the upper part of a size, which is zero */
	if ((word & form->mask) != form->bits || weight > form->max_weight)
		return false;
	switch (ndigits)
	{
		case 0:
			*value = 0;
			return true;
		case 1:
			break;
		case 2:
			before = load_digits(at);
			break;
		case 3:
			before = load_digits(at) * 10000 + load_digits(at + 2);
			break;
		case 4:
			before = load_digits(at) * INT64_C(100000000) + load_digits(at + 2) * 10000 + load_digits(at + 4);
			break;
		default:
			return false;
	}
	if (step < 0)
		return false;
	last = load_digits(at + 2 * (ndigits - 1));
	part = last * steps[step].part >> 40;
	*value = ((before * steps[step].before + (int64_t) part) * steps[step].behind ^ sign) - sign;
	return part * steps[step].cut == last;
}

/* Read a value that must have this scale. */
static __attribute__((noinline)) bool
decode_at(const unsigned char *numeric, int scale, int64_t *value)
{
	int			found;

	return hjg_vector_numeric_decode(numeric, value, &found) && found == scale;
}

bool
hjg_vector_numeric_load(const HjgVector *vector, int nrows, int64_t *values, int *scale)
{
	const unsigned char *const *numerics = vector->values;
	Form		form;
	int64_t		value;
	int			first = 0;

	if (vector->numbers != NULL)
	{
		*scale = vector->scale;
		for (int i = 0; i < nrows; i++)
			values[i] = hjg_vector_isnull(vector, i) ? 0 : vector->numbers[i];
		return true;
	}
	*scale = 0;
	while (first < nrows && hjg_vector_isnull(vector, first))
		values[first++] = 0;
	if (first == nrows)
		return true;
	if (!hjg_vector_numeric_decode(numerics[first], &value, scale))
		return false;
	form = make_form(*scale, FORM_MASK | SHORT_SCALE_MASK << SHORT_SCALE_SHIFT);
	for (int i = first; i < nrows; i++)
		if (hjg_vector_isnull(vector, i))
			values[i] = 0;
		else if (!decode_short(numerics[i], &form, &values[i]) &&
				 !decode_at(numerics[i], *scale, &values[i]))
			return false;
	return true;
}

/* ---------- order ---------- */

/* Ordinals of special values; those of numbers are between. */
#define ORDINAL_NAN INT64_MAX
#define ORDINAL_INFINITY (INT64_MAX - 1)
#define ORDINAL_MINUS_INFINITY INT64_MIN
#define SPECIAL_INFINITY 0xD000
#define SPECIAL_MINUS_INFINITY 0xF000

/* Is the value special? Sets its ordinal. */
static bool
find_special(const unsigned char *numeric, int64_t *ordinal)
{
	unsigned	word;

	if (numeric[0] == 1 || (numeric[0] & 3) == 2)
		return false;
	word = load_digits(numeric + ((numeric[0] & 1) != 0 ? 1 : sizeof(uint32_t)));
	*ordinal = word == SPECIAL_INFINITY ? ORDINAL_INFINITY : word == SPECIAL_MINUS_INFINITY ? ORDINAL_MINUS_INFINITY : ORDINAL_NAN;
	return (word & FORM_MASK) == FORM_SPECIAL;
}

/*
 * Find a value's ordinal at a scale; raises *wanted to the value's own scale if it is not an integer at this scale. Returns
 * false if it has none.
 */
static __attribute__((noinline)) bool
find_ordinal(const unsigned char *numeric, int scale, int64_t *ordinal, int *wanted)
{
	Parts		parts;

	*ordinal = 0;
	if (!take_apart(numeric, &parts))
		return find_special(numeric, ordinal);
	if (scale_parts(&parts, scale, ordinal) == FIT_EXACT)
		return *ordinal > ORDINAL_MINUS_INFINITY && *ordinal < ORDINAL_INFINITY;
	if (parts.scale > *wanted && parts.scale <= HJG_NUMERIC_MAX_SCALE)
		*wanted = parts.scale;
	return false;
}

/*
 * Do the work of hjg_vector_numeric_ordinals() at this scale; returns a greater scale if some values are not integers at this
 * one.
 */
static int
load_ordinals(const HjgVector *vector, const bool *asked, int nrows, int scale, HjgNumericOrdinals *to)
{
	const unsigned char *const *numerics = vector->values;
	const Form	form = make_form(scale, FORM_MASK);
	uint16_t	rows[HJG_MAX_VECTOR_ROWS];
	int			n = 0;
	int			wanted = scale;

	/* without a branch for each row: often few are asked for, by chance */
	for (int i = 0; i < nrows; i++)
	{
		rows[n] = (uint16_t) i;
		n += asked[i];
	}
	to->any_odd = false;
	memset(to->odd, false, (unsigned) nrows * sizeof(bool));
	if (n < nrows || vector->has_nulls)
		memset(to->values, 0, (unsigned) nrows * sizeof(int64_t));
	for (int k = 0; k < n; k++)
	{
		const int	i = rows[k];

		if (!hjg_vector_isnull(vector, i) && !decode_short(numerics[i], &form, &to->values[i]) &&
			!find_ordinal(numerics[i], scale, &to->values[i], &wanted))
			to->odd[i] = to->any_odd = true;
	}
	return wanted;
}

/* Find the ordinals of a vector of integers; returns their scale. */
static int
number_ordinals(const HjgVector *vector, int nrows, int scale, HjgNumericOrdinals *to)
{
	const int	places = scale > vector->scale ? scale - vector->scale : 0;

	to->any_odd = false;
	memset(to->odd, false, nrows * sizeof(bool));
	if (places == 0)
		memcpy(to->values, vector->numbers, nrows * sizeof(int64_t));
	else
		for (int i = 0; i < nrows; i++)
		{
			int64_t    *value = &to->values[i];

			to->odd[i] = !hjg_vector_isnull(vector, i) &&
				(!hjg_vector_numeric_widen(&vector->numbers[i], 1, places, value) || *value <= ORDINAL_MINUS_INFINITY || *value >= ORDINAL_INFINITY);
			to->any_odd |= to->odd[i];
		}
	return vector->scale + places;
}

/* Get the scale of the first row that has one. */
static int
first_scale(const HjgVector *vector, const bool *asked, int nrows)
{
	const unsigned char *const *numerics = vector->values;
	Parts		parts;

	for (int i = 0; i < nrows; i++)
		if (asked[i] && !hjg_vector_isnull(vector, i) && take_apart(numerics[i], &parts) && parts.scale <= HJG_NUMERIC_MAX_SCALE)
			return parts.scale;
	return 0;
}

int
hjg_vector_numeric_ordinals(const HjgVector *vector, const bool *asked, int nrows, int scale, HjgNumericOrdinals *to)
{
	int			wanted;

	if (vector->numbers != NULL)
		return number_ordinals(vector, nrows, scale, to);
	if (scale < 0)
		scale = first_scale(vector, asked, nrows);
	wanted = load_ordinals(vector, asked, nrows, scale, to);
	if (wanted > scale)
		(void) load_ordinals(vector, asked, nrows, wanted, to);
	return wanted;
}

bool
hjg_vector_numeric_bound(const void *numeric, int scale, int64_t *ordinal)
{
	Parts		parts;
	Fit			fit;

	if (!take_apart(numeric, &parts))
		return find_special(numeric, ordinal);
	fit = scale_parts(&parts, scale, ordinal);
	if (fit == FIT_CUT && parts.negative && *ordinal > ORDINAL_MINUS_INFINITY)
		--*ordinal;
	if (fit == FIT_NOT || *ordinal <= ORDINAL_MINUS_INFINITY || *ordinal >= ORDINAL_INFINITY)
	{
		*ordinal = parts.negative ? ORDINAL_MINUS_INFINITY : ORDINAL_INFINITY - 1;
		return false;
	}
	return fit == FIT_EXACT;
}

/* ---------- to numerics ---------- */

/* Take the last digit of this base away. Division by a constant is fastest, that of 128 bits slow. */
static inline int
take_digit(unsigned __int128 *left, int base)
{
	const uint64_t low = (uint64_t) *left;
	int			digit;

	if (*left != low)
	{
		digit = (int) (*left % base);
		*left /= base;
		return digit;
	}
	digit = (int) (base == 10000 ? low % 10000 : low % base);
	*left = base == 10000 ? low / 10000 : low / base;
	return digit;
}

HjgDigits
hjg_vector_numeric_digits(__int128 value, int scale)
{
	const int	odd_places = scale % DIGIT_PLACES;
	unsigned __int128 left = value < 0 ? -(unsigned __int128) value : (unsigned __int128) value;
	int			base = (int) powers_of_ten[odd_places != 0 ? odd_places : DIGIT_PLACES];
	HjgDigits	result = {.negative = value < 0, .weight = -((scale + DIGIT_PLACES - 1) / DIGIT_PLACES) - 1};

	/* last digit first */
	for (; left != 0; base = 10000)
	{
		const int	digit = take_digit(&left, base) * (10000 / base);

		if (result.ndigits > 0 || digit != 0)
			result.digits[result.ndigits++] = digit;
		result.weight++;
	}
	if (result.ndigits == 0)
		result.weight = 0;
	for (int i = 0; i < result.ndigits / 2; i++)
	{
		const uint16_t digit = result.digits[i];

		result.digits[i] = result.digits[result.ndigits - 1 - i];
		result.digits[result.ndigits - 1 - i] = digit;
	}
	return result;
}

int
hjg_vector_numeric_encode(__int128 value, int scale, void *numeric)
{
	const HjgDigits digits = hjg_vector_numeric_digits(value, scale);
	const uint16_t word = FORM_SHORT | (digits.negative ? SHORT_NEGATIVE : 0) | scale << SHORT_SCALE_SHIFT | (digits.weight & 0x7F);
	const uint32_t nbytes = sizeof(uint32_t) + sizeof(word) * (1 + digits.ndigits);
	const uint32_t header = nbytes << 2;

	memcpy(numeric, &header, sizeof(header));
	memcpy((char *) numeric + sizeof(header), &word, sizeof(word));
	memcpy((char *) numeric + sizeof(header) + sizeof(word), digits.digits, sizeof(word) * digits.ndigits);
	return (int) nbytes;
}

void
hjg_vector_numeric_write(const HjgVector *vector, const uint32_t *rows, int nrows, HjgNumericSpace *space, const void **values, int stride)
{
	for (int i = 0; i < nrows; i++)
	{
		const int	row = rows != NULL ? (int) rows[i] : i;

		if (hjg_vector_isnull(vector, row))
			continue;
		(void) hjg_vector_numeric_encode(vector->numbers[row], vector->scale, &space[i]);
		values[(size_t) i * stride] = &space[i];
	}
}

const void *
hjg_vector_numeric_at(const HjgVector *vector, int row, HjgNumericSpace *space)
{
	if (vector->numbers == NULL)
		return ((const void *const *) vector->values)[row];
	(void) hjg_vector_numeric_encode(vector->numbers[row], vector->scale, space);
	return space;
}
