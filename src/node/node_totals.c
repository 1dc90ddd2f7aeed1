/*
 * node_totals.c
 *	  Adds rows of vectors to the totals of their groups, and totals that come back from a file.
 *
 * The totals of a group are a record of fixed size (hjg_totals.h). Numerics that do not fit in 128 bits are in core's
 * transition state, to which the record has a pointer; it is written after the record.
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

		for (uint32 group = aggregation->ngroups; argument->extremes_wanted && !argument->numeric && group < ngroups; group++)
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
		HjgNumericSum *sum = &totals->numeric_sum;
		const int	scale = numbers->scales != NULL ? numbers->scales[i] : numbers->scale;
		int128		more;

		if (numbers->isnull != NULL && numbers->isnull[i])
			continue;
		if (argument->extremes_wanted)
			add_numeric_extremes(aggregation, totals, numbers->values[i], numbers->values[i], scale);
		if (!argument->sum_wanted)
			continue;
		/* nearly all values have one scale, or are zeros of a smaller one */
		if (likely((sum->scale == scale || (sum->scale > scale && numbers->values[i] == 0)) &&
				   !__builtin_add_overflow(sum->sum, (int128) numbers->values[i], &more)))
		{
			sum->sum = more;
			sum->count++;
		}
		else
			hjg_numeric_sum_add(sum, aggregation->caller, numbers->values[i], scale, 1);
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
	if (ngroups >= HJG_MANY_GROUPS)
		for (int i = 0; i < nrows; i++)
			__builtin_prefetch(hjg_totals_record(aggregation, groups[i]));
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

/* ---------- totals in a file ---------- */

/*
 * Most totals are small and are written in a narrow form of words: the number of rows; then for each argument the number of
 * NULLs, with the scale in the upper half of the word, and, as far as they are wanted, the sum and the extremes. Other totals
 * are written as a word WIDE, their record, and the values to which the record has pointers.
 */
#define WIDE (-1)
#define WORDS_OF_ARGUMENT 4

static int128
sum_of(const HjgTotalsArgument *argument, const HjgTotals *totals)
{
	return argument->numeric ? totals->numeric_sum.sum : totals->sum;
}

static bool
is_narrow(const HjgTotalsArgument *argument, const HjgTotals *totals)
{
	if (totals->nnulls > PG_UINT32_MAX || (argument->numeric && (argument->extremes_wanted || totals->numeric_sum.has_state)))
		return false;
	return !argument->sum_wanted || sum_of(argument, totals) == (int64) sum_of(argument, totals);
}

static bool
are_narrow(const HjgAggregation *aggregation, uint32 group)
{
	for (int a = 0; a < aggregation->narguments; a++)
		if (!is_narrow(&aggregation->arguments[a], hjg_totals_at(aggregation, &aggregation->arguments[a], group)))
			return false;
	return true;
}

static void
write_narrow(const HjgAggregation *aggregation, uint32 group, StringInfo buffer)
{
	int64	   *to;

	enlargeStringInfo(buffer, (int) sizeof(int64) * (1 + aggregation->narguments * WORDS_OF_ARGUMENT));
	to = (int64 *) (buffer->data + buffer->len);
	*to++ = *(const int64 *) hjg_totals_record(aggregation, group);
	for (int a = 0; a < aggregation->narguments; a++)
	{
		const HjgTotalsArgument *argument = &aggregation->arguments[a];
		const HjgTotals *totals = hjg_totals_at(aggregation, argument, group);

		*to++ = (int64) (totals->nnulls | (uint64) (argument->numeric ? totals->numeric_sum.scale : 0) << 32);
		if (argument->sum_wanted)
			*to++ = (int64) sum_of(argument, totals);
		if (argument->extremes_wanted)
		{
			*to++ = totals->least;
			*to++ = totals->greatest;
		}
	}
	buffer->len = (int) ((char *) to - buffer->data);
}

