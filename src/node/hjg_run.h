/*
 * hjg_run.h
 *	  The keys of one build pass and of its probe batches, and the engine that joins them.
 *
 * Room "node"; hjg_build.h describes build passes, hjg_probe.h the use of pairs. Nothing here depends on plans: the input is
 * encoded keys, the output pairs of row numbers.
 */
#ifndef HJG_RUN_H
#define HJG_RUN_H

#include "postgres.h"

#include "engine/hjg_engine.h"
#include "rows/hjg_rows.h"
#include "service/hjg_service.h"

/*
 * Probe batches of a job that are in flight at once: one is filled or emitted while another is joined. A GPU gets more,
 * because copies take time, too; each of several participants gets fewer.
 */
#define HJG_BATCHES_IN_FLIGHT 2
#define HJG_GPU_BATCHES_IN_FLIGHT 3
#define HJG_MOST_BATCHES_IN_FLIGHT HJG_GPU_BATCHES_IN_FLIGHT

/* The sharing of a build side that several processes read (hjg_build.h). */
typedef struct HjgBuildShare HjgBuildShare;

/* The environment of the node, and its figures for EXPLAIN ANALYZE (hjg_execution.h). */
typedef struct HjgExecution HjgExecution;
typedef struct HjgReport HjgReport;

/* All untaken rows of a side's vectors; valid until the side is read again. */
typedef struct HjgView
{
	const HjgVector *vectors;	/* by column of the child */
	const char *keys;			/* keys of the rows that have one, contiguous */
	int			nrows;			/* number of these rows */
	const uint16 *rows;			/* places of these rows in the vectors; NULL: 0, 1, ... */
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
	uint64		name;			/* of a segment of a shared build side without a slab: the name of its memory for other processes */
	bool		has_payload;		/* the rows' payload columns are behind the keys */
} HjgKeySegment;

/* Stands for no slab: the keys are in a side's vectors. */
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
	HjgKeyBuffer keys;			/* of all rows, or of those without a match so far */
	uint32		nrows;
	HjgStore   *rows;			/* payload columns, by row number in the batch */
	HjgStore   *null_rows;		/* rows with a NULL key that the join preserves; may be NULL */
	bool		viewed;			/* the view has the rows, instead of rows and null_rows */
	HjgView		view;
	uint64		first_row;		/* of the batch among the probe rows of this build pass */
	uint64	   *matched;		/* bits, or NULL where they are not needed */
	int			job_batch;		/* number in the job, or -1: the backend joins it */
	bool		submitted;		/* the device process runs a round */
	HjgCursor	cursor;			/* start of the next round */
	bool		finished;		/* no further round is needed */

	/* slices of candidates (node_slice.c); arrays by position in keys */
	HjgCursor	slice;			/* for all keys being joined; most = 0: all matches */
	uint32	   *origin;			/* row of the batch, or NULL: its position */
	uint32	   *tried;			/* build row that was a candidate in the first slice */
	uint64	   *more;			/* bits: the slice was full */
	bool		slices_done;	/* no key needs another slice */
	uint32		slice_key;		/* row whose candidates were copied last, */
	uint32		slice_pairs;	/* and their number */
	uint64		pairs;			/* of all rounds over these keys */

	/* result of the round that was completed last, in the run's memory */
	const HjgPair *result;
	uint64		npairs;
	uint32		gathered;		/* sides whose columns came with the pairs: HJG_SIDE_BIT() */
	const char *columns[HJG_SIDES]; /* their columns, by pair */
} HjgProbeBatch;

/* ---------- the engine's side of a build pass (node_run.c, node_batch.c) ---------- */

/* The planner's expectations of a join that the device process may get. */
typedef struct HjgJobHints
{
	bool		in_backend;		/* expected to be joined by the backends, without a job, */
	double		most_in_backend_rows;	/* unless it has more build rows than this */
	HjgDeviceId device;			/* the device that is expected to be fastest */
	double		build_rows;		/* of a participant, and its pairs: */
	double		pairs;
	double		probe_rows;		/* of all participants, */
	double		all_build_rows; /* and their build rows */
	HjgPayloadBytes payload;		/* columns that a GPU could gather */
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
	int			nmembers;		/* participants that share it, or 1 */
	const uint32 *range_nrows;	/* of a shared build side: rows of each range of row numbers */
	int			range_shift;
	bool		answered;		/* a round is complete, and with it the table of the build side */
	HjgJob	   *job;			/* NULL: not given to the device process */
	HjgPayloadBytes payload;		/* columns that are sent with the job; none without one */
	bool		job_lost;		/* its job is kept for the inputs only */
	bool		device_fallback;	/* the job's device left it to the cpu engine, and that was reported */
	bool		build_complete;
	HjgReason	reason;			/* reason why the backend joins, if it does */
	HjgJoin    *engine;			/* the backend's own engine, once built */
	HjgEnv		env;
	uint32		workspace_rows;	/* build rows for which its workspace was last computed, */
	size_t		workspace_bytes;	/* and the result */
	HjgRoundMemory round;		/* of the round whose pairs are used, by either engine */
	double		expansion;		/* most pairs a probe row so far, as an average over a round */
	bool		reported;
} HjgRun;

