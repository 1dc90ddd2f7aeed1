/*
 * arena_share.c
 *	  Shares of the arena, and the order in which processes wait for slots and slabs.
 *
 * Holdings.  Each job slot has an entry, written by the holder of the slot: the backend that leased it
 * enters itself, all handles of the job count its slabs, and the process that frees the slot (the owner,
 * or the supervisor for a dead one) clears the entry first.  A backend or role holds the sum over the
 * entries; there is no counter that a dead process could leave wrong.  Two processes that look at the same
 * time may both find room for the last slab: a share is exceeded by at most one slab for each such
 * process.
 *
 * Waiting.  A process that finds nothing free, or finds waiters, queues up: it claims a place that is free
 * or whose time is over, writes its identity and its deadline, and last its ticket.  It leaves when it is
 * served.  It may take a slab (or a slot) when fewer waiters are ahead of it than slabs are free.  Ahead
 * of it are:
 *		of its own role		waiters with a lower ticket;
 *		of another role		waiters whose role held less when they looked last, or as much and with a lower ticket.
 * A waiter whose role has used up its share has no turn until that changes, and is ahead of nobody.  Each
 * waiter publishes what its role holds whenever it looks, so for a moment two may both believe to be
 * first; the next look corrects that.  A process that returns something wakes the first waiter, and a
 * waiter that was served wakes the next.
 *
 * A waiter that died or was stopped is skipped when its time is over.  Its place may then be taken, which
 * it notices when it wakes: every change of a place except the claim compares the pid.  No lock is held at
 * any time.
 */
#include <string.h>

#include "arena/hjg_arena_share.h"
#include "layout/hjg_control.h"


/* ---------- what is held ---------- */

void
hjg_arena_share_enter(HjgShare *share, hjg_u32 job_ix, HjgShareOwner owner)
{
	HjgShareJob *job = &share->jobs[job_ix];

	__atomic_store_n(&job->role, owner.role, __ATOMIC_RELAXED);
	__atomic_store_n(&job->nslabs, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&job->suspended, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&job->pid, owner.pid, __ATOMIC_RELEASE);
}

void
hjg_arena_share_clear(HjgShare *share, hjg_u32 job_ix)
{
	__atomic_store_n(&share->jobs[job_ix].pid, 0, __ATOMIC_SEQ_CST);
}

hjg_u32
hjg_arena_share_count(HjgShare *share, hjg_u32 job_ix, int n)
{
	return __atomic_add_fetch(&share->jobs[job_ix].nslabs, (hjg_u32) n, __ATOMIC_RELAXED);
}

HjgShareOwner
hjg_arena_share_owner(const HjgShare *share, hjg_u32 job_ix)
{
	const HjgShareJob *job = &share->jobs[job_ix];

	return (HjgShareOwner) {__atomic_load_n(&job->pid, __ATOMIC_ACQUIRE), __atomic_load_n(&job->role, __ATOMIC_RELAXED)};
}

void
hjg_arena_share_suspend(HjgShare *share, hjg_u32 job_ix, bool suspended)
{
	__atomic_store_n(&share->jobs[job_ix].suspended, suspended, __ATOMIC_RELAXED);
}

static void
add_use(HjgShareUse *use, hjg_u32 nslabs)
{
	use->njobs++;
	use->nslabs += nslabs;
}

void
hjg_arena_share_sum(const HjgShare *share, HjgShareOwner owner, HjgShareSum *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (int i = 0; i < HJG_MAX_JOBS; i++)
	{
		const HjgShareJob *job = &share->jobs[i];
		hjg_u32		pid = __atomic_load_n(&job->pid, __ATOMIC_ACQUIRE);
		hjg_u32		nslabs = __atomic_load_n(&job->nslabs, __ATOMIC_RELAXED);
		bool		of[HJG_SHARE_OF_COUNT];

		if (pid == 0)
			continue;
		of[HJG_SHARE_OF_ALL] = true;
		of[HJG_SHARE_OF_ROLE] = __atomic_load_n(&job->role, __ATOMIC_RELAXED) == owner.role;
		of[HJG_SHARE_OF_BACKEND] = pid == owner.pid;
		for (int o = 0; o < HJG_SHARE_OF_COUNT; o++)
		{
			if (!of[o])
				continue;
			add_use(&sum->held[o], nslabs);
			if (__atomic_load_n(&job->suspended, __ATOMIC_RELAXED) != 0)
				add_use(&sum->suspended[o], nslabs);
		}
	}
}

