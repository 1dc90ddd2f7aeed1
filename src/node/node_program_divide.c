/*
 * node_program_divide.c
 *	  Divides a program among several devices.
 *
 * By ranges of a key: each device has the rows of one range. They drive the last pipeline, or, if that one reads groups, the pipelines that fill
 * these; and where they are looked up by that key, the table's partners have a key of the same range, so that device needs no other rows
 * of the table, either. So a large build side is divided, no row is sent from one device to another, and tables whose rows came in the
 * order of the key are divided by segments. A row whose key is NULL has no partner anywhere: the first device has it. Tables that are looked up
 * by other keys are as a whole on each device. Groups are whole if the key is one of theirs; others are parts, which the node adds up.
 *
 * By segments: those of the table that the last pipeline reads, by their numbers. All other pipelines run as a whole on each device.
 *
 * The least work of a device decides: where rows do not come in the order of a key, each device reads all of them to find its own.
 *
 * By which keys a program can be divided is known when its pipelines have been written, but their segments depend on it. So they are written once
 * without segments, and noted: which keys are columns of the pipeline's table, as they are there (HjgProgramOrigin), and where they are looked up.
 */
#include "postgres.h"

#include <float.h>

#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "node/hjg_program_write.h"

/* Parts of the key's values by which rows are counted. */
#define MOST_PARTS 4096

/* The work to find out that a row is another device's, in that for a row of its own. */
#define PASSED_WORK 0.4

HjgNotedPipeline *
hjg_program_noted(const HjgProgramWriter *writer)
{
	return llast(writer->noted);
}

static bool
are_same_origins(HjgProgramOrigin a, HjgProgramOrigin b)
{
	return a.scan != NULL && a.scan == b.scan && a.attno == b.attno;
}

/* ---------- which pipelines a key divides ---------- */

/* Find the number of a key among those of the groups of a table; -1: it is none of them. */
static int
find_group_key(const List *pipelines, uint32 table, HjgProgramOrigin key)
{
	ListCell   *lc;

	foreach(lc, pipelines)
	{
		const HjgNotedPipeline *pipeline = lfirst(lc);

		for (int k = 0; pipeline->sink == table && k < HJG_PROGRAM_MAX_KEYS; k++)
			if (are_same_origins(pipeline->keys[k], key))
				return k;
	}
	return -1;
}

static bool divides_groups(const List *pipelines, uint32 table, int k);

/* Does a key tell of each row of a pipeline which device has it? */
static bool
divides_pipeline(const List *pipelines, const HjgNotedPipeline *pipeline, HjgProgramOrigin key)
{
	return key.scan != NULL && (pipeline->rows != NULL ? pipeline->rows->scans[0] == key.scan :
								divides_groups(pipelines, pipeline->source, find_group_key(pipelines, pipeline->source, key)));
}

/* Does the key of this number tell of each row that comes to groups which device has it? */
static bool
divides_groups(const List *pipelines, uint32 table, int k)
{
	ListCell   *lc;

	foreach(lc, pipelines)
	{
		const HjgNotedPipeline *pipeline = lfirst(lc);

		if (k < 0 || (pipeline->sink == table && !divides_pipeline(pipelines, pipeline, pipeline->keys[k])))
			return false;
	}
	return true;
}

/* Does a key divide each pipeline that fills a hash table? The key is the one of its rows that is looked up as number k of this probe. */
static bool
divides_table(const List *pipelines, const HjgNotedProbe *probe, int k)
{
	ListCell   *lc;

	foreach(lc, pipelines)
		if (((const HjgNotedPipeline *) lfirst(lc))->sink == probe->table && !divides_pipeline(pipelines, lfirst(lc), probe->built[k]))
			return false;
	return true;
}

static void divide_groups(const List *pipelines, uint32 table, int k);

/* Divide a pipeline by a key, and the tables where that is looked up. */
static void
divide_noted(const List *pipelines, HjgNotedPipeline *pipeline, HjgProgramOrigin key)
{
	ListCell   *lc;
	ListCell   *lc2;

	if (pipeline->rows != NULL)
		pipeline->divided_by = key.attno;
	else
		divide_groups(pipelines, pipeline->source, find_group_key(pipelines, pipeline->source, key));
	foreach(lc, pipeline->probes)
	{
		const HjgNotedProbe *probe = lfirst(lc);
		int			k = 0;

		while (k < probe->nkeys && !(are_same_origins(probe->driving[k], key) && divides_table(pipelines, probe, k)))
			k++;
		foreach(lc2, pipelines)
			if (k < probe->nkeys && ((const HjgNotedPipeline *) lfirst(lc2))->sink == probe->table)
				divide_noted(pipelines, lfirst(lc2), probe->built[k]);
	}
}

