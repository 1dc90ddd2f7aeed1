/*
 * device_cuda_passes.c
 *	  Build sides larger than the device's memory: joined in several passes, from the arena.
 *
 * The build rows are divided into passes that fit the budget.  A round takes a range of probe rows and
 * joins it with one pass after the other.  Each pass is an ordinary join of the driver
 * (device_cuda_build.c) with its own admission; the last pass of a round is the first of the next.  So one
 * pass occupies device memory at a time, and only the build side's segments in the arena are kept.
 *
 * A row may have matches in several passes, so the modes are completed here, from the pairs in the result:
 * ALL keeps all pairs; SEMI drops pairs of rows that were matched before; LEFT and ANTI add the rows
 * without a match at the end of the round.  When a pass ends before the range, the round ends there too,
 * and pairs of later rows are dropped.
 *
 * The cpu engine joins a row whose matches do not fit a result, and slices of several matches (HjgCursor):
 * HJG_ERR_MEMORY, as for everything that does not fit.  It also takes joins for which sending the build
 * side again for each batch is predicted to take longer than the cpu engine's join of the batch.
 */
#include <stdlib.h>
#include <string.h>

#include "device/hjg_cuda_join.h"
#include "layout/hjg_checksum.h"
#include "model/hjg_cuda_model.h"

#define LEAST_ROWS 64			/* of a range; below, the cpu engine is better */
#define MOST_PASSES 1024

struct HjgCudaBuildPasses
{
	HjgCudaDevice *device;
	const HjgEnv *env;
	HjgJoinSpec spec;			/* of the whole join */
	HjgSegment *segments;		/* of the build side, ascending */
	int			nsegments;
	hjg_u64		nrows;
	hjg_u32		npasses;
	HjgCudaJoin *current;		/* the join of pass at, or NULL */
	hjg_u32		at;
	bool		backward;		/* of the next round */
	hjg_u8	   *matched;		/* by row of the batch: has a match in this round */
	hjg_u64		max_matched;
	HjgJobStats stats;			/* of passes that have ended */
};

/* ---- which passes ---- */

/* Find the fewest passes that fit the budget; 0: none do. */
static hjg_u32
passes_that_fit(HjgCudaJoin *join, hjg_u64 nrows)
{
	hjg_u32		npasses = 2;

	while (npasses <= MOST_PASSES && !hjg_cuda_build_fits(join, nrows / npasses + 1))
		npasses++;
	return npasses <= MOST_PASSES && npasses < nrows ? npasses : 0;
}

/* True if passes are expected to join a batch faster than the cpu engine. */
static bool
is_faster(const HjgCudaJoin *join, hjg_u64 nrows, hjg_u32 npasses)
{
	const HjgCudaJoinSize size = {
		.key_width = join->spec.key_width, .build_rows = (double) nrows / npasses, .probe_rows = HJG_LARGEST_BATCH_ROWS,
		.chunk_rows = HJG_LARGEST_BATCH_ROWS, .pairs = (double) HJG_LARGEST_BATCH_ROWS / npasses, .l2_bytes = (double) join->device->l2_bytes
	};
	const HjgUnitCosts costs = hjg_cuda_costs(join->device);
	HjgCudaPrediction pass;

	return hjg_model_cuda_predict(&costs.cuda, &size, HJG_CUDA_CSR, &pass) &&
		npasses * (pass.in_ns + pass.build_ns + pass.probe_ns + pass.out_ns) <
		HJG_LARGEST_BATCH_ROWS * costs.probe_tuple_ns / hjg_pool_nthreads(join->env->pool);
}

HjgStatus
hjg_cuda_passes_open(HjgCudaJoin *join, const HjgSegment *segments, int nsegments)
{
	HjgCudaBuildPasses *passes;
	hjg_u64		nrows = 0;
	hjg_u32		npasses;

	for (int i = 0; i < nsegments; i++)
		nrows += segments[i].nrows;
	/* a build side that would fit failed for another reason */
	if (nrows == 0 || nrows > HJG_MAX_BUILD_ROWS || hjg_cuda_build_fits(join, nrows))
		return HJG_ERR_MEMORY;
	npasses = passes_that_fit(join, nrows);
	if (npasses == 0 || !is_faster(join, nrows, npasses))
		return HJG_ERR_MEMORY;
	passes = calloc(1, sizeof(HjgCudaBuildPasses));
	if (passes == NULL)
		return HJG_ERR_MEMORY;
	passes->segments = malloc((size_t) nsegments * sizeof(HjgSegment));
	if (passes->segments == NULL)
	{
		free(passes);
		return HJG_ERR_MEMORY;
	}
	memcpy(passes->segments, segments, (size_t) nsegments * sizeof(HjgSegment));
	passes->nsegments = nsegments;
	passes->nrows = nrows;
	passes->npasses = npasses;
	passes->device = join->device;
	passes->env = join->env;
	passes->spec = join->spec;
	join->passes = passes;
	return HJG_OK;
}

