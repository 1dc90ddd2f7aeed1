/*
 * lab_coupled_bench.c
 *	  hjoin_gpu_lab NAME: compares the coupled engine's strategies with the cpu engine on all threads,
 *	  as in He, Lu and He, section 5.
 *
 * Every run's number of pairs is compared with the expected one.  NAME is opencl:N or threads, which
 * emulates the device with plain threads.
 */
#define _GNU_SOURCE

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "lab/hjg_lab.h"

#define MAX_REPS 15

/* Random settings of --model for each size and strategy. */
#define MODEL_RUNS 40

/* Random runs of figure 9; the paper has 1000. */
#define DRAWS 200

static int
compare_times(const void *a, const void *b)
{
	const double x = ((const HjgBenchTimes *) a)->total_ns;
	const double y = ((const HjgBenchTimes *) b)->total_ns;

	return (x > y) - (x < y);
}

/* Print the steps' times: the CPU's share, and the time of a row on each side while both worked. */
static void
print_steps(const HjgCoupledStats *stats)
{
	for (int i = 0; i < HJG_STEP_COUNT; i++)
	{
		const hjg_u64 *cpu = &stats->step_rows[HJG_ON_CPU][i];
		const hjg_u64 *device = &stats->step_rows[HJG_ON_DEVICE][i];

		if (*cpu + *device == 0)
			continue;
		printf("    %-16s ratio %4.2f, CPU %7.2f ns a row, device %7.2f\n", hjg_bench_step_names[i],
			   (double) *cpu / (double) (*cpu + *device),
			   *cpu ? (double) stats->step_ns[HJG_ON_CPU][i] / (double) *cpu : 0.0,
			   *device ? (double) stats->step_ns[HJG_ON_DEVICE][i] / (double) *device : 0.0);
	}
}

/* Print the division of work, and the in-cache model's prediction of D and E of the build side. */
static void
print_units(const HjgCoupledStats *stats)
{
	const HjgUnits *units = &stats->units;

	printf("    %dP %dC %dG, %dC %dG", units->cpu_p, units->cpu_d, units->device_d, units->cpu_e, units->device_e);
	if (stats->feed_rows > 0)
		printf("; D %.2f ns a row (its CPU side %.2f ms, E waited %.2f ms)", (double) stats->feed_ns / (double) stats->feed_rows,
			   (double) stats->feed_ns / 1e6, (double) stats->feed_wait_ns / 1e6);
	if (stats->predicted.total_ns > 0)
		printf("; predicted for the build side: T_D %.2f, T_E %.2f ms", stats->predicted.decompress_ns / 1e6,
			   stats->predicted.execute_ns / 1e6);
	printf("\n");
}

/* A join of the table: the cpu engine, or a strategy with a pipeline. */
typedef struct BenchLine
{
	char		name[64];
	bool		coupled;
	HjgCoupledConfig config;
	HjgBenchTimes times[MAX_REPS];
} BenchLine;

#define MAX_LINES (1 + (HJG_COUPLED_LAST - HJG_COUPLED_FIRST + 1) * HJG_PIPELINE_COUNT)

static BenchLine lines[MAX_LINES];

/* List the cpu engine, and the strategies and pipelines that are asked for; returns their number. */
static int
list_lines(const HjgBenchOptions *options)
{
	const char *asked = options->pipeline != NULL ? options->pipeline : "e";
	int			n = 0;

	snprintf(lines[n].name, sizeof(lines[n].name), "cpu engine");
	lines[n++].coupled = false;
	for (int s = HJG_COUPLED_FIRST; s <= HJG_COUPLED_LAST; s++)
		for (int p = HJG_PIPELINE_AUTO; p < HJG_PIPELINE_COUNT; p++)
		{
			BenchLine	   *line = &lines[n];

			if ((options->strategy != NULL && strcmp(options->strategy, hjg_strategy_name(s)) != 0) ||
				(strcmp(asked, hjg_pipeline_name(p)) != 0 && strcmp(asked, "all") != 0))
				continue;
			snprintf(line->name, sizeof(line->name), "%s %s", hjg_strategy_name(s), options->pipeline != NULL ? hjg_pipeline_name(p) : "");
			line->coupled = true;
			line->config = options->config;
			line->config.strategy = (HjgCoupledStrategy) s;
			line->config.pipeline = (HjgPipeline) p;
			n++;
		}
	return n;
}

