/*
 * planner_aggregate.c
 *	  Offers the node GpuAggregate: grouping and aggregates of a query's rows.
 *
 * The rows are those of a sequential scan, of the last GpuHashJoin, or, to be grouped, of core's cheapest path, which come
 * through slots. Over them it offers a GpuAggregate; one that parallel processes share, below a Gather or as a partial path;
 * and core's Agg, which finishes partial aggregates, over a Gather over a GpuAggregate in each participant, like core's own
 * parallel aggregation. Without GROUP BY core's Agg always finishes. DISTINCT aggregates are computed by GpuAggregates above each other
 * (planner_distinct.c).
 *
 * planner_grouping.c decides whether the node can serve a query.
 *
 * Returning many columns of many rows may make a join dearer than core's, so that core's lists do not take it, although it is
 * cheaper with a GpuAggregate above it. So the last join of such a query is compared with core's joins with the aggregates of
 * each included, and the cheapest one is kept beside the lists. hjoin_gpu.force leaves no other choice.
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/selfuncs.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "model/hjg_model.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_path.h"

/* Prices that differ less are equal to add_path(): the path in the list stays. */
#define CLEARLY_MORE 1.01

static create_upper_paths_hook_type previous_upper_paths_hook = NULL;

/* Uses of a process's groups. */
typedef enum AggregateForm
{
	AGGREGATE_COMPLETE,				/* the process finishes them: it has all rows */
	AGGREGATE_PARTIAL,				/* core's Agg finishes them */
	AGGREGATE_SHARED					/* it exchanges them with other processes, and finishes some */
} AggregateForm;

/* A path of the node, with all that its plan needs. */
typedef struct AggregatePath
{
	CustomPath	custom;
	List	   *keys;			/* expressions of GROUP BY */
	List	   *operators;		/* OIDs: their equality operators */
	List	   *aggregates;		/* Aggrefs, their functions and arguments */
	List	   *functions;
	List	   *arguments;
	bool		partial;		/* aggregates are in partial form */
	double		ngroups;		/* in all */
	List	   *having;
	double		prediction_us;
	Cost		join_price;		/* the price of that time in a join */
} AggregatePath;

/* May the node serve the query, by its form? */
static bool
has_grouping(const Query *parse)
{
	const bool	keys = parse->groupClause != NIL || hjg_planner_is_plain_distinct(parse);

	return hjg_aggregate && (parse->hasAggs || keys) && parse->groupingSets == NIL && (!keys || enable_hashagg);
}

/* ---------- the last join of a query ---------- */

/*
 * Expect aggregates of a last join, except under GEQO, which frees joins with the memory of their paths: there only core's
 * lists count.
 */
void
hjg_planner_expect_aggregates(PlannerInfo *root, HjgCandidate *candidate)
{
	const RelOptInfo *joinrel = candidate->joinrel;
	const List *keys = root->parse->groupClause != NIL ? root->parse->groupClause : root->parse->distinctClause;
	AggClauseCosts core_costs = {{0}};

	candidate->aggregates = NULL;
	candidate->spared = 0;
	if (!has_grouping(root->parse) || joinrel->reloptkind != RELOPT_JOINREL || root->join_search_private != NULL ||
		!bms_equal(joinrel->relids, HJG_ALL_RELS(root)))
		return;
	get_agg_clause_costs(root, AGGSPLIT_SIMPLE, &core_costs);
	candidate->spared = (core_costs.transCost.per_tuple + cpu_operator_cost * list_length(keys)) * joinrel->rows;
}

void
hjg_planner_find_aggregates(PlannerInfo *root, HjgCandidate *candidate)
{
	HjgAggregateFacts *facts = &candidate->facts->aggregates;

	if (candidate->spared <= 0)
		return;
	if (!facts->known)
	{
		HjgGrouping grouping;

		facts->known = true;
		facts->computable = hjg_planner_find_groupings(root, root->processed_tlist, NULL, (List *) root->parse->havingQual, &grouping);
		facts->work = grouping.work;
	}
	if (facts->computable)
		candidate->aggregates = facts;
	else
		candidate->spared = 0;
}

