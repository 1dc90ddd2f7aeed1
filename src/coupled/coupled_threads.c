/*
 * coupled_threads.c
 *	  A runner made of plain threads: the CPU's sets of threads that prefetch and decompress, and, in
 *	  tests and benchmarks, a substitute for an OpenCL device.
 *
 * One thread takes launches from a ring, in order, and runs each over its own pool, one work group a piece
 * of the pool, as a device would.  The loops are those of the CPU's side (coupled_steps.c).
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "coupled/hjg_coupled_internal.h"

#define RING 512

typedef struct Threads
{
	HjgRunner	runner;
	HjgPool    *pool;			/* includes the feeding thread */
	int			nthreads;
	pthread_t	feeder;
	pthread_mutex_t mutex;
	pthread_cond_t queued_cond;
	pthread_cond_t done_cond;
	hjg_u64		nqueued;		/* launches so far; tickets count from 1 */
	hjg_u64		ndone;
	bool		shutdown;
	hjg_u64		ended_ns;		/* end of the last launch */
	HjgRunnerTimes times;
	hjg_u64		waited;			/* last ticket that was waited for */
	hjg_u64		queued_ns[RING];	/* by ticket, like the next member */
	HjgRunnerTimes times_until[RING];	/* totals at the end of a ticket's launch */
	HjgStepLaunch ring[RING];
} Threads;

typedef struct Share
{
	const HjgStepLaunch *launch;
	int			nshares;
} Share;

static void
run_share(void *arg, int piece, int worker)
{
	const Share *share = arg;
	const HjgStepLaunch *launch = share->launch;
	const hjg_u32 nunpack = launch->args.unpack_workers;
	const hjg_u32 n = launch->end - launch->begin;
	const hjg_u32 nshares = (hjg_u32) share->nshares > nunpack ? (hjg_u32) share->nshares - nunpack : 1;
	const hjg_u32 each = (n + nshares - 1) / nshares;
	hjg_u32		from;
	hjg_u32		to;

	(void) worker;
	if ((hjg_u32) piece < nunpack)
	{
		hjg_steps_unpack(launch, (hjg_u32) piece);
		return;
	}
	if (launch->step == HJG_STEP_PREFETCH)
	{
		hjg_steps_prefetch(launch);
		return;
	}
	from = ((hjg_u32) piece - nunpack) * each < n ? ((hjg_u32) piece - nunpack) * each : n;
	to = n - from < each ? n : from + each;
	if (to > from && launch->step == HJG_STEP_OWN)
		launch->own->run(launch, launch->begin + from, launch->begin + to, launch->args.first_worker + (hjg_u32) piece);
	else if (to > from)
		hjg_steps_run(launch, launch->begin + from, launch->begin + to, launch->args.first_worker + (hjg_u32) piece);
}

/* Count a launch that ran from started_ns to ended_ns. */
static void
count_thread_launch(Threads *threads, hjg_u64 queued_ns, hjg_u64 started_ns, hjg_u64 ended_ns)
{
	HjgRunnerTimes *times = &threads->times;

	times->busy_ns += ended_ns - started_ns;
	if (queued_ns < threads->ended_ns)
	{
		times->nfollowed++;
		times->gap_ns += started_ns - threads->ended_ns;
	}
	else
	{
		times->nbegun++;
		times->begin_ns += started_ns - queued_ns;
	}
	threads->ended_ns = ended_ns;
}

static void *
feeder_main(void *arg)
{
	Threads    *threads = arg;

	pthread_mutex_lock(&threads->mutex);
	for (;;)
	{
		hjg_u64		started;
		Share		share;

		while (threads->ndone == threads->nqueued && !threads->shutdown)
			pthread_cond_wait(&threads->queued_cond, &threads->mutex);
		if (threads->ndone == threads->nqueued)
			break;
		share.launch = &threads->ring[threads->ndone % RING];
		share.nshares = threads->runner.nworkers;
		pthread_mutex_unlock(&threads->mutex);
		started = hjg_now_ns();
		hjg_pool_run(threads->pool, share.nshares, run_share, &share);
		pthread_mutex_lock(&threads->mutex);
		threads->ndone++;
		count_thread_launch(threads, threads->queued_ns[threads->ndone % RING], started, hjg_now_ns());
		threads->times_until[threads->ndone % RING] = threads->times;
		pthread_cond_broadcast(&threads->done_cond);
	}
	pthread_mutex_unlock(&threads->mutex);
	return NULL;
}

