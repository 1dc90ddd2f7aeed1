/*
 * hjg_cuda_join.h
 *	  A join of the driver "cuda": what its files share.
 *
 * Build (device_cuda_build.c): keys are copied in from the arena; then the strategies that suit the sizes are tried,
 * the one with the least predicted time first, until one takes the keys (HjgCudaStrategy).
 * What none of them takes becomes a table sorted by bucket ("csr", hjg_csr.h), which takes any
 * join; build keys that are kept as they came can be sorted later, too.
 *
 * A build side that does not fit the device's memory is joined in turns (device_cuda_turns.c), each of them a join as
 * below.
 *
 * Probe: a batch goes through in chunks, over three kinds of lanes that work at the same time, one copying in,
 * one joining, two copying out in turn.  Two ways:
 * once		(device_cuda_once.c) pairs are written in one pass, in any order.  What does not fit is void, and the
 *			round ends with the chunk before; or the chunk is made smaller.
 * windows	(device_cuda_window.c) of the csr table: a window of rows is counted, cut where the room ends, and
 *			written in canonical order, so that a row with any number of matches is cut and goes
 *			on in the next round.
 * Only windows cut rows and give slices of their matches (HjgCursor), and only they care for rows with very many:
 * a join that meets these gives its strategy up for good.
 *
 * Of a join whose table only the kernels read (HjgCudaStrategy.shared, csr) several batches are probed at a time, each
 * through a branch with lanes and buffers of its own (device_cuda_branch.c).
 */
#ifndef HJG_CUDA_JOIN_H
#define HJG_CUDA_JOIN_H

#include "device/hjg_cuda.h"
#include "layout/hjg_csr.h"
#include "layout/hjg_cuda_args.h"
#include "model/hjg_model.h"

/* ---- device_cuda_region.c: the arena as pinned memory ---- */

/* Set the arena that joins read and write from now on; NULL for none. */
extern void hjg_cuda_region_open(const HjgArenaView *view);
/*
 * Around each operation on memory of the arena.  What lies in it is registered if that is
 * possible, and stays so; anything else is copied through the driver's own buffers.
 */
extern void hjg_cuda_region_enter(void);
extern void hjg_cuda_region_leave(void);
extern void hjg_cuda_region_pin(const void *ptr);
/* Unregister what was registered when nothing was copied for idle_ms. */
extern void hjg_cuda_region_trim(unsigned idle_ms);

/* Part of a row. */
typedef enum HjgCudaOfRow
{
	HJG_CUDA_KEY,
	HJG_CUDA_PAYLOAD
} HjgCudaOfRow;

/* Bring that of rows [row, row + n) of a batch, whose segments are ascending and contiguous. */
extern HjgStatus hjg_cuda_bring_rows(HjgCudaLane *lane, HjgCudaOfRow what, size_t width, HjgCudaPtr to,
									 const HjgSegment *segments, int nsegments, hjg_u64 row, hjg_u64 n);
/*
 * Note that more of a build side was queued, and wait for it where that is much, so that a cancelled job is noticed. *queued_bytes
 * is 0 at first.
 */
extern HjgStatus hjg_cuda_pace(HjgCudaLane *lane, size_t *queued_bytes, size_t more_bytes);

/* ---- device_cuda_lanes.c: what a join works with ---- */

#define HJG_CUDA_OUTS 2

/* Answers of kernels to the host, in memory that both reach. */
typedef struct HjgCudaMail
{
	hjg_u64		npairs;
	HjgCsrCut	cut;
	HjgCsrFacts facts;
	hjg_u64		sums[2];		/* of the round: pairs, columns beside them */
	hjg_u32		counts[256];	/* of partitions, in the laboratory */
} HjgCudaMail;

/* Making streams and pinned memory takes longer than a small join: sets are kept. */
typedef struct HjgCudaLanes
{
	HjgCudaLane in;
	HjgCudaLane work;
	HjgCudaLane out[HJG_CUDA_OUTS];
	HjgCudaMail *mail;
	struct HjgCudaLanes *next;
} HjgCudaLanes;

