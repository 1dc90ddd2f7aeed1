/*
 * device_scheduler.c
 *	  Runners: threads that claim operations of jobs and run them.
 *
 * There is no dispatcher to hand work over: whichever runner is awake looks at
 * the bitmap of submitted jobs itself, which saves a change of threads for each
 * round.  Each visit of a job runs one operation, and the next visit begins behind the last
 * job, so that many jobs progress side by side.  All runners share the engine pools, which
 * interleave the pieces of their operations.
 *
 * Ways.  An engine's join takes one call at a time, so a job has one way through, and is
 * worked on by one runner at a time.  Where a driver gives branches of its join, there are up to HJG_MAX_WAYS,
 * and as many runners: one batch comes in while another is joined and a third goes out.  Ways
 * are opened when there is an operation for them, and one that is refused is not asked for again.
 *
 * A runner that finds no way free at a marked job leaves the mark; those who are on
 * them look at all marks again when they are done.
 *
 * When a device gives a join up, the cpu engine takes over, on the first way and with nobody else at the join.
 * Till then no operation of the job is claimed, and one that failed beside others, or on another way, is
 * queued again.
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

typedef struct Task Task;

/* Belongs to the runner that is on it; otherwise to who has the task's lock. */
typedef struct Way
{
	Task	   *task;
	HjgBeatSource beat;
	HjgEnv		env;			/* its arg is the way */
	void	   *join;			/* of the first way the join, of others branches; NULL: not there */
	bool		busy;			/* under the lock */
} Way;

struct Task
{
	pthread_mutex_t lock;
	hjg_u32		job_ix;
	hjg_u32		generation;
	int			nways;			/* that may be used */
	int			nrunning;		/* ways that are busy */
	HjgStatus	failed;			/* why the cpu engine has to take over, or HJG_OK */
	hjg_u64		busy_since_ns;	/* while there are operations that run */
	hjg_u64		busy_ns;		/* before that */
	int			next_batch;

	/* these change only while one operation runs, or none */
	const HjgDriver *driver;
	HjgJoinSpec spec;			/* as the job slot said when it was built */
	HjgStatus	build_status;
	HjgStatus	takeover;		/* why the cpu engine took over, or HJG_OK */
	Way			ways[HJG_MAX_WAYS];
};

static HjgServe *serve;
static Task tasks[HJG_MAX_JOBS];
static HjgBeatSource *beat_sources[HJG_MAX_JOBS * HJG_MAX_WAYS];
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
	Way		   *way = arg;

	hjg_beat_progress(&way->beat);
	return __atomic_load_n(&serve->arena.jobs[way->task->job_ix].cancel, __ATOMIC_RELAXED) != 0 ||
		__atomic_load_n(&stopping, __ATOMIC_RELAXED);
}

static void *
env_alloc(void *arg, size_t bytes)
{
	Way		   *way = arg;
	bool		fresh;
	void	   *ptr = hjg_workspace_alloc(bytes, &fresh);

	if (fresh && ptr != NULL)
		hjg_workspace_touch(ptr, bytes, way->env.pool, env_poll, way);
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
	if (task->ways[0].join != NULL)
		task->driver->free(task->ways[0].join);
	for (int i = 0; i < HJG_MAX_WAYS; i++)
		task->ways[i].join = NULL;
	task->nways = 1;
	task->driver = NULL;
}

/* The inputs of an operation as engine segments, in memory that the caller frees. */
static HjgSegment *
collect_inputs(const Task *task, const HjgOp *op, HjgSideId side, int *nsegments)
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
		!hjg_check_inputs(&serve->arena, op, hjg_slab_owner(task->job_ix, task->generation),
						  (hjg_u32) task->spec.key_width, task->spec.carried.bytes[side], inputs, room, &n))
	{
		free(inputs);
		free(segments);
		return NULL;
	}
	for (hjg_u32 i = 0; i < n; i++)
		segments[i] = (HjgSegment) {
			.keys = inputs[i].keys, .nrows = inputs[i].nrows, .first_row = inputs[i].first_row, .carried = inputs[i].carried
		};
	free(inputs);
	*nsegments = (int) n;
	return segments;
}

/* Build by task->driver. */
static HjgStatus
build_join(Task *task, HjgJobSlot *job, int number)
{
	Way		   *way = &task->ways[0];
	HjgSegment *segments;
	HjgStatus	status;
	int			nsegments = 0;

	segments = collect_inputs(task, &job->build, HJG_SIDE_BUILD, &nsegments);
	if (segments == NULL)
		return HJG_ERR_INPUT;
	status = task->driver->build(number, &way->env, &task->spec, segments, nsegments, &way->join);
	if (status != HJG_OK)
		way->join = NULL;
	free(segments);
	return status;
}

