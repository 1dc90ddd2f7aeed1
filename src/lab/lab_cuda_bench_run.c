/*
 * lab_cuda_bench_run.c
 *	  Benchmark of the resident joins: the inputs of a case, and one strategy's joins of them, checked
 *	  and measured.
 *
 * Timed, by events on the device, are build and probe from columns in device memory to the last pair,
 * warm (each behind an untimed one of its own on the other set of inputs); cases with _host begin with columns
 * in host memory, and those with _bus also end with pairs there (lab_cuda_bench_moved.c).  The output is
 * poisoned before each check; each pair's rows and keys are compared with the inputs, and the sum with one
 * computed from the numbers that the keys were made of.  The cpu engine's joins are timed by the host's clock,
 * from keys to pairs in host memory (lab_cpu_join.c).
 */
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_cuda_bench.h"

#define IMAGE "cuda_bench"
#define THREADS 256
#define POISON 0xAB

#define KERNEL(kernel_name) {.image = IMAGE, .name = kernel_name}
static HjgCudaKernel fill_side[] = {
	KERNEL("hjg_k_fill_side_4"), KERNEL("hjg_k_fill_side_8"), KERNEL("hjg_k_fill_side_16"),
};
static HjgCudaKernel check_pairs[] = {
	KERNEL("hjg_k_check_pairs_4"), KERNEL("hjg_k_check_pairs_8"), KERNEL("hjg_k_check_pairs_16"),
};

static const char *const kind_names[HJG_CUDA_KINDS] = {"sum", "pairs", "columns"};
static const char *const phase_names[HJG_CUDA_PHASES] = {
	[HJG_CUDA_TRANSFER_IN] = "in", [HJG_CUDA_PARTITION] = "partition", [HJG_CUDA_BUILD] = "build", [HJG_CUDA_PROBE] = "probe",
	[HJG_CUDA_TRANSFER_OUT] = "out"
};

static int
bench_width_ix(int width)
{
	return width == HJG_KEY_WIDTH_4 ? 0 : width == HJG_KEY_WIDTH_8 ? 1 : 2;
}

/* ---- the clock ---- */

int
hjg_bench_compare_ms(const void *a, const void *b)
{
	const float x = *(const float *) a;
	const float y = *(const float *) b;

	return x < y ? -1 : x > y;
}

HjgStatus
hjg_bench_start_clock(HjgBench *bench)
{
	return hjg_cuda_check(&bench->stream, hjg_cuda.event_record(bench->from, bench->stream.handle), "event");
}

HjgStatus
hjg_bench_stop_clock(HjgBench *bench, float *ms)
{
	HjgStatus	status = hjg_cuda_check(&bench->stream, hjg_cuda.event_record(bench->to, bench->stream.handle), "event");

	bench->stream.busy = true;
	if (status == HJG_OK)
		status = hjg_cuda_wait(&bench->stream);
	if (status == HJG_OK)
		status = hjg_cuda_check(&bench->stream, hjg_cuda.event_elapsed(ms, bench->from, bench->to), "event");
	return status;
}

/* ---- inputs ---- */

static HjgStatus
set_device_bytes(HjgBench *bench, HjgCudaPtr ptr, unsigned char value, size_t bytes)
{
	bench->stream.busy = true;
	return hjg_cuda_check(&bench->stream, hjg_cuda.set_bytes(ptr, value, bytes, bench->stream.handle), "fill");
}

static HjgStatus
make_side(HjgBench *bench, const HjgBenchCase *c, HjgCudaSide *side, bool is_probe, hjg_u64 nbuild, HjgCudaPtr lists,
		  hjg_u64 seed)
{
	HjgKFillSide args = {
		.side = {.keys = side->keys, .rows = side->rows, .nrows = (hjg_u32) side->nrows},
		.expected = is_probe ? bench->counters : 0, .seed = seed, .theta = is_probe ? c->theta : c->build_theta,
		.heads = lists, .draw = is_probe ? c->draw : c->build_draw, .build_rows = (hjg_u32) nbuild, .dense = c->dense,
		.wide_rows = c->wide_rows, .match_permille = is_probe ? c->match_permille : 1000
	};

	args.distinct = (hjg_u32) (nbuild / (hjg_u64) c->duplicates > 0 ? nbuild / (hjg_u64) c->duplicates : 1);
	args.next = lists + args.distinct * sizeof(hjg_u32);
	return hjg_cuda_launch(&bench->stream, &fill_side[bench_width_ix(c->width)],
						   (unsigned) bench->stream.device->multiprocessors * 8, THREADS, 0, (void *[]) {&args});
}

