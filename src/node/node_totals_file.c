/*
 * node_totals_file.c
 *	  Totals of groups in temporary files: packed, read, and added to the totals of other groups.
 *
 * Most totals are narrow: their numbers fit in 64 bits. They are packed as columns: the number of rows, and for each argument the
 * fields that it has, floats as their bits. If those of any group of a record are not, they are all written as a column of records with the values
 * to which these have pointers.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "node/hjg_group_pack.h"
#include "node/hjg_totals.h"

/* Fields of an argument's narrow totals. */
typedef enum TotalsField
{
	FIELD_HEAD,					/* number of NULLs, and in the upper half the scale */
	FIELD_SUM,
	FIELD_LEAST,
	FIELD_GREATEST,
	FIELD_LEAST_SCALE,			/* of a numeric; -1: there is no value */
	FIELD_GREATEST_SCALE,
	FIELD_MOMENT_SUM,			/* of floats */
	FIELD_SQUARES,
	FIELD_Count
} TotalsField;

/* Fields of the groups that were read. */
typedef int64 FieldValues[FIELD_Count][HJG_VECTOR_ROWS];

typedef struct HjgTotalsRead
{
	bool		narrow;
	int64		nrows[HJG_VECTOR_ROWS];
	HjgUnpack	wide[HJG_VECTOR_ROWS];	/* if not narrow */
	FieldValues *arguments;
} HjgTotalsRead;

static bool
has_field(const HjgTotalsArgument *argument, TotalsField field)
{
	switch (field)
	{
		case FIELD_HEAD:
			return true;
		case FIELD_SUM:
			return argument->sum_wanted;
		case FIELD_LEAST:
		case FIELD_GREATEST:
			return argument->extremes_wanted;
		case FIELD_MOMENT_SUM:
		case FIELD_SQUARES:
			return argument->moments_wanted;
		default:
			return argument->extremes_wanted && argument->numeric;
	}
}

/* ---------- writing ---------- */

static inline int128
sum_of(const HjgTotalsArgument *argument, const HjgTotals *totals)
{
	return argument->numeric ? totals->numeric_sum.sum : totals->sum;
}

static inline bool
is_narrow(const HjgTotalsArgument *argument, const HjgTotals *totals)
{
	if (totals->nnulls > PG_UINT32_MAX)
		return false;
	if (argument->floats)
		return true;
	if (argument->sum_wanted && sum_of(argument, totals) != (int64) sum_of(argument, totals))
		return false;
	if (argument->numeric && argument->sum_wanted && totals->numeric_sum.has_state)
		return false;
	return !argument->numeric || !argument->extremes_wanted ||
		(totals->numeric_least.value == 0 && totals->numeric_greatest.value == 0);
}

static bool
are_narrow(const HjgAggregation *aggregation, const uint32 *groups, int n)
{
	for (int a = 0; a < aggregation->narguments; a++)
		for (int i = 0; i < n; i++)
			if (!is_narrow(&aggregation->arguments[a], hjg_totals_at(aggregation, &aggregation->arguments[a], groups[i])))
				return false;
	return true;
}

static inline int64
head_of(const HjgTotalsArgument *argument, const HjgTotals *totals)
{
	return (int64) (totals->nnulls | (uint64) (argument->numeric ? totals->numeric_sum.scale : 0) << 32);
}

static inline int64
extreme_scale(const HjgNumericExtreme *extreme)
{
	return extreme->fits ? extreme->scale : -1;
}

