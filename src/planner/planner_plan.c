/*
 * planner_plan.c
 *	  Makes the CustomScan plan node of the chosen path.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "utils/lsyscache.h"

#include "base/hjg_compat.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"
#include "rows/hjg_rows.h"

/* Lists of the hash keys. */
typedef struct PlanKeys
{
	List	   *outer;			/* expressions of the sides */
	List	   *inner;
	List	   *clauses;		/* "outer op inner" */
	List	   *operators;		/* OIDs */
	List	   *collations;
} PlanKeys;

/* An item of hjg_planner_order_quals(). */
typedef struct QualItem
{
	RestrictInfo *rinfo;
	Cost		cost;
	Index		security_level;
} QualItem;

List *
hjg_planner_order_quals(PlannerInfo *root, List *rinfos)
{
	int			nitems = list_length(rinfos);
	QualItem   *items;
	List	   *result = NIL;
	int			n = 0;
	ListCell   *lc;

	if (nitems <= 1)
		return rinfos;
	items = palloc(nitems * sizeof(QualItem));
	foreach(lc, rinfos)
	{
		QualItem	item = {.rinfo = lfirst_node(RestrictInfo, lc)};
		QualCost	cost;
		int			at = n++;

		cost_qual_eval_node(&cost, (Node *) item.rinfo, root);
		item.cost = cost.per_tuple;
		item.security_level = item.rinfo->leakproof && item.cost < 10 * cpu_operator_cost ?
			0 : item.rinfo->security_level;
		/* stable insertion */
		while (at > 0 && (items[at - 1].security_level > item.security_level ||
						  (items[at - 1].security_level == item.security_level &&
						   items[at - 1].cost > item.cost)))
		{
			items[at] = items[at - 1];
			at--;
		}
		items[at] = item;
	}
	for (int i = 0; i < nitems; i++)
		result = lappend(result, items[i].rinfo);
	return result;
}

List *
hjg_planner_append_columns(List *scan_tlist, Plan *child)
{
	ListCell   *lc;

	foreach(lc, child->targetlist)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		scan_tlist = lappend(scan_tlist, makeTargetEntry(copyObject(tle->expr), list_length(scan_tlist) + 1,
														 NULL, false));
	}
	return scan_tlist;
}

/*
 * Choose for each column the size up to which values of variable length are in the rows of a store, where reading them costs
 * no further cache miss: the usual size, if that is small. All participants of a join need the same sizes.
 */
static List *
choose_inline_bytes(PlannerInfo *root, List *scan_tlist)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, scan_tlist)
	{
		const Var  *var = (const Var *) lfirst_node(TargetEntry, lc)->expr;
		const RangeTblEntry *rte = NULL;
		int			bytes = 0;

		if (IsA(var, Var) && var->varlevelsup == 0 && var->varattno > 0 && var->varno > 0 && var->varno < root->simple_rel_array_size)
			rte = root->simple_rte_array[var->varno];
		if (rte != NULL && rte->rtekind == RTE_RELATION)
			bytes = get_attavgwidth(rte->relid, var->varattno);
		bytes = bytes == 0 ? 0 : (int) MAXALIGN(Max(bytes, HJG_LEAST_INLINE_BYTES));
		result = lappend_int(result, bytes <= HJG_MOST_INLINE_BYTES ? bytes : 0);
	}
	return result;
}

/* Split the hash clauses, outer side on the left, into the lists that are kept of keys. */
static PlanKeys
split_keys(const HjgPath *path)
{
	const Path *outer_path = linitial(path->custom.custom_paths);
	PlanKeys	keys = {NIL, NIL, NIL, NIL, NIL};
	ListCell   *lc;

	foreach(lc, path->hashclauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		OpExpr	   *clause = copyObject(castNode(OpExpr, rinfo->clause));

		/* the mark which side is the outer one may have changed since the path was made */
		if (!bms_is_subset(rinfo->left_relids, outer_path->parent->relids))
			CommuteOpExpr(clause);
		keys.clauses = lappend(keys.clauses, clause);
		keys.outer = lappend(keys.outer, copyObject(linitial(clause->args)));
		keys.inner = lappend(keys.inner, copyObject(lsecond(clause->args)));
		keys.operators = lappend_oid(keys.operators, clause->opno);
		keys.collations = lappend_oid(keys.collations, clause->inputcollid);
	}
	return keys;
}

