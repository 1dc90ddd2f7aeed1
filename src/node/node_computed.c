/*
 * node_computed.c
 *	  The columns that the node GpuAggregate computes from those of its child: keys of groups that are not plain columns, and
 *	  arguments that core's expression code computes.
 *
 * Keys that are integers, and fields of dates, are computed in vectors (node_argument.c). A field of a date is a whole number,
 * whatever its type, so it is compared as an integer. Fields of infinite dates are the infinities or NULL; an infinity is the
 * least or the greatest integer, which no year is.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "node/hjg_aggregate.h"
#include "node/hjg_execution.h"
#include "planner/hjg_planner.h"

/* Computed values of a vector are copied until they take this much memory. */
#define MOST_COMPUTED_BYTES (256 * 1024)

/* ---------- set-up ---------- */

static HjgComputed *
add_column(HjgAggregateState *state, HjgColumn column)
{
	HjgComputed *computed = &state->computed[state->ncomputed];

	*computed = (HjgComputed) {.vector = &state->vectors[state->child.ncolumns + state->ncomputed]};
	computed->vector->column = column;
	computed->vector->values = palloc(HJG_VECTOR_ROWS * sizeof(Datum));
	computed->vector->isnull = palloc(HJG_VECTOR_ROWS * sizeof(bool));
	state->ncomputed++;
	return computed;
}

int
hjg_computed_add_by_core(HjgAggregateState *state, Expr *expr)
{
	HjgColumn	column = {0};
	HjgComputed *computed;

	get_typlenbyval(exprType((Node *) expr), &column.attlen, &column.attbyval);
	computed = add_column(state, column);
	computed->expr = ExecInitExpr(expr, &state->css.ss.ps);
	state->nby_core++;
	return computed->vector - state->vectors;
}

void
hjg_computed_add_key(HjgAggregateState *state, Expr *expr, HjgGroupKey *key)
{
	HjgColumn	column = {sizeof(int64), true, 0};
	HjgComputed *computed;
	HjgDateField field;
	Expr	   *date;
	const bool	is_field = hjg_date_field(expr, &field, &date);

	if (is_field)
		key->operator = lookup_type_cache(INT8OID, TYPECACHE_EQ_OPR)->eq_opr;
	else
		get_typlenbyval(exprType((Node *) expr), &column.attlen, &column.attbyval);
	computed = add_column(state, column);
	computed->argument = hjg_argument_create(expr, state->column_of, &state->css.ss.ps, false);
	computed->field_type = is_field ? exprType((Node *) expr) : InvalidOid;
	key->column = computed->vector - state->vectors;
}

void
hjg_computed_reset(HjgAggregateState *state)
{
	for (int e = 0; e < state->ncomputed; e++)
		if (state->computed[e].argument != NULL)
			hjg_argument_reset(state->computed[e].argument);
}

/* ---------- in vectors ---------- */

#define NARROW(type) \
	for (int i = 0; i < nrows; i++) \
		((type *) vector->values)[i] = (type) numbers->values[i]; \
	break

/* Put integers into a vector, at its width. */
static void
put_numbers(HjgVector *vector, const HjgNumbers *numbers, int nrows)
{
	vector->has_nulls = numbers->isnull != NULL;
	if (vector->has_nulls)
		memcpy(vector->isnull, numbers->isnull, nrows * sizeof(bool));
	switch (vector->column.attlen)
	{
		case 1:
			NARROW(int8);
		case 2:
			NARROW(int16);
		case 4:
			NARROW(int32);
		default:
			NARROW(int64);
	}
}
#undef NARROW

/* Get the integer as which a field of a date is compared. */
static int64
field_number(Oid type, Datum value)
{
	double		number;

	switch (type)
	{
		case INT4OID:
			return DatumGetInt32(value);
		case INT8OID:
			return DatumGetInt64(value);
		case NUMERICOID:
			value = DirectFunctionCall1(numeric_float8, value);
			break;
	}
	number = DatumGetFloat8(value);
	return !isinf(number) ? (int64) number : number > 0 ? PG_INT64_MAX : PG_INT64_MIN;
}

/* Compute a column for rows that vectors cannot express, by core's code. */
static void
compute_rows(HjgAggregateState *state, const HjgComputed *computed, int nrows)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;

	for (int i = 0; i < nrows; i++)
	{
		bool		isnull;
		Datum		value;

		ResetExprContext(econtext);
		value = hjg_argument_eval_row(computed->argument, state->vectors, i, econtext, &isnull);
		if (!isnull && OidIsValid(computed->field_type))
			value = Int64GetDatum(field_number(computed->field_type, value));
		hjg_vector_put(computed->vector, i, value, isnull);
	}
}

static void
compute_in_vectors(HjgAggregateState *state, const HjgComputed *computed, int nrows)
{
	const HjgNumbers *numbers = hjg_argument_eval(computed->argument, state->vectors, nrows);

	if (numbers != NULL)
		put_numbers(computed->vector, numbers, nrows);
	else
		compute_rows(state, computed, nrows);
}

/* ---------- by core, row by row ---------- */

/* Put a row of the child into the slot for core's expressions. */
static void
load_row(HjgAggregateState *state, int i)
{
	TupleTableSlot *slot = state->row;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
	for (int c = 0; c < state->child.ncolumns; c++)
	{
		const HjgVector *vector = &state->vectors[c];

		if (vector->values == NULL || hjg_vector_isnull(vector, i))
			continue;
		slot->tts_isnull[c] = false;
		slot->tts_values[c] = hjg_argument_datum(vector, i, state->css.ss.ps.ps_ExprContext);
	}
	ExecStoreVirtualTuple(slot);
}

/* Compute an expression of the row in the slot. The value lasts as long as the vector, other memory as long as the row. */
static void
compute_value(HjgAggregateState *state, const HjgComputed *computed, int i)
{
	HjgVector  *vector = computed->vector;
	bool		isnull;
	Datum		value = ExecEvalExprSwitchContext(computed->expr, state->css.ss.ps.ps_ExprContext, &isnull);

	if (!isnull && !vector->column.attbyval)
	{
		MemoryContext old = MemoryContextSwitchTo(state->computed_context);

		value = datumCopy(value, false, vector->column.attlen);
		MemoryContextSwitchTo(old);
	}
	hjg_vector_put(vector, i, value, isnull);
}

/* Compute those of the first n columns that core computes; see hjg_computed_rows(). */
static int
compute_by_core(HjgAggregateState *state, int n, int nrows)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	int			i;

	MemoryContextReset(state->computed_context);
	for (i = 0; i < nrows && (i == 0 || MemoryContextMemAllocated(state->computed_context, false) < MOST_COMPUTED_BYTES); i++)
	{
		ResetExprContext(econtext);
		load_row(state, i);
		econtext->ecxt_scantuple = state->row;
		for (int e = 0; e < n; e++)
			if (state->computed[e].expr != NULL)
				compute_value(state, &state->computed[e], i);
	}
	return i;
}

int
hjg_computed_rows(HjgAggregateState *state, int n, int nrows)
{
	bool		by_core = false;

	for (int e = 0; e < n; e++)
	{
		if (state->computed[e].argument != NULL)
			compute_in_vectors(state, &state->computed[e], nrows);
		by_core |= state->computed[e].expr != NULL;
	}
	return by_core ? compute_by_core(state, n, nrows) : nrows;
}
