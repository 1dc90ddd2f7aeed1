/*
 * scan_table.c
 *	  A child that is a bare sequential scan: the node reads its pages itself, and updates the same counters, statistics and
 *	  locks as core's scan.
 *
 * The child keeps its state, its scan descriptor, which in a parallel plan core's own callbacks made, its filter and its
 * instrumentation. Only its ExecProcNode is never called. So plan displays show no difference, and a rescan, a shutdown or an
 * error goes through core's functions.
 *
 * A row counts as read when it has passed the child's filter and the tests that were added; columns are extracted only then.
 *
 * Tests drop rows that are not missed.  A condition that may fail is evaluated on all rows, so it comes before any test.  One that cannot fail
 * comes after the tests if its columns take longer to reach than theirs.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/hjg_base.h"
#include "scan/hjg_scan_filter.h"
#include "scan/hjg_scan_heap.h"
#include "scan/hjg_scan_kept.h"

typedef struct RowTest
{
	const HjgScanTest *test;
	HjgPageColumns columns;		/* that it looks at */
	bool		first;			/* before the conditions */
} RowTest;

/* Values by reference are copied of a page with so few rows, to let rows of other pages join them. */
#define FEW_ROWS 24

struct HjgScan
{
	SeqScanState *seq;
	int			ncolumns;
	AttrNumber *attnos;			/* wanted attributes, as hjg_scan_heap_reader_create() takes them; */
	HjgVector  *vectors;		/* their vectors */
	Bitmapset  *as_numbers;		/* columns, see hjg_scan_take_numbers() */
	MemoryContext work_context; /* of the reader and the vectors */
	int			max_rows;		/* rows that fit in the vectors */
	HjgHeapReader *reader;		/* NULL: no row was read so far */
	HjgScanFilter *filter;		/* or NULL */
	HjgPageColumns core_columns;	/* that core's expression code looks at in rows of kept columns */
	List	   *tests;			/* of RowTest */
	bool		gathers;		/* rows of several pages come together, even if these are full of them */
	bool		at_end;
	bool		peeked;			/* the page has rows that passed and were not read */
	bool		began;			/* kept columns were asked for */
	HjgKeptCounts *kept_counts; /* or NULL */
	HjgHeapPage page;
	OffsetNumber passed[MaxHeapTuplesPerPage];	/* rows that passed the filter */
};

/* Find the attributes that the child returns; false if it returns anything but plain user columns of its table. */
static bool
find_attributes(const SeqScan *plan, int nplan_columns, const Bitmapset *wanted, AttrNumber *attnos)
{
	ListCell   *lc;
	int			c = 0;

	if (list_length(plan->scan.plan.targetlist) != nplan_columns)
		return false;
	foreach(lc, plan->scan.plan.targetlist)
	{
		const Var  *var = (const Var *) lfirst_node(TargetEntry, lc)->expr;

		if (!IsA(var, Var) || var->varno != plan->scan.scanrelid || var->varattno <= 0)
			return false;
		attnos[c] = bms_is_member(c, wanted) ? var->varattno : InvalidAttrNumber;
		c++;
	}
	return true;
}

bool
hjg_scan_reads_pages(const PlanState *plan)
{
	const EState *estate = plan->state;

	return hjg_direct_scan && IsA(plan, SeqScanState) && estate->es_epq_active == NULL &&
		estate->es_snapshot != NULL && IsMVCCSnapshot(estate->es_snapshot) &&
		hjg_scan_heap_readable(((const SeqScanState *) plan)->ss.ss_currentRelation);
}

HjgScan *
hjg_scan_create(PlanState *plan, int nplan_columns, const Bitmapset *wanted, bool gathers, HjgVector *vectors,
				MemoryContext work_context)
{
	SeqScanState *seq = (SeqScanState *) plan;
	AttrNumber *attnos;
	HjgScan    *scan;

	if (!hjg_scan_reads_pages(plan))
		return NULL;
	attnos = palloc(Max(nplan_columns, 1) * sizeof(AttrNumber));
	if (!find_attributes(castNode(SeqScan, plan->plan), nplan_columns, wanted, attnos))
		return NULL;

	scan = palloc0(sizeof(HjgScan));
	scan->seq = seq;
	scan->ncolumns = nplan_columns;
	scan->gathers = gathers;
	scan->attnos = attnos;
	scan->vectors = vectors;
	scan->work_context = work_context;
	scan->filter = hjg_scan_filter_create(seq, work_context);
	return scan;
}

