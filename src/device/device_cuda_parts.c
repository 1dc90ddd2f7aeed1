/*
 * device_cuda_parts.c
 *	  Resident joins by radix partitions: one pass or two, then a join of each pair of
 *	  partitions in shared memory (cuda_partition.cu, cuda_copartition.cu).
 *
 * A plan follows from the exact number of build rows and the shared memory of the device: the
 * fewest partitions whose build rows fit a table of the join.  Partitions that skew or
 * duplicates make larger are joined in chunks, so any data is joined; only where the fate of a probe
 * row depends on all build rows of its key (every mode but ALL) the build rows of
 * each partition must fit one table, and build() says no where they do not.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda.h"
#include "layout/hjg_cuda_args.h"

#define PARTITION "cuda_partition"
#define COPARTITION "cuda_copartition"

#define COUNT_THREADS 1024
#define LIST_THREADS 1024
#define SCATTER_THREADS 512
#define ALIGNED_THREADS 1024
#define STATIC_SHARED 1024		/* more than any of the kernels has */
#define STAGE_BYTES 256			/* of a warp of the join */
#define MOST_TABLE_ROWS 65520	/* its positions have 16 bits, less one for "none" */
#define PLAIN_BITS 8			/* more partitions in one pass would tear sectors */
#define ALIGNED_LEAST_BITS 10
#define ALIGNED_MOST_BITS 12
#define ALIGNED_PAD (HJG_K_SECTOR_ROWS - 1)
#define COUNT_BLOCK_ROWS 8192	/* fewer rows are not worth a block */
#define LEAST_PROBE_LIMIT 8192
#define ENOUGH_BITS 10
#define ENOUGH_UNITS (1 << ENOUGH_BITS)
#define KEY_CLASSES 4			/* 4, 8, 16 bytes; 8 with wide rows */

#define KERNEL(image_name, kernel_name) {.image = image_name, .name = kernel_name}

static HjgCudaKernel count_keys[KEY_CLASSES] = {
	KERNEL(PARTITION, "hjg_k_count_keys_4"),
	KERNEL(PARTITION, "hjg_k_count_keys_8"),
	KERNEL(PARTITION, "hjg_k_count_keys_16"),
	KERNEL(PARTITION, "hjg_k_count_keys_8"),
};
static HjgCudaKernel scatter_rows[KEY_CLASSES] = {
	KERNEL(PARTITION, "hjg_k_scatter_rows_4"),
	KERNEL(PARTITION, "hjg_k_scatter_rows_8"),
	KERNEL(PARTITION, "hjg_k_scatter_rows_16"),
	KERNEL(PARTITION, "hjg_k_scatter_rows_8_8"),
};
static HjgCudaKernel scatter_again[KEY_CLASSES] = {
	KERNEL(PARTITION, "hjg_k_scatter_again_4"),
	KERNEL(PARTITION, "hjg_k_scatter_again_8"),
	KERNEL(PARTITION, "hjg_k_scatter_again_16"),
	KERNEL(PARTITION, "hjg_k_scatter_again_8_8"),
};
static HjgCudaKernel scatter_aligned[] = {
	KERNEL(PARTITION, "hjg_k_scatter_aligned_10"),
	KERNEL(PARTITION, "hjg_k_scatter_aligned_11"),
	KERNEL(PARTITION, "hjg_k_scatter_aligned_12"),
};
static HjgCudaKernel join_packed[HJG_CUDA_KINDS] = {
	KERNEL(COPARTITION, "hjg_k_join_packed_4_checksum"),
	KERNEL(COPARTITION, "hjg_k_join_packed_4_pairs"),
	KERNEL(COPARTITION, "hjg_k_join_packed_4_columns"),
};
static HjgCudaKernel join_parts[KEY_CLASSES][HJG_CUDA_KINDS] = {
	{
		KERNEL(COPARTITION, "hjg_k_join_parts_4_checksum"),
		KERNEL(COPARTITION, "hjg_k_join_parts_4_pairs"),
		KERNEL(COPARTITION, "hjg_k_join_parts_4_columns"),
	},
	{
		KERNEL(COPARTITION, "hjg_k_join_parts_8_checksum"),
		KERNEL(COPARTITION, "hjg_k_join_parts_8_pairs"),
	},
	{
		KERNEL(COPARTITION, "hjg_k_join_parts_16_checksum"),
		KERNEL(COPARTITION, "hjg_k_join_parts_16_pairs"),
	},
	{
		KERNEL(COPARTITION, "hjg_k_join_parts_8_8_checksum"),
		KERNEL(COPARTITION, "hjg_k_join_parts_8_8_pairs"),
		KERNEL(COPARTITION, "hjg_k_join_parts_8_8_columns"),
	},
};
static HjgCudaKernel place_parts = KERNEL(PARTITION, "hjg_k_place_parts");
static HjgCudaKernel list_tiles = KERNEL(PARTITION, "hjg_k_list_tiles");

