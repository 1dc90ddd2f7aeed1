/*
 * test_resume.c
 *	  Bounded results: any cut, any page size, any engine at any cut.
 */
#include "hjg_test_engine.h"

static const int widths[] = {4, 8, 16};

/* Run one probe call from *cursor on, on a join built for it alone. */
static const char *
round_on_fresh_join(const Case *c, HjgPool *pool, HjgCpuStrategy strategy, HjgCursor *cursor, HjgResult *result)
{
	const HjgJoinSpec spec = {.key_width = c->width, .mode = c->mode, .strategy = strategy};
	const HjgCursor from = *cursor;
	const char *wrong = NULL;
	Memory		memory;
	HjgJoin    *join;

	memory_init(&memory, pool);
	if (hjg_join_build(&memory.env, &spec, c->build.segments, c->build.nsegments, &join) != HJG_OK)
		return "build failed";
	if (hjg_join_probe(join, c->probe.segments, c->probe.nsegments, cursor, result) != HJG_OK)
		wrong = "probe failed";
	else if (!check_round(c, &from, cursor, result))
		wrong = "wrong round";
	hjg_join_free(join);
	return wrong;
}

static void
switch_at_every_cut(HjgPool *pool, int width, HjgMatchMode mode, KeyShape shape, hjg_u32 n, hjg_u32 capacity)
{
	const char *wrong = NULL;
	int			nrounds = 0;
	Case		c;
	HjgCursor	cursor = {0, 0, 0};
	Pages		pages;

	case_create(&c, test_seed + width, width, mode, shape, n, n);
	pages_create(&pages, 1, capacity);
	for (; wrong == NULL && cursor.row < c.probe.nrows; nrounds++)
		wrong = round_on_fresh_join(&c, nrounds % 2 ? pool : NULL, nrounds / 2 % 2, &cursor, &pages.result);
	claim(wrong == NULL, "%d-byte keys, %s, mode %d, capacity %u: another join goes on at each of %d cuts%s%s", width,
		  key_shape_names[shape], mode, capacity, nrounds, wrong ? ": " : "", wrong ? wrong : "");
	pages_destroy(&pages);
	case_destroy(&c);
}

/* Start at every place where a cut can be, not only where this engine cuts. */
static void
start_at_every_place(HjgPool *pool, int width, HjgMatchMode mode, KeyShape shape, hjg_u32 n)
{
	const HjgJoinSpec spec = {.key_width = width, .mode = mode};
	const char *wrong = NULL;
	hjg_u64		nstarts = 0;
	Memory		memory;
	HjgJoin    *join;
	Pages		pages[3];
	Case		c;

	case_create(&c, test_seed + width, width, mode, shape, n, n);
	pages_create(&pages[0], 1, 1);
	pages_create(&pages[1], 3, 3);
	pages_create(&pages[2], 1, (hjg_u32) c.nexpected + 1);
	memory_init(&memory, pool);
	if (hjg_join_build(&memory.env, &spec, c.build.segments, c.build.nsegments, &join) != HJG_OK)
		wrong = "build failed";
	for (hjg_u32 row = 0; wrong == NULL && row <= c.probe.nrows; row++)
	{
		hjg_u64		npairs = row < c.probe.nrows ? c.before[row + 1] - c.before[row] : 0;

		for (hjg_u64 skip = 0; wrong == NULL && (skip == 0 || skip < npairs); skip++)
		{
			for (int i = 0; wrong == NULL && i < 3; i++, nstarts++)
			{
				const HjgCursor from = {row, 0, skip};
				HjgCursor	cursor = from;

				if (hjg_join_probe(join, c.probe.segments, c.probe.nsegments, &cursor, &pages[i].result) != HJG_OK)
					wrong = "probe failed";
				else if (!check_round(&c, &from, &cursor, &pages[i].result))
					wrong = "wrong round";
			}
		}
	}
	claim(wrong == NULL, "%d-byte keys, %s, mode %d: %llu rounds from every place", width, key_shape_names[shape], mode,
		  (unsigned long long) nstarts);
	hjg_join_free(join);
	for (int i = 0; i < 3; i++)
		pages_destroy(&pages[i]);
	case_destroy(&c);
}

