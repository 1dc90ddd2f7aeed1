/*
 * scan_filter.c
 *	  The simple conditions of a scan (scan_condition.c), as one filter over its columns.
 *
 * Simple conditions have no effect, but other conditions may, and must not see a row that a condition before them drops. So
 * only the conditions before the first one that is not simple are taken. Rows that pass these are tested by core's expression
 * code with the whole list.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "optimizer/optimizer.h"

#include "scan/hjg_scan_filter.h"
#include "scan/hjg_scan_heap.h"

/*
 * Would each row still raise the same error first with this condition added? A filter evaluates a condition for many rows,
 * then the next; core evaluates all for a row, then the next row. If rows may pass without evaluating an operand, two
 * operands could fail in another order.
 */
static bool
fails_in_order(HjgScanFilter *scan, const HjgFilter *node, int nfallible_before)
{
	if (node->kind == HJG_FILTER_OR)
		scan->nfallible_in_or += scan->conditions.nfallible - nfallible_before;
	return scan->nfallible_in_or == 0 || scan->conditions.nfallible == 1;
}

int
hjg_scan_filter_rank(const HjgFilter *node)
{
	int			rank = 0;

	switch (node->kind)
	{
		case HJG_FILTER_NUMERIC:
		case HJG_FILTER_NUMERIC_COLUMNS:
		case HJG_FILTER_BYTES:
			return 8;
		case HJG_FILTER_LIKE:
			return 20;
		case HJG_FILTER_ALL:
		case HJG_FILTER_AND:
		case HJG_FILTER_OR:
			for (int a = 0; a < node->nargs; a++)
				rank += hjg_scan_filter_rank(node->args[a]);
			return rank;
		default:
			return 1;
	}
}

/* Put the cheapest conditions first: an expensive one looks only at rows that pass those before it. */
static void
sort_by_cost(HjgFilter *all)
{
	for (int a = 1; a < all->nargs; a++)
	{
		HjgFilter  *arg = all->args[a];
		int			at = a;

		for (; at > 0 && hjg_scan_filter_rank(all->args[at - 1]) > hjg_scan_filter_rank(arg); at--)
			all->args[at] = all->args[at - 1];
		all->args[at] = arg;
	}
}

/* Make filters of the first conditions, up to the first that is not simple. */
static HjgScanFilter *
make_filters(List *qual, SeqScanState *seq, Index relid, TupleDesc desc)
{
	HjgScanFilter *scan = palloc0(sizeof(HjgScanFilter));
	HjgConditions *conditions = &scan->conditions;
	ListCell   *lc;

	scan->seq = seq;
	conditions->plan = seq != NULL ? &seq->ss.ps : NULL;
	conditions->varno = relid;
	conditions->attnos = palloc(Max(desc->natts, 1) * sizeof(AttrNumber));
	scan->complete = true;
	scan->filter = palloc0(sizeof(HjgFilter));
	scan->filter->kind = HJG_FILTER_ALL;
	scan->filter->args = palloc(Max(list_length(qual), 1) * sizeof(HjgFilter *));
	foreach(lc, qual)
	{
		int			noperands = list_length(conditions->operands);
		int			nfallible = conditions->nfallible;
		int			ncolumns = conditions->ncolumns;
		HjgFilter  *node = hjg_scan_condition_make(conditions, lfirst(lc));

		if (node == NULL || !fails_in_order(scan, node, nfallible))
		{
			/* undo the notes of its parts */
			conditions->operands = list_truncate(conditions->operands, noperands);
			conditions->ncolumns = ncolumns;
			scan->complete = false;
			break;
		}
		scan->filter->args[scan->filter->nargs++] = node;
	}
	scan->columns = (HjgPageColumns) {.desc = desc, .n = conditions->ncolumns, .attnos = conditions->attnos, .as_numbers = true};
	return scan;
}

HjgScanFilter *
hjg_scan_filter_create(SeqScanState *seq, MemoryContext work_context)
{
	HjgScanFilter *scan = make_filters(seq->ss.ps.plan->qual, seq, ((Scan *) seq->ss.ps.plan)->scanrelid,
									   seq->ss.ss_ScanTupleSlot->tts_tupleDescriptor);

	scan->columns.work_context = work_context;
	if (scan->filter->nargs == 0)
		return NULL;
	/* the order in which conditions are tested that cannot fail makes no difference */
	if (scan->conditions.nfallible == 0)
		sort_by_cost(scan->filter);
	hjg_scan_filter_reset(scan);
	return scan;
}

void
hjg_scan_find_simple(List *quals, Index relid, TupleDesc desc, HjgSimpleConditions *simple)
{
	const HjgScanFilter *scan = make_filters(quals, NULL, relid, desc);

	*simple = (HjgSimpleConditions) {
		.n = scan->filter->nargs, .filters = scan->filter->args, .ncolumns = scan->columns.n, .attnos = scan->columns.attnos,
		.wait = hjg_scan_filter_may_wait(scan)
	};
}

const HjgFilter *
hjg_scan_filter_bound(HjgScanFilter *scan, const AttrNumber **attnos)
{
	if (!scan->complete || scan->conditions.nfallible > 0)
		return NULL;
	hjg_scan_conditions_bind(&scan->conditions);
	*attnos = scan->columns.attnos;
	return scan->filter;
}

/* ---------- filtering ---------- */

void
hjg_scan_filter_reset(HjgScanFilter *scan)
{
	hjg_scan_conditions_unbind(&scan->conditions);
}

void
hjg_scan_filter_forget(HjgScanFilter *scan)
{
	hjg_scan_page_columns_forget(&scan->columns);
}

bool
hjg_scan_filter_complete(const HjgScanFilter *scan)
{
	return scan->complete;
}

bool
hjg_scan_filter_may_wait(const HjgScanFilter *scan)
{
	return scan->complete && scan->conditions.nfallible == 0 && hjg_scan_page_columns_walked(&scan->columns);
}

Bitmapset *
hjg_scan_filter_add_columns(const HjgScanFilter *scan, Bitmapset *attnos)
{
	for (int c = 0; c < scan->columns.n; c++)
		attnos = bms_add_member(attnos, scan->columns.attnos[c]);
	return attnos;
}

bool
hjg_scan_find_attributes(List *quals, Index relid, Bitmapset **attnos)
{
	Bitmapset  *found = NULL;
	bool		plain = true;

	pull_varattnos((Node *) quals, relid, &found);
	for (int member = -1; (member = bms_next_member(found, member)) >= 0;)
	{
		const AttrNumber attno = member + FirstLowInvalidHeapAttributeNumber;

		plain &= attno > 0;
		if (attno > 0)
			*attnos = bms_add_member(*attnos, attno);
	}
	return plain;
}
