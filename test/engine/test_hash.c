/*
 * test_hash.c
 *	  The mixes of hjg_hash.h are permutations and spread their first bits.
 */
#include "hjg_test_engine.h"

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

		inverse32 = inverse32 && hjg_unmix32(hjg_mix32((hjg_u32) a)) == (hjg_u32) a;
		inverse64 = inverse64 && hjg_unmix64(hjg_mix64(a)) == a;
		inverse128 = inverse128 && hjg_unmix128(hjg_mix128(a, b), b) == a;
	}
	claim(inverse32, "hjg_unmix32 inverts hjg_mix32");
	claim(inverse64, "hjg_unmix64 inverts hjg_mix64");
	claim(inverse128, "hjg_unmix128 inverts hjg_mix128");

	for (hjg_u32 step = 1; step; step *= 4)
	{
		memset(counts, 0, sizeof(hjg_u32) * 4096);
		for (hjg_u32 i = 0; i < 1u << 16; i++)
		{
			hjg_u32		n = ++counts[hjg_mix32(i * step) >> 20];

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
			hjg_u32		n = ++counts[hjg_mix64(i << shift) >> 52];

			most = n > most ? n : most;
		}
	}
	claim(most < 64, "arithmetic series spread over the first 12 bits of hjg_mix64 (most: %u)", most);
	free(counts);
}
