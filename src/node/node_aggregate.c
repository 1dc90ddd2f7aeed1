/*
 * node_aggregate.c
 *	  Aggregates of all rows of the join, computed where the rows are.
 *
 * Rows come as vectors, as for a join above, and go into totals: one set for each different argument,
 * whatever aggregates are made of it.  Where only rows are counted no row is made.  At the end the node returns one row of
 * core's transition values, which core's Agg above combines and finishes; a participant without a row returns one, too.
 *
 * A batch's rows come once only, however often the batch is redone; so nothing here knows of batches.
 *
 * A sum of int8 values is internal to core's functions.  It is made by them, of the 128-bit sum and the
 * number of values, when all rows are there.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"

#include "node/hjg_emit.h"

/* Sums over the values of one argument that are not NULL. */
typedef struct Totals
{
	HjgArgument *expr;
	bool		sum_wanted;
	bool		wide;			/* values may take all of 64 bits */
	bool		extremes_wanted;
	uint64		count;
	int128		sum;
	int64		least;
	int64		greatest;
} Totals;

typedef struct Aggregate
{
	HjgAggregateKind kind;
	int			argument;		/* of totals, or -1: it counts rows */
	int			width;			/* bytes of a least or greatest value */
} Aggregate;

struct HjgAggregation
{
	List	   *arguments;
	int			ntotals;
	Totals	   *totals;
	int			naggregates;
	Aggregate  *aggregates;
	int			njoined;		/* columns of the join; the aggregates follow in the scan tuple */
	int			ncolumns;		/* of them, those that are read; */
	int		   *columns;		/* column of the scan tuple that is vector c */
	int		   *places;			/* vector of each column of the scan tuple, or -1 */
	uint64		nrows;
	bool		done;			/* the row was returned */
	Datum	   *values;			/* scan tuple with that row */
	bool	   *isnull;
	AggState   *caller;			/* whom core's transition functions take for theirs */
	CustomScanState *node;
	HjgReport  *report;
	HjgVectorSource source;
};

/* ---------- set-up ---------- */

static void
add_aggregate(HjgAggregation *aggregation, Oid function, int argument, int width)
{
	Aggregate  *aggregate = &aggregation->aggregates[aggregation->naggregates++];
	Totals	   *totals = argument >= 0 ? &aggregation->totals[argument] : NULL;

	if (!hjg_aggregate_kind(function, &aggregate->kind) || argument >= aggregation->ntotals ||
		(totals == NULL && aggregate->kind != HJG_AGGREGATE_COUNT))
		elog(ERROR, "%s plan node has an unknown form", HJG_NODE_NAME);
	aggregate->argument = argument;
	aggregate->width = width;
	switch (aggregate->kind)
	{
		case HJG_AGGREGATE_COUNT:
			break;
		case HJG_AGGREGATE_WIDE_SUM:
			totals->wide = true;
			totals->sum_wanted = true;
			break;
		case HJG_AGGREGATE_SUM:
		case HJG_AGGREGATE_AVERAGE:
			totals->sum_wanted = true;
			break;
		case HJG_AGGREGATE_LEAST:
		case HJG_AGGREGATE_GREATEST:
			totals->extremes_wanted = true;
			break;
	}
}

HjgAggregation *
hjg_aggregation_create(CustomScanState *node, HjgReport *report, const Bitmapset *used)
{
	CustomScan *cscan = castNode(CustomScan, node->ss.ps.plan);
	TupleDesc	desc = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	List	   *functions = list_nth(cscan->custom_private, HJG_PRIVATE_AGGREGATES);
	List	   *numbers = list_nth(cscan->custom_private, HJG_PRIVATE_ARGUMENTS);
	const int	njoined = desc->natts - list_length(functions);
	HjgAggregation *aggregation;
	ListCell   *lc;
	ListCell   *number;

	if (functions == NIL)
		return NULL;
	aggregation = palloc0(sizeof(HjgAggregation));
	aggregation->arguments = list_nth(cscan->custom_exprs, HJG_EXPRS_ARGUMENTS);
	aggregation->ntotals = list_length(aggregation->arguments);
	aggregation->totals = palloc0(Max(aggregation->ntotals, 1) * sizeof(Totals));
	aggregation->aggregates = palloc0(list_length(functions) * sizeof(Aggregate));
	aggregation->njoined = njoined;
	forboth(lc, functions, number, numbers)
		add_aggregate(aggregation, lfirst_oid(lc), lfirst_int(number),
					  TupleDescAttr(desc, njoined + aggregation->naggregates)->attlen);

	aggregation->columns = palloc(Max(njoined, 1) * sizeof(int));
	aggregation->places = palloc(desc->natts * sizeof(int));
	for (int i = 0; i < desc->natts; i++)
	{
		aggregation->places[i] = bms_is_member(i, used) ? aggregation->ncolumns : -1;
		if (aggregation->places[i] >= 0)
			aggregation->columns[aggregation->ncolumns++] = i;
	}
	aggregation->values = palloc0(desc->natts * sizeof(Datum));
	aggregation->isnull = palloc(desc->natts * sizeof(bool));
	memset(aggregation->isnull, true, desc->natts * sizeof(bool));
	aggregation->caller = makeNode(AggState);
	aggregation->caller->curaggcontext = node->ss.ps.ps_ExprContext;
	aggregation->node = node;
	aggregation->report = report;
	return aggregation;
}

