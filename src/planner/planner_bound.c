/*
 * planner_bound.c
 *	  What a path of ours costs at least, by the prices and rows of its children alone.
 *
 * The hook is called for every pair of relations in both orders, and most pairs are better served by core: by
 * an index, or for few rows.  There the planner must take no longer than without us, so that
 * nothing is looked up, counted or allocated that these bounds make superfluous.
 */
#include "postgres.h"

#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"

#include "base/hjg_base.h"
#include "planner/hjg_planner_path.h"

/*
 * A price that the reading of a child is not below.  What its price has for handing over rows may be saved; what the
 * node spends on them instead is counted.  Of shared work it is not, as the child's number of
 * processes may differ from the join's.
 */
static Cost
least_reading(const HjgCandidate *candidate, const Path *child, bool shared)
{
	const HjgUnitCosts *costs = &candidate->costs;
	const RelOptInfo *rel = child->parent;
	double		slots_ns = child->rows * costs->marshal_tuple_ns;
	double		rows = child->rows;
	double		saved_ns;
	double		spent_ns;
	Cost		more;

	if (hjg_direct_scan && child->pathtype == T_SeqScan)
	{
		rows = rel->tuples * (child->rows / Max(rel->rows, 1));
		saved_ns = rows * costs->scan_tuple_ns;
		spent_ns = rows * costs->direct_tuple_ns;
	}
	else if (hjg_direct_scan && hjg_planner_is_ours(child))
	{
		saved_ns = rows * costs->emit_tuple_ns;
		spent_ns = rows * costs->column_ns;
	}
	else
	{
		saved_ns = 0;
		spent_ns = slots_ns;
	}
	more = Min(spent_ns / candidate->unit_ns - Min(saved_ns / candidate->unit_ns, cpu_tuple_cost * rows),
			   slots_ns / candidate->unit_ns);
	return Max(child->total_cost + (shared ? Min(more, 0) : more), 0);
}

bool
hjg_planner_is_wanted(const HjgCandidate *candidate, Cost startup, Cost total, bool partial)
{
	return hjg_force || (partial ? add_partial_path_precheck(candidate->joinrel, total, NIL) :
						 add_path_precheck(candidate->joinrel, startup, total, NIL, NULL));
}

bool
hjg_planner_loses(const HjgCandidate *candidate, const Path *outer_path, const Path *inner_path,
				  bool parallel_aware, bool partial)
{
	const Cost	build = candidate->costs.startup_ns / candidate->unit_ns +
		least_reading(candidate, inner_path, parallel_aware);
	const Cost	startup = build + outer_path->startup_cost;
	const Cost	total = Max(build + least_reading(candidate, outer_path, parallel_aware), startup);

	return !hjg_planner_is_wanted(candidate, startup, total, partial);
}

/* Of core's paths in a list the cheapest that needs no parameter, by total cost; NULL: none. */
static const Path *
cheapest_path(const List *paths)
{
	const Path *cheapest = NULL;
	ListCell   *lc;

	foreach(lc, paths)
	{
		const Path *path = lfirst(lc);

		if (path->param_info == NULL && (cheapest == NULL || path->total_cost < cheapest->total_cost))
			cheapest = path;
	}
	return cheapest;
}

bool
hjg_planner_hopeless(const HjgCandidate *candidate)
{
	const RelOptInfo *joinrel = candidate->joinrel;
	const RelOptInfo *outerrel = candidate->outerrel;
	const RelOptInfo *innerrel = candidate->innerrel;
	const Path *rival = cheapest_path(joinrel->pathlist);
	const Cost	startup = candidate->costs.startup_ns / candidate->unit_ns;
	Cost		inner;

	/* a path that is cheap to start may be wanted at any price */
	if (rival == NULL || joinrel->consider_startup || outerrel->cheapest_total_path == NULL ||
		innerrel->cheapest_total_path == NULL)
		return false;
	inner = least_reading(candidate, innerrel->cheapest_total_path, false);
	if (startup + inner + least_reading(candidate, outerrel->cheapest_total_path, false) < rival->total_cost)
		return false;
	if (!joinrel->consider_parallel || outerrel->partial_pathlist == NIL)
		return true;
	if (innerrel->partial_pathlist != NIL)
		inner = Min(inner, least_reading(candidate, linitial(innerrel->partial_pathlist), true));
	return startup + inner + least_reading(candidate, linitial(outerrel->partial_pathlist), true) >= rival->total_cost;
}
