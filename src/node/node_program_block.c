/*
 * node_program_block.c
 *	  The block of a program while it is written: its arrays, the registers and columns of the current pipeline.
 *
 * The columns of a pipeline's segments are written at its end, when all are known. Strings are tested here, each different one of a segment, or,
 * where they have no codes, by the device process's threads (device_program_strings.c).
 *
 * For several devices as many blocks are put together. They differ only in the segments of the last pipeline, with their columns and runs:
 * these are divided by the segments' numbers, so that a device reads the same ones of a table in each query, and their columns stay in its
 * memory. The arrays that differ are the last ones of a block, so that all others have the same places.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/hsearch.h"

#include "node/hjg_program_write.h"

/* Strings that are looked at for a program: each takes some 30 ns. */
#define MOST_STRINGS 20000000

HjgProgramWriter *
hjg_program_writer_create(EState *estate, HjgProgramRowsWriter write_rows, int ndevices)
{
	HjgProgramWriter *writer = palloc0(sizeof(HjgProgramWriter));
	StringInfo	arrays[] = {
		&writer->pipelines, &writer->tables, &writer->steps, &writer->segments, &writer->columns, &writer->runs, &writer->maps,
		&writer->values, &writer->arguments, &writer->tests.tests, &writer->tests.strings, &writer->tests.bytes, &writer->memory
	};

	writer->estate = estate;
	writer->write_rows = write_rows;
	writer->nshares = ndevices;
	for (int i = 0; i < lengthof(arrays); i++)
		initStringInfo(arrays[i]);
	return writer;
}

/* Make an array longer by so many bytes; returns their place. */
static void *
extend_array(StringInfo array, Size nbytes)
{
	enlargeStringInfo(array, nbytes);
	array->len += nbytes;
	return array->data + array->len - nbytes;
}

bool
hjg_program_refuse(HjgProgramWriter *writer, const char *why)
{
	if (writer->why == NULL)
		writer->why = why;
	return false;
}

/* ---------- registers and steps ---------- */

int
hjg_program_take(HjgProgramWriter *writer, int n)
{
	const uint64 wanted = (UINT64CONST(1) << n) - 1;

	for (int reg = 0; reg + n <= HJG_PROGRAM_REGISTERS; reg++)
		if ((writer->taken & wanted << reg) == 0)
		{
			writer->taken |= wanted << reg;
			return reg;
		}
	hjg_program_refuse(writer, "a row has too many values");
	return -1;
}

void
hjg_program_release(HjgProgramWriter *writer, int reg, int n)
{
	writer->taken &= ~(((UINT64CONST(1) << n) - 1) << reg);
}

bool
hjg_program_step(HjgProgramWriter *writer, HjgProgramStep step)
{
	if (writer->pipeline.nsteps == HJG_PROGRAM_MAX_STEPS)
		return hjg_program_refuse(writer, "it has too many steps");
	appendBinaryStringInfo(&writer->steps, (const char *) &step, sizeof(step));
	writer->pipeline.nsteps++;
	return true;
}

int
hjg_program_step_new(HjgProgramWriter *writer, HjgProgramStep step)
{
	const int	reg = hjg_program_take(writer, 1);

	step.to = reg;
	return reg >= 0 && hjg_program_step(writer, step) ? reg : -1;
}

int
hjg_program_source(HjgProgramWriter *writer, HjgProgramSource source)
{
	for (int s = 0; s < writer->nsources; s++)
	{
		const HjgProgramSource *other = &writer->sources[s];

		if (other->collected == source.collected && other->test == source.test && other->words == source.words)
			return s;
	}
	if (writer->nsources == HJG_PROGRAM_MAX_COLUMNS)
	{
		hjg_program_refuse(writer, "a table has too many columns");
		return -1;
	}
	writer->sources[writer->nsources] = source;
	return writer->nsources++;
}

