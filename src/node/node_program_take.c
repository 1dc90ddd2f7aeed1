/*
 * node_program_take.c
 *	  Takes the groups that come back from programs: they are added to those of the GpuAggregate.
 *
 * Results have been copied, but nothing is believed of what a device wrote. A number of a word, a row or a class is looked at before it is used;
 * a count, a scale or a key that the program cannot have made is a bad result.
 *
 * The keys of a program's groups are the columns that those of GROUP BY are computed from, and the other columns that the result needs,
 * which these determine. So its groups may be parts of the node's: the node computes its keys of them, and adds up what is equal
 * to its operators. That is done, too, with the groups of several GPUs, each of which has run a program for its share of the rows
 * (node_program_divide.c). Columns that are not kept as numbers are read from one of a group's rows.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "node/hjg_program_write.h"
#include "node/hjg_totals.h"
#include "service/hjg_service.h"

/* Columns of a table that groups have of one of its rows. */
typedef struct FetchedColumns
{
	int			key;			/* tells the row */
	int			ncolumns;
	int		   *columns;		/* of the groups */
	const HjgToldRows *rows;
	HjgRowFetcher **fetchers;	/* of each of their scans */
	Datum	   *values;
	bool	   *isnull;
} FetchedColumns;

/* Takes the groups of the results of several tasks. */
typedef struct GroupTaker
{
	const HjgProgramGroups *groups;
	const HjgProgramTask *tasks;
	int			ntasks;
	uint64		max_groups;		/* that a result, and the node, may have */
	int			nfetched;
	FetchedColumns fetched[HJG_PROGRAM_MAX_KEYS];
} GroupTaker;

/* Make the vector of a column of groups. */
static void
make_column_vector(const HjgAggregateState *state, int column)
{
	TupleDesc	desc = state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	HjgVector  *vector = &state->vectors[column];

	*vector = (HjgVector) {
		.column = {TupleDescAttr(desc, column)->attlen, TupleDescAttr(desc, column)->attbyval, 0},
		.values = palloc(HJG_VECTOR_ROWS * sizeof(Datum)), .isnull = palloc(HJG_VECTOR_ROWS * sizeof(bool))
	};
}

static bool
is_null_key(const HjgProgramGroups *groups, const uint64 *group, int k)
{
	return (group[1 + groups->nkeys] >> k & 1) != 0;
}

/* Is there a row of this number? */
static bool
is_possible_row(const HjgCollection *rows, int64 number)
{
	return number >= 0 && number / HJG_PROGRAM_MAX_SEGMENT_ROWS < rows->nsegments &&
		number % HJG_PROGRAM_MAX_SEGMENT_ROWS < rows->segments[number / HJG_PROGRAM_MAX_SEGMENT_ROWS].nrows;
}

/* Is a key of a group one that the program can have made? */
static bool
is_possible_key(const HjgProgramValue *value, int64 key, bool isnull)
{
	if (isnull)
		return value->nullable;
	switch (value->form)
	{
		case HJG_VALUE_WORD:
			return key >= 0 && key < value->words->n;
		case HJG_VALUE_ROW:
			return is_possible_row(&value->rows->collection, key);
		default:
			return key >= value->least && key <= value->greatest;
	}
}

/* Make what fetches the columns that this key tells. */
static FetchedColumns
make_fetched(const HjgProgramGroups *groups, int key)
{
	FetchedColumns fetched = {.key = key, .rows = groups->key_values[key].rows};
	AttrNumber *attnos = palloc(groups->ncolumns * sizeof(AttrNumber));

	fetched.columns = palloc(groups->ncolumns * sizeof(int));
	for (int i = 0; i < groups->ncolumns; i++)
	{
		if (groups->key_of[i] != key)
			continue;
		attnos[fetched.ncolumns] = groups->values[groups->columns[i]].attno;
		fetched.columns[fetched.ncolumns++] = groups->columns[i];
	}
	fetched.fetchers = palloc(fetched.rows->nscans * sizeof(HjgRowFetcher *));
	for (int i = 0; i < fetched.rows->nscans; i++)
		fetched.fetchers[i] = hjg_scan_fetcher_create(fetched.rows->scans[i], fetched.ncolumns, attnos);
	fetched.values = palloc(fetched.ncolumns * sizeof(Datum));
	fetched.isnull = palloc(fetched.ncolumns * sizeof(bool));
	return fetched;
}

