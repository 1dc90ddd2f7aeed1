/*
 * planner_bound.c
 *	  What a path of ours costs at least, by the prices and rows of its children alone, and
 *	  which order of the sides needs no look.
 *
 * The hook is called for every pair of relations in both orders, and most pairs are better served by core: by
 * an index, or for few rows.  There the planner must take no longer than without us, so that
 * nothing is looked up, counted or allocated that these bounds make superfluous.
 */
#include "postgres.h"

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "planner/hjg_planner_path.h"

/* A table is read instead of its index alone where core's price for that is at most so much higher. */
#define MOST_DEARER 1.25

/* Prices that differ less are one to add_path(): the path that is there stays. */
#define CLEARLY_MORE 1.01

/* The ceiling is made of the same estimates as core's price of that plan, but not in all the same way. */
#define WELL_MORE 1.25

/* Does the child hand over its rows many at a time, or does the node read them itself?  As far as its path tells. */
static bool
comes_in_vectors(const Path *child)
{
	return hjg_direct_scan && (child->pathtype == T_SeqScan || hjg_planner_is_ours(child));
}

/*
 * What its price has for handing over rows may be saved; what the node spends on them instead is
 * counted.  Of shared work it is not, as the child's number of processes may differ from the join's.
 */
static Cost
find_least_reading(const HjgCandidate *candidate, const Path *child, bool shared)
{
	const HjgUnitCosts *costs = candidate->costs;
	const RelOptInfo *rel = child->parent;
	double		slots_ns = child->rows * costs->marshal_tuple_ns;
	double		rows = child->rows;
	double		saved_ns;
	double		spent_ns;
	Cost		more;

	if (!comes_in_vectors(child))
	{
		saved_ns = 0;
		spent_ns = slots_ns;
	}
	else if (child->pathtype == T_SeqScan)
	{
		rows = rel->tuples * (child->rows / Max(rel->rows, 1));
		saved_ns = rows * costs->scan_tuple_ns;
		spent_ns = rows * costs->direct_tuple_ns;
	}
	else
	{
		saved_ns = rows * costs->emit_tuple_ns;
		spent_ns = rows * costs->column_ns;
	}
	more = Min(spent_ns * candidate->ns_cost - Min(saved_ns * candidate->ns_cost, cpu_tuple_cost * rows),
			   slots_ns * candidate->ns_cost);
	return Max(child->total_cost + (shared ? Min(more, 0) : more), 0);
}

static Cost
least_reading(HjgCandidate *candidate, const Path *child, bool shared)
{
	Cost		least;

	for (int i = 0; i < candidate->nreadings; i++)
		if (candidate->readings[i].child == child && candidate->readings[i].shared == shared)
			return candidate->readings[i].least;
	least = find_least_reading(candidate, child, shared);
	if (candidate->nreadings < HJG_KNOWN_READINGS)
		candidate->readings[candidate->nreadings++] = (HjgReading) {child, shared, least};
	return least;
}

/*
 * Is there a path of no parameters that is about as cheap, or cheaper?  Paths of ours have no order, so that such a
 * one serves better.  A list begins with its cheapest path; those that a setting disables come last.
 */
static bool
is_beaten(const List *paths, Cost startup, Cost total, int ndisabled, bool consider_startup)
{
	ListCell   *lc;

	foreach(lc, paths)
	{
		const Path *path = lfirst(lc);

		if (total * CLEARLY_MORE <= path->total_cost || HJG_DISABLED_NODES(path) > ndisabled)
			return false;
		if (path->param_info == NULL && (!consider_startup || startup * CLEARLY_MORE > path->startup_cost))
			return true;
	}
	return false;
}

/* As in add_partial_path_precheck(), one that is no cheaper than a complete path serves nobody. */
bool
hjg_planner_is_wanted(const HjgCandidate *candidate, Cost startup, Cost total, bool partial)
{
	const RelOptInfo *joinrel = candidate->joinrel;
	int			ndisabled;

	if (hjg_force)
		return true;
	total -= candidate->spared;
	ndisabled = HJG_DISABLED_NODES(candidate->outerrel->cheapest_total_path) +
		HJG_DISABLED_NODES(candidate->innerrel->cheapest_total_path);
	if (partial)
		return !is_beaten(joinrel->partial_pathlist, startup, total, ndisabled, false) &&
			!is_beaten(joinrel->pathlist, startup, total, ndisabled, false);
	return !is_beaten(joinrel->pathlist, startup, total, ndisabled, candidate->consider_startup);
}

bool
hjg_planner_may_be_wanted(const HjgCandidate *candidate, Cost startup, Cost total, bool partial)
{
	return hjg_planner_is_wanted(candidate, startup, Min(total, candidate->below_merges[partial]), partial);
}

/*
 * What the node's own work is not below, beside the reading: build rows are carried and put into a table (by a
 * device in less time than is known here), and the pairs of an inner join are handed out, unless they are aggregated.
 */
