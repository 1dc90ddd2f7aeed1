/*
 * node_numeric_sum.c
 *	  Sums of numerics, in 128 bits if the values fit, else in core's transition state; and extremes.
 *
 * Core's state depends on the number, the sum and the greatest display scale of the values, and on the numbers of NaNs and
 * infinities. A sum in 128 bits is written in the form in which core sends its state to other processes; if there is a state
 * of core's, too, core reads and combines them.
 */
#include "postgres.h"

#include "libpq/pqformat.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "node/hjg_numeric_sum.h"

/* ---------- core's functions ---------- */

static Datum
call_core(AggState *caller, PGFunction function, Datum state, bool no_state, Datum value)
{
	LOCAL_FCINFO(fcinfo, 2);

	InitFunctionCallInfoData(*fcinfo, NULL, 2, InvalidOid, (Node *) caller, NULL);
	fcinfo->args[0].value = state;
	fcinfo->args[0].isnull = no_state;
	fcinfo->args[1].value = value;
	fcinfo->args[1].isnull = false;
	return function(fcinfo);
}

/* Write number and sum, the first fields of int8_avg_serialize() and numeric_avg_serialize(). */
static void
write_sum(StringInfo buf, int128 sum, int scale, uint64 count)
{
	const HjgDigits digits = hjg_vector_numeric_digits(sum, scale);

	pq_begintypsend(buf);
	pq_sendint64(buf, count);
	pq_sendint32(buf, digits.ndigits);
	pq_sendint32(buf, digits.weight);
	pq_sendint32(buf, digits.negative ? 0x4000 : 0);	/* NUMERIC_NEG, NUMERIC_POS */
	pq_sendint32(buf, scale);
	for (int i = 0; i < digits.ndigits; i++)
		pq_sendint16(buf, digits.digits[i]);
}

Datum
hjg_numeric_sum_write_int8(int128 sum, uint64 count)
{
	StringInfoData buf;

	write_sum(&buf, sum, 0, count);
	return PointerGetDatum(pq_endtypsend(&buf));
}

static Datum
write_numeric(const HjgNumericSum *total)
{
	StringInfoData buf;

	write_sum(&buf, total->sum, total->scale, total->count);
	/* the greatest scale and the number of values with it, which only windows use; NaNs, infinities of either sign */
	pq_sendint32(&buf, total->scale);
	pq_sendint64(&buf, total->count);
	pq_sendint64(&buf, 0);
	pq_sendint64(&buf, 0);
	pq_sendint64(&buf, 0);
	return PointerGetDatum(pq_endtypsend(&buf));
}

/* ---------- sums ---------- */

void
hjg_numeric_sum_add_datum(HjgNumericSum *total, AggState *caller, Datum value)
{
	total->state = call_core(caller, numeric_avg_accum, total->state, !total->has_state, value);
	total->has_state = true;
}

/* Move the sum in 128 bits to core's state. */
static void
move_to_state(HjgNumericSum *total, AggState *caller)
{
	if (total->count == 0)
		return;
	total->state = call_core(caller, numeric_avg_combine, total->state, !total->has_state,
							 call_core(caller, numeric_avg_deserialize, write_numeric(total), false, (Datum) 0));
	total->has_state = true;
	total->count = 0;
	total->sum = 0;
	total->scale = 0;
}

