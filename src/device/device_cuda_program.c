/*
 * device_cuda_program.c
 *	  A GPU as a machine that runs programs (hjg_device_program_run.h), by the kernels of cuda_program.cu.
 *
 * The columns are brought to the device (device_cuda_resident.c), and the block goes there as it is.  Launches are parted, so that each ends
 * soon and a cancelled job does not wait.
 */
#include <stdio.h>
#include <stdlib.h>

#include "device/hjg_cuda_program.h"

#define IMAGE "cuda_program"
#define LEAST_THREADS 64
#define LAUNCH_ROWS (16u * 1024 * 1024)

HJG_CUDA_KERNEL(hjg_k_fill_records, IMAGE);
HJG_CUDA_KERNEL(hjg_k_group_rows, IMAGE);
HJG_CUDA_KERNEL(hjg_k_count_groups, IMAGE);
HJG_CUDA_KERNEL(hjg_k_list_groups, IMAGE);

static HjgCudaKernel *const kernels[HJG_KERNELS] = {
	[HJG_KERNEL_FILL_RECORDS] = &hjg_k_fill_records,
	[HJG_KERNEL_GROUP_ROWS] = &hjg_k_group_rows,
	[HJG_KERNEL_COUNT_GROUPS] = &hjg_k_count_groups,
	[HJG_KERNEL_LIST_GROUPS] = &hjg_k_list_groups,
};

/* A program that runs on a GPU. */
typedef struct CudaRun
{
	HjgMachineRun run;			/* first */
	HjgCudaStream *stream;
	HjgCudaGrant grant;
	HjgCudaPtr	passes;			/* a boolean for each row of the columns that are tested */
} CudaRun;

/* ---- the machine ---- */

/* Allocate device memory, after adding to the grant what it lacks. */
static HjgStatus
gpu_alloc(HjgMachineRun *run, size_t bytes, hjg_u64 *at)
{
	CudaRun    *own = (CudaRun *) run;
	const size_t free_bytes = own->grant.bytes - own->grant.used_bytes;
	const size_t wanted = hjg_cuda_block_bytes(bytes);

	*at = 0;
	if (wanted > free_bytes)
		TRY(hjg_cuda_admit_more(&own->grant, wanted - free_bytes, run->env, HJG_CUDA_PROGRAM_WAIT_MS));
	return hjg_cuda_alloc(own->stream, bytes, at);
}

/* Free memory, after the copies that an error left queued. */
static void
gpu_free(HjgMachineRun *run, hjg_u64 at, size_t bytes)
{
	CudaRun    *own = (CudaRun *) run;

	(void) hjg_cuda_wait(own->stream);
	hjg_cuda_free(own->stream, at);
}

static HjgStatus
gpu_zero(HjgMachineRun *run, hjg_u64 at, size_t bytes)
{
	return hjg_cuda_zero(((CudaRun *) run)->stream, at, bytes);
}

static HjgStatus
gpu_copy_in(HjgMachineRun *run, hjg_u64 to, const void *from, size_t bytes)
{
	CudaRun    *own = (CudaRun *) run;

	TRY(hjg_cuda_mark(own->stream, HJG_CUDA_TRANSFER_IN));
	TRY(hjg_cuda_copy_in(own->stream, to, from, bytes));
	return hjg_cuda_wait(own->stream);
}

static HjgStatus
gpu_copy_out(HjgMachineRun *run, void *to, hjg_u64 from, size_t bytes)
{
	CudaRun    *own = (CudaRun *) run;

	TRY(hjg_cuda_mark(own->stream, HJG_CUDA_TRANSFER_OUT));
	TRY(hjg_cuda_copy_out(own->stream, to, from, bytes));
	return hjg_cuda_wait(own->stream);
}

