/*
 * program_cases.c
 *	  Random programs, their columns, and their answers.
 *
 * A pipeline reads a relation: cells by column and row, which are encoded segment by segment, each in its own way; or the groups of
 * a pipeline before.  The evaluator works on the cells and groups.
 */
#include <string.h>

#include "hjg_program_cases.h"
#include "layout/hjg_checksum.h"

#define MOST_COLUMNS 7
#define MOST_SEGMENTS 4
#define FOREIGN 300				/* serial numbers of other relations that are below */
#define NBUCKETS 65536
#define MOST_UNWANTED 100		/* groups beside those that are wanted, which may come if only the first ones are */

/* A value; 0 if it is NULL. */
typedef struct Cell
{
	int64_t		number;
	bool		isnull;
} Cell;

/* ---- growing arrays ---- */

typedef struct List
{
	char	   *data;
	size_t		size;			/* of an element */
	size_t		n;
	size_t		most;
} List;

static void *
list_add(List *list, const void *elements, size_t n)
{
	while (list->n + n > list->most)
	{
		list->most = list->most * 2 + 64;
		list->data = realloc(list->data, list->most * list->size);
	}
	if (n == 0)
		return list->data;
	if (elements != NULL)
		memcpy(list->data + list->n * list->size, elements, n * list->size);
	else
		memset(list->data + list->n * list->size, 0, n * list->size);
	list->n += n;
	return list->data + (list->n - n) * list->size;
}

/* ---- rows by their keys ---- */

typedef struct Entry
{
	Cell		keys[HJG_PROGRAM_MAX_KEYS];
	Cell		payload[HJG_PROGRAM_MAX_PAYLOAD];
	int			next;
} Entry;

struct ProgramGroup
{
	Entry		entry;			/* the first member, so that groups are found like rows */
	bool		wanted;			/* the result must have it; */
	bool		passes;			/* it may have it */
	Cell		place;			/* by which the result is ordered */
	hjg_u64		nrows;
	hjg_u64		nulls[HJG_PROGRAM_MAX_ARGUMENTS];
	__int128	sum[HJG_PROGRAM_MAX_ARGUMENTS];
	int64_t		least[HJG_PROGRAM_MAX_ARGUMENTS];
	int64_t		greatest[HJG_PROGRAM_MAX_ARGUMENTS];
};

typedef struct Index
{
	List		entries;
	hjg_u32		nkeys;
	int			heads[NBUCKETS];
} Index;

static Index *
index_create(size_t entry_bytes, hjg_u32 nkeys)
{
	Index	   *index = calloc(1, sizeof(Index));

	index->entries.size = entry_bytes;
	index->nkeys = nkeys;
	memset(index->heads, 0xFF, sizeof(index->heads));
	return index;
}

static Entry *
index_entry(const Index *index, int i)
{
	return (Entry *) (index->entries.data + (size_t) i * index->entries.size);
}

static Entry *
index_find(Index *index, const Cell *keys, bool enter, bool *made)
{
	hjg_u64		hash = 14695981039346656037ull;
	int			i;
	Entry	   *entry;

	for (hjg_u32 k = 0; k < index->nkeys; k++)
		hash = (hash ^ (hjg_u64) keys[k].number ^ (hjg_u64) keys[k].number >> 29) * 1099511628211ull + keys[k].isnull;
	hash = (hash >> 32) % NBUCKETS;
	for (i = index->heads[hash]; i >= 0; i = entry->next)
	{
		hjg_u32		k = 0;

		entry = index_entry(index, i);
		while (k < index->nkeys && entry->keys[k].number == keys[k].number && entry->keys[k].isnull == keys[k].isnull)
			k++;
		if (k == index->nkeys)
			break;
	}
	*made = i < 0 && enter;
	if (i < 0 && !enter)
		return NULL;
	if (i < 0)
	{
		i = (int) index->entries.n;
		entry = list_add(&index->entries, NULL, 1);
		memcpy(entry->keys, keys, index->nkeys * sizeof(Cell));
		entry->next = index->heads[hash];
		index->heads[hash] = i;
	}
	return index_entry(index, i);
}

static void
index_free(Index *index)
{
	if (index != NULL)
		free(index->entries.data);
	free(index);
}

/* ---- the writer ---- */

typedef enum ColumnKind
{
	SERIAL,						/* the row's number */
	REFERENCE,					/* a serial number */
	SMALL,
	WIDE,
	HUGE_NUMBERS,
	CONSTANT,
	MAPPED,
	TESTED,						/* whether a string passes the column's test */
	COLUMN_KINDS
} ColumnKind;

/* A string, of which some are longer than a length of one byte can tell. */
typedef struct Text
{
	hjg_u8		n;
	bool		isnull;
	bool		wide;			/* its length has four bytes, though one would do */
	char		bytes[200];
} Text;

typedef struct Relation
{
	hjg_u32		ncolumns;
	ColumnKind	kinds[MOST_COLUMNS];
	hjg_u32		nsegments;
	hjg_u32		first_row[MOST_SEGMENTS + 1];
	hjg_u32		numbers[MOST_SEGMENTS];	/* of the segments */
	Cell	   *cells[MOST_COLUMNS];
	Text	   *texts[MOST_COLUMNS];	/* of tested columns, */
	hjg_u32		tests[MOST_COLUMNS];	/* with the number of their test */
	bool	   *seen;
} Relation;

typedef struct Writer
{
	Random		random;
	const ProgramShape *shape;
	hjg_u32		ncomplete;		/* tables that no further pipeline fills */
	HjgProgram	head;
	List		pipelines,
				tables,
				steps,
				segments,
				columns,
				runs,
				maps,
				values,
				arguments,
				tests,
				strings,
				bytes;
	List		own;			/* memory of columns in the block */
	List		kept;
	Relation	relations[HJG_PROGRAM_MAX_PIPELINES];
	Index	   *filled[HJG_PROGRAM_MAX_PIPELINES];
	HjgProgramPipeline result;	/* its steps, as those of a pipeline */
	bool		refused;
	hjg_u64		next_id;

	/* of the pipeline that is written: registers that have booleans; numbers otherwise */
	bool		boolean[HJG_PROGRAM_REGISTERS];
	hjg_u32		first_payload;	/* registers that the last probe has set, */
	hjg_u32		npayload;		/* number of them */
} Writer;

static hjg_u32
below(Writer *w, hjg_u32 n)
{
	return random_below(&w->random, n);
}

static bool
one_in(Writer *w, hjg_u32 n)
{
	return below(w, n) == 0;
}

/* ---- strings ---- */

/* Write a string of so many letters at random, of which there are few. */
static void
write_letters(Writer *w, char *to, hjg_u32 n)
{
	for (hjg_u32 i = 0; i < n; i++)
		to[i] = (char) ('a' + below(w, 2));
}

/* Write a test at random; returns its number. */
static hjg_u32
write_test(Writer *w)
{
	HjgProgramTest test = {.kind = below(w, HJG_PROGRAM_TEST_KINDS), .negated = below(w, 2)};

	test.padded = test.kind == HJG_PROGRAM_IN_LIST ? below(w, 2) : 0;
	test.sliced = one_in(w, 3);
	test.slice_padded = below(w, 2);
	test.slice_utf8 = below(w, 2);
	test.slice_first = (int32_t) below(w, 3);
	test.slice_nchars = one_in(w, 3) ? INT32_MAX : (int32_t) below(w, 5);
	test.nstrings = test.kind == HJG_PROGRAM_LIKE ? 2 + below(w, 3) : below(w, 6);
	for (hjg_u32 i = 0; i < test.nstrings; i++)
	{
		const hjg_u32 least = test.kind == HJG_PROGRAM_LIKE && i > 0 && i + 1 < test.nstrings;
		const HjgProgramString string = {.off = (hjg_u32) w->bytes.n, .nbytes = least + below(w, test.kind == HJG_PROGRAM_LIKE ? 3 - least : 4)};

		write_letters(w, list_add(&w->bytes, NULL, string.nbytes), string.nbytes);
		list_add(&w->strings, &string, 1);
	}
	list_add(&w->tests, &test, 1);
	return (hjg_u32) w->tests.n - 1;
}

/* Get string i of a test. */
static const char *
test_string(const Writer *w, hjg_u32 i, hjg_u32 *nbytes)
{
	const HjgProgramString *string = (const HjgProgramString *) w->strings.data + i;

	*nbytes = string->nbytes;
	return w->bytes.data + string->off;
}

