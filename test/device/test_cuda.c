/*
 * test_cuda.c
 *	  The driver "cuda": results of every strategy equal the reference's, every call of the
 *	  driver API may fail, memory is admitted and given back, failing devices rest.
 *
 * Runs on a real device where there is one, and on the stub (stub_libcuda.c) when that is
 * first in LD_LIBRARY_PATH; faults are for the stub only.  --short does less, --time measures;
 * HJG_TEST_SEED in the environment draws other keys.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "device/hjg_cuda_join.h"
#include "device/hjg_cuda_paper.h"
#include "hjg_fault_loop.h"
#include "hjg_test_engine.h"

/* Room for some thousand build rows. */
#define SMALL_BUDGET ((size_t) 13 * 64 * 1024)

static HjgStub *stub;
static const HjgDriver *const driver = &hjg_cuda_driver;
static const char *const mode_names[] = {"all", "left", "semi", "anti"};
static const int widths[] = {4, 8, 16};

#define POISON 0xC5				/* no pair of a result may stay so */

static int
compare_probe_rows(const void *a, const void *b)
{
	const hjg_u32 x = ((const HjgPair *) a)->probe_row;
	const hjg_u32 y = ((const HjgPair *) b)->probe_row;

	return x < y ? -1 : x > y;
}

/* ---- one join ---- */

typedef struct Outcome
{
	const char *wrong;			/* NULL: what came is right */
	HjgStatus	status;			/* of the call that ended the join */
} Outcome;

/* What joins are asked for, and how many were joined by another strategy. */
static int	strategy = HJG_CPU_AUTO;
static int	ndeclined;
static hjg_u32 nturns;			/* of the last join's build side */

static Outcome
join_case(const Case *c, const HjgEnv *env, int npages, hjg_u32 page_pairs)
{
	const HjgJoinSpec spec = {.key_width = c->width, .mode = c->mode, .strategy = (HjgCpuStrategy) strategy};
	Outcome		outcome = {0};
	HjgCursor	cursor = {0, 0, 0};
	hjg_u64		total = 0;
	HjgJobStats stats;
	Pages		pages;
	void	   *join;

	outcome.status = driver->build(0, env, &spec, c->build.segments, c->build.nsegments, &join);
	if (stub != NULL && stub->in_flight != 0)
		outcome.wrong = "building leaves work in flight";
	if (outcome.status != HJG_OK)
		return outcome;
	pages_create(&pages, npages, page_pairs);
	do
	{
		HjgCursor	from = cursor;

		for (int i = 0; i < npages; i++)
			memset(pages.result.pages[i], POISON, page_pairs * sizeof(HjgPair));
		outcome.status = driver->probe(join, c->probe.segments, c->probe.nsegments, &cursor, &pages.result);
		if (stub != NULL && stub->in_flight != 0)
			outcome.wrong = "probing leaves work in flight";
		if (outcome.status != HJG_OK)
		{
			if (cursor.row != from.row || cursor.skip != from.skip)
				outcome.wrong = "the cursor moves in spite of an error";
			break;
		}
		if (!check_round(c, &from, &cursor, &pages.result))
			outcome.wrong = "wrong round";
		else if (cursor.row < c->probe.nrows && cursor.row == from.row && cursor.skip == from.skip)
			outcome.wrong = "no progress";
		total += pages.result.npairs;
	} while (outcome.wrong == NULL && cursor.row < c->probe.nrows);
	if (outcome.wrong == NULL && outcome.status == HJG_OK && total != c->nexpected)
		outcome.wrong = "wrong number of pairs";
	driver->stats(join, &stats);
	if (outcome.wrong == NULL && outcome.status == HJG_OK && c->build.nrows > 0 && stats.workspace_bytes == 0)
		outcome.wrong = "no memory in the statistics";
	if (outcome.wrong == NULL && outcome.status == HJG_OK && hjg_cuda_strategy_name((int) stats.strategy) == NULL)
		outcome.wrong = "no strategy in the statistics";
	if (outcome.wrong == NULL && outcome.status == HJG_OK &&
		stats.declined != (strategy != HJG_CPU_AUTO && strategy != (int) stats.strategy))
		outcome.wrong = "a strategy was declined in secret";
	ndeclined += stats.declined != 0;
	nturns = stats.npartitions;
	pages_destroy(&pages);
	driver->free(join);
	return outcome;
}

static void
run_shape(int width, KeyShape shape, hjg_u32 nbuild, hjg_u32 nprobe)
{
	int			ncases = 0;
	Outcome		outcome = {0};

	for (int mode = 0; mode <= HJG_MATCH_ANTI && outcome.wrong == NULL && outcome.status == HJG_OK; mode++)
	{
		Case		c;

		case_create(&c, test_seed + (hjg_u64) (shape * 16 + mode), width, mode, shape, nbuild, nprobe);
		{
			/* all in one page; just enough; a third in odd pages */
			const hjg_u32 sizes[] = {(hjg_u32) c.nexpected + nprobe + 1, c.nexpected ? (hjg_u32) c.nexpected : 1,
			(hjg_u32) (c.nexpected / 21) + 1};

			for (int s = 0; s < 3 && outcome.wrong == NULL && outcome.status == HJG_OK; s++)
			{
				Memory		memory;

				memory_init(&memory, NULL);
				outcome = join_case(&c, &memory.env, s == 2 ? 7 : 1, sizes[s]);
				ncases++;
				if (outcome.wrong != NULL || outcome.status != HJG_OK)
					printf("# %s, %s: mode %s, capacity %u\n", outcome.wrong ? outcome.wrong : "failed",
						   hjg_status_text(outcome.status), mode_names[mode], sizes[s]);
			}
		}
		case_destroy(&c);
	}
	claim(outcome.wrong == NULL && outcome.status == HJG_OK,
		  "%s, %d-byte keys, %s, %u x %u rows: %d runs equal the reference, %d declined", hjg_strategy_name(strategy), width,
		  key_shape_names[shape], nbuild, nprobe, ncases, ndeclined);
	ndeclined = 0;
}