/* ---- one pass ---- */

static void
end_pass(HjgCudaBuildPasses *passes)
{
	HjgJobStats stats = {0};

	if (passes->current == NULL)
		return;
	if (passes->current->streams != NULL)
		hjg_cuda_join_stats(passes->current, &stats);
	hjg_stats_add(&passes->stats, &stats);
	hjg_cuda_release(passes->current);
	free(passes->current);
	passes->current = NULL;
}

/* Cut the segments of a pass, in memory that the caller frees; NULL without memory. */
static HjgSegment *
cut_segments(const HjgCudaBuildPasses *passes, hjg_u32 pass, int *nsegments)
{
	const size_t width = (size_t) passes->spec.key_width;
	const hjg_u64 from = passes->nrows * pass / passes->npasses;
	const hjg_u64 to = passes->nrows * (pass + 1) / passes->npasses;
	HjgSegment *cut = malloc((size_t) passes->nsegments * sizeof(HjgSegment));
	hjg_u64		row = 0;

	*nsegments = 0;
	for (int i = 0; i < passes->nsegments && cut != NULL; i++)
	{
		const HjgSegment *segment = &passes->segments[i];
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
begin_pass(HjgCudaBuildPasses *passes, hjg_u32 pass)
{
	HjgSegment *segments;
	HjgStatus	status = HJG_ERR_MEMORY;
	int			nsegments;

	if (passes->current != NULL && passes->at == pass)
		return HJG_OK;
	end_pass(passes);
	segments = cut_segments(passes, pass, &nsegments);
	passes->current = calloc(1, sizeof(HjgCudaJoin));
	if (segments != NULL && passes->current != NULL)
	{
		passes->current->device = passes->device;
		passes->current->env = passes->env;
		passes->current->spec = passes->spec;
		/* pairs are moved below, so they must not have columns */
		passes->current->spec.payload = (HjgPayloadBytes) {{0}};
		passes->current->spec.mode = passes->spec.mode == HJG_MATCH_ALL || passes->spec.mode == HJG_MATCH_LEFT ?
			HJG_MATCH_ALL : HJG_MATCH_SEMI;
		status = hjg_cuda_build_join(passes->current, segments, nsegments);
	}
	free(segments);
	if (status != HJG_OK)
		end_pass(passes);
	passes->at = pass;
	return status;
}

/* ---- the pairs of a round ---- */

static HjgPair *
pair_at(const HjgResult *result, hjg_u64 pos)
{
	return &result->pages[pos / result->page_pairs][pos % result->page_pairs];
}

static hjg_u64
checksum_of_pair(HjgPair pair)
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
			result->checksum -= checksum_of_pair(pair);
	}
	result->npairs = kept;
}

/*
 * Mark the rows of the pairs from position first on.  With one_each, drop pairs of rows that were already
 * marked.  False for a row outside the range.
 */
static bool
mark_rows(HjgCudaBuildPasses *passes, HjgResult *result, hjg_u64 first, bool one_each, hjg_u64 row, hjg_u64 end)
{
	hjg_u64		kept = first;

	for (hjg_u64 i = first; i < result->npairs; i++)
	{
		const HjgPair pair = *pair_at(result, i);

		if (pair.probe_row < row || pair.probe_row >= end)
			return false;
		if (!one_each || passes->matched[pair.probe_row] == 0)
			*pair_at(result, kept++) = pair;
		else
			result->checksum -= checksum_of_pair(pair);
		passes->matched[pair.probe_row] = 1;
	}
	result->npairs = kept;
	return true;
}

/* Append the rows of the range without a match; false when they do not fit. */
static bool
add_lonely(const HjgCudaBuildPasses *passes, HjgResult *result, hjg_u64 capacity, hjg_u64 row, hjg_u64 end)
{
	for (; row < end; row++)
	{
		if (passes->matched[row])
			continue;
		if (result->npairs == capacity)
			return false;
		*pair_at(result, result->npairs++) = (HjgPair) {(hjg_u32) row, HJG_NO_ROW};
		result->checksum += checksum_of_pair((HjgPair) {(hjg_u32) row, HJG_NO_ROW});
	}
	return true;
}