/* List HjgPlanScalars. */
static List *
list_scalars(const HjgPath *path, const Plan *outer_plan, const Plan *inner_plan)
{
	List	   *scalars = list_make5_int(path->jointype, path->inner_unique, list_length(outer_plan->targetlist),
										 list_length(inner_plan->targetlist), path->bloom);

	scalars = list_concat(scalars, list_make5_int(path->device.kind, path->device.number, path->in_backend,
												  (int) Min(path->build_rows, PG_INT32_MAX), path->reversed));
	return lappend_int(scalars, (int) Min(path->pairs, PG_INT32_MAX));
}

/* List HjgPlanPrediction. */
static List *
list_prediction(const HjgPath *path)
{
	List	   *prediction = NIL;

	for (int i = 0; i < HJG_PREDICTION_Count; i++)
		prediction = lappend_int(prediction, path->prediction_us[i]);
	return prediction;
}

/* Set the predicted time of a subquery's GpuAggregate, whose own path does not know the filter of the join above. */
static void
predict_grouping(Plan *plan, int prediction_us)
{
	if (IsA(plan, SubqueryScan))
		plan = ((SubqueryScan *) plan)->subplan;
	if (IsA(plan, CustomScan) && ((CustomScan *) plan)->methods == &hjg_aggregate_methods)
		lfirst_int(list_nth_cell(linitial(((CustomScan *) plan)->custom_private), HJG_AGGREGATE_SCALAR_PREDICTION)) = prediction_us;
}

/* Make the plan of a path: CustomPathMethods.PlanCustomPath. */
static Plan *
plan_path(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);
	const HjgPath *path = (const HjgPath *) best_path;
	List	   *restrictlist = hjg_planner_order_quals(root, list_difference_ptr(path->restrictlist, path->hashclauses));
	Plan	   *outer_plan = linitial(custom_plans);
	Plan	   *inner_plan = lsecond(custom_plans);
	const PlanKeys keys = split_keys(path);
	List	   *join_qual;
	List	   *filter_qual = NIL;
	List	   *inline_bytes;

	if (HJG_IS_OUTER_JOIN(path->jointype))
		extract_actual_join_clauses(restrictlist, rel->relids, &join_qual, &filter_qual);
	else
		join_qual = extract_actual_clauses(restrictlist, false);

	cscan->scan.plan.targetlist = tlist;
	cscan->scan.plan.qual = filter_qual;
	cscan->scan.scanrelid = 0;
	cscan->flags = best_path->flags;
	cscan->custom_plans = custom_plans;
	cscan->custom_scan_tlist = hjg_planner_append_columns(hjg_planner_append_columns(NIL, outer_plan), inner_plan);
	/* libraries that look for nodes of their own read the tag of the first element, which must be there */
	cscan->custom_private = list_make4(list_scalars(path, outer_plan, inner_plan), keys.operators, keys.collations,
									   list_prediction(path));
	if (path->grouping_us > 0)
		predict_grouping(outer_plan, path->grouping_us);
	inline_bytes = choose_inline_bytes(root, cscan->custom_scan_tlist);
	cscan->custom_private = lappend(cscan->custom_private, inline_bytes);
	cscan->custom_exprs = list_make4(keys.outer, keys.inner, keys.clauses, join_qual);
#if HJG_HAS_NULLING_RELS
	if (!bms_is_empty(root->outer_join_rels))
		hjg_planner_adopt_nulling(cscan, rel);
#endif
	cscan->methods = &hjg_scan_methods;
	return &cscan->scan.plan;
}

const CustomPathMethods hjg_planner_path_methods = {
	.CustomName = HJG_NODE_NAME,
	.PlanCustomPath = plan_path,
};

bool
hjg_planner_is_ours(const Path *path)
{
	return IsA(path, CustomPath) && ((const CustomPath *) path)->methods == &hjg_planner_path_methods;
}
