/*
 * node_program_classes.c
 *	  Keys of groups that have the same value for many values of a column, like the month of a timestamp: a program looks up a value's class.
 *
 * Where a column's values, rounded down (planner_rounding.c), are few, core's code computes the keys of all of them before the program runs. Values
 * with the same keys are a class. Groups by classes are whole, unlike those by days, so they can be counted as DISTINCT, and put in order, on the
 * device. What comes back is a value of the class, of which the node computes its keys as always.
 *
 * Keys are the same if their bytes are: the planner knows that equal ones are.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "node/hjg_program_write.h"
#include "planner/hjg_planner.h"

/* An expression of a column that is evaluated for several of its values. */
typedef struct Evaluation
{
	ExprContext *econtext;
	ExprState  *expr;
	int			column;
	int16		len;
	bool		byval;
} Evaluation;

static Evaluation
begin_evaluation(HjgAggregateState *state, Expr *expr, int column)
{
	Evaluation	evaluation = {.econtext = state->css.ss.ps.ps_ExprContext, .expr = ExecInitExpr(expr, &state->css.ss.ps), .column = column};

	get_typlenbyval(exprType((Node *) expr), &evaluation.len, &evaluation.byval);
	return evaluation;
}

/* Evaluate the expression, in the current memory context, for rows that have this value of the column. */
static Datum
evaluate_for(const Evaluation *evaluation, TupleTableSlot *slot, Datum value, bool *isnull)
{
	TupleTableSlot *caller_slot = evaluation->econtext->ecxt_scantuple;
	Datum		result;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
	slot->tts_isnull[evaluation->column] = false;
	slot->tts_values[evaluation->column] = value;
	ExecStoreVirtualTuple(slot);
	evaluation->econtext->ecxt_scantuple = slot;
	result = ExecEvalExpr(evaluation->expr, evaluation->econtext, isnull);
	evaluation->econtext->ecxt_scantuple = caller_slot;
	return !*isnull && evaluation->len == -1 ? PointerGetDatum(PG_DETOAST_DATUM_PACKED(result)) : result;
}

/* Append the bytes of a result. */
static void
append_result(StringInfo bytes, const Evaluation *evaluation, Datum value, bool isnull)
{
	appendStringInfoChar(bytes, isnull);
	if (isnull)
		return;
	if (evaluation->byval)
		appendBinaryStringInfo(bytes, (const char *) &value, sizeof(value));
	else
		appendBinaryStringInfo(bytes, DatumGetPointer(value), (int) hjg_vector_referred_bytes(evaluation->len, DatumGetPointer(value)));
}

/* Find the keys that are computed from a column; NIL: there are none, or one that is computed from something else, too. */
static List *
find_keys_of(const HjgAggregateState *state, int column)
{
	const CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);
	List	   *found = NIL;
	ListCell   *lc;

	foreach(lc, list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_KEYS))
	{
		Bitmapset  *columns = NULL;

		hjg_node_columns(lfirst(lc), &columns);
		if (!bms_is_member(column, columns))
			continue;
		if (!hjg_planner_is_time_key(lfirst(lc)))
			return NIL;
		found = lappend(found, lfirst(lc));
	}
	return found;
}

/* Make the bytes of all keys of a value of the column, as a string. */
static const char *
bytes_of_keys(const Evaluation *evaluations, int n, TupleTableSlot *slot, Datum value)
{
	StringInfoData bytes;

	initStringInfo(&bytes);
	appendStringInfoSpaces(&bytes, VARHDRSZ);
	for (int e = 0; e < n; e++)
	{
		bool		isnull;
		const Datum result = evaluate_for(&evaluations[e], slot, value, &isnull);

		append_result(&bytes, &evaluations[e], result, isnull);
	}
	SET_VARSIZE(bytes.data, bytes.len);
	return bytes.data;
}

static TupleTableSlot *
make_slot(const HjgAggregateState *state)
{
	return MakeSingleTupleTableSlot(state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor, &TTSOpsVirtual);
}

int
hjg_program_write_classes(HjgProgramWriter *writer, HjgAggregateState *state, int column, HjgProgramStep rounded, HjgProgramValue *value)
{
	List	   *exprs = find_keys_of(state, column);
	const int64 first = value->least - (value->least + rounded.high) % rounded.low - ((value->least + rounded.high) % rounded.low < 0 ? rounded.low : 0);
	const int64 n = (value->greatest - first) / rounded.low + 1;
	HjgProgramClasses *classes;
	HjgProgramWords words = {NULL};
	Evaluation *evaluations;
	TupleTableSlot *slot;
	Datum	   *of_column;
	ListCell   *lc;

	if (exprs == NIL || n > HJG_MOST_CLASSES)
		return -1;
	classes = palloc0(sizeof(HjgProgramClasses));
	of_column = palloc(n * sizeof(Datum));
	evaluations = palloc(list_length(exprs) * sizeof(Evaluation));
	foreach(lc, exprs)
		evaluations[foreach_current_index(lc)] = begin_evaluation(state, lfirst(lc), column);
	slot = make_slot(state);
	rounded = (HjgProgramStep) {.op = HJG_PROGRAM_LOOK_UP, .left = rounded.left, .arg = writer->values.len / sizeof(int64), .low = first, .high = rounded.low};
	appendBinaryStringInfo(&writer->values, (const char *) &n, sizeof(n));
	for (int64 i = 0; i < n; i++)
	{
		/* the zone may have changed between the first multiple and the least value */
		const Datum representative = Int64GetDatum(Max(first + i * rounded.high, value->least));
		const int64 number = hjg_program_number_word(&words, bytes_of_keys(evaluations, list_length(exprs), slot, representative), -1);

		CHECK_FOR_INTERRUPTS();
		appendBinaryStringInfo(&writer->values, (const char *) &number, sizeof(number));
		of_column[number] = representative;
	}
	ExecDropSingleTupleTableSlot(slot);
	*classes = (HjgProgramClasses) {.n = words.n, .exprs = exprs, .exact = true, .column = of_column, .values = of_column};
	*value = (HjgProgramValue) {
		.form = HJG_VALUE_CLASS, .nullable = value->nullable, .least = 0, .greatest = words.n - 1, .collected = -1, .classes = classes,
		.reg = hjg_program_step_new(writer, rounded)
	};
	return value->reg;
}

bool
hjg_program_describe_class(HjgAggregateState *state, Expr *expr, const HjgProgramClasses *classes, HjgProgramValue *value)
{
	HjgProgramClasses *described = palloc(sizeof(HjgProgramClasses));
	Datum	   *values = palloc(classes->n * sizeof(Datum));
	bool	   *isnull = palloc(classes->n * sizeof(bool));
	Bitmapset  *columns = NULL;
	Evaluation	evaluation;
	TupleTableSlot *slot;

	hjg_node_columns((Node *) expr, &columns);
	if (!list_member(classes->exprs, expr))
		return false;
	evaluation = begin_evaluation(state, expr, bms_singleton_member(columns));
	slot = make_slot(state);
	for (int c = 0; c < classes->n; c++)
		values[c] = evaluate_for(&evaluation, slot, classes->column[c], &isnull[c]);
	ExecDropSingleTupleTableSlot(slot);
	*described = *classes;
	described->exact = list_length(classes->exprs) == 1;
	described->exprs = NIL;
	described->values = values;
	described->isnull = isnull;
	value->classes = described;
	return true;
}
