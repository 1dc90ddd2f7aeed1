/*
 * hjg_scan_heap.h
 *	  The reader of heap pages, made by scan_heap_reader.c and used by scan_heap.c.
 *	  Internal to the room "scan".
 */
#ifndef HJG_SCAN_HEAP_H
#define HJG_SCAN_HEAP_H

#include "postgres.h"

#include "scan/hjg_scan.h"

/* Most columns that the first pass over a page copies. */
#define HJG_EARLY_COLUMNS 2

/* Bytes of values by reference that are copied to let the rows of several pages come together. */
#define HJG_COPIED_BYTES (64 * 1024)

/* A wanted column. */
typedef struct HjgReaderColumn
{
	HjgVector  *vector;
	HjgVector	part;			/* of the page being read */
	AttrNumber	attno;
	int			next_same;		/* next column that wants the same attribute, or -1 */
	bool		as_numbers;		/* kept numerics become the vector's numbers, for which this is the space; */
	int64	   *numbers;		/* [max_rows] */
	HjgNumericSpace *numerics;	/* [max_rows]: or for their values in core's form. Made with the first such rows */
} HjgReaderColumn;

/* An attribute of the table, up to the last wanted one; numbers are from 0. */
typedef struct HjgReaderAttribute
{
	int16		attlen;
	bool		attbyval;
	char		attalign;
	int			fixed_off;		/* in a row without NULLs, or -1 */
	int			column;			/* first column that wants it, or -1 */
} HjgReaderAttribute;

struct HjgHeapReader
{
	TupleDesc	desc;
	int			max_rows;
	MemoryContext context;
	int			ncolumns;		/* wanted columns */
	HjgReaderColumn *columns;
	int			natts;			/* attributes up to the last wanted one */
	HjgReaderAttribute *attributes;
	int			walk_first;		/* plain rows are walked from here; natts: not at all */
	int			walk_off;		/* end of the attribute before that */
	const char *zeros;			/* read instead of rows that are not plain */
	char	   *copied;			/* [HJG_COPIED_BYTES]: values by reference of pages before the latest one; NULL: no wanted column has any */
	char	   *copied_end;
	int			early[HJG_EARLY_COLUMNS];	/* columns that are copied while rows are found, or -1; */
	int			early_width[HJG_EARLY_COLUMNS]; /* 0: none */
	int			wanted_off;		/* from a row's header to the last wanted attribute, as far as is known */
	int			far_off;		/* up to which rows of the next page are prefetched */
	int			nothers;
	uint16		others[MaxHeapTuplesPerPage];	/* rows that are not plain */
	const char *data[MaxHeapTuplesPerPage];	/* first attribute of each row */
	const char *starts[MaxHeapTuplesPerPage];	/* of the attribute that rows are walked to, */
	const char *ends[MaxHeapTuplesPerPage]; /* and of the next attribute, or its padding */
};

/* Columns that are looked at before it is known which rows of a page are wanted. */
typedef struct HjgPageColumns
{
	TupleDesc	desc;
	int			n;
	AttrNumber *attnos;
	bool		as_numbers;		/* the caller takes numerics as integers, too */
	MemoryContext work_context; /* of the vectors and the reader */
	HjgVector  *vectors;
	HjgHeapReader *reader;		/* NULL: no row was there to be read yet */
} HjgPageColumns;

/* Read the columns of a page's rows into the vectors. */
extern void hjg_scan_page_columns_read(HjgPageColumns *columns, const HjgHeapPage *page);
/* See hjg_scan_forget(). */
extern void hjg_scan_page_columns_forget(HjgPageColumns *columns);
/* Do some of them lie behind a column of variable width, so that rows are walked to reach them? */
extern bool hjg_scan_page_columns_walked(const HjgPageColumns *columns);

/*
 * Go to a block of a sequential scan whose rows are not read in any other way, and find its visible rows; *page is zeroed before the
 * first. next: the block that will be next, whose rows memory supplies meanwhile; or InvalidBlockNumber. hjg_scan_heap_leave() ends that,
 * and leaves the scan at its beginning.
 */
extern void hjg_scan_heap_go_to(TableScanDesc scan, BlockNumber block, BlockNumber next, HjgHeapPage *page);
extern void hjg_scan_heap_leave(TableScanDesc scan);

/* Have kept numerics read as integers: those of this vector, or (NULL) of all. */
extern void hjg_scan_heap_take_numbers(HjgHeapReader *reader, const HjgVector *vector);
/* Collect the rows of a page that everybody sees. */
extern int	hjg_scan_heap_collect_all(Page page, int nlines, OffsetNumber *rows);

/* Bytes of a value in a vector. */
static inline int
hjg_scan_heap_value_bytes(const HjgColumn *column)
{
	return column->attbyval ? column->attlen : (int) sizeof(char *);
}

/* Get the offset of a wanted column in rows without NULLs, or -1. */
static inline int
hjg_scan_heap_column_off(const HjgHeapReader *reader, int c)
{
	return reader->attributes[reader->columns[c].attno - 1].fixed_off;
}

#endif							/* HJG_SCAN_HEAP_H */
