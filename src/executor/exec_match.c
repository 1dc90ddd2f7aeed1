/*
 * exec_match.c
 *	  Which of the pairs that the engine returns are matches, and which rows are decided by them.
 *
 * Pairs of a round are copied to the vector, HJG_VECTOR_ROWS at a time, as row numbers.  Keys are compared there once more
 * if they are not exact (exec_recheck.c).  Without residual quals a pair is a match then, and has the bits of its rows set;
 * otherwise that is done pair by pair, when the quals have been evaluated.  Pairs of probe rows that are decided, and of
 * anti joins, are dropped.
 *
 * Nothing is gathered here: exec_emit.c makes rows of what stays in the vector.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"

#include "base/hjg_compat.h"
#include "executor/hjg_bits.h"
#include "executor/hjg_node.h"

HjgMatchMode
hjg_match_start(HjgMatch *match)
{
	const HjgProgram *program = match->program;
	const bool	uncertain = program->recheck != NULL || program->residual || match->probe_bits != NULL;

	match->first_match = uncertain &&
		(program->jointype == JOIN_SEMI || program->jointype == JOIN_ANTI || program->inner_unique);
	match->on_host = match->first_match || (uncertain && program->probe_preserved);
	if (match->on_host)
		return HJG_MATCH_ALL;
	switch (program->jointype)
	{
		case JOIN_LEFT:
		case JOIN_FULL:
			return HJG_MATCH_LEFT;
		case JOIN_SEMI:
			return HJG_MATCH_SEMI;
		case JOIN_ANTI:
			return HJG_MATCH_ANTI;
		default:
			return program->inner_unique && program->recheck == NULL && !program->residual ? HJG_MATCH_SEMI : HJG_MATCH_ALL;
	}
}

void
hjg_match_reset(HjgMatch *match)
{
	match->build_bits = NULL;
	match->probe_bits = NULL;
}

/* Set the bit of a build row; false if it was set.  In a shared load others set bits, too, and few are set twice. */
static inline bool
set_build_bit(HjgJoinState *state, uint32 row)
{
	uint64	   *bits = state->match.build_bits;
	const uint64 bit = UINT64CONST(1) << (row & 63);

	if (hjg_test_bit(bits, row))
		return false;
	if (!state->match.shared)
		hjg_set_bit(bits, row);
	else
		return (__atomic_fetch_or(&bits[row >> 6], bit, __ATOMIC_RELAXED) & bit) == 0;
	return true;
}

/* Pair i of the vector is a match: set the bits of its rows.  Does a row come of it? */
static inline bool
settle_match(HjgJoinState *state, int i, uint64 *probe_bits, uint64 first)
{
	const uint32 build_row = state->vector_build[i];
	bool		first_match = true;

	if (probe_bits != NULL)
		hjg_set_bit(probe_bits, first + state->vector_probe[i]);
	if (state->match.build_bits != NULL && build_row != HJG_NO_ROW)
		first_match = set_build_bit(state, build_row);
	if (HJG_IS_RIGHT_SEMI(state->program.jointype))
		return first_match;
	return state->program.jointype != JOIN_ANTI && !HJG_IS_RIGHT_ANTI(state->program.jointype);
}

uint64 *
hjg_match_probe_bits(const HjgJoinState *state, const HjgProbeBatch *batch, uint64 *first)
{
	if (state->match.probe_bits != NULL)
	{
		*first = batch->first_row;
		return state->match.probe_bits;
	}
	*first = 0;
	return batch->matched;
}

/* ---------- a vector of pairs ---------- */

static void
bad_pair(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a hash join result names a row that does not exist")));
}

/*
 * Account for a pair of a slice, and replace the position of its key by the number of its
 * row.  Is it one that was not there in the first slice?
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

/* Where the columns of a pair lie that the device gathered; into place n of the vector. */
static inline void
note_places(HjgJoinState *state, const HjgProbeBatch *batch, uint64 at, int n)
{
	const HjgCarried carried = state->build.run->carried;

	for (int s = 0; s < HJG_SIDES; s++)
		if (batch->gathered & HJG_SIDE_BIT(s))
			state->vector_places[s][n] = s == HJG_SIDE_BUILD && state->vector_build[n] == HJG_NO_ROW ? NULL :
				batch->columns[s] + at * carried.bytes[s];
}

/*
 * Copy pairs [at, at + count) of the round to the end of the n pairs in the vector, but for those whose probe
 * row is decided; returns how many there are now.  The row numbers were checked when the round was copied into memory of
 * our own, but for the holes between the ranges of a shared load.
 */
