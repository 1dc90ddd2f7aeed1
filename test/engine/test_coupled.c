/*
 * test_coupled.c
 *	  The coupled engine on any device: every strategy and setting gives the reference's rows, rounds may
 *	  start and end anywhere, and nothing is left after a failure.
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

HjgSegment *
pack_coupled_side(const Side *side, int width, Random *random)
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

void
free_packed_side(HjgSegment *packed, int nsegments)
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

const char *
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
	HjgSegment *build = pack_coupled_side(&c->build, c->width, &random);
	HjgSegment *probe = pack_coupled_side(&c->probe, c->width, &random);
	const char *wrong = run_segments(c, build, probe, pool, config, runner, npages, page_pairs, stats);

	if (wrong == NULL && !stats->gave_up && stats->feed_rows < c->build.nrows)
		wrong = "packed keys that nobody read";
	/* if no unit decompresses, the units that execute hash packed keys */
	if (wrong == NULL && !stats->gave_up && stats->units.cpu_d + stats->units.device_d == 0 && c->width != 16 &&
		!config->separate_tables && stats->hashed_rows < c->build.nrows)
		wrong = "packed keys that were unpacked";
	free_packed_side(build, c->build.nsegments);
	free_packed_side(probe, c->probe.nsegments);
	return wrong;
}

void
run_coupled_shape(const HjgRunner *runner, const char *what, HjgPool *pool, int width, KeyShape shape, hjg_u32 nbuild,
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

HjgStatus
attempt_coupled(const Case *c, Memory *memory, int n, size_t buffer_bytes, const HjgRunner *runner, Pages *pages)
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
		status = attempt_coupled(&c, &memory, (int) npolls, buffer_bytes, runner, &pages);
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
		status = attempt_coupled(&c, &memory, 6, buffer_bytes, runner, &pages);
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
			run_coupled_shape(runners[w], what, pool, widths[w], KEYS_UNIFORM, sizes[i][0], sizes[i][1]);
		for (int shape = 0; shape < KEYS_NSHAPES; shape++)
		{
			const bool	wide = shape == KEYS_ONE_HOT_BOTH || shape == KEYS_COLLIDING_HOT;
			const hjg_u32 n = wide || short_run ? 300 : 2000;

			run_coupled_shape(runners[w], what, pool, widths[w], shape, n, n + n / 3);
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
		run_coupled_shape(runners[0], what, pool, 4, KEYS_UNIFORM, 200000, 300000);
		run_coupled_shape(runners[1], what, pool, 8, KEYS_ZIPF_05, 200000, 100000);
	}
	times_of_launches(runners[0], what, pool);
	every_poll_and_alloc(runners[0], what, pool, 4, KEYS_UNIFORM, 0);
	every_poll_and_alloc(runners[2], what, pool, 16, KEYS_DUPLICATES, 0);
	every_poll_and_alloc(runners[2], what, pool, 16, KEYS_DUPLICATES, 65536);
	hjg_pool_destroy(pool);
}
