/*
 * arena_pg.c
 *	  Creates the arena when the postmaster creates its shared memory.
 *
 * The hook runs in the postmaster before any child exists, and again when the postmaster restarts after a
 * backend's crash.  The old arena may then hold leases of killed processes, so it is dropped and a new one
 * created.  A device process of the old arena keeps its mapping until it notices that its supervisor is
 * gone; it cannot reach the new arena.
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

	/* children inherit it; a single-user server has no supervisor to serve an arena */
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
