/*
 * device_cuda_parts_side.c
 *	  Joins by radix partitions: partitions one side, in one pass or two (cuda_partition.cu,
 *	  cuda_aligned.cu).
 */
#include <string.h>

#include "device/hjg_cuda_parts.h"

#define ALIGNED_PAD (HJG_K_SECTOR_ROWS - 1)
#define LINE_ROWS 32			/* keys of a cache line */
#define COUNT_BLOCK_ROWS 8192	/* fewer rows are not worth a block */

#define KERNEL(kernel_name) {.image = "cuda_partition", .name = kernel_name}
#define ALIGNED_KERNEL(kernel_name) {.image = "cuda_aligned", .name = kernel_name}

static HjgCudaKernel count_keys[HJG_CUDA_KEY_CLASSES] = {
	KERNEL("hjg_k_count_keys_4"),
	KERNEL("hjg_k_count_keys_8"),
	KERNEL("hjg_k_count_keys_16"),
	KERNEL("hjg_k_count_keys_8"),
};
static HjgCudaKernel scatter_rows[HJG_CUDA_KEY_CLASSES] = {
	KERNEL("hjg_k_scatter_rows_4"),
	KERNEL("hjg_k_scatter_rows_8"),
	KERNEL("hjg_k_scatter_rows_16"),
	{.image = HJG_CUDA_LAB_IMAGE, .name = "hjg_k_scatter_rows_8_8"},
};
static HjgCudaKernel scatter_again[HJG_CUDA_KEY_CLASSES] = {
	KERNEL("hjg_k_scatter_again_4"),
	KERNEL("hjg_k_scatter_again_8"),
	KERNEL("hjg_k_scatter_again_16"),
	{.image = HJG_CUDA_LAB_IMAGE, .name = "hjg_k_scatter_again_8_8"},
};
static HjgCudaKernel scatter_aligned[] = {
	ALIGNED_KERNEL("hjg_k_scatter_aligned_10"),
	ALIGNED_KERNEL("hjg_k_scatter_aligned_11"),
	ALIGNED_KERNEL("hjg_k_scatter_aligned_12"),
};
static HjgCudaKernel place_parts = KERNEL("hjg_k_place_parts");
static HjgCudaKernel list_tiles = KERNEL("hjg_k_list_tiles");

static const hjg_u32 scatter_items[HJG_CUDA_KEY_CLASSES] = {12, 12, 6, 8};
static const hjg_u32 aligned_room[] = {HJG_K_ALIGNED_ROOM_10, HJG_K_ALIGNED_ROOM_11, HJG_K_ALIGNED_ROOM_12};

HjgCudaPartsTuning hjg_cuda_parts_tuning;

/* ---- memory ---- */

static bool
side_by_side(const HjgCudaPartsPlan *plan)
{
	return plan->key_class == 0 || plan->key_class == 3;
}

static unsigned
aligned_shared(int bits)
{
	return 8 * (aligned_room[bits - HJG_CUDA_ALIGNED_LEAST_BITS] + (ALIGNED_PAD << bits)) + (10u << bits);
}

/* Choose a tile size within the room with which all multiprocessors end at about the same time. */
static hjg_u32
aligned_tile_rows(const HjgCudaDevice *device, int bits, hjg_u64 nrows)
{
	const hjg_u64 most = aligned_room[bits - HJG_CUDA_ALIGNED_LEAST_BITS];
	const hjg_u64 room = hjg_cuda_parts_tuning.tile_rows != 0 ? hjg_cuda_parts_tuning.tile_rows : most;
	const hjg_u64 blocks = (hjg_u64) device->multiprocessors;
	const hjg_u64 ntiles = (nrows + blocks * room - 1) / (blocks * room) * blocks;
	const hjg_u64 rows = ((nrows + ntiles - 1) / ntiles + LINE_ROWS - 1) / LINE_ROWS * LINE_ROWS;

	return (hjg_u32) (rows < room ? rows : room);
}

static unsigned
scatter_shared(const HjgCudaPartsPlan *plan, int bits)
{
	return (unsigned) plan->row_bytes * HJG_K_SCATTER_THREADS * scatter_items[plan->key_class] + (6u << bits);
}

bool
hjg_cuda_parts_plain_fits(const HjgCudaDevice *device, const HjgCudaPartsPlan *plan)
{
	return scatter_shared(plan, HJG_CUDA_PLAIN_BITS) + HJG_CUDA_STATIC_SHARED <= device->shared_bytes &&
		(4u << HJG_K_MAX_BITS) + HJG_CUDA_STATIC_SHARED <= device->shared_bytes;
}

bool
hjg_cuda_parts_aligned_fits(const HjgCudaDevice *device, int bits)
{
	return aligned_shared(bits) + HJG_CUDA_STATIC_SHARED <= device->shared_bytes;
}

