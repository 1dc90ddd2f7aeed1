/*
 * hjg_scan.h
 *	  Rows of tables as vectors: heap pages read in place, and the conditions of a sequential scan on them.
 *
 * Room "scan". A heap page is read in its pinned buffer: the wanted columns of the rows that the snapshot sees go into
 * vectors, without a slot, datums and function calls for each row. A scan updates the same counters, statistics and locks as
 * core's scan would, so that EXPLAIN and the statistics views show the same.
 */
#ifndef HJG_SCAN_H
#define HJG_SCAN_H

#include "postgres.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "nodes/execnodes.h"
#include "nodes/primnodes.h"
#include "storage/bufpage.h"

#include "layout/hjg_program.h"
#include "vector/hjg_vector_pg.h"

StaticAssertDecl(HJG_MAX_VECTOR_ROWS >= MaxHeapTuplesPerPage, "a page's rows fit in a vector");

/* ---------- heap pages (scan_heap_page.c, scan_heap_reader.c, scan_heap.c) ---------- */

/* A page of a sequential scan, pinned by the scan. */
typedef struct HjgHeapPage
{
	Page		page;
	Buffer		buffer;
	BlockNumber block;
	BlockNumber npages;			/* pages of the scan */
	int			nrows;			/* visible to the scan's snapshot */
	const OffsetNumber *rows;	/* line pointers of these rows; of kept rows their numbers, or NULL: 0, 1, 2 ... */
	Page		next;			/* the next page, not pinned, only for prefetching into the cache; or NULL */
	struct dsa_area *area;		/* shared by the processes of a parallel scan, set by the caller; or NULL */
	struct HjgKeptScan *kept_scan;	/* set by the caller, if rows may come from kept columns; or NULL */

	/*
	 * Rows of kept columns instead of a page: columns by attribute, NULL if it is a page. rows[] are counted from kept_first then. They
	 * are of one source, and values by reference last until hjg_scan_kept_release().
	 */
	const struct HjgKeptView *kept;
	uint32		kept_first;
	uint64		source;			/* 0: the heap */
	/* private to hjg_scan_heap_next_page() */
	struct HjgPageOrder *order; /* of a parallel scan by buffers (scan_order.c), or NULL */
	Buffer		next_buffer;	/* the likely place of the next page */
	bool		streamed;		/* core's read stream is open */
	bool		by_segments;	/* kept_scan says which pages are read */
} HjgHeapPage;

/* Can pages of this relation be read in place? */
extern bool hjg_scan_heap_readable(Relation relation);

/*
 * Go to the next page of a forward sequential scan, parallel or not, and find its visible rows, with everything that core
 * does for a page: locks, checks, statistics. Returns false at the end, with nothing pinned. The caller must not get rows
 * from the same scan by core's functions, must rescan after the end, and must keep *page, zeroed before the first page,
 * between calls.
 */
extern bool hjg_scan_heap_next_page(TableScanDesc scan, HjgHeapPage *page);

/* Reader of columns of rows on pages; all of its memory is in the context of its creation. */
typedef struct HjgHeapReader HjgHeapReader;

/*
 * Make a reader, and the vectors, of max_rows >= MaxHeapTuplesPerPage rows. attnos[c] is the attribute that goes to
 * vectors[c]; several may be the same; InvalidAttrNumber: the column is not wanted.
 */
extern HjgHeapReader *hjg_scan_heap_reader_create(TupleDesc desc, int ncolumns, const AttrNumber *attnos, int max_rows,
												  HjgVector *vectors);

/* Append the rows of a page to the first rows of the vectors. */
extern void hjg_scan_heap_read(HjgHeapReader *reader, const HjgHeapPage *page, int first);
/*
 * Make these rows independent of their page, by copies of the values by reference, behind those that were copied of the rows
 * before. Returns false if they do not fit, or these are more than most_copied rows: then the page must stay pinned.
 */
extern bool hjg_scan_heap_detach(HjgHeapReader *reader, int first, int nrows, int most_copied);

