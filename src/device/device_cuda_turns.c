/*
 * device_cuda_turns.c
 *	  Build sides that are more than the device's memory: joined in turns, from where they lie.
 *
 * The build rows are cut into turns that fit the budget.  A round takes a range of probe rows and joins it with one
 * turn after the other; each turn is a join of the driver like any other (device_cuda_build.c), admitted for itself,
 * and the last one of a round stays for the first of the next. So the memory is that of one turn, and nothing
 * is kept of the build side but where it lies in the arena.
 *
 * A row has matches in any turns, so what becomes of it is put together here, from the pairs in the result: an inner
 * join has them all; of a SEMI join those of rows that were matched before are dropped; LEFT and ANTI joins get their
 * lonely rows at the end of the round.  Where a turn ends before the range does, so does the
 * round, and pairs of rows behind it are dropped.
 *
 * A row whose matches do not fit a result, and slices of several matches (HjgCursor), are left to the cpu engine:
 * HJG_ERR_MEMORY, as for anything else that does not fit.  So are joins for which sending the build side again
 * for each batch is predicted to take longer than the cpu engine takes for the batch.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_join.h"
#include "layout/hjg_checksum.h"
#include "model/hjg_cuda_model.h"

#define LEAST_ROWS 64			/* of a range; below, the cpu engine is better anyway */
#define MOST_TURNS 1024
#define BATCH_ROWS 524288.0	/* of the executor, after the first ones */

struct HjgCudaTurns
{
	HjgCudaDevice *device;
	const HjgEnv *env;
	HjgJoinSpec spec;			/* of the whole join */
	HjgSegment *segments;		/* of the build side, ascending */
	int			nsegments;
	hjg_u64		nrows;
	hjg_u32		nturns;
	HjgCudaJoin *current;		/* turn number at, or NULL */
	hjg_u32		at;
	bool		backward;		/* of the next round */
	hjg_u8	   *matched;		/* of the batch's rows: met a match in this round */
	hjg_u64		max_matched;
	HjgJobStats stats;			/* of turns that are over */
};

/* ---- which turns ---- */

/* Find the fewest turns that fit the budget; 0: none do. */
static hjg_u32
turns_that_fit(HjgCudaJoin *join, hjg_u64 nrows)
{
	hjg_u32		nturns = 2;

	while (nturns <= MOST_TURNS && !hjg_cuda_build_fits(join, nrows / nturns + 1))
		nturns++;
	return nturns <= MOST_TURNS && nturns < nrows ? nturns : 0;
}

/* Is a batch joined in turns sooner than by the cpu engine? */
static bool
is_faster(const HjgCudaJoin *join, hjg_u64 nrows, hjg_u32 nturns)
{
	const HjgCudaJoinSize size = {
		.key_width = join->spec.key_width, .build_rows = (double) nrows / nturns, .probe_rows = BATCH_ROWS,
		.chunk_rows = BATCH_ROWS, .pairs = BATCH_ROWS / nturns, .l2_bytes = (double) join->device->l2_bytes
	};
	const HjgUnitCosts costs = hjg_cuda_costs(join->device);
	HjgCudaPrediction turn;

	return hjg_model_cuda_predict(&costs.cuda, &size, HJG_CUDA_CSR, &turn) &&
		nturns * (turn.in_ns + turn.build_ns + turn.probe_ns + turn.out_ns) <
		BATCH_ROWS * costs.probe_tuple_ns / hjg_pool_nthreads(join->env->pool);
}

HjgStatus
hjg_cuda_turns_open(HjgCudaJoin *join, const HjgSegment *segments, int nsegments)
{
	HjgCudaTurns *turns;
	hjg_u64		nrows = 0;
	hjg_u32		nturns;

	for (int i = 0; i < nsegments; i++)
		nrows += segments[i].nrows;
	/* what would have fitted failed for another reason */
	if (nrows == 0 || nrows > HJG_MAX_BUILD_ROWS || hjg_cuda_build_fits(join, nrows))
		return HJG_ERR_MEMORY;
	nturns = turns_that_fit(join, nrows);
	if (nturns == 0 || !is_faster(join, nrows, nturns))
		return HJG_ERR_MEMORY;
	turns = calloc(1, sizeof(HjgCudaTurns));
	if (turns == NULL)
		return HJG_ERR_MEMORY;
	turns->segments = malloc((size_t) nsegments * sizeof(HjgSegment));
	if (turns->segments == NULL)
	{
		free(turns);
		return HJG_ERR_MEMORY;
	}
	memcpy(turns->segments, segments, (size_t) nsegments * sizeof(HjgSegment));
	turns->nsegments = nsegments;
	turns->nrows = nrows;
	turns->nturns = nturns;
	turns->device = join->device;
	turns->env = join->env;
	turns->spec = join->spec;
	join->turns = turns;
	return HJG_OK;
}

/* ---- one turn ---- */

