/*
 * planner_aggregate.c
 *	  Offer joins that compute aggregates of all their rows, without GROUP BY.
 *
 * Beside core's Agg above a join of ours there is offered: an Agg that only finishes partial aggregates, over a copy of
 * the join whose result is one row of them; and the same with a Gather between, where each participant returns its row.
 * This is the shape of core's own parallel aggregation, and serves without workers as well: what the node hands
 * up is core's transition values, combined and finished by core.
 *
 * All aggregates of the query must be ones that the node knows (planner_vocabulary.c).  The copy is priced as the join is,
 * with the handing out of rows replaced by the aggregation of vectors, unless conditions have rows looked at one by one in
 * any case.  hjoin_gpu.force leaves nothing else to choose.
 *
 * Handing out many columns of many rows may be what makes a join dearer than core's, so that core's lists do not take it, although
 * its aggregates are cheaper than core's.  So the last join of such a query is compared with core's by what both take
 * with their aggregates, and the cheapest one is remembered beside the lists.
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
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "model/hjg_model.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"

/* Each step of evaluation takes 2 KB of each process, and a level of the stack when it is below others. */
#define MOST_STEPS 500

/* Prices that differ less are one, as they are to add_path(): the path that is there stays. */
#define CLEARLY_MORE 1.01

static create_upper_paths_hook_type previous_upper_paths_hook = NULL;

/* Work that the arguments of all aggregates take: columns of the join, and steps of evaluation. */
typedef struct ArgumentWork
{
	List	   *columns;		/* Vars, each once */
	int			nsteps;
} ArgumentWork;

/* Can the node compute it: columns, constants, parameters and arithmetic on them?  Adds to *work. */
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

/* Find aggregates, and what is not aggregated, each once, of results and of HAVING's conditions. */
static PathTarget *
find_aggregates(const List *results, List *having)
{
	PathTarget *found = create_empty_pathtarget();
	List	   *exprs = list_copy(results);

	if (having != NIL)
		exprs = lappend(exprs, having);
	add_new_columns_to_pathtarget(found, pull_var_clause((Node *) exprs, PVC_INCLUDE_AGGREGATES |
														 PVC_RECURSE_WINDOWFUNCS | PVC_INCLUDE_PLACEHOLDERS));
	return found;
}

/* Are these aggregates, and can the node compute them all?  Fills in what they take. */
static bool
are_known(const List *exprs, ArgumentWork *work)
{
	ListCell   *lc;

	*work = (ArgumentWork) {NIL, 0};
	foreach(lc, exprs)
		if (!IsA(lfirst(lc), Aggref) || !is_known(lfirst(lc), work))
			return false;
	return exprs != NIL;
}

/* Make the list that the node must return for these results, as core's partial aggregation does; NULL if it cannot. */
static PathTarget *
make_partial_target(PlannerInfo *root, const PathTarget *target, List *having, ArgumentWork *work)
{
	PathTarget *partial = find_aggregates(target->exprs, having);
	ListCell   *lc;

	if (!are_known(partial->exprs, work))
		return NULL;
	foreach(lc, partial->exprs)
	{
		Aggref	   *aggref = makeNode(Aggref);

		memcpy(aggref, lfirst(lc), sizeof(Aggref));
		mark_partial_aggref(aggref, AGGSPLIT_INITIAL_SERIAL);
		lfirst(lc) = aggref;
	}
	return set_pathtarget_cost_width(root, partial);
}

/* May the node compute the query's aggregates, as far as the query tells? */
static bool
has_plain_aggregates(const Query *parse)
{
	return hjg_aggregate && parse->hasAggs && parse->groupClause == NIL && parse->groupingSets == NIL;
}

/* Expect aggregates of a last join.  GEQO throws joins away with the memory that their paths are in: there core's lists must do. */
void
hjg_planner_expect_aggregates(PlannerInfo *root, HjgCandidate *candidate)
{
	const RelOptInfo *joinrel = candidate->joinrel;
	AggClauseCosts core_costs = {{0}};

	candidate->aggregates = NULL;
	candidate->spared = 0;
	if (!has_plain_aggregates(root->parse) || joinrel->reloptkind != RELOPT_JOINREL || root->join_search_private != NULL ||
		!bms_equal(joinrel->relids, HJG_ALL_RELS(root)))
		return;
	get_agg_clause_costs(root, AGGSPLIT_SIMPLE, &core_costs);
	candidate->spared = core_costs.transCost.per_tuple * joinrel->rows;
}

