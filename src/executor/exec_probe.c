/*
 * exec_probe.c
 *	  Filling probe batches, and turning results into rows of the scan slot.
 *
 * Rows are gathered from the row stores HJG_VECTOR_ROWS at a time, column by
 * column, so that cache misses overlap, and handed out one by one.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "executor/hjg_executor.h"

/*
 * Rows of the first batch and of the largest.  Batches start small so that the first
 * row comes early, and grow, because every batch streams the build side's
 * tables through the engine's caches.
 */
#define FIRST_BATCH_ROWS 2048
#define LAST_BATCH_ROWS (512 * 1024)
#define BATCH_GROWTH 4

/* However little memory there is, a batch has so many rows. */
#define MIN_BATCH_ROWS 256

static inline bool
test_bit(const uint64 *bits, uint64 i)
{
	return (bits[i >> 6] >> (i & 63)) & 1;
}

static inline void
set_bit(uint64 *bits, uint64 i)
{
	bits[i >> 6] |= UINT64CONST(1) << (i & 63);
}

/* ---------- filling ---------- */

static HjgProbeBatch *
empty_batch(HjgJoinState *state)
{
	HjgProbeBatch *batch;

	if (state->nspare > 0)
		return state->spare[--state->nspare];
	batch = hjg_run_batch_create(state->run);
	batch->rows = hjg_store_create(state->run->context, state->outer.ncarried, state->outer.columns,
								   hjg_chunk_rows(&state->outer, state->outer.plan->plan->plan_rows));
	return batch;
}

static bool
next_probe_row(HjgJoinState *state, HjgRow *row)
{
	if (state->current != NULL)
		return hjg_side_next_spilled(&state->outer, state->current->probe, row);
	return hjg_side_next(state, &state->outer, row);
}

static void
keep_null_probe(HjgJoinState *state, HjgProbeBatch *batch, const HjgRow *row)
{
	if (!state->outer.preserved)
		return;
	if (batch->null_rows == NULL)
		batch->null_rows = hjg_store_create(state->run->context, state->outer.ncarried,
											state->outer.columns, 1);
	hjg_store_append(batch->null_rows, row->source, row->values, row->isnull);
}

/* Of keys their own bytes count, not the slab that they begin to fill. */
static size_t
batch_bytes(const HjgRun *run, const HjgProbeBatch *batch)
{
	return hjg_store_bytes(batch->rows) + (size_t) batch->keys.nrows * run->key_width +
		(batch->null_rows != NULL ? hjg_store_bytes(batch->null_rows) : 0);
}

/* Read probe rows into a batch; it may end up empty. */
static HjgProbeBatch *
fill_batch(HjgJoinState *state)
{
	HjgRun	   *run = state->run;
	HjgProbeBatch *batch = empty_batch(state);
	uint64		max_bytes = get_hash_memory_limit() / 8;
	bool		timing = hjg_exec_timing(state);
	uint64		start = timing ? hjg_now_ns() : 0;
	uint32		nread = 0;
	HjgRow		row;

	state->batch_rows = state->batch_rows == 0 ? FIRST_BATCH_ROWS :
		Min(state->batch_rows * BATCH_GROWTH, LAST_BATCH_ROWS);
	hjg_run_consider_job(run, state->probe_row);

	batch->first_row = state->probe_row;
	while (nread < state->batch_rows)
	{
		if (!next_probe_row(state, &row))
		{
			state->probe_done = true;
			break;
		}
		nread++;
		if (row.key == NULL)
			keep_null_probe(state, batch, &row);
		else
		{
			memcpy(hjg_run_batch_key(run, batch), row.key, run->key_width);
			hjg_store_append(batch->rows, row.source, row.values, row.isnull);
		}
		if (nread % 64 == 0)
		{
			CHECK_FOR_INTERRUPTS();
			if (nread >= MIN_BATCH_ROWS && batch_bytes(run, batch) > max_bytes)
				break;
		}
	}
	state->probe_row += batch->keys.nrows;
	state->report.probe_rows += batch->keys.nrows;

	/* chunk_matched has the bits when a partition is joined in chunks */
	if (state->host_fate && state->chunk_matched == NULL)
	{
		if (batch->matched != NULL)
			pfree(batch->matched);
		batch->matched = MemoryContextAllocZero(run->context,
												((Size) batch->keys.nrows / 64 + 1) * sizeof(uint64));
	}
	if (timing)
		state->report.times.marshal_probe_ns += hjg_now_ns() - start;
	return batch;
}