/* Is it there for comparison only? */
static bool
is_of_literature(void)
{
	return strategy >= HJG_CUDA_NOP_CHAIN && strategy <= HJG_CUDA_UMJ_PF;
}

/* On the emulated device the kernels of the literature are not tested, but their host code: some shapes do. */
static bool
is_worth(KeyShape shape)
{
	return stub == NULL || !is_of_literature() || shape == KEYS_UNIFORM || shape == KEYS_DUPLICATES ||
		shape == KEYS_ONE_HOT_BUILD || shape == KEYS_COLLIDING_HOT || shape == KEYS_UNIQUE;
}

static void
test_results(void)
{
	static const hjg_u32 sizes[][2] = {{0, 0}, {0, 100}, {100, 0}, {1, 1}, {1, 1000}, {1000, 1}, {2, 3}, {255, 257}, {4096, 4097}};
	const HjgCudaTuning normal = hjg_cuda_tuning;

	for (strategy = HJG_CUDA_FIRST; strategy <= HJG_CUDA_LAST; strategy++)
		for (int w = 0; w < 3; w++)
			for (int shape = 0; shape < KEYS_NSHAPES; shape++)
				if (is_worth(shape))
					run_shape(widths[w], shape, shape == KEYS_ONE_HOT_BOTH ? 200 : 1500, shape == KEYS_ONE_HOT_BOTH ? 150 : 1100);
	/* many chunks, too, and partitions of few rows, which are made in several passes */
	hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 300, .least_chunk_rows = 300};
	hjg_cuda_paper_tuning.part_rows = 1;
	for (strategy = HJG_CUDA_FIRST; strategy <= HJG_CUDA_LAST; strategy++)
		for (int w = 0; w < 3; w++)
		{
			run_shape(widths[w], KEYS_UNIFORM, 900, 1400);
			run_shape(widths[w], KEYS_DUPLICATES, 900, 1400);
			run_shape(widths[w], KEYS_UNIQUE, 6000, 700);
		}
	hjg_cuda_tuning = normal;
	hjg_cuda_paper_tuning.part_rows = 0;
	strategy = HJG_CPU_AUTO;
	for (int w = 0; w < 3; w++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			run_shape(widths[w], KEYS_UNIFORM, sizes[i][0], sizes[i][1]);
	/* many chunks and windows */
	hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 100, .least_chunk_rows = 100};
	for (int w = 0; w < 3; w++)
		for (int shape = 0; shape < KEYS_NSHAPES; shape++)
		{
			hjg_u32		n = shape == KEYS_ONE_HOT_BOTH || shape == KEYS_COLLIDING_HOT ? 300 : 1000;

			run_shape(widths[w], shape, n, n + n / 3);
			if (n > 300)
				run_shape(widths[w], shape, 5000, 2000);
		}
	hjg_cuda_tuning = normal;
	if (!short_run)
		for (int w = 0; w < 3; w++)
		{
			run_shape(widths[w], KEYS_UNIFORM, 100000, 150000);
			run_shape(widths[w], KEYS_DUPLICATES, 100000, 30000);
			run_shape(widths[w], KEYS_DISJOINT, 30000, 1200000);
		}
}

/* ---- the choice ---- */

/* What the driver chooses by sizes and keys; its name. */
static const char *
chosen(int width, HjgMatchMode mode, KeyShape shape, hjg_u32 nbuild)
{
	const HjgJoinSpec spec = {.key_width = width, .mode = mode, .probe_rows = 20000000};
	HjgJobStats stats = {0};
	Memory		memory;
	void	   *join;
	Case		c;

	case_create(&c, test_seed, width, mode, shape, nbuild, 100);
	memory_init(&memory, NULL);
	if (driver->build(0, &memory.env, &spec, c.build.segments, c.build.nsegments, &join) == HJG_OK)
	{
		driver->stats(join, &stats);
		driver->free(join);
	}
	case_destroy(&c);
	return stats.declined || hjg_cuda_strategy_name((int) stats.strategy) == NULL ? "none" :
		hjg_cuda_strategy_name((int) stats.strategy);
}

static bool
takes_repeated(const char *name)
{
	return strcmp(name, "direct") != 0 && strcmp(name, "packed") != 0 && strcmp(name, "table") != 0 && strcmp(name, "none") != 0;
}

static void
test_choice(void)
{
	claim(strcmp(chosen(4, HJG_MATCH_ALL, KEYS_DENSE, 90000), "direct") == 0, "dense keys go to an array");
	claim(strcmp(chosen(8, HJG_MATCH_LEFT, KEYS_DENSE, 90000), "direct") == 0, "those of 8 bytes, too");
	claim(strcmp(chosen(4, HJG_MATCH_ALL, KEYS_UNIQUE, 600000), "packed") == 0, "other keys of 4 bytes that occur once to packed slots");
	claim(strcmp(chosen(4, HJG_MATCH_ALL, KEYS_UNIQUE, 20000), "table") == 0, "but few of them to whole ones");
	claim(strcmp(chosen(16, HJG_MATCH_ALL, KEYS_UNIQUE, 20000), "table") == 0, "and wider ones");
	claim(strcmp(chosen(8, HJG_MATCH_SEMI, KEYS_DUPLICATES, 20000), "table") == 0, "repeated ones, too, where one match decides");
	claim(takes_repeated(chosen(8, HJG_MATCH_ALL, KEYS_DUPLICATES, 20000)), "else keys that repeat to what takes them");
	claim(takes_repeated(chosen(4, HJG_MATCH_LEFT, KEYS_ONE_HOT_BUILD, 20000)), "one key for all rows likewise");
}

