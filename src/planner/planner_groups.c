/*
 * planner_groups.c
 *	  Estimates the number of groups.
 *
 * Core takes an expression for as many values as the columns in it have together. That is much too many where people group by the month, by a
 * remainder, or by a CASE of a few classes: then groups seem to need memory, files, and one process for each, and a parallel plan does not seem to pay.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/fmgroids.h"
#include "utils/selfuncs.h"

#include "planner/hjg_planner.h"

static double most_values(PlannerInfo *root, Node *node);

static double
sum_of_values(PlannerInfo *root, const List *nodes)
{
	double		sum = 0;
	ListCell   *lc;

	foreach(lc, nodes)
		sum += most_values(root, lfirst(lc));
	return sum;
}

/* Bound the values of a function of integers by its divisor; infinite: it is no remainder. Of negative numbers there are as many again. */
static double
most_remainders(Oid function, const List *args)
{
	const Const *divisor = list_length(args) == 2 ? lsecond(args) : NULL;

	if (divisor == NULL || !IsA(divisor, Const) || divisor->constisnull)
		return INFINITY;
	switch (function)
	{
		case F_INT2MOD:
		case F_MOD_INT2_INT2:
			return fmax(fabs((double) DatumGetInt16(divisor->constvalue)), 1);
		case F_INT4MOD:
		case F_MOD_INT4_INT4:
			return fmax(fabs((double) DatumGetInt32(divisor->constvalue)), 1);
		case F_INT8MOD:
		case F_MOD_INT8_INT8:
			return fmax(fabs((double) DatumGetInt64(divisor->constvalue)), 1);
		default:
			return INFINITY;
	}
}

/* Bound the values of a function by those of its arguments. */
static double
most_results(PlannerInfo *root, Oid function, const List *args)
{
	double		product = 1;
	ListCell   *lc;

	if (args == NIL)
		return INFINITY;
	foreach(lc, args)
		product *= most_values(root, lfirst(lc));
	return fmin(product, most_remainders(function, args));
}

/* Bound the values of an expression without volatile functions; infinite: by nothing that is known here. */
static double
most_values(PlannerInfo *root, Node *node)
{
	const CaseExpr *choice;
	double		sum;
	ListCell   *lc;

	check_stack_depth();
	if (node == NULL)
		return 1;
	if (exprType(node) == BOOLOID)
		return 2;
	switch (nodeTag(node))
	{
		case T_Const:
			return 1;
		case T_RelabelType:
			return most_values(root, (Node *) ((const RelabelType *) node)->arg);
		case T_CoerceViaIO:
			return most_values(root, (Node *) ((const CoerceViaIO *) node)->arg);
		case T_OpExpr:
			return most_results(root, ((const OpExpr *) node)->opfuncid, ((const OpExpr *) node)->args);
		case T_FuncExpr:
			if (((const FuncExpr *) node)->funcretset)
				return INFINITY;
			return fmin(hjg_planner_time_values(root, node), most_results(root, ((const FuncExpr *) node)->funcid, ((const FuncExpr *) node)->args));
		case T_CoalesceExpr:
			return sum_of_values(root, ((const CoalesceExpr *) node)->args);
		case T_CaseExpr:
			choice = (const CaseExpr *) node;
			sum = most_values(root, (Node *) choice->defresult);
			foreach(lc, choice->args)
				sum += most_values(root, (Node *) lfirst_node(CaseWhen, lc)->result);
			return sum;
		default:
			return INFINITY;
	}
}

double
hjg_planner_estimate_groups(PlannerInfo *root, List *keys, double rows)
{
	List	   *others = NIL;
	double		ngroups = 1;
	ListCell   *lc;

	foreach(lc, keys)
	{
		Node	   *key = lfirst(lc);
		const double most = contain_volatile_functions(key) ? INFINITY : most_values(root, key);

		if (isinf(most))
			others = lappend(others, key);
		else
			ngroups *= fmin(most, estimate_num_groups(root, list_make1(key), rows, NULL, NULL));
	}
	ngroups *= others != NIL ? estimate_num_groups(root, others, rows, NULL, NULL) : 1;
	return Max(Min(ngroups, rows), 1);
}
