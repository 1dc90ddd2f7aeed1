/*
 * planner_time.c
 *	  Predicts the time of a plan, as EXPLAIN shows it: to compare it with that of a program, which has no price of its own.
 *
 * Prices are in several currencies. That of a join of the node is in the currency of core's small hash joins, that of a grouping in the currency of
 * core's hash join of as many rows, and neither includes how much processes lose to one another. So prices tell which of two such plans takes less
 * time, but not how much longer it takes than a program.
 */
#include "postgres.h"

#include "optimizer/cost.h"

#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"

/* Find the path below one that has just one; NULL: it has another number, or an unknown one. */
static const Path *
only_child(const Path *path)
{
	switch (nodeTag(path))
	{
		case T_AggPath:
			return ((const AggPath *) path)->subpath;
		case T_GatherPath:
			return ((const GatherPath *) path)->subpath;
		case T_GatherMergePath:
			return ((const GatherMergePath *) path)->subpath;
		case T_ProjectionPath:
			return ((const ProjectionPath *) path)->subpath;
		case T_SortPath:
			return ((const SortPath *) path)->subpath;
		case T_SubqueryScanPath:
			return ((const SubqueryScanPath *) path)->subpath;
		default:
			return NULL;
	}
}

/* Predict the time of a join of the node. */
static double
join_ns(const HjgPath *join, const HjgUnitCosts *costs)
{
	const int  *us = join->prediction_us;
	const Path *outer = linitial(join->custom.custom_paths);
	const Path *inner = lsecond(join->custom.custom_paths);
	double		ns = 1000.0 * ((double) us[HJG_PREDICTION_MARSHAL_BUILD] + us[HJG_PREDICTION_MARSHAL_PROBE] + us[HJG_PREDICTION_BUILD] +
							   us[HJG_PREDICTION_PROBE] + us[HJG_PREDICTION_EMIT]);

	/* marshalling includes the scan of a table that the node reads itself */
	if (us[HJG_PREDICTION_SCAN_BUILD] == 0)
		ns += hjg_planner_plan_ns(inner, costs);
	if (us[HJG_PREDICTION_SCAN_PROBE] == 0)
		ns += hjg_planner_plan_ns(outer, costs);
	return ns;
}

/* Predict the time of core's hash join. */
static double
hash_join_ns(const JoinPath *join, const HjgUnitCosts *costs)
{
	const Path *outer = join->outerjoinpath;
	const Path *inner = join->innerjoinpath;

	return hjg_planner_plan_ns(outer, costs) + hjg_planner_plan_ns(inner, costs) +
		Max(join->path.total_cost - outer->total_cost - inner->total_cost, 0) * hjg_model_cost_unit_ns(costs, inner->rows);
}

double
hjg_planner_plan_ns(const Path *path, const HjgUnitCosts *costs)
{
	const double unit_ns = hjg_planner_scan_unit_ns(costs);
	const Path *child = only_child(path);

	if (hjg_planner_is_ours(path))
		return join_ns((const HjgPath *) path, costs);
	if (hjg_planner_is_grouping(path))
	{
		const Path *input = linitial(((const CustomPath *) path)->custom_paths);

		return 1000.0 * hjg_planner_grouping_us(path, NULL) + (hjg_planner_groups_alone(path) ? 0 : hjg_planner_plan_ns(input, costs));
	}
	if (IsA(path, HashPath))
		return hash_join_ns((const JoinPath *) path, costs);
	if (child == NULL)
		return path->total_cost * unit_ns;
	if (IsA(path, GatherPath) || IsA(path, GatherMergePath))
		return hjg_planner_plan_ns(child, costs) + child->parallel_workers * costs->launch_ns + parallel_tuple_cost * path->rows * unit_ns;
	return hjg_planner_plan_ns(child, costs) + Max(path->total_cost - child->total_cost, 0) * unit_ns;
}
