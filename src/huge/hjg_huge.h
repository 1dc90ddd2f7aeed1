/*
 * hjg_huge.h
 *	  Huge pages for shared buffers and kept columns.
 *
 * A process maps shared memory page by page when it first reads it. With memory pages of 4 KB that takes a new parallel worker longer
 * than reading the rows. PostgreSQL's setting huge_pages does away with it where the administrator has reserved huge pages. Elsewhere
 * this room has the kernel collapse memory that is in use into huge pages (MADV_COLLAPSE, Linux 6.1), which needs no privilege, no
 * reservation and no more memory. A background worker does it (huge_worker.c), and hjoin_gpu_huge_pages() shows how far it is.
 *
 * A huge page must be aligned alike in memory and in the file behind it, and the server maps its shared memory at any address. So a process
 * that scans maps the buffers once more, at an address that is aligned (huge_view.c), and reads pages there. All else goes through
 * the server's own mapping; both are of the same memory. Kept columns are mapped so from the start.
 *
 * Room "huge": uses base and layout.
 */
#ifndef HJG_HUGE_H
#define HJG_HUGE_H

#include "postgres.h"

#include "storage/bufmgr.h"
#include "storage/bufpage.h"

typedef enum HjgHugeArea
{
	HJG_HUGE_BUFFERS,
	HJG_HUGE_KEPT,
	HJG_HUGE_NAREAS
} HjgHugeArea;

/* Install hooks; in the postmaster, while libraries are preloaded. */
extern void hjg_huge_init(void);
/* Have kept columns' memory collapsed, too, unless it has huge pages; in the postmaster, each time that it has mapped it. NULL: it is gone. */
extern void hjg_huge_add_kept(char *base, Size bytes, bool has_huge_pages);

/* Does the server itself have huge pages for shared buffers? */
extern bool hjg_huge_are_reserved(void);
/* Estimate the share of an area's memory in use that a new process maps at once, as it is in huge pages. */
extern double hjg_huge_share(HjgHugeArea area);

/* Get the page in a pinned buffer: where it lies in a huge page, if it does. */
extern Page hjg_huge_page(Buffer buffer);
/* Say that so many bytes of kept columns were filled. */
extern void hjg_huge_note_kept(Size bytes);
/* Start the worker if there is something to do for it, and none ran a short time ago; at the start of a scan. */
extern void hjg_huge_look(void);

#endif							/* HJG_HUGE_H */
