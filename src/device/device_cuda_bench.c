/*
 * device_cuda_bench.c
 *	  Benchmark of the resident joins: named cases, medians, every result checked.
 *
 * hjoin_gpu_device --bench --device=cuda:N takes
 *		--list				print the names of the cases and return
 *		--case TEXT			only cases whose name contains TEXT
 *		--rows FACTOR		multiply all sizes, e.g. 0.01 for a quick run
 *		--strategy NAMES	these alone, separated by commas, of those that suit; sets are nops, bshs, prbcs (by their
 *							prefixes) and all; default: what would be chosen first
 *		--paper 002|003|004	the comparisons of a paper instead (device_cuda_bench_cases.c)
 *		--reps N			timed repetitions, default 7; the median is printed
 *
 * A tuple is a row of either side; a case of 4+4 has keys and rows of 4 bytes in columns.
 * "columns" writes key and both rows of each pair, "pairs" both rows, "sum" adds up a checksum of
 * the pairs in the kernel.  What is timed, by events on the device: build and probe from columns in
 * device memory to the last pair, warm, over NSETS sets of inputs in turn; of cases with _host from columns in host
 * memory, those alone for strategies that move their sides themselves.  The output is poisoned before
 * each check; each pair's rows and keys are compared with the inputs, and the sum with one that comes
 * from the numbers the keys were made of.
 *
 * GB: what the strategy reads and writes in device memory, with the output. share: of the bandwidth
 * that a copy in device memory had just before.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_bench.h"

#define IMAGE "cuda_bench"
#define THREADS 256
#define NSETS 2
#define MAX_REPS 101
#define COPY_BYTES ((size_t) 1 << 30)
#define POISON 0xAB
#define BEST "best"			/* the strategy that would be chosen */

#define KERNEL(kernel_name) {.image = IMAGE, .name = kernel_name}
static HjgCudaKernel fill_side[] = {
	KERNEL("hjg_k_fill_side_4"), KERNEL("hjg_k_fill_side_8"), KERNEL("hjg_k_fill_side_16"),
};
static HjgCudaKernel check_pairs[] = {
	KERNEL("hjg_k_check_pairs_4"), KERNEL("hjg_k_check_pairs_8"), KERNEL("hjg_k_check_pairs_16"),
};

/* One set of inputs. */
typedef struct Inputs
{
	HjgCudaSide build;
	HjgCudaSide probe;
	hjg_u64		npairs;
	hjg_u64		checksum;
} Inputs;

typedef struct Bench
{
	FILE	   *out;
	HjgCudaLane lane;
	HjgCudaGrant grant;
	HjgCudaEvent from;
	HjgCudaEvent to;
	HjgCudaPtr	counters;		/* of a join, then of a check: hjg_u64[4] */
	double		factor;
	int			nreps;
	double		copy_gbs;
	bool		wrong;
} Bench;

static const char *const kind_names[HJG_CUDA_KINDS] = {"sum", "pairs", "columns"};

static int
compare_ms(const void *a, const void *b)
{
	const float x = *(const float *) a;
	const float y = *(const float *) b;

	return x < y ? -1 : x > y;
}

static int
width_ix_of(int width)
{
	return width == HJG_KEY_WIDTH_4 ? 0 : width == HJG_KEY_WIDTH_8 ? 1 : 2;
}

static HjgStatus
start_clock(Bench *bench)
{
	return hjg_cuda_check(&bench->lane, hjg_cuda.event_record(bench->from, bench->lane.stream), "event");
}

static HjgStatus
stop_clock(Bench *bench, float *ms)
{
	HjgStatus	status = hjg_cuda_check(&bench->lane, hjg_cuda.event_record(bench->to, bench->lane.stream), "event");

	bench->lane.busy = true;
	if (status == HJG_OK)
		status = hjg_cuda_wait(&bench->lane);
	if (status == HJG_OK)
		status = hjg_cuda_check(&bench->lane, hjg_cuda.event_elapsed(ms, bench->from, bench->to), "event");
	return status;
}

static HjgStatus
set_bytes(Bench *bench, HjgCudaPtr ptr, unsigned char value, size_t bytes)
{
	bench->lane.busy = true;
	return hjg_cuda_check(&bench->lane, hjg_cuda.set_bytes(ptr, value, bytes, bench->lane.stream), "fill");
}