/* Do strings i to the last one follow one another in the text, from this place on, the last one at its end? */
static bool
follow_from(const Writer *w, const Text *text, hjg_u32 at, hjg_u32 i, hjg_u32 last)
{
	hjg_u32		nbytes;
	const char *bytes = test_string(w, i, &nbytes);

	for (; at + nbytes <= text->n; at++)
		if (memcmp(text->bytes + at, bytes, nbytes) == 0 && (i == last ? at + nbytes == text->n : follow_from(w, text, at + nbytes, i + 1, last)))
			return true;
	return false;
}

/* Cut the part of a text out that a test is of; letters have a byte. */
static Text
cut_text(const HjgProgramTest *test, const Text *text)
{
	Text		cut = *text;

	while (test->slice_padded && cut.n > 0 && cut.bytes[cut.n - 1] == ' ')
		cut.n--;
	cut.n = cut.n > test->slice_first ? (hjg_u8) (cut.n - test->slice_first) : 0;
	memmove(cut.bytes, cut.bytes + test->slice_first, cut.n);
	cut.n = cut.n > test->slice_nchars ? (hjg_u8) test->slice_nchars : cut.n;
	return cut;
}

static bool
passes_test(const Writer *w, hjg_u32 number, const Text *whole)
{
	const HjgProgramTest *tests = (const HjgProgramTest *) w->tests.data;
	const Text	cut = cut_text(&tests[number], whole);
	const Text *text = tests[number].sliced ? &cut : whole;
	hjg_u32		first = 0;
	hjg_u32		nbytes;
	hjg_u32		n = text->n;
	bool		passes = false;

	for (hjg_u32 t = 0; t < number; t++)
		first += tests[t].nstrings;
	if (tests[number].kind == HJG_PROGRAM_LIKE)
	{
		const char *bytes = test_string(w, first, &nbytes);

		passes = nbytes <= n && memcmp(text->bytes, bytes, nbytes) == 0 && follow_from(w, text, nbytes, first + 1, first + tests[number].nstrings - 1);
	}
	else
		for (hjg_u32 i = first; i < first + tests[number].nstrings; i++)
		{
			const char *bytes = test_string(w, i, &nbytes);

			while (tests[number].padded && n > 0 && text->bytes[n - 1] == ' ')
				n--;
			passes |= nbytes == n && memcmp(text->bytes, bytes, nbytes) == 0;
		}
	return !text->isnull && passes != (tests[number].negated != 0);
}

/* Make the strings of a column, and its test; its cells are whether they pass. */
static void
make_texts(Writer *w, Relation *relation, hjg_u32 c)
{
	const hjg_u32 nrows = relation->first_row[relation->nsegments];
	const bool	has_nulls = one_in(w, 2);

	relation->texts[c] = calloc(nrows + 1, sizeof(Text));
	relation->tests[c] = write_test(w);
	for (hjg_u32 i = 0; i < nrows; i++)
	{
		Text	   *text = &relation->texts[c][i];
		const hjg_u32 nspaces = one_in(w, 4) ? below(w, 3) : 0;

		text->isnull = has_nulls && one_in(w, 7);
		text->wide = one_in(w, 5);
		text->n = (hjg_u8) (one_in(w, 30) ? below(w, sizeof(text->bytes) - 2) : below(w, one_in(w, 2) ? 4 : 12));
		write_letters(w, text->bytes, text->n);
		memset(text->bytes + text->n, ' ', nspaces);
		text->n += (hjg_u8) nspaces;
		relation->cells[c][i].number = passes_test(w, relation->tests[c], text);
	}
}

/* Write the strings of a segment. */
static void
write_texts(Writer *w, const Relation *relation, hjg_u32 c, hjg_u32 s)
{
	const hjg_u32 nrows = relation->first_row[s + 1] - relation->first_row[s];
	const Text *texts = relation->texts[c] + relation->first_row[s];
	List	   *to = w->shape->all_kept || one_in(w, 2) ? &w->kept : &w->own;
	HjgProgramColumn column = {.map = HJG_PROGRAM_NO_MAP, .test = relation->tests[c], .width = 4};
	hjg_u64		null_bytes;
	hjg_u64		at = 0;
	char	   *memory;
	char	   *strings;

	for (hjg_u32 i = 0; i < nrows; i++)
		column.has_nulls |= texts[i].isnull;
	null_bytes = column.has_nulls ? (nrows + 63) / 64 * 8 : 0;
	column.nbytes = null_bytes + ((hjg_u64) nrows * 4 + 7) / 8 * 8 + (hjg_u64) nrows * (sizeof(texts->bytes) + 8) + 8;
	memory = list_add(to, NULL, column.nbytes / 8);
	memset(memory, 0, column.nbytes);
	strings = memory + null_bytes + ((size_t) nrows * 4 + 7) / 8 * 8;
	for (hjg_u32 i = 0; i < nrows; i++)
	{
		const hjg_u32 place = (hjg_u32) at;
		const hjg_u32 header = texts[i].wide || texts[i].n > 126 ? (texts[i].n + 4u) << 2 : (texts[i].n + 1u) << 1 | 1;
		const hjg_u32 header_bytes = (header & 1) != 0 ? 1 : 4;

		if (texts[i].isnull)
		{
			/* the values there are never read */
			memory[i / 8] |= (char) (1 << i % 8);
			memset(memory + null_bytes + (size_t) i * 4, 255, 4);
			continue;
		}
		memcpy(memory + null_bytes + (size_t) i * 4, &place, sizeof(place));
		memcpy(strings + at, &header, header_bytes);
		memcpy(strings + at + header_bytes, texts[i].bytes, texts[i].n);
		at += header_bytes + texts[i].n + below(w, 4);
	}
	/* the last string ends with the memory, so that a sanitizer sees what is read behind it */
	column.nbytes = (hjg_u64) (strings - memory) + (at + 7) / 8 * 8;
	to->n = (size_t) (memory - to->data + column.nbytes) / 8;
	column.place = (hjg_u64) (memory - to->data) | (to == &w->own ? HJG_PROGRAM_IN_BLOCK : 0);
	column.checksum = hjg_checksum_column(memory, column.nbytes);
	list_add(&w->columns, &column, 1);
}

/* ---- columns ---- */

/* Make the cells of a column, and the map of a mapped one. */
static void
make_cells(Writer *w, Relation *relation, hjg_u32 c)
{
	const hjg_u32 nrows = relation->first_row[relation->nsegments];
	const bool	has_nulls = relation->kinds[c] != SERIAL && one_in(w, 2);
	const int64_t constant = (int64_t) below(w, 50) - 25;
	/* of wide numbers: what just fits into so many bytes, and what just does not */
	const hjg_u64 range = ((hjg_u64) 1 << 8 * (1 << below(w, 3))) - 1 + below(w, 2);
	const int64_t least = (int64_t) below(w, UINT32_MAX) - INT32_MAX;

	relation->cells[c] = calloc(nrows + 1, sizeof(Cell));
	if (relation->kinds[c] == TESTED)
	{
		make_texts(w, relation, c);
		return;
	}
	for (hjg_u32 i = 0; i < nrows; i++)
	{
		Cell	   *cell = &relation->cells[c][i];

		cell->isnull = has_nulls && one_in(w, 7);
		if (cell->isnull)
			continue;
		switch (relation->kinds[c])
		{
			case SERIAL:
				cell->number = i;
				break;
			case REFERENCE:
				cell->number = below(w, FOREIGN);
				break;
			case SMALL:
				cell->number = (int64_t) below(w, 9) - 4;
				break;
			case WIDE:
				cell->number = least + (int64_t) (one_in(w, 9) ? range : one_in(w, 9) ? 0 : random_u64(&w->random) % (range + 1));
				break;
			case HUGE_NUMBERS:
				cell->number = one_in(w, 20) ? (one_in(w, 2) ? INT64_MIN : INT64_MAX) : (int64_t) random_u64(&w->random);
				break;
			default:
				cell->number = constant;
		}
	}
}

static hjg_u32
choose_width(Writer *w, hjg_u64 greatest_code)
{
	static const hjg_u32 widths[] = {0, 1, 2, 4, 8};
	hjg_u32		i = 0;

	while (widths[i] < 8 && (widths[i] == 0 ? greatest_code > 0 : greatest_code >> (8 * widths[i]) != 0))
		i++;
	while (i < 4 && one_in(w, 3))
		i++;
	return widths[i];
}

