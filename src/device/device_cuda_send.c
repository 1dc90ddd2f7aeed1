/*
 * device_cuda_send.c
 *	  Copies a chunk's pairs and columns to the result, after computing their checksum in the device's
 *	  memory.
 *
 * The reader of a result computes the checksum again.  Here it is computed from memory that only this
 * join's kernels write.  Other threads of the process can write to pages of the arena, so a checksum
 * computed there by the host would not detect an earlier stray store.
 */
#include <stddef.h>

#include "device/hjg_cuda_join.h"

#define IMAGE "cuda_sum"
#define BLOCKS_A_PROCESSOR 8

HJG_CUDA_KERNEL(hjg_k_sum_pairs, IMAGE);
HJG_CUDA_KERNEL(hjg_k_sum_columns, IMAGE);

static HjgCudaPtr
sums_of(const HjgCudaJoin *join)
{
	return join->small + offsetof(HjgCudaResultHeader, sums);
}

HjgStatus
hjg_cuda_send_begin(HjgCudaJoin *join, const HjgResult *result)
{
	return result->sum ? hjg_cuda_zero(&join->streams->work, sums_of(join), sizeof(join->streams->header->sums)) : HJG_OK;
}

static unsigned
count_blocks(const HjgCudaStream *stream, hjg_u64 n)
{
	const unsigned most = (unsigned) stream->device->multiprocessors * BLOCKS_A_PROCESSOR;
	const hjg_u64 blocks = (n + HJG_K_SUM_THREADS - 1) / HJG_K_SUM_THREADS;

	return blocks < most ? (unsigned) blocks : most;
}

static HjgStatus
sum_columns(HjgCudaJoin *join, HjgCudaStream *stream, int buffer, HjgSideId side, const HjgResult *result, hjg_u64 npairs)
{
	HjgKSumColumns args = {
		.words = join->payload.gathered[side][buffer], .sums = sums_of(join), .npairs = (hjg_u32) npairs,
		.nwords = join->payload.bytes.bytes[side] / HJG_PAYLOAD_UNIT, .side = side, .page_pairs = result->page_pairs,
		.first_page = (hjg_u32) (result->npairs / result->page_pairs), .in_page = (hjg_u32) (result->npairs % result->page_pairs)
	};

	return hjg_cuda_launch(stream, &hjg_k_sum_columns, count_blocks(stream, npairs * args.nwords), HJG_K_SUM_THREADS, 0,
						   (void *[]) {&args});
}

static HjgStatus
sum_all(HjgCudaJoin *join, HjgCudaStream *stream, int buffer, const HjgResult *result, hjg_u64 npairs)
{
	HjgCudaPtr	sums = sums_of(join);
	HjgStatus	status;

	status = hjg_cuda_launch(stream, &hjg_k_sum_pairs, count_blocks(stream, npairs), HJG_K_SUM_THREADS, 0,
							 (void *[]) {&join->pairs[buffer], &npairs, &sums});
	for (int s = 0; s < HJG_SIDES && status == HJG_OK; s++)
		if (join->payload.sides & HJG_SIDE_BIT(s))
			status = sum_columns(join, stream, buffer, (HjgSideId) s, result, npairs);
	return status;
}

/* Copy n pairs and their columns, from position done of the buffer to position at of a page. */
static HjgStatus
copy_to_page(HjgCudaJoin *join, HjgCudaStream *stream, int buffer, hjg_u64 done, HjgPair *page, hjg_u64 at, hjg_u64 n)
{
	HjgStatus	status;

	hjg_cuda_region_pin(page);
	status = hjg_cuda_copy_out(stream, page + at, join->pairs[buffer] + done * sizeof(HjgPair), n * sizeof(HjgPair));
	for (int s = 0; s < HJG_SIDES && status == HJG_OK; s++)
	{
		const size_t width = join->payload.bytes.bytes[s];
		char	   *to = (char *) page + hjg_page_payload_off(join->spec.payload, (HjgSideId) s);

		if (join->payload.sides & HJG_SIDE_BIT(s))
			status = hjg_cuda_copy_out(stream, to + at * width, join->payload.gathered[s][buffer] + done * width, n * width);
	}
	return status;
}

HjgStatus
hjg_cuda_send_pairs(HjgCudaJoin *join, int buffer, HjgResult *result, hjg_u64 npairs)
{
	HjgCudaStream *stream = &join->streams->out[buffer];
	HjgStatus	status = hjg_cuda_mark(stream, HJG_CUDA_TRANSFER_OUT);

	if (status == HJG_OK && result->sum && npairs > 0)
		status = sum_all(join, stream, buffer, result, npairs);
	for (hjg_u64 done = 0, n; done < npairs && status == HJG_OK; done += n)
	{
		const hjg_u64 at = (result->npairs + done) % result->page_pairs;

		n = result->page_pairs - at < npairs - done ? result->page_pairs - at : npairs - done;
		status = copy_to_page(join, stream, buffer, done, result->pages[(result->npairs + done) / result->page_pairs], at, n);
	}
	result->npairs += npairs;
	return status == HJG_OK ? hjg_cuda_mark(stream, HJG_CUDA_IDLE) : status;
}

HjgStatus
hjg_cuda_send_end(HjgCudaJoin *join, HjgResult *result)
{
	HjgCudaStream *stream = &join->streams->work;
	const hjg_u64 *sums;
	HjgStatus	status;

	/* a round without rows may precede the allocation of buffers */
	if (!result->sum || result->npairs == 0)
		return HJG_OK;
	sums = join->streams->header->sums;
	status = hjg_cuda_copy_out(stream, join->streams->header->sums, sums_of(join), sizeof(join->streams->header->sums));
	if (status == HJG_OK)
		status = hjg_cuda_wait(stream);
	if (status == HJG_OK)
	{
		result->checksum += sums[0];
		result->payload_sum += sums[1];
	}
	return status;
}
