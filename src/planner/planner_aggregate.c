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

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "utils/memutils.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_aggregate.h"

static create_upper_paths_hook_type previous_upper_paths_hook = NULL;

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
	if (!hjg_planner_may_group(root->parse) || joinrel->reloptkind != RELOPT_JOINREL || root->join_search_private != NULL ||
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

static Cost
price_aggregated(const HjgCandidate *candidate, const HjgPath *path)
{
	return path->even_cost -
		hjg_planner_aggregation_saves_ns(candidate, path, path->emit_ns) * path->ns_cost;
}

void
hjg_planner_keep_for_aggregates(const HjgCandidate *candidate, const HjgPath *path, bool partial)
{
	HjgPath   **kept = &candidate->facts->aggregates.joins[partial];

	if (*kept == NULL)
		*kept = MemoryContextAlloc(GetMemoryChunkContext(candidate->facts), sizeof(HjgPath));
	else if ((*kept)->custom.path.parent == candidate->joinrel &&
			 price_aggregated(candidate, *kept) <= price_aggregated(candidate, path) * HJG_CLEARLY_MORE)
		return;
	**kept = *path;
}

/* ---------- inputs and offers ---------- */

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

/*
 * Find a sequential scan of a table that the node can read, in a list of paths, below any projection; or make one, if the
 * node is expected to read the table in less time than core reads an index; or NULL.
 */
static const Path *
find_scan(PlannerInfo *root, RelOptInfo *rel, List *paths)
{
	HjgQueryFacts *facts = hjg_planner_facts(root);
	Path	   *found = NULL;
	ListCell   *lc;

	foreach(lc, paths)
	{
		Path	   *path = lfirst(lc);

		if (IsA(path, ProjectionPath))
			path = ((ProjectionPath *) path)->subpath;
		if (path->pathtype == T_SeqScan && path->param_info == NULL && found == NULL)
			found = path;
	}
	if (found == NULL && paths != NIL)
		found = hjg_planner_choose_scan(root, facts, facts->calibrated, rel, linitial(paths));
	return found != NULL && found->pathtype == T_SeqScan && hjg_planner_side(facts, rel, NULL)->readable ? found : NULL;
}

static bool
has_input(HjgAggregateInput input)
{
	return input.join != NULL || input.scan != NULL || input.rows != NULL;
}

/*
 * Find the cheapest path's rows, below any projection, if they have all needed columns and are not read by another input; or
 * NULL.
 */
static Path *
describe_grouped_rows(const HjgGrouping *grouping, Path *path, HjgAggregateInput others)
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
gather_rows(PlannerInfo *root, RelOptInfo *grouped_rel, double all_rows, Path *path)
{
	const Path *input = linitial(((CustomPath *) path)->custom_paths);
	double		rows = clamp_row_est(path->rows * Max(all_rows / input->rows, 1));

	return (Path *) create_gather_path(root, grouped_rel, path, path->pathtarget, NULL, &rows);
}

/* Make the path of a single process that finishes all groups. */
static Path *
aggregate_all(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, HjgAggregateInput input)
{
	Path	   *path = hjg_planner_aggregate(root, grouped_rel, grouping, HJG_AGGREGATE_COMPLETE, input);

	return grouping->distinct == NULL ? path :
		hjg_planner_aggregate_distinct(root, grouped_rel, grouping, &grouping->distinct->whole, HJG_AGGREGATE_COMPLETE, path);
}

/* Offer the paths of a single process. */
static void
add_serial(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, HjgAggregateInput input)
{
	if (grouping->keys != NIL)
		add_path(grouped_rel, aggregate_all(root, grouped_rel, grouping, input));
	else
		add_finished(root, grouped_rel, grouping, hjg_planner_aggregate(root, grouped_rel, grouping, HJG_AGGREGATE_PARTIAL, input));
}

/* Offer a path whose processes each finish some of the groups. */
static void
add_shared(PlannerInfo *root, RelOptInfo *grouped_rel, double all_rows, Path *path, Path *another)
{
	add_path(grouped_rel, gather_rows(root, grouped_rel, all_rows, path));
	/* a partial path for the query above; a second one, because the list may free it */
	add_partial_path(grouped_rel, another);
}

/* Offer the paths of several processes. */
static void
add_parallel(PlannerInfo *root, double all_rows, RelOptInfo *grouped_rel, const HjgGrouping *grouping, HjgAggregateInput input)
{
	add_finished(root, grouped_rel, grouping,
				 gather_rows(root, grouped_rel, all_rows, hjg_planner_aggregate(root, grouped_rel, grouping, HJG_AGGREGATE_PARTIAL, input)));
	if (grouping->keys != NIL)
		add_shared(root, grouped_rel, all_rows, hjg_planner_aggregate(root, grouped_rel, grouping, HJG_AGGREGATE_SHARED, input),
				   hjg_planner_aggregate(root, grouped_rel, grouping, HJG_AGGREGATE_SHARED, input));
}

/* Offer the paths of several processes for DISTINCT aggregates. */
static void
add_parallel_distinct(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, HjgAggregateInput input)
{
	const HjgDistinct *distinct = grouping->distinct;
	const double all_rows = grouping->ngroups;
	Path	   *rows = hjg_planner_aggregate(root, grouped_rel, grouping, HJG_AGGREGATE_SHARED, input);

	if (distinct->whole.keys != NIL)
		add_shared(root, grouped_rel, all_rows,
				   hjg_planner_aggregate_distinct(root, grouped_rel, grouping, &distinct->whole, HJG_AGGREGATE_SHARED, rows),
				   hjg_planner_aggregate_distinct(root, grouped_rel, grouping, &distinct->whole, HJG_AGGREGATE_SHARED, rows));
	if (distinct->divisible)
	{
		Path	   *parts = gather_rows(root, grouped_rel, all_rows,
										hjg_planner_aggregate_distinct(root, grouped_rel, grouping, &distinct->part, HJG_AGGREGATE_COMPLETE, rows));

		add_path(grouped_rel, hjg_planner_aggregate_rows(root, grouped_rel, &distinct->sum, HJG_AGGREGATE_COMPLETE, parts, parts->rows));
	}
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
offer_paths(PlannerInfo *root, const RelOptInfo *input_rel, RelOptInfo *grouped_rel, const HjgGrouping *grouping, bool partial, HjgAggregateInput input)
{
	if (!has_input(input))
		return;
	if (grouping->distinct != NULL && partial)
		add_parallel_distinct(root, grouped_rel, grouping, input);
	else if (partial)
		add_parallel(root, input_rel->rows, grouped_rel, grouping, input);
	else
		add_serial(root, grouped_rel, grouping, input);
}

/* Would core take this path, and not the other one? */
static bool
costs_less(const Path *path, const Path *than)
{
	return HJG_DISABLED_NODES(path) != HJG_DISABLED_NODES(than) ? HJG_DISABLED_NODES(path) < HJG_DISABLED_NODES(than) :
		path->total_cost < than->total_cost;
}

/* Find the cheapest path whose rows have these columns; in no order, if there is such a one, as those in order have uses of their own. */
static Path *
find_other(const List *paths, const PathTarget *target)
{
	Path	   *best = NULL;
	ListCell   *lc;

	foreach(lc, paths)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info == NULL && equal(path->pathtarget->exprs, target->exprs) &&
			(best == NULL || (best->pathkeys != NIL && path->pathkeys == NIL) ||
			 ((best->pathkeys != NIL || path->pathkeys == NIL) && costs_less(path, best))))
			best = path;
	}
	return best;
}

