/*
 * coupled_feed.c
 *	  Decompression (D): keys are unpacked, window by window, ahead of the series that hashes them.
 *
 * A series that begins with HASH runs in windows of at most config.was_bytes of keys.  While E works on
 * one window, D unpacks the next one into the other of two buffers: with a set of threads on the CPU's
 * side, and with the first work groups of each of the series' launches on the device's.  E and D wait for
 * each other between windows, where He, Zhang and He set a flag for each block (section 3.2.2).  P fetches
 * the packed bytes of the next window.  Without a set of threads for D (pipelines E and PE on packed keys)
 * the threads of E either hash packed keys themselves (coupled_feed_hash.c), a whole run at once, or
 * unpack each window before it is hashed.
 *
 * A pipeline with D packs unpacked keys itself, for comparisons and tests; this time is counted
 * separately.
 */
#include "coupled/hjg_coupled_internal.h"

/* Least rows of an unpacked window that is worth packing. */
#define MIN_PACKED_ROWS 64

/* Bandwidth of the device's memory, bytes a nanosecond, assumed for packing without calibration. */
#define BYTES_PER_NS 8

typedef struct FeedWindow
{
	hjg_u32		begin;			/* rows of the series */
	hjg_u32		nrows;
	hjg_u32		first_row;		/* row number of the window's first row */
	hjg_u32		skip;			/* rows of the first block before the window */
	hjg_u32		first_block;
	hjg_u32		end_block;
	const HjgPackHeader *packed;
	hjg_u64		ticket;			/* of the feeder's launch */
	HjgBeside	beside;
} FeedWindow;

typedef struct Feed
{
	HjgCoupled *join;
	HjgSeries  *series;
	FeedWindow		windows[2];
} Feed;

size_t
hjg_feed_lay(HjgCoupled *join, size_t bytes)
{
	/* a window may begin and end within blocks */
	const size_t key_bytes = ((size_t) join->pipe.was_rows + 2 * HJG_PACK_BLOCK_ROWS) * (size_t) join->base.spec.key_width;
	const size_t ncpu = (size_t) (join->units.cpu_d > 0 ? join->units.cpu_d : join->cpu_threads);

	if (join->pipe.was_rows == 0)
		return bytes;
	for (int i = 0; i < 2; i++)
	{
		join->pipe.place.keys_off[i] = bytes;
		bytes += hjg_align64(key_bytes);
	}
	join->pipe.place.cpu_scratch_off = bytes;
	bytes += ncpu * HJG_UNPACK_SCRATCH_BYTES;
	join->pipe.place.device_scratch_off = bytes;
	return bytes + (size_t) join->units.device_d * HJG_UNPACK_SCRATCH_BYTES;
}

HjgStatus
hjg_feed_open(int key_width, const HjgSegment *segments, int nsegments)
{
	for (int i = 0; i < nsegments; i++)
	{
		const HjgPackHeader *header;

		if ((segments[i].packed_bytes > 0) != (segments[0].packed_bytes > 0))
			return HJG_ERR_INPUT;
		if (segments[i].packed_bytes == 0)
			continue;
		if (hjg_packed_open(segments[i].keys, segments[i].packed_bytes, &header) != HJG_OK ||
			(int) header->key_width != key_width || header->nrows != segments[i].nrows)
			return HJG_ERR_INPUT;
	}
	return HJG_OK;
}