/* Map a segment's cells: each gets a new value from a new map, where some codes have none. */
static void
map_cells(Writer *w, HjgProgramColumn *column, Cell *cells, hjg_u32 nrows, hjg_u64 *codes)
{
	const hjg_u32 nwords = 1 + below(w, 40);
	hjg_u32    *map;

	column->map = (hjg_u32) w->maps.n;
	column->nwords = nwords;
	map = list_add(&w->maps, NULL, nwords);
	for (hjg_u32 i = 0; i < nwords; i++)
		map[i] = one_in(w, 4) ? UINT32_MAX - i : below(w, 12);
	for (hjg_u32 i = 0; i < nrows; i++)
	{
		codes[i] = cells[i].isnull ? 0 : below(w, nwords + 1);
		if (!cells[i].isnull)
			cells[i].number = codes[i] < nwords ? map[codes[i]] : 0;
	}
}

/* Encode a segment's cells of a column. */
static void
write_column(Writer *w, ColumnKind kind, Cell *cells, hjg_u32 nrows)
{
	HjgProgramColumn column = {.map = HJG_PROGRAM_NO_MAP, .test = HJG_PROGRAM_NO_TEST};
	hjg_u64    *codes = calloc(nrows + 1, sizeof(hjg_u64));
	hjg_u64		greatest = 0;
	hjg_u64		null_bytes;
	List	   *to = w->shape->all_kept || one_in(w, 2) ? &w->kept : &w->own;
	char	   *memory;
	bool		any = false;

	for (hjg_u32 i = 0; i < nrows; i++)
	{
		column.has_nulls |= cells[i].isnull;
		if (!cells[i].isnull && (!any || cells[i].number < column.least))
			column.least = cells[i].number;
		any |= !cells[i].isnull;
	}
	if (kind == MAPPED)
		map_cells(w, &column, cells, nrows, codes);
	for (hjg_u32 i = 0; i < nrows; i++)
	{
		if (kind != MAPPED && !cells[i].isnull)
			codes[i] = (hjg_u64) cells[i].number - (hjg_u64) column.least;
		greatest = codes[i] > greatest ? codes[i] : greatest;
	}
	column.width = nrows > 0 ? choose_width(w, greatest) : 0;
	null_bytes = column.has_nulls ? (nrows + 63) / 64 * 8 : 0;
	if (column.has_nulls || column.width > 0)
	{
		column.nbytes = null_bytes + ((hjg_u64) nrows * column.width + 7) / 8 * 8;
		/* something behind the codes, as strings have */
		if (to == &w->kept && one_in(w, 3))
			column.nbytes += 8 * (1 + below(w, 60));
		memory = list_add(to, NULL, column.nbytes / 8);
		for (hjg_u64 i = 0; i < column.nbytes; i++)
			memory[i] = (char) below(w, 256);
		memset(memory, 0, null_bytes);
		for (hjg_u32 i = 0; i < nrows; i++)
		{
			memory[i / 8] |= (char) (cells[i].isnull ? 1 << i % 8 : 0) & (column.has_nulls ? -1 : 0);
			memcpy(memory + null_bytes + (size_t) i * column.width, &codes[i], column.width);
		}
		column.place = (hjg_u64) (memory - to->data) | (to == &w->own ? HJG_PROGRAM_IN_BLOCK : 0);
		column.checksum = hjg_checksum_column(memory, column.nbytes);
		column.id = w->shape->all_kept || !one_in(w, 4) ? ++w->next_id : 0;
	}
	list_add(&w->columns, &column, 1);
	free(codes);
}

/* Choose the rows that are seen. */
static void
write_runs(Writer *w, Relation *relation, hjg_u32 s, HjgProgramSegment *segment)
{
	const hjg_u32 way = below(w, 5);
	hjg_u32		at = 0;

	segment->first_run = (hjg_u32) w->runs.n;
	while (at < segment->nrows && way > 0)
	{
		HjgProgramRun run = {.first_row = at, .end_row = segment->nrows};

		if (way > 2)
		{
			run.first_row += below(w, way == 3 ? 3 : 200);
			run.end_row = run.first_row + 1 + below(w, way == 3 ? 3000 : 60);
		}
		if (run.first_row >= segment->nrows)
			break;
		run.end_row = run.end_row < segment->nrows ? run.end_row : segment->nrows;
		list_add(&w->runs, &run, 1);
		segment->nruns++;
		for (hjg_u32 i = run.first_row; i < run.end_row; i++)
			relation->seen[relation->first_row[s] + i] = true;
		at = run.end_row;
	}
}

/* Make a relation and write its segments and columns. */
static void
write_relation(Writer *w, Relation *relation, HjgProgramPipeline *pipeline)
{
	relation->ncolumns = 2 + below(w, MOST_COLUMNS - 1);
	relation->nsegments = below(w, 8) == 0 ? 0 : 1 + below(w, MOST_SEGMENTS);
	for (hjg_u32 s = 0; s < relation->nsegments; s++)
		relation->first_row[s + 1] = relation->first_row[s] + (one_in(w, 12) ? 0 : 1 + below(w, w->shape->most_rows));
	relation->seen = calloc(relation->first_row[relation->nsegments] + 1, sizeof(bool));
	for (hjg_u32 c = 0; c < relation->ncolumns; c++)
	{
		relation->kinds[c] = c == 0 ? SERIAL : c == 1 ? REFERENCE : (ColumnKind) below(w, w->shape->coded ? TESTED : COLUMN_KINDS);
		make_cells(w, relation, c);
	}
	pipeline->ncolumns = relation->ncolumns;
	pipeline->first_segment = (hjg_u32) w->segments.n;
	pipeline->nsegments = relation->nsegments;
	for (hjg_u32 s = 0; s < relation->nsegments; s++)
	{
		HjgProgramSegment segment = {
			.nrows = relation->first_row[s + 1] - relation->first_row[s], .number = below(w, 100000), .first_column = (hjg_u32) w->columns.n
		};

		relation->numbers[s] = segment.number;

		for (hjg_u32 c = 0; c < relation->ncolumns; c++)
			if (relation->kinds[c] == TESTED && segment.nrows > 0)
				write_texts(w, relation, c, s);
			else
				write_column(w, relation->kinds[c], relation->cells[c] + relation->first_row[s], segment.nrows);
		write_runs(w, relation, s, &segment);
		list_add(&w->segments, &segment, 1);
	}
	for (hjg_u32 i = 0; i < relation->first_row[relation->nsegments]; i++)
		pipeline->nrows += relation->seen[i];
}

/* ---- steps ---- */

static HjgProgramStep *
add_step(Writer *w, HjgProgramPipeline *pipeline, HjgProgramOp op, hjg_u32 to, hjg_u32 left, hjg_u32 right)
{
	HjgProgramStep *step = list_add(&w->steps, NULL, 1);

	*step = (HjgProgramStep) {.op = (hjg_u8) op, .to = (hjg_u8) to, .left = (hjg_u8) left, .right = (hjg_u8) right};
	pipeline->nsteps++;
	return step;
}

static void
load_column(Writer *w, HjgProgramPipeline *pipeline, hjg_u32 reg, hjg_u32 c)
{
	add_step(w, pipeline, HJG_PROGRAM_COLUMN, reg, 0, 0)->arg = c;
	w->boolean[reg] = false;
}

static const HjgProgramTable *
table_of(const Writer *w, hjg_u32 t)
{
	return (const HjgProgramTable *) w->tables.data + t;
}

/* Load any value of a group: of an argument those that are wanted. */
static void
load_group_value(Writer *w, HjgProgramPipeline *pipeline, hjg_u32 reg)
{
	const HjgProgramTable *groups = table_of(w, pipeline->source);
	const hjg_u32 i = groups->narguments > 0 ? below(w, groups->narguments) : 0;
	const HjgProgramArgument *argument = (const HjgProgramArgument *) w->arguments.data + groups->first_argument + i;
	hjg_u32		which = below(w, groups->nkeys + 1);

	if (groups->narguments > 0 && one_in(w, 2))
	{
		const hjg_u32 part = argument->wants_sum && one_in(w, 2) ? HJG_PROGRAM_GROUP_SUM :
			argument->wants_extremes ? HJG_PROGRAM_GROUP_LEAST + below(w, 2) : HJG_PROGRAM_GROUP_COUNT;

		which = HJG_PROGRAM_GROUP_VALUE(groups->nkeys, i, part);
	}
	add_step(w, pipeline, HJG_PROGRAM_GROUP, reg, 0, 0)->arg = which;
	w->boolean[reg] = false;
}

