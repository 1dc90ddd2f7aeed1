/*
 * hjg_aggregate.h
 *	  The operators of the node GpuAggregate: groups of rows, and their totals.
 *
 * Room "node". The node reads its child's rows as vectors (HjgChild): from the pages of a table, from a GpuHashJoin, or from
 * slots. HjgGroups numbers the groups and finds the group of each row. HjgAggregation adds the rows to the totals of their
 * groups. Both allocate memory by group, not by row. A node without GROUP BY has one group and no HjgGroups.
 */
#ifndef HJG_AGGREGATE_H
#define HJG_AGGREGATE_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "nodes/extensible.h"

#include "node/hjg_execution.h"
#include "node/hjg_group_pack.h"
#include "node/hjg_group_share.h"
#include "node/hjg_side.h"
#include "scan/hjg_scan.h"
#include "service/hjg_service.h"

/* ---------- groups (node_groups.c) ---------- */

typedef struct HjgGroups HjgGroups;

/* A key: a column of the vectors, or a part of it, and its equality operator. */
typedef struct HjgGroupKey
{
	int			column;
	HjgSlice   *slice;			/* the part, of strings that are equal if their bytes are; NULL: all of it */
	Oid			operator;
	Oid			collation;
} HjgGroupKey;

/*
 * Make an empty table of groups by these keys, in a memory context of its own below this one. columns: types of the child's
 * columns; kept[nkept]: the columns that each group keeps of its first row.
 */
extern HjgGroups *hjg_groups_create(MemoryContext context, int nkeys, const HjgGroupKey *keys, const HjgColumn *columns,
									int nkept, const int *kept);
/*
 * Find the group of each of nrows rows, 0 < nrows <= HJG_VECTOR_ROWS; new groups get the next numbers. Returns the number of
 * rows done, from the first: more than 0, and fewer than nrows only if keys are toasted.
 */
extern int	hjg_groups_find(HjgGroups *groups, const HjgVector *vectors, int nrows, uint32 *numbers);
/* Get the hashes of the groups. The high bits are used here; the low bits choose partitions. */
extern const uint64 *hjg_groups_hashes(const HjgGroups *groups);
extern uint32 hjg_groups_count(const HjgGroups *groups);
/* Get the memory of the groups: now, or (next) after one more vector of rows. */
extern size_t hjg_groups_bytes(const HjgGroups *groups, bool next);
/*
 * Gather the kept columns of the first rows of n <= HJG_VECTOR_ROWS groups: of those from `first` on as datums,
 * values[group - first][kept column], or of those with these numbers into vectors[kept column] that own their memory.
 */
extern void hjg_groups_gather(const HjgGroups *groups, uint32 first, int n, Datum *values, bool *isnull);
extern void hjg_groups_gather_vectors(const HjgGroups *groups, const uint32 *numbers, int n, HjgVector *vectors);
/*
 * Drop all groups. Keeps the table's arrays for the next ones if they take at most this memory, and not much more than the groups
 * needed; returns whether it does.
 */
extern bool hjg_groups_reset(HjgGroups *groups, size_t most_bytes);

/* ---------- totals (node_aggregate.c) ---------- */

typedef struct HjgAggregation HjgAggregation;

/*
 * functions: OIDs of the aggregates. numbers: the place of each aggregate's argument in arguments, or -1 if it counts rows; squares: that of
 * the argument's squares, or -1.
 * Arguments are expressions over the vectors column_of[attribute - 1]; the first ncolumns vectors are the child's. widths:
 * bytes of the aggregates' results.
 */
extern HjgAggregation *hjg_aggregation_create(MemoryContext context, PlanState *parent, bool partial, List *functions, List *numbers,
											  List *squares, List *arguments, int ncolumns, const int *column_of, const int16 *widths);
/* Add rows to their groups; numbers NULL: all to group 0. If no column is read, nrows has no limit. */
extern void hjg_aggregation_add(HjgAggregation *aggregation, const HjgVector *vectors, int nrows, const uint32 *numbers,
								uint32 ngroups);
/* Get the number of groups that have totals. */
extern uint32 hjg_aggregation_groups(const HjgAggregation *aggregation);
/* Get aggregate a of a group, or its transition value if partial, in the current memory context. */
extern Datum hjg_aggregation_datum(HjgAggregation *aggregation, int a, uint32 group, bool *isnull);
/* Get the memory of the totals: now, or (next) after one more vector of rows. */
extern size_t hjg_aggregation_bytes(const HjgAggregation *aggregation, bool next);
/*
 * Pack the totals of n <= HJG_VECTOR_ROWS groups (node_totals_file.c). Returns whether they were narrow, which the reader must
 * know.
 */
