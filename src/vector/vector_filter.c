/*
 * vector_filter.c
 *	  Simple conditions on columns, evaluated for all rows of a vector at a time.
 *
 * Every fixed-width value that can be compared has an ordinal, a 64-bit integer that is
 * ordered as the SQL type's operators order its values: integers, dates and times
 * are their own, floats get one with -0 equal to 0 and NaN equal to itself and above
 * everything else.  So a comparison with a constant is a range of ordinals, and a list
 * a set of them, whatever the type.
 *
 * A condition passes a row only when it is true, and there is no NOT, but negated leaves.  So false and NULL need
 * not be told apart, but for one thing: to evaluate an operand may fail, and none must be touched before a row
 * asks for it.  Below an OR core's AND asks its next argument when the last one was NULL, and not when it
 * was false.  As long as an argument to come has operands that are not known, ours does the same.
 *
 * A test looks at all rows, since that is faster than to pick some, and its outcome counts for those that
 * ask.
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "miscadmin.h"

#include "vector/hjg_vector.h"

/* Monotone. */
#define UINT64_ORDINAL(value) ((int64) ((value) ^ (UINT64CONST(1) << 63)))

/* Monotone: the bits of a float are its magnitude's order, with a sign of their own. */
static inline int64
float_ordinal(double value)
{
	int64		bits;

	if (unlikely(isnan(value)))
		return PG_INT64_MAX;
	if (value == 0)
		return 0;
	memcpy(&bits, &value, sizeof(bits));
	return bits >= 0 ? bits : PG_INT64_MIN - bits;
}

int64
hjg_filter_ordinal(HjgOrdinal ordinal, int width, Datum value)
{
	switch (ordinal)
	{
		case HJG_ORDINAL_UINT:
			return width == 1 ? DatumGetUInt8(value) : width == 4 ? (int64) DatumGetUInt32(value) : UINT64_ORDINAL(DatumGetUInt64(value));
		case HJG_ORDINAL_FLOAT:
			return float_ordinal(width == 4 ? DatumGetFloat4(value) : DatumGetFloat8(value));
		default:
			return hjg_datum_to_int(value, width);
	}
}

/* Is an ordinal in a sorted set? */
static inline bool
in_set(const HjgFilter *node, int64 ordinal)
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

/* Forms of a column beside the widths of signed integers; plus its width. */
#define UINT_FORM 100
#define FLOAT_FORM 200
#define FORM_OF(ordinal, vector) \
	(((ordinal) == HJG_ORDINAL_INT ? 0 : (ordinal) == HJG_ORDINAL_UINT ? UINT_FORM : FLOAT_FORM) + (vector)->column.attlen)

/* One test of all rows; type and ORDINAL say how a value becomes its ordinal. */
#define TEST_ROWS(type, ORDINAL, TEST) \
	for (int i = 0; i < nrows; i++) \
	{ \
		int64		ordinal = ORDINAL(((const type *) values)[i]); \
		pass[i] &= (TEST) != node->negated; \
	} \
	break

#define TEST_COLUMN(TEST) \
	switch (FORM_OF(node->ordinal, vector)) \
	{ \
		case 1: \
			TEST_ROWS(int8, (int64), TEST); \
		case 2: \
			TEST_ROWS(int16, (int64), TEST); \
		case 4: \
			TEST_ROWS(int32, (int64), TEST); \
		case 8: \
			TEST_ROWS(int64, (int64), TEST); \
		case UINT_FORM + 1: \
			TEST_ROWS(uint8, (int64), TEST); \
		case UINT_FORM + 4: \
			TEST_ROWS(uint32, (int64), TEST); \
		case UINT_FORM + 8: \
			TEST_ROWS(uint64, UINT64_ORDINAL, TEST); \
		case FLOAT_FORM + 4: \
			TEST_ROWS(float, float_ordinal, TEST); \
		case FLOAT_FORM + 8: \
			TEST_ROWS(double, float_ordinal, TEST); \
		default: \
			elog(ERROR, "a column of %d bytes cannot be filtered", vector->column.attlen); \
	}

/* The rows whose value is NULL do not pass, whatever was made of the bytes there. */
static void
drop_nulls(const HjgVector *vector, int nrows, bool *pass)
{
	if (!vector->has_nulls)
		return;
	for (int i = 0; i < nrows; i++)
		pass[i] &= !vector->isnull[i];
}

