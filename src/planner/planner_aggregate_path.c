/*
 * planner_aggregate_path.c
 *	  Makes the paths of GpuAggregate over an input, with their prices, and the plans of these.
 *
 * The time of the node is predicted by the model, and priced by what core's grouping takes (planner_aggregate.c offers the
 * paths and decides over which inputs).
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/tlist.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_aggregate.h"

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
	HjgPlannedProgram program;	/* that makes the groups, if its device is not ANY */
	HjgScanTimes scan;			/* of the table that it reads itself; */
	double		scanned;		/* its rows */
	double		grouping_ns;	/* the rest of the predicted time: of a process alone, */
	HjgWork		work;			/* and its kind; or of a program */
	Cost		join_price;		/* the price of that time in a join */
} AggregatePath;

/* ---------- prices ---------- */

/* Groups of one process. */
typedef struct GroupCounts
{
	HjgAggregateForm form;
	double		made;			/* of the rows that it reads; */
	double		returned;		/* those that it returns, without HAVING */
} GroupCounts;

/* Count the groups that a process makes of this many of all input rows. */
static GroupCounts
count_groups(PlannerInfo *root, double all_rows, const HjgGrouping *grouping, HjgAggregateForm form, double rows)
{
	GroupCounts	groups = {.form = form,.made = 1,.returned = 1};

	if (grouping->keys == NIL)
		return groups;
	groups.made = hjg_planner_estimate_groups(root, grouping->keys, rows);
	groups.returned = form == HJG_AGGREGATE_SHARED ? clamp_row_est(grouping->ngroups * Min(rows / all_rows, 1)) : groups.made;
	return groups;
}

/* Rows that are grouped. */
typedef struct InputRows
{
	double		rows;
	int			ncopied;		/* columns that are copied into vectors for the node */
	Relids		in_order;		/* tables whose columns come as they were read, in the table's order */
} InputRows;

/* Find the table of a column that comes in its order, or NULL. */
static RelOptInfo *
find_table(const HjgQueryFacts *facts, const Var *var, const InputRows *input)
{
	RelOptInfo *rel = IsA(var, Var) && bms_is_member(var->varno, input->in_order) ? facts->root->simple_rel_array[var->varno] : NULL;

	return rel != NULL && rel->rtekind == RTE_RELATION ? rel : NULL;
}

/* Count the numerics of a row that are read in core's form, not as integers, which kept columns are. */
static double
count_numerics(HjgQueryFacts *facts, const List *columns, const InputRows *input)
{
	ListCell   *lc;
	double		n = 0;

	foreach(lc, columns)
	{
		RelOptInfo *table = find_table(facts, lfirst(lc), input);

		if (exprType(lfirst(lc)) == NUMERICOID)
			n += table != NULL ? 1 - hjg_planner_side(facts, table, NULL)->scan.kept_share : 1;
	}
	return n;
}

static int
count_strings(const List *columns)
{
	ListCell   *lc;
	int			n = 0;

	foreach(lc, columns)
		n += exprType(lfirst(lc)) != NUMERICOID && get_typlen(exprType(lfirst(lc))) == -1 ? 1 : 0;
	return n;
}

/* Measure how scattered the rows of a group are, by the key that is least so. */
static double
find_scattered(const HjgQueryFacts *facts, const List *keys, const InputRows *input)
{
	double		scattered = 1;
	ListCell   *lc;

	foreach(lc, keys)
	{
		const RelOptInfo *table = find_table(facts, lfirst(lc), input);

		if (table != NULL)
			scattered = Min(scattered, hjg_planner_column_scattering(facts->root, table, ((Var *) lfirst(lc))->varattno));
	}
	return scattered;
}

/* Estimate the part of the rows whose keys are all words of kept columns. More groups are of more values than columns have words. */
static double
find_remembered(HjgQueryFacts *facts, const List *keys, const InputRows *input, bool few_groups)
{
	double		remembered = few_groups && keys != NIL ? 1 : 0;
	ListCell   *lc;

	foreach(lc, keys)
	{
		const RelOptInfo *table = find_table(facts, lfirst(lc), input);

		if (remembered == 0 || table == NULL || count_strings(list_make1(lfirst(lc))) == 0)
			return 0;
		remembered = Min(remembered, hjg_planner_side(facts, table, NULL)->scan.kept_share);
	}
	return remembered;
}

