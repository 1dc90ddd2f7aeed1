/*
 * planner_travel.c
 *	  Price what a join's Bloom filter saves in the grouping of its outer side.
 *
 * The filter is tested by the scan that the join's keys come from (node_travel.c). Where the outer side is a subquery that groups, and the
 * keys are keys of its groups, only the rows of groups that have a partner are grouped at all.  That may be most of a query's time, and decides which side is
 * built and which join comes first. So the price of the join says it.
 *
 * The price does not count savings in other joins on the way of the filter: a join that drops many rows comes first anyway, as far as
 * core knows.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

#include "base/hjg_base.h"
#include "base/hjg_compat.h"
#include "planner/hjg_planner_path.h"
#include "scan/hjg_scan.h"

bool
hjg_planner_drops_probe_rows(JoinType jointype)
{
	return jointype == JOIN_INNER || jointype == JOIN_SEMI || jointype == JOIN_RIGHT || HJG_IS_BUILD_ONLY(jointype);
}

/* Find the path that groups the rows of a subquery's path, and its input; NULL: there is none. */
static const Path *
find_grouping(const Path *path, const Path **input)
{
	if (!IsA(path, SubqueryScanPath))
		return NULL;
	path = ((const SubqueryScanPath *) path)->subpath;
	if (IsA(path, ProjectionPath))
		path = ((const ProjectionPath *) path)->subpath;
	if (hjg_planner_is_grouping(path))
		*input = linitial(((const CustomPath *) path)->custom_paths);
	else if (IsA(path, AggPath))
		*input = ((const AggPath *) path)->subpath;
	else
		return NULL;
	return path;
}

Cost
hjg_planner_grouping_price(const Path *path)
{
	const Path *input;
	const Path *grouping = find_grouping(path, &input);

	if (grouping == NULL)
		return 0;
	/* the node's own price is in the unit of core's grouping, which is less for the same time */
	return Max(grouping->total_cost - input->total_cost, hjg_planner_is_grouping(grouping) ? hjg_planner_grouping_join_price(grouping) : 0);
}

/* Does the filter reach the scan of a table below a path?  By the rules of node_travel.c. */
static bool
reaches_scan(const Path *path, Index varno)
{
	if (IsA(path, ProjectionPath))
		path = ((const ProjectionPath *) path)->subpath;
	if (path->parent->relid == varno)
		return path->pathtype == T_SeqScan || path->pathtype == T_IndexScan || path->pathtype == T_IndexOnlyScan ||
			path->pathtype == T_BitmapHeapScan;
	if (hjg_planner_is_ours(path))
	{
		const List *children = ((const CustomPath *) path)->custom_paths;
		const Path *outer = linitial(children);

		return reaches_scan(bms_is_member(varno, outer->parent->relids) ? outer : lsecond(children), varno);
	}
	if (IsA(path, NestPath) || IsA(path, HashPath))
	{
		const Path *outer = ((const JoinPath *) path)->outerjoinpath;

		return bms_is_member(varno, outer->parent->relids) && reaches_scan(outer, varno);
	}
	return false;
}

/* Find the table of the subquery that all outer keys are columns of, grouped by or determined by what is; 0: there is none. */
static Index
find_key_table(const HjgCandidate *candidate)
{
	const RelOptInfo *rel = candidate->outerrel;
	Index		varno = 0;
	ListCell   *lc;

	foreach(lc, candidate->hashclauses)
	{
		const RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		const Var  *key = (const Var *) hjg_scan_strip_relabel(rinfo->outer_is_left ? get_leftop(rinfo->clause) : get_rightop(rinfo->clause));
		const Var  *column;

		if (!IsA(key, Var) || key->varno != rel->relid || key->varattno <= 0)
			return 0;
		column = (const Var *) hjg_scan_strip_relabel((Node *) list_nth_node(TargetEntry, rel->subroot->parse->targetList, key->varattno - 1)->expr);
		if (!IsA(column, Var) || column->varlevelsup > 0 || column->varattno <= 0 || (varno > 0 && column->varno != varno))
			return 0;
		varno = column->varno;
	}
	return varno;
}

Cost
hjg_planner_travel_saves(const HjgCandidate *candidate, const Path *outer, double partnered)
{
	const Path *input;
	const double passing = partnered + HJG_BLOOM_FALSE_SHARE;
	Index		varno;

	if (find_grouping(outer, &input) == NULL || hjg_bloom_filter == HJG_BLOOM_FILTER_OFF || !hjg_planner_drops_probe_rows(candidate->jointype) ||
		candidate->nhashed_keys > 0 || passing > HJG_BLOOM_MOST_PASSING)
		return 0;
	varno = find_key_table(candidate);
	if (varno == 0 || !reaches_scan(input, varno))
		return 0;
	return hjg_planner_grouping_price(outer) * (1 - passing);
}

int
hjg_planner_travel_us(const HjgJoinShape *join, const Path *outer)
{
	const HjgTravelingFilter filter = {
		.build_rows = join->build_rows * join->participants, .nkeys = join->nkeys, .partnered = join->partnered
	};
	const Path *input;
	const Path *grouping = find_grouping(outer, &input);

	return grouping != NULL && hjg_planner_is_grouping(grouping) ? hjg_planner_grouping_us(grouping, &filter) : 0;
}
