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
hjg_u64		hjg_cuda_program_few_more = 100;

HJG_CUDA_KERNEL(hjg_k_fill_records, IMAGE);
HJG_CUDA_KERNEL(hjg_k_group_rows, IMAGE);
HJG_CUDA_KERNEL(hjg_k_count_groups, IMAGE);
HJG_CUDA_KERNEL(hjg_k_list_groups, IMAGE);

/* Facts that kernels find. */
typedef struct RunFacts
{
	hjg_u64		listed;			/* groups of the result */
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
	HjgKRecords tables[HJG_PROGRAM_MAX_PIPELINES];
	HjgKArgument arguments[HJG_PROGRAM_MAX_PIPELINES][HJG_PROGRAM_MAX_ARGUMENTS];	/* of tables that have groups */
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
				.first_run = segment->first_run + r, .nruns = end_run - r, .segment = segment->number
			};
		n++;
		r = row < runs[end_run - 1].end_row ? end_run - 1 : end_run;
	}
	return n;
}

/* Divide the slots of groups; likewise. */
static hjg_u64
divide_groups(const HjgKRecords *groups, HjgKPiece *pieces)
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
divide_pipeline(const ProgramRun *run, const HjgProgramPipeline *pipeline, HjgKPiece *pieces)
{
	const HjgDeviceProgram *program = run->program;
	hjg_u64		n = 0;

	if (pipeline->source != HJG_PROGRAM_FROM_SEGMENTS)
		return divide_groups(&run->tables[pipeline->source], pieces);
	for (hjg_u32 s = 0; s < pipeline->nsegments; s++)
		n += divide_segment(program, &program->segments[pipeline->first_segment + s], pieces != NULL ? pieces + n : NULL);
	return n;
}

/* Launch a kernel for all pieces, in parts that end soon; args: a part of the kernel's arguments, all_args. */
static HjgStatus
run_pieces(ProgramRun *run, HjgCudaKernel *kernel, HjgKPipeline *args, void *all_args, const HjgKPiece *pieces, hjg_u32 npieces)
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
	TRY(run_pieces(run, kernel, args, args, pieces, npieces));
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

/* Set the rows that a pipeline, or the result (NULL), reads of groups. */
static void
set_source(const ProgramRun *run, hjg_u32 source, HjgKPipeline *args)
{
	args->from_groups = 1;
	args->source = run->tables[source];
	memcpy(args->arguments, run->arguments[source], sizeof(args->arguments));
}

/* Run the kernel for pieces that are copied to the device, with what makes and reads a table. */
static HjgStatus
fill_from_pieces(ProgramRun *run, HjgKPipeline *args, const HjgProgramTable *table, hjg_u64 nrows, const HjgKPiece *pieces, hjg_u32 npieces)
{
	const hjg_u64 most = table->max_rows < nrows ? table->max_rows : nrows;
	HjgStatus	status;

	TRY(allocate_granted(run, npieces * sizeof(HjgKPiece), &run->pieces));
	status = hjg_cuda_copy_in(run->stream, run->pieces, pieces, npieces * sizeof(HjgKPiece));
	if (status == HJG_OK)
		status = fill_growing(run, table->has_groups ? &hjg_k_group_rows : &hjg_k_fill_records, args, table->expected_rows, most, pieces, npieces);
	/* also of a copy that an error left queued */
	(void) hjg_cuda_wait(run->stream);
	hjg_cuda_free(run->stream, run->pieces);
	return status;
}

static HjgStatus
run_pipeline(ProgramRun *run, hjg_u32 number, const HjgKPiece *pieces, hjg_u32 npieces)
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
		.flags = run->facts + offsetof(RunFacts, flags),
		.nsteps = pipeline->nsteps,
		.nregisters = program->nregisters[number],
		.ncolumns = pipeline->ncolumns,
	};
	HjgStatus	status;

	memcpy(args.tables, run->tables, sizeof(args.tables));
	memcpy(args.keys, pipeline->keys, sizeof(args.keys));
	if (pipeline->source != HJG_PROGRAM_FROM_SEGMENTS)
		set_source(run, pipeline->source, &args);
	if (table->has_groups)
		plan_groups(table, program->arguments, pipeline->nrows, &args, run->arguments[pipeline->sink]);
	else
		plan_table(pipeline, table, &args);
	status = fill_from_pieces(run, &args, table, pipeline->nrows, pieces, npieces);
	run->tables[pipeline->sink] = args.sink;
	return status;
}

static HjgStatus
run_pipelines(ProgramRun *run)
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

/* ---- the result ---- */

/* Launch a kernel of the result for all groups. */
static HjgStatus
launch_result(ProgramRun *run, HjgCudaKernel *kernel, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces)
{
	return run_pieces(run, kernel, &args->pipeline, args, pieces, npieces);
}

/* Count the groups by the next digit of their numbers. */
static HjgStatus
count_digit(ProgramRun *run, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u64 *bins)
{
	const size_t bytes = HJG_K_ORDER_BINS * sizeof(hjg_u64);

	TRY(hjg_cuda_zero(run->stream, args->bins, bytes));
	TRY(launch_result(run, &hjg_k_count_groups, args, pieces, npieces));
	TRY(hjg_cuda_copy_out(run->stream, bins, args->bins, bytes));
	return hjg_cuda_wait(run->stream);
}

/*
 * Find the last number of the groups that are wanted, digit by digit, until few others are with them; sets it, and *ngroups up to it.
 */
