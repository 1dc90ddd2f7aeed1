/*
 * device_drivers.c
 *	  The table of drivers, and the driver of the cpu engine.
 *
 * A new driver is one more HjgDriver in the table; it loads its libraries in
 * list() with dlopen and says in HjgDeviceInfo.reason why a device that it
 * found cannot be used.
 */
#define _GNU_SOURCE

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/hjg_device.h"

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
	snprintf(devices[0].name, sizeof(devices[0].name), "cpu");
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
	return hjg_join_build(env, spec, segments, nsegments, (HjgJoin **) join);
}

static HjgStatus
cpu_probe(void *join, const HjgSegment *segments, int nsegments, HjgCursor *cursor, HjgResult *result)
{
	return hjg_join_probe(join, segments, nsegments, cursor, result);
}

static void
cpu_stats(const void *join, HjgJobStats *stats)
{
	HjgJoinStats engine;

	hjg_join_stats(join, &engine);
	stats->partition_ns = engine.partition_ns;
	stats->build_ns = engine.build_ns;
	stats->probe_ns = engine.probe_ns;
	stats->transfer_ns = 0;
	stats->workspace_bytes = engine.workspace_bytes;
	stats->npartitions = (hjg_u32) engine.npartitions;
	stats->strategy = engine.strategy;
}

static void
cpu_free(void *join)
{
	hjg_join_free(join);
}

static const HjgDriver cpu_driver = {
	.kind = "cpu",
	.list = cpu_list,
	.build = cpu_build,
	.probe = cpu_probe,
	.stats = cpu_stats,
	.free = cpu_free,
};

static const HjgDriver *const drivers[] = {
	&cpu_driver,
};

static const HjgDriver *device_driver[HJG_MAX_DEVICES];
static int	device_number[HJG_MAX_DEVICES];
static int	ndevices;

int
hjg_drivers_open(HjgDeviceInfo *devices, int room)
{
	ndevices = 0;
	if (room > HJG_MAX_DEVICES)
		room = HJG_MAX_DEVICES;
	for (size_t d = 0; d < sizeof(drivers) / sizeof(drivers[0]); d++)
	{
		int			n = drivers[d]->list(devices + ndevices, room - ndevices);

		for (int i = 0; i < n; i++, ndevices++)
		{
			snprintf(devices[ndevices].kind, sizeof(devices[ndevices].kind), "%s", drivers[d]->kind);
			device_driver[ndevices] = drivers[d];
			device_number[ndevices] = i;
		}
	}
	return ndevices;
}

const HjgDriver *
hjg_driver_of(int device_ix, int *number)
{
	if (device_ix < 0 || device_ix >= ndevices)
		return NULL;
	*number = device_number[device_ix];
	return device_driver[device_ix];
}
