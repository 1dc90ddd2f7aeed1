/*
 * test_coupled_bad.c
 *	  The coupled engine on threads, without a device, and with devices and packed columns that are bad;
 *	  its calibration.
 */
#include <math.h>

#include "hjg_test_coupled.h"

static const int widths[] = {4, 8, 16};

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
		status = attempt_coupled(&c, &memory, 6, n % 3 ? 0 : 65536, &runner, &pages);
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
	build = pack_coupled_side(&c.build, 8, &random);
	probe = pack_coupled_side(&c.probe, 8, &random);
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
	free_packed_side(build, c.build.nsegments);
	free_packed_side(probe, c.probe.nsegments);
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
	run_coupled_shape(NULL, "no device", pool, 8, KEYS_DUPLICATES, 1000, 1000);
	run_coupled_shape(NULL, "no device", NULL, 4, KEYS_UNIFORM, 1000, 1000);
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
