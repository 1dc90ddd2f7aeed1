/*
 * hjg_job.h
 *	  A job: its specification and its statistics.
 *
 * Both structs consist of plain integers and are defined only here: the client copies its specification to
 * the job's slot, engines and drivers use it unchanged, and statistics return the same way
 * (hjg_words_copy()).  Each statistic is a row of HJG_JOB_STATS, which also tells how to add it up over
 * several joins.
 */
#ifndef HJG_JOB_H
#define HJG_JOB_H

#include "layout/hjg_layout.h"

#define HJG_MAX_JOBS 256

/* Most probe batches that all handles of a job may have open at once; each participant may have one. */
#define HJG_MAX_BATCHES 32

/* "No slab", as a slab's number. */
#define HJG_NO_SLAB 0xFFFFFFFFu

/* A join, as specified for engines and drivers. */
typedef struct HjgJoinSpec
{
	hjg_u32		key_width;		/* 4, 8 or 16 */
	hjg_u32		mode;			/* HjgMatchMode */
	hjg_u32		strategy;		/* hjg_strategy.h; an engine without this strategy chooses one itself */
	hjg_u32		pipeline;		/* HjgPipeline, of the coupled engine */
	hjg_u64		build_rows;		/* expected total, for views; 0: unknown */
	hjg_u64		probe_rows;		/* the same, and for the choice of a strategy */
	HjgPayloadBytes payload;		/* columns that segments may contain; only a GPU's driver gathers them */
	hjg_u32		nthreads;		/* threads of the device process that may work on it; 0: all */
	hjg_u32		pad;
} HjgJoinSpec;

/*
 * STAT(type, name, how): statistics of a join, or of all joins of a job.
 *
 * how: SUM, MAX, or LAST, the last value that is not 0.  A statistic that an engine does not measure is 0.
 */
#define HJG_JOB_STATS(STAT) \
	STAT(hjg_u64, build_rows, SUM) \
	STAT(hjg_u64, probe_rows, SUM) \
	STAT(hjg_u64, pairs, SUM) \
	/* in the engine: wall time of its calls, or the device's, by phase */ \
	STAT(hjg_u64, partition_ns, SUM) \
	STAT(hjg_u64, build_ns, SUM) \
	STAT(hjg_u64, probe_ns, SUM) \
	STAT(hjg_u64, transfer_ns, SUM)	/* 0 if the engine reads the arena itself */ \
	STAT(hjg_u64, gather_ns, SUM)	/* of payload columns */ \
	STAT(hjg_u64, busy_ns, SUM)	/* while the device process was busy; concurrent batches count once */ \
	/* predictions of a model in the device process for the rows so far, partitioning included */ \
	STAT(hjg_u64, predicted_build_ns, SUM) \
	STAT(hjg_u64, predicted_probe_ns, SUM) \
	STAT(hjg_u64, wait_ns, SUM)	/* time the client spent waiting; in its own copy */ \
	STAT(hjg_u64, arena_bytes, MAX)	/* most bytes of slabs that the client held; in its own copy */ \
	STAT(hjg_u64, workspace_bytes, MAX)	/* most bytes allocated at once */ \
	STAT(hjg_u32, npartitions, MAX)	/* of the build side; on a GPU, build passes */ \
	STAT(hjg_u32, strategy, LAST)	/* the strategy that ran, of any engine */ \
	STAT(hjg_u32, pipeline, LAST)	/* the pipeline that ran; 0 without one */ \
	STAT(hjg_u32, declined, MAX)	/* 1: the strategy asked for did not suit the join */ \
	STAT(hjg_u32, fallback, LAST)	/* HjgStatus of the device's driver that made the cpu engine join */

typedef struct HjgJobStats
{
#define STAT(type, name, how) type name;
	HJG_JOB_STATS(STAT)
#undef STAT
} HjgJobStats;

_Static_assert(sizeof(HjgJoinSpec) % sizeof(hjg_u64) == 0 && sizeof(HjgJobStats) % sizeof(hjg_u64) == 0, "whole words");

/* Operations that add up statistics. */
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
