/*
 * device_opencl_runner.c
 *	  The step runner of an OpenCL device: launches of steps as kernels over host memory in place, or
 *	  over copies of it.
 *
 * A runner belongs to one join: an in-order queue, kernels of the join's key width (their arguments are
 * state, so they are not shared), and buffers over the join's regions.  Buffers over the caller's keys and
 * pages are made for each launch and released at once; OpenCL keeps them until the launch is done.
 *
 * A device with its own memory has buffers there (device_opencl_regions.c), which are kept between joins
 * (device_opencl_pool.c).  Before a launch, the parts of its input that only the host has are copied.
 * Keys and pairs share one buffer for all launches, in the order of the queue.  Host memory that is still
 * to be copied does not change: rows belong to one processor until their series has ended.  On such a
 * device b3 is two kernels, since key nodes are linked by a later launch than the one that created them
 * (hjg_steps.h).
 */
#define _GNU_SOURCE

#include "device/hjg_opencl.h"

#ifdef HJG_HAVE_OPENCL

#include <stdlib.h>
#include <string.h>

#define GROUP_ITEMS 64			/* HJG_GROUP of the kernels */
#define MAX_EVENTS 256			/* launches whose outcome is not checked yet */

/*
 * Most bytes copied at a time to a device with its own memory: a table is copied at once, and a join
 * notices within 100 ms that it is cancelled.
 */
#define MAX_COPIED_BYTES ((size_t) 512 << 20)

/* Events of a launch's commands. */
typedef struct LaunchEvents
{
	cl_event	copied;			/* the first copy before the kernel; NULL: there is none */
	cl_event	kernel;
	cl_event	last;			/* the last command behind the kernel; NULL: the kernel is the last one */
} LaunchEvents;