/* Predict the time of core's expressions for these rows, which are priced as core prices them. */
static double
by_core_ns(const HjgUnitCosts *costs, double rows, const HjgAggregateWork *work)
{
	return work->by_core <= 0 ? 0 :
		rows * (costs->core_row_ns + work->by_core / Max(cpu_operator_cost, 1e-10) * costs->core_operator_ns);
}

/* Predict the time of the conditions of CASE for these rows. */
static double
tests_ns(const HjgUnitCosts *costs, double rows, const HjgAggregateWork *work)
{
	double		ns = 0;

	for (int i = 0; i < HJG_NTESTS; i++)
		ns += work->tests[i] * costs->test_ns[i];
	return rows * ns;
}

/* Reading a numeric in core's form, and multiplying it or adding it up, relative to testing it. */
#define NUMERIC_TESTS 2

/* Predict the node's time for these rows, without that of core's expressions. */
static double
grouping_ns(HjgQueryFacts *facts, const HjgUnitCosts *costs, const InputRows *input, GroupCounts groups, const List *keys, const HjgAggregateWork *work)
{
	const HjgGroupedRows grouped = {
		.rows = input->rows, .ngroups = groups.made, .nkeys = work->nkeys, .ncolumns = list_length(work->columns),
		.nvarlenas = count_strings(work->columns), .scattered = find_scattered(facts, keys, input),
		.remembered = find_remembered(facts, keys, input, hjg_model_groups_cached(groups.made, list_length(work->columns)))
	};

	return hjg_model_aggregate_ns(costs, input->rows, input->ncopied, work->nsteps) + tests_ns(costs, input->rows, work) +
		input->rows * count_numerics(facts, work->columns, input) * NUMERIC_TESTS * costs->test_ns[HJG_TEST_NUMERIC] +
		hjg_model_group_ns(costs, &grouped) +
		(groups.form == HJG_AGGREGATE_SHARED ? hjg_model_exchange_ns(costs, &grouped) : 0) +
		(groups.form == HJG_AGGREGATE_COMPLETE ? hjg_model_group_spill_ns(costs, &grouped, get_hash_memory_limit()) : 0) +
		hjg_model_finish_ns(groups.returned, groups.form == HJG_AGGREGATE_PARTIAL);
}

/* Find the unit costs; returns the time of a cost of 1.0 in a hash join of core's with as many build rows, or in its sort. */
static double
find_units(const HjgGrouping *grouping, GroupCounts groups, HjgUnitCosts *costs)
{
	return hjg_planner_unit_costs(costs, grouping->core_sorts ? 0 : groups.made);
}

/* Predict the node's additional time above a join, instead of emit_ns for returning its rows. */
static double
aggregation_ns(HjgQueryFacts *facts, const HjgUnitCosts *costs, const HjgPath *join, Relids probed, double emit_ns, GroupCounts groups,
			   const List *keys, const HjgAggregateWork *work)
{
	const InputRows input = {.rows = join->custom.path.rows, .ncopied = list_length(work->columns), .in_order = probed};
	const double ns = grouping_ns(facts, costs, &input, groups, keys, work);

	/* without keys it is never dearer than returning rows, which core's Agg needs */
	if (join->columnar)
		return work->nkeys > 0 ? ns : Min(ns, emit_ns);
	return ns + emit_ns;
}

double
hjg_planner_aggregation_saves_ns(const HjgCandidate *candidate, const HjgPath *path, double emit_ns)
{
	/* a large table of groups costs core more, too */
	const GroupCounts one = {.form = HJG_AGGREGATE_COMPLETE,.made = 1,.returned = 1};

	return emit_ns - aggregation_ns(candidate->facts, candidate->costs, path, candidate->outerrel->relids, emit_ns, one, NIL, &candidate->aggregates->work);
}

/*
 * Predict the time that EXPLAIN shows, of processes that crowd one another; filter: of a join above, tested by the scan, or NULL. It drops rows before they
 * are grouped.
 */
static int
predict_us(const AggregatePath *path, const HjgTravelingFilter *filter)
{
	const Path *own = &path->custom.path;
	const double nprocesses = hjg_planner_processes(own);
	HjgUnitCosts costs;
	double		filtering_ns = 0;
	double		ns;

	if (path->program.time.device.kind != HJG_KIND_ANY)
		return (int) Min(path->program.time.ns / 1000, PG_INT32_MAX);
	hjg_planner_unit_costs(&costs, path->scanned);
	if (filter != NULL && path->scan.own_ns > 0)
	{
		const HjgJoinShape join = {
			.build_rows = filter->build_rows, .nkeys = filter->nkeys, .probe_rows = path->scanned, .partnered = filter->partnered, .probe_scan = path->scan
		};

		filtering_ns = hjg_model_filtering_ns(&costs, &join);
	}
	ns = hjg_model_crowded_reading_ns(&costs, &path->scan, path->scan.own_ns + filtering_ns, nprocesses) +
		path->grouping_ns * (filter != NULL ? Min(filter->partnered + HJG_BLOOM_FALSE_SHARE, 1) : 1) * hjg_model_crowding(&costs, path->work, nprocesses);
	return (int) Min(ns * hjg_planner_process_share(own) / 1000, PG_INT32_MAX);
}

