/*
 * test_support.c
 *	  The harness of hjg_test_engine.h: claims, random numbers, memory, rounds and their check.
 */
#include <getopt.h>
#include <stdarg.h>

#include "hjg_test_engine.h"
#include "layout/hjg_checksum.h"

int			claims_passed;
int			claims_failed;
bool		short_run;
hjg_u64		test_seed;

#define MAX_OPTIONS 8

unsigned
test_options(int argc, char **argv, const char *const *names)
{
	struct option options[MAX_OPTIONS + 1] = {0};
	unsigned	given = 0;
	int			option;

	for (int i = 0; i < MAX_OPTIONS && names[i] != NULL; i++)
		options[i] = (struct option) {names[i], no_argument, NULL, i};
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
	{
		if (option == '?')
			exit(2);
		given |= 1u << option;
	}
	return given;
}

void
set_test_seed(hjg_u64 seed)
{
	Random		random = {seed};

	test_seed = seed;
	hjg_hash_seed = (HjgHashSeed) {random_u64(&random), random_u64(&random) | 1};
}

bool
claim(bool condition, const char *format,...)
{
	va_list		args;

	if (condition)
		claims_passed++;
	else
		claims_failed++;
	printf("%s %d - ", condition ? "ok" : "not ok", claims_passed + claims_failed);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	return condition;
}

