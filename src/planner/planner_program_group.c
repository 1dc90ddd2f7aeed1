/*
 * planner_program_group.c
 *	  Plans the program that makes the groups of a query.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "common/hashfn.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/typcache.h"

#include "base/hjg_base.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_aggregate.h"
#include "scan/hjg_scan.h"

/* Most different strings of a key: their numbers are looked up in each segment. */
#define MOST_STRINGS 1000

/* Values of a column that is not known to have fewer. */
#define MANY_VALUES 1e18

/* Most groups: one process takes them all, where several would divide them, and a filter of a join above may leave few. */
#define MOST_GROUPS 100000

/* Bytes of a group in the node's table, about: its key and counts, and for each argument its totals. */
#define GROUP_BYTES 80
#define ARGUMENT_BYTES 56

/* The columns that a program groups by. */
typedef struct ProgramColumns
{
	List	   *numbered;		/* integers, numerics, and strings that are few: they get numbers */
	Relids		tables;			/* of other strings, each of which is told by the number of a row that has it */
	List	   *roundings;		/* of numbered ones that are rounded down */
} ProgramColumns;

/* Add a column; false if it cannot be a key. */
static bool
add_program_column(PlannerInfo *root, Var *column, ProgramColumns *columns)
{
	const TypeCacheEntry *type = lookup_type_cache(getBaseType(column->vartype), TYPECACHE_EQ_OPR);
	const Oid	function = OidIsValid(type->eq_opr) ? get_opcode(type->eq_opr) : InvalidOid;
	const HjgSimpleOperator *simple = hjg_vector_simple_operator(function);
	HjgComparison comparison;
	bool		numbered;

	if (column->varattno <= 0)
		return false;
	if (simple != NULL)
		numbered = simple->ordinal == HJG_ORDINAL_INT;
	else
		numbered = hjg_vector_numeric_operator(function, &comparison) ||
			(hjg_vector_bytes_operator(function) != NULL && estimate_num_groups(root, list_make1(column), 1e9, NULL, NULL) <= MOST_STRINGS);
	if (numbered)
		columns->numbered = list_append_unique(columns->numbered, column);
	else if (type->typlen == -1)
		columns->tables = bms_add_member(columns->tables, column->varno);
	else
		return false;
	return true;
}

/* Find the columns that a program groups by: those that keys and results are computed from. Returns false if they are not fit. */
static bool
find_program_columns(PlannerInfo *root, const HjgGrouping *grouping, ProgramColumns *columns)
{
	List	   *exprs = list_concat_copy(grouping->keys, grouping->target->exprs);
	ListCell   *lc;

	*columns = (ProgramColumns) {.roundings = hjg_planner_find_roundings(exprs)};
	if (contain_volatile_functions((Node *) grouping->keys))
		return false;
	foreach(lc, pull_var_clause((Node *) exprs, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_PLACEHOLDERS))
	{
		Node	   *node = lfirst(lc);

		if (IsA(node, Aggref))
			continue;
		if (!IsA(node, Var) || !add_program_column(root, (Var *) node, columns))
			return false;
	}
	return list_length(columns->numbered) + bms_num_members(columns->tables) <= HJG_PROGRAM_MAX_KEYS;
}

/* Is the key a function of local time that has the same value for many timestamps, of which there are few? */
static bool
is_class_key(PlannerInfo *root, Node *key, const ProgramColumns *columns)
{
	ListCell   *lc;

	if (!hjg_planner_is_time_key(key))
		return false;
	foreach(lc, columns->roundings)
		if (list_member(pull_var_clause(key, 0), ((const HjgRounding *) lfirst(lc))->column))
			return hjg_planner_rounded_values(root, lfirst(lc), MANY_VALUES) <= HJG_MOST_CLASSES;
	return false;
}

/* Are all keys columns that get numbers, or such functions? Then groups of the program are groups of the query. */
static bool
are_keys_numbered(PlannerInfo *root, const HjgGrouping *grouping, const ProgramColumns *columns)
{
	ListCell   *lc;

	foreach(lc, grouping->keys)
		if (!list_member(columns->numbered, hjg_scan_strip_relabel(lfirst(lc))) && !is_class_key(root, lfirst(lc), columns))
			return false;
	return true;
}

