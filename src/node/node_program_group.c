/*
 * node_program_group.c
 *	  Writes the groups of a GpuAggregate for a program: its keys and arguments, HAVING, and the order of the first groups.
 *
 * The keys of a program's groups are the columns that those of GROUP BY are computed from, and the other columns that the result needs,
 * which these determine. Strings that are many come back as the number of a row that has them. So groups may be parts of the node's;
 * the node adds up what is equal to its operators. Only groups that are known to be whole can be left out on the device, because HAVING
 * drops them or others come first. The node tests and sorts what comes back in any case.
 *
 * Rows of an outer join whose preserved side has several partners for a row come from two pipelines with the same sink: the pairs, which the other
 * side drives, and the preserved side's rows, all of them, with NULLs for partners. The planner sees to it that keys are columns of the preserved
 * side, and that aggregates ignore rows whose partner's columns are NULL: so the second pipeline only makes groups that have no pairs.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "node/hjg_program_write.h"
#include "node/hjg_totals.h"
#include "planner/hjg_planner.h"

/* ---------- keys ---------- */

/* Add a column of the child to those of the groups. */
static void
add_key_column(HjgProgramGroups *groups, int column)
{
	for (int i = 0; i < groups->ncolumns; i++)
		if (groups->columns[i] == column)
			return;
	groups->columns[groups->ncolumns++] = column;
}

/* Find the child's columns that the groups are made of. */
static bool
find_group_columns(HjgProgramWriter *writer, HjgProgramGroups *groups, Bitmapset **wanted)
{
	const HjgAggregateState *state = groups->state;
	const CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);
	Bitmapset  *columns = NULL;

	for (int e = state->nkey_exprs; e < state->ncomputed; e++)
		if (state->computed[e].expr != NULL)
			return hjg_program_refuse(writer, "core computes an argument");
	hjg_node_columns(list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_KEYS), &columns);
	/* the results may have a column as it is */
	groups->roundings = hjg_planner_find_roundings(list_make3(list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_KEYS), cscan->scan.plan.targetlist,
															  cscan->scan.plan.qual));
	groups->columns = palloc((state->child.ncolumns + 1) * sizeof(int));
	groups->key_of = palloc((state->child.ncolumns + 1) * sizeof(int));
	for (int c = -1; (c = bms_next_member(columns, c)) >= 0;)
		add_key_column(groups, c);
	for (int i = 0; i < state->nkept; i++)
		add_key_column(groups, state->kept[i]);
	hjg_node_columns(list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_ARGUMENTS), wanted);
	for (int i = 0; i < groups->ncolumns; i++)
		*wanted = bms_add_member(*wanted, groups->columns[i]);
	return true;
}

/* Find the key that tells a column's value, among those that there are; -1: there is none. */
static int
find_key(const HjgProgramGroups *groups, int column)
{
	const HjgProgramValue *value = &groups->values[column];

	for (int k = 0; k < groups->nkeys && value->form == HJG_VALUE_ROW; k++)
		if (groups->values[groups->keys[k]].rows == value->rows)
			return k;
	return -1;
}

/* Are strings that are equal to the operator of their type the same bytes? */
static bool
are_equal_same(Oid type, int32 typmod, Oid collation)
{
	/* blanks at the end are as many in all of them */
	return getBaseType(type) != NUMERICOID &&
		(!OidIsValid(collation) || ((getBaseType(type) != BPCHAROID || typmod >= 0) && get_collation_isdeterministic(collation)));
}

/* Find how a key is rounded; NULL: it is not. */
static const HjgRounding *
find_rounding(const HjgProgramGroups *groups, int column)
{
	ListCell   *lc;

	foreach(lc, groups->roundings)
		if (((HjgRounding *) lfirst(lc))->column->varattno == column + 1)
			return lfirst(lc);
	return NULL;
}

