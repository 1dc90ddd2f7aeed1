/*
 * node_program.c
 *	  A GpuAggregate whose groups are made by the device process: the plan below it becomes a program (hjg_program.h), which runs on a GPU
 *	  over kept columns, and the groups that come back are added to the node's own.
 *
 * The planner expects it where all tables are kept (planner_program.c). Whether it is possible is known only here, when the conditions'
 * operands and the tables' blocks are: nothing has been returned by then, so if it is not, or the device process cannot do it, the node
 * reads its child as always.
 *
 * The keys of a program's groups are the columns that those of GROUP BY are computed from, and the other columns that the result needs,
 * which these determine. So its groups may be parts of the node's: the node computes its keys of them, and adds up what is equal
 * to its operators. That is done, too, with the groups of several GPUs, each of which has run a program for its share of the rows.
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "node/hjg_program_write.h"
#include "node/hjg_totals.h"
#include "planner/hjg_planner.h"
#include "service/hjg_service.h"

/* Bytes of a group in the node's table, about, beside its totals. */
#define GROUP_BYTES 64

/* The groups of a program. */
typedef struct ProgramGroups
{
	HjgAggregateState *state;
	HjgProgramWriter *writer;
	HjgProgramValue *values;	/* by column of the child */
	int			nkeys;
	int			columns[HJG_PROGRAM_MAX_KEYS];	/* of the child, that the keys are */
	int			narguments;		/* of the program: those of the aggregates, then scales of their values */
	HjgProgramValue arguments[HJG_PROGRAM_MAX_ARGUMENTS];	/* of the aggregates */
	int			scale_of[HJG_PROGRAM_MAX_ARGUMENTS];	/* argument that is the scale of this one's values, or -1 */
	HjgProgram	head;			/* of all programs, without their arrays */
	int			ntasks;
	HjgProgramTask tasks[HJG_MAX_DEVICES];
} ProgramGroups;

/* ---------- writing ---------- */

static bool
add_key_column(ProgramGroups *groups, int column)
{
	for (int k = 0; k < groups->nkeys; k++)
		if (groups->columns[k] == column)
			return true;
	if (groups->nkeys == HJG_PROGRAM_MAX_KEYS)
		return hjg_program_refuse(groups->writer, "it has too many keys");
	groups->columns[groups->nkeys++] = column;
	return true;
}

/* Find the child's columns that the groups are made of. */
static bool
find_group_columns(ProgramGroups *groups, Bitmapset **wanted)
{
	const HjgAggregateState *state = groups->state;
	const CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);
	List	   *keys = list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_KEYS);
	Bitmapset  *columns = NULL;
	int			c = -1;

	if (state->nby_core > 0)
		return hjg_program_refuse(groups->writer, "core computes a key or an argument");
	hjg_node_columns((Node *) keys, &columns);
	while ((c = bms_next_member(columns, c)) >= 0)
		if (!add_key_column(groups, c))
			return false;
	for (int i = 0; i < state->nkept; i++)
		if (!add_key_column(groups, state->kept[i]))
			return false;
	hjg_node_columns(list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_ARGUMENTS), wanted);
	for (int k = 0; k < groups->nkeys; k++)
		*wanted = bms_add_member(*wanted, groups->columns[k]);
	return true;
}

/* Load the keys into registers, which the pipeline's end reads. */
static bool
write_keys(ProgramGroups *groups)
{
	HjgProgramWriter *writer = groups->writer;

	for (int k = 0; k < groups->nkeys; k++)
	{
		HjgProgramValue *value = &groups->values[groups->columns[k]];
		const int	reg = value->mixed ? -1 : hjg_program_load(writer, value);

		if (reg < 0)
			return hjg_program_refuse(writer, "a key has numerics of several scales");
		writer->pipeline.keys[k] = reg;
	}
	return true;
}

static uint64
magnitude_of(int64 number)
{
	return number < 0 ? 0 - (uint64) number : (uint64) number;
}

/* Write arguments whose greatest value is the display scale of a sum: of each argument whose values have own scales. */
static bool
write_scales(ProgramGroups *groups)
{
	const int	narguments = groups->narguments;

	for (int a = 0; a < narguments; a++)
	{
		const HjgProgramArgument written = {
			.reg = groups->arguments[a].scale_reg, .wants_extremes = true, .greatest = HJG_NUMERIC_MAX_SCALE
		};

		groups->scale_of[a] = -1;
		if (!groups->arguments[a].own_scales)
			continue;
		if (groups->narguments == HJG_PROGRAM_MAX_ARGUMENTS)
			return hjg_program_refuse(groups->writer, "it has too many arguments");
		groups->scale_of[a] = groups->narguments++;
		appendBinaryStringInfo(&groups->writer->arguments, (const char *) &written, sizeof(written));
	}
	return true;
}

