/*
 * test_cuda.c
 *	  The driver "cuda": results of every strategy equal the reference's, the right one is chosen,
 *	  failing devices rest.
 *
 * Consists also of cuda_faults.c, cuda_hostile.c, cuda_memory.c and cuda_times.c.  Runs on a real device
 * if there is one, and on the stub (stub_libcuda.c) if that is first in LD_LIBRARY_PATH; faults are for
 * the stub only. --short does less, --hostile only that, --time measures; HJG_TEST_SEED in the environment
 * changes the keys.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hjg_cuda_support.h"
#include "lab/hjg_cuda_paper.h"

static const HjgDriver *const driver = &hjg_cuda_driver;

/* ---- results ---- */

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
		  "%s, %d-byte keys, %s, %u x %u rows: %d runs equal the reference, %d declined", name_of(strategy), width,
		  key_shape_names[shape], nbuild, nprobe, ncases, ndeclined);
	ndeclined = 0;
}

/*
 * True if the shape is worth a test.  The emulated device tests only the host code of the literature's
 * joins, for which some shapes suffice.
 */
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

	for (strategy = HJG_CUDA_FIRST; strategy <= HJG_LAB_LAST; strategy++)
		for (int w = 0; w < 3; w++)
			for (int shape = 0; shape < KEYS_NSHAPES; shape++)
				if (is_worth(shape))
					run_shape(widths[w], shape, shape == KEYS_ONE_HOT_BOTH ? 200 : 1500, shape == KEYS_ONE_HOT_BOTH ? 150 : 1100);
	/* many chunks, and partitions of few rows, which need several passes */
	hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 300, .least_chunk_rows = 300};
	hjg_cuda_paper_tuning.part_rows = 1;
	for (strategy = HJG_CUDA_FIRST; strategy <= HJG_LAB_LAST; strategy++)
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

/* Name the strategy that the driver chooses by sizes and keys. */
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
	return stats.declined || !hjg_is_cuda_strategy((int) stats.strategy) ? "none" :
		hjg_strategy_name((int) stats.strategy);
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

/* ---- slices ---- */

static int
compare_probe_rows(const void *a, const void *b)
{
	const hjg_u32 x = ((const HjgPair *) a)->probe_row;
	const hjg_u32 y = ((const HjgPair *) b)->probe_row;

	return x < y ? -1 : x > y;
}

/* Compare pairs with a slice of a probe row: matches [skip, skip + most), counted from the last one down. */
static bool
same_slice(const Case *c, hjg_u32 row, HjgCursor slice, const HjgPair *pairs, hjg_u64 npairs)
{
	const hjg_u64 n = c->before[row + 1] - c->before[row];
	const hjg_u64 left = slice.skip < n ? n - slice.skip : 0;
	const hjg_u64 count = slice.most < left ? slice.most : left;
	bool		good = npairs == count;

	/* in a slice of one, any match is right */
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

/* Run the rounds of a slice; returns NULL or an error text. */
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
	for (int s = HJG_CUDA_FIRST; s <= HJG_LAB_LAST; s++)
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
			claim(wrong == NULL, "%s, %d-byte keys: slices of each row's matches", name_of(s), widths[w]);
		}
	hjg_cuda_tuning = normal;
}

/* ---- hostile words of the arena ---- */

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
	HjgCudaStream stream;
	int			blocks = -1;

	if (!claim(hjg_cuda_stream_open(&stream, hjg_cuda_made(0), NULL, &grant) == HJG_OK, "a stream of its own"))
		return;
	claim(hjg_cuda_occupancy(&stream, &hjg_k_cut_window, 256, 0, &blocks) == HJG_OK && blocks > 0,
		  "a multiprocessor has room for blocks of 256 threads");
	claim(hjg_cuda_occupancy(&stream, &hjg_k_cut_window, 4096, 0, &blocks) == HJG_ERR_DEVICE,
		  "no room for a block is an error, and not a grid of none");
	hjg_cuda_stream_close(&stream);
}

/* Test more than 2^31 pairs of one key in rounds of constant memory; on a real device only. */
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
		/* pair n of all has probe row n / NROWS and build row n % NROWS */
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
	HjgDeviceBlock *block = calloc(1, sizeof(HjgDeviceBlock));
	char		reason[128] = "";

	hjg_health_open(block);
	hjg_health_note("cuda:7", "first");
	hjg_health_note("cuda:7", "second");
	claim(!hjg_health_resting("cuda:7", reason, sizeof(reason)), "two failures do not make a device rest");
	hjg_health_enter("cuda:7");
	hjg_health_open(block);
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
	free(block);
}

/* Seconds by which this process's wall clock is ahead. */
static time_t ahead_s;

int
clock_gettime(clockid_t clock, struct timespec *ts)
{
	const int	rc = (int) syscall(SYS_clock_gettime, clock, ts);

	if (rc == 0 && clock == CLOCK_REALTIME)
		ts->tv_sec += __atomic_load_n(&ahead_s, __ATOMIC_RELAXED);
	return rc;
}

