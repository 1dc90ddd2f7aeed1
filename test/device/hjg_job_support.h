/*
 * hjg_job_support.h
 *	  Jobs through an arena and the scheduler, as a query's are: a scheduler in a process of its own.
 */
#ifndef HJG_JOB_SUPPORT_H
#define HJG_JOB_SUPPORT_H

#include "device/hjg_device.h"

/* An arena with so many bytes of slabs, and what the scheduler is told of it and may do with it; false where there is none. */
extern bool hjg_jobs_open(HjgServe *serve, HjgArena *arena, size_t slab_bytes);

/* Start the scheduler.  The number of the first GPU among the devices, or -1 where it cannot be used. */
extern int	hjg_jobs_start(HjgServe *serve);

/*
 * Call play in a child process, since a context and its budget live as long as their process; what it leaves in
 * *outcome comes back.  False, and *outcome is zeroed, where it did not end. *exit_code: the child's, or -1.
 */
typedef void (*HjgPlay) (const void *arg, void *outcome);
extern bool hjg_jobs_apart(HjgPlay play, const void *arg, void *outcome, size_t outcome_bytes, int *exit_code);

#endif							/* HJG_JOB_SUPPORT_H */
