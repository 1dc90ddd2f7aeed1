/*
 * engine_pool.c
 *	  The thread pool on which engines run the pieces of their tasks.
 *
 * A run lives on its caller's stack and in the pool's list of open runs.  The caller takes pieces itself;
 * an idle thread joins the open run with the fewest helpers.  One atomic counter per run hands out the
 * pieces, so a late or preempted thread delays nobody.  When no piece is left, the caller closes the run
 * (no helper can join any more) and waits until its helpers have left; only then may its stack frame go.
 *
 * The pool's mutex guards the list and the helper counts and is never held while a piece runs.  Idle
 * threads spin for SPIN_NS before they sleep, since the tasks of one join follow each other within
 * microseconds.  Waking a thread takes 50 microseconds on a virtual machine, so no more are woken than a
 * run has pieces for.  A caller whose tasks have pauses between them holds some threads awake: these spin
 * for HELD_SPIN_NS and yield their processor meanwhile.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "engine/hjg_engine.h"
#include "layout/hjg_clock.h"

#define SPIN_NS 30000
#define HELD_SPIN_NS 2000000

typedef struct PoolRun
{
	HjgPieceFn	fn;
	void	   *arg;
	int			npieces;
	int			next_piece;		/* atomic */
	int			nhelpers;		/* atomic; changed under the mutex only */
	struct PoolRun *next;
} PoolRun;

typedef struct Thread
{
	HjgPool    *pool;
	pthread_t	handle;
	int			worker;
} Thread;

struct HjgPool
{
	pthread_mutex_t mutex;
	pthread_cond_t work_cond;	/* a run was opened, or shutdown */
	pthread_cond_t left_cond;	/* the last helper of some run left */
	PoolRun		   *runs;			/* open runs */
	unsigned	nopened;		/* atomic; runs opened so far, watched by spinning threads */
	int			nsleeping;		/* threads in work_cond */
	int			nspinning;		/* idle threads that are awake */
	int			nheld;			/* atomic; how many of these are held awake */
	bool		shutdown;
	int			nthreads;		/* callers' thread included */
	Thread		threads[];		/* nthreads - 1 */
};

static inline void
cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("isb");
#endif
}

static void
take_pieces(PoolRun *run, int worker)
{
	int			piece;

	/* the first test bounds the counter */
	while (__atomic_load_n(&run->next_piece, __ATOMIC_RELAXED) < run->npieces &&
		   (piece = __atomic_fetch_add(&run->next_piece, 1, __ATOMIC_RELAXED)) < run->npieces)
		run->fn(run->arg, piece, worker);
}

/* Choose the open run with pieces left and the fewest helpers.  Mutex held. */
static PoolRun *
choose_run(HjgPool *pool)
{
	PoolRun		   *best = NULL;

	for (PoolRun *run = pool->runs; run; run = run->next)
	{
		if (__atomic_load_n(&run->next_piece, __ATOMIC_RELAXED) < run->npieces &&
			(best == NULL || run->nhelpers < best->nhelpers))
			best = run;
	}
	return best;
}

/*
 * Wait for a run to be opened; false when it is time to sleep.  Releases the mutex while it waits.
 * idle_ns: when the thread ran out of work.
 */
static bool
spin_for_work(HjgPool *pool, unsigned long long idle_ns)
{
	const unsigned seen = __atomic_load_n(&pool->nopened, __ATOMIC_RELAXED);
	const int	number = pool->nspinning++;
	unsigned long long waited_ns;

	pthread_mutex_unlock(&pool->mutex);
	while (__atomic_load_n(&pool->nopened, __ATOMIC_RELAXED) == seen && (waited_ns = hjg_now_ns() - idle_ns) < HELD_SPIN_NS)
	{
		if (waited_ns >= SPIN_NS && number >= __atomic_load_n(&pool->nheld, __ATOMIC_RELAXED))
			break;
		if (waited_ns >= SPIN_NS)
			sched_yield();
		for (int i = 0; i < 8; i++)
			cpu_relax();
	}
	pthread_mutex_lock(&pool->mutex);
	pool->nspinning--;
	return __atomic_load_n(&pool->nopened, __ATOMIC_RELAXED) != seen;
}