/* Estimate the groups of the program: each row of a table whose row's number is a key may be one, unless keys determine it. */
static double
estimate_program_groups(PlannerInfo *root, const HjgGrouping *grouping, const ProgramColumns *columns, double rows)
{
	const bool	numbered = are_keys_numbered(root, grouping, columns);
	List	   *others = list_copy(columns->numbered);
	List	   *class_keys = NIL;
	double		ngroups = 1;
	ListCell   *lc;

	foreach(lc, grouping->keys)
		if (is_class_key(root, lfirst(lc), columns))
			class_keys = lappend(class_keys, lfirst(lc));
	foreach(lc, columns->roundings)
	{
		const HjgRounding *rounding = lfirst(lc);

		others = list_delete(others, rounding->column);
		if (!list_member(pull_var_clause((Node *) class_keys, 0), rounding->column))
			ngroups *= hjg_planner_rounded_values(root, rounding, estimate_num_groups(root, list_make1(rounding->column), rows, NULL, NULL));
	}
	others = list_concat(class_keys, others);
	ngroups *= others == NIL ? 1 : hjg_planner_estimate_groups(root, others, rows);
	for (int rti = -1; !numbered && (rti = bms_next_member(columns->tables, rti)) >= 0;)
		ngroups *= find_base_rel(root, rti)->rows;
	return Min(ngroups, Max(rows, 1));
}

/* ---------- the first groups ---------- */

/* Get the number of a constant LIMIT or OFFSET; -1: it is none. */
static int64
constant_count(const Node *count)
{
	return count == NULL ? 0 : IsA(count, Const) && !((const Const *) count)->constisnull ? DatumGetInt64(((const Const *) count)->constvalue) : -1;
}

/* Do values of an expression ascend as the integers that programs have of them? Those of sums of floats do. */
static bool
is_ordered(const Expr *expr)
{
	const Oid	type = exprType((const Node *) expr);

	return type == INT2OID || type == INT4OID || type == INT8OID || type == NUMERICOID || type == DATEOID || type == TIMEOID ||
		type == TIMESTAMPOID || type == TIMESTAMPTZOID || (IsA(expr, Aggref) && ((const Aggref *) expr)->aggfnoid == F_SUM_FLOAT8);
}

/* Find which groups the query wants: the first ones by a column or an aggregate, of which all that are equal to the last one count. */
static HjgFirstGroups
find_first_groups(const PlannerInfo *root, const HjgGrouping *grouping, const ProgramColumns *columns)
{
	const Query *parse = root->parse;
	const int64 limit = constant_count(parse->limitCount);
	const int64 offset = constant_count(parse->limitOffset);
	HjgFirstGroups first = {0};
	const SortGroupClause *clause;
	const TypeCacheEntry *type;
	Expr	   *expr;

	if (parse->sortClause == NIL || parse->limitCount == NULL || limit < 0 || offset < 0 || limit + offset <= 0 || limit + offset > MOST_GROUPS ||
		parse->hasWindowFuncs || parse->hasTargetSRFs || parse->distinctClause != NIL || parse->setOperations != NULL || parse->rowMarks != NIL)
		return first;
	clause = linitial(parse->sortClause);
	expr = hjg_scan_strip_relabel(get_sortgroupclause_expr((SortGroupClause *) clause, root->processed_tlist));
	type = lookup_type_cache(exprType((Node *) expr), TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);
	if (!is_ordered(expr) || (clause->sortop != type->lt_opr && clause->sortop != type->gt_opr) ||
		!(IsA(expr, Aggref) ? list_member(grouping->aggregates, expr) : list_member(columns->numbered, expr)))
		return first;
	return (HjgFirstGroups) {
		.n = (int) (limit + offset), .order = expr, .descending = clause->sortop == type->gt_opr, .nulls_first = clause->nulls_first
	};
}

/* ---------- arguments ---------- */

