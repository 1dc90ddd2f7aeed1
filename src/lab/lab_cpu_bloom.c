/*
 * lab_cpu_bloom.c
 *	  Benchmark of the Bloom filter: the cost of adding a key and of testing a row on one thread, and
 *	  the rows without a partner that pass.
 */
#include <stdlib.h>

#include "engine/hjg_engine_bloom.h"
#include "engine/hjg_engine_internal.h"
#include "lab/hjg_lab.h"

#define TEST_ROWS 256			/* about a heap page */
#define TESTED 4000000

static int
run_bloom_size(FILE *out, int width, hjg_u64 nkeys)
{
	const size_t bytes = hjg_bloom_bytes(nkeys);
	const hjg_u64 nrows = nkeys + TESTED;	/* the first nkeys rows have the keys */
	void	   *memory = aligned_alloc(64, hjg_align64(bytes));
	hjg_u8	   *keys = malloc(nrows * (size_t) width);
	hjg_u64		members = 0;
	hjg_u64		others = 0;
	hjg_u64		started;
	hjg_u64		added;
	hjg_u64		tested;
	HjgBloom	bloom;

	if (memory == NULL || keys == NULL)
	{
		free(memory);
		free(keys);
		return 2;
	}
	for (hjg_u64 i = 0; i < nrows; i++)
	{
		/* a permutation for each width: unique keys in random order */
		const hjg_u64 words[2] = {width == 4 ? hjg_unmix32(HJG_HASH_NO_SEED, (hjg_u32) i * 0x9e3779b1u) : hjg_mix64(HJG_HASH_NO_SEED, i), i};

		memcpy(keys + i * (hjg_u64) width, words, (size_t) width);
	}
	hjg_bloom_init(&bloom, width, memory, bytes);
	started = hjg_now_ns();
	hjg_bloom_add(&bloom, keys, (hjg_u32) nkeys);
	added = hjg_now_ns();
	for (hjg_u64 i = 0; i < nkeys; i += TEST_ROWS)
	{
		hjg_u16		rows[TEST_ROWS + HJG_BLOOM_ROWS_PAD];
		const hjg_u32 n = nkeys - i < TEST_ROWS ? (hjg_u32) (nkeys - i) : TEST_ROWS;

		members += hjg_bloom_test(&bloom, keys + i * (hjg_u64) width, n, rows);
	}
	tested = hjg_now_ns();
	for (hjg_u64 i = nkeys; i < nrows; i += TEST_ROWS)
	{
		hjg_u16		rows[TEST_ROWS + HJG_BLOOM_ROWS_PAD];
		const hjg_u32 n = nrows - i < TEST_ROWS ? (hjg_u32) (nrows - i) : TEST_ROWS;

		others += hjg_bloom_test(&bloom, keys + i * (hjg_u64) width, n, rows);
	}
	fprintf(out, "bloom %2d bytes %9llu keys %7.1f MB  add %5.2f ns  test %5.2f ns (member) %5.2f ns (other)  "
			"passing %.2f %%  %s\n",
			width, (unsigned long long) nkeys, (double) bytes / 1e6,
			(double) (added - started) / (double) nkeys, (double) (tested - added) / (double) nkeys,
			(double) (hjg_now_ns() - tested) / TESTED, 100.0 * (double) others / TESTED,
			members == nkeys ? "ok" : "WRONG");
	free(memory);
	free(keys);
	return members == nkeys ? 0 : 1;
}

int
hjg_lab_bloom_bench(FILE *out, double factor)
{
	static const hjg_u64 sizes[] = {50000, 5000000};
	static const int widths[] = {4, 8, 16};
	int			rc = 0;

	for (int w = 0; w < 3; w++)
	{
		for (int s = 0; s < 2 && rc < 2; s++)
		{
			int			size_rc = run_bloom_size(out, widths[w], (hjg_u64) ((double) sizes[s] * factor) + 1);

			rc = size_rc > rc ? size_rc : rc;
		}
	}
	return rc;
}
