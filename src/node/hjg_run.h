/*
 * hjg_run.h
 *	  The keys of one build pass and of its probe batches, and the engine that joins them.
 *
 * Room "node"; hjg_build.h says what a build pass is, hjg_probe.h what becomes of pairs.  Nothing here knows of plans: keys
 * come encoded, pairs of row numbers go.
 */
#ifndef HJG_RUN_H
#define HJG_RUN_H

#include "postgres.h"

#include "engine/hjg_engine.h"
#include "rows/hjg_rows.h"
#include "service/hjg_service.h"

/*
 * Probe batches of a job that are under way at once: one is filled or emitted while another one is joined.  On a
 * GPU copies take their time, too; but of several participants one waits while the others keep the device busy.
 */
#define HJG_BATCHES_IN_FLIGHT 2
#define HJG_GPU_BATCHES_IN_FLIGHT 3
#define HJG_MOST_BATCHES_IN_FLIGHT HJG_GPU_BATCHES_IN_FLIGHT

/* The sharing of a build side that several processes read (hjg_build.h). */
typedef struct HjgBuildShare HjgBuildShare;

/* Where the node runs, and what EXPLAIN ANALYZE shows of it (hjg_execution.h). */
typedef struct HjgExecution HjgExecution;
typedef struct HjgReport HjgReport;

/* The untaken rows of a side's vectors, all at once; valid until the side is read again. */
typedef struct HjgView
{
	const HjgVector *vectors;	/* by column of the child */
	const char *keys;			/* of the rows that have one, side by side */
	int			nrows;			/* these */
	const uint16 *rows;			/* where they are in the vectors; NULL: 0, 1, ... */
	int			nnull_rows;		/* rows with a NULL key */
	const uint16 *null_rows;
} HjgView;

/* ---------- one build pass's keys (node_keys.c) ---------- */

typedef struct HjgKeySegment
{
	char	   *keys;
	uint32		nrows;
	uint32		capacity;
	uint32		first_row;
	uint32		slab_ix;		/* in the arena, or HJG_NO_SLAB: local memory */
	uint64		name;			/* of a shared build side, without a slab: what others know it by */
	bool		has_payload;		/* the rows' payload columns are behind the keys */
} HjgKeySegment;

/* In place of a slab: the keys belong to a side's vectors. */
#define HJG_NOT_OURS (HJG_NO_SLAB - 1)

/* Keys of the build side, or of one probe batch. */
typedef struct HjgKeyBuffer
{
	HjgKeySegment *segments;
	int			nsegments;
	int			max_segments;
	uint32		nrows;
	size_t		bytes;			/* capacity of all segments */
	bool		has_payload;		/* all segments have their payload columns */
} HjgKeyBuffer;

typedef struct HjgProbeBatch
{
	HjgKeyBuffer keys;			/* of all rows, or of those that are not decided yet */
	uint32		nrows;
	HjgStore   *rows;			/* payload columns, by row number in the batch */
	HjgStore   *null_rows;		/* rows with a NULL key that must come out; may be NULL */
	bool		viewed;			/* instead of rows and null_rows the view has them */
	HjgView		view;
	uint64		first_row;		/* of the batch among the probe rows of this build pass */
	uint64	   *matched;		/* bits, or NULL when nobody asks */
	int			job_batch;		/* number in the job, or -1: the backend joins it */
	bool		submitted;		/* a round is under way in the device process */
	HjgCursor	cursor;			/* where the next round starts */
	bool		finished;		/* no further round is needed */

	/* slices of candidates (node_slice.c); arrays by position in keys */
	HjgCursor	slice;			/* of all keys that are joined now; most = 0: everything */
	uint32	   *origin;			/* row of the batch, or NULL: its position */
	uint32	   *tried;			/* build row that was a candidate in the first slice */
	uint64	   *more;			/* bits: the slice was full */
	bool		slices_done;	/* no key needs another look */
	uint32		slice_key;		/* whose candidates were copied last, */
	uint32		slice_pairs;	/* and how many of them */
	uint64		pairs;			/* of all rounds over these keys */

	/* result of the round that was completed last, in the run's memory */
	const HjgPair *result;
	uint64		npairs;
	uint32		gathered;		/* sides whose columns came with the pairs: HJG_SIDE_BIT(); */
	const char *columns[HJG_SIDES]; /* of one pair behind those of the other */
} HjgProbeBatch;

