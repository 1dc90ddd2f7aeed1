/*
 * node_candidates.c
 *	  The pairs that an engine returns, as row numbers in a vector.
 *
 * Pairs of a round are copied, HJG_VECTOR_ROWS at a time. Keys that are not exact are compared there (node_recheck.c).
 * Without residual quals each remaining pair is a match, and the bits of its rows are set; otherwise it stays a candidate.
 * Pairs of anti joins, and of probe rows that need no further match, are dropped.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "node/hjg_probe.h"

void
hjg_pairs_make(HjgPairVector *pairs, MemoryContext context)
{
	pairs->build = MemoryContextAlloc(context, HJG_VECTOR_ROWS * sizeof(uint32));
	pairs->pass = MemoryContextAlloc(context, HJG_VECTOR_ROWS * sizeof(bool));
	pairs->probe = MemoryContextAlloc(context, HJG_VECTOR_ROWS * sizeof(uint32));
}

void
hjg_pairs_forget(HjgPairVector *pairs)
{
	memset(pairs, 0, sizeof(*pairs));
}

static void
bad_pair(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a hash join result names a row that does not exist")));
}

/*
 * Account for a pair of a slice, and replace the position of its key by the number of its row. Returns false for a pair of
 * the first slice that comes again.
 */
static inline bool
new_candidate(HjgProbeBatch *batch, HjgPair *pair)
{
	uint32		key = pair->probe_row;

	if (key != batch->slice_key)
	{
		batch->slice_key = key;
		batch->slice_pairs = 0;
	}
	if (++batch->slice_pairs == batch->slice.most)
		hjg_set_bit(batch->more, key);
	else if (batch->slice_pairs > batch->slice.most)
		hjg_clear_bit(batch->more, key);	/* the engine returns whole rows */
	if (batch->origin != NULL)
		pair->probe_row = batch->origin[key];
	if (batch->slice.most > 1)
		return pair->build_row != batch->tried[key];
	batch->tried[key] = pair->build_row;
	return true;
}

/* Find the columns of pair number `at` that the device gathered; the places go to entry n of the vector. */
static inline void
note_places(HjgPairVector *pairs, const HjgPayloadBytes *payload, const HjgProbeBatch *batch, uint64 at, int n)
{
	for (int s = 0; s < HJG_SIDES; s++)
		if (batch->gathered & HJG_SIDE_BIT(s))
			pairs->places[s][n] = s == HJG_SIDE_BUILD && pairs->build[n] == HJG_NO_ROW ? NULL :
				batch->columns[s] + at * payload->bytes[s];
}

/* Copy the row numbers of pairs, for rounds that need nothing else. */
static void
copy_row_numbers(const HjgPair *restrict pairs, int count, uint32 *restrict probe_rows, uint32 *restrict build_rows)
{
	for (int i = 0; i < count; i++)
	{
		probe_rows[i] = pairs[i].probe_row;
		build_rows[i] = pairs[i].build_row;
	}
}

/*
 * Append pairs [at, at + count) of the round to the n pairs in the vector, except those whose probe row or build row needs no
 * further match; returns their number. The row numbers were checked when the round was copied to this process's memory,
 * except for the holes between the ranges of a shared build side.
 */
static int
copy_pairs(HjgProbe *probe, HjgProbeBatch *batch, uint64 at, int count, int n)
{
	HjgPairVector *pairs = probe->pairs;
	const HjgMatch *match = probe->match;
	const HjgRun *run = probe->build->run;
	const bool	holes = run->range_nrows != NULL;
	uint32	   *const probe_rows = pairs->probe;
	uint32	   *const build_rows = pairs->build;
	const bool	sliced = match->first_match && batch->slice.most > 0;
	const bool	gathered = batch->gathered != 0;
	uint64		first = 0;
	const uint64 *decided = match->first_match ? hjg_match_bits(match, batch, &first) : NULL;
	const uint64 *met = HJG_IS_BUILD_ONLY(match->terms->jointype) ? match->build_bits : NULL;

	if (!holes && !sliced && !gathered && decided == NULL && met == NULL)
	{
		copy_row_numbers(batch->result + at, count, probe_rows + n, build_rows + n);
		return n + count;
	}
	for (int i = 0; i < count; i++)
	{
		HjgPair		pair = batch->result[at + i];

		if (holes && unlikely(pair.build_row != HJG_NO_ROW && !hjg_run_has_build_row(run, pair.build_row)))
			bad_pair();
		if (sliced && !new_candidate(batch, &pair))
			continue;
		probe_rows[n] = pair.probe_row;
		build_rows[n] = pair.build_row;
		if (gathered)
			note_places(pairs, &run->payload, batch, at + i, n);
		if ((decided == NULL || !hjg_test_bit(decided, first + pair.probe_row)) && (met == NULL || !hjg_test_bit(met, pair.build_row)))
			n++;
	}
	return n;
}

/* Move a pair of the vector to an earlier place, or its own. */
static inline void
move_pair(HjgPairVector *pairs, int from, int to)
{
	pairs->probe[to] = pairs->probe[from];
	pairs->build[to] = pairs->build[from];
	if (pairs->places != NULL)
		for (int s = 0; s < HJG_SIDES; s++)
			pairs->places[s][to] = pairs->places[s][from];
}

/* Keep the pairs of the n in the vector that have equal keys; returns their number. */
static int
drop_unequal(HjgProbe *probe, const HjgProbeBatch *batch, int n)
{
	HjgPairVector *pairs = probe->pairs;
	int			kept = 0;

	hjg_recheck_pairs(probe, batch, n);
	for (int i = 0; i < n; i++)
	{
		move_pair(pairs, i, kept);
		kept += pairs->pass[i] ? 1 : 0;
	}
	return kept;
}

/*
 * Set the bits of both rows of the n pairs in the vector, which are matches, and remove pairs that are not result rows;
 * returns the number of the others.
 */
static int
settle_matches(HjgProbe *probe, const HjgProbeBatch *batch, int n)
{
	HjgPairVector *pairs = probe->pairs;
	const HjgMatch *match = probe->match;
	uint64		first = 0;
	uint64	   *bits = match->on_host ? hjg_match_bits(match, batch, &first) : NULL;
	int			kept = 0;

	if (bits == NULL && match->build_bits == NULL)
		return n;
	for (int i = 0; i < n; i++)
	{
		const uint64 bit = first + pairs->probe[i];

		if (bits != NULL && match->first_match && hjg_test_bit(bits, bit))
			continue;
		if (hjg_match_settle(match, bits, bit, pairs->build[i]))
			move_pair(pairs, i, kept++);
	}
	return kept;
}

int
hjg_candidates_next(HjgProbe *probe, HjgProbeBatch *batch)
{
	const HjgJoinTerms *terms = probe->execution->terms;
	HjgPairVector *pairs = probe->pairs;
	int			n = 0;

	if (batch->gathered != 0 && pairs->places == NULL)
		pairs->places = MemoryContextAllocZero(probe->execution->work_context, HJG_SIDES * sizeof(*pairs->places));
	while (n == 0 && probe->pair_next < batch->npairs)
	{
		while (n < HJG_VECTOR_ROWS && probe->pair_next < batch->npairs)
		{
			int			count = (int) Min(batch->npairs - probe->pair_next, HJG_VECTOR_ROWS - n);

			CHECK_FOR_INTERRUPTS();
			n = copy_pairs(probe, batch, probe->pair_next, count, n);
			probe->pair_next += count;
		}
		if (terms->recheck != NULL)
			n = drop_unequal(probe, batch, n);
		if (!terms->residual)
			n = settle_matches(probe, batch, n);
	}
	return n;
}
