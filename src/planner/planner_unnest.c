/*
 * planner_unnest.c
 *	  Replaces subqueries that aggregate the rows of one key, or look up a row, for each row anew, by joins; and NOT IN.
 *
 *		SELECT ... FROM o WHERE o.x < (SELECT 0.5 * avg(i.y) FROM i WHERE i.k = o.k)
 * has the rows of
 *		SELECT ... FROM o LEFT JOIN (SELECT i.k, avg(i.y) AS a FROM i GROUP BY i.k) g ON g.k = o.k WHERE o.x < 0.5 * g.a
 * Core makes the join an inner one where a NULL fails the condition, and orders it among the others. The filter of the join's keys travels
 * to the scan of i below the groups (node_travel.c), so that only groups that are asked for are made. planner_unnest_choice.c decides.
 *
 * Why the rows are the same.  The aggregates of a group are those of the rows that the subquery would find, because the keys
 * are compared and grouped by operators of one family. Without a group they are NULL, as of no rows; a count is 0. There is at most one
 * group for a row.  What is computed of the aggregates stays where it was.  Grouping evaluates the subquery's conditions and arguments
 * for rows of i that the query would not look at: so they must be harmless (planner_harmless.c), and not volatile.
 *
 * A subquery that searches its only table by all columns of a unique index finds one row at most, and becomes a join with the table
 * itself. planner_unnest_in.c is about NOT IN.
 *
 * Not here: subqueries in the list of results of a query that groups, since they see groups; queries that lock rows or change them,
 * since they evaluate conditions again for changed rows.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
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

/* Subqueries of a query that are tried. */
#define MOST_TRIED 8

/* The subqueries of a query are numbered in the order in which they are met; sets of them are bits. */
typedef struct Unnesting
{
	uint32		wanted;			/* to be joined, */
	HjgUnnested done;			/* and those that were */
	int			nmet;
	bool		explains;		/* reports why a subquery is not joined */
	Query	   *query;			/* the query that is being changed */
} Unnesting;

/* A subquery that is to be joined. */
typedef struct JoinedSubquery
{
	Query	   *query;			/* its keys, then its aggregates, or columns of the row that it looks up */
	Index		rti;			/* in the query around, */
	Index		join_rti;		/* and its join's */
	List	   *conditions;		/* of the join */
} JoinedSubquery;

/* ---------- the joined subquery ---------- */

/* Add a column to the subquery, and return it as the query around sees it. */
static Var *
add_group_column(JoinedSubquery *groups, Expr *expr, Index sortgroupref, bool nullable)
{
	const AttrNumber attno = (AttrNumber) list_length(groups->query->targetList) + 1;
	TargetEntry *tle = makeTargetEntry(expr, attno, psprintf("column%d", attno), false);
	Var		   *var = makeVar(groups->rti, attno, exprType((Node *) expr), exprTypmod((Node *) expr), exprCollation((Node *) expr), 0);

	tle->ressortgroupref = sortgroupref;
	groups->query->targetList = lappend(groups->query->targetList, tle);
	if (nullable)
		HJG_ADD_NULLING_REL(var, groups->join_rti);
	return var;
}

/* Are the equalities of one family? Then they agree, even if the types differ. */
static bool
are_of_one_family(Oid equality, Oid other)
{
	const List *families = get_mergejoin_opfamilies(equality);
	ListCell   *lc;

	foreach(lc, get_mergejoin_opfamilies(other))
		if (list_member_oid(families, lfirst_oid(lc)))
			return true;
	return false;
}

