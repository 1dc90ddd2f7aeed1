/*
 * lab_cuda_bench.c
 *	  Benchmark of the resident joins: named cases, medians, every result checked.
 *
 * hjoin_gpu_lab cuda:N takes
 *		--list				print the names of the cases and return
 *		--case TEXT			only cases whose name contains TEXT
 *		--rows FACTOR		multiply all sizes, e.g. 0.01 for a quick run
 *		--strategy NAMES	only these, separated by commas, if they suit; sets are nops, bshs, prbcs (by their
 *							prefixes) and all; default: the one chosen first
 *		--part-rows N		build rows of a partition at most, for prbc, bsh and their kin (003, figure 5)
 *		--paper 002|003|004	the comparisons of a paper instead (lab_cuda_bench_cases.c)
 *		--reps N			timed repetitions, default 7; the median is printed, with the least and the most
 *
 * A tuple is a row of either side; a case of 4+4 has keys and rows of 4 bytes in columns.  "columns"
 * writes key and both rows of each pair, "pairs" both rows, "sum" computes a checksum of the pairs in the
 * kernel; lab_cuda_bench_run.c describes the timing and the checks.
 *
 * GB: bytes that the strategy reads and writes in device memory, with the output.  share: of the bandwidth
 * of a copy in device memory just before.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_cuda_bench.h"
#include "lab/hjg_cuda_paper.h"
#include "lab/hjg_lab.h"
#include "lab/hjg_lab_stream.h"

#define COPY_BYTES ((size_t) 1 << 30)
#define BEST "best"			/* the strategy that would be chosen first */

/* A strategy of a case, with one kind of output and one width of columns. */
typedef struct BenchContestant
{
	const HjgCudaStrategy *strategy;
	HjgCudaKind kind;
	HjgBenchColumns columns;
	bool		is_out;			/* the strategy does not suit the rows, or there is too little memory */
	HjgBenchTurns turns;
} BenchContestant;

/* Strategies of a table, times kinds, times widths. */
#define MAX_CONTESTANTS (HJG_BENCH_MOST * HJG_CUDA_KINDS)

static BenchContestant contestants[MAX_CONTESTANTS];

/* Allocate the output and the columns of a run. */
static HjgStatus
open_output(HjgBench *bench, HjgBenchRun *run)
{
	const size_t row_bytes = run->c->wide_rows ? 8 : 4;
	const hjg_u64 capacity = (run->sets[0].npairs > run->sets[1].npairs ? run->sets[0].npairs : run->sets[1].npairs) + 64;
	HjgStatus	status = HJG_OK;

	run->block = 0;
	run->output = (HjgCudaOutput) {.counters = bench->counters, .capacity = capacity};
	if (run->kind != HJG_CUDA_CHECKSUM)
	{
		run->block_bytes = capacity * (run->kind == HJG_CUDA_PAIRS ? sizeof(HjgPair) : (size_t) run->c->width + 2 * row_bytes);
		status = hjg_cuda_alloc(&bench->stream, run->block_bytes, &run->block);
		if (status != HJG_OK)
			return status;
		if (run->kind == HJG_CUDA_PAIRS)
			run->output.pairs = run->block;
		else
		{
			run->output.keys = run->block;
			run->output.build_rows = run->block + capacity * (size_t) run->c->width;
			run->output.probe_rows = run->output.build_rows + capacity * row_bytes;
		}
	}
	return run->columns.sides == 0 ? HJG_OK :
		hjg_bench_columns_make(&bench->stream, &run->columns, run->sets[0].build.nrows, run->sets[0].probe.nrows, capacity);
}

/* Make the run of a contestant. */
static HjgBenchRun
contestant_run(const HjgBenchRun *of_case, const BenchContestant *contestant)
{
	HjgBenchRun run = *of_case;

	run.strategy = contestant->strategy;
	run.kind = contestant->kind;
	run.columns = contestant->columns;
	return run;
}

