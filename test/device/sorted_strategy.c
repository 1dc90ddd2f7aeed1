/*
 * sorted_strategy.c
 *	  A strategy for tests on the stub, whose device memory is the host's: build rows in order, searched
 *	  by bisection.
 */
#include <stdlib.h>
#include <string.h>

#include "hjg_sorted_strategy.h"

typedef struct Sorted
{
	int			width;
	HjgMatchMode mode;
	const hjg_u8 *keys;
	const hjg_u32 *rows;
	hjg_u64		nrows;
	hjg_u32    *order;			/* positions, ordered by key and position */
} Sorted;

static const Sorted *sorting;

static int
compare_places(const void *a, const void *b)
{
	const hjg_u32 x = *(const hjg_u32 *) a;
	const hjg_u32 y = *(const hjg_u32 *) b;
	const size_t width = (size_t) sorting->width;
	const int	order = memcmp(sorting->keys + x * width, sorting->keys + y * width, width);

	return order != 0 ? order : (x > y) - (x < y);
}

static bool
sorted_suits(const HjgCudaDevice *on, const HjgCudaShape *shape)
{
	return shape->build_rows > 0;
}

static size_t
sorted_bytes(const HjgCudaDevice *on, const HjgCudaShape *shape)
{
	return hjg_cuda_block_bytes(shape->build_rows * sizeof(hjg_u32));
}

static HjgStatus
sorted_build(HjgCudaStream *stream, const HjgCudaShape *shape, const HjgCudaSide *build, void **table)
{
	Sorted	   *sorted = calloc(1, sizeof(Sorted));
	HjgCudaPtr	order;
	HjgStatus	status = hjg_cuda_alloc(stream, build->nrows * sizeof(hjg_u32), &order);

	if (status != HJG_OK)
	{
		free(sorted);
		return status;
	}
	*sorted = (Sorted) {
		.width = shape->key_width, .mode = shape->mode, .keys = (const hjg_u8 *) (size_t) build->keys,
		.rows = (const hjg_u32 *) (size_t) build->rows, .nrows = build->nrows, .order = (hjg_u32 *) (size_t) order
	};
	for (hjg_u64 i = 0; i < build->nrows; i++)
		sorted->order[i] = (hjg_u32) i;
	sorting = sorted;
	qsort(sorted->order, build->nrows, sizeof(hjg_u32), compare_places);
	*table = sorted;
	return HJG_OK;
}

/* Find the first position whose key is not before this one. */
static hjg_u64
bisect(const Sorted *sorted, const hjg_u8 *key)
{
	const size_t width = (size_t) sorted->width;
	hjg_u64		low = 0;
	hjg_u64		high = sorted->nrows;

	while (low < high)
	{
		const hjg_u64 mid = low + (high - low) / 2;

		if (memcmp(sorted->keys + sorted->order[mid] * width, key, width) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void
put_pair(const HjgCudaOutput *output, hjg_u32 probe_row, hjg_u32 build_row)
{
	hjg_u64    *counters = (hjg_u64 *) (size_t) output->counters;

	if (counters[0] < output->capacity)
		((HjgPair *) (size_t) output->pairs)[counters[0]] = (HjgPair) {probe_row, build_row};
	counters[0]++;
}

static HjgStatus
sorted_probe(HjgCudaStream *stream, void *table, const HjgCudaSide *probe, const HjgCudaOutput *output)
{
	const Sorted *sorted = table;
	const size_t width = (size_t) sorted->width;
	const hjg_u8 *keys = (const hjg_u8 *) (size_t) probe->keys;
	const hjg_u32 *rows = (const hjg_u32 *) (size_t) probe->rows;

	stream->busy = true;
	for (hjg_u64 i = 0; i < probe->nrows; i++)
	{
		const hjg_u32 row = rows != NULL ? rows[i] : (hjg_u32) i;
		hjg_u64		at = bisect(sorted, keys + i * width);
		hjg_u64		nmatches = 0;

		for (; at < sorted->nrows && memcmp(sorted->keys + sorted->order[at] * width, keys + i * width, width) == 0; at++)
		{
			const hjg_u32 place = sorted->order[at];

			if (sorted->mode != HJG_MATCH_ANTI && (nmatches == 0 || sorted->mode != HJG_MATCH_SEMI))
				put_pair(output, row, sorted->rows != NULL ? sorted->rows[place] : place);
			nmatches++;
		}
		if (nmatches == 0 && (sorted->mode == HJG_MATCH_LEFT || sorted->mode == HJG_MATCH_ANTI))
			put_pair(output, row, HJG_NO_ROW);
	}
	return HJG_OK;
}

static void
sorted_free(HjgCudaStream *stream, void *table)
{
	hjg_cuda_free(stream, (HjgCudaPtr) (size_t) ((Sorted *) table)->order);
	free(table);
}

const HjgCudaStrategy hjg_sorted_strategy = {
	.name = "sorted", .suits = sorted_suits, .bytes = sorted_bytes, .build = sorted_build, .probe = sorted_probe,
	.free = sorted_free
};
