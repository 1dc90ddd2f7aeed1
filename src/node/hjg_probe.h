/*
 * hjg_probe.h
 *	  The probe side of a join: its rows in batches, and the pairs that come of them.
 *
 * Room "node".  HjgProbe reads the outer side, or a partition of it, in batches, has each of them joined with the build
 * pass at hand (hjg_build.h), and yields the rows of the join as row numbers, HJG_VECTOR_ROWS at a time (HjgPairVector).
 * Pairs are exact matches, or candidates whose conditions are evaluated by whoever makes rows of them, above.
 *
 * In place.  A small build side is probed by the backend itself, vector by vector: the probe rows' columns are not copied
 * before it is known which rows have a match.  Otherwise rows are collected in a row store and their keys go to a job.
 *
 * Slices.  Where one match decides a probe row (semi and anti joins, unique build sides), candidates are asked for in
 * slices, and of undecided rows only (node_slice.c).
 *
 * Redo.  A batch's keys and columns are kept until the last of its pairs was emitted, and the pairs of a round are looked
 * at only once the round was complete and checked.  When the device process is lost, the backend's own engine goes on from
 * the cursor of the last complete round: no row is lost or doubled (node_batch.c).
 */
#ifndef HJG_PROBE_H
#define HJG_PROBE_H

#include "postgres.h"

#include "node/hjg_build.h"

/* ---------- rows of the join as row numbers (node_candidates.c) ---------- */

/*
 * Where rows of a side are that have numbers: in a store, in vectors, or nowhere (they are NULL); or, gathered by the
 * device, in copies of the store's rows.
 */
typedef struct HjgNumberedRows
{
	const HjgStore *store;
	const char *const *copies;	/* not NULL: of each row of the vector */
	const HjgVector *vectors;
	const uint16 *places;		/* row i is row places[i] of the vectors, or row i */
} HjgNumberedRows;

/* Arrays are of HJG_VECTOR_ROWS, in the work context, or NULL before the first row. */
typedef struct HjgPairVector
{
	int			n;
	bool		candidates;		/* conditions of the join are still to be evaluated */
	HjgNumberedRows rows[HJG_SIDES];
	uint32	   *probe;
	uint32	   *build;
	bool	   *pass;			/* the pair filter's verdict */
	const char *(*places)[HJG_VECTOR_ROWS];	/* [HJG_SIDES], of gathered columns, if there were any; NULL: the pair has
											 * no such row */
} HjgPairVector;

extern void hjg_pairs_make(HjgPairVector *pairs, MemoryContext context);
/* Forget what lies in the work context, which is about to be emptied. */
extern void hjg_pairs_forget(HjgPairVector *pairs);

static inline void
hjg_pairs_prepare(HjgPairVector *pairs, MemoryContext context)
{
	if (unlikely(pairs->probe == NULL))
		hjg_pairs_make(pairs, context);
}

static inline HjgNumberedRows
hjg_stored_rows(const HjgStore *store)
{
	return (HjgNumberedRows) {.store = store};
}

/* ---------- probing (node_probe.c) ---------- */

typedef struct HjgProbe
{
	const HjgExecution *execution;
	HjgSide    *side;
	HjgBuild   *build;
	HjgMatch   *match;
	HjgProbeFilter *filter;
	HjgPairVector *pairs;		/* become the next rows */
	int			most_counted;	/* nobody looks at rows, but counts so many at a time; or 0 */

	HjgSpill   *spill;			/* rows come from this file of a partition; NULL: from the side */
	HjgProbeBatch *batches[HJG_MOST_BATCHES_IN_FLIGHT];	/* oldest first */
	int			nbatches;
	HjgProbeBatch *spare[HJG_MOST_BATCHES_IN_FLIGHT];
	int			nspare;
	bool		done;			/* no more rows come from there */
	uint64		nrows;			/* so many have, for this build pass */
	uint32		batch_rows;		/* size of the next batch */

	/* of the oldest batch */
	uint64		pair_next;		/* pairs of its round were looked at up to here, */
	uint32		tail_next;		/* its unmatched rows emitted, */
	uint32		null_next;		/* its rows with a NULL key emitted */

	/* what slices have shown */
	bool		unsliced;		/* few candidates a row: slices would not pay */
	uint64		second_rows;	/* probe rows that needed a second slice, */
	uint64		second_pairs;	/* and candidates in it */
} HjgProbe;

/* A build pass is there, or the same one is probed with other rows: those of the file, or of the side. */
extern void hjg_probe_open(HjgProbe *probe, HjgSpill *spill);
/* Make the next rows the pairs; false at the end. */
extern bool hjg_probe_next(HjgProbe *probe);
/* Forget everything under way, waiting for the device process where it must: the same pass is probed once more. */
extern void hjg_probe_rescan(HjgProbe *probe);
/* Go on without the pass's job, which is released; what is under way is kept. */
extern void hjg_probe_give_up(HjgProbe *probe);
/* The pass goes, and the batches with its memory. */
extern void hjg_probe_close(HjgProbe *probe);

/* ---- node_candidates.c ---- */

/* Fill the vector with row numbers of the next pairs of the batch's round; returns how many, 0 at its end. */
extern int	hjg_candidates_next(HjgProbe *probe, HjgProbeBatch *batch);

/* ---- node_recheck.c: see there ---- */

/* NULL if the clauses need core's expression code. */
extern HjgRecheck *hjg_recheck_create(const HjgSide *outer, const HjgSide *inner, List *hash_clauses);
/* Find which of the first npairs pairs of the vector, of this batch and the pass's build rows, have equal keys. */
extern void hjg_recheck_pairs(const HjgProbe *probe, const HjgProbeBatch *batch, int npairs);

/* ---- node_slice.c ---- */

/* Decide, as the batch is filled and about to be submitted, how its candidates are asked for. */
extern void hjg_slice_first(HjgProbe *probe, HjgProbeBatch *batch);
/* Ask, when all pairs so far were looked at, for more of undecided rows; false when nothing is left. */
extern bool hjg_slice_next(HjgProbe *probe, HjgProbeBatch *batch);

#endif							/* HJG_PROBE_H */
