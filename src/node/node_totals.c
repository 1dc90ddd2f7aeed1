/*
 * node_totals.c
 *	  Adds rows of vectors to the totals of their groups, and the totals that a program returns.
 *
 * The totals of a group are a record of fixed size (hjg_totals.h). Numerics that do not fit in 128 bits are in core's
 * transition state, to which the record has a pointer.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"

#include "node/hjg_totals.h"

#define FIRST_GROUPS 64

/* ---------- records ---------- */

static void
grow_records(HjgAggregation *aggregation, uint32 ngroups)
{
	size_t		n = Max(aggregation->max_groups, FIRST_GROUPS);

	while (n < ngroups)
		n *= 2;
	aggregation->records = aggregation->max_groups == 0 ?
		MemoryContextAllocHuge(aggregation->context, n * aggregation->record_bytes) :
		repalloc_huge(aggregation->records, n * aggregation->record_bytes);
	aggregation->max_groups = (uint32) n;
}

void
hjg_totals_make(HjgAggregation *aggregation, uint32 ngroups)
{
	if (ngroups > aggregation->max_groups)
		grow_records(aggregation, ngroups);
	memset(hjg_totals_record(aggregation, aggregation->ngroups), 0, (ngroups - aggregation->ngroups) * aggregation->record_bytes);
	for (int i = 0; i < aggregation->narguments; i++)
	{
		const HjgTotalsArgument *argument = &aggregation->arguments[i];

		for (uint32 group = aggregation->ngroups; argument->floats && group < ngroups; group++)
			hjg_float_totals_init(argument, hjg_totals_at(aggregation, argument, group));
		for (uint32 group = aggregation->ngroups; argument->extremes_wanted && !argument->numeric && !argument->floats && group < ngroups; group++)
		{
			hjg_totals_at(aggregation, argument, group)->least = PG_INT64_MAX;
			hjg_totals_at(aggregation, argument, group)->greatest = PG_INT64_MIN;
		}
	}
	aggregation->ngroups = ngroups;
}

/* ---------- rows of one group ---------- */

static int64
sum_narrow(const int64 *values, int nrows)
{
	int64		sum = 0;

	for (int i = 0; i < nrows; i++)
		sum += values[i];
	return sum;
}

/* Sum values whose sum may need more than 64 bits, the upper and lower halves apart, which do not overflow. */
static int128
add_up_wide(const int64 *values, int nrows)
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
find_extremes(const HjgNumbers *numbers, int nrows, int64 *least_found, int64 *greatest_found)
{
	const int64 *values = numbers->values;
	int64		least = *least_found;
	int64		greatest = *greatest_found;

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
	*least_found = least;
	*greatest_found = greatest;
}

static void
add_numeric_extremes(const HjgAggregation *aggregation, HjgTotals *totals, int64 least, int64 greatest, int scale)
{
	hjg_numeric_extreme_add(&totals->numeric_least, false, aggregation->caller, least, scale);
	hjg_numeric_extreme_add(&totals->numeric_greatest, true, aggregation->caller, greatest, scale);
}

/* Add numerics one by one; groups NULL: all to group 0. */
static void
add_numerics(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, const HjgNumbers *numbers, int nrows, const uint32 *groups)
{
	for (int i = 0; i < nrows; i++)
	{
		HjgTotals  *totals = hjg_totals_at(aggregation, argument, groups != NULL ? groups[i] : 0);
		const int	scale = numbers->scales != NULL ? numbers->scales[i] : numbers->scale;

		if (numbers->isnull != NULL && numbers->isnull[i])
			continue;
		if (argument->extremes_wanted)
			add_numeric_extremes(aggregation, totals, numbers->values[i], numbers->values[i], scale);
		if (argument->sum_wanted)
			hjg_numeric_sum_add_number(&totals->numeric_sum, aggregation->caller, numbers->values[i], scale, 1);
	}
}