static const hjg_u32 scatter_items[KEY_CLASSES] = {12, 12, 6, 8};
static const hjg_u32 aligned_items[] = {24, 20, 12};

/* ---- the plan ---- */

typedef struct Plan
{
	int			key_class;		/* index of the tables above */
	int			row_bytes;		/* key and row number */
	int			first_bits;		/* of the first pass */
	int			second_bits;	/* of the second pass, or 0 */
	bool		aligned;		/* the one pass is an aligned scatter */
	bool		packed;			/* the join keeps one byte of a key */
	hjg_u32		build_limit;	/* build rows of a table */
	unsigned	join_threads;
	unsigned	join_shared;
} Plan;

static int
bits_of(const Plan *plan)
{
	return plan->first_bits + plan->second_bits;
}

static bool
side_by_side(const Plan *plan)
{
	return plan->key_class == 0 || plan->key_class == 3;
}

/* Build rows that a partition may have on average: partitions of a hash differ little. */
static hjg_u64
average_limit(hjg_u32 build_limit)
{
	return build_limit - build_limit / 16;
}

/* The table of the join with packed keys: a whole multiprocessor for each block. */
static void
plan_packed(const HjgCudaDevice *device, Plan *plan)
{
	const size_t fixed = STATIC_SHARED + 1024 / 32 * STAGE_BYTES + (2u << 14) + 32;

	plan->packed = true;
	plan->join_threads = 1024;
	plan->build_limit = device->shared_bytes <= fixed ? 0 : (hjg_u32) ((device->shared_bytes - fixed) / 5 / 16 * 16);
	if (plan->build_limit > MOST_TABLE_ROWS)
		plan->build_limit = MOST_TABLE_ROWS;
	plan->join_shared = (unsigned) (fixed - STATIC_SHARED + plan->build_limit * 5);
}

/* The table with whole keys: two blocks a multiprocessor. */
static void
plan_whole(const HjgCudaDevice *device, Plan *plan)
{
	const size_t half = device->shared_bytes / 2 - STATIC_SHARED;
	const size_t fixed = 512 / 32 * STAGE_BYTES + (plan->key_class == 0 ? 2u << 13 : 2u << 12) + 16;

	plan->packed = false;
	plan->join_threads = 512;
	plan->build_limit = half <= fixed ? 0 : (hjg_u32) ((half - fixed) / (size_t) plan->row_bytes / 16 * 16);
	plan->join_shared = (unsigned) (fixed + plan->build_limit * (size_t) plan->row_bytes);
}

static int
least_bits(hjg_u64 build_rows, hjg_u32 build_limit)
{
	int			bits = 1;

	while (bits <= HJG_K_MAX_BITS && build_rows >> bits > average_limit(build_limit))
		bits++;
	return bits;
}