/* ---------- limits ---------- */

static hjg_u32
percent_of(hjg_u32 total, hjg_u32 percent)
{
	return (hjg_u32) ((hjg_u64) total * percent / 100);
}

static hjg_u32
most_slabs(hjg_u32 total, hjg_u32 percent)
{
	hjg_u32		most = percent_of(total, percent);

	return most > HJG_SHARE_LEAST_SLABS ? most : HJG_SHARE_LEAST_SLABS;
}

static hjg_u32
most_jobs(hjg_u32 percent)
{
	hjg_u32		most = percent_of(HJG_MAX_JOBS, percent);

	return most > 1 ? most : 1;
}

static hjg_u32
limit_of(const HjgShareLimits *limits, HjgShareOf of)
{
	return of == HJG_SHARE_OF_BACKEND ? limits->backend : of == HJG_SHARE_OF_ROLE ? limits->role : 100;
}

HjgShareOf
hjg_arena_share_refused_by(const HjgShareSum *sum, const HjgShareLimits *limits, hjg_u32 total_slabs, HjgShareKind kind)
{
	for (HjgShareOf of = HJG_SHARE_OF_BACKEND; of > HJG_SHARE_OF_ALL; of--)
	{
		hjg_u32		percent = limit_of(limits, of);

		if (kind == HJG_SHARE_SLOT ? sum->held[of].njobs >= most_jobs(percent) :
			sum->held[of].nslabs >= most_slabs(total_slabs, percent))
			return of;
	}
	return HJG_SHARE_OF_ALL;
}

hjg_u32
hjg_arena_share_free_for_all(const HjgShareLimits *limits, hjg_u32 total_slabs)
{
	return most_slabs(total_slabs, limits->backend < limits->role ? limits->backend : limits->role);
}

bool
hjg_arena_share_idle_exceeded(const HjgShareSum *sum, const HjgShareLimits *limits, hjg_u32 total_slabs)
{
	for (HjgShareOf of = HJG_SHARE_OF_ALL; of < HJG_SHARE_OF_COUNT; of++)
	{
		const HjgShareUse *use = &sum->suspended[of];
		hjg_u32		percent = limits->idle * limit_of(limits, of);

		if (use->njobs * 100 > percent_of(HJG_MAX_JOBS, percent) || (hjg_u64) use->nslabs * 100 > percent_of(total_slabs, percent))
			return true;
	}
	return false;
}

/* ---------- waiting ---------- */

/* True if no waiter has a claim to the place any more. */
static bool
place_is_free(const HjgShareWaiter *waiter, hjg_u32 pid, hjg_u64 now_ns)
{
	if (pid == 0)
		return true;
	/* without a ticket it is being claimed */
	return __atomic_load_n(&waiter->ticket, __ATOMIC_SEQ_CST) != 0 &&
		__atomic_load_n(&waiter->until_ns, __ATOMIC_SEQ_CST) < now_ns;
}

static void
note_wait(HjgShare *share, hjg_u64 until_ns)
{
	hjg_u64		known_ns = __atomic_load_n(&share->waits_until_ns, __ATOMIC_SEQ_CST);

	while (known_ns < until_ns &&
		   !__atomic_compare_exchange_n(&share->waits_until_ns, &known_ns, until_ns, true, __ATOMIC_SEQ_CST,
										__ATOMIC_SEQ_CST))
		;
}