static void *
thread_main(void *arg)
{
	Thread	   *self = arg;
	HjgPool    *pool = self->pool;
	unsigned long long idle_ns = hjg_now_ns();

	pthread_mutex_lock(&pool->mutex);
	while (!pool->shutdown)
	{
		PoolRun		   *run = choose_run(pool);

		if (run)
		{
			__atomic_store_n(&run->nhelpers, run->nhelpers + 1, __ATOMIC_RELAXED);
			pthread_mutex_unlock(&pool->mutex);
			take_pieces(run, self->worker);
			idle_ns = hjg_now_ns();
			pthread_mutex_lock(&pool->mutex);
			__atomic_store_n(&run->nhelpers, run->nhelpers - 1, __ATOMIC_RELEASE);
			if (run->nhelpers == 0)
				pthread_cond_broadcast(&pool->left_cond);
		}
		else if (!spin_for_work(pool, idle_ns))
		{
			pool->nsleeping++;
			pthread_cond_wait(&pool->work_cond, &pool->mutex);
			pool->nsleeping--;
			idle_ns = hjg_now_ns();
		}
	}
	pthread_mutex_unlock(&pool->mutex);
	return NULL;
}

/* Start threads with every signal blocked: signals are the caller's business. */
HjgPool *
hjg_pool_create(int nthreads)
{
	HjgPool    *pool;
	sigset_t	all_signals;
	sigset_t	old_signals;

	if (nthreads < 1)
		return NULL;
	pool = calloc(1, sizeof(HjgPool) + sizeof(Thread) * (size_t) (nthreads - 1));
	if (pool == NULL)
		return NULL;
	pthread_mutex_init(&pool->mutex, NULL);
	pthread_cond_init(&pool->work_cond, NULL);
	pthread_cond_init(&pool->left_cond, NULL);

	sigfillset(&all_signals);
	pthread_sigmask(SIG_SETMASK, &all_signals, &old_signals);
	pool->nthreads = 1;
	while (pool->nthreads < nthreads)
	{
		Thread	   *thread = &pool->threads[pool->nthreads - 1];

		thread->pool = pool;
		thread->worker = pool->nthreads;
		if (pthread_create(&thread->handle, NULL, thread_main, thread) != 0)
			break;
		pool->nthreads++;
	}
	pthread_sigmask(SIG_SETMASK, &old_signals, NULL);

	if (pool->nthreads < nthreads)
	{
		hjg_pool_destroy(pool);
		return NULL;
	}
	return pool;
}

/* Destroy a pool; no run may be open. */
void
hjg_pool_destroy(HjgPool *pool)
{
	if (pool == NULL)
		return;
	pthread_mutex_lock(&pool->mutex);
	pool->shutdown = true;
	__atomic_fetch_add(&pool->nopened, 1, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&pool->work_cond);
	pthread_mutex_unlock(&pool->mutex);
	for (int i = 0; i < pool->nthreads - 1; i++)
		pthread_join(pool->threads[i].handle, NULL);
	pthread_cond_destroy(&pool->left_cond);
	pthread_cond_destroy(&pool->work_cond);
	pthread_mutex_destroy(&pool->mutex);
	free(pool);
}

int
hjg_pool_nthreads(const HjgPool *pool)
{
	return pool ? pool->nthreads : 1;
}

void
hjg_pool_hold(HjgPool *pool, int nhelpers)
{
	if (pool != NULL)
		__atomic_fetch_add(&pool->nheld, nhelpers, __ATOMIC_RELAXED);
}

void
hjg_pool_run(HjgPool *pool, int npieces, HjgPieceFn fn, void *arg)
{
	PoolRun			run = {.fn = fn, .arg = arg, .npieces = npieces};

	if (pool == NULL || pool->nthreads == 1 || npieces <= 1)
	{
		for (int piece = 0; piece < npieces; piece++)
			fn(arg, piece, 0);
		return;
	}

	pthread_mutex_lock(&pool->mutex);
	run.next = pool->runs;
	pool->runs = &run;
	__atomic_fetch_add(&pool->nopened, 1, __ATOMIC_RELAXED);
	for (int nwoken = 0; nwoken < pool->nsleeping && nwoken + pool->nspinning < npieces - 1; nwoken++)
		pthread_cond_signal(&pool->work_cond);
	pthread_mutex_unlock(&pool->mutex);

	take_pieces(&run, 0);

	pthread_mutex_lock(&pool->mutex);
	for (PoolRun **link = &pool->runs;; link = &(*link)->next)
	{
		if (*link == &run)
		{
			*link = run.next;
			break;
		}
	}
	if (run.nhelpers > 0)
	{
		unsigned long long until = hjg_now_ns() + SPIN_NS;

		pthread_mutex_unlock(&pool->mutex);
		while (__atomic_load_n(&run.nhelpers, __ATOMIC_ACQUIRE) > 0 && hjg_now_ns() < until)
			cpu_relax();
		pthread_mutex_lock(&pool->mutex);
		while (run.nhelpers > 0)
			pthread_cond_wait(&pool->left_cond, &pool->mutex);
	}
	pthread_mutex_unlock(&pool->mutex);
}