static double
least_work_ns(const HjgCandidate *candidate, const Path *outer_path, const Path *inner_path, bool shared)
{
	const HjgUnitCosts *costs = candidate->costs;
	const int	nprocesses = 1 + Max(outer_path->parallel_workers, shared ? inner_path->parallel_workers : 0);
	const int	build_columns = list_length(candidate->innerrel->reltarget->exprs);
	const double build_rows = shared ? candidate->innerrel->rows : inner_path->rows;
	double		ns = build_rows * build_columns * costs->column_ns / (shared ? nprocesses : 1);

	if (!hjg_planner_has_device(candidate->facts))
		ns += build_rows * Min(costs->build_tuple_ns, costs->dense_build_ns) / Max(nprocesses, HJG_ASSUMED_THREADS);
	if (candidate->jointype == JOIN_INNER && !candidate->unique_outer && !candidate->unique_inner &&
		candidate->aggregates == NULL)
		ns += candidate->joinrel->rows / nprocesses *
			(costs->emit_tuple_ns + costs->column_ns *
			 (build_columns + list_length(candidate->outerrel->reltarget->exprs)));
	return ns;
}

bool
hjg_planner_loses(HjgCandidate *candidate, const Path *outer_path, const Path *inner_path,
				  bool parallel_aware, bool partial)
{
	const Cost	build = candidate->costs->startup_ns * candidate->ns_cost +
		least_reading(candidate, inner_path, parallel_aware);
	const Cost	startup = build + outer_path->startup_cost;
	const Cost	total = Max(build + least_reading(candidate, outer_path, parallel_aware) +
							least_work_ns(candidate, outer_path, inner_path, parallel_aware) * candidate->ns_cost,
							startup);

	return !hjg_planner_may_be_wanted(candidate, startup, total, partial);
}

/* Of its price, reading a child can at most save the handing over of rows. */
static Cost
unavoidable(const Path *child)
{
	const RelOptInfo *rel = child->parent;

	if (!comes_in_vectors(child))
		return child->total_cost;
	return child->total_cost - cpu_tuple_cost *
		(child->pathtype == T_SeqScan ? rel->tuples * (child->rows / Max(rel->rows, 1)) : child->rows);
}

bool
hjg_planner_outdone(HjgCandidate *candidate)
{
	const RelOptInfo *joinrel = candidate->joinrel;
	const RelOptInfo *outerrel = candidate->outerrel;
	const RelOptInfo *innerrel = candidate->innerrel;
	Cost		inner;
	Cost		total;
	bool		wanted;

	candidate->least_startup = candidate->least_total = 0;
	if (outerrel->cheapest_total_path == NULL || innerrel->cheapest_total_path == NULL)
		return false;
	inner = unavoidable(innerrel->cheapest_total_path);
	total = inner + unavoidable(outerrel->cheapest_total_path);
	wanted = hjg_planner_may_be_wanted(candidate, inner, total, false);
	candidate->least_startup = inner;
	candidate->least_total = total;
	if (!joinrel->consider_parallel || outerrel->partial_pathlist == NIL)
		return !wanted;
	if (innerrel->partial_pathlist != NIL)
		inner = Min(inner, unavoidable(linitial(innerrel->partial_pathlist)));
	total = inner + unavoidable(linitial(outerrel->partial_pathlist));
	candidate->least_startup = Min(candidate->least_startup, inner + parallel_setup_cost);
	candidate->least_total = Min(candidate->least_total, total + parallel_setup_cost);
	return !wanted && !hjg_planner_may_be_wanted(candidate, 0, total, true);
}

/* Of partitions, a plan that wants but the first rows reads some only. */
bool
hjg_planner_beyond_ceiling(const HjgCandidate *candidate)
{
	const HjgQueryFacts *facts = candidate->facts;
	const Cost	least = !facts->first_rows ? candidate->least_total :
		IS_OTHER_REL(candidate->joinrel) ? 0 : candidate->least_startup;

	return least > facts->ceiling * WELL_MORE + candidate->spared;
}

bool
hjg_planner_hopeless(HjgCandidate *candidate)
{
	const RelOptInfo *joinrel = candidate->joinrel;
	const RelOptInfo *outerrel = candidate->outerrel;
	const RelOptInfo *innerrel = candidate->innerrel;
	const Cost	begin = candidate->costs->startup_ns * candidate->ns_cost;
	Cost		inner;
	Cost		outer_startup;
	bool		wanted;

	if (outerrel->cheapest_total_path == NULL || innerrel->cheapest_total_path == NULL)
		return false;
	inner = least_reading(candidate, innerrel->cheapest_total_path, false);
	outer_startup = outerrel->cheapest_total_path->startup_cost;
	if (outerrel->cheapest_startup_path != NULL)
		outer_startup = Min(outer_startup, outerrel->cheapest_startup_path->startup_cost);
	candidate->least_startup = begin + inner + outer_startup;
	candidate->least_total = begin + inner + least_reading(candidate, outerrel->cheapest_total_path, false);
	wanted = hjg_planner_may_be_wanted(candidate, candidate->least_startup, candidate->least_total, false);
	if (joinrel->consider_parallel && outerrel->partial_pathlist != NIL)
	{
		Cost		total;

		if (innerrel->partial_pathlist != NIL)
			inner = Min(inner, least_reading(candidate, linitial(innerrel->partial_pathlist), true));
		total = begin + inner + least_reading(candidate, linitial(outerrel->partial_pathlist), true);
		wanted = wanted || hjg_planner_may_be_wanted(candidate, 0, total, true);
		candidate->least_startup = Min(candidate->least_startup, begin + inner + parallel_setup_cost);
		candidate->least_total = Min(candidate->least_total, total + parallel_setup_cost);
	}
	return !wanted || hjg_planner_beyond_ceiling(candidate);
}