/* ---- inputs ---- */

static HjgStatus
fill(Bench *bench, const HjgBenchCase *c, HjgCudaSide *side, bool is_probe, hjg_u64 nbuild, hjg_u64 seed)
{
	HjgKFillSide args = {
		.side = {.keys = side->keys, .rows = side->rows, .nrows = (hjg_u32) side->nrows},
		.expected = is_probe ? bench->counters : 0, .seed = seed, .theta = c->theta,
		.draw = is_probe ? c->draw : HJG_K_IN_TURN, .build_rows = (hjg_u32) nbuild, .dense = c->dense,
		.wide_rows = c->wide_rows, .match_permille = is_probe ? c->match_permille : 1000
	};

	args.distinct = (hjg_u32) (nbuild / (hjg_u64) c->duplicates > 0 ? nbuild / (hjg_u64) c->duplicates : 1);
	return hjg_cuda_launch(&bench->lane, &fill_side[width_ix_of(c->width)],
						   (unsigned) bench->lane.device->multiprocessors * 8, THREADS, 0, (void *[]) {&args});
}

static HjgStatus
alloc_side(Bench *bench, const HjgBenchCase *c, hjg_u64 nrows, HjgCudaSide *side)
{
	HjgStatus	status;

	memset(side, 0, sizeof(*side));
	side->nrows = nrows;
	status = hjg_cuda_alloc(&bench->lane, nrows * (size_t) c->width, &side->keys);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(&bench->lane, nrows * (c->wide_rows ? 8 : 4), &side->rows);
	return status;
}

static void
free_inputs(Bench *bench, Inputs *inputs)
{
	hjg_cuda_free(&bench->lane, inputs->build.keys);
	hjg_cuda_free(&bench->lane, inputs->build.rows);
	hjg_cuda_free(&bench->lane, inputs->probe.keys);
	hjg_cuda_free(&bench->lane, inputs->probe.rows);
}

static HjgStatus
make_inputs(Bench *bench, const HjgBenchCase *c, hjg_u64 seed, Inputs *inputs)
{
	const hjg_u64 nbuild = (hjg_u64) (c->nbuild * bench->factor * 1048576) + 1;
	const hjg_u64 nprobe = (hjg_u64) (c->nprobe * bench->factor * 1048576) + 1;
	hjg_u64		expected[2] = {0};
	HjgStatus	status;

	memset(inputs, 0, sizeof(*inputs));
	status = alloc_side(bench, c, nbuild, &inputs->build);
	if (status == HJG_OK)
		status = alloc_side(bench, c, nprobe, &inputs->probe);
	if (status == HJG_OK)
		status = hjg_cuda_zero(&bench->lane, bench->counters, sizeof(expected));
	if (status == HJG_OK)
		status = fill(bench, c, &inputs->build, false, nbuild, seed);
	if (status == HJG_OK)
		status = fill(bench, c, &inputs->probe, true, nbuild, seed);
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(&bench->lane, expected, bench->counters, sizeof(expected));
	if (status == HJG_OK)
		status = hjg_cuda_wait(&bench->lane);
	inputs->npairs = expected[0];
	inputs->checksum = expected[1];
	return status;
}

/* ---- one strategy, one kind of output ---- */

typedef struct Run
{
	const HjgBenchCase *c;
	const HjgCudaStrategy *strategy;
	HjgCudaKind kind;
	HjgCudaShape shape;
	Inputs	   *sets;
	const HjgBenchMoved *moved;	/* or NULL: the inputs are joined where they are */
	HjgCudaOutput output;
	HjgCudaPtr	block;			/* of the output */
	size_t		block_bytes;
	HjgBenchColumns columns;
} Run;