static size_t
aligned_shared(int bits)
{
	return 8 * ((size_t) ALIGNED_THREADS * aligned_items[bits - ALIGNED_LEAST_BITS] + ((size_t) ALIGNED_PAD << bits)) +
		((size_t) 8 << bits);
}

static size_t
scatter_shared(const Plan *plan, int bits)
{
	return (size_t) plan->row_bytes * SCATTER_THREADS * scatter_items[plan->key_class] + ((size_t) 6 << bits);
}

/* False where the device or the sizes do not allow it in so many passes. */
static bool
make_plan(const HjgCudaDevice *device, const HjgCudaShape *shape, int npasses, Plan *plan)
{
	int			bits;

	memset(plan, 0, sizeof(*plan));
	if (shape->build_rows > HJG_K_MAX_ROWS || shape->probe_rows > HJG_K_MAX_ROWS || shape->build_rows == 0 ||
		(shape->wide_rows && shape->key_width != HJG_KEY_WIDTH_8))
		return false;
	plan->key_class = shape->wide_rows ? 3 : shape->key_width == HJG_KEY_WIDTH_4 ? 0 :
		shape->key_width == HJG_KEY_WIDTH_8 ? 1 : 2;
	plan->row_bytes = shape->key_width + (shape->wide_rows ? 8 : 4);
	plan_whole(device, plan);
	if (plan->build_limit == 0 || scatter_shared(plan, PLAIN_BITS) + STATIC_SHARED > device->shared_bytes ||
		((size_t) 4 << HJG_K_MAX_BITS) + STATIC_SHARED > device->shared_bytes)
		return false;
	bits = least_bits(shape->build_rows, plan->build_limit);
	if (npasses == 1 && bits <= PLAIN_BITS)
	{
		plan->first_bits = bits;
		return true;
	}
	if (plan->key_class == 0)
	{
		plan_packed(device, plan);
		bits = least_bits(shape->build_rows, plan->build_limit);
		if (bits < ALIGNED_LEAST_BITS)
			bits = ALIGNED_LEAST_BITS;
		/* with half as many rows a table is faster by more than one bit costs, but for the last */
		else if (bits == ALIGNED_LEAST_BITS && shape->build_rows >> bits > average_limit(plan->build_limit) / 2)
			bits++;
	}
	if (npasses == 1)
	{
		plan->first_bits = bits;
		plan->aligned = true;
		return plan->key_class == 0 && bits <= ALIGNED_MOST_BITS &&
			aligned_shared(bits) + STATIC_SHARED <= device->shared_bytes;
	}
	plan->first_bits = (bits + 1) / 2;
	plan->second_bits = bits / 2;
	return bits <= HJG_K_MAX_BITS && bits > 1;
}

/* ---- memory ---- */

/* One side, partitioned. */
typedef struct Parts
{
	HjgCudaPtr	keys;			/* blocks of rows */
	HjgCudaPtr	rows;
	HjgCudaPtr	numbers;		/* block of what follows */
	HjgCudaPtr	counts;			/* zeroed, with largest and ticket */
	HjgCudaPtr	largest;
	HjgCudaPtr	ticket;
	HjgKParts	parts;
	HjgCudaPtr	up;
	HjgCudaPtr	down;
	HjgCudaPtr	coarse;
	HjgCudaPtr	ntiles;
	HjgCudaPtr	unit_first;
} Parts;

static size_t
room_rows(const Plan *plan, hjg_u64 nrows)
{
	return nrows + (plan->aligned ? (hjg_u64) ALIGNED_PAD << bits_of(plan) : 0);
}

static size_t
keys_bytes(const Plan *plan, hjg_u64 nrows)
{
	return room_rows(plan, nrows) * (size_t) (side_by_side(plan) ? plan->row_bytes : plan->row_bytes - 4);
}

static size_t
rows_bytes(const Plan *plan, hjg_u64 nrows)
{
	return side_by_side(plan) ? 0 : room_rows(plan, nrows) * sizeof(hjg_u32);
}

