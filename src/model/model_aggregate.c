/*
 * model_aggregate.c
 *	  The cost of aggregates computed from vectors of joined rows.
 */
#include <math.h>

#include "model/hjg_model.h"

/*
 * One step of a loop over a vector in the first-level cache: loading a value, or adding it to another or
 * to a total.
 */
#define STEP_NS 0.6

/* Creating the node and its memory. */
#define START_NS 20000

/* Converting, hashing and comparing a key of a row, in cache. */
#define KEY_NS 6

/* The misses of a row of a large table, as a share of one that nothing else overlaps. */
#define FETCHED_MISSES 0.5

/* The row of a group, finished or with transition values. */
#define GROUP_NS 100
#define PARTIAL_GROUP_NS 300

/* Creating a file, opening those of others and waiting for them; writing, reading and merging a group. */
#define EXCHANGE_START_NS 300000
#define EXCHANGE_NS 60

/* Bytes of a group, besides its columns. */
#define GROUP_BYTES 64

/* Size up to which a table stays in a cache. */
#define CACHED_BYTES (1024 * 1024.0)

/* Passing a value to core's sort; comparing two values, of fixed and of variable length. */
#define SORT_VALUE_NS 25
#define COMPARE_NS 3
#define COMPARE_VARLENA_NS 14

static double
groups_bytes(double ngroups, int ncolumns)
{
	return ngroups * (GROUP_BYTES + 8.0 * ncolumns);
}

double
hjg_model_aggregate_ns(const HjgUnitCosts *costs, double rows, int ncolumns, int nsteps)
{
	return rows * (costs->column_ns * ncolumns + STEP_NS * nsteps);
}

double
hjg_model_group_ns(const HjgUnitCosts *costs, double rows, double ngroups, int nkeys, int ncolumns)
{
	const double bytes = groups_bytes(ngroups, ncolumns);
	/* a row of a larger table misses bucket, keys and totals, which are fetched ahead */
	const double misses = bytes > CACHED_BYTES ? FETCHED_MISSES * costs->miss_ns * (1 - CACHED_BYTES / bytes) : 0;

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
hjg_model_group_spill_ns(double ngroups, int ncolumns, double memory_bytes)
{
	const double bytes = groups_bytes(ngroups, ncolumns);
	const double partitions = fmin(fmax(memory_bytes / HJG_MODEL_GROUP_PARTITION_BYTES, 1 << HJG_MODEL_GROUP_LEAST_BITS),
								   1 << HJG_MODEL_GROUP_MOST_BITS);

	return bytes <= memory_bytes ? 0 : ngroups * EXCHANGE_NS * ceil(log(bytes / memory_bytes) / log(partitions));
}

double
hjg_model_finish_ns(double ngroups, bool partial)
{
	return ngroups * (partial ? PARTIAL_GROUP_NS : GROUP_NS);
}

double
hjg_model_sort_ns(double rows, double nvalues, bool byval)
{
	return rows * (SORT_VALUE_NS + log2(nvalues + 1) * (byval ? COMPARE_NS : COMPARE_VARLENA_NS));
}
