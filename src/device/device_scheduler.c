/*
 * device_scheduler.c
 *	  Runners: threads that claim operations of jobs and run them.
 *
 * There is no dispatcher: each awake runner looks at the bitmap of submitted jobs itself, which saves a
 * thread switch for each round.  Each visit of a job runs one operation, and the next visit begins behind
 * the last job, so that many jobs progress side by side.  All runners share the engine pools, which
 * interleave the pieces of their operations.
 *
 * Streams.  An engine's join takes one call at a time, so by default a job has one stream, and one runner
 * works on it at a time.  If a driver opens further streams of its join, a job has up to HJG_MAX_STREAMS
 * and as many runners: one batch is copied in while another is joined and a third is copied out.  A stream
 * is opened when there is an operation for it; a refused one is not tried again.
 *
 * A runner that finds no free stream at a marked job leaves the mark; the runners on the streams look at
 * all marks again when they are done.
 *
 * When a device gives up a join, no operation of the job is claimed until the cpu engine has taken over
 * (device_round.c).
 *
 * The state of a job between operations (the engine's join) is private memory, kept by slot and
 * generation, and freed when the slot has another generation.
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "device/hjg_cuda_program.h"
#include "device/hjg_opencl.h"
#include "device/hjg_scheduler.h"

#define MAX_RUNNERS 16
#define SPIN_NS 30000			/* looks for the next round before it sleeps */

static HjgServe *serve;
static HjgJobTask job_tasks[HJG_MAX_JOBS];
static HjgBeatSource *beat_sources[HJG_MAX_JOBS * HJG_MAX_STREAMS];
static pthread_t runner_threads[MAX_RUNNERS];
static int	nrunners;

static HjgJobReport *
report_of(const HjgJobTask *task)
{
	return &serve->view.reports[task->job_ix];
}

/* Find a runnable operation of the job, and claim it. */
static bool
claim_op(HjgJobTask *task, HjgClaim *claim)
{
	HjgJobReport *report = report_of(task);

	*claim = (HjgClaim) {.job = &serve->view.jobs[task->job_ix], .report = &report->build, .is_build = true};
	claim->op = &claim->job->build;
	if (hjg_op_move(&report->build, task->generation, HJG_OP_QUEUED, HJG_OP_RUNNING))
		return true;
	if (__atomic_load_n(&report->build.word, __ATOMIC_SEQ_CST) != HJG_WORD(task->generation, HJG_OP_READY))
		return false;
	claim->is_build = false;
	for (int i = 0; i < HJG_MAX_BATCHES; i++)
	{
		const int	b = (task->next_batch + i) % HJG_MAX_BATCHES;

		if (!hjg_op_move(&report->batches[b], task->generation, HJG_OP_QUEUED, HJG_OP_RUNNING))
			continue;
		claim->op = &claim->job->batches[b];
		claim->report = &report->batches[b];
		task->next_batch = (b + 1) % HJG_MAX_BATCHES;
		return true;
	}
	return false;
}

/* Find a free stream, opened if necessary; NULL when there is none. */
static HjgJobStream *
find_stream(HjgJobTask *task)
{
	for (int i = 0; i < task->nstreams; i++)
	{
		HjgJobStream *stream = &task->streams[i];

		if (stream->busy)
			continue;
		if (i > 0 && stream->join == NULL)
			stream->join = task->driver->open_stream(task->streams[0].join, &stream->env);
		if (i == 0 || stream->join != NULL)
			return stream;
		task->nstreams = i;
	}
	return NULL;
}

/* True if there is an operation for the next visit. */
static bool
has_queued(const HjgJobReport *report)
{
	for (int i = 0; i < HJG_MAX_BATCHES; i++)
		if (hjg_op_state(&report->batches[i]) == HJG_OP_QUEUED)
			return true;
	return false;
}

/* Is the slot leased to a job that this process serves? Sets the job's generation. */
static bool
is_served(const HjgJobTask *task, hjg_u32 *generation)
{
	const HjgJobSlot *job = &serve->view.jobs[task->job_ix];
	const hjg_u64 word = __atomic_load_n(&job->word, __ATOMIC_SEQ_CST);

	*generation = HJG_WORD_GENERATION(word);
	return HJG_WORD_STATE(word) == HJG_JOB_LEASED && __atomic_load_n(&job->epoch, __ATOMIC_RELAXED) == serve->epoch;
}

