/*
 * device_cpu_program.c
 *	  The processor's threads as a machine that runs programs (hjg_device_program_run.h).
 *
 * Kept columns are read where they are: a thread reads each code once, and whatever it is leads to no memory outside the program's.
 *
 * Memory of tables is bounded by the program, whose writer knows what its user may have.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cpu_program.h"
#include "layout/hjg_clock.h"

/* A thread's memory. */
typedef struct CpuWorker
{
	HjgCpuRows	rows;
	HjgCpuChunk chunk;			/* of the ranks that are filled */
	bool		started;		/* its own memory is zeroed, in this launch */
	_Alignas(64) hjg_u64 own[HJG_K_ORDER_BINS];	/* its own table of groups, or its own bins */
} CpuWorker;

/* A program that runs on threads. */
typedef struct CpuRun
{
	HjgMachineRun run;			/* first */
	CpuWorker  *workers;
	HjgCpuRanks ranks[HJG_PROGRAM_MAX_PIPELINES];	/* of the tables that are made of them */
	size_t		used_bytes;
	size_t		peak_bytes;
	hjg_u64		build_ns;
	hjg_u64		probe_ns;
} CpuRun;

/* ---- memory ---- */

static HjgStatus
threads_alloc(HjgMachineRun *run, size_t bytes, hjg_u64 *at)
{
	CpuRun	   *own = (CpuRun *) run;
	void	   *ptr = NULL;

	*at = 0;
	if (bytes <= run->program->head->max_bytes - own->used_bytes)
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
	CpuRun	   *own = (CpuRun *) run;

	own->used_bytes -= bytes;
	run->env->free(run->env->arg, HJG_PROGRAM_AT(void, at), bytes + 1);
}

/* ---- launches ---- */

typedef struct Launch
{
	HjgMachineRun *run;
	HjgProgramKernel kernel;
	const HjgKPipeline *a;
	const HjgKResult *result;	/* of kernels that have one */
	void	   *ranked;			/* ranks that are filled, or NULL */
	const HjgKPiece *pieces;
	HjgCpuPlan	plan;
	CpuWorker  *workers;
	size_t		own_bytes;		/* of a worker's own memory, which are used */
	bool		cancelled;		/* atomic */
} Launch;

static hjg_u32 *
flags_of(const Launch *launch)
{
	return HJG_PROGRAM_AT(hjg_u32, launch->a->flags);
}

/* A worker's own table of groups. */
static HjgKRecords
near_records(const Launch *launch, CpuWorker *worker)
{
	HjgKRecords near = launch->a->sink;

	near.records = (hjg_u64) (size_t) worker->own;
	near.nslots = launch->a->near_slots;
	return near;
}

/* Run the steps for rows whose numbers are set, and what comes behind them. */
static void
run_rows(Launch *launch, CpuWorker *worker, const HjgKPiece *piece)
{
	const HjgKPipeline *a = launch->a;
	HjgCpuRows *rows = &worker->rows;
	const HjgKRecords near = near_records(launch, worker);
	hjg_u32		flags = 0;

	rows->segment = piece->segment;
	hjg_device_run_steps(&launch->plan, HJG_PROGRAM_AT(const HjgKColumn, a->columns) + piece->first_column, rows);
	switch (launch->kernel)
	{
		case HJG_KERNEL_FILL_RECORDS:
			flags = launch->ranked != NULL ? hjg_device_fill_ranks(launch->ranked, a, &worker->chunk, rows) : hjg_device_fill_rows(a, rows);
			break;
		case HJG_KERNEL_GROUP_ROWS:
			flags = hjg_device_group_rows(a, &near, rows);
			break;
		case HJG_KERNEL_COUNT_GROUPS:
			hjg_device_count_groups(launch->result, worker->own, rows);
			break;
		default:
			hjg_device_list_groups(launch->result, rows);
	}
	if (flags != 0)
		__atomic_fetch_or(flags_of(launch), flags, __ATOMIC_RELAXED);
}

/* Take the groups of a piece's slots. */
static void
run_slots(Launch *launch, CpuWorker *worker, const HjgKPiece *piece)
{
	HjgCpuRows *rows = &worker->rows;
	hjg_u32		slot = piece->first_row;

	while (slot < piece->end_row)
	{
		rows->n = 0;
		rows->consecutive = false;
		for (; slot < piece->end_row && rows->n < HJG_CPU_ROWS; slot++)
		{
			rows->numbers[rows->n] = slot;
			rows->n += hjg_program_record(&launch->a->source, slot)[0] != 0;
		}
		if (rows->n > 0)
			run_rows(launch, worker, piece);
	}
}

