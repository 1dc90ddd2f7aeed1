/*
 * device_cuda_region.c
 *	  The arena as pinned memory: registered in regions, not by join.
 *
 * A copy from or to registered memory runs at the speed of the bus, any other at
 * a fifth of it.  Registering takes about 35 ms a GiB and gives untouched pages
 * memory, so a region is registered when a join first copies from or to it, and
 * stays so until no join has copied for a while.
 *
 * The driver pins the pages that it finds.  If the supervisor gave the memory of a
 * slab back to the system meanwhile, the device would go on reading and writing
 * the old pages; so each slab has a word that says who may (HjgSlab.hold), and the
 * registered ones are not trimmed.  When this process ends, the supervisor clears
 * its words.
 */
#include <pthread.h>
#include <stdlib.h>

#include "device/hjg_cuda_join.h"

#define REGION_SLABS 32
#define REGION_BYTES ((size_t) REGION_SLABS * HJG_SLAB_BYTES)
#define RETRY_NS 1000000000ull	/* after a region could not be registered */

typedef struct Region
{
	hjg_u32		pinned;
	hjg_u64		retry_ns;		/* not before then */
} Region;

static pthread_rwlock_t use = PTHREAD_RWLOCK_INITIALIZER;	/* shared: operations, exclusive: unregistering */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* registering */
static const HjgArena *arena;
static Region *regions;
static hjg_u32 nregions;
static hjg_u64 last_use_ns;

void
hjg_cuda_region_open(const HjgArena *with)
{
	free(regions);
	regions = NULL;
	arena = with;
	nregions = with == NULL ? 0 : (with->nslabs + REGION_SLABS - 1) / REGION_SLABS;
	if (nregions > 0)
		regions = calloc(nregions, sizeof(Region));
	if (regions == NULL)
		nregions = 0;
}

static hjg_u32
slabs_of(hjg_u32 region)
{
	const hjg_u32 first = region * REGION_SLABS;

	return arena->nslabs - first < REGION_SLABS ? arena->nslabs - first : REGION_SLABS;
}

static char *
base_of(hjg_u32 region)
{
	return arena->slab_base + (size_t) region * REGION_BYTES;
}

static void
unhold(hjg_u32 region, hjg_u32 nslabs)
{
	for (hjg_u32 i = 0; i < nslabs; i++)
		__atomic_store_n(&arena->slabs[region * REGION_SLABS + i].hold, HJG_HOLD_NONE, __ATOMIC_SEQ_CST);
}

/* Keep the supervisor away; false when it is at a slab of the region just now. */
static bool
hold(hjg_u32 region)
{
	for (hjg_u32 i = 0; i < slabs_of(region); i++)
	{
		hjg_u32		none = HJG_HOLD_NONE;

		if (__atomic_compare_exchange_n(&arena->slabs[region * REGION_SLABS + i].hold, &none, HJG_HOLD_DEVICE, false,
										__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			continue;
		unhold(region, i);
		return false;
	}
	return true;
}

void
hjg_cuda_region_enter(void)
{
	pthread_rwlock_rdlock(&use);
}

void
hjg_cuda_region_leave(void)
{
	__atomic_store_n(&last_use_ns, hjg_arena_now_ns(), __ATOMIC_RELAXED);
	pthread_rwlock_unlock(&use);
}

void
hjg_cuda_region_pin(const void *ptr)
{
	const size_t off = (size_t) ((const char *) ptr - (arena != NULL ? arena->slab_base : NULL));
	hjg_u32		region;

	if (nregions == 0 || (const char *) ptr < arena->slab_base || off >= (size_t) arena->nslabs * HJG_SLAB_BYTES)
		return;
	region = (hjg_u32) (off / REGION_BYTES);
	if (__atomic_load_n(&regions[region].pinned, __ATOMIC_ACQUIRE) != 0)
		return;
	pthread_mutex_lock(&lock);
	if (regions[region].pinned == 0 && hjg_arena_now_ns() >= regions[region].retry_ns)
	{
		const hjg_u32 nslabs = slabs_of(region);

		regions[region].retry_ns = hjg_arena_now_ns() + RETRY_NS;
		if (hold(region))
		{
			if (hjg_cuda.host_register(base_of(region), (size_t) nslabs * HJG_SLAB_BYTES,
									   HJG_CUDA_HOST_PORTABLE) == HJG_CUDA_SUCCESS)
				__atomic_store_n(&regions[region].pinned, 1, __ATOMIC_RELEASE);
			else
				unhold(region, nslabs);
		}
	}
	pthread_mutex_unlock(&lock);
}

void
hjg_cuda_region_trim(unsigned idle_ms)
{
	if (hjg_arena_now_ns() - __atomic_load_n(&last_use_ns, __ATOMIC_RELAXED) < (hjg_u64) idle_ms * 1000000 ||
		pthread_rwlock_trywrlock(&use) != 0)
		return;
	for (hjg_u32 region = 0; region < nregions; region++)
	{
		if (regions[region].pinned == 0)
			continue;
		if (hjg_cuda.host_unregister(base_of(region)) != HJG_CUDA_SUCCESS)
			continue;
		regions[region].pinned = 0;
		regions[region].retry_ns = 0;
		unhold(region, slabs_of(region));
	}
	pthread_rwlock_unlock(&use);
}
