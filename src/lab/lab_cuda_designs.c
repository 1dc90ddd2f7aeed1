/*
 * lab_cuda_designs.c
 *	  The radix joins of the literature, composed of a partitioner, a join of co-partitions and an
 *	  output.
 *
 *		pth, wsh, bsh		histograms of threads, warps, blocks; nested loops (Paul et al., 2020, table I), direct output
 *							buffer (Rui and Tu, 2017)
 *		bsh_vt1				one value a thread at a time instead of eight (there, 3.2.1)
 *		bsh_hash			hashed instead of nested loops
 *		bsh_hash_count		hashed, two probes; bsh_hash_block chunks of blocks; bsh_hash_warp buffers of warps
 *		bsh_hash_exact		hashed, two probes, by groups of partitions that fill a limited buffer
 *		bsh_hash_est		hashed, groups of partitions by an estimate of their pairs; groups that did not fit
 *							are resumed (Paul et al., IV.B.2); bsh_hash_worst by their worst case
 *		bsh_queue			blocks cut large partitions when they meet them, instead of the redistribution by sizes
 *		bsh_whole			partitions are never cut: skew is not handled
 *		prbc				bucket chains, hashed, buffers of warps (Sioulas et al., 2019): buckets of 1024 rows behind the last
 *							pass, of a whole tile between two
 *		prbc_256, prbc_2048	with other sizes of buckets behind the last pass
 *		prbc_nested			nested loops with ballots
 *		prbc_device			hash tables in device memory
 *		prbc_wide			by blocks of 1024 threads, and four probe rows of a thread at a time: ours
 *		umj, umj_pf			prbc with its sides in managed memory, moved by page faults or by prefetches (Paul et al.)
 *
 * If partitions exceed a unit's build rows (duplicates), their build rows are joined in chunks, as block nested
 * loops (Sioulas et al., V.E).  That is right for inner joins only; in the other modes build() refuses, as it
 * does if a queue would have to hold chunks.
 */
#include <stdlib.h>
#include <string.h>

#include "lab/hjg_cuda_paper.h"

#define LEAST_PROBE_LIMIT 8192
#define MOST_CHUNKS 1024		/* of a partition's build rows */
#define BETWEEN_BITS 12			/* of the buckets of chains between two passes, or a tile's if it has fewer */
#define WHOLE 0x7FFFFFFFu		/* probe limit of units that are not cut */
#define MOST_FAULT_BYTES ((hjg_u64) 1 << 30)	/* that one launch fetches page by page, some 13 a
												 * nanosecond */

typedef enum Partitioner
{
	BY_PTH = HJG_CUDA_OF_THREAD,
	BY_WSH = HJG_CUDA_OF_WARP,
	BY_BSH = HJG_CUDA_OF_BLOCK,
	BY_BSH_VT1 = HJG_CUDA_OF_BLOCK_VT1,
	BY_CHAINS
} Partitioner;

typedef struct Design
{
	Partitioner partitioner;
	int			bucket_bits;	/* of chains, behind the last pass */
	bool		full_blocks;
	HjgCudaMethod method;
	bool		queue;
	bool		whole;			/* partitions are not cut */
	HjgCudaPutting putting;
	size_t		most_bytes;		/* of build keys; 0: any */
} Design;

typedef struct DesignPlan
{
	int			bits;
	hjg_u32		build_limit;
} DesignPlan;

typedef struct DesignTable
{
	const Design *design;
	DesignPlan		plan;
	int			key_width;
	HjgMatchMode mode;
	HjgCudaParted build;
} DesignTable;

/* ---- the plan ---- */

static bool
plan_design(const Design *design, const HjgCudaDevice *device, const HjgCudaShape *shape, DesignPlan *plan)
{
	hjg_u64		part_rows;

	if (!hjg_lab_paper_suits(shape) ||
		(design->most_bytes != 0 && shape->build_rows * (hjg_u64) shape->key_width > design->most_bytes))
		return false;
	plan->build_limit = hjg_lab_match_limit(device, shape->key_width, design->method);
	if (hjg_cuda_paper_tuning.part_rows != 0 && hjg_cuda_paper_tuning.part_rows * 3 / 2 < plan->build_limit)
		plan->build_limit = (hjg_cuda_paper_tuning.part_rows * 3 / 2 + 15) / 16 * 16;
	part_rows = plan->build_limit / 3 * 2;
	plan->bits = 1;
	while (plan->bits < HJG_CUDA_MOST_PART_BITS && shape->build_rows >> plan->bits > part_rows)
		plan->bits++;
	if (hjg_cuda_paper_tuning.bits != 0)
		plan->bits = (int) (hjg_cuda_paper_tuning.bits < HJG_CUDA_MOST_PART_BITS ? hjg_cuda_paper_tuning.bits : HJG_CUDA_MOST_PART_BITS);
	return plan->build_limit > 0;
}

