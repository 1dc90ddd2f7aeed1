/*
 * lab_coupled_coarse.c
 *	  hjoin_gpu_lab NAME --figures: table 3 of He, Lu and He (VLDB 2013), "000": fine and coarse steps.
 *
 * PHJ-PL' is that of section 3.3: its partitioning is PHJ-PL's, and behind it all pairs of partitions are one step, of which a pair is
 * an item: one thread builds a table of the pair's own and probes it.  So PHJ-PL' takes the time that PHJ-PL's partitioning was measured
 * to take, and that of the step, for which the laboratory partitions both sides as finely, outside the measured time.
 *
 * The step is made of the same functions a row (kernels/hjg_steps.h).  No kernel has it, so plain threads run it, as many as both parts
 * have: it is compared where the device is made of such threads.  They take pair after pair, which no ratio of pairs can better.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "model/hjg_measured.h"

#define MAX_TURNS HJG_BENCH_MAX_TURNS
#define MAX_WORKERS 64
#define BLOCK_PAIRS 256			/* of result pairs, 2 KB */
#define ARRAYS 6				/* of words a row, which steps read and write */

enum
{
	BUILD_SIDE, PROBE_SIDE, SIDES
};

/* The place of a worker's next result pair in its block of them. */
typedef struct CoarsePlace
{
	hjg_u32		next;
	hjg_u32		end;
	hjg_u32		pad[14];
} CoarsePlace;

/* Both sides in order of partitions, and memory for a table for each pair. */
typedef struct Coarse
{
	int			bits;			/* of a partition's number */
	hjg_u32		bucket_bits;	/* of a bucket's, in its pair's table */
	HjgStepArgs args[SIDES];
	hjg_u32    *begins[SIDES];	/* first rows of the partitions, and the number of rows */
	hjg_u8	   *table;
	size_t		table_bytes;
	hjg_u8	   *work;
	size_t		work_bytes;
	HjgPair    *pairs;
	hjg_u32		most_pairs;
	hjg_u32		next_pair;		/* global pointer, by blocks */
	CoarsePlace places[MAX_WORKERS];
} Coarse;

/* ---- the step ---- */

static hjg_u32
take_places(Coarse *coarse, int worker, hjg_u32 count)
{
	CoarsePlace *place = &coarse->places[worker];

	if (place->end - place->next < count)
	{
		const hjg_u32 n = count > BLOCK_PAIRS ? count : BLOCK_PAIRS;

		place->next = __atomic_fetch_add(&coarse->next_pair, n, __ATOMIC_RELAXED);
		place->end = place->next + n;
	}
	place->next += count;
	return place->next - count;
}

/* Join a pair of partitions: build its table, and probe that. */
static void
join_pair(void *arg, int pair, int worker)
{
	Coarse	   *coarse = arg;
	hjg_u8	   *table = coarse->table;
	hjg_u8	   *work = coarse->work;
	HjgStepArgs build = coarse->args[BUILD_SIDE];
	HjgStepArgs probe = coarse->args[PROBE_SIDE];
	const size_t header_bytes = sizeof(HjgStepHeader) << coarse->bucket_bits;

	build.headers_off[0] += (hjg_u64) pair * header_bytes;
	build.headers_off[1] = probe.headers_off[0] = build.headers_off[0];
	memset(table + build.headers_off[0], 0, header_bytes);
	for (hjg_u32 i = coarse->begins[BUILD_SIDE][pair]; i < coarse->begins[BUILD_SIDE][pair + 1]; i++)
	{
		hjg_u32    *list_end;

		hjg_step_number(HJG_KEY_WIDTH_4, work, &build, i);
		hjg_step_b2(table, work, &build, i);
		if (!hjg_step_b3_find(HJG_KEY_WIDTH_4, table, work, &build, i, &list_end))
			hjg_step_b3_link(HJG_KEY_WIDTH_4, table, work, &build, i,
							 hjg_step_b3_create(HJG_KEY_WIDTH_4, table, work, &build, i, i), list_end);
		hjg_step_b4(HJG_KEY_WIDTH_4, table, work, &build, i, i);
	}
	for (hjg_u32 i = coarse->begins[PROBE_SIDE][pair]; i < coarse->begins[PROBE_SIDE][pair + 1]; i++)
	{
		hjg_u32		count;

		hjg_step_number(HJG_KEY_WIDTH_4, work, &probe, i);
		hjg_step_p2(table, work, &probe, i);
		hjg_step_p3(HJG_KEY_WIDTH_4, table, work, &probe, i);
		count = hjg_step_words(work, probe.counts_off)[i];
		hjg_step_words(work, probe.offsets_off)[i] = count > 0 ? take_places(coarse, worker, count) : 0;
		hjg_step_p4(HJG_KEY_WIDTH_4, table, work, &probe, coarse->pairs, i);
	}
}

