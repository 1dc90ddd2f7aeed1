/*
 * coupled_series.c
 *	  One series of steps over the rows of two processors.
 *
 * In step i the CPU has rows [0, ratio[i] * nrows), the device the others.  Each processor has a list of
 * pieces, ordered by step, and runs them in order.  A piece whose rows the other processor had in the
 * previous step waits for that processor's last piece with such rows; all others run without waiting (the
 * pipelined execution of He, Lu and He, section 3.2).  Within a step the device first processes the rows
 * that the CPU will take over next, and last those that it takes over from the CPU.
 *
 * The calling thread drives both: it keeps some pieces queued on the device, and between checks of the
 * device it runs the CPU's pieces, with all CPU threads.  Every piece is short enough for cancellation.
 * BasicUnit has no lists: each processor, when it is free, takes the next chunk of rows through all steps.
 *
 * An emulated bus, for comparisons with discrete devices, delays data that crosses between the processors:
 * the input of a piece before it starts, and the device's output before the series ends.
 */
#include <time.h>

#include "coupled/hjg_coupled_internal.h"

#define MAX_PIECES (HJG_SERIES_STEPS * (HJG_SERIES_MAX_CHUNKS + 4))

typedef struct SeriesPlan
{
	int			npieces[HJG_PROCESSORS];
	HjgPiece	pieces[HJG_PROCESSORS][MAX_PIECES];
} SeriesPlan;

typedef struct Drive
{
	HjgCoupled *join;
	HjgSeries  *series;
	hjg_u64		bus_free_ns;	/* end of the emulated bus's last transfer */
} Drive;

/*
 * Let P fetch the memory that the next piece will touch, if that piece is of the same step and its rows
 * are ready: all pieces of earlier steps are done, and so are the other processor's pieces that it waits
 * for.
 */
static void
look_ahead(Drive *drive, const HjgPiece *pieces, int npieces, int at, int done, int other_done)
{
	const HjgPiece *next = &pieces[at + 1];
	HjgStepLaunch launch;

	if (!hjg_prefetch_is_on(drive->join) || at + 1 >= npieces || next->step_ix != pieces[at].step_ix ||
		pieces[done].step_ix != next->step_ix || next->needs > other_done || !hjg_prefetch_pays(drive->series->steps[next->step_ix]))
		return;
	launch = hjg_series_launch(drive->join, &drive->series->args, drive->series->steps[next->step_ix]);
	launch.begin = next->begin;
	launch.end = next->end;
	hjg_prefetch_start(drive->join, &launch);
}

/* ---- the emulated bus ---- */

static hjg_u64
bus_ns(const HjgCoupled *join, hjg_u64 nrows)
{
	const hjg_u64 bytes = nrows * (hjg_u64) (HJG_SERIES_EXCHANGE_BYTES + join->base.spec.key_width);

	if (join->config.bus_bytes_per_ns <= 0)
		return 0;
	return (hjg_u64) (join->config.bus_latency_ns + (double) bytes / join->config.bus_bytes_per_ns);
}

/* Queue a transfer behind earlier ones; returns the time of its end. */
static hjg_u64
bus_transfer(Drive *drive, hjg_u64 nrows)
{
	hjg_u64		ns = bus_ns(drive->join, nrows);
	hjg_u64		now = hjg_now_ns();

	if (ns == 0)
		return now;
	drive->join->stats.transfer_ns += ns;
	drive->bus_free_ns = (drive->bus_free_ns > now ? drive->bus_free_ns : now) + ns;
	return drive->bus_free_ns;
}

static HjgStatus
wait_until(Drive *drive, hjg_u64 until_ns)
{
	HjgTask		task = {.env = &drive->join->base.env};

	while (hjg_now_ns() < until_ns)
	{
		const struct timespec ts = {0, 20000};

		if (hjg_task_poll(&task))
			return HJG_ERR_CANCELLED;
		nanosleep(&ts, NULL);
	}
	return HJG_OK;
}

/* ---- lists of pieces ---- */

