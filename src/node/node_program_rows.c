/*
 * node_program_rows.c
 *	  Writes the rows of scans and joins as pipelines of a program.
 *
 * A table is the beginning of a pipeline: its conditions, then its columns, each loaded when something needs it. A join ends the
 * build side's pipeline in a table, and probes that in the pipeline of the probe side. Its columns are the probe side's, and
 * those of the build side that the table gives back.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"

#include "node/hjg_program_write.h"
#include "planner/hjg_planner.h"

/* This part of a table may have to be read from pages; beyond that the node's own scan is the better one. */
#define MOST_LIVE 0.25

/* ---------- tables ---------- */

/* Describe a column by one of its segments. */
static HjgValueForm
form_of(const HjgKeptColumn *column)
{
	return column->code == HJG_KEPT_WORDS ? HJG_VALUE_WORD : column->code == HJG_KEPT_NUMBERS ? HJG_VALUE_NUMBER : HJG_VALUE_INTEGER;
}

/* Add what a segment tells of a column; first: nothing is known of it yet. */
static bool
note_segment(HjgProgramWriter *writer, const HjgKeptColumn *column, bool first, HjgProgramValue *value)
{
	/* zeros may come with another scale where all others are NULL */
	const bool	zeros = column->code == HJG_KEPT_NUMBERS && column->least == 0 && column->greatest == 0;

	value->nullable |= column->has_nulls;
	if (first)
	{
		value->form = form_of(column);
		value->scale = column->scale;
		value->least = column->least;
		value->greatest = column->greatest;
		return true;
	}
	if (value->form != form_of(column))
		return hjg_program_refuse(writer, "values of a column are kept in several forms");
	if (column->code == HJG_KEPT_NUMBERS && column->scale != value->scale)
	{
		if (zeros)
			value->mixed = true;
		else if (value->least == 0 && value->greatest == 0)
		{
			value->mixed = true;
			value->scale = column->scale;
		}
		else
			return hjg_program_refuse(writer, "a column has numerics of several scales");
	}
	value->least = Min(value->least, column->least);
	value->greatest = Max(value->greatest, column->greatest);
	return true;
}

/* Describe the collected columns. */
static bool
describe_values(HjgProgramWriter *writer, HjgProgramValue *values)
{
	const HjgCollection *collection = &writer->collection;

	for (int c = 0; c < collection->ncolumns; c++)
	{
		Form_pg_attribute att = TupleDescAttr(writer->desc, collection->attnos[c] - 1);

		values[c] = (HjgProgramValue) {.collected = c, .reg = -1};
		if (!att->attbyval)
			values[c].form = getBaseType(att->atttypid) == NUMERICOID ? HJG_VALUE_NUMBER : HJG_VALUE_WORD;
	}
	for (int s = 0; s < collection->nsegments; s++)
		for (int c = 0; c < collection->ncolumns; c++)
			if (!note_segment(writer, collection->segments[s].columns[c], s == 0, &values[c]))
				return false;
	return true;
}

/* Get the attribute of each column of a scan, whose columns are plain. */
static AttrNumber *
scan_attributes(const PlanState *plan)
{
	AttrNumber *attnos = palloc((list_length(plan->plan->targetlist) + 1) * sizeof(AttrNumber));
	ListCell   *lc;

	foreach(lc, plan->plan->targetlist)
		attnos[foreach_current_index(lc)] = castNode(Var, lfirst_node(TargetEntry, lc)->expr)->varattno;
	return attnos;
}

/* Collect a table's rows, and write its conditions; collected: values of the collection's columns. */
static HjgProgramValue *
write_table(HjgProgramWriter *writer, SeqScanState *seq, const Bitmapset *attnos)
{
	HjgScanFilter *filter = hjg_scan_filter_create(seq, CurrentMemoryContext);
	const AttrNumber *filter_attnos = NULL;
	const HjgFilter *conditions = filter != NULL ? hjg_scan_filter_bound(filter, &filter_attnos) : NULL;
	HjgProgramValue *collected;
	const char *why;

	if (seq->ss.ps.qual != NULL && conditions == NULL)
	{
		hjg_program_refuse(writer, "a table has conditions that are core's");
		return NULL;
	}
	why = hjg_scan_collect(seq, attnos, filter, MOST_LIVE, &writer->collection);
	if (why != NULL)
	{
		hjg_program_refuse(writer, why);
		return NULL;
	}
	writer->desc = seq->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	HJG_ADD_COUNTS(writer->counts, writer->collection.counts);
	collected = palloc0((writer->collection.ncolumns + 1) * sizeof(HjgProgramValue));
	hjg_program_begin_pipeline(writer);
	if (!describe_values(writer, collected) ||
		(conditions != NULL && !hjg_program_write_filter(writer, conditions, filter_attnos, collected)))
		return NULL;
	return collected;
}