/* Find what a key is rounded down to. */
static HjgProgramStep
rounding_of(const HjgProgramGroups *groups, int column, const HjgProgramValue *value)
{
	const HjgRounding *rounding = find_rounding(groups, column);
	HjgProgramStep step = {.op = HJG_PROGRAM_ROUND_DOWN};

	if (rounding == NULL || value->form != HJG_VALUE_INTEGER ||
		!hjg_planner_rounding_step(rounding, value->least, value->greatest, &step.low, &step.high) ||
		step.low < HJG_PROGRAM_LEAST_ROUNDED || step.low > HJG_PROGRAM_MOST_ROUNDED)
		step.low = step.high = 0;
	return step;
}

/* Load a key into a register, rounded down or as its class; returns that, or -1, and sets the value that the groups have. */
static int
load_key(HjgProgramWriter *writer, HjgProgramGroups *groups, int column, HjgProgramStep rounded, HjgProgramValue *value, HjgProgramValue *key)
{
	const int	reg = hjg_program_load(writer, value);
	int			class_reg;

	*key = *value;
	if (reg < 0 || rounded.low == 0)
		return reg;
	rounded.left = reg;
	class_reg = writer->outer.join == NULL ? hjg_program_write_classes(writer, groups->state, column, rounded, key) : -1;
	if (class_reg >= 0)
		return class_reg;
	key->least -= rounded.low;
	return hjg_program_step_new(writer, rounded);
}

/* Note what column a key of the groups is, if it is one as it is. */
static void
note_key(HjgProgramWriter *writer, const HjgProgramGroups *groups, int k, HjgProgramValue *key)
{
	if (key->form != HJG_VALUE_INTEGER || groups->rounded[k].low != 0)
		key->origin.scan = NULL;
	hjg_program_noted(writer)->keys[k] = key->origin;
}

/* Load the keys into registers, which the pipeline's end reads. */
static bool
write_keys(HjgProgramWriter *writer, HjgProgramGroups *groups)
{
	TupleDesc	desc = groups->state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;

	for (int i = 0; i < groups->ncolumns; i++)
	{
		HjgProgramValue *value = &groups->values[groups->columns[i]];
		int			reg;

		groups->key_of[i] = find_key(groups, groups->columns[i]);
		if (groups->key_of[i] >= 0)
			continue;
		if (groups->nkeys == HJG_PROGRAM_MAX_KEYS)
			return hjg_program_refuse(writer, "it has too many keys");
		if (value->mixed)
			return hjg_program_refuse(writer, "a key has numerics of several scales");
		/* core shows the one that comes first */
		if (value->form == HJG_VALUE_WORD && !are_equal_same(TupleDescAttr(desc, groups->columns[i])->atttypid,
															 TupleDescAttr(desc, groups->columns[i])->atttypmod,
															 TupleDescAttr(desc, groups->columns[i])->attcollation))
			return hjg_program_refuse(writer, "equal values of a key differ in their texts");
		groups->rounded[groups->nkeys] = rounding_of(groups, groups->columns[i], value);
		/* each timestamp would be a group */
		if (find_rounding(groups, groups->columns[i]) != NULL && groups->rounded[groups->nkeys].low == 0 && value->least < value->greatest)
			return hjg_program_refuse(writer, "timestamps are infinite, or their zone changes too often");
		reg = load_key(writer, groups, groups->columns[i], groups->rounded[groups->nkeys], value, &groups->key_values[groups->nkeys]);
		if (reg < 0)
			return false;
		writer->pipeline.keys[groups->nkeys] = reg;
		note_key(writer, groups, groups->nkeys, &groups->key_values[groups->nkeys]);
		groups->key_of[i] = groups->nkeys;
		groups->keys[groups->nkeys++] = groups->columns[i];
	}
	return true;
}

/* Find the value of a column of the child as the groups have it; NULL: they do not. */
static const HjgProgramValue *
find_key_value(const HjgProgramGroups *groups, int column)
{
	for (int i = 0; i < groups->ncolumns; i++)
		if (groups->columns[i] == column)
			return &groups->key_values[groups->key_of[i]];
	return NULL;
}

