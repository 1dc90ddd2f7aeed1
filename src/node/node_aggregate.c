/*
 * node_aggregate.c
 *	  Totals of groups: what the aggregates of the node GpuAggregate are made of.
 *
 * Rows come as vectors, with the numbers of their groups.  A group has one set of totals for each different argument,
 * whatever aggregates are made of it, in a record of fixed size.  At the end the record becomes the aggregates, or core's
 * transition values, which core's Agg above combines and finishes.
 *
 * The state of a sum of int8 values or numerics is internal to core's functions: node_numeric_sum.c writes it.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"

#include "node/hjg_aggregate.h"
#include "node/hjg_execution.h"
#include "node/hjg_numeric_sum.h"

#define FIRST_GROUPS 64

/* Sums over the values of one argument that are not NULL. */
typedef struct Argument
{
	HjgArgument *expr;
	int			column;			/* it is this vector, and none of the child's; or -1 */
	bool		sum_wanted;
	bool		wide;			/* values may take all of 64 bits */
	bool		numeric;		/* values are numerics */
	bool		extremes_wanted;
	size_t		at;				/* its totals, in a record, */
	size_t		bytes;			/* as far as they are wanted */
} Argument;

/* What a record has for an argument; in it as far as it is wanted. */
typedef struct Totals
{
	uint64		nnulls;
	union
	{
		struct
		{
			int128		sum;
			int64		least;
			int64		greatest;
		};
		struct
		{
			HjgNumericSum numeric_sum;
			HjgNumericExtreme numeric_least;
			HjgNumericExtreme numeric_greatest;
		};
	};
} Totals;

typedef struct Aggregate
{
	HjgAggregateKind kind;
	int			argument;		/* or -1: it counts rows */
	bool		average;		/* of a sum that serves both */
	int			width;			/* bytes of a least or greatest value */
} Aggregate;

struct HjgAggregation
{
	bool		partial;		/* transition values are wanted */
	int			narguments;
	Argument   *arguments;
	int			naggregates;
	Aggregate  *aggregates;
	AggState   *caller;			/* whom core's transition functions take for theirs, and keep states for */
	ExprContext *econtext;
	ExprContext *row_context;	/* of rows that core evaluates */
	MemoryContext context;		/* of the records */
	uint32		ngroups;
	uint32		max_groups;
	size_t		record_bytes;
	char	   *records;		/* [max_groups]: rows of the group, uint64, and totals by argument */
};

/* ---------- set-up ---------- */

static void
add_aggregate(HjgAggregation *aggregation, Oid function, int number, int width)
{
	Aggregate  *aggregate = &aggregation->aggregates[aggregation->naggregates++];
	Argument   *argument = number >= 0 ? &aggregation->arguments[number] : NULL;

	if (!hjg_aggregate_kind(function, &aggregate->kind) || number >= aggregation->narguments ||
		(argument == NULL && aggregate->kind != HJG_AGGREGATE_COUNT))
		elog(ERROR, "%s plan node has an unknown form", HJG_AGGREGATE_NAME);
	aggregate->argument = number;
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
			argument->sum_wanted = true;
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
	}
}

static void
lay_out_record(HjgAggregation *aggregation)
{
	aggregation->record_bytes = sizeof(uint64);
	for (int i = 0; i < aggregation->narguments; i++)
	{
		Argument   *argument = &aggregation->arguments[i];

		argument->at = aggregation->record_bytes;
		argument->bytes = argument->numeric ? (argument->extremes_wanted ? sizeof(Totals) : offsetof(Totals, numeric_least)) :
			argument->extremes_wanted ? offsetof(Totals, greatest) + sizeof(int64) :
			argument->sum_wanted ? offsetof(Totals, least) : sizeof(uint64);
		aggregation->record_bytes += argument->bytes;
	}
}

