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

#include "planner/hjg_planner_path.h"

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

/*
 * Predict the time in which a GPU makes the groups of a path's rows by a program (planner_program.c), and set the device; less than 0: it cannot.
 */
extern double hjg_planner_program_ns(PlannerInfo *root, const HjgGrouping *grouping, const Path *input, HjgDeviceId *device);

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