/* ---------- sequential scans (scan_table.c) ---------- */

/* A sequential scan whose pages are read in place. */
typedef struct HjgScan HjgScan;

/* Is the child a sequential scan whose pages can be read in place? */
extern bool hjg_scan_reads_pages(const PlanState *plan);

/*
 * Make a reader of the child's pages into vectors[nplan_columns], which reads the columns in wanted (from 0); NULL if rows must
 * come through the child's slot. The vectors are made with the first rows, in the work context. Rows of several pages come at a
 * time where no values have to be copied for that, or rows of a page are few, or gathers is set: a join takes a vector of many
 * rows in less time than several of few, an aggregate does not.
 */
extern HjgScan *hjg_scan_create(PlanState *plan, int nplan_columns, const Bitmapset *wanted, bool gathers, HjgVector *vectors,
								MemoryContext work_context);
/*
 * Before the first rows: these of the plan's columns (from 0), as far as they are kept numerics, come as numbers (HjgVector); their
 * reader calls functions of vector_numeric.c.
 */
extern void hjg_scan_take_numbers(HjgScan *scan, Bitmapset *columns);
/* Blocks of scans that use kept columns. */
typedef struct HjgKeptCounts
{
	uint64		served;			/* taken from these */
	uint64		skipped;		/* or not looked at, because no row of their segment passes the filter */
	uint64		live;			/* read */
} HjgKeptCounts;

/* Before the first rows: have blocks added to these counts, which last as long as the scan. */
extern void hjg_scan_count_kept(HjgScan *scan, HjgKeptCounts *counts);
/* Read pages until there are rows; returns the number of rows, 0 at the end. */
extern int	hjg_scan_next_rows(HjgScan *scan);
/* Get the most rows that one call returns; may be called after the first rows. */
extern int	hjg_scan_max_rows(const HjgScan *scan);
/* Are there more rows? Does not read their columns, nor count them. */
extern bool hjg_scan_peek(HjgScan *scan);
/*
 * A test of a scan's rows besides the conditions of the child, by whoever knows that it can do without some of them.  Many rows at a time, while *open:
 * test puts the numbers of those that stay, ascending, into rows[nrows + HJG_SCAN_TEST_PAD], and returns how many there are.
 */
typedef struct HjgScanTest
{
	const bool *open;
	int			ncolumns;
	AttrNumber *attnos;			/* of the columns that it looks at, which become vectors[ncolumns] */
	int			(*test) (void *arg, const HjgVector *vectors, int nrows, uint16 *rows);
	void	   *arg;
} HjgScanTest;

/* Entries of rows[] that a test may write behind the last. */
#define HJG_SCAN_TEST_PAD 8

/* Add a test, which must last as long as the scan. */
extern void hjg_scan_add_test(HjgScan *scan, const HjgScanTest *test);
/* Start over with the child. */
extern void hjg_scan_reset(HjgScan *scan);
/* Forget memory in the work context, which is emptied afterwards. */
extern void hjg_scan_forget(HjgScan *scan);

/* ---------- all rows of a scan at once, for a program of the device process (scan_collect.c) ---------- */

/* The conditions of a sequential scan, as far as they are simple (scan_filter.c). */
typedef struct HjgScanFilter HjgScanFilter;

/* Make the filter of a scan, in the current context; NULL if it has no condition, or its first one is not simple. */
extern PGDLLEXPORT HjgScanFilter *hjg_scan_filter_create(SeqScanState *seq, MemoryContext work_context);
/*
 * Get the conditions, HJG_FILTER_ALL of them, with all operands evaluated, and the attribute of each column that they read. NULL if
 * there are other conditions, too, or the evaluation of an operand might fail.
 */
extern PGDLLEXPORT const HjgFilter *hjg_scan_filter_bound(HjgScanFilter *filter, const AttrNumber **attnos);