HjgAggregation *
hjg_aggregation_create(MemoryContext context, PlanState *parent, bool partial, List *functions, List *numbers, List *arguments,
					   int ncolumns, const int *column_of, const int16 *widths)
{
	HjgAggregation *aggregation = palloc0(sizeof(HjgAggregation));
	ListCell   *lc;
	ListCell   *number;

	aggregation->partial = partial;
	aggregation->narguments = list_length(arguments);
	aggregation->arguments = palloc0(Max(aggregation->narguments, 1) * sizeof(Argument));
	aggregation->aggregates = palloc0(Max(list_length(functions), 1) * sizeof(Aggregate));
	forboth(lc, functions, number, numbers)
		add_aggregate(aggregation, lfirst_oid(lc), lfirst_int(number), widths[aggregation->naggregates]);
	foreach(lc, arguments)
	{
		Argument   *argument = &aggregation->arguments[foreach_current_index(lc)];
		const Var  *var = lfirst(lc);

		argument->column = IsA(var, Var) && var->varattno > ncolumns ? column_of[var->varattno - 1] : -1;
		argument->expr = hjg_argument_create(lfirst(lc), column_of, parent, !argument->sum_wanted && !argument->extremes_wanted);
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
hjg_aggregation_clear(HjgAggregation *aggregation)
{
	MemoryContextReset(aggregation->context);
	ResetExprContext(aggregation->caller->curaggcontext);
	aggregation->ngroups = 0;
	aggregation->max_groups = 0;
}

void
hjg_aggregation_reset(HjgAggregation *aggregation)
{
	hjg_aggregation_clear(aggregation);
	for (int i = 0; i < aggregation->narguments; i++)
		hjg_argument_reset(aggregation->arguments[i].expr);
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

/* ---------- records ---------- */

static inline char *
record_at(const HjgAggregation *aggregation, uint32 group)
{
	return aggregation->records + group * aggregation->record_bytes;
}

static inline Totals *
totals_at(const HjgAggregation *aggregation, const Argument *argument, uint32 group)
{
	return (Totals *) (record_at(aggregation, group) + argument->at);
}

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

/* Let there be records of so many groups. */
static void
make_records(HjgAggregation *aggregation, uint32 ngroups)
{
	if (ngroups > aggregation->max_groups)
		grow_records(aggregation, ngroups);
	memset(record_at(aggregation, aggregation->ngroups), 0, (ngroups - aggregation->ngroups) * aggregation->record_bytes);
	for (int i = 0; i < aggregation->narguments; i++)
	{
		const Argument *argument = &aggregation->arguments[i];

		for (uint32 group = aggregation->ngroups; argument->extremes_wanted && !argument->numeric && group < ngroups; group++)
		{
			totals_at(aggregation, argument, group)->least = PG_INT64_MAX;
			totals_at(aggregation, argument, group)->greatest = PG_INT64_MIN;
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
add_numeric_extremes(const HjgAggregation *aggregation, Totals *totals, int64 least, int64 greatest, int scale)
{
	hjg_numeric_extreme_add(&totals->numeric_least, false, aggregation->caller, least, scale);
	hjg_numeric_extreme_add(&totals->numeric_greatest, true, aggregation->caller, greatest, scale);
}

/* Add numerics, of which one at least is not NULL. */
static void
add_numerics_to_one(const HjgAggregation *aggregation, const Argument *argument, Totals *totals, const HjgNumbers *numbers, int nrows, int nnulls)
{
	int64		least = PG_INT64_MAX;
	int64		greatest = PG_INT64_MIN;

	if (argument->sum_wanted)
		hjg_numeric_sum_add(&totals->numeric_sum, aggregation->caller, sum_wide(numbers->values, nrows), numbers->scale, nrows - nnulls);
	if (!argument->extremes_wanted)
		return;
	find_extremes(numbers, nrows, &least, &greatest);
	add_numeric_extremes(aggregation, totals, least, greatest, numbers->scale);
}

static void
add_to_one(const HjgAggregation *aggregation, const Argument *argument, Totals *totals, const HjgNumbers *numbers, int nrows)
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
		totals->sum += argument->wide ? sum_wide(numbers->values, nrows) : sum_narrow(numbers->values, nrows);
	if (argument->extremes_wanted)
		find_extremes(numbers, nrows, &totals->least, &totals->greatest);
}

/* ---------- rows of any group ---------- */

static void
add_numerics(const HjgAggregation *aggregation, const Argument *argument, const HjgNumbers *numbers, int nrows, const uint32 *groups)
{
	for (int i = 0; i < nrows; i++)
	{
		Totals	   *totals = totals_at(aggregation, argument, groups[i]);
		HjgNumericSum *sum = &totals->numeric_sum;
		int128		more;

		if (numbers->isnull != NULL && numbers->isnull[i])
			continue;
		if (argument->extremes_wanted)
			add_numeric_extremes(aggregation, totals, numbers->values[i], numbers->values[i], numbers->scale);
		if (!argument->sum_wanted)
			continue;
		/* nearly all are of one scale */
		if (likely(sum->scale == numbers->scale && !__builtin_add_overflow(sum->sum, (int128) numbers->values[i], &more)))
		{
			sum->sum = more;
			sum->count++;
		}
		else
			hjg_numeric_sum_add(sum, aggregation->caller, numbers->values[i], numbers->scale, 1);
	}
}

static void
add_to_groups(HjgAggregation *aggregation, const Argument *argument, const HjgNumbers *numbers, int nrows,
			  const uint32 *groups)
{
	const int64 *values = numbers->values;
	const bool *isnull = numbers->isnull;

	if (isnull != NULL)
		for (int i = 0; i < nrows; i++)
			totals_at(aggregation, argument, groups[i])->nnulls += isnull[i];
	if (argument->numeric)
	{
		add_numerics(aggregation, argument, numbers, nrows, groups);
		return;
	}
	/* the value of a NULL is 0 */
	if (argument->sum_wanted)
		for (int i = 0; i < nrows; i++)
			totals_at(aggregation, argument, groups[i])->sum += values[i];
	if (!argument->extremes_wanted)
		return;
	for (int i = 0; i < nrows; i++)
	{
		Totals	   *totals = totals_at(aggregation, argument, groups[i]);

		if (isnull != NULL && isnull[i])
			continue;
		totals->least = Min(totals->least, values[i]);
		totals->greatest = Max(totals->greatest, values[i]);
	}
}

/* Add rows with numerics that do not fit, whose argument core evaluates. */
static void
add_by_core(HjgAggregation *aggregation, const Argument *argument, const HjgVector *vectors, int nrows, const uint32 *groups)
{
	ExprContext *econtext = aggregation->row_context;

	for (int i = 0; i < nrows; i++)
	{
		Totals	   *totals = totals_at(aggregation, argument, groups != NULL ? groups[i] : 0);
		bool		isnull;
		Datum		value;

		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		if (argument->column >= 0)
		{
			isnull = hjg_vector_isnull(&vectors[argument->column], i);
			value = isnull ? (Datum) 0 : hjg_vector_datum(&vectors[argument->column], i);
		}
		else
			value = hjg_argument_eval_row(argument->expr, vectors, i, econtext, &isnull);
		totals->nnulls += isnull;
		if (!isnull && argument->numeric)
		{
			MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);

			if (argument->sum_wanted)
				hjg_numeric_sum_add_datum(&totals->numeric_sum, aggregation->caller, value);
			if (argument->extremes_wanted)
			{
				hjg_numeric_extreme_add_datum(&totals->numeric_least, false, aggregation->caller, value);
				hjg_numeric_extreme_add_datum(&totals->numeric_greatest, true, aggregation->caller, value);
			}
			MemoryContextSwitchTo(old);
		}
	}
}

static void
count_rows(HjgAggregation *aggregation, int nrows, const uint32 *groups)
{
	if (groups == NULL)
		*(uint64 *) record_at(aggregation, 0) += nrows;
	else
		for (int i = 0; i < nrows; i++)
			++*(uint64 *) record_at(aggregation, groups[i]);
}

void
hjg_aggregation_add(HjgAggregation *aggregation, const HjgVector *vectors, int nrows, const uint32 *groups, uint32 ngroups)
{
	if (ngroups > aggregation->ngroups)
		make_records(aggregation, ngroups);
	count_rows(aggregation, nrows, groups);
	for (int a = 0; a < aggregation->narguments; a++)
	{
		const Argument *argument = &aggregation->arguments[a];

		for (int done = 0; done < nrows; done += HJG_VECTOR_ROWS)
		{
			const int	n = Min(nrows - done, HJG_VECTOR_ROWS);
			const HjgNumbers *numbers = hjg_argument_eval(argument->expr, vectors, n, aggregation->econtext);

			if (numbers == NULL)
				add_by_core(aggregation, argument, vectors, n, groups);
			else if (groups == NULL)
				add_to_one(aggregation, argument, totals_at(aggregation, argument, 0), numbers, n);
			else
				add_to_groups(aggregation, argument, numbers, n, groups);
		}
	}
}

/* ---------- the result ---------- */

/* The mean of count values with that sum, as core divides. */
static Datum
mean(int128 sum, uint64 count)
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
average_datum(const Totals *totals, uint64 count)
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
	const Aggregate *aggregate = &aggregation->aggregates[a];
	Totals	   *totals;
	uint64		count;

	/* without GROUP BY there is a group without rows */
	if (group >= aggregation->ngroups)
		make_records(aggregation, group + 1);
	count = *(const uint64 *) record_at(aggregation, group);
	totals = aggregate->argument >= 0 ? totals_at(aggregation, &aggregation->arguments[aggregate->argument], group) : NULL;
	if (totals != NULL)
		count -= totals->nnulls;
	*isnull = aggregate->kind != HJG_AGGREGATE_COUNT && (!aggregation->partial || aggregate->kind != HJG_AGGREGATE_AVERAGE) && count == 0;
	if (*isnull)
		return (Datum) 0;
	switch (aggregate->kind)
	{
		case HJG_AGGREGATE_COUNT:
			return Int64GetDatum((int64) count);
		case HJG_AGGREGATE_SUM:
			return Int64GetDatum((int64) totals->sum);
		case HJG_AGGREGATE_AVERAGE:
			return aggregation->partial ? average_datum(totals, count) : mean(totals->sum, count);
		case HJG_AGGREGATE_WIDE_SUM:
			if (aggregation->partial)
				return hjg_numeric_sum_write_int8(totals->sum, count);
			return aggregate->average ? mean(totals->sum, count) : whole_sum(totals->sum);
		case HJG_AGGREGATE_NUMERIC_SUM:
			return aggregation->partial ? hjg_numeric_sum_serialize(&totals->numeric_sum, aggregation->caller) :
				hjg_numeric_sum_finish(&totals->numeric_sum, aggregation->caller, aggregate->average);
		case HJG_AGGREGATE_NUMERIC_LEAST:
			return totals->numeric_least.value;
		case HJG_AGGREGATE_NUMERIC_GREATEST:
			return totals->numeric_greatest.value;
		case HJG_AGGREGATE_LEAST:
			return extreme_datum(totals->least, aggregate->width);
		default:
			return extreme_datum(totals->greatest, aggregate->width);
	}
}

/* ---------- on their way to a file and back ---------- */

void
hjg_aggregation_write(const HjgAggregation *aggregation, uint32 group, StringInfo buffer)
{
	appendBinaryStringInfo(buffer, record_at(aggregation, group), (int) aggregation->record_bytes);
	for (int a = 0; a < aggregation->narguments; a++)
	{
		const Argument *argument = &aggregation->arguments[a];
		const Totals *totals = totals_at(aggregation, argument, group);

		if (argument->numeric && totals->numeric_sum.has_state)
			hjg_numeric_sum_write_state(&totals->numeric_sum, aggregation->caller, buffer);
		if (argument->numeric && argument->extremes_wanted)
		{
			hjg_numeric_extreme_write(&totals->numeric_least, buffer);
			hjg_numeric_extreme_write(&totals->numeric_greatest, buffer);
		}
	}
}

static const char *
merge_numerics(const HjgAggregation *aggregation, const Argument *argument, Totals *to, const Totals *from, const char *states)
{
	const HjgNumericSum *sum = &from->numeric_sum;

	if (sum->count > 0)
		hjg_numeric_sum_add(&to->numeric_sum, aggregation->caller, sum->sum, sum->scale, sum->count);
	if (sum->has_state)
		states = hjg_numeric_sum_merge_state(&to->numeric_sum, aggregation->caller, states);
	if (!argument->extremes_wanted)
		return states;
	states = hjg_numeric_extreme_merge(&to->numeric_least, &from->numeric_least, false, aggregation->caller, states);
	return hjg_numeric_extreme_merge(&to->numeric_greatest, &from->numeric_greatest, true, aggregation->caller, states);
}

void
hjg_aggregation_merge(HjgAggregation *aggregation, uint32 group, uint32 ngroups, const char *written)
{
	const char *states = written + aggregation->record_bytes;
	uint64		nrows;

	if (ngroups > aggregation->ngroups)
		make_records(aggregation, ngroups);
	/* it may lie anywhere */
	memcpy(&nrows, written, sizeof(nrows));
	*(uint64 *) record_at(aggregation, group) += nrows;
	for (int a = 0; a < aggregation->narguments; a++)
	{
		const Argument *argument = &aggregation->arguments[a];
		Totals	   *to = totals_at(aggregation, argument, group);
		Totals		from;

		memcpy(&from, written + argument->at, argument->bytes);
		to->nnulls += from.nnulls;
		if (argument->numeric)
		{
			states = merge_numerics(aggregation, argument, to, &from, states);
			continue;
		}
		if (argument->sum_wanted || argument->extremes_wanted)
			to->sum += from.sum;
		if (argument->extremes_wanted)
		{
			to->least = Min(to->least, from.least);
			to->greatest = Max(to->greatest, from.greatest);
		}
	}
}