/* Let a contestant take its turn; turn -1: its results are checked.  It may turn out not to suit, or to lack memory. */
static HjgStatus
take_turn(HjgBench *bench, const HjgBenchRun *of_case, BenchContestant *contestant, int turn)
{
	HjgBenchRun run = contestant_run(of_case, contestant);
	HjgBenchMoved moved = {0};
	HjgStatus	status = HJG_OK;

	if (run.c->from_host)
	{
		status = hjg_bench_moved_open(&bench->stream, hjg_lab_moving(run.strategy), run.c->width, run.shape.build_rows,
									  run.shape.probe_rows, &moved);
		run.moved = &moved;
	}
	if (status == HJG_OK)
		status = open_output(bench, &run);
	if (status == HJG_OK)
		status = hjg_bench_run_turn(bench, &run, turn, &contestant->turns);
	hjg_bench_columns_free(&bench->stream, &run.columns);
	hjg_cuda_free(&bench->stream, run.block);
	hjg_bench_moved_close(&bench->stream, &moved);
	if (status == HJG_ERR_MEMORY)
		fprintf(bench->out, "%-24s %-14s not enough device memory\n", run.c->name, run.strategy->name);
	contestant->is_out = status == HJG_ERR_INPUT || status == HJG_ERR_MEMORY;
	return contestant->is_out ? HJG_OK : status;
}

/* Find the strategy that would be tried first; a dense range only for the cases that have one. */
static const HjgCudaStrategy *
best_of(const HjgCudaDevice *device, const HjgBenchCase *c, const HjgCudaShape *shape)
{
	const HjgCudaStrategy *choices[HJG_LAB_CHOICES];

	hjg_lab_strategy_choose(device, shape, choices);
	return choices[0] == &hjg_cuda_direct && !c->dense ? choices[1] : choices[0];
}

/* List the strategies, or the one chosen first, that suit the case, with their outputs; returns their number. */
static int
list_contestants(const HjgCudaDevice *device, const HjgBenchRun *run, const char *const *names, HjgCudaKind kind, hjg_u32 sides)
{
	static const HjgCudaKind kinds[] = {HJG_CUDA_COLUMNS, HJG_CUDA_PAIRS, HJG_CUDA_CHECKSUM};
	const HjgBenchCase *c = run->c;
	int			n = 0;

	for (int i = 0; names[i] != NULL; i++)
	{
		const HjgCudaStrategy *strategy = strcmp(names[i], BEST) == 0 ? best_of(device, c, &run->shape) : hjg_lab_strategy_named(names[i]);

		if (strategy == NULL || !strategy->suits(device, &run->shape) ||
			(hjg_lab_moving(strategy) != HJG_LAB_BY_COPY && !c->from_host))
			continue;
		for (int k = 0; k < HJG_CUDA_KINDS; k++)
		{
			/* no benchmark uses key columns of 16 bytes, or of 8 bytes without wide rows */
			const bool	has_kind = kinds[k] == HJG_CUDA_CHECKSUM ||
				(!c->sum_only && (kinds[k] == HJG_CUDA_PAIRS || c->width <= (c->wide_rows ? 8 : 4)));

			if (!has_kind || (kind != HJG_CUDA_KINDS && kind != kinds[k]) || (hjg_lab_pairs_only(strategy) && kinds[k] != HJG_CUDA_PAIRS))
				continue;
			for (hjg_u32 bytes = HJG_PAYLOAD_UNIT; bytes <= HJG_MAX_PAYLOAD_BYTES && n < MAX_CONTESTANTS; bytes *= 2)
			{
				contestants[n++] = (BenchContestant) {.strategy = strategy, .kind = kinds[k], .columns = {.sides = sides, .bytes = bytes}};
				if (sides == 0)
					break;
			}
		}
	}
	return n;
}

/*
 * Run a case: all contestants once a turn, in random order.  names: of strategies, or "best"; kind: the only
 * output, or HJG_CUDA_KINDS for all; sides: those with columns of all widths.
 */
