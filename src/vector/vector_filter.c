/*
 * vector_filter.c
 *	  Evaluates simple conditions on columns, for all rows of a vector at a time.
 *
 * Each fixed-width value that can be compared has an ordinal (hjg_vector.h). So a comparison with a constant is a range of
 * ordinals, and a list is a set of them, for any type.
 *
 * A condition passes a row only if it is true, and only leaves are negated. So false and NULL need not be told apart, with
 * one exception: the evaluation of an operand may fail, so no operand must be evaluated before a row needs it. Below an OR,
 * core's AND evaluates its next argument if the last one was NULL, but not if it was false. While a later argument has
 * unknown operands, this code does the same.
 *
 * A test is computed for all rows, which is faster than selecting some, and its result is used for the rows that need it.
 */
#include <assert.h>

#include "vector/hjg_vector.h"
#include "vector/hjg_vector_form.h"

/* Is an ordinal in a sorted set? */
static inline bool
in_set(const HjgFilter *node, int64_t ordinal)
{
	int			low = 0;
	int			high = node->nset;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (node->set[middle] < ordinal)
			low = middle + 1;
		else
			high = middle;
	}
	return low < node->nset && node->set[low] == ordinal;
}

/* Test the ordinals of all rows. `negated` is read once: pass[] might be a part of the node, as the compiler sees it. */
#define TEST_ROWS(type, ORDINAL, TEST) \
	do { \
		const bool	negated = node->negated; \
		for (int i = 0; i < nrows; i++) \
		{ \
			int64_t		ordinal = ORDINAL(((const type *) vector->values)[i]); \
			pass[i] &= (TEST) != negated; \
		} \
	} while (0)

/* Clear pass[i] of NULLs, whose bytes are undefined. */
static void
drop_nulls(const HjgVector *vector, int nrows, bool *pass)
{
	if (!vector->has_nulls)
		return;
	for (int i = 0; i < nrows; i++)
		pass[i] &= !vector->isnull[i];
}

/* Test 4-byte integers by a range that has some of them. No value is widened, so that the compiler makes vector instructions of it. */
static void
eval_int4_range(const HjgFilter *node, const int32_t *values, int nrows, bool *pass)
{
	const int64_t least = node->low > INT32_MIN ? node->low : INT32_MIN;
	const int64_t greatest = node->high < INT32_MAX ? node->high : INT32_MAX;
	const uint32_t low = (uint32_t) least;
	const uint32_t span = (uint32_t) (greatest - least);
	const unsigned char negated = node->negated;
	unsigned char *passing = (unsigned char *) pass;

	for (int i = 0; i < nrows; i++)
		passing[i] &= (unsigned char) ((uint32_t) values[i] - low <= span) ^ negated;
}

static void
eval_range(const HjgFilter *node, const HjgVector *vector, int nrows, bool *pass)
{
	const int64_t low = node->low;
	const uint64_t span = (uint64_t) node->high - (uint64_t) low;

	if (node->ordinal == HJG_ORDINAL_INT && vector->column.attlen == sizeof(int32_t) && low <= INT32_MAX && node->high >= INT32_MIN)
		eval_int4_range(node, vector->values, nrows, pass);
	else
		HJG_BY_FORM(node->ordinal, vector, TEST_ROWS, (uint64_t) ordinal - (uint64_t) low <= span);
	drop_nulls(vector, nrows, pass);
}

/* Is the leaf "not in list" with a NULL in the list? The value may be that NULL. */
static bool
is_never_true(const HjgFilter *node)
{
	return node->negated && node->null;
}

static void
eval_set(const HjgFilter *node, const HjgVector *vector, int nrows, bool *pass)
{
	if (is_never_true(node))
	{
		memset(pass, false, nrows * sizeof(bool));
		return;
	}
	HJG_BY_FORM(node->ordinal, vector, TEST_ROWS, in_set(node, ordinal));
	drop_nulls(vector, nrows, pass);
}

static void
eval_bytes(const HjgFilter *node, const HjgVector *vector, int nrows, bool *pass)
{
	if (is_never_true(node))
	{
		memset(pass, false, nrows * sizeof(bool));
		return;
	}
	drop_nulls(vector, nrows, pass);
	node->test_bytes(node, vector, nrows, pass);
}

