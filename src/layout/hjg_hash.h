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
 * Seeds.  Keys are users', so nobody may know what their mixes will be: a mix depends on a seed that each process with tables draws
 * when it starts (the postmaster for all that it forks, the device process for itself and its devices) and that never
 * leaves it, because no table does.  The key is flipped before the first round, and the second one multiplies by a
 * secret odd factor: for any two keys the leading n bits of such products agree for at most 2 of 2^n factors
 * (Dietzfelbinger et al., "A Reliable Randomized Algorithm for the Closest-Pair Problem", 1997), and the last xor-shift keeps
 * apart what they keep apart.  Measured with 65,536 keys and 200 seeds each: keys of one bucket, of one end and of one high word by another
 * seed, dense and strided ones, ones whose differences the first round cancels or the second one meets as a lattice fall into the
 * first 8 to 16 bits as random keys do: 0.98 to 1.00 of the expected pairs in a bucket (3.05 for the worst seed), at most 11 keys in one of 65,536.
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

typedef struct HjgHashSeed
{
	hjg_u64		flip;
	hjg_u64		factor;			/* odd */
} HjgHashSeed;

/* The seed of hashes of other data than users' keys: that of benchmarks. */
#define HJG_HASH_NO_SEED ((HjgHashSeed) {0, 0xd6e8feb86659fd93})

/* The seed of this process (engine_seed.c), or of a CUDA image, which gets it when it is loaded; OpenCL kernels get it with their arguments. */
#if defined(__CUDACC__)
extern "C"
{
__constant__ HjgHashSeed hjg_hash_seed;
}
#elif !defined(__OPENCL_VERSION__)
extern HjgHashSeed hjg_hash_seed __attribute__((visibility("hidden")));
#endif

/* The first round is that of Chris Wellons' "lowbias32", a permutation of 32 bits. */
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

/* The first round is that of degski's mix, a permutation of 64 bits. */
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
 * High word of the mixed 16-byte key whose first 8 bytes are a and whose last 8
 * are b; its low word is b as it stands.  For a given b this permutes a, so the
 * pair (high, b) permutes the keys.
 */
HJG_HASH_FN hjg_u64
hjg_mix128(HjgHashSeed seed, hjg_u64 a, hjg_u64 b)
{
	return hjg_mix64(seed, a ^ hjg_mix64(seed, b + (hjg_u64) 0x9e3779b97f4a7c15));
}

/* Compute the odd number by which a product with x becomes 1 (Newton's iteration). */
HJG_HASH_FN hjg_u64
hjg_hash_inverse(hjg_u64 x)
{
	hjg_u64		inverse = x;	/* right in 3 bits */

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

/* Find the first 8 bytes of the key that hjg_mix128() takes to (high, b). */
HJG_HASH_FN hjg_u64
hjg_unmix128(HjgHashSeed seed, hjg_u64 high, hjg_u64 b)
{
	return hjg_unmix64(seed, high) ^ hjg_mix64(seed, b + (hjg_u64) 0x9e3779b97f4a7c15);
}

#endif							/* HJG_HASH_H */