static HjgStatus
join_once(Bench *bench, const Run *run, const Inputs *inputs)
{
	const HjgCudaSide *build = run->moved != NULL ? &run->moved->build : &inputs->build;
	const HjgCudaSide *probe = run->moved != NULL ? &run->moved->probe : &inputs->probe;
	void	   *table = NULL;
	HjgStatus	status = hjg_cuda_zero(&bench->lane, bench->counters, 2 * sizeof(hjg_u64));

	if (status == HJG_OK && run->moved != NULL)
		status = hjg_bench_moved_bring(&bench->lane, run->moved, build);
	if (status == HJG_OK)
		status = (run->strategy->build_ahead != NULL ? run->strategy->build_ahead : run->strategy->build)
			(&bench->lane, &run->shape, build, &table);
	if (status != HJG_OK)
		return status;
	if (run->moved != NULL)
		status = hjg_bench_moved_bring(&bench->lane, run->moved, probe);
	if (status == HJG_OK)
		status = run->strategy->probe(&bench->lane, table, probe, &run->output);
	run->strategy->free(&bench->lane, table);
	if (status == HJG_OK && run->columns.sides != 0)
		status = hjg_bench_columns_gather(&bench->lane, &run->columns, run->output.pairs, inputs->npairs);
	return status;
}

/* What a join of these inputs finds before it begins. */
static HjgStatus
reset(Bench *bench, const Run *run, const Inputs *inputs)
{
	return run->moved != NULL ? hjg_bench_moved_reset(&bench->lane, run->moved, &inputs->build, &inputs->probe) : HJG_OK;
}

static HjgStatus
check(Bench *bench, const Run *run, const Inputs *inputs, bool *good)
{
	const int	w = width_ix_of(run->c->width);
	hjg_u64		found[2] = {0, 0};
	hjg_u64		facts[2] = {0, 0};
	HjgStatus	status = HJG_OK;

	if (run->block != 0)
		status = set_bytes(bench, run->block, POISON, run->block_bytes);
	if (status == HJG_OK)
		status = reset(bench, run, inputs);
	if (status == HJG_OK)
		status = join_once(bench, run, inputs);
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(&bench->lane, found, bench->counters, sizeof(found));
	if (status == HJG_OK)
		status = hjg_cuda_wait(&bench->lane);
	if (status == HJG_OK && found[0] == HJG_CUDA_UNSUITED)
		status = HJG_ERR_INPUT;
	if (status != HJG_OK)
		return status;
	*good = found[0] == inputs->npairs;
	if (run->kind == HJG_CUDA_CHECKSUM)
	{
		*good = *good && found[1] == inputs->checksum;
		return HJG_OK;
	}
	if (*good)
	{
		HjgKCheckPairs args = {
			.build = {.keys = inputs->build.keys, .nrows = (hjg_u32) inputs->build.nrows},
			.probe = {.keys = inputs->probe.keys, .nrows = (hjg_u32) inputs->probe.nrows},
			.output = {
				.pairs = run->output.pairs, .keys = run->output.keys, .build_rows = run->output.build_rows,
				.probe_rows = run->output.probe_rows
			},
			.npairs = found[0], .facts = bench->counters + 2 * sizeof(hjg_u64), .wide_rows = run->c->wide_rows
		};

		status = hjg_cuda_zero(&bench->lane, args.facts, sizeof(facts));
		if (status == HJG_OK)
			status = hjg_cuda_launch(&bench->lane, &check_pairs[w], (unsigned) bench->lane.device->multiprocessors * 8,
									 THREADS, 0, (void *[]) {&args});
		if (status == HJG_OK)
			status = hjg_cuda_copy_out(&bench->lane, facts, args.facts, sizeof(facts));
		if (status == HJG_OK)
			status = hjg_cuda_wait(&bench->lane);
		*good = facts[0] == inputs->checksum && facts[1] == 0;
	}
	if (status == HJG_OK && *good && run->columns.sides != 0)
		status = hjg_bench_columns_check(&bench->lane, &run->columns, run->output.pairs, found[0],
										 bench->counters + 2 * sizeof(hjg_u64), good);
	return status;
}