/* ---------- prices ---------- */

/* Groups of one process. */
typedef struct GroupCounts
{
	AggregateForm form;
	double		made;			/* of the rows that it reads; */
	double		returned;		/* those that it returns, without HAVING */
} GroupCounts;

/* Count the groups that a process makes of this many of all input rows. */
static GroupCounts
count_groups(PlannerInfo *root, double all_rows, const HjgGrouping *grouping, AggregateForm form, double rows)
{
	GroupCounts	groups = {.form = form,.made = 1,.returned = 1};

	if (grouping->keys == NIL)
		return groups;
	groups.made = estimate_num_groups(root, grouping->keys, rows, NULL, NULL);
	groups.returned = form == AGGREGATE_SHARED ? clamp_row_est(grouping->ngroups * Min(rows / all_rows, 1)) : groups.made;
	return groups;
}

/* Predict the node's time for these rows, without that of core's expressions. */
static double
grouping_ns(const HjgUnitCosts *costs, double rows, GroupCounts groups, const HjgAggregateWork *work)
{
	const int	ncolumns = list_length(work->columns);

	return hjg_model_aggregate_ns(costs, rows, ncolumns, work->nsteps) +
		hjg_model_group_ns(costs, rows, groups.made, work->nkeys, ncolumns) +
		(groups.form == AGGREGATE_SHARED ? hjg_model_exchange_ns(groups.made) : 0) +
		(groups.form == AGGREGATE_COMPLETE ? hjg_model_group_spill_ns(groups.made, ncolumns, get_hash_memory_limit()) : 0) +
		hjg_model_finish_ns(groups.returned, groups.form == AGGREGATE_PARTIAL);
}

/*
 * Compute the time of a cost of 1.0 in core's grouping of rows. Core charges less for finding a row's group than for a look-up in
 * a hash join's table of as many rows, though both take as long.
 */
static double
grouping_unit_ns(PlannerInfo *root, const HjgGrouping *grouping, double join_unit_ns)
{
	AggClauseCosts core_costs = {{0}};
	Cost		charged;

	if (grouping->keys == NIL || grouping->core_sorts)
		return join_unit_ns;
	get_agg_clause_costs(root, AGGSPLIT_SIMPLE, &core_costs);
	charged = core_costs.transCost.per_tuple + cpu_operator_cost * list_length(grouping->keys);
	return join_unit_ns * Max((cpu_operator_cost + cpu_tuple_cost) / Max(charged, 1e-10), 1);
}

/* Find the unit costs; returns the time of a cost of 1.0 in a hash join of core's with as many build rows, or in its sort. */
static double
find_units(const HjgGrouping *grouping, GroupCounts groups, HjgUnitCosts *costs)
{
	return hjg_planner_unit_costs(costs, grouping->core_sorts ? 0 : groups.made);
}

/* Predict the node's additional time above a join, instead of emit_ns for returning its rows. */
static double
aggregation_ns(const HjgUnitCosts *costs, const HjgPath *join, double emit_ns, GroupCounts groups, const HjgAggregateWork *work)
{
	const double ns = grouping_ns(costs, join->custom.path.rows, groups, work);

	/* without keys it is never dearer than returning rows, which core's Agg needs */
	if (join->columnar)
		return work->nkeys > 0 ? ns : Min(ns, emit_ns);
	return ns + emit_ns;
}

double
hjg_planner_aggregation_saves_ns(const HjgCandidate *candidate, const HjgPath *path, double emit_ns)
{
	/* a large table of groups costs core more, too */
	const GroupCounts one = {.form = AGGREGATE_COMPLETE,.made = 1,.returned = 1};

	return emit_ns - aggregation_ns(candidate->costs, path, emit_ns, one, &candidate->aggregates->work);
}