/*
 * Offer the path of a program, if there is one and it costs less than the plan that takes its place where it cannot be run. That one is taken
 * off the list, which may free what it holds.
 */
static void
offer_program(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *grouped_rel, const HjgGrouping *grouping)
{
	HjgPlannedProgram program;
	HjgAggregateInput input = {NULL};
	Path	   *path;

	if (!hjg_planner_program(root, grouping, input_rel, &program))
		return;
	hjg_planner_program_input(program.path, &input);
	path = aggregate_all(root, grouped_rel, grouping, input);
	program.other = find_other(grouped_rel->pathlist, path->pathtarget);
	if (program.other == NULL)
		program.other = aggregate_all(root, grouped_rel, grouping, input);
	program.other_ns = hjg_planner_plan_ns(program.other, hjg_planner_facts(root)->calibrated);
	hjg_planner_set_program(path, &program);
	if (!costs_less(path, program.other))
	{
		hjg_planner_note_program(root, input_rel, "the plan without one is expected to cost less");
		return;
	}
	grouped_rel->pathlist = list_delete_ptr(grouped_rel->pathlist, program.other);
	add_path(grouped_rel, path);
}

/* Offer all paths; returns the reason if none was taken, or NULL. */
static const char *
offer_aggregates(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *grouped_rel, PathTarget *target, List *having)
{
	const bool	of_join = input_rel->reloptkind == RELOPT_JOINREL;
	HjgAggregateInput		inputs[2] = {{NULL}};
	HjgAggregateInput		rows[2] = {{NULL}};
	List	   *cores = grouped_rel->pathlist;
	HjgGrouping grouping;

	if (hjg_force && hjg_planner_is_pushed_down(grouped_rel))
	{
		hjg_planner_drop_core_paths(grouped_rel);
		return HJG_PUSHED_DOWN;
	}
	if (!hjg_planner_find_groupings(root, target->exprs, target->sortgrouprefs, having, &grouping))
		return grouping.why;
	for (int partial = 0; partial <= (grouped_rel->consider_parallel ? 1 : 0); partial++)
	{
		List	   *paths = partial ? input_rel->partial_pathlist : input_rel->pathlist;

		if (of_join)
			inputs[partial].join = find_join(root, input_rel, partial);
		else
			inputs[partial].scan = find_scan(root, input_rel, paths);
		rows[partial].rows = describe_grouped_rows(&grouping, partial && paths == NIL ? NULL : partial ? linitial(paths) : input_rel->cheapest_total_path,
												   inputs[partial]);
	}
	if (!has_input(inputs[0]) && !has_input(inputs[1]) && !has_input(rows[0]) && !has_input(rows[1]) &&
		hjg_planner_program_rows(root, input_rel) == NULL)
		return "its rows come neither from a table that can be read in place nor from a GpuHashJoin";
	hjg_planner_set_results(root, &grouping, target, having, input_rel->rows);
	if (grouping.distinct == NULL)
		hjg_planner_make_partial(root, &grouping);
	if (hjg_force)
		grouped_rel->pathlist = NIL;
	for (int partial = 0; partial <= 1; partial++)
	{
		offer_paths(root, input_rel, grouped_rel, &grouping, partial, inputs[partial]);
		offer_paths(root, input_rel, grouped_rel, &grouping, partial, rows[partial]);
	}
	offer_program(root, input_rel, grouped_rel, &grouping);
	if (grouped_rel->pathlist == NIL)
		grouped_rel->pathlist = cores;
	hjg_planner_note_groups(root, &grouping, input_rel, grouped_rel);
	return has_ours(grouped_rel->pathlist) ? NULL : HJG_CORE_COSTS_LESS;
}

static void
upper_paths_hook(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *grouped_rel, void *extra)
{
	const char *why;

	if (previous_upper_paths_hook)
		previous_upper_paths_hook(root, stage, input_rel, grouped_rel, extra);
	if (stage == UPPERREL_FINAL && hjg_enabled)
		hjg_planner_check_reached(root);
	if (hjg_explain_declined && stage == UPPERREL_FINAL)
		hjg_planner_report(root);
	if (!hjg_enabled || (stage != UPPERREL_GROUP_AGG && stage != UPPERREL_DISTINCT) || !hjg_planner_may_group(root->parse) ||
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
