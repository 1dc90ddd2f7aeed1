/*
 * hjg_cuda_parts.h
 *	  Resident joins by radix partitions: declarations that their three files share.  Internal to the
 *	  room "device".
 *
 *		device_cuda_parts_plan.c	plans partitions, passes and the table that joins them
 *		device_cuda_parts_side.c	partitions one side
 *		device_cuda_parts.c			the strategies radix1 and radix2
 */
#ifndef HJG_CUDA_PARTS_H
#define HJG_CUDA_PARTS_H

#include "device/hjg_cuda.h"
#include "layout/hjg_cuda_args.h"

#define HJG_CUDA_KEY_CLASSES 4	/* 4, 8, 16 bytes; 8 with wide rows */
#define HJG_CUDA_STATIC_SHARED 1024		/* more static shared memory than any of the kernels has */
#define HJG_CUDA_PLAIN_BITS 8	/* with more partitions, a plain pass would write too many incomplete sectors */
#define HJG_CUDA_ALIGNED_LEAST_BITS 10
#define HJG_CUDA_ALIGNED_MOST_BITS 12

/* Sizes that tests make small to reach every path with few rows. */
typedef struct HjgCudaPartsTuning
{
	int			aligned_bits;	/* not 0: bits of an aligned pass, which is taken when possible */
	hjg_u32		tile_rows;		/* not 0: most rows of its tiles; a multiple of 32 */
} HjgCudaPartsTuning;

extern HjgCudaPartsTuning hjg_cuda_parts_tuning;

/* ---- device_cuda_parts_plan.c ---- */

typedef struct HjgCudaPartsPlan
{
	int			key_class;		/* index of tables of kernels */
	int			row_bytes;		/* key and row number */
	int			first_bits;		/* of the first pass */
	int			second_bits;	/* of the second pass, or 0 */
	bool		aligned;		/* the only pass is an aligned scatter */
	bool		packed;			/* the join keeps one byte of a key */
	bool		halved;			/* two blocks of the packed join share a multiprocessor */
	hjg_u32		build_limit;	/* build rows of a table */
	unsigned	join_threads;
	unsigned	join_shared;
} HjgCudaPartsPlan;

/* Plan the join; false when the device or the sizes do not allow it in npasses passes. */
extern bool hjg_cuda_parts_plan(const HjgCudaDevice *device, const HjgCudaShape *shape, int npasses, HjgCudaPartsPlan *plan);

static inline int
hjg_cuda_parts_bits(const HjgCudaPartsPlan *plan)
{
	return plan->first_bits + plan->second_bits;
}

/* ---- device_cuda_parts_side.c ---- */

/* One partitioned side. */
typedef struct HjgCudaParts
{
	HjgCudaPtr	keys;			/* blocks of rows */
	HjgCudaPtr	rows;
	HjgCudaPtr	numbers;		/* block of the next members */
	HjgCudaPtr	counts;			/* zeroed, with largest and ticket */
	HjgCudaPtr	largest;
	HjgCudaPtr	ticket;
	HjgKParts	parts;
	HjgCudaPtr	up;
	HjgCudaPtr	down;
	HjgCudaPtr	coarse;
	HjgCudaPtr	ntiles;
	HjgCudaPtr	unit_first;
} HjgCudaParts;

/* True if the device has the shared memory for plain passes, and for an aligned pass. */
extern bool hjg_cuda_parts_plain_fits(const HjgCudaDevice *device, const HjgCudaPartsPlan *plan);
extern bool hjg_cuda_parts_aligned_fits(const HjgCudaDevice *device, int bits);
/* Compute the device memory of a side, and of a side between two passes. */
extern size_t hjg_cuda_parts_bytes(const HjgCudaPartsPlan *plan, hjg_u64 nrows);
extern size_t hjg_cuda_parts_between_bytes(const HjgCudaPartsPlan *plan, hjg_u64 nrows);
/*
 * Queue all passes.  units: NULL, or the units of a join with this side as probe side, whose members probe
 * and unit_first are set here.
 */
extern HjgStatus hjg_cuda_parts_make(HjgCudaStream *stream, const HjgCudaPartsPlan *plan, const HjgCudaSide *side,
									 HjgCudaParts *parts, HjgKUnits *units);
extern void hjg_cuda_parts_free(HjgCudaStream *stream, HjgCudaParts *parts);

static inline HjgKRows
hjg_cuda_parts_rows(const HjgCudaParts *parts)
{
	return (HjgKRows) {.keys = parts->keys, .rows = parts->rows};
}

#endif							/* HJG_CUDA_PARTS_H */