static Cost
price_aggregated(const HjgCandidate *candidate, const HjgPath *path)
{
	return path->even_cost -
		hjg_planner_aggregation_saves_ns(candidate, path, path->prediction_us[HJG_PREDICTION_EMIT] * 1000.0) * path->ns_cost;
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

/* ---------- plans ---------- */

/* Does core's code compute the argument, and neither the node nor the plan below? */
static bool
is_by_core(Expr *argument, List *columns)
{
	HjgAggregateWork work = {0};

	return (IsA(argument, Const) || tlist_member(argument, columns) == NULL) &&
		hjg_planner_is_by_core(NULL, (Node *) argument, &work);
}

/*
 * Append the aggregates to the columns of the scan tuple, and their functions and arguments' numbers to the private lists;
 * returns the arguments, each once.
 */
static List *
append_aggregates(CustomScan *cscan, const AggregatePath *path)
{
	List	   *columns = cscan->custom_scan_tlist;
	List	   *numbers = NIL;
	List	   *by_core = NIL;
	List	   *arguments = NIL;
	ListCell   *lc;

	foreach(lc, path->arguments)
	{
		Expr	   *argument = lfirst(lc);
		int			number = -1;

		if (argument != NULL)
		{
			do
				number++;
			while (number < list_length(arguments) && !equal(list_nth(arguments, number), argument));
			if (number == list_length(arguments))
			{
				arguments = lappend(arguments, copyObject(argument));
				by_core = lappend_int(by_core, is_by_core(argument, columns));
			}
		}
		numbers = lappend_int(numbers, number);
	}
	foreach(lc, path->aggregates)
		columns = lappend(columns, makeTargetEntry(copyObject(lfirst(lc)), list_length(columns) + 1, NULL, false));
	cscan->custom_scan_tlist = columns;
	cscan->custom_private = lappend(lappend(lappend(cscan->custom_private, list_copy(path->functions)), numbers), by_core);
	return arguments;
}

static Plan *
make_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);
	const AggregatePath *path = (const AggregatePath *) best_path;
	List	   *arguments;

	cscan->scan.plan.targetlist = tlist;
	cscan->scan.plan.qual = path->having;
	cscan->flags = best_path->flags;
	cscan->custom_plans = custom_plans;
	cscan->custom_scan_tlist = hjg_planner_append_columns(NIL, linitial(custom_plans));
	cscan->custom_private = list_make2(list_make3_int(path->partial, (int) Min(path->prediction_us, PG_INT32_MAX), (int) Min(path->ngroups, PG_INT32_MAX)),
									   path->operators);
	arguments = append_aggregates(cscan, path);
	cscan->custom_exprs = list_make2(copyObject(path->keys), arguments);
	cscan->methods = &hjg_aggregate_methods;
	return &cscan->scan.plan;
}

const CustomPathMethods hjg_planner_grouping_methods = {
	.CustomName = HJG_AGGREGATE_NAME,
	.PlanCustomPath = make_plan,
};

/* ---------- paths ---------- */

/* Find the cheapest join of the node in a list, below any projection; NULL: there is none. */
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

/* Find the cheapest complete or partial join of the node to aggregate; NULL: there is none. */
static const HjgPath *
find_join(const PlannerInfo *root, const RelOptInfo *rel, bool partial)
{
	const HjgQueryFacts *facts = hjg_planner_known_facts(root);
	const HjgPath *kept = facts != NULL ? facts->aggregates.joins[partial] : NULL;

	return kept != NULL && kept->custom.path.parent == rel ? kept :
		find_listed(partial ? rel->partial_pathlist : rel->pathlist);
}

