/*
 * lab_coupled_incache.c
 *	  hjoin_gpu_lab NAME --figures: figures of in-cache co-processing.
 *
 * After He, Zhang and He (VLDB 2015), "001", section 5.  They measure a selection and a hash join, in figures 5, 6, 8 and 9, and four
 * queries of TPC-H.  The selection is the laboratory's (lab_coupled_selection.c), the join the engine's.  Of the queries the joins are run,
 * on TPC-H's keys (lab_coupled_tpch.c), without their conditions, groups and orders.  Q6, which has none, is run as a selection by three
 * columns that sums up products.  Where the model predicts or chooses it is missing, as no costs of that step are known.  Speedups are
 * over the CPU alone, as in the paper.
 */
#define _GNU_SOURCE

#include <stdio.h>

#include "lab/hjg_coupled_bench.h"

/* Explains why a machine without such a chip shows something else. */
#define ALIKE \
	"where both parts are cores of one CPU no unit waits more for memory than another, the unit that fetches is missed by " \
	"those that execute, and what it brings into a cache of its own is not nearer to them; pieces are as small as the set, so " \
	"small sets mean many launches; a device with memory of its own spends its time on copies"

#define ALIKE_SCANS \
	"a CPU's own units fetch neighbouring lines ahead of a scan, so P has little to add and is missed by those that execute; small sets mean " \
	"many launches"

static HjgCoupledConfig
incache_config(const HjgBenchOptions *options, HjgPipeline pipeline)
{
	HjgCoupledConfig config = options->config;

	config.strategy = HJG_COUPLED_SHJ_PL;
	config.pipeline = pipeline;
	return config;
}

static HjgCoupledConfig
cpu_alone(const HjgBenchOptions *options)
{
	return hjg_bench_config_alone(options, HJG_COUPLED_SHJ_PL, HJG_ON_CPU);
}

/* ---- figures 5, 6, 8 and 9: both operators ---- */

typedef enum Operator
{
	SELECTION,
	JOIN,
	OPERATORS
} Operator;

static const char *const operator_names[OPERATORS] = {[SELECTION] = "selection", [JOIN] = "join"};

/*
 * Make an operator's input, packed by the plan, or by cascades if it is NULL.  A selection's cascade is the one of table 3 that needs
 * all decompression; a join has the planner's, for ascending keys, as random ones have nothing that a cascade could use.
 */
static bool
make_operand(HjgBenchInput *in, const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log, Operator which,
			 bool packed, const HjgPackPlan *plan)
{
	static const HjgPackPlan cascade = {.delta = 1, .leaf = HJG_PACK_NS};
	HjgBenchOptions with = *options;
	const bool	cascades = packed && plan == NULL;
	bool		good;

	with.packed = packed;
	with.plan = cascades && which == SELECTION ? &cascade : plan;
	with.ordered = cascades;
	if (which == JOIN)
		return hjg_bench_input_create(in, &with, log);
	good = hjg_select_create(in, &with, env, runner, log, cascades ? HJG_SELECT_ASCENDING : HJG_SELECT_RANDOM);
	if (good)
		hjg_select_explain(in, options);
	return good;
}

/* True if the operator can be run here; otherwise it says why not. */
static bool
can_run(Operator which, const HjgRunner *runner)
{
	if (which == JOIN || runner->move == NULL)
		return true;
	printf("  selection: not on a device that works on copies, to which launches of the laboratory's own steps take none\n");
	return false;
}

/* Print which parts of a pipeline a run did without, to the end of the line. */
static void
print_ignored(const HjgCoupledConfig *config, const HjgCoupledStats *stats)
{
	if (config->pipeline >= HJG_PIPELINE_PE && config->was_bytes > 0 && stats->fetched_rows == 0)
		printf("; P is ignored: %s", stats->units.cpu_p == 0 ? "no thread is left for it" : "nothing lies ahead of a set");
	if (config->pipeline == HJG_PIPELINE_CPDE_G && stats->device_blocks == 0)
		printf("; the device's D is ignored");
	if (config->boundary > 0 && config->boundary != stats->units.cpu_d + stats->units.device_d)
		printf("; boundary %d is ignored", config->boundary);
	printf("\n");
}

/* ---- figures 5, 6 and 8 ---- */

static const size_t set_bytes[] = {1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22, 1 << 24};

#define NSETS ((int) (sizeof(set_bytes) / sizeof(set_bytes[0])))

