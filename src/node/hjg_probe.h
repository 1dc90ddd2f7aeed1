/*
 * hjg_probe.h
 *	  The probe side of a join: its rows in batches, and the pairs found for them.
 *
 * Room "node".  HjgProbe reads the outer side, or a partition of it, in batches, has each batch joined with the current build
 * pass (hjg_build.h), and returns the rows of the join as row numbers, HJG_VECTOR_ROWS at a time (HjgPairVector). Pairs are
 * exact matches, or candidates whose conditions are evaluated above, where rows are made of them.
 *
 * In place.  The backend itself probes a small build side, vector by vector, and copies columns of those probe rows only that
 * have a match. Otherwise rows are collected in a row store and their keys go to a job.
 *
 * Slices.  Where the first match is enough for a probe row (semi and anti joins, unique build sides), candidates are requested
 * in slices, and only for rows without a match so far (node_slice.c).
 *
 * Redo.  A batch's keys and columns are kept until the last of its pairs was emitted, and the pairs of a round are used only
 * when the round is complete and checked. When the device process is lost, the backend's own engine goes on from the cursor of
 * the last complete round, so no row is lost or returned twice (node_batch.c).
 */
#ifndef HJG_PROBE_H
#define HJG_PROBE_H

#include "postgres.h"

#include "node/hjg_build.h"

/* ---------- rows of the join as row numbers (node_candidates.c) ---------- */

/*
 * The rows of a side, by number: in a store, in vectors, or none (all are NULL); if the device has gathered columns, in
 * copies of the store's rows.
 */
typedef struct HjgNumberedRows
{
	const HjgStore *store;
	const char *const *copies;	/* not NULL: the copy of each row of the vector */
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
	bool	   *pass;			/* result of the pair filter */
	const char *(*places)[HJG_VECTOR_ROWS];	/* [HJG_SIDES] or NULL: gathered columns; entry NULL: the pair has no row of the side */
} HjgPairVector;

extern void hjg_pairs_make(HjgPairVector *pairs, MemoryContext context);
/* Forget memory in the work context, which is about to be emptied. */
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
	HjgPairVector *pairs;		/* the next rows */
	int			most_counted;	/* rows are only counted, so many at a time; else 0 */

	HjgSpill   *spill;			/* rows come from this file of a partition; NULL: from the side */
	HjgProbeBatch *batches[HJG_MOST_BATCHES_IN_FLIGHT];	/* oldest first */
	int			nbatches;
	HjgProbeBatch *spare[HJG_MOST_BATCHES_IN_FLIGHT];
	int			nspare;
	bool		done;			/* the source has no more rows */
	uint64		nrows;			/* rows that have come, for this build pass */
	uint32		batch_rows;		/* size of the next batch */

	/* of the oldest batch */
	uint64		pair_next;		/* pairs of its round that were returned, */
	uint32		tail_next;		/* its unmatched rows emitted, */
	uint32		null_next;		/* its rows with a NULL key emitted */

	/* experience with slices: */
	bool		unsliced;		/* few candidates a row: slices are not worthwhile */
	uint64		second_rows;	/* probe rows that needed a second slice, */
	uint64		second_pairs;	/* and candidates in it */
} HjgProbe;

/* Begin to probe a build pass, new or the same, with rows of the file, or of the side. */
extern void hjg_probe_open(HjgProbe *probe, HjgSpill *spill);
/* Make the next rows the pairs; false at the end. */
extern bool hjg_probe_next(HjgProbe *probe);
/* Drop all batches, waiting for the device process where necessary, before the same pass is probed again. */
extern void hjg_probe_rescan(HjgProbe *probe);
/* Release the pass's job and go on without it; batches are kept. */
extern void hjg_probe_give_up(HjgProbe *probe);
/* Drop the batches, before the pass with their memory is closed. */
extern void hjg_probe_close(HjgProbe *probe);

/* ---- node_candidates.c ---- */

/* Fill the vector with row numbers of the next pairs of the batch's round; returns how many there are, 0 at its end. */
extern int	hjg_candidates_next(HjgProbe *probe, HjgProbeBatch *batch);

/* ---- node_recheck.c ---- */

/* Prepare the comparison of the keys of pairs; NULL if the clauses need core's expression code. */
extern HjgRecheck *hjg_recheck_create(const HjgSide *outer, const HjgSide *inner, List *hash_clauses);
/* Find the pairs with equal keys among the first npairs of the vector, which are of this batch and of the pass's build rows. */
extern void hjg_recheck_pairs(const HjgProbe *probe, const HjgProbeBatch *batch, int npairs);

/* ---- node_slice.c ---- */

/* Decide how a filled batch's candidates are requested, before it is submitted. */
extern void hjg_slice_first(HjgProbe *probe, HjgProbeBatch *batch);
/* Request more candidates of rows without a match, after all pairs so far are used; false when none are left. */
extern bool hjg_slice_next(HjgProbe *probe, HjgProbeBatch *batch);

#endif							/* HJG_PROBE_H */