static hjg_u32
design_probe_limit(const Design *design, const DesignPlan *plan, hjg_u64 probe_rows)
{
	const hjg_u64 average = probe_rows >> plan->bits;

	return design->queue || design->whole ? WHOLE : (hjg_u32) (2 * (average > LEAST_PROBE_LIMIT ? average : LEAST_PROBE_LIMIT));
}

/*
 * Count the units without duplicates; duplicates need more units only where their pairs need more device
 * memory.
 */
static hjg_u64
make_units(const DesignPlan *plan, const HjgCudaShape *shape)
{
	return 2 * ((hjg_u64) 1 << plan->bits) + shape->probe_rows / LEAST_PROBE_LIMIT + shape->build_rows / plan->build_limit;
}

static int
chain_bucket_bits(const Design *design)
{
	return hjg_cuda_paper_tuning.bucket_bits != 0 ? (int) hjg_cuda_paper_tuning.bucket_bits : design->bucket_bits;
}

static int
chain_between_bits(void)
{
	return hjg_cuda_paper_tuning.between_bits != 0 ? (int) hjg_cuda_paper_tuning.between_bits : BETWEEN_BITS;
}

static HjgCudaMethod
match_method(const Design *design)
{
	return hjg_cuda_paper_tuning.vt == 4 && design->method == HJG_CUDA_HASHED ? HJG_CUDA_HASHED_VT4 : design->method;
}

static size_t
side_bytes(const Design *design, const HjgCudaDevice *device, const DesignPlan *plan, int key_width, hjg_u64 nrows)
{
	return hjg_lab_parted_bytes(plan->bits) +
		(design->partitioner == BY_CHAINS ?
		 hjg_lab_chain_bytes(key_width, nrows, plan->bits, chain_bucket_bits(design), chain_between_bits()) :
		 hjg_lab_histogram_bytes(device, (HjgCudaSharing) design->partitioner, key_width, nrows, plan->bits));
}

static hjg_u64
side_traffic(const Design *design, const HjgCudaDevice *device, const DesignPlan *plan, int key_width, hjg_u64 nrows)
{
	/* and the join reads every row once */
	return nrows * (hjg_u64) (key_width + 4) +
		(design->partitioner == BY_CHAINS ? hjg_lab_chain_traffic(key_width, nrows, plan->bits) :
		 hjg_lab_histogram_traffic(device, (HjgCudaSharing) design->partitioner, key_width, nrows, plan->bits));
}

static size_t
design_bytes(const Design *design, const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	DesignPlan		plan;

	if (!plan_design(design, device, shape, &plan))
		return 0;
	return side_bytes(design, device, &plan, shape->key_width, shape->build_rows) +
		side_bytes(design, device, &plan, shape->key_width, shape->probe_rows) +
		hjg_lab_match_bytes(device, match_method(design), design->putting, design->queue, shape->probe_rows, make_units(&plan, shape));
}

static hjg_u64
design_traffic(const Design *design, const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	DesignPlan		plan;

	if (!plan_design(design, device, shape, &plan))
		return 0;
	return side_traffic(design, device, &plan, shape->key_width, shape->build_rows) +
		side_traffic(design, device, &plan, shape->key_width, shape->probe_rows) +
		(design->putting == HJG_CUDA_PUT_TWICE || design->putting == HJG_CUDA_PUT_EXACT ? shape->probe_rows * (hjg_u64) (shape->key_width + 4) : 0);
}

/* ---- build and probe ---- */

