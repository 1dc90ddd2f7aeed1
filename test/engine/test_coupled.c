/*
 * test_coupled.c
 *	  The coupled engine: every strategy and setting gives the reference's rows, rounds may start and
 *	  end anywhere, and nothing is left after a failure.
 */
#include <math.h>

#include "hjg_test_coupled.h"

static const int widths[] = {4, 8, 16};

/* Make configuration number n: all strategies, with varying settings. */
static void
config_of(HjgCoupledConfig *config, int n, Random *random)
{
	static const hjg_u32 blocks[] = {2048, 0, 64, 16384};

	hjg_coupled_defaults(config);
	config->strategy = (HjgCoupledStrategy) (HJG_COUPLED_FIRST + n % 8);
	config->separate_tables = n / 8 % 2;
	config->grouping = n / 16 % 2;
	config->block_bytes = blocks[n % 4];
	config->chunk_rows = 64 + random_below(random, 300);
	config->window_rows = 64 + random_below(random, 2000);
	config->pipeline = (HjgPipeline) random_below(random, HJG_PIPELINE_COUNT);
	config->was_bytes = (size_t) 1 << random_below(random, 20);
	config->boundary = (int) random_below(random, 5);
	/* a third of them with a buffer that is soon too small */
	if (random_below(random, 3) == 0)
		config->buffer_bytes = (size_t) 49152 << random_below(random, 5);
	for (int i = 0; i < HJG_STEP_COUNT; i++)
	{
		hjg_u32		r = random_below(random, 7);

		config->fixed_ratios[i] = r == 0 ? 0 : r == 1 ? 1 : random_below(random, 51) * 0.02;
	}
}

/* A join, and the packed probe segments that it takes; NULL: the case's. */
typedef struct Probed
{
	HjgCoupled *join;
	const HjgSegment *packed;
} Probed;

static HjgStatus
probe_join(void *arg, const HjgSegment *segments, int nsegments, HjgCursor *cursor, HjgResult *result)
{
	const Probed *probed = arg;

	return hjg_coupled_probe(probed->join, probed->packed != NULL ? probed->packed : segments, nsegments, cursor, result);
}

/* Pack the segments of a side, with any plan that suits; free with free_packed(). */
static HjgSegment *
pack_side(const Side *side, int width, Random *random)
{
	HjgSegment *packed = malloc(sizeof(HjgSegment) * (size_t) (side->nsegments + 1));
	Memory		memory;

	memory_init(&memory, NULL);
	for (int i = 0; i < side->nsegments; i++)
	{
		const HjgSegment *segment = &side->segments[i];
		HjgPackPlan plans[2];

		packed[i] = *segment;
		packed[i].keys = malloc(hjg_pack_bound(width, segment->nrows));
		for (int c = 0; c < 2; c++)
			plans[c] = (HjgPackPlan) {
				.dict = random_below(random, 4) == 0, .runs = (hjg_u8) random_below(random, 2),
				.delta = (hjg_u8) random_below(random, 2), .frame = (hjg_u8) random_below(random, 2),
				.leaf = (hjg_u8) random_below(random, 3), .lengths_leaf = (hjg_u8) random_below(random, 3)
			};
		if (hjg_pack(&memory.env, width, plans, segment->keys, segment->nrows, (void *) packed[i].keys,
					 &packed[i].packed_bytes) != HJG_OK)
		{
			plans[0].dict = plans[1].dict = 0;
			hjg_pack(&memory.env, width, plans, segment->keys, segment->nrows, (void *) packed[i].keys,
					 &packed[i].packed_bytes);
		}
	}
	return packed;
}

static void
free_packed(HjgSegment *packed, int nsegments)
{
	for (int i = 0; i < nsegments; i++)
		free((void *) packed[i].keys);
	free(packed);
}

/*
 * Build, probe in rounds, check each; returns NULL or an error text.  Packed keys: probe is their
 * segments.
 */
static const char *
run_segments(const Case *c, const HjgSegment *build, const HjgSegment *probe, HjgPool *pool, const HjgCoupledConfig *config,
			 const HjgRunner *runner, int npages, hjg_u32 page_pairs, HjgCoupledStats *stats)
{
	const char *wrong;
	HjgCoupled *join;
	Memory		memory;
	Probed		probed;

	memory_init(&memory, pool);
	if (hjg_coupled_build(&memory.env, config, runner, c->width, c->mode, build, c->build.nsegments, &join) != HJG_OK)
		return "build failed";
	probed = (Probed) {join, probe};
	wrong = run_rounds(c, probe_join, &probed, npages, page_pairs);
	hjg_coupled_stats(join, stats);
	if (wrong == NULL && (stats->join.build_rows != c->build.nrows || stats->join.probe_rows != c->probe.nrows ||
						  stats->join.pairs != c->nexpected || stats->join.workspace_bytes != memory.peak_bytes))
		wrong = "wrong statistics";
	hjg_coupled_free(join);
	if (wrong == NULL && !memory_is_clean(&memory))
		wrong = "memory left";
	return wrong;
}

