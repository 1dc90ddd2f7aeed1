/*
 * device_cuda_parts.c
 *	  Resident joins by radix partitions: one pass or two (device_cuda_parts_side.c), then a join of
 *	  each pair of partitions in shared memory (hjg_cuda_copartition.h).
 *
 * Partitions that skew or duplicates make larger than a table are joined in chunks, at most
 * HJG_CUDA_MOST_CHUNKS, because a kernel cannot be cancelled.  In every mode but ALL the pairs of a probe
 * row depend on all build rows of its key, so the build rows of each partition must fit one table; build()
 * fails if they do not.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_parts.h"

#define LEAST_PROBE_LIMIT 8192
#define ENOUGH_BITS 10
#define ENOUGH_UNITS (1 << ENOUGH_BITS)

#define IMAGE "cuda_copartition"

static HjgCudaKernel join_packed[HJG_CUDA_KINDS] = HJG_CUDA_KERNELS_BY_KIND(IMAGE, "hjg_k_join_packed_4");
static HjgCudaKernel join_halved[HJG_CUDA_KINDS] = HJG_CUDA_KERNELS_BY_KIND(IMAGE, "hjg_k_join_halved_4");
static HjgCudaKernel join_parts[HJG_CUDA_KEY_CLASSES][HJG_CUDA_KINDS] = {
	HJG_CUDA_KERNELS_BY_KIND(IMAGE, "hjg_k_join_parts_4"),
	HJG_CUDA_KERNELS_BY_KIND(IMAGE, "hjg_k_join_parts_8"),
	HJG_CUDA_KERNELS_BY_KIND(IMAGE, "hjg_k_join_parts_16"),
	HJG_CUDA_KERNELS_BY_KIND(HJG_CUDA_LAB_IMAGE, "hjg_k_join_parts_8_8"),
};

/* Bound the memory: both sides stay, and between two passes the rows of one side at a time. */
static size_t
parts_bytes(const HjgCudaDevice *device, const HjgCudaShape *shape, int npasses)
{
	const hjg_u64 larger = shape->build_rows > shape->probe_rows ? shape->build_rows : shape->probe_rows;
	HjgCudaPartsPlan plan;

	if (!hjg_cuda_parts_plan(device, shape, npasses, &plan))
		return 0;
	return hjg_cuda_parts_bytes(&plan, shape->build_rows) + hjg_cuda_parts_bytes(&plan, shape->probe_rows) +
		(npasses == 1 ? 0 : hjg_cuda_parts_between_bytes(&plan, larger));
}

typedef struct PartsTable
{
	HjgCudaPartsPlan plan;
	HjgMatchMode mode;
	HjgCudaParts build;
	bool		verified;
} PartsTable;

static void
parts_free(HjgCudaStream *stream, void *table)
{
	hjg_cuda_parts_free(stream, &((PartsTable *) table)->build);
	free(table);
}

static HjgStatus
parts_verify(HjgCudaStream *stream, void *join)
{
	PartsTable	   *table = join;
	hjg_u32		largest = 0;
	HjgStatus	status;

	if (table->verified)
		return HJG_OK;
	status = hjg_cuda_copy_out(stream, &largest, table->build.largest, sizeof(largest));
	if (status == HJG_OK)
		status = hjg_cuda_wait(stream);
	if (status == HJG_OK && largest > hjg_cuda_most_part_rows(table->mode, table->plan.build_limit))
		status = HJG_ERR_INPUT;
	table->verified = status == HJG_OK;
	return status;
}

static HjgStatus
build_in(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, int npasses, void **result)
{
	PartsTable	   *table = calloc(1, sizeof(PartsTable));
	HjgStatus	status;

	if (table == NULL)
		return HJG_ERR_MEMORY;
	table->mode = shape->mode;
	if (!hjg_cuda_parts_plan(stream->device, shape, npasses, &table->plan))
	{
		free(table);
		return HJG_ERR_INPUT;
	}
	status = hjg_cuda_mark(stream, HJG_CUDA_PARTITION);
	if (status == HJG_OK)
		status = hjg_cuda_parts_make(stream, &table->plan, build, &table->build, NULL);
	/* kernels of other modes rely on it */
	if (status == HJG_OK && shape->mode != HJG_MATCH_ALL)
		status = parts_verify(stream, table);
	if (status != HJG_OK)
	{
		parts_free(stream, table);
		return status;
	}
	*result = table;
	return HJG_OK;
}

