/*
 * device_program_pipeline.c
 *	  Runs the pipelines of a program on a machine, one after the other.
 *
 * A pipeline's rows are divided into pieces, which the machine's workers take one after the other.  Pipelines that fill one table run
 * into it in turn.
 *
 * Tables are sized by the writer's estimate, where memory for the most that can come is too much, or smaller, where the memory does not
 * suffice for that; one that turns out too small is made larger, and its pipeline runs again.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_device_program_run.h"

#define LEAST_RECORDS 1024
#define GROWTH 4
#define ROOM_PARTS 2			/* a table is at first no larger than this part of the memory that there is */
#define MOST_SLOTS 0x7FFFFFFFu

/* ---- memory ---- */

static size_t
record_bytes(const HjgKRecords *table)
{
	return (size_t) table->nslots * table->record_words * sizeof(hjg_u64);
}

static void
free_records(HjgMachineRun *run, HjgKRecords *table)
{
	if (table->records != 0)
		run->machine->free(run, table->records, record_bytes(table));
	table->records = 0;
}

void
hjg_device_free_table(HjgMachineRun *run, hjg_u32 number)
{
	free_records(run, &run->tables[number]);
	if (run->machine->drop != NULL)
		run->machine->drop(run, number);
}

void
hjg_device_free_tables(HjgMachineRun *run)
{
	for (hjg_u32 t = 0; t < run->program->head->tables.n; t++)
		hjg_device_free_table(run, t);
}

/* ---- columns ---- */

HjgKColumn
hjg_device_describe_column(const HjgDeviceProgram *program, hjg_u32 number, hjg_u64 block, hjg_u64 kept)
{
	const HjgProgramColumn *column = &program->columns[number];
	const hjg_u64 at = (column->place & HJG_PROGRAM_IN_BLOCK) != 0 ? block + (column->place & ~HJG_PROGRAM_IN_BLOCK) : kept;
	HjgKColumn	result = {.least = column->least, .nwords = column->nwords};

	if (column->map != HJG_PROGRAM_NO_MAP)
		result.map = block + program->head->maps.off + column->map * sizeof(hjg_u32);
	if (column->nbytes == 0)
		return result;
	result.nulls = column->has_nulls ? at : 0;
	result.codes = at + hjg_device_null_bytes(column, program->column_rows[number]);
	result.width = column->width;
	return result;
}

void
hjg_device_note_rows(const HjgDeviceProgram *program, HjgJobStats *stats)
{
	const hjg_u32 last = program->head->pipelines.n - 1;

	for (hjg_u32 p = 0; p < last; p++)
		stats->build_rows += program->pipelines[p].nrows;
	stats->probe_rows = program->pipelines[last].nrows;
}

/* ---- pieces ---- */

/* Divide a segment into pieces; returns how many. pieces NULL: counts them. */
static hjg_u64
divide_segment(const HjgDeviceProgram *program, const HjgProgramSegment *segment, HjgKPiece *pieces)
{
	const HjgProgramRun *runs = &program->runs[segment->first_run];
	hjg_u64		n = 0;
	hjg_u32		r = 0;
	hjg_u32		row = 0;		/* rows before it are in pieces */

	while (r < segment->nruns)
	{
		const hjg_u32 first_row = row > runs[r].first_row ? row : runs[r].first_row;
		const hjg_u32 end_row = first_row + HJG_K_PIECE_ROWS;
		hjg_u32		end_run = r + 1;

		while (end_run < segment->nruns && runs[end_run].first_row < end_row)
			end_run++;
		row = runs[end_run - 1].end_row < end_row ? runs[end_run - 1].end_row : end_row;
		if (pieces != NULL)
			pieces[n] = (HjgKPiece) {
				.first_row = first_row, .end_row = row, .first_column = segment->first_column,
				.first_run = segment->first_run + r, .nruns = end_run - r, .segment = segment->number
			};
		n++;
		r = row < runs[end_run - 1].end_row ? end_run - 1 : end_run;
	}
	return n;
}

hjg_u64
hjg_device_divide_groups(const HjgKRecords *groups, HjgKPiece *pieces)
{
	const hjg_u64 n = ((hjg_u64) groups->nslots + HJG_K_PIECE_ROWS - 1) / HJG_K_PIECE_ROWS;

	for (hjg_u64 i = 0; i < n && pieces != NULL; i++)
	{
		const hjg_u32 first = (hjg_u32) i * HJG_K_PIECE_ROWS;

		pieces[i] = (HjgKPiece) {.first_row = first, .end_row = i + 1 < n ? first + HJG_K_PIECE_ROWS : groups->nslots};
	}
	return n;
}

