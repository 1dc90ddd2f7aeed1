/*
 * node_program_scans.c
 *	  The scans that a program's rows of a table come from, one or those of its partitions, and their rows, collected.
 *
 * Partitions are one table to a program: their segments follow one another. So their columns and conditions must be the same, at the same places of
 * their rows. Those without blocks have nothing to read.
 */
#include "postgres.h"

#include "rewrite/rewriteManip.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "node/hjg_program_write.h"

/* ---------- scans ---------- */

static const Scan *
scan_of(const SeqScanState *seq)
{
	return (const Scan *) seq->ss.ps.plan;
}

/* Are an expression list of one partition and of another one the same, but for the table that their columns are of? */
static bool
are_exprs_alike(const SeqScanState *seq, List *exprs, const SeqScanState *other, List *other_exprs)
{
	List	   *translated = copyObject(other_exprs);

	ChangeVarNodes((Node *) translated, scan_of(other)->scanrelid, scan_of(seq)->scanrelid, 0);
	return equal(exprs, translated);
}

/* Does a node scan a partition as another one scans its own? */
static bool
is_scan_alike(const SeqScanState *seq, const PlanState *node)
{
	const SeqScanState *other = (const SeqScanState *) node;

	return are_exprs_alike(seq, seq->ss.ps.plan->targetlist, other, other->ss.ps.plan->targetlist) &&
		are_exprs_alike(seq, seq->ss.ps.plan->qual, other, other->ss.ps.plan->qual);
}

/* Is a node a sequential scan that returns columns as they are? */
static bool
is_plain_scan(const PlanState *node)
{
	ListCell   *lc;

	if (!IsA(node, SeqScanState))
		return false;
	foreach(lc, node->plan->targetlist)
	{
		const Var  *column = (const Var *) lfirst_node(TargetEntry, lc)->expr;

		if (!IsA(column, Var) || column->varattno <= 0)
			return false;
	}
	return true;
}

/* Add the scan of a partition. */
static bool
add_partition(HjgProgramWriter *writer, PlanState *node, HjgProgramScans *scans)
{
	SeqScanState *seq = (SeqScanState *) node;

	if (!is_plain_scan(node) || (scans->n > 0 && !is_scan_alike(scans->scans[0], node)))
		return hjg_program_refuse(writer, "partitions have other columns or conditions at their places");
	if (RelationGetNumberOfBlocks(seq->ss.ss_currentRelation) > 0)
		scans->scans[scans->n++] = seq;
	return true;
}

bool
hjg_program_is_partitioned(const PlanState *plan)
{
	return IsA(plan, AppendState);
}

bool
hjg_program_find_scans(HjgProgramWriter *writer, PlanState *plan, HjgProgramScans *scans)
{
	const AppendState *append = (const AppendState *) plan;
	const int	nplans = hjg_program_is_partitioned(plan) ? append->as_nplans : 1;

	*scans = (HjgProgramScans) {.scans = palloc((nplans + 1) * sizeof(SeqScanState *)), .filters = palloc0((nplans + 1) * sizeof(HjgScanFilter *))};
	if (!hjg_program_is_partitioned(plan))
		scans->scans[scans->n++] = castNode(SeqScanState, plan);
	else
	{
		for (int i = 0; i < nplans; i++)
			if (!add_partition(writer, append->appendplans[i], scans))
				return false;
		if (scans->n == 0)
			return hjg_program_refuse(writer, "no partition has rows");
	}
	for (int i = 0; i < scans->n; i++)
	{
		const AttrNumber *attnos = NULL;
		const HjgFilter *conditions;

		scans->filters[i] = hjg_scan_filter_create(scans->scans[i], CurrentMemoryContext);
		conditions = scans->filters[i] != NULL ? hjg_scan_filter_bound(scans->filters[i], &attnos) : NULL;
		if (scans->scans[i]->ss.ps.qual != NULL && conditions == NULL)
			return hjg_program_refuse(writer, "a table has conditions that are core's");
		if (i == 0)
		{
			scans->conditions = conditions;
			scans->condition_attnos = attnos;
		}
	}
	return true;
}

/* ---------- their rows ---------- */

/* Have all these columns been collected? */
static bool
are_collected(const HjgCollection *collection, const Bitmapset *attnos)
{
	int			n = 0;

	for (int c = 0; c < collection->ncolumns; c++)
		n += bms_is_member(collection->attnos[c], attnos);
	return n == bms_num_members(attnos);
}

/* Add what was collected of a partition to the rows of those before; false if it has other columns. */
static bool
add_collection(HjgToldRows *rows, SeqScanState *seq, const HjgCollection *more)
{
	HjgCollection *all = &rows->collection;

	if (more->ncolumns != all->ncolumns || memcmp(more->attnos, all->attnos, all->ncolumns * sizeof(AttrNumber)) != 0)
		return false;
	all->segments = repalloc_huge(all->segments, (all->nsegments + more->nsegments + 1) * sizeof(HjgCollectedSegment));
	for (int s = 0; s < more->nsegments; s++)
	{
		HjgCollectedSegment *segment = &all->segments[all->nsegments++];

		*segment = more->segments[s];
		/* devices divide segments by their numbers, and each partition has those from 0 on */
		segment->number += RelationGetRelid(seq->ss.ss_currentRelation);
	}
	all->nrows += more->nrows;
	HJG_ADD_COUNTS(all->counts, more->counts);
	return true;
}

/* Collect the rows of the scans; NULL: they cannot be read. */
static HjgToldRows *
collect_scans(HjgProgramWriter *writer, const HjgProgramScans *scans, const Bitmapset *attnos)
{
	HjgToldRows *rows = palloc0(sizeof(HjgToldRows));

	rows->scans = scans->scans;
	rows->nscans = scans->n;
	rows->first_segment = palloc(scans->n * sizeof(int));
	for (int i = 0; i < scans->n; i++)
	{
		HjgCollection one;
		const char *why = hjg_scan_collect(scans->scans[i], attnos, scans->filters[i], HJG_PROGRAM_MOST_LIVE, &one);

		rows->first_segment[i] = rows->collection.nsegments;
		if (why == NULL && i == 0)
			rows->collection = one;
		else if (why == NULL && !add_collection(rows, scans->scans[i], &one))
			why = "partitions have other columns or conditions at their places";
		if (why != NULL)
		{
			hjg_program_refuse(writer, why);
			return NULL;
		}
	}
	rows->words = palloc0((rows->collection.ncolumns + 1) * sizeof(HjgProgramWords));
	return rows;
}

HjgToldRows *
hjg_program_collect(HjgProgramWriter *writer, const HjgProgramScans *scans, const Bitmapset *attnos)
{
	HjgToldRows *rows;
	ListCell   *lc;

	foreach(lc, writer->tables_read)
	{
		rows = lfirst(lc);
		if (rows->scans[0] == scans->scans[0] && are_collected(&rows->collection, attnos))
			return rows;
	}
	rows = collect_scans(writer, scans, attnos);
	if (rows != NULL)
		writer->tables_read = lappend(writer->tables_read, rows);
	return rows;
}
