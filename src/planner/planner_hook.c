/*
 * planner_hook.c
 *	  The join_pathlist hook: offers GpuHashJoin paths beside core's.
 *
 * For each ordered pair of relations that is eligible there are a serial path
 * over the cheapest children, as the node reads them, one over the cheapest-startup outer child where that may matter, and two partial
 * paths: a parallel-aware one, over partial children of both sides, whose participants share
 * one build side; and one that gives every participant a build side of its own, which
 * serves where the inner side has no partial path or is tiny.  Path and children must not be touched after add_path(): it may free them.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"

/* Participants of a job, less the leader and its claim to the job. */
#define MAX_SHARED_WORKERS 30

static set_join_pathlist_hook_type previous_join_pathlist_hook = NULL;

static const CustomPathMethods path_methods = {
	.CustomName = HJG_NODE_NAME,
	.PlanCustomPath = hjg_planner_plan,
};

bool
hjg_planner_is_ours(const Path *path)
{
	return IsA(path, CustomPath) && ((const CustomPath *) path)->methods == &path_methods;
}

/*
 * A path that is priced before anything is allocated for it, as most paths lose.  Under force core's paths are
 * gone, and all of ours are offered.
 */
static void
offer_path(PlannerInfo *root, HjgCandidate *candidate, Path *outer_path, Path *inner_path, bool parallel_aware,
		   bool partial)
{
	RelOptInfo *joinrel = candidate->joinrel;
	HjgPath		offer;
	Path	   *path = &offer.custom.path;
	HjgPath    *copy;

	if (hjg_planner_loses(candidate, outer_path, inner_path, parallel_aware, partial))
		return;
	path->type = T_CustomPath;
	path->pathtype = T_CustomScan;
	path->parent = joinrel;
	path->pathtarget = joinrel->reltarget;
	path->param_info = NULL;
	path->pathkeys = NIL;
	path->parallel_aware = parallel_aware;
	path->parallel_safe = joinrel->consider_parallel && outer_path->parallel_safe &&
		inner_path->parallel_safe;
	/* the larger side's workers read the smaller side, too */
	path->parallel_workers = parallel_aware ? Max(outer_path->parallel_workers, inner_path->parallel_workers) :
		outer_path->parallel_workers;
	HJG_SET_DISABLED_NODES(path, HJG_DISABLED_NODES(outer_path) + HJG_DISABLED_NODES(inner_path) + !enable_hashjoin);
	path->rows = path->parallel_workers > 0 ?
		clamp_row_est(joinrel->rows / hjg_planner_participants(path)) : joinrel->rows;
	offer.columnar = candidate->nhashed_keys == 0 &&
		list_length(candidate->extra->restrictlist) == list_length(candidate->hashclauses);
	if (!hjg_planner_cost(root, candidate, &offer, outer_path, inner_path))
		return;

	offer.custom.flags = CUSTOMPATH_SUPPORT_PROJECTION;
	offer.custom.custom_paths = list_make2(outer_path, inner_path);
	offer.custom.custom_private = NIL;
	offer.custom.methods = &path_methods;
	offer.jointype = candidate->jointype;
	offer.inner_unique = candidate->extra->inner_unique;
	offer.build_rows = parallel_aware ? candidate->innerrel->rows : inner_path->rows;
	offer.unit_ns = candidate->unit_ns;
	offer.hashclauses = candidate->hashclauses;
	offer.restrictlist = candidate->extra->restrictlist;
	offer.aggregates = NIL;
	if (candidate->aggregates != NULL)
		hjg_planner_keep_for_aggregates(candidate, &offer, partial);
	copy = palloc(sizeof(HjgPath));
	*copy = offer;
	candidate->accepted = true;
	if (partial)
		add_partial_path(joinrel, &copy->custom.path);
	else
		add_path(joinrel, &copy->custom.path);
}