extern HjgStatus hjg_cuda_lanes_take(HjgCudaDevice *device, const HjgEnv *env, HjgCudaGrant *grant,
									 HjgCudaLanes **lanes);
/* Waits for whatever is queued. */
extern void hjg_cuda_lanes_give(HjgCudaLanes *lanes);
extern HjgStatus hjg_cuda_lanes_wait(HjgCudaLanes *lanes);
/* Queue the copy of a count to the mail; unlike a copy it does not stand in line behind those of pairs (cuda_flow.cu). */
extern HjgStatus hjg_cuda_post_count(HjgCudaLane *lane, HjgCudaPtr from, hjg_u64 *to);
/* Sum up the time on the device since the set was taken, over all lanes. */
extern hjg_u64 hjg_cuda_lanes_ns(const HjgCudaLanes *lanes, HjgCudaPhase phase);

/* ---- device_cuda_csr.c: the table ---- */

typedef struct HjgCudaCsr
{
	int			width;
	HjgCsrTable table;
	HjgCudaPtr	keys;			/* the blocks that table points to */
	HjgCudaPtr	rows;
	HjgCudaPtr	start;
	bool		unique;			/* no key occurs twice */
} HjgCudaCsr;

/* Bound the device memory at one time while it is built, and what it keeps. */
extern size_t hjg_cuda_csr_build_bytes(int width, hjg_u64 nrows);
extern size_t hjg_cuda_csr_bytes(int width, hjg_u64 nrows);
/*
 * keys and rows are there, mixed and numbered in ascending order; on any error all three blocks are freed by _free().
 * mail: where facts of the table come to the host; waited for.
 */
extern HjgStatus hjg_cuda_csr_build(HjgCudaLane *lane, HjgCsrFacts *mail, HjgCudaCsr *csr, hjg_u64 nrows);
extern void hjg_cuda_csr_free(HjgCudaLane *lane, HjgCudaCsr *csr);

/* Compute exclusive sums of n entries in place; sums has room for hjg_cuda_scan_entries(n). */
extern size_t hjg_cuda_scan_entries(hjg_u64 n);
extern HjgStatus hjg_cuda_scan(HjgCudaLane *lane, HjgCudaPtr data, hjg_u64 n, HjgCudaPtr sums);

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

typedef struct HjgCudaTurns HjgCudaTurns;

/* Payload columns of a join: device_cuda_payload.c. */
typedef struct HjgCudaPayload
{
	HjgPayloadBytes	bytes;			/* of a row; 0 for a side that is not gathered */
	hjg_u64		build_limit;	/* highest build row number + 1 */
	hjg_u32		sides;			/* gathered in this round: HJG_SIDE_BIT() */
	HjgCudaPtr	build;			/* by row number */
	HjgCudaPtr	probe[2];		/* of a chunk, filled in turn as its keys are */
	HjgCudaPtr	gathered[HJG_SIDES][HJG_CUDA_OUTS];	/* beside the pairs of a chunk */
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
	HjgCudaLanes *lanes;
	bool		branching;		/* the table stays as it was built */
	struct HjgCudaJoin *trunk;	/* of a branch: the join whose table it borrows */
	struct HjgCudaJoin *branches[HJG_MAX_WAYS - 1];
	int			nbranches;		/* grows while others ask for figures */

	/* the table */
	const HjgCudaStrategy *strategy;	/* or NULL: the csr table */
	void	   *table;			/* of the strategy */
	HjgCudaSide build;			/* raw keys, as long as there is a strategy */
	HjgCudaCsr	csr;
	HjgCudaPayload payload;			/* of a branch the build columns are borrowed, too */

	HjgCudaTurns *turns;		/* not NULL: the build side stays where it is, and what follows is not used */
	bool		bounded;		/* the grant has room for the csr table */
	hjg_u32		chunk_rows;		/* probe rows that go through at a time */
	double		row_pairs;		/* pairs of a probe row in the last chunk that was joined once */
	bool		chunks;			/* what follows is there */
	HjgCudaPtr	keys[2];		/* raw keys of a chunk, filled in turn */
	HjgCudaPtr	pairs[HJG_CUDA_OUTS];	/* of a chunk, written and copied out in turn */
	HjgCudaPtr	small;			/* a HjgCudaMail on the device */
	HjgCudaPtr	numbers;		/* with a strategy: row numbers of a chunk */
	HjgCudaWindowBuffers windows;
} HjgCudaJoin;