/* Check that the round is the slice of each of its rows, and count the pairs. */
static bool
check_slice(const Case *c, const HjgCursor *from, const HjgCursor *to, const HjgResult *result)
{
	hjg_u64		n = 0;

	if (to->most != from->most || to->row < from->row || to->skip != (to->row < c->probe.nrows ? from->skip : 0))
		return false;
	for (hjg_u32 row = from->row; row < to->row; row++)
	{
		hjg_u64		matches = c->before[row + 1] - c->before[row];
		hjg_u64		wanted = matches > from->skip ? matches - from->skip : 0;

		wanted = wanted < from->most ? wanted : from->most;
		for (hjg_u64 i = 0; i < wanted; i++, n++)
		{
			HjgPair		pair = result->pages[n / result->page_pairs][n % result->page_pairs];
			HjgPair		expected = c->expected[c->before[row + 1] - from->skip - wanted + i];

			if (n >= result->npairs || pair.probe_row != row || pair.build_row != expected.build_row)
				return false;
		}
	}
	return n == result->npairs;
}

/* Check a round of one match a row, in any order, which check_round() knows as mode SEMI. */
static bool
check_first_slice(const Case *c, const HjgCursor *from, const HjgCursor *to, const HjgResult *result,
				  hjg_u8 *seen)
{
	for (hjg_u64 i = 0; i < result->npairs; i++)
	{
		HjgPair		pair = result->pages[i / result->page_pairs][i % result->page_pairs];
		bool		found = false;

		if (pair.probe_row < from->row || pair.probe_row >= to->row || seen[pair.probe_row]++)
			return false;
		for (hjg_u64 j = c->before[pair.probe_row]; j < c->before[pair.probe_row + 1]; j++)
			found |= c->expected[j].build_row == pair.build_row;
		if (!found)
			return false;
	}
	for (hjg_u32 row = from->row; row < to->row; row++)
		if (!seen[row] && c->before[row + 1] > c->before[row])
			return false;
	return to->skip == 0 && to->most == 1;
}

/* Run all rows, slice by slice. */
static void
slices(HjgPool *pool, int width, KeyShape shape, hjg_u32 n, hjg_u32 most, hjg_u32 page_pairs)
{
	const HjgJoinSpec spec = {.key_width = width, .mode = HJG_MATCH_ALL};
	const char *wrong = NULL;
	hjg_u64		total = 0;
	hjg_u64		skip = 0;
	hjg_u64		last;
	int			nrounds = 0;
	Memory		memory;
	HjgJoin    *join;
	Pages		pages;
	Case		c;
	hjg_u8	   *seen;

	case_create(&c, test_seed + width, width, HJG_MATCH_ALL, shape, n, n);
	pages_create(&pages, 2, page_pairs);
	memory_init(&memory, pool);
	seen = calloc(c.probe.nrows + 1, 1);
	if (hjg_join_build(&memory.env, &spec, c.build.segments, c.build.nsegments, &join) != HJG_OK)
		wrong = "build failed";
	do
	{
		HjgCursor	cursor = {0, most, skip};

		last = total;
		while (wrong == NULL && cursor.row < c.probe.nrows)
		{
			const HjgCursor from = cursor;

			nrounds++;
			if (hjg_join_probe(join, c.probe.segments, c.probe.nsegments, &cursor, &pages.result) != HJG_OK)
				wrong = "probe failed";
			else if (cursor.row == from.row)
				wrong = "no progress";
			else if (most == 1 ? !check_first_slice(&c, &from, &cursor, &pages.result, seen) :
					 !check_slice(&c, &from, &cursor, &pages.result))
				wrong = "wrong slice";
			total += pages.result.npairs;
		}
		skip += most;
	} while (wrong == NULL && most > 1 && total > last);
	if (wrong == NULL && most > 1 && total != c.nexpected)
		wrong = "wrong number of pairs";
	claim(wrong == NULL, "%d-byte keys, %s: slices of %u pairs a row, %d rounds%s%s", width, key_shape_names[shape], most,
		  nrounds, wrong ? ": " : "", wrong ? wrong : "");
	hjg_join_free(join);
	pages_destroy(&pages);
	case_destroy(&c);
	free(seen);
}