/* Load any value of a row. */
static void
load_value(Writer *w, const Relation *relation, HjgProgramPipeline *pipeline, hjg_u32 reg)
{
	if (pipeline->source != HJG_PROGRAM_FROM_SEGMENTS)
		load_group_value(w, pipeline, reg);
	else if (one_in(w, 12))
	{
		add_step(w, pipeline, HJG_PROGRAM_ROW, reg, 0, 0);
		w->boolean[reg] = false;
	}
	else
		load_column(w, pipeline, reg, below(w, relation->ncolumns));
}

/* Load a value that often has a partner in other tables. */
static void
load_reference(Writer *w, const Relation *relation, HjgProgramPipeline *pipeline, hjg_u32 reg)
{
	if (pipeline->source == HJG_PROGRAM_FROM_SEGMENTS && one_in(w, 2))
		load_column(w, pipeline, reg, 1);
	else
		load_value(w, relation, pipeline, reg);
}

static int64_t
some_number(Writer *w)
{
	return one_in(w, 5) ? (int64_t) random_u64(&w->random) : (int64_t) below(w, 300) - 20;
}

/* Choose what a step rounds down to: the least and the greatest there may be, a day, and others. */
static void
add_multiples(Writer *w, HjgProgramStep *step)
{
	static const int64_t chosen[] = {HJG_PROGRAM_LEAST_ROUNDED, HJG_PROGRAM_MOST_ROUNDED, INT64_C(86400000000), INT64_C(3600000000)};

	step->low = one_in(w, 2) ? chosen[below(w, 4)] :
		HJG_PROGRAM_LEAST_ROUNDED + (int64_t) (random_u64(&w->random) % (hjg_u64) (HJG_PROGRAM_MOST_ROUNDED - HJG_PROGRAM_LEAST_ROUNDED));
	step->high = one_in(w, 2) ? 0 : one_in(w, 2) ? step->low - 1 : (int64_t) (random_u64(&w->random) % (hjg_u64) step->low);
}

/* Choose the values that a step looks up. */
static void
add_values(Writer *w, HjgProgramStep *step)
{
	const int64_t n = 1 + below(w, 30);

	add_multiples(w, step);
	step->high = step->low;
	step->low = one_in(w, 5) ? some_number(w) : (int64_t) below(w, 300) - (int64_t) below(w, 32) * step->high;
	step->arg = (hjg_u32) w->values.n;
	list_add(&w->values, &n, 1);
	for (int64_t i = 0; i < n; i++)
	{
		const int64_t value = some_number(w);

		list_add(&w->values, &value, 1);
	}
}

/* Compare numbers, or test for NULL; the register becomes a boolean. */
static void
add_test(Writer *w, HjgProgramPipeline *pipeline, hjg_u32 to, hjg_u32 left, hjg_u32 right)
{
	const HjgProgramOp op = (HjgProgramOp) (HJG_PROGRAM_IN_RANGE + below(w, HJG_PROGRAM_IS_NOT_NULL - HJG_PROGRAM_IN_RANGE + 1));
	HjgProgramStep *step = add_step(w, pipeline, op, to, left, right);

	w->boolean[to] = true;
	if (op <= HJG_PROGRAM_NOT_IN_RANGE)
	{
		step->low = some_number(w);
		step->high = (int64_t) ((hjg_u64) step->low + (hjg_u64) (one_in(w, 2) ? 100 : some_number(w)));
		return;
	}
	if (op > HJG_PROGRAM_NOT_IN_SET)
		return;
	step->arg = (hjg_u32) w->values.n;
	step->low = below(w, 20);
	for (int64_t i = 0, number = some_number(w) % 1000 - 100; i < step->low; i++, number += 1 + below(w, 9))
		list_add(&w->values, &number, 1);
}

/* Get a number that is in a column, or near one, or anything. */
static int64_t
number_near(Writer *w, const Relation *relation, hjg_u32 c)
{
	const hjg_u32 nrows = relation->first_row[relation->nsegments];

	if (nrows == 0 || one_in(w, 5))
		return one_in(w, 2) ? (one_in(w, 2) ? INT64_MIN : INT64_MAX) : some_number(w);
	return (int64_t) ((hjg_u64) relation->cells[c][below(w, nrows)].number + below(w, 3) - 1);
}

/* Have only those rows go on whose value of a column is between two numbers, or, of mapped ones, is not 0. */
static void
add_column_test(Writer *w, const Relation *relation, HjgProgramPipeline *pipeline)
{
	const hjg_u32 c = below(w, relation->ncolumns);
	const hjg_u32 reg = below(w, 8);
	const hjg_u32 to = one_in(w, 4) ? reg : below(w, 8);
	HjgProgramStep *step;

	load_column(w, pipeline, reg, c);
	if (relation->kinds[c] == MAPPED && one_in(w, 2))
	{
		add_step(w, pipeline, HJG_PROGRAM_FILTER, 0, reg, 0);
		return;
	}
	step = add_step(w, pipeline, HJG_PROGRAM_IN_RANGE, to, reg, 0);
	step->low = one_in(w, 2) ? INT64_MIN : number_near(w, relation, c);
	step->high = one_in(w, 2) ? INT64_MAX : number_near(w, relation, c);
	w->boolean[to] = true;
	add_step(w, pipeline, HJG_PROGRAM_FILTER, 0, to, 0);
}

/* Find a register with a boolean, from a random one on; -1: there is none. */
static int
find_boolean(Writer *w)
{
	const hjg_u32 first = below(w, HJG_PROGRAM_REGISTERS);

	for (hjg_u32 i = 0; i < HJG_PROGRAM_REGISTERS; i++)
		if (w->boolean[(first + i) % HJG_PROGRAM_REGISTERS])
			return (int) ((first + i) % HJG_PROGRAM_REGISTERS);
	return -1;
}

static void
add_probe(Writer *w, HjgProgramPipeline *pipeline, const Relation *relation)
{
	const hjg_u32 t = below(w, w->ncomplete);
	const HjgProgramTable *table = table_of(w, t);
	const HjgProgramOp op = one_in(w, 2) ? HJG_PROGRAM_PROBE_LEFT : (HjgProgramOp) (HJG_PROGRAM_PROBE_INNER + below(w, 4));
	const hjg_u32 left = below(w, HJG_PROGRAM_REGISTERS - table->nkeys);
	const hjg_u32 to = below(w, one_in(w, 2) ? 8 : HJG_PROGRAM_REGISTERS - table->npayload);

	if (table->has_groups)
		return;
	for (hjg_u32 k = 0; k < table->nkeys; k++)
		load_reference(w, relation, pipeline, left + k);
	add_step(w, pipeline, op, to, left, 0)->arg = t;
	if (op > HJG_PROGRAM_PROBE_LEFT)
		return;
	memset(w->boolean + to, 0, table->npayload);
	w->first_payload = to;
	w->npayload = table->npayload;
}