/* splitmix64 */
hjg_u64
random_u64(Random *random)
{
	hjg_u64		z = (random->state += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

hjg_u32
random_below(Random *random, hjg_u32 n)
{
	return n ? (hjg_u32) (random_u64(random) % n) : 0;
}

/* --- memory --- */

static void *
memory_alloc(void *arg, size_t bytes)
{
	Memory	   *memory = arg;
	void	   *p;

	memory->nallocs++;
	if (memory->nallocs == memory->fail_at)
		return NULL;
	p = aligned_alloc(64, hjg_align64(bytes));
	if (p == NULL)
		abort();
	for (int i = 0; i < MEMORY_BLOCKS; i++)
	{
		if (memory->blocks[i] == NULL)
		{
			memory->blocks[i] = p;
			break;
		}
	}
	memory->live_blocks++;
	memory->live_bytes += bytes;
	if (memory->live_bytes > memory->peak_bytes)
		memory->peak_bytes = memory->live_bytes;
	return p;
}

static void
memory_free(void *arg, void *ptr, size_t bytes)
{
	Memory	   *memory = arg;
	bool		known = false;

	for (int i = 0; i < MEMORY_BLOCKS && !known; i++)
	{
		if (memory->blocks[i] == ptr)
		{
			memory->blocks[i] = NULL;
			known = true;
		}
	}
	if (!known)
		abort();
	memory->live_blocks--;
	memory->live_bytes -= bytes;
	free(ptr);
}

static bool
memory_poll(void *arg)
{
	Memory	   *memory = arg;
	long		n = __atomic_add_fetch(&memory->npolls, 1, __ATOMIC_RELAXED);

	if (memory->cancel_at == 0 || n < memory->cancel_at)
		return false;
	if (memory->jump)
		longjmp(*memory->jump, 1);
	return true;
}

void
memory_init(Memory *memory, HjgPool *pool)
{
	*memory = (Memory) {.env = {.pool = pool, .alloc = memory_alloc, .free = memory_free, .poll = memory_poll}};
	memory->env.arg = memory;
}

void
memory_release_all(Memory *memory)
{
	for (int i = 0; i < MEMORY_BLOCKS; i++)
	{
		free(memory->blocks[i]);
		memory->blocks[i] = NULL;
	}
	memory->live_blocks = 0;
	memory->live_bytes = 0;
}

bool
memory_is_clean(const Memory *memory)
{
	return memory->live_blocks == 0 && memory->live_bytes == 0;
}

/* --- results --- */

void
pages_create(Pages *pages, int npages, hjg_u32 page_pairs)
{
	size_t		page_bytes = hjg_align64(sizeof(HjgPair) * page_pairs);

	pages->memory = aligned_alloc(64, page_bytes * (size_t) npages);
	pages->result = (HjgResult) {.pages = malloc(sizeof(HjgPair *) * (size_t) npages), .npages = npages,
		.page_pairs = page_pairs};
	for (int i = 0; i < npages; i++)
		pages->result.pages[i] = (HjgPair *) ((char *) pages->memory + page_bytes * (size_t) i);
}

void
pages_destroy(Pages *pages)
{
	free(pages->result.pages);
	free(pages->memory);
}

static int
compare_pairs(const void *a, const void *b)
{
	const HjgPair *x = a;
	const HjgPair *y = b;

	if (x->probe_row != y->probe_row)
		return x->probe_row < y->probe_row ? -1 : 1;
	return (x->build_row > y->build_row) - (x->build_row < y->build_row);
}

static const hjg_u8 *
key_of_row(int width, const Side *side, hjg_u32 row)
{
	for (int s = 0; s < side->nsegments; s++)
	{
		const HjgSegment *segment = &side->segments[s];

		if (row >= segment->first_row && row - segment->first_row < segment->nrows)
			return (const hjg_u8 *) segment->keys + (size_t) (row - segment->first_row) * (size_t) width;
	}
	return NULL;
}

bool		rounds_may_end_early;

bool
check_round(const Case *c, const HjgCursor *from, const HjgCursor *to, const HjgResult *result)
{
	hjg_u64		first = c->before[from->row] + from->skip;
	hjg_u64		capacity = (hjg_u64) result->npages * result->page_pairs;
	HjgPair    *pairs;
	hjg_u64		checksum = 0;
	bool		good = true;

	if (to->row > c->probe.nrows || (to->row == c->probe.nrows && to->skip > 0))
		return false;
	if (c->before[to->row] + to->skip != first + result->npairs || result->npairs > capacity)
		return false;
	if (to->row < c->probe.nrows)
	{
		if (to->skip > 0 && to->skip >= c->before[to->row + 1] - c->before[to->row])
			return false;
		if (result->npairs != capacity && !rounds_may_end_early)
			return false;
	}
	pairs = malloc(sizeof(HjgPair) * (result->npairs + 1));
	for (hjg_u64 i = 0; i < result->npairs; i++)
		pairs[i] = result->pages[i / result->page_pairs][i % result->page_pairs];
	qsort(pairs, result->npairs, sizeof(HjgPair), compare_pairs);
	for (hjg_u64 i = 0; i < result->npairs && good; i++)
	{
		checksum += hjg_checksum_pair(pairs[i].probe_row, pairs[i].build_row);
		good = pairs[i].probe_row == c->expected[first + i].probe_row;
		if (c->mode != HJG_MATCH_SEMI)
			good = good && pairs[i].build_row == c->expected[first + i].build_row;
		else if (good && pairs[i].build_row != c->expected[first + i].build_row)
		{
			const hjg_u8 *key = key_of_row(c->width, &c->build, pairs[i].build_row);

			good = key != NULL &&
				memcmp(key, key_of_row(c->width, &c->probe, pairs[i].probe_row), (size_t) c->width) == 0;
		}
	}
	free(pairs);
	return good && (!result->summed || result->checksum == checksum);
}

const char *
run_rounds(const Case *c, ProbeFn probe, void *join, int npages, hjg_u32 page_pairs)
{
	const char *wrong = NULL;
	HjgCursor	cursor = {0, 0, 0};
	hjg_u64		total = 0;
	Pages		pages;

	pages_create(&pages, npages, page_pairs);
	pages.result.sum = c->nexpected % 2 == 0;
	do
	{
		HjgCursor	from = cursor;

		if (probe(join, c->probe.segments, c->probe.nsegments, &cursor, &pages.result) != HJG_OK)
			wrong = "probe failed";
		else if (!check_round(c, &from, &cursor, &pages.result))
			wrong = "wrong round";
		else if (cursor.row < c->probe.nrows && cursor.row == from.row && cursor.skip == from.skip)
			wrong = "no progress";
		total += pages.result.npairs;
	} while (wrong == NULL && cursor.row < c->probe.nrows);
	if (wrong == NULL && total != c->nexpected)
		wrong = "wrong number of pairs";
	pages_destroy(&pages);
	return wrong;
}

static HjgStatus
probe_join(void *join, const HjgSegment *segments, int nsegments, HjgCursor *cursor, HjgResult *result)
{
	HjgStatus	status = hjg_join_probe(join, segments, nsegments, cursor, result);

	return status == HJG_OK && result->summed != result->sum ? HJG_ERR_INPUT : status;
}

const char *
run_case(const Case *c, HjgPool *pool, HjgCpuStrategy strategy, int npages, hjg_u32 page_pairs, Memory *memory)
{
	const HjgJoinSpec spec = {.key_width = c->width, .mode = c->mode, .strategy = strategy};
	const char *wrong;
	HjgJobStats stats;
	HjgJoin    *join;

	memory_init(memory, pool);
	if (hjg_join_build(&memory->env, &spec, c->build.segments, c->build.nsegments, &join) != HJG_OK)
		return "build failed";
	wrong = run_rounds(c, probe_join, join, npages, page_pairs);
	hjg_join_stats(join, &stats);
	if (wrong == NULL && (stats.build_rows != c->build.nrows || stats.probe_rows != c->probe.nrows ||
						  stats.pairs != c->nexpected || stats.workspace_bytes != memory->peak_bytes))
		wrong = "wrong statistics";
	hjg_join_free(join);
	if (wrong == NULL && !memory_is_clean(memory))
		wrong = "memory left";
	if (wrong == NULL && memory->peak_bytes > hjg_join_workspace_bytes(c->width, hjg_pool_nthreads(pool), c->build.nrows, c->probe.nrows))
		wrong = "more memory than hjg_join_workspace_bytes() says";
	return wrong;
}

/* --- tuning --- */

static HjgTuning default_tuning;
static bool have_default;

void
tune_small(void)
{
	if (!have_default)
		default_tuning = hjg_engine_tuning;
	have_default = true;
	hjg_engine_tuning.l2_bytes = 2048;
	hjg_engine_tuning.slot_rows = 64;
	hjg_engine_tuning.chunk_rows = 64;
	hjg_engine_tuning.unit_rows = 64;
	hjg_engine_tuning.giant_rows = 128;
	hjg_engine_tuning.min_fast_rows = 16;
}

void
tune_default(void)
{
	if (have_default)
		hjg_engine_tuning = default_tuning;
}
