/*
 * node_aggregate.c
 *	  The aggregates of the node GpuAggregate: the totals that they need, and the results made of these.
 *
 * A group has one set of totals for each distinct argument, shared by all aggregates of it; node_totals.c adds rows to them.
 * At the end they become aggregates, or core's transition values, which core's Agg above combines and finishes.
 *
 * The transition state of a sum of int8 values or numerics is internal to core; node_numeric_sum.c makes it.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "node/hjg_totals.h"

/* ---------- set-up ---------- */

static void
add_aggregate(HjgAggregation *aggregation, Oid function, int number, int square, int width)
{
	HjgAggregate  *aggregate = &aggregation->aggregates[aggregation->naggregates++];
	HjgTotalsArgument   *argument = number >= 0 ? &aggregation->arguments[number] : NULL;
	HjgTotalsArgument   *squares = square >= 0 ? &aggregation->arguments[square] : NULL;

	if (!hjg_aggregate_kind(function, &aggregate->kind) || number >= aggregation->narguments || square >= aggregation->narguments ||
		(argument == NULL && aggregate->kind != HJG_AGGREGATE_COUNT) || (squares != NULL) != hjg_aggregate_needs_squares(aggregate->kind))
		elog(ERROR, "%s plan node has an unknown form", HJG_AGGREGATE_NAME);
	aggregate->function = function;
	aggregate->argument = number;
	aggregate->square = square;
	aggregate->average = function == F_AVG_INT8 || function == F_AVG_NUMERIC;
	aggregate->width = width;
	switch (aggregate->kind)
	{
		case HJG_AGGREGATE_COUNT:
			break;
		case HJG_AGGREGATE_WIDE_SUM:
			argument->wide = true;
			argument->sum_wanted = true;
			break;
		case HJG_AGGREGATE_NUMERIC_SUM:
			argument->numeric = true;
			argument->sum_wanted = true;
			break;
		case HJG_AGGREGATE_SUM:
		case HJG_AGGREGATE_AVERAGE:
		case HJG_AGGREGATE_SUM_OF_COUNTS:
			argument->sum_wanted = true;
			break;
		case HJG_AGGREGATE_VARIANCE:
			argument->sum_wanted = squares->sum_wanted = true;
			squares->wide = true;
			break;
		case HJG_AGGREGATE_WIDE_VARIANCE:
			argument->sum_wanted = squares->sum_wanted = true;
			argument->wide = squares->numeric = true;
			break;
		case HJG_AGGREGATE_NUMERIC_VARIANCE:
			argument->sum_wanted = squares->sum_wanted = true;
			argument->numeric = squares->numeric = true;
			break;
		case HJG_AGGREGATE_LEAST:
		case HJG_AGGREGATE_GREATEST:
			argument->extremes_wanted = true;
			break;
		case HJG_AGGREGATE_NUMERIC_LEAST:
		case HJG_AGGREGATE_NUMERIC_GREATEST:
			argument->numeric = true;
			argument->extremes_wanted = true;
			break;
		case HJG_AGGREGATE_FLOAT_SUM:
			argument->floats = argument->sum_wanted = true;
			break;
		case HJG_AGGREGATE_FLOAT_MOMENTS:
			argument->floats = argument->moments_wanted = true;
			break;
		case HJG_AGGREGATE_FLOAT_LEAST:
		case HJG_AGGREGATE_FLOAT_GREATEST:
			argument->floats = argument->extremes_wanted = true;
			break;
	}
}

