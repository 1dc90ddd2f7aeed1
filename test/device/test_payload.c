/*
 * test_payload.c
 *	  Payload columns of the driver "cuda": every pair has the columns of its rows, with every strategy,
 *	  in chunks, windows and rounds; every call of the driver API may fail.
 *
 * Runs on a real device if there is one, and on the stub as test_cuda.c does; --short does less,
 * HJG_TEST_SEED changes the keys.
 */
#include <string.h>

#include "device/hjg_cuda_join.h"
#include "hjg_fault_loop.h"
#include "hjg_test_engine.h"
#include "hjg_test_stub.h"

#define MOST_PAGES 8
#define ALL_SIDES (HJG_SIDE_BIT(HJG_SIDE_BUILD) | HJG_SIDE_BIT(HJG_SIDE_PROBE))

static HjgStub *stub;
static const HjgDriver *const driver = &hjg_cuda_driver;

/* Make word w of the columns of a row; all rows and sides have different words. */
static hjg_u32
word_of(HjgSideId side, hjg_u32 row, hjg_u32 w)
{
	return hjg_mix32(HJG_HASH_NO_SEED, row * 64 + w) ^ (side == HJG_SIDE_PROBE ? 0x5A5A5A5Au : 0);
}

/* Give a side's segments their columns; returns the memory. */
static hjg_u32 *
make_columns(const Side *side, HjgSideId id, hjg_u32 bytes)
{
	const hjg_u32 nwords = bytes / HJG_PAYLOAD_UNIT;
	hjg_u32    *words = malloc(((size_t) side->nrows * nwords + 1) * sizeof(hjg_u32));
	hjg_u32    *at = words;

	for (int s = 0; s < side->nsegments; s++)
	{
		HjgSegment *segment = &side->segments[s];

		segment->payload = bytes > 0 ? at : NULL;
		for (hjg_u32 i = 0; i < segment->nrows; i++)
			for (hjg_u32 w = 0; w < nwords; w++)
				*at++ = word_of(id, segment->first_row + i, w);
	}
	return words;
}

/* ---- one join ---- */

typedef struct Setting
{
	int			strategy;
	HjgPayloadBytes payload;
	hjg_u32		sides;			/* sides that must be gathered */
	int			npages;
} Setting;

static bool
columns_right(const HjgResult *result, HjgPayloadBytes payload)
{
	for (hjg_u64 i = 0; i < result->npairs; i++)
	{
		const HjgPair *page = result->pages[i / result->page_pairs];
		const hjg_u64 at = i % result->page_pairs;

		for (int s = 0; s < HJG_SIDES; s++)
		{
			const hjg_u32 nwords = payload.bytes[s] / HJG_PAYLOAD_UNIT;
			const hjg_u32 row = s == HJG_SIDE_BUILD ? page[at].build_row : page[at].probe_row;
			const hjg_u32 *words = (const hjg_u32 *) ((const char *) page + hjg_page_payload_off(payload, (HjgSideId) s)) +
				at * nwords;

			if ((result->gathered & HJG_SIDE_BIT(s)) == 0 || row == HJG_NO_ROW)
				continue;
			for (hjg_u32 w = 0; w < nwords; w++)
				if (words[w] != word_of((HjgSideId) s, row, w))
					return false;
		}
	}
	return true;
}

/* Compute the checksum of a result's columns, as its reader does. */
static hjg_u64
sum_columns(const HjgResult *result, HjgPayloadBytes payload)
{
	hjg_u64		sum = 0;

	for (hjg_u64 first = 0; first < result->npairs; first += result->page_pairs)
	{
		const hjg_u64 n = result->npairs - first < result->page_pairs ? result->npairs - first : result->page_pairs;
		const hjg_u32 page_ix = (hjg_u32) (first / result->page_pairs);

		sum += hjg_check_payload(result->pages[page_ix], page_ix, n, payload, result->gathered);
	}
	return sum;
}