static const char *
run_coupled(const Case *c, HjgPool *pool, const HjgCoupledConfig *config, const HjgRunner *runner, int npages,
			hjg_u32 page_pairs, HjgCoupledStats *stats)
{
	return run_segments(c, c->build.segments, NULL, pool, config, runner, npages, page_pairs, stats);
}

/* Do the same with packed keys. */
static const char *
run_packed(const Case *c, HjgPool *pool, const HjgCoupledConfig *config, const HjgRunner *runner, int npages,
		   hjg_u32 page_pairs, HjgCoupledStats *stats)
{
	Random		random = {test_seed + page_pairs};
	HjgSegment *build = pack_side(&c->build, c->width, &random);
	HjgSegment *probe = pack_side(&c->probe, c->width, &random);
	const char *wrong = run_segments(c, build, probe, pool, config, runner, npages, page_pairs, stats);

	if (wrong == NULL && !stats->gave_up && stats->feed_rows < c->build.nrows)
		wrong = "packed keys that nobody read";
	/* if no unit decompresses, the units that execute hash packed keys */
	if (wrong == NULL && !stats->gave_up && stats->units.cpu_d + stats->units.device_d == 0 && c->width != 16 &&
		!config->separate_tables && stats->hashed_rows < c->build.nrows)
		wrong = "packed keys that were unpacked";
	free_packed(build, c->build.nsegments);
	free_packed(probe, c->probe.nsegments);
	return wrong;
}

static void
run_shape(const HjgRunner *runner, const char *what, HjgPool *pool, int width, KeyShape shape, hjg_u32 nbuild,
		  hjg_u32 nprobe)
{
	Random		random = {test_seed + (hjg_u64) shape};
	const char *wrong = NULL;
	int			nruns = 0;
	int			ngave_up = 0;
	int			nparted = 0;

	for (int mode = 0; mode <= HJG_MATCH_ANTI && !wrong; mode++)
	{
		Case		c;

		case_create(&c, test_seed + (hjg_u64) (shape * 16 + mode), width, mode, shape, nbuild, nprobe);
		for (int n = 0; n < 32 && !wrong; n += short_run ? 9 : nprobe > 50000 ? 11 : 3, nruns++)
		{
			/* all in one page; just enough; a third in odd pages */
			const hjg_u32 sizes[] = {(hjg_u32) c.nexpected + 5000, c.nexpected ? (hjg_u32) c.nexpected : 1,
			(hjg_u32) (c.nexpected / 21) + 1};
			HjgCoupledConfig config;
			HjgCoupledStats stats;

			config_of(&config, n, &random);
			if (nprobe > 50000)
				config.window_rows = 65536;
			wrong = (nruns % 5 == 3 ? run_packed : run_coupled) (&c, pool, &config, runner, nruns % 3 == 2 ? 7 : 1,
																 sizes[nruns % 3], &stats);
			ngave_up += stats.gave_up;
			nparted += !stats.gave_up && stats.nparts > 0;
			if (wrong)
				printf("# %s: mode %d, %s, %s%s, configuration %d, buffer of %zu bytes, %d parts\n", wrong, mode,
					   hjg_strategy_name(config.strategy), hjg_pipeline_name((int) config.pipeline),
					   nruns % 5 == 3 ? ", packed" : "", n, config.buffer_bytes, stats.nparts);
		}
		case_destroy(&c);
	}
	claim(wrong == NULL, "coupled on %s, %d-byte keys, %s, %u x %u rows: %d runs equal the reference, %d of them in parts%s",
		  what, width, key_shape_names[shape], nbuild, nprobe, nruns, nparted, ngave_up ? ", some by the cpu engine" : "");
}

/* Start a round at every place where a cut can be. */
static void
start_at_every_place(const HjgRunner *runner, const char *what, HjgPool *pool, int width, HjgMatchMode mode,
					 KeyShape shape, hjg_u32 n)
{
	Random		random = {test_seed};
	const char *wrong = NULL;
	hjg_u64		nstarts = 0;
	HjgCoupledConfig config;
	HjgCoupled *join;
	Memory		memory;
	Pages		pages[2];
	Case		c;

	config_of(&config, width + (int) mode, &random);
	case_create(&c, test_seed + (hjg_u64) width, width, mode, shape, n, n);
	pages_create(&pages[0], 3, 3);
	pages_create(&pages[1], 1, (hjg_u32) c.nexpected + 1);
	memory_init(&memory, pool);
	if (hjg_coupled_build(&memory.env, &config, runner, width, mode, c.build.segments, c.build.nsegments, &join) != HJG_OK)
		wrong = "build failed";
	for (hjg_u32 row = 0; wrong == NULL && row <= c.probe.nrows; row++)
	{
		hjg_u64		npairs = row < c.probe.nrows ? c.before[row + 1] - c.before[row] : 0;

		for (hjg_u64 skip = 0; wrong == NULL && (skip == 0 || skip < npairs); skip++)
			for (int i = 0; wrong == NULL && i < 2; i++, nstarts++)
			{
				const HjgCursor from = {row, 0, skip};
				HjgCursor	cursor = from;

				if (hjg_coupled_probe(join, c.probe.segments, c.probe.nsegments, &cursor, &pages[i].result) != HJG_OK)
					wrong = "probe failed";
				else if (!check_round(&c, &from, &cursor, &pages[i].result))
					wrong = "wrong round";
			}
	}
	claim(wrong == NULL, "coupled on %s, %d-byte keys, %s, mode %d: %llu rounds from every place", what, width,
		  key_shape_names[shape], mode, (unsigned long long) nstarts);
	hjg_coupled_free(join);
	for (int i = 0; i < 2; i++)
		pages_destroy(&pages[i]);
	case_destroy(&c);
}

