/*
 * test_share.c
 *	  Shares of the arena: sums, limits, and the order of waiting; several processes at a time, and dead
 *	  ones.
 */
#include <pthread.h>

#include "arena/hjg_arena_share.h"
#include "hjg_test.h"

#define TOTAL_SLABS 200
#define NTHREADS 8
#define NROUNDS 2000
#define MS ((hjg_u64) 1000000)

static HjgShare share;
static const HjgShareLimits limits = {.backend = 50,.role = 75,.idle = 25};

static void
enter(hjg_u32 job_ix, hjg_u32 pid, hjg_u32 role, int nslabs)
{
	hjg_arena_share_enter(&share, job_ix, (HjgShareOwner) {pid, role});
	hjg_arena_share_count(&share, job_ix, nslabs);
}

static HjgShareSum
sum_of(hjg_u32 pid, hjg_u32 role)
{
	HjgShareSum sum;

	hjg_arena_share_sum(&share, (HjgShareOwner) {pid, role}, &sum);
	return sum;
}

static HjgShareOf
refused(hjg_u32 pid, hjg_u32 role, HjgShareKind kind)
{
	const HjgShareSum sum = sum_of(pid, role);

	return hjg_arena_share_refused_by(&sum, &limits, TOTAL_SLABS, kind);
}

static void
test_limits(void)
{
	HjgShareSum sum;

	memset(&share, 0, sizeof(share));
	enter(3, 11, 1, 99);
	enter(5, 12, 1, 40);
	enter(250, 13, 2, 7);
	sum = sum_of(11, 1);
	test_claim(sum.held[HJG_SHARE_OF_ALL].nslabs == 146 && sum.held[HJG_SHARE_OF_ALL].njobs == 3, "the sum of all jobs");
	test_claim(sum.held[HJG_SHARE_OF_ROLE].nslabs == 139 && sum.held[HJG_SHARE_OF_ROLE].njobs == 2, "the sum of a role");
	test_claim(sum.held[HJG_SHARE_OF_BACKEND].nslabs == 99, "the sum of a backend");
	test_claim(refused(11, 1, HJG_SHARE_SLAB) == HJG_SHARE_OF_ALL, "a backend below its share gets a slab");
	hjg_arena_share_count(&share, 3, 1);
	test_claim(refused(11, 1, HJG_SHARE_SLAB) == HJG_SHARE_OF_BACKEND, "a backend that holds its share gets no slab");
	test_claim(refused(14, 1, HJG_SHARE_SLAB) == HJG_SHARE_OF_ALL, "another one of its role does");
	hjg_arena_share_count(&share, 5, 10);
	test_claim(refused(14, 1, HJG_SHARE_SLAB) == HJG_SHARE_OF_ROLE, "not when the role holds its share");
	test_claim(refused(14, 2, HJG_SHARE_SLAB) == HJG_SHARE_OF_ALL, "another role does");
	test_claim(hjg_arena_share_free_for_all(&limits, TOTAL_SLABS) == 100, "below the least share there is no question");
	hjg_arena_share_clear(&share, 3);
	test_claim(refused(11, 1, HJG_SHARE_SLAB) == HJG_SHARE_OF_ALL && sum_of(11, 1).held[HJG_SHARE_OF_BACKEND].njobs == 0,
			   "a job that is gone counts no more, whoever cleared it");

	for (hjg_u32 ix = 0; ix < 128; ix++)
		enter(ix, 20, 3, 0);
	test_claim(refused(20, 3, HJG_SHARE_SLOT) == HJG_SHARE_OF_BACKEND, "a backend with its share of the slots gets none");
	test_claim(refused(21, 3, HJG_SHARE_SLOT) == HJG_SHARE_OF_ALL, "another one does");
	sum = sum_of(20, 3);
	test_claim(hjg_arena_share_refused_by(&sum, &(HjgShareLimits) {1, 1, 0}, 16, HJG_SHARE_SLAB) == HJG_SHARE_OF_ALL,
			   "enough for one join is in any share");
}

