/*
 * scan_kept.c
 *	  A scan whose rows come from kept columns as far as they are valid, and from pages otherwise.
 *
 * The scan goes from segment to segment (hjg_kept.h). Of each one it finds out which blocks may be served; the others it reads as
 * any scan does. A segment that is not kept, or much of which is out of date, is made anew by the very scan that comes by, from
 * pages that it would read anyway, if its columns have been read before by another statement.
 *
 * The processes of a parallel scan claim segments. As with an order by buffers (scan_order.c), they agree by core's descriptor of the
 * scan: its counter of blocks, which nobody else uses then, has a mark and counts segments.
 *
 * A process whose store has no place for the table, or whose transaction made it, which only the leader knows, goes by segments with
 * the others and reads all of them live.
 *
 * A table that changes all the time is not made anew for ever: the more often a segment was made, the more uses it must have had
 * since.
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/hjg_base.h"
#include "scan/hjg_scan_filter.h"
#include "scan/hjg_scan_heap.h"
#include "scan/hjg_scan_kept.h"

/* Mark core's counter of blocks: the other bits count segments. Less than the mark of an order by buffers, more than any block. */
#define BY_SEGMENTS (UINT64CONST(1) << 61)

/* Of a segment's blocks, this part must be all-visible for it to be made, */
#define LEAST_VISIBLE(nblocks) ((nblocks) / 2)
/* and this part out of date for it to be made anew. */
#define MOST_STALE(nblocks) ((nblocks) / 8)

/* A query is not to wait for what others gain: of the segments that a process visits, it makes one in so many. */
#define MAKE_EVERY 16

/* A use that found much out of date counts as this part of one that did not. */
#define REFUSED_PART 8

/* A segment that is being read. */
typedef struct OpenSegment
{
	HjgKeptSegment *segment;	/* pinned; NULL: it is not kept */
	bool		in_use;			/* values of it are in the vector that was made last */
	bool		excluded;		/* no row of it passes the filter */
	BlockNumber first_block;
	int			nblocks;
	int			next_block;		/* of these */
	uint32		next_row;		/* of the run of valid blocks before next_block, */
	uint32		end_row;		/* which ends here */
	HjgKeptCounts counts;
	bool		valid[HJG_KEPT_BLOCKS];
} OpenSegment;

/* No two scans give words the same number. */
static uint64 segments_opened = 0;

struct HjgKeptScan
{
	Relation	relation;
	int			nwishes;
	HjgKeptWish *wishes;
	HjgKeptHold *hold;			/* NULL: all is read live */
	HjgSegmentMaker *maker;
	HjgKeptVerifier *verifier;	/* NULL: no block has been compared yet */
	bool		fills;			/* segments are made: */
	bool		fills_all;		/* all, or a part */
	uint32		nvisited;		/* segments, so far, */
	uint32		nmade;			/* of which so many were made */
	ParallelBlockTableScanDesc parallel;	/* or NULL */
	BlockNumber nblocks;
	uint32		nsegments;
	uint32		next_segment;	/* if not parallel */

	OpenSegment open;			/* the current one */
	HjgKeptSegment *held;		/* pinned: as open.in_use, but it is not open any more */
	uint64		source;			/* number of the current one among all that this process has opened */
	uint16		rows[HJG_KEPT_ROWS];	/* 0, 1, 2 ... */
	HjgKeptCounts *counts;		/* of blocks, or NULL */
	HjgScanFilter *filter;		/* or NULL */
	HjgKeptView *views;			/* by attribute */
};

/* May what is kept of these columns be used, and more of it be kept? */
static bool
may_use(Relation relation, Snapshot snapshot, const Bitmapset *attnos)
{
	if (!hjg_kept_may_serve(relation, snapshot))
		return false;
	for (int attno = -1; (attno = bms_next_member(attnos, attno)) >= 0;)
		if (hjg_kept_is_new(relation, attno))
			return false;
	return true;
}