void
hjg_scan_add_test(HjgScan *scan, const HjgScanTest *test)
{
	RowTest    *added = palloc0(sizeof(RowTest));

	added->test = test;
	added->columns = (HjgPageColumns) {
		.desc = scan->seq->ss.ss_ScanTupleSlot->tts_tupleDescriptor, .n = test->ncolumns, .attnos = test->attnos,
		.work_context = scan->work_context
	};
	added->first = scan->filter != NULL && hjg_scan_filter_may_wait(scan->filter) && !hjg_scan_page_columns_walked(&added->columns);
	scan->tests = lappend(scan->tests, added);
}

void
hjg_scan_reset(HjgScan *scan)
{
	scan->at_end = scan->peeked = false;
	if (scan->filter != NULL)
		hjg_scan_filter_reset(scan->filter);
}

void
hjg_scan_forget(HjgScan *scan)
{
	ListCell   *lc;

	scan->reader = NULL;
	if (scan->filter != NULL)
		hjg_scan_filter_forget(scan->filter);
	hjg_scan_page_columns_forget(&scan->core_columns);
	foreach(lc, scan->tests)
		hjg_scan_page_columns_forget(&((RowTest *) lfirst(lc))->columns);
}

/* Have the slot refer to row i of a page. */
static void
store_page_row(TupleTableSlot *slot, HeapTuple tuple, const HjgHeapPage *page, int i)
{
	ItemId		item = PageGetItemId(page->page, page->rows[i]);

	tuple->t_data = (HeapTupleHeader) PageGetItem(page->page, item);
	tuple->t_len = ItemIdGetLength(item);
	ItemPointerSet(&tuple->t_self, page->block, page->rows[i]);
	ExecStoreBufferHeapTuple(tuple, slot, page->buffer);
}

/* Put row i of the vectors into the slot; its other attributes are NULL. */
static void
store_kept_row(TupleTableSlot *slot, const HjgPageColumns *columns, int i)
{
	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
	for (int c = 0; c < columns->n; c++)
	{
		const int	a = columns->attnos[c] - 1;

		slot->tts_isnull[a] = hjg_vector_isnull(&columns->vectors[c], i);
		if (!slot->tts_isnull[a])
			slot->tts_values[a] = hjg_vector_datum(&columns->vectors[c], i);
	}
	ExecStoreVirtualTuple(slot);
}

/* Apply the child's filter to a page's rows by core's expression code; returns the number of rows that pass. */
static int
filter_by_core(HjgScan *scan, const HjgHeapPage *page)
{
	ScanState  *ss = &scan->seq->ss;
	ExprContext *econtext = ss->ps.ps_ExprContext;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;
	HeapTupleData tuple;
	int			n = 0;

	tuple.t_tableOid = RelationGetRelid(ss->ss_currentRelation);
	if (page->kept != NULL && page->nrows > 0)
		hjg_scan_page_columns_read(&scan->core_columns, page);
	for (int i = 0; i < page->nrows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (page->kept != NULL)
			store_kept_row(slot, &scan->core_columns, i);
		else
			store_page_row(slot, &tuple, page, i);
		ResetExprContext(econtext);
		econtext->ecxt_scantuple = slot;
		if (ExecQual(ss->ps.qual, econtext))
			scan->passed[n++] = page->rows[i];
		else
			InstrCountFiltered1(ss, 1);
	}
	/* the slot must not refer to a tuple on the stack, nor to kept values */
	ExecClearTuple(slot);
	return n;
}

