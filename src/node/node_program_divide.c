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
 * By segments, where the last pipeline reads a table and no key divides any other one: the segments of that table by their numbers.
 *
 * What can divide a program is known when its pipelines have been written, but not how before that. So they are written once without
 * their segments, which takes less than a tenth of a millisecond, and noted: where a key is a column of the table that drives the pipeline,
 * as it is there (HjgProgramOrigin), and where it is looked up.
 */
#include "postgres.h"

#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "node/hjg_program_write.h"

/* Halvings of the values between which a range may begin, at most. */
#define MOST_HALVINGS 64

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

/* Likewise of all rows that come to groups, by their key of this number? */
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

	pipeline->divided = true;
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

/* Divide the pipelines by a candidate; returns how many rows of tables it divides. */
static uint64
divide_by(const List *pipelines, uint32 result, const Candidate *candidate)
{
	uint64		nrows = 0;
	ListCell   *lc;

	foreach(lc, pipelines)
	{
		HjgNotedPipeline *pipeline = lfirst(lc);

		pipeline->divided = false;
		pipeline->divided_by = InvalidAttrNumber;
	}
	foreach(lc, pipelines)
	{
		HjgNotedPipeline *pipeline = lfirst(lc);

		if (pipeline->sink == result)
			divide_noted(pipelines, pipeline, candidate->k < 0 ? candidate->key : pipeline->keys[candidate->k]);
	}
	foreach(lc, pipelines)
	{
		const HjgNotedPipeline *pipeline = lfirst(lc);

		if (pipeline->divided && pipeline->rows != NULL)
			nrows += pipeline->rows->collection.nrows;
	}
	return nrows;
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

/* Find the column of a segment by which its rows are divided; NULL: its pipeline is not divided by a column. */
static const HjgKeptColumn *
find_key_column(const HjgNotedPipeline *pipeline, int segment)
{
	const HjgCollection *collection = &pipeline->rows->collection;

	for (int c = 0; c < collection->ncolumns; c++)
		if (collection->attnos[c] == pipeline->divided_by)
			return collection->segments[segment].columns[c];
	return NULL;
}

/* Values of a key in a segment, as if each of them had as many rows. */
typedef struct KeyRange
{
	int64		least;
	int64		greatest;
	double		nrows;
} KeyRange;

/* Collect the values of the key in all segments that are divided by it. */
static KeyRange *
collect_ranges(const List *pipelines, int *nranges)
{
	KeyRange   *ranges;
	int			most = 0;
	ListCell   *lc;

	*nranges = 0;
	foreach(lc, pipelines)
		most += ((const HjgNotedPipeline *) lfirst(lc))->rows != NULL ? ((const HjgNotedPipeline *) lfirst(lc))->rows->collection.nsegments : 0;
	ranges = palloc((most + 1) * sizeof(KeyRange));
	foreach(lc, pipelines)
	{
		const HjgNotedPipeline *pipeline = lfirst(lc);

		for (int s = 0; pipeline->divided_by != InvalidAttrNumber && s < pipeline->rows->collection.nsegments; s++)
		{
			const HjgKeptColumn *column = find_key_column(pipeline, s);

			ranges[(*nranges)++] = (KeyRange) {.least = column->least, .greatest = column->greatest, .nrows = pipeline->rows->collection.segments[s].nrows};
		}
	}
	return ranges;
}

/* Estimate how many rows have keys below this one. */
static double
rows_below(const KeyRange *ranges, int nranges, int64 key)
{
	double		nrows = 0;

	for (int i = 0; i < nranges; i++)
		if (key > ranges[i].least)
			nrows += ranges[i].nrows * Min(((double) key - ranges[i].least) / ((double) ranges[i].greatest - ranges[i].least + 1), 1);
	return nrows;
}

/* Find where ranges begin that have about as many rows; false if all keys are the same. */
static bool
choose_ranges(const List *pipelines, int n, int64 *first)
{
	int			nranges;
	const KeyRange *ranges = collect_ranges(pipelines, &nranges);
	int64		least = PG_INT64_MAX;
	int64		greatest = PG_INT64_MIN;

	for (int i = 0; i < nranges; i++)
	{
		least = Min(least, ranges[i].least);
		greatest = Max(greatest, ranges[i].greatest);
	}
	if (least >= greatest)
		return false;
	first[0] = PG_INT64_MIN;
	for (int i = 1; i < n; i++)
	{
		const double wanted = rows_below(ranges, nranges, greatest) / n * i;
		int64		from = least + 1;
		int64		to = greatest;

		for (int h = 0; h < MOST_HALVINGS && from < to; h++)
		{
			const int64 middle = from + (int64) (((uint64) to - (uint64) from) / 2);

			if (rows_below(ranges, nranges, middle) < wanted)
				from = middle + 1;
			else
				to = middle;
		}
		first[i] = from;
	}
	return true;
}

bool
hjg_program_divide(const HjgProgramWriter *noted, int ndevices, bool prefer_whole, HjgProgramDivision *division)
{
	const uint32 result = noted->ntables - 1;
	const List *candidates = list_candidates(noted->noted, result);
	const Candidate *best = NULL;
	uint64		most = count_divisible(noted->noted, result);
	ListCell   *lc;

	*division = (HjgProgramDivision) {.by_segments = most > 0, .pipelines = noted->noted};
	foreach(lc, candidates)
	{
		const Candidate *candidate = lfirst(lc);
		const uint64 nrows = divide_by(noted->noted, result, candidate);

		/* whole groups come first, as those that are not wanted are not sent back */
		if (prefer_whole && best != NULL && best->k >= 0 && candidate->k < 0)
			continue;
		if (nrows > most || (prefer_whole && candidate->k >= 0 && (best == NULL || best->k < 0)))
		{
			best = candidate;
			most = nrows;
		}
	}
	if (best == NULL)
		return division->by_segments;
	(void) divide_by(noted->noted, result, best);
	if (!choose_ranges(noted->noted, ndevices, division->first))
		return division->by_segments;
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
	int			c = 0;
	int			value;
	int			inside;

	if (noted == NULL || noted->divided_by == InvalidAttrNumber)
		return true;
	while (writer->collection.attnos[c] != noted->divided_by)
		c++;
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
	const HjgKeptColumn *column;

	if (division == NULL)
		return true;
	if (division->by_segments)
		return !last || segment->number % writer->nshares == share;
	if (writer->range_column < 0)
		return true;
	column = segment->columns[writer->range_column];
	return (share == 0 && column->has_nulls) || ((share + 1 == writer->nshares || column->least < division->first[share + 1]) &&
												 column->greatest >= division->first[share]);
}