static bool
write_scan(HjgProgramWriter *writer, PlanState *plan, const Bitmapset *wanted, HjgProgramValue *values)
{
	const AttrNumber *attnos = scan_attributes(plan);
	Bitmapset  *read = NULL;
	HjgProgramValue *collected;
	int			w = -1;

	while ((w = bms_next_member(wanted, w)) >= 0)
		read = bms_add_member(read, attnos[w]);
	collected = write_table(writer, (SeqScanState *) plan, read);
	if (collected == NULL)
		return false;
	for (int c = 0; c < writer->collection.ncolumns; c++)
	{
		HjgProgramValue *value = &collected[c];

		/* a string that a condition has loaded is a code, not a number */
		if (value->reg >= 0 && (value->form == HJG_VALUE_WORD || !bms_is_member(writer->collection.attnos[c], read)))
		{
			hjg_program_release(writer, value->reg, 1);
			value->reg = -1;
		}
		if (value->form == HJG_VALUE_WORD)
			value->words = palloc0(sizeof(HjgProgramWords));
		for (w = -1; (w = bms_next_member(wanted, w)) >= 0;)
			if (attnos[w] == writer->collection.attnos[c])
				values[w] = *value;
	}
	return true;
}

/* ---------- joins ---------- */

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

/* Find the columns of a side's keys, counted from its first; all of them must be compared as integers. */
static bool
find_keys(HjgProgramWriter *writer, const CustomScan *cscan, HjgPlanExprs side, int first, int *keys)
{
	const List *exprs = list_nth(cscan->custom_exprs, side);
	const List *operators = list_nth(cscan->custom_private, HJG_PRIVATE_OPERATORS);
	ListCell   *lc;

	foreach(lc, exprs)
	{
		const HjgSimpleOperator *op = hjg_vector_simple_operator(get_opcode(list_nth_oid(operators, foreach_current_index(lc))));
		const int	column = plain_column(lfirst(lc));

		if (op == NULL || op->ordinal != HJG_ORDINAL_INT || column < 0)
			return hjg_program_refuse(writer, "a join's key is no integer column");
		keys[foreach_current_index(lc)] = column - first;
	}
	return true;
}

/* Find the kind of a join's probe. unique: each key of the build side must come once, which the device process finds out. */
static bool
find_probe(HjgProgramWriter *writer, const HjgJoinTerms *terms, HjgProgramOp *probe, bool *unique)
{
	*unique = true;
	switch (terms->jointype)
	{
		case JOIN_INNER:
			*probe = HJG_PROGRAM_PROBE_INNER;
			break;
		case JOIN_LEFT:
			*probe = HJG_PROGRAM_PROBE_LEFT;
			break;
		case JOIN_SEMI:
			*unique = false;
			*probe = HJG_PROGRAM_PROBE_SEMI;
			break;
		case JOIN_ANTI:
			*unique = false;
			*probe = HJG_PROGRAM_PROBE_ANTI;
			break;
		default:
			return hjg_program_refuse(writer, "a join is of a type that programs do not have");
	}
	return true;
}

/* The table of a join's build side. */
typedef struct BuiltTable
{
	uint32		number;
	int			nkeys;
	int			npayload;
	int			payload[HJG_PROGRAM_MAX_PAYLOAD];	/* columns of the build side */
} BuiltTable;

/* Write the build side of a join, which ends in a table. */
static bool
write_build(HjgProgramWriter *writer, HjgJoinState *join, const int *keys, const Bitmapset *wanted, bool unique, BuiltTable *built, HjgProgramValue *values)
{
	HjgProgramValue *loaded[HJG_PROGRAM_MAX_KEYS];
	Bitmapset  *read = bms_copy(wanted);
	HjgProgramTable table = {.nkeys = built->nkeys, .unique = unique};
	int			c = -1;

	for (int k = 0; k < built->nkeys; k++)
		read = bms_add_member(read, keys[k]);
	if (!hjg_program_write_rows(writer, join->inner.plan, join->inner.scan, read, values))
		return false;
	for (int k = 0; k < built->nkeys; k++)
	{
		const int	reg = values[keys[k]].form == HJG_VALUE_INTEGER ? hjg_program_load(writer, &values[keys[k]]) : -1;

		if (reg < 0)
			return hjg_program_refuse(writer, "a join's key is no integer column");
		loaded[k] = &values[keys[k]];
		writer->pipeline.keys[k] = loaded[k]->reg;
	}
	while ((c = bms_next_member(wanted, c)) >= 0)
	{
		const int	reg = built->npayload < HJG_PROGRAM_MAX_PAYLOAD ? hjg_program_load(writer, &values[c]) : -1;

		if (reg < 0)
			return hjg_program_refuse(writer, "a join's build side has too many columns");
		writer->pipeline.payload[built->npayload] = reg;
		built->payload[built->npayload++] = c;
	}
	built->number = writer->tables.len / sizeof(HjgProgramTable);
	table.npayload = built->npayload;
	table.max_rows = writer->collection.nrows;
	table.expected_rows = (uint64) Max(Min(join->inner.plan->plan->plan_rows, (double) table.max_rows), 1);
	appendBinaryStringInfo(&writer->tables, (const char *) &table, sizeof(table));
	return hjg_program_end_pipeline(writer, built->number);
}