/* Run a round of one match of each row. */
static HjgStatus
probe_first(void *arg, const HjgSegment *segments, int nsegments, HjgCursor *cursor, HjgResult *result)
{
	HjgStatus	status;

	cursor->most = 1;
	status = probe_join(arg, segments, nsegments, cursor, result);
	return status == HJG_OK && cursor->most != 1 ? HJG_ERR_INPUT : status;
}

/* Test a join of all pairs that is asked for one match of each row: the same as mode SEMI. */
static void
first_matches(const HjgRunner *runner, const char *what, HjgPool *pool, int width, KeyShape shape, hjg_u32 n)
{
	Random		random = {test_seed};
	const char *wrong = NULL;
	int			nruns = 0;
	Memory		memory;
	Case		c;

	case_create(&c, test_seed + (hjg_u64) width, width, HJG_MATCH_SEMI, shape, n, n);
	memory_init(&memory, pool);
	for (int i = 0; wrong == NULL && i < 8; i++, nruns++)
	{
		HjgCoupledConfig config;
		Probed		probed = {0};

		config_of(&config, 4 * i, &random);
		if (hjg_coupled_build(&memory.env, &config, runner, width, HJG_MATCH_ALL, c.build.segments, c.build.nsegments,
							  &probed.join) != HJG_OK)
			wrong = "build failed";
		else
			wrong = run_rounds(&c, probe_first, &probed, 1, i % 2 ? 61 : (hjg_u32) c.nexpected + 1);
		hjg_coupled_free(probed.join);
	}
	claim(wrong == NULL, "coupled on %s, %d-byte keys, %s: one match a row in %d runs%s%s", what, width,
		  key_shape_names[shape], nruns, wrong ? ": " : "", wrong ? wrong : "");
	case_destroy(&c);
}

/* Run the rounds of a batch alternately by the coupled and the cpu engine. */
static void
take_turns(const HjgRunner *runner, const char *what, HjgPool *pool, int width, KeyShape shape, hjg_u32 n)
{
	const HjgJoinSpec spec = {.key_width = width};
	Random		random = {test_seed};
	const char *wrong = NULL;
	HjgCursor	cursor = {0, 0, 0};
	int			nrounds = 0;
	HjgCoupledConfig config;
	HjgCoupled *coupled;
	HjgJoin    *cpu;
	Memory		memory;
	Pages		pages;
	Case		c;

	config_of(&config, 6, &random);
	case_create(&c, test_seed, width, HJG_MATCH_ALL, shape, n, n);
	pages_create(&pages, 1, 61);
	memory_init(&memory, pool);
	if (hjg_coupled_build(&memory.env, &config, runner, width, HJG_MATCH_ALL, c.build.segments, c.build.nsegments,
						  &coupled) != HJG_OK ||
		hjg_join_build(&memory.env, &spec, c.build.segments, c.build.nsegments, &cpu) != HJG_OK)
		wrong = "build failed";
	for (; wrong == NULL && cursor.row < c.probe.nrows; nrounds++)
	{
		const HjgCursor from = cursor;
		HjgStatus	status = nrounds % 2 ?
			hjg_join_probe(cpu, c.probe.segments, c.probe.nsegments, &cursor, &pages.result) :
			hjg_coupled_probe(coupled, c.probe.segments, c.probe.nsegments, &cursor, &pages.result);

		if (status != HJG_OK || !check_round(&c, &from, &cursor, &pages.result))
			wrong = "wrong round";
	}
	claim(wrong == NULL, "coupled on %s, %d-byte keys, %s: the cpu engine goes on at each second of %d cuts", what, width,
		  key_shape_names[shape], nrounds);
	hjg_coupled_free(coupled);
	hjg_join_free(cpu);
	pages_destroy(&pages);
	case_destroy(&c);
}

