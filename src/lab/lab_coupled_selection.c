/*
 * lab_coupled_selection.c
 *	  A selection through the coupled engine's pipelines, the other operator of He, Zhang and He (VLDB 2015), "001", beside a join.
 *
 * The engine has no selection.  Its runners execute this one as a step of the laboratory's own (kernels/lab/hjg_select.h), on the CPU's
 * threads and as a kernel of the device; units are divided, keys packed and unpacked, and memory fetched by the engine's functions.  As a
 * selection has a single step, its series is short: the CPU has the first blocks and the device the others, by a ratio, each in pieces.
 *		E		pieces of config.chunk_rows
 *		PE		pieces of a work-ahead set; while one is executed, P fetches the next piece of the same processor (section 3.2.1)
 *		cPDE	windows of a work-ahead set of keys: while E executes one, D unpacks the next, and P fetches the packed bytes of the one
 *				after that.  The engine's joins fetch the window that D begins at the same time, which is not ahead of D
 * Packed keys under NS are read in place without D, by both processors.  Q6 of TPC-H selects by several columns and sums up products: its
 * columns lie in one array, a block of each behind one of the other.
 *
 * The ratio is fixed, or the one with which E was the fastest of nine that are measured first; a join takes the model's, which has no costs
 * of this step.  Threads of P and D, and memory, are there before the measured time begins: a selection is over sooner than a thread
 * starts.  The time ends with the row numbers of each block; nobody puts these behind each other.  A device that works on copies has no
 * such step.
 */
#define _GNU_SOURCE

#include <stdlib.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "layout/hjg_clock.h"

#define ALIGN 4096				/* of regions, for any device */
#define DEFAULT_SET_BYTES (1 << 20)	/* of D's windows where P has no set */
#define DEFAULT_PIECE_ROWS 65536
#define MAX_QUEUED 16

typedef struct Selection
{
	const HjgEnv *env;
	const HjgBenchInput *in;
	const HjgCoupledConfig *config;
	const HjgRunner *runner;
	HjgRunner  *fetcher;		/* P; NULL: none */
	HjgRunner  *feeder;			/* D of the CPU's side; NULL: no D */
	hjg_u64		fetch_ticket;
	HjgUnits	units;
	double		ratio;			/* the CPU's share of the blocks */
	hjg_u32		ncolumns;
	hjg_u32		nblocks;		/* of rows; a packed block has those of one column */
	hjg_u32		piece_blocks;	/* of a piece, or of a window of D */
	HjgStepLaunch launch;		/* of all blocks */
	hjg_u64		keys_off[2];	/* in work: D's windows */
	hjg_u64		scratch_off[HJG_PROCESSORS];	/* in work: of the units of D */
	void	   *memory;			/* of both regions */
	size_t		bytes;
	HjgCoupledStats *stats;
} Selection;

/* Blocks that D unpacks into one of two places. */
typedef struct SelectWindow
{
	hjg_u32		begin;
	hjg_u32		end;
	hjg_u32		device_next;	/* first block of the device's that is not begun */
	hjg_u64		ticket;			/* of the CPU's side of D */
} SelectWindow;

/* ---- P ---- */

static size_t
block_bytes(const Selection *selection)
{
	return (size_t) selection->ncolumns * HJG_PACK_BLOCK_ROWS * (size_t) hjg_bench_key_width;
}

