/*
 * lab_cuda_bench_moved.c
 *	  Benchmark of the resident joins: sides that begin in host memory, and their transfer to the
 *	  device.
 *
 * Copies read pinned memory.  Managed memory is moved back to the host before each join, so that every
 * join faults or prefetches all of it.  A side is moved when the join needs it.
 */
#include <string.h>

#include "lab/hjg_cuda_bench.h"
#include "lab/hjg_lab_stream.h"

#define ALIGN 256

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

HjgStatus
hjg_bench_moved_open(HjgCudaStream *stream, HjgLabMoving moving, int key_width, hjg_u64 nbuild, hjg_u64 nprobe,
					 HjgBenchMoved *moved)
{
	HjgStatus	status;

	*moved = (HjgBenchMoved) {.moving = moving, .key_width = key_width, .build.nrows = nbuild, .probe.nrows = nprobe};
	moved->bytes = lay_sides(moved, 0);
	status = moving == HJG_LAB_BY_COPY ? hjg_cuda_alloc(stream, moved->bytes, &moved->block) :
		hjg_lab_managed_take(stream, moved->bytes, &moved->block);
	lay_sides(moved, moved->block);
	if (status == HJG_OK && moving == HJG_LAB_BY_COPY)
		status = hjg_cuda_check(stream, hjg_cuda.host_alloc(&moved->host, moved->bytes, HJG_CUDA_HOST_PORTABLE), "pinned memory");
	return status;
}

void
hjg_bench_moved_close(HjgCudaStream *stream, HjgBenchMoved *moved)
{
	if (moved->moving == HJG_LAB_BY_COPY)
		hjg_cuda_free(stream, moved->block);
	else
		hjg_lab_managed_give(stream, moved->block);
	if (moved->host != NULL)
		(void) hjg_cuda_check(stream, hjg_cuda.host_free(moved->host), "pinned memory");
	memset(moved, 0, sizeof(*moved));
}

/* Copy a column of device memory to its place in host memory. */
static HjgStatus
put_column(HjgCudaStream *stream, const HjgBenchMoved *moved, HjgCudaPtr to, HjgCudaPtr from, size_t bytes)
{
	if (moved->moving == HJG_LAB_BY_COPY)
		return hjg_cuda_copy_out(stream, (char *) moved->host + (to - moved->block), from, bytes);
	return hjg_lab_copy_within(stream, to, from, bytes);
}

HjgStatus
hjg_bench_moved_reset(HjgCudaStream *stream, const HjgBenchMoved *moved, const HjgCudaSide *build, const HjgCudaSide *probe)
{
	const size_t width = (size_t) moved->key_width;
	HjgStatus	status = put_column(stream, moved, moved->build.keys, build->keys, build->nrows * width);

	if (status == HJG_OK)
		status = put_column(stream, moved, moved->build.rows, build->rows, build->nrows * sizeof(hjg_u32));
	if (status == HJG_OK)
		status = put_column(stream, moved, moved->probe.keys, probe->keys, probe->nrows * width);
	if (status == HJG_OK)
		status = put_column(stream, moved, moved->probe.rows, probe->rows, probe->nrows * sizeof(hjg_u32));
	if (status == HJG_OK && moved->moving != HJG_LAB_BY_COPY)
		status = hjg_lab_prefetch(stream, moved->block, moved->bytes, true);
	return status == HJG_OK ? hjg_cuda_wait(stream) : status;
}

HjgStatus
hjg_bench_moved_bring(HjgCudaStream *stream, const HjgBenchMoved *moved, const HjgCudaSide *side)
{
	const size_t bytes = side->rows + side->nrows * sizeof(hjg_u32) - side->keys;

	if (moved->moving == HJG_LAB_BY_COPY)
		return hjg_cuda_copy_in(stream, side->keys, (char *) moved->host + (side->keys - moved->block), bytes);
	return moved->moving == HJG_LAB_BY_PREFETCH ? hjg_lab_prefetch(stream, side->keys, bytes, false) : HJG_OK;
}