/* Build and probe; buffer_bytes: 0, or so small that the build side is in parts. */
static HjgStatus
attempt(const Case *c, Memory *memory, int n, size_t buffer_bytes, const HjgRunner *runner, Pages *pages)
{
	Random		random = {test_seed + (hjg_u64) n};
	HjgCursor	cursor = {0, 0, 0};
	HjgCoupledConfig config;
	HjgCoupled *join;
	HjgStatus	status;

	config_of(&config, n, &random);
	config.buffer_bytes = buffer_bytes;
	/* many windows, and so many polls */
	config.window_rows = 64 + config.window_rows % 192;
	if (buffer_bytes > 0)
	{
		config.block_bytes = 64;
		config.pipeline = HJG_PIPELINE_E;
	}
	status = hjg_coupled_build(&memory->env, &config, runner, c->width, c->mode, c->build.segments, c->build.nsegments, &join);
	while (status == HJG_OK && cursor.row < c->probe.nrows)
		status = hjg_coupled_probe(join, c->probe.segments, c->probe.nsegments, &cursor, &pages->result);
	hjg_coupled_free(join);
	return status;
}

static void
every_poll_and_alloc(const HjgRunner *runner, const char *what, HjgPool *pool, int width, KeyShape shape, size_t buffer_bytes)
{
	const char *where = buffer_bytes > 0 ? ", in parts" : "";
	bool		clean = true;
	HjgStatus	status = HJG_ERR_CANCELLED;
	long		npolls = 0;
	long		nallocs = 0;
	Case		c;
	Pages		pages;

	case_create(&c, test_seed, width, HJG_MATCH_LEFT, shape, 1500, 1000);
	pages_create(&pages, 2, (hjg_u32) c.nexpected / 4 + 1);
	for (; status == HJG_ERR_CANCELLED && clean && npolls < (short_run ? 30 : 1000); npolls++)
	{
		Memory		memory;

		memory_init(&memory, pool);
		memory.cancel_at = npolls + 1;
		status = attempt(&c, &memory, (int) npolls, buffer_bytes, runner, &pages);
		clean = memory_is_clean(&memory);
	}
	claim((status == HJG_OK || status == HJG_ERR_CANCELLED) && clean && npolls > 10,
		  "coupled on %s, %d-byte keys, %s%s: cancelled at each of %ld polls, nothing left", what, width,
		  key_shape_names[shape], where, npolls);
	status = HJG_ERR_MEMORY;
	for (; status == HJG_ERR_MEMORY && clean && nallocs < 100; nallocs++)
	{
		Memory		memory;

		memory_init(&memory, pool);
		memory.fail_at = nallocs + 1;
		status = attempt(&c, &memory, 6, buffer_bytes, runner, &pages);
		clean = memory_is_clean(&memory);
	}
	claim(status == HJG_OK && clean && nallocs > 4, "coupled on %s, %d-byte keys, %s%s: each of %ld allocations may fail", what,
		  width, key_shape_names[shape], where, nallocs - 1);
	pages_destroy(&pages);
	case_destroy(&c);
}

/* Most runs until a launch is queued behind another: on a busy machine it may end before. */
#define TIMED_RUNS 50

/* Test that launches for an idle device and launches behind others are distinguished. */
static void
times_of_launches(const HjgRunner *runner, const char *what, HjgPool *pool)
{
	HjgRunnerTimes before;
	HjgRunnerTimes after;
	HjgCoupledConfig config;
	HjgCoupledStats stats;
	hjg_u64		npieces;
	hjg_u64		nlaunches;
	const char *wrong = NULL;
	Case		c;

	case_create(&c, test_seed, 4, HJG_MATCH_ALL, KEYS_UNIFORM, 20000, 20000);
	hjg_coupled_defaults(&config);
	config.chunk_rows = 2048;
	for (int i = 0; i < HJG_STEP_COUNT; i++)
		config.fixed_ratios[i] = 0;
	for (int run = 0; run < TIMED_RUNS && wrong == NULL && (run == 0 || after.nfollowed == before.nfollowed); run++)
	{
		runner->times(runner->arg, &before);
		wrong = run_coupled(&c, pool, &config, runner, 1, (hjg_u32) c.nexpected + 1, &stats);
		runner->times(runner->arg, &after);
	}
	npieces = 0;
	for (int i = 0; i < HJG_STEP_COUNT; i++)
		npieces += stats.step_pieces[HJG_ON_DEVICE][i];
	nlaunches = after.nbegun - before.nbegun + after.nfollowed - before.nfollowed + after.ncopied - before.ncopied;
	claim(wrong == NULL && npieces > 20 && nlaunches >= npieces && after.nbegun > before.nbegun &&
		  (after.ncopied > before.ncopied) == (runner->move != NULL) &&
		  after.nfollowed > before.nfollowed && after.busy_ns > before.busy_ns &&
		  stats.nqueued[0] > 0 && stats.nqueued[0] + stats.nqueued[1] == npieces,
		  "%s: %llu launches of %llu pieces have begun (%llu), followed another one (%llu) or some copies%s%s", what, (unsigned long long) nlaunches,
		  (unsigned long long) npieces, (unsigned long long) (after.nbegun - before.nbegun),
		  (unsigned long long) (after.nfollowed - before.nfollowed), wrong ? ": " : "", wrong ? wrong : "");
	case_destroy(&c);
}

