/*
 * hjg_cuda_host.h
 *	  Joins of sides that lie in host memory, by resident joins of what fits the device.
 *	  Internal to the room "lab".
 *
 * flow		(lab_host_flow.c) probe rows go to the device in chunks, are joined with a build side that is
 *			there, and their pairs come back, all three at the same time (paper 003, section IV A and C)
 * stream	(lab_host_stream.c) the build side fits the device and stays there: one flow
 * passes	(lab_host_passes.c) neither side does: partitions are packed into working sets (lab_host_sets.c), and each
 *			set is a flow of its own
 * copro	(lab_host_copro.c) passes; the host's threads partition both sides (lab/hjg_stage.h), and the first
 *			set flows while the probe side is partitioned (section IV B)
 * spill	(lab_host_spill.c) passes; the device partitions both sides (lab_host_split.c), as they come in for the
 *			first set, and sends the other sets' rows back
 *
 * Of copro and spill the one that is predicted to take less time is taken (lab_host_rates.c).
 *
 * Host memory is pinned, or copies are slow.  Who calls owns it, and the result.
 */
#ifndef HJG_CUDA_HOST_H
#define HJG_CUDA_HOST_H

#include "device/hjg_cuda_join.h"
#include "lab/hjg_cuda_paper_args.h"
#include "lab/hjg_stage.h"

/* Pairs that came back together; their probe rows count from first_row. */
typedef struct HjgCudaBatch
{
	hjg_u64		first_row;
	hjg_u64		first_pair;
	hjg_u64		npairs;
} HjgCudaBatch;

typedef struct HjgCudaHostResult
{
	HjgPair    *pairs;			/* capacity */
	hjg_u64		capacity;
	hjg_u64		npairs;
	HjgCudaBatch *batches;		/* max_batches */
	int			nbatches;
	int			max_batches;
} HjgCudaHostResult;

/* One side: keys in host memory; row i is at place i. */
typedef struct HjgCudaHostSide
{
	const void *keys;
	hjg_u64		nrows;
} HjgCudaHostSide;

typedef struct HjgCudaHostJoin
{
	int			key_width;
	HjgMatchMode mode;
	const HjgCudaStrategy *strategy;	/* on the device; NULL: what suits the sizes */
	HjgCudaHostSide build;
	HjgCudaHostSide probe;
	hjg_u64		chunk_rows;		/* probe rows that go through at a time, a multiple of 4 */
} HjgCudaHostJoin;

/* ---- lab_host_flow.c ---- */

#define HJG_CUDA_FLOW_INS 3		/* chunks on the device that are joined or come in */

/* A chunk that came in, or is about to. */
typedef struct HjgCudaChunk
{
	HjgCudaPtr	keys;
	HjgCudaPtr	rows;			/* 0: row i is at place i */
	hjg_u64		nrows;
	hjg_u64		first_row;		/* of the batches */
} HjgCudaChunk;

/* What a load has to say besides its status. */
typedef enum HjgCudaLoad
{
	HJG_CUDA_LOADED,
	HJG_CUDA_NOT_YET,
	HJG_CUDA_NO_MORE
} HjgCudaLoad;

/* Where chunks come from. */
typedef struct HjgCudaSource
{
	/*
	 * Queues the copies of the next chunk, at most chunk_rows rows, on the stream.  NOT_YET, with nothing done, is an
	 * answer unless may_wait.
	 */
	HjgStatus	(*load) (void *arg, HjgCudaStream *stream, bool may_wait, HjgCudaChunk *chunk, HjgCudaLoad *load);
	/*
	 * Or NULL: what is done with a chunk when it has come in, queued on the stream "work"; puts what is to be joined into
	 * its place, perhaps no rows. Copies that are queued after it do not overwrite the chunk too early.
	 */
	HjgStatus	(*prepare) (void *arg, HjgCudaChunk *chunk);
	void	   *arg;
} HjgCudaSource;

