/*
 * test_host_joins.c
 *	  Joins of sides in host memory: every pair of the reference, with any sizes of chunks, and an error
 *	  or the right pairs wherever a call of the driver fails.
 *
 * A real device uses its strategies; the stub (stub_libcuda.c), whose device memory is the host's, uses
 * sorted_strategy.c.
 */
#include <string.h>

#include "hjg_fault_loop.h"
#include "hjg_sorted_strategy.h"
#include "hjg_test_engine.h"
#include "lab/hjg_cuda_host.h"
#include "lab/hjg_cuda_paper.h"

#define MARGIN_PAIRS 64
#define CANARY 0xC5

static HjgStub *stub;
static HjgCudaDevice *device;
static const char *const mode_names[] = {"all", "left", "semi", "anti"};
static const int widths[] = {4, 8, 16};

/* ---- one join ---- */

typedef enum System
{
	STREAM,
	COPRO,
	SPILL
} System;

/* More partitions than sets, sets that are cut, one set. */
typedef struct Kind
{
	const char *name;
	System		system;
	int			bits;			/* of partitioning */
	int			set_part;		/* all build rows divided by those of a set */
	const HjgCudaStrategy *strategy;	/* NULL: one that suits, on the stub hjg_sorted_strategy */
} Kind;

static const Kind stream_kind = {"stream", STREAM, 0, 1, NULL};
static const Kind copro_kinds[] = {
	{"copro", COPRO, 4, 3, NULL},
	{"copro, one set", COPRO, 2, 1, NULL},
	{"copro, tiny sets", COPRO, 3, 20, NULL},
};
static const Kind spill_kinds[] = {
	{"spill", SPILL, 4, 3, NULL},
	{"spill, one set", SPILL, 2, 1, NULL},
	{"spill, tiny sets", SPILL, 3, 20, NULL},
	{"spill, many partitions", SPILL, 8, 2, NULL},
	{"spill, csr", SPILL, 4, 3, &hjg_cuda_csr},
};

static HjgPool *pool;			/* does not survive a fork */
static long nevicted;

typedef struct Outcome
{
	const char *wrong;			/* NULL: the result is right */
	HjgStatus	status;
} Outcome;

static int
compare_pairs(const void *a, const void *b)
{
	const HjgPair *x = a;
	const HjgPair *y = b;

	if (x->probe_row != y->probe_row)
		return x->probe_row < y->probe_row ? -1 : 1;
	return x->build_row < y->build_row ? -1 : x->build_row > y->build_row;
}

/* Make one array of a side's keys; numbers[i]: the row number of position i. */
static hjg_u8 *
flatten(const Side *side, int width, hjg_u32 *numbers)
{
	hjg_u8	   *keys = malloc(((size_t) side->nrows + 1) * (size_t) width);
	size_t		at = 0;

	for (int s = 0; s < side->nsegments; s++)
	{
		const HjgSegment *segment = &side->segments[s];

		memcpy(keys + at * (size_t) width, segment->keys, segment->nrows * (size_t) width);
		for (hjg_u32 i = 0; i < segment->nrows; i++)
			numbers[at++] = segment->first_row + i;
	}
	return keys;
}

/* Check that the result, with row numbers of the case and in canonical order, is the expected one. */
static bool
same_pairs(const Case *c, const HjgCudaHostJoin *join, HjgCudaHostResult *result, const hjg_u32 *build_numbers,
		   const hjg_u32 *probe_numbers)
{
	const size_t width = (size_t) c->width;
	hjg_u64		npairs = 0;

	if (result->npairs != c->nexpected)
		return false;
	for (int b = 0; b < result->nbatches; b++)
	{
		const HjgCudaBatch *batch = &result->batches[b];

		if (batch->first_pair != npairs)
			return false;
		npairs += batch->npairs;
		for (hjg_u64 i = batch->first_pair; i < npairs; i++)
		{
			HjgPair    *pair = &result->pairs[i];
			const hjg_u64 row = batch->first_row + pair->probe_row;

			if (row >= join->probe.nrows || (pair->build_row != HJG_NO_ROW && pair->build_row >= join->build.nrows))
				return false;
			/* in a SEMI join, any match is right */
			if (c->mode == HJG_MATCH_SEMI && memcmp((const char *) join->probe.keys + row * width,
													(const char *) join->build.keys + pair->build_row * width, width) != 0)
				return false;
			pair->probe_row = probe_numbers[row];
			if (pair->build_row != HJG_NO_ROW)
				pair->build_row = build_numbers[pair->build_row];
		}
	}
	qsort(result->pairs, result->npairs, sizeof(HjgPair), compare_pairs);
	for (hjg_u64 i = 0; i < npairs; i++)
		if (c->mode == HJG_MATCH_SEMI ? result->pairs[i].probe_row != c->expected[i].probe_row :
			compare_pairs(&result->pairs[i], &c->expected[i]) != 0)
			return false;
	return npairs == c->nexpected;
}