static HjgStatus
time_run(Bench *bench, const Run *run)
{
	const hjg_u64 ntuples = run->shape.build_rows + run->shape.probe_rows;
	const size_t pair_bytes = run->kind == HJG_CUDA_CHECKSUM ? 0 : run->kind == HJG_CUDA_PAIRS ? sizeof(HjgPair) :
		(size_t) run->c->width + (run->c->wide_rows ? 16 : 8);
	const double gb = ((double) run->strategy->moved(bench->lane.device, &run->shape) +
					   (double) (run->sets[0].npairs * pair_bytes) +
					   (double) hjg_bench_columns_moved(&run->columns, run->sets[0].npairs)) / 1e9;
	char		name[64];
	float		ms[MAX_REPS];
	bool		good = true;
	HjgStatus	status = HJG_OK;

	for (int i = 0; i < NSETS && status == HJG_OK && good; i++)
		status = check(bench, run, &run->sets[i], &good);
	if (status == HJG_ERR_INPUT)
		return HJG_OK;
	for (int i = 0; i < bench->nreps && status == HJG_OK; i++)
	{
		status = reset(bench, run, &run->sets[i % NSETS]);
		if (status == HJG_OK)
			status = start_clock(bench);
		if (status == HJG_OK)
			status = join_once(bench, run, &run->sets[i % NSETS]);
		if (status == HJG_OK)
			status = stop_clock(bench, &ms[i]);
	}
	if (status != HJG_OK)
		return status;
	qsort(ms, (size_t) bench->nreps, sizeof(ms[0]), compare_ms);
	snprintf(name, sizeof(name), run->columns.sides != 0 ? "%s+%u" : "%s", run->c->name, run->columns.bytes);
	fprintf(bench->out, "%-24s %-14s %-8s %9.3f %8.1f %8.2f %6.0f%%  %s\n", name, run->strategy->name,
			kind_names[run->kind], ms[bench->nreps / 2], (double) ntuples / ms[bench->nreps / 2] / 1e6, gb,
			100 * gb / ms[bench->nreps / 2] * 1e3 / bench->copy_gbs, good ? "ok" : "WRONG");
	fflush(bench->out);
	if (!good)
		bench->wrong = true;
	return HJG_OK;
}

/* ---- cases ---- */

static HjgStatus
run_kind(Bench *bench, Run *run, HjgCudaKind kind)
{
	const size_t row_bytes = run->c->wide_rows ? 8 : 4;
	const hjg_u64 capacity = (run->sets[0].npairs > run->sets[1].npairs ? run->sets[0].npairs : run->sets[1].npairs) + 64;
	HjgStatus	status = HJG_OK;

	run->kind = kind;
	run->block = 0;
	run->output = (HjgCudaOutput) {.counters = bench->counters, .capacity = capacity};
	if (kind != HJG_CUDA_CHECKSUM)
	{
		/* key columns of 16 bytes are of no benchmark, and of 8 bytes with wide rows only */
		if (run->c->sum_only || (kind == HJG_CUDA_COLUMNS && run->c->width > (run->c->wide_rows ? 8 : 4)))
			return HJG_OK;
		run->block_bytes = capacity * (kind == HJG_CUDA_PAIRS ? sizeof(HjgPair) : (size_t) run->c->width + 2 * row_bytes);
		status = hjg_cuda_alloc(&bench->lane, run->block_bytes, &run->block);
		if (status != HJG_OK)
			return status;
		if (kind == HJG_CUDA_PAIRS)
			run->output.pairs = run->block;
		else
		{
			run->output.keys = run->block;
			run->output.build_rows = run->block + capacity * (size_t) run->c->width;
			run->output.probe_rows = run->output.build_rows + capacity * row_bytes;
		}
	}
	if (run->columns.sides != 0)
		status = hjg_bench_columns_make(&bench->lane, &run->columns, run->sets[0].build.nrows, run->sets[0].probe.nrows,
										capacity);
	if (status == HJG_OK)
		status = time_run(bench, run);
	hjg_bench_columns_free(&bench->lane, &run->columns);
	hjg_cuda_free(&bench->lane, run->block);
	return status;
}

/* With columns of sides of each width, if there are any. */
static HjgStatus
run_widths(Bench *bench, Run *run, HjgCudaKind kind, hjg_u32 sides)
{
	HjgStatus	status = HJG_OK;

	run->columns = (HjgBenchColumns) {.sides = sides};
	if (sides == 0)
		return run_kind(bench, run, kind);
	for (hjg_u32 bytes = HJG_CARRIED_UNIT; bytes <= HJG_MAX_CARRIED_BYTES && status == HJG_OK; bytes *= 2)
	{
		run->columns.bytes = bytes;
		status = run_kind(bench, run, kind);
	}
	return status;
}