/* ---- its input ---- */

/* Put a side's rows in order of partitions. */
static bool
put_in_partitions(Coarse *coarse, int side, const hjg_u32 *keys, hjg_u32 nrows, hjg_u64 work_off)
{
	HjgStepArgs *args = &coarse->args[side];
	const hjg_u64 array_bytes = (hjg_u64) nrows * sizeof(hjg_u32);
	hjg_u32    *mixed = (hjg_u32 *) (coarse->work + work_off);
	hjg_u32    *rows = mixed + nrows;
	hjg_u32    *begins = calloc(((size_t) 1 << coarse->bits) + 2, sizeof(hjg_u32));

	coarse->begins[side] = begins;
	if (begins == NULL)
		return false;
	args->seed = hjg_hash_seed;
	args->mixed_off = work_off;
	args->rows_off = work_off + array_bytes;
	args->buckets_off = work_off + 2 * array_bytes;
	args->nodes_off = work_off + 3 * array_bytes;
	args->counts_off = work_off + 4 * array_bytes;
	args->offsets_off = work_off + 5 * array_bytes;
	/* counts stand two places behind, so that starts become ends one place before */
	for (hjg_u32 i = 0; i < nrows; i++)
		begins[(hjg_mix32(args->seed, keys[i]) >> (32 - coarse->bits)) + 2]++;
	for (int p = 2; p <= 1 << coarse->bits; p++)
		begins[p] += begins[p - 1];
	for (hjg_u32 i = 0; i < nrows; i++)
	{
		const hjg_u32 value = hjg_mix32(args->seed, keys[i]);
		const hjg_u32 at = begins[(value >> (32 - coarse->bits)) + 1]++;

		mixed[at] = value;
		rows[at] = i;
	}
	args->bits = coarse->bucket_bits;
	args->skip_bits = (hjg_u32) coarse->bits;
	args->split_row = 0xFFFFFFFFu;
	args->mode = HJG_MATCH_ALL;
	args->page_pairs = coarse->most_pairs;
	return true;
}

static void
close_coarse(Coarse *coarse)
{
	for (int side = 0; side < SIDES; side++)
		free(coarse->begins[side]);
	hjg_bench_free(NULL, coarse->table, coarse->table_bytes);
	hjg_bench_free(NULL, coarse->work, coarse->work_bytes);
	hjg_bench_free(NULL, coarse->pairs, coarse->most_pairs * sizeof(HjgPair));
}

/* Lay out the tables and partition both sides; false if there is too little memory. */
static bool
open_coarse(Coarse *coarse, const HjgBenchInput *in, int bits)
{
	hjg_u64		headers_bytes;

	*coarse = (Coarse) {.bits = bits, .most_pairs = in->nprobe + MAX_WORKERS * BLOCK_PAIRS};
	while ((hjg_u64) 1 << (coarse->bucket_bits + (hjg_u32) bits) < in->nrows)
		coarse->bucket_bits++;
	coarse->bucket_bits = coarse->bucket_bits > 0 ? coarse->bucket_bits : 1;
	headers_bytes = (sizeof(HjgStepHeader) << bits) << coarse->bucket_bits;
	coarse->table_bytes = 64 + headers_bytes + (size_t) in->nrows * (hjg_step_key_node_bytes(HJG_KEY_WIDTH_4) + sizeof(HjgStepRidNode));
	coarse->work_bytes = ((size_t) in->nrows + in->nprobe) * ARRAYS * sizeof(hjg_u32);
	coarse->table = hjg_bench_alloc(NULL, coarse->table_bytes);
	coarse->work = hjg_bench_alloc(NULL, coarse->work_bytes);
	coarse->pairs = hjg_bench_alloc(NULL, coarse->most_pairs * sizeof(HjgPair));
	if (coarse->table == NULL || coarse->work == NULL || coarse->pairs == NULL)
		return false;
	for (int side = 0; side < SIDES; side++)
	{
		coarse->args[side].headers_off[0] = 64;
		coarse->args[side].key_nodes_off = 64 + headers_bytes;
		coarse->args[side].rid_nodes_off = 64 + headers_bytes + (hjg_u64) in->nrows * hjg_step_key_node_bytes(HJG_KEY_WIDTH_4);
		coarse->args[side].max_keys = coarse->args[side].max_rids = in->nrows;
	}
	return put_in_partitions(coarse, BUILD_SIDE, in->build, in->nrows, 0) &&
		put_in_partitions(coarse, PROBE_SIDE, in->probe, in->nprobe, (hjg_u64) in->nrows * ARRAYS * sizeof(hjg_u32));
}

