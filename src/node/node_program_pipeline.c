/*
 * node_program_pipeline.c
 *	  Begins and ends the pipelines of a program, and puts its block together.
 *
 * The columns of a pipeline's segments are written at its end, when all are known (node_program_column.c).
 *
 * For several devices as many blocks are put together. They have the same steps, but for bounds of ranges, and share what these refer to; each has
 * pipelines, tables, segments, columns and runs of its own. What does not change from query to query decides which device has a segment
 * (node_program_divide.c), so its columns stay in that device's memory.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "node/hjg_program_write.h"

/* ---------- pipelines ---------- */

void
hjg_program_begin_pipeline(HjgProgramWriter *writer, const HjgToldRows *rows)
{
	HjgNotedPipeline *noted = palloc0(sizeof(HjgNotedPipeline));

	noted->rows = rows;
	writer->noted = lappend(writer->noted, noted);
	writer->pipeline = (HjgProgramPipeline) {.first_step = writer->steps.len / sizeof(HjgProgramStep), .source = HJG_PROGRAM_FROM_SEGMENTS};
	writer->range_column = -1;
	writer->nsources = 0;
	writer->taken = writer->outer.reserved;
}

void
hjg_program_begin_groups(HjgProgramWriter *writer)
{
	const uint64 max_rows = hjg_program_noted(writer)->max_rows;

	hjg_program_begin_pipeline(writer, NULL);
	writer->collection = (HjgCollection) {0};
	writer->desc = NULL;
	writer->pipeline.source = writer->ntables - 1;
	writer->pipeline.nrows = max_rows;
	hjg_program_noted(writer)->source = writer->pipeline.source;
}

uint64
hjg_program_source_rows(const HjgProgramWriter *writer)
{
	return writer->pipeline.source == HJG_PROGRAM_FROM_SEGMENTS ? writer->collection.nrows : writer->pipeline.nrows;
}

/* Begin the pipeline as a share has it, without segments. */
static void
begin_share(const HjgProgramWriter *writer, HjgProgramShare *share)
{
	share->pipeline = writer->pipeline;
	share->pipeline.first_segment = share->segments.len / sizeof(HjgProgramSegment);
	share->pipeline.ncolumns = writer->nsources;
	if (writer->pipeline.source != HJG_PROGRAM_FROM_SEGMENTS)
		share->pipeline.nrows = ((const HjgProgramTable *) share->tables.data)[writer->pipeline.source].max_rows;
}

/* Add a segment of the collection with these columns to a share. */
static void
add_segment_to(HjgProgramShare *share, const HjgCollectedSegment *collected, uint32 number, const HjgProgramColumn *columns, int ncolumns)
{
	const HjgProgramSegment segment = {
		.nrows = collected->nrows, .number = number, .first_column = share->columns.len / sizeof(HjgProgramColumn),
		.first_run = share->runs.len / sizeof(HjgProgramRun), .nruns = collected->nruns
	};

	appendBinaryStringInfo(&share->segments, (const char *) &segment, sizeof(segment));
	appendBinaryStringInfo(&share->columns, (const char *) columns, ncolumns * sizeof(HjgProgramColumn));
	appendBinaryStringInfo(&share->runs, (const char *) collected->runs, collected->nruns * sizeof(HjgProgramRun));
	share->pipeline.nsegments++;
	for (int r = 0; r < collected->nruns; r++)
		share->pipeline.nrows += collected->runs[r].end_row - collected->runs[r].first_row;
}

