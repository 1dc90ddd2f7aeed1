/*
 * device_opencl.c
 *	  The driver of OpenCL devices: joins of the coupled engine, over memory that the device shares
 *	  with the processor, or over copies.
 *
 * list() only knows what the probing child found; the process itself opens a
 * device when the first join asks for it (hjg_opencl.h), aside from the join: drivers compile
 * programs then, and kernels at their first launch, which may take seconds, while a join has to show signs
 * of life and to notice that it is cancelled.  So a thread of its own opens the device and runs a
 * small join, and what asked for it polls until that has ended.  A CPU device, such as
 * PoCL's, is divided: a part of its units plays the GPU, and as many threads of the
 * engine's pool as there are units left play the CPU.  A GPU gets all threads
 * beside it.
 *
 * Unit costs of the steps are measured once a process, device and key width, aside too, when the
 * first join asks that is large enough to care; joins that come meanwhile, and
 * small ones, divide every step in halves.
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

#define MAX_OPENCL_DEVICES 4

/* A driver that says nothing for so long while it is probed is given up. */
#define PROBE_LIMIT_MS 20000

/* Within so long the view tells that a device is left alone. */
#define WATCH_MS 5000

/* What a quiet machine takes for a calibration; a join waits for it, and a machine that is busy is not measured better by more of it. */
#define CALIBRATION_NS UINT64_C(4000000000)

/* Build rows from which calibration pays, and from which rows are partitioned by default. */
#define CALIBRATE_ROWS 65536
#define PARTITION_ROWS 262144

static HjgClReport reports[MAX_OPENCL_DEVICES];
static int	nreports = -1;

/* How long a driver may take; tests have less patience. */
static int
limit_ms(int usual_ms)
{
	const char *text = getenv("HJG_OPENCL_LIMIT_MS");
	int			wanted_ms = text == NULL ? 0 : atoi(text);

	return wanted_ms > 0 ? wanted_ms : usual_ms;
}

static void
name_of(int number, char *name, size_t room)
{
	snprintf(name, room, "opencl:%d", number);
}

/* Drivers are not installed while a server runs: one look is enough. */
static int
opencl_list(HjgDeviceInfo *devices, int room)
{
	if (nreports < 0)
		nreports = hjg_cl_probe(reports, MAX_OPENCL_DEVICES, limit_ms(PROBE_LIMIT_MS));
	for (int i = 0; i < nreports && i < room; i++)
	{
		devices[i] = reports[i].info;
		name_of(i, devices[i].name, sizeof(devices[i].name));
		if (devices[i].state == HJG_DEVICE_READY &&
			hjg_health_resting(devices[i].name, devices[i].reason, sizeof(devices[i].reason)))
			devices[i].state = HJG_DEVICE_FAILED;
	}
	return nreports < room ? nreports : room;
}

static unsigned
opencl_tend(void)
{
	return WATCH_MS;
}

#ifdef HJG_HAVE_OPENCL

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static HjgClDevice opened[MAX_OPENCL_DEVICES];
static bool is_open[MAX_OPENCL_DEVICES];
static int	wanted_units;
static bool wants_copies;

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
	const HjgClDevice *device = number < 0 || number >= MAX_OPENCL_DEVICES ? NULL : open_device(number, reason, room);
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

/* ---- aside from joins ---- */

/* A driver that is not done with that after so long will not be waited for. */
#define ASIDE_LIMIT_MS 60000
#define ASIDE_PAUSE_NS 1000000
#define WARM_ROWS 4096

/* What is done once for a device and a key width, or again after it failed. */
typedef enum AsideState
{
	ASIDE_IDLE,
	ASIDE_RUNNING,
	ASIDE_DONE,
	ASIDE_FAILED
} AsideState;

typedef struct Aside
{
	int			state;			/* AsideState; the thread that runs it writes the rest before it ends */
	int			number;			/* of the device */
	int			key_width;
	HjgPipeline pipeline;		/* of the join that asked */
	hjg_u64		started_ns;
	char		reason[128];	/* of the failure */
	HjgStepCosts costs;			/* measured */
	HjgSeriesMemos memos;		/* what joins found under them */
} Aside;

static pthread_mutex_t aside_lock = PTHREAD_MUTEX_INITIALIZER;
static Aside warmed[MAX_OPENCL_DEVICES][HJG_CL_WIDTHS];
static Aside measured[MAX_OPENCL_DEVICES][HJG_CL_WIDTHS];

