/*
 * node_argument.c
 *	  Arguments of aggregates, and keys of groups, as arithmetic and CASE on columns (vector_expr.c).
 *
 * Core evaluates constants and parameters when the first row needs them, and again after a rescan.
 *
 * Rows that vectors cannot express, like numerics that do not fit (vector_numeric.c), are left to the caller, which has core
 * evaluate the argument row by row.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "datatype/timestamp.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "node/hjg_execution.h"

StaticAssertDecl(HJG_DAY_USECS == USECS_PER_DAY && HJG_TIMESTAMP_FIRST == MIN_TIMESTAMP &&
				 HJG_DATE_END == TIMESTAMP_END_JULIAN - POSTGRES_EPOCH_JDATE, "dates and timestamps are core's");

/* The owner of a term that core evaluates: a constant, or a parameter; it is the same in all rows. */
typedef struct Constant
{
	ExprState  *expr;
	ExprContext *econtext;
	int			width;			/* or HJG_NUMERIC_WIDTH; 0: the value is only tested for NULL */
} Constant;

struct HjgArgument
{
	HjgConditions conditions;	/* of CASE */
	int			nterms;
	int			max_terms;
	HjgVectorTerm *terms;

	/* for rows that core evaluates */
	Expr	   *source;
	PlanState  *parent;
	ExprState  *expr;			/* NULL: not made yet */
	TupleTableSlot *slot;		/* scan tuple */
	const int  *column_of;
	Bitmapset  *attnos;			/* attributes that the argument reads, from 0 */
};

bool
hjg_node_columns(Node *node, Bitmapset **columns)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var) && ((Var *) node)->varno == INDEX_VAR && ((Var *) node)->varattno > 0)
		*columns = bms_add_member(*columns, ((Var *) node)->varattno - 1);
	return expression_tree_walker(node, hjg_node_columns, columns);
}

/* Is the type numeric, or a domain over it? */
static bool
is_numeric_expr(const Expr *expr)
{
	return getBaseType(exprType((const Node *) expr)) == NUMERICOID;
}

/* Add a term; memory for its values is allocated at the first rows. */
static int
add_term(HjgArgument *argument, HjgVectorTerm term)
{
	if (argument->nterms == argument->max_terms)
	{
		argument->max_terms *= 2;
		argument->terms = repalloc(argument->terms, argument->max_terms * sizeof(HjgVectorTerm));
	}
	argument->terms[argument->nterms] = term;
	return argument->nterms++;
}

/* Set the value of a constant term. */
static void
set_constant(HjgVectorTerm *term, int width, Datum value, bool isnull)
{
	int64		number = 0;
	int			scale = 0;

	term->unfit = false;
	if (!isnull && width == HJG_NUMERIC_WIDTH)
		term->unfit = !hjg_vector_numeric_decode(PG_DETOAST_DATUM_PACKED(value), &number, &scale);
	else if (!isnull && width != 0)
		number = hjg_vector_datum_to_int(value, width);
	hjg_vector_term_set_constant(term, number, scale, isnull);
}

/* Evaluate a constant, for the first row that needs it. */
static void
bind_constant(HjgVectorTerm *term)
{
	const Constant *constant = term->owner;
	MemoryContext old_context = MemoryContextSwitchTo(constant->econtext->ecxt_per_tuple_memory);
	bool		isnull;
	Datum		value = ExecEvalExpr(constant->expr, constant->econtext, &isnull);

	set_constant(term, constant->width, value, isnull);
	MemoryContextSwitchTo(old_context);
	term->bind = NULL;
}

static int
add_constant(HjgArgument *argument, Expr *expr)
{
	Constant   *constant = palloc(sizeof(Constant));
	int16		len;
	bool		byval;

	get_typlenbyval(exprType((Node *) expr), &len, &byval);
	constant->expr = ExecInitExpr(expr, argument->parent);
	constant->econtext = argument->parent->ps_ExprContext;
	constant->width = is_numeric_expr(expr) ? HJG_NUMERIC_WIDTH : byval ? len : 0;
	return add_term(argument, (HjgVectorTerm) {.kind = HJG_TERM_CONSTANT, .owner = constant});
}

