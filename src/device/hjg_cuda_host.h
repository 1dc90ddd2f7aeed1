/*
 * hjg_cuda_host.h
 *	  Joins of sides that lie in host memory, by resident joins of what fits the device.
 *	  Internal to the room "device".
 *
 * flow		(device_cuda_flow.c) probe rows go to the device in chunks, are joined with a build side that is
 *			there, and their pairs come back, all three at the same time (paper 003, section IV A and C)
 * stream	(device_cuda_stream.c) the build side fits the device and stays there: one flow
 * copro	(device_cuda_copro.c) neither side does: the host's threads partition both (engine/hjg_stage.h), the build
 *			side's partitions are packed into working sets (device_cuda_sets.c), and each set is a
 *			flow of its own; the first one flows while the probe side is partitioned (section IV B)
 *
 * Host memory is pinned, or copies are slow.  Who calls owns it, and the result.
 */
#ifndef HJG_CUDA_HOST_H
#define HJG_CUDA_HOST_H

#include "device/hjg_cuda_join.h"
#include "engine/hjg_stage.h"

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

/* ---- device_cuda_flow.c ---- */

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

/*
 * Where chunks come from: queues the copies of the next chunk, at most chunk_rows rows, on the lane.
 * NOT_YET, with nothing done, is an answer unless may_wait.
 */
typedef HjgStatus (*HjgCudaLoadFn) (void *arg, HjgCudaLane *lane, bool may_wait, HjgCudaChunk *chunk,
									HjgCudaLoad *load);

typedef struct HjgCudaFlow
{
	HjgCudaLanes *lanes;
	HjgCudaHostResult *result;
	hjg_u64		chunk_rows;
	hjg_u64		room;			/* pairs that one output has room for */
	HjgCudaChunk chunks[HJG_CUDA_FLOW_INS];
	HjgCudaPtr	pairs[HJG_CUDA_OUTS];
	HjgCudaPtr	counters;
	int			turn;			/* of outputs */
	hjg_u64		piece_rows;		/* most rows that are joined at a time: fewer where rows have several pairs */

	/* of one run */
	const HjgCudaStrategy *strategy;
	void	   *table;
	int			key_width;
	HjgCudaLoadFn load;
	void	   *load_arg;
	hjg_u64		nloaded;
	hjg_u64		njoined;
	bool		no_more;
} HjgCudaFlow;

/* Rows of a chunk for a build side of so many rows. */
extern hjg_u64 hjg_cuda_flow_chunk_rows(hjg_u64 build_rows);
/* Device memory that a flow has, with or without a column of row numbers. */
extern size_t hjg_cuda_flow_bytes(int key_width, bool with_rows, hjg_u64 chunk_rows);
/* After an error what there is goes with the flow. */
extern HjgStatus hjg_cuda_flow_open(HjgCudaFlow *flow, HjgCudaLanes *lanes, int key_width, bool with_rows,
									hjg_u64 chunk_rows, HjgCudaHostResult *result);
/* Waits for all lanes. */
extern void hjg_cuda_flow_close(HjgCudaFlow *flow);
/* Name the source of a run, and queue its first chunks; what comes in meets no table before the run. */
extern HjgStatus hjg_cuda_flow_begin(HjgCudaFlow *flow, int key_width, HjgCudaLoadFn load, void *load_arg);
/*
 * Join all chunks with a table.  HJG_ERR_MEMORY where the result, or a few rows' pairs an output,
 * have too little room.  Pairs may be still on their way when this returns.
 */
extern HjgStatus hjg_cuda_flow_run(HjgCudaFlow *flow, const HjgCudaStrategy *strategy, void *table);

/* Build a table by the strategy, or by the first of those that suit that takes the keys. */
extern HjgStatus hjg_cuda_host_build(HjgCudaLane *lane, const HjgCudaShape *shape, const HjgCudaSide *build,
									 const HjgCudaStrategy *wanted, const HjgCudaStrategy **strategy, void **table);
/* Most device memory of any strategy that may be taken for it. */
extern size_t hjg_cuda_host_build_bytes(const HjgCudaDevice *device, const HjgCudaShape *shape,
										const HjgCudaStrategy *wanted);

/* ---- device_cuda_stream.c ---- */

/* Device memory that the join has at one time. */
extern size_t hjg_cuda_stream_bytes(const HjgCudaDevice *device, const HjgCudaHostJoin *join);
/*
 * The lanes have a grant of so much.  All pairs are in the result when this returns; after an error
 * nothing writes to it any more, and what is in it is void.
 */
extern HjgStatus hjg_cuda_stream_join(HjgCudaLanes *lanes, const HjgCudaHostJoin *join, HjgCudaHostResult *result);

/* ---- device_cuda_sets.c ---- */

#define HJG_CUDA_MOST_PARTS (1 << HJG_STAGE_MOST_BITS)

/* Which partitions are on the device together; sets are joined in order. */
typedef struct HjgCudaSets
{
	int			nsets;
	int			set_of[HJG_CUDA_MOST_PARTS];
	hjg_u64		rows[HJG_CUDA_MOST_PARTS + 1];	/* of a set; at most the capacity, unless it is one partition */
} HjgCudaSets;

/* rows: build rows of each partition; capacity: most of a set. */
extern void hjg_cuda_pack_sets(const hjg_u64 *rows, int nparts, hjg_u64 capacity, HjgCudaSets *sets);

/* ---- device_cuda_copro.c ---- */

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

/* As for hjg_cuda_stream_join(); batches of the result begin at row 0. */
extern size_t hjg_cuda_copro_bytes(const HjgCudaDevice *device, const HjgCudaCopro *copro);
/* HJG_ERR_MEMORY also where one partition is more than a set and the mode not ALL. */
extern HjgStatus hjg_cuda_copro_join(HjgCudaLanes *lanes, HjgCudaCopro *copro, HjgCudaHostResult *result);

/* ---- device_cuda_host_bench.c ---- */

/* Joins of sides in host memory; argv as there.  Exit code. */
extern int	hjg_cuda_host_bench(FILE *out, int number, int argc, char **argv);

#endif							/* HJG_CUDA_HOST_H */