/* Add numerics; at least one is not NULL. */
static void
add_numerics_to_one(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, HjgTotals *totals, const HjgNumbers *numbers, int nrows, int nnulls)
{
	int64		least = PG_INT64_MAX;
	int64		greatest = PG_INT64_MIN;

	if (numbers->scales != NULL)
	{
		add_numerics(aggregation, argument, numbers, nrows, NULL);
		return;
	}
	if (argument->sum_wanted)
		hjg_numeric_sum_add(&totals->numeric_sum, aggregation->caller, add_up_wide(numbers->values, nrows), numbers->scale, nrows - nnulls);
	if (!argument->extremes_wanted)
		return;
	find_extremes(numbers, nrows, &least, &greatest);
	add_numeric_extremes(aggregation, totals, least, greatest, numbers->scale);
}

static void
add_to_one(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, HjgTotals *totals, const HjgNumbers *numbers, int nrows)
{
	int			nnulls = 0;

	if (numbers->isnull != NULL)
		for (int i = 0; i < nrows; i++)
			nnulls += numbers->isnull[i];
	totals->nnulls += nnulls;
	if (argument->floats)
	{
		hjg_float_totals_add(aggregation, argument, totals, numbers, nrows, NULL);
		return;
	}
	if (argument->numeric)
	{
		if (nnulls < nrows)
			add_numerics_to_one(aggregation, argument, totals, numbers, nrows, nnulls);
		return;
	}
	if (argument->sum_wanted)
		totals->sum += argument->wide ? add_up_wide(numbers->values, nrows) : sum_narrow(numbers->values, nrows);
	if (argument->extremes_wanted)
		find_extremes(numbers, nrows, &totals->least, &totals->greatest);
}

/* ---------- rows of any group ---------- */

static void
add_to_groups(HjgAggregation *aggregation, const HjgTotalsArgument *argument, const HjgNumbers *numbers, int nrows,
			  const uint32 *groups)
{
	const int64 *values = numbers->values;
	const bool *isnull = numbers->isnull;

	if (isnull != NULL)
		for (int i = 0; i < nrows; i++)
			hjg_totals_at(aggregation, argument, groups[i])->nnulls += isnull[i];
	if (argument->floats)
	{
		hjg_float_totals_add(aggregation, argument, NULL, numbers, nrows, groups);
		return;
	}
	if (argument->numeric)
	{
		add_numerics(aggregation, argument, numbers, nrows, groups);
		return;
	}
	/* the value of a NULL is 0 */
	if (argument->sum_wanted)
		for (int i = 0; i < nrows; i++)
			hjg_totals_at(aggregation, argument, groups[i])->sum += values[i];
	if (!argument->extremes_wanted)
		return;
	for (int i = 0; i < nrows; i++)
	{
		HjgTotals	   *totals = hjg_totals_at(aggregation, argument, groups[i]);

		if (isnull != NULL && isnull[i])
			continue;
		totals->least = Min(totals->least, values[i]);
		totals->greatest = Max(totals->greatest, values[i]);
	}
}

static void
add_datum(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, HjgTotals *totals, Datum value, bool isnull)
{
	const int64 number = isnull || argument->numeric || argument->width == 0 ? 0 : hjg_vector_datum_to_int(value, argument->width);
	const HjgNumbers numbers = {.values = &number,.isnull = &isnull};
	MemoryContext old;

	if (!argument->numeric || isnull)
	{
		add_to_one(aggregation, argument, totals, &numbers, 1);
		return;
	}
	old = MemoryContextSwitchTo(aggregation->row_context->ecxt_per_tuple_memory);
	if (argument->sum_wanted)
		hjg_numeric_sum_add_datum(&totals->numeric_sum, aggregation->caller, value);
	if (argument->extremes_wanted)
	{
		hjg_numeric_extreme_add_datum(&totals->numeric_least, false, aggregation->caller, value);
		hjg_numeric_extreme_add_datum(&totals->numeric_greatest, true, aggregation->caller, value);
	}
	MemoryContextSwitchTo(old);
}