static hjg_u64
divide_pipeline(const HjgMachineRun *run, const HjgProgramPipeline *pipeline, HjgKPiece *pieces)
{
	const HjgDeviceProgram *program = run->program;
	hjg_u64		n = 0;

	if (pipeline->source != HJG_PROGRAM_FROM_SEGMENTS)
		return hjg_device_divide_groups(&run->tables[pipeline->source], pieces);
	for (hjg_u32 s = 0; s < pipeline->nsegments; s++)
		n += divide_segment(program, &program->segments[pipeline->first_segment + s], pieces != NULL ? pieces + n : NULL);
	return n;
}

/* ---- tables ---- */

/* Run the pipelines of a table, which is empty and has room for so many records; returns the flags. */
static HjgStatus
fill_sized(HjgMachineRun *run, HjgTableFill *fill, hjg_u64 nrecords, hjg_u32 *flags)
{
	const HjgProgramMachine *machine = run->machine;
	const HjgProgramKernel kernel = fill->table->has_groups ? HJG_KERNEL_GROUP_ROWS : HJG_KERNEL_FILL_RECORDS;
	const hjg_u64 nslots = 2 * nrecords + 16;
	HjgProgramFacts facts;
	HjgStatus	status;

	if (machine->fill != NULL && machine->fill(run, fill, nrecords, flags, &status))
		return status;
	if (nslots > MOST_SLOTS)
		return HJG_ERR_MEMORY;
	fill->sink.nslots = (hjg_u32) nslots;
	TRY(machine->alloc(run, record_bytes(&fill->sink), &fill->sink.records));
	TRY(machine->zero(run, fill->sink.records, record_bytes(&fill->sink)));
	TRY(machine->zero(run, run->facts, sizeof(HjgProgramFacts)));
	for (hjg_u32 f = 0; f < fill->nfeeds; f++)
	{
		HjgTableFeed *feed = &fill->feeds[f];

		feed->args.sink = fill->sink;
		TRY(machine->launch(run, kernel, &feed->args, &feed->args, feed->pieces, feed->npieces));
	}
	TRY(machine->copy_out(run, &facts, run->facts, sizeof(facts)));
	*flags = facts.flags;
	return HJG_OK;
}

/* Count the records for which there is memory. */
static hjg_u64
count_room(const HjgMachineRun *run, size_t bytes)
{
	return run->machine->room == NULL ? UINT64_MAX : run->machine->room(run) / bytes;
}

/* Fill a table, which is made, and made larger until the rows fit; most: of its records. */
static HjgStatus
fill_growing(HjgMachineRun *run, HjgTableFill *fill, hjg_u64 most)
{
	const hjg_u64 expected = fill->table->expected_rows;
	const size_t bytes = 2 * fill->sink.record_words * sizeof(hjg_u64);
	const hjg_u64 generous = run->machine->generous_bytes / bytes;
	const hjg_u64 room = count_room(run, bytes);
	hjg_u64		nrecords = expected > LEAST_RECORDS ? expected : LEAST_RECORDS;
	hjg_u64		more;
	hjg_u32		flags = HJG_K_TABLE_FULL;

	nrecords = most < nrecords || most < generous ? most : nrecords;
	nrecords = nrecords > room / ROOM_PARTS + LEAST_RECORDS ? room / ROOM_PARTS + LEAST_RECORDS : nrecords;
	for (;;)
	{
		const HjgStatus status = fill_sized(run, fill, nrecords, &flags);

		if (status == HJG_OK && flags == 0)
			return HJG_OK;
		free_records(run, &fill->sink);
		if (status != HJG_OK)
			return status;
		if ((flags & (HJG_K_KEY_TWICE | HJG_K_KEY_UNBOUNDED | HJG_K_STRING_UNKNOWN)) != 0)
			return HJG_ERR_INPUT;
		if (nrecords >= most)
			return HJG_ERR_INPUT;
		more = nrecords > most / GROWTH ? most : nrecords * GROWTH;
		nrecords = more > room && nrecords < room ? room : more;
	}
}