/* Test requests that an engine must refuse. */
static void
impossible_slices(void)
{
	const hjg_u32 key = 0;
	const HjgSegment segment = {.keys = &key, .nrows = 1};
	static const struct
	{
		HjgMatchMode mode;
		HjgCursor	cursor;
	}			asked[] = {{HJG_MATCH_LEFT, {0, 2, 0}}, {HJG_MATCH_ALL, {0, 4, 0}}, {HJG_MATCH_ALL, {0, 1, 1}}};
	bool		good = true;
	Pages		pages;

	pages_create(&pages, 1, 3);
	for (int i = 0; i < 3; i++)
	{
		const HjgJoinSpec spec = {.key_width = 4, .mode = asked[i].mode};
		HjgCursor	cursor = asked[i].cursor;
		Memory		memory;
		HjgJoin    *join;

		memory_init(&memory, NULL);
		good = good && hjg_join_build(&memory.env, &spec, &segment, 1, &join) == HJG_OK &&
			hjg_join_probe(join, &segment, 1, &cursor, &pages.result) == HJG_ERR_INPUT;
		hjg_join_free(join);
	}
	claim(good, "a slice in another mode, larger than the result, or of one match behind the first, is refused");
	pages_destroy(&pages);
}

static void
tiny_pages(HjgPool *pool, KeyShape shape, hjg_u32 n)
{
	static const hjg_u32 page_pairs[] = {1, 2, 3, 5, 7, 1000};
	const char *wrong = NULL;

	for (int i = 0; i < 6 && !wrong; i++)
	{
		for (int npages = 1; npages <= 4 && !wrong; npages++)
		{
			Case		c;
			Memory		memory;

			case_create(&c, test_seed + (hjg_u64) i, widths[i % 3], i % 2 ? HJG_MATCH_LEFT : HJG_MATCH_ALL, shape, n, n);
			wrong = run_case(&c, pool, i % 2, npages, page_pairs[i], &memory);
			case_destroy(&c);
		}
	}
	claim(wrong == NULL, "pages of 1 to 1000 pairs, %s", key_shape_names[shape]);
}

/* Test far more output than memory: one key on both sides. */
static void
one_key_everywhere(HjgPool *pool, hjg_u32 n)
{
	const HjgJoinSpec spec = {.key_width = 4};
	hjg_u32    *keys = calloc(n, sizeof(hjg_u32));
	const HjgSegment segment = {.keys = keys, .nrows = n};
	HjgCursor	cursor = {0, 0, 0};
	hjg_u64		total = 0;
	hjg_u64		sum = 0;
	bool		good = true;
	hjg_u64		started;
	Memory		memory;
	HjgJoin    *join;
	Pages		pages;

	memory_init(&memory, pool);
	pages_create(&pages, 4, 65536);
	good = hjg_join_build(&memory.env, &spec, &segment, 1, &join) == HJG_OK;
	started = hjg_now_ns();
	while (good && cursor.row < n)
	{
		good = hjg_join_probe(join, &segment, 1, &cursor, &pages.result) == HJG_OK;
		for (hjg_u64 i = 0; i < pages.result.npairs; i += 4099)
		{
			HjgPair		pair = pages.result.pages[i / 65536][i % 65536];

			good = good && (hjg_u64) pair.probe_row * n + pair.build_row == total + i;
		}
		total += pages.result.npairs;
		sum++;
	}
	claim(good && total == (hjg_u64) n * n, "%u x %u rows of one key: %llu pairs in %llu rounds, %.2f ns a pair, %zu kB", n, n,
		  (unsigned long long) total, (unsigned long long) sum, (double) (hjg_now_ns() - started) / (double) total,
		  memory.peak_bytes / 1024);
	hjg_join_free(join);
	pages_destroy(&pages);
	free(keys);
}

