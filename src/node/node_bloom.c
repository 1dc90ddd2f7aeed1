/*
 * node_bloom.c
 *	  A Bloom filter that drops probe rows without a partner while they are read.
 *
 * The filter of all build keys finds most of these rows before they take space in a batch or a spill file, or the engine's
 * time; where rows are probed in place, it saves only the engine's time. It is used in joins that drop such rows, if the
 * planner expects it to save time.
 *
 * Filling. For a private build pass the filter is filled when the pass is complete. In a partitioned join build keys are
 * added a few at a time as they are written to partitions; probe rows are tested as they are written, and not again when
 * partitions are joined. For a shared build side, the participant that counts the rows makes the filter, each participant
 * adds the keys that it has read, and probing begins when all have done so (node_parallel.c). For shared partitions, the
 * participant that makes the partitions makes the filter, and each participant adds the keys that it writes.
 *
 * Rows are tested by the scan that their keys come from, if there is one below the join (node_travel.c), else by the join.
 *
 * With hjoin_gpu.bloom_filter = auto the filter is dropped for the rest of the pass when too many rows pass it.
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "node/hjg_build.h"

/* Rows between two checks of the share that passes. */
#define WATCH_ROWS 16384

/*
 * Share of passing rows above which a test costs more than the spilled rows that it drops; HJG_BLOOM_MOST_PASSING is that of other
 * rows: a test takes 2.5 to 4.5 ns, a row in a batch and in the engine 12 or more, a spilled row 150.
 */
#define MOST_PASSING_SPILLED 0.97

static void
make_filter(HjgProbeFilter *filter, void *memory, size_t bytes)
{
	HjgReport  *report = filter->execution->report;

	hjg_bloom_init(&filter->bloom, filter->key_width, memory, bytes);
	report->filter_bytes = Max(report->filter_bytes, bytes);
}

void
hjg_probe_filter_forget(HjgProbeFilter *filter)
{
	memset(&filter->bloom, 0, sizeof(filter->bloom));
	filter->open = filter->shared = false;
	filter->nwaiting = 0;
}

/* Start testing; all keys are added. */
static void
open_filter(HjgProbeFilter *filter, double most_passing)
{
	filter->open = filter->used = true;
	filter->most_passing = hjg_bloom_filter == HJG_BLOOM_FILTER_ON || filter->kept ? 1 : most_passing;
	filter->ntested = filter->npassed = 0;
}

static void
add_filter_keys(HjgProbeFilter *filter, const char *keys, uint32 nkeys)
{
	if (filter->shared)
		hjg_bloom_add_shared(&filter->bloom, keys, nkeys);
	else
		hjg_bloom_add(&filter->bloom, keys, nkeys);
}

/* ---------- a build side of our own ---------- */

void
hjg_probe_filter_add_run(HjgProbeFilter *filter, const HjgRun *run)
{
	const HjgKeyBuffer *keys = &run->build;

	for (int i = 0; i < keys->nsegments; i++)
	{
		CHECK_FOR_INTERRUPTS();
		add_filter_keys(filter, keys->segments[i].keys, keys->segments[i].nrows);
	}
}

void
hjg_probe_filter_make(HjgProbeFilter *filter, const HjgRun *run)
{
	size_t		bytes = hjg_bloom_bytes(run->build.nrows);

	if (!filter->execution->terms->use_filter || run->build.nrows == 0)
		return;
	make_filter(filter, MemoryContextAllocHuge(run->context, bytes), bytes);
	hjg_probe_filter_add_run(filter, run);
	open_filter(filter, HJG_BLOOM_MOST_PASSING);
}

/* ---------- a shared build side ---------- */

void
hjg_probe_filter_share(HjgProbeFilter *filter, void *memory, size_t bytes)
{
	make_filter(filter, memory, bytes);
	filter->shared = true;
}

void
hjg_probe_filter_attach(HjgProbeFilter *filter, void *memory, size_t bytes)
{
	hjg_bloom_attach(&filter->bloom, filter->key_width, memory, bytes);
	filter->shared = true;
}

void
hjg_probe_filter_open_shared(HjgProbeFilter *filter)
{
	open_filter(filter, HJG_BLOOM_MOST_PASSING);
}

/* ---------- partitions ---------- */

size_t
hjg_probe_filter_bytes(double nkeys, int participants)
{
	/* with less memory than it needs the filter lets more rows pass */
	return Max(Min(hjg_bloom_bytes((uint64) nkeys), get_hash_memory_limit() / 4 * participants), sizeof(uint64));
}

void
hjg_probe_filter_start_partitions(HjgProbeFilter *filter, MemoryContext context, double nkeys)
{
	const size_t bytes = hjg_probe_filter_bytes(nkeys, 1);

	if (!filter->execution->terms->use_filter)
		return;
	make_filter(filter, MemoryContextAllocHuge(context, bytes), bytes);
}

void
hjg_probe_filter_add_key(HjgProbeFilter *filter, const void *key)
{
	memcpy(filter->waiting + (size_t) filter->nwaiting++ * filter->key_width, key, filter->key_width);
	if (filter->nwaiting == HJG_FILTER_WAITING)
		hjg_probe_filter_add_waiting(filter);
}

void
hjg_probe_filter_add_waiting(HjgProbeFilter *filter)
{
	add_filter_keys(filter, filter->waiting, filter->nwaiting);
	filter->nwaiting = 0;
}

void
hjg_probe_filter_open_partitions(HjgProbeFilter *filter)
{
	if (filter->bloom.words != NULL)
		open_filter(filter, MOST_PASSING_SPILLED);
}

void
hjg_probe_filter_end_partitions(HjgProbeFilter *filter)
{
	if (filter->bloom.words != NULL && !filter->shared)
		pfree(filter->bloom.words);
	hjg_probe_filter_forget(filter);
}

/* ---------- testing ---------- */

static inline void
note_tested(HjgProbeFilter *filter, uint32 ntested, uint32 npassed)
{
	HjgReport  *report = filter->execution->report;

	report->filtered_rows += ntested - npassed;
	filter->ntested += ntested;
	filter->npassed += npassed;
	if (filter->ntested < WATCH_ROWS)
		return;
	if (filter->npassed > filter->ntested * filter->most_passing)
	{
		filter->open = false;
		report->filter_stopped = true;
	}
	filter->ntested = filter->npassed = 0;
}

int
hjg_probe_filter_rows(HjgProbeFilter *filter, const char *keys, const bool *isnull, int nrows, uint16 *rows)
{
	uint32		npassed = hjg_bloom_test(&filter->bloom, keys, (uint32) nrows, rows);

	if (isnull != NULL)
	{
		const uint32 ntested = npassed;

		npassed = 0;
		for (uint32 i = 0; i < ntested; i++)
			if (!isnull[rows[i]])
				rows[npassed++] = rows[i];
	}
	note_tested(filter, (uint32) nrows, npassed);
	return (int) npassed;
}

bool
hjg_probe_filter_row(HjgProbeFilter *filter, const void *key)
{
	bool		passed = key != NULL && hjg_bloom_test_one(&filter->bloom, key);

	note_tested(filter, 1, passed);
	return passed;
}