/* Claim one operation of a marked job, and a stream for it, with the lock; NULL when there is none. */
static HjgJobStream *
visit_job(HjgJobTask *task, HjgClaim *claim)
{
	HjgJobReport *report = report_of(task);
	hjg_u32		generation;
	bool		ours;
	HjgJobStream *stream;

	if (task->nrunning >= task->nstreams)
		return NULL;
	/* the runners on the streams of another job look at the mark when they are done */
	if (task->nrunning > 0 && (!is_served(task, &generation) || task->generation != generation))
		return NULL;
	if (!hjg_doorbell_take(&serve->view, task->job_ix))
		return NULL;
	/* read once more: the mark may be newer than what was read before it was taken */
	ours = is_served(task, &generation);
	if (task->nrunning > 0 && (!ours || task->generation != generation))
	{
		hjg_doorbell_remark(&serve->view, task->job_ix);
		return NULL;
	}
	if (!ours || task->generation != generation)
		hjg_round_drop_join(task);
	if (!ours)
		return NULL;
	if (task->generation != generation)
	{
		task->build_status = HJG_OK;
		task->failed = HJG_OK;
		task->stats = (HjgJobStats) {0};
		task->next_batch = 0;
		task->generation = generation;
	}
	if (task->nrunning > 0 && !has_queued(report))
		return NULL;
	stream = find_stream(task);
	if (stream == NULL || !claim_op(task, claim))
		return NULL;
	stream->busy = true;
	if (task->nrunning++ == 0)
		task->busy_since_ns = hjg_now_ns();
	__atomic_store_n(&report->attended, task->nrunning == task->nstreams, __ATOMIC_SEQ_CST);
	if (task->nrunning < task->nstreams && has_queued(report))
		hjg_doorbell_remark(&serve->view, task->job_ix);
	return stream;
}

/* Release the stream after its operation. */
static void
leave_stream(HjgJobStream *stream)
{
	HjgJobTask *task = stream->task;
	HjgJobReport *report = report_of(task);

	pthread_mutex_lock(&task->lock);
	stream->busy = false;
	if (--task->nrunning == 0)
		task->stats.busy_ns += hjg_now_ns() - task->busy_since_ns;
	__atomic_store_n(&report->attended, 0, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&task->lock);
	if (has_queued(report))
		hjg_doorbell_remark(&serve->view, task->job_ix);
}

/* Look at all marked jobs, from *start on, and run one operation; false when there is none. */
static bool
run_next(hjg_u32 *start)
{
	hjg_doorbell_poll_begin(&serve->view);
	for (hjg_u32 i = 0; i < HJG_MAX_JOBS; i++)
	{
		hjg_u32		ix = (*start + i) % HJG_MAX_JOBS;
		HjgJobTask *task = &job_tasks[ix];
		const hjg_u64 *submitted = &serve->view.block->submitted[ix / 64];
		HjgJobStream *stream;
		HjgClaim	claim;

		if (ix % 64 == 0 && __atomic_load_n(submitted, __ATOMIC_SEQ_CST) == 0)
		{
			i += 63;
			continue;
		}
		if ((__atomic_load_n(submitted, __ATOMIC_RELAXED) & 1ull << ix % 64) == 0 ||
			pthread_mutex_trylock(&task->lock) != 0)
			continue;
		stream = visit_job(task, &claim);
		pthread_mutex_unlock(&task->lock);
		if (stream == NULL)
			continue;
		hjg_doorbell_poll_end(&serve->view, true);
		hjg_round_carry_out(stream, &claim);
		leave_stream(stream);
		*start = ix + 1;
		return true;
	}
	hjg_doorbell_poll_end(&serve->view, false);
	return false;
}

