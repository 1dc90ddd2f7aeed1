/*
 * service_wake.c
 *	  Wakes processes: backends wake the supervisor, the supervisor wakes processes that wait for a job, and a process that
 *	  releases something wakes those that wait for it.
 *
 * A process is identified by its number among the server's processes, which may belong to another process by now: setting a
 * latch needlessly does no harm.
 */
#include "postgres.h"

#include "storage/latch.h"
#include "storage/proc.h"

#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

static void
set_latch_of(uint32 pgprocno)
{
	if (pgprocno < ProcGlobal->allProcCount)
		SetLatch(&ProcGlobal->allProcs[pgprocno].procLatch);
}

void
hjg_supervisor_wake(void)
{
	HjgControl *control = hjg_arena_map.control;

	if (hjg_arena_map.base != NULL && __atomic_load_n(&control->supervisor_pid, __ATOMIC_SEQ_CST) != 0)
		set_latch_of(__atomic_load_n(&control->supervisor_pgprocno, __ATOMIC_SEQ_CST));
}

void
hjg_supervisor_watch(void)
{
	if (__atomic_load_n(&hjg_arena_map.control->supervisor_asleep, __ATOMIC_SEQ_CST) != 0)
		hjg_supervisor_wake();
}

void
hjg_wake_next(void)
{
	const HjgShare *share = hjg_service_share();
	const uint64 now_ns = hjg_now_ns();
	uint32		pgprocno;

	if (!hjg_arena_share_anybody_waits(share, now_ns))
		return;
	for (HjgShareKind kind = HJG_SHARE_SLOT; kind < HJG_SHARE_KINDS; kind++)
		if (hjg_arena_share_next(share, kind, now_ns, &pgprocno))
			set_latch_of(pgprocno);
}

void
hjg_wake_waiters(uint32 job_ix)
{
	const HjgJobSlot *job = &hjg_arena_map.jobs[job_ix];

	for (int p = 0; p < HJG_MAX_PARTICIPANTS; p++)
		if (__atomic_load_n(&job->participants[p].pid, __ATOMIC_SEQ_CST) != 0 &&
			__atomic_load_n(&job->participants[p].waiting, __ATOMIC_SEQ_CST) != 0)
			set_latch_of(__atomic_load_n(&job->participants[p].pgprocno, __ATOMIC_SEQ_CST));
}

void
hjg_wake_relayed(void)
{
	uint64		jobs[HJG_MAX_JOBS / 64];

	hjg_relay_take(&hjg_arena_map.view, jobs);
	for (int w = 0; w < HJG_MAX_JOBS / 64; w++)
		for (uint64 bits = jobs[w]; bits != 0; bits &= bits - 1)
			hjg_wake_waiters(w * 64 + __builtin_ctzll(bits));
}
