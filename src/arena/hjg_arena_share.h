/*
 * hjg_arena_share.h
 *	  Shares of the arena: what each job holds, the limits of a backend and a role, and the order of
 *	  those that wait.  See arena_share.c.
 */
#ifndef HJG_ARENA_SHARE_H
#define HJG_ARENA_SHARE_H

#include <stdbool.h>

#include "layout/hjg_share.h"

/* Slabs that a backend or a role may hold however small its share: enough for one join. */
#define HJG_SHARE_LEAST_SLABS 8

/* Limits in percent of the slots and of the slabs. */
typedef struct HjgShareLimits
{
	hjg_u32		backend;
	hjg_u32		role;
	hjg_u32		idle;			/* all suspended jobs; a backend and a role have their percentage of it */
} HjgShareLimits;

/* The owner whose share counts: the backend that leased a job, and its login role. */
typedef struct HjgShareOwner
{
	hjg_u32		pid;
	hjg_u32		role;
} HjgShareOwner;

typedef struct HjgShareUse
{
	hjg_u32		njobs;
	hjg_u32		nslabs;
} HjgShareUse;

/* Sums of holdings: of all jobs, of one role's and of one backend's; also of the suspended jobs alone. */
typedef enum HjgShareOf
{
	HJG_SHARE_OF_ALL,
	HJG_SHARE_OF_ROLE,
	HJG_SHARE_OF_BACKEND,
	HJG_SHARE_OF_COUNT
} HjgShareOf;

typedef struct HjgShareSum
{
	HjgShareUse held[HJG_SHARE_OF_COUNT];
	HjgShareUse suspended[HJG_SHARE_OF_COUNT];
} HjgShareSum;

/* ---- what is held ---- */

/*
 * Enter a job, as the owner that just leased its slot.  The process about to free the slot clears the
 * entry.
 */
extern void hjg_arena_share_enter(HjgShare *share, hjg_u32 job_ix, HjgShareOwner owner);
extern void hjg_arena_share_clear(HjgShare *share, hjg_u32 job_ix);
/* Count slabs leased for the job (n > 0) or returned; returns how many the job holds now. */
extern hjg_u32 hjg_arena_share_count(HjgShare *share, hjg_u32 job_ix, int n);
extern HjgShareOwner hjg_arena_share_owner(const HjgShare *share, hjg_u32 job_ix);
extern void hjg_arena_share_suspend(HjgShare *share, hjg_u32 job_ix, bool suspended);
/* Add up what jobs hold; reads the whole table. */
extern void hjg_arena_share_sum(const HjgShare *share, HjgShareOwner owner, HjgShareSum *sum);

/*
 * Decide whether a backend with this sum may have one more of a kind: HJG_SHARE_OF_ALL if it may,
 * otherwise whose share is used up.
 */
extern HjgShareOf hjg_arena_share_refused_by(const HjgShareSum *sum, const HjgShareLimits *limits, hjg_u32 total_slabs,
									   HjgShareKind kind);
/* Compute the number of leased slabs below which no share of a backend or role can be used up. */
extern hjg_u32 hjg_arena_share_free_for_all(const HjgShareLimits *limits, hjg_u32 total_slabs);
/* True if suspended jobs hold more than allowed, in all, or of the role or the backend. */
extern bool hjg_arena_share_idle_exceeded(const HjgShareSum *sum, const HjgShareLimits *limits, hjg_u32 total_slabs);

/* ---- waiting ---- */

/*
 * Queue up; the caller sets the waiter's pid, pgprocno, role, kind and until_ns.  Returns the place, or -1
 * when all are taken.
 */
extern int	hjg_arena_share_queue(HjgShare *share, const HjgShareWaiter *waiter, hjg_u64 now_ns);
extern void hjg_arena_share_leave(HjgShare *share, int place, hjg_u32 pid);
/*
 * True if a process may be waiting for anything.  Reads one word, so it may stay true for some time after
 * the last waiter has left.
 */
extern bool hjg_arena_share_anybody_waits(const HjgShare *share, hjg_u64 now_ns);
/*
 * Publish what the waiter's role holds (HJG_SHARE_NO_TURN: its share is used up) and count the waiters
 * ahead of it.  HJG_SHARE_NO_TURN when it has no turn, its time is over or its place was taken.
 */
extern hjg_u32 hjg_arena_share_ahead(HjgShare *share, int place, hjg_u32 pid, hjg_u32 held, hjg_u64 now_ns);
/* Find the first waiter of a kind. */
extern bool hjg_arena_share_next(const HjgShare *share, HjgShareKind kind, hjg_u64 now_ns, hjg_u32 *pgprocno);

#endif							/* HJG_ARENA_SHARE_H */