/* Find the scan that a segment of the rows comes from. */
static int
find_scan_of(const HjgToldRows *rows, int segment)
{
	int			i = rows->nscans - 1;

	while (i > 0 && rows->first_segment[i] > segment)
		i--;
	return i;
}

/* Put the columns of a table's row into row i of their vectors; false if it cannot be read. */
static bool
fetch_columns(FetchedColumns *fetched, HjgAggregateState *state, int i, int64 number, bool isnull)
{
	const HjgCollectedSegment *segments = fetched->rows->collection.segments;
	const int	segment = isnull ? 0 : (int) (number / HJG_PROGRAM_MAX_SEGMENT_ROWS);

	if (!isnull && !hjg_scan_fetch_row(fetched->fetchers[find_scan_of(fetched->rows, segment)], &segments[segment],
									   (uint32) (number % HJG_PROGRAM_MAX_SEGMENT_ROWS), fetched->values, fetched->isnull))
		return false;
	for (int c = 0; c < fetched->ncolumns; c++)
	{
		const bool	none = isnull || fetched->isnull[c];

		/* its page may go before the group is taken */
		hjg_vector_put(&state->vectors[fetched->columns[c]], i, none ? (Datum) 0 : PointerGetDatum(PG_DETOAST_DATUM_COPY(fetched->values[c])), none);
	}
	return true;
}

/* Put the value of a column of a group into row i of its vector, unless it is fetched. */
static void
put_group_column(const HjgProgramValue *value, HjgVector *vector, int i, int64 key, bool isnull, HjgNumericSpace *space)
{
	Datum		datum = (Datum) 0;

	if (!isnull)
		switch (value->form)
		{
			case HJG_VALUE_INTEGER:
				datum = Int64GetDatum(key);
				break;
			case HJG_VALUE_NUMBER:
				(void) hjg_vector_numeric_encode(key, value->scale, space);
				datum = PointerGetDatum(space);
				break;
			case HJG_VALUE_WORD:
				datum = PointerGetDatum(value->words->strings[key]);
				break;
			case HJG_VALUE_ROW:
				return;
			case HJG_VALUE_CLASS:
				datum = value->classes->values[key];
				isnull = value->classes->isnull != NULL && value->classes->isnull[key];
				break;
		}
	hjg_vector_put(vector, i, datum, isnull);
}

/* Put a group of the result into row i of the vectors; false if a column of it cannot be fetched. */
static bool
put_group(GroupTaker *taker, const uint64 *group, int i, HjgNumericSpace *spaces)
{
	const HjgProgramGroups *groups = taker->groups;

	for (int n = 0; n < groups->ncolumns; n++)
	{
		const int	column = groups->columns[n];
		const int	k = groups->key_of[n];

		put_group_column(&groups->key_values[k], &taker->groups->state->vectors[column], i, (int64) group[1 + k], is_null_key(groups, group, k),
						 &spaces[n * HJG_VECTOR_ROWS + i]);
	}
	for (int f = 0; f < taker->nfetched; f++)
	{
		const int	k = taker->fetched[f].key;

		if (!fetch_columns(&taker->fetched[f], taker->groups->state, i, (int64) group[1 + k], is_null_key(groups, group, k)))
			return false;
	}
	return true;
}

/* Get the words of an argument of a group. */
static const uint64 *
argument_words(const HjgProgramGroups *groups, const uint64 *group, int a)
{
	return group + 2 + groups->nkeys + a * HJG_PROGRAM_ARGUMENT_WORDS;
}

/*
 * Find the display scale of a group's argument, and its sum as a number of that scale; -1: it cannot be a sum of values that have at
 * most this scale.
 */
static int
argument_scale(const HjgProgramGroups *groups, const uint64 *group, int a, int128 *sum)
{
	const uint64 *words = argument_words(groups, group, a);
	const int	written = groups->arguments[a].scale;
	int			scale = written;

	*sum = (int128) (int64) words[2] * ((int128) 1 << 64) + words[1];
	if (groups->scale_of[a] >= 0 && words[0] < group[0])
		scale = (int) argument_words(groups, group, groups->scale_of[a])[4];
	if (scale < 0 || scale > written)
		return -1;
	for (int i = scale; i < written; i++)
	{
		if (*sum % 10 != 0)
			return -1;
		*sum /= 10;
	}
	return scale;
}

