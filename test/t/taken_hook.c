/*
 * taken_hook.c
 *	  A library for 025_other_libraries.pl that, like Citus, replaces set_join_pathlist_hook without calling the one before.
 */
#include "postgres.h"

#include "fmgr.h"
#include "optimizer/paths.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static void
look_away(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
}

void
_PG_init(void)
{
	set_join_pathlist_hook = look_away;
}
