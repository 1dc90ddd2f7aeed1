/*
 * exec_vector_expr.c
 *	  Integer arithmetic on columns, for a vector of rows at a time.
 *
 * Every value is computed as a 64-bit integer, whatever its type, so that widening is nothing to do, and is compared with the
 * bounds of its type as core does after each operation.  Whether any row of the vector is beyond them is found out
 * without a branch in the loop, and raised once behind it; of several operations that fail the one that core would
 * have met first need not be the one that is reported.  All functions are strict; the value of a NULL is 0.
 *
 * Constants and parameters are evaluated by core, at the first row after a rescan, as core would evaluate
 * them for the first time.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "executor/hjg_executor.h"

typedef enum NodeKind
{
	NODE_COLUMN,
	NODE_CONSTANT,				/* a parameter, too: the same in all rows */
	NODE_ARITHMETIC
} NodeKind;

struct HjgVectorExpr
{
	NodeKind	kind;
	int			column;			/* NODE_COLUMN: which vector */
	ExprState  *constant;		/* NODE_CONSTANT, of such a type; */
	int			constant_width; /* 0: only whether it is NULL matters */
	bool		evaluated;		/* its values stand in space */
	const HjgArithmetic *function;	/* NODE_ARITHMETIC */
	HjgVectorExpr *left;
	HjgVectorExpr *right;		/* NULL: there is one argument */
	HjgNumbers	numbers;		/* result */
	int64	   *space;			/* [HJG_VECTOR_ROWS], both NULL before the first rows */
	bool	   *null_space;
};

HjgVectorExpr *
hjg_vector_expr_create(Expr *expr, const int *column_of, PlanState *parent)
{
	HjgVectorExpr *node;
	List	   *args = NIL;
	int16		len;
	bool		byval;

	expr = hjg_strip_relabel((Node *) expr);
	if (IsA(expr, OpExpr))
		args = ((OpExpr *) expr)->args;
	else if (IsA(expr, FuncExpr))
		args = ((FuncExpr *) expr)->args;
	node = palloc0(sizeof(HjgVectorExpr));
	if (args != NIL)
	{
		node->kind = NODE_ARITHMETIC;
		node->function = hjg_arithmetic(IsA(expr, OpExpr) ? ((OpExpr *) expr)->opfuncid : ((FuncExpr *) expr)->funcid);
		if (node->function == NULL)
			elog(ERROR, "%s cannot evaluate an aggregate's argument", HJG_NODE_NAME);
		node->left = hjg_vector_expr_create(linitial(args), column_of, parent);
		if (node->function->kind == HJG_ARITHMETIC_WIDEN)
			return node->left;
		if (list_length(args) > 1)
			node->right = hjg_vector_expr_create(lsecond(args), column_of, parent);
	}
	else if (IsA(expr, Var))
	{
		node->kind = NODE_COLUMN;
		node->column = column_of[((Var *) expr)->varattno - 1];
	}
	else
	{
		node->kind = NODE_CONSTANT;
		node->constant = ExecInitExpr(expr, parent);
		get_typlenbyval(exprType((Node *) expr), &len, &byval);
		node->constant_width = byval ? len : 0;
	}
	return node;
}

void
hjg_vector_expr_reset(HjgVectorExpr *node)
{
	node->evaluated = false;
	if (node->left != NULL)
		hjg_vector_expr_reset(node->left);
	if (node->right != NULL)
		hjg_vector_expr_reset(node->right);
}

/* ---------- leaves ---------- */

static void
set_nulls(HjgVectorExpr *node, bool has_nulls)
{
	node->numbers.values = node->space;
	node->numbers.isnull = has_nulls ? node->null_space : NULL;
}

/* Values of NULLs, which are undefined or were computed of zeros, become 0. */
static void
clear_nulls(HjgVectorExpr *node, int nrows)
{
	int64	   *const space = node->space;
	const bool *const isnull = node->null_space;

	for (int i = 0; i < nrows; i++)
		space[i] &= (int64) isnull[i] - 1;
}

#define LOAD(type) \
	for (int i = 0; i < nrows; i++) \
		space[i] = ((const type *) values)[i]; \
	break

static void
load_column(HjgVectorExpr *node, const HjgVector *vector, int nrows)
{
	const void *const values = vector->values;
	int64	   *const space = node->space;

	set_nulls(node, vector->has_nulls);
	if (vector->has_nulls)
		memcpy(node->null_space, vector->isnull, nrows * sizeof(bool));
	switch (vector->column.attbyval ? vector->column.attlen : 0)
	{
		case 1:
			LOAD(int8);
		case 2:
			LOAD(int16);
		case 4:
			LOAD(int32);
		case 8:
			if (!vector->has_nulls)
			{
				node->numbers.values = vector->values;
				break;
			}
			LOAD(int64);
		default:
			return;				/* of others only whether they are NULL is asked for */
	}
	if (vector->has_nulls)
		clear_nulls(node, nrows);
}
#undef LOAD

static void
load_constant(HjgVectorExpr *node, ExprContext *econtext)
{
	bool		isnull;
	Datum		value;
	int64		number;

	if (node->evaluated)
		return;
	value = ExecEvalExprSwitchContext(node->constant, econtext, &isnull);
	number = isnull || node->constant_width == 0 ? 0 : hjg_datum_to_int(value, node->constant_width);
	for (int i = 0; i < HJG_VECTOR_ROWS; i++)
		node->space[i] = number;
	memset(node->null_space, isnull, HJG_VECTOR_ROWS * sizeof(bool));
	set_nulls(node, isnull);
	node->evaluated = true;
}

/* ---------- arithmetic ---------- */