/* Join a case; NULL if the result is right. *status is that of the call that ended the join. */
static const char *
join_case(const Case *c, const Setting *setting, const HjgEnv *env, HjgStatus *status)
{
	const HjgJoinSpec spec = {
		.key_width = c->width, .mode = c->mode, .strategy = (HjgCpuStrategy) setting->strategy, .payload = setting->payload
	};
	HjgPair    *pages[MOST_PAGES];
	HjgResult	result = {.pages = pages, .npages = setting->npages, .page_pairs = hjg_page_pairs(setting->payload), .sum = true};
	HjgCursor	cursor = {0, 0, 0};
	const char *wrong = NULL;
	hjg_u64		total = 0;
	void	   *join;

	*status = driver->build(0, env, &spec, c->build.segments, c->build.nsegments, &join);
	if (*status != HJG_OK)
		return NULL;
	for (int i = 0; i < setting->npages; i++)
		pages[i] = aligned_alloc(64, HJG_SLAB_BYTES);
	do
	{
		HjgCursor	from = cursor;

		for (int i = 0; i < setting->npages; i++)
			memset(pages[i], 0xC5, HJG_SLAB_BYTES);
		*status = driver->probe(join, c->probe.segments, c->probe.nsegments, &cursor, &result);
		if (stub != NULL && stub->in_flight != 0)
			wrong = "probing leaves work in flight";
		if (*status != HJG_OK)
			break;
		if (!check_round(c, &from, &cursor, &result))
			wrong = "wrong round";
		else if (cursor.row < c->probe.nrows && cursor.row == from.row && cursor.skip == from.skip)
			wrong = "no progress";
		else if (result.npairs > 0 && result.gathered != setting->sides)
			wrong = "other sides are gathered than should be";
		else if (!columns_right(&result, setting->payload))
			wrong = "wrong columns";
		else if (result.payload_sum != sum_columns(&result, setting->payload))
			wrong = "wrong sum of columns";
		total += result.npairs;
	} while (wrong == NULL && cursor.row < c->probe.nrows);
	if (wrong == NULL && *status == HJG_OK && total != c->nexpected)
		wrong = "wrong number of pairs";
	for (int i = 0; i < setting->npages; i++)
		free(pages[i]);
	driver->free(join);
	return wrong;
}

/* Run a join with columns of these widths. */
static const char *
run_join(int width, HjgMatchMode mode, KeyShape shape, hjg_u32 nbuild, hjg_u32 nprobe, const Setting *setting)
{
	const char *wrong;
	HjgStatus	status;
	Memory		memory;
	hjg_u32    *build;
	hjg_u32    *probe;
	Case		c;

	case_create(&c, test_seed + (hjg_u64) mode, width, mode, shape, nbuild, nprobe);
	build = make_columns(&c.build, HJG_SIDE_BUILD, setting->payload.bytes[HJG_SIDE_BUILD]);
	probe = make_columns(&c.probe, HJG_SIDE_PROBE, setting->payload.bytes[HJG_SIDE_PROBE]);
	memory_init(&memory, NULL);
	wrong = join_case(&c, setting, &memory.env, &status);
	if (wrong == NULL && status != HJG_OK)
		wrong = hjg_status_text(status);
	case_destroy(&c);
	free(build);
	free(probe);
	return wrong;
}

/* ---- results ---- */

static hjg_u32
sides_of(HjgPayloadBytes payload)
{
	return (payload.bytes[HJG_SIDE_BUILD] > 0 ? HJG_SIDE_BIT(HJG_SIDE_BUILD) : 0) |
		(payload.bytes[HJG_SIDE_PROBE] > 0 ? HJG_SIDE_BIT(HJG_SIDE_PROBE) : 0);
}

static void
test_strategies(void)
{
	static const int strategies[] = {
		HJG_CUDA_DIRECT, HJG_CUDA_PACKED, HJG_CUDA_TABLE, HJG_CUDA_RADIX1, HJG_CUDA_RADIX2, HJG_CUDA_CSR
	};
	static const HjgPayloadBytes widths[] = {{{4, 0}}, {{0, 4}}, {{8, 4}}, {{12, 16}}, {{128, 128}}};
	static const KeyShape shapes[] = {KEYS_DENSE, KEYS_UNIQUE, KEYS_DUPLICATES, KEYS_ONE_HOT_BUILD};
	const HjgCudaTuning normal = hjg_cuda_tuning;

	for (int small = 0; small < 2; small++)
	{
		/* many chunks and windows */
		if (small)
			hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 300, .least_chunk_rows = 300};
		for (size_t s = 0; s < sizeof(strategies) / sizeof(strategies[0]); s++)
		{
			const char *wrong = NULL;
			int			n = 0;

			for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w += short_run ? 2 : 1)
				for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++)
					for (int mode = HJG_MATCH_ALL; mode <= HJG_MATCH_ANTI && wrong == NULL; mode++)
					{
						const Setting setting = {strategies[s], widths[w], sides_of(widths[w]), MOST_PAGES};

						wrong = run_join(n % 3 == 0 ? 4 : n % 3 == 1 ? 8 : 16, mode, shapes[k], 1500, 1100, &setting);
						if (wrong != NULL)
							printf("# %s: %s, mode %d, %u and %u bytes\n", wrong, key_shape_names[shapes[k]], mode,
								   widths[w].bytes[0], widths[w].bytes[1]);
						n++;
					}
			claim(wrong == NULL, "%s, %s: %d joins have the columns of their rows beside them",
				  hjg_strategy_name(strategies[s]), small ? "in chunks of 300 rows" : "in one chunk", n);
		}
	}
	hjg_cuda_tuning = normal;
}

