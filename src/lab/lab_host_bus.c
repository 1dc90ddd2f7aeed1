/*
 * lab_host_bus.c
 *	  Benchmark of joins of sides in host memory: rates of the bus alone, and of a join's copies.
 */
#include <string.h>

#include "lab/hjg_cuda_host_bench.h"

#define BUS_BYTES ((size_t) 512 << 20)
#define STAGE_ROWS 65536u		/* of a piece */
#define STAGE_BLOCK_ROWS 1024u

/* ---- the bus ---- */

/* Measure the GB/s of copies of in_bytes and out_bytes at once. */
static HjgStatus
measure_bus(HjgHostBench *bench, void *host_in, void *host_out, HjgCudaPtr in, HjgCudaPtr out, size_t in_bytes, size_t out_bytes,
			double *gbs)
{
	HjgStatus	status = HJG_OK;

	*gbs = 0;
	for (int i = 0; i < 3 && status == HJG_OK; i++)
	{
		const hjg_u64 started = hjg_now_ns();

		status = hjg_cuda_copy_in(&bench->streams->in, in, host_in, in_bytes);
		if (status == HJG_OK)
			status = hjg_cuda_copy_out(&bench->streams->out[0], host_out, out, out_bytes);
		if (status == HJG_OK)
			status = hjg_cuda_streams_wait(bench->streams);
		if (status == HJG_OK)
		{
			const double now = (double) (in_bytes + out_bytes) / (double) (hjg_now_ns() - started);

			*gbs = now > *gbs ? now : *gbs;
		}
	}
	return status;
}

typedef struct BusCopy
{
	char	   *to;
	const char *from;
} BusCopy;

static void
copy_piece(void *arg, int piece, int worker)
{
	const BusCopy *copy = arg;
	const size_t at = (size_t) piece * HJG_SLAB_BYTES;

	memcpy(copy->to + at, copy->from + at, HJG_SLAB_BYTES);
}

/* Measure the GB/s of the stagers' copies within pinned memory. */
static double
measure_bus_copy(HjgHostBench *bench, const void *from, void *to)
{
	BusCopy		copy = {to, from};
	double		gbs = 0;

	for (int i = 0; i < 3; i++)
	{
		const hjg_u64 started = hjg_now_ns();
		double		now;

		hjg_pool_run(bench->stagers, (int) (BUS_BYTES / HJG_SLAB_BYTES), copy_piece, &copy);
		now = (double) BUS_BYTES / (double) (hjg_now_ns() - started);
		gbs = now > gbs ? now : gbs;
	}
	return gbs;
}

/* Measure the GB/s of copies in, in blocks. */
static HjgStatus
measure_blocks(HjgHostBench *bench, const char *from, HjgCudaPtr to)
{
	const size_t bytes = (size_t) bench->block_rows * sizeof(hjg_u32);
	HjgStatus	status = HJG_OK;

	for (int i = 0; i < 3 && status == HJG_OK; i++)
	{
		const hjg_u64 started = hjg_now_ns();
		size_t		at;
		double		now;

		for (at = 0; at + bytes <= BUS_BYTES && status == HJG_OK; at += bytes)
			status = hjg_cuda_copy_in(&bench->streams->in, to + at, from + at, bytes);
		if (status == HJG_OK)
			status = hjg_cuda_streams_wait(bench->streams);
		now = (double) at / (double) (hjg_now_ns() - started);
		bench->rates.block_gbs = now > bench->rates.block_gbs ? now : bench->rates.block_gbs;
	}
	return status;
}

typedef struct Staging
{
	HjgStage   *stage;
	const hjg_u32 *keys;
} Staging;

static void
take_nothing(void *arg, int part, HjgStageBlock block)
{
}

static void
stage_bus_piece(void *arg, int piece, int worker)
{
	const Staging *staging = arg;
	const hjg_u32 row = (hjg_u32) piece * STAGE_ROWS;

	(void) hjg_stage_rows(staging->stage, worker, staging->keys + row, STAGE_ROWS, row);
}

