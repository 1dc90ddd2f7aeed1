/*
 * device_coupled_bench.c
 *	  hjoin_gpu_device --bench --device=NAME: the coupled engine's strategies beside
 *	  the cpu engine on all threads, as in He, Lu and He, section 5.
 *
 * Both sides have the same number of rows; build keys are unique.  Skew gives a part
 * of the probe rows one key, selectivity is the part that has a match.  Every run's number of
 * pairs is compared with the one that was drawn.  NAME is opencl:N or threads, which
 * emulates the device by plain threads.
 */
#define _GNU_SOURCE

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/hjg_opencl.h"

#define KEY_WIDTH 4
#define MAX_REPS 9

typedef struct Options
{
	const char *device;
	const char *strategy;		/* NULL: all */
	int			min_log;
	int			max_log;
	int			nreps;
	int			units;			/* of the device; 0: half */
	double		skew;
	double		selectivity;
	bool		steps;			/* print what each step took */
	bool		calibrate;		/* otherwise every step is halved */
	HjgCoupledConfig config;
} Options;

typedef struct Input
{
	hjg_u32		nrows;
	hjg_u32    *build;
	hjg_u32    *probe;
	HjgPair    *pairs;
	hjg_u64		npairs;			/* expected */
} Input;

static void *
bench_alloc(void *arg, size_t bytes)
{
	bool		fresh;
	void	   *ptr = hjg_workspace_alloc(bytes, &fresh);

	if (fresh && ptr != NULL)
		memset(ptr, 0, bytes);
	return ptr;
}

static void
bench_free(void *arg, void *ptr, size_t bytes)
{
	hjg_workspace_free(ptr, bytes);
}

static void *
map_rows(hjg_u32 nrows, size_t bytes)
{
	return bench_alloc(NULL, (size_t) nrows * bytes + HJG_SLAB_BYTES);
}

static hjg_u64
next_random(hjg_u64 *state)
{
	return hjg_mix64(*state += 0x9e3779b97f4a7c15u);
}

static bool
make_input(Input *in, const Options *options, int log)
{
	hjg_u64		state = 42;

	*in = (Input) {.nrows = 1u << log};
	in->build = map_rows(in->nrows, sizeof(hjg_u32));
	in->probe = map_rows(in->nrows, sizeof(hjg_u32));
	in->pairs = map_rows(in->nrows, sizeof(HjgPair));
	if (in->build == NULL || in->probe == NULL || in->pairs == NULL)
		return false;
	for (hjg_u32 i = 0; i < in->nrows; i++)
	{
		double		u = (double) (next_random(&state) >> 11) / 9007199254740992.0;
		hjg_u32		key = (hjg_u32) (next_random(&state) >> 32) & (in->nrows - 1);

		/* a bijection: nrows is a power of two and the multiplier odd */
		in->build[i] = (i * 2654435761u) & (in->nrows - 1);
		if (u < options->skew)
			key = 1;
		u = (double) (next_random(&state) >> 11) / 9007199254740992.0;
		if (u >= options->selectivity)
			key += in->nrows;
		else
			in->npairs++;
		in->probe[i] = key;
	}
	return true;
}

static void
free_input(Input *in)
{
	bench_free(NULL, in->build, (size_t) in->nrows * sizeof(hjg_u32) + HJG_SLAB_BYTES);
	bench_free(NULL, in->probe, (size_t) in->nrows * sizeof(hjg_u32) + HJG_SLAB_BYTES);
	bench_free(NULL, in->pairs, (size_t) in->nrows * sizeof(HjgPair) + HJG_SLAB_BYTES);
}

typedef struct Times
{
	double		total_ns;
	HjgCoupledStats stats;
	bool		good;
} Times;

/* One join; config NULL: the cpu engine. */
static bool
run_once(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, const Input *in, Times *times)
{
	const HjgJoinSpec spec = {.key_width = KEY_WIDTH};
	const HjgSegment build = {.keys = in->build, .nrows = in->nrows};
	HjgJoin    *cpu = NULL;
	HjgCoupled *coupled = NULL;
	hjg_u64		npairs = 0;
	hjg_u64		started = hjg_arena_now_ns();
	HjgStatus	status = config == NULL ? hjg_join_build(env, &spec, &build, 1, &cpu) :
		hjg_coupled_build(env, config, runner, KEY_WIDTH, HJG_MATCH_ALL, &build, 1, &coupled);

	for (hjg_u32 row = 0; status == HJG_OK && row < in->nrows; row += HJG_MAX_PROBE_ROWS)
	{
		const HjgSegment probe = {.keys = in->probe + row,
			.nrows = in->nrows - row < HJG_MAX_PROBE_ROWS ? in->nrows - row : HJG_MAX_PROBE_ROWS};
		HjgPair    *page = in->pairs + row;
		HjgResult	result = {.pages = &page, .npages = 1, .page_pairs = probe.nrows};
		HjgCursor	cursor = {0, 0, 0};

		status = config == NULL ? hjg_join_probe(cpu, &probe, 1, &cursor, &result) :
			hjg_coupled_probe(coupled, &probe, 1, &cursor, &result);
		npairs += result.npairs;
	}
	times->total_ns = (double) (hjg_arena_now_ns() - started);
	if (coupled != NULL)
		hjg_coupled_stats(coupled, &times->stats);
	if (cpu != NULL)
		hjg_join_stats(cpu, &times->stats.join);
	hjg_coupled_free(coupled);
	hjg_join_free(cpu);
	times->good = status == HJG_OK && npairs == in->npairs;
	return times->good;
}

