/*
 * lab_cpu_bench.c
 *	  Benchmark of the cpu engine: named cases, medians, every result checked (lab_cpu_input.c).
 *
 * Timed are the building of the table and all probe rounds, with inputs, result pages and workspace
 * already touched, as in a warm server.
 */
#include <getopt.h>
#include <stdlib.h>

#include "lab/hjg_engine_bench_input.h"
#include "lab/hjg_lab.h"

#define PAGE_PAIRS (HJG_SLAB_BYTES / sizeof(HjgPair))
#define MAX_REPS 101

static const HjgCpuBenchCase cases[] = {
	{"uniform_4_5Mx20M", 4, HJG_MATCH_ALL, 5, 20, 1, 0, false, 1, false},
	{"uniform_4_16Mx16M", 4, HJG_MATCH_ALL, 16, 16, 1, 0, false, 1, false},
	{"uniform_8_5Mx20M", 8, HJG_MATCH_ALL, 5, 20, 1, 0, false, 1, false},
	{"uniform_8_16Mx16M", 8, HJG_MATCH_ALL, 16, 16, 1, 0, false, 1, false},
	{"uniform_16_5Mx20M", 16, HJG_MATCH_ALL, 5, 20, 1, 0, false, 1, false},
	{"zipf05_4_5Mx20M", 4, HJG_MATCH_ALL, 5, 20, 1, 0.5, false, 1, false},
	{"zipf10_4_5Mx20M", 4, HJG_MATCH_ALL, 5, 20, 1, 1.0, false, 1, false},
	{"zipf15_4_5Mx20M", 4, HJG_MATCH_ALL, 5, 20, 1, 1.5, false, 1, false},
	{"onehot_4_5Mx20M", 4, HJG_MATCH_ALL, 5, 20, 1, 0, true, 1, false},
	{"duplicates8_4_2Mx2M", 4, HJG_MATCH_ALL, 2, 2, 8, 0, false, 1, false},
	{"semi_4_5Mx20M", 4, HJG_MATCH_SEMI, 5, 20, 1, 0, false, 0.5, false},
	{"anti_4_5Mx20M", 4, HJG_MATCH_ANTI, 5, 20, 1, 0, false, 0.5, false},
	{"left_4_5Mx20M", 4, HJG_MATCH_LEFT, 5, 20, 1, 0, false, 0.5, false},
	{"selective10_4_5Mx20M", 4, HJG_MATCH_ALL, 5, 20, 1, 0, false, 0.1, false},
	{"small_4_100Kx20M", 4, HJG_MATCH_ALL, 0.1, 20, 1, 0, false, 1, false},
	{"small_8_100Kx20M", 8, HJG_MATCH_ALL, 0.1, 20, 1, 0, false, 1, false},
	{"dense_4_5Mx20M", 4, HJG_MATCH_ALL, 5, 20, 1, 0, false, 1, true},
	{"dense_8_5Mx20M", 8, HJG_MATCH_ALL, 5, 20, 1, 0, false, 1, true},
	{"dense_4_100Kx20M", 4, HJG_MATCH_ALL, 0.1, 20, 1, 0, false, 1, true},
	{"dense_duplicates4_4_5Mx5M", 4, HJG_MATCH_ALL, 5, 5, 4, 0, false, 1, true},
	{"dense_duplicates4_8_5Mx5M", 8, HJG_MATCH_ALL, 5, 5, 4, 0, false, 1, true},
	{"dense_duplicates8_4_2Mx2M", 4, HJG_MATCH_ALL, 2, 2, 8, 0, false, 1, true},
	{"tiny_4_1Kx1K", 4, HJG_MATCH_ALL, 0.001, 0.001, 1, 0, false, 1, false},
};

typedef struct CpuBench
{
	FILE	   *out;
	HjgPool    *pool;
	HjgEnv		env;
	HjgLabWarm	warm;
	int			nreps;
	int			npages;			/* of a result; 0: enough for a batch */
	HjgCpuStrategy strategy;
} CpuBench;

/* --- one repetition --- */

typedef struct CpuSample
{
	double		total_ns;
	HjgJobStats stats;
	hjg_u64		npairs;
	hjg_u64		checksum;
	hjg_u64		nrounds;
} CpuSample;

