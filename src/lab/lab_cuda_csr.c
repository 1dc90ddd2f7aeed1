/*
 * lab_cuda_csr.c
 *	  The csr table (hjg_csr.h) as a resident join like the others, for benchmarks and tests.
 *
 * The driver probes it in another way (device_cuda_window.c), with bounded rounds in order.  Here all
 * pairs of a probe are counted, which the host waits for, and written if they fit; if no row has more than
 * one pair they are written at once.
 *
 * H100, milliseconds with pairs written, building included: 32M x 32M rows of 4-byte keys 10.9; with 8 of
 * each key on both sides 22.9; 2M x 64M 3.3; 64M x 64M rows of 16 bytes 33.6.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_join.h"
#include "lab/hjg_lab_stream.h"

#define IMAGE "cuda_csr"
#define ROWS_A_BLOCK (4 * HJG_CUDA_BLOCK)
#define BLOCKS_A_PROCESSOR 16

HJG_CUDA_KERNELS(mix_keys, IMAGE, "hjg_k_mix_keys");
HJG_CUDA_KERNELS(probe_once, IMAGE, "hjg_k_probe_once");
HJG_CUDA_KERNELS(find, IMAGE, "hjg_k_find");
HJG_CUDA_KERNELS(write_pairs, IMAGE, "hjg_k_write_pairs");
HJG_CUDA_KERNEL(hjg_k_name_rows, IMAGE);

typedef struct CsrTable
{
	HjgMatchMode mode;
	HjgCudaCsr	csr;
	HjgCsrFacts facts;
	hjg_u64		npairs;
} CsrTable;

/* Buffers of a probe; HjgCudaJoin has the same for a window. */
typedef struct CsrWindow
{
	HjgCudaPtr	offsets;
	HjgCudaPtr	firsts;
	HjgCudaPtr	sums;
} CsrWindow;

static size_t
sums_bytes(hjg_u64 nrows)
{
	return hjg_cuda_scan_entries(nrows + 1) * sizeof(hjg_u64);
}

static bool
csr_suits(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return !shape->wide_rows && shape->build_rows > 0 && shape->build_rows <= HJG_K_MAX_ROWS && shape->probe_rows <= HJG_K_MAX_ROWS;
}

static size_t
csr_join_bytes(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return hjg_cuda_csr_build_bytes(shape->key_width, shape->build_rows) +
		hjg_cuda_block_bytes((shape->probe_rows + 1) * sizeof(hjg_u64)) + hjg_cuda_block_bytes(shape->probe_rows * sizeof(hjg_u32)) +
		hjg_cuda_block_bytes(sums_bytes(shape->probe_rows));
}

/*
 * Count the bytes: each digit is counted and moved; a probe row has a key, an entry of the directory, a
 * bucket, and 12 bytes in between.
 */
hjg_u64
hjg_lab_traffic_csr(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	const hjg_u64 width = (hjg_u64) shape->key_width;
	hjg_u64		bits = 1;
	hjg_u64		npasses;

	while (1ull << bits < shape->build_rows)
		bits++;
	npasses = (bits + HJG_CSR_DIGIT_BITS - 1) / HJG_CSR_DIGIT_BITS;
	return shape->build_rows * (3 * width + npasses * (3 * width + 8)) + shape->probe_rows * (2 * width + 36);
}

static void
csr_free(HjgCudaStream *stream, void *arg)
{
	hjg_cuda_csr_free(stream, &((CsrTable *) arg)->csr);
	free(arg);
}

static HjgStatus
copy_build(HjgCudaStream *stream, const HjgCudaSide *build, HjgCudaCsr *csr)
{
	HjgStatus	status = hjg_cuda_alloc(stream, build->nrows * (size_t) csr->width, &csr->keys);
	hjg_u64		nrows = build->nrows;

	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, nrows * sizeof(hjg_u32), &csr->rows);
	if (status == HJG_OK)
		status = hjg_lab_copy_within(stream, csr->keys, build->keys, nrows * (size_t) csr->width);
	if (status == HJG_OK)
		status = build->rows != 0 ? hjg_lab_copy_within(stream, csr->rows, build->rows, nrows * sizeof(hjg_u32)) :
			hjg_cuda_number_rows(stream, csr->rows, nrows, 0);
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &mix_keys[hjg_cuda_width_ix(csr->width)], hjg_cuda_blocks(nrows, HJG_CUDA_BLOCK),
								 HJG_CUDA_BLOCK, 0, (void *[]) {&csr->keys, &nrows});
	return status;
}

static HjgStatus
csr_build(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, void **result)
{
	CsrTable	   *table = calloc(1, sizeof(CsrTable));
	HjgStatus	status;

	if (table == NULL)
		return HJG_ERR_MEMORY;
	table->mode = shape->mode;
	table->csr.width = shape->key_width;
	status = hjg_cuda_mark(stream, HJG_CUDA_BUILD);
	if (status == HJG_OK)
		status = copy_build(stream, build, &table->csr);
	if (status == HJG_OK)
		status = hjg_cuda_csr_build(stream, &table->facts, &table->csr, build->nrows);
	if (status != HJG_OK)
	{
		csr_free(stream, table);
		return status;
	}
	*result = table;
	return HJG_OK;
}

