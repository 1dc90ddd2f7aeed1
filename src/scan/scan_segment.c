/*
 * scan_segment.c
 *	  Makes segments of kept columns from heap pages, for a scan that comes by or at once.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "scan/hjg_scan_heap.h"
#include "scan/hjg_scan_kept.h"

struct HjgSegmentMaker
{
	Relation	relation;
	int			nwishes;
	const HjgKeptWish *wishes;
	MemoryContext parent;
	MemoryContext context;		/* of these, or NULL: */
	HjgKeptBuilder *builder;	/* or NULL */
	HjgHeapReader *reader;		/* of the columns that the builder takes */
	HjgVector  *vectors;
};

HjgSegmentMaker *
hjg_scan_segment_maker_create(Relation relation, int nwishes, const HjgKeptWish *wishes)
{
	HjgSegmentMaker *maker = palloc0(sizeof(HjgSegmentMaker));

	maker->relation = relation;
	maker->nwishes = nwishes;
	maker->wishes = wishes;
	maker->parent = CurrentMemoryContext;
	return maker;
}

void
hjg_scan_segment_maker_rest(HjgSegmentMaker *maker)
{
	if (maker->context != NULL)
		MemoryContextDelete(maker->context);
	maker->context = NULL;
	maker->builder = NULL;
}

/* Get the columns that are wanted, and those that the old segment has. */
static int
unite_wishes(const HjgSegmentMaker *maker, const HjgKeptSegment *old, HjgKeptWish *wishes)
{
	TupleDesc	desc = RelationGetDescr(maker->relation);
	int			n = maker->nwishes;

	memcpy(wishes, maker->wishes, n * sizeof(HjgKeptWish));
	for (int c = 0; old != NULL && c < old->ncolumns && n < HJG_KEPT_MAX_COLUMNS; c++)
	{
		const HjgKeptColumn *column = &old->columns[c];
		Form_pg_attribute att = column->attno <= desc->natts ? TupleDescAttr(desc, column->attno - 1) : NULL;
		bool		wanted = att != NULL && !att->attisdropped && att->atttypid == column->type;

		for (int i = 0; i < n && wanted; i++)
			wanted = wishes[i].attno != column->attno;
		if (wanted)
			wishes[n++] = (HjgKeptWish) {
				.attno = column->attno, .type = column->type, .attlen = att->attlen, .attbyval = att->attbyval,
				.numeric = getBaseType(column->type) == NUMERICOID
			};
	}
	return n;
}

/* Have a builder of these columns, empty, and a reader for it. */
static void
make_builder(HjgSegmentMaker *maker, int nwishes, const HjgKeptWish *wishes)
{
	MemoryContext caller;
	AttrNumber *attnos;

	if (hjg_kept_builder_makes(maker->builder, nwishes, wishes))
	{
		hjg_kept_builder_reset(maker->builder);
		return;
	}
	hjg_scan_segment_maker_rest(maker);
	maker->context = AllocSetContextCreate(maker->parent, "hjoin_gpu kept segment", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(maker->context);
	attnos = palloc(nwishes * sizeof(AttrNumber));
	for (int c = 0; c < nwishes; c++)
		attnos[c] = wishes[c].attno;
	maker->vectors = palloc(nwishes * sizeof(HjgVector));
	maker->reader = hjg_scan_heap_reader_create(RelationGetDescr(maker->relation), nwishes, attnos, MaxHeapTuplesPerPage, maker->vectors);
	maker->builder = hjg_kept_builder_create(nwishes, wishes);
	MemoryContextSwitchTo(caller);
}

/* Add a block to the segment that is being made, if its page may be kept. */
static void
add_segment_block(HjgSegmentMaker *maker, BlockNumber block, bool all_visible, TransactionId horizon, BufferAccessStrategy strategy)
{
	Buffer		buffer = ReadBufferExtended(maker->relation, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	OffsetNumber rows[MaxHeapTuplesPerPage];
	HjgHeapPage page = {.page = BufferGetPage(buffer), .buffer = buffer, .block = block, .rows = rows};
	XLogRecPtr	lsn;

	/* as any scan; the next one would change the page otherwise */
	if (!all_visible)
		heap_page_prune_opt(maker->relation, buffer);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page.nrows = hjg_kept_collect_rows(maker->relation, buffer, all_visible, horizon, rows, &lsn);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	/* without the lock, as with any scan: a pinned page loses no row, and rows of all do not change */
	if (page.nrows >= 0)
		hjg_scan_heap_read(maker->reader, &page, 0);
	hjg_kept_builder_add(maker->builder, lsn, !all_visible, maker->vectors, page.nrows);
	ReleaseBuffer(buffer);
}

HjgKeptSegment *
hjg_scan_segment_make(HjgSegmentMaker *maker, HjgKeptHold *hold, uint32 number, const HjgKeptLook *look, const HjgKeptSegment *old,
					  BufferAccessStrategy strategy)
{
	const HjgKeptBlocks *visible = &look->visible[number - look->first];
	const int	nblocks = hjg_kept_count_blocks(number, look->nblocks);
	const TransactionId horizon = GetOldestNonRemovableTransactionId(maker->relation);
	HjgKeptWish wishes[HJG_KEPT_MAX_COLUMNS];

	make_builder(maker, unite_wishes(maker, old, wishes), wishes);
	for (int b = 0; b < nblocks; b++)
	{
		CHECK_FOR_INTERRUPTS();
		add_segment_block(maker, hjg_kept_first_block(number) + b, hjg_kept_blocks_has(visible, b), horizon, strategy);
	}
	return hjg_kept_builder_finish(maker->builder, hold, number, look->map_lsn, old != NULL ? old->nfills + 1 : 1);
}