const int *
hjg_aggregation_places(const HjgAggregation *aggregation)
{
	return aggregation->places;
}

const int *
hjg_aggregation_columns(const HjgAggregation *aggregation, int *ncolumns)
{
	*ncolumns = aggregation->ncolumns;
	return aggregation->columns;
}

void
hjg_aggregation_open(HjgAggregation *aggregation, HjgVectorSource source)
{
	ListCell   *lc;

	aggregation->source = source;
	foreach(lc, aggregation->arguments)
		aggregation->totals[foreach_current_index(lc)].expr =
			hjg_argument_create(lfirst(lc), aggregation->places, &aggregation->node->ss.ps);
	hjg_aggregation_reset(aggregation);
}

void
hjg_aggregation_reset(HjgAggregation *aggregation)
{
	for (int i = 0; i < aggregation->ntotals; i++)
	{
		Totals	   *totals = &aggregation->totals[i];

		hjg_argument_reset(totals->expr);
		totals->count = 0;
		totals->sum = 0;
		totals->least = PG_INT64_MAX;
		totals->greatest = PG_INT64_MIN;
	}
	aggregation->nrows = 0;
	aggregation->done = false;
}

/* ---------- rows ---------- */

static int64
sum_narrow(const int64 *values, int nrows)
{
	int64		sum = 0;

	for (int i = 0; i < nrows; i++)
		sum += values[i];
	return sum;
}

/* Sum the upper and the lower halves of the values apart, which do not overflow. */
static int128
sum_wide(const int64 *values, int nrows)
{
	int64		high = 0;
	int64		low = 0;

	for (int i = 0; i < nrows; i++)
	{
		high += values[i] >> 32;
		low += (uint32) values[i];
	}
	return (int128) high * (INT64CONST(1) << 32) + low;
}

static void
add_extremes(Totals *totals, const HjgNumbers *numbers, int nrows)
{
	const int64 *values = numbers->values;
	int64		least = totals->least;
	int64		greatest = totals->greatest;

	if (numbers->isnull == NULL)
		for (int i = 0; i < nrows; i++)
		{
			least = Min(least, values[i]);
			greatest = Max(greatest, values[i]);
		}
	else
		for (int i = 0; i < nrows; i++)
		{
			least = numbers->isnull[i] ? least : Min(least, values[i]);
			greatest = numbers->isnull[i] ? greatest : Max(greatest, values[i]);
		}
	totals->least = least;
	totals->greatest = greatest;
}

static void
add_rows(Totals *totals, const HjgNumbers *numbers, int nrows)
{
	int			nnulls = 0;

	if (numbers->isnull != NULL)
		for (int i = 0; i < nrows; i++)
			nnulls += numbers->isnull[i];
	totals->count += nrows - nnulls;
	if (totals->sum_wanted)
		totals->sum += totals->wide ? sum_wide(numbers->values, nrows) : sum_narrow(numbers->values, nrows);
	if (totals->extremes_wanted)
		add_extremes(totals, numbers, nrows);
}

/* Add rows, more than a vector has where no column is read: all are the same then. */
static void
add_argument(const HjgAggregation *aggregation, Totals *totals, int nrows)
{
	ExprContext *econtext = aggregation->node->ss.ps.ps_ExprContext;

	for (int left = nrows; left > 0; left -= HJG_VECTOR_ROWS)
	{
		int			n = Min(left, HJG_VECTOR_ROWS);

		add_rows(totals, hjg_argument_eval(totals->expr, aggregation->source.vectors, n, econtext), n);
	}
}

/* ---------- the result ---------- */

static Datum
call_transition(HjgAggregation *aggregation, PGFunction function, Datum state, bool no_state, Datum value)
{
	LOCAL_FCINFO(fcinfo, 2);

	InitFunctionCallInfoData(*fcinfo, NULL, 2, InvalidOid, (Node *) aggregation->caller, NULL);
	fcinfo->args[0].value = state;
	fcinfo->args[0].isnull = no_state;
	fcinfo->args[1].value = value;
	fcinfo->args[1].isnull = false;
	return function(fcinfo);
}

