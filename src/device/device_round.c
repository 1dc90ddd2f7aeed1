/*
 * device_round.c
 *	  One operation of a job, as a runner performs it: a build, or a round of a probe batch.
 *
 * The operation's request is in memory that others can write: it is copied once, and the copy is checked
 * and used.  The reader of its results checks them in the same way (hjg_check_round).
 *
 * When a device gives up a join, the cpu engine joins instead, on the first stream, once no other operation
 * of the join runs.  Until then an operation that failed beside others, or on another stream, is queued
 * again.  A program (layout/hjg_program.h) that a GPU gives up runs on threads in the same way.
 */
#define _GNU_SOURCE

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "device/hjg_chain.h"
#include "device/hjg_scheduler.h"

#define MAX_POOLS 12
#define CPU_DEVICE 0			/* the first of device_drivers.c */

/* ---- the environment of engines ---- */

/*
 * The pool of all threads, and smaller ones for jobs that ask for fewer threads, in powers of two to limit
 * their number.  Made on first use.
 */
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static HjgPool *runner_pools[MAX_POOLS];

static HjgPool *
pool_of(const HjgServe *serve, hjg_u32 wanted)
{
	int			nthreads = serve->nthreads;
	int			which = 0;
	HjgPool    *pool;

	if (wanted > 0 && wanted < (hjg_u32) nthreads)
	{
		nthreads = 1;
		for (which = 1; which < MAX_POOLS - 1 && (hjg_u32) nthreads * 2 <= wanted; which++)
			nthreads *= 2;
	}
	if (nthreads <= 1)
		return NULL;
	pthread_mutex_lock(&pools_lock);
	if (runner_pools[which] == NULL)
		runner_pools[which] = hjg_pool_create(nthreads);
	pool = runner_pools[which];
	pthread_mutex_unlock(&pools_lock);
	return pool;
}

void
hjg_round_pools_free(void)
{
	for (int i = 0; i < MAX_POOLS; i++)
	{
		if (runner_pools[i] != NULL)
			hjg_pool_destroy(runner_pools[i]);
		runner_pools[i] = NULL;
	}
}

static bool
env_poll(void *arg)
{
	HjgJobStream *stream = arg;
	const HjgServe *serve = stream->task->serve;

	hjg_beat_progress(&stream->beat);
	return __atomic_load_n(&serve->view.jobs[stream->task->job_ix].cancel, __ATOMIC_RELAXED) != 0 ||
		__atomic_load_n(&serve->stopping, __ATOMIC_RELAXED);
}

static void *
env_alloc(void *arg, size_t bytes)
{
	HjgJobStream *stream = arg;
	bool		fresh;
	void	   *ptr = hjg_workspace_alloc(bytes, &fresh);

	if (fresh && ptr != NULL)
		hjg_workspace_touch(ptr, bytes, stream->env.pool, env_poll, stream);
	return ptr;
}

static void
env_free(void *arg, void *ptr, size_t bytes)
{
	hjg_workspace_free(ptr, bytes);
}

void
hjg_round_drop_join(HjgJobTask *task)
{
	if (task->streams[0].join != NULL)
		task->driver->free(task->streams[0].join);
	for (int i = 0; i < HJG_MAX_STREAMS; i++)
		task->streams[i].join = NULL;
	task->nstreams = 1;
	task->driver = NULL;
}

/* ---- operations ---- */

/* Collect the inputs of an operation as engine segments, in memory that the caller frees. */
static HjgSegment *
collect_inputs(const HjgJobTask *task, const HjgOp *op, HjgSideId side, int *nsegments)
{
	const HjgArenaView *view = &task->serve->view;
	hjg_u32		room = __atomic_load_n(&op->ninputs, __ATOMIC_RELAXED);
	HjgInput   *inputs;
	HjgSegment *segments;
	hjg_u32		n;

	if (room > view->nslabs)
		return NULL;
	inputs = malloc((room + 1) * sizeof(HjgInput));
	segments = malloc((room + 1) * sizeof(HjgSegment));
	if (inputs == NULL || segments == NULL ||
		!hjg_device_chain_inputs(view, op, hjg_slab_owner(task->job_ix, task->generation),
								 task->spec.key_width, task->spec.payload.bytes[side], inputs, room, &n))
	{
		free(inputs);
		free(segments);
		return NULL;
	}
	for (hjg_u32 i = 0; i < n; i++)
		segments[i] = (HjgSegment) {
			.keys = inputs[i].keys, .nrows = inputs[i].nrows, .first_row = inputs[i].first_row, .payload = inputs[i].payload
		};
	free(inputs);
	*nsegments = (int) n;
	return segments;
}

