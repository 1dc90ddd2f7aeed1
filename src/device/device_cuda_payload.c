/*
 * device_cuda_payload.c
 *	  Early materialisation: payload columns are sent with the keys, and returned with the pairs.
 *
 * Paper 003 (figures 9 and 10) fetches columns by row number after the join, wherever they lie.  Here
 * columns are either sent with the keys and gathered on the device, or gathered where the pairs are read
 * (HjgPayloadBytes).
 *
 * Build columns lie in device memory by row number, as long as the join; missing row numbers leave holes.
 * Probe columns are copied with the chunks of keys, into buffers with the same number.  The columns of a
 * chunk's pairs are gathered on the stream that wrote the pairs, into a buffer that is copied out by the
 * same stream as the pairs.
 *
 * The gathered sides are chosen when a join is built, and again for each round.  Not gathered are: a side
 * with a segment without columns, a side for which the budget has no room, and joins in several passes
 * (device_cuda_passes.c), which move pairs in the result.
 */
#include "device/hjg_cuda_join.h"

#define IMAGE "cuda_gather"

/*
 * Most bytes of holes: row numbers of a build side that many processes filled have holes, each up to a
 * slab's rows.
 */
#define MOST_HOLE_BYTES ((hjg_u64) 256 * 1024 * 1024)

#define BLOCKS_A_PROCESSOR 8

HJG_CUDA_KERNELS(gather_rows, IMAGE, "hjg_k_gather_rows");

static bool
all_have_payload(const HjgSegment *segments, int nsegments)
{
	for (int i = 0; i < nsegments; i++)
		if (segments[i].nrows > 0 && segments[i].payload == NULL)
			return false;
	return true;
}

/* ---- memory ---- */

void
hjg_cuda_payload_plan(HjgCudaJoin *join, const HjgSegment *segments, int nsegments, hjg_u64 nrows, hjg_u64 limit)
{
	HjgCudaPayload *payload = &join->payload;

	payload->bytes = join->spec.payload;
	payload->build_limit = limit;
	if (!all_have_payload(segments, nsegments) || (limit - nrows) * payload->bytes.bytes[HJG_SIDE_BUILD] > MOST_HOLE_BYTES)
		payload->bytes.bytes[HJG_SIDE_BUILD] = 0;
}

void
hjg_cuda_payload_drop(HjgCudaJoin *join)
{
	join->payload.bytes = (HjgPayloadBytes) {{0}};
}

size_t
hjg_cuda_payload_chunk_bytes(const HjgCudaJoin *join)
{
	const HjgPayloadBytes *width = &join->payload.bytes;
	const size_t chunk = join->chunk_rows;
	size_t		bytes = 0;

	if (width->bytes[HJG_SIDE_BUILD] > 0)
		bytes += HJG_CUDA_OUTS * hjg_cuda_block_bytes(chunk * width->bytes[HJG_SIDE_BUILD]);
	if (width->bytes[HJG_SIDE_PROBE] > 0)
		bytes += (2 + HJG_CUDA_OUTS) * hjg_cuda_block_bytes(chunk * width->bytes[HJG_SIDE_PROBE]);
	return bytes;
}

size_t
hjg_cuda_payload_bytes(const HjgCudaJoin *join)
{
	const size_t width = join->payload.bytes.bytes[HJG_SIDE_BUILD];

	return hjg_cuda_payload_chunk_bytes(join) + (width > 0 ? hjg_cuda_block_bytes(join->payload.build_limit * width) : 0);
}

void
hjg_cuda_payload_borrow(HjgCudaJoin *further)
{
	const HjgCudaPayload *payload = &further->owner->payload;

	further->payload = (HjgCudaPayload) {.bytes = payload->bytes, .build_limit = payload->build_limit, .build = payload->build};
}

HjgStatus
hjg_cuda_payload_alloc(HjgCudaJoin *join)
{
	HjgCudaStream *stream = &join->streams->work;
	HjgCudaPayload *payload = &join->payload;
	const size_t chunk = join->chunk_rows;
	HjgStatus	status = HJG_OK;

	for (int s = 0; s < HJG_SIDES; s++)
		for (int i = 0; i < HJG_CUDA_OUTS && status == HJG_OK && payload->bytes.bytes[s] > 0; i++)
			status = hjg_cuda_alloc(stream, chunk * payload->bytes.bytes[s], &payload->gathered[s][i]);
	for (int i = 0; i < 2 && status == HJG_OK && payload->bytes.bytes[HJG_SIDE_PROBE] > 0; i++)
		status = hjg_cuda_alloc(stream, chunk * payload->bytes.bytes[HJG_SIDE_PROBE], &payload->probe[i]);
	return status;
}

