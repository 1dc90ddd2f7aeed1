/*
 * planner_core.c
 *	  Prices core's hash join as core does, and finds where the price of it, or of core's grouping, differs from the time.
 *
 * The node's price is a time divided by the time of a cost of 1.0, which is measured on core's hash join of sides that are
 * not unique. If the inner side is unique, core charges for less: it stops at a row's first match, and so it prices a semi
 * join: the rows that have a match, and the others hardly at all. But the share of rows with a match, except in semi and anti
 * joins, is taken from the join's selectivity: one in as many as the inner side has rows. So joins of foreign keys with their
 * tables, which most joins are, cost a third of other joins that take as long, and a cost of 1.0 is three times the time.
 *
 * A cost of 1.0 must be the same time for both orders of the sides; otherwise the order with the unique inner side would seem
 * cheaper, whichever side the table is built from. So it is that of the order for which core charges less.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/planmain.h"
#include "optimizer/prep.h"
#include "utils/lsyscache.h"

#include "planner/hjg_planner_grouping.h"
#include "planner/hjg_planner_path.h"

/* Share of the rows in its bucket that core expects to have the hash value of a row without a match. */
#define UNMATCHED_SHARE 0.05

void
hjg_planner_find_unique(PlannerInfo *root, HjgCandidate *candidate)
{
	const JoinType jointype = candidate->jointype;

	candidate->once = candidate->extra->inner_unique &&
		(jointype == JOIN_INNER || jointype == JOIN_LEFT || jointype == JOIN_RIGHT || jointype == JOIN_FULL);
	candidate->once_reversed = jointype == JOIN_INNER &&
		innerrel_is_unique(root, candidate->joinrel->relids, candidate->innerrel->relids, candidate->outerrel, JOIN_INNER,
						   candidate->extra->restrictlist, false);
}

double
hjg_planner_charged_pairs(const HjgCandidate *candidate, double outer_rows, double pairs)
{
	if (candidate->unique_outer || candidate->unique_inner ||
		(candidate->jointype != JOIN_SEMI && candidate->jointype != JOIN_ANTI && !candidate->once))
		return pairs;
	return Min(outer_rows * candidate->extra->semifactors.outer_match_frac, pairs);
}

/* Price a hash join that is charged for each pair, without its inputs. */
static Cost
full_price(double outer_rows, double inner_rows, double pairs, int nkeys)
{
	return inner_rows * (nkeys * cpu_operator_cost + cpu_tuple_cost) + outer_rows * nkeys * cpu_operator_cost * 1.5 +
		pairs * cpu_tuple_cost;
}

/* Price a hash join whose inner side is unique, without its inputs. */
static Cost
once_price(double outer_rows, double inner_rows, double pairs, int nkeys)
{
	const double matched = Min(pairs / Max(inner_rows, 1), outer_rows);

	return full_price(0, inner_rows, matched, nkeys) +
		nkeys * cpu_operator_cost * (outer_rows + matched * 0.5 + (outer_rows - matched) * UNMATCHED_SHARE);
}

Cost
hjg_planner_hash_join_price(const HjgCandidate *candidate, double outer_rows, double inner_rows, double pairs, int nkeys)
{
	Cost		price = full_price(outer_rows, inner_rows, pairs, nkeys);

	if (candidate->once)
		price = Min(price, once_price(outer_rows, inner_rows, pairs, nkeys));
	if (candidate->once_reversed)
		price = Min(price, once_price(inner_rows, outer_rows, pairs, nkeys));
	return price;
}

double
hjg_planner_underpriced(const HjgCandidate *candidate)
{
	const double outer_rows = candidate->outerrel->rows;
	const double inner_rows = candidate->innerrel->rows;
	const double pairs = candidate->joinrel->rows;
	double		times = 1;

	if (candidate->once)
		times = full_price(outer_rows, inner_rows, pairs, 1) / Max(once_price(outer_rows, inner_rows, pairs, 1), cpu_operator_cost);
	if (candidate->once_reversed)
		times = Max(times, full_price(inner_rows, outer_rows, pairs, 1) /
					Max(once_price(inner_rows, outer_rows, pairs, 1), cpu_operator_cost));
	return Max(times, 1);
}

static bool
is_varlena_first(const List *args)
{
	const Node *first = args != NIL ? linitial(args) : NULL;

	if (first != NULL && IsA(first, TargetEntry))
		first = (const Node *) ((const TargetEntry *) first)->expr;
	return first != NULL && get_typlen(exprType(first)) == -1;
}

/* Count the operators and functions whose first argument is of variable width, as numerics are. */
static bool
count_varlena_operators(Node *node, int *n)
{
	if (node == NULL)
		return false;
	if (IsA(node, OpExpr))
		*n += is_varlena_first(((OpExpr *) node)->args);
	else if (IsA(node, FuncExpr))
		*n += is_varlena_first(((FuncExpr *) node)->args);
	return expression_tree_walker(node, count_varlena_operators, n);
}

/* Count those that core evaluates for a row, transitions of aggregates among them. */
static int
count_varlena_work(const PlannerInfo *root)
{
	ListCell   *lc;
	int			n = 0;

	foreach(lc, root->aggtransinfos)
	{
		const AggTransInfo *transition = lfirst(lc);

		n += is_varlena_first(transition->args);
		count_varlena_operators((Node *) transition->args, &n);
		count_varlena_operators((Node *) transition->aggfilter, &n);
	}
	return n;
}

double
hjg_planner_grouping_unit_ns(PlannerInfo *root, const HjgGrouping *grouping, const HjgUnitCosts *costs, double join_unit_ns)
{
	AggClauseCosts core_costs = {{0}};
	Cost		charged;
	double		ns;
	/* the node's price includes expressions that core computes for it, too, as core charges for them */
	const int	nvarlenas = grouping->work.arguments_by_core ? 0 : count_varlena_work(root);

	if (grouping->core_sorts)
		return join_unit_ns;
	get_agg_clause_costs(root, AGGSPLIT_SIMPLE, &core_costs);
	charged = Max(core_costs.transCost.per_tuple + cpu_operator_cost * list_length(grouping->keys), 1e-10);
	ns = charged * join_unit_ns + nvarlenas * Max(costs->core_operator_ns - cpu_operator_cost * join_unit_ns, 0);
	if (grouping->keys != NIL)
		ns = Max(ns, (cpu_operator_cost + cpu_tuple_cost) * join_unit_ns);
	return Max(ns / charged, join_unit_ns);
}
