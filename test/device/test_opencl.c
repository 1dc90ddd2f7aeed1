/*
 * test_opencl.c
 *	  The coupled engine's tests on every OpenCL device that is ready, usually PoCL; without one they
 *	  are skipped with the reason.  test_opencl [--short] [--device=opencl:N] [seed]
 */
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/hjg_opencl.h"
#include "hjg_test_coupled.h"
#include "model/hjg_model.h"

static void *
plain_alloc(void *arg, size_t bytes)
{
	return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void
plain_free(void *arg, void *ptr, size_t bytes)
{
	free(ptr);
}

/* Check that the signal dispositions are the same as before the first OpenCL call. */
static bool
signals_kept(const struct sigaction *before)
{
	for (int sig = 1; sig < NSIG; sig++)
	{
		struct sigaction now;

		if (sigaction(sig, NULL, &now) == 0 && now.sa_handler != before[sig].sa_handler)
			return false;
	}
	return true;
}

typedef struct Watched
{
	const HjgDeviceHealth *entry;
	hjg_u32		least;			/* fewest operations on the device at any poll of the join */
} Watched;

static bool
look(void *arg)
{
	Watched    *watched = arg;

	if (watched->entry->in_use < watched->least)
		watched->least = watched->entry->in_use;
	return false;
}

/*
 * Test that a process that dies in the driver leaves a trace, and that a device that fails repeatedly
 * rests.
 */
static void
test_health(int number)
{
	static hjg_u32 keys[20000];
	const HjgSegment segment = {.keys = keys, .nrows = 20000};
	const HjgJoinSpec spec = {.key_width = 4, .mode = HJG_MATCH_SEMI};
	HjgDeviceBlock *block = calloc(1, sizeof(HjgDeviceBlock));
	Watched		watched = {&block->health[0], 100};
	HjgDeviceInfo infos[HJG_MAX_DEVICES] = {0};
	HjgCursor	cursor = {0, 0, 0};
	HjgStatus	status;
	HjgEnv		env = {.arg = &watched, .alloc = plain_alloc, .free = plain_free, .poll = look};
	Pages		pages;
	void	   *join;

	for (hjg_u32 i = 0; i < 20000; i++)
		keys[i] = i;
	hjg_health_open(block);
	pages_create(&pages, 1, 20000);
	status = hjg_opencl_driver.build(number, &env, &spec, &segment, 1, &join);
	if (status == HJG_OK)
	{
		status = hjg_opencl_driver.probe(join, &segment, 1, &cursor, &pages.result);
		hjg_opencl_driver.free(join);
	}
	claim(status == HJG_OK && pages.result.npairs == 20000 && watched.least == 1 && block->health[0].in_use == 0,
		  "while it joins, and only then, the device is marked as used");
	pages_destroy(&pages);
	for (int i = 0; i < 3; i++)
		hjg_health_note(block->health[0].name, "for the test");
	hjg_opencl_driver.list(infos, hjg_opencl_driver.room);
	claim(infos[number].state == HJG_DEVICE_FAILED && strncmp(infos[number].reason, "left alone", 10) == 0,
		  "after three failures it is left alone: %s", infos[number].reason);
	hjg_health_open(NULL);
	free(block);
}

/* Test spans against one place for each byte. */
static void
test_spans(void)
{
	enum {BYTES = 97, ROUNDS = 20000};
	HjgClSpans	spans = {.n = 0};
	hjg_u8		places[BYTES] = {0};
	Random		random = {.state = test_seed};
	bool		good = true;
	int			most = 0;

	for (int round = 0; round < ROUNDS && good; round++)
	{
		const hjg_u64 a = random_below(&random, BYTES);
		const hjg_u64 b = random_below(&random, BYTES + 1);
		const hjg_u64 begin = a < b ? a : b;
		const hjg_u64 end = a < b ? b : a;
		const HjgClPlace place = (HjgClPlace) (random_below(&random, 3));
		hjg_u64		from = begin;
		hjg_u64		at = begin;
		hjg_u64		until;

		/* bytes that are only there, in order, and none in between */
		while ((until = hjg_cl_spans_next(&spans, place, &from, end)) > 0)
		{
			good = good && from >= at && until > from && until <= end;
			for (; at < from; at++)
				good = good && places[at] != place;
			for (; at < until; at++)
				good = good && places[at] == place;
			from = until;
		}
		/* bytes behind the last span are anywhere, but not found as such */
		for (; place != HJG_CL_ANYWHERE && at < end; at++)
			good = good && places[at] != place;
		good = good && hjg_cl_spans_set(&spans, begin, end, place);
		memset(places + begin, place, end - begin);
		for (int i = 1; i < spans.n; i++)
			good = good && spans.spans[i - 1].end < spans.spans[i].end && spans.spans[i - 1].place != spans.spans[i].place;
		most = spans.n > most ? spans.n : most;
	}
	hjg_cl_spans_free(&spans);
	claim(good && most > 3 && spans.n == 0, "spans say the same as a byte each, up to %d of them", most);
}

/* Test that buffers are kept for the next join of about their size, but not for ever. */
static void
test_buffers_kept(void)
{
	enum {BYTES = 1 << 20, MANY = 80};
	char		reason[128] = "";
	const HjgClApi *api = hjg_cl_api(reason, sizeof(reason));
	HjgClDevice device;
	cl_device_id id;
	cl_mem		buffers[MANY] = {NULL};
	cl_mem		again;
	cl_mem		other;
	cl_int		error = CL_SUCCESS;
	size_t		kept;
	bool		good = true;

	if (api == NULL || hjg_cl_find(api, 0, 0, &id) != CL_SUCCESS || !hjg_cl_open(api, id, 0, &device, reason, sizeof(reason)))
	{
		printf("# the first device's buffers skipped: %s\n", reason);
		return;
	}
	buffers[0] = hjg_cl_pool_take(&device, BYTES, &error);
	hjg_cl_pool_give(&device, buffers[0], BYTES);
	again = hjg_cl_pool_take(&device, BYTES - 1000, &error);
	other = hjg_cl_pool_take(&device, BYTES, &error);
	claim(error == CL_SUCCESS && again == buffers[0] && other != NULL && other != again, "a buffer that was given back is taken again, by one at a time");
	hjg_cl_pool_give(&device, again, BYTES - 1000);
	hjg_cl_pool_give(&device, other, BYTES);
	other = hjg_cl_pool_take(&device, 4 * BYTES, &error);
	kept = hjg_cl_pool_trim(&device, 60000);
	hjg_cl_pool_give(&device, other, 4 * BYTES);
	claim(kept == 2 * BYTES && hjg_cl_pool_trim(&device, 60000) == 6 * BYTES && hjg_cl_pool_trim(&device, 0) == 0,
		  "one of another size is another one, and those that are idle are released");
	for (int i = 0; i < MANY; i++)
		good = (buffers[i] = hjg_cl_pool_take(&device, BYTES, &error)) != NULL && good;
	for (int i = 0; i < MANY; i++)
		if (buffers[i] != NULL)
			hjg_cl_pool_give(&device, buffers[i], BYTES);
	kept = hjg_cl_pool_trim(&device, 60000);
	claim(good && kept < MANY * (size_t) BYTES && kept >= 16 * (size_t) BYTES, "of many some are kept: %zu MB", kept >> 20);
	hjg_cl_pool_trim(&device, 0);
	for (int failed = 0; failed < 2; failed++)
	{
		static hjg_u8 bytes[4096];
		const HjgMemory memory = {bytes, sizeof(bytes)};
		HjgClRegions *regions = calloc(1, sizeof(HjgClRegions));

		regions->device = &device;
		regions->copies = true;
		good = hjg_cl_region_buffer(regions, &memory) != NULL;
		regions->failed = failed;
		hjg_cl_region_forget(regions, bytes);
		kept = hjg_cl_pool_trim(&device, 60000);
		claim(good && (kept > 0) == !failed, failed ? "but none after a command that failed" : "a region's is, too");
		hjg_cl_pool_trim(&device, 0);
		free(regions);
	}
	hjg_cl_close(&device);
}

/* Join n rows with themselves, all on the device or all on the CPU; returns the bytes that crossed. */
static bool
join_on(const HjgRunner *runner, double cpu_share, hjg_u32 nrows, hjg_u32 *keys, HjgResult *result, hjg_u64 crossed[HJG_PROCESSORS])
{
	const HjgSegment segment = {.keys = keys, .nrows = nrows};
	const HjgEnv env = {.alloc = plain_alloc, .free = plain_free};
	HjgCursor	cursor = {0, 0, 0};
	HjgRunnerTimes before;
	HjgRunnerTimes after;
	HjgCoupledConfig config;
	HjgCoupled *join;
	bool		good = false;

	for (hjg_u32 i = 0; i < nrows; i++)
		keys[i] = i;
	hjg_coupled_defaults(&config);
	config.strategy = HJG_COUPLED_PHJ_PL;
	config.pipeline = HJG_PIPELINE_E;
	for (int i = 0; i < HJG_STEP_COUNT; i++)
		config.fixed_ratios[i] = cpu_share;
	runner->times(runner->arg, &before);
	if (hjg_coupled_build(&env, &config, runner, 4, HJG_MATCH_ALL, &segment, 1, &join) == HJG_OK)
	{
		good = hjg_coupled_probe(join, &segment, 1, &cursor, result) == HJG_OK && result->npairs == nrows;
		hjg_coupled_free(join);
	}
	runner->times(runner->arg, &after);
	for (int p = 0; p < HJG_PROCESSORS; p++)
		crossed[p] = after.crossed_bytes[p] - before.crossed_bytes[p];
	return good;
}

/*
 * Test that only crossing data is copied: for a join on the device, keys, the table's empty headers and
 * places of pairs go there, and pairs and their counts come back, whatever the steps in between; the rest,
 * for headers of partitions, is less than a byte a row.
 */
static void
test_crossing(const HjgRunner *runner)
{
	enum {ROWS = 65536};
	static hjg_u32 keys[ROWS];
	hjg_u64		crossed[HJG_PROCESSORS];
	Pages		pages;
	bool		good;

	pages_create(&pages, 1, ROWS);
	good = join_on(runner, 0, ROWS, keys, &pages.result, crossed);
	claim(good && crossed[HJG_ON_DEVICE] >= ROWS * 20 && crossed[HJG_ON_DEVICE] < ROWS * 21 &&
		  crossed[HJG_ON_CPU] >= ROWS * 12 && crossed[HJG_ON_CPU] < ROWS * 13,
		  "all on the device: %.1f bytes a row go there, %.1f come back", (double) crossed[HJG_ON_DEVICE] / ROWS,
		  (double) crossed[HJG_ON_CPU] / ROWS);
	good = join_on(runner, 1, ROWS, keys, &pages.result, crossed);
	claim(good && crossed[HJG_ON_DEVICE] == 0 && crossed[HJG_ON_CPU] == 0, "all on the CPU: nothing crosses");
	pages_destroy(&pages);
}

/*
 * Compute the bytes that should cross for each step of a join of nrows with themselves, with these shares
 * on the CPU.
 */
static void
expect_crossings(bool partitioned, int bits, hjg_u32 nrows, const double *ratios, double bytes[HJG_PROCESSORS][HJG_STEP_COUNT])
{
	static const HjgStep steps[2][15] = {
		{HJG_STEP_HASH, HJG_STEP_B2, HJG_STEP_B3, HJG_STEP_B4, HJG_STEP_HASH, HJG_STEP_P2, HJG_STEP_P3, HJG_STEP_P4, HJG_STEP_COUNT},
		{HJG_STEP_HASH, HJG_STEP_N2, HJG_STEP_N3, HJG_STEP_NUMBER, HJG_STEP_B2, HJG_STEP_B3, HJG_STEP_B4,
		HJG_STEP_HASH, HJG_STEP_N2, HJG_STEP_N3, HJG_STEP_NUMBER, HJG_STEP_P2, HJG_STEP_P3, HJG_STEP_P4, HJG_STEP_COUNT}
	};
	const HjgRowsShape rows = {.nrows = nrows, .row_bytes = {
		[HJG_ARRAY_KEYS] = 4, [HJG_ARRAY_MIXED] = 4, [HJG_ARRAY_ROWS] = 4, [HJG_ARRAY_BUCKETS] = 4, [HJG_ARRAY_NODES] = 4,
		[HJG_ARRAY_COUNTS] = 4, [HJG_ARRAY_OFFSETS] = 4, [HJG_ARRAY_HEADERS] = 4.0 * hjg_step_part_counters((hjg_u32) bits) / nrows
	}};
	HjgPlaces	places = {0};

	memset(bytes, 0, sizeof(double) * HJG_PROCESSORS * HJG_STEP_COUNT);
	for (const HjgStep *step = steps[partitioned]; *step != HJG_STEP_COUNT; step++)
	{
		HjgCopies	to[HJG_PROCESSORS] = {{0, 0}, {0, 0}};

		hjg_places_host_wrote(&places, hjg_step_use[*step].host_writes);
		hjg_places_step(&places, &rows, *step, ratios[*step], to);
		hjg_places_host_reads(&places, &rows, hjg_step_use[*step].host_reads, &to[HJG_ON_CPU]);
		for (int p = 0; p < HJG_PROCESSORS; p++)
			bytes[p][*step] += to[p].bytes;
	}
}

/* Test that the predicted bytes cross before each step, in joins of any ratios. */
static void
test_predicted_crossing(const HjgRunner *runner)
{
	enum {ROWS = 65536, RUNS = 12};
	static hjg_u32 keys[ROWS];
	const HjgSegment segment = {.keys = keys, .nrows = ROWS};
	const HjgEnv env = {.alloc = plain_alloc, .free = plain_free};
	double		crossed = 0;
	int			nwrong = 0;
	int			nsingle = 0;	/* joins partitioned in one pass */
	Pages		pages;

	pages_create(&pages, 1, ROWS);
	for (hjg_u32 i = 0; i < ROWS; i++)
		keys[i] = i;
	for (int run = 0; run < RUNS; run++)
	{
		const bool	partitioned = run % 2 == 1;
		HjgCursor	cursor = {0, 0, 0};
		HjgCoupledConfig config;
		HjgCoupledStats stats;
		HjgCoupled *join;
		double		bytes[HJG_PROCESSORS][HJG_STEP_COUNT];
		int			bits = 0;

		hjg_coupled_defaults(&config);
		config.strategy = partitioned ? HJG_COUPLED_PHJ_PL : HJG_COUPLED_SHJ_PL;
		config.pipeline = HJG_PIPELINE_E;
		for (int i = 0; i < HJG_STEP_COUNT; i++)
			config.fixed_ratios[i] = (double) (hjg_mix32(HJG_HASH_NO_SEED, (hjg_u32) (test_seed + (hjg_u64) (run * HJG_STEP_COUNT + i))) % 17) / 16;
		if (hjg_coupled_build(&env, &config, runner, 4, HJG_MATCH_ALL, &segment, 1, &join) != HJG_OK)
		{
			nwrong++;
			continue;
		}
		nwrong += hjg_coupled_probe(join, &segment, 1, &cursor, &pages.result) != HJG_OK || pages.result.npairs != ROWS;
		hjg_coupled_stats(join, &stats);
		hjg_coupled_free(join);
		while (1u << bits < stats.join.npartitions)
			bits++;
		nsingle += partitioned && bits <= 8;
		expect_crossings(partitioned, bits, ROWS, stats.ratios, bytes);
		for (int p = 0; p < HJG_PROCESSORS; p++)
			for (int i = 0; i < HJG_STEP_COUNT; i++)
			{
				/* places are shares of rows, which are cut at whole rows */
				if (fabs((double) stats.copied[p][i].bytes - bytes[p][i]) > 64)
				{
					printf("# run %d, step %d to %d: %llu bytes, expected %.0f\n", run, i, p, (unsigned long long) stats.copied[p][i].bytes, bytes[p][i]);
					nwrong++;
				}
				crossed += bytes[p][i];
			}
	}
	pages_destroy(&pages);
	claim(nwrong == 0 && nsingle == RUNS / 2 && crossed > 0, "%d joins of any ratios: as many bytes cross before each step as the model says, %.1f a row",
		  RUNS, crossed / RUNS / ROWS);
}

/* Repeat everything as on a device with its own memory. */
static void
test_copies(int number)
{
	static const int widths[] = {4, 8, 16};
	HjgRunner  *runners[3] = {NULL, NULL, NULL};
	char		reason[128] = "";
	bool		good = true;
	int			cpu_threads;

	hjg_cl_set_copies(true);
	for (int w = 0; w < 3; w++)
	{
		runners[w] = hjg_opencl_begin(number, widths[w], &cpu_threads, reason, sizeof(reason));
		good = good && runners[w] != NULL && runners[w]->move != NULL;
	}
	if (claim(good, "a device can be used by copies%s%s", good ? "" : ": ", reason))
	{
		const bool	was_short = short_run;

		test_crossing(runners[0]);
		test_predicted_crossing(runners[0]);
		short_run = true;
		test_coupled_on((const HjgRunner *const *) runners, "copies");
		short_run = was_short;
	}
	for (int w = 0; w < 3; w++)
		if (runners[w] != NULL)
			hjg_opencl_end(runners[w]);
	hjg_cl_set_copies(false);
}

/*
 * Test that a program which does not know --probe-opencl, started as the child, does not start children
 * without end.
 */
static void
test_child_starts_none(void)
{
	HjgClReport reports[2];
	int			n;

	setenv(HJG_CL_PROBE_MARK, "1", 1);
	n = hjg_cl_probe(reports, 2, 10000);
	unsetenv(HJG_CL_PROBE_MARK);
	claim(n == 1 && reports[0].nothing == 1 && reports[0].info.state == HJG_DEVICE_FAILED &&
		  strstr(reports[0].info.reason, "this is the child") != NULL,
		  "a child that looks for devices starts no other one: %s", n == 1 ? reports[0].info.reason : "");
}

/*
 * Test that a device which calibration found faster than the cpu engine is measured ahead of joins, for
 * all widths of keys, and another is not.  A short run is content with the first width.
 */
static void
test_measured_ahead(int number)
{
	HjgControl *control = calloc(1, sizeof(HjgControl));
	HjgDeviceInfo infos[HJG_MAX_DEVICES] = {0};
	HjgCalibration calibration = {.cpu_engine = {.start_ns = 1e6, .build_ns = {10, 10}, .probe_ns = {10, 10}}};
	const hjg_u32 wanted = HJG_WIDTH_BIT(4) | (short_run ? 0 : HJG_WIDTH_BIT(8) | HJG_WIDTH_BIT(16));
	double		values[HJG_CALIBRATION_VALUES] = {0};
	hjg_u32		before;
	bool		idle = true;

	hjg_opencl_driver.list(infos, hjg_opencl_driver.room);
	before = infos[number].warm;
	calibration.coupled[number].costs = (HjgEngineCosts) {.start_ns = 1e6, .build_ns = {11, 11}, .probe_ns = {11, 11}};
	calibration.coupled[number].identity = hjg_gpu_identity(infos[number].description);
	for (int round = 0; round < 2; round++)
	{
		memcpy(values, &calibration, sizeof(calibration));
		memcpy(control->calibration, values, sizeof(values));
		control->calibration_seq = 2;
		hjg_cl_costs_open(control);
		for (int i = 0; i < (round == 0 ? 3 : 120) && (infos[number].warm & wanted) != wanted; i++)
		{
			hjg_opencl_driver.tend();
			nanosleep(&(struct timespec) {round, 20000000}, NULL);
			hjg_opencl_driver.list(infos, hjg_opencl_driver.room);
		}
		if (round == 0)
			idle = infos[number].warm == before;
		calibration.coupled[number].costs.build_ns[0] = calibration.coupled[number].costs.probe_ns[0] = 1;
	}
	hjg_cl_costs_open(NULL);
	claim(before == 0 && idle && (infos[number].warm & wanted) == wanted,
		  "a device that is worth it is measured ahead of joins, and no other one (%x of %x)", infos[number].warm, wanted);
	free(control);
}

/* Test one device. */
static void
test_device(const HjgDeviceInfo *device)
{
	static const int widths[] = {4, 8, 16};
	const int	number = device->id.number;
	HjgRunner  *runners[3] = {NULL, NULL, NULL};
	char		reason[128] = "";
	bool		good = true;
	int			cpu_threads;

	printf("# %s: %s\n", hjg_device_name(device->id).text, device->description);
	for (int w = 0; w < 3; w++)
	{
		runners[w] = hjg_opencl_begin(number, widths[w], &cpu_threads, reason, sizeof(reason));
		good = good && runners[w] != NULL;
		/* the tests' keys are not aligned, which a CPU device accepts */
		if (runners[w] != NULL)
			runners[w]->align_bytes = 1;
	}
	if (claim(good, "a device that is listed as ready can be opened%s%s", good ? "" : ": ", reason))
	{
		test_coupled_on((const HjgRunner *const *) runners, hjg_device_name(device->id).text);
		/* a device that works on copies has no other mode */
		if (runners[0]->move == NULL)
			test_copies(number);
		else
		{
			test_crossing(runners[0]);
			test_predicted_crossing(runners[0]);
		}
		test_measured_ahead(number);
		test_health(number);
	}
	for (int w = 0; w < 3; w++)
		if (runners[w] != NULL)
			hjg_opencl_end(runners[w]);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"device", required_argument, NULL, 'd'},
		{"probe-opencl", no_argument, NULL, 'p'},
		{"short", no_argument, NULL, 's'},
		{NULL, 0, NULL, 0}
	};
	static HjgDeviceInfo devices[HJG_MAX_DEVICES];
	static struct sigaction before[NSIG];
	const char *wanted = NULL;
	int			nlisted = 0;
	int			ntested = 0;
	int			option;
	sigset_t	all;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option)
		{
			case 'p':			/* the program runs itself as the probing child */
				return getenv(HJG_CL_PROBE_MARK) != NULL ? hjg_cl_probe_main() : EXIT_FAILURE;
			case 's':
				short_run = true;
				break;
			case 'd':
				wanted = optarg;
				break;
			default:
				return 2;
		}
	set_test_seed(optind < argc ? strtoull(argv[optind], NULL, 0) : (hjg_u64) time(NULL));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, NULL, &before[sig]);
	printf("# seed %llu%s\n", (unsigned long long) test_seed, short_run ? ", short run" : "");
	test_child_starts_none();
	test_spans();
	hjg_drivers_open(devices, true);
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
	{
		if (devices[i].id.kind != HJG_KIND_OPENCL || devices[i].id.number == HJG_NO_NUMBER)
			continue;
		nlisted++;
		if (wanted != NULL && strcmp(hjg_device_name(devices[i].id).text, wanted) != 0)
			continue;
		if (devices[i].state != HJG_DEVICE_READY)
			printf("# %s skipped: %s\n", hjg_device_name(devices[i].id).text, devices[i].reason);
		else
		{
			test_device(&devices[i]);
			ntested++;
		}
	}
	if (ntested > 0)
		test_buffers_kept();
	claim(nlisted > 0, "OpenCL has a line in the list of devices, whatever is installed");
	claim(wanted == NULL || ntested == 1, "the device that was asked for is tested");
	claim(signals_kept(before), "signal handlers are what they were");
	printf("1..%d\n", claims_passed + claims_failed);
	printf("# %d passed, %d failed\n", claims_passed, claims_failed);
	return claims_failed > 0;
}