static HjgStatus
run_once(CpuBench *bench, const HjgCpuBenchInput *in, hjg_u64 batch_rows, HjgResult *result, CpuSample *sample)
{
	const HjgJoinSpec spec = {.key_width = in->bc->width, .mode = in->bc->mode, .strategy = bench->strategy};
	const HjgSegment build = {.keys = in->build_keys, .nrows = (hjg_u32) in->nbuild};
	hjg_u64		started = hjg_now_ns();
	HjgStatus	status;
	HjgJoin    *join;

	*sample = (CpuSample) {0};
	status = hjg_join_build(&bench->env, &spec, &build, 1, &join);
	sample->total_ns = (double) (hjg_now_ns() - started);
	for (hjg_u64 row = 0; status == HJG_OK && row < in->nprobe; row += batch_rows)
	{
		const HjgSegment probe = {.keys = in->probe_keys + row * (hjg_u64) in->bc->width,
			.nrows = (hjg_u32) (in->nprobe - row < batch_rows ? in->nprobe - row : batch_rows)};
		HjgCursor	cursor = {0, 0, 0};

		while (status == HJG_OK && cursor.row < probe.nrows)
		{
			started = hjg_now_ns();
			status = hjg_join_probe(join, &probe, 1, &cursor, result);
			sample->total_ns += (double) (hjg_now_ns() - started);
			if (status != HJG_OK)
				break;
			sample->checksum += hjg_cpu_bench_checksum(result, row, bench->pool);
			sample->npairs += result->npairs;
			sample->nrounds++;
		}
	}
	if (join)
		hjg_join_stats(join, &sample->stats);
	started = hjg_now_ns();
	hjg_join_free(join);
	sample->total_ns += (double) (hjg_now_ns() - started);
	return status;
}

/*
 * Count the bytes that a join must move at least: keys read, tuples written and read by partitioning the
 * build side, tables written and read, pairs written.
 */
static double
bytes_moved(const HjgCpuBenchInput *in)
{
	const double width = in->bc->width;
	const double tuple = width + 4;
	double		build = (double) in->nbuild * (2 * width + 3 * tuple + 8);
	const double probe = (double) in->nprobe * (width + tuple);

	return build + probe + (double) in->npairs * sizeof(HjgPair);
}

static int
compare_samples(const void *a, const void *b)
{
	double		x = ((const CpuSample *) a)->total_ns;
	double		y = ((const CpuSample *) b)->total_ns;

	return (x > y) - (x < y);
}

static int
run_batches(CpuBench *bench, const HjgCpuBenchInput *in, hjg_u64 batch_rows)
{
	CpuSample	   *samples = calloc(MAX_REPS + 1, sizeof(CpuSample));
	hjg_u64		rows = batch_rows < in->nprobe ? batch_rows : in->nprobe;
	double		per_row = (double) in->npairs / (double) in->nprobe;
	HjgResult	result = {.page_pairs = PAGE_PAIRS};
	HjgPair    *memory;
	HjgStatus	status = HJG_OK;
	bool		good = true;
	const CpuSample *median;
	int			rc = 2;

	result.npages = (int) ((double) rows * (per_row > 1 ? per_row * 1.01 : 1) / (double) PAGE_PAIRS) + 1;
	if (bench->npages > 0)
		result.npages = bench->npages;
	memory = hjg_cpu_bench_map((size_t) result.npages * HJG_SLAB_BYTES, bench->warm.huge_pages);
	result.pages = malloc(sizeof(HjgPair *) * (size_t) result.npages);
	if (samples && memory && result.pages)
	{
		for (int i = 0; i < result.npages; i++)
			result.pages[i] = memory + (size_t) i * PAGE_PAIRS;
		/* the first repetition warms up */
		for (int i = 0; i <= bench->nreps && status == HJG_OK; i++)
		{
			status = run_once(bench, in, batch_rows, &result, &samples[i]);
			good = good && samples[i].npairs == in->npairs && samples[i].checksum == in->checksum;
		}
		qsort(samples + 1, (size_t) bench->nreps, sizeof(CpuSample), compare_samples);
		median = &samples[1 + bench->nreps / 2];
		good = good && status == HJG_OK;
		fprintf(bench->out, "%-22s %-6s %8llu %4llu %8.1f %8.1f %7.2f %8.2f %8.2f %8.2f %8.2f %6.1f  %s\n",
				in->bc->name, hjg_strategy_name((int) median->stats.strategy),
				(unsigned long long) rows, (unsigned long long) median->nrounds,
				(double) (in->nbuild + in->nprobe) / median->total_ns * 1e3,
				(double) (in->nbuild + in->nprobe) / samples[1].total_ns * 1e3,
				in->npairs ? median->total_ns / (double) in->npairs : 0.0,
				median->total_ns / 1e6, (double) median->stats.partition_ns / 1e6,
				(double) median->stats.build_ns / 1e6, (double) median->stats.probe_ns / 1e6,
				bytes_moved(in) / median->total_ns,
				status != HJG_OK ? hjg_status_text(status) : good ? "ok" : "WRONG");
		fflush(bench->out);
		rc = good ? 0 : status == HJG_ERR_MEMORY ? 2 : 1;
	}
	free(result.pages);
	free(memory);
	free(samples);
	return rc;
}

