/*
 * lab_cuda_bench_moved.c
 *	  Benchmark of the resident joins: sides that begin in host memory, and their transfer to the
 *	  device.
 *
 * Copies, and kernels with unified addresses, read pinned memory.  Managed memory is moved back to the host
 * before each join, so that every join faults or prefetches all of it.
 *
 * The sides come in on a stream of their own while the join works, the build side first (Paul et al., 2020,
 * figures 2 and 3): in pieces for the bucket chains, whose first pass needs no histogram and takes each
 * piece when it has come in; as a whole for all others, so that the probe side comes in while they work on
 * the build side.  With one stream a side comes in when the join needs it, and nothing else is done
 * meanwhile.
 */
#include <string.h>

#include "device/hjg_cuda_join.h"
#include "lab/hjg_cuda_bench.h"
#include "lab/hjg_lab_stream.h"

#define ALIGN 256
#define LEAST_PIECE_ROWS ((hjg_u64) 1 << 16)
#define UVA_BLOCKS 64			/* of a kernel that copies over the bus */
#define UVA_THREADS 256
#define UVA_WORD_BYTES 16

HJG_CUDA_KERNEL(hjg_k_copy_words, "cuda_bench");

/* Pinned memory, which takes long to get: sides, and pairs that go back. */
static struct
{
	void	   *ptr;
	size_t		bytes;
}			kept[2];

static HjgStatus
take_pinned(HjgBench *bench, int which, size_t bytes, void **ptr)
{
	HjgStatus	status = HJG_OK;

	if (kept[which].bytes < bytes)
	{
		if (kept[which].ptr != NULL)
			status = hjg_cuda_check(&bench->stream, hjg_cuda.host_free(kept[which].ptr), "pinned memory");
		kept[which].ptr = NULL;
		kept[which].bytes = 0;
		if (status == HJG_OK)
			status = hjg_cuda_check(&bench->stream, hjg_cuda.host_alloc(&kept[which].ptr, bytes, HJG_CUDA_HOST_PORTABLE),
									"pinned memory");
		if (status == HJG_OK)
			kept[which].bytes = bytes;
	}
	*ptr = kept[which].ptr;
	return status;
}

void
hjg_bench_moved_drop(HjgBench *bench)
{
	for (int i = 0; i < 2; i++)
	{
		if (kept[i].ptr != NULL)
			(void) hjg_cuda_check(&bench->stream, hjg_cuda.host_free(kept[i].ptr), "pinned memory");
		kept[i].ptr = NULL;
		kept[i].bytes = 0;
	}
}

/* Lay out the columns of both sides in the block; returns its bytes. */
static size_t
lay_sides(HjgBenchMoved *moved, HjgCudaPtr base)
{
	HjgCudaSide *const sides[] = {&moved->build, &moved->probe};
	HjgCudaPtr	at = base;

	for (int i = 0; i < 2; i++)
	{
		sides[i]->keys = at;
		at += (sides[i]->nrows * (size_t) moved->key_width + ALIGN - 1) / ALIGN * ALIGN;
		sides[i]->rows = at;
		at += (sides[i]->nrows * sizeof(hjg_u32) + ALIGN - 1) / ALIGN * ALIGN;
	}
	return at - base;
}

/* Cut a side into pieces. */
static HjgStatus
open_arrival(HjgBench *bench, const HjgCudaSide *side, HjgLabArrival *arrival)
{
	hjg_u64		piece_rows = (side->nrows / HJG_LAB_PIECES + 4) / 4 * 4;
	HjgStatus	status = HJG_OK;

	piece_rows = piece_rows < LEAST_PIECE_ROWS ? LEAST_PIECE_ROWS : piece_rows;
	*arrival = (HjgLabArrival) {.keys = side->keys, .nrows = side->nrows, .piece_rows = piece_rows};
	arrival->npieces = (int) ((side->nrows + piece_rows - 1) / piece_rows);
	for (int i = 0; i < arrival->npieces && status == HJG_OK; i++)
		status = hjg_lab_note_open(&bench->in, &arrival->come[i]);
	return status;
}

HjgStatus
hjg_bench_moved_open(HjgBench *bench, const HjgBenchRun *run, hjg_u64 back_pairs, HjgBenchMoved *moved)
{
	const HjgCudaPaperTuning *tuning = &run->entrant.tuning;
	const HjgLabMoving moving = hjg_lab_moving(run->entrant.strategy) == HJG_LAB_BY_COPY ? tuning->moving :
		hjg_lab_moving(run->entrant.strategy);
	void	   *host = NULL;
	HjgStatus	status = HJG_OK;

	*moved = (HjgBenchMoved) {
		.moving = moving, .key_width = run->c->width, .one_stream = tuning->one_stream != 0,
		.build.nrows = run->shape.build_rows, .probe.nrows = run->shape.probe_rows
	};
	moved->bytes = lay_sides(moved, 0);
	if (hjg_lab_is_managed(moving))
		status = hjg_lab_managed_take(&bench->stream, moved->bytes, &moved->block);
	else
		status = take_pinned(bench, 0, moved->bytes, &host);
	moved->host = host;
	if (status == HJG_OK && moving == HJG_LAB_BY_UVA)
		moved->block = (HjgCudaPtr) (size_t) host;
	else if (status == HJG_OK && host != NULL)
		status = hjg_cuda_alloc(&bench->stream, moved->bytes, &moved->block);
	lay_sides(moved, moved->block);
	if (status == HJG_OK && back_pairs > 0)
		status = take_pinned(bench, 1, back_pairs * sizeof(HjgPair), &moved->pairs);
	if (status == HJG_OK)
		status = open_arrival(bench, &moved->build, &moved->arrivals[HJG_SIDE_BUILD]);
	return status == HJG_OK ? open_arrival(bench, &moved->probe, &moved->arrivals[HJG_SIDE_PROBE]) : status;
}

