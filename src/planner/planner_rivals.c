/*
 * planner_rivals.c
 *	  Compares the time of a join of the node with core's nested loops over an index, and with its merge joins of sorted inputs.
 *
 * Core prices an index scan as if most of its pages came from a disk (random_page_cost). If they are in memory, the scan
 * takes a small part of the time that corresponds to its price; for a hash join that part is larger. Among core's own joins
 * the index then wins only if it is many times faster. A price of the node that corresponds to the true time would be below
 * the index's price even where the index is faster. Merge joins take the time that corresponds to their price at the rate of
 * scans, which is a small part of that at the rate of hash joins.
 *
 * So these joins are compared by time, with the index's pages assumed to be in memory. If the rival is faster, and core
 * prefers it to its own hash join, the node's path is declined. A join for which core would choose its hash join is never
 * left to the rival. With 500K and 125K rows, loops of 200 look-ups take half the time of the node's joins that would be
 * chosen otherwise, and merges that end early a third.
 *
 * Conversely, core's cheapest path may take longer than its price says: a merge join that reads parts of two tables in the
 * order of their indexes, or a loop that looks up a large part of a table's rows. If its pages are few enough to be in
 * memory, and it is much slower than the node's join, its price does not count. With two primary keys the node takes 0.45 of
 * the merge's time. If a condition removes rows, core estimates badly how far a merge reads, so prices are compared
 * unchanged.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "base/hjg_compat.h"
#include "planner/hjg_planner_path.h"

/* A rival whose predicted time is longer by this factor is slower, whatever the errors of the predictions. */
#define SURELY_LONGER 1.25

/*
 * Part of the expected rows that may drive a loop in truth, if a query is run repeatedly with values that are not known yet: then their number
 * is a guess, for a range half a per cent of the table. With fewer rows the loop takes less time; a join that reads all of the other side each
 * time does not.
 */
#define FEWER_ROWS 0.25

/* Tables up to this share of the buffer pool are assumed to be in it when they are joined; and tables that look-ups search. */
#define POOL_SHARE 0.25
#define LARGE_POOL_SHARE 0.75

/* A look-up takes at most this many times the time of reading a row in a scan. */
#define MOST_ROWS_PER_LOOKUP 200

/*
 * A loop with a smaller share of its path's price is no rival, because the node's price would have to go below that of the
 * loop's outer side. Nor is a loop over a table that stays in the processor's cache, whose look-ups take no longer than those
 * in a hash table.
 */
#define LEAST_PAGES (2 * 1024 * 1024 / BLCKSZ)
#define LEAST_PART 0.05

/* Compute the time of a side below the node; 0 for a table that the node reads itself, because the prediction includes it. */
static double
child_ns(const Path *child, const HjgScanTimes *scan, double unit_ns)
{
	return scan->own_ns > 0 ? 0 : child->total_cost * unit_ns;
}

/* ---------- merge joins ---------- */

/* Is the path a merge join of inputs that are in order without a sort? */
static bool
is_sorted_merge(const Path *path)
{
	const MergePath *merge = (const MergePath *) path;

	return IsA(path, MergePath) && path->param_info == NULL && HJG_DISABLED_NODES(path) == 0 &&
		merge->outersortkeys == NIL && merge->innersortkeys == NIL;
}

/* Find the cheapest merge join of sorted inputs in a list; NULL: none. */
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

/* Compute the time of a join of the node with the reading of its sides, which a merge join's price includes. */
static double
whole_ns(const HjgOffer *offer)
{
	return offer->prediction.total_ns + child_ns(offer->outer, &offer->shape.probe_scan, hjg_planner_scan_unit_ns(offer->costs)) +
		child_ns(offer->inner, &offer->shape.build_scan, hjg_planner_scan_unit_ns(offer->costs));
}