/* ---- strategies that say no ---- */

/* What became of a join of few rows with less and less memory. */
typedef struct Shrinking
{
	int			nown;			/* runs that the strategy joined, ... */
	int			nothers;		/* ... others instead of it, ... */
	int			nrefused;		/* ... or none */
	const char *wrong;
} Shrinking;

static void
count_run(const Case *c, Shrinking *runs)
{
	Memory		memory;
	Outcome		outcome;

	memory_init(&memory, NULL);
	ndeclined = 0;
	outcome = join_case(c, &memory.env, 1, (hjg_u32) c->nexpected + 1);
	if (outcome.wrong != NULL)
		runs->wrong = outcome.wrong;
	else if (outcome.status == HJG_ERR_MEMORY)
		runs->nrefused++;
	else if (outcome.status != HJG_OK)
		runs->wrong = hjg_status_text(outcome.status);
	else if (ndeclined > 0)
		runs->nothers++;
	else
		runs->nown++;
	ndeclined = 0;
}

static void
count_run_within(const Case *c, size_t budget, Shrinking *runs)
{
	HjgCudaPool *normal = hjg_cuda_made(0)->pool;

	hjg_cuda_made(0)->pool = hjg_cuda_pool_create(budget);
	count_run(c, runs);
	hjg_cuda_pool_trim(hjg_cuda_made(0)->pool, 0);
	hjg_cuda_made(0)->pool = normal;
}

/* A budget, in bytes, within which the strategy does the join itself: buffers of some grow with the device's processors. */
static size_t
enough_for(const Case *c)
{
	size_t		budget = (size_t) 64 << 20;
	Shrinking	runs = {0};

	for (count_run_within(c, budget, &runs); runs.nown == 0 && budget < (size_t) 8 << 30; count_run_within(c, budget, &runs))
		budget *= 2;
	return budget;
}

/* The budget is less than what the strategy needs, then less than any join does. */
static void
test_declined(void)
{
	const HjgCudaTuning usual = hjg_cuda_tuning;
	Case		c;

	hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 1000, .least_chunk_rows = 1000};
	case_create(&c, test_seed, 8, HJG_MATCH_ALL, KEYS_UNIQUE, 4000, 1500);
	for (strategy = HJG_CUDA_NOP_CHAIN; strategy <= HJG_CUDA_UMJ_PF; strategy++)
	{
		Shrinking	runs = {0};

		for (size_t budget = enough_for(&c); budget >= (size_t) 64 << 10 && runs.wrong == NULL; budget -= budget / 8)
			count_run_within(&c, budget, &runs);
		claim(runs.wrong == NULL && runs.nown > 0 && runs.nothers > 0 && runs.nrefused > 0,
			  "%s with less and less memory: %d runs are its own, then %d another strategy's, %d are refused%s%s",
			  hjg_strategy_name(strategy), runs.nown, runs.nothers, runs.nrefused, runs.wrong != NULL ? ", " : "",
			  runs.wrong != NULL ? runs.wrong : "");
	}
	strategy = HJG_CPU_AUTO;
	case_destroy(&c);
	hjg_cuda_tuning = usual;
}

/* Managed memory is taken only as far as the device has it free, whatever the budget says; on the emulated device. */
static void
test_managed(void)
{
	const HjgCudaTuning usual = hjg_cuda_tuning;
	const size_t taken_before = stub->used_bytes;
	Case		c;

	hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 1000, .least_chunk_rows = 1000};
	case_create(&c, test_seed, 8, HJG_MATCH_ALL, KEYS_UNIQUE, 4000, 1500);
	for (strategy = HJG_CUDA_UMJ; strategy <= HJG_CUDA_UMJ_PF; strategy++)
	{
		Shrinking	runs = {0};
		const char *name = hjg_strategy_name(strategy);
		size_t		managed = stub->managed_bytes;
		const size_t prefetched = stub->prefetched_bytes;

		count_run(&c, &runs);
		claim(runs.nown == 1 && stub->managed_bytes - managed >= 4000 * 8 + 2 * 1000 * 8, "%s has its keys in managed memory", name);
		claim((stub->prefetched_bytes - prefetched >= (4000 + 1500) * 8) == (strategy == HJG_CUDA_UMJ_PF),
			  "%s asks for %zu bytes of them before", name, stub->prefetched_bytes - prefetched);
		/* another program takes the device's memory */
		for (size_t left = (size_t) 64 << 20; left >= (size_t) 64 << 10 && runs.wrong == NULL; left -= left / 16)
		{
			hjg_cuda_pool_trim(hjg_cuda_made(0)->pool, 0);
			stub->used_bytes = stub->memory_bytes - left;
			count_run(&c, &runs);
			hjg_cuda_pool_trim(hjg_cuda_made(0)->pool, 0);
			stub->used_bytes = taken_before;
		}
		claim(runs.wrong == NULL && runs.nown > 1 && runs.nothers > 0, "%s with less and less of the device free: %d runs are "
			  "its own, then %d another strategy's, %d are refused", name, runs.nown, runs.nothers, runs.nrefused);
		hjg_cuda_made(0)->managed = false;
		managed = stub->managed_bytes;
		runs = (Shrinking) {0};
		count_run(&c, &runs);
		claim(runs.nothers == 1 && stub->managed_bytes == managed, "%s is left where a device does not share its memory", name);
		hjg_cuda_made(0)->managed = true;
	}
	strategy = HJG_CPU_AUTO;
	case_destroy(&c);
	hjg_cuda_tuning = usual;
}

/* ---- slices ---- */