/* Core's state of n > 0 equal values: of one, doubled as often as n has bits, those of n's bits put together. */
static Datum
state_of_equal(HjgAggregation *aggregation, int64 value, uint64 n)
{
	Datum		doubled = call_transition(aggregation, int8_avg_accum, (Datum) 0, true, Int64GetDatum(value));
	Datum		state = (Datum) 0;
	bool		none = true;

	for (;;)
	{
		if (n & 1)
		{
			state = call_transition(aggregation, int8_avg_combine, state, none, doubled);
			none = false;
		}
		n >>= 1;
		if (n == 0)
			return state;
		doubled = call_transition(aggregation, int8_avg_combine, doubled, false,
								  call_transition(aggregation, int8_avg_combine, (Datum) 0, true, doubled));
	}
}

/* As core's state depends on number and sum alone, n values with that sum will do: some of one, the others one less. */
static Datum
wide_sum_datum(HjgAggregation *aggregation, const Totals *totals)
{
	int128		less = totals->sum / totals->count;
	uint64		nmore;
	Datum		state;
	LOCAL_FCINFO(fcinfo, 1);

	if (less * totals->count > totals->sum)
		less--;
	nmore = (uint64) (totals->sum - less * totals->count);
	state = state_of_equal(aggregation, (int64) less, totals->count - nmore);
	if (nmore > 0)
		state = call_transition(aggregation, int8_avg_combine, state, false,
								state_of_equal(aggregation, (int64) less + 1, nmore));
	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, (Node *) aggregation->caller, NULL);
	fcinfo->args[0].value = state;
	fcinfo->args[0].isnull = false;
	return int8_avg_serialize(fcinfo);
}

static Datum
average_datum(const Totals *totals)
{
	Datum		elements[2] = {Int64GetDatum((int64) totals->count), Int64GetDatum((int64) totals->sum)};

	return PointerGetDatum(construct_array(elements, 2, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

static Datum
extreme_datum(int64 value, int width)
{
	switch (width)
	{
		case 1:
			return CharGetDatum((char) value);
		case 2:
			return Int16GetDatum((int16) value);
		case 4:
			return Int32GetDatum((int32) value);
		default:
			return Int64GetDatum(value);
	}
}

static Datum
aggregate_datum(HjgAggregation *aggregation, const Aggregate *aggregate, bool *isnull)
{
	const Totals *totals = aggregate->argument >= 0 ? &aggregation->totals[aggregate->argument] : NULL;

	*isnull = aggregate->kind != HJG_AGGREGATE_COUNT && aggregate->kind != HJG_AGGREGATE_AVERAGE && totals->count == 0;
	if (*isnull)
		return (Datum) 0;
	switch (aggregate->kind)
	{
		case HJG_AGGREGATE_COUNT:
			return Int64GetDatum((int64) (totals != NULL ? totals->count : aggregation->nrows));
		case HJG_AGGREGATE_SUM:
			return Int64GetDatum((int64) totals->sum);
		case HJG_AGGREGATE_AVERAGE:
			return average_datum(totals);
		case HJG_AGGREGATE_WIDE_SUM:
			return wide_sum_datum(aggregation, totals);
		case HJG_AGGREGATE_LEAST:
			return extreme_datum(totals->least, aggregate->width);
		default:
			return extreme_datum(totals->greatest, aggregate->width);
	}
}

static TupleTableSlot *
result_row(HjgAggregation *aggregation)
{
	const CustomScanState *node = aggregation->node;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	MemoryContext old_context;

	ResetExprContext(econtext);
	old_context = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	for (int i = 0; i < aggregation->naggregates; i++)
	{
		int			at = aggregation->njoined + i;

		aggregation->values[at] = aggregate_datum(aggregation, &aggregation->aggregates[i], &aggregation->isnull[at]);
	}
	MemoryContextSwitchTo(old_context);

	ExecClearTuple(slot);
	slot->tts_values = aggregation->values;
	slot->tts_isnull = aggregation->isnull;
	ExecStoreVirtualTuple(slot);
	econtext->ecxt_scantuple = slot;
	return node->ss.ps.ps_ProjInfo != NULL ? ExecProject(node->ss.ps.ps_ProjInfo) : slot;
}

TupleTableSlot *
hjg_aggregation_next(HjgAggregation *aggregation)
{
	const HjgVectorSource *source = &aggregation->source;
	const ScanState *ss = &aggregation->node->ss;
	ProjectionInfo *projection = ss->ps.ps_ProjInfo;
	int			n;

	if (aggregation->done)
		return ExecClearTuple(projection != NULL ? projection->pi_state.resultslot : ss->ss_ScanTupleSlot);
	while ((n = source->next(source->arg)) > 0)
	{
		aggregation->nrows += n;
		for (int i = 0; i < aggregation->ntotals; i++)
			add_argument(aggregation, &aggregation->totals[i], n);
	}
	aggregation->done = true;
	aggregation->report->joined_rows += aggregation->nrows;
	return result_row(aggregation);
}