/* Is a merge of two tables faster? The time of joins below a merge cannot be computed from prices. */
static bool
is_merge_faster(const HjgCandidate *candidate, const HjgOffer *offer, Cost hash_price)
{
	const RelOptInfo *joinrel = candidate->joinrel;
	const Path *merge = NULL;

	if (IS_SIMPLE_REL(candidate->outerrel) && IS_SIMPLE_REL(candidate->innerrel))
		merge = find_merge(offer->own->custom.path.parallel_workers > 0 ? joinrel->partial_pathlist : joinrel->pathlist);
	return merge != NULL && merge->total_cost < hash_price && merge->total_cost * hjg_planner_scan_unit_ns(offer->costs) < whole_ns(offer);
}

/* Find core's cheapest path without parameters in a list; NULL: none. */
static const Path *
find_cheapest(const List *paths)
{
	ListCell   *lc;

	foreach(lc, paths)
		if (((const Path *) lfirst(lc))->param_info == NULL)
			return lfirst(lc);
	return NULL;
}

/* Does the path merge two tables by indexes, both in memory? */
static bool
is_index_merge(const HjgCandidate *candidate, const Path *path)
{
	const RelOptInfo *joinrel = candidate->joinrel;
	const RelOptInfo *outerrel = candidate->outerrel;
	const RelOptInfo *innerrel = candidate->innerrel;
	const MergePath *merge = is_sorted_merge(path) ? (const MergePath *) path : NULL;

	/* partitions have many more pages */
	return merge != NULL && IsA(merge->jpath.outerjoinpath, IndexPath) && IsA(merge->jpath.innerjoinpath, IndexPath) &&
		!IS_OTHER_REL(joinrel) && IS_SIMPLE_REL(outerrel) && IS_SIMPLE_REL(innerrel) &&
		outerrel->baserestrictinfo == NIL && innerrel->baserestrictinfo == NIL &&
		(double) outerrel->pages + innerrel->pages <= NBuffers * POOL_SHARE;
}

/* ---------- nested loops ---------- */

/* Choose the path of a side that drives a loop in as many processes as the join has; NULL: none. */
static const Path *
driving_path(const RelOptInfo *rel, const Path *join_path, const Path *child)
{
	if (join_path->parallel_workers == 0 || child->parallel_workers > 0)
		return child;
	return rel->partial_pathlist != NIL ? linitial(rel->partial_pathlist) : NULL;
}

/*
 * Compute the share of a look-up's rows that is fetched, by core's pricing: the loop of a semi or anti join stops at the
 * first match.
 */
static double
fetched_share(const HjgCandidate *candidate, const Path *lookup)
{
	const SemiAntiJoinFactors *factors = &candidate->extra->semifactors;

	if (candidate->jointype != JOIN_SEMI && candidate->jointype != JOIN_ANTI && !HJG_IS_BUILD_ONLY(candidate->jointype))
		return 1;
	return factors->outer_match_frac * 2 / (factors->match_count + 1) + (1 - factors->outer_match_frac) / Max(lookup->rows, 1);
}

/* Find the cheapest look-up in an index of rel for this driving path, and price the loop; NULL: none. */
static const Path *
find_loop(const HjgCandidate *candidate, const Path *driver, const RelOptInfo *rel, double result_rows, Cost *price)
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
		*price = driver->total_cost + cpu_tuple_cost * result_rows + driver->rows *
			(cheapest->startup_cost + (cheapest->total_cost - cheapest->startup_cost) * fetched_share(candidate, cheapest));
	return cheapest;
}

/* Describe the look-ups of a loop to the model. */
static HjgLookups
describe_lookups(const HjgCandidate *candidate, HjgQueryFacts *facts, const Path *driver, const Path *lookup)
{
	return (HjgLookups) {
		.nlookups = driver->rows * (facts->repeated ? FEWER_ROWS : 1),
		.rows = lookup->rows * fetched_share(candidate, lookup),
		.mb = lookup->parent->pages * (BLCKSZ / (1024.0 * 1024.0)),
		.scattered = IsA(lookup, IndexPath) ?
			hjg_planner_scattering(facts, ((const IndexPath *) lookup)->indexinfo) : 1,
		.unmapped = hjg_planner_maps_memory(driver)
	};
}

