/*
 * exec_operator.c
 *	  Operators that compare fixed-width values by their ordinals (marshal_filter.c).
 *
 * They have no side effect, raise no error and tell nothing.  Operators count by the function
 * behind them, never by name or type: what a user defines is not simple.
 */
#include "postgres.h"

#include "nodes/primnodes.h"
#include "utils/fmgroids.h"

#include "executor/hjg_executor.h"

#define SIX(name, ordinal, left, right) \
	{F_##name##EQ, HJG_COMPARE_EQ, ordinal, left, right}, \
	{F_##name##NE, HJG_COMPARE_NE, ordinal, left, right}, \
	{F_##name##LT, HJG_COMPARE_LT, ordinal, left, right}, \
	{F_##name##LE, HJG_COMPARE_LE, ordinal, left, right}, \
	{F_##name##GT, HJG_COMPARE_GT, ordinal, left, right}, \
	{F_##name##GE, HJG_COMPARE_GE, ordinal, left, right}

static const HjgSimpleOperator simple_operators[] = {
	SIX(BOOL, HJG_ORDINAL_INT, 1, 1),
	SIX(DATE_, HJG_ORDINAL_INT, 4, 4),
	SIX(FLOAT4, HJG_ORDINAL_FLOAT, 4, 4),
	SIX(FLOAT48, HJG_ORDINAL_FLOAT, 4, 8),
	SIX(FLOAT8, HJG_ORDINAL_FLOAT, 8, 8),
	SIX(FLOAT84, HJG_ORDINAL_FLOAT, 8, 4),
	SIX(INT2, HJG_ORDINAL_INT, 2, 2),
	SIX(INT24, HJG_ORDINAL_INT, 2, 4),
	SIX(INT28, HJG_ORDINAL_INT, 2, 8),
	SIX(INT4, HJG_ORDINAL_INT, 4, 4),
	SIX(INT42, HJG_ORDINAL_INT, 4, 2),
	SIX(INT48, HJG_ORDINAL_INT, 4, 8),
	SIX(INT8, HJG_ORDINAL_INT, 8, 8),
	SIX(INT82, HJG_ORDINAL_INT, 8, 2),
	SIX(INT84, HJG_ORDINAL_INT, 8, 4),
	SIX(OID, HJG_ORDINAL_UINT, 4, 4),
	SIX(TIME_, HJG_ORDINAL_INT, 8, 8),
	SIX(TIMESTAMP_, HJG_ORDINAL_INT, 8, 8),
	SIX(TIMESTAMPTZ_, HJG_ORDINAL_INT, 8, 8),
};

const HjgSimpleOperator *
hjg_simple_operator(Oid function)
{
	for (int i = 0; i < lengthof(simple_operators); i++)
		if (simple_operators[i].function == function)
			return &simple_operators[i];
	return NULL;
}

Expr *
hjg_strip_relabel(Node *node)
{
	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return (Expr *) node;
}
