/*
 * cuda_hostile.c
 *	  Keys with adjacent mixes, which only somebody who knows the seed can choose: the right rows in
 *	  bounded time.
 *
 * For keys that partitions, buckets and probe sequences do not distinguish, each strategy either joins as
 * many as usual or refuses; none searches step by step.
 */
#include <time.h>

#include "hjg_cuda_support.h"
#include "lab/hjg_cuda_paper.h"

#define MOST_MS 3000			/* of a join; a search step by step takes far longer */

/* Read the clock: of the wall for a real device, of the processor otherwise. */
static double
now_ms(void)
{
	struct timespec ts;

	clock_gettime(stub != NULL ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec * 1e3 + (double) ts.tv_nsec / 1e6;
}

/* Write key number i; there are 2^20 keys of 4 bytes, and 2^32 wider ones. */
static void
put_key(int width, hjg_u8 *key, hjg_u32 i)
{
	hjg_u64		words[2] = {0, i};

	if (width == 4)
		words[0] = hjg_unmix32(hjg_hash_seed, 0xABC00000u | i);
	else if (width == 8)
		words[0] = hjg_unmix64(hjg_hash_seed, 0xABCDEF0100000000u | i);
	else
		words[0] = hjg_unmix128(hjg_hash_seed, 0xABCDEF0123456789u, i);
	memcpy(key, words, (size_t) width);
}

/* Make a case with all keys on the build side, and every second one and as many others on the probe side. */
static void
create(Case *c, int width, HjgMatchMode mode, hjg_u32 n)
{
	hjg_u8	   *build = malloc((size_t) n * (size_t) width);
	hjg_u8	   *probe = malloc((size_t) n * (size_t) width);

	for (hjg_u32 i = 0; i < n; i++)
	{
		put_key(width, build + (size_t) i * (size_t) width, i);
		put_key(width, probe + (size_t) i * (size_t) width, 2 * i);
	}
	case_of_keys(c, test_seed, width, mode, build, n, probe, n);
}

void
test_hostile(void)
{
	const int	last = stub != NULL ? HJG_CUDA_RADIX2 : HJG_LAB_LAST;

	for (int w = 0; w < 3; w++)
		for (int m = 0; m < 2; m++)
		{
			const hjg_u32 most = stub != NULL ? 200000 : 8000000;
			const hjg_u32 n = widths[w] == 4 && most > 1 << 19 ? 1 << 19 : most;
			Case		c;

			create(&c, widths[w], m == 0 ? HJG_MATCH_ALL : HJG_MATCH_SEMI, n);
			for (strategy = HJG_CUDA_FIRST; strategy <= last; strategy++)
			{
				const double started = now_ms();
				Memory		memory;
				Outcome		outcome;
				double		ms;

				memory_init(&memory, NULL);
				outcome = join_case(&c, &memory.env, 1, (hjg_u32) c.nexpected + 1);
				ms = now_ms() - started;
				claim(outcome.wrong == NULL && outcome.status == HJG_OK && ms < MOST_MS,
					  "%s, %d-byte keys, %s: %u keys that lie side by side, %d declined%s", name_of(strategy), widths[w],
					  mode_names[c.mode], n, ndeclined, outcome.wrong != NULL ? outcome.wrong : "");
				printf("# %.0f ms\n", ms);
				ndeclined = 0;
			}
			case_destroy(&c);
		}
	strategy = HJG_CPU_AUTO;
}
