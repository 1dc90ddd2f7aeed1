/*
 * device_cuda_paper.c
 *	  What the resident joins of the literature share on the host: launches, blocks of rows.
 */
#include <string.h>

#include "device/hjg_cuda_paper.h"

HjgStatus
hjg_cuda_launch_filling(HjgCudaLane *lane, HjgCudaKernel *kernel, unsigned block_threads, unsigned shared_bytes,
						hjg_u64 most, void *args)
{
	int			blocks;
	HjgStatus	status = hjg_cuda_occupancy(lane, kernel, block_threads, shared_bytes, &blocks);
	hjg_u64		all = (hjg_u64) blocks * (hjg_u64) lane->device->multiprocessors;

	if (status != HJG_OK)
		return status;
	return hjg_cuda_launch(lane, kernel, (unsigned) (most < all ? most : all), block_threads, shared_bytes,
						   (void *[]) {args});
}

static size_t
keys_bytes(int key_width, hjg_u64 nrows)
{
	return nrows * (size_t) (key_width == HJG_KEY_WIDTH_4 ? 8 : key_width);
}

static size_t
numbers_bytes(int key_width, hjg_u64 nrows)
{
	return key_width == HJG_KEY_WIDTH_4 ? 0 : nrows * sizeof(hjg_u32);
}

size_t
hjg_cuda_rows_bytes(int key_width, hjg_u64 nrows)
{
	return hjg_cuda_block_bytes(keys_bytes(key_width, nrows)) + hjg_cuda_block_bytes(numbers_bytes(key_width, nrows));
}

HjgStatus
hjg_cuda_rows_alloc(HjgCudaLane *lane, int key_width, hjg_u64 nrows, HjgCudaRows *rows)
{
	HjgStatus	status;

	*rows = (HjgCudaRows) {.nrows = nrows};
	status = hjg_cuda_alloc(lane, keys_bytes(key_width, nrows), &rows->keys);
	if (status == HJG_OK && numbers_bytes(key_width, nrows) > 0)
		status = hjg_cuda_alloc(lane, numbers_bytes(key_width, nrows), &rows->rows);
	return status;
}

void
hjg_cuda_rows_free(HjgCudaLane *lane, HjgCudaRows *rows)
{
	hjg_cuda_free(lane, rows->keys);
	hjg_cuda_free(lane, rows->rows);
	memset(rows, 0, sizeof(*rows));
}