static HjgStatus
partition_side(HjgCudaStream *stream, const Design *design, const DesignPlan *plan, int key_width, const HjgCudaSide *side,
			   HjgCudaParted *parted, HjgKUnits *units)
{
	HjgStatus	status = hjg_cuda_mark(stream, HJG_CUDA_PARTITION);

	memset(parted, 0, sizeof(*parted));
	if (status == HJG_OK)
		status = hjg_lab_parted_begin(stream, side->nrows, plan->bits, parted);
	if (status != HJG_OK)
		return status;
	if (design->partitioner != BY_CHAINS)
		return hjg_lab_histogram_partition(stream, (HjgCudaSharing) design->partitioner, key_width, side, parted, units);
	parted->bucket_bits = chain_bucket_bits(design);
	parted->between_bits = chain_between_bits();
	parted->full_blocks = design->full_blocks || hjg_cuda_paper_tuning.full_blocks != 0;
	return hjg_lab_chain_partition(stream, key_width, side, parted, units);
}

static void
design_free(HjgCudaStream *stream, void *join)
{
	DesignTable	   *table = join;

	hjg_lab_parted_free(stream, &table->build);
	free(table);
}

static HjgStatus
design_build(const Design *design, HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, void **result)
{
	DesignTable	   *table = calloc(1, sizeof(DesignTable));
	HjgStatus	status;

	if (table == NULL)
		return HJG_ERR_MEMORY;
	table->design = design;
	table->key_width = shape->key_width;
	table->mode = shape->mode;
	if (!plan_design(design, stream->device, shape, &table->plan))
	{
		free(table);
		return HJG_ERR_INPUT;
	}
	status = partition_side(stream, design, &table->plan, shape->key_width, build, &table->build, NULL);
	if (status != HJG_OK)
	{
		design_free(stream, table);
		return status;
	}
	*result = table;
	return HJG_OK;
}

static hjg_u64
most_rows(const DesignTable *table)
{
	return (table->design->queue || table->mode != HJG_MATCH_ALL ? 1 : MOST_CHUNKS) * (hjg_u64) table->plan.build_limit;
}

static HjgStatus
design_verify(HjgCudaStream *stream, void *join)
{
	const DesignTable *table = join;
	hjg_u32		largest = 0;
	HjgStatus	status = hjg_cuda_copy_out(stream, &largest, table->build.largest, sizeof(largest));

	if (status == HJG_OK)
		status = hjg_cuda_wait(stream);
	return status == HJG_OK && largest > most_rows(table) ? HJG_ERR_INPUT : status;
}

static HjgStatus
design_probe(HjgCudaStream *stream, void *join, const HjgCudaSide *probe, const HjgCudaOutput *output)
{
	const DesignTable *table = join;
	HjgCudaParted parted;
	HjgCudaMatch match = {
		.key_width = table->key_width, .mode = table->mode, .method = match_method(table->design), .queue = table->design->queue,
		.putting = table->design->putting, .build_limit = table->plan.build_limit, .most_rows = most_rows(table),
		.build = &table->build, .probe = &parted,
		.units = {
			.build = table->build.parts, .build_limit = table->plan.build_limit,
			.probe_limit = design_probe_limit(table->design, &table->plan, probe->nrows),
			.lonely = table->mode == HJG_MATCH_LEFT || table->mode == HJG_MATCH_ANTI
		}
	};
	HjgStatus	status;

	if (probe->nrows == 0)
		return HJG_OK;
	status = partition_side(stream, table->design, &table->plan, table->key_width, probe, &parted, &match.units);
	if (status == HJG_OK)
		status = hjg_cuda_mark(stream, HJG_CUDA_PROBE);
	if (status == HJG_OK)
		status = hjg_lab_match(stream, &match, output);
	hjg_lab_parted_free(stream, &parted);
	return status;
}

/* ---- the strategies ---- */