static void
divide_groups(const List *pipelines, uint32 table, int k)
{
	ListCell   *lc;

	foreach(lc, pipelines)
		if (((const HjgNotedPipeline *) lfirst(lc))->sink == table)
			divide_noted(pipelines, lfirst(lc), ((const HjgNotedPipeline *) lfirst(lc))->keys[k]);
}

/* ---------- which key ---------- */

/* A way to divide a program: by key k of its groups, or by a key of the rows of the one pipeline that makes them. */
typedef struct Candidate
{
	int			k;				/* -1: */
	HjgProgramOrigin key;
} Candidate;

/* Add a key of the rows of the pipeline that makes the groups, if it divides that. */
static List *
add_candidate(List *candidates, const List *pipelines, const HjgNotedPipeline *last, HjgProgramOrigin key)
{
	Candidate  *candidate = palloc(sizeof(Candidate));

	*candidate = (Candidate) {.k = -1, .key = key};
	return divides_pipeline(pipelines, last, key) ? lappend(candidates, candidate) : candidates;
}

/* List all ways to divide a program by a key. */
static List *
list_candidates(const List *pipelines, uint32 result)
{
	List	   *candidates = NIL;
	HjgNotedPipeline *last = NULL;
	int			nlast = 0;
	ListCell   *lc;

	for (int k = 0; k < HJG_PROGRAM_MAX_KEYS; k++)
		if (divides_groups(pipelines, result, k))
		{
			candidates = lappend(candidates, palloc0(sizeof(Candidate)));
			((Candidate *) llast(candidates))->k = k;
		}
	foreach(lc, pipelines)
		if (((const HjgNotedPipeline *) lfirst(lc))->sink == result)
		{
			last = lfirst(lc);
			nlast++;
		}
	/* several pipelines have only the keys of the groups in common */
	foreach(lc, nlast == 1 ? last->probes : NIL)
		for (int k = 0; k < ((const HjgNotedProbe *) lfirst(lc))->nkeys; k++)
			candidates = add_candidate(candidates, pipelines, last, ((const HjgNotedProbe *) lfirst(lc))->driving[k]);
	foreach(lc, nlast == 1 && last->rows == NULL ? pipelines : NIL)
		for (int k = 0; ((const HjgNotedPipeline *) lfirst(lc))->sink == last->source && k < HJG_PROGRAM_MAX_KEYS; k++)
			candidates = add_candidate(candidates, pipelines, last, ((const HjgNotedPipeline *) lfirst(lc))->keys[k]);
	return candidates;
}

/* Divide the pipelines by a candidate. */
static void
divide_by(const List *pipelines, uint32 result, const Candidate *candidate)
{
	ListCell   *lc;

	foreach(lc, pipelines)
		((HjgNotedPipeline *) lfirst(lc))->divided_by = InvalidAttrNumber;
	foreach(lc, pipelines)
	{
		HjgNotedPipeline *pipeline = lfirst(lc);

		if (pipeline->sink == result)
			divide_noted(pipelines, pipeline, candidate->k < 0 ? candidate->key : pipeline->keys[candidate->k]);
	}
}

/* Count the rows of the last pipeline if its segments may be divided; 0: it reads groups, or another pipeline fills the same ones. */
static uint64
count_divisible(const List *pipelines, uint32 result)
{
	const HjgNotedPipeline *last = llast(pipelines);
	ListCell   *lc;

	foreach(lc, pipelines)
		if (lfirst(lc) != last && ((const HjgNotedPipeline *) lfirst(lc))->sink == result)
			return 0;
	return last->rows != NULL ? last->rows->collection.nrows : 0;
}

/* ---------- the ranges ---------- */

/* Find the collected column by which the rows of a pipeline are divided; -1: there is none. */
static int
find_key_column(const HjgNotedPipeline *pipeline)
{
	const HjgCollection *collection = pipeline->divided_by != InvalidAttrNumber ? &pipeline->rows->collection : NULL;

	for (int c = 0; collection != NULL && c < collection->ncolumns; c++)
		if (collection->attnos[c] == pipeline->divided_by)
			return c;
	return -1;
}

/* Find the least and the greatest key. */
static void
find_key_bounds(const List *pipelines, int64 *least, int64 *greatest)
{
	ListCell   *lc;

	*least = PG_INT64_MAX;
	*greatest = PG_INT64_MIN;
	foreach(lc, pipelines)
	{
		const HjgNotedPipeline *pipeline = lfirst(lc);
		const int	c = find_key_column(pipeline);

		for (int s = 0; c >= 0 && s < pipeline->rows->collection.nsegments; s++)
		{
			const HjgKeptColumn *column = pipeline->rows->collection.segments[s].columns[c];

			*least = Min(*least, column->least);
			*greatest = Max(*greatest, column->greatest);
		}
	}
}

