/*
 * planner_offer.c
 *	  Offers core the paths of a join that may win.
 *
 * There are a serial path over the cheapest children, as the node reads them; another over the cheapest-startup outer child,
 * if that may matter; and two partial paths. One is parallel-aware, over partial children of both sides, whose participants
 * share one build side. The other gives each participant a build side of its own, for an inner side that has no partial path
 * or is tiny. Path and children must not be touched after add_path(), which may free them.
 */
#include "postgres.h"

#include "nodes/extensible.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"

/* Participants of a job, without the leader and its own claim to the job. */
#define MAX_SHARED_WORKERS 30

/*
 * Choose the path by which the node reads a side. Rows that other processes send are taken as they are where the join can be
 * parallel itself.
 */
static Path *
choose_child(PlannerInfo *root, HjgCandidate *candidate, RelOptInfo *rel, Path *cheapest)
{
	if (cheapest->pathtype == T_Gather && candidate->joinrel->consider_parallel)
		return cheapest;
	return hjg_planner_choose_scan(root, candidate->facts, candidate->costs, rel, cheapest);
}

/*
 * Price a path of the node, and offer it if it wins. It is priced before any memory is allocated, because most paths lose.
 * Under hjoin_gpu.force core's paths are gone, and all paths of the node are offered.
 */
static void
offer_path(PlannerInfo *root, HjgCandidate *candidate, Path *outer_path, Path *inner_path, bool parallel_aware,
		   bool partial)
{
	RelOptInfo *joinrel = candidate->joinrel;
	HjgPath		own;
	Path	   *path = &own.custom.path;
	HjgPath    *copy;
	const char *why;

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
	own.columnar = candidate->nhashed_keys == 0 &&
		list_length(candidate->extra->restrictlist) == list_length(candidate->hashclauses);
	why = hjg_planner_price(root, candidate, &own, outer_path, inner_path);
	if (why != NULL)
	{
		/* the first path is the complete one, whose reason is reported */
		if (candidate->declined == NULL)
			candidate->declined = why;
		return;
	}
	candidate->accepted = true;

	own.custom.flags = CUSTOMPATH_SUPPORT_PROJECTION;
	own.custom.custom_paths = list_make2(outer_path, inner_path);
	HJG_SET_CLAUSES(&own.custom, candidate->extra->restrictlist);
	own.custom.custom_private = NIL;
	own.custom.methods = &hjg_planner_path_methods;
	own.jointype = candidate->jointype;
	own.inner_unique = candidate->extra->inner_unique;
	own.build_rows = parallel_aware ? candidate->innerrel->rows : inner_path->rows;
	own.unit_ns = candidate->unit_ns;
	own.ns_cost = candidate->ns_cost;
	own.hashclauses = candidate->hashclauses;
	own.restrictlist = candidate->extra->restrictlist;
	if (candidate->aggregates != NULL)
		hjg_planner_keep_for_aggregates(candidate, &own, partial);
	copy = palloc(sizeof(HjgPath));
	*copy = own;
	if (partial)
		add_partial_path(joinrel, &copy->custom.path);
	else
		add_path(joinrel, &copy->custom.path);
}

/* Offer partial paths; inner_path: the cheapest complete path of the inner side. */
static void
offer_partial_paths(PlannerInfo *root, HjgCandidate *candidate, Path *inner_path)
{
	Path	   *outer_path = choose_child(root, candidate, candidate->outerrel, linitial(candidate->outerrel->partial_pathlist));

	/* rows that are distinct in each share may not be distinct in all of them together */
	if (enable_parallel_hash && !candidate->unique_inner && candidate->innerrel->partial_pathlist != NIL)
	{
		Path	   *partial_inner = choose_child(root, candidate, candidate->innerrel, linitial(candidate->innerrel->partial_pathlist));

		if (Max(outer_path->parallel_workers, partial_inner->parallel_workers) <= MAX_SHARED_WORKERS)
		{
			offer_path(root, candidate, outer_path, partial_inner, true, true);
			if (hjg_force)
				return;
		}
	}

	/* no participant knows which rows have no match in all private build sides */
	if (candidate->jointype == JOIN_RIGHT || candidate->jointype == JOIN_FULL || HJG_IS_BUILD_ONLY(candidate->jointype))
		return;
	if (!inner_path->parallel_safe && !candidate->unique_inner)
		inner_path = get_cheapest_parallel_safe_total_inner(candidate->innerrel->pathlist);
	if (inner_path != NULL && inner_path->parallel_safe && inner_path->param_info == NULL)
		offer_path(root, candidate, outer_path, inner_path, false, true);
}

const char *
hjg_planner_offer(PlannerInfo *root, HjgCandidate *candidate)
{
	RelOptInfo *joinrel = candidate->joinrel;
	Path	   *outer_path = candidate->outerrel->cheapest_total_path;
	Path	   *inner_path = candidate->innerrel->cheapest_total_path;
	Path	   *startup_path = candidate->outerrel->cheapest_startup_path;

	if (candidate->unique_outer)
		startup_path = outer_path = (Path *) create_unique_path(root, candidate->outerrel, outer_path,
																candidate->extra->sjinfo);
	else
		outer_path = choose_child(root, candidate, candidate->outerrel, outer_path);
	if (candidate->unique_inner)
		inner_path = (Path *) create_unique_path(root, candidate->innerrel, inner_path,
												 candidate->extra->sjinfo);
	else
		inner_path = choose_child(root, candidate, candidate->innerrel, inner_path);
	if (outer_path == NULL || inner_path == NULL)
		return "rows of a side cannot be made distinct";

	candidate->accepted = false;
	candidate->declined = candidate->outrun = NULL;
	/* under hjoin_gpu.force core's paths are removed, so that those of the node survive, or that of a foreign server */
	if (hjg_force)
	{
		hjg_planner_drop_core_paths(joinrel);
		if (hjg_planner_is_pushed_down(joinrel))
			return HJG_PUSHED_DOWN;
	}
	offer_path(root, candidate, outer_path, inner_path, false, false);
	if (candidate->consider_startup && startup_path != NULL && startup_path != outer_path &&
		startup_path->param_info == NULL)
		offer_path(root, candidate, startup_path, inner_path, false, false);
	if (joinrel->consider_parallel && candidate->outerrel->partial_pathlist != NIL && !candidate->unique_outer)
		offer_partial_paths(root, candidate, inner_path);
	return candidate->accepted ? NULL : candidate->declined;
}
