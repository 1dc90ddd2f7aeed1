/*
 * lab_cuda_paper.c
 *	  Functions that the resident joins of the literature share: blocks of rows, partitions, the device.
 */
#include <stdio.h>
#include <string.h>

#include "lab/hjg_cuda_paper.h"

#define PLACE_THREADS 1024

static HjgCudaKernel place_parts = {.image = "cuda_partition", .name = "hjg_k_place_parts"};

HjgCudaPaperTuning hjg_cuda_paper_tuning;

HjgCudaDevice *
hjg_lab_enter(int number)
{
	HjgDeviceInfo infos[HJG_CUDA_MAX_DEVICES];
	char		reason[128];
	HjgCudaDevice *device;

	hjg_cuda_list(infos, HJG_CUDA_MAX_DEVICES);
	device = hjg_cuda_enter(number, reason, sizeof(reason));
	if (device == NULL)
		fprintf(stderr, "hjoin_gpu_lab: %s\n", reason);
	return device;
}

static size_t
parted_keys_bytes(int key_width, hjg_u64 nrows)
{
	return nrows * (size_t) (key_width == HJG_KEY_WIDTH_4 ? 8 : key_width);
}

static size_t
parted_numbers_bytes(int key_width, hjg_u64 nrows)
{
	return key_width == HJG_KEY_WIDTH_4 ? 0 : nrows * sizeof(hjg_u32);
}

size_t
hjg_lab_rows_bytes(int key_width, hjg_u64 nrows)
{
	return hjg_cuda_block_bytes(parted_keys_bytes(key_width, nrows)) + hjg_cuda_block_bytes(parted_numbers_bytes(key_width, nrows));
}

/* Pinned host memory of rows, which takes long to get and is kept. */
#define MOST_PINNED 8

static struct
{
	void	   *ptr;
	size_t		bytes;
	bool		used;
}			pinned[MOST_PINNED];

static HjgStatus
take_rows_block(HjgCudaStream *stream, size_t bytes, HjgCudaPtr *ptr)
{
	HjgStatus	status = HJG_ERR_MEMORY;

	if (!hjg_cuda_paper_tuning.rows_on_host)
		return hjg_cuda_alloc(stream, bytes, ptr);
	for (int i = 0; i < MOST_PINNED; i++)
	{
		if (pinned[i].ptr == NULL)
		{
			status = hjg_cuda_check(stream, hjg_cuda.host_alloc(&pinned[i].ptr, bytes, HJG_CUDA_HOST_PORTABLE), "pinned memory");
			if (status != HJG_OK)
				return status;
			pinned[i].bytes = bytes;
		}
		if (pinned[i].used || pinned[i].bytes < bytes)
			continue;
		pinned[i].used = true;
		*ptr = (HjgCudaPtr) (size_t) pinned[i].ptr;
		return HJG_OK;
	}
	return status;
}

static void
give_rows_block(HjgCudaStream *stream, HjgCudaPtr ptr)
{
	for (int i = 0; i < MOST_PINNED; i++)
		if (ptr != 0 && (HjgCudaPtr) (size_t) pinned[i].ptr == ptr)
		{
			pinned[i].used = false;
			return;
		}
	hjg_cuda_free(stream, ptr);
}

void
hjg_lab_rows_drop(HjgCudaStream *stream)
{
	for (int i = 0; i < MOST_PINNED; i++)
		if (pinned[i].ptr != NULL)
		{
			(void) hjg_cuda_check(stream, hjg_cuda.host_free(pinned[i].ptr), "pinned memory");
			pinned[i].ptr = NULL;
		}
}

HjgStatus
hjg_lab_rows_alloc(HjgCudaStream *stream, int key_width, hjg_u64 nrows, HjgCudaRows *rows)
{
	HjgStatus	status;

	*rows = (HjgCudaRows) {.nrows = nrows};
	status = take_rows_block(stream, parted_keys_bytes(key_width, nrows), &rows->keys);
	if (status == HJG_OK && parted_numbers_bytes(key_width, nrows) > 0)
		status = take_rows_block(stream, parted_numbers_bytes(key_width, nrows), &rows->rows);
	return status;
}

void
hjg_lab_rows_free(HjgCudaStream *stream, HjgCudaRows *rows)
{
	give_rows_block(stream, rows->keys);
	give_rows_block(stream, rows->rows);
	memset(rows, 0, sizeof(*rows));
}

/* ---- partitions ---- */

/* Lay out the entries of parted from sizes on; returns their bytes. */
static size_t
lay_parted_numbers(HjgCudaParted *parted, int bits, HjgCudaPtr base)
{
	const size_t each = sizeof(hjg_u32) << bits;

	parted->sizes = base;
	parted->largest = base + each;
	parted->ticket = parted->largest + sizeof(hjg_u32);
	parted->parts.first = parted->largest + 64;
	parted->parts.last = parted->parts.first + each;
	parted->cursors = parted->parts.last + each;
	parted->unit_first = parted->cursors + 2 * each;
	return parted->unit_first + each + 2 * sizeof(hjg_u32) - base;
}

size_t
hjg_lab_parted_bytes(int bits)
{
	HjgCudaParted parted;

	return hjg_cuda_block_bytes(lay_parted_numbers(&parted, bits, 0));
}

HjgStatus
hjg_lab_parted_begin(HjgCudaStream *stream, hjg_u64 nrows, int bits, HjgCudaParted *parted)
{
	HjgStatus	status;

	memset(parted, 0, sizeof(*parted));
	parted->nrows = nrows;
	parted->bits = bits;
	status = hjg_cuda_alloc(stream, lay_parted_numbers(parted, bits, 0), &parted->numbers);
	lay_parted_numbers(parted, bits, parted->numbers);
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, parted->largest, 64);
	return status;
}

HjgStatus
hjg_lab_parted_place(HjgCudaStream *stream, HjgCudaParted *parted, HjgKUnits *units)
{
	HjgKPlace	args = {
		.counts = parted->sizes, .largest = parted->largest, .parts = parted->parts, .up = parted->cursors,
		.down = parted->cursors + (sizeof(hjg_u32) << parted->bits), .bits = (hjg_u32) parted->bits,
		.align_bits = (hjg_u32) parted->bucket_bits
	};

	if (units != NULL)
	{
		units->probe = parted->parts;
		units->unit_first = parted->unit_first;
		units->bits = (hjg_u32) parted->bits;
		args.units = *units;
	}
	return hjg_cuda_launch(stream, &place_parts, ((1u << parted->bits) + PLACE_THREADS - 1) / PLACE_THREADS, PLACE_THREADS, 0,
						   (void *[]) {&args});
}

void
hjg_lab_parted_free(HjgCudaStream *stream, HjgCudaParted *parted)
{
	hjg_lab_rows_free(stream, &parted->rows);
	hjg_cuda_free(stream, parted->pages);
	hjg_cuda_free(stream, parted->numbers);
	memset(parted, 0, sizeof(*parted));
}
