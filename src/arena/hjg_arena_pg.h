/*
 * hjg_arena_pg.h
 *	  The arena as PostgreSQL's processes have it: made by the postmaster,
 *	  inherited by all its children.
 */
#ifndef HJG_ARENA_PG_H
#define HJG_ARENA_PG_H

#include "postgres.h"

#include "arena/hjg_arena.h"

/* base is NULL when there is no arena. */
extern HjgArena hjg_arena_map;

/* Have an arena of that size made at server start.  In _PG_init of the postmaster. */
extern void hjg_arena_init(int size_mb);

#endif							/* HJG_ARENA_PG_H */