/* Add the totals of a group of the result to one of the node's. */
static void
merge_group(const HjgProgramGroups *groups, const uint64 *group, uint32 number, uint32 ngroups)
{
	uint64		words[HJG_PROGRAM_MAX_ARGUMENTS * HJG_PROGRAM_ARGUMENT_WORDS];
	int			scales[HJG_PROGRAM_MAX_ARGUMENTS];

	memcpy(words, argument_words(groups, group, 0), groups->narguments * HJG_PROGRAM_ARGUMENT_WORDS * sizeof(uint64));
	for (int a = 0; a < groups->state->aggregation->narguments; a++)
	{
		int128		sum;

		scales[a] = argument_scale(groups, group, a, &sum);
		words[a * HJG_PROGRAM_ARGUMENT_WORDS + 1] = (uint64) sum;
		words[a * HJG_PROGRAM_ARGUMENT_WORDS + 2] = (uint64) (sum >> 64);
	}
	hjg_aggregation_merge_result(groups->state->aggregation, number, ngroups, group[0], words, scales);
}

/* Are the group's totals of floats what core would compute? */
static bool
are_sure_floats(const HjgProgramGroups *groups, const uint64 *group)
{
	const HjgAggregation *aggregation = groups->state->aggregation;

	for (int a = 0; a < aggregation->narguments; a++)
	{
		const uint64 *words = argument_words(groups, group, a);

		if (aggregation->arguments[a].floats && words[0] < group[0] && !hjg_float_totals_is_sure(&aggregation->arguments[a], words))
			return false;
	}
	return true;
}

/* Add the first ones of n groups of the result to those of the node; returns how many: 0 if one of them cannot be taken. */
static int
add_groups(GroupTaker *taker, const uint64 **list, int n, HjgNumericSpace *spaces)
{
	HjgAggregateState *state = taker->groups->state;
	const HjgProgramGroups *groups = taker->groups;
	uint32		numbers[HJG_VECTOR_ROWS] = {0};
	uint32		ngroups = 1;

	for (int row = 0; row < n; row++)
		if (!are_sure_floats(groups, list[row]) || !put_group(taker, list[row], row, spaces))
			return 0;
	if (state->groups != NULL)
	{
		n = hjg_computed_rows(state, state->nkey_exprs, n);
		/* none of them is toasted, so all are found at once */
		(void) hjg_groups_find(state->groups, state->vectors, n, numbers);
		ngroups = hjg_groups_count(state->groups);
	}
	for (int row = 0; row < n; row++)
		merge_group(groups, list[row], numbers[row], ngroups);
	return n;
}

/* Can a group have these totals? Rows with NULL are rows, and sums have digits for their scale. */
static bool
are_possible_totals(const HjgProgramGroups *groups, const uint64 *group)
{
	int128		sum;

	for (int a = 0; a < groups->narguments; a++)
		if (argument_words(groups, group, a)[0] > group[0])
			return false;
	for (int a = 0; a < groups->state->aggregation->narguments; a++)
		if (argument_scale(groups, group, a, &sum) < 0)
			return false;
	return true;
}

/* Can a program have had this result? Sums and extremes are not known here. */
static bool
is_possible_result(const GroupTaker *taker, const uint64 *words, uint64 nwords)
{
	const HjgProgramGroups *groups = taker->groups;
	const uint32 group_words = hjg_program_group_words(groups->nkeys, groups->narguments);
	const uint64 ngroups = nwords > 0 ? words[0] : 0;

	if (ngroups > taker->max_groups || nwords != 1 + ngroups * group_words || (groups->nkeys == 0 && ngroups != 1))
		return false;
	for (uint64 g = 0; g < ngroups; g++)
	{
		const uint64 *group = words + 1 + g * group_words;

		if (!are_possible_totals(groups, group))
			return false;
		for (int k = 0; k < groups->nkeys; k++)
			if (!is_possible_key(&groups->key_values[k], (int64) group[1 + k], is_null_key(groups, group, k)))
				return false;
	}
	return true;
}