/* Predict the time in which a loop reads its driving side, which the node's prediction includes or saves. */
static double
driving_ns(double saved_ns, const HjgScanTimes *scan)
{
	return scan->own_ns > 0 ? scan->core_ns + hjg_model_wait_ns(scan, scan->core_ns - scan->own_ns) : saved_ns;
}

/* Does a loop take no longer than the node's join, times the margin, without the driving side, which both read? */
static bool
is_loop_preferred(const HjgCandidate *candidate, const HjgOffer *offer, const HjgRival *loop, double margin)
{
	const HjgPrediction *prediction = &offer->prediction;
	const HjgJoinShape *shape = &offer->shape;
	const bool	inner_drives = loop->driving == candidate->innerrel;
	const HjgScanTimes *searched = inner_drives ? &shape->probe_scan : &shape->build_scan;
	double		ours_ns = prediction->total_ns;

	/* memory that core's scan maps, or the node's, unless it takes rows from kept columns */
	if (loop->lookups.unmapped)
		ours_ns += searched->own_ns > 0 ? searched->map_ns : offer->costs->map_mb_ns * loop->lookups.mb / hjg_planner_participants(&offer->own->custom.path);
	if (inner_drives)
		ours_ns += child_ns(offer->outer, &shape->probe_scan, hjg_planner_scan_unit_ns(offer->costs)) - driving_ns(prediction->saved_build_ns, &shape->build_scan);
	else
		ours_ns += child_ns(offer->inner, &shape->build_scan, hjg_planner_scan_unit_ns(offer->costs)) - driving_ns(prediction->saved_probe_ns, &shape->probe_scan);
	return ours_ns * margin >= hjg_model_lookups_ns(offer->costs, &loop->lookups);
}

/* Is a loop driven by the inner or the outer side preferred? */
static bool
is_loop_faster(const HjgCandidate *candidate, const HjgOffer *offer, bool inner_drives, Cost hash_price)
{
	const Path *path = &offer->own->custom.path;
	const Path *driver = inner_drives ? driving_path(candidate->innerrel, path, offer->inner) :
		driving_path(candidate->outerrel, path, offer->outer);
	const Path *lookup;
	HjgRival	loop;

	if (driver == NULL)
		return false;
	lookup = find_loop(candidate, driver, inner_drives ? candidate->outerrel : candidate->innerrel, path->rows, &loop.price);
	if (lookup == NULL || loop.price >= hash_price)
		return false;
	loop.driving = driver->parent;
	loop.lookups = describe_lookups(candidate, candidate->facts, driver, lookup);
	return is_loop_preferred(candidate, offer, &loop, 1);
}

/* ---------- the first rows in the order of an index ---------- */

/*
 * Does core find the first rows of the query, all its joins included, before the node has joined? The query's price is that of this
 * plan only if it is below that of a hash join.
 */
static bool
are_first_rows_faster(const HjgCandidate *candidate, const HjgOffer *offer, Cost hash_price)
{
	return candidate->facts->ceiling < hash_price &&
		candidate->facts->ordered_ns < whole_ns(offer) + offer->own->custom.path.parallel_workers * offer->costs->launch_ns;
}

/* ---------- core's cheapest path ---------- */

