/*
 * hjg_csr.h
 *	  The build side in the memory of a GPU, as the CUDA driver's host code and its kernels share it.
 *
 * Tuples lie in order of bucket, a bucket being the first bucket_bits bits of the
 * mixed key (hjg_hash.h); start[b] is the index of the first tuple of bucket b,
 * start[2^bucket_bits] = nrows.  Within a bucket tuples are in ascending order of build
 * row.  Where a bucket has more than HJG_CSR_HEAVY tuples all buckets are ordered by
 * the whole mixed key first ("sorted"), so that equal keys are neighbours and a
 * bucket can be searched by bisection.
 *
 * Mixed keys of 16 bytes are a high and a low word, in this order.
 */
#ifndef HJG_CSR_H
#define HJG_CSR_H

#include "hjg_layout.h"

/* Buckets up to this size are scanned. */
#define HJG_CSR_HEAVY 32

/* Sorting by digits: rows of a tile, and most bits of a digit. */
#define HJG_CSR_TILE 4096
#define HJG_CSR_DIGIT_BITS 8
#define HJG_CSR_DIGITS 256

/* Entries of a block of a scan. */
#define HJG_CSR_SCAN 4096

typedef struct HjgCsrTable
{
	const void *keys;			/* mixed */
	const hjg_u32 *rows;		/* build row numbers */
	const hjg_u32 *start;
	hjg_u32		nrows;
	hjg_u32		bucket_bits;
	hjg_u32		sorted;
	hjg_u32		pad;
} HjgCsrTable;

/* A digit of the mixed key: of the high (0) or the low word (1). */
typedef struct HjgCsrDigit
{
	hjg_u32		word;
	hjg_u32		shift;
	hjg_u32		nbits;
	hjg_u32		pad;
} HjgCsrDigit;

/* The slice of each row's matches that HjgCursor asks for; most = 0: all of them. */
typedef struct HjgCsrSlice
{
	hjg_u64		skip;
	hjg_u64		most;
} HjgCsrSlice;

/* Facts about the buckets; zeroed before. */
typedef struct HjgCsrFacts
{
	hjg_u32		largest;		/* tuples in the largest bucket */
	hjg_u32		duplicates;		/* a key occurs twice, in buckets that are not heavy */
} HjgCsrFacts;

/* Where a window of probe rows is cut when its pairs do not fit. */
typedef struct HjgCsrCut
{
	hjg_u64		total;			/* pairs of the window */
	hjg_u64		begin;			/* first and last + 1 to be written, counted from its first row's first */
	hjg_u64		end;
	hjg_u64		row;			/* first row of the window with pairs behind the end, or their number */
	hjg_u64		skip;			/* of its pairs, those before the end */
} HjgCsrCut;

#endif							/* HJG_CSR_H */
