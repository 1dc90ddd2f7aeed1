/*
 * device_cuda_pipeline.c
 *	  Runs a checked program on a GPU (cuda_program.cu).
 *
 * The block goes to the device as it is, the columns have been brought there, and the pipelines run one after the other.  A
 * pipeline's rows are divided into pieces, and these into launches that end soon, so that a cancelled job does not wait.
 *
 * Tables are sized by the writer's estimate, where memory for the most that can come is too much; one that turns out too small is
 * made larger, and its pipeline runs again.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_program.h"

#define IMAGE "cuda_program"
#define LEAST_THREADS 64
#define LAUNCH_ROWS (16u * 1024 * 1024)
#define NEAR_BYTES (16u * 1024)	/* most of a block's own table */
#define LEAST_RECORDS 1024
#define GROWTH 4
#define MOST_SLOTS 0x7FFFFFFFu

size_t		hjg_cuda_program_generous_bytes = (size_t) 64 << 20;

HJG_CUDA_KERNEL(hjg_k_fill_records, IMAGE);
HJG_CUDA_KERNEL(hjg_k_group_rows, IMAGE);
HJG_CUDA_KERNEL(hjg_k_count_records, IMAGE);
HJG_CUDA_KERNEL(hjg_k_list_groups, IMAGE);

/* Facts that kernels find. */
typedef struct RunFacts
{
	hjg_u64		listed;			/* groups */
	hjg_u32		flags;
	hjg_u32		pad;
} RunFacts;

/* A program that runs. */
typedef struct ProgramRun
{
	const HjgDeviceProgram *program;
	const HjgEnv *env;
	HjgCudaStream *stream;
	HjgCudaGrant grant;
	HjgCudaPtr	block;
	HjgCudaPtr	columns;		/* HjgKColumn[] */
	HjgCudaPtr	facts;
	HjgCudaPtr	pieces;			/* of the pipeline that runs */
	HjgKRecords tables[HJG_PROGRAM_MAX_PIPELINES];	/* by their numbers; groups behind the last one */
	HjgKArgument arguments[HJG_PROGRAM_MAX_ARGUMENTS];
} ProgramRun;

#define TRY(call) \
	do { \
		HjgStatus try_status = (call); \
		if (try_status != HJG_OK) \
			return try_status; \
	} while (0)

/* ---- memory ---- */

/* Allocate, after adding to the grant what it lacks. */
static HjgStatus
allocate_granted(ProgramRun *run, size_t bytes, HjgCudaPtr *ptr)
{
	const size_t free_bytes = run->grant.bytes - run->grant.used_bytes;
	const size_t wanted = hjg_cuda_block_bytes(bytes);

	*ptr = 0;
	if (wanted > free_bytes)
		TRY(hjg_cuda_admit_more(&run->grant, wanted - free_bytes, run->env, HJG_CUDA_PROGRAM_WAIT_MS));
	return hjg_cuda_alloc(run->stream, bytes, ptr);
}

static void
free_records(ProgramRun *run, HjgKRecords *table)
{
	hjg_cuda_free(run->stream, table->records);
	table->records = 0;
}

/* ---- columns ---- */

/* Describe a column whose bits of NULLs and codes are at this address. */
static HjgKColumn
describe_column(const ProgramRun *run, const HjgProgramColumn *column, hjg_u32 nrows, HjgCudaPtr at)
{
	const HjgProgram *head = run->program->head;
	HjgKColumn	result = {.least = column->least, .nwords = column->nwords};

	if (column->map != HJG_PROGRAM_NO_MAP)
		result.map = run->block + head->maps.off + column->map * sizeof(hjg_u32);
	if (column->nbytes == 0)
		return result;
	result.nulls = column->has_nulls ? at : 0;
	result.codes = at + hjg_device_null_bytes(column, nrows);
	result.width = column->width;
	return result;
}

