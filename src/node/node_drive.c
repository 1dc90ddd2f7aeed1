/*
 * node_drive.c
 *	  The phases of an execution, and the way from rows of the join to the node's result.
 *
 * Rows come a vector at a time. If nothing is evaluated above the join, each is a row of the node's result, unchanged.
 * Otherwise conditions are evaluated row by row; for candidates the join's conditions come first, which decide which rows
 * have a match.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/memutils.h"

#include "node/hjg_node.h"

/* ---------- vectors ---------- */

/* Empty the work context; all rows were returned. */
static void
forget_work(HjgJoinState *state)
{
	hjg_emit_forget(&state->emit);
	hjg_pairs_forget(&state->pairs);
	hjg_side_forget(&state->outer);
	hjg_side_forget(&state->inner);
	MemoryContextReset(state->execution.work_context);
}

static HjgPhase
first_phase(HjgFirstPass pass)
{
	switch (pass)
	{
		case HJG_FIRST_PASS_READY:
			return HJG_PHASE_PROBE;
		case HJG_FIRST_PASS_SPILLED:
			return HJG_PHASE_NEXT_PASS;
		default:
			return HJG_PHASE_DONE;
	}
}

static void
read_build_side(HjgJoinState *state)
{
	state->started = true;
	state->probe.most_counted = hjg_emit_most_counted(&state->emit);
	state->phase = first_phase(state->parallel != NULL ? hjg_parallel_build(state) : hjg_pass_first(&state->partitions));
	hjg_probe_open(&state->probe, NULL);
}

static HjgPhase
next_pass(HjgJoinState *state)
{
	/* the only pass is kept for a rescan */
	if (state->partitions.context == NULL)
		return HJG_PHASE_NULL_PROBE;
	hjg_probe_close(&state->probe);
	if (!hjg_pass_next(&state->partitions))
		return HJG_PHASE_NULL_PROBE;
	hjg_probe_open(&state->probe, state->partitions.current->probe);
	return HJG_PHASE_PROBE;
}

/* Make rows of the pairs. */
static void
emit_pairs(HjgJoinState *state)
{
	const HjgPairFilter *filter = state->terms.pair_filter;
	HjgPairVector *pairs = &state->pairs;
	HjgEmit    *emit = &state->emit;

	hjg_emit_pairs(emit, pairs);
	if (pairs->candidates && filter != NULL)
		hjg_pair_filter_rows(filter, emit->values, emit->isnull, emit->width, pairs->n, pairs->pass);
}

static bool
emit_unmatched_build(HjgJoinState *state)
{
	HjgPairVector *pairs = &state->pairs;

	hjg_pairs_prepare(pairs, state->execution.work_context);
	pairs->n = hjg_build_next_unmatched(&state->build, pairs->build, HJG_VECTOR_ROWS);
	if (pairs->n == 0)
		return false;
	pairs->candidates = false;
	pairs->rows[HJG_SIDE_PROBE] = (HjgNumberedRows) {NULL};
	pairs->rows[HJG_SIDE_BUILD] = hjg_stored_rows(state->build.rows);
	emit_pairs(state);
	return true;
}

static bool
emit_null_probe(HjgJoinState *state)
{
	HjgRow		row;

	if (!hjg_partitions_next_null(&state->partitions, &row))
		return false;
	state->pairs.candidates = false;
	hjg_emit_single(&state->emit, HJG_SIDE_PROBE, row.values, row.isnull);
	return true;
}

static bool
emit_null_build(HjgJoinState *state)
{
	const TupleTableSlot *slot = state->inner.payload.slot;

	if (!hjg_build_next_null(&state->build))
		return false;
	state->pairs.candidates = false;
	hjg_emit_single(&state->emit, HJG_SIDE_BUILD, slot->tts_values, slot->tts_isnull);
	return true;
}

/* Get the next rows of the join, before the node's filter; false at the end. */
static bool
next_phase_vector(HjgJoinState *state)
{
	for (;;)
	{
		switch (state->phase)
		{
			case HJG_PHASE_BUILD:
				read_build_side(state);
				break;

			case HJG_PHASE_PROBE:
				if (hjg_probe_next(&state->probe))
				{
					emit_pairs(state);
					return true;
				}
				state->phase = state->terms.preserved[HJG_SIDE_BUILD] && hjg_parallel_has_unmatched(state) ?
					HJG_PHASE_UNMATCHED_BUILD : HJG_PHASE_NEXT_PASS;
				break;

			case HJG_PHASE_UNMATCHED_BUILD:
				if (emit_unmatched_build(state))
					return true;
				state->phase = HJG_PHASE_NEXT_PASS;
				break;

			case HJG_PHASE_NEXT_PASS:
				state->phase = next_pass(state);
				break;

			case HJG_PHASE_NULL_PROBE:
				if (emit_null_probe(state))
					return true;
				state->phase = HJG_PHASE_NULL_BUILD;
				break;

			case HJG_PHASE_NULL_BUILD:
				if (emit_null_build(state))
					return true;
				state->phase = HJG_PHASE_DONE;
				break;

			case HJG_PHASE_DONE:
				if (state->verify != NULL)
					hjg_verify_end(state);
				if (!state->rescanned)
					forget_work(state);
				return false;
		}
	}
}

