/*
 * test_support.c
 *	  The harness behind hjg_test_engine.h.
 */
#include <math.h>
#include <stdarg.h>

#include "hjg_test_engine.h"

int			claims_passed;
int			claims_failed;
bool		short_run;
hjg_u64		test_seed;

const char *const key_shape_names[KEYS_NSHAPES] = {
	"uniform", "duplicates", "zipf 0.5", "zipf 1.0", "zipf 1.5", "one-hot build", "one-hot probe",
	"one-hot both", "colliding", "colliding and hot", "extreme", "disjoint",
	"unique", "dense", "dense and repeated"
};

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

/* --- keys --- */

/* Zipf by inversion of the continuous approximation; exact shape does not matter here. */
static hjg_u32
zipf(Random *random, hjg_u32 n, double theta)
{
	double		u = (double) (random_u64(random) >> 11) / 9007199254740992.0;
	double		x;

	if (theta > 0.99 && theta < 1.01)
		x = pow((double) n + 1, u);
	else
		x = pow(u * (pow((double) n + 1, 1 - theta) - 1) + 1, 1 / (1 - theta));
	return x - 1 < n ? (hjg_u32) (x - 1) : n - 1;
}

static void
put_key(int width, hjg_u8 *key, hjg_u64 id)
{
	hjg_u64		words[2] = {id * 0x9e3779b97f4a7c15u, id};

	if (width == 4)
	{
		hjg_u32		word = (hjg_u32) id * 2654435761u;

		memcpy(key, &word, 4);
	}
	else if (width == 8)
		memcpy(key, &words[0], 8);
	else
		memcpy(key, words, 16);
}

/* Keys whose mixes share their first bits and differ in the last 8, or only in the low word. */
static void
put_colliding_key(int width, hjg_u8 *key, hjg_u32 id)
{
	hjg_u64		words[2];

	if (width == 4)
	{
		hjg_u32		word = hjg_unmix32(0xabcdef00u + id % 256);

		memcpy(key, &word, 4);
	}
	else if (width == 8)
	{
		words[0] = hjg_unmix64(0xabcdef0123456700u + id % 256 + ((hjg_u64) (id / 256) << 20));
		memcpy(key, words, 8);
	}
	else
	{
		words[1] = id * 0x9e3779b97f4a7c15u;
		words[0] = hjg_unmix128(0xabcdef0123456700u + id % 3, words[1]);
		memcpy(key, words, 16);
	}
}

static void
put_extreme_key(int width, hjg_u8 *key, hjg_u32 id)
{
	memset(key, 0, (size_t) width);
	id %= (hjg_u32) (8 * width + 3);
	if (id == 1)
		memset(key, 0xFF, (size_t) width);
	else if (id == 2)
		memset(key, 0xFF, (size_t) width / 2);
	else if (id >= 3)
		key[(id - 3) / 8] = (hjg_u8) (1u << (id - 3) % 8);
}

static void
put_dense_key(int width, hjg_u8 *key, hjg_u32 id)
{
	const hjg_u64 number = 0xFFFFFFFFu - 100000 + (hjg_u64) id;

	memset(key, 0, (size_t) width);
	memcpy(key, &number, width < 8 ? (size_t) width : 8);
}

