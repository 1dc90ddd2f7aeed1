/*
 * planner_unnest_in.c
 *	  Makes NOT EXISTS of NOT IN, which core joins, where no value can be NULL.
 *
 *		SELECT ... FROM o WHERE o.x NOT IN (SELECT i.y FROM i)
 * has the rows of
 *		SELECT ... FROM o WHERE NOT EXISTS (SELECT FROM (SELECT i.y FROM i) s WHERE s.y = o.x)
 * if neither x nor y is ever NULL: equalities of an index are not NULL then. Of the former core makes a hash table in each process, or, where
 * that is expected to outgrow its memory, compares each row with each.
 *
 * A value is never NULL that is a column declared so, which no outer join makes NULL, or a column for which the query has a condition that no
 * NULL passes.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tupdesc.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type_d.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/hjg_compat.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"
#include "planner/hjg_planner_unnest.h"
#include "scan/hjg_scan.h"

/* ---------- NULLs ---------- */

/* Is a table in FROM, and not on a side that an outer join makes NULL? */
static bool
is_kept_by_joins(const Node *from, Index rti)
{
	const JoinExpr *join = (const JoinExpr *) from;
	ListCell   *lc;

	if (IsA(from, RangeTblRef))
		return ((const RangeTblRef *) from)->rtindex == (int) rti;
	if (IsA(from, JoinExpr))
		return (join->jointype != JOIN_RIGHT && join->jointype != JOIN_FULL && is_kept_by_joins(join->larg, rti)) ||
			(join->jointype != JOIN_LEFT && join->jointype != JOIN_FULL && is_kept_by_joins(join->rarg, rti));
	foreach(lc, ((const FromExpr *) from)->fromlist)
		if (is_kept_by_joins(lfirst(lc), rti))
			return true;
	return false;
}

static bool
mentions_column(Node *node, void *column)
{
	return node != NULL && (equal(node, column) || expression_tree_walker(node, mentions_column, column));
}

/* Is a condition of the query not true if the column is NULL? */
static bool
is_tested(const Query *query, Var *column)
{
	List	   *conditions = make_ands_implicit((Expr *) query->jointree->quals);
	ListCell   *lc;

	foreach(lc, conditions)
	{
		Node	   *condition = lfirst(lc);
		const NullTest *test = (const NullTest *) condition;

		if (IsA(condition, NullTest) && test->nulltesttype == IS_NOT_NULL && !test->argisrow && equal(test->arg, column))
			return true;
		if (IsA(condition, OpExpr) && mentions_column(condition, column) && !contain_nonstrict_functions(condition))
			return true;
	}
	return false;
}

/* Is a column of a table declared NOT NULL? Tables may inherit the column without that. */
static bool
is_declared(const RangeTblEntry *rte, AttrNumber attno)
{
	Relation	relation;
	bool		declared;

	if (rte->relkind != RELKIND_PARTITIONED_TABLE && (rte->relkind != RELKIND_RELATION || has_subclass(rte->relid)))
		return false;
	relation = table_open(rte->relid, NoLock);
	declared = attno > 0 && HJG_IS_DECLARED_NOT_NULL(RelationGetDescr(relation), attno - 1);
	table_close(relation, NoLock);
	return declared;
}

/* Is an expression of a query's rows never NULL? */
static bool
is_never_null(const Query *query, Node *expr)
{
	Var		   *column = (Var *) hjg_scan_strip_relabel(expr);
	const RangeTblEntry *rte;

	if (IsA(column, Aggref))
		return ((Aggref *) column)->aggfnoid == F_COUNT_ || ((Aggref *) column)->aggfnoid == F_COUNT_ANY;
	if (!IsA(column, Var) || column->varlevelsup > 0 || query->setOperations != NULL || query->groupingSets != NIL)
		return false;
	rte = rt_fetch(column->varno, query->rtable);
	if (HJG_GROUP_EXPRS(rte) != NIL)
		return is_never_null(query, list_nth(HJG_GROUP_EXPRS(rte), column->varattno - 1));
	if (is_tested(query, column))
		return true;
	if (!is_kept_by_joins((Node *) query->jointree, column->varno))
		return false;
	if (rte->rtekind == RTE_SUBQUERY)
		return column->varattno > 0 && is_never_null(rte->subquery, (Node *) list_nth_node(TargetEntry, rte->subquery->targetList, column->varattno - 1)->expr);
	return rte->rtekind == RTE_RELATION && is_declared(rte, column->varattno);
}

