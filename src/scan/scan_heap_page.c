/*
 * scan_heap_page.c
 *	  Goes from page to page of a heap scan.
 *
 * The scan descriptor is core's own, made by table_beginscan() or its parallel variant. So the relation's predicate lock, the
 * ring buffer, synchronized scans, the allocation of blocks to parallel processes and the count of scans are core's. This
 * file does what core's heapgettup_pagemode() and heapgetpage() do: the step to the next page, pruning before the lock,
 * visibility under it, the check of every row for conflicts of serializable transactions. If a page is all visible and that
 * check is not needed, its rows are not examined one by one.
 *
 * Pages in the buffer pool are pinned one by one. At the first page that is not there, the rest of the scan changes to the
 * scan's read stream, if the server has one, through which core reads ahead.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relscan.h"
#include "access/syncscan.h"
#include "access/tableam.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/hjg_compat.h"
#include "huge/hjg_huge.h"
#include "scan/hjg_scan_heap.h"
#include "scan/hjg_scan_kept.h"
#include "scan/hjg_scan_order.h"

#if HJG_HAS_READ_STREAMS
#include "storage/read_stream.h"
#endif

/* Buffers in which a block is looked for, before the mapping table is. */
#define NEAR_BUFFERS 8

bool
hjg_scan_heap_readable(Relation relation)
{
	return relation->rd_tableam == GetHeapamTableAmRoutine();
}

/* Take the next block of an order by buffers; InvalidBlockNumber if there is none. */
static BlockNumber
take_ordered(HjgHeapPage *page)
{
	BlockNumber block;
	Buffer		likely;

	if (!hjg_page_order_peek(page->order, &block, &likely))
		return InvalidBlockNumber;
	hjg_page_order_take(page->order);
	return block;
}

/* Choose how to go through the table: by segments, by an order of buffers, or as core does. Processes of a parallel scan choose the same. */
static void
choose_way(HeapScanDesc scan, HjgHeapPage *page)
{
	ParallelBlockTableScanDesc parallel = (ParallelBlockTableScanDesc) scan->rs_base.rs_parallel;

	hjg_huge_look();
	if (page->order != NULL)
		pfree(page->order);
	page->order = NULL;
	page->by_segments = page->kept_scan != NULL && hjg_scan_kept_begin(page->kept_scan, scan, true);
	if (page->by_segments || scan->rs_nblocks == 0 || scan->rs_numblocks == 0)
		return;
	page->order = hjg_page_order_join(scan, page->area);
	if (page->order != NULL || parallel == NULL)
		return;
	table_block_parallelscan_startblock_init(scan->rs_base.rs_rd, scan->rs_parallelworkerdata, parallel);
	/* now nobody can choose otherwise, but somebody may have before */
	page->by_segments = page->kept_scan != NULL && hjg_scan_kept_begin(page->kept_scan, scan, false);
}

/* Get the first block of a scan; InvalidBlockNumber if there is none (for this process). */
static BlockNumber
first_block(HeapScanDesc scan, HjgHeapPage *page)
{
	if (scan->rs_nblocks == 0 || scan->rs_numblocks == 0)
		return InvalidBlockNumber;
	if (page->order != NULL)
		return take_ordered(page);
	if (scan->rs_base.rs_parallel == NULL)
		return scan->rs_startblock;
	return table_block_parallelscan_nextpage(scan->rs_base.rs_rd, scan->rs_parallelworkerdata,
											 (ParallelBlockTableScanDesc) scan->rs_base.rs_parallel);
}

