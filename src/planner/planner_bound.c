/*
 * planner_bound.c
 *	  Compares the price of a path of the node with core's lists; and, before any path is priced, the least price of such a
 *	  path with the highest price of the query.
 *
 * The hook is called for every pair of relations in both orders, and core serves most pairs better: by an index, or because
 * they have few rows. Planning them must take no longer than without the extension. So for a join that the bounds rule out no
 * clause is examined, and nothing is counted or allocated but its verdict (planner_trace.c). Without the bounds such queries
 * take 5 to 10 % longer to plan.
 *
 * A path of the node costs at least the reading of its children. The query costs at most a chain of look-ups in indexes, a
 * plan that core always considers. The chain begins with the table of the fewest rows, or, for a LIMIT with an order, with a
 * table that has an index in this order; then the table with the cheapest possible look-up is always next. This upper bound
 * is infinite if the order of joins is restricted or a table cannot be reached by look-ups. For LIMIT queries with an index
 * for each join it saves 2 to 6 % of planning.
 */
#include "postgres.h"

#include <math.h>

#include "nodes/bitmapset.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "planner/hjg_planner_path.h"

/* The upper bound uses core's estimates for that plan, but not in exactly the same way. */
#define WELL_MORE 1.25

/* ---------- prices, and core's lists ---------- */

/*
 * Is there a path without parameters in the list that is about as cheap, or cheaper? It is then at least as good, because
 * paths of the node have no order. Lists are in order of price, with paths that a setting disables at the end.
 */
static bool
is_beaten(const List *paths, Cost startup, Cost total, int ndisabled, bool consider_startup)
{
	ListCell   *lc;

	foreach(lc, paths)
	{
		const Path *path = lfirst(lc);

		if (total * HJG_CLEARLY_MORE <= path->total_cost || HJG_DISABLED_NODES(path) > ndisabled)
			return false;
		if (hjg_planner_is_ours(path))
			continue;
		if (path->param_info == NULL && (!consider_startup || startup * HJG_CLEARLY_MORE > path->startup_cost))
			return true;
	}
	return false;
}

/*
 * Compare with core's lists. As in add_partial_path_precheck(), a partial path that is no cheaper than a complete one is
 * useless.
 */
bool
hjg_planner_wins(const HjgCandidate *candidate, Cost startup, Cost total, bool partial)
{
	const RelOptInfo *joinrel = candidate->joinrel;
	int			ndisabled;

	if (hjg_force)
		return true;
	total -= candidate->spared;
	ndisabled = HJG_DISABLED_NODES(candidate->outerrel->cheapest_total_path) +
		HJG_DISABLED_NODES(candidate->innerrel->cheapest_total_path);
	if (partial)
		return !is_beaten(joinrel->partial_pathlist, startup, total, ndisabled, false) &&
			!is_beaten(joinrel->pathlist, startup, total, ndisabled, false);
	return !is_beaten(joinrel->pathlist, startup, total, ndisabled, candidate->consider_startup);
}

const HjgPath *
hjg_planner_best(const HjgCandidate *candidate, bool partial)
{
	const List *paths = partial ? candidate->joinrel->partial_pathlist : candidate->joinrel->pathlist;
	ListCell   *lc;

	foreach(lc, paths)
		if (((const Path *) lfirst(lc))->param_info == NULL)
			return hjg_planner_is_ours(lfirst(lc)) ? lfirst(lc) : NULL;
	return NULL;
}

/* May a path of this price win, before it is known whether it is so much faster than a rival that prices do not count? */
static bool
may_win(const HjgCandidate *candidate, Cost startup, Cost total, bool partial)
{
	const HjgPath *best = hjg_planner_best(candidate, partial);

	if (best != NULL)
		return total < best->even_cost;
	return candidate->rivals[partial].price > 0 || hjg_planner_wins(candidate, startup, total, partial);
}

/* ---------- the upper bound of the query's price ---------- */

/* Find the cheapest look-up in rel with keys of the known tables; NULL: none. */
static const Path *
find_lookup(const RelOptInfo *rel, Relids known)
{
	const Path *cheapest = NULL;
	ListCell   *lc;

	foreach(lc, rel->cheapest_parameterized_paths)
	{
		const Path *path = lfirst(lc);

		if (path->param_info != NULL && HJG_DISABLED_NODES(path) == 0 && (cheapest == NULL || path->total_cost < cheapest->total_cost) &&
			bms_is_subset(PATH_REQ_OUTER(path), known))
			cheapest = path;
	}
	return cheapest;
}

/* Predict the time in which a scan of an index reads rows in its order; infinite for another path. */
static double
ordered_scan_ns(HjgQueryFacts *facts, const Path *driver)
{
	const IndexPath *scan = (const IndexPath *) driver;
	const RelOptInfo *rel = driver->parent;
	HjgLookups	search = {.nlookups = 1};

	if (!IsA(driver, IndexPath))
		return INFINITY;
	search.rows = rel->tuples * scan->indexselectivity;
	search.mb = rel->pages * (BLCKSZ / (1024.0 * 1024.0));
	search.scattered = hjg_planner_scattering(facts, scan->indexinfo);
	return hjg_model_lookups_ns(facts->calibrated, &search) +
		search.rows * (rel->baserestrictcost.per_tuple / Max(cpu_operator_cost, 1e-10)) * facts->calibrated->core_operator_ns;
}