static HjgStatus
gpu_launch(HjgMachineRun *run, HjgProgramKernel kernel, HjgKPipeline *args, void *all_args, const HjgKPiece *pieces, hjg_u32 npieces)
{
	CudaRun    *own = (CudaRun *) run;
	const HjgCudaPtr base = args->pieces;
	hjg_u32		threads = HJG_K_PROGRAM_THREADS;
	const size_t fixed = (size_t) args->near_slots * args->sink.record_words * sizeof(hjg_u64) + args->nsteps * sizeof(HjgProgramStep) +
		args->ncolumns * sizeof(HjgKColumn);
	HjgStatus	status = HJG_OK;

	while (threads > LEAST_THREADS && fixed + (size_t) args->nregisters * threads * sizeof(int64_t) > own->stream->device->shared_bytes)
		threads /= 2;
	for (hjg_u32 first = 0, end; first < npieces && status == HJG_OK; first = end)
	{
		hjg_u32		nrows = 0;

		for (end = first; end < npieces && nrows < LAUNCH_ROWS; end++)
			nrows += pieces[end].end_row - pieces[end].first_row;
		args->pieces = base + first * sizeof(HjgKPiece);
		args->npieces = end - first;
		status = hjg_cuda_mark(own->stream, args->groups ? HJG_CUDA_PROBE : HJG_CUDA_BUILD);
		if (status == HJG_OK)
			status = hjg_cuda_launch_filling(own->stream, kernels[kernel], threads, (unsigned) (fixed + (size_t) args->nregisters * threads * sizeof(int64_t)),
											 args->npieces, all_args);
		if (status == HJG_OK)
			status = hjg_cuda_wait(own->stream);
	}
	args->pieces = base;
	return status;
}

HjgProgramMachine hjg_cuda_machine = {
	.generous_bytes = (size_t) 64 << 20,
	.near_bytes = 16 * 1024,
	.near_slack = 2,
	.alloc = gpu_alloc,
	.free = gpu_free,
	.zero = gpu_zero,
	.copy_in = gpu_copy_in,
	.copy_out = gpu_copy_out,
	.launch = gpu_launch,
};