static int
bad_option(CpuBench *bench, const char *option)
{
	fprintf(bench->out, "bad benchmark option: %s\n", option);
	return 2;
}

int
hjg_lab_cpu_bench(FILE *out, int nthreads, int argc, char **argv)
{
	static const struct option options[] = {
		{"batch", required_argument, NULL, 'b'},
		{"case", required_argument, NULL, 'c'},
		{"isa", required_argument, NULL, 'i'},
		{"l2", required_argument, NULL, '2'},
		{"list", no_argument, NULL, 'l'},
		{"pages", required_argument, NULL, 'p'},
		{"reps", required_argument, NULL, 'r'},
		{"rows", required_argument, NULL, 'n'},
		{"small-pages", no_argument, NULL, 'm'},
		{"strategy", required_argument, NULL, 's'},
		{NULL, 0, NULL, 0}
	};
	const HjgTuning tuning = hjg_engine_tuning;
	CpuBench	   *bench = calloc(1, sizeof(CpuBench));
	const char *wanted = "";
	double		factor = 1;
	long		batch = 0;
	int			option;
	int			rc = 0;

	if (bench == NULL)
		return 2;
	bench->out = out;
	bench->warm.huge_pages = true;
	bench->nreps = 5;
	while (rc == 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option)
		{
			case 'm':
				bench->warm.huge_pages = false;
				break;
			case 'l':
				for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
					fprintf(out, "%s\n", cases[c].name);
				fprintf(out, "bloom\n");
				free(bench);
				return 0;
			case 'c':
				wanted = optarg;
				break;
			case 'n':
				factor = atof(optarg);
				break;
			case 'b':
				batch = atol(optarg);
				break;
			case '2':
				hjg_engine_tuning.l2_bytes = (size_t) atol(optarg);
				break;
			case 'p':
				bench->npages = atoi(optarg);
				break;
			case 'r':
				bench->nreps = atoi(optarg);
				break;
			case 's':
				bench->strategy = strcmp(optarg, hjg_strategy_name(HJG_CPU_NOP)) == 0 ? HJG_CPU_NOP : HJG_CPU_AUTO;
				break;
			case 'i':
				hjg_engine_tuning.isa_limit = strcmp(optarg, "base") == 0 ? HJG_ISA_BASE
					: strcmp(optarg, "avx2") == 0 ? HJG_ISA_AVX2 : HJG_ISA_AVX512;
				break;
			default:
				rc = 2;
		}
	if (rc == 0 && optind < argc)
		rc = bad_option(bench, argv[optind]);
	if (rc == 0 && (factor <= 0 || factor > 100 || batch < 0 || batch > HJG_MAX_PROBE_ROWS || bench->npages < 0 ||
					bench->nreps < 1 || bench->nreps > MAX_REPS))
		rc = bad_option(bench, "value out of range");
	if (rc == 0 && nthreads > 1 && (bench->pool = hjg_pool_create(nthreads)) == NULL)
		rc = 2;
	if (rc == 0)
	{
		bench->env = (HjgEnv) {.pool = bench->pool, .arg = &bench->warm, .alloc = hjg_lab_warm_alloc, .free = hjg_lab_warm_free};
		fprintf(out, "%-22s %-6s %8s %4s %8s %8s %7s %8s %8s %8s %8s %6s\n", "case", "strat", "batch", "rnds", "Mrows/s",
				"(best)", "ns/out", "ms", "part ms", "build ms", "probe ms", "GB/s");
	}
	for (size_t c = 0; rc < 2 && c < sizeof(cases) / sizeof(cases[0]); c++)
	{
		HjgCpuBenchInput in;
		int			case_rc = 0;

		if (strstr(cases[c].name, wanted) == NULL)
			continue;
		if (!hjg_cpu_bench_input_make(&in, &cases[c], factor, bench->pool, bench->warm.huge_pages))
		{
			rc = 2;
			break;
		}
		if (batch > 0)
			case_rc = run_batches(bench, &in, (hjg_u64) batch);
		else
		{
			case_rc = run_batches(bench, &in, HJG_MAX_PROBE_ROWS);
			if (in.nprobe > 1048576 && case_rc == 0)
				case_rc = run_batches(bench, &in, 1048576);
		}
		rc = case_rc > rc ? case_rc : rc;
		hjg_cpu_bench_input_free(&in);
		hjg_lab_warm_drop(&bench->warm);
	}
	if (rc < 2 && strstr("bloom", wanted) != NULL)
	{
		int			bloom_rc = hjg_lab_bloom_bench(out, factor);

		rc = bloom_rc > rc ? bloom_rc : rc;
	}
	hjg_pool_destroy(bench->pool);
	free(bench);
	hjg_engine_tuning = tuning;
	return rc;
}