/* Matches of a probe row, from the last one down: [skip, skip + most) of them. */
static bool
same_slice(const Case *c, hjg_u32 row, HjgCursor slice, const HjgPair *pairs, hjg_u64 npairs)
{
	const hjg_u64 n = c->before[row + 1] - c->before[row];
	const hjg_u64 left = slice.skip < n ? n - slice.skip : 0;
	const hjg_u64 count = slice.most < left ? slice.most : left;
	bool		good = npairs == count;

	/* of a slice of one, any match will do */
	for (hjg_u64 i = 0; i < count && good; i++)
	{
		bool		found = false;

		for (hjg_u64 j = slice.most > 1 ? left - count : 0; j < (slice.most > 1 ? left : n) && !found; j++)
			found = c->expected[c->before[row] + j].build_row == pairs[i].build_row;
		good = found;
		for (hjg_u64 j = 0; j < i && good; j++)
			good = pairs[j].build_row != pairs[i].build_row;
	}
	return good;
}

/* NULL, or what is wrong with the rounds of a slice. */
static const char *
slice_case(void *join, const Case *c, HjgCursor slice, hjg_u32 capacity)
{
	HjgCursor	cursor = slice;
	const char *wrong = NULL;
	Pages		pages;

	pages_create(&pages, 1, capacity);
	while (cursor.row < c->probe.nrows && wrong == NULL)
	{
		const HjgCursor from = cursor;
		hjg_u64		at = 0;

		if (driver->probe(join, c->probe.segments, c->probe.nsegments, &cursor, &pages.result) != HJG_OK)
			wrong = "failed";
		else if (cursor.row <= from.row || cursor.most != slice.most ||
				 cursor.skip != (cursor.row < c->probe.nrows ? slice.skip : 0))
			wrong = "a bad cursor";
		if (slice.most == 1)
			qsort(pages.memory, pages.result.npairs, sizeof(HjgPair), compare_probe_rows);
		for (hjg_u32 row = from.row; row < cursor.row && wrong == NULL; row++)
		{
			const hjg_u64 begin = at;

			while (at < pages.result.npairs && pages.memory[at].probe_row == row)
				at++;
			if (!same_slice(c, row, slice, pages.memory + begin, at - begin))
				wrong = "wrong pairs";
		}
		if (wrong == NULL && at != pages.result.npairs)
			wrong = "pairs of other rows";
	}
	pages_destroy(&pages);
	return wrong;
}

static void
test_slices(void)
{
	static const HjgCursor slices[] = {{0, 1, 0}, {0, 2, 0}, {0, 3, 2}, {0, 64, 8}, {0, 5, 1000}};
	static const KeyShape shapes[] = {KEYS_UNIFORM, KEYS_DUPLICATES, KEYS_ONE_HOT_BUILD, KEYS_COLLIDING_HOT};
	const HjgCudaTuning normal = hjg_cuda_tuning;

	hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 100, .least_chunk_rows = 100};
	for (int s = HJG_CUDA_FIRST; s <= HJG_CUDA_LAST; s++)
		for (int w = 0; w < 3; w++)
		{
			const char *wrong = NULL;

			for (int i = 0; i < 4 && wrong == NULL; i++)
			{
				HjgJoinSpec spec = {.key_width = widths[w], .mode = HJG_MATCH_ALL, .strategy = (HjgCpuStrategy) s};
				Memory		memory;
				void	   *join;
				Case		c;

				case_create(&c, test_seed, widths[w], HJG_MATCH_ALL, shapes[i], 700, 450);
				memory_init(&memory, NULL);
				if (driver->build(0, &memory.env, &spec, c.build.segments, c.build.nsegments, &join) != HJG_OK)
				{
					wrong = "not built";
					break;
				}
				for (size_t k = 0; k < sizeof(slices) / sizeof(slices[0]) && wrong == NULL; k++)
				{
					wrong = slice_case(join, &c, slices[k], 64);
					if (wrong == NULL)
						wrong = slice_case(join, &c, slices[k], 100000);
					if (wrong != NULL)
						printf("# %s: %s, %u pairs a row after %llu\n", wrong, key_shape_names[shapes[i]], slices[k].most,
							   (unsigned long long) slices[k].skip);
				}
				driver->free(join);
				case_destroy(&c);
			}
			claim(wrong == NULL, "%s, %d-byte keys: slices of each row's matches", hjg_cuda_strategy_name(s), widths[w]);
		}
	hjg_cuda_tuning = normal;
}

/* ---- faults ---- */

typedef struct FaultedJoin
{
	int			strategy;
	int			width;
	HjgMatchMode mode;
	KeyShape	shape;
	hjg_u32		nbuild;
	hjg_u32		nprobe;
	size_t		budget;			/* 0: enough; else in turns */
} FaultedJoin;

static HjgStatus
run_faulted(const void *arg, const char **wrong)
{
	const Case *c = arg;
	Memory		memory;
	Outcome		outcome;

	memory_init(&memory, NULL);
	outcome = join_case(c, &memory.env, 3, (hjg_u32) (c->nexpected / (is_of_literature() ? 2 : 5)) + 1);
	*wrong = outcome.wrong;
	return outcome.status;
}

/* By each kind of error but number without, if that is one. */
static void
test_faults_of(const FaultedJoin *join, int without)
{
	Case		c;

	strategy = join->strategy;
	case_create(&c, test_seed, join->width, join->mode, join->shape, join->nbuild, join->nprobe);
	hjg_cuda_set_budget(join->budget);
	for (int k = 0; k < HJG_FAULT_KINDS; k++)
	{
		long		ncalls;

		if (k == without)
			continue;
		ncalls = hjg_fail_everywhere(stub, hjg_fault_kinds[k].code, run_faulted, &c);
		claim(ncalls > 58, "%s at each of %ld calls, %s, %s: right rows, a status or a clean end", hjg_fault_kinds[k].what,
			  ncalls, hjg_strategy_name(strategy), key_shape_names[join->shape]);
	}
	case_destroy(&c);
	strategy = HJG_CPU_AUTO;
	hjg_cuda_set_budget(0);
}