/* Is core's path a loop that looks up so many rows that reading the whole table may take less time? */
static bool
is_long_loop(const HjgCandidate *candidate, const Path *path)
{
	const NestPath *loop = (const NestPath *) path;
	const Path *driver;
	const RelOptInfo *rel;

	if (!IsA(loop, NestPath) || HJG_DISABLED_NODES(path) > 0 ||
		!IsA(loop->jpath.innerjoinpath, IndexPath) || loop->jpath.innerjoinpath->param_info == NULL)
		return false;
	driver = loop->jpath.outerjoinpath;
	rel = loop->jpath.innerjoinpath->parent;
	return ((driver->parent == candidate->outerrel && rel == candidate->innerrel) ||
			(driver->parent == candidate->innerrel && rel == candidate->outerrel)) &&
		rel->pages > LEAST_PAGES && rel->pages <= NBuffers * LARGE_POOL_SHARE &&
		driver->parent->rows * MOST_ROWS_PER_LOOKUP > rel->tuples &&
		path->total_cost - driver->total_cost > path->total_cost * LEAST_PART;
}

static HjgRival
find_rival(PlannerInfo *root, const HjgCandidate *candidate, bool partial)
{
	const RelOptInfo *joinrel = candidate->joinrel;
	const Path *path = find_cheapest(partial ? joinrel->partial_pathlist : joinrel->pathlist);
	const JoinPath *loop = (const JoinPath *) path;

	if (path == NULL)
		return (HjgRival) {0};
	/* if the first rows may be enough, the rival is left to return them, a merge also in their order */
	if (!joinrel->consider_startup && is_index_merge(candidate, path))
		return (HjgRival) {.price = path->total_cost};
	if (candidate->consider_startup || root->limit_tuples >= 0 || !is_long_loop(candidate, path))
		return (HjgRival) {0};
	return (HjgRival) {
		.price = path->total_cost,.driving = loop->outerjoinpath->parent,
		.lookups = describe_lookups(candidate, hjg_planner_facts(root), loop->outerjoinpath, loop->innerjoinpath)
	};
}

void
hjg_planner_find_rivals(PlannerInfo *root, HjgCandidate *candidate)
{
	for (int partial = 0; partial <= 1; partial++)
		candidate->rivals[partial] = find_rival(root, candidate, partial);
}

bool
hjg_planner_is_overpriced(const HjgCandidate *candidate, const HjgOffer *offer)
{
	const HjgRival *rival = &candidate->rivals[offer->own->custom.path.parallel_workers > 0];

	if (rival->price == 0)
		return false;
	if (rival->driving == NULL)
		return rival->price * hjg_planner_scan_unit_ns(offer->costs) > whole_ns(offer) * SURELY_LONGER;
	return !is_loop_preferred(candidate, offer, rival, SURELY_LONGER);
}

const char *
hjg_planner_faster_rival(const HjgCandidate *candidate, const HjgOffer *offer)
{
	const JoinType jointype = candidate->jointype;
	const bool	preserves_inner = jointype == JOIN_RIGHT || HJG_IS_BUILD_ONLY(jointype);
	/* for an order that core cannot join in, compare with core's join in the other order */
	const bool	mirrored = HJG_IS_BUILD_ONLY(jointype) && !HJG_CORE_MIRRORS(jointype == HJG_JOIN_RIGHT_ANTI ? JOIN_ANTI : JOIN_SEMI);
	const Path *outer = mirrored ? offer->inner : offer->outer;
	const Path *inner = mirrored ? offer->outer : offer->inner;
	const Cost	hash_price = outer->total_cost + inner->total_cost +
		hjg_planner_hash_join_price(candidate, outer->rows, inner->rows, offer->own->custom.path.rows,
									list_length(candidate->hashclauses));

	if (is_merge_faster(candidate, offer, hash_price))
		return "core's merge join of sorted inputs is expected to take less time";
	/* a loop can preserve only its driving side */
	if (enable_nestloop && jointype != JOIN_FULL &&
		((!preserves_inner && is_loop_faster(candidate, offer, false, hash_price)) ||
		 ((preserves_inner || jointype == JOIN_INNER) && is_loop_faster(candidate, offer, true, hash_price))))
		return "core's nested loop over an index is expected to take less time";
	if (are_first_rows_faster(candidate, offer, hash_price))
		return "core's first rows in the order of an index are expected to take less time";
	return NULL;
}
