/*
 * planner_grouping.c
 *	  Finds the columns that the node GpuAggregate returns for a query and those that it reads, and whether it can serve the
 *	  query.
 *
 * The node must know all aggregates of the query (planner_vocabulary.c), and the keys of GROUP BY must be hashable. Arguments
 * and keys may be any expressions of the columns: core's expression code, within the node, computes those that cannot be
 * computed many rows at a time.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_grouping.h"
#include "rows/hjg_rows.h"
#include "scan/hjg_scan.h"

/* Each step of evaluation takes 2 KB of memory in each process, and nested steps take a level of the stack each. */
#define MOST_STEPS 500

/* Steps of a field of a date, or of date_trunc(); of a part of a string; of a branch of CASE, without its condition and its result. */
#define FIELD_STEPS 8
#define SLICE_STEPS 4
#define BRANCH_STEPS 4

static bool
returns_numeric(const Node *expr)
{
	return getBaseType(exprType(expr)) == NUMERICOID;
}

static bool is_computable(Node *expr, HjgAggregateWork *work);

/* Is the expression a constant NULL, or computable? */
static bool
is_computable_result(Node *expr, HjgAggregateWork *work)
{
	return (IsA(expr, Const) && ((Const *) expr)->constisnull) || is_computable(expr, work);
}

/* Can the node test the condition of a branch of CASE? */
static bool
is_testable(Expr *condition, HjgAggregateWork *work)
{
	HjgConditions conditions = {0};
	const HjgFilter *filter = hjg_scan_condition_make(&conditions, condition);

	if (filter != NULL)
		hjg_planner_count_tests(filter, work->tests);
	return filter != NULL;
}

static bool
is_computable_case(const CaseExpr *expr, HjgAggregateWork *work)
{
	ListCell   *lc;

	foreach(lc, expr->args)
	{
		const CaseWhen *when = lfirst_node(CaseWhen, lc);

		work->nsteps += BRANCH_STEPS;
		if (!is_testable(hjg_scan_when_condition(expr, when), work) || !is_computable_result((Node *) when->result, work))
			return false;
	}
	return expr->defresult == NULL || is_computable_result((Node *) expr->defresult, work);
}

static bool
are_computable(const List *exprs, HjgAggregateWork *work)
{
	ListCell   *lc;

	foreach(lc, exprs)
		if (!is_computable(lfirst(lc), work))
			return false;
	return true;
}

/* Get the column of strings that the expression is a part of; NULL if it is something else. */
static Node *
sliced_string(Node *expr)
{
	HjgSlice	slice;
	Node	   *string = (Node *) hjg_scan_find_slice((Expr *) expr, &slice);

	return string != NULL && IsA(string, Var) ? string : NULL;
}

/*
 * Can the node compute the expression for many rows at a time: columns, constants, parameters, arithmetic on them, fields of
 * dates, parts of strings, and CASE and COALESCE of such expressions? Adds to *work.
 */
static bool
is_computable(Node *expr, HjgAggregateWork *work)
{
	HjgDateField field;
	Expr	   *date;

	if (++work->nsteps > MOST_STEPS)
		return false;
	if (sliced_string(expr) != NULL)
	{
		work->nsteps += SLICE_STEPS;
		return is_computable(sliced_string(expr), work);
	}
	if ((exprType(expr) != FLOAT8OID && hjg_date_field((Expr *) expr, &field, &date)) || hjg_date_trunc((Expr *) expr, &field, &date))
	{
		work->nsteps += FIELD_STEPS;
		return is_computable((Node *) date, work);
	}
	switch (nodeTag(expr))
	{
		case T_Var:
			return ((Var *) expr)->varattno > 0 && ((Var *) expr)->varlevelsup == 0;
		case T_Const:
			return !((Const *) expr)->constisnull;
		case T_Param:
			return ((Param *) expr)->paramkind == PARAM_EXTERN || ((Param *) expr)->paramkind == PARAM_EXEC;
		case T_RelabelType:
			/* only core trusts a cast that declares other values to be numerics without a function */
			return returns_numeric(expr) == returns_numeric((Node *) ((RelabelType *) expr)->arg) &&
				is_computable((Node *) ((RelabelType *) expr)->arg, work);
		case T_OpExpr:
			return hjg_arithmetic(get_opcode(((OpExpr *) expr)->opno)) != NULL && are_computable(((OpExpr *) expr)->args, work);
		case T_FuncExpr:
			return hjg_arithmetic(((FuncExpr *) expr)->funcid) != NULL && are_computable(((FuncExpr *) expr)->args, work);
		case T_CaseExpr:
			return is_computable_case((CaseExpr *) expr, work);
		case T_CoalesceExpr:
			work->nsteps += BRANCH_STEPS * list_length(((CoalesceExpr *) expr)->args);
			return are_computable(((CoalesceExpr *) expr)->args, work);
		default:
			return false;
	}
}

