/*
 * lab_host_split.c
 *	  Rows on the device ordered by partition (cuda_split.cu): a chunk at a time, into alternating
 *	  buffers.
 *
 * Counting is waited for: from the counts the caller decides which partitions stay on the device, and
 * where each begins.
 */
#include <string.h>

#include "lab/hjg_cuda_host.h"
#include "lab/hjg_lab_stream.h"

_Static_assert(sizeof(((HjgCudaResultHeader *) NULL)->counts) == sizeof(hjg_u32) << HJG_K_SPLIT_BITS, "counts of all partitions");

#define COUNT_THREADS 512
#define COUNT_BLOCK_ROWS 8192	/* fewer rows are not worth a block */
#define SPLIT_THREADS 512
#define POST_THREADS 256

HJG_CUDA_KERNELS(count_digits, "cuda_split", "hjg_k_count_digits");
HJG_CUDA_KERNELS(split_rows, "cuda_split", "hjg_k_split_rows");
HJG_CUDA_KERNEL(hjg_k_post_counts, "cuda_split");

static const hjg_u32 split_items[3] = {12, 12, 6};

static size_t
split_counts_bytes(int bits)
{
	return sizeof(hjg_u32) << bits;
}

size_t
hjg_lab_split_bytes(int key_width, int bits, hjg_u64 chunk_rows)
{
	return hjg_cuda_block_bytes(2 * split_counts_bytes(bits)) +
		HJG_CUDA_OUTS * (hjg_cuda_block_bytes(chunk_rows * (size_t) key_width) + hjg_cuda_block_bytes(chunk_rows * sizeof(hjg_u32)));
}

HjgStatus
hjg_lab_split_open(HjgCudaSplit *split, HjgCudaStreams *streams, int key_width, int bits, hjg_u64 chunk_rows)
{
	HjgStatus	status;

	memset(split, 0, sizeof(*split));
	split->streams = streams;
	split->key_width = key_width;
	split->bits = bits;
	status = hjg_cuda_alloc(&streams->work, 2 * split_counts_bytes(bits), &split->counts);
	for (int i = 0; i < HJG_CUDA_OUTS && status == HJG_OK; i++)
	{
		status = hjg_lab_note_open(&streams->out[i], &split->left[i]);
		if (status == HJG_OK)
			status = hjg_cuda_alloc(&streams->work, chunk_rows * (size_t) key_width, &split->rows[i].keys);
		if (status == HJG_OK)
			status = hjg_cuda_alloc(&streams->work, chunk_rows * sizeof(hjg_u32), &split->rows[i].rows);
	}
	return status;
}

void
hjg_lab_split_close(HjgCudaSplit *split)
{
	if (split->streams == NULL)
		return;
	for (int i = 0; i < HJG_CUDA_OUTS; i++)
	{
		hjg_lab_note_close(&split->streams->out[i], &split->left[i]);
		hjg_cuda_free(&split->streams->work, split->rows[i].keys);
		hjg_cuda_free(&split->streams->work, split->rows[i].rows);
	}
	hjg_cuda_free(&split->streams->work, split->counts);
	memset(split, 0, sizeof(*split));
}

static HjgKSplit
make_arguments(const HjgCudaSplit *split, const HjgCudaSide *side, hjg_u64 first_row)
{
	return (HjgKSplit) {
		.side = {.keys = side->keys, .rows = side->rows, .nrows = (hjg_u32) side->nrows}, .bits = (hjg_u32) split->bits,
		.first_row = (hjg_u32) first_row, .counts = split->counts, .cursors = split->counts + split_counts_bytes(split->bits)
	};
}

HjgStatus
hjg_lab_split_count(HjgCudaSplit *split, const HjgCudaSide *side, hjg_u64 *counts)
{
	HjgCudaStream *stream = &split->streams->work;
	hjg_u32    *answer = split->streams->header->counts;
	HjgKSplit	args = make_arguments(split, side, 0);
	hjg_u32		nparts = 1u << split->bits;
	hjg_u64		sum = 0;
	HjgStatus	status = hjg_cuda_zero(stream, split->counts, split_counts_bytes(split->bits));

	if (status == HJG_OK)
		status = hjg_cuda_launch_filling(stream, &count_digits[hjg_cuda_width_ix(split->key_width)], COUNT_THREADS, 0,
										 (side->nrows + COUNT_BLOCK_ROWS - 1) / COUNT_BLOCK_ROWS, &args);
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &hjg_k_post_counts, 1, POST_THREADS, 0, (void *[]) {&args.counts, &answer, &nparts});
	if (status == HJG_OK)
		status = hjg_cuda_wait(stream);
	if (status != HJG_OK)
		return status;
	for (hjg_u32 p = 0; p < nparts; p++)
		sum += counts[p] = answer[p];
	return sum == side->nrows ? HJG_OK : HJG_ERR_DEVICE;
}

HjgStatus
hjg_lab_split_rows(HjgCudaSplit *split, const HjgCudaSide *side, hjg_u64 first_row, const hjg_u64 *counts, const bool *behind)
{
	const int	ix = hjg_cuda_width_ix(split->key_width);
	const hjg_u64 tile_rows = SPLIT_THREADS * split_items[ix];
	HjgCudaStream *stream = &split->streams->work;
	HjgKSplit	args = make_arguments(split, side, first_row);
	hjg_u32		at = 0;
	HjgStatus	status;

	split->turn = (split->turn + 1) % HJG_CUDA_OUTS;
	args.out = (HjgKRows) {.keys = split->rows[split->turn].keys, .rows = split->rows[split->turn].rows};
	for (int b = 0; b < 2; b++)
		for (int p = 0; p < 1 << split->bits; p++)
			if (behind[p] == (b == 1))
			{
				args.base[p] = at;
				at += (hjg_u32) counts[p];
			}
	status = hjg_lab_follow_note(stream, split->left[split->turn]);
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, args.cursors, split_counts_bytes(split->bits));
	if (status == HJG_OK)
		status = hjg_cuda_launch_filling(stream, &split_rows[ix], SPLIT_THREADS,
										 (unsigned) (tile_rows * ((hjg_u64) split->key_width + sizeof(hjg_u32))),
										 (side->nrows + tile_rows - 1) / tile_rows, &args);
	return status;
}

HjgStatus
hjg_lab_split_send(HjgCudaSplit *split, hjg_u64 from, hjg_u64 nrows, void *keys, hjg_u32 *rows)
{
	const size_t width = (size_t) split->key_width;
	const HjgCudaSide *side = &split->rows[split->turn];
	HjgCudaStream *stream = &split->streams->out[split->turn];
	HjgStatus	status = hjg_cuda_follow(stream, &split->streams->work);

	if (status == HJG_OK)
		status = hjg_cuda_copy_out(stream, keys, side->keys + from * width, nrows * width);
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(stream, rows, side->rows + from * sizeof(hjg_u32), nrows * sizeof(hjg_u32));
	if (status == HJG_OK)
		status = hjg_lab_note(stream, split->left[split->turn]);
	return status;
}
