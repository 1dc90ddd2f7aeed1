/*
 * hjg_scan_filter.h
 *	  The conditions of a scan as scan_filter.c makes them and scan_table.c uses them.
 *	  Internal to the room "scan".
 */
#ifndef HJG_SCAN_FILTER_H
#define HJG_SCAN_FILTER_H

#include "postgres.h"

#include "utils/array.h"

#include "scan/hjg_scan.h"

/* scan_filter.c: the conditions of a scan that can be evaluated for many rows at a time */
typedef struct HjgScanFilter HjgScanFilter;

/* Those of a scan, or NULL if its first condition is not one of them. */
extern HjgScanFilter *hjg_scan_filter_create(SeqScanState *seq, MemoryContext work_context);
/* Are these all conditions of the scan? */
extern bool hjg_scan_filter_complete(const HjgScanFilter *filter);
/* Parameters may have changed. */
extern void hjg_scan_filter_reset(HjgScanFilter *filter);
/* See hjg_scan_forget(). */
extern void hjg_scan_filter_forget(HjgScanFilter *filter);
/* The rows of a page that pass go to passed[]; returns how many, and counts the others as removed. */
extern int	hjg_scan_filter_rows(HjgScanFilter *filter, const HjgHeapPage *page, OffsetNumber *passed);

/*
 * scan_filter_bind.c.  Make a leaf of what its operand is: a value of so many bytes; a list of them, "column = ANY (array)"
 * or "column <> ALL (array)": a NULL in it never makes the first true, and never lets the second be, and an empty list
 * decides without a look at the column.  What has to be copied goes to the context, and is freed when the leaf is bound again.
 */
extern void hjg_scan_filter_set_value(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, int16 width, Datum value);
extern void hjg_scan_filter_set_list(HjgFilter *leaf, MemoryContext context, HjgComparison comparison, int16 width, ArrayType *array);
/* Compare two numerics in core's order. */
extern int	hjg_scan_filter_compare_numerics(const void *left, const void *right);
/* Make a leaf of LIKE, with the literals of its pattern, which are the caller's. */
extern void hjg_scan_filter_set_like(HjgFilter *leaf, HjgBytes *bytes, int nbytes, bool negated);

#endif							/* HJG_SCAN_FILTER_H */
