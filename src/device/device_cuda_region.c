/*
 * device_cuda_region.c
 *	  The arena as pinned memory, registered in regions instead of by join.
 *
 * A copy from or to registered memory runs at the speed of the bus, any other at a fifth of it.
 * Registering takes about 35 ms a GiB and allocates untouched pages, so a region is registered when a join
 * first copies from or to it, and stays so until no join has copied for a while.
 *
 * The driver pins the pages that it finds.  If a server process returned a slab's memory to the system,
 * the device would go on reading and writing the old pages.  So registered slabs are marked, and marked
 * slabs are not trimmed (HjgSlab).  When this process ends, the supervisor clears its marks.  When a lease
 * finds no memory because of them, all regions are unregistered as soon as no operation copies.
 *
 * Inputs are mapped read-only, which the driver must be told.  A driver that cannot register such memory
 * still copies from it, only slower.
 */
#include <pthread.h>
#include <stdlib.h>

#include "device/hjg_cuda_join.h"

#define REGION_SLABS 32
#define REGION_BYTES ((size_t) REGION_SLABS * HJG_SLAB_BYTES)
#define RETRY_NS 1000000000ull	/* after a region could not be registered */

/* Bytes of a build side that are queued before the job's cancellation is checked. */
#define COPY_STEP_BYTES ((size_t) 128 * 1024 * 1024)

typedef struct Region
{
	const char *base;
	hjg_u32		first;			/* slab */
	hjg_u32		nslabs;
	unsigned	flags;
	hjg_u32		pinned;
	hjg_u64		retry_ns;		/* earliest time of the next attempt */
} Region;

static pthread_rwlock_t regions_in_use = PTHREAD_RWLOCK_INITIALIZER;	/* shared: operations, exclusive: unregistering */
static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;	/* registering */
static const HjgArenaView *arena_view;
static Region *regions;
static hjg_u32 nregions;		/* of inputs, then as many of results */
static hjg_u32 memory_wanted;	/* in the arena, when regions were last unregistered for it */
static hjg_u64 last_use_ns;

void
hjg_cuda_region_open(const HjgArenaView *with)
{
	free(regions);
	regions = NULL;
	arena_view = with;
	nregions = with == NULL ? 0 : (with->nslabs + REGION_SLABS - 1) / REGION_SLABS;
	if (nregions > 0)
		regions = calloc(2 * (size_t) nregions, sizeof(Region));
	if (regions == NULL)
		nregions = 0;
	for (hjg_u32 i = 0; i < nregions; i++)
	{
		const hjg_u32 first = i * REGION_SLABS;
		const hjg_u32 nslabs = with->nslabs - first < REGION_SLABS ? with->nslabs - first : REGION_SLABS;

		regions[i] = (Region) {
			.base = with->inputs + i * REGION_BYTES, .first = first, .nslabs = nslabs,
			.flags = HJG_CUDA_HOST_PORTABLE | HJG_CUDA_HOST_READ_ONLY
		};
		regions[nregions + i] = (Region) {
			.base = with->results + i * REGION_BYTES, .first = with->nslabs + first, .nslabs = nslabs,
			.flags = HJG_CUDA_HOST_PORTABLE
		};
	}
	memory_wanted = with == NULL ? 0 : __atomic_load_n(&with->control->memory_wanted, __ATOMIC_RELAXED);
}

/* Find the region of a pointer; NULL if it is in no slab. */
static Region *
region_of(const char *ptr)
{
	if (nregions == 0)
		return NULL;
	if (ptr >= arena_view->inputs && ptr < arena_view->inputs + (size_t) arena_view->nslabs * HJG_SLAB_BYTES)
		return &regions[(size_t) (ptr - arena_view->inputs) / REGION_BYTES];
	if (ptr >= arena_view->results && ptr < arena_view->results + (size_t) arena_view->nslabs * HJG_SLAB_BYTES)
		return &regions[nregions + (size_t) (ptr - arena_view->results) / REGION_BYTES];
	return NULL;
}

static void
clear_holds(const Region *region, hjg_u32 nslabs)
{
	for (hjg_u32 i = 0; i < nslabs; i++)
		__atomic_store_n(&arena_view->holds[region->first + i], 0, __ATOMIC_SEQ_CST);
}