/* Test a resumed batch in the buffer of another: no state of the old batch may show. */
static void
reused_buffer(void)
{
	const HjgJoinSpec spec = {.key_width = 4};
	hjg_u32		build[40];
	hjg_u32		probe[10] = {0};
	const HjgSegment build_segment = {.keys = build, .nrows = 40};
	const HjgSegment probe_segment = {.keys = probe, .nrows = 10};
	HjgCursor	cursor = {0, 0, 0};
	bool		good = true;
	Memory		memory;
	HjgJoin    *join;
	Pages		pages;

	for (hjg_u32 i = 0; i < 40; i++)
		build[i] = i % 2;
	memory_init(&memory, NULL);
	pages_create(&pages, 1, 30);
	good = hjg_join_build(&memory.env, &spec, &build_segment, 1, &join) == HJG_OK;
	good = good && hjg_join_probe(join, &probe_segment, 1, &cursor, &pages.result) == HJG_OK &&
		cursor.row == 1 && cursor.skip == 10;
	for (int i = 0; i < 10; i++)
		probe[i] = 1;
	good = good && hjg_join_probe(join, &probe_segment, 1, &cursor, &pages.result) == HJG_OK &&
		pages.result.pages[0][0].build_row == 21 && pages.result.pages[0][0].probe_row == 1;
	claim(good, "a round looks at the keys it is given, not at an earlier round's");
	hjg_join_free(join);
	pages_destroy(&pages);
}

void
test_resume(void)
{
	HjgPool    *pool = hjg_pool_create(4);
	const hjg_u32 n = short_run ? 60 : 200;

	tune_small();
	for (int w = 0; w < 3; w++)
	{
		for (int mode = 0; mode <= HJG_MATCH_ANTI; mode++)
		{
			start_at_every_place(pool, widths[w], mode, KEYS_DUPLICATES, n);
			start_at_every_place(NULL, widths[w], mode, KEYS_COLLIDING_HOT, n / 2);
			start_at_every_place(pool, widths[w], mode, KEYS_DENSE_REPEATED, n / 2);
			switch_at_every_cut(pool, widths[w], mode, KEYS_DUPLICATES, n, 1);
			switch_at_every_cut(pool, widths[w], mode, KEYS_ZIPF_10, 2 * n, 37);
			switch_at_every_cut(pool, widths[w], mode, KEYS_ONE_HOT_BOTH, n / 2, 23);
		}
	}
	for (int shape = 0; shape < KEYS_NSHAPES; shape++)
		tiny_pages(pool, shape, n / 3);
	for (int w = 0; w < 3; w++)
	{
		for (hjg_u32 most = 1; most <= 64; most *= 4)
		{
			slices(pool, widths[w], KEYS_DUPLICATES, n, most, 37);
			slices(NULL, widths[w], KEYS_ONE_HOT_BOTH, n, most, 64);
			slices(pool, widths[w], KEYS_DENSE_REPEATED, n, most, 64);
			slices(pool, widths[w], KEYS_ZIPF_10, 4 * n, most, 4 * n);
		}
	}
	impossible_slices();
	tune_default();
	reused_buffer();
	one_key_everywhere(pool, short_run ? 1000 : 47000);
	one_key_everywhere(NULL, short_run ? 1000 : 8000);
	hjg_pool_destroy(pool);
}
