/*
 * device_opencl.c
 *	  The driver of OpenCL devices: joins of the coupled engine, over memory that the device shares
 *	  with the processor, or over copies.
 *
 * list() only knows what the probing child found; the process itself opens a
 * device when the first join asks for it, aside from the join (device_opencl_aside.c). A CPU device, such as
 * PoCL's, is divided: a part of its units plays the GPU, and as many threads of the
 * engine's pool as there are units left play the CPU.  A GPU gets all threads
 * beside it.
 *
 * Unit costs of the steps are measured when the
 * first join asks that is large enough to care; joins that come meanwhile, and
 * small ones, divide every step in halves.  A device that is expected to beat the cpu engine, by what hjoin_gpu_calibrate() has measured, is
 * measured ahead of joins, soon after the process has started: the planner takes it by itself only where nobody waits for that.
 *
 * Failures are remembered as the cuda driver's are (device_health.c): a device whose driver
 * fails, crashes or does not come back again and again is left alone for a while.
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/hjg_opencl.h"
#include "model/hjg_model.h"

/* A driver that says nothing for so long while it is probed is given up. */
#define PROBE_LIMIT_MS 20000

/* Within so long the view tells that a device is left alone; and a device that is measured is looked after so often. */
#define WATCH_MS 5000
#define MEASURE_MS 1000

/* Memory of a device that no join has used for so long goes back to it. */
#define POOL_IDLE_MS 10000

/* Build rows from which calibration pays, and from which rows are partitioned by default. */
#define CALIBRATE_ROWS 65536
#define PARTITION_ROWS 262144

static HjgClReport reports[HJG_CL_DEVICES];
static int	nreports = -1;

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

/* Drivers are not installed while a server runs: one look is enough. */
static int
opencl_list(HjgDeviceInfo *devices, int room)
{
	if (nreports < 0)
		nreports = hjg_cl_probe(reports, HJG_CL_DEVICES, hjg_cl_limit_ms(PROBE_LIMIT_MS));
	for (int i = 0; i < nreports && i < room; i++)
	{
		devices[i] = reports[i].info;
		devices[i].id = (HjgDeviceId) {.kind = HJG_KIND_OPENCL, .number = i};
		if (devices[i].state == HJG_DEVICE_READY &&
			hjg_health_resting(hjg_device_name(devices[i].id).text, devices[i].reason, sizeof(devices[i].reason)))
			devices[i].state = HJG_DEVICE_FAILED;
		devices[i].warm = hjg_cl_measured_widths(i);
	}
	return nreports < room ? nreports : room;
}

static const HjgControl *control;	/* has the calibration; NULL: there is none */

void
hjg_cl_costs_open(const HjgControl *with)
{
	control = with;
}

/* Does calibration say that the device is faster than the cpu engine, for one of the joins that it was measured by at least? */
static bool
is_worth_measuring(int number)
{
	double		values[HJG_CALIBRATION_VALUES];
	HjgCalibration calibration;
	const HjgEngineCosts *costs;
	bool		pays = false;

	if (reports[number].info.state != HJG_DEVICE_READY || control == NULL || !hjg_arena_calibration(control, values))
		return false;
	memcpy(&calibration, values, sizeof(calibration));
	costs = hjg_model_coupled_costs(&calibration, number, hjg_gpu_identity(reports[number].info.description));
	for (int log = HJG_ENGINE_SMALL_LOG; costs != NULL && log <= HJG_ENGINE_LARGE_LOG; log++)
		pays |= hjg_model_engine_pays(costs, &calibration.cpu_engine, 1u << log, 1u << log);
	return pays;
}

static void trim_pools(void);

static unsigned
opencl_tend(void)
{
	bool		measures = false;

	trim_pools();

	for (int i = 0; i < nreports; i++)
		if (is_worth_measuring(i))
			measures |= hjg_cl_measure_ahead(i);
	return measures ? MEASURE_MS : WATCH_MS;
}

#ifdef HJG_HAVE_OPENCL

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static HjgClDevice opened[HJG_CL_DEVICES];
static bool is_open[HJG_CL_DEVICES];
static int	wanted_units;
static bool wants_copies;

