/*
 * device_cuda_once.c
 *	  Probing in one pass: the pairs of a chunk in any order, with a strategy or the csr table.
 *
 * While chunk c is joined, chunk c + 1 is copied in and the pairs of chunk c - 1 are copied out.  The host
 * must know a chunk's number of pairs to place them, so it waits for each chunk's kernels, but not for the
 * copies.
 *
 * A chunk whose pairs do not fit ends the round before it.  If it is the first chunk, it is joined again
 * with as many rows as are likely to fit, so a round may end with room left.
 */
#include "device/hjg_cuda_join.h"

#define IMAGE "cuda_csr"
#define ROWS_A_BLOCK (4 * HJG_CUDA_BLOCK)
#define BLOCKS_A_PROCESSOR 16

/* Rows with several pairs are not joined in smaller chunks. */
#define LEAST_ROWS 256

HJG_CUDA_KERNELS(probe_once, IMAGE, "hjg_k_probe_once");

typedef struct Batch
{
	HjgCudaJoin *join;
	HjgMatchMode mode;
	bool		single;			/* no row has more than one pair */
	const HjgSegment *segments;
	int			nsegments;
	hjg_u64		nrows;
} Batch;

/* A chunk of the batch, and the number of its buffers. */
typedef struct Chunk
{
	hjg_u64		row;
	hjg_u64		nrows;
	int			buffer;
} Chunk;

static hjg_u64
least_rows(hjg_u64 a, hjg_u64 b)
{
	return a < b ? a : b;
}

static Chunk
chunk_at(const Batch *batch, hjg_u64 row, int buffer)
{
	return (Chunk) {row, row < batch->nrows ? least_rows(batch->join->chunk_rows, batch->nrows - row) : 0, buffer};
}

/* Queue the copy of a chunk's keys into the buffer of the chunk before last. */
static HjgStatus
load_chunk(const Batch *batch, const Chunk *chunk)
{
	HjgCudaJoin *join = batch->join;
	HjgCudaStream *stream = &join->streams->in;
	HjgStatus	status;

	if (chunk->nrows == 0)
		return HJG_OK;
	status = hjg_cuda_mark(stream, HJG_CUDA_TRANSFER_IN);
	if (status == HJG_OK)
		status = hjg_cuda_bring_rows(stream, HJG_CUDA_KEY, (size_t) join->spec.key_width, join->keys[chunk->buffer],
									 batch->segments, batch->nsegments, chunk->row, chunk->nrows);
	if (status == HJG_OK)
		status = hjg_cuda_payload_load(join, stream, chunk->buffer, batch->segments, batch->nsegments, chunk->row, chunk->nrows);
	return status == HJG_OK ? hjg_cuda_mark(stream, HJG_CUDA_IDLE) : status;
}

static HjgStatus
probe_strategy(const Batch *batch, const Chunk *chunk, hjg_u64 room)
{
	HjgCudaJoin *join = batch->join;
	HjgCudaStream *stream = &join->streams->work;
	const HjgCudaSide probe = {
		.keys = join->keys[chunk->buffer], .nrows = chunk->nrows, .rows = chunk->row > 0 ? join->numbers : 0
	};
	const HjgCudaOutput output = {
		.pairs = join->pairs[chunk->buffer], .capacity = least_rows(room, join->chunk_rows), .counters = join->small
	};
	HjgStatus	status = HJG_OK;

	if (probe.rows != 0)
		status = hjg_cuda_number_rows(stream, probe.rows, chunk->nrows, (hjg_u32) chunk->row);
	return status == HJG_OK ? join->strategy->probe(stream, join->table, &probe, &output) : status;
}

static HjgStatus
probe_csr(const Batch *batch, const Chunk *chunk)
{
	HjgCudaJoin *join = batch->join;
	HjgCudaPtr	keys = join->keys[chunk->buffer];
	HjgCudaPtr	pairs = join->pairs[chunk->buffer];
	hjg_u64		n = chunk->nrows;
	hjg_u32		first_row = (hjg_u32) chunk->row;
	int			mode = batch->mode;
	const unsigned blocks = hjg_cuda_blocks(n, ROWS_A_BLOCK);
	const unsigned most = (unsigned) join->device->multiprocessors * BLOCKS_A_PROCESSOR;

	return hjg_cuda_launch(&join->streams->work, &probe_once[hjg_cuda_width_ix(join->spec.key_width)],
						   blocks < most ? blocks : most, HJG_CUDA_BLOCK, 0,
						   (void *[]) {&keys, &n, &join->csr.table, &mode, &first_row, &pairs, &join->small});
}