/* ---------- the engine's side of a build pass (node_run.c, node_batch.c) ---------- */

/* Expectations of the planner, of a join that the device process may get. */
typedef struct HjgJobHints
{
	bool		in_backend;		/* to be joined without a job, by the backends themselves; */
	double		most_in_backend_rows;	/* unless it is found to have more build rows */
	HjgDeviceId device;			/* where it would be fastest */
	double		build_rows;		/* of a participant, and likewise: */
	double		pairs;
	double		probe_rows;		/* of all participants, */
	double		all_build_rows; /* and likewise */
	HjgPayloadBytes payload;		/* what a GPU could gather */
} HjgJobHints;

typedef struct HjgRun
{
	MemoryContext context;		/* of the pass: everything of this run, the struct included */
	const HjgExecution *execution;
	int			key_width;
	HjgMatchMode mode;
	HjgKeyBuffer build;
	const HjgStore *build_rows;	/* payload columns */
	uint32		build_limit;	/* highest build row number + 1 */
	HjgBuildShare   *share;			/* NULL: the build side is this process's own */
	int			nmembers;		/* that share it, or 1 */
	const uint32 *range_nrows;	/* of a shared build side: rows of each range of row numbers */
	int			range_shift;
	bool		answered;		/* a round is complete, and so is the table of the build side */
	HjgJob	   *job;			/* NULL: not given to the device process */
	HjgPayloadBytes payload;		/* what the job takes along; none without one */
	bool		job_lost;		/* kept for its inputs only */
	bool		device_fallback;	/* the job's device has left it to the cpu engine, and that was reported */
	bool		build_complete;
	HjgReason	reason;			/* why the backend joins, if it does */
	HjgJoin    *engine;			/* the backend's own, once built */
	HjgEnv		env;
	uint32		workspace_rows;	/* build rows that its workspace was computed for last, */
	size_t		workspace_bytes;	/* and that */
	HjgRoundMemory round;		/* of the round whose pairs are looked at, whoever has joined */
	double		expansion;		/* most pairs a probe row had so far, on average over a round */
	bool		reported;
} HjgRun;

/* Is this one of the build rows?  Shared ones have holes between the ranges. */
static inline bool
hjg_run_has_build_row(const HjgRun *run, uint32 row)
{
	if (row >= run->build_limit)
		return false;
	return run->range_nrows == NULL ||
		(row & ((1u << run->range_shift) - 1)) < run->range_nrows[row >> run->range_shift];
}

/* node_payload.c */
/* Choose, by the settings and the model, the columns that a GPU shall gather; build_rows are those of all participants. */
extern HjgPayloadBytes hjg_payload_choose(const HjgJobHints *hints, double build_rows, int participants);
/* Put the rows' columns behind the keys of the segments, as far as the job takes them along; after the last row. */
extern void hjg_payload_fill(const HjgRun *run, HjgSideId side, HjgKeyBuffer *buffer, const HjgStore *rows);