static void
test_suspended(void)
{
	HjgShareSum sum;

	memset(&share, 0, sizeof(share));
	for (hjg_u32 ix = 0; ix < 10; ix++)
		enter(ix, 100 + ix, ix < 5 ? 1 : 2 + ix, 10);
	sum = sum_of(100, 1);
	test_claim(!hjg_arena_share_idle_exceeded(&sum, &limits, TOTAL_SLABS), "what is not suspended is not idle");
	hjg_arena_share_suspend(&share, 0, true);
	hjg_arena_share_suspend(&share, 1, true);
	hjg_arena_share_suspend(&share, 2, true);
	sum = sum_of(100, 1);
	test_claim(!hjg_arena_share_idle_exceeded(&sum, &limits, TOTAL_SLABS), "30 of 37 idle slabs of a role");
	hjg_arena_share_suspend(&share, 3, true);
	sum = sum_of(103, 1);
	test_claim(hjg_arena_share_idle_exceeded(&sum, &limits, TOTAL_SLABS), "40 of 37 idle slabs of a role are too many");
	hjg_arena_share_suspend(&share, 3, false);
	sum = sum_of(103, 1);
	test_claim(!hjg_arena_share_idle_exceeded(&sum, &limits, TOTAL_SLABS), "and are not when one query goes on");
	hjg_arena_share_count(&share, 0, 16);
	sum = sum_of(100, 1);
	test_claim(hjg_arena_share_idle_exceeded(&sum, &limits, TOTAL_SLABS), "26 of 25 idle slabs of a backend are too many");
	hjg_arena_share_count(&share, 0, -16);
	for (hjg_u32 ix = 5; ix < 8; ix++)
		hjg_arena_share_suspend(&share, ix, true);
	sum = sum_of(105, 7);
	test_claim(hjg_arena_share_idle_exceeded(&sum, &limits, TOTAL_SLABS), "60 of 50 idle slabs of all are too many, whoever has them");
	sum = sum_of(105, 7);
	test_claim(hjg_arena_share_idle_exceeded(&sum, &(HjgShareLimits) {50, 75, 0}, TOTAL_SLABS), "with a share of 0 nothing is kept");
	enter(0, 100, 1, 0);
	test_claim(sum_of(100, 1).suspended[HJG_SHARE_OF_BACKEND].njobs == 0, "the next job of a slot is not suspended");
}

static int
queue(hjg_u32 pid, hjg_u32 role, hjg_u32 held, hjg_u64 now_ns, hjg_u64 until_ns)
{
	const HjgShareWaiter waiter = {.pid = pid,.pgprocno = pid * 2,.role = role,.kind = HJG_SHARE_SLAB,.until_ns = until_ns};
	int			place = hjg_arena_share_queue(&share, &waiter, now_ns);

	if (place >= 0)
		hjg_arena_share_ahead(&share, place, pid, held, now_ns);
	return place;
}