static void
fill_keys(Case *c, KeyShape shape, Side *side, bool is_build)
{
	const hjg_u32 domain = c->build.nrows > 8 ? c->build.nrows : 8;
	const double thetas[] = {0.5, 1.0, 1.5};

	for (hjg_u32 i = 0; i < side->nrows; i++)
	{
		hjg_u8	   *key = side->keys + (size_t) i * (size_t) c->width;
		hjg_u32		id = random_below(&c->random, domain);

		switch (shape)
		{
			case KEYS_DUPLICATES:
				id %= domain / 8;
				break;
			case KEYS_ZIPF_05:
			case KEYS_ZIPF_10:
			case KEYS_ZIPF_15:
				if (!is_build || i % 4 == 0)
					id = zipf(&c->random, domain, thetas[shape - KEYS_ZIPF_05]);
				break;
			case KEYS_ONE_HOT_BUILD:
				if (is_build && i > 0)
					id = 7;
				break;
			case KEYS_ONE_HOT_PROBE:
				if (!is_build)
					id = 7;
				break;
			case KEYS_ONE_HOT_BOTH:
				id = 7;
				break;
			case KEYS_DISJOINT:
				id += is_build ? 0 : domain;
				break;
			case KEYS_UNIQUE:
			case KEYS_DENSE:
				id = is_build ? i : id + random_below(&c->random, 2) * (domain / 4);
				break;
			case KEYS_DENSE_REPEATED:
				id = is_build && i % 2 ? 3 : id % (domain / 8 + 1);
				break;
			default:
				break;
		}
		if (shape == KEYS_COLLIDING)
			put_colliding_key(c->width, key, id);
		else if (shape == KEYS_COLLIDING_HOT)
			put_colliding_key(c->width, key, is_build && id % 16 ? 5 : id % 100);
		else if (shape == KEYS_EXTREME)
			put_extreme_key(c->width, key, id);
		else if (shape == KEYS_DENSE || shape == KEYS_DENSE_REPEATED)
			put_dense_key(c->width, key, id);
		else
			put_key(c->width, key, id);
	}
}

/* --- segments --- */

static void
cut_segments(Case *c, Side *side, bool is_build)
{
	hjg_u32		most = random_below(&c->random, 3) ? 1 + side->nrows / 3 : 1 + side->nrows;
	hjg_u32		done = 0;
	hjg_u32		row = 0;

	side->segments = malloc(sizeof(HjgSegment) * (side->nrows + 4));
	side->nsegments = 0;
	while (done < side->nrows || side->nsegments < 2)
	{
		HjgSegment *segment = &side->segments[side->nsegments];
		hjg_u32		n = 1 + random_below(&c->random, most);

		if (side->nsegments == 1)
			n = 0;
		if (side->nsegments > 20 || n > side->nrows - done)
			n = side->nrows - done;
		if (is_build && random_below(&c->random, 2))
			row += random_below(&c->random, 1000);
		*segment = (HjgSegment) {.keys = side->keys + (size_t) done * (size_t) c->width, .nrows = n, .first_row = row};
		row += n;
		done += n;
		side->nsegments++;
	}
	for (int i = side->nsegments - 1; is_build && i > 0; i--)
	{
		int			j = (int) random_below(&c->random, (hjg_u32) i + 1);
		HjgSegment	segment = side->segments[i];

		side->segments[i] = side->segments[j];
		side->segments[j] = segment;
	}
}

/* --- the reference --- */

typedef struct RefRow
{
	hjg_u8		key[16];
	hjg_u32		row;
} RefRow;

static int
compare_ref(const void *a, const void *b)
{
	const RefRow *x = a;
	const RefRow *y = b;
	int			order = memcmp(x->key, y->key, 16);

	return order ? order : (x->row > y->row) - (x->row < y->row);
}

static RefRow *
collect(const Case *c, const Side *side)
{
	RefRow	   *rows = calloc(side->nrows + 1, sizeof(RefRow));
	hjg_u32		n = 0;

	for (int s = 0; s < side->nsegments; s++)
	{
		for (hjg_u32 i = 0; i < side->segments[s].nrows; i++, n++)
		{
			memcpy(rows[n].key, (const hjg_u8 *) side->segments[s].keys + (size_t) i * (size_t) c->width, (size_t) c->width);
			rows[n].row = side->segments[s].first_row + i;
		}
	}
	return rows;
}

static void
expect(Case *c, hjg_u64 *allocated, hjg_u32 probe_row, hjg_u32 build_row)
{
	if (c->nexpected == *allocated)
	{
		*allocated = *allocated * 2 + 64;
		c->expected = realloc(c->expected, sizeof(HjgPair) * *allocated);
	}
	c->expected[c->nexpected++] = (HjgPair) {probe_row, build_row};
}