/* ---- columns ---- */

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

				if (segment->nruns == 0 || column->test != HJG_PROGRAM_NO_TEST || (column->place & HJG_PROGRAM_IN_BLOCK) != 0 || places[place] != 0 ||
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
write_descriptors(HjgMachineRun *run, const HjgCudaColumn *list, const hjg_u32 *places)
{
	const HjgDeviceProgram *program = run->program;
	const hjg_u32 n = program->head->columns.n;
	HjgKColumn *columns = calloc((size_t) n + 1, sizeof(HjgKColumn));
	HjgCudaPtr	passes = ((const CudaRun *) run)->passes;
	HjgStatus	status;

	if (columns == NULL)
		return HJG_ERR_MEMORY;
	for (hjg_u32 c = 0; c < n; c++)
	{
		if (program->column_rows[c] == 0)
			continue;
		if (program->columns[c].test == HJG_PROGRAM_NO_TEST)
			columns[c] = hjg_device_describe_column(program, c, run->block, places[c] > 0 ? list[places[c] - 1].at : 0);
		else
		{
			columns[c] = (HjgKColumn) {.codes = passes, .width = sizeof(bool)};
			passes += (program->column_rows[c] + 7) / 8 * 8;
		}
	}
	status = gpu_copy_in(run, run->columns, columns, n * sizeof(HjgKColumn));
	free(columns);
	return status;
}

/* Have the processor's threads test strings, and bring what they find. */
static HjgStatus
bring_passes(CudaRun *own, const HjgKeptFile *kept)
{
	const HjgEnv *env = own->run.env;
	const size_t nbytes = hjg_device_passes_bytes(own->run.program);
	bool	   *passes;
	HjgStatus	status;

	if (nbytes == 0)
		return HJG_OK;
	TRY(gpu_alloc(&own->run, nbytes, &own->passes));
	passes = env->alloc(env->arg, nbytes);
	if (passes == NULL)
		return HJG_ERR_MEMORY;
	status = hjg_device_test_columns(own->run.program, env, kept, passes);
	if (status == HJG_OK)
		status = gpu_copy_in(&own->run, own->passes, passes, nbytes);
	env->free(env->arg, passes, nbytes);
	return status;
}

/* ---- the program ---- */

static size_t
fixed_bytes(const HjgDeviceProgram *program)
{
	return hjg_cuda_block_bytes(program->nbytes) + hjg_cuda_block_bytes(program->head->columns.n * sizeof(HjgKColumn)) +
		hjg_cuda_block_bytes(sizeof(HjgProgramFacts));
}

/* Run the program, whose columns are on the device. */
static HjgStatus
run_program(HjgMachineRun *run, HjgProgramResult *result, const HjgKeptFile *kept, const HjgCudaColumn *list, const hjg_u32 *places)
{
	const HjgDeviceProgram *program = run->program;

	TRY(gpu_alloc(run, program->nbytes, &run->block));
	TRY(gpu_alloc(run, program->head->columns.n * sizeof(HjgKColumn), &run->columns));
	TRY(gpu_alloc(run, sizeof(HjgProgramFacts), &run->facts));
	TRY(gpu_copy_in(run, run->block, program->block, program->nbytes));
	TRY(bring_passes((CudaRun *) run, kept));
	TRY(write_descriptors(run, list, places));
	TRY(hjg_device_run_pipelines(run));
	return hjg_device_choose_groups(run, result);
}

static void
free_memory(CudaRun *own)
{
	(void) hjg_cuda_wait(own->stream);
	hjg_device_free_tables(&own->run);
	hjg_cuda_free(own->stream, own->run.block);
	hjg_cuda_free(own->stream, own->run.columns);
	hjg_cuda_free(own->stream, own->run.facts);
	hjg_cuda_free(own->stream, own->passes);
}

static void
note_stats(const CudaRun *own, const HjgCudaStreams *streams, HjgJobStats *stats)
{
	hjg_device_note_rows(own->run.program, stats);
	stats->build_ns = hjg_cuda_streams_ns(streams, HJG_CUDA_BUILD);
	stats->probe_ns = hjg_cuda_streams_ns(streams, HJG_CUDA_PROBE);
	stats->transfer_ns = hjg_cuda_streams_ns(streams, HJG_CUDA_TRANSFER_IN) + hjg_cuda_streams_ns(streams, HJG_CUDA_TRANSFER_OUT);
	stats->workspace_bytes = own->grant.peak_bytes;
}

/* Get the text of an error, whichever stream has it. */
static const char *
error_text(const HjgCudaStreams *streams)
{
	return streams->work.error[0] ? streams->work.error : streams->in.error[0] ? streams->in.error :
		streams->out[0].error[0] ? streams->out[0].error : "the driver refused";
}

/* Run a program on a device whose context is current; error: of the driver. */
static HjgStatus
run_on_device(HjgCudaDevice *device, HjgProgramResult *result, const HjgDeviceProgram *program, const HjgKeptFile *kept, char *error, size_t room)
{
	const hjg_u32 ncolumns = program->head->columns.n;
	HjgCudaColumn *list = malloc(((size_t) ncolumns + 1) * sizeof(HjgCudaColumn));
	hjg_u32    *places = calloc((size_t) ncolumns + 1, sizeof(hjg_u32));
	CudaRun		own = {.run = {.machine = &hjg_cuda_machine, .program = program, .env = result->env}};
	HjgCudaStreams *streams = NULL;
	HjgStatus	status = HJG_ERR_MEMORY;

	if (list != NULL && places != NULL)
		status = hjg_cuda_admit(device->pool, fixed_bytes(program), result->env, HJG_CUDA_PROGRAM_WAIT_MS, &own.grant);
	if (status == HJG_OK)
		status = hjg_cuda_streams_take(device, result->env, &own.grant, &streams);
	if (status == HJG_OK)
	{
		const size_t n = list_columns(program, list, places);

		own.stream = &streams->work;
		status = hjg_cuda_resident_bring(streams, result->env, kept, list, n);
		if (status == HJG_OK)
		{
			status = run_program(&own.run, result, kept, list, places);
			free_memory(&own);
			hjg_cuda_resident_release(device, list, n);
		}
		if (status == HJG_ERR_DEVICE)
			snprintf(error, room, "%s", error_text(streams));
		note_stats(&own, streams, &result->stats);
		hjg_cuda_streams_give(streams);
	}
	hjg_cuda_dismiss(&own.grant);
	free(list);
	free(places);
	return status;
}

HjgStatus
hjg_cuda_program_run(int number, HjgProgramResult *result, const HjgDeviceProgram *program, const HjgKeptFile *kept)
{
	const HjgDeviceName name = hjg_device_name((HjgDeviceId) {HJG_KIND_CUDA, number});
	char		error[128] = "the driver refused";
	HjgCudaDevice *device;
	HjgStatus	status = HJG_ERR_DEVICE;

	hjg_health_enter(name.text);
	device = hjg_cuda_enter(number, error, sizeof(error));
	if (device != NULL)
		status = run_on_device(device, result, program, kept, error, sizeof(error));
	if (status == HJG_ERR_DEVICE)
		hjg_health_note(name.text, error);
	hjg_health_leave(name.text);
	return status;
}