/* Predict the time of this many look-ups of a chain. */
static double
lookups_ns(HjgQueryFacts *facts, double nlookups, const Path *lookup)
{
	const HjgLookups lookups = {
		.nlookups = nlookups,.rows = lookup->rows,.mb = lookup->parent->pages * (BLCKSZ / (1024.0 * 1024.0)),
		.scattered = IsA(lookup, IndexPath) ? hjg_planner_scattering(facts, ((const IndexPath *) lookup)->indexinfo) : 1
	};

	return hjg_model_lookups_ns(facts->calibrated, &lookups);
}

/* Price the first `limit` rows, or all (-1), of a chain that begins with this path; ns: NULL, or their time. */
static Cost
chain_price(HjgQueryFacts *facts, const List *rels, const Path *driver, double limit, double *ns)
{
	Relids		known = bms_copy(driver->parent->relids);
	Cost		startup = driver->startup_cost;
	Cost		run = driver->total_cost - startup;
	double		rows = driver->rows;
	double		run_ns = ns == NULL ? 0 : ordered_scan_ns(facts, driver);
	double		share;

	for (int n = 1; n < list_length(rels); n++)
	{
		const Path *next = NULL;
		ListCell   *lc;

		foreach(lc, rels)
		{
			const RelOptInfo *rel = lfirst(lc);
			const Path *lookup = bms_is_subset(rel->relids, known) ? NULL : find_lookup(rel, known);

			if (lookup != NULL && (next == NULL || lookup->total_cost < next->total_cost))
				next = lookup;
		}
		if (next == NULL)
			return INFINITY;
		if (ns != NULL)
			run_ns += lookups_ns(facts, rows, next);
		startup += next->startup_cost;
		run += rows * (next->total_cost + cpu_tuple_cost * next->rows);
		/* core rounds up the rows of a look-up by a unique key, whatever its conditions drop */
		rows *= next->rows > 1 ? next->rows : next->parent->rows / Max(next->parent->tuples, 1);
		known = bms_add_members(known, next->parent->relids);
	}
	share = limit >= 0 && limit < rows ? limit / rows : 1;
	if (ns != NULL)
		*ns = run_ns * share;
	return startup + run * share;
}

/* Compute an upper bound of the query's price; of its first rows, if root asks for these. ordered_ns: as in HjgQueryFacts. */
static Cost
find_ceiling(PlannerInfo *root, HjgQueryFacts *facts)
{
	const List *rels = root->initial_rels;
	const bool	first_of_order = root->limit_tuples >= 0 && root->query_pathkeys != NIL;
	const Path *driver = NULL;
	double		limit = root->limit_tuples;
	ListCell   *lc;

	if (!enable_nestloop || root->join_info_list != NIL || root->hasLateralRTEs ||
		list_length(rels) != bms_num_members(root->all_baserels))
		return INFINITY;
	foreach(lc, rels)
	{
		const RelOptInfo *rel = lfirst(lc);
		const Path *path = rel->cheapest_total_path;

		if (rel->reloptkind != RELOPT_BASEREL || path == NULL || path->param_info != NULL)
			return INFINITY;
		if (first_of_order)
		{
			const Path *ordered = get_cheapest_fractional_path_for_pathkeys(rel->pathlist, root->query_pathkeys, NULL, Min(limit / rel->rows, 1));

			if (ordered != NULL)
				return chain_price(facts, rels, ordered, limit, &facts->ordered_ns);
		}
		if (driver == NULL || path->rows < driver->rows)
			driver = path;
	}
	/* all rows are sorted before the first one is known */
	return driver == NULL ? INFINITY : chain_price(facts, rels, driver, first_of_order ? -1 : limit, NULL);
}

/* ---------- the lower bound of a path's price ---------- */

/*
 * Compute the least share of core's price for a scan's rows and conditions that the node's own reading costs, without looking
 * at the columns or the conditions.
 */
static double
least_part(const HjgUnitCosts *costs, const RelOptInfo *rel)
{
	const double operators = rel->baserestrictcost.per_tuple / Max(cpu_operator_cost, 1e-10);
	const double core_ns = costs->scan_tuple_ns + operators * costs->core_operator_ns + rel->max_attr * costs->walk_ns;

	return Min(costs->direct_tuple_ns * (rel->baserestrictinfo == NIL ? 1 : rel->rows / Max(rel->tuples, 1)) / core_ns, 1);
}

/*
 * Compute a lower bound of the price of a sequential scan of kept columns, which the node may prefer to the child
 * (planner_reading.c); infinite if it cannot.
 */