/* Is there anything in arguments but columns, operands, arithmetic without floats, CASE and COALESCE? The conditions of CASE are known to be simple. */
static bool
has_other_terms(Node *node, void *unused)
{
	ListCell   *lc;

	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) || IsA(node, OpExpr))
	{
		const HjgArithmetic *arithmetic = hjg_arithmetic(IsA(node, OpExpr) ? get_opcode(((OpExpr *) node)->opno) : ((FuncExpr *) node)->funcid);

		if (arithmetic == NULL || arithmetic->width == HJG_FLOAT_WIDTH)
			return true;
	}
	if (!IsA(node, CaseExpr))
		return expression_tree_walker(node, has_other_terms, unused);
	foreach(lc, ((CaseExpr *) node)->args)
		if (has_other_terms((Node *) lfirst_node(CaseWhen, lc)->result, unused))
			return true;
	return has_other_terms((Node *) ((CaseExpr *) node)->defresult, unused);
}

/* Are all aggregates numbers that a program can go on with? */
static bool
are_aggregates_numbers(const HjgGrouping *grouping)
{
	ListCell   *lc;

	foreach(lc, grouping->functions)
	{
		HjgAggregateKind kind;

		if (!hjg_aggregate_kind(lfirst_oid(lc), &kind) || kind == HJG_AGGREGATE_AVERAGE || kind >= HJG_AGGREGATE_SUM_OF_COUNTS)
			return false;
	}
	return true;
}

/*
 * Find why a program cannot compute the aggregates of floats, or NULL. The order of its rows is not core's, so that equal values, 0 and -0, are
 * found in another one, too; it adds up doubles.
 */
static const char *
refuse_floats(const HjgGrouping *grouping)
{
	ListCell   *lc;

	foreach(lc, grouping->functions)
	{
		const Oid	function = lfirst_oid(lc);
		HjgAggregateKind kind = HJG_AGGREGATE_COUNT;

		(void) hjg_aggregate_kind(function, &kind);
		if (kind < HJG_AGGREGATE_FLOAT_SUM)
			continue;
		if (!hjg_float_sums)
			return "an extreme of floats may depend on the order of the rows (hjoin_gpu.float_sums)";
		if (function == F_SUM_FLOAT4 || (kind == HJG_AGGREGATE_FLOAT_MOMENTS && function != F_AVG_FLOAT4 && function != F_AVG_FLOAT8))
			return "an aggregate is a variance, or a sum of float4";
	}
	return NULL;
}

/* Are all results of the query keys or aggregates? */
static bool
are_results_plain(const HjgGrouping *grouping)
{
	ListCell   *lc;

	foreach(lc, grouping->target->exprs)
		if (!IsA(lfirst(lc), Var) && !IsA(lfirst(lc), Aggref))
			return false;
	return true;
}

/* ---------- the whole ---------- */

/* Do arguments read strings of which there are many? Those have no numbers, and are not there when totals are made. */
static bool
read_strings(PlannerInfo *root, const HjgGrouping *grouping)
{
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) grouping->arguments, PVC_RECURSE_AGGREGATES | PVC_RECURSE_PLACEHOLDERS))
		if (get_typlen(exprType(lfirst(lc))) == -1 && getBaseType(exprType(lfirst(lc))) != NUMERICOID &&
			estimate_num_groups(root, list_make1(lfirst(lc)), 1e9, NULL, NULL) > MOST_STRINGS)
			return true;
	return false;
}

/* Is an aggregate of expressions that are NULL where the columns of these relations are? It ignores such rows. */
static bool
ignores_nulls_of(PlannerInfo *root, const Aggref *aggregate, Relids relations)
{
	const TargetEntry *argument = list_length(aggregate->args) == 1 ? linitial_node(TargetEntry, aggregate->args) : NULL;

	return argument != NULL && bms_overlap(pull_varnos(root, (Node *) argument->expr), relations) &&
		!contain_nonstrict_functions((Node *) argument->expr);
}

/*
 * Rows of the preserved side of an outer join, which come from a pipeline of their own, have NULL for columns of these relations, also where they
 * have partners. Do such rows make no difference but that their group is there?
 */
