/*
 * lab_cuda_sink.c
 *	  Output in pages of threads or chunks of blocks, and the closing of its holes (cuda_holes.cu).
 *
 * Pages are handed out consecutively, so the pairs are dense except for the places that owners leave empty
 * in their last pages.  A result must have no holes, so the last pairs are moved there.  The spill takes
 * the pairs that the holes push beyond the capacity.
 */
#include <string.h>

#include "lab/hjg_cuda_paper.h"

#define IMAGE "cuda_holes"
#define THREADS 256

#define KERNEL(kernel_name) {.image = IMAGE, .name = kernel_name}

static HjgCudaKernel count_holes = KERNEL("hjg_k_count_holes");
static HjgCudaKernel list_holes = KERNEL("hjg_k_list_holes");
static HjgCudaKernel fill_holes = KERNEL("hjg_k_fill_holes");

static hjg_u32
page_pairs_of(HjgCudaPutting putting)
{
	const hjg_u32 wanted = hjg_cuda_paper_tuning.page_pairs;

	return putting != HJG_CUDA_PUT_PAGE ? HJG_K_CHUNK_PAIRS : wanted != 0 && wanted < HJG_K_PAGE_PAIRS ? wanted : HJG_K_PAGE_PAIRS;
}

static hjg_u64
nowners_of(HjgCudaPutting putting, hjg_u64 nblocks, unsigned threads)
{
	return putting == HJG_CUDA_PUT_PAGE ? nblocks * threads : nblocks;
}

size_t
hjg_lab_pages_bytes(HjgCudaPutting putting, hjg_u64 nblocks, unsigned threads)
{
	const hjg_u64 nowners = nowners_of(putting, nblocks, threads);
	const hjg_u64 npairs = nowners * page_pairs_of(putting);

	if (putting != HJG_CUDA_PUT_PAGE && putting != HJG_CUDA_PUT_BLOCK)
		return 0;
	return hjg_cuda_block_bytes(npairs * sizeof(HjgPair)) + hjg_cuda_block_bytes(npairs * sizeof(hjg_u64)) +
		hjg_cuda_block_bytes(npairs) + hjg_cuda_block_bytes(nowners * sizeof(hjg_u64)) +
		hjg_cuda_block_bytes(4 * sizeof(hjg_u64));
}

HjgStatus
hjg_lab_pages_begin(HjgCudaStream *stream, HjgCudaPutting putting, unsigned nblocks, unsigned threads,
					 const HjgCudaOutput *output, HjgCudaPages *pages)
{
	HjgKHoles  *args = &pages->args;
	HjgStatus	status;

	memset(pages, 0, sizeof(*pages));
	args->sink.output = hjg_lab_kernel_output(output);
	if (putting != HJG_CUDA_PUT_PAGE && putting != HJG_CUDA_PUT_BLOCK)
		return HJG_OK;
	args->sink.page_pairs = page_pairs_of(putting);
	args->nowners = (hjg_u32) nowners_of(putting, nblocks, threads);
	args->sink.spill_pairs = (hjg_u64) args->nowners * args->sink.page_pairs;
	status = hjg_cuda_alloc(stream, args->sink.spill_pairs * sizeof(HjgPair), &args->sink.spill);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, args->sink.spill_pairs * sizeof(hjg_u64), &args->holes);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, args->sink.spill_pairs, &args->marks);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, args->nowners * sizeof(hjg_u64), &args->sink.open);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, 4 * sizeof(hjg_u64), &pages->numbers);
	args->sink.taken = pages->numbers;
	args->nholes = pages->numbers + sizeof(hjg_u64);
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, pages->numbers, 4 * sizeof(hjg_u64));
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, args->marks, args->sink.spill_pairs);
	/* every owner starts with a full page: the first pair asks for one */
	return status == HJG_OK ? hjg_cuda_zero(stream, args->sink.open, args->nowners * sizeof(hjg_u64)) : status;
}

HjgStatus
hjg_lab_pages_end(HjgCudaStream *stream, HjgCudaPages *pages)
{
	HjgKHoles  *args = &pages->args;
	const unsigned nblocks = hjg_cuda_blocks(args->nowners, THREADS);
	HjgStatus	status;

	if (args->nowners == 0)
		return HJG_OK;
	status = hjg_cuda_launch(stream, &count_holes, nblocks, THREADS, 0, (void *[]) {args});
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &list_holes, nblocks, THREADS, 0, (void *[]) {args});
	if (status == HJG_OK)
		status = hjg_cuda_launch_filling(stream, &fill_holes, THREADS, 0, hjg_cuda_blocks(args->sink.spill_pairs, THREADS),
										 args);
	return status;
}

void
hjg_lab_pages_free(HjgCudaStream *stream, HjgCudaPages *pages)
{
	hjg_cuda_free(stream, pages->args.sink.spill);
	hjg_cuda_free(stream, pages->args.holes);
	hjg_cuda_free(stream, pages->args.marks);
	hjg_cuda_free(stream, pages->args.sink.open);
	hjg_cuda_free(stream, pages->numbers);
	memset(pages, 0, sizeof(*pages));
}