static void
write_wide(const HjgAggregation *aggregation, uint32 group, StringInfo buffer)
{
	const int64 wide = WIDE;

	appendBinaryStringInfo(buffer, (const char *) &wide, sizeof(wide));
	appendBinaryStringInfo(buffer, hjg_totals_record(aggregation, group), (int) aggregation->record_bytes);
	for (int a = 0; a < aggregation->narguments; a++)
	{
		const HjgTotalsArgument *argument = &aggregation->arguments[a];
		const HjgTotals *totals = hjg_totals_at(aggregation, argument, group);

		if (argument->numeric && totals->numeric_sum.has_state)
			hjg_numeric_sum_write_state(&totals->numeric_sum, aggregation->caller, buffer);
		if (argument->numeric && argument->extremes_wanted)
		{
			hjg_numeric_extreme_write(&totals->numeric_least, buffer);
			hjg_numeric_extreme_write(&totals->numeric_greatest, buffer);
		}
	}
}

void
hjg_aggregation_write(const HjgAggregation *aggregation, uint32 group, StringInfo buffer)
{
	if (are_narrow(aggregation, group))
		write_narrow(aggregation, group, buffer);
	else
		write_wide(aggregation, group, buffer);
}

/* Read the totals of an argument in narrow form. */
static const char *
read_narrow(const HjgTotalsArgument *argument, uint64 nrows, const char *from, HjgTotals *totals)
{
	const int64 *words = (const int64 *) from;
	const uint64 head = (uint64) *words++;
	const int64 sum = argument->sum_wanted ? *words++ : 0;

	totals->nnulls = (uint32) head;
	if (argument->numeric)
		totals->numeric_sum = (HjgNumericSum) {.sum = sum,.count = nrows - totals->nnulls,.scale = (int) (head >> 32)};
	else
		totals->sum = sum;
	if (argument->extremes_wanted)
	{
		totals->least = *words++;
		totals->greatest = *words++;
	}
	return (const char *) words;
}

static const char *
merge_numerics(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, HjgTotals *to, const HjgTotals *from, const char *states)
{
	const HjgNumericSum *sum = &from->numeric_sum;

	if (argument->sum_wanted && sum->count > 0)
		hjg_numeric_sum_add(&to->numeric_sum, aggregation->caller, sum->sum, sum->scale, sum->count);
	if (sum->has_state)
		states = hjg_numeric_sum_merge_state(&to->numeric_sum, aggregation->caller, states);
	if (!argument->extremes_wanted)
		return states;
	states = hjg_numeric_extreme_merge(&to->numeric_least, &from->numeric_least, false, aggregation->caller, states);
	return hjg_numeric_extreme_merge(&to->numeric_greatest, &from->numeric_greatest, true, aggregation->caller, states);
}

static void
merge_numbers(const HjgTotalsArgument *argument, HjgTotals *to, const HjgTotals *from)
{
	if (argument->sum_wanted)
		to->sum += from->sum;
	if (argument->extremes_wanted)
	{
		to->least = Min(to->least, from->least);
		to->greatest = Max(to->greatest, from->greatest);
	}
}

void
hjg_aggregation_merge(HjgAggregation *aggregation, uint32 group, uint32 ngroups, const char *written)
{
	const bool	narrow = *(const int64 *) written != WIDE;
	const char *record = narrow ? written : written + sizeof(int64);
	const char *next = narrow ? written + sizeof(int64) : record + aggregation->record_bytes;

	if (ngroups > aggregation->ngroups)
		hjg_totals_make(aggregation, ngroups);
	*(uint64 *) hjg_totals_record(aggregation, group) += *(const uint64 *) record;
	for (int a = 0; a < aggregation->narguments; a++)
	{
		const HjgTotalsArgument *argument = &aggregation->arguments[a];
		HjgTotals	   *to = hjg_totals_at(aggregation, argument, group);
		HjgTotals		from;

		if (narrow)
			next = read_narrow(argument, *(const uint64 *) record, next, &from);
		else
			memcpy(&from, record + argument->at, argument->bytes);
		to->nnulls += from.nnulls;
		if (argument->numeric)
			next = merge_numerics(aggregation, argument, to, &from, next);
		else
			merge_numbers(argument, to, &from);
	}
}
