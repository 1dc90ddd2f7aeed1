/*
 * model_aggregate.c
 *	  What aggregates cost that are computed of vectors of joined rows.
 */
#include "model/hjg_model.h"

/* A value loaded, added to another, or to a total: one step of a loop over a vector that is in the first-level cache. */
#define STEP_NS 0.6

/* A node that is made, and its memory. */
#define START_NS 20000

/* A key of a row turned into a number, hashed and compared, in cache. */
#define KEY_NS 6

/* A group's row, finished, or with transition values. */
#define GROUP_NS 100
#define PARTIAL_GROUP_NS 300

/* A file that is made, others' that are opened, and waiting for these; a group written, read and put together. */
#define EXCHANGE_START_NS 300000
#define EXCHANGE_NS 150

/* Bytes that a group takes, beside its columns. */
#define GROUP_BYTES 64

/* A table of at most so many bytes stays in a cache; in a larger one ... */
#define CACHED_BYTES (1024 * 1024.0)

double
hjg_model_aggregate_ns(const HjgUnitCosts *costs, double rows, int ncolumns, int nsteps)
{
	return rows * (costs->column_ns * ncolumns + STEP_NS * nsteps);
}

double
hjg_model_group_ns(const HjgUnitCosts *costs, double rows, double ngroups, int nkeys, int ncolumns)
{
	const double bytes = ngroups * (GROUP_BYTES + 8.0 * ncolumns);
	/* ... a row misses bucket, keys and totals; a part of the misses overlaps */
	const double misses = bytes > CACHED_BYTES ? costs->miss_ns * (1 - CACHED_BYTES / bytes) : 0;

	if (nkeys == 0)
		return START_NS;
	return START_NS + rows * (KEY_NS * nkeys + misses);
}

double
hjg_model_exchange_ns(double ngroups)
{
	return EXCHANGE_START_NS + ngroups * EXCHANGE_NS;
}

double
hjg_model_finish_ns(double ngroups, bool partial)
{
	return ngroups * (partial ? PARTIAL_GROUP_NS : GROUP_NS);
}
