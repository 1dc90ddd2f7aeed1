/*
 * test_doorbell.c
 *	  No ring is lost, and the relay sends one byte for many results.
 */
#include <pthread.h>

#include "hjg_test.h"

#define NRINGERS 4
#define NWORKERS 3
#define NRINGS 20000

static HjgArena arena;
static hjg_u32 wanted[NRINGERS];
static hjg_u32 seen[NRINGERS];
static bool stop;

static void *
ringer(void *arg)
{
	hjg_u32		job_ix = (hjg_u32) (size_t) arg;

	for (int i = 0; i < NRINGS; i++)
	{
		__atomic_fetch_add(&wanted[job_ix], 1, __ATOMIC_SEQ_CST);
		hjg_doorbell_ring(&arena.view, job_ix * 65);
	}
	return NULL;
}

static bool
look(void)
{
	bool		found = false;

	hjg_doorbell_poll_begin(&arena.view);
	for (hjg_u32 i = 0; i < NRINGERS && !found; i++)
		if (hjg_doorbell_take(&arena.view, i * 65))
		{
			hjg_u32		now = __atomic_load_n(&wanted[i], __ATOMIC_SEQ_CST);
			hjg_u32		before = __atomic_load_n(&seen[i], __ATOMIC_SEQ_CST);

			while (before < now &&
				   !__atomic_compare_exchange_n(&seen[i], &before, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
				;
			found = true;
		}
	hjg_doorbell_poll_end(&arena.view, found);
	return found;
}

static void *
worker(void *arg)
{
	(void) arg;
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST))
	{
		hjg_u32		count = hjg_doorbell_count(&arena.view);

		/* one who was told to stop before it counted would sleep for ever */
		if (!look() && !__atomic_load_n(&stop, __ATOMIC_SEQ_CST))
			hjg_doorbell_sleep(&arena.view, count, -1);
	}
	return NULL;
}

static void
test_rings(void)
{
	pthread_t	ringers[NRINGERS];
	pthread_t	workers[NWORKERS];
	bool		all = false;

	for (int i = 0; i < NWORKERS; i++)
		pthread_create(&workers[i], NULL, worker, NULL);
	for (size_t i = 0; i < NRINGERS; i++)
		pthread_create(&ringers[i], NULL, ringer, (void *) i);
	for (int i = 0; i < NRINGERS; i++)
		pthread_join(ringers[i], NULL);
	for (int wait = 0; wait < 500 && !all; wait++)
	{
		all = true;
		for (int i = 0; i < NRINGERS; i++)
			all = all && __atomic_load_n(&seen[i], __ATOMIC_SEQ_CST) == NRINGS;
		if (!all)
			usleep(10000);
	}
	test_claim(all, "the last ring of each client was answered");
	test_claim(!hjg_doorbell_pending(&arena.view), "nothing is left to do");
	__atomic_store_n(&stop, true, __ATOMIC_SEQ_CST);
	hjg_doorbell_wake_all(&arena.view);
	for (int i = 0; i < NWORKERS; i++)
		pthread_join(workers[i], NULL);
	hjg_doorbell_ring(&arena.view, HJG_MAX_JOBS);
	test_claim(!hjg_doorbell_pending(&arena.view), "a job out of range is not marked");
}

/* Test a ring when the words that save system calls hold nonsense and the mark is lost. */
static void
test_lost_ring(void)
{
	pthread_t	thread;
	bool		answered = false;

	__atomic_store_n(&stop, false, __ATOMIC_SEQ_CST);
	__atomic_store_n(&wanted[0], 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&seen[0], 0, __ATOMIC_SEQ_CST);
	pthread_create(&thread, NULL, worker, NULL);
	while (__atomic_load_n(&arena.view.block->sleepers, __ATOMIC_SEQ_CST) == 0)
		usleep(1000);
	usleep(10000);
	__atomic_store_n(&arena.view.block->pollers, 7, __ATOMIC_SEQ_CST);
	__atomic_store_n(&wanted[0], 1, __ATOMIC_SEQ_CST);
	hjg_doorbell_ring(&arena.view, 0);
	usleep(50000);
	test_claim(__atomic_load_n(&seen[0], __ATOMIC_SEQ_CST) == 0, "a ring may be lost when the device half says that somebody looks");
	__atomic_store_n(&arena.view.block->submitted[0], 0, __ATOMIC_SEQ_CST);
	hjg_doorbell_ring_again(&arena.view, 0);
	for (int wait = 0; wait < 500 && !answered; wait++)
	{
		answered = __atomic_load_n(&seen[0], __ATOMIC_SEQ_CST) == 1;
		usleep(10000);
	}
	test_claim(answered, "one who rings again is heard whatever it says");
	__atomic_store_n(&arena.view.block->pollers, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&stop, true, __ATOMIC_SEQ_CST);
	hjg_doorbell_wake_all(&arena.view);
	pthread_join(thread, NULL);
}

static void
test_relay(void)
{
	hjg_u64		jobs[HJG_MAX_JOBS / 64];
	hjg_u32		job_ix;
	hjg_u32		generation;
	HjgJobSlot *job;
	int			me;

	hjg_slot_lease(&arena, 70, 1, 1, &job_ix, &generation);
	job = hjg_slot_at(&arena, job_ix);
	me = hjg_slot_join(job, 1, 1);
	test_claim(!hjg_relay_notify(&arena.view, job_ix), "nobody is woken who does not wait");
	__atomic_store_n(&job->participants[me].waiting, 1, __ATOMIC_SEQ_CST);
	test_claim(hjg_relay_notify(&arena.view, job_ix), "a byte is sent for one who waits");
	test_claim(!hjg_relay_notify(&arena.view, job_ix), "but not a second one before the first was read");
	hjg_relay_take(&arena.view, jobs);
	test_claim(jobs[job_ix / 64] == 1ull << job_ix % 64, "the supervisor learns which job");
	hjg_relay_take(&arena.view, jobs);
	test_claim(jobs[job_ix / 64] == 0, "once");
	test_claim(hjg_relay_notify(&arena.view, job_ix), "then a byte is sent again");
	hjg_relay_take(&arena.view, jobs);
	__atomic_store_n(&job->participants[me].waiting, 0, __ATOMIC_SEQ_CST);
	hjg_slot_abandon(&arena, job, generation);
	test_claim(hjg_relay_notify(&arena.view, job_ix), "the supervisor is told when an abandoned job is let go");
	test_claim(!hjg_relay_notify(&arena.view, HJG_MAX_JOBS), "a job out of range is not marked");
}

int
main(void)
{
	arena = test_arena(2);
	test_rings();
	test_lost_ring();
	test_relay();
	hjg_arena_detach(&arena);
	return test_end();
}