static Cost
least_kept_reading(const HjgCandidate *candidate, const Path *child)
{
	const RelOptInfo *rel = child->parent;

	if (!hjg_kept_columns || !hjg_direct_scan || !IS_SIMPLE_REL(rel) || rel->rtekind != RTE_RELATION || child->param_info != NULL)
		return INFINITY;
	return (cpu_tuple_cost + rel->baserestrictcost.per_tuple) * rel->tuples * (child->rows / Max(rel->rows, 1)) *
		least_part(candidate->facts->calibrated, rel);
}

/*
 * Compute a lower bound of the price of reading a child. The cost of returning rows may be saved, so it is replaced by the
 * node's own cost for them, if unit costs are known. That cost is not added for shared work, because the child may have
 * another number of processes than the join.
 */
static Cost
least_reading(const HjgCandidate *candidate, const Path *child, bool shared)
{
	const HjgUnitCosts *costs = candidate->costs;
	const RelOptInfo *rel = child->parent;
	const bool	scan = hjg_direct_scan && child->pathtype == T_SeqScan;
	const bool	vectors = scan || (hjg_direct_scan && hjg_planner_is_ours(child));
	const Cost	slots = costs == NULL ? 0 : child->rows * costs->marshal_tuple_ns * candidate->ns_cost;
	Cost		more = slots;
	Cost		least;
	Cost		kept;

	if (scan)
		more = (cpu_tuple_cost + rel->baserestrictcost.per_tuple) * rel->tuples * (child->rows / Max(rel->rows, 1)) *
			((costs == NULL ? 0 : least_part(costs, rel)) - 1);
	else if (vectors && costs == NULL)
		more = -cpu_tuple_cost * child->rows;
	else if (vectors)
		more = child->rows * costs->column_ns * candidate->ns_cost -
			Min(child->rows * costs->emit_tuple_ns * candidate->ns_cost, cpu_tuple_cost * child->rows);
	more = Min(more, slots);
	least = Max(child->total_cost + (shared ? Min(more, 0) : more), 0);
	kept = least_kept_reading(candidate, child);
	if (kept < least && (costs == NULL || hjg_planner_side(candidate->facts, rel, NULL)->scan.kept_share > 0))
		return kept;
	return least;
}

/* Compute that bound for the outer side, of whose grouping the join's filter may save most. */
static Cost
least_outer(const HjgCandidate *candidate, const Path *child, bool shared)
{
	return least_reading(candidate, child, shared) - hjg_planner_grouping_price(child);
}

/* Compute a lower bound of the price of the cheapest path of the node; may that path win? */
static bool
find_least(const HjgCandidate *candidate, Cost *startup, Cost *total)
{
	const RelOptInfo *outerrel = candidate->outerrel;
	const RelOptInfo *innerrel = candidate->innerrel;
	const Path *outer = outerrel->cheapest_total_path;
	const Cost	begin = candidate->costs == NULL ? 0 : candidate->costs->startup_ns * candidate->ns_cost;
	Cost		build = begin + least_reading(candidate, innerrel->cheapest_total_path, false);
	Cost		share;
	bool		wins;

	*startup = build - hjg_planner_grouping_price(outer) + (outerrel->cheapest_startup_path == NULL ? outer->startup_cost :
						Min(outer->startup_cost, outerrel->cheapest_startup_path->startup_cost));
	*total = build + least_outer(candidate, outer, false);
	wins = may_win(candidate, *startup, *total, false);
	if (!candidate->joinrel->consider_parallel || outerrel->partial_pathlist == NIL)
		return wins;
	if (innerrel->partial_pathlist != NIL)
		build = Min(build, begin + least_reading(candidate, linitial(innerrel->partial_pathlist), true));
	share = build + least_outer(candidate, linitial(outerrel->partial_pathlist), true);
	*startup = Min(*startup, build + parallel_setup_cost);
	*total = Min(*total, share + parallel_setup_cost);
	return wins || may_win(candidate, 0, share, true);
}

/* Does the cheapest path of the node cost more than the whole query? */
static bool
is_above_ceiling(PlannerInfo *root, const HjgCandidate *candidate, Cost startup, Cost total)
{
	HjgQueryFacts *facts = candidate->facts;

	/* a plan for the first rows reads only some of the partitions */
	if (facts->first_rows)
		total = IS_OTHER_REL(candidate->joinrel) ? 0 : startup;
	if (facts->ceiling < 0)
		facts->ceiling = find_ceiling(root, facts);
	return total > facts->ceiling * WELL_MORE + candidate->spared;
}

const char *
hjg_planner_bound(PlannerInfo *root, HjgCandidate *candidate)
{
	Cost		startup;
	Cost		total;

	/* most joins are decided without unit costs, which take longer to compute than this whole function */
	candidate->costs = NULL;
	hjg_planner_find_rivals(root, candidate);
	if (!find_least(candidate, &startup, &total))
		return HJG_CORE_COSTS_LESS;
	if (!hjg_force && is_above_ceiling(root, candidate, startup, total))
		return "core's look-ups in indexes are expected to cost less";
	hjg_planner_set_units(root, candidate);
	return find_least(candidate, &startup, &total) ? NULL : HJG_CORE_COSTS_LESS;
}