/* Build with task->driver. */
static HjgStatus
build_join(HjgJobTask *task, const HjgJobSlot *job, int number)
{
	HjgJobStream *stream = &task->streams[0];
	HjgSegment *segments;
	HjgStatus	status;
	int			nsegments = 0;

	segments = collect_inputs(task, &job->build, HJG_SIDE_BUILD, &nsegments);
	if (segments == NULL)
		return HJG_ERR_INPUT;
	status = task->driver->build(number, &stream->env, &task->spec, segments, nsegments, &stream->join);
	if (status != HJG_OK)
		stream->join = NULL;
	free(segments);
	return status;
}

/* Get the driver of the processor that runs jobs of this kind. */
static const HjgDriver *
cpu_driver(const HjgJobTask *task)
{
	int			number;
	const HjgDriver *driver = hjg_driver_of(CPU_DEVICE, &number);

	return task->spec.mode == HJG_MATCH_PROGRAM ? driver->programs : driver;
}

/*
 * True if the cpu engine must join, or threads must run the program, instead, from the inputs that stay in the arena as long as the job: a
 * device without memory, or whose driver refuses, need not leave the join to the backend's single thread.
 */
static bool
gives_up(const HjgJobTask *task, HjgStatus status)
{
	return (status == HJG_ERR_MEMORY || status == HJG_ERR_DEVICE) && task->driver != NULL && task->driver != cpu_driver(task);
}

/*
 * Let the cpu engine take over, in the job's only running operation and on its first stream.  False when
 * building failed too.
 */
static bool
take_over(HjgJobTask *task, const HjgJobSlot *job, HjgStatus status)
{
	hjg_round_drop_join(task);
	task->driver = cpu_driver(task);
	task->stats.fallback = status;
	task->build_status = build_join(task, job, 0);
	return task->build_status == HJG_OK;
}

/*
 * Copy the join's spec from the slot once and check the copy, which every round uses: the slot can change
 * at any time.
 */
static bool
read_spec(const HjgJobSlot *job, HjgJoinSpec *spec)
{
	hjg_words_copy(spec, &job->spec, sizeof(*spec));
	if (spec->mode == HJG_MATCH_PROGRAM)
		return spec->key_width == sizeof(hjg_u64) && spec->payload.bytes[HJG_SIDE_BUILD] == 0 &&
			spec->payload.bytes[HJG_SIDE_PROBE] == 0;
	return (spec->key_width == HJG_KEY_WIDTH_4 || spec->key_width == HJG_KEY_WIDTH_8 || spec->key_width == HJG_KEY_WIDTH_16) &&
		spec->mode <= HJG_MATCH_ANTI && hjg_payload_valid(spec->payload) &&
		hjg_strategy_name((int) spec->strategy) != NULL && spec->pipeline < HJG_PIPELINE_COUNT;
}

static HjgStatus
run_build(HjgJobTask *task, const HjgJobSlot *job)
{
	HjgStatus	status;
	int			number;

	hjg_fault_here(HJG_FAULT_PHASE_BUILD, env_poll, &task->streams[0]);
	if (!read_spec(job, &task->spec))
		return HJG_ERR_INPUT;
	task->driver = hjg_driver_of((int) __atomic_load_n(&job->device_ix, __ATOMIC_RELAXED), &number);
	if (task->driver == NULL)
		return HJG_ERR_INPUT;
	if (task->spec.mode == HJG_MATCH_PROGRAM)
		task->driver = task->driver->programs;
	if (task->driver == NULL)
		return HJG_ERR_DEVICE;
	if (env_poll(&task->streams[0]))
		return HJG_ERR_CANCELLED;
	for (int i = 0; i < HJG_MAX_STREAMS; i++)
		task->streams[i].env = (HjgEnv) {
			.pool = pool_of(task->serve, task->spec.nthreads),
			.arg = &task->streams[i],
			.alloc = env_alloc,
			.free = env_free,
			.poll = env_poll,
		};
	status = build_join(task, job, number);
	return gives_up(task, status) && take_over(task, job, status) ? HJG_OK : status;
}

/*
 * The pages of a round's pairs.  A wild driver may write to the arena's pages, so checksums are computed
 * before the pairs get there, if possible: by the engine (HjgResult.sum), or in private pages, which are
 * then copied (HjgDriver.staged).
 */
typedef struct Pages
{
	HjgPair   **arena;			/* of the operation */
	HjgPair   **own;			/* as many private ones, or NULL */
	void	   *memory;
	size_t		bytes;
} Pages;

static void
free_pages(Pages *pages)
{
	if (pages->memory != NULL)
		hjg_workspace_free(pages->memory, pages->bytes);
	free(pages->own);
	free(pages->arena);
}

