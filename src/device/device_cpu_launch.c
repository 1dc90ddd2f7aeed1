/*
 * device_cpu_launch.c
 *	  Runs a kernel of a program on the processor's threads: pieces of rows through the steps to what comes behind them.
 */
#include <string.h>

#include "device/hjg_cpu_program.h"
#include "layout/hjg_clock.h"

static hjg_u32 *
flags_of(const HjgCpuLaunch *launch)
{
	return HJG_PROGRAM_AT(hjg_u32, launch->a->flags);
}

/* A worker's own table of groups. */
static HjgKRecords
near_records(const HjgCpuLaunch *launch, HjgCpuWorker *worker)
{
	HjgKRecords near = launch->a->sink;

	near.records = (hjg_u64) (size_t) worker->own;
	near.nslots = launch->a->near_slots;
	return near;
}

/* Run the steps for rows whose numbers are set, and what comes behind them. */
static void
run_rows(HjgCpuLaunch *launch, HjgCpuWorker *worker, const HjgKPiece *piece)
{
	const HjgKPipeline *a = launch->a;
	HjgCpuRows *rows = &worker->rows;
	const HjgKRecords near = near_records(launch, worker);
	hjg_u32		flags;

	rows->segment = piece->segment;
	hjg_device_run_steps(&launch->plan, HJG_PROGRAM_AT(const HjgKColumn, a->columns) + piece->first_column, rows);
	flags = rows->flags;
	if (launch->sink != NULL)
		flags |= launch->sink(launch->sink_arg, a, worker);
	else switch (launch->kernel)
	{
		case HJG_KERNEL_FILL_RECORDS:
			flags |= hjg_device_fill_rows(a, rows);
			break;
		case HJG_KERNEL_GROUP_ROWS:
			flags |= hjg_device_group_rows(a, &near, rows);
			break;
		case HJG_KERNEL_COUNT_GROUPS:
			hjg_device_count_groups(launch->result, worker->own, rows);
			break;
		default:
			hjg_device_list_groups(launch->result, &launch->plan, rows);
	}
	if (flags != 0)
		__atomic_fetch_or(flags_of(launch), flags, __ATOMIC_RELAXED);
}

/* Take the rows or groups of a piece that have a bit: those that are marked, or the keys that are there. */
static void
run_bits(HjgCpuLaunch *launch, HjgCpuWorker *worker, const HjgKPiece *piece)
{
	const HjgCpuRankWord *words = launch->marked_only ? NULL : &launch->plan.source->words[piece->first_row / 64];
	const hjg_u32 nwords = (piece->end_row - piece->first_row + 63) / 64;
	HjgCpuRows *rows = &worker->rows;

	rows->n = 0;
	for (hjg_u32 w = 0; w < nwords; w++)
	{
		const hjg_u32 first = piece->first_row + w * 64;
		hjg_u64		bits = words != NULL ? words[w].bits : worker->marks[w];

		for (hjg_u32 i = 0; i < 64 && bits == ~0ull; i++)
			rows->numbers[rows->n + i] = first + i;
		rows->n += bits == ~0ull ? 64 : 0;
		for (bits = bits == ~0ull ? 0 : bits; bits != 0; bits &= bits - 1)
			rows->numbers[rows->n++] = first + (hjg_u32) __builtin_ctzll(bits);
		if (rows->n == 0 || (rows->n <= HJG_CPU_ROWS - 64 && w < nwords - 1))
			continue;
		rows->consecutive = rows->numbers[rows->n - 1] - rows->numbers[0] == rows->n - 1;
		run_rows(launch, worker, piece);
		rows->n = 0;
	}
}

/* Take the groups of a piece's slots. */
static void
run_slots(HjgCpuLaunch *launch, HjgCpuWorker *worker, const HjgKPiece *piece)
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
run_runs(HjgCpuLaunch *launch, HjgCpuWorker *worker, const HjgKPiece *piece)
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