/* Write the step that puts a value into a register. */
static bool
load_into(HjgProgramWriter *writer, const HjgProgramValue *value, int reg)
{
	int			source;
	int			zero;
	bool		done;

	if (value->reg < 0 && value->of_group > 0)
		return hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_GROUP, .to = reg, .arg = value->of_group - 1});
	if (value->reg < 0 && value->form == HJG_VALUE_ROW)
		return hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_ROW, .to = reg});
	if (value->reg < 0)
	{
		source = hjg_program_source(writer, (HjgProgramSource) {.collected = value->collected, .words = value->words});
		return source >= 0 && hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_COLUMN, .to = reg, .arg = source});
	}
	zero = hjg_program_take(writer, 1);
	if (zero < 0)
		return false;
	done = hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_CONSTANT, .to = zero}) &&
		hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_ADD, .to = reg, .left = value->reg, .right = zero});
	hjg_program_release(writer, zero, 1);
	return done;
}

int
hjg_program_load(HjgProgramWriter *writer, HjgProgramValue *value)
{
	if (value->reg < 0)
	{
		const int	reg = hjg_program_take(writer, 1);

		if (reg < 0 || !load_into(writer, value, reg))
			return -1;
		value->reg = reg;
	}
	return value->reg;
}

int
hjg_program_load_all(HjgProgramWriter *writer, HjgProgramValue **values, int n, bool *taken)
{
	int			first;

	*taken = n > 1;
	if (n == 1)
		return hjg_program_load(writer, values[0]);
	first = hjg_program_take(writer, n);
	for (int i = 0; first >= 0 && i < n; i++)
		if (!load_into(writer, values[i], first + i))
			return -1;
	return first;
}

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

/* Find the number of a string, or give it one. */
static uint32
number_word(HjgProgramWords *words, const char *string, int attlen)
{
	const bool	varlena = attlen == -1;
	const WordKey key = {
		varlena ? VARDATA_ANY(string) : string, varlena ? VARSIZE_ANY_EXHDR(string) : hjg_vector_referred_bytes(attlen, string)
	};
	WordEntry  *entry;
	bool		found;

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
	if (words->numbers == NULL)
		make_numbers(words);
	for (uint32 w = 0; w < view->column->nwords; w++)
		map[w] = number_word(words, view->bytes + view->places[w], attlen);
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
	map = extend_array(&writer->maps, nwords * sizeof(uint32));
	if (source->test != NULL)
		map_passes(source->test, view, map);
	else
		map_numbers(source->words, view, attlen, map);
	return true;
}

/* ---------- pipelines ---------- */

void
hjg_program_begin_pipeline(HjgProgramWriter *writer)
{
	writer->pipeline = (HjgProgramPipeline) {.first_step = writer->steps.len / sizeof(HjgProgramStep), .source = HJG_PROGRAM_FROM_SEGMENTS};
	writer->nsources = 0;
	writer->taken = 0;
}

/* Get the table that was written last. */
static const HjgProgramTable *
last_table(const HjgProgramWriter *writer)
{
	return (const HjgProgramTable *) (writer->tables.data + writer->tables.len) - 1;
}

void
hjg_program_begin_groups(HjgProgramWriter *writer)
{
	hjg_program_begin_pipeline(writer);
	writer->collection = (HjgCollection) {0};
	writer->desc = NULL;
	writer->pipeline.source = writer->tables.len / sizeof(HjgProgramTable) - 1;
	writer->pipeline.nrows = last_table(writer)->max_rows;
}

uint64
hjg_program_source_rows(const HjgProgramWriter *writer)
{
	return writer->pipeline.source == HJG_PROGRAM_FROM_SEGMENTS ? writer->collection.nrows : writer->pipeline.nrows;
}

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
		hjg_program_test_strings(source->test, values, n, extend_array(&writer->memory, n));
	}
	memset(extend_array(&writer->memory, column->nbytes - view->nrows), 0, column->nbytes - view->nrows);
	return true;
}

static bool
write_source(HjgProgramWriter *writer, HjgProgramSource *source, const HjgCollectedSegment *segment, HjgProgramColumn *column)
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

