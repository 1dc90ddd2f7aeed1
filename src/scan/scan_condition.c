/*
 * scan_condition.c
 *	  Makes filters of the simple conditions of a plan: those of a scan, and those of CASE.
 *
 * Simple conditions are: comparisons of a fixed-width or numeric column with an operand or another such column; equality of text
 * and other strings of bytes with an operand; LIKE with a constant of literals and %; lists of operands, or the rows of a subquery
 * that core would hash (IN, NOT IN); boolean columns; IS [NOT] NULL; AND and OR of these. They have no side effect, raise no error
 * and leak nothing. Strings may be parts of columns (scan_expr.c).
 *
 * The operators are those of vector_operator_pg.c.
 *
 * An operand is a constant, a parameter, or an expression of these whose value stays the same during a query, as of now() less an
 * interval: core itself evaluates such an expression once if it finds rows by an index. Operands are evaluated when the first row
 * needs them, as in core, and again after a rescan: a PL/pgSQL variable may have no value, and a subquery may fail or take long.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"

#include "scan/hjg_scan_filter.h"

/* A leaf that becomes a range or set when its operand is known. */
typedef struct Operand
{
	HjgFilter	leaf;			/* first: the leaf's bind finds the rest */
	HjgConditions *conditions;
	HjgComparison comparison;	/* column on the left */
	int16		width;			/* of the operand; of times: */
	HjgTimeOperand time;
	bool		is_array;
	ExprState  *expr;
	PlanState  *subquery;		/* returns the list; or NULL */
	bool		read;			/* they are in the leaf */
} Operand;

/* Places for the rows of a subquery; there are more if it has more. */
#define FIRST_VALUES 1024

/* ---------- from expressions to filters ---------- */

/* Is the type numeric, or a domain over it? */
static bool
is_numeric(Oid type)
{
	return getBaseType(type) == NUMERICOID;
}

/*
 * Find the vector of a user column; -1 if the expression is something else. The column must be passed by value with this
 * width, or be HJG_VARIABLE_WIDTH or HJG_NUMERIC_WIDTH; 0: any column.
 */
static int
find_column(HjgConditions *conditions, Expr *expr, int width)
{
	Var		   *var = (Var *) expr;
	int16		len;
	bool		byval;

	if (!IsA(expr, Var) || (conditions->varno != 0 && var->varno != conditions->varno) || var->varattno <= 0 || var->varlevelsup != 0)
		return -1;
	get_typlenbyval(var->vartype, &len, &byval);
	width = width == HJG_NUMERIC_WIDTH ? HJG_VARIABLE_WIDTH : width;
	if (width != 0 && (len != width || byval != (width > 0)))
		return -1;
	if (conditions->attnos == NULL)
		return conditions->column_of != NULL ? conditions->column_of[var->varattno - 1] : 0;
	for (int c = 0; c < conditions->ncolumns; c++)
		if (conditions->attnos[c] == var->varattno)
			return c;
	conditions->attnos[conditions->ncolumns] = var->varattno;
	return conditions->ncolumns++;
}

/* Find the vector of a column, likewise, or of one that the expression is a part of; else *slice becomes NULL. */
static int
find_sliced_column(HjgConditions *conditions, Expr *expr, int width, HjgSlice **slice)
{
	HjgSlice	found;
	Expr	   *string = hjg_scan_find_slice(expr, &found);

	*slice = NULL;
	if (string == NULL)
		return find_column(conditions, expr, width);
	*slice = palloc(sizeof(HjgSlice));
	**slice = found;
	return width == 0 || width == HJG_VARIABLE_WIDTH ? find_column(conditions, string, HJG_VARIABLE_WIDTH) : -1;
}

/* Is the expression a constant or parameter, or does it depend on nothing but these and the statement? */
static bool
is_operand(Expr *expr)
{
	Node	   *node = (Node *) expr;

	return IsA(expr, Const) || IsA(expr, Param) ||
		(!contain_var_clause(node) && !contain_subplans(node) && !contain_agg_clause(node) && !contain_volatile_functions(node) &&
		 !expression_returns_set(node));
}

