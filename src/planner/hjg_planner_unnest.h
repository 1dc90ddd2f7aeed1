/*
 * hjg_planner_unnest.h
 *	  Joins in the place of subqueries.
 *
 * Internal to the room "planner". planner_unnest_choice.c plans a query as it is written and with joins, planner_unnest.c replaces subqueries of one
 * value, planner_unnest_in.c makes NOT EXISTS of NOT IN, and planner_harmless.c tells what may be evaluated for rows that the query does not look at.
 */
#ifndef HJG_PLANNER_UNNEST_H
#define HJG_PLANNER_UNNEST_H

#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"

/* Is an expression NOT IN a subquery? */
#define HJG_IS_NOT_IN(node) \
	(is_notclause(node) && IsA(linitial(((BoolExpr *) (node))->args), SubLink) && \
	 linitial_node(SubLink, ((BoolExpr *) (node))->args)->subLinkType == ANY_SUBLINK)

/* Sets of subqueries that joins have replaced. */
typedef struct HjgUnnested
{
	uint32		joined;
	uint32		not_in;			/* those of NOT IN among them */
} HjgUnnested;

/*
 * Copy a query with joins in the place of subqueries: of those that are wanted, and can be. Bit i stands for the i-th of one value, or of
 * NOT IN, that is met. Returns NULL if there are none; done: those that were. explains: report why the others were not.
 */
extern Query *hjg_planner_unnest(const Query *query, uint32 wanted, bool explains, HjgUnnested *done);
/* Install the hook for whole queries. */
extern void hjg_planner_init_unnesting(void);
/* Make NOT EXISTS of a condition NOT IN of the query; returns NULL, and why, if it has not the same rows. */
extern Node *hjg_planner_not_exists(Query *query, Node *condition, const char **why);
/* Make what a query reads, with the names of these columns. */
extern RangeTblEntry *hjg_planner_make_rte(RTEKind kind, const char *name, const List *targets);
/* Does an expression, or a query, raise no error, whatever rows it is evaluated for? */
extern bool hjg_planner_is_harmless(Node *node);

#endif							/* HJG_PLANNER_UNNEST_H */
