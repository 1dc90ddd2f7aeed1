/*
 * planner_program.c
 *	  Finds the rows that programs of the device process (layout/hjg_program.h) can make, and predicts their time.
 *
 * A program has an order of joins of its own: other joins are cheap there than in a backend, it reads tables by sequential scans only,
 * and each of its hash tables has one row for a key. So while core searches for the best order, the best one for a program is kept for each
 * relation beside core's lists, with a path for the node, which reads the same rows if the program cannot be run. It is used at
 * the end, by a GpuAggregate (planner_program_group.c).
 *
 * All tables of the query must be kept, as far as a sample tells: node_program.c looks at each segment, and returns the rows of the best
 * plan without a program where that was wrong.
 */
#include "postgres.h"

#include <float.h>

#include "catalog/pg_statistic.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "planner/hjg_planner.h"
#include "planner/hjg_planner_aggregate.h"
#include "scan/hjg_scan.h"

/* Most relations whose rows are kept in mind: of a query of many tables programs have not all orders. */
#define MOST_ROWS 256

/* Several GPUs divide a program if that takes at most this part of the time: others may want them, too. */
#define WORTH_DIVIDING 0.9

/* ---------- groups of subqueries ---------- */

static const char groups_mark;

void
hjg_planner_keep_program_groups(RelOptInfo *grouped_rel, HjgProgramGroupsPath kept)
{
	HjgProgramGroupsPath *groups = palloc(sizeof(HjgProgramGroupsPath));

	*groups = kept;
	groups->mark = &groups_mark;
	/* it belongs to the planner of a foreign server, if there is one */
	if (grouped_rel->fdwroutine == NULL && grouped_rel->fdw_private == NULL)
		grouped_rel->fdw_private = groups;
}

const HjgProgramGroupsPath *
hjg_planner_program_groups(const RelOptInfo *rel)
{
	const HjgProgramGroupsPath *groups = rel->subroot != NULL ? fetch_upper_rel(rel->subroot, UPPERREL_GROUP_AGG, NULL)->fdw_private : NULL;

	return groups != NULL && groups->mark == &groups_mark ? groups : NULL;
}

/* Find why the groups of a subquery cannot be a program's rows, or NULL; sets their path and shape. */
static const char *
check_subquery(PlannerInfo *root, RelOptInfo *rel, HjgProgramRows *rows)
{
	const HjgProgramGroupsPath *groups = bms_is_empty(rel->lateral_relids) && rel->subplan_params == NIL && rel->baserestrictinfo == NIL && !IS_DUMMY_REL(rel) ? hjg_planner_program_groups(rel) : NULL;
	ListCell   *lc;

	foreach(lc, rel->reltarget->exprs)
		if (!IsA(lfirst(lc), Var) || ((const Var *) lfirst(lc))->varattno <= 0)
			groups = NULL;
	if (groups == NULL)
		return "rows come from a subquery whose groups no program makes";
	rows->shape = groups->shape;
	rows->path = (Path *) HJG_SUBQUERYSCAN_PATH(root, rel, groups->path);
	return NULL;
}

/* ---------- the query ---------- */

/* Keep rows in mind, in the planner's memory. */
static void
add_rows(HjgQueryFacts *facts, HjgProgramRows rows)
{
	HjgPrograms *programs = &facts->programs;

	if (programs->n == programs->room)
	{
		programs->room = Max(2 * programs->room, 16);
		programs->rows = programs->rows == NULL ? palloc(programs->room * sizeof(HjgProgramRows)) :
			repalloc(programs->rows, programs->room * sizeof(HjgProgramRows));
	}
	programs->rows[programs->n++] = rows;
}