/* Let P fetch what the selection or D will read of blocks [begin, end), unless P is still busy. */
static void
fetch_blocks(Selection *selection, hjg_u32 begin, hjg_u32 end)
{
	const HjgPackHeader *header = selection->launch.packed;
	HjgRunner  *fetcher = selection->fetcher;
	HjgStepLaunch launch = selection->launch;

	if (fetcher == NULL || begin >= end || !fetcher->done(fetcher->arg, selection->fetch_ticket))
		return;
	launch.step = HJG_STEP_PREFETCH;
	launch.ahead_of = HJG_STEP_OWN;
	if (header == NULL)
	{
		launch.packed = selection->in->build_keys + begin * block_bytes(selection);
		launch.packed_bytes = (end - begin) * block_bytes(selection);
	}
	else
	{
		const hjg_u8 *last = end < selection->nblocks ? (const hjg_u8 *) hjg_unpack_find(header, 0, end * selection->ncolumns) : (const hjg_u8 *) header + header->bytes;

		launch.packed = hjg_unpack_find(header, 0, begin * selection->ncolumns);
		launch.packed_bytes = (size_t) (last - (const hjg_u8 *) launch.packed);
	}
	selection->stats->fetched_rows += (end - begin) * HJG_PACK_BLOCK_ROWS;
	fetcher->launch(fetcher->arg, &launch, &selection->fetch_ticket);
}

/* ---- E ---- */

typedef struct CpuShare
{
	const HjgStepLaunch *launch;
	hjg_u32		next;			/* block */
} CpuShare;

static void
run_cpu_share(void *arg, int piece, int worker)
{
	CpuShare   *share = arg;
	hjg_u32		ix;

	(void) worker;
	while ((ix = __atomic_fetch_add(&share->next, 1, __ATOMIC_RELAXED)) < share->launch->end)
		hjg_select_step.run(share->launch, ix, ix + 1, (hjg_u32) piece);
}

/* Queue a piece on the device, with a part of the blocks that it unpacks meanwhile; npieces: those that are left. */
static HjgStatus
queue_blocks(const Selection *selection, const HjgStepLaunch *piece, SelectWindow *beside, int npieces, hjg_u64 *ticket)
{
	HjgStepLaunch launch = *piece;
	const hjg_u32 left = beside != NULL ? beside->end - beside->device_next : 0;

	/* an own buffer for the keys of each piece, like the engine's of b1 */
	if (launch.user != NULL && launch.user != launch.work)
	{
		launch.user = (hjg_u8 *) launch.user + (launch.begin - launch.args.first_index) * block_bytes(selection);
		launch.user_bytes = (launch.end - launch.begin) * block_bytes(selection);
		launch.args.first_index = launch.begin;
	}
	if (left > 0)
	{
		launch.packed = selection->launch.packed;
		launch.packed_bytes = selection->launch.packed_bytes;
		launch.args.unpack_off = selection->keys_off[beside->begin / selection->piece_blocks % 2];
		launch.args.unpack_scratch_off = selection->scratch_off[HJG_ON_DEVICE];
		launch.args.unpack_first = beside->begin * selection->ncolumns;
		launch.args.unpack_begin = beside->device_next * selection->ncolumns;
		beside->device_next += (left + (hjg_u32) npieces - 1) / (hjg_u32) npieces;
		launch.args.unpack_end = beside->device_next * selection->ncolumns;
		launch.args.unpack_workers = (hjg_u32) selection->units.device_d;
	}
	return selection->runner->launch(selection->runner->arg, &launch, ticket);
}