static void
add_pieces(SeriesPlan *plan, HjgProcessor processor, int step_ix, hjg_u32 begin, hjg_u32 end, hjg_u32 chunk, bool crosses)
{
	const HjgPiece *others = plan->pieces[1 - processor];

	for (hjg_u32 from = begin; from < end;)
	{
		hjg_u32		to = end - from > chunk ? from + chunk : end;
		HjgPiece   *piece = &plan->pieces[processor][plan->npieces[processor]++];

		*piece = (HjgPiece) {.step_ix = step_ix, .begin = from, .end = to, .crosses = crosses};
		for (int i = 0; i < plan->npieces[1 - processor]; i++)
			if (others[i].step_ix == step_ix - 1 && others[i].begin < to && others[i].end > from)
				piece->needs = i + 1;
		from = to;
	}
}

static inline hjg_u32
min_u32(hjg_u32 a, hjg_u32 b)
{
	return a < b ? a : b;
}

static inline hjg_u32
max_u32(hjg_u32 a, hjg_u32 b)
{
	return a > b ? a : b;
}

static void
plan_series(const HjgCoupled *join, const HjgSeries *series, SeriesPlan *plan)
{
	const hjg_u32 n = series->nrows;
	const hjg_u32 chunk = hjg_series_chunk_rows(join, n);
	hjg_u32		cuts[HJG_SERIES_STEPS + 2] = {0};

	/* cuts[i + 1]: the device's first row of step i */
	for (int i = 0; i < series->nsteps; i++)
		cuts[i + 1] = (hjg_u32) (series->ratios[i] * n + 0.5);
	cuts[0] = cuts[1];
	cuts[series->nsteps + 1] = cuts[series->nsteps];

	plan->npieces[HJG_ON_CPU] = plan->npieces[HJG_ON_DEVICE] = 0;
	for (int i = 0; i < series->nsteps; i++)
	{
		const hjg_u32 before = cuts[i];
		const hjg_u32 cut = cuts[i + 1];
		const hjg_u32 after = cuts[i + 2];
		/* the device's rows that the CPU will take over come first */
		const hjg_u32 own = max_u32(cut, before);
		const hjg_u32 wanted = min_u32(max_u32(after, own), n);

		/* both lists of the previous step are complete here */
		add_pieces(plan, HJG_ON_CPU, i, 0, min_u32(cut, before), chunk, false);
		add_pieces(plan, HJG_ON_CPU, i, min_u32(cut, before), cut, chunk, true);
		add_pieces(plan, HJG_ON_DEVICE, i, own, wanted, chunk, i == 0);
		add_pieces(plan, HJG_ON_DEVICE, i, wanted, n, chunk, i == 0);
		add_pieces(plan, HJG_ON_DEVICE, i, cut, own, chunk, true);
	}
}

/* ---- driving ---- */

/* Wait for the device after an error, so that it does not touch the memory any more. */
static void
drain_device(const Drive *drive, const HjgPiece *pieces, int from, int to)
{
	for (int i = from; i < to; i++)
		hjg_piece_reap(drive->join, drive->series, &pieces[i]);
}

/* Queue a piece of a plan; nbefore pieces are queued and not known to be done. */
static HjgStatus
queue_piece(Drive *drive, SeriesPlan *plan, int ix, int nbefore)
{
	HjgCoupledStats *stats = &drive->join->stats;
	const hjg_u64 called_ns = stats->call_ns;
	const hjg_u64 started = hjg_now_ns();
	HjgStatus	status = hjg_piece_queue(drive->join, drive->series, &plan->pieces[HJG_ON_DEVICE][ix],
										 plan->npieces[HJG_ON_DEVICE] - ix);

	stats->nqueued[nbefore > 0]++;
	stats->queue_ns[nbefore > 0] += hjg_now_ns() - started - (stats->call_ns - called_ns);
	return status;
}

/*
 * Copy to the host the data that the CPU's rows of p4 lack, before the device writes pairs: these use the
 * bus in the same direction, and for longer.
 */
