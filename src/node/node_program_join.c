/*
 * node_program_join.c
 *	  Writes a join as pipelines of a program.
 *
 * A join ends the pipeline of one side in a hash table, and probes that in the pipeline of the other side. A row finds one partner there
 * at most, so the planner chooses the sides (HJG_SCALAR_REVERSED), and these need not be those of the join in a backend. The join's columns
 * are the driving side's, and those that the table gives back. If the side of an outer join that may be NULL drives, the preserved side's rows
 * are written once more as a pipeline of their own (node_program_group.c). A semi or an anti join with a comparison beside its keys has groups in
 * the place of the table's rows: the least and the greatest value of the partners tell whether any of them passes it.
 */
#include "postgres.h"

#include "optimizer/clauses.h"
#include "utils/lsyscache.h"

#include "node/hjg_program_write.h"
#include "planner/hjg_planner.h"

/* Part of a side's rows that have keys of their own, if nothing is known of them. */
#define DISTINCT_PART 0.6

/* Find the scan tuple column that an expression is; -1: it is something else. */
static int
plain_column(Node *expr)
{
	const Var  *var = (const Var *) hjg_scan_strip_relabel(expr);

	return IsA(var, Var) && var->varno == INDEX_VAR && var->varattno > 0 ? var->varattno - 1 : -1;
}

/* Find the scan tuple columns of the wanted columns of a join: from[column]. */
static bool
find_outputs(HjgProgramWriter *writer, const CustomScan *cscan, const Bitmapset *wanted, int *from)
{
	for (int w = -1; (w = bms_next_member(wanted, w)) >= 0;)
	{
		from[w] = plain_column((Node *) list_nth_node(TargetEntry, cscan->scan.plan.targetlist, w)->expr);
		if (from[w] < 0)
			return hjg_program_refuse(writer, "a join computes columns");
	}
	return true;
}

/* A join whose rows are written: a table is built of one side, and rows of the other one drive the pipeline that probes it. */
typedef struct WrittenJoin
{
	HjgJoinState *join;
	const CustomScan *cscan;
	HjgSideId	built;
	HjgSideId	driving;
	HjgSideId	preserved;		/* of an outer join; or HJG_SIDES */
	HjgProgramOp probe;
	int			nkeys;
	int			keys[HJG_SIDES][HJG_PROGRAM_MAX_KEYS];	/* columns of the side */
	Bitmapset  *read[HJG_SIDES];	/* columns that are needed of the side */
	HjgProgramValue *columns;	/* of the scan tuple: those of the probe side, then those of the build side */
	HjgProgramValue *values[HJG_SIDES];	/* among these */
	uint32		table;			/* number of the table */
	int			npayload;
	int			payload[HJG_PROGRAM_MAX_PAYLOAD];	/* columns of the built side */
	int		   *payload_of;		/* by column of the built side that is read: the place of its value in the payload */
	const HjgFilter *exists;	/* of a semi or anti join: the comparison of a built column with a driving one, or NULL */
	int			compared;		/* the built column that it compares */
} WrittenJoin;

/* Choose the sides and the kind of the probe. Where each key of the table must come once the device process finds out whether it does. */
static bool
choose_probe(HjgProgramWriter *writer, WrittenJoin *written)
{
	const JoinType jointype = written->join->terms.jointype;

	written->built = written->join->terms.reversed ? HJG_SIDE_PROBE : HJG_SIDE_BUILD;
	written->driving = written->join->terms.reversed ? HJG_SIDE_BUILD : HJG_SIDE_PROBE;
	written->preserved = jointype == JOIN_LEFT ? HJG_SIDE_PROBE : jointype == JOIN_RIGHT ? HJG_SIDE_BUILD : HJG_SIDES;
	if (jointype == JOIN_INNER || written->built == written->preserved)
		written->probe = HJG_PROGRAM_PROBE_INNER;
	else if (jointype == JOIN_LEFT || jointype == JOIN_RIGHT)
		written->probe = HJG_PROGRAM_PROBE_LEFT;
	else if (jointype == JOIN_SEMI || jointype == HJG_JOIN_RIGHT_SEMI)
		written->probe = HJG_PROGRAM_PROBE_SEMI;
	else if (jointype == JOIN_ANTI || jointype == HJG_JOIN_RIGHT_ANTI)
		written->probe = HJG_PROGRAM_PROBE_ANTI;
	else
		return hjg_program_refuse(writer, "a join is of a type that programs do not have");
	return true;
}