static int
compare_times(const void *a, const void *b)
{
	const double x = ((const Times *) a)->total_ns;
	const double y = ((const Times *) b)->total_ns;

	return (x > y) - (x < y);
}

static const char *const step_names[HJG_STEP_COUNT] = {
	"hash (n1 b1 p1)", "number", "n2", "n3", "b2", "b3", "b4", "p2", "p3", "p4"
};

/* Where the time went: the CPU's share, and what a row took on each side while both were at work. */
static void
print_steps(const HjgCoupledStats *stats)
{
	for (int i = 0; i < HJG_STEP_COUNT; i++)
	{
		const hjg_u64 *cpu = &stats->step_rows[HJG_ON_CPU][i];
		const hjg_u64 *device = &stats->step_rows[HJG_ON_DEVICE][i];

		if (*cpu + *device == 0)
			continue;
		printf("    %-16s ratio %4.2f, CPU %7.2f ns a row, device %7.2f\n", step_names[i],
			   (double) *cpu / (double) (*cpu + *device),
			   *cpu ? (double) stats->step_ns[HJG_ON_CPU][i] / (double) *cpu : 0.0,
			   *device ? (double) stats->step_ns[HJG_ON_DEVICE][i] / (double) *device : 0.0);
	}
}

/* A line of the table; false when a result was wrong. */
static bool
measure(const char *name, const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, const Input *in,
		const Options *options, double *ns)
{
	const int	nreps = options->nreps;
	static Times times[MAX_REPS + 1];
	const Times *median = &times[1 + nreps / 2];
	bool		good = true;
	double		predicted_ns;

	memset(times, 0, sizeof(times));
	for (int i = 0; i <= nreps && good; i++)
		good = run_once(env, config, runner, in, &times[i]);
	qsort(times + 1, (size_t) nreps, sizeof(Times), compare_times);
	predicted_ns = median->stats.predicted_build_ns + median->stats.predicted_probe_ns;
	printf("%-16s %9u %9.2f %9.2f %9.2f %9.2f %8.1f", name, in->nrows, median->total_ns / 1e6,
		   (double) median->stats.join.partition_ns / 1e6, (double) median->stats.join.build_ns / 1e6,
		   (double) median->stats.join.probe_ns / 1e6, 2.0 * in->nrows / median->total_ns * 1e3);
	if (*ns > 0)
		printf(" %7.2fx", median->total_ns / *ns);
	else
		printf(" %8s", "1.00x");
	if (predicted_ns > 0)
		printf(" %9.2f %+6.0f%%", predicted_ns / 1e6, (predicted_ns / median->total_ns - 1) * 100);
	if (median->stats.transfer_ns > 0)
		printf("  bus %.2f ms", (double) median->stats.transfer_ns / 1e6);
	printf("%s%s\n", median->stats.gave_up ? "  (by the cpu engine)" : "", good ? "" : "  WRONG");
	if (options->steps && config != NULL)
		print_steps(&median->stats);
	fflush(stdout);
	if (*ns <= 0)
		*ns = median->total_ns;
	return good;
}

static void
print_costs(const HjgStepCosts *costs)
{
	printf("unit costs, ns a row   in cache: CPU  device   out of it: CPU  device\n");
	for (int i = 0; i < HJG_STEP_COUNT; i++)
		printf("%-16s %15.2f %7.2f %16.2f %7.2f\n", step_names[i], costs->small_ns[HJG_ON_CPU][i],
			   costs->small_ns[HJG_ON_DEVICE][i], costs->large_ns[HJG_ON_CPU][i], costs->large_ns[HJG_ON_DEVICE][i]);
	printf("launch %.1f us\n\n", costs->launch_ns / 1e3);
}

/* "--name=VALUE": the value, or NULL when arg is another option. */
static const char *
value_of(const char *arg, const char *name)
{
	const size_t n = strlen(name);

	return strncmp(arg, "--", 2) == 0 && strncmp(arg + 2, name, n) == 0 && arg[2 + n] == '=' ? arg + 3 + n : NULL;
}