static bool
make_own_pages(Pages *pages, hjg_u32 npages)
{
	bool		fresh;

	pages->own = malloc((npages + 1) * sizeof(HjgPair *));
	pages->bytes = (size_t) npages * HJG_SLAB_BYTES;
	pages->memory = hjg_workspace_alloc(pages->bytes, &fresh);
	if (pages->own == NULL || pages->memory == NULL)
		return false;
	for (hjg_u32 i = 0; i < npages; i++)
		pages->own[i] = (HjgPair *) ((char *) pages->memory + (size_t) i * HJG_SLAB_BYTES);
	return true;
}

typedef struct SumPieces
{
	HjgJobStream *stream;
	const HjgResult *result;
	HjgPair   **own;
	hjg_u64		sum;
	hjg_u64		payload_sum;
} SumPieces;

static void
sum_piece(void *arg, int piece, int worker)
{
	SumPieces  *pieces = arg;
	const HjgResult *result = pieces->result;
	hjg_u64		from = (hjg_u64) piece * result->page_pairs;
	hjg_u64		n = result->npairs - from;
	const HjgPair *page = pieces->own != NULL ? pieces->own[piece] : result->pages[piece];

	if (n > result->page_pairs)
		n = result->page_pairs;
	if (!result->summed)
		__atomic_fetch_add(&pieces->sum, hjg_check_sum(page, n), __ATOMIC_RELAXED);
	if (pieces->own != NULL)
		memcpy(result->pages[piece], page, n * sizeof(HjgPair));
	if (!result->summed && result->gathered != 0)
		__atomic_fetch_add(&pieces->payload_sum,
						   hjg_check_payload(result->pages[piece], (hjg_u32) piece, n, pieces->stream->task->spec.payload,
											 result->gathered), __ATOMIC_RELAXED);
	hjg_beat_progress(&pieces->stream->beat);
}

/* Write the checksums of a result into the report, and copy the pairs of private pages into the arena. */
static void
sum_result(HjgJobStream *stream, const HjgResult *result, HjgPair **own, HjgOpReport *report)
{
	SumPieces	pieces = {.stream = stream, .result = result, .own = own};
	int			npages = (int) ((result->npairs + result->page_pairs - 1) / result->page_pairs);

	if (result->summed)
	{
		pieces.sum = result->checksum;
		pieces.payload_sum = result->payload_sum;
	}
	if (!result->summed || own != NULL)
		hjg_pool_run(npages > 1 ? stream->env.pool : NULL, npages, sum_piece, &pieces);
	__atomic_store_n(&report->checksum, pieces.sum, __ATOMIC_RELAXED);
	__atomic_store_n(&report->payload_sum, pieces.payload_sum, __ATOMIC_RELAXED);
	__atomic_store_n(&report->gathered, result->gathered, __ATOMIC_RELAXED);
}

static HjgStatus
run_probe(HjgJobStream *stream, const HjgOp *op, HjgOpReport *report)
{
	const HjgJobTask *task = stream->task;
	const HjgArenaView *view = &task->serve->view;
	HjgResult	result = {.page_pairs = hjg_page_pairs(task->spec.payload), .sum = true};
	Pages		pages = {0};
	HjgCursor	cursor = op->cursor_in;
	hjg_u32		room = __atomic_load_n(&op->nresults, __ATOMIC_RELAXED);
	HjgSegment *segments = NULL;
	HjgStatus	status = HJG_ERR_INPUT;
	hjg_u32		npages;
	int			nsegments = 0;
	HjgSpoil	spoil;

	hjg_fault_here(HJG_FAULT_PHASE_PROBE, env_poll, stream);
	if (stream->join == NULL)
		return task->build_status != HJG_OK ? task->build_status : HJG_ERR_INPUT;
	if (env_poll(stream))
		return HJG_ERR_CANCELLED;
	if (room > view->nslabs)
		return HJG_ERR_INPUT;
	pages.arena = malloc((room + 1) * sizeof(HjgPair *));
	segments = collect_inputs(task, op, HJG_SIDE_PROBE, &nsegments);
	if (segments != NULL && pages.arena != NULL &&
		hjg_device_chain_results(view, op, hjg_slab_owner(task->job_ix, task->generation),
								 pages.arena, room, &npages))
	{
		status = task->driver->staged && !make_own_pages(&pages, npages) ? HJG_ERR_MEMORY : HJG_OK;
		result.pages = task->driver->staged ? pages.own : pages.arena;
		result.npages = (int) npages;
		if (status == HJG_OK)
			status = task->driver->probe(stream->join, segments, nsegments, &cursor, &result);
	}
	if (status == HJG_OK)
	{
		result.pages = pages.arena;
		sum_result(stream, &result, pages.own, report);
		spoil = hjg_fault_here(HJG_FAULT_PHASE_RESULT, env_poll, stream);
		if (spoil == HJG_SPOIL_CORRUPT && result.npairs > 0)
			result.pages[0][0].build_row ^= 1;
		if (spoil == HJG_SPOIL_TRUNCATE && result.npairs > 0)
			result.npairs--;
		if (spoil == HJG_SPOIL_LOSE && result.npairs > 0)
		{
			result.npairs--;
			result.summed = false;
			sum_result(stream, &result, NULL, report);
		}
		if (spoil == HJG_SPOIL_COLUMNS && result.npairs > 0)
			((char *) result.pages[0])[hjg_page_payload_off(task->spec.payload, HJG_SIDE_BUILD)] ^= 1;
		__atomic_store_n(&report->npairs, result.npairs, __ATOMIC_RELAXED);
		__atomic_store_n(&report->cursor_out.row, cursor.row, __ATOMIC_RELAXED);
		__atomic_store_n(&report->cursor_out.skip, cursor.skip, __ATOMIC_RELAXED);
	}
	free(segments);
	free_pages(&pages);
	return status;
}