/* Every call of a join, by each kind of error. */
static void
test_faults_everywhere(void)
{
	static const FaultedJoin joins[] = {
		{HJG_CPU_AUTO, 8, HJG_MATCH_SEMI, KEYS_UNIFORM, 500, 350, 0},
		{HJG_CPU_AUTO, 8, HJG_MATCH_ALL, KEYS_ONE_HOT_BUILD, 500, 350, 0},
		{HJG_CUDA_DIRECT, 4, HJG_MATCH_ALL, KEYS_DENSE, 500, 350, 0},
		{HJG_CUDA_PACKED, 4, HJG_MATCH_ALL, KEYS_UNIQUE, 500, 350, 0},
		{HJG_CUDA_TABLE, 16, HJG_MATCH_LEFT, KEYS_UNIQUE, 500, 350, 0},
		{HJG_CUDA_RADIX1, 4, HJG_MATCH_ALL, KEYS_UNIFORM, 500, 350, 0},
		{HJG_CUDA_RADIX2, 4, HJG_MATCH_LEFT, KEYS_UNIFORM, 500, 350, 0},
		{HJG_CUDA_CSR, 8, HJG_MATCH_ALL, KEYS_DUPLICATES, 500, 350, 0},
		{HJG_CUDA_CSR, 8, HJG_MATCH_LEFT, KEYS_DUPLICATES, 20000, 350, SMALL_BUDGET},
	};
	const HjgCudaTuning normal = hjg_cuda_tuning;

	hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 100, .least_chunk_rows = 100};
	for (size_t i = 0; i < sizeof(joins) / sizeof(joins[0]); i++)
		test_faults_of(&joins[i], HJG_FAULT_KINDS);
	/* partitions of few rows are made in several passes; memory gives out for all, the other kinds take turns */
	hjg_cuda_paper_tuning.part_rows = 1;
	for (int s = HJG_CUDA_NOP_CHAIN; s <= HJG_CUDA_UMJ_PF; s++)
	{
		const FaultedJoin join = {s, widths[s % 3], HJG_MATCH_ALL, s % 2 ? KEYS_UNIFORM : KEYS_DUPLICATES, 150, 60, 0};

		test_faults_of(&join, 1 + s % 2);
	}
	hjg_cuda_paper_tuning.part_rows = 0;
	hjg_cuda_tuning = normal;
}

/* ---- what the arena may say ---- */

static HjgStatus
build_of(const HjgSegment *segments, int nsegments, void **join)
{
	const HjgJoinSpec spec = {.key_width = 4, .mode = HJG_MATCH_ALL};
	static Memory memory;

	memory_init(&memory, NULL);
	return driver->build(0, &memory.env, &spec, segments, nsegments, join);
}

