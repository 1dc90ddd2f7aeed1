/*
 * device_scheduler.c
 *	  Runners: threads that claim operations of jobs and run them.
 *
 * There is no dispatcher to hand work over: whichever runner is awake looks at
 * the bitmap of submitted jobs itself, which saves a change of threads for each
 * round.  A job is worked on by one runner at a time ("taken"), since an engine's
 * join takes one call at a time; each visit runs one operation, and the next visit
 * begins behind the last job, so that many jobs progress side by side.  All
 * runners share the engine pools, which interleave the pieces of their operations.
 *
 * A runner that finds a marked job taken leaves the mark; the runner that has
 * it looks at all marks again when it is done.
 *
 * What a job needs between operations (the engine's join) is private memory, kept
 * by slot and generation, and freed when the slot is seen with another one.
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "device/hjg_cuda_join.h"
#include "device/hjg_device.h"

#define MAX_RUNNERS 16
#define SPIN_NS 30000			/* look for the next round so long before sleeping */
#define MAX_POOLS 12
#define CPU_DEVICE 0			/* device_drivers.c */

typedef struct Task
{
	HjgBeatSource beat;
	hjg_u32		taken;
	hjg_u32		job_ix;
	hjg_u32		generation;
	const HjgDriver *driver;
	HjgJoinSpec spec;			/* as the job slot said when it was built */
	void	   *join;			/* NULL: not built, or failed */
	HjgStatus	build_status;
	HjgStatus	takeover;		/* why the cpu engine took over, or HJG_OK */
	HjgEnv		env;
	int			next_batch;
} Task;

static HjgServe *serve;
static Task tasks[HJG_MAX_JOBS];
static HjgBeatSource *beat_sources[HJG_MAX_JOBS];
static pthread_t runners[MAX_RUNNERS];
static int	nrunners;
static bool stopping;

/*
 * The pool of all threads, and smaller ones for jobs that ask for less: of
 * powers of two, so that there are few.  Made when first asked for.
 */
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static HjgPool *pools[MAX_POOLS];

static HjgPool *
pool_of(hjg_u32 wanted)
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
	if (pools[which] == NULL)
		pools[which] = hjg_pool_create(nthreads);
	pool = pools[which];
	pthread_mutex_unlock(&pools_lock);
	return pool;
}

static bool
env_poll(void *arg)
{
	Task	   *task = arg;

	hjg_beat_progress(&task->beat);
	return __atomic_load_n(&serve->arena.jobs[task->job_ix].cancel, __ATOMIC_RELAXED) != 0 ||
		__atomic_load_n(&stopping, __ATOMIC_RELAXED);
}

static void *
env_alloc(void *arg, size_t bytes)
{
	Task	   *task = arg;
	bool		fresh;
	void	   *ptr = hjg_workspace_alloc(bytes, &fresh);

	if (fresh && ptr != NULL)
		hjg_workspace_touch(ptr, bytes, task->env.pool, env_poll, task);
	return ptr;
}

static void
env_free(void *arg, void *ptr, size_t bytes)
{
	hjg_workspace_free(ptr, bytes);
}

static void
drop_join(Task *task)
{
	if (task->join != NULL)
		task->driver->free(task->join);
	task->join = NULL;
	task->driver = NULL;
}

/* The inputs of an operation as engine segments, in memory that the caller frees. */
static HjgSegment *
collect_inputs(const Task *task, const HjgOp *op, hjg_u32 key_width, int *nsegments)
{
	hjg_u32		room = __atomic_load_n(&op->ninputs, __ATOMIC_RELAXED);
	HjgInput   *inputs;
	HjgSegment *segments;
	hjg_u32		n;

	if (room > serve->arena.nslabs)
		return NULL;
	inputs = malloc((room + 1) * sizeof(HjgInput));
	segments = malloc((room + 1) * sizeof(HjgSegment));
	if (inputs == NULL || segments == NULL ||
		!hjg_check_inputs(&serve->arena, op, hjg_slab_owner(task->job_ix, task->generation), key_width,
						  inputs, room, &n))
	{
		free(inputs);
		free(segments);
		return NULL;
	}
	for (hjg_u32 i = 0; i < n; i++)
		segments[i] = (HjgSegment) {.keys = inputs[i].keys, .nrows = inputs[i].nrows, .first_row = inputs[i].first_row};
	free(inputs);
	*nsegments = (int) n;
	return segments;
}

