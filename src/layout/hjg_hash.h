/*
 * hjg_hash.h
 *	  The bijective mixes with which all engines partition and hash join keys.
 *
 * Room "layout": the common subset of C99, OpenCL C and CUDA.
 *
 * A mix is a permutation of the key's bit patterns, so an engine may store and compare mixed keys instead
 * of keys: equal mixes mean equal keys, and no bit pattern is free to mean "empty".  All engines take
 * partition and bucket numbers from the most significant bits of the mixed key (of its high word for
 * 16-byte keys): a partition of 2^b is a range of the buckets of any finer division, so a table ordered by
 * mixed key serves every fan-out.
 *
 * Seeds.  Users choose the keys, so they must not be able to predict mixes: a mix depends on a secret
 * seed.  Each process that creates tables draws a seed at its start (the postmaster for its children, the
 * device process for itself and its devices).  The seed never leaves the process, since tables do not.
 * The key is flipped before the first round, and the second round multiplies by a secret odd factor: for
 * any two keys the leading n bits of such products agree for at most 2 of 2^n factors (Dietzfelbinger et
 * al., "A Reliable Randomized Algorithm for the Closest-Pair Problem", 1997), and the last xor-shift
 * preserves such differences.
 *
 * Measured with 65,536 keys and 200 seeds each: the keys were dense, strided, of one bucket, of one end or
 * of one high word under another seed, had differences that the first round cancels, or formed a lattice
 * for the second round.  The first 8 to 16 bits of their mixes are distributed like those of random keys:
 * 0.98 to 1.00 of the expected pairs in a bucket (3.05 for the worst seed), at most 11 keys in one of
 * 65,536 buckets.
 *
 * The inverses are for tests, which construct colliding keys.
 */
#ifndef HJG_HASH_H
#define HJG_HASH_H

#include "hjg_layout.h"

#ifdef __CUDACC__
#define HJG_HASH_FN static __forceinline__ __host__ __device__
#else
#define HJG_HASH_FN static inline
#endif

typedef struct HjgHashSeed
{
	hjg_u64		flip;
	hjg_u64		factor;			/* odd */
} HjgHashSeed;

/* The seed for other data than users' keys, in benchmarks. */
#define HJG_HASH_NO_SEED ((HjgHashSeed) {0, 0xd6e8feb86659fd93})

/*
 * The seed of this process (engine_seed.c), or of a CUDA image, which receives it when it is loaded;
 * OpenCL kernels receive it as an argument.
 */
#if defined(__CUDACC__)
extern "C"
{
__constant__ HjgHashSeed hjg_hash_seed;
}
#elif !defined(__OPENCL_VERSION__)
extern HjgHashSeed hjg_hash_seed __attribute__((visibility("hidden")));
#endif

/* Mix a 4-byte key.  The first round is that of Chris Wellons' "lowbias32", a permutation of 32 bits. */
HJG_HASH_FN hjg_u32
hjg_mix32(HjgHashSeed seed, hjg_u32 x)
{
	x ^= (hjg_u32) seed.flip;
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= (hjg_u32) seed.factor;
	x ^= x >> 16;
	return x;
}

/* Mix an 8-byte key.  The first round is that of degski's mix, a permutation of 64 bits. */
HJG_HASH_FN hjg_u64
hjg_mix64(HjgHashSeed seed, hjg_u64 x)
{
	x ^= seed.flip;
	x ^= x >> 32;
	x *= (hjg_u64) 0xd6e8feb86659fd93;
	x ^= x >> 32;
	x *= seed.factor;
	x ^= x >> 32;
	return x;
}

/*
 * Compute the high word of the mixed 16-byte key whose first 8 bytes are a and whose last 8 bytes are b;
 * its low word is b itself.  For a given b this permutes a, so the pair (high, b) permutes the keys.
 */
HJG_HASH_FN hjg_u64
hjg_mix128(HjgHashSeed seed, hjg_u64 a, hjg_u64 b)
{
	return hjg_mix64(seed, a ^ hjg_mix64(seed, b + (hjg_u64) 0x9e3779b97f4a7c15));
}

/* Compute the inverse of an odd x modulo 2^64 (Newton's iteration). */
HJG_HASH_FN hjg_u64
hjg_hash_inverse(hjg_u64 x)
{
	hjg_u64		inverse = x;	/* correct in 3 bits */

	for (int bits = 3; bits < 64; bits *= 2)
		inverse *= 2 - x * inverse;
	return inverse;
}

HJG_HASH_FN hjg_u32
hjg_unmix32(HjgHashSeed seed, hjg_u32 x)
{
	x ^= x >> 16;
	x *= (hjg_u32) hjg_hash_inverse(seed.factor);
	x ^= x >> 15 ^ x >> 30;
	x *= 0x1d69e2a5u;
	x ^= x >> 16;
	return x ^ (hjg_u32) seed.flip;
}

HJG_HASH_FN hjg_u64
hjg_unmix64(HjgHashSeed seed, hjg_u64 x)
{
	x ^= x >> 32;
	x *= hjg_hash_inverse(seed.factor);
	x ^= x >> 32;
	x *= (hjg_u64) 0xcfee444d8b59a89b;
	x ^= x >> 32;
	return x ^ seed.flip;
}

/* Invert hjg_mix128(): return the first 8 bytes of the key whose mix is (high, b). */
HJG_HASH_FN hjg_u64
hjg_unmix128(HjgHashSeed seed, hjg_u64 high, hjg_u64 b)
{
	return hjg_unmix64(seed, high) ^ hjg_mix64(seed, b + (hjg_u64) 0x9e3779b97f4a7c15);
}

#endif							/* HJG_HASH_H */