static int	add_expr(HjgArgument *argument, Expr *expr);

/* Add a branch whose result is this expression. */
static void
add_branch(HjgArgument *argument, HjgVectorTerm *term, HjgFilter *condition, Expr *result)
{
	const bool	is_null = IsA(result, Const) && ((Const *) result)->constisnull;

	term->branches[term->nbranches++] = (HjgBranch) {condition, is_null ? -1 : add_expr(argument, result)};
}

static HjgVectorTerm
make_branches(const Expr *expr, HjgVectorTermKind kind, int nbranches)
{
	return (HjgVectorTerm) {
		.kind = kind, .width = is_numeric_expr(expr) ? HJG_NUMERIC_WIDTH : 8, .branches = palloc(nbranches * sizeof(HjgBranch))
	};
}

static int
add_case(HjgArgument *argument, CaseExpr *expr)
{
	HjgVectorTerm term = make_branches((Expr *) expr, HJG_TERM_CASE, list_length(expr->args) + 1);
	ListCell   *lc;

	foreach(lc, expr->args)
	{
		const CaseWhen *when = lfirst_node(CaseWhen, lc);
		HjgFilter  *condition = hjg_scan_condition_make(&argument->conditions, hjg_scan_when_condition(expr, when));

		if (condition == NULL)
			elog(ERROR, "%s cannot evaluate a condition of CASE", HJG_NODE_NAME);
		add_branch(argument, &term, condition, when->result);
	}
	if (expr->defresult != NULL)
		add_branch(argument, &term, NULL, expr->defresult);
	return add_term(argument, term);
}

static int
add_coalesce(HjgArgument *argument, CoalesceExpr *expr)
{
	HjgVectorTerm term = make_branches((Expr *) expr, HJG_TERM_COALESCE, list_length(expr->args));
	ListCell   *lc;

	foreach(lc, expr->args)
		add_branch(argument, &term, NULL, lfirst(lc));
	return add_term(argument, term);
}

/* Add an argument of a function, whose floats are of 8 bytes. */
static int
add_operand(HjgArgument *argument, const HjgArithmetic *function, Expr *expr)
{
	const int	t = add_expr(argument, expr);

	if (function->width != HJG_FLOAT_WIDTH || function->kind == HJG_ARITHMETIC_OF_FLOAT4 || getBaseType(exprType((Node *) expr)) != FLOAT4OID)
		return t;
	return add_term(argument, (HjgVectorTerm) {
		.kind = HJG_TERM_ARITHMETIC, .function = HJG_ARITHMETIC_OF_FLOAT4, .width = HJG_FLOAT_WIDTH, .left = t, .right = t
	});
}

static int
add_function(HjgArgument *argument, Oid funcid, List *args)
{
	const HjgArithmetic *function = hjg_arithmetic(funcid);
	int			left;
	int			right;

	if (function == NULL)
		elog(ERROR, "%s cannot evaluate an aggregate's argument", HJG_NODE_NAME);
	left = add_operand(argument, function, linitial(args));
	if (function->kind == HJG_ARITHMETIC_WIDEN)
		return left;
	right = list_length(args) > 1 ? add_operand(argument, function, lsecond(args)) : left;
	return add_term(argument, (HjgVectorTerm) {
		.kind = HJG_TERM_ARITHMETIC, .function = function->kind, .width = function->width, .left = left, .right = right
	});
}

/* Add a term of a date, which may be that of a timestamp. */
static int
add_date_term(HjgArgument *argument, HjgVectorTerm term, Expr *date)
{
	term.left = add_expr(argument, date);
	if (exprType((Node *) date) == TIMESTAMPOID)
		term.left = add_term(argument, (HjgVectorTerm) {.kind = HJG_TERM_DATE_OF, .left = term.left});
	return add_term(argument, term);
}

