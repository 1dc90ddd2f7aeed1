/*
 * arena_doorbell.c
 *	  Wake the device process, and relay its wake-ups.
 *
 * Doorbell.  A client marks its job in the bitmap "submitted", increments the doorbell and wakes a thread
 * that sleeps on this futex, if there is one.  A thread of the device process reads the count, looks at
 * the bitmap, and sleeps only while the count is unchanged, so no ring is lost.  A thread that polls saves
 * the client the system call; when it finds work, it wakes another thread if more work is pending and no
 * thread polls.
 *
 * Relay.  The device process cannot set a latch, so it marks the job in the bitmap "notify" and sends one
 * byte to the supervisor unless one is under way.  It does so only for jobs with a waiter: a waiter sets
 * its flag before it looks for the last time, and the device process reads the flag after it has declared
 * the operation ready.
 */
#define _GNU_SOURCE

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "arena/hjg_arena.h"

static void
futex_wake(hjg_u32 *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
}

static void
wake_a_poller(HjgDeviceBlock *block)
{
	if (__atomic_load_n(&block->pollers, __ATOMIC_SEQ_CST) == 0 &&
		__atomic_load_n(&block->sleepers, __ATOMIC_SEQ_CST) > 0)
		futex_wake(&block->doorbell, 1);
}

static void
mark_job(hjg_u64 *bits, hjg_u32 job_ix)
{
	__atomic_fetch_or(&bits[job_ix / 64], 1ull << (job_ix % 64), __ATOMIC_SEQ_CST);
}

void
hjg_doorbell_ring(const HjgArenaView *view, hjg_u32 job_ix)
{
	HjgDeviceBlock *block = view->block;

	if (job_ix >= HJG_MAX_JOBS)
		return;
	mark_job(block->submitted, job_ix);
	__atomic_fetch_add(&block->doorbell, 1, __ATOMIC_SEQ_CST);
	/* the thread that runs an operation of this job looks at the marks when it is done */
	if (__atomic_load_n(&view->reports[job_ix].attended, __ATOMIC_SEQ_CST) == 0)
		wake_a_poller(block);
}

void
hjg_doorbell_ring_again(const HjgArenaView *view, hjg_u32 job_ix)
{
	hjg_doorbell_ring(view, job_ix);
	futex_wake(&view->block->doorbell, 1);
}

void
hjg_doorbell_remark(const HjgArenaView *view, hjg_u32 job_ix)
{
	mark_job(view->block->submitted, job_ix);
	/* a thread that has already looked at this job looks again before it sleeps */
	__atomic_fetch_add(&view->block->doorbell, 1, __ATOMIC_SEQ_CST);
}

void
hjg_doorbell_poll_begin(const HjgArenaView *view)
{
	__atomic_fetch_add(&view->block->pollers, 1, __ATOMIC_SEQ_CST);
}

void
hjg_doorbell_poll_end(const HjgArenaView *view, bool found)
{
	__atomic_fetch_sub(&view->block->pollers, 1, __ATOMIC_SEQ_CST);
	if (found && hjg_doorbell_pending(view))
		wake_a_poller(view->block);
}

void
hjg_doorbell_wake_all(const HjgArenaView *view)
{
	__atomic_fetch_add(&view->block->doorbell, 1, __ATOMIC_SEQ_CST);
	futex_wake(&view->block->doorbell, INT_MAX);
}

hjg_u32
hjg_doorbell_count(const HjgArenaView *view)
{
	return __atomic_load_n(&view->block->doorbell, __ATOMIC_SEQ_CST);
}

void
hjg_doorbell_sleep(const HjgArenaView *view, hjg_u32 count, int timeout_ms)
{
	struct timespec ts = {timeout_ms / 1000, (long) (timeout_ms % 1000) * 1000000};

	__atomic_fetch_add(&view->block->sleepers, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &view->block->doorbell, FUTEX_WAIT, count, timeout_ms < 0 ? NULL : &ts, NULL, 0);
	__atomic_fetch_sub(&view->block->sleepers, 1, __ATOMIC_SEQ_CST);
}

bool
hjg_doorbell_pending(const HjgArenaView *view)
{
	for (int w = 0; w < HJG_MAX_JOBS / 64; w++)
		if (__atomic_load_n(&view->block->submitted[w], __ATOMIC_SEQ_CST) != 0)
			return true;
	return false;
}

bool
hjg_doorbell_take(const HjgArenaView *view, hjg_u32 job_ix)
{
	hjg_u64		bit = 1ull << (job_ix % 64);
	hjg_u64    *word = &view->block->submitted[job_ix / 64];

	return (__atomic_load_n(word, __ATOMIC_SEQ_CST) & bit) != 0 &&
		(__atomic_fetch_and(word, ~bit, __ATOMIC_SEQ_CST) & bit) != 0;
}

bool
hjg_relay_notify(const HjgArenaView *view, hjg_u32 job_ix)
{
	HjgDeviceBlock *block = view->block;
	const HjgJobSlot *job = &view->jobs[job_ix];
	bool		wanted;

	if (job_ix >= HJG_MAX_JOBS)
		return false;
	/* the supervisor itself waits for an abandoned job */
	wanted = HJG_WORD_STATE(__atomic_load_n(&job->word, __ATOMIC_SEQ_CST)) != HJG_JOB_LEASED;
	for (int p = 0; p < HJG_MAX_PARTICIPANTS && !wanted; p++)
		wanted = __atomic_load_n(&job->participants[p].pid, __ATOMIC_SEQ_CST) != 0 &&
			__atomic_load_n(&job->participants[p].waiting, __ATOMIC_SEQ_CST) != 0;
	if (!wanted)
		return false;
	mark_job(block->notify, job_ix);
	return __atomic_exchange_n(&block->relay_pending, 1, __ATOMIC_SEQ_CST) == 0;
}

void
hjg_relay_take(const HjgArenaView *view, hjg_u64 jobs[HJG_MAX_JOBS / 64])
{
	__atomic_store_n(&view->block->relay_pending, 0, __ATOMIC_SEQ_CST);
	for (int w = 0; w < HJG_MAX_JOBS / 64; w++)
		jobs[w] = __atomic_exchange_n(&view->block->notify[w], 0, __ATOMIC_SEQ_CST);
}
