/*
 * node_argument.c
 *	  Arguments of aggregates, as arithmetic on columns (vector_expr.c).
 *
 * Core evaluates constants and parameters at the first row after a rescan, when it would evaluate them for the first time
 * itself.
 *
 * Rows whose numerics do not fit (vector_numeric.c) are left to the caller, which has core evaluate the argument row by row.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "node/hjg_execution.h"

/* A term that core evaluates: a constant, or a parameter; it is the same in all rows. */
typedef struct Constant
{
	int			term;
	ExprState  *expr;
	int			width;			/* or HJG_NUMERIC_WIDTH; 0: the value is only tested for NULL */
} Constant;

struct HjgArgument
{
	List	   *constants;		/* of Constant */
	bool		evaluated;		/* the terms have their values, and */
	bool		fits;			/* all of these fit */
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

static int
add_constant(HjgArgument *argument, Expr *expr, PlanState *parent)
{
	Constant   *constant = palloc(sizeof(Constant));
	int16		len;
	bool		byval;

	get_typlenbyval(exprType((Node *) expr), &len, &byval);
	constant->term = add_term(argument, (HjgVectorTerm) {.kind = HJG_TERM_CONSTANT});
	constant->expr = ExecInitExpr(expr, parent);
	constant->width = is_numeric_expr(expr) ? HJG_NUMERIC_WIDTH : byval ? len : 0;
	argument->constants = lappend(argument->constants, constant);
	return constant->term;
}

/* Add an expression's arguments, then the expression; returns its term. */
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
			add_term(argument, (HjgVectorTerm) {
				.kind = is_numeric_expr(expr) ? HJG_TERM_NUMERIC_COLUMN : HJG_TERM_COLUMN,
				.column = column_of[((Var *) expr)->varattno - 1]
			}) :
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
hjg_argument_create(Expr *expr, const int *column_of, PlanState *parent, bool counted)
{
	HjgArgument *argument = palloc0(sizeof(HjgArgument));

	argument->max_terms = 4;
	argument->terms = palloc(argument->max_terms * sizeof(HjgVectorTerm));
	(void) add_expr(argument, expr, column_of, parent);
	if (counted && argument->nterms == 1 && argument->terms[0].kind == HJG_TERM_NUMERIC_COLUMN)
		argument->terms[0].kind = HJG_TERM_COLUMN;
	argument->source = expr;
	argument->parent = parent;
	argument->column_of = column_of;
	hjg_node_columns((Node *) expr, &argument->attnos);
	return argument;
}

void
hjg_argument_reset(HjgArgument *argument)
{
	argument->evaluated = false;
}

static void
make_argument_space(HjgArgument *argument)
{
	MemoryContext context = GetMemoryChunkContext(argument);

	for (int t = 0; t < argument->nterms; t++)
	{
		argument->terms[t].space = MemoryContextAlloc(context, HJG_VECTOR_ROWS * sizeof(int64));
		argument->terms[t].null_space = MemoryContextAlloc(context, HJG_VECTOR_ROWS * sizeof(bool));
	}
}

/* Set the value of a constant term; false if it is a numeric that does not fit. */
static bool
set_constant(const Constant *constant, HjgVectorTerm *term, Datum value, bool isnull)
{
	int64		number = 0;
	int			scale = 0;

	if (!isnull && constant->width == HJG_NUMERIC_WIDTH)
	{
		if (!hjg_vector_numeric_decode(PG_DETOAST_DATUM_PACKED(value), &number, &scale))
			return false;
	}
	else if (!isnull && constant->width != 0)
		number = hjg_vector_datum_to_int(value, constant->width);
	hjg_vector_term_set_constant(term, number, scale, isnull);
	return true;
}

static void
evaluate_constants(HjgArgument *argument, ExprContext *econtext)
{
	MemoryContext old_context = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	ListCell   *lc;

	argument->fits = true;
	foreach(lc, argument->constants)
	{
		const Constant *constant = lfirst(lc);
		bool		isnull;
		Datum		value = ExecEvalExpr(constant->expr, econtext, &isnull);

		argument->fits &= set_constant(constant, &argument->terms[constant->term], value, isnull);
	}
	MemoryContextSwitchTo(old_context);
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
		make_argument_space(argument);
	if (!argument->evaluated)
		evaluate_constants(argument, econtext);
	if (!argument->fits)
		return NULL;
	failed = hjg_vector_terms_eval(argument->terms, argument->nterms, vectors, nrows);
	if (failed == HJG_NUMERIC_WIDTH)
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
