/*
 * hjg_scan.h
 *	  Rows of tables as vectors: heap pages read in place, and the conditions of a sequential scan on them.
 *
 * Room "scan".  A heap page is read where it lies, its buffer pinned: the rows that a snapshot sees, the wanted columns of
 * them, in vectors; which saves the slot, the datum and the function call of each row.  A scan keeps the books that core's
 * would have kept, so that EXPLAIN, statistics and locks say what they would have said.
 */
#ifndef HJG_SCAN_H
#define HJG_SCAN_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "nodes/execnodes.h"
#include "storage/bufpage.h"

#include "vector/hjg_vector_pg.h"

StaticAssertDecl(HJG_MAX_VECTOR_ROWS >= MaxHeapTuplesPerPage, "a page's rows fit in a vector");

/* ---------- heap pages (scan_heap_page.c, scan_heap_reader.c, scan_heap.c) ---------- */

/* A page of a sequential scan, pinned by the scan. */
typedef struct HjgHeapPage
{
	Page		page;
	Buffer		buffer;
	BlockNumber block;
	BlockNumber npages;			/* of the scan */
	int			nrows;			/* visible to the scan's snapshot */
	const OffsetNumber *rows;	/* their line pointers */
	Page		next;			/* the page behind it, or NULL: not pinned, to be fetched into the cache, no more */
	Buffer		next_buffer;	/* hjg_scan_heap_next_page()'s own: where the next page is likely to be, */
	bool		streamed;		/* and whether core's stream of pages reads on */
} HjgHeapPage;

/* Can pages of this relation be read in place? */
extern bool hjg_scan_heap_readable(Relation relation);

/*
 * Go to the next page of a forward sequential scan, parallel or not, and find its visible
 * rows; what core does with a page, its locks, checks and statistics included.
 * Returns false at the end, with nothing pinned any more.  The caller must not mix
 * this with core's own ways to get a row, and must rescan after the end.  It keeps *page, zeroed
 * before the first page, from one call to the next.
 */
extern bool hjg_scan_heap_next_page(TableScanDesc scan, HjgHeapPage *page);

/* Extracts columns of rows of pages; all of it lives in the context of its creation. */
typedef struct HjgHeapReader HjgHeapReader;

/*
 * attnos[c] is the attribute that goes to vectors[c]; several may be the same, and
 * InvalidAttrNumber stands for a column that nobody wants.  Makes the vectors, of
 * max_rows rows, which are MaxHeapTuplesPerPage or more.
 */
extern HjgHeapReader *hjg_scan_heap_reader_create(TupleDesc desc, int ncolumns, const AttrNumber *attnos, int max_rows,
												  HjgVector *vectors);

/* Put the rows of a page into the vectors, behind those first ones that are there. */
extern void hjg_scan_heap_read(HjgHeapReader *reader, const HjgHeapPage *page, int first);
/* Are the vectors good for longer than the page?  No wanted column is by reference. */
extern bool hjg_scan_heap_reader_copies(const HjgHeapReader *reader);

/* ---------- sequential scans (scan_table.c) ---------- */

/* A sequential scan whose pages are read here. */
typedef struct HjgScan HjgScan;

/*
 * A reader of the child's pages into vectors[nplan_columns], of which the columns in wanted (from
 * 0) are read; or NULL if rows must come through the child's slot.  The vectors are made with the first rows, in
 * the work context.
 */
extern HjgScan *hjg_scan_create(PlanState *plan, int nplan_columns, const Bitmapset *wanted, HjgVector *vectors,
								MemoryContext work_context);
/* Read the next page, or pages, that have rows for us; returns how many, 0 at the end. */
extern int	hjg_scan_next_rows(HjgScan *scan);
/* Most rows that come at a time, once there were some. */
extern int	hjg_scan_max_rows(const HjgScan *scan);
/* Are there more?  None of their columns is read, and the rows are not counted yet. */
extern bool hjg_scan_peek(HjgScan *scan);
/* The child starts over. */
extern void hjg_scan_reset(HjgScan *scan);
/* The work context is about to be emptied. */
extern void hjg_scan_forget(HjgScan *scan);

/* ---------- expressions (scan_filter.c) ---------- */

/* Find the expression below changes of type that change no value. */
extern Expr *hjg_scan_strip_relabel(Node *node);

#endif							/* HJG_SCAN_H */