/* List the columns that are to be brought, those of a table's column side by side, as they are used; returns how many. */
static size_t
list_columns(const HjgDeviceProgram *program, HjgCudaColumn *list, hjg_u32 *places)
{
	size_t		n = 0;

	for (hjg_u32 p = 0; p < program->head->pipelines.n; p++)
	{
		const HjgProgramPipeline *pipeline = &program->pipelines[p];

		for (hjg_u32 c = 0; c < pipeline->ncolumns; c++)
			for (hjg_u32 s = 0; s < pipeline->nsegments; s++)
			{
				const HjgProgramSegment *segment = &program->segments[pipeline->first_segment + s];
				const hjg_u32 place = segment->first_column + c;
				const HjgProgramColumn *column = &program->columns[place];

				if (segment->nruns == 0 || (column->place & HJG_PROGRAM_IN_BLOCK) != 0 || places[place] != 0 ||
					hjg_device_column_bytes(column, segment->nrows) == 0)
					continue;
				list[n] = (HjgCudaColumn) {.column = column, .nrows = segment->nrows};
				places[place] = (hjg_u32) ++n;
			}
	}
	return n;
}

/* Write the descriptors of all columns; places: 1 + the place of a column in the list of those that were brought. */
static HjgStatus
write_descriptors(ProgramRun *run, const HjgCudaColumn *list, const hjg_u32 *places)
{
	const HjgDeviceProgram *program = run->program;
	const hjg_u32 n = program->head->columns.n;
	HjgKColumn *columns = calloc((size_t) n + 1, sizeof(HjgKColumn));
	HjgStatus	status;

	if (columns == NULL)
		return HJG_ERR_MEMORY;
	for (hjg_u32 c = 0; c < n; c++)
	{
		const HjgProgramColumn *column = &program->columns[c];

		if (program->column_rows[c] > 0)
			columns[c] = describe_column(run, column, program->column_rows[c], places[c] > 0 ? list[places[c] - 1].at :
										 run->block + (column->place & ~HJG_PROGRAM_IN_BLOCK));
	}
	status = hjg_cuda_copy_in(run->stream, run->columns, columns, n * sizeof(HjgKColumn));
	if (status == HJG_OK)
		status = hjg_cuda_wait(run->stream);
	free(columns);
	return status;
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
				.first_run = segment->first_run + r, .nruns = end_run - r
			};
		n++;
		r = row < runs[end_run - 1].end_row ? end_run - 1 : end_run;
	}
	return n;
}

static hjg_u64
divide_pipeline(const HjgDeviceProgram *program, const HjgProgramPipeline *pipeline, HjgKPiece *pieces)
{
	hjg_u64		n = 0;

	for (hjg_u32 s = 0; s < pipeline->nsegments; s++)
		n += divide_segment(program, &program->segments[pipeline->first_segment + s], pieces != NULL ? pieces + n : NULL);
	return n;
}

/* Launch the kernel for all pieces, in parts that end soon. */
static HjgStatus
run_pieces(ProgramRun *run, HjgCudaKernel *kernel, HjgKPipeline *args, const HjgKPiece *pieces, hjg_u32 npieces)
{
	const HjgCudaPtr base = run->pieces;
	hjg_u32		threads = HJG_K_PROGRAM_THREADS;
	const size_t fixed = (size_t) args->near_slots * args->sink.record_words * sizeof(hjg_u64) + args->nsteps * sizeof(HjgProgramStep) +
		args->ncolumns * sizeof(HjgKColumn);

	while (threads > LEAST_THREADS && fixed + (size_t) args->nregisters * threads * sizeof(int64_t) > run->stream->device->shared_bytes)
		threads /= 2;
	for (hjg_u32 first = 0, end; first < npieces; first = end)
	{
		hjg_u32		nrows = 0;

		for (end = first; end < npieces && nrows < LAUNCH_ROWS; end++)
			nrows += pieces[end].end_row - pieces[end].first_row;
		args->pieces = base + first * sizeof(HjgKPiece);
		args->npieces = end - first;
		TRY(hjg_cuda_launch_filling(run->stream, kernel, threads, (unsigned) (fixed + (size_t) args->nregisters * threads * sizeof(int64_t)),
									args->npieces, args));
		TRY(hjg_cuda_wait(run->stream));
		TRY(hjg_cuda_mark(run->stream, args->groups ? HJG_CUDA_PROBE : HJG_CUDA_BUILD));
	}
	return HJG_OK;
}

