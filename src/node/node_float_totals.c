/*
 * node_float_totals.c
 *	  Totals of floats: sums, numbers and squared distances for averages and variances, and extremes.
 *
 * Values are added as core's transition functions add them (float8pl(), float8_accum(), float8larger()), one after the other:
 * rows in core's order make core's digits. So the extreme of equal values, 0 and -0, is the last of them. sum() of float4
 * adds up in that precision.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "utils/array.h"
#include "utils/float.h"
#include "utils/fmgrprotos.h"

#include "node/hjg_totals.h"

void
hjg_float_totals_init(const HjgTotalsArgument *argument, HjgTotals *totals)
{
	/* sum() of -0 is -0 */
	totals->floats.sum = -0.0;
	if (!argument->extremes_wanted)
		return;
	totals->floats.least = get_float8_nan();
	totals->floats.greatest = -get_float8_infinity();
}

/* ---------- one value ---------- */

static inline double
add_float(double sum, double value, int width)
{
	const double both = width == sizeof(float4) ? (float4) sum + (float4) value : sum + value;

	if (unlikely(isinf(both)) && !isinf(sum) && !isinf(value))
		float_overflow_error();
	return both;
}

static inline void
add_moment(HjgFloatMoments *moments, double value)
{
	const double before = moments->count;
	const double sum = moments->sum;

	moments->count += 1;
	moments->sum += value;
	if (before > 0)
	{
		const double distance = value * moments->count - moments->sum;

		moments->squares += distance * distance / (moments->count * before);
		if (unlikely(isinf(moments->sum) || isinf(moments->squares)))
		{
			if (!isinf(sum) && !isinf(value))
				float_overflow_error();
			moments->squares = get_float8_nan();
		}
	}
	else if (unlikely(isnan(value) || isinf(value)))
		moments->squares = get_float8_nan();
}

static inline void
extend_floats(HjgFloatTotals *floats, double least, double greatest)
{
	if (!float8_lt(floats->least, least))
		floats->least = least;
	if (!float8_gt(floats->greatest, greatest))
		floats->greatest = greatest;
}

/* ---------- rows ---------- */

/* Do something with the totals of each row's group, and the row's value, unless it is NULL. */
#define FOR_VALUES(action) \
	for (int i = 0; i < nrows; i++) \
	{ \
		if (numbers->isnull == NULL || !numbers->isnull[i]) \
		{ \
			HjgFloatTotals *floats = &(groups != NULL ? hjg_totals_at(aggregation, argument, groups[i]) : one)->floats; \
			const double value = hjg_vector_float_of_bits(numbers->values[i], width); \
			action; \
		} \
	}

/* Add values up that are all of one group; a local sum saves the way through memory from each row to the next one. */
static double
add_floats_of_one(double sum, const HjgNumbers *numbers, int nrows, int width)
{
	for (int i = 0; i < nrows; i++)
		if (numbers->isnull == NULL || !numbers->isnull[i])
			sum = add_float(sum, hjg_vector_float_of_bits(numbers->values[i], width), width);
	return sum;
}

void
hjg_float_totals_add(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, HjgTotals *one, const HjgNumbers *numbers, int nrows,
					 const uint32 *groups)
{
	const int	width = argument->width;

	if (argument->sum_wanted && groups == NULL)
		one->floats.sum = add_floats_of_one(one->floats.sum, numbers, nrows, width);
	else if (argument->sum_wanted)
		FOR_VALUES(floats->sum = add_float(floats->sum, value, width));
	if (argument->moments_wanted)
		FOR_VALUES(add_moment(&floats->moments, value));
	if (argument->extremes_wanted)
		FOR_VALUES(extend_floats(floats, value, value));
}

void
hjg_float_totals_merge(const HjgTotalsArgument *argument, HjgTotals *to, const HjgTotals *from)
{
	const HjgFloatMoments *more = &from->floats.moments;
	HjgFloatMoments *moments = &to->floats.moments;

	if (argument->sum_wanted)
		to->floats.sum = add_float(to->floats.sum, from->floats.sum, argument->width);
	if (argument->extremes_wanted)
		extend_floats(&to->floats, from->floats.least, from->floats.greatest);
	if (!argument->moments_wanted || more->count == 0)
		return;
	if (moments->count > 0)
	{
		/* as float8_combine() */
		const double count = moments->count + more->count;
		const double distance = moments->sum / moments->count - more->sum / more->count;
		const double squares = moments->squares + more->squares + moments->count * more->count * distance * distance / count;

		if (isinf(squares) && !isinf(moments->squares) && !isinf(more->squares))
			float_overflow_error();
		*moments = (HjgFloatMoments) {count, float8_pl(moments->sum, more->sum), squares};
	}
	else
		*moments = *more;
}

/* ---------- totals of a program ---------- */

/* Magnitudes up to this one, squared and added up for any number of rows, do not overflow. */
#define MOST_SURE 1e130

static double
double_of(uint64 number)
{
	return hjg_vector_float_of_bits(HJG_PROGRAM_FLOAT_BITS((int64) number), sizeof(double));
}

bool
hjg_float_totals_is_sure(const HjgTotalsArgument *argument, const uint64 *words)
{
	const double sum = hjg_vector_float_of_bits((int64) words[1], sizeof(double));

	if (!argument->moments_wanted)
		return !argument->sum_wanted || (!isinf(sum) && !isnan(sum));
	/* false for NaN, too */
	return double_of(words[3]) >= -MOST_SURE && double_of(words[4]) <= MOST_SURE;
}

bool
hjg_float_totals_are_sure_within(const HjgTotalsArgument *argument, int64 least_bits, int64 greatest_bits)
{
	/* only the bits of floats without a sign are in their order; NaN is in no order */
	return least_bits >= 0 && hjg_vector_float_of_bits(greatest_bits, argument->width) <= MOST_SURE;
}

void
hjg_float_totals_merge_result(const HjgTotalsArgument *argument, HjgTotals *totals, uint64 nvalues, const uint64 *words)
{
	/* the average of -0 is 0 */
	const double sum = hjg_vector_float_of_bits((int64) words[1], sizeof(double));
	const HjgTotals from = {
		.floats = {sum, {(double) nvalues, 0 + sum, 0}, double_of(words[3]), double_of(words[4])}
	};

	hjg_float_totals_merge(argument, totals, &from);
}

/* ---------- the result ---------- */

Datum
hjg_float_datum(double value, int width)
{
	return width == sizeof(float4) ? Float4GetDatum((float4) value) : Float8GetDatum(value);
}

Datum
hjg_float_moments_datum(const HjgFloatMoments *moments)
{
	Datum		elements[3] = {Float8GetDatum(moments->count), Float8GetDatum(moments->sum), Float8GetDatum(moments->squares)};

	return PointerGetDatum(construct_array(elements, 3, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

Datum
hjg_float_moments_finish(const HjgFloatMoments *moments, Oid function, bool *isnull)
{
	const PGFunction variance = hjg_variance_finisher(function);
	const PGFunction finish = variance != NULL ? variance : float8_avg;
	LOCAL_FCINFO(fcinfo, 1);
	Datum		result;

	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = hjg_float_moments_datum(moments);
	fcinfo->args[0].isnull = false;
	result = finish(fcinfo);
	*isnull = fcinfo->isnull;
	return result;
}