static size_t
tile_rows(const Plan *plan)
{
	return SCATTER_THREADS * scatter_items[plan->key_class];
}

static size_t
tiles_bytes(const Plan *plan, hjg_u64 nrows)
{
	return plan->second_bits == 0 ? 0 :
		(nrows / tile_rows(plan) + 1 + ((size_t) 1 << plan->first_bits)) * sizeof(HjgKTile);
}

/* The entries of Parts from counts on. */
static size_t
lay_numbers(const Plan *plan, HjgCudaPtr base, Parts *parts)
{
	const size_t each = ((size_t) sizeof(hjg_u32) << bits_of(plan));
	HjgCudaPtr	at = base;

	parts->counts = at;
	parts->largest = at + each;
	parts->ticket = parts->largest + sizeof(hjg_u32);
	parts->ntiles = parts->ticket + sizeof(hjg_u32);
	at += each + 64;
	parts->parts.first = at;
	parts->parts.last = at += each;
	parts->up = at += each;
	parts->down = at += each;
	parts->coarse = at += each;
	parts->unit_first = at += each;
	return at + each + sizeof(hjg_u32) - base;
}

static void
free_parts(HjgCudaLane *lane, Parts *parts)
{
	hjg_cuda_free(lane, parts->keys);
	hjg_cuda_free(lane, parts->rows);
	hjg_cuda_free(lane, parts->numbers);
	memset(parts, 0, sizeof(*parts));
}

static HjgStatus
alloc_rows(HjgCudaLane *lane, const Plan *plan, hjg_u64 nrows, Parts *parts)
{
	HjgStatus	status = hjg_cuda_alloc(lane, keys_bytes(plan, nrows), &parts->keys);

	if (status == HJG_OK && rows_bytes(plan, nrows) > 0)
		status = hjg_cuda_alloc(lane, rows_bytes(plan, nrows), &parts->rows);
	return status;
}

static size_t
parts_bytes(const Plan *plan, hjg_u64 nrows)
{
	Parts		parts;

	return hjg_cuda_block_bytes(keys_bytes(plan, nrows)) + hjg_cuda_block_bytes(rows_bytes(plan, nrows)) +
		hjg_cuda_block_bytes(lay_numbers(plan, 0, &parts));
}

/* Build and probe side stay; of the rows between two passes there is one side at a time. */
static size_t
bytes_of(const HjgCudaDevice *device, const HjgCudaShape *shape, int npasses)
{
	const hjg_u64 larger = shape->build_rows > shape->probe_rows ? shape->build_rows : shape->probe_rows;
	Plan		plan;

	if (!make_plan(device, shape, npasses, &plan))
		return 0;
	return parts_bytes(&plan, shape->build_rows) + parts_bytes(&plan, shape->probe_rows) +
		(npasses == 1 ? 0 : parts_bytes(&plan, larger) + hjg_cuda_block_bytes(tiles_bytes(&plan, larger)));
}

/* ---- passes ---- */

/* Launch as many blocks as fit the device, but no more than most. */
static HjgStatus
launch_filling(HjgCudaLane *lane, HjgCudaKernel *kernel, unsigned threads, size_t shared, hjg_u64 most, void *args)
{
	int			blocks;
	HjgStatus	status = hjg_cuda_occupancy(lane, kernel, threads, (unsigned) shared, &blocks);
	hjg_u64		all = (hjg_u64) blocks * (hjg_u64) lane->device->multiprocessors;

	if (status != HJG_OK)
		return status;
	return hjg_cuda_launch(lane, kernel, (unsigned) (most < all ? most : all), threads, (unsigned) shared,
						   (void *[]) {args});
}

static HjgKSide
kernel_side(const HjgCudaSide *side)
{
	return (HjgKSide) {.keys = side->keys, .rows = side->rows, .nrows = (hjg_u32) side->nrows};
}

