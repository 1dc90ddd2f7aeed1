/*
 * hjg_cuda_join.h
 *	  A join of the driver "cuda": declarations that its files share.
 *
 * Build (device_cuda_build.c): keys are copied in from the arena.  Then the strategies that suit the sizes
 * are tried, by ascending predicted time, until one takes the keys (HjgCudaStrategy).  Keys that none
 * takes become a bucket-sorted table ("csr", hjg_csr.h), which takes any join.  This is also possible
 * later, from the build keys that a strategy keeps.
 *
 * A build side that exceeds the device's memory is joined in several passes (device_cuda_passes.c), each
 * of which is a join as below.
 *
 * Probe: a batch is processed in chunks, over streams that work at the same time: one copies in, one
 * joins, two copy out alternately.  There are two methods:
 *	once		(device_cuda_once.c) pairs are written in one pass, in any order. A chunk whose
 *				pairs do not fit is void: the round ends before it, or the chunk is made smaller.
 *	windows		(device_cuda_window.c) for the csr table: a window of rows is counted, cut where
 *				the room ends, and written in canonical order. A row with any number of matches
 *				can be cut and continued in the next round.
 * Only windows cut rows and return slices of their matches (HjgCursor), and only they are efficient for
 * rows with very many matches: a join that meets such rows drops its strategy for good.
 *
 * If probes only read the table (HjgCudaStrategy.shared, csr), several batches are probed at a time, each
 * through a further join with its own streams and buffers (device_cuda_concurrent.c).
 */
#ifndef HJG_CUDA_JOIN_H
#define HJG_CUDA_JOIN_H

#include "device/hjg_cuda.h"
#include "layout/hjg_csr.h"
#include "layout/hjg_cuda_args.h"
#include "model/hjg_model.h"

/* ---- device_cuda_region.c: the arena as pinned memory ---- */

/* Set the arena that joins read and write; NULL: none. */
extern void hjg_cuda_region_open(const HjgArenaView *view);
/*
 * Called around each operation on memory of the arena, which is registered if possible and stays so.
 * Other memory is copied through the driver's own buffers.
 */
extern void hjg_cuda_region_enter(void);
extern void hjg_cuda_region_leave(void);
extern void hjg_cuda_region_pin(const void *ptr);
/* Unregister the memory when nothing was copied for idle_ms. */
extern void hjg_cuda_region_trim(unsigned idle_ms);

/* Part of a row. */
typedef enum HjgCudaOfRow
{
	HJG_CUDA_KEY,
	HJG_CUDA_PAYLOAD
} HjgCudaOfRow;

/* Copy this part of rows [row, row + n) of a batch to the device; segments are ascending and contiguous. */
extern HjgStatus hjg_cuda_bring_rows(HjgCudaStream *stream, HjgCudaOfRow what, size_t width, HjgCudaPtr to,
									 const HjgSegment *segments, int nsegments, hjg_u64 row, hjg_u64 n);
/*
 * Count queued bytes of a build side, and wait when they are many, so that cancellation is noticed.
 * *queued_bytes is 0 at first.
 */
extern HjgStatus hjg_cuda_pace(HjgCudaStream *stream, size_t *queued_bytes, size_t more_bytes);

/* ---- device_cuda_streams.c: streams of a join ---- */

#define HJG_CUDA_OUTS 2

/* Results of kernels for the host, in memory that both can access. */
typedef struct HjgCudaResultHeader
{
	hjg_u64		npairs;
	HjgCsrCut	cut;
	HjgCsrFacts facts;
	hjg_u64		sums[2];		/* of the round: pairs, and their columns */
	hjg_u32		counts[256];	/* of partitions, in the laboratory */
} HjgCudaResultHeader;

/*
 * The streams of a join.  Sets are kept, because creating streams and pinned memory takes longer than a
 * small join.
 */
typedef struct HjgCudaStreams
{
	HjgCudaStream in;
	HjgCudaStream work;
	HjgCudaStream out[HJG_CUDA_OUTS];
	HjgCudaResultHeader *header;
	struct HjgCudaStreams *next;
} HjgCudaStreams;

extern HjgStatus hjg_cuda_streams_take(HjgCudaDevice *device, const HjgEnv *env, HjgCudaGrant *grant,
									 HjgCudaStreams **streams);
/* Wait for all queued work and return the streams. */
extern void hjg_cuda_streams_give(HjgCudaStreams *streams);
extern HjgStatus hjg_cuda_streams_wait(HjgCudaStreams *streams);
/*
 * Queue the write of a count to the result header; unlike a copy, it does not wait behind copies of pairs
 * (cuda_flow.cu).
 */
