/*
 * huge_worker.c
 *	  A background worker that has the kernel collapse memory into huge pages.
 *
 * Scans start it when much memory that is in small pages was read or filled, at most once a minute. It looks through all ranges once, and
 * rests as long as it worked. The kernel copies a range to a huge page, a few milliseconds in which processes that touch it wait. Only ranges
 * all of whose memory is there already are collapsed, so that this takes no memory but that of one huge page for a moment. What the
 * kernel has divided again, as it does when memory is short, is collapsed again.
 */
#include "postgres.h"

#include <sys/mman.h>
#include <unistd.h>

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/wait_event.h"

#include "base/hjg_base.h"
#include "huge/hjg_huge_ranges.h"
#include "layout/hjg_clock.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25		/* Linux 6.1 */
#endif

#define START_NS ((uint64) 60 * 1000000000)	/* between two workers */
#define NO_MEMORY_NS (15 * START_NS)	/* after one that was given no huge page */
#define LEAST_REST_NS 500000

PGDLLEXPORT void hjg_huge_main(Datum arg);

void
hjg_huge_look(void)
{
	BackgroundWorker worker;
	const uint64 now_ns = hjg_now_ns();
	uint64		next_ns;

	if (hjg_huge_shared == NULL || hjg_huge_shared->refused || !hjg_huge_pages || pg_atomic_read_u32(&hjg_huge_shared->wanted) == 0)
		return;
	next_ns = pg_atomic_read_u64(&hjg_huge_shared->next_start_ns);
	if (now_ns < next_ns || !pg_atomic_compare_exchange_u64(&hjg_huge_shared->next_start_ns, &next_ns, now_ns + START_NS))
		return;
	hjg_base_describe_worker(&worker, "hjoin_gpu huge pages", "hjg_huge_main", BgWorkerStart_ConsistentState);
	/* without a free slot the next one may start a minute later */
	if (RegisterDynamicBackgroundWorker(&worker, NULL))
		pg_atomic_write_u32(&hjg_huge_shared->wanted, 0);
}

/* Is all memory of a range there? resident: space, a byte for each page of a range. */
static bool
is_used(char *range, unsigned char *resident)
{
	const Size	npages = hjg_huge_range_bytes / sysconf(_SC_PAGESIZE);
	Size		page = 0;

	if (mincore(range, hjg_huge_range_bytes, resident) != 0)
		return false;
	while (page < npages && (resident[page] & 1) != 0)
		page++;
	return page == npages;
}

static uint32
count_used(HjgHugeArea area, unsigned char *resident)
{
	uint32		n = 0;

	for (uint32 ix = 0; ix < hjg_huge_nranges[area]; ix++)
		n += is_used(hjg_huge_base(area) + ix * hjg_huge_range_bytes, resident) ? 1 : 0;
	return n;
}

typedef enum Collapse
{
	COLLAPSED,					/* maybe before */
	COLLAPSE_LATER,				/* the kernel is using a page of it */
	COLLAPSE_NO_MEMORY,			/* there is no huge page to be had */
	COLLAPSE_REFUSED
} Collapse;

static Collapse
collapse_range(char *range)
{
	/* Linux 6.1 collapses what has no page table in this process, but says EINVAL */
	(void) *(volatile char *) range;
	if (madvise(range, hjg_huge_range_bytes, MADV_COLLAPSE) == 0)
		return COLLAPSED;
	switch (errno)
	{
		case EAGAIN:
		case EINTR:
			return COLLAPSE_LATER;
		case ENOMEM:
		case EBUSY:
			return COLLAPSE_NO_MEMORY;
		default:
			return COLLAPSE_REFUSED;
	}
}

/* Rest as long as the last piece of work took, if that is worth it. */
static void
rest_after(uint64 ns)
{
	if (ns < LEAST_REST_NS)
		return;
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, (long) (ns / 1000000) + 1, hjg_base_wait_event(HJG_WAIT_HUGE_PAGES));
	ResetLatch(MyLatch);
}

/* May the worker go on? */
static bool
may_go_on(void)
{
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	return !ShutdownRequestPending && hjg_huge_pages && hjg_enabled;
}

/* Look through an area; false if the worker shall end: the kernel refuses all buffers or has no memory, or the worker was told to. */
static bool
collapse_area(HjgHugeArea area)
{
	char	   *base = hjg_huge_base(area);
	unsigned char *resident = palloc(hjg_huge_range_bytes / sysconf(_SC_PAGESIZE));
	uint32		n[COLLAPSE_REFUSED + 1] = {0};
	uint32		ntried = 0;

	if (base == NULL || hjg_huge_nranges[area] == 0)
		return true;
	hjg_huge_shared->nused[area] = count_used(area, resident);
	for (uint32 ix = 0; ix < hjg_huge_nranges[area]; ix++)
	{
		char	   *range = base + ix * hjg_huge_range_bytes;
		const uint64 start_ns = hjg_now_ns();
		Collapse	result;

		if (!may_go_on())
			return false;
		/* no other worker meanwhile */
		pg_atomic_write_u64(&hjg_huge_shared->next_start_ns, start_ns + START_NS);
		if (!is_used(range, resident))
			continue;
		result = collapse_range(range);
		n[result]++;
		ntried++;
		if (area == HJG_HUGE_BUFFERS && result == COLLAPSED)
			hjg_huge_shared->huge[ix] = true;
		/* the pass before may have got further */
		hjg_huge_shared->nhuge[area] = Max(hjg_huge_shared->nhuge[area], n[COLLAPSED]);
		if (result == COLLAPSE_NO_MEMORY)
		{
			pg_atomic_write_u64(&hjg_huge_shared->next_start_ns, start_ns + NO_MEMORY_NS);
			return false;
		}
		rest_after(hjg_now_ns() - start_ns);
	}
	hjg_huge_shared->nused[area] = ntried;
	hjg_huge_shared->nhuge[area] = n[COLLAPSED];
	if (area == HJG_HUGE_BUFFERS)
		hjg_huge_shared->refused = ntried > 0 && n[COLLAPSE_REFUSED] == ntried;
	pfree(resident);
	return !hjg_huge_shared->refused;
}

void
hjg_huge_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	if (hjg_huge_shared != NULL && collapse_area(HJG_HUGE_BUFFERS))
		(void) collapse_area(HJG_HUGE_KEPT);
}
