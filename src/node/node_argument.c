/*
 * node_argument.c
 *	  Arguments of aggregates, as arithmetic on columns (vector_expr.c).
 *
 * Constants and parameters are evaluated by core, at the first row after a rescan, as core would evaluate
 * them for the first time.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "node/hjg_execution.h"

/* A term that core evaluates: a constant, or a parameter, which is the same in all rows. */
typedef struct Constant
{
	int			term;
	ExprState  *expr;
	int			width;			/* 0: only whether it is NULL matters */
} Constant;

struct HjgArgument
{
	List	   *constants;		/* of Constant */
	bool		evaluated;		/* their values are in the terms */
	int			nterms;
	int			max_terms;
	HjgVectorTerm *terms;
};

/* Memory for values comes with the first rows. */
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

static int
add_constant(HjgArgument *argument, Expr *expr, PlanState *parent)
{
	Constant   *constant = palloc(sizeof(Constant));
	int16		len;
	bool		byval;

	get_typlenbyval(exprType((Node *) expr), &len, &byval);
	constant->term = add_term(argument, (HjgVectorTerm) {.kind = HJG_TERM_CONSTANT});
	constant->expr = ExecInitExpr(expr, parent);
	constant->width = byval ? len : 0;
	argument->constants = lappend(argument->constants, constant);
	return constant->term;
}

/* Returns the term that the expression is, behind its arguments. */
static int
add_expr(HjgArgument *argument, Expr *expr, const int *column_of, PlanState *parent)
{
	const HjgArithmetic *function;
	List	   *args = NIL;
	int			left;
	int			right;

	check_stack_depth();
	expr = hjg_scan_strip_relabel((Node *) expr);
	if (IsA(expr, OpExpr))
		args = ((OpExpr *) expr)->args;
	else if (IsA(expr, FuncExpr))
		args = ((FuncExpr *) expr)->args;
	if (args == NIL)
		return IsA(expr, Var) ?
			add_term(argument, (HjgVectorTerm) {.kind = HJG_TERM_COLUMN, .column = column_of[((Var *) expr)->varattno - 1]}) :
			add_constant(argument, expr, parent);
	function = hjg_arithmetic(IsA(expr, OpExpr) ? ((OpExpr *) expr)->opfuncid : ((FuncExpr *) expr)->funcid);
	if (function == NULL)
		elog(ERROR, "%s cannot evaluate an aggregate's argument", HJG_NODE_NAME);
	left = add_expr(argument, linitial(args), column_of, parent);
	if (function->kind == HJG_ARITHMETIC_WIDEN)
		return left;
	right = list_length(args) > 1 ? add_expr(argument, lsecond(args), column_of, parent) : left;
	return add_term(argument, (HjgVectorTerm) {
		.kind = HJG_TERM_ARITHMETIC, .function = function->kind, .width = function->width, .left = left, .right = right
	});
}

HjgArgument *
hjg_argument_create(Expr *expr, const int *column_of, PlanState *parent)
{
	HjgArgument *argument = palloc0(sizeof(HjgArgument));

	argument->max_terms = 4;
	argument->terms = palloc(argument->max_terms * sizeof(HjgVectorTerm));
	(void) add_expr(argument, expr, column_of, parent);
	return argument;
}

void
hjg_argument_reset(HjgArgument *argument)
{
	argument->evaluated = false;
}

static void
make_space(HjgArgument *argument)
{
	MemoryContext context = GetMemoryChunkContext(argument);

	for (int t = 0; t < argument->nterms; t++)
	{
		argument->terms[t].space = MemoryContextAlloc(context, HJG_VECTOR_ROWS * sizeof(int64));
		argument->terms[t].null_space = MemoryContextAlloc(context, HJG_VECTOR_ROWS * sizeof(bool));
	}
}

static void
evaluate_constants(HjgArgument *argument, ExprContext *econtext)
{
	ListCell   *lc;

	foreach(lc, argument->constants)
	{
		const Constant *constant = lfirst(lc);
		bool		isnull;
		Datum		value = ExecEvalExprSwitchContext(constant->expr, econtext, &isnull);
		int64		number = isnull || constant->width == 0 ? 0 : hjg_vector_datum_to_int(value, constant->width);

		hjg_vector_term_set_constant(&argument->terms[constant->term], number, isnull);
	}
	argument->evaluated = true;
}

static void
out_of_range(int width)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg(width == 2 ? "smallint out of range" : width == 4 ? "integer out of range" : "bigint out of range")));
}

const HjgNumbers *
hjg_argument_eval(HjgArgument *argument, const HjgVector *vectors, int nrows, ExprContext *econtext)
{
	int			failed;

	if (unlikely(argument->terms[0].space == NULL))
		make_space(argument);
	if (!argument->evaluated)
		evaluate_constants(argument, econtext);
	failed = hjg_vector_terms_eval(argument->terms, argument->nterms, vectors, nrows);
	if (failed != 0)
		out_of_range(failed);
	return &argument->terms[argument->nterms - 1].numbers;
}