/* Find the columns of a side's keys; all of them must be compared as integers. */
static bool
find_keys(HjgProgramWriter *writer, WrittenJoin *written, HjgSideId side)
{
	const List *exprs = list_nth(written->cscan->custom_exprs, side == HJG_SIDE_PROBE ? HJG_EXPRS_OUTER_KEYS : HJG_EXPRS_INNER_KEYS);
	const List *operators = list_nth(written->cscan->custom_private, HJG_PRIVATE_OPERATORS);
	const int	first = written->values[side] - written->columns;
	ListCell   *lc;

	foreach(lc, exprs)
	{
		const HjgSimpleOperator *op = hjg_vector_simple_operator(get_opcode(list_nth_oid(operators, foreach_current_index(lc))));
		const int	column = plain_column(lfirst(lc));

		if (op == NULL || op->ordinal != HJG_ORDINAL_INT || column < 0)
			return hjg_program_refuse(writer, "a join's key is no integer column");
		written->keys[side][foreach_current_index(lc)] = column - first;
		written->read[side] = bms_add_member(written->read[side], column - first);
	}
	return true;
}

static const HjgSide *
side_of(const WrittenJoin *written, HjgSideId side)
{
	return side == HJG_SIDE_PROBE ? &written->join->outer : &written->join->inner;
}

/* Write the rows of a side, with its keys in registers or ready to be loaded. */
static bool
write_side(HjgProgramWriter *writer, WrittenJoin *written, HjgSideId side)
{
	const HjgSide *from = side_of(written, side);

	if (!writer->write_rows(writer, from->plan, from->scan, written->read[side], written->values[side]))
		return false;
	for (int k = 0; k < written->nkeys; k++)
		if (written->values[side][written->keys[side][k]].form != HJG_VALUE_INTEGER)
			return hjg_program_refuse(writer, "a join's key is no integer column");
	return true;
}

/* Have a column of the built side in the payload; those that are told by the same row's number share it. */
static bool
add_payload(HjgProgramWriter *writer, WrittenJoin *written, int c)
{
	HjgProgramValue *values = written->values[written->built];
	int			reg;

	for (int p = 0; p < written->npayload && values[c].form == HJG_VALUE_ROW; p++)
		if (values[written->payload[p]].rows == values[c].rows)
		{
			written->payload_of[c] = p;
			return true;
		}
	reg = written->npayload < HJG_PROGRAM_MAX_PAYLOAD ? hjg_program_load(writer, &values[c]) : -1;
	if (reg < 0)
		return hjg_program_refuse(writer, "a join's table has too many columns");
	writer->pipeline.payload[written->npayload] = reg;
	written->payload_of[c] = written->npayload;
	written->payload[written->npayload++] = c;
	return true;
}

/* Note the bounds of a table's key, if it has one. */
static void
note_bounds(const WrittenJoin *written, HjgProgramTable *table)
{
	const HjgProgramValue *key = &written->values[written->built][written->keys[written->built][0]];

	table->has_bounds = table->nkeys == 1 && key->least <= key->greatest;
	table->least_key = key->least;
	table->greatest_key = key->greatest;
}

/*
 * End the pipeline of the built side with groups by the keys, and make a table of these, whose payload is the least and the greatest value of
 * the compared column: these tell whether any value passes a comparison.
 */
