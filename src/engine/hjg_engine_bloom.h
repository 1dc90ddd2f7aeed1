/*
 * hjg_engine_bloom.h
 *	  A blocked Bloom filter of encoded keys.
 *
 * Whoever reads the probe side asks it which rows may have a partner, and drops the
 * others before they cost anything more.  It never denies a key that was added;
 * of other keys it lets some pass, about 1 in 80 when as many keys were added as
 * it was made for.
 *
 * A key's bits all lie in one 64-bit word (Putze, Sanders and Singler, "Cache-,
 * Hash- and Space-Efficient Bloom Filters", JEA 2009, section 3.1): one cache miss
 * a test, and a vector instruction tests several keys.
 *
 * The memory is the caller's and may be shared by processes.  Tests see the keys whose
 * adding happened before.
 */
#ifndef HJG_ENGINE_BLOOM_H
#define HJG_ENGINE_BLOOM_H

#include <stdbool.h>
#include <stddef.h>

#include "layout/hjg_layout.h"

typedef struct HjgBloom
{
	hjg_u64    *words;
	hjg_u32		nwords;
	int			key_width;		/* 4, 8 or 16 */
} HjgBloom;

/* Rows that one call tests at most, and entries of rows[] that it may write behind the last. */
#define HJG_BLOOM_MAX_ROWS 65535
#define HJG_BLOOM_ROWS_PAD 8

/* Compute the memory of a filter for so many keys; more may be added, and more rows pass then. */
extern size_t hjg_bloom_bytes(hjg_u64 nkeys);

/* Make an empty filter over bytes >= 8 of memory, which need not be zero. */
extern void hjg_bloom_init(HjgBloom *bloom, int key_width, void *memory, size_t bytes);

/* Attach a filter that was made over the same memory. */
extern void hjg_bloom_attach(HjgBloom *bloom, int key_width, void *memory, size_t bytes);

/* Add keys[nkeys * key_width]; shared: while others add, too */
extern void hjg_bloom_add(HjgBloom *bloom, const void *keys, hjg_u32 nkeys);
extern void hjg_bloom_add_shared(HjgBloom *bloom, const void *keys, hjg_u32 nkeys);

/*
 * Write the numbers of the rows of keys[nrows * key_width] that may have been added, ascending,
 * into rows[nrows + HJG_BLOOM_ROWS_PAD]; returns how many.  nrows <= HJG_BLOOM_MAX_ROWS.
 */
extern hjg_u32 hjg_bloom_test(const HjgBloom *bloom, const void *keys, hjg_u32 nrows, hjg_u16 *rows);

/* Test one key. */
extern bool hjg_bloom_test_one(const HjgBloom *bloom, const void *key);

#endif							/* HJG_ENGINE_BLOOM_H */
