/*
 * hjg_checksum.h
 *	  Order-independent 64-bit checksum of result pairs and of words.
 *
 * The sum, modulo 2^64, of a mixed value of each pair: threads may add their parts in any order, and a
 * lost, doubled or changed pair shows.  It detects torn and misplaced writes, not an adversary.
 */
#ifndef HJG_CHECKSUM_H
#define HJG_CHECKSUM_H

#include "layout/hjg_layout.h"

#ifdef __CUDACC__
#define HJG_CHECKSUM_FN static __forceinline__ __host__ __device__
#else
#define HJG_CHECKSUM_FN static inline
#endif

/* Permute words: a changed word always changes the sum of permuted words. */
HJG_CHECKSUM_FN hjg_u64
hjg_checksum_word(hjg_u64 word)
{
	hjg_u64		x = word + 0x9E3779B97F4A7C15ul;

	x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ul;
	return x ^ (x >> 29);
}

HJG_CHECKSUM_FN hjg_u64
hjg_checksum_pair(hjg_u32 probe_row, hjg_u32 build_row)
{
	return hjg_checksum_word((hjg_u64) probe_row << 32 | build_row);
}

/*
 * Number the first place of a side's columns on a page.  Columns are summed as words times odd numbers,
 * which count places: modulo 2^64 no other word at a place, and no exchange of two words, has the same
 * sum.
 */
HJG_CHECKSUM_FN hjg_u32
hjg_checksum_place(hjg_u32 page_ix, HjgSideId side)
{
	return (page_ix * HJG_SIDES + (hjg_u32) side) * (HJG_SLAB_BYTES / HJG_PAYLOAD_UNIT);
}

HJG_CHECKSUM_FN hjg_u64
hjg_checksum_at(hjg_u32 place, hjg_u32 word)
{
	return (hjg_u64) word * (2 * place + 1);
}

#endif							/* HJG_CHECKSUM_H */
