/*
 * hjg_job_support.h
 *	  Jobs through an arena and the scheduler, like a query's: a scheduler in a separate process.
 */
#ifndef HJG_JOB_SUPPORT_H
#define HJG_JOB_SUPPORT_H

#include "device/hjg_device.h"

/* Open an arena with slab_bytes of slabs for a scheduler; false when there is none. */
extern bool hjg_jobs_open(HjgServe *serve, HjgArena *arena, size_t slab_bytes);

/*
 * Start the scheduler.  Returns the number of the first GPU among the devices, or -1 when it cannot be
 * used.
 */
extern int	hjg_jobs_start(HjgServe *serve);

/*
 * Call play in a child process, since a context and its budget live as long as their process; returns its
 * *outcome.  False, with *outcome zeroed, if the child did not finish. *exit_code: the child's, or -1.
 */
typedef void (*HjgPlay) (const void *arg, void *outcome);
extern bool hjg_jobs_apart(HjgPlay play, const void *arg, void *outcome, size_t outcome_bytes, int *exit_code);

#endif							/* HJG_JOB_SUPPORT_H */