/* Take the rows of a piece's runs. */
static void
run_runs(Launch *launch, CpuWorker *worker, const HjgKPiece *piece)
{
	const HjgProgramRun *runs = HJG_PROGRAM_AT(const HjgProgramRun, launch->a->runs);
	HjgCpuRows *rows = &worker->rows;

	rows->n = 0;
	for (hjg_u32 r = piece->first_run; r < piece->first_run + piece->nruns; r++)
	{
		hjg_u32		row = runs[r].first_row > piece->first_row ? runs[r].first_row : piece->first_row;
		const hjg_u32 end_row = runs[r].end_row < piece->end_row ? runs[r].end_row : piece->end_row;

		while (row < end_row)
		{
			const hjg_u32 n = HJG_CPU_ROWS - rows->n < end_row - row ? HJG_CPU_ROWS - rows->n : end_row - row;

			rows->consecutive = rows->n == 0;
			for (hjg_u32 i = 0; i < n; i++)
				rows->numbers[rows->n + i] = row + i;
			rows->n += n;
			row += n;
			if (rows->n < HJG_CPU_ROWS)
				continue;
			run_rows(launch, worker, piece);
			rows->n = 0;
		}
	}
	if (rows->n > 0)
		run_rows(launch, worker, piece);
}

static void
run_piece(void *arg, int number, int worker_number)
{
	Launch	   *launch = arg;
	const HjgEnv *env = launch->run->env;
	const HjgKPiece *piece = &launch->pieces[number];
	CpuWorker	   *worker = &launch->workers[worker_number];

	if (__atomic_load_n(&launch->cancelled, __ATOMIC_RELAXED) || __atomic_load_n(flags_of(launch), __ATOMIC_RELAXED) != 0)
		return;
	if (env->poll != NULL && env->poll(env->arg))
	{
		__atomic_store_n(&launch->cancelled, true, __ATOMIC_RELAXED);
		return;
	}
	if (!worker->started)
	{
		memset(worker->own, 0, launch->own_bytes);
		worker->chunk = (HjgCpuChunk) {0};
		worker->started = true;
	}
	if (launch->a->from_groups)
		run_slots(launch, worker, piece);
	else
		run_runs(launch, worker, piece);
}

/* Add a worker's own groups to those of all. */
static void
merge_near(void *arg, int number, int worker_number)
{
	Launch	   *launch = arg;
	CpuWorker	   *worker = &launch->workers[number];
	const HjgKRecords near = near_records(launch, worker);
	hjg_u32		flags = 0;

	for (hjg_u32 slot = 0; slot < near.nslots && worker->started && flags == 0; slot++)
		if (hjg_program_record(&near, slot)[0] != 0)
			flags = hjg_program_merge(launch->a, hjg_program_record(&near, slot));
	if (flags != 0)
		__atomic_fetch_or(flags_of(launch), flags, __ATOMIC_RELAXED);
}

/* Add the workers' own bins up. */
static void
merge_bins(const Launch *launch, int nworkers)
{
	hjg_u64    *bins = HJG_PROGRAM_AT(hjg_u64, launch->result->bins);

	for (int w = 0; w < nworkers; w++)
		for (hjg_u32 b = 0; b < HJG_K_ORDER_BINS && launch->workers[w].started; b++)
			bins[b] += launch->workers[w].own[b];
}

/* Find the registers that are read behind the steps. */
static hjg_u32
wanted_registers(const Launch *launch)
{
	return launch->result == NULL ? hjg_device_sink_registers(launch->a) : launch->result->ordered ? 1u << launch->result->order : 0;
}

/* Run a kernel, whose launch is set but for its plan. */
static HjgStatus
run_launch(Launch *launch, hjg_u32 npieces)
{
	CpuRun	   *own = (CpuRun *) launch->run;
	HjgPool    *pool = launch->run->env->pool;
	const int	nworkers = hjg_pool_nthreads(pool);
	const hjg_u64 started = hjg_now_ns();

	launch->workers = own->workers;
	hjg_device_plan_steps(&launch->plan, launch->a, own->ranks, wanted_registers(launch));
	for (int w = 0; w < nworkers; w++)
		launch->workers[w].started = false;
	hjg_pool_run(pool, (int) npieces, run_piece, launch);
	if (launch->kernel == HJG_KERNEL_GROUP_ROWS && launch->a->near_slots > 0)
		hjg_pool_run(pool, nworkers, merge_near, launch);
	if (launch->kernel == HJG_KERNEL_COUNT_GROUPS)
		merge_bins(launch, nworkers);
	*(launch->a->groups ? &own->probe_ns : &own->build_ns) += hjg_now_ns() - started;
	return launch->cancelled ? HJG_ERR_CANCELLED : HJG_OK;
}