/* Find the part of the values from the least one on that has a key. Bounds of kept columns are not trusted. */
static int
find_part(int64 key, int64 least, uint64 width)
{
	return (int) Min(((uint64) key - (uint64) least) / width, MOST_PARTS - 1);
}

/* Add the rows of a pipeline to the parts of the key's values, as if each value of a segment had as many; what a part has more than the one before. */
static void
add_rows_to(const HjgNotedPipeline *pipeline, int64 least, uint64 width, double *more)
{
	const int	c = find_key_column(pipeline);

	for (int s = 0; c >= 0 && s < pipeline->rows->collection.nsegments; s++)
	{
		const HjgCollectedSegment *segment = &pipeline->rows->collection.segments[s];
		const int	first = find_part(segment->columns[c]->least, least, width);
		const int	end = find_part(segment->columns[c]->greatest, least, width);
		const int	last = Max(first, end);
		const double nrows = segment->nrows / (double) (last - first + 1);

		more[first] += nrows;
		more[last + 1] -= nrows;
	}
}

/* Find where ranges begin that have about as many rows; false if all keys are the same. */
static bool
choose_ranges(const List *pipelines, int n, int64 *first)
{
	double		more[MOST_PARTS + 1] = {0};
	double		total = 0;
	double		below = 0;
	double		rows = 0;
	int			part = 0;
	uint64		span;
	uint64		width;
	int64		least;
	int64		greatest;
	ListCell   *lc;

	find_key_bounds(pipelines, &least, &greatest);
	if (least >= greatest)
		return false;
	span = (uint64) greatest - (uint64) least;
	width = span / MOST_PARTS + 1;
	foreach(lc, pipelines)
		add_rows_to(lfirst(lc), least, width, more);
	for (int p = 0; p < MOST_PARTS; p++)
		total += rows += more[p];
	first[0] = PG_INT64_MIN;
	rows = 0;
	for (int i = 1; i < n; i++)
	{
		for (; part < MOST_PARTS && below < total * i / n; part++)
			below += rows += more[part];
		/* each range begins where the one before does, or behind it; all but the first one behind the least key */
		first[i] = (int64) ((uint64) least + (part < MOST_PARTS ? Min((uint64) Max(part, 1) * width, span) : span));
	}
	return true;
}

/* May a segment have rows in the range of a device? */
static bool
has_keys_of(const HjgKeptColumn *column, const int64 *first, int device, int ndevices)
{
	return (device == 0 && column->has_nulls) ||
		((device + 1 == ndevices || column->least < first[device + 1]) && column->greatest >= first[device]);
}

/* ---------- which way ---------- */

/* Count the rows of all tables of a program. */
static double
count_table_rows(const List *pipelines)
{
	double		nrows = 0;
	ListCell   *lc;

	foreach(lc, pipelines)
		nrows += ((const HjgNotedPipeline *) lfirst(lc))->rows != NULL ? ((const HjgNotedPipeline *) lfirst(lc))->rows->collection.nrows : 0;
	return nrows;
}

/* Estimate the work of a device if the program is divided by ranges, in rows. */
static double
estimate_work(const List *pipelines, int ndevices, const int64 *first)
{
	double		work = count_table_rows(pipelines);
	ListCell   *lc;

	foreach(lc, pipelines)
	{
		const HjgNotedPipeline *pipeline = lfirst(lc);
		const int	c = find_key_column(pipeline);

		for (int s = 0; c >= 0 && s < pipeline->rows->collection.nsegments; s++)
		{
			const HjgCollectedSegment *segment = &pipeline->rows->collection.segments[s];
			int			n = 0;

			for (int i = 0; i < ndevices; i++)
				n += has_keys_of(segment->columns[c], first, i, ndevices) ? 1 : 0;
			work -= segment->nrows * (1 - 1.0 / ndevices - PASSED_WORK * Max(n - 1, 0) / ndevices);
		}
	}
	return work;
}