/* Look at all tables of the query; returns why there is no program, or NULL. */
static const char *
add_tables(PlannerInfo *root, HjgQueryFacts *facts)
{
	for (int rti = 1; rti < root->simple_rel_array_size; rti++)
	{
		RelOptInfo *rel = root->simple_rel_array[rti];
		HjgProgramRows rows = {.rel = rel, .driver = rel};
		const char *why;

		if (rel == NULL || rel->reloptkind != RELOPT_BASEREL)
			continue;
		why = rel->rtekind == RTE_SUBQUERY ? check_subquery(root, rel, &rows) : hjg_planner_program_table(root, rel, &rows);
		if (why != NULL || facts->programs.n == HJG_PROGRAM_MAX_PIPELINES)
			return why != NULL ? why : "its tables are too many";
		add_rows(facts, rows);
	}
	return NULL;
}

/* May programs run on the threads of the device process? */
static bool
may_use_threads(void)
{
	return (hjg_device_asked.kind == HJG_KIND_ANY || hjg_device_asked.kind == HJG_KIND_CPU) && hjg_in_backend_rows >= 0;
}

/* May the query have programs? Looks at its tables when first asked; GEQO frees joins with the memory of their paths. */
static bool
has_programs(PlannerInfo *root, HjgQueryFacts *facts)
{
	HjgPrograms *programs = &facts->programs;
	MemoryContext caller;

	if (!programs->known)
	{
		programs->known = true;
		programs->possible = hjg_programs && hjg_kept_columns && (enable_seqscan || hjg_force) && !facts->repeated && hjg_planner_may_group(root->parse) && hjg_planner_device_ready(facts) &&
			(hjg_planner_gpu(facts) != NULL || may_use_threads());
		if (programs->possible)
		{
			caller = MemoryContextSwitchTo(root->planner_cxt);
			programs->why = add_tables(root, facts);
			programs->possible = programs->why == NULL;
			MemoryContextSwitchTo(caller);
		}
	}
	return programs->possible;
}

/* Find the rows of a relation; NULL: no program makes them. */
static HjgProgramRows *
find_program_rows(HjgQueryFacts *facts, const RelOptInfo *rel)
{
	HjgPrograms *programs = &facts->programs;

	for (int i = programs->n - 1; i >= 0; i--)
		if (programs->rows[i].rel == rel)
			return &programs->rows[i];
	return NULL;
}

const HjgProgramRows *
hjg_planner_program_rows(PlannerInfo *root, const RelOptInfo *rel)
{
	HjgQueryFacts *facts = hjg_planner_facts(root);

	return has_programs(root, facts) ? find_program_rows(facts, rel) : NULL;
}

/* Predict the time on one GPU, or on all of them where that takes less; divided: NULL, or what they would do. */
static double
gpus_ns(const HjgPlannerGpu *gpu, const HjgProgramShape *shape, const HjgProgramShape *divided, HjgDeviceId *device)
{
	const double one_ns = hjg_model_program_ns(shape, 1, hjg_planner_threads());
	const double all_ns = divided != NULL && gpu->ngpus > 1 ? hjg_model_program_ns(divided, gpu->ngpus, hjg_planner_threads()) : DBL_MAX;
	const bool	divide = all_ns < WORTH_DIVIDING * one_ns || (all_ns < DBL_MAX && hjg_force);

	*device = (HjgDeviceId) {.kind = HJG_KIND_CUDA, .number = divide ? HJG_NO_NUMBER : gpu->number};
	return divide ? all_ns : one_ns;
}

/*
 * Predict the time on the processor's threads. If the tables are expected to need several times the memory that they may have, the program
 * must take so many times less than another plan to be tried, as that one may have to be executed after it.
 */
static HjgProgramTime
threads_time(const HjgQueryFacts *facts, const HjgProgramShape *shape)
{
	const int	nthreads = hjg_planner_threads();
	const double memory = (double) facts->hash_memory * nthreads * shape->ntables;
	HjgUnitCosts costs;
	double		ns;

	hjg_planner_unit_costs(&costs, 0);
	ns = hjg_model_program_threads_ns(&costs, shape, nthreads);
	return (HjgProgramTime) {
		.device = {.kind = HJG_KIND_CPU, .number = HJG_NO_NUMBER}, .ns = ns, .priced_ns = ns * Max(shape->table_bytes / memory, 1)
	};
}