int
hjg_arena_share_queue(HjgShare *share, const HjgShareWaiter *waiter, hjg_u64 now_ns)
{
	for (hjg_u32 i = 0; i < HJG_SHARE_WAITERS; i++)
	{
		hjg_u32		place = (waiter->pid + i) % HJG_SHARE_WAITERS;
		HjgShareWaiter *to = &share->waiters[place];
		hjg_u32		pid = __atomic_load_n(&to->pid, __ATOMIC_SEQ_CST);

		if (!place_is_free(to, pid, now_ns) ||
			!__atomic_compare_exchange_n(&to->pid, &pid, waiter->pid, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			continue;
		__atomic_store_n(&to->ticket, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&to->pgprocno, waiter->pgprocno, __ATOMIC_RELAXED);
		__atomic_store_n(&to->role, waiter->role, __ATOMIC_RELAXED);
		__atomic_store_n(&to->kind, waiter->kind, __ATOMIC_RELAXED);
		__atomic_store_n(&to->held, HJG_SHARE_NO_TURN, __ATOMIC_RELAXED);
		__atomic_store_n(&to->until_ns, waiter->until_ns, __ATOMIC_SEQ_CST);
		note_wait(share, waiter->until_ns);
		__atomic_store_n(&to->ticket, __atomic_add_fetch(&share->last_ticket, 1, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
		return (int) place;
	}
	return -1;
}

void
hjg_arena_share_leave(HjgShare *share, int place, hjg_u32 pid)
{
	HjgShareWaiter *waiter = &share->waiters[place];

	if (__atomic_load_n(&waiter->pid, __ATOMIC_SEQ_CST) != pid)
		return;
	__atomic_store_n(&waiter->ticket, 0, __ATOMIC_SEQ_CST);
	__atomic_compare_exchange_n(&waiter->pid, &pid, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

bool
hjg_arena_share_anybody_waits(const HjgShare *share, hjg_u64 now_ns)
{
	return __atomic_load_n(&share->waits_until_ns, __ATOMIC_SEQ_CST) >= now_ns;
}

/* Copy the waiter in a place; false when there is none that may have a turn. */
static bool
copy_waiter(const HjgShareWaiter *from, HjgShareKind kind, hjg_u64 now_ns, HjgShareWaiter *waiter)
{
	waiter->ticket = __atomic_load_n(&from->ticket, __ATOMIC_SEQ_CST);
	if (waiter->ticket == 0 || __atomic_load_n(&from->pid, __ATOMIC_SEQ_CST) == 0 ||
		__atomic_load_n(&from->kind, __ATOMIC_RELAXED) != (hjg_u32) kind ||
		__atomic_load_n(&from->until_ns, __ATOMIC_SEQ_CST) < now_ns)
		return false;
	waiter->held = __atomic_load_n(&from->held, __ATOMIC_RELAXED);
	waiter->role = __atomic_load_n(&from->role, __ATOMIC_RELAXED);
	waiter->pgprocno = __atomic_load_n(&from->pgprocno, __ATOMIC_RELAXED);
	return waiter->held != HJG_SHARE_NO_TURN;
}

static bool
comes_before(const HjgShareWaiter *a, const HjgShareWaiter *b)
{
	if (a->role == b->role || a->held == b->held)
		return a->ticket < b->ticket;
	return a->held < b->held;
}

hjg_u32
hjg_arena_share_ahead(HjgShare *share, int place, hjg_u32 pid, hjg_u32 held, hjg_u64 now_ns)
{
	HjgShareWaiter *mine = &share->waiters[place];
	const HjgShareKind kind = (HjgShareKind) __atomic_load_n(&mine->kind, __ATOMIC_RELAXED);
	HjgShareWaiter me;
	HjgShareWaiter other;
	hjg_u32		n = 0;

	if (__atomic_load_n(&mine->pid, __ATOMIC_SEQ_CST) != pid)
		return HJG_SHARE_NO_TURN;
	__atomic_store_n(&mine->held, held, __ATOMIC_SEQ_CST);
	if (!copy_waiter(mine, kind, now_ns, &me))
		return HJG_SHARE_NO_TURN;
	for (int i = 0; i < HJG_SHARE_WAITERS; i++)
		n += i != place && copy_waiter(&share->waiters[i], kind, now_ns, &other) && comes_before(&other, &me);
	return n;
}

bool
hjg_arena_share_next(const HjgShare *share, HjgShareKind kind, hjg_u64 now_ns, hjg_u32 *pgprocno)
{
	HjgShareWaiter first = {0};
	HjgShareWaiter other;
	bool		any = false;

	for (int i = 0; i < HJG_SHARE_WAITERS; i++)
	{
		if (!copy_waiter(&share->waiters[i], kind, now_ns, &other) || (any && !comes_before(&other, &first)))
			continue;
		first = other;
		any = true;
	}
	if (any)
		*pgprocno = first.pgprocno;
	return any;
}
