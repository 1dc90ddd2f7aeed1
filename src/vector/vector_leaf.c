/*
 * vector_leaf.c
 *	  Leaves of conditions on columns (vector_filter.c): sets them by their operands, and tests strings.
 */
#define _GNU_SOURCE				/* memmem() */

#include <stdlib.h>

#include "vector/hjg_vector.h"

void
hjg_vector_filter_set_null(HjgFilter *leaf)
{
	leaf->kind = HJG_FILTER_CONSTANT;
	leaf->null = true;
}

/* Set a leaf that no row passes, and that is NULL for a NULL: an empty set. */
static void
set_none(HjgFilter *leaf)
{
	leaf->kind = HJG_FILTER_SET;
	leaf->negated = false;
	leaf->nset = 0;
}

void
hjg_vector_filter_set_ordinal(HjgFilter *leaf, HjgComparison comparison, int64_t ordinal)
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

/* Compare by length, then by bytes. */
static int
compare_bytes(const void *a, const void *b)
{
	const HjgBytes *x = a;
	const HjgBytes *y = b;

	if (x->nbytes != y->nbytes)
		return x->nbytes < y->nbytes ? -1 : 1;
	return memcmp(x->data, y->data, x->nbytes);
}

static inline uint8_t
first_byte(HjgBytes bytes)
{
	return (uint8_t) bytes.data[0];
}

/* Get the bytes of a short string as a number: strings of one length are equal if their numbers are. */
static inline uint64_t
short_key(HjgBytes bytes)
{
	uint32_t	first = 0;
	uint32_t	last = 0;

	/* copies of constant lengths are single instructions; the two may overlap */
	if (bytes.nbytes >= 4)
	{
		memcpy(&first, bytes.data, 4);
		memcpy(&last, bytes.data + bytes.nbytes - 4, 4);
	}
	else if (bytes.nbytes >= 2)
	{
		memcpy(&first, bytes.data, 2);
		memcpy(&last, bytes.data + bytes.nbytes - 2, 2);
	}
	else if (bytes.nbytes == 1)
		first = first_byte(bytes);
	return (uint64_t) first << 32 | last;
}

/* Keep the numbers of the strings of a list, if they are few and short. */
static void
set_short_list(HjgFilter *leaf)
{
	leaf->short_list = leaf->nset <= HJG_SHORT_LIST;
	for (int i = 0; i < leaf->nset && leaf->short_list; i++)
		if (leaf->bytes[i].nbytes > HJG_SHORT_BYTES)
			leaf->short_list = false;
		else
		{
			leaf->short_keys[i] = short_key(leaf->bytes[i]);
			leaf->short_lengths[i] = (uint8_t) leaf->bytes[i].nbytes;
		}
}

void
hjg_vector_filter_set_list(HjgFilter *leaf, HjgFilterKind kind, bool negated, int nset, bool has_null)
{
	leaf->kind = kind;
	leaf->negated = negated;
	leaf->null = has_null;
	leaf->nset = nset;
	if (kind == HJG_FILTER_SET)
		qsort(leaf->set, nset, sizeof(int64_t), compare_ordinals);
	else
	{
		qsort(leaf->bytes, nset, sizeof(HjgBytes), compare_bytes);
		memset(leaf->firsts, 0, sizeof(leaf->firsts));
		for (int i = 0; i < nset; i++)
			if (leaf->bytes[i].nbytes > 0)
				leaf->firsts[first_byte(leaf->bytes[i]) / 64] |= UINT64_C(1) << first_byte(leaf->bytes[i]) % 64;
		set_short_list(leaf);
	}
}

/* ---------- strings ---------- */

/* Does the value begin like a string of the list? One of spaces only may equal the empty string. */
static inline bool
begins_like_one(const HjgFilter *leaf, HjgBytes value)
{
	return value.nbytes == 0 || (leaf->firsts[first_byte(value) / 64] >> first_byte(value) % 64) & 1 ||
		(leaf->padded && value.data[0] == ' ');
}

/* Is the value in a short list? It is compared with all, without branches. */
static inline bool
is_in_short_list(const HjgFilter *leaf, HjgBytes value)
{
	const uint64_t key = value.nbytes <= HJG_SHORT_BYTES ? short_key(value) : 0;
	bool		found = false;

	if (value.nbytes > HJG_SHORT_BYTES)
		return false;
	for (int i = 0; i < leaf->nset; i++)
		found |= leaf->short_keys[i] == key && leaf->short_lengths[i] == value.nbytes;
	return found;
}

static inline bool
is_in_list(const HjgFilter *leaf, HjgBytes value)
{
	if (!begins_like_one(leaf, value))
		return false;
	value = hjg_vector_bytes_trim(value, leaf->padded);
	if (leaf->short_list)
		return is_in_short_list(leaf, value);
	if (leaf->nset == 1)
		return value.nbytes == leaf->bytes->nbytes && memcmp(value.data, leaf->bytes->data, value.nbytes) == 0;
	return bsearch(&value, leaf->bytes, leaf->nset, sizeof(HjgBytes), compare_bytes) != NULL;
}

/* Bytes that are compared at a time. */
typedef uint8_t Block __attribute__((vector_size(16)));

/* Compare a byte of what is searched at a block of places where it may begin. */
static inline Block
compare_byte(const char *at, HjgBytes bytes, int byte)
{
	Block		places;

	memcpy(&places, at + byte, sizeof(Block));
	return (Block) (places == (uint8_t) bytes.data[byte]);
}

