/*
 * hjg_csr.h
 *	  The build side in GPU memory, shared by the CUDA driver's host code and its kernels.
 *
 * Tuples are ordered by bucket; a bucket is the first bucket_bits bits of the mixed key (hjg_hash.h).
 * start[b] is the index of the first tuple of bucket b, start[2^bucket_bits] = nrows.  Within a bucket
 * tuples are in ascending order of build row.  If any bucket has more than HJG_CSR_HEAVY tuples, all
 * buckets are ordered by the whole mixed key first ("sorted"), so that equal keys are adjacent and a
 * bucket can be searched by bisection.
 *
 * A mixed key of 16 bytes is its high word followed by its low word.
 */
#ifndef HJG_CSR_H
#define HJG_CSR_H

#include "hjg_layout.h"

/* Buckets up to this size are scanned. */
#define HJG_CSR_HEAVY 32

/* Radix sort: rows of a tile, and most bits of a digit. */
#define HJG_CSR_TILE 4096
#define HJG_CSR_DIGIT_BITS 8
#define HJG_CSR_DIGITS 256

/* Entries of a block of a prefix sum. */
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

/* A digit of the mixed key's high (0) or low word (1). */
typedef struct HjgCsrDigit
{
	hjg_u32		word;
	hjg_u32		shift;
	hjg_u32		nbits;
	hjg_u32		pad;
} HjgCsrDigit;

/* The slice of each row's matches that HjgCursor requests; most = 0: all matches. */
typedef struct HjgCsrSlice
{
	hjg_u64		skip;
	hjg_u64		most;
} HjgCsrSlice;

/* Facts about the buckets; zeroed by the caller. */
typedef struct HjgCsrFacts
{
	hjg_u32		largest;		/* tuples in the largest bucket */
	hjg_u32		duplicates;		/* a key occurs twice in a bucket that is not heavy */
} HjgCsrFacts;

/* The cut of a window of probe rows whose pairs do not fit. */
typedef struct HjgCsrCut
{
	hjg_u64		total;			/* pairs of the window */
	hjg_u64		begin;			/* first and last + 1 to be written, from the window's first pair */
	hjg_u64		end;
	hjg_u64		row;			/* first row with pairs at or after the end, or the number of rows */
	hjg_u64		skip;			/* number of its pairs before the end */
} HjgCsrCut;

#endif							/* HJG_CSR_H */