static inline int64
bits_of(double value)
{
	int64		bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

#define LOAD(value) \
	for (int i = 0; i < n; i++) \
	{ \
		const HjgTotals *totals = hjg_totals_at(aggregation, argument, groups[i]); \
		numbers[i] = (int64) (value); \
	} \
	break

static void
load_field(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, TotalsField field, const uint32 *groups, int n, int64 *numbers)
{
	switch (field)
	{
		case FIELD_HEAD:
			LOAD(head_of(argument, totals));
		case FIELD_SUM:
			LOAD(argument->floats ? bits_of(totals->floats.sum) : sum_of(argument, totals));
		case FIELD_LEAST:
			LOAD(argument->floats ? bits_of(totals->floats.least) : argument->numeric ? totals->numeric_least.number : totals->least);
		case FIELD_GREATEST:
			LOAD(argument->floats ? bits_of(totals->floats.greatest) : argument->numeric ? totals->numeric_greatest.number : totals->greatest);
		case FIELD_LEAST_SCALE:
			LOAD(extreme_scale(&totals->numeric_least));
		case FIELD_GREATEST_SCALE:
			LOAD(extreme_scale(&totals->numeric_greatest));
		case FIELD_MOMENT_SUM:
			LOAD(bits_of(totals->floats.moments.sum));
		case FIELD_SQUARES:
			LOAD(bits_of(totals->floats.moments.squares));
		case FIELD_Count:
			break;
	}
}
#undef LOAD

static void
write_narrow(const HjgAggregation *aggregation, const uint32 *groups, int n, HjgPack *pack)
{
	int64		numbers[HJG_VECTOR_ROWS];

	for (int i = 0; i < n; i++)
		numbers[i] = *(const int64 *) hjg_totals_record(aggregation, groups[i]);
	hjg_group_pack_numbers(pack, numbers, n);
	for (int a = 0; a < aggregation->narguments; a++)
		for (TotalsField field = 0; field < FIELD_Count; field++)
		{
			if (!has_field(&aggregation->arguments[a], field))
				continue;
			load_field(aggregation, &aggregation->arguments[a], field, groups, n, numbers);
			hjg_group_pack_numbers(pack, numbers, n);
		}
}

static void
append_wide(const HjgAggregation *aggregation, uint32 group, StringInfo buffer)
{
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

static void
write_wide(const HjgAggregation *aggregation, const uint32 *groups, int n, HjgPack *pack)
{
	int64		sizes[HJG_VECTOR_ROWS];
	StringInfoData buffer;

	initStringInfo(&buffer);
	for (int i = 0; i < n; i++)
	{
		sizes[i] = -buffer.len;
		append_wide(aggregation, groups[i], &buffer);
		sizes[i] += buffer.len;
	}
	hjg_group_pack_numbers(pack, sizes, n);
	memcpy(hjg_group_pack_add(pack, buffer.len), buffer.data, buffer.len);
	pfree(buffer.data);
}

bool
hjg_aggregation_write(const HjgAggregation *aggregation, const uint32 *groups, int n, HjgPack *pack)
{
	bool		narrow;

	hjg_totals_prefetch(aggregation, n, groups);
	narrow = are_narrow(aggregation, groups, n);
	if (narrow)
		write_narrow(aggregation, groups, n, pack);
	else
		write_wide(aggregation, groups, n, pack);
	return narrow;
}

/* ---------- reading ---------- */

static HjgTotalsRead *
make_read(const HjgAggregation *aggregation)
{
	MemoryContext context = GetMemoryChunkContext(unconstify(HjgAggregation *, aggregation));
	HjgTotalsRead *read = MemoryContextAlloc(context, sizeof(HjgTotalsRead));

	read->arguments = MemoryContextAllocZero(context, Max(aggregation->narguments, 1) * sizeof(FieldValues));
	return read;
}

static void
read_wide(const HjgAggregation *aggregation, HjgUnpack *from, int n, HjgUnpack *wide)
{
	int64		sizes[HJG_VECTOR_ROWS];
	const char *next = from->next;

	hjg_group_unpack_numbers(from, n, sizes);
	next = from->next;
	for (int i = 0; i < n; i++)
	{
		if (sizes[i] < (int64) aggregation->record_bytes || sizes[i] > from->end - next)
			hjg_group_unpack_fail();
		wide[i] = (HjgUnpack) {next, next + sizes[i]};
		next += sizes[i];
	}
}

void
hjg_aggregation_read(HjgAggregation *aggregation, HjgUnpack *from, bool narrow, int first, int n)
{
	HjgTotalsRead *read = aggregation->read;

	if (read == NULL)
		aggregation->read = read = make_read(aggregation);
	read->narrow = narrow;
	if (!narrow)
	{
		read_wide(aggregation, from, n, read->wide + first);
		return;
	}
	hjg_group_unpack_numbers(from, n, read->nrows + first);
	for (int a = 0; a < aggregation->narguments; a++)
		for (TotalsField field = 0; field < FIELD_Count; field++)
			if (has_field(&aggregation->arguments[a], field))
				hjg_group_unpack_numbers(from, n, read->arguments[a][field] + first);
}

/* ---------- merging ---------- */

static void
merge_numbers(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, FieldValues values, int first, int n, const uint32 *groups)
{
	if (argument->sum_wanted)
		for (int i = 0; i < n; i++)
			hjg_totals_at(aggregation, argument, groups[i])->sum += values[FIELD_SUM][first + i];
	if (!argument->extremes_wanted)
		return;
	for (int i = 0; i < n; i++)
	{
		HjgTotals  *totals = hjg_totals_at(aggregation, argument, groups[i]);

		totals->least = Min(totals->least, values[FIELD_LEAST][first + i]);
		totals->greatest = Max(totals->greatest, values[FIELD_GREATEST][first + i]);
	}
}

static void
merge_floats(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, FieldValues values, const int64 *nrows, int first, int n,
			 const uint32 *groups)
{
	for (int i = first; i < first + n; i++)
	{
		HjgTotals	from = {.nnulls = (uint32) values[FIELD_HEAD][i]};

		/* fields that the argument does not have are not looked at */
		from.floats.sum = hjg_vector_float_of_bits(values[FIELD_SUM][i], sizeof(double));
		from.floats.moments.count = (double) ((uint64) nrows[i] - from.nnulls);
		from.floats.moments.sum = hjg_vector_float_of_bits(values[FIELD_MOMENT_SUM][i], sizeof(double));
		from.floats.moments.squares = hjg_vector_float_of_bits(values[FIELD_SQUARES][i], sizeof(double));
		from.floats.least = hjg_vector_float_of_bits(values[FIELD_LEAST][i], sizeof(double));
		from.floats.greatest = hjg_vector_float_of_bits(values[FIELD_GREATEST][i], sizeof(double));
		hjg_float_totals_merge(argument, hjg_totals_at(aggregation, argument, groups[i - first]), &from);
	}
}

static int
checked_scale(int64 scale)
{
	if (scale < 0 || scale > HJG_NUMERIC_MAX_SCALE)
		hjg_group_unpack_fail();
	return (int) scale;
}

static void
merge_numeric_sums(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, FieldValues values, const int64 *nrows, int first, int n,
				   const uint32 *groups)
{
	for (int i = first; i < first + n; i++)
	{
		const uint64 head = (uint64) values[FIELD_HEAD][i];
		const uint64 count = (uint64) nrows[i] - (uint32) head;

		if (count > 0)
			hjg_numeric_sum_add_number(&hjg_totals_at(aggregation, argument, groups[i - first])->numeric_sum, aggregation->caller,
									   values[FIELD_SUM][i], checked_scale((int64) (head >> 32)), count);
	}
}

static void
merge_numeric_extremes(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, FieldValues values, int first, int n,
					   const uint32 *groups)
{
	for (int i = first; i < first + n; i++)
	{
		HjgTotals  *totals = hjg_totals_at(aggregation, argument, groups[i - first]);

		if (values[FIELD_LEAST_SCALE][i] >= 0)
			hjg_numeric_extreme_add(&totals->numeric_least, false, aggregation->caller, values[FIELD_LEAST][i],
									checked_scale(values[FIELD_LEAST_SCALE][i]));
		if (values[FIELD_GREATEST_SCALE][i] >= 0)
			hjg_numeric_extreme_add(&totals->numeric_greatest, true, aggregation->caller, values[FIELD_GREATEST][i],
									checked_scale(values[FIELD_GREATEST_SCALE][i]));
	}
}

static void
merge_narrow(const HjgAggregation *aggregation, int first, int n, const uint32 *groups)
{
	const HjgTotalsRead *read = aggregation->read;

	for (int i = 0; i < n; i++)
		*(uint64 *) hjg_totals_record(aggregation, groups[i]) += (uint64) read->nrows[first + i];
	for (int a = 0; a < aggregation->narguments; a++)
	{
		const HjgTotalsArgument *argument = &aggregation->arguments[a];
		int64 (*values)[HJG_VECTOR_ROWS] = read->arguments[a];

		for (int i = 0; i < n; i++)
			hjg_totals_at(aggregation, argument, groups[i])->nnulls += (uint32) values[FIELD_HEAD][first + i];
		if (argument->floats)
			merge_floats(aggregation, argument, values, read->nrows, first, n, groups);
		else if (!argument->numeric)
			merge_numbers(aggregation, argument, values, first, n, groups);
		if (argument->numeric && argument->sum_wanted)
			merge_numeric_sums(aggregation, argument, values, read->nrows, first, n, groups);
		if (argument->numeric && argument->extremes_wanted)
			merge_numeric_extremes(aggregation, argument, values, first, n, groups);
	}
}

static void
merge_wide_numerics(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, HjgTotals *to, const HjgTotals *from, HjgUnpack *states)
{
	const HjgNumericSum *sum = &from->numeric_sum;

	if (argument->sum_wanted && sum->count > 0)
		hjg_numeric_sum_add(&to->numeric_sum, aggregation->caller, sum->sum, checked_scale(sum->scale), sum->count);
	if (sum->has_state)
		hjg_numeric_sum_merge_state(&to->numeric_sum, aggregation->caller, states);
	if (!argument->extremes_wanted)
		return;
	(void) checked_scale(from->numeric_least.scale);
	(void) checked_scale(from->numeric_greatest.scale);
	hjg_numeric_extreme_merge(&to->numeric_least, &from->numeric_least, false, aggregation->caller, states);
	hjg_numeric_extreme_merge(&to->numeric_greatest, &from->numeric_greatest, true, aggregation->caller, states);
}

/* Add totals that were written as a record, which is not aligned. */
static void
merge_wide(const HjgAggregation *aggregation, HjgUnpack written, uint32 group)
{
	const char *record = written.next;
	uint64		nrows;

	written.next += aggregation->record_bytes;
	memcpy(&nrows, record, sizeof(nrows));
	*(uint64 *) hjg_totals_record(aggregation, group) += nrows;
	for (int a = 0; a < aggregation->narguments; a++)
	{
		const HjgTotalsArgument *argument = &aggregation->arguments[a];
		HjgTotals  *to = hjg_totals_at(aggregation, argument, group);
		HjgTotals	from;

		memcpy(&from, record + argument->at, argument->bytes);
		to->nnulls += from.nnulls;
		if (argument->floats)
		{
			hjg_float_totals_merge(argument, to, &from);
			continue;
		}
		if (argument->numeric)
		{
			merge_wide_numerics(aggregation, argument, to, &from, &written);
			continue;
		}
		if (argument->sum_wanted)
			to->sum += from.sum;
		if (!argument->extremes_wanted)
			continue;
		to->least = Min(to->least, from.least);
		to->greatest = Max(to->greatest, from.greatest);
	}
}

void
hjg_aggregation_merge(HjgAggregation *aggregation, int first, int n, const uint32 *groups, uint32 ngroups)
{
	if (ngroups > aggregation->ngroups)
		hjg_totals_make(aggregation, ngroups);
	hjg_totals_prefetch(aggregation, n, groups);
	if (aggregation->read->narrow)
		merge_narrow(aggregation, first, n, groups);
	else
		for (int i = 0; i < n; i++)
			merge_wide(aggregation, aggregation->read->wide[first + i], groups[i]);
}
