/*
 * planner_scan.c
 *	  Describes to the model how the node reads a table: which columns, where they are in the row, and which conditions are
 *	  evaluated in vectors.
 *
 * It runs once for each table of a query. The room "scan" decides which conditions are simple, here and at run time.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "planner/hjg_planner_path.h"
#include "scan/hjg_scan.h"

/* A search in a list takes this much more for each doubling of the list. */
#define DOUBLED_LIST 0.5

/*
 * A test of words, which are looked up one by one, relative to one of codes in a range; of values that are decoded first, relative to one of values; and an
 * argument of OR relative to it alone.
 */
#define KEPT_WORD 4
#define KEPT_VALUES 1.5
#define KEPT_OR 1.5

static HjgTestKind
test_kind(HjgFilterKind kind)
{
	switch (kind)
	{
		case HJG_FILTER_BYTES:
			return HJG_TEST_BYTES;
		case HJG_FILTER_LIKE:
			return HJG_TEST_LIKE;
		case HJG_FILTER_NUMERIC:
		case HJG_FILTER_NUMERIC_COLUMNS:
			return HJG_TEST_NUMERIC;
		default:
			return HJG_TEST_FIXED;
	}
}

/* Compute the time of a test relative to one of its kind's unit cost: that of searching a string is by its length. */
static double
test_weight(const HjgFilter *leaf, Oid table, const AttrNumber *attnos)
{
	const int	width = leaf->kind == HJG_FILTER_LIKE && OidIsValid(table) ? get_attavgwidth(table, attnos[leaf->column]) : 0;

	return width > 0 ? width / HJG_MODEL_LIKE_BYTES : 1;
}

/* Add the tests of a condition on columns of the table, or of any; part: their number for each row. */
static void
count_tests(const HjgFilter *filter, Oid table, const AttrNumber *attnos, double part, double *tests)
{
	for (int i = 0; i < filter->nargs; i++)
		count_tests(filter->args[i], table, attnos, part, tests);
	if (filter->nargs == 0)
		part *= test_weight(filter, table, attnos);
	/* a test of two columns reads both */
	if (filter->nargs == 0)
		tests[test_kind(filter->kind)] += filter->kind == HJG_FILTER_COLUMNS || filter->kind == HJG_FILTER_NUMERIC_COLUMNS ? 2 * part : part;
}

/* Count the tests of a condition on codes of kept columns, or on values, which are made for all rows of a block. */
static double
count_kept_tests(const HjgFilter *filter, bool codes)
{
	double		n = 0;

	for (int i = 0; i < filter->nargs; i++)
		n += count_kept_tests(filter->args[i], codes);
	switch (filter->kind)
	{
		case HJG_FILTER_OR:
			return n * KEPT_OR;
		case HJG_FILTER_ALL:
		case HJG_FILTER_AND:
			return n;
		case HJG_FILTER_RANGE:
		case HJG_FILTER_NUMERIC:
			return codes ? 1 : 0;
		case HJG_FILTER_BYTES:
		case HJG_FILTER_LIKE:
			return codes ? KEPT_WORD : 0;
		default:
			return codes ? 0 : KEPT_VALUES;
	}
}

void
hjg_planner_count_tests(const HjgFilter *filter, double *tests)
{
	count_tests(filter, InvalidOid, NULL, 1, tests);
}

/* Count core's operators in a condition, with each element of a list that is compared. */
static double
count_operators(PlannerInfo *root, RestrictInfo *rinfo)
{
	QualCost	cost;

	cost_qual_eval_node(&cost, (Node *) rinfo, root);
	return cost.per_tuple / Max(cpu_operator_cost, 1e-10);
}

static bool
is_fixed_only(const double *tests)
{
	return tests[HJG_TEST_BYTES] + tests[HJG_TEST_LIKE] + tests[HJG_TEST_NUMERIC] == 0;
}

/* Find out how these columns of a table are read. */
static HjgColumnsRead
describe_columns(TupleDesc desc, int ncolumns, const AttrNumber *attnos, HjgTableScan *scan)
{
	HjgRowColumns columns;

	hjg_scan_heap_count(desc, ncolumns, attnos, &columns);
	scan->nbefore = columns.nbefore;
	return (HjgColumnsRead) {columns.nfixed, columns.nsteps, columns.nvarlenas};
}

/* Find the last attribute that the conditions from number `first` on read; 0: none. */
static AttrNumber
last_attribute(const List *quals, int first, Index relid)
{
	Bitmapset  *attnos = NULL;
	AttrNumber	last = 0;

	(void) hjg_scan_find_attributes(list_copy_tail(quals, first), relid, &attnos);
	for (int attno = -1; (attno = bms_next_member(attnos, attno)) >= 0;)
		last = attno;
	return last;
}

