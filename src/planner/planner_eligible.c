/*
 * planner_eligible.c
 *	  Checks by rules whether GpuHashJoin may run a join.
 *
 * Declining is always correct. Cheap tests come first, because the hook runs for every pair of relations.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/restrictinfo.h"

#include "base/hjg_compat.h"
#include "planner/hjg_planner_path.h"
#include "rows/hjg_rows.h"

/*
 * Match the two sides of a clause with the two inputs, and mark which is the outer one; the mark holds until the planner
 * looks at the next pair of relations.
 */
static bool
match_sides(RestrictInfo *rinfo, RelOptInfo *outerrel, RelOptInfo *innerrel)
{
	if (bms_is_subset(rinfo->left_relids, outerrel->relids) &&
		bms_is_subset(rinfo->right_relids, innerrel->relids))
	{
		rinfo->outer_is_left = true;
		return true;
	}
	if (bms_is_subset(rinfo->left_relids, innerrel->relids) &&
		bms_is_subset(rinfo->right_relids, outerrel->relids))
	{
		rinfo->outer_is_left = false;
		return true;
	}
	return false;
}

static bool
has_subquery(const PlannerInfo *root, const RestrictInfo *rinfo)
{
	return root->glob->subplans != NIL && contain_subplans((Node *) rinfo->clause);
}

/* Can a clause make a key? One with a subquery is left for the few pairs that match on the others. */
static bool
clause_is_hashable(const PlannerInfo *root, const RestrictInfo *rinfo)
{
	return rinfo->can_join && OidIsValid(rinfo->hashjoinoperator) && is_opclause(rinfo->clause) && !has_subquery(root, rinfo);
}

/* Is one of the query's subqueries volatile? Core's function does not look into the subqueries of an expression. */
static bool
has_volatile_subquery(const PlannerInfo *root)
{
	ListCell   *lc;

	foreach(lc, root->glob->subroots)
		if (lfirst(lc) != NULL && contain_volatile_functions((Node *) lfirst_node(PlannerInfo, lc)->parse))
			return true;
	return false;
}

/*
 * Collect the clauses that make keys. Hashable clauses with an unsupported operator stay residual; *why keeps the reason of
 * the last one.
 */
static void
find_hash_clauses(const PlannerInfo *root, HjgCandidate *candidate, const char **why)
{
	List	   *restrictlist = candidate->extra->restrictlist;
	bool		is_outer_join = HJG_IS_OUTER_JOIN(candidate->jointype);
	int			exact_bytes = 0;
	bool		exact = true;
	bool		all = true;

	for (int i = 0; i < list_length(restrictlist); i++)
	{
		RestrictInfo *rinfo = list_nth_node(RestrictInfo, restrictlist, i);
		const HjgOperatorFacts *operator = NULL;

		if (!(is_outer_join && RINFO_IS_PUSHED_DOWN(rinfo, candidate->joinrel->relids)) && clause_is_hashable(root, rinfo) &&
			match_sides(rinfo, candidate->outerrel, candidate->innerrel))
		{
			const OpExpr *opexpr = (const OpExpr *) rinfo->clause;

			operator = hjg_planner_operator(candidate->facts, opexpr->opno, opexpr->inputcollid);
			if (!operator->supported)
				*why = operator->why;
		}
		if (operator == NULL || !operator->supported)
		{
			/* the list is a copy from here on */
			if (all)
				candidate->hashclauses = list_truncate(list_copy(restrictlist), i);
			all = false;
			continue;
		}
		exact &= operator->exact_bytes > 0;
		exact_bytes += operator->exact_bytes;
		if (!all)
			candidate->hashclauses = lappend(candidate->hashclauses, rinfo);
	}
	if (all)
		candidate->hashclauses = restrictlist;
	exact &= exact_bytes <= HJG_MAX_KEY_BYTES;
	candidate->nhashed_keys = exact ? 0 : list_length(candidate->hashclauses);
	candidate->key_width = !exact ? 8 : exact_bytes <= 4 ? 4 : exact_bytes <= 8 ? 8 : 16;
}

/* Does the node know the type of the join? Joins with distinct rows of a side become inner joins. */
static bool
is_known_join(HjgCandidate *candidate)
{
	switch (candidate->jointype)
	{
		case JOIN_INNER:
		case JOIN_LEFT:
		case JOIN_RIGHT:
		case JOIN_FULL:
		case JOIN_SEMI:
		case JOIN_ANTI:
			return true;
		case JOIN_UNIQUE_OUTER:
			candidate->jointype = JOIN_INNER;
			candidate->unique_outer = true;
			return true;
		case JOIN_UNIQUE_INNER:
			candidate->jointype = JOIN_INNER;
			candidate->unique_inner = true;
			return true;
		default:
			return HJG_IS_BUILD_ONLY(candidate->jointype);
	}
}

const char *
hjg_planner_check_rules(PlannerInfo *root, HjgCandidate *candidate)
{
	RelOptInfo *outerrel = candidate->outerrel;
	RelOptInfo *innerrel = candidate->innerrel;
	const char *why = "no hashable equality clause compares its sides";
	ListCell   *lc;

	if (!is_known_join(candidate))
		return "its join type is not supported";
	if (IS_DUMMY_REL(outerrel) || IS_DUMMY_REL(innerrel))
		return "a side has no rows";
	find_hash_clauses(root, candidate, &why);
	if (candidate->hashclauses == NIL)
		return why;
	if (root->rowMarks != NIL || (root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT))
		return "rows are locked (FOR UPDATE, UPDATE, DELETE or MERGE)";
	if (!bms_is_empty(candidate->joinrel->lateral_relids) || outerrel->cheapest_total_path->param_info != NULL ||
		innerrel->cheapest_total_path->param_info != NULL)
		return "a side refers to the other laterally";
	/* EXPLAIN looks up the fields' names of such a column, which works through core's nodes only */
	if (hjg_planner_side(candidate->facts, outerrel, &candidate->outer)->has_record ||
		hjg_planner_side(candidate->facts, innerrel, &candidate->inner)->has_record)
		return "a side has a column of type record";
	foreach(lc, candidate->extra->restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo->pseudoconstant)
			return "a join clause is constant";
		if (contain_volatile_functions((Node *) rinfo))
			return "a join clause is volatile";
		if (has_subquery(root, rinfo) && has_volatile_subquery(root))
			return "a join clause has a subquery, and a subquery of the query is volatile";
	}
	return NULL;
}