/* Measure the stagers' time to partition a row; with small blocks, so that all of them fit. */
static HjgStatus
measure_stage(HjgHostBench *bench, hjg_u32 *keys, void *to)
{
	const int	npieces = (int) (BUS_BYTES / 4 / sizeof(hjg_u32) / STAGE_ROWS);

	for (hjg_u32 i = 0; i < (hjg_u32) npieces * STAGE_ROWS; i++)
		keys[i] = i;
	for (int i = 0; i < 3; i++)
	{
		HjgStageMemory memory = {.base = to, .nblocks = (hjg_u32) (BUS_BYTES / hjg_stage_block_bytes(HJG_KEY_WIDTH_4, STAGE_BLOCK_ROWS))};
		Staging		staging = {.keys = keys};
		hjg_u64		started;
		double		now;

		staging.stage = hjg_stage_create(HJG_KEY_WIDTH_4, bench->copro_bits, STAGE_BLOCK_ROWS, bench->nstagers, &memory, take_nothing, NULL);
		if (staging.stage == NULL)
			return HJG_ERR_MEMORY;
		started = hjg_now_ns();
		hjg_pool_run(bench->stagers, npieces, stage_bus_piece, &staging);
		now = (double) (hjg_now_ns() - started) / (double) npieces / STAGE_ROWS;
		hjg_stage_free(staging.stage);
		bench->rates.stage_ns = i == 0 || now < bench->rates.stage_ns ? now : bench->rates.stage_ns;
	}
	return HJG_OK;
}

HjgStatus
hjg_host_measure_rates(HjgHostBench *bench)
{
	void	   *host_in = hjg_host_pinned(bench, BUS_BYTES);
	void	   *host_out = hjg_host_pinned(bench, BUS_BYTES);
	HjgCudaRates *rates = &bench->rates;
	double	   *gbs[] = {&rates->in_gbs, &rates->out_gbs, &rates->both_gbs};
	HjgCudaPtr	in = 0;
	HjgCudaPtr	out = 0;
	HjgStatus	status = host_in == NULL || host_out == NULL ? HJG_ERR_MEMORY : HJG_OK;

	if (status == HJG_OK)
		status = hjg_cuda_alloc(&bench->streams->work, BUS_BYTES, &in);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(&bench->streams->work, BUS_BYTES, &out);
	for (int i = 0; i < 3 && status == HJG_OK; i++)
		status = measure_bus(bench, host_in, host_out, in, out, i == 1 ? 0 : BUS_BYTES, i == 0 ? 0 : BUS_BYTES, gbs[i]);
	rates->both_gbs /= 2;
	if (status == HJG_OK)
		status = measure_blocks(bench, host_in, in);
	if (status == HJG_OK)
	{
		bench->copy_gbs = measure_bus_copy(bench, host_in, host_out);
		status = measure_stage(bench, host_in, host_out);
	}
	(void) hjg_cuda_streams_wait(bench->streams);
	hjg_cuda_free(&bench->streams->work, in);
	hjg_cuda_free(&bench->streams->work, out);
	hjg_host_unpin(host_in, BUS_BYTES);
	hjg_host_unpin(host_out, BUS_BYTES);
	if (status == HJG_OK)
		fprintf(bench->out, "# bus: %.1f GB/s in, %.1f out, %.1f each way at once, %.1f in blocks; %d threads copy %.1f GB/s in pinned memory, "
				"partition a row in %.3f ns\n", rates->in_gbs, rates->out_gbs, rates->both_gbs, rates->block_gbs, bench->nstagers,
				bench->copy_gbs, rates->stage_ns);
	return status;
}

/* ---- the copies of a join ---- */

/* Count the bytes of a row that go in: its key, and its number if rows were partitioned. */
static size_t
row_bytes(const HjgHostData *data)
{
	return (size_t) data->c->width + (data->system != HJG_HOST_STREAM ? sizeof(hjg_u32) : 0);
}

/* Count the bytes that the last join copied in; with SPILL all keys, and the spilled rows. */
size_t
hjg_host_bytes_in(const HjgHostData *data)
{
	const hjg_u64 nrows = data->join.build.nrows + data->join.probe.nrows;

	return data->system == HJG_HOST_SPILL ? nrows * (size_t) data->c->width + data->spill.spilled_bytes : nrows * row_bytes(data);
}

