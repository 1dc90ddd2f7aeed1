/*
 * marshal_heap_page.c
 *	  From page to page of a heap scan: the one file that knows how a server
 *	  version does this.
 *
 * The scan descriptor is core's own, made by table_beginscan() or its parallel
 * sibling.  So the relation's predicate lock, the ring buffer, synchronized scans, the
 * allocation of blocks to parallel processes and the count of scans are core's.  What is
 * done here is the step to the next page, as in core's heapgettup_pagemode(), and
 * heapgetpage() is called for the page itself: it prunes before it locks, decides
 * visibility under the content lock, and checks for conflicts of serializable
 * transactions.
 *
 * A version without an implementation reads no page in place, and rows come through
 * slots.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relscan.h"
#include "access/syncscan.h"
#include "access/tableam.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "marshal/hjg_marshal.h"

#if PG_VERSION_NUM >= 150000 && PG_VERSION_NUM < 160000

bool
hjg_heap_readable(Relation relation)
{
	return relation->rd_tableam == GetHeapamTableAmRoutine();
}

/* First block of a scan, or InvalidBlockNumber if there is none (for this process). */
static BlockNumber
first_block(HeapScanDesc scan)
{
	ParallelBlockTableScanDesc parallel = (ParallelBlockTableScanDesc) scan->rs_base.rs_parallel;

	if (scan->rs_nblocks == 0 || scan->rs_numblocks == 0)
		return InvalidBlockNumber;
	if (parallel == NULL)
		return scan->rs_startblock;
	table_block_parallelscan_startblock_init(scan->rs_base.rs_rd, scan->rs_parallelworkerdata, parallel);
	return table_block_parallelscan_nextpage(scan->rs_base.rs_rd, scan->rs_parallelworkerdata, parallel);
}

static BlockNumber
next_block(HeapScanDesc scan)
{
	BlockNumber block = scan->rs_cblock;

	if (scan->rs_base.rs_parallel != NULL)
		return table_block_parallelscan_nextpage(scan->rs_base.rs_rd, scan->rs_parallelworkerdata,
												 (ParallelBlockTableScanDesc) scan->rs_base.rs_parallel);
	if (++block >= scan->rs_nblocks)
		block = 0;
	/* reported at the end, too: the next scan starts where this one did */
	if (scan->rs_base.rs_flags & SO_ALLOW_SYNC)
		ss_report_location(scan->rs_base.rs_rd, block);
	if (block == scan->rs_startblock ||
		(scan->rs_numblocks != InvalidBlockNumber && --scan->rs_numblocks == 0))
		return InvalidBlockNumber;
	return block;
}

bool
hjg_heap_next_page(TableScanDesc sscan, HjgHeapPage *page)
{
	HeapScanDesc scan = (HeapScanDesc) sscan;
	Relation	relation = sscan->rs_rd;
	BlockNumber block;

	if (!(sscan->rs_flags & SO_ALLOW_PAGEMODE))
		elog(ERROR, "heap pages can be read in place under an MVCC snapshot only");
	block = scan->rs_inited ? next_block(scan) : first_block(scan);
	if (block == InvalidBlockNumber)
	{
		if (BufferIsValid(scan->rs_cbuf))
			ReleaseBuffer(scan->rs_cbuf);
		scan->rs_cbuf = InvalidBuffer;
		scan->rs_cblock = InvalidBlockNumber;
		scan->rs_inited = false;
		return false;
	}
	heapgetpage(sscan, block);
	scan->rs_inited = true;
	page->page = BufferGetPage(scan->rs_cbuf);
	page->buffer = scan->rs_cbuf;
	page->block = block;
	page->nrows = scan->rs_ntuples;
	page->rows = scan->rs_vistuples;
	TestForOldSnapshot(sscan->rs_snapshot, relation, page->page);
	if (pgstat_should_count_relation(relation))
		relation->pgstat_info->t_counts.t_tuples_returned += page->nrows;
	return true;
}

#else							/* no implementation for this server version */

bool
hjg_heap_readable(Relation relation)
{
	return false;
}

bool
hjg_heap_next_page(TableScanDesc sscan, HjgHeapPage *page)
{
	elog(ERROR, "heap pages cannot be read in place in this server version");
}

#endif