/* Make a path over the input; ns: the additional time. */
static Path *
make_path(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, GroupCounts groups, Path *input, double ns, double unit_ns)
{
	const bool	partial = groups.form == AGGREGATE_PARTIAL;
	PathTarget *target = partial ? grouping->partial : grouping->target;
	QualCost	having_cost;
	AggregatePath *own = palloc0(sizeof(AggregatePath));
	Path	   *path = &own->custom.path;

	path->type = T_CustomPath;
	path->pathtype = T_CustomScan;
	path->parent = grouped_rel;
	path->pathtarget = target;
	path->parallel_aware = groups.form == AGGREGATE_SHARED;
	path->parallel_safe = grouped_rel->consider_parallel && input->parallel_safe;
	path->parallel_workers = input->parallel_workers;
	HJG_SET_DISABLED_NODES(path, HJG_DISABLED_NODES(input));
	path->rows = groups.returned;
	path->total_cost = input->total_cost + ns / grouping_unit_ns(root, grouping, unit_ns) + grouping->work.by_core * input->rows +
		target->cost.startup + target->cost.per_tuple * groups.returned;
	if (!partial && grouping->having != NIL)
	{
		cost_qual_eval(&having_cost, grouping->having, root);
		path->total_cost += having_cost.startup + having_cost.per_tuple * groups.returned;
		path->rows = clamp_row_est(groups.returned * clauselist_selectivity(root, grouping->having, 0, JOIN_INNER, NULL));
		own->having = grouping->having;
	}
	path->startup_cost = path->total_cost;
	own->custom.flags = CUSTOMPATH_SUPPORT_PROJECTION;
	own->custom.custom_paths = list_make1(input);
	own->custom.methods = &hjg_planner_grouping_methods;
	own->keys = grouping->keys;
	own->operators = grouping->operators;
	own->aggregates = partial ? grouping->partial_aggregates : grouping->aggregates;
	own->functions = grouping->functions;
	own->arguments = grouping->arguments;
	own->partial = partial;
	own->ngroups = grouping->ngroups;
	own->prediction_us = ns / 1000.0;
	own->join_price = ns / unit_ns;
	return path;
}

static Path *
aggregate_join(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, AggregateForm form, const HjgPath *join)
{
	HjgPath    *copy = palloc(sizeof(HjgPath));
	Path	   *path = &copy->custom.path;
	const double emit_ns = join->prediction_us[HJG_PREDICTION_EMIT] * 1000.0;
	const GroupCounts groups = count_groups(root, join->custom.path.parent->rows, grouping, form, join->custom.path.rows);
	HjgUnitCosts costs;

	*copy = *join;
	path->pathtarget = grouping->input;
	path->total_cost -= emit_ns * join->ns_cost * (path->total_cost / join->even_cost);
	path->startup_cost = Min(path->startup_cost, path->total_cost);
	copy->prediction_us[HJG_PREDICTION_EMIT] = 0;
	hjg_planner_unit_costs(&costs, path->rows);
	return make_path(root, grouped_rel, grouping, groups, path, aggregation_ns(&costs, join, emit_ns, groups, &grouping->work), join->unit_ns);
}

/* Find a sequential scan in a list, below any projection; or NULL. */
static const Path *
find_scan(const List *paths)
{
	ListCell   *lc;

	foreach(lc, paths)
	{
		const Path *path = lfirst(lc);

		if (IsA(path, ProjectionPath))
			path = ((const ProjectionPath *) path)->subpath;
		if (path->pathtype == T_SeqScan && path->param_info == NULL)
			return path;
	}
	return NULL;
}

static Path *
aggregate_scan(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, AggregateForm form, const Path *scan)
{
	Path	   *copy = makeNode(Path);
	const GroupCounts groups = count_groups(root, scan->parent->rows, grouping, form, scan->rows);
	HjgUnitCosts costs;
	const double unit_ns = find_units(grouping, groups, &costs);

	*copy = *scan;
	copy->pathtarget = grouping->input;
	/* the node does not spend what core charges for returning a row */
	copy->total_cost -= Min(costs.scan_tuple_ns / unit_ns, cpu_tuple_cost) * copy->rows;
	return make_path(root, grouped_rel, grouping, groups, copy,
					 costs.direct_tuple_ns * copy->rows + grouping_ns(&costs, copy->rows, groups, &grouping->work), unit_ns);
}

