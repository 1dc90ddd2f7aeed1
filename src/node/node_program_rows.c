/*
 * node_program_rows.c
 *	  Writes the rows of scans as pipelines of a program, and finds out who writes those of other nodes.
 *
 * A table is the beginning of a pipeline: its conditions, then its columns, each loaded when something needs it. A table that is read by two pipelines
 * has the same rows, numbers of rows and numbers of strings in both.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "optimizer/clauses.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "node/hjg_program_write.h"
#include "planner/hjg_planner.h"

/* Most strings of a column, each of which gets a number. */
#define MOST_NUMBERED 100000

/* Strings are numbered if this part of a table's blocks has codes of them. */
#define LEAST_CODED 0.9

/* ---------- tables ---------- */

/* Describe a column by one of its segments. */
static HjgValueForm
form_of(const HjgKeptColumn *column)
{
	return column->code == HJG_KEPT_WORDS || column->code == HJG_KEPT_BYTES ? HJG_VALUE_WORD : column->code == HJG_KEPT_NUMBERS ? HJG_VALUE_NUMBER : HJG_VALUE_INTEGER;
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

/* Describe the collected columns: all segments are looked at. */
static bool
describe_values(HjgProgramWriter *writer, HjgToldRows *rows)
{
	const HjgCollection *collection = &rows->collection;
	HjgProgramValue *values = palloc0((collection->ncolumns + 1) * sizeof(HjgProgramValue));

	rows->told = palloc0((collection->ncolumns + 1) * sizeof(int8));
	for (int c = 0; c < collection->ncolumns; c++)
	{
		Form_pg_attribute att = TupleDescAttr(writer->desc, collection->attnos[c] - 1);

		values[c] = (HjgProgramValue) {.collected = c, .reg = -1, .origin = {rows->scans[0], collection->attnos[c]}};
		if (!att->attbyval)
			values[c].form = getBaseType(att->atttypid) == NUMERICOID ? HJG_VALUE_NUMBER : HJG_VALUE_WORD;
	}
	for (int s = 0; s < collection->nsegments; s++)
		for (int c = 0; c < collection->ncolumns; c++)
			if (!note_segment(writer, collection->segments[s].columns[c], s == 0, &values[c]))
				return false;
	rows->values = values;
	return true;
}

/* Is a string of a segment compressed? */
static bool
has_compressed_words(const HjgCollectedSegment *segment, int c)
{
	HjgKeptView view;

	hjg_scan_collected_view(segment, c, &view);
	for (uint32 w = 0; w < view.column->nwords; w++)
		if (VARATT_IS_COMPRESSED(view.bytes + view.places[w]))
			return true;
	return false;
}

/*
 * Are strings of a collected column told by the numbers of their rows? Those that have no codes, or are compressed, and those that are
 * many: to number them would take long.
 */
static bool
has_many_words(const HjgCollection *collection, int c)
{
	uint64		nwords = 0;

	for (int s = 0; s < collection->nsegments; s++)
	{
		const HjgKeptColumn *column = collection->segments[s].columns[c];

		nwords += column->nwords;
		if (column->code == HJG_KEPT_BYTES || nwords > MOST_NUMBERED || has_compressed_words(&collection->segments[s], c))
			return true;
	}
	return false;
}

static bool
is_told_by_row(const HjgToldRows *rows, int c)
{
	if (rows->told[c] == 0)
		rows->told[c] = has_many_words(&rows->collection, c) ? 1 : -1;
	return rows->told[c] > 0;
}

/* Find the attributes among these that are strings without codes: they are not collected, and told by the numbers of their rows. */
static Bitmapset *
find_uncoded(Relation relation, const Bitmapset *attnos)
{
	Bitmapset  *uncoded = NULL;

	for (int attno = -1; (attno = bms_next_member(attnos, attno)) >= 0;)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(relation), attno - 1);

		if (hjg_scan_is_string(att) &&
			hjg_scan_kept_share(relation, RelationGetNumberOfBlocks(relation), bms_make_singleton(attno), true) < LEAST_CODED)
			uncoded = bms_add_member(uncoded, attno);
	}
	return uncoded;
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

/* Begin a pipeline with the collected rows, and write their conditions; returns values of the collection's columns. */
static HjgProgramValue *
write_table(HjgProgramWriter *writer, const HjgProgramScans *scans, HjgToldRows *rows)
{
	const Size	nbytes = (rows->collection.ncolumns + 1) * sizeof(HjgProgramValue);
	HjgProgramValue *collected;

	writer->collection = rows->collection;
	writer->desc = scans->scans[0]->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	hjg_program_begin_pipeline(writer, rows);
	if (rows->values == NULL && !describe_values(writer, rows))
		return NULL;
	collected = memcpy(palloc(nbytes), rows->values, nbytes);
	if (!hjg_program_write_range(writer, collected) ||
		(scans->conditions != NULL && !hjg_program_write_filter(writer, scans->conditions, scans->condition_attnos, collected)))
		return NULL;
	return collected;
}

