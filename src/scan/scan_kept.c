/*
 * scan_kept.c
 *	  A scan whose rows come from kept columns as far as they are valid, and from pages otherwise.
 *
 * The scan goes from segment to segment (hjg_kept.h). Of each one it finds out which blocks may be served (scan_kept_open.c); the
 * others it reads as any scan does.
 *
 * The processes of a parallel scan claim segments. As with an order by buffers (scan_order.c), they agree by core's descriptor of the
 * scan: its counter of blocks, which nobody else uses then, has a mark and counts segments.
 *
 * A process whose store has no place for the table, or whose transaction made it, which only the leader knows, goes by segments with
 * the others and reads all of them live.
 */
#include "postgres.h"

#include "access/relscan.h"
#include "miscadmin.h"

#include "scan/hjg_scan_filter.h"
#include "scan/hjg_scan_heap.h"
#include "scan/hjg_scan_kept.h"

/* Mark core's counter of blocks: the other bits count segments. Less than the mark of an order by buffers, more than any block. */
#define BY_SEGMENTS (UINT64CONST(1) << 61)

struct HjgKeptScan
{
	HjgKeptOpener *opener;
	ParallelBlockTableScanDesc parallel;	/* or NULL */
	uint32		nsegments;
	uint32		next_segment;	/* if not parallel */

	/* in the open segment */
	bool		in_use;			/* values of it are in the vector that was made last */
	int			next_block;		/* of its blocks */
	uint32		next_row;		/* of the run of valid blocks before next_block, */
	uint32		end_row;		/* which ends here */
	HjgKeptCounts open_counts;	/* of its blocks so far */

	HjgKeptSegment *held;		/* pinned: as in_use, but it is not open any more */
	uint16		rows[HJG_KEPT_ROWS];	/* 0, 1, 2 ... */
	HjgKeptCounts *counts;		/* of blocks, or NULL */
};

HjgKeptScan *
hjg_scan_kept_create(Relation relation, Snapshot snapshot, const Bitmapset *attnos, HjgScanFilter *filter, HjgKeptCounts *counts)
{
	HjgKeptOpener *opener = hjg_scan_kept_opener_create(relation, snapshot, attnos, filter);
	HjgKeptScan *kept;

	if (opener == NULL)
		return NULL;
	kept = palloc0(sizeof(HjgKeptScan));
	kept->opener = opener;
	kept->counts = counts;
	for (int i = 0; i < HJG_KEPT_ROWS; i++)
		kept->rows[i] = i;
	return kept;
}

/* ---------- dividing the table ---------- */

/* Do the processes go by segments? offer: if none has chosen yet, choose so. */
static bool
agree_on_segments(ParallelBlockTableScanDesc parallel, bool offer)
{
	uint64		chosen;

	SpinLockAcquire(&parallel->phs_mutex);
	chosen = pg_atomic_read_u64(&parallel->phs_nallocated);
	if (chosen == 0 && !BlockNumberIsValid(parallel->phs_startblock) && offer)
	{
		chosen = BY_SEGMENTS;
		pg_atomic_write_u64(&parallel->phs_nallocated, chosen);
	}
	SpinLockRelease(&parallel->phs_mutex);
	return chosen >= BY_SEGMENTS && chosen < 2 * BY_SEGMENTS;
}

/* Add the blocks of the current segment, so far, to those of the table and of the scan. */
static void
add_counts(HjgKeptScan *kept)
{
	const HjgKeptCounts *counts = &kept->open_counts;

	if (kept->opener->hold != NULL && counts->served + counts->skipped + counts->live > 0)
		hjg_kept_count(kept->opener->hold, counts->served + counts->skipped, counts->live, 0);
	if (kept->counts != NULL)
	{
		kept->counts->served += counts->served;
		kept->counts->live += counts->live;
		kept->counts->skipped += counts->skipped;
	}
	kept->open_counts = (HjgKeptCounts) {0};
}

/* Leave the current segment. */
static void
leave_segment(HjgKeptScan *kept)
{
	add_counts(kept);
	if (kept->in_use)
	{
		kept->held = kept->opener->open.segment;
		kept->opener->open.segment = NULL;
	}
	hjg_scan_kept_unpin(kept->opener);
	kept->in_use = false;
}