static bool
next_vector(HjgJoinState *state)
{
	if (!next_phase_vector(state))
		return false;
	/* rows of other vectors are noted one by one */
	if (unlikely(state->verify != NULL) && state->emit.direct)
		hjg_verify_note_vector(state);
	return true;
}

/* ---------- rows ---------- */

/* Point the slot at the next row of the vector. */
static inline TupleTableSlot *
next_row(HjgEmit *emit)
{
	TupleTableSlot *slot = emit->slot;
	int			at = emit->next++ * emit->width;

	/* the receiver of the last row may have materialized it */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	slot->tts_values = emit->values + at;
	slot->tts_isnull = emit->isnull + at;
	slot->tts_nvalid = emit->width;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	return slot;
}

/* Find the bits of the candidates' probe rows, and the bit of candidate i's. */
static inline uint64 *
candidate_bits(const HjgJoinState *state, int i, uint64 *bit)
{
	uint64		first;
	uint64	   *bits = hjg_match_bits(&state->match, state->probe.batches[0], &first);

	*bit = first + state->pairs.probe[i];
	return bits;
}

/* Skip the next candidate if the pair filter drops it. */
static inline bool
skip_candidate(HjgJoinState *state)
{
	int			i = state->emit.next;
	uint64		bit;
	const uint64 *bits;

	if (state->pairs.pass[i])
		return false;
	state->emit.next++;
	bits = candidate_bits(state, i, &bit);
	/* for a row that needs no further match the conditions are not evaluated */
	if (!state->match.first_match || !hjg_test_bit(bits, bit))
		InstrCountFiltered2(state, 1);
	return true;
}

/*
 * Decide whether the candidate in the slot, the one of the last next_row(), is a result row. Sets the bits of both rows if it
 * is a match.
 */
static inline bool
accept_candidate(HjgJoinState *state)
{
	const HjgJoinTerms *terms = &state->terms;
	const HjgMatch *match = &state->match;
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	int			i = state->emit.next - 1;
	uint32		build_row = state->pairs.build[i];
	uint64		bit = 0;
	uint64	   *bits = match->on_host ? candidate_bits(state, i, &bit) : NULL;

	if (match->first_match && hjg_test_bit(bits, bit))
		return false;
	if (HJG_IS_BUILD_ONLY(terms->jointype) && hjg_test_bit(match->build_bits, build_row))
		return false;
	if (terms->recheck_qual != NULL && !ExecQual(terms->recheck_qual, econtext))
		return false;
	if (terms->join_qual != NULL && !ExecQual(terms->join_qual, econtext))
	{
		InstrCountFiltered2(state, 1);
		return false;
	}
	return hjg_match_settle(match, bits, bit, build_row);
}

/* Put the next row of the vector that passes all quals into the slot; false when there is none left. */
static bool
next_passing(HjgJoinState *state)
{
	PlanState  *ps = &state->css.ss.ps;
	ExprContext *econtext = ps->ps_ExprContext;
	HjgEmit    *emit = &state->emit;
	const bool	candidates = state->pairs.candidates;

	while (emit->next < emit->n)
	{
		if (candidates && state->terms.pair_filter != NULL && skip_candidate(state))
			continue;
		econtext->ecxt_scantuple = next_row(emit);
		if (emit->direct)
			return true;

		ResetExprContext(econtext);
		if (candidates && !accept_candidate(state))
			continue;
		if (ps->qual != NULL && !ExecQual(ps->qual, econtext))
		{
			InstrCountFiltered1(ps, 1);
			continue;
		}
		if (unlikely(state->verify != NULL))
			hjg_verify_note_row(state);
		return true;
	}
	return false;
}

/* Get the next row of the node's result, from a new vector if the last one is used up. */
static pg_noinline TupleTableSlot *
next_result(HjgJoinState *state)
{
	ProjectionInfo *projection = state->css.ss.ps.ps_ProjInfo;
	HjgEmit    *emit = &state->emit;

	while (!next_passing(state))
		if (!next_vector(state))
			return ExecClearTuple(projection != NULL ? projection->pi_state.resultslot : emit->slot);
	return projection != NULL && !emit->direct ? ExecProject(projection) : emit->slot;
}

/* Return the next row; rows that need no evaluation take no further call. */
TupleTableSlot *
hjg_drive_exec(CustomScanState *node)
{
	HjgJoinState *state = (HjgJoinState *) node;

	if (state->emit.direct && likely(state->emit.next < state->emit.n))
		return next_row(&state->emit);
	return next_result(state);
}

/* Copy the vector's rows that pass to the output vectors; returns their number. */
static int
take_passing(HjgJoinState *state)
{
	int			n = 0;

	for (; next_passing(state); n++)
		hjg_emit_put_row(&state->emit, n);
	return n;
}

int
hjg_drive_next_vectors(void *arg)
{
	HjgJoinState *state = arg;
	HjgEmit    *emit = &state->emit;

	while (next_vector(state))
	{
		int			n = emit->columnar ? emit->n : take_passing(state);

		emit->next = emit->n;
		if (n > 0)
			return n;
	}
	return 0;
}
