/*
 * planner_unnest_choice.c
 *	  Plans a query as it is written, and with joins in the place of its subqueries, and takes the cheaper plan.
 *
 * Core runs a subquery for each row of the query around, which takes hours if it must read a table each time, and is right where an
 * index finds few rows of it for few rows. So the planner plans both. Several subqueries are tried one after the other.
 *
 * Core's price of a plan with subqueries is far off in three ways, which are corrected before it is compared: too low above joins, too
 * high in scans with other conditions, and too high for look-ups in indexes whose pages are in memory.
 */
#include "postgres.h"

#include "jit/jit.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "port/pg_bitutils.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"
#include "planner/hjg_planner_unnest.h"

/* A plan of this price or less is not compared with another one: planning takes longer than it can save. */
#define LEAST_PRICE 1000.0

/* The other plan must cost so much less. One with a join for NOT IN reads the same rows as that would, and need only cost less. */
#define LEAST_GAIN 2.0

/*
 * Least share of its price that a look-up in an index takes, if its pages are in memory. 8,000 look-ups of 4 rows each took as long as
 * grouping all 800,000 kept rows, on two cores, which costs a fifteenth; and 25,000 as long as grouping the rows of pages, for a fifth.
 */
#define LEAST_OF_LOOKUP 0.2

static planner_hook_type previous_planner_hook = NULL;

/* ---------- prices ---------- */

/* Prices of the subqueries of a plan that its own price does not tell. */
typedef struct Corrections
{
	const List *subplans;		/* of the statement */
	Cost		least;			/* their cost at least */
	Cost		excess;			/* part of their price that is too much, at most */
	Cost		discount;		/* part that they save if pages are in memory */
} Corrections;

/* Sum up the prices of tables that a plan reads as a whole. */
static Cost
reading_price(const Plan *plan)
{
	const List *children = hjg_planner_priced_children(plan);
	Cost		price = 0;
	ListCell   *lc;

	if (IsA(plan, IndexScan) || IsA(plan, IndexOnlyScan) || IsA(plan, BitmapHeapScan))
		return 0;
	foreach(lc, children)
		price += reading_price(lfirst(lc));
	return children == NIL ? plan->total_cost : price;
}

typedef struct Evaluations
{
	double		rows;
	Corrections *corrections;
} Evaluations;

/* Price the subqueries of an expression that is evaluated for so many rows. */
static bool
add_evaluations(Node *node, Evaluations *evaluations)
{
	const SubPlan *subquery = (const SubPlan *) node;

	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) && subquery->parParam != NIL && !subquery->useHashTable)
	{
		const Plan *plan = list_nth(evaluations->corrections->subplans, subquery->plan_id - 1);
		const Cost	price = evaluations->rows * subquery->per_call_cost;

		evaluations->corrections->least += price;
		if (reading_price(plan) < plan->total_cost / 2)
			evaluations->corrections->discount += price * (1 - LEAST_OF_LOOKUP);
	}
	return expression_tree_walker(node, add_evaluations, evaluations);
}

static void
price_evaluations(const void *expressions, double rows, Corrections *corrections)
{
	Evaluations evaluations = {.rows = rows, .corrections = corrections};

	add_evaluations((Node *) unconstify(void *, expressions), &evaluations);
}

/* Estimate the share of rows that pass a condition with a subquery, by core's guesses. */
static double
passing_share(const Node *condition)
{
	const RegProcedure estimator = IsA(condition, OpExpr) ? get_oprrest(((const OpExpr *) condition)->opno) : InvalidOid;

	return estimator == F_SCALARLTSEL || estimator == F_SCALARLESEL || estimator == F_SCALARGTSEL || estimator == F_SCALARGESEL ?
		DEFAULT_INEQ_SEL : DEFAULT_EQ_SEL;
}

/* A scan evaluates conditions with subqueries last, but core charges it for all conditions of all rows. */
static void
correct_scan(const Plan *scan, Corrections *corrections)
{
	ListCell   *lc;

	foreach(lc, scan->qual)
	{
		const Cost	before = corrections->least;

		price_evaluations(lfirst(lc), scan->plan_rows / passing_share(lfirst(lc)), corrections);
		if (list_length(scan->qual) > 1 && corrections->least > before)
			corrections->excess += Max(scan->total_cost - (corrections->least - before), 0);
	}
}

/* Estimate the pairs of rows for which a join evaluates its conditions at least: as many as its smaller side has rows, if that is all that is known. */
static double
least_pairs(const Plan *join, const List *children)
{
	if (IsA(join, CustomScan) && ((const CustomScan *) join)->methods == &hjg_scan_methods)
		return list_nth_int(list_nth(((const CustomScan *) join)->custom_private, HJG_PRIVATE_SCALARS), HJG_SCALAR_PAIRS);
	return Min(((const Plan *) linitial(children))->plan_rows, ((const Plan *) lsecond(children))->plan_rows);
}

/*
 * A node evaluates its subqueries for each row that it returns at least, and a join for pairs of rows. Core charges a hash join with a unique
 * inner side for far fewer: it takes the share of pairs that match for that of rows.
 */
static void
correct_price(const Plan *plan, Corrections *corrections)
{
	const List *children = hjg_planner_priced_children(plan);
	double		rows = plan->plan_rows;
	ListCell   *lc;

	price_evaluations(plan->targetlist, rows, corrections);
	if (children == NIL)
		correct_scan(plan, corrections);
	if (list_length(children) == 2 && !IsA(plan, Append) && !IsA(plan, MergeAppend))
		rows = Max(rows, least_pairs(plan, children));
	if (children != NIL)
		price_evaluations(plan->qual, rows, corrections);
	if (IsA(plan, NestLoop) || IsA(plan, MergeJoin) || IsA(plan, HashJoin))
		price_evaluations(((const Join *) plan)->joinqual, rows, corrections);
	if (IsA(plan, CustomScan))
		price_evaluations(((const CustomScan *) plan)->custom_exprs, rows, corrections);
	foreach(lc, children)
		correct_price(lfirst(lc), corrections);
}