/* ---------- NOT EXISTS ---------- */

RangeTblEntry *
hjg_planner_make_rte(RTEKind kind, const char *name, const List *targets)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	ListCell   *lc;

	rte->rtekind = kind;
	rte->inFromCl = true;
	rte->eref = makeAlias(name, NIL);
	foreach(lc, targets)
		if (!lfirst_node(TargetEntry, lc)->resjunk)
			rte->eref->colnames = lappend(rte->eref->colnames, makeString(lfirst_node(TargetEntry, lc)->resname));
	return rte;
}

/* Return why comparisons of NOT IN may be NULL, or are no join's; NULL: none. */
static const char *
check_comparison(const Query *query, const Query *subquery, Node *test)
{
	const OpExpr *comparison = (const OpExpr *) test;
	const Param *param;
	ListCell   *lc;

	if (is_andclause(test))
	{
		const char *why = NULL;

		foreach(lc, ((BoolExpr *) test)->args)
			why = why != NULL ? why : check_comparison(query, subquery, lfirst(lc));
		return why;
	}
	param = IsA(test, OpExpr) && list_length(comparison->args) == 2 ? (Param *) hjg_scan_strip_relabel(lsecond(comparison->args)) : NULL;
	if (param == NULL || !IsA(param, Param) || param->paramkind != PARAM_SUBLINK || get_mergejoin_opfamilies(comparison->opno) == NIL)
		return "a condition with a value of the query around is no equality of an index";
	if (!is_never_null(query, linitial(comparison->args)) ||
		!is_never_null(subquery, (Node *) list_nth_node(TargetEntry, subquery->targetList, param->paramid - 1)->expr))
		return "a value of NOT IN might be NULL";
	return NULL;
}

/* Replace the values that NOT IN compares with by the columns of the only table. */
static Node *
replace_params(Node *node, void *unused)
{
	const Param *param = (const Param *) node;

	if (node == NULL)
		return NULL;
	if (IsA(node, Param) && param->paramkind == PARAM_SUBLINK)
		return (Node *) makeVar(1, (AttrNumber) param->paramid, param->paramtype, param->paramtypmod, param->paramcollid, 0);
	return expression_tree_mutator(node, replace_params, unused);
}

Node *
hjg_planner_not_exists(Query *query, Node *condition, const char **why)
{
	const SubLink *sublink = linitial_node(SubLink, ((BoolExpr *) condition)->args);
	Query	   *subquery = copyObject(castNode(Query, sublink->subselect));
	Node	   *test = copyObject(sublink->testexpr);
	SubLink    *exists = makeNode(SubLink);
	Query	   *found = makeNode(Query);
	RangeTblRef *ref = makeNode(RangeTblRef);

	*why = check_comparison(query, subquery, test);
	if (*why == NULL && (contain_volatile_functions((Node *) subquery) || !hjg_planner_is_harmless((Node *) subquery)))
		*why = "it may fail for rows that the query does not look at";
	if (*why != NULL)
		return NULL;
	IncrementVarSublevelsUp(test, 1, 0);
	IncrementVarSublevelsUp((Node *) subquery, 1, 1);
	ref->rtindex = 1;
	found->commandType = CMD_SELECT;
	found->canSetTag = true;
	found->rtable = list_make1(hjg_planner_make_rte(RTE_SUBQUERY, "excluded", subquery->targetList));
	linitial_node(RangeTblEntry, found->rtable)->subquery = subquery;
	found->jointree = makeFromExpr(list_make1(ref), replace_params(test, NULL));
	found->targetList = list_make1(makeTargetEntry((Expr *) makeBoolConst(true, false), 1, pstrdup("found"), false));
	exists->subLinkType = EXISTS_SUBLINK;
	exists->subselect = (Node *) found;
	exists->location = -1;
	return (Node *) makeBoolExpr(NOT_EXPR, list_make1(exists), -1);
}
