/*
 * hjg_aggregate.h
 *	  The operators of the node GpuAggregate: groups of rows, and what is added up of each.
 *
 * Room "node".  The node reads its child's rows as vectors (HjgChild): of the pages of a table that it reads itself, of
 * a join of ours, or of slots.  HjgGroups gives the rows of a vector the numbers of their groups, HjgAggregation adds the rows
 * to the totals of these.  Both take memory for groups only; a node without GROUP BY has one group, and no HjgGroups.
 */
#ifndef HJG_AGGREGATE_H
#define HJG_AGGREGATE_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "nodes/extensible.h"

#include "node/hjg_side.h"
#include "scan/hjg_scan.h"

/* ---------- groups (node_groups.c) ---------- */

typedef struct HjgGroups HjgGroups;

/* A key: a vector, and the operator by which its values are equal. */
typedef struct HjgGroupKey
{
	int			column;
	Oid			operator;
	Oid			collation;
} HjgGroupKey;

/*
 * Groups by these keys, which each keep the columns of their first row, in a context of their own below this one.
 * columns: types of the child's columns; kept[nkept]: those that are kept.
 */
extern HjgGroups *hjg_groups_create(MemoryContext context, int nkeys, const HjgGroupKey *keys, const HjgColumn *columns,
									int nkept, const int *kept);
/*
 * Find the group of each of 0 < nrows <= HJG_VECTOR_ROWS rows; new ones get the numbers that follow.  Returns for how many of
 * them, from the first: more than 0, and all but where keys are toasted.
 */
extern int	hjg_groups_find(HjgGroups *groups, const HjgVector *vectors, int nrows, uint32 *numbers);
extern uint32 hjg_groups_count(const HjgGroups *groups);
extern size_t hjg_groups_bytes(const HjgGroups *groups);
/* Gather the kept columns of a group's first row: values[kept column]. */
extern void hjg_groups_gather(const HjgGroups *groups, uint32 group, Datum *values, bool *isnull);
/* Forget all. */
extern void hjg_groups_reset(HjgGroups *groups);

/* ---------- totals (node_aggregate.c) ---------- */

typedef struct HjgAggregation HjgAggregation;

/*
 * functions: OIDs of the aggregates; numbers: which of arguments each is computed of, or -1: it counts rows.  Arguments are
 * expressions over the vectors column_of[attribute - 1], of which ncolumns are the child's; widths: bytes of the aggregates' results.
 */
extern HjgAggregation *hjg_aggregation_create(MemoryContext context, PlanState *parent, List *functions, List *numbers,
											  List *arguments, int ncolumns, const int *column_of, const int16 *widths);
/* Add rows, any number where no column is read, to their groups; numbers NULL: all to group 0. */
extern void hjg_aggregation_add(HjgAggregation *aggregation, const HjgVector *vectors, int nrows, const uint32 *numbers,
								uint32 ngroups);
/* The transition value of aggregate a of a group, in the current memory context. */
extern Datum hjg_aggregation_datum(HjgAggregation *aggregation, int a, uint32 group, bool *isnull);
extern size_t hjg_aggregation_bytes(const HjgAggregation *aggregation);
/* Forget all groups. */
extern void hjg_aggregation_clear(HjgAggregation *aggregation);
/* Likewise, and parameters may have changed. */
extern void hjg_aggregation_reset(HjgAggregation *aggregation);

/* ---------- rows of the child (node_child.c) ---------- */

/* A child's rows as vectors, some at a time. */
typedef struct HjgChild
{
	PlanState  *plan;
	HjgScan    *scan;			/* the child's table is read here, */
	const HjgVectorSource *below;	/* or the child is a join of ours; both NULL: through its slot */
	int			ncolumns;
	HjgVector  *vectors;		/* by column of the child: all rows that are there; */
	HjgVector  *slice;			/* of them, those at hand */
	int			nrows;
	int			next;			/* first row behind those at hand */
	MemoryContext work_context;
} HjgChild;

/* wanted: columns (from 0) that are read at all. */
extern void hjg_child_init(HjgChild *child, PlanState *plan, int ncolumns, const Bitmapset *wanted, MemoryContext work_context);
/*
 * The next rows become child->slice; returns how many, 0 at the end: at most HJG_VECTOR_ROWS, or, where the child has no
 * columns, at most so many.
 */
extern int	hjg_child_next(HjgChild *child, int most);
/* Those at hand from the n-th on are the next ones once more. */
extern void hjg_child_return(HjgChild *child, int nrows, int n);
extern void hjg_child_rescan(HjgChild *child);

/* ---------- the node (node_grouping.c) ---------- */

/* A column that core's expression code computes. */
typedef struct HjgComputed
{
	ExprState  *expr;
	HjgVector  *vector;			/* [HJG_VECTOR_ROWS] */
} HjgComputed;

typedef struct HjgAggregateState
{
	CustomScanState css;		/* must be first */

	MemoryContext work_context; /* of vectors */
	HjgChild	child;
	HjgVector  *vectors;		/* columns of the child, then those that are computed */
	int			ncomputed;
	HjgComputed *computed;
	TupleTableSlot *row;		/* scan tuple with a row of the child in it, for what core computes */
	MemoryContext computed_context; /* values of a vector */
	HjgGroups  *groups;			/* NULL: all rows are one group */
	HjgAggregation *aggregation;
	int			naggregates;
	int			nkept;			/* columns of the child that groups keep */
	int		   *kept;

	bool		at_end;			/* of the child */
	uint32		ngroups;		/* that are there to be handed out, */
	uint32		next;			/* those before this one were */
	Datum	   *kept_values;	/* [nkept] */
	bool	   *kept_isnull;

	/* figures of EXPLAIN ANALYZE */
	uint64		nfull;			/* times that the table was full and handed out before the end */
	size_t		peak_bytes;
} HjgAggregateState;

/* node_explain.c */
extern void hjg_grouping_explain(HjgAggregateState *state, List *ancestors, ExplainState *es);

#endif							/* HJG_AGGREGATE_H */
