/*
 * planner_rivals.c
 *	  Joins that core answers without hashing: how long a nested loop over an index takes, or a
 *	  merge join of inputs that are sorted already.
 *
 * Core prices an index scan as if most of its pages came from a disk (random_page_cost).
 * Where they are in memory the scan takes a small part of the time that its price stands
 * for, and the less so a hash join.  As long as core compares its own joins, the index wins where it
 * is many times faster.  A price of ours that is true in time goes below the index's,
 * and would win where the index is still the faster one.  Merge joins take what their price says in the
 * currency of scans, a small part of what it says in that of hash joins.
 *
 * So they are compared in time, the index's pages taken to be in memory.  If the rival is faster,
 * and core prefers it to its hash join, our price stays above the rival's.  What core
 * would not have given to the rival is not left to it either.
 *
 * The other way round, a merge join that reads part of two tables in the order of their indexes may be priced below the pages
 * that we read of all of them, and take longer nevertheless.  If those pages are few enough to be in memory, and
 * the merge is slower by far, our price goes just below it: what is above the join in the plan costs what it did.
 * How far a merge reads core does not tell well where rows are left out by a condition: there prices count.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "base/hjg_compat.h"
#include "planner/hjg_planner_path.h"

/* Prices that differ less are one to add_path(). */
#define CLEARLY_MORE 1.02

/* A merge join that takes so many times as long is the slower one, whatever either prediction is wrong by. */
#define SURELY_LONGER 1.25

/*
 * Of a query that is run again and again with values that nobody knows yet, the rows that drive a loop are a guess: half a
 * per cent of the table, where a range is asked for.  With fewer the loop takes less time, and a join that reads all of the
 * other side each time does not.
 */
#define FEWER_ROWS 0.25

/* Tables of such a part of the buffer pool are taken to be in it when they are joined. */
#define POOL_SHARE 0.25

/* A nested loop of a driving side and look-ups in the other one. */
typedef struct IndexLoop
{
	Cost		price;
	const Path *lookup;
} IndexLoop;

/* The path by which a side drives a loop, for as many processes as the join has. */
static const Path *
driving_path(const RelOptInfo *rel, const Path *join_path, const Path *child)
{
	if (join_path->parallel_workers == 0 || child->parallel_workers > 0)
		return child;
	return rel->partial_pathlist != NIL ? linitial(rel->partial_pathlist) : NULL;
}

/* Time of a loop, without reading the driving side. */
static double
loop_ns(HjgQueryFacts *facts, const HjgUnitCosts *costs, const Path *driver, const RelOptInfo *rel, const Path *lookup)
{
	HjgLookups	lookups = {
		.nlookups = driver->rows * (facts->repeated ? FEWER_ROWS : 1),
		.rows = lookup->rows,
		.mb = rel->pages * (BLCKSZ / (1024.0 * 1024.0)),
		.scattered = IsA(lookup, IndexPath) ?
			hjg_planner_scattering(facts, ((const IndexPath *) lookup)->indexinfo) : 1
	};

	return hjg_model_lookups_ns(costs, &lookups);
}

/* The cheapest loop over an index of rel that this side can drive; false if there is none. */
static bool
find_loop(const Path *driver, Relids driver_relids, const RelOptInfo *rel, double result_rows, IndexLoop *loop)
{
	bool		found = false;
	ListCell   *lc;

	foreach(lc, rel->cheapest_parameterized_paths)
	{
		const Path *lookup = lfirst(lc);
		Cost		price;

		if (lookup->param_info == NULL || HJG_DISABLED_NODES(lookup) > 0 || !bms_is_subset(PATH_REQ_OUTER(lookup), driver_relids) ||
			(driver->parallel_workers > 0 && !lookup->parallel_safe))
			continue;
		price = driver->total_cost + driver->rows * lookup->total_cost + cpu_tuple_cost * result_rows;
		if (found && price >= loop->price)
			continue;
		loop->price = price;
		loop->lookup = lookup;
		found = true;
	}
	return found;
}

/*
 * Time of a side in the node's own part of the join and below it, as far as a loop does not
 * spend it, too.  scan_ns is what core's scan takes of a table that the node reads itself.
 */
static double
extra_ns(const Path *child, double scan_rows, double scan_ns, bool drives, double ns_of_cost)
{
	if (drives)
		return -scan_ns;
	/* the node's part of reading is in the prediction; filters are not */
	return scan_rows > 0 ? child->parent->baserestrictcost.per_tuple * scan_rows * ns_of_cost :
		child->total_cost * ns_of_cost;
}

/* Of inputs that have their order without being sorted. */
static bool
is_sorted_merge(const Path *path)
{
	const MergePath *merge = (const MergePath *) path;

	return IsA(path, MergePath) && path->param_info == NULL && HJG_DISABLED_NODES(path) == 0 && merge->outersortkeys == NIL && merge->innersortkeys == NIL;
}

/* The cheapest merge join of sorted inputs that core has offered for as many processes; NULL: none. */
static const Path *
find_merge(const RelOptInfo *joinrel, bool partial)
{
	const Path *cheapest = NULL;
	ListCell   *lc;

	foreach(lc, partial ? joinrel->partial_pathlist : joinrel->pathlist)
	{
		const Path *path = lfirst(lc);

		if (is_sorted_merge(path) && (cheapest == NULL || path->total_cost < cheapest->total_cost))
			cheapest = path;
	}
	return cheapest;
}