static void
test_segments(void)
{
	static const hjg_u32 keys[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	const HjgSegment whole = {.keys = keys, .nrows = 8};
	const HjgSegment overlap[] = {{.keys = keys, .nrows = 4}, {.keys = keys + 4, .nrows = 4, .first_row = 3}};
	const HjgSegment beyond = {.keys = keys, .nrows = 8, .first_row = HJG_NO_ROW - 7};
	const HjgSegment gap[] = {{.keys = keys, .nrows = 4}, {.keys = keys + 4, .nrows = 4, .first_row = 5}};
	HjgCursor	cursor = {0, 0, 0};
	Pages		pages;
	void	   *join;

	claim(build_of(overlap, 2, &join) == HJG_ERR_INPUT, "build rows of one number are refused");
	claim(build_of(&beyond, 1, &join) == HJG_ERR_INPUT, "a build row may not have the number that means none");
	if (!claim(build_of(&whole, 1, &join) == HJG_OK, "build rows 0 to 7 are taken"))
		return;
	pages_create(&pages, 1, 64);
	claim(driver->probe(join, gap, 2, &cursor, &pages.result) == HJG_ERR_INPUT, "a gap between probe rows is refused");
	claim(driver->probe(join, gap + 1, 1, &cursor, &pages.result) == HJG_ERR_INPUT, "probe rows begin with row 0");
	pages_destroy(&pages);
	driver->free(join);
}

/* ---- launches ---- */

HJG_CUDA_KERNEL(hjg_k_cut_window, "cuda_csr");

static void
test_occupancy(void)
{
	HjgCudaGrant grant = {0};
	HjgCudaLane lane;
	int			blocks = -1;

	if (!claim(hjg_cuda_lane_open(&lane, hjg_cuda_made(0), NULL, &grant) == HJG_OK, "a lane of its own"))
		return;
	claim(hjg_cuda_occupancy(&lane, &hjg_k_cut_window, 256, 0, &blocks) == HJG_OK && blocks > 0,
		  "a multiprocessor has room for blocks of 256 threads");
	claim(hjg_cuda_occupancy(&lane, &hjg_k_cut_window, 4096, 0, &blocks) == HJG_ERR_DEVICE,
		  "no room for a block is an error, and not a grid of none");
	hjg_cuda_lane_close(&lane);
}

/* ---- memory ---- */

static void
test_nothing_leaks(void)
{
	HjgCudaDevice *device = hjg_cuda_made(0);
	long		objects;
	Memory		memory;
	Case		c;

	case_create(&c, test_seed, 8, HJG_MATCH_ALL, KEYS_DUPLICATES, 3000, 2000);
	memory_init(&memory, NULL);
	join_case(&c, &memory.env, 1, 1000);
	claim(hjg_cuda_pool_trim(device->pool, 0) == 0, "no block is in use after a join");
	objects = stub != NULL ? stub->live_objects : 0;
	for (int i = 0; i < 5; i++)
		join_case(&c, &memory.env, 1, 1000);
	hjg_cuda_pool_trim(device->pool, 0);
	if (stub != NULL)
		claim(stub->live_objects == objects && stub->used_bytes == 0, "five more joins leave nothing behind");
	memory_init(&memory, NULL);
	memory.cancel_at = 3;
	claim(join_case(&c, &memory.env, 1, 1000).status == HJG_ERR_CANCELLED, "a join that is cancelled says so");
	claim(hjg_cuda_pool_trim(device->pool, 0) == 0, "no block is in use after a cancelled join");
	case_destroy(&c);
}

typedef struct Waiter
{
	HjgCudaPool *pool;
	HjgStatus	status;
	HjgCudaGrant grant;
	unsigned	wait_ms;
	pthread_t	thread;
} Waiter;

static void *
wait_for_grant(void *arg)
{
	Waiter	   *waiter = arg;

	waiter->status = hjg_cuda_admit(waiter->pool, 600, NULL, waiter->wait_ms, &waiter->grant);
	return NULL;
}

static void
test_admission(void)
{
	HjgCudaPool *pool = hjg_cuda_pool_create(1000);
	Waiter		patient = {.pool = pool, .wait_ms = 10000};
	Waiter		hasty = {.pool = pool, .wait_ms = 20};
	HjgCudaGrant grant;
	HjgCudaGrant other;
	HjgCudaPtr	ptr;

	claim(hjg_cuda_admit(pool, 1001, NULL, 1000, &grant) == HJG_ERR_MEMORY, "more than the budget is refused at once");
	claim(hjg_cuda_admit(pool, 600, NULL, 0, &grant) == HJG_OK, "what fits is granted");
	claim(hjg_cuda_admit(pool, 400, NULL, 0, &other) == HJG_OK, "what fits beside it is granted");
	hjg_cuda_dismiss(&other);
	wait_for_grant(&hasty);
	claim(hasty.status == HJG_ERR_MEMORY, "who waits in vain is refused");
	pthread_create(&patient.thread, NULL, wait_for_grant, &patient);
	usleep(50000);
	hjg_cuda_dismiss(&grant);
	pthread_join(patient.thread, NULL);
	claim(patient.status == HJG_OK, "who waits is granted when memory becomes free");
	claim(hjg_cuda_block_take(&patient.grant, 100000, &ptr) == HJG_CUDA_ERROR_OUT_OF_MEMORY,
		  "no block is larger than the grant");
	hjg_cuda_dismiss(&patient.grant);
}

/* A budget that has no place for the chunks of usual size, and one that has none at all. */
static void
test_small_budget(void)
{
	Memory		memory;
	Outcome		outcome;
	HjgCudaPool *normal = hjg_cuda_made(0)->pool;
	Case		c;

	case_create(&c, test_seed, 4, HJG_MATCH_LEFT, KEYS_UNIFORM, 20000, 200000);
	memory_init(&memory, NULL);
	hjg_cuda_made(0)->pool = hjg_cuda_pool_create((size_t) 4 << 20);
	outcome = join_case(&c, &memory.env, 1, 300000);
	claim(outcome.status == HJG_OK && outcome.wrong == NULL, "smaller chunks within a small budget");
	hjg_cuda_pool_trim(hjg_cuda_made(0)->pool, 0);
	hjg_cuda_made(0)->pool = hjg_cuda_pool_create((size_t) 1 << 20);
	outcome = join_case(&c, &memory.env, 1, 300000);
	claim(outcome.status == HJG_ERR_MEMORY, "a join beyond the budget is refused");
	hjg_cuda_made(0)->pool = normal;
	case_destroy(&c);
}

/*
 * Build sides of some turns.  With room for all pairs the device joins them; with less, it may leave a join to
 * the cpu engine, but is not wrong.
 */
static void
test_turns(void)
{
	HjgCudaPool *normal = hjg_cuda_made(0)->pool;
	const HjgCudaTuning usual = hjg_cuda_tuning;
	Memory		memory;
	Case		c;

	hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 1000, .least_chunk_rows = 100};
	hjg_cuda_made(0)->pool = hjg_cuda_pool_create(SMALL_BUDGET);
	for (int w = 0; w < 3; w++)
		for (int shape = 0; shape < KEYS_NSHAPES; shape++)
		{
			const hjg_u32 nprobe = shape == KEYS_ONE_HOT_BOTH || shape == KEYS_COLLIDING_HOT ? 40 : 3000;
			Outcome		outcome = {0};
			hjg_u32		most = 0;

			for (int mode = 0; mode <= HJG_MATCH_ANTI && outcome.wrong == NULL; mode++)
			{
				case_create(&c, test_seed + (hjg_u64) (shape * 16 + mode), widths[w], mode, shape,
							widths[w] == 16 ? 25000 : 60000, nprobe);
				{
					const hjg_u32 sizes[] = {(hjg_u32) c.nexpected + nprobe + 1000, (hjg_u32) (c.nexpected / 2) + nprobe / 2 + 70};

					for (int s = 0; s < 2 && outcome.wrong == NULL; s++)
					{
						memory_init(&memory, NULL);
						nturns = 0;
						outcome = join_case(&c, &memory.env, s + 1, sizes[s]);
						most = nturns > most ? nturns : most;
						if (outcome.status != HJG_OK && (s == 0 || outcome.status != HJG_ERR_MEMORY))
							outcome.wrong = hjg_status_text(outcome.status);
						if (outcome.wrong != NULL)
							printf("# %s: mode %s, capacity %u\n", outcome.wrong, mode_names[mode], sizes[s]);
					}
				}
				case_destroy(&c);
			}
			claim(outcome.wrong == NULL && most > 2, "%d-byte keys, %s: a build side of %u turns equals the reference", widths[w],
				  key_shape_names[shape], most);
		}
	hjg_cuda_pool_trim(hjg_cuda_made(0)->pool, 0);
	case_create(&c, test_seed, 8, HJG_MATCH_ALL, KEYS_UNIFORM, 30000, 3000);
	memory_init(&memory, NULL);
	memory.cancel_at = 12;
	claim(join_case(&c, &memory.env, 1, 10000).status == HJG_ERR_CANCELLED, "a join in turns that is cancelled says so");
	claim(hjg_cuda_pool_trim(hjg_cuda_made(0)->pool, 0) == 0, "no block is in use after it");
	case_destroy(&c);
	hjg_cuda_made(0)->pool = normal;
	hjg_cuda_tuning = usual;
}