/* Leave in page the rows that pass the tests that come before the conditions, or those that come after them. */
static void
test_rows(HjgScan *scan, HjgHeapPage *page, bool first)
{
	uint16		rows[MaxHeapTuplesPerPage + HJG_SCAN_TEST_PAD];
	ListCell   *lc;

	foreach(lc, scan->tests)
	{
		RowTest    *added = lfirst(lc);
		const HjgScanTest *test = added->test;

		if (added->first != first || !*test->open || page->nrows == 0)
			continue;
		hjg_scan_page_columns_read(&added->columns, page);
		page->nrows = test->test(test->arg, added->columns.vectors, page->nrows, rows);
		for (int i = 0; i < page->nrows; i++)
			scan->passed[i] = page->rows[rows[i]];
		page->rows = scan->passed;
	}
}

/*
 * Apply the child's filter to a page: first the simple conditions, for all rows at once; then, if there are others, the whole
 * filter to the remaining rows. The page keeps the rows that pass.
 */
static void
filter_rows(HjgScan *scan, HjgHeapPage *page)
{
	if (scan->filter != NULL)
	{
		page->nrows = hjg_scan_filter_rows(scan->filter, page, scan->passed);
		page->rows = scan->passed;
		if (hjg_scan_filter_complete(scan->filter))
			return;
	}
	page->nrows = filter_by_core(scan, page);
	page->rows = scan->passed;
}

/* Leave in page the rows that are to be read. */
static void
select_rows(HjgScan *scan, HjgHeapPage *page)
{
	test_rows(scan, page, true);
	if (scan->seq->ss.ps.qual != NULL && page->nrows > 0)
		filter_rows(scan, page);
	test_rows(scan, page, false);
}

/* Has the scan conditions that are left to core's expression code? */
static bool
has_core_conditions(const HjgScan *scan)
{
	return scan->seq->ss.ps.qual != NULL && (scan->filter == NULL || !hjg_scan_filter_complete(scan->filter));
}

/* Add the attributes that the scan looks at in any row. */
static Bitmapset *
add_columns(const HjgScan *scan, Bitmapset *attnos)
{
	ListCell   *lc;

	for (int c = 0; c < scan->ncolumns; c++)
		if (scan->attnos[c] != InvalidAttrNumber)
			attnos = bms_add_member(attnos, scan->attnos[c]);
	foreach(lc, scan->tests)
	{
		const HjgPageColumns *columns = &((RowTest *) lfirst(lc))->columns;

		for (int c = 0; c < columns->n; c++)
			attnos = bms_add_member(attnos, columns->attnos[c]);
	}
	return scan->filter != NULL ? hjg_scan_filter_add_columns(scan->filter, attnos) : attnos;
}

/* Have core's expression code look at rows of kept columns, too; false if its conditions need tuples. Adds the attributes that it looks at. */
static bool
prepare_core_columns(HjgScan *scan, Bitmapset **attnos)
{
	const Scan *plan = (const Scan *) scan->seq->ss.ps.plan;
	HjgPageColumns *columns = &scan->core_columns;

	if (!hjg_scan_find_attributes(plan->plan.qual, plan->scanrelid, attnos))
		return false;
	columns->desc = scan->seq->ss.ss_ScanTupleSlot->tts_tupleDescriptor;
	columns->work_context = scan->work_context;
	columns->attnos = palloc((bms_num_members(*attnos) + 1) * sizeof(AttrNumber));
	for (int attno = -1; (attno = bms_next_member(*attnos, attno)) >= 0;)
		columns->attnos[columns->n++] = attno;
	return true;
}

/* Have rows come from kept columns, if all that are looked at can be. */
static void
begin_kept(HjgScan *scan)
{
	EState	   *estate = scan->seq->ss.ps.state;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);
	Bitmapset  *attnos = NULL;

	scan->began = true;
	if (hjg_kept_columns && (!has_core_conditions(scan) || prepare_core_columns(scan, &attnos)))
		scan->page.kept_scan = hjg_scan_kept_create(scan->seq->ss.ss_currentRelation, estate->es_snapshot, add_columns(scan, attnos),
													scan->filter, scan->kept_counts);
	MemoryContextSwitchTo(old);
}