/* Add rows that vectors cannot express; core evaluates the argument. */
static void
add_by_core(HjgAggregation *aggregation, const HjgTotalsArgument *argument, const HjgVector *vectors, int nrows, const uint32 *groups)
{
	ExprContext *econtext = aggregation->row_context;

	for (int i = 0; i < nrows; i++)
	{
		bool		isnull;
		Datum		value;

		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		if (argument->column >= 0)
		{
			isnull = hjg_vector_isnull(&vectors[argument->column], i);
			value = isnull ? (Datum) 0 : hjg_argument_datum(&vectors[argument->column], i, econtext);
		}
		else
			value = hjg_argument_eval_row(argument->expr, vectors, i, econtext, &isnull);
		add_datum(aggregation, argument, hjg_totals_at(aggregation, argument, groups != NULL ? groups[i] : 0), value, isnull);
	}
}

static void
count_rows(HjgAggregation *aggregation, int nrows, const uint32 *groups)
{
	if (groups == NULL)
		*(uint64 *) hjg_totals_record(aggregation, 0) += nrows;
	else
		for (int i = 0; i < nrows; i++)
			++*(uint64 *) hjg_totals_record(aggregation, groups[i]);
}

void
hjg_aggregation_add(HjgAggregation *aggregation, const HjgVector *vectors, int nrows, const uint32 *groups, uint32 ngroups)
{
	if (ngroups > aggregation->ngroups)
		hjg_totals_make(aggregation, ngroups);
	hjg_totals_prefetch(aggregation, nrows, groups);
	count_rows(aggregation, nrows, groups);
	for (int a = 0; a < aggregation->narguments; a++)
	{
		const HjgTotalsArgument *argument = &aggregation->arguments[a];

		for (int done = 0; done < nrows; done += HJG_VECTOR_ROWS)
		{
			const int	n = Min(nrows - done, HJG_VECTOR_ROWS);
			const HjgNumbers *numbers = hjg_argument_eval(argument->expr, vectors, n);

			if (numbers == NULL)
				add_by_core(aggregation, argument, vectors, n, groups);
			else if (groups == NULL)
				add_to_one(aggregation, argument, hjg_totals_at(aggregation, argument, 0), numbers, n);
			else
				add_to_groups(aggregation, argument, numbers, n, groups);
		}
	}
}

/* ---------- totals of a program ---------- */

void
hjg_aggregation_merge_result(HjgAggregation *aggregation, uint32 group, uint32 ngroups, uint64 nrows, const uint64 *words, const int *scales)
{
	if (ngroups > aggregation->ngroups)
		hjg_totals_make(aggregation, ngroups);
	*(uint64 *) hjg_totals_record(aggregation, group) += nrows;
	for (int a = 0; a < aggregation->narguments; a++, words += HJG_PROGRAM_ARGUMENT_WORDS)
	{
		const HjgTotalsArgument *argument = &aggregation->arguments[a];
		HjgTotals  *totals = hjg_totals_at(aggregation, argument, group);
		const int128 sum = (int128) (int64) words[2] * ((int128) 1 << 64) + words[1];
		const uint64 nvalues = nrows - words[0];

		totals->nnulls += words[0];
		if (nvalues == 0)
			continue;
		if (argument->floats)
		{
			hjg_float_totals_merge_result(argument, totals, nvalues, words);
			continue;
		}
		if (argument->numeric)
		{
			if (argument->sum_wanted)
				hjg_numeric_sum_add(&totals->numeric_sum, aggregation->caller, sum, scales[a], nvalues);
			if (argument->extremes_wanted)
				add_numeric_extremes(aggregation, totals, (int64) words[3], (int64) words[4], scales[a]);
			continue;
		}
		if (argument->sum_wanted)
			totals->sum += sum;
		if (!argument->extremes_wanted)
			continue;
		totals->least = Min(totals->least, (int64) words[3]);
		totals->greatest = Max(totals->greatest, (int64) words[4]);
	}
}