static bool
write_arguments(ProgramGroups *groups)
{
	HjgProgramWriter *writer = groups->writer;
	HjgAggregation *aggregation = groups->state->aggregation;

	if (aggregation->narguments > HJG_PROGRAM_MAX_ARGUMENTS)
		return hjg_program_refuse(writer, "it has too many arguments");
	for (int a = 0; a < aggregation->narguments; a++)
	{
		const HjgTotalsArgument *argument = &aggregation->arguments[a];
		const bool	valued = argument->sum_wanted || argument->extremes_wanted;
		HjgProgramValue *value = &groups->arguments[a];
		HjgProgramArgument written = {.wants_sum = argument->sum_wanted, .wants_extremes = argument->extremes_wanted};

		if (!hjg_program_write_argument(writer, argument->expr, groups->values, value))
			return false;
		if (valued && value->form == HJG_VALUE_WORD)
			return hjg_program_refuse(writer, "an argument is a string");
		if (argument->extremes_wanted && value->own_scales)
			return hjg_program_refuse(writer, "an argument has numerics of several scales");
		written.reg = value->reg;
		written.greatest = Max(magnitude_of(value->least), magnitude_of(value->greatest));
		appendBinaryStringInfo(&writer->arguments, (const char *) &written, sizeof(written));
	}
	groups->narguments = aggregation->narguments;
	return write_scales(groups);
}

/* Count the groups that the node's table may have. */
static uint64
count_most_groups(const HjgAggregateState *state)
{
	return state->groups == NULL ? 1 :
		get_hash_memory_limit() / (GROUP_BYTES + state->aggregation->record_bytes + state->nkept * sizeof(Datum)) + 1;
}

/* Write the programs, for as many devices as the writer was made for. */
static bool
write_programs(ProgramGroups *groups, const HjgDeviceId *devices)
{
	HjgAggregateState *state = groups->state;
	const CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);
	const List *scalars = list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_SCALARS);
	Bitmapset  *wanted = NULL;

	groups->values = palloc0((state->child.ncolumns + 1) * sizeof(HjgProgramValue));
	if (!find_group_columns(groups, &wanted) ||
		!hjg_program_write_rows(groups->writer, state->child.plan, state->child.scan, wanted, groups->values) ||
		!write_keys(groups) || !write_arguments(groups) || !hjg_program_end_pipeline(groups->writer, HJG_PROGRAM_TO_GROUPS))
		return false;
	groups->head = (HjgProgram) {
		.nkeys = groups->nkeys, .expected_groups = list_nth_int(scalars, HJG_AGGREGATE_SCALAR_PROGRAM_GROUPS),
		.max_groups = count_most_groups(state)
	};
	groups->ntasks = hjg_program_finish(groups->writer, &groups->head, devices, groups->tasks);
	return groups->ntasks > 0;
}

/* ---------- the groups ---------- */

/* Make the vector of a key, for the rows of one vector. */
static void
make_key_vector(const ProgramGroups *groups, int column)
{
	TupleDesc	desc = groups->state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	HjgVector  *vector = &groups->state->vectors[column];

	*vector = (HjgVector) {
		.column = {TupleDescAttr(desc, column)->attlen, TupleDescAttr(desc, column)->attbyval, 0},
		.values = palloc(HJG_VECTOR_ROWS * sizeof(Datum)), .isnull = palloc(HJG_VECTOR_ROWS * sizeof(bool))
	};
}

static bool
is_null_key(const ProgramGroups *groups, const uint64 *group, int k)
{
	return (group[1 + groups->nkeys] >> k & 1) != 0;
}

/* Is a key of a group one that the program can have made? */
static bool
is_possible_key(const HjgProgramValue *value, int64 key, bool isnull)
{
	if (isnull)
		return value->nullable;
	return value->form == HJG_VALUE_WORD ? key >= 0 && key < value->words->n : key >= value->least && key <= value->greatest;
}

