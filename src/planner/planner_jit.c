/*
 * planner_jit.c
 *	  Decides whether the expressions of a plan are compiled.
 *
 * Core compiles the expressions of a plan (JIT) whose price is above jit_above_cost: all of them, in each process, when the first one is
 * evaluated. That takes from 10 to several 100 milliseconds. Most of the price of a plan with nodes of ours is theirs, and that of the scans that they
 * read themselves; but their rows are compared and added in vectors, which is not compiled. So what core's nodes cost decides.
 */
#include "postgres.h"

#include "jit/jit.h"

#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"

/* ---------- plan trees ---------- */

List *
hjg_planner_children_of(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_Append:
			return ((const Append *) plan)->appendplans;
		case T_MergeAppend:
			return ((const MergeAppend *) plan)->mergeplans;
		case T_SubqueryScan:
			return list_make1(((const SubqueryScan *) plan)->subplan);
		case T_CustomScan:
			return ((const CustomScan *) plan)->custom_plans;
		default:
			return plan->righttree != NULL ? list_make2(plan->lefttree, plan->righttree) : plan->lefttree != NULL ? list_make1(plan->lefttree) : NIL;
	}
}

List *
hjg_planner_priced_children(const Plan *plan)
{
	return IsA(plan, CustomScan) && ((const CustomScan *) plan)->methods == &hjg_aggregate_methods ?
		list_make1(linitial(((const CustomScan *) plan)->custom_plans)) : hjg_planner_children_of(plan);
}

bool
hjg_planner_is_our_plan(const Plan *plan)
{
	return IsA(plan, CustomScan) && (((const CustomScan *) plan)->methods == &hjg_scan_methods ||
									 ((const CustomScan *) plan)->methods == &hjg_aggregate_methods);
}

/* ---------- compiling ---------- */

/* Does a program make the groups, so that nothing below is executed? */
static bool
is_program(const Plan *plan)
{
	return IsA(plan, CustomScan) && ((const CustomScan *) plan)->methods == &hjg_aggregate_methods &&
		list_length(((const CustomScan *) plan)->custom_plans) > 1;
}

/* Price what core's nodes do in a plan. */
static Cost
core_price(const Plan *plan)
{
	const bool	ours = hjg_planner_is_our_plan(plan);
	Cost		own = ours ? 0 : plan->total_cost;
	Cost		below = 0;
	ListCell   *lc;

	if (is_program(plan))
		return 0;
	foreach(lc, hjg_planner_priced_children(plan))
	{
		const Plan *child = lfirst(lc);

		own -= ours ? 0 : child->total_cost;
		below += ours && IsA(child, SeqScan) ? 0 : core_price(child);
	}
	/* the child of a LIMIT may not be read to its end */
	return Min(Max(own, 0) + below, plan->total_cost);
}

void
hjg_planner_limit_jit(PlannedStmt *plan)
{
	Cost		price = core_price(plan->planTree);
	ListCell   *lc;

	/* the plan's price includes that of its subqueries */
	foreach(lc, plan->subplans)
		if (lfirst(lc) != NULL)
			price += core_price(lfirst(lc)) - ((const Plan *) lfirst(lc))->total_cost;
	if (price <= jit_inline_above_cost)
		plan->jitFlags &= ~PGJIT_INLINE;
	if (price <= jit_optimize_above_cost)
		plan->jitFlags &= ~PGJIT_OPT3;
	if (price <= jit_above_cost)
		plan->jitFlags = PGJIT_NONE;
}