/* Copy the statistics to the report for the client and the views; with the lock, so that they only grow. */
static void
publish_stats(HjgJobTask *task)
{
	HjgJobStats stats = task->stats;

	if (task->streams[0].join != NULL)
	{
		stats = (HjgJobStats) {0};
		task->driver->stats(task->streams[0].join, &stats);
		stats.busy_ns = task->stats.busy_ns;
		stats.fallback = task->stats.fallback;
		task->stats = stats;
	}
	stats.busy_ns += hjg_now_ns() - task->busy_since_ns;
	hjg_words_copy(&task->serve->view.reports[task->job_ix].stats, &stats, sizeof(stats));
}

/*
 * Join the round; false when it must be queued again.  All operations leave a device that gives up before
 * the cpu engine takes over.
 */
static bool
settle_probe(HjgJobStream *stream, const HjgClaim *claim, HjgStatus *status)
{
	HjgJobTask *task = stream->task;
	bool		alone;

	if (__atomic_load_n(&task->failed, __ATOMIC_RELAXED) == HJG_OK)
	{
		*status = run_probe(stream, claim->op, claim->report);
		if (!gives_up(task, *status))
			return true;
	}
	pthread_mutex_lock(&task->lock);
	if (task->failed == HJG_OK)
		__atomic_store_n(&task->failed, *status, __ATOMIC_RELAXED);
	task->nstreams = 1;
	alone = task->nrunning == 1 && stream == &task->streams[0];
	pthread_mutex_unlock(&task->lock);
	if (!alone)
		return false;
	/* no other operation is claimed while this one runs */
	*status = task->failed;
	task->failed = HJG_OK;
	if (take_over(task, claim->job, *status))
		*status = run_probe(stream, claim->op, claim->report);
	return true;
}

void
hjg_round_carry_out(HjgJobStream *stream, const HjgClaim *claim)
{
	HjgJobTask *task = stream->task;
	HjgOpReport *report = claim->report;
	HjgServe   *serve = task->serve;
	HjgStatus	status = HJG_OK;
	bool		settled = true;

	__atomic_store_n(&report->started_ns, hjg_now_ns(), __ATOMIC_RELAXED);
	hjg_beat_enter(&stream->beat);
	if (claim->is_build)
	{
		status = run_build(task, claim->job);
		task->build_status = status;
	}
	else
		settled = settle_probe(stream, claim, &status);
	hjg_beat_leave(&stream->beat);
	if (!settled)
	{
		hjg_op_move(report, task->generation, HJG_OP_RUNNING, HJG_OP_QUEUED);
		return;
	}
	pthread_mutex_lock(&task->lock);
	if (claim->is_build && status == HJG_OK && task->driver->open_stream != NULL)
		task->nstreams = HJG_MAX_STREAMS;
	publish_stats(task);
	pthread_mutex_unlock(&task->lock);
	__atomic_store_n(&report->status, status, __ATOMIC_RELAXED);
	__atomic_store_n(&report->round_done, __atomic_load_n(&claim->op->round, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	__atomic_store_n(&report->ended_ns, hjg_now_ns(), __ATOMIC_RELAXED);
	hjg_op_move(report, task->generation, HJG_OP_RUNNING, HJG_OP_READY);

	if (hjg_relay_notify(&serve->view, task->job_ix))
		(void) !send(serve->socket, "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}