/* Set the value of a collected column for those who read it. */
static void
give_collected(HjgProgramWriter *writer, const HjgToldRows *rows, bool wanted, HjgProgramValue *value, int c)
{
	/* a string that a condition has loaded is a code, not a number */
	if (value->reg >= 0 && (value->form == HJG_VALUE_WORD || !wanted))
	{
		hjg_program_release(writer, value->reg, 1);
		value->reg = -1;
	}
	if (value->form == HJG_VALUE_WORD && wanted && TupleDescAttr(writer->desc, writer->collection.attnos[c] - 1)->attlen == -1 && is_told_by_row(rows, c))
	{
		value->form = HJG_VALUE_ROW;
		value->rows = rows;
		value->attno = writer->collection.attnos[c];
	}
	else if (value->form == HJG_VALUE_WORD)
		value->words = &rows->words[c];
}

static bool
write_scan(HjgProgramWriter *writer, PlanState *plan, const Bitmapset *wanted, HjgProgramValue *values)
{
	const AttrNumber *attnos;
	HjgToldRows *rows;
	Bitmapset  *read = NULL;
	Bitmapset  *uncoded = NULL;
	HjgProgramScans scans;
	HjgProgramValue *collected;

	if (!hjg_program_find_scans(writer, plan, &scans))
		return false;
	attnos = scan_attributes(&scans.scans[0]->ss.ps);
	for (int w = -1; (w = bms_next_member(wanted, w)) >= 0;)
		read = bms_add_member(read, attnos[w]);
	for (int i = 0; i < scans.n; i++)
		uncoded = bms_add_members(uncoded, find_uncoded(scans.scans[i]->ss.ss_currentRelation, read));
	read = bms_difference(read, uncoded);
	rows = hjg_program_collect(writer, &scans, read);
	collected = rows != NULL ? write_table(writer, &scans, rows) : NULL;
	if (collected == NULL)
		return false;
	for (int c = 0; c < writer->collection.ncolumns; c++)
	{
		const AttrNumber attno = writer->collection.attnos[c];

		give_collected(writer, rows, bms_is_member(attno, read), &collected[c], c);
		for (int w = -1; (w = bms_next_member(wanted, w)) >= 0;)
			if (attnos[w] == attno && !bms_is_member(attno, uncoded))
				values[w] = collected[c];
	}
	for (int w = -1; (w = bms_next_member(wanted, w)) >= 0;)
		if (bms_is_member(attnos[w], uncoded))
			values[w] = (HjgProgramValue) {.form = HJG_VALUE_ROW, .collected = -1, .reg = -1, .rows = rows, .attno = attnos[w]};
	return true;
}

/* ---------- rows of a plan ---------- */

/* Write the rows of a subquery scan that is left in the plan: columns of its child. */
static bool
write_subquery(HjgProgramWriter *writer, SubqueryScanState *scan, const Bitmapset *wanted, HjgProgramValue *values)
{
	const List *target = scan->ss.ps.plan->targetlist;
	HjgProgramValue *below = palloc0((list_length(scan->subplan->plan->targetlist) + 1) * sizeof(HjgProgramValue));
	Bitmapset  *read = NULL;

	if (scan->ss.ps.qual != NULL)
		return hjg_program_refuse(writer, "a subquery has conditions that are core's");
	for (int w = -1; (w = bms_next_member(wanted, w)) >= 0;)
	{
		const Var  *column = (const Var *) list_nth_node(TargetEntry, target, w)->expr;

		if (!IsA(column, Var) || column->varattno <= 0)
			return hjg_program_refuse(writer, "a subquery computes columns");
		read = bms_add_member(read, column->varattno - 1);
	}
	if (!hjg_program_write_rows(writer, scan->subplan, NULL, read, below))
		return false;
	for (int w = -1; (w = bms_next_member(wanted, w)) >= 0;)
		values[w] = below[castNode(Var, list_nth_node(TargetEntry, target, w)->expr)->varattno - 1];
	return true;
}

bool
hjg_program_write_rows(HjgProgramWriter *writer, PlanState *plan, HjgScan *scan, const Bitmapset *wanted, HjgProgramValue *values)
{
	HjgJoinState *join = hjg_node_join(plan);
	HjgAggregateState *grouping = hjg_grouping_node(plan);

	check_stack_depth();
	if (scan != NULL || hjg_program_is_partitioned(plan))
		return write_scan(writer, plan, wanted, values);
	if (join != NULL)
		return hjg_program_write_join(writer, join, wanted, values);
	if (grouping != NULL)
		return hjg_program_write_grouped(writer, grouping, wanted, values);
	if (IsA(plan, SubqueryScanState))
		return write_subquery(writer, (SubqueryScanState *) plan, wanted, values);
	return hjg_program_refuse(writer, "its rows come from another node");
}