/* Can the node compute the key so: an expression whose values are passed by value, a field of a date, or a part of a string? */
static bool
is_computable_key(Node *expr, HjgAggregateWork *work)
{
	HjgDateField field;
	Expr	   *date;

	if (sliced_string(expr) != NULL)
		return is_computable(expr, work);
	if (hjg_date_field((Expr *) expr, &field, &date))
	{
		work->nsteps += FIELD_STEPS;
		return is_computable((Node *) date, work);
	}
	return get_typbyval(exprType(expr)) && is_computable(expr, work);
}

/* Can core compute the expression within the node, in any order of the rows? */
static bool
is_plain_expr(Node *expr)
{
	return !contain_volatile_functions(expr) && !contain_subplans(expr) && !contain_agg_clause(expr) &&
		!contain_windowfuncs(expr) && !expression_returns_set(expr);
}

bool
hjg_planner_is_by_core(PlannerInfo *root, Node *expr, bool key, HjgAggregateWork *work)
{
	HjgAggregateWork tried = *work;
	QualCost	cost;

	if (key ? is_computable_key(expr, &tried) : is_computable(expr, &tried))
	{
		*work = tried;
		return false;
	}
	if (root != NULL)
	{
		cost_qual_eval_node(&cost, expr, root);
		work->by_core += cost.per_tuple;
	}
	return true;
}

/*
 * Find the expression that an aggregate is computed from; NULL: it counts rows. Known aggregates ignore NULLs, so a row that
 * FILTER drops is turned into a NULL.
 */
static Expr *
find_argument(const Aggref *aggref)
{
	Expr	   *argument = aggref->args != NIL ? linitial_node(TargetEntry, aggref->args)->expr : NULL;
	CaseExpr   *filtered;
	CaseWhen   *when;

	if (aggref->aggfilter == NULL)
		return argument;
	if (argument == NULL)
		argument = (Expr *) makeBoolConst(true, false);
	when = makeNode(CaseWhen);
	when->expr = aggref->aggfilter;
	when->result = argument;
	when->location = -1;
	filtered = makeNode(CaseExpr);
	filtered->casetype = exprType((Node *) argument);
	filtered->casecollid = exprCollation((Node *) argument);
	filtered->args = list_make1(when);
	filtered->defresult = (Expr *) makeNullConst(filtered->casetype, exprTypmod((Node *) argument), filtered->casecollid);
	filtered->location = -1;
	return (Expr *) filtered;
}

/*
 * Add an aggregate; returns the reason why the node cannot compute it, or NULL. The argument of a DISTINCT aggregate is a key of
 * the grouping below.
 */
static const char *
add_aggref(PlannerInfo *root, Aggref *aggref, HjgGrouping *grouping)
{
	Expr	   *argument = find_argument(aggref);
	Expr	   *square;
	HjgAggregateKind kind;

	if (aggref->aggorder != NIL)
		return "an aggregate has ORDER BY";
	if (!hjg_aggregate_kind(aggref->aggfnoid, &kind))
		return "an aggregate is not supported";
	if (hjg_aggregate_is_ordered(kind) && !hjg_float_sums)
		return "a sum of floats depends on the order of the rows (hjoin_gpu.float_sums)";
	if (kind == HJG_AGGREGATE_NUMERIC_VARIANCE && exprTypmod((Node *) argument) < 0)
		return "an aggregate is the variance of numerics without a declared precision";
	grouping->aggregates = lappend(grouping->aggregates, aggref);
	grouping->functions = lappend_oid(grouping->functions, aggref->aggfnoid);
	grouping->arguments = lappend(grouping->arguments, argument);
	grouping->work.nsteps++;
	if (argument != NULL && aggref->aggdistinct == NIL)
		grouping->work.arguments_by_core |= hjg_planner_is_by_core(root, (Node *) argument, false, &grouping->work);
	square = argument != NULL && aggref->aggdistinct == NIL ? hjg_aggregate_square(aggref->aggfnoid, argument) : NULL;
	if (square != NULL)
		grouping->work.arguments_by_core |= hjg_planner_is_by_core(root, (Node *) square, false, &grouping->work);
	return argument == NULL || is_plain_expr((Node *) argument) ? NULL : "an aggregate's argument is volatile or has a subquery";
}

int
hjg_planner_count_arguments(const HjgGrouping *grouping)
{
	int			n = list_length(grouping->arguments);
	ListCell   *lc;

	foreach(lc, grouping->functions)
	{
		HjgAggregateKind kind;

		n += hjg_aggregate_kind(lfirst_oid(lc), &kind) && hjg_aggregate_needs_squares(kind);
	}
	return n;
}