/* Is a key of the node one that groups have a value of for each? */
static bool
is_key_exact(const HjgProgramGroups *groups, Node *expr)
{
	const Var  *key = (const Var *) hjg_scan_strip_relabel(expr);
	Bitmapset  *columns = NULL;
	const HjgProgramValue *value;

	hjg_node_columns(expr, &columns);
	value = bms_membership(columns) == BMS_SINGLETON ? find_key_value(groups, bms_singleton_member(columns)) : NULL;
	if (value == NULL)
		return false;
	/* a class that was made below of several keys may stand for equal values of one */
	if (value->form == HJG_VALUE_CLASS)
		return value->classes->exact && (IsA(key, Var) ? value->classes->exprs == NIL : list_member(value->classes->exprs, expr));
	return IsA(key, Var) && value->form != HJG_VALUE_ROW &&
		(value->form != HJG_VALUE_WORD || (OidIsValid(key->varcollid) && are_equal_same(key->vartype, key->vartypmod, key->varcollid)));
}

/* Is each of the groups one of the node's? */
static bool
are_groups_exact(const HjgProgramGroups *groups)
{
	const CustomScan *cscan = castNode(CustomScan, groups->state->css.ss.ps.plan);
	ListCell   *lc;

	foreach(lc, list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_KEYS))
		if (!is_key_exact(groups, lfirst(lc)))
			return false;
	return true;
}

/* ---------- arguments ---------- */

static uint64
magnitude_of(int64 number)
{
	return number < 0 ? 0 - (uint64) number : (uint64) number;
}

/* Write arguments whose greatest value is the display scale of a sum: of each argument whose values have own scales. */
static bool
write_scales(HjgProgramWriter *writer, HjgProgramGroups *groups)
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
			return hjg_program_refuse(writer, "it has too many arguments");
		groups->scale_of[a] = groups->narguments++;
		appendBinaryStringInfo(&writer->arguments, (const char *) &written, sizeof(written));
	}
	return true;
}

static bool
write_arguments(HjgProgramWriter *writer, HjgProgramGroups *groups)
{
	HjgAggregation *aggregation = groups->state->aggregation;

	if (aggregation->narguments > HJG_PROGRAM_MAX_ARGUMENTS)
		return hjg_program_refuse(writer, "it has too many arguments");
	for (int a = 0; a < aggregation->narguments; a++)
	{
		const HjgTotalsArgument *argument = &aggregation->arguments[a];
		const bool	valued = argument->sum_wanted || argument->extremes_wanted || argument->floats;
		HjgProgramValue *value = &groups->arguments[a];
		HjgProgramArgument written = {
			.wants_sum = argument->sum_wanted || argument->moments_wanted, .wants_extremes = argument->extremes_wanted, .is_float = argument->floats
		};

		if (!hjg_program_write_argument(writer, argument->expr, groups->values, value))
			return false;
		if (valued && value->form > HJG_VALUE_NUMBER)
			return hjg_program_refuse(writer, "an argument is a string, or a class");
		if (argument->extremes_wanted && value->own_scales)
			return hjg_program_refuse(writer, "an argument has numerics of several scales");
		if (argument->moments_wanted && !hjg_float_totals_are_sure_within(argument, value->least, value->greatest))
			written.wants_extremes = true;
		if (argument->floats && !hjg_program_number_floats(writer, argument->width, value))
			return false;
		written.reg = value->reg;
		written.greatest = Max(magnitude_of(value->least), magnitude_of(value->greatest));
		appendBinaryStringInfo(&writer->arguments, (const char *) &written, sizeof(written));
	}
	groups->narguments = aggregation->narguments;
	return write_scales(writer, groups);
}

/* ---------- rows of the preserved side ---------- */