/*
 * Keep the device process busy: fill and submit as many batches as may be under
 * way.  The backend's own engine joins one at a time.
 */
static void
fill_pipeline(HjgJoinState *state)
{
	HjgRun	   *run = state->run;

	while (!state->probe_done &&
		   state->nbatches < (run->job != NULL && !run->job_lost ? HJG_BATCHES_IN_FLIGHT : 1))
	{
		HjgProbeBatch *batch = fill_batch(state);

		state->batches[state->nbatches++] = batch;
		hjg_run_batch_submit(run, batch);
	}
}

/* The oldest batch is done with. */
static void
retire_batch(HjgJoinState *state)
{
	HjgProbeBatch *batch = state->batches[0];

	hjg_run_batch_reset(state->run, batch);
	hjg_store_reset(batch->rows);
	if (batch->null_rows != NULL)
		hjg_store_reset(batch->null_rows);
	state->nbatches--;
	memmove(&state->batches[0], &state->batches[1], state->nbatches * sizeof(state->batches[0]));
	state->spare[state->nspare++] = batch;
	state->pair_next = 0;
	state->tail_next = 0;
	state->null_next = 0;
}

void
hjg_probe_reset(HjgJoinState *state)
{
	while (state->nbatches > 0)
		retire_batch(state);
	state->vector_n = state->vector_next = 0;
	state->probe_done = false;
	state->probe_row = 0;
	state->batch_rows = 0;
	state->unmatched_next = 0;
}

/* ---------- gathering ---------- */

/*
 * Bits of the oldest batch's rows and where they start, or NULL.
 */
static inline uint64 *
matched_bits(const HjgJoinState *state, const HjgProbeBatch *batch, uint64 *first)
{
	if (state->chunk_matched != NULL)
	{
		*first = batch->first_row;
		return state->chunk_matched;
	}
	*first = 0;
	return batch->matched;
}

/* Gather the n rows in vector_probe and vector_build; NULL stores give NULLs. */
static void
gather_vector(HjgJoinState *state, const HjgStore *probe_rows, const HjgStore *build_rows, int n)
{
	CHECK_FOR_INTERRUPTS();
	if (probe_rows != NULL)
		hjg_store_gather(probe_rows, state->vector_probe, n, state->outer.identity, state->outer.ncarried,
						 state->outer_values, state->outer_isnull);
	else
		memset(state->outer_isnull, true, n * state->outer.ncarried * sizeof(bool));
	if (build_rows != NULL)
		hjg_store_gather(build_rows, state->vector_build, n, state->inner.identity, state->inner.ncarried,
						 state->inner_values, state->inner_isnull);
	else
		memset(state->inner_isnull, true, n * state->inner.ncarried * sizeof(bool));
	state->vector_n = n;
	state->vector_next = 0;
}

/* Put gathered row i into the scan slot. */
static inline void
load_row(HjgJoinState *state, int i)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
	const HjgSide *outer = &state->outer;
	const HjgSide *inner = &state->inner;
	int			at;

	/* whoever got the last row may have materialized it */
	if (TTS_SHOULDFREE(slot))
		ExecClearTuple(slot);
	at = i * outer->ncarried;
	for (int c = 0; c < outer->ncarried; c++)
	{
		slot->tts_values[outer->scan_ix[c]] = state->outer_values[at + c];
		slot->tts_isnull[outer->scan_ix[c]] = state->outer_isnull[at + c];
	}
	at = i * inner->ncarried;
	for (int c = 0; c < inner->ncarried; c++)
	{
		slot->tts_values[inner->scan_ix[c]] = state->inner_values[at + c];
		slot->tts_isnull[inner->scan_ix[c]] = state->inner_isnull[at + c];
	}
	if (TTS_EMPTY(slot))
		ExecStoreVirtualTuple(slot);
}

/*
 * The one candidate of gathered pair i has another key with the same hash.  Try
 * all build rows with that hash; leaves the first that matches in the scan slot.  Hashes
 * have 64 bits but for types with just a 32-bit function, so this is rare.
 */
