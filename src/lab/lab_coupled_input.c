/*
 * lab_coupled_input.c
 *	  Inputs of the coupled engine's benchmark, and one join of them.
 *
 * Build keys are unique.  Of keys that are made here skew is the fraction of the probe rows that share one key,
 * selectivity the fraction that has a match.
 */
#define _GNU_SOURCE

#include <stdlib.h>
#include <string.h>

#include "lab/hjg_coupled_bench.h"
#include "lab/hjg_lab_plan.h"

int			hjg_bench_key_width = HJG_KEY_WIDTH_4;

const char *const hjg_bench_step_names[HJG_STEP_COUNT] = {
	"hash", "number", "n2", "n3", "b2", "b3", "b4", "p2", "p3", "p4"
};

const HjgBenchShape hjg_bench_shapes[HJG_BENCH_SHAPES] = {
	{"uniform", 0, 1},
	{"low skew, 10 %", 0.1, 1},
	{"high skew, 25 %", 0.25, 1},
	{"half match", 0, 0.5},
	{"a quarter", 0, 0.25},
	{"an eighth", 0, 0.125},
};

void *
hjg_bench_alloc(void *arg, size_t bytes)
{
	bool		fresh;
	void	   *ptr = hjg_workspace_alloc(bytes, &fresh);

	if (fresh && ptr != NULL)
		memset(ptr, 0, bytes);
	return ptr;
}

void
hjg_bench_free(void *arg, void *ptr, size_t bytes)
{
	hjg_workspace_free(ptr, bytes);
}

static void *
map_rows(hjg_u32 nrows, size_t bytes)
{
	return hjg_bench_alloc(NULL, (size_t) nrows * bytes + HJG_SLAB_BYTES);
}

hjg_u64
hjg_bench_random(hjg_u64 *state)
{
	return hjg_mix64(HJG_HASH_NO_SEED, *state += 0x9e3779b97f4a7c15u);
}

/* Pack the keys by the plan, or if it is NULL by the smallest one; writes its name to text. */
static bool
pack_keys(const HjgPackPlan *wanted, const void *keys, hjg_u32 nrows, void *packed, HjgSegment *segment, char *text,
		  size_t room)
{
	const HjgEnv env = {.alloc = hjg_bench_alloc, .free = hjg_bench_free};
	HjgPackStats stats;
	HjgPackPlan plan;

	if (hjg_pack_collect(&env, hjg_bench_key_width, keys, nrows, 0, &stats) != HJG_OK)
		return false;
	plan = wanted != NULL ? *wanted : hjg_pack_choose(&stats, NULL, 1, 1);
	hjg_lab_plan_text(&plan, text, room);
	*segment = (HjgSegment) {.keys = packed, .nrows = nrows};
	return hjg_pack(&env, hjg_bench_key_width, &plan, keys, nrows, packed, &segment->packed_bytes) == HJG_OK;
}

/* Compute the size of a packed batch, rounded so that the next one may be lent to a device. */
static size_t
packed_bytes_of(hjg_u32 nrows)
{
	return (hjg_pack_bound(hjg_bench_key_width, nrows) + HJG_SLAB_BYTES - 1) / HJG_SLAB_BYTES * HJG_SLAB_BYTES;
}

static bool
pack_input(HjgBenchInput *in, const HjgPackPlan *plan)
{
	const hjg_u32 nbatches = (in->nprobe + HJG_MAX_PROBE_ROWS - 1) / HJG_MAX_PROBE_ROWS;
	hjg_u8	   *to;
	bool		good;

	in->packed_room = packed_bytes_of(in->nrows) + nbatches * packed_bytes_of(HJG_MAX_PROBE_ROWS);
	to = hjg_bench_alloc(NULL, in->packed_room);
	good = to != NULL && pack_keys(plan, in->build_keys, in->nrows, to, &in->packed_build, in->plans[0], sizeof(in->plans[0]));
	to += packed_bytes_of(in->nrows);
	for (hjg_u32 i = 0; i < nbatches && good; i++)
	{
		const hjg_u32 row = i * HJG_MAX_PROBE_ROWS;

		good = pack_keys(plan, in->probe_keys + (size_t) row * (size_t) hjg_bench_key_width, in->nprobe - row < HJG_MAX_PROBE_ROWS ? in->nprobe - row : HJG_MAX_PROBE_ROWS,
						 to, &in->packed_probe[i], in->plans[1], sizeof(in->plans[1]));
		to += packed_bytes_of(HJG_MAX_PROBE_ROWS);
	}
	return good;
}

/* Make the keys of a side's values; NULL if there is too little memory. */
static hjg_u8 *
widen_values(hjg_u32 *values, hjg_u32 nrows)
{
	hjg_u64    *keys;

	if (hjg_bench_key_width == HJG_KEY_WIDTH_4)
		return (hjg_u8 *) values;
	keys = map_rows(nrows, sizeof(hjg_u64));
	for (hjg_u32 i = 0; keys != NULL && i < nrows; i++)
		keys[i] = values[i];
	return (hjg_u8 *) keys;
}

