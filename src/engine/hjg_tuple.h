/*
 * hjg_tuple.h
 *	  Keys in the cpu engine's tables: mixed, and with their rows.
 *
 *	  mixed key	a key after a bijective mix of its bits (hjg_hash.h): only equal keys
 *				have equal mixes, and any of its bits divide keys evenly.
 *	  tuple		a mixed key and a 4-byte row number, packed without padding: key width + 4 bytes.
 *
 * The width of keys is a constant in every caller that matters.
 */
#ifndef HJG_TUPLE_H
#define HJG_TUPLE_H

#include <stdbool.h>
#include <string.h>

#include "layout/hjg_hash.h"
#include "layout/hjg_layout.h"

#define HJG_ALWAYS_INLINE static inline __attribute__((always_inline))

typedef struct HjgMixed
{
	hjg_u64		high;			/* for 4-byte keys the 32 bits of the mix */
	hjg_u64		low;			/* 16-byte keys only, otherwise 0 */
} HjgMixed;

HJG_ALWAYS_INLINE hjg_u32
hjg_load32(const void *p)
{
	hjg_u32		v;

	memcpy(&v, p, sizeof(v));
	return v;
}

HJG_ALWAYS_INLINE hjg_u64
hjg_load64(const void *p)
{
	hjg_u64		v;

	memcpy(&v, p, sizeof(v));
	return v;
}

HJG_ALWAYS_INLINE int
hjg_tuple_bytes(int width)
{
	return width + 4;
}

HJG_ALWAYS_INLINE HjgMixed
hjg_mix_key(int width, const hjg_u8 *key)
{
	HjgMixed	m = {0, 0};

	if (width == 4)
		m.high = hjg_mix32(hjg_hash_seed, hjg_load32(key));
	else if (width == 8)
		m.high = hjg_mix64(hjg_hash_seed, hjg_load64(key));
	else
	{
		m.low = hjg_load64(key + 8);
		m.high = hjg_mix128(hjg_hash_seed, hjg_load64(key), m.low);
	}
	return m;
}

HJG_ALWAYS_INLINE HjgMixed
hjg_tuple_key(int width, const hjg_u8 *tuple)
{
	HjgMixed	m = {0, 0};

	if (width == 4)
		m.high = hjg_load32(tuple);
	else
		m.high = hjg_load64(tuple);
	if (width == 16)
		m.low = hjg_load64(tuple + 8);
	return m;
}

HJG_ALWAYS_INLINE hjg_u32
hjg_tuple_row(int width, const hjg_u8 *tuple)
{
	return hjg_load32(tuple + width);
}

HJG_ALWAYS_INLINE void
hjg_tuple_store(int width, hjg_u8 *tuple, HjgMixed key, hjg_u32 row)
{
	if (width == 4)
	{
		hjg_u64		both = key.high | (hjg_u64) row << 32;

		memcpy(tuple, &both, 8);
	}
	else
	{
		memcpy(tuple, &key.high, 8);
		if (width == 16)
			memcpy(tuple + 8, &key.low, 8);
		memcpy(tuple + width, &row, 4);
	}
}

HJG_ALWAYS_INLINE bool
hjg_mixed_equal(int width, HjgMixed a, HjgMixed b)
{
	return a.high == b.high && (width != 16 || a.low == b.low);
}

HJG_ALWAYS_INLINE bool
hjg_mixed_less(int width, HjgMixed a, HjgMixed b)
{
	return a.high < b.high || (width == 16 && a.high == b.high && a.low < b.low);
}

/* Take the first bits (0 to 31) of a mixed key. */
HJG_ALWAYS_INLINE hjg_u32
hjg_mixed_prefix(int width, hjg_u64 high, int bits)
{
	if (width == 4)
		return (hjg_u32) (high >> (32 - bits));
	return (hjg_u32) (high >> 1 >> (63 - bits));
}

/*
 * Find the one of n <= 2^31 equal ranges of all keys that holds a mixed key; its prefix, if n is a power
 * of two.
 */
HJG_ALWAYS_INLINE hjg_u32
hjg_mixed_range(int width, hjg_u64 high, hjg_u32 n)
{
	return (hjg_u32) ((width == 4 ? high : high >> 32) * n >> 32);
}

#endif							/* HJG_TUPLE_H */
