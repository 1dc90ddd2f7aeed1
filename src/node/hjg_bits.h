/*
 * hjg_bits.h
 *	  Bits by row number: rows that have a match, and rows for which the engine is asked for more candidates.
 *	  Internal to the room "node".
 */
#ifndef HJG_BITS_H
#define HJG_BITS_H

#include "postgres.h"

static inline bool
hjg_test_bit(const uint64 *bits, uint64 i)
{
	return (bits[i >> 6] >> (i & 63)) & 1;
}

static inline void
hjg_set_bit(uint64 *bits, uint64 i)
{
	bits[i >> 6] |= UINT64CONST(1) << (i & 63);
}

static inline void
hjg_clear_bit(uint64 *bits, uint64 i)
{
	bits[i >> 6] &= ~(UINT64CONST(1) << (i & 63));
}

#endif							/* HJG_BITS_H */
