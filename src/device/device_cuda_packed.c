/*
 * device_cuda_packed.c
 *	  Resident join "packed": a table of 36-bit slots in the L2 cache, for 4-byte keys (cuda_packed.cu).
 *
 * It takes build sides without repeated keys, as "table" does, whose row numbers are not far above the
 * number of rows.  Rows that hash so unevenly that a region overflows do not suit either.
 */
#include <stdlib.h>

#include "device/hjg_cuda.h"
#include "layout/hjg_cuda_args.h"

#define IMAGE "cuda_packed"
#define PROBE_THREADS 256
#define SLOT_BITS 36

/* Spare sectors besides the share of HJG_K_PACKED_SPARE_SHARE. */
#define SPARE_EXTRA 8

/* Room of a region above the average rows: some seven standard deviations. */
#define ROWS_SHARE 16
#define ROWS_EXTRA 128

#define BLOCKS_A_PROCESSOR 2	/* of the kernel that fills the table */
#define STATIC_SHARED 2048		/* more than the kernel's own and the reserved bytes */

static HjgCudaKernel spread_rows = {.image = IMAGE, .name = "hjg_k_spread_packed_4"};
static HjgCudaKernel fill_regions = {.image = IMAGE, .name = "hjg_k_fill_packed_4"};
static HjgCudaKernel probe_rows[HJG_CUDA_KINDS] = HJG_CUDA_KERNELS_BY_KIND(IMAGE, "hjg_k_probe_packed_4");

/* Offset of the cursors in the block of flags and cursors. */
#define CURSORS_OFF 64

typedef struct PackedTable
{
	HjgCudaPtr	small;
	HjgKPacked	args;			/* as the kernels get them, without the probe side and the output */
} PackedTable;

/* ---- sizes ---- */

static unsigned
fill_shared(const HjgKPacked *plan)
{
	return HJG_K_SECTOR_BYTES * (plan->region_sectors + 2 * plan->spare_sectors) + 4 * ((plan->region_sectors + 1) / 2);
}

/* Plan the regions; false when they are too many. */
static bool
plan_packed_table(const HjgCudaDevice *device, hjg_u64 nrows, HjgKPacked *plan)
{
	const size_t most_shared = device->shared_bytes / BLOCKS_A_PROCESSOR - STATIC_SHARED;
	const hjg_u64 wave = BLOCKS_A_PROCESSOR * (hjg_u64) device->multiprocessors;
	hjg_u64		nsectors = HJG_K_SECTORS(nrows, HJG_K_PACKED_SLOTS, HJG_K_PACKED_PERCENT);
	hjg_u64		nregions = 0;

	if (nsectors < HJG_K_PACKED_LEAST)
		nsectors = HJG_K_PACKED_LEAST;
	do
	{
		nregions += wave;
		if (nregions > HJG_K_PACKED_REGIONS)
			return false;
		*plan = (HjgKPacked) {
			.nregions = (hjg_u32) nregions, .region_sectors = (hjg_u32) ((nsectors + nregions - 1) / nregions),
			.region_rows = (hjg_u32) (nrows / nregions + nrows / nregions / ROWS_SHARE + ROWS_EXTRA)
		};
		plan->spare_sectors = plan->region_sectors / HJG_K_PACKED_SPARE_SHARE + SPARE_EXTRA;
	} while (fill_shared(plan) > most_shared);
	plan->reach = 0xFFFFFFFFu / (plan->nregions * plan->region_sectors) + 1;
	plan->row_bits = SLOT_BITS;
	while ((1ull << (SLOT_BITS - plan->row_bits)) - 1 < plan->reach)
		plan->row_bits--;
	return true;
}

static size_t
sectors_bytes(const HjgKPacked *plan)
{
	return (size_t) plan->nregions * (plan->region_sectors + plan->spare_sectors) * HJG_K_SECTOR_BYTES;
}

static size_t
spread_bytes(const HjgKPacked *plan)
{
	return (size_t) plan->nregions * plan->region_rows * 2 * sizeof(hjg_u32);
}

static size_t
small_bytes(const HjgKPacked *plan)
{
	return CURSORS_OFF + plan->nregions * sizeof(hjg_u32);
}

static bool
packed_suits(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	HjgKPacked	plan;

	return shape->key_width == HJG_KEY_WIDTH_4 && !shape->wide_rows && shape->build_rows > 0 &&
		shape->build_rows <= HJG_K_MAX_ROWS && shape->probe_rows <= HJG_K_MAX_ROWS &&
		plan_packed_table(device, shape->build_rows, &plan);
}