static bool
is_foreign_function(Oid funcid, void *unused)
{
	return funcid >= FirstNormalObjectId;
}

/* May it fail, or take long, to evaluate a part of an operand? */
static bool
has_fallible_part(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	return IsA(node, Param) || check_functions_in_node(node, is_foreign_function, NULL) ||
		expression_tree_walker(node, has_fallible_part, unused);
}

/*
 * May it fail, or take long, to evaluate the operand: a subquery, a variable that a callback supplies, or an expression of parameters or
 * of functions that are not core's? Other expressions are evaluated by the planner already, for its estimates.
 */
static bool
is_fallible(const HjgConditions *conditions, Expr *expr)
{
	const ParamListInfo params = conditions->plan != NULL ? conditions->plan->state->es_param_list_info : NULL;

	if (IsA(expr, Param))
		return ((Param *) expr)->paramkind == PARAM_EXEC || (params != NULL && params->paramFetch != NULL);
	return IsA(expr, SubPlan) || has_fallible_part((Node *) expr, NULL);
}

static HjgFilter *
make_leaf(HjgFilterKind kind, int column)
{
	HjgFilter  *leaf = palloc0(sizeof(HjgFilter));

	leaf->kind = kind;
	leaf->column = column;
	return leaf;
}

/* A condition's operator, of any kind. */
typedef struct Comparison
{
	HjgComparison comparison;
	HjgOrdinal	ordinal;
	bool		padded;
	int16		left_width;		/* or HJG_VARIABLE_WIDTH, HJG_NUMERIC_WIDTH */
	int16		right_width;
} Comparison;

/* Are strings equal under the collation only if their bytes are? Without a collation core raises an error. */
static bool
is_bytewise(Oid collation)
{
	return OidIsValid(collation) && get_collation_isdeterministic(collation);
}

static bool
find_comparison(Oid opno, Oid collation, Comparison *found)
{
	const Oid	function = get_opcode(opno);
	const HjgSimpleOperator *op = hjg_vector_simple_operator(function);
	const HjgBytesOperator *bytes = hjg_vector_bytes_operator(function);

	if (op != NULL)
		*found = (Comparison) {op->comparison, op->ordinal, false, op->left_width, op->right_width};
	else if (hjg_vector_numeric_operator(function, &found->comparison))
		*found = (Comparison) {found->comparison, HJG_ORDINAL_NONE, false, HJG_NUMERIC_WIDTH, HJG_NUMERIC_WIDTH};
	else if (bytes != NULL && (!bytes->collated || is_bytewise(collation)))
		*found = (Comparison) {bytes->comparison, HJG_ORDINAL_NONE, bytes->padded, HJG_VARIABLE_WIDTH, HJG_VARIABLE_WIDTH};
	else
		return false;
	return true;
}

/* Find the plan of a subquery that core has initialised with the conditions. */
static PlanState *
find_subquery(const PlanState *plan, const SubPlan *subplan)
{
	ListCell   *lc;

	foreach(lc, plan->subPlan)
		if (lfirst_node(SubPlanState, lc)->subplan->plan_id == subplan->plan_id)
			return lfirst_node(SubPlanState, lc)->planstate;
	elog(ERROR, "plan node has no subquery %d", subplan->plan_id);
}

