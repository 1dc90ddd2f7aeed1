/*
 * planner_program.c
 *	  Decides whether the plan below a GpuAggregate can be a program of the device process (layout/hjg_program.h), and predicts its time.
 *
 * All tables must be kept, as far as a sample tells, in codes: node_program.c looks at each segment, and reads the child where that was
 * wrong. The rules here are those of node_program_rows.c, which decides again.
 */
#include "postgres.h"

#include "access/table.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"

#include "base/hjg_base.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_aggregate.h"
#include "scan/hjg_scan.h"

/* Least part of a table that must be kept. */
#define LEAST_KEPT 0.9

/* Most different strings of a key: their numbers are looked up in each segment. */
#define MOST_STRINGS 1000

/* Most groups: one process takes them all, where several would divide them, and a filter of a join above may leave few. */
#define MOST_GROUPS 100000

/* A program before it is written. */
typedef struct Forecast
{
	PlannerInfo *root;
	HjgProgramShape shape;
} Forecast;

/* Can the conditions of a table be steps? */
static bool
are_conditions_simple(PlannerInfo *root, const RelOptInfo *rel, Relation relation)
{
	HjgSimpleConditions simple;
	List	   *quals = NIL;
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		const RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo->pseudoconstant)
			return false;
		quals = lappend(quals, rinfo->clause);
	}
	hjg_scan_find_simple(quals, rel->relid, RelationGetDescr(relation), &simple);
	return simple.n == list_length(quals);
}

/* Find the attributes of a table that the query's rows and its conditions read; false if there is anything else. */
static bool
find_read(const RelOptInfo *rel, Bitmapset **read)
{
	ListCell   *lc;

	foreach(lc, rel->reltarget->exprs)
	{
		const Var  *var = lfirst(lc);

		if (!IsA(var, Var) || var->varattno <= 0)
			return false;
		*read = bms_add_member(*read, var->varattno);
	}
	foreach(lc, rel->baserestrictinfo)
		if (!hjg_scan_find_attributes(list_make1(lfirst_node(RestrictInfo, lc)->clause), rel->relid, read))
			return false;
	return true;
}

static bool
is_scan_fit(Forecast *forecast, const Path *path)
{
	const RelOptInfo *rel = path->parent;
	const RangeTblEntry *rte = planner_rt_fetch(rel->relid, forecast->root);
	Bitmapset  *read = NULL;
	Relation	relation;
	bool		fit;

	if (path->param_info != NULL || rte->rtekind != RTE_RELATION || rte->inh || !find_read(rel, &read) || bms_is_empty(read))
		return false;
	/* the planner holds a lock already */
	relation = table_open(rte->relid, NoLock);
	fit = hjg_scan_heap_readable(relation) && are_conditions_simple(forecast->root, rel, relation) &&
		hjg_scan_kept_share(relation, rel->pages, read, true) >= LEAST_KEPT;
	table_close(relation, NoLock);
	forecast->shape.ntables++;
	forecast->shape.pages += rel->pages;
	forecast->shape.rows += rel->tuples;
	forecast->shape.values += rel->tuples * bms_num_members(read);
	forecast->shape.column_pages += rel->pages * (double) bms_num_members(read);
	return fit;
}

/* Are the keys of a join integer columns? */
static bool
are_keys_fit(const HjgPath *join)
{
	ListCell   *lc;

	if (list_length(join->hashclauses) > HJG_PROGRAM_MAX_KEYS)
		return false;
	foreach(lc, join->hashclauses)
	{
		const OpExpr *clause = castNode(OpExpr, lfirst_node(RestrictInfo, lc)->clause);
		const HjgSimpleOperator *op = hjg_vector_simple_operator(get_opcode(clause->opno));

		if (op == NULL || op->ordinal != HJG_ORDINAL_INT || !IsA(hjg_scan_strip_relabel(linitial(clause->args)), Var) ||
			!IsA(hjg_scan_strip_relabel(lsecond(clause->args)), Var))
			return false;
	}
	return true;
}

static const Path *
below_projection(const Path *path)
{
	return IsA(path, ProjectionPath) ? ((const ProjectionPath *) path)->subpath : path;
}

/*
 * Has a row at most one partner on the build side? Core knows that of tables, not of joins. A join of a program has no more rows than the
 * table that drives it, so a unique index of that table on the key is enough.
 */