void
hjg_numeric_sum_add(HjgNumericSum *total, AggState *caller, int128 sum, int scale, uint64 count)
{
	const int	wider = Max(total->scale, scale);
	__int128	old;			/* not int128, whose alignment differs */
	__int128	added;
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

Datum
hjg_numeric_sum_serialize(HjgNumericSum *total, AggState *caller)
{
	if (!total->has_state)
		return write_numeric(total);
	move_to_state(total, caller);
	return call_core(caller, numeric_avg_serialize, total->state, false, (Datum) 0);
}

Datum
hjg_numeric_sum_finish(HjgNumericSum *total, AggState *caller, bool average)
{
	char	   *sum;

	if (total->has_state)
	{
		move_to_state(total, caller);
		return call_core(caller, average ? numeric_avg : numeric_sum, total->state, false, (Datum) 0);
	}
	sum = palloc(HJG_NUMERIC_MAX_BYTES);
	(void) hjg_vector_numeric_encode(total->sum, total->scale, sum);
	return average ? DirectFunctionCall2(numeric_div, PointerGetDatum(sum), NumericGetDatum(int64_to_numeric((int64) total->count))) :
		PointerGetDatum(sum);
}

void
hjg_numeric_sum_write_state(const HjgNumericSum *total, AggState *caller, StringInfo buffer)
{
	const Datum bytes = call_core(caller, numeric_avg_serialize, total->state, false, (Datum) 0);

	appendBinaryStringInfo(buffer, DatumGetPointer(bytes), VARSIZE(DatumGetPointer(bytes)));
}

/* Read a value of variable length, which need not be aligned, as a copy. */
static struct varlena *
read_numeric(HjgUnpack *from)
{
	const size_t left = from->end - from->next;
	struct varlena *copy;
	varattrib_4b header;

	memset(&header, 0, sizeof(header));
	if (left >= VARHDRSZ)
		memcpy(&header, from->next, VARHDRSZ);
	if (VARSIZE(&header) < VARHDRSZ || VARSIZE(&header) > left)
		hjg_group_unpack_fail();
	copy = memcpy(palloc(VARSIZE(&header)), from->next, VARSIZE(&header));
	from->next += VARSIZE(&header);
	return copy;
}

void
hjg_numeric_sum_merge_state(HjgNumericSum *total, AggState *caller, HjgUnpack *from)
{
	struct varlena *bytes = read_numeric(from);
	const Datum state = call_core(caller, numeric_avg_deserialize, PointerGetDatum(bytes), false, (Datum) 0);

	total->state = call_core(caller, numeric_avg_combine, total->state, !total->has_state, state);
	total->has_state = true;
	pfree(bytes);
}

/* ---------- extremes ---------- */

/* Get the value, in *space if it fits; 0: there is none. */
static Datum
current_extreme(const HjgNumericExtreme *extreme, HjgNumericSpace *space)
{
	if (!extreme->fits)
		return extreme->value;
	(void) hjg_vector_numeric_encode(extreme->number, extreme->scale, space);
	return PointerGetDatum(space);
}

/* Is the value to be replaced by this one? Of equal ones core keeps the last. */
static bool
is_replaced(const HjgNumericExtreme *extreme, bool greatest, AggState *caller, Datum value)
{
	HjgNumericSpace space;
	const Datum old = current_extreme(extreme, &space);

	return old == 0 || call_core(caller, greatest ? numeric_larger : numeric_smaller, old, false, value) != old;
}

static void
set_extreme(HjgNumericExtreme *extreme, HjgNumericExtreme to)
{
	if (extreme->value != 0)
		pfree(DatumGetPointer(extreme->value));
	*extreme = to;
}

Datum
hjg_numeric_extreme_datum(const HjgNumericExtreme *extreme)
{
	return current_extreme(extreme, extreme->fits ? palloc(sizeof(HjgNumericSpace)) : NULL);
}

void
hjg_numeric_extreme_add_datum(HjgNumericExtreme *extreme, bool greatest, AggState *caller, Datum value)
{
	MemoryContext old;

	if (!is_replaced(extreme, greatest, caller, value))
		return;
	old = MemoryContextSwitchTo(caller->curaggcontext->ecxt_per_tuple_memory);
	set_extreme(extreme, (HjgNumericExtreme) {.value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value))});
	MemoryContextSwitchTo(old);
}

void
hjg_numeric_extreme_add(HjgNumericExtreme *extreme, bool greatest, AggState *caller, int64 number, int scale)
{
	HjgNumericSpace space;

	if (extreme->fits && extreme->scale == scale)
	{
		extreme->number = greatest ? Max(extreme->number, number) : Min(extreme->number, number);
		return;
	}
	(void) hjg_vector_numeric_encode(number, scale, &space);
	if (is_replaced(extreme, greatest, caller, PointerGetDatum(&space)))
		set_extreme(extreme, (HjgNumericExtreme) {.fits = true,.scale = scale,.number = number});
}

void
hjg_numeric_extreme_write(const HjgNumericExtreme *extreme, StringInfo buffer)
{
	if (extreme->value != 0)
		appendBinaryStringInfo(buffer, DatumGetPointer(extreme->value), VARSIZE(DatumGetPointer(extreme->value)));
}

void
hjg_numeric_extreme_merge(HjgNumericExtreme *to, const HjgNumericExtreme *from, bool greatest, AggState *caller, HjgUnpack *written)
{
	struct varlena *value;

	if (from->fits)
		hjg_numeric_extreme_add(to, greatest, caller, from->number, from->scale);
	if (from->value == 0)
		return;
	value = read_numeric(written);
	hjg_numeric_extreme_add_datum(to, greatest, caller, PointerGetDatum(value));
	pfree(value);
}