/* Aggregate the rows of any path, which has some of all rows, through slots. */
static Path *
aggregate_rows(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, AggregateForm form, Path *rows, double all_rows)
{
	const GroupCounts groups = count_groups(root, all_rows, grouping, form, rows->rows);
	HjgUnitCosts costs;
	const double unit_ns = find_units(grouping, groups, &costs);
	double		row_ns = costs.marshal_tuple_ns;
	ListCell   *lc;

	foreach(lc, grouping->input->exprs)
		row_ns += get_typbyval(exprType(lfirst(lc))) ? 0 : costs.varlena_ns;
	if (is_projection_capable_path(rows))
		rows = (Path *) create_projection_path(root, rows->parent, rows, grouping->input);
	return make_path(root, grouped_rel, grouping, groups, rows, row_ns * rows->rows + grouping_ns(&costs, rows->rows, groups, &grouping->work),
					 unit_ns);
}

/* Inputs to aggregate, or NULL: a join of the node; a table that the node reads; any rows, to be grouped. */
typedef struct Input
{
	const HjgPath *join;
	const Path *scan;
	Path	   *rows;
} Input;

static bool
has_input(Input input)
{
	return input.join != NULL || input.scan != NULL || input.rows != NULL;
}

static Path *
aggregate(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, AggregateForm form, Input input)
{
	if (input.rows != NULL)
		return aggregate_rows(root, grouped_rel, grouping, form, input.rows, input.rows->parent->rows);
	return input.join != NULL ? aggregate_join(root, grouped_rel, grouping, form, input.join) :
		aggregate_scan(root, grouped_rel, grouping, form, input.scan);
}

/*
 * Find the cheapest path's rows, below any projection, if they have all needed columns and are not read by another input; or
 * NULL.
 */
static Path *
find_rows(const HjgGrouping *grouping, Path *path, Input others)
{
	ListCell   *lc;

	if (path == NULL || path->param_info != NULL || grouping->keys == NIL)
		return NULL;
	if (IsA(path, ProjectionPath))
		path = ((ProjectionPath *) path)->subpath;
	if (hjg_planner_is_ours(path) || (others.scan != NULL && path->pathtype == T_SeqScan))
		return NULL;
	foreach(lc, grouping->input->exprs)
		if (!list_member(path->pathtarget->exprs, lfirst(lc)))
			return NULL;
	return path;
}

/* Offer a path that core's Agg finishes. */
static void
add_finished(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, Path *partial)
{
	AggClauseCosts costs = {{0}};

	get_agg_clause_costs(root, AGGSPLIT_FINAL_DESERIAL, &costs);
	add_path(grouped_rel, (Path *) create_agg_path(root, grouped_rel, partial, grouping->target,
												   grouping->clauses != NIL ? AGG_HASHED : AGG_PLAIN, AGGSPLIT_FINAL_DESERIAL,
												   grouping->clauses, grouping->having, &costs, grouping->ngroups));
}

/* Gather the rows that processes make of all input rows together. */
static Path *
gather(PlannerInfo *root, RelOptInfo *grouped_rel, double all_rows, Path *path)
{
	const Path *input = linitial(((CustomPath *) path)->custom_paths);
	double		rows = clamp_row_est(path->rows * Max(all_rows / input->rows, 1));

	return (Path *) create_gather_path(root, grouped_rel, path, path->pathtarget, NULL, &rows);
}

/* Offer the paths of a single process. */
static void
add_serial(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, Input input)
{
	if (grouping->keys != NIL)
		add_path(grouped_rel, aggregate(root, grouped_rel, grouping, AGGREGATE_COMPLETE, input));
	else
		add_finished(root, grouped_rel, grouping, aggregate(root, grouped_rel, grouping, AGGREGATE_PARTIAL, input));
}