HjgProgramTime
hjg_planner_program_time(HjgQueryFacts *facts, const HjgProgramShape *shape, const HjgProgramShape *divided)
{
	const HjgPlannerGpu *gpu = hjg_planner_gpu(facts);
	HjgProgramTime best = {.ns = DBL_MAX, .priced_ns = DBL_MAX};

	if (gpu != NULL)
		best.ns = best.priced_ns = gpus_ns(gpu, shape, divided, &best.device);
	/* hjoin_gpu.force leaves a GPU no rival */
	if (may_use_threads() && (gpu == NULL || !hjg_force))
	{
		const HjgProgramTime threads = threads_time(facts, shape);

		if (threads.priced_ns < best.priced_ns)
			best = threads;
	}
	return best;
}

/* ---------- joins ---------- */

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

/* Does a condition compare integers of both sides of a join, and not for equality? */
static bool
is_comparison_of_sides(const RestrictInfo *rinfo)
{
	const OpExpr *clause = (const OpExpr *) rinfo->clause;
	const HjgSimpleOperator *op = IsA(clause, OpExpr) && list_length(clause->args) == 2 ? hjg_vector_simple_operator(get_opcode(clause->opno)) : NULL;
	const Var  *left;
	const Var  *right;

	if (op == NULL || op->ordinal != HJG_ORDINAL_INT || op->comparison == HJG_COMPARE_EQ)
		return false;
	left = (const Var *) hjg_scan_strip_relabel(linitial(clause->args));
	right = (const Var *) hjg_scan_strip_relabel(lsecond(clause->args));
	return IsA(left, Var) && IsA(right, Var) && left->varno != right->varno;
}

/*
 * Are the conditions of a join beside its keys fit? Those of an inner join compare columns as those of tables do. A semi or an anti join may
 * have one, between its sides: the least and the greatest value of the partners tell whether any of them passes it.
 */
static bool
are_residuals_simple(const HjgPath *join)
{
	const bool	exists = hjg_planner_program_exists(join);
	HjgConditions conditions = {0};
	ListCell   *lc;

	foreach(lc, join->restrictlist)
	{
		const RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (list_member_ptr(join->hashclauses, rinfo))
			continue;
		if (exists ? list_length(join->restrictlist) > list_length(join->hashclauses) + 1 || !is_comparison_of_sides(rinfo) :
			join->jointype != JOIN_INNER || hjg_planner_needs_subquery((Node *) rinfo->clause) || hjg_scan_condition_make(&conditions, rinfo->clause) == NULL)
			return false;
	}
	return true;
}

/* Is no value of a column expected to occur twice, as none did in the rows that ANALYZE saw, or is that known of a subquery? */
static bool
is_expected_unique(PlannerInfo *root, Node *column)
{
	VariableStatData known;
	bool		unique;

	examine_variable(root, column, 0, &known);
	unique = known.isunique;
	if (HeapTupleIsValid(known.statsTuple))
	{
		const FormData_pg_statistic *statistic = (const FormData_pg_statistic *) GETSTRUCT(known.statsTuple);

		/* the number of values, over that of rows, negative */
		unique |= statistic->stadistinct < 0 && statistic->stadistinct <= (float4) (statistic->stanullfrac - 1.0);
	}
	ReleaseVariableStats(known);
	return unique;
}

/*
 * Has a row at most one partner on this side of a join? Core knows that of tables, not of joins. A join of a program has no more rows than the
 * table that drives it, so a unique index of that table on the key is enough. Where there is none, statistics may let one expect it: a program
 * in whose table a key comes twice ends there.
 */
