/*
 * coupled_series_piece.c
 *	  One piece of a series: rows of one step, by the CPU's threads, or as launches of the device.
 *
 * Keys lie in the caller's runs, and pairs go to the caller's pages, so a piece of HASH has a launch for
 * each run of its rows, and a piece of P4 one for each page of its pairs.  Time and rows of each piece are
 * counted by step and processor (HjgCoupledStats).
 */
#include <sched.h>
#include <time.h>

#include "coupled/hjg_coupled_internal.h"

/*
 * Time for which the heartbeat continues while the device is waited for, because a driver may compile a
 * kernel at its first launch, which takes seconds.  A device that takes longer hangs, and the heartbeat
 * stops.
 */
#define AWAIT_NS UINT64_C(15000000000)
#define SPIN_NS 2000000

/* Rows of a step that take less time than the start of another thread. */
#define LEAST_UNIT_ROWS 256

/* ---- launches ---- */

HjgStepLaunch
hjg_series_launch(const HjgCoupled *join, const HjgStepArgs *args, HjgStep step)
{
	return (HjgStepLaunch) {
		.step = step,
		.width = join->base.spec.key_width,
		.args = *args,
		.table = join->part->table.base,
		.table_bytes = join->part->table.bytes,
		.dst_rows = join->dst_rows,
		.work = join->work.base,
		.work_bytes = join->work.bytes,
	};
}

/* Get the part of rows [*pos, end) that lies in one run of keys; false at the end. */
static bool
next_keys(const HjgSeries *series, int width, hjg_u32 *pos, hjg_u32 end, HjgStepLaunch *launch)
{
	HjgKeyScan	scan;
	const hjg_u8 *keys = NULL;
	hjg_u32		n;

	if (*pos >= end)
		return false;
	hjg_engine_scan_begin(&scan, series->runs, series->first_run_row + *pos, series->first_run_row + end);
	n = hjg_engine_scan_next(&scan, width, end - *pos, &keys, &launch->args.first_row);
	launch->user = (void *) keys;
	launch->user_bytes = (size_t) n * (size_t) width;
	if (series->runs->runs[0].keys == launch->work)
	{
		/*
		 * the feed's keys are addressed by their offset in work, so that the region is lent to the device
		 * once
		 */
		launch->args.keys_off = series->args.keys_off + (hjg_u64) (keys - launch->work);
		launch->user = launch->work;
		launch->user_bytes = launch->work_bytes;
	}
	launch->args.first_index = *pos;
	launch->begin = 0;
	launch->end = n;
	*pos += n;
	return true;
}

static inline hjg_u32
word_at(const HjgCoupled *join, hjg_u64 off, hjg_u32 i)
{
	return ((const hjg_u32 *) (join->work.base + off))[i];
}

/* Find the pages that the pairs of rows [begin, end) lie on: [*first, *last). */
static void
pages_of(const HjgCoupled *join, const HjgSeries *series, hjg_u32 begin, hjg_u32 end, hjg_u32 *first, hjg_u32 *last)
{
	const hjg_u64 from = word_at(join, series->args.offsets_off, begin);
	const hjg_u64 to = (hjg_u64) word_at(join, series->args.offsets_off, end - 1) +
		word_at(join, series->args.counts_off, end - 1);

	*first = (hjg_u32) (from / series->result->page_pairs);
	*last = (hjg_u32) ((to + series->result->page_pairs - 1) / series->result->page_pairs);
	if (to == from)
		*last = *first;
}

static void
set_page(const HjgSeries *series, hjg_u32 page, HjgStepLaunch *launch)
{
	launch->user = series->result->pages[page];
	launch->user_bytes = sizeof(HjgPair) * series->result->page_pairs;
	launch->args.page_first = page * series->result->page_pairs;
	launch->args.page_pairs = series->result->page_pairs;
}

/* ---- the CPU's side ---- */