static void *
aside_alloc(void *arg, size_t bytes)
{
	return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void
aside_free(void *arg, void *ptr, size_t bytes)
{
	free(ptr);
}

static const HjgEnv aside_env = {.alloc = aside_alloc, .free = aside_free};

/*
 * Small joins, half of each step on the device.  The kernel that unpacks as well takes longest to compile, and is left
 * to the joins that want it.
 */
static HjgStatus
warm_up(const HjgRunner *runner, const HjgCoupledConfig *with, int key_width)
{
	static const HjgCoupledStrategy strategies[] = {HJG_COUPLED_SHJ_DD, HJG_COUPLED_PHJ_DD};
	hjg_u8	   *keys = calloc(WARM_ROWS, (size_t) key_width);
	HjgPair    *pairs = malloc(WARM_ROWS * sizeof(HjgPair));
	HjgStatus	status = keys == NULL || pairs == NULL ? HJG_ERR_MEMORY : HJG_OK;

	for (hjg_u32 i = 0; i < WARM_ROWS && status == HJG_OK; i++)
		memcpy(keys + i * (size_t) key_width, &i, sizeof(i));
	for (int way = 0; way < 2 && status == HJG_OK; way++)
	{
		const HjgSegment segment = {.keys = keys, .nrows = WARM_ROWS};
		HjgResult	result = {.pages = &pairs, .npages = 1, .page_pairs = WARM_ROWS};
		HjgCoupledConfig config = *with;
		HjgCursor	cursor = {0};
		HjgCoupled *join;

		config.strategy = strategies[way];
		config.pipeline = HJG_PIPELINE_E;
		status = hjg_coupled_build(&aside_env, &config, runner, key_width, HJG_MATCH_ALL, &segment, 1, &join);
		if (status != HJG_OK)
			break;
		status = hjg_coupled_probe(join, &segment, 1, &cursor, &result);
		hjg_coupled_free(join);
		if (status == HJG_OK && result.npairs != WARM_ROWS)
			status = HJG_ERR_DEVICE;
	}
	free(keys);
	free(pairs);
	return status;
}

/* A device that could not be opened is not opened again by each join. */
static void
leave_alone(int number, const char *reason)
{
	char		name[32];

	name_of(number, name, sizeof(name));
	hjg_health_rest(name, reason);
}

static void *
run_aside(void *arg)
{
	Aside	   *aside = arg;
	const bool	measures = aside >= &measured[0][0] && aside <= &measured[MAX_OPENCL_DEVICES - 1][HJG_CL_WIDTHS - 1];
	HjgCoupledConfig config;
	HjgStatus	status = HJG_ERR_DEVICE;
	HjgRunner  *runner;

	hjg_coupled_defaults(&config);
	config.pipeline = aside->pipeline;
	config.calibration_ns = CALIBRATION_NS;
	runner = hjg_opencl_begin(aside->number, aside->key_width, &config.cpu_threads, aside->reason, sizeof(aside->reason));
	if (runner != NULL)
	{
		HjgEnv		env = aside_env;

		env.pool = config.cpu_threads > 1 ? hjg_pool_create(config.cpu_threads) : NULL;
		status = !measures ? warm_up(runner, &config, aside->key_width) :
			hjg_coupled_calibrate(&env, &config, runner, aside->key_width, HJG_STEP_QUICK_SIZES, &aside->costs);
		hjg_pool_destroy(env.pool);
		hjg_opencl_end(runner);
		if (status != HJG_OK)
			snprintf(aside->reason, sizeof(aside->reason), "a first join failed: %s", hjg_status_text(status));
	}
	if (status != HJG_OK && !measures)
		leave_alone(aside->number, aside->reason);
	__atomic_store_n(&aside->state, status == HJG_OK ? ASIDE_DONE : ASIDE_FAILED, __ATOMIC_RELEASE);
	return NULL;
}

/* Start it if need be; false when no thread can be had. */
static bool
begin_aside(Aside *aside, int number, int key_width, HjgPipeline pipeline)
{
	pthread_t	thread;
	bool		good = true;

	pthread_mutex_lock(&aside_lock);
	if (aside->state == ASIDE_IDLE || aside->state == ASIDE_FAILED)
	{
		aside->number = number;
		aside->key_width = key_width;
		aside->pipeline = pipeline;
		aside->started_ns = hjg_arena_now_ns();
		aside->state = ASIDE_RUNNING;
		good = pthread_create(&thread, NULL, run_aside, aside) == 0;
		if (good)
			pthread_detach(thread);
		else
			aside->state = ASIDE_IDLE;
	}
	pthread_mutex_unlock(&aside_lock);
	return good;
}

/* HJG_OK, HJG_ERR_CANCELLED, or HJG_ERR_DEVICE with the reason. */
static HjgStatus
wait_aside(const Aside *aside, const HjgEnv *env, char *reason, size_t room)
{
	int			state;

	while ((state = __atomic_load_n(&aside->state, __ATOMIC_ACQUIRE)) == ASIDE_RUNNING)
	{
		if (env->poll != NULL && env->poll(env->arg))
			return HJG_ERR_CANCELLED;
		if (hjg_arena_now_ns() - aside->started_ns > (hjg_u64) limit_ms(ASIDE_LIMIT_MS) * 1000000)
		{
			snprintf(reason, room, "the driver does not come back");
			return HJG_ERR_DEVICE;
		}
		nanosleep(&(struct timespec) {0, ASIDE_PAUSE_NS}, NULL);
	}
	if (state == ASIDE_DONE)
		return HJG_OK;
	snprintf(reason, room, "%s", aside->reason);
	return HJG_ERR_DEVICE;
}

static int
width_ix_of(int key_width)
{
	return key_width == HJG_KEY_WIDTH_4 ? 0 : key_width == HJG_KEY_WIDTH_8 ? 1 : 2;
}

/*
 * The device is open, and no kernel is launched for the first time any more.  HJG_ERR_DEVICE at once as long as the
 * device is left alone; what else fails has been noted.
 */
static HjgStatus
get_ready(int number, const char *name, const HjgEnv *env, int key_width)
{
	Aside	   *aside = &warmed[number][width_ix_of(key_width)];
	char		reason[128];
	HjgStatus	status;

	if (__atomic_load_n(&aside->state, __ATOMIC_ACQUIRE) == ASIDE_DONE)
		return HJG_OK;
	if (hjg_health_resting(name, reason, sizeof(reason)))
		return HJG_ERR_DEVICE;
	if (!begin_aside(aside, number, key_width, HJG_PIPELINE_E))
	{
		hjg_health_note(name, "no thread");
		return HJG_ERR_DEVICE;
	}
	status = wait_aside(aside, env, reason, sizeof(reason));
	/* a driver that does not come back has not said so itself */
	if (status == HJG_ERR_DEVICE)
		leave_alone(number, reason);
	return status;
}

/* Costs for this device and width; NULL while there are none. */
static const HjgStepCosts *
costs_of(int number, const HjgEnv *env, int key_width, HjgPipeline pipeline, bool may_measure)
{
	Aside	   *aside = &measured[number][width_ix_of(key_width)];
	const int	before = __atomic_load_n(&aside->state, __ATOMIC_ACQUIRE);
	char		reason[128];

	if (before == ASIDE_DONE)
		return &aside->costs;
	/* nobody else waits for a measurement, and a failed one is not tried again */
	if (before != ASIDE_IDLE || !may_measure || !begin_aside(aside, number, key_width, pipeline))
		return NULL;
	return wait_aside(aside, env, reason, sizeof(reason)) == HJG_OK ? &aside->costs : NULL;
}

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
	status = get_ready(number, join->name, env, spec->key_width);
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
	if (hjg_coupled_strategy_name((int) spec->strategy) != NULL)
		config.strategy = (HjgCoupledStrategy) spec->strategy;
	join->strategy = config.strategy;
	config.pipeline = spec->pipeline;
	config.costs = costs_of(number, env, spec->key_width, spec->pipeline, nrows >= CALIBRATE_ROWS);
	config.memos = &measured[number][width_ix_of(spec->key_width)].memos;
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
	name_of(number, name, sizeof(name));
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
	stats->partition_ns = coupled.join.partition_ns;
	stats->build_ns = coupled.join.build_ns;
	stats->probe_ns = coupled.join.probe_ns;
	stats->transfer_ns = coupled.transfer_ns;
	if (!coupled.gave_up)
	{
		stats->predicted_build_ns = (hjg_u64) coupled.predicted_build_ns;
		stats->predicted_probe_ns = (hjg_u64) coupled.predicted_probe_ns;
	}
	stats->workspace_bytes = coupled.join.workspace_bytes;
	stats->npartitions = (hjg_u32) coupled.join.npartitions;
	stats->strategy = coupled.gave_up ? (hjg_u32) coupled.join.strategy : (hjg_u32) join->strategy;
	stats->pipeline = coupled.gave_up ? HJG_PIPELINE_AUTO : (hjg_u32) coupled.pipeline;
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
	.kind = "coupled",
	.room = MAX_OPENCL_DEVICES,
	.list = opencl_list,
	.tend = opencl_tend,
	.build = opencl_build,
	.probe = opencl_probe,
	.stats = opencl_stats,
	.free = opencl_free,
};