/*
 * A device that has no memory for the join, or whose driver refuses, is no reason to
 * leave the join to the backend's single thread: the cpu engine can do it, from the
 * inputs that stay in the arena as long as the job.
 */
static bool
gives_up(const Task *task, HjgStatus status)
{
	int			number;

	return (status == HJG_ERR_MEMORY || status == HJG_ERR_DEVICE) &&
		task->driver != NULL && task->driver != hjg_driver_of(CPU_DEVICE, &number);
}

/* By the only operation of the job that runs, on its first way.  False when building failed too. */
static bool
take_over(Task *task, HjgJobSlot *job, HjgStatus status)
{
	int			number;

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
	HjgCarried	carried;

	for (int s = 0; s < HJG_SIDES; s++)
		carried.bytes[s] = __atomic_load_n(&job->carried.bytes[s], __ATOMIC_RELAXED);
	*spec = (HjgJoinSpec) {.carried = carried, .key_width = (int) key_width, .mode = (HjgMatchMode) mode, .strategy = (HjgCpuStrategy) strategy,
		.pipeline = (HjgPipeline) pipeline, .probe_rows = __atomic_load_n(&job->probe_rows, __ATOMIC_RELAXED)};
	return (key_width == HJG_KEY_WIDTH_4 || key_width == HJG_KEY_WIDTH_8 || key_width == HJG_KEY_WIDTH_16) &&
		mode <= HJG_MATCH_ANTI && hjg_carried_valid(carried) &&
		hjg_strategy_name((int) strategy) != NULL && pipeline < HJG_PIPELINE_COUNT;
}

static HjgStatus
run_build(Task *task, HjgJobSlot *job)
{
	HjgStatus	status;
	int			number;

	hjg_fault_here(HJG_PHASE_BUILD, env_poll, &task->ways[0]);
	if (!read_spec(job, &task->spec))
		return HJG_ERR_INPUT;
	task->driver = hjg_driver_of((int) job->device_ix, &number);
	if (task->driver == NULL)
		return HJG_ERR_INPUT;
	if (env_poll(&task->ways[0]))
		return HJG_ERR_CANCELLED;
	for (int i = 0; i < HJG_MAX_WAYS; i++)
		task->ways[i].env = (HjgEnv) {
			.pool = pool_of(job->nthreads),
			.arg = &task->ways[i],
			.alloc = env_alloc,
			.free = env_free,
			.poll = env_poll,
		};
	status = build_join(task, job, number);
	return gives_up(task, status) && take_over(task, job, status) ? HJG_OK : status;
}

typedef struct SumPieces
{
	Way		   *way;
	const HjgResult *result;
	hjg_u64		sum;
	hjg_u64		carried_sum;
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
	if (result->gathered != 0)
		__atomic_fetch_add(&pieces->carried_sum,
						   hjg_check_carried(result->pages[piece], (hjg_u32) piece, n, pieces->way->task->spec.carried,
											 result->gathered), __ATOMIC_RELAXED);
	hjg_beat_progress(&pieces->way->beat);
}

/* The checksums of a result, into the operation. */
static void
sum_result(Way *way, const HjgResult *result, HjgOp *op)
{
	SumPieces	pieces = {way, result, 0, 0};
	int			npages = (int) ((result->npairs + result->page_pairs - 1) / result->page_pairs);

	hjg_pool_run(npages > 1 ? way->env.pool : NULL, npages, sum_piece, &pieces);
	__atomic_store_n(&op->checksum, pieces.sum, __ATOMIC_RELAXED);
	__atomic_store_n(&op->carried_sum, pieces.carried_sum, __ATOMIC_RELAXED);
	__atomic_store_n(&op->gathered, result->gathered, __ATOMIC_RELAXED);
}