static bool
margin_is_clean(const HjgCudaHostResult *result)
{
	const hjg_u8 *bytes = (const hjg_u8 *) (result->pairs + result->capacity);

	for (size_t i = 0; i < MARGIN_PAIRS * sizeof(HjgPair); i++)
		if (bytes[i] != CANARY)
			return false;
	return true;
}

#define BLOCK_ROWS 16

/* Make a copro join with just enough room for blocks. */
static HjgCudaCopro
copro_of(const Kind *kind, const HjgCudaHostJoin *join, HjgStageMemory *memory)
{
	HjgCudaCopro copro = {.join = *join, .pool = pool, .bits = kind->bits, .block_rows = BLOCK_ROWS, .memory = memory};

	copro.set_rows = join->build.nrows / (hjg_u64) kind->set_part + BLOCK_ROWS;
	memory->nblocks = hjg_stage_blocks(join->build.nrows, kind->bits, BLOCK_ROWS, hjg_pool_nthreads(pool)) +
		hjg_stage_blocks(join->probe.nrows, kind->bits, BLOCK_ROWS, hjg_pool_nthreads(pool));
	memory->base = aligned_alloc(64, memory->nblocks * hjg_stage_block_bytes(join->key_width, BLOCK_ROWS));
	return copro;
}

/* Make a spill join with just enough memory for rows that leave the device. */
static HjgCudaSpill
spill_of(const Kind *kind, const HjgCudaHostJoin *join)
{
	HjgCudaSpill spill = {.join = *join, .bits = kind->bits, .set_rows = join->build.nrows / (hjg_u64) kind->set_part + BLOCK_ROWS};

	spill.memory_bytes = hjg_lab_spill_memory(&spill);
	spill.memory = aligned_alloc(64, spill.memory_bytes);
	return spill;
}

static size_t
device_bytes(const Kind *kind, const HjgCudaHostJoin *join, const HjgCudaCopro *copro, const HjgCudaSpill *spill)
{
	return kind->system == COPRO ? hjg_lab_copro_bytes(device, copro) : kind->system == SPILL ? hjg_lab_spill_bytes(device, spill) :
		hjg_lab_stream_bytes(device, join);
}

static HjgStatus
run_join(const Kind *kind, const HjgCudaHostJoin *join, const HjgEnv *env, HjgCudaHostResult *result)
{
	HjgStageMemory memory = {0};
	HjgCudaCopro copro = kind->system == COPRO ? copro_of(kind, join, &memory) : (HjgCudaCopro) {0};
	HjgCudaSpill spill = kind->system == SPILL ? spill_of(kind, join) : (HjgCudaSpill) {0};
	HjgCudaGrant grant = {0};
	HjgCudaStreams *streams;
	HjgStatus	status = hjg_cuda_admit(device->pool, device_bytes(kind, join, &copro, &spill), env, 0, &grant);

	if (status == HJG_OK)
		status = hjg_cuda_streams_take(device, env, &grant, &streams);
	if (status == HJG_OK)
	{
		status = kind->system == COPRO ? hjg_lab_copro_join(streams, &copro, result) :
			kind->system == SPILL ? hjg_lab_spill_join(streams, &spill, result) : hjg_lab_stream_join(streams, join, result);
		if (grant.used_bytes != 0 || (stub != NULL && stub->in_flight != 0))
		{
			printf("# %zu bytes of device memory are left, %ld operations are in flight\n", grant.used_bytes,
				   stub != NULL ? stub->in_flight : 0);
			status = HJG_ERR_INPUT;
		}
		nevicted += spill.nevicted;
		hjg_cuda_streams_give(streams);
	}
	hjg_cuda_dismiss(&grant);
	free(memory.base);
	free(spill.memory);
	return status;
}