static bool
write_extremes(HjgProgramWriter *writer, WrittenJoin *written, uint64 expected_rows)
{
	const HjgProgramValue *compared = &written->values[written->built][written->compared];
	HjgProgramArgument argument = {.wants_extremes = true, .greatest = PG_UINT64_MAX};
	HjgProgramTable groups = {.nkeys = written->nkeys, .has_groups = 1, .narguments = 1};
	HjgProgramTable table = {.nkeys = written->nkeys, .npayload = 2, .unique = true};
	int			reg = hjg_program_load(writer, &written->values[written->built][written->compared]);

	if (compared->form > HJG_VALUE_NUMBER || compared->mixed)
		return hjg_program_refuse(writer, "a join has a condition on strings, or on numerics of several scales");
	if (reg < 0)
		return false;
	argument.reg = reg;
	groups.first_argument = writer->arguments.len / sizeof(HjgProgramArgument);
	appendBinaryStringInfo(&writer->arguments, (const char *) &argument, sizeof(argument));
	note_bounds(written, &groups);
	note_bounds(written, &table);
	groups.max_rows = Max(hjg_program_source_rows(writer), 1);
	groups.expected_rows = Min(expected_rows, groups.max_rows);
	for (int k = 0; k < written->nkeys; k++)
		hjg_program_noted(writer)->keys[k] = written->values[written->built][written->keys[written->built][k]].origin;
	if (!hjg_program_end_pipeline(writer, groups, false))
		return false;
	hjg_program_begin_groups(writer);
	table.max_rows = groups.max_rows;
	table.expected_rows = groups.expected_rows;
	for (int i = 0; i < written->nkeys + 2; i++)
	{
		const uint32 which = i < written->nkeys ? i : HJG_PROGRAM_GROUP_VALUE(written->nkeys, 0, HJG_PROGRAM_GROUP_LEAST + i - written->nkeys);

		reg = hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_GROUP, .arg = which});
		if (reg < 0)
			return false;
		if (i < written->nkeys)
			writer->pipeline.keys[i] = reg;
		else
			writer->pipeline.payload[i - written->nkeys] = reg;
	}
	written->npayload = 2;
	written->table = writer->ntables;
	return hjg_program_end_pipeline(writer, table, false);
}

/* Write the side that a table is built of; payload: the columns that the table gives back. */
static bool
write_build(HjgProgramWriter *writer, WrittenJoin *written, const Bitmapset *payload)
{
	HjgProgramValue *values = written->values[written->built];
	const Plan *plan = side_of(written, written->built)->plan->plan;
	const HjgJoinState *outer = writer->outer.join;
	HjgProgramTable table = {
		.nkeys = written->nkeys, .unique = written->probe == HJG_PROGRAM_PROBE_INNER || written->probe == HJG_PROGRAM_PROBE_LEFT
	};

	if (!write_side(writer, written, written->built))
		return false;
	if (writer->outer.join != outer)
		return hjg_program_refuse(writer, "a table has rows of an outer join with several partners");
	for (int k = 0; k < written->nkeys; k++)
	{
		const int	reg = hjg_program_load(writer, &values[written->keys[written->built][k]]);

		if (reg < 0)
			return false;
		writer->pipeline.keys[k] = reg;
	}
	if (written->exists != NULL)
		return write_extremes(writer, written, (uint64) Max(plan->plan_rows * DISTINCT_PART, 1));
	for (int c = -1; (c = bms_next_member(payload, c)) >= 0;)
		if (!add_payload(writer, written, c))
			return false;
	written->table = writer->ntables;
	note_bounds(written, &table);
	table.npayload = written->npayload;
	table.max_rows = hjg_program_source_rows(writer);
	table.expected_rows = (uint64) Max(Min(plan->plan_rows, (double) table.max_rows), 1);
	return hjg_program_end_pipeline(writer, table, false);
}

/*
 * Write the test whether any partner passes the comparison, by the extremes of its column; without a partner they are NULL, and compare as
 * false. anti: the row goes on if none does.
 */
