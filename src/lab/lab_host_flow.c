/*
 * lab_host_flow.c
 *	  Probe rows through the device: copied in, joined, their pairs copied out.
 *
 * Three kinds of streams work at the same time.  Chunks come in ahead of the join, into alternating
 * buffers; pairs leave from alternating buffers.  The host must know a chunk's number of pairs to place
 * them, so it waits for each join, but not for the copies: meanwhile the next chunks come in and the
 * previous pairs go out.  With chunks of some million rows these waits (10 us) do not matter.
 *
 * A join whose pairs do not fit the output is void; its rows are joined again, fewer at a time (early stop
 * and resume of paper 004, with the rate of the void join as the estimate).
 */
#include <string.h>

#include "lab/hjg_cuda_host.h"
#include "lab/hjg_cuda_paper.h"
#include "lab/hjg_lab_stream.h"

#define LEAST_ROWS 4			/* keys of a piece start at multiples of 16 bytes */

/*
 * Limits chunks: a chunk's join may read the whole build side, so the build side has at most this many
 * chunks' rows.
 */
#define BUILD_CHUNKS 8
#define LEAST_CHUNK_ROWS (4u << 20)
#define MOST_CHUNK_ROWS (32u << 20)

hjg_u64
hjg_lab_flow_chunk_rows(hjg_u64 build_rows)
{
	const hjg_u64 rows = build_rows / BUILD_CHUNKS / LEAST_ROWS * LEAST_ROWS;

	return rows < LEAST_CHUNK_ROWS ? LEAST_CHUNK_ROWS : rows > MOST_CHUNK_ROWS ? MOST_CHUNK_ROWS : rows;
}

size_t
hjg_lab_flow_bytes(int key_width, bool with_rows, hjg_u64 chunk_rows)
{
	return HJG_CUDA_FLOW_INS * (hjg_cuda_block_bytes(chunk_rows * (size_t) key_width) +
								(with_rows ? hjg_cuda_block_bytes(chunk_rows * sizeof(hjg_u32)) : 0)) +
		HJG_CUDA_OUTS * hjg_cuda_block_bytes(chunk_rows * sizeof(HjgPair)) + hjg_cuda_block_bytes(2 * sizeof(hjg_u64));
}

HjgStatus
hjg_lab_flow_open(HjgCudaFlow *flow, HjgCudaStreams *streams, int key_width, bool with_rows, hjg_u64 chunk_rows,
				   HjgCudaHostResult *result)
{
	HjgCudaStream *stream = &streams->work;
	HjgStatus	status;

	memset(flow, 0, sizeof(*flow));
	flow->streams = streams;
	flow->result = result;
	flow->chunk_rows = flow->room = flow->piece_rows = chunk_rows;
	status = hjg_cuda_alloc(stream, 2 * sizeof(hjg_u64), &flow->counters);
	for (int i = 0; i < HJG_CUDA_FLOW_INS && status == HJG_OK; i++)
	{
		status = hjg_lab_note_open(&streams->in, &flow->arrived[i]);
		if (status == HJG_OK)
			status = hjg_cuda_alloc(stream, chunk_rows * (size_t) key_width, &flow->chunks[i].keys);
		if (status == HJG_OK && with_rows)
			status = hjg_cuda_alloc(stream, chunk_rows * sizeof(hjg_u32), &flow->chunks[i].rows);
	}
	for (int i = 0; i < HJG_CUDA_OUTS && status == HJG_OK; i++)
		status = hjg_cuda_alloc(stream, chunk_rows * sizeof(HjgPair), &flow->pairs[i]);
	return status;
}

void
hjg_lab_flow_close(HjgCudaFlow *flow)
{
	HjgCudaStream *stream;

	if (flow->streams == NULL)
		return;
	stream = &flow->streams->work;
	(void) hjg_cuda_streams_wait(flow->streams);
	for (int i = 0; i < HJG_CUDA_FLOW_INS; i++)
	{
		hjg_lab_note_close(&flow->streams->in, &flow->arrived[i]);
		hjg_cuda_free(stream, flow->chunks[i].keys);
		hjg_cuda_free(stream, flow->chunks[i].rows);
	}
	for (int i = 0; i < HJG_CUDA_OUTS; i++)
		hjg_cuda_free(stream, flow->pairs[i]);
	hjg_cuda_free(stream, flow->counters);
	memset(flow, 0, sizeof(*flow));
}

