/*
 * device_opencl_runner.c
 *	  The step runner of an OpenCL device: launches of steps as kernels over host
 *	  memory in place, or over copies of it.
 *
 * A runner belongs to one join: an in-order queue, kernels of the join's key width
 * (their arguments are state, so they are not shared), and buffers over the join's
 * regions.  Buffers over the caller's keys and pages are made for each launch and
 * released at once; OpenCL keeps them until the launch is done.
 *
 * A device with memory of its own has buffers there: a table goes to it as a whole when a step first uses it, rows of work
 * before each launch and back behind it (device_opencl_copies.c), keys and pairs through one buffer for all
 * launches.  Memory of a launch that is still to be copied is not changed by anyone: the engine has one launch at work at
 * a time.  There b3 is two kernels, since key nodes are linked by a later launch than the one that created them (hjg_steps.h).
 */
#define _GNU_SOURCE

#include "device/hjg_opencl.h"

#ifdef HJG_HAVE_OPENCL

#include <stdlib.h>
#include <string.h>

#define GROUP_ITEMS 64			/* HJG_GROUP of the kernels */
#define MAX_EVENTS 256			/* launches whose outcome is still to be looked at */
#define MAX_REGIONS 300			/* tables of a join in parts, and work */

/* Of a device with memory of its own: a table goes there at once, and a join notices within 100 ms that it is cancelled. */
#define MAX_COPIED_BYTES ((size_t) 512 << 20)