typedef struct CpuPiece
{
	HjgCoupled *join;
	const HjgSeries *series;
	int			step_ix;
} CpuPiece;

static void
cpu_rows(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	const CpuPiece *piece = arg;
	HjgStepLaunch launch = hjg_series_launch(piece->join, &piece->series->args, piece->series->steps[piece->step_ix]);
	hjg_u32		pos = begin;
	hjg_u32		page;
	hjg_u32		last;

	switch (launch.step)
	{
		case HJG_STEP_HASH:
			while (next_keys(piece->series, launch.width, &pos, end, &launch))
				hjg_steps_run(&launch, launch.begin, launch.end, (hjg_u32) slot);
			break;
		case HJG_STEP_P4:
			for (pages_of(piece->join, piece->series, begin, end, &page, &last); page < last; page++)
			{
				set_page(piece->series, page, &launch);
				hjg_steps_run(&launch, begin, end, (hjg_u32) slot);
			}
			break;
		default:
			hjg_steps_run(&launch, begin, end, (hjg_u32) slot);
	}
}

static void
count_step(HjgCoupled *join, HjgProcessor processor, const HjgSeries *series, const HjgPiece *piece, hjg_u64 ns)
{
	const HjgStep step = series->steps[piece->step_ix];
	const hjg_u32 nrows = piece->end - piece->begin;

	join->stats.step_rows[processor][step] += nrows;
	/* the first step's rows come from the host */
	if (piece->crosses && piece->step_ix > 0)
		join->stats.step_taken[processor][step] += nrows;
	join->stats.step_pieces[processor][step]++;
	join->stats.step_ns[processor][step] += ns;
}

/* Choose the rows of a unit such that all threads get about the same number of the piece's rows. */
static hjg_u32
unit_rows(const HjgCoupled *join, hjg_u32 nrows)
{
	const hjg_u32 nthreads = (hjg_u32) join->cpu_threads;
	const hjg_u32 nunits = nthreads * ((nrows + nthreads * HJG_COUPLED_UNIT_ROWS - 1) / (nthreads * HJG_COUPLED_UNIT_ROWS));
	const hjg_u32 rows = (nrows + nunits - 1) / nunits;

	/* whole lines of 4-byte arrays, and enough rows for another thread to be worthwhile */
	return rows < LEAST_UNIT_ROWS ? LEAST_UNIT_ROWS : (rows + 15) / 16 * 16;
}

HjgStatus
hjg_piece_run(HjgCoupled *join, const HjgSeries *series, const HjgPiece *piece)
{
	CpuPiece	cpu = {join, series, piece->step_ix};
	HjgStepLaunch launch = hjg_series_launch(join, &series->args, series->steps[piece->step_ix]);
	hjg_u64		started = hjg_now_ns();
	HjgStatus	status;

	launch.begin = piece->begin;
	launch.end = piece->end;
	launch.args.first_index = 0;
	status = hjg_copies_piece(join, &launch);
	if (status == HJG_OK)
		status = hjg_coupled_on_cpu(join, piece->begin, piece->end, unit_rows(join, piece->end - piece->begin), cpu_rows, &cpu);
	count_step(join, HJG_ON_CPU, series, piece, hjg_now_ns() - started);
	return status;
}

/* ---- the device's side ---- */

/*
 * Give a launch, the first of npieces that are left, its share of the blocks that the device unpacks
 * meanwhile.
 */
static void
add_beside(const HjgCoupled *join, HjgBeside *beside, int npieces, HjgStepLaunch *launch)
{
	const hjg_u32 left = beside->end - beside->next;

	if (left == 0)
		return;
	launch->packed = beside->packed;
	launch->packed_bytes = beside->packed->bytes;
	launch->args.unpack_off = beside->keys_off;
	launch->args.unpack_scratch_off = join->pipe.place.device_scratch_off;
	launch->args.unpack_first = beside->first;
	launch->args.unpack_begin = beside->next;
	launch->args.unpack_end = beside->next += (left + (hjg_u32) npieces - 1) / (hjg_u32) npieces;
	launch->args.unpack_workers = (hjg_u32) join->units.device_d;
}

