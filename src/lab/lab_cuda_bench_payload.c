/*
 * lab_cuda_bench_payload.c
 *	  Benchmark of the resident joins: columns that are fetched by row number after the join (paper 003,
 *	  figures 9 and 10).
 *
 * The columns of a row lie side by side, and are written beside the pairs; the paper adds them up instead.
 * The other tables show the cost of an early materialisation: 4+4 as "columns" takes one column of 4 bytes
 * through the join.
 */
#include <string.h>

#include "device/hjg_cuda_join.h"
#include "lab/hjg_cuda_bench.h"

#define IMAGE "cuda_bench"
#define THREADS 256
#define BLOCKS_A_PROCESSOR 8
#define POISON 0xAB

HJG_CUDA_KERNEL(hjg_k_fill_columns, IMAGE);
HJG_CUDA_KERNEL(hjg_k_check_columns, IMAGE);

static HjgStatus
launch_columns(HjgCudaStream *stream, HjgCudaKernel *kernel, const HjgKColumns *args)
{
	return hjg_cuda_launch(stream, kernel, (unsigned) stream->device->multiprocessors * BLOCKS_A_PROCESSOR, THREADS, 0,
						   (void *[]) {(void *) args});
}

static hjg_u32
words_of(const HjgBenchColumns *columns)
{
	return columns->bytes / HJG_PAYLOAD_UNIT;
}

HjgStatus
hjg_bench_columns_make(HjgCudaStream *stream, HjgBenchColumns *columns, hjg_u64 nbuild, hjg_u64 nprobe, hjg_u64 npairs)
{
	HjgStatus	status = HJG_OK;

	columns->nrows[HJG_SIDE_BUILD] = nbuild;
	columns->nrows[HJG_SIDE_PROBE] = nprobe;
	for (int s = 0; s < HJG_SIDES && status == HJG_OK; s++)
	{
		HjgKColumns args = {.nrows = columns->nrows[s], .nwords = words_of(columns), .side = (hjg_u32) s};

		if ((columns->sides & HJG_SIDE_BIT(s)) == 0)
			continue;
		status = hjg_cuda_alloc(stream, columns->nrows[s] * columns->bytes, &columns->from[s]);
		if (status == HJG_OK)
			status = hjg_cuda_alloc(stream, npairs * columns->bytes, &columns->to[s]);
		args.columns = columns->from[s];
		if (status == HJG_OK)
			status = launch_columns(stream, &hjg_k_fill_columns, &args);
	}
	return status;
}

void
hjg_bench_columns_free(HjgCudaStream *stream, HjgBenchColumns *columns)
{
	for (int s = 0; s < HJG_SIDES; s++)
	{
		hjg_cuda_free(stream, columns->from[s]);
		hjg_cuda_free(stream, columns->to[s]);
		columns->from[s] = columns->to[s] = 0;
	}
}

HjgStatus
hjg_bench_columns_gather(HjgCudaStream *stream, const HjgBenchColumns *columns, HjgCudaPtr pairs, hjg_u64 npairs)
{
	HjgStatus	status = HJG_OK;

	for (int s = 0; s < HJG_SIDES && status == HJG_OK; s++)
	{
		const HjgKGather gather = {
			.pairs = pairs, .from = columns->from[s], .to = columns->to[s], .npairs = npairs, .nwords = words_of(columns),
			.build = s == HJG_SIDE_BUILD, .nrows = (hjg_u32) columns->nrows[s]
		};

		if (columns->sides & HJG_SIDE_BIT(s))
			status = hjg_cuda_gather(stream, &gather);
	}
	return status;
}

HjgStatus
hjg_bench_columns_check(HjgCudaStream *stream, const HjgBenchColumns *columns, HjgCudaPtr pairs, hjg_u64 npairs,
						HjgCudaPtr facts, bool *good)
{
	HjgStatus	status = HJG_OK;

	for (int s = 0; s < HJG_SIDES && status == HJG_OK; s++)
	{
		const HjgKColumns args = {
			.columns = columns->to[s], .pairs = pairs, .nrows = npairs, .wrong = facts, .nwords = words_of(columns),
			.side = (hjg_u32) s
		};
		hjg_u64		wrong = 1;

		if ((columns->sides & HJG_SIDE_BIT(s)) == 0)
			continue;
		stream->busy = true;
		status = hjg_cuda_check(stream, hjg_cuda.set_bytes(columns->to[s], POISON, npairs * columns->bytes, stream->handle), "fill");
		if (status == HJG_OK)
			status = hjg_bench_columns_gather(stream, columns, pairs, npairs);
		if (status == HJG_OK)
			status = hjg_cuda_zero(stream, facts, sizeof(wrong));
		if (status == HJG_OK)
			status = launch_columns(stream, &hjg_k_check_columns, &args);
		if (status == HJG_OK)
			status = hjg_cuda_copy_out(stream, &wrong, facts, sizeof(wrong));
		if (status == HJG_OK)
			status = hjg_cuda_wait(stream);
		*good = *good && wrong == 0;
	}
	return status;
}

hjg_u64
hjg_bench_columns_moved(const HjgBenchColumns *columns, hjg_u64 npairs)
{
	hjg_u64		bytes = 0;

	for (int s = 0; s < HJG_SIDES; s++)
		if (columns->sides & HJG_SIDE_BIT(s))
			bytes += npairs * (sizeof(HjgPair) + 2 * (hjg_u64) columns->bytes);
	return bytes;
}
