/*
 * lab_host_stage.c
 *	  Radix partitioning of rows into blocks, in one pass: hjg_stage.h.
 *
 * Each worker collects rows in one group a partition, whole cache lines of keys and of row numbers, and
 * writes a full group past the caches into its block for the partition: a line is not read before it is
 * written, and workers are independent.  The digits of some hundred rows are computed beforehand, in
 * vectors.
 */
#include <stdlib.h>

#include "engine/hjg_engine_internal.h"
#include "lab/hjg_stage.h"

#define STEP_ROWS 512			/* rows whose digits are computed together */
#define GROUP HJG_STAGE_GROUP
#define NO_BLOCK 0xFFFFFFFFu

/* One worker's part of a partition; rows [filled & ~15, filled) of its block are still in the group. */
typedef struct Place
{
	hjg_u32		filled;
	hjg_u32		block;
	hjg_u8	   *keys;			/* of the block */
	hjg_u32    *numbers;
} Place;

typedef struct Worker
{
	Place	   *places;
	hjg_u8	   *groups;			/* a partition's keys, then its row numbers */
} Worker;

struct HjgStage
{
	int			width;
	int			bits;
	hjg_u32		block_rows;
	int			nworkers;
	size_t		group_bytes;
	HjgStageMemory *memory;
	HjgStageFn	take;
	void	   *arg;
	bool		full;			/* atomic: no block left */
	Worker		workers[];
};

size_t
hjg_stage_block_bytes(int width, hjg_u32 block_rows)
{
	return (size_t) block_rows * (size_t) hjg_tuple_bytes(width);
}

hjg_u32
hjg_stage_blocks(hjg_u64 nrows, int bits, hjg_u32 block_rows, int nworkers)
{
	return (hjg_u32) (nrows / block_rows) + ((hjg_u32) nworkers << bits);
}

int
hjg_stage_part(int width, int bits, const void *key)
{
	return (int) (hjg_mix_key(width, key).high & ((1u << bits) - 1));
}

HjgStage *
hjg_stage_create(int width, int bits, hjg_u32 block_rows, int nworkers, HjgStageMemory *memory, HjgStageFn take, void *arg)
{
	const size_t group_bytes = (size_t) GROUP * (size_t) hjg_tuple_bytes(width);
	HjgStage   *stage = calloc(1, sizeof(HjgStage) + (size_t) nworkers * sizeof(Worker));
	bool		good = true;

	if (stage == NULL)
		return NULL;
	stage->width = width;
	stage->bits = bits;
	stage->block_rows = block_rows;
	stage->nworkers = nworkers;
	stage->group_bytes = group_bytes;
	stage->memory = memory;
	stage->take = take;
	stage->arg = arg;
	for (int w = 0; w < nworkers && good; w++)
	{
		Worker	   *worker = &stage->workers[w];

		worker->places = aligned_alloc(64, hjg_align64(sizeof(Place) << bits));
		worker->groups = aligned_alloc(64, group_bytes << bits);
		good = worker->places != NULL && worker->groups != NULL;
		for (int p = 0; p < 1 << bits && good; p++)
			worker->places[p] = (Place) {.block = NO_BLOCK};
	}
	if (good)
		return stage;
	hjg_stage_free(stage);
	return NULL;
}

void
hjg_stage_free(HjgStage *stage)
{
	if (stage == NULL)
		return;
	for (int w = 0; w < stage->nworkers; w++)
	{
		free(stage->workers[w].places);
		free(stage->workers[w].groups);
	}
	free(stage);
}

/* Open a block for the partition; false when there is none. */
static bool
open_block(HjgStage *stage, Place *place)
{
	HjgStageMemory *memory = stage->memory;
	const hjg_u32 block = __atomic_fetch_add(&memory->next, 1, __ATOMIC_RELAXED);

	if (block >= memory->nblocks)
	{
		__atomic_fetch_sub(&memory->next, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&stage->full, true, __ATOMIC_RELAXED);
		return false;
	}
	place->block = block;
	place->keys = (hjg_u8 *) hjg_stage_keys(memory, stage->width, stage->block_rows, block);
	place->numbers = hjg_stage_numbers(memory, stage->width, stage->block_rows, block);
	return true;
}

static void
close_block(HjgStage *stage, Place *place, int part)
{
#if defined(__x86_64__)
	/* makes the streaming stores visible to others */
	_mm_sfence();
#endif
	stage->take(stage->arg, part, (HjgStageBlock) {place->block, place->filled});
	*place = (Place) {.block = NO_BLOCK};
}

HJG_ALWAYS_INLINE void
store_bytes(void *dst, const void *src, int bytes)
{
#if defined(__x86_64__)
	for (int i = 0; i < bytes; i += 16)
		_mm_stream_si128((__m128i *) ((hjg_u8 *) dst + i), _mm_load_si128((const __m128i *) ((const hjg_u8 *) src + i)));
#else
	memcpy(dst, src, (size_t) bytes);
#endif
}