/* ---------- plans ---------- */

/* Does core's code compute the argument or key, and neither the node nor the plan below? */
static bool
is_by_core(Expr *expr, bool key, List *columns)
{
	HjgAggregateWork work = {0};

	return (IsA(expr, Const) || tlist_member(expr, columns) == NULL) && hjg_planner_is_by_core(NULL, (Node *) expr, key, &work);
}

static List *
find_keys_by_core(const List *keys, List *columns)
{
	List	   *by_core = NIL;
	ListCell   *lc;

	foreach(lc, keys)
		by_core = lappend_int(by_core, is_by_core(lfirst(lc), true, columns));
	return by_core;
}

/* Arguments of aggregates, each once, and which of them core computes. */
typedef struct PlanArguments
{
	List	   *columns;		/* of the plan below */
	List	   *exprs;
	List	   *by_core;
} PlanArguments;

/* Find the number of an argument, or add it; -1: there is none. */
static int
place_argument(PlanArguments *arguments, Expr *argument)
{
	int			number = 0;

	if (argument == NULL)
		return -1;
	while (number < list_length(arguments->exprs) && !equal(list_nth(arguments->exprs, number), argument))
		number++;
	if (number == list_length(arguments->exprs))
	{
		arguments->exprs = lappend(arguments->exprs, copyObject(argument));
		arguments->by_core = lappend_int(arguments->by_core, is_by_core(argument, false, arguments->columns));
	}
	return number;
}

/*
 * Append the aggregates to the columns of the scan tuple, and their functions and arguments' numbers to the private lists;
 * returns the arguments, each once.
 */
static List *
append_aggregates(CustomScan *cscan, const AggregatePath *path)
{
	PlanArguments arguments = {.columns = cscan->custom_scan_tlist};
	List	   *columns = cscan->custom_scan_tlist;
	List	   *numbers = NIL;
	List	   *squares = NIL;
	ListCell   *lc;
	ListCell   *function;

	forboth(lc, path->arguments, function, path->functions)
	{
		Expr	   *argument = lfirst(lc);

		numbers = lappend_int(numbers, place_argument(&arguments, argument));
		squares = lappend_int(squares, place_argument(&arguments, argument != NULL ? hjg_aggregate_square(lfirst_oid(function), argument) : NULL));
	}
	foreach(lc, path->aggregates)
		columns = lappend(columns, makeTargetEntry(copyObject(lfirst(lc)), list_length(columns) + 1, NULL, false));
	cscan->custom_scan_tlist = columns;
	cscan->custom_private = list_concat(cscan->custom_private, list_make4(list_copy(path->functions), numbers, squares, arguments.by_core));
	return arguments.exprs;
}

static Plan *
make_aggregate_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);
	const AggregatePath *path = (const AggregatePath *) best_path;
	const HjgFirstGroups *first = &path->program.first;
	List	   *arguments;
	List	   *scalars;

	cscan->scan.plan.targetlist = tlist;
	cscan->scan.plan.qual = path->having;
	cscan->flags = best_path->flags;
	cscan->custom_plans = custom_plans;
	cscan->custom_scan_tlist = hjg_planner_append_columns(NIL, linitial(custom_plans));
	scalars = list_make5_int(path->partial, predict_us(path, NULL),
							 (int) Min(path->ngroups, PG_INT32_MAX), (int) path->program.time.device.kind, path->program.time.device.number);
	scalars = lappend_int(lappend_int(scalars, (int) Min(path->program.ngroups, PG_INT32_MAX)), (int) path->program.number);
	/* begins with a node, as that of a GpuHashJoin */
	cscan->custom_private = list_make3(scalars, path->operators, find_keys_by_core(path->keys, cscan->custom_scan_tlist));
	arguments = append_aggregates(cscan, path);
	cscan->custom_exprs = list_make3(copyObject(path->keys), arguments, first->n > 0 ? list_make1(copyObject(first->order)) : NIL);
	cscan->custom_private = lappend(cscan->custom_private, list_make3_int(first->n, first->descending, first->nulls_first));
	cscan->methods = &hjg_aggregate_methods;
	return &cscan->scan.plan;
}