/* Group by a column that is compared with something of the query around. Returns why not, or NULL. */
static const char *
add_group_key(JoinedSubquery *groups, const OpExpr *comparison)
{
	const int	inner = contain_vars_of_level(linitial(comparison->args), 1) ? 1 : 0;
	Expr	   *key = list_nth(comparison->args, inner);
	Node	   *value = list_nth(comparison->args, 1 - inner);
	SortGroupClause *clause = makeNode(SortGroupClause);
	OpExpr	   *condition = (OpExpr *) copyObject(comparison);
	const Oid	collation = exprCollation((Node *) key);
	const Var  *column = (const Var *) hjg_scan_strip_relabel((Node *) key);

	if (!IsA(column, Var) || column->varlevelsup > 0 || column->varattno == 0 || contain_vars_of_level(value, 0) || checkExprHasSubLink(value))
		return "it refers to the query around in other ways than by columns that equal values of it";
	get_sort_group_operators(exprType((Node *) key), false, false, false, &clause->sortop, &clause->eqop, NULL, &clause->hashable);
	if (!OidIsValid(clause->eqop) || !are_of_one_family(comparison->opno, clause->eqop))
		return "a condition with a value of the query around is no equality of an index";
	if (OidIsValid(comparison->inputcollid) &&
		(!get_collation_isdeterministic(comparison->inputcollid) || !OidIsValid(collation) || !get_collation_isdeterministic(collation)))
		return "a collation compares different strings as equal";
	clause->tleSortGroupRef = (Index) list_length(groups->query->groupClause) + 1;
	groups->query->groupClause = lappend(groups->query->groupClause, clause);
	lfirst(list_nth_cell(condition->args, inner)) = add_group_column(groups, key, clause->tleSortGroupRef, false);
	IncrementVarSublevelsUp(list_nth(condition->args, 1 - inner), -1, 1);
	groups->conditions = lappend(groups->conditions, condition);
	return NULL;
}

/* Divide the subquery's conditions into those that compare with the query around, and the others. */
static const char *
divide_conditions(JoinedSubquery *groups)
{
	List	   *own = NIL;
	List	   *conditions = list_make1(groups->query->jointree->quals);
	const char *why;

	while (conditions != NIL)
	{
		Node	   *condition = linitial(conditions);

		conditions = list_delete_first(conditions);
		if (condition == NULL)
			continue;
		if (is_andclause(condition))
			conditions = list_concat(conditions, ((BoolExpr *) condition)->args);
		else if (!contain_vars_of_level(condition, 1))
			own = lappend(own, condition);
		else if (!IsA(condition, OpExpr) || list_length(((OpExpr *) condition)->args) != 2)
			return "it refers to the query around in other ways than by columns that equal values of it";
		else if ((why = add_group_key(groups, (OpExpr *) condition)) != NULL)
			return why;
	}
	groups->query->jointree->quals = own == NIL ? NULL : (Node *) make_ands_explicit(own);
	return NULL;
}

static bool
is_count(const Aggref *aggregate)
{
	return aggregate->aggfnoid == F_COUNT_ || aggregate->aggfnoid == F_COUNT_ANY;
}

/* Replace aggregates, or columns of a row that is looked up, by columns of the join. */
static Node *
replace_columns(Node *node, JoinedSubquery *groups)
{
	Var		   *var;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Aggref) && (!IsA(node, Var) || ((Var *) node)->varlevelsup > 0))
		return expression_tree_mutator(node, replace_columns, groups);
	var = add_group_column(groups, (Expr *) node, 0, true);
	if (IsA(node, Aggref) && is_count((Aggref *) node))
	{
		CoalesceExpr *count = makeNode(CoalesceExpr);

		count->coalescetype = var->vartype;
		count->args = list_make2(var, makeConst(var->vartype, -1, InvalidOid, sizeof(int64), Int64GetDatum(0), false, FLOAT8PASSBYVAL));
		count->location = -1;
		return (Node *) count;
	}
	return (Node *) var;
}

/* Is a table one file, or a partitioned table? Else an index of it does not see the rows of its children. */
static bool
is_whole(Oid relid)
{
	const char	kind = get_rel_relkind(relid);

	return kind == RELKIND_PARTITIONED_TABLE || (kind == RELKIND_RELATION && !has_subclass(relid));
}

/* Is a column compared with something of the query around, by an equality of this family? */
static bool
is_searched_by(const JoinedSubquery *groups, AttrNumber attno, Oid family)
{
	ListCell   *column;
	ListCell   *condition;

	forboth(column, groups->query->targetList, condition, groups->conditions)
	{
		const Var  *var = (const Var *) hjg_scan_strip_relabel((Node *) lfirst_node(TargetEntry, column)->expr);

		if (var->varattno == attno && op_in_opfamily(lfirst_node(OpExpr, condition)->opno, family))
			return true;
	}
	return false;
}

static bool
is_searched(const JoinedSubquery *groups, Oid index_id)
{
	Relation	index = index_open(index_id, AccessShareLock);
	const Form_pg_index form = index->rd_index;
	bool		searched = form->indisunique && form->indimmediate && form->indisvalid &&
		heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL);

	for (int i = 0; i < form->indnkeyatts && searched; i++)
		searched = form->indkey.values[i] > 0 && is_searched_by(groups, form->indkey.values[i], index->rd_opfamily[i]);
	index_close(index, AccessShareLock);
	return searched;
}

