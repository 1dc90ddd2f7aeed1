/*
 * planner_program_group.c
 *	  Plans the program that makes the groups of a query.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/typcache.h"

#include "base/hjg_base.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_aggregate.h"
#include "scan/hjg_scan.h"

/* Most different strings of a key: their numbers are looked up in each segment. */
#define MOST_STRINGS 1000

/* Most groups: one process takes them all, where several would divide them, and a filter of a join above may leave few. */
#define MOST_GROUPS 100000

/* Bytes of a group in the node's table, about: its key and counts, and for each argument its totals. */
#define GROUP_BYTES 80
#define ARGUMENT_BYTES 56

/* Can the column be a key of a program's groups? Strings must be few: they get numbers. */
static bool
is_column_fit(PlannerInfo *root, Var *column)
{
	TypeCacheEntry *type = lookup_type_cache(getBaseType(column->vartype), TYPECACHE_EQ_OPR);
	const Oid	function = OidIsValid(type->eq_opr) ? get_opcode(type->eq_opr) : InvalidOid;
	const HjgSimpleOperator *simple = hjg_vector_simple_operator(function);
	HjgComparison comparison;

	if (column->varattno <= 0)
		return false;
	if (simple != NULL)
		return simple->ordinal == HJG_ORDINAL_INT;
	return hjg_vector_numeric_operator(function, &comparison) ||
		(hjg_vector_bytes_operator(function) != NULL && estimate_num_groups(root, list_make1(column), 1e9, NULL, NULL) <= MOST_STRINGS);
}

/* Find the columns that a program groups by: those that keys and results are computed from. Returns false if they are not fit. */
static bool
find_program_columns(PlannerInfo *root, const HjgGrouping *grouping, List **columns)
{
	List	   *exprs = list_concat_copy(grouping->keys, grouping->target->exprs);
	ListCell   *lc;

	*columns = NIL;
	if (contain_volatile_functions((Node *) grouping->keys))
		return false;
	foreach(lc, pull_var_clause((Node *) exprs, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_PLACEHOLDERS))
	{
		Node	   *node = lfirst(lc);

		if (IsA(node, Aggref))
			continue;
		if (!IsA(node, Var) || (!list_member(*columns, node) && !is_column_fit(root, (Var *) node)))
			return false;
		*columns = list_append_unique(*columns, node);
	}
	return list_length(*columns) <= HJG_PROGRAM_MAX_KEYS;
}

/* Is there anything in arguments but columns, operands, arithmetic, CASE and COALESCE? The conditions of CASE are known to be simple. */
static bool
has_other_terms(Node *node, void *unused)
{
	ListCell   *lc;

	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && hjg_arithmetic(((FuncExpr *) node)->funcid) == NULL)
		return true;
	if (!IsA(node, CaseExpr))
		return expression_tree_walker(node, has_other_terms, unused);
	foreach(lc, ((CaseExpr *) node)->args)
		if (has_other_terms((Node *) lfirst_node(CaseWhen, lc)->result, unused))
			return true;
	return has_other_terms((Node *) ((CaseExpr *) node)->defresult, unused);
}

/* Find why a GPU cannot make the groups of rows, or NULL; sets their number, as a program makes them. */
static const char *
check_grouping(PlannerInfo *root, const HjgGrouping *grouping, double rows, double *ngroups)
{
	List	   *columns;

	if (grouping->work.by_core > 0 || has_other_terms((Node *) grouping->arguments, NULL))
		return "core's code, or a function of dates, computes a key or an argument";
	if (grouping->distinct != NULL)
		return "an aggregate is DISTINCT";
	if (!find_program_columns(root, grouping, &columns))
		return "a key is made of a column that is no integer, numeric or one of few strings";
	*ngroups = columns == NIL ? 1 : estimate_num_groups(root, columns, rows, NULL, NULL);
	if (*ngroups > MOST_GROUPS)
		return "groups are too many";
	return *ngroups * (GROUP_BYTES + list_length(grouping->arguments) * ARGUMENT_BYTES) > hjg_planner_facts(root)->hash_memory ? "groups need more than work_mem" : NULL;
}

/* Compute the number of a program: equal for equal tables, keys and arguments, wherever they are in the query's text. */
static uint32
number_program(const PlannerInfo *root, const HjgGrouping *grouping)
{
	static const char location[] = ":location ";
	const char *part = nodeToString(list_make2(grouping->keys, grouping->arguments));
	uint32		number = 0;
	ListCell   *lc;

	while (part != NULL)
	{
		const char *next = strstr(part, location);

		number = hash_combine(number, hash_bytes((const unsigned char *) part, next != NULL ? next - part : (int) strlen(part)));
		part = next == NULL ? NULL : next + sizeof(location) - 1 + strspn(next + sizeof(location) - 1, "-0123456789");
	}
	foreach(lc, root->parse->rtable)
		number = hash_combine(number, lfirst_node(RangeTblEntry, lc)->relid);
	return number;
}

bool
hjg_planner_program(PlannerInfo *root, const HjgGrouping *grouping, RelOptInfo *input_rel, HjgPlannedProgram *program)
{
	HjgQueryFacts *facts = hjg_planner_facts(root);
	const HjgProgramRows *rows = hjg_planner_program_rows(root, input_rel);
	const char *why = facts->programs.why;
	HjgProgramShape shape;
	bool		divided;

	if (rows != NULL)
		why = check_grouping(root, grouping, input_rel->rows, &program->ngroups);
	if (rows != NULL && why == NULL)
	{
		program->number = number_program(root, grouping);
		if (!hjg_force && hjg_scan_program_refused(program->number))
			why = "it could not be run within the last ten minutes";
	}
	hjg_planner_note_program(root, input_rel, why);
	if (rows == NULL || why != NULL)
		return false;
	shape = rows->shape;
	shape.grouped = input_rel->rows;
	shape.ngroups = program->ngroups;
	shape.nsteps = grouping->work.nsteps;
	program->path = rows->path;
	program->ns = hjg_planner_program_ns(facts, &shape, &divided);
	program->device = (HjgDeviceId) {.kind = HJG_KIND_CUDA, .number = divided ? HJG_NO_NUMBER : hjg_planner_gpu(facts)->number};
	return true;
}
