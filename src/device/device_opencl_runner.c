/*
 * device_opencl_runner.c
 *	  The step runner of an OpenCL device: launches of steps as kernels over host
 *	  memory in place.
 *
 * A runner belongs to one join: an in-order queue, kernels of the join's key width
 * (their arguments are state, so they are not shared), and buffers over the join's two
 * regions.  Buffers over the caller's keys and pages are made for each launch and
 * released at once; OpenCL keeps them until the launch is done.
 */
#define _GNU_SOURCE

#include "device/hjg_opencl.h"

#ifdef HJG_HAVE_OPENCL

#include <stdlib.h>
#include <string.h>

#define GROUP_ITEMS 64			/* HJG_GROUP of the kernels */
#define MAX_EVENTS 256			/* launches whose outcome is still to be looked at */
#define NREGIONS 2

typedef struct ClRunner
{
	HjgRunner	runner;
	const HjgClDevice *device;
	cl_command_queue queue;
	cl_kernel	kernels[HJG_STEP_COUNT];
	cl_kernel	merged;
	struct
	{
		const void *base;
		size_t		bytes;
		cl_mem		buffer;
	}			regions[NREGIONS];
	cl_event	events[MAX_EVENTS]; /* by ticket */
	hjg_u64		nlaunched;		/* tickets count from 1 */
	hjg_u64		nended;			/* of these, released */
	HjgStatus	failed;			/* outcome of the first launch that failed */
} ClRunner;

static const char *const kernel_names[HJG_STEP_COUNT] = {
	[HJG_STEP_HASH] = "hjg_k_hash",
	[HJG_STEP_NUMBER] = "hjg_k_number",
	[HJG_STEP_N2] = "hjg_k_n2",
	[HJG_STEP_N3] = "hjg_k_n3",
	[HJG_STEP_B2] = "hjg_k_b2",
	[HJG_STEP_B3] = "hjg_k_b3",
	[HJG_STEP_B4] = "hjg_k_b4",
	[HJG_STEP_P2] = "hjg_k_p2",
	[HJG_STEP_P3] = "hjg_k_p3",
	[HJG_STEP_P4] = "hjg_k_p4",
};

/* The buffer over a region; NULL when OpenCL refuses. */
static cl_mem
region_buffer(ClRunner *runner, int which, void *base, size_t bytes)
{
	const HjgClApi *api = runner->device->api;
	cl_int		error;

	if (runner->regions[which].base == base && runner->regions[which].bytes == bytes)
		return runner->regions[which].buffer;
	if (runner->regions[which].buffer != NULL)
		api->release_mem(runner->regions[which].buffer);
	runner->regions[which].base = NULL;
	runner->regions[which].buffer = api->create_buffer(runner->device->context,
													   CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, base, &error);
	if (error != CL_SUCCESS)
		return runner->regions[which].buffer = NULL;
	runner->regions[which].base = base;
	runner->regions[which].bytes = bytes;
	return runner->regions[which].buffer;
}

/* Wait for all launches up to ticket, and remember the first bad outcome. */
static HjgStatus
cl_wait(void *arg, hjg_u64 ticket)
{
	ClRunner   *runner = arg;
	const HjgClApi *api = runner->device->api;

	while (runner->nended < ticket)
	{
		cl_event	event = runner->events[runner->nended++ % MAX_EVENTS];
		cl_int		state = CL_COMPLETE;

		if (api->wait_events(1, &event) != CL_SUCCESS ||
			api->event_info(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL) != CL_SUCCESS ||
			state < 0)
			runner->failed = HJG_ERR_DEVICE;
		api->release_event(event);
	}
	return runner->failed;
}

static bool
cl_done(void *arg, hjg_u64 ticket)
{
	ClRunner   *runner = arg;
	cl_int		state = CL_QUEUED;

	if (ticket <= runner->nended)
		return true;
	if (runner->device->api->event_info(runner->events[(ticket - 1) % MAX_EVENTS], CL_EVENT_COMMAND_EXECUTION_STATUS,
										sizeof(state), &state, NULL) != CL_SUCCESS)
		return true;			/* cl_wait() will say what is wrong */
	return state <= CL_COMPLETE;
}