extern HjgStatus hjg_cuda_post_count(HjgCudaStream *stream, HjgCudaPtr from, hjg_u64 *to);
/* Add up the device's time in a phase since the streams were taken. */
extern hjg_u64 hjg_cuda_streams_ns(const HjgCudaStreams *streams, HjgCudaPhase phase);

/* ---- device_cuda_csr.c: the table ---- */

typedef struct HjgCudaCsr
{
	int			width;
	HjgCsrTable table;
	HjgCudaPtr	keys;			/* the blocks that the table points to */
	HjgCudaPtr	rows;
	HjgCudaPtr	start;
	bool		unique;			/* no key occurs twice */
} HjgCudaCsr;

/* Compute the most device memory during the build of a table, and the memory of a table. */
extern size_t hjg_cuda_csr_build_bytes(int width, hjg_u64 nrows);
extern size_t hjg_cuda_csr_bytes(int width, hjg_u64 nrows);
/*
 * Build the table; csr already has keys and rows, mixed and numbered in ascending order.  After an error
 * _free() frees all three blocks.  facts lies in memory that the device can write to, and is complete on
 * return.
 */
extern HjgStatus hjg_cuda_csr_build(HjgCudaStream *stream, HjgCsrFacts *facts, HjgCudaCsr *csr, hjg_u64 nrows);
extern void hjg_cuda_csr_free(HjgCudaStream *stream, HjgCudaCsr *csr);

/* Compute exclusive sums of n entries in place; sums has room for hjg_cuda_scan_entries(n). */
extern size_t hjg_cuda_scan_entries(hjg_u64 n);
extern HjgStatus hjg_cuda_scan(HjgCudaStream *stream, HjgCudaPtr data, hjg_u64 n, HjgCudaPtr sums);

/* Find the index of a key width in tables of three kernels. */
static inline int
hjg_cuda_width_ix(int width)
{
	return width == HJG_KEY_WIDTH_4 ? 0 : width == HJG_KEY_WIDTH_8 ? 1 : 2;
}

#define HJG_CUDA_KERNELS(variable, image_name, stem) \
	static HjgCudaKernel variable[3] = { \
		{.image = image_name, .name = stem "_4"}, \
		{.image = image_name, .name = stem "_8"}, \
		{.image = image_name, .name = stem "_16"}, \
	}

/* Count blocks of block_threads for n threads. */
static inline unsigned
hjg_cuda_blocks(hjg_u64 n, unsigned block_threads)
{
	return (unsigned) ((n + block_threads - 1) / block_threads);
}

#define HJG_CUDA_BLOCK 256		/* threads of a block of cuda_csr.cu */

typedef struct HjgCudaBuildPasses HjgCudaBuildPasses;

/* Payload columns of a join: device_cuda_payload.c. */
typedef struct HjgCudaPayload
{
	HjgPayloadBytes	bytes;			/* of a row; 0 for a side that is not gathered */
	hjg_u64		build_limit;	/* highest build row number + 1 */
	hjg_u32		sides;			/* gathered in this round: HJG_SIDE_BIT() */
	HjgCudaPtr	build;			/* by row number */
	HjgCudaPtr	probe[2];		/* of a chunk; used alternately, as keys are */
	HjgCudaPtr	gathered[HJG_SIDES][HJG_CUDA_OUTS];	/* columns beside the pairs of a chunk */
} HjgCudaPayload;

/* Buffers for a window of probe rows. */
typedef struct HjgCudaWindowBuffers
{
	bool		allocated;
	HjgCudaPtr	offsets;		/* pairs before each row */
	HjgCudaPtr	firsts;			/* first match of each row */
	HjgCudaPtr	sums;			/* of the scan of offsets */
} HjgCudaWindowBuffers;