/* Evaluate a leaf COLUMNS; not inlined, because nested conditions would take its memory once a level. */
static __attribute__((noinline)) void
eval_columns(const HjgFilter *node, const HjgVector *left, const HjgVector *right, int nrows, bool *pass)
{
	int64_t		left_ordinals[HJG_MAX_VECTOR_ROWS];
	int64_t		right_ordinals[HJG_MAX_VECTOR_ROWS];
	bool		holds[HJG_MAX_VECTOR_ROWS];

	hjg_vector_ordinals(node->ordinal, left, nrows, left_ordinals);
	hjg_vector_ordinals(node->ordinal, right, nrows, right_ordinals);
	memset(holds, true, nrows * sizeof(bool));
	hjg_vector_compare_ordinals(node->comparison, left_ordinals, right_ordinals, nrows, holds);
	for (int i = 0; i < nrows; i++)
		pass[i] &= holds[i] != node->negated;
	drop_nulls(left, nrows, pass);
	drop_nulls(right, nrows, pass);
}

static void
eval_null_test(const HjgFilter *node, const HjgVector *vector, int nrows, bool *pass)
{
	for (int i = 0; i < nrows; i++)
		pass[i] &= hjg_vector_isnull(vector, i) != node->negated;
}

static void
eval_leaf(const HjgFilter *leaf, const HjgVector *vectors, int nrows, bool *pass)
{
	switch (leaf->kind)
	{
		case HJG_FILTER_CONSTANT:
			if (leaf->negated || leaf->null)
				memset(pass, false, nrows * sizeof(bool));
			break;
		case HJG_FILTER_RANGE:
			eval_range(leaf, &vectors[leaf->column], nrows, pass);
			break;
		case HJG_FILTER_SET:
			eval_set(leaf, &vectors[leaf->column], nrows, pass);
			break;
		case HJG_FILTER_BYTES:
		case HJG_FILTER_LIKE:
			eval_bytes(leaf, &vectors[leaf->column], nrows, pass);
			break;
		case HJG_FILTER_COLUMNS:
			eval_columns(leaf, &vectors[leaf->column], &vectors[leaf->other], nrows, pass);
			break;
		case HJG_FILTER_NUMERIC:
		case HJG_FILTER_NUMERIC_COLUMNS:
			hjg_vector_numeric_filter_eval(leaf, vectors, nrows, pass, eval_leaf);
			break;
		case HJG_FILTER_IS_NULL:
			eval_null_test(leaf, &vectors[leaf->column], nrows, pass);
			break;
		case HJG_FILTER_ALL:
		case HJG_FILTER_AND:
		case HJG_FILTER_OR:
			assert(!"a leaf");
	}
}

/* Get the range of signed integers that a leaf is; NULL if it is something else. */
static const HjgFilter *
find_int_range(const HjgFilter *leaf, int scale)
{
	const bool	numeric = leaf->kind == HJG_FILTER_NUMERIC;
	const HjgFilter *range = numeric == (scale >= 0) ? numeric ? hjg_vector_numeric_filter_at(leaf, scale) : leaf : NULL;

	return range != NULL && range->kind == HJG_FILTER_RANGE && range->ordinal == HJG_ORDINAL_INT ? range : NULL;
}

bool
hjg_vector_filter_excludes(const HjgFilter *leaf, int scale, int64_t least, int64_t greatest)
{
	const HjgFilter *range = find_int_range(leaf, scale);

	if (range == NULL)
		return false;
	return range->negated ? range->low <= least && greatest <= range->high : greatest < range->low || range->high < least;
}

bool
hjg_vector_filter_eval_codes(const HjgFilter *leaf, const HjgCodes *codes, int scale, size_t first, int nrows, bool *pass)
{
	const HjgFilter *range = find_int_range(leaf, scale);

	if (range == NULL)
		return false;
	hjg_vector_codes_between(codes, first, nrows, range->low, range->high, range->negated, pass);
	return true;
}

