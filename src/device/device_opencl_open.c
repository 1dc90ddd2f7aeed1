/*
 * device_opencl_open.c
 *	  The list of OpenCL devices, and opening them.
 *
 * The list has only what the probing child found; the process itself opens a device when the first join
 * asks for it, aside from the join (device_opencl_aside.c).  A CPU device, such as PoCL's, is divided:
 * some of its compute units play the GPU, and as many threads of the engine's pool as units are left play
 * the CPU.  A GPU gets all threads beside it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/hjg_opencl.h"

/* Longest silence of a driver while it is probed. */
#define PROBE_LIMIT_MS 20000

/* Time after which unused memory of a device is released. */
#define POOL_IDLE_MS 10000

static HjgClReport device_reports[HJG_CL_DEVICES];
static int	ndevice_reports = -1;

int
hjg_cl_limit_ms(int usual_ms)
{
	const char *text = hjg_fault_variable("HJG_OPENCL_LIMIT_MS");
	int			wanted_ms = text == NULL ? 0 : atoi(text);

	return wanted_ms > 0 ? wanted_ms : usual_ms;
}

void
hjg_cl_name(int number, char *name, size_t room)
{
	snprintf(name, room, "%s", hjg_device_name((HjgDeviceId) {HJG_KIND_OPENCL, number}).text);
}

/* List the devices once: drivers are not installed while a server runs. */
int
hjg_cl_list(void)
{
	if (ndevice_reports < 0)
		ndevice_reports = hjg_cl_probe(device_reports, HJG_CL_DEVICES, hjg_cl_limit_ms(PROBE_LIMIT_MS));
	return ndevice_reports;
}

const HjgClReport *
hjg_cl_report(int number)
{
	return number >= 0 && number < ndevice_reports ? &device_reports[number] : NULL;
}

#ifdef HJG_HAVE_OPENCL

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static HjgClDevice opened_devices[HJG_CL_DEVICES];
static bool is_open[HJG_CL_DEVICES];
static int	wanted_units;
static bool wants_copies;

void
hjg_cl_trim_pools(void)
{
	for (int i = 0; i < HJG_CL_DEVICES; i++)
		if (__atomic_load_n(&is_open[i], __ATOMIC_ACQUIRE))
			hjg_cl_pool_trim(&opened_devices[i], POOL_IDLE_MS);
}

void
hjg_cl_set_units(int units)
{
	wanted_units = units;
}

void
hjg_cl_set_copies(bool copies)
{
	wants_copies = copies;
}

/* Choose the compute units of the device that play the GPU; 0: all of it. */
static int
units_as_gpu(const HjgClReport *report)
{
	const int	units = (int) report->info.compute_units;

	if (!report->facts.is_cpu || !report->facts.fission_by_counts || units < 2)
		return 0;
	if (wanted_units >= units)
		return 0;
	return wanted_units > 0 ? wanted_units : units / 2;
}

static const HjgClDevice *
open_device(int number, char *reason, size_t room)
{
	const HjgClReport *report = &device_reports[number];
	const HjgClApi *api;
	cl_device_id id;
	bool		good;

	if (number >= ndevice_reports || report->info.state != HJG_DEVICE_READY)
	{
		snprintf(reason, room, "%s", number < ndevice_reports ? report->info.reason : "no such device");
		return NULL;
	}
	/* a join that finds the device open does not wait while another device is opened */
	if (__atomic_load_n(&is_open[number], __ATOMIC_ACQUIRE))
		return &opened_devices[number];
	pthread_mutex_lock(&open_lock);
	if (!is_open[number])
	{
		api = hjg_cl_api(reason, room);
		if (api != NULL && hjg_cl_find(api, report->platform, report->device, &id) != CL_SUCCESS)
			snprintf(reason, room, "the device is gone");
		else if (api != NULL)
			__atomic_store_n(&is_open[number], hjg_cl_open(api, id, units_as_gpu(report), &opened_devices[number], reason, room),
							 __ATOMIC_RELEASE);
	}
	good = is_open[number];
	pthread_mutex_unlock(&open_lock);
	return good ? &opened_devices[number] : NULL;
}

HjgRunner *
hjg_opencl_begin(int number, int key_width, int *cpu_threads, char *reason, size_t room)
{
	const HjgClDevice *device = number < 0 || number >= HJG_CL_DEVICES ? NULL : open_device(number, reason, room);
	HjgRunner  *runner;

	if (device == NULL)
		return NULL;
	runner = hjg_cl_runner_create(device, key_width, wants_copies || !device_reports[number].facts.sees_host);
	if (runner == NULL)
		snprintf(reason, room, "no queue or kernels");
	*cpu_threads = hjg_device_cpus();
	if (device->facts.is_cpu)
		*cpu_threads -= (int) device->units;
	if (*cpu_threads < 1)
		*cpu_threads = 1;
	return runner;
}

void
hjg_opencl_end(HjgRunner *runner)
{
	hjg_cl_runner_destroy(runner);
}

#else							/* !HJG_HAVE_OPENCL */

void
hjg_cl_trim_pools(void)
{
}

void
hjg_cl_set_units(int units)
{
}

void
hjg_cl_set_copies(bool copies)
{
}

HjgRunner *
hjg_opencl_begin(int number, int key_width, int *cpu_threads, char *reason, size_t room)
{
	snprintf(reason, room, "built without the OpenCL headers");
	return NULL;
}

void
hjg_opencl_end(HjgRunner *runner)
{
}

#endif							/* HJG_HAVE_OPENCL */