void
hjg_scan_kept_use(HjgKeptScan *kept)
{
	Assert(kept->held == NULL);
	kept->in_use = true;
}

void
hjg_scan_kept_release(HjgKeptScan *kept)
{
	if (kept->held != NULL)
		hjg_kept_unpin(kept->opener->hold, kept->held);
	kept->held = NULL;
	kept->in_use = false;
}

bool
hjg_scan_kept_begin(HjgKeptScan *kept, HeapScanDesc scan, bool offer)
{
	leave_segment(kept);
	kept->parallel = (ParallelBlockTableScanDesc) scan->rs_base.rs_parallel;
	kept->nsegments = hjg_kept_count_segments(scan->rs_nblocks);
	kept->next_segment = 0;
	kept->opener->open.nblocks = kept->next_block = 0;
	kept->next_row = kept->end_row = 0;
	if (scan->rs_nblocks == 0 || BlockNumberIsValid(scan->rs_numblocks))
		return false;
	offer = offer && hjg_scan_kept_opener_begin(kept->opener, scan->rs_nblocks);
	return kept->parallel != NULL ? agree_on_segments(kept->parallel, offer) : offer;
}

/* Get the number of the next segment for this process; false at the end. */
static bool
claim_segment(HjgKeptScan *kept, uint32 *number)
{
	uint64		next = kept->next_segment;

	if (kept->parallel == NULL)
		kept->next_segment++;
	else
		next = pg_atomic_fetch_add_u64(&kept->parallel->phs_nallocated, 1) & ~BY_SEGMENTS;
	*number = (uint32) next;
	return next < kept->nsegments;
}

/* ---------- going through a segment ---------- */

/* Find the next run of valid blocks that have rows, before the next block that is to be read. */
static void
find_run(HjgKeptScan *kept)
{
	const HjgOpenSegment *open = &kept->opener->open;
	const int	from = kept->next_block;

	kept->next_block = hjg_kept_blocks_next(&open->valid, from, open->nblocks, false);
	if (kept->next_block > from)
	{
		const int	nblocks = kept->next_block - from;

		kept->next_row = open->segment->first_row[from];
		kept->end_row = open->segment->first_row[kept->next_block];
		if (!open->excluded)
			kept->open_counts.served += nblocks;
		else
		{
			kept->open_counts.skipped += nblocks;
			hjg_scan_filter_count_removed(kept->opener->filter, kept->end_row - kept->next_row);
			kept->next_row = kept->end_row;
		}
		add_counts(kept);
	}
}

HjgKeptStep
hjg_scan_kept_next(HjgKeptScan *kept, HeapScanDesc scan, HjgHeapPage *page, BlockNumber *block)
{
	HjgOpenSegment *open = &kept->opener->open;
	uint32		number;

	for (;;)
	{
		if (kept->next_row == kept->end_row)
			find_run(kept);
		if (kept->next_row < kept->end_row)
		{
			page->nrows = Min(kept->end_row - kept->next_row, HJG_KEPT_ROWS);
			page->rows = kept->rows;
			page->kept = kept->opener->views;
			page->kept_first = kept->next_row;
			page->source = open->source;
			kept->next_row += page->nrows;
			return HJG_KEPT_STEP_ROWS;
		}
		if (kept->next_block < open->nblocks)
		{
			*block = open->first_block + kept->next_block++;
			page->kept = NULL;
			page->source = 0;
			kept->open_counts.live++;
			return HJG_KEPT_STEP_BLOCK;
		}
		CHECK_FOR_INTERRUPTS();
		if (!claim_segment(kept, &number))
		{
			leave_segment(kept);
			hjg_scan_kept_opener_end(kept->opener);
			open->nblocks = kept->next_block = 0;
			return HJG_KEPT_STEP_END;
		}
		leave_segment(kept);
		hjg_scan_kept_open(kept->opener, number, scan->rs_strategy);
		kept->next_block = 0;
		kept->next_row = kept->end_row = 0;
	}
}

BlockNumber
hjg_scan_kept_peek(const HjgKeptScan *kept)
{
	const HjgOpenSegment *open = &kept->opener->open;

	return kept->next_block < open->nblocks && !hjg_kept_blocks_has(&open->valid, kept->next_block) ? open->first_block + kept->next_block : InvalidBlockNumber;
}