/* ---- device_cuda_build.c ---- */

/*
 * Segments are in ascending order of row number; they come from the arena, and may say anything.  After an error
 * what there is goes with the join.
 */
extern HjgStatus hjg_cuda_build_join(HjgCudaJoin *join, const HjgSegment *segments, int nsegments);
/* Say where calibrated costs are to be found from now on; NULL for nowhere. */
extern void hjg_cuda_costs_open(const HjgControl *control);
/* Read those of the machine with the device's own, or the defaults. */
extern HjgUnitCosts hjg_cuda_costs(const HjgCudaDevice *device);
/* Would so many build rows fit the budget, whatever their keys? */
extern bool hjg_cuda_build_fits(HjgCudaJoin *join, hjg_u64 nrows);
/* Leave the strategy for the csr table.  Waits for all lanes. */
extern HjgStatus hjg_cuda_use_csr(HjgCudaJoin *join);
/* Give back what the join itself has of the device; branches and turns have been freed. */
extern void hjg_cuda_release(HjgCudaJoin *join);
/* Write row numbers first_row, first_row + 1, ... */
extern HjgStatus hjg_cuda_number_rows(HjgCudaLane *lane, HjgCudaPtr rows, hjg_u64 n, hjg_u32 first_row);

/* ---- device_cuda_chunks.c ---- */

/* Tests make these small to reach every path with few rows; while no join exists. */
typedef struct HjgCudaTuning
{
	hjg_u32		most_chunk_rows;	/* probe rows that go through at a time, ... */
	hjg_u32		least_chunk_rows;	/* ... and where the budget is small */
} HjgCudaTuning;

extern HjgCudaTuning hjg_cuda_tuning;

/* Count the memory of the chunks that go through, and of windows besides. */
extern size_t hjg_cuda_chunk_bytes(int width, hjg_u32 rows);
extern size_t hjg_cuda_window_bytes(hjg_u32 rows);
/* Allocate, when first needed, buffers of chunks, and of windows; after an error what there is goes with the join. */
extern HjgStatus hjg_cuda_alloc_chunks(HjgCudaJoin *join);
extern HjgStatus hjg_cuda_alloc_windows(HjgCudaJoin *join);
/* Free both; nothing that uses them is queued. */
extern void hjg_cuda_free_chunks(HjgCudaJoin *join);

/* ---- device_cuda_probe.c ---- */

/* Probe rows from *at on of a batch of nrows rows; pairs are added to the result, and may be still on their way. */
extern HjgStatus hjg_cuda_probe_rows(HjgCudaJoin *join, const HjgSegment *segments, int nsegments, hjg_u64 nrows,
									 HjgCursor *at, HjgResult *result);

/* ---- device_cuda_send.c ---- */

/* Begin a round: nothing is added up yet. */
extern HjgStatus hjg_cuda_send_begin(HjgCudaJoin *join, const HjgResult *result);
/*
 * Queue on the turn's way out: the sums of its npairs pairs and of their columns, and their copies, to where the result
 * ends; the work that writes them is waited for, or followed, by the caller.
 */
extern HjgStatus hjg_cuda_send_pairs(HjgCudaJoin *join, int turn, HjgResult *result, hjg_u64 npairs);
/* Everything was sent and waited for: add the sums to the result's. */
extern HjgStatus hjg_cuda_send_end(HjgCudaJoin *join, HjgResult *result);

/* ---- device_cuda_once.c ---- */

/*
 * Probe from *cursor on, which is at the beginning of a row.  With single, where no row has more than one pair.
 * Else HJG_ERR_INPUT, with nothing changed, where not even a few rows fit the result.
 */
extern HjgStatus hjg_cuda_probe_once(HjgCudaJoin *join, HjgMatchMode mode, bool single, const HjgSegment *segments,
									 int nsegments, hjg_u64 nrows, HjgCursor *cursor, HjgResult *result);