/* Queue a launch, and count its copies. */
static HjgStatus
launch_counted(HjgCoupled *join, const HjgStepLaunch *launch, hjg_u64 *ticket)
{
	const HjgRunner *runner = join->runner;
	HjgCopyTimes *copied = &join->stats.copied[HJG_ON_DEVICE][launch->step];
	HjgRunnerTimes before;
	HjgRunnerTimes after;
	HjgStatus	status;

	runner->times(runner->arg, &before);
	status = runner->launch(runner->arg, launch, ticket);
	runner->times(runner->arg, &after);
	copied->n += after.ncopies[HJG_ON_DEVICE] - before.ncopies[HJG_ON_DEVICE];
	copied->bytes += after.crossed_bytes[HJG_ON_DEVICE] - before.crossed_bytes[HJG_ON_DEVICE];
	join->stats.call_ns += after.copy_call_ns - before.copy_call_ns;
	return status;
}

HjgStatus
hjg_piece_queue(HjgCoupled *join, const HjgSeries *series, HjgPiece *piece, int npieces)
{
	HjgStatus	status = HJG_OK;
	HjgStepLaunch launch = hjg_series_launch(join, &series->args, series->steps[piece->step_ix]);
	hjg_u32		pos = piece->begin;
	hjg_u32		page;
	hjg_u32		last;

	launch.args.first_worker = HJG_COUPLED_CPU_WORKERS;
	launch.begin = piece->begin;
	launch.end = piece->end;
	switch (launch.step)
	{
		case HJG_STEP_HASH:
			while (status == HJG_OK && next_keys(series, launch.width, &pos, piece->end, &launch))
				status = launch_counted(join, &launch, &piece->ticket);
			break;
		case HJG_STEP_P4:
			pages_of(join, series, piece->begin, piece->end, &page, &last);
			piece->ticket = 0;
			for (; status == HJG_OK && page < last; page++)
			{
				set_page(series, page, &launch);
				status = launch_counted(join, &launch, &piece->ticket);
			}
			break;
		default:
			if (series->beside != NULL)
				add_beside(join, series->beside, npieces, &launch);
			status = launch_counted(join, &launch, &piece->ticket);
	}
	return status;
}

bool
hjg_piece_done(const HjgCoupled *join, const HjgPiece *piece)
{
	return piece->ticket == 0 || join->runner->done(join->runner->arg, piece->ticket);
}

HjgStatus
hjg_series_await(const HjgEnv *env, const HjgRunner *runner, hjg_u64 ticket)
{
	const hjg_u64 started = hjg_now_ns();
	hjg_u64		waited = 0;

	while (!runner->done(runner->arg, ticket) && waited < AWAIT_NS)
	{
		const struct timespec ts = {0, 20000};

		if (env->poll != NULL && env->poll(env->arg))
			break;
		if (waited > SPIN_NS)
			nanosleep(&ts, NULL);
		else
			sched_yield();
		waited = hjg_now_ns() - started;
	}
	return runner->wait(runner->arg, ticket);
}

HjgStatus
hjg_piece_reap(HjgCoupled *join, const HjgSeries *series, const HjgPiece *piece)
{
	const HjgRunner *runner = join->runner;
	HjgRunnerTimes before;
	HjgRunnerTimes after;
	HjgStatus	status;

	runner->times(runner->arg, &before);
	status = piece->ticket == 0 ? HJG_OK : hjg_series_await(&join->base.env, runner, piece->ticket);
	runner->times(runner->arg, &after);
	join->stats.copied[HJG_ON_DEVICE][series->steps[piece->step_ix]].ns += after.copy_ns - before.copy_ns;
	count_step(join, HJG_ON_DEVICE, series, piece, after.busy_ns + after.copy_ns - before.busy_ns - before.copy_ns);
	return status;
}