static Cost
price_of(const PlannedStmt *plan)
{
	Corrections corrections = {.subplans = plan->subplans};

	correct_price(plan->planTree, &corrections);
	return Max(plan->planTree->total_cost - corrections.excess, corrections.least) - corrections.discount;
}

/*
 * Has a plan a node of another extension? One that plans queries itself, as Citus does for tables on other machines, knows the query as it
 * is written, and may not know what it becomes.
 */
static bool
has_strange_node(const Plan *plan)
{
	ListCell   *lc;

	if (IsA(plan, CustomScan) && !hjg_planner_is_our_plan(plan))
		return true;
	foreach(lc, hjg_planner_children_of(plan))
		if (has_strange_node(lfirst(lc)))
			return true;
	return false;
}

static bool
is_of_core_and_us(const PlannedStmt *plan)
{
	ListCell   *lc;

	foreach(lc, plan->subplans)
		if (lfirst(lc) != NULL && has_strange_node(lfirst(lc)))
			return false;
	return !has_strange_node(plan->planTree);
}

static bool
is_cheaper(const PlannedStmt *joined, const PlannedStmt *best, double least_gain)
{
	if (HJG_DISABLED_NODES(joined->planTree) != HJG_DISABLED_NODES(best->planTree))
		return HJG_DISABLED_NODES(joined->planTree) < HJG_DISABLED_NODES(best->planTree);
	return price_of(joined) * least_gain < price_of(best);
}

/* ---------- the choice ---------- */

/* Is there a subquery that a join might replace? */
static bool
has_joinable_subquery(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if ((IsA(node, SubLink) && ((SubLink *) node)->subLinkType == EXPR_SUBLINK) || HJG_IS_NOT_IN(node))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_joinable_subquery, context, 0);
	return expression_tree_walker(node, has_joinable_subquery, context);
}

/* May a cursor's current row be updated? Then its plan must read its only table, and join nothing. */
static bool
is_updatable(const Query *query, int cursor_options)
{
	const Node *from = list_length(query->jointree->fromlist) == 1 ? linitial(query->jointree->fromlist) : NULL;

	return (cursor_options & CURSOR_OPT_FAST_PLAN) != 0 && from != NULL && IsA(from, RangeTblRef) &&
		rt_fetch(((const RangeTblRef *) from)->rtindex, query->rtable)->rtekind == RTE_RELATION;
}

static PlannedStmt *
plan_query(Query *query, const char *text, int cursor_options, ParamListInfo params)
{
	return previous_planner_hook != NULL ? previous_planner_hook(query, text, cursor_options, params) :
		standard_planner(query, text, cursor_options, params);
}

/*
 * Plan the query with each subquery joined, beside those whose join was cheaper, and in the end with all: one that has another one in it
 * can only be joined together with that.
 */
static PlannedStmt *
plan_with_joins(Query *query, const char *text, int cursor_options, ParamListInfo params)
{
	const Query *original = copyObject(query);
	PlannedStmt *best = plan_query(query, text, cursor_options, params);
	HjgUnnested possible = {0};
	uint32		chosen = 0;
	uint32		last = 0;

	if ((price_of(best) < LEAST_PRICE && !hjg_force) || !is_of_core_and_us(best) ||
		hjg_planner_unnest(original, ~0u, hjg_explain_declined, &possible) == NULL)
		return best;
	for (uint32 bit = 1; chosen != possible.joined && last != possible.joined; bit <<= 1)
	{
		const uint32 wanted = bit <= possible.joined ? chosen | (bit & possible.joined) : possible.joined;
		HjgUnnested done;
		Query	   *trial = (wanted & ~chosen) != 0 ? hjg_planner_unnest(original, wanted, false, &done) : NULL;

		if (trial != NULL)
		{
			PlannedStmt *plan = plan_query(trial, text, cursor_options, params);

			if (hjg_force || is_cheaper(plan, best, (done.joined & ~chosen & ~done.not_in) == 0 ? 1.0 : LEAST_GAIN))
			{
				best = plan;
				chosen = done.joined;
			}
		}
		last = wanted;
	}
	if (hjg_explain_declined && chosen != possible.joined)
		ereport(NOTICE,
				(errmsg("%d subqueries that could be joined are not", pg_popcount32(possible.joined & ~chosen)),
				 errdetail("Reason: %s.", HJG_CORE_COSTS_LESS)));
	return best;
}

static PlannedStmt *
plan_statement(Query *query, const char *text, int cursor_options, ParamListInfo params)
{
	const bool	joins = hjg_enabled && hjg_unnest_subqueries && (query->commandType == CMD_SELECT || query->commandType == CMD_INSERT) &&
		!query->hasModifyingCTE && has_joinable_subquery((Node *) query, NULL) && !is_updatable(query, cursor_options);
	PlannedStmt *plan = joins ? plan_with_joins(query, text, cursor_options, params) : plan_query(query, text, cursor_options, params);

	if (plan->jitFlags != PGJIT_NONE)
		hjg_planner_limit_jit(plan);
	return plan;
}

void
hjg_planner_init_unnesting(void)
{
	previous_planner_hook = planner_hook;
	planner_hook = plan_statement;
}