static bool
is_side_unique(PlannerInfo *root, const HjgPath *join, bool inner, RelOptInfo *driver, bool expected)
{
	const Relids side = ((Path *) (inner ? lsecond(join->custom.custom_paths) : linitial(join->custom.custom_paths)))->parent->relids;
	List	   *exprs = NIL;
	List	   *operators = NIL;
	ListCell   *lc;

	if (inner && join->inner_unique)
		return true;
	foreach(lc, join->hashclauses)
	{
		const RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		const OpExpr *clause = castNode(OpExpr, rinfo->clause);
		/* the mark which side is the outer one may have changed since the path was made */
		const bool	is_left = bms_is_subset(rinfo->left_relids, side);
		Expr	   *key = hjg_scan_strip_relabel(is_left ? linitial(clause->args) : lsecond(clause->args));

		if (((Var *) key)->varno != driver->relid)
			continue;
		if (expected && is_expected_unique(root, (Node *) key))
			return true;
		exprs = lappend(exprs, key);
		operators = lappend_oid(operators, clause->opno);
	}
	return exprs != NIL && relation_has_unique_index_for(root, driver, NIL, exprs, operators);
}

/*
 * Choose the side of a join that a program makes a hash table of (join->reversed), one whose keys are known to be unique before one of which
 * that is expected (*expected); false: neither is fit.
 */
static bool
choose_side(PlannerInfo *root, HjgPath *join, const HjgProgramRows *outer, const HjgProgramRows *inner, bool *expected)
{
	const JoinType type = join->jointype;
	const bool	reversed = type == JOIN_RIGHT || type == HJG_JOIN_RIGHT_SEMI || type == HJG_JOIN_RIGHT_ANTI;

	join->reversed = reversed;
	*expected = false;
	if (type != JOIN_INNER && type != JOIN_LEFT && type != JOIN_RIGHT)
		return reversed || type == JOIN_SEMI || type == JOIN_ANTI;
	for (int try = 0; try < 4; try++)
	{
		join->reversed = reversed != (try % 2 == 1);
		*expected = try >= 2;
		if (is_side_unique(root, join, !join->reversed, join->reversed ? outer->driver : inner->driver, *expected))
			return true;
	}
	return false;
}

/* Does any condition of a join read columns of these relations? */
static bool
reads_relations(const HjgPath *join, Relids relations)
{
	ListCell   *lc;

	foreach(lc, join->restrictlist)
		if (bms_overlap(lfirst_node(RestrictInfo, lc)->clause_relids, relations))
			return true;
	return false;
}

/*
 * Find the side of an outer join that drives a join, though it may be NULL: its columns are NULL in a pipeline of its own for the preserved side.
 * There may be one such join, whose rows drive all joins above it. Returns false if the join does not fit.
 */
static bool
find_nullable(const HjgPath *join, const HjgProgramRows *built, const HjgProgramRows *driving, Relids *nullable)
{
	const bool	nullable_drives = join->jointype == (join->reversed ? JOIN_LEFT : JOIN_RIGHT);

	*nullable = nullable_drives ? driving->rel->relids : driving->nullable;
	return built->nullable == NULL && (driving->nullable == NULL || (!nullable_drives && !reads_relations(join, driving->nullable)));
}

/* Add the shapes of both sides of a join, and its own, with the memory of its table. */
static HjgProgramShape
add_shapes(const HjgProgramShape *built, double built_rows, double table_bytes, const HjgProgramShape *driving, double driving_rows)
{
	return (HjgProgramShape) {
		.ntables = built->ntables + driving->ntables, .pages = built->pages + driving->pages,
		.column_pages = built->column_pages + driving->column_pages,
		.values = built->values + driving->values, .divided_values = driving->divided_values,
		.probes = built->probes + driving->probes + driving_rows, .divided_probes = driving->divided_probes + driving_rows,
		.entered = built->entered + driving->entered + built_rows, .collected = built->collected + driving->collected,
		.table_bytes = built->table_bytes + driving->table_bytes + table_bytes, .strings = built->strings + driving->strings,
		.word_pages = built->word_pages + driving->word_pages,
		.live_pages = built->live_pages + driving->live_pages, .live_rows = built->live_rows + driving->live_rows
	};
}