static HjgStatus
launch_on_threads(HjgMachineRun *run, HjgProgramKernel kernel, HjgKPipeline *args, void *all_args, const HjgKPiece *pieces, hjg_u32 npieces)
{
	Launch		launch = {.run = run, .kernel = kernel, .a = args, .pieces = pieces};

	if (kernel == HJG_KERNEL_GROUP_ROWS)
		launch.own_bytes = (size_t) args->near_slots * args->sink.record_words * sizeof(hjg_u64);
	if (kernel == HJG_KERNEL_COUNT_GROUPS)
		launch.own_bytes = HJG_K_ORDER_BINS * sizeof(hjg_u64);
	if (kernel == HJG_KERNEL_COUNT_GROUPS || kernel == HJG_KERNEL_LIST_GROUPS)
		launch.result = all_args;
	return run_launch(&launch, npieces);
}

HjgStatus
hjg_device_launch_ranks(HjgMachineRun *run, void *ranked, HjgKPipeline *args, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u32 *flags)
{
	Launch		launch = {.run = run, .kernel = HJG_KERNEL_FILL_RECORDS, .a = args, .ranked = ranked, .pieces = pieces};
	HjgProgramFacts *facts = HJG_PROGRAM_AT(HjgProgramFacts, run->facts);
	HjgStatus	status;

	*facts = (HjgProgramFacts) {0};
	status = run_launch(&launch, npieces);
	*flags = facts->flags;
	return status;
}

static bool
fill_on_threads(HjgMachineRun *run, hjg_u32 number, HjgKPipeline *args, hjg_u64 nrows, const HjgKPiece *pieces, hjg_u32 npieces, hjg_u32 *flags,
				HjgStatus *status)
{
	const HjgProgramTable *table = &run->program->tables[number];

	if (!hjg_device_may_rank(table, nrows))
		return false;
	*status = hjg_device_make_ranks(run, table, &((CpuRun *) run)->ranks[number], args, nrows, pieces, npieces, flags);
	return true;
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
	ZeroTask	   *zero = arg;
	const size_t from = (size_t) number * ZERO_BYTES;

	if (__atomic_load_n(&zero->cancelled, __ATOMIC_RELAXED))
		return;
	if (zero->env->poll != NULL && zero->env->poll(zero->env->arg))
		__atomic_store_n(&zero->cancelled, true, __ATOMIC_RELAXED);
	else
		memset(zero->at + from, 0, zero->bytes - from < ZERO_BYTES ? zero->bytes - from : ZERO_BYTES);
}

static HjgStatus
threads_zero(HjgMachineRun *run, hjg_u64 at, size_t bytes)
{
	ZeroTask		zero = {.env = run->env, .at = HJG_PROGRAM_AT(char, at), .bytes = bytes};

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

HjgProgramMachine hjg_cpu_machine = {
	.generous_bytes = (size_t) 1 << 20,
	.near_bytes = 256 * 1024,
	.near_slack = 8,
	.alloc = threads_alloc,
	.free = threads_free,
	.zero = threads_zero,
	.copy_in = threads_copy_in,
	.copy_out = threads_copy_out,
	.launch = launch_on_threads,
	.fill = fill_on_threads,
	.in_order = true,
};

/* ---- the program ---- */

HjgStatus
hjg_device_run_on_cpu(int number, HjgProgramResult *result, const HjgDeviceProgram *program, const HjgKeptFile *kept)
{
	const HjgEnv *env = result->env;
	const hjg_u32 ncolumns = program->head->columns.n;
	const size_t workers_bytes = (size_t) hjg_pool_nthreads(env->pool) * sizeof(CpuWorker);
	HjgKColumn *columns = calloc((size_t) ncolumns + 1, sizeof(HjgKColumn));
	HjgProgramFacts facts;
	CpuRun		own = {
		.run = {.machine = &hjg_cpu_machine, .program = program, .env = env, .block = (hjg_u64) (size_t) program->block,
			.columns = (hjg_u64) (size_t) columns, .facts = (hjg_u64) (size_t) &facts}
	};
	HjgStatus	status = HJG_ERR_MEMORY;

	if (columns == NULL)
		return HJG_ERR_MEMORY;
	own.workers = env->alloc(env->arg, workers_bytes);
	for (hjg_u32 c = 0; c < ncolumns; c++)
		if (program->column_rows[c] > 0)
			columns[c] = hjg_device_describe_column(program, c, own.run.block,
													(hjg_u64) (size_t) (kept->base + (program->columns[c].place & ~HJG_PROGRAM_IN_BLOCK)));
	if (own.workers != NULL)
	{
		status = hjg_device_run_pipelines(&own.run);
		if (status == HJG_OK)
			status = hjg_device_choose_groups(&own.run, result);
		hjg_device_free_tables(&own.run);
		for (hjg_u32 t = 0; t < program->head->tables.n; t++)
			hjg_device_free_ranks(&own.run, &own.ranks[t]);
		env->free(env->arg, own.workers, workers_bytes);
	}
	free(columns);
	hjg_device_note_rows(program, &result->stats);
	result->stats.build_ns = own.build_ns;
	result->stats.probe_ns = own.probe_ns;
	result->stats.workspace_bytes = own.peak_bytes;
	return status;
}