static void
trim_pools(void)
{
	for (int i = 0; i < HJG_CL_DEVICES; i++)
		if (__atomic_load_n(&is_open[i], __ATOMIC_ACQUIRE))
			hjg_cl_pool_trim(&opened[i], POOL_IDLE_MS);
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

/* The part of the device that plays the GPU; 0: all of it. */
static int
units_of(const HjgClReport *report)
{
	const int	units = (int) report->info.compute_units;

	if (!report->facts.is_cpu || !report->facts.fission_by_counts || units < 2)
		return 0;
	return wanted_units > 0 && wanted_units < units ? wanted_units : units / 2;
}

static const HjgClDevice *
open_device(int number, char *reason, size_t room)
{
	const HjgClReport *report = &reports[number];
	const HjgClApi *api;
	cl_device_id id;
	bool		good;

	if (number >= nreports || report->info.state != HJG_DEVICE_READY)
	{
		snprintf(reason, room, "%s", number < nreports ? report->info.reason : "no such device");
		return NULL;
	}
	/* who finds it open does not wait for another device that is being opened */
	if (__atomic_load_n(&is_open[number], __ATOMIC_ACQUIRE))
		return &opened[number];
	pthread_mutex_lock(&lock);
	if (!is_open[number])
	{
		api = hjg_cl_api(reason, room);
		if (api != NULL && hjg_cl_find(api, report->platform, report->device, &id) != CL_SUCCESS)
			snprintf(reason, room, "the device is gone");
		else if (api != NULL)
			__atomic_store_n(&is_open[number], hjg_cl_open(api, id, units_of(report), &opened[number], reason, room),
							 __ATOMIC_RELEASE);
	}
	good = is_open[number];
	pthread_mutex_unlock(&lock);
	return good ? &opened[number] : NULL;
}

HjgRunner *
hjg_opencl_begin(int number, int key_width, int *cpu_threads, char *reason, size_t room)
{
	const HjgClDevice *device = number < 0 || number >= HJG_CL_DEVICES ? NULL : open_device(number, reason, room);
	HjgRunner  *runner;

	if (device == NULL)
		return NULL;
	runner = hjg_cl_runner_create(device, key_width, wants_copies || !reports[number].facts.sees_host);
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

static void
trim_pools(void)
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

/* ---- joins ---- */

typedef struct ClJoin
{
	char		name[32];		/* of the device */
	HjgCoupled *join;
	HjgRunner  *runner;
	HjgCoupledStrategy strategy;
} ClJoin;

/* Also of a join that was begun only. */
static void
free_join(ClJoin *join)
{
	hjg_coupled_free(join->join);
	hjg_opencl_end(join->runner);
	free(join);
}

static HjgStatus
build_join(ClJoin *join, int number, const HjgEnv *env, const HjgJoinSpec *spec, const HjgSegment *segments, int nsegments)
{
	char		reason[128];
	HjgCoupledConfig config;
	HjgStatus	status;
	hjg_u64		nrows = 0;

	hjg_coupled_defaults(&config);
	status = hjg_cl_get_ready(number, join->name, env, spec->key_width);
	if (status != HJG_OK)
		return status;
	join->runner = hjg_opencl_begin(number, spec->key_width, &config.cpu_threads, reason, sizeof(reason));
	if (join->runner == NULL)
	{
		hjg_health_note(join->name, reason);
		return HJG_ERR_DEVICE;
	}
	for (int i = 0; i < nsegments; i++)
		nrows += segments[i].nrows;
	config.strategy = nrows >= PARTITION_ROWS ? HJG_COUPLED_PHJ_PL : HJG_COUPLED_SHJ_PL;
	if (hjg_is_coupled_strategy((int) spec->strategy))
		config.strategy = (HjgCoupledStrategy) spec->strategy;
	join->strategy = config.strategy;
	config.pipeline = spec->pipeline;
	config.costs = hjg_cl_costs(number, env, spec->key_width, spec->pipeline, nrows >= CALIBRATE_ROWS);
	config.memos = hjg_cl_memos(number, spec->key_width);
	status = hjg_coupled_build(env, &config, join->runner, spec->key_width, spec->mode, segments, nsegments, &join->join);
	if (status == HJG_ERR_DEVICE)
		hjg_health_note(join->name, "a step of a build failed");
	return status;
}

static HjgStatus
opencl_build(int number, const HjgEnv *env, const HjgJoinSpec *spec, const HjgSegment *segments, int nsegments,
			 void **result)
{
	ClJoin	   *join = calloc(1, sizeof(ClJoin));
	char		name[sizeof(join->name)];
	HjgStatus	status;

	*result = NULL;
	if (join == NULL)
		return HJG_ERR_MEMORY;
	hjg_cl_name(number, name, sizeof(name));
	memcpy(join->name, name, sizeof(name));
	hjg_health_enter(name);
	status = build_join(join, number, env, spec, segments, nsegments);
	if (status == HJG_OK)
		*result = join;
	else
		free_join(join);
	hjg_health_leave(name);
	return status;
}

static HjgStatus
opencl_probe(void *handle, const HjgSegment *segments, int nsegments, HjgCursor *cursor, HjgResult *result)
{
	ClJoin	   *join = handle;
	HjgStatus	status;

	hjg_health_enter(join->name);
	status = hjg_coupled_probe(join->join, segments, nsegments, cursor, result);
	if (status == HJG_ERR_DEVICE)
		hjg_health_note(join->name, "a step of a probe failed");
	hjg_health_leave(join->name);
	return status;
}

static void
opencl_stats(const void *handle, HjgJobStats *stats)
{
	const ClJoin *join = handle;
	HjgCoupledStats coupled;

	hjg_coupled_stats(join->join, &coupled);
	*stats = coupled.join;
	stats->transfer_ns = coupled.transfer_ns;
	if (!coupled.gave_up)
	{
		stats->predicted_build_ns = (hjg_u64) coupled.predicted_build_ns;
		stats->predicted_probe_ns = (hjg_u64) coupled.predicted_probe_ns;
		stats->strategy = join->strategy;
		stats->pipeline = coupled.pipeline;
	}
}

static void
opencl_free(void *handle)
{
	ClJoin	   *join = handle;
	char		name[sizeof(join->name)];

	memcpy(name, join->name, sizeof(name));
	hjg_health_enter(name);
	free_join(join);
	hjg_health_leave(name);
}

const HjgDriver hjg_opencl_driver = {
	.kind = HJG_KIND_OPENCL,
	.room = HJG_CL_DEVICES,
	.list = opencl_list,
	.tend = opencl_tend,
	.build = opencl_build,
	.staged = true,
	.probe = opencl_probe,
	.stats = opencl_stats,
	.free = opencl_free,
};