static void
lay_out_record(HjgAggregation *aggregation)
{
	aggregation->record_bytes = sizeof(uint64);
	for (int i = 0; i < aggregation->narguments; i++)
	{
		HjgTotalsArgument   *argument = &aggregation->arguments[i];

		argument->at = aggregation->record_bytes;
		argument->bytes = argument->floats ? offsetof(HjgTotals, floats) +
			(argument->extremes_wanted ? sizeof(HjgFloatTotals) : argument->moments_wanted ? offsetof(HjgFloatTotals, least) : offsetof(HjgFloatTotals, moments)) :
			argument->numeric ? (argument->extremes_wanted ? sizeof(HjgTotals) : offsetof(HjgTotals, numeric_least)) :
			argument->extremes_wanted ? offsetof(HjgTotals, greatest) + sizeof(int64) :
			argument->sum_wanted ? offsetof(HjgTotals, least) : sizeof(uint64);
		aggregation->record_bytes += argument->bytes;
	}
}

HjgAggregation *
hjg_aggregation_create(MemoryContext context, PlanState *parent, bool partial, List *functions, List *numbers, List *squares, List *arguments,
					   int ncolumns, const int *column_of, const int16 *widths)
{
	HjgAggregation *aggregation = palloc0(sizeof(HjgAggregation));
	ListCell   *lc;
	ListCell   *number;
	ListCell   *square;

	aggregation->partial = partial;
	aggregation->narguments = list_length(arguments);
	aggregation->arguments = palloc0(Max(aggregation->narguments, 1) * sizeof(HjgTotalsArgument));
	aggregation->aggregates = palloc0(Max(list_length(functions), 1) * sizeof(HjgAggregate));
	forthree(lc, functions, number, numbers, square, squares)
		add_aggregate(aggregation, lfirst_oid(lc), lfirst_int(number), lfirst_int(square), widths[aggregation->naggregates]);
	foreach(lc, arguments)
	{
		HjgTotalsArgument   *argument = &aggregation->arguments[foreach_current_index(lc)];
		const Var  *var = lfirst(lc);

		const bool	counted = !argument->sum_wanted && !argument->extremes_wanted && !argument->moments_wanted;

		argument->width = !counted ? get_typlen(exprType(lfirst(lc))) : 0;
		argument->column = IsA(var, Var) && var->varattno > ncolumns ? column_of[var->varattno - 1] : -1;
		argument->expr = hjg_argument_create(lfirst(lc), column_of, parent, counted);
	}
	lay_out_record(aggregation);
	aggregation->caller = makeNode(AggState);
	aggregation->caller->curaggcontext = CreateExprContext(parent->state);
	aggregation->row_context = CreateExprContext(parent->state);
	aggregation->econtext = parent->ps_ExprContext;
	aggregation->context = AllocSetContextCreate(context, "GpuAggregate totals", ALLOCSET_DEFAULT_SIZES);
	return aggregation;
}

void
hjg_aggregation_clear(HjgAggregation *aggregation, bool keep)
{
	ResetExprContext(aggregation->caller->curaggcontext);
	aggregation->ngroups = 0;
	if (keep)
		return;
	MemoryContextReset(aggregation->context);
	aggregation->max_groups = 0;
}

void
hjg_aggregation_reset(HjgAggregation *aggregation)
{
	hjg_aggregation_clear(aggregation, false);
	for (int i = 0; i < aggregation->narguments; i++)
		hjg_argument_reset(aggregation->arguments[i].expr);
}

uint32
hjg_aggregation_groups(const HjgAggregation *aggregation)
{
	return aggregation->ngroups;
}

size_t
hjg_aggregation_bytes(const HjgAggregation *aggregation, bool next)
{
	size_t		bytes = MemoryContextMemAllocated(aggregation->context, false) +
		MemoryContextMemAllocated(aggregation->caller->curaggcontext->ecxt_per_tuple_memory, true);

	if (next && aggregation->ngroups + HJG_VECTOR_ROWS > aggregation->max_groups)
		bytes += aggregation->max_groups * aggregation->record_bytes;
	return bytes;
}

/* ---------- the result ---------- */

/* Compute the mean of count values with that sum, as core divides. */
static Datum
mean_of(int128 sum, uint64 count)
{
	HjgNumericSum total = {.sum = sum,.count = count};

	return hjg_numeric_sum_finish(&total, NULL, true);
}

