/*
 * device_cuda_pipeline.c
 *	  Runs the pipelines of a program on a GPU (cuda_program.cu), one after the other.
 *
 * A pipeline's rows are divided into pieces, and these into launches that end soon, so that a cancelled job does not wait.
 *
 * Tables are sized by the writer's estimate, where memory for the most that can come is too much; one that turns out too small is
 * made larger, and its pipeline runs again.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_program_run.h"

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

/* ---- memory ---- */

HjgStatus
hjg_cuda_program_alloc(HjgCudaProgramRun *run, size_t bytes, HjgCudaPtr *ptr)
{
	const size_t free_bytes = run->grant.bytes - run->grant.used_bytes;
	const size_t wanted = hjg_cuda_block_bytes(bytes);

	*ptr = 0;
	if (wanted > free_bytes)
		TRY(hjg_cuda_admit_more(&run->grant, wanted - free_bytes, run->env, HJG_CUDA_PROGRAM_WAIT_MS));
	return hjg_cuda_alloc(run->stream, bytes, ptr);
}

void
hjg_cuda_free_records(HjgCudaProgramRun *run, HjgKRecords *table)
{
	hjg_cuda_free(run->stream, table->records);
	table->records = 0;
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
hjg_cuda_divide_groups(const HjgKRecords *groups, HjgKPiece *pieces)
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
divide_pipeline(const HjgCudaProgramRun *run, const HjgProgramPipeline *pipeline, HjgKPiece *pieces)
{
	const HjgDeviceProgram *program = run->program;
	hjg_u64		n = 0;

	if (pipeline->source != HJG_PROGRAM_FROM_SEGMENTS)
		return hjg_cuda_divide_groups(&run->tables[pipeline->source], pieces);
	for (hjg_u32 s = 0; s < pipeline->nsegments; s++)
		n += divide_segment(program, &program->segments[pipeline->first_segment + s], pieces != NULL ? pieces + n : NULL);
	return n;
}

HjgStatus
hjg_cuda_program_pieces(HjgCudaProgramRun *run, HjgCudaKernel *kernel, HjgKPipeline *args, void *all_args, const HjgKPiece *pieces, hjg_u32 npieces)
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
									args->npieces, all_args));
		TRY(hjg_cuda_wait(run->stream));
		TRY(hjg_cuda_mark(run->stream, args->groups ? HJG_CUDA_PROBE : HJG_CUDA_BUILD));
	}
	return HJG_OK;
}

/* ---- tables ---- */

static HjgStatus
read_run_facts(HjgCudaProgramRun *run, HjgCudaRunFacts *facts)
{
	TRY(hjg_cuda_copy_out(run->stream, facts, run->facts, sizeof(*facts)));
	return hjg_cuda_wait(run->stream);
}

/* Run a pipeline into an empty table with room for so many records; returns the flags. */
static HjgStatus
fill_sized(HjgCudaProgramRun *run, HjgCudaKernel *kernel, HjgKPipeline *args, hjg_u64 nrecords, const HjgKPiece *pieces, hjg_u32 npieces,
		   hjg_u32 *flags)
{
	const hjg_u64 nslots = 2 * nrecords + 16;
	const size_t bytes = (size_t) nslots * args->sink.record_words * sizeof(hjg_u64);
	HjgCudaRunFacts	facts;

	if (nslots > MOST_SLOTS)
		return HJG_ERR_MEMORY;
	TRY(hjg_cuda_program_alloc(run, bytes, &args->sink.records));
	args->sink.nslots = (hjg_u32) nslots;
	TRY(hjg_cuda_mark(run->stream, args->groups ? HJG_CUDA_PROBE : HJG_CUDA_BUILD));
	TRY(hjg_cuda_zero(run->stream, args->sink.records, bytes));
	TRY(hjg_cuda_zero(run->stream, run->facts, sizeof(HjgCudaRunFacts)));
	TRY(hjg_cuda_program_pieces(run, kernel, args, args, pieces, npieces));
	TRY(read_run_facts(run, &facts));
	*flags = facts.flags;
	return HJG_OK;
}