static HjgFilter *
make_comparison(HjgConditions *conditions, int column, HjgSlice *slice, const Comparison *op, HjgComparison comparison, int width,
				Expr *expr, bool is_array)
{
	Operand    *operand = palloc0(sizeof(Operand));

	/* the form until the operand is known, which may change it */
	operand->leaf.kind = width == HJG_VARIABLE_WIDTH ? HJG_FILTER_BYTES : width == HJG_NUMERIC_WIDTH ? HJG_FILTER_NUMERIC :
		is_array ? HJG_FILTER_SET : HJG_FILTER_RANGE;
	operand->leaf.column = column;
	operand->leaf.ordinal = op->ordinal;
	operand->leaf.padded = op->padded;
	operand->leaf.slice = slice;
	operand->conditions = conditions;
	operand->comparison = comparison;
	operand->width = width;
	operand->is_array = is_array;
	if (conditions->plan != NULL && IsA(expr, SubPlan))
		operand->subquery = find_subquery(conditions->plan, (SubPlan *) expr);
	else if (conditions->plan != NULL)
		operand->expr = ExecInitExpr(expr, conditions->plan);
	conditions->operands = lappend(conditions->operands, operand);
	conditions->nfallible += is_fallible(conditions, expr) ? 1 : 0;
	return &operand->leaf;
}

/*
 * Make a leaf of LIKE with a constant pattern of literals and %. Literals are searched as bytes: in UTF-8, and in encodings
 * of one byte a character, they occur only as whole characters.
 */
static HjgFilter *
make_like(HjgConditions *conditions, OpExpr *expr)
{
	const Const *pattern = lsecond(expr->args);
	HjgFilter  *leaf;
	HjgSlice   *slice;
	HjgBytes   *bytes;
	int			nbytes = 0;
	bool		negated;
	int			column;
	const char *at;
	const char *end;

	if (!hjg_vector_like_operator(get_opcode(expr->opno), &negated) || !IsA(pattern, Const) || pattern->constisnull ||
		!is_bytewise(expr->inputcollid) || (GetDatabaseEncoding() != PG_UTF8 && pg_database_encoding_max_length() > 1))
		return NULL;
	at = TextDatumGetCString(pattern->constvalue);
	if (strpbrk(at, "_\\") != NULL || strchr(at, '%') == NULL ||
		(column = find_sliced_column(conditions, hjg_scan_strip_relabel(linitial(expr->args)), HJG_VARIABLE_WIDTH, &slice)) < 0)
		return NULL;
	leaf = make_leaf(HJG_FILTER_LIKE, column);
	leaf->slice = slice;
	bytes = palloc((strlen(at) + 2) * sizeof(HjgBytes));
	for (; at != NULL; at = end != NULL ? end + 1 : NULL)
	{
		const bool	first = nbytes == 0;

		end = strchr(at, '%');
		/* empty literals between the first and the last one are skipped */
		if (first || end == NULL || end > at)
			bytes[nbytes++] = (HjgBytes) {at, end != NULL ? end - at : (int32) strlen(at)};
	}
	hjg_scan_filter_set_like(leaf, bytes, nbytes, negated);
	return leaf;
}

/* Make a leaf that compares a column of dates or timestamps with an operand of another such type, which is converted. */
static HjgFilter *
make_time_comparison(HjgConditions *conditions, OpExpr *expr)
{
	Expr	   *left = hjg_scan_strip_relabel(linitial(expr->args));
	Expr	   *right = hjg_scan_strip_relabel(lsecond(expr->args));
	const bool	column_is_left = IsA(left, Var);
	Expr	   *operand = column_is_left ? right : left;
	Comparison	op = {.ordinal = HJG_ORDINAL_INT};
	HjgTimeOperand time;
	HjgFilter  *leaf;
	int			column;

	if (!hjg_vector_time_operator(get_opcode(expr->opno), column_is_left, &op.comparison, &time) || !is_operand(operand) ||
		(column = find_column(conditions, column_is_left ? left : right, time == HJG_TIME_DAY ? sizeof(DateADT) : sizeof(Timestamp))) < 0)
		return NULL;
	leaf = make_comparison(conditions, column, NULL, &op, op.comparison, sizeof(Timestamp), operand, false);
	((Operand *) leaf)->time = time;
	return leaf;
}