static Datum
whole_sum(int128 sum)
{
	HjgNumericSum total = {.sum = sum};

	return hjg_numeric_sum_finish(&total, NULL, false);
}

static Datum
average_datum(const HjgTotals *totals, uint64 count)
{
	Datum		elements[2] = {Int64GetDatum((int64) count), Int64GetDatum((int64) totals->sum)};

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

Datum
hjg_aggregation_datum(HjgAggregation *aggregation, int a, uint32 group, bool *isnull)
{
	const HjgAggregate *aggregate = &aggregation->aggregates[a];
	HjgTotals	   *totals;
	uint64		count;

	/* without GROUP BY there is one group even if there are no rows */
	if (group >= aggregation->ngroups)
		hjg_totals_make(aggregation, group + 1);
	count = *(const uint64 *) hjg_totals_record(aggregation, group);
	totals = aggregate->argument >= 0 ? hjg_totals_at(aggregation, &aggregation->arguments[aggregate->argument], group) : NULL;
	if (totals != NULL)
		count -= totals->nnulls;
	*isnull = aggregate->kind != HJG_AGGREGATE_COUNT && aggregate->kind != HJG_AGGREGATE_SUM_OF_COUNTS &&
		(!aggregation->partial || (aggregate->kind != HJG_AGGREGATE_AVERAGE && aggregate->kind != HJG_AGGREGATE_FLOAT_MOMENTS)) && count == 0;
	if (*isnull)
		return (Datum) 0;
	switch (aggregate->kind)
	{
		case HJG_AGGREGATE_COUNT:
			return Int64GetDatum((int64) count);
		case HJG_AGGREGATE_SUM:
		case HJG_AGGREGATE_SUM_OF_COUNTS:
			return Int64GetDatum((int64) totals->sum);
		case HJG_AGGREGATE_AVERAGE:
			return aggregation->partial ? average_datum(totals, count) : mean_of(totals->sum, count);
		case HJG_AGGREGATE_WIDE_SUM:
			if (aggregation->partial)
				return hjg_numeric_sum_write_int8(totals->sum, count);
			return aggregate->average ? mean_of(totals->sum, count) : whole_sum(totals->sum);
		case HJG_AGGREGATE_NUMERIC_SUM:
			return aggregation->partial ? hjg_numeric_sum_serialize(&totals->numeric_sum, aggregation->caller) :
				hjg_numeric_sum_finish(&totals->numeric_sum, aggregation->caller, aggregate->average);
		case HJG_AGGREGATE_NUMERIC_LEAST:
			return hjg_numeric_extreme_datum(&totals->numeric_least);
		case HJG_AGGREGATE_NUMERIC_GREATEST:
			return hjg_numeric_extreme_datum(&totals->numeric_greatest);
		case HJG_AGGREGATE_FLOAT_SUM:
			return hjg_float_datum(totals->floats.sum, aggregate->width);
		case HJG_AGGREGATE_FLOAT_MOMENTS:
			return aggregation->partial ? hjg_float_moments_datum(&totals->floats.moments) :
				hjg_float_moments_finish(&totals->floats.moments, aggregate->function, isnull);
		case HJG_AGGREGATE_VARIANCE:
		case HJG_AGGREGATE_WIDE_VARIANCE:
		case HJG_AGGREGATE_NUMERIC_VARIANCE:
			return aggregation->partial ? hjg_variance_serialize(aggregation, aggregate, group, count) :
				hjg_variance_finish(aggregation, aggregate, group, count, isnull);
		case HJG_AGGREGATE_FLOAT_LEAST:
			return hjg_float_datum(totals->floats.least, aggregate->width);
		case HJG_AGGREGATE_FLOAT_GREATEST:
			return hjg_float_datum(totals->floats.greatest, aggregate->width);
		case HJG_AGGREGATE_LEAST:
			return extreme_datum(totals->least, aggregate->width);
		default:
			return extreme_datum(totals->greatest, aggregate->width);
	}
}
