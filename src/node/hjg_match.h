/*
 * hjg_match.h
 *	  Match state: the rows of a join that have a match.
 *
 * Room "node".  The engine can decide whether a probe row is preserved, or emitted once only, if each pair that it returns is a
 * match: exact keys, no residual quals, one build pass. Otherwise the engine returns candidate pairs, and there is a bit for
 * each probe row: in its batch, or, where its partition has several passes, over all of these. Bits of build rows are always
 * kept here.
 */
#ifndef HJG_MATCH_H
#define HJG_MATCH_H

#include "postgres.h"

#include "base/hjg_compat.h"
#include "node/hjg_bits.h"
#include "node/hjg_execution.h"
#include "node/hjg_run.h"

typedef struct HjgMatch
{
	const HjgJoinTerms *terms;

	/* of the build pass */
	bool		on_host;		/* bits of probe rows are kept here; the engine does not decide for them */
	bool		first_match;	/* first match: further pairs of a matched probe row are dropped */
	bool		last_pass;		/* after this pass the probe rows without a match are known */
	bool		shared;			/* other processes set bits of build rows, too */
	uint32		first_unmet;	/* build rows before this one have their bits set; a multiple of 64 */
	uint64	   *build_bits;		/* or NULL */
	uint64	   *probe_bits;		/* of all probe rows of a partition that takes several passes, else NULL */
} HjgMatch;

/* Decide, as a build pass begins, whether the engine or this code finds probe rows without a match; returns the engine's mode. */
extern HjgMatchMode hjg_match_start(HjgMatch *match);
extern void hjg_match_reset(HjgMatch *match);
/* Can the probe side contribute no further rows, because the join returns build rows only, and all of the pass have a match? */
extern bool hjg_match_is_over(HjgMatch *match, uint32 nrows);

/* Find the bits of a batch's rows, and the index of the first row's; or NULL. */
static inline uint64 *
hjg_match_bits(const HjgMatch *match, const HjgProbeBatch *batch, uint64 *first)
{
	*first = match->probe_bits != NULL ? batch->first_row : 0;
	return match->probe_bits != NULL ? match->probe_bits : batch->matched;
}

/* Set the bit of a build row; false if it was set. Most calls find it clear. */
static inline bool
hjg_match_set_build(const HjgMatch *match, uint32 row)
{
	uint64	   *bits = match->build_bits;
	const uint64 bit = UINT64CONST(1) << (row & 63);

	if (hjg_test_bit(bits, row))
		return false;
	if (!match->shared)
		hjg_set_bit(bits, row);
	else
		return (__atomic_fetch_or(&bits[row >> 6], bit, __ATOMIC_RELAXED) & bit) == 0;
	return true;
}

/*
 * Note that a pair is a match: set the bits of its probe row, if such bits are kept, and of its build row. Returns whether the
 * pair is a result row.
 */
static inline bool
hjg_match_settle(const HjgMatch *match, uint64 *probe_bits, uint64 probe_bit, uint32 build_row)
{
	const JoinType jointype = match->terms->jointype;
	bool		first_match = true;

	if (probe_bits != NULL)
		hjg_set_bit(probe_bits, probe_bit);
	if (match->build_bits != NULL && build_row != HJG_NO_ROW)
		first_match = hjg_match_set_build(match, build_row);
	if (jointype == HJG_JOIN_RIGHT_SEMI)
		return first_match;
	return jointype != JOIN_ANTI && jointype != HJG_JOIN_RIGHT_ANTI;
}

#endif							/* HJG_MATCH_H */