/*
 * hjoin_gpu.force: core's joins of the same inputs must not compete.  Only the
 * lists are changed: others may still refer to the paths.
 */
static void
drop_core_paths(RelOptInfo *joinrel)
{
	ListCell   *lc;

	foreach(lc, joinrel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info == NULL && !hjg_planner_is_ours(path))
			joinrel->pathlist = foreach_delete_current(joinrel->pathlist, lc);
	}
	foreach(lc, joinrel->partial_pathlist)
	{
		if (!hjg_planner_is_ours(lfirst(lc)))
			joinrel->partial_pathlist = foreach_delete_current(joinrel->partial_pathlist, lc);
	}
}

static bool
have_ours(RelOptInfo *joinrel)
{
	ListCell   *lc;

	foreach(lc, joinrel->pathlist)
		if (hjg_planner_is_ours(lfirst(lc)))
			return true;
	return false;
}

/* inner_path: the cheapest complete path of the inner side. */
static void
offer_partial_paths(PlannerInfo *root, HjgCandidate *candidate, Path *inner_path)
{
	Path	   *outer_path = linitial(candidate->outerrel->partial_pathlist);

	/* rows that are distinct in each share need not be so in all of them */
	if (enable_parallel_hash && !candidate->unique_inner && candidate->innerrel->partial_pathlist != NIL)
	{
		Path	   *partial_inner = linitial(candidate->innerrel->partial_pathlist);

		if (Max(outer_path->parallel_workers, partial_inner->parallel_workers) <= MAX_SHARED_WORKERS)
		{
			offer_path(root, candidate, outer_path, partial_inner, true, true);
			if (hjg_force)
				return;
		}
	}

	/* of private build sides, nobody knows which rows stayed unmatched in all of them */
	if (candidate->jointype == JOIN_RIGHT || candidate->jointype == JOIN_FULL || HJG_IS_BUILD_ONLY(candidate->jointype))
		return;
	if (!inner_path->parallel_safe && !candidate->unique_inner)
		inner_path = get_cheapest_parallel_safe_total_inner(candidate->innerrel->pathlist);
	if (inner_path != NULL && inner_path->parallel_safe && inner_path->param_info == NULL)
		offer_path(root, candidate, outer_path, inner_path, false, true);
}

static void
offer_paths(PlannerInfo *root, HjgCandidate *candidate)
{
	RelOptInfo *joinrel = candidate->joinrel;
	Path	   *outer_path = candidate->outerrel->cheapest_total_path;
	Path	   *inner_path = candidate->innerrel->cheapest_total_path;
	Path	   *startup_path = candidate->outerrel->cheapest_startup_path;

	if (candidate->unique_outer)
		startup_path = outer_path = (Path *) create_unique_path(root, candidate->outerrel, outer_path,
																candidate->extra->sjinfo);
	else
		outer_path = hjg_planner_cheapest_child(root, candidate, candidate->outerrel, &candidate->outer);
	if (candidate->unique_inner)
		inner_path = (Path *) create_unique_path(root, candidate->innerrel, inner_path,
												 candidate->extra->sjinfo);
	else
		inner_path = hjg_planner_cheapest_child(root, candidate, candidate->innerrel, &candidate->inner);
	if (outer_path == NULL || inner_path == NULL)
		return;

	/* under force ours must survive whatever core offered: core's paths go first */
	if (hjg_force)
		drop_core_paths(joinrel);
	offer_path(root, candidate, outer_path, inner_path, false, false);
	if (candidate->consider_startup && startup_path != NULL && startup_path != outer_path &&
		startup_path->param_info == NULL)
		offer_path(root, candidate, startup_path, inner_path, false, false);

	if (joinrel->consider_parallel && candidate->outerrel->partial_pathlist != NIL &&
		!candidate->unique_outer)
		offer_partial_paths(root, candidate, inner_path);
}

