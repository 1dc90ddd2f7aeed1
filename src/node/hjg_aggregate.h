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

#include "node/hjg_group_share.h"
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
/* Count the groups that have totals. */
extern uint32 hjg_aggregation_groups(const HjgAggregation *aggregation);
/* Aggregate a of a group, or its transition value if partial, in the current memory context. */
extern Datum hjg_aggregation_datum(HjgAggregation *aggregation, int a, uint32 group, bool *isnull);
/* Memory of the totals, likewise. */
extern size_t hjg_aggregation_bytes(const HjgAggregation *aggregation, bool next);
/* Write the totals of a group behind what is in buffer; and add such to those of a group. */
extern void hjg_aggregation_write(const HjgAggregation *aggregation, uint32 group, StringInfo buffer);
extern void hjg_aggregation_merge(HjgAggregation *aggregation, uint32 group, uint32 ngroups, const char *written);
/* Forget all groups. */
extern void hjg_aggregation_clear(HjgAggregation *aggregation);
/* Forget all groups, and parameters, which may have changed. */
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
/* Give back the rows at hand from the n-th on: they are the next ones once more. */
extern void hjg_child_return(HjgChild *child, int nrows, int n);
extern void hjg_child_rescan(HjgChild *child);

/* ---------- groups in temporary files (node_group_spill.c) ---------- */

typedef struct HjgGroupSpill HjgGroupSpill;

/* Groups that keep columns kept[nkept] of these; share: of all processes, or NULL. */
extern HjgGroupSpill *hjg_group_spill_create(MemoryContext context, TupleDesc columns, int nkept, const int *kept, HjgGroupShare *share);
/* Write a group to one of the partitions that are being written; begins them if need be. */
extern void hjg_group_spill_write(HjgGroupSpill *spill, uint64 hash, const Datum *kept, const bool *isnull,
								  const StringInfoData *totals);
/* Are partitions being written? */
extern bool hjg_group_spill_writing(const HjgGroupSpill *spill);
/* All groups of a share that are here were written: what follows is private. */
extern void hjg_group_spill_end_dealing(HjgGroupSpill *spill);
/* End writing, and go to the next partition that waits; false if none does.  What is written from now on is divided further. */
extern bool hjg_group_spill_next_partition(HjgGroupSpill *spill);
/* May the partition at hand be divided further? */
extern bool hjg_group_spill_divisible(const HjgGroupSpill *spill);
/*
 * The next groups of the partition: kept columns become those of vectors, by column, and totals point to their totals, all valid until
 * more are read.  Returns how many, HJG_VECTOR_ROWS at most; 0 at its end.
 */
extern int	hjg_group_spill_read(HjgGroupSpill *spill, HjgVector *vectors, const char *const **totals);
/* The last n of them are the next ones once more. */
extern void hjg_group_spill_return(HjgGroupSpill *spill, int n);
/* Give back all files and memory. */
extern void hjg_group_spill_free(HjgGroupSpill *spill);
/* Add its figures. */
extern void hjg_group_spill_report(const HjgGroupSpill *spill, HjgGroupReport *report);

/* ---------- the node (node_grouping.c) ---------- */

/* Size of table that pays where groups go to files anyway: found out while it grows. */
typedef struct HjgGroupGrowth
{
	double		fresh;			/* share of the last rows that began a group, */
	double		fresh_in_cache; /* and when the table no longer fitted in a cache; 0: it does */
	bool		in_cache;		/* tables stay that small */
} HjgGroupGrowth;

/* A column that core's expression code computes. */
typedef struct HjgComputed
{
	ExprState  *expr;
	HjgVector  *vector;			/* [HJG_VECTOR_ROWS] */
} HjgComputed;

/* State of the node. One struct, because core gives a custom scan one state, and the operators in it have structs of their own. */
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
	HjgGroupShare *share;		/* NULL: this process groups all rows that it reads */
	HjgGroupGrowth growth;
	bool		at_end;			/* of the child, and of all partitions; */
	bool		child_done;		/* of the child alone */
	uint32		ngroups;		/* that are there to be handed out, */
	uint32		next;			/* those before this one were */
	Datum	   *kept_values;	/* [nkept] */
	bool	   *kept_isnull;

	HjgGroupReport report;
	HjgGroupReport others;		/* of workers that have ended */
	bool		shut;			/* figures of this execution were told, or collected */
} HjgAggregateState;

/* ---------- collecting groups (node_group_read.c) ---------- */

/* Read on until there are groups to hand out; sets at_end with the last ones. */
extern void hjg_grouping_read(HjgAggregateState *state);
/* Empty the table. */
extern void hjg_grouping_forget(HjgAggregateState *state);
/* Give back the node's files, if it has any; their figures are kept. */
extern void hjg_grouping_free_spill(HjgAggregateState *state);

/* node_explain.c */
extern void hjg_grouping_explain(HjgAggregateState *state, List *ancestors, ExplainState *es);

#endif							/* HJG_AGGREGATE_H */