/* More than 2^31 pairs, of one key, come in rounds of constant memory; on a real device only. */
static void
test_many_pairs(void)
{
	enum {NROWS = 47000, PAGES = 8, PAGE_PAIRS = 1 << 20};
	const HjgJoinSpec spec = {.key_width = 8, .mode = HJG_MATCH_ALL};
	hjg_u64    *keys = calloc(NROWS, sizeof(hjg_u64));
	const HjgSegment side = {.keys = keys, .nrows = NROWS};
	HjgCursor	cursor = {0, 0, 0};
	hjg_u64		total = 0;
	HjgJobStats stats = {0};
	HjgStatus	status;
	Memory		memory;
	Pages		pages;
	bool		good = true;
	void	   *join;

	memory_init(&memory, NULL);
	status = driver->build(0, &memory.env, &spec, &side, 1, &join);
	pages_create(&pages, PAGES, PAGE_PAIRS);
	while (status == HJG_OK && good && cursor.row < NROWS)
	{
		status = driver->probe(join, &side, 1, &cursor, &pages.result);
		/* pair number n of all is of probe row n / NROWS and build row n % NROWS */
		for (hjg_u64 i = 0; i < pages.result.npairs && good; i++)
		{
			const HjgPair *pair = &pages.result.pages[i / PAGE_PAIRS][i % PAGE_PAIRS];

			good = pair->probe_row == (total + i) / NROWS && pair->build_row == (total + i) % NROWS;
		}
		total += pages.result.npairs;
		good = good && pages.result.npairs > 0;
	}
	if (status == HJG_OK)
		driver->stats(join, &stats);
	claim(status == HJG_OK && good && total == (hjg_u64) NROWS * NROWS, "%u x %u rows of one key are %llu pairs, in order", NROWS,
		  NROWS, (unsigned long long) total);
	claim(stats.workspace_bytes < (size_t) 100 << 20, "of %llu bytes of device memory", (unsigned long long) stats.workspace_bytes);
	if (status == HJG_OK)
		driver->free(join);
	pages_destroy(&pages);
	free(keys);
}

/* ---- health ---- */

static void
test_health(void)
{
	HjgControl *control = calloc(1, sizeof(HjgControl));
	char		reason[128] = "";

	hjg_health_open(control);
	hjg_health_note("cuda:7", "first");
	hjg_health_note("cuda:7", "second");
	claim(!hjg_health_resting("cuda:7", reason, sizeof(reason)), "two failures do not make a device rest");
	hjg_health_enter("cuda:7");
	hjg_health_open(control);
	claim(hjg_health_resting("cuda:7", reason, sizeof(reason)), "a process that ended in an operation is the third");
	claim(strstr(reason, "after 3 failures") != NULL, "the reason counts the failures: %s", reason);
	claim(!hjg_health_resting("cuda:6", reason, sizeof(reason)), "another device goes on");
	hjg_health_rest("opencl:0", "it cannot be opened");
	claim(hjg_health_resting("opencl:0", reason, sizeof(reason)) && strstr(reason, "after 3 failures") != NULL,
		  "a device that cannot be opened rests at once: %s", reason);
	hjg_health_rest("opencl:0", "it cannot be opened");
	claim(hjg_health_resting("opencl:0", reason, sizeof(reason)) && strstr(reason, "after 3 failures") != NULL,
		  "and no longer for each join that waited: %s", reason);
	hjg_health_open(NULL);
	free(control);
}

#define NUSERS 4				/* runners that meet a device for the first time, at the same time */

static pthread_barrier_t all_here;

static void *
use_device(void *arg)
{
	char		name[16];

	snprintf(name, sizeof(name), "cuda:%d", (int) (size_t) arg);
	pthread_barrier_wait(&all_here);
	hjg_health_enter(name);
	pthread_barrier_wait(&all_here);
	hjg_health_leave(name);
	return NULL;
}

static void
test_health_at_once(void)
{
	int			nwrong = 0;

	pthread_barrier_init(&all_here, NULL, NUSERS);
	for (int round = 0; round < 500; round++)
	{
		HjgControl *control = calloc(1, sizeof(HjgControl));
		pthread_t	users[NUSERS];

		hjg_health_open(control);
		for (int i = 0; i < NUSERS; i++)
			pthread_create(&users[i], NULL, use_device, (void *) (size_t) i);
		for (int i = 0; i < NUSERS; i++)
			pthread_join(users[i], NULL);
		for (int i = 0; i < HJG_MAX_DEVICES; i++)
			nwrong += control->health[i].in_use != 0 || (control->health[i].name[0] != '\0') != (i < NUSERS);
		hjg_health_open(NULL);
		free(control);
	}
	pthread_barrier_destroy(&all_here);
	claim(nwrong == 0, "devices that are used for the first time at the same time do not share an entry");
}

/* ---- times, on a real device ---- */