/* ---- rounds ---- */

typedef struct PassRound
{
	const HjgSegment *segments;
	int			nsegments;
	hjg_u64		row;
	hjg_u64		end;			/* of the range; less if a pass ended early */
	hjg_u32		most;			/* HjgCursor, 0 or 1 */
	HjgResult  *result;
	hjg_u64		capacity;
} PassRound;

/* Join one pass of the round. *fits is false when the result has no room for any row of the range. */
static HjgStatus
join_pass(HjgCudaBuildPasses *passes, PassRound *round, hjg_u32 pass, bool *fits)
{
	const HjgMatchMode mode = round->most == 1 ? HJG_MATCH_SEMI : passes->spec.mode;
	const hjg_u64 first = round->result->npairs;
	const hjg_u64 checksum = round->result->checksum;
	HjgCursor	at = {.row = (hjg_u32) round->row, .most = round->most};
	HjgStatus	status = begin_pass(passes, pass);
	HjgStatus	drained;

	*fits = first < round->capacity;
	if (status != HJG_OK || !*fits)
		return status;
	status = hjg_cuda_probe_rows(passes->current, round->segments, round->nsegments, round->end, &at, round->result);
	drained = hjg_cuda_streams_wait(passes->current->streams);
	if (status == HJG_OK)
		status = drained;
	if (status == HJG_OK)
		status = hjg_cuda_send_end(passes->current, round->result);
	if (status != HJG_OK)
		return status;
	if (mode != HJG_MATCH_ALL && !mark_rows(passes, round->result, first, mode == HJG_MATCH_SEMI, round->row, round->end))
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
join_range(HjgCudaBuildPasses *passes, PassRound *round, bool *fits)
{
	HjgStatus	status = HJG_OK;

	round->result->npairs = 0;
	round->result->checksum = 0;
	memset(passes->matched + round->row, 0, round->end - round->row);
	*fits = true;
	for (hjg_u32 i = 0; i < passes->npasses && status == HJG_OK && *fits; i++)
		status = join_pass(passes, round, passes->backward ? passes->npasses - 1 - i : i, fits);
	passes->backward = passes->current != NULL && passes->at > 0;
	if (status == HJG_OK && *fits && (passes->spec.mode == HJG_MATCH_LEFT || passes->spec.mode == HJG_MATCH_ANTI))
		*fits = add_lonely(passes, round->result, round->capacity, round->row, round->end);
	return status;
}

HjgStatus
hjg_cuda_passes_probe(HjgCudaBuildPasses *passes, const HjgSegment *segments, int nsegments, hjg_u64 nrows, HjgCursor *at,
					 HjgResult *result)
{
	const hjg_u64 capacity = (hjg_u64) result->npages * result->page_pairs;
	PassRound		round = {
		.segments = segments, .nsegments = nsegments, .row = at->row, .most = at->most, .result = result, .capacity = capacity
	};
	hjg_u64		n = nrows - at->row;
	bool		fits = false;
	HjgStatus	status = HJG_OK;

	if (at->skip > 0 || at->most > 1)
		return HJG_ERR_MEMORY;
	if (nrows > passes->max_matched)
	{
		hjg_u8	   *matched = realloc(passes->matched, nrows);

		if (matched == NULL)
			return HJG_ERR_MEMORY;
		passes->matched = matched;
		passes->max_matched = nrows;
	}
	/* leave room, for rows that have more than one match */
	if (n > capacity - capacity / 16)
		n = capacity - capacity / 16;
	while (status == HJG_OK && !fits)
	{
		if (n == 0 || (n < LEAST_ROWS && n < nrows - at->row))
			return HJG_ERR_MEMORY;
		round.end = round.row + n;
		status = join_range(passes, &round, &fits);
		n /= 2;
	}
	if (status == HJG_OK)
		at->row = (hjg_u32) round.end;
	return status;
}

void
hjg_cuda_passes_stats(const HjgCudaBuildPasses *passes, HjgJobStats *stats)
{
	HjgJobStats now = {0};

	*stats = passes->stats;
	if (passes->current != NULL)
	{
		hjg_cuda_join_stats(passes->current, &now);
		hjg_stats_add(stats, &now);
	}
	stats->npartitions = passes->npasses;
}

void
hjg_cuda_passes_close(HjgCudaBuildPasses *passes)
{
	if (passes == NULL)
		return;
	end_pass(passes);
	free(passes->segments);
	free(passes->matched);
	free(passes);
}
