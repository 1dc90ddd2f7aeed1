/*
 * node_program_result.c
 *	  Writes what becomes of the groups of a GpuAggregate in a program: HAVING, the order of the first ones, and groups that are rows of a plan above.
 *
 * Aggregates are values of groups like keys, where they are numbers. Only groups that are known to be whole can be left out on the device,
 * because HAVING drops them or others come first. The node tests and sorts what comes back in any case.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"

#include "node/hjg_program_write.h"
#include "node/hjg_totals.h"
#include "planner/hjg_planner.h"

/* ---------- groups as values ---------- */

/* Describe the sum of an argument's values; false if it might not fit. */
static bool
describe_sum(const HjgProgramGroups *groups, int a, uint64 nrows, HjgProgramValue *value)
{
	const HjgProgramValue *argument = &groups->arguments[a];
	const uint64 greatest = Max(hjg_program_magnitude(argument->least), hjg_program_magnitude(argument->greatest));

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

/* ---------- the result ---------- */

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
