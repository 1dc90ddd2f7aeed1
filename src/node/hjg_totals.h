/*
 * hjg_totals.h
 *	  Totals of groups as records: node_totals.c adds rows to them, node_totals_file.c writes, reads and merges them,
 *	  node_aggregate.c makes aggregates of them; node_float_totals.c does all that for floats. Internal to the node's groups.
 */
#ifndef HJG_TOTALS_H
#define HJG_TOTALS_H

#include "postgres.h"

#include "node/hjg_aggregate.h"
#include "node/hjg_execution.h"
#include "node/hjg_numeric_sum.h"

/* The arrays of so many groups are not in the nearest caches any more: what a vector's rows touch there is fetched ahead. */
#define HJG_MANY_GROUPS 4096

/* The totals that are kept of one argument; values that are NULL are counted. */
typedef struct HjgTotalsArgument
{
	HjgArgument *expr;
	int			column;			/* the argument is this computed vector; or -1 */
	bool		sum_wanted;
	bool		wide;			/* values may need all 64 bits */
	bool		moments_wanted; /* of floats */
	bool		floats;			/* values are floats, */
	bool		numeric;		/* or numerics; else */
	int16		width;			/* bytes of a value, or 0: it is only counted */
	bool		extremes_wanted;
	size_t		at;				/* offset of its totals in a record */
	size_t		bytes;			/* bytes of them */
} HjgTotalsArgument;

/* Averages and variances of floats are made of these, as in float8_accum()'s array. */
typedef struct HjgFloatMoments
{
	double		count;
	double		sum;
	double		squares;		/* sum of the squared distances from the mean */
} HjgFloatMoments;

typedef struct HjgFloatTotals
{
	double		sum;			/* in the precision of the argument's type */
	HjgFloatMoments moments;
	double		least;			/* NaN, which is the greatest: there is none so far */
	double		greatest;
} HjgFloatTotals;

/* The totals of an argument; a record has the first `bytes` of them. */
typedef struct HjgTotals
{
	uint64		nnulls;
	union
	{
		struct
		{
			int128		sum;
			int64		least;
			int64		greatest;
		};
		struct
		{
			HjgNumericSum numeric_sum;
			HjgNumericExtreme numeric_least;
			HjgNumericExtreme numeric_greatest;
		};
		HjgFloatTotals floats;
	};
} HjgTotals;

typedef struct HjgAggregate
{
	HjgAggregateKind kind;
	int			argument;		/* or -1: it counts rows */
	int			square;			/* argument that is the square of that one, or -1 */
	Oid			function;
	bool		average;		/* avg(), of totals that sum() uses, too */
	int			width;			/* bytes of a least or greatest value */
} HjgAggregate;

struct HjgAggregation
{
	bool		partial;		/* the result is transition values */
	int			narguments;
	HjgTotalsArgument *arguments;
	int			naggregates;
	HjgAggregate *aggregates;
	AggState   *caller;			/* context that core's transition functions expect, and keep states in */
	ExprContext *econtext;
	ExprContext *row_context;	/* for rows that core evaluates */
	MemoryContext context;		/* of the records */
	uint32		ngroups;
	uint32		max_groups;
	size_t		record_bytes;
	char	   *records;		/* [max_groups]: number of rows of the group (uint64), and totals by argument */
	struct HjgTotalsRead *read; /* totals from a file; NULL: there were none (node_totals_file.c) */
};

static inline char *
hjg_totals_record(const HjgAggregation *aggregation, uint32 group)
{
	return aggregation->records + group * aggregation->record_bytes;
}

static inline HjgTotals *
hjg_totals_at(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, uint32 group)
{
	return (HjgTotals *) (hjg_totals_record(aggregation, group) + argument->at);
}

/* Fetch the records of many groups into the cache; groups NULL: there is one. */
static inline void
hjg_totals_prefetch(const HjgAggregation *aggregation, int n, const uint32 *groups)
{
	if (aggregation->ngroups >= HJG_MANY_GROUPS)
		for (int i = 0; i < n; i++)
			__builtin_prefetch(hjg_totals_record(aggregation, groups[i]));
}

/* Make records for so many groups (node_totals.c). */
extern void hjg_totals_make(HjgAggregation *aggregation, uint32 ngroups);

/* ---------- node_float_totals.c ---------- */

/* Set the totals of no value. */
extern void hjg_float_totals_init(const HjgTotalsArgument *argument, HjgTotals *totals);
/* Add rows to the totals of their groups, or, groups NULL, all to these. Raises core's error if a sum overflows. */
extern void hjg_float_totals_add(const HjgAggregation *aggregation, const HjgTotalsArgument *argument, HjgTotals *one, const HjgNumbers *numbers,
								 int nrows, const uint32 *groups);
/* Add totals of other rows; likewise. */
extern void hjg_float_totals_merge(const HjgTotalsArgument *argument, HjgTotals *to, const HjgTotals *from);
/*
 * Add the totals of nvalues values as a program returns them (layout/hjg_program.h). Core's sum of the squared distances is not known then, and is
 * taken as 0, which averages do not need.
 */
extern void hjg_float_totals_merge_result(const HjgTotalsArgument *argument, HjgTotals *totals, uint64 nvalues, const uint64 *words);
/*
 * Is the sum, or the average, of such totals what core would return, in some order of the rows? Otherwise core may find an overflow. Averages need the
 * extremes for that, unless bounds of the floats' bits tell it.
 */
extern bool hjg_float_totals_is_sure(const HjgTotalsArgument *argument, const uint64 *words);
extern bool hjg_float_totals_are_sure_within(const HjgTotalsArgument *argument, int64 least_bits, int64 greatest_bits);
/* Get a float of so many bytes as core passes it. */
extern Datum hjg_float_datum(double value, int width);
/* Make core's transition value of moments. */
extern Datum hjg_float_moments_datum(const HjgFloatMoments *moments);
/* Make the result of this aggregate of moments. */
extern Datum hjg_float_moments_finish(const HjgFloatMoments *moments, Oid function, bool *isnull);

/* ---------- node_variance.c ---------- */

/* Find core's function that makes the result of a variance's transition value; NULL: it is no variance. */
extern PGFunction hjg_variance_finisher(Oid function);
/* Make core's transition value of a variance of count > 0 values of a group. */
extern Datum hjg_variance_serialize(const HjgAggregation *aggregation, const HjgAggregate *aggregate, uint32 group, uint64 count);
/* Make the result of such a variance. */
extern Datum hjg_variance_finish(const HjgAggregation *aggregation, const HjgAggregate *aggregate, uint32 group, uint64 count, bool *isnull);

#endif							/* HJG_TOTALS_H */
