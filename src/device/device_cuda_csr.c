/*
 * device_cuda_csr.c
 *	  The build side as a bucket-sorted table in device memory: hjg_csr.h.
 *
 * Tuples are sorted by the bits of their bucket, digit by digit from the lowest.  The sort is stable and
 * the rows ascend at first, so equal keys stay in canonical order.  Only if a bucket turns out to be heavy
 * are all tuples sorted again, by the whole mixed key, which also keeps the order of equal keys.
 */
#include <string.h>

#include "device/hjg_cuda_join.h"

#define IMAGE "cuda_csr"
#define MOST_BUCKET_BITS 30

HJG_CUDA_KERNELS(sort_count, IMAGE, "hjg_k_sort_count");
HJG_CUDA_KERNELS(sort_scatter, IMAGE, "hjg_k_sort_scatter");
HJG_CUDA_KERNELS(fill_starts, IMAGE, "hjg_k_fill_starts");
HJG_CUDA_KERNELS(check_buckets, IMAGE, "hjg_k_check_buckets");
HJG_CUDA_KERNEL(hjg_k_scan_blocks, IMAGE);
HJG_CUDA_KERNEL(hjg_k_scan_add, IMAGE);

/* Compute the bits for at least as many buckets as rows, and less than twice as many. */
static hjg_u32
csr_bucket_bits(hjg_u64 nrows)
{
	hjg_u32		bits = 1;

	while (bits < MOST_BUCKET_BITS && 1ull << bits < nrows)
		bits++;
	return bits;
}

static hjg_u64
ntiles_of(hjg_u64 nrows)
{
	return (nrows + HJG_CSR_TILE - 1) / HJG_CSR_TILE;
}

static size_t
start_bytes(hjg_u32 bucket_bits)
{
	return (((size_t) 1 << bucket_bits) + 1) * sizeof(hjg_u32);
}

/* Count the bytes that sorting needs besides the tuples. */
static size_t
counts_bytes(hjg_u64 nrows)
{
	return ntiles_of(nrows) * HJG_CSR_DIGITS * sizeof(hjg_u64);
}

size_t
hjg_cuda_csr_bytes(int width, hjg_u64 nrows)
{
	return hjg_cuda_block_bytes(nrows * (size_t) width) + hjg_cuda_block_bytes(nrows * sizeof(hjg_u32)) +
		hjg_cuda_block_bytes(start_bytes(csr_bucket_bits(nrows)));
}

size_t
hjg_cuda_csr_build_bytes(int width, hjg_u64 nrows)
{
	return hjg_cuda_csr_bytes(width, nrows) +
		hjg_cuda_block_bytes(nrows * (size_t) width) + hjg_cuda_block_bytes(nrows * sizeof(hjg_u32)) +
		hjg_cuda_block_bytes(counts_bytes(nrows)) +
		hjg_cuda_block_bytes(hjg_cuda_scan_entries(ntiles_of(nrows) * HJG_CSR_DIGITS) * sizeof(hjg_u64));
}

/* ---- scan ---- */

static hjg_u64
scan_blocks_of(hjg_u64 n)
{
	return (n + HJG_CSR_SCAN - 1) / HJG_CSR_SCAN;
}

size_t
hjg_cuda_scan_entries(hjg_u64 n)
{
	size_t		entries = 0;

	do
	{
		n = scan_blocks_of(n);
		entries += n;
	} while (n > 1);
	return entries;
}

HjgStatus
hjg_cuda_scan(HjgCudaStream *stream, HjgCudaPtr data, hjg_u64 n, HjgCudaPtr sums)
{
	const hjg_u64 nblocks = scan_blocks_of(n);
	HjgStatus	status;

	status = hjg_cuda_launch(stream, &hjg_k_scan_blocks, (unsigned) nblocks, HJG_CUDA_BLOCK, 0,
							 (void *[]) {&data, &n, &sums});
	if (status != HJG_OK || nblocks <= 1)
		return status;
	/* recurses at most three times: each level divides n by 4096 */
	status = hjg_cuda_scan(stream, sums, nblocks, sums + nblocks * sizeof(hjg_u64));
	if (status != HJG_OK)
		return status;
	return hjg_cuda_launch(stream, &hjg_k_scan_add, (unsigned) nblocks, HJG_CUDA_BLOCK, 0,
						   (void *[]) {&data, &n, &sums});
}

/* ---- sorting ---- */

typedef struct Sort
{
	HjgCudaStream *stream;
	HjgCudaCsr *csr;
	hjg_u64		nrows;
	HjgCudaPtr	other_keys;
	HjgCudaPtr	other_rows;
	HjgCudaPtr	counts;
	HjgCudaPtr	sums;
} Sort;

static HjgStatus
sort_pass(Sort *sort, HjgCsrDigit digit)
{
	HjgCudaCsr *csr = sort->csr;
	const int	w = hjg_cuda_width_ix(csr->width);
	const unsigned ntiles = (unsigned) ntiles_of(sort->nrows);
	HjgCudaPtr	keys = csr->keys;
	HjgCudaPtr	rows = csr->rows;
	HjgStatus	status;

	status = hjg_cuda_launch(sort->stream, &sort_count[w], ntiles, HJG_CUDA_BLOCK, 0,
							 (void *[]) {&keys, &sort->nrows, &digit, &sort->counts});
	if (status == HJG_OK)
		status = hjg_cuda_scan(sort->stream, sort->counts, (hjg_u64) ntiles * HJG_CSR_DIGITS, sort->sums);
	if (status == HJG_OK)
		status = hjg_cuda_launch(sort->stream, &sort_scatter[w], ntiles, HJG_CUDA_BLOCK, 0,
								 (void *[]) {&keys, &rows, &sort->other_keys, &sort->other_rows, &sort->nrows,
											 &digit, &sort->counts});
	csr->keys = sort->other_keys;
	csr->rows = sort->other_rows;
	sort->other_keys = keys;
	sort->other_rows = rows;
	return status;
}

