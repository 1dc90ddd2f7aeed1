/*
 * hjg_hash.h
 *	  The bijective mixes by which every engine partitions and hashes join keys.
 *
 * Room "layout": the common subset of C99, OpenCL C and CUDA.
 *
 * A mix is a permutation of the key's bit patterns, so an engine may store and
 * compare mixed keys in place of the keys: equal mixes mean equal keys, and no
 * pattern is left over that could mean "empty".  All engines take partition and
 * bucket numbers from the most significant bits of the mixed key (of its high
 * word for 16-byte keys): partition p of 2^b is a prefix of the buckets of any
 * finer division, so a table that is ordered by mixed key serves every fan-out.
 *
 * The inverses exist for tests, which choose keys that collide where they want.
 */
#ifndef HJG_HASH_H
#define HJG_HASH_H

#include "hjg_layout.h"

#ifdef __CUDACC__
#define HJG_HASH_FN static __forceinline__ __host__ __device__
#else
#define HJG_HASH_FN static inline
#endif

/* Chris Wellons' "lowbias32" (exact bias 0.17), a permutation of 32 bits. */
HJG_HASH_FN hjg_u32
hjg_mix32(hjg_u32 x)
{
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	x ^= x >> 16;
	return x;
}

HJG_HASH_FN hjg_u32
hjg_unmix32(hjg_u32 x)
{
	x ^= x >> 16;
	x *= 0x43021123u;
	x ^= x >> 15 ^ x >> 30;
	x *= 0x1d69e2a5u;
	x ^= x >> 16;
	return x;
}

/* Two rounds of xor-shift and multiplication (degski's mix), a permutation of 64 bits. */
HJG_HASH_FN hjg_u64
hjg_mix64(hjg_u64 x)
{
	x ^= x >> 32;
	x *= (hjg_u64) 0xd6e8feb86659fd93;
	x ^= x >> 32;
	x *= (hjg_u64) 0xd6e8feb86659fd93;
	x ^= x >> 32;
	return x;
}

HJG_HASH_FN hjg_u64
hjg_unmix64(hjg_u64 x)
{
	x ^= x >> 32;
	x *= (hjg_u64) 0xcfee444d8b59a89b;
	x ^= x >> 32;
	x *= (hjg_u64) 0xcfee444d8b59a89b;
	x ^= x >> 32;
	return x;
}

/*
 * High word of the mixed 16-byte key whose first 8 bytes are a and whose last 8
 * are b; its low word is b as it stands.  For a given b this permutes a, so the
 * pair (high, b) permutes the keys.
 */
HJG_HASH_FN hjg_u64
hjg_mix128(hjg_u64 a, hjg_u64 b)
{
	return hjg_mix64(a ^ hjg_mix64(b + (hjg_u64) 0x9e3779b97f4a7c15));
}

/* The first 8 bytes of the key that hjg_mix128() takes to (high, b). */
HJG_HASH_FN hjg_u64
hjg_unmix128(hjg_u64 high, hjg_u64 b)
{
	return hjg_unmix64(high) ^ hjg_mix64(b + (hjg_u64) 0x9e3779b97f4a7c15);
}

#endif							/* HJG_HASH_H */