HjgStatus
hjg_feed_plain(HjgCoupled *join, const HjgSegment *segments, int nsegments, const HjgSegment **plain)
{
	const size_t width = (size_t) join->base.spec.key_width;
	const size_t head = hjg_align64((size_t) nsegments * sizeof(HjgSegment));
	HjgTask		task = {.env = &join->base.env};
	HjgStatus	status = hjg_feed_open((int) width, segments, nsegments);
	HjgSegment *unpacked;
	hjg_u8	   *scratch;
	hjg_u8	   *keys;
	size_t		nrows = 0;

	*plain = segments;
	if (status != HJG_OK || nsegments == 0 || segments[0].packed_bytes == 0)
		return status;
	for (int i = 0; i < nsegments; i++)
		nrows += segments[i].nrows;
	if (!hjg_block_reserve(&join->base, &join->plain_block, head + HJG_UNPACK_SCRATCH_BYTES + nrows * width))
		return HJG_ERR_MEMORY;
	*plain = unpacked = join->plain_block.ptr;
	scratch = (hjg_u8 *) unpacked + head;
	keys = scratch + HJG_UNPACK_SCRATCH_BYTES;
	for (int i = 0; i < nsegments && status == HJG_OK; i++)
	{
		const HjgPackHeader *packed = segments[i].keys;

		unpacked[i] = (HjgSegment) {.keys = keys, .nrows = segments[i].nrows, .first_row = segments[i].first_row};
		for (hjg_u32 ix = 0; segments[i].nrows > 0 && ix < hjg_packed_nblocks(packed) && status == HJG_OK; ix++)
			status = hjg_task_poll(&task) ? HJG_ERR_CANCELLED :
				hjg_unpack_block(packed, ix, keys + (size_t) ix * HJG_PACK_BLOCK_ROWS * width, scratch);
		keys += segments[i].nrows * width;
	}
	return status;
}

/* ---- packing of unpacked keys ---- */

/*
 * Pack a window by the join's plans, which come from its first window; if a plan does not suit a later
 * window, NS is used.
 */
static HjgStatus
pack_window(HjgCoupled *join, const hjg_u8 *keys, hjg_u32 nrows, int which, const HjgPackHeader **packed)
{
	const HjgEnv env = hjg_coupled_env(join);
	const HjgPackPlan plain[2] = {{.leaf = HJG_PACK_NS}, {.leaf = HJG_PACK_NS}};
	const int	width = join->base.spec.key_width;
	const hjg_u64 started = hjg_now_ns();
	HjgStatus	status = hjg_region_reserve(join, &join->pipe.packed[which], hjg_pack_bound(width, nrows));
	size_t		bytes = 0;

	for (int c = 0; c < hjg_pack_ncolumns(width) && status == HJG_OK && !join->pipe.has_plans; c++)
	{
		HjgPackStats stats;

		status = hjg_pack_collect(&env, width, keys, nrows, c, &stats);
		if (status == HJG_OK)
			join->pipe.plans[c] = hjg_pack_choose(&stats, NULL, BYTES_PER_NS, 1);
	}
	if (status == HJG_OK)
	{
		join->pipe.has_plans = true;
		status = hjg_pack(&env, width, join->pipe.plans, keys, nrows, join->pipe.packed[which].base, &bytes);
	}
	if (status == HJG_ERR_INPUT)
		status = hjg_pack(&env, width, plain, keys, nrows, join->pipe.packed[which].base, &bytes);
	*packed = (const HjgPackHeader *) join->pipe.packed[which].base;
	join->stats.pack_ns += hjg_now_ns() - started;
	return status;
}

/* ---- windows ---- */

/*
 * True if keys are hashed without being unpacked.  The CPU then does HASH, and the series begins with the
 * next step.
 */
static bool
hashes_packed(const Feed *feed)
{
	return feed->join->pipe.feeder == NULL && feed->series->runs->packed && !feed->series->splits &&
		hjg_steps_hashes_packed(feed->join->base.spec.key_width);
}

/* Find the window that begins at row begin of the series; it does not go beyond its run. */
static HjgStatus
open_window(Feed *feed, int which, hjg_u32 begin)
{
	HjgCoupled *join = feed->join;
	FeedWindow	   *window = &feed->windows[which];
	const hjg_u64 at = feed->series->first_run_row + begin;
	HjgStatus	status = HJG_OK;
	HjgKeyScan	scan;
	hjg_u32		in_run;

	*window = (FeedWindow) {.begin = begin, .nrows = feed->series->nrows - begin};
	hjg_engine_scan_begin(&scan, feed->series->runs, at, at + window->nrows);
	while (at - scan.run->begin >= scan.run->nrows)
		scan.run++;
	in_run = (hjg_u32) (at - scan.run->begin);
	window->first_row = scan.run->first_row + in_run;
	if (window->nrows > scan.run->nrows - in_run)
		window->nrows = scan.run->nrows - in_run;
	/* without an array of keys there is no limit */
	if (window->nrows > join->pipe.was_rows && !hashes_packed(feed))
		window->nrows = join->pipe.was_rows;
	if (feed->series->runs->packed)
	{
		window->packed = (const HjgPackHeader *) scan.run->keys;
		window->first_block = in_run / HJG_PACK_BLOCK_ROWS;
		window->skip = in_run % HJG_PACK_BLOCK_ROWS;
	}
	else
		status = pack_window(join, scan.run->keys + (size_t) in_run * (size_t) join->base.spec.key_width, window->nrows, which,
							 &window->packed);
	window->end_block = window->first_block + (window->skip + window->nrows - 1) / HJG_PACK_BLOCK_ROWS + 1;
	return status;
}

