/*
 * lab_cuda_bench.c
 *	  Benchmark of the resident joins: named cases, medians, every result checked.
 *
 * hjoin_gpu_lab cuda:N takes
 *		--list				print the names of the cases and return
 *		--case TEXT			only cases whose name contains TEXT
 *		--rows FACTOR		multiply all sizes, e.g. 0.01 for a quick run
 *		--strategy NAMES	only these, separated by commas, if they suit; sets are nops, bshs, prbcs (by their
 *							prefixes) and all; cpu and cpu_nop are the cpu engine; default: the one chosen first.
 *							Settings follow a name, as in prbc/part=1024 (HJG_BENCH_SETTINGS)
 *		--part-rows N		build rows of a partition at most, for prbc, bsh and their kin, unless a name has part=
 *		--paper 002|003|004	the comparisons of a paper instead (lab_cuda_bench_tables.c)
 *		--figure N			only those of a figure, or t2 for table 2
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
#include "lab/hjg_cuda_host_bench.h"
#include "lab/hjg_lab.h"
#include "lab/hjg_lab_stream.h"

#define COPY_BYTES ((size_t) 1 << 30)

/* A strategy of a case, with one kind of output and one width of columns. */
typedef struct BenchContestant
{
	const char *name;
	HjgBenchEntrant entrant;
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

/* Make the run of a contestant, and set its settings. */
static HjgBenchRun
contestant_run(const HjgBenchRun *of_case, const BenchContestant *contestant)
{
	HjgBenchRun run = *of_case;

	run.name = contestant->name;
	run.entrant = contestant->entrant;
	run.kind = contestant->kind;
	run.columns = contestant->columns;
	hjg_cuda_paper_tuning = contestant->entrant.tuning;
	return run;
}

/* Let a contestant take its turn; turn -1: its results are checked.  It may turn out not to suit, or to lack memory. */
static HjgStatus
take_turn(HjgBench *bench, const HjgBenchRun *of_case, BenchContestant *contestant, int turn)
{
	HjgBenchRun run = contestant_run(of_case, contestant);
	const bool	back = run.c->place == HJG_BENCH_AND_BACK && run.kind == HJG_CUDA_PAIRS;
	HjgBenchMoved moved = {0};
	HjgStatus	status = HJG_OK;

	if (run.entrant.on_cpu)
		return hjg_bench_run_turn(bench, &run, turn, &contestant->turns);
	status = open_output(bench, &run);
	if (status == HJG_OK && run.c->place != HJG_BENCH_IN_DEVICE)
	{
		run.moved = &moved;
		status = hjg_bench_moved_open(bench, &run, back ? run.output.capacity : 0, &moved);
	}
	if (status == HJG_OK)
		status = hjg_bench_run_turn(bench, &run, turn, &contestant->turns);
	hjg_bench_columns_free(&bench->stream, &run.columns);
	hjg_cuda_free(&bench->stream, run.block);
	if (run.moved != NULL)
		hjg_bench_moved_close(bench, &moved);
	if (status == HJG_ERR_MEMORY || status == HJG_ERR_INPUT)
		fprintf(bench->out, "%-24s %-18s %s\n", run.c->name, run.name,
				status == HJG_ERR_MEMORY ? "not enough device memory" : "does not suit");
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

/* True if the contestant can join the case. */
static bool
suits_case(const HjgCudaDevice *device, const HjgBenchRun *run, HjgBenchEntrant *entrant)
{
	const HjgBenchCase *c = run->c;

	if (entrant->on_cpu)
		return !c->wide_rows;
	if (entrant->best)
		entrant->strategy = best_of(device, c, &run->shape);
	hjg_cuda_paper_tuning = entrant->tuning;
	if (entrant->strategy == NULL || !entrant->strategy->suits(device, &run->shape))
		return false;
	return c->place != HJG_BENCH_IN_DEVICE || (hjg_lab_moving(entrant->strategy) == HJG_LAB_BY_COPY &&
											   entrant->tuning.moving == HJG_LAB_BY_COPY && !entrant->tuning.one_stream);
}

/* List the contestants that suit the case, with their outputs; returns their number. */
static int
list_contestants(const HjgCudaDevice *device, const HjgBenchRun *run, const char *const *names, hjg_u32 of_kinds, hjg_u32 sides)
{
	static const HjgCudaKind kinds[] = {HJG_CUDA_COLUMNS, HJG_CUDA_PAIRS, HJG_CUDA_CHECKSUM};
	const hjg_u32 part_rows = hjg_cuda_paper_tuning.part_rows;
	const HjgBenchCase *c = run->c;
	int			n = 0;

	for (int i = 0; names[i] != NULL; i++)
	{
		HjgBenchEntrant entrant;

		if (!hjg_bench_entrant_of(names[i], &entrant))
			continue;
		if (entrant.tuning.part_rows == 0)
			entrant.tuning.part_rows = part_rows;
		if (!suits_case(device, run, &entrant))
			continue;
		for (int k = 0; k < HJG_CUDA_KINDS; k++)
		{
			/* no benchmark uses key columns of 16 bytes, or of 8 bytes without wide rows */
			const bool	has_kind = kinds[k] == HJG_CUDA_CHECKSUM ||
				(!c->sum_only && (kinds[k] == HJG_CUDA_PAIRS || c->width <= (c->wide_rows ? 8 : 4)));

			if (!has_kind || (of_kinds & HJG_BENCH_KIND(kinds[k])) == 0 || (entrant.on_cpu && n > 0 && contestants[n - 1].entrant.on_cpu &&
																			contestants[n - 1].name == names[i]) ||
				(entrant.strategy != NULL && hjg_lab_pairs_only(entrant.strategy) && kinds[k] != HJG_CUDA_PAIRS))
				continue;
			for (hjg_u32 bytes = HJG_PAYLOAD_UNIT; bytes <= HJG_MAX_PAYLOAD_BYTES && n < MAX_CONTESTANTS; bytes *= 2)
			{
				contestants[n++] = (BenchContestant) {
					.name = names[i], .entrant = entrant, .kind = entrant.on_cpu ? HJG_CUDA_PAIRS : kinds[k],
					.columns = {.sides = sides, .bytes = bytes}
				};
				if (sides == 0)
					break;
			}
		}
	}
	hjg_cuda_paper_tuning = (HjgCudaPaperTuning) {.part_rows = part_rows};
	return n;
}

/* Copy the keys of the first inputs to host memory, if there is a contestant on the CPU. */
static HjgStatus
open_cpu(HjgBench *bench, const HjgBenchRun *run, int n)
{
	const HjgCudaSide *sides[HJG_SIDES] = {[HJG_SIDE_BUILD] = &run->sets[0].build, [HJG_SIDE_PROBE] = &run->sets[0].probe};
	bool		wanted = false;
	HjgStatus	status = HJG_OK;

	for (int i = 0; i < n; i++)
		wanted |= contestants[i].entrant.on_cpu;
	if (!wanted)
		return HJG_OK;
	if (bench->cpu == NULL)
		bench->cpu = hjg_lab_cpu_open(bench->nthreads);
	if (bench->cpu == NULL)
		return HJG_ERR_MEMORY;
	for (int s = 0; s < HJG_SIDES && status == HJG_OK; s++)
	{
		const size_t bytes = sides[s]->nrows * (size_t) run->c->width;

		bench->cpu_keys[s] = hjg_cpu_bench_map(bytes, true);
		status = bench->cpu_keys[s] == NULL ? HJG_ERR_MEMORY : hjg_cuda_copy_out(&bench->stream, bench->cpu_keys[s], sides[s]->keys, bytes);
	}
	return status == HJG_OK ? hjg_cuda_wait(&bench->stream) : status;
}

static void
close_cpu(HjgBench *bench)
{
	for (int s = 0; s < HJG_SIDES; s++)
	{
		free(bench->cpu_keys[s]);
		bench->cpu_keys[s] = NULL;
	}
}

/* Print the lines of the contestants, with the first one of each kind of output as the measure of its others. */
static void
print_contestants(HjgBench *bench, const HjgBenchRun *run, int n, bool phases)
{
	for (int i = 0; i < n; i++)
	{
		HjgBenchRun measured;
		float		first_ms = 0;

		if (contestants[i].is_out)
			continue;
		measured = contestant_run(run, &contestants[i]);
		for (int k = 0; k < i && first_ms == 0; k++)
			if (!contestants[k].is_out && contestants[k].columns.bytes == contestants[i].columns.bytes &&
				(contestants[k].kind == contestants[i].kind || contestants[k].entrant.on_cpu))
				first_ms = contestants[k].turns.ms[bench->nreps / 2];
		hjg_bench_run_print(bench, &measured, &contestants[i].turns, phases, first_ms);
	}
}

/*
 * Run a case: all contestants once a turn, in random order.  names: of contestants; of_kinds: outputs;
 * table: of a paper, or NULL.
 */
static HjgStatus
run_case(HjgBench *bench, const HjgBenchCase *c, const char *const *names, hjg_u32 of_kinds, const HjgBenchTable *table)
{
	const HjgCudaPaperTuning tuning = hjg_cuda_paper_tuning;
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
	n = status == HJG_OK ? list_contestants(bench->stream.device, &run, names, of_kinds, table != NULL ? table->sides : 0) : 0;
	if (status == HJG_OK)
		status = open_cpu(bench, &run, n);
	for (int turn = -1; turn < bench->nreps && status == HJG_OK; turn++)
	{
		hjg_lab_order(order, n);
		for (int i = 0; i < n && status == HJG_OK; i++)
			if (!contestants[order[i]].is_out)
				status = take_turn(bench, &run, &contestants[order[i]], turn);
	}
	if (status == HJG_OK)
		print_contestants(bench, &run, n, table != NULL && table->phases);
	for (int i = 0; i < n && status == HJG_OK && table != NULL && table->kernels; i++)
		if (!contestants[i].is_out && !contestants[i].entrant.on_cpu)
		{
			hjg_bench_kernels_begin();
			status = take_turn(bench, &run, &contestants[i], 0);
			hjg_bench_kernels_print(bench, c->name, contestants[i].name);
		}
	close_cpu(bench);
	for (int i = 0; i < nsets; i++)
		hjg_bench_inputs_free(bench, &sets[i]);
	hjg_cuda_paper_tuning = tuning;
	if (status == HJG_ERR_MEMORY)
	{
		fprintf(bench->out, "%-24s not enough memory\n", c->name);
		return HJG_OK;
	}
	return status;
}

static HjgStatus
run_tables(HjgBench *bench, const char *paper, const char *figure)
{
	HjgStatus	status = HJG_OK;

	for (const HjgBenchPaper *p = hjg_bench_papers; p->paper != NULL; p++)
		if (strcmp(p->paper, paper) == 0)
			fprintf(bench->out, "# %s: %s; there: %s; here: %s\n", paper, p->reference, p->hardware, bench->stream.device->name.text);
	for (const HjgBenchTable *t = hjg_bench_tables; t->paper != NULL && status == HJG_OK; t++)
	{
		if (strcmp(t->paper, paper) != 0 || !hjg_bench_has_figure(t->figures, figure))
			continue;
		fprintf(bench->out, "# %s, figure %s: %s\n", paper, t->figures, t->title);
		if (t->claim != NULL)
			fprintf(bench->out, "#   there: %s\n", t->claim);
		fprintf(bench->out, "#   definition: %s%s\n", t->differs != NULL ? "different: " : "the same", t->differs != NULL ? t->differs : "");
		for (int i = 0; t->cases[i] != NULL && status == HJG_OK; i++)
			status = run_case(bench, hjg_bench_case_named(t->cases[i]), t->strategies, t->kinds, t);
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
		status = hjg_cuda_stream_open(&bench->in, device, NULL, &bench->grant);
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

static void
close_bench(HjgBench *bench)
{
	hjg_bench_moved_drop(bench);
	hjg_lab_rows_drop(&bench->stream);
	hjg_lab_cpu_close(bench->cpu);
	hjg_cuda_free(&bench->stream, bench->counters);
	hjg_cuda_stream_close(&bench->in);
	hjg_cuda_stream_close(&bench->stream);
	hjg_cuda_dismiss(&bench->grant);
}

/* Run what the options ask for. */
static HjgStatus
run_bench(HjgBench *bench, const char *paper, const char *figure, const char *text, const char *const *names)
{
	HjgStatus	status = HJG_OK;

	fprintf(bench->out, "# cuda:%d, a copy in device memory reads and writes %.0f GB/s\n%-24s %-18s %-8s %9s %17s %8s %8s %7s\n",
			bench->stream.device->number, bench->copy_gbs, "case", "contestant", "output", "ms", "(from to)", "Gtuple/s", "GB", "share");
	if (paper != NULL)
		return run_tables(bench, paper, figure);
	for (const HjgBenchCase *c = hjg_bench_cases; c->name != NULL && status == HJG_OK; c++)
		if (strstr(c->name, text) != NULL)
			status = run_case(bench, c, names, HJG_BENCH_KIND(HJG_CUDA_KINDS) - 1, NULL);
	return status;
}

int
hjg_lab_cuda_bench(FILE *out, int nthreads, int number, int argc, char **argv)
{
	static const struct option options[] = {
		{"case", required_argument, NULL, 'c'},
		{"figure", required_argument, NULL, 'f'},
		{"list", no_argument, NULL, 'l'},
		{"paper", required_argument, NULL, 'p'},
		{"part-rows", required_argument, NULL, 'q'},
		{"reps", required_argument, NULL, 'r'},
		{"rows", required_argument, NULL, 'n'},
		{"strategy", required_argument, NULL, 's'},
		{NULL, 0, NULL, 0}
	};
	static HjgBench bench;
	const char *names[HJG_BENCH_MOST] = {"best"};
	const char *figure = NULL;
	const char *paper = NULL;
	const char *text = "";
	HjgCudaDevice *device;
	HjgStatus	status;
	bool		bad = false;
	int			option;

	bench.out = out;
	bench.factor = 1;
	bench.nreps = 7;
	bench.nthreads = nthreads;
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
			case 'f':
				figure = optarg;
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
	hjg_bench_kernels_watch();
	status = open_bench(&bench, device);
	if (status == HJG_OK)
		status = run_bench(&bench, paper, figure, text, names);
	if (status != HJG_OK)
		fprintf(stderr, "hjoin_gpu_lab: %s\n", bench.stream.error[0] != '\0' ? bench.stream.error : hjg_status_text(status));
	else
		close_bench(&bench);
	if (status == HJG_OK && paper != NULL)
	{
		const int	rc = hjg_lab_host_paper(out, device, paper, figure, bench.factor, bench.nreps);

		return rc != 0 ? rc : bench.wrong ? 1 : 0;
	}
	return status != HJG_OK ? 2 : bench.wrong ? 1 : 0;
}
