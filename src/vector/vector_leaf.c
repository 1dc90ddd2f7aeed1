/*
 * vector_leaf.c
 *	  Leaves of conditions on columns (vector_filter.c): what an operand makes of them, and tests of strings.
 */
#define _GNU_SOURCE				/* memmem() */

#include <stdlib.h>

#include "vector/hjg_vector.h"

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

void
hjg_filter_set_ordinal(HjgFilter *leaf, HjgComparison comparison, int64_t ordinal)
{
	if ((comparison == HJG_COMPARE_LT && ordinal == INT64_MIN) ||
		(comparison == HJG_COMPARE_GT && ordinal == INT64_MAX))
	{
		set_none(leaf);
		return;
	}
	leaf->kind = HJG_FILTER_RANGE;
	leaf->negated = comparison == HJG_COMPARE_NE;
	leaf->low = INT64_MIN;
	leaf->high = INT64_MAX;
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
	int64_t		x = *(const int64_t *) a;
	int64_t		y = *(const int64_t *) b;

	return x < y ? -1 : x > y;
}

void
hjg_filter_set_list(HjgFilter *leaf, HjgFilterKind kind, bool negated, int nset, bool has_null)
{
	leaf->kind = kind;
	leaf->negated = negated;
	leaf->null = has_null;
	leaf->nset = nset;
	if (kind == HJG_FILTER_SET)
		qsort(leaf->set, nset, sizeof(int64_t), compare_ordinals);
	else
		qsort(leaf->bytes, nset, sizeof(HjgBytes), hjg_bytes_compare);
}

/* ---------- strings ---------- */

static bool
in_list(const HjgFilter *leaf, HjgBytes value)
{
	value = hjg_bytes_trim(value, leaf->padded);
	if (leaf->nset == 1)
		return value.nbytes == leaf->bytes->nbytes && memcmp(value.data, leaf->bytes->data, value.nbytes) == 0;
	return bsearch(&value, leaf->bytes, leaf->nset, sizeof(HjgBytes), hjg_bytes_compare) != NULL;
}

/* Does the value begin with the first string, end with the last, and have the others between, in their order? */
static bool
is_like(const HjgFilter *node, HjgBytes value)
{
	const HjgBytes *first = &node->bytes[0];
	const HjgBytes *last = &node->bytes[node->nset - 1];
	const char *at = value.data;
	const char *end = at + value.nbytes;

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

bool
hjg_filter_passes_bytes(const HjgFilter *leaf, HjgBytes value)
{
	return (leaf->kind == HJG_FILTER_LIKE ? is_like(leaf, value) : in_list(leaf, value)) != leaf->negated;
}