static Outcome
join_case(const Kind *kind, const Case *c, const HjgEnv *env, hjg_u64 chunk_rows, hjg_u64 capacity)
{
	hjg_u32    *build_numbers = calloc(c->build.nrows + 1, sizeof(hjg_u32));
	hjg_u32    *probe_numbers = calloc(c->probe.nrows + 1, sizeof(hjg_u32));
	HjgCudaHostJoin join = {
		.key_width = c->width, .mode = c->mode, .chunk_rows = chunk_rows,
		.strategy = kind->strategy == NULL && stub != NULL ? &hjg_sorted_strategy : kind->strategy,
		.build = {flatten(&c->build, c->width, build_numbers), c->build.nrows},
		.probe = {flatten(&c->probe, c->width, probe_numbers), c->probe.nrows}
	};
	HjgCudaHostResult result = {.capacity = capacity, .max_batches = ((int) c->probe.nrows + 1) * 32};
	Outcome		outcome = {0};

	result.pairs = malloc((capacity + MARGIN_PAIRS) * sizeof(HjgPair));
	result.batches = calloc((size_t) result.max_batches, sizeof(HjgCudaBatch));
	memset(result.pairs, CANARY, (capacity + MARGIN_PAIRS) * sizeof(HjgPair));
	outcome.status = run_join(kind, &join, env, &result);
	if (!margin_is_clean(&result))
		outcome.wrong = "written beyond the capacity";
	else if (outcome.status == HJG_OK && !same_pairs(c, &join, &result, build_numbers, probe_numbers))
		outcome.wrong = "wrong pairs";
	free((void *) join.build.keys);
	free((void *) join.probe.keys);
	free(build_numbers);
	free(probe_numbers);
	free(result.pairs);
	free(result.batches);
	return outcome;
}

/* True if the join may refuse: a row's pairs, the keys or one partition may be too much for this try. */
static bool
may_refuse(const Kind *kind, const Case *c, hjg_u64 chunk_rows, HjgStatus status)
{
	if (status == HJG_ERR_INPUT)
		return stub == NULL;
	if (status != HJG_ERR_MEMORY)
		return false;
	return chunk_rows < 4 * (hjg_u64) c->build.nrows || (kind->set_part > 1 && c->mode != HJG_MATCH_ALL);
}

/* Run one mode; returns NULL or an error text; *njoined counts the runs that did not refuse. */
static const char *
run_mode(const Kind *kind, const Case *c, int *njoined)
{
	static const hjg_u64 chunks[] = {64, 1000, 16384};
	const char *wrong = NULL;

	for (int k = 0; k < 3 && wrong == NULL; k++)
	{
		const Outcome outcome = join_case(kind, c, NULL, chunks[k], c->nexpected);

		*njoined += outcome.status == HJG_OK;
		wrong = outcome.wrong;
		if (wrong == NULL && outcome.status != HJG_OK && !may_refuse(kind, c, chunks[k], outcome.status))
			wrong = hjg_status_text(outcome.status);
		if (wrong != NULL)
			printf("# %s: mode %s, %u x %u rows, chunks of %u\n", wrong, mode_names[c->mode], c->build.nrows, c->probe.nrows,
				   (unsigned) chunks[k]);
	}
	return wrong;
}

static void
test_results(const Kind *kind)
{
	static const hjg_u32 sizes[][2] = {{1, 1}, {1, 1000}, {1000, 1}, {255, 257}, {3000, 9000}};

	for (int w = 0; w < 3; w++)
		for (int shape = 0; shape < KEYS_NSHAPES; shape++)
		{
			const char *wrong = NULL;
			int			njoined = 0;

			for (int i = 0; i < (short_run ? 4 : 5) && wrong == NULL; i++)
				for (int mode = 0; mode <= HJG_MATCH_ANTI && wrong == NULL; mode++)
				{
					/* products of hot keys grow with the square */
					const hjg_u32 shrink = (shape == KEYS_ONE_HOT_BOTH || shape == KEYS_COLLIDING_HOT) && sizes[i][0] > 200 ? 20 : 1;
					Case		c;

					case_create(&c, test_seed + (hjg_u64) (shape * 16 + mode), widths[w], mode, shape, sizes[i][0] / shrink,
								sizes[i][1] / shrink + 1);
					wrong = run_mode(kind, &c, &njoined);
					case_destroy(&c);
				}
			claim(wrong == NULL && njoined > 0, "%s, %d-byte keys, %s: %d runs equal the reference", kind->name, widths[w],
				  key_shape_names[shape], njoined);
		}
}

