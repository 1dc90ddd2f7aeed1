/*
 * service_share.c
 *	  A backend's share of job slots and arena: how much it may hold, its turn when there is not enough for all, and jobs of
 *	  suspended queries. The table and the order are in arena_share.c.
 *
 * A backend may hold as much as hjoin_gpu.backend_share says, and all sessions of a role together as much as
 * hjoin_gpu.role_share. The role is the one that logged in: SET ROLE and functions of other owners do not increase a share.
 * Processes that work on one job have one share, its owner's.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/proc.h"

#include "base/hjg_base.h"
#include "service/hjg_service.h"
#include "service/hjg_service_private.h"

/* The whole wait; and the time between two checks, if nobody wakes this process. */
#define TURN_WAIT_MS 100
#define TURN_LOOK_MS 10

/*
 * Time for which a process does not wait again after an unsuccessful wait: each of a join's thousand build passes may ask for
 * resources that a query holds for hours.
 */
#define TURN_REST_MS 2000

/*
 * A loop over a cursor suspends its query every few microseconds. So the sum of all suspended jobs is checked when a job is
 * suspended for the first time, and then once in so many times: a job that was within bounds hardly holds more later.
 */
#define SUSPENDS_PER_LOOK 64

static uint64 rest_until_ns = 0;

/* The place of this process in the queue; it waits for one thing at a time. -1: none. */
static int	my_place = -1;

static HjgShareLimits
share_limits(void)
{
	return (HjgShareLimits) {.backend = (uint32) hjg_backend_share,.role = (uint32) hjg_role_share,
		.idle = (uint32) hjg_idle_share};
}

static void
look_at_arena(uint32 *total_slabs, uint32 *leased_slabs)
{
	HjgArenaUse use;

	hjg_arena_use(&hjg_arena_map, &use);
	*total_slabs = (uint32) (use.total_bytes / HJG_SLAB_BYTES);
	*leased_slabs = (uint32) (use.leased_bytes / HJG_SLAB_BYTES);
}

/* ---------- turns ---------- */

HjgShareOwner
hjg_service_share_myself(void)
{
	return (HjgShareOwner) {.pid = (uint32) MyProcPid,.role = GetAuthenticatedUserId()};
}

/* Is the queue empty, and so little leased that no share can be used up? */
static bool
has_plenty(uint64 now_ns)
{
	const HjgShareLimits now = share_limits();
	uint32		total;
	uint32		leased;

	look_at_arena(&total, &leased);
	return leased < hjg_arena_share_free_for_all(&now, total) && !hjg_arena_share_anybody_waits(hjg_service_share(), now_ns);
}

static bool
queue_up(HjgTurn *turn, uint64 now_ns)
{
	HjgShareWaiter waiter = {
		.pid = (uint32) MyProcPid,
		.pgprocno = HJG_MY_PROCNO,
		.role = turn->owner.role,
		.kind = turn->kind,
		.until_ns = now_ns,
	};

	/* a process that may not wait gets only what the others leave */
	if (turn->patient && now_ns >= rest_until_ns)
		waiter.until_ns += (uint64) TURN_WAIT_MS * 1000000;
	turn->since_ns = now_ns;
	turn->until_ns = waiter.until_ns;
	my_place = hjg_arena_share_queue(hjg_service_share(), &waiter, now_ns);
	/* abandoned jobs may hold what is needed */
	hjg_supervisor_wake();
	return my_place >= 0;
}

void
hjg_turn_leave(void)
{
	if (my_place >= 0)
		hjg_arena_share_leave(hjg_service_share(), my_place, (uint32) MyProcPid);
	my_place = -1;
}