static HjgStatus
bring_first(Drive *drive, const SeriesPlan *plan)
{
	HjgStepLaunch launch = hjg_series_launch(drive->join, &drive->series->args, drive->series->steps[0]);
	const hjg_u64 started = hjg_now_ns();
	HjgStatus	status;

	if (launch.step != HJG_STEP_P4 || plan->npieces[HJG_ON_CPU] == 0 || plan->npieces[HJG_ON_DEVICE] == 0)
		return HJG_OK;
	launch.end = plan->pieces[HJG_ON_CPU][plan->npieces[HJG_ON_CPU] - 1].end;
	status = hjg_copies_piece(drive->join, &launch);
	drive->join->stats.step_ns[HJG_ON_CPU][launch.step] += hjg_now_ns() - started;
	return status;
}

static HjgStatus
drive_plan(Drive *drive, SeriesPlan *plan)
{
	HjgPiece   *cpu = plan->pieces[HJG_ON_CPU];
	HjgPiece   *device = plan->pieces[HJG_ON_DEVICE];
	HjgTask		task = {.env = &drive->join->base.env};
	HjgStatus	status = bring_first(drive, plan);
	hjg_u64		cpu_ready_ns = 0;	/* end of the transfers for the current piece; 0: not begun */
	hjg_u64		device_ready_ns = 0;
	int			ncpu = 0;		/* done */
	int			nqueued = 0;
	int			ndevice = 0;	/* done */

	while (status == HJG_OK && (ncpu < plan->npieces[HJG_ON_CPU] || ndevice < plan->npieces[HJG_ON_DEVICE]))
	{
		bool		idle = true;

		if (hjg_task_poll(&task))
		{
			status = HJG_ERR_CANCELLED;
			break;
		}
		while (status == HJG_OK && nqueued < plan->npieces[HJG_ON_DEVICE] && nqueued - ndevice < drive->join->config.queue_depth &&
			   device[nqueued].needs <= ncpu)
		{
			if (device[nqueued].crosses && device_ready_ns == 0)
				device_ready_ns = bus_transfer(drive, device[nqueued].end - device[nqueued].begin);
			if (device_ready_ns > hjg_now_ns())
				break;
			device_ready_ns = 0;
			status = queue_piece(drive, plan, nqueued, nqueued - ndevice);
			look_ahead(drive, device, plan->npieces[HJG_ON_DEVICE], nqueued, ndevice, ncpu);
			nqueued++;
		}
		while (status == HJG_OK && ndevice < nqueued && hjg_piece_done(drive->join, &device[ndevice]))
			status = hjg_piece_reap(drive->join, drive->series, &device[ndevice++]);
		if (status == HJG_OK && ncpu < plan->npieces[HJG_ON_CPU] && cpu[ncpu].needs <= ndevice)
		{
			if (cpu[ncpu].crosses && cpu_ready_ns == 0)
				cpu_ready_ns = bus_transfer(drive, cpu[ncpu].end - cpu[ncpu].begin);
			if (cpu_ready_ns <= hjg_now_ns())
			{
				cpu_ready_ns = 0;
				look_ahead(drive, cpu, plan->npieces[HJG_ON_CPU], ncpu, ncpu, ndevice);
				status = hjg_piece_run(drive->join, drive->series, &cpu[ncpu]);
				ncpu++;
				idle = false;
			}
		}
		if (status == HJG_OK && idle)
		{
			const hjg_u64 started = hjg_now_ns();

			if (ndevice < nqueued)
				status = hjg_piece_reap(drive->join, drive->series, &device[ndevice++]);
			else if (drive->bus_free_ns > started)
				status = wait_until(drive, drive->bus_free_ns);
			drive->join->stats.idle_ns += hjg_now_ns() - started;
		}
	}
	drain_device(drive, device, ndevice, nqueued);
	return status;
}