void
hjg_bench_moved_close(HjgBench *bench, HjgBenchMoved *moved)
{
	hjg_lab_arrival_note(NULL);
	if (hjg_lab_is_managed(moved->moving))
		hjg_lab_managed_give(&bench->stream, moved->block);
	else if (moved->moving != HJG_LAB_BY_UVA)
		hjg_cuda_free(&bench->stream, moved->block);
	for (int s = 0; s < HJG_SIDES; s++)
		for (int i = 0; i < HJG_LAB_PIECES; i++)
			hjg_lab_note_close(&bench->in, &moved->arrivals[s].come[i]);
	memset(moved, 0, sizeof(*moved));
}

/* Copy a column of device memory to its place in host memory. */
static HjgStatus
put_column(HjgCudaStream *stream, const HjgBenchMoved *moved, HjgCudaPtr to, HjgCudaPtr from, size_t bytes)
{
	return moved->host != NULL ? hjg_cuda_copy_out(stream, moved->host + (to - moved->block), from, bytes) :
		hjg_lab_copy_within(stream, to, from, bytes);
}

HjgStatus
hjg_bench_moved_reset(HjgBench *bench, HjgBenchMoved *moved, const HjgCudaSide *build, const HjgCudaSide *probe)
{
	HjgCudaStream *stream = &bench->stream;
	const size_t width = (size_t) moved->key_width;
	HjgStatus	status = hjg_cuda_wait(&bench->in);

	hjg_lab_arrival_note(NULL);
	if (status == HJG_OK)
		status = put_column(stream, moved, moved->build.keys, build->keys, build->nrows * width);
	if (status == HJG_OK)
		status = put_column(stream, moved, moved->build.rows, build->rows, build->nrows * sizeof(hjg_u32));
	if (status == HJG_OK)
		status = put_column(stream, moved, moved->probe.keys, probe->keys, probe->nrows * width);
	if (status == HJG_OK)
		status = put_column(stream, moved, moved->probe.rows, probe->rows, probe->nrows * sizeof(hjg_u32));
	if (status == HJG_OK && moved->host == NULL)
		status = hjg_lab_prefetch(stream, moved->block, moved->bytes, true);
	return status == HJG_OK ? hjg_cuda_wait(stream) : status;
}

/* Queue the move of bytes of the block to the device. */
static HjgStatus
bring_bytes(HjgCudaStream *stream, const HjgBenchMoved *moved, HjgCudaPtr at, size_t bytes)
{
	char	   *from = moved->host + (at - moved->block);
	hjg_u64		nwords = (bytes + UVA_WORD_BYTES - 1) / UVA_WORD_BYTES;

	switch (moved->moving)
	{
		case HJG_LAB_BY_COPY:
			return hjg_cuda_copy_in(stream, at, from, bytes);
		case HJG_LAB_BY_PREFETCH:
			return hjg_lab_prefetch(stream, at, bytes, false);
		case HJG_LAB_BY_UVA_LOAD:
			/* columns end at multiples of ALIGN, pieces of words */
			return hjg_cuda_launch(stream, &hjg_k_copy_words, UVA_BLOCKS, UVA_THREADS, 0, (void *[]) {&at, &from, &nwords});
		default:
			return HJG_OK;
	}
}

/* Queue the move of a side, in pieces. */
static HjgStatus
bring_pieces(HjgCudaStream *stream, const HjgBenchMoved *moved, const HjgCudaSide *side, HjgLabArrival *arrival)
{
	const size_t width = (size_t) moved->key_width;
	HjgStatus	status = HJG_OK;

	for (hjg_u64 row = 0, piece = 0; row < side->nrows && status == HJG_OK; row += arrival->piece_rows, piece++)
	{
		const hjg_u64 left = side->nrows - row;
		const hjg_u64 n = left < arrival->piece_rows ? left : arrival->piece_rows;

		status = bring_bytes(stream, moved, side->keys + row * width, n * width);
		if (status == HJG_OK)
			status = bring_bytes(stream, moved, side->rows + row * sizeof(hjg_u32), n * sizeof(hjg_u32));
		if (status == HJG_OK)
			status = hjg_lab_note(stream, arrival->come[piece]);
	}
	hjg_lab_arrival_note(arrival);
	return status;
}

HjgStatus
hjg_bench_moved_begin(HjgBench *bench, HjgBenchMoved *moved)
{
	HjgStatus	status = HJG_OK;

	if (moved->one_stream)
		return HJG_OK;
	status = hjg_cuda_follow(&bench->in, &bench->stream);
	if (status == HJG_OK)
		status = bring_pieces(&bench->in, moved, &moved->build, &moved->arrivals[HJG_SIDE_BUILD]);
	return status == HJG_OK ? bring_pieces(&bench->in, moved, &moved->probe, &moved->arrivals[HJG_SIDE_PROBE]) : status;
}

HjgStatus
hjg_bench_moved_bring(HjgBench *bench, HjgBenchMoved *moved, const HjgCudaStrategy *strategy, const HjgCudaSide *side)
{
	const size_t bytes = side->rows + side->nrows * sizeof(hjg_u32) - side->keys;
	HjgStatus	status;

	if (!moved->one_stream)
		return hjg_lab_takes_pieces(strategy) ? HJG_OK : hjg_lab_arrival_wait(&bench->stream, side);
	status = hjg_cuda_mark(&bench->stream, HJG_CUDA_TRANSFER_IN);
	return status == HJG_OK ? bring_bytes(&bench->stream, moved, side->keys, bytes) : status;
}