/* Unique keys in slabs of an arena from slab *next on; row i has the key of number i % modulo. */
static int
fill_slabs(const HjgArena *arena, hjg_u32 *next, hjg_u32 nrows, hjg_u32 modulo, HjgSegment *segments)
{
	const hjg_u32 room = HJG_SLAB_BYTES / 4;
	int			n = 0;

	for (hjg_u32 row = 0; row < nrows; row += room, n++)
	{
		hjg_u32    *keys = hjg_arena_slab_at(arena, (*next)++);
		const hjg_u32 m = nrows - row < room ? nrows - row : room;

		for (hjg_u32 i = 0; i < m; i++)
			keys[i] = hjg_mix32((row + i) % modulo * 2654435761u);
		segments[n] = (HjgSegment) {.keys = keys, .nrows = m, .first_row = row};
	}
	return n;
}

/* nbuild unique 4-byte keys, nprobe rows in batches that all match, from and to pinned slabs. */
static void
time_join(const HjgArena *arena, hjg_u32 nbuild, hjg_u32 nprobe, hjg_u32 batch_rows)
{
	const HjgJoinSpec spec = {.key_width = 4, .mode = HJG_MATCH_ALL};
	const hjg_u32 page_pairs = HJG_SLAB_BYTES / sizeof(HjgPair);
	HjgSegment	build[64];
	HjgSegment	probe[64];
	HjgPair    *pages[64];
	hjg_u32		next = 0;
	const int	nbuild_segments = fill_slabs(arena, &next, nbuild, nbuild, build);
	const int	nprobe_segments = fill_slabs(arena, &next, batch_rows, nbuild, probe);
	HjgResult	result = {.pages = pages, .npages = (int) ((batch_rows + page_pairs - 1) / page_pairs), .page_pairs = page_pairs};
	double		best_first = 1e9;

	for (int i = 0; i < result.npages; i++)
		pages[i] = hjg_arena_slab_at(arena, next++);
	printf("# %u x %u rows, batches of %u: built, first batch, all; transfer, partition, build, probe (ms)\n", nbuild,
		   nprobe, batch_rows);
	for (int run = 0; run < 7; run++)
	{
		const hjg_u64 started = hjg_arena_now_ns();
		hjg_u64		built;
		hjg_u64		first = 0;
		hjg_u64		npairs = 0;
		HjgJobStats stats;
		Memory		memory;
		void	   *join;

		memory_init(&memory, NULL);
		if (driver->build(0, &memory.env, &spec, build, nbuild_segments, &join) != HJG_OK)
			return;
		built = hjg_arena_now_ns();
		for (hjg_u32 row = 0; row < nprobe; row += batch_rows)
		{
			HjgCursor	cursor = {0, 0, 0};

			if (driver->probe(join, probe, nprobe_segments, &cursor, &result) != HJG_OK)
				break;
			npairs += result.npairs;
			if (first == 0)
				first = hjg_arena_now_ns();
		}
		driver->stats(join, &stats);
		printf("#   %.3f %.3f %.3f; %.3f %.3f %.3f %.3f%s\n", (double) (built - started) / 1e6, (double) (first - started) / 1e6,
			   (double) (hjg_arena_now_ns() - started) / 1e6, (double) stats.transfer_ns / 1e6,
			   (double) stats.partition_ns / 1e6, (double) stats.build_ns / 1e6, (double) stats.probe_ns / 1e6,
			   npairs == nprobe ? "" : " WRONG");
		if (npairs == nprobe && (double) (first - started) / 1e6 < best_first)
			best_first = (double) (first - started) / 1e6;
		driver->free(join);
	}
	claim(best_first < 1e9, "timed joins have all pairs");
	if (nbuild == 1000000)
		claim(best_first <= 1.0, "a warm join of 1M rows answers within a millisecond");
}

static int
time_joins(void)
{
	HjgArena	arena;
	const char *step;
	int			fd;

	if (hjg_arena_create(&arena, (size_t) 512 << 20, &fd, &step) != 0)
		return 1;
	hjg_cuda_region_open(&arena);
	time_join(&arena, 1000000, 1000000, 1000000);
	time_join(&arena, 5000000, 20000000, 1000000);
	time_join(&arena, 5000000, 24000000, 8000000);
	printf("1..%d\n", claims_passed + claims_failed);
	return claims_failed > 0;
}

int
main(int argc, char **argv)
{
	HjgDeviceInfo infos[HJG_CUDA_MAX_DEVICES] = {0};

	short_run = argc > 1 && strcmp(argv[1], "--short") == 0;
	rounds_may_end_early = true;
	test_seed = getenv("HJG_TEST_SEED") != NULL ? strtoull(getenv("HJG_TEST_SEED"), NULL, 0) : test_seed;
	driver->list(infos, HJG_CUDA_MAX_DEVICES);
	if (infos[0].state != HJG_DEVICE_READY)
	{
		printf("ok 1 - # SKIP no device: %s\n1..1\n", infos[0].reason);
		return 0;
	}
	stub = hjg_stub_find();
	printf("# %s: %s%s, HJG_TEST_SEED=%llu\n", infos[0].name, infos[0].description, stub != NULL ? " (emulated)" : "",
		   (unsigned long long) test_seed);

	if (argc > 1 && strcmp(argv[1], "--time") == 0)
		return time_joins();

	/* before the first context of this process, which does not survive a fork */
	if (stub != NULL)
		test_faults_everywhere();
	test_results();
	test_segments();
	test_occupancy();
	test_choice();
	test_slices();
	test_nothing_leaks();
	test_admission();
	test_small_budget();
	test_declined();
	if (stub != NULL)
		test_managed();
	test_turns();
	if (stub == NULL && !short_run)
		test_many_pairs();
	test_health();
	test_health_at_once();
	printf("1..%d\n", claims_passed + claims_failed);
	return claims_failed > 0;
}