typedef struct ClRunner
{
	HjgRunner	runner;
	const HjgClDevice *device;
	cl_command_queue queue;
	cl_kernel	kernels[HJG_STEP_COUNT];
	cl_kernel	merged;
	cl_kernel	link;			/* with copies: what follows b3 */
	bool		copies;
	struct
	{
		const void *base;
		size_t		bytes;
		cl_mem		buffer;
	}			regions[MAX_REGIONS];
	int			nregions;
	int			next_region;	/* to be replaced when there are too many */
	cl_mem		user;			/* with copies: keys of a launch, or its pairs */
	size_t		user_bytes;
	cl_event	events[MAX_EVENTS]; /* by ticket: of its last command */
	hjg_u64		queued_ns[MAX_EVENTS];	/* with copies: that it took to queue its commands */
	HjgRunnerTimes times;		/* of launches that ended */
	hjg_u64		ended_ns;		/* the last of them did, by the device's clock */
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

static void
drop_region(ClRunner *runner, int i)
{
	if (runner->regions[i].buffer != NULL)
		runner->device->api->release_mem(runner->regions[i].buffer);
	runner->regions[i].buffer = NULL;
	runner->regions[i].base = NULL;
}

/* The region's place among the runner's, or a free one. */
static int
find_region(ClRunner *runner, const void *base)
{
	int			free_one = -1;

	for (int i = 0; i < runner->nregions; i++)
	{
		if (runner->regions[i].base == base)
			return i;
		if (runner->regions[i].base == NULL)
			free_one = i;
	}
	if (free_one >= 0)
		return free_one;
	if (runner->nregions < MAX_REGIONS)
		return runner->nregions++;
	return runner->next_region++ % MAX_REGIONS;
}

/* The buffer over a region; NULL when OpenCL refuses.  A copy that is new gets the host's bytes if it is to be filled. */
static cl_mem
region_buffer(ClRunner *runner, void *base, size_t bytes, bool fills)
{
	const HjgClApi *api = runner->device->api;
	const int	i = find_region(runner, base);
	cl_mem		buffer;
	cl_int		error;

	if (runner->regions[i].base == base && runner->regions[i].bytes == bytes)
		return runner->regions[i].buffer;
	drop_region(runner, i);
	buffer = api->create_buffer(runner->device->context, CL_MEM_READ_WRITE | (runner->copies ? 0 : CL_MEM_USE_HOST_PTR), bytes,
								runner->copies ? NULL : base, &error);
	if (error != CL_SUCCESS)
		return NULL;
	if (runner->copies && fills &&
		api->enqueue_write(runner->queue, buffer, CL_FALSE, 0, bytes, base, 0, NULL, NULL) != CL_SUCCESS)
	{
		api->release_mem(buffer);
		return NULL;
	}
	runner->regions[i].base = base;
	runner->regions[i].bytes = bytes;
	return runner->regions[i].buffer = buffer;
}

/* The buffer of a launch's keys or page: the launch's own, or with copies the one for all. */
static cl_mem
user_buffer(ClRunner *runner, const HjgStepLaunch *launch, cl_int *error)
{
	const HjgClApi *api = runner->device->api;

	if (!runner->copies)
		return api->create_buffer(runner->device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, launch->user_bytes,
								  launch->user, error);
	*error = CL_SUCCESS;
	if (runner->user_bytes < launch->user_bytes)
	{
		if (runner->user != NULL)
			api->release_mem(runner->user);
		runner->user_bytes = 0;
		runner->user = api->create_buffer(runner->device->context, CL_MEM_READ_WRITE, launch->user_bytes, NULL, error);
		if (*error == CL_SUCCESS)
			runner->user_bytes = launch->user_bytes;
		else
			runner->user = NULL;
	}
	return runner->user;
}

/* Before a launch: what it reads. */
static cl_int
copy_in(ClRunner *runner, const HjgStepLaunch *launch, const HjgClCopies *copies, cl_mem work, cl_mem user)
{
	const HjgClApi *api = runner->device->api;
	cl_int		error = CL_SUCCESS;

	for (int i = 0; i < copies->nranges && error == CL_SUCCESS; i++)
		if (copies->ranges[i].reads)
			error = api->enqueue_write(runner->queue, work, CL_FALSE, copies->ranges[i].off, copies->ranges[i].bytes,
									   launch->work + copies->ranges[i].off, 0, NULL, NULL);
	if (error == CL_SUCCESS && launch->step == HJG_STEP_HASH && copies->user_bytes > 0)
		error = api->enqueue_write(runner->queue, user, CL_FALSE, 0, copies->user_bytes, launch->user, 0, NULL, NULL);
	return error;
}

/* Another command of the launch at work is the last one now. */
static void
follow(ClRunner *runner, cl_event *event, cl_event last)
{
	runner->device->api->release_event(*event);
	*event = last;
}

/* After it: what it wrote.  *event becomes the last copy's. */
static cl_int
copy_out(ClRunner *runner, const HjgStepLaunch *launch, const HjgClCopies *copies, cl_mem work, cl_mem user, cl_event *event)
{
	const HjgClApi *api = runner->device->api;
	cl_int		error = CL_SUCCESS;
	cl_event	last;

	for (int i = 0; i <= copies->nranges && error == CL_SUCCESS; i++)
	{
		const bool	is_user = i == copies->nranges;
		const HjgClRange *range = &copies->ranges[i];

		if (is_user ? launch->step != HJG_STEP_P4 || copies->user_bytes == 0 : !range->writes)
			continue;
		if (is_user)
			error = api->enqueue_read(runner->queue, user, CL_FALSE, copies->user_off, copies->user_bytes,
									  (hjg_u8 *) launch->user + copies->user_off, 0, NULL, &last);
		else
			error = api->enqueue_read(runner->queue, work, CL_FALSE, range->off, range->bytes, launch->work + range->off, 0,
									  NULL, &last);
		if (error == CL_SUCCESS)
			follow(runner, event, last);
	}
	return error;
}

/*
 * A kernel on shared memory: how long it ran, and how long it waited although the device had nothing else to do.  With copies
 * launches are alone, as a rule, and some drivers move what lies in pageable memory while it is queued: until the last command
 * was queued by the host's clock, and from there to its end by the device's.
 */
static void
count_launch(ClRunner *runner, int at)
{
	const HjgClApi *api = runner->device->api;
	HjgRunnerTimes *times = &runner->times;
	cl_ulong	queued = 0;
	cl_ulong	start = 0;
	cl_ulong	end = 0;

	times->busy_ns += runner->queued_ns[at];
	if (api->event_profile(runner->events[at], CL_PROFILING_COMMAND_QUEUED, sizeof(queued), &queued, NULL) != CL_SUCCESS ||
		api->event_profile(runner->events[at], CL_PROFILING_COMMAND_START, sizeof(start), &start, NULL) != CL_SUCCESS ||
		api->event_profile(runner->events[at], CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL) != CL_SUCCESS)
		return;
	if (runner->copies)
		start = queued;
	if (end > start)
		times->busy_ns += end - start;
	if (queued < runner->ended_ns)
	{
		times->nfollowed++;
		times->gap_ns += start > runner->ended_ns ? start - runner->ended_ns : 0;
	}
	else
	{
		times->nbegun++;
		times->begin_ns += start > queued ? start - queued : 0;
	}
	runner->ended_ns = end;
}

static void
cl_times(void *arg, HjgRunnerTimes *times)
{
	const ClRunner *runner = arg;

	*times = runner->times;
}

/* Wait for all launches up to ticket, and remember the first bad outcome. */
static HjgStatus
cl_wait(void *arg, hjg_u64 ticket)
{
	ClRunner   *runner = arg;
	const HjgClApi *api = runner->device->api;

	while (runner->nended < ticket)
	{
		const int	at = (int) (runner->nended++ % MAX_EVENTS);
		cl_int		state = CL_COMPLETE;

		if (api->wait_events(1, &runner->events[at]) != CL_SUCCESS ||
			api->event_info(runner->events[at], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL) != CL_SUCCESS ||
			state < 0)
			runner->failed = HJG_ERR_DEVICE;
		count_launch(runner, at);
		api->release_event(runner->events[at]);
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

/* What kernels are called with. */
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

/* A kernel of so many items; a merged one takes all arguments. */
static cl_int
enqueue(ClRunner *runner, cl_kernel kernel, const Arguments *arguments, bool is_merged, size_t items, cl_event *event)
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

	for (cl_uint i = 0; i < (is_merged ? 8 : 6) && error == CL_SUCCESS; i++)
		error = api->set_arg(kernel, i, values[i].bytes, values[i].value);
	if (error == CL_SUCCESS)
		error = api->enqueue_kernel(runner->queue, kernel, 1, NULL, &items, &group, 0, NULL, event);
	return error;
}

static HjgStatus
cl_launch(void *arg, const HjgStepLaunch *launch, hjg_u64 *ticket)
{
	ClRunner   *runner = arg;
	const HjgClApi *api = runner->device->api;
	const hjg_u64 started = hjg_arena_now_ns();
	const bool	is_merged = launch->args.unpack_workers > 0;
	cl_kernel	kernel = is_merged ? runner->merged : runner->kernels[launch->step];
	cl_mem		work = region_buffer(runner, launch->work, launch->work_bytes, false);
	cl_mem		table = runner->copies && !hjg_cl_uses_table(launch) ? work :
		region_buffer(runner, launch->table, launch->table_bytes, true);
	cl_mem		user = work;
	cl_mem		packed = NULL;
	const cl_uint step = (cl_uint) launch->step;
	const cl_uint begin = launch->begin;
	const cl_uint end = launch->end;
	HjgStepArgs args = launch->args;
	size_t		ngroups = (end - begin + GROUP_ITEMS - 1) / GROUP_ITEMS;
	size_t		items;
	cl_int		error = CL_SUCCESS;
	HjgClCopies copies;

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
	args.links_later = runner->copies && launch->step == HJG_STEP_B3;
	items = (ngroups + launch->args.unpack_workers) * GROUP_ITEMS;
	if (launch->user != NULL && launch->user != launch->work)
		user = user_buffer(runner, launch, &error);
	if (error == CL_SUCCESS && runner->copies)
	{
		hjg_cl_copies_of(launch, &copies);
		error = copy_in(runner, launch, &copies, work, user);
	}
	if (error == CL_SUCCESS && is_merged)
		packed = api->create_buffer(runner->device->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, launch->packed_bytes,
									(void *) launch->packed, &error);
	if (error == CL_SUCCESS)
	{
		const Arguments arguments = {table, work, user, packed, args, begin, end, step};

		error = enqueue(runner, kernel, &arguments, is_merged, items, &runner->events[runner->nlaunched % MAX_EVENTS]);
		if (error == CL_SUCCESS)
		{
			cl_event   *event = &runner->events[runner->nlaunched % MAX_EVENTS];
			cl_event	linked;

			*ticket = ++runner->nlaunched;
			if (args.links_later)
			{
				error = enqueue(runner, runner->link, &arguments, false, items, &linked);
				if (error == CL_SUCCESS)
					follow(runner, event, linked);
			}
			if (error == CL_SUCCESS && runner->copies)
				error = copy_out(runner, launch, &copies, work, user, event);
			runner->queued_ns[event - runner->events] = runner->copies ? hjg_arena_now_ns() - started : 0;
			if (error == CL_SUCCESS)
				error = api->flush(runner->queue);
			/* the host's memory must not be written any more when this returns */
			else
				api->finish(runner->queue);
		}
	}
	if (!runner->copies && user != work && user != NULL)
		api->release_mem(user);
	if (packed != NULL)
		api->release_mem(packed);
	return error == CL_SUCCESS ? HJG_OK : HJG_ERR_DEVICE;
}

static void
cl_forget(void *arg, const void *memory)
{
	ClRunner   *runner = arg;

	for (int i = 0; i < runner->nregions; i++)
		if (runner->regions[i].base == memory && memory != NULL)
			drop_region(runner, i);
}

static HjgStatus
cl_fetch(void *arg, const void *memory, size_t off, size_t bytes, void *into)
{
	ClRunner   *runner = arg;

	for (int i = 0; i < runner->nregions; i++)
		if (runner->regions[i].base == memory)
			return runner->device->api->enqueue_read(runner->queue, runner->regions[i].buffer, CL_TRUE, off, bytes, into, 0, NULL,
													 NULL) == CL_SUCCESS ? HJG_OK : HJG_ERR_DEVICE;
	return HJG_ERR_DEVICE;
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
	for (int i = 0; i < runner->nregions; i++)
		drop_region(runner, i);
	if (runner->user != NULL)
		api->release_mem(runner->user);
	if (runner->queue != NULL)
		api->release_queue(runner->queue);
	free(runner);
}

/* NULL on failure, when *error says why. */
static cl_kernel
create_kernel(const HjgClDevice *device, int key_width, const char *name, cl_int *error)
{
	cl_kernel	kernel = device->api->create_kernel(device->programs[key_width == 4 ? 0 : key_width == 8 ? 1 : 2], name, error);

	return *error == CL_SUCCESS ? kernel : NULL;
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
	runner->copies = copies;
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
		.fetch = copies ? cl_fetch : NULL,
	};
	runner->queue = api->create_queue(device->context, device->id, CL_QUEUE_PROFILING_ENABLE, &error);
	if (error != CL_SUCCESS)
		runner->queue = NULL;
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
