/*
 * hjg_engine_bloom.h
 *	  A blocked Bloom filter of encoded keys.
 *
 * The reader of the probe side tests which rows may have a partner, and drops the others before they cost
 * more.  The filter never denies a key that was added.  It passes about 1 in 80 other keys when it holds
 * as many keys as it was sized for.
 *
 * A key's bits all lie in one 64-bit word (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient
 * Bloom Filters", JEA 2009, section 3.1): one cache miss a test, and a vector instruction tests several
 * keys.
 *
 * The caller owns the memory, and processes may share it.  A test sees the keys that were added before it.
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

/* Entries of rows[] that a call may write behind the last. */
#define HJG_BLOOM_ROWS_PAD 8

/* Compute the bytes of a filter for nkeys keys; adding more lets more rows pass. */
extern size_t hjg_bloom_bytes(hjg_u64 nkeys);

/* Make an empty filter over bytes >= 8 of memory, which need not be zero. */
extern void hjg_bloom_init(HjgBloom *bloom, int key_width, void *memory, size_t bytes);

/* Attach a filter that was made over the same memory. */
extern void hjg_bloom_attach(HjgBloom *bloom, int key_width, void *memory, size_t bytes);

/* Add keys[nkeys * key_width]; the shared form allows others to add at the same time. */
extern void hjg_bloom_add(HjgBloom *bloom, const void *keys, hjg_u32 nkeys);
extern void hjg_bloom_add_shared(HjgBloom *bloom, const void *keys, hjg_u32 nkeys);

/*
 * Write the numbers of the rows of keys[nrows * key_width] that may have been added into rows[nrows +
 * HJG_BLOOM_ROWS_PAD], ascending; returns how many.  nrows <= 65535.
 */
extern hjg_u32 hjg_bloom_test(const HjgBloom *bloom, const void *keys, hjg_u32 nrows, hjg_u16 *rows);

/* Test one key. */
extern bool hjg_bloom_test_one(const HjgBloom *bloom, const void *key);

#endif							/* HJG_ENGINE_BLOOM_H */
