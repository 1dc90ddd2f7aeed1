/*
 * hjg_emit.h
 *	  The top of a join: rows of a slot, or vectors.
 *
 * Room "node".  HjgEmit makes rows of pairs of row numbers (hjg_probe.h): it gathers their columns from the places that the
 * pairs name. Rows are returned one by one, or, to a join or a GpuAggregate above, as vectors.
 */
#ifndef HJG_EMIT_H
#define HJG_EMIT_H

#include "postgres.h"

#include "nodes/execnodes.h"

#include "node/hjg_probe.h"

/* ---------- rows (node_emit.c) ---------- */

/* Arrays are in the work context, or NULL before the first row. */
typedef struct HjgEmit
{
	const HjgExecution *execution;
	const HjgSide *sides[HJG_SIDES];
	int		   *target[HJG_SIDES];	/* place of payload column c in a returned row, or -1 */
	int			ntargets[HJG_SIDES];	/* payload columns that have a place */

	TupleTableSlot *slot;
	List	   *constants;		/* target list with constants, which are the same in all rows, or NIL */
	int			width;			/* columns of the slot */
	bool		direct;			/* the row is the node's result, without projection */
	bool		has_space;		/* there is memory for rows */
	Datum	   *values;			/* [HJG_VECTOR_ROWS][width]; NULL where rows are columnar */
	bool	   *isnull;
	HjgNumericSpace **numerics; /* by column of a row or vector: space for numerics in core's form; NULL before the first ones */
	int			n;				/* rows that are made, */
	int			next;			/* of which those before this one were returned */

	/* rows as vectors, by column of the operator above */
	HjgVector  *vectors;		/* NULL: rows are returned one by one */
	HjgVector  *vector_space;	/* the same with memory of this node's own */
	Bitmapset  *as_numbers;		/* columns whose numerics may be integers (HjgVector), */
	int64	  **numbers;		/* by column: space for these, */
	int			nresults;
	const int  *result_ix;		/* result column r in the scan tuple */
	bool		columnar;		/* rows are gathered directly into vectors */
	bool		counted;		/* rows are only counted: vectors have no columns, and any number of rows */
} HjgEmit;

/* Set the form of the returned rows; sides and quals must be known. */
extern void hjg_emit_init(HjgEmit *emit, const CustomScanState *node);
/*
 * Return rows as vectors[nresults] from now on; result column r is column result_ix[r] of the scan tuple. The array is kept.
 */
extern void hjg_emit_open_vectors(HjgEmit *emit, TupleDesc scan_desc, int nresults, const int *result_ix);
/* Get the number of rows that come at a time if rows are only counted; else 0. */
extern int	hjg_emit_most_counted(const HjgEmit *emit);
/* Make the rows of the pairs; make a row of one side's payload columns alone. */
extern void hjg_emit_pairs(HjgEmit *emit, const HjgPairVector *pairs);
extern void hjg_emit_single(HjgEmit *emit, HjgSideId side, const Datum *values, const bool *isnull);
/* Forget memory in the work context, which is about to be emptied. */
extern void hjg_emit_forget(HjgEmit *emit);

/* Copy the row in the slot to row n of the vectors. */
static inline void
hjg_emit_put_row(HjgEmit *emit, int n)
{
	const TupleTableSlot *slot = emit->slot;

	for (int r = 0; r < emit->nresults; r++)
		hjg_vector_put(&emit->vectors[r], n, slot->tts_values[emit->result_ix[r]], slot->tts_isnull[emit->result_ix[r]]);
}

/* ---------- conditions of pairs (node_pairs.c) ---------- */

/*
 * Make a filter of the conditions at the beginning of a list that compare two columns of the scan tuple; the rest of the list
 * goes to *rest. NULL if the first condition is another one.
 */
extern HjgPairFilter *hjg_pair_filter_create(List *join_qual, TupleDesc scan_desc, List **rest);
/* Find which of the nrows rows of ncolumns contiguous values pass; nrows <= HJG_VECTOR_ROWS. */
extern void hjg_pair_filter_rows(const HjgPairFilter *filter, const Datum *values, const bool *isnull,
								 int ncolumns, int nrows, bool *pass);

#endif							/* HJG_EMIT_H */