void
test_coupled_on(const HjgRunner *const runners[3], const char *what)
{
	HjgPool    *pool = hjg_pool_create(3);
	static const hjg_u32 sizes[][2] = {{0, 0}, {0, 100}, {100, 0}, {1, 1}, {1, 1000}, {1000, 1}, {63, 65}, {4096, 4097}};

	for (int w = 0; w < 3; w++)
	{
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			run_shape(runners[w], what, pool, widths[w], KEYS_UNIFORM, sizes[i][0], sizes[i][1]);
		for (int shape = 0; shape < KEYS_NSHAPES; shape++)
		{
			const bool	wide = shape == KEYS_ONE_HOT_BOTH || shape == KEYS_COLLIDING_HOT;
			const hjg_u32 n = wide || short_run ? 300 : 2000;

			run_shape(runners[w], what, pool, widths[w], shape, n, n + n / 3);
		}
		for (int mode = 0; mode <= HJG_MATCH_ANTI; mode++)
		{
			start_at_every_place(runners[w], what, pool, widths[w], mode, KEYS_DUPLICATES, short_run ? 20 : 150);
			start_at_every_place(runners[w], what, pool, widths[w], mode, KEYS_ONE_HOT_BOTH, short_run ? 10 : 30);
		}
		take_turns(runners[w], what, pool, widths[w], KEYS_ZIPF_10, 600);
		take_turns(runners[w], what, pool, widths[w], KEYS_ONE_HOT_BOTH, 100);
		first_matches(runners[w], what, pool, widths[w], KEYS_DUPLICATES, 700);
		first_matches(runners[w], what, pool, widths[w], KEYS_ONE_HOT_BOTH, 300);
	}
	if (!short_run)
	{
		run_shape(runners[0], what, pool, 4, KEYS_UNIFORM, 200000, 300000);
		run_shape(runners[1], what, pool, 8, KEYS_ZIPF_05, 200000, 100000);
	}
	times_of_launches(runners[0], what, pool);
	every_poll_and_alloc(runners[0], what, pool, 4, KEYS_UNIFORM, 0);
	every_poll_and_alloc(runners[2], what, pool, 16, KEYS_DUPLICATES, 0);
	every_poll_and_alloc(runners[2], what, pool, 16, KEYS_DUPLICATES, 65536);
	hjg_pool_destroy(pool);
}

/* ---- without a device, or with a bad one ---- */

/*
 * Test a build side in parts, with a result that just fits all pairs: the last window is as large as the
 * rest, and windows are not cut into ever smaller ones as the room ends.
 */
static void
windows_of_parts(HjgPool *pool)
{
	enum {ROWS = 20000, WINDOW = 4000};
	static hjg_u32 keys[ROWS];
	const HjgSegment segment = {.keys = keys, .nrows = ROWS};
	HjgCursor	cursor = {0, 0, 0};
	HjgCoupledStats stats = {.nparts = 0};
	HjgCoupledConfig config;
	HjgCoupled *join;
	HjgStatus	status;
	Memory		memory;
	Pages		pages;

	for (hjg_u32 i = 0; i < ROWS; i++)
		keys[i] = i * 2654435761u;
	memory_init(&memory, pool);
	pages_create(&pages, 1, ROWS);
	hjg_coupled_defaults(&config);
	config.window_rows = WINDOW;
	config.buffer_bytes = 262144;
	config.pipeline = HJG_PIPELINE_E;
	status = hjg_coupled_build(&memory.env, &config, NULL, 4, HJG_MATCH_ALL, &segment, 1, &join);
	if (status == HJG_OK)
	{
		status = hjg_coupled_probe(join, &segment, 1, &cursor, &pages.result);
		hjg_coupled_stats(join, &stats);
		hjg_coupled_free(join);
	}
	claim(status == HJG_OK && memory_is_clean(&memory) && stats.nparts > 1 && pages.result.npairs == ROWS && cursor.row == ROWS &&
		  stats.step_pieces[HJG_ON_CPU][HJG_STEP_P4] == (hjg_u64) (stats.nparts * (ROWS / WINDOW)),
		  "%d parts: %d windows have %llu pieces", stats.nparts, ROWS / WINDOW, (unsigned long long) stats.step_pieces[HJG_ON_CPU][HJG_STEP_P4]);
	pages_destroy(&pages);
}

/* A runner that fails at one launch or wait. */
typedef struct Bad
{
	const HjgRunner *good;
	long		launches;
	long		fail_launch;
	long		fail_wait;
} Bad;