/* ---- sets ---- */

/* Check the sets; returns NULL or an error text. */
static const char *
check_sets(const hjg_u64 *rows, int nparts, hjg_u64 capacity, const HjgCudaSets *sets)
{
	hjg_u64		sums[HJG_CUDA_MOST_PARTS + 1] = {0};
	int			nalone[HJG_CUDA_MOST_PARTS + 1] = {0};

	for (int p = 0; p < nparts; p++)
	{
		if (sets->set_of[p] < 0 || sets->set_of[p] >= sets->nsets)
			return "a partition is in no set";
		sums[sets->set_of[p]] += rows[p];
		nalone[sets->set_of[p]] += rows[p] > 0;
	}
	for (int s = 0; s < sets->nsets; s++)
	{
		if (sums[s] != sets->rows[s])
			return "a set's rows are not those of its partitions";
		if (sums[s] > capacity && (s == 0 || nalone[s] > 1))
			return "a set is too large, and not one partition";
		for (int t = 1; t < s; t++)
			if (sums[s] + sums[t] <= capacity && nalone[s] == 1)
				return "a partition has a set of its own, though another one has room";
	}
	return NULL;
}

static void
test_sets(void)
{
	static const hjg_u64 odd[] = {60, 50, 40, 0, 500, 35, 25};
	Random		random = {test_seed};
	const char *wrong = NULL;
	HjgCudaSets sets;
	hjg_u64		rows[HJG_CUDA_MOST_PARTS];

	hjg_lab_pack_sets(odd, 7, 100, &sets);
	claim(check_sets(odd, 7, 100, &sets) == NULL && sets.rows[0] == 100 && sets.set_of[4] > 0 && sets.nsets == 4,
		  "the first set is the fullest that fits: %u of 100 rows, %d sets", (unsigned) sets.rows[0], sets.nsets);
	for (int run = 0; run < 500 && wrong == NULL; run++)
	{
		const int	nparts = 1 << random_below(&random, HJG_STAGE_MOST_BITS + 1);
		const hjg_u64 capacity = 1 + random_u64(&random) % (1ull << 33);

		for (int p = 0; p < nparts; p++)
			rows[p] = random_below(&random, 8) == 0 ? 0 : random_u64(&random) % (capacity * 2 / (hjg_u64) (1 + run % 30) + 1);
		hjg_lab_pack_sets(rows, nparts, capacity, &sets);
		wrong = check_sets(rows, nparts, capacity, &sets);
	}
	claim(wrong == NULL, "any partitions, up to 2^33 rows a set, are packed%s%s", wrong != NULL ? ": " : "", wrong != NULL ? wrong : "");
	memset(rows, 0, sizeof(rows));
	hjg_lab_pack_sets(rows, 16, 1000, &sets);
	claim(sets.nsets == 1 && sets.rows[0] == 0, "no rows are one set of none");
}

/* Test that more bytes cost copro less, and that rows cost spill nothing. */
static void
test_rates(void)
{
	const HjgCudaHostJoin join = {.key_width = 4, .build.nrows = 1u << 28, .probe.nrows = 1u << 28};
	const HjgCudaRates fast_bus = {.in_gbs = 55, .out_gbs = 55, .both_gbs = 48, .block_gbs = 34, .stage_ns = 0.2};
	const HjgCudaRates slow_bus = {.in_gbs = 12, .out_gbs = 12, .both_gbs = 11, .block_gbs = 11, .stage_ns = 0.1};
	const hjg_u64 half = join.build.nrows / 2;
	const hjg_u64 little = join.build.nrows / 20;

	claim(hjg_lab_spill_ns(&fast_bus, &join, half) < hjg_lab_copro_ns(&fast_bus, &join, half),
		  "a fast bus: spill is chosen");
	claim(hjg_lab_spill_ns(&slow_bus, &join, little) > hjg_lab_copro_ns(&slow_bus, &join, little),
		  "a slow bus, and little that stays on the device: copro is chosen");
	claim(hjg_lab_spill_ns(&fast_bus, &join, 1ull << 30) < hjg_lab_spill_ns(&fast_bus, &join, half),
		  "the more stays, the less is spilled");
}

