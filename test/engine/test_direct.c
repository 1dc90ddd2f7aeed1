/*
 * test_direct.c
 *	  Tables that are an array by key: used for dense keys and for no others, and equal to the reference
 *	  for any range of keys and any repetition.
 */
#include "hjg_test_engine.h"

#include "model/hjg_model.h"

/* The range of a case's keys, as signed numbers. */
typedef enum Place
{
	AT_ONE,
	AROUND_ZERO,
	AT_LEAST,					/* from the least number on */
	AT_GREATEST,				/* up to the greatest */
	OVER_GREATEST,				/* from below the greatest number to above the least: not neighbours */
	ANYWHERE,
	NPLACES
} Place;

static void
put_number(int width, hjg_u8 *keys, hjg_u32 row, hjg_u64 number)
{
	memcpy(keys + (size_t) row * (size_t) width, &number, (size_t) width);
}

static hjg_u64
first_number(int width, Place place, hjg_u32 range, Random *random)
{
	const hjg_u64 least = (hjg_u64) -1 << (8 * width - 1);

	switch (place)
	{
		case AT_ONE:
			return 1;
		case AROUND_ZERO:
			return (hjg_u64) 0 - range / 2;
		case AT_LEAST:
			return least;
		case AT_GREATEST:
			return least - range;
		case OVER_GREATEST:
			return least - range / 2;
		default:
			return least / 2 + random_u64(random) % ((hjg_u64) 1 << (8 * width - 2));
	}
}

static void
swap(hjg_u32 *numbers, hjg_u32 i, hjg_u32 j)
{
	const hjg_u32 number = numbers[i];

	numbers[i] = numbers[j];
	numbers[j] = number;
}

/* Choose n > 2 different numbers below range in random order, the least and the greatest of them first. */
static hjg_u32 *
choose(hjg_u32 n, hjg_u32 range, Random *random)
{
	hjg_u32    *numbers = malloc(sizeof(hjg_u32) * range);

	for (hjg_u32 i = 0; i < range; i++)
		numbers[i] = i;
	swap(numbers, 1, range - 1);
	for (hjg_u32 i = 2; i < n; i++)
		swap(numbers, i, i + random_below(random, range - i));
	return numbers;
}

/* Check the kind of the table, and its pairs. */
static const char *
check_case(const Case *c, HjgPool *pool, bool direct)
{
	const HjgJoinSpec spec = {.key_width = c->width, .mode = c->mode};
	const hjg_u32 sizes[] = {(hjg_u32) c->nexpected + 5000, (hjg_u32) c->nexpected / 21 + 1};
	const char *wrong = NULL;
	HjgJobStats stats;
	HjgJoin    *join;
	Memory		memory;

	for (int s = 0; s < 2 && wrong == NULL; s++)
		wrong = run_case(c, pool, HJG_CPU_AUTO, s == 0 ? 1 : 7, sizes[s], &memory);
	if (wrong == NULL)
		wrong = run_case(c, pool, HJG_CPU_NOP, 1, sizes[0], &memory);
	if (wrong != NULL)
		return wrong;
	memory_init(&memory, pool);
	if (hjg_join_build(&memory.env, &spec, c->build.segments, c->build.nsegments, &join) != HJG_OK)
		return "build failed";
	hjg_join_stats(join, &stats);
	hjg_join_free(join);
	return (stats.strategy == HJG_CPU_DIRECT) == direct ? NULL : direct ? "no array" : "an array";
}

/* The repetition of keys. */
typedef enum Repeats
{
	ONCE,
	ONE_TWICE,
	SOME,						/* at random */
	ONE_OFTEN,					/* a third of the rows has one key */
	NREPEATS
} Repeats;

/* Run n build rows with keys among range numbers, including the least and the greatest. */
static const char *
run_dense(hjg_u64 seed, HjgPool *pool, int width, HjgMatchMode mode, Place place, hjg_u32 n, hjg_u32 range, Repeats repeats,
		  bool direct)
{
	Random		random = {seed};
	const hjg_u64 first = first_number(width, place, range, &random);
	const hjg_u32 nprobe = n + n / 3 + 100;
	hjg_u8	   *build = malloc((size_t) n * (size_t) width + 1);
	hjg_u8	   *probe = malloc((size_t) nprobe * (size_t) width);
	hjg_u32    *numbers = choose(n < range ? n : range, range, &random);
	const char *wrong;
	Case		c;

	for (hjg_u32 i = 0; i < n; i++)
		put_number(width, build, i, first + numbers[i % range]);
	if (repeats == ONE_TWICE)
		put_number(width, build, 2 + random_below(&random, n - 2), first + numbers[random_below(&random, 2)]);
	for (hjg_u32 i = 2; repeats >= SOME && i < n; i++)
		put_number(width, build, i, first + (repeats == ONE_OFTEN && i % 3 == 0 ? range / 3 : random_below(&random, range)));
	for (hjg_u32 i = 0; i < nprobe; i++)
		put_number(width, probe, i, first - range / 4 + random_below(&random, range + range / 2 + 2));
	/* numbers that must not be truncated to a place */
	for (hjg_u32 i = 0; width == 8 && i < nprobe; i += 17)
		put_number(width, probe, i, first + numbers[i % (n < range ? n : range)] + ((hjg_u64) 1 << (32 + i % 32)));
	free(numbers);

	case_of_keys(&c, seed, width, mode, build, n, probe, nprobe);
	wrong = check_case(&c, pool, direct);
	case_destroy(&c);
	return wrong;
}

