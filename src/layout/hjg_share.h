/*
 * hjg_share.h
 *	  The holders of the arena's slabs and job slots, and the queue of the processes that wait for them:
 *	  a part of the control block that only PostgreSQL's processes use (arena_share.c).
 */
#ifndef HJG_SHARE_H
#define HJG_SHARE_H

#include "layout/hjg_job.h"

#define HJG_SHARE_WAITERS 256

/* Holdings of the job in the slot with the same index. */
typedef struct HjgShareJob
{
	hjg_u32		pid;			/* of the backend that leased the slot; 0: no job */
	hjg_u32		role;			/* initial role of its session */
	hjg_u32		nslabs;			/* of all handles */
	hjg_u32		suspended;		/* its query waits for the next fetch */
} HjgShareJob;

/* Things that processes wait for. */
typedef enum HjgShareKind
{
	HJG_SHARE_SLOT,
	HJG_SHARE_SLAB,
	HJG_SHARE_KINDS
} HjgShareKind;

typedef struct HjgShareWaiter
{
	hjg_u32		pid;			/* 0: free entry; claimed by CAS */
	hjg_u32		pgprocno;		/* this process's latch is set when its turn may have come */
	hjg_u32		role;
	hjg_u32		kind;			/* HjgShareKind */
	hjg_u32		held;			/* by its role when it last looked; HJG_SHARE_NO_TURN: it may get no more
								 * now */
	hjg_u32		pad;
	hjg_u64		ticket;			/* 0: not ordered yet */
	hjg_u64		until_ns;		/* ignored after that time, even if the process left the entry behind */
} HjgShareWaiter;

#define HJG_SHARE_NO_TURN 0xFFFFFFFFu

typedef struct HjgShare
{
	HjgShareJob jobs[HJG_MAX_JOBS];
	HjgShareWaiter waiters[HJG_SHARE_WAITERS];
	hjg_u64		last_ticket;
	hjg_u64		waits_until_ns; /* no waiter exists after this time */
} HjgShare;

#endif							/* HJG_SHARE_H */
