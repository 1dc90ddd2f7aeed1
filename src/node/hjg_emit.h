/*
 * hjg_emit.h
 *	  The top of a join: rows of a slot, or vectors.
 *
 * Room "node".  HjgEmit makes rows of pairs of row numbers (hjg_probe.h): it gathers their columns from wherever the
 * pairs say they are.  Rows are handed out one by one; or, to a join or a GpuAggregate above, as vectors.
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
	int		   *target[HJG_SIDES];	/* payload column c in a row that is handed out, or -1 */
	int			ntargets[HJG_SIDES];	/* payload columns that have one */

	TupleTableSlot *slot;
	List	   *constants;		/* target list with constants that are in all rows, or NIL */
	int			width;			/* columns of the slot */
	bool		direct;			/* it is the node's result as it stands */
	bool		has_space;		/* there is memory for rows */
	Datum	   *values;			/* [HJG_VECTOR_ROWS][width]; NULL where rows are columnar */
	bool	   *isnull;
	int			n;				/* rows at hand, */
	int			next;			/* of which those before this one were handed out */

	/* rows as vectors, by column of whoever takes them */
	HjgVector  *vectors;		/* NULL: rows are handed out one by one */
	HjgVector  *vector_space;	/* the same with memory of this node's own */
	int			nresults;
	const int  *result_ix;		/* result column r in the scan tuple */
	bool		columnar;		/* gathered straight into vectors */
	bool		counted;		/* vectors have no columns, and any number of rows */
} HjgEmit;

/* Settle, when the sides and the quals are known, what the rows look like that are handed out. */
extern void hjg_emit_init(HjgEmit *emit, const CustomScanState *node);
/*
 * Let rows become vectors[nresults] from now on, result column r being column result_ix[r] of the scan tuple; the array is
 * kept.
 */
extern void hjg_emit_open_vectors(HjgEmit *emit, TupleDesc scan_desc, int nresults, const int *result_ix);
/* Say, if nobody looks at rows but to count them, how many come at a time; else 0. */
extern int	hjg_emit_most_counted(const HjgEmit *emit);
/* Make the rows of the pairs; a row of one side's payload columns alone. */
extern void hjg_emit_pairs(HjgEmit *emit, const HjgPairVector *pairs);
extern void hjg_emit_single(HjgEmit *emit, HjgSideId side, const Datum *values, const bool *isnull);
/* Forget what lies in the work context, which is about to be emptied. */
extern void hjg_emit_forget(HjgEmit *emit);

/* Make the row in the slot row n of the vectors. */
static inline void
hjg_emit_put_row(HjgEmit *emit, int n)
{
	const TupleTableSlot *slot = emit->slot;

	for (int r = 0; r < emit->nresults; r++)
		hjg_vector_put(&emit->vectors[r], n, slot->tts_values[emit->result_ix[r]], slot->tts_isnull[emit->result_ix[r]]);
}

/* ---------- conditions of pairs (node_pairs.c) ---------- */

/*
 * Take those of a list that compare two columns of the scan tuple and come before all that do not; the
 * others go to *rest.  NULL if there is none.
 */
extern HjgPairFilter *hjg_pair_filter_create(List *join_qual, TupleDesc scan_desc, List **rest);
/* Find which of the nrows rows of ncolumns values, one behind the other, pass; nrows <= HJG_VECTOR_ROWS. */
extern void hjg_pair_filter_rows(const HjgPairFilter *filter, const Datum *values, const bool *isnull,
								 int ncolumns, int nrows, bool *pass);

#endif							/* HJG_EMIT_H */