static void
out_of_range(int width)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg(width == 2 ? "smallint out of range" : width == 4 ? "integer out of range" : "bigint out of range")));
}

/* The results of narrow operations are exact in 64 bits: is one beyond so many bits?  bound is 2^(bits - 1). */
static bool
any_beyond(const int64 *values, int nrows, int64 bound)
{
	uint64		beyond = 0;

	for (int i = 0; i < nrows; i++)
		beyond |= (uint64) (values[i] + bound) & ~(2 * (uint64) bound - 1);
	return beyond != 0;
}

/* Wrapping around, as the processor does. */
static void
compute(HjgArithmeticKind kind, const int64 *left, const int64 *right, int nrows, int64 *result)
{
	switch (kind)
	{
		case HJG_ARITHMETIC_PLUS:
			for (int i = 0; i < nrows; i++)
				result[i] = (int64) ((uint64) left[i] + (uint64) right[i]);
			break;
		case HJG_ARITHMETIC_MINUS:
			for (int i = 0; i < nrows; i++)
				result[i] = (int64) ((uint64) left[i] - (uint64) right[i]);
			break;
		case HJG_ARITHMETIC_TIMES:
			for (int i = 0; i < nrows; i++)
				result[i] = (int64) ((uint64) left[i] * (uint64) right[i]);
			break;
		case HJG_ARITHMETIC_NEGATE:
			for (int i = 0; i < nrows; i++)
				result[i] = (int64) (0 - (uint64) left[i]);
			break;
		case HJG_ARITHMETIC_WIDEN:
			break;
	}
}

/* Which operations on 64-bit values wrapped around: wrapped[i] is negative then. */
static void
mark_wrapped(HjgArithmeticKind kind, const int64 *left, const int64 *right, int nrows, const int64 *result,
			 int64 *wrapped)
{
	int64		product;

	switch (kind)
	{
		case HJG_ARITHMETIC_PLUS:
			for (int i = 0; i < nrows; i++)
				wrapped[i] = (left[i] ^ result[i]) & (right[i] ^ result[i]);
			break;
		case HJG_ARITHMETIC_MINUS:
			for (int i = 0; i < nrows; i++)
				wrapped[i] = (left[i] ^ right[i]) & (left[i] ^ result[i]);
			break;
		case HJG_ARITHMETIC_TIMES:
			for (int i = 0; i < nrows; i++)
				wrapped[i] = -(int64) __builtin_mul_overflow(left[i], right[i], &product);
			break;
		case HJG_ARITHMETIC_NEGATE:
			for (int i = 0; i < nrows; i++)
				wrapped[i] = left[i] & result[i];
			break;
		case HJG_ARITHMETIC_WIDEN:
			break;
	}
}

/* The zero that stands for a NULL wraps around, too, where the least number is taken off it. */
static bool
any_wrapped(const int64 *wrapped, const bool *isnull, int nrows)
{
	int64		any = 0;

	if (isnull == NULL)
		for (int i = 0; i < nrows; i++)
			any |= wrapped[i];
	else
		for (int i = 0; i < nrows; i++)
			any |= wrapped[i] & ((int64) isnull[i] - 1);
	return any < 0;
}

/* Of arguments that are evaluated; not where these are, as its memory would be taken once for each level of them. */
static pg_noinline void
apply(HjgVectorExpr *node, const HjgNumbers *left, const HjgNumbers *right, int nrows)
{
	const int	width = node->function->width;
	int64		wrapped[HJG_VECTOR_ROWS];

	set_nulls(node, left->isnull != NULL || right->isnull != NULL);
	compute(node->function->kind, left->values, right->values, nrows, node->space);
	if (node->numbers.isnull != NULL)
		for (int i = 0; i < nrows; i++)
			node->null_space[i] = (left->isnull != NULL && left->isnull[i]) || (right->isnull != NULL && right->isnull[i]);
	if (width == 8)
	{
		mark_wrapped(node->function->kind, left->values, right->values, nrows, node->space, wrapped);
		if (any_wrapped(wrapped, node->numbers.isnull, nrows))
			out_of_range(width);
	}
	if (node->numbers.isnull != NULL)
		clear_nulls(node, nrows);
	if (width < 8 && any_beyond(node->space, nrows, INT64CONST(1) << (8 * width - 1)))
		out_of_range(width);
}

static void
evaluate(HjgVectorExpr *node, const HjgVector *vectors, int nrows, ExprContext *econtext)
{
	const HjgNumbers *left = hjg_vector_expr_eval(node->left, vectors, nrows, econtext);
	const HjgNumbers *right = node->right != NULL ? hjg_vector_expr_eval(node->right, vectors, nrows, econtext) : left;

	apply(node, left, right, nrows);
}

static void
make_space(HjgVectorExpr *node)
{
	MemoryContext context = GetMemoryChunkContext(node);

	node->space = MemoryContextAlloc(context, HJG_VECTOR_ROWS * sizeof(int64));
	node->null_space = MemoryContextAlloc(context, HJG_VECTOR_ROWS * sizeof(bool));
}

const HjgNumbers *
hjg_vector_expr_eval(HjgVectorExpr *node, const HjgVector *vectors, int nrows, ExprContext *econtext)
{
	check_stack_depth();
	if (unlikely(node->null_space == NULL))
		make_space(node);
	switch (node->kind)
	{
		case NODE_COLUMN:
			load_column(node, &vectors[node->column], nrows);
			break;
		case NODE_CONSTANT:
			load_constant(node, econtext);
			break;
		case NODE_ARITHMETIC:
			evaluate(node, vectors, nrows, econtext);
			break;
	}
	return &node->numbers;
}
