/*
 * planner_aggregate.c
 *	  Aggregates of all rows of a join, without GROUP BY, computed by the node that joins.
 *
 * Beside core's Agg above a join of ours there is offered: an Agg that only finishes partial aggregates, over a copy of
 * the join whose result is one row of them; and the same with a Gather between, where each participant returns its row.
 * This is the shape of core's own parallel aggregation, and serves without workers as well: what the node hands
 * up is core's transition values, combined and finished by core.
 *
 * All aggregates of the query must be ones that the node knows (planner_vocabulary.c).  The copy is priced as the join is,
 * with the handing out of rows replaced by the aggregation of vectors, unless conditions have rows looked at one by one in
 * any case.  hjoin_gpu.force leaves nothing else to choose.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "utils/lsyscache.h"

#include "base/hjg_base.h"
#include "model/hjg_model.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"

/* Each step of evaluation takes 2 KB of each process, and a level of the stack when it is below others. */
#define MOST_STEPS 500

static create_upper_paths_hook_type previous_upper_paths_hook = NULL;

/* What the arguments of all aggregates take: columns of the join, and steps of evaluation. */
typedef struct ArgumentWork
{
	List	   *columns;		/* Vars, each once */
	int			nsteps;
} ArgumentWork;

/* Columns, constants, parameters and arithmetic on them; adds to *work. */
static bool
is_computable(Node *expr, ArgumentWork *work)
{
	List	   *args;
	Oid			function;
	ListCell   *lc;

	if (++work->nsteps > MOST_STEPS)
		return false;
	switch (nodeTag(expr))
	{
		case T_Var:
			work->columns = list_append_unique(work->columns, expr);
			return ((Var *) expr)->varattno > 0 && ((Var *) expr)->varlevelsup == 0;
		case T_Const:
			return !((Const *) expr)->constisnull;
		case T_Param:
			return ((Param *) expr)->paramkind == PARAM_EXTERN || ((Param *) expr)->paramkind == PARAM_EXEC;
		case T_RelabelType:
			return is_computable((Node *) ((RelabelType *) expr)->arg, work);
		case T_OpExpr:
			args = ((OpExpr *) expr)->args;
			function = get_opcode(((OpExpr *) expr)->opno);
			break;
		case T_FuncExpr:
			args = ((FuncExpr *) expr)->args;
			function = ((FuncExpr *) expr)->funcid;
			break;
		default:
			return false;
	}
	if (hjg_arithmetic(function) == NULL)
		return false;
	foreach(lc, args)
		if (!is_computable(lfirst(lc), work))
			return false;
	return true;
}

static bool
is_known(const Aggref *aggref, ArgumentWork *work)
{
	HjgAggregateKind kind;

	if (aggref->aggfilter != NULL || aggref->aggorder != NIL || aggref->aggdistinct != NIL ||
		!hjg_aggregate_kind(aggref->aggfnoid, &kind))
		return false;
	work->nsteps++;
	return aggref->args == NIL || is_computable((Node *) linitial_node(TargetEntry, aggref->args)->expr, work);
}

/* What the node must return for these results, as core's partial aggregation does; NULL if it cannot. */
static PathTarget *
make_partial_target(PlannerInfo *root, const PathTarget *target, List *having, ArgumentWork *work)
{
	PathTarget *partial = create_empty_pathtarget();
	List	   *exprs = list_copy(target->exprs);
	ListCell   *lc;

	if (having != NIL)
		exprs = lappend(exprs, having);
	add_new_columns_to_pathtarget(partial, pull_var_clause((Node *) exprs, PVC_INCLUDE_AGGREGATES |
														   PVC_RECURSE_WINDOWFUNCS | PVC_INCLUDE_PLACEHOLDERS));
	foreach(lc, partial->exprs)
	{
		Aggref	   *aggref;

		if (!IsA(lfirst(lc), Aggref) || !is_known(lfirst(lc), work))
			return NULL;
		aggref = makeNode(Aggref);
		memcpy(aggref, lfirst(lc), sizeof(Aggref));
		mark_partial_aggref(aggref, AGGSPLIT_INITIAL_SERIAL);
		lfirst(lc) = aggref;
	}
	return partial->exprs == NIL ? NULL : set_pathtarget_cost_width(root, partial);
}

