/*
 * hjg_scan_order.h
 *	  The pages of a parallel scan in the order of their buffers, made by scan_order.c and used by scan_heap_page.c.
 *	  Internal to the room "scan".
 */
#ifndef HJG_SCAN_ORDER_H
#define HJG_SCAN_ORDER_H

#include "postgres.h"

#include "access/heapam.h"
#include "utils/dsa.h"

#include "scan/hjg_scan.h"

/* A process's part of the order. */
typedef struct HjgPageOrder HjgPageOrder;

/*
 * Take part in a parallel scan, before its first page. NULL if the processes go by blocks, as core's do; all of them choose the
 * same. area: the query's, or NULL. The process's part is palloc'ed in the scan's context.
 */
extern HjgPageOrder *hjg_page_order_join(HeapScanDesc scan, dsa_area *area);
/* Get the next block, which stays the next one until it is taken; false at the end. *buffer: its likely place, or InvalidBuffer. */
extern bool hjg_page_order_peek(HjgPageOrder *order, BlockNumber *block, Buffer *buffer);
/* Take the block that was peeked at. */
extern void hjg_page_order_take(HjgPageOrder *order);

#endif							/* HJG_SCAN_ORDER_H */