/* Write steps of a pipeline, or of the result, which does not probe. */
static void
write_steps(Writer *w, const Relation *relation, HjgProgramPipeline *pipeline)
{
	const hjg_u32 n = below(w, 30);
	hjg_u32		nfilters = 0;

	w->npayload = 0;
	pipeline->first_step = (hjg_u32) w->steps.n;
	while (pipeline->source == HJG_PROGRAM_FROM_SEGMENTS && pipeline != &w->result && one_in(w, 3))
		add_column_test(w, relation, pipeline);
	for (hjg_u32 i = 0; i < n; i++)
	{
		const hjg_u32 to = below(w, one_in(w, 3) ? HJG_PROGRAM_REGISTERS : 8);
		const hjg_u32 left = below(w, one_in(w, 5) ? HJG_PROGRAM_REGISTERS : 8);
		const hjg_u32 right = below(w, one_in(w, 5) ? HJG_PROGRAM_REGISTERS : 8);
		const int	one = find_boolean(w);
		const int	other = find_boolean(w);
		HjgProgramStep *step;

		switch (below(w, 8))
		{
			case 0:
			case 1:
				load_value(w, relation, pipeline, to);
				break;
			case 2:
				step = add_step(w, pipeline, HJG_PROGRAM_CONSTANT, to, 0, 0);
				step->low = some_number(w);
				step->high = one_in(w, 4);
				w->boolean[to] = false;
				break;
			case 3:
				step = add_step(w, pipeline, (HjgProgramOp) (HJG_PROGRAM_ADD + below(w, 8)), to, left, right);
				w->boolean[to] = false;
				if (step->op == HJG_PROGRAM_ROUND_DOWN)
					add_multiples(w, step);
				if (step->op == HJG_PROGRAM_LOOK_UP)
					add_values(w, step);
				if (step->op == HJG_PROGRAM_FLOAT)
					step->low = one_in(w, 2) ? 4 : 8;
				break;
			case 4:
				add_test(w, pipeline, to, left, right);
				break;
			case 5:
				if (one >= 0)
					add_step(w, pipeline, one_in(w, 2) ? HJG_PROGRAM_AND : HJG_PROGRAM_OR, to, (hjg_u32) one, (hjg_u32) other);
				w->boolean[to] |= one >= 0;
				break;
			case 6:
				/* most rows come to the end of some pipelines */
				if (one >= 0 && nfilters++ < 2 && one_in(w, 4))
					add_step(w, pipeline, HJG_PROGRAM_FILTER, 0, (hjg_u32) one, 0);
				break;
			case 7:
				if (w->ncomplete > 0 && pipeline != &w->result && !w->shape->nested)
					add_probe(w, pipeline, relation);
		}
	}
}

/* Choose the keys and the payload of the table that the pipeline fills. */
static void
write_table(Writer *w, const Relation *relation, HjgProgramPipeline *pipeline)
{
	HjgProgramTable *table = list_add(&w->tables, NULL, 1);
	const bool	of_rows = pipeline->source == HJG_PROGRAM_FROM_SEGMENTS;

	/* a group has all of its keys once */
	table->unique = w->shape->repeated_keys || (one_in(w, 2) && (of_rows || table_of(w, pipeline->source)->nkeys == 1));
	table->nkeys = w->shape->one_key ? 1 : 1 + below(w, 3);
	table->npayload = below(w, 5);
	for (hjg_u32 k = 0; k < table->nkeys; k++)
	{
		pipeline->keys[k] = (hjg_u8) (10 + k);
		/* the serial number makes keys unique */
		if (k > 0)
			load_value(w, relation, pipeline, 10 + k);
		else if (of_rows)
			load_column(w, pipeline, 10, table->unique && !w->shape->repeated_keys ? 0 : 1);
		else
			add_step(w, pipeline, HJG_PROGRAM_GROUP, 10, 0, 0);
	}
	/* of rows with the same keys, any may be the first: they have the same payload */
	for (hjg_u32 p = 0; p < table->npayload; p++)
	{
		pipeline->payload[p] = (hjg_u8) (!table->unique ? 10 + below(w, table->nkeys) : one_in(w, 3) ? below(w, HJG_PROGRAM_REGISTERS) : 16 + p);
		if (pipeline->payload[p] == 16 + p)
			load_value(w, relation, pipeline, 16 + p);
	}
	pipeline->sink = (hjg_u32) w->tables.n - 1;
}

/* Write groups; last: those of the result. */
static void
write_groups(Writer *w, const Relation *relation, HjgProgramPipeline *pipeline, bool last)
{
	const hjg_u32 narguments = one_in(w, 20) ? HJG_PROGRAM_MAX_ARGUMENTS : below(w, 5);
	const bool	many = w->shape->many_groups;
	HjgProgramTable *table = list_add(&w->tables, NULL, 1);

	table->has_groups = 1;
	table->nkeys = w->shape->one_key ? 1 : many ? 1 + below(w, 2) : one_in(w, 30) ? HJG_PROGRAM_MAX_KEYS : below(w, 4);
	for (hjg_u32 k = 0; k < table->nkeys; k++)
	{
		pipeline->keys[k] = (hjg_u8) below(w, HJG_PROGRAM_REGISTERS);
		if (one_in(w, 2) || !last)
			load_value(w, relation, pipeline, pipeline->keys[k]);
	}
	if (many && pipeline->source == HJG_PROGRAM_FROM_SEGMENTS)
		load_column(w, pipeline, pipeline->keys[0], 0);
	else if (w->shape->nested && pipeline->source == HJG_PROGRAM_FROM_SEGMENTS)
	{
		/* groups of a few rows */
		table->nkeys = 1;
		load_column(w, pipeline, pipeline->keys[0], 1);
	}
	table->first_argument = (hjg_u32) w->arguments.n;
	table->narguments = narguments;
	for (hjg_u32 i = 0; i < narguments; i++)
	{
		const hjg_u32 reg = w->npayload > 0 && one_in(w, 2) ? w->first_payload + below(w, w->npayload) : below(w, one_in(w, 4) ? HJG_PROGRAM_REGISTERS : 8);
		HjgProgramArgument *argument;

		if (w->shape->nested)
			load_value(w, relation, pipeline, reg);
		argument = list_add(&w->arguments, NULL, 1);
		argument->reg = reg;
		argument->wants_sum = below(w, 2);
		argument->wants_extremes = below(w, 2);
		argument->greatest = UINT64_MAX;
	}
	pipeline->sink = (hjg_u32) w->tables.n - 1;
}

/* Have a pipeline fill the table that the one before it fills: from the same registers, of which some have other values. */
static void
share_sink(Writer *w, const Relation *relation, const HjgProgramPipeline *before, HjgProgramPipeline *pipeline)
{
	const HjgProgramTable *table = table_of(w, before->sink);

	pipeline->sink = before->sink;
	memcpy(pipeline->keys, before->keys, sizeof(pipeline->keys));
	memcpy(pipeline->payload, before->payload, sizeof(pipeline->payload));
	for (hjg_u32 k = 0; k < table->nkeys; k++)
		if (one_in(w, 2) || table->nkeys == 1)
			load_value(w, relation, pipeline, pipeline->keys[k]);
}

/* Choose where a pipeline's rows come from. */
static hjg_u32
choose_source(Writer *w)
{
	const hjg_u32 t = w->ncomplete > 0 ? below(w, w->ncomplete) : 0;

	return w->ncomplete > 0 && table_of(w, t)->has_groups ? t : HJG_PROGRAM_FROM_SEGMENTS;
}

/* Write the steps and the order of the result, whose groups are these. */
static void
write_result(Writer *w, hjg_u32 groups)
{
	w->result = (HjgProgramPipeline) {.source = groups};
	if (table_of(w, groups)->nkeys == 0 || w->shape->whole)
		return;
	memset(w->boolean, 0, sizeof(w->boolean));
	write_steps(w, NULL, &w->result);
	w->head.first_step = w->result.first_step;
	w->head.nsteps = w->result.nsteps;
	w->head.order = below(w, 8);
	if (one_in(w, 2))
		load_value(w, NULL, &w->result, w->head.order);
	w->head.nsteps = w->result.nsteps;
	w->head.descending = below(w, 2);
	w->head.nulls_first = below(w, 2);
	w->head.first_groups = one_in(w, 3) ? 0 : 1 + below(w, one_in(w, 2) ? 10 : 1000);
}

/* ---- the evaluator ---- */

static bool
in_set(const Writer *w, const HjgProgramStep *step, int64_t number)
{
	const int64_t *set = (const int64_t *) w->values.data + step->arg;

	for (int64_t i = 0; i < step->low; i++)
		if (set[i] == number)
			return true;
	return false;
}

static Cell
number_cell(hjg_u64 number, bool isnull)
{
	return (Cell) {.number = isnull ? 0 : (int64_t) number, .isnull = isnull};
}

/* Round down as a step does, by division of integers. */
static hjg_u64
rounded_down(int64_t number, const HjgProgramStep *step)
{
	const int64_t rest = (int64_t) ((hjg_u64) number + (hjg_u64) step->high) % step->low;

	return (hjg_u64) number - (hjg_u64) (rest < 0 ? rest + step->low : rest);
}

/* Find the number of a float as a step does, by its sign and its magnitude. */
static hjg_u64
number_of_float(int64_t bits, int64_t nbytes)
{
	const int32_t narrow_bits = (int32_t) bits;
	float		narrow;
	double		value;
	int64_t		magnitude;
	bool		negative;

	memcpy(&narrow, &narrow_bits, sizeof(narrow));
	memcpy(&value, &bits, sizeof(value));
	value = nbytes == 4 ? (double) narrow : value;
	if (__builtin_isnan(value))
		return INT64_MAX;
	negative = __builtin_signbit(value);
	value = negative ? -value : value;
	memcpy(&magnitude, &value, sizeof(magnitude));
	return (hjg_u64) (negative ? -1 - magnitude : magnitude);
}