typedef struct HjgCudaFlow
{
	HjgCudaStreams *streams;
	HjgCudaHostResult *result;
	hjg_u64		chunk_rows;
	hjg_u64		room;			/* pairs that one output has room for */
	HjgCudaChunk chunks[HJG_CUDA_FLOW_INS];
	HjgCudaEvent arrived[HJG_CUDA_FLOW_INS];
	HjgCudaPtr	pairs[HJG_CUDA_OUTS];
	HjgCudaPtr	counters;
	int			turn;			/* of outputs */
	hjg_u64		piece_rows;		/* most rows that are joined at a time: fewer where rows have several pairs */

	/* of one run */
	const HjgCudaStrategy *strategy;
	void	   *table;
	int			key_width;
	const HjgCudaSource *source;
	hjg_u64		nloaded;
	hjg_u64		njoined;
	bool		no_more;
} HjgCudaFlow;

/* Choose the rows of a chunk for a build side of so many rows. */
extern hjg_u64 hjg_lab_flow_chunk_rows(hjg_u64 build_rows);
/* Count the device memory that a flow has, with or without a column of row numbers. */
extern size_t hjg_lab_flow_bytes(int key_width, bool with_rows, hjg_u64 chunk_rows);
/* After an error what there is goes with the flow. */
extern HjgStatus hjg_lab_flow_open(HjgCudaFlow *flow, HjgCudaStreams *streams, int key_width, bool with_rows,
									hjg_u64 chunk_rows, HjgCudaHostResult *result);
/* Waits for all streams. */
extern void hjg_lab_flow_close(HjgCudaFlow *flow);
/* Name the source of a run, which stays, and queue its first chunks; what comes in meets no table before the run. */
extern HjgStatus hjg_lab_flow_begin(HjgCudaFlow *flow, int key_width, const HjgCudaSource *source);
/*
 * Join all chunks with a table; or, where the source leaves nothing to join, with none (NULL).  HJG_ERR_MEMORY where the
 * result, or a few rows' pairs an output, have too little room.  Pairs may be still on their way when this returns.
 */
extern HjgStatus hjg_lab_flow_run(HjgCudaFlow *flow, const HjgCudaStrategy *strategy, void *table);

/* Build a table by the strategy, or by the first of those that suit that takes the keys. */
extern HjgStatus hjg_lab_host_build(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build,
									 const HjgCudaStrategy *wanted, const HjgCudaStrategy **strategy, void **table);
/* Bound the device memory of any strategy that may be taken for it. */
extern size_t hjg_lab_host_build_bytes(const HjgCudaDevice *device, const HjgCudaShape *shape,
										const HjgCudaStrategy *wanted);

/* ---- lab_host_stream.c ---- */

/* Count the device memory that the join has at one time. */
extern size_t hjg_lab_stream_bytes(const HjgCudaDevice *device, const HjgCudaHostJoin *join);
/*
 * Join; the streams have a grant of so much.  All pairs are in the result when this returns; after an error
 * nothing writes to it any more, and what is in it is void.
 */
extern HjgStatus hjg_lab_stream_join(HjgCudaStreams *streams, const HjgCudaHostJoin *join, HjgCudaHostResult *result);

/* ---- lab_host_sets.c ---- */

#define HJG_CUDA_MOST_PARTS (1 << HJG_STAGE_MOST_BITS)

/* Which partitions are on the device together; sets are joined in order. */
typedef struct HjgCudaSets
{
	int			nsets;
	int			set_of[HJG_CUDA_MOST_PARTS];
	hjg_u64		rows[HJG_CUDA_MOST_PARTS + 1];	/* of a set; at most the capacity, unless it is one partition */
} HjgCudaSets;

/* rows: build rows of each partition; capacity: most of a set. */
extern void hjg_lab_pack_sets(const hjg_u64 *rows, int nparts, hjg_u64 capacity, HjgCudaSets *sets);

/* ---- lab_host_passes.c ---- */

/* Rows in pinned host memory: a column of keys and one of row numbers. */
typedef struct HjgCudaRun
{
	const void *keys;
	const hjg_u32 *rows;
	hjg_u64		nrows;
} HjgCudaRun;

