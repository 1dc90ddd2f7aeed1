/*
 * test_faults.c
 *	  Cancellation at every poll, failure of every allocation, bad input, and the frequency of poll().
 */
#include <time.h>

#include "hjg_test_engine.h"

/* Build and probe; returns the status that ended it. */
static HjgStatus
attempt(const Case *c, Memory *memory, HjgCpuStrategy strategy, Pages *pages)
{
	const HjgJoinSpec spec = {.key_width = c->width, .mode = c->mode, .strategy = strategy};
	HjgCursor	cursor = {0, 0, 0};
	HjgStatus	status;
	HjgJoin    *join;

	status = hjg_join_build(&memory->env, &spec, c->build.segments, c->build.nsegments, &join);
	if (status != HJG_OK)
		return join == NULL ? status : HJG_ERR_INPUT;
	while (status == HJG_OK && cursor.row < c->probe.nrows)
	{
		const HjgCursor from = cursor;

		status = hjg_join_probe(join, c->probe.segments, c->probe.nsegments, &cursor, &pages->result);
		if (status != HJG_OK && (cursor.row != from.row || cursor.skip != from.skip))
			status = HJG_ERR_INPUT;
	}
	hjg_join_free(join);
	return status;
}

/* Choose a strategy that gives dense keys an array, and others a table. */
static HjgCpuStrategy
strategy_of(KeyShape shape)
{
	return shape == KEYS_DENSE || shape == KEYS_DENSE_REPEATED ? HJG_CPU_AUTO : HJG_CPU_NOP;
}

static void
every_poll(HjgPool *pool, int width, KeyShape shape, bool jump)
{
	volatile HjgStatus status = HJG_ERR_CANCELLED;
	volatile bool clean = true;
	volatile long n = 0;
	Case		c;
	Pages		pages;

	case_create(&c, test_seed, width, HJG_MATCH_ALL, shape, 3000, 2000);
	pages_create(&pages, 2, (hjg_u32) c.nexpected / 4 + 1);
	while (status == HJG_ERR_CANCELLED && clean && n < (short_run ? 40 : 2000))
	{
		Memory		memory;
		jmp_buf		env;

		n++;
		memory_init(&memory, pool);
		memory.cancel_at = n;
		if (jump)
		{
			memory.jump = &env;
			if (setjmp(env) == 0)
				status = attempt(&c, &memory, (HjgCpuStrategy) (n % 2), &pages);
			else
				memory_release_all(&memory);
		}
		else
			status = attempt(&c, &memory, (HjgCpuStrategy) (n % 2), &pages);
		clean = memory_is_clean(&memory);
	}
	claim((status == HJG_OK || status == HJG_ERR_CANCELLED) && clean && n > 10,
		  "%d-byte keys, %s, %d threads: cancelled %s at each of %ld polls, nothing left", width, key_shape_names[shape],
		  hjg_pool_nthreads(pool), jump ? "by a long jump" : "by status", n);
	pages_destroy(&pages);
	case_destroy(&c);
}

static void
every_alloc(HjgPool *pool, int width, KeyShape shape)
{
	HjgStatus	status = HJG_ERR_MEMORY;
	bool		clean = true;
	long		n = 0;
	Case		c;
	Pages		pages;

	case_create(&c, test_seed, width, HJG_MATCH_LEFT, shape, 3000, 2000);
	pages_create(&pages, 2, (hjg_u32) c.nexpected / 4 + 1);
	while (status == HJG_ERR_MEMORY && clean && n < 100)
	{
		Memory		memory;

		n++;
		memory_init(&memory, pool);
		memory.fail_at = n;
		status = attempt(&c, &memory, strategy_of(shape), &pages);
		clean = memory_is_clean(&memory);
	}
	claim(status == HJG_OK && clean && n > (strategy_of(shape) == HJG_CPU_AUTO ? 3 : 5), "%d-byte keys, %s, %d threads: each of %ld allocations may fail", width,
		  key_shape_names[shape], hjg_pool_nthreads(pool), n - 1);
	pages_destroy(&pages);
	case_destroy(&c);
}

/* Test that a failed or cancelled probe leaves a join that can be probed again. */
static void
goes_on_after_failure(HjgPool *pool)
{
	const HjgJoinSpec spec = {.key_width = 8, .strategy = HJG_CPU_NOP};
	HjgCursor	cursor = {0, 0, 0};
	const HjgCursor start = {0, 0, 0};
	bool		good;
	Memory		memory;
	HjgJoin    *join;
	Pages		pages;
	Case		c;

	case_create(&c, test_seed, 8, HJG_MATCH_ALL, KEYS_UNIFORM, 3000, 2000);
	pages_create(&pages, 1, (hjg_u32) c.nexpected + 1);
	memory_init(&memory, pool);
	good = hjg_join_build(&memory.env, &spec, c.build.segments, c.build.nsegments, &join) == HJG_OK;
	for (long i = 1; good && i < 4; i++)
	{
		memory.fail_at = memory.nallocs + i;
		good = hjg_join_probe(join, c.probe.segments, c.probe.nsegments, &cursor, &pages.result) == HJG_ERR_MEMORY ||
			cursor.row == c.probe.nrows;
		cursor = start;
		memory.cancel_at = memory.npolls + i;
		good = good && hjg_join_probe(join, c.probe.segments, c.probe.nsegments, &cursor, &pages.result) != HJG_ERR_INPUT;
		cursor = start;
		memory.fail_at = 0;
		memory.cancel_at = 0;
	}
	good = good && hjg_join_probe(join, c.probe.segments, c.probe.nsegments, &cursor, &pages.result) == HJG_OK &&
		check_round(&c, &start, &cursor, &pages.result);
	claim(good, "%d threads: a join outlives failed and cancelled rounds", hjg_pool_nthreads(pool));
	hjg_join_free(join);
	pages_destroy(&pages);
	case_destroy(&c);
}