static bool
may_repeat_preserved(PlannerInfo *root, const HjgGrouping *grouping, Relids relations)
{
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) list_concat_copy(grouping->keys, grouping->target->exprs), PVC_INCLUDE_AGGREGATES | PVC_RECURSE_PLACEHOLDERS))
		if (IsA(lfirst(lc), Var) && bms_is_member(((const Var *) lfirst(lc))->varno, relations))
			return false;
	foreach(lc, grouping->aggregates)
		if (!ignores_nulls_of(root, lfirst_node(Aggref, lc), relations))
			return false;
	return grouping->distinct == NULL && grouping->keys != NIL;
}

/* Are equal values of the type the same? Others are shown as the row has them that comes first. */
static bool
are_equal_the_same(Oid type, Oid collation)
{
	static const Oid types[] = {BOOLOID, CHAROID, INT2OID, INT4OID, INT8OID, DATEOID, TIMEOID, TIMESTAMPOID, TIMESTAMPTZOID, UUIDOID};

	for (int i = 0; i < lengthof(types); i++)
		if (types[i] == type)
			return true;
	return (type == TEXTOID || type == VARCHAROID) && OidIsValid(collation) && get_collation_isdeterministic(collation);
}

/* May core compute the keys that it has to, of the groups that come back? Fields of times are whole numbers. */
static bool
are_keys_returnable(const HjgGrouping *grouping)
{
	ListCell   *lc;

	foreach(lc, grouping->keys)
	{
		HjgAggregateWork work = {0};
		Node	   *key = lfirst(lc);

		if (!IsA(hjg_scan_strip_relabel(key), Var) && hjg_planner_is_by_core(NULL, key, true, &work) &&
			!are_equal_the_same(exprType(key), exprCollation(key)) && !hjg_planner_is_time_field(key))
			return false;
	}
	return true;
}

/* Find why a program cannot compute what groups consist of, or NULL; sets the columns that they are made of. */
static const char *
check_terms(PlannerInfo *root, const HjgGrouping *grouping, Relids nullable, ProgramColumns *columns)
{
	if (grouping->work.arguments_by_core || has_other_terms((Node *) grouping->arguments, NULL))
		return "core's code, or a function of dates, computes an argument";
	if (!are_keys_returnable(grouping))
		return "core's code computes a key whose equal values may differ";
	if (nullable != NULL && !may_repeat_preserved(root, grouping, nullable))
		return "rows of an outer join that have no partner change more than counts, sums and extremes of the others";
	if (read_strings(root, grouping))
		return "an argument is a string that has no number";
	if (refuse_floats(grouping) != NULL)
		return refuse_floats(grouping);
	return find_program_columns(root, grouping, columns) ? NULL : "a key is made of a column that is no integer, numeric or string";
}

/* Find why so many groups cannot come back, or NULL. */
static const char *
refuse_groups(PlannerInfo *root, const HjgGrouping *grouping, double ngroups)
{
	if (ngroups > MOST_GROUPS)
		return "groups are too many";
	return ngroups * (GROUP_BYTES + hjg_planner_count_arguments(grouping) * ARGUMENT_BYTES) > hjg_planner_facts(root)->hash_memory ?
		"groups need more than work_mem" : NULL;
}

/*
 * Find why a program cannot make the groups of rows, or NULL; sets their number, as a program makes them, which of them are wanted, and how many
 * come back.
 */
static const char *
check_grouping(PlannerInfo *root, const HjgGrouping *grouping, Relids nullable, double rows, HjgPlannedProgram *program)
{
	ProgramColumns columns;
	const char *why = check_terms(root, grouping, nullable, &columns);

	if (why != NULL)
		return why;
	program->ngroups = program->returned = estimate_program_groups(root, grouping, &columns, rows);
	program->fetched = columns.tables;
	/* the device tests and orders groups, if they are those of the query */
	if (are_keys_numbered(root, grouping, &columns) && grouping->keys != NIL)
	{
		program->returned *= clauselist_selectivity(root, grouping->having, 0, JOIN_INNER, NULL);
		program->first = find_first_groups(root, grouping, &columns);
		if (program->first.n > 0)
			program->returned = Min(program->returned, program->first.n);
	}
	return refuse_groups(root, grouping, program->returned);
}

