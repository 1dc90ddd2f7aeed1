/*
 * hjg_planner_program.h
 *	  Programs of the device process as the planner sees them: for which rows there is one, and how long it takes.
 *
 * Internal to the room "planner".
 */
#ifndef HJG_PLANNER_PROGRAM_H
#define HJG_PLANNER_PROGRAM_H

#include "postgres.h"

#include "nodes/pathnodes.h"

#include "base/hjg_compat.h"
#include "planner/hjg_planner_grouping.h"

/* Does a join only ask whether there is a partner? */
static inline bool
hjg_planner_program_exists(const HjgPath *join)
{
	return join->jointype == JOIN_SEMI || join->jointype == JOIN_ANTI || join->jointype == HJG_JOIN_RIGHT_SEMI || join->jointype == HJG_JOIN_RIGHT_ANTI;
}

/* ---------- planner_program_memory.c ---------- */

/*
 * Estimate the memory of a join's table on threads. A table that only tells whether there is a partner has one row for a key, and no payload;
 * one that has extremes, too, is made of groups.
 */
extern double hjg_planner_program_table_bytes(PlannerInfo *root, const HjgPath *join, const RelOptInfo *side);
/* Estimate the memory of groups on threads. may_rank: their rows have looked nothing up. */
extern double hjg_planner_program_groups_bytes(PlannerInfo *root, const List *keys, double ngroups, int narguments, bool may_rank);

/* ---------- planner_program_table.c ---------- */

/* Does an expression need a subquery's result? Its evaluation may fail, so it must wait for the row for which core evaluates it. */
extern bool hjg_planner_needs_subquery(Node *node);
/* Set the path and the shape of a table's rows, or of those of its partitions; returns why no program can read them, or NULL. */
extern const char *hjg_planner_program_table(PlannerInfo *root, RelOptInfo *rel, HjgProgramRows *rows);

/* ---------- planner_program.c ---------- */

/* Find the best program for a join among those of this pair and of pairs before. */
extern void hjg_planner_program_join(PlannerInfo *root, const HjgCandidate *candidate);
/* The time of a program on the device where it takes least: a GPU; if it is divided, all GPUs (NO_NUMBER); or the processor's threads. */
typedef struct HjgProgramTime
{
	HjgDeviceId device;
	double		ns;				/* predicted, */
	double		priced_ns;		/* and with the risk that it has too little memory */
} HjgProgramTime;

/* Predict the time of a program; divided: what several GPUs would do, or NULL if they cannot divide it. */
extern HjgProgramTime hjg_planner_program_time(HjgQueryFacts *facts, const HjgProgramShape *shape, const HjgProgramShape *divided);
/* Find the rows of a relation that a program can make; NULL: none. */
extern const HjgProgramRows *hjg_planner_program_rows(PlannerInfo *root, const RelOptInfo *rel);

/* Groups of a subquery that a program can make, for the query around it. */
typedef struct HjgProgramGroupsPath
{
	const void *mark;			/* of this struct, in a field that others might use, too */
	Path	   *path;			/* a GpuAggregate of one process */
	HjgProgramShape shape;
	List	   *divided;		/* HjgDividedGroups: by which keys several GPUs may divide them */
} HjgProgramGroupsPath;

/* Groups divided by a key among several GPUs. */
typedef struct HjgDividedGroups
{
	const Var  *key;			/* of the subquery */
	HjgProgramShape divided;	/* the divided work for them alone */
} HjgDividedGroups;

/* Keep them with the subquery's grouped relation. */
extern void hjg_planner_keep_program_groups(RelOptInfo *grouped_rel, HjgProgramGroupsPath kept);
/* Find them by the subquery's relation; NULL: there are none. */
extern const HjgProgramGroupsPath *hjg_planner_program_groups(const RelOptInfo *rel);

/* ---------- planner_program_divide.c ---------- */

/* Find by which of their keys several GPUs may divide so many groups of a subquery, that are read: HjgDividedGroups. */
extern List *hjg_planner_divide_groups(PlannerInfo *root, const RelOptInfo *input_rel, const List *keys, double ngroups);
/*
 * Find how several GPUs divide a program that makes these groups of a relation's rows, which are expected to be so many: sets *divided to its shape,
 * with what they divide. may_add: they may have parts of the groups, all of which come back. Returns false if they cannot divide it, or there is one.
 */
extern bool hjg_planner_divide_program(PlannerInfo *root, const RelOptInfo *input_rel, const HjgGrouping *grouping, double ngroups, bool may_add,
									   const HjgProgramShape *shape, HjgProgramShape *divided);

#endif							/* HJG_PLANNER_PROGRAM_H */
