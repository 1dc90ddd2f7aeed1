/*
 * planner_rivals.c
 *	  Compare a hash join of ours in time with core's nested loops over an index, and with its merge joins of sorted inputs.
 *
 * Core prices an index scan as if most of its pages came from a disk (random_page_cost). Where they are in memory, the scan
 * takes a small part of the time that corresponds to its price; for a hash join that part is larger. Among core's own joins the
 * index then wins only where it is many times faster. A price of ours that corresponds to the true time would be below the
 * index's price even where the index is faster. Merge joins take the time that corresponds to their price at the rate of scans,
 * which is a small part of that at the rate of hash joins.
 *
 * So these joins are compared in time, with the index's pages taken to be in memory. If the rival is faster, and core prefers
 * it to its own hash join, our path is declined. A join for which core would choose its hash join is never left to the rival.
 * With 500K and 125K rows, loops of 200 look-ups take half the time of the hash joins of ours that would be chosen otherwise,
 * and merges that end early a third.
 *
 * Conversely, a merge join that reads part of two tables in the order of their indexes may have a price below that of all their
 * pages, which our join reads, and take longer nevertheless. If these pages are few enough to be in memory, and the merge is
 * much slower, our price is lowered to just below the merge's, so that the plan above the join costs what it would have cost.
 * With two primary keys our join takes 0.45 of the merge's time. Where a condition removes rows, core estimates badly how far a
 * merge reads, so there prices are compared as they are.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "base/hjg_compat.h"
#include "planner/hjg_planner_path.h"

/* Prices that differ less are equal to add_path(). */
#define CLEARLY_MORE 1.02

/* A merge join whose predicted time is longer by this factor is slower, whatever the errors of the predictions. */
#define SURELY_LONGER 1.25

/*
 * Where a query is run repeatedly with values that are not known yet, the number of rows that drive a loop is a guess: for a
 * range, half a per cent of the table. With fewer rows the loop takes less time, but a join that reads all of the other side
 * each time does not.
 */
#define FEWER_ROWS 0.25

/* Tables up to this share of the buffer pool are taken to be in it when they are joined. */
#define POOL_SHARE 0.25

/* Compute the time of a cost of 1.0 of core's scans and filters, not of its joins. */
static double
scan_unit_ns(const HjgOffer *offer)
{
	return offer->costs->scan_tuple_ns / Max(cpu_tuple_cost, 0.001);
}

/*
 * Compute the time of a side below the node. Of a table that the node reads itself this is the filter alone, because reading is
 * part of the prediction.
 */
static double
child_ns(const Path *child, double scan_rows, double unit_ns)
{
	return (scan_rows > 0 ? child->parent->baserestrictcost.per_tuple * scan_rows : child->total_cost) * unit_ns;
}

/* ---------- merge joins ---------- */

/* Is it a merge join of inputs that have their order without being sorted? */
static bool
is_sorted_merge(const Path *path)
{
	const MergePath *merge = (const MergePath *) path;

	return IsA(path, MergePath) && path->param_info == NULL && HJG_DISABLED_NODES(path) == 0 &&
		merge->outersortkeys == NIL && merge->innersortkeys == NIL;
}

/* Find the cheapest merge join of sorted inputs that core has offered for as many processes; NULL: none. */
static const Path *
find_merge(const List *paths)
{
	const Path *cheapest = NULL;
	ListCell   *lc;

	foreach(lc, paths)
	{
		const Path *path = lfirst(lc);

		if (is_sorted_merge(path) && (cheapest == NULL || path->total_cost < cheapest->total_cost))
			cheapest = path;
	}
	return cheapest;
}

/* Compute the time of a join of ours including the reading of its sides, which a merge join's price includes. */
static double
whole_ns(const HjgOffer *offer)
{
	return offer->prediction.total_ns + child_ns(offer->outer, offer->shape.probe_scan_rows, scan_unit_ns(offer)) +
		child_ns(offer->inner, offer->shape.build_scan_rows, scan_unit_ns(offer));
}

/* Compare with merges of tables alone: the time of joins below a merge cannot be computed from prices. */
static bool
is_merge_faster(const HjgCandidate *candidate, const HjgOffer *offer, Cost hash_price)
{
	const RelOptInfo *joinrel = candidate->joinrel;
	const Path *merge = NULL;

	if (IS_SIMPLE_REL(candidate->outerrel) && IS_SIMPLE_REL(candidate->innerrel))
		merge = find_merge(offer->own->custom.path.parallel_workers > 0 ? joinrel->partial_pathlist : joinrel->pathlist);
	return merge != NULL && merge->total_cost < hash_price && merge->total_cost * scan_unit_ns(offer) < whole_ns(offer);
}

Cost
hjg_planner_below_merge(const HjgCandidate *candidate, bool partial)
{
	const RelOptInfo *joinrel = candidate->joinrel;
	const RelOptInfo *outerrel = candidate->outerrel;
	const RelOptInfo *innerrel = candidate->innerrel;
	const List *paths = partial ? joinrel->partial_pathlist : joinrel->pathlist;
	const MergePath *merge = paths != NIL && is_sorted_merge(linitial(paths)) ? linitial(paths) : NULL;

	/* not where only the first rows may be wanted, nor for partitions, whose pages are many more in all */
	if (merge == NULL || !IsA(merge->jpath.outerjoinpath, IndexPath) || !IsA(merge->jpath.innerjoinpath, IndexPath) ||
		joinrel->consider_startup || IS_OTHER_REL(joinrel) || !IS_SIMPLE_REL(outerrel) || !IS_SIMPLE_REL(innerrel) ||
		outerrel->baserestrictinfo != NIL || innerrel->baserestrictinfo != NIL ||
		(double) outerrel->pages + innerrel->pages > NBuffers * POOL_SHARE)
		return INFINITY;
	return merge->jpath.path.total_cost / CLEARLY_MORE;
}