/* Count the bytes of a worker's own memory that are used. */
static size_t
own_bytes(const HjgCpuLaunch *launch)
{
	if (launch->kernel == HJG_KERNEL_COUNT_GROUPS)
		return HJG_K_ORDER_BINS * sizeof(hjg_u64);
	return launch->kernel == HJG_KERNEL_GROUP_ROWS ? (size_t) launch->a->near_slots * launch->a->sink.record_words * sizeof(hjg_u64) : 0;
}

static void
run_piece(void *arg, int number, int worker_number)
{
	HjgCpuLaunch *launch = arg;
	const HjgEnv *env = launch->run->run.env;
	const HjgKPiece *piece = &launch->pieces[number];
	HjgCpuWorker *worker = &launch->run->workers[worker_number];

	if (__atomic_load_n(flags_of(launch), __ATOMIC_RELAXED) != 0 || hjg_device_stopped(env, &launch->cancelled))
		return;
	if (!worker->started)
	{
		memset(worker->own, 0, own_bytes(launch));
		memset(worker->rows.tested, 0, sizeof(worker->rows.tested));
		memset(worker->rows.passed, 0, sizeof(worker->rows.passed));
		worker->rows.flags = 0;
		worker->nnoted = 0;
		for (int v = 0; v < HJG_PROGRAM_MAX_PAYLOAD; v++)
			worker->bounds[v] = HJG_CPU_NO_BOUNDS;
		worker->started = true;
	}
	worker->marks = launch->marks == NULL ? NULL : launch->marks + (size_t) number * HJG_CPU_MARK_WORDS;
	worker->first_row = piece->first_row;
	if (launch->marked_only || launch->plan.source != NULL)
		run_bits(launch, worker, piece);
	else if (launch->a->from_groups)
		run_slots(launch, worker, piece);
	else
		run_runs(launch, worker, piece);
}

/* Add a worker's own groups to those of all. */
static void
merge_near(void *arg, int number, int worker_number)
{
	HjgCpuLaunch *launch = arg;
	HjgCpuWorker *worker = &launch->run->workers[number];
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
merge_bins(const HjgCpuLaunch *launch, int nworkers)
{
	hjg_u64    *bins = HJG_PROGRAM_AT(hjg_u64, launch->result->bins);

	for (int w = 0; w < nworkers; w++)
		for (hjg_u32 b = 0; b < HJG_K_ORDER_BINS && launch->run->workers[w].started; b++)
			bins[b] += launch->run->workers[w].own[b];
}

/* Find the registers that are read behind the steps. */
static hjg_u32
wanted_registers(const HjgCpuLaunch *launch)
{
	return launch->result == NULL ? hjg_device_sink_registers(launch->a) : launch->result->ordered ? 1u << launch->result->order : 0;
}

HjgStatus
hjg_device_launch(HjgCpuLaunch *launch)
{
	HjgCpuRun  *run = launch->run;
	HjgPool    *pool = run->run.env->pool;
	const int	nworkers = hjg_pool_nthreads(pool);
	const hjg_u64 started = hjg_now_ns();

	launch->cancelled = false;
	TRY(hjg_device_make_filters(run, launch->a));
	hjg_device_plan_steps(&launch->plan, launch->a, run->ranks, run->filters, wanted_registers(launch), launch->marked_only);
	for (int w = 0; w < nworkers; w++)
		run->workers[w].started = false;
	hjg_pool_run(pool, (int) launch->npieces, run_piece, launch);
	if (launch->kernel == HJG_KERNEL_GROUP_ROWS && launch->sink == NULL && launch->a->near_slots > 0)
		hjg_pool_run(pool, nworkers, merge_near, launch);
	if (launch->kernel == HJG_KERNEL_COUNT_GROUPS)
		merge_bins(launch, nworkers);
	*(launch->a->groups ? &run->probe_ns : &run->build_ns) += hjg_now_ns() - started;
	return launch->cancelled ? HJG_ERR_CANCELLED : HJG_OK;
}