/* Run a pipeline into a table that is made, and made larger until the rows fit; most: of its records. */
static HjgStatus
fill_growing(HjgCudaProgramRun *run, HjgCudaKernel *kernel, HjgKPipeline *args, hjg_u64 expected, hjg_u64 most, const HjgKPiece *pieces,
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
		hjg_cuda_free_records(run, &args->sink);
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

/* Plan the values of a group, of nrows rows; sets the places of its arguments. */
static void
plan_groups(const HjgProgramTable *table, const HjgProgramArgument *arguments, hjg_u64 nrows, HjgKPipeline *args, HjgKArgument *all_places)
{
	const hjg_u32 nkeys = table->nkeys;
	hjg_u64		slots;

	add_value(args, HJG_K_ROWS, 0);
	for (hjg_u32 i = 0; i < table->narguments; i++)
	{
		const HjgProgramArgument *argument = &arguments[table->first_argument + i];
		HjgKArgument *places = &all_places[i];

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
	slots = nkeys == 0 ? 1 : table->expected_rows < NEAR_BYTES ? 2 * table->expected_rows : NEAR_BYTES;
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

void
hjg_cuda_set_source(const HjgCudaProgramRun *run, hjg_u32 source, HjgKPipeline *args)
{
	args->from_groups = 1;
	args->source = run->tables[source];
	memcpy(args->arguments, run->arguments[source], sizeof(args->arguments));
}

/* Copy the pieces to the device, and fill the table with their rows. */
static HjgStatus
fill_from_pieces(HjgCudaProgramRun *run, HjgKPipeline *args, const HjgProgramTable *table, hjg_u64 nrows, const HjgKPiece *pieces, hjg_u32 npieces)
{
	const hjg_u64 most = table->max_rows < nrows ? table->max_rows : nrows;
	HjgStatus	status;

	TRY(hjg_cuda_program_alloc(run, npieces * sizeof(HjgKPiece), &run->pieces));
	status = hjg_cuda_copy_in(run->stream, run->pieces, pieces, npieces * sizeof(HjgKPiece));
	if (status == HJG_OK)
		status = fill_growing(run, table->has_groups ? &hjg_k_group_rows : &hjg_k_fill_records, args, table->expected_rows, most, pieces, npieces);
	/* also of a copy that an error left queued */
	(void) hjg_cuda_wait(run->stream);
	hjg_cuda_free(run->stream, run->pieces);
	return status;
}

static HjgStatus
run_pipeline(HjgCudaProgramRun *run, hjg_u32 number, const HjgKPiece *pieces, hjg_u32 npieces)
{
	const HjgDeviceProgram *program = run->program;
	const HjgProgram *head = program->head;
	const HjgProgramPipeline *pipeline = &program->pipelines[number];
	const HjgProgramTable *table = &program->tables[pipeline->sink];
	HjgKPipeline args = {
		.steps = run->block + head->steps.off + pipeline->first_step * sizeof(HjgProgramStep),
		.columns = run->columns,
		.runs = run->block + head->runs.off,
		.sets = run->block + head->values.off,
		.flags = run->facts + offsetof(HjgCudaRunFacts, flags),
		.nsteps = pipeline->nsteps,
		.nregisters = program->nregisters[number],
		.ncolumns = pipeline->ncolumns,
	};
	HjgStatus	status;

	memcpy(args.tables, run->tables, sizeof(args.tables));
	memcpy(args.keys, pipeline->keys, sizeof(args.keys));
	if (pipeline->source != HJG_PROGRAM_FROM_SEGMENTS)
		hjg_cuda_set_source(run, pipeline->source, &args);
	if (table->has_groups)
		plan_groups(table, program->arguments, pipeline->nrows, &args, run->arguments[pipeline->sink]);
	else
		plan_table(pipeline, table, &args);
	status = fill_from_pieces(run, &args, table, pipeline->nrows, pieces, npieces);
	run->tables[pipeline->sink] = args.sink;
	return status;
}

HjgStatus
hjg_cuda_run_pipelines(HjgCudaProgramRun *run)
{
	HjgStatus	status = HJG_OK;

	for (hjg_u32 p = 0; p < run->program->head->pipelines.n && status == HJG_OK; p++)
	{
		const hjg_u64 npieces = divide_pipeline(run, &run->program->pipelines[p], NULL);
		HjgKPiece  *pieces = malloc((npieces + 1) * sizeof(HjgKPiece));

		if (pieces == NULL)
			return HJG_ERR_MEMORY;
		(void) divide_pipeline(run, &run->program->pipelines[p], pieces);
		status = run_pipeline(run, p, pieces, (hjg_u32) npieces);
		free(pieces);
	}
	return status;
}