/* A segment of kept columns, or rows of blocks that were read. */
typedef struct HjgCollectedSegment
{
	const struct HjgKeptColumn *const *columns; /* [ncolumns] of the collection */
	const char *const *memory;	/* of the columns, in this process; NULL: it is kept memory */
	uint32		number;			/* by its place in the table; of other memory any one */
	uint32		nrows;
	int			nruns;
	const HjgProgramRun *runs;	/* the rows that the snapshot sees; ascending, with others between them */
	int			nblocks;		/* that the rows come from: */
	const BlockNumber *blocks;	/* these, or, if NULL, */
	BlockNumber first_block;	/* those from this one on; */
	const uint32 *first_row;	/* [nblocks + 1]: each one's first row, the last of them the end */
} HjgCollectedSegment;

typedef struct HjgCollection
{
	int			ncolumns;
	AttrNumber *attnos;			/* of the columns, ascending */
	int			nsegments;
	HjgCollectedSegment *segments;
	uint64		nrows;			/* of all runs */
	HjgKeptCounts counts;
	struct HjgKeptHold *hold;	/* its pins keep the segments */
} HjgCollection;

/*
 * Collect the rows of a sequential scan, which has not begun and is not parallel: those of kept columns by reference, those of blocks
 * that are not kept, or not valid, in memory of this process. attnos: the columns; those that the filter reads are added. Segments
 * without a row that passes the filter are left out; other rows need not pass it. Only strings of kept memory are compared with their
 * checksum, so nothing else of it may be read before that is.
 *
 * Returns NULL, or why it cannot be done, for instance because more than this part of the table's blocks must be read; then
 * the scan can be read in the ordinary way. All memory is in the current context, and segments are pinned until that is reset, or
 * hjg_scan_collect_end().
 */
extern PGDLLEXPORT const char *hjg_scan_collect(SeqScanState *seq, const Bitmapset *attnos, HjgScanFilter *filter, double most_live,
												HjgCollection *collection);
extern PGDLLEXPORT void hjg_scan_collect_end(HjgCollection *collection);
/* Is an attribute a string to programs: of variable length, and no numeric? */
extern bool hjg_scan_is_string(Form_pg_attribute attribute);
/* Was this program, over rows that were collected, refused lately (hjg_kept_note_refused())? */
extern bool hjg_scan_program_refused(uint32 program);
#define HJG_SCAN_REFUSED_LATELY "it could not be run within the last ten minutes"

/* Reads columns of single rows of a collection from their pages, as the snapshot sees them. */
typedef struct HjgRowFetcher HjgRowFetcher;

/* Make a fetcher of these attributes, which need not be the collection's, in the current context. The scan must not be read otherwise. */
extern HjgRowFetcher *hjg_scan_fetcher_create(SeqScanState *seq, int ncolumns, const AttrNumber *attnos);
/*
 * Fetch a row of a segment; values[] may point into its page, which is held until the next row. Returns false if the page has not the rows
 * that it must have.
 */
extern bool hjg_scan_fetch_row(HjgRowFetcher *fetcher, const HjgCollectedSegment *segment, uint32 row, Datum *values, bool *isnull);
/* Let the last page go. */
extern void hjg_scan_fetcher_end(HjgRowFetcher *fetcher);

/* View a column of a segment, with the number that it has in the collection. */
extern PGDLLEXPORT void hjg_scan_collected_view(const HjgCollectedSegment *segment, int c, struct HjgKeptView *view);

/* ---------- facts of a future scan, for predictions of its time ---------- */

/* Columns to be read from a row without NULLs, as scan_heap.c reads them. */
typedef struct HjgRowColumns
{
	int			nfixed;			/* at fixed places */
	int			nbefore;		/* attributes before the first of variable width */
	int			nsteps;			/* attributes after the first of variable width that are stepped over: of fixed width, ... */
	int			nvarlenas;		/* ... and of variable width */
} HjgRowColumns;

/* Count the columns that reading these attributes, each greater than 0, must visit (scan_heap_reader.c). */
extern void hjg_scan_heap_count(TupleDesc desc, int ncolumns, const AttrNumber *attnos, HjgRowColumns *columns);

