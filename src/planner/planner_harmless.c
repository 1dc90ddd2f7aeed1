/*
 * planner_harmless.c
 *	  Is an expression, or a query, harmless: does it raise no error and have no effect, whatever rows it is evaluated for?
 *
 * Harmless expressions may be evaluated for rows that the query as it is written never looks at. Functions of users are not harmless, nor are casts
 * from strings, division, and sums of floats or of intervals. Comparisons are, and so are sums of integers and of numerics,
 * which need more than 100,000 digits to overflow; and numeric arithmetic with columns whose precision is declared.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "base/hjg_compat.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"
#include "planner/hjg_planner_unnest.h"

static bool
is_among(Oid function, const Oid *functions, int n)
{
	for (int i = 0; i < n; i++)
		if (functions[i] == function)
			return true;
	return false;
}

/* ---------- calls ---------- */

/* Functions of times that are the statement's. They fail for intervals of thousands of centuries alone. */
static const Oid known_times[] = {
	F_NOW, F_STATEMENT_TIMESTAMP, F_TIMESTAMPTZ_PL_INTERVAL, F_TIMESTAMPTZ_MI_INTERVAL, F_TIMESTAMP_PL_INTERVAL, F_TIMESTAMP_MI_INTERVAL,
	F_DATE_PL_INTERVAL, F_DATE_MI_INTERVAL, F_DATE_PLI, F_DATE_MII, F_DATE_TIMESTAMPTZ, F_DATE_TIMESTAMP, F_TIMESTAMP_TIMESTAMPTZ,
	F_TIMESTAMPTZ_DATE
};

static bool
is_not_a_time(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && !is_among(((FuncExpr *) node)->funcid, known_times, lengthof(known_times)))
		return true;
	if (IsA(node, OpExpr) && !is_among(get_opcode(((OpExpr *) node)->opno), known_times, lengthof(known_times)))
		return true;
	if (!IsA(node, FuncExpr) && !IsA(node, OpExpr) && !IsA(node, Const) && !IsA(node, SQLValueFunction) && !IsA(node, List))
		return true;
	return expression_tree_walker(node, is_not_a_time, context);
}

/* Is the value computed of numbers of declared precision alone, by operations that cannot fail for these? */
static bool
is_bounded_number(Node *node)
{
	const HjgArithmetic *arithmetic;
	List	   *args;
	ListCell   *lc;

	if (IsA(node, Var))
		return exprType(node) != NUMERICOID || exprTypmod(node) >= 0;
	if (IsA(node, Const))
		return true;
	if (!IsA(node, OpExpr) && !IsA(node, FuncExpr))
		return false;
	arithmetic = hjg_arithmetic(IsA(node, OpExpr) ? get_opcode(((OpExpr *) node)->opno) : ((FuncExpr *) node)->funcid);
	if (arithmetic == NULL || (arithmetic->width != HJG_NUMERIC_WIDTH && arithmetic->kind != HJG_ARITHMETIC_WIDEN))
		return false;
	args = IsA(node, OpExpr) ? ((OpExpr *) node)->args : ((FuncExpr *) node)->args;
	foreach(lc, args)
		if (!is_bounded_number(lfirst(lc)))
			return false;
	return true;
}

/* Has a value of a collatable type a collation? Functions that need one fail without. */
static bool
has_collation(const List *args, Oid collation)
{
	ListCell   *lc;

	foreach(lc, args)
		if (type_is_collatable(exprType(lfirst(lc))) && !OidIsValid(collation))
			return false;
	return true;
}

/* Is it an operator of an index, whose functions must work for all values? Or LIKE, with a pattern that it cannot object to. */
static bool
is_comparison(Oid operator, const List *args, Oid collation)
{
	static const Oid likes[] = {F_TEXTLIKE, F_TEXTNLIKE, F_BPCHARLIKE, F_BPCHARNLIKE};
	const Const *pattern = lsecond(args);

	if (!has_collation(args, collation))
		return false;
	if (HJG_FAMILIES_OF(operator) != NIL)
		return true;
	return is_among(get_opcode(operator), likes, lengthof(likes)) && IsA(pattern, Const) && !pattern->constisnull &&
		strchr(TextDatumGetCString(pattern->constvalue), '\\') == NULL && get_collation_isdeterministic(collation);
}

