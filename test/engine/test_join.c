/*
 * test_join.c
 *	  Results equal the reference's for all widths, modes, strategies, numbers of threads, instruction
 *	  sets and shapes of keys.
 */
#include "hjg_test_engine.h"

static const char *const mode_names[] = {"all", "left", "semi", "anti"};
static const char *const strategy_names[] = {"auto", "nop"};
static const int widths[] = {4, 8, 16};

/* Run all modes, strategies and pools for one width and shape, with result pages of all kinds. */
static void
run_shape(int width, KeyShape shape, HjgPool *const *pools, int npools, hjg_u32 nbuild, hjg_u32 nprobe,
		  const char *note)
{
	int			ncases = 0;
	const char *wrong = NULL;

	for (int mode = 0; mode <= HJG_MATCH_ANTI && !wrong; mode++)
	{
		Case		c;

		case_create(&c, test_seed + (hjg_u64) (shape * 16 + mode), width, mode, shape, nbuild, nprobe);
		for (int strategy = 0; strategy <= HJG_CPU_NOP && !wrong; strategy++)
		{
			for (int p = 0; p < npools && !wrong; p++)
			{
				/* all in one page; just enough; a third in odd pages */
				const hjg_u32 sizes[] = {(hjg_u32) c.nexpected + 5000, c.nexpected ? (hjg_u32) c.nexpected : 1,
				(hjg_u32) (c.nexpected / 21) + 1};

				for (int s = 0; s < 3 && !wrong; s++)
				{
					Memory		memory;

					wrong = run_case(&c, pools[p], strategy, s == 2 ? 7 : 1, sizes[s], &memory);
					ncases++;
					if (wrong)
						printf("# %s: mode %s, strategy %s, %d threads, capacity %u\n", wrong, mode_names[mode],
							   strategy_names[strategy], hjg_pool_nthreads(pools[p]), sizes[s]);
				}
			}
		}
		case_destroy(&c);
	}
	claim(wrong == NULL, "%d-byte keys, %s, %u x %u rows%s: %d runs equal the reference", width,
		  key_shape_names[shape], nbuild, nprobe, note, ncases);
}

static void
run_sizes(HjgPool *const *pools, int npools)
{
	static const hjg_u32 sizes[][2] = {{0, 0}, {0, 100}, {100, 0}, {1, 1}, {1, 1000}, {1000, 1}, {2, 3}, {63, 65}, {4096, 4097}};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		for (int w = 0; w < 3; w++)
			run_shape(widths[w], KEYS_UNIFORM, pools, npools, sizes[i][0], sizes[i][1], "");
	}
}

/* Run sizes at which the default tuning partitions and uses all threads. */
static void
run_large(HjgPool *const *pools, int npools)
{
	for (int w = 0; w < 3; w++)
	{
		run_shape(widths[w], KEYS_UNIFORM, pools, npools, 100000, 150000, ", default tuning");
		run_shape(widths[w], KEYS_DISJOINT, pools, npools, 100000, 150000, ", default tuning");
	}
}

void
test_join(void)
{
	HjgPool    *pools[4] = {NULL, hjg_pool_create(1), hjg_pool_create(2), hjg_pool_create(4)};
	HjgPool    *some_pools[2] = {NULL, pools[3]};

	run_sizes(pools, 4);
	for (int isa = short_run ? HJG_ISA_AVX512 : HJG_ISA_BASE; isa <= HJG_ISA_AVX512; isa++)
	{
		static const char *const notes[] = {", baseline instructions", ", AVX2", ", AVX-512"};
		static const char *const cached_notes[] = {", baseline instructions, in the cache", ", AVX2, in the cache", ", AVX-512, in the cache"};

		if (isa > (int) hjg_engine_isa() && !short_run)
			continue;
		tune_small();
		hjg_engine_tuning.isa_limit = (HjgIsa) isa;
		for (int w = 0; w < 3; w++)
		{
			for (int shape = 0; shape < KEYS_NSHAPES; shape++)
			{
				hjg_u32		n = shape == KEYS_ONE_HOT_BOTH || shape == KEYS_COLLIDING_HOT ? 300 : short_run ? 300 : 1000;

				run_shape(widths[w], shape, short_run ? some_pools : pools, short_run ? 2 : 4, n, n + n / 3, notes[isa]);
				if (!short_run && n > 300)
					run_shape(widths[w], shape, some_pools, 2, 4000, 2000, notes[isa]);
			}
		}
		hjg_engine_tuning.l2_bytes = 1 << 20;
		for (int w = 0; w < 3; w++)
			for (int shape = 0; shape < KEYS_NSHAPES; shape++)
				run_shape(widths[w], shape, some_pools, 2, 300, 400, cached_notes[isa]);
		tune_default();
	}
	if (!short_run)
		run_large(some_pools, 2);
	for (int i = 1; i < 4; i++)
		hjg_pool_destroy(pools[i]);
}