static HjgStatus
bad_launch(void *arg, const HjgStepLaunch *launch, hjg_u64 *ticket)
{
	Bad		   *bad = arg;

	if (++bad->launches == bad->fail_launch)
		return HJG_ERR_DEVICE;
	return bad->good->launch(bad->good->arg, launch, ticket);
}

static bool
bad_done(void *arg, hjg_u64 ticket)
{
	Bad		   *bad = arg;

	return bad->good->done(bad->good->arg, ticket);
}

static HjgStatus
bad_wait(void *arg, hjg_u64 ticket)
{
	Bad		   *bad = arg;
	HjgStatus	status = bad->good->wait(bad->good->arg, ticket);

	return bad->fail_wait > 0 && bad->launches >= bad->fail_wait ? HJG_ERR_DEVICE : status;
}

static void
bad_times(void *arg, HjgRunnerTimes *times)
{
	Bad		   *bad = arg;

	bad->good->times(bad->good->arg, times);
}

static void
bad_forget(void *arg, const void *memory)
{
	(void) arg;
	(void) memory;
}

static void
device_fails(const HjgRunner *good, HjgPool *pool)
{
	HjgStatus	status = HJG_ERR_DEVICE;
	bool		clean = true;
	long		n = 0;
	Case		c;
	Pages		pages;

	case_create(&c, test_seed, 8, HJG_MATCH_ALL, KEYS_UNIFORM, 2000, 1000);
	pages_create(&pages, 2, (hjg_u32) c.nexpected / 4 + 1);
	for (; status == HJG_ERR_DEVICE && clean && n < 400; n++)
	{
		Bad			bad = {.good = good};
		HjgRunner	runner = {.arg = &bad, .nworkers = 2, .ncores = 2, .align_bytes = 1, .max_bytes = (size_t) 1 << 40,
			.launch = bad_launch, .done = bad_done, .wait = bad_wait, .forget = bad_forget, .times = bad_times};
		Memory		memory;

		if (n % 2)
			bad.fail_wait = n / 2 + 1;
		else
			bad.fail_launch = n / 2 + 1;
		memory_init(&memory, pool);
		status = attempt(&c, &memory, 6, n % 3 ? 0 : 65536, &runner, &pages);
		clean = memory_is_clean(&memory);
	}
	claim((status == HJG_OK || n == 400) && clean && n > 10, "a device that fails at each of %ld places: HJG_ERR_DEVICE, nothing left", n);
	pages_destroy(&pages);
	case_destroy(&c);
}

static void
gives_up(const HjgRunner *runner, HjgPool *pool)
{
	HjgCoupledConfig config;
	HjgCoupledStats stats;
	Case		c;
	const char *wrong;

	hjg_coupled_defaults(&config);
	case_create(&c, test_seed, 16, HJG_MATCH_ALL, KEYS_COLLIDING, 3000, 3000);
	wrong = run_coupled(&c, pool, &config, runner, 1, (hjg_u32) c.nexpected + 1, &stats);
	claim(wrong == NULL && stats.gave_up, "thousands of keys in one bucket: the cpu engine joins");
	case_destroy(&c);

	/* two short lists make one that is longer than any that is built */
	config.separate_tables = true;
	config.strategy = HJG_COUPLED_SHJ_DD;
	case_create(&c, test_seed, 16, HJG_MATCH_ALL, KEYS_COLLIDING, 400, 400);
	wrong = run_coupled(&c, pool, &config, runner, 1, (hjg_u32) c.nexpected + 1, &stats);
	claim(wrong == NULL && !stats.gave_up, "merged lists of hundreds of keys are searched to their ends%s%s", wrong ? ": " : "",
		  wrong ? wrong : "");
	case_destroy(&c);

	hjg_coupled_defaults(&config);
	config.buffer_bytes = 65536;
	case_create(&c, test_seed, 8, HJG_MATCH_ALL, KEYS_UNIFORM, 3000, 3000);
	wrong = run_coupled(&c, pool, &config, runner, 1, (hjg_u32) c.nexpected + 1, &stats);
	claim(wrong == NULL && !stats.gave_up && stats.nparts > 1 && stats.copy_ns > 0,
		  "a build side of more than the buffer joins in %d parts", stats.nparts);
	config.buffer_bytes = 8192;
	wrong = run_coupled(&c, pool, &config, runner, 1, (hjg_u32) c.nexpected + 1, &stats);
	claim(wrong == NULL && stats.gave_up, "no number of parts fits a buffer of 8 KB: the cpu engine joins");
	config.buffer_bytes = 0;
	config.bus_latency_ns = 20000;
	config.bus_bytes_per_ns = 1;
	config.strategy = HJG_COUPLED_SHJ_PL;
	wrong = run_coupled(&c, pool, &config, runner, 1, (hjg_u32) c.nexpected + 1, &stats);
	claim(wrong == NULL && stats.transfer_ns > 100000, "an emulated bus takes its time: %.2f ms", (double) stats.transfer_ns / 1e6);
	case_destroy(&c);
}