/* Test rounds that end at the end of a page: more pairs than fit the result. */
static void
test_rounds(void)
{
	const Setting once = {HJG_CPU_AUTO, {{128, 64}}, ALL_SIDES, 1};
	const Setting windows = {HJG_CUDA_CSR, {{64, 128}}, ALL_SIDES, 2};

	claim(run_join(8, HJG_MATCH_LEFT, KEYS_UNIQUE, 20000, 50000, &once) == NULL, "a batch of several rounds, in any order");
	claim(run_join(4, HJG_MATCH_ALL, KEYS_DUPLICATES, 20000, 12000, &windows) == NULL, "a batch of several rounds, in order");
}

/* ---- columns that are not gathered ---- */

static void
test_declined(void)
{
	const HjgPayloadBytes payload = {{16, 8}};
	Setting		setting = {HJG_CPU_AUTO, payload, 0, MOST_PAGES};
	HjgStatus	status;
	Memory		memory;
	hjg_u32    *build;
	hjg_u32    *probe;
	Case		c;

	case_create(&c, test_seed, 8, HJG_MATCH_LEFT, KEYS_UNIFORM, 3000, 2000);
	build = make_columns(&c.build, HJG_SIDE_BUILD, payload.bytes[HJG_SIDE_BUILD]);
	probe = make_columns(&c.probe, HJG_SIDE_PROBE, payload.bytes[HJG_SIDE_PROBE]);
	memory_init(&memory, NULL);

	for (int s = 0; s < c.probe.nsegments; s++)
		if (c.probe.segments[s].nrows > 0)
			c.probe.segments[s].payload = NULL;
	setting.sides = HJG_SIDE_BIT(HJG_SIDE_BUILD);
	claim(join_case(&c, &setting, &memory.env, &status) == NULL && status == HJG_OK,
		  "of a batch without its columns, those of the build side alone are gathered");
	for (int s = 0; s < c.build.nsegments; s++)
		if (c.build.segments[s].nrows > 0)
			c.build.segments[s].payload = NULL;
	setting.sides = 0;
	claim(join_case(&c, &setting, &memory.env, &status) == NULL && status == HJG_OK,
		  "of a build side without its columns, too, nothing is gathered");
	case_destroy(&c);
	free(build);
	free(probe);
}

/* Test memory for the keys but not for the columns; then not even for the keys. */
static void
test_budgets(void)
{
	const Setting setting = {HJG_CPU_AUTO, {{128, 128}}, 0, MOST_PAGES};
	HjgCudaPool *normal = hjg_cuda_made(0)->pool;
	const HjgCudaTuning usual = hjg_cuda_tuning;

	hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 1000, .least_chunk_rows = 100};
	hjg_cuda_made(0)->pool = hjg_cuda_pool_create((size_t) 3 << 20);
	claim(run_join(8, HJG_MATCH_ALL, KEYS_UNIQUE, 20000, 5000, &setting) == NULL, "columns that the budget has no room for are left out");
	hjg_cuda_pool_trim(hjg_cuda_made(0)->pool, 0);
	hjg_cuda_made(0)->pool = hjg_cuda_pool_create((size_t) 13 * 64 * 1024);
	claim(run_join(8, HJG_MATCH_LEFT, KEYS_UNIFORM, 60000, 3000, &setting) == NULL, "joins in turns gather nothing");
	claim(hjg_cuda_pool_trim(hjg_cuda_made(0)->pool, 0) == 0, "no block is in use after them");
	hjg_cuda_made(0)->pool = normal;
	hjg_cuda_tuning = usual;
}

