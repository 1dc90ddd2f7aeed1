/*
 * device_cuda_carry.c
 *	  Early materialisation: carried columns come with the keys, and leave beside the pairs.
 *
 * Paper 003 (figures 9 and 10) fetches columns by row number after the join, wherever they lie.  Here the
 * choice is where: on the device, from columns that were sent along, or by whoever reads the pairs (HjgCarried).
 *
 * Build columns lie in device memory by row number, as long as the join; holes in the row numbers
 * are holes there.  Probe columns go through with the chunks of keys, in the buffers of the same turn.  The pairs of a
 * chunk are gathered on the lane that wrote them, into a buffer that the lane copies out which copies out the pairs.
 *
 * What is gathered is settled as a join is built, and for each round: a side of which some segment
 * comes without its columns is not, nor is one for which the budget has no room, nor anything in turns
 * (device_cuda_turns.c), which move pairs in the result.
 */
#include "device/hjg_cuda_join.h"

#define IMAGE "cuda_gather"

/* Row numbers of a build side that many processes filled have holes, each up to a slab's rows; they may take so much. */
#define MOST_HOLE_BYTES ((hjg_u64) 256 * 1024 * 1024)

#define BLOCKS_A_PROCESSOR 8

HJG_CUDA_KERNELS(gather_rows, IMAGE, "hjg_k_gather_rows");

static bool
all_carry(const HjgSegment *segments, int nsegments)
{
	for (int i = 0; i < nsegments; i++)
		if (segments[i].nrows > 0 && segments[i].carried == NULL)
			return false;
	return true;
}

/* ---- memory ---- */

void
hjg_cuda_carry_plan(HjgCudaJoin *join, const HjgSegment *segments, int nsegments, hjg_u64 nrows, hjg_u64 limit)
{
	HjgCudaCarry *carry = &join->carry;

	carry->bytes = join->spec.carried;
	carry->build_limit = limit;
	if (!all_carry(segments, nsegments) || (limit - nrows) * carry->bytes.bytes[HJG_SIDE_BUILD] > MOST_HOLE_BYTES)
		carry->bytes.bytes[HJG_SIDE_BUILD] = 0;
}

void
hjg_cuda_carry_drop(HjgCudaJoin *join)
{
	join->carry.bytes = (HjgCarried) {{0}};
}

size_t
hjg_cuda_carry_chunk_bytes(const HjgCudaJoin *join)
{
	const HjgCarried *width = &join->carry.bytes;
	const size_t chunk = join->chunk_rows;
	size_t		bytes = 0;

	if (width->bytes[HJG_SIDE_BUILD] > 0)
		bytes += HJG_CUDA_OUTS * hjg_cuda_block_bytes(chunk * width->bytes[HJG_SIDE_BUILD]);
	if (width->bytes[HJG_SIDE_PROBE] > 0)
		bytes += (2 + HJG_CUDA_OUTS) * hjg_cuda_block_bytes(chunk * width->bytes[HJG_SIDE_PROBE]);
	return bytes;
}

size_t
hjg_cuda_carry_bytes(const HjgCudaJoin *join)
{
	const size_t width = join->carry.bytes.bytes[HJG_SIDE_BUILD];

	return hjg_cuda_carry_chunk_bytes(join) + (width > 0 ? hjg_cuda_block_bytes(join->carry.build_limit * width) : 0);
}

void
hjg_cuda_carry_borrow(HjgCudaJoin *branch)
{
	const HjgCudaCarry *carry = &branch->trunk->carry;

	branch->carry = (HjgCudaCarry) {.bytes = carry->bytes, .build_limit = carry->build_limit, .build = carry->build};
}

HjgStatus
hjg_cuda_carry_alloc(HjgCudaJoin *join)
{
	HjgCudaLane *lane = &join->lanes->work;
	HjgCudaCarry *carry = &join->carry;
	const size_t chunk = join->chunk_rows;
	HjgStatus	status = HJG_OK;

	for (int s = 0; s < HJG_SIDES; s++)
		for (int i = 0; i < HJG_CUDA_OUTS && status == HJG_OK && carry->bytes.bytes[s] > 0; i++)
			status = hjg_cuda_alloc(lane, chunk * carry->bytes.bytes[s], &carry->gathered[s][i]);
	for (int i = 0; i < 2 && status == HJG_OK && carry->bytes.bytes[HJG_SIDE_PROBE] > 0; i++)
		status = hjg_cuda_alloc(lane, chunk * carry->bytes.bytes[HJG_SIDE_PROBE], &carry->probe[i]);
	return status;
}