/* Compute the share of the rows that simple condition n is tested for: they pass those that are tested before, which are the cheaper ones. */
static double
tested_share(const HjgSimpleConditions *simple, const double *shares, int n)
{
	const int	rank = hjg_scan_filter_rank(simple->filters[n]);
	double		tested = 1;

	for (int i = 0; i < simple->n; i++)
	{
		const int	other = hjg_scan_filter_rank(simple->filters[i]);

		if (other < rank || (other == rank && i < n))
			tested *= shares[i];
	}
	return tested;
}

/*
 * Describe the conditions. A vector test of fixed-width values is made for all rows, which is faster than selecting some;
 * other tests for the rows that have passed before.
 */
static void
describe_conditions(PlannerInfo *root, const RelOptInfo *rel, TupleDesc desc, HjgTableScan *scan)
{
	HjgSimpleConditions simple;
	List	   *ordered = hjg_planner_order_quals(root, rel->baserestrictinfo);
	List	   *quals = NIL;
	double	   *shares = palloc(list_length(ordered) * sizeof(double));
	double		passing = 1;
	int			n = 0;
	ListCell   *lc;

	foreach(lc, ordered)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo->pseudoconstant)
			continue;
		shares[n++] = clause_selectivity(root, (Node *) rinfo, 0, JOIN_INNER, NULL);
		quals = lappend(quals, rinfo->clause);
	}
	n = 0;
	hjg_scan_find_simple(quals, rel->relid, desc, &simple);
	foreach(lc, ordered)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		const double operators = rinfo->pseudoconstant ? 0 : count_operators(root, rinfo);
		double		tests[HJG_NTESTS] = {0};

		if (rinfo->pseudoconstant)
			continue;
		if (n < simple.n)
		{
			const double list = 1 + (simple.filters[n]->nargs == 0 ? DOUBLED_LIST * log2(Max(operators, 1)) : 0);

			scan->code_tests += count_kept_tests(simple.filters[n], true);
			scan->kept_tests += count_kept_tests(simple.filters[n], false);
			count_tests(simple.filters[n], root->simple_rte_array[rel->relid]->relid, simple.attnos, list, tests);
			for (int i = 0; i < HJG_NTESTS; i++)
				scan->tests[i] += tests[i] * (i == HJG_TEST_FIXED ? 1 : tested_share(&simple, shares, n));
		}
		else if (n == simple.n)
			scan->core_share = passing;
		/* core's scan evaluates each condition for the rows that have passed before */
		if (n < simple.n && is_fixed_only(tests))
			scan->all_tests += operators * passing;
		else
			scan->all_operators += operators * passing;
		passing *= shares[n++];
	}
	scan->conditions_wait = simple.wait;
	if (simple.n > 0)
		scan->tested = describe_columns(desc, simple.ncolumns, simple.attnos, scan);
	if (simple.n < n)
	{
		const AttrNumber last = last_attribute(quals, simple.n, rel->relid);

		/* all conditions are evaluated once more */
		scan->core_operators = (scan->all_operators + scan->all_tests) / Max(scan->core_share, 1e-10);
		scan->core_columns = describe_columns(desc, last > 0, &last, scan);
	}
}

/* Estimate the part of the table whose rows come from kept columns: the wanted ones and those of its conditions. */
static void
estimate_kept(const RelOptInfo *rel, Relation relation, const AttrNumber *wanted, HjgTableScan *scan)
{
	Bitmapset  *read = NULL;

	if (!hjg_scan_find_attributes(extract_actual_clauses(rel->baserestrictinfo, false), rel->relid, &read))
		return;
	if (scan->tests[HJG_TEST_BYTES] + scan->tests[HJG_TEST_LIKE] > 0)
		scan->coded_share = hjg_scan_kept_share(relation, rel->pages, read, true);
	for (int i = 0; i < scan->nwanted; i++)
		read = bms_add_member(read, wanted[i]);
	scan->nread = bms_num_members(read);
	scan->kept_share = hjg_scan_served_share(relation, rel->pages, read);
	scan->coded_share = Min(scan->coded_share, scan->kept_share);
}

void
hjg_planner_describe_scan(PlannerInfo *root, const RelOptInfo *rel, Relation relation, HjgTableScan *scan)
{
	const TupleDesc desc = RelationGetDescr(relation);
	const double rows = Max(rel->tuples, 1);
	AttrNumber *attnos = palloc(Max(list_length(rel->reltarget->exprs), 1) * sizeof(AttrNumber));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, rel->reltarget->exprs)
		attnos[n++] = lfirst_node(Var, lc)->varattno;
	*scan = (HjgTableScan) {
		.pages = rel->pages, .rows = rel->tuples, .passing = Min(rel->rows / rows, 1),
		.lines = rel->pages * (double) BLCKSZ / rows / HJG_MODEL_LINE_BYTES
	};
	scan->nranges = rel->partial_pathlist != NIL ? hjg_scan_nranges(relation, rel->pages) : 1;
	scan->wanted = describe_columns(desc, n, attnos, scan);
	scan->nwanted = n;
	if (rel->baserestrictinfo != NIL)
		describe_conditions(root, rel, desc, scan);
	estimate_kept(rel, relation, attnos, scan);
	pfree(attnos);
}
