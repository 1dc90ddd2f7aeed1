/*
 * node_program_column.c
 *	  Writes the columns of a segment for a program, with the strings that it tests or gives numbers.
 *
 * Strings are tested here, each different one of a segment, or, where they have no codes, by the device process's threads
 * (device_program_strings.c).
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/hsearch.h"

#include "node/hjg_program_write.h"

/* Strings that are looked at for a program: each takes some 30 ns. */
#define MOST_STRINGS 20000000

/* ---------- strings ---------- */

typedef struct WordKey
{
	const char *data;
	uint32		nbytes;
} WordKey;

typedef struct WordEntry
{
	WordKey		key;
	uint32		number;
} WordEntry;

static uint32
hash_word(const void *key, Size keysize)
{
	const WordKey *word = key;

	return hash_bytes((const unsigned char *) word->data, (int) word->nbytes);
}

static int
compare_words(const void *a, const void *b, Size keysize)
{
	const WordKey *x = a;
	const WordKey *y = b;

	return x->nbytes != y->nbytes ? 1 : memcmp(x->data, y->data, x->nbytes);
}

static void
make_numbers(HjgProgramWords *words)
{
	HASHCTL		control = {.keysize = sizeof(WordKey), .entrysize = sizeof(WordEntry), .hash = hash_word, .match = compare_words, .hcxt = CurrentMemoryContext};

	words->numbers = hash_create("strings of a program", 256, &control, HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
	words->room = 256;
	words->strings = palloc(words->room * sizeof(char *));
}

uint32
hjg_program_number_word(HjgProgramWords *words, const char *string, int attlen)
{
	const bool	varlena = attlen == -1;
	const WordKey key = {
		varlena ? VARDATA_ANY(string) : string, varlena ? VARSIZE_ANY_EXHDR(string) : hjg_vector_referred_bytes(attlen, string)
	};
	WordEntry  *entry;
	bool		found;

	if (words->numbers == NULL)
		make_numbers(words);
	entry = hash_search(words->numbers, &key, HASH_ENTER, &found);
	if (!found)
	{
		if (words->n == words->room)
			words->strings = repalloc(words->strings, (words->room *= 2) * sizeof(char *));
		entry->number = words->n;
		words->strings[words->n++] = string;
	}
	return entry->number;
}

/* Write the numbers of a segment's strings. */
static void
map_numbers(HjgProgramWords *words, const HjgKeptView *view, int attlen, uint32 *map)
{
	for (uint32 w = 0; w < view->column->nwords; w++)
		map[w] = hjg_program_number_word(words, view->bytes + view->places[w], attlen);
}

void
hjg_program_test_strings(const HjgFilter *test, const char **strings, int n, bool *passes)
{
	const HjgVector vector = {.column = {-1, false, 0}, .values = strings};

	for (int i = 0; i < n; i++)
		passes[i] = strings[i] != NULL;
	test->test_bytes(test, &vector, n, passes);
}

/* Write which of a segment's strings pass a test. */
static void
map_passes(const HjgFilter *test, const HjgKeptView *view, uint32 *map)
{
	const char *values[HJG_MAX_VECTOR_ROWS];
	bool		passes[HJG_MAX_VECTOR_ROWS];

	for (uint32 from = 0; from < view->column->nwords; from += HJG_MAX_VECTOR_ROWS)
	{
		const int	n = Min(view->column->nwords - from, HJG_MAX_VECTOR_ROWS);

		for (int i = 0; i < n; i++)
			values[i] = view->bytes + view->places[from + i];
		hjg_program_test_strings(test, values, n, passes);
		for (int i = 0; i < n; i++)
			map[from + i] = passes[i];
	}
}

/* Add strings to those that are looked at; false if they are too many. */
static bool
note_strings(HjgProgramWriter *writer, uint32 n)
{
	writer->nstrings += n;
	return writer->nstrings <= MOST_STRINGS || hjg_program_refuse(writer, "its strings are too many");
}

/* Write the map of a column of strings; returns its place, or HJG_PROGRAM_NO_MAP if there is none. */
static bool
write_map(HjgProgramWriter *writer, const HjgProgramSource *source, const HjgKeptView *view, uint32 *place)
{
	const int	attlen = TupleDescAttr(writer->desc, writer->collection.attnos[source->collected] - 1)->attlen;
	const uint32 nwords = view->column->nwords;
	uint32	   *map;

	*place = HJG_PROGRAM_NO_MAP;
	if (source->test == NULL && source->words == NULL)
		return true;
	if (!note_strings(writer, nwords))
		return false;
	*place = writer->maps.len / sizeof(uint32);
	map = hjg_program_extend(&writer->maps, nwords * sizeof(uint32));
	if (source->test != NULL)
		map_passes(source->test, view, map);
	else
		map_numbers(source->words, view, attlen, map);
	return true;
}

/* ---------- columns ---------- */

/* Put the memory of a column that is not kept into the block; returns its place. */
static uint64
copy_memory(HjgProgramWriter *writer, const HjgKeptView *view)
{
	const uint64 place = writer->memory.len;

	appendBinaryStringInfo(&writer->memory, view->memory, view->column->nbytes);
	while (writer->memory.len % MAXIMUM_ALIGNOF != 0)
		appendStringInfoChar(&writer->memory, 0);
	return place | HJG_PROGRAM_IN_BLOCK;
}

/* Write a test of strings, for which the device process reads them; returns its number. */
static uint32
write_test(HjgProgramWriter *writer, const HjgFilter *leaf)
{
	HjgProgramTests *tests = &writer->tests;
	HjgProgramTest test = {
		.kind = leaf->kind == HJG_FILTER_LIKE ? HJG_PROGRAM_LIKE : HJG_PROGRAM_IN_LIST, .negated = leaf->negated, .padded = leaf->padded,
		.nstrings = leaf->nset
	};
	const HjgSlice *slice = leaf->slice;

	for (int i = 0; i < leaf->nset; i++)
	{
		const HjgProgramString string = {.off = tests->bytes.len, .nbytes = leaf->bytes[i].nbytes};

		appendBinaryStringInfo(&tests->strings, (const char *) &string, sizeof(string));
		appendBinaryStringInfo(&tests->bytes, leaf->bytes[i].data, leaf->bytes[i].nbytes);
	}
	if (slice != NULL)
	{
		test.sliced = true;
		test.slice_padded = slice->padded;
		test.slice_utf8 = slice->utf8;
		test.slice_first = slice->first;
		test.slice_nchars = slice->nchars;
	}
	appendBinaryStringInfo(&tests->tests, (const char *) &test, sizeof(test));
	return tests->tests.len / sizeof(test) - 1;
}

/* Write a column of booleans in the place of strings of which some are compressed: do they pass the source's test? */
static bool
write_passes(HjgProgramWriter *writer, const HjgProgramSource *source, const HjgKeptView *view, HjgProgramColumn *column)
{
	const char *values[HJG_MAX_VECTOR_ROWS];

	if (!hjg_kept_check(view))
		return hjg_program_refuse(writer, "kept strings are not as they were written");
	if (!note_strings(writer, view->nrows))
		return false;
	*column = (HjgProgramColumn) {
		.place = (uint64) writer->memory.len | HJG_PROGRAM_IN_BLOCK, .nbytes = MAXALIGN(view->nrows), .width = sizeof(bool), .map = HJG_PROGRAM_NO_MAP,
		.test = HJG_PROGRAM_NO_TEST
	};
	for (uint32 from = 0; from < view->nrows; from += HJG_MAX_VECTOR_ROWS)
	{
		const int	n = Min(view->nrows - from, HJG_MAX_VECTOR_ROWS);

		for (int i = 0; i < n; i++)
			values[i] = hjg_kept_isnull(view, from + i) ? NULL : view->bytes + view->places[from + i];
		hjg_program_test_strings(source->test, values, n, hjg_program_extend(&writer->memory, n));
	}
	memset(hjg_program_extend(&writer->memory, column->nbytes - view->nrows), 0, column->nbytes - view->nrows);
	return true;
}

bool
hjg_program_write_column(HjgProgramWriter *writer, HjgProgramSource *source, const HjgCollectedSegment *segment, HjgProgramColumn *column)
{
	HjgKeptView view;
	const HjgKeptColumn *kept;

	hjg_scan_collected_view(segment, source->collected, &view);
	kept = view.column;
	if (kept->code == HJG_KEPT_BYTES && source->test == NULL)
		return hjg_program_refuse(writer, "strings have no codes");
	if (kept->code == HJG_KEPT_BYTES && kept->has_packed)
		return write_passes(writer, source, &view, column);
	*column = (HjgProgramColumn) {
		.nbytes = view.memory != NULL ? kept->nbytes : 0, .checksum = kept->checksum, .id = segment->memory != NULL ? 0 : kept->id,
		.least = kept->code == HJG_KEPT_WORDS ? 0 : kept->least, .width = kept->width, .has_nulls = kept->has_nulls, .nwords = kept->nwords,
		.map = HJG_PROGRAM_NO_MAP, .test = HJG_PROGRAM_NO_TEST
	};
	if (column->nbytes > 0)
		column->place = segment->memory != NULL ? copy_memory(writer, &view) : hjg_kept_offset(view.memory);
	if (kept->code != HJG_KEPT_BYTES)
		return write_map(writer, source, &view, &column->map);
	if (source->written == 0)
		source->written = 1 + write_test(writer, source->test);
	column->width = sizeof(uint32);
	column->test = source->written - 1;
	return true;
}