static void
test_limits(const Kind *kind)
{
	Memory		memory;
	Outcome		outcome;
	Case		c;

	case_create(&c, test_seed, 8, HJG_MATCH_ALL, KEYS_UNIFORM, 2000, 5000);
	outcome = join_case(kind, &c, NULL, 1000, c.nexpected - 1);
	claim(outcome.status == HJG_ERR_MEMORY && outcome.wrong == NULL, "%s: a result that is too small is said, and not exceeded", kind->name);
	memory_init(&memory, NULL);
	memory.cancel_at = 3;
	outcome = join_case(kind, &c, &memory.env, 1000, c.nexpected);
	claim(outcome.status == HJG_ERR_CANCELLED, "%s: a join that is cancelled says so", kind->name);
	claim(hjg_cuda_pool_trim(device->pool, 0) == 0, "no block is in use after it");
	case_destroy(&c);
}

/* ---- faults ---- */

typedef struct FaultedJoin
{
	const Kind *kind;
	Case		c;
} FaultedJoin;

static HjgStatus
run_faulted(const void *arg, const char **wrong)
{
	const FaultedJoin *join = arg;
	char		reason[128];
	Outcome		outcome;

	device = hjg_cuda_enter(0, reason, sizeof(reason));
	if (device == NULL)
		return HJG_ERR_DEVICE;
	outcome = join_case(join->kind, &join->c, NULL, 100, join->c.nexpected);
	*wrong = outcome.wrong;
	return outcome.status;
}

static void
test_faults_everywhere(const Kind *kind)
{
	FaultedJoin join = {.kind = kind};

	case_create(&join.c, test_seed, 8, kind->system == STREAM ? HJG_MATCH_LEFT : HJG_MATCH_ALL, KEYS_DUPLICATES, 300, 450);
	for (int k = 0; k < HJG_FAULT_KINDS; k++)
	{
		const long	ncalls = hjg_fail_everywhere(stub, hjg_fault_kinds[k].code, run_faulted, &join);

		claim(ncalls > 58, "%s, %s at each of %ld calls: right pairs, a status or a clean end", kind->name,
			  hjg_fault_kinds[k].what, ncalls);
	}
	case_destroy(&join.c);
}

int
main(int argc, char **argv)
{
	static const char *const names[] = {"short", NULL};
	HjgDeviceInfo infos[HJG_CUDA_MAX_DEVICES] = {0};
	char		reason[128];

	short_run = test_options(argc, argv, names) != 0;
	hjg_cuda_list(infos, HJG_CUDA_MAX_DEVICES);
	if (infos[0].state != HJG_DEVICE_READY)
	{
		printf("not ok 1 - there is a device: %s\n1..1\n", infos[0].reason);
		return 1;
	}
	stub = hjg_stub_find();
	/* before the first context of this process, which does not survive a fork */
	if (stub != NULL)
	{
		test_faults_everywhere(&stream_kind);
		test_faults_everywhere(&copro_kinds[0]);
		test_faults_everywhere(&spill_kinds[0]);
	}
	test_sets();
	test_rates();
	device = hjg_cuda_enter(0, reason, sizeof(reason));
	if (claim(device != NULL, "the device can be used"))
	{
		pool = hjg_pool_create(3);
		test_results(&stream_kind);
		test_limits(&stream_kind);
		for (int k = 0; k < 3; k++)
			test_results(&copro_kinds[k]);
		test_limits(&copro_kinds[0]);
		for (int k = 0; k < 5; k++)
			test_results(&spill_kinds[k]);
		claim(nevicted > 0, "%ld partitions had to leave the device", nevicted);
		test_limits(&spill_kinds[0]);
		hjg_pool_destroy(pool);
	}
	printf("1..%d\n", claims_passed + claims_failed);
	return claims_failed > 0;
}
