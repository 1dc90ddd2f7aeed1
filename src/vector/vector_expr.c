/*
 * vector_expr.c
 *	  Arithmetic of integers, numerics and floats, fields and units of dates, and CASE, on columns, for a vector of rows at a time.
 *
 * Each value is computed as a 64-bit integer, whatever its type, so widening does nothing. After each operation it is
 * compared with the bounds of its type, as in core. The loop has no branch for that; the result is tested once after it. If
 * several operations fail, the reported one need not be the first that core would meet. Arithmetic is strict; the value of a
 * NULL is 0.
 *
 * Numerics are integers with one scale a vector (vector_numeric.c); results have the scales that core gives them. If one does
 * not fit, core must evaluate the vector's rows, and may or may not raise an error. The branches of CASE may have different
 * scales; then each value has its own, and only whoever adds values up takes them so.
 *
 * Floats are their bits (vector_float.c).
 *
 * A branch is computed if a row takes it, for all rows of the vector. If one of them fails, that row may have taken another
 * branch, so core must evaluate the rows.
 *
 * An expression is a list of terms, in which arguments come before the terms that use them.
 */
#include "vector/hjg_vector_term.h"

/* ---------- leaves ---------- */

static void
load_nulls(HjgVectorTerm *term, const HjgVector *vector, int nrows)
{
	hjg_vector_term_set_nulls(term, vector->has_nulls);
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
			/* values of other columns are only tested for NULL */
			memset(space, 0, nrows * sizeof(int64_t));
			return;
	}
	if (vector->has_nulls)
		hjg_vector_term_clear_nulls(term, nrows);
}
#undef LOAD

/* Read a column of numerics; returns 0, or HJG_LEFT_TO_CORE if a value does not fit. */
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
	return hjg_vector_numeric_load(vector, nrows, term->space, &term->numbers.scale) ? 0 : HJG_LEFT_TO_CORE;
}