static int
copy_pairs(HjgJoinState *state, HjgProbeBatch *batch, uint64 at, int count, int n)
{
	const HjgRun *run = state->build.run;
	const bool	holes = run->range_nrows != NULL;
	uint32	   *const probe = state->vector_probe;
	uint32	   *const build = state->vector_build;
	const bool	sliced = state->match.first_match && batch->slice.most > 0;
	const bool	gathered = batch->gathered != 0;
	uint64		first = 0;
	const uint64 *decided = state->match.first_match ? hjg_match_probe_bits(state, batch, &first) : NULL;

	for (int i = 0; i < count; i++)
	{
		HjgPair		pair = batch->result[at + i];

		if (holes && unlikely(pair.build_row != HJG_NO_ROW && !hjg_run_has_build_row(run, pair.build_row)))
			bad_pair();
		if (sliced && !new_candidate(batch, &pair))
			continue;
		probe[n] = pair.probe_row;
		build[n] = pair.build_row;
		if (gathered)
			note_places(state, batch, at + i, n);
		if (decided == NULL || !hjg_test_bit(decided, first + pair.probe_row))
			n++;
	}
	return n;
}

/* A pair of the vector to a place before it, or its own. */
static inline void
move_pair(HjgJoinState *state, int from, int to)
{
	state->vector_probe[to] = state->vector_probe[from];
	state->vector_build[to] = state->vector_build[from];
	if (state->vector_places != NULL)
		for (int s = 0; s < HJG_SIDES; s++)
			state->vector_places[s][to] = state->vector_places[s][from];
}

/* Of the n pairs in the vector, those with equal keys close up; returns how many. */
static int
drop_unequal(HjgJoinState *state, const HjgProbeBatch *batch, int n)
{
	int			kept = 0;

	hjg_recheck_pairs(state, batch, n, state->vector_pass);
	for (int i = 0; i < n; i++)
	{
		move_pair(state, i, kept);
		kept += state->vector_pass[i] ? 1 : 0;
	}
	return kept;
}

/*
 * The n pairs in the vector are matches: set the bits of both rows.  Pairs of which no row comes close up; returns
 * how many are left.
 */
static int
settle_matches(HjgJoinState *state, const HjgProbeBatch *batch, int n)
{
	uint64		first = 0;
	uint64	   *bits = state->match.on_host ? hjg_match_probe_bits(state, batch, &first) : NULL;
	int			kept = 0;

	if (bits == NULL && state->match.build_bits == NULL)
		return n;
	for (int i = 0; i < n; i++)
	{
		if (bits != NULL && state->match.first_match && hjg_test_bit(bits, first + state->vector_probe[i]))
			continue;
		if (settle_match(state, i, bits, first))
			move_pair(state, i, kept++);
	}
	return kept;
}

int
hjg_match_next_pairs(HjgJoinState *state, HjgProbeBatch *batch)
{
	int			n = 0;

	if (batch->gathered != 0 && state->vector_places == NULL)
		state->vector_places = MemoryContextAllocZero(state->execution.work_context, HJG_SIDES * sizeof(*state->vector_places));
	while (n == 0 && state->pair_next < batch->npairs)
	{
		while (n < HJG_VECTOR_ROWS && state->pair_next < batch->npairs)
		{
			int			count = (int) Min(batch->npairs - state->pair_next, HJG_VECTOR_ROWS - n);

			CHECK_FOR_INTERRUPTS();
			n = copy_pairs(state, batch, state->pair_next, count, n);
			state->pair_next += count;
		}
		if (state->program.recheck != NULL)
			n = drop_unequal(state, batch, n);
		if (!state->program.residual)
			n = settle_matches(state, batch, n);
	}
	return n;
}

/* ---------- pair by pair, with residual quals ---------- */

bool
hjg_match_skip_pair(HjgJoinState *state)
{
	int			i = state->vector_next;
	uint64		first = 0;
	const uint64 *bits;

	if (state->vector_pass[i])
		return false;
	state->vector_next++;
	bits = state->match.first_match ? hjg_match_probe_bits(state, state->batches[0], &first) : NULL;
	/* conditions are not evaluated for a row that is decided */
	if (bits == NULL || !hjg_test_bit(bits, first + state->vector_probe[i]))
		InstrCountFiltered2(state, 1);
	return true;
}

bool
hjg_match_accept(HjgJoinState *state)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	int			i = state->vector_next - 1;
	uint64		first = 0;
	uint64	   *bits = state->match.on_host ? hjg_match_probe_bits(state, state->batches[0], &first) : NULL;

	if (state->match.first_match && hjg_test_bit(bits, first + state->vector_probe[i]))
		return false;
	if (HJG_IS_BUILD_ONLY(state->program.jointype) && hjg_test_bit(state->match.build_bits, state->vector_build[i]))
		return false;
	if (state->program.recheck_qual != NULL && !ExecQual(state->program.recheck_qual, econtext))
		return false;
	if (state->program.join_qual != NULL && !ExecQual(state->program.join_qual, econtext))
	{
		InstrCountFiltered2(state, 1);
		return false;
	}
	return settle_match(state, i, bits, first);
}
