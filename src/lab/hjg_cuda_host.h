/*
 * hjg_cuda_host.h
 *	  Joins of sides in host memory, by resident joins of the parts that fit the device.  Internal to
 *	  the room "lab".
 *
 *	flow	(lab_host_flow.c) probe rows go to the device in chunks, are joined with the build side
 *			there, and their pairs come back, all three at the same time (paper 003, section IV A, C)
 *	stream	(lab_host_stream.c) the build side fits the device and stays there: one flow
 *	passes	(lab_host_passes.c) neither side fits: partitions are packed into working sets
 *			(lab_host_sets.c), and each set is a separate flow
 *	copro	(lab_host_copro.c) passes; the host's threads partition both sides (lab/hjg_stage.h), and
 *			the first set flows while the probe side is partitioned (section IV B)
 *	spill	(lab_host_spill.c) passes; the device partitions both sides (lab_host_split.c), as they
 *			come in for the first set, and sends the other sets' rows back
 *
 * The laboratory uses copro or spill, whichever has the shorter predicted time (lab_host_rates.c).
 *
 * Host memory should be pinned, because other copies are slow.  The caller owns it, and the result.
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

/* One side: keys in host memory; row i is at position i. */
typedef struct HjgCudaHostSide
{
	const void *keys;
	hjg_u64		nrows;
} HjgCudaHostSide;

typedef struct HjgCudaHostJoin
{
	int			key_width;
	HjgMatchMode mode;
	const HjgCudaStrategy *strategy;	/* on the device; NULL: one that suits the sizes */
	HjgCudaHostSide build;
	HjgCudaHostSide probe;
	hjg_u64		chunk_rows;		/* probe rows of a chunk, a multiple of 4 */
	bool		sum;			/* the pairs are added up on the device and counted in the result, not returned */
	bool		serial;			/* nothing overlaps: each copy and each join is waited for (stream) */
} HjgCudaHostJoin;

/* ---- lab_host_flow.c ---- */

#define HJG_CUDA_FLOW_INS 3		/* chunks on the device that are joined or come in */

/* A chunk that came in, or is about to. */
typedef struct HjgCudaChunk
{
	HjgCudaPtr	keys;
	HjgCudaPtr	rows;			/* 0: row i is at position i */
	hjg_u64		nrows;
	hjg_u64		first_row;		/* of the batches */
} HjgCudaChunk;

/* The answer of a load besides its status. */
typedef enum HjgCudaLoad
{
	HJG_CUDA_LOADED,
	HJG_CUDA_NOT_YET,
	HJG_CUDA_NO_MORE
} HjgCudaLoad;

/* The source of chunks. */
typedef struct HjgCudaSource
{
	/*
	 * Queues the copies of the next chunk, at most chunk_rows rows, on the stream.  Answers NOT_YET, with
	 * nothing done, only if may_wait is false.
	 */
	HjgStatus	(*load) (void *arg, HjgCudaStream *stream, bool may_wait, HjgCudaChunk *chunk, HjgCudaLoad *load);
	/*
	 * Or NULL: queues work on a chunk that has come in, on the stream "work", and replaces it by the chunk
	 * to be joined, perhaps without rows.  Later copies do not overwrite the chunk too early.
	 */
	HjgStatus	(*prepare) (void *arg, HjgCudaChunk *chunk);
	void	   *arg;
} HjgCudaSource;

typedef struct HjgCudaFlow
{
	HjgCudaStreams *streams;
	HjgCudaHostResult *result;
	hjg_u64		chunk_rows;
	bool		sum;			/* as in HjgCudaHostJoin; the caller's, false after opening */
	bool		serial;
	hjg_u64		room;			/* pairs that fit one output */
	HjgCudaChunk chunks[HJG_CUDA_FLOW_INS];
	HjgCudaEvent arrived[HJG_CUDA_FLOW_INS];
	HjgCudaPtr	pairs[HJG_CUDA_OUTS];
	HjgCudaPtr	counters;
	int			turn;			/* of outputs */
	hjg_u64		piece_rows;		/* most rows joined at a time: fewer if rows have several pairs */

	/* of one run */
	const HjgCudaStrategy *strategy;
	void	   *table;
	int			key_width;
	const HjgCudaSource *source;
	hjg_u64		nloaded;
	hjg_u64		njoined;
	bool		no_more;
} HjgCudaFlow;

