/*
 * scan_filter_bind.c
 *	  Binds the leaves of a scan's conditions to their operands, and reads values of variable width for them.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "scan/hjg_scan_filter.h"

/* ---------- values of variable width ---------- */

static inline HjgBytes
bytes_of(const struct varlena *value)
{
	return (HjgBytes) {VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};
}

/* Detoast a value, for a row that needs it, and test it. */
static void
test_unpacked(const HjgFilter *leaf, struct varlena *value, bool *pass)
{
	struct varlena *unpacked;
	HjgBytes	bytes;

	CHECK_FOR_INTERRUPTS();
	unpacked = hjg_scan_slice_fetch(value, leaf->slice);
	bytes = bytes_of(unpacked);
	hjg_vector_filter_test_bytes(leaf, &bytes, 1, pass);
	pfree(unpacked);
}

static void
test_varlenas(const HjgFilter *leaf, const HjgVector *vector, int nrows, bool *pass)
{
	struct varlena *const *values = vector->values;
	HjgBytes	bytes[HJG_MAX_VECTOR_ROWS];
	int			first = 0;		/* first row that was not tested */

	for (int i = 0; i < nrows; i++)
	{
		if (!pass[i])
			continue;
		if (likely(!VARATT_IS_COMPRESSED(values[i]) && !VARATT_IS_EXTERNAL(values[i])))
		{
			bytes[i] = bytes_of(values[i]);
			continue;
		}
		hjg_vector_filter_test_bytes(leaf, bytes + first, i - first, pass + first);
		test_unpacked(leaf, values[i], &pass[i]);
		first = i + 1;
	}
	hjg_vector_filter_test_bytes(leaf, bytes + first, nrows - first, pass + first);
}

void
hjg_scan_filter_set_like(HjgFilter *leaf, HjgBytes *bytes, int nbytes, bool negated)
{
	leaf->kind = HJG_FILTER_LIKE;
	leaf->negated = negated;
	leaf->bytes = bytes;
	leaf->nset = nbytes;
	leaf->test_bytes = test_varlenas;
}

/* ---------- operands ---------- */

/* Set the list of a leaf from values of variable width, which are copied. */
static void
set_bytes(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, const Datum *values, const bool *nulls, int nvalues)
{
	Size		nbytes = 0;
	char	   *next;
	int			n = 0;

	if (leaf->bytes != NULL)
		pfree(leaf->bytes);
	for (int i = 0; i < nvalues; i++)
		nbytes += nulls[i] ? 0 : toast_raw_datum_size(values[i]);
	leaf->bytes = MemoryContextAllocHuge(context, Max(nvalues, 1) * sizeof(HjgBytes) + nbytes);
	next = (char *) (leaf->bytes + Max(nvalues, 1));
	for (int i = 0; i < nvalues; i++)
	{
		HjgBytes   *bytes = &leaf->bytes[n];

		if (nulls[i])
			continue;
		*bytes = hjg_vector_bytes_trim(bytes_of(PG_DETOAST_DATUM_PACKED(values[i])), leaf->padded);
		bytes->data = memcpy(next, bytes->data, bytes->nbytes);
		next += bytes->nbytes;
		n++;
	}
	hjg_vector_filter_set_list(leaf, HJG_FILTER_BYTES, comparison == HJG_COMPARE_NE, n, n < nvalues);
	leaf->test_bytes = test_varlenas;
}

/* ---------- numerics ---------- */

int
hjg_scan_filter_compare_numerics(const void *left, const void *right)
{
	CHECK_FOR_INTERRUPTS();
	return DatumGetInt32(DirectFunctionCall2(numeric_cmp, PointerGetDatum(left), PointerGetDatum(right)));
}

static int
compare_constants(const void *left, const void *right)
{
	return hjg_scan_filter_compare_numerics(*(const void *const *) left, *(const void *const *) right);
}

/* Set the constants of a leaf, which are copied, detoasted. */
static void
set_numerics(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, bool list, const Datum *values, const bool *nulls, int nvalues)
{
	const struct varlena **unpacked = MemoryContextAllocHuge(CurrentMemoryContext, Max(nvalues, 1) * sizeof(struct varlena *));
	HjgNumericConstants *numeric;
	Size		nbytes = 0;
	char	   *next;
	int			n = 0;

	for (int i = 0; i < nvalues; i++)
		if (!nulls[i])
		{
			unpacked[n] = PG_DETOAST_DATUM(values[i]);
			nbytes += MAXALIGN(VARSIZE(unpacked[n]));
			n++;
		}
	if (leaf->numeric != NULL)
		pfree(leaf->numeric);
	numeric = MemoryContextAllocHuge(context, MAXALIGN(sizeof(HjgNumericConstants)) + MAXALIGN(sizeof(HjgFilter)) +
									 n * (sizeof(void *) + sizeof(int64)) + nbytes);
	*numeric = (HjgNumericConstants) {.comparison = comparison, .list = list, .has_null = n < nvalues, .nvalues = n, .scale = -1};
	numeric->leaf = (HjgFilter *) ((char *) numeric + MAXALIGN(sizeof(HjgNumericConstants)));
	memset(numeric->leaf, 0, sizeof(HjgFilter));
	numeric->set = (int64 *) ((char *) numeric->leaf + MAXALIGN(sizeof(HjgFilter)));
	numeric->values = (const void **) (numeric->set + n);
	next = (char *) (numeric->values + n);
	for (int i = 0; i < n; i++)
	{
		numeric->values[i] = memcpy(next, unpacked[i], VARSIZE(unpacked[i]));
		next += MAXALIGN(VARSIZE(unpacked[i]));
	}
	qsort(numeric->values, n, sizeof(void *), compare_constants);
	leaf->kind = HJG_FILTER_NUMERIC;
	leaf->numeric = numeric;
	leaf->compare = hjg_scan_filter_compare_numerics;
}

