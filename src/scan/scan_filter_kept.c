/*
 * scan_filter_kept.c
 *	  Conditions on kept columns.
 *
 * A comparison with a constant is one of codes: the constant is coded as the column is. A condition on strings is tested once for each
 * word of a segment. Neither decodes the rows. AND and OR of such conditions are evaluated as a whole; where some of their parts cannot be,
 * these count as true, and the rows that then pass are left to the general code.
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
	bool		is_range;		/* words of these numbers pass and no others, */
	bool		negated;		/* or only the others do */
	int			low;
	int			high;
} WordTest;

/* A condition, with what is known of its words. */
typedef struct KeptTest
{
	HjgFilter  *filter;
	WordTest   *words;			/* leaves; NULL: none yet */
	struct KeptTest *args;		/* by argument */
} KeptTest;

struct HjgKeptTests
{
	const AttrNumber *attnos;
	KeptTest	all;
	HjgFilter	left;			/* HJG_FILTER_ALL of those that are left */
};

static void
init_test(KeptTest *test, HjgFilter *filter, MemoryContext context)
{
	test->filter = filter;
	test->args = MemoryContextAllocZero(context, Max(filter->nargs, 1) * sizeof(KeptTest));
	for (int a = 0; a < filter->nargs; a++)
		init_test(&test->args[a], filter->args[a], context);
}

HjgKeptTests *
hjg_scan_kept_tests_create(MemoryContext context, HjgFilter *all, const AttrNumber *attnos)
{
	HjgKeptTests *tests = MemoryContextAllocZero(context, sizeof(HjgKeptTests));

	tests->attnos = attnos;
	init_test(&tests->all, all, context);
	tests->left.kind = HJG_FILTER_ALL;
	tests->left.args = MemoryContextAllocZero(context, all->nargs * sizeof(HjgFilter *));
	return tests;
}

/* ---------- leaves ---------- */

/* Find out whether the words that pass, or those that do not, are one range: for a comparison with one string they are. */
static void
find_word_range(WordTest *test, int nwords)
{
	int			nturns = 0;		/* words that pass where the one before does not, or the other way round */

	test->negated = test->passes[0];
	test->low = 0;
	test->high = -1;
	for (int w = 1; w < nwords; w++)
		if (test->passes[w] != test->passes[w - 1] && nturns++ == 0)
		{
			test->low = w;
			test->high = nwords - 1;
		}
		else if (test->passes[w] != test->passes[w - 1])
			test->high = w - 1;
	test->is_range = nturns <= 2;
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
	find_word_range(test, nwords);
}

/* Know the words of the segment that pass the leaf. */
static const WordTest *
known_words(KeptTest *test, const HjgKeptView *view, uint64 source)
{
	if (test->words == NULL)
		test->words = MemoryContextAllocZero(GetMemoryChunkContext(test->args), sizeof(WordTest));
	if (test->words->source != source)
		test_words(test->filter, view, test->words);
	test->words->source = source;
	return test->words;
}

/* Clear pass[i] for rows whose words, with numbers of this type, do not pass. */
#define TEST_WORDS(type) \
	do \
	{ \
		const type *words = (const type *) view->codes.codes + page->kept_first; \
\
		for (int i = 0; i < nrows; i++) \
			passes[i] &= (uint8) test->passes[words[i]]; \
	} while (0)

static void
eval_words(const WordTest *test, const HjgKeptView *view, const HjgHeapPage *page, bool *pass)
{
	const HjgCodes words = {.width = view->column->width,.codes = view->codes.codes};
	const int	nrows = page->nrows;
	uint8	   *restrict passes = (uint8 *) pass;

	if (test->is_range)
		hjg_vector_codes_between(&words, page->kept_first, nrows, test->low, test->high, test->negated, pass);
	else if (words.width == 1)
		TEST_WORDS(uint8);
	else
		TEST_WORDS(uint16);
}
#undef TEST_WORDS

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

/* Evaluate a leaf on codes or words; false, without an effect, if that is not possible. */
static bool
eval_kept_leaf(KeptTest *test, const HjgKeptView *view, const HjgHeapPage *page, bool *pass)
{
	switch (view->column->code)
	{
		case HJG_KEPT_INTEGERS:
			if (!hjg_vector_filter_eval_codes(test->filter, &view->codes, -1, page->kept_first, page->nrows, pass))
				return false;
			break;
		case HJG_KEPT_NUMBERS:
			if (!hjg_vector_filter_eval_codes(test->filter, &view->codes, view->column->scale, page->kept_first, page->nrows, pass))
				return false;
			break;
		case HJG_KEPT_WORDS:
			if (!is_on_words(test->filter))
				return false;
			eval_words(known_words(test, view, page->source), view, page, pass);
			break;
		default:
			return false;
	}
	hjg_kept_drop_nulls(view, page->kept_first, page->nrows, pass);
	return true;
}

