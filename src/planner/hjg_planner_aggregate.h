/*
 * hjg_planner_aggregate.h
 *	  Paths of GpuAggregate: planner_aggregate.c offers them, planner_aggregate_path.c makes them.
 *
 * Internal to the room "planner".
 */
#ifndef HJG_PLANNER_AGGREGATE_H
#define HJG_PLANNER_AGGREGATE_H

#include "postgres.h"

#include "nodes/pathnodes.h"

#include "planner/hjg_planner_program.h"

/* Uses of a process's groups. */
typedef enum HjgAggregateForm
{
	HJG_AGGREGATE_COMPLETE,				/* the process finishes them: it has all rows */
	HJG_AGGREGATE_PARTIAL,				/* core's Agg finishes them */
	HJG_AGGREGATE_SHARED					/* it exchanges them with other processes, and finishes some */
} HjgAggregateForm;

/* Inputs to aggregate, or NULL: a join of the node; a table that the node reads; any rows, to be grouped. */
typedef struct HjgAggregateInput
{
	const HjgPath *join;
	const Path *scan;
	Path	   *rows;
} HjgAggregateInput;

/* The first groups that a query wants: LIMIT of ORDER BY. */
typedef struct HjgFirstGroups
{
	int			n;				/* 0: it wants all */
	Expr	   *order;			/* a key, or an aggregate */
	bool		descending;
	bool		nulls_first;
} HjgFirstGroups;

/* A program that makes groups. */
typedef struct HjgPlannedProgram
{
	Path	   *path;			/* of the rows that it groups: a sequential scan, a join, or a scan of a subquery; it is not executed */
	Path	   *other;			/* of the same groups, for the case that the program cannot be run, */
	double		other_ns;		/* and its time */
	double		ngroups;		/* groups that it is expected to make, of which the node makes its own */
	double		returned;		/* of these, how many come back */
	Relids		fetched;		/* tables of which a row is read for each of these */
	HjgFirstGroups first;
	HjgProgramTime time;
	uint32		number;			/* that it has each time it is planned */
} HjgPlannedProgram;

/* Plan the program that makes the groups of a relation's rows (planner_program_group.c); false: there is none. */
extern bool hjg_planner_program(PlannerInfo *root, const HjgGrouping *grouping, RelOptInfo *input_rel, HjgPlannedProgram *program);

/* Set the input that the rows of a program's path are: a table, a join, or groups of a subquery. */
extern void hjg_planner_program_input(Path *path, HjgAggregateInput *input);
/*
 * Note, for the query around, that a program can make the groups of a subquery (planner_program_group.c). They are found with its grouped
 * relation.
 */
extern void hjg_planner_note_groups(PlannerInfo *root, const HjgGrouping *grouping, RelOptInfo *input_rel, RelOptInfo *grouped_rel);
/* Have a program make the groups of this path of the node, which are complete; hjoin_gpu.force leaves no other choice. */
extern void hjg_planner_set_program(Path *path, const HjgPlannedProgram *program);
/* Make a path of the groups of the input. */
extern Path *hjg_planner_aggregate(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, HjgAggregateForm form,
								   HjgAggregateInput input);
/* Make one of the rows of any path, which has some of all rows, through slots. */
extern Path *hjg_planner_aggregate_rows(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, HjgAggregateForm form,
										Path *rows, double all_rows);
/*
 * Make one of rows that another path makes distinct, by a grouping above it. Core's sorts that are not in core's price are taken
 * off this one's, down to that of the input.
 */
extern Path *hjg_planner_aggregate_distinct(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping,
											const HjgGrouping *above, HjgAggregateForm form, Path *rows);

#endif							/* HJG_PLANNER_AGGREGATE_H */