static bool
write_exists(HjgProgramWriter *writer, const WrittenJoin *written, int least, bool anti)
{
	const HjgProgramValue *built = &written->values[written->built][written->compared];
	HjgProgramValue *driving = &written->columns[written->exists->column];
	HjgComparison comparison = written->exists->comparison;
	const int	greatest = least + 1;
	int			other = -1;
	int			reg;
	int			value;

	if (driving == built)
	{
		driving = &written->columns[written->exists->other];
		comparison = hjg_vector_commuted(comparison);
	}
	/* the driving value is on the left now */
	if (driving->form != built->form || driving->scale != built->scale || driving->own_scales || driving->mixed)
		return hjg_program_refuse(writer, "columns are compared that are no integers of one scale");
	value = hjg_program_load(writer, driving);
	if (value < 0)
		return false;
	reg = hjg_program_step_new(writer, (HjgProgramStep) {
		.op = hjg_program_comparison(comparison), .left = value, .right = comparison == HJG_COMPARE_GT || comparison == HJG_COMPARE_GE ? least : greatest
	});
	if (reg >= 0 && comparison == HJG_COMPARE_NE)
	{
		other = hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_NE, .left = value, .right = least});
		if (other < 0 || !hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_OR, .to = reg, .left = reg, .right = other}))
			return false;
		hjg_program_release(writer, other, 1);
	}
	if (reg < 0 || (anti && !hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_IN_RANGE, .to = reg, .left = reg})) ||
		!hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_FILTER, .left = reg}))
		return false;
	hjg_program_release(writer, reg, 1);
	hjg_program_release(writer, least, 2);
	return true;
}

/* Note which keys the rows of the pipeline have in common with those of the table. */
static void
note_probe(HjgProgramWriter *writer, const WrittenJoin *written)
{
	HjgNotedPipeline *noted = hjg_program_noted(writer);
	HjgNotedProbe *probe = palloc(sizeof(HjgNotedProbe));

	*probe = (HjgNotedProbe) {.table = written->table, .nkeys = written->nkeys};
	for (int k = 0; k < written->nkeys; k++)
	{
		probe->driving[k] = written->values[written->driving][written->keys[written->driving][k]].origin;
		probe->built[k] = written->values[written->built][written->keys[written->built][k]].origin;
	}
	noted->probes = lappend(noted->probes, probe);
}

/* Write the probe of the table in the current pipeline; sets the values that it gives back. */
static bool
write_probe(HjgProgramWriter *writer, const WrittenJoin *written, const Bitmapset *payload)
{
	const bool	anti = written->probe == HJG_PROGRAM_PROBE_ANTI;
	HjgProgramValue *keys[HJG_PROGRAM_MAX_KEYS];
	bool		copies;
	int			first_key;
	int			first_payload = 0;

	for (int k = 0; k < written->nkeys; k++)
		keys[k] = &written->values[written->driving][written->keys[written->driving][k]];
	first_key = hjg_program_load_all(writer, keys, written->nkeys, &copies);
	if (first_key < 0)
		return false;
	if (written->npayload > 0)
		first_payload = hjg_program_take(writer, written->npayload);
	if (first_payload < 0 ||
		!hjg_program_step(writer, (HjgProgramStep) {
			.op = written->exists == NULL ? written->probe : anti ? HJG_PROGRAM_PROBE_LEFT : HJG_PROGRAM_PROBE_INNER,
			.to = first_payload, .left = first_key, .arg = written->table
		}))
		return false;
	note_probe(writer, written);
	if (copies)
		hjg_program_release(writer, first_key, written->nkeys);
	if (written->exists != NULL)
		return write_exists(writer, written, first_payload, anti);
	for (int c = -1; (c = bms_next_member(payload, c)) >= 0;)
	{
		HjgProgramValue *value = &written->values[written->built][c];

		value->reg = first_payload + written->payload_of[c];
		value->collected = -1;
		value->of_group = 0;
		value->nullable |= written->probe == HJG_PROGRAM_PROBE_LEFT;
	}
	return true;
}

/* Have NULL for wanted columns of the built side, from[w] of the scan tuple: rows that go on have no partner there. */
static bool
give_nulls(HjgProgramWriter *writer, const WrittenJoin *written, const Bitmapset *wanted, const int *from)
{
	const int	nouter = written->join->outer.nplan_columns;
	int			reg = -1;

	for (int w = -1; (w = bms_next_member(wanted, w)) >= 0;)
	{
		HjgProgramValue *value = &written->columns[from[w]];

		if ((from[w] < nouter) != (written->built == HJG_SIDE_PROBE))
			continue;
		if (reg < 0)
			reg = hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_CONSTANT, .high = 1});
		if (reg < 0)
			return false;
		value->reg = reg;
		value->collected = -1;
		value->of_group = 0;
		value->origin.scan = NULL;
		value->nullable = true;
	}
	return true;
}