/* ---- device_cuda_window.c ---- */

/* Probe from any cursor, in canonical order, by windows of rows whose pairs are counted first: a row may be cut. */
extern HjgStatus hjg_cuda_probe_windows(HjgCudaJoin *join, const HjgSegment *segments, int nsegments, hjg_u64 nrows,
										HjgCursor *cursor, HjgResult *result);

/* ---- device_cuda_branch.c ---- */

/* Make one, as HjgDriver.branch; the context is current. */
extern HjgCudaJoin *hjg_cuda_branch_make(HjgCudaJoin *join, const HjgEnv *env);
/* Free them; nobody probes. */
extern void hjg_cuda_branches_free(HjgCudaJoin *join);
/* Sum up the figures of a join and its branches. */
extern void hjg_cuda_join_stats(const HjgCudaJoin *join, HjgJobStats *stats);

/* ---- device_cuda_payload.c ---- */

/*
 * Plan what there is to gather, of a build side of nrows rows with numbers below limit.  Then chunk_rows is settled, and
 * what it takes may turn out to be too much: drop it.
 */
extern void hjg_cuda_payload_plan(HjgCudaJoin *join, const HjgSegment *segments, int nsegments, hjg_u64 nrows, hjg_u64 limit);
extern size_t hjg_cuda_payload_bytes(const HjgCudaJoin *join);
/* Count the part that each branch has for itself; it borrows the rest. */
extern size_t hjg_cuda_payload_chunk_bytes(const HjgCudaJoin *join);
extern void hjg_cuda_payload_borrow(HjgCudaJoin *branch);
extern void hjg_cuda_payload_drop(HjgCudaJoin *join);
/* Bring build columns; buffers of chunks, when these are made; after an error what there is goes with the join. */
extern HjgStatus hjg_cuda_payload_build(HjgCudaJoin *join, const HjgSegment *segments, int nsegments);
extern HjgStatus hjg_cuda_payload_alloc(HjgCudaJoin *join);
extern void hjg_cuda_payload_free(HjgCudaJoin *join);
/* Begin a round; returns the sides that are gathered in it. */
extern hjg_u32 hjg_cuda_payload_round(HjgCudaJoin *join, const HjgSegment *segments, int nsegments);
/* Queue the copy of rows [row, row + n) of the probe side's columns, into the buffer of the turn. */
extern HjgStatus hjg_cuda_payload_load(HjgCudaJoin *join, HjgCudaLane *lane, int turn, const HjgSegment *segments,
									 int nsegments, hjg_u64 row, hjg_u64 n);
/*
 * Queue, behind the work that writes the turn's pairs, the gathering of their columns; probe rows
 * [first_row, first_row + nrows) lie in the buffer of probe_turn.
 */
extern HjgStatus hjg_cuda_payload_gather(HjgCudaJoin *join, int turn, hjg_u64 npairs, int probe_turn, hjg_u64 first_row,
									   hjg_u64 nrows);
/* Launch the kernel alone. */
extern HjgStatus hjg_cuda_gather(HjgCudaLane *lane, const HjgKGather *gather);

/* ---- device_cuda_turns.c ---- */

/*
 * Cut a build side that does not fit the budget into turns that do: join->turns.  HJG_ERR_MEMORY where it is no use.
 * The keys stay where the segments say, until the join ends.
 */
extern HjgStatus hjg_cuda_turns_open(HjgCudaJoin *join, const HjgSegment *segments, int nsegments);
/* Run a round; all pairs are in the result when this returns. */
extern HjgStatus hjg_cuda_turns_probe(HjgCudaTurns *turns, const HjgSegment *segments, int nsegments, hjg_u64 nrows,
									  HjgCursor *at, HjgResult *result);
extern void hjg_cuda_turns_stats(const HjgCudaTurns *turns, HjgJobStats *stats);
extern void hjg_cuda_turns_close(HjgCudaTurns *turns);

extern const HjgDriver hjg_cuda_driver;

#endif							/* HJG_CUDA_JOIN_H */
