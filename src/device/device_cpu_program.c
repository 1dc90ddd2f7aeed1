/*
 * device_cpu_program.c
 *	  The processor's threads as a machine that runs programs (hjg_device_program_run.h).
 *
 * Kept columns are read where they are: whatever a code is, it leads to no memory outside the program's.
 *
 * Memory of tables is bounded by the program, whose writer knows what its user may have.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cpu_program.h"

/* ---- memory ---- */

static size_t
threads_room(const HjgMachineRun *run)
{
	return run->program->head->max_bytes - ((const HjgCpuRun *) run)->used_bytes;
}

static HjgStatus
threads_alloc(HjgMachineRun *run, size_t bytes, hjg_u64 *at)
{
	HjgCpuRun  *own = (HjgCpuRun *) run;
	void	   *ptr = NULL;

	*at = 0;
	if (bytes <= threads_room(run))
		ptr = run->env->alloc(run->env->arg, bytes + 1);
	if (ptr == NULL)
		return HJG_ERR_MEMORY;
	own->used_bytes += bytes;
	if (own->used_bytes > own->peak_bytes)
		own->peak_bytes = own->used_bytes;
	*at = (hjg_u64) (size_t) ptr;
	return HJG_OK;
}

static void
threads_free(HjgMachineRun *run, hjg_u64 at, size_t bytes)
{
	HjgCpuRun  *own = (HjgCpuRun *) run;

	own->used_bytes -= bytes;
	run->env->free(run->env->arg, HJG_PROGRAM_AT(void, at), bytes + 1);
}

/* ---- memory, by all threads ---- */

#define ZERO_BYTES ((size_t) 1 << 20)

typedef struct ZeroTask
{
	const HjgEnv *env;
	char	   *at;
	size_t		bytes;
	bool		cancelled;		/* atomic */
} ZeroTask;

static void
zero_piece(void *arg, int number, int worker)
{
	ZeroTask   *zero = arg;
	const size_t from = (size_t) number * ZERO_BYTES;

	if (!hjg_device_stopped(zero->env, &zero->cancelled))
		memset(zero->at + from, 0, zero->bytes - from < ZERO_BYTES ? zero->bytes - from : ZERO_BYTES);
}

static HjgStatus
threads_zero(HjgMachineRun *run, hjg_u64 at, size_t bytes)
{
	ZeroTask	zero = {.env = run->env, .at = HJG_PROGRAM_AT(char, at), .bytes = bytes};

	hjg_pool_run(bytes > ZERO_BYTES ? run->env->pool : NULL, (int) ((bytes + ZERO_BYTES - 1) / ZERO_BYTES), zero_piece, &zero);
	return zero.cancelled ? HJG_ERR_CANCELLED : HJG_OK;
}

static HjgStatus
threads_copy_in(HjgMachineRun *run, hjg_u64 to, const void *from, size_t bytes)
{
	memcpy(HJG_PROGRAM_AT(void, to), from, bytes);
	return HJG_OK;
}

static HjgStatus
threads_copy_out(HjgMachineRun *run, void *to, hjg_u64 from, size_t bytes)
{
	memcpy(to, HJG_PROGRAM_AT(const void, from), bytes);
	return HJG_OK;
}

/* ---- kernels ---- */

static HjgStatus
threads_launch_kernel(HjgMachineRun *run, HjgProgramKernel kernel, HjgKPipeline *args, void *all_args, const HjgKPiece *pieces, hjg_u32 npieces)
{
	HjgCpuLaunch launch = {
		.run = (HjgCpuRun *) run, .kernel = kernel, .a = args, .pieces = pieces, .npieces = npieces,
		.result = kernel == HJG_KERNEL_COUNT_GROUPS || kernel == HJG_KERNEL_LIST_GROUPS ? all_args : NULL
	};

	return hjg_device_launch(&launch);
}

