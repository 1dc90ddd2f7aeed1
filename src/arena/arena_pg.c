/*
 * arena_pg.c
 *	  Makes the arena when the postmaster makes its shared memory.
 *
 * The hook runs in the postmaster before any child exists, and again when it
 * starts over after a crash of a backend: then the old arena may hold leases of
 * processes that were killed in the middle of anything, so it is dropped and a
 * fresh one made.  A device process of the old arena keeps its own mapping until it
 * notices that its supervisor is gone; it cannot reach the new one.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/ipc.h"

#include "arena/hjg_arena_pg.h"

HjgArena	hjg_arena_map;

#define NDESCRIPTORS 2			/* of the halves */

static int	arena_size_mb;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
drop_arena(void)
{
	if (hjg_arena_map.base == NULL)
		return;
	hjg_arena_detach(&hjg_arena_map);
	for (int i = 0; i < NDESCRIPTORS; i++)
		ReleaseExternalFD();
}

static void
make_arena(void)
{
	const char *step;
	int			error;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	/* children inherit; a single-user server has no supervisor to serve an arena */
	if (IsUnderPostmaster || !IsPostmasterEnvironment)
		return;

	drop_arena();
	error = hjg_arena_create(&hjg_arena_map, (size_t) arena_size_mb * 1024 * 1024, &step);
	if (error != 0)
	{
		errno = error;
		ereport(WARNING,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("could not make the shared memory of hjoin_gpu: %m"),
				 errdetail("%s failed for %d MB.", step, arena_size_mb),
				 errhint("The server works without it. Reduce hjoin_gpu.arena_size if it is too large for this system.")));
		return;
	}
	for (int i = 0; i < NDESCRIPTORS; i++)
		ReserveExternalFD();
}

void
hjg_arena_init(int size_mb)
{
	arena_size_mb = size_mb;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = make_arena;
}