/* Write the full group of the partition.  False when there is no block for it. */
HJG_ALWAYS_INLINE bool
flush_group(int width, HjgStage *stage, Place *place, const hjg_u8 *group, int part)
{
	const hjg_u32 at = place->filled - GROUP;

	if (place->block == NO_BLOCK && !open_block(stage, place))
		return false;
	store_bytes(place->keys + (size_t) at * (size_t) width, group, GROUP * width);
	store_bytes(place->numbers + at, group + GROUP * width, GROUP * (int) sizeof(hjg_u32));
	if (place->filled == stage->block_rows)
		close_block(stage, place, part);
	return true;
}

HJG_ALWAYS_INLINE void
find_digits(int width, const hjg_u8 *keys, hjg_u32 n, hjg_u32 mask, hjg_u32 *digits)
{
	for (hjg_u32 i = 0; i < n; i++)
		digits[i] = (hjg_u32) hjg_mix_key(width, keys + (size_t) i * (size_t) width).high & mask;
}

/* Compile the same loop for the instruction sets whose vectors can multiply. */
static void
find_digits_base(int width, const hjg_u8 *keys, hjg_u32 n, hjg_u32 mask, hjg_u32 *digits)
{
	if (width == 4)
		find_digits(4, keys, n, mask, digits);
	else if (width == 8)
		find_digits(8, keys, n, mask, digits);
	else
		find_digits(16, keys, n, mask, digits);
}

#if defined(__x86_64__)
HJG_TARGET_AVX2 static void
find_digits_avx2(const hjg_u8 *keys, hjg_u32 n, hjg_u32 mask, hjg_u32 *digits)
{
	const __m256i flip = _mm256_set1_epi32((int) hjg_hash_seed.flip);
	const __m256i first = _mm256_set1_epi32(0x7feb352d);
	const __m256i second = _mm256_set1_epi32((int) hjg_hash_seed.factor);
	hjg_u32		i = 0;

	for (; i + 8 <= n; i += 8)
	{
		__m256i		x = _mm256_loadu_si256((const __m256i *) (keys + (size_t) i * 4));

		x = _mm256_xor_si256(x, flip);
		x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 16)), first);
		x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 15)), second);
		x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
		_mm256_storeu_si256((__m256i *) (digits + i), _mm256_and_si256(x, _mm256_set1_epi32((int) mask)));
	}
	find_digits(4, keys + (size_t) i * 4, n - i, mask, digits + i);
}
#endif

HJG_ALWAYS_INLINE bool
scatter(int width, HjgStage *stage, Worker *worker, const hjg_u8 *keys, const hjg_u32 *digits, hjg_u32 n, hjg_u32 first_row)
{
	const size_t group_bytes = (size_t) GROUP * (size_t) hjg_tuple_bytes(width);

	for (hjg_u32 i = 0; i < n; i++)
	{
		const hjg_u32 part = digits[i];
		Place	   *place = &worker->places[part];
		hjg_u8	   *group = worker->groups + part * group_bytes;
		const hjg_u32 at = place->filled++ % GROUP;
		const hjg_u32 row = first_row + i;

		memcpy(group + at * (size_t) width, keys + (size_t) i * (size_t) width, (size_t) width);
		memcpy(group + GROUP * width + at * sizeof(row), &row, sizeof(row));
		if (at == GROUP - 1 && !flush_group(width, stage, place, group, (int) part))
			return false;
	}
	return true;
}

bool
hjg_stage_rows(HjgStage *stage, int w, const void *rows, hjg_u32 nrows, hjg_u32 first_row)
{
	Worker	   *worker = &stage->workers[w];
	const hjg_u32 mask = (1u << stage->bits) - 1;
	const int	width = stage->width;
	const hjg_u8 *keys = rows;
	hjg_u32		digits[STEP_ROWS];
	bool		good = !__atomic_load_n(&stage->full, __ATOMIC_RELAXED);

	while (nrows > 0 && good)
	{
		const hjg_u32 n = nrows < STEP_ROWS ? nrows : STEP_ROWS;

#if defined(__x86_64__)
		if (width == 4 && hjg_engine_isa() >= HJG_ISA_AVX2)
			find_digits_avx2(keys, n, mask, digits);
		else
#endif
			find_digits_base(width, keys, n, mask, digits);
		if (width == 4)
			good = scatter(4, stage, worker, keys, digits, n, first_row);
		else if (width == 8)
			good = scatter(8, stage, worker, keys, digits, n, first_row);
		else
			good = scatter(16, stage, worker, keys, digits, n, first_row);
		keys += (size_t) n * (size_t) width;
		first_row += n;
		nrows -= n;
	}
	return good;
}

bool
hjg_stage_finish(HjgStage *stage)
{
	const size_t width = (size_t) stage->width;
	bool		good = !stage->full;

	for (int w = 0; w < stage->nworkers && good; w++)
		for (int p = 0; p < 1 << stage->bits && good; p++)
		{
			Place	   *place = &stage->workers[w].places[p];
			const hjg_u8 *group = stage->workers[w].groups + (size_t) p * stage->group_bytes;
			const hjg_u32 n = place->filled % GROUP;
			const hjg_u32 at = place->filled - n;

			if (place->filled == 0)
				continue;
			good = place->block != NO_BLOCK || open_block(stage, place);
			if (!good)
				break;
			memcpy(place->keys + at * width, group, n * width);
			memcpy(place->numbers + at, group + GROUP * width, n * sizeof(hjg_u32));
			close_block(stage, place, p);
		}
	return good;
}