void
hjg_cuda_payload_free(HjgCudaJoin *join)
{
	HjgCudaStream *stream = &join->streams->work;
	HjgCudaPayload *payload = &join->payload;

	if (join->owner == NULL)
		hjg_cuda_free(stream, payload->build);
	for (int i = 0; i < 2; i++)
		hjg_cuda_free(stream, payload->probe[i]);
	for (int s = 0; s < HJG_SIDES; s++)
		for (int i = 0; i < HJG_CUDA_OUTS; i++)
			hjg_cuda_free(stream, payload->gathered[s][i]);
}

/* ---- columns in ---- */

HjgStatus
hjg_cuda_payload_build(HjgCudaJoin *join, const HjgSegment *segments, int nsegments)
{
	HjgCudaStream *stream = &join->streams->work;
	HjgCudaPayload *payload = &join->payload;
	const size_t width = payload->bytes.bytes[HJG_SIDE_BUILD];
	size_t		queued = 0;
	HjgStatus	status;

	if (width == 0)
		return HJG_OK;
	status = hjg_cuda_alloc(stream, payload->build_limit * width, &payload->build);
	if (status == HJG_OK)
		status = hjg_cuda_mark(stream, HJG_CUDA_TRANSFER_IN);
	for (int i = 0; i < nsegments && status == HJG_OK; i++)
	{
		const size_t bytes = segments[i].nrows * width;

		if (bytes == 0)
			continue;
		hjg_cuda_region_pin(segments[i].payload);
		status = hjg_cuda_copy_in(stream, payload->build + segments[i].first_row * width, segments[i].payload, bytes);
		if (status == HJG_OK)
			status = hjg_cuda_pace(stream, &queued, bytes);
	}
	return status;
}

hjg_u32
hjg_cuda_payload_round(HjgCudaJoin *join, const HjgSegment *segments, int nsegments)
{
	HjgCudaPayload *payload = &join->payload;

	payload->sides = 0;
	if (payload->bytes.bytes[HJG_SIDE_BUILD] > 0)
		payload->sides |= HJG_SIDE_BIT(HJG_SIDE_BUILD);
	if (payload->bytes.bytes[HJG_SIDE_PROBE] > 0 && all_have_payload(segments, nsegments))
		payload->sides |= HJG_SIDE_BIT(HJG_SIDE_PROBE);
	return payload->sides;
}

HjgStatus
hjg_cuda_payload_load(HjgCudaJoin *join, HjgCudaStream *stream, int buffer, const HjgSegment *segments, int nsegments, hjg_u64 row,
					hjg_u64 n)
{
	if ((join->payload.sides & HJG_SIDE_BIT(HJG_SIDE_PROBE)) == 0)
		return HJG_OK;
	return hjg_cuda_bring_rows(stream, HJG_CUDA_PAYLOAD, join->payload.bytes.bytes[HJG_SIDE_PROBE],
							   join->payload.probe[buffer], segments, nsegments, row, n);
}

/* ---- columns out ---- */

HjgStatus
hjg_cuda_gather(HjgCudaStream *stream, const HjgKGather *gather)
{
	const unsigned most = (unsigned) stream->device->multiprocessors * BLOCKS_A_PROCESSOR;
	const int	which = gather->nwords % 4 == 0 ? 2 : gather->nwords % 2 == 0 ? 1 : 0;
	const hjg_u64 accesses = gather->npairs * (gather->nwords >> which);
	const hjg_u64 blocks = (accesses + HJG_K_GATHER_THREADS - 1) / HJG_K_GATHER_THREADS;

	return hjg_cuda_launch(stream, &gather_rows[which], blocks < most ? (unsigned) blocks : most, HJG_K_GATHER_THREADS, 0,
						   (void *[]) {(void *) gather});
}

HjgStatus
hjg_cuda_payload_gather(HjgCudaJoin *join, int buffer, hjg_u64 npairs, int probe_buffer, hjg_u64 first_row, hjg_u64 nrows)
{
	HjgCudaStream *stream = &join->streams->work;
	HjgCudaPayload *payload = &join->payload;
	HjgStatus	status = HJG_OK;

	if (payload->sides == 0 || npairs == 0)
		return HJG_OK;
	status = hjg_cuda_mark(stream, HJG_CUDA_GATHER);
	for (int s = 0; s < HJG_SIDES && status == HJG_OK; s++)
	{
		const bool	build = s == HJG_SIDE_BUILD;
		const HjgKGather gather = {
			.pairs = join->pairs[buffer], .from = build ? payload->build : payload->probe[probe_buffer],
			.to = payload->gathered[s][buffer], .npairs = npairs, .nwords = payload->bytes.bytes[s] / HJG_PAYLOAD_UNIT,
			.first_row = build ? 0 : (hjg_u32) first_row, .build = build,
			.nrows = build ? (hjg_u32) payload->build_limit : (hjg_u32) nrows
		};

		if (payload->sides & HJG_SIDE_BIT(s))
			status = hjg_cuda_gather(stream, &gather);
	}
	return status == HJG_OK ? hjg_cuda_mark(stream, HJG_CUDA_IDLE) : status;
}