static BlockNumber
next_block(HeapScanDesc scan, HjgHeapPage *page)
{
	BlockNumber block = scan->rs_cblock;

	if (page->order != NULL)
		return take_ordered(page);
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

static void
release_page(HeapScanDesc scan)
{
	if (BufferIsValid(scan->rs_cbuf))
		ReleaseBuffer(scan->rs_cbuf);
	scan->rs_cbuf = InvalidBuffer;
}

/*
 * Hint bits which show that the inserting transaction has committed, and that nobody has deleted the row. No other bits
 * matter then.
 */
#define SETTLED_MASK (HEAP_XMIN_FROZEN | HEAP_XMAX_INVALID)
#define SETTLED (HEAP_XMIN_COMMITTED | HEAP_XMAX_INVALID)

/*
 * Collect the rows that the scan's snapshot sees; conflicts are checked for all rows.
 *
 * Rows of a page are often of one transaction. Once the snapshot sees a settled row, it need not be asked about other settled
 * rows that the same transaction inserted: HeapTupleSatisfiesMVCC() looks at nothing else of these.
 */
static int
collect_visible(HeapScanDesc scan, Page page, int nlines, bool all_visible, OffsetNumber *rows)
{
	Relation	relation = scan->rs_base.rs_rd;
	Snapshot	snapshot = scan->rs_base.rs_snapshot;
	const bool	look_for_conflicts = CheckForSerializableConflictOutNeeded(relation, snapshot);
	const bool	may_know = snapshot->snapshot_type == SNAPSHOT_MVCC;
	TransactionId seen = InvalidTransactionId;	/* inserted settled rows that the snapshot sees */
	HeapTupleData tuple;
	int			n = 0;

	tuple.t_tableOid = RelationGetRelid(relation);
	for (OffsetNumber line = FirstOffsetNumber; line <= nlines; line++)
	{
		ItemId		item = PageGetItemId(page, line);
		bool		settled;
		bool		visible;

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		settled = may_know && (tuple.t_data->t_infomask & SETTLED_MASK) == SETTLED;
		visible = all_visible || (settled && HeapTupleHeaderGetRawXmin(tuple.t_data) == seen);
		if (!visible || look_for_conflicts)
		{
			tuple.t_len = ItemIdGetLength(item);
			ItemPointerSet(&tuple.t_self, scan->rs_cblock, line);
			visible = visible || HeapTupleSatisfiesVisibility(&tuple, snapshot, scan->rs_cbuf);
			HeapCheckForSerializableConflictOut(visible, relation, &tuple, scan->rs_cbuf, snapshot);
			if (visible && settled)
				seen = HeapTupleHeaderGetRawXmin(tuple.t_data);
		}
		rows[n] = line;
		n += visible ? 1 : 0;
	}
	return n;
}

/* Does a buffer probably hold a block? Read without a lock. */
static bool
seems_to_hold(Buffer buffer, Relation relation, BlockNumber block)
{
	const BufferTag *tag = &GetBufferDescriptor(buffer - 1)->tag;

	return tag->blockNum == block && HJG_TAG_IS_OF(tag, relation);
}

/* Is the block that follows the current one the next one? Parallel processes get runs of blocks. */
static bool
is_next_adjacent(const HeapScanDescData *scan, const HjgHeapPage *page)
{
	return page->order == NULL && !page->by_segments &&
		(scan->rs_base.rs_parallel == NULL || scan->rs_parallelworkerdata->phsw_chunk_remaining > 0);
}

/*
 * Find the buffer that probably holds a block; InvalidBuffer if it is in no buffer. Tables that were read into the pool in order are there
 * in order, or a few buffers further if several processes have read them, which saves a search of the mapping table and its locks.
 */
static Buffer
find_buffer(Relation relation, BlockNumber block, Buffer likely)
{
	BufferTag	tag;
	LWLock	   *lock;
	uint32		hash;
	int			buffer_ix;

	for (Buffer near = Max(likely, 1); near < Min(likely + NEAR_BUFFERS, NBuffers + 1); near++)
		if (seems_to_hold(near, relation, block))
			return near;
	HJG_INIT_TAG(&tag, relation, block);
	hash = BufTableHashCode(&tag);
	lock = BufMappingPartitionLock(hash);
	LWLockAcquire(lock, LW_SHARED);
	buffer_ix = BufTableLookup(&tag, hash);
	LWLockRelease(lock);
	return buffer_ix < 0 ? InvalidBuffer : buffer_ix + 1;
}

/* Find the buffer that probably holds the scan's next block; InvalidBuffer if the block is not known or in no buffer. */
static Buffer
find_next_buffer(HeapScanDesc scan, HjgHeapPage *page)
{
	Relation	relation = scan->rs_base.rs_rd;
	BlockNumber block = scan->rs_cblock + 1 < scan->rs_nblocks ? scan->rs_cblock + 1 : 0;
	Buffer		likely = scan->rs_cbuf + 1;

	if (page->by_segments)
	{
		block = hjg_scan_kept_peek(page->kept_scan);
		if (!BlockNumberIsValid(block))
			return InvalidBuffer;
	}
	else if (page->order != NULL ? !hjg_page_order_peek(page->order, &block, &likely) :
			 RelationUsesLocalBuffers(relation) || !is_next_adjacent(scan, page))
		return InvalidBuffer;
	return find_buffer(relation, block, likely);
}

/*
 * Pin a block, which is probably in that buffer; that buffer is used only if core's own pin would not change its usage count.
 */
static Buffer
pin_block(HeapScanDesc scan, BlockNumber block, Buffer likely_buffer)
{
	Relation	relation = scan->rs_base.rs_rd;

	if (BufferIsValid(likely_buffer) && seems_to_hold(likely_buffer, relation, block))
	{
		uint32		state = pg_atomic_read_u32(&GetBufferDescriptor(likely_buffer - 1)->state);

		/* this checks again under a lock what was read without one */
		if (BUF_STATE_GET_USAGECOUNT(state) >= (scan->rs_strategy != NULL ? 1 : BM_MAX_USAGE_COUNT) &&
			ReadRecentBuffer(HJG_LOCATOR(relation), MAIN_FORKNUM, block, likely_buffer))
		{
			pgstat_count_buffer_read(relation);
			pgstat_count_buffer_hit(relation);
			HJG_COUNT_IO_HIT(scan->rs_strategy);
			return likely_buffer;
		}
	}
	return ReadBufferExtended(relation, MAIN_FORKNUM, block, RBM_NORMAL, scan->rs_strategy);
}

#if HJG_HAS_READ_STREAMS
/* Pin the stream's next block, which follows the current one if the stream is new; InvalidBuffer at the end. */
static Buffer
pin_streamed(HeapScanDesc scan, bool first)
{
	if (first)
		scan->rs_prefetch_block = scan->rs_cblock;
	scan->rs_dir = ForwardScanDirection;
	return read_stream_next_buffer(scan->rs_read_stream, NULL);
}
#endif

/* Go to the next block and pin it, as rs_cbuf and rs_cblock; false at the end. */
static bool
step_block(HeapScanDesc scan, HjgHeapPage *page)
{
	const bool	was_streamed = scan->rs_inited && page->streamed;

	/* use the stream once the pool does not have the next block */
	page->streamed = was_streamed ||
		(HJG_HAS_READ_STREAMS && scan->rs_inited && !BufferIsValid(page->next_buffer) && is_next_adjacent(scan, page));
	release_page(scan);
	CHECK_FOR_INTERRUPTS();
#if HJG_HAS_READ_STREAMS
	if (page->streamed)
		scan->rs_cbuf = pin_streamed(scan, !was_streamed);
	else
#endif
	{
		scan->rs_cblock = scan->rs_inited ? next_block(scan, page) : first_block(scan, page);
		if (BlockNumberIsValid(scan->rs_cblock))
			scan->rs_cbuf = pin_block(scan, scan->rs_cblock, page->next_buffer);
	}
	scan->rs_inited = BufferIsValid(scan->rs_cbuf);
	scan->rs_cblock = scan->rs_inited ? BufferGetBlockNumber(scan->rs_cbuf) : InvalidBlockNumber;
	return scan->rs_inited;
}

/* Take the next rows of a scan by segments: kept ones, or a block, which is pinned; false at the end. */
static bool
step_segment(HeapScanDesc scan, HjgHeapPage *page)
{
	BlockNumber block;

	release_page(scan);
	scan->rs_cblock = InvalidBlockNumber;
	scan->rs_inited = true;
	switch (hjg_scan_kept_next(page->kept_scan, scan, page, &block))
	{
		case HJG_KEPT_STEP_ROWS:
			break;
		case HJG_KEPT_STEP_BLOCK:
			scan->rs_cbuf = pin_block(scan, block, page->next_buffer);
			scan->rs_cblock = block;
			break;
		case HJG_KEPT_STEP_END:
			scan->rs_inited = false;
	}
	return scan->rs_inited;
}

/* Find the visible rows of the pinned page: rs_vistuples and rs_ntuples. */
static void
find_visible(HeapScanDesc scan, Page page)
{
	Relation	relation = scan->rs_base.rs_rd;
	Snapshot	snapshot = scan->rs_base.rs_snapshot;
	bool		all_visible;
	int			nlines;

	/* which would look at this, too, but in the server's own mapping of the page */
	if (TransactionIdIsValid(((PageHeader) page)->pd_prune_xid))
		heap_page_prune_opt(relation, scan->rs_cbuf);

	LockBuffer(scan->rs_cbuf, BUFFER_LOCK_SHARE);
	HJG_TEST_FOR_OLD_SNAPSHOT(snapshot, relation, page);
	nlines = Min(PageGetMaxOffsetNumber(page), MaxHeapTuplesPerPage);
	/* a standby may replay the flag before a snapshot there sees the rows */
	all_visible = PageIsAllVisible(page) && !snapshot->takenDuringRecovery;
	if (all_visible && !CheckForSerializableConflictOutNeeded(relation, snapshot))
		scan->rs_ntuples = hjg_scan_heap_collect_all(page, nlines, scan->rs_vistuples);
	else
		scan->rs_ntuples = collect_visible(scan, page, nlines, all_visible, scan->rs_vistuples);
	LockBuffer(scan->rs_cbuf, BUFFER_LOCK_UNLOCK);
}

/* Find the visible rows of the pinned page, and set *page. */
static void
give_page(HeapScanDesc scan, HjgHeapPage *page)
{
	page->page = hjg_huge_page(scan->rs_cbuf);
	find_visible(scan, page->page);
	page->buffer = scan->rs_cbuf;
	page->block = scan->rs_cblock;
	page->nrows = scan->rs_ntuples;
	page->rows = scan->rs_vistuples;
}

static void
count_returned(Relation relation, int nrows)
{
	if (pgstat_should_count_relation(relation))
		HJG_TABLE_COUNTS(relation).HJG_TUPLES_RETURNED += nrows;
}

bool
hjg_scan_heap_next_page(TableScanDesc sscan, HjgHeapPage *page)
{
	HeapScanDesc scan = (HeapScanDesc) sscan;
	Relation	relation = sscan->rs_rd;

	if (!(sscan->rs_flags & SO_ALLOW_PAGEMODE))
		elog(ERROR, "heap pages can be read in place under an MVCC snapshot only");
	if (!scan->rs_inited)
		choose_way(scan, page);
	if (!(page->by_segments ? step_segment(scan, page) : step_block(scan, page)))
	{
		page->next_buffer = InvalidBuffer;
		return false;
	}
	if (page->by_segments && page->kept != NULL)
	{
		page->page = page->next = NULL;
		page->buffer = page->next_buffer = InvalidBuffer;
	}
	else
	{
		give_page(scan, page);
		page->next_buffer = page->streamed ? InvalidBuffer : find_next_buffer(scan, page);
		page->next = BufferIsValid(page->next_buffer) ? hjg_huge_page(page->next_buffer) : NULL;
	}
	page->npages = scan->rs_nblocks;
	count_returned(relation, page->nrows);
	return true;
}

void
hjg_scan_heap_go_to(TableScanDesc sscan, BlockNumber block, BlockNumber next, HjgHeapPage *page)
{
	HeapScanDesc scan = (HeapScanDesc) sscan;

	Assert(!scan->rs_inited && block < scan->rs_nblocks);
	release_page(scan);
	CHECK_FOR_INTERRUPTS();
	scan->rs_cbuf = pin_block(scan, block, page->next_buffer);
	scan->rs_cblock = block;
	page->next_buffer = BlockNumberIsValid(next) && !RelationUsesLocalBuffers(sscan->rs_rd) ? find_buffer(sscan->rs_rd, next, scan->rs_cbuf + 1) : InvalidBuffer;
	page->next = BufferIsValid(page->next_buffer) ? hjg_huge_page(page->next_buffer) : NULL;
	give_page(scan, page);
	page->npages = scan->rs_nblocks;
	count_returned(sscan->rs_rd, page->nrows);
}

void
hjg_scan_heap_leave(TableScanDesc sscan)
{
	HeapScanDesc scan = (HeapScanDesc) sscan;

	release_page(scan);
	scan->rs_cblock = InvalidBlockNumber;
}