static HjgStatus
alloc_side(HjgBench *bench, const HjgBenchCase *c, hjg_u64 nrows, HjgCudaSide *side)
{
	HjgStatus	status;

	memset(side, 0, sizeof(*side));
	side->nrows = nrows;
	status = hjg_cuda_alloc(&bench->stream, nrows * (size_t) c->width, &side->keys);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(&bench->stream, nrows * (c->wide_rows ? 8 : 4), &side->rows);
	return status;
}

void
hjg_bench_inputs_free(HjgBench *bench, HjgBenchInputs *inputs)
{
	hjg_cuda_free(&bench->stream, inputs->build.keys);
	hjg_cuda_free(&bench->stream, inputs->build.rows);
	hjg_cuda_free(&bench->stream, inputs->probe.keys);
	hjg_cuda_free(&bench->stream, inputs->probe.rows);
}

HjgStatus
hjg_bench_inputs_make(HjgBench *bench, const HjgBenchCase *c, hjg_u64 seed, HjgBenchInputs *inputs)
{
	const hjg_u64 nbuild = (hjg_u64) (c->nbuild * bench->factor * 1048576) + 1;
	const hjg_u64 nprobe = (hjg_u64) (c->nprobe * bench->factor * 1048576) + 1;
	const size_t list_bytes = 2 * nbuild * sizeof(hjg_u32);
	hjg_u64		expected[2] = {0};
	HjgCudaPtr	lists = 0;		/* of the build rows of each id, if there is not a fixed number of them */
	HjgStatus	status;

	memset(inputs, 0, sizeof(*inputs));
	status = alloc_side(bench, c, nbuild, &inputs->build);
	if (status == HJG_OK)
		status = alloc_side(bench, c, nprobe, &inputs->probe);
	if (status == HJG_OK)
		status = hjg_cuda_zero(&bench->stream, bench->counters, sizeof(expected));
	if (status == HJG_OK && c->build_draw != HJG_K_IN_TURN)
		status = hjg_cuda_alloc(&bench->stream, list_bytes, &lists);
	if (status == HJG_OK && lists != 0)
		status = set_device_bytes(bench, lists, 0xFF, list_bytes);
	if (status == HJG_OK)
		status = make_side(bench, c, &inputs->build, false, nbuild, lists, ~seed);
	if (status == HJG_OK)
		status = make_side(bench, c, &inputs->probe, true, nbuild, lists, seed);
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(&bench->stream, expected, bench->counters, sizeof(expected));
	if (status == HJG_OK)
		status = hjg_cuda_wait(&bench->stream);
	hjg_cuda_free(&bench->stream, lists);
	inputs->npairs = expected[0];
	inputs->checksum = expected[1];
	return status;
}

/* ---- one strategy, one kind of output ---- */

/* Queue the way back of the pairs. */
static HjgStatus
send_back(HjgBench *bench, const HjgBenchRun *run, const HjgBenchInputs *inputs)
{
	HjgStatus	status = hjg_cuda_mark(&bench->stream, HJG_CUDA_TRANSFER_OUT);

	return status == HJG_OK ?
		hjg_cuda_copy_out(&bench->stream, run->moved->pairs, run->output.pairs, inputs->npairs * sizeof(HjgPair)) : status;
}