/* Choose the rows of a chunk for a build side of build_rows. */
extern hjg_u64 hjg_lab_flow_chunk_rows(hjg_u64 build_rows);
/* Count the device memory of a flow, with or without a column of row numbers. */
extern size_t hjg_lab_flow_bytes(int key_width, bool with_rows, hjg_u64 chunk_rows);
/* Open a flow; after an error hjg_lab_flow_close() frees its parts. */
extern HjgStatus hjg_lab_flow_open(HjgCudaFlow *flow, HjgCudaStreams *streams, int key_width, bool with_rows,
									hjg_u64 chunk_rows, HjgCudaHostResult *result);
/* Wait for all streams and close the flow. */
extern void hjg_lab_flow_close(HjgCudaFlow *flow);
/* Set the source of a run, which must stay, and queue its first chunks; they meet no table before the run. */
extern HjgStatus hjg_lab_flow_begin(HjgCudaFlow *flow, int key_width, const HjgCudaSource *source);
/*
 * Join all chunks with a table, or with NULL if the source leaves nothing to join.  HJG_ERR_MEMORY if the
 * result, or an output for a few rows' pairs, is too small.  Pairs may still be under way on return.
 */
extern HjgStatus hjg_lab_flow_run(HjgCudaFlow *flow, const HjgCudaStrategy *strategy, void *table);

/* Build a table by the wanted strategy, or by the first suitable one that takes the keys. */
extern HjgStatus hjg_lab_host_build(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build,
									 const HjgCudaStrategy *wanted, const HjgCudaStrategy **strategy, void **table);
/* Bound the device memory of any strategy that may be used. */
extern size_t hjg_lab_host_build_bytes(const HjgCudaDevice *device, const HjgCudaShape *shape,
										const HjgCudaStrategy *wanted);

/* ---- lab_host_stream.c ---- */

/* Count the device memory that the join holds at one time. */
extern size_t hjg_lab_stream_bytes(const HjgCudaDevice *device, const HjgCudaHostJoin *join);
/*
 * Join; the streams have a grant of these bytes.  All pairs are in the result on return; after an error
 * nothing writes to it any more, and its contents are void.
 */
extern HjgStatus hjg_lab_stream_join(HjgCudaStreams *streams, const HjgCudaHostJoin *join, HjgCudaHostResult *result);

/* ---- lab_host_sets.c ---- */

#define HJG_CUDA_MOST_PARTS (1 << HJG_STAGE_MOST_BITS)

/* The partitions that are on the device together; sets are joined in order. */
typedef struct HjgCudaSets
{
	int			nsets;
	int			set_of[HJG_CUDA_MOST_PARTS];
	hjg_u64		rows[HJG_CUDA_MOST_PARTS + 1];	/* of a set; at most the capacity, unless it is one
												 * partition */
} HjgCudaSets;

/* Pack partitions into sets; rows: build rows of each partition; capacity: most rows of a set. */
extern void hjg_lab_pack_sets(const hjg_u64 *rows, int nparts, hjg_u64 capacity, HjgCudaSets *sets);

/* ---- rows in host memory ---- */

/* Rows in pinned host memory: a column of keys and one of row numbers. */
typedef struct HjgCudaRun
{
	const void *keys;
	const hjg_u32 *rows;
	hjg_u64		nrows;
} HjgCudaRun;

/* ---- lab_host_near.c ---- */

#define HJG_CUDA_NEAR_SLOTS 8

/* Pinned memory on the device's NUMA node, through which rows of other nodes go. */
typedef struct HjgCudaNear
{
	bool		all;			/* all rows go through it, for comparison */
	int			node;			/* of the device */
	HjgPool    *pool;			/* its threads copy */
	char	   *memory;			/* slots */
	bool		registered;
	hjg_u64		slot_rows;
	size_t		slot_bytes;
	HjgCudaEvent read[HJG_CUDA_NEAR_SLOTS];	/* the device has read the slot */
	int			turn;
	size_t		staged_bytes;
} HjgCudaNear;

/* Count the NUMA nodes of the host. */
extern int	hjg_lab_near_nodes(void);
/* Open staging, to be closed even after an error, when nothing reads a slot any more. */
extern HjgStatus hjg_lab_near_open(HjgCudaStream *stream, int key_width, hjg_u64 slot_rows, bool all, HjgCudaNear *near);
extern void hjg_lab_near_close(HjgCudaStream *stream, HjgCudaNear *near);
/*
 * Copy a run of at most slot_rows rows to a slot, if it is far, and replace it; *read: to be noted behind the
 * device's copies from it, or NULL.
 */