/* Make a path of the node for the join, for the case that the program cannot be run. */
static HjgPath
make_program_join(const HjgCandidate *candidate, Path *outer, Path *inner)
{
	RelOptInfo *joinrel = candidate->joinrel;
	HjgPath		own = {
		.jointype = candidate->jointype, .inner_unique = candidate->extra->inner_unique, .build_rows = inner->rows, .unit_ns = 1,
		.ns_cost = 1, .hashclauses = candidate->hashclauses, .restrictlist = candidate->extra->restrictlist,
		.even_cost = Max(outer->total_cost + inner->total_cost, 1)
	};

	own.custom.path = (Path) {
		.type = T_CustomPath, .pathtype = T_CustomScan, .parent = joinrel, .pathtarget = joinrel->reltarget, .rows = joinrel->rows,
		.parallel_safe = joinrel->consider_parallel, .startup_cost = own.even_cost, .total_cost = own.even_cost
	};
	own.custom.flags = CUSTOMPATH_SUPPORT_PROJECTION;
	own.custom.custom_paths = list_make2(outer, inner);
	HJG_SET_CLAUSES(&own.custom, candidate->extra->restrictlist);
	own.custom.methods = &hjg_planner_path_methods;
	return own;
}

/* Have all columns of a join's rows a table of their own? */
static bool
are_plain_columns(const RelOptInfo *joinrel)
{
	ListCell   *lc;

	foreach(lc, joinrel->reltarget->exprs)
		if (!IsA(lfirst(lc), Var))
			return false;
	return true;
}

void
hjg_planner_program_join(PlannerInfo *root, const HjgCandidate *candidate)
{
	HjgQueryFacts *facts = candidate->facts;
	HjgProgramRows *outer;
	HjgProgramRows *inner;
	const HjgProgramRows *built;
	const HjgProgramRows *driving;
	HjgProgramRows *known;
	HjgProgramRows rows = {.rel = candidate->joinrel};
	HjgCandidate pair;
	HjgPath		own;

	if (candidate->joinrel->reloptkind != RELOPT_JOINREL || root->join_search_private != NULL || (!enable_hashjoin && !hjg_force) ||
		!has_programs(root, facts) ||
		(outer = find_program_rows(facts, candidate->outerrel)) == NULL || (inner = find_program_rows(facts, candidate->innerrel)) == NULL ||
		!are_plain_columns(candidate->joinrel))
		return;
	/* whether the pair is eligible for other paths is asked later */
	pair = *candidate;
	if (hjg_planner_check_rules(root, &pair) != NULL || pair.unique_outer || pair.unique_inner)
		return;
	own = make_program_join(&pair, outer->path, inner->path);
	facts->programs.why = "a join's key is no integer column, or it has conditions that are core's";
	if (!are_keys_fit(&own) || !are_residuals_simple(&own))
		return;
	facts->programs.why = "a row of a join has several partners on either side";
	if (!choose_side(root, &own, outer, inner, &rows.expected))
		return;
	rows.expected |= outer->expected || inner->expected;
	built = own.reversed ? outer : inner;
	driving = own.reversed ? inner : outer;
	if (!find_nullable(&own, built, driving, &rows.nullable))
		return;
	rows.driver = driving->driver;
	rows.shape = add_shapes(&built->shape, built->rel->rows, hjg_planner_program_table_bytes(root, &own, built->rel), &driving->shape, driving->rel->rows);
	/* for the rows of the preserved side all but the driving table is read once more */
	if (rows.nullable != NULL)
		rows.shape = add_shapes(&built->shape, 0, 0, &rows.shape, 0);
	/* extremes of the rows of each key are made first */
	if (hjg_planner_program_exists(&own) && list_length(own.restrictlist) > list_length(own.hashclauses))
		rows.shape.collected += built->rel->rows;
	known = find_program_rows(facts, candidate->joinrel);
	if (known == NULL && facts->programs.n == MOST_ROWS)
		return;
	if (known != NULL && (known->expected == rows.expected ?
						  hjg_planner_program_time(facts, &known->shape, &known->shape).priced_ns <= hjg_planner_program_time(facts, &rows.shape, &rows.shape).priced_ns :
						  rows.expected))
		return;
	rows.path = memcpy(palloc(sizeof(HjgPath)), &own, sizeof(HjgPath));
	if (known != NULL)
		*known = rows;
	else
		add_rows(facts, rows);
}