static void
eval_range(const HjgFilter *node, const HjgVector *vector, int nrows, bool *pass)
{
	const void *values = vector->values;
	int64		low = node->low;
	uint64		span = (uint64) node->high - (uint64) low;

	TEST_COLUMN((uint64) ordinal - (uint64) low <= span);
	drop_nulls(vector, nrows, pass);
}

static void
eval_set(const HjgFilter *node, const HjgVector *vector, int nrows, bool *pass)
{
	const void *values = vector->values;

	/* what is not in the list may be the NULL in it */
	if (node->negated && node->null)
	{
		memset(pass, false, nrows * sizeof(bool));
		return;
	}
	TEST_COLUMN(in_set(node, ordinal));
	drop_nulls(vector, nrows, pass);
}

#define COMPARE(OP) \
	for (int i = 0; i < nrows; i++) \
		pass[i] &= left[i] OP right[i]; \
	break

void
hjg_compare_ordinals(HjgComparison comparison, const int64 *left, const int64 *right, int nrows, bool *pass)
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

#define LOAD(type, ORDINAL) \
	for (int i = 0; i < nrows; i++) \
		ordinals[i] = ORDINAL(((const type *) vector->values)[i]); \
	break

static void
load_ordinals(HjgOrdinal ordinal, const HjgVector *vector, int nrows, int64 *ordinals)
{
	switch (FORM_OF(ordinal, vector))
	{
		case 1:
			LOAD(int8, (int64));
		case 2:
			LOAD(int16, (int64));
		case 4:
			LOAD(int32, (int64));
		case 8:
			LOAD(int64, (int64));
		case UINT_FORM + 1:
			LOAD(uint8, (int64));
		case UINT_FORM + 4:
			LOAD(uint32, (int64));
		case UINT_FORM + 8:
			LOAD(uint64, UINT64_ORDINAL);
		case FLOAT_FORM + 4:
			LOAD(float, float_ordinal);
		case FLOAT_FORM + 8:
			LOAD(double, float_ordinal);
		default:
			elog(ERROR, "a column of %d bytes cannot be filtered", vector->column.attlen);
	}
}
#undef LOAD

static void
eval_columns(const HjgFilter *node, const HjgVector *left, const HjgVector *right, int nrows, bool *pass)
{
	int64		left_ordinals[HJG_MAX_VECTOR_ROWS];
	int64		right_ordinals[HJG_MAX_VECTOR_ROWS];
	bool		holds[HJG_MAX_VECTOR_ROWS];

	load_ordinals(node->ordinal, left, nrows, left_ordinals);
	load_ordinals(node->ordinal, right, nrows, right_ordinals);
	memset(holds, true, nrows * sizeof(bool));
	hjg_compare_ordinals(node->comparison, left_ordinals, right_ordinals, nrows, holds);
	for (int i = 0; i < nrows; i++)
		pass[i] &= holds[i] != node->negated;
	drop_nulls(left, nrows, pass);
	drop_nulls(right, nrows, pass);
}

HjgBytes
hjg_bytes_of(const struct varlena *value, bool padded)
{
	HjgBytes	bytes = {VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};

	while (padded && bytes.nbytes > 0 && bytes.data[bytes.nbytes - 1] == ' ')
		bytes.nbytes--;
	return bytes;
}

int
hjg_bytes_compare(const void *a, const void *b)
{
	const HjgBytes *x = a;
	const HjgBytes *y = b;

	if (x->nbytes != y->nbytes)
		return x->nbytes < y->nbytes ? -1 : 1;
	return memcmp(x->data, y->data, x->nbytes);
}

static inline bool
in_list(const HjgFilter *node, const struct varlena *value)
{
	const HjgBytes bytes = hjg_bytes_of(value, node->padded);

	if (node->nset == 1)
		return bytes.nbytes == node->bytes->nbytes && memcmp(bytes.data, node->bytes->data, bytes.nbytes) == 0;
	return bsearch(&bytes, node->bytes, node->nset, sizeof(HjgBytes), hjg_bytes_compare) != NULL;
}

