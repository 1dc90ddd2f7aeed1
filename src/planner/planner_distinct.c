/*
 * planner_distinct.c
 *	  DISTINCT aggregates as groupings above each other.
 *
 * The lowest grouping has the keys of GROUP BY and the argument of the DISTINCT aggregates, so it returns each value of a group
 * once. The grouping above has the keys of GROUP BY and computes the aggregates from these values. Plain aggregates of the query
 * are computed for each value first, then from these results.
 *
 * Parallel processes that share the lowest grouping can share the one above it, too. Or each process groups the values that it
 * has finished, and a last grouping above Gather combines the results of the processes.
 *
 * Values are equal by the operator of core's DISTINCT. Rows that FILTER drops have a NULL, which no aggregate counts.
 *
 * In plans, results below the query's own are Aggrefs in partial form, so that equal() does not find one instead of the other.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/tlist.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "base/hjg_compat.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_grouping.h"

/* Marks of the results for each value and for each process. */
#define OF_VALUES ((AggSplit) AGGSPLITOP_SKIPFINAL)
#define OF_PROCESS AGGSPLIT_INITIAL_SERIAL

/* Copy the aggregate with the mark. */
static Aggref *
mark_result(const Aggref *aggref, AggSplit mark)
{
	Aggref	   *copy = makeNode(Aggref);

	*copy = *aggref;
	copy->aggsplit = mark;
	return copy;
}

/* Is the result the same whichever of several equal values is taken? Equal numerics can have different scales; 0 and -0 are equal. */
static bool
takes_any(const Aggref *aggref)
{
	HjgAggregateKind kind = HJG_AGGREGATE_COUNT;

	(void) hjg_aggregate_kind(aggref->aggfnoid, &kind);
	return kind != HJG_AGGREGATE_NUMERIC_SUM && kind != HJG_AGGREGATE_NUMERIC_LEAST && kind != HJG_AGGREGATE_NUMERIC_GREATEST &&
		kind != HJG_AGGREGATE_NUMERIC_VARIANCE && kind < HJG_AGGREGATE_FLOAT_SUM;
}

/* Find the argument of the DISTINCT aggregates, or NULL, and how it is compared; returns the reason why the node cannot do it. */
static const char *
find_distinct(const HjgGrouping *grouping, Expr **found, const SortGroupClause **clause)
{
	ListCell   *lc;
	ListCell   *arg;

	*found = NULL;
	*clause = NULL;
	forboth(lc, grouping->aggregates, arg, grouping->arguments)
	{
		const Aggref *aggref = lfirst_node(Aggref, lc);

		if (aggref->aggdistinct == NIL)
			continue;
		if (*found != NULL && !equal(*found, lfirst(arg)))
			return "DISTINCT aggregates have different arguments";
		if (!takes_any(aggref))
			return "DISTINCT numerics or floats that are equal may look different";
		*found = lfirst(arg);
		*clause = linitial_node(SortGroupClause, aggref->aggdistinct);
	}
	return NULL;
}

/* Compute the aggregates from the rows of another grouping: from DISTINCT values and from results with this mark. */
static void
combine_results(const HjgGrouping *of, AggSplit mark, HjgGrouping *grouping)
{
	ListCell   *lc;

	grouping->functions = NIL;
	grouping->arguments = NIL;
	foreach(lc, of->aggregates)
	{
		const Aggref *aggref = lfirst_node(Aggref, lc);
		const int	i = foreach_current_index(lc);
		const Oid	function = list_nth_oid(of->functions, i);
		const bool	of_values = mark == OF_VALUES && aggref->aggdistinct != NIL;

		grouping->functions = lappend_oid(grouping->functions, of_values ? function : hjg_aggregate_of_results(function));
		grouping->arguments = lappend(grouping->arguments, of_values ? list_nth(of->arguments, i) : mark_result(aggref, mark));
	}
}

/* Set the target to the keys, the columns that they determine, and the aggregates. */
static void
set_target(PlannerInfo *root, HjgGrouping *grouping)
{
	ListCell   *lc;

	grouping->target = create_empty_pathtarget();
	add_new_columns_to_pathtarget(grouping->target, grouping->keys);
	foreach(lc, grouping->partial->exprs)
		if (!IsA(lfirst(lc), Aggref))
			add_new_column_to_pathtarget(grouping->target, lfirst(lc));
	add_new_columns_to_pathtarget(grouping->target, grouping->aggregates);
	set_pathtarget_cost_width(root, grouping->target);
}