/* Run all lines once a turn, in random order; then their turns are ordered by time.  False if a result is wrong. */
static bool
run_lines(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgBenchInput *in, int nlines)
{
	int			order[MAX_LINES];

	/* the first turn warms up memory */
	for (int turn = -1; turn < options->nreps; turn++)
	{
		hjg_lab_order(order, nlines);
		for (int k = 0; k < nlines; k++)
		{
			BenchLine	   *line = &lines[order[k]];
			HjgBenchTimes *times = &line->times[turn < 0 ? 0 : turn];

			memset(times, 0, sizeof(*times));
			if (!hjg_bench_run(env, line->coupled ? &line->config : NULL, runner, in, times))
			{
				printf("%-22s %9u  WRONG\n", line->name, in->nrows);
				return false;
			}
		}
	}
	for (int i = 0; i < nlines; i++)
		qsort(lines[i].times, (size_t) options->nreps, sizeof(HjgBenchTimes), compare_times);
	return true;
}

static void
print_line(const HjgBenchOptions *options, const HjgBenchInput *in, const BenchLine *line, double cpu_ns)
{
	const HjgBenchTimes *median = &line->times[options->nreps / 2];
	const HjgCoupledStats *stats = &median->stats;
	const double predicted_ns = stats->predicted_build_ns + stats->predicted_probe_ns;

	printf("%-22s %9u %9.2f %9.2f %9.2f %9.2f %8.1f %7.2fx", line->name, in->nrows, median->total_ns / 1e6,
		   (double) stats->join.partition_ns / 1e6, (double) stats->join.build_ns / 1e6, (double) stats->join.probe_ns / 1e6,
		   2.0 * in->nrows / median->total_ns * 1e3, median->total_ns / cpu_ns);
	if (predicted_ns > 0)
		printf(" %9.2f %+6.0f%%", predicted_ns / 1e6, (predicted_ns / median->total_ns - 1) * 100);
	if (stats->transfer_ns > 0)
		printf("  bus %.2f ms", (double) stats->transfer_ns / 1e6);
	printf("%s\n", stats->gave_up ? "  (by the cpu engine)" : "");
	if (options->pipeline != NULL && line->coupled)
		print_units(stats);
	if (options->steps && line->coupled)
		print_steps(stats);
	fflush(stdout);
}