/* Give chunks to whichever processor is free, through all steps. */
static HjgStatus
drive_units(Drive *drive)
{
	const HjgSeries *series = drive->series;
	const hjg_u32 n = series->nrows;
	const hjg_u32 chunk = drive->join->config.chunk_rows;
	HjgTask		task = {.env = &drive->join->base.env};
	HjgStatus	status = HJG_OK;
	HjgPiece	pieces[HJG_SERIES_STEPS];
	int			ndevice = series->nsteps;	/* finished steps of the device's chunk */
	int			nqueued = series->nsteps;
	hjg_u64		ready_ns = 0;
	hjg_u32		next = 0;

	while (status == HJG_OK && (next < n || ndevice < series->nsteps))
	{
		if (hjg_task_poll(&task))
		{
			status = HJG_ERR_CANCELLED;
			break;
		}
		while (status == HJG_OK && ndevice < nqueued && hjg_piece_done(drive->join, &pieces[ndevice]))
			status = hjg_piece_reap(drive->join, drive->series, &pieces[ndevice++]);
		if (status == HJG_OK && ndevice == series->nsteps && next < n)
		{
			const hjg_u32 end = n - next > chunk ? next + chunk : n;

			if (ready_ns == 0)
				ready_ns = bus_transfer(drive, end - next);
			if (ready_ns <= hjg_now_ns())
			{
				ready_ns = 0;
				ndevice = nqueued = 0;
				for (int i = 0; i < series->nsteps; i++)
					pieces[i] = (HjgPiece) {.step_ix = i, .begin = next, .end = end};
				next = end;
			}
		}
		while (status == HJG_OK && nqueued < series->nsteps && nqueued - ndevice < drive->join->config.queue_depth)
		{
			status = hjg_piece_queue(drive->join, drive->series, &pieces[nqueued], 1);
			nqueued++;
		}
		if (status != HJG_OK)
			break;
		if (status == HJG_OK && next < n)
		{
			const hjg_u32 end = n - next > chunk ? next + chunk : n;

			for (int i = 0; status == HJG_OK && i < series->nsteps; i++)
			{
				const HjgPiece piece = {.step_ix = i, .begin = next, .end = end};

				status = hjg_piece_run(drive->join, drive->series, &piece);
			}
			next = end;
		}
		else if (status == HJG_OK && ndevice < nqueued)
			status = hjg_piece_reap(drive->join, drive->series, &pieces[ndevice++]);
	}
	drain_device(drive, pieces, ndevice, nqueued);
	return status;
}

/* True if the device can work on the caller's memory in place. */
static bool
user_memory_fits(const HjgCoupled *join, const HjgSeries *series)
{
	const size_t mask = join->runner->align_bytes - 1;

	for (int i = 0; i < series->nsteps; i++)
	{
		if (series->steps[i] == HJG_STEP_HASH)
			for (int r = 0; r < series->runs->nruns; r++)
				if (((size_t) series->runs->runs[r].keys & mask) != 0)
					return false;
		if (series->steps[i] == HJG_STEP_P4)
			for (int p = 0; p < series->result->npages; p++)
				if (((size_t) series->result->pages[p] & mask) != 0)
					return false;
	}
	return true;
}

/* True if a processor has rows in the series' step i; with BasicUnit either may. */
static bool
has_rows(const HjgSeries *series, int i, HjgProcessor processor, bool by_units)
{
	return by_units || (processor == HJG_ON_CPU ? series->ratios[i] > 0 : series->ratios[i] < 1);
}

/* Move the table to the processors that use it in the series; a table that b2 to b4 change is on one side. */
static HjgStatus
move_series_table(HjgCoupled *join, const HjgSeries *series, bool by_units)
{
	const bool	writes = series->steps[series->nsteps - 1] == HJG_STEP_B4;
	HjgStatus	status = HJG_OK;

	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		bool		uses = false;

		for (int i = 0; i < series->nsteps; i++)
			uses |= hjg_step_uses_table(series->steps[i]) && has_rows(series, i, (HjgProcessor) p, by_units);
		if (uses && status == HJG_OK)
			status = hjg_copies_table(join, (HjgProcessor) p, writes);
	}
	return status;
}