typedef struct HjgCudaRuns
{
	HjgCudaRun *runs;
	int			n;
	int			max;
	hjg_u64		nrows;
	int			next;			/* run and row of it that are sent next */
	hjg_u64		next_row;
} HjgCudaRuns;

/* Runs that lie behind each other become one.  False when memory is short. */
extern bool hjg_lab_runs_add(HjgCudaRuns *runs, int key_width, HjgCudaRun run);
/* Keeps its memory. */
extern void hjg_lab_runs_clear(HjgCudaRuns *runs);

/* The runs of one side of a set, added to what is empty; may wait for them.  HJG_ERR_MEMORY when memory is short. */
typedef HjgStatus (*HjgCudaCollectFn) (void *arg, int set, bool build, HjgCudaRuns *runs);

typedef struct HjgCudaPasses
{
	HjgCudaStreams *streams;
	const HjgCudaHostJoin *join;
	hjg_u64		set_rows;		/* most build rows of a pass */
	HjgCudaCollectFn collect;
	void	   *arg;
	int			nsets;			/* the caller's; 1 until more are known */
	hjg_u64		load_rows;		/* the caller's; of a chunk, at most and by default join.chunk_rows */
	HjgCudaFlow flow;
	HjgCudaSide builds[2];
	int			turn;			/* which of them is this pass's */
	int			set;			/* of this pass, ... */
	int			build_set;		/* ... and of the build rows that are sent */
	HjgCudaRuns build;			/* of build_set */
	HjgCudaRuns probe;			/* of set */
	int			npasses;
} HjgCudaPasses;

/* Count the device memory that passes have at one time. */
extern size_t hjg_lab_passes_bytes(const HjgCudaDevice *device, const HjgCudaHostJoin *join, hjg_u64 set_rows);
/* After an error what there is goes with _close(), which waits for all streams. */
extern HjgStatus hjg_lab_passes_open(HjgCudaPasses *passes, HjgCudaStreams *streams, const HjgCudaHostJoin *join, hjg_u64 set_rows,
									  HjgCudaCollectFn collect, void *arg, HjgCudaHostResult *result);
extern void hjg_lab_passes_close(HjgCudaPasses *passes);
/* Queue the copies of up to `most` build rows of the next pass: the next cut of this set, or the next set's. */
extern HjgStatus hjg_lab_passes_send(HjgCudaPasses *passes, hjg_u64 most);
/* Go on to the next pass, its build rows queued, if there is one.  HJG_ERR_MEMORY where its set must not be cut. */
extern HjgStatus hjg_lab_passes_next(HjgCudaPasses *passes, bool *more);
/* HjgCudaSource.load of the set's probe runs. */
extern HjgStatus hjg_lab_passes_load(HjgCudaPasses *passes, HjgCudaStream *stream, HjgCudaChunk *chunk, HjgCudaLoad *load);
/* Build, where there are build rows, and let the source's chunks flow. */
extern HjgStatus hjg_lab_passes_run(HjgCudaPasses *passes, const HjgCudaSource *source);

/* ---- lab_host_copro.c ---- */

typedef struct HjgCudaCopro
{
	HjgCudaHostJoin join;
	HjgPool    *pool;			/* partitions; not the thread that calls */
	int			bits;			/* of the host's partitioning */
	hjg_u64		set_rows;		/* most build rows on the device at a time */
	hjg_u32		block_rows;		/* a multiple of HJG_STAGE_GROUP, at most join.chunk_rows */
	HjgStageMemory *memory;		/* room for both sides: hjg_stage_blocks() */
	/* out */
	int			npasses;		/* sets, cut ones counted by their cuts */
	hjg_u64		partitioned_ns;	/* from the start until all rows were in their blocks */
} HjgCudaCopro;

/* Count as for hjg_lab_stream_join(); batches of the result begin at row 0. */
extern size_t hjg_lab_copro_bytes(const HjgCudaDevice *device, const HjgCudaCopro *copro);
/* HJG_ERR_MEMORY also where one partition is more than a set and the mode not ALL. */
extern HjgStatus hjg_lab_copro_join(HjgCudaStreams *streams, HjgCudaCopro *copro, HjgCudaHostResult *result);