/* Make a launch that unpacks blocks of a window. */
static HjgStepLaunch
unpack_launch(const HjgCoupled *join, const HjgSeries *series, const FeedWindow *window, int which, hjg_u32 begin, hjg_u32 end)
{
	HjgStepLaunch launch = hjg_series_launch(join, &series->args, HJG_STEP_UNPACK);

	launch.packed = window->packed;
	launch.packed_bytes = window->packed->bytes;
	launch.args.unpack_off = join->pipe.place.keys_off[which];
	launch.args.unpack_scratch_off = join->pipe.place.cpu_scratch_off;
	launch.args.unpack_first = window->first_block;
	launch.args.unpack_begin = begin;
	launch.args.unpack_end = end;
	return launch;
}

/* Let P fetch the packed bytes of a window's blocks, which are contiguous. */
static void
fetch_packed(HjgCoupled *join, const HjgSeries *series, const FeedWindow *window)
{
	HjgStepLaunch launch = hjg_series_launch(join, &series->args, HJG_STEP_UNPACK);
	const HjgPackBlock *first = hjg_unpack_find(window->packed, 0, window->first_block);
	const hjg_u64 from = (hjg_u64) ((const hjg_u8 *) first - (const hjg_u8 *) window->packed);
	const hjg_u64 to = window->end_block < hjg_packed_nblocks(window->packed) ?
		(hjg_u64) ((const hjg_u8 *) hjg_unpack_find(window->packed, 0, window->end_block) - (const hjg_u8 *) window->packed) :
		window->packed->bytes;

	launch.packed = first;
	launch.packed_bytes = to > from ? to - from : 0;
	launch.end = window->nrows;
	hjg_prefetch_start(join, &launch);
}

/*
 * Count how many of n blocks the device unpacks, by its share of all cores, while the CPU's threads unpack
 * the others.  Without costs, cores of both sides count as equally fast.
 */
static hjg_u32
device_blocks(const HjgCoupled *join, const FeedWindow *window, hjg_u32 n)
{
	const HjgUnits *units = &join->units;
	const HjgStepCosts *costs = join->config.costs;
	const int	ncores = join->runner != NULL ? join->runner->ncores : 1;
	double		device_rate;
	double		cpu_rate;

	if (units->device_d == 0 || hjg_series_copies(join) || (size_t) window->packed % join->runner->align_bytes != 0)
		return 0;
	device_rate = (double) (units->device_d < ncores ? units->device_d : ncores) / ncores;
	cpu_rate = (double) units->cpu_d / (units->cpu_p + units->cpu_d + units->cpu_e);
	if (costs != NULL && costs->unpack_ns[HJG_ON_CPU] > 0 && costs->unpack_ns[HJG_ON_DEVICE] > 0)
	{
		device_rate /= costs->unpack_ns[HJG_ON_DEVICE];
		cpu_rate /= costs->unpack_ns[HJG_ON_CPU];
	}
	return (hjg_u32) (n * device_rate / (device_rate + cpu_rate) + 0.5);
}

/* Start D on a window. */
static HjgStatus
start_window(Feed *feed, int which)
{
	HjgCoupled *join = feed->join;
	FeedWindow	   *window = &feed->windows[which];
	const hjg_u32 mine = device_blocks(join, window, window->end_block - window->first_block);
	HjgStepLaunch launch;

	if (join->pipe.feeder == NULL)
		return HJG_OK;
	launch = unpack_launch(join, feed->series, window, which, window->first_block, window->end_block - mine);
	launch.args.unpack_workers = (hjg_u32) join->pipe.feeder->nworkers;
	window->beside = (HjgBeside) {.packed = window->packed, .keys_off = join->pipe.place.keys_off[which],
		.first = window->first_block, .next = window->end_block - mine, .end = window->end_block};
	join->stats.device_blocks += mine;
	return join->pipe.feeder->launch(join->pipe.feeder->arg, &launch, &window->ticket);
}

