/*
 * hjg_run_private.h
 *	  Declarations that the files of a run share; no other room includes it.
 *
 *		node_run.c		a build pass from its first key to its end, and its job
 *		node_batch.c	probe batches and their rounds
 *		node_keys.c		buffers of keys
 *		node_engine.c	the backend's own engine
 *		node_fallback.c	reports that the device process does not join
 */
#ifndef HJG_RUN_PRIVATE_H
#define HJG_RUN_PRIVATE_H

#include "node/hjg_execution.h"

/* Can the device process join the next round? */
static inline bool
hjg_run_job_usable(const HjgRun *run)
{
	return run->job != NULL && !run->job_lost;
}

/* ---- node_keys.c ---- */

/* Get the place of one more segment, which is not counted yet. */
extern HjgKeySegment *hjg_keys_next_segment(HjgRun *run, HjgKeyBuffer *buffer);
/*
 * Add an empty segment: a slab if the run has a job, else local memory, or, for a shared build side, memory that all
 * participants can access. If the job gets no slab, the run goes on without it.
 */
extern void hjg_keys_add_segment(HjgRun *run, HjgKeyBuffer *buffer);
/* Append nrows encoded keys. */
extern void hjg_keys_append(HjgRun *run, HjgKeyBuffer *buffer, const char *keys, uint32 nrows);
/* Copy keys in slabs to memory of the run. */
extern void hjg_keys_keep(HjgRun *run, HjgKeyBuffer *buffer);
/* Forget the segments; the caller, which has the job, releases the slabs. */
extern void hjg_keys_empty(const HjgRun *run, HjgKeyBuffer *buffer);
/* Describe the buffer to an engine; the caller frees the array. */
extern HjgSegment *hjg_keys_segments(const HjgKeyBuffer *buffer);

/* Get the place for the next key, and count it. */
static inline void *
hjg_keys_next(HjgRun *run, HjgKeyBuffer *buffer)
{
	HjgKeySegment *segment = buffer->nsegments > 0 ? &buffer->segments[buffer->nsegments - 1] : NULL;

	if (segment == NULL || segment->nrows == segment->capacity)
	{
		hjg_keys_add_segment(run, buffer);
		segment = &buffer->segments[buffer->nsegments - 1];
	}
	buffer->nrows++;
	return segment->keys + (size_t) segment->nrows++ * run->key_width;
}

/* ---- node_engine.c ---- */

extern void hjg_run_engine_env(HjgRun *run);
/*
 * Make the engine with the table of these keys, in memory of the run, or in memory from alloc_table (see HjgEnv; its argument
 * is the run).  The run's mode must be known.
 */
extern void hjg_run_engine_build(HjgRun *run, const HjgSegment *segments, int nsegments,
								 void *(*alloc_table) (void *arg, HjgTablePart part, size_t bytes));
/* Make the engine with a table that another process has built. */
extern void hjg_run_engine_attach(HjgRun *run, uint64 nrows, const void *const parts[HJG_TABLE_NPARTS]);
/* Run a round of the batch; builds the engine's table before the first one. */
extern void hjg_run_engine_round(HjgRun *run, HjgProbeBatch *batch);

/* ---- node_fallback.c ---- */

/* Note that the device process will not join this run, or not the rest of it. */
extern void hjg_run_fall_back(HjgRun *run, HjgReason reason);
/* Report a device process that joins with another engine than the device's. */
extern void hjg_run_note_device_fallback(HjgRun *run);

#endif							/* HJG_RUN_PRIVATE_H */