typedef struct HjgCudaJoin
{
	HjgCudaDevice *device;
	const HjgEnv *env;
	HjgJoinSpec spec;
	HjgCudaGrant grant;
	HjgCudaStreams *streams;
	bool		concurrent;		/* the table stays as it was built, so further joins may probe it */
	struct HjgCudaJoin *owner;	/* of a further join: the one that owns its table */
	struct HjgCudaJoin *further[HJG_MAX_STREAMS - 1];
	int			nfurther;		/* grows while other threads collect statistics */

	/* the table */
	const HjgCudaStrategy *strategy;	/* or NULL: the csr table */
	void	   *table;			/* of the strategy */
	HjgCudaSide build;			/* raw keys, as long as there is a strategy */
	HjgCudaCsr	csr;
	HjgCudaPayload payload;			/* a further join borrows the build columns, too */

	HjgCudaBuildPasses *passes;		/* not NULL: several build passes; the members below are unused */
	bool		bounded;		/* the grant has room for the csr table */
	hjg_u32		chunk_rows;		/* probe rows of a chunk */
	double		row_pairs;		/* pairs a probe row in the last chunk that was joined once */
	bool		chunks;			/* the next members are allocated */
	HjgCudaPtr	keys[2];		/* raw keys of a chunk, used alternately */
	HjgCudaPtr	pairs[HJG_CUDA_OUTS];	/* of a chunk, used alternately */
	HjgCudaPtr	small;			/* a HjgCudaResultHeader on the device */
	HjgCudaPtr	numbers;		/* with a strategy: row numbers of a chunk */
	HjgCudaWindowBuffers windows;
} HjgCudaJoin;

/* ---- device_cuda_build.c ---- */

/*
 * Build the table.  Segments ascend by row number; their contents come from the arena and are not trusted.
 * After an error the caller frees the join.
 */
extern HjgStatus hjg_cuda_build_join(HjgCudaJoin *join, const HjgSegment *segments, int nsegments);
/* Set the place of calibrated costs; NULL: none. */
extern void hjg_cuda_costs_open(const HjgControl *control);
/* Read the machine's costs with the device's own, or the defaults. */
extern HjgUnitCosts hjg_cuda_costs(const HjgCudaDevice *device);
/* True if nrows build rows fit the budget, whatever their keys. */
extern bool hjg_cuda_build_fits(HjgCudaJoin *join, hjg_u64 nrows);
/* Replace the strategy by the csr table.  Waits for all streams. */
extern HjgStatus hjg_cuda_use_csr(HjgCudaJoin *join);
/* Free everything that the join itself has on the device; further joins and passes are freed before. */
extern void hjg_cuda_release(HjgCudaJoin *join);
/* Write row numbers first_row, first_row + 1, ... */
extern HjgStatus hjg_cuda_number_rows(HjgCudaStream *stream, HjgCudaPtr rows, hjg_u64 n, hjg_u32 first_row);

/* ---- device_cuda_chunks.c ---- */

/* Sizes that tests make small, while no join exists, to reach every path with few rows. */
typedef struct HjgCudaTuning
{
	hjg_u32		most_chunk_rows;	/* probe rows of a chunk, ... */
	hjg_u32		least_chunk_rows;	/* ... and for a small budget */
} HjgCudaTuning;

extern HjgCudaTuning hjg_cuda_tuning;

/* Compute the memory of chunks, and of windows. */
extern size_t hjg_cuda_chunk_bytes(int width, hjg_u32 rows);
extern size_t hjg_cuda_window_bytes(hjg_u32 rows);
/*
 * Allocate the buffers of chunks, and of windows, when first needed; after an error they are freed with
 * the join.
 */
extern HjgStatus hjg_cuda_alloc_chunks(HjgCudaJoin *join);
extern HjgStatus hjg_cuda_alloc_windows(HjgCudaJoin *join);
/* Free both; no queued work may use them. */
extern void hjg_cuda_free_chunks(HjgCudaJoin *join);

/* ---- device_cuda_probe.c ---- */

/*
 * Probe rows from *at on of a batch of nrows rows and append the pairs to the result; copies may still be
 * queued on return.
 */
extern HjgStatus hjg_cuda_probe_rows(HjgCudaJoin *join, const HjgSegment *segments, int nsegments, hjg_u64 nrows,
									 HjgCursor *at, HjgResult *result);

/* ---- device_cuda_send.c ---- */

/* Begin a round, with sums of 0. */
extern HjgStatus hjg_cuda_send_begin(HjgCudaJoin *join, const HjgResult *result);
/*
 * Queue, on the stream that copies the buffer out: the sums of its npairs pairs and their columns, and
 * their copies to the end of the result.  The caller has made this stream wait for the work that writes
 * them.
 */
extern HjgStatus hjg_cuda_send_pairs(HjgCudaJoin *join, int buffer, HjgResult *result, hjg_u64 npairs);
/* Add the sums to the result's, after all copies have ended. */
extern HjgStatus hjg_cuda_send_end(HjgCudaJoin *join, HjgResult *result);

/* ---- device_cuda_once.c ---- */

