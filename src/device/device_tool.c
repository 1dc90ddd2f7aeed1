/*
 * device_tool.c
 *	  hjoin_gpu_device as a tool: --list.
 */
#include <stdio.h>

#include "device/hjg_device.h"

int
hjg_device_list(void)
{
	HjgDeviceInfo devices[HJG_MAX_DEVICES] = {0};

	hjg_drivers_open(devices, true);
	for (int i = 0; i < HJG_MAX_DEVICES; i++)
	{
		const HjgDeviceInfo *device = &devices[i];

		if (device->state == HJG_DEVICE_ABSENT)
			continue;
		printf("%-10s %-8s %s, %u units, %llu MB%s%s\n", hjg_device_name(device->id).text, hjg_device_kind(device->id.kind)->engine,
			   device->description,
			   device->compute_units, (unsigned long long) (device->memory_bytes >> 20),
			   device->state == HJG_DEVICE_READY ? "" : "; not usable: ", device->reason);
	}
	return 0;
}