extern HjgStatus hjg_lab_near_stage(HjgCudaStream *stream, HjgCudaNear *near, int key_width, HjgCudaRun *run, HjgCudaEvent *read);

/* ---- lab_host_passes.c ---- */

typedef struct HjgCudaRuns
{
	HjgCudaRun *runs;
	int			n;
	int			max;
	hjg_u64		nrows;
	int			next;			/* run, and row of it, to be sent next */
	hjg_u64		next_row;
} HjgCudaRuns;

/* Add a run; adjacent runs become one.  False without memory. */
extern bool hjg_lab_runs_add(HjgCudaRuns *runs, int key_width, HjgCudaRun run);
/* Empty the runs, keeping their memory. */
extern void hjg_lab_runs_clear(HjgCudaRuns *runs);

/*
 * Adds the runs of one side of a set to runs, which is empty; may wait for them.  HJG_ERR_MEMORY without
 * memory.
 */
typedef HjgStatus (*HjgCudaCollectFn) (void *arg, int set, bool build, HjgCudaRuns *runs);

typedef struct HjgCudaPasses
{
	HjgCudaStreams *streams;
	const HjgCudaHostJoin *join;
	hjg_u64		set_rows;		/* most build rows of a pass */
	HjgCudaCollectFn collect;
	void	   *arg;
	int			nsets;			/* the caller's; 1 until the number is known */
	HjgCudaNear *near;			/* the caller's; NULL: runs are read where they lie */
	hjg_u64		load_rows;		/* the caller's; of a chunk, at most and by default join.chunk_rows */
	HjgCudaFlow flow;
	HjgCudaSide builds[2];
	int			turn;			/* index of this pass's buffer */
	int			set;			/* of this pass */
	int			build_set;		/* of the build rows that are sent */
	HjgCudaRuns build;			/* of build_set */
	HjgCudaRuns probe;			/* of set */
	int			npasses;
} HjgCudaPasses;

/* Count the device memory that passes hold at one time. */
extern size_t hjg_lab_passes_bytes(const HjgCudaDevice *device, const HjgCudaHostJoin *join, hjg_u64 set_rows);
/* Open passes; after an error _close() frees the parts. _close() waits for all streams. */
extern HjgStatus hjg_lab_passes_open(HjgCudaPasses *passes, HjgCudaStreams *streams, const HjgCudaHostJoin *join, hjg_u64 set_rows,
									  HjgCudaCollectFn collect, void *arg, HjgCudaHostResult *result);
extern void hjg_lab_passes_close(HjgCudaPasses *passes);
/*
 * Queue the copies of up to `most` build rows of the next pass: the next cut of this set, or the next
 * set's.
 */
extern HjgStatus hjg_lab_passes_send(HjgCudaPasses *passes, hjg_u64 most);
/*
 * Go on to the next pass, with its build rows queued, if there is one.  HJG_ERR_MEMORY if its set must not
 * be cut.
 */
extern HjgStatus hjg_lab_passes_next(HjgCudaPasses *passes, bool *more);
/* Load the set's probe runs, as HjgCudaSource.load. */
extern HjgStatus hjg_lab_passes_load(HjgCudaPasses *passes, HjgCudaStream *stream, HjgCudaChunk *chunk, HjgCudaLoad *load);
/* Build, if there are build rows, and let the source's chunks flow. */
extern HjgStatus hjg_lab_passes_run(HjgCudaPasses *passes, const HjgCudaSource *source);

/* ---- lab_host_copro.c ---- */

typedef struct HjgCudaCopro
{
	HjgCudaHostJoin join;
	HjgPool    *pool;			/* partitions; excludes the calling thread */
	int			bits;			/* of the host's partitioning */
	hjg_u64		set_rows;		/* most build rows on the device at a time */
	hjg_u32		block_rows;		/* a multiple of HJG_STAGE_GROUP, at most join.chunk_rows */
	HjgStageMemory *memory;		/* room for both sides: hjg_stage_blocks() */
	HjgCudaNear *near;			/* or NULL: rows go to the device from where they lie */
	/* out */
	int			npasses;		/* sets, with each cut of a set counted */
	hjg_u64		partitioned_ns;	/* from the start until all rows were in their blocks */
} HjgCudaCopro;