const CustomPathMethods hjg_planner_grouping_methods = {
	.CustomName = HJG_AGGREGATE_NAME,
	.PlanCustomPath = make_aggregate_plan,
};

/* ---------- paths ---------- */

void
hjg_planner_set_program(Path *path, const HjgPlannedProgram *program)
{
	AggregatePath *own = (AggregatePath *) path;

	own->program = *program;
	own->custom.custom_paths = lappend(own->custom.custom_paths, program->other);
	/* rows of the other plan are returned as they are */
	own->custom.flags = 0;
	path->parallel_safe = path->parallel_safe && program->other->parallel_safe;
	if (program->first.n > 0)
		path->rows = Min(path->rows, program->returned);
	/* no filter of a join above can travel below it */
	own->join_price = 0;
	/* it costs as many times less than the other plan as it takes less time */
	path->startup_cost = path->total_cost = hjg_force ? 0 : program->other->total_cost * program->time.priced_ns / Max(program->other_ns, 1);
}

/* Make a path over the input; ns: the additional time. */
static Path *
make_path(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, GroupCounts groups, Path *input, double ns, double unit_ns)
{
	const bool	partial = groups.form == HJG_AGGREGATE_PARTIAL;
	PathTarget *target = partial ? grouping->partial : grouping->target;
	QualCost	having_cost;
	HjgUnitCosts costs;
	AggregatePath *own = palloc0(sizeof(AggregatePath));
	Path	   *path = &own->custom.path;
	const double start_ns = Min(ns, HJG_MODEL_GROUPING_START_NS);

	path->type = T_CustomPath;
	path->pathtype = T_CustomScan;
	path->parent = grouped_rel;
	path->pathtarget = target;
	path->parallel_aware = groups.form == HJG_AGGREGATE_SHARED;
	path->parallel_safe = grouped_rel->consider_parallel && input->parallel_safe;
	path->parallel_workers = input->parallel_workers;
	HJG_SET_DISABLED_NODES(path, HJG_DISABLED_NODES(input));
	path->rows = groups.returned;
	hjg_planner_unit_costs(&costs, input->rows);
	path->total_cost = input->total_cost + start_ns / unit_ns + (ns - start_ns) / hjg_planner_grouping_unit_ns(root, grouping, &costs, unit_ns) + grouping->work.by_core * input->rows +
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
	own->scanned = input->rows;
	own->grouping_ns = ns + by_core_ns(&costs, input->rows, &grouping->work);
	own->work = hjg_model_groups_cached(groups.made, list_length(grouping->work.columns)) ? HJG_WORK_CACHED : HJG_WORK_TABLES;
	own->join_price = ns / unit_ns;
	return path;
}

static Path *
aggregate_join(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, HjgAggregateForm form, const HjgPath *join)
{
	HjgPath    *copy = palloc(sizeof(HjgPath));
	Path	   *path = &copy->custom.path;
	double		emit_ns = join->emit_ns;
	const GroupCounts groups = count_groups(root, join->custom.path.parent->rows, grouping, form, join->custom.path.rows);
	AggregatePath *own;
	HjgUnitCosts costs;

	*copy = *join;
	path->pathtarget = grouping->input;
	path->total_cost -= emit_ns * join->ns_cost * (path->total_cost / join->even_cost);
	path->startup_cost = Min(path->startup_cost, path->total_cost);
	hjg_planner_unit_costs(&costs, path->rows);
	own = (AggregatePath *) make_path(root, grouped_rel, grouping, groups, path,
									  aggregation_ns(hjg_planner_facts(root), &costs, join, ((Path *) linitial(join->custom.custom_paths))->parent->relids, emit_ns,
													 groups, grouping->keys, &grouping->work), join->unit_ns);
	/* EXPLAIN shows the copying of columns with the join */
	if (join->columnar)
		emit_ns = Min(emit_ns, hjg_model_aggregate_ns(&costs, path->rows, list_length(grouping->work.columns), 0));
	emit_ns = Min(emit_ns, own->grouping_ns);
	own->grouping_ns -= emit_ns;
	copy->prediction_us[HJG_PREDICTION_EMIT] = (int) Min(hjg_planner_table_work_ns(path, &costs, emit_ns) / 1000, PG_INT32_MAX);
	return &own->custom.path;
}