size_t
hjg_host_bytes_out(const HjgHostData *data)
{
	return data->result.npairs * sizeof(HjgPair) + (data->system == HJG_HOST_SPILL ? data->spill.spilled_bytes : 0);
}

/* Copy rows in, by chunks, alternating between two buffers; with_pairs: with pairs out behind each chunk. */
static HjgStatus
replay_side(HjgHostBench *bench, HjgHostData *data, const HjgCudaPtr *buffers, const char *from, hjg_u64 nrows, bool with_pairs)
{
	HjgCudaStreams *streams = bench->streams;
	const size_t bytes = row_bytes(data);
	HjgStatus	status = HJG_OK;

	for (hjg_u64 row = 0, turn = 0; row < nrows && status == HJG_OK; row += data->join.chunk_rows, turn ^= 1)
	{
		const hjg_u64 left = nrows - row;
		const hjg_u64 n = left < data->join.chunk_rows ? left : data->join.chunk_rows;
		HjgCudaStream *out = &streams->out[turn];

		status = hjg_cuda_copy_in(&streams->in, buffers[turn], from + row * bytes, n * bytes);
		if (status != HJG_OK || !with_pairs)
			continue;
		status = hjg_cuda_follow(out, &streams->in);
		if (status == HJG_OK)
			status = hjg_cuda_copy_out(out, data->result.pairs + row, buffers[2 + turn], n * sizeof(HjgPair));
		/* as far ahead as the join's copies */
		if (status == HJG_OK)
			status = hjg_cuda_wait(&streams->out[turn ^ 1]);
	}
	return status;
}

static size_t
least_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Copy as many bytes each way as the join, without dependencies: no order of copies is faster. */
static HjgStatus
replay_both(HjgHostBench *bench, HjgHostData *data, const HjgCudaPtr *buffers)
{
	const size_t bytes_in = hjg_host_bytes_in(data);
	const size_t bytes_out = hjg_host_bytes_out(data);
	const size_t most_in = least_of(data->join.chunk_rows * row_bytes(data), data->memory_bytes);
	const size_t most_out = least_of(data->join.chunk_rows, data->result.capacity) * sizeof(HjgPair);
	const size_t n = bytes_in / most_in > bytes_out / most_out ? bytes_in / most_in + 1 : bytes_out / most_out + 1;
	HjgStatus	status = HJG_OK;

	for (size_t i = 0; i < n && status == HJG_OK; i++)
	{
		status = hjg_cuda_copy_in(&bench->streams->in, buffers[i % 2], data->memory, bytes_in / n);
		if (status == HJG_OK)
			status = hjg_cuda_copy_out(&bench->streams->out[0], data->result.pairs, buffers[2 + i % 2], bytes_out / n);
	}
	return status;
}

/* Replay the copies of a join without kernels: the build side in, then probe rows in and pairs out. */
HjgStatus
hjg_host_replay(HjgHostBench *bench, HjgHostData *data, const HjgCudaPtr *buffers)
{
	const bool	rows = data->system == HJG_HOST_COPRO;
	HjgStatus	status;
	HjgStatus	drained;

	if (data->system == HJG_HOST_SPILL)
		status = replay_both(bench, data, buffers);
	else
	{
		status = replay_side(bench, data, buffers, rows ? data->memory : data->build_keys, data->join.build.nrows, false);
		if (status == HJG_OK)
			status = replay_side(bench, data, buffers, rows ? data->memory : data->probe_keys, data->join.probe.nrows, true);
	}
	drained = hjg_cuda_streams_wait(bench->streams);
	return status == HJG_OK ? drained : status;
}

HjgStatus
hjg_host_replay_open(HjgHostBench *bench, const HjgHostData *data, HjgCudaPtr *buffers)
{
	HjgStatus	status = HJG_OK;

	for (int i = 0; i < 4 && status == HJG_OK; i++)
		status = hjg_cuda_alloc(&bench->streams->work, data->join.chunk_rows * (i < 2 ? row_bytes(data) : sizeof(HjgPair)), &buffers[i]);
	return status;
}