static bool
has_one_partner(PlannerInfo *root, const HjgPath *join)
{
	const Path *driver = below_projection(lsecond(join->custom.custom_paths));
	List	   *exprs = NIL;
	List	   *operators = NIL;
	ListCell   *lc;

	if (join->inner_unique)
		return true;
	while (hjg_planner_is_ours(driver))
		driver = below_projection(linitial(((const CustomPath *) driver)->custom_paths));
	foreach(lc, join->hashclauses)
	{
		const RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		const OpExpr *clause = castNode(OpExpr, rinfo->clause);
		Expr	   *key = hjg_scan_strip_relabel(rinfo->outer_is_left ? lsecond(clause->args) : linitial(clause->args));

		if (((Var *) key)->varno != driver->parent->relid)
			return false;
		exprs = lappend(exprs, key);
		operators = lappend_oid(operators, clause->opno);
	}
	return relation_has_unique_index_for(root, driver->parent, NIL, exprs, operators);
}

static bool
is_input_fit(Forecast *forecast, const Path *path)
{
	const HjgPath *join;

	check_stack_depth();
	path = below_projection(path);
	if (path->pathtype == T_SeqScan)
		return is_scan_fit(forecast, path);
	join = (const HjgPath *) path;
	if (!hjg_planner_is_ours(path) || path->param_info != NULL || path->parallel_workers > 0 || !are_keys_fit(join) ||
		list_length(join->restrictlist) != list_length(join->hashclauses))
		return false;
	if (join->jointype == JOIN_INNER || join->jointype == JOIN_LEFT ? !has_one_partner(forecast->root, join) :
		join->jointype != JOIN_SEMI && join->jointype != JOIN_ANTI)
		return false;
	forecast->shape.probes += path->rows;
	return is_input_fit(forecast, linitial(join->custom.custom_paths)) && is_input_fit(forecast, lsecond(join->custom.custom_paths));
}

/* Is the key a column of integers, numerics, or few different strings? */
static bool
is_key_fit(PlannerInfo *root, Node *key, Oid operator)
{
	const Oid	function = get_opcode(operator);
	const HjgSimpleOperator *simple = hjg_vector_simple_operator(function);
	HjgComparison comparison;

	key = (Node *) hjg_scan_strip_relabel(key);
	if (!IsA(key, Var))
		return false;
	if (simple != NULL)
		return simple->ordinal == HJG_ORDINAL_INT;
	return hjg_vector_numeric_operator(function, &comparison) ||
		(hjg_vector_bytes_operator(function) != NULL && estimate_num_groups(root, list_make1(key), 1e9, NULL, NULL) <= MOST_STRINGS);
}

/* Is there anything but columns, operands and arithmetic? */
static bool
has_other_terms(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	if (IsA(node, CaseExpr) || IsA(node, CoalesceExpr) || (IsA(node, FuncExpr) && hjg_arithmetic(((FuncExpr *) node)->funcid) == NULL))
		return true;
	return expression_tree_walker(node, has_other_terms, unused);
}

double
hjg_planner_program_ns(PlannerInfo *root, const HjgGrouping *grouping, const Path *input, HjgDeviceId *device)
{
	Forecast	forecast = {.root = root};
	HjgQueryFacts *facts;
	const HjgPlannerGpu *gpu;
	ListCell   *lc;

	if (!hjg_kept_columns || grouping->work.by_core > 0 || grouping->distinct != NULL || grouping->ngroups > MOST_GROUPS ||
		list_length(grouping->keys) > HJG_PROGRAM_MAX_KEYS || has_other_terms((Node *) grouping->arguments, NULL))
		return -1;
	facts = hjg_planner_facts(root);
	gpu = hjg_planner_device_ready(facts) ? hjg_planner_gpu(facts) : NULL;
	if (gpu == NULL || facts->repeated)
		return -1;
	foreach(lc, grouping->keys)
		if (!is_key_fit(root, lfirst(lc), list_nth_oid(grouping->operators, foreach_current_index(lc))))
			return -1;
	if (!is_input_fit(&forecast, input))
		return -1;
	*device = (HjgDeviceId) {.kind = HJG_KIND_CUDA, .number = gpu->number};
	forecast.shape.ngroups = grouping->ngroups;
	forecast.shape.nsteps = grouping->work.nsteps;
	return hjg_model_program_ns(&forecast.shape);
}