/* Look a value up as a step does, by division of integers. */
static hjg_u64
looked_up(const Writer *w, int64_t number, const HjgProgramStep *step)
{
	const int64_t *values = (const int64_t *) w->values.data + step->arg;
	const int64_t distance = (int64_t) ((hjg_u64) number - (hjg_u64) step->low);
	const hjg_u64 rest = (hjg_u64) ((distance % step->high + step->high) % step->high);
	/* a distance of more than 63 bits wraps around, and is beyond the values either way */
	const int64_t at = number > step->low ? (int64_t) ((hjg_u64) distance - rest) / step->high : 0;

	return (hjg_u64) values[1 + (at < 0 || at >= values[0] ? values[0] - 1 : at)];
}

static bool
test_of(const Writer *w, const HjgProgramStep *step, Cell left, Cell right)
{
	if (step->op == HJG_PROGRAM_IS_NULL || step->op == HJG_PROGRAM_IS_NOT_NULL)
		return left.isnull == (step->op == HJG_PROGRAM_IS_NULL);
	if (left.isnull || (step->op >= HJG_PROGRAM_EQ && right.isnull))
		return false;
	switch (step->op)
	{
		case HJG_PROGRAM_IN_RANGE:
			return left.number >= step->low && left.number <= step->high;
		case HJG_PROGRAM_NOT_IN_RANGE:
			return left.number < step->low || left.number > step->high;
		case HJG_PROGRAM_IN_SET:
			return in_set(w, step, left.number);
		case HJG_PROGRAM_NOT_IN_SET:
			return !in_set(w, step, left.number);
		case HJG_PROGRAM_EQ:
			return left.number == right.number;
		case HJG_PROGRAM_NE:
			return left.number != right.number;
		case HJG_PROGRAM_LT:
			return left.number < right.number;
		case HJG_PROGRAM_LE:
			return left.number <= right.number;
		case HJG_PROGRAM_GT:
			return left.number > right.number;
		default:
			return left.number >= right.number;
	}
}

/* Probe; false: the row ends. */
static bool
evaluate_probe(Writer *w, const HjgProgramStep *step, Cell *regs)
{
	const HjgProgramTable *table = (const HjgProgramTable *) w->tables.data + step->arg;
	Entry	   *partner = NULL;
	bool		any_null = false;
	bool		made;

	for (hjg_u32 k = 0; k < table->nkeys; k++)
		any_null |= regs[step->left + k].isnull;
	if (!any_null)
		partner = index_find(w->filled[step->arg], regs + step->left, false, &made);
	if (step->op == HJG_PROGRAM_PROBE_SEMI)
		return partner != NULL;
	if (step->op == HJG_PROGRAM_PROBE_ANTI)
		return partner == NULL;
	if (partner == NULL && step->op == HJG_PROGRAM_PROBE_INNER)
		return false;
	for (hjg_u32 p = 0; p < table->npayload; p++)
		regs[step->to + p] = partner != NULL ? partner->payload[p] : (Cell) {.isnull = true};
	return true;
}

static Cell
group_value(const ProgramGroup *group, hjg_u32 nkeys, hjg_u32 which)
{
	const hjg_u32 i = which > nkeys ? (which - nkeys - 1) / 4 : 0;
	const hjg_u64 count = group->nrows - group->nulls[i];

	if (which < nkeys)
		return group->entry.keys[which];
	if (which == nkeys)
		return number_cell(group->nrows, false);
	switch ((which - nkeys - 1) % 4)
	{
		case HJG_PROGRAM_GROUP_COUNT:
			return number_cell(count, false);
		case HJG_PROGRAM_GROUP_SUM:
			return number_cell((hjg_u64) group->sum[i], count == 0);
		case HJG_PROGRAM_GROUP_LEAST:
			return number_cell((hjg_u64) group->least[i], count == 0);
		default:
			return number_cell((hjg_u64) group->greatest[i], count == 0);
	}
}

static Cell
row_number(const Relation *relation, hjg_u32 row)
{
	hjg_u32		s = 0;

	while (row >= relation->first_row[s + 1])
		s++;
	return number_cell((hjg_u64) relation->numbers[s] * HJG_PROGRAM_MAX_SEGMENT_ROWS + row - relation->first_row[s], false);
}

/* Run the steps for a row; false: it does not come to the sink. */
static bool
evaluate_row(Writer *w, const Relation *relation, const HjgProgramPipeline *pipeline, hjg_u32 row, Cell *regs)
{
	const ProgramGroup *group = pipeline->source != HJG_PROGRAM_FROM_SEGMENTS ?
		(const ProgramGroup *) index_entry(w->filled[pipeline->source], (int) row) : NULL;


	for (hjg_u32 r = 0; r < HJG_PROGRAM_REGISTERS; r++)
		regs[r] = (Cell) {.isnull = true};
	for (hjg_u32 s = 0; s < pipeline->nsteps; s++)
	{
		const HjgProgramStep *step = (const HjgProgramStep *) w->steps.data + pipeline->first_step + s;
		const Cell	left = regs[step->left];
		const Cell	right = regs[step->right];
		const bool	any_null = left.isnull || right.isnull;

		switch (step->op)
		{
			case HJG_PROGRAM_COLUMN:
				regs[step->to] = relation->cells[step->arg][row];
				break;
			case HJG_PROGRAM_GROUP:
				regs[step->to] = group_value(group, table_of(w, pipeline->source)->nkeys, step->arg);
				break;
			case HJG_PROGRAM_ROW:
				regs[step->to] = row_number(relation, row);
				break;
			case HJG_PROGRAM_CONSTANT:
				regs[step->to] = number_cell((hjg_u64) step->low, step->high != 0);
				break;
			case HJG_PROGRAM_ADD:
				regs[step->to] = number_cell((hjg_u64) left.number + (hjg_u64) right.number, any_null);
				break;
			case HJG_PROGRAM_SUBTRACT:
				regs[step->to] = number_cell((hjg_u64) left.number - (hjg_u64) right.number, any_null);
				break;
			case HJG_PROGRAM_MULTIPLY:
				regs[step->to] = number_cell((hjg_u64) left.number * (hjg_u64) right.number, any_null);
				break;
			case HJG_PROGRAM_NEGATE:
				regs[step->to] = number_cell(-(hjg_u64) left.number, left.isnull);
				break;
			case HJG_PROGRAM_ROUND_DOWN:
				regs[step->to] = number_cell(rounded_down(left.number, step), left.isnull);
				break;
			case HJG_PROGRAM_LOOK_UP:
				regs[step->to] = number_cell(looked_up(w, left.number, step), left.isnull);
				break;
			case HJG_PROGRAM_FLOAT:
				regs[step->to] = number_cell(number_of_float(left.number, step->low), left.isnull);
				break;
			case HJG_PROGRAM_MOVE_IF:
				if (!left.isnull && left.number != 0)
					regs[step->to] = right;
				break;
			case HJG_PROGRAM_AND:
				regs[step->to] = number_cell(left.number == 1 && right.number == 1, false);
				break;
			case HJG_PROGRAM_OR:
				regs[step->to] = number_cell(left.number == 1 || right.number == 1, false);
				break;
			case HJG_PROGRAM_FILTER:
				if (left.isnull || left.number == 0)
					return false;
				break;
			case HJG_PROGRAM_PROBE_INNER:
			case HJG_PROGRAM_PROBE_LEFT:
			case HJG_PROGRAM_PROBE_SEMI:
			case HJG_PROGRAM_PROBE_ANTI:
				if (!evaluate_probe(w, step, regs))
					return false;
				break;
			default:
				regs[step->to] = number_cell(test_of(w, step, left, right), false);
		}
	}
	return true;
}

static void
enter_row(Writer *w, const HjgProgramPipeline *pipeline, HjgProgramTable *table, const Cell *regs)
{
	Cell		keys[HJG_PROGRAM_MAX_KEYS];
	Entry	   *entry;
	bool		made;

	table->max_rows++;
	for (hjg_u32 k = 0; k < table->nkeys; k++)
	{
		keys[k] = regs[pipeline->keys[k]];
		if (keys[k].isnull)
			return;
	}
	entry = index_find(w->filled[pipeline->sink], keys, true, &made);
	w->refused |= !made && table->unique;
	for (hjg_u32 p = 0; p < table->npayload && made; p++)
		entry->payload[p] = regs[pipeline->payload[p]];
}