/* ---- tables ---- */

static HjgStatus
read_run_facts(ProgramRun *run, RunFacts *facts)
{
	TRY(hjg_cuda_copy_out(run->stream, facts, run->facts, sizeof(*facts)));
	return hjg_cuda_wait(run->stream);
}

/* Run a pipeline into an empty table with room for so many records; returns the flags. */
static HjgStatus
fill_sized(ProgramRun *run, HjgCudaKernel *kernel, HjgKPipeline *args, hjg_u64 nrecords, const HjgKPiece *pieces, hjg_u32 npieces,
		   hjg_u32 *flags)
{
	const hjg_u64 nslots = 2 * nrecords + 16;
	const size_t bytes = (size_t) nslots * args->sink.record_words * sizeof(hjg_u64);
	RunFacts	facts;

	if (nslots > MOST_SLOTS)
		return HJG_ERR_MEMORY;
	TRY(allocate_granted(run, bytes, &args->sink.records));
	args->sink.nslots = (hjg_u32) nslots;
	TRY(hjg_cuda_mark(run->stream, args->groups ? HJG_CUDA_PROBE : HJG_CUDA_BUILD));
	TRY(hjg_cuda_zero(run->stream, args->sink.records, bytes));
	TRY(hjg_cuda_zero(run->stream, run->facts, sizeof(RunFacts)));
	TRY(run_pieces(run, kernel, args, pieces, npieces));
	TRY(read_run_facts(run, &facts));
	*flags = facts.flags;
	return HJG_OK;
}

/* Run a pipeline into a table that is made, and made larger until the rows fit; most: of its records. */
static HjgStatus
fill_growing(ProgramRun *run, HjgCudaKernel *kernel, HjgKPipeline *args, hjg_u64 expected, hjg_u64 most, const HjgKPiece *pieces,
		   hjg_u32 npieces)
{
	const hjg_u64 generous = hjg_cuda_program_generous_bytes / (2 * args->sink.record_words * sizeof(hjg_u64));
	hjg_u64		nrecords = expected > LEAST_RECORDS ? expected : LEAST_RECORDS;
	hjg_u32		flags = HJG_K_TABLE_FULL;

	nrecords = most < nrecords || most < generous ? most : nrecords;
	for (;;)
	{
		const HjgStatus status = fill_sized(run, kernel, args, nrecords, pieces, npieces, &flags);

		if (status == HJG_OK && flags == 0)
			return HJG_OK;
		free_records(run, &args->sink);
		if (status != HJG_OK)
			return status;
		if ((flags & HJG_K_KEY_TWICE) != 0)
			return HJG_ERR_INPUT;
		if (nrecords >= most)
			return HJG_ERR_INPUT;
		nrecords = nrecords > most / GROWTH ? most : nrecords * GROWTH;
	}
}

static void
add_value(HjgKPipeline *args, HjgKValueKind kind, hjg_u32 reg)
{
	args->values[args->nvalues++] = (HjgKValue) {.kind = (hjg_u8) kind, .reg = (hjg_u8) reg};
}