static bool
parse_option(Options *options, const char *arg)
{
	const char *value;

	if ((value = value_of(arg, "device")) != NULL)
		options->device = value;
	else if ((value = value_of(arg, "strategy")) != NULL)
		options->strategy = value;
	else if ((value = value_of(arg, "min-log")) != NULL)
		options->min_log = atoi(value);
	else if ((value = value_of(arg, "max-log")) != NULL)
		options->max_log = atoi(value);
	else if ((value = value_of(arg, "reps")) != NULL)
		options->nreps = atoi(value);
	else if ((value = value_of(arg, "units")) != NULL)
		options->units = atoi(value);
	else if ((value = value_of(arg, "skew")) != NULL)
		options->skew = atof(value);
	else if ((value = value_of(arg, "selectivity")) != NULL)
		options->selectivity = atof(value);
	else if ((value = value_of(arg, "block")) != NULL)
		options->config.block_bytes = (hjg_u32) atoi(value);
	else if ((value = value_of(arg, "bus-gbs")) != NULL)
		options->config.bus_bytes_per_ns = atof(value);
	else if ((value = value_of(arg, "bus-latency-us")) != NULL)
		options->config.bus_latency_ns = atof(value) * 1e3;
	else if (strcmp(arg, "--separate") == 0)
		options->config.separate_tables = true;
	else if (strcmp(arg, "--grouping") == 0)
		options->config.grouping = true;
	else if (strcmp(arg, "--steps") == 0)
		options->steps = true;
	else if (strcmp(arg, "--halves") == 0)
		options->calibrate = false;
	else
		return false;
	return true;
}

static bool
run_size(const Options *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	HjgCoupledConfig config = options->config;
	double		cpu_ns = 0;
	bool		good;
	Input		in;

	if (!make_input(&in, options, log))
	{
		printf("out of memory\n");
		return false;
	}
	good = measure("cpu engine", env, NULL, NULL, &in, options, &cpu_ns);
	for (int s = HJG_COUPLED_FIRST; s <= HJG_COUPLED_LAST && good; s++)
	{
		const char *name = hjg_coupled_strategy_name(s);

		if (options->strategy != NULL && strcmp(options->strategy, name) != 0)
			continue;
		config.strategy = (HjgCoupledStrategy) s;
		good = measure(name, env, &config, runner, &in, options, &cpu_ns);
	}
	free_input(&in);
	return good;
}

int
hjg_coupled_bench(int nthreads, int argc, char **argv)
{
	static HjgDeviceInfo devices[HJG_MAX_DEVICES];
	Options		options = {.device = "opencl:0", .min_log = 16, .max_log = 24, .nreps = 3, .selectivity = 1, .calibrate = true};
	HjgEnv		env = {.alloc = bench_alloc, .free = bench_free};
	HjgStepCosts costs;
	HjgRunner  *runner;
	char		reason[128] = "";
	bool		is_threads;
	bool		good;

	hjg_coupled_defaults(&options.config);
	for (int i = 0; i < argc; i++)
		if (!parse_option(&options, argv[i]))
		{
			printf("bad benchmark option: %s\n", argv[i]);
			return 2;
		}
	if (options.min_log < 6 || options.max_log > 26 || options.nreps < 1 || options.nreps > MAX_REPS)
	{
		printf("bad benchmark option: value out of range\n");
		return 2;
	}
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
		hjg_drivers_open(devices, true);
		runner = hjg_opencl_begin(strncmp(options.device, "opencl:", 7) == 0 ? atoi(options.device + 7) : -1, KEY_WIDTH,
								  &options.config.cpu_threads, reason, sizeof(reason));
	}
	if (runner == NULL)
	{
		printf("%s cannot be used%s%s\n", options.device, reason[0] ? ": " : "", reason);
		return 2;
	}
	env.pool = nthreads > 1 ? hjg_pool_create(nthreads) : NULL;
	good = true;
	if (options.calibrate)
	{
		good = hjg_coupled_calibrate(&env, &options.config, runner, KEY_WIDTH, &costs) == HJG_OK;
		options.config.costs = &costs;
		print_costs(&costs);
	}
	printf("%-16s %9s %9s %9s %9s %9s %8s %8s %9s %7s\n", "strategy", "rows", "ms", "part ms", "build ms", "probe ms",
		   "Mrows/s", "to cpu", "predicted", "error");
	for (int log = options.min_log; log <= options.max_log && good; log += 2)
		good = run_size(&options, &env, runner, log);
	hjg_pool_destroy(env.pool);
	if (is_threads)
		hjg_threads_runner_destroy(runner);
	else
		hjg_opencl_end(runner);
	hjg_workspace_trim(0);
	return good ? 0 : 1;
}
