/*
 * hjg_job.h
 *	  A job: its specification and its statistics.
 *
 * Both structs are plain integers, each written down here and nowhere else: the client copies its specification to the
 * job's slot, engines and drivers take it as it is, statistics come back the same way (hjg_words_copy()).  A statistic is one
 * row of HJG_JOB_STATS, which says how those of several joins add up.
 */
#ifndef HJG_JOB_H
#define HJG_JOB_H

#include "layout/hjg_layout.h"

#define HJG_MAX_JOBS 256

/* Probe batches that all handles of a job may have open at once: one a participant at least. */
#define HJG_MAX_BATCHES 32

/* In place of a slab's number. */
#define HJG_NO_SLAB 0xFFFFFFFFu

/* A join, as engines and drivers are asked for it. */
typedef struct HjgJoinSpec
{
	hjg_u32		key_width;		/* 4, 8 or 16 */
	hjg_u32		mode;			/* HjgMatchMode */
	hjg_u32		strategy;		/* hjg_strategy.h; an engine that does not have it chooses one itself */
	hjg_u32		pipeline;		/* HjgPipeline, of the coupled engine */
	hjg_u64		probe_rows;		/* expected in all, by which a strategy is chosen; 0: not known */
	HjgPayloadBytes payload;		/* columns that segments may have with them; only a GPU's driver gathers them */
	hjg_u32		nthreads;		/* of the device process that may work on it; 0: all */
	hjg_u32		pad;
} HjgJoinSpec;

/*
 * Statistics of a join, or of all joins of a job:
 *		STAT(type, name, how)
 * how: SUM, MAX, or LAST, the last one that is not 0.  A statistic that an engine does not measure is 0.
 */
#define HJG_JOB_STATS(STAT) \
	STAT(hjg_u64, build_rows, SUM) \
	STAT(hjg_u64, probe_rows, SUM) \
	STAT(hjg_u64, pairs, SUM) \
	/* in the engine: wall time of its calls, or the device's, by phase */ \
	STAT(hjg_u64, partition_ns, SUM) \
	STAT(hjg_u64, build_ns, SUM) \
	STAT(hjg_u64, probe_ns, SUM) \
	STAT(hjg_u64, transfer_ns, SUM)	/* 0 where the engine reads the arena itself */ \
	STAT(hjg_u64, gather_ns, SUM)	/* of payload columns */ \
	STAT(hjg_u64, busy_ns, SUM)	/* while the device process had something to do; batches side by side count once */ \
	/* times that a model in the device process predicted for the rows so far, partitioning included */ \
	STAT(hjg_u64, predicted_build_ns, SUM) \
	STAT(hjg_u64, predicted_probe_ns, SUM) \
	STAT(hjg_u64, wait_ns, SUM)	/* that the client spent waiting; in its own copy */ \
	STAT(hjg_u64, arena_bytes, MAX)	/* most slabs held at once that the client saw, in bytes; likewise */ \
	STAT(hjg_u64, workspace_bytes, MAX)	/* most that was allocated at once */ \
	STAT(hjg_u32, npartitions, MAX)	/* of the build side; on a GPU, build passes */ \
	STAT(hjg_u32, strategy, LAST)	/* that ran, of any engine */ \
	STAT(hjg_u32, pipeline, LAST)	/* likewise; 0 where the engine has none */ \
	STAT(hjg_u32, declined, MAX)	/* 1: the strategy asked for did not suit the join */ \
	STAT(hjg_u32, fallback, LAST)	/* HjgStatus of the device's driver, because of which the cpu engine joined instead */

typedef struct HjgJobStats
{
#define STAT(type, name, how) type name;
	HJG_JOB_STATS(STAT)
#undef STAT
} HjgJobStats;

_Static_assert(sizeof(HjgJoinSpec) % sizeof(hjg_u64) == 0 && sizeof(HjgJobStats) % sizeof(hjg_u64) == 0, "whole words");

/* The ways in which statistics add up. */
#define HJG_ADD_SUM(sum, more) ((sum) += (more))
#define HJG_ADD_MAX(sum, more) ((sum) = (more) > (sum) ? (more) : (sum))
#define HJG_ADD_LAST(sum, more) ((sum) = (more) != 0 ? (more) : (sum))

static inline void
hjg_stats_add(HjgJobStats *sum, const HjgJobStats *more)
{
#define STAT(type, name, how) HJG_ADD_##how(sum->name, more->name);
	HJG_JOB_STATS(STAT)
#undef STAT
}

#endif							/* HJG_JOB_H */