static HjgFilter *
make_operator(HjgConditions *conditions, OpExpr *expr)
{
	Comparison	op;
	HjgFilter  *leaf;
	HjgSlice   *slice;
	Expr	   *left;
	Expr	   *right;
	int			column;
	int			other;

	if (!find_comparison(expr->opno, expr->inputcollid, &op))
		return NULL;
	left = hjg_scan_strip_relabel(linitial(expr->args));
	right = hjg_scan_strip_relabel(lsecond(expr->args));
	/* a superuser may have declared other types to be numerics without a function */
	if (op.left_width == HJG_NUMERIC_WIDTH && (!is_numeric(exprType((Node *) left)) || !is_numeric(exprType((Node *) right))))
		return NULL;
	if (is_operand(right) && (column = find_sliced_column(conditions, left, op.left_width, &slice)) >= 0)
		return make_comparison(conditions, column, slice, &op, op.comparison, op.right_width, right, false);
	if (is_operand(left) && (column = find_sliced_column(conditions, right, op.right_width, &slice)) >= 0)
		return make_comparison(conditions, column, slice, &op, hjg_vector_commuted(op.comparison), op.left_width, left, false);
	if (op.left_width == HJG_VARIABLE_WIDTH || (column = find_column(conditions, left, op.left_width)) < 0 ||
		(other = find_column(conditions, right, op.right_width)) < 0)
		return NULL;
	leaf = make_leaf(op.left_width == HJG_NUMERIC_WIDTH ? HJG_FILTER_NUMERIC_COLUMNS : HJG_FILTER_COLUMNS, column);
	leaf->compare = hjg_scan_filter_compare_numerics;
	leaf->other = other;
	leaf->ordinal = op.ordinal;
	leaf->comparison = op.comparison;
	return leaf;
}

/* Make a leaf of IN or NOT IN. */
static HjgFilter *
make_list(HjgConditions *conditions, ScalarArrayOpExpr *expr)
{
	Comparison	op;
	HjgSlice   *slice;
	Expr	   *array;
	int			column;

	if (!find_comparison(expr->opno, expr->inputcollid, &op) ||
		op.comparison != (expr->useOr ? HJG_COMPARE_EQ : HJG_COMPARE_NE))
		return NULL;
	array = hjg_scan_strip_relabel(lsecond(expr->args));
	if (op.left_width == HJG_NUMERIC_WIDTH && (!is_numeric(exprType((Node *) hjg_scan_strip_relabel(linitial(expr->args)))) ||
											   !is_numeric(get_base_element_type(exprType((Node *) array)))))
		return NULL;
	if (!is_operand(array) ||
		(column = find_sliced_column(conditions, hjg_scan_strip_relabel(linitial(expr->args)), op.left_width, &slice)) < 0)
		return NULL;
	return make_comparison(conditions, column, slice, &op, op.comparison, op.right_width, array, true);
}

/* Make a leaf of IN or NOT IN a subquery of one column that depends on no row. */
static HjgFilter *
make_subquery(HjgConditions *conditions, SubPlan *subplan, bool negated)
{
	const OpExpr *test = (OpExpr *) subplan->testexpr;
	Comparison	op;
	HjgSlice   *slice;
	Param	   *param;
	Expr	   *tested;
	int			column;

	if (subplan->subLinkType != ANY_SUBLINK || !subplan->useHashTable || subplan->parParam != NIL || !IsA(test, OpExpr) ||
		list_length(subplan->paramIds) != 1)
		return NULL;
	tested = hjg_scan_strip_relabel(linitial(test->args));
	param = (Param *) hjg_scan_strip_relabel(lsecond(test->args));
	if (!IsA(param, Param) || param->paramkind != PARAM_EXEC || param->paramid != linitial_int(subplan->paramIds) ||
		!find_comparison(test->opno, test->inputcollid, &op) || op.comparison != HJG_COMPARE_EQ)
		return NULL;
	if (op.left_width == HJG_NUMERIC_WIDTH && (!is_numeric(exprType((Node *) tested)) || !is_numeric(param->paramtype)))
		return NULL;
	if ((column = find_sliced_column(conditions, tested, op.left_width, &slice)) < 0)
		return NULL;
	return make_comparison(conditions, column, slice, &op, negated ? HJG_COMPARE_NE : HJG_COMPARE_EQ, op.right_width, (Expr *) subplan, true);
}

