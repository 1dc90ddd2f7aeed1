/*
 * lab_coupled_counts.c
 *	  Cache misses and stalled cycles of the CPU part and of the device part, by perf_event_open().
 *
 * Nothing is counted of a device that is not made of this program's threads, nor where the system does not
 * permit it or the processor does not count, as in most virtual machines.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lab/hjg_coupled_bench.h"

#define MAX_COUNTED 256

/* A thread, and those that it starts. */
typedef struct CountedThread
{
	HjgProcessor part;
	int			events[HJG_BENCH_EVENTS];	/* descriptors; -1: not counted */
} CountedThread;

static CountedThread counted[MAX_COUNTED];
static int	ncounted;
static int	reasons[HJG_BENCH_EVENTS];	/* error numbers; 0: counted */

static int
open_event(pid_t thread, HjgBenchEvent event)
{
	static const hjg_u64 configs[HJG_BENCH_EVENTS] = {
		[HJG_EVENT_CYCLES] = PERF_COUNT_HW_CPU_CYCLES, [HJG_EVENT_STALLED_CYCLES] = PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
		[HJG_EVENT_REFERENCES] = PERF_COUNT_HW_CACHE_REFERENCES, [HJG_EVENT_MISSES] = PERF_COUNT_HW_CACHE_MISSES
	};
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE, .size = sizeof(attr), .config = configs[event], .inherit = 1, .exclude_kernel = 1, .exclude_hv = 1
	};
	const int	fd = (int) syscall(SYS_perf_event_open, &attr, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		reasons[event] = errno;
	return fd;
}

void
hjg_bench_counts_open(void)
{
	const pid_t self = (pid_t) syscall(SYS_gettid);
	DIR		   *threads = opendir("/proc/self/task");
	const struct dirent *entry;

	while (threads != NULL && ncounted < MAX_COUNTED && (entry = readdir(threads)) != NULL)
	{
		const pid_t thread = (pid_t) atoi(entry->d_name);
		CountedThread *one = &counted[ncounted];

		if (thread == 0)
			continue;
		one->part = thread == self ? HJG_ON_CPU : HJG_ON_DEVICE;
		for (int i = 0; i < HJG_BENCH_EVENTS; i++)
			one->events[i] = open_event(thread, (HjgBenchEvent) i);
		ncounted++;
	}
	if (threads != NULL)
		closedir(threads);
}

HjgBenchCounts
hjg_bench_counts(const HjgBenchCounts *since)
{
	HjgBenchCounts counts = {{{0}}};

	for (int i = 0; i < HJG_PROCESSORS * HJG_BENCH_EVENTS && since != NULL; i++)
		(&counts.n[0][0])[i] = -(&since->n[0][0])[i];
	for (int t = 0; t < ncounted; t++)
		for (int i = 0; i < HJG_BENCH_EVENTS; i++)
		{
			hjg_u64		n;

			if (reasons[i] == 0 && read(counted[t].events[i], &n, sizeof(n)) == (ssize_t) sizeof(n))
				counts.n[counted[t].part][i] += (double) n;
		}
	return counts;
}

void
hjg_bench_counts_add(HjgBenchCounts *sum, const HjgBenchCounts *counts)
{
	for (int i = 0; i < HJG_PROCESSORS * HJG_BENCH_EVENTS; i++)
		(&sum->n[0][0])[i] += (&counts->n[0][0])[i];
}

void
hjg_bench_counts_print(const HjgBenchCounts *counts, double nrows)
{
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		const double *n = counts->n[p];

		if (reasons[HJG_EVENT_STALLED_CYCLES] == 0 || reasons[HJG_EVENT_MISSES] == 0)
			printf("; %s:", p == HJG_ON_CPU ? "CPU part" : "device part");
		if (reasons[HJG_EVENT_STALLED_CYCLES] == 0)
			printf(" %.1f %% of the cycles stalled", 100 * n[HJG_EVENT_STALLED_CYCLES] / n[HJG_EVENT_CYCLES]);
		if (reasons[HJG_EVENT_MISSES] == 0)
			printf(" %.2f cache misses a row, %.1f %%", n[HJG_EVENT_MISSES] / nrows, 100 * n[HJG_EVENT_MISSES] / n[HJG_EVENT_REFERENCES]);
	}
	printf("\n");
}

void
hjg_bench_counts_explain(void)
{
	for (int i = 0; i < HJG_BENCH_EVENTS; i++)
		if (reasons[i] != 0)
		{
			printf("  stalls or misses: %s here\n", reasons[i] == EACCES || reasons[i] == EPERM ? "not permitted" : "not counted");
			return;
		}
}