/* Run all rows at once. */
static HjgStatus
run_whole(HjgCoupled *join, HjgSeries *series)
{
	Drive		drive = {.join = join, .series = series};
	hjg_u64		returned = 0;
	bool		by_units;
	HjgStatus	status;
	SeriesPlan		plan;

	if (series->nrows == 0)
		return HJG_OK;
	if (series->splits)
		series->args.split_row = (hjg_u32) (series->ratios[2] * series->nrows + 0.5);
	if (join->runner == NULL || !user_memory_fits(join, series))
		for (int i = 0; i < series->nsteps; i++)
			if (join->runner == NULL || series->steps[i] == HJG_STEP_HASH || series->steps[i] == HJG_STEP_P4)
				series->ratios[i] = 1;
	by_units = hjg_coupled_is_basic_unit(join) && join->runner != NULL && user_memory_fits(join, series) &&
		(!hjg_series_copies(join) || hjg_series_last_scatter(series) < 0);
	status = move_series_table(join, series, by_units);
	if (status != HJG_OK)
		return status;
	if (by_units)
	{
		status = drive_units(&drive);
		join->stats.unit_rows += (hjg_u64) series->nrows * (hjg_u64) series->nsteps;
	}
	else
	{
		plan_series(join, series, &plan);
		status = drive_plan(&drive, &plan);
		for (int i = 0; i < plan.npieces[HJG_ON_DEVICE]; i++)
			if (plan.pieces[HJG_ON_DEVICE][i].step_ix == series->nsteps - 1)
				returned += plan.pieces[HJG_ON_DEVICE][i].end - plan.pieces[HJG_ON_DEVICE][i].begin;
	}
	/* the device's last output returns to the host */
	if (status == HJG_OK && returned > 0 && join->config.bus_bytes_per_ns > 0)
		status = wait_until(&drive, bus_transfer(&drive, returned));
	for (int i = 0; i < series->nsteps; i++)
	{
		join->stats.ratios[series->steps[i]] = series->ratios[i];
		hjg_series_passed(join, series, series->steps[i], series->ratios[i]);
	}
	/* memory that P reads may be freed or written from now on */
	hjg_prefetch_stop(join);
	return status;
}

void
hjg_series_shift(const HjgCoupled *join, HjgStepArgs *args, hjg_u32 begin)
{
	args->mixed_off += (hjg_u64) begin * (hjg_u64) join->base.spec.key_width;
	args->rows_off += (hjg_u64) begin * 4;
	args->buckets_off += (hjg_u64) begin * 4;
	args->nodes_off += (hjg_u64) begin * 4;
	args->counts_off += (hjg_u64) begin * 4;
	args->offsets_off += (hjg_u64) begin * 4;
	if (args->order_off != 0)
		args->order_off += (hjg_u64) begin * 4;
	args->stripe_row += begin;
}

HjgSeries
hjg_series_part(const HjgCoupled *join, const HjgSeries *series, hjg_u32 begin, hjg_u32 nrows)
{
	HjgSeries	part = *series;

	part.nrows = nrows;
	part.first_run_row += begin;
	hjg_series_shift(join, &part.args, begin);
	return part;
}

HjgStatus
hjg_series_run(HjgCoupled *join, HjgSeries *series)
{
	const hjg_u64 started = hjg_now_ns();
	hjg_u32		most = series->nrows;
	HjgStatus	status = HJG_OK;

	/* pieces stay as small as the work-ahead set; rows that p3 takes in another order cannot be cut */
	if (hjg_prefetch_is_on(join) && (series->steps[0] != HJG_STEP_P3 || series->args.order_off == 0))
		most = HJG_SERIES_MAX_CHUNKS * hjg_series_chunk_rows(join, 0);
	if (series->nrows <= most)
		status = run_whole(join, series);
	else
		for (hjg_u32 begin = 0; begin < series->nrows && status == HJG_OK; begin += most)
		{
			HjgSeries	part = hjg_series_part(join, series, begin, min_u32(most, series->nrows - begin));

			status = run_whole(join, &part);
		}
	join->stats.series_ns += hjg_now_ns() - started;
	return status;
}