void
hjg_cuda_carry_free(HjgCudaJoin *join)
{
	HjgCudaLane *lane = &join->lanes->work;
	HjgCudaCarry *carry = &join->carry;

	if (join->trunk == NULL)
		hjg_cuda_free(lane, carry->build);
	for (int i = 0; i < 2; i++)
		hjg_cuda_free(lane, carry->probe[i]);
	for (int s = 0; s < HJG_SIDES; s++)
		for (int i = 0; i < HJG_CUDA_OUTS; i++)
			hjg_cuda_free(lane, carry->gathered[s][i]);
}

/* ---- columns in ---- */

HjgStatus
hjg_cuda_carry_build(HjgCudaJoin *join, const HjgSegment *segments, int nsegments)
{
	HjgCudaLane *lane = &join->lanes->work;
	HjgCudaCarry *carry = &join->carry;
	const size_t width = carry->bytes.bytes[HJG_SIDE_BUILD];
	size_t		queued = 0;
	HjgStatus	status;

	if (width == 0)
		return HJG_OK;
	status = hjg_cuda_alloc(lane, carry->build_limit * width, &carry->build);
	if (status == HJG_OK)
		status = hjg_cuda_mark(lane, HJG_CUDA_TRANSFER_IN);
	for (int i = 0; i < nsegments && status == HJG_OK; i++)
	{
		const size_t bytes = segments[i].nrows * width;

		if (bytes == 0)
			continue;
		hjg_cuda_region_pin(segments[i].carried);
		status = hjg_cuda_copy_in(lane, carry->build + segments[i].first_row * width, segments[i].carried, bytes);
		if (status == HJG_OK)
			status = hjg_cuda_pace(lane, &queued, bytes);
	}
	return status;
}

hjg_u32
hjg_cuda_carry_round(HjgCudaJoin *join, const HjgSegment *segments, int nsegments)
{
	HjgCudaCarry *carry = &join->carry;

	carry->sides = 0;
	if (carry->bytes.bytes[HJG_SIDE_BUILD] > 0)
		carry->sides |= HJG_SIDE_BIT(HJG_SIDE_BUILD);
	if (carry->bytes.bytes[HJG_SIDE_PROBE] > 0 && all_carry(segments, nsegments))
		carry->sides |= HJG_SIDE_BIT(HJG_SIDE_PROBE);
	return carry->sides;
}

HjgStatus
hjg_cuda_carry_load(HjgCudaJoin *join, HjgCudaLane *lane, int turn, const HjgSegment *segments, int nsegments, hjg_u64 row,
					hjg_u64 n)
{
	if ((join->carry.sides & HJG_SIDE_BIT(HJG_SIDE_PROBE)) == 0)
		return HJG_OK;
	return hjg_cuda_bring_rows(lane, HJG_CUDA_CARRIED, join->carry.bytes.bytes[HJG_SIDE_PROBE],
							   join->carry.probe[turn], segments, nsegments, row, n);
}

/* ---- columns out ---- */

HjgStatus
hjg_cuda_gather(HjgCudaLane *lane, const HjgKGather *gather)
{
	const unsigned most = (unsigned) lane->device->multiprocessors * BLOCKS_A_PROCESSOR;
	const int	which = gather->nwords % 4 == 0 ? 2 : gather->nwords % 2 == 0 ? 1 : 0;
	const hjg_u64 accesses = gather->npairs * (gather->nwords >> which);
	const hjg_u64 blocks = (accesses + HJG_K_GATHER_THREADS - 1) / HJG_K_GATHER_THREADS;

	return hjg_cuda_launch(lane, &gather_rows[which], blocks < most ? (unsigned) blocks : most, HJG_K_GATHER_THREADS, 0,
						   (void *[]) {(void *) gather});
}

HjgStatus
hjg_cuda_carry_gather(HjgCudaJoin *join, int turn, hjg_u64 npairs, int probe_turn, hjg_u64 first_row, hjg_u64 nrows)
{
	HjgCudaLane *lane = &join->lanes->work;
	HjgCudaCarry *carry = &join->carry;
	HjgStatus	status = HJG_OK;

	if (carry->sides == 0 || npairs == 0)
		return HJG_OK;
	status = hjg_cuda_mark(lane, HJG_CUDA_GATHER);
	for (int s = 0; s < HJG_SIDES && status == HJG_OK; s++)
	{
		const bool	build = s == HJG_SIDE_BUILD;
		const HjgKGather gather = {
			.pairs = join->pairs[turn], .from = build ? carry->build : carry->probe[probe_turn],
			.to = carry->gathered[s][turn], .npairs = npairs, .nwords = carry->bytes.bytes[s] / HJG_CARRIED_UNIT,
			.first_row = build ? 0 : (hjg_u32) first_row, .build = build,
			.nrows = build ? (hjg_u32) carry->build_limit : (hjg_u32) nrows
		};

		if (carry->sides & HJG_SIDE_BIT(s))
			status = hjg_cuda_gather(lane, &gather);
	}
	return status == HJG_OK ? hjg_cuda_mark(lane, HJG_CUDA_IDLE) : status;
}