static bool
is_harmless_call(Node *node)
{
	if (IsA(node, OpExpr) || IsA(node, DistinctExpr) || IsA(node, NullIfExpr))
	{
		const OpExpr *call = (const OpExpr *) node;

		if (list_length(call->args) == 2 && is_comparison(call->opno, call->args, call->inputcollid))
			return true;
	}
	if (IsA(node, ScalarArrayOpExpr))
	{
		const ScalarArrayOpExpr *call = (const ScalarArrayOpExpr *) node;

		return is_comparison(call->opno, list_make2(linitial(call->args), linitial(call->args)), call->inputcollid);
	}
	return is_bounded_number(node) || !is_not_a_time(node, NULL);
}

/* ---------- aggregates ---------- */

/* Aggregates beside those of planner_vocabulary.c. */
static const Oid known_aggregates[] = {
	F_MIN_TEXT, F_MAX_TEXT, F_MIN_BPCHAR, F_MAX_BPCHAR, F_MIN_INTERVAL, F_MAX_INTERVAL, F_MIN_TIMETZ, F_MAX_TIMETZ, F_MIN_OID, F_MAX_OID
};

/* Is an aggregate harmless? The order of its rows must not change its result, either. */
static bool
is_harmless_aggregate(const Aggref *aggregate)
{
	HjgAggregateKind kind;

	if (hjg_aggregate_kind(aggregate->aggfnoid, &kind) ? hjg_aggregate_is_ordered(kind) :
		!is_among(aggregate->aggfnoid, known_aggregates, lengthof(known_aggregates)))
		return false;
	return !OidIsValid(aggregate->inputcollid) ? !type_is_collatable(aggregate->aggtype) : get_collation_isdeterministic(aggregate->inputcollid);
}

/* ---------- trees ---------- */

static bool
is_harmless_table(const RangeTblEntry *rte)
{
	if (rte->tablesample != NULL)
		return false;
	return rte->rtekind == RTE_RELATION || rte->rtekind == RTE_SUBQUERY || rte->rtekind == RTE_JOIN || rte->rtekind == RTE_CTE ||
		rte->rtekind == RTE_VALUES || rte->rtekind == RTE_RESULT || HJG_GROUP_EXPRS(rte) != NIL;
}

static bool
has_harm(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_FuncExpr:
			if (!is_harmless_call(node))
				return true;
			if (!is_not_a_time(node, NULL))
				return false;
			break;
		case T_Aggref:
			if (!is_harmless_aggregate((Aggref *) node))
				return true;
			break;
		case T_SubLink:
			if (((SubLink *) node)->subLinkType != EXISTS_SUBLINK && ((SubLink *) node)->subLinkType != ANY_SUBLINK)
				return true;
			break;
		case T_RangeTblEntry:
			return !is_harmless_table((RangeTblEntry *) node);
		case T_Query:
			return ((Query *) node)->commandType != CMD_SELECT || ((Query *) node)->limitCount != NULL || ((Query *) node)->limitOffset != NULL ||
				query_tree_walker((Query *) node, has_harm, context, QTW_EXAMINE_RTES_BEFORE);
		case T_Var:
		case T_Const:
		case T_Param:
		case T_SQLValueFunction:
		case T_RelabelType:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
		case T_ArrayExpr:
		case T_TargetEntry:
		case T_List:
		case T_FromExpr:
		case T_JoinExpr:
		case T_RangeTblRef:
		case T_SortGroupClause:
		case T_CommonTableExpr:
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, has_harm, context);
}

bool
hjg_planner_is_harmless(Node *node)
{
	return !has_harm(node, NULL);
}