/* Have the built side's keys in the driving side's registers: partners have equal ones. */
static void
give_keys(const WrittenJoin *written)
{
	for (int k = 0; k < written->nkeys && written->probe == HJG_PROGRAM_PROBE_INNER; k++)
	{
		const HjgProgramValue *driving = &written->values[written->driving][written->keys[written->driving][k]];
		HjgProgramValue *built = &written->values[written->built][written->keys[written->built][k]];

		built->nullable = false;
		built->collected = driving->collected;
		built->reg = driving->reg;
		built->of_group = driving->of_group;
		built->origin = driving->origin;
	}
}

/* Leave out columns of the built side that the table need not give back: keys that the driving side has, or all, if rows go on without a partner. */
static Bitmapset *
drop_known(const WrittenJoin *written, Bitmapset *payload)
{
	if (written->probe == HJG_PROGRAM_PROBE_SEMI || written->probe == HJG_PROGRAM_PROBE_ANTI)
		return NULL;
	for (int k = 0; k < written->nkeys && written->probe == HJG_PROGRAM_PROBE_INNER; k++)
		payload = bms_del_member(payload, written->keys[written->built][k]);
	return payload;
}

/* Make the join's conditions beside its keys, with operands evaluated. */
static bool
make_residual(HjgProgramWriter *writer, const WrittenJoin *written, List *quals, HjgFilter *all)
{
	PlanState  *plan = &written->join->css.ss.ps;
	HjgConditions *conditions = palloc0(sizeof(HjgConditions));
	int		   *column_of = palloc((list_length(written->cscan->custom_scan_tlist) + 1) * sizeof(int));
	ListCell   *lc;

	for (int c = 0; c < list_length(written->cscan->custom_scan_tlist); c++)
		column_of[c] = c;
	*conditions = (HjgConditions) {.plan = plan, .varno = INDEX_VAR, .column_of = column_of};
	*all = (HjgFilter) {.kind = HJG_FILTER_ALL, .args = palloc((list_length(quals) + 1) * sizeof(HjgFilter *))};
	foreach(lc, quals)
	{
		HjgFilter  *filter = hjg_scan_condition_make(conditions, lfirst(lc));

		if (filter == NULL || conditions->nfallible > 0)
			return hjg_program_refuse(writer, "a join has conditions that are core's");
		all->args[all->nargs++] = filter;
	}
	hjg_scan_conditions_unbind(conditions);
	hjg_scan_conditions_bind(conditions);
	return true;
}

/* Find the one comparison of a semi or anti join beside its keys: of a built column with a driving one, and not for equality. */
static bool
find_exists(HjgProgramWriter *writer, WrittenJoin *written, const HjgFilter *residual)
{
	const HjgFilter *leaf = residual->nargs == 1 ? residual->args[0] : NULL;
	const int	nouter = written->join->outer.nplan_columns;
	bool		column_built;

	if ((written->probe != HJG_PROGRAM_PROBE_SEMI && written->probe != HJG_PROGRAM_PROBE_ANTI) || leaf == NULL || (leaf->kind != HJG_FILTER_COLUMNS && leaf->kind != HJG_FILTER_NUMERIC_COLUMNS) || leaf->comparison == HJG_COMPARE_EQ ||
		(leaf->kind == HJG_FILTER_COLUMNS && leaf->ordinal != HJG_ORDINAL_INT) || (leaf->column < nouter) == (leaf->other < nouter))
		return hjg_program_refuse(writer, "a join has further conditions");
	column_built = (leaf->column < nouter) == (written->built == HJG_SIDE_PROBE);
	written->exists = leaf;
	written->compared = column_built ? leaf->column : leaf->other;
	written->compared -= written->built == HJG_SIDE_PROBE ? 0 : nouter;
	return true;
}

/* Split columns of the scan tuple by sides. */
static void
read_columns(WrittenJoin *written, const Bitmapset *columns)
{
	const int	nouter = written->join->outer.nplan_columns;

	for (int c = -1; (c = bms_next_member(columns, c)) >= 0;)
	{
		const HjgSideId side = c < nouter ? HJG_SIDE_PROBE : HJG_SIDE_BUILD;

		written->read[side] = bms_add_member(written->read[side], c < nouter ? c : c - nouter);
	}
}

