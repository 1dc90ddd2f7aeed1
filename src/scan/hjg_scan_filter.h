/*
 * hjg_scan_filter.h
 *	  The conditions of a scan, made by scan_filter.c, applied by scan_filter_rows.c, and used by scan_table.c.
 *	  Internal to the room "scan", except for calibration.
 */
#ifndef HJG_SCAN_FILTER_H
#define HJG_SCAN_FILTER_H

#include "postgres.h"

#include "utils/array.h"

#include "scan/hjg_scan_heap.h"

typedef struct HjgKeptTests HjgKeptTests;

/* The conditions of a scan that can be evaluated for many rows at a time; scan_filter.c makes them and scan_filter_rows.c applies them. */
struct HjgScanFilter
{
	SeqScanState *seq;			/* NULL: conditions are examined, not evaluated */
	HjgFilter  *filter;			/* AND of the simple conditions */
	bool		complete;		/* there are no others */
	HjgConditions conditions;	/* the conditions that it was made of, with their operands */
	int			nfallible_in_or;	/* operands whose evaluation may fail, in a condition that rows may pass without evaluating them */
	HjgPageColumns columns;		/* that the filter reads */
	HjgKeptTests *kept_tests;	/* of rows of kept columns; NULL: there were none */
};

/* Does the filter have all conditions of the scan? */
extern bool hjg_scan_filter_complete(const HjgScanFilter *filter);
/*
 * True if the filter can be evaluated, at less cost and with the same result, on the rows that a test of columns at fixed places leaves: it
 * has all conditions, walks to a column, and none of its operands can fail.
 */
extern bool hjg_scan_filter_may_wait(const HjgScanFilter *filter);
/* Do all rows of a segment fail? views: its columns by attribute; source: as in HjgHeapPage, or 0: their memory must not be read. */
extern bool hjg_scan_filter_excludes(HjgScanFilter *filter, const struct HjgKeptView *views, uint64 source);
/* Count rows that were removed without being read. */
extern void hjg_scan_filter_count_removed(HjgScanFilter *filter, uint64 nrows);
/* Add the attributes that it reads to a set. */
extern Bitmapset *hjg_scan_filter_add_columns(const HjgScanFilter *filter, Bitmapset *attnos);
/* Bind operands again, after a change of parameters. */
extern void hjg_scan_filter_reset(HjgScanFilter *filter);
/* Forget memory in the work context, which is about to be emptied. */
extern void hjg_scan_filter_forget(HjgScanFilter *filter);
/* Put the line pointers of the rows that pass into passed[]; returns their number, and counts the other rows as removed. */
extern int	hjg_scan_filter_rows(HjgScanFilter *filter, const HjgHeapPage *page, OffsetNumber *passed);

/*
 * scan_filter_kept.c: conditions on kept columns, evaluated on codes and words as far as possible.
 */
/* all: HJG_FILTER_ALL of the conditions; attnos: the attribute of each column that they read. */
extern HjgKeptTests *hjg_scan_kept_tests_create(MemoryContext context, HjgFilter *all, const AttrNumber *attnos);
/* See hjg_scan_filter_excludes(). */
extern bool hjg_scan_kept_tests_exclude(HjgKeptTests *tests, const struct HjgKeptView *views, uint64 source);
/* Clear pass[i] for rows of the page that do not pass; returns the conditions that are left, for the others. */
extern HjgFilter *hjg_scan_kept_tests_eval(HjgKeptTests *tests, const HjgHeapPage *page, bool *pass);

/*
 * scan_filter_bind.c. Bind a leaf to its operand: a value of this width, or a list of such values, "column = ANY (array)" or
 * "column <> ALL (array)". A NULL in the list never makes the first true, and makes the second never true; with an empty list
 * the result does not depend on the column. Copies are in the context, and are freed when the leaf is bound again.
 */
extern void hjg_scan_filter_set_value(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, int16 width, Datum value);
/* Bind a leaf to a value that is converted to the type of its column. */
extern void hjg_scan_filter_set_time(HjgFilter *leaf, HjgComparison comparison, HjgTimeOperand operand, Datum value);
extern void hjg_scan_filter_set_list(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, int16 width, ArrayType *array);
extern void hjg_scan_filter_set_values(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, int16 width, const Datum *elems,
									   const bool *nulls, int nelems);
/* Compare two numerics in core's order. */
extern int	hjg_scan_filter_compare_numerics(const void *left, const void *right);
/* Bind a leaf of LIKE to the literals of its pattern, which the caller owns. */
extern void hjg_scan_filter_set_like(HjgFilter *leaf, HjgBytes *bytes, int nbytes, bool negated);

#endif							/* HJG_SCAN_FILTER_H */
