/*
 * coupled_model_steps.c
 *	  The arrays that steps use, and their parts that are copied between the processors.
 */
#include "coupled/hjg_steps_model.h"

#include <math.h>

#define KEYS HJG_ARRAY_BIT(HJG_ARRAY_KEYS)
#define MIXED HJG_ARRAY_BIT(HJG_ARRAY_MIXED)
#define ROWS HJG_ARRAY_BIT(HJG_ARRAY_ROWS)
#define BUCKETS HJG_ARRAY_BIT(HJG_ARRAY_BUCKETS)
#define NODES HJG_ARRAY_BIT(HJG_ARRAY_NODES)
#define COUNTS HJG_ARRAY_BIT(HJG_ARRAY_COUNTS)
#define OFFSETS HJG_ARRAY_BIT(HJG_ARRAY_OFFSETS)
#define HEADERS HJG_ARRAY_BIT(HJG_ARRAY_HEADERS)

/*
 * b3's counts are key nodes to be linked later; the host empties headers before n2, and sums them up after
 * it, before n3.
 */
const HjgStepUse hjg_step_use[HJG_STEP_COUNT] = {
	[HJG_STEP_HASH] = {.host_writes = KEYS, .reads = KEYS, .writes = MIXED | ROWS | BUCKETS},
	[HJG_STEP_NUMBER] = {.reads = MIXED, .writes = BUCKETS},
	[HJG_STEP_N2] = {.host_writes = HEADERS, .reads = BUCKETS | HEADERS, .writes = NODES | HEADERS, .host_reads = HEADERS},
	[HJG_STEP_N3] = {.host_writes = HEADERS, .reads = MIXED | ROWS | BUCKETS | NODES | HEADERS, .writes = MIXED | ROWS},
	[HJG_STEP_B2] = {.reads = BUCKETS},
	[HJG_STEP_B3] = {.reads = BUCKETS | MIXED, .writes = NODES | COUNTS},
	[HJG_STEP_B4] = {.reads = ROWS | NODES},
	[HJG_STEP_P2] = {.reads = BUCKETS, .writes = NODES | COUNTS},
	[HJG_STEP_P3] = {.reads = MIXED | NODES, .writes = NODES | COUNTS, .host_reads = COUNTS},
	[HJG_STEP_P4] = {.host_writes = OFFSETS, .reads = ROWS | NODES | COUNTS | OFFSETS},
};

/* Count the copy of a share of an array's rows. */
static void
count_copy(const HjgRowsShape *rows, HjgArray array, double share, HjgCopies *to)
{
	if (share <= 0)
		return;
	to->n += rows->chunk_rows > 0 && array != HJG_ARRAY_HEADERS ? ceil(share * rows->nrows / rows->chunk_rows) : 1;
	to->bytes += share * rows->nrows * rows->row_bytes[array];
}

void
hjg_places_host_wrote(HjgPlaces *places, HjgArraySet arrays)
{
	for (int i = 0; i < HJG_ARRAYS; i++)
		if (arrays & HJG_ARRAY_BIT(i))
			places->arrays[i] = (HjgPlace) {.cpu_end = 1, .device_begin = 1};
}

void
hjg_places_host_reads(HjgPlaces *places, const HjgRowsShape *rows, HjgArraySet arrays, HjgCopies *to_cpu)
{
	/* one copy of all rows */
	HjgRowsShape whole = *rows;

	whole.chunk_rows = 0;
	for (int i = 0; i < HJG_ARRAYS; i++)
		if (arrays & HJG_ARRAY_BIT(i))
		{
			count_copy(&whole, (HjgArray) i, 1 - places->arrays[i].cpu_end, to_cpu);
			places->arrays[i].cpu_end = 1;
		}
}

void
hjg_places_step(HjgPlaces *places, const HjgRowsShape *rows, HjgStep step, double ratio, HjgCopies to[HJG_PROCESSORS])
{
	for (int i = 0; i < HJG_ARRAYS; i++)
	{
		HjgPlace   *place = &places->arrays[i];

		if (hjg_step_use[step].reads & HJG_ARRAY_BIT(i))
		{
			count_copy(rows, (HjgArray) i, ratio - place->cpu_end, &to[HJG_ON_CPU]);
			count_copy(rows, (HjgArray) i, place->device_begin - ratio, &to[HJG_ON_DEVICE]);
			place->cpu_end = fmax(place->cpu_end, ratio);
			place->device_begin = fmin(place->device_begin, ratio);
		}
		if (hjg_step_use[step].writes & HJG_ARRAY_BIT(i))
			*place = (HjgPlace) {.cpu_end = ratio, .device_begin = ratio};
	}
}