/* Write the collection's segment of this number for a share, whose block has neither columns nor runs of the shares before. */
static bool
write_segment(HjgProgramWriter *writer, uint32 number, HjgProgramShare *share)
{
	const HjgCollectedSegment *collected = &writer->collection.segments[number];
	const HjgProgramExtent *common = &writer->shares[0].start;
	HjgProgramSegment *segment = extend_array(&writer->segments, sizeof(HjgProgramSegment));
	HjgProgramColumn *columns;

	*segment = (HjgProgramSegment) {
		.nrows = collected->nrows, .number = number,
		.first_column = (writer->columns.len - share->start.columns + common->columns) / sizeof(HjgProgramColumn),
		.first_run = (writer->runs.len - share->start.runs + common->runs) / sizeof(HjgProgramRun), .nruns = collected->nruns
	};
	share->pipeline.nsegments++;
	for (int r = 0; r < collected->nruns; r++)
		share->pipeline.nrows += collected->runs[r].end_row - collected->runs[r].first_row;
	memcpy(extend_array(&writer->runs, collected->nruns * sizeof(HjgProgramRun)), collected->runs, collected->nruns * sizeof(HjgProgramRun));
	columns = extend_array(&writer->columns, writer->nsources * sizeof(HjgProgramColumn));
	for (int s = 0; s < writer->nsources; s++)
		if (!write_source(writer, &writer->sources[s], collected, &columns[s]))
			return false;
	return true;
}

static HjgProgramExtent
extent_now(const HjgProgramWriter *writer)
{
	return (HjgProgramExtent) {.segments = writer->segments.len, .columns = writer->columns.len, .runs = writer->runs.len};
}

/* Write one of nshares shares of the pipeline's segments. */
static bool
write_share(HjgProgramWriter *writer, int number, int nshares)
{
	HjgProgramShare *share = &writer->shares[number];

	*share = (HjgProgramShare) {.pipeline = writer->pipeline, .start = extent_now(writer)};
	/* groups are not divided: one device makes them all */
	if (number > 0)
		share->pipeline.nrows = 0;
	for (int s = 0; s < writer->collection.nsegments; s++)
	{
		CHECK_FOR_INTERRUPTS();
		if (writer->collection.segments[s].number % nshares == number && !write_segment(writer, s, share))
			return false;
	}
	share->end = extent_now(writer);
	return true;
}

bool
hjg_program_end_pipeline(HjgProgramWriter *writer, HjgProgramTable table, bool last)
{
	const uint64 column_bytes = (uint64) writer->collection.nsegments * writer->nsources * sizeof(HjgProgramColumn);
	const int	nshares = last ? writer->nshares : 1;

	if (writer->columns.len + column_bytes > HJG_PROGRAM_MAX_BYTES)
		return hjg_program_refuse(writer, "it is too large");
	if (writer->tables.len / sizeof(HjgProgramTable) == HJG_PROGRAM_MAX_PIPELINES)
		return hjg_program_refuse(writer, "it has too many tables");
	enlargeStringInfo(&writer->columns, (int) column_bytes);
	writer->pipeline.first_segment = writer->segments.len / sizeof(HjgProgramSegment);
	writer->pipeline.ncolumns = writer->nsources;
	writer->pipeline.sink = writer->tables.len / sizeof(HjgProgramTable);
	appendBinaryStringInfo(&writer->tables, (const char *) &table, sizeof(table));
	for (int number = 0; number < nshares; number++)
		if (!write_share(writer, number, nshares))
			return false;
	if (!last)
		appendBinaryStringInfo(&writer->pipelines, (const char *) &writer->shares[0].pipeline, sizeof(HjgProgramPipeline));
	return true;
}

/* ---------- the block ---------- */

/* Add elements of an array to a block; the first ones give it its place. */
static void
append_part(HjgProgramTask *task, const void *data, Size nbytes, Size element, HjgProgramArray *array)
{
	if (array->n == 0)
		array->off = (uint32) task->head.nbytes;
	array->n += (uint32) (nbytes / element);
	nbytes = MAXALIGN(nbytes);
	task->parts[task->nparts++] = (HjgProgramPart) {.words = data, .nwords = nbytes / sizeof(uint64)};
	task->head.nbytes += nbytes;
}