/* Put a key of a group into row i of its vector. */
static void
put_group_key(const HjgProgramValue *value, HjgVector *vector, int i, int64 key, bool isnull, HjgNumericSpace *space)
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
		}
	hjg_vector_put(vector, i, datum, isnull);
}

/* Get the words of an argument of a group. */
static const uint64 *
argument_words(const ProgramGroups *groups, const uint64 *group, int a)
{
	return group + 2 + groups->nkeys + a * HJG_PROGRAM_ARGUMENT_WORDS;
}

/*
 * Find the display scale of a group's argument, and its sum as a number of that scale; -1: it cannot be a sum of values that have at
 * most this scale.
 */
static int
argument_scale(const ProgramGroups *groups, const uint64 *group, int a, int128 *sum)
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
merge_group(ProgramGroups *groups, const uint64 *group, uint32 number, uint32 ngroups)
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

/* Add n groups of the result to those of the node. */
static void
add_groups(ProgramGroups *groups, const uint64 *words, int n, HjgNumericSpace *spaces)
{
	HjgAggregateState *state = groups->state;
	const uint32 group_words = hjg_program_group_words(groups->nkeys, groups->narguments);
	uint32		numbers[HJG_VECTOR_ROWS] = {0};
	uint32		ngroups = 1;

	for (int i = 0; i < n; i++)
	{
		const uint64 *group = words + (size_t) i * group_words;

		for (int k = 0; k < groups->nkeys; k++)
			put_group_key(&groups->values[groups->columns[k]], &state->vectors[groups->columns[k]], i, (int64) group[1 + k],
						  is_null_key(groups, group, k), &spaces[k * HJG_VECTOR_ROWS + i]);
	}
	if (state->groups != NULL)
	{
		(void) hjg_computed_rows(state, state->nkey_exprs, n);
		/* none of them is toasted, so all are found at once */
		(void) hjg_groups_find(state->groups, state->vectors, n, numbers);
		ngroups = hjg_groups_count(state->groups);
	}
	for (int i = 0; i < n; i++)
		merge_group(groups, words + (size_t) i * group_words, numbers[i], ngroups);
}

/* Can a group have these totals? Rows with NULL are rows, and sums have digits for their scale. */
static bool
are_possible_totals(const ProgramGroups *groups, const uint64 *group)
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
is_possible_result(const ProgramGroups *groups, const uint64 *words, uint64 nwords)
{
	const uint32 group_words = hjg_program_group_words(groups->nkeys, groups->narguments);
	const uint64 ngroups = nwords > 0 ? words[0] : 0;

	if (ngroups > groups->head.max_groups || nwords != 1 + ngroups * group_words || (groups->nkeys == 0 && ngroups != 1))
		return false;
	for (uint64 g = 0; g < ngroups; g++)
	{
		const uint64 *group = words + 1 + g * group_words;

		if (!are_possible_totals(groups, group))
			return false;
		for (int k = 0; k < groups->nkeys; k++)
			if (!is_possible_key(&groups->values[groups->columns[k]], (int64) group[1 + k], is_null_key(groups, group, k)))
				return false;
	}
	return true;
}

/* Are all results possible? */
static bool
are_possible_results(const ProgramGroups *groups)
{
	for (int i = 0; i < groups->ntasks; i++)
		if (!is_possible_result(groups, groups->tasks[i].words, groups->tasks[i].nwords))
			return false;
	return true;
}

static void
take_groups(ProgramGroups *groups, const uint64 *words)
{
	const uint32 group_words = hjg_program_group_words(groups->nkeys, groups->narguments);
	HjgNumericSpace *spaces = palloc(Max(groups->nkeys, 1) * HJG_VECTOR_ROWS * sizeof(HjgNumericSpace));
	const uint64 ngroups = words[0];

	memset(groups->state->vectors, 0, groups->state->child.ncolumns * sizeof(HjgVector));
	for (int k = 0; k < groups->nkeys; k++)
		make_key_vector(groups, groups->columns[k]);
	for (uint64 done = 0; done < ngroups; done += HJG_VECTOR_ROWS)
	{
		CHECK_FOR_INTERRUPTS();
		add_groups(groups, words + 1 + done * group_words, (int) Min(ngroups - done, HJG_VECTOR_ROWS), spaces);
	}
}

