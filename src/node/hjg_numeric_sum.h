/*
 * hjg_numeric_sum.h
 *	  Sums and extremes of numerics, exact whatever the values are.
 *	  Internal to the room "node".
 */
#ifndef HJG_NUMERIC_SUM_H
#define HJG_NUMERIC_SUM_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "nodes/execnodes.h"

#include "node/hjg_group_pack.h"
#include "scan/hjg_scan.h"

/* A sum, empty when zeroed; its state is in the memory of the caller's aggregates. */
typedef struct HjgNumericSum
{
	int128		sum;			/* of the values that fit in 64 bits, */
	uint64		count;			/* their number, */
	int			scale;			/* and their greatest scale */
	bool		has_state;
	Datum		state;			/* core's transition state, of all other values */
} HjgNumericSum;

/* Add a sum of count > 0 numbers of one scale. */
extern void hjg_numeric_sum_add(HjgNumericSum *total, AggState *caller, int128 sum, int scale, uint64 count);

/* Do the same without a call for nearly all sums: those of the total's scale, zeros of a smaller one, and the first one. */
static inline void
hjg_numeric_sum_add_number(HjgNumericSum *total, AggState *caller, int64 sum, int scale, uint64 count)
{
	int128		more;

	if (likely((total->scale == scale || (total->scale > scale && sum == 0)) && !__builtin_add_overflow(total->sum, (int128) sum, &more)))
	{
		total->sum = more;
		total->count += count;
	}
	else if (total->count == 0)
	{
		total->sum = sum;
		total->count = count;
		total->scale = scale;
	}
	else
		hjg_numeric_sum_add(total, caller, sum, scale, count);
}

/* Add a numeric that may not fit. */
extern void hjg_numeric_sum_add_datum(HjgNumericSum *total, AggState *caller, Datum value);
/* Make the serialized transition value of sum(numeric) and avg(numeric) of at least one value. */
extern Datum hjg_numeric_sum_serialize(HjgNumericSum *total, AggState *caller);

/* Make the final value of sum(numeric), or of avg(numeric). */
extern Datum hjg_numeric_sum_finish(HjgNumericSum *total, AggState *caller, bool average);
/* Append core's state to the buffer, which the sum must have; read it from there and add it. */
extern void hjg_numeric_sum_write_state(const HjgNumericSum *total, AggState *caller, StringInfo buffer);
extern void hjg_numeric_sum_merge_state(HjgNumericSum *total, AggState *caller, HjgUnpack *from);

/* The least or greatest numeric, none when zeroed. */
typedef struct HjgNumericExtreme
{
	bool		fits;			/* the value is number / 10^scale, with that display scale; else */
	int			scale;
	int64		number;
	Datum		value;			/* it is this one, in the memory of the caller's aggregates; 0: there is none */
} HjgNumericExtreme;

/* Get the value, made in the current memory context if it fits. There must be one. */
extern Datum hjg_numeric_extreme_datum(const HjgNumericExtreme *extreme);
/* Take a number into account; core keeps the last of equal ones, which may differ in scale. */
extern void hjg_numeric_extreme_add(HjgNumericExtreme *extreme, bool greatest, AggState *caller, int64 number, int scale);
/* Take a numeric into account that may not fit. */
extern void hjg_numeric_extreme_add_datum(HjgNumericExtreme *extreme, bool greatest, AggState *caller, Datum value);
/*
 * Append the value, if there is one that does not fit, to the buffer; read it from there and add it to another extreme, `from`
 * being as it was written.
 */
extern void hjg_numeric_extreme_write(const HjgNumericExtreme *extreme, StringInfo buffer);
extern void hjg_numeric_extreme_merge(HjgNumericExtreme *to, const HjgNumericExtreme *from, bool greatest, AggState *caller, HjgUnpack *written);

/* Make the serialized transition value of sum(int8) and avg(int8) of count values with this sum. */
extern Datum hjg_numeric_sum_write_int8(int128 sum, uint64 count);

#endif							/* HJG_NUMERIC_SUM_H */