static void
end_turn(HjgCudaTurns *turns)
{
	HjgJobStats stats = {0};

	if (turns->current == NULL)
		return;
	if (turns->current->lanes != NULL)
		hjg_cuda_join_stats(turns->current, &stats);
	hjg_stats_add(&turns->stats, &stats);
	hjg_cuda_release(turns->current);
	free(turns->current);
	turns->current = NULL;
}

/* Cut out the segments of a turn, in memory that the caller frees; NULL when there is none. */
static HjgSegment *
cut_segments(const HjgCudaTurns *turns, hjg_u32 turn, int *nsegments)
{
	const size_t width = (size_t) turns->spec.key_width;
	const hjg_u64 from = turns->nrows * turn / turns->nturns;
	const hjg_u64 to = turns->nrows * (turn + 1) / turns->nturns;
	HjgSegment *cut = malloc((size_t) turns->nsegments * sizeof(HjgSegment));
	hjg_u64		row = 0;

	*nsegments = 0;
	for (int i = 0; i < turns->nsegments && cut != NULL; i++)
	{
		const HjgSegment *segment = &turns->segments[i];
		const hjg_u64 begin = row > from ? row : from;
		const hjg_u64 end = row + segment->nrows < to ? row + segment->nrows : to;

		if (begin < end)
			cut[(*nsegments)++] = (HjgSegment) {
				.keys = (const char *) segment->keys + (begin - row) * width, .nrows = (hjg_u32) (end - begin),
				.first_row = segment->first_row + (hjg_u32) (begin - row)
			};
		row += segment->nrows;
	}
	return cut;
}

static HjgStatus
begin_turn(HjgCudaTurns *turns, hjg_u32 turn)
{
	HjgSegment *segments;
	HjgStatus	status = HJG_ERR_MEMORY;
	int			nsegments;

	if (turns->current != NULL && turns->at == turn)
		return HJG_OK;
	end_turn(turns);
	segments = cut_segments(turns, turn, &nsegments);
	turns->current = calloc(1, sizeof(HjgCudaJoin));
	if (segments != NULL && turns->current != NULL)
	{
		turns->current->device = turns->device;
		turns->current->env = turns->env;
		turns->current->spec = turns->spec;
		/* pairs change places below: nothing stands beside them */
		turns->current->spec.payload = (HjgPayloadBytes) {{0}};
		turns->current->spec.mode = turns->spec.mode == HJG_MATCH_ALL || turns->spec.mode == HJG_MATCH_LEFT ?
			HJG_MATCH_ALL : HJG_MATCH_SEMI;
		status = hjg_cuda_build_join(turns->current, segments, nsegments);
	}
	free(segments);
	if (status != HJG_OK)
		end_turn(turns);
	turns->at = turn;
	return status;
}

/* ---- the pairs of a round ---- */

static HjgPair *
pair_at(const HjgResult *result, hjg_u64 pos)
{
	return &result->pages[pos / result->page_pairs][pos % result->page_pairs];
}

static hjg_u64
sum_of(HjgPair pair)
{
	return hjg_checksum_pair(pair.probe_row, pair.build_row);
}

/* Keep the pairs of rows below end. */
static void
drop_behind(HjgResult *result, hjg_u64 end)
{
	hjg_u64		kept = 0;

	for (hjg_u64 i = 0; i < result->npairs; i++)
	{
		const HjgPair pair = *pair_at(result, i);

		if (pair.probe_row < end)
			*pair_at(result, kept++) = pair;
		else
			result->checksum -= sum_of(pair);
	}
	result->npairs = kept;
}

/*
 * Mark the rows of the pairs from place first on.  With one_each, pairs of rows that were marked before are
 * dropped.  False for a row that is none of the range.
 */
static bool
mark_rows(HjgCudaTurns *turns, HjgResult *result, hjg_u64 first, bool one_each, hjg_u64 row, hjg_u64 end)
{
	hjg_u64		kept = first;

	for (hjg_u64 i = first; i < result->npairs; i++)
	{
		const HjgPair pair = *pair_at(result, i);

		if (pair.probe_row < row || pair.probe_row >= end)
			return false;
		if (!one_each || turns->matched[pair.probe_row] == 0)
			*pair_at(result, kept++) = pair;
		else
			result->checksum -= sum_of(pair);
		turns->matched[pair.probe_row] = 1;
	}
	result->npairs = kept;
	return true;
}

/* Add rows of the range without a match; false when they do not fit. */
static bool
add_lonely(const HjgCudaTurns *turns, HjgResult *result, hjg_u64 capacity, hjg_u64 row, hjg_u64 end)
{
	for (; row < end; row++)
	{
		if (turns->matched[row])
			continue;
		if (result->npairs == capacity)
			return false;
		*pair_at(result, result->npairs++) = (HjgPair) {(hjg_u32) row, HJG_NO_ROW};
		result->checksum += sum_of((HjgPair) {(hjg_u32) row, HJG_NO_ROW});
	}
	return true;
}