static void
hash_on_cpu(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	const HjgStepLaunch *launch = arg;
	hjg_u8	   *scratch = launch->work + launch->args.unpack_scratch_off + (size_t) slot * HJG_UNPACK_SCRATCH_BYTES;

	for (hjg_u32 ix = begin; ix < end; ix++)
		if (hjg_steps_hash_packed(launch, ix, scratch) != HJG_OK)
			hjg_step_raise(launch->table, &launch->args, HJG_STEP_DAMAGED);
}

/* Run HASH on a window. */
static HjgStatus
hash_window(Feed *feed, int which, double *predicted_ns)
{
	HjgCoupled *join = feed->join;
	const FeedWindow *window = &feed->windows[which];
	const HjgSeries part = hjg_series_part(join, feed->series, window->begin, window->nrows);
	HjgStepLaunch launch = hjg_series_launch(join, &part.args, HJG_STEP_HASH);
	HjgStatus	status;

	launch.args.first_index = 0;
	launch.end = window->nrows;
	status = hjg_copies_piece(join, &launch);
	if (status != HJG_OK)
		return status;
	launch.packed = window->packed;
	launch.packed_bytes = window->packed->bytes;
	launch.begin = window->first_block * HJG_PACK_BLOCK_ROWS + window->skip;
	launch.end = launch.begin + window->nrows;
	launch.args.first_row = window->first_row;
	launch.args.unpack_scratch_off = join->pipe.place.cpu_scratch_off;
	join->stats.hashed_rows += window->nrows;
	if (join->config.costs != NULL)
		*predicted_ns += window->nrows * hjg_step_cost_ns(join->config.costs, join->config.costs->alone_ns[hjg_coupled_is_partitioned(join)],
														  HJG_ON_CPU, HJG_STEP_HASH, (double) join->build_rows);
	return hjg_coupled_on_cpu(join, window->first_block, window->end_block, 1, hash_on_cpu, &launch);
}

static void
unpack_on_cpu(void *arg, hjg_u32 begin, hjg_u32 end, int slot)
{
	HjgStepLaunch launch = *(const HjgStepLaunch *) arg;

	launch.args.unpack_begin = begin;
	launch.args.unpack_end = end;
	launch.args.unpack_workers = 1;
	launch.args.unpack_scratch_off += (hjg_u64) slot * HJG_UNPACK_SCRATCH_BYTES;
	hjg_steps_unpack(&launch, 0);
}

/* Unpack the blocks that were not unpacked within the launches of the previous series. */
static HjgStatus
unpack_on_device(HjgCoupled *join, const HjgSeries *series, FeedWindow *window, int which)
{
	HjgStepLaunch launch = unpack_launch(join, series, window, which, window->beside.next, window->beside.end);
	HjgStatus	status;
	hjg_u64		ticket;

	if (window->beside.next >= window->beside.end)
		return HJG_OK;
	launch.args.unpack_scratch_off = join->pipe.place.device_scratch_off;
	launch.args.unpack_workers = (hjg_u32) join->units.device_d;
	status = join->runner->launch(join->runner->arg, &launch, &ticket);
	return status == HJG_OK ? hjg_series_await(&join->base.env, join->runner, ticket) : status;
}

/* Check for a damaged block, and clear the flag, because the next batch may be undamaged. */
static bool
take_damage(HjgCoupled *join)
{
	HjgStepAllocator *allocator = (HjgStepAllocator *) (join->part->table.base + join->part->args.allocator_off);

	return (__atomic_fetch_and(&allocator->flags, ~HJG_STEP_DAMAGED, __ATOMIC_RELAXED) & HJG_STEP_DAMAGED) != 0;
}

