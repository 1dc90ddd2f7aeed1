/*
 * vector_operator_pg.c
 *	  Operators that compare fixed-width values by their ordinals (vector_filter.c) or bytes: those that are evaluated for many
 *	  rows at a time, and among them those whose equality makes exact keys (rows_key.c).
 *
 * They are strict, have no side effect, raise no error, leak nothing and know no collation. They are identified by their
 * function, never by name or type, so operators of users are not simple.
 */
#include "postgres.h"

#include "utils/fmgroids.h"

#include "vector/hjg_vector_pg.h"

#define SIX(name, ordinal, left, right) \
	{F_##name##EQ, HJG_COMPARE_EQ, ordinal, left, right}, \
	{F_##name##NE, HJG_COMPARE_NE, ordinal, left, right}, \
	{F_##name##LT, HJG_COMPARE_LT, ordinal, left, right}, \
	{F_##name##LE, HJG_COMPARE_LE, ordinal, left, right}, \
	{F_##name##GT, HJG_COMPARE_GT, ordinal, left, right}, \
	{F_##name##GE, HJG_COMPARE_GE, ordinal, left, right}

static const HjgSimpleOperator simple_operators[] = {
	SIX(BOOL, HJG_ORDINAL_INT, 1, 1),
	SIX(CASH_, HJG_ORDINAL_INT, 8, 8),
	SIX(CHAR, HJG_ORDINAL_UINT, 1, 1),
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
	SIX(PG_LSN_, HJG_ORDINAL_UINT, 8, 8),
	SIX(TIME_, HJG_ORDINAL_INT, 8, 8),
	SIX(TIMESTAMP_, HJG_ORDINAL_INT, 8, 8),
	SIX(TIMESTAMPTZ_, HJG_ORDINAL_INT, 8, 8),
	SIX(XID8, HJG_ORDINAL_UINT, 8, 8),
	/* no order, or another one than that of the stored values */
	{F_CIDEQ, HJG_COMPARE_EQ, HJG_ORDINAL_UINT, 4, 4},
	{F_ENUM_EQ, HJG_COMPARE_EQ, HJG_ORDINAL_UINT, 4, 4},
	{F_ENUM_NE, HJG_COMPARE_NE, HJG_ORDINAL_UINT, 4, 4},
	{F_XIDEQ, HJG_COMPARE_EQ, HJG_ORDINAL_UINT, 4, 4},
	{F_XIDNEQ, HJG_COMPARE_NE, HJG_ORDINAL_UINT, 4, 4},
	{F_UUID_EQ, HJG_COMPARE_EQ, HJG_ORDINAL_NONE, 16, 16},
};

/* Operators on values of variable width, under deterministic collations. */
static const HjgBytesOperator bytes_operators[] = {
	{F_BPCHAREQ, HJG_COMPARE_EQ, true, true},
	{F_BPCHARNE, HJG_COMPARE_NE, true, true},
	{F_BYTEAEQ, HJG_COMPARE_EQ, false, false},
	{F_BYTEANE, HJG_COMPARE_NE, false, false},
	{F_TEXTEQ, HJG_COMPARE_EQ, true, false},
	{F_TEXTNE, HJG_COMPARE_NE, true, false},
};

bool
hjg_vector_numeric_operator(Oid function, HjgComparison *comparison)
{
	static const Oid functions[] = {F_NUMERIC_EQ, F_NUMERIC_NE, F_NUMERIC_LT, F_NUMERIC_LE, F_NUMERIC_GT, F_NUMERIC_GE};

	for (int i = 0; i < lengthof(functions); i++)
		if (functions[i] == function)
		{
			*comparison = HJG_COMPARE_EQ + i;
			return true;
		}
	return false;
}

/* The operators of two types, as they convert an operand on the right for a column on the left; or else the other way round. */
#define TIME_OPERATORS(left, right, if_right, if_left) \
	{{F_##left##_EQ_##right, F_##left##_NE_##right, F_##left##_LT_##right, F_##left##_LE_##right, F_##left##_GT_##right, F_##left##_GE_##right}, \
	if_right, if_left}

static const struct TimeOperators
{
	Oid			functions[HJG_COMPARE_GE + 1];
	HjgTimeOperand right;		/* conversion of an operand on the right, or on the left; SAME: the column would be converted */
	HjgTimeOperand left;
}			time_operators[] = {
	TIME_OPERATORS(DATE, TIMESTAMP, HJG_TIME_DAY, HJG_TIME_MIDNIGHT),
	TIME_OPERATORS(TIMESTAMP, DATE, HJG_TIME_MIDNIGHT, HJG_TIME_DAY),
	TIME_OPERATORS(DATE, TIMESTAMPTZ, HJG_TIME_SAME, HJG_TIME_LOCAL_MIDNIGHT),
	TIME_OPERATORS(TIMESTAMPTZ, DATE, HJG_TIME_LOCAL_MIDNIGHT, HJG_TIME_SAME),
	TIME_OPERATORS(TIMESTAMP, TIMESTAMPTZ, HJG_TIME_SAME, HJG_TIME_LOCAL),
	TIME_OPERATORS(TIMESTAMPTZ, TIMESTAMP, HJG_TIME_LOCAL, HJG_TIME_SAME),
};

bool
hjg_vector_time_operator(Oid function, bool column_is_left, HjgComparison *comparison, HjgTimeOperand *operand)
{
	for (int i = 0; i < lengthof(time_operators); i++)
		for (int c = 0; c < lengthof(time_operators[i].functions); c++)
			if (time_operators[i].functions[c] == function)
			{
				*comparison = column_is_left ? (HjgComparison) c : hjg_vector_commuted((HjgComparison) c);
				*operand = column_is_left ? time_operators[i].right : time_operators[i].left;
				return *operand != HJG_TIME_SAME;
			}
	return false;
}

bool
hjg_vector_like_operator(Oid function, bool *negated)
{
	*negated = function == F_TEXTNLIKE || function == F_BPCHARNLIKE;
	return *negated || function == F_TEXTLIKE || function == F_BPCHARLIKE;
}

const HjgBytesOperator *
hjg_vector_bytes_operator(Oid function)
{
	for (int i = 0; i < lengthof(bytes_operators); i++)
		if (bytes_operators[i].function == function)
			return &bytes_operators[i];
	return NULL;
}

const HjgSimpleOperator *
hjg_vector_simple_operator(Oid function)
{
	for (int i = 0; i < lengthof(simple_operators); i++)
		if (simple_operators[i].function == function)
			return &simple_operators[i];
	return NULL;
}