/* Is there space in the store for so many columns, up to the last attribute? */
static bool
can_be_kept(const Bitmapset *attnos)
{
	const int	n = bms_num_members(attnos);

	return n > 0 && n <= HJG_KEPT_MAX_COLUMNS && bms_prev_member(attnos, -1) <= HJG_KEPT_MAX_ATTNO;
}

HjgKeptScan *
hjg_scan_kept_create(Relation relation, Snapshot snapshot, const Bitmapset *attnos, HjgScanFilter *filter, HjgKeptCounts *counts)
{
	HjgKeptHold *hold;
	HjgKeptScan *kept;

	if (!can_be_kept(attnos))
		return NULL;
	hold = may_use(relation, snapshot, attnos) ? hjg_kept_hold(relation) : NULL;
	if (hold == NULL && !IsInParallelMode())
		return NULL;
	kept = palloc0(sizeof(HjgKeptScan));
	kept->relation = relation;
	kept->counts = counts;
	kept->filter = filter;
	kept->hold = hold;
	kept->wishes = palloc(bms_num_members(attnos) * sizeof(HjgKeptWish));
	for (int attno = -1; (attno = bms_next_member(attnos, attno)) >= 0;)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(relation), attno - 1);

		kept->wishes[kept->nwishes++] = (HjgKeptWish) {
			.attno = attno, .type = att->atttypid, .attlen = att->attlen, .attbyval = att->attbyval,
			.numeric = getBaseType(att->atttypid) == NUMERICOID
		};
	}
	kept->views = palloc0((bms_prev_member(attnos, -1) + 1) * sizeof(HjgKeptView));
	kept->maker = hjg_scan_segment_maker_create(relation, kept->nwishes, kept->wishes);
	for (int i = 0; i < HJG_KEPT_ROWS; i++)
		kept->rows[i] = i;
	return kept;
}

double
hjg_scan_kept_share(Relation relation, BlockNumber nblocks, const Bitmapset *attnos)
{
	AttrNumber	array[HJG_KEPT_MAX_COLUMNS];
	int			n = 0;

	if (!hjg_kept_columns || !can_be_kept(attnos) || IsolationIsSerializable())
		return 0;
	for (int attno = -1; (attno = bms_next_member(attnos, attno)) >= 0;)
		array[n++] = attno;
	return hjg_kept_share(relation, nblocks, n, array);
}

/* ---------- dividing the table ---------- */

/* Note that this statement reads the columns; returns true if another one has read them before. */
static bool
note_read(HjgKeptScan *kept)
{
	AttrNumber	attnos[HJG_KEPT_MAX_COLUMNS];

	for (int c = 0; c < kept->nwishes; c++)
		attnos[c] = kept->wishes[c].attno;
	return hjg_kept_note_read(kept->hold, kept->nwishes, attnos, GetCurrentStatementStartTimestamp());
}

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
	const HjgKeptCounts *counts = &kept->open.counts;

	if (kept->hold != NULL && counts->served + counts->skipped + counts->live > 0)
		hjg_kept_count(kept->hold, counts->served + counts->skipped, counts->live, 0);
	if (kept->counts != NULL)
	{
		kept->counts->served += counts->served;
		kept->counts->live += counts->live;
		kept->counts->skipped += counts->skipped;
	}
	kept->open.counts = (HjgKeptCounts) {0};
}

/* Leave the current segment. */
static void
leave_segment(HjgKeptScan *kept)
{
	add_counts(kept);
	if (kept->open.segment != NULL && kept->open.in_use)
		kept->held = kept->open.segment;
	else if (kept->open.segment != NULL)
		hjg_kept_unpin(kept->hold, kept->open.segment);
	kept->open.segment = NULL;
	kept->open.in_use = false;
}

void
hjg_scan_kept_use(HjgKeptScan *kept)
{
	Assert(kept->held == NULL);
	kept->open.in_use = true;
}

