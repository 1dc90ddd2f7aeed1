/*
 * device_cuda_table.c
 *	  Resident joins without partitions (cuda_table.cu): "table", open addressing, for build sides whose
 *	  table stays in the L2 cache; "direct", an array by key for dense keys.
 *
 * Both take build sides without repeated keys.  Filling notices a repeated key, and build() then refuses,
 * unless the mode is SEMI or ANTI, where it does not matter.  "table" also refuses keys that were chosen
 * to collide.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda.h"
#include "layout/hjg_cuda_args.h"

#define IMAGE "cuda_table"
#define THREADS 256
#define DENSE_FACTOR 4			/* most slots a row for a range of dense keys */
#define DENSE_EXTRA 1024

#define WIDTHS 3
#define KERNEL(kernel_name) {.image = IMAGE, .name = kernel_name}

static HjgCudaKernel fill_table[WIDTHS] = {
	KERNEL("hjg_k_fill_table_4"), KERNEL("hjg_k_fill_table_8"), KERNEL("hjg_k_fill_table_16"),
};
static HjgCudaKernel probe_table[WIDTHS][HJG_CUDA_KINDS] = {
	HJG_CUDA_KERNELS_BY_KIND(IMAGE, "hjg_k_probe_table_4"),
	HJG_CUDA_KERNELS_BY_KIND(IMAGE, "hjg_k_probe_table_8"),
	HJG_CUDA_KERNELS_BY_KIND(IMAGE, "hjg_k_probe_table_16"),
};
static HjgCudaKernel find_range[] = {KERNEL("hjg_k_find_range_4"), KERNEL("hjg_k_find_range_8")};
static HjgCudaKernel fill_direct[] = {KERNEL("hjg_k_fill_direct_4"), KERNEL("hjg_k_fill_direct_8")};
static HjgCudaKernel probe_direct[][HJG_CUDA_KINDS] = {
	HJG_CUDA_KERNELS_BY_KIND(IMAGE, "hjg_k_probe_direct_4"),
	HJG_CUDA_KERNELS_BY_KIND(IMAGE, "hjg_k_probe_direct_8"),
};

typedef struct SlotTable
{
	HjgCudaPtr	slots;
	HjgCudaPtr	small;			/* facts that kernels find */
	HjgMatchMode mode;
	int			width_ix;
	HjgCudaSide build;
	hjg_u32		nsectors;		/* table */
	hjg_u64		least;			/* direct */
	hjg_u64		nslots;
} SlotTable;

/* Facts in the block small. */
typedef struct Facts
{
	hjg_u64		least;
	hjg_u64		greatest;
	hjg_u32		flags;
	hjg_u32		pad;
} Facts;

static bool
small_enough(const HjgCudaShape *shape)
{
	return shape->build_rows > 0 && shape->build_rows <= HJG_K_MAX_ROWS && shape->probe_rows <= HJG_K_MAX_ROWS &&
		!shape->wide_rows;
}

static int
width_ix_of(int width)
{
	return width == HJG_KEY_WIDTH_4 ? 0 : width == HJG_KEY_WIDTH_8 ? 1 : 2;
}

static HjgKSide
kernel_side(const HjgCudaSide *side)
{
	return (HjgKSide) {.keys = side->keys, .rows = side->rows, .nrows = (hjg_u32) side->nrows};
}

static HjgKOutput
kernel_output(const HjgCudaOutput *output)
{
	return (HjgKOutput) {
		.counters = output->counters, .pairs = output->pairs, .keys = output->keys,
		.build_rows = output->build_rows, .probe_rows = output->probe_rows, .capacity = output->capacity
	};
}

/* Launch as many blocks as fit the device, or fewer for few rows. */
static HjgStatus
launch_rows(HjgCudaStream *stream, HjgCudaKernel *kernel, hjg_u64 nrows, void *args)
{
	int			blocks;
	HjgStatus	status = hjg_cuda_occupancy(stream, kernel, THREADS, 0, &blocks);
	hjg_u64		all = (hjg_u64) blocks * (hjg_u64) stream->device->multiprocessors;
	hjg_u64		wanted = (nrows + THREADS - 1) / THREADS;

	if (status != HJG_OK)
		return status;
	return hjg_cuda_launch(stream, kernel, (unsigned) (wanted < all ? wanted : all), THREADS, 0, (void *[]) {args});
}