/* Add an expression's arguments, then the expression; returns its term. */
static int
add_expr(HjgArgument *argument, Expr *expr)
{
	HjgVectorTerm term = {.kind = HJG_TERM_DATE_FIELD};
	HjgSlice	slice;
	Expr	   *string;
	Expr	   *date;

	check_stack_depth();
	expr = hjg_scan_strip_relabel((Node *) expr);
	/* strings are only tested for NULL */
	string = hjg_scan_find_slice(expr, &slice);
	expr = string != NULL ? string : expr;
	if (hjg_date_field(expr, &term.field, &date))
		return add_date_term(argument, term, date);
	term.kind = HJG_TERM_DATE_TRUNC;
	if (hjg_date_trunc(expr, &term.field, &date))
		return add_date_term(argument, term, date);
	switch (nodeTag(expr))
	{
		case T_Var:
			return add_term(argument, (HjgVectorTerm) {
				.kind = is_numeric_expr(expr) ? HJG_TERM_NUMERIC_COLUMN : HJG_TERM_COLUMN,
				.column = argument->column_of[((Var *) expr)->varattno - 1]
			});
		case T_OpExpr:
			return add_function(argument, ((OpExpr *) expr)->opfuncid, ((OpExpr *) expr)->args);
		case T_FuncExpr:
			return add_function(argument, ((FuncExpr *) expr)->funcid, ((FuncExpr *) expr)->args);
		case T_CaseExpr:
			return add_case(argument, (CaseExpr *) expr);
		case T_CoalesceExpr:
			return add_coalesce(argument, (CoalesceExpr *) expr);
		default:
			return add_constant(argument, expr);
	}
}

/* Have a term and the branches that it is made of tell only which rows are NULL. */
static void
ignore_values(HjgArgument *argument, int t)
{
	HjgVectorTerm *term = &argument->terms[t];

	if (term->kind == HJG_TERM_NUMERIC_COLUMN)
		term->kind = HJG_TERM_COLUMN;
	term->width = term->nbranches > 0 ? 8 : term->width;
	for (int b = 0; b < term->nbranches; b++)
		if (term->branches[b].result >= 0)
			ignore_values(argument, term->branches[b].result);
}

HjgArgument *
hjg_argument_create(Expr *expr, const int *column_of, PlanState *parent, bool counted)
{
	HjgArgument *argument = palloc0(sizeof(HjgArgument));

	argument->conditions.plan = parent;
	argument->conditions.varno = INDEX_VAR;
	argument->conditions.column_of = column_of;
	argument->max_terms = 4;
	argument->terms = palloc(argument->max_terms * sizeof(HjgVectorTerm));
	argument->source = expr;
	argument->parent = parent;
	argument->column_of = column_of;
	hjg_node_columns((Node *) expr, &argument->attnos);
	(void) add_expr(argument, expr);
	if (counted)
		ignore_values(argument, argument->nterms - 1);
	hjg_argument_reset(argument);
	return argument;
}

void
hjg_argument_reset(HjgArgument *argument)
{
	hjg_scan_conditions_unbind(&argument->conditions);
	for (int t = 0; t < argument->nterms; t++)
		if (argument->terms[t].kind == HJG_TERM_CONSTANT)
			argument->terms[t].bind = bind_constant;
}

static void
make_argument_space(HjgArgument *argument)
{
	MemoryContext context = GetMemoryChunkContext(argument);

	for (int t = 0; t < argument->nterms; t++)
	{
		HjgVectorTerm *term = &argument->terms[t];

		term->space = MemoryContextAlloc(context, HJG_VECTOR_ROWS * sizeof(int64));
		term->null_space = MemoryContextAlloc(context, HJG_VECTOR_ROWS * sizeof(bool));
		if (term->nbranches > 0)
			term->scale_space = MemoryContextAlloc(context, HJG_VECTOR_ROWS * sizeof(uint8));
	}
}