/*
 * Does the subquery, which has no aggregates, find one row of its only table at most, by all columns of a unique index? If the index
 * goes, so does the plan.
 */
static bool
is_lookup(const JoinedSubquery *groups)
{
	const Query *query = groups->query;
	const RangeTblRef *from = linitial(query->jointree->fromlist);
	const RangeTblEntry *rte = IsA(from, RangeTblRef) ? rt_fetch(from->rtindex, query->rtable) : NULL;
	Relation	relation;
	bool		found = false;
	ListCell   *lc;

	if (rte == NULL || rte->rtekind != RTE_RELATION || list_length(query->jointree->fromlist) != 1 || !is_whole(rte->relid))
		return false;
	relation = table_open(rte->relid, NoLock);
	foreach(lc, RelationGetIndexList(relation))
		found = found || is_searched(groups, lfirst_oid(lc));
	table_close(relation, NoLock);
	return found;
}

/*
 * Make the column of a row that is looked up. An expression that is NULL of NULLs stays where it was; another one belongs to the row, as it
 * is NULL where there is none.
 */
static Node *
add_lookup(JoinedSubquery *groups, Node *expr)
{
	ListCell   *lc;

	groups->query->groupClause = NIL;
	foreach(lc, groups->query->targetList)
		lfirst_node(TargetEntry, lc)->ressortgroupref = 0;
	if (contain_var_clause(expr) && !contain_nonstrict_functions(expr))
		return replace_columns(expr, groups);
	return (Node *) add_group_column(groups, (Expr *) expr, 0, true);
}

/* Return why a subquery cannot be a join, by its form; NULL: it can. */
static const char *
check_form(const Query *query)
{
	if (query->groupClause != NIL || query->groupingSets != NIL || query->havingQual != NULL)
		return "it does not aggregate all of its rows";
	if (query->commandType != CMD_SELECT || query->setOperations != NULL || query->hasWindowFuncs || query->hasTargetSRFs ||
		query->distinctClause != NIL || query->limitCount != NULL || query->limitOffset != NULL || query->cteList != NIL || query->rowMarks != NIL ||
		query->jointree->fromlist == NIL)
		return "it is not a plain SELECT";
	if (contain_volatile_functions((Node *) query))
		return "it has volatile functions";
	return NULL;
}

/* ---------- the query around ---------- */

/* Add the groups to what a query joins. */
static void
add_join(Query *query, const JoinedSubquery *groups)
{
	FromExpr   *from = query->jointree;
	RangeTblEntry *rte = hjg_planner_make_rte(RTE_SUBQUERY, "unnested", groups->query->targetList);
	RangeTblEntry *join_rte = hjg_planner_make_rte(RTE_JOIN, "unnested_join", NIL);
	JoinExpr   *join = makeNode(JoinExpr);
	RangeTblRef *ref = makeNode(RangeTblRef);

	rte->subquery = groups->query;
	join_rte->jointype = JOIN_LEFT;
	query->rtable = lappend(lappend(query->rtable, rte), join_rte);
	ref->rtindex = (int) groups->rti;
	join->jointype = JOIN_LEFT;
	join->larg = list_length(from->fromlist) == 1 ? linitial(from->fromlist) : (Node *) makeFromExpr(from->fromlist, NULL);
	join->rarg = (Node *) ref;
	join->quals = (Node *) make_ands_explicit(groups->conditions);
	join->rtindex = (int) groups->join_rti;
	from->fromlist = list_make1(join);
}

/* Join a subquery's groups with the query around, and return what stands in its place; or NULL and why not. */
static Node *
join_subquery(Query *query, Node *sublink, const char **why)
{
	JoinedSubquery groups = {
		.query = copyObject(castNode(Query, ((SubLink *) sublink)->subselect)),
		.rti = (Index) list_length(query->rtable) + 1, .join_rti = (Index) list_length(query->rtable) + 2
	};
	TargetEntry *result;
	Node	   *expr;

	*why = check_form(groups.query);
	if (*why != NULL)
		return NULL;
	result = linitial_node(TargetEntry, groups.query->targetList);
	groups.query->targetList = groups.query->sortClause = NIL;
	*why = divide_conditions(&groups);
	if (*why != NULL)
		return NULL;
	if (groups.conditions == NIL)
		*why = "it is the same for all rows";
	else if (checkExprHasSubLink((Node *) result->expr))
		*why = "its result has a subquery";
	if (*why != NULL)
		return NULL;
	if (!groups.query->hasAggs && !is_lookup(&groups))
	{
		*why = "it neither aggregates nor looks up a row by all columns of a unique index";
		return NULL;
	}
	expr = groups.query->hasAggs ? replace_columns((Node *) result->expr, &groups) : add_lookup(&groups, (Node *) result->expr);
	if (contain_vars_of_level((Node *) groups.query, 1))
		*why = "it refers to the query around in other ways than by columns that equal values of it";
	else if (!hjg_planner_is_harmless((Node *) groups.query) || !hjg_planner_is_harmless((Node *) groups.conditions))
		*why = "it may fail for rows that the query does not look at";
	if (*why != NULL)
		return NULL;
	IncrementVarSublevelsUp(expr, -1, 1);
	add_join(query, &groups);
	return expr;
}