extern bool hjg_aggregation_write(const HjgAggregation *aggregation, const uint32 *groups, int n, HjgPack *pack);
/* Read such totals as rows `first` on, which with those before are at most HJG_VECTOR_ROWS and alike narrow or not. */
extern void hjg_aggregation_read(HjgAggregation *aggregation, HjgUnpack *from, bool narrow, int first, int n);
/* Add n of the rows that were read, from `first` on, to the totals of their groups. */
extern void hjg_aggregation_merge(HjgAggregation *aggregation, int first, int n, const uint32 *groups, uint32 ngroups);
/*
 * Add the totals of nrows rows, as a program returns them (layout/hjg_program.h), to those of a group; scales: of each argument, for numerics.
 */
extern void hjg_aggregation_merge_result(HjgAggregation *aggregation, uint32 group, uint32 ngroups, uint64 nrows, const uint64 *words,
										 const int *scales);
/* Drop all groups; keep: but not the array of their totals. */
extern void hjg_aggregation_clear(HjgAggregation *aggregation, bool keep);
/* Drop all groups, and the values of parameters, which may have changed. */
extern void hjg_aggregation_reset(HjgAggregation *aggregation);

/* ---------- rows of the child (node_child.c) ---------- */

/* Reads a child's rows as vectors. */
typedef struct HjgChild
{
	PlanState  *plan;
	HjgScan    *scan;			/* the child's table, if it is read here, */
	const HjgVectorSource *below;	/* or the GpuHashJoin that is the child; both NULL: rows come through its slot */
	int			ncolumns;
	HjgVector  *vectors;		/* by column of the child: all rows that were read, and */
	HjgVector  *slice;			/* the rows of them that were returned last */
	int			nrows;
	int			next;			/* first row behind those */
	bool		at_end;			/* the child's slot has no more rows */
	MemoryContext work_context;
} HjgChild;

/* wanted: the columns (from 0) that are read. */
extern void hjg_child_init(HjgChild *child, PlanState *plan, int ncolumns, const Bitmapset *wanted, MemoryContext work_context);
/* Before the first rows: numerics of these columns may come as integers (HjgVector). */
extern void hjg_child_take_numbers(HjgChild *child, Bitmapset *columns);
/*
 * Put the next rows into child->slice; returns how many there are, 0 at the end. At most HJG_VECTOR_ROWS rows, or `most` if
 * the child has no columns.
 */
extern int	hjg_child_next(HjgChild *child, int most);
/* Return the rows from the n-th on of the last slice of nrows rows; hjg_child_next() gives them again. */
extern void hjg_child_return(HjgChild *child, int nrows, int n);
extern void hjg_child_rescan(HjgChild *child);

/* ---------- groups in temporary files (node_group_spill.c) ---------- */

typedef struct HjgGroupSpill HjgGroupSpill;

/*
 * Groups keep columns kept[nkept] of these, and have totals of this aggregation; share: the state shared with other processes, or
 * NULL.
 */
extern HjgGroupSpill *hjg_group_spill_create(MemoryContext context, TupleDesc columns, int nkept, const int *kept, HjgAggregation *aggregation,
											 HjgGroupShare *share);
/* Write all groups to the partitions that are being written; starts them if there are none. */
extern void hjg_group_spill_write(HjgGroupSpill *spill, const HjgGroups *groups);
/* Are partitions being written? */
extern bool hjg_group_spill_writing(const HjgGroupSpill *spill);
/* Note that all of this process's groups were written to the share's files; further partitions are private. */
extern void hjg_group_spill_end_dealing(HjgGroupSpill *spill);
/* End writing and go to the next waiting partition; false if there is none. Groups written from now on divide it further. */
extern bool hjg_group_spill_next_partition(HjgGroupSpill *spill);
/* May the current partition be divided further? */
extern bool hjg_group_spill_divisible(const HjgGroupSpill *spill);
/*
 * Read the next groups of the partition, at most HJG_VECTOR_ROWS; returns how many, 0 at its end. The vectors get the kept
 * columns, by column; the aggregation has the totals as rows *first on. Both are valid until the next read.
 */
extern int	hjg_group_spill_read(HjgGroupSpill *spill, HjgVector *vectors, int *first);
/* Return the last n of these groups; hjg_group_spill_read() gives them again. */
extern void hjg_group_spill_return(HjgGroupSpill *spill, int n);
/* Free all files and memory. */
extern void hjg_group_spill_free(HjgGroupSpill *spill);
/* Add the files' figures to the report. */
extern void hjg_group_spill_report(const HjgGroupSpill *spill, HjgGroupReport *report);

/* ---------- the node (node_grouping.c) ---------- */

/* Chooses the size of the table when groups go to files anyway, from measurements while it grows. */
typedef struct HjgGroupGrowth
{
	double		fresh;			/* share of the last rows that began a new group, */
	double		fresh_in_cache; /* and that share when the table outgrew the cache; 0: it has not; */
	double		groups_in_cache;	/* and its groups at that time */
	bool		in_cache;		/* tables are kept in the cache's size */
} HjgGroupGrowth;