/* Execute the launch's blocks in pieces, the CPU's on this thread and others of the pool; beside: what the device unpacks meanwhile. */
static HjgStatus
execute_blocks(Selection *selection, const HjgStepLaunch *all, SelectWindow *beside)
{
	const HjgRunner *runner = selection->runner;
	const hjg_u32 most = selection->feeder != NULL ? all->end - all->begin : selection->piece_blocks;
	const hjg_u32 cut = all->begin + (hjg_u32) (selection->ratio * (all->end - all->begin) + 0.5);
	const int	depth = selection->config->queue_depth < MAX_QUEUED ? selection->config->queue_depth : MAX_QUEUED;
	hjg_u64		tickets[MAX_QUEUED];
	hjg_u32		cpu = all->begin;
	hjg_u32		device = cut;
	int			nqueued = 0;
	int			ndone = 0;
	HjgStatus	status = HJG_OK;

	while (status == HJG_OK && (cpu < cut || device < all->end || ndone < nqueued))
	{
		HjgStepLaunch piece = *all;
		CpuShare	share = {&piece, cpu};

		for (; device < all->end && nqueued - ndone < depth && status == HJG_OK; device = piece.end, nqueued++)
		{
			piece.begin = device;
			piece.end = all->end - device > most ? device + most : all->end;
			status = queue_blocks(selection, &piece, beside, (int) ((all->end - device + most - 1) / most), &tickets[nqueued % MAX_QUEUED]);
			if (selection->feeder == NULL)
				fetch_blocks(selection, piece.end, all->end - piece.end > most ? piece.end + most : all->end);
		}
		while (status == HJG_OK && ndone < nqueued && runner->done(runner->arg, tickets[ndone % MAX_QUEUED]))
			status = runner->wait(runner->arg, tickets[ndone++ % MAX_QUEUED]);
		if (status == HJG_OK && cpu < cut)
		{
			piece.begin = cpu;
			piece.end = cpu = cut - cpu > most ? cpu + most : cut;
			if (selection->feeder == NULL)
				fetch_blocks(selection, cpu, cut - cpu > most ? cpu + most : cut);
			hjg_pool_run(selection->env->pool, selection->units.cpu_e, run_cpu_share, &share);
		}
		else if (status == HJG_OK && ndone < nqueued)
			status = runner->wait(runner->arg, tickets[ndone++ % MAX_QUEUED]);
	}
	return status;
}

/* ---- D ---- */

/* Count how many of a window's blocks the device unpacks, by its share of all cores. */
static hjg_u32
device_blocks_of(const Selection *selection, hjg_u32 n)
{
	const HjgUnits *units = &selection->units;
	const int	ncores = selection->runner->ncores;
	const double device = (double) (units->device_d < ncores ? units->device_d : ncores) / ncores;
	const double cpu = (double) units->cpu_d / (units->cpu_p + units->cpu_d + units->cpu_e);

	if (units->device_d == 0 || (size_t) selection->launch.packed % selection->runner->align_bytes != 0)
		return 0;
	return (hjg_u32) (n * device / (device + cpu) + 0.5);
}

/* Make a launch that unpacks blocks of a window. */
static HjgStepLaunch
unpack_launch_of(const Selection *selection, const SelectWindow *window, HjgProcessor processor, hjg_u32 begin, hjg_u32 end)
{
	HjgStepLaunch launch = selection->launch;

	launch.step = HJG_STEP_UNPACK;
	launch.begin = launch.end = 0;
	launch.args.unpack_off = selection->keys_off[window->begin / selection->piece_blocks % 2];
	launch.args.unpack_scratch_off = selection->scratch_off[processor];
	launch.args.unpack_first = window->begin * selection->ncolumns;
	launch.args.unpack_begin = begin * selection->ncolumns;
	launch.args.unpack_end = end * selection->ncolumns;
	launch.args.unpack_workers = (hjg_u32) (processor == HJG_ON_CPU ? selection->units.cpu_d : selection->units.device_d);
	return launch;
}

/* Start D on the window that begins with this block. */
static HjgStatus
start_unpacking(Selection *selection, SelectWindow *window, hjg_u32 begin)
{
	const hjg_u32 left = selection->nblocks - begin;
	HjgStepLaunch launch;
	hjg_u32		theirs;

	*window = (SelectWindow) {.begin = begin, .end = left > selection->piece_blocks ? begin + selection->piece_blocks : selection->nblocks};
	theirs = device_blocks_of(selection, window->end - begin);
	window->device_next = window->end - theirs;
	selection->stats->device_blocks += theirs;
	launch = unpack_launch_of(selection, window, HJG_ON_CPU, begin, window->device_next);
	return selection->feeder->launch(selection->feeder->arg, &launch, &window->ticket);
}

