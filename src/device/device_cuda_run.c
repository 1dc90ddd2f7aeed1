/*
 * device_cuda_run.c
 *	  Runs a checked program on a GPU.
 *
 * Its columns are brought to the device, the block goes there as it is, the pipelines run (device_cuda_pipeline.c), and the groups of the
 * result come back (device_cuda_result.c).
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_program_run.h"

/* ---- columns ---- */

/* Describe a column whose bits of NULLs and codes are at this address. */
static HjgKColumn
describe_column(const HjgCudaProgramRun *run, const HjgProgramColumn *column, hjg_u32 nrows, HjgCudaPtr at)
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
write_descriptors(HjgCudaProgramRun *run, const HjgCudaColumn *list, const hjg_u32 *places)
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

/* ---- the program ---- */

static size_t
fixed_bytes(const HjgDeviceProgram *program)
{
	return hjg_cuda_block_bytes(program->nbytes) + hjg_cuda_block_bytes(program->head->columns.n * sizeof(HjgKColumn)) +
		hjg_cuda_block_bytes(sizeof(HjgCudaRunFacts));
}

/* Run the program, whose columns are on the device. */
static HjgStatus
run_program(HjgCudaProgramRun *run, HjgCudaProgram *result, const HjgCudaColumn *list, const hjg_u32 *places)
{
	const HjgDeviceProgram *program = run->program;

	TRY(hjg_cuda_mark(run->stream, HJG_CUDA_TRANSFER_IN));
	TRY(hjg_cuda_program_alloc(run, program->nbytes, &run->block));
	TRY(hjg_cuda_program_alloc(run, program->head->columns.n * sizeof(HjgKColumn), &run->columns));
	TRY(hjg_cuda_program_alloc(run, sizeof(HjgCudaRunFacts), &run->facts));
	TRY(hjg_cuda_copy_in(run->stream, run->block, program->block, program->nbytes));
	TRY(write_descriptors(run, list, places));
	TRY(hjg_cuda_run_pipelines(run));
	return hjg_cuda_program_result(run, result);
}

static void
free_memory(HjgCudaProgramRun *run)
{
	(void) hjg_cuda_wait(run->stream);
	for (hjg_u32 t = 0; t < run->program->head->tables.n; t++)
		hjg_cuda_free_records(run, &run->tables[t]);
	hjg_cuda_free(run->stream, run->block);
	hjg_cuda_free(run->stream, run->columns);
	hjg_cuda_free(run->stream, run->facts);
}

static void
note_stats(const HjgCudaProgramRun *run, const HjgCudaStreams *streams, HjgCudaProgram *result)
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
	HjgCudaProgramRun	run = {.program = program, .env = result->env};
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