/* A column that is computed from the child's. */
typedef struct HjgComputed
{
	ExprState  *expr;			/* by core's expression code; or NULL, and */
	HjgArgument *argument;		/* in vectors, */
	Oid			field_type;		/* as a field of a date, of this type; InvalidOid: as something else */
	HjgVector  *vector;			/* [HJG_VECTOR_ROWS] */
} HjgComputed;

/* Figures of programs that the device process has run for a node. */
typedef struct HjgProgramFigures
{
	uint64		nruns;
	int			ndevices;		/* that have worked at the same time, at most */
	List	   *division;		/* how these have divided the last one: C strings */
	uint64		bytes;			/* of the programs */
	HjgJobStats stats;			/* times of all devices together; memory of one */
	const char *why;			/* why the last execution had none; or NULL */
} HjgProgramFigures;

/* State of the node. One struct, because core gives a custom scan one state, and its operators have structs of their own. */
typedef struct HjgAggregateState
{
	CustomScanState css;		/* must be first */

	MemoryContext work_context; /* of vectors */
	HjgChild	child;
	HjgVector  *vectors;		/* columns of the child, then computed columns */
	int		   *column_of;		/* 0, 1, ..., for arguments */
	int			ncomputed;
	int			nkey_exprs;		/* number of keys among them, which come first, */
	int			nby_core;		/* and of those that core computes */
	HjgComputed *computed;
	TupleTableSlot *row;		/* scan tuple with a row of the child, for core's expressions */
	MemoryContext computed_context; /* values of one vector */
	HjgGroups  *groups;			/* NULL: all rows are one group */
	HjgAggregation *aggregation;
	int			naggregates;
	int			nkept;			/* columns of the child that groups keep */
	int		   *kept;

	PlanState  *other;			/* returns the groups where a program cannot make them; NULL: there is no program, and the child is read */
	bool		reads_other;	/* as it is now */
	bool		partial;		/* a group may be returned more than once */
	HjgGroupSpill *spill;		/* NULL: not needed so far */
	HjgGroupShare *share;		/* NULL: this process groups all rows that it reads */
	HjgGroupGrowth growth;
	bool		at_end;			/* the child and all partitions are read */
	bool		child_done;		/* the child is read */
	uint32		ngroups;		/* groups in the table to be returned, */
	uint32		next;			/* of which those before this one were returned */
	uint32		gathered_from;	/* groups from here on, */
	uint32		gathered;		/* and before this one, have their kept columns in kept_values */
	Datum	   *kept_values;	/* [HJG_VECTOR_ROWS][nkept] */
	bool	   *kept_isnull;

	HjgProgramFigures program;
	HjgGroupReport report;
	HjgGroupReport others;		/* workers' figures, after their end */
	bool		shut;			/* this execution's figures were left for the leader, or collected */
} HjgAggregateState;

/* node_grouping.c: the node's callbacks, by which it is recognised */
extern const CustomExecMethods hjg_grouping_exec_methods;

/* Get the state of a GpuAggregate, or NULL. */
static inline HjgAggregateState *
hjg_grouping_node(PlanState *plan)
{
	return IsA(plan, CustomScanState) && ((CustomScanState *) plan)->methods == &hjg_grouping_exec_methods ?
		(HjgAggregateState *) plan : NULL;
}

/* ---------- computed columns (node_computed.c) ---------- */

/* Have core compute the expression; returns its column. */
extern int	hjg_computed_add_by_core(HjgAggregateState *state, Expr *expr);
/* Have a key that the planner has accepted computed in vectors; sets its column, and the operator that compares it. */
extern void hjg_computed_add_key(HjgAggregateState *state, Expr *expr, HjgGroupKey *key);
/* Evaluate parameters again. */
extern void hjg_computed_reset(HjgAggregateState *state);
/*
 * Compute the first n computed columns, of which keys come first, for rows until the values take much memory; returns the
 * number of rows done.
 */
extern int	hjg_computed_rows(HjgAggregateState *state, int n, int nrows);

/* ---------- collecting groups (node_group_read.c) ---------- */

/* Read until there are groups to return, or the other plan is to return them; sets at_end with the last ones. */
extern void hjg_grouping_read(HjgAggregateState *state);
/* Empty the table. */
extern void hjg_grouping_forget(HjgAggregateState *state);
/* Free the node's files, if it has any, and keep their figures. */
extern void hjg_grouping_free_spill(HjgAggregateState *state);

/* ---------- programs (node_program.c) ---------- */

/* Have the device process make the groups; false if that was not possible. They are those of the node's table then. */
extern bool hjg_program_group(HjgAggregateState *state);

/* node_fallback.c */
/* Log and count that a program could not be run, or not on its GPU but in_device_process, or raise an error, as hjoin_gpu.on_fallback says. */
extern void hjg_program_report_fallback(HjgReason reason, bool in_device_process);

/* node_explain.c */
extern void hjg_grouping_explain(HjgAggregateState *state, List *ancestors, ExplainState *es);

#endif							/* HJG_AGGREGATE_H */