static HjgKRows
kernel_rows(const Parts *parts)
{
	return (HjgKRows) {.keys = parts->keys, .rows = parts->rows};
}

/* Of LIST_THREADS, one thread for each item. */
static unsigned
blocks_of(unsigned nitems)
{
	return (nitems + LIST_THREADS - 1) / LIST_THREADS;
}

static HjgStatus
count_and_place(HjgCudaLane *lane, const Plan *plan, const HjgCudaSide *side, const Parts *parts,
				const HjgKUnits *units)
{
	const int	bits = bits_of(plan);
	HjgKCount	count = {.side = kernel_side(side), .counts = parts->counts, .bits = (hjg_u32) bits};
	HjgKPlace	place = {
		.counts = parts->counts, .largest = parts->largest, .parts = parts->parts, .up = parts->up,
		.down = parts->down, .coarse = plan->second_bits > 0 ? parts->coarse : 0, .bits = (hjg_u32) bits,
		.fine_bits = (hjg_u32) plan->second_bits, .align_bits = plan->aligned ? 2 : 0
	};
	HjgStatus	status = hjg_cuda_zero(lane, parts->counts, ((size_t) sizeof(hjg_u32) << bits) + 64);

	if (units != NULL)
		place.units = *units;
	if (status == HJG_OK)
		status = launch_filling(lane, &count_keys[plan->key_class], COUNT_THREADS, (size_t) 4 << bits,
								(side->nrows + COUNT_BLOCK_ROWS - 1) / COUNT_BLOCK_ROWS, &count);
	if (status == HJG_OK)
		status = hjg_cuda_launch(lane, &place_parts, blocks_of(1u << bits), LIST_THREADS, 0, (void *[]) {&place});
	return status;
}

static HjgStatus
scatter_once(HjgCudaLane *lane, const Plan *plan, const HjgCudaSide *side, const Parts *parts)
{
	const int	bits = plan->first_bits;
	HjgKScatter scatter = {
		.side = kernel_side(side), .out = kernel_rows(parts), .up = parts->up, .down = parts->down,
		.bits = (hjg_u32) bits, .shift = 32 - (hjg_u32) bits
	};

	if (plan->aligned)
		return launch_filling(lane, &scatter_aligned[bits - ALIGNED_LEAST_BITS], ALIGNED_THREADS, aligned_shared(bits),
							  side->nrows / (ALIGNED_THREADS * aligned_items[bits - ALIGNED_LEAST_BITS]) + 1, &scatter);
	return launch_filling(lane, &scatter_rows[plan->key_class], SCATTER_THREADS, scatter_shared(plan, bits),
						  side->nrows / tile_rows(plan) + 1, &scatter);
}

static HjgStatus
scatter_twice(HjgCudaLane *lane, const Plan *plan, const HjgCudaSide *side, const Parts *parts)
{
	Parts		between = {0};
	HjgCudaPtr	tiles = 0;
	HjgKScatter scatter = {
		.side = kernel_side(side), .up = parts->coarse, .bits = (hjg_u32) plan->first_bits,
		.shift = 32 - (hjg_u32) plan->first_bits
	};
	HjgStatus	status = alloc_rows(lane, plan, side->nrows, &between);

	if (status == HJG_OK)
		status = hjg_cuda_alloc(lane, tiles_bytes(plan, side->nrows), &tiles);
	scatter.out = kernel_rows(&between);
	if (status == HJG_OK)
		status = launch_filling(lane, &scatter_rows[plan->key_class], SCATTER_THREADS,
								scatter_shared(plan, plan->first_bits), side->nrows / tile_rows(plan) + 1, &scatter);
	if (status == HJG_OK)
	{
		HjgKTiles	list = {
			.parts = parts->parts, .ends = parts->coarse, .tiles = tiles, .ntiles = parts->ntiles,
			.coarse_bits = (hjg_u32) plan->first_bits, .fine_bits = (hjg_u32) plan->second_bits,
			.tile_rows = (hjg_u32) tile_rows(plan)
		};

		status = hjg_cuda_launch(lane, &list_tiles, blocks_of(32u << plan->first_bits), LIST_THREADS, 0, (void *[]) {&list});
	}
	if (status == HJG_OK)
	{
		HjgKScatter again = {
			.in = kernel_rows(&between), .out = kernel_rows(parts), .up = parts->up, .tiles = tiles,
			.ntiles = parts->ntiles, .bits = (hjg_u32) plan->second_bits, .shift = 32 - (hjg_u32) bits_of(plan)
		};

		status = launch_filling(lane, &scatter_again[plan->key_class], SCATTER_THREADS,
								scatter_shared(plan, plan->second_bits),
								side->nrows / tile_rows(plan) + 1 + ((hjg_u64) 1 << plan->first_bits), &again);
	}
	hjg_cuda_free(lane, tiles);
	free_parts(lane, &between);
	return status;
}