/* Find one of the last bytes of the longest packed segment. */
static hjg_u8 *
a_byte_of(const HjgSegment *packed, int nsegments, Random *random)
{
	const HjgSegment *longest = packed;

	for (int i = 1; i < nsegments; i++)
		if (packed[i].packed_bytes > longest->packed_bytes)
			longest = &packed[i];
	return (hjg_u8 *) longest->keys + longest->packed_bytes - 1 -
		random_below(random, longest->packed_bytes < 200 ? (hjg_u32) longest->packed_bytes : 200);
}

/*
 * Test that a damaged packed batch ends the build or the round, and that the join continues with an
 * undamaged one.
 */
static void
damaged(const HjgRunner *runner, HjgPool *pool)
{
	Random		random = {test_seed};
	HjgCursor	cursor = {0, 0, 0};
	int			nrefused = 0;
	bool		goes_on = true;
	HjgCoupledConfig config;
	HjgSegment *build;
	HjgSegment *probe;
	HjgCoupled *join;
	Memory		memory;
	Pages		pages;
	Case		c;

	hjg_coupled_defaults(&config);
	case_create(&c, test_seed, 8, HJG_MATCH_ALL, KEYS_UNIFORM, 40000, 30000);
	pages_create(&pages, 1, (hjg_u32) c.nexpected + 1);
	build = pack_side(&c.build, 8, &random);
	probe = pack_side(&c.probe, 8, &random);
	memory_init(&memory, pool);
	for (int pipeline = HJG_PIPELINE_E; pipeline < HJG_PIPELINE_COUNT && goes_on; pipeline++)
	{
		hjg_u8	   *in_build = a_byte_of(build, c.build.nsegments, &random);
		hjg_u8	   *in_probe = a_byte_of(probe, c.probe.nsegments, &random);

		config.pipeline = (HjgPipeline) pipeline;
		config.strategy = pipeline % 2 ? HJG_COUPLED_SHJ_PL : HJG_COUPLED_PHJ_PL;
		*in_build ^= 16;
		nrefused += hjg_coupled_build(&memory.env, &config, runner, 8, c.mode, build, c.build.nsegments, &join) == HJG_ERR_INPUT;
		*in_build ^= 16;
		if (hjg_coupled_build(&memory.env, &config, runner, 8, c.mode, build, c.build.nsegments, &join) != HJG_OK)
			break;
		*in_probe ^= 16;
		cursor = (HjgCursor) {0, 0, 0};
		nrefused += hjg_coupled_probe(join, probe, c.probe.nsegments, &cursor, &pages.result) == HJG_ERR_INPUT;
		*in_probe ^= 16;
		goes_on = hjg_coupled_probe(join, probe, c.probe.nsegments, &cursor, &pages.result) == HJG_OK &&
			pages.result.npairs == c.nexpected;
		hjg_coupled_free(join);
	}
	claim(nrefused == 10 && goes_on && memory_is_clean(&memory), "damaged keys: %d of 10 builds and rounds refused in all pipelines, and the join goes on",
		  nrefused);
	free_packed(build, c.build.nsegments);
	free_packed(probe, c.probe.nsegments);
	pages_destroy(&pages);
	case_destroy(&c);
}

/* Test that the model chooses ratios with calibrated costs, and that the join is right. */
static void
calibrated(const HjgRunner *runner, HjgPool *pool)
{
	const char *wrong = NULL;
	HjgStepCosts costs;
	Memory		memory;
	bool		plausible = true;

	memory_init(&memory, pool);
	for (int w = 0; w < 3 && wrong == NULL; w += 2)
	{
		HjgCoupledConfig config;
		HjgCoupledStats stats;
		Case		c;

		hjg_coupled_defaults(&config);
		if (hjg_coupled_calibrate(&memory.env, &config, runner, widths[w], HJG_STEP_QUICK_SIZES, &costs) != HJG_OK)
			wrong = "calibration failed";
		for (int n = 0; n < 2 * HJG_STEP_SIZES * HJG_PROCESSORS * HJG_STEP_COUNT; n++)
		{
			const double alone_ns = ((const double *) costs.alone_ns)[n];
			const double together_ns = ((const double *) costs.together_ns)[n];

			if (n / (HJG_PROCESSORS * HJG_STEP_COUNT) % HJG_STEP_SIZES >= costs.nsizes)
				continue;
			plausible = plausible && alone_ns > 0 && alone_ns < 1e5 && together_ns > 0 && together_ns < 1e5;
		}
		for (int p = 0; p < HJG_PROCESSORS; p++)
			plausible = plausible && costs.unpack_ns[p] > 0 && costs.unpack_ns[p] < 1e5 && costs.exchange_ns[p] >= 0 &&
				costs.exchange_ns[p] < 1e5;
		for (int n = 0; n < 2 * costs.nsizes; n++)
			plausible = plausible && costs.spread[n % 2][n / 2] >= 0 && costs.spread[n % 2][n / 2] < 100;
		plausible = plausible && costs.fetch_bytes_per_ns > 0 && costs.fetch_gain >= 0 && costs.fetch_gain <= 1;
		case_create(&c, test_seed, widths[w], HJG_MATCH_ALL, KEYS_UNIFORM, 20000, 30000);
		config.costs = &costs;
		for (int s = HJG_COUPLED_FIRST; s <= HJG_COUPLED_LAST && wrong == NULL; s++)
		{
			config.strategy = (HjgCoupledStrategy) s;
			wrong = run_coupled(&c, pool, &config, runner, 1, (hjg_u32) c.nexpected + 1, &stats);
			if (wrong == NULL && (stats.predicted_build_ns <= 0 || stats.predicted_probe_ns <= 0))
				wrong = "no prediction";
		}
		case_destroy(&c);
	}
	claim(wrong == NULL && plausible && memory_is_clean(&memory), "calibrated unit costs are plausible, and all strategies right under them%s%s",
		  wrong ? ": " : "", wrong ? wrong : "");
}