static bool
threads_fill(HjgMachineRun *run, HjgTableFill *fill, hjg_u64 nrows, hjg_u32 *flags, HjgStatus *status)
{
	HjgCpuRun  *own = (HjgCpuRun *) run;

	if (!hjg_device_may_rank(own, fill, nrows))
		return false;
	*status = hjg_device_make_ranks(own, &own->ranks[fill->number], fill, nrows, flags);
	return true;
}

static void
threads_drop(HjgMachineRun *run, hjg_u32 number)
{
	HjgCpuRun  *own = (HjgCpuRun *) run;

	hjg_device_free_ranks(own, &own->ranks[number]);
}

HjgProgramMachine hjg_cpu_machine = {
	.generous_bytes = (size_t) 1 << 20,
	.near_bytes = 256 * 1024,
	.near_slack = 8,
	.room = threads_room,
	.alloc = threads_alloc,
	.free = threads_free,
	.zero = threads_zero,
	.copy_in = threads_copy_in,
	.copy_out = threads_copy_out,
	.launch = threads_launch_kernel,
	.fill = threads_fill,
	.drop = threads_drop,
};

/* ---- the program ---- */

/* Describe the columns; strings: of those that are tested, in their order. */
static void
describe_where_kept(const HjgDeviceProgram *program, const HjgKeptFile *kept, HjgKColumn *columns, HjgDeviceStrings *strings)
{
	for (hjg_u32 c = 0; c < program->head->columns.n; c++)
	{
		const HjgProgramColumn *column = &program->columns[c];

		if (program->column_rows[c] == 0)
			continue;
		if (column->test != HJG_PROGRAM_NO_TEST)
		{
			*strings = hjg_device_find_strings(program, c, kept);
			columns[c] = (HjgKColumn) {.map = (hjg_u64) (size_t) strings++, .width = HJG_K_TESTED};
		}
		else
			columns[c] = hjg_device_describe_column(program, c, (hjg_u64) (size_t) program->block,
													(hjg_u64) (size_t) (kept->base + (column->place & ~HJG_PROGRAM_IN_BLOCK)));
	}
}

HjgStatus
hjg_device_run_on_cpu(int number, HjgProgramResult *result, const HjgDeviceProgram *program, const HjgKeptFile *kept)
{
	const HjgEnv *env = result->env;
	const hjg_u32 ncolumns = program->head->columns.n;
	const size_t workers_bytes = (size_t) hjg_pool_nthreads(env->pool) * sizeof(HjgCpuWorker);
	HjgKColumn *columns = calloc((size_t) ncolumns + 1, sizeof(HjgKColumn));
	HjgDeviceStrings *strings = malloc(((size_t) ncolumns + 1) * sizeof(HjgDeviceStrings));
	HjgProgramFacts facts;
	HjgCpuRun	own = {
		.run = {.machine = &hjg_cpu_machine, .program = program, .env = env, .block = (hjg_u64) (size_t) program->block,
			.columns = (hjg_u64) (size_t) columns, .facts = (hjg_u64) (size_t) &facts}
	};
	HjgStatus	status = HJG_ERR_MEMORY;

	if (columns != NULL && strings != NULL)
		own.workers = env->alloc(env->arg, workers_bytes);
	if (own.workers != NULL)
	{
		describe_where_kept(program, kept, columns, strings);
		status = hjg_device_test_columns(program, env, kept, NULL);
		if (status == HJG_OK)
			status = hjg_device_run_pipelines(&own.run);
		if (status == HJG_OK)
			status = hjg_device_choose_groups(&own.run, result);
		hjg_device_free_tables(&own.run);
		hjg_device_free_filters(&own);
		env->free(env->arg, own.workers, workers_bytes);
	}
	free(columns);
	free(strings);
	hjg_device_note_rows(program, &result->stats);
	result->stats.build_ns = own.build_ns;
	result->stats.probe_ns = own.probe_ns;
	result->stats.workspace_bytes = own.peak_bytes;
	return status;
}