/* Make a leaf of a boolean column, or of NOT of one. */
static HjgFilter *
make_boolean(HjgConditions *conditions, Expr *expr, bool wanted)
{
	int			column = exprType((Node *) expr) == BOOLOID ? find_column(conditions, expr, 1) : -1;
	HjgFilter  *leaf;

	if (column < 0)
		return NULL;
	leaf = make_leaf(HJG_FILTER_RANGE, column);
	leaf->ordinal = HJG_ORDINAL_INT;
	leaf->low = leaf->high = wanted;
	return leaf;
}

static HjgFilter *
make_args(HjgConditions *conditions, BoolExpr *expr)
{
	HjgFilter  *node;
	ListCell   *lc;

	if (expr->boolop == NOT_EXPR && IsA(linitial(expr->args), SubPlan))
		return make_subquery(conditions, linitial(expr->args), true);
	if (expr->boolop == NOT_EXPR)
		return make_boolean(conditions, linitial(expr->args), false);
	if (conditions->level == HJG_FILTER_MAX_LEVELS)
		return NULL;
	conditions->level++;
	node = make_leaf(expr->boolop == AND_EXPR ? HJG_FILTER_AND : HJG_FILTER_OR, -1);
	node->args = palloc(list_length(expr->args) * sizeof(HjgFilter *));
	foreach(lc, expr->args)
	{
		HjgFilter  *arg = hjg_scan_condition_make(conditions, lfirst(lc));

		if (arg == NULL)
			break;
		node->args[node->nargs++] = arg;
	}
	conditions->level--;
	return node->nargs == list_length(expr->args) ? node : NULL;
}

HjgFilter *
hjg_scan_condition_make(HjgConditions *conditions, Expr *expr)
{
	HjgFilter  *leaf;
	HjgSlice   *slice;
	int			column;

	switch (nodeTag(expr))
	{
		case T_OpExpr:
			if (list_length(((OpExpr *) expr)->args) != 2)
				return NULL;
			leaf = make_like(conditions, (OpExpr *) expr);
			if (leaf == NULL)
				leaf = make_time_comparison(conditions, (OpExpr *) expr);
			return leaf != NULL ? leaf : make_operator(conditions, (OpExpr *) expr);
		case T_ScalarArrayOpExpr:
			return make_list(conditions, (ScalarArrayOpExpr *) expr);
		case T_SubPlan:
			return make_subquery(conditions, (SubPlan *) expr, false);
		case T_BoolExpr:
			return make_args(conditions, (BoolExpr *) expr);
		case T_Var:
			return make_boolean(conditions, expr, true);
		case T_NullTest:
			if (((NullTest *) expr)->argisrow)
				return NULL;
			/* a part of a string is NULL if the string is */
			column = find_sliced_column(conditions, hjg_scan_strip_relabel((Node *) ((NullTest *) expr)->arg), 0, &slice);
			if (column < 0)
				return NULL;
			leaf = make_leaf(HJG_FILTER_IS_NULL, column);
			leaf->negated = ((NullTest *) expr)->nulltesttype == IS_NOT_NULL;
			return leaf;
		default:
			return NULL;
	}
}

/* ---------- operands ---------- */

