/*
 * device_opencl_aside.c
 *	  Tasks done once for an OpenCL device and a key width, in a thread aside from joins: opening the
 *	  device, and measuring its steps.
 *
 * Drivers compile programs when a device is opened, and kernels at their first launch.  That may take
 * seconds, while a join must keep its heartbeat and notice cancellation.  So a thread opens the device and
 * runs a small join, or runs the joins that measure unit costs, and the join that needs the result polls
 * until the thread has ended.  No join waits for measurements made ahead.
 *
 * While such a thread is in the driver, the device counts as used (device_health.c): if the process dies
 * there, that is a failure of the device, even without a join; if it is told to end, or ends with the
 * server or its supervisor, it is not.
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/hjg_opencl.h"

/* Longest wait for a driver's task. */
#define ASIDE_LIMIT_MS 60000
#define ASIDE_PAUSE_NS 1000000
#define WARM_ROWS 4096

/*
 * Time of a calibration on a quiet machine, for which a join waits; more time does not improve it on a
 * busy one.
 */
#define CALIBRATION_NS UINT64_C(4000000000)

/* State of a task, which runs once for a device and a key width, and again after it failed. */
typedef enum AsideState
{
	ASIDE_IDLE,
	ASIDE_RUNNING,
	ASIDE_DONE,
	ASIDE_FAILED
} AsideState;

typedef struct Aside
{
	int			state;			/* AsideState; its thread writes the other members before it ends */
	int			number;			/* of the device */
	int			key_width;
	HjgPipeline pipeline;		/* of the join that asked */
	hjg_u64		started_ns;
	char		reason[128];	/* of the failure */
	HjgStepCosts costs;			/* measured */
	HjgSeriesMemos memos;		/* results of joins under these costs */
} Aside;

static pthread_mutex_t aside_lock = PTHREAD_MUTEX_INITIALIZER;
static Aside warm_ups[HJG_CL_DEVICES][HJG_CL_WIDTHS];
static Aside measurements[HJG_CL_DEVICES][HJG_CL_WIDTHS];

/*
 * Run small joins with half of each step on the device.  The kernel that also unpacks takes longest to
 * compile, and is left to the joins that want it.
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
	for (int partitioned = 0; partitioned < 2 && status == HJG_OK; partitioned++)
	{
		const HjgSegment segment = {.keys = keys, .nrows = WARM_ROWS};
		HjgResult	result = {.pages = &pairs, .npages = 1, .page_pairs = WARM_ROWS};
		HjgCoupledConfig config = *with;
		HjgCursor	cursor = {0};
		HjgCoupled *join;

		config.strategy = strategies[partitioned];
		config.pipeline = HJG_PIPELINE_E;
		status = hjg_coupled_build(&hjg_cl_plain_env, &config, runner, key_width, HJG_MATCH_ALL, &segment, 1, &join);
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

/* Make a device that could not be opened rest, so that not every join tries again. */
static void
leave_alone(int number, const char *reason)
{
	char		name[32];

	hjg_cl_name(number, name, sizeof(name));
	hjg_health_rest(name, reason);
}