/* Test that costs are numbers on a device that takes only small buffers and aligned memory. */
static void
calibrated_in_part(const HjgRunner *runner, HjgPool *pool)
{
	HjgRunner	picky = *runner;
	HjgCoupledConfig config;
	HjgStepCosts costs;
	Memory		memory;
	bool		finite;

	memory_init(&memory, pool);
	hjg_coupled_defaults(&config);
	picky.max_bytes = 16 << 20;
	picky.align_bytes = 65536;
	finite = hjg_coupled_calibrate(&memory.env, &config, &picky, 4, HJG_STEP_QUICK_SIZES, &costs) == HJG_OK && isfinite(costs.launch_ns[0][0]);
	for (int p = 0; p < HJG_PROCESSORS; p++)
		for (int i = 0; i < HJG_STEP_COUNT; i++)
			for (int s = 0; s < 2 * costs.nsizes; s++)
				finite = finite && isfinite(costs.alone_ns[s % 2][s / 2][p][i]) && isfinite(costs.together_ns[s % 2][s / 2][p][i]);
	claim(finite && memory_is_clean(&memory), "what cannot be measured costs much, and not infinitely much");
}

static int	nlaunched;
static const HjgRunner *counted;

static HjgStatus
counting_launch(void *arg, const HjgStepLaunch *launch, hjg_u64 *ticket)
{
	nlaunched++;
	return counted->launch(arg, launch, ticket);
}

/* Test that a calibration without time uses a part of the joins. */
static void
calibrated_in_time(const HjgRunner *runner, HjgPool *pool)
{
	HjgRunner	counting = *runner;
	int			launches[2];
	HjgCoupledConfig config;
	HjgStepCosts costs;
	Memory		memory;
	bool		good = true;

	memory_init(&memory, pool);
	hjg_coupled_defaults(&config);
	counted = runner;
	counting.launch = counting_launch;
	for (int limited = 0; limited < 2; limited++)
	{
		nlaunched = 0;
		config.calibration_ns = limited;
		good = good && hjg_coupled_calibrate(&memory.env, &config, &counting, 4, HJG_STEP_QUICK_SIZES, &costs) == HJG_OK;
		launches[limited] = nlaunched;
	}
	for (int s = 0; s < 2 * costs.nsizes; s++)
		good = good && isfinite(costs.together_ns[s % 2][s / 2][HJG_ON_DEVICE][HJG_STEP_B3]) && isfinite(costs.spread[s % 2][s / 2]);
	claim(good && launches[1] > launches[0] / 4 && launches[1] < launches[0] * 2 / 3 && memory_is_clean(&memory),
		  "a calibration that has no time makes do with some of the joins: %d launches in place of %d", launches[1], launches[0]);
}

void
test_coupled(void)
{
	HjgRunner  *runner = hjg_threads_runner_create(2);
	const HjgRunner *const runners[3] = {runner, runner, runner};
	HjgPool    *pool = hjg_pool_create(2);

	test_coupled_on(runners, "threads");
	run_shape(NULL, "no device", pool, 8, KEYS_DUPLICATES, 1000, 1000);
	run_shape(NULL, "no device", NULL, 4, KEYS_UNIFORM, 1000, 1000);
	windows_of_parts(pool);
	device_fails(runner, pool);
	gives_up(runner, pool);
	damaged(runner, pool);
	if (!short_run)
	{
		calibrated(runner, pool);
		calibrated_in_part(runner, pool);
		calibrated_in_time(runner, pool);
	}
	hjg_pool_destroy(pool);
	hjg_threads_runner_destroy(runner);
}