static void
add_value(HjgKPipeline *args, HjgKValueKind kind, hjg_u32 reg)
{
	args->values[args->nvalues++] = (HjgKValue) {.kind = (hjg_u8) kind, .reg = (hjg_u8) reg};
}

/* Plan the slots of a worker's own table of groups; 0: they are too many. */
static hjg_u32
plan_near_slots(const HjgProgramMachine *machine, hjg_u64 ngroups, size_t group_bytes)
{
	const hjg_u64 most = machine->near_bytes / group_bytes;

	return 2 * ngroups > most ? 0 : (hjg_u32) (machine->near_slack * ngroups < most ? machine->near_slack * ngroups : most);
}

/* Plan the values of a group, of nrows rows; sets the places of its arguments. */
static void
plan_groups(const HjgMachineRun *run, const HjgProgramTable *table, hjg_u64 nrows, HjgKPipeline *args, HjgKArgument *all_places)
{
	const HjgProgramArgument *arguments = run->program->arguments;
	const hjg_u32 may_be_null = run->program->null_arguments[table - run->program->tables];
	const hjg_u32 nkeys = table->nkeys;

	add_value(args, HJG_K_ROWS, 0);
	for (hjg_u32 i = 0; i < table->narguments; i++)
	{
		const HjgProgramArgument *argument = &arguments[table->first_argument + i];
		HjgKArgument *places = &all_places[i];

		*places = (HjgKArgument) {0};
		if (may_be_null >> i & 1)
		{
			places->nulls = (hjg_u8) args->nvalues;
			add_value(args, HJG_K_NULLS, argument->reg);
		}
		if (argument->wants_sum)
		{
			places->sum = (hjg_u8) args->nvalues;
			places->sum_parts = argument->is_float || nrows == 0 || argument->greatest <= INT64_MAX / nrows ? 1 : 2;
			add_value(args, argument->is_float ? HJG_K_SUM_FLOATS : places->sum_parts == 1 ? HJG_K_SUM : HJG_K_SUM_LOW, argument->reg);
			if (places->sum_parts == 2)
				add_value(args, HJG_K_SUM_HIGH, argument->reg);
		}
		if (argument->wants_extremes)
		{
			places->extremes = (hjg_u8) args->nvalues;
			add_value(args, HJG_K_LEAST, argument->reg);
			add_value(args, HJG_K_GREATEST, argument->reg);
		}
	}
	args->groups = 1;
	args->sink.nkeys = nkeys;
	args->sink.record_words = HJG_K_RECORD_KEYS + nkeys + args->nvalues;
	args->near_slots = nkeys == 0 ? 1 : plan_near_slots(run->machine, table->expected_rows, args->sink.record_words * sizeof(hjg_u64));
}

static void
plan_table(const HjgProgramPipeline *pipeline, const HjgProgramTable *table, HjgKPipeline *args)
{
	for (hjg_u32 p = 0; p < table->npayload; p++)
		add_value(args, HJG_K_PAYLOAD, pipeline->payload[p]);
	args->unique = table->unique;
	args->sink.nkeys = table->nkeys;
	args->sink.npayload = table->npayload;
	args->sink.record_words = HJG_K_RECORD_KEYS + table->nkeys + table->npayload;
}

/* ---- pipelines ---- */

void
hjg_device_set_source(const HjgMachineRun *run, hjg_u32 source, HjgKPipeline *args)
{
	args->from_groups = 1;
	args->source_number = source;
	args->source = run->tables[source];
	memcpy(args->arguments, run->arguments[source], sizeof(args->arguments));
}

/* Prepare a pipeline of a table that nrows rows come to, from all of its pipelines. */
static void
plan_pipeline(const HjgMachineRun *run, hjg_u32 number, hjg_u64 nrows, HjgKPipeline *args, HjgKArgument *places)
{
	const HjgDeviceProgram *program = run->program;
	const HjgProgram *head = program->head;
	const HjgProgramPipeline *pipeline = &program->pipelines[number];
	const HjgProgramTable *table = &program->tables[pipeline->sink];

	*args = (HjgKPipeline) {
		.steps = run->block + head->steps.off + pipeline->first_step * sizeof(HjgProgramStep),
		.columns = run->columns,
		.runs = run->block + head->runs.off,
		.sets = run->block + head->values.off,
		.flags = run->facts + offsetof(HjgProgramFacts, flags),
		.nsteps = pipeline->nsteps,
		.nregisters = program->nregisters[number],
		.ncolumns = pipeline->ncolumns,
	};
	memcpy(args->tables, run->tables, sizeof(args->tables));
	memcpy(args->keys, pipeline->keys, sizeof(args->keys));
	if (pipeline->source != HJG_PROGRAM_FROM_SEGMENTS)
		hjg_device_set_source(run, pipeline->source, args);
	if (table->has_groups)
		plan_groups(run, table, nrows, args, places);
	else
		plan_table(pipeline, table, args);
}

