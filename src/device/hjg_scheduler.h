/*
 * hjg_scheduler.h
 *	  Jobs as the runners see them: what device_scheduler.c shares with device_round.c.
 */
#ifndef HJG_SCHEDULER_H
#define HJG_SCHEDULER_H

#include <pthread.h>

#include "device/hjg_device.h"

typedef struct HjgJobTask HjgJobTask;

/* Belongs to the runner that is on it; otherwise to who has the task's lock. */
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
	HjgStatus	failed;			/* why the cpu engine has to take over, or HJG_OK */
	hjg_u64		busy_since_ns;	/* while there are operations that run */
	int			next_batch;

	/* these change only while one operation runs, or none */
	const HjgDriver *driver;
	HjgJoinSpec spec;			/* as the job slot said when it was built */
	HjgStatus	build_status;
	HjgJobStats stats;			/* as told last; under the lock but for fallback, why the cpu engine took over, or HJG_OK */
	HjgJobWay	ways[HJG_MAX_WAYS];
};

/* An operation that a runner has claimed. */
typedef struct HjgClaim
{
	const HjgJobSlot *job;
	const HjgOp *op;			/* what is asked for, ... */
	HjgOpReport *report;		/* ... and what is answered */
	bool		is_build;
} HjgClaim;

/* ---- device_round.c ---- */

/*
 * Run an operation that this runner has claimed, on a way that is its own, and declare it ready, or queue it again.
 */
extern void hjg_round_carry_out(HjgJobWay *way, const HjgClaim *claim);
/* Free the join and its branches; nobody is at them. */
extern void hjg_round_drop_join(HjgJobTask *task);
/* Free them; nobody works any more. */
extern void hjg_round_pools_free(void);

#endif							/* HJG_SCHEDULER_H */