static void
sleep_a_while(void)
{
	if (WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, TURN_LOOK_MS, hjg_base_wait_event(HJG_WAIT_TURN)) &
		WL_LATCH_SET)
		ResetLatch(MyLatch);
	PG_TRY();
	{
		CHECK_FOR_INTERRUPTS();
	}
	PG_CATCH();
	{
		hjg_turn_leave();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

bool
hjg_turn_wait(HjgTurn *turn, HjgReason *reason)
{
	HjgShare   *share = hjg_service_share();
	uint64		now_ns = hjg_now_ns();

	if (!turn->tried && turn->kind == HJG_SHARE_SLAB && has_plenty(now_ns))
		return turn->tried = true;
	for (;;)
	{
		const HjgShareLimits now = share_limits();
		HjgShareSum sum;
		HjgShareOf	refused;
		uint32		total;
		uint32		leased;
		uint32		held;
		uint32		nfree;

		look_at_arena(&total, &leased);
		hjg_arena_share_sum(share, turn->owner, &sum);
		refused = hjg_arena_share_refused_by(&sum, &now, total, turn->kind);
		held = turn->kind == HJG_SHARE_SLOT ? sum.held[HJG_SHARE_OF_ROLE].njobs : sum.held[HJG_SHARE_OF_ROLE].nslabs;
		nfree = turn->kind == HJG_SHARE_SLOT ? HJG_MAX_JOBS - sum.held[HJG_SHARE_OF_ALL].njobs : total - leased;
		*reason = refused == HJG_SHARE_OF_BACKEND ? HJG_REASON_BACKEND_SHARE :
			refused == HJG_SHARE_OF_ROLE ? HJG_REASON_ROLE_SHARE :
			turn->kind == HJG_SHARE_SLOT ? HJG_REASON_NO_SLOT : HJG_REASON_ARENA_FULL;

		/* no other process can release what this backend holds */
		if (refused == HJG_SHARE_OF_BACKEND && !turn->shared)
			return false;
		if (my_place < 0)
		{
			if (!turn->tried && refused == HJG_SHARE_OF_ALL && !hjg_arena_share_anybody_waits(share, now_ns))
				return turn->tried = true;
			if (!queue_up(turn, now_ns))
				return false;
		}
		if (hjg_arena_share_ahead(share, my_place, (uint32) MyProcPid, refused == HJG_SHARE_OF_ALL ? held : HJG_SHARE_NO_TURN,
							now_ns) < nfree && !turn->tried)
			return turn->tried = true;
		if (now_ns >= turn->until_ns)
		{
			if (turn->until_ns > turn->since_ns)
				rest_until_ns = now_ns + (uint64) TURN_REST_MS * 1000000;
			return false;
		}
		sleep_a_while();
		turn->slept = true;
		turn->tried = false;
		now_ns = hjg_now_ns();
	}
}

void
hjg_turn_end(HjgTurn *turn)
{
	if (my_place < 0)
		return;
	hjg_turn_leave();
	hjg_wake_next();
	if (turn->slept)
		ereport(DEBUG1,
				(errmsg_internal("hjoin_gpu: waited %.3f ms for a %s", (hjg_now_ns() - turn->since_ns) / 1e6,
								 turn->kind == HJG_SHARE_SLOT ? "job slot" : "slab")));
}

/* ---------- suspended queries ---------- */

void
hjg_job_hold(HjgJob *job, void *holder, const void *query)
{
	job->suspension.holder = holder;
	job->suspension.query = query;
}

void *
hjg_job_holder(const HjgJob *job)
{
	return job->suspension.holder;
}

bool
hjg_job_suspend(HjgJob *job)
{
	const HjgShareLimits now = share_limits();
	HjgShareSum sum;
	uint32		total;
	uint32		leased;

	job->suspension.marked = true;
	hjg_arena_share_suspend(hjg_service_share(), job->job_ix, true);
	if (job->suspension.count++ % SUSPENDS_PER_LOOK != 0 && job->suspension.idle_share == hjg_idle_share)
		return false;
	job->suspension.idle_share = hjg_idle_share;
	look_at_arena(&total, &leased);
	hjg_arena_share_sum(hjg_service_share(), job->owner, &sum);
	return hjg_arena_share_idle_exceeded(&sum, &now, total);
}

void
hjg_job_resume(HjgJob *job)
{
	if (job->suspension.marked)
		hjg_arena_share_suspend(hjg_service_share(), job->job_ix, false);
	job->suspension.marked = false;
}