/* Read the rows of a subquery as a list; returns their number. */
static int
read_subquery(PlanState *subquery, Datum **values, bool **nulls)
{
	const Form_pg_attribute attribute = TupleDescAttr(ExecGetResultType(subquery), 0);
	int			most = FIRST_VALUES;
	int			n = 0;

	*values = palloc(most * sizeof(Datum));
	*nulls = palloc(most * sizeof(bool));
	ExecReScan(subquery);
	for (;;)
	{
		MemoryContext old = MemoryContextSwitchTo(subquery->state->es_query_cxt);
		TupleTableSlot *slot = ExecProcNode(subquery);
		Datum		value;

		MemoryContextSwitchTo(old);
		if (TupIsNull(slot))
			return n;
		if (n == most)
		{
			if (most > PG_INT32_MAX / 2)
				ereport(ERROR,
						(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						 errmsg("subquery of IN returns more than %d rows", most)));
			most *= 2;
			*values = repalloc_huge(*values, most * sizeof(Datum));
			*nulls = repalloc_huge(*nulls, most * sizeof(bool));
		}
		value = slot_getattr(slot, 1, &(*nulls)[n]);
		(*values)[n] = (*nulls)[n] ? (Datum) 0 : datumCopy(value, attribute->attbyval, attribute->attlen);
		n++;
	}
}

/* Bind a leaf to the rows of its subquery. */
static void
bind_subquery(Operand *operand)
{
	Datum	   *values;
	bool	   *nulls;
	int			n;

	n = read_subquery(operand->subquery, &values, &nulls);
	hjg_scan_filter_set_values(&operand->leaf, GetMemoryChunkContext(operand), operand->comparison, operand->width, values, nulls, n);
	operand->read = true;
}

/* Evaluate the operand of a leaf and bind the leaf to it. */
static void
bind_operand(HjgFilter *leaf)
{
	Operand    *operand = (Operand *) leaf;
	ExprContext *econtext = operand->conditions->plan->ps_ExprContext;
	MemoryContext old;
	bool		isnull = false;
	Datum		value = 0;

	/* the rows of a subquery stay the same until a parameter changes */
	if (operand->read && operand->subquery->chgParam == NULL)
	{
		leaf->bind = NULL;
		return;
	}
	ResetExprContext(econtext);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	if (operand->subquery == NULL)
		value = ExecEvalExpr(operand->expr, econtext, &isnull);
	leaf->null = false;
	if (operand->subquery != NULL)
		bind_subquery(operand);
	else if (isnull)
		hjg_vector_filter_set_null(leaf);
	else if (operand->is_array)
		hjg_scan_filter_set_list(leaf, GetMemoryChunkContext(operand), operand->comparison, operand->width, DatumGetArrayTypeP(value));
	else if (operand->time != HJG_TIME_SAME)
		hjg_scan_filter_set_time(leaf, operand->comparison, operand->time, value);
	else
		hjg_scan_filter_set_value(leaf, GetMemoryChunkContext(operand), operand->comparison, operand->width, value);
	MemoryContextSwitchTo(old);
	leaf->bind = NULL;
}

void
hjg_scan_conditions_bind(HjgConditions *conditions)
{
	ListCell   *lc;

	foreach(lc, conditions->operands)
	{
		HjgFilter  *leaf = &((Operand *) lfirst(lc))->leaf;

		if (leaf->bind != NULL)
			leaf->bind(leaf);
	}
}

void
hjg_scan_conditions_unbind(HjgConditions *conditions)
{
	ListCell   *lc;

	foreach(lc, conditions->operands)
		((Operand *) lfirst(lc))->leaf.bind = bind_operand;
}

/* ---------- conditions of CASE ---------- */

/* Replace the value that CASE tests by its expression. */
static Node *
replace_test_value(Node *node, void *tested)
{
	if (node != NULL && IsA(node, CaseTestExpr))
		return (Node *) tested;
	return expression_tree_mutator(node, replace_test_value, tested);
}

Expr *
hjg_scan_when_condition(const CaseExpr *expr, const CaseWhen *when)
{
	return expr->arg == NULL ? when->expr : (Expr *) replace_test_value((Node *) when->expr, expr->arg);
}