/* Find the registers of the arguments from this one on: a bit for each. */
static uint32
argument_registers(const HjgProgramWriter *writer, uint32 first_argument)
{
	const HjgProgramArgument *arguments = (const HjgProgramArgument *) writer->arguments.data;
	uint32		registers = 0;

	for (uint32 a = first_argument; a < writer->arguments.len / sizeof(HjgProgramArgument); a++)
		registers |= UINT32_C(1) << arguments[a].reg;
	return registers;
}

/* Widen the description of a key by that of other rows; false if their values are of another form. */
static bool
join_values(HjgProgramValue *value, const HjgProgramValue *other)
{
	if (value->form != other->form || value->scale != other->scale || value->mixed != other->mixed || value->words != other->words || value->rows != other->rows)
		return false;
	value->nullable |= other->nullable;
	value->least = Min(value->least, other->least);
	value->greatest = Max(value->greatest, other->greatest);
	return true;
}

/* Begin the pipeline of the rows of an outer join's preserved side, with keys for the groups, and with NULL in the arguments' registers. */
static bool
write_preserved_rows(HjgProgramWriter *writer, HjgProgramGroups *groups, uint32 first_argument)
{
	const HjgAggregateState *state = groups->state;
	HjgProgramValue *values = palloc0((state->child.ncolumns + 1) * sizeof(HjgProgramValue));
	Bitmapset  *wanted = NULL;

	for (int i = 0; i < groups->ncolumns; i++)
		wanted = bms_add_member(wanted, groups->columns[i]);
	writer->outer.alone = true;
	writer->outer.reserved = argument_registers(writer, first_argument);
	if (!writer->write_rows(writer, state->child.plan, state->child.scan, wanted, values))
		return false;
	for (int k = 0; k < groups->nkeys; k++)
	{
		HjgProgramValue *value = &values[groups->keys[k]];
		const HjgProgramStep rounded = rounding_of(groups, groups->keys[k], value);
		HjgProgramValue key;
		int			reg;

		if (rounded.low != groups->rounded[k].low || rounded.high != groups->rounded[k].high)
			return hjg_program_refuse(writer, "timestamps of both sides of an outer join are not rounded alike");
		reg = load_key(writer, groups, groups->keys[k], rounded, value, &key);
		if (reg < 0)
			return false;
		if (!join_values(&groups->key_values[k], &key))
			return hjg_program_refuse(writer, "a table is kept in another way than before");
		writer->pipeline.keys[k] = reg;
		note_key(writer, groups, k, &key);
	}
	groups->nrows += hjg_program_source_rows(writer);
	return true;
}

/* ---------- groups ---------- */

/* Describe the table of the groups, whose rows are known. */
static HjgProgramTable
describe_table(const HjgProgramGroups *groups, uint32 first_argument, uint64 most_groups, double expected_groups)
{
	HjgProgramTable table = {.has_groups = 1, .nkeys = groups->nkeys, .first_argument = first_argument, .narguments = groups->narguments};

	if (groups->nkeys == 1 && (groups->key_values[0].form <= HJG_VALUE_NUMBER || groups->key_values[0].form == HJG_VALUE_CLASS))
	{
		const HjgProgramValue *key = &groups->key_values[0];

		table.has_bounds = key->least <= key->greatest;
		table.least_key = key->least;
		table.greatest_key = key->greatest;
	}
	/* if the device leaves some out, it may make more than the node can have */
	table.max_rows = Max(groups->exact ? groups->nrows : Min(most_groups, groups->nrows), 1);
	table.expected_rows = (uint64) Max(Min(expected_groups, (double) table.max_rows), 1);
	return table;
}