/* Offer a path whose processes each finish some of the groups. */
static void
add_shared(PlannerInfo *root, RelOptInfo *grouped_rel, double all_rows, Path *path, Path *another)
{
	add_path(grouped_rel, gather(root, grouped_rel, all_rows, path));
	/* a partial path for the query above; a second one, because the list may free it */
	add_partial_path(grouped_rel, another);
}

/* Offer the paths of several processes. */
static void
add_parallel(PlannerInfo *root, double all_rows, RelOptInfo *grouped_rel, const HjgGrouping *grouping, Input input)
{
	add_finished(root, grouped_rel, grouping,
				 gather(root, grouped_rel, all_rows, aggregate(root, grouped_rel, grouping, AGGREGATE_PARTIAL, input)));
	if (grouping->keys != NIL)
		add_shared(root, grouped_rel, all_rows, aggregate(root, grouped_rel, grouping, AGGREGATE_SHARED, input),
				   aggregate(root, grouped_rel, grouping, AGGREGATE_SHARED, input));
}

/*
 * Group rows that another path makes distinct. Core's sorts that are not in core's price are taken off this one's, down to that
 * of the input.
 */
static Path *
aggregate_distinct(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, const HjgGrouping *above, AggregateForm form,
				   Path *rows)
{
	const Path *input = linitial(((CustomPath *) rows)->custom_paths);
	Path	   *path = aggregate_rows(root, grouped_rel, above, form, rows, grouping->ngroups);
	HjgUnitCosts costs;

	path->total_cost = Max(path->total_cost - grouping->distinct->unpriced_ns / find_units(grouping, (GroupCounts) {0}, &costs),
						   input->total_cost);
	path->startup_cost = path->total_cost;
	return path;
}

/* Offer the path of a single process for DISTINCT aggregates. */
static void
add_serial_distinct(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, Input input)
{
	Path	   *rows = aggregate(root, grouped_rel, grouping, AGGREGATE_COMPLETE, input);

	add_path(grouped_rel, aggregate_distinct(root, grouped_rel, grouping, &grouping->distinct->whole, AGGREGATE_COMPLETE, rows));
}

/* Offer the paths of several processes for DISTINCT aggregates. */
static void
add_parallel_distinct(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, Input input)
{
	const HjgDistinct *distinct = grouping->distinct;
	const double all_rows = grouping->ngroups;
	Path	   *rows = aggregate(root, grouped_rel, grouping, AGGREGATE_SHARED, input);

	if (distinct->whole.keys != NIL)
		add_shared(root, grouped_rel, all_rows,
				   aggregate_distinct(root, grouped_rel, grouping, &distinct->whole, AGGREGATE_SHARED, rows),
				   aggregate_distinct(root, grouped_rel, grouping, &distinct->whole, AGGREGATE_SHARED, rows));
	if (distinct->divisible)
	{
		Path	   *parts = gather(root, grouped_rel, all_rows,
								   aggregate_distinct(root, grouped_rel, grouping, &distinct->part, AGGREGATE_COMPLETE, rows));

		add_path(grouped_rel, aggregate_rows(root, grouped_rel, &distinct->sum, AGGREGATE_COMPLETE, parts, parts->rows));
	}
}

Cost
hjg_planner_grouping_join_price(const Path *path)
{
	return ((const AggregatePath *) path)->join_price;
}

/* Is there a path of the node in the list, below core's Agg or Gather? */
static bool
has_ours(const List *paths)
{
	ListCell   *lc;

	foreach(lc, paths)
	{
		const Path *path = lfirst(lc);

		if (IsA(path, AggPath))
			path = ((const AggPath *) path)->subpath;
		if (IsA(path, GatherPath))
			path = ((const GatherPath *) path)->subpath;
		if (hjg_planner_is_grouping(path))
			return true;
	}
	return false;
}