/* Wait for the keys of a window, or for the results of HASH on them. */
static HjgStatus
finish_window(Feed *feed, int which, double *predicted_ns)
{
	HjgCoupled *join = feed->join;
	FeedWindow	   *window = &feed->windows[which];
	const hjg_u64 started = hjg_now_ns();
	HjgStatus	status;

	if (join->pipe.feeder != NULL)
	{
		status = unpack_on_device(join, feed->series, window, which);
		join->pipe.feeder->wait(join->pipe.feeder->arg, window->ticket);
		join->stats.feed_wait_ns += hjg_now_ns() - started;
	}
	else
	{
		HjgStepLaunch launch = unpack_launch(join, feed->series, window, which, 0, 0);

		status = hashes_packed(feed) ? hash_window(feed, which, predicted_ns) :
			hjg_coupled_on_cpu(join, window->first_block, window->end_block, 1, unpack_on_cpu, &launch);
		join->stats.feed_ns += hjg_now_ns() - started;
	}
	join->stats.feed_rows += window->nrows;
	join->stats.packed_bytes += window->packed->bytes * (window->end_block - window->first_block) /
		hjg_packed_nblocks(window->packed);
	return status == HJG_OK && take_damage(join) ? HJG_ERR_INPUT : status;
}

/* Run E on a window that is ready. */
static HjgStatus
execute_window(Feed *feed, int which, HjgBeside *beside, double *predicted_ns)
{
	HjgCoupled *join = feed->join;
	const FeedWindow *window = &feed->windows[which];
	HjgSeries	part = hjg_series_part(join, feed->series, window->begin, window->nrows);
	HjgKeyRun		run = {.keys = join->work.base, .nrows = window->nrows, .first_row = window->first_row};
	const HjgRuns runs = {.runs = &run, .nruns = 1, .nrows = window->nrows};

	part.runs = &runs;
	part.first_run_row = 0;
	part.beside = beside;
	/* an offset into work, so that no memory is lent to the device twice */
	part.args.keys_off = join->pipe.place.keys_off[which] + (hjg_u64) window->skip * (hjg_u64) join->base.spec.key_width;
	if (hashes_packed(feed))
	{
		part.nsteps--;
		memmove(part.steps, part.steps + 1, (size_t) part.nsteps * sizeof(HjgStep));
		hjg_series_passed(join, &part, HJG_STEP_HASH, 1);
	}
	else
	{
		HjgStatus	status = hjg_copies_host(join, part.args.keys_off, (size_t) window->nrows * (size_t) join->base.spec.key_width,
											 false, true, HJG_STEP_HASH);

		if (status != HJG_OK)
			return status;
	}
	*predicted_ns += hjg_series_plan(join, &part);
	return hjg_series_run(join, &part);
}

/* Stop all work: after an error no thread may still write. */
static void
abandon_work(Feed *feed)
{
	HjgCoupled *join = feed->join;

	for (int i = 0; i < 2; i++)
		if (join->pipe.feeder != NULL && feed->windows[i].ticket > 0)
			join->pipe.feeder->wait(join->pipe.feeder->arg, feed->windows[i].ticket);
	hjg_prefetch_stop(join);
}

HjgStatus
hjg_feed_run(HjgCoupled *join, HjgSeries *series, double *predicted_ns)
{
	Feed		feed = {.join = join, .series = series};
	HjgStatus	status;
	int			which = 0;

	if (join->pipe.was_rows == 0 || (!series->runs->packed && series->nrows < MIN_PACKED_ROWS))
	{
		*predicted_ns += hjg_series_plan(join, series);
		return hjg_series_run(join, series);
	}
	if (series->nrows == 0)
		return HJG_OK;
	status = open_window(&feed, which, 0);
	if (status == HJG_OK)
		status = start_window(&feed, which);
	while (status == HJG_OK)
	{
		FeedWindow	   *window = &feed.windows[which];
		FeedWindow	   *next = &feed.windows[1 - which];
		const bool	is_last = window->begin + window->nrows >= series->nrows;
		HjgBeside	nothing = {.next = 0};

		status = finish_window(&feed, which, predicted_ns);
		if (status == HJG_OK && !is_last)
		{
			status = open_window(&feed, 1 - which, window->begin + window->nrows);
			if (status == HJG_OK)
				status = start_window(&feed, 1 - which);
			if (status == HJG_OK)
				fetch_packed(join, series, next);
		}
		if (status == HJG_OK)
			status = execute_window(&feed, which, is_last ? &nothing : &next->beside, predicted_ns);
		if (is_last)
			break;
		which = 1 - which;
	}
	abandon_work(&feed);
	return status;
}
