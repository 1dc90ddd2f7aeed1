/*
 * hjg_scheduler.h
 *	  Jobs in the device process: declarations that device_scheduler.c and device_round.c share.
 */
#ifndef HJG_SCHEDULER_H
#define HJG_SCHEDULER_H

#include <pthread.h>

#include "device/hjg_device.h"

typedef struct HjgJobTask HjgJobTask;

/* Used by the runner that works on it; otherwise by the holder of the task's lock. */
typedef struct HjgJobWay
{
	HjgJobTask *task;
	HjgBeatSource beat;
	HjgEnv		env;			/* its arg is the way */
	void	   *join;			/* of the first way the join, of others branches; NULL: not there */
	bool		busy;			/* under the lock */
} HjgJobWay;

struct HjgJobTask
{
	HjgServe   *serve;
	pthread_mutex_t lock;
	hjg_u32		job_ix;
	hjg_u32		generation;
	int			nways;			/* that may be used */
	int			nrunning;		/* ways that are busy */
	HjgStatus	failed;			/* reason why the cpu engine must join instead, or HJG_OK */
	hjg_u64		busy_since_ns;	/* while there are operations that run */
	int			next_batch;

	/* these change only while one operation runs, or none */
	const HjgDriver *driver;
	HjgJoinSpec spec;			/* as the job slot said when it was built */
	HjgStatus	build_status;
	HjgJobStats stats;			/* last statistics; under the lock, except for fallback: the status because of which the cpu engine joins, or HJG_OK */
	HjgJobWay	ways[HJG_MAX_WAYS];
};

/* An operation that a runner has claimed. */
typedef struct HjgClaim
{
	const HjgJobSlot *job;
	const HjgOp *op;			/* the request, ... */
	HjgOpReport *report;		/* ... and the answer */
	bool		is_build;
} HjgClaim;

/* ---- device_round.c ---- */

/*
 * Run an operation that this runner has claimed, on a way of its own, and declare it ready, or queue it again.
 */
extern void hjg_round_carry_out(HjgJobWay *way, const HjgClaim *claim);
/* Free the join and its branches, which are not in use. */
extern void hjg_round_drop_join(HjgJobTask *task);
/* Free them; nobody works any more. */
extern void hjg_round_pools_free(void);

#endif							/* HJG_SCHEDULER_H */