/* Write the segments of the pipeline, each for the shares that have rows of it; last: it makes the result. */
static bool
write_segments(HjgProgramWriter *writer, bool last)
{
	const uint64 column_bytes = (uint64) writer->collection.nsegments * writer->nsources * sizeof(HjgProgramColumn);
	HjgProgramColumn *columns = palloc((writer->nsources + 1) * sizeof(HjgProgramColumn));

	for (int i = 0; i < writer->nshares; i++)
	{
		if (writer->shares[i].columns.len + column_bytes > HJG_PROGRAM_MAX_BYTES)
			return hjg_program_refuse(writer, "it is too large");
		begin_share(writer, &writer->shares[i]);
	}
	for (int s = 0; writer->nshares > 0 && s < writer->collection.nsegments; s++)
	{
		const HjgCollectedSegment *segment = &writer->collection.segments[s];

		CHECK_FOR_INTERRUPTS();
		for (int c = 0; c < writer->nsources; c++)
			if (!hjg_program_write_column(writer, &writer->sources[c], segment, &columns[c]))
				return false;
		for (int i = 0; i < writer->nshares; i++)
			if (hjg_program_has_segment(writer, i, segment, last))
				add_segment_to(&writer->shares[i], segment, s, columns, writer->nsources);
	}
	pfree(columns);
	return true;
}

bool
hjg_program_end_rows(HjgProgramWriter *writer)
{
	if (!write_segments(writer, false))
		return false;
	for (int i = 0; i < writer->nshares; i++)
		writer->shares[i].pairs = writer->shares[i].pipeline;
	return true;
}

/* Describe the table as a share has it, to which at most this many rows come. */
static HjgProgramTable
describe_share(HjgProgramTable table, uint64 nrows)
{
	if (nrows < table.max_rows)
	{
		table.expected_rows = Max((uint64) ((double) table.expected_rows * nrows / table.max_rows), 1);
		table.max_rows = Max(nrows, 1);
	}
	return table;
}

/* End the current pipeline, and the one before it if both fill the table. */
static bool
end_pipelines(HjgProgramWriter *writer, HjgProgramTable table, bool last, bool both)
{
	const uint32 sink = writer->ntables++;

	/* a pipeline fills one table, and the result's steps read another one */
	if (list_length(writer->noted) > HJG_PROGRAM_MAX_PIPELINES)
		return hjg_program_refuse(writer, "it has too many tables");
	hjg_program_noted(writer)->sink = sink;
	hjg_program_noted(writer)->max_rows = table.max_rows;
	if (!write_segments(writer, last))
		return false;
	for (int i = 0; i < writer->nshares; i++)
	{
		HjgProgramShare *share = &writer->shares[i];
		HjgProgramTable described = describe_share(table, share->pipeline.nrows + (both ? share->pairs.nrows : 0));

		share->pipeline.sink = share->pairs.sink = sink;
		if (both)
			appendBinaryStringInfo(&share->pipelines, (const char *) &share->pairs, sizeof(HjgProgramPipeline));
		appendBinaryStringInfo(&share->pipelines, (const char *) &share->pipeline, sizeof(HjgProgramPipeline));
		appendBinaryStringInfo(&share->tables, (const char *) &described, sizeof(described));
	}
	return true;
}

bool
hjg_program_end_pipeline(HjgProgramWriter *writer, HjgProgramTable table, bool last)
{
	return end_pipelines(writer, table, last, false);
}

bool
hjg_program_end_both(HjgProgramWriter *writer, HjgProgramTable table, bool last)
{
	return end_pipelines(writer, table, last, true);
}

/* ---------- the block ---------- */

/* Add an array to a block. */
static void
add_array(HjgProgramTask *task, StringInfo from, Size element, HjgProgramArray *array)
{
	const int	nbytes = from->len;

	/* room for the padding, whose bytes do not count */
	enlargeStringInfo(from, MAXIMUM_ALIGNOF);
	memset(from->data + nbytes, 0, MAXIMUM_ALIGNOF);
	*array = (HjgProgramArray) {.off = (uint32) task->head.nbytes, .n = (uint32) (nbytes / element)};
	task->parts[task->nparts++] = (HjgProgramPart) {.words = (const uint64 *) from->data, .nwords = MAXALIGN(nbytes) / sizeof(uint64)};
	task->head.nbytes += MAXALIGN(nbytes);
}

