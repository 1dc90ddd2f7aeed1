/*
 * hjg_verify.h
 *	  Comparison of joins with core's hash join. Internal to the room "node".
 *
 *		node_verify.c		the rows of a join that are kept, and the comparison
 *		node_verify_core.c	core's hash join of these rows
 */
#ifndef HJG_VERIFY_H
#define HJG_VERIFY_H

#include "node/hjg_node.h"

/* Rows of a side, as they were read, in a temporary file. */
struct HjgKeptRows
{
	const HjgJoinState *join;
	HjgSideId	side;
	HjgSpill   *spill;			/* NULL: no row was read so far */
	TupleDesc	desc;			/* the child's columns */
	int			ncolumns;		/* columns that the join uses; the others are NULL */
	int		   *columns;
	Datum	   *values;			/* a row that is written to the file */
	bool	   *isnull;
	HjgNumericSpace *numerics;	/* space for values of the row */
};

/* A column of the joined rows. */
typedef struct HjgJoinedColumn
{
	HjgColumn	type;
	int			scan_ix;		/* in the scan tuple */
	int			place;			/* in the rows, or vectors, that are returned */
} HjgJoinedColumn;

/* Number of rows, and a sum over them that does not depend on their order. */
typedef struct HjgTally
{
	uint64		nrows;
	uint64		sum;
} HjgTally;

struct HjgVerify
{
	HjgKeptRows	sides[HJG_SIDES];
	int			ncolumns;
	HjgJoinedColumn *columns;
	HjgTally	tally;			/* of the rows that the node has returned */
	bool		over;			/* this execution is not compared any more */
};

/* node_verify_core.c */
/* Add a row of the joined columns to the tally. */
extern void hjg_tally_row(HjgTally *tally, const HjgVerify *verify, const Datum *values, const bool *isnull);
/* Join the rows that were kept with core's hash join. */
extern HjgTally hjg_verify_by_core(const HjgJoinState *state, HjgVerify *verify);

#endif							/* HJG_VERIFY_H */
