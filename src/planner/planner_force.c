/*
 * planner_force.c
 *	  Makes room for the node under hjoin_gpu.force: core's paths are dropped, but what a foreign server does itself stays there.
 */
#include "postgres.h"

#include "nodes/pathnodes.h"

#include "planner/hjg_planner_path.h"

/*
 * Remove core's paths without parameters from a list, but those of a foreign server. The paths themselves may still be
 * referred to.
 */
static List *
without_core_paths(List *paths)
{
	ListCell   *lc;

	foreach(lc, paths)
		if (((const Path *) lfirst(lc))->param_info == NULL && !hjg_planner_is_ours(lfirst(lc)) && !IsA(lfirst(lc), ForeignPath))
			paths = foreach_delete_current(paths, lc);
	return paths;
}

void
hjg_planner_drop_core_paths(RelOptInfo *rel)
{
	rel->pathlist = without_core_paths(rel->pathlist);
	rel->partial_pathlist = without_core_paths(rel->partial_pathlist);
}

bool
hjg_planner_is_pushed_down(const RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->pathlist)
		if (IsA(lfirst(lc), ForeignPath))
			return true;
	return false;
}

void
hjg_planner_keep_offers(RelOptInfo *joinrel)
{
	ListCell   *lc;

	foreach(lc, joinrel->pathlist)
		if (hjg_planner_is_ours(lfirst(lc)))
		{
			hjg_planner_drop_core_paths(joinrel);
			return;
		}
}