/* units: of a join with this side as the probe side, its parts and unit_first filled in here; or NULL. */
static HjgStatus
partition_side(HjgCudaLane *lane, const Plan *plan, const HjgCudaSide *side, Parts *parts, HjgKUnits *units)
{
	HjgStatus	status;

	memset(parts, 0, sizeof(*parts));
	status = alloc_rows(lane, plan, side->nrows, parts);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(lane, lay_numbers(plan, 0, parts), &parts->numbers);
	if (status == HJG_OK)
	{
		lay_numbers(plan, parts->numbers, parts);
		if (units != NULL)
		{
			units->probe = parts->parts;
			units->unit_first = parts->unit_first;
		}
		status = count_and_place(lane, plan, side, parts, units);
	}
	if (status == HJG_OK)
		status = plan->second_bits > 0 ? scatter_twice(lane, plan, side, parts) : scatter_once(lane, plan, side, parts);
	if (status != HJG_OK)
		free_parts(lane, parts);
	return status;
}

/* ---- the strategies ---- */

typedef struct Table
{
	Plan		plan;
	HjgMatchMode mode;
	Parts		build;
} Table;

static void
parts_free(HjgCudaLane *lane, void *table)
{
	free_parts(lane, &((Table *) table)->build);
	free(table);
}

static HjgStatus
build_in(HjgCudaLane *lane, const HjgCudaShape *shape, const HjgCudaSide *build, int npasses, void **result)
{
	Table	   *table = calloc(1, sizeof(Table));
	hjg_u32		largest = 0;
	HjgStatus	status;

	if (table == NULL)
		return HJG_ERR_MEMORY;
	table->mode = shape->mode;
	if (!make_plan(lane->device, shape, npasses, &table->plan))
	{
		free(table);
		return HJG_ERR_INPUT;
	}
	status = hjg_cuda_mark(lane, HJG_CUDA_PARTITION);
	if (status == HJG_OK)
		status = partition_side(lane, &table->plan, build, &table->build, NULL);
	if (status == HJG_OK && shape->mode != HJG_MATCH_ALL)
	{
		status = hjg_cuda_copy_out(lane, &largest, table->build.largest, sizeof(largest));
		if (status == HJG_OK)
			status = hjg_cuda_wait(lane);
		if (status == HJG_OK && largest > table->plan.build_limit)
			status = HJG_ERR_INPUT;
	}
	if (status != HJG_OK)
	{
		parts_free(lane, table);
		return status;
	}
	*result = table;
	return HJG_OK;
}

/*
 * A unit builds a table: where there are units enough for all multiprocessors they are as large as
 * uniform data makes them, so that only skew cuts partitions; else they are cut.
 */