static HjgStatus
run_probe(Way *way, HjgJobSlot *job, HjgOp *op)
{
	const Task *task = way->task;
	HjgResult	result = {.page_pairs = hjg_page_pairs(task->spec.carried)};
	HjgCursor	cursor = op->cursor_in;
	hjg_u32		room = __atomic_load_n(&op->nresults, __ATOMIC_RELAXED);
	HjgSegment *segments = NULL;
	HjgStatus	status = HJG_ERR_INPUT;
	hjg_u32		npages;
	int			nsegments = 0;
	HjgSpoil	spoil;

	hjg_fault_here(HJG_PHASE_PROBE, env_poll, way);
	if (way->join == NULL)
		return task->build_status != HJG_OK ? task->build_status : HJG_ERR_INPUT;
	if (env_poll(way))
		return HJG_ERR_CANCELLED;
	if (room > serve->arena.nslabs)
		return HJG_ERR_INPUT;
	result.pages = malloc((room + 1) * sizeof(HjgPair *));
	segments = collect_inputs(task, op, HJG_SIDE_PROBE, &nsegments);
	if (segments != NULL && result.pages != NULL &&
		hjg_check_results(&serve->arena, op, hjg_slab_owner(task->job_ix, task->generation),
						  result.pages, room, &npages))
	{
		result.npages = (int) npages;
		status = task->driver->probe(way->join, segments, nsegments, &cursor, &result);
	}
	if (status == HJG_OK)
	{
		sum_result(way, &result, op);
		spoil = hjg_fault_here(HJG_PHASE_RESULT, env_poll, way);
		if (spoil == HJG_SPOIL_CORRUPT && result.npairs > 0)
			result.pages[0][0].build_row ^= 1;
		if (spoil == HJG_SPOIL_TRUNCATE && result.npairs > 0)
			result.npairs--;
		if (spoil == HJG_SPOIL_COLUMNS && result.npairs > 0)
			((char *) result.pages[0])[hjg_page_carried_off(task->spec.carried, HJG_SIDE_BUILD)] ^= 1;
		__atomic_store_n(&op->npairs, result.npairs, __ATOMIC_RELAXED);
		__atomic_store_n(&op->cursor_out.row, cursor.row, __ATOMIC_RELAXED);
		__atomic_store_n(&op->cursor_out.skip, cursor.skip, __ATOMIC_RELAXED);
	}
	free(segments);
	free(result.pages);
	return status;
}

/* Copy the figures to where the client and the views look; with the lock, so that they only grow. */
static void
publish_stats(const Task *task, HjgJobSlot *job)
{
	HjgJobStats stats = {0};

	__atomic_store_n(&job->stats.busy_ns, task->busy_ns + hjg_arena_now_ns() - task->busy_since_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.takeover, task->takeover, __ATOMIC_RELAXED);
	if (task->ways[0].join == NULL)
		return;
	task->driver->stats(task->ways[0].join, &stats);
	__atomic_store_n(&job->stats.partition_ns, stats.partition_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.build_ns, stats.build_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.probe_ns, stats.probe_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.transfer_ns, stats.transfer_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.gather_ns, stats.gather_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.workspace_bytes, stats.workspace_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.npartitions, stats.npartitions, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.strategy, stats.strategy, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.declined, stats.declined, __ATOMIC_RELAXED);
	__atomic_store_n(&job->stats.pipeline, stats.pipeline, __ATOMIC_RELAXED);
}

/*
 * Join the round, or leave it to whoever runs it next: false.  A device that gives up is left by all
 * operations before the cpu engine takes over.
 */
static bool
settle_probe(Way *way, HjgJobSlot *job, HjgOp *op, HjgStatus *status)
{
	Task	   *task = way->task;
	bool		alone;

	if (__atomic_load_n(&task->failed, __ATOMIC_RELAXED) == HJG_OK)
	{
		*status = run_probe(way, job, op);
		if (!gives_up(task, *status))
			return true;
	}
	pthread_mutex_lock(&task->lock);
	if (task->failed == HJG_OK)
		__atomic_store_n(&task->failed, *status, __ATOMIC_RELAXED);
	task->nways = 1;
	alone = task->nrunning == 1 && way == &task->ways[0];
	pthread_mutex_unlock(&task->lock);
	if (!alone)
		return false;
	/* nobody is let in as long as this one is here */
	*status = task->failed;
	task->failed = HJG_OK;
	if (take_over(task, job, *status))
		*status = run_probe(way, job, op);
	return true;
}

