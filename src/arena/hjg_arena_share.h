/*
 * hjg_arena_share.h
 *	  Shares of the arena: who holds how much, how much a backend and a role may hold, and whose turn it is when there
 *	  is not enough.  See arena_share.c.
 */
#ifndef HJG_ARENA_SHARE_H
#define HJG_ARENA_SHARE_H

#include <stdbool.h>

#include "layout/hjg_share.h"

/* However small its share, a backend or a role may hold so many slabs: enough for one join. */
#define HJG_SHARE_LEAST_SLABS 8

/* Percent of the slots and of the slabs. */
typedef struct HjgShareLimits
{
	hjg_u32		backend;
	hjg_u32		role;
	hjg_u32		idle;			/* of all suspended jobs; and of that as much for a backend and a role as of all */
} HjgShareLimits;

/* The owner whose share counts: the backend that leased a job, and the role that it logged in as. */
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

/* Sums of holdings: of all jobs, of one role's and of one backend's; and of the suspended ones among them. */
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

/* Enter a job, as the owner of its slot that was just leased; who is about to free the slot clears it. */
extern void hjg_arena_share_enter(HjgShare *share, hjg_u32 job_ix, HjgShareOwner owner);
extern void hjg_arena_share_clear(HjgShare *share, hjg_u32 job_ix);
/* Count slabs that were leased for the job (n > 0) or given back; returns how many it holds now. */
extern hjg_u32 hjg_arena_share_count(HjgShare *share, hjg_u32 job_ix, int n);
extern HjgShareOwner hjg_arena_share_owner(const HjgShare *share, hjg_u32 job_ix);
extern void hjg_arena_share_suspend(HjgShare *share, hjg_u32 job_ix, bool suspended);
/* Sum up what jobs hold; reads the whole table. */
extern void hjg_arena_share_sum(const HjgShare *share, HjgShareOwner owner, HjgShareSum *sum);

/* May a backend with that sum have one more of a kind?  HJG_SHARE_OF_ALL: yes; or else whose share is used up. */
extern HjgShareOf hjg_arena_share_refused_by(const HjgShareSum *sum, const HjgShareLimits *limits, hjg_u32 total_slabs,
									   HjgShareKind kind);
/* Compute the number of leased slabs below which no backend and no role can have used up its share. */
extern hjg_u32 hjg_arena_share_free_for_all(const HjgShareLimits *limits, hjg_u32 total_slabs);
/* Do suspended jobs hold more than they may: all, or the role's, or the backend's? */
extern bool hjg_arena_share_idle_exceeded(const HjgShareSum *sum, const HjgShareLimits *limits, hjg_u32 total_slabs);

/* ---- waiting ---- */

/* Queue up; of the waiter who, for what and until when it waits are set.  Returns the place, or -1 when there is none. */
extern int	hjg_arena_share_queue(HjgShare *share, const HjgShareWaiter *waiter, hjg_u64 now_ns);
extern void hjg_arena_share_leave(HjgShare *share, int place, hjg_u32 pid);
/* Does anybody wait, for anything?  Looks at one word, so it may say yes for some time after the last one has left. */
extern bool hjg_arena_share_anybody_waits(const HjgShare *share, hjg_u64 now_ns);
/*
 * Count those who come before the waiter in this place, whose role holds so much now (or HJG_SHARE_NO_TURN: it may have no
 * more)?  HJG_SHARE_NO_TURN when it has no turn, as its time is over or its place was taken.
 */
extern hjg_u32 hjg_arena_share_ahead(HjgShare *share, int place, hjg_u32 pid, hjg_u32 held, hjg_u64 now_ns);
/* Find who comes first. */
extern bool hjg_arena_share_next(const HjgShare *share, HjgShareKind kind, hjg_u64 now_ns, hjg_u32 *pgprocno);

#endif							/* HJG_ARENA_SHARE_H */
