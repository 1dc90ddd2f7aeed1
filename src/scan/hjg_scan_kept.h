/*
 * hjg_scan_kept.h
 *	  Scans that take rows from kept columns, and make segments of these; used by scan_table.c and scan_heap_page.c.
 *	  Internal to the room "scan".
 */
#ifndef HJG_SCAN_KEPT_H
#define HJG_SCAN_KEPT_H

#include "postgres.h"

#include "access/heapam.h"

#include "kept/hjg_kept.h"
#include "scan/hjg_scan_filter.h"

/* ---------- making segments (scan_segment.c) ---------- */

typedef struct HjgSegmentMaker HjgSegmentMaker;

/* Make a maker of segments with these columns, in the current context; the wishes must last as long. */
extern HjgSegmentMaker *hjg_scan_segment_maker_create(Relation relation, int nwishes, const HjgKeptWish *wishes);
/* Free what the maker has for the next segment. */
extern void hjg_scan_segment_maker_rest(HjgSegmentMaker *maker);
/*
 * Make a segment of the blocks that all snapshots see alike, with the columns of the old one (or NULL), too, whose valid blocks are
 * copied. Returns it pinned, or NULL if there is no memory, or no block can be kept.
 */
extern HjgKeptSegment *hjg_scan_segment_make(HjgSegmentMaker *maker, HjgKeptHold *hold, uint32 number, const HjgKeptLook *look,
											 const HjgKeptSegment *old, const HjgKeptBlocks *valid, BufferAccessStrategy strategy);

/*
 * Make a patch (hjg_kept.h), of the valid blocks of the old one (or NULL) and of *nblocks further ones, at most HJG_KEPT_BLOCKS together. Those
 * that cannot be kept are left in blocks[] and *nblocks. Returns it as hjg_scan_segment_make() does.
 */
extern HjgKeptSegment *hjg_scan_patch_make(HjgSegmentMaker *maker, HjgKeptHold *hold, uint32 number, const HjgKeptLook *look,
										   const HjgKeptSegment *old, const HjgKeptBlocks *valid, BlockNumber *blocks, uint32 *nblocks,
										   BufferAccessStrategy strategy);

/* ---------- comparing kept blocks with pages (scan_kept_verify.c) ---------- */

typedef struct HjgKeptVerifier HjgKeptVerifier;

/* Make a verifier of these columns, in the current context; the wishes must last as long. */
extern HjgKeptVerifier *hjg_scan_kept_verifier_create(Relation relation, int nwishes, const HjgKeptWish *wishes);
/*
 * Are the columns' values in the segment's block with this number, counted from its first one, those of the page? True also if the
 * page has changed since. views: of the columns, by attribute.
 */
extern bool hjg_scan_kept_verify(HjgKeptVerifier *verifier, const HjgKeptSegment *segment, int block, const HjgKeptView *views,
								 BufferAccessStrategy strategy);

/* ---------- opening segments (scan_kept_open.c) ---------- */

/* A segment that is open, and what of it may be used. */
typedef struct HjgOpenSegment
{
	HjgKeptSegment *segment;	/* pinned, with all columns; NULL: nothing may be used */
	bool		impossible;		/* a column cannot be kept */
	bool		excluded;		/* no row of it passes the filter */
	uint64		source;			/* its number among all that this process has opened */
	BlockNumber first_block;
	int			nblocks;
	HjgKeptBlocks valid;
} HjgOpenSegment;

/* Opens one segment of a table after the other. */
typedef struct HjgKeptOpener
{
	Relation	relation;
	int			nwishes;
	HjgKeptWish *wishes;		/* ascending by attribute */
	AttrNumber *attnos;			/* of these */
	int		   *places;			/* of their columns in the segment that was opened last */
	HjgKeptHold *hold;			/* NULL: all is read live */
	HjgScanFilter *filter;		/* or NULL */
	HjgSegmentMaker *maker;
	HjgKeptVerifier *verifier;	/* NULL: no block has been compared yet */

	/* set by the scan */
	BlockNumber nblocks;		/* of the table */
	bool		fills;			/* segments are made: */
	bool		fills_all;		/* all, or a part */
	bool		reads_words_only;	/* of the columns' memory: the rest need not be whole */
	HjgKeptBlocks patched;		/* of the segment that is opened next: those that its patch has */

	HjgKeptLook look;			/* at the map: that of the open segment */
	uint32		nvisited;		/* segments, so far, */
	uint32		nfound;			/* of which so many have the columns, */
	uint32		nmade;			/* and of these so many were made; */
	bool		made_none;		/* one that was to be made was not */
	uint64		work;			/* that the scan takes, in blocks that are read live, as far as it is known, */
	uint64		made_work;		/* that took making segments, */
	uint64		vain_work;		/* and that took asking pages which cannot be kept */
	HjgOpenSegment open;
	HjgKeptView *views;			/* of the open segment, by attribute */
} HjgKeptOpener;