/* Queue the join of a chunk, which writes its number of pairs to the header. */
static HjgStatus
join_chunk(const Batch *batch, const Chunk *chunk, hjg_u64 room)
{
	HjgCudaJoin *join = batch->join;
	HjgCudaStream *stream = &join->streams->work;
	HjgStatus	status;

	status = hjg_cuda_follow(stream, &join->streams->in);
	if (status == HJG_OK)
		status = hjg_cuda_follow(stream, &join->streams->out[chunk->buffer]);
	if (status == HJG_OK)
		status = hjg_cuda_mark(stream, HJG_CUDA_PROBE);
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, join->small, 2 * sizeof(hjg_u64));
	if (status == HJG_OK)
		status = join->strategy != NULL ? probe_strategy(batch, chunk, room) : probe_csr(batch, chunk);
	if (status == HJG_OK)
		status = hjg_cuda_post_count(stream, join->small, &join->streams->header->npairs);
	return status;
}

/* Estimate the rows of a chunk whose pairs fit. */
static hjg_u64
chunk_rows_that_fit(const Batch *batch, hjg_u64 nrows, hjg_u64 room)
{
	const double pairs = batch->join->row_pairs * (double) nrows;
	hjg_u64		rows = nrows;

	if (pairs > (double) room)
		rows = (hjg_u64) (0.9 * (double) room / batch->join->row_pairs);
	return batch->single && rows < least_rows(room, nrows) ? least_rows(room, nrows) : rows;
}

/* Join a chunk, or fewer of its rows; the pairs are then in its buffer. */
static HjgStatus
fit_chunk(const Batch *batch, Chunk *chunk, hjg_u64 room, bool first, Chunk *next, hjg_u64 *npairs)
{
	HjgCudaJoin *join = batch->join;
	const hjg_u64 loaded = chunk->nrows;
	bool		prefetched = false;

	*npairs = 0;
	chunk->nrows = chunk_rows_that_fit(batch, loaded, room);
	for (;;)
	{
		hjg_u64		n = chunk->nrows;
		HjgStatus	status;

		if (n == 0 || (!first && n < loaded) || (!batch->single && n < least_rows(LEAST_ROWS, loaded)))
		{
			chunk->nrows = 0;
			return HJG_OK;
		}
		status = join_chunk(batch, chunk, room);
		if (status == HJG_OK && !prefetched && n == loaded)
			status = load_chunk(batch, next);
		prefetched |= n == loaded;
		if (status == HJG_OK)
			status = hjg_cuda_wait(&join->streams->work);
		if (status != HJG_OK)
			return status;
		*npairs = join->streams->header->npairs;
		if (batch->single && *npairs > n)
			return HJG_ERR_DEVICE;
		join->row_pairs = (double) *npairs / (double) n;
		if (*npairs <= least_rows(room, join->chunk_rows))
			break;
		chunk->nrows = least_rows(chunk_rows_that_fit(batch, n, least_rows(room, join->chunk_rows)), batch->single ? n : n / 2);
	}
	if (chunk->nrows < loaded)
	{
		*next = chunk_at(batch, chunk->row + chunk->nrows, next->buffer);
		return load_chunk(batch, next);
	}
	return HJG_OK;
}

/* Queue the gathering of columns for a chunk's pairs, and the copies of both. */
static HjgStatus
send_chunk(const Batch *batch, const Chunk *chunk, hjg_u64 npairs, HjgResult *result)
{
	HjgCudaJoin *join = batch->join;
	HjgCudaStream *out = &join->streams->out[chunk->buffer];
	HjgStatus	status = HJG_OK;

	if (join->payload.sides != 0)
	{
		status = hjg_cuda_payload_gather(join, chunk->buffer, npairs, chunk->buffer, chunk->row, chunk->nrows);
		if (status == HJG_OK)
			status = hjg_cuda_follow(out, &join->streams->work);
		/* the chunk after next must not overwrite this chunk's columns before they are gathered */
		if (status == HJG_OK)
			status = hjg_cuda_follow(&join->streams->in, &join->streams->work);
	}
	return status == HJG_OK ? hjg_cuda_send_pairs(join, chunk->buffer, result, npairs) : status;
}

HjgStatus
hjg_cuda_probe_once(HjgCudaJoin *join, HjgMatchMode mode, bool single, const HjgSegment *segments, int nsegments,
					hjg_u64 nrows, HjgCursor *cursor, HjgResult *result)
{
	const Batch batch = {join, mode, single, segments, nsegments, nrows};
	const hjg_u64 capacity = (hjg_u64) result->npages * result->page_pairs;
	Chunk		chunk = chunk_at(&batch, cursor->row, 0);
	HjgStatus	status = load_chunk(&batch, &chunk);

	while (chunk.nrows > 0 && status == HJG_OK)
	{
		Chunk		next = chunk_at(&batch, chunk.row + chunk.nrows, 1 - chunk.buffer);
		const bool	first = chunk.row == cursor->row;
		hjg_u64		npairs;

		status = fit_chunk(&batch, &chunk, capacity - result->npairs, first, &next, &npairs);
		if (status != HJG_OK)
			break;
		if (chunk.nrows == 0 && first)
			return HJG_ERR_INPUT;
		if (chunk.nrows == 0)
			break;
		status = send_chunk(&batch, &chunk, npairs, result);
		chunk = next;
	}
	cursor->row = (hjg_u32) chunk.row;
	return status;
}