/* Build by task->driver. */
static HjgStatus
build_join(Task *task, HjgJobSlot *job, int number)
{
	HjgSegment *segments;
	HjgStatus	status;
	int			nsegments = 0;

	segments = collect_inputs(task, &job->build, (hjg_u32) task->spec.key_width, &nsegments);
	if (segments == NULL)
		return HJG_ERR_INPUT;
	status = task->driver->build(number, &task->env, &task->spec, segments, nsegments, &task->join);
	if (status != HJG_OK)
		task->join = NULL;
	free(segments);
	return status;
}

/*
 * A device that has no memory for the join, or whose driver refuses, is no reason to
 * leave the join to the backend's single thread: the cpu engine builds it, from the
 * inputs that stay in the arena as long as the job.  False when the status
 * is none of these, or building failed too.
 */
static bool
take_over(Task *task, HjgJobSlot *job, HjgStatus status)
{
	int			number;

	if (status != HJG_ERR_MEMORY && status != HJG_ERR_DEVICE)
		return false;
	if (task->driver == NULL || task->driver == hjg_driver_of(CPU_DEVICE, &number))
		return false;
	drop_join(task);
	task->driver = hjg_driver_of(CPU_DEVICE, &number);
	task->takeover = status;
	task->build_status = build_join(task, job, number);
	return task->build_status == HJG_OK;
}

/*
 * What the slot says of the join is read once: it can change at any time, and what is checked
 * must be what every round goes by.
 */
static bool
read_spec(const HjgJobSlot *job, HjgJoinSpec *spec)
{
	const hjg_u32 key_width = __atomic_load_n(&job->key_width, __ATOMIC_RELAXED);
	const hjg_u32 mode = __atomic_load_n(&job->mode, __ATOMIC_RELAXED);
	const hjg_u32 strategy = __atomic_load_n(&job->strategy, __ATOMIC_RELAXED);
	const hjg_u32 pipeline = __atomic_load_n(&job->pipeline, __ATOMIC_RELAXED);

	*spec = (HjgJoinSpec) {.key_width = (int) key_width, .mode = (HjgMatchMode) mode, .strategy = (HjgCpuStrategy) strategy,
		.pipeline = (HjgPipeline) pipeline, .probe_rows = __atomic_load_n(&job->probe_rows, __ATOMIC_RELAXED)};
	return (key_width == HJG_KEY_WIDTH_4 || key_width == HJG_KEY_WIDTH_8 || key_width == HJG_KEY_WIDTH_16) &&
		mode <= HJG_MATCH_ANTI &&
		hjg_strategy_name((int) strategy) != NULL && pipeline < HJG_PIPELINE_COUNT;
}

static HjgStatus
run_build(Task *task, HjgJobSlot *job)
{
	HjgStatus	status;
	int			number;

	hjg_fault_here(HJG_PHASE_BUILD, env_poll, task);
	if (!read_spec(job, &task->spec))
		return HJG_ERR_INPUT;
	task->driver = hjg_driver_of((int) job->device_ix, &number);
	if (task->driver == NULL)
		return HJG_ERR_INPUT;
	if (env_poll(task))
		return HJG_ERR_CANCELLED;
	task->env = (HjgEnv) {
		.pool = pool_of(job->nthreads),
		.arg = task,
		.alloc = env_alloc,
		.free = env_free,
		.poll = env_poll,
	};
	status = build_join(task, job, number);
	return take_over(task, job, status) ? HJG_OK : status;
}

typedef struct SumPieces
{
	Task	   *task;
	const HjgResult *result;
	hjg_u64		sum;
} SumPieces;

static void
sum_piece(void *arg, int piece, int worker)
{
	SumPieces  *pieces = arg;
	const HjgResult *result = pieces->result;
	hjg_u64		from = (hjg_u64) piece * result->page_pairs;
	hjg_u64		n = result->npairs - from;

	if (n > result->page_pairs)
		n = result->page_pairs;
	__atomic_fetch_add(&pieces->sum, hjg_check_sum(result->pages[piece], n), __ATOMIC_RELAXED);
	hjg_beat_progress(&pieces->task->beat);
}