static void
print_packed(const char *indent, const HjgBenchInput *in)
{
	size_t		probe_bytes = 0;

	for (int i = 0; i < HJG_BENCH_BATCHES; i++)
		probe_bytes += in->packed_probe[i].packed_bytes;
	if (in->nprobe == 0)
		printf("%s(keys %s, %.0f %% of their size)\n", indent, in->plans[0], 100.0 / hjg_bench_key_width * (double) in->packed_build.packed_bytes / in->nrows);
	else
		printf("%s(build keys %s, %.0f %% of their size; probe keys %s, %.0f %%)\n", indent, in->plans[0],
		   100.0 / hjg_bench_key_width * (double) in->packed_build.packed_bytes / in->nrows, in->plans[1], 100.0 / hjg_bench_key_width * (double) probe_bytes / in->nprobe);
}

/*
 * Run an operator on the CPU alone, on both processors without a fetcher, and in a pipeline over sizes of the work-ahead set.  A
 * selection's second point is the pipeline's division of work without P, as in the paper, if it decompresses.
 */
static bool
sets_varied(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log, Operator which, HjgPipeline pipeline,
			bool packed, const HjgPackPlan *plan)
{
	const bool	divided = which == SELECTION && pipeline >= HJG_PIPELINE_CPDE_C;
	const char *second = divided ? "cDE-b" : "E";
	HjgBenchInput in;
	bool		good;

	if (!can_run(which, runner))
		return true;
	good = make_operand(&in, options, env, runner, log, which, packed, plan);
	hjg_bench_points[0].config = cpu_alone(options);
	hjg_bench_points[1].config = incache_config(options, divided ? pipeline : HJG_PIPELINE_E);
	if (divided)
		hjg_bench_points[1].config.was_bytes = 0;
	for (int i = 0; i < NSETS; i++)
	{
		hjg_bench_points[2 + i].config = incache_config(options, pipeline);
		hjg_bench_points[2 + i].config.was_bytes = set_bytes[i];
	}
	good = good && hjg_bench_run_points(options, env, runner, &in, 2 + NSETS);
	for (int i = 0; i < 2 + NSETS && good; i++)
	{
		const double ns = hjg_bench_median(options, i)->total_ns;
		char		name[32] = "CPU part alone";

		if (i == 1)
			snprintf(name, sizeof(name), "%s", second);
		if (i >= 2)
			snprintf(name, sizeof(name), "%s, set of %zu KB", hjg_pipeline_name((int) pipeline), set_bytes[i - 2] >> 10);
		printf("  %-9s %-24s %9u %9.2f ms  speedup %5.2f, over %s %5.2f", operator_names[which], name, in.nrows, ns / 1e6,
			   hjg_bench_median(options, 0)->total_ns / ns, second, hjg_bench_median(options, 1)->total_ns / ns);
		print_ignored(&hjg_bench_points[i].config, &hjg_bench_median(options, i)->stats);
	}
	if (packed && good)
		print_packed("  ", &in);
	hjg_bench_input_destroy(&in);
	return good;
}

/* Keys of figure 6, which nobody decompresses. */
static const HjgPackPlan plain_ns = {.leaf = HJG_PACK_NS};

static bool
incache_figure_5a(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return sets_varied(options, env, runner, log, SELECTION, HJG_PIPELINE_PE, false, NULL);
}

static bool
incache_figure_5b(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return sets_varied(options, env, runner, log, JOIN, HJG_PIPELINE_PE, false, NULL);
}

static bool
incache_figure_6a(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return sets_varied(options, env, runner, log, SELECTION, HJG_PIPELINE_PE, true, &plain_ns);
}

static bool
incache_figure_6b(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return sets_varied(options, env, runner, log, JOIN, HJG_PIPELINE_PE, true, &plain_ns);
}

static bool
incache_figure_8a(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return sets_varied(options, env, runner, log, SELECTION, HJG_PIPELINE_CPDE_B, true, NULL);
}

static bool
incache_figure_8b(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return sets_varied(options, env, runner, log, JOIN, HJG_PIPELINE_CPDE_B, true, NULL);
}

/* ---- figures 9 and 10: the boundary between D and E ---- */

/*
 * Make the points for all boundaries, from one thread on; returns their number.  Beside a fetcher, the CPU
 * has one unit fewer.
 */