/* Of a setting of core's that is for us, too; force is stronger, but not than distrust. */
static bool
is_allowed(const char **why)
{
	*why = "a join differed from core's when it was verified";
	if (!hjg_planner_sources->trusted())
		return false;
	*why = "enable_hashjoin is off";
	return enable_hashjoin || hjg_force;
}

/*
 * Find out what a candidate costs at least, and say why it needs no further look; NULL if it does.  Each test is dearer than the
 * one before.
 */
static const char *
prune(PlannerInfo *root, HjgCandidate *candidate, HjgVerdictKind *kind)
{
	*kind = HJG_VERDICT_PRICE;
	hjg_planner_find_merges(candidate);
	hjg_planner_expect_aggregates(root, candidate);
	if (!hjg_force && hjg_planner_outdone(candidate))
		return "a plan of core's costs less than reading both sides";
	candidate->facts = hjg_planner_facts(root);
	if (candidate->spared > 0)
		hjg_planner_find_aggregates(root, candidate);
	if (!hjg_force && hjg_planner_beyond_ceiling(candidate))
		return "core answers the query by look-ups through indexes for less";
	hjg_planner_price(root, candidate);
	if (!hjg_force && hjg_planner_reverse(candidate))
	{
		*kind = HJG_VERDICT_ORDER;
		return "the other order of its sides is cheaper";
	}
	if (!hjg_force && hjg_planner_hopeless(candidate))
		return "core's plan is expected to cost less";
	return NULL;
}

static void
join_pathlist_hook(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
				   JoinType jointype, JoinPathExtraData *extra)
{
	HjgCandidate candidate;
	HjgVerdictKind kind;
	const char *pruned;
	const char *why;

	if (previous_join_pathlist_hook)
		previous_join_pathlist_hook(root, joinrel, outerrel, innerrel, jointype, extra);
	if (!hjg_enabled)
		return;
	/* not by an initializer: zeroing takes longer than most calls */
	candidate.joinrel = joinrel;
	candidate.outerrel = outerrel;
	candidate.innerrel = innerrel;
	if (!is_allowed(&why))
	{
		hjg_planner_note(root, &candidate, HJG_VERDICT_RULE, why);
		return;
	}
	candidate.jointype = jointype;
	candidate.unique_outer = candidate.unique_inner = false;
	candidate.accepted = false;
	candidate.extra = extra;
	/* what has no order is sorted, or hashed, as a whole, where an order is asked for */
	candidate.consider_startup = joinrel->consider_startup && root->query_pathkeys == NIL;
	candidate.nreadings = 0;
	candidate.outer.known = candidate.inner.known = candidate.quals_known = false;
	candidate.hashclauses = NIL;
	pruned = prune(root, &candidate, &kind);
	if (pruned != NULL)
	{
		/* what is wrong with the join itself tells more */
		if (hjg_explain_declined)
		{
			candidate.facts = hjg_planner_facts(root);
			if (hjg_planner_eligible(root, &candidate, &why))
				hjg_planner_note(root, &candidate, kind, pruned);
			else
				hjg_planner_note(root, &candidate, HJG_VERDICT_RULE, why);
		}
		return;
	}
	if (hjg_planner_eligible(root, &candidate, &why))
	{
		offer_paths(root, &candidate);
		hjg_planner_note(root, &candidate, candidate.accepted ? HJG_VERDICT_ACCEPTED : HJG_VERDICT_PRICE,
						 "core's plan is expected to cost less");
	}
	else
	{
		/* another pair of the same relations may have been eligible */
		if (hjg_force && have_ours(joinrel))
			drop_core_paths(joinrel);
		hjg_planner_note(root, &candidate, HJG_VERDICT_RULE, why);
	}
}

void
hjg_planner_init(const HjgPlannerSources *sources)
{
	hjg_planner_sources = sources;
	RegisterCustomScanMethods(&hjg_scan_methods);
	previous_join_pathlist_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = join_pathlist_hook;
	hjg_planner_init_aggregates();
}