/* Test random cases. */
static void
random_cases(HjgPool *const *pools, int npools, int nseeds)
{
	const char *wrong = NULL;
	int			seed;

	for (seed = 0; seed < nseeds && wrong == NULL; seed++)
	{
		Random		random = {test_seed + (hjg_u64) seed};
		const int	width = random_below(&random, 2) ? 4 : 8;
		const HjgMatchMode mode = (HjgMatchMode) random_below(&random, 4);
		const Place place = (Place) random_below(&random, NPLACES);
		const bool	large = !short_run && seed % 16 == 15;
		const hjg_u32 n = 3 + random_below(&random, large ? 200000 : 3000);
		const Repeats repeats = (Repeats) random_below(&random, NREPEATS);
		const hjg_u32 range = repeats >= SOME && random_below(&random, 2) ? 3 + n / 16 + random_below(&random, n)
			: n + random_below(&random, 4 * n);
		const hjg_u32 most = repeats == ONCE ? 4 * n : 2 * n;

		wrong = run_dense(test_seed + (hjg_u64) seed, pools[random_below(&random, (hjg_u32) npools)], width, mode, place, n,
						  range, repeats, place != OVER_GREATEST && (range <= most || range <= 4096));
		if (wrong != NULL)
			printf("# seed %llu: %d-byte keys, mode %d, place %d, %u rows, %u numbers, repeats %d\n",
				   (unsigned long long) test_seed + (hjg_u64) seed, width, mode, place, n, range, repeats);
	}
	claim(wrong == NULL, "%d random cases of keys within a range: equal the reference, arrays where the keys are dense%s%s",
		  seed, wrong ? ": " : "", wrong ? wrong : "");
}

/* Test the most places that a row may take, and one more. */
static void
limits(HjgPool *const *pools, int npools)
{
	static const struct
	{
		Repeats		repeats;
		hjg_u32		n;
		hjg_u32		range;
		bool		direct;
	}			all[] = {
		{ONCE, 2000, 8000, true}, {ONCE, 2000, 8001, false}, {ONCE, 10, 4096, true}, {ONCE, 10, 4097, false},
		{ONE_TWICE, 3000, 6000, true}, {ONE_TWICE, 3000, 6001, false}, {ONE_TWICE, 10, 4096, true}, {ONE_TWICE, 10, 4097, false},
	};

	for (int p = 0; p < npools; p++)
		for (int width = 4; width <= 8; width += 4)
		{
			const char *wrong = NULL;

			for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && wrong == NULL; i++)
				wrong = run_dense(test_seed, pools[p], width, i % 2 ? HJG_MATCH_LEFT : HJG_MATCH_ALL, AROUND_ZERO, all[i].n,
								  all[i].range, all[i].repeats, all[i].direct);
			claim(wrong == NULL, "%d threads, %d-byte keys: an array has at most four places a row, two where keys are repeated, or 4096%s%s",
				  hjg_pool_nthreads(pools[p]), width, wrong ? ": " : "", wrong ? wrong : "");
		}
}

/* Test that the memory bound is that of the larger table, since it is needed before keys are known. */
static void
memory_of_arrays(void)
{
	bool		no_more = true;

	for (hjg_u64 n = 100000; n <= 10000000; n *= 10)
	{
		const int	nslots = hjg_nslots_of(HJG_MAX_SLOTS, n);

		no_more = no_more && hjg_direct_build_bytes(n, nslots) <= hjg_table_build_bytes(4, n, nslots);
	}
	claim(no_more, "arrays by key are built in no more memory than tables of buckets");
}

/* Test that the planner expects the memory for which the executor asks. */
static void
memory_of_keys(void)
{
	bool		near = true;

	for (int width = 4; width <= 16; width *= 2)
	{
		for (hjg_u64 n = 100000; n <= 10000000; n *= 10)
		{
			const double bytes = width + (double) hjg_join_workspace_bytes(width, 1, n, 0) / (double) n;

			near = near && hjg_model_key_bytes(width) < 1.1 * bytes && bytes < 1.2 * hjg_model_key_bytes(width);
		}
	}
	claim(near, "the planner's memory for a row is that of tables");
}

void
test_direct(void)
{
	HjgPool    *pools[3] = {NULL, hjg_pool_create(2), hjg_pool_create(4)};

	memory_of_arrays();
	memory_of_keys();
	limits(pools, 3);
	random_cases(pools, 3, short_run ? 12 : 64);
	tune_small();
	random_cases(pools, 3, short_run ? 24 : 128);
	tune_default();
	for (int i = 1; i < 3; i++)
		hjg_pool_destroy(pools[i]);
}
