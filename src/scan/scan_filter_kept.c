/*
 * scan_filter_kept.c
 *	  Conditions on kept columns.
 *
 * A comparison with a constant is one of codes: the constant is coded as the column is. A condition on strings is tested once for each
 * word of a segment. Neither decodes the rows.
 *
 * Conditions cannot fail and have no effect, so their order does not matter, but for their operands: core evaluates one for the first
 * row that comes by. So conditions from the first one on whose operand is not known yet are left to the general code.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "kept/hjg_kept.h"
#include "scan/hjg_scan_filter.h"

/* The words of a segment that pass a condition. */
typedef struct WordTest
{
	uint64		source;			/* the segment; 0: none yet */
	bool		passes[HJG_KEPT_MOST_WORDS];
} WordTest;

struct HjgKeptTests
{
	const HjgFilter *all;
	const AttrNumber *attnos;
	WordTest  **words;			/* by condition; NULL: none yet */
	HjgFilter	left;			/* HJG_FILTER_ALL of those that are left */
};

HjgKeptTests *
hjg_scan_kept_tests_create(MemoryContext context, const HjgFilter *all, const AttrNumber *attnos)
{
	HjgKeptTests *tests = MemoryContextAllocZero(context, sizeof(HjgKeptTests));

	tests->all = all;
	tests->attnos = attnos;
	tests->words = MemoryContextAllocZero(context, all->nargs * sizeof(WordTest *));
	tests->left.kind = HJG_FILTER_ALL;
	tests->left.args = MemoryContextAllocZero(context, all->nargs * sizeof(HjgFilter *));
	return tests;
}

/* Find the words that pass a leaf BYTES or LIKE. */
static void
test_words(const HjgFilter *leaf, const HjgKeptView *view, WordTest *test)
{
	const char *values[HJG_MAX_VECTOR_ROWS];
	HjgVector	vector = {.column = {-1, false, 0}, .values = values};
	const int	nwords = view->column->nwords;

	for (int from = 0; from < nwords; from += HJG_MAX_VECTOR_ROWS)
	{
		const int	n = Min(nwords - from, HJG_MAX_VECTOR_ROWS);

		for (int i = 0; i < n; i++)
			values[i] = view->bytes + view->places[from + i];
		memset(test->passes + from, true, n * sizeof(bool));
		leaf->test_bytes(leaf, &vector, n, test->passes + from);
	}
}

/* Know the words of the segment that pass condition a. */
static const WordTest *
known_words(HjgKeptTests *tests, int a, const HjgKeptView *view, uint64 source)
{
	WordTest   *test = tests->words[a];

	if (test == NULL)
		test = tests->words[a] = MemoryContextAllocZero(GetMemoryChunkContext(tests), sizeof(WordTest));
	if (test->source != source)
		test_words(tests->all->args[a], view, test);
	test->source = source;
	return test;
}

/* Clear pass[i] for rows whose words do not pass. */
static void
eval_words(HjgKeptTests *tests, int a, const HjgKeptView *view, const HjgHeapPage *page, bool *pass)
{
	const WordTest *test = known_words(tests, a, view, page->source);

	if (view->column->width == 1)
		for (int i = 0; i < page->nrows; i++)
			pass[i] &= test->passes[((const uint8 *) view->codes.codes)[page->kept_first + i]];
	else
		for (int i = 0; i < page->nrows; i++)
			pass[i] &= test->passes[((const uint16 *) view->codes.codes)[page->kept_first + i]];
}

static bool
is_on_words(const HjgFilter *leaf)
{
	return (leaf->kind == HJG_FILTER_BYTES || leaf->kind == HJG_FILTER_LIKE) && !(leaf->negated && leaf->null);
}

static bool
is_of_one_column(const HjgFilter *leaf)
{
	return leaf->kind == HJG_FILTER_RANGE || leaf->kind == HJG_FILTER_NUMERIC || leaf->kind == HJG_FILTER_BYTES || leaf->kind == HJG_FILTER_LIKE;
}

/* Evaluate a condition on codes or words; false if that is not possible. */
static bool
eval_condition(HjgKeptTests *tests, int a, const HjgHeapPage *page, bool *pass)
{
	const HjgFilter *leaf = tests->all->args[a];
	const HjgKeptView *view;

	if (!is_of_one_column(leaf))
		return false;
	view = &page->kept[tests->attnos[leaf->column]];
	switch (view->column->code)
	{
		case HJG_KEPT_INTEGERS:
			if (!hjg_vector_filter_eval_codes(leaf, &view->codes, -1, page->kept_first, page->nrows, pass))
				return false;
			break;
		case HJG_KEPT_NUMBERS:
			if (!hjg_vector_filter_eval_codes(leaf, &view->codes, view->column->scale, page->kept_first, page->nrows, pass))
				return false;
			break;
		case HJG_KEPT_WORDS:
			if (!is_on_words(leaf))
				return false;
			eval_words(tests, a, view, page, pass);
			break;
		default:
			return false;
	}
	for (int i = 0; view->nulls != NULL && i < page->nrows; i++)
		pass[i] &= !hjg_kept_isnull(view, page->kept_first + i);
	return true;
}

/* Is condition a false for all values of the segment? False where that is not known. */
static bool
excludes_segment(HjgKeptTests *tests, int a, const HjgKeptView *view, uint64 source)
{
	const HjgFilter *leaf = tests->all->args[a];

	switch (view->column->code)
	{
		case HJG_KEPT_INTEGERS:
			return hjg_vector_filter_excludes(leaf, -1, view->column->least, view->column->greatest);
		case HJG_KEPT_NUMBERS:
			return hjg_vector_filter_excludes(leaf, view->column->scale, view->column->least, view->column->greatest);
		case HJG_KEPT_WORDS:
			return source != 0 && is_on_words(leaf) &&
				memchr(known_words(tests, a, view, source)->passes, 1, view->column->nwords * sizeof(bool)) == NULL;
		default:
			return false;
	}
}

bool
hjg_scan_kept_tests_exclude(HjgKeptTests *tests, const HjgKeptView *views, uint64 source)
{
	/* a condition whose operand is not known yet must see a row that those before it pass */
	for (int a = 0; a < tests->all->nargs && tests->all->args[a]->bind == NULL; a++)
	{
		const HjgFilter *leaf = tests->all->args[a];

		if (is_of_one_column(leaf) && excludes_segment(tests, a, &views[tests->attnos[leaf->column]], source))
			return true;
	}
	return false;
}

HjgFilter *
hjg_scan_kept_tests_eval(HjgKeptTests *tests, const HjgHeapPage *page, bool *pass)
{
	bool		known = page->rows[page->nrows - 1] == page->nrows - 1;	/* all rows, in order */

	tests->left.nargs = 0;
	for (int a = 0; a < tests->all->nargs; a++)
	{
		known &= tests->all->args[a]->bind == NULL;
		if (!known || !eval_condition(tests, a, page, pass))
			tests->left.args[tests->left.nargs++] = tests->all->args[a];
	}
	return &tests->left;
}