/* Are all results possible? */
static bool
are_possible_results(const GroupTaker *taker)
{
	for (int i = 0; i < taker->ntasks; i++)
		if (!is_possible_result(taker, taker->tasks[i].words, taker->tasks[i].nwords))
			return false;
	return true;
}

static int
compare_told_rows(const void *a, const void *b, void *arg)
{
	const int	key = *(const int *) arg;
	const uint64 left = (*(const uint64 *const *) a)[1 + key];
	const uint64 right = (*(const uint64 *const *) b)[1 + key];

	return left < right ? -1 : left > right;
}

/*
 * List the groups of a result: by the rows of which columns are fetched, so that of equal values with different texts the first one is shown, as
 * by core, and pages are read in order.
 */
static const uint64 **
order_by_rows(GroupTaker *taker, const uint64 *words)
{
	const uint32 group_words = hjg_program_group_words(taker->groups->nkeys, taker->groups->narguments);
	const uint64 **list = MemoryContextAllocHuge(CurrentMemoryContext, Max(words[0], 1) * sizeof(uint64 *));

	for (uint64 g = 0; g < words[0]; g++)
		list[g] = words + 1 + g * group_words;
	if (taker->nfetched > 0)
		qsort_arg(list, words[0], sizeof(uint64 *), compare_told_rows, &taker->fetched[0].key);
	return list;
}

/* Take the groups of a result; false if one of them cannot be read. */
static bool
take_groups(GroupTaker *taker, const uint64 *words)
{
	HjgAggregateState *state = taker->groups->state;
	const HjgProgramGroups *groups = taker->groups;
	const uint64 **list = order_by_rows(taker, words);
	HjgNumericSpace *spaces = palloc(Max(groups->ncolumns, 1) * HJG_VECTOR_ROWS * sizeof(HjgNumericSpace));
	const uint64 ngroups = words[0];
	MemoryContext fetched = AllocSetContextCreate(CurrentMemoryContext, "GpuAggregate fetched columns", ALLOCSET_DEFAULT_SIZES);
	int			done = 1;

	memset(state->vectors, 0, state->child.ncolumns * sizeof(HjgVector));
	for (int i = 0; i < groups->ncolumns; i++)
		make_column_vector(state, groups->columns[i]);
	for (uint64 from = 0; from < ngroups && done > 0; from += done)
	{
		MemoryContext caller = MemoryContextSwitchTo(fetched);

		CHECK_FOR_INTERRUPTS();
		done = add_groups(taker, list + from, (int) Min(ngroups - from, HJG_VECTOR_ROWS), spaces);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(fetched);
	}
	return done > 0;
}

/* Make what fetches columns. */
static void
make_all_fetched(GroupTaker *taker)
{
	const HjgProgramGroups *groups = taker->groups;

	for (int k = 0; k < groups->nkeys; k++)
		if (groups->key_values[k].form == HJG_VALUE_ROW)
			taker->fetched[taker->nfetched++] = make_fetched(groups, k);
}

/* Take the groups of all results; false, and none is taken, if one cannot be fetched, or they are more than the node's table may have. */
static bool
take_all_groups(GroupTaker *taker)
{
	HjgAggregateState *state = taker->groups->state;
	bool		done = true;

	make_all_fetched(taker);
	for (int i = 0; i < taker->ntasks && done; i++)
		done = take_groups(taker, taker->tasks[i].words) && (state->groups == NULL || hjg_groups_count(state->groups) <= taker->max_groups);
	for (int f = 0; f < taker->nfetched; f++)
		for (int i = 0; i < taker->fetched[f].rows->nscans; i++)
			hjg_scan_fetcher_end(taker->fetched[f].fetchers[i]);
	if (!done)
		hjg_aggregation_clear(state->aggregation, state->groups != NULL && hjg_groups_reset(state->groups, 0));
	return done;
}

HjgReason
hjg_program_take_results(const HjgProgramGroups *groups, const HjgProgramTask *tasks, int ntasks, uint64 max_groups)
{
	GroupTaker	taker = {.groups = groups, .tasks = tasks, .ntasks = ntasks, .max_groups = max_groups};

	if (!are_possible_results(&taker))
		return HJG_REASON_BAD_RESULT;
	return take_all_groups(&taker) ? HJG_REASON_NONE : HJG_REASON_PROGRAM_REFUSED;
}