/* Make keys of the values, packed on request. */
static bool
make_keys(HjgBenchInput *in, const HjgBenchOptions *options)
{
	in->build_keys = widen_values(in->build, in->nrows);
	in->probe_keys = widen_values(in->probe, in->nprobe);
	return in->build_keys != NULL && in->probe_keys != NULL && (!options->packed || pack_input(in, options->plan));
}

static void
free_values(hjg_u32 *values, hjg_u8 *keys, hjg_u32 nrows)
{
	if (keys != (hjg_u8 *) values)
		hjg_bench_free(NULL, keys, (size_t) nrows * sizeof(hjg_u64) + HJG_SLAB_BYTES);
	hjg_bench_free(NULL, values, (size_t) nrows * sizeof(hjg_u32) + HJG_SLAB_BYTES);
}

/* Step between ascending build keys; the keys between them have no match. */
#define ORDERED_STEP 3

bool
hjg_bench_input_sized(HjgBenchInput *in, const HjgBenchOptions *options, hjg_u32 nbuild, hjg_u32 nprobe)
{
	hjg_u32		range = 1;
	hjg_u64		state = 42;

	*in = (HjgBenchInput) {.nrows = nbuild, .nprobe = nprobe};
	in->build = map_rows(nbuild, sizeof(hjg_u32));
	in->probe = map_rows(nprobe, sizeof(hjg_u32));
	in->pairs = map_rows(nprobe, sizeof(HjgPair));
	if (in->build == NULL || in->probe == NULL || in->pairs == NULL)
		return false;
	while (range < nbuild)
		range *= 2;
	/* otherwise a bijection of the range: it is a power of two and the multiplier odd */
	for (hjg_u32 i = 0; i < nbuild; i++)
		in->build[i] = options->ordered ? i * ORDERED_STEP : (i * 2654435761u) & (range - 1);
	for (hjg_u32 i = 0; i < nprobe; i++)
	{
		double		u = (double) (hjg_bench_random(&state) >> 11) / 9007199254740992.0;
		hjg_u32		row = (hjg_u32) ((hjg_bench_random(&state) >> 32) * nbuild >> 32);

		if (options->ordered)
			row = (hjg_u32) ((hjg_u64) i * nbuild / nprobe);
		if (u < options->skew)
			row = nbuild / 2;
		u = (double) (hjg_bench_random(&state) >> 11) / 9007199254740992.0;
		in->probe[i] = in->build[row];
		if (u >= options->selectivity)
			in->probe[i] += options->ordered ? 1 : range;
		else
		{
			in->npairs++;
			in->pairs_sum += hjg_mix64(HJG_HASH_NO_SEED, i);
		}
	}
	return make_keys(in, options);
}

bool
hjg_bench_input_keys(HjgBenchInput *in, const HjgBenchOptions *options, const hjg_u32 *build, hjg_u32 nbuild,
					 const hjg_u32 *probe, hjg_u32 nprobe)
{
	hjg_u32		most = 0;
	hjg_u8	   *occurs;

	*in = (HjgBenchInput) {.nrows = nbuild, .nprobe = nprobe};
	in->build = map_rows(nbuild, sizeof(hjg_u32));
	in->probe = map_rows(nprobe, sizeof(hjg_u32));
	in->pairs = map_rows(nprobe, sizeof(HjgPair));
	for (hjg_u32 i = 0; i < nbuild; i++)
		most = build[i] > most ? build[i] : most;
	occurs = calloc((size_t) most + 1, 1);
	if (in->build == NULL || in->probe == NULL || in->pairs == NULL || occurs == NULL)
	{
		free(occurs);
		return false;
	}
	memcpy(in->build, build, (size_t) nbuild * sizeof(hjg_u32));
	memcpy(in->probe, probe, (size_t) nprobe * sizeof(hjg_u32));
	for (hjg_u32 i = 0; i < nbuild; i++)
		occurs[build[i]] = 1;
	for (hjg_u32 i = 0; i < nprobe; i++)
		if (probe[i] <= most && occurs[probe[i]])
		{
			in->npairs++;
			in->pairs_sum += hjg_mix64(HJG_HASH_NO_SEED, i);
		}
	free(occurs);
	return make_keys(in, options);
}

bool
hjg_bench_input_column(HjgBenchInput *in, const HjgBenchOptions *options, const hjg_u32 *values, hjg_u32 nrows)
{
	*in = (HjgBenchInput) {.nrows = nrows};
	in->build = map_rows(nrows, sizeof(hjg_u32));
	in->probe = map_rows(0, sizeof(hjg_u32));
	in->pairs = map_rows(0, sizeof(HjgPair));
	if (in->build == NULL || in->probe == NULL || in->pairs == NULL)
		return false;
	memcpy(in->build, values, (size_t) nrows * sizeof(hjg_u32));
	return make_keys(in, options);
}