/* Go to the next page with rows that pass the filter; false at the end. */
static bool
find_page(HjgScan *scan)
{
	ScanState  *ss = &scan->seq->ss;
	HjgHeapPage *page = &scan->page;

	if (scan->at_end)
		return false;
	if (ss->ss_currentScanDesc == NULL)
		ss->ss_currentScanDesc = table_beginscan(ss->ss_currentRelation, ss->ps.state->es_snapshot, 0, NULL);
	if (!scan->began)
		begin_kept(scan);
	page->area = ss->ps.state->es_query_dsa;
	while (hjg_scan_heap_next_page(ss->ss_currentScanDesc, page))
	{
		select_rows(scan, page);
		if (page->nrows > 0)
			return true;
	}
	scan->at_end = true;
	return false;
}

/* Make a reader for rows of several pages; for one page only if the table has no more. */
static void
make_reader(HjgScan *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->work_context);

	scan->max_rows = scan->page.npages <= 1 ? MaxHeapTuplesPerPage : HJG_MAX_VECTOR_ROWS;
	scan->reader = hjg_scan_heap_reader_create(scan->seq->ss.ss_ScanTupleSlot->tts_tupleDescriptor, scan->ncolumns,
											   scan->attnos, scan->max_rows, scan->vectors);
	for (int c = -1; (c = bms_next_member(scan->as_numbers, c)) >= 0;)
		hjg_scan_heap_take_numbers(scan->reader, &scan->vectors[c]);
	MemoryContextSwitchTo(old);
}

void
hjg_scan_count_kept(HjgScan *scan, HjgKeptCounts *counts)
{
	scan->kept_counts = counts;
}

void
hjg_scan_take_numbers(HjgScan *scan, Bitmapset *columns)
{
	scan->as_numbers = columns;
}

int
hjg_scan_max_rows(const HjgScan *scan)
{
	return scan->max_rows;
}

/* Read the columns of the next page's rows, and of more pages as long as there is space for a whole page. */
static int
read_pages(HjgScan *scan)
{
	int			first = 0;		/* of the latest page */
	uint64		source = 0;
	int			n = 0;

	if (scan->page.kept_scan != NULL)
		hjg_scan_kept_release(scan->page.kept_scan);
	do
	{
		if (!scan->peeked && !find_page(scan))
			break;
		/* kept columns of one segment have their values in one form */
		scan->peeked = n > 0 && scan->page.source != source;
		if (scan->peeked)
			break;
		source = scan->page.source;
		if (scan->reader == NULL)
			make_reader(scan);
		hjg_scan_heap_read(scan->reader, &scan->page, n);
		if (source != 0)
			hjg_scan_kept_use(scan->page.kept_scan);
		first = n;
		n += scan->page.nrows;
	} while (n <= scan->max_rows - MaxHeapTuplesPerPage &&
			 (source != 0 || hjg_scan_heap_detach(scan->reader, first, n - first, scan->gathers ? MaxHeapTuplesPerPage : FEW_ROWS)));
	return n;
}

/* Do what ExecProcNode() does before a row: handle changed parameters and start instrumentation, which the caller stops. */
static void
start_call(HjgScan *scan)
{
	PlanState  *plan = &scan->seq->ss.ps;

	if (plan->chgParam != NULL)
	{
		ExecReScan(plan);
		hjg_scan_reset(scan);
	}
	if (plan->instrument)
		InstrStartNode(plan->instrument);
}

int
hjg_scan_next_rows(HjgScan *scan)
{
	PlanState  *plan = &scan->seq->ss.ps;
	int			n;

	start_call(scan);
	n = read_pages(scan);
	if (plan->instrument)
		InstrStopNode(plan->instrument, n);
	return n;
}

bool
hjg_scan_peek(HjgScan *scan)
{
	PlanState  *plan = &scan->seq->ss.ps;

	start_call(scan);
	scan->peeked = scan->peeked || find_page(scan);
	if (plan->instrument)
		InstrStopNode(plan->instrument, 0);
	return scan->peeked;
}