static void *
runner_main(void *arg)
{
	const bool	spins = hjg_device_cpus() > 1;
	hjg_u32		start = 0;

	while (!__atomic_load_n(&serve->stopping, __ATOMIC_SEQ_CST))
	{
		hjg_u32		count = hjg_doorbell_count(&serve->view);
		hjg_u64		spin_until;

		if (run_next(&start))
		{
			/* the next round of a small join comes at once */
			spin_until = hjg_now_ns() + (spins ? SPIN_NS : 0);
			hjg_doorbell_poll_begin(&serve->view);
			while (!hjg_doorbell_pending(&serve->view) && hjg_now_ns() < spin_until)
				;
			hjg_doorbell_poll_end(&serve->view, false);
			continue;
		}
		if (!__atomic_load_n(&serve->stopping, __ATOMIC_SEQ_CST))
			hjg_doorbell_sleep(&serve->view, count, -1);
	}
	return NULL;
}

bool
hjg_scheduler_start(HjgServe *with)
{
	HjgDeviceBlock *block = with->view.block;

	serve = with;
	serve->stopping = false;
	if (serve->nthreads <= 0)
		serve->nthreads = hjg_device_cpus();
	for (hjg_u32 ix = 0; ix < HJG_MAX_JOBS; ix++)
	{
		job_tasks[ix] = (HjgJobTask) {.serve = serve, .lock = PTHREAD_MUTEX_INITIALIZER, .job_ix = ix, .nstreams = 1};
		for (int i = 0; i < HJG_MAX_STREAMS; i++)
		{
			job_tasks[ix].streams[i].task = &job_tasks[ix];
			job_tasks[ix].streams[i].beat.job_ix = ix;
			beat_sources[ix * HJG_MAX_STREAMS + (hjg_u32) i] = &job_tasks[ix].streams[i].beat;
		}
	}

	/* reset what an earlier process left */
	__atomic_store_n(&block->sleepers, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&block->pollers, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&block->busy, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&block->nthreads, serve->nthreads, __ATOMIC_RELAXED);
	hjg_health_open(block);
	hjg_cuda_region_open(&serve->view);
	hjg_device_programs_open(&with->kept);
	hjg_cuda_costs_open(with->view.control);
	hjg_cl_costs_open(with->view.control);
	hjg_drivers_open(block->devices, serve->list_all);

	if (!hjg_beat_start(&serve->view, beat_sources, HJG_MAX_JOBS * HJG_MAX_STREAMS))
	{
		fprintf(stderr, "hjoin_gpu_device: cannot start a thread\n");
		return false;
	}
	/* one for each thread of the pool and some more, so that small jobs pass large ones */
	for (nrunners = 0; nrunners < MAX_RUNNERS && nrunners < serve->nthreads + 3; nrunners++)
		if (pthread_create(&runner_threads[nrunners], NULL, runner_main, NULL) != 0)
			break;
	if (nrunners == 0)
	{
		fprintf(stderr, "hjoin_gpu_device: cannot start a thread\n");
		hjg_beat_stop();
		return false;
	}
	if (!hjg_drivers_watch(block->devices))
		fprintf(stderr, "hjoin_gpu_device: no thread to look for devices; there is only the cpu engine\n");
	__atomic_store_n(&block->says_ready_epoch, serve->epoch, __ATOMIC_SEQ_CST);
	(void) !send(serve->socket, "r", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	return true;
}

void
hjg_scheduler_stop(void)
{
	__atomic_store_n(&serve->stopping, true, __ATOMIC_SEQ_CST);
	hjg_doorbell_wake_all(&serve->view);
	for (int i = 0; i < nrunners; i++)
		pthread_join(runner_threads[i], NULL);
	hjg_beat_stop();
	hjg_drivers_unwatch();
	for (int i = 0; i < HJG_MAX_JOBS; i++)
		hjg_round_drop_join(&job_tasks[i]);
	hjg_cuda_region_trim(0);
	hjg_cuda_region_open(NULL);
	hjg_device_programs_open(NULL);
	hjg_cuda_costs_open(NULL);
	hjg_cl_costs_open(NULL);
	hjg_health_open(NULL);
	hjg_round_pools_free();
	hjg_workspace_trim(0);
}