bool
hjg_bench_input_create(HjgBenchInput *in, const HjgBenchOptions *options, int log)
{
	return hjg_bench_input_sized(in, options, 1u << log, 1u << log);
}

void
hjg_bench_input_destroy(HjgBenchInput *in)
{
	if (in->packed_room > 0)
		hjg_bench_free(NULL, (void *) in->packed_build.keys, in->packed_room);
	free_values(in->build, in->build_keys, in->nrows);
	free_values(in->probe, in->probe_keys, in->nprobe);
	hjg_bench_free(NULL, in->pairs, (size_t) in->nprobe * sizeof(HjgPair) + HJG_SLAB_BYTES);
}

/*
 * Check that the pairs of a batch, whose first row is the input's row first, join equal keys, and add
 * their probe rows' marks to *sum.  Build keys are unique, so the expected number and sum of pairs prove
 * that each pair occurs once.
 */
static bool
check_bench_pairs(const HjgBenchInput *in, hjg_u32 first, hjg_u32 nrows, hjg_u64 npairs, hjg_u64 *sum)
{
	const HjgPair *pairs = in->pairs + first;

	for (hjg_u64 i = 0; i < npairs; i++)
	{
		if (pairs[i].probe_row >= nrows || pairs[i].build_row >= in->nrows ||
			in->probe[first + pairs[i].probe_row] != in->build[pairs[i].build_row])
			return false;
		*sum += hjg_mix64(HJG_HASH_NO_SEED, first + pairs[i].probe_row);
	}
	return true;
}

bool
hjg_bench_run(const HjgEnv *env, const HjgCoupledConfig *config, const HjgRunner *runner, const HjgBenchInput *in,
			  HjgBenchTimes *times)
{
	const HjgJoinSpec spec = {.key_width = hjg_bench_key_width};
	const bool	packed = in->packed_room > 0 && config != NULL;
	const HjgSegment build = packed ? in->packed_build : (HjgSegment) {.keys = in->build_keys, .nrows = in->nrows};
	HjgJoin    *cpu = NULL;
	HjgCoupled *coupled = NULL;
	hjg_u64		batch_pairs[HJG_BENCH_BATCHES] = {0};
	hjg_u64		npairs = 0;
	hjg_u64		sum = 0;
	bool		right = true;
	HjgBenchCounts counts = hjg_bench_counts(NULL);
	hjg_u64		started = hjg_now_ns();
	HjgStatus	status = config == NULL ? hjg_join_build(env, &spec, &build, 1, &cpu) :
		hjg_coupled_build(env, config, runner, hjg_bench_key_width, HJG_MATCH_ALL, &build, 1, &coupled);

	times->build_ns = (double) (hjg_now_ns() - started);
	for (hjg_u32 row = 0; status == HJG_OK && row < in->nprobe; row += HJG_MAX_PROBE_ROWS)
	{
		const HjgSegment probe = packed ? in->packed_probe[row / HJG_MAX_PROBE_ROWS] : (HjgSegment) {.keys = in->probe_keys + (size_t) row * (size_t) hjg_bench_key_width,
			.nrows = in->nprobe - row < HJG_MAX_PROBE_ROWS ? in->nprobe - row : HJG_MAX_PROBE_ROWS};
		HjgPair    *page = in->pairs + row;
		HjgResult	result = {.pages = &page, .npages = 1, .page_pairs = probe.nrows};
		HjgCursor	cursor = {0, 0, 0};

		status = config == NULL ? hjg_join_probe(cpu, &probe, 1, &cursor, &result) :
			hjg_coupled_probe(coupled, &probe, 1, &cursor, &result);
		npairs += batch_pairs[row / HJG_MAX_PROBE_ROWS] = result.npairs;
	}
	times->total_ns = (double) (hjg_now_ns() - started);
	times->counts = hjg_bench_counts(&counts);
	if (coupled != NULL)
		hjg_coupled_stats(coupled, &times->stats);
	if (cpu != NULL)
		hjg_join_stats(cpu, &times->stats.join);
	hjg_coupled_free(coupled);
	hjg_join_free(cpu);
	for (hjg_u32 row = 0; status == HJG_OK && right && row < in->nprobe; row += HJG_MAX_PROBE_ROWS)
		right = check_bench_pairs(in, row, in->nprobe - row < HJG_MAX_PROBE_ROWS ? in->nprobe - row : HJG_MAX_PROBE_ROWS,
								  batch_pairs[row / HJG_MAX_PROBE_ROWS], &sum);
	times->good = status == HJG_OK && right && npairs == in->npairs && sum == in->pairs_sum;
	return times->good;
}