void
hjg_scan_kept_release(HjgKeptScan *kept)
{
	if (kept->held != NULL)
		hjg_kept_unpin(kept->hold, kept->held);
	kept->held = NULL;
	kept->open.in_use = false;
}

bool
hjg_scan_kept_begin(HjgKeptScan *kept, HeapScanDesc scan, bool offer)
{
	leave_segment(kept);
	kept->parallel = (ParallelBlockTableScanDesc) scan->rs_base.rs_parallel;
	kept->nblocks = scan->rs_nblocks;
	kept->nsegments = hjg_kept_count_segments(scan->rs_nblocks);
	kept->next_segment = 0;
	kept->open.nblocks = kept->open.next_block = 0;
	kept->open.next_row = kept->open.end_row = 0;
	if (scan->rs_nblocks == 0 || BlockNumberIsValid(scan->rs_numblocks))
		return false;
	offer &= kept->hold != NULL;
	if (offer)
	{
		kept->fills = note_read(kept);
		offer = kept->fills && hjg_kept_promises(kept->hold, kept->nsegments);
	}
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

/* Find the columns in the current segment. */
static HjgKeptFound
find_columns(HjgKeptScan *kept)
{
	HjgKeptFound worst = HJG_KEPT_FOUND;

	for (int c = 0; c < kept->nwishes; c++)
	{
		const HjgKeptWish *wish = &kept->wishes[c];

		worst = Max(worst, hjg_kept_view(kept->open.segment, wish->attno, wish->type, &kept->views[wish->attno]));
	}
	return worst;
}

/* Do no rows of the current segment pass the filter? checked: the columns' memory may be read, too. */
static bool
is_excluded(const HjgKeptScan *kept, bool checked)
{
	return kept->filter != NULL && hjg_scan_filter_excludes(kept->filter, kept->views, checked ? kept->source : 0);
}

/* Is the memory of the columns as it was written? */
static bool
are_columns_whole(const HjgKeptScan *kept)
{
	for (int c = 0; c < kept->nwishes; c++)
		if (!hjg_kept_check(&kept->views[kept->wishes[c].attno]))
			return false;
	return true;
}

/* Compare a share of the blocks that may be served with their pages; returns the number of one that differs, or -1. */
static int
find_difference(HjgKeptScan *kept, BufferAccessStrategy strategy)
{
	uint64		nverified = 0;
	int			different = -1;

	for (int b = 0; b < kept->open.nblocks && different < 0; b++)
		if (kept->open.valid[b] && pg_prng_double(&pg_global_prng_state) < hjg_verify_share)
		{
			if (kept->verifier == NULL)
			{
				MemoryContext caller = MemoryContextSwitchTo(GetMemoryChunkContext(kept));

				kept->verifier = hjg_scan_kept_verifier_create(kept->relation, kept->nwishes, kept->wishes);
				MemoryContextSwitchTo(caller);
			}
			nverified++;
			if (!hjg_scan_kept_verify(kept->verifier, kept->open.segment, b, kept->views, strategy))
				different = b;
		}
	hjg_kept_count(kept->hold, 0, 0, nverified);
	return different;
}

/* May the current segment, which has the columns, be trusted? Otherwise it is dropped, or no process uses what is kept any more. */
static bool
is_trusted(HjgKeptScan *kept, BufferAccessStrategy strategy)
{
	int			different;

	if (kept->open.excluded && hjg_verify_share == 0)
		return true;
	if (!are_columns_whole(kept))
	{
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("kept columns of table \"%s\" have changed in memory", RelationGetRelationName(kept->relation)),
				 errdetail("They are dropped; the table is read instead.")));
		hjg_kept_drop(kept->hold, kept->open.segment);
		return false;
	}
	different = hjg_verify_share > 0 ? find_difference(kept, strategy) : -1;
	if (different < 0)
		return true;
	hjg_kept_distrust();
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("kept columns of table \"%s\" differ from block %u: kept columns are switched off for all sessions",
					RelationGetRelationName(kept->relation), kept->open.first_block + different),
			 errhint("Do not use the result of this statement. Kept columns are used again after a restart of the server.")));
	return false;
}