/* Time of core's scan, pages in memory, and of taking its rows; of scans a price says about what they take, as compared with others. */
static double
slot_reading_ns(const HjgCandidate *candidate, const Path *scan)
{
	const HjgUnitCosts *costs = candidate->costs;

	return scan->total_cost * costs->scan_tuple_ns / Max(cpu_tuple_cost, 0.001) + scan->rows * costs->marshal_tuple_ns;
}

/* Time of the node's own reading of a table, its filter included. */
static double
table_reading_ns(const HjgCandidate *candidate, const RelOptInfo *rel)
{
	const HjgUnitCosts *costs = candidate->costs;

	return rel->tuples * (costs->direct_tuple_ns + rel->baserestrictcost.per_tuple * costs->scan_tuple_ns / Max(cpu_tuple_cost, 0.001)) +
		rel->pages * (BLCKSZ / (1024.0 * 1024.0)) * costs->read_mb_ns;
}

Path *
hjg_planner_cheapest_child(PlannerInfo *root, HjgCandidate *candidate, RelOptInfo *rel, HjgSideFacts *room)
{
	Path	   *cheapest = rel->cheapest_total_path;
	HjgSideFacts *side;

	if (!hjg_direct_scan || cheapest->pathtype != T_IndexOnlyScan || ((IndexPath *) cheapest)->indexclauses != NIL)
		return cheapest;
	side = hjg_planner_side(candidate->facts, rel, room);
	if (!side->readable)
		return cheapest;
	if (side->scan == NULL)
	{
		/* it lasts as long as the facts: the current context may be a short-lived one of GEQO */
		MemoryContext old_context = MemoryContextSwitchTo(root->planner_cxt);

		side->scan = create_seqscan_path(root, rel, NULL, 0);
		MemoryContextSwitchTo(old_context);
	}
	return enable_seqscan && side->scan->total_cost < cheapest->total_cost * MOST_DEARER &&
		table_reading_ns(candidate, rel) < slot_reading_ns(candidate, cheapest) ? side->scan : cheapest;
}

/* What a side's rows take more on the build side than on the probe side. */
static double
building_ns(const HjgUnitCosts *costs, const RelOptInfo *rel, bool vectors)
{
	const int	ncolumns = list_length(rel->reltarget->exprs);

	/* vectors are probed where they lie */
	return rel->rows * (Max(costs->build_tuple_ns - costs->probe_tuple_ns, 0) +
						(vectors ? ncolumns * costs->column_ns : 0) +
						costs->memory_mb_ns * (rel->reltarget->width + HJG_ROW_OVERHEAD_BYTES) / (1024.0 * 1024.0));
}

/*
 * The sides of an inner join may be exchanged.  Where nothing else tells them apart than how many rows
 * they have, and how wide, only the one that is cheaper to build of has to be tried.
 */
bool
hjg_planner_reverse(const HjgCandidate *candidate)
{
	const RelOptInfo *outerrel = candidate->outerrel;
	const RelOptInfo *innerrel = candidate->innerrel;
	bool		vectors;
	double		outer_ns;
	double		inner_ns;

	if (candidate->jointype != JOIN_INNER || outerrel->cheapest_total_path == NULL ||
		innerrel->cheapest_total_path == NULL ||
		(candidate->consider_startup &&
		 innerrel->cheapest_total_path->total_cost < outerrel->cheapest_total_path->total_cost) ||
		(outerrel->partial_pathlist != NIL && innerrel->partial_pathlist == NIL))
		return false;
	vectors = comes_in_vectors(outerrel->cheapest_total_path);
	if (vectors != comes_in_vectors(innerrel->cheapest_total_path))
		return false;
	outer_ns = building_ns(candidate->costs, outerrel, vectors);
	inner_ns = building_ns(candidate->costs, innerrel, vectors);
	return (inner_ns > outer_ns ||
			(inner_ns == outer_ns && bms_next_member(innerrel->relids, -1) > bms_next_member(outerrel->relids, -1))) &&
		!hjg_planner_has_device(candidate->facts);
}