void
hjg_scan_filter_set_list(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, int16 width, ArrayType *array)
{
	int16		elem_width;
	bool		elem_byval;
	char		elem_align;
	Datum	   *elems;
	bool	   *nulls;
	int			nelems;
	const int16 wanted_width = width == HJG_NUMERIC_WIDTH ? HJG_VARIABLE_WIDTH : width;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &elem_width, &elem_byval, &elem_align);
	if (elem_width != wanted_width || elem_byval != (width > 0))
		elog(ERROR, "elements of a list have %d bytes where %d are expected", elem_width, wanted_width);
	deconstruct_array(array, ARR_ELEMTYPE(array), elem_width, elem_byval, elem_align, &elems, &nulls, &nelems);
	hjg_scan_filter_set_values(leaf, context, comparison, width, elems, nulls, nelems);
}

void
hjg_scan_filter_set_values(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, int16 width, const Datum *elems,
						   const bool *nulls, int nelems)
{
	int			n = 0;

	if (nelems == 0)
	{
		leaf->kind = HJG_FILTER_CONSTANT;
		leaf->negated = comparison == HJG_COMPARE_EQ;
		return;
	}
	if (width == HJG_NUMERIC_WIDTH)
	{
		set_numerics(leaf, context, comparison, true, elems, nulls, nelems);
		return;
	}
	if (width == HJG_VARIABLE_WIDTH)
	{
		set_bytes(leaf, context, comparison, elems, nulls, nelems);
		return;
	}
	if (leaf->set != NULL)
		pfree(leaf->set);
	leaf->set = MemoryContextAllocHuge(context, nelems * sizeof(int64));
	for (int i = 0; i < nelems; i++)
		if (!nulls[i])
			leaf->set[n++] = hjg_vector_datum_ordinal(leaf->ordinal, width, elems[i]);
	hjg_vector_filter_set_list(leaf, HJG_FILTER_SET, comparison == HJG_COMPARE_NE, n, n < nelems);
}

/*
 * Compare dates with a timestamp: with its day, because dates are at midnight. An infinite timestamp has the same place among
 * dates; a date that is later than every timestamp is above all finite ones, and so is its day.
 */
static void
set_day(HjgFilter *leaf, HjgComparison comparison, Timestamp timestamp)
{
	const bool	before = timestamp % USECS_PER_DAY < 0;
	const bool	midnight = TIMESTAMP_NOT_FINITE(timestamp) || timestamp % USECS_PER_DAY == 0;
	int64		day = timestamp / USECS_PER_DAY - (before ? 1 : 0);

	if (TIMESTAMP_IS_NOBEGIN(timestamp))
		day = DATEVAL_NOBEGIN;
	else if (TIMESTAMP_IS_NOEND(timestamp))
		day = DATEVAL_NOEND;
	if (!midnight)
		switch (comparison)
		{
			case HJG_COMPARE_EQ:
				/* no date is equal */
				comparison = HJG_COMPARE_LT;
				day = PG_INT64_MIN;
				break;
			case HJG_COMPARE_NE:
				comparison = HJG_COMPARE_GE;
				day = PG_INT64_MIN;
				break;
			case HJG_COMPARE_LT:
				comparison = HJG_COMPARE_LE;
				break;
			case HJG_COMPARE_GE:
				comparison = HJG_COMPARE_GT;
				break;
			default:
				break;
		}
	hjg_vector_filter_set_ordinal(leaf, comparison, day);
}

void
hjg_scan_filter_set_time(HjgFilter *leaf, HjgComparison comparison, HjgTimeOperand operand, Datum value)
{
	int64		timestamp = 0;
	int			overflow = 0;

	switch (operand)
	{
		case HJG_TIME_SAME:
		case HJG_TIME_DAY:
			set_day(leaf, comparison, DatumGetTimestamp(value));
			return;
		case HJG_TIME_MIDNIGHT:
			timestamp = date2timestamp_opt_overflow(DatumGetDateADT(value), &overflow);
			break;
		case HJG_TIME_LOCAL_MIDNIGHT:
			timestamp = date2timestamptz_opt_overflow(DatumGetDateADT(value), &overflow);
			break;
		case HJG_TIME_LOCAL:
			timestamp = timestamp2timestamptz_opt_overflow(DatumGetTimestamp(value), &overflow);
			break;
	}
	/* a value that has no timestamp is later, or earlier, than all finite ones */
	if (overflow != 0)
		timestamp = overflow > 0 ? DT_NOEND - 1 : DT_NOBEGIN + 1;
	hjg_vector_filter_set_ordinal(leaf, comparison, timestamp);
}

void
hjg_scan_filter_set_value(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, int16 width, Datum value)
{
	const bool	isnull = false;

	if (width == HJG_NUMERIC_WIDTH)
		set_numerics(leaf, context, comparison, false, &value, &isnull, 1);
	else if (width == HJG_VARIABLE_WIDTH)
		set_bytes(leaf, context, comparison, &value, &isnull, 1);
	else
		hjg_vector_filter_set_ordinal(leaf, comparison, hjg_vector_datum_ordinal(leaf->ordinal, width, value));
}