static void
join_reference(Case *c)
{
	RefRow	   *build = collect(c, &c->build);
	RefRow	   *probe = collect(c, &c->probe);
	hjg_u64		allocated = 0;

	qsort(build, c->build.nrows, sizeof(RefRow), compare_ref);
	c->before = malloc(sizeof(hjg_u64) * (c->probe.nrows + 1));
	for (hjg_u32 i = 0; i < c->probe.nrows; i++)
	{
		hjg_u32		lo = 0;
		hjg_u32		hi = c->build.nrows;
		bool		matched;

		c->before[i] = c->nexpected;
		while (lo < hi)
		{
			hjg_u32		mid = (lo + hi) / 2;

			if (memcmp(build[mid].key, probe[i].key, 16) < 0)
				lo = mid + 1;
			else
				hi = mid;
		}
		matched = lo < c->build.nrows && memcmp(build[lo].key, probe[i].key, 16) == 0;
		if (c->mode == HJG_MATCH_ANTI || (c->mode == HJG_MATCH_LEFT && !matched))
		{
			if (!matched)
				expect(c, &allocated, i, HJG_NO_ROW);
			continue;
		}
		for (; lo < c->build.nrows && memcmp(build[lo].key, probe[i].key, 16) == 0; lo++)
		{
			expect(c, &allocated, i, build[lo].row);
			if (c->mode == HJG_MATCH_SEMI)
				break;
		}
	}
	c->before[c->probe.nrows] = c->nexpected;
	free(build);
	free(probe);
}

/* Segments and the reference of keys that are there. */
static void
finish_case(Case *c)
{
	cut_segments(c, &c->build, true);
	cut_segments(c, &c->probe, false);
	join_reference(c);
}

void
case_create(Case *c, hjg_u64 seed, int width, HjgMatchMode mode, KeyShape shape, hjg_u32 nbuild, hjg_u32 nprobe)
{
	*c = (Case) {.width = width, .mode = mode, .build.nrows = nbuild, .probe.nrows = nprobe, .random.state = seed};
	c->build.keys = malloc((size_t) nbuild * (size_t) width + 1);
	c->probe.keys = malloc((size_t) nprobe * (size_t) width + 1);
	fill_keys(c, shape, &c->build, true);
	fill_keys(c, shape, &c->probe, false);
	finish_case(c);
}

void
case_of_keys(Case *c, hjg_u64 seed, int width, HjgMatchMode mode, hjg_u8 *build, hjg_u32 nbuild, hjg_u8 *probe, hjg_u32 nprobe)
{
	*c = (Case) {.width = width, .mode = mode, .build = {.keys = build, .nrows = nbuild},
		.probe = {.keys = probe, .nrows = nprobe}, .random.state = seed};
	finish_case(c);
}

void
case_destroy(Case *c)
{
	free(c->build.keys);
	free(c->probe.keys);
	free(c->build.segments);
	free(c->probe.segments);
	free(c->expected);
	free(c->before);
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
	return good;
}

const char *
run_rounds(const Case *c, ProbeFn probe, void *join, int npages, hjg_u32 page_pairs)
{
	const char *wrong = NULL;
	HjgCursor	cursor = {0, 0, 0};
	hjg_u64		total = 0;
	Pages		pages;

	pages_create(&pages, npages, page_pairs);
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
	return hjg_join_probe(join, segments, nsegments, cursor, result);
}

const char *
run_case(const Case *c, HjgPool *pool, HjgCpuStrategy strategy, int npages, hjg_u32 page_pairs, Memory *memory)
{
	const HjgJoinSpec spec = {.key_width = c->width, .mode = c->mode, .strategy = strategy};
	const char *wrong;
	HjgJoinStats stats;
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
	if (wrong == NULL && memory->peak_bytes > hjg_join_workspace_bytes(&spec, c->build.nrows, c->probe.nrows))
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