/* Mark the region's slabs as held; false when a slab's memory is being removed. */
static bool
hold_slabs(const Region *region)
{
	for (hjg_u32 i = 0; i < region->nslabs; i++)
	{
		__atomic_store_n(&arena_view->holds[region->first + i], 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&arena_view->slabs[region->first + i].trimming, __ATOMIC_SEQ_CST) == 0)
			continue;
		clear_holds(region, i + 1);
		return false;
	}
	return true;
}

void
hjg_cuda_region_enter(void)
{
	pthread_rwlock_rdlock(&regions_in_use);
}

void
hjg_cuda_region_leave(void)
{
	__atomic_store_n(&last_use_ns, hjg_now_ns(), __ATOMIC_RELAXED);
	pthread_rwlock_unlock(&regions_in_use);
}

void
hjg_cuda_region_pin(const void *ptr)
{
	Region	   *region = region_of(ptr);

	if (region == NULL || __atomic_load_n(&region->pinned, __ATOMIC_ACQUIRE) != 0)
		return;
	pthread_mutex_lock(&regions_lock);
	if (region->pinned == 0 && hjg_now_ns() >= region->retry_ns)
	{
		region->retry_ns = hjg_now_ns() + RETRY_NS;
		if (hold_slabs(region))
		{
			if (hjg_cuda.host_register((void *) (size_t) region->base, (size_t) region->nslabs * HJG_SLAB_BYTES,
									   region->flags) == HJG_CUDA_SUCCESS)
				__atomic_store_n(&region->pinned, 1, __ATOMIC_RELEASE);
			else
				clear_holds(region, region->nslabs);
		}
	}
	pthread_mutex_unlock(&regions_lock);
}

void
hjg_cuda_region_trim(unsigned idle_ms)
{
	const hjg_u32 wanted = arena_view == NULL ? memory_wanted : __atomic_load_n(&arena_view->control->memory_wanted, __ATOMIC_RELAXED);
	const hjg_u64 unused_ns = hjg_now_ns() - __atomic_load_n(&last_use_ns, __ATOMIC_RELAXED);

	if ((wanted == memory_wanted && unused_ns < (hjg_u64) idle_ms * 1000000) || pthread_rwlock_trywrlock(&regions_in_use) != 0)
		return;
	memory_wanted = wanted;
	for (Region *region = regions; region < regions + 2 * nregions; region++)
	{
		if (region->pinned == 0 || hjg_cuda.host_unregister((void *) (size_t) region->base) != HJG_CUDA_SUCCESS)
			continue;
		region->pinned = 0;
		region->retry_ns = 0;
		clear_holds(region, region->nslabs);
	}
	pthread_rwlock_unlock(&regions_in_use);
}

/* ---- copies ---- */

HjgStatus
hjg_cuda_bring_rows(HjgCudaStream *stream, HjgCudaOfRow what, size_t width, HjgCudaPtr to, const HjgSegment *segments, int nsegments,
				    hjg_u64 row, hjg_u64 n)
{
	HjgStatus	status = HJG_OK;

	for (int i = 0; i < nsegments && n > 0 && status == HJG_OK; i++)
	{
		const char *from = what == HJG_CUDA_PAYLOAD ? segments[i].payload : segments[i].keys;
		const hjg_u64 end = (hjg_u64) segments[i].first_row + segments[i].nrows;
		hjg_u64		m;

		if (row >= end)
			continue;
		m = end - row < n ? end - row : n;
		hjg_cuda_region_pin(from);
		status = hjg_cuda_copy_in(stream, to, from + (row - segments[i].first_row) * width, m * width);
		to += m * width;
		row += m;
		n -= m;
	}
	return status;
}

HjgStatus
hjg_cuda_pace(HjgCudaStream *stream, size_t *queued_bytes, size_t more_bytes)
{
	HjgStatus	status;

	*queued_bytes += more_bytes;
	if (*queued_bytes < COPY_STEP_BYTES)
		return HJG_OK;
	*queued_bytes = 0;
	status = hjg_cuda_wait(stream);
	return status == HJG_OK ? hjg_cuda_mark(stream, HJG_CUDA_TRANSFER_IN) : status;
}