const char *
hjg_planner_add_key(PlannerInfo *root, const SortGroupClause *clause, Expr *expr, HjgGrouping *grouping)
{
	const char *why = NULL;

	if (!clause->hashable || exprType((Node *) expr) == RECORDOID)
		return "a key cannot be hashed";
	if (!is_plain_expr((Node *) expr))
		return "a key is volatile or has a subquery";
	if (!hjg_rows_key_supported(clause->eqop, exprCollation((Node *) expr), &why))
		return why;
	grouping->keys = lappend(grouping->keys, expr);
	grouping->operators = lappend_oid(grouping->operators, clause->eqop);
	grouping->work.nkeys++;
	if (!IsA(strip_implicit_coercions((Node *) expr), Var))
		(void) hjg_planner_is_by_core(root, (Node *) expr, true, &grouping->work);
	return NULL;
}

bool
hjg_planner_is_plain_distinct(const Query *parse)
{
	return parse->distinctClause != NIL && !parse->hasDistinctOn && parse->groupClause == NIL && parse->groupingSets == NIL &&
		!parse->hasAggs && !parse->hasWindowFuncs && !parse->hasTargetSRFs;
}

bool
hjg_planner_may_group(const Query *parse)
{
	const bool	keys = parse->groupClause != NIL || hjg_planner_is_plain_distinct(parse);

	return hjg_aggregate && (parse->hasAggs || keys) && parse->groupingSets == NIL && (!keys || enable_hashagg);
}

bool
hjg_planner_find_grouping(PlannerInfo *root, List *results, const Index *sortgrouprefs, List *having, HjgGrouping *grouping)
{
	List	   *others = NIL;
	List	   *columns;
	ListCell   *lc;

	*grouping = (HjgGrouping) {
		.partial = create_empty_pathtarget(),.input = create_empty_pathtarget(),
		.clauses = hjg_planner_is_plain_distinct(root->parse) ? HJG_DISTINCT_CLAUSE(root) : HJG_GROUP_CLAUSE(root)
	};
	foreach(lc, grouping->clauses)
	{
		const SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		Node	   *expr = get_sortgroupclause_expr((SortGroupClause *) clause, root->processed_tlist);

		grouping->why = hjg_planner_add_key(root, clause, (Expr *) expr, grouping);
		if (grouping->why != NULL)
			return false;
	}
	foreach(lc, results)
	{
		const Index ref = sortgrouprefs != NULL ? sortgrouprefs[foreach_current_index(lc)] : 0;

		if (ref != 0 && get_sortgroupref_clause_noerr(ref, grouping->clauses) != NULL)
			add_column_to_pathtarget(grouping->partial, lfirst(lc), ref);
		else
			others = lappend(others, lfirst(lc));
	}
	if (having != NIL)
		others = lappend(others, having);
	add_new_columns_to_pathtarget(grouping->partial,
								  pull_var_clause((Node *) others, PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
												  PVC_INCLUDE_PLACEHOLDERS));
	foreach(lc, grouping->partial->exprs)
	{
		if (IsA(lfirst(lc), Aggref))
			grouping->why = add_aggref(root, lfirst(lc), grouping);
		else if (IsA(lfirst(lc), GroupingFunc))
			grouping->why = "GROUPING() is core's";
		if (grouping->why != NULL)
			return false;
	}

	columns = pull_var_clause((Node *) list_make2(grouping->partial->exprs, grouping->keys),
							  PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS | PVC_INCLUDE_PLACEHOLDERS);
	foreach(lc, columns)
		if (!IsA(lfirst(lc), Var) || ((Var *) lfirst(lc))->varattno <= 0 || ((Var *) lfirst(lc))->varlevelsup != 0)
		{
			grouping->why = "it reads something other than plain columns";
			return false;
		}
	add_new_columns_to_pathtarget(grouping->input, columns);
	set_pathtarget_cost_width(root, grouping->input);
	grouping->work.columns = grouping->input->exprs;
	return grouping->aggregates != NIL || grouping->keys != NIL;
}

void
hjg_planner_make_partial(PlannerInfo *root, HjgGrouping *grouping)
{
	ListCell   *lc;

	foreach(lc, grouping->partial->exprs)
	{
		Aggref	   *aggref;

		if (!IsA(lfirst(lc), Aggref))
			continue;
		aggref = makeNode(Aggref);
		memcpy(aggref, lfirst(lc), sizeof(Aggref));
		mark_partial_aggref(aggref, AGGSPLIT_INITIAL_SERIAL);
		lfirst(lc) = aggref;
		grouping->partial_aggregates = lappend(grouping->partial_aggregates, aggref);
	}
	set_pathtarget_cost_width(root, grouping->partial);
}