static void
group_row(Writer *w, const HjgProgramPipeline *pipeline, const HjgProgramTable *table, const Cell *regs)
{
	Cell		keys[HJG_PROGRAM_MAX_KEYS];
	ProgramGroup *group;
	bool		made;

	for (hjg_u32 k = 0; k < table->nkeys; k++)
		keys[k] = regs[pipeline->keys[k]];
	group = (ProgramGroup *) index_find(w->filled[pipeline->sink], keys, true, &made);
	group->nrows++;
	for (hjg_u32 i = 0; i < table->narguments; i++)
	{
		HjgProgramArgument *argument = (HjgProgramArgument *) w->arguments.data + table->first_argument + i;
		const Cell	cell = regs[argument->reg];

		if (cell.isnull)
		{
			group->nulls[i]++;
			continue;
		}
		if (group->nulls[i] + 1 == group->nrows || cell.number < group->least[i])
			group->least[i] = cell.number;
		if (group->nulls[i] + 1 == group->nrows || cell.number > group->greatest[i])
			group->greatest[i] = cell.number;
		group->sum[i] += cell.number;
	}
}

static void
evaluate_pipeline(Writer *w, hjg_u32 p)
{
	HjgProgramPipeline *pipeline = (HjgProgramPipeline *) w->pipelines.data + p;
	const Relation *relation = &w->relations[p];
	const bool	of_rows = pipeline->source == HJG_PROGRAM_FROM_SEGMENTS;
	const size_t nrows = of_rows ? relation->first_row[relation->nsegments] : w->filled[pipeline->source]->entries.n;
	HjgProgramTable *table = (HjgProgramTable *) w->tables.data + pipeline->sink;

	if (w->filled[pipeline->sink] == NULL)
		w->filled[pipeline->sink] = index_create(table->has_groups ? sizeof(ProgramGroup) : sizeof(Entry), table->nkeys);
	for (hjg_u32 row = 0; row < nrows; row++)
	{
		Cell		regs[HJG_PROGRAM_REGISTERS];

		if ((of_rows && !relation->seen[row]) || !evaluate_row(w, relation, pipeline, row, regs))
			continue;
		if (table->has_groups)
			group_row(w, pipeline, table, regs);
		else
			enter_row(w, pipeline, table, regs);
	}
	if (table->has_groups)
		table->max_rows = w->filled[pipeline->sink]->entries.n;
}

/* Is this group before the other one in the order of the result? */
static bool
is_before(const HjgProgram *head, const ProgramGroup *group, const ProgramGroup *other)
{
	const Cell	left = group->place;
	const Cell	right = other->place;

	if (left.isnull || right.isnull)
		return left.isnull != right.isnull && left.isnull == (head->nulls_first != 0);
	return head->descending ? left.number > right.number : left.number < right.number;
}

static const HjgProgram *ordering;

static int
compare_groups(const void *a, const void *b)
{
	const ProgramGroup *left = *(ProgramGroup *const *) a;
	const ProgramGroup *right = *(ProgramGroup *const *) b;

	return is_before(ordering, left, right) ? -1 : is_before(ordering, right, left) ? 1 : 0;
}

/* Find the groups that the result must have, and those that it may have. */
static void
evaluate_result(Writer *w)
{
	const Index *groups = w->filled[w->result.source];
	ProgramGroup **passing = malloc((groups->entries.n + 1) * sizeof(ProgramGroup *));
	const ProgramGroup *last = NULL;
	size_t		npassing = 0;

	for (size_t g = 0; g < groups->entries.n; g++)
	{
		ProgramGroup *group = (ProgramGroup *) index_entry(groups, (int) g);
		Cell		regs[HJG_PROGRAM_REGISTERS];

		group->passes = evaluate_row(w, NULL, &w->result, (hjg_u32) g, regs);
		group->place = regs[w->head.order];
		if (group->passes)
			passing[npassing++] = group;
	}
	if (w->head.first_groups > 0 && npassing > 0)
	{
		ordering = &w->head;
		qsort(passing, npassing, sizeof(passing[0]), compare_groups);
		last = passing[(w->head.first_groups < npassing ? w->head.first_groups : npassing) - 1];
	}
	for (size_t i = 0; i < npassing; i++)
		passing[i]->wanted = last == NULL || !is_before(&w->head, last, passing[i]);
	free(passing);
}

/* ---- the block ---- */

/* Add an array to the block; returns its place. */
static HjgProgramArray
place_array(List *block, const List *list)
{
	const HjgProgramArray array = {.off = (hjg_u32) block->n * 8, .n = (hjg_u32) list->n};

	if (list->n > 0)
		memcpy(list_add(block, NULL, (list->n * list->size + 7) / 8), list->data, list->n * list->size);
	return array;
}

/* The magnitude of an argument's values is told, or is not. */
static void
bound_arguments(Writer *w, hjg_u32 t)
{
	const HjgProgramTable *table = table_of(w, t);

	for (hjg_u32 i = 0; i < table->narguments; i++)
	{
		hjg_u64		greatest = 0;

		for (size_t g = 0; g < w->filled[t]->entries.n; g++)
		{
			const ProgramGroup *group = (const ProgramGroup *) index_entry(w->filled[t], (int) g);
			const hjg_u64 low = group->least[i] < 0 ? -(hjg_u64) group->least[i] : (hjg_u64) group->least[i];
			const hjg_u64 high = group->greatest[i] < 0 ? -(hjg_u64) group->greatest[i] : (hjg_u64) group->greatest[i];

			greatest = low > greatest ? low : greatest;
			greatest = high > greatest ? high : greatest;
		}
		if (one_in(w, 2))
			((HjgProgramArgument *) w->arguments.data)[table->first_argument + i].greatest = greatest;
	}
}

/* The bounds of a key are told, or are not; some are wider than they need be. */
static void
bound_key(Writer *w, hjg_u32 t)
{
	HjgProgramTable *table = (HjgProgramTable *) w->tables.data + t;
	bool		any = false;

	for (size_t i = 0; i < w->filled[t]->entries.n && table->nkeys == 1; i++)
	{
		const Cell	key = index_entry(w->filled[t], (int) i)->keys[0];

		if (key.isnull)
			continue;
		table->least_key = !any || key.number < table->least_key ? key.number : table->least_key;
		table->greatest_key = !any || key.number > table->greatest_key ? key.number : table->greatest_key;
		any = true;
	}
	table->has_bounds = any && (w->shape->one_key || !one_in(w, 4));
	if (one_in(w, 2) && table->least_key > INT64_MIN + 1000 && table->greatest_key < INT64_MAX - 1000)
	{
		table->least_key -= below(w, 1000);
		table->greatest_key += below(w, 1000);
	}
}

static hjg_u64
estimate(Writer *w, hjg_u64 n)
{
	return w->shape->outgrown ? 1 : one_in(w, 3) ? 0 : one_in(w, 2) ? n : random_u64(&w->random);
}

static void
write_block(Writer *w, ProgramCase *c)
{
	List		block = {.size = 8};
	HjgProgram	head = w->head;

	list_add(&block, NULL, sizeof(HjgProgram) / 8);
	for (hjg_u32 i = 0; i < w->columns.n; i++)
	{
		HjgProgramColumn *column = (HjgProgramColumn *) w->columns.data + i;

		if ((column->place & HJG_PROGRAM_IN_BLOCK) != 0)
			column->place += block.n * 8;
	}
	(void) place_array(&block, &w->own);
	for (hjg_u32 i = 0; i < w->tables.n; i++)
	{
		HjgProgramTable *table = (HjgProgramTable *) w->tables.data + i;

		table->expected_rows = estimate(w, table->max_rows);
		bound_arguments(w, i);
		bound_key(w, i);
	}
	head.pipelines = place_array(&block, &w->pipelines);
	head.tables = place_array(&block, &w->tables);
	head.steps = place_array(&block, &w->steps);
	head.segments = place_array(&block, &w->segments);
	head.columns = place_array(&block, &w->columns);
	head.runs = place_array(&block, &w->runs);
	head.maps = place_array(&block, &w->maps);
	head.values = place_array(&block, &w->values);
	head.arguments = place_array(&block, &w->arguments);
	head.tests = place_array(&block, &w->tests);
	head.strings = place_array(&block, &w->strings);
	head.bytes = place_array(&block, &w->bytes);
	head.max_groups = c->ngroups;
	head.max_bytes = (hjg_u64) 1 << 40;
	head.nbytes = block.n * 8;
	memcpy(block.data, &head, sizeof(head));
	c->block = block.data;
	c->nbytes = head.nbytes;
}

