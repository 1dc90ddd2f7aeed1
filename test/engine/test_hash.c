/*
 * test_hash.c
 *	  The mixes of hjg_hash.h are permutations and spread their first bits, also for keys chosen with
 *	  another seed.
 */
#include "hjg_test_engine.h"

/* Count the keys in the fullest of 4096 buckets. */
static hjg_u32
most_of(const hjg_u64 *mixed, hjg_u32 n, int shift)
{
	hjg_u32    *counts = calloc(4096, sizeof(hjg_u32));
	hjg_u32		most = 0;

	for (hjg_u32 i = 0; i < n; i++)
	{
		hjg_u32		count = ++counts[mixed[i] >> shift & 4095];

		most = count > most ? count : most;
	}
	free(counts);
	return most;
}

/* Test keys of one bucket, of one end, or of one high word by a seed that is not this process's. */
static void
test_seeds(void)
{
	enum {N = 65536};
	Random		random = {test_seed + 1};
	const HjgHashSeed other = {random_u64(&random), random_u64(&random) | 1};
	const HjgHashSeed own = hjg_hash_seed;
	hjg_u64    *mixed = malloc(N * sizeof(hjg_u64));
	hjg_u32		most[5];

	for (hjg_u32 i = 0; i < N; i++)
		mixed[i] = hjg_mix32(own, hjg_unmix32(other, 0xabc00000u + i));
	most[0] = most_of(mixed, N, 20);
	for (hjg_u32 i = 0; i < N; i++)
		mixed[i] = hjg_mix32(own, hjg_unmix32(other, 0xabcdu + (i << 16)));
	most[1] = most_of(mixed, N, 0);
	for (hjg_u32 i = 0; i < N; i++)
		mixed[i] = hjg_mix64(own, hjg_unmix64(other, 0xabcdef0100000000u + i));
	most[2] = most_of(mixed, N, 52);
	for (hjg_u32 i = 0; i < N; i++)
		mixed[i] = hjg_mix64(own, hjg_unmix64(other, 0xabcdef01u + ((hjg_u64) i << 40)));
	most[3] = most_of(mixed, N, 0);
	for (hjg_u32 i = 0; i < N; i++)
		mixed[i] = hjg_mix128(own, hjg_unmix128(other, 0xabcdef0123456789u, i), i);
	most[4] = most_of(mixed, N, 52);
	for (int i = 0; i < 5; i++)
		claim(most[i] < 64, "keys that collide by one seed do not by another (most in one of 4096: %u of 16 expected)", most[i]);
	free(mixed);
}

void
test_hash(void)
{
	Random		random = {test_seed};
	bool		inverse32 = true;
	bool		inverse64 = true;
	bool		inverse128 = true;
	hjg_u32		most = 0;
	hjg_u32    *counts = calloc(4096, sizeof(hjg_u32));

	for (int i = 0; i < 100000; i++)
	{
		hjg_u64		a = i < 3 ? (hjg_u64) i - 1 : random_u64(&random);
		hjg_u64		b = random_u64(&random);

		inverse32 = inverse32 && hjg_unmix32(hjg_hash_seed, hjg_mix32(hjg_hash_seed, (hjg_u32) a)) == (hjg_u32) a;
		inverse64 = inverse64 && hjg_unmix64(hjg_hash_seed, hjg_mix64(hjg_hash_seed, a)) == a;
		inverse128 = inverse128 && hjg_unmix128(hjg_hash_seed, hjg_mix128(hjg_hash_seed, a, b), b) == a;
	}
	claim(inverse32, "hjg_unmix32 inverts hjg_mix32");
	claim(inverse64, "hjg_unmix64 inverts hjg_mix64");
	claim(inverse128, "hjg_unmix128 inverts hjg_mix128");

	for (hjg_u32 step = 1; step; step *= 4)
	{
		memset(counts, 0, sizeof(hjg_u32) * 4096);
		for (hjg_u32 i = 0; i < 1u << 16; i++)
		{
			hjg_u32		n = ++counts[hjg_mix32(hjg_hash_seed, i * step) >> 20];

			if (step <= 1u << 16)
				most = n > most ? n : most;
		}
	}
	claim(most < 64, "arithmetic series spread over the first 12 bits of hjg_mix32 (most in one of 4096: %u of 16 expected)",
		  most);
	most = 0;
	for (int shift = 0; shift <= 48; shift += 8)
	{
		memset(counts, 0, sizeof(hjg_u32) * 4096);
		for (hjg_u64 i = 0; i < 1u << 16; i++)
		{
			hjg_u32		n = ++counts[hjg_mix64(hjg_hash_seed, i << shift) >> 52];

			most = n > most ? n : most;
		}
	}
	claim(most < 64, "arithmetic series spread over the first 12 bits of hjg_mix64 (most: %u)", most);
	free(counts);
	test_seeds();
}
