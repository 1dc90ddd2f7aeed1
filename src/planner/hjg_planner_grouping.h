/*
 * hjg_planner_grouping.h
 *	  Groupings: what a query computes of groups, if the node can.
 *
 * Internal to the room "planner".
 */
#ifndef HJG_PLANNER_GROUPING_H
#define HJG_PLANNER_GROUPING_H

#include "planner/hjg_planner_path.h"

/* ---------- planner_grouping.c ---------- */

/* The grouping of a query, or one of several groupings above each other, for the node. */
typedef struct HjgGrouping
{
	PathTarget *target;			/* results */
	List	   *having;
	PathTarget *partial;		/* keys, and what they determine; partial Aggrefs */
	PathTarget *input;			/* the columns that these are computed from */
	List	   *clauses;		/* SortGroupClauses */
	List	   *keys;
	List	   *operators;
	List	   *aggregates;		/* Aggrefs */
	List	   *functions;		/* OIDs: the function that each is computed by */
	List	   *arguments;		/* the expression that each is computed from, FILTER included; NULL: it counts rows */
	List	   *partial_aggregates;
	double		ngroups;		/* of all rows */
	HjgAggregateWork work;
	bool		core_sorts;		/* core sorts the rows for it, without a hash table */
	struct HjgDistinct *distinct;	/* the groupings above, if this one makes rows distinct; or NULL */
	const char *why;			/* reason why the node cannot do it */
} HjgGrouping;

/* The groupings of rows that are distinct (planner_distinct.c). */
typedef struct HjgDistinct
{
	bool		byval;			/* the values are of fixed length */
	double		unpriced_ns;	/* time of core's sorts that core's price does not include */
	HjgGrouping whole;			/* of all rows, into the query's results */
	bool		divisible;		/* the results can also be computed by: */
	HjgGrouping part;			/* a grouping of each process's rows, and */
	HjgGrouping sum;			/* one of its results */
} HjgDistinct;

/*
 * Compute the time of a cost of 1.0 in core's grouping of rows (planner_core.c); join_unit_ns: in core's hash join with as many build rows. Core charges
 * less for finding a row's group than for a look-up in a hash join's table of as many rows, though both take as long; and for an operator on values of
 * variable width as much as for others, which take a fraction of its time.
 */
extern double hjg_planner_grouping_unit_ns(PlannerInfo *root, const HjgGrouping *grouping, const HjgUnitCosts *costs, double join_unit_ns);

/* Does the query make its rows distinct, and nothing else of them? It is served as GROUP BY of all columns. */
extern bool hjg_planner_is_plain_distinct(const Query *parse);
/* May GpuAggregate serve the query, by its form? */
extern bool hjg_planner_may_group(const Query *parse);
/*
 * Find the columns that the node returns for these results, in core's partial form, and its input; false if the node cannot.
 * sortgrouprefs: of the results, or NULL. The caller sets target, having and ngroups.
 */
extern bool hjg_planner_find_grouping(PlannerInfo *root, List *results, const Index *sortgrouprefs, List *having, HjgGrouping *grouping);
/* Turn the aggregates among the returned columns into partial ones. */
extern void hjg_planner_make_partial(PlannerInfo *root, HjgGrouping *grouping);
/* Count the arguments that have totals in a group, at most: an aggregate that is made of squares, too, has two. */
extern int	hjg_planner_count_arguments(const HjgGrouping *grouping);
/* Add an expression to the keys; clause: how it is compared. Returns the reason why rows cannot be grouped by it, or NULL. */
extern const char *hjg_planner_add_key(PlannerInfo *root, const SortGroupClause *clause, Expr *expr, HjgGrouping *grouping);
/*
 * Does core's code compute the expression, an argument or a key, and not the node many rows at a time? Adds to *work; root NULL:
 * without its price.
 */
extern bool hjg_planner_is_by_core(PlannerInfo *root, Node *expr, bool key, HjgAggregateWork *work);

/* ---------- planner_distinct.c ---------- */

/* Find a grouping as hjg_planner_find_grouping() does; with DISTINCT aggregates it makes rows distinct, for the groupings above. */
extern bool hjg_planner_find_groupings(PlannerInfo *root, List *results, const Index *sortgrouprefs, List *having, HjgGrouping *grouping);
/* Set the target and having of the grouping that returns the results, and all numbers of groups. rows: of the input. */
extern void hjg_planner_set_results(PlannerInfo *root, HjgGrouping *grouping, PathTarget *target, List *having, double rows);

#endif							/* HJG_PLANNER_GROUPING_H */
