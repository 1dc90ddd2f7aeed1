/*
 * device_opencl.c
 *	  The driver of OpenCL devices: joins of the coupled engine, over memory that the device shares with
 *	  the processor, or over copies.
 *
 * The first join that is large enough measures the unit costs of the steps (device_opencl_aside.c);
 * earlier and smaller joins halve every step.  A device that hjoin_gpu_calibrate() found faster than the
 * cpu engine is measured soon after the process has started, before any join: the planner chooses it only
 * if no join must wait for that.
 *
 * Failures are remembered as the cuda driver's are (device_health.c): a device whose driver repeatedly
 * fails, crashes or hangs rests for a while.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/hjg_opencl.h"
#include "model/hjg_model.h"

/* Intervals after which the view shows that a device rests, and in which a measurement is checked. */
#define WATCH_MS 5000
#define MEASURE_MS 1000

/* Build rows from which calibration pays, and from which rows are partitioned by default. */
#define CALIBRATE_ROWS 65536
#define PARTITION_ROWS 262144

static int
opencl_list(HjgDeviceInfo *devices, int room)
{
	const int	n = hjg_cl_list();

	for (int i = 0; i < n && i < room; i++)
	{
		devices[i] = hjg_cl_report(i)->info;
		devices[i].id = (HjgDeviceId) {.kind = HJG_KIND_OPENCL, .number = i};
		if (devices[i].state == HJG_DEVICE_READY &&
			hjg_health_resting(hjg_device_name(devices[i].id).text, devices[i].reason, sizeof(devices[i].reason)))
			devices[i].state = HJG_DEVICE_FAILED;
		devices[i].warm = hjg_cl_measured_widths(i);
	}
	return n < room ? n : room;
}

static const HjgControl *control;	/* has the calibration; NULL: none */

void
hjg_cl_costs_open(const HjgControl *with)
{
	control = with;
}

/*
 * True if the calibration says that the device is clearly faster than the cpu engine for at least one
 * measured size.
 */
static bool
is_worth_measuring(int number, const HjgDeviceInfo *info)
{
	double		values[HJG_CALIBRATION_VALUES];
	HjgCalibration calibration;
	const HjgEngineCosts *costs;
	bool		pays = false;

	if (info->state != HJG_DEVICE_READY || control == NULL || !hjg_arena_calibration(control, values))
		return false;
	memcpy(&calibration, values, sizeof(calibration));
	costs = hjg_model_coupled_costs(&calibration, number, hjg_gpu_identity(info->description));
	for (int log = HJG_ENGINE_SMALL_LOG; costs != NULL && log <= HJG_ENGINE_LARGE_LOG; log++)
		pays |= hjg_model_engine_pays(costs, &calibration.cpu_engine, 1u << log, 1u << log);
	return pays;
}

static unsigned
opencl_tend(void)
{
	bool		measures = false;

	hjg_cl_trim_pools();
	for (int i = 0; hjg_cl_report(i) != NULL; i++)
		if (is_worth_measuring(i, &hjg_cl_report(i)->info))
			measures |= hjg_cl_measure_ahead(i);
	return measures ? MEASURE_MS : WATCH_MS;
}

/* ---- joins ---- */

typedef struct ClJoin
{
	char		name[32];		/* of the device */
	HjgCoupled *join;
	HjgRunner  *runner;
	HjgCoupledStrategy strategy;
} ClJoin;

/* Free a join, complete or not. */
static void
free_cl_join(ClJoin *join)
{
	hjg_coupled_free(join->join);
	hjg_opencl_end(join->runner);
	free(join);
}

static HjgStatus
build_cl_join(ClJoin *join, int number, const HjgEnv *env, const HjgJoinSpec *spec, const HjgSegment *segments, int nsegments)
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
	status = build_cl_join(join, number, env, spec, segments, nsegments);
	if (status == HJG_OK)
		*result = join;
	else
		free_cl_join(join);
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
	free_cl_join(join);
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
