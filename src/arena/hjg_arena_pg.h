/*
 * hjg_arena_pg.h
 *	  The arena of PostgreSQL's processes: the postmaster creates it, and all its children inherit it.
 */
#ifndef HJG_ARENA_PG_H
#define HJG_ARENA_PG_H

#include "postgres.h"

#include "arena/hjg_arena.h"

/* base is NULL when there is no arena. */
extern HjgArena hjg_arena_map;

/* Have an arena of this size created at server start; called from _PG_init in the postmaster. */
extern void hjg_arena_init(int size_mb);

#endif							/* HJG_ARENA_PG_H */