static size_t
room_rows(const HjgCudaPartsPlan *plan, hjg_u64 nrows)
{
	return nrows + (plan->aligned ? (hjg_u64) ALIGNED_PAD << hjg_cuda_parts_bits(plan) : 0);
}

static size_t
keys_bytes(const HjgCudaPartsPlan *plan, hjg_u64 nrows)
{
	return room_rows(plan, nrows) * (size_t) (side_by_side(plan) ? plan->row_bytes : plan->row_bytes - 4);
}

static size_t
rows_bytes(const HjgCudaPartsPlan *plan, hjg_u64 nrows)
{
	return side_by_side(plan) ? 0 : room_rows(plan, nrows) * sizeof(hjg_u32);
}

static size_t
tile_rows(const HjgCudaPartsPlan *plan)
{
	return HJG_K_SCATTER_THREADS * scatter_items[plan->key_class];
}

static size_t
tiles_bytes(const HjgCudaPartsPlan *plan, hjg_u64 nrows)
{
	return plan->second_bits == 0 ? 0 :
		(nrows / tile_rows(plan) + 1 + ((size_t) 1 << plan->first_bits)) * sizeof(HjgKTile);
}

/* Lay out the entries of HjgCudaParts from counts on. */
static size_t
lay_numbers(const HjgCudaPartsPlan *plan, HjgCudaPtr base, HjgCudaParts *parts)
{
	const size_t each = ((size_t) sizeof(hjg_u32) << hjg_cuda_parts_bits(plan));
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

void
hjg_cuda_parts_free(HjgCudaStream *stream, HjgCudaParts *parts)
{
	hjg_cuda_free(stream, parts->keys);
	hjg_cuda_free(stream, parts->rows);
	hjg_cuda_free(stream, parts->numbers);
	memset(parts, 0, sizeof(*parts));
}

static HjgStatus
alloc_rows(HjgCudaStream *stream, const HjgCudaPartsPlan *plan, hjg_u64 nrows, HjgCudaParts *parts)
{
	HjgStatus	status = hjg_cuda_alloc(stream, keys_bytes(plan, nrows), &parts->keys);

	if (status == HJG_OK && rows_bytes(plan, nrows) > 0)
		status = hjg_cuda_alloc(stream, rows_bytes(plan, nrows), &parts->rows);
	return status;
}

size_t
hjg_cuda_parts_bytes(const HjgCudaPartsPlan *plan, hjg_u64 nrows)
{
	HjgCudaParts parts;

	return hjg_cuda_block_bytes(keys_bytes(plan, nrows)) + hjg_cuda_block_bytes(rows_bytes(plan, nrows)) +
		hjg_cuda_block_bytes(lay_numbers(plan, 0, &parts));
}

size_t
hjg_cuda_parts_between_bytes(const HjgCudaPartsPlan *plan, hjg_u64 nrows)
{
	return hjg_cuda_parts_bytes(plan, nrows) + hjg_cuda_block_bytes(tiles_bytes(plan, nrows));
}

/* ---- passes ---- */

static HjgKSide
parted_side(const HjgCudaSide *side)
{
	return (HjgKSide) {.keys = side->keys, .rows = side->rows, .nrows = (hjg_u32) side->nrows};
}

/* Compute the blocks of HJG_K_LIST_THREADS with one thread for each item. */
static unsigned
blocks_of(unsigned nitems)
{
	return (nitems + HJG_K_LIST_THREADS - 1) / HJG_K_LIST_THREADS;
}

static HjgStatus
count_and_place(HjgCudaStream *stream, const HjgCudaPartsPlan *plan, const HjgCudaSide *side, const HjgCudaParts *parts,
				const HjgKUnits *units)
{
	const int	bits = hjg_cuda_parts_bits(plan);
	HjgKCount	count = {.side = parted_side(side), .counts = parts->counts, .bits = (hjg_u32) bits};
	HjgKPlace	place = {
		.counts = parts->counts, .largest = parts->largest, .parts = parts->parts, .up = parts->up,
		.down = parts->down, .coarse = plan->second_bits > 0 ? parts->coarse : 0, .bits = (hjg_u32) bits,
		.fine_bits = (hjg_u32) plan->second_bits, .align_bits = plan->aligned ? 2 : 0
	};
	HjgStatus	status = hjg_cuda_zero(stream, parts->counts, ((size_t) sizeof(hjg_u32) << bits) + 64);

	if (units != NULL)
		place.units = *units;
	if (status == HJG_OK)
		status = hjg_cuda_launch_filling(stream, &count_keys[plan->key_class], HJG_K_COUNT_THREADS, 4u << bits,
										 (side->nrows + COUNT_BLOCK_ROWS - 1) / COUNT_BLOCK_ROWS, &count);
	if (status == HJG_OK)
		status = hjg_cuda_launch(stream, &place_parts, blocks_of(1u << bits), HJG_K_LIST_THREADS, 0, (void *[]) {&place});
	return status;
}

static HjgStatus
scatter_once(HjgCudaStream *stream, const HjgCudaPartsPlan *plan, const HjgCudaSide *side, const HjgCudaParts *parts)
{
	const int	bits = plan->first_bits;
	HjgKScatter scatter = {
		.side = parted_side(side), .out = hjg_cuda_parts_rows(parts), .up = parts->up, .down = parts->down,
		.bits = (hjg_u32) bits, .shift = 32 - (hjg_u32) bits
	};

	if (plan->aligned)
	{
		scatter.tile_rows = aligned_tile_rows(stream->device, bits, side->nrows);
		return hjg_cuda_launch_filling(stream, &scatter_aligned[bits - HJG_CUDA_ALIGNED_LEAST_BITS], HJG_K_ALIGNED_THREADS,
									   aligned_shared(bits), side->nrows / scatter.tile_rows + 1, &scatter);
	}
	return hjg_cuda_launch_filling(stream, &scatter_rows[plan->key_class], HJG_K_SCATTER_THREADS, scatter_shared(plan, bits),
								   side->nrows / tile_rows(plan) + 1, &scatter);
}

static HjgStatus
scatter_twice(HjgCudaStream *stream, const HjgCudaPartsPlan *plan, const HjgCudaSide *side, const HjgCudaParts *parts)
{
	HjgCudaParts between = {0};
	HjgCudaPtr	tiles = 0;
	HjgKScatter scatter = {
		.side = parted_side(side), .up = parts->coarse, .bits = (hjg_u32) plan->first_bits,
		.shift = 32 - (hjg_u32) plan->first_bits
	};
	HjgStatus	status = alloc_rows(stream, plan, side->nrows, &between);

	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, tiles_bytes(plan, side->nrows), &tiles);
	scatter.out = hjg_cuda_parts_rows(&between);
	if (status == HJG_OK)
		status = hjg_cuda_launch_filling(stream, &scatter_rows[plan->key_class], HJG_K_SCATTER_THREADS,
										 scatter_shared(plan, plan->first_bits), side->nrows / tile_rows(plan) + 1, &scatter);
	if (status == HJG_OK)
	{
		HjgKTiles	list = {
			.parts = parts->parts, .ends = parts->coarse, .tiles = tiles, .ntiles = parts->ntiles,
			.coarse_bits = (hjg_u32) plan->first_bits, .fine_bits = (hjg_u32) plan->second_bits,
			.tile_rows = (hjg_u32) tile_rows(plan)
		};

		status = hjg_cuda_launch(stream, &list_tiles, blocks_of(32u << plan->first_bits), HJG_K_LIST_THREADS, 0, (void *[]) {&list});
	}
	if (status == HJG_OK)
	{
		HjgKScatter again = {
			.in = hjg_cuda_parts_rows(&between), .out = hjg_cuda_parts_rows(parts), .up = parts->up, .tiles = tiles,
			.ntiles = parts->ntiles, .bits = (hjg_u32) plan->second_bits,
			.shift = 32 - (hjg_u32) hjg_cuda_parts_bits(plan)
		};

		status = hjg_cuda_launch_filling(stream, &scatter_again[plan->key_class], HJG_K_SCATTER_THREADS,
										 scatter_shared(plan, plan->second_bits),
										 side->nrows / tile_rows(plan) + 1 + ((hjg_u64) 1 << plan->first_bits), &again);
	}
	hjg_cuda_free(stream, tiles);
	hjg_cuda_parts_free(stream, &between);
	return status;
}

HjgStatus
hjg_cuda_parts_make(HjgCudaStream *stream, const HjgCudaPartsPlan *plan, const HjgCudaSide *side, HjgCudaParts *parts,
					HjgKUnits *units)
{
	HjgStatus	status;

	memset(parts, 0, sizeof(*parts));
	status = alloc_rows(stream, plan, side->nrows, parts);
	if (status == HJG_OK)
		status = hjg_cuda_alloc(stream, lay_numbers(plan, 0, parts), &parts->numbers);
	if (status == HJG_OK)
	{
		lay_numbers(plan, parts->numbers, parts);
		if (units != NULL)
		{
			units->probe = parts->parts;
			units->unit_first = parts->unit_first;
		}
		status = count_and_place(stream, plan, side, parts, units);
	}
	if (status == HJG_OK)
		status = plan->second_bits > 0 ? scatter_twice(stream, plan, side, parts) : scatter_once(stream, plan, side, parts);
	if (status != HJG_OK)
		hjg_cuda_parts_free(stream, parts);
	return status;
}