/* Is the segment, of which so many blocks are valid, to be made anew? Counts the use. */
static bool
is_outdated(HjgKeptSegment *segment, const HjgKeptLook *look, int nvalid)
{
	uint32		nuses;

	if (nvalid + MOST_STALE(look->nblocks) >= look->nvisible)
	{
		pg_atomic_fetch_add_u32(&segment->nserved, 1);
		return false;
	}
	nuses = pg_atomic_read_u32(&segment->nserved) + pg_atomic_fetch_add_u32(&segment->nrefused, 1) / REFUSED_PART;
	return nuses >= segment->nfills;
}

/* Has the current segment space for the columns that are wanted? Otherwise queries of other columns would drive each other's out. */
static bool
has_space(const HjgKeptScan *kept)
{
	return kept->open.segment->ncolumns + kept->nwishes <= HJG_KEPT_MAX_COLUMNS || kept->fills_all;
}

static void
unpin_segment(HjgKeptScan *kept)
{
	hjg_kept_unpin(kept->hold, kept->open.segment);
	kept->open.segment = NULL;
}

/* Pin the segment with this number, made now if that is worthwhile; what of it is valid is in kept->open.valid. */
static void
open_segment(HjgKeptScan *kept, uint32 number, BufferAccessStrategy strategy)
{
	HjgKeptLook look;
	bool		makes;
	HjgKeptFound found = HJG_KEPT_MISSING;

	leave_segment(kept);
	kept->nvisited++;
	kept->source = ++segments_opened;
	kept->open.excluded = false;
	kept->open.first_block = hjg_kept_first_block(number);
	kept->open.nblocks = hjg_kept_count_blocks(number, kept->nblocks);
	kept->open.next_block = 0;
	kept->open.next_row = kept->open.end_row = 0;
	memset(kept->open.valid, false, sizeof(kept->open.valid));
	if (kept->hold == NULL || !hjg_kept_trusted())
		return;

	hjg_kept_look(kept->relation, number, kept->nblocks, &look);
	makes = kept->fills && look.nvisible >= LEAST_VISIBLE(look.nblocks) && look.nvisible > 0;
	kept->open.segment = hjg_kept_pin(kept->hold, number);
	if (kept->open.segment != NULL)
	{
		const int	nvalid = hjg_kept_validate(kept->relation, kept->open.segment, &look, strategy, kept->open.valid);

		found = find_columns(kept);
		kept->open.excluded = found == HJG_KEPT_FOUND && is_excluded(kept, false);
		if (found == HJG_KEPT_FOUND && !is_trusted(kept, strategy))
		{
			found = HJG_KEPT_MISSING;
			makes &= hjg_kept_trusted();
		}
		makes &= (kept->fills_all ? nvalid < look.nvisible : is_outdated(kept->open.segment, &look, nvalid)) || (found == HJG_KEPT_MISSING && has_space(kept));
	}
	if (makes && (kept->fills_all || kept->nmade <= kept->nvisited / MAKE_EVERY))
	{
		HjgKeptSegment *made = hjg_scan_segment_make(kept->maker, kept->hold, number, &look, kept->open.segment, strategy);

		/* what there is not for this one, there is hardly for the next */
		kept->fills = made != NULL;
		kept->nmade++;
		if (made != NULL)
		{
			if (kept->open.segment != NULL)
				unpin_segment(kept);
			kept->open.segment = made;
			memcpy(kept->open.valid, made->kept, sizeof(kept->open.valid));
			found = find_columns(kept);
			kept->open.excluded = false;
		}
	}
	if (found != HJG_KEPT_FOUND)
	{
		memset(kept->open.valid, false, sizeof(kept->open.valid));
		if (kept->open.segment != NULL)
			unpin_segment(kept);
	}
	kept->open.excluded = kept->open.segment != NULL && (kept->open.excluded || is_excluded(kept, true));
}