static void
print_copies(const HjgStepCosts *costs)
{
	const struct
	{
		const char *name;
		const HjgCopyCost *cost;
	}			kinds[] = {
		{"rows to the CPU", costs->copy[HJG_ON_CPU]}, {"rows to the device", costs->copy[HJG_ON_DEVICE]}, {"of the CPU's time", costs->call},
		{"tables to the CPU", costs->move[HJG_ON_CPU]}, {"tables to the device", costs->move[HJG_ON_DEVICE]}
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
	{
		printf("copies: %-20s", kinds[i].name);
		for (int s = 0; s < costs->nsizes; s++)
			printf("  %6.1f us each, %6.1f GB/s", kinds[i].cost[s].each_ns / 1e3, 1 / kinds[i].cost[s].byte_ns);
		printf("\n");
	}
	printf("\n");
}

static void
print_costs(const HjgStepCosts *costs)
{
	static const int logs[HJG_STEP_SIZES] = HJG_STEP_LOGS;

	printf("unit costs, ns a row: CPU, device alone; CPU, device together\n%-16s", "build rows");
	for (int s = 0; s < costs->nsizes; s++)
		printf("  %28u", 1u << logs[s]);
	printf("\n");
	for (int n = 0; n < 2 * HJG_STEP_COUNT; n++)
	{
		const int	i = n % HJG_STEP_COUNT;
		const bool	partitioned = n >= HJG_STEP_COUNT;
		const bool	is_asked = partitioned || (i != HJG_STEP_NUMBER && i != HJG_STEP_N2 && i != HJG_STEP_N3);

		if (!is_asked)
			continue;
		printf("%s %-12s", partitioned ? "phj" : "shj", hjg_bench_step_names[i]);
		for (int s = 0; s < costs->nsizes; s++)
			printf("  %6.2f %6.2f; %6.2f %6.2f", costs->alone_ns[partitioned][s][HJG_ON_CPU][i],
				   costs->alone_ns[partitioned][s][HJG_ON_DEVICE][i], costs->together_ns[partitioned][s][HJG_ON_CPU][i],
				   costs->together_ns[partitioned][s][HJG_ON_DEVICE][i]);
		printf("\n");
	}
	for (int p = 0; p < 2; p++)
	{
		printf("%s %-12s", p ? "phj" : "shj", "between steps");
		for (int s = 0; s < costs->nsizes; s++)
			printf("  build %5.2f, probe %5.2f     ", costs->build_rest_ns[p][s], costs->probe_rest_ns[p][s]);
		printf("\n%s %-12s", p ? "phj" : "shj", "CPU to device");
		for (int s = 0; s < costs->nsizes; s++)
			printf("  differs by %5.1f %%          ", costs->spread[p][s] * 100);
		printf("\n");
	}
	for (int p = 0; p < 2; p++)
	{
		printf("%s %-12s", p ? "phj" : "shj", "pieces, us");
		for (int s = 0; s < costs->nsizes; s++)
			printf("  %5.1f, %5.1f, %5.1f, %5.1f  ", costs->launch_ns[p][s] / 1e3, costs->call_ns[p][s] / 1e3,
				   costs->wake_ns[p][s] / 1e3, costs->wait_ns[p][s] / 1e3);
		printf("  (behind another one; the CPU to queue it, to wake the device; the device to begin)\n");
	}
	printf("on top of a row taken over from the other, CPU %.2f, device %.2f; piece on the CPU %.1f us, on the device %.1f us; "
		   "threads of a join's own %.1f us and %.1f for each more; unpacking %.2f %.2f; fetching %.2f bytes/ns, gain %.0f %%\n\n",
		   costs->exchange_ns[HJG_ON_CPU], costs->exchange_ns[HJG_ON_DEVICE], costs->piece_ns / 1e3, costs->busy_ns / 1e3,
		   costs->start_ns / 1e3, costs->thread_ns / 1e3, costs->unpack_ns[HJG_ON_CPU], costs->unpack_ns[HJG_ON_DEVICE],
		   costs->fetch_bytes_per_ns, costs->fetch_gain * 100);
	if (costs->copy[HJG_ON_DEVICE][0].each_ns + costs->copy[HJG_ON_DEVICE][0].byte_ns > 0)
		print_copies(costs);
}

/* Read the options; false for a bad one. */
static bool
parse_options(HjgBenchOptions *options, int argc, char **argv)
{
	enum
	{
		OPT_BLOCK, OPT_BOUNDARY, OPT_BUFFER, OPT_BUS_GBS, OPT_BUS_LATENCY_US, OPT_CHUNK, OPT_COPIES, OPT_DRAWS, OPT_EACH,
		OPT_ENGINES, OPT_FIGURES, OPT_GROUPING, OPT_HALVES, OPT_KEY_WIDTH, OPT_MAX_LOG, OPT_MIN_LOG, OPT_MODEL, OPT_PACKED,
		OPT_PAIRS, OPT_PIPELINE, OPT_PLANS, OPT_REPS, OPT_ROWS, OPT_SELECTIVITY, OPT_SEPARATE, OPT_SKEW, OPT_STEPS,
		OPT_STRATEGY, OPT_UNITS, OPT_WAS
	};
	static const struct option known[] = {
		{"block", required_argument, NULL, OPT_BLOCK},
		{"boundary", required_argument, NULL, OPT_BOUNDARY},
		{"buffer", required_argument, NULL, OPT_BUFFER},
		{"bus-gbs", required_argument, NULL, OPT_BUS_GBS},
		{"bus-latency-us", required_argument, NULL, OPT_BUS_LATENCY_US},
		{"chunk", required_argument, NULL, OPT_CHUNK},
		{"copies", no_argument, NULL, OPT_COPIES},
		{"draws", required_argument, NULL, OPT_DRAWS},
		{"each", no_argument, NULL, OPT_EACH},
		{"engines", no_argument, NULL, OPT_ENGINES},
		{"figures", optional_argument, NULL, OPT_FIGURES},
		{"grouping", no_argument, NULL, OPT_GROUPING},
		{"halves", no_argument, NULL, OPT_HALVES},
		{"key-width", required_argument, NULL, OPT_KEY_WIDTH},
		{"max-log", required_argument, NULL, OPT_MAX_LOG},
		{"min-log", required_argument, NULL, OPT_MIN_LOG},
		{"model", optional_argument, NULL, OPT_MODEL},
		{"packed", no_argument, NULL, OPT_PACKED},
		{"pairs", optional_argument, NULL, OPT_PAIRS},
		{"pipeline", required_argument, NULL, OPT_PIPELINE},
		{"plans", no_argument, NULL, OPT_PLANS},
		{"reps", required_argument, NULL, OPT_REPS},
		{"rows", optional_argument, NULL, OPT_ROWS},
		{"selectivity", required_argument, NULL, OPT_SELECTIVITY},
		{"separate", no_argument, NULL, OPT_SEPARATE},
		{"skew", required_argument, NULL, OPT_SKEW},
		{"steps", no_argument, NULL, OPT_STEPS},
		{"strategy", required_argument, NULL, OPT_STRATEGY},
		{"units", required_argument, NULL, OPT_UNITS},
		{"was", required_argument, NULL, OPT_WAS},
		{NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
		switch (option)
		{
			case OPT_BLOCK:
				options->config.block_bytes = (hjg_u32) atoi(optarg);
				break;
			case OPT_BOUNDARY:
				options->config.boundary = atoi(optarg);
				break;
			case OPT_BUFFER:
				options->config.buffer_bytes = (size_t) atoll(optarg);
				break;
			case OPT_BUS_GBS:
				options->config.bus_bytes_per_ns = atof(optarg);
				break;
			case OPT_BUS_LATENCY_US:
				options->config.bus_latency_ns = atof(optarg) * 1e3;
				break;
			case OPT_CHUNK:
				options->config.chunk_rows = (hjg_u32) atoi(optarg);
				break;
			case OPT_COPIES:
				hjg_cl_set_copies(true);
				break;
			case OPT_DRAWS:
				options->draws = atoi(optarg);
				break;
			case OPT_EACH:
				options->each = true;
				break;
			case OPT_ENGINES:
				options->engines = true;
				break;
			case OPT_FIGURES:
				options->figures = optarg != NULL ? optarg : "";
				break;
			case OPT_GROUPING:
				options->config.grouping = true;
				break;
			case OPT_HALVES:
				options->calibrate = false;
				break;
			case OPT_KEY_WIDTH:
				hjg_bench_key_width = atoi(optarg);
				break;
			case OPT_MAX_LOG:
				options->max_log = atoi(optarg);
				break;
			case OPT_MIN_LOG:
				options->min_log = atoi(optarg);
				break;
			case OPT_MODEL:
				options->model_runs = optarg != NULL ? atoi(optarg) : MODEL_RUNS;
				break;
			case OPT_PACKED:
				options->packed = true;
				break;
			case OPT_PAIRS:
				options->pairs = optarg != NULL ? optarg : "";
				break;
			case OPT_PIPELINE:
				options->pipeline = optarg;
				break;
			case OPT_PLANS:
				options->plans = true;
				break;
			case OPT_REPS:
				options->nreps = atoi(optarg);
				break;
			case OPT_ROWS:
				options->rows = optarg != NULL ? optarg : "";
				break;
			case OPT_SELECTIVITY:
				options->selectivity = atof(optarg);
				break;
			case OPT_SEPARATE:
				options->config.separate_tables = true;
				break;
			case OPT_SKEW:
				options->skew = atof(optarg);
				break;
			case OPT_STEPS:
				options->steps = true;
				break;
			case OPT_STRATEGY:
				options->strategy = optarg;
				break;
			case OPT_UNITS:
				options->units = atoi(optarg);
				break;
			case OPT_WAS:
				options->config.was_bytes = (size_t) atoll(optarg);
				break;
			default:
				return false;
		}
	return optind == argc;
}

static bool
run_size(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	const int	nlines = list_lines(options);
	bool		good;
	HjgBenchInput in;

	if (!hjg_bench_input_create(&in, options, log))
	{
		printf("out of memory\n");
		return false;
	}
	if (options->packed)
		printf("packed: build %s, %.3f bytes a row; probe %s, %.3f\n", in.plans[0],
			   (double) in.packed_build.packed_bytes / in.nrows, in.plans[1],
			   (double) in.packed_probe[0].packed_bytes / in.packed_probe[0].nrows);
	good = run_lines(options, env, runner, &in, nlines);
	for (int i = 0; i < nlines && good; i++)
		print_line(options, &in, &lines[i], lines[0].times[options->nreps / 2].total_ns);
	hjg_bench_input_destroy(&in);
	return good;
}

int
hjg_lab_coupled_bench(int nthreads, const char *device, int argc, char **argv)
{
	static HjgDeviceInfo devices[HJG_MAX_DEVICES];
	HjgBenchOptions options = {.device = device, .min_log = 16, .max_log = 24, .nreps = 3, .selectivity = 1, .draws = DRAWS, .calibrate = true};
	HjgEnv		env = {.alloc = hjg_bench_alloc, .free = hjg_bench_free};
	static HjgSeriesMemos memos;
	HjgStepCosts costs;
	HjgRunner  *runner;
	HjgDeviceId id;
	char		reason[128] = "";
	bool		is_threads;
	bool		good;

	hjg_coupled_defaults(&options.config);
	if (!parse_options(&options, argc, argv))
	{
		printf("bad benchmark option\n");
		return 2;
	}
	if ((hjg_bench_key_width != HJG_KEY_WIDTH_4 && hjg_bench_key_width != HJG_KEY_WIDTH_8) || options.min_log < 6 || options.max_log > 26 || options.nreps < 1 || options.nreps > MAX_REPS)
	{
		printf("bad benchmark option: value out of range\n");
		return 2;
	}
	if (options.plans)
		return hjg_bench_plans(&options) ? 0 : 1;
	is_threads = strcmp(options.device, "threads") == 0;
	if (is_threads)
	{
		int			units = options.units > 0 && options.units < nthreads ? options.units : (nthreads + 1) / 2;

		runner = hjg_threads_runner_create(units);
		options.config.cpu_threads = nthreads > units ? nthreads - units : 1;
	}
	else
	{
		hjg_cl_set_units(options.units);
		hjg_select_open();
		hjg_drivers_open(devices, true);
		runner = hjg_opencl_begin(hjg_device_parse(options.device, &id) && id.kind == HJG_KIND_OPENCL ? id.number : -1, hjg_bench_key_width,
								  &options.config.cpu_threads, reason, sizeof(reason));
	}
	if (runner == NULL)
	{
		printf("%s cannot be used%s%s\n", options.device, reason[0] ? ": " : "", reason);
		return 2;
	}
	printf("the CPU part has %d threads\n", options.config.cpu_threads);
	/* behind the threads of the device's driver, before the CPU part's */
	hjg_bench_counts_open();
	env.pool = nthreads > 1 ? hjg_pool_create(nthreads) : NULL;
	good = true;
	if (options.calibrate)
	{
		static const int logs[HJG_STEP_SIZES] = HJG_STEP_LOGS;
		int			nsizes = HJG_STEP_QUICK_SIZES;

		/* up to the largest measured size */
		while (nsizes < HJG_STEP_SIZES && logs[nsizes - 1] < options.max_log)
			nsizes++;
		/* calibrate the costs of D on the device, too */
		options.config.pipeline = HJG_PIPELINE_CPDE_G;
		good = hjg_coupled_calibrate(&env, &options.config, runner, hjg_bench_key_width, nsizes, &costs) == HJG_OK;
		options.config.costs = &costs;
		options.config.memos = &memos;
		print_costs(&costs);
	}
	if (options.model_runs > 0)
		good = good && options.calibrate && hjg_bench_model(&options, &env, runner);
	else if (options.pairs != NULL)
		good = good && hjg_bench_pairs(&options, &env, runner);
	else if (options.figures != NULL)
		good = good && hjg_bench_figures(&options, &env, runner);
	else if (options.rows != NULL)
		good = good && hjg_bench_rows(&options, &env, runner);
	else if (options.engines)
		good = good && hjg_bench_engines(&options, &env, runner);
	else
		printf("%-22s %9s %9s %9s %9s %9s %8s %8s %9s %7s\n", "strategy", "rows", "ms", "part ms", "build ms", "probe ms",
		   "Mrows/s", "to cpu", "predicted", "error");
	for (int log = options.min_log; log <= options.max_log && good && options.model_runs == 0 && options.pairs == NULL &&
		 options.figures == NULL && options.rows == NULL && !options.engines; log += 2)
		good = run_size(&options, &env, runner, log);
	hjg_pool_destroy(env.pool);
	if (is_threads)
		hjg_threads_runner_destroy(runner);
	else
		hjg_opencl_end(runner);
	hjg_workspace_trim(0);
	return good ? 0 : 1;
}