static void
bad_input(void)
{
	const hjg_u64 keys[4] = {1, 2, 3, 4};
	HjgJoinSpec spec = {.key_width = 8};
	HjgSegment	build[2] = {{.keys = keys, .nrows = 4, .first_row = 10}, {.keys = keys, .nrows = 4, .first_row = 13}};
	HjgSegment	probe[2] = {{.keys = keys, .nrows = 4}, {.keys = keys, .nrows = 4, .first_row = 5}};
	HjgCursor	cursor = {0, 0, 0};
	HjgPair		pair[64];
	HjgPair    *page = pair;
	HjgResult	result = {.pages = &page, .npages = 1, .page_pairs = 64};
	Memory		memory;
	HjgJoin    *join;

	memory_init(&memory, NULL);
	claim(hjg_join_build(&memory.env, &spec, build, 2, &join) == HJG_ERR_INPUT && join == NULL, "overlapping row numbers are refused");
	build[1].first_row = HJG_NO_ROW - 3;
	claim(hjg_join_build(&memory.env, &spec, build, 2, &join) == HJG_ERR_INPUT, "row number HJG_NO_ROW is refused");
	spec.key_width = 5;
	claim(hjg_join_build(&memory.env, &spec, build, 1, &join) == HJG_ERR_INPUT, "a key of 5 bytes is refused");
	spec.key_width = 8;
	build[1].first_row = HJG_NO_ROW - 4;
	claim(hjg_join_build(&memory.env, &spec, build, 2, &join) == HJG_OK, "the last row number is accepted");
	claim(hjg_join_probe(join, probe, 2, &cursor, &result) == HJG_ERR_INPUT, "probe rows with a hole are refused");
	result.page_pairs = 0;
	claim(hjg_join_probe(join, probe, 1, &cursor, &result) == HJG_ERR_INPUT, "a result without room is refused");
	result.page_pairs = 64;
	cursor.row = 5;
	claim(hjg_join_probe(join, probe, 1, &cursor, &result) == HJG_ERR_INPUT, "a cursor behind the batch is refused");
	cursor = (HjgCursor) {0, 0, 0};
	claim(hjg_join_probe(join, probe, 1, &cursor, &result) == HJG_OK && result.npairs == 8 && cursor.row == 4, "and the join still works");
	hjg_join_free(join);
	claim(memory_is_clean(&memory), "nothing left after bad input");
}

/* The longest time that a thread worked between two polls, on the thread's own clock. */
static hjg_u64 longest_gap_ns;
static __thread hjg_u64 last_poll_ns;

static bool
timing_poll(void *arg)
{
	struct timespec ts;
	hjg_u64		now;

	(void) arg;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	now = (hjg_u64) ts.tv_sec * 1000000000u + (hjg_u64) ts.tv_nsec;
	if (last_poll_ns > 0 && now - last_poll_ns > longest_gap_ns)
		longest_gap_ns = now - last_poll_ns;
	last_poll_ns = now;
	return false;
}

static void
poll_gaps(KeyShape shape)
{
	Case		c;
	Memory		memory;
	Pages		pages;
	HjgStatus	status;
	hjg_u64		least = (hjg_u64) -1;

	case_create(&c, test_seed, 8, HJG_MATCH_SEMI, shape, 1500000, 1000000);
	pages_create(&pages, 1, 1000000);
	for (int i = 0; i < 5; i++)
	{
		memory_init(&memory, NULL);
		memory.env.poll = timing_poll;
		longest_gap_ns = 0;
		last_poll_ns = 0;
		status = attempt(&c, &memory, strategy_of(shape), &pages);
		if (status == HJG_OK && longest_gap_ns < least)
			least = longest_gap_ns;
	}
	claim(least < 3000000, "%s: at most %.2f ms of work between polls (best of 5 runs; 1 meant, 3 allowed)", key_shape_names[shape],
		  (double) least / 1e6);
	pages_destroy(&pages);
	case_destroy(&c);
}

void
test_faults(void)
{
	HjgPool    *pool = hjg_pool_create(4);

	tune_small();
	for (int shape = 0; shape < KEYS_NSHAPES; shape += short_run ? 4 : 1)
	{
		if (shape == KEYS_ONE_HOT_BOTH)
			continue;
		every_poll(NULL, 4, shape, false);
		every_poll(NULL, 8, shape, true);
		every_poll(pool, 16, shape, false);
		every_alloc(NULL, 4, shape);
		every_alloc(pool, 16, shape);
	}
	for (int shape = KEYS_DENSE; shape <= KEYS_DENSE_REPEATED; shape++)
	{
		every_poll(pool, 4, shape, false);
		every_alloc(pool, 8, shape);
	}
	goes_on_after_failure(NULL);
	goes_on_after_failure(pool);
	tune_default();
	bad_input();
	if (!short_run)
	{
		poll_gaps(KEYS_UNIFORM);
		poll_gaps(KEYS_ONE_HOT_BUILD);
		poll_gaps(KEYS_COLLIDING);
		poll_gaps(KEYS_DENSE);
		poll_gaps(KEYS_DENSE_REPEATED);
	}
	hjg_pool_destroy(pool);
}