/* Queue copies while there are buffers; wait for a chunk only if there is nothing else to do. */
static HjgStatus
load_ahead(HjgCudaFlow *flow)
{
	HjgStatus	status = HJG_OK;

	while (status == HJG_OK && !flow->no_more && flow->nloaded - flow->njoined < (flow->serial ? 1 : HJG_CUDA_FLOW_INS))
	{
		const int	next = (int) (flow->nloaded % HJG_CUDA_FLOW_INS);
		HjgCudaLoad load = HJG_CUDA_LOADED;

		status = flow->source->load(flow->source->arg, &flow->streams->in, flow->nloaded == flow->njoined, &flow->chunks[next], &load);
		if (status != HJG_OK || load == HJG_CUDA_NOT_YET)
			break;
		if (load == HJG_CUDA_NO_MORE)
			flow->no_more = true;
		else
		{
			status = hjg_lab_note(&flow->streams->in, flow->arrived[next]);
			flow->nloaded++;
			if (status == HJG_OK && flow->serial)
				status = hjg_cuda_wait(&flow->streams->in);
		}
	}
	return status;
}

HjgStatus
hjg_lab_flow_begin(HjgCudaFlow *flow, int key_width, const HjgCudaSource *source)
{
	flow->key_width = key_width;
	flow->source = source;
	flow->nloaded = flow->njoined = 0;
	flow->no_more = false;
	return load_ahead(flow);
}

/* Queue the join of rows [row, row + n) of a chunk, which writes the number of their pairs to the header. */
static HjgStatus
queue_flow_piece(HjgCudaFlow *flow, const HjgCudaChunk *chunk, hjg_u64 row, hjg_u64 n)
{
	HjgCudaStream *stream = &flow->streams->work;
	const HjgCudaSide probe = {
		.keys = chunk->keys + row * (hjg_u64) flow->key_width, .nrows = n,
		.rows = chunk->rows != 0 ? chunk->rows + row * sizeof(hjg_u32) : 0
	};
	const HjgCudaOutput output = {.pairs = flow->sum ? 0 : flow->pairs[flow->turn], .capacity = flow->room, .counters = flow->counters};
	HjgStatus	status;

	status = hjg_cuda_follow(stream, &flow->streams->out[flow->turn]);
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, flow->counters, 2 * sizeof(hjg_u64));
	if (status == HJG_OK)
		status = flow->strategy->probe(stream, flow->table, &probe, &output);
	if (status == HJG_OK)
		status = hjg_cuda_post_count(stream, flow->counters, &flow->streams->header->npairs);
	return status;
}

/* Queue the copy of a piece's pairs. */
static HjgStatus
send_pairs(HjgCudaFlow *flow, hjg_u64 first_row, hjg_u64 npairs)
{
	HjgCudaHostResult *result = flow->result;
	HjgCudaStream *stream = &flow->streams->out[flow->turn];
	HjgStatus	status;

	if (npairs > result->capacity - result->npairs || result->nbatches == result->max_batches)
		return HJG_ERR_MEMORY;
	status = hjg_cuda_copy_out(stream, result->pairs + result->npairs, flow->pairs[flow->turn], npairs * sizeof(HjgPair));
	result->batches[result->nbatches++] = (HjgCudaBatch) {first_row, result->npairs, npairs};
	result->npairs += npairs;
	flow->turn = (flow->turn + 1) % HJG_CUDA_OUTS;
	return status;
}

/* Choose the rows of the next try after a try with too many pairs. */
static hjg_u64
fewer_rows(const HjgCudaFlow *flow, hjg_u64 nrows, hjg_u64 npairs)
{
	const hjg_u64 fitting = (hjg_u64) ((double) nrows * (double) flow->room / (double) npairs * 0.9);
	const hjg_u64 fewer = fitting < nrows / 2 ? fitting : nrows / 2;

	return fewer < LEAST_ROWS ? LEAST_ROWS : fewer / LEAST_ROWS * LEAST_ROWS;
}