/* What would be tried first; a dense range is of the cases that say so. */
static const HjgCudaStrategy *
best_of(const HjgCudaDevice *device, const HjgBenchCase *c, const HjgCudaShape *shape)
{
	const HjgCudaStrategy *choices[HJG_CUDA_CHOICES];

	hjg_cuda_strategy_choose(device, shape, choices);
	return choices[0] == &hjg_cuda_direct && !c->dense ? choices[1] : choices[0];
}

/* names: of strategies, or "best"; kind: the only one, or HJG_CUDA_KINDS; columns of sides of all widths. */
static HjgStatus
run_case(Bench *bench, const HjgBenchCase *c, const char *const *names, HjgCudaKind kind, hjg_u32 sides)
{
	static const HjgCudaKind kinds[] = {HJG_CUDA_COLUMNS, HJG_CUDA_PAIRS, HJG_CUDA_CHECKSUM};
	const HjgCudaDevice *device = bench->lane.device;
	Inputs		sets[NSETS];
	HjgBenchMoved moved = {0};
	Run			run = {.c = c, .sets = sets};
	HjgStatus	status = HJG_OK;
	int			nsets = 0;

	while (nsets < NSETS && status == HJG_OK)
	{
		status = make_inputs(bench, c, (hjg_u64) nsets * 0x100000000ull + 7, &sets[nsets]);
		nsets++;
	}
	run.shape = (HjgCudaShape) {
		.key_width = c->width, .mode = HJG_MATCH_ALL, .build_rows = sets[0].build.nrows,
		.probe_rows = sets[0].probe.nrows, .wide_rows = c->wide_rows
	};
	for (int i = 0; names[i] != NULL && status == HJG_OK; i++)
	{
		run.strategy = strcmp(names[i], BEST) == 0 ? best_of(device, c, &run.shape) : hjg_cuda_strategy_named(names[i]);
		if (run.strategy == NULL || !run.strategy->suits(device, &run.shape) ||
			(run.strategy->moving != HJG_CUDA_BY_COPY && !c->from_host))
			continue;
		if (c->from_host)
		{
			status = hjg_bench_moved_open(&bench->lane, run.strategy->moving, c->width, run.shape.build_rows,
										  run.shape.probe_rows, &moved);
			run.moved = &moved;
		}
		for (int k = 0; k < HJG_CUDA_KINDS && status == HJG_OK; k++)
			if ((kind == HJG_CUDA_KINDS || kind == kinds[k]) && (!run.strategy->pairs_only || kinds[k] == HJG_CUDA_PAIRS))
				status = run_widths(bench, &run, kinds[k], sides);
		hjg_bench_moved_close(&bench->lane, &moved);
		run.moved = NULL;
	}
	for (int i = 0; i < nsets; i++)
		free_inputs(bench, &sets[i]);
	if (status == HJG_ERR_MEMORY)
	{
		fprintf(bench->out, "%-24s not enough device memory\n", c->name);
		return HJG_OK;
	}
	return status;
}

static HjgStatus
run_tables(Bench *bench, const char *paper)
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
measure_copy(Bench *bench)
{
	HjgCudaPtr	a = 0;
	HjgCudaPtr	b = 0;
	float		ms[5];
	HjgStatus	status = hjg_cuda_alloc(&bench->lane, COPY_BYTES, &a);

	if (status == HJG_OK)
		status = hjg_cuda_alloc(&bench->lane, COPY_BYTES, &b);
	for (int i = 0; i < 5 && status == HJG_OK; i++)
	{
		status = start_clock(bench);
		if (status == HJG_OK)
			status = hjg_cuda_copy_within(&bench->lane, b, a, COPY_BYTES);
		if (status == HJG_OK)
			status = stop_clock(bench, &ms[i]);
	}
	hjg_cuda_free(&bench->lane, a);
	hjg_cuda_free(&bench->lane, b);
	if (status != HJG_OK)
		return status;
	qsort(ms, 5, sizeof(ms[0]), compare_ms);
	bench->copy_gbs = 2.0 * (double) COPY_BYTES / ms[2] / 1e6;
	return HJG_OK;
}