/* Write the probe of a table in the current pipeline; sets the build side's values to what it gives back. */
static bool
write_probe(HjgProgramWriter *writer, HjgProgramOp probe, const BuiltTable *built, const int *keys, HjgProgramValue *outer, HjgProgramValue *inner)
{
	HjgProgramValue *values[HJG_PROGRAM_MAX_KEYS];
	bool		copies;
	int			first_key;
	int			first_payload = 0;

	for (int k = 0; k < built->nkeys; k++)
	{
		values[k] = &outer[keys[k]];
		if (values[k]->form != HJG_VALUE_INTEGER)
			return hjg_program_refuse(writer, "a join's key is no integer column");
	}
	first_key = hjg_program_load_all(writer, values, built->nkeys, &copies);
	if (first_key < 0)
		return false;
	if (built->npayload > 0)
		first_payload = hjg_program_take(writer, built->npayload);
	if (first_payload < 0 ||
		!hjg_program_step(writer, (HjgProgramStep) {.op = probe, .to = first_payload, .left = first_key, .arg = built->number}))
		return false;
	if (copies)
		hjg_program_release(writer, first_key, built->nkeys);
	for (int p = 0; p < built->npayload; p++)
	{
		HjgProgramValue *value = &inner[built->payload[p]];

		value->reg = first_payload + p;
		value->collected = -1;
		value->nullable |= probe == HJG_PROGRAM_PROBE_LEFT;
	}
	return true;
}

static bool
write_join(HjgProgramWriter *writer, HjgJoinState *join, const Bitmapset *wanted, HjgProgramValue *values)
{
	const CustomScan *cscan = castNode(CustomScan, join->css.ss.ps.plan);
	const int	nouter = join->outer.nplan_columns;
	const int	ninner = join->inner.nplan_columns;
	const int	nkeys = list_length(list_nth(cscan->custom_exprs, HJG_EXPRS_OUTER_KEYS));
	int		   *from = palloc((list_length(cscan->scan.plan.targetlist) + 1) * sizeof(int));
	HjgProgramValue *outer = palloc0((nouter + 1) * sizeof(HjgProgramValue));
	HjgProgramValue *inner = palloc0((ninner + 1) * sizeof(HjgProgramValue));
	BuiltTable	built = {.nkeys = nkeys};
	Bitmapset  *read[HJG_SIDES] = {NULL};
	HjgProgramOp probe = HJG_PROGRAM_PROBE_INNER;
	bool		unique = true;
	int			outer_keys[HJG_PROGRAM_MAX_KEYS];
	int			inner_keys[HJG_PROGRAM_MAX_KEYS];

	if (join->css.ss.ps.qual != NULL || list_nth(cscan->custom_exprs, HJG_EXPRS_JOIN_QUAL) != NIL)
		return hjg_program_refuse(writer, "a join has further conditions");
	if (nkeys > HJG_PROGRAM_MAX_KEYS)
		return hjg_program_refuse(writer, "a join has too many keys");
	if (!find_probe(writer, &join->terms, &probe, &unique) || !find_outputs(writer, cscan, wanted, from) ||
		!find_keys(writer, cscan, HJG_EXPRS_OUTER_KEYS, 0, outer_keys) ||
		!find_keys(writer, cscan, HJG_EXPRS_INNER_KEYS, nouter, inner_keys))
		return false;
	for (int w = -1; (w = bms_next_member(wanted, w)) >= 0;)
	{
		const HjgSideId side = from[w] < nouter ? HJG_SIDE_PROBE : HJG_SIDE_BUILD;

		read[side] = bms_add_member(read[side], from[w] < nouter ? from[w] : from[w] - nouter);
	}
	if (!write_build(writer, join, inner_keys, read[HJG_SIDE_BUILD], unique, &built, inner))
		return false;
	for (int k = 0; k < nkeys; k++)
		read[HJG_SIDE_PROBE] = bms_add_member(read[HJG_SIDE_PROBE], outer_keys[k]);
	if (!hjg_program_write_rows(writer, join->outer.plan, join->outer.scan, read[HJG_SIDE_PROBE], outer) ||
		!write_probe(writer, probe, &built, outer_keys, outer, inner))
		return false;
	for (int w = -1; (w = bms_next_member(wanted, w)) >= 0;)
		values[w] = from[w] < nouter ? outer[from[w]] : inner[from[w] - nouter];
	return true;
}

bool
hjg_program_write_rows(HjgProgramWriter *writer, PlanState *plan, HjgScan *scan, const Bitmapset *wanted, HjgProgramValue *values)
{
	HjgJoinState *join = hjg_node_join(plan);

	check_stack_depth();
	if (scan != NULL)
		return write_scan(writer, plan, wanted, values);
	if (join != NULL)
		return write_join(writer, join, wanted, values);
	return hjg_program_refuse(writer, "its rows come from another node");
}