static HjgStatus
run_case(HjgBench *bench, const HjgBenchCase *c, const char *const *names, HjgCudaKind kind, hjg_u32 sides)
{
	HjgBenchInputs sets[HJG_BENCH_SETS];
	HjgBenchRun run = {.c = c, .sets = sets};
	int			order[MAX_CONTESTANTS];
	HjgStatus	status = HJG_OK;
	int			nsets = 0;
	int			n;

	while (nsets < HJG_BENCH_SETS && status == HJG_OK)
	{
		status = hjg_bench_inputs_make(bench, c, (hjg_u64) nsets * 0x100000000ull + 7, &sets[nsets]);
		nsets++;
	}
	run.shape = (HjgCudaShape) {
		.key_width = c->width, .mode = HJG_MATCH_ALL, .build_rows = sets[0].build.nrows,
		.probe_rows = sets[0].probe.nrows, .wide_rows = c->wide_rows
	};
	n = status == HJG_OK ? list_contestants(bench->stream.device, &run, names, kind, sides) : 0;
	for (int turn = -1; turn < bench->nreps && status == HJG_OK; turn++)
	{
		hjg_lab_order(order, n);
		for (int i = 0; i < n && status == HJG_OK; i++)
			if (!contestants[order[i]].is_out)
				status = take_turn(bench, &run, &contestants[order[i]], turn);
	}
	for (int i = 0; i < n && status == HJG_OK; i++)
		if (!contestants[i].is_out)
		{
			const HjgBenchRun measured = contestant_run(&run, &contestants[i]);

			hjg_bench_run_print(bench, &measured, &contestants[i].turns);
		}
	for (int i = 0; i < nsets; i++)
		hjg_bench_inputs_free(bench, &sets[i]);
	if (status == HJG_ERR_MEMORY)
	{
		fprintf(bench->out, "%-24s not enough device memory\n", c->name);
		return HJG_OK;
	}
	return status;
}

static HjgStatus
run_tables(HjgBench *bench, const char *paper)
{
	HjgStatus	status = HJG_OK;

	for (const HjgBenchTable *t = hjg_bench_tables; t->paper != NULL && status == HJG_OK; t++)
	{
		if (strcmp(t->paper, paper) != 0)
			continue;
		fprintf(bench->out, "# %s: %s\n", paper, t->title);
		for (int i = 0; t->cases[i] != NULL && status == HJG_OK; i++)
			status = run_case(bench, hjg_bench_case_named(t->cases[i]), t->strategies, t->kind, t->sides);
	}
	return status;
}

static HjgStatus
measure_copy(HjgBench *bench)
{
	HjgCudaPtr	a = 0;
	HjgCudaPtr	b = 0;
	float		ms[5];
	HjgStatus	status = hjg_cuda_alloc(&bench->stream, COPY_BYTES, &a);

	if (status == HJG_OK)
		status = hjg_cuda_alloc(&bench->stream, COPY_BYTES, &b);
	for (int i = 0; i < 5 && status == HJG_OK; i++)
	{
		status = hjg_bench_start_clock(bench);
		if (status == HJG_OK)
			status = hjg_lab_copy_within(&bench->stream, b, a, COPY_BYTES);
		if (status == HJG_OK)
			status = hjg_bench_stop_clock(bench, &ms[i]);
	}
	hjg_cuda_free(&bench->stream, a);
	hjg_cuda_free(&bench->stream, b);
	if (status != HJG_OK)
		return status;
	qsort(ms, 5, sizeof(ms[0]), hjg_bench_compare_ms);
	bench->copy_gbs = 2.0 * (double) COPY_BYTES / ms[2] / 1e6;
	return HJG_OK;
}

