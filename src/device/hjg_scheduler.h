/*
 * hjg_scheduler.h
 *	  Jobs in the device process: declarations that device_scheduler.c and device_round.c share.
 */
#ifndef HJG_SCHEDULER_H
#define HJG_SCHEDULER_H

#include <pthread.h>

#include "device/hjg_device.h"

typedef struct HjgJobTask HjgJobTask;

/*
 * One of the concurrent calls into a job's join.  Its runner uses it while busy; otherwise the holder of
 * the task's lock does.
 */
typedef struct HjgJobStream
{
	HjgJobTask *task;
	HjgBeatSource beat;
	HjgEnv		env;			/* its arg is the stream */
	void	   *join;			/* the join in the first stream, what it opened in others; NULL: none */
	bool		busy;			/* under the lock */
} HjgJobStream;

struct HjgJobTask
{
	HjgServe   *serve;
	pthread_mutex_t lock;
	hjg_u32		job_ix;
	hjg_u32		generation;
	int			nstreams;		/* streams that may be used */
	int			nrunning;		/* busy streams */
	HjgStatus	failed;			/* reason why the cpu engine must join instead, or HJG_OK */
	hjg_u64		busy_since_ns;	/* while operations run */
	int			next_batch;

	/* these change only while at most one operation runs */
	const HjgDriver *driver;
	HjgJoinSpec spec;			/* copied from the job slot at the build */
	HjgStatus	build_status;
	HjgJobStats stats;			/* last statistics; under the lock, except for fallback: the status that
								 * made the cpu engine join, or HJG_OK */
	HjgJobStream streams[HJG_MAX_STREAMS];
};

/* An operation that a runner has claimed. */
typedef struct HjgClaim
{
	const HjgJobSlot *job;
	const HjgOp *op;			/* the request */
	HjgOpReport *report;		/* the answer */
	bool		is_build;
} HjgClaim;

/* ---- device_round.c ---- */

/* Run a claimed operation on its stream, and declare it ready or queue it again. */
extern void hjg_round_carry_out(HjgJobStream *stream, const HjgClaim *claim);
/* Free the join and its streams, which are not in use. */
extern void hjg_round_drop_join(HjgJobTask *task);
/* Free the pools; no runner works any more. */
extern void hjg_round_pools_free(void);

#endif							/* HJG_SCHEDULER_H */