/* Write the groups; writer->outer is for their rows alone. */
static bool
write_groups(HjgProgramWriter *writer, HjgProgramGroups *groups, uint64 most_groups, double expected_groups, bool last)
{
	HjgAggregateState *state = groups->state;
	Bitmapset  *wanted = NULL;
	HjgNotedPipeline *pairs;
	uint32		first_argument;

	groups->values = palloc0((state->child.ncolumns + 1) * sizeof(HjgProgramValue));
	if (!find_group_columns(writer, groups, &wanted) ||
		!writer->write_rows(writer, state->child.plan, state->child.scan, wanted, groups->values) ||
		!write_keys(writer, groups))
		return false;
	first_argument = writer->arguments.len / sizeof(HjgProgramArgument);
	if (!write_arguments(writer, groups))
		return false;
	/* several devices may have parts of the result's groups */
	groups->exact = (!last || writer->division == NULL || writer->division->whole_groups) && are_groups_exact(groups);
	groups->nrows = hjg_program_source_rows(writer);
	if (writer->outer.join == NULL)
		return hjg_program_end_pipeline(writer, describe_table(groups, first_argument, most_groups, expected_groups), last);
	pairs = hjg_program_noted(writer);
	if (!hjg_program_end_rows(writer) || !write_preserved_rows(writer, groups, first_argument) ||
		!hjg_program_end_both(writer, describe_table(groups, first_argument, most_groups, expected_groups), last))
		return false;
	pairs->sink = hjg_program_noted(writer)->sink;
	return true;
}

bool
hjg_program_write_groups(HjgProgramWriter *writer, HjgProgramGroups *groups, uint64 most_groups, double expected_groups, bool last)
{
	const HjgProgramOuter around = writer->outer;
	bool		written;

	writer->outer = (HjgProgramOuter) {NULL};
	written = write_groups(writer, groups, most_groups, expected_groups, last);
	writer->outer = around;
	return written;
}

/* ---------- the result ---------- */

/* Describe the sum of an argument's values; false if it might not fit. */
static bool
describe_sum(const HjgProgramGroups *groups, int a, uint64 nrows, HjgProgramValue *value)
{
	const HjgProgramValue *argument = &groups->arguments[a];
	const uint64 greatest = Max(magnitude_of(argument->least), magnitude_of(argument->greatest));

	if (argument->own_scales || argument->mixed || greatest > PG_INT64_MAX / Max(nrows, 1))
		return false;
	value->scale = argument->scale;
	value->least = -(int64) (greatest * nrows);
	value->greatest = (int64) (greatest * nrows);
	return true;
}

/* Describe an aggregate as a value of a group of at most nrows rows; false if it is none. */
static bool
describe_aggregate(const HjgProgramGroups *groups, const HjgAggregate *aggregate, uint64 nrows, HjgProgramValue *value)
{
	const int	a = aggregate->argument;
	HjgProgramGroupPart part = HJG_PROGRAM_GROUP_SUM;

	*value = (HjgProgramValue) {.greatest = (int64) nrows, .collected = -1, .reg = -1, .of_group = 1 + HJG_PROGRAM_GROUP_ROWS(groups->nkeys)};
	if (a < 0)
		return true;
	switch (aggregate->kind)
	{
		case HJG_AGGREGATE_COUNT:
			part = HJG_PROGRAM_GROUP_COUNT;
			break;
		case HJG_AGGREGATE_WIDE_SUM:
		case HJG_AGGREGATE_NUMERIC_SUM:
			value->form = HJG_VALUE_NUMBER;
			/* FALLTHROUGH */
		case HJG_AGGREGATE_SUM:
			if (aggregate->average || !describe_sum(groups, a, nrows, value))
				return false;
			break;
		case HJG_AGGREGATE_NUMERIC_LEAST:
		case HJG_AGGREGATE_LEAST:
		case HJG_AGGREGATE_NUMERIC_GREATEST:
		case HJG_AGGREGATE_GREATEST:
			if (groups->arguments[a].mixed)
				return false;
			*value = groups->arguments[a];
			value->collected = value->reg = -1;
			value->origin.scan = NULL;
			part = aggregate->kind == HJG_AGGREGATE_LEAST || aggregate->kind == HJG_AGGREGATE_NUMERIC_LEAST ? HJG_PROGRAM_GROUP_LEAST : HJG_PROGRAM_GROUP_GREATEST;
			break;
		default:
			return false;
	}
	value->nullable = true;
	value->of_group = 1 + HJG_PROGRAM_GROUP_VALUE(groups->nkeys, a, part);
	return true;
}