/* Note an outer join whose preserved side's rows must come to the groups in another pipeline, too. */
static bool
note_outer(HjgProgramWriter *writer, const HjgJoinState *join)
{
	if (writer->outer.join != NULL)
		return hjg_program_refuse(writer, "two outer joins have several partners");
	writer->outer.join = join;
	return true;
}

/* Write the rows of the preserved side of an outer join alone. */
static bool
write_preserved(HjgProgramWriter *writer, WrittenJoin *written)
{
	const HjgSide *from = side_of(written, written->preserved);

	if (!bms_is_empty(written->read[written->driving]))
		return hjg_program_refuse(writer, "columns that are NULL without partners are needed");
	return writer->write_rows(writer, from->plan, from->scan, written->read[written->preserved], written->values[written->preserved]);
}

bool
hjg_program_write_join(HjgProgramWriter *writer, HjgJoinState *join, const Bitmapset *wanted, HjgProgramValue *values)
{
	const CustomScan *cscan = castNode(CustomScan, join->css.ss.ps.plan);
	List	   *quals = list_nth(cscan->custom_exprs, HJG_EXPRS_JOIN_QUAL);
	int		   *from = palloc((list_length(cscan->scan.plan.targetlist) + 1) * sizeof(int));
	WrittenJoin written = {.join = join, .cscan = cscan, .nkeys = list_length(list_nth(cscan->custom_exprs, HJG_EXPRS_OUTER_KEYS))};
	const bool	inner = join->terms.jointype == JOIN_INNER;
	Bitmapset  *columns = NULL;
	HjgFilter	residual;
	Bitmapset  *payload;

	written.columns = palloc0((list_length(cscan->custom_scan_tlist) + 1) * sizeof(HjgProgramValue));
	written.payload_of = palloc((list_length(cscan->custom_scan_tlist) + 1) * sizeof(int));
	written.values[HJG_SIDE_PROBE] = written.columns;
	written.values[HJG_SIDE_BUILD] = written.columns + join->outer.nplan_columns;
	if (join->css.ss.ps.qual != NULL || contain_subplans((Node *) quals))
		return hjg_program_refuse(writer, "a join has further conditions");
	if (written.nkeys > HJG_PROGRAM_MAX_KEYS)
		return hjg_program_refuse(writer, "a join has too many keys");
	if (!choose_probe(writer, &written) || !find_outputs(writer, cscan, wanted, from) || !make_residual(writer, &written, quals, &residual) ||
		(!inner && quals != NIL && !find_exists(writer, &written, &residual)))
		return false;
	for (int w = -1; (w = bms_next_member(wanted, w)) >= 0;)
		columns = bms_add_member(columns, from[w]);
	hjg_node_columns((Node *) quals, &columns);
	read_columns(&written, columns);
	if (written.built == written.preserved && writer->outer.alone)
	{
		if (!write_preserved(writer, &written))
			return false;
		for (int w = -1; (w = bms_next_member(wanted, w)) >= 0;)
			values[w] = written.columns[from[w]];
		return true;
	}
	if (written.built == written.preserved && !note_outer(writer, join))
		return false;
	payload = bms_copy(written.read[written.built]);
	if (!find_keys(writer, &written, HJG_SIDE_PROBE) || !find_keys(writer, &written, HJG_SIDE_BUILD))
		return false;
	payload = drop_known(&written, payload);
	if (!write_build(writer, &written, payload) || !write_side(writer, &written, written.driving) || !write_probe(writer, &written, payload))
		return false;
	give_keys(&written);
	if (written.probe == HJG_PROGRAM_PROBE_ANTI && !give_nulls(writer, &written, wanted, from))
		return false;
	if (inner && !hjg_program_write_filter(writer, &residual, NULL, written.columns))
		return false;
	for (int w = -1; (w = bms_next_member(wanted, w)) >= 0;)
		values[w] = written.columns[from[w]];
	return true;
}