static size_t
packed_bytes(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	HjgKPacked	plan;

	if (!plan_packed_table(device, shape->build_rows, &plan))
		return 0;
	return hjg_cuda_block_bytes(sectors_bytes(&plan)) + hjg_cuda_block_bytes(spread_bytes(&plan)) +
		hjg_cuda_block_bytes(small_bytes(&plan));
}

/* ---- the join ---- */

static void
packed_free(HjgCudaStream *stream, void *join)
{
	PackedTable	   *table = join;

	hjg_cuda_free(stream, table->args.sectors);
	hjg_cuda_free(stream, table->small);
	free(table);
}

static HjgStatus
queue_build(HjgCudaStream *stream, PackedTable *table)
{
	HjgKPacked *args = &table->args;
	const unsigned ntiles = (args->build.nrows + HJG_K_PACKED_TILE - 1) / HJG_K_PACKED_TILE;
	HjgStatus	status = hjg_cuda_alloc(stream, small_bytes(args), &table->small);

	args->flags = table->small;
	args->cursors = table->small + CURSORS_OFF;
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, sectors_bytes(args), &args->sectors);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, spread_bytes(args), &args->spread);
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, table->small, small_bytes(args));
	if (status == HJG_OK)
		status = hjg_cuda_mark(stream, HJG_CUDA_BUILD);
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &spread_rows, ntiles, HJG_K_SPREAD_THREADS, HJG_K_PACKED_TILE * 2 * sizeof(hjg_u32),
								 (void *[]) {args});
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &fill_regions, args->nregions, HJG_K_FILL_THREADS, fill_shared(args), (void *[]) {args});
	hjg_cuda_free(stream, args->spread);
	args->spread = 0;
	return status;
}

static HjgStatus
packed_build(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, void **result)
{
	PackedTable	   *table = calloc(1, sizeof(PackedTable));
	HjgStatus	status;

	if (table == NULL)
		return HJG_ERR_MEMORY;
	if (!plan_packed_table(stream->device, build->nrows, &table->args))
	{
		free(table);
		return HJG_ERR_INPUT;
	}
	table->args.build = (HjgKSide) {.keys = build->keys, .rows = build->rows, .nrows = (hjg_u32) build->nrows};
	table->args.mode = shape->mode;
	table->args.unsuited = HJG_K_UNSUITED(shape->mode);
	status = queue_build(stream, table);
	if (status != HJG_OK)
		packed_free(stream, table);
	else
		*result = table;
	return status;
}

static HjgStatus
packed_verify(HjgCudaStream *stream, void *join)
{
	const PackedTable *table = join;
	hjg_u32		flags;
	HjgStatus	status = hjg_cuda_copy_out(stream, &flags, table->args.flags, sizeof(flags));

	if (status == HJG_OK)
		status = hjg_cuda_wait(stream);
	return status == HJG_OK && (flags & table->args.unsuited) != 0 ? HJG_ERR_INPUT : status;
}

/* Probe with as many blocks as fit the device, or fewer for few rows. */
static HjgStatus
packed_probe(HjgCudaStream *stream, void *join, const HjgCudaSide *probe, const HjgCudaOutput *output)
{
	HjgKPacked	args = ((PackedTable *) join)->args;
	HjgCudaKernel *kernel = &probe_rows[hjg_cuda_kind(output)];
	const hjg_u64 wanted = (probe->nrows + PROBE_THREADS - 1) / PROBE_THREADS;
	hjg_u64		all;
	int			blocks;
	HjgStatus	status = hjg_cuda_mark(stream, HJG_CUDA_PROBE);

	args.probe = (HjgKSide) {.keys = probe->keys, .rows = probe->rows, .nrows = (hjg_u32) probe->nrows};
	args.output = (HjgKOutput) {
		.counters = output->counters, .pairs = output->pairs, .keys = output->keys,
		.build_rows = output->build_rows, .probe_rows = output->probe_rows, .capacity = output->capacity
	};
	if (status == HJG_OK)
		status = hjg_cuda_occupancy(stream, kernel, PROBE_THREADS, 0, &blocks);
	if (status != HJG_OK)
		return status;
	all = (hjg_u64) blocks * (hjg_u64) stream->device->multiprocessors;
	return hjg_cuda_launch(stream, kernel, (unsigned) (wanted < all ? wanted : all), PROBE_THREADS, 0, (void *[]) {&args});
}

HJG_CUDA_STRATEGY(packed,
	.unique = (HJG_CUDA_PACKED_NEEDS & HJG_NEEDS_UNIQUE) != 0,
	.shared = true,
	.suits = packed_suits,
	.bytes = packed_bytes,
	.build = packed_build,
	.verify = packed_verify,
	.probe = packed_probe,
	.free = packed_free
);