/* Is there a parameter whose evaluation may fail, or take long? */
static bool
has_late_param(Node *node, void *estate)
{
	const ParamListInfo params = ((const EState *) estate)->es_param_list_info;

	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return ((Param *) node)->paramkind == PARAM_EXEC || (params != NULL && params->paramFetch != NULL);
	return expression_tree_walker(node, has_late_param, estate);
}

const HjgVectorTerm *
hjg_argument_terms(HjgArgument *argument, const EState *estate, int *nterms)
{
	if (has_late_param((Node *) argument->source, unconstify(EState *, estate)) || argument->conditions.nfallible > 0)
		return NULL;
	hjg_scan_conditions_bind(&argument->conditions);
	if (argument->terms[0].space == NULL)
		make_argument_space(argument);
	for (int t = 0; t < argument->nterms; t++)
	{
		if (argument->terms[t].bind != NULL)
			argument->terms[t].bind(&argument->terms[t]);
		if (argument->terms[t].unfit)
			return NULL;
	}
	*nterms = argument->nterms;
	return argument->terms;
}

static void
out_of_range(int width)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg(width == 2 ? "smallint out of range" : width == 4 ? "integer out of range" : "bigint out of range")));
}

const HjgNumbers *
hjg_argument_eval(HjgArgument *argument, const HjgVector *vectors, int nrows)
{
	int			failed;

	if (unlikely(argument->terms[0].space == NULL))
		make_argument_space(argument);
	failed = hjg_vector_terms_eval(argument->terms, argument->nterms, vectors, nrows);
	if (failed == HJG_LEFT_TO_CORE)
		return NULL;
	if (failed != 0)
		out_of_range(failed);
	return &argument->terms[argument->nterms - 1].numbers;
}

/* Prepare core's evaluation of the argument. */
static void
make_core_expr(HjgArgument *argument)
{
	const ScanState *scan = (const ScanState *) argument->parent;
	MemoryContext old_context = MemoryContextSwitchTo(GetMemoryChunkContext(argument));

	argument->expr = ExecInitExpr(argument->source, argument->parent);
	argument->slot = MakeSingleTupleTableSlot(scan->ss_ScanTupleSlot->tts_tupleDescriptor, &TTSOpsVirtual);
	memset(argument->slot->tts_isnull, true, argument->slot->tts_tupleDescriptor->natts * sizeof(bool));
	ExecStoreVirtualTuple(argument->slot);
	MemoryContextSwitchTo(old_context);
}

Datum
hjg_argument_datum(const HjgVector *vector, int row, ExprContext *econtext)
{
	HjgNumericSpace *space;

	if (vector->numbers == NULL)
		return hjg_vector_datum(vector, row);
	space = MemoryContextAlloc(econtext->ecxt_per_tuple_memory, sizeof(HjgNumericSpace));
	return PointerGetDatum(hjg_vector_numeric_at(vector, row, space));
}

Datum
hjg_argument_eval_row(HjgArgument *argument, const HjgVector *vectors, int row, ExprContext *econtext, bool *isnull)
{
	TupleTableSlot *const caller_slot = econtext->ecxt_scantuple;
	int			attno = -1;
	Datum		result;

	if (argument->expr == NULL)
		make_core_expr(argument);
	while ((attno = bms_next_member(argument->attnos, attno)) >= 0)
	{
		const HjgVector *vector = &vectors[argument->column_of[attno]];

		argument->slot->tts_isnull[attno] = hjg_vector_isnull(vector, row);
		argument->slot->tts_values[attno] = argument->slot->tts_isnull[attno] ? (Datum) 0 : hjg_argument_datum(vector, row, econtext);
	}
	econtext->ecxt_scantuple = argument->slot;
	result = ExecEvalExprSwitchContext(argument->expr, econtext, isnull);
	econtext->ecxt_scantuple = caller_slot;
	return result;
}
