/*
 * node_variance.c
 *	  Variances and standard deviations of integers and numerics, exact in any order of the rows; and core's functions that finish any.
 *
 * They are made of two sums, of the values and of their squares, which are kept as those of sum() are. Both are written in the form in which
 * core sends the transition values of sums to other processes: number of values, sum, and, of numerics, more. The transition value of a
 * variance has the sum of the squares behind the sum.
 */
#include "postgres.h"

#include "libpq/pqformat.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"

#include "node/hjg_totals.h"
#include "planner/hjg_planner.h"

/* Bytes of the number of values; of what comes before the digits of a sum: their number, weight, sign, scale. */
#define COUNT_BYTES ((int) sizeof(uint64))
#define HEAD_BYTES (4 * (int) sizeof(uint32))

/* Core's functions that make the result of a transition value. */
typedef struct KnownVariance
{
	Oid			function;
	PGFunction	finish;
} KnownVariance;

#define FINISHED(function, form, prefix) {function, prefix##_##form},

static const KnownVariance known_variances[] = {
	HJG_VARIANCES(FINISHED, INT2, numeric_poly)
	HJG_VARIANCES(FINISHED, INT4, numeric_poly)
	HJG_VARIANCES(FINISHED, INT8, numeric)
	HJG_VARIANCES(FINISHED, NUMERIC, numeric)
	HJG_VARIANCES(FINISHED, FLOAT4, float8)
	HJG_VARIANCES(FINISHED, FLOAT8, float8)
};

PGFunction
hjg_variance_finisher(Oid function)
{
	for (int i = 0; i < lengthof(known_variances); i++)
		if (known_variances[i].function == function)
			return known_variances[i].finish;
	return NULL;
}

/* Write the sum of count values as core's transition value of a sum. */
static StringInfoData
serialize_sum(const HjgTotalsArgument *argument, HjgTotals *totals, AggState *caller, uint64 count)
{
	const Datum written = argument->numeric ? hjg_numeric_sum_serialize(&totals->numeric_sum, caller) :
		hjg_numeric_sum_write_int8(totals->sum, count);
	StringInfoData bytes = {.data = VARDATA_ANY(DatumGetPointer(written)), .len = VARSIZE_ANY_EXHDR(DatumGetPointer(written))};

	return bytes;
}

Datum
hjg_variance_serialize(const HjgAggregation *aggregation, const HjgAggregate *aggregate, uint32 group, uint64 count)
{
	const HjgTotalsArgument *argument = &aggregation->arguments[aggregate->argument];
	const HjgTotalsArgument *square = &aggregation->arguments[aggregate->square];
	StringInfoData sum = serialize_sum(argument, hjg_totals_at(aggregation, argument, group), aggregation->caller, count);
	const StringInfoData squares = serialize_sum(square, hjg_totals_at(aggregation, square, group), aggregation->caller, count);
	StringInfoData value;

	pq_begintypsend(&value);
	sum.cursor = COUNT_BYTES;
	appendBinaryStringInfo(&value, sum.data, COUNT_BYTES + HEAD_BYTES + (int) pq_getmsgint(&sum, sizeof(uint32)) * (int) sizeof(int16));
	appendBinaryStringInfo(&value, squares.data + COUNT_BYTES, squares.len - COUNT_BYTES);
	return PointerGetDatum(pq_endtypsend(&value));
}

Datum
hjg_variance_finish(const HjgAggregation *aggregation, const HjgAggregate *aggregate, uint32 group, uint64 count, bool *isnull)
{
	LOCAL_FCINFO(fcinfo, 2);
	Datum		result;

	InitFunctionCallInfoData(*fcinfo, NULL, 2, InvalidOid, (Node *) aggregation->caller, NULL);
	fcinfo->args[0].value = hjg_variance_serialize(aggregation, aggregate, group, count);
	fcinfo->args[0].isnull = fcinfo->args[1].isnull = false;
	fcinfo->args[0].value = aggregate->kind == HJG_AGGREGATE_VARIANCE ? numeric_poly_deserialize(fcinfo) : numeric_deserialize(fcinfo);
	result = hjg_variance_finisher(aggregate->function)(fcinfo);
	*isnull = fcinfo->isnull;
	return result;
}
