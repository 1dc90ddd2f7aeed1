/*
 * planner_hook.c
 *	  The join_pathlist hook: looks at each ordered pair of relations, and offers GpuHashJoin paths beside core's.
 *
 * A pair is pruned, by a bound on its price or by a rule, or offered; each call leaves its verdict in the trace.
 */
#include "postgres.h"

#include <math.h>

#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "utils/selfuncs.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_program.h"
#include "planner/hjg_planner_unnest.h"

static set_join_pathlist_hook_type previous_join_pathlist_hook = NULL;

/*
 * Return the reason why a join is not considered; NULL if it is. The bound is cheaper to compute than the rules, which are
 * not asked where it decides. hjoin_gpu.force overrides enable_hashjoin and prices, but not distrust.
 */
static const char *
prune_join(PlannerInfo *root, HjgCandidate *candidate, HjgVerdictKind *kind)
{
	const char *dearer;

	*kind = HJG_VERDICT_RULE;
	if (!hjg_planner_sources->trusted())
		return "a verified join differed from core's";
	if (!enable_hashjoin && !hjg_force)
		return "enable_hashjoin is off";
	hjg_planner_expect_aggregates(root, candidate);
	dearer = hjg_planner_bound(root, candidate);
	if (dearer == NULL)
		return hjg_planner_check_rules(root, candidate);
	*kind = HJG_VERDICT_BOUND;
	return dearer;
}

/*
 * Offer paths of a pair in this order, if they may win. Core has not found out whether the inner side of a mirrored join is
 * unique.
 */
static void
consider_pair(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel, JoinType jointype,
			  JoinPathExtraData *extra)
{
	HjgCandidate candidate;
	HjgVerdictKind kind;
	const char *why;

	/* no initializer: zeroing takes longer than most calls */
	candidate.facts = hjg_planner_facts(root);
	candidate.joinrel = joinrel;
	candidate.outerrel = outerrel;
	candidate.innerrel = innerrel;
	candidate.jointype = jointype;
	candidate.unique_outer = candidate.unique_inner = false;
	candidate.extra = extra;
	/* if an order is wanted, rows without one are sorted, or hashed, as a whole */
	candidate.consider_startup = joinrel->consider_startup && root->query_pathkeys == NIL;
	candidate.outer.known = candidate.inner.known = candidate.quals_known = false;
	candidate.hashclauses = NIL;
	hjg_planner_program_join(root, &candidate);
	why = prune_join(root, &candidate, &kind);
	if (why == NULL)
	{
		if (HJG_IS_BUILD_ONLY(jointype))
			extra->inner_unique = innerrel_is_unique(root, joinrel->relids, outerrel->relids, innerrel,
													 jointype == HJG_JOIN_RIGHT_ANTI ? JOIN_ANTI : JOIN_SEMI, extra->restrictlist, false);
		hjg_planner_find_aggregates(root, &candidate);
		why = hjg_planner_offer(root, &candidate);
		kind = why == NULL ? HJG_VERDICT_ACCEPTED : candidate.outrun != NULL ? HJG_VERDICT_RIVAL : HJG_VERDICT_PRICE;
		if (kind == HJG_VERDICT_RIVAL)
			why = candidate.outrun;
	}
	else if (hjg_force)
		hjg_planner_keep_offers(joinrel);
	hjg_planner_note(root, &candidate, kind, why);
}

/*
 * Is the query run for each row of another query, with the same rows of this side each time? Then a table of this side is
 * built only once, which prices do not include, but a table of the other side might be built each time.
 */
static bool
is_built_once(PlannerInfo *root, const RelOptInfo *rel)
{
	int			rti = -1;
	ListCell   *lc;

	if (root->parent_root == NULL || !hjg_planner_facts(root)->repeated)
		return false;
	while ((rti = bms_next_member(rel->relids, rti)) >= 0)
		if (root->simple_rel_array[rti] != NULL)
			foreach(lc, root->simple_rel_array[rti]->baserestrictinfo)
				if (!bms_is_empty(pull_paramids(lfirst_node(RestrictInfo, lc)->clause)))
					return false;
	return true;
}

/* Consider a semi or anti join that is built from rel, the side whose rows it returns. */
static void
consider_mirrored(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *rel, RelOptInfo *other, JoinType jointype, JoinPathExtraData extra)
{
	if (!is_built_once(root, other))
		consider_pair(root, joinrel, other, rel, jointype == JOIN_SEMI ? HJG_JOIN_RIGHT_SEMI : HJG_JOIN_RIGHT_ANTI, &extra);
}

/*
 * Give core's parallel hash joins as many workers as their inner side is priced for. Core gives them the outer side's number:
 * an outer side of few pages lets few processes read, and build of, an inner side of many.
 */