static void
test_order(void)
{
	int			places[4];
	hjg_u32		next;

	memset(&share, 0, sizeof(share));
	test_claim(!hjg_arena_share_anybody_waits(&share, 5 * MS), "nobody waits");
	places[0] = queue(31, 1, 10, 5 * MS, 105 * MS);
	places[1] = queue(32, 1, 10, 6 * MS, 106 * MS);
	test_claim(hjg_arena_share_anybody_waits(&share, 7 * MS), "somebody waits");
	test_claim(hjg_arena_share_ahead(&share, places[0], 31, 10, 7 * MS) == 0 && hjg_arena_share_ahead(&share, places[1], 32, 10, 7 * MS) == 1,
			   "of one role, who came first is served first");
	places[2] = queue(33, 2, 3, 8 * MS, 108 * MS);
	test_claim(hjg_arena_share_ahead(&share, places[2], 33, 3, 8 * MS) == 0 && hjg_arena_share_ahead(&share, places[0], 31, 10, 8 * MS) == 1,
			   "a role that holds less is served before");
	test_claim(hjg_arena_share_next(&share, HJG_SHARE_SLAB, 8 * MS, &next) && next == 66, "and is woken");
	test_claim(!hjg_arena_share_next(&share, HJG_SHARE_SLOT, 8 * MS, &next), "who waits for a slab is not woken for a slot");
	hjg_arena_share_ahead(&share, places[2], 33, 11, 9 * MS);
	test_claim(hjg_arena_share_ahead(&share, places[0], 31, 10, 9 * MS) == 0, "until it holds more");
	places[3] = queue(34, 3, 11, 9 * MS, 109 * MS);
	test_claim(hjg_arena_share_ahead(&share, places[3], 34, 11, 9 * MS) == 3, "roles that hold as much are served as they came");
	test_claim(hjg_arena_share_ahead(&share, places[0], 31, HJG_SHARE_NO_TURN, 10 * MS) == HJG_SHARE_NO_TURN &&
			   hjg_arena_share_ahead(&share, places[1], 32, 10, 10 * MS) == 0, "who may have no more is ahead of nobody");

	/* 32 died: when its time is over it is skipped, and its place is free */
	test_claim(hjg_arena_share_ahead(&share, places[2], 33, 11, 106 * MS) == 1, "a waiter counts until its time is over");
	test_claim(hjg_arena_share_ahead(&share, places[2], 33, 11, 107 * MS) == 0, "and no longer, dead or alive");
	test_claim(hjg_arena_share_ahead(&share, places[1], 32, 1, 107 * MS) == HJG_SHARE_NO_TURN, "it has no turn itself");
	for (hjg_u32 pid = 1000; pid < 1000 + HJG_SHARE_WAITERS; pid++)
		queue(pid, 1, 10, 300 * MS, 400 * MS);
	test_claim(queue(9000, 1, 10, 350 * MS, 450 * MS) < 0, "there is an end of places");
	test_claim(hjg_arena_share_ahead(&share, places[1], 32, 1, 350 * MS) == HJG_SHARE_NO_TURN, "whose place was taken has no turn");
	hjg_arena_share_leave(&share, places[1], 32);
	test_claim(queue(9000, 1, 10, 350 * MS, 450 * MS) < 0, "and leaves the place to who has it now");
	test_claim(queue(9000, 1, 10, 401 * MS, 450 * MS) >= 0, "places of the dead are used again");
}

/* ---------- several processes that take one thing in turn ---------- */

static hjg_u64	nserved;

static void *
compete(void *arg)
{
	const hjg_u32 pid = (hjg_u32) (size_t) arg;

	for (int i = 0; i < NROUNDS; i++)
	{
		const hjg_u64 now = hjg_now_ns();
		/*
		 * roles are served by their holdings: on a busy machine one role waits for all rounds of the
		 * others
		 */
		const hjg_u64 until = now + 300000 * MS;
		int			place = queue(pid, pid % 3, 0, now, until);

		while (place >= 0 && hjg_now_ns() < until && hjg_arena_share_ahead(&share, place, pid, pid % 3, hjg_now_ns()) > 0)
			sched_yield();
		if (place >= 0)
		{
			__atomic_fetch_add(&nserved, 1, __ATOMIC_SEQ_CST);
			hjg_arena_share_leave(&share, place, pid);
		}
	}
	return NULL;
}

static void
test_threads(void)
{
	pthread_t	threads[NTHREADS];
	bool		empty = true;

	memset(&share, 0, sizeof(share));
	for (size_t i = 0; i < NTHREADS; i++)
		pthread_create(&threads[i], NULL, compete, (void *) (i + 1));
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < HJG_SHARE_WAITERS; i++)
		empty &= share.waiters[i].pid == 0;
	test_claim(nserved == (hjg_u64) NTHREADS * NROUNDS, "everybody who queued up was served");
	test_claim(empty, "nobody is left in the queue");
}

int
main(void)
{
	test_limits();
	test_suspended();
	test_order();
	test_threads();
	return test_end();
}