/*
 * Choose the probe rows of a unit.  Each unit builds a table.  So with enough units for all
 * multiprocessors, only partitions that skew makes larger than twice the average are cut; otherwise all
 * are.
 */
static hjg_u32
probe_limit_of(const HjgCudaPartsPlan *plan, hjg_u64 probe_rows)
{
	const hjg_u64 average = probe_rows >> hjg_cuda_parts_bits(plan);
	const hjg_u64 piece = (probe_rows / ENOUGH_UNITS) + (probe_rows / ENOUGH_UNITS) / 16;

	if (hjg_cuda_parts_bits(plan) < ENOUGH_BITS && piece > LEAST_PROBE_LIMIT)
		return (hjg_u32) piece;
	return (hjg_u32) (2 * (average > LEAST_PROBE_LIMIT ? average : LEAST_PROBE_LIMIT));
}

static HjgStatus
parts_probe(HjgCudaStream *stream, void *join, const HjgCudaSide *probe, const HjgCudaOutput *output)
{
	const PartsTable *table = join;
	const HjgCudaPartsPlan *plan = &table->plan;
	const HjgCudaKind kind = hjg_cuda_kind(output);
	HjgCudaKernel *kernel = plan->halved ? &join_halved[kind] : plan->packed ? &join_packed[kind] :
		&join_parts[plan->key_class][kind];
	HjgKUnits	units = {
		.build = table->build.parts, .bits = (hjg_u32) hjg_cuda_parts_bits(plan), .build_limit = plan->build_limit,
		.probe_limit = probe_limit_of(plan, probe->nrows),
		.lonely = table->mode == HJG_MATCH_LEFT || table->mode == HJG_MATCH_ANTI
	};
	HjgCudaParts parts;
	HjgStatus	status;

	if (probe->nrows == 0)
		return HJG_OK;
	status = hjg_cuda_mark(stream, HJG_CUDA_PARTITION);
	if (status == HJG_OK)
		status = hjg_cuda_parts_make(stream, plan, probe, &parts, &units);
	if (status != HJG_OK)
		return status;
	status = hjg_cuda_mark(stream, HJG_CUDA_PROBE);
	if (status == HJG_OK)
	{
		HjgKJoin	args = {
			.build = hjg_cuda_parts_rows(&table->build), .probe = hjg_cuda_parts_rows(&parts), .units = units,
			.ticket = parts.ticket,
			.output = {
				.counters = output->counters, .pairs = output->pairs, .keys = output->keys,
				.build_rows = output->build_rows, .probe_rows = output->probe_rows, .capacity = output->capacity
			},
			.mode = table->mode
		};

		status = hjg_cuda_launch_filling(stream, kernel, plan->join_threads, plan->join_shared, ~0ull, &args);
	}
	hjg_cuda_parts_free(stream, &parts);
	return status;
}

#define RADIX_STRATEGY(PASSES) \
static bool \
suits_##PASSES(const HjgCudaDevice *device, const HjgCudaShape *shape) \
{ \
	HjgCudaPartsPlan plan; \
	return hjg_cuda_parts_plan(device, shape, PASSES, &plan); \
} \
static size_t \
bytes_##PASSES(const HjgCudaDevice *device, const HjgCudaShape *shape) \
{ \
	return parts_bytes(device, shape, PASSES); \
} \
static HjgStatus \
build_##PASSES(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, void **table) \
{ \
	return build_in(stream, shape, build, PASSES, table); \
} \
HJG_CUDA_STRATEGY(radix##PASSES, \
	.unique = (HJG_CUDA_RADIX##PASSES##_NEEDS & HJG_NEEDS_UNIQUE) != 0, \
	.suits = suits_##PASSES, \
	.bytes = bytes_##PASSES, \
	.build = build_##PASSES, \
	.verify = parts_verify, \
	.probe = parts_probe, \
	.free = parts_free \
)

RADIX_STRATEGY(1);
RADIX_STRATEGY(2);