static HjgStatus
fill_words(HjgCudaStream *stream, HjgCudaPtr ptr, hjg_u64 nwords)
{
	stream->busy = true;
	return hjg_cuda_check(stream, hjg_cuda.set_words(ptr, HJG_NO_ROW, nwords, stream->handle), "empty slots");
}

static HjgStatus
read_facts(HjgCudaStream *stream, const SlotTable *table, Facts *facts)
{
	HjgStatus	status = hjg_cuda_copy_out(stream, facts, table->small, sizeof(*facts));

	return status == HJG_OK ? hjg_cuda_wait(stream) : status;
}

static void
free_table(HjgCudaStream *stream, void *join)
{
	SlotTable	   *table = join;

	hjg_cuda_free(stream, table->slots);
	hjg_cuda_free(stream, table->small);
	free(table);
}

static HjgStatus
begin_table(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, SlotTable **result)
{
	SlotTable	   *table = calloc(1, sizeof(SlotTable));
	HjgStatus	status;

	if (table == NULL)
		return HJG_ERR_MEMORY;
	table->mode = shape->mode;
	table->width_ix = width_ix_of(shape->key_width);
	table->build = *build;
	status = hjg_cuda_alloc(stream, sizeof(Facts), &table->small);
	if (status == HJG_OK)
		status = hjg_cuda_zero(stream, table->small, sizeof(Facts));
	if (status == HJG_OK)
		status = hjg_cuda_mark(stream, HJG_CUDA_BUILD);
	if (status != HJG_OK)
	{
		free_table(stream, table);
		return status;
	}
	*result = table;
	return HJG_OK;
}

/* Keep a table that has every key once and with room; free any other. */
static HjgStatus
end_table(HjgCudaStream *stream, SlotTable *table, HjgStatus status, void **result)
{
	Facts		facts;

	if (status == HJG_OK)
		status = read_facts(stream, table, &facts);
	if (status == HJG_OK && (facts.flags & HJG_K_UNSUITED(table->mode)) != 0)
		status = HJG_ERR_INPUT;
	if (status != HJG_OK)
	{
		free_table(stream, table);
		return status;
	}
	*result = table;
	return HJG_OK;
}

/* ---- table ---- */

static hjg_u64
nsectors_of(hjg_u64 nrows)
{
	return HJG_K_SECTORS(nrows, HJG_K_TABLE_SLOTS, HJG_K_TABLE_PERCENT);
}

static size_t
table_bytes(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return hjg_cuda_block_bytes(nsectors_of(shape->build_rows) * HJG_K_SECTOR_BYTES) + hjg_cuda_block_bytes(sizeof(Facts));
}

static bool
table_suits(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return small_enough(shape);
}

static HjgStatus
table_build(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, void **result)
{
	const hjg_u64 nsectors = nsectors_of(build->nrows);
	SlotTable	   *table;
	HjgStatus	status = begin_table(stream, shape, build, &table);

	if (status != HJG_OK)
		return status;
	table->nsectors = (hjg_u32) nsectors;
	status = hjg_cuda_alloc(stream, nsectors * HJG_K_SECTOR_BYTES, &table->slots);
	if (status == HJG_OK)
		status = fill_words(stream, table->slots, nsectors * HJG_K_SECTOR_BYTES / sizeof(hjg_u32));
	if (status == HJG_OK)
	{
		HjgKTable	args = {
			.build = kernel_side(build), .slots = table->slots, .flags = table->small + offsetof(Facts, flags),
			.nsectors = table->nsectors
		};

		status = launch_rows(stream, &fill_table[table->width_ix], build->nrows, &args);
	}
	return end_table(stream, table, status, result);
}