/* Test row numbers with holes, like those of a build side that many processes filled. */
static void
test_holes(void)
{
	static const hjg_u32 keys[] = {10, 11, 12, 13, 14, 15, 16, 17};
	const HjgPayloadBytes payload = {{4, 0}};
	hjg_u32		columns[8];
	HjgSegment	build[2];
	const HjgSegment probe = {.keys = keys, .nrows = 8};
	const HjgJoinSpec spec = {.key_width = 4, .mode = HJG_MATCH_ALL, .payload = payload};
	HjgPair    *page = aligned_alloc(64, HJG_SLAB_BYTES);
	HjgResult	result = {.pages = &page, .npages = 1, .page_pairs = hjg_page_pairs(payload)};
	HjgCursor	cursor = {0, 0, 0};
	Memory		memory;
	void	   *join;

	for (int few = 1; few >= 0; few--)
	{
		const hjg_u32 second = few ? 9 : 100000000;

		for (hjg_u32 i = 0; i < 8; i++)
			columns[i] = word_of(HJG_SIDE_BUILD, i < 4 ? i : second + i - 4, 0);
		build[0] = (HjgSegment) {.keys = keys, .nrows = 4, .payload = columns};
		build[1] = (HjgSegment) {.keys = keys + 4, .nrows = 4, .first_row = second, .payload = columns + 4};
		memory_init(&memory, NULL);
		cursor = (HjgCursor) {0, 0, 0};
		if (!claim(driver->build(0, &memory.env, &spec, build, 2, &join) == HJG_OK, "build rows up to %u are taken", second + 3))
			continue;
		claim(driver->probe(join, &probe, 1, &cursor, &result) == HJG_OK && result.npairs == 8 &&
			  result.gathered == (few ? HJG_SIDE_BIT(HJG_SIDE_BUILD) : 0) && columns_right(&result, payload),
			  few ? "columns are found where row numbers have holes" : "a side that is mostly holes is not gathered");
		driver->free(join);
	}
	free(page);
}

/* ---- faults ---- */

typedef struct Faulted
{
	const Case *c;
	const Setting *setting;
} Faulted;

static HjgStatus
run_faulted(const void *arg, const char **wrong)
{
	const Faulted *faulted = arg;
	HjgStatus	status;
	Memory		memory;

	memory_init(&memory, NULL);
	*wrong = join_case(faulted->c, faulted->setting, &memory.env, &status);
	return status;
}

static void
test_faults_everywhere(void)
{
	static const int strategies[] = {HJG_CUDA_TABLE, HJG_CUDA_CSR};
	const HjgCudaTuning normal = hjg_cuda_tuning;

	hjg_cuda_tuning = (HjgCudaTuning) {.most_chunk_rows = 100, .least_chunk_rows = 100};
	for (int k = 0; k < HJG_FAULT_KINDS; k++)
		for (int s = 0; s < 2; s++)
		{
			const Setting setting = {strategies[s], {{8, 12}}, ALL_SIDES, MOST_PAGES};
			Case		c;
			const Faulted faulted = {&c, &setting};
			hjg_u32    *build;
			hjg_u32    *probe;
			long		ncalls;

			case_create(&c, test_seed, 8, HJG_MATCH_ALL, s == 0 ? KEYS_UNIQUE : KEYS_DUPLICATES, 500, 350);
			build = make_columns(&c.build, HJG_SIDE_BUILD, 8);
			probe = make_columns(&c.probe, HJG_SIDE_PROBE, 12);
			ncalls = hjg_fail_everywhere(stub, hjg_fault_kinds[k].code, run_faulted, &faulted);
			case_destroy(&c);
			free(build);
			free(probe);
			claim(ncalls > 58, "%s at each of %ld calls, %s: right columns, a status or a clean end", hjg_fault_kinds[k].what,
				  ncalls, hjg_strategy_name(strategies[s]));
		}
	hjg_cuda_tuning = normal;
}

static void
test_nothing_leaks(void)
{
	const Setting setting = {HJG_CPU_AUTO, {{16, 16}}, ALL_SIDES, MOST_PAGES};
	HjgCudaDevice *device = hjg_cuda_made(0);

	run_join(8, HJG_MATCH_ALL, KEYS_UNIQUE, 3000, 2000, &setting);
	claim(hjg_cuda_pool_trim(device->pool, 0) == 0, "no block is in use after a join");
}

int
main(int argc, char **argv)
{
	static const char *const names[] = {"short", NULL};
	HjgDeviceInfo infos[HJG_CUDA_MAX_DEVICES] = {0};

	short_run = test_options(argc, argv, names) != 0;
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
	/* before the first context of this process, which does not survive a fork */
	if (stub != NULL)
		test_faults_everywhere();
	test_strategies();
	test_rounds();
	test_holes();
	test_nothing_leaks();
	test_declined();
	test_budgets();
	printf("1..%d\n", claims_passed + claims_failed);
	return claims_failed > 0;
}