/* Plan the values of a group. */
static void
plan_groups(ProgramRun *run, HjgKPipeline *args, hjg_u64 nrows)
{
	const HjgDeviceProgram *program = run->program;
	const hjg_u32 nkeys = program->head->nkeys;
	hjg_u64		slots;

	add_value(args, HJG_K_ROWS, 0);
	for (hjg_u32 i = 0; i < program->head->arguments.n; i++)
	{
		const HjgProgramArgument *argument = &program->arguments[i];
		HjgKArgument *places = &run->arguments[i];

		*places = (HjgKArgument) {.nulls = (hjg_u8) args->nvalues};
		add_value(args, HJG_K_NULLS, argument->reg);
		if (argument->wants_sum)
		{
			places->sum = (hjg_u8) args->nvalues;
			places->sum_parts = nrows == 0 || argument->greatest <= INT64_MAX / nrows ? 1 : 2;
			add_value(args, places->sum_parts == 1 ? HJG_K_SUM : HJG_K_SUM_LOW, argument->reg);
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
	slots = nkeys == 0 ? 1 : program->head->expected_groups < NEAR_BYTES ? 2 * program->head->expected_groups : NEAR_BYTES;
	args->near_slots = slots * args->sink.record_words * sizeof(hjg_u64) <= NEAR_BYTES ? (hjg_u32) slots : 0;
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

static HjgStatus
run_pipeline(ProgramRun *run, hjg_u32 number, HjgKPiece *pieces, hjg_u32 npieces)
{
	const HjgDeviceProgram *program = run->program;
	const HjgProgram *head = program->head;
	const HjgProgramPipeline *pipeline = &program->pipelines[number];
	const bool	groups = pipeline->sink == HJG_PROGRAM_TO_GROUPS;
	const hjg_u32 sink = groups ? head->tables.n : pipeline->sink;
	HjgKPipeline args = {
		.steps = run->block + head->steps.off + pipeline->first_step * sizeof(HjgProgramStep),
		.columns = run->columns,
		.runs = run->block + head->runs.off,
		.sets = run->block + head->values.off,
		.flags = run->facts + offsetof(RunFacts, flags),
		.nsteps = pipeline->nsteps,
		.nregisters = program->nregisters[number],
		.ncolumns = pipeline->ncolumns,
	};
	hjg_u64		expected = head->expected_groups;
	hjg_u64		most = head->max_groups;
	HjgStatus	status;

	memcpy(args.tables, run->tables, sizeof(args.tables));
	memcpy(args.keys, pipeline->keys, sizeof(args.keys));
	if (groups)
		plan_groups(run, &args, pipeline->nrows);
	else
	{
		plan_table(pipeline, &program->tables[sink], &args);
		expected = program->tables[sink].expected_rows;
		most = program->tables[sink].max_rows;
	}
	TRY(allocate_granted(run, npieces * sizeof(HjgKPiece), &run->pieces));
	status = hjg_cuda_copy_in(run->stream, run->pieces, pieces, npieces * sizeof(HjgKPiece));
	if (status == HJG_OK)
		status = fill_growing(run, groups ? &hjg_k_group_rows : &hjg_k_fill_records, &args, expected, most < pipeline->nrows ? most : pipeline->nrows,
							pieces, npieces);
	/* also of a copy that an error left queued */
	(void) hjg_cuda_wait(run->stream);
	hjg_cuda_free(run->stream, run->pieces);
	run->tables[sink] = args.sink;
	return status;
}

static HjgStatus
run_pipelines(ProgramRun *run)
{
	HjgStatus	status = HJG_OK;

	for (hjg_u32 p = 0; p < run->program->head->pipelines.n && status == HJG_OK; p++)
	{
		const hjg_u64 npieces = divide_pipeline(run->program, &run->program->pipelines[p], NULL);
		HjgKPiece  *pieces = malloc((npieces + 1) * sizeof(HjgKPiece));

		if (pieces == NULL)
			return HJG_ERR_MEMORY;
		(void) divide_pipeline(run->program, &run->program->pipelines[p], pieces);
		status = run_pipeline(run, p, pieces, (hjg_u32) npieces);
		free(pieces);
	}
	return status;
}

/* ---- the result ---- */

/* Get memory for the result, whose first word is the number of groups. */
static HjgStatus
alloc_words(const ProgramRun *run, HjgCudaProgram *result, hjg_u64 ngroups)
{
	const HjgProgram *head = run->program->head;

	result->nwords = 1 + ngroups * hjg_program_group_words(head->nkeys, head->arguments.n);
	/* cursors have 32 bits */
	if (ngroups > head->max_groups || result->nwords > UINT32_MAX)
		return HJG_ERR_INPUT;
	result->words = run->env->alloc(run->env->arg, result->nwords * sizeof(hjg_u64));
	if (result->words == NULL)
		return HJG_ERR_MEMORY;
	result->words[0] = ngroups;
	return HJG_OK;
}

/* Without keys there is one group, even if no row came. */
static HjgStatus
write_empty_group(const ProgramRun *run, HjgCudaProgram *result)
{
	TRY(alloc_words(run, result, 1));
	memset(result->words + 1, 0, (result->nwords - 1) * sizeof(hjg_u64));
	return HJG_OK;
}

static HjgStatus
copy_groups(ProgramRun *run, HjgCudaProgram *result)
{
	const HjgProgram *head = run->program->head;
	HjgKRecords *groups = &run->tables[head->tables.n];
	HjgKGroupList args = {
		.table = *groups, .listed = run->facts + offsetof(RunFacts, listed),
		.narguments = head->arguments.n, .group_words = hjg_program_group_words(head->nkeys, head->arguments.n)
	};
	const hjg_u64 nblocks = hjg_cuda_blocks(groups->nslots, HJG_K_PROGRAM_THREADS);
	RunFacts	facts;
	HjgStatus	status;

	memcpy(args.arguments, run->arguments, sizeof(args.arguments));
	TRY(hjg_cuda_mark(run->stream, HJG_CUDA_PROBE));
	TRY(hjg_cuda_launch_filling(run->stream, &hjg_k_count_records, HJG_K_PROGRAM_THREADS, 0, nblocks, &args));
	TRY(read_run_facts(run, &facts));
	if (facts.listed == 0 && head->nkeys == 0)
		return write_empty_group(run, result);
	TRY(alloc_words(run, result, facts.listed));
	if (facts.listed == 0)
		return HJG_OK;
	for (hjg_u32 t = 0; t < head->tables.n; t++)
		free_records(run, &run->tables[t]);
	TRY(allocate_granted(run, (result->nwords - 1) * sizeof(hjg_u64), &args.words));
	TRY(hjg_cuda_zero(run->stream, run->facts, sizeof(RunFacts)));
	status = hjg_cuda_launch_filling(run->stream, &hjg_k_list_groups, HJG_K_PROGRAM_THREADS, 0, nblocks, &args);
	if (status == HJG_OK)
		status = hjg_cuda_mark(run->stream, HJG_CUDA_TRANSFER_OUT);
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(run->stream, result->words + 1, args.words, (result->nwords - 1) * sizeof(hjg_u64));
	if (status == HJG_OK)
		status = hjg_cuda_wait(run->stream);
	hjg_cuda_free(run->stream, args.words);
	return status;
}

/* ---- the program ---- */

static size_t
fixed_bytes(const HjgDeviceProgram *program)
{
	return hjg_cuda_block_bytes(program->nbytes) + hjg_cuda_block_bytes(program->head->columns.n * sizeof(HjgKColumn)) +
		hjg_cuda_block_bytes(sizeof(RunFacts));
}

/* Run the program, whose columns are on the device. */
static HjgStatus
run_program(ProgramRun *run, HjgCudaProgram *result, const HjgCudaColumn *list, const hjg_u32 *places)
{
	const HjgDeviceProgram *program = run->program;

	TRY(hjg_cuda_mark(run->stream, HJG_CUDA_TRANSFER_IN));
	TRY(allocate_granted(run, program->nbytes, &run->block));
	TRY(allocate_granted(run, program->head->columns.n * sizeof(HjgKColumn), &run->columns));
	TRY(allocate_granted(run, sizeof(RunFacts), &run->facts));
	TRY(hjg_cuda_copy_in(run->stream, run->block, program->block, program->nbytes));
	TRY(write_descriptors(run, list, places));
	TRY(run_pipelines(run));
	return copy_groups(run, result);
}

static void
free_memory(ProgramRun *run)
{
	(void) hjg_cuda_wait(run->stream);
	for (hjg_u32 t = 0; t <= run->program->head->tables.n; t++)
		free_records(run, &run->tables[t]);
	hjg_cuda_free(run->stream, run->block);
	hjg_cuda_free(run->stream, run->columns);
	hjg_cuda_free(run->stream, run->facts);
}

static void
note_stats(const ProgramRun *run, const HjgCudaStreams *streams, HjgCudaProgram *result)
{
	const HjgProgram *head = run->program->head;

	result->stats.build_rows = 0;
	for (hjg_u32 p = 0; p + 1 < head->pipelines.n; p++)
		result->stats.build_rows += run->program->pipelines[p].nrows;
	result->stats.probe_rows = run->program->pipelines[head->pipelines.n - 1].nrows;
	result->stats.build_ns = hjg_cuda_streams_ns(streams, HJG_CUDA_BUILD);
	result->stats.probe_ns = hjg_cuda_streams_ns(streams, HJG_CUDA_PROBE);
	result->stats.transfer_ns = hjg_cuda_streams_ns(streams, HJG_CUDA_TRANSFER_IN) + hjg_cuda_streams_ns(streams, HJG_CUDA_TRANSFER_OUT);
	result->stats.workspace_bytes = run->grant.peak_bytes;
}

/* Keep the text of an error, whichever stream has it. */
static void
note_run_error(const HjgCudaStreams *streams, HjgCudaProgram *result)
{
	const char *text = streams->work.error[0] ? streams->work.error : streams->in.error[0] ? streams->in.error :
		streams->out[0].error[0] ? streams->out[0].error : "the driver refused";

	memcpy(result->error, text, strnlen(text, sizeof(result->error) - 1));
}

HjgStatus
hjg_cuda_program_run(HjgCudaProgram *result, const HjgDeviceProgram *program, const HjgKeptFile *kept)
{
	const hjg_u32 ncolumns = program->head->columns.n;
	HjgCudaColumn *list = malloc(((size_t) ncolumns + 1) * sizeof(HjgCudaColumn));
	hjg_u32    *places = calloc((size_t) ncolumns + 1, sizeof(hjg_u32));
	ProgramRun	run = {.program = program, .env = result->env};
	HjgCudaStreams *streams = NULL;
	HjgStatus	status = HJG_ERR_MEMORY;

	if (list != NULL && places != NULL)
		status = hjg_cuda_admit(result->device->pool, fixed_bytes(program), result->env, HJG_CUDA_PROGRAM_WAIT_MS, &run.grant);
	if (status == HJG_OK)
		status = hjg_cuda_streams_take(result->device, result->env, &run.grant, &streams);
	if (status == HJG_OK)
	{
		const size_t n = list_columns(program, list, places);

		run.stream = &streams->work;
		status = hjg_cuda_resident_bring(streams, result->env, kept, list, n);
		if (status == HJG_OK)
		{
			status = run_program(&run, result, list, places);
			free_memory(&run);
			hjg_cuda_resident_release(result->device, list, n);
		}
		if (status == HJG_ERR_DEVICE)
			note_run_error(streams, result);
		note_stats(&run, streams, result);
		hjg_cuda_streams_give(streams);
	}
	hjg_cuda_dismiss(&run.grant);
	free(list);
	free(places);
	return status;
}