bool
hjg_program_divide(const HjgProgramWriter *noted, int ndevices, bool prefer_whole, HjgProgramDivision *division)
{
	const List *pipelines = noted->noted;
	const uint32 result = noted->ntables - 1;
	const uint64 divisible = count_divisible(pipelines, result);
	double		least = divisible > 0 ? count_table_rows(pipelines) - divisible * (1 - 1.0 / ndevices) : DBL_MAX;
	const Candidate *best = NULL;
	ListCell   *lc;

	*division = (HjgProgramDivision) {.by_segments = divisible > 0, .pipelines = pipelines};
	foreach(lc, list_candidates(pipelines, result))
	{
		const Candidate *candidate = lfirst(lc);
		const bool	whole = prefer_whole && candidate->k >= 0;
		int64		first[HJG_MAX_DEVICES] = {0};
		double		work;

		/* whole groups come first, as those that are not wanted are not sent back */
		if (prefer_whole && !whole && best != NULL && best->k >= 0)
			continue;
		divide_by(pipelines, result, candidate);
		if (!choose_ranges(pipelines, ndevices, first))
			continue;
		work = estimate_work(pipelines, ndevices, first);
		if (work >= least && !(whole && (best == NULL || best->k < 0)))
			continue;
		best = candidate;
		least = work;
		memcpy(division->first, first, sizeof(first));
	}
	if (best == NULL)
		return division->by_segments;
	divide_by(pipelines, result, best);
	division->by_segments = false;
	division->whole_groups = best->k >= 0;
	return true;
}

/* ---------- EXPLAIN ---------- */

static const char *
table_name(const SeqScanState *scan)
{
	return quote_identifier(rt_fetch(((const Scan *) scan->ss.ps.plan)->scanrelid, scan->ss.ps.state->es_range_table)->eref->aliasname);
}

static char *
column_name(const SeqScanState *scan, AttrNumber attno)
{
	const FormData_pg_attribute *attribute = TupleDescAttr(RelationGetDescr(scan->ss.ss_currentRelation), attno - 1);

	return psprintf("%s.%s", table_name(scan), quote_identifier(NameStr(attribute->attname)));
}

/* Add a name to others, unless it is one of them. */
static List *
add_name(List *names, char *name)
{
	ListCell   *lc;

	foreach(lc, names)
		if (strcmp(lfirst(lc), name) == 0)
			return names;
	return lappend(names, name);
}

List *
hjg_program_describe_division(const HjgProgramDivision *division)
{
	List	   *names = NIL;
	ListCell   *lc;

	if (division->by_segments)
		return list_make1(psprintf("segments of %s", table_name(((const HjgNotedPipeline *) llast(division->pipelines))->rows->scans[0])));
	foreach(lc, division->pipelines)
	{
		const HjgNotedPipeline *pipeline = lfirst(lc);

		if (pipeline->divided_by != InvalidAttrNumber)
			names = add_name(names, column_name(pipeline->rows->scans[0], pipeline->divided_by));
	}
	return names;
}

/* ---------- writing ---------- */

/* Have a column in a register, with the least value in the place of NULL; returns that, or -1. */
static int
load_or_least(HjgProgramWriter *writer, HjgProgramValue *value)
{
	const int	reg = hjg_program_load(writer, value);
	int			known;
	int			copy;

	if (reg < 0 || !value->nullable)
		return reg;
	copy = hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_CONSTANT, .low = PG_INT64_MIN});
	known = hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_IS_NOT_NULL, .left = reg});
	if (copy < 0 || known < 0 || !hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_MOVE_IF, .to = copy, .left = known, .right = reg}))
		return -1;
	hjg_program_release(writer, known, 1);
	return copy;
}

bool
hjg_program_write_range(HjgProgramWriter *writer, HjgProgramValue *collected)
{
	const HjgProgramDivision *division = writer->division;
	const HjgNotedPipeline *noted = division == NULL || division->by_segments ? NULL : list_nth(division->pipelines, list_length(writer->noted) - 1);
	const int	c = noted != NULL ? find_key_column(noted) : -1;
	int			value;
	int			inside;

	if (c < 0)
		return true;
	/* both times the same rows are read */
	Assert(noted->rows == hjg_program_noted(writer)->rows);
	writer->range_column = c;
	value = load_or_least(writer, &collected[c]);
	if (value < 0)
		return false;
	writer->range_steps = lappend_int(writer->range_steps, (int) (writer->steps.len / sizeof(HjgProgramStep)));
	inside = hjg_program_step_new(writer, (HjgProgramStep) {.op = HJG_PROGRAM_IN_RANGE, .left = value});
	if (inside < 0 || !hjg_program_step(writer, (HjgProgramStep) {.op = HJG_PROGRAM_FILTER, .left = inside}))
		return false;
	hjg_program_release(writer, inside, 1);
	if (value != collected[c].reg)
		hjg_program_release(writer, value, 1);
	return true;
}

bool
hjg_program_has_segment(const HjgProgramWriter *writer, int share, const HjgCollectedSegment *segment, bool last)
{
	const HjgProgramDivision *division = writer->division;

	if (division == NULL)
		return true;
	if (division->by_segments)
		return !last || segment->number % writer->nshares == share;
	return writer->range_column < 0 || has_keys_of(segment->columns[writer->range_column], division->first, share, writer->nshares);
}