/* Combine a number with the tables of a query, those of its subqueries among them. */
static uint32
number_tables(uint32 number, const Query *query)
{
	ListCell   *lc;

	foreach(lc, query->rtable)
	{
		const RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		number = rte->rtekind == RTE_SUBQUERY && rte->subquery != NULL ? number_tables(number, rte->subquery) : hash_combine(number, rte->relid);
	}
	return number;
}

/*
 * Compute the number of a program: equal for equal tables, keys and arguments, wherever they are in the query's text, and memory for its tables;
 * that of threads, or 0: a GPU's own.
 */
static uint32
number_program(const PlannerInfo *root, const HjgGrouping *grouping, Size memory)
{
	static const char location[] = ":location ";
	const char *part = nodeToString(list_make2(grouping->keys, grouping->arguments));
	uint32		number = hash_bytes((const unsigned char *) &memory, sizeof(memory));

	while (part != NULL)
	{
		const char *next = strstr(part, location);

		number = hash_combine(number, hash_bytes((const unsigned char *) part, next != NULL ? next - part : (int) strlen(part)));
		part = next == NULL ? NULL : next + sizeof(location) - 1 + strspn(next + sizeof(location) - 1, "-0123456789");
	}
	return number_tables(number, root->parse);
}

/* Add groups that a pipeline makes and the next one reads. */
static void
add_groups_between(HjgProgramShape *shape, double rows, double ngroups)
{
	shape->collected += rows;
	shape->probes += ngroups;
	shape->entered += ngroups;
	/* segments of rows that are no groups' are not divided */
	shape->divided_values = shape->divided_probes = 0;
}

/* Add the rows that are fetched for groups: each takes a look at its page, as a page that has changed does. */
static void
add_fetched(PlannerInfo *root, const HjgPlannedProgram *program, HjgProgramShape *shape)
{
	for (int rti = -1; (rti = bms_next_member(program->fetched, rti)) >= 0;)
	{
		const RelOptInfo *rel = find_base_rel(root, rti);

		shape->live_pages += program->returned;
		/* of a table with partitions no pages are known */
		shape->live_rows += program->returned * (rel->pages > 0 ? rel->tuples / rel->pages : 1);
	}
}

/* Find why a program cannot make the distinct values below the groups of a query, or NULL; sets their number. */
static const char *
check_distinct(PlannerInfo *root, const HjgGrouping *grouping, Relids nullable, double rows, double *nvalues)
{
	ProgramColumns columns;
	const char *why = check_terms(root, grouping, nullable, &columns);

	if (why == NULL && (!are_keys_numbered(root, grouping, &columns) || !are_aggregates_numbers(grouping)))
		why = "an aggregate is DISTINCT, of something else than numbers and few strings";
	if (why == NULL)
		*nvalues = estimate_program_groups(root, grouping, &columns, rows);
	return why;
}

bool
hjg_planner_program(PlannerInfo *root, const HjgGrouping *grouping, RelOptInfo *input_rel, HjgPlannedProgram *program)
{
	HjgQueryFacts *facts = hjg_planner_facts(root);
	const HjgProgramRows *rows = hjg_planner_program_rows(root, input_rel);
	const HjgGrouping *last = grouping->distinct != NULL ? &grouping->distinct->whole : grouping;
	const char *why = facts->programs.why;
	HjgProgramShape shape;
	HjgProgramShape divided;
	bool		may_divide;
	double		grouped = input_rel->rows;

	*program = (HjgPlannedProgram) {0};
	if (rows != NULL)
		why = grouping->distinct != NULL ? check_distinct(root, grouping, rows->nullable, input_rel->rows, &grouped) : NULL;
	if (rows != NULL && why == NULL)
		why = check_grouping(root, last, rows->nullable, grouped, program);
	hjg_planner_note_program(root, input_rel, why);
	if (rows == NULL || why != NULL)
		return false;
	shape = rows->shape;
	if (grouping->distinct != NULL)
		add_groups_between(&shape, input_rel->rows, grouped);
	shape.grouped = grouped;
	shape.made = program->ngroups;
	shape.ngroups = program->returned;
	shape.nsteps = last->work.nsteps;
	program->path = rows->path;
	add_fetched(root, program, &shape);
	shape.table_bytes += hjg_planner_program_groups_bytes(root, grouping->keys, program->ngroups, hjg_planner_count_arguments(last), shape.ntables == 1);
	may_divide = hjg_planner_divide_program(root, input_rel, grouping, program->ngroups, refuse_groups(root, last, program->ngroups) == NULL, &shape, &divided);
	program->time = hjg_planner_program_time(facts, &shape, may_divide ? &divided : NULL);
	program->number = number_program(root, grouping, program->time.device.kind == HJG_KIND_CPU ? facts->hash_memory : 0);
	if (hjg_force || !hjg_scan_program_refused(program->number))
		return true;
	hjg_planner_note_program(root, input_rel, HJG_SCAN_REFUSED_LATELY);
	return false;
}