typedef struct ClRunner
{
	HjgRunner	runner;
	const HjgClDevice *device;
	HjgClRegions regions;
	cl_kernel	kernels[HJG_STEP_COUNT];
	cl_kernel	merged;
	cl_kernel	own;			/* of own_step, from its first launch on */
	const HjgOwnStep *own_step;
	cl_kernel	link;			/* with copies: the kernel that follows b3 */
	cl_mem		user;			/* with copies: keys or pairs of a launch */
	size_t		user_bytes;
	LaunchEvents events[MAX_EVENTS];	/* by ticket */
	HjgRunnerTimes times;		/* of ended launches */
	hjg_u64		ended_ns;		/* end of the last ended launch, by the device's clock */
	hjg_u64		nlaunched;		/* tickets count from 1 */
	hjg_u64		nended;			/* launches that have ended and were released */
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

/* Find the buffer of a launch's keys or page: the launch's own, or with copies the one for all launches. */
static cl_mem
user_buffer(ClRunner *runner, const HjgStepLaunch *launch, cl_int *error)
{
	const HjgClApi *api = runner->device->api;

	/* keys may lie in memory that this process can only read */
	if (!runner->regions.copies)
		return api->create_buffer(runner->device->context,
								  (launch->step == HJG_STEP_HASH ? CL_MEM_READ_ONLY : CL_MEM_READ_WRITE) | CL_MEM_USE_HOST_PTR,
								  launch->user_bytes, launch->user, error);
	*error = CL_SUCCESS;
	if (runner->user_bytes < launch->user_bytes)
	{
		/* earlier launches use the old buffer */
		if (runner->user != NULL)
			api->release_mem(runner->user);
		runner->user = hjg_cl_pool_take(runner->device, launch->user_bytes, error);
		runner->user_bytes = runner->user != NULL ? launch->user_bytes : 0;
	}
	return runner->user;
}

/* Queue the copies of a launch's input. *first becomes the first copy's event. */
static cl_int
copy_in(ClRunner *runner, const HjgStepLaunch *launch, cl_mem user, cl_event *first)
{
	const HjgMemory work = {launch->work, launch->work_bytes};
	const hjg_u64 started = hjg_now_ns();
	HjgStepRanges of;
	cl_int		error;

	hjg_step_ranges(launch, &of);
	error = hjg_cl_cross(&runner->regions, HJG_ON_DEVICE, &work, of.ranges, of.n, first);
	if (error == CL_SUCCESS && launch->step == HJG_STEP_HASH && launch->user != launch->work)
	{
		runner->regions.ncopies[HJG_ON_DEVICE]++;
		runner->regions.crossed_bytes[HJG_ON_DEVICE] += launch->user_bytes;
		error = runner->device->api->enqueue_write(runner->regions.queue, user, CL_FALSE, 0, launch->user_bytes, launch->user, 0, NULL,
												   *first == NULL ? first : NULL);
	}
	if (*first != NULL)
		runner->times.copy_call_ns += hjg_now_ns() - started;
	return error;
}

/* Note the launch's new last command. */
static void
follow_event(const ClRunner *runner, LaunchEvents *events, cl_event last)
{
	if (events->last != NULL)
		runner->device->api->release_event(events->last);
	events->last = last;
}

/* Queue, after p4, the copy of its rows' pairs on the launch's page. */
static cl_int
copy_pairs_out(ClRunner *runner, const HjgStepLaunch *launch, cl_mem user, LaunchEvents *events)
{
	const HjgStepArgs *args = &launch->args;
	const hjg_u32 *offsets = (const hjg_u32 *) (launch->work + args->offsets_off);
	const hjg_u32 *counts = (const hjg_u32 *) (launch->work + args->counts_off);
	const hjg_u64 page_end = (hjg_u64) args->page_first + args->page_pairs;
	hjg_u64		from = offsets[launch->begin];
	hjg_u64		to = (hjg_u64) offsets[launch->end - 1] + counts[launch->end - 1];
	cl_int		error;
	cl_event	last;

	if (from < args->page_first)
		from = args->page_first;
	if (to > page_end)
		to = page_end;
	if (from >= to)
		return CL_SUCCESS;
	from = (from - args->page_first) * sizeof(HjgPair);
	to = (to - args->page_first) * sizeof(HjgPair);
	runner->regions.crossed_bytes[HJG_ON_CPU] += to - from;
	error = runner->device->api->enqueue_read(runner->regions.queue, user, CL_FALSE, from, to - from, (hjg_u8 *) launch->user + from, 0,
											  NULL, &last);
	if (error == CL_SUCCESS)
		follow_event(runner, events, last);
	return error;
}

static cl_ulong
profiled_time(const ClRunner *runner, cl_event event, cl_profiling_info what)
{
	cl_ulong	ns = 0;

	return runner->device->api->event_profile(event, what, sizeof(ns), &ns, NULL) == CL_SUCCESS ? ns : 0;
}

/*
 * Count how long the device worked on a launch, and how long an idle device waited for it.  With copies
 * the wait is from the queueing of the first copy, or the end of the previous launch, to the kernel's
 * start, because some drivers move pageable memory before they report that the copy has begun.
 */
static void
count_launch(ClRunner *runner, const LaunchEvents *events)
{
	HjgRunnerTimes *times = &runner->times;
	const cl_ulong queued = profiled_time(runner, events->copied != NULL ? events->copied : events->kernel, CL_PROFILING_COMMAND_QUEUED);
	const cl_ulong start = profiled_time(runner, events->kernel, CL_PROFILING_COMMAND_START);
	const cl_ulong end = profiled_time(runner, events->last != NULL ? events->last : events->kernel, CL_PROFILING_COMMAND_END);
	const cl_ulong idle = queued > runner->ended_ns ? queued : runner->ended_ns;

	if (queued == 0 || start == 0 || end == 0)
		return;
	if (end > start)
		times->busy_ns += end - start;
	if (events->copied != NULL)
	{
		times->ncopied++;
		times->copy_ns += start > idle ? start - idle : 0;
	}
	else if (queued < runner->ended_ns)
	{
		times->nfollowed++;
		times->gap_ns += start > idle ? start - idle : 0;
	}
	else
	{
		times->nbegun++;
		times->begin_ns += start > idle ? start - idle : 0;
	}
	runner->ended_ns = end;
}

static void
cl_times(void *arg, HjgRunnerTimes *times)
{
	const ClRunner *runner = arg;

	*times = runner->times;
	for (int p = 0; p < HJG_PROCESSORS; p++)
	{
		times->ncopies[p] = runner->regions.ncopies[p];
		times->crossed_bytes[p] = runner->regions.crossed_bytes[p];
	}
}

static cl_event
last_event(const LaunchEvents *events)
{
	return events->last != NULL ? events->last : events->kernel;
}

/* Wait for all launches up to ticket, and remember a failure. */
static HjgStatus
cl_wait(void *arg, hjg_u64 ticket)
{
	ClRunner   *runner = arg;
	const HjgClApi *api = runner->device->api;

	while (runner->nended < ticket)
	{
		const LaunchEvents *events = &runner->events[runner->nended++ % MAX_EVENTS];
		const cl_event last = last_event(events);
		cl_int		state = CL_COMPLETE;

		if (api->wait_events(1, &last) != CL_SUCCESS ||
			api->event_info(last, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL) != CL_SUCCESS || state < 0)
			runner->regions.failed = true;
		count_launch(runner, events);
		api->release_event(events->kernel);
		if (events->copied != NULL)
			api->release_event(events->copied);
		if (events->last != NULL)
			api->release_event(events->last);
	}
	return runner->regions.failed ? HJG_ERR_DEVICE : HJG_OK;
}

static bool
cl_done(void *arg, hjg_u64 ticket)
{
	ClRunner   *runner = arg;
	cl_int		state = CL_QUEUED;

	if (ticket <= runner->nended)
		return true;
	if (runner->device->api->event_info(last_event(&runner->events[(ticket - 1) % MAX_EVENTS]), CL_EVENT_COMMAND_EXECUTION_STATUS,
										sizeof(state), &state, NULL) != CL_SUCCESS)
		return true;			/* cl_wait() will report the error */
	return state <= CL_COMPLETE;
}

/* Arguments of the kernels. */
typedef struct Arguments
{
	cl_mem		table;
	cl_mem		work;
	cl_mem		user;
	cl_mem		packed;
	HjgStepArgs args;
	cl_uint		begin;
	cl_uint		end;
	cl_uint		step;
} Arguments;

/* Queue a kernel of so many items; only a merged one, or one of the caller's own, takes all arguments. */
static cl_int
queue_kernel(ClRunner *runner, cl_kernel kernel, const Arguments *arguments, bool takes_all, size_t items, cl_event *event)
{
	const HjgClApi *api = runner->device->api;
	const size_t group = GROUP_ITEMS;
	cl_int		error = CL_SUCCESS;
	const struct
	{
		size_t		bytes;
		const void *value;
	}			values[] = {
		{sizeof(cl_mem), &arguments->table}, {sizeof(cl_mem), &arguments->work}, {sizeof(cl_mem), &arguments->user},
		{sizeof(arguments->args), &arguments->args}, {sizeof(cl_uint), &arguments->begin}, {sizeof(cl_uint), &arguments->end},
		{sizeof(cl_mem), &arguments->packed}, {sizeof(cl_uint), &arguments->step}
	};

	for (cl_uint i = 0; i < (takes_all ? 8 : 6) && error == CL_SUCCESS; i++)
		error = api->set_arg(kernel, i, values[i].bytes, values[i].value);
	if (error == CL_SUCCESS)
		error = api->enqueue_kernel(runner->regions.queue, kernel, 1, NULL, &items, &group, 0, NULL, event);
	return error;
}

/* Create a kernel; NULL on failure, with the reason in *error. */
static cl_kernel
create_kernel(const HjgClDevice *device, int key_width, const char *name, cl_int *error)
{
	cl_kernel	kernel = device->api->create_kernel(device->programs[key_width == 4 ? 0 : key_width == 8 ? 1 : 2], name, error);

	return *error == CL_SUCCESS ? kernel : NULL;
}

/* Find the kernel of a launch; NULL when OpenCL refuses. */
static cl_kernel
launch_kernel(ClRunner *runner, const HjgStepLaunch *launch)
{
	cl_int		error;

	if (launch->step != HJG_STEP_OWN)
		return launch->args.unpack_workers > 0 || launch->step >= HJG_STEP_COUNT ? runner->merged : runner->kernels[launch->step];
	if (runner->own_step != launch->own)
	{
		/* earlier launches keep the old one until they have ended */
		if (runner->own != NULL)
			runner->device->api->release_kernel(runner->own);
		runner->own = create_kernel(runner->device, launch->width, launch->own->kernel, &error);
		runner->own_step = launch->own;
	}
	return runner->own;
}

/* Choose the work groups that execute a launch, besides those that unpack. */
static size_t
launch_groups(const ClRunner *runner, const HjgStepLaunch *launch)
{
	const size_t most = (size_t) runner->runner.nworkers - launch->args.unpack_workers;
	const size_t n = launch->end - launch->begin;
	const size_t ngroups = launch->step == HJG_STEP_OWN ? n : (n + GROUP_ITEMS - 1) / GROUP_ITEMS;

	if (launch->step == HJG_STEP_UNPACK)
		return 0;
	return ngroups < most ? ngroups : most;
}

static HjgStatus
cl_launch(void *arg, const HjgStepLaunch *launch, hjg_u64 *ticket)
{
	ClRunner   *runner = arg;
	const HjgClApi *api = runner->device->api;
	const bool	copies = runner->regions.copies;
	const bool	is_merged = launch->args.unpack_workers > 0;
	const HjgMemory work_memory = {launch->work, launch->work_bytes};
	const HjgMemory table_memory = {launch->table, launch->table_bytes};
	const bool	is_own = launch->step == HJG_STEP_OWN;
	cl_kernel	kernel = launch_kernel(runner, launch);
	cl_mem		work = hjg_cl_region_buffer(&runner->regions, &work_memory);
	/* a step without the table does not copy it */
	cl_mem		table = copies && !hjg_step_uses_table(launch->step) ? work : hjg_cl_region_buffer(&runner->regions, &table_memory);
	cl_mem		user = work;
	cl_mem		packed = NULL;
	bool		is_launched = false;
	const cl_uint step = (cl_uint) launch->step;
	const cl_uint begin = launch->begin;
	const cl_uint end = launch->end;
	HjgStepArgs args = launch->args;
	const size_t items = (launch_groups(runner, launch) + launch->args.unpack_workers) * GROUP_ITEMS;
	cl_int		error = CL_SUCCESS;
	LaunchEvents *events;

	/* blocks are unpacked, and own steps run, only when host and device share memory */
	if (runner->regions.failed || kernel == NULL || table == NULL || work == NULL || (begin >= end && !is_merged) ||
		((is_merged || is_own) && copies))
		return HJG_ERR_DEVICE;
	if (runner->nlaunched - runner->nended == MAX_EVENTS)
		cl_wait(runner, runner->nended + 1);
	events = &runner->events[runner->nlaunched % MAX_EVENTS];
	*events = (LaunchEvents) {.copied = NULL};
	args.links_later = copies && launch->step == HJG_STEP_B3;
	if (launch->user != NULL && launch->user != launch->work)
		user = user_buffer(runner, launch, &error);
	if (error == CL_SUCCESS && copies)
		error = copy_in(runner, launch, user, &events->copied);
	if (error == CL_SUCCESS && (is_merged || is_own) && launch->packed != NULL)
		packed = api->create_buffer(runner->device->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, launch->packed_bytes,
									(void *) launch->packed, &error);
	if (error == CL_SUCCESS)
	{
		const Arguments arguments = {table, work, user, packed, args, begin, end, step};
		cl_event	linked;

		error = queue_kernel(runner, kernel, &arguments, is_merged || is_own, items, &events->kernel);
		is_launched = error == CL_SUCCESS;
		if (is_launched)
			*ticket = ++runner->nlaunched;
		if (error == CL_SUCCESS && args.links_later)
		{
			error = queue_kernel(runner, runner->link, &arguments, false, items, &linked);
			if (error == CL_SUCCESS)
				follow_event(runner, events, linked);
		}
		if (error == CL_SUCCESS && copies && launch->step == HJG_STEP_P4)
			error = copy_pairs_out(runner, launch, user, events);
		if (error == CL_SUCCESS)
			error = api->flush(runner->regions.queue);
	}
	if (error != CL_SUCCESS)
	{
		runner->regions.failed = true;
		/* the host's memory must not be in use when this returns */
		api->finish(runner->regions.queue);
		if (events->copied != NULL && !is_launched)
			api->release_event(events->copied);
	}
	if (!copies && user != work && user != NULL)
		api->release_mem(user);
	if (packed != NULL)
		api->release_mem(packed);
	return error == CL_SUCCESS ? HJG_OK : HJG_ERR_DEVICE;
}

static void
cl_forget(void *arg, const void *memory)
{
	ClRunner   *runner = arg;

	/* other joins may use the buffers from now on */
	cl_wait(runner, runner->nlaunched);
	hjg_cl_region_forget(&runner->regions, memory);
}

static HjgStatus
cl_move(void *arg, HjgProcessor to, const HjgMemory *memory, const HjgRange *ranges, int nranges)
{
	ClRunner   *runner = arg;
	const HjgClApi *api = runner->device->api;
	cl_event	first = NULL;
	cl_int		error = runner->regions.failed ? CL_INVALID_OPERATION :
		hjg_cl_cross(&runner->regions, to, memory, ranges, nranges, &first);

	/* also after an error: the caller is about to use or free the memory */
	if (first != NULL && api->finish(to == HJG_ON_DEVICE ? runner->regions.queue : runner->regions.back) != CL_SUCCESS)
		error = CL_INVALID_OPERATION;
	if (first != NULL)
		api->release_event(first);
	if (error != CL_SUCCESS)
		runner->regions.failed = true;
	return error == CL_SUCCESS ? HJG_OK : HJG_ERR_DEVICE;
}

static HjgStatus
cl_fetch(void *arg, const void *memory, size_t off, size_t bytes, void *into)
{
	ClRunner   *runner = arg;

	return hjg_cl_region_fetch(&runner->regions, memory, off, bytes, into) == CL_SUCCESS ? HJG_OK : HJG_ERR_DEVICE;
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
	if (runner->link != NULL)
		api->release_kernel(runner->link);
	if (runner->own != NULL)
		api->release_kernel(runner->own);
	if (runner->user != NULL && runner->regions.failed)
		api->release_mem(runner->user);
	else if (runner->user != NULL)
		hjg_cl_pool_give(runner->device, runner->user, runner->user_bytes);
	hjg_cl_regions_free(&runner->regions);
	free(runner);
}

HjgRunner *
hjg_cl_runner_create(const HjgClDevice *device, int key_width, bool copies)
{
	const HjgClApi *api = device->api;
	ClRunner   *runner = calloc(1, sizeof(ClRunner));
	int			nworkers;
	cl_int		error;

	if (runner == NULL)
		return NULL;
	runner->device = device;
	runner->regions.device = device;
	runner->regions.copies = copies;
	nworkers = device->units * 4 < HJG_RUNNER_MAX_WORKERS ? (int) device->units * 4 : HJG_RUNNER_MAX_WORKERS;
	runner->runner = (HjgRunner) {
		.arg = runner,
		.nworkers = nworkers,
		.ncores = device->facts.is_cpu && (int) device->units < nworkers ? (int) device->units : nworkers,
		.align_bytes = device->facts.align_bytes > 0 && !copies ? device->facts.align_bytes : 1,
		.max_bytes = copies && device->facts.max_alloc_bytes > MAX_COPIED_BYTES ? MAX_COPIED_BYTES :
			(size_t) device->facts.max_alloc_bytes,
		.launch = cl_launch,
		.done = cl_done,
		.wait = cl_wait,
		.forget = cl_forget,
		.times = cl_times,
		.move = copies ? cl_move : NULL,
		.fetch = copies ? cl_fetch : NULL,
	};
	runner->regions.queue = api->create_queue(device->context, device->id, CL_QUEUE_PROFILING_ENABLE, &error);
	if (error != CL_SUCCESS)
		runner->regions.queue = NULL;
	if (error == CL_SUCCESS && copies)
		runner->regions.back = api->create_queue(device->context, device->id, 0, &error);
	if (error != CL_SUCCESS)
		runner->regions.back = NULL;
	for (int i = 0; i < HJG_STEP_COUNT && error == CL_SUCCESS; i++)
		runner->kernels[i] = create_kernel(device, key_width, kernel_names[i], &error);
	if (error == CL_SUCCESS)
		runner->merged = create_kernel(device, key_width, "hjg_k_merged", &error);
	if (error == CL_SUCCESS && copies)
		runner->link = create_kernel(device, key_width, "hjg_k_b3_link", &error);
	if (error == CL_SUCCESS)
		return &runner->runner;
	hjg_cl_runner_destroy(&runner->runner);
	return NULL;
}

#endif							/* HJG_HAVE_OPENCL */