/* Time of a join of ours with the reading of its sides, as a merge join's price contains it. */
static double
whole_ns(const Path *outer_path, const Path *inner_path, const HjgJoinShape *shape, const HjgPrediction *prediction,
		 double ns_of_cost)
{
	return prediction->total_ns + extra_ns(outer_path, shape->probe_scan_rows, 0, false, ns_of_cost) +
		extra_ns(inner_path, shape->build_scan_rows, 0, false, ns_of_cost);
}

/* Of core's scans and filters, not of its joins. */
static double
scan_cost_ns(const HjgUnitCosts *costs)
{
	return costs->scan_tuple_ns / Max(cpu_tuple_cost, 0.001);
}

/* If the cheapest path of a list merges what two indexes return. */
static Cost
below_merge(const List *paths)
{
	const MergePath *merge = paths != NIL && is_sorted_merge(linitial(paths)) ? linitial(paths) : NULL;

	return merge != NULL && IsA(merge->jpath.outerjoinpath, IndexPath) && IsA(merge->jpath.innerjoinpath, IndexPath) ?
		merge->jpath.path.total_cost / CLEARLY_MORE : INFINITY;
}

void
hjg_planner_find_merges(HjgCandidate *candidate)
{
	const RelOptInfo *joinrel = candidate->joinrel;
	const RelOptInfo *outerrel = candidate->outerrel;
	const RelOptInfo *innerrel = candidate->innerrel;

	candidate->below_merges[false] = candidate->below_merges[true] = INFINITY;
	/* where but the first rows may be wanted the merge is left to hand them out; of partitions there are many more pages */
	if (joinrel->consider_startup || IS_OTHER_REL(joinrel) || !IS_SIMPLE_REL(outerrel) || !IS_SIMPLE_REL(innerrel) ||
		outerrel->baserestrictinfo != NIL || innerrel->baserestrictinfo != NIL ||
		(double) outerrel->pages + innerrel->pages > NBuffers * POOL_SHARE)
		return;
	candidate->below_merges[false] = below_merge(joinrel->pathlist);
	candidate->below_merges[true] = below_merge(joinrel->partial_pathlist);
}

Cost
hjg_planner_rival_ceiling(const HjgCandidate *candidate, const Path *path, const Path *outer_path,
						  const Path *inner_path, const HjgJoinShape *shape, const HjgUnitCosts *costs,
						  const HjgPrediction *prediction)
{
	const double ns_of_cost = scan_cost_ns(costs);
	const Cost	price = candidate->below_merges[path->parallel_workers > 0];

	return price * ns_of_cost > whole_ns(outer_path, inner_path, shape, prediction, ns_of_cost) * SURELY_LONGER ? price :
		INFINITY;
}

Cost
hjg_planner_rival_floor(const HjgCandidate *candidate, const Path *path, const Path *outer_path,
						const Path *inner_path, const HjgJoinShape *shape, const HjgUnitCosts *costs,
						const HjgPrediction *prediction)
{
	const double ns_of_cost = scan_cost_ns(costs);
	const Cost	hash_price = outer_path->total_cost + inner_path->total_cost +
		hjg_planner_hash_join_price(candidate, outer_path->rows, inner_path->rows, path->rows, list_length(candidate->hashclauses));
	const bool	preserves_inner = candidate->jointype == JOIN_RIGHT || HJG_IS_BUILD_ONLY(candidate->jointype);
	const Path *merge = NULL;
	Cost		least = 0;

	/* of the tables themselves: what joins below it take is not known from prices */
	if (IS_SIMPLE_REL(candidate->outerrel) && IS_SIMPLE_REL(candidate->innerrel))
		merge = find_merge(candidate->joinrel, path->parallel_workers > 0);
	if (merge != NULL && merge->total_cost < hash_price &&
		merge->total_cost * ns_of_cost < whole_ns(outer_path, inner_path, shape, prediction, ns_of_cost))
		least = merge->total_cost * CLEARLY_MORE;
	for (int inner_drives = 0; inner_drives < 2; inner_drives++)
	{
		const RelOptInfo *driver_rel = inner_drives ? candidate->innerrel : candidate->outerrel;
		const RelOptInfo *other_rel = inner_drives ? candidate->outerrel : candidate->innerrel;
		const Path *driver = driving_path(driver_rel, path, inner_drives ? inner_path : outer_path);
		IndexLoop	loop = {0};
		double		ours_ns;

		/* a loop can preserve its driving side only */
		if (driver == NULL || candidate->jointype == JOIN_FULL ||
			(inner_drives ? candidate->jointype != JOIN_INNER && !preserves_inner : preserves_inner))
			continue;
		if (!find_loop(driver, driver_rel->relids, other_rel, path->rows, &loop) || loop.price >= hash_price)
			continue;
		ours_ns = prediction->total_ns +
			extra_ns(outer_path, shape->probe_scan_rows, prediction->saved_probe_ns + prediction->read_probe_ns,
					 !inner_drives, ns_of_cost) +
			extra_ns(inner_path, shape->build_scan_rows, prediction->saved_build_ns + prediction->read_build_ns,
					 inner_drives, ns_of_cost);
		if (loop_ns(candidate->facts, costs, driver, other_rel, loop.lookup) < ours_ns)
			least = Max(least, loop.price * CLEARLY_MORE);
	}
	return least;
}