/* Is a leaf false for all values of the segment? False where that is not known. */
static bool
leaf_excludes(KeptTest *test, const HjgKeptView *view, uint64 source)
{
	switch (view->column->code)
	{
		case HJG_KEPT_INTEGERS:
			return hjg_vector_filter_excludes(test->filter, -1, view->column->least, view->column->greatest);
		case HJG_KEPT_NUMBERS:
			return hjg_vector_filter_excludes(test->filter, view->column->scale, view->column->least, view->column->greatest);
		case HJG_KEPT_WORDS:
			return source != 0 && is_on_words(test->filter) &&
				memchr(known_words(test, view, source)->passes, 1, view->column->nwords * sizeof(bool)) == NULL;
		default:
			return false;
	}
}

/* ---------- conditions, all of whose operands are known ---------- */

static bool eval_condition(HjgKeptTests *tests, KeptTest *test, const HjgHeapPage *page, bool *pass);

/* Clear pass[i] for rows that surely pass no argument; is that known of each argument? */
static bool
eval_or(HjgKeptTests *tests, KeptTest *test, const HjgHeapPage *page, bool *pass)
{
	bool		asked[MaxHeapTuplesPerPage];
	bool		arg_pass[MaxHeapTuplesPerPage];
	bool		exact = true;

	memcpy(asked, pass, page->nrows * sizeof(bool));
	memset(pass, false, page->nrows * sizeof(bool));
	for (int a = 0; a < test->filter->nargs; a++)
	{
		memcpy(arg_pass, asked, page->nrows * sizeof(bool));
		exact &= eval_condition(tests, &test->args[a], page, arg_pass);
		for (int i = 0; i < page->nrows; i++)
			pass[i] |= arg_pass[i];
	}
	return exact;
}

/* Clear pass[i] for rows that surely do not pass; true if the others do. */
static bool
eval_condition(HjgKeptTests *tests, KeptTest *test, const HjgHeapPage *page, bool *pass)
{
	const HjgFilter *filter = test->filter;
	bool		exact = true;

	switch (filter->kind)
	{
		case HJG_FILTER_OR:
			return eval_or(tests, test, page, pass);
		case HJG_FILTER_ALL:
		case HJG_FILTER_AND:
			for (int a = 0; a < filter->nargs && memchr(pass, 1, page->nrows * sizeof(bool)) != NULL; a++)
				exact &= eval_condition(tests, &test->args[a], page, pass);
			return exact;
		default:
			return is_of_one_column(filter) && eval_kept_leaf(test, &page->kept[tests->attnos[filter->column]], page, pass);
	}
}

/* Is a condition false for all rows of the segment? False where that is not known. */
static bool
excludes_segment(HjgKeptTests *tests, KeptTest *test, const HjgKeptView *views, uint64 source)
{
	const HjgFilter *filter = test->filter;
	const bool	any = filter->kind == HJG_FILTER_ALL || filter->kind == HJG_FILTER_AND;

	if (filter->nargs == 0)
		return is_of_one_column(filter) && leaf_excludes(test, &views[tests->attnos[filter->column]], source);
	for (int a = 0; a < filter->nargs; a++)
		if (excludes_segment(tests, &test->args[a], views, source) == any)
			return any;
	return !any;
}

bool
hjg_scan_kept_tests_exclude(HjgKeptTests *tests, const HjgKeptView *views, uint64 source)
{
	const HjgFilter *all = tests->all.filter;

	/* a condition whose operand is not known yet must see a row that those before it pass */
	for (int a = 0; a < all->nargs && !hjg_vector_filter_is_open(all->args[a]); a++)
		if (excludes_segment(tests, &tests->all.args[a], views, source))
			return true;
	return false;
}

HjgFilter *
hjg_scan_kept_tests_eval(HjgKeptTests *tests, const HjgHeapPage *page, bool *pass)
{
	const HjgFilter *all = tests->all.filter;
	bool		known = page->rows[page->nrows - 1] == page->nrows - 1;	/* all rows, in order */

	tests->left.nargs = 0;
	for (int a = 0; a < all->nargs; a++)
	{
		known = known && !hjg_vector_filter_is_open(all->args[a]);
		if (!known || !eval_condition(tests, &tests->all.args[a], page, pass))
			tests->left.args[tests->left.nargs++] = all->args[a];
	}
	return &tests->left;
}