static hjg_u64
sum_result(Task *task, const HjgResult *result)
{
	SumPieces	pieces = {task, result, 0};
	int			npages = (int) ((result->npairs + result->page_pairs - 1) / result->page_pairs);

	hjg_pool_run(npages > 1 ? task->env.pool : NULL, npages, sum_piece, &pieces);
	return pieces.sum;
}

static HjgStatus
run_probe(Task *task, HjgJobSlot *job, HjgOp *op)
{
	HjgResult	result = {.page_pairs = HJG_SLAB_BYTES / sizeof(HjgPair)};
	HjgCursor	cursor = op->cursor_in;
	hjg_u32		room = __atomic_load_n(&op->nresults, __ATOMIC_RELAXED);
	HjgSegment *segments = NULL;
	HjgStatus	status = HJG_ERR_INPUT;
	hjg_u32		npages;
	int			nsegments = 0;
	HjgSpoil	spoil;

	hjg_fault_here(HJG_PHASE_PROBE, env_poll, task);
	if (task->join == NULL)
		return task->build_status != HJG_OK ? task->build_status : HJG_ERR_INPUT;
	if (env_poll(task))
		return HJG_ERR_CANCELLED;
	if (room > serve->arena.nslabs)
		return HJG_ERR_INPUT;
	result.pages = malloc((room + 1) * sizeof(HjgPair *));
	segments = collect_inputs(task, op, (hjg_u32) task->spec.key_width, &nsegments);
	if (segments != NULL && result.pages != NULL &&
		hjg_check_results(&serve->arena, op, hjg_slab_owner(task->job_ix, task->generation),
						  result.pages, room, &npages))
	{
		result.npages = (int) npages;
		status = task->driver->probe(task->join, segments, nsegments, &cursor, &result);
		if (take_over(task, job, status))
			status = task->driver->probe(task->join, segments, nsegments, &cursor, &result);
	}
	if (status == HJG_OK)
	{
		__atomic_store_n(&op->checksum, sum_result(task, &result), __ATOMIC_RELAXED);
		spoil = hjg_fault_here(HJG_PHASE_RESULT, env_poll, task);
		if (spoil == HJG_SPOIL_CORRUPT && result.npairs > 0)
			result.pages[0][0].build_row ^= 1;
		if (spoil == HJG_SPOIL_TRUNCATE && result.npairs > 0)
			result.npairs--;
		__atomic_store_n(&op->npairs, result.npairs, __ATOMIC_RELAXED);
		__atomic_store_n(&op->cursor_out.row, cursor.row, __ATOMIC_RELAXED);
		__atomic_store_n(&op->cursor_out.skip, cursor.skip, __ATOMIC_RELAXED);
	}
	free(segments);
	free(result.pages);
	return status;
}

/* Copy the engine's figures to where the client and the views look. */
static void
publish_stats(const Task *task, HjgJobSlot *job)
{
	HjgJobStats stats = {0};

	__atomic_store_n(&job->stats.takeover, task->takeover, __ATOMIC_RELAXED);
	if (task->join == NULL)
		return;
	task->driver->stats(task->join, &stats);
	__atomic_store_n(&job->stats.partition_ns, stats.partition_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.build_ns, stats.build_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.probe_ns, stats.probe_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.transfer_ns, stats.transfer_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.workspace_bytes, stats.workspace_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.npartitions, stats.npartitions, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.strategy, stats.strategy, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.declined, stats.declined, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.pipeline, stats.pipeline, __ATOMIC_RELAXED);
}

