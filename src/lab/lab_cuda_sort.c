/*
 * lab_cuda_sort.c
 *	  Merge sort of a side by its mixed keys (cuda_sort.cu).
 *
 * Tiles are sorted, then runs are merged in pairs until one is left, alternating between two blocks of
 * rows.
 */
#include <string.h>

#include "lab/hjg_cuda_paper.h"

#define IMAGE "cuda_sort"
#define THREADS 256

#define KERNEL(kernel_name) {.image = IMAGE, .name = kernel_name}
#define BY_WIDTH(stem) {KERNEL(stem "_4"), KERNEL(stem "_8"), KERNEL(stem "_16")}

static HjgCudaKernel sort_tiles[HJG_CUDA_WIDTHS] = BY_WIDTH("hjg_k_sort_tiles");
static HjgCudaKernel find_paths[HJG_CUDA_WIDTHS] = BY_WIDTH("hjg_k_find_paths");
static HjgCudaKernel merge_runs[HJG_CUDA_WIDTHS] = BY_WIDTH("hjg_k_merge_runs");

hjg_u32
hjg_lab_merge_tile(int key_width)
{
	return THREADS * (key_width == HJG_KEY_WIDTH_16 ? 4 : 8);
}

static hjg_u64
ntiles_of_keys(int key_width, hjg_u64 nrows)
{
	return (nrows + hjg_lab_merge_tile(key_width) - 1) / hjg_lab_merge_tile(key_width);
}

static size_t
paths_bytes(int key_width, hjg_u64 nrows)
{
	return (ntiles_of_keys(key_width, nrows) + 1) * sizeof(hjg_u32);
}

size_t
hjg_lab_merge_sort_bytes(int key_width, hjg_u64 nrows)
{
	return 2 * hjg_lab_rows_bytes(key_width, nrows) + hjg_cuda_block_bytes(paths_bytes(key_width, nrows));
}

hjg_u64
hjg_lab_merge_sort_traffic(int key_width, hjg_u64 nrows)
{
	hjg_u64		moved = nrows * (hjg_u64) (2 * key_width + 8);

	for (hjg_u64 width = hjg_lab_merge_tile(key_width); width < nrows; width *= 2)
		moved += 2 * nrows * (hjg_u64) (key_width + 4);
	return moved;
}

HjgStatus
hjg_lab_merge_sort(HjgCudaStream *stream, int key_width, const HjgCudaSide *side, HjgCudaRows *sorted)
{
	const int	w = hjg_cuda_width_ix(key_width);
	const hjg_u64 ntiles = ntiles_of_keys(key_width, side->nrows);
	HjgCudaRows other = {0};
	HjgCudaPtr	paths = 0;
	HjgStatus	status = hjg_lab_rows_alloc(stream, key_width, side->nrows, sorted);

	if (status == HJG_OK)
		status = hjg_lab_rows_alloc(stream, key_width, side->nrows, &other);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, paths_bytes(key_width, side->nrows), &paths);
	if (status == HJG_OK)
	{
		HjgKSortTiles args = {.side = hjg_lab_kernel_side(side), .out = hjg_lab_kernel_rows(sorted)};

		status = hjg_cuda_launch(stream, &sort_tiles[w], (unsigned) ntiles, THREADS, 0, (void *[]) {&args});
	}
	for (hjg_u64 width = hjg_lab_merge_tile(key_width); width < side->nrows && status == HJG_OK; width *= 2)
	{
		const HjgCudaRows merged = other;
		HjgKMerge	args = {
			.in = hjg_lab_kernel_rows(sorted), .out = hjg_lab_kernel_rows(&other), .paths = paths,
			.nrows = (hjg_u32) side->nrows, .width = (hjg_u32) width
		};

		status = hjg_cuda_launch(stream, &find_paths[w], (unsigned) ((ntiles + THREADS - 1) / THREADS), THREADS, 0,
								 (void *[]) {&args});
		if (status == HJG_OK)
			status = hjg_cuda_launch(stream, &merge_runs[w], (unsigned) ntiles, THREADS, 0, (void *[]) {&args});
		other = *sorted;
		*sorted = merged;
	}
	hjg_cuda_free(stream, paths);
	hjg_lab_rows_free(stream, &other);
	if (status != HJG_OK)
		hjg_lab_rows_free(stream, sorted);
	return status;
}