static HjgStatus
join_once(HjgBench *bench, const HjgBenchRun *run, const HjgBenchInputs *inputs)
{
	const HjgCudaStrategy *strategy = run->entrant.strategy;
	const HjgCudaSide *build = run->moved != NULL ? &run->moved->build : &inputs->build;
	const HjgCudaSide *probe = run->moved != NULL ? &run->moved->probe : &inputs->probe;
	void	   *table = NULL;
	HjgStatus	status = hjg_cuda_zero(&bench->stream, bench->counters, 2 * sizeof(hjg_u64));

	if (status == HJG_OK && run->moved != NULL)
		status = hjg_bench_moved_begin(bench, run->moved);
	if (status == HJG_OK && run->moved != NULL)
		status = hjg_bench_moved_bring(bench, run->moved, strategy, build);
	if (status == HJG_OK)
		status = strategy->build(&bench->stream, &run->shape, build, &table);
	if (status != HJG_OK)
		return status;
	if (run->moved != NULL)
		status = hjg_bench_moved_bring(bench, run->moved, strategy, probe);
	if (status == HJG_OK)
		status = strategy->probe(&bench->stream, table, probe, &run->output);
	strategy->free(&bench->stream, table);
	if (status == HJG_OK && run->columns.sides != 0)
		status = hjg_bench_columns_gather(&bench->stream, &run->columns, run->output.pairs, inputs->npairs);
	return status == HJG_OK && run->moved != NULL && run->moved->pairs != NULL ? send_back(bench, run, inputs) : status;
}

/* Restore the inputs of a join. */
static HjgStatus
reset_inputs(HjgBench *bench, const HjgBenchRun *run, const HjgBenchInputs *inputs)
{
	return run->moved != NULL ? hjg_bench_moved_reset(bench, run->moved, &inputs->build, &inputs->probe) : HJG_OK;
}

static HjgStatus
check_result(HjgBench *bench, const HjgBenchRun *run, const HjgBenchInputs *inputs, bool *good)
{
	const int	w = bench_width_ix(run->c->width);
	hjg_u64		found[2] = {0, 0};
	hjg_u64		facts[2] = {0, 0};
	HjgStatus	status = HJG_OK;

	if (run->block != 0)
		status = set_device_bytes(bench, run->block, POISON, run->block_bytes);
	if (status == HJG_OK)
		status = reset_inputs(bench, run, inputs);
	if (status == HJG_OK)
		status = join_once(bench, run, inputs);
	if (status == HJG_OK)
		status = hjg_cuda_copy_out(&bench->stream, found, bench->counters, sizeof(found));
	if (status == HJG_OK)
		status = hjg_cuda_wait(&bench->stream);
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

		status = hjg_cuda_zero(&bench->stream, args.facts, sizeof(facts));
		if (status == HJG_OK)
			status = hjg_cuda_launch(&bench->stream, &check_pairs[w], (unsigned) bench->stream.device->multiprocessors * 8,
									 THREADS, 0, (void *[]) {&args});
		if (status == HJG_OK)
			status = hjg_cuda_copy_out(&bench->stream, facts, args.facts, sizeof(facts));
		if (status == HJG_OK)
			status = hjg_cuda_wait(&bench->stream);
		*good = facts[0] == inputs->checksum && facts[1] == 0;
	}
	if (status == HJG_OK && *good && run->columns.sides != 0)
		status = hjg_bench_columns_check(&bench->stream, &run->columns, run->output.pairs, found[0],
										 bench->counters + 2 * sizeof(hjg_u64), good);
	return status;
}

/* Join once, without the time that its inputs take to be restored. */
static HjgStatus
time_join(HjgBench *bench, const HjgBenchRun *run, const HjgBenchInputs *inputs, float *ms)
{
	HjgStatus	status = reset_inputs(bench, run, inputs);

	memset(bench->stream.phase_ns, 0, sizeof(bench->stream.phase_ns));
	if (status == HJG_OK)
		status = hjg_bench_start_clock(bench);
	if (status == HJG_OK)
		status = join_once(bench, run, inputs);
	return status == HJG_OK ? hjg_bench_stop_clock(bench, ms) : status;
}