/* Wait until a window is unpacked; the device unpacks those of its blocks that it has not begun. */
static HjgStatus
finish_unpacking(Selection *selection, SelectWindow *window)
{
	const hjg_u64 started = hjg_now_ns();
	HjgStatus	status = HJG_OK;

	if (window->device_next < window->end)
	{
		const HjgStepLaunch launch = unpack_launch_of(selection, window, HJG_ON_DEVICE, window->device_next, window->end);
		hjg_u64		ticket;

		status = selection->runner->launch(selection->runner->arg, &launch, &ticket);
		if (status == HJG_OK)
			status = selection->runner->wait(selection->runner->arg, ticket);
		window->device_next = window->end;
	}
	selection->feeder->wait(selection->feeder->arg, window->ticket);
	selection->stats->feed_wait_ns += hjg_now_ns() - started;
	return status;
}

/* Unpack and select window after window. */
static HjgStatus
run_windows(Selection *selection)
{
	const hjg_u32 each = selection->piece_blocks;
	SelectWindow windows[2];
	HjgStatus	status = start_unpacking(selection, &windows[0], 0);
	int			which = 0;

	for (hjg_u32 begin = 0; begin < selection->nblocks && status == HJG_OK; begin += each, which = 1 - which)
	{
		SelectWindow *next = begin + each < selection->nblocks ? &windows[1 - which] : NULL;
		HjgStepLaunch launch = selection->launch;

		status = finish_unpacking(selection, &windows[which]);
		if (status == HJG_OK && next != NULL)
		{
			status = start_unpacking(selection, next, begin + each);
			fetch_blocks(selection, next->end, selection->nblocks - next->end > each ? next->end + each : selection->nblocks);
		}
		launch.begin = launch.args.first_index = begin;
		launch.end = windows[which].end;
		launch.args.keys_off = selection->keys_off[which];
		launch.user = launch.work;
		launch.user_bytes = launch.work_bytes;
		launch.packed = NULL;
		launch.packed_bytes = 0;
		if (status == HJG_OK)
			status = execute_blocks(selection, &launch, next);
		selection->stats->feed_rows += (windows[which].end - begin) * HJG_PACK_BLOCK_ROWS;
	}
	return status;
}

/* ---- a run ---- */

static hjg_u64
lay_bytes(size_t *bytes, size_t more)
{
	const size_t off = *bytes;

	*bytes += (more + ALIGN - 1) / ALIGN * ALIGN;
	return off;
}

/* Lay out and reserve both regions; false if there is too little memory. */
static bool
reserve_regions(Selection *selection)
{
	HjgStepLaunch *launch = &selection->launch;
	const hjg_u32 nrows = selection->in->select.predicate.nrows;
	const size_t ncpu = (size_t) (selection->units.cpu_p + selection->units.cpu_d + selection->units.cpu_e);
	size_t		bytes = ALIGN;	/* the table has one page, and no offset is 0 */
	hjg_u8	   *base;

	launch->args.allocator_off = 64;
	launch->args.headers_off[0] = 256;
	launch->args.counts_off = lay_bytes(&bytes, selection->nblocks * sizeof(hjg_u32));
	launch->args.rows_off = lay_bytes(&bytes, nrows * sizeof(hjg_u32));
	launch->args.buckets_off = lay_bytes(&bytes, selection->nblocks * sizeof(hjg_u64));
	launch->args.unpack_scratch_off = selection->scratch_off[HJG_ON_CPU] = lay_bytes(&bytes, ncpu * HJG_SELECT_SCRATCH_BYTES);
	selection->scratch_off[HJG_ON_DEVICE] = lay_bytes(&bytes, (size_t) selection->units.device_d * HJG_UNPACK_SCRATCH_BYTES);
	for (int i = 0; i < 2 && selection->units.cpu_d > 0; i++)
		selection->keys_off[i] = lay_bytes(&bytes, selection->piece_blocks * block_bytes(selection));
	selection->bytes = bytes + 2 * ALIGN;
	selection->memory = hjg_bench_alloc(NULL, selection->bytes);
	if (selection->memory == NULL)
		return false;
	base = (hjg_u8 *) (((size_t) selection->memory + ALIGN - 1) / ALIGN * ALIGN);
	launch->table = base;
	launch->table_bytes = ALIGN;
	launch->work = base + ALIGN;
	launch->work_bytes = bytes;
	memset(launch->table, 0, ALIGN);
	memcpy(launch->table + launch->args.headers_off[0], &selection->in->select.predicate, sizeof(HjgSelect));
	memset(launch->work + launch->args.counts_off, 0xFF, selection->nblocks * sizeof(hjg_u32));
	return true;
}