static int
set_boundaries(const HjgBenchOptions *options, const HjgRunner *runner)
{
	const int	ncpu = options->config.cpu_threads;
	const int	most = ncpu + runner->nworkers - 2;
	int			n = 0;

	for (int boundary = 1; boundary <= most && n < HJG_BENCH_MAX_POINTS; boundary++)
	{
		/* on the device's side a compute unit is several work groups */
		const bool	on_device = boundary >= ncpu;

		if (boundary < ncpu)
		{
			hjg_bench_points[n].config = incache_config(options, HJG_PIPELINE_CPDE_C);
			hjg_bench_points[n++].config.boundary = boundary;
		}
		if (boundary == ncpu - 1 && n < HJG_BENCH_MAX_POINTS)
		{
			hjg_bench_points[n].config = incache_config(options, HJG_PIPELINE_CPDE_B);
			hjg_bench_points[n++].config.boundary = boundary;
		}
		if (on_device && n < HJG_BENCH_MAX_POINTS)
		{
			hjg_bench_points[n].config = incache_config(options, HJG_PIPELINE_CPDE_G);
			hjg_bench_points[n++].config.boundary = boundary;
		}
	}
	return n;
}

static void
print_boundary(const HjgBenchTimes *times)
{
	const HjgUnits *units = &times->stats.units;

	printf("  %-8s (%dC %dG, %dC %dG), %dP", hjg_pipeline_name((int) times->stats.pipeline), units->cpu_d, units->device_d,
		   units->cpu_e, units->device_e, units->cpu_p);
}

/* Run an operator over all boundaries. */
static bool
boundaries_varied(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log, Operator which)
{
	const int	npoints = set_boundaries(options, runner);
	double		most_ns = 0;
	double		least_ns = 0;
	HjgBenchInput in;
	bool		good;

	if (!can_run(which, runner))
		return true;
	good = make_operand(&in, options, env, runner, log, which, true, NULL) && hjg_bench_run_points(options, env, runner, &in, npoints);
	for (int i = 0; i < npoints && good; i++)
	{
		const HjgBenchTimes *times = hjg_bench_median(options, i);

		printf("  %-9s", operator_names[which]);
		print_boundary(times);
		printf(" %9u %9.2f ms, E waited %7.2f ms", in.nrows, times->total_ns / 1e6, (double) times->stats.feed_wait_ns / 1e6);
		print_ignored(&hjg_bench_points[i].config, &times->stats);
		most_ns = times->total_ns > most_ns ? times->total_ns : most_ns;
		least_ns = i == 0 || times->total_ns < least_ns ? times->total_ns : least_ns;
	}
	if (good && npoints > 0)
		printf("  %s: the worst takes %.2f times the best\n", operator_names[which], most_ns / least_ns);
	hjg_bench_input_destroy(&in);
	return good;
}

static bool
incache_figure_9a(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return boundaries_varied(options, env, runner, log, SELECTION);
}

static bool
incache_figure_9b(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	return boundaries_varied(options, env, runner, log, JOIN);
}

/* ---- figures 7 and 10: joins of queries ---- */

/* Sums of medians over the joins of a query. */
typedef struct QueryTimes
{
	double		total_ns;
	double		build_ns;
	double		predicted_ns;	/* of the build sides, by the in-cache model */
	HjgBenchCounts counts;
} QueryTimes;

/* Count the queries that can be run here, Q6 being the last. */
static int
queries_of(const HjgRunner *runner)
{
	return can_run(SELECTION, runner) ? HJG_TPCH_QUERIES : HJG_TPCH_Q6;
}

/* Run the points' settings on each join of a query, or on Q6's selection; tell: print its sides. */
static bool
run_query(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, const HjgTpch *tpch, int query, bool packed, bool tell,
		  int npoints, QueryTimes *times)
{
	const bool	selects = query == HJG_TPCH_Q6;
	bool		good = true;

	for (int j = 0; j < (selects ? 1 : HJG_TPCH_JOINS) && good; j++)
	{
		const HjgTpchJoin *join = selects ? NULL : &tpch->joins[query][j];
		HjgBenchOptions with = *options;
		HjgBenchInput in;

		if (!selects && (join->build.n == 0 || join->probe.n == 0))
			continue;
		with.packed = packed;
		with.plan = selects ? &plain_ns : options->plan;
		good = (selects ? hjg_select_rows(&in, &with, env, runner, &tpch->q6, tpch->q6_values) :
				hjg_bench_input_keys(&in, &with, join->build.keys, join->build.n, join->probe.keys, join->probe.n)) &&
			hjg_bench_run_points(options, env, runner, &in, npoints);
		for (int i = 0; i < npoints && good; i++)
		{
			const HjgBenchTimes *median = hjg_bench_median(options, i);

			times[i].total_ns += median->total_ns;
			times[i].build_ns += median->build_ns - (double) median->stats.pack_ns;
			times[i].predicted_ns += median->stats.predicted.total_ns;
			hjg_bench_counts_add(&times[i].counts, &median->counts);
		}
		if (tell && good)
		{
			if (selects)
				hjg_select_explain(&in, options);
			else
				printf("    join %d, %u by %u rows, %.1f %% with a match", j + 1, in.nrows, in.nprobe, 100.0 * (double) in.npairs / in.nprobe);
			if (packed)
				print_packed(selects ? "  " : " ", &in);
			else if (!selects)
				printf("\n");
		}
		hjg_bench_input_destroy(&in);
	}
	return good;
}