static bool
find_other_candidate(HjgJoinState *state, int i)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
	const HjgSide *inner = &state->inner;
	const HjgKeyBuffer *probe = &state->batches[0]->keys;
	const HjgKeyBuffer *build = &state->run->build;
	int			width = state->run->key_width;
	Datum	   *values = palloc(Max(inner->ncarried, 1) * sizeof(Datum));
	bool	   *isnull = palloc(Max(inner->ncarried, 1) * sizeof(bool));
	const char *key = NULL;
	bool		found = false;

	for (int s = 0; s < probe->nsegments && key == NULL; s++)
	{
		uint32		at = state->vector_probe[i] - probe->segments[s].first_row;

		if (state->vector_probe[i] >= probe->segments[s].first_row && at < probe->segments[s].nrows)
			key = probe->segments[s].keys + (size_t) at * width;
	}
	if (key == NULL)
		elog(ERROR, "probe row %u is in no segment", state->vector_probe[i]);

	for (int s = 0; s < build->nsegments && !found; s++)
	{
		const HjgKeySegment *segment = &build->segments[s];

		for (uint32 at = 0; at < segment->nrows && !found; at++)
		{
			uint32		row = segment->first_row + at;

			if ((at & 0xFFFF) == 0)
				CHECK_FOR_INTERRUPTS();
			if (memcmp(segment->keys + (size_t) at * width, key, width) != 0 || row == state->vector_build[i])
				continue;
			hjg_store_gather(state->build_rows, &row, 1, inner->identity, inner->ncarried, values, isnull);
			for (int c = 0; c < inner->ncarried; c++)
			{
				slot->tts_values[inner->scan_ix[c]] = values[c];
				slot->tts_isnull[inner->scan_ix[c]] = isnull[c];
			}
			ResetExprContext(econtext);
			found = ExecQual(state->recheck_qual, econtext);
		}
	}
	pfree(values);
	pfree(isnull);
	return found;
}

/*
 * Is gathered pair i a match whose row comes out?  Sets the bits of both rows.
 * Leaves the row in the scan slot if so.
 */
static inline bool
accept_pair(HjgJoinState *state, int i)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	uint32		build_row = state->vector_build[i];
	uint64		first = 0;
	uint64	   *bits;

	/* the engine has decided that this row has no match */
	if (build_row == HJG_NO_ROW)
	{
		load_row(state, i);
		return true;
	}
	bits = state->host_fate ? matched_bits(state, state->batches[0], &first) : NULL;
	if (state->jointype == JOIN_SEMI && bits != NULL && test_bit(bits, first + state->vector_probe[i]))
		return false;

	load_row(state, i);
	if (state->recheck_qual != NULL || state->join_qual != NULL)
	{
		ResetExprContext(econtext);
		econtext->ecxt_scantuple = state->css.ss.ss_ScanTupleSlot;
		if (state->recheck_qual != NULL && !ExecQual(state->recheck_qual, econtext) &&
			!(state->first_candidate && find_other_candidate(state, i)))
			return false;
		if (state->join_qual != NULL && !ExecQual(state->join_qual, econtext))
		{
			InstrCountFiltered2(state, 1);
			return false;
		}
	}
	if (bits != NULL)
		set_bit(bits, first + state->vector_probe[i]);
	if (state->build_matched != NULL)
		set_bit(state->build_matched, build_row);
	return state->jointype != JOIN_ANTI;
}

static void
bad_pair(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a hash join result changed after it was checked")));
}

/*
 * The next pairs of the oldest batch's round.  The round was checked as a whole when it
 * was complete; the row numbers are compared once more here, where they are copied out of
 * memory that the device process can write to, because they become addresses.
 */
static void
gather_pairs(HjgJoinState *state, HjgProbeBatch *batch)
{
	uint32		probe_rows = batch->keys.nrows;
	uint32		build_rows = state->run->build.nrows;
	int			n = 0;

	while (n < HJG_VECTOR_ROWS && state->pair_next < batch->npairs)
	{
		HjgPair    *page = batch->pages[state->pair_next / batch->page_pairs];
		uint32		at = state->pair_next % batch->page_pairs;
		uint32		count = Min(batch->page_pairs - at, batch->npairs - state->pair_next);

		count = Min(count, HJG_VECTOR_ROWS - n);
		for (uint32 i = 0; i < count; i++)
		{
			HjgPair		pair = *(volatile HjgPair *) &page[at + i];

			if (unlikely(pair.probe_row >= probe_rows ||
						 (pair.build_row >= build_rows && pair.build_row != HJG_NO_ROW)))
				bad_pair();
			state->vector_probe[n + i] = pair.probe_row;
			state->vector_build[n + i] = pair.build_row;
		}
		n += count;
		state->pair_next += count;
	}
	state->vector_pairs = true;
	gather_vector(state, batch->rows, state->build_rows, n);
}