bool
hjg_select_reads_in_place(const HjgPackHeader *header)
{
	const HjgPackPlan *plan = &header->columns[0].plan;

	return !plan->runs && !plan->delta && !plan->dict && !plan->scale && plan->leaf != HJG_PACK_NSV;
}

/* Choose the input of the step, and the blocks of a piece. */
static void
choose_input(Selection *selection)
{
	const HjgBenchInput *in = selection->in;
	const HjgCoupledConfig *config = selection->config;
	const bool	fetches = config->pipeline >= HJG_PIPELINE_PE && config->was_bytes > 0;
	const bool	decompresses = config->pipeline >= HJG_PIPELINE_CPDE_C;
	const size_t set_bytes = config->was_bytes > 0 ? config->was_bytes : DEFAULT_SET_BYTES;
	size_t		each_bytes = block_bytes(selection);

	if (in->packed_room > 0)
	{
		selection->launch.packed = in->packed_build.keys;
		selection->launch.packed_bytes = in->packed_build.packed_bytes;
		if (!decompresses)
		{
			selection->launch.args.mode = hjg_select_reads_in_place(in->packed_build.keys) ? HJG_SELECT_PACKED : HJG_SELECT_CASCADE;
			each_bytes = in->packed_build.packed_bytes / selection->nblocks + 1;
		}
	}
	else
	{
		selection->launch.user = in->build_keys;
		selection->launch.user_bytes = (size_t) in->nrows * (size_t) hjg_bench_key_width;
	}
	selection->piece_blocks = (hjg_u32) (fetches || decompresses ? set_bytes / each_bytes :
										 (config->chunk_rows > 0 ? config->chunk_rows : DEFAULT_PIECE_ROWS) / HJG_PACK_BLOCK_ROWS);
	selection->piece_blocks = selection->piece_blocks > 0 ? selection->piece_blocks : 1;
	selection->piece_blocks = selection->piece_blocks < selection->nblocks ? selection->piece_blocks : selection->nblocks;
}

/* Divide the units; without a work-ahead set the thread of P has the pipeline's other task. */
static void
divide_units(Selection *selection)
{
	const HjgCoupledConfig *config = selection->config;
	const int	nthreads = hjg_pool_nthreads(selection->env->pool);
	const int	ncpu = config->cpu_threads > 0 && config->cpu_threads < nthreads ? config->cpu_threads : nthreads;
	HjgUnits   *units = &selection->units;

	*units = hjg_units_of(config->pipeline, ncpu, selection->runner->nworkers, config->boundary);
	if (config->was_bytes > 0)
		return;
	*(units->cpu_d > 0 ? &units->cpu_d : &units->cpu_e) += units->cpu_p;
	units->cpu_p = 0;
}

/*
 * Set the CPU's share of the blocks: all of a cascade without D, fixed, or the one that was found for E, less what a processor's
 * units have of other tasks.
 */
static void
choose_ratio(Selection *selection)
{
	const HjgUnits *units = &selection->units;
	const double found = selection->in->select.ratio;
	const double cpu = found * units->cpu_e / (units->cpu_p + units->cpu_d + units->cpu_e);
	const double device = (1 - found) * units->device_e / (units->device_d + units->device_e);

	selection->ratio = selection->config->fixed_ratios[HJG_STEP_HASH];
	if (!selection->config->keep_ratios && selection->in->select.has_ratio && units->cpu_e > 0)
		selection->ratio = cpu / (cpu + device);
	if (units->cpu_e == 0)
		selection->ratio = 0;
	if (selection->launch.args.mode == HJG_SELECT_CASCADE)
		selection->ratio = 1;
}