static HjgStatus
threads_launch(void *arg, const HjgStepLaunch *launch, hjg_u64 *ticket)
{
	Threads    *threads = arg;

	pthread_mutex_lock(&threads->mutex);
	while (threads->nqueued - threads->ndone == RING)
		pthread_cond_wait(&threads->done_cond, &threads->mutex);
	threads->ring[threads->nqueued % RING] = *launch;
	*ticket = ++threads->nqueued;
	threads->queued_ns[*ticket % RING] = hjg_now_ns();
	pthread_cond_signal(&threads->queued_cond);
	pthread_mutex_unlock(&threads->mutex);
	return HJG_OK;
}

static bool
threads_done(void *arg, hjg_u64 ticket)
{
	Threads    *threads = arg;
	bool		done;

	pthread_mutex_lock(&threads->mutex);
	done = threads->ndone >= ticket;
	pthread_mutex_unlock(&threads->mutex);
	return done;
}

static HjgStatus
threads_wait(void *arg, hjg_u64 ticket)
{
	Threads    *threads = arg;

	pthread_mutex_lock(&threads->mutex);
	while (threads->ndone < ticket)
		pthread_cond_wait(&threads->done_cond, &threads->mutex);
	if (threads->waited < ticket)
		threads->waited = ticket;
	pthread_mutex_unlock(&threads->mutex);
	return HJG_OK;
}

hjg_u64
hjg_threads_runner_busy_ns(const HjgRunner *runner)
{
	Threads    *threads = runner->arg;
	hjg_u64		ns;

	pthread_mutex_lock(&threads->mutex);
	ns = threads->times.busy_ns;
	pthread_mutex_unlock(&threads->mutex);
	return ns;
}

static void
threads_times(void *arg, HjgRunnerTimes *times)
{
	Threads    *threads = arg;

	pthread_mutex_lock(&threads->mutex);
	*times = threads->times_until[threads->waited % RING];
	pthread_mutex_unlock(&threads->mutex);
}

static void
threads_forget(void *arg, const void *memory)
{
	(void) arg;
	(void) memory;
}

HjgRunner *
hjg_threads_runner_create(int nthreads)
{
	Threads    *threads = calloc(1, sizeof(Threads));
	sigset_t	all_signals;
	sigset_t	old_signals;
	int			error;

	if (threads == NULL)
		return NULL;
	threads->runner = (HjgRunner) {
		.arg = threads,
		.nworkers = nthreads < HJG_RUNNER_MAX_WORKERS ? nthreads : HJG_RUNNER_MAX_WORKERS,
		.ncores = nthreads < HJG_RUNNER_MAX_WORKERS ? nthreads : HJG_RUNNER_MAX_WORKERS,
		.align_bytes = 1,
		.max_bytes = (size_t) 1 << 40,
		.launch = threads_launch,
		.done = threads_done,
		.wait = threads_wait,
		.forget = threads_forget,
		.times = threads_times,
	};
	threads->pool = hjg_pool_create(nthreads);
	pthread_mutex_init(&threads->mutex, NULL);
	pthread_cond_init(&threads->queued_cond, NULL);
	pthread_cond_init(&threads->done_cond, NULL);
	sigfillset(&all_signals);
	pthread_sigmask(SIG_SETMASK, &all_signals, &old_signals);
	error = threads->pool == NULL ? 1 : pthread_create(&threads->feeder, NULL, feeder_main, threads);
	pthread_sigmask(SIG_SETMASK, &old_signals, NULL);
	if (error == 0)
		return &threads->runner;
	hjg_pool_destroy(threads->pool);
	free(threads);
	return NULL;
}

void
hjg_threads_runner_destroy(HjgRunner *runner)
{
	Threads    *threads = runner == NULL ? NULL : runner->arg;

	if (threads == NULL)
		return;
	pthread_mutex_lock(&threads->mutex);
	threads->shutdown = true;
	pthread_cond_signal(&threads->queued_cond);
	pthread_mutex_unlock(&threads->mutex);
	pthread_join(threads->feeder, NULL);
	hjg_pool_destroy(threads->pool);
	pthread_mutex_destroy(&threads->mutex);
	pthread_cond_destroy(&threads->queued_cond);
	pthread_cond_destroy(&threads->done_cond);
	free(threads);
}
