/*
 * hjg_cuda_paper.h
 *	  Resident joins of the literature: the pieces they are put together from.
 *	  Internal to the room "device".
 *
 * These strategies exist so that published comparisons can be run again with one another and with ours,
 * on the same data, hashes and checks; the cost model never chooses them.  They keep the designs
 * of their papers, but not their gaps: any keys, duplicates, skew and match modes, or suits() or build()
 * says no.
 *
 *		nop_chain, nop_open		device_cuda_nop.c	table in global memory
 *		smj						device_cuda_smj.c	merge sort and merge join
 */
#ifndef HJG_CUDA_PAPER_H
#define HJG_CUDA_PAPER_H

#include "device/hjg_cuda_join.h"
#include "layout/hjg_cuda_paper_args.h"

#define HJG_CUDA_WIDTHS 3

/* What none of these joins takes: no build rows, more rows than positions, the wide rows of benchmarks. */
static inline bool
hjg_cuda_paper_suits(const HjgCudaShape *shape)
{
	return shape->build_rows > 0 && shape->build_rows <= HJG_K_MAX_ROWS && shape->probe_rows <= HJG_K_MAX_ROWS &&
		!shape->wide_rows;
}

static inline HjgKSide
hjg_cuda_kernel_side(const HjgCudaSide *side)
{
	return (HjgKSide) {.keys = side->keys, .rows = side->rows, .nrows = (hjg_u32) side->nrows};
}

static inline HjgKOutput
hjg_cuda_kernel_output(const HjgCudaOutput *output)
{
	return (HjgKOutput) {
		.counters = output->counters, .pairs = output->pairs, .keys = output->keys,
		.build_rows = output->build_rows, .probe_rows = output->probe_rows, .capacity = output->capacity
	};
}

/* ---- device_cuda_paper.c ---- */

/* As many blocks as fit the device, but no more than most. */
extern HjgStatus hjg_cuda_launch_filling(HjgCudaLane *lane, HjgCudaKernel *kernel, unsigned block_threads,
										 unsigned shared_bytes, hjg_u64 most, void *args);

/* Rows of a mixed key and a row number, as kernels have them (HjgKRows). */
typedef struct HjgCudaRows
{
	HjgCudaPtr	keys;			/* keys, and with keys of 4 bytes the row numbers */
	HjgCudaPtr	rows;			/* 0 with keys of 4 bytes */
	hjg_u64		nrows;
} HjgCudaRows;

extern size_t hjg_cuda_rows_bytes(int key_width, hjg_u64 nrows);
/* What was taken before an error is freed by _free(), which may be called on any rows that were zeroed first. */
extern HjgStatus hjg_cuda_rows_alloc(HjgCudaLane *lane, int key_width, hjg_u64 nrows, HjgCudaRows *rows);
extern void hjg_cuda_rows_free(HjgCudaLane *lane, HjgCudaRows *rows);

static inline HjgKRows
hjg_cuda_kernel_rows(const HjgCudaRows *rows)
{
	return (HjgKRows) {.keys = rows->keys, .rows = rows->rows};
}

/* ---- device_cuda_sort.c ---- */

/* Merge sort by mixed key; *sorted is freed by the caller. */
extern HjgStatus hjg_cuda_merge_sort(HjgCudaLane *lane, int key_width, const HjgCudaSide *side, HjgCudaRows *sorted);
/* Device memory at one time, the sorted rows counted. */
extern size_t hjg_cuda_merge_sort_bytes(int key_width, hjg_u64 nrows);
/* Bytes read and written. */
extern hjg_u64 hjg_cuda_merge_sort_moved(int key_width, hjg_u64 nrows);
/* Rows of a tile of sorts and merges. */
extern hjg_u32 hjg_cuda_merge_tile(int key_width);

#endif							/* HJG_CUDA_PAPER_H */
