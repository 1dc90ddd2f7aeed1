/*
 * node_program_pipeline.c
 *	  Begins and ends the pipelines of a program, and puts its block together.
 *
 * The columns of a pipeline's segments are written at its end, when all are known (node_program_column.c).
 *
 * For several devices as many blocks are put together. They differ only in the segments of the last pipeline, with their columns and runs:
 * these are divided by the segments' numbers, so that a device reads the same ones of a table in each query, and their columns stay in its
 * memory. The arrays that differ are the last ones of a block, so that all others have the same places.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "node/hjg_program_write.h"

/* ---------- pipelines ---------- */

void
hjg_program_begin_pipeline(HjgProgramWriter *writer)
{
	writer->pipeline = (HjgProgramPipeline) {.first_step = writer->steps.len / sizeof(HjgProgramStep), .source = HJG_PROGRAM_FROM_SEGMENTS};
	writer->nsources = 0;
	writer->taken = writer->outer.reserved;
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

/* Write the collection's segment of this number for a share, whose block has neither columns nor runs of the shares before. */
static bool
write_segment(HjgProgramWriter *writer, uint32 number, HjgProgramShare *share)
{
	const HjgCollectedSegment *collected = &writer->collection.segments[number];
	const HjgProgramExtent *common = &writer->shares[0].start;
	HjgProgramSegment *segment = hjg_program_extend(&writer->segments, sizeof(HjgProgramSegment));
	HjgProgramColumn *columns;

	*segment = (HjgProgramSegment) {
		.nrows = collected->nrows, .number = number,
		.first_column = (writer->columns.len - share->start.columns + common->columns) / sizeof(HjgProgramColumn),
		.first_run = (writer->runs.len - share->start.runs + common->runs) / sizeof(HjgProgramRun), .nruns = collected->nruns
	};
	share->pipeline.nsegments++;
	for (int r = 0; r < collected->nruns; r++)
		share->pipeline.nrows += collected->runs[r].end_row - collected->runs[r].first_row;
	memcpy(hjg_program_extend(&writer->runs, collected->nruns * sizeof(HjgProgramRun)), collected->runs, collected->nruns * sizeof(HjgProgramRun));
	columns = hjg_program_extend(&writer->columns, writer->nsources * sizeof(HjgProgramColumn));
	for (int s = 0; s < writer->nsources; s++)
		if (!hjg_program_write_column(writer, &writer->sources[s], collected, &columns[s]))
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

/* Write the segments of the pipeline, in so many shares. */
static bool
write_segments(HjgProgramWriter *writer, int nshares)
{
	const uint64 column_bytes = (uint64) writer->collection.nsegments * writer->nsources * sizeof(HjgProgramColumn);

	if (writer->columns.len + column_bytes > HJG_PROGRAM_MAX_BYTES)
		return hjg_program_refuse(writer, "it is too large");
	enlargeStringInfo(&writer->columns, (int) column_bytes);
	writer->pipeline.first_segment = writer->segments.len / sizeof(HjgProgramSegment);
	writer->pipeline.ncolumns = writer->nsources;
	for (int number = 0; number < nshares; number++)
		if (!write_share(writer, number, nshares))
			return false;
	return true;
}

static void
append_pipeline(HjgProgramWriter *writer, const HjgProgramPipeline *pipeline)
{
	appendBinaryStringInfo(&writer->pipelines, (const char *) pipeline, sizeof(HjgProgramPipeline));
}

bool
hjg_program_end_rows(HjgProgramWriter *writer, HjgProgramPipeline *pipeline)
{
	if (!write_segments(writer, 1))
		return false;
	*pipeline = writer->shares[0].pipeline;
	return true;
}

bool
hjg_program_end_both(HjgProgramWriter *writer, const HjgProgramPipeline *first, HjgProgramTable table, bool last)
{
	HjgProgramPipeline before = *first;

	before.sink = writer->tables.len / sizeof(HjgProgramTable);
	append_pipeline(writer, &before);
	return hjg_program_end_pipeline(writer, table, last);
}

bool
hjg_program_end_pipeline(HjgProgramWriter *writer, HjgProgramTable table, bool last)
{
	/* one of them is the last pipeline */
	if (writer->pipelines.len / sizeof(HjgProgramPipeline) >= HJG_PROGRAM_MAX_PIPELINES)
		return hjg_program_refuse(writer, "it has too many tables");
	writer->pipeline.sink = writer->tables.len / sizeof(HjgProgramTable);
	appendBinaryStringInfo(&writer->tables, (const char *) &table, sizeof(table));
	if (!write_segments(writer, last ? writer->nshares : 1))
		return false;
	if (!last)
		append_pipeline(writer, &writer->shares[0].pipeline);
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
