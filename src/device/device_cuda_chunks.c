/*
 * device_cuda_chunks.c
 *	  The driver "cuda": the buffers for chunks of probe rows.
 */
#include "device/hjg_cuda_join.h"

HjgCudaTuning hjg_cuda_tuning = {.most_chunk_rows = 1u << 20, .least_chunk_rows = 1u << 16};

size_t
hjg_cuda_chunk_bytes(int width, hjg_u32 rows)
{
	return 2 * hjg_cuda_block_bytes((size_t) rows * width) +
		HJG_CUDA_OUTS * hjg_cuda_block_bytes((size_t) rows * sizeof(HjgPair)) +
		hjg_cuda_block_bytes(sizeof(HjgCudaResultHeader));
}

size_t
hjg_cuda_window_bytes(hjg_u32 rows)
{
	return hjg_cuda_block_bytes(((size_t) rows + 1) * sizeof(hjg_u64)) +
		hjg_cuda_block_bytes((size_t) rows * sizeof(hjg_u32)) +
		hjg_cuda_block_bytes(hjg_cuda_scan_entries((hjg_u64) rows + 1) * sizeof(hjg_u64));
}

HjgStatus
hjg_cuda_alloc_chunks(HjgCudaJoin *join)
{
	HjgCudaStream *stream = &join->streams->work;
	const size_t rows = join->chunk_rows;
	HjgStatus	status;

	if (join->chunks)
		return HJG_OK;
	status = hjg_cuda_alloc(stream, sizeof(HjgCudaResultHeader), &join->small);
	for (int i = 0; i < 2 && status == HJG_OK; i++)
		status = hjg_cuda_alloc(stream, rows * join->spec.key_width, &join->keys[i]);
	for (int i = 0; i < HJG_CUDA_OUTS && status == HJG_OK; i++)
		status = hjg_cuda_alloc(stream, rows * sizeof(HjgPair), &join->pairs[i]);
	if (status == HJG_OK && join->strategy != NULL)
		status = hjg_cuda_alloc(stream, rows * sizeof(hjg_u32), &join->numbers);
	if (status == HJG_OK)
		status = hjg_cuda_payload_alloc(join);
	join->chunks = status == HJG_OK;
	return status;
}

HjgStatus
hjg_cuda_alloc_windows(HjgCudaJoin *join)
{
	HjgCudaStream *stream = &join->streams->work;
	const size_t rows = join->chunk_rows;
	HjgStatus	status;

	if (join->windows.allocated)
		return HJG_OK;
	status = hjg_cuda_alloc(stream, (rows + 1) * sizeof(hjg_u64), &join->windows.offsets);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, rows * sizeof(hjg_u32), &join->windows.firsts);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, hjg_cuda_scan_entries(rows + 1) * sizeof(hjg_u64), &join->windows.sums);
	join->windows.allocated = status == HJG_OK;
	return status;
}

void
hjg_cuda_free_chunks(HjgCudaJoin *join)
{
	HjgCudaStream *stream = &join->streams->work;

	hjg_cuda_free(stream, join->small);
	for (int i = 0; i < 2; i++)
		hjg_cuda_free(stream, join->keys[i]);
	for (int i = 0; i < HJG_CUDA_OUTS; i++)
		hjg_cuda_free(stream, join->pairs[i]);
	hjg_cuda_free(stream, join->numbers);
	hjg_cuda_free(stream, join->windows.offsets);
	hjg_cuda_free(stream, join->windows.firsts);
	hjg_cuda_free(stream, join->windows.sums);
}