static bool
incache_figure_7(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	const int	queries = queries_of(runner);
	HjgTpch		tpch;
	bool		good = hjg_tpch_create(&tpch, log);

	for (int q = 0; q < queries && good; q++)
	{
		static const char *const names[] = {"CPU part alone", "E", "PE"};
		QueryTimes	times[3] = {{0}};

		hjg_bench_points[0].config = cpu_alone(options);
		hjg_bench_points[1].config = incache_config(options, HJG_PIPELINE_E);
		hjg_bench_points[2].config = incache_config(options, HJG_PIPELINE_PE);
		good = run_query(options, env, runner, &tpch, q, false, true, 3, times);
		for (int i = 0; i < 3 && good; i++)
			printf("  %-4s %-16s %9u lines %9.2f ms  speedup %5.2f\n", hjg_tpch_names[q], names[i], 1u << log, times[i].total_ns / 1e6,
				   times[0].total_ns / times[i].total_ns);
	}
	hjg_tpch_destroy(&tpch);
	return good;
}

/* ---- figures 11, 12, 13 and 16: schemes on joins of queries ---- */

/* Speedups over D and E on the CPU alone, the paper's cDE-CPU; all keys are packed. */
static bool
incache_figure_11(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	static const char *const names[] = {"CPU part alone", "E", "PE", "cPDE-c", "cPDE-b", "cPDE-g"};
	static const HjgPipeline pipelines[] = {HJG_PIPELINE_E, HJG_PIPELINE_E, HJG_PIPELINE_PE, HJG_PIPELINE_CPDE_C, HJG_PIPELINE_CPDE_B, HJG_PIPELINE_CPDE_G};
	const int	queries = queries_of(runner);
	HjgTpch		tpch;
	bool		good = hjg_tpch_create(&tpch, log);

	for (int q = 0; q < queries && good; q++)
	{
		QueryTimes	times[6] = {{0}};

		for (int i = 0; i < 6; i++)
			hjg_bench_points[i].config = i == 0 ? cpu_alone(options) : incache_config(options, pipelines[i]);
		good = run_query(options, env, runner, &tpch, q, true, true, 6, times);
		printf("  %-4s %9u lines, CPU part alone %9.2f ms; speedups:", hjg_tpch_names[q], 1u << log, times[0].total_ns / 1e6);
		for (int i = 1; i < 6 && good; i++)
			printf(" %s %.2f", names[i], times[0].total_ns / times[i].total_ns);
		printf("\n");
	}
	hjg_tpch_destroy(&tpch);
	return good;
}

/* The pipeline that the model chooses, beside E: the growth with the lines shows over --min-log to --max-log. */
static bool
incache_figure_16(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	HjgTpch		tpch;
	bool		good = hjg_tpch_create(&tpch, log);

	for (int q = 0; q < HJG_TPCH_Q6 && good; q++)
	{
		QueryTimes	times[2] = {{0}};

		hjg_bench_points[0].config = incache_config(options, HJG_PIPELINE_E);
		hjg_bench_points[1].config = incache_config(options, HJG_PIPELINE_AUTO);
		good = run_query(options, env, runner, &tpch, q, true, false, 2, times);
		printf("  %-4s %9u lines: E %9.2f ms, %.1f ns a line; chosen by the model %9.2f ms, %.1f\n", hjg_tpch_names[q], 1u << log,
			   times[0].total_ns / 1e6, times[0].total_ns / (1u << log), times[1].total_ns / 1e6, times[1].total_ns / (1u << log));
	}
	hjg_tpch_destroy(&tpch);
	return good;
}

/* E, PE and the pipeline that the model chooses: which part waits for memory, where that is counted. */
static bool
incache_figure_14(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	static const char *const names[] = {"E", "PE", "chosen"};
	static const HjgPipeline pipelines[] = {HJG_PIPELINE_E, HJG_PIPELINE_PE, HJG_PIPELINE_AUTO};
	HjgTpch		tpch;
	bool		good = hjg_tpch_create(&tpch, log);

	for (int q = 0; q < HJG_TPCH_Q6 && good; q++)
	{
		QueryTimes	times[3] = {{0}};

		for (int i = 0; i < 3; i++)
			hjg_bench_points[i].config = incache_config(options, pipelines[i]);
		good = run_query(options, env, runner, &tpch, q, true, false, 3, times);
		for (int i = 0; i < 3 && good; i++)
		{
			printf("  %-4s %-8s %9u lines %9.2f ms", hjg_tpch_names[q], names[i], 1u << log, times[i].total_ns / 1e6);
			hjg_bench_counts_print(&times[i].counts, 1u << log);
		}
	}
	hjg_bench_counts_explain();
	hjg_tpch_destroy(&tpch);
	return good;
}