/* Test a clock that is set back by a day: nothing may then last a day. */
static void
test_clock_set_back(void)
{
	HjgCudaPool *pool = hjg_cuda_pool_create(1000);
	char		reason[128] = "";
	unsigned	rest_s = 0;
	HjgCudaGrant grant;
	HjgCudaGrant other;

	ahead_s = 24 * 3600;
	for (int i = 0; i < 3; i++)
		hjg_health_note("cuda:8", "failed");
	ahead_s = 0;
	claim(hjg_health_resting("cuda:8", reason, sizeof(reason)) && sscanf(reason, "left alone for %u s", &rest_s) == 1 && rest_s <= 31,
		  "a clock that is set back lets no device rest for longer: %s", reason);
	claim(hjg_cuda_admit(pool, 600, NULL, 0, &grant) == HJG_OK, "memory is granted");
	/* the clock is ahead when it is read, and not while it is waited for; a wait of a day is ended */
	ahead_s = 24 * 3600;
	alarm(20);
	claim(hjg_cuda_admit(pool, 600, NULL, 20, &other) == HJG_ERR_MEMORY, "nor does a join wait for longer");
	alarm(0);
	ahead_s = 0;
	hjg_cuda_dismiss(&grant);
}

/* Test processes that end because they were told to, in the middle of work that continues for a moment. */
static void
test_health_excused(void)
{
	HjgDeviceBlock *block = calloc(1, sizeof(HjgDeviceBlock));
	char		reason[128] = "";

	for (int i = 0; i < 4; i++)
	{
		hjg_health_open(block);
		hjg_health_enter("cuda:7");
		hjg_health_enter("cuda:7");
		hjg_health_excuse();
		hjg_health_leave("cuda:7");
		hjg_health_enter("cuda:6");
	}
	hjg_health_open(block);
	claim(!hjg_health_resting("cuda:7", reason, sizeof(reason)) && !hjg_health_resting("cuda:6", reason, sizeof(reason)) &&
		  block->health[0].failures == 0 && block->health[1].failures == 0,
		  "a process that was told to end has not failed in what it did then");
	hjg_health_note("cuda:7", "first");
	hjg_health_note("cuda:7", "second");
	hjg_health_enter("cuda:7");
	hjg_health_open(block);
	claim(hjg_health_resting("cuda:7", reason, sizeof(reason)), "and the next one has, if it was not told");
	hjg_health_open(NULL);
	free(block);
}

#define NUSERS 4				/* runners that use a device for the first time, at the same time */

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
		HjgDeviceBlock *block = calloc(1, sizeof(HjgDeviceBlock));
		pthread_t	users[NUSERS];

		hjg_health_open(block);
		for (int i = 0; i < NUSERS; i++)
			pthread_create(&users[i], NULL, use_device, (void *) (size_t) i);
		for (int i = 0; i < NUSERS; i++)
			pthread_join(users[i], NULL);
		for (int i = 0; i < HJG_MAX_DEVICES; i++)
			nwrong += block->health[i].in_use != 0 || (block->health[i].name[0] != '\0') != (i < NUSERS);
		hjg_health_open(NULL);
		free(block);
	}
	pthread_barrier_destroy(&all_here);
	claim(nwrong == 0, "devices that are used for the first time at the same time do not share an entry");
}

int
main(int argc, char **argv)
{
	enum {SHORT = 1, TIME = 2, HOSTILE = 4};
	static const char *const names[] = {"short", "time", "hostile", NULL};
	const unsigned asked = test_options(argc, argv, names);
	HjgDeviceInfo infos[HJG_CUDA_MAX_DEVICES] = {0};

	hjg_lab_strategies_open();
	short_run = (asked & SHORT) != 0;
	rounds_may_end_early = true;
	set_test_seed(getenv("HJG_TEST_SEED") != NULL ? strtoull(getenv("HJG_TEST_SEED"), NULL, 0) : test_seed);
	driver->list(infos, HJG_CUDA_MAX_DEVICES);
	if (infos[0].state != HJG_DEVICE_READY)
	{
		printf("not ok 1 - there is a device: %s\n1..1\n", infos[0].reason);
		return 1;
	}
	stub = hjg_stub_find();
	printf("# %s: %s%s, HJG_TEST_SEED=%llu\n", hjg_device_name(infos[0].id).text, infos[0].description, stub != NULL ? " (emulated)" : "",
		   (unsigned long long) test_seed);

	if (asked & TIME)
	{
		time_joins();
		printf("1..%d\n", claims_passed + claims_failed);
		return claims_failed > 0;
	}

	if (asked & HOSTILE)
	{
		test_hostile();
		printf("1..%d\n", claims_passed + claims_failed);
		return claims_failed > 0;
	}

	/* before the first context of this process, which does not survive a fork */
	if (stub != NULL)
		test_faults_everywhere();
	test_results();
	test_hostile();
	test_segments();
	test_occupancy();
	test_choice();
	test_slices();
	test_memory();
	if (stub == NULL && !short_run)
		test_many_pairs();
	test_health();
	test_clock_set_back();
	test_health_excused();
	test_health_at_once();
	printf("1..%d\n", claims_passed + claims_failed);
	return claims_failed > 0;
}