void
hjg_vector_term_set_constant(HjgVectorTerm *term, int64_t value, int scale, bool isnull)
{
	for (int i = 0; i < HJG_VECTOR_ROWS; i++)
		term->space[i] = isnull ? 0 : value;
	memset(term->null_space, isnull, HJG_VECTOR_ROWS * sizeof(bool));
	hjg_vector_term_set_nulls(term, isnull);
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
		default:
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
		default:
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

/*
 * Compute a term; returns 0, or the width of a result that does not fit. Not inlined, because nested terms would take its memory
 * once a level.
 */
static __attribute__((noinline)) int
apply_term(HjgVectorTerm *term, const HjgNumbers *left, const HjgNumbers *right, int nrows)
{
	const int	width = term->width;
	int64_t		wrapped[HJG_VECTOR_ROWS];

	hjg_vector_term_unite_nulls(term, left, right, nrows);
	compute_integers(term->function, left->values, right->values, nrows, term->space);
	if (width == 8 || width == HJG_NUMERIC_WIDTH)
	{
		mark_wrapped(term->function, left->values, right->values, nrows, term->space, wrapped);
		if (any_wrapped(wrapped, term->numbers.isnull, nrows))
			return width;
	}
	if (term->numbers.isnull != NULL)
		hjg_vector_term_clear_nulls(term, nrows);
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
static __attribute__((noinline)) int
apply_numeric(HjgVectorTerm *term, HjgNumbers left, HjgNumbers right, int nrows)
{
	const bool	product = term->function == HJG_ARITHMETIC_TIMES;
	const int	scale = product ? left.scale + right.scale : left.scale > right.scale ? left.scale : right.scale;
	int64_t		space[HJG_VECTOR_ROWS];

	if (left.scales != NULL || right.scales != NULL || scale > HJG_NUMERIC_MAX_SCALE ||
		(!product && left.scale < scale && !widen_numbers(&left, scale, nrows, space)) ||
		(!product && right.scale < scale && !widen_numbers(&right, scale, nrows, space)))
		return HJG_LEFT_TO_CORE;
	term->numbers.scale = scale;
	return apply_term(term, &left, &right, nrows);
}

/* ---------- fields of dates ---------- */

/* Days of the Gregorian calendar's period of 400 years. */
#define PERIOD_DAYS 146097

/* Begin of the period, on March 1st, that is this number of periods before the one of 2000-01-01: before the first date. */
#define PERIODS_BEFORE 20
#define DAYS_BEFORE (PERIODS_BEFORE * PERIOD_DAYS + 730425)

/*
 * Compute a field of a date, in days since 2000-01-01. Years begin in March here, so that a leap day is the last day of one
 * (Neri and Schneider, Euclidean affine functions and their application to calendar algorithms, 2022). There is no year 0
 * between 1 BC, which is -1, and 1. A week of ISO 8601 is one of the year of its Thursday. Periods begin on a Wednesday.
 */
static inline __attribute__((always_inline)) int64_t
field_of(HjgDateField field, int64_t date)
{
	const bool	of_week = field == HJG_DATE_WEEK || field == HJG_DATE_ISOYEAR;
	const uint32_t day = (uint32_t) date + DAYS_BEFORE;
	const uint32_t weekday = (day + 2) % 7; /* from Monday, 0 */
	const uint32_t days = of_week ? day + 3 - weekday : day;
	const uint32_t in_period = days % PERIOD_DAYS;
	const uint32_t year = (in_period - in_period / 1460 + in_period / 36524 - in_period / (PERIOD_DAYS - 1)) / 365;
	const uint32_t in_year = in_period - (365 * year + year / 4 - year / 100);
	const uint32_t month = (5 * in_year + 2) / 153;	/* from March, 0 */
	const bool	next_year = month >= 10;
	const int32_t full_year = (int32_t) (year + 400 * (days / PERIOD_DAYS) + next_year) - 400 * PERIODS_BEFORE;
	const uint32_t full_month = next_year ? month - 9 : month + 3;
	const bool	leap = year % 4 == 0 && (year % 100 != 0 || year == 0);
	const uint32_t full_day = next_year ? in_year - 306 : in_year + 59 + leap;	/* from January 1st, 0 */

	switch (field)
	{
		case HJG_DATE_YEAR:
		case HJG_DATE_ISOYEAR:
			return full_year > 0 ? full_year : full_year - 1;
		case HJG_DATE_QUARTER:
			return (full_month + 2) / 3;
		case HJG_DATE_MONTH:
			return full_month;
		case HJG_DATE_DAY:
			return in_year - (153 * month + 2) / 5 + 1;
		case HJG_DATE_DOY:
			return full_day + 1;
		case HJG_DATE_DOW:
			return (weekday + 1) % 7;
		case HJG_DATE_ISODOW:
			return weekday + 1;
		case HJG_DATE_WEEK:
			return full_day / 7 + 1;
		case HJG_DATE_DAY_OF_QUARTER:
			return (full_month <= 3 ? full_day : in_year - (full_month <= 6 ? 31 : full_month <= 9 ? 122 : 214)) + 1;
		default:
			return 1;
	}
}

#define COMPUTE(field) \
	case field: \
		for (int i = 0; i < nrows; i++) \
			result[i] = field_of(field, dates[i]); \
		break

/* Compute a field of dates, by a loop for each field. */
static void
compute_field(HjgDateField field, const int64_t *dates, int nrows, int64_t *result)
{
	switch (field)
	{
			COMPUTE(HJG_DATE_YEAR);
			COMPUTE(HJG_DATE_QUARTER);
			COMPUTE(HJG_DATE_MONTH);
			COMPUTE(HJG_DATE_DAY);
			COMPUTE(HJG_DATE_DOY);
			COMPUTE(HJG_DATE_DOW);
			COMPUTE(HJG_DATE_ISODOW);
			COMPUTE(HJG_DATE_WEEK);
			COMPUTE(HJG_DATE_ISOYEAR);
			COMPUTE(HJG_DATE_DAY_OF_QUARTER);
			COMPUTE(HJG_DATE_DAY_OF_DAY);
	}
}
#undef COMPUTE

/* Compute a term DATE_FIELD; returns 0, or HJG_LEFT_TO_CORE if a date is infinite, or has no timestamp. */
static int
apply_date_field(HjgVectorTerm *term, const HjgNumbers *dates, int nrows)
{
	bool		odd = false;

	for (int i = 0; i < nrows; i++)
		odd |= dates->values[i] >= HJG_DATE_END || dates->values[i] == INT32_MIN;
	if (odd)
		return HJG_LEFT_TO_CORE;
	hjg_vector_term_set_nulls(term, dates->isnull != NULL);
	compute_field(term->field, dates->values, nrows, term->space);
	if (dates->isnull != NULL)
	{
		memcpy(term->null_space, dates->isnull, nrows * sizeof(bool));
		hjg_vector_term_clear_nulls(term, nrows);
	}
	term->numbers.scale = 0;
	return 0;
}

/* Compute a term DATE_OF: infinite timestamps are on infinite dates. */
static void
apply_date_of(HjgVectorTerm *term, const HjgNumbers *timestamps, int nrows)
{
	term->numbers = *timestamps;
	term->numbers.values = term->space;
	for (int i = 0; i < nrows; i++)
	{
		const int64_t timestamp = timestamps->values[i];
		const int64_t day = timestamp / HJG_DAY_USECS - (timestamp % HJG_DAY_USECS < 0);

		term->space[i] = timestamp == INT64_MIN ? INT32_MIN : timestamp == INT64_MAX ? INT32_MAX : day;
	}
}

/* Compute a term DATE_TRUNC; returns 0, or HJG_LEFT_TO_CORE if a date, or the first day of its unit, has no timestamp. */
static int
apply_date_trunc(HjgVectorTerm *term, const HjgNumbers *dates, int nrows)
{
	int64_t	   *const space = term->space;
	bool		odd = false;

	compute_field(term->field, dates->values, nrows, space);
	for (int i = 0; i < nrows; i++)
	{
		const int64_t date = dates->values[i];
		const int64_t first = (date - space[i] + 1) * HJG_DAY_USECS;
		const bool	infinite = date == INT32_MIN || date == INT32_MAX;

		odd |= !infinite && (date >= HJG_DATE_END || first < HJG_TIMESTAMP_FIRST);
		space[i] = !infinite ? first : date < 0 ? INT64_MIN : INT64_MAX;
	}
	hjg_vector_term_set_nulls(term, dates->isnull != NULL);
	if (dates->isnull != NULL)
	{
		memcpy(term->null_space, dates->isnull, nrows * sizeof(bool));
		hjg_vector_term_clear_nulls(term, nrows);
	}
	term->numbers.scale = 0;
	return odd ? HJG_LEFT_TO_CORE : 0;
}

/* ---------- CASE ---------- */

/* Rows of a vector, on their way through the branches. */
typedef struct BranchRows
{
	bool		asking[HJG_VECTOR_ROWS];	/* no branch so far takes the row */
	bool		taken[HJG_VECTOR_ROWS];		/* this branch does */
	int			scale;			/* of the values so far; -1: there are none; */
	bool		scales_differ;
} BranchRows;

static bool
any_row(const bool *rows, int nrows)
{
	return memchr(rows, 1, nrows * sizeof(bool)) != NULL;
}

/* Take the values of a branch for the rows that take it. */
static void
take_values(HjgVectorTerm *term, const HjgNumbers *numbers, BranchRows *rows, int nrows)
{
	const bool *const taken = rows->taken;
	int64_t	   *const space = term->space;

	for (int i = 0; i < nrows; i++)
		space[i] = taken[i] ? numbers->values[i] : space[i];
	for (int i = 0; i < nrows; i++)
		term->null_space[i] &= !taken[i] || (numbers->isnull != NULL && numbers->isnull[i]);
	if (term->width != HJG_NUMERIC_WIDTH)
		return;
	for (int i = 0; i < nrows; i++)
		if (taken[i])
			term->scale_space[i] = numbers->scales != NULL ? numbers->scales[i] : (uint8_t) numbers->scale;
	rows->scales_differ |= numbers->scales != NULL || (rows->scale >= 0 && rows->scale != numbers->scale);
	rows->scale = numbers->scale;
}

static int	eval_term(HjgVectorTerm *terms, int t, const HjgVector *vectors, int nrows);

/* Evaluate a branch for the rows that ask. Returns 0, or HJG_LEFT_TO_CORE. */
static int
eval_branch(HjgVectorTerm *terms, HjgVectorTerm *term, const HjgBranch *branch, const HjgVector *vectors, int nrows, BranchRows *rows)
{
	const HjgNumbers *numbers = branch->result >= 0 ? &terms[branch->result].numbers : NULL;

	memcpy(rows->taken, rows->asking, nrows * sizeof(bool));
	if (branch->condition != NULL)
		hjg_vector_filter_eval(branch->condition, vectors, nrows, rows->taken);
	if (!any_row(rows->taken, nrows))
		return 0;
	if (numbers != NULL && eval_term(terms, branch->result, vectors, nrows) != 0)
		return HJG_LEFT_TO_CORE;
	if (term->kind == HJG_TERM_COALESCE && numbers != NULL && numbers->isnull != NULL)
		for (int i = 0; i < nrows; i++)
			rows->taken[i] &= !numbers->isnull[i];
	if (numbers != NULL)
		take_values(term, numbers, rows, nrows);
	for (int i = 0; i < nrows; i++)
		rows->asking[i] &= !rows->taken[i];
	return 0;
}

/* Compute a term CASE or COALESCE; returns 0, or HJG_LEFT_TO_CORE. */
static __attribute__((noinline)) int
eval_branches(HjgVectorTerm *terms, HjgVectorTerm *term, const HjgVector *vectors, int nrows)
{
	BranchRows	rows = {.scale = -1};

	memset(rows.asking, true, nrows * sizeof(bool));
	memset(term->space, 0, nrows * sizeof(int64_t));
	memset(term->null_space, true, nrows * sizeof(bool));
	for (int b = 0; b < term->nbranches && any_row(rows.asking, nrows); b++)
		if (eval_branch(terms, term, &term->branches[b], vectors, nrows, &rows) != 0)
			return HJG_LEFT_TO_CORE;
	hjg_vector_term_set_nulls(term, any_row(term->null_space, nrows));
	term->numbers.scale = rows.scale >= 0 ? rows.scale : 0;
	term->numbers.scales = rows.scales_differ ? term->scale_space : NULL;
	return 0;
}

/* ---------- expressions ---------- */

/* Compute an ARITHMETIC, or a term of a date, after its arguments. */
static int
eval_function(HjgVectorTerm *terms, HjgVectorTerm *term, const HjgVector *vectors, int nrows)
{
	const int	failed = eval_term(terms, term->left, vectors, nrows);
	const int	right_failed = failed != 0 || term->kind != HJG_TERM_ARITHMETIC || term->right == term->left ? 0 :
		eval_term(terms, term->right, vectors, nrows);

	if (failed != 0 || right_failed != 0)
		return failed != 0 ? failed : right_failed;
	switch (term->kind)
	{
		case HJG_TERM_DATE_OF:
			apply_date_of(term, &terms[term->left].numbers, nrows);
			return 0;
		case HJG_TERM_DATE_FIELD:
			return apply_date_field(term, &terms[term->left].numbers, nrows);
		case HJG_TERM_DATE_TRUNC:
			return apply_date_trunc(term, &terms[term->left].numbers, nrows);
		default:
			break;
	}
	if (term->width == HJG_FLOAT_WIDTH)
		return hjg_vector_apply_floats(term, &terms[term->left].numbers, &terms[term->right].numbers, nrows);
	return term->width == HJG_NUMERIC_WIDTH ? apply_numeric(term, terms[term->left].numbers, terms[term->right].numbers, nrows) :
		apply_term(term, &terms[term->left].numbers, &terms[term->right].numbers, nrows);
}

/* Compute a term, and those that it needs. Returns the same as hjg_vector_terms_eval(). */
static int
eval_term(HjgVectorTerm *terms, int t, const HjgVector *vectors, int nrows)
{
	HjgVectorTerm *term = &terms[t];

	switch (term->kind)
	{
		case HJG_TERM_COLUMN:
			load_column(term, &vectors[term->column], nrows);
			return 0;
		case HJG_TERM_NUMERIC_COLUMN:
			return load_numerics(term, &vectors[term->column], nrows);
		case HJG_TERM_CONSTANT:
			if (term->bind != NULL)
				term->bind(term);
			return term->unfit ? HJG_LEFT_TO_CORE : 0;
		case HJG_TERM_ARITHMETIC:
		case HJG_TERM_DATE_OF:
		case HJG_TERM_DATE_FIELD:
		case HJG_TERM_DATE_TRUNC:
			return eval_function(terms, term, vectors, nrows);
		default:
			return eval_branches(terms, term, vectors, nrows);
	}
}

int
hjg_vector_terms_eval(HjgVectorTerm *terms, int nterms, const HjgVector *vectors, int nrows)
{
	return eval_term(terms, nterms - 1, vectors, nrows);
}