/* The next rows of the oldest batch that stayed without a match; false if none. */
static bool
gather_unmatched_probe(HjgJoinState *state, HjgProbeBatch *batch)
{
	uint64		first;
	const uint64 *bits = matched_bits(state, batch, &first);
	int			n = 0;

	while (n < HJG_VECTOR_ROWS && state->tail_next < batch->keys.nrows)
	{
		if (!test_bit(bits, first + state->tail_next))
			state->vector_probe[n++] = state->tail_next;
		state->tail_next++;
	}
	if (n == 0)
		return false;
	state->vector_pairs = false;
	gather_vector(state, batch->rows, NULL, n);
	return true;
}

/* The next rows of the oldest batch that have a NULL key; false if none. */
static bool
gather_null_probe(HjgJoinState *state, HjgProbeBatch *batch)
{
	int			n = 0;

	if (batch->null_rows == NULL)
		return false;
	while (n < HJG_VECTOR_ROWS && state->null_next < hjg_store_nrows(batch->null_rows))
		state->vector_probe[n++] = state->null_next++;
	if (n == 0)
		return false;
	state->vector_pairs = false;
	gather_vector(state, batch->null_rows, NULL, n);
	return true;
}

/* Gather rows of the oldest batch, or of the next one with any; false at the end. */
static bool
next_vector(HjgJoinState *state)
{
	for (;;)
	{
		HjgProbeBatch *batch;

		fill_pipeline(state);
		if (state->nbatches == 0)
			return false;
		batch = state->batches[0];

		if (state->pair_next < batch->npairs)
		{
			gather_pairs(state, batch);
			return true;
		}
		if (!batch->finished)
		{
			hjg_run_batch_round(state->run, batch);
			state->pair_next = 0;
			continue;
		}
		if (state->host_fate && state->outer.preserved && state->last_chunk &&
			gather_unmatched_probe(state, batch))
			return true;
		if (gather_null_probe(state, batch))
			return true;
		retire_batch(state);
	}
}

/* ---------- emitting ---------- */

bool
hjg_probe_next(HjgJoinState *state)
{
	/* nothing can come of the probe side then; do not even read it */
	if (state->run->build.nrows == 0 && !state->outer.preserved)
		return false;

	for (;;)
	{
		while (state->vector_next < state->vector_n)
		{
			int			i = state->vector_next++;

			if (!state->vector_pairs)
			{
				load_row(state, i);
				return true;
			}
			if (accept_pair(state, i))
				return true;
		}
		if (!next_vector(state))
			return false;
	}
}

bool
hjg_unmatched_build_next(HjgJoinState *state)
{
	uint32		nrows = state->run->build.nrows;
	int			n = 0;

	if (state->vector_next == state->vector_n)
	{
		while (n < HJG_VECTOR_ROWS && state->unmatched_next < nrows)
		{
			if (!test_bit(state->build_matched, state->unmatched_next))
				state->vector_build[n++] = state->unmatched_next;
			if ((++state->unmatched_next & 0xFFFFF) == 0)
				CHECK_FOR_INTERRUPTS();
		}
		if (n == 0)
			return false;
		gather_vector(state, NULL, state->build_rows, n);
	}
	load_row(state, state->vector_next++);
	return true;
}

/* Fill the scan slot with the carried columns of one side and NULLs of the other. */
static void
load_single(HjgJoinState *state, const HjgSide *side, const HjgSide *other, const Datum *values,
			const bool *isnull)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	for (int c = 0; c < side->ncarried; c++)
	{
		slot->tts_values[side->scan_ix[c]] = values[c];
		slot->tts_isnull[side->scan_ix[c]] = isnull[c];
	}
	for (int c = 0; c < other->ncarried; c++)
	{
		slot->tts_values[other->scan_ix[c]] = (Datum) 0;
		slot->tts_isnull[other->scan_ix[c]] = true;
	}
	ExecStoreVirtualTuple(slot);
}

bool
hjg_null_probe_next(HjgJoinState *state)
{
	HjgRow		row;

	if (state->null_probe == NULL || !hjg_side_next_spilled(&state->outer, state->null_probe, &row))
		return false;
	load_single(state, &state->outer, &state->inner, row.values, row.isnull);
	return true;
}

bool
hjg_null_build_next(HjgJoinState *state)
{
	TupleTableSlot *slot = state->inner.spill_slot;

	if (state->null_build == NULL || !tuplestore_gettupleslot(state->null_build, true, false, slot))
		return false;
	slot_getallattrs(slot);
	load_single(state, &state->inner, &state->outer, slot->tts_values, slot->tts_isnull);
	return true;
}