static HjgStatus
find_last(ProgramRun *run, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u64 *bins, hjg_u64 *ngroups)
{
	const hjg_u64 first_groups = run->program->head->first_groups;
	const hjg_u64 wanted = first_groups > 0 ? first_groups : ~0ull;
	hjg_u64		before = 0;

	for (args->shift = 64 - HJG_K_ORDER_BITS;; args->shift -= HJG_K_ORDER_BITS)
	{
		hjg_u32		bin = 0;

		TRY(count_digit(run, args, pieces, npieces, bins));
		while (bin < HJG_K_ORDER_BINS && bins[bin] < wanted - before)
			before += bins[bin++];
		if (bin == HJG_K_ORDER_BINS)
		{
			args->last = ~0ull;
			*ngroups = before;
			return HJG_OK;
		}
		args->prefix = args->prefix << HJG_K_ORDER_BITS | bin;
		args->last = ((args->prefix + 1) << args->shift) - 1;
		*ngroups = before + bins[bin];
		if (args->shift == 0 || (*ngroups - first_groups <= hjg_cuda_program_few_more && *ngroups <= run->program->head->max_groups))
			return HJG_OK;
	}
}

/* Get memory for the result, whose first word is the number of groups. */
static HjgStatus
alloc_words(const ProgramRun *run, HjgCudaProgram *result, hjg_u64 ngroups)
{
	const HjgDeviceProgram *program = run->program;

	result->nwords = 1 + ngroups * hjg_program_group_words(program->groups->nkeys, program->groups->narguments);
	/* cursors have 32 bits */
	if (ngroups > program->head->max_groups || result->nwords > UINT32_MAX)
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

/* List the groups that are wanted, and copy them to the host. */
static HjgStatus
list_groups(ProgramRun *run, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u64 ngroups, HjgCudaProgram *result)
{
	const HjgDeviceProgram *program = run->program;
	HjgStatus	status;

	if (ngroups == 0 && program->groups->nkeys == 0)
		return write_empty_group(run, result);
	TRY(alloc_words(run, result, ngroups));
	if (ngroups == 0)
		return HJG_OK;
	for (hjg_u32 t = 0; t < program->head->tables.n; t++)
		if (&program->tables[t] != program->groups)
			free_records(run, &run->tables[t]);
	TRY(allocate_granted(run, (result->nwords - 1) * sizeof(hjg_u64), &args->words));
	status = launch_result(run, &hjg_k_list_groups, args, pieces, npieces);
	if (status == HJG_OK)
		status = hjg_cuda_mark(run->stream, HJG_CUDA_TRANSFER_OUT);
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(run->stream, result->words + 1, args->words, (result->nwords - 1) * sizeof(hjg_u64));
	if (status == HJG_OK)
		status = hjg_cuda_wait(run->stream);
	hjg_cuda_free(run->stream, args->words);
	return status;
}

/* Choose the groups of the result, with its pieces and bins on the device. */
static HjgStatus
choose_groups(ProgramRun *run, HjgKResult *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u64 *bins, HjgCudaProgram *result)
{
	hjg_u64		ngroups = 0;

	TRY(hjg_cuda_mark(run->stream, HJG_CUDA_PROBE));
	TRY(hjg_cuda_copy_in(run->stream, run->pieces, pieces, npieces * sizeof(HjgKPiece)));
	TRY(hjg_cuda_zero(run->stream, run->facts, sizeof(RunFacts)));
	TRY(find_last(run, args, pieces, npieces, bins, &ngroups));
	return list_groups(run, args, pieces, npieces, ngroups, result);
}

static HjgStatus
copy_result(ProgramRun *run, HjgCudaProgram *result)
{
	const HjgDeviceProgram *program = run->program;
	const HjgProgram *head = program->head;
	const hjg_u32 groups = (hjg_u32) (program->groups - program->tables);
	const hjg_u32 npieces = (hjg_u32) divide_groups(&run->tables[groups], NULL);
	HjgKPiece  *pieces = malloc((npieces + 1) * sizeof(HjgKPiece));
	hjg_u64    *bins = malloc(HJG_K_ORDER_BINS * sizeof(hjg_u64));
	HjgKResult	args = {
		.pipeline = {
			.steps = run->block + head->steps.off + head->first_step * sizeof(HjgProgramStep), .sets = run->block + head->values.off,
			.flags = run->facts + offsetof(RunFacts, flags), .nsteps = head->nsteps, .nregisters = program->result_registers, .groups = 1
		},
		.listed = run->facts + offsetof(RunFacts, listed), .ordered = head->first_groups > 0, .order = head->order,
		.descending = head->descending, .nulls_first = head->nulls_first,
		.narguments = program->groups->narguments, .group_words = hjg_program_group_words(program->groups->nkeys, program->groups->narguments)
	};
	HjgStatus	status = pieces != NULL && bins != NULL ? HJG_OK : HJG_ERR_MEMORY;

	set_source(run, groups, &args.pipeline);
	if (status == HJG_OK)
		status = allocate_granted(run, npieces * sizeof(HjgKPiece), &run->pieces);
	if (status == HJG_OK)
		status = allocate_granted(run, HJG_K_ORDER_BINS * sizeof(hjg_u64), &args.bins);
	if (status == HJG_OK)
	{
		(void) divide_groups(&run->tables[groups], pieces);
		status = choose_groups(run, &args, pieces, npieces, bins, result);
	}
	/* also of a copy that an error left queued */
	(void) hjg_cuda_wait(run->stream);
	hjg_cuda_free(run->stream, run->pieces);
	hjg_cuda_free(run->stream, args.bins);
	free(pieces);
	free(bins);
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
	return copy_result(run, result);
}

static void
free_memory(ProgramRun *run)
{
	(void) hjg_cuda_wait(run->stream);
	for (hjg_u32 t = 0; t < run->program->head->tables.n; t++)
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