/* Divide the rows of a pipeline, and have the pieces on the machine, too. */
static HjgStatus
copy_pieces(HjgMachineRun *run, const HjgProgramPipeline *pipeline, HjgTableFeed *feed)
{
	size_t		bytes;

	feed->npieces = (hjg_u32) divide_pipeline(run, pipeline, NULL);
	bytes = feed->npieces * sizeof(HjgKPiece);
	feed->pieces = malloc(bytes + 1);
	if (feed->pieces == NULL)
		return HJG_ERR_MEMORY;
	(void) divide_pipeline(run, pipeline, feed->pieces);
	TRY(run->machine->alloc(run, bytes, &feed->args.pieces));
	return run->machine->copy_in(run, feed->args.pieces, feed->pieces, bytes);
}

static void
free_pieces(HjgMachineRun *run, HjgTableFeed *feed)
{
	if (feed->args.pieces != 0)
		run->machine->free(run, feed->args.pieces, feed->npieces * sizeof(HjgKPiece));
	free(feed->pieces);
}

/* Run n pipelines, from this one on, that fill one table. */
static HjgStatus
run_pipelines(HjgMachineRun *run, hjg_u32 first, hjg_u32 n)
{
	const HjgProgramPipeline *pipelines = &run->program->pipelines[first];
	const hjg_u32 sink = pipelines->sink;
	HjgTableFill fill = {.number = sink, .table = &run->program->tables[sink], .nfeeds = n, .feeds = calloc(n, sizeof(HjgTableFeed))};
	HjgStatus	status = fill.feeds != NULL ? HJG_OK : HJG_ERR_MEMORY;
	hjg_u64		nrows = 0;

	for (hjg_u32 i = 0; i < n; i++)
		nrows += pipelines[i].nrows;
	for (hjg_u32 i = 0; i < n && status == HJG_OK; i++)
	{
		plan_pipeline(run, first + i, nrows, &fill.feeds[i].args, run->arguments[sink]);
		status = copy_pieces(run, &pipelines[i], &fill.feeds[i]);
	}
	if (status == HJG_OK)
	{
		fill.sink = fill.feeds[0].args.sink;
		status = fill_growing(run, &fill, fill.table->max_rows < nrows ? fill.table->max_rows : nrows);
	}
	for (hjg_u32 i = 0; i < n && fill.feeds != NULL; i++)
		free_pieces(run, &fill.feeds[i]);
	free(fill.feeds);
	run->tables[sink] = fill.sink;
	return status;
}

/* Free the groups that no pipeline behind this one reads. */
static void
free_read_groups(HjgMachineRun *run, hjg_u32 number)
{
	const HjgDeviceProgram *program = run->program;
	const hjg_u32 source = program->pipelines[number].source;

	for (hjg_u32 p = number + 1; p < program->head->pipelines.n; p++)
		if (program->pipelines[p].source == source)
			return;
	if (source != HJG_PROGRAM_FROM_SEGMENTS)
		hjg_device_free_table(run, source);
}

HjgStatus
hjg_device_run_pipelines(HjgMachineRun *run)
{
	const HjgProgramPipeline *pipelines = run->program->pipelines;
	const hjg_u32 npipelines = run->program->head->pipelines.n;
	HjgStatus	status = HJG_OK;
	hjg_u32		n;

	for (hjg_u32 p = 0; p < npipelines && status == HJG_OK; p += n)
	{
		for (n = 1; p + n < npipelines && pipelines[p + n].sink == pipelines[p].sink;)
			n++;
		status = run_pipelines(run, p, n);
		for (hjg_u32 i = p; i < p + n && status == HJG_OK; i++)
			free_read_groups(run, i);
	}
	return status;
}