static inline bool
is_like(const HjgFilter *node, const struct varlena *value)
{
	const HjgBytes *first = &node->bytes[0];
	const HjgBytes *last = &node->bytes[node->nset - 1];
	const char *at = VARDATA_ANY(value);
	const char *end = at + VARSIZE_ANY_EXHDR(value);

	if (end - at < first->nbytes + last->nbytes || memcmp(at, first->data, first->nbytes) != 0 ||
		memcmp(end - last->nbytes, last->data, last->nbytes) != 0)
		return false;
	at += first->nbytes;
	end -= last->nbytes;
	for (const HjgBytes *bytes = first + 1; bytes < last; bytes++)
	{
		at = memmem(at, end - at, bytes->data, bytes->nbytes);
		if (at == NULL)
			return false;
		at += bytes->nbytes;
	}
	return true;
}

static inline bool
passes_bytes(const HjgFilter *node, const struct varlena *value)
{
	return (node->kind == HJG_FILTER_LIKE ? is_like(node, value) : in_list(node, value)) != node->negated;
}

static void
eval_bytes(const HjgFilter *node, const HjgVector *vector, int nrows, bool *pass)
{
	/* what is not in the list may be the NULL in it */
	if (node->negated && node->null)
	{
		memset(pass, false, nrows * sizeof(bool));
		return;
	}
	for (int i = 0; i < nrows; i++)
	{
		struct varlena *value;
		struct varlena *unpacked;

		if (!pass[i])
			continue;
		if (hjg_vector_isnull(vector, i))
		{
			pass[i] = false;
			continue;
		}
		value = (struct varlena *) DatumGetPointer(hjg_vector_datum(vector, i));
		if (likely(!VARATT_IS_COMPRESSED(value) && !VARATT_IS_EXTERNAL(value)))
		{
			pass[i] = passes_bytes(node, value);
			continue;
		}
		CHECK_FOR_INTERRUPTS();
		unpacked = pg_detoast_datum_packed(value);
		pass[i] = passes_bytes(node, unpacked);
		pfree(unpacked);
	}
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
		case HJG_FILTER_IS_NULL:
			eval_null_test(leaf, &vectors[leaf->column], nrows, pass);
			break;
		default:
			elog(ERROR, "filter of kind %d is not a leaf", (int) leaf->kind);
	}
}

/* Rows that pass one of the arguments by eval; each is asked by those that passed none before it. */
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
 * Of the rows with pass[i], which have asked the condition and not passed, keep those for which it is false
 * and not NULL.  They have bound all operands that this looks at.
 */
static void
eval_false(HjgFilter *node, const HjgVector *vectors, int nrows, bool *pass)
{
	HjgFilter	opposite;

	check_stack_depth();
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
			/* neither a leaf nor its opposite passes what makes NULL */
			opposite = *node;
			opposite.negated = !node->negated;
			eval_leaf(&opposite, vectors, nrows, pass);
	}
}

/* Is an operand below the node not known yet? */
static bool
is_open(const HjgFilter *node)
{
	check_stack_depth();
	if (node->bind != NULL)
		return true;
	for (int a = 0; a < node->nargs; a++)
		if (is_open(node->args[a]))
			return true;
	return false;
}

/* Rows for which an argument was NULL ask the next ones, too, up to the last one with an operand that is not known. */
static void
eval_and(HjgFilter *node, const HjgVector *vectors, int nrows, bool *pass)
{
	bool		asking[HJG_MAX_VECTOR_ROWS];
	bool		arg_pass[HJG_MAX_VECTOR_ROWS];
	bool		arg_false[HJG_MAX_VECTOR_ROWS];
	int			last_open = 0;

	for (int a = 1; a < node->nargs; a++)
		if (is_open(node->args[a]))
			last_open = a;
	memcpy(asking, pass, nrows * sizeof(bool));
	for (int a = 0; a < node->nargs; a++)
	{
		memcpy(arg_pass, asking, nrows * sizeof(bool));
		hjg_filter_eval(node->args[a], vectors, nrows, arg_pass);
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
hjg_filter_eval(HjgFilter *node, const HjgVector *vectors, int nrows, bool *pass)
{
	check_stack_depth();
	if (memchr(pass, 1, nrows * sizeof(bool)) == NULL)
		return;
	if (node->bind != NULL)
		node->bind(node);
	switch (node->kind)
	{
		case HJG_FILTER_ALL:
			for (int a = 0; a < node->nargs; a++)
				hjg_filter_eval(node->args[a], vectors, nrows, pass);
			break;
		case HJG_FILTER_AND:
			eval_and(node, vectors, nrows, pass);
			break;
		case HJG_FILTER_OR:
			eval_any(node, vectors, nrows, pass, hjg_filter_eval);
			break;
		default:
			eval_leaf(node, vectors, nrows, pass);
	}
}