void
hjg_planner_find_aggregates(PlannerInfo *root, HjgCandidate *candidate)
{
	HjgAggregateFacts *facts = &candidate->facts->aggregates;

	if (candidate->spared <= 0)
		return;
	if (!facts->known)
	{
		ArgumentWork work;

		facts->known = true;
		facts->computable = are_known(find_aggregates(root->processed_tlist, (List *) root->parse->havingQual)->exprs, &work);
		facts->ncolumns = list_length(work.columns);
		facts->nsteps = work.nsteps;
	}
	if (facts->computable)
		candidate->aggregates = facts;
	else
		candidate->spared = 0;
}

/* Predict what the node spends on the rows of a path in place of emit_ns, which handing them out takes. */
static double
aggregation_ns(const HjgUnitCosts *costs, const HjgPath *join, double emit_ns, int ncolumns, int nsteps)
{
	const double ns = hjg_model_aggregate_ns(costs, join->custom.path.rows, ncolumns, nsteps);

	return join->columnar ? Min(ns, emit_ns) : ns + emit_ns;
}

double
hjg_planner_aggregation_saves_ns(const HjgCandidate *candidate, const HjgPath *path, double emit_ns)
{
	const HjgAggregateFacts *facts = candidate->aggregates;

	return emit_ns - aggregation_ns(candidate->costs, path, emit_ns, facts->ncolumns, facts->nsteps);
}

static Cost
price_aggregated(const HjgCandidate *candidate, const HjgPath *path)
{
	return path->custom.path.total_cost -
		hjg_planner_aggregation_saves_ns(candidate, path, path->prediction_us[HJG_PREDICTION_EMIT] * 1000.0) / path->unit_ns;
}

void
hjg_planner_keep_for_aggregates(const HjgCandidate *candidate, const HjgPath *path, bool partial)
{
	HjgPath   **kept = &candidate->facts->aggregates.joins[partial];

	if (*kept == NULL)
		*kept = MemoryContextAlloc(GetMemoryChunkContext(candidate->facts), sizeof(HjgPath));
	else if ((*kept)->custom.path.parent == candidate->joinrel &&
			 price_aggregated(candidate, *kept) <= price_aggregated(candidate, path) * CLEARLY_MORE)
		return;
	**kept = *path;
}

/* Find the cheapest join of ours in a list, projections of plain columns taken off; NULL: there is none. */
static const HjgPath *
find_listed(const List *paths)
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

/* Find the cheapest join of ours to aggregate, of complete or of partial ones; NULL: there is none. */
static const HjgPath *
find_join(const PlannerInfo *root, const RelOptInfo *rel, bool partial)
{
	const HjgQueryFacts *facts = hjg_planner_known_facts(root);
	const HjgPath *kept = facts != NULL ? facts->aggregates.joins[partial] : NULL;

	return kept != NULL && kept->custom.path.parent == rel ? kept :
		find_listed(partial ? rel->partial_pathlist : rel->pathlist);
}

/* Make the same join, but with partial aggregates for its result. */
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
	aggregate_ns = aggregation_ns(&costs, join, emit_ns, list_length(work->columns), work->nsteps);

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
	const HjgPath *join = find_join(root, input_rel, false);
	const HjgPath *partial_join = grouped_rel->consider_parallel ? find_join(root, input_rel, true) : NULL;
	ArgumentWork work;
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
	if (previous_upper_paths_hook)
		previous_upper_paths_hook(root, stage, input_rel, grouped_rel, extra);
	if (hjg_explain_declined && stage == UPPERREL_FINAL)
		hjg_planner_tell(root);
	if (!hjg_enabled || stage != UPPERREL_GROUP_AGG || !has_plain_aggregates(root->parse) ||
		input_rel->reloptkind != RELOPT_JOINREL ||
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
