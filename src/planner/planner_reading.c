/*
 * planner_reading.c
 *	  Predicts and prices the reading of a table by the node, and decides when it is read instead of an index.
 */
#include "postgres.h"

#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"
#include "utils/spccache.h"

#include "huge/hjg_huge.h"
#include "planner/hjg_planner_path.h"

/*
 * A table is read instead of an index if core's price for that, without what the node does not spend, is at most higher by
 * this factor.
 */
#define MOST_DEARER 1.25

/* Least time of a row, relative to that of copying a value. */
#define LEAST_ROW 0.25

/*
 * An index scan with conditions, or a scan by several processes, whose pages are in memory, takes at least this part of the
 * time that corresponds to its price, if a random page costs 1.
 */
#define LEAST_OF_PRICE 0.4

Cost
hjg_planner_pages_price(const RelOptInfo *rel)
{
	double		page_cost;

	get_tablespace_page_costs(rel->reltablespace, NULL, &page_cost);
	return rel->pages * page_cost;
}

HjgScanTimes
hjg_planner_scan_times(const HjgUnitCosts *costs, const HjgSideFacts *side, const Path *path, double rows, bool keys_fixed)
{
	HjgTableScan scan = side->scan;

	if (path->pathtype != T_SeqScan || !side->readable)
		return (HjgScanTimes) {0};
	if (path->parallel_workers > 0)
	{
		scan.unmapped_mb = scan.pages * (BLCKSZ / (1024.0 * 1024.0)) * (1 - hjg_huge_share(HJG_HUGE_BUFFERS));
		scan.mappers = hjg_model_mappers(hjg_planner_processes(path), scan.nranges);
		scan.kept_unmapped_mb = scan.rows * scan.nread * HJG_MODEL_KEPT_MB * (1 - hjg_huge_share(HJG_HUGE_KEPT));
	}
	scan.keys_fixed = keys_fixed;
	return hjg_model_scan(costs, &scan, rows / Max(path->parent->rows, 1));
}

Cost
hjg_planner_scan_credit(const RelOptInfo *rel, const HjgScanTimes *scan, double rows)
{
	return scan->kept_share * hjg_planner_pages_price(rel) +
		(cpu_tuple_cost + rel->baserestrictcost.per_tuple) * rel->tuples * (rows / Max(rel->rows, 1)) *
		(1 - scan->own_ns / Max(scan->core_ns, 1));
}

/*
 * Predict the time of core's scan, with its pages in memory, and of taking its rows. Among scans, prices are about
 * proportional to times.
 */
static double
slot_reading_ns(const HjgUnitCosts *costs, const Path *scan)
{
	return scan->total_cost * hjg_planner_scan_unit_ns(costs) + scan->rows * costs->marshal_tuple_ns;
}

/* Compute the least time of core's scan with its pages in memory. */
static double
least_reading_ns(const HjgUnitCosts *costs, const Path *scan)
{
	double		page_cost = 1;

	if (scan->pathtype == T_IndexOnlyScan && ((const IndexPath *) scan)->indexclauses == NIL)
		return slot_reading_ns(costs, scan);
	if (scan->pathtype != T_Gather)
		get_tablespace_page_costs(scan->parent->reltablespace, &page_cost, NULL);
	return slot_reading_ns(costs, scan) * LEAST_OF_PRICE / Max(page_cost, 1);
}

/* Does even the least time of reading the table's rows exceed this? Few facts are needed, so that queries of single rows are planned as fast as ever. */
static bool
is_too_large(const HjgUnitCosts *costs, const RelOptInfo *rel, const Path *cheapest)
{
	return rel->tuples * costs->fixed_column_ns * LEAST_ROW > least_reading_ns(costs, cheapest);
}

/* Make a sequential scan like the one that core has dropped, for one process or for several. */
static Path *
make_seqscan(PlannerInfo *root, RelOptInfo *rel, bool partial)
{
	int			nworkers = 0;

	if (partial)
		nworkers = Max(compute_parallel_worker(rel, rel->pages, -1, max_parallel_workers_per_gather), 1);
	return create_seqscan_path(root, rel, NULL, nworkers);
}

/* Would a sequential scan of the relation return the rows of this path? It must have no children, and all of its rows must be read. */
static bool
may_be_scanned(const PlannerInfo *root, const RelOptInfo *rel, const Path *path)
{
	const RangeTblEntry *rte = IS_SIMPLE_REL(rel) ? planner_rt_fetch(rel->relid, root) : NULL;

	return enable_seqscan && rte != NULL && rte->rtekind == RTE_RELATION && !rte->inh && rte->tablesample == NULL &&
		path->param_info == NULL &&
		(path->pathtype == T_IndexOnlyScan || path->pathtype == T_IndexScan || path->pathtype == T_BitmapHeapScan || path->pathtype == T_Gather);
}

Path *
hjg_planner_choose_scan(PlannerInfo *root, HjgQueryFacts *facts, const HjgUnitCosts *costs, RelOptInfo *rel, Path *cheapest)
{
	const bool	partial = cheapest->parallel_workers > 0;
	HjgSideFacts *side;
	Path	  **seqscan;
	HjgScanTimes times;

	if (!may_be_scanned(root, rel, cheapest) || is_too_large(costs, rel, cheapest))
		return cheapest;
	side = hjg_planner_side(facts, rel, NULL);
	if (!side->readable)
		return cheapest;
	seqscan = &side->seqscans[partial];
	if (*seqscan == NULL)
	{
		/* it must last as long as the facts: the current context may be a short-lived one of GEQO */
		MemoryContext old_context = MemoryContextSwitchTo(root->planner_cxt);

		*seqscan = make_seqscan(root, rel, partial);
		MemoryContextSwitchTo(old_context);
	}
	times = hjg_planner_scan_times(costs, side, *seqscan, (*seqscan)->rows, false);
	return (*seqscan)->total_cost - hjg_planner_scan_credit(rel, &times, (*seqscan)->rows) < cheapest->total_cost * MOST_DEARER &&
		times.own_ns + hjg_model_wait_ns(&times, 0) < least_reading_ns(costs, cheapest) ? *seqscan : cheapest;
}