static void
report_unjoined(const Query *subquery, const char *why)
{
	const RangeTblEntry *first = subquery->rtable != NIL ? linitial(subquery->rtable) : NULL;

	ereport(NOTICE,
			(errmsg("a subquery of (%s) is not joined", first != NULL ? first->eref->aliasname : ""),
			 errdetail("Reason: %s.", why)));
}

/* Return what stands in the place of the next subquery, made by a function as join_subquery(), if that is wanted; or the node. */
static Node *
replace_next(Unnesting *unnesting, Node *node, const SubLink *sublink, Node *(*replace) (Query *, Node *, const char **))
{
	const uint32 bit = unnesting->nmet < MOST_TRIED ? 1u << unnesting->nmet : 0;
	const char *why = "too many subqueries have been tried";
	Node	   *result = (unnesting->wanted & bit) != 0 ? replace(unnesting->query, node, &why) : NULL;

	unnesting->nmet++;
	if (result != NULL)
	{
		unnesting->done.joined |= bit;
		unnesting->done.not_in |= HJG_IS_NOT_IN(node) ? bit : 0;
	}
	else if (unnesting->explains)
		report_unjoined((const Query *) sublink->subselect, why);
	return result != NULL ? result : node;
}

/* Replace subqueries of an expression. */
static Node *
replace_subqueries(Node *node, Unnesting *unnesting)
{
	const SubLink *sublink = (const SubLink *) node;

	if (node == NULL || IsA(node, Query))
		return node;
	if (IsA(node, SubLink) && sublink->subLinkType == EXPR_SUBLINK)
		return replace_next(unnesting, node, sublink, join_subquery);
	return expression_tree_mutator(node, replace_subqueries, unnesting);
}

/* Replace NOT IN among the conditions that all rows must pass: core joins NOT EXISTS only there. */
static Node *
replace_not_in(Node *conditions, Unnesting *unnesting)
{
	ListCell   *lc;

	if (conditions != NULL && is_andclause(conditions))
		foreach(lc, ((BoolExpr *) conditions)->args)
			lfirst(lc) = replace_not_in(lfirst(lc), unnesting);
	if (conditions != NULL && HJG_IS_NOT_IN(conditions))
		return replace_next(unnesting, conditions, linitial(((BoolExpr *) conditions)->args), hjg_planner_not_exists);
	return conditions;
}

/* Unnest subqueries in all queries of a tree, the inner ones first. */
static bool
unnest_below(Node *node, Unnesting *unnesting)
{
	Query	   *query = (Query *) node;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, unnest_below, unnesting);
	if (query->commandType != CMD_SELECT && query->commandType != CMD_INSERT)
		return false;
	query_tree_walker(query, unnest_below, unnesting, 0);
	if (query->commandType != CMD_SELECT || !query->hasSubLinks || query->rowMarks != NIL || query->setOperations != NULL ||
		query->jointree->fromlist == NIL)
		return false;
	unnesting->query = query;
	query->jointree->quals = replace_not_in(replace_subqueries(query->jointree->quals, unnesting), unnesting);
	if (!query->hasAggs && query->groupClause == NIL && query->groupingSets == NIL && query->havingQual == NULL)
		query->targetList = (List *) replace_subqueries((Node *) query->targetList, unnesting);
	return false;
}

Query *
hjg_planner_unnest(const Query *query, uint32 wanted, bool explains, HjgUnnested *done)
{
	Query	   *copy = copyObject(unconstify(Query *, query));
	Unnesting	unnesting = {.wanted = wanted, .explains = explains};

	unnest_below((Node *) copy, &unnesting);
	*done = unnesting.done;
	return done->joined != 0 ? copy : NULL;
}
