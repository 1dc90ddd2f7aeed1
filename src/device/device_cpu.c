/*
 * device_cpu.c
 *	  The driver of the cpu engine, and the number of processors.
 */
#define _GNU_SOURCE

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/hjg_device_program.h"

int
hjg_device_cpus(void)
{
	cpu_set_t	set;
	int			n = 0;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		n = CPU_COUNT(&set);
	if (n < 1)
		n = (int) sysconf(_SC_NPROCESSORS_ONLN);
	return n < 1 ? 1 : n;
}

static void
describe_cpu(char *text, size_t room)
{
	FILE	   *file = fopen("/proc/cpuinfo", "r");
	char		line[256];

	snprintf(text, room, "host processor");
	if (file == NULL)
		return;
	while (fgets(line, sizeof(line), file) != NULL)
	{
		char	   *colon = strchr(line, ':');

		if (colon == NULL || strncmp(line, "model name", 10) != 0)
			continue;
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(text, room, "%s", colon[1] == ' ' ? colon + 2 : colon + 1);
		break;
	}
	fclose(file);
}

static int
cpu_list(HjgDeviceInfo *devices, int room)
{
	if (room < 1)
		return 0;
	memset(&devices[0], 0, sizeof(devices[0]));
	devices[0].id = (HjgDeviceId) {.kind = HJG_KIND_CPU, .number = HJG_NO_NUMBER};
	describe_cpu(devices[0].description, sizeof(devices[0].description));
	devices[0].compute_units = (hjg_u32) hjg_device_cpus();
	devices[0].memory_bytes = (hjg_u64) sysconf(_SC_PHYS_PAGES) * (hjg_u64) sysconf(_SC_PAGESIZE);
	devices[0].state = HJG_DEVICE_READY;
	return 1;
}

static HjgStatus
cpu_build(int device, const HjgEnv *env, const HjgJoinSpec *spec,
		  const HjgSegment *segments, int nsegments, void **join)
{
	HjgJoinSpec own = *spec;

	/* ignore a strategy of another engine */
	if (own.strategy > HJG_CPU_NOP)
		own.strategy = HJG_CPU_AUTO;
	return hjg_join_build(env, &own, segments, nsegments, (HjgJoin **) join);
}

static HjgStatus
cpu_probe(void *join, const HjgSegment *segments, int nsegments, HjgCursor *cursor, HjgResult *result)
{
	return hjg_join_probe(join, segments, nsegments, cursor, result);
}

static void
cpu_stats(const void *join, HjgJobStats *stats)
{
	hjg_join_stats(join, stats);
}

static void
cpu_free(void *join)
{
	hjg_join_free(join);
}

const HjgDriver hjg_cpu_driver = {
	.kind = HJG_KIND_CPU,
	.room = 1,
	.list = cpu_list,
	.build = cpu_build,
	.probe = cpu_probe,
	.stats = cpu_stats,
	.free = cpu_free,
	.programs = &hjg_cpu_program_driver,
};
