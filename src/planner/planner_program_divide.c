/*
 * planner_program_divide.c
 *	  Finds how several GPUs divide a program, and what each of them has to do then.
 *
 * node_program_divide.c says how that is done, and does it: by ranges of a key, or by segments of the table that drives the last pipeline. Here
 * the same is done with paths, and what the planner does not see, the node does not divide: then one GPU runs the program.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"

#include "planner/hjg_planner.h"
#include "planner/hjg_planner_aggregate.h"
#include "planner/hjg_planner_program.h"
#include "scan/hjg_scan.h"

static bool
are_same_columns(const Var *a, const Var *b)
{
	return a->varno == b->varno && a->varattno == b->varattno;
}

/* Get the key of a clause on the side of a join that has these relations. */
static const Var *
side_key(const RestrictInfo *rinfo, Relids side)
{
	const OpExpr *clause = castNode(OpExpr, rinfo->clause);
	const Var  *left = (const Var *) hjg_scan_strip_relabel(linitial(clause->args));

	return bms_is_member(left->varno, side) ? left : (const Var *) hjg_scan_strip_relabel(lsecond(clause->args));
}

/* The sides of a join of a program. */
typedef struct JoinSides
{
	const HjgPath *join;
	const RelOptInfo *built;
	const RelOptInfo *driving;
} JoinSides;

static JoinSides
sides_of(const HjgPath *join)
{
	const RelOptInfo *outer = ((const Path *) linitial(join->custom.custom_paths))->parent;
	const RelOptInfo *inner = ((const Path *) lsecond(join->custom.custom_paths))->parent;

	return (JoinSides) {.join = join, .built = join->reversed ? outer : inner, .driving = join->reversed ? inner : outer};
}

/* Find the driving side's key that a built side's one is equal to in each row; NULL: there is none. */
static const Var *
find_driving_key(const JoinSides *sides, const Var *key)
{
	const HjgPath *join = sides->join;
	ListCell   *lc;

	/* rows of a preserved side that is built come from a pipeline of their own if they have no partner */
	if (join->jointype != JOIN_INNER && join->jointype != (join->reversed ? JOIN_LEFT : JOIN_RIGHT))
		return NULL;
	foreach(lc, join->hashclauses)
		if (are_same_columns(side_key(lfirst(lc), sides->built->relids), key))
			return side_key(lfirst(lc), sides->driving->relids);
	return NULL;
}

static void
add_work(HjgProgramShape *divided, const HjgProgramShape *more)
{
	divided->divided_values += more->divided_values;
	divided->divided_probes += more->divided_probes;
	divided->divided_entered += more->divided_entered;
	divided->divided_collected += more->divided_collected;
	divided->passed += more->passed;
	divided->passed_pages += more->passed_pages;
}

static bool divide_rows(PlannerInfo *root, const RelOptInfo *rel, const Var *key, HjgProgramShape *divided);

/* Divide the rows of a join by a key, and its table, if that is looked up by it. */
static bool
divide_join(PlannerInfo *root, const HjgPath *join, const Var *key, HjgProgramShape *divided)
{
	const JoinSides sides = sides_of(join);
	ListCell   *lc;

	if (bms_is_member(key->varno, sides.built->relids))
		key = find_driving_key(&sides, key);
	if (key == NULL || !divide_rows(root, sides.driving, key, divided))
		return false;
	divided->divided_probes += sides.driving->rows;
	foreach(lc, join->hashclauses)
	{
		HjgProgramShape table = {0};

		if (!are_same_columns(side_key(lfirst(lc), sides.driving->relids), key) ||
			!divide_rows(root, sides.built, side_key(lfirst(lc), sides.built->relids), &table))
			continue;
		add_work(divided, &table);
		divided->divided_entered += sides.built->rows;
		if (hjg_planner_program_exists(join) && list_length(join->restrictlist) > list_length(join->hashclauses))
			divided->divided_collected += sides.built->rows;
		break;
	}
	return true;
}

/* Divide groups of a subquery by a key, with the rows that they are made of. */
static bool
divide_subquery(const RelOptInfo *rel, const Var *key, HjgProgramShape *divided)
{
	const HjgProgramGroupsPath *groups = hjg_planner_program_groups(rel);
	const Var  *column = (const Var *) hjg_scan_strip_relabel((Node *) list_nth_node(TargetEntry, rel->subroot->processed_tlist, key->varattno - 1)->expr);
	ListCell   *lc;

	foreach(lc, groups != NULL && IsA(column, Var) ? groups->divided : NIL)
	{
		const HjgDividedGroups *by_key = lfirst(lc);

		if (!are_same_columns(by_key->key, column))
			continue;
		add_work(divided, &by_key->divided);
		return true;
	}
	return false;
}

/* Divide rows by a key: add the work that is divided with them. False, and something may have been added, if the key does not divide them. */
static bool
divide_rows(PlannerInfo *root, const RelOptInfo *rel, const Var *key, HjgProgramShape *divided)
{
	const HjgProgramRows *rows = hjg_planner_program_rows(root, rel);
	double		scattering;

	if (rows == NULL || !bms_is_member(key->varno, rel->relids) || key->varattno <= 0)
		return false;
	if (rel->reloptkind == RELOPT_JOINREL)
		return divide_join(root, (const HjgPath *) rows->path, key, divided);
	if (rel->rtekind == RTE_SUBQUERY)
		return divide_subquery(rel, key, divided);
	divided->divided_values += rows->shape.values;
	scattering = hjg_planner_column_scattering(root, rel, key->varattno);
	divided->passed += rel->tuples * scattering;
	divided->passed_pages += rel->pages * scattering;
	return true;
}

