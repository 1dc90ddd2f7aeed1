/*
 * hjg_huge_ranges.h
 *	  Ranges of shared memory that are one huge page each, or can be.
 *	  Internal to the room "huge".
 */
#ifndef HJG_HUGE_RANGES_H
#define HJG_HUGE_RANGES_H

#include "postgres.h"

#include "port/atomics.h"

#include "huge/hjg_huge.h"

/* Found out at the start of the server. */
typedef enum HjgHugeSupport
{
	HJG_HUGE_RESERVED,			/* it has huge pages that the administrator has reserved */
	HJG_HUGE_OFF,				/* PostgreSQL's huge_pages is off */
	HJG_HUGE_NONE,				/* the kernel has none, or where they would be cannot be told */
	HJG_HUGE_POSSIBLE
} HjgHugeSupport;

extern HjgHugeSupport hjg_huge_support[HJG_HUGE_NAREAS];
extern uint32 hjg_huge_nranges[HJG_HUGE_NAREAS];	/* 0, unless it is possible */
extern Size hjg_huge_range_bytes;

/* In shared memory. Only the worker writes what is not atomic. */
typedef struct HjgHugeShared
{
	pg_atomic_uint64 next_start_ns; /* no worker starts before */
	pg_atomic_uint32 wanted;	/* much memory was read or filled that is not in huge pages */
	bool		refused;		/* the kernel does not collapse buffers */
	uint32		nused[HJG_HUGE_NAREAS]; /* ranges that were in use when the worker last looked, */
	uint32		nhuge[HJG_HUGE_NAREAS]; /* and of them in huge pages */
	bool		huge[FLEXIBLE_ARRAY_MEMBER];	/* ranges of shared buffers */
} HjgHugeShared;

extern HjgHugeShared *hjg_huge_shared;	/* NULL: buffers can have no huge pages */

/* Get the address of an area's first range in this process, aligned; NULL: it has none. */
extern char *hjg_huge_base(HjgHugeArea area);

#endif							/* HJG_HUGE_RANGES_H */