/* Run an operation that this runner has claimed, and declare it ready, or queue it again. */
static void
run_op(Way *way, HjgJobSlot *job, HjgOp *op)
{
	Task	   *task = way->task;
	HjgStatus	status = HJG_OK;
	bool		settled = true;

	__atomic_store_n(&op->started_ns, hjg_arena_now_ns(), __ATOMIC_RELAXED);
	hjg_beat_enter(&way->beat);
	if (op == &job->build)
	{
		status = run_build(task, job);
		task->build_status = status;
	}
	else
		settled = settle_probe(way, job, op, &status);
	hjg_beat_leave(&way->beat);
	if (!settled)
	{
		hjg_op_move(op, task->generation, HJG_OP_RUNNING, HJG_OP_QUEUED);
		return;
	}
	pthread_mutex_lock(&task->lock);
	if (op == &job->build && status == HJG_OK && task->driver->branch != NULL)
		task->nways = HJG_MAX_WAYS;
	publish_stats(task, job);
	pthread_mutex_unlock(&task->lock);
	__atomic_store_n(&op->status, status, __ATOMIC_RELAXED);
	__atomic_store_n(&op->round_done, __atomic_load_n(&op->round, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	__atomic_store_n(&op->ended_ns, hjg_arena_now_ns(), __ATOMIC_RELAXED);
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

/* A way that nobody is on, opened if it has to be; NULL when there is none. */
static Way *
free_way(Task *task)
{
	for (int i = 0; i < task->nways; i++)
	{
		Way		   *way = &task->ways[i];

		if (way->busy)
			continue;
		if (i > 0 && way->join == NULL)
			way->join = task->driver->branch(task->ways[0].join, &way->env);
		if (i == 0 || way->join != NULL)
			return way;
		task->nways = i;
	}
	return NULL;
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

/* With the lock: claim one operation of a marked job, and a way for it; NULL when there is none. */
static Way *
visit(Task *task, HjgJobSlot *job, HjgOp **op)
{
	hjg_u64		word = __atomic_load_n(&job->word, __ATOMIC_SEQ_CST);
	bool		ours = HJG_WORD_STATE(word) == HJG_JOB_LEASED &&
		__atomic_load_n(&job->epoch, __ATOMIC_RELAXED) == serve->epoch;
	Way		   *way;

	if (task->nrunning >= task->nways ||
		(task->nrunning > 0 && (!ours || task->generation != HJG_WORD_GENERATION(word))) ||
		!hjg_bell_take(&serve->arena, task->job_ix))
		return NULL;
	if (!ours || task->generation != HJG_WORD_GENERATION(word))
		drop_join(task);
	if (!ours)
		return NULL;
	if (task->generation != HJG_WORD_GENERATION(word))
	{
		task->build_status = HJG_OK;
		task->takeover = HJG_OK;
		task->failed = HJG_OK;
		task->busy_ns = 0;
		task->next_batch = 0;
	}
	task->generation = HJG_WORD_GENERATION(word);
	if (task->nrunning > 0 && !has_queued(job))
		return NULL;
	way = free_way(task);
	*op = way != NULL ? claim_op(task, job) : NULL;
	if (*op == NULL)
		return NULL;
	way->busy = true;
	if (task->nrunning++ == 0)
		task->busy_since_ns = hjg_arena_now_ns();
	__atomic_store_n(&job->attended, task->nrunning == task->nways, __ATOMIC_SEQ_CST);
	if (task->nrunning < task->nways && has_queued(job))
		hjg_bell_remark(&serve->arena, task->job_ix);
	return way;
}

/* The runner that was on the way has done what it came for. */
static void
leave(Way *way, HjgJobSlot *job)
{
	Task	   *task = way->task;

	pthread_mutex_lock(&task->lock);
	way->busy = false;
	if (--task->nrunning == 0)
		task->busy_ns += hjg_arena_now_ns() - task->busy_since_ns;
	__atomic_store_n(&job->attended, 0, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&task->lock);
	if (has_queued(job))
		hjg_bell_remark(&serve->arena, task->job_ix);
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
		HjgJobSlot *job = &serve->arena.jobs[ix];
		Way		   *way;
		HjgOp	   *op;

		if (ix % 64 == 0 && __atomic_load_n(&serve->arena.control->submitted[ix / 64], __ATOMIC_SEQ_CST) == 0)
		{
			i += 63;
			continue;
		}
		if ((__atomic_load_n(&serve->arena.control->submitted[ix / 64], __ATOMIC_RELAXED) & 1ull << ix % 64) == 0 ||
			pthread_mutex_trylock(&task->lock) != 0)
			continue;
		way = visit(task, job, &op);
		pthread_mutex_unlock(&task->lock);
		if (way == NULL)
			continue;
		hjg_bell_hunt_end(&serve->arena, true);
		run_op(way, job, op);
		leave(way, job);
		*start = ix + 1;
		return true;
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
		tasks[ix] = (Task) {.lock = PTHREAD_MUTEX_INITIALIZER, .job_ix = ix, .nways = 1};
		for (int i = 0; i < HJG_MAX_WAYS; i++)
		{
			tasks[ix].ways[i].task = &tasks[ix];
			beat_sources[ix * HJG_MAX_WAYS + (hjg_u32) i] = &tasks[ix].ways[i].beat;
		}
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

	if (!hjg_beat_start(&serve->arena, beat_sources, HJG_MAX_JOBS * HJG_MAX_WAYS))
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