/* Add the work for groups of a relation's rows, which are read by a pipeline. */
static void
add_groups_work(const RelOptInfo *input_rel, double ngroups, HjgProgramShape *divided)
{
	divided->divided_collected += input_rel->rows;
	divided->divided_probes += ngroups;
	divided->divided_entered += ngroups;
}

/* Are there several GPUs? */
static bool
has_gpus(PlannerInfo *root)
{
	const HjgPlannerGpu *gpu = hjg_planner_gpu(hjg_planner_facts(root));

	return gpu != NULL && gpu->ngpus > 1;
}

List *
hjg_planner_divide_groups(PlannerInfo *root, const RelOptInfo *input_rel, const List *keys, double ngroups)
{
	List	   *all = NIL;
	ListCell   *lc;

	foreach(lc, has_gpus(root) ? keys : NIL)
	{
		HjgDividedGroups *by_key = palloc0(sizeof(HjgDividedGroups));

		by_key->key = (const Var *) hjg_scan_strip_relabel(lfirst(lc));
		if (!IsA(by_key->key, Var) || !divide_rows(root, input_rel, by_key->key, &by_key->divided))
			continue;
		add_groups_work(input_rel, ngroups, &by_key->divided);
		all = lappend(all, by_key);
	}
	return all;
}

/* Add the columns of a subquery that are its columns, too, and no aggregates. */
static List *
add_group_keys(List *keys, const RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->subroot->processed_tlist)
		if (IsA(hjg_scan_strip_relabel((Node *) lfirst_node(TargetEntry, lc)->expr), Var))
			keys = lappend(keys, makeVarFromTargetEntry(rel->relid, lfirst(lc)));
	return keys;
}

/* List the keys by which rows look tables up, or that groups of a subquery have. */
static List *
list_keys(PlannerInfo *root, const RelOptInfo *rel)
{
	const HjgProgramRows *rows = hjg_planner_program_rows(root, rel);
	List	   *keys = NIL;
	ListCell   *lc;

	while (rows != NULL && rel->reloptkind == RELOPT_JOINREL)
	{
		const JoinSides sides = sides_of((const HjgPath *) rows->path);

		foreach(lc, sides.join->hashclauses)
			keys = lappend(keys, (void *) side_key(lfirst(lc), sides.driving->relids));
		rel = sides.driving;
		rows = hjg_planner_program_rows(root, rel);
	}
	return rows != NULL && rel->rtekind == RTE_SUBQUERY ? add_group_keys(keys, rel) : keys;
}

/* A program that is to be divided. */
typedef struct DividedProgram
{
	PlannerInfo *root;
	const RelOptInfo *input_rel;
	const HjgGrouping *grouping;
	const HjgProgramShape *shape;
	HjgProgramShape best;
	bool		found;
} DividedProgram;

/* Take a way to divide it if it is the best one so far. */
static void
take_better(DividedProgram *division, const HjgProgramShape *shape)
{
	if (!division->found || hjg_model_program_ns(shape, 2, 1) < hjg_model_program_ns(&division->best, 2, 1))
		division->best = *shape;
	division->found = true;
}

/* Try to divide it by a key; ngroups: that come back, of each GPU if they are not whole. */
static void
try_key(DividedProgram *division, const Var *key, bool whole, double ngroups)
{
	HjgProgramShape shape = *division->shape;
	HjgProgramShape divided = {0};

	if (!IsA(key, Var) || !divide_rows(division->root, division->input_rel, key, &divided))
		return;
	shape.divided_values = shape.divided_probes = 0;
	add_work(&shape, &divided);
	if (division->grouping->distinct != NULL)
		add_groups_work(division->input_rel, shape.grouped, &shape);
	shape.whole_groups = whole;
	shape.ngroups = ngroups;
	take_better(division, &shape);
}

bool
hjg_planner_divide_program(PlannerInfo *root, const RelOptInfo *input_rel, const HjgGrouping *grouping, double ngroups, bool may_add,
						   const HjgProgramShape *shape, HjgProgramShape *divided)
{
	const HjgGrouping *last = grouping->distinct != NULL ? &grouping->distinct->whole : grouping;
	const bool	outer = hjg_planner_program_rows(root, input_rel)->nullable != NULL;
	DividedProgram division = {.root = root, .input_rel = input_rel, .grouping = grouping, .shape = shape};
	ListCell   *lc;

	if (!has_gpus(root))
		return false;
	foreach(lc, grouping->keys)
		if (grouping->distinct == NULL || list_member(last->keys, lfirst(lc)))
			try_key(&division, (const Var *) hjg_scan_strip_relabel(lfirst(lc)), true, shape->ngroups);
		else if (may_add)
			try_key(&division, (const Var *) hjg_scan_strip_relabel(lfirst(lc)), false, ngroups);
	/* rows of an outer join come from two pipelines, which have the keys of the groups in common */
	foreach(lc, may_add && !outer && grouping->distinct == NULL ? list_keys(root, input_rel) : NIL)
		try_key(&division, lfirst(lc), false, ngroups);
	if (may_add && !outer && shape->divided_values > 0)
	{
		HjgProgramShape segments = *shape;

		segments.ngroups = ngroups;
		take_better(&division, &segments);
	}
	*divided = division.best;
	return division.found;
}