static HjgStatus
open_bench(Bench *bench, HjgCudaDevice *device)
{
	HjgStatus	status = hjg_cuda_admit(device->pool, hjg_cuda_pool_budget(device->pool), NULL, 0, &bench->grant);

	if (status == HJG_OK)
		status = hjg_cuda_lane_open(&bench->lane, device, NULL, &bench->grant);
	if (status == HJG_OK)
		status = hjg_cuda_check(&bench->lane, hjg_cuda.event_create(&bench->from, HJG_CUDA_EVENT_DEFAULT), "event");
	if (status == HJG_OK)
		status = hjg_cuda_check(&bench->lane, hjg_cuda.event_create(&bench->to, HJG_CUDA_EVENT_DEFAULT), "event");
	if (status == HJG_OK)
		status = hjg_cuda_alloc(&bench->lane, 4 * sizeof(hjg_u64), &bench->counters);
	if (status == HJG_OK)
		status = measure_copy(bench);
	return status;
}

int
hjg_cuda_bench(FILE *out, int number, int argc, char **argv)
{
	static Bench bench;
	HjgDeviceInfo infos[HJG_CUDA_MAX_DEVICES];
	const char *names[HJG_BENCH_MOST] = {BEST};
	const char *paper = NULL;
	const char *text = "";
	HjgCudaDevice *device;
	char		reason[128];
	HjgStatus	status;

	bench.out = out;
	bench.factor = 1;
	bench.nreps = 7;
	for (int i = 0; i < argc; i++)
	{
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(argv[i], "--list") == 0)
		{
			for (const HjgBenchCase *c = hjg_bench_cases; c->name != NULL; c++)
				fprintf(out, "%s\n", c->name);
			return 0;
		}
		else if (value != NULL && strcmp(argv[i], "--case") == 0)
			text = argv[++i];
		else if (value != NULL && strcmp(argv[i], "--rows") == 0)
			bench.factor = atof(argv[++i]);
		else if (value != NULL && strcmp(argv[i], "--reps") == 0)
			bench.nreps = atoi(argv[++i]);
		else if (value != NULL && strcmp(argv[i], "--strategy") == 0 && hjg_bench_names_of(value, names))
			i++;
		else if (value != NULL && strcmp(argv[i], "--paper") == 0 && hjg_bench_has_paper(value))
			paper = argv[++i];
		else
		{
			fprintf(stderr, "hjoin_gpu_device: bad option of the benchmark: %s\n", argv[i]);
			return 2;
		}
	}
	if (bench.factor <= 0 || bench.factor > 16 || bench.nreps < 1 || bench.nreps > MAX_REPS)
	{
		fprintf(stderr, "hjoin_gpu_device: --rows takes up to 16, --reps 1 to %d\n", MAX_REPS);
		return 2;
	}
	hjg_cuda_list(infos, HJG_CUDA_MAX_DEVICES);
	device = hjg_cuda_enter(number, reason, sizeof(reason));
	if (device == NULL)
	{
		fprintf(stderr, "hjoin_gpu_device: %s\n", reason);
		return 2;
	}
	status = open_bench(&bench, device);
	if (status == HJG_OK)
		fprintf(out, "# cuda:%d, a copy in device memory reads and writes %.0f GB/s\n%-24s %-14s %-8s %9s %8s %8s %7s\n", number,
				bench.copy_gbs, "case", "strategy", "output", "ms", "Gtuple/s", "GB", "share");
	if (status == HJG_OK && paper != NULL)
		status = run_tables(&bench, paper);
	for (const HjgBenchCase *c = hjg_bench_cases; c->name != NULL && paper == NULL && status == HJG_OK; c++)
		if (strstr(c->name, text) != NULL)
			status = run_case(&bench, c, names, HJG_CUDA_KINDS, 0);
	if (status != HJG_OK)
		fprintf(stderr, "hjoin_gpu_device: %s\n", bench.lane.error[0] != '\0' ? bench.lane.error : hjg_status_text(status));
	return status != HJG_OK ? 2 : bench.wrong ? 1 : 0;
}