/* Join by the cpu engine, and check the first time. */
static HjgStatus
join_on_cpu(HjgBench *bench, const HjgBenchRun *run, int turn, HjgBenchTurns *turns)
{
	HjgLabCpuJoin join = {
		.key_width = run->c->width, .strategy = run->entrant.cpu, .build_keys = bench->cpu_keys[HJG_SIDE_BUILD],
		.build_rows = run->shape.build_rows, .probe_keys = bench->cpu_keys[HJG_SIDE_PROBE],
		.probe_rows = run->shape.probe_rows, .check = turn < 0
	};
	const HjgStatus status = hjg_lab_cpu_join(bench->cpu, &join);

	if (turn >= 0)
		turns->ms[turn] = (float) join.ms;
	else
		turns->good = join.npairs == run->sets[0].npairs && join.checksum == run->sets[0].checksum;
	return status;
}

HjgStatus
hjg_bench_run_turn(HjgBench *bench, const HjgBenchRun *run, int turn, HjgBenchTurns *turns)
{
	HjgStatus	status = HJG_OK;
	float		warm_up_ms;

	if (run->entrant.on_cpu)
		return join_on_cpu(bench, run, turn, turns);
	if (turn >= 0)
	{
		/* the other contestants' joins have left the caches cold, and perhaps the memory pool without its blocks */
		status = time_join(bench, run, &run->sets[(turn + 1) % HJG_BENCH_SETS], &warm_up_ms);
		if (status == HJG_OK)
			status = time_join(bench, run, &run->sets[turn % HJG_BENCH_SETS], &turns->ms[turn]);
		for (int p = 0; p < HJG_CUDA_PHASES; p++)
			turns->phase_ms[p][turn] = (float) bench->stream.phase_ns[p] / 1e6f;
		return status;
	}
	turns->good = true;
	for (int i = 0; i < HJG_BENCH_SETS && status == HJG_OK && turns->good; i++)
		status = check_result(bench, run, &run->sets[i], &turns->good);
	return status;
}

/* Print the medians of the phases that there were. */
static void
print_phases(HjgBench *bench, HjgBenchTurns *turns)
{
	for (int p = 0; p < HJG_CUDA_PHASES; p++)
	{
		qsort(turns->phase_ms[p], (size_t) bench->nreps, sizeof(float), hjg_bench_compare_ms);
		if (phase_names[p] != NULL && turns->phase_ms[p][bench->nreps / 2] > 0)
			fprintf(bench->out, "  %s %.3f", phase_names[p], turns->phase_ms[p][bench->nreps / 2]);
	}
}

void
hjg_bench_run_print(HjgBench *bench, const HjgBenchRun *run, HjgBenchTurns *turns, bool phases, float first_ms)
{
	const hjg_u64 ntuples = run->shape.build_rows + run->shape.probe_rows;
	const size_t pair_bytes = run->kind == HJG_CUDA_CHECKSUM ? 0 : run->kind == HJG_CUDA_PAIRS ? sizeof(HjgPair) :
		(size_t) run->c->width + (run->c->wide_rows ? 16 : 8);
	const double gb = run->entrant.on_cpu ? 0 :
		((double) hjg_lab_traffic(run->entrant.strategy, bench->stream.device, &run->shape) +
		 (double) (run->sets[0].npairs * pair_bytes) +
		 (double) hjg_bench_columns_moved(&run->columns, run->sets[0].npairs)) / 1e9;
	const float *ms = turns->ms;
	char		name[64];

	qsort(turns->ms, (size_t) bench->nreps, sizeof(turns->ms[0]), hjg_bench_compare_ms);
	snprintf(name, sizeof(name), run->columns.sides != 0 ? "%s+%u" : "%s", run->c->name, run->columns.bytes);
	fprintf(bench->out, "%-24s %-18s %-8s %9.3f %8.3f %8.3f %8.1f %8.2f %6.0f%%  %s", name, run->name,
			kind_names[run->kind], ms[bench->nreps / 2], ms[0], ms[bench->nreps - 1], (double) ntuples / ms[bench->nreps / 2] / 1e6, gb,
			100 * gb / ms[bench->nreps / 2] * 1e3 / bench->copy_gbs, turns->good ? "ok" : "WRONG");
	if (first_ms > 0)
		fprintf(bench->out, " %6.2fx", first_ms / ms[bench->nreps / 2]);
	if (phases)
		print_phases(bench, turns);
	fprintf(bench->out, "\n");
	fflush(bench->out);
	bench->wrong |= !turns->good;
}