/* Is there a build row of this number? Shared build sides have holes between the ranges. */
static inline bool
hjg_run_has_build_row(const HjgRun *run, uint32 row)
{
	if (row >= run->build_limit)
		return false;
	return run->range_nrows == NULL ||
		(row & ((1u << run->range_shift) - 1)) < run->range_nrows[row >> run->range_shift];
}

/* node_payload.c */
/* Choose, by the settings and the model, the columns that a GPU gathers; build_rows are those of all participants. */
extern HjgPayloadBytes hjg_payload_choose(const HjgJobHints *hints, double build_rows, int participants);
/* Copy the rows' columns that are sent with the job behind the keys of the segments; called after the last row. */
extern void hjg_payload_fill(const HjgRun *run, HjgSideId side, HjgKeyBuffer *buffer, const HjgStore *rows);

/* node_run.c */
extern HjgRun *hjg_run_create(const HjgExecution *execution, MemoryContext context, int key_width);
/* Get the number of batches that the run may have in flight. */
extern int	hjg_run_max_batches(const HjgRun *run);
/* Is the run's job, if it has one, on a GPU? */
extern bool hjg_run_on_gpu(const HjgRun *run);
/* Get the place for the next build key, and count it. */
extern void *hjg_run_build_key(HjgRun *run);
/* Append contiguous build keys. */
extern void hjg_run_build_keys(HjgRun *run, const void *keys, uint32 nrows);
/* Get the number of build keys (fewer than a range has) that can be added with consecutive row numbers. */
extern uint32 hjg_run_build_room(const HjgRun *run);
/* Start building the table, after the last key, for this mode. */
extern void hjg_run_build_done(HjgRun *run, HjgMatchMode mode);
/* Give a small join to the device process after all, once it has so many probe rows. */
extern void hjg_run_consider_job(HjgRun *run, uint64 probe_rows);
/* Compute the bytes of the build side's keys, and those that the backend's own engine would allocate. */
extern size_t hjg_run_bytes(HjgRun *run);
/* Add the engine's statistics to the report, once. */
extern void hjg_run_report(HjgRun *run);
/* Release the job; its inputs must not be read any more. */
extern void hjg_run_end_job(HjgRun *run);
/* Free all that is not in the run's context. */
extern void hjg_run_free(HjgRun *run);

/* node_batch.c */
/* Make an empty batch, in the run's memory. */
extern HjgProbeBatch *hjg_run_batch_create(HjgRun *run);
/* Get the place for the next key, and count it. */
extern void *hjg_run_batch_key(HjgRun *run, HjgProbeBatch *batch);
/* Append contiguous keys. */
extern void hjg_run_batch_keys(HjgRun *run, HjgProbeBatch *batch, const void *keys, uint32 nrows);
/* Make these keys the batch's only ones; they stay where they are. */
extern void hjg_run_batch_borrow(HjgRun *run, HjgProbeBatch *batch, const void *keys, uint32 nrows);
/* Give a filled batch to the device process, or note that the backend joins it. */
extern void hjg_run_batch_submit(HjgRun *run, HjgProbeBatch *batch);
/*
 * Complete the next round of the batch, whose pairs are used or only counted; falls back to the backend's engine if
 * necessary. ahead: the round after it may begin, because the batch will not be narrowed.
 */
extern void hjg_run_batch_round(HjgRun *run, HjgProbeBatch *batch, bool counted_only, bool ahead);
/* Narrow the batch to the keys at these (ascending) positions, which are joined from batch->slice on. */
extern void hjg_run_batch_narrow(HjgRun *run, HjgProbeBatch *batch, const uint32 *positions, uint32 n);
/*
 * Release the job of a run that goes on with the backend's own engine. Its inputs are copied; the pairs of the current round
 * are in the run's memory already.
 */
extern void hjg_run_give_up(HjgRun *run, HjgProbeBatch *const *batches, int nbatches);
/* Make the batch empty again. */
extern void hjg_run_batch_reset(HjgRun *run, HjgProbeBatch *batch);

/* node_run.c, for shared build sides */
/* Lease a job for such keys and make its specification, for processes that attach to it; NULL and a reason if there is none. */
extern HjgJob *hjg_run_lease_job(int key_width, HjgMatchMode mode, const HjgJobHints *hints, HjgJoinSpec *spec,
								 HjgReason *reason);
/* Take part in a job that another process has leased. */
extern void hjg_run_attach(HjgRun *run, HjgJobName name, const HjgJoinSpec *spec);
/* Note that the device process does not join, for a reason that was reported before. */
extern void hjg_run_no_job(HjgRun *run, HjgReason reason);
/* Add the build keys of this process to the job. */
extern void hjg_run_add_build(HjgRun *run);
/* Submit the build side, to which all processes have added their keys; false when the job cannot be used any more. */
extern bool hjg_run_submit_build(HjgRun *run);
/* Import a segment of build keys of any process, at its address in this process. */
extern void hjg_run_import(HjgRun *run, const HjgKeySegment *segment);

/* node_fallback.c */
/* Count, log or raise that the device process does not join. */
extern void hjg_run_report_fallback(HjgReport *report, HjgReason reason);

#endif							/* HJG_RUN_H */
