/*
 * hjg_probe_internal.h
 *	  Declarations that the fast paths of probing share: engine_probe.c (tables of buckets),
 *	  engine_direct_probe.c (arrays by key), engine_result.c.
 *
 * Results.  A slot collects pairs in its own buffer and writes them in chunks to places of the result that
 * it claims from one atomic counter.  It computes its checksum from the buffer, because others may write
 * to the result's pages.  Behind the result's capacity lies a spill area of one chunk a slot.  Each slot
 * leaves at most one chunk partly filled, its last, so the spill area overflows only when there are more
 * pairs than the capacity.  Otherwise pairs from the end are moved into the gaps, and the result is filled
 * from its first page on.
 */
#ifndef HJG_PROBE_INTERNAL_H
#define HJG_PROBE_INTERNAL_H

#include "engine/hjg_engine_internal.h"

/*
 * Pairs that may be added to a slot's buffer between two checks of its fill: a scanned bucket's pairs, and
 * a vector's width.
 */
#define HJG_BUFFER_EXTRA (HJG_HEAVY_BUCKET + 16)
#define HJG_BUFFER_PAIRS (HJG_RESULT_CHUNK + HJG_BUFFER_EXTRA)

typedef struct HjgProbeSlot
{
	HjgPair    *buffer;
	hjg_u32		npairs;			/* in the buffer */
	hjg_u32		partial_fill;	/* pairs in the chunk below; 0: none */
	hjg_u64		partial_chunk;
	hjg_u64		checksum;		/* of the pairs written out, if the result wants it */
	char		pad[32];
} HjgProbeSlot;

typedef struct HjgProbeTask HjgProbeTask;

/* Probe rows [begin, end) of the task; false: the slot must return. */
typedef bool (*HjgProbeFn) (HjgProbeTask *probe, HjgProbeSlot *slot, hjg_u64 begin, hjg_u64 end);

struct HjgProbeTask
{
	HjgTask		task;
	const HjgTable *table;
	HjgMatchMode mode;
	const HjgRuns *runs;		/* probe rows, from row on */
	hjg_u64		row;
	hjg_u64		nrows;
	hjg_u32		unit_rows;
	HjgResult  *result;
	hjg_u64		base;			/* first place in the result */
	hjg_u64		capacity;		/* from base on */
	HjgPair    *spill;			/* one chunk a slot */
	hjg_u64		nchunks;		/* of the capacity */
	hjg_u64		nclaimable;		/* with the spill area */
	hjg_u64		next_chunk;		/* atomic */
	bool		overflow;		/* atomic */
	HjgProbeSlot *slots;
	HjgProbeFn	probe;
};

/* --- engine_result.c --- */

/* Write full chunks of the buffer out, or everything at the end; false: the slot must return. */
extern bool hjg_engine_probe_write_out(HjgProbeTask *probe, HjgProbeSlot *slot, bool all);
/*
 * Compute the number of pairs when all slots are done.  If it is within the capacity, pairs of the last
 * chunks are moved into the gaps of partly filled ones.
 */
extern hjg_u64 hjg_engine_probe_close_gaps(HjgProbeTask *probe, int nslots);

/* --- engine_direct_probe.c --- */

/* Choose the function that probes a table that is an array by key. */
extern HjgProbeFn hjg_direct_probe_fn(const HjgTable *table, int width, HjgMatchMode mode);

#endif							/* HJG_PROBE_INTERNAL_H */
