/*
 * scan_segment.c
 *	  Makes segments of kept columns from heap pages, for a scan that comes by or at once. What has not changed since is
 *	  copied from the segment that is made anew.
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

/* Blocks that cannot be kept, after which no more are tried for a patch if they are the most. */
#define MOST_LEFT 8

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
	HjgKeptView *views;			/* of them in the segment that is made anew, by attribute */
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
	hjg_scan_heap_take_numbers(maker->reader, NULL);
	maker->views = palloc((HJG_KEPT_MAX_ATTNO + 1) * sizeof(HjgKeptView));
	maker->builder = hjg_kept_builder_create(nwishes, wishes);
	MemoryContextSwitchTo(caller);
}

/*
 * Add a block to the segment that is being made, as its page has it. One that cannot be kept leaves a hole, if holes is true.
 * Returns whether it can be kept.
 */
static bool
add_page(HjgSegmentMaker *maker, BlockNumber first, BlockNumber block, bool all_visible, TransactionId horizon, bool holes, BufferAccessStrategy strategy)
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
	if (page.nrows >= 0 || holes)
		hjg_kept_builder_add(maker->builder, block - first, lsn, !all_visible, maker->vectors, page.nrows);
	ReleaseBuffer(buffer);
	return page.nrows >= 0;
}

/* View the columns in the old segment; false if it does not have all of them, or one has changed in memory. */
static bool
view_old(HjgSegmentMaker *maker, const HjgKeptSegment *old, int nwishes, const HjgKeptWish *wishes)
{
	int			place = 0;

	for (int c = 0; c < nwishes; c++)
	{
		HjgKeptView *view = &maker->views[wishes[c].attno];

		if (hjg_kept_view(old, wishes[c].attno, wishes[c].type, &place, view) != HJG_KEPT_FOUND || !hjg_kept_check(view))
			return false;
	}
	return true;
}

/* Add a block as the old segment has it; a block that is valid now is so in the new one, which has the same LSN of it. */
static void
add_copy(HjgSegmentMaker *maker, const HjgKeptSegment *old, int block)
{
	const HjgHeapPage page = {
		.nrows = (int) (old->first_row[block + 1] - old->first_row[block]), .kept = maker->views, .kept_first = old->first_row[block]
	};

	if (page.nrows > 0)
		hjg_scan_heap_read(maker->reader, &page, 0);
	hjg_kept_builder_add(maker->builder, old->offset[block], old->lsn[block], hjg_kept_blocks_has(&old->settled, block), maker->vectors, page.nrows);
}

/* Begin a segment; can valid blocks of the old one be copied? */
static bool
begin_segment(HjgSegmentMaker *maker, const HjgKeptSegment *old, const HjgKeptBlocks *valid)
{
	HjgKeptWish wishes[HJG_KEPT_MAX_COLUMNS];
	const int	nwishes = unite_wishes(maker, old, wishes);

	make_builder(maker, nwishes, wishes);
	return old != NULL && hjg_kept_blocks_count(valid) > 0 && view_old(maker, old, nwishes, wishes);
}

HjgKeptSegment *
hjg_scan_segment_make(HjgSegmentMaker *maker, HjgKeptHold *hold, uint32 number, const HjgKeptLook *look, const HjgKeptSegment *old,
					  const HjgKeptBlocks *valid, BufferAccessStrategy strategy)
{
	const HjgKeptBlocks *visible = &look->visible[number - look->first];
	const BlockNumber first = hjg_kept_first_block(number);
	const int	nblocks = hjg_kept_count_blocks(number, look->nblocks);
	const TransactionId horizon = GetOldestNonRemovableTransactionId(maker->relation);
	const bool	copies = begin_segment(maker, old, valid);

	for (int b = 0; b < nblocks; b++)
	{
		CHECK_FOR_INTERRUPTS();
		if (copies && hjg_kept_blocks_has(valid, b))
			add_copy(maker, old, b);
		else
			(void) add_page(maker, first, first + b, hjg_kept_blocks_has(visible, b), horizon, true, strategy);
	}
	return hjg_kept_builder_finish(maker->builder, hold, number, look->map_lsn, old != NULL ? old->nfills + 1 : 1);
}

/* Is a block of a patch all-visible? */
static bool
is_visible(const HjgKeptLook *look, uint32 patch, BlockNumber block)
{
	const BlockNumber offset = block - hjg_kept_first_block(patch);
	const uint32 number = (patch & ~HJG_KEPT_PATCH) * HJG_KEPT_PATCHED + offset / HJG_KEPT_BLOCKS;

	return hjg_kept_blocks_has(&look->visible[number - look->first], offset % HJG_KEPT_BLOCKS);
}

HjgKeptSegment *
hjg_scan_patch_make(HjgSegmentMaker *maker, HjgKeptHold *hold, uint32 number, const HjgKeptLook *look, const HjgKeptSegment *old,
					const HjgKeptBlocks *valid, BlockNumber *blocks, uint32 *nblocks, BufferAccessStrategy strategy)
{
	const BlockNumber first = hjg_kept_first_block(number);
	const TransactionId horizon = GetOldestNonRemovableTransactionId(maker->relation);
	const bool	copies = begin_segment(maker, old, valid);
	BlockNumber left[HJG_KEPT_BLOCKS];
	uint32		nleft = 0;
	HjgKeptSegment *made;

	if (!copies && hjg_kept_blocks_count(valid) > 0)
		return NULL;
	for (int b = -1; copies && (b = hjg_kept_blocks_next(valid, b + 1, old->nblocks, true)) < old->nblocks;)
		add_copy(maker, old, b);
	for (uint32 i = 0; i < *nblocks; i++)
	{
		CHECK_FOR_INTERRUPTS();
		/* a transaction that holds back some changes probably holds back the others */
		if ((nleft >= MOST_LEFT && nleft > i / 2) ||
			!add_page(maker, first, blocks[i], is_visible(look, number, blocks[i]), horizon, false, strategy))
			left[nleft++] = blocks[i];
	}
	made = hjg_kept_builder_finish(maker->builder, hold, number, look->map_lsn, 1);
	if (made != NULL)
	{
		memcpy(blocks, left, nleft * sizeof(BlockNumber));
		*nblocks = nleft;
	}
	return made;
}