static void
writer_free(Writer *w)
{
	List	   *const lists[] = {
		&w->pipelines, &w->tables, &w->steps, &w->segments, &w->columns, &w->runs, &w->maps, &w->values, &w->arguments, &w->tests,
		&w->strings, &w->bytes, &w->own
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		free(lists[i]->data);
	for (int p = 0; p < HJG_PROGRAM_MAX_PIPELINES; p++)
	{
		index_free(w->filled[p]);
		free(w->relations[p].seen);
		for (int i = 0; i < MOST_COLUMNS; i++)
		{
			free(w->relations[p].cells[i]);
			free(w->relations[p].texts[i]);
		}
	}
	free(w);
}

/* Set the answer: the groups that pass. */
static void
answer(Writer *w, ProgramCase *c)
{
	const HjgProgramTable *table = table_of(w, w->result.source);
	const HjgProgramArgument *arguments = (const HjgProgramArgument *) w->arguments.data + table->first_argument;
	Index	   *groups = w->filled[w->result.source];
	List		passing = {.size = sizeof(ProgramGroup)};

	*c = (ProgramCase) {.refused = w->refused, .nkeys = table->nkeys, .narguments = table->narguments};
	for (hjg_u32 i = 0; i < c->narguments; i++)
	{
		c->wants_sum[i] = arguments[i].wants_sum;
		c->wants_extremes[i] = arguments[i].wants_extremes;
	}
	/* without keys there is a group without rows */
	if (c->nkeys == 0 && groups->entries.n == 0)
		((ProgramGroup *) list_add(&groups->entries, NULL, 1))->wanted = true;
	for (size_t g = 0; g < groups->entries.n; g++)
	{
		const ProgramGroup *group = (const ProgramGroup *) index_entry(groups, (int) g);

		if (group->passes || group->wanted)
			list_add(&passing, group, 1);
		c->nwanted += group->wanted;
	}
	c->groups = (ProgramGroup *) passing.data;
	c->ngroups = (hjg_u32) passing.n;
}

void
program_create(ProgramCase *c, hjg_u64 seed, const ProgramShape *shape)
{
	Writer	   *w = calloc(1, sizeof(Writer));

	w->random = (Random) {seed};
	w->shape = shape;
	w->next_id = seed * 4096;
	w->pipelines.size = sizeof(HjgProgramPipeline);
	w->tables.size = sizeof(HjgProgramTable);
	w->steps.size = sizeof(HjgProgramStep);
	w->segments.size = sizeof(HjgProgramSegment);
	w->columns.size = sizeof(HjgProgramColumn);
	w->runs.size = sizeof(HjgProgramRun);
	w->maps.size = sizeof(hjg_u32);
	w->values.size = sizeof(int64_t);
	w->arguments.size = sizeof(HjgProgramArgument);
	w->tests.size = sizeof(HjgProgramTest);
	w->strings.size = sizeof(HjgProgramString);
	w->bytes.size = 1;
	list_add(&w->bytes, "", 1);
	w->own.size = w->kept.size = 8;
	for (hjg_u32 p = 0; p < shape->npipelines; p++)
	{
		const bool	last = p + 1 == shape->npipelines;
		const HjgProgramPipeline *before = p > 0 ? (const HjgProgramPipeline *) w->pipelines.data + p - 1 : NULL;
		const bool	shares = shape->shared_sinks && p > 0 && one_in(w, 2) && (!last || table_of(w, before->sink)->has_groups);
		HjgProgramPipeline pipeline = {0};

		w->ncomplete = (hjg_u32) w->tables.n - (shares ? 1 : 0);
		pipeline.source = choose_source(w);
		memset(w->boolean, 0, sizeof(w->boolean));
		if (pipeline.source == HJG_PROGRAM_FROM_SEGMENTS)
			write_relation(w, &w->relations[p], &pipeline);
		else
			pipeline.nrows = table_of(w, pipeline.source)->max_rows;
		write_steps(w, &w->relations[p], &pipeline);
		if (shares)
			share_sink(w, &w->relations[p], before, &pipeline);
		else if (last || shape->nested || (!shape->repeated_keys && one_in(w, 3)))
			write_groups(w, &w->relations[p], &pipeline, last);
		else
			write_table(w, &w->relations[p], &pipeline);
		list_add(&w->pipelines, &pipeline, 1);
		evaluate_pipeline(w, p);
	}
	w->ncomplete = (hjg_u32) w->tables.n;
	write_result(w, (hjg_u32) w->tables.n - 1);
	evaluate_result(w);
	answer(w, c);
	write_block(w, c);
	c->kept = w->kept.data;
	c->kept_bytes = w->kept.n * 8;
	writer_free(w);
}

void
program_destroy(ProgramCase *c)
{
	free(c->block);
	free(c->kept);
	free(c->groups);
}

/* ---- comparison ---- */

static const char *
compare_group(const ProgramCase *c, const ProgramGroup *group, const hjg_u64 *words)
{
	hjg_u64		nulls = 0;

	if (*words++ != group->nrows)
		return "wrong number of rows";
	words += c->nkeys;
	for (hjg_u32 k = 0; k < c->nkeys; k++)
		nulls |= (hjg_u64) group->entry.keys[k].isnull << k;
	if (*words++ != nulls)
		return "wrong NULLs of keys";
	for (hjg_u32 i = 0; i < c->narguments; i++, words += HJG_PROGRAM_ARGUMENT_WORDS)
	{
		const hjg_u64 low = c->wants_sum[i] ? (hjg_u64) group->sum[i] : 0;
		const hjg_u64 high = c->wants_sum[i] ? (hjg_u64) (group->sum[i] >> 64) : 0;

		if (words[0] != group->nulls[i])
			return "wrong number of NULLs";
		if (words[1] != low || words[2] != high)
			return "wrong sum";
		if (c->wants_extremes[i] && group->nulls[i] < group->nrows &&
			(words[3] != (hjg_u64) group->least[i] || words[4] != (hjg_u64) group->greatest[i]))
			return "wrong extremes";
		if (!c->wants_extremes[i] && (words[3] != 0 || words[4] != 0))
			return "extremes that are not wanted";
	}
	return NULL;
}

const char *
program_compare(const ProgramCase *c, const hjg_u64 *words, hjg_u64 nwords)
{
	const hjg_u32 group_words = hjg_program_group_words(c->nkeys, c->narguments);
	hjg_u64		nwanted = 0;
	Index	   *found;
	const char *wrong = NULL;

	if (nwords < 1 || nwords != 1 + words[0] * group_words)
		return "a wrong number of words";
	if (words[0] > c->ngroups || words[0] > (hjg_u64) c->nwanted + MOST_UNWANTED)
		return "too many groups";
	found = index_create(sizeof(ProgramGroup), c->nkeys);
	for (hjg_u32 g = 0; g < c->ngroups; g++)
	{
		bool		made;
		ProgramGroup *group = (ProgramGroup *) index_find(found, c->groups[g].entry.keys, true, &made);
		const int	next = group->entry.next;

		*group = c->groups[g];
		group->entry.next = next;
	}
	for (hjg_u64 g = 0; g < words[0] && wrong == NULL; g++)
	{
		const hjg_u64 *at = words + 1 + (size_t) g * group_words;
		Cell		keys[HJG_PROGRAM_MAX_KEYS];
		ProgramGroup *group;
		bool		made;

		for (hjg_u32 k = 0; k < c->nkeys; k++)
			keys[k] = number_cell(at[1 + k], at[1 + c->nkeys] >> k & 1);
		group = (ProgramGroup *) index_find(found, keys, false, &made);
		wrong = group == NULL ? "a group that is none" : compare_group(c, group, at);
		nwanted += group != NULL && group->wanted;
		/* a second one with these keys is then wrong */
		if (group != NULL)
			group->nrows = UINT64_MAX;
	}
	index_free(found);
	return wrong == NULL && nwanted != c->nwanted ? "groups that are wanted are not there" : wrong;
}