static void *
run_aside(void *arg)
{
	Aside	   *aside = arg;
	const bool	measures = aside >= &measurements[0][0] && aside <= &measurements[HJG_CL_DEVICES - 1][HJG_CL_WIDTHS - 1];
	HjgCoupledConfig config;
	HjgStatus	status = HJG_ERR_DEVICE;
	HjgRunner  *runner;
	char		name[32];

	hjg_cl_name(aside->number, name, sizeof(name));
	hjg_health_enter(name);
	hjg_coupled_defaults(&config);
	config.pipeline = aside->pipeline;
	config.calibration_ns = CALIBRATION_NS;
	runner = hjg_opencl_begin(aside->number, aside->key_width, &config.cpu_threads, aside->reason, sizeof(aside->reason));
	if (runner != NULL)
	{
		HjgEnv		env = hjg_cl_plain_env;

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
	hjg_health_leave(name);
	__atomic_store_n(&aside->state, status == HJG_OK ? ASIDE_DONE : ASIDE_FAILED, __ATOMIC_RELEASE);
	return NULL;
}

/* Start the task if needed; false when no thread can start. */
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
		aside->started_ns = hjg_now_ns();
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

/* Wait for the task: HJG_OK, HJG_ERR_CANCELLED, or HJG_ERR_DEVICE with the reason. */
static HjgStatus
wait_aside(const Aside *aside, const HjgEnv *env, char *reason, size_t room)
{
	int			state;

	while ((state = __atomic_load_n(&aside->state, __ATOMIC_ACQUIRE)) == ASIDE_RUNNING)
	{
		if (env->poll != NULL && env->poll(env->arg))
			return HJG_ERR_CANCELLED;
		if (hjg_now_ns() - aside->started_ns > (hjg_u64) hjg_cl_limit_ms(ASIDE_LIMIT_MS) * 1000000)
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

static const int key_widths[HJG_CL_WIDTHS] = {HJG_KEY_WIDTH_4, HJG_KEY_WIDTH_8, HJG_KEY_WIDTH_16};

static int
memo_ix_of(int key_width)
{
	return key_width == HJG_KEY_WIDTH_4 ? 0 : key_width == HJG_KEY_WIDTH_8 ? 1 : 2;
}

HjgStatus
hjg_cl_get_ready(int number, const char *name, const HjgEnv *env, int key_width)
{
	Aside	   *aside = &warm_ups[number][memo_ix_of(key_width)];
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
	/* a driver that hangs has not noted its failure itself */
	if (status == HJG_ERR_DEVICE)
		leave_alone(number, reason);
	return status;
}

const HjgStepCosts *
hjg_cl_costs(int number, const HjgEnv *env, int key_width, HjgPipeline pipeline, bool may_measure)
{
	Aside	   *aside = &measurements[number][memo_ix_of(key_width)];
	const int	before = __atomic_load_n(&aside->state, __ATOMIC_ACQUIRE);
	char		reason[128];

	if (before == ASIDE_DONE)
		return &aside->costs;
	/* only the first join waits for a measurement, and a failed one is not tried again */
	if (before != ASIDE_IDLE || !may_measure || !begin_aside(aside, number, key_width, pipeline))
		return NULL;
	return wait_aside(aside, env, reason, sizeof(reason)) == HJG_OK ? &aside->costs : NULL;
}

HjgSeriesMemos *
hjg_cl_memos(int number, int key_width)
{
	return &measurements[number][memo_ix_of(key_width)].memos;
}

hjg_u32
hjg_cl_measured_widths(int number)
{
	hjg_u32		done = 0;

	for (int w = 0; w < HJG_CL_WIDTHS; w++)
		if (__atomic_load_n(&measurements[number][w].state, __ATOMIC_ACQUIRE) == ASIDE_DONE)
			done |= HJG_WIDTH_BIT(key_widths[w]);
	return done;
}

bool
hjg_cl_measure_ahead(int number)
{
	char		name[32];
	char		reason[128];

	hjg_cl_name(number, name, sizeof(name));
	for (int w = 0; w < HJG_CL_WIDTHS; w++)
	{
		Aside	   *const asides[] = {&warm_ups[number][w], &measurements[number][w]};

		for (int i = 0; i < 2; i++)
		{
			const int	state = __atomic_load_n(&asides[i]->state, __ATOMIC_ACQUIRE);

			if (state == ASIDE_RUNNING)
				return true;
			if (state == ASIDE_FAILED)
				return false;
			if (state == ASIDE_IDLE)
				return !hjg_health_resting(name, reason, sizeof(reason)) && begin_aside(asides[i], number, key_widths[w], HJG_PIPELINE_E);
		}
	}
	return false;
}
