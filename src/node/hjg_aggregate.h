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

#include "lib/stringinfo.h"
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
/* A group's hash: its high bits find it here, its low ones are of use to others. */
extern uint64 hjg_groups_hash(const HjgGroups *groups, uint32 group);
extern uint32 hjg_groups_count(const HjgGroups *groups);
/* Memory of the groups: now, or after the next rows were looked up. */
extern size_t hjg_groups_bytes(const HjgGroups *groups, bool next);
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
extern HjgAggregation *hjg_aggregation_create(MemoryContext context, PlanState *parent, bool partial, List *functions, List *numbers,
											  List *arguments, int ncolumns, const int *column_of, const int16 *widths);
/* Add rows, any number where no column is read, to their groups; numbers NULL: all to group 0. */
extern void hjg_aggregation_add(HjgAggregation *aggregation, const HjgVector *vectors, int nrows, const uint32 *numbers,
								uint32 ngroups);
/* Aggregate a of a group, or its transition value if partial, in the current memory context. */
extern Datum hjg_aggregation_datum(HjgAggregation *aggregation, int a, uint32 group, bool *isnull);
/* Memory of the totals, likewise. */
extern size_t hjg_aggregation_bytes(const HjgAggregation *aggregation, bool next);
/* Write the totals of a group behind what is in buffer; and add such to those of a group. */
extern void hjg_aggregation_write(const HjgAggregation *aggregation, uint32 group, StringInfo buffer);
extern void hjg_aggregation_merge(HjgAggregation *aggregation, uint32 group, uint32 ngroups, const char *written);
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
	bool		at_end;			/* of the slots */
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

/* ---------- groups in temporary files (node_group_spill.c) ---------- */

typedef struct HjgGroupSpill HjgGroupSpill;

/* Groups that keep columns of these types. */
extern HjgGroupSpill *hjg_group_spill_create(MemoryContext context, TupleDesc columns);
/* Write a group to one of the partitions that are being written; begins them if need be. */
extern void hjg_group_spill_write(HjgGroupSpill *spill, uint64 hash, const Datum *kept, const bool *isnull, StringInfo totals);
/* Are partitions being written? */
extern bool hjg_group_spill_writing(const HjgGroupSpill *spill);
/* End writing, and go to the next partition that waits; false if none does.  What is written from now on is divided further. */
extern bool hjg_group_spill_next_partition(HjgGroupSpill *spill);
/* May the partition at hand be divided further? */
extern bool hjg_group_spill_divisible(const HjgGroupSpill *spill);
/* The next group of the partition: values are valid until the one after; false at its end. */
extern bool hjg_group_spill_read(HjgGroupSpill *spill, const Datum **kept, const bool **isnull, const char **totals);
/* Give back all files. */
extern void hjg_group_spill_reset(HjgGroupSpill *spill);
extern uint64 hjg_group_spill_bytes(const HjgGroupSpill *spill);

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
	int			nkey_exprs;		/* of them, the first ones: keys */
	HjgComputed *computed;
	TupleTableSlot *row;		/* scan tuple with a row of the child in it, for what core computes */
	MemoryContext computed_context; /* values of a vector */
	HjgGroups  *groups;			/* NULL: all rows are one group */
	HjgAggregation *aggregation;
	int			naggregates;
	int			nkept;			/* columns of the child that groups keep */
	int		   *kept;

	bool		partial;		/* a group may come out more than once */
	HjgGroupSpill *spill;		/* NULL: none was needed yet */
	HjgVector  *group_row;		/* a group from a file, by column of the child */
	bool		at_end;			/* of the child, and of all partitions; */
	bool		child_done;		/* of the child alone */
	uint32		ngroups;		/* that are there to be handed out, */
	uint32		next;			/* those before this one were */
	Datum	   *kept_values;	/* [nkept] */
	bool	   *kept_isnull;

	/* figures of EXPLAIN ANALYZE */
	uint64		nfull;			/* times that the table was full before the end */
	size_t		peak_bytes;
} HjgAggregateState;

/* node_explain.c */
extern void hjg_grouping_explain(HjgAggregateState *state, List *ancestors, ExplainState *es);

#endif							/* HJG_AGGREGATE_H */