/* Run an operation that this runner has claimed, and declare it ready. */
static void
run_op(Task *task, HjgJobSlot *job, HjgOp *op)
{
	HjgStatus	status;

	__atomic_store_n(&op->started_ns, hjg_arena_now_ns(), __ATOMIC_RELAXED);
	hjg_beat_enter(&task->beat);
	if (op == &job->build)
	{
		status = run_build(task, job);
		task->build_status = status;
	}
	else
		status = run_probe(task, job, op);
	publish_stats(task, job);
	__atomic_store_n(&op->status, status, __ATOMIC_RELAXED);
	__atomic_store_n(&op->round_done, __atomic_load_n(&op->round, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	__atomic_store_n(&op->ended_ns, hjg_arena_now_ns(), __ATOMIC_RELAXED);
	hjg_beat_leave(&task->beat);
	hjg_op_move(op, task->generation, HJG_OP_RUNNING, HJG_OP_READY);

	if (hjg_relay_notify(&serve->arena, task->job_ix))
		(void) !send(serve->socket, "w", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Find an operation of the job that can run, and claim it. */
static HjgOp *
claim_op(Task *task, HjgJobSlot *job)
{
	if (hjg_op_move(&job->build, task->generation, HJG_OP_QUEUED, HJG_OP_RUNNING))
		return &job->build;
	if (__atomic_load_n(&job->build.word, __ATOMIC_SEQ_CST) != HJG_WORD(task->generation, HJG_OP_READY))
		return NULL;
	for (int i = 0; i < HJG_MAX_BATCHES; i++)
	{
		HjgOp	   *op = &job->batches[(task->next_batch + i) % HJG_MAX_BATCHES];

		if (!hjg_op_move(op, task->generation, HJG_OP_QUEUED, HJG_OP_RUNNING))
			continue;
		task->next_batch = (task->next_batch + i + 1) % HJG_MAX_BATCHES;
		return op;
	}
	return NULL;
}

/* Claim one operation of a job that is taken by this runner; NULL when there is none. */
static HjgOp *
visit(Task *task, HjgJobSlot *job)
{
	hjg_u64		word = __atomic_load_n(&job->word, __ATOMIC_SEQ_CST);
	bool		ours = HJG_WORD_STATE(word) == HJG_JOB_LEASED &&
		__atomic_load_n(&job->epoch, __ATOMIC_RELAXED) == serve->epoch;

	if (task->join != NULL && (!ours || task->generation != HJG_WORD_GENERATION(word)))
		drop_join(task);
	if (!ours)
		return NULL;
	if (task->generation != HJG_WORD_GENERATION(word))
	{
		task->build_status = HJG_OK;
		task->takeover = HJG_OK;
		task->next_batch = 0;
	}
	task->generation = HJG_WORD_GENERATION(word);
	return claim_op(task, job);
}

/* Is there something for the next visit? */
static bool
has_queued(const HjgJobSlot *job)
{
	for (int i = 0; i < HJG_MAX_BATCHES; i++)
		if (hjg_op_state(&job->batches[i]) == HJG_OP_QUEUED)
			return true;
	return false;
}

static bool
take(Task *task)
{
	hjg_u32		nobody = 0;

	return __atomic_compare_exchange_n(&task->taken, &nobody, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Look at all marked jobs, from *start on; run one operation if there is one. */
static bool
hunt(hjg_u32 *start)
{
	hjg_bell_hunt_begin(&serve->arena);
	for (hjg_u32 i = 0; i < HJG_MAX_JOBS; i++)
	{
		hjg_u32		ix = (*start + i) % HJG_MAX_JOBS;
		Task	   *task = &tasks[ix];
		HjgOp	   *op;

		if (ix % 64 == 0 && __atomic_load_n(&serve->arena.control->submitted[ix / 64], __ATOMIC_SEQ_CST) == 0)
		{
			i += 63;
			continue;
		}
		if ((__atomic_load_n(&serve->arena.control->submitted[ix / 64], __ATOMIC_RELAXED) & 1ull << ix % 64) == 0 ||
			!take(task))
			continue;
		op = hjg_bell_take(&serve->arena, ix) ? visit(task, &serve->arena.jobs[ix]) : NULL;
		if (op != NULL)
		{
			__atomic_store_n(&serve->arena.jobs[ix].attended, 1, __ATOMIC_SEQ_CST);
			hjg_bell_hunt_end(&serve->arena, true);
			run_op(task, &serve->arena.jobs[ix], op);
			__atomic_store_n(&serve->arena.jobs[ix].attended, 0, __ATOMIC_SEQ_CST);
			if (has_queued(&serve->arena.jobs[ix]))
				hjg_bell_remark(&serve->arena, ix);
			*start = ix + 1;
			__atomic_store_n(&task->taken, 0, __ATOMIC_SEQ_CST);
			return true;
		}
		__atomic_store_n(&task->taken, 0, __ATOMIC_SEQ_CST);
	}
	hjg_bell_hunt_end(&serve->arena, false);
	return false;
}

static void *
runner_main(void *arg)
{
	const bool	spins = hjg_device_cpus() > 1;
	hjg_u32		start = 0;

	while (!__atomic_load_n(&stopping, __ATOMIC_SEQ_CST))
	{
		hjg_u32		count = hjg_bell_count(&serve->arena);
		hjg_u64		spin_until;

		if (hunt(&start))
		{
			/* the next round of a small join comes at once */
			spin_until = hjg_arena_now_ns() + (spins ? SPIN_NS : 0);
			hjg_bell_hunt_begin(&serve->arena);
			while (!hjg_bell_pending(&serve->arena) && hjg_arena_now_ns() < spin_until)
				;
			hjg_bell_hunt_end(&serve->arena, false);
			continue;
		}
		if (!__atomic_load_n(&stopping, __ATOMIC_SEQ_CST))
			hjg_bell_sleep(&serve->arena, count, -1);
	}
	return NULL;
}

bool
hjg_scheduler_start(HjgServe *with)
{
	HjgControl *control = with->arena.control;

	serve = with;
	stopping = false;
	if (serve->nthreads <= 0)
		serve->nthreads = hjg_device_cpus();
	for (hjg_u32 ix = 0; ix < HJG_MAX_JOBS; ix++)
	{
		tasks[ix] = (Task) {.job_ix = ix};
		beat_sources[ix] = &tasks[ix].beat;
	}

	/* what an earlier process left behind */
	__atomic_store_n(&control->sleepers, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&control->hunters, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&control->busy, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&control->nthreads, serve->nthreads, __ATOMIC_RELAXED);
	memset(control->devices, 0, sizeof(control->devices));
	hjg_health_open(control);
	hjg_cuda_region_open(&serve->arena);
	hjg_cuda_costs_open(control);
	hjg_drivers_open(control->devices, serve->list_all);

	if (!hjg_beat_start(&serve->arena, beat_sources, HJG_MAX_JOBS))
	{
		fprintf(stderr, "hjoin_gpu_device: cannot start a thread\n");
		return false;
	}
	/* one for each thread of the pool and some, so that small jobs pass large ones */
	for (nrunners = 0; nrunners < MAX_RUNNERS && nrunners < serve->nthreads + 3; nrunners++)
		if (pthread_create(&runners[nrunners], NULL, runner_main, NULL) != 0)
			break;
	if (nrunners == 0)
	{
		fprintf(stderr, "hjoin_gpu_device: cannot start a thread\n");
		hjg_beat_stop();
		return false;
	}
	if (!hjg_drivers_watch(control->devices))
		fprintf(stderr, "hjoin_gpu_device: no thread to look for devices; there is only the cpu engine\n");
	__atomic_store_n(&control->ready_epoch, serve->epoch, __ATOMIC_SEQ_CST);
	(void) !send(serve->socket, "r", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	return true;
}

void
hjg_scheduler_stop(void)
{
	__atomic_store_n(&stopping, true, __ATOMIC_SEQ_CST);
	hjg_bell_wake_all(&serve->arena);
	for (int i = 0; i < nrunners; i++)
		pthread_join(runners[i], NULL);
	hjg_beat_stop();
	hjg_drivers_unwatch();
	for (int i = 0; i < HJG_MAX_JOBS; i++)
		drop_join(&tasks[i]);
	hjg_cuda_region_trim(0);
	hjg_cuda_region_open(NULL);
	hjg_cuda_costs_open(NULL);
	hjg_health_open(NULL);
	for (int i = 0; i < MAX_POOLS; i++)
	{
		if (pools[i] != NULL)
			hjg_pool_destroy(pools[i]);
		pools[i] = NULL;
	}
	hjg_workspace_trim(0);
}
