/*
 * device_cuda_send.c
 *	  The way out of a chunk's pairs and columns: added up in the device's memory, then copied to the result.
 *
 * Who reads a result adds it up again.  The sums are made here, from memory that nobody but this join's kernels writes to: pages
 * of the arena are also written by other threads of the process, and what a stray store has changed there
 * before the host summed it would have the right sum.
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
	return join->small + offsetof(HjgCudaMail, sums);
}

HjgStatus
hjg_cuda_send_begin(HjgCudaJoin *join, const HjgResult *result)
{
	return result->sum ? hjg_cuda_zero(&join->lanes->work, sums_of(join), sizeof(join->lanes->mail->sums)) : HJG_OK;
}

static unsigned
count_blocks(const HjgCudaLane *lane, hjg_u64 n)
{
	const unsigned most = (unsigned) lane->device->multiprocessors * BLOCKS_A_PROCESSOR;
	const hjg_u64 blocks = (n + HJG_K_SUM_THREADS - 1) / HJG_K_SUM_THREADS;

	return blocks < most ? (unsigned) blocks : most;
}

static HjgStatus
sum_columns(HjgCudaJoin *join, HjgCudaLane *lane, int turn, HjgSideId side, const HjgResult *result, hjg_u64 npairs)
{
	HjgKSumColumns args = {
		.words = join->payload.gathered[side][turn], .sums = sums_of(join), .npairs = (hjg_u32) npairs,
		.nwords = join->payload.bytes.bytes[side] / HJG_PAYLOAD_UNIT, .side = side, .page_pairs = result->page_pairs,
		.first_page = (hjg_u32) (result->npairs / result->page_pairs), .in_page = (hjg_u32) (result->npairs % result->page_pairs)
	};

	return hjg_cuda_launch(lane, &hjg_k_sum_columns, count_blocks(lane, npairs * args.nwords), HJG_K_SUM_THREADS, 0,
						   (void *[]) {&args});
}

static HjgStatus
sum_all(HjgCudaJoin *join, HjgCudaLane *lane, int turn, const HjgResult *result, hjg_u64 npairs)
{
	HjgCudaPtr	sums = sums_of(join);
	HjgStatus	status;

	status = hjg_cuda_launch(lane, &hjg_k_sum_pairs, count_blocks(lane, npairs), HJG_K_SUM_THREADS, 0,
							 (void *[]) {&join->pairs[turn], &npairs, &sums});
	for (int s = 0; s < HJG_SIDES && status == HJG_OK; s++)
		if (join->payload.sides & HJG_SIDE_BIT(s))
			status = sum_columns(join, lane, turn, (HjgSideId) s, result, npairs);
	return status;
}

/* Copy n pairs and their columns, from number done of the turn on, to number at of a page. */
static HjgStatus
copy_to_page(HjgCudaJoin *join, HjgCudaLane *lane, int turn, hjg_u64 done, HjgPair *page, hjg_u64 at, hjg_u64 n)
{
	HjgStatus	status;

	hjg_cuda_region_pin(page);
	status = hjg_cuda_copy_out(lane, page + at, join->pairs[turn] + done * sizeof(HjgPair), n * sizeof(HjgPair));
	for (int s = 0; s < HJG_SIDES && status == HJG_OK; s++)
	{
		const size_t width = join->payload.bytes.bytes[s];
		char	   *to = (char *) page + hjg_page_payload_off(join->spec.payload, (HjgSideId) s);

		if (join->payload.sides & HJG_SIDE_BIT(s))
			status = hjg_cuda_copy_out(lane, to + at * width, join->payload.gathered[s][turn] + done * width, n * width);
	}
	return status;
}

HjgStatus
hjg_cuda_send_pairs(HjgCudaJoin *join, int turn, HjgResult *result, hjg_u64 npairs)
{
	HjgCudaLane *lane = &join->lanes->out[turn];
	HjgStatus	status = hjg_cuda_mark(lane, HJG_CUDA_TRANSFER_OUT);

	if (status == HJG_OK && result->sum && npairs > 0)
		status = sum_all(join, lane, turn, result, npairs);
	for (hjg_u64 done = 0, n; done < npairs && status == HJG_OK; done += n)
	{
		const hjg_u64 at = (result->npairs + done) % result->page_pairs;

		n = result->page_pairs - at < npairs - done ? result->page_pairs - at : npairs - done;
		status = copy_to_page(join, lane, turn, done, result->pages[(result->npairs + done) / result->page_pairs], at, n);
	}
	result->npairs += npairs;
	return status == HJG_OK ? hjg_cuda_mark(lane, HJG_CUDA_IDLE) : status;
}

HjgStatus
hjg_cuda_send_end(HjgCudaJoin *join, HjgResult *result)
{
	HjgCudaLane *lane = &join->lanes->work;
	const hjg_u64 *sums;
	HjgStatus	status;

	/* a round without rows may have come before the buffers were made */
	if (!result->sum || result->npairs == 0)
		return HJG_OK;
	sums = join->lanes->mail->sums;
	status = hjg_cuda_copy_out(lane, join->lanes->mail->sums, sums_of(join), sizeof(join->lanes->mail->sums));
	if (status == HJG_OK)
		status = hjg_cuda_wait(lane);
	if (status == HJG_OK)
	{
		result->checksum += sums[0];
		result->payload_sum += sums[1];
	}
	return status;
}
