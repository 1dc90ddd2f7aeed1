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

/* Converting, hashing and comparing a key of a row, in cache. */
#define KEY_NS 6

/* The misses of a row of a large table, as a share of one that nothing else overlaps. */
#define FETCHED_MISSES 0.5

/* The row of a group, finished or with transition values. */
#define GROUP_NS 100
#define PARTIAL_GROUP_NS 300

/* Creating a file, opening those of others and waiting for them; writing, reading and merging a group, and each of its columns. */
#define EXCHANGE_START_NS 300000
#define EXCHANGE_NS 60
#define EXCHANGE_COLUMN_NS 20

/* Bytes of a group, besides its columns. */
#define GROUP_BYTES 64

/* Size up to which a table stays in a core's cache; size of which a cache of many cores holds little, and what a miss there takes of one of memory. */
#define CACHED_BYTES (1024 * 1024.0)
#define SHARED_CACHE_BYTES (32 * CACHED_BYTES)
#define SHARED_CACHE_MISS 0.25

/* Passing a value to core's sort; comparing two values, of fixed and of variable length. */
#define SORT_VALUE_NS 25
#define COMPARE_NS 3
#define COMPARE_VARLENA_NS 14

static double
groups_bytes(double ngroups, int ncolumns)
{
	return ngroups * (GROUP_BYTES + 8.0 * ncolumns);
}

bool
hjg_model_groups_cached(double ngroups, int ncolumns)
{
	return groups_bytes(ngroups, ncolumns) <= CACHED_BYTES;
}

double
hjg_model_aggregate_ns(const HjgUnitCosts *costs, double rows, int ncolumns, int nsteps)
{
	return rows * (costs->column_ns * ncolumns + STEP_NS * nsteps);
}

double
hjg_model_group_ns(const HjgUnitCosts *costs, const HjgGroupedRows *grouped)
{
	const double bytes = groups_bytes(grouped->ngroups, grouped->ncolumns);
	/* a row of a larger table misses bucket, keys and totals, which are fetched ahead, unless they are those of the row before */
	const double depth = fmin(SHARED_CACHE_MISS + (1 - SHARED_CACHE_MISS) * bytes / SHARED_CACHE_BYTES, 1);
	const double misses = bytes > CACHED_BYTES ? FETCHED_MISSES * depth * costs->miss_ns * (1 - CACHED_BYTES / bytes) : 0;
	const double missing = grouped->ngroups + (grouped->rows - fmin(grouped->ngroups, grouped->rows)) * grouped->scattered;
	const int	nstrings = grouped->nvarlenas < grouped->nkeys ? grouped->nvarlenas : grouped->nkeys;

	if (grouped->nkeys == 0)
		return HJG_MODEL_GROUPING_START_NS;
	return HJG_MODEL_GROUPING_START_NS + grouped->rows * (KEY_NS * grouped->nkeys + nstrings * (1 - grouped->remembered) * costs->test_ns[HJG_TEST_BYTES]) + missing * misses +
		grouped->ngroups * grouped->nvarlenas * costs->varlena_ns;
}

/* Predict the time of writing the groups to files, reading and merging them. */
static double
file_ns(const HjgUnitCosts *costs, const HjgGroupedRows *grouped)
{
	return grouped->ngroups * (EXCHANGE_NS + EXCHANGE_COLUMN_NS * grouped->ncolumns + 2 * costs->varlena_ns * grouped->nvarlenas);
}

double
hjg_model_exchange_ns(const HjgUnitCosts *costs, const HjgGroupedRows *grouped)
{
	return EXCHANGE_START_NS + file_ns(costs, grouped);
}

double
hjg_model_group_spill_ns(const HjgUnitCosts *costs, const HjgGroupedRows *grouped, double memory_bytes)
{
	const double bytes = groups_bytes(grouped->ngroups, grouped->ncolumns);
	const double partitions = fmin(fmax(memory_bytes / HJG_MODEL_GROUP_PARTITION_BYTES, 1 << HJG_MODEL_GROUP_LEAST_BITS),
								   1 << HJG_MODEL_GROUP_MOST_BITS);

	return bytes <= memory_bytes ? 0 : file_ns(costs, grouped) * ceil(log(bytes / memory_bytes) / log(partitions));
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