/* Find the next run of valid blocks that have rows, before the next block that is to be read. */
static void
find_run(HjgKeptScan *kept)
{
	const int	from = kept->open.next_block;

	while (kept->open.next_block < kept->open.nblocks && kept->open.valid[kept->open.next_block])
		kept->open.next_block++;
	if (kept->open.next_block > from)
	{
		const int	nblocks = kept->open.next_block - from;

		kept->open.next_row = kept->open.segment->first_row[from];
		kept->open.end_row = kept->open.segment->first_row[kept->open.next_block];
		if (!kept->open.excluded)
			kept->open.counts.served += nblocks;
		else
		{
			kept->open.counts.skipped += nblocks;
			hjg_scan_filter_count_removed(kept->filter, kept->open.end_row - kept->open.next_row);
			kept->open.next_row = kept->open.end_row;
		}
		add_counts(kept);
	}
}

HjgKeptStep
hjg_scan_kept_next(HjgKeptScan *kept, HeapScanDesc scan, HjgHeapPage *page, BlockNumber *block)
{
	uint32		number;

	for (;;)
	{
		if (kept->open.next_row == kept->open.end_row)
			find_run(kept);
		if (kept->open.next_row < kept->open.end_row)
		{
			page->nrows = Min(kept->open.end_row - kept->open.next_row, HJG_KEPT_ROWS);
			page->rows = kept->rows;
			page->kept = kept->views;
			page->kept_first = kept->open.next_row;
			page->source = kept->source;
			kept->open.next_row += page->nrows;
			return HJG_KEPT_STEP_ROWS;
		}
		if (kept->open.next_block < kept->open.nblocks)
		{
			*block = kept->open.first_block + kept->open.next_block++;
			page->kept = NULL;
			page->source = 0;
			kept->open.counts.live++;
			return HJG_KEPT_STEP_BLOCK;
		}
		CHECK_FOR_INTERRUPTS();
		if (!claim_segment(kept, &number))
		{
			leave_segment(kept);
			hjg_scan_segment_maker_rest(kept->maker);
			kept->open.nblocks = kept->open.next_block = 0;
			return HJG_KEPT_STEP_END;
		}
		open_segment(kept, number, scan->rs_strategy);
	}
}

BlockNumber
hjg_scan_kept_peek(const HjgKeptScan *kept)
{
	return kept->open.next_block < kept->open.nblocks && !kept->open.valid[kept->open.next_block] ? kept->open.first_block + kept->open.next_block : InvalidBlockNumber;
}

uint64
hjg_scan_kept_keep(HjgKeptScan *kept, BlockNumber nblocks)
{
	uint64		nkept = 0;

	if (kept->hold == NULL)
		return 0;
	(void) note_read(kept);
	kept->fills = kept->fills_all = true;
	kept->nblocks = nblocks;
	kept->nsegments = hjg_kept_count_segments(nblocks);
	for (uint32 number = 0; number < kept->nsegments; number++)
	{
		CHECK_FOR_INTERRUPTS();
		open_segment(kept, number, NULL);
	}
	leave_segment(kept);
	/* a table that is larger than the store pushes its own segments out */
	for (uint32 number = 0; number < kept->nsegments; number++)
	{
		const HjgKeptSegment *segment = kept->open.segment = hjg_kept_pin(kept->hold, number);

		if (segment == NULL)
			continue;
		if (find_columns(kept) == HJG_KEPT_FOUND)
			for (int b = 0; b < segment->nblocks; b++)
				nkept += segment->kept[b] && !segment->stale[b];
		unpin_segment(kept);
	}
	return nkept;
}