/* Count the device memory as for hjg_lab_stream_join(); batches of the result begin at row 0. */
extern size_t hjg_lab_copro_bytes(const HjgCudaDevice *device, const HjgCudaCopro *copro);
/* Join; HJG_ERR_MEMORY also if one partition exceeds a set and the mode is not ALL. */
extern HjgStatus hjg_lab_copro_join(HjgCudaStreams *streams, HjgCudaCopro *copro, HjgCudaHostResult *result);

/* ---- lab_host_split.c ---- */

typedef struct HjgCudaSplit
{
	HjgCudaStreams *streams;
	int			key_width;
	int			bits;
	HjgCudaPtr	counts;			/* with cursors behind */
	HjgCudaSide rows[HJG_CUDA_OUTS];	/* ordered rows */
	HjgCudaEvent left[HJG_CUDA_OUTS];	/* rows were copied out */
	int			turn;			/* index of the last split's rows */
} HjgCudaSplit;

extern size_t hjg_lab_split_bytes(int key_width, int bits, hjg_u64 chunk_rows);
/* Open a split; after an error _close() frees its parts.  All streams must be waited for before _close(). */
extern HjgStatus hjg_lab_split_open(HjgCudaSplit *split, HjgCudaStreams *streams, int key_width, int bits, hjg_u64 chunk_rows);
extern void hjg_lab_split_close(HjgCudaSplit *split);
/*
 * Count the rows of each partition of a side of at most chunk_rows rows: counts[2^bits].  Waits for the
 * stream "work".
 */
extern HjgStatus hjg_lab_split_count(HjgCudaSplit *split, const HjgCudaSide *side, hjg_u64 *counts);
/*
 * Queue the ordering of the counted rows into the other rows[turn]: first partitions that are not
 * `behind`, then the others.  Without row numbers the rows are numbered from first_row.
 */
extern HjgStatus hjg_lab_split_rows(HjgCudaSplit *split, const HjgCudaSide *side, hjg_u64 first_row, const hjg_u64 *counts,
									 const bool *behind);
/* Queue the copies of ordered rows [from, from + nrows) to host memory, on out[turn]. */
extern HjgStatus hjg_lab_split_send(HjgCudaSplit *split, hjg_u64 from, hjg_u64 nrows, void *keys, hjg_u32 *rows);

/* ---- lab_host_spill.c ---- */

typedef struct HjgCudaSpill
{
	HjgCudaHostJoin join;		/* each side has fewer than 2^32 rows */
	int			bits;			/* of the partitioning, at most HJG_K_SPLIT_BITS */
	hjg_u64		set_rows;		/* most build rows on the device at a time */
	char	   *memory;			/* pinned, 64-byte aligned: for rows that leave the device */
	size_t		memory_bytes;
	/* out */
	int			npasses;		/* sets, with each cut of a set counted */
	int			nevicted;		/* partitions that were chosen to stay on the device and did not */
	size_t		spilled_bytes;
} HjgCudaSpill;

/* Choose the rows of a chunk for a build side of build_rows. */
extern hjg_u64 hjg_lab_spill_chunk_rows(hjg_u64 build_rows);
/* Bound the memory for rows that leave the device. */
extern size_t hjg_lab_spill_memory(const HjgCudaSpill *spill);
/* Count the device memory as for hjg_lab_copro_join(). */
extern size_t hjg_lab_spill_bytes(const HjgCudaDevice *device, const HjgCudaSpill *spill);
/* Join; HJG_ERR_MEMORY also if the memory does not suffice. */
extern HjgStatus hjg_lab_spill_join(HjgCudaStreams *streams, HjgCudaSpill *spill, HjgCudaHostResult *result);

/* ---- lab_host_rates.c ---- */

/* Measured rates of a machine. */
typedef struct HjgCudaRates
{
	double		in_gbs;			/* GB/s of copies in alone */
	double		out_gbs;		/* out alone */
	double		both_gbs;		/* each way, both ways at once */
	double		block_gbs;		/* in alone, in blocks of copro */
	double		stage_ns;		/* time of the pool to partition a row */
} HjgCudaRates;

/* Predict the times of joins with one match a row, to choose the shorter. */
extern double hjg_lab_copro_ns(const HjgCudaRates *rates, const HjgCudaHostJoin *join, hjg_u64 set_rows);
extern double hjg_lab_spill_ns(const HjgCudaRates *rates, const HjgCudaHostJoin *join, hjg_u64 set_rows);

#endif							/* HJG_CUDA_HOST_H */