/* Describe the columns of the node's scan tuple, as values of the groups; known: those that can be. */
static HjgProgramValue *
describe_groups(const HjgProgramGroups *groups, Bitmapset **known)
{
	const HjgAggregateState *state = groups->state;
	const int	ncolumns = state->child.ncolumns;
	HjgProgramValue *values = palloc0((ncolumns + state->naggregates + 1) * sizeof(HjgProgramValue));

	for (int i = 0; i < groups->ncolumns; i++)
	{
		HjgProgramValue *value = &values[groups->columns[i]];

		*value = groups->key_values[groups->key_of[i]];
		value->collected = value->reg = -1;
		value->of_group = 1 + groups->key_of[i];
		if (value->form != HJG_VALUE_CLASS)
			*known = bms_add_member(*known, groups->columns[i]);
	}
	for (int a = 0; a < state->naggregates; a++)
		if (describe_aggregate(groups, &state->aggregation->aggregates[a], groups->nrows, &values[ncolumns + a]))
			*known = bms_add_member(*known, ncolumns + a);
	return values;
}

/* Make the conditions of HAVING that groups can be tested by, with operands evaluated; returns whether these are all. */
static bool
make_having(HjgAggregateState *state, const Bitmapset *known, HjgFilter *all)
{
	const CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);
	const int	ncolumns = state->child.ncolumns + state->naggregates;
	HjgConditions *conditions = palloc0(sizeof(HjgConditions));
	int		   *column_of = palloc((ncolumns + 1) * sizeof(int));
	bool		whole = true;
	ListCell   *lc;

	for (int c = 0; c < ncolumns; c++)
		column_of[c] = c;
	*conditions = (HjgConditions) {.plan = &state->css.ss.ps, .varno = INDEX_VAR, .column_of = column_of};
	*all = (HjgFilter) {.kind = HJG_FILTER_ALL, .args = palloc((list_length(cscan->scan.plan.qual) + 1) * sizeof(HjgFilter *))};
	foreach(lc, cscan->scan.plan.qual)
	{
		Bitmapset  *columns = NULL;
		HjgFilter  *filter = NULL;

		hjg_node_columns(lfirst(lc), &columns);
		if (bms_is_subset(columns, known))
			filter = hjg_scan_condition_make(conditions, lfirst(lc));
		if (conditions->nfallible > 0)
			return false;
		whole &= filter != NULL;
		if (filter != NULL)
			all->args[all->nargs++] = filter;
	}
	hjg_scan_conditions_unbind(conditions);
	hjg_scan_conditions_bind(conditions);
	return whole;
}

/* Describe a column of the scan tuple as the sum of floats of a group; false if it is none. */
static bool
describe_float_sum(const HjgProgramGroups *groups, int column, HjgProgramValue *sum)
{
	const int	a = column - groups->state->child.ncolumns;
	const HjgAggregate *aggregate = a >= 0 ? &groups->state->aggregation->aggregates[a] : NULL;

	if (aggregate == NULL || aggregate->kind != HJG_AGGREGATE_FLOAT_SUM)
		return false;
	*sum = (HjgProgramValue) {
		.nullable = true, .least = PG_INT64_MIN, .greatest = PG_INT64_MAX, .collected = -1, .reg = -1,
		.of_group = 1 + HJG_PROGRAM_GROUP_VALUE(groups->nkeys, aggregate->argument, HJG_PROGRAM_GROUP_SUM)
	};
	return true;
}