/* ---- lab_host_split.c ---- */

typedef struct HjgCudaSplit
{
	HjgCudaStreams *streams;
	int			key_width;
	int			bits;
	HjgCudaPtr	counts;			/* and cursors behind them */
	HjgCudaSide rows[HJG_CUDA_OUTS];	/* ordered rows */
	HjgCudaEvent left[HJG_CUDA_OUTS];	/* rows were copied out */
	int			turn;			/* where the last split went */
} HjgCudaSplit;

extern size_t hjg_lab_split_bytes(int key_width, int bits, hjg_u64 chunk_rows);
/* After an error what there is goes with _close(), before which all streams are waited for. */
extern HjgStatus hjg_lab_split_open(HjgCudaSplit *split, HjgCudaStreams *streams, int key_width, int bits, hjg_u64 chunk_rows);
extern void hjg_lab_split_close(HjgCudaSplit *split);
/* Count the rows of each partition of a side of at most chunk_rows rows: counts[2^bits].  Waits for the stream "work". */
extern HjgStatus hjg_lab_split_count(HjgCudaSplit *split, const HjgCudaSide *side, hjg_u64 *counts);
/*
 * Queue the ordering of what was counted into rows[turn], another turn than before: partitions that are not `behind`, then
 * those that are.  Without row numbers the rows are numbered from first_row.
 */
extern HjgStatus hjg_lab_split_rows(HjgCudaSplit *split, const HjgCudaSide *side, hjg_u64 first_row, const hjg_u64 *counts,
									 const bool *behind);
/* Queue the copies of ordered rows [from, from + nrows) to host memory, on out[turn]. */
extern HjgStatus hjg_lab_split_send(HjgCudaSplit *split, hjg_u64 from, hjg_u64 nrows, void *keys, hjg_u32 *rows);

/* ---- lab_host_spill.c ---- */

typedef struct HjgCudaSpill
{
	HjgCudaHostJoin join;		/* each side less than 2^32 rows */
	int			bits;			/* of the partitioning, at most HJG_K_SPLIT_BITS */
	hjg_u64		set_rows;		/* most build rows on the device at a time */
	char	   *memory;			/* pinned, 64-byte aligned: for rows that do not stay on the device */
	size_t		memory_bytes;
	/* out */
	int			npasses;		/* sets, cut ones counted by their cuts */
	int			nevicted;		/* partitions that were to stay on the device and did not */
	size_t		spilled_bytes;
} HjgCudaSpill;

/* Choose the rows of a chunk for a build side of so many rows. */
extern hjg_u64 hjg_lab_spill_chunk_rows(hjg_u64 build_rows);
/* Enough memory for whatever does not stay. */
extern size_t hjg_lab_spill_memory(const HjgCudaSpill *spill);
/* Count as for hjg_lab_copro_join(). */
extern size_t hjg_lab_spill_bytes(const HjgCudaDevice *device, const HjgCudaSpill *spill);
/* HJG_ERR_MEMORY also where the memory does not suffice. */
extern HjgStatus hjg_lab_spill_join(HjgCudaStreams *streams, HjgCudaSpill *spill, HjgCudaHostResult *result);

/* ---- lab_host_rates.c ---- */

/* What a machine does in a second, or in how many of them. */
typedef struct HjgCudaRates
{
	double		in_gbs;			/* GB/s of copies in alone, ... */
	double		out_gbs;		/* ... out alone, ... */
	double		both_gbs;		/* ... each way, both ways at once, ... */
	double		block_gbs;		/* ... and in alone, in blocks of copro */
	double		stage_ns;		/* that the pool takes to partition a row */
} HjgCudaRates;

/* Predicted times of joins with one match a row; who has the choice takes the lesser. */
extern double hjg_lab_copro_ns(const HjgCudaRates *rates, const HjgCudaHostJoin *join, hjg_u64 set_rows);
extern double hjg_lab_spill_ns(const HjgCudaRates *rates, const HjgCudaHostJoin *join, hjg_u64 set_rows);

#endif							/* HJG_CUDA_HOST_H */