/* Take the groups of all results; false, and none is taken, if they are more than the node's table may have. */
static bool
take_all_groups(ProgramGroups *groups)
{
	HjgAggregateState *state = groups->state;

	for (int i = 0; i < groups->ntasks; i++)
	{
		take_groups(groups, groups->tasks[i].words);
		if (state->groups == NULL || hjg_groups_count(state->groups) <= groups->head.max_groups)
			continue;
		hjg_aggregation_clear(state->aggregation, hjg_groups_reset(state->groups, 0));
		return false;
	}
	return true;
}

/* ---------- running ---------- */

/* Get the device that is to run the program; ANY: none. */
static HjgDeviceId
planned_device(const HjgAggregateState *state)
{
	const CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);
	const List *scalars = list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_SCALARS);

	return (HjgDeviceId) {
		.kind = list_nth_int(scalars, HJG_AGGREGATE_SCALAR_DEVICE_KIND), .number = list_nth_int(scalars, HJG_AGGREGATE_SCALAR_DEVICE_NUMBER)
	};
}

/* Note that the program cannot be run; the planner takes another plan then, where several processes may share the work. */
static void
note_refusal(const HjgAggregateState *state)
{
	const CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);
	const List *scalars = list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_SCALARS);

	hjg_kept_note_refused((uint32) list_nth_int(scalars, HJG_AGGREGATE_SCALAR_PROGRAM_NUMBER));
}

/* Choose the devices that are to run programs: the planned one, or, if that has no number, all GPUs; returns how many. */
static int
choose_devices(HjgDeviceId planned, HjgDeviceId *devices)
{
	const int	n = planned.number == HJG_NO_NUMBER ? hjg_service_gpus(devices) : 0;

	if (n == 0)
		devices[0] = planned;
	return Max(n, 1);
}

/* Run the programs, and take their groups; returns why that was not possible. */
static HjgReason
run_programs(ProgramGroups *groups, HjgJobStats *stats)
{
	HjgReason	reason = HJG_REASON_NONE;

	if (!hjg_job_run_programs(groups->tasks, groups->ntasks, stats, &reason))
		return reason;
	if (!are_possible_results(groups))
		return HJG_REASON_BAD_RESULT;
	return take_all_groups(groups) ? HJG_REASON_NONE : HJG_REASON_PROGRAM_REFUSED;
}

/* Write and run the programs, and take their groups; false if that was not possible, with the reason in the report. */
static bool
run_and_take(HjgAggregateState *state, HjgDeviceId planned)
{
	HjgDeviceId devices[HJG_MAX_DEVICES];
	const int	ndevices = choose_devices(planned, devices);
	ProgramGroups groups = {.state = state, .writer = hjg_program_writer_create(state->css.ss.ps.state, ndevices)};
	HjgProgramFigures *figures = &state->program;
	HjgReason	reason;
	HjgJobStats stats;

	if (!write_programs(&groups, devices))
	{
		note_refusal(state);
		hjg_service_count_fallback(HJG_REASON_PROGRAM_REFUSED);
		figures->why = groups.writer->why;
		return false;
	}
	reason = run_programs(&groups, &stats);
	if (reason != HJG_REASON_NONE)
	{
		/* memory that is short now may be short for long */
		if (reason == HJG_REASON_PROGRAM_REFUSED || reason == HJG_REASON_DEVICE_MEMORY)
			note_refusal(state);
		hjg_program_report_fallback(reason);
		figures->why = hjg_reasons[reason].text;
		return false;
	}
	hjg_service_count(HJG_COUNT_PROGRAMS, 1);
	hjg_stats_add(&figures->stats, &stats);
	figures->nruns++;
	figures->ndevices = Max(figures->ndevices, groups.ntasks);
	for (int i = 0; i < groups.ntasks; i++)
		figures->bytes += groups.tasks[i].head.nbytes;
	figures->why = NULL;
	HJG_ADD_COUNTS(state->report.kept_blocks, groups.writer->counts);
	return true;
}

bool
hjg_program_group(HjgAggregateState *state)
{
	const HjgDeviceId device = planned_device(state);
	MemoryContext context;
	MemoryContext caller;
	bool		done;

	if (device.kind == HJG_KIND_ANY || state->share != NULL || !hjg_kept_columns)
		return false;
	context = AllocSetContextCreate(state->css.ss.ps.state->es_query_cxt, "GpuAggregate program", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(context);
	done = run_and_take(state, device);
	MemoryContextSwitchTo(caller);
	/* the vectors of the keys are gone, and no kept column is held any more */
	memset(state->vectors, 0, state->child.ncolumns * sizeof(HjgVector));
	MemoryContextDelete(context);
	return done;
}