/* Check the selected rows against the expected ones. */
static bool
check_selected(const Selection *selection)
{
	const HjgBenchInput *in = selection->in;
	const HjgStepLaunch *launch = &selection->launch;
	const hjg_u32 *counts = (const hjg_u32 *) (launch->work + launch->args.counts_off);
	const hjg_u32 *rows = (const hjg_u32 *) (launch->work + launch->args.rows_off);
	const hjg_u64 *products = (const hjg_u64 *) (launch->work + launch->args.buckets_off);
	hjg_u64		products_sum = 0;
	hjg_u64		sum = 0;
	hjg_u32		n = 0;

	for (hjg_u32 ix = 0; ix < selection->nblocks; ix++)
	{
		if (counts[ix] > hjg_select_block_rows(&in->select.predicate, ix))
			return false;
		products_sum += selection->ncolumns > 1 ? products[ix] : 0;
		for (hjg_u32 i = 0; i < counts[ix]; i++, n++)
			sum += hjg_mix64(HJG_HASH_NO_SEED, rows[(size_t) ix * HJG_PACK_BLOCK_ROWS + i]);
	}
	return n == in->select.nselected && sum == in->select.rows_sum && products_sum == in->select.products_sum;
}

/* Start a set of threads, and wait until they have run an empty launch; NULL if they cannot start, or there are none. */
static HjgRunner *
start_threads(const Selection *selection, int nthreads)
{
	HjgRunner  *runner = nthreads > 0 ? hjg_threads_runner_create(nthreads) : NULL;
	HjgStepLaunch launch = selection->launch;
	hjg_u64		ticket;

	launch.step = HJG_STEP_PREFETCH;
	launch.ahead_of = HJG_STEP_OWN;
	launch.packed_bytes = 0;
	if (runner != NULL && runner->launch(runner->arg, &launch, &ticket) == HJG_OK)
		runner->wait(runner->arg, ticket);
	return runner;
}

bool
hjg_select_run(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, const HjgBenchInput *in, HjgBenchTimes *times)
{
	Selection	selection = {.env = env, .in = in, .config = config, .runner = runner, .stats = &times->stats};
	const HjgStepAllocator *allocator;
	HjgBenchCounts counts;
	hjg_u64		started;

	selection.ncolumns = in->select.predicate.ncolumns;
	selection.nblocks = (in->select.predicate.nrows + HJG_PACK_BLOCK_ROWS - 1) / HJG_PACK_BLOCK_ROWS;
	selection.launch = (HjgStepLaunch) {.step = HJG_STEP_OWN, .own = &hjg_select_step, .width = hjg_bench_key_width, .end = selection.nblocks};
	divide_units(&selection);
	choose_input(&selection);
	choose_ratio(&selection);
	times->stats.pipeline = config->pipeline;
	times->stats.units = selection.units;
	times->good = reserve_regions(&selection);
	selection.fetcher = start_threads(&selection, selection.units.cpu_p);
	selection.feeder = start_threads(&selection, selection.units.cpu_d);
	times->good = times->good && (selection.units.cpu_p == 0 || selection.fetcher != NULL) && (selection.units.cpu_d == 0 || selection.feeder != NULL);
	counts = hjg_bench_counts(NULL);
	started = hjg_now_ns();
	if (times->good)
		times->good = (selection.feeder != NULL ? run_windows(&selection) : execute_blocks(&selection, &selection.launch, NULL)) == HJG_OK;
	times->total_ns = (double) (hjg_now_ns() - started);
	times->counts = hjg_bench_counts(&counts);
	hjg_threads_runner_destroy(selection.fetcher);
	hjg_threads_runner_destroy(selection.feeder);
	if (selection.memory != NULL)
	{
		runner->forget(runner->arg, selection.launch.table);
		runner->forget(runner->arg, selection.launch.work);
		allocator = (const HjgStepAllocator *) (selection.launch.table + selection.launch.args.allocator_off);
		times->good = times->good && allocator->flags == 0 && check_selected(&selection);
	}
	hjg_bench_free(NULL, selection.memory, selection.bytes);
	return times->good;
}