void
hjg_planner_program_input(Path *path, HjgAggregateInput *input)
{
	if (hjg_planner_is_ours(path))
		input->join = (const HjgPath *) path;
	else if (path->pathtype == T_SeqScan)
		input->scan = path;
	else
		input->rows = path;
}

/* ---------- groups of subqueries ---------- */

/* Does the query return its groups as they are, with nothing that follows? */
static bool
returns_groups(const Query *parse)
{
	return parse->sortClause == NIL && parse->limitCount == NULL && parse->limitOffset == NULL && !parse->hasWindowFuncs && !parse->hasTargetSRFs &&
		parse->distinctClause == NIL && parse->setOperations == NULL && parse->rowMarks == NIL && parse->groupClause != NIL;
}

/*
 * Does HAVING compare keys and aggregates with constants and parameters of the query? Others are core's: a subquery's groups must be tested
 * on the device.
 */
static bool
is_having_simple(const List *having)
{
	ListCell   *lc;

	foreach(lc, having)
	{
		const OpExpr *clause = lfirst(lc);
		int			noperands = 0;

		if (!IsA(clause, OpExpr) || list_length(clause->args) != 2)
			return false;
		for (int i = 0; i < 2; i++)
		{
			const Node *arg = (const Node *) hjg_scan_strip_relabel(list_nth(clause->args, i));

			if (IsA(arg, Const) || (IsA(arg, Param) && ((const Param *) arg)->paramkind == PARAM_EXTERN))
				noperands++;
			else if (!IsA(arg, Var) && !IsA(arg, Aggref))
				return false;
		}
		if (noperands != 1)
			return false;
	}
	return true;
}

void
hjg_planner_note_groups(PlannerInfo *root, const HjgGrouping *grouping, RelOptInfo *input_rel, RelOptInfo *grouped_rel)
{
	const HjgProgramRows *rows = root->parent_root != NULL && grouping->distinct == NULL && returns_groups(root->parse) ? hjg_planner_program_rows(root, input_rel) : NULL;
	HjgAggregateInput input = {NULL};
	HjgProgramShape shape;
	ProgramColumns columns;
	double		ngroups;

	if (rows == NULL || check_terms(root, grouping, rows->nullable, &columns) != NULL ||
		!are_keys_numbered(root, grouping, &columns) || !are_aggregates_numbers(grouping) || !are_results_plain(grouping) ||
		!is_having_simple(grouping->having))
		return;
	hjg_planner_program_input(rows->path, &input);
	ngroups = estimate_program_groups(root, grouping, &columns, input_rel->rows);
	shape = rows->shape;
	shape.table_bytes += hjg_planner_program_groups_bytes(root, columns.numbered, ngroups, hjg_planner_count_arguments(grouping), shape.ntables == 1);
	add_groups_between(&shape, input_rel->rows, ngroups);
	hjg_planner_keep_program_groups(grouped_rel, (HjgProgramGroupsPath) {
		.path = hjg_planner_aggregate(root, grouped_rel, grouping, HJG_AGGREGATE_COMPLETE, input), .shape = shape,
		.divided = hjg_planner_divide_groups(root, input_rel, grouping->keys, ngroups)
	});
}
