/*
 * hjg_cuda_model.h
 *	  The cost model of joins on a GPU with memory of its own.
 *
 * Room "model": pure C.  Times are nanoseconds on the device.  A join is made of few kinds of work,
 * each with a unit cost: bytes over the bus, bytes read or written in order in device memory, random
 * accesses of one sector within the L2 cache and beyond it, atomic inserts likewise, and calls of the driver.
 */
#ifndef HJG_CUDA_MODEL_H
#define HJG_CUDA_MODEL_H

#include <stdbool.h>

#include "layout/hjg_layout.h"

typedef struct HjgCudaUnitCosts
{
	double		context_ns;		/* the first join of the device process */
	double		call_ns;		/* a launch or a copy, queued and at its turn, and its share of waiting */
	double		in_mb_ns;		/* 1 MB from the arena, ... */
	double		out_mb_ns;		/* ... and to it */
	double		stream_mb_ns;	/* 1 MB of device memory, read or written in order */
	double		gather_l2_ns;	/* a random read of one sector, within the L2 cache, ... */
	double		gather_ns;		/* ... and beyond it */
	double		insert_l2_ns;	/* an atomic insert, likewise */
	double		insert_ns;
	double		sort_row_ns;	/* a build row through one pass of the sort of "csr" */
	double		part_row_ns;	/* a row of either side in the join of co-partitions, its bytes aside */
} HjgCudaUnitCosts;

#define HJG_CUDA_MODEL_NCOSTS ((int) (sizeof(HjgCudaUnitCosts) / sizeof(double)))

typedef struct HjgCudaJoinSize
{
	int			key_width;
	double		build_rows;
	double		probe_rows;		/* in all */
	double		chunk_rows;		/* probe rows that go through at a time */
	double		pairs;
	double		l2_bytes;		/* of the device */
} HjgCudaJoinSize;

typedef struct HjgCudaPrediction
{
	double		in_ns;			/* keys of both sides */
	double		build_ns;
	double		probe_ns;
	double		out_ns;			/* pairs */
} HjgCudaPrediction;

/* An H100 on PCIe 5 x16. */
extern const HjgCudaUnitCosts hjg_cuda_default_costs;

/* Finite, positive and within a factor of 1000 of the defaults? */
extern bool hjg_cuda_costs_valid(const HjgCudaUnitCosts *costs);

/*
 * Where the build keys are such that the strategy takes them.  False for a strategy that the model does not know:
 * those that exist for comparison.
 */
extern bool hjg_cuda_predict(const HjgCudaUnitCosts *costs, const HjgCudaJoinSize *size, HjgCudaStrategyId strategy,
							 HjgCudaPrediction *prediction);

#endif							/* HJG_CUDA_MODEL_H */