/*
 * Probe from *cursor on, which is at the beginning of a row.  single: no row has more than one pair.
 * Otherwise HJG_ERR_INPUT, with nothing changed, when not even a few rows fit the result.
 */
extern HjgStatus hjg_cuda_probe_once(HjgCudaJoin *join, HjgMatchMode mode, bool single, const HjgSegment *segments,
									 int nsegments, hjg_u64 nrows, HjgCursor *cursor, HjgResult *result);

/* ---- device_cuda_window.c ---- */

/*
 * Probe from any cursor, in canonical order, by windows of rows whose pairs are counted first; a row may
 * be cut.
 */
extern HjgStatus hjg_cuda_probe_windows(HjgCudaJoin *join, const HjgSegment *segments, int nsegments, hjg_u64 nrows,
										HjgCursor *cursor, HjgResult *result);

/* ---- device_cuda_concurrent.c ---- */

/* Make a further join, as HjgDriver.open_stream; the context is current. */
extern HjgCudaJoin *hjg_cuda_concurrent_open(HjgCudaJoin *join, const HjgEnv *env);
/* Free the further joins; none may be in use. */
extern void hjg_cuda_concurrent_free(HjgCudaJoin *join);
/* Add up the statistics of a join and its further joins. */
extern void hjg_cuda_join_stats(const HjgCudaJoin *join, HjgJobStats *stats);

/* ---- device_cuda_payload.c ---- */

/*
 * Plan the columns to gather, for a build side of nrows rows with numbers below limit.  The caller drops
 * them if their memory, known with chunk_rows, is too much.
 */
extern void hjg_cuda_payload_plan(HjgCudaJoin *join, const HjgSegment *segments, int nsegments, hjg_u64 nrows, hjg_u64 limit);
extern size_t hjg_cuda_payload_bytes(const HjgCudaJoin *join);
/* Compute the memory that each further join needs for itself; it borrows the rest. */
extern size_t hjg_cuda_payload_chunk_bytes(const HjgCudaJoin *join);
extern void hjg_cuda_payload_borrow(HjgCudaJoin *further);
extern void hjg_cuda_payload_drop(HjgCudaJoin *join);
/*
 * Copy build columns to the device; allocate buffers of chunks together with these.  After an error they
 * are freed with the join.
 */
extern HjgStatus hjg_cuda_payload_build(HjgCudaJoin *join, const HjgSegment *segments, int nsegments);
extern HjgStatus hjg_cuda_payload_alloc(HjgCudaJoin *join);
extern void hjg_cuda_payload_free(HjgCudaJoin *join);
/* Begin a round; returns the sides whose columns it gathers. */
extern hjg_u32 hjg_cuda_payload_round(HjgCudaJoin *join, const HjgSegment *segments, int nsegments);
/* Queue the copy of the probe side's columns of rows [row, row + n) into this buffer. */
extern HjgStatus hjg_cuda_payload_load(HjgCudaJoin *join, HjgCudaStream *stream, int buffer, const HjgSegment *segments,
									 int nsegments, hjg_u64 row, hjg_u64 n);
/*
 * Queue, behind the work that writes the buffer's pairs, the gathering of their columns; probe_buffer
 * holds the columns of probe rows [first_row, first_row + nrows).
 */
extern HjgStatus hjg_cuda_payload_gather(HjgCudaJoin *join, int buffer, hjg_u64 npairs, int probe_buffer, hjg_u64 first_row,
									   hjg_u64 nrows);
/* Launch the kernel alone. */
extern HjgStatus hjg_cuda_gather(HjgCudaStream *stream, const HjgKGather *gather);

/* ---- device_cuda_passes.c ---- */

/*
 * Divide a build side that exceeds the budget into passes that fit: join->passes.  HJG_ERR_MEMORY when
 * that is not worthwhile.  The keys stay in the segments until the join ends.
 */
extern HjgStatus hjg_cuda_passes_open(HjgCudaJoin *join, const HjgSegment *segments, int nsegments);
/* Run a round; all pairs are in the result on return. */
extern HjgStatus hjg_cuda_passes_probe(HjgCudaBuildPasses *passes, const HjgSegment *segments, int nsegments, hjg_u64 nrows,
									  HjgCursor *at, HjgResult *result);
extern void hjg_cuda_passes_stats(const HjgCudaBuildPasses *passes, HjgJobStats *stats);
extern void hjg_cuda_passes_close(HjgCudaBuildPasses *passes);

extern const HjgDriver hjg_cuda_driver;

#endif							/* HJG_CUDA_JOIN_H */
