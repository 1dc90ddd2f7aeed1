/*
 * arena_bell.c
 *	  Waking the device process, and being woken by it.
 *
 * Doorbell.  A client marks its job in the bitmap "submitted", counts the
 * doorbell up and wakes a sleeper of the futex on it, if there is one.  A thread
 * of the device process reads the count, looks at the bitmap, and sleeps only while
 * the count is still the same; so no ring is lost.  A thread that is awake and
 * looking ("hunter") saves the client the system call; when it finds something
 * it wakes the next one if there is more to do and nobody else looks.
 *
 * Relay.  The other way a process cannot set a latch, so the device process marks
 * the job in the bitmap "notify" and sends one byte to the supervisor unless one is
 * on its way already.  It does so only for jobs that someone waits for: a
 * waiter sets its flag before it looks for the last time, the device process looks
 * at the flag after it has declared the operation ready.
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
wake_a_hunter(HjgControl *control)
{
	if (__atomic_load_n(&control->hunters, __ATOMIC_SEQ_CST) == 0 &&
		__atomic_load_n(&control->sleepers, __ATOMIC_SEQ_CST) > 0)
		futex_wake(&control->doorbell, 1);
}

static void
mark(hjg_u64 *bits, hjg_u32 job_ix)
{
	__atomic_fetch_or(&bits[job_ix / 64], 1ull << (job_ix % 64), __ATOMIC_SEQ_CST);
}

void
hjg_bell_ring(const HjgArena *arena, hjg_u32 job_ix)
{
	HjgControl *control = arena->control;

	if (job_ix >= HJG_MAX_JOBS)
		return;
	mark(control->submitted, job_ix);
	__atomic_fetch_add(&control->doorbell, 1, __ATOMIC_SEQ_CST);
	/* the thread that runs an operation of this job looks at the marks when it is done */
	if (__atomic_load_n(&arena->jobs[job_ix].attended, __ATOMIC_SEQ_CST) == 0)
		wake_a_hunter(control);
}

void
hjg_bell_remark(const HjgArena *arena, hjg_u32 job_ix)
{
	mark(arena->control->submitted, job_ix);
	/* who has looked at this job already looks again before it sleeps */
	__atomic_fetch_add(&arena->control->doorbell, 1, __ATOMIC_SEQ_CST);
}

void
hjg_bell_hunt_begin(const HjgArena *arena)
{
	__atomic_fetch_add(&arena->control->hunters, 1, __ATOMIC_SEQ_CST);
}

void
hjg_bell_hunt_end(const HjgArena *arena, bool found)
{
	__atomic_fetch_sub(&arena->control->hunters, 1, __ATOMIC_SEQ_CST);
	if (found && hjg_bell_pending(arena))
		wake_a_hunter(arena->control);
}

void
hjg_bell_wake_all(const HjgArena *arena)
{
	__atomic_fetch_add(&arena->control->doorbell, 1, __ATOMIC_SEQ_CST);
	futex_wake(&arena->control->doorbell, INT_MAX);
}

hjg_u32
hjg_bell_count(const HjgArena *arena)
{
	return __atomic_load_n(&arena->control->doorbell, __ATOMIC_SEQ_CST);
}

void
hjg_bell_sleep(const HjgArena *arena, hjg_u32 count, int timeout_ms)
{
	struct timespec ts = {timeout_ms / 1000, (long) (timeout_ms % 1000) * 1000000};

	__atomic_fetch_add(&arena->control->sleepers, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &arena->control->doorbell, FUTEX_WAIT, count, timeout_ms < 0 ? NULL : &ts, NULL, 0);
	__atomic_fetch_sub(&arena->control->sleepers, 1, __ATOMIC_SEQ_CST);
}

bool
hjg_bell_pending(const HjgArena *arena)
{
	for (int w = 0; w < HJG_MAX_JOBS / 64; w++)
		if (__atomic_load_n(&arena->control->submitted[w], __ATOMIC_SEQ_CST) != 0)
			return true;
	return false;
}

bool
hjg_bell_take(const HjgArena *arena, hjg_u32 job_ix)
{
	hjg_u64		bit = 1ull << (job_ix % 64);
	hjg_u64    *word = &arena->control->submitted[job_ix / 64];

	return (__atomic_load_n(word, __ATOMIC_SEQ_CST) & bit) != 0 &&
		(__atomic_fetch_and(word, ~bit, __ATOMIC_SEQ_CST) & bit) != 0;
}

bool
hjg_relay_notify(const HjgArena *arena, hjg_u32 job_ix)
{
	HjgControl *control = arena->control;
	HjgJobSlot *job = hjg_job_at(arena, job_ix);
	bool		wanted;

	if (job == NULL)
		return false;
	/* an abandoned job is waited for by the supervisor itself */
	wanted = HJG_WORD_STATE(__atomic_load_n(&job->word, __ATOMIC_SEQ_CST)) != HJG_JOB_LEASED;
	for (int p = 0; p < HJG_MAX_PARTICIPANTS && !wanted; p++)
		wanted = __atomic_load_n(&job->participants[p].pid, __ATOMIC_SEQ_CST) != 0 &&
			__atomic_load_n(&job->participants[p].waiting, __ATOMIC_SEQ_CST) != 0;
	if (!wanted)
		return false;
	mark(control->notify, job_ix);
	return __atomic_exchange_n(&control->relay_pending, 1, __ATOMIC_SEQ_CST) == 0;
}

void
hjg_relay_take(const HjgArena *arena, hjg_u64 jobs[HJG_MAX_JOBS / 64])
{
	__atomic_store_n(&arena->control->relay_pending, 0, __ATOMIC_SEQ_CST);
	for (int w = 0; w < HJG_MAX_JOBS / 64; w++)
		jobs[w] = __atomic_exchange_n(&arena->control->notify[w], 0, __ATOMIC_SEQ_CST);
}
