/*
 * planner_program_table.c
 *	  Finds out whether a program of the device process can read a table: all of its columns that the query needs must be kept, and its conditions must be
 *	  steps. The rules are those of node_program_rows.c, which decides again.
 *
 * A table that has partitions is one table to a program. Those that the planner has pruned are not read, nor are those without blocks.
 */
#include "postgres.h"

#include "access/table.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "planner/hjg_planner.h"
#include "planner/hjg_planner_program.h"
#include "scan/hjg_scan.h"

/* Least part of a table that must be kept. */
#define LEAST_KEPT 0.9

/* ---------- a table ---------- */

/*
 * Does an expression need a subquery's result? Its evaluation may fail, so it must wait for the row for which core evaluates it: a program knows
 * all operands before.
 */
static bool
needs_subquery_walker(Node *node, void *unused)
{
	if (node == NULL)
		return false;
	return IsA(node, SubPlan) || (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC) || expression_tree_walker(node, needs_subquery_walker, unused);
}

bool
hjg_planner_needs_subquery(Node *node)
{
	return needs_subquery_walker(node, NULL);
}

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

		if (rinfo->pseudoconstant || hjg_planner_needs_subquery((Node *) rinfo->clause))
			return false;
		quals = lappend(quals, rinfo->clause);
	}
	hjg_scan_find_simple(quals, rel->relid, RelationGetDescr(relation), &simple);
	return simple.n == list_length(quals);
}

/* Find the attributes of a table that the query's rows, and those that its conditions read; false if there is anything else. */
static bool
find_read(const PlannerInfo *root, const RelOptInfo *rel, Bitmapset **read, Bitmapset **tested)
{
	/* the only table of a query has its keys among its columns by now, which the node computes */
	const bool	alone = bms_membership(root->all_baserels) == BMS_SINGLETON;
	ListCell   *lc;

	foreach(lc, rel->reltarget->exprs)
	{
		if ((!alone && !IsA(lfirst(lc), Var)) || !hjg_scan_find_attributes(list_make1(lfirst(lc)), rel->relid, read))
			return false;
	}
	foreach(lc, rel->baserestrictinfo)
		if (!hjg_scan_find_attributes(list_make1(lfirst_node(RestrictInfo, lc)->clause), rel->relid, tested))
			return false;
	return true;
}

/* Find the attributes that are strings. */
static Bitmapset *
find_strings(TupleDesc desc, const Bitmapset *attnos)
{
	Bitmapset  *strings = NULL;

	for (int attno = -1; (attno = bms_next_member(attnos, attno)) >= 0;)
		if (hjg_scan_is_string(TupleDescAttr(desc, attno - 1)))
			strings = bms_add_member(strings, attno);
	return strings;
}

/*
 * Are enough of a table's rows kept? Those that the query needs must be in codes, except for strings: those that are tested are tested one
 * by one, and those that the result needs are fetched by the numbers of their rows. *used: the attributes whose kept columns are used.
 */
static bool
are_columns_kept(HjgProgramShape *shape, const RelOptInfo *rel, Relation relation, const Bitmapset *read, const Bitmapset *tested, Bitmapset **used)
{
	Bitmapset  *strings = find_strings(RelationGetDescr(relation), bms_union(read, tested));
	const Bitmapset *numbers = bms_difference(read, strings);

	*used = bms_union(numbers, tested);
	if ((!bms_is_empty(numbers) && hjg_scan_kept_share(relation, rel->pages, numbers, true) < LEAST_KEPT) ||
		(!bms_is_empty(*used) && hjg_scan_kept_share(relation, rel->pages, *used, false) < LEAST_KEPT))
		return false;
	for (int attno = -1; (attno = bms_next_member(strings, attno)) >= 0;)
		if (hjg_scan_kept_share(relation, rel->pages, bms_make_singleton(attno), true) >= LEAST_KEPT)
		{
			shape->word_pages += rel->pages;
			*used = bms_add_member(*used, attno);
		}
		else if (bms_is_member(attno, tested))
			shape->strings += rel->tuples;
	return !bms_is_empty(*used);
}