static HjgStatus
cl_launch(void *arg, const HjgStepLaunch *launch, hjg_u64 *ticket)
{
	ClRunner   *runner = arg;
	const HjgClApi *api = runner->device->api;
	const bool	is_merged = launch->args.unpack_workers > 0;
	cl_kernel	kernel = is_merged ? runner->merged : runner->kernels[launch->step];
	cl_mem		table = region_buffer(runner, 0, launch->table, launch->table_bytes);
	cl_mem		work = region_buffer(runner, 1, launch->work, launch->work_bytes);
	cl_mem		user = work;
	cl_mem		packed = NULL;
	cl_uint		step = (cl_uint) launch->step;
	cl_uint		begin = launch->begin;
	cl_uint		end = launch->end;
	size_t		ngroups = (end - begin + GROUP_ITEMS - 1) / GROUP_ITEMS;
	size_t		items;
	const size_t group = GROUP_ITEMS;
	cl_int		error = CL_SUCCESS;

	if (runner->failed != HJG_OK || table == NULL || work == NULL || (begin >= end && !is_merged))
		return HJG_ERR_DEVICE;
	if (runner->nlaunched - runner->nended == MAX_EVENTS)
		cl_wait(runner, runner->nended + 1);
	if (ngroups > (size_t) runner->runner.nworkers)
		ngroups = (size_t) runner->runner.nworkers;
	/* the groups that unpack are some of the device's */
	if (is_merged && ngroups + launch->args.unpack_workers > (size_t) runner->runner.nworkers)
		ngroups = (size_t) runner->runner.nworkers - launch->args.unpack_workers;
	if (launch->step == HJG_STEP_UNPACK)
		ngroups = 0;
	items = (ngroups + launch->args.unpack_workers) * GROUP_ITEMS;
	if (launch->user != NULL && launch->user != launch->work)
		user = api->create_buffer(runner->device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, launch->user_bytes,
								  launch->user, &error);
	if (error == CL_SUCCESS && is_merged)
		packed = api->create_buffer(runner->device->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, launch->packed_bytes,
									(void *) launch->packed, &error);
	if (error == CL_SUCCESS)
	{
		const struct
		{
			size_t		bytes;
			const void *value;
		}			arguments[] = {
			{sizeof(table), &table}, {sizeof(work), &work}, {sizeof(user), &user},
			{sizeof(launch->args), &launch->args}, {sizeof(begin), &begin}, {sizeof(end), &end},
			{sizeof(packed), &packed}, {sizeof(step), &step}
		};

		for (cl_uint i = 0; i < (is_merged ? 8 : 6) && error == CL_SUCCESS; i++)
			error = api->set_arg(kernel, i, arguments[i].bytes, arguments[i].value);
		if (error == CL_SUCCESS)
			error = api->enqueue_kernel(runner->queue, kernel, 1, NULL, &items, &group, 0, NULL,
										&runner->events[runner->nlaunched % MAX_EVENTS]);
		if (error == CL_SUCCESS)
		{
			*ticket = ++runner->nlaunched;
			error = api->flush(runner->queue);
		}
	}
	if (user != work && user != NULL)
		api->release_mem(user);
	if (packed != NULL)
		api->release_mem(packed);
	return error == CL_SUCCESS ? HJG_OK : HJG_ERR_DEVICE;
}

static void
cl_forget(void *arg, const void *memory)
{
	ClRunner   *runner = arg;

	for (int i = 0; i < NREGIONS; i++)
		if (runner->regions[i].base == memory && runner->regions[i].buffer != NULL)
		{
			runner->device->api->release_mem(runner->regions[i].buffer);
			runner->regions[i].buffer = NULL;
			runner->regions[i].base = NULL;
		}
}

void
hjg_cl_runner_destroy(HjgRunner *handle)
{
	ClRunner   *runner = handle == NULL ? NULL : handle->arg;
	const HjgClApi *api;

	if (runner == NULL)
		return;
	api = runner->device->api;
	cl_wait(runner, runner->nlaunched);
	for (int i = 0; i < HJG_STEP_COUNT; i++)
		if (runner->kernels[i] != NULL)
			api->release_kernel(runner->kernels[i]);
	if (runner->merged != NULL)
		api->release_kernel(runner->merged);
	for (int i = 0; i < NREGIONS; i++)
		if (runner->regions[i].buffer != NULL)
			api->release_mem(runner->regions[i].buffer);
	if (runner->queue != NULL)
		api->release_queue(runner->queue);
	free(runner);
}

HjgRunner *
hjg_cl_runner_create(const HjgClDevice *device, int key_width)
{
	const HjgClApi *api = device->api;
	ClRunner   *runner = calloc(1, sizeof(ClRunner));
	cl_int		error;

	if (runner == NULL)
		return NULL;
	runner->device = device;
	runner->runner = (HjgRunner) {
		.arg = runner,
		.nworkers = device->units * 4 < HJG_RUNNER_MAX_WORKERS ? (int) device->units * 4 : HJG_RUNNER_MAX_WORKERS,
		.align_bytes = device->facts.align_bytes > 0 ? device->facts.align_bytes : 1,
		.max_bytes = (size_t) device->facts.max_alloc_bytes,
		.launch = cl_launch,
		.done = cl_done,
		.wait = cl_wait,
		.forget = cl_forget,
	};
	runner->queue = api->create_queue(device->context, device->id, 0, &error);
	if (error != CL_SUCCESS)
		runner->queue = NULL;
	for (int i = 0; i < HJG_STEP_COUNT && error == CL_SUCCESS; i++)
	{
		runner->kernels[i] = api->create_kernel(device->programs[key_width == 4 ? 0 : key_width == 8 ? 1 : 2],
												kernel_names[i], &error);
		if (error != CL_SUCCESS)
			runner->kernels[i] = NULL;
	}
	if (error == CL_SUCCESS)
		runner->merged = api->create_kernel(device->programs[key_width == 4 ? 0 : key_width == 8 ? 1 : 2], "hjg_k_merged", &error);
	if (error == CL_SUCCESS)
		return &runner->runner;
	runner->merged = NULL;
	hjg_cl_runner_destroy(&runner->runner);
	return NULL;
}

#endif							/* HJG_HAVE_OPENCL */