/*
 * Make an opener for a scan of these attributes, greater than 0, in the current context; NULL if they cannot be kept. All processes of
 * a parallel scan decide the same. filter: or NULL.
 */
extern HjgKeptOpener *hjg_scan_kept_opener_create(Relation relation, Snapshot snapshot, const Bitmapset *attnos, HjgScanFilter *filter);
/* Begin a scan of a table of so many blocks, and note that this statement reads the columns; is it of use to go by segments? */
extern bool hjg_scan_kept_opener_begin(HjgKeptOpener *opener, BlockNumber nblocks);
/* End a scan that has opened all segments that it was to open. */
extern void hjg_scan_kept_opener_end(HjgKeptOpener *opener);
/* Open the segment with this number; it is made now if that is worthwhile. The one before must have been unpinned, or taken over. */
extern void hjg_scan_kept_open(HjgKeptOpener *opener, uint32 number, BufferAccessStrategy strategy);
/*
 * Open the patch with this number, if there is one; without all columns it has no valid block. The segment before must have been unpinned, or
 * taken over.
 */
extern void hjg_scan_kept_open_patch(HjgKeptOpener *opener, uint32 number, BufferAccessStrategy strategy);
/*
 * Make the open patch anew, if that is worthwhile, with its valid blocks and these, which are in none; if there was none, it is opened now. Those
 * that are in none nevertheless are left in blocks[] and *nblocks. nread: blocks that were read live, with these, since its segments were made.
 */
extern void hjg_scan_kept_extend_patch(HjgKeptOpener *opener, uint32 number, uint64 nread, BlockNumber *blocks, uint32 *nblocks, BufferAccessStrategy strategy);
/* Unpin the open segment, if there is one. */
extern void hjg_scan_kept_unpin(HjgKeptOpener *opener);
/* Keep the columns now, of a table of so many blocks; returns of how many blocks they are kept then. */
extern uint64 hjg_scan_kept_keep(HjgKeptOpener *opener, BlockNumber nblocks);

/* ---------- scans (scan_kept.c) ---------- */

/* Rows that are given at a time. */
#define HJG_KEPT_ROWS 256

typedef struct HjgKeptScan HjgKeptScan;

/* The next rows are ... */
typedef enum HjgKeptStep
{
	HJG_KEPT_STEP_ROWS,			/* kept ones */
	HJG_KEPT_STEP_BLOCK,		/* of a block that is to be read */
	HJG_KEPT_STEP_END
} HjgKeptStep;

/*
 * Make a scan, as hjg_scan_kept_opener_create() makes an opener. Blocks are counted in *counts, if that is not NULL. Segments that the filter
 * excludes are skipped.
 */
extern HjgKeptScan *hjg_scan_kept_create(Relation relation, Snapshot snapshot, const Bitmapset *attnos,
										 HjgScanFilter *filter, HjgKeptCounts *counts);
/*
 * Begin a scan, or begin it anew. Returns true if it goes by segments, which the processes of a parallel scan do all or none. offer:
 * go by segments if that promises something; else only if another process does.
 */
extern bool hjg_scan_kept_begin(HjgKeptScan *kept, HeapScanDesc scan, bool offer);
/* Go on: sets the kept rows of *page, or *block. */
extern HjgKeptStep hjg_scan_kept_next(HjgKeptScan *kept, HeapScanDesc scan, HjgHeapPage *page, BlockNumber *block);
/* Get the block that is read after the current one, as far as is known; InvalidBlockNumber: unknown. */
extern BlockNumber hjg_scan_kept_peek(const HjgKeptScan *kept);
/* Note that the current rows go into a vector; all rows of a vector are of one segment, which stays pinned ... */
extern void hjg_scan_kept_use(HjgKeptScan *kept);
/* ... until the vector's values are not needed any more. */
extern void hjg_scan_kept_release(HjgKeptScan *kept);
#endif							/* HJG_SCAN_KEPT_H */