/* Add an array that all blocks have as it is. */
static void
add_array(HjgProgramTask *task, StringInfo from, Size element, HjgProgramArray *array)
{
	const int	nbytes = from->len;

	/* room for the padding, whose bytes do not count */
	enlargeStringInfo(from, MAXIMUM_ALIGNOF);
	memset(from->data + nbytes, 0, MAXIMUM_ALIGNOF);
	append_part(task, from->data, nbytes, element, array);
}

/* Add the common beginning of an array, and the share's part of it. */
static void
add_shared_array(HjgProgramTask *task, const StringInfoData *from, int common, int start, int end, Size element, HjgProgramArray *array)
{
	append_part(task, from->data, common, element, array);
	append_part(task, from->data + start, end - start, element, array);
}

/* Put the block of a share together; returns the place of the memory in it. */
static uint32
put_together(HjgProgramWriter *writer, const HjgProgramShare *share, HjgProgramTask *task)
{
	const HjgProgramExtent *common = &writer->shares[0].start;
	HjgProgram *head = &task->head;
	HjgProgramArray memory = {0};

	task->parts[task->nparts++] = (HjgProgramPart) {.words = (const uint64 *) head, .nwords = sizeof(*head) / sizeof(uint64)};
	head->nbytes = sizeof(*head);
	add_array(task, &writer->pipelines, sizeof(HjgProgramPipeline), &head->pipelines);
	append_part(task, &share->pipeline, sizeof(HjgProgramPipeline), sizeof(HjgProgramPipeline), &head->pipelines);
	add_array(task, &writer->tables, sizeof(HjgProgramTable), &head->tables);
	add_array(task, &writer->steps, sizeof(HjgProgramStep), &head->steps);
	add_array(task, &writer->maps, sizeof(uint32), &head->maps);
	add_array(task, &writer->values, sizeof(int64), &head->values);
	add_array(task, &writer->arguments, sizeof(HjgProgramArgument), &head->arguments);
	add_array(task, &writer->tests.tests, sizeof(HjgProgramTest), &head->tests);
	add_array(task, &writer->tests.strings, sizeof(HjgProgramString), &head->strings);
	add_array(task, &writer->tests.bytes, 1, &head->bytes);
	add_array(task, &writer->memory, 1, &memory);
	add_shared_array(task, &writer->segments, common->segments, share->start.segments, share->end.segments, sizeof(HjgProgramSegment), &head->segments);
	add_shared_array(task, &writer->columns, common->columns, share->start.columns, share->end.columns, sizeof(HjgProgramColumn), &head->columns);
	add_shared_array(task, &writer->runs, common->runs, share->start.runs, share->end.runs, sizeof(HjgProgramRun), &head->runs);
	return memory.off;
}

int
hjg_program_finish(HjgProgramWriter *writer, const HjgProgram *head, const HjgDeviceId *devices, HjgProgramTask *tasks)
{
	HjgProgramColumn *columns = (HjgProgramColumn *) writer->columns.data;
	const HjgProgramTable *groups = last_table(writer);
	const int	ncolumns = writer->columns.len / sizeof(HjgProgramColumn);
	uint32		memory = 0;
	int			ntasks = 0;

	for (int i = 0; i < writer->nshares; i++)
	{
		HjgProgramTask *task = &tasks[ntasks];

		if (writer->shares[i].pipeline.nrows == 0 && (ntasks > 0 || i + 1 < writer->nshares))
			continue;
		*task = (HjgProgramTask) {
			.device = devices[i], .head = *head, .group_words = hjg_program_group_words(groups->nkeys, groups->narguments),
			.expected_groups = head->first_groups > 0 ? head->first_groups : groups->expected_rows
		};
		memory = put_together(writer, &writer->shares[i], task);
		if (task->head.nbytes > HJG_PROGRAM_MAX_BYTES)
		{
			hjg_program_refuse(writer, "it is too large");
			return 0;
		}
		ntasks++;
	}
	/* the memory has the same place in all of them */
	for (int c = 0; writer->memory.len > 0 && c < ncolumns; c++)
		if (columns[c].place & HJG_PROGRAM_IN_BLOCK)
			columns[c].place += memory;
	return ntasks;
}