static HjgStatus
open_bench(HjgBench *bench, HjgCudaDevice *device)
{
	HjgStatus	status = hjg_cuda_admit(device->pool, hjg_cuda_pool_budget(device->pool), NULL, 0, &bench->grant);

	if (status == HJG_OK)
		status = hjg_cuda_stream_open(&bench->stream, device, NULL, &bench->grant);
	if (status == HJG_OK)
		status = hjg_cuda_check(&bench->stream, hjg_cuda.event_create(&bench->from, HJG_CUDA_EVENT_DEFAULT), "event");
	if (status == HJG_OK)
		status = hjg_cuda_check(&bench->stream, hjg_cuda.event_create(&bench->to, HJG_CUDA_EVENT_DEFAULT), "event");
	if (status == HJG_OK)
		status = hjg_cuda_alloc(&bench->stream, 4 * sizeof(hjg_u64), &bench->counters);
	if (status == HJG_OK)
		status = measure_copy(bench);
	return status;
}

int
hjg_lab_cuda_bench(FILE *out, int number, int argc, char **argv)
{
	static const struct option options[] = {
		{"case", required_argument, NULL, 'c'},
		{"list", no_argument, NULL, 'l'},
		{"paper", required_argument, NULL, 'p'},
		{"part-rows", required_argument, NULL, 'q'},
		{"reps", required_argument, NULL, 'r'},
		{"rows", required_argument, NULL, 'n'},
		{"strategy", required_argument, NULL, 's'},
		{NULL, 0, NULL, 0}
	};
	static HjgBench bench;
	const char *names[HJG_BENCH_MOST] = {BEST};
	const char *paper = NULL;
	const char *text = "";
	HjgCudaDevice *device;
	HjgStatus	status;
	bool		bad = false;
	int			option;

	bench.out = out;
	bench.factor = 1;
	bench.nreps = 7;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option)
		{
			case 'l':
				for (const HjgBenchCase *c = hjg_bench_cases; c->name != NULL; c++)
					fprintf(out, "%s\n", c->name);
				return 0;
			case 'c':
				text = optarg;
				break;
			case 'n':
				bench.factor = atof(optarg);
				break;
			case 'r':
				bench.nreps = atoi(optarg);
				break;
			case 's':
				bad |= !hjg_bench_names_of(optarg, names);
				break;
			case 'q':
				hjg_cuda_paper_tuning.part_rows = (hjg_u32) atoi(optarg);
				break;
			case 'p':
				bad |= !hjg_bench_has_paper(optarg);
				paper = optarg;
				break;
			default:
				return 2;
		}
	if (bad || optind < argc)
	{
		fprintf(stderr, "hjoin_gpu_lab: bad option of the benchmark\n");
		return 2;
	}
	if (bench.factor <= 0 || bench.factor > 16 || bench.nreps < 1 || bench.nreps > HJG_BENCH_MAX_REPS)
	{
		fprintf(stderr, "hjoin_gpu_lab: --rows takes up to 16, --reps 1 to %d\n", HJG_BENCH_MAX_REPS);
		return 2;
	}
	device = hjg_lab_enter(number);
	if (device == NULL)
		return 2;
	status = open_bench(&bench, device);
	if (status == HJG_OK)
		fprintf(out, "# cuda:%d, a copy in device memory reads and writes %.0f GB/s\n%-24s %-14s %-8s %9s %17s %8s %8s %7s\n", number,
				bench.copy_gbs, "case", "strategy", "output", "ms", "(from to)", "Gtuple/s", "GB", "share");
	if (status == HJG_OK && paper != NULL)
		status = run_tables(&bench, paper);
	for (const HjgBenchCase *c = hjg_bench_cases; c->name != NULL && paper == NULL && status == HJG_OK; c++)
		if (strstr(c->name, text) != NULL)
			status = run_case(&bench, c, names, HJG_CUDA_KINDS, 0);
	if (status != HJG_OK)
		fprintf(stderr, "hjoin_gpu_lab: %s\n", bench.stream.error[0] != '\0' ? bench.stream.error : hjg_status_text(status));
	return status != HJG_OK ? 2 : bench.wrong ? 1 : 0;
}