/* Sort by bits [low, high) of a word, in digits of about equal size. */
static HjgStatus
sort_word(Sort *sort, hjg_u32 word, hjg_u32 low, hjg_u32 high)
{
	const hjg_u32 npasses = (high - low + HJG_CSR_DIGIT_BITS - 1) / HJG_CSR_DIGIT_BITS;
	HjgStatus	status = HJG_OK;

	for (hjg_u32 pass = 0; pass < npasses && status == HJG_OK; pass++)
	{
		const hjg_u32 nbits = (high - low + (npasses - pass) - 1) / (npasses - pass);

		status = sort_pass(sort, (HjgCsrDigit) {.word = word, .shift = low, .nbits = nbits});
		low += nbits;
		/* a cancelled job must not wait for all passes over a large build side */
		if (status == HJG_OK && sort->nrows > 64u * 1024 * 1024)
			status = hjg_cuda_wait(sort->stream);
	}
	return status;
}

static void
set_table(HjgCudaCsr *csr, hjg_u64 nrows)
{
	csr->table.keys = (const void *) (size_t) csr->keys;
	csr->table.rows = (const hjg_u32 *) (size_t) csr->rows;
	csr->table.start = (const hjg_u32 *) (size_t) csr->start;
	csr->table.nrows = (hjg_u32) nrows;
}

static HjgStatus
fill_directory(Sort *sort, HjgCudaPtr facts)
{
	HjgCudaCsr *csr = sort->csr;
	const int	w = hjg_cuda_width_ix(csr->width);
	const hjg_u64 nbuckets = 1ull << csr->table.bucket_bits;
	HjgStatus	status;

	status = hjg_cuda_launch(sort->stream, &fill_starts[w], hjg_cuda_blocks(sort->nrows + 1, HJG_CUDA_BLOCK),
							 HJG_CUDA_BLOCK, 0,
							 (void *[]) {&csr->keys, &sort->nrows, &csr->table.bucket_bits, &csr->start});
	if (status == HJG_OK)
		status = hjg_cuda_zero(sort->stream, facts, sizeof(HjgCsrFacts));
	set_table(csr, sort->nrows);
	if (status == HJG_OK)
		status = hjg_cuda_launch(sort->stream, &check_buckets[w], hjg_cuda_blocks(nbuckets, HJG_CUDA_BLOCK),
								 HJG_CUDA_BLOCK, 0, (void *[]) {&csr->table, &facts});
	return status;
}

static HjgStatus
sort_all(Sort *sort, HjgCsrFacts *facts)
{
	HjgCudaCsr *csr = sort->csr;
	const hjg_u32 word_bits = csr->width == HJG_KEY_WIDTH_4 ? 32 : 64;
	HjgStatus	status;

	status = hjg_cuda_mark(sort->stream, HJG_CUDA_PARTITION);
	if (status == HJG_OK)
		status = sort_word(sort, 0, word_bits - csr->table.bucket_bits, word_bits);
	if (status == HJG_OK)
		status = hjg_cuda_mark(sort->stream, HJG_CUDA_BUILD);
	if (status == HJG_OK)
		status = fill_directory(sort, sort->counts);
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(sort->stream, facts, sort->counts, sizeof(HjgCsrFacts));
	if (status == HJG_OK)
		status = hjg_cuda_wait(sort->stream);
	if (status != HJG_OK)
		return status;
	csr->unique = facts->largest <= HJG_CSR_HEAVY && facts->duplicates == 0;
	csr->table.sorted = facts->largest > HJG_CSR_HEAVY;
	if (!csr->table.sorted)
		return HJG_OK;

	/* the starts of the buckets do not change */
	status = hjg_cuda_mark(sort->stream, HJG_CUDA_PARTITION);
	if (status == HJG_OK && csr->width == HJG_KEY_WIDTH_16)
		status = sort_word(sort, 1, 0, 64);
	if (status == HJG_OK)
		status = sort_word(sort, 0, 0, word_bits);
	set_table(csr, sort->nrows);
	return status == HJG_OK ? hjg_cuda_wait(sort->stream) : status;
}

HjgStatus
hjg_cuda_csr_build(HjgCudaStream *stream, HjgCsrFacts *facts, HjgCudaCsr *csr, hjg_u64 nrows)
{
	Sort		sort = {.stream = stream, .csr = csr, .nrows = nrows};
	HjgStatus	status;

	csr->table.bucket_bits = csr_bucket_bits(nrows);
	status = hjg_cuda_alloc(stream, start_bytes(csr->table.bucket_bits), &csr->start);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, nrows * (size_t) csr->width, &sort.other_keys);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, nrows * sizeof(hjg_u32), &sort.other_rows);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, counts_bytes(nrows), &sort.counts);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, hjg_cuda_scan_entries(ntiles_of(nrows) * HJG_CSR_DIGITS) * sizeof(hjg_u64),
								&sort.sums);
	if (status == HJG_OK)
		status = sort_all(&sort, facts);
	hjg_cuda_free(stream, sort.other_keys);
	hjg_cuda_free(stream, sort.other_rows);
	hjg_cuda_free(stream, sort.counts);
	hjg_cuda_free(stream, sort.sums);
	return status;
}

void
hjg_cuda_csr_free(HjgCudaStream *stream, HjgCudaCsr *csr)
{
	hjg_cuda_free(stream, csr->keys);
	hjg_cuda_free(stream, csr->rows);
	hjg_cuda_free(stream, csr->start);
	memset(csr, 0, sizeof(*csr));
}
