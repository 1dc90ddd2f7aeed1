/*
 * model_aggregate.c
 *	  What aggregates cost that are computed of vectors of joined rows.
 */
#include "model/hjg_model.h"

/* A value loaded, added to another, or to a total: one step of a loop over a vector that is in the first-level cache. */
#define STEP_NS 0.6

double
hjg_model_aggregate_ns(const HjgUnitCosts *costs, double rows, int ncolumns, int nsteps)
{
	return rows * (costs->column_ns * ncolumns + STEP_NS * nsteps);
}
