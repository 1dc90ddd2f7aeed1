/*
 * node_numeric_sum.c
 *	  Sums of numerics: in 128 bits where the values fit, in core's transition state all others.
 *
 * Core's state depends on number, sum and greatest display scale of the values, and on how many were NaN or infinite.  So what was added up
 * in 128 bits becomes core's by its own functions, as other values of the same number, sum and scale.
 */
#include "postgres.h"

#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "node/hjg_numeric_sum.h"

Datum
hjg_numeric_sum_call(AggState *caller, PGFunction function, Datum state, bool no_state, Datum value)
{
	LOCAL_FCINFO(fcinfo, 2);

	InitFunctionCallInfoData(*fcinfo, NULL, 2, InvalidOid, (Node *) caller, NULL);
	fcinfo->args[0].value = state;
	fcinfo->args[0].isnull = no_state;
	fcinfo->args[1].value = value;
	fcinfo->args[1].isnull = false;
	return function(fcinfo);
}

/* Of one value, doubled as often as n has bits, those of n's bits are put together. */
Datum
hjg_numeric_sum_state_of_equal(AggState *caller, PGFunction accumulate, PGFunction combine, Datum value, uint64 n)
{
	Datum		doubled = hjg_numeric_sum_call(caller, accumulate, (Datum) 0, true, value);
	Datum		state = (Datum) 0;
	bool		none = true;

	for (;;)
	{
		if (n & 1)
		{
			state = hjg_numeric_sum_call(caller, combine, state, none, doubled);
			none = false;
		}
		n >>= 1;
		if (n == 0)
			return state;
		doubled = hjg_numeric_sum_call(caller, combine, doubled, false,
									   hjg_numeric_sum_call(caller, combine, (Datum) 0, true, doubled));
	}
}

void
hjg_numeric_sum_add_datum(HjgNumericSum *total, AggState *caller, Datum value)
{
	total->state = hjg_numeric_sum_call(caller, numeric_avg_accum, total->state, !total->has_state, value);
	total->has_state = true;
}

/* Move what is in 128 bits to core's state: the sum as one value, and for the others zeros. */
static void
move_to_state(HjgNumericSum *total, AggState *caller)
{
	char		numeric[HJG_NUMERIC_MAX_BYTES] pg_attribute_aligned(MAXIMUM_ALIGNOF);

	if (total->count == 0)
		return;
	(void) hjg_vector_numeric_encode(total->sum, total->scale, numeric);
	hjg_numeric_sum_add_datum(total, caller, PointerGetDatum(numeric));
	(void) hjg_vector_numeric_encode(0, total->scale, numeric);
	if (total->count > 1)
		total->state = hjg_numeric_sum_call(caller, numeric_avg_combine, total->state, false,
											hjg_numeric_sum_state_of_equal(caller, numeric_avg_accum, numeric_avg_combine,
																		   PointerGetDatum(numeric), total->count - 1));
	total->count = 0;
	total->sum = 0;
	total->scale = 0;
}

void
hjg_numeric_sum_add(HjgNumericSum *total, AggState *caller, int128 sum, int scale, uint64 count)
{
	const int	wider = Max(total->scale, scale);
	int128		old;
	int128		added;
	int128		both;

	if (hjg_vector_numeric_widen_sum(total->sum, wider - total->scale, &old) &&
		hjg_vector_numeric_widen_sum(sum, wider - scale, &added) && !__builtin_add_overflow(old, added, &both))
	{
		total->sum = both;
		total->scale = wider;
		total->count += count;
		return;
	}
	move_to_state(total, caller);
	total->sum = sum;
	total->scale = scale;
	total->count = count;
}

/* Call one of core's functions of a transition state. */
static Datum
call_with_state(AggState *caller, PGFunction function, Datum state)
{
	LOCAL_FCINFO(fcinfo, 1);

	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, (Node *) caller, NULL);
	fcinfo->args[0].value = state;
	fcinfo->args[0].isnull = false;
	return function(fcinfo);
}

Datum
hjg_numeric_sum_serialize(HjgNumericSum *total, AggState *caller)
{
	move_to_state(total, caller);
	return call_with_state(caller, numeric_avg_serialize, total->state);
}

Datum
hjg_numeric_sum_finish(HjgNumericSum *total, AggState *caller, bool average)
{
	char	   *sum;

	if (total->has_state)
	{
		move_to_state(total, caller);
		return call_with_state(caller, average ? numeric_avg : numeric_sum, total->state);
	}
	sum = palloc(HJG_NUMERIC_MAX_BYTES);
	(void) hjg_vector_numeric_encode(total->sum, total->scale, sum);
	return average ? DirectFunctionCall2(numeric_div, PointerGetDatum(sum), NumericGetDatum(int64_to_numeric((int64) total->count))) :
		PointerGetDatum(sum);
}

void
hjg_numeric_sum_write_state(const HjgNumericSum *total, AggState *caller, StringInfo buffer)
{
	const Datum bytes = call_with_state(caller, numeric_avg_serialize, total->state);

	appendBinaryStringInfo(buffer, DatumGetPointer(bytes), VARSIZE(DatumGetPointer(bytes)));
}

const char *
hjg_numeric_sum_merge_state(HjgNumericSum *total, AggState *caller, const char *from)
{
	uint32		nbytes;
	struct varlena *bytes;
	Datum		state;

	/* it may lie anywhere */
	memcpy(&nbytes, from, sizeof(nbytes));
	nbytes = VARSIZE(&nbytes);
	bytes = palloc(nbytes);
	memcpy(bytes, from, nbytes);
	state = hjg_numeric_sum_call(caller, numeric_avg_deserialize, PointerGetDatum(bytes), false, (Datum) 0);
	total->state = hjg_numeric_sum_call(caller, numeric_avg_combine, total->state, !total->has_state, state);
	total->has_state = true;
	pfree(bytes);
	return from + nbytes;
}