/* Pass the rows that pass one of the arguments by eval; an argument is evaluated for the rows that passed none before it. */
static void
eval_any(HjgFilter *node, const HjgVector *vectors, int nrows, bool *pass,
		 void (*eval) (HjgFilter *node, const HjgVector *vectors, int nrows, bool *pass))
{
	bool		asking[HJG_MAX_VECTOR_ROWS];
	bool		arg_pass[HJG_MAX_VECTOR_ROWS];

	memcpy(asking, pass, nrows * sizeof(bool));
	memset(pass, false, nrows * sizeof(bool));
	for (int a = 0; a < node->nargs; a++)
	{
		memcpy(arg_pass, asking, nrows * sizeof(bool));
		eval(node->args[a], vectors, nrows, arg_pass);
		for (int i = 0; i < nrows; i++)
		{
			pass[i] |= arg_pass[i];
			asking[i] &= !arg_pass[i];
		}
	}
}

/*
 * Keep the rows with pass[i], for which the condition was evaluated and not true, only if it is false and not NULL. All
 * operands that this reads are bound.
 */
static void
eval_false(HjgFilter *node, const HjgVector *vectors, int nrows, bool *pass)
{
	HjgFilter	opposite;

	if (memchr(pass, 1, nrows * sizeof(bool)) == NULL)
		return;
	switch (node->kind)
	{
		case HJG_FILTER_ALL:
		case HJG_FILTER_AND:
			eval_any(node, vectors, nrows, pass, eval_false);
			break;
		case HJG_FILTER_OR:
			for (int a = 0; a < node->nargs; a++)
				eval_false(node->args[a], vectors, nrows, pass);
			break;
		default:
			/* neither a leaf nor its opposite passes a row for which it is NULL */
			opposite = *node;
			opposite.negated = !node->negated;
			eval_leaf(&opposite, vectors, nrows, pass);
	}
}

bool
hjg_vector_filter_is_open(const HjgFilter *node)
{
	if (node->bind != NULL)
		return true;
	for (int a = 0; a < node->nargs; a++)
		if (hjg_vector_filter_is_open(node->args[a]))
			return true;
	return false;
}

/* Evaluate AND. Rows for which an argument is NULL need the next ones, too, up to the last with an unknown operand. */
static void
eval_and(HjgFilter *node, const HjgVector *vectors, int nrows, bool *pass)
{
	bool		asking[HJG_MAX_VECTOR_ROWS];
	bool		arg_pass[HJG_MAX_VECTOR_ROWS];
	bool		arg_false[HJG_MAX_VECTOR_ROWS];
	int			last_open = 0;

	for (int a = 1; a < node->nargs; a++)
		if (hjg_vector_filter_is_open(node->args[a]))
			last_open = a;
	memcpy(asking, pass, nrows * sizeof(bool));
	for (int a = 0; a < node->nargs; a++)
	{
		memcpy(arg_pass, asking, nrows * sizeof(bool));
		hjg_vector_filter_eval(node->args[a], vectors, nrows, arg_pass);
		for (int i = 0; i < nrows; i++)
		{
			arg_false[i] = asking[i] && !arg_pass[i];
			pass[i] &= arg_pass[i];
		}
		if (a >= last_open)
		{
			memcpy(asking, pass, nrows * sizeof(bool));
			continue;
		}
		eval_false(node->args[a], vectors, nrows, arg_false);
		for (int i = 0; i < nrows; i++)
			asking[i] &= !arg_false[i];
	}
}

void
hjg_vector_filter_eval(HjgFilter *node, const HjgVector *vectors, int nrows, bool *pass)
{
	if (memchr(pass, 1, nrows * sizeof(bool)) == NULL)
		return;
	if (node->bind != NULL)
		node->bind(node);
	switch (node->kind)
	{
		case HJG_FILTER_ALL:
			for (int a = 0; a < node->nargs; a++)
				hjg_vector_filter_eval(node->args[a], vectors, nrows, pass);
			break;
		case HJG_FILTER_AND:
			eval_and(node, vectors, nrows, pass);
			break;
		case HJG_FILTER_OR:
			eval_any(node, vectors, nrows, pass, hjg_vector_filter_eval);
			break;
		default:
			eval_leaf(node, vectors, nrows, pass);
	}
}