/* ---- rounds ---- */

typedef struct TurnRound
{
	const HjgSegment *segments;
	int			nsegments;
	hjg_u64		row;
	hjg_u64		end;			/* of the range; less where a turn ended before it */
	hjg_u32		most;			/* HjgCursor, 0 or 1 */
	HjgResult  *result;
	hjg_u64		capacity;
} TurnRound;

/* Join one turn of the round.  *fits is false when no row of the range fits the result. */
static HjgStatus
join_turn(HjgCudaTurns *turns, TurnRound *round, hjg_u32 turn, bool *fits)
{
	const HjgMatchMode mode = round->most == 1 ? HJG_MATCH_SEMI : turns->spec.mode;
	const hjg_u64 first = round->result->npairs;
	const hjg_u64 checksum = round->result->checksum;
	HjgCursor	at = {.row = (hjg_u32) round->row, .most = round->most};
	HjgStatus	status = begin_turn(turns, turn);
	HjgStatus	drained;

	*fits = first < round->capacity;
	if (status != HJG_OK || !*fits)
		return status;
	status = hjg_cuda_probe_rows(turns->current, round->segments, round->nsegments, round->end, &at, round->result);
	drained = hjg_cuda_lanes_wait(turns->current->lanes);
	if (status == HJG_OK)
		status = drained;
	if (status == HJG_OK)
		status = hjg_cuda_send_end(turns->current, round->result);
	if (status != HJG_OK)
		return status;
	if (mode != HJG_MATCH_ALL && !mark_rows(turns, round->result, first, mode == HJG_MATCH_SEMI, round->row, round->end))
		return HJG_ERR_DEVICE;
	if (mode == HJG_MATCH_ANTI)
	{
		round->result->npairs = first;
		round->result->checksum = checksum;
	}
	if (at.row < round->end)
	{
		round->end = at.row;
		drop_behind(round->result, round->end);
		*fits = round->end > round->row;
	}
	return HJG_OK;
}

static HjgStatus
join_range(HjgCudaTurns *turns, TurnRound *round, bool *fits)
{
	HjgStatus	status = HJG_OK;

	round->result->npairs = 0;
	round->result->checksum = 0;
	memset(turns->matched + round->row, 0, round->end - round->row);
	*fits = true;
	for (hjg_u32 i = 0; i < turns->nturns && status == HJG_OK && *fits; i++)
		status = join_turn(turns, round, turns->backward ? turns->nturns - 1 - i : i, fits);
	turns->backward = turns->current != NULL && turns->at > 0;
	if (status == HJG_OK && *fits && (turns->spec.mode == HJG_MATCH_LEFT || turns->spec.mode == HJG_MATCH_ANTI))
		*fits = add_lonely(turns, round->result, round->capacity, round->row, round->end);
	return status;
}

HjgStatus
hjg_cuda_turns_probe(HjgCudaTurns *turns, const HjgSegment *segments, int nsegments, hjg_u64 nrows, HjgCursor *at,
					 HjgResult *result)
{
	const hjg_u64 capacity = (hjg_u64) result->npages * result->page_pairs;
	TurnRound		round = {
		.segments = segments, .nsegments = nsegments, .row = at->row, .most = at->most, .result = result, .capacity = capacity
	};
	hjg_u64		n = nrows - at->row;
	bool		fits = false;
	HjgStatus	status = HJG_OK;

	if (at->skip > 0 || at->most > 1)
		return HJG_ERR_MEMORY;
	if (nrows > turns->max_matched)
	{
		hjg_u8	   *matched = realloc(turns->matched, nrows);

		if (matched == NULL)
			return HJG_ERR_MEMORY;
		turns->matched = matched;
		turns->max_matched = nrows;
	}
	/* when every row has one match, there is always room for more */
	if (n > capacity - capacity / 16)
		n = capacity - capacity / 16;
	while (status == HJG_OK && !fits)
	{
		if (n == 0 || (n < LEAST_ROWS && n < nrows - at->row))
			return HJG_ERR_MEMORY;
		round.end = round.row + n;
		status = join_range(turns, &round, &fits);
		n /= 2;
	}
	if (status == HJG_OK)
		at->row = (hjg_u32) round.end;
	return status;
}

void
hjg_cuda_turns_stats(const HjgCudaTurns *turns, HjgJobStats *stats)
{
	HjgJobStats now = {0};

	*stats = turns->stats;
	if (turns->current != NULL)
	{
		hjg_cuda_join_stats(turns->current, &now);
		hjg_stats_add(stats, &now);
	}
	stats->npartitions = turns->nturns;
}

void
hjg_cuda_turns_close(HjgCudaTurns *turns)
{
	if (turns == NULL)
		return;
	end_turn(turns);
	free(turns->segments);
	free(turns->matched);
	free(turns);
}
