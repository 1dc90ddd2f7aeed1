/*
 * test_bloom.c
 *	  The Bloom filter denies no key that was added, passes about as many others as
 *	  theory says, and answers the same on every instruction set.
 */
#include <math.h>

#include "engine/hjg_engine_bloom.h"
#include "hjg_test_engine.h"

#define MAX_WIDTH 16
#define TEST_ROWS 1000

/* Write key number n: small integers, or spread over the domain. */
static void
put_key(int width, hjg_u8 *key, hjg_u64 n, bool spread)
{
	hjg_u64		words[2] = {spread ? n * 0x9e3779b97f4a7c15u : n, spread ? hjg_mix64(HJG_HASH_NO_SEED, n) : 7};

	/* an odd factor permutes 32 bits too, so that numbers below 2^32 stay different */
	if (width == 4 && spread)
		words[0] = (hjg_u32) n * 0x9e3779b1u;
	memcpy(key, words, (size_t) width);
}

/*
 * Compute the probability that a key that was not added passes, with nkeys keys in nwords words: a word
 * has a Poisson-distributed number of keys.
 */
static double
theory(double nkeys, double nwords)
{
	double		load = nkeys / nwords;
	double		p = exp(-load);
	double		sum = 0;

	for (int i = 0; i < 400; i++)
	{
		sum += p * pow(1 - pow(1 - 1.0 / 64, 4 * i), 4);
		p *= load / (i + 1);
	}
	return sum;
}

/* Count the rows of [begin, end) that pass, in batches; *odd when the answers contradict each other. */
static hjg_u64
count_passing(const HjgBloom *bloom, hjg_u64 begin, hjg_u64 end, bool spread, bool *odd)
{
	hjg_u8		keys[TEST_ROWS * MAX_WIDTH];
	hjg_u16		rows[TEST_ROWS + HJG_BLOOM_ROWS_PAD];
	hjg_u64		npass = 0;

	while (begin < end)
	{
		hjg_u32		n = end - begin < TEST_ROWS ? (hjg_u32) (end - begin) : TEST_ROWS - (hjg_u32) (begin % 9);
		hjg_u32		got;
		hjg_u32		at = 0;

		for (hjg_u32 i = 0; i < n; i++)
			put_key(bloom->key_width, keys + (size_t) i * (size_t) bloom->key_width, begin + i, spread);
		got = hjg_bloom_test(bloom, keys, n, rows);
		for (hjg_u32 i = 0; i < n; i++)
		{
			bool		pass = hjg_bloom_test_one(bloom, keys + (size_t) i * (size_t) bloom->key_width);

			*odd = *odd || pass != (at < got && rows[at] == i);
			at += pass;
		}
		*odd = *odd || at != got;
		npass += got;
		begin += n;
	}
	return npass;
}

static void
run_width(int width, hjg_u64 nkeys, bool spread, double fill)
{
	const hjg_u64 nothers = short_run ? 20000 : 400000;
	const size_t bytes = hjg_bloom_bytes((hjg_u64) ((double) nkeys / fill));
	void	   *memory = malloc(bytes);
	hjg_u8	   *keys = malloc(nkeys * (size_t) width + 1);
	bool		odd = false;
	HjgBloom	bloom;
	double		expected;
	double		got;

	memset(memory, 0xFF, bytes);
	hjg_bloom_init(&bloom, width, memory, bytes);
	for (hjg_u64 i = 0; i < nkeys; i++)
		put_key(width, keys + i * (hjg_u64) width, i, spread);
	hjg_bloom_add(&bloom, keys, (hjg_u32) (nkeys / 3));
	hjg_bloom_add_shared(&bloom, keys + nkeys / 3 * (hjg_u64) width, (hjg_u32) (nkeys - nkeys / 3));
	claim(count_passing(&bloom, 0, nkeys, spread, &odd) == nkeys && !odd,
		  "Bloom filter, %d-byte keys, %llu %s keys, %.1f times as many as meant: all of them pass", width,
		  (unsigned long long) nkeys, spread ? "spread" : "dense", fill);

	expected = theory((double) nkeys, bloom.nwords);
	got = (double) count_passing(&bloom, nkeys, nkeys + nothers, spread, &odd) / (double) nothers;
	/* six standard deviations and a quarter: mixes are not ideal */
	claim(!odd && got <= expected * 1.25 + 6 * sqrt(expected / (double) nothers) + 1e-4,
		  "others pass at %.3f %%, in theory %.3f %%", 100 * got, 100 * expected);
	free(keys);
	free(memory);
}

void
test_bloom(void)
{
	static const int widths[] = {4, 8, 16};

	for (int isa = HJG_ISA_BASE; isa <= (int) hjg_engine_isa(); isa++)
	{
		hjg_engine_tuning.isa_limit = (HjgIsa) isa;
		for (int w = 0; w < 3; w++)
		{
			for (int spread = 0; spread < 2; spread++)
			{
				run_width(widths[w], 1, spread, 1);
				run_width(widths[w], short_run ? 3000 : 100000, spread, 1);
				run_width(widths[w], short_run ? 3000 : 30000, spread, 5);
			}
		}
		hjg_engine_tuning.isa_limit = HJG_ISA_AVX512;
	}
}