/* Take the rows of another grouping as the input, which has all expressions computed. */
static void
read_rows(const HjgGrouping *below, HjgGrouping *grouping)
{
	grouping->input = below->target;
	grouping->work = (HjgAggregateWork) {
		.nkeys = list_length(grouping->keys),
		.columns = below->target->exprs,
		.nsteps = 2 * list_length(grouping->aggregates)
	};
}

/* Leave the grouping its plain aggregates, marked. */
static void
leave_plain(HjgGrouping *grouping)
{
	List	   *aggregates = grouping->aggregates;
	List	   *functions = grouping->functions;
	List	   *arguments = grouping->arguments;
	ListCell   *lc;

	grouping->aggregates = grouping->functions = grouping->arguments = NIL;
	foreach(lc, aggregates)
	{
		const Aggref *aggref = lfirst_node(Aggref, lc);

		if (aggref->aggdistinct != NIL)
			continue;
		grouping->aggregates = lappend(grouping->aggregates, mark_result(aggref, OF_VALUES));
		grouping->functions = lappend_oid(grouping->functions, list_nth_oid(functions, foreach_current_index(lc)));
		grouping->arguments = lappend(grouping->arguments, list_nth(arguments, foreach_current_index(lc)));
	}
}

/* Add the argument to the keys, unless it is one of them; returns the reason why rows cannot be grouped by it, or NULL. */
static const char *
add_argument(PlannerInfo *root, const SortGroupClause *clause, Expr *argument, HjgGrouping *grouping)
{
	ListCell   *key;
	ListCell   *op;

	forboth(key, grouping->keys, op, grouping->operators)
		if (equal(lfirst(key), argument) && lfirst_oid(op) == clause->eqop)
			return NULL;
	grouping->keys = list_copy(grouping->keys);
	grouping->operators = list_copy(grouping->operators);
	return hjg_planner_add_key(root, clause, argument, grouping);
}

/* Turn a grouping with DISTINCT aggregates into the lowest one and those above it; returns the reason why it cannot, or NULL. */
static const char *
make_distinct(PlannerInfo *root, HjgGrouping *grouping)
{
	HjgGrouping asked;
	const SortGroupClause *clause;
	HjgDistinct *distinct;
	Expr	   *argument;
	ListCell   *lc;
	const char *why = find_distinct(grouping, &argument, &clause);

	if (argument == NULL || why != NULL)
		return why;
	if (!enable_hashagg)
		return "enable_hashagg is off";
	grouping->core_sorts = true;
	asked = *grouping;
	why = add_argument(root, clause, argument, grouping);
	if (why != NULL)
		return why;
	leave_plain(grouping);
	set_target(root, grouping);

	grouping->distinct = distinct = palloc0(sizeof(HjgDistinct));
	distinct->byval = get_typbyval(exprType((Node *) argument));
	distinct->whole = asked;
	combine_results(&asked, OF_VALUES, &distinct->whole);
	if (list_member_oid(distinct->whole.functions, InvalidOid))
		return "an average stands beside DISTINCT aggregates";
	read_rows(grouping, &distinct->whole);

	distinct->part = distinct->whole;
	distinct->part.aggregates = NIL;
	foreach(lc, asked.aggregates)
		distinct->part.aggregates = lappend(distinct->part.aggregates, mark_result(lfirst_node(Aggref, lc), OF_PROCESS));
	set_target(root, &distinct->part);
	distinct->sum = distinct->whole;
	combine_results(&distinct->whole, OF_PROCESS, &distinct->sum);
	read_rows(&distinct->part, &distinct->sum);
	distinct->divisible = !list_member_oid(distinct->sum.functions, InvalidOid);
	return NULL;
}

bool
hjg_planner_find_groupings(PlannerInfo *root, List *results, const Index *sortgrouprefs, List *having, HjgGrouping *grouping)
{
	if (!hjg_planner_find_grouping(root, results, sortgrouprefs, having, grouping))
		return false;
	grouping->why = make_distinct(root, grouping);
	return grouping->why == NULL;
}

void
hjg_planner_set_results(PlannerInfo *root, HjgGrouping *grouping, PathTarget *target, List *having, double rows)
{
	HjgDistinct *distinct = grouping->distinct;

	grouping->ngroups = grouping->keys != NIL ? hjg_planner_estimate_groups(root, grouping->keys, rows) : 1;
	if (distinct == NULL)
	{
		grouping->target = target;
		grouping->having = having;
		return;
	}
	hjg_planner_set_results(root, &distinct->whole, target, having, rows);
	hjg_planner_set_results(root, &distinct->sum, target, having, rows);
	distinct->part.ngroups = distinct->whole.ngroups;
	if (!HJG_CHARGES_SORTS)
		distinct->unpriced_ns = hjg_model_sort_ns(rows, grouping->ngroups / distinct->whole.ngroups, distinct->byval);
}
