/*
 * device_cuda_once.c
 *	  Probing in one pass: rows with at most one pair each, and room for all.
 *
 * While chunk c is joined, chunk c + 1 is copied in and the pairs of chunk c - 1 are
 * copied out.  The host has to know how many pairs a chunk gave before it can say
 * where they go, so it waits for each chunk's kernel, not for the copies.
 */
#include "device/hjg_cuda_join.h"

#define IMAGE "cuda_csr"
#define ROWS_A_BLOCK (4 * HJG_CUDA_BLOCK)
#define BLOCKS_A_PROCESSOR 16

HJG_CUDA_KERNELS(probe_once, IMAGE, "hjg_k_probe_once");

typedef struct Batch
{
	HjgCudaJoin *join;
	const HjgSegment *segments;
	int			nsegments;
	hjg_u64		begin;			/* rows of this round */
	hjg_u64		end;
} Batch;

static hjg_u64
chunk_size(const Batch *batch, hjg_u64 chunk)
{
	const hjg_u64 row = batch->begin + chunk * batch->join->chunk_rows;

	return batch->end - row < batch->join->chunk_rows ? batch->end - row : batch->join->chunk_rows;
}

/* Queue the copy of a chunk's keys, into the buffer that the chunk before last has left. */
static HjgStatus
load_chunk(const Batch *batch, hjg_u64 chunk)
{
	HjgCudaJoin *join = batch->join;
	HjgCudaLane *lane = &join->lanes->in;
	HjgStatus	status = hjg_cuda_mark(lane, HJG_CUDA_TRANSFER_IN);

	if (status == HJG_OK)
		status = hjg_cuda_copy_keys(lane, join->keys[chunk % 2], batch->segments, batch->nsegments,
									join->spec.key_width, batch->begin + chunk * join->chunk_rows,
									chunk_size(batch, chunk));
	return status == HJG_OK ? hjg_cuda_mark(lane, HJG_CUDA_IDLE) : status;
}

/* Queue the join of a chunk; its number of pairs goes to the mail. */
static HjgStatus
join_chunk(const Batch *batch, hjg_u64 chunk)
{
	HjgCudaJoin *join = batch->join;
	HjgCudaLane *lane = &join->lanes->work;
	HjgCudaPtr	keys = join->keys[chunk % 2];
	HjgCudaPtr	pairs = join->pairs[chunk % HJG_CUDA_OUTS];
	hjg_u64		n = chunk_size(batch, chunk);
	hjg_u32		first_row = (hjg_u32) (batch->begin + chunk * join->chunk_rows);
	int			mode = join->spec.mode;
	unsigned	blocks = hjg_cuda_blocks(n, ROWS_A_BLOCK);
	const unsigned most = (unsigned) join->device->multiprocessors * BLOCKS_A_PROCESSOR;
	HjgStatus	status;

	status = hjg_cuda_follow(lane, &join->lanes->in);
	if (status == HJG_OK)
		status = hjg_cuda_follow(lane, &join->lanes->out[chunk % HJG_CUDA_OUTS]);
	if (status == HJG_OK)
		status = hjg_cuda_mark(lane, HJG_CUDA_PROBE);
	if (status == HJG_OK)
		status = hjg_cuda_zero(lane, join->small, sizeof(hjg_u64));
	if (status == HJG_OK)
		status = hjg_cuda_launch(lane, &probe_once[hjg_cuda_width_ix(join->spec.key_width)],
								 blocks < most ? blocks : most, HJG_CUDA_BLOCK, 0,
								 (void *[]) {&keys, &n, &join->csr.table, &mode, &first_row, &pairs, &join->small});
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(lane, &join->lanes->mail->npairs, join->small, sizeof(hjg_u64));
	return status;
}

HjgStatus
hjg_cuda_probe_once(HjgCudaJoin *join, const HjgSegment *segments, int nsegments, hjg_u64 nrows, HjgCursor *cursor,
					HjgResult *result)
{
	const Batch batch = {join, segments, nsegments, cursor->row, nrows};
	const hjg_u64 nchunks = (nrows - cursor->row + join->chunk_rows - 1) / join->chunk_rows;
	HjgStatus	status = load_chunk(&batch, 0);

	for (hjg_u64 chunk = 0; chunk < nchunks && status == HJG_OK; chunk++)
	{
		HjgCudaLane *out = &join->lanes->out[chunk % HJG_CUDA_OUTS];
		hjg_u64		npairs;

		status = join_chunk(&batch, chunk);
		if (status == HJG_OK && chunk + 1 < nchunks)
			status = load_chunk(&batch, chunk + 1);
		if (status == HJG_OK)
			status = hjg_cuda_wait(&join->lanes->work);
		if (status != HJG_OK)
			break;
		npairs = join->lanes->mail->npairs;
		if (npairs > chunk_size(&batch, chunk))
			return HJG_ERR_DEVICE;
		status = hjg_cuda_mark(out, HJG_CUDA_TRANSFER_OUT);
		if (status == HJG_OK)
			status = hjg_cuda_copy_pairs(out, result, result->npairs, join->pairs[chunk % HJG_CUDA_OUTS], npairs);
		if (status == HJG_OK)
			status = hjg_cuda_mark(out, HJG_CUDA_IDLE);
		result->npairs += npairs;
	}
	cursor->row = (hjg_u32) nrows;
	return status;
}