/* Conditions that a scan evaluates in vectors. */
typedef struct HjgSimpleConditions
{
	int			n;				/* the first ones of the list */
	HjgFilter **filters;		/* one for each, without its operands */
	int			ncolumns;		/* columns that they read */
	AttrNumber *attnos;
	bool		wait;			/* there are no others, and they come after a filter on columns at fixed places */
} HjgSimpleConditions;

/*
 * Find the simple conditions of a table, given in the order of its scan; relid: its range table index in them. Uses the rules
 * of hjg_scan_filter_create(), which decides again (scan_condition.c).
 */
extern void hjg_scan_find_simple(List *quals, Index relid, TupleDesc desc, HjgSimpleConditions *simple);
/*
 * Add the attributes of a table that conditions read; relid: its range table index in them. Returns false if they read system columns or whole
 * rows, too.
 */
extern bool hjg_scan_find_attributes(List *quals, Index relid, Bitmapset **attnos);
/* Rank a condition by about the nanoseconds that it takes a row. A scan tests those of low rank first, unless an operand may raise an error. */
extern int	hjg_scan_filter_rank(const HjgFilter *filter);

/*
 * Estimate the part of a table whose rows come from kept columns of these attributes where its blocks have not changed; coded: all of them in
 * codes (scan_kept_open.c).
 */
extern double hjg_scan_kept_share(Relation relation, BlockNumber nblocks, const Bitmapset *attnos, bool coded);
/*
 * Estimate how many ranges of blocks, which parallel processes may read, lie mixed in a piece of the buffer pool that the system maps at once; 1 if the
 * processes divide the table by buffers (scan_order.c). Looks at a few of the blocks.
 */
extern double hjg_scan_nranges(Relation relation, BlockNumber nblocks);
/* Estimate the part of a table whose rows would come from kept columns of these attributes now. */
extern double hjg_scan_served_share(Relation relation, BlockNumber nblocks, const Bitmapset *attnos);

/* ---------- conditions (scan_condition.c) ---------- */

/* The maker of the filters of an expression's simple conditions. Its owner zeroes it, sets the first block, and must not move it. */
typedef struct HjgConditions
{
	PlanState  *plan;			/* evaluates operands; NULL: conditions are examined, not evaluated */
	Index		varno;			/* of the columns; 0: any */

	/*
	 * The vector of attribute a is column_of[a - 1]; or vectors are numbered as their columns are found, and these are the
	 * columns' attributes, with space for all. Both NULL: nobody asks.
	 */
	const int  *column_of;
	AttrNumber *attnos;

	int			ncolumns;		/* number of attnos */
	List	   *operands;		/* constants and parameters, bound or not */
	int			nfallible;		/* those whose evaluation may fail */
	int			level;			/* nesting of AND and OR, while a filter is made */
} HjgConditions;

/* Make the filter of an expression; NULL if the expression is not simple. Its operands are not bound. */
extern HjgFilter *hjg_scan_condition_make(HjgConditions *conditions, Expr *expr);
/* Bind the operands of all filters now. */
extern void hjg_scan_conditions_bind(HjgConditions *conditions);
/* Have the operands of all filters bound, again, when rows need them. */
extern void hjg_scan_conditions_unbind(HjgConditions *conditions);
/* Get the condition of a branch of CASE; with the tested value, if there is one, in its place. */
extern Expr *hjg_scan_when_condition(const CaseExpr *expr, const CaseWhen *when);

/* ---------- expressions (scan_expr.c) ---------- */

/* Find the expression below casts that do not change the value. */
extern Expr *hjg_scan_strip_relabel(Node *node);
/* Find the string that an expression is a part of, by core's functions and constants that cannot fail; NULL if it is something else. */
extern Expr *hjg_scan_find_slice(const Expr *expr, HjgSlice *slice);
/* Fetch a toasted string, or as much of it as the part takes, into the current context; slice NULL: all. */
extern struct varlena *hjg_scan_slice_fetch(struct varlena *value, const HjgSlice *slice);

#endif							/* HJG_SCAN_H */
