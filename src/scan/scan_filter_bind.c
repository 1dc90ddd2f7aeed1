/*
 * scan_filter_bind.c
 *	  Conditions on columns (vector_filter.c) whose operand is known: what it makes of a leaf.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "scan/hjg_scan_filter.h"

void
hjg_filter_set_null(HjgFilter *leaf)
{
	leaf->kind = HJG_FILTER_CONSTANT;
	leaf->null = true;
}

/* Whatever the operand of a comparison is: an empty set passes nothing, and makes NULL of NULL. */
static void
set_none(HjgFilter *leaf)
{
	leaf->kind = HJG_FILTER_SET;
	leaf->negated = false;
	leaf->nset = 0;
}

/* "column op ordinal" as a range. */
static void
set_range(HjgFilter *leaf, HjgComparison comparison, int64 ordinal)
{
	if ((comparison == HJG_COMPARE_LT && ordinal == PG_INT64_MIN) ||
		(comparison == HJG_COMPARE_GT && ordinal == PG_INT64_MAX))
	{
		set_none(leaf);
		return;
	}
	leaf->kind = HJG_FILTER_RANGE;
	leaf->negated = comparison == HJG_COMPARE_NE;
	leaf->low = PG_INT64_MIN;
	leaf->high = PG_INT64_MAX;
	switch (comparison)
	{
		case HJG_COMPARE_EQ:
		case HJG_COMPARE_NE:
			leaf->low = leaf->high = ordinal;
			break;
		case HJG_COMPARE_LT:
			leaf->high = ordinal - 1;
			break;
		case HJG_COMPARE_LE:
			leaf->high = ordinal;
			break;
		case HJG_COMPARE_GT:
			leaf->low = ordinal + 1;
			break;
		case HJG_COMPARE_GE:
			leaf->low = ordinal;
			break;
	}
}

static int
compare_ordinals(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

/* The list of a leaf from values of variable width, which are copied. */
static void
set_bytes(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, const Datum *values, const bool *nulls, int nvalues)
{
	Size		nbytes = 0;
	char	   *next;

	if (leaf->bytes != NULL)
		pfree(leaf->bytes);
	for (int i = 0; i < nvalues; i++)
		nbytes += nulls[i] ? 0 : toast_raw_datum_size(values[i]);
	leaf->bytes = MemoryContextAllocHuge(context, Max(nvalues, 1) * sizeof(HjgBytes) + nbytes);
	next = (char *) (leaf->bytes + Max(nvalues, 1));
	leaf->nset = 0;
	leaf->kind = HJG_FILTER_BYTES;
	leaf->negated = comparison == HJG_COMPARE_NE;
	for (int i = 0; i < nvalues; i++)
	{
		HjgBytes   *bytes = &leaf->bytes[leaf->nset];

		if (nulls[i])
		{
			leaf->null = true;
			continue;
		}
		*bytes = hjg_bytes_of(PG_DETOAST_DATUM_PACKED(values[i]), leaf->padded);
		bytes->data = memcpy(next, bytes->data, bytes->nbytes);
		next += bytes->nbytes;
		leaf->nset++;
	}
	qsort(leaf->bytes, leaf->nset, sizeof(HjgBytes), hjg_bytes_compare);
}

void
hjg_filter_set_list(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, int16 width, ArrayType *array)
{
	int16		elem_width;
	bool		elem_byval;
	char		elem_align;
	Datum	   *elems;
	bool	   *nulls;
	int			nelems;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &elem_width, &elem_byval, &elem_align);
	if (elem_width != width || elem_byval != (width > 0))
		elog(ERROR, "elements of a list have %d bytes where %d are expected", elem_width, width);
	deconstruct_array(array, ARR_ELEMTYPE(array), elem_width, elem_byval, elem_align, &elems, &nulls, &nelems);
	if (nelems == 0)
	{
		leaf->kind = HJG_FILTER_CONSTANT;
		leaf->negated = comparison == HJG_COMPARE_EQ;
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
	leaf->nset = 0;
	leaf->kind = HJG_FILTER_SET;
	leaf->negated = comparison == HJG_COMPARE_NE;
	for (int i = 0; i < nelems; i++)
	{
		if (nulls[i])
			leaf->null = true;
		else
			leaf->set[leaf->nset++] = hjg_filter_ordinal(leaf->ordinal, width, elems[i]);
	}
	qsort(leaf->set, leaf->nset, sizeof(int64), compare_ordinals);
}

void
hjg_filter_set_value(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, int16 width, Datum value)
{
	const bool	isnull = false;

	if (width == HJG_VARIABLE_WIDTH)
		set_bytes(leaf, context, comparison, &value, &isnull, 1);
	else
		set_range(leaf, comparison, hjg_filter_ordinal(leaf->ordinal, width, value));
}