#define DESIGN(VARIABLE, ...) \
static const Design VARIABLE##_design = {__VA_ARGS__}; \
static bool \
VARIABLE##_suits(const HjgCudaDevice *device, const HjgCudaShape *shape) \
{ \
	DesignPlan		plan; \
	return plan_design(&VARIABLE##_design, device, shape, &plan); \
} \
static size_t \
VARIABLE##_bytes(const HjgCudaDevice *device, const HjgCudaShape *shape) \
{ \
	return design_bytes(&VARIABLE##_design, device, shape); \
} \
hjg_u64 \
hjg_lab_traffic_##VARIABLE(const HjgCudaDevice *device, const HjgCudaShape *shape) \
{ \
	return design_traffic(&VARIABLE##_design, device, shape); \
} \
static HjgStatus \
VARIABLE##_build(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, void **table) \
{ \
	return design_build(&VARIABLE##_design, stream, shape, build, table); \
} \
const HjgCudaStrategy hjg_cuda_##VARIABLE = { \
	.name = #VARIABLE, \
	.suits = VARIABLE##_suits, \
	.bytes = VARIABLE##_bytes, \
	.build = VARIABLE##_build, \
	.verify = design_verify, \
	.probe = design_probe, \
	.free = design_free, \
}

DESIGN(pth, .partitioner = BY_PTH, .putting = HJG_CUDA_PUT_PAGE);
DESIGN(wsh, .partitioner = BY_WSH, .putting = HJG_CUDA_PUT_PAGE);
DESIGN(bsh, .partitioner = BY_BSH, .putting = HJG_CUDA_PUT_PAGE);
DESIGN(bsh_vt1, .partitioner = BY_BSH_VT1, .putting = HJG_CUDA_PUT_PAGE);
DESIGN(bsh_hash, .partitioner = BY_BSH, .method = HJG_CUDA_HASHED, .putting = HJG_CUDA_PUT_PAGE);
DESIGN(bsh_hash_count, .partitioner = BY_BSH, .method = HJG_CUDA_HASHED, .putting = HJG_CUDA_PUT_TWICE);
DESIGN(bsh_hash_block, .partitioner = BY_BSH, .method = HJG_CUDA_HASHED, .putting = HJG_CUDA_PUT_BLOCK);
DESIGN(bsh_hash_warp, .partitioner = BY_BSH, .method = HJG_CUDA_HASHED, .putting = HJG_CUDA_PUT_WARP);
DESIGN(bsh_hash_est, .partitioner = BY_BSH, .method = HJG_CUDA_HASHED, .putting = HJG_CUDA_PUT_GROUPS);
DESIGN(bsh_hash_worst, .partitioner = BY_BSH, .method = HJG_CUDA_HASHED, .putting = HJG_CUDA_PUT_WORST);
DESIGN(bsh_hash_exact, .partitioner = BY_BSH, .method = HJG_CUDA_HASHED, .putting = HJG_CUDA_PUT_EXACT);
DESIGN(bsh_whole, .partitioner = BY_BSH, .whole = true, .putting = HJG_CUDA_PUT_PAGE);
DESIGN(bsh_queue, .partitioner = BY_BSH, .queue = true, .putting = HJG_CUDA_PUT_PAGE);
DESIGN(prbc, .partitioner = BY_CHAINS, .bucket_bits = 10, .method = HJG_CUDA_HASHED, .putting = HJG_CUDA_PUT_WARP);
DESIGN(prbc_256, .partitioner = BY_CHAINS, .bucket_bits = 8, .method = HJG_CUDA_HASHED, .putting = HJG_CUDA_PUT_WARP);
DESIGN(prbc_2048, .partitioner = BY_CHAINS, .bucket_bits = 11, .method = HJG_CUDA_HASHED, .putting = HJG_CUDA_PUT_WARP);
DESIGN(prbc_nested, .partitioner = BY_CHAINS, .bucket_bits = 10, .putting = HJG_CUDA_PUT_WARP);
DESIGN(prbc_device, .partitioner = BY_CHAINS, .bucket_bits = 10, .method = HJG_CUDA_HASHED_DEVICE, .putting = HJG_CUDA_PUT_WARP);
DESIGN(prbc_wide, .partitioner = BY_CHAINS, .bucket_bits = 10, .full_blocks = true,
	   .method = HJG_CUDA_HASHED_VT4, .putting = HJG_CUDA_PUT_WARP);
DESIGN(umj, .partitioner = BY_CHAINS, .bucket_bits = 10, .method = HJG_CUDA_HASHED, .putting = HJG_CUDA_PUT_WARP,
	   .most_bytes = MOST_FAULT_BYTES);
DESIGN(umj_pf, .partitioner = BY_CHAINS, .bucket_bits = 10, .method = HJG_CUDA_HASHED, .putting = HJG_CUDA_PUT_WARP);

bool
hjg_lab_takes_pieces(const HjgCudaStrategy *strategy)
{
	const HjgCudaStrategy *const all[] = {
		&hjg_cuda_prbc, &hjg_cuda_prbc_256, &hjg_cuda_prbc_2048, &hjg_cuda_prbc_nested, &hjg_cuda_prbc_device, &hjg_cuda_prbc_wide,
		&hjg_cuda_umj, &hjg_cuda_umj_pf
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i] == strategy)
			return true;
	return false;
}