/* Compare the first, the last and the middle byte: pairs of letters are frequent in text. 0: it does not begin there. */
static inline Block
may_begin(const char *at, HjgBytes bytes)
{
	return compare_byte(at, bytes, 0) & compare_byte(at, bytes, bytes.nbytes - 1) & compare_byte(at, bytes, bytes.nbytes / 2);
}

static inline bool
has_any(Block block)
{
	uint64_t	some[2];

	memcpy(some, &block, sizeof(some));
	return (some[0] | some[1]) != 0;
}

/* Skip places where bytes do not begin, four blocks at a time. */
static inline const char *
skip_places(const char *at, const char *last_block, HjgBytes bytes)
{
	const ptrdiff_t step = 4 * sizeof(Block);

	for (; last_block - at >= step; at += step)
	{
		Block		any = {0};

		for (int b = 0; b < 4; b++)
			any |= may_begin(at + b * sizeof(Block), bytes);
		if (has_any(any))
			break;
	}
	return at;
}

/*
 * Find bytes as memmem() does, which takes two to four times as long for strings of some dozen bytes, as it prepares tables for each of them, and twice
 * as long in many.
 */
static const char *
find_bytes(const char *at, const char *end, HjgBytes bytes)
{
	const char *last_block = end - bytes.nbytes - (sizeof(Block) - 1);

	if (bytes.nbytes == 0 || last_block < at)
		return memmem(at, end - at, bytes.data, bytes.nbytes);
	for (;; at = at + sizeof(Block) < last_block ? at + sizeof(Block) : last_block)
	{
		Block		places;

		at = skip_places(at, last_block, bytes);
		places = may_begin(at, bytes);
		for (size_t p = 0; has_any(places) && p < sizeof(Block); p++)
			if (places[p] != 0 && memcmp(at + p, bytes.data, bytes.nbytes) == 0)
				return at + p;
		if (at == last_block)
			return NULL;
	}
}

static inline bool
is_at(const char *at, const HjgBytes *bytes)
{
	return bytes->nbytes == 0 || memcmp(at, bytes->data, bytes->nbytes) == 0;
}

static inline bool
matches_like(const HjgFilter *leaf, HjgBytes value)
{
	const HjgBytes *first = &leaf->bytes[0];
	const HjgBytes *last = &leaf->bytes[leaf->nset - 1];
	const char *at = value.data;
	const char *end = at + value.nbytes;

	if (end - at < first->nbytes + last->nbytes || !is_at(at, first) || !is_at(end - last->nbytes, last))
		return false;
	at += first->nbytes;
	end -= last->nbytes;
	for (const HjgBytes *bytes = first + 1; bytes < last; bytes++)
	{
		at = find_bytes(at, end, *bytes);
		if (at == NULL)
			return false;
		at += bytes->nbytes;
	}
	return true;
}

static inline bool
passes_leaf(const HjgFilter *leaf, HjgBytes value)
{
	const HjgBytes tested = leaf->slice != NULL ? hjg_vector_slice(value, leaf->slice) : value;

	return (leaf->kind == HJG_FILTER_LIKE ? matches_like(leaf, tested) : is_in_list(leaf, tested)) != leaf->negated;
}

/* ---------- strings that lie one behind the other ---------- */

/* Bytes between such strings, at most: a length, and padding. */
#define MOST_BETWEEN 16

/* Fewer strings are searched one by one. */
#define LEAST_TOGETHER 8

/* Find the longest string that values must have within, wherever that is; NULL: there is none. */
static const HjgBytes *
longest_within(const HjgFilter *leaf)
{
	const HjgBytes *longest = NULL;

	for (int b = 1; leaf->kind == HJG_FILTER_LIKE && leaf->slice == NULL && b < leaf->nset - 1; b++)
		if (longest == NULL || leaf->bytes[b].nbytes > longest->nbytes)
			longest = &leaf->bytes[b];
	return longest;
}

/* Count the rows from the first one on that are tested and whose values lie one behind the other. */
static int
count_together(const HjgBytes *values, int nrows, const bool *pass)
{
	int			n = 1;

	while (n < nrows && pass[n] && (uintptr_t) values[n].data - (uintptr_t) (values[n - 1].data + values[n - 1].nbytes) <= MOST_BETWEEN)
		n++;
	return n;
}

/* Test such values: all of their memory is searched at once for a string that they must have within, and those that have it are looked at. */
static void
test_together(const HjgFilter *leaf, const HjgBytes *within, const HjgBytes *values, int n, bool *pass)
{
	const char *end = values[n - 1].data + values[n - 1].nbytes;
	const char *at = values[0].data;
	int			i = 0;

	while (i < n)
	{
		const char *found = find_bytes(at, end, *within);

		for (; i < n && (found == NULL || values[i].data + values[i].nbytes < found + within->nbytes); i++)
			pass[i] = leaf->negated;
		/* it may begin before a value */
		at = found != NULL ? found + 1 : end;
		if (i < n && found >= values[i].data)
		{
			pass[i] = matches_like(leaf, values[i]) != leaf->negated;
			at = values[i].data + values[i].nbytes;
			i++;
		}
	}
}

void
hjg_vector_filter_test_bytes(const HjgFilter *leaf, const HjgBytes *values, int nrows, bool *pass)
{
	const HjgBytes *within = longest_within(leaf);
	int			n;

	for (int i = 0; i < nrows; i += n)
	{
		n = pass[i] && within != NULL ? count_together(values + i, nrows - i, pass + i) : 1;
		if (n >= LEAST_TOGETHER)
			test_together(leaf, within, values + i, n, pass + i);
		else
			for (int row = i; row < i + n; row++)
				pass[row] = pass[row] && passes_leaf(leaf, values[row]);
	}
}