static void
raise_workers(RelOptInfo *joinrel)
{
	ListCell   *lc;

	foreach(lc, joinrel->partial_pathlist)
	{
		HashPath   *join = lfirst(lc);
		Path	   *path = &join->jpath.path;
		double		participants;

		if (!IsA(join, HashPath) || !path->parallel_aware || join->jpath.innerjoinpath->parallel_workers <= path->parallel_workers)
			continue;
		participants = hjg_planner_participants(path);
		path->parallel_workers = join->jpath.innerjoinpath->parallel_workers;
		path->rows = clamp_row_est(path->rows * participants / hjg_planner_participants(path));
	}
}

/* Expect more rows of a join, whose paths core has made already. */
static void
raise_rows(RelOptInfo *joinrel, double rows)
{
	ListCell   *lc;

	foreach(lc, joinrel->pathlist)
		if (((Path *) lfirst(lc))->param_info == NULL)
			((Path *) lfirst(lc))->rows = rows;
	foreach(lc, joinrel->partial_pathlist)
		((Path *) lfirst(lc))->rows = clamp_row_est(rows / hjg_planner_participants(lfirst(lc)));
	joinrel->rows = rows;
}

/*
 * Estimate the rows of an anti join with more conditions than equal keys. Core expects that nearly each row has a partner
 * that is not equal, so that hardly a row is left, and then loops over indexes for each. As many partners as a row has on
 * average, if they are spread at random, leave a share of exp(-average) without any; and no fewer than core expects of an
 * unknown range, since the average comes from a number of distinct values that is often far too small. In TPC-H's Q21 core
 * expects one row where 136,000 come.
 */
static void
estimate_anti_join(PlannerInfo *root, RelOptInfo *joinrel, const RelOptInfo *outerrel, const RelOptInfo *innerrel, List *restrictlist)
{
	SpecialJoinInfo sjinfo = {.type = T_SpecialJoinInfo};
	bool		residual = false;
	double		npartners;
	double		rows;
	ListCell   *lc;

	foreach(lc, restrictlist)
		residual |= !OidIsValid(lfirst_node(RestrictInfo, lc)->hashjoinoperator);
	if (!residual)
		return;
	sjinfo.min_lefthand = sjinfo.syn_lefthand = outerrel->relids;
	sjinfo.min_righthand = sjinfo.syn_righthand = innerrel->relids;
	sjinfo.jointype = JOIN_INNER;
	npartners = innerrel->rows * clauselist_selectivity(root, restrictlist, 0, JOIN_INNER, &sjinfo);
	rows = clamp_row_est(outerrel->rows * Max(exp(-npartners), DEFAULT_RANGE_INEQ_SEL));
	if (joinrel->rows < rows)
		raise_rows(joinrel, rows);
}

/*
 * Consider a join; a semi or anti join in both orders on all versions. If core has a join type for the mirrored order, it
 * calls the hook for that, too, but knows less of the join, and the paths that it has added may have displaced those of the
 * node. So under hjoin_gpu.force the plain order is considered again.
 */
static void
join_pathlist_hook(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
				   JoinType jointype, JoinPathExtraData *extra)
{
	hjg_planner_reached_through = set_join_pathlist_hook;
	if (previous_join_pathlist_hook)
		previous_join_pathlist_hook(root, joinrel, outerrel, innerrel, jointype, extra);
	if (!hjg_enabled)
		return;
	raise_workers(joinrel);
	if (jointype == JOIN_ANTI)
		estimate_anti_join(root, joinrel, outerrel, innerrel, extra->restrictlist);
	if (HJG_IS_BUILD_ONLY(jointype))
	{
		const JoinType plain = jointype == HJG_JOIN_RIGHT_SEMI ? JOIN_SEMI : JOIN_ANTI;
		JoinPathExtraData known = *extra;

		known.inner_unique = false;
		compute_semi_anti_join_factors(root, joinrel, innerrel, outerrel, plain, extra->sjinfo, extra->restrictlist, &known.semifactors);
		if (hjg_force)
			consider_pair(root, joinrel, innerrel, outerrel, plain, &known);
		consider_mirrored(root, joinrel, innerrel, outerrel, plain, known);
		return;
	}
	consider_pair(root, joinrel, outerrel, innerrel, jointype, extra);
	if ((jointype == JOIN_SEMI || jointype == JOIN_ANTI) && !HJG_CORE_MIRRORS(jointype))
		consider_mirrored(root, joinrel, outerrel, innerrel, jointype, *extra);
}

void
hjg_planner_init(const HjgPlannerSources *sources)
{
	hjg_planner_sources = sources;
	RegisterCustomScanMethods(&hjg_scan_methods);
	previous_join_pathlist_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = hjg_planner_reached_through = join_pathlist_hook;
	hjg_planner_init_keys();
	hjg_planner_init_aggregates();
	hjg_planner_init_unnesting();
}
