/*
 * planner_ceiling.c
 *	  What a query costs at most: by a chain of look-ups through indexes, as core is going to price it.
 *
 * The hook is called for pairs of tables of which the query needs but some rows, which an index finds, as for all others.  Reading
 * the two sides costs more there than all of the query, by a plan that core is sure to come upon.  Such joins
 * need no further look.  The chain begins with the table of the fewest rows, or, where a LIMIT asks for the first ones of an order,
 * with one that has an index in this order; each further table is the one of the cheapest look-up that can be made by then.
 *
 * The bound is no use, and infinite, where joins may not be made in any order, and where some table cannot be reached so.
 */
#include "postgres.h"

#include <math.h>

#include "nodes/bitmapset.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"

#include "base/hjg_compat.h"
#include "planner/hjg_planner_path.h"

/* The cheapest look-up in rel with keys of these tables; NULL: none. */
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

/* The price of the first so many rows, or of all (-1), that a chain beginning with this path yields. */
static Cost
chain_price(const List *rels, const Path *driver, double limit)
{
	Relids		known = bms_copy(driver->parent->relids);
	Cost		startup = driver->startup_cost;
	Cost		run = driver->total_cost - startup;
	double		rows = driver->rows;

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
		startup += next->startup_cost;
		run += rows * (next->total_cost + cpu_tuple_cost * next->rows);
		rows *= next->rows;
		known = bms_add_members(known, next->parent->relids);
	}
	return startup + (limit >= 0 && limit < rows ? run * limit / rows : run);
}

Cost
hjg_planner_ceiling(PlannerInfo *root)
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
			const Path *ordered = get_cheapest_path_for_pathkeys(rel->pathlist, root->query_pathkeys, NULL, TOTAL_COST, false);

			if (ordered != NULL)
				return chain_price(rels, ordered, limit);
		}
		if (driver == NULL || path->rows < driver->rows)
			driver = path;
	}
	/* all rows are sorted before the first one is known */
	return driver == NULL ? INFINITY : chain_price(rels, driver, first_of_order ? -1 : limit);
}
