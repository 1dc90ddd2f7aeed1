/*
 * node_match.c
 *	  The match state of a build pass: whether the engine finds matched rows, or bits are kept here.
 */
#include "postgres.h"

#include "node/hjg_match.h"

HjgMatchMode
hjg_match_start(HjgMatch *match)
{
	const HjgJoinTerms *terms = match->terms;
	const bool	candidates = terms->recheck != NULL || terms->residual;
	const bool	undecided = candidates || match->probe_bits != NULL;

	match->first_unmet = 0;
	match->first_match = undecided &&
		(terms->jointype == JOIN_SEMI || terms->jointype == JOIN_ANTI || terms->inner_unique);
	match->on_host = match->first_match || (undecided && terms->preserved[HJG_SIDE_PROBE]);
	if (match->on_host)
		return HJG_MATCH_ALL;
	switch (terms->jointype)
	{
		case JOIN_LEFT:
		case JOIN_FULL:
			return HJG_MATCH_LEFT;
		case JOIN_SEMI:
			return HJG_MATCH_SEMI;
		case JOIN_ANTI:
			return HJG_MATCH_ANTI;
		default:
			return terms->inner_unique && !candidates ? HJG_MATCH_SEMI : HJG_MATCH_ALL;
	}
}

void
hjg_match_reset(HjgMatch *match)
{
	match->build_bits = NULL;
	match->probe_bits = NULL;
}

bool
hjg_match_is_over(HjgMatch *match, uint32 nrows)
{
	const uint64 *bits = match->build_bits;
	uint64		rest;

	if (!HJG_IS_BUILD_ONLY(match->terms->jointype))
		return false;
	while (match->first_unmet + 64 <= nrows && bits[match->first_unmet >> 6] == ~UINT64CONST(0))
		match->first_unmet += 64;
	if (match->first_unmet + 64 <= nrows)
		return false;
	rest = (UINT64CONST(1) << (nrows - match->first_unmet)) - 1;
	return (bits[match->first_unmet >> 6] & rest) == rest;
}
