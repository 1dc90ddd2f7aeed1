/*
 * node_slice.c
 *	  Candidates in slices, for joins in which the first match of a probe row is enough.
 *
 * These are semi and anti joins, and all joins with a unique build side. If a pair is not surely a match (residual quals,
 * hashed keys), the engine cannot know which pair is the last one needed, and a probe row may have thousands of candidates.
 * So the engine is first asked for one candidate of each row; then for a slice of several, for rows that have no match and
 * may have more candidates; for the rows left over for a longer slice, and so on (HjgCursor). Slices grow geometrically, so
 * there are at most about SLICE_GROWTH times the candidates of a join row by row.
 *
 * Each further request costs a round. So if rows have hardly more than one candidate, later batches are joined as a whole,
 * until one has many candidates.
 */
#include "postgres.h"

#include "node/hjg_probe.h"

/* The length of the second slice, and the factor by which each later slice is longer. */
#define SLICE_GROWTH 8

/* Longest slice of a row; each result has room for it. */
#define MAX_SLICE_PAIRS 4096

/* Slices are not worthwhile below this number of candidates a row, in at least so many rows. */
#define FEW_CANDIDATES 2.0
#define MIN_JUDGED_ROWS 512

/* Slices are worthwhile again above this number. */
#define MANY_CANDIDATES 4.0

static void
start_slice(HjgProbe *probe, HjgProbeBatch *batch, HjgCursor slice)
{
	batch->slice = slice;
	batch->slice_key = HJG_NO_ROW;
	batch->slice_pairs = 0;
	if (slice.most > 0)
	{
		Size		bytes = ((Size) batch->keys.nrows / 64 + 1) * sizeof(uint64);

		if (batch->more != NULL)
			pfree(batch->more);
		batch->more = MemoryContextAllocZero(probe->build->run->context, bytes);
	}
}

/* Make the array of candidates of the first slice, with none for these keys. */
static uint32 *
make_tried(HjgProbe *probe, uint32 nkeys)
{
	Size		bytes = (Size) Max(nkeys, 1) * sizeof(uint32);
	uint32	   *tried = MemoryContextAlloc(probe->build->run->context, bytes);

	memset(tried, 0xFF, bytes);
	return tried;
}

static void
forget_keys(HjgProbeBatch *batch)
{
	if (batch->origin != NULL)
		pfree(batch->origin);
	if (batch->tried != NULL)
		pfree(batch->tried);
	batch->origin = NULL;
	batch->tried = NULL;
}

void
hjg_slice_first(HjgProbe *probe, HjgProbeBatch *batch)
{
	HjgCursor	slice = {.most = probe->match->first_match && !probe->unsliced ? 1 : 0};

	forget_keys(batch);
	batch->slices_done = false;
	if (slice.most > 0)
		batch->tried = make_tried(probe, batch->keys.nrows);
	start_slice(probe, batch, slice);
	batch->cursor = slice;
}

/* Does the key at a position need another slice? Its row has no match, and may have candidates left. */
static inline bool
is_key_wanted(const HjgProbe *probe, const HjgProbeBatch *batch, uint32 position)
{
	uint64		first;
	const uint64 *bits = hjg_match_bits(probe->match, batch, &first);

	if (hjg_test_bit(bits, first + (batch->origin != NULL ? batch->origin[position] : position)))
		return false;
	return batch->slice.most == 0 || hjg_test_bit(batch->more, position);
}

/*
 * Narrow the batch to the keys from position `first` on that need this slice of their candidates; false if there are none.
 * The first slice's candidates are kept.
 */
static bool
narrow_batch(HjgProbe *probe, HjgProbeBatch *batch, uint32 first, HjgCursor slice)
{
	uint32		nkeys = batch->keys.nrows;
	uint32		n = 0;
	uint32	   *positions;
	uint32	   *origin;
	uint32	   *tried;

	for (uint32 i = first; i < nkeys; i++)
		n += is_key_wanted(probe, batch, i);
	if (n == 0)
		return false;
	positions = palloc(n * sizeof(uint32));
	origin = MemoryContextAlloc(probe->build->run->context, n * sizeof(uint32));
	tried = make_tried(probe, n);
	n = 0;
	for (uint32 i = first; i < nkeys; i++)
	{
		if (!is_key_wanted(probe, batch, i))
			continue;
		positions[n] = i;
		origin[n] = batch->origin != NULL ? batch->origin[i] : i;
		if (batch->tried != NULL)
			tried[n] = batch->tried[i];
		n++;
	}
	forget_keys(batch);
	batch->origin = origin;
	batch->tried = tried;
	batch->slice = slice;
	hjg_run_batch_narrow(probe->build->run, batch, positions, n);
	start_slice(probe, batch, slice);
	pfree(positions);
	return true;
}

bool
hjg_slice_next(HjgProbe *probe, HjgProbeBatch *batch)
{
	HjgCursor	slice = batch->slice;
	uint32		joined = batch->finished ? batch->keys.nrows : batch->cursor.row;

	if (slice.most == 0)
	{
		/* go on as a whole, unless there are many candidates; rows that were not joined start with slices */
		if (batch->pairs <= MANY_CANDIDATES * Max(joined, MIN_JUDGED_ROWS))
			return false;
		probe->unsliced = false;
		probe->second_rows = probe->second_pairs = 0;
		slice.most = 1;
		return !batch->finished && narrow_batch(probe, batch, joined, slice);
	}
	if (!batch->finished || batch->slices_done)
		return false;

	if (slice.most == 1)
		slice.most = SLICE_GROWTH;
	else
	{
		if (slice.skip == 0)
		{
			probe->second_rows += batch->keys.nrows;
			probe->second_pairs += batch->pairs;
			probe->unsliced = probe->second_rows >= MIN_JUDGED_ROWS &&
				probe->second_pairs <= FEW_CANDIDATES * probe->second_rows;
		}
		slice.skip += slice.most;
		slice.most = Min(slice.most * SLICE_GROWTH, MAX_SLICE_PAIRS);
	}
	batch->slices_done = !narrow_batch(probe, batch, 0, slice);
	return !batch->slices_done;
}