static HjgStatus
join_flow_chunk(HjgCudaFlow *flow, const HjgCudaChunk *chunk)
{
	hjg_u64		row = 0;
	HjgStatus	status = HJG_OK;

	while (row < chunk->nrows && status == HJG_OK)
	{
		const hjg_u64 left = chunk->nrows - row;
		const hjg_u64 n = left < flow->piece_rows ? left : flow->piece_rows;
		hjg_u64		npairs;

		status = queue_flow_piece(flow, chunk, row, n);
		if (status == HJG_OK)
			status = load_ahead(flow);
		if (status == HJG_OK)
			status = hjg_cuda_wait(&flow->streams->work);
		if (status != HJG_OK)
			break;
		npairs = flow->streams->header->npairs;
		if (flow->sum)
		{
			flow->result->npairs += npairs;
			row += n;
			continue;
		}
		if (npairs > flow->room)
		{
			if (n <= LEAST_ROWS)
				return HJG_ERR_MEMORY;
			flow->piece_rows = fewer_rows(flow, n, npairs);
			continue;
		}
		if (npairs > 0)
			status = send_pairs(flow, chunk->first_row + (chunk->rows == 0 ? row : 0), npairs);
		if (status == HJG_OK && flow->serial)
			status = hjg_cuda_streams_wait(flow->streams);
		row += n;
		if (npairs < flow->room / 4 && flow->piece_rows < flow->chunk_rows)
			flow->piece_rows *= 2;
	}
	return status;
}

/* Take a chunk that has come in, without waiting for later ones; the source may prepare it first. */
static HjgStatus
take_chunk(HjgCudaFlow *flow, int i)
{
	HjgCudaChunk chunk = flow->chunks[i];
	HjgStatus	status = hjg_lab_follow_note(&flow->streams->work, flow->arrived[i]);

	if (status == HJG_OK && flow->source->prepare != NULL)
		status = flow->source->prepare(flow->source->arg, &chunk);
	return status == HJG_OK ? join_flow_chunk(flow, &chunk) : status;
}

HjgStatus
hjg_lab_flow_run(HjgCudaFlow *flow, const HjgCudaStrategy *strategy, void *table)
{
	HjgStatus	status;

	flow->strategy = strategy;
	flow->table = table;
	while ((status = load_ahead(flow)) == HJG_OK && flow->njoined < flow->nloaded)
	{
		status = take_chunk(flow, (int) (flow->njoined % HJG_CUDA_FLOW_INS));
		if (status != HJG_OK)
			break;
		flow->njoined++;
	}
	return status;
}

/* ---- the table ---- */

static void
list_choices(const HjgCudaDevice *device, const HjgCudaShape *shape, const HjgCudaStrategy *wanted,
			 const HjgCudaStrategy *choices[HJG_LAB_CHOICES])
{
	if (wanted == NULL)
		hjg_lab_strategy_choose(device, shape, choices);
	else
	{
		choices[0] = wanted->suits(device, shape) ? wanted : NULL;
		choices[1] = NULL;
	}
}

HjgStatus
hjg_lab_host_build(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build,
					const HjgCudaStrategy *wanted, const HjgCudaStrategy **strategy, void **table)
{
	const HjgCudaStrategy *choices[HJG_LAB_CHOICES];
	HjgStatus	status = HJG_ERR_INPUT;

	list_choices(stream->device, shape, wanted, choices);
	for (int i = 0; choices[i] != NULL && status == HJG_ERR_INPUT; i++)
	{
		*strategy = choices[i];
		status = hjg_cuda_strategy_build(choices[i], stream, shape, build, table);
	}
	return status;
}

size_t
hjg_lab_host_build_bytes(const HjgCudaDevice *device, const HjgCudaShape *shape, const HjgCudaStrategy *wanted)
{
	const HjgCudaStrategy *choices[HJG_LAB_CHOICES];
	size_t		most = 0;

	list_choices(device, shape, wanted, choices);
	for (int i = 0; choices[i] != NULL; i++)
		if (choices[i]->bytes(device, shape) > most)
			most = choices[i]->bytes(device, shape);
	return most;
}