/* Write at once: no row has more than one pair, and all pairs fit. */
static HjgStatus
write_once(HjgCudaStream *stream, CsrTable *table, const HjgCudaSide *probe, const HjgCudaOutput *output)
{
	const unsigned blocks = hjg_cuda_blocks(probe->nrows, ROWS_A_BLOCK);
	const unsigned most = (unsigned) stream->device->multiprocessors * BLOCKS_A_PROCESSOR;
	HjgCudaPtr	keys = probe->keys;
	HjgCudaPtr	pairs = output->pairs;
	HjgCudaPtr	counters = output->counters;
	hjg_u64		n = probe->nrows;
	hjg_u32		first_row = 0;
	int			mode = table->mode;

	return hjg_cuda_launch(stream, &probe_once[hjg_cuda_width_ix(table->csr.width)], blocks < most ? blocks : most, HJG_CUDA_BLOCK, 0,
						   (void *[]) {&keys, &n, &table->csr.table, &mode, &first_row, &pairs, &counters});
}

/* Count the pairs of all rows; the number is in table->npairs on return. */
static HjgStatus
count_pairs(HjgCudaStream *stream, CsrTable *table, const HjgCudaSide *probe, const HjgCudaOutput *output, const CsrWindow *window)
{
	const HjgCudaPtr total = window->offsets + probe->nrows * sizeof(hjg_u64);
	HjgCsrSlice slice = {0};
	HjgCudaPtr	keys = probe->keys;
	HjgCudaPtr	offsets = window->offsets;
	HjgCudaPtr	firsts = window->firsts;
	hjg_u64		n = probe->nrows;
	int			mode = table->mode;
	HjgStatus	status = hjg_cuda_launch(stream, &find[hjg_cuda_width_ix(table->csr.width)], hjg_cuda_blocks(n + 1, HJG_CUDA_BLOCK),
										 HJG_CUDA_BLOCK, 0, (void *[]) {&keys, &n, &table->csr.table, &mode, &slice, &offsets, &firsts});

	if (status == HJG_OK)
		status = hjg_cuda_scan(stream, offsets, n + 1, window->sums);
	if (status == HJG_OK)
		status = hjg_lab_copy_within(stream, output->counters, total, sizeof(hjg_u64));
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(stream, &table->npairs, total, sizeof(hjg_u64));
	return status == HJG_OK ? hjg_cuda_wait(stream) : status;
}

static HjgStatus
write_counted(HjgCudaStream *stream, CsrTable *table, const HjgCudaSide *probe, const HjgCudaOutput *output)
{
	CsrWindow		window = {0};
	HjgCudaPtr	pairs = output->pairs;
	hjg_u64		nrows = probe->nrows;
	hjg_u64		begin = 0;
	hjg_u32		first_row = 0;
	HjgStatus	status = hjg_cuda_alloc(stream, (nrows + 1) * sizeof(hjg_u64), &window.offsets);

	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, nrows * sizeof(hjg_u32), &window.firsts);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, sums_bytes(nrows), &window.sums);
	if (status == HJG_OK)
		status = count_pairs(stream, table, probe, output, &window);
	if (status == HJG_OK && table->npairs > 0 && table->npairs <= output->capacity)
		status = hjg_cuda_launch(stream, &write_pairs[hjg_cuda_width_ix(table->csr.width)], hjg_cuda_blocks(table->npairs, HJG_CUDA_BLOCK),
								 HJG_CUDA_BLOCK, 0, (void *[]) {&table->csr.table, &window.offsets, &window.firsts, &nrows, &first_row,
																&begin, &table->npairs, &pairs});
	hjg_cuda_free(stream, window.offsets);
	hjg_cuda_free(stream, window.firsts);
	hjg_cuda_free(stream, window.sums);
	return status;
}

static HjgStatus
csr_probe(HjgCudaStream *stream, void *arg, const HjgCudaSide *probe, const HjgCudaOutput *output)
{
	CsrTable	   *table = arg;
	const bool	single = table->csr.unique || table->mode == HJG_MATCH_SEMI || table->mode == HJG_MATCH_ANTI;
	HjgCudaPtr	pairs = output->pairs;
	HjgCudaPtr	counters = output->counters;
	HjgCudaPtr	rows = probe->rows;
	hjg_u64		capacity = output->capacity;
	HjgStatus	status;

	if (probe->nrows == 0)
		return HJG_OK;
	if (hjg_cuda_kind(output) != HJG_CUDA_PAIRS)
		return HJG_ERR_INPUT;
	status = hjg_cuda_mark(stream, HJG_CUDA_PROBE);
	if (status == HJG_OK)
		status = single && probe->nrows <= capacity ? write_once(stream, table, probe, output) :
			write_counted(stream, table, probe, output);
	/* the kernels number rows by position */
	if (status == HJG_OK && rows != 0)
		status = hjg_cuda_launch(stream, &hjg_k_name_rows, (unsigned) stream->device->multiprocessors * BLOCKS_A_PROCESSOR, HJG_CUDA_BLOCK, 0,
								 (void *[]) {&pairs, &counters, &capacity, &rows});
	return status;
}

HJG_CUDA_STRATEGY(csr,
	.suits = csr_suits, .bytes = csr_join_bytes, .build = csr_build, .probe = csr_probe, .free = csr_free
);
