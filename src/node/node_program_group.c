/*
 * node_program_group.c
 *	  Writes the groups of a GpuAggregate for a program: its keys and arguments.
 *
 * The keys of a program's groups are the columns that those of GROUP BY are computed from, and the other columns that the result needs,
 * which these determine. Strings that are many come back as the number of a row that has them. So groups may be parts of the node's;
 * the node adds up what is equal to its operators. node_program_result.c writes what becomes of them.
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
		written.greatest = Max(hjg_program_magnitude(value->least), hjg_program_magnitude(value->greatest));
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
