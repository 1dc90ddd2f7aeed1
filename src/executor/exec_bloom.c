/*
 * exec_bloom.c
 *	  Dropping probe rows that have no partner, while they are read.
 *
 * A Bloom filter of all build keys tells most of them before they cost a place in a
 * batch, a spill file or the engine's time; where rows are probed in place, the last.  It is for joins to which such a row is nothing;
 * the planner says where it is expected to pay.
 *
 * Who fills it.  A load of this process's own: once it is complete.  A join in
 * partitions: row by row as the build side goes to them; the probe side is tested on
 * its way to the partitions, and not again when they are joined.  A shared load: whoever
 * counts the rows makes it, everybody adds the keys that it has read, and nobody probes
 * before all have (exec_parallel.c).  Of shared partitions, whoever makes them, and everybody adds the keys
 * that it writes.
 *
 * Under hjoin_gpu.bloom_filter = auto it is watched, and given up for the load when too
 * many rows pass.
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "executor/hjg_executor.h"

/* Rows between two looks at how many pass. */
#define WATCH_ROWS 16384

/*
 * Shares of passing rows from which on a test costs more than the rows that it drops: a
 * test takes 2.5 to 4.5 ns, a row in a batch and in the engine 12 or more, a spilled one 150.
 */
#define MOST_PASSING 0.65
#define MOST_PASSING_SPILLED 0.97

static void
make_filter(HjgJoinState *state, void *memory, size_t bytes)
{
	HjgProbeFilter  *filter = &state->filter;

	hjg_bloom_init(&filter->bloom, state->inner.codec->key_width, memory, bytes);
	state->report.filter_bytes = Max(state->report.filter_bytes, bytes);
}

void
hjg_probe_filter_forget(HjgJoinState *state)
{
	memset(&state->filter, 0, sizeof(state->filter));
}

/* Start testing; all keys are in. */
static void
open_filter(HjgJoinState *state, double most_passing)
{
	HjgProbeFilter  *filter = &state->filter;

	filter->open = true;
	filter->most_passing = hjg_bloom_filter == HJG_BLOOM_FILTER_ON ? 1 : most_passing;
	filter->ntested = filter->npassed = 0;
}

/* ---------- a load of our own ---------- */

void
hjg_probe_filter_add_load(HjgJoinState *state)
{
	const HjgKeyBuffer *keys = &state->run->build;
	bool		shared = state->run->share != NULL;

	for (int i = 0; i < keys->nsegments; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (shared)
			hjg_bloom_add_shared(&state->filter.bloom, keys->segments[i].keys, keys->segments[i].nrows);
		else
			hjg_bloom_add(&state->filter.bloom, keys->segments[i].keys, keys->segments[i].nrows);
	}
}

void
hjg_probe_filter_load(HjgJoinState *state)
{
	size_t		bytes = hjg_bloom_bytes(state->run->build.nrows);

	if (!state->use_filter || state->run->build.nrows == 0)
		return;
	make_filter(state, MemoryContextAllocHuge(state->load_context, bytes), bytes);
	hjg_probe_filter_add_load(state);
	open_filter(state, MOST_PASSING);
}

/* ---------- a shared load ---------- */

void
hjg_probe_filter_share(HjgJoinState *state, void *memory, size_t bytes)
{
	make_filter(state, memory, bytes);
}

void
hjg_probe_filter_attach(HjgJoinState *state, void *memory, size_t bytes)
{
	hjg_bloom_attach(&state->filter.bloom, state->inner.codec->key_width, memory, bytes);
}

void
hjg_probe_filter_open_shared(HjgJoinState *state)
{
	open_filter(state, MOST_PASSING);
}

/* ---------- partitions ---------- */

size_t
hjg_probe_filter_bytes(double nkeys, int participants)
{
	/* with less memory than it wants it lets more rows pass */
	return Max(Min(hjg_bloom_bytes((uint64) nkeys), get_hash_memory_limit() / 4 * participants), sizeof(uint64));
}

void
hjg_probe_filter_start_partitions(HjgJoinState *state, double nkeys)
{
	const size_t bytes = hjg_probe_filter_bytes(nkeys, 1);

	if (!state->use_filter)
		return;
	make_filter(state, MemoryContextAllocHuge(state->partition_context, bytes), bytes);
}

void
hjg_probe_filter_add_key(HjgJoinState *state, const void *key)
{
	if (state->parallel != NULL)
		hjg_bloom_add_shared(&state->filter.bloom, key, 1);
	else
		hjg_bloom_add(&state->filter.bloom, key, 1);
}

void
hjg_probe_filter_open_partitions(HjgJoinState *state)
{
	if (state->filter.bloom.words != NULL)
		open_filter(state, MOST_PASSING_SPILLED);
}

void
hjg_probe_filter_end_partitions(HjgJoinState *state)
{
	if (state->filter.bloom.words != NULL && state->parallel == NULL)
		pfree(state->filter.bloom.words);
	hjg_probe_filter_forget(state);
}

/* ---------- testing ---------- */

static inline void
note_tested(HjgJoinState *state, uint32 ntested, uint32 npassed)
{
	HjgProbeFilter  *filter = &state->filter;

	state->report.filtered_rows += ntested - npassed;
	filter->ntested += ntested;
	filter->npassed += npassed;
	if (filter->ntested < WATCH_ROWS)
		return;
	if (filter->npassed > filter->ntested * filter->most_passing)
	{
		filter->open = false;
		state->report.filter_stopped = true;
	}
	filter->ntested = filter->npassed = 0;
}

int
hjg_probe_filter_rows(HjgJoinState *state, const char *keys, int nrows, uint16 *rows)
{
	uint32		npassed = hjg_bloom_test(&state->filter.bloom, keys, (uint32) nrows, rows);

	note_tested(state, (uint32) nrows, npassed);
	return (int) npassed;
}

bool
hjg_probe_filter_row(HjgJoinState *state, const void *key)
{
	bool		passed = hjg_bloom_test_one(&state->filter.bloom, key);

	note_tested(state, 1, passed);
	return passed;
}
