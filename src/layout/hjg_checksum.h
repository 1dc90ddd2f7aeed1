/*
 * hjg_checksum.h
 *	  Order-independent 64-bit checksum of result pairs and of words, and the checksum of a kept column's memory.
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

#ifndef __CUDACC__
#define HJG_CHECKSUM_LANES 8	/* words that are summed side by side */

/*
 * Compute the checksum of a kept column's memory, whole words: Fletcher's of words, their sum, and the sum of the sums so far,
 * which knows their order.
 */
HJG_CHECKSUM_FN hjg_u64
hjg_checksum_column(const void *memory, hjg_u64 nbytes)
{
	const hjg_u64 *words = (const hjg_u64 *) memory;
	const hjg_u64 nwords = nbytes / sizeof(hjg_u64);
	hjg_u64		sums[HJG_CHECKSUM_LANES] = {0};
	hjg_u64		sums_of_sums[HJG_CHECKSUM_LANES] = {0};
	hjg_u64		result = nwords;
	hjg_u64		i = 0;

	for (; i + HJG_CHECKSUM_LANES <= nwords; i += HJG_CHECKSUM_LANES)
		for (int lane = 0; lane < HJG_CHECKSUM_LANES; lane++)
		{
			sums[lane] += words[i + lane];
			sums_of_sums[lane] += sums[lane];
		}
	for (; i < nwords; i++)
		sums[i % HJG_CHECKSUM_LANES] += words[i];
	for (int lane = 0; lane < HJG_CHECKSUM_LANES; lane++)
		result = hjg_checksum_word(result ^ sums[lane]) + hjg_checksum_word(result + sums_of_sums[lane]);
	return result;
}
#endif

#endif							/* HJG_CHECKSUM_H */