/*
 * Compute the part of a scan's price that the node does not spend. Rows keep their price below groups, whose own price is
 * that of core's look-ups in a table of that size: a time that may be several times that of a scan of the same price, so that
 * several processes would seem to gain nothing.
 */
static Cost
scan_credit(const HjgGrouping *grouping, const Path *scan, const HjgScanTimes *times, const HjgUnitCosts *costs, double unit_ns)
{
	if (grouping->keys == NIL)
		return hjg_planner_scan_credit(scan->parent, times, scan->rows);
	return times->kept_share * hjg_planner_pages_price(scan->parent) + Min(costs->scan_tuple_ns / unit_ns, cpu_tuple_cost) * scan->rows;
}

static Path *
aggregate_scan(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, HjgAggregateForm form, const Path *scan)
{
	Path	   *copy = makeNode(Path);
	AggregatePath *own;
	const GroupCounts groups = count_groups(root, scan->parent->rows, grouping, form, scan->rows);
	HjgUnitCosts costs;
	const double unit_ns = find_units(grouping, groups, &costs);
	const InputRows input = {.rows = scan->rows, .in_order = scan->parent->relids};
	const HjgScanTimes times = hjg_planner_scan_times(&costs, hjg_planner_side(hjg_planner_facts(root), scan->parent, NULL), scan, scan->rows, false);

	*copy = *scan;
	copy->pathtarget = grouping->input;
	copy->total_cost = Max(copy->total_cost - scan_credit(grouping, scan, &times, &costs, unit_ns), copy->startup_cost);
	own = (AggregatePath *) make_path(root, grouped_rel, grouping, groups, copy,
									  grouping_ns(hjg_planner_facts(root), &costs, &input, groups, grouping->keys, &grouping->work), unit_ns);
	own->scan = times;
	return &own->custom.path;
}

Path *
hjg_planner_aggregate_rows(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, HjgAggregateForm form, Path *rows, double all_rows)
{
	const GroupCounts groups = count_groups(root, all_rows, grouping, form, rows->rows);
	HjgUnitCosts costs;
	const double unit_ns = find_units(grouping, groups, &costs);
	const InputRows input = {.rows = rows->rows, .in_order = NULL};
	double		row_ns = costs.marshal_tuple_ns;
	ListCell   *lc;

	foreach(lc, grouping->input->exprs)
		row_ns += get_typbyval(exprType(lfirst(lc))) ? 0 : costs.varlena_ns;
	if (is_projection_capable_path(rows))
		rows = (Path *) create_projection_path(root, rows->parent, rows, grouping->input);
	return make_path(root, grouped_rel, grouping, groups, rows, row_ns * rows->rows +
					 grouping_ns(hjg_planner_facts(root), &costs, &input, groups, grouping->keys, &grouping->work), unit_ns);
}

Path *
hjg_planner_aggregate(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, HjgAggregateForm form, HjgAggregateInput input)
{
	if (input.rows != NULL)
		return hjg_planner_aggregate_rows(root, grouped_rel, grouping, form, input.rows, input.rows->parent->rows);
	return input.join != NULL ? aggregate_join(root, grouped_rel, grouping, form, input.join) :
		aggregate_scan(root, grouped_rel, grouping, form, input.scan);
}

Path *
hjg_planner_aggregate_distinct(PlannerInfo *root, RelOptInfo *grouped_rel, const HjgGrouping *grouping, const HjgGrouping *above, HjgAggregateForm form,
				   Path *rows)
{
	const Path *input = linitial(((CustomPath *) rows)->custom_paths);
	Path	   *path = hjg_planner_aggregate_rows(root, grouped_rel, above, form, rows, grouping->ngroups);
	HjgUnitCosts costs;

	path->total_cost = Max(path->total_cost - grouping->distinct->unpriced_ns / find_units(grouping, (GroupCounts) {0}, &costs),
						   input->total_cost);
	path->startup_cost = path->total_cost;
	return path;
}

int
hjg_planner_grouping_us(const Path *path, const HjgTravelingFilter *filter)
{
	return predict_us((const AggregatePath *) path, filter);
}

bool
hjg_planner_groups_alone(const Path *path)
{
	const AggregatePath *own = (const AggregatePath *) path;

	return own->scan.own_ns > 0 || own->program.time.device.kind != HJG_KIND_ANY;
}

Cost
hjg_planner_grouping_join_price(const Path *path)
{
	return ((const AggregatePath *) path)->join_price;
}