/* Run the step once; false if a pair is wrong or missing. */
static bool
run_coarse(const HjgEnv *env, Coarse *coarse, const HjgBenchInput *in, double *ns, HjgBenchCounts *sum)
{
	hjg_u64		npairs = 0;
	hjg_u64		pairs_sum = 0;
	HjgBenchCounts counts;
	hjg_u64		started;

	memset(coarse->pairs, 0xFF, coarse->most_pairs * sizeof(HjgPair));
	memset(coarse->places, 0, sizeof(coarse->places));
	memset(coarse->table, 0, 64);
	coarse->next_pair = 0;
	counts = hjg_bench_counts(NULL);
	started = hjg_now_ns();
	hjg_pool_run(env->pool, 1 << coarse->bits, join_pair, coarse);
	*ns = (double) (hjg_now_ns() - started);
	counts = hjg_bench_counts(&counts);
	hjg_bench_counts_add(sum, &counts);
	for (hjg_u32 i = 0; i < coarse->next_pair; i++)
	{
		const HjgPair *pair = &coarse->pairs[i];

		/* the rest of a block */
		if (pair->probe_row == 0xFFFFFFFFu)
			continue;
		if (pair->probe_row >= in->nprobe || pair->build_row >= in->nrows || in->probe[pair->probe_row] != in->build[pair->build_row])
			return false;
		npairs++;
		pairs_sum += hjg_mix64(HJG_HASH_NO_SEED, pair->probe_row);
	}
	return npairs == in->npairs && pairs_sum == in->pairs_sum;
}

/* ---- the table ---- */

bool
hjg_bench_table_3(const HjgBenchOptions *options, const HjgEnv *env, const HjgRunner *runner, int log)
{
	const HjgCoupledConfig config = hjg_bench_config(options, HJG_COUPLED_PHJ_PL);
	static Coarse coarse;
	static HjgBenchTimes times;
	HjgBenchCounts counts[2] = {{{{0}}}, {{{0}}}};
	double		fine_ns[MAX_TURNS];
	double		partition_ns[MAX_TURNS];
	double		step_ns[MAX_TURNS];
	double		ratios[MAX_TURNS];
	const int	nworkers = hjg_pool_nthreads(env->pool);
	const int	middle = options->nreps / 2;
	HjgBenchInput in;
	bool		good;

	if (strcmp(options->device, "threads") != 0 || nworkers > MAX_WORKERS || hjg_bench_key_width != HJG_KEY_WIDTH_4)
	{
		printf("  only with keys of 4 bytes and where the device is \"threads\", at most %d in all: no kernel joins pairs of partitions, a thread each\n", MAX_WORKERS);
		return true;
	}
	good = hjg_bench_input_create(&in, options, log) && hjg_bench_run(env, &config, runner, &in, &times);
	coarse = (Coarse) {.bits = 0};
	if (good)
		good = open_coarse(&coarse, &in, __builtin_ctz(times.stats.join.npartitions));
	/* the first turn warms up memory */
	for (int turn = -1; turn < options->nreps && good; turn++)
	{
		const int	t = turn < 0 ? 0 : turn;
		int			order[2];

		hjg_lab_order(order, 2);
		for (int k = 0; k < 2 && good; k++)
			if (order[k] == 1)
				good = run_coarse(env, &coarse, &in, &step_ns[t], &counts[1]);
			else
			{
				good = hjg_bench_run(env, &config, runner, &in, &times);
				fine_ns[t] = times.total_ns;
				partition_ns[t] = (double) times.stats.join.partition_ns;
				hjg_bench_counts_add(&counts[0], &times.counts);
			}
		ratios[t] = (partition_ns[t] + step_ns[t]) / fine_ns[t];
	}
	if (good)
	{
		hjg_sort_measured(ratios, options->nreps);
		hjg_sort_measured(fine_ns, options->nreps);
		hjg_sort_measured(partition_ns, options->nreps);
		hjg_sort_measured(step_ns, options->nreps);
		printf("  %9u rows, %d partitions: PHJ-PL %9.2f ms, of it partitioning %.2f; pairs of partitions, one by a thread, %.2f: PHJ-PL' takes "
			   "%.2f times PHJ-PL (%.2f to %.2f)\n", in.nrows, 1 << coarse.bits, fine_ns[middle] / 1e6, partition_ns[middle] / 1e6,
			   step_ns[middle] / 1e6, ratios[middle], ratios[0], ratios[options->nreps - 1]);
		for (int i = 0; i < 2; i++)
		{
			printf("    %s", i == 0 ? "PHJ-PL" : "the step of pairs");
			hjg_bench_counts_print(&counts[i], (double) in.nrows * (options->nreps + 1));
		}
		hjg_bench_counts_explain();
	}
	close_coarse(&coarse);
	hjg_bench_input_destroy(&in);
	return good;
}
