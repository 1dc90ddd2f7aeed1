/*
 * hjg_totals.h
 *	  Totals of groups as records: what node_totals.c adds rows to and node_aggregate.c makes aggregates of.
 *	  Internal to these two.
 */
#ifndef HJG_TOTALS_H
#define HJG_TOTALS_H

#include "postgres.h"

#include "node/hjg_aggregate.h"
#include "node/hjg_execution.h"
#include "node/hjg_numeric_sum.h"

/* Sums over the values of one argument that are not NULL. */
typedef struct HjgTotalsArgument
{
	HjgArgument *expr;
	int			column;			/* it is this vector, and none of the child's; or -1 */
	bool		sum_wanted;
	bool		wide;			/* values may take all of 64 bits */
	bool		numeric;		/* values are numerics */
	bool		extremes_wanted;
	size_t		at;				/* its totals, in a record, */
	size_t		bytes;			/* as far as they are wanted */
} HjgTotalsArgument;

/* Parts of a record for an argument; a record has those that are wanted. */
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
	};
} HjgTotals;

typedef struct HjgAggregate
{
	HjgAggregateKind kind;
	int			argument;		/* or -1: it counts rows */
	bool		average;		/* of a sum that serves both */
	int			width;			/* bytes of a least or greatest value */
} HjgAggregate;

struct HjgAggregation
{
	bool		partial;		/* transition values are wanted */
	int			narguments;
	HjgTotalsArgument *arguments;
	int			naggregates;
	HjgAggregate *aggregates;
	AggState   *caller;			/* whom core's transition functions take for theirs, and keep states for */
	ExprContext *econtext;
	ExprContext *row_context;	/* of rows that core evaluates */
	MemoryContext context;		/* of the records */
	uint32		ngroups;
	uint32		max_groups;
	size_t		record_bytes;
	char	   *records;		/* [max_groups]: rows of the group, uint64, and totals by argument */
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

/* Let there be records of so many groups (node_totals.c). */
extern void hjg_totals_make(HjgAggregation *aggregation, uint32 ngroups);

#endif							/* HJG_TOTALS_H */