/* Find why a table's rows cannot be a program's, or NULL; sets the shape. empty: a table without blocks, or NULL. */
static const char *
check_table(PlannerInfo *root, const RelOptInfo *rel, HjgProgramShape *shape, bool *empty)
{
	const RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	const char *why = NULL;
	Bitmapset  *read = NULL;
	Bitmapset  *tested = NULL;
	Bitmapset  *used = NULL;
	Relation	relation;
	int			nread;

	if (rte->rtekind != RTE_RELATION || rte->inh || rte->tablesample != NULL || !bms_is_empty(rel->lateral_relids) || !find_read(root, rel, &read, &tested))
		return "rows come from something else than columns of a table";
	if (bms_is_empty(read) && bms_is_empty(tested))
		return "no column of a table is read";
	/* the planner holds a lock already */
	relation = table_open(rte->relid, NoLock);
	if (empty != NULL)
		*empty = hjg_scan_heap_readable(relation) && RelationGetNumberOfBlocks(relation) == 0;
	if (!hjg_scan_heap_readable(relation) || !are_conditions_simple(root, rel, relation))
		why = "a table has conditions that are core's";
	else if (!are_columns_kept(shape, rel, relation, read, tested, &used))
		why = "a column of a table is not kept, or not in codes";
	else
		shape->live_pages = rel->pages * (1 - hjg_scan_served_share(relation, rel->pages, used));
	if (shape->live_pages > HJG_PROGRAM_MOST_LIVE * rel->pages)
		why = "too many blocks of a table have changed";
	shape->live_rows = rel->tuples * shape->live_pages / Max(rel->pages, 1);
	table_close(relation, NoLock);
	nread = bms_num_members(used);
	shape->ntables = 1;
	shape->pages = rel->pages;
	shape->values = shape->divided_values = rel->tuples * nread;
	shape->column_pages = rel->pages * (double) nread;
	return why;
}

/* ---------- partitions ---------- */

/* The partitions of a table that have rows. */
typedef struct Partitions
{
	List	   *paths;			/* their scans */
	HjgProgramShape shape;		/* of all of them */
} Partitions;

/* Make a path return these columns. */
static void
set_columns(PlannerInfo *root, Path *path, List *columns)
{
	PathTarget *target = create_empty_pathtarget();
	ListCell   *lc;

	foreach(lc, columns)
		add_column_to_pathtarget(target, lfirst(lc), 0);
	path->pathtarget = set_pathtarget_cost_width(root, target);
}

static void
add_partition_shape(HjgProgramShape *all, const HjgProgramShape *one)
{
	all->ntables = 1;
	all->pages += one->pages;
	all->values += one->values;
	all->divided_values += one->divided_values;
	all->column_pages += one->column_pages;
	all->strings += one->strings;
	all->word_pages += one->word_pages;
	all->live_pages += one->live_pages;
	all->live_rows += one->live_rows;
}

/* Add the partitions of a table, and theirs; columns: of it, that are read. Returns why they cannot be a program's, or NULL. */
static const char *
add_partitions(PlannerInfo *root, const RelOptInfo *parent, List *columns, Partitions *partitions)
{
	const char *why = NULL;

	/* there is no array if no table has partitions that may have rows */
	for (int rti = 1; root->append_rel_array != NULL && rti < root->simple_rel_array_size && why == NULL; rti++)
	{
		AppendRelInfo *info = root->append_rel_array[rti];
		RelOptInfo *rel = root->simple_rel_array[rti];
		HjgProgramShape shape = {0};
		List	   *own;
		bool		empty = false;
		Path	   *path;

		if (info == NULL || info->parent_relid != parent->relid || rel == NULL || IS_DUMMY_REL(rel))
			continue;
		own = (List *) adjust_appendrel_attrs(root, (Node *) columns, 1, &info);
		if (planner_rt_fetch(rti, root)->inh)
		{
			why = add_partitions(root, rel, own, partitions);
			continue;
		}
		why = check_table(root, rel, &shape, &empty);
		if (empty)
			why = NULL;
		if (empty || why != NULL)
			continue;
		add_partition_shape(&partitions->shape, &shape);
		path = create_seqscan_path(root, rel, NULL, 0);
		set_columns(root, path, own);
		partitions->paths = lappend(partitions->paths, path);
	}
	return why;
}

/* Find the rows of all partitions of a table. */
static const char *
check_partitioned(PlannerInfo *root, RelOptInfo *rel, HjgProgramRows *rows)
{
	List	   *columns = NIL;
	Partitions	partitions = {NIL};
	const char *why;
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) rel->reltarget->exprs, PVC_RECURSE_AGGREGATES | PVC_RECURSE_PLACEHOLDERS))
	{
		const Var  *column = lfirst(lc);

		if (!IsA(column, Var) || column->varno != rel->relid || column->varattno <= 0)
			return "rows come from something else than columns of a table";
		columns = list_append_unique(columns, lfirst(lc));
	}
	why = add_partitions(root, rel, columns, &partitions);
	if (why == NULL && partitions.paths == NIL)
		why = "no partition has rows";
	if (why != NULL)
		return why;
	rows->shape = partitions.shape;
	rows->path = (Path *) create_append_path(root, rel, partitions.paths, NIL, NIL, NULL, 0, false, -1);
	set_columns(root, rows->path, columns);
	return NULL;
}

const char *
hjg_planner_program_table(PlannerInfo *root, RelOptInfo *rel, HjgProgramRows *rows)
{
	const RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);

	if (rte->rtekind == RTE_RELATION && rte->inh && rte->tablesample == NULL && bms_is_empty(rel->lateral_relids))
		return check_partitioned(root, rel, rows);
	rows->path = create_seqscan_path(root, rel, NULL, 0);
	return check_table(root, rel, &rows->shape, NULL);
}