static bool
incache_figure_10(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	const int	npoints = set_boundaries(options, runner);
	HjgTpch		tpch;
	bool		good;

	if (options->config.costs == NULL)
	{
		printf("  nothing is predicted without unit costs\n");
		return true;
	}
	good = hjg_tpch_create(&tpch, log);
	for (int q = 0; q < HJG_TPCH_Q6 && good; q++)
	{
		QueryTimes	times[HJG_BENCH_MAX_POINTS] = {{0}};
		int			best = 0;
		int			predicted = 0;

		good = run_query(options, env, runner, &tpch, q, true, false, npoints, times);
		for (int i = 0; i < npoints && good; i++)
		{
			printf("  %-4s", hjg_tpch_names[q]);
			print_boundary(hjg_bench_median(options, i));
			printf(" %9u lines, build %8.2f ms, predicted %8.2f, %+5.0f %%\n", 1u << log, times[i].build_ns / 1e6,
				   times[i].predicted_ns / 1e6, (times[i].predicted_ns / times[i].build_ns - 1) * 100);
			best = times[i].build_ns < times[best].build_ns ? i : best;
			predicted = times[i].predicted_ns < times[predicted].predicted_ns ? i : predicted;
		}
		if (good && npoints > 0)
			printf("  %s: the boundary that was predicted to be best takes %+.0f %% over the best one\n", hjg_tpch_names[q],
				   (times[predicted].build_ns / times[best].build_ns - 1) * 100);
	}
	hjg_tpch_destroy(&tpch);
	return good;
}

const HjgBenchFigure hjg_bench_incache_figures[] = {
	{"001, figure 5a: a selection, prefetching by size of the work-ahead set", "1 MB best; PE 24 % faster than E", ALIKE_SCANS, incache_figure_5a, false},
	{"001, figure 5b: a join, the same", "1 MB best; PE 22 % faster than E", ALIKE, incache_figure_5b, false},
	{"001, figure 6a: the selection on packed keys that nobody decompresses", "less time than on plain keys, and the same gain; packed to 25 %", ALIKE_SCANS,
		incache_figure_6a, false},
	{"001, figure 6b: the join, the same", "less time than on plain keys, and the same gain; packed to 25 %", ALIKE, incache_figure_6b, false},
	{"001, figure 7: joins of TPC-H queries, and Q6, plain keys", "E and PE over 1.5 times the CPU alone; PE up to 20 % faster than E", ALIKE,
		incache_figure_7, false},
	{"001, figure 8a: a selection, prefetching for decompression (cPDE-b), by size of the work-ahead set",
		"31 % faster than without prefetching; slower than that when the set is too large", ALIKE_SCANS, incache_figure_8a, false},
	{"001, figure 8b: a join, the same", "25 % faster than without prefetching; slower than that when the set is too large", ALIKE, incache_figure_8b, false},
	{"001, figure 9a: the boundary between decompression and execution, a selection", "varies much, as decompression takes most of the time",
		ALIKE_SCANS, incache_figure_9a, false},
	{"001, figure 9b: the same, a join", "depends less on it than a selection",
		"keys in order pack to so little here that decompression is a small part of the work, and units of D are missed by E", incache_figure_9b, false},
	{"001, figure 10: joins of TPC-H queries over the boundary, predicted and measured", "differences below 9 %; the best boundary found",
		"joins of some thousand rows spend most of their time in launches and waits, which differ from one to the next", incache_figure_10, false},
	{"001, figures 11 to 13: schemes on joins of TPC-H queries, and on Q6, packed keys, over the CPU alone", "E over 1.5; cPDE-b over 2.5 times as fast", ALIKE,
		incache_figure_11, false},
	{"001, figures 14 and 15: stalls and cache misses of both parts", "E: 25 % of the CPU's and 38 % of the GPU's memory instructions stall; "
		"with prefetching 73 % of the fetching unit's, about 10 % of the others'", ALIKE, incache_figure_14, false},
	{"001, figure 16: scale factors 1 to 10, the chosen scheme and E", "both grow with the scale, the chosen scheme is ahead", ALIKE, incache_figure_16, false},
	{.name = NULL}
};