/* Write the order of the first groups, if the plan has one and it is known. */
static bool
write_order(HjgProgramWriter *writer, const HjgProgramGroups *groups, const Bitmapset *known, HjgProgramValue *values, HjgProgram *head)
{
	const CustomScan *cscan = castNode(CustomScan, groups->state->css.ss.ps.plan);
	const List *expr = list_nth(cscan->custom_exprs, HJG_AGGREGATE_EXPRS_ORDER);
	const List *first = list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_FIRST);
	const Var  *var = expr != NIL ? (const Var *) hjg_scan_strip_relabel(linitial(expr)) : NULL;
	HjgProgramValue sum;
	int			reg;

	if (var == NULL || !IsA(var, Var))
		return true;
	head->descending = list_nth_int(first, HJG_AGGREGATE_FIRST_DESCENDING);
	head->nulls_first = list_nth_int(first, HJG_AGGREGATE_FIRST_NULLS_FIRST);
	if (describe_float_sum(groups, var->varattno - 1, &sum))
		reg = hjg_program_order_sums(writer, &sum, head->descending);
	else if (bms_is_member(var->varattno - 1, known) && values[var->varattno - 1].form <= HJG_VALUE_NUMBER)
		reg = hjg_program_load(writer, &values[var->varattno - 1]);
	else
		return true;
	if (reg < 0)
		return false;
	head->order = reg;
	head->first_groups = list_nth_int(first, HJG_AGGREGATE_FIRST_GROUPS);
	return true;
}

bool
hjg_program_write_result(HjgProgramWriter *writer, HjgProgramGroups *groups, HjgProgram *head)
{
	Bitmapset  *known = NULL;
	HjgProgramValue *values = describe_groups(groups, &known);
	HjgFilter	having;

	if (!groups->exact || groups->nkeys == 0)
		return true;
	hjg_program_begin_groups(writer);
	head->first_step = writer->pipeline.first_step;
	if (make_having(groups->state, known, &having) && !write_order(writer, groups, known, values, head))
		return false;
	if (!hjg_program_write_filter(writer, &having, NULL, values))
		return false;
	head->nsteps = writer->pipeline.nsteps;
	return true;
}

/* ---------- groups below ---------- */

bool
hjg_program_write_grouped(HjgProgramWriter *writer, HjgAggregateState *state, const Bitmapset *wanted, HjgProgramValue *values)
{
	const CustomScan *cscan = castNode(CustomScan, state->css.ss.ps.plan);
	const List *scalars = list_nth(cscan->custom_private, HJG_AGGREGATE_PRIVATE_SCALARS);
	HjgProgramGroups groups = {.state = state};
	Bitmapset  *known = NULL;
	HjgProgramValue *results;
	HjgFilter	having;

	if (state->partial || state->share != NULL)
		return hjg_program_refuse(writer, "several processes make the groups of a subquery");
	if (!hjg_program_write_groups(writer, &groups, PG_UINT64_MAX, list_nth_int(scalars, HJG_AGGREGATE_SCALAR_GROUPS), false))
		return false;
	results = describe_groups(&groups, &known);
	if (!groups.exact || groups.nkeys == 0 || !make_having(state, known, &having))
		return hjg_program_refuse(writer, "groups of a subquery, or their conditions, cannot be written");
	hjg_program_begin_groups(writer);
	if (!hjg_program_write_filter(writer, &having, NULL, results))
		return false;
	for (int w = -1; (w = bms_next_member(wanted, w)) >= 0;)
	{
		Expr	   *expr = list_nth_node(TargetEntry, cscan->scan.plan.targetlist, w)->expr;
		const Var  *column = (const Var *) hjg_scan_strip_relabel((Node *) expr);
		Bitmapset  *columns = NULL;

		hjg_node_columns((Node *) expr, &columns);
		if (bms_membership(columns) != BMS_SINGLETON)
			return hjg_program_refuse(writer, "results of a subquery are no numbers");
		values[w] = results[bms_singleton_member(columns)];
		if (values[w].form == HJG_VALUE_CLASS && hjg_program_describe_class(state, expr, values[w].classes, &values[w]))
			continue;
		if (!IsA(column, Var) || !bms_is_member(column->varattno - 1, known))
			return hjg_program_refuse(writer, "results of a subquery are no numbers");
	}
	return true;
}