/* The cheapest join of ours in a list, projections of plain columns taken off; NULL: there is none. */
static const HjgPath *
find_join(const List *paths)
{
	const HjgPath *cheapest = NULL;
	ListCell   *lc;

	foreach(lc, paths)
	{
		const Path *path = lfirst(lc);

		if (IsA(path, ProjectionPath))
			path = ((const ProjectionPath *) path)->subpath;
		if (hjg_planner_is_ours(path) && path->param_info == NULL &&
			(cheapest == NULL || path->total_cost < cheapest->custom.path.total_cost))
			cheapest = (const HjgPath *) path;
	}
	return cheapest;
}

/* The same join, but with partial aggregates for its result. */
static Path *
make_aggregate_path(const HjgPath *join, PathTarget *partial, const ArgumentWork *work)
{
	HjgPath    *copy = palloc(sizeof(HjgPath));
	Path	   *path = &copy->custom.path;
	const double emit_ns = join->prediction_us[HJG_PREDICTION_EMIT] * 1000.0;
	HjgUnitCosts costs;
	double		aggregate_ns;

	*copy = *join;
	hjg_planner_unit_costs(&costs, path->rows);
	aggregate_ns = hjg_model_aggregate_ns(&costs, path->rows, list_length(work->columns), work->nsteps);
	if (join->columnar)
		aggregate_ns = Min(aggregate_ns, emit_ns);
	else
		aggregate_ns += emit_ns;

	path->total_cost += (aggregate_ns - emit_ns) / join->unit_ns + partial->cost.startup + partial->cost.per_tuple;
	path->startup_cost = path->total_cost;
	path->pathtarget = partial;
	path->rows = 1;
	copy->prediction_us[HJG_PREDICTION_EMIT] = (int) Min(aggregate_ns / 1000.0, PG_INT32_MAX);
	copy->aggregates = partial->exprs;
	return path;
}

static void
add_finished(PlannerInfo *root, RelOptInfo *grouped_rel, Path *partial, List *having)
{
	AggClauseCosts costs = {{0}};

	get_agg_clause_costs(root, AGGSPLIT_FINAL_DESERIAL, &costs);
	add_path(grouped_rel, (Path *) create_agg_path(root, grouped_rel, partial, grouped_rel->reltarget, AGG_PLAIN,
												   AGGSPLIT_FINAL_DESERIAL, NIL, having, &costs, 1));
}

static void
offer_aggregates(PlannerInfo *root, const RelOptInfo *input_rel, RelOptInfo *grouped_rel,
				 const GroupPathExtraData *extra)
{
	List	   *having = (List *) extra->havingQual;
	const HjgPath *join = find_join(input_rel->pathlist);
	const HjgPath *partial_join = grouped_rel->consider_parallel ? find_join(input_rel->partial_pathlist) : NULL;
	ArgumentWork work = {NIL, 0};
	PathTarget *partial;

	if (join == NULL && partial_join == NULL)
		return;
	partial = make_partial_target(root, grouped_rel->reltarget, having, &work);
	if (partial == NULL)
		return;
	if (hjg_force)
		grouped_rel->pathlist = NIL;
	if (join != NULL)
		add_finished(root, grouped_rel, make_aggregate_path(join, partial, &work), having);
	if (partial_join != NULL && partial_join->custom.path.parallel_safe)
	{
		Path	   *path = make_aggregate_path(partial_join, partial, &work);
		double		rows = path->parallel_workers;

		add_finished(root, grouped_rel, (Path *) create_gather_path(root, grouped_rel, path, partial, NULL, &rows), having);
	}
}

static void
upper_paths_hook(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *grouped_rel, void *extra)
{
	const Query *parse = root->parse;

	if (previous_upper_paths_hook)
		previous_upper_paths_hook(root, stage, input_rel, grouped_rel, extra);
	if (!hjg_enabled || !hjg_aggregate || stage != UPPERREL_GROUP_AGG || !parse->hasAggs || parse->groupClause != NIL ||
		parse->groupingSets != NIL || input_rel->reloptkind != RELOPT_JOINREL ||
		(((GroupPathExtraData *) extra)->flags & GROUPING_CAN_PARTIAL_AGG) == 0)
		return;
	offer_aggregates(root, input_rel, grouped_rel, extra);
}

void
hjg_planner_init_aggregates(void)
{
	previous_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = upper_paths_hook;
}
