/*
 * lab_host_stream.c
 *	  A build side that stays on the device, and a probe side that passes through it.
 *
 * Keys go in over the bus, and pairs of row numbers come out, 8 bytes a match: row numbers of the probe
 * side need not go in, since a chunk's rows are numbered by position.  The first chunks come in while the
 * table is built.
 */
#include "lab/hjg_cuda_host.h"

typedef struct Rows
{
	const HjgCudaHostJoin *join;
	hjg_u64		row;
} Rows;

static HjgCudaShape
shape_of_stream(const HjgCudaHostJoin *join)
{
	return (HjgCudaShape) {
		.key_width = join->key_width, .mode = join->mode, .build_rows = join->build.nrows, .probe_rows = join->chunk_rows
	};
}

size_t
hjg_lab_stream_bytes(const HjgCudaDevice *device, const HjgCudaHostJoin *join)
{
	const HjgCudaShape shape = shape_of_stream(join);

	return hjg_cuda_block_bytes(join->build.nrows * (size_t) join->key_width) +
		hjg_lab_host_build_bytes(device, &shape, join->strategy) +
		hjg_lab_flow_bytes(join->key_width, false, join->chunk_rows);
}

static HjgStatus
load_rows(void *arg, HjgCudaStream *stream, bool may_wait, HjgCudaChunk *chunk, HjgCudaLoad *load)
{
	Rows	   *rows = arg;
	const HjgCudaHostJoin *join = rows->join;
	const hjg_u64 left = join->probe.nrows - rows->row;

	if (left == 0)
	{
		*load = HJG_CUDA_NO_MORE;
		return HJG_OK;
	}
	chunk->nrows = left < join->chunk_rows ? left : join->chunk_rows;
	chunk->first_row = rows->row;
	rows->row += chunk->nrows;
	return hjg_cuda_copy_in(stream, chunk->keys, (const char *) join->probe.keys + chunk->first_row * (hjg_u64) join->key_width,
							chunk->nrows * (size_t) join->key_width);
}

HjgStatus
hjg_lab_stream_join(HjgCudaStreams *streams, const HjgCudaHostJoin *join, HjgCudaHostResult *result)
{
	const HjgCudaShape shape = shape_of_stream(join);
	const HjgCudaStrategy *strategy = NULL;
	HjgCudaSide build = {.nrows = join->build.nrows};
	HjgCudaFlow flow = {0};
	Rows		rows = {.join = join};
	const HjgCudaSource source = {.load = load_rows, .arg = &rows};
	void	   *table = NULL;
	HjgStatus	status;
	HjgStatus	drained;

	result->npairs = 0;
	result->nbatches = 0;
	status = hjg_cuda_alloc(&streams->work, build.nrows * (size_t) join->key_width, &build.keys);
	if (status == HJG_OK)
		status = hjg_cuda_copy_in(&streams->in, build.keys, join->build.keys, build.nrows * (size_t) join->key_width);
	if (status == HJG_OK)
		status = hjg_cuda_follow(&streams->work, &streams->in);
	if (status == HJG_OK)
		status = hjg_lab_flow_open(&flow, streams, join->key_width, false, join->chunk_rows, result);
	flow.sum = join->sum;
	flow.serial = join->serial;
	if (status == HJG_OK && !join->serial)
		status = hjg_lab_flow_begin(&flow, join->key_width, &source);
	if (status == HJG_OK)
		status = hjg_lab_host_build(&streams->work, &shape, &build, join->strategy, &strategy, &table);
	if (status == HJG_OK && join->serial)
		status = hjg_cuda_streams_wait(streams);
	if (status == HJG_OK && join->serial)
		status = hjg_lab_flow_begin(&flow, join->key_width, &source);
	if (status == HJG_OK)
		status = hjg_lab_flow_run(&flow, strategy, table);
	drained = hjg_cuda_streams_wait(streams);
	if (table != NULL)
		strategy->free(&streams->work, table);
	hjg_lab_flow_close(&flow);
	hjg_cuda_free(&streams->work, build.keys);
	return status == HJG_OK ? drained : status;
}