/* Offer the paths over an input; partial: each participant has some of its rows. */
static void
offer(PlannerInfo *root, const RelOptInfo *input_rel, RelOptInfo *grouped_rel, const HjgGrouping *grouping, bool partial, Input input)
{
	if (!has_input(input))
		return;
	if (grouping->distinct != NULL && partial)
		add_parallel_distinct(root, grouped_rel, grouping, input);
	else if (grouping->distinct != NULL)
		add_serial_distinct(root, grouped_rel, grouping, input);
	else if (partial)
		add_parallel(root, input_rel->rows, grouped_rel, grouping, input);
	else
		add_serial(root, grouped_rel, grouping, input);
}

/* Offer all paths; returns the reason if none was taken, or NULL. */
static const char *
offer_aggregates(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *grouped_rel, PathTarget *target, List *having)
{
	const bool	of_join = input_rel->reloptkind == RELOPT_JOINREL;
	const bool	readable = !of_join && hjg_planner_readable(root, input_rel);
	Input		inputs[2] = {{NULL}};
	Input		rows[2] = {{NULL}};
	HjgGrouping grouping;

	if (!hjg_planner_find_groupings(root, target->exprs, target->sortgrouprefs, having, &grouping))
		return grouping.why;
	for (int partial = 0; partial <= (grouped_rel->consider_parallel ? 1 : 0); partial++)
	{
		const List *paths = partial ? input_rel->partial_pathlist : input_rel->pathlist;

		if (of_join)
			inputs[partial].join = find_join(root, input_rel, partial);
		else if (readable)
			inputs[partial].scan = find_scan(paths);
		rows[partial].rows = find_rows(&grouping, partial && paths == NIL ? NULL : partial ? linitial(paths) : input_rel->cheapest_total_path,
									   inputs[partial]);
	}
	if (!has_input(inputs[0]) && !has_input(inputs[1]) && !has_input(rows[0]) && !has_input(rows[1]))
		return "rows come neither from a table that can be read nor from a GpuHashJoin";
	hjg_planner_set_results(root, &grouping, target, having, input_rel->rows);
	if (grouping.distinct == NULL)
		hjg_planner_make_partial(root, &grouping);
	if (hjg_force)
		grouped_rel->pathlist = NIL;
	for (int partial = 0; partial <= 1; partial++)
	{
		offer(root, input_rel, grouped_rel, &grouping, partial, inputs[partial]);
		offer(root, input_rel, grouped_rel, &grouping, partial, rows[partial]);
	}
	return has_ours(grouped_rel->pathlist) ? NULL : "core's plan is expected to cost less";
}

static void
upper_paths_hook(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *grouped_rel, void *extra)
{
	const char *why;

	if (previous_upper_paths_hook)
		previous_upper_paths_hook(root, stage, input_rel, grouped_rel, extra);
	if (hjg_explain_declined && stage == UPPERREL_FINAL)
		hjg_planner_tell(root);
	if (!hjg_enabled || (stage != UPPERREL_GROUP_AGG && stage != UPPERREL_DISTINCT) || !has_grouping(root->parse) ||
		(input_rel->reloptkind != RELOPT_JOINREL && input_rel->reloptkind != RELOPT_BASEREL))
		return;
	if (stage == UPPERREL_GROUP_AGG)
		why = offer_aggregates(root, input_rel, grouped_rel, grouped_rel->reltarget, (List *) ((GroupPathExtraData *) extra)->havingQual);
	else
		why = offer_aggregates(root, input_rel, grouped_rel, root->upper_targets[UPPERREL_DISTINCT], NIL);
	hjg_planner_note_grouping(root, input_rel, why);
}

void
hjg_planner_init_aggregates(void)
{
	previous_upper_paths_hook = create_upper_paths_hook;
	create_upper_paths_hook = upper_paths_hook;
	RegisterCustomScanMethods(&hjg_aggregate_methods);
}