static HjgStatus
table_probe(HjgCudaStream *stream, void *join, const HjgCudaSide *probe, const HjgCudaOutput *output)
{
	const SlotTable *table = join;
	HjgCudaKernel *kernel = &probe_table[table->width_ix][hjg_cuda_kind(output)];
	HjgKTable	args = {
		.build = kernel_side(&table->build), .probe = kernel_side(probe), .slots = table->slots,
		.output = kernel_output(output), .nsectors = table->nsectors, .mode = table->mode
	};
	HjgStatus	status = hjg_cuda_mark(stream, HJG_CUDA_PROBE);

	return status == HJG_OK ? launch_rows(stream, kernel, probe->nrows, &args) : status;
}

HJG_CUDA_STRATEGY(table,
	.unique = (HJG_CUDA_TABLE_NEEDS & HJG_NEEDS_UNIQUE) != 0,
	.shared = true,
	.suits = table_suits,
	.bytes = table_bytes,
	.build = table_build,
	.probe = table_probe,
	.free = free_table
);

/* ---- direct ---- */

static hjg_u64
most_slots(hjg_u64 nrows)
{
	return nrows * DENSE_FACTOR + DENSE_EXTRA;
}

static size_t
direct_bytes(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return hjg_cuda_block_bytes(most_slots(shape->build_rows) * sizeof(hjg_u32)) + hjg_cuda_block_bytes(sizeof(Facts));
}

static bool
direct_suits(const HjgCudaDevice *device, const HjgCudaShape *shape)
{
	return small_enough(shape) && shape->key_width <= HJG_KEY_WIDTH_8;
}

static HjgStatus
direct_build(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, void **result)
{
	SlotTable	   *table;
	Facts		facts = {.least = ~0ull};
	HjgKDirect	args = {.build = kernel_side(build)};
	HjgStatus	status = begin_table(stream, shape, build, &table);

	if (status != HJG_OK)
		return status;
	args.range = table->small;
	args.flags = table->small + offsetof(Facts, flags);
	status = hjg_cuda_copy_in(stream, table->small, &facts, sizeof(facts));
	if (status == HJG_OK)
		status = launch_rows(stream, &find_range[table->width_ix], build->nrows, &args);
	if (status == HJG_OK)
		status = read_facts(stream, table, &facts);
	if (status == HJG_OK && facts.greatest - facts.least >= most_slots(build->nrows))
		status = HJG_ERR_INPUT;
	if (status == HJG_OK)
	{
		table->least = args.least = facts.least;
		table->nslots = args.nslots = facts.greatest - facts.least + 1;
		status = hjg_cuda_alloc(stream, table->nslots * sizeof(hjg_u32), &table->slots);
	}
	if (status == HJG_OK)
		status = fill_words(stream, table->slots, table->nslots);
	args.slots = table->slots;
	if (status == HJG_OK)
		status = launch_rows(stream, &fill_direct[table->width_ix], build->nrows, &args);
	return end_table(stream, table, status, result);
}

static HjgStatus
direct_probe(HjgCudaStream *stream, void *join, const HjgCudaSide *probe, const HjgCudaOutput *output)
{
	const SlotTable *table = join;
	HjgKDirect	args = {
		.probe = kernel_side(probe), .slots = table->slots, .output = kernel_output(output),
		.least = table->least, .nslots = table->nslots, .mode = table->mode
	};
	HjgStatus	status = hjg_cuda_mark(stream, HJG_CUDA_PROBE);

	if (status != HJG_OK)
		return status;
	return launch_rows(stream, &probe_direct[table->width_ix][hjg_cuda_kind(output)], probe->nrows, &args);
}

HJG_CUDA_STRATEGY(direct,
	.unique = (HJG_CUDA_DIRECT_NEEDS & HJG_NEEDS_UNIQUE) != 0,
	.shared = true,
	.suits = direct_suits,
	.bytes = direct_bytes,
	.build = direct_build,
	.probe = direct_probe,
	.free = free_table
);