/* node_run.c */
extern HjgRun *hjg_run_create(const HjgExecution *execution, MemoryContext context, int key_width);
/* Batches that the run may have under way. */
extern int	hjg_run_max_batches(const HjgRun *run);
/* Is the run's job, if it has one, on a GPU? */
extern bool hjg_run_on_gpu(const HjgRun *run);
/* Find where the next build key goes; counts it. */
extern void *hjg_run_build_key(HjgRun *run);
/* Append build keys that lie side by side. */
extern void hjg_run_build_keys(HjgRun *run, const void *keys, uint32 nrows);
/* Find the most build keys (fewer than a range has) whose row numbers follow on one another. */
extern uint32 hjg_run_build_room(const HjgRun *run);
/* Start building, as no more keys come, for this kind of answer. */
extern void hjg_run_build_done(HjgRun *run, HjgMatchMode mode);
/* After so many probe rows a small join is worth a job after all. */
extern void hjg_run_consider_job(HjgRun *run, uint64 probe_rows);
/* Count the bytes of the keys of the build side, and what the backend's own engine would allocate for it. */
extern size_t hjg_run_bytes(HjgRun *run);
/* Add what the engine did to the report, once. */
extern void hjg_run_report(HjgRun *run);
/* Release the job, whose inputs nobody reads any more. */
extern void hjg_run_end_job(HjgRun *run);
/* Give back all that does not go with its context. */
extern void hjg_run_free(HjgRun *run);

/* node_batch.c */
/* Make an empty batch, in the run's memory. */
extern HjgProbeBatch *hjg_run_batch_create(HjgRun *run);
/* Find where the next key goes; counts it. */
extern void *hjg_run_batch_key(HjgRun *run, HjgProbeBatch *batch);
/* Append keys that lie side by side. */
extern void hjg_run_batch_keys(HjgRun *run, HjgProbeBatch *batch, const void *keys, uint32 nrows);
/* Make keys that stay where they are the batch's only ones. */
extern void hjg_run_batch_borrow(HjgRun *run, HjgProbeBatch *batch, const void *keys, uint32 nrows);
/* Give a batch that is filled to the device process, or remember that the backend joins it. */
extern void hjg_run_batch_submit(HjgRun *run, HjgProbeBatch *batch);
/*
 * Complete the next round of the batch, of which pairs are looked at or only counted; falls back by itself.  ahead: the
 * round after it may begin, as the batch will not be narrowed.
 */
extern void hjg_run_batch_round(HjgRun *run, HjgProbeBatch *batch, bool counted_only, bool ahead);
/*
 * Join, of the batch's keys, only those at these (ascending) positions, from batch->slice
 * on; the other keys are forgotten.
 */
extern void hjg_run_batch_narrow(HjgRun *run, HjgProbeBatch *batch, const uint32 *positions, uint32 n);
/*
 * Release the job of a run that goes on with the backend's own engine.  Its inputs are copied; the pairs of the current
 * round are in memory of the run already.
 */
extern void hjg_run_give_up(HjgRun *run, HjgProbeBatch *const *batches, int nbatches);
/* Make the batch empty again. */
extern void hjg_run_batch_reset(HjgRun *run, HjgProbeBatch *batch);

/* node_run.c, for shared build sides */
/* Lease a job for such keys, and its specification for those who attach to it; or NULL, and why. */
extern HjgJob *hjg_run_lease_job(int key_width, HjgMatchMode mode, const HjgJobHints *hints, HjgJoinSpec *spec,
								 HjgReason *reason);
/* Take part in a job that another process has leased. */
extern void hjg_run_attach(HjgRun *run, HjgJobName name, const HjgJoinSpec *spec);
/* Note that the device process does not join, as is known already. */
extern void hjg_run_no_job(HjgRun *run, HjgReason reason);
/* Add the build keys of this process to the job. */
extern void hjg_run_add_build(HjgRun *run);
/* Submit it, as all processes have added theirs; false when the job is of no use any more. */
extern bool hjg_run_submit_build(HjgRun *run);
/* Import a segment of build keys, of whichever process, as it lies here. */
extern void hjg_run_import(HjgRun *run, const HjgKeySegment *segment);

/* node_fallback.c */
/* Count, log or raise that the device process does not join. */
extern void hjg_run_tell_fallback(HjgReport *report, HjgReason reason);

#endif							/* HJG_RUN_H */