/* Set the bounds of a share's ranges in a copy of the steps. */
static StringInfo
copy_steps(const HjgProgramWriter *writer, int share)
{
	StringInfo	copy = makeStringInfo();
	ListCell   *lc;

	appendBinaryStringInfo(copy, writer->steps.data, writer->steps.len);
	foreach(lc, writer->range_steps)
	{
		HjgProgramStep *step = (HjgProgramStep *) copy->data + lfirst_int(lc);

		step->low = writer->division->first[share];
		/* the ranges' ends are included */
		step->high = share + 1 < writer->nshares ? writer->division->first[share + 1] - 1 : PG_INT64_MAX;
	}
	return copy;
}

/* Put the block of a share together; returns the place of the memory in it. */
static uint32
put_together(HjgProgramWriter *writer, int number, HjgProgramTask *task)
{
	HjgProgramShare *share = &writer->shares[number];
	HjgProgram *head = &task->head;
	HjgProgramArray memory = {0};

	task->parts[task->nparts++] = (HjgProgramPart) {.words = (const uint64 *) head, .nwords = sizeof(*head) / sizeof(uint64)};
	head->nbytes = sizeof(*head);
	add_array(task, copy_steps(writer, number), sizeof(HjgProgramStep), &head->steps);
	add_array(task, &writer->maps, sizeof(uint32), &head->maps);
	add_array(task, &writer->values, sizeof(int64), &head->values);
	add_array(task, &writer->arguments, sizeof(HjgProgramArgument), &head->arguments);
	add_array(task, &writer->tests.tests, sizeof(HjgProgramTest), &head->tests);
	add_array(task, &writer->tests.strings, sizeof(HjgProgramString), &head->strings);
	add_array(task, &writer->tests.bytes, 1, &head->bytes);
	add_array(task, &writer->memory, 1, &memory);
	add_array(task, &share->pipelines, sizeof(HjgProgramPipeline), &head->pipelines);
	add_array(task, &share->tables, sizeof(HjgProgramTable), &head->tables);
	add_array(task, &share->segments, sizeof(HjgProgramSegment), &head->segments);
	add_array(task, &share->columns, sizeof(HjgProgramColumn), &head->columns);
	add_array(task, &share->runs, sizeof(HjgProgramRun), &head->runs);
	return memory.off;
}

/* Set the places of a share's columns in the block's memory. */
static void
place_columns(HjgProgramShare *share, uint32 memory)
{
	HjgProgramColumn *columns = (HjgProgramColumn *) share->columns.data;

	for (int c = 0; c < share->columns.len / sizeof(HjgProgramColumn); c++)
		if (columns[c].place & HJG_PROGRAM_IN_BLOCK)
			columns[c].place += memory;
}

int
hjg_program_finish(HjgProgramWriter *writer, const HjgProgram *head, const HjgDeviceId *devices, HjgProgramTask *tasks)
{
	int			ntasks = 0;

	for (int i = 0; i < writer->nshares; i++)
	{
		HjgProgramShare *share = &writer->shares[i];
		const HjgProgramTable *groups = (const HjgProgramTable *) (share->tables.data + share->tables.len) - 1;
		const bool	has_rows = share->pipeline.nrows > 0 || share->pairs.nrows > 0;
		HjgProgramTask *task = &tasks[ntasks];

		if (!has_rows && (ntasks > 0 || i + 1 < writer->nshares))
			continue;
		*task = (HjgProgramTask) {
			.device = devices[i], .head = *head, .group_words = hjg_program_group_words(groups->nkeys, groups->narguments),
			.expected_groups = head->first_groups > 0 ? head->first_groups : groups->expected_rows
		};
		place_columns(share, put_together(writer, i, task));
		if (task->head.nbytes > HJG_PROGRAM_MAX_BYTES)
		{
			hjg_program_refuse(writer, "it is too large");
			return 0;
		}
		ntasks++;
	}
	return ntasks;
}
