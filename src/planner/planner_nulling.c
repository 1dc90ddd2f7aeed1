/*
 * planner_nulling.c
 *	  Makes all references to a column in a plan node name the same outer joins that may have made it NULL.
 *
 * From PostgreSQL 16 on, Vars and PlaceHolderVars name these joins. A column that this join may make NULL is one Var in the
 * join's clauses and another in the node's target list, to which the plan above refers. A custom scan has one list of its
 * columns, in which each column has one form. So the form in the target list is kept, and all other lists of the node are
 * changed to it.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

#include "base/hjg_compat.h"
#include "planner/hjg_planner_path.h"

#if HJG_HAS_NULLING_RELS

static bool
is_same_column(const Node *a, const Node *b)
{
	if (nodeTag(a) != nodeTag(b))
		return false;
	if (IsA(a, Var))
		return ((const Var *) a)->varno == ((const Var *) b)->varno && ((const Var *) a)->varattno == ((const Var *) b)->varattno;
	return ((const PlaceHolderVar *) a)->phid == ((const PlaceHolderVar *) b)->phid;
}

/* Find the first of these columns that is the same as node; NULL: none. */
static const Node *
find_scan_column(const List *columns, const Node *node)
{
	ListCell   *lc;

	foreach(lc, columns)
		if (is_same_column(lfirst(lc), node))
			return lfirst(lc);
	return NULL;
}

static Node *
adopt_nulling(Node *node, List *columns)
{
	const Node *column;

	if (node == NULL)
		return NULL;
	column = IsA(node, Var) || IsA(node, PlaceHolderVar) ? find_scan_column(columns, node) : NULL;
	return column != NULL ? copyObject((Node *) column) : expression_tree_mutator(node, adopt_nulling, columns);
}

void
hjg_planner_adopt_nulling(CustomScan *cscan, const RelOptInfo *rel)
{
	Plan	   *plan = &cscan->scan.plan;
	/* core may replace the node's target list by another list of the same columns */
	Node	   *results = (Node *) list_make3(rel->reltarget->exprs, plan->targetlist, plan->qual);
	const int	aggregates = PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS;
	List	   *columns = pull_var_clause(results, aggregates | PVC_INCLUDE_PLACEHOLDERS);

	/* a PlaceHolderVar may be computed here, from columns that occur nowhere else */
	columns = list_concat(columns, pull_var_clause(results, aggregates | PVC_RECURSE_PLACEHOLDERS));
	columns = list_concat(columns, pull_var_clause((Node *) cscan->custom_scan_tlist, aggregates | PVC_INCLUDE_PLACEHOLDERS));
	plan->qual = (List *) adopt_nulling((Node *) plan->qual, columns);
	cscan->custom_scan_tlist = (List *) adopt_nulling((Node *) cscan->custom_scan_tlist, columns);
	cscan->custom_exprs = (List *) adopt_nulling((Node *) cscan->custom_exprs, columns);
}

#endif