Cost
hjg_planner_undercut(const HjgCandidate *candidate, const HjgOffer *offer)
{
	const Path *path = &offer->own->custom.path;
	const Cost	price = hjg_planner_below_merge(candidate, path->parallel_workers > 0);

	return price * scan_unit_ns(offer) > whole_ns(offer) * SURELY_LONGER ? Min(price, path->total_cost) : path->total_cost;
}

/* ---------- nested loops ---------- */

/* Choose the path of a side that drives a loop, for as many processes as the join has; NULL: none. */
static const Path *
driving_path(const RelOptInfo *rel, const Path *join_path, const Path *child)
{
	if (join_path->parallel_workers == 0 || child->parallel_workers > 0)
		return child;
	return rel->partial_pathlist != NIL ? linitial(rel->partial_pathlist) : NULL;
}

/* Find the cheapest look-up in an index of rel that this side can drive, and price the loop; NULL: none. */
static const Path *
find_loop(const Path *driver, const RelOptInfo *rel, double result_rows, Cost *price)
{
	const Path *cheapest = NULL;
	ListCell   *lc;

	foreach(lc, rel->cheapest_parameterized_paths)
	{
		const Path *lookup = lfirst(lc);

		if (lookup->param_info != NULL && HJG_DISABLED_NODES(lookup) == 0 && bms_is_subset(PATH_REQ_OUTER(lookup), driver->parent->relids) &&
			(driver->parallel_workers == 0 || lookup->parallel_safe) &&
			(cheapest == NULL || lookup->total_cost < cheapest->total_cost))
			cheapest = lookup;
	}
	if (cheapest != NULL)
		*price = driver->total_cost + driver->rows * cheapest->total_cost + cpu_tuple_cost * result_rows;
	return cheapest;
}

/* Predict the time of a loop, without reading the driving side. */
static double
loop_ns(HjgQueryFacts *facts, const HjgUnitCosts *costs, const Path *driver, const Path *lookup)
{
	HjgLookups	lookups = {
		.nlookups = driver->rows * (facts->repeated ? FEWER_ROWS : 1),
		.rows = lookup->rows,
		.mb = lookup->parent->pages * (BLCKSZ / (1024.0 * 1024.0)),
		.scattered = IsA(lookup, IndexPath) ?
			hjg_planner_scattering(facts, ((const IndexPath *) lookup)->indexinfo) : 1
	};

	return hjg_model_lookups_ns(costs, &lookups);
}

/* Compare with a loop that the inner side drives, or the outer one. */
static bool
is_loop_faster(const HjgCandidate *candidate, const HjgOffer *offer, bool inner_drives, Cost hash_price)
{
	const HjgPrediction *prediction = &offer->prediction;
	const HjgJoinShape *shape = &offer->shape;
	const Path *path = &offer->own->custom.path;
	const Path *driver = inner_drives ? driving_path(candidate->innerrel, path, offer->inner) :
		driving_path(candidate->outerrel, path, offer->outer);
	const Path *lookup;
	Cost		price;
	double		ours_ns;

	if (driver == NULL)
		return false;
	lookup = find_loop(driver, inner_drives ? candidate->outerrel : candidate->innerrel, path->rows, &price);
	if (lookup == NULL || price >= hash_price)
		return false;
	/* both read the driving side */
	ours_ns = prediction->total_ns;
	if (inner_drives)
		ours_ns += child_ns(offer->outer, shape->probe_scan_rows, scan_unit_ns(offer)) - prediction->saved_build_ns - prediction->read_build_ns;
	else
		ours_ns += child_ns(offer->inner, shape->build_scan_rows, scan_unit_ns(offer)) - prediction->saved_probe_ns - prediction->read_probe_ns;
	return loop_ns(candidate->facts, offer->costs, driver, lookup) < ours_ns;
}

const char *
hjg_planner_faster_rival(const HjgCandidate *candidate, const HjgOffer *offer)
{
	const JoinType jointype = candidate->jointype;
	const bool	preserves_inner = jointype == JOIN_RIGHT || HJG_IS_BUILD_ONLY(jointype);
	const Cost	hash_price = offer->outer->total_cost + offer->inner->total_cost +
		hjg_planner_hash_join_price(candidate, offer->outer->rows, offer->inner->rows, offer->own->custom.path.rows,
									list_length(candidate->hashclauses));

	if (is_merge_faster(candidate, offer, hash_price))
		return "core's merge join of sorted inputs is expected to take less time";
	/* a loop can preserve only its driving side */
	if (enable_nestloop && jointype != JOIN_FULL &&
		((!preserves_inner && is_loop_faster(candidate, offer, false, hash_price)) ||
		 ((preserves_inner || jointype == JOIN_INNER) && is_loop_faster(candidate, offer, true, hash_price))))
		return "core's nested loop over an index is expected to take less time";
	return NULL;
}