static hjg_u32
probe_limit_of(const Plan *plan, hjg_u64 probe_rows)
{
	const hjg_u64 average = probe_rows >> bits_of(plan);
	const hjg_u64 piece = (probe_rows / ENOUGH_UNITS) + (probe_rows / ENOUGH_UNITS) / 16;

	if (bits_of(plan) < ENOUGH_BITS && piece > LEAST_PROBE_LIMIT)
		return (hjg_u32) piece;
	return (hjg_u32) (2 * (average > LEAST_PROBE_LIMIT ? average : LEAST_PROBE_LIMIT));
}

static HjgStatus
parts_probe(HjgCudaLane *lane, void *join, const HjgCudaSide *probe, const HjgCudaOutput *output)
{
	const Table *table = join;
	const Plan *plan = &table->plan;
	const HjgCudaKind kind = hjg_cuda_kind(output);
	HjgCudaKernel *kernel = plan->packed ? &join_packed[kind] : &join_parts[plan->key_class][kind];
	HjgKUnits	units = {
		.build = table->build.parts, .bits = (hjg_u32) bits_of(plan), .build_limit = plan->build_limit,
		.probe_limit = probe_limit_of(plan, probe->nrows),
		.lonely = table->mode == HJG_MATCH_LEFT || table->mode == HJG_MATCH_ANTI
	};
	Parts		parts;
	HjgStatus	status;

	if (probe->nrows == 0)
		return HJG_OK;
	if (kernel->name == NULL)
		return HJG_ERR_INPUT;
	status = hjg_cuda_mark(lane, HJG_CUDA_PARTITION);
	if (status == HJG_OK)
		status = partition_side(lane, plan, probe, &parts, &units);
	if (status != HJG_OK)
		return status;
	status = hjg_cuda_mark(lane, HJG_CUDA_PROBE);
	if (status == HJG_OK)
	{
		HjgKJoin	args = {
			.build = kernel_rows(&table->build), .probe = kernel_rows(&parts), .units = units, .ticket = parts.ticket,
			.output = {
				.counters = output->counters, .pairs = output->pairs, .keys = output->keys,
				.build_rows = output->build_rows, .probe_rows = output->probe_rows, .capacity = output->capacity
			},
			.mode = table->mode
		};

		status = launch_filling(lane, kernel, plan->join_threads, plan->join_shared, ~0ull, &args);
	}
	free_parts(lane, &parts);
	return status;
}

/* Counting reads keys; each pass reads and writes rows; the join reads rows. */
static hjg_u64
moved_in(const HjgCudaDevice *device, const HjgCudaShape *shape, int npasses)
{
	Plan		plan;

	if (!make_plan(device, shape, npasses, &plan))
		return 0;
	return (shape->build_rows + shape->probe_rows) *
		(hjg_u64) (shape->key_width + plan.row_bytes * (2 * npasses + 1));
}

#define RADIX_STRATEGY(PASSES) \
static bool \
suits_##PASSES(const HjgCudaDevice *device, const HjgCudaShape *shape) \
{ \
	Plan		plan; \
	return make_plan(device, shape, PASSES, &plan); \
} \
static size_t \
bytes_##PASSES(const HjgCudaDevice *device, const HjgCudaShape *shape) \
{ \
	return bytes_of(device, shape, PASSES); \
} \
static hjg_u64 \
moved_##PASSES(const HjgCudaDevice *device, const HjgCudaShape *shape) \
{ \
	return moved_in(device, shape, PASSES); \
} \
static HjgStatus \
build_##PASSES(HjgCudaLane *lane, const HjgCudaShape *shape, const HjgCudaSide *build, void **table) \
{ \
	return build_in(lane, shape, build, PASSES, table); \
} \
const HjgCudaStrategy hjg_cuda_radix##PASSES = { \
	.name = "radix" #PASSES, \
	.suits = suits_##PASSES, \
	.bytes = bytes_##PASSES, \
	.moved = moved_##PASSES, \
	.build = build_##PASSES, \
	.probe = parts_probe, \
	.free = parts_free, \
}

RADIX_STRATEGY(1);
RADIX_STRATEGY(2);
