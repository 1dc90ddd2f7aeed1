/*
 * hjg_cuda_model.h
 *	  The cost model of joins on a GPU with its own memory.
 *
 * Room "model": pure C.  Times are nanoseconds on the device.  A join consists of a few kinds of work,
 * each with a unit cost: bytes over the bus, bytes read or written in order in device memory, random
 * accesses and atomic inserts of one sector, each within the L2 cache and beyond it, and calls of the
 * driver.
 */
#ifndef HJG_CUDA_MODEL_H
#define HJG_CUDA_MODEL_H

#include <stdbool.h>

#include "layout/hjg_cuda_args.h"
#include "layout/hjg_job.h"
#include "layout/hjg_layout.h"
#include "layout/hjg_strategy.h"

typedef struct HjgCudaUnitCosts
{
	double		context_ns;		/* added to the first join of the device process */
	double		call_ns;		/* a queued launch or copy with its share of waiting */
	double		in_mb_ns;		/* 1 MB from the arena, ... */
	double		out_mb_ns;		/* ... and to it */
	double		stream_mb_ns;	/* 1 MB of device memory, read or written in order */
	double		gather_l2_ns;	/* a random read of one sector, in the L2 cache, ... */
	double		gather_ns;		/* ... and beyond it */
	double		insert_l2_ns;	/* an atomic insert, in the L2 cache */
	double		insert_ns;
	double		sort_row_ns;	/* a build row in one pass of the sort of "csr" */
	double		part_row_ns;	/* a row of either side in the join of co-partitions, without its bytes */
} HjgCudaUnitCosts;

/* GPUs are identified by number and by their description at the time of measuring. */
#define HJG_MODEL_GPUS 8

typedef struct HjgGpuCosts
{
	double		identity;		/* hjg_gpu_identity(); 0: not measured */
	HjgCudaUnitCosts costs;
} HjgGpuCosts;

/* Hash a device's description to a number above 0; two descriptions collide with a probability of 2^-32. */
extern double hjg_gpu_identity(const char *description);

typedef struct HjgCudaJoinSize
{
	int			key_width;
	double		build_rows;
	double		probe_rows;		/* in all */
	double		chunk_rows;		/* probe rows of one chunk */
	double		pairs;
	double		l2_bytes;		/* of the device */
} HjgCudaJoinSize;

typedef struct HjgCudaPrediction
{
	double		in_ns;			/* keys of both sides */
	double		build_ns;		/* kernels */
	double		probe_ns;
	double		out_ns;			/* pairs */
	double		build_calls_ns; /* calls of the driver and their queueing: on the host's clock only */
	double		probe_calls_ns;
} HjgCudaPrediction;

static inline double
hjg_model_cuda_joining_ns(const HjgCudaPrediction *prediction)
{
	return prediction->build_ns + prediction->build_calls_ns + prediction->probe_ns + prediction->probe_calls_ns;
}

/* Predict a join whose build keys suit the strategy.  False for an unknown strategy. */
extern bool hjg_model_cuda_predict(const HjgCudaUnitCosts *costs, const HjgCudaJoinSize *size, HjgCudaStrategyId strategy,
							 HjgCudaPrediction *prediction);

/* ---- model_cuda_payload.c ---- */

/* Payload columns of one side, which become part of each pair. */
typedef struct HjgPayloadSize
{
	double		row_bytes;
	double		rows;			/* of the side whose columns are sent */
	double		pairs;
	double		store_bytes;	/* of the store that is read by row number; 0: read about in order */
	bool		busy;			/* the participants of the join keep the processors busy */
} HjgPayloadSize;

/*
 * Predict the processors' time for the columns: fetched by row number on the host (late), or gathered by
 * the device (early).
 */
extern double hjg_model_cuda_late_ns(const HjgPayloadSize *size);
extern double hjg_model_cuda_early_ns(const HjgCudaUnitCosts *costs, const HjgPayloadSize *size);

/* ---- model_cuda_calibrate.c ---- */

/* A measured join of 4-byte keys. */
typedef struct HjgCudaTrial
{
	HjgCudaStrategyId strategy;
	double		build_rows;		/* keys are unique */
	double		probe_rows;		/* one batch, of chunks of HJG_CUDA_TRIAL_CHUNK rows */
	bool		matching;		/* each probe row has a pair; otherwise none has, and the mode is SEMI */
	HjgJobStats times;
	HjgJobStats idle;			/* of one row on each side: the time of launches and their gaps */
} HjgCudaTrial;

#define HJG_CUDA_TRIAL_CHUNK 1048576

typedef enum HjgCudaTrialId
{
	HJG_CUDA_TRIAL_SMALL,		/* a table within the cache, no matches, ... */
	HJG_CUDA_TRIAL_PAIRS,		/* ... and all rows match */
	HJG_CUDA_TRIAL_LARGE,		/* a table beyond the cache */
	HJG_CUDA_TRIAL_PARTITIONED, /* one pass */
	HJG_CUDA_TRIAL_SORTED,
	HJG_CUDA_NTRIALS
} HjgCudaTrialId;

/* Plan the trials, without their times. */
extern void hjg_model_cuda_plan_trials(HjgCudaTrial trials[HJG_CUDA_NTRIALS], double l2_bytes);

/* Derive the unit costs from the measured trials, except those of context and calls. */
extern void hjg_model_cuda_calibrate(HjgCudaUnitCosts *costs, const HjgCudaTrial *trials, double l2_bytes);

/* ---- model_cuda.c, for the calibration ---- */

/*
 * Compute the cost of a random access beyond the cache from that of an access in it and the average for
 * this table.
 */
extern double hjg_model_cuda_beyond_ns(double table_bytes, double l2_bytes, double cached_ns, double access_ns);

#define HJG_MODEL_MB (1024.0 * 1024.0)
#define HJG_MODEL_PAIR_BYTES 8.0
#define HJG_MODEL_SORT_BITS 8.0	/* of a pass */

/* Calls of the driver for a batch of one chunk, its copies included. */
#define HJG_CUDA_ROUND_CALLS 5

/* Bytes of the table of "table", and bytes that partitioning reads and writes for a row. */
#define HJG_CUDA_TABLE_BYTES(rows) \
	((rows) * 100.0 / (HJG_K_TABLE_PERCENT * HJG_K_TABLE_SLOTS) * HJG_K_SECTOR_BYTES)
#define HJG_CUDA_PASS_BYTES(key_width, npasses) ((key_width) + 2.0 * (npasses) * ((key_width) + 4))

#endif							/* HJG_CUDA_MODEL_H */
